/* Stops and approvals at the same moment, or one slightly too late; and a stop that is requested a
 * thousand times. */
#include "stops.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Records the instant at which the task's timer fires, as told to the task. */
static const char *note_fire(void)
{
    return stage_printf("%secho $(($(now_us) + BELAY_DEADLINE_MS * 1000)) > %s-$BELAY_TASK\n",
                        stops_clock(), stage_path("fire"));
}

/* ---- F9, F10, F11: the Coach and the timer --------------------------------------------------- */

static void F9_approval_after_the_timer_does_not_count(void **state)
{
    struct held held = {0};
    const struct bl_json *envelope = NULL;
    (void)state;
    for (unsigned attempt = 0; !stops_there("judges-A"); attempt++) {
        if (attempt > 0)
            stops_start_over(&held);
        /* Not even the stop prevents its verdict. */
        const char *late = stage_printf("trap '' TERM\n%s%s"
                                        "until_us $(($(now_us) + BELAY_DEADLINE_MS * 1000 + "
                                        "100000))",
                                        stops_say("judges"), stops_clock());
        field_tasks("A", field_player("player", ""), field_coach("coach", late),
                    stage_printf("task_timeout: %lums,", stops_limit_ms(attempt, 1000)), "");
        FEATURE_START(&held, "run", "FEAT");
        envelope = field_end_of(&held, 1);
    }
    assert_string_equal(stops_text(envelope, "A", "/state"), "timed_out");
    assert_string_equal(stops_text(envelope, "A", "/decision"), "timeout");
    assert_false(stage_true_at(field_row(envelope, "A"), "/merged"));
    assert_true(stage_null_at(envelope, "/result_commit"));
    assert_int_equal(field_count(&held, "verdict", "A"), 0);
    stops_checkpoint("A", "coach", "cancelled_mid_turn", "timeout");
    /* The verdict is recorded as too late. */
    assert_string_equal(stage_text_at(stops_status("A"), "/checkpoint/late_verdict/decision"),
                        "approve");
    held_end(&held);
}

struct graced {
    unsigned long limit_ms, grace_ms, verdict_ms; /* the last two are counted from the timer */
};

/* A approves within the grace, B after it, C gives feedback within it; later all approve. */
static void plan_graced(const struct graced *times)
{
    const char *coach = stage_printf(
        "%sfire=$(cat %s-$BELAY_TASK)\necho ${BELAY_DEADLINE_MS:-none} > %s-$BELAY_TASK\n"
        "[ -e %s ] && { verdict approve verified '[]'; exit 0; }\n%s"
        "[ $BELAY_TASK = B ] && until_us $((fire + %lu000))\n"
        "until_us $((fire + %lu000))\nnow_us > %s-$BELAY_TASK\n"
        "[ $BELAY_TASK = C ] && { verdict feedback rejected '[{\"severity\":\"major\","
        "\"description\":\"the colour of the shed is wrong\"}]'; exit 0; }\n",
        stops_clock(), stage_path("fire"), stage_path("told"), stage_path("calm"),
        stops_say("judges"), times->grace_ms + times->verdict_ms, times->verdict_ms,
        stage_path("judged"));
    field_tasks(
        "A B C", scene_player(note_fire()), field_coach("coach", coach),
        stage_printf("task_timeout: %lums, coach_grace: %lums,", times->limit_ms, times->grace_ms),
        "");
}

static long long read_us(const char *name, const char *task)
{
    const char *file = stage_printf("%s-%s", name, task);
    return stops_there(file) ? strtoll(scene_file(file), NULL, 10) : INT64_MAX;
}

/* Returns whether the verdict came in the first half of the grace. */
static bool in_time(const struct graced *times, const char *task)
{
    return read_us("judged", task) - (long long)times->grace_ms * 500 < read_us("fire", task);
}

/* Returns false if the machine was too slow for these times. */
static bool run_graced(struct held *held, const struct graced *times)
{
    plan_graced(times);
    FEATURE_START(held, "run", "FEAT");
    held_wait(held);
    return in_time(times, "A") && in_time(times, "C") && stops_there("judges-B");
}

static void check_graced(const struct held *held, const struct graced *times)
{
    const struct bl_json *envelope = stage_json(stage_last_line(stage_output(held)));
    double verdict_s = (double)times->verdict_ms / 1e3, grace_s = (double)times->grace_ms / 1e3;
    double late_ms = 0;
    assert_string_equal(stops_text(envelope, "A", "/state"), "completed");
    assert_string_equal(stops_text(envelope, "A", "/decision"), "approved_late");
    const struct bl_json *ended = field_event(held, "task_ended", "A", 0);
    assert_true(bl_json_double(bl_json_get(ended, BL_TEXT("late_ms")), &late_ms));
    field_window("F10 a late approval", late_ms / 1e3, verdict_s - 0.2, verdict_s + 0.2);
    assert_int_equal(field_count(held, "receipt", "A"), 1);
    assert_string_equal(stops_text(envelope, "B", "/decision"), "timeout");
    double cut =
        field_time(field_await_phase((struct held *)held, "phase_ended", "B", "coach", 0)) -
        field_time(field_event(held, "cancel_requested", "B", 0));
    /* The grace counts from the timer; on a slow machine the event comes slightly later. */
    field_window("F10 the end of the coach grace", cut + 0.001, grace_s - 0.3, grace_s + 0.201);
    assert_int_equal(field_count(held, "verdict", "B"), 0);
    assert_string_equal(stops_text(envelope, "C", "/decision"), "timeout");
    assert_string_equal(stops_text(envelope, "C", "/state"), "timed_out");
    stops_checkpoint("C", "after_turn", "cancelled", "timeout");
    /* The Coach's time left is the time until it is stopped. */
    unsigned long left_ms = strtoul(scene_file("told-A"), NULL, 10);
    assert_in_range(left_ms, 1, times->limit_ms + times->grace_ms);
    if (stops_soak())
        assert_true(left_ms > times->grace_ms);
}

static void F10_grace_allows_only_an_approval_and_ends(void **state)
{
    struct held held = {0};
    struct graced times = {500, 900, 300};
    (void)state;
    if (stops_soak())
        times = (struct graced){2000, 5000, 2000};
    for (unsigned attempt = 0; !run_graced(&held, &times); attempt++) {
        assert_true(attempt < 3);
        times = (struct graced){2 * times.limit_ms, 3 * times.grace_ms, times.verdict_ms};
        stops_start_over(&held);
    }
    assert_int_equal(held.exit_code, 1);
    check_graced(&held, &times);
    held_end(&held);
    field_touch(stage_path("calm"));
    FEATURE_START(&held, "resume", "FEAT", "--task-timeout", "60s");
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_string_equal(stops_text(envelope, "C", "/decision"), "approved");
    scene_expect(scene_file("seats/C-2.prompt"), "the colour of the shed is wrong");
    held_end(&held);
}

static void F11_cancel_gets_no_grace(void **state)
{
    struct held held = {0};
    unsigned long grace_ms = suite_rounds(200, 2000);
    (void)state;
    for (unsigned attempt = 0;; attempt++) {
        field_pair(field_player("player", ""), field_coach("coach", stops_stubborn("judges")),
                   "coach_grace: 60s,", "");
        /* A's timer has fired when the cancel comes, B's has not. */
        stops_own("A", stage_printf("  coach: {command: [sh, %s], grace: %lums}\n"
                                    "  limits: {task_timeout: %lums}\n",
                                    stage_path("seats/coach.sh"), grace_ms,
                                    stops_limit_ms(attempt, 1000)));
        stops_own("B", stage_printf("  coach: {command: [sh, %s], grace: %lums}\n",
                                    stage_path("seats/coach.sh"), grace_ms));
        FEATURE_START(&held, "run", "FEAT");
        field_await(&held, "cancel_requested", "A", 0);
        if (stops_there("judges-A"))
            break;
        stops_start_over(&held);
    }
    field_await(&held, "grace_started", "A", 0);
    stage_await_file(stage_path("judges-B"));
    const struct bl_json *answer = stops_cancel("FEAT");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_int_equal(field_processes("BELAY_FEATURE=FEAT", NULL), 0);
    const struct bl_json *envelope = field_end_of(&held, 130);
    double asked = field_time(field_event(&held, "cancel_requested", "B", 0));
    double quiet = 0;
    bl_json_double(bl_json_pointer(answer, BL_TEXT("/receipt/quiet_ms")), &quiet);
    field_window("F11 quiet after a cancel", quiet / 1e3, (double)grace_ms / 1e3 - 0.001,
                 (double)grace_ms / 1e3 + 0.2);
    for (const char *task = "A\0B\0"; *task != '\0'; task += 2) {
        assert_string_equal(stops_text(envelope, task, "/state"), "cancelled");
        assert_string_equal(stops_text(envelope, task, "/decision"), "cancelled");
        assert_string_equal(stops_text(envelope, task, "/reason"), "user");
        stops_checkpoint(task, "coach", "cancelled_mid_turn", "user");
        field_window("F11 the end of a task after a cancel",
                     field_time(field_event(&held, "task_ended", task, 0)) - asked + 0.001,
                     (double)grace_ms / 1e3 - 0.001, (double)grace_ms / 1e3 + 0.201);
    }
    held_end(&held);
}

/* ---- F12 ------------------------------------------------------------------------------------- */

#define CANCELLERS 8

/* Runs `count` cancels in another process, `width` at a time, with their answers in one file.
 * Returns how many did not exit with 0. */
static unsigned cancel_often(unsigned long count, unsigned long width, const char *path)
{
    const char *const words[] = {runner_program(), "feature", "cancel", "FEAT/A", "--json", NULL};
    posix_spawn_file_actions_t actions;
    unsigned failed = 0;
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path, O_WRONLY | O_APPEND, 0);
    while (count > 0) {
        unsigned long started = 0, now = count < width ? count : width;
        for (; started < now; started++) {
            pid_t pid;
            if (posix_spawn(&pid, words[0], &actions, NULL, (char **)words, environ) != 0)
                break;
        }
        failed += started < now;
        for (unsigned long i = 0; i < started; i++) {
            int status;
            failed += wait(&status) < 0 || status != 0;
        }
        count -= now;
    }
    return failed;
}

static void check_answers(const char *path, unsigned long count)
{
    const char *line = scene_file(path), *receipt = NULL;
    unsigned long seen = 0, receipts = 0;
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1, seen++) {
        const struct bl_json *answer =
            stage_json(stage_keep((struct bl_text){line, (size_t)(end - line)}));
        if (stage_null_at(answer, "/receipt")) {
            assert_true(stage_true_at(answer, "/already"));
            continue;
        }
        const char *id = stage_text_at(answer, "/receipt/id");
        assert_string_equal(receipt != NULL ? receipt : id, id);
        receipt = id;
        receipts++;
    }
    print_message("%lu of %lu cancels were answered with the receipt\n", receipts, seen);
    assert_int_equal(seen, count);
    assert_true(receipts > 0);
}

static void F12_a_thousand_cancels_give_one_receipt(void **state)
{
    struct held held = {0};
    unsigned long each = suite_rounds(80, 1000) / CANCELLERS;
    pid_t pids[CANCELLERS];
    (void)state;
    field_pair(field_player("player", stage_printf("%s[ $BELAY_TASK = A ] || %s"
                                                   "trap '' TERM\n%s",
                                                   stops_say("plays"), stops_wait_for("go"),
                                                   stops_wait_for("go"))),
               field_coach("coach", ""), "", "");
    stops_own("A", stage_printf("  player: {command: [sh, %s], grace: %lums}\n",
                                stage_path("seats/player.sh"), suite_rounds(500, 2000)));
    field_touch(stage_path("answers"));
    FEATURE_START(&held, "run", "FEAT");
    stage_await_file(stage_path("plays-A"));
    stage_await_file(stage_path("plays-B"));
    for (size_t i = 0; i < CANCELLERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(cancel_often(each, 8, stage_path("answers")) == 0 ? 0 : 1);
    }
    for (size_t i = 0; i < CANCELLERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    field_touch(stage_path("go"));
    const struct bl_json *envelope = field_end_of(&held, 1);
    check_answers("answers", each * CANCELLERS);
    static const char *const once[] = {"cancel_requested", "receipt", "checkpoint_saved",
                                       "task_ended"};
    for (size_t i = 0; i < BL_COUNT(once); i++) {
        assert_int_equal(field_count(&held, once[i], "A"), 1);
        const char *told = stops_journal("FEAT/A");
        assert_int_equal(stage_lines_with(told, stage_printf("\"type\":\"%s\"", once[i])), 1);
    }
    assert_int_equal(stage_size_at(envelope, "/receipts"), 1);
    assert_string_equal(stops_text(envelope, "A", "/state"), "cancelled");
    assert_string_equal(stops_text(envelope, "B", "/state"), "completed");
    held_end(&held);
}

/* ---- F13 ------------------------------------------------------------------------------------- */

#define RACE_NEAR_S  0.002
#define RACERS       5  /* in parallel, in the short form: they mostly wait */
#define RACES_HERE   25 /* in one repository */
#define RACES_BEYOND 50 /* extra races until both outcomes have occurred */

/* Approval and timer at the same moment. The Coach ends `lead_us` before the timer. The time from
 * there to the approval is found by aiming: later after an approval, earlier after a timeout. */
struct race {
    unsigned long count;
    unsigned long limit_ms;
    long lead_us, step_us;
    bool earlier;   /* direction of the last step */
    unsigned same;  /* number of steps in that direction before */
    bool too_short; /* the limit is too short for a Coach to start */
    unsigned approvals, timeouts;
    unsigned near; /* approvals at the last moment */
    unsigned lost; /* timeouts with a complete verdict */
};

static void write_race(void)
{
    field_task("A", "");
    field_player("player", "");
    field_coach("coach", stage_printf("%suntil_us $(($(now_us) + BELAY_DEADLINE_MS * 1000 - "
                                      "$(cat %s-$BELAY_FEATURE)))",
                                      stops_clock(), stage_path("lead")));
}

static bool is_text_race(unsigned long number)
{
    return number % 2 == 1;
}

static void start_race(struct held *held, const struct race *race, unsigned long number)
{
    const char *id = stage_printf("R%lu", number);
    field_write(stage_printf("../lead-%s", id), stage_printf("%ld", race->lead_us));
    field_write(stage_printf(".belay/features/%s.yaml", id),
                stage_printf("id: %s\nname: A race\ntasks: [{id: A, file_path: tasks/A.md}]\n"
                             "belay:\n"
                             "  player: {command: [sh, %s]}\n"
                             "  coach: {command: [sh, %s]}\n"
                             "  limits: {task_timeout: %lums, min_turn_budget: 0s}\n",
                             id, stage_path("seats/player.sh"), stage_path("seats/coach.sh"),
                             race->limit_ms));
    START(held, "feature", "run", id, "--output-format",
          is_text_race(number) ? "text" : "stream-json");
}

/* Checks that the text names that decision, and no other. */
static void check_words(const char *text, bool approved)
{
    assert_non_null(text);
    scene_expect(text, approved ? "approved" : "timed");
    scene_expect_none(text, approved ? "timed" : "approved");
}

/* Checks the output of the run. */
static void check_output(const struct held *held, bool text, const char *decision)
{
    bool approved = strcmp(decision, "approved") == 0;
    assert_int_equal(held->exit_code, approved ? 0 : 1);
    if (text) {
        check_words(strstr(stage_output(held), " A turn 1 coach: starts"), approved);
        return;
    }
    const struct bl_json *envelope = stage_json(stage_last_line(stage_output(held)));
    assert_string_equal(stops_text(envelope, "A", "/decision"), decision);
    assert_int_equal(field_count(held, "task_ended", "A"), 1);
    const struct bl_json *event = field_event(held, "task_ended", "A", 0);
    assert_string_equal(stage_text_at(event, "/decision"), decision);
}

/* Returns the only end in the journal. */
static const struct bl_json *find_end(const char *journal)
{
    static const char mark[] = "{\"type\":\"task_ended\"";
    const char *found = strstr(journal, mark);
    assert_non_null(found);
    assert_null(strstr(found + 1, mark));
    return stage_json(stage_keep((struct bl_text){found, strcspn(found, "\n")}));
}

static void end_race(struct held *held, struct race *race, unsigned long number)
{
    const char *id = stage_printf("R%lu", number);
    double elapsed_s = 0;
    held_wait(held);
    if (held->exit_code > 1)
        fail_msg("exit code %d: %.2000s", held->exit_code, held_err(held));
    const struct bl_json *status =
        stage_answer(FEATURE_RUN(0, "status", id, "--json"), "feature", 0);
    const char *decision = stops_text(status, "A", "/decision");
    bool approved = strcmp(decision, "approved") == 0;
    if (!approved)
        assert_string_equal(decision, "timeout");
    assert_string_equal(stops_text(status, "A", "/state"), approved ? "completed" : "timed_out");
    const char *journal = stops_journal(id);
    const struct bl_json *ended = find_end(journal);
    assert_string_equal(stage_text_at(ended, "/decision"), decision);
    if (strstr(journal, "\"phase\":\"coach\"") == NULL) {
        race->too_short = true; /* no race: the Coach had not started */
    } else {
        check_output(held, is_text_race(number), decision);
        check_words(strstr(FEATURE_RUN(0, "status", id)->out, "Wave 1"), approved);
        assert_true(bl_json_double(bl_json_get(ended, BL_TEXT("elapsed_s")), &elapsed_s));
        race->near += approved && (double)race->limit_ms / 1e3 - elapsed_s <= RACE_NEAR_S;
        race->lost += !approved && strstr(journal, "{\"type\":\"verdict\"") != NULL;
        race->approvals += approved;
        race->timeouts += !approved;
        race->count++;
    }
    held_end(held);
}

/* Halves the step with each change of direction, and enlarges it again when the machine's speed has
 * changed. */
static void aim(struct race *race, bool earlier)
{
    if (race->too_short) {
        race->limit_ms = race->limit_ms * 3 / 2;
        race->too_short = false;
        return;
    }
    race->same = earlier == race->earlier ? race->same + 1 : 0;
    if (race->same == 0 && race->step_us > 1000)
        race->step_us /= 2;
    else if (race->same > 2 && race->step_us < 64000)
        race->step_us *= 2;
    race->earlier = earlier;
    race->lead_us += earlier ? race->step_us : -race->step_us;
}

static void F13_approval_and_timer_together_give_one_decision_everywhere(void **state)
{
    struct race race = {
        .limit_ms = SUITE_SANITIZED ? 800 : 400, .lead_us = 60000, .step_us = 32000};
    struct held held[RACERS] = {{0}};
    unsigned long rounds = suite_rounds(15, 1000), width = suite_rounds(RACERS, 1), number = 0;
    (void)state;
    write_race();
    while (race.count < rounds ||
           ((race.approvals == 0 || race.timeouts == 0) && race.count < rounds + RACES_BEYOND)) {
        unsigned timeouts = race.timeouts;
        for (unsigned long i = 0; i < width; i++)
            start_race(&held[i], &race, number + i);
        for (unsigned long i = 0; i < width; i++)
            end_race(&held[i], &race, number + i);
        aim(&race, 2 * (race.timeouts - timeouts) > width);
        number += width;
        if (number % RACES_HERE == 0) {
            stops_start_over(&held[0]);
            write_race();
        }
    }
    print_message("%u approvals (%u of them within 2 ms of the timer), %u timeouts (%u of them "
                  "with the verdict there); the Coach ends %.1f ms before the timer\n",
                  race.approvals, race.near, race.timeouts, race.lost, (double)race.lead_us / 1e3);
    assert_true(race.approvals > 0);
    assert_true(race.timeouts > 0);
}

SUITE(late, FIELD(F9_approval_after_the_timer_does_not_count),
      FIELD(F10_grace_allows_only_an_approval_and_ends), FIELD(F11_cancel_gets_no_grace),
      FIELD(F12_a_thousand_cancels_give_one_receipt),
      FIELD(F13_approval_and_timer_together_give_one_decision_everywhere));
