/* Tasks that are stopped by their timers or by a user, in any phase. */
#include "stops.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the time from the request of its stop to its end. */
static double stop_took(const struct held *held, const char *task)
{
    return field_time(field_event(held, "task_ended", task, 0)) -
           field_time(field_event(held, "cancel_requested", task, 0));
}

/* ---- F1 -------------------------------------------------------------------------------------- */

/* Scopes are what `belay ps` lists, and `belay cancel` takes. */
static void check_two_scopes(void)
{
    static struct run run;
    const char *first = NULL;
    size_t count = 0;
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    BL_JSON_EACH (activity, bl_json_get(answer, BL_TEXT("activities"))) {
        const char *id = stage_text_at(activity, "/id");
        if (strcmp(stage_text_at(activity, "/kind"), "task") != 0)
            continue;
        if (count++ == 0)
            first = id;
        else
            assert_string_not_equal(id, first);
    }
    assert_int_equal(count, 2);
}

static void F1_two_approved_tasks_are_completed(void **state)
{
    struct held held = {0};
    (void)state;
    field_pair(
        field_player("player", stage_printf("%s%s", stops_say("plays"), stops_wait_for("go"))),
        field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("plays-A"));
    stage_await_file(stage_path("plays-B"));
    check_two_scopes();
    field_touch(stage_path("go"));
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_string_equal(stops_text(envelope, "A", "/state"), "completed");
    assert_string_equal(stops_text(envelope, "B", "/state"), "completed");
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);
    scene_expect(stops_journal("FEAT"), "\"feature_ended\"");
    scene_expect_none(stops_journal("FEAT"), "cancel_requested");
    held_end(&held);
}

/* ---- F2, F3, F4 ------------------------------------------------------------------------------ */

struct beside {
    struct held held;
    double limit_s;
    double armed; /* A's timer */
    double began; /* B's Player */
};

/* Stops A by its timer while B runs on until it is released. A has ended when this returns. `slow`:
 * the store takes half a second to save that. */
static void begin_beside(struct beside *beside, bool slow)
{
    for (unsigned attempt = 0;; attempt++) {
        unsigned long limit = stops_limit_ms(attempt, 1000);
        const char *sleeper =
            field_seat("sleeper", stage_printf("%ssleep 60\n", stops_say("plays")));
        field_pair(field_player("player", stage_printf("%s%s%s", stops_say("plays"),
                                                       stops_wait_for("go"), stops_say("played"))),
                   field_coach("coach", ""), "", "");
        stops_own("A", stage_printf("  player: {command: %s}\n  limits: {task_timeout: %lums}\n",
                                    sleeper, limit));
        if (slow)
            field_start_on_bad_disk(&beside->held, "run", "BELAY_TEST_SLOW", stage_path("slow"));
        else
            FEATURE_START(&beside->held, "run", "FEAT");
        beside->limit_s = (double)limit / 1e3;
        beside->armed = field_time(field_await(&beside->held, "deadline_armed", "A", 0));
        if (slow)
            field_touch(stage_path("slow"));
        stage_await_file(stage_path("plays-B"));
        beside->began = field_time(field_event(&beside->held, "phase_started", "B", 0));
        field_await(&beside->held, "task_ended", "A", 0);
        if (stops_there("plays-A"))
            return;
        stops_start_over(&beside->held);
    }
}

static const struct bl_json *end_beside(struct beside *beside)
{
    field_touch(stage_path("go"));
    return field_end_of(&beside->held, 1);
}

static void F2_timer_stops_only_its_task(void **state)
{
    struct beside beside = {0};
    (void)state;
    begin_beside(&beside, false);
    const struct bl_json *stop = field_event(&beside.held, "cancel_requested", "A", 0);
    double after = field_time(stop) - beside.armed;
    /* Times are in whole milliseconds. */
    field_window("F2 the stop at the deadline", after + 0.001, beside.limit_s,
                 beside.limit_s + 0.201);
    assert_string_equal(stage_text_at(stop, "/reason"), "timeout");
    if (stops_soak())
        field_rest(beside.began + 4 - field_now());
    const struct bl_json *envelope = end_beside(&beside);
    assert_string_equal(stops_text(envelope, "A", "/state"), "timed_out");
    assert_string_equal(stops_text(envelope, "A", "/decision"), "timeout");
    assert_string_equal(stops_text(envelope, "B", "/state"), "completed");
    assert_int_equal(field_count(&beside.held, "cancel_requested", NULL), 1);
    assert_int_equal(stage_lines_with(stops_journal("FEAT"), "cancel_requested"), 1);
    held_end(&beside.held);
}

static void F3_stopped_task_has_no_processes_and_its_sibling_keeps_its_own(void **state)
{
    struct beside beside = {0};
    (void)state;
    begin_beside(&beside, false);
    field_window("F3 the task's processes are gone",
                 field_time(field_event(&beside.held, "task_ended", "A", 0)) - beside.armed,
                 beside.limit_s - 0.001, beside.limit_s + 0.5);
    if (stops_soak())
        field_rest(beside.armed + 1.5 - field_now());
    assert_int_equal(field_processes("BELAY_TASK=A", NULL), 0);
    assert_true(field_processes("BELAY_TASK=B", NULL) > 0);
    const char *before = scene_file("plays-B");
    assert_int_equal(kill((pid_t)strtol(before, NULL, 10), 0), 0);
    const struct bl_json *envelope = end_beside(&beside);
    assert_string_equal(stops_text(envelope, "B", "/state"), "completed");
    assert_string_equal(scene_file("played-B"), before);
    assert_int_equal(field_count_phase(&beside.held, "phase_started", "B", "player"), 1);
    held_end(&beside.held);
}

/* Events about A are stored before they are told, however long that takes. */
static void F4_other_process_sees_the_timeout_while_the_sibling_runs(void **state)
{
    struct beside beside = {0};
    (void)state;
    begin_beside(&beside, true);
    const struct bl_json *status = stops_status("A");
    assert_string_equal(stops_text(status, "A", "/state"), "timed_out");
    assert_string_equal(stops_text(status, "B", "/state"), "running");
    assert_string_equal(stops_text(status, "B", "/phase"), "player");
    const char *receipt = stops_text(status, "A", "/receipt");
    assert_int_equal(stage_size_at(status, "/receipts"), 1);
    assert_string_equal(stage_text_at(status, "/receipts/0/id"), receipt);
    assert_string_equal(stage_text_at(status, "/receipts/0/reason"), "timeout");
    assert_int_equal(stage_number_at(status, "/receipts/0/survivors"), 0);
    stops_checkpoint("A", "player", "cancelled_mid_turn", "timeout");
    assert_string_equal(stage_text_at(status, "/checkpoint/triggered_by"), "timer");
    end_beside(&beside);
    held_end(&beside.held);
}

/* ---- F5 -------------------------------------------------------------------------------------- */

static void F5_tree_that_ignores_the_stop_is_killed(void **state)
{
    struct held held = {0};
    unsigned long grace_ms = suite_rounds(200, 2000);
    (void)state;
    for (unsigned attempt = 0; !stops_there("child-A"); attempt++) {
        if (attempt > 0)
            stops_start_over(&held);
        /* The grandchild keeps standard output open, and has its own session. */
        const char *player =
            field_seat("stubborn", stage_printf("trap '' TERM INT HUP\nsetsid sh -c '%s' &\n%s",
                                                stops_stubborn("child"), stops_stubborn("plays")));
        field_pair(field_player("player", ""), field_coach("coach", ""), "", "");
        stops_own("A", stage_printf("  player: {command: %s, grace: %lums}\n"
                                    "  limits: {task_timeout: %lums}\n",
                                    player, grace_ms, stops_limit_ms(attempt, 1000)));
        FEATURE_START(&held, "run", "FEAT");
        field_await(&held, "task_ended", "A", 0);
        if (!stops_there("plays-A"))
            unlink(stage_path("child-A"));
    }
    assert_int_equal(field_processes("BELAY_TASK=A", NULL), 0);
    const struct bl_json *envelope = field_end_of(&held, 1);
    double took = stop_took(&held, "A");
    field_window("F5 a Player that ignores SIGTERM is killed", took, (double)grace_ms / 1e3 - 0.001,
                 (double)grace_ms / 1e3 + 0.2);
    const struct bl_json *receipt = field_event(&held, "receipt", "A", 0);
    assert_int_equal(stage_number_at(receipt, "/receipt/survivors"), 0);
    assert_string_equal(stage_text_at(receipt, "/receipt/units/0/kind"), "command");
    assert_string_equal(stage_text_at(receipt, "/receipt/units/0/fate"), "killed");
    assert_string_equal(stops_text(envelope, "A", "/state"), "timed_out");
    assert_string_equal(stops_text(envelope, "B", "/state"), "completed");
    held_end(&held);
}

static void cancel_of_the_feature_can_skip_the_grace(void **state)
{
    static struct run run;
    struct held held = {0};
    double quiet_ms = 1e9;
    (void)state;
    field_tasks("A", field_player("player", "true"), field_coach("coach", ""), "", "");
    stops_own("A", stage_printf("  player: {command: %s, grace: 60s}\n",
                                field_seat("stubborn", stops_stubborn("plays"))));
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("plays-A"));
    /* It has no deadline of its own, but its task has one. On a busy machine the process may answer
     * too late for one list. */
    const struct bl_json *list = NULL;
    for (unsigned tries = 0;
         tries < 100 && (list == NULL || stage_size_at(list, "/activities") == 0); tries++) {
        RUN(&run, "ps", "--json");
        list = stage_answer(&run, "ps", 0);
    }
    assert_string_equal(stage_text_at(list, "/activities/0/kind"), "feature");
    assert_true(stage_null_at(list, "/activities/0/deadline_left_ms"));
    assert_true(stage_number_at(list, "/activities/1/deadline_left_ms") > 0);
    RUN(&run, "cancel", "--now", "FEAT", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_true(bl_json_double(bl_json_pointer(answer, BL_TEXT("/receipt/quiet_ms")), &quiet_ms));
    assert_true(quiet_ms < 20000);
    const struct bl_json *envelope = field_end_of(&held, 130);
    assert_string_equal(stops_text(envelope, "A", "/state"), "cancelled");
    held_end(&held);
}

/* ---- F6, F7 ---------------------------------------------------------------------------------- */

static void F6_queued_task_is_cancelled_without_a_turn(void **state)
{
    struct held held = {0};
    (void)state;
    field_tasks(
        "A B C",
        field_player("player", stage_printf("%s%s", stops_say("plays"), stops_wait_for("go"))),
        field_coach("coach", ""), "parallel: 1,", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("plays-A"));
    const struct bl_json *answer = stops_cancel("FEAT/B");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    assert_string_equal(stops_text(stops_status("B"), "B", "/state"), "cancelled");
    field_touch(stage_path("go"));
    const struct bl_json *envelope = field_end_of(&held, 1);
    const struct bl_json *row = field_row(envelope, "B");
    assert_string_equal(stage_text_at(row, "/decision"), "cancelled");
    assert_int_equal(stage_number_at(row, "/turn"), 0);
    assert_int_equal(stage_number_at(row, "/turns_counted"), 0);
    assert_true(stage_null_at(row, "/deadline_left_s"));
    assert_int_equal(field_count(&held, "phase_started", "B"), 0);
    assert_int_equal(field_count(&held, "deadline_armed", "B"), 0);
    assert_int_equal(field_count(&held, "task_turn_started", "B"), 0);
    assert_string_equal(stops_text(envelope, "A", "/state"), "completed");
    assert_string_equal(stops_text(envelope, "C", "/state"), "completed");
    stops_checkpoint("B", "loop_top", "cancelled", "user");
    held_end(&held);
}

static void F7_no_coach_runs_after_a_stop_during_the_player(void **state)
{
    struct held held = {0};
    (void)state;
    field_tasks("A", field_player("player", stage_printf("%ssleep 60", stops_say("plays"))),
                field_coach("coach", stops_say("judges")), "", "  verify: {commands: ['true']}\n");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("plays-A"));
    stops_cancel("FEAT/A");
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(stops_text(envelope, "A", "/state"), "cancelled");
    assert_false(stops_there("judges-A"));
    assert_int_equal(field_count(&held, "phase_started", "A"), 1);
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "player"), 1);
    stops_checkpoint("A", "player", "cancelled_mid_turn", "user");
    held_end(&held);
}

static void F7_stop_while_paused_is_seen_at_loop_top(void **state)
{
    struct held held = {0};
    double end = field_now() + 30;
    (void)state;
    field_tasks("A", field_player("player", ""),
                field_coach("coach", stage_printf("%s%sverdict feedback rejected "
                                                  "'[{\"severity\":\"major\","
                                                  "\"description\":\"more\"}]'\nexit 0",
                                                  stops_say("judges"), stops_wait_for("go"))),
                "", "");
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("judges-A"));
    FEATURE_RUN(0, "pause", "FEAT");
    field_touch(stage_path("go"));
    /* When that is in the store, the task continues to the point where it is held. */
    while (strstr(stops_journal("FEAT"), "task_turn_ended") == NULL && field_now() < end)
        field_rest(0.01);
    stops_cancel("FEAT/A");
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(stops_text(envelope, "A", "/decision"), "cancelled");
    assert_int_equal(field_count(&held, "task_turn_started", "A"), 1);
    stops_checkpoint("A", "loop_top", "cancelled", "user");
    held_end(&held);
}

/* ---- F8 -------------------------------------------------------------------------------------- */

static void F8_verification_over_its_own_limit_is_absent(void **state)
{
    struct held held = {0};
    unsigned long limit = suite_rounds(200, 1000);
    (void)state;
    field_tasks("A", field_player("player", ""), field_coach("coach", ""), "",
                stage_printf("  verify: {commands: ['grep -q \"turn 2\" A.txt || sleep 60'], "
                             "timeout: %lums}\n",
                             limit));
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *verified = field_await(&held, "verify_ended", "A", 0);
    assert_string_equal(stage_text_at(verified, "/value"), "absent");
    const struct bl_json *envelope = field_end_of(&held, 0);
    const struct bl_json *phase = field_await_phase(&held, "phase_ended", "A", "verify", 0);
    field_window("F8 the end of a verification over its limit",
                 (double)stage_number_at(phase, "/ms") / 1e3, (double)limit / 1e3,
                 (double)limit / 1e3 + 1);
    assert_string_equal(stage_text_at(phase, "/outcome"), "ended");
    scene_turn(&held, "A", 1, "feedback");
    scene_turn(&held, "A", 2, "approve");
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "player"), 2);
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);
    assert_string_equal(stops_text(envelope, "A", "/state"), "completed");
    assert_string_equal(stops_text(envelope, "A", "/verified"), "passed");
    held_end(&held);
}

static void F8_no_coach_runs_after_a_stop_during_verification(void **state)
{
    struct held held = {0};
    double end = field_now() + 30;
    (void)state;
    field_tasks("A", field_player("player", ""), field_coach("coach", stops_say("judges")), "",
                "  verify: {commands: ['exec sleep 61']}\n");
    FEATURE_START(&held, "run", "FEAT");
    field_await_phase(&held, "phase_started", "A", "verify", 0);
    while (field_processes("BELAY_PHASE=verify", NULL) == 0 && field_now() < end)
        field_rest(0.005);
    stops_cancel("FEAT/A");
    assert_int_equal(field_processes("BELAY_PHASE=verify", NULL), 0);
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(stops_text(envelope, "A", "/state"), "cancelled");
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "coach"), 0);
    assert_false(stops_there("judges-A"));
    stops_checkpoint("A", "verify", "cancelled_mid_turn", "user");
    held_end(&held);
}

SUITE(stop, FIELD(F1_two_approved_tasks_are_completed), FIELD(F2_timer_stops_only_its_task),
      FIELD(F3_stopped_task_has_no_processes_and_its_sibling_keeps_its_own),
      FIELD(F4_other_process_sees_the_timeout_while_the_sibling_runs),
      FIELD(F5_tree_that_ignores_the_stop_is_killed),
      FIELD(cancel_of_the_feature_can_skip_the_grace),
      FIELD(F6_queued_task_is_cancelled_without_a_turn),
      FIELD(F7_no_coach_runs_after_a_stop_during_the_player),
      FIELD(F7_stop_while_paused_is_seen_at_loop_top),
      FIELD(F8_verification_over_its_own_limit_is_absent),
      FIELD(F8_no_coach_runs_after_a_stop_during_verification));
