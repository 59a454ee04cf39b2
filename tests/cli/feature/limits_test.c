/* Limits: deadlines, extensions, pauses, slots. */
#include "field.h"

#include <math.h>
#include <stdio.h>

/* ---- F30 ------------------------------------------------------------------------------------- */

static double number_at(const struct bl_json *value, const char *pointer)
{
    double number = 0;
    const struct bl_json *found = bl_json_pointer(value, bl_text_from(pointer));
    if (found == NULL || !bl_json_double(found, &number))
        fail_msg("no number at %s", pointer);
    return number;
}

/* Reads the journal as lines. */
static void read_journal(struct held *held)
{
    FEATURE_START(held, "logs", "FEAT");
    held_wait(held);
    assert_int_equal(held->exit_code, 0);
}

/* Checks that `validate`, banner, `status` and `deadline_armed` have the same number. */
static void check_everywhere(const char *limits, double seconds, const char *source)
{
    struct held held = {0};
    char said[32];
    bl_duration_format((int64_t)(seconds * 1e9), said);
    field_pair(field_player("player", ""), field_coach("coach", ""), limits, "");

    const struct run *run = FEATURE_RUN(0, "validate", "FEAT");
    assert_int_equal(stage_lines_with(run->out, stage_printf("deadline: %s (%s)", said, source)),
                     2);
    const struct bl_json *plan = stage_json(FEATURE_RUN(0, "validate", "FEAT", "--json")->out);
    assert_true(number_at(plan, "/plan/tasks/0/deadline_s") == seconds);
    assert_true(number_at(plan, "/plan/tasks/1/deadline_s") == seconds);

    run = FEATURE_RUN(0, "run", "FEAT");
    assert_int_equal(stage_lines_with(run->out, stage_printf("deadline %s for each task", said)),
                     1);

    const struct bl_json *status = field_status("FEAT");
    read_journal(&held);
    for (const char *task = "A"; task != NULL; task = *task == 'A' ? "B" : NULL) {
        assert_true(number_at(field_row(status, task), "/deadline_s") == seconds);
        assert_string_equal(stage_text_at(field_row(status, task), "/deadline_source"), source);
        const struct bl_json *armed = field_event(&held, "deadline_armed", task, 0);
        assert_non_null(armed);
        assert_true(number_at(armed, "/deadline_s") == seconds);
        assert_int_equal(field_count(&held, "deadline_armed", task), 1);
    }
    run = FEATURE_RUN(0, "status", "FEAT/A");
    assert_int_equal(stage_lines_with(run->out, said) > 0, 1);
    held_end(&held);
}

static void F30_default_deadline_is_2400_everywhere(void **state)
{
    (void)state;
    check_everywhere("", 2400, "default");
}

static void F30_45_minutes_times_2_are_5400_everywhere(void **state)
{
    (void)state;
    check_everywhere("task_timeout: 45m, timeout_multiplier: 2,", 5400, "feature");
}

static void F30_multiplied_deadline_fires(void **state)
{
    struct held held = {0};
    unsigned long limit_ms = suite_rounds(250, 1000);
    (void)state;
    field_pair(field_player("player", "sleep 60"), field_coach("coach", ""),
               stage_printf("task_timeout: %lums, timeout_multiplier: 2,", limit_ms), "");
    FEATURE_START(&held, "run", "FEAT", "--task", "A");
    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    const struct bl_json *armed = field_event(&held, "deadline_armed", "A", 0);
    const struct bl_json *stop = field_event(&held, "cancel_requested", "A", 0);
    double due = 2 * (double)limit_ms / 1000;
    assert_non_null(armed);
    assert_non_null(stop);
    assert_string_equal(stage_text_at(stop, "/reason"), "timeout");
    assert_true(number_at(armed, "/deadline_s") == due);
    field_window("F30 the stop at a multiplied deadline", field_time(stop) - field_time(armed), due,
                 due + 0.2);
    assert_string_equal(stage_text_at(row, "/state"), "timed_out");
    assert_string_equal(stage_text_at(row, "/decision"), "timeout");
    held_end(&held);
}

/* ---- F31 ------------------------------------------------------------------------------------- */

static void F31_turn_does_not_start_without_enough_time(void **state)
{
    struct held held = {0};
    unsigned long turn_ms = suite_rounds(600, 5000), least_ms = suite_rounds(9500, 6000);
    double left = -1;
    char least[32], unit[4];
    (void)state;
    bl_duration_format((int64_t)(least_ms * BL_NS_PER_MS), least);
    const char *coach = field_coach("coach", "verdict feedback rejected "
                                             "'[{\"severity\":\"major\",\"description\":\"no\"}]'\n"
                                             "exit 0");
    const char *player = field_player("player", stage_printf("sleep %g", (double)turn_ms / 1000));
    field_task("A", stage_printf("belay:\n  limits: {min_turn_budget: %lums}\n", least_ms));
    field_plan(stage_printf("tasks: [{id: A, file_path: tasks/A.md}]\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {task_timeout: 10s}\n",
                            player, coach));
    field_commit();
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    const char *message = stage_text_at(row, "/message");
    assert_string_equal(stage_text_at(row, "/state"), "timed_out");
    assert_string_equal(stage_text_at(row, "/decision"), "timeout_budget_exhausted");
    assert_int_equal(stage_number_at(row, "/turn"), 1);
    assert_int_equal(stage_number_at(row, "/turns_counted"), 1);
    assert_int_equal(field_count(&held, "task_turn_started", "A"), 1);
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "player"), 1);
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);
    /* The time left, and the time a turn needs. */
    assert_int_equal(sscanf(message, "%lf %3s", &left, unit), 2);
    left = strcmp(unit, "ms") == 0 ? left / 1000 : left;
    assert_true(left >= 0 && left <= 10 - (double)turn_ms / 1000);
    assert_true(left < (double)least_ms / 1000);
    assert_non_null(strstr(message, least));
    /* Nothing was stopped, but a resume starts from here. */
    const struct bl_json *checkpoint = bl_json_get(row, BL_TEXT("checkpoint"));
    assert_string_equal(stage_text_at(checkpoint, "/phase"), "loop_top");
    assert_string_equal(stage_text_at(checkpoint, "/marker"), "cancelled");
    assert_int_equal(stage_number_at(checkpoint, "/feedback_turn"), 1);
    assert_true(stage_null_at(checkpoint, "/receipt"));
    held_end(&held);
}

/* ---- F32 ------------------------------------------------------------------------------------- */

/* Returns false if the task was stopped before it could be extended. */
static bool extend_in_time(unsigned long limit_ms, unsigned long at_ms, unsigned long more_ms)
{
    static struct run run;
    struct held held = {0};
    double due = (double)(limit_ms + more_ms) / 1000;
    FEATURE_START(&held, "run", "FEAT", "--task", "A", "--fresh", "--task-timeout",
                  stage_printf("%lums", limit_ms));
    const struct bl_json *armed = field_await(&held, "deadline_armed", "A", 0);
    field_rest(field_time(armed) + (double)at_ms / 1000 - field_now());
    RUN(&run, "feature", "extend", "FEAT/A", stage_printf("+%lums", more_ms), "--json");
    if (run.exit_code != 0) {
        held_end(&held);
        return false;
    }
    assert_true(number_at(stage_json(run.out), "/deadline_s") == due);
    const struct bl_json *live = field_row(field_status("FEAT"), "A");
    assert_true(number_at(live, "/deadline_s") == due);
    assert_string_equal(stage_text_at(live, "/state"), "running");
    const struct bl_json *moved = field_await(&held, "deadline_moved", "A", 0);
    assert_true(number_at(moved, "/deadline_s") == due);
    assert_true(field_time(moved) < field_time(armed) + (double)limit_ms / 1000);

    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    const struct bl_json *stop = field_event(&held, "cancel_requested", "A", 0);
    assert_non_null(stop);
    field_window("F32 the stop at a moved deadline", field_time(stop) - field_time(armed), due,
                 due + 0.2);
    assert_string_equal(stage_text_at(row, "/decision"), "timeout");
    assert_true(number_at(row, "/deadline_s") == due);
    assert_true(number_at(row, "/checkpoint/deadline_s") == due);
    assert_true(number_at(field_row(field_status("FEAT"), "A"), "/deadline_s") == due);
    held_end(&held);
    return true;
}

static void F32_deadline_of_a_running_task_can_be_moved(void **state)
{
    unsigned long limit_ms = suite_rounds(SUITE_SANITIZED ? 1500 : 700, 2000);
    unsigned long at_ms = suite_rounds(0, 1000), more_ms = suite_rounds(400, 5000);
    static struct run run;
    (void)state;
    field_pair(field_player("player", "sleep 60"), field_coach("coach", ""), "", "");
    /* On a busy machine the task may end before the other program has started. */
    for (unsigned tries = 0; !extend_in_time(limit_ms, at_ms, more_ms); tries++, limit_ms *= 3)
        assert_true(tries < 3);

    RUN(&run, "feature", "extend", "FEAT/A", "+5s");
    assert_int_equal(run.exit_code, 1);
    RUN(&run, "feature", "extend", "FEAT/A", "+5s", "--json");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(stage_text_at(stage_json(run.out), "/error/code"), "too_late");
}

static void F32_deadline_cannot_exceed_that_of_the_feature(void **state)
{
    static struct run run;
    struct held held = {0};
    (void)state;
    field_pair(field_player("player", "sleep 60"), field_coach("coach", ""),
               "task_timeout: 50s, feature_timeout: 100s, ", "");
    FEATURE_START(&held, "run", "FEAT", "--task", "A");
    field_await(&held, "deadline_armed", "A", 0);
    RUN(&run, "feature", "extend", "FEAT/A", "+60s", "--json");
    const struct bl_json *refused = stage_answer(&run, "feature-extend", 1);
    assert_string_equal(stage_text_at(refused, "/error/message"),
                        "the new deadline would be after the feature's deadline");
    assert_true(strncmp(stage_text_at(refused, "/error/hint"), "the feature ends in ", 20) == 0);
    RUN(&run, "feature", "extend", "FEAT/A", "+10s", "--json");
    assert_int_equal(stage_number_at(stage_answer(&run, "feature-extend", 0), "/deadline_s"), 60);
    held_end(&held);
}

/* The same for a task that has ended while others run: then the runner is asked. */
static void F32_ended_task_cannot_be_extended(void **state)
{
    static struct run run;
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    field_pair(field_player("player", stage_printf("[ $BELAY_TASK = A ] && sleep 60\n"
                                                   "until [ -e %s ]; do sleep 0.02; done",
                                                   go)),
               field_coach("coach", ""), "", "");
    field_task("A", "belay:\n  limits: {task_timeout: 300ms}\n");
    FEATURE_START(&held, "run", "FEAT");
    field_await(&held, "task_ended", "A", 0);
    RUN(&run, "feature", "extend", "FEAT/A", "+5s", "--json");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(stage_text_at(stage_json(run.out), "/error/code"), "too_late");
    field_touch(go);
    field_end_of(&held, 1);
    assert_int_equal(field_count(&held, "deadline_moved", NULL), 0);
    held_end(&held);
}

/* ---- F33 ------------------------------------------------------------------------------------- */

/* Returns false if the task was stopped before it could be paused. */
static bool pause_in_time(unsigned long limit_ms, unsigned long held_ms)
{
    static struct run run;
    struct held held = {0};
    const char *go = stage_path("go");
    remove(go);
    FEATURE_START(&held, "run", "FEAT", "--task", "A", "--fresh", "--task-timeout",
                  stage_printf("%lums", limit_ms));
    const struct bl_json *armed = field_await(&held, "deadline_armed", "A", 0);
    while (field_count_phase(&held, "phase_started", "A", "player") == 0 &&
           field_count(&held, "task_ended", "A") == 0)
        field_rest(0.005);
    RUN(&run, "feature", "pause", "FEAT");
    field_touch(go);
    if (field_count(&held, "cancel_requested", NULL) > 0) {
        held_end(&held);
        return false;
    }
    assert_int_equal(run.exit_code, 0);
    const struct bl_json *ended = field_await_phase(&held, "phase_ended", "A", "player", 0);
    assert_string_equal(stage_text_at(ended, "/outcome"), "ended");
    assert_string_equal(stage_text_at(field_status("FEAT"), "/state"), "paused");
    field_rest(field_time(ended) + (double)held_ms / 1000 - field_now());
    assert_int_equal(field_count_phase(&held, "phase_started", "A", "verify"), 0);
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);

    FEATURE_RUN(0, "resume", "FEAT");
    const struct bl_json *resumed = field_await(&held, "feature_resumed", NULL, 0);
    const struct bl_json *verify = field_await_phase(&held, "phase_started", "A", "verify", 0);
    assert_true(field_line(&held, verify) > field_line(&held, resumed));
    const struct bl_json *moved = field_await(&held, "deadline_moved", "A", 0);
    double later = number_at(moved, "/deadline_s") - number_at(armed, "/deadline_s");
    double stood = field_time(resumed) - field_time(ended);
    assert_true(stood >= (double)held_ms / 1000 - 0.0015);
    field_bound("F33 the deadline moves by the time held", fabs(later - stood), 0.1);

    /* The timer matches the record. */
    const struct bl_json *row = field_row(field_end_of(&held, 1), "A");
    const struct bl_json *stop = field_event(&held, "cancel_requested", "A", 0);
    double due = number_at(moved, "/deadline_s");
    assert_non_null(stop);
    field_window("F33 the stop after a pause", field_time(stop) - field_time(armed), due,
                 due + 0.2);
    assert_string_equal(stage_text_at(row, "/decision"), "timeout");
    /* Rows have milliseconds. */
    assert_true(fabs(number_at(row, "/deadline_s") - due) < 0.001);
    held_end(&held);
    return true;
}

static void F33_pause_holds_the_next_phase_and_the_deadline(void **state)
{
    unsigned long limit_ms = suite_rounds(SUITE_SANITIZED ? 1500 : 700, 4000);
    const char *go = stage_path("go");
    (void)state;
    field_pair(field_player("player", stage_printf("until [ -e %s ]; do sleep 0.02; done", go)),
               field_coach("coach", "sleep 60"), "", "  verify: {commands: [\"true\"]}\n");
    for (unsigned tries = 0; !pause_in_time(limit_ms, suite_rounds(600, 5000));
         tries++, limit_ms *= 3)
        assert_true(tries < 3);
}

/* ---- F34 ------------------------------------------------------------------------------------- */

#define FIVE 5

/* Five tasks that record when they start and end. */
static void plan_five(const char *recommended, const char *before)
{
    const char *player =
        field_player("player", stage_printf("echo + >> %s\n%s\necho - >> %s", stage_path("log"),
                                            before, stage_path("log")));
    for (char id[] = "A"; id[0] < 'A' + FIVE; id[0]++)
        field_task(id, "");
    field_plan(stage_printf("tasks:\n"
                            "  - {id: A, file_path: tasks/A.md}\n"
                            "  - {id: B, file_path: tasks/B.md}\n"
                            "  - {id: C, file_path: tasks/C.md}\n"
                            "  - {id: D, file_path: tasks/D.md}\n"
                            "  - {id: E, file_path: tasks/E.md}\n"
                            "%s"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {parallel: 2}\n",
                            recommended, player, field_coach("coach", "")));
}

/* Returns how many ran at once, by their own records. */
static int most_at_once(void)
{
    struct bl_text log = suite_read_file(stage_path("log"));
    int now = 0, most = 0, begun = 0;
    for (size_t i = 0; i < log.size; i++) {
        now += log.data[i] == '+' ? 1 : log.data[i] == '-' ? -1 : 0;
        begun += log.data[i] == '+';
        most = now > most ? now : most;
    }
    bl_free((void *)log.data);
    assert_int_equal(begun, FIVE);
    assert_int_equal(now, 0);
    assert_int_equal(remove(stage_path("log")), 0);
    return most;
}

static void check_queued(const struct bl_json *status)
{
    size_t running = 0, queued = 0;
    for (char id[] = "A"; id[0] < 'A' + FIVE; id[0]++) {
        const struct bl_json *row = field_row(status, id);
        const char *now = stage_text_at(row, "/state");
        if (strcmp(now, "running") == 0) {
            running++;
            assert_true(number_at(row, "/deadline_s") == 2400);
            assert_true(number_at(row, "/deadline_left_s") > 0);
        } else {
            queued++;
            assert_string_equal(now, "queued");
            assert_true(stage_null_at(row, "/deadline_s"));
            assert_true(stage_null_at(row, "/deadline_left_s"));
        }
    }
    assert_int_equal(running, 2);
    assert_int_equal(queued, FIVE - 2);
}

static void F34_slots_limit_parallel_tasks(void **state)
{
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    plan_five("", stage_printf("until [ -e %s ]; do sleep 0.02; done\nsleep %g", go,
                               (double)suite_rounds(100, 1000) / 1000));
    field_commit();
    FEATURE_START(&held, "run", "FEAT");
    field_await(&held, "task_queued", "E", 0);
    field_await_phase(&held, "phase_started", NULL, "player", 1);
    check_queued(field_status("FEAT"));
    assert_int_equal(field_count(&held, "deadline_armed", NULL), 2);
    field_touch(go);
    const struct bl_json *envelope = field_end_of(&held, 0);
    assert_int_equal(stage_number_at(envelope, "/counts/completed"), FIVE);
    assert_int_equal(most_at_once(), 2);
    /* In plan order. */
    for (char id[] = "B"; id[0] < 'A' + FIVE; id[0]++) {
        const char before[] = {(char)(id[0] - 1), '\0'};
        assert_true(field_line(&held, field_event(&held, "deadline_armed", id, 0)) >
                    field_line(&held, field_event(&held, "deadline_armed", before, 0)));
    }
    held_end(&held);
}

/* Checks that exactly this many run at once: each waits for the others. */
static void check_recommended(const char *recommended, int most, const char *banner)
{
    plan_five(recommended,
              stage_printf("until [ $(grep -c + %s) -ge %d ]; do sleep 0.02; done\nsleep %g",
                           stage_path("log"), most, (double)suite_rounds(20, 1000) / 1000));
    field_commit();
    const struct run *run = FEATURE_RUN(0, "run", "FEAT");
    if (stage_lines_with(run->out, banner) != 1)
        fail_msg("no '%s' in the banner: %.500s", banner, run->out);
    assert_int_equal(most_at_once(), most);
}

static void F34_recommended_parallel_can_only_lower(void **state)
{
    (void)state;
    check_recommended("orchestration: {recommended_parallel: 1}\n", 1,
                      "1 at once (recommended_parallel 1");
}

static void F34_recommended_parallel_8_leaves_2(void **state)
{
    (void)state;
    check_recommended("orchestration: {recommended_parallel: 8}\n", 2,
                      "2 at once (recommended_parallel 8, limits.parallel 2)");
}

SUITE(limits, FIELD(F30_default_deadline_is_2400_everywhere),
      FIELD(F30_45_minutes_times_2_are_5400_everywhere), FIELD(F30_multiplied_deadline_fires),
      FIELD(F31_turn_does_not_start_without_enough_time),
      FIELD(F32_deadline_of_a_running_task_can_be_moved),
      FIELD(F32_deadline_cannot_exceed_that_of_the_feature),
      FIELD(F32_ended_task_cannot_be_extended),
      FIELD(F33_pause_holds_the_next_phase_and_the_deadline), FIELD(F34_slots_limit_parallel_tasks),
      FIELD(F34_recommended_parallel_can_only_lower), FIELD(F34_recommended_parallel_8_leaves_2));
