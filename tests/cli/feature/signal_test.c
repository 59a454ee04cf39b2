#include "records.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the path of a file below the stage, for a script. */
static const char *at(const char *name)
{
    return stage_path(name);
}

static void assert_none_lives(const char *const *tasks)
{
    for (; *tasks != NULL; tasks++)
        assert_int_equal(field_processes(stage_printf("BELAY_TASK=%s", *tasks), NULL), 0);
}

/* Checks that every receipt of an envelope has no survivors. */
static void assert_no_survivors(const struct bl_json *envelope, size_t at_least)
{
    size_t count = 0;
    BL_JSON_EACH (receipt, bl_json_get(envelope, BL_TEXT("receipts"))) {
        assert_int_equal(stage_number_at(receipt, "/survivors"), 0);
        count++;
    }
    assert_true(count >= at_least);
}

/* ---- Draining -------------------------------------------------------------------------------- */

/* Checks that no phase starts after the drain has started. */
static void assert_nothing_begins(const struct held *held)
{
    size_t draining = field_line(held, field_event(held, "feature_draining", NULL, 0));
    size_t count = field_count(held, "phase_started", NULL);
    for (size_t i = 0; i < count; i++)
        assert_true(field_line(held, field_event(held, "phase_started", NULL, i)) < draining);
}

/* A sleeps, B ends in the middle of the drain, C waits for a slot. */
static void drain_by(int number, const char *name, int exit_code)
{
    unsigned long drain_ms = suite_rounds(300, 2000);
    struct held held = {0};
    field_tasks("A B C",
                field_player("player", stage_printf("touch %s-$BELAY_TASK\n"
                                                    "[ $BELAY_TASK = A ] && exec sleep 30\n"
                                                    "while [ ! -e %s ]; do sleep 0.01; done",
                                                    at("ready"), at("go"))),
                field_coach("coach", ""), stage_printf("drain: %lums, parallel: 2,", drain_ms),
                "  verify: {commands: ['true']}\n");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(at("ready-A"));
    stage_await_file(at("ready-B"));
    double signalled = field_now();
    kill(held.pid, number);
    const struct bl_json *draining = field_await(&held, "feature_draining", NULL, 0);
    assert_string_equal(stage_text_at(draining, "/origin"), name);
    field_touch(at("go"));
    const struct bl_json *envelope = field_end_of(&held, exit_code);
    assert_nothing_begins(&held);
    assert_int_equal(field_count_phase(&held, "phase_ended", "B", "player"), 1);
    double stopped = field_time(field_event(&held, "cancel_requested", "A", 0));
    double quiet = field_time(field_event(&held, "feature_ended", NULL, 0));
    assert_true(stopped - signalled > (double)drain_ms / 1e3 - 0.005);
    field_window("F20 quiet after the drain", quiet - signalled, (double)drain_ms / 1e3 - 0.005,
                 (double)drain_ms / 1e3 + 0.3);
    assert_none_lives((const char *const[]){"A", "B", "C", NULL});
    assert_string_equal(stage_text_at(envelope, "/state"), "cancelled");
    assert_no_survivors(envelope, 1);
    bool ended =
        strcmp(stage_text_at(field_event(&held, "phase_ended", "B", 0), "/outcome"), "ended") == 0;
    const char *const phases[][2] = {
        {"A", "player"}, {"B", ended ? "between" : "player"}, {"C", "loop_top"}};
    for (size_t i = 0; i < BL_COUNT(phases); i++) {
        const struct bl_json *row = field_row(envelope, phases[i][0]);
        assert_string_equal(stage_text_at(row, "/state"), "cancelled");
        assert_string_equal(stage_text_at(row, "/reason"), "signal");
        assert_string_equal(stage_text_at(row, "/triggered_by"), name);
        assert_string_equal(stage_text_at(row, "/checkpoint/phase"), phases[i][1]);
    }
    held_end(&held);
}

static void F20_sigint_drains_and_stops(void **state)
{
    (void)state;
    drain_by(SIGINT, "SIGINT", 130);
}

static void F20_sigterm_drains_and_stops(void **state)
{
    (void)state;
    drain_by(SIGTERM, "SIGTERM", 143);
}

static void F21_phase_that_ends_during_the_drain_is_kept(void **state)
{
    struct held held = {0}, next = {0};
    (void)state;
    field_tasks("A",
                field_player("player", stage_printf("touch %s\n"
                                                    "while [ ! -e %s ]; do sleep 0.01; done",
                                                    at("ready"), at("go"))),
                field_coach("coach", ""), "", "  verify: {commands: ['test -e A.txt']}\n");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(at("ready"));
    kill(held.pid, SIGINT);
    const struct bl_json *draining = field_await(&held, "feature_draining", NULL, 0);
    field_rest((double)suite_rounds(0, 1));
    field_touch(at("go"));
    const struct bl_json *row = field_row(field_end_of(&held, 130), "A");
    const struct bl_json *commit = field_event(&held, "commit_made", "A", 0);
    assert_non_null(commit);
    assert_true(field_line(&held, commit) > field_line(&held, draining));
    assert_string_equal(field_git_output("log -1 --format=%s belay/FEAT/A"),
                        "belay: FEAT/A turn 1");
    assert_string_equal(field_git_output("rev-parse belay/FEAT/A"),
                        stage_text_at(commit, "/commit"));
    assert_string_equal(stage_text_at(row, "/checkpoint/phase"), "between");
    assert_nothing_begins(&held);
    /* Its phases had ended: there was nothing left to wait for. */
    assert_true(field_time(field_event(&held, "feature_ended", NULL, 0)) - field_time(commit) < 8);
    FEATURE_START(&next, "resume", "FEAT");
    row = field_row(field_end_of(&next, 0), "A");
    assert_string_equal(stage_text_at(row, "/state"), "completed");
    assert_string_equal(stage_text_at(row, "/verified"), "passed");
    const struct bl_json *first = field_event(&next, "phase_started", "A", 0);
    assert_string_equal(stage_text_at(first, "/phase"), "verify");
    assert_int_equal(stage_number_at(first, "/turn"), 2);
    assert_int_equal(field_count_phase(&next, "phase_started", "A", "player"), 0);
    held_end(&held);
    held_end(&next);
}

static void F22_second_sigint_stops_at_once(void **state)
{
    static const char *const tasks[] = {"A", "B", "C", NULL};
    struct held held = {0};
    (void)state;
    field_tasks("A B C",
                field_player("player", stage_printf("trap '' TERM INT HUP\n"
                                                    "setsid sleep 60 &\n"
                                                    "touch %s-$BELAY_TASK\nsleep 60",
                                                    at("ready"))),
                field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT");
    for (size_t i = 0; tasks[i] != NULL; i++)
        stage_await_file(at(stage_printf("ready-%s", tasks[i])));
    double first = field_now();
    kill(held.pid, SIGINT);
    field_await(&held, "feature_draining", NULL, 0);
    field_rest(0.1 - (field_now() - first));
    double second = field_now();
    kill(held.pid, SIGINT);
    held_wait(&held);
    double took = field_now() - second;
    field_bound("F22 the exit after the second signal", took, 0.2);
    assert_none_lives(tasks);
    assert_int_equal(held_count(&held), 0);
    assert_int_equal(held.exit_code, 130);
    const struct bl_json *envelope = stage_json(stage_last_line(stage_output(&held)));
    assert_no_survivors(envelope, 1);
    for (size_t i = 0; tasks[i] != NULL; i++) {
        const struct bl_json *status = field_status(stage_printf("FEAT/%s", tasks[i]));
        const struct bl_json *row = field_row(status, tasks[i]);
        assert_string_equal(stage_text_at(row, "/state"), "cancelled");
        assert_string_equal(stage_text_at(row, "/checkpoint/phase"), "player");
        assert_string_equal(stage_text_at(row, "/checkpoint/marker"), "cancelled_mid_turn");
        const struct bl_json *receipt =
            records_get(stage_printf("receipt/%s", stage_text_at(row, "/checkpoint/receipt")));
        assert_non_null(receipt);
        assert_int_equal(stage_number_at(receipt, "/survivors"), 0);
    }
    held_end(&held);
}

/* ---- Ownership ------------------------------------------------------------------------------- */

static void await_stopped(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (strstr(text, ") T ") == NULL) {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        size_t size = fread(text, 1, sizeof text - 1, file);
        text[size] = '\0';
        fclose(file);
        field_rest(0.001);
    }
}

/* Stops the runner while it does not hold the store's lock, and lets its lease expire. */
static void stop_past_lease(const struct held *held)
{
    for (;;) {
        kill(held->pid, SIGSTOP);
        await_stopped(held->pid);
        if (records_change("UPDATE feature_lease SET until = 1"))
            return;
        kill(held->pid, SIGCONT);
        field_rest(0.005);
    }
}

static void F27_former_owner_writes_nothing(void **state)
{
    struct held ghost = {0}, heir = {0};
    (void)state;
    field_tasks("A",
                field_player("player", stage_printf("touch %s-$BELAY_ATTEMPT\n"
                                                    "[ $BELAY_ATTEMPT = 1 ] && exec sleep 60",
                                                    at("ready"))),
                field_coach("coach", ""), "", "");
    setenv("BELAY_HOST", "here.test", 1);
    FEATURE_START(&ghost, "run", "FEAT");
    stage_await_file(at("ready-1"));
    stop_past_lease(&ghost);
    setenv("BELAY_HOST", "there.test", 1);
    FEATURE_START(&heir, "run", "FEAT");
    unsetenv("BELAY_HOST");
    const struct bl_json *row = field_row(field_end_of(&heir, 0), "A");
    assert_string_equal(stage_text_at(row, "/state"), "completed");
    assert_int_equal(stage_number_at(row, "/attempt"), 2);
    const char *before = records_all();
    const char *refs = field_git_output("for-each-ref");
    assert_int_equal(field_count(&ghost, "stale_write_refused", NULL), 0);
    kill(ghost.pid, SIGCONT);
    const struct bl_json *envelope = field_end_of(&ghost, 1);
    assert_int_equal(field_count(&ghost, "stale_write_refused", NULL), 1);
    /* It does not tell what it could not save. */
    assert_int_equal(field_count(&ghost, "task_ended", NULL), 0);
    assert_int_equal(field_count(&ghost, "checkpoint_saved", NULL), 0);
    assert_string_equal(records_all(), before);
    assert_string_equal(field_git_output("for-each-ref"), refs);
    assert_string_equal(stage_text_at(envelope, "/error/kind"), "session");
    assert_int_equal(field_processes("BELAY_TASK=A", NULL), 0);
    assert_string_equal(stage_text_at(field_row(field_status("FEAT"), "A"), "/state"), "completed");
    held_end(&ghost);
    held_end(&heir);
}

static void F28_live_owner_is_named_and_a_reused_pid_is_not_mistaken_for_it(void **state)
{
    struct held held = {0}, next = {0};
    (void)state;
    field_tasks("A",
                field_player("player", stage_printf("touch %s-$BELAY_ATTEMPT\n"
                                                    "[ $BELAY_ATTEMPT = 1 ] && exec sleep 60",
                                                    at("ready"))),
                field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(at("ready-1"));
    const struct run *run = FEATURE_RUN(1, "run", "FEAT", "--json");
    assert_non_null(strstr(stage_text_at(stage_json(run->out), "/error/message"),
                           stage_printf("pid %d ", (int)held.pid)));
    run = FEATURE_RUN(1, "run", "FEAT");
    assert_non_null(strstr(run->err, stage_printf("pid %d ", (int)held.pid)));
    assert_int_equal(field_processes("BELAY_TASK=A", NULL), 1);
    kill(held.pid, SIGKILL);
    held_wait(&held);
    field_await_processes("BELAY_TASK=A", 0);
    /* In the store, its pid is now this test's. */
    assert_true(records_change(stage_printf("UPDATE feature_lease SET pid = %d", (int)getpid())));
    double from = field_now();
    FEATURE_START(&next, "run", "FEAT");
    double took = field_time(field_await(&next, "feature_started", NULL, 0)) - from;
    field_bound("F28 a takeover from a reused pid", took, 1);
    const struct bl_json *row = field_row(field_end_of(&next, 0), "A");
    assert_string_equal(stage_text_at(row, "/state"), "completed");
    assert_int_equal(stage_number_at(row, "/attempt"), 2);
    held_end(&held);
    held_end(&next);
}

SUITE(signal, FIELD(F20_sigint_drains_and_stops), FIELD(F20_sigterm_drains_and_stops),
      FIELD(F21_phase_that_ends_during_the_drain_is_kept), FIELD(F22_second_sigint_stops_at_once),
      FIELD(F27_former_owner_writes_nothing),
      FIELD(F28_live_owner_is_named_and_a_reused_pid_is_not_mistaken_for_it));
