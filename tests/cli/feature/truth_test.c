/* A feature shows the same, correct values everywhere. */
#include "scenes.h"

#include <signal.h>
#include <stdio.h>

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void summary_names_the_deadline_that_fired(void **state)
{
    (void)state;
    field_pair(field_player("player", "sleep 60"), field_coach("coach", ""), "task_timeout: 300s,",
               "");
    const struct run *run = FEATURE_RUN(124, "run", "FEAT", "--timeout", "1s");
    scene_expect(run->out, "FEAT timed_out (deadline 1 s)");
    scene_expect(run->out, "timed out: the feature's deadline of 1 s was reached\n");
    scene_expect_none(run->out, "its deadline of 5m was reached");
    const struct bl_json *row = field_row(field_status("FEAT"), "A");
    assert_string_equal(stage_text_at(row, "/triggered_by"), "feature");
    assert_string_equal(stage_text_at(row, "/message"),
                        "the feature's deadline of 1 s was reached");
    run = FEATURE_RUN(0, "report", "FEAT");
    scene_expect(run->out, "the feature's deadline of 1 s was reached");
    /* Its own deadline still applies beside a later one of the feature. */
    run = FEATURE_RUN(1, "resume", "FEAT", "--timeout", "200s", "--task-timeout", "1s");
    scene_expect(run->out, "timed out: its deadline of 1 s was reached\n");
    scene_expect_none(run->out, "the feature's deadline of");
}

static void status_shows_the_time_left_until_the_first_deadline(void **state)
{
    struct held held = {0};
    (void)state;
    field_pair(field_player("player", "sleep 60"), field_coach("coach", ""), "task_timeout: 300s,",
               "");
    FEATURE_START(&held, "run", "FEAT", "--timeout", "100s");
    field_await_phase(&held, "phase_started", "A", "player", 0);
    const struct bl_json *status = field_status("FEAT");
    double left = stage_double_at(field_row(status, "A"), "/deadline_left_s");
    assert_true(left > 0 && left <= 100);
    assert_true(stage_double_at(field_row(status, "A"), "/deadline_s") == 300);
    left = stage_double_at(status, "/deadline_left_s");
    assert_true(left > 0 && left <= 100 && stage_double_at(status, "/deadline_s") == 100);
    scene_expect(FEATURE_RUN(0, "status", "FEAT")->out, " left until the feature's deadline");
    scene_expect(FEATURE_RUN(0, "status", "FEAT/A")->out, " left until the feature's deadline");
    FEATURE_RUN(0, "cancel", "FEAT");
    status = field_end_of(&held, 130);
    assert_true(stage_null_at(status, "/deadline_left_s"));
    held_end(&held);
}

static void held_task_loses_no_time_and_has_no_phase(void **state)
{
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    field_tasks("A",
                field_player("player", stage_printf("while [ ! -e %s ]; do sleep 0.02; done", go)),
                field_coach("coach", ""), "task_timeout: 300s,", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await_phase(&held, "phase_started", "A", "player", 0);
    FEATURE_RUN(0, "pause", "FEAT");
    field_touch(go);
    field_await_phase(&held, "phase_ended", "A", "player", 0);
    double end = field_now() + 30;
    const struct bl_json *row = field_row(field_status("FEAT"), "A");
    while (strcmp(stage_text_at(row, "/phase"), "between") != 0 && field_now() < end)
        row = field_row(field_status("FEAT"), "A");
    assert_string_equal(stage_text_at(row, "/phase"), "between");
    scene_expect(FEATURE_RUN(0, "status", "FEAT")->out, " left after the pause");
    double left = stage_double_at(field_row(field_status("FEAT"), "A"), "/deadline_left_s");
    field_rest(1.1);
    row = field_row(field_status("FEAT"), "A");
    assert_true(stage_double_at(row, "/deadline_left_s") == left);
    FEATURE_RUN(0, "resume", "FEAT");
    field_end_of(&held, 0);
    held_end(&held);
}

/* ---- Unknown values -------------------------------------------------------------------------- */

static void checkpoint_shows_unknown_spending(void **state)
{
    struct held held = {0};
    (void)state;
    field_tasks("A", field_player("player", "sleep 60"), field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await_phase(&held, "phase_started", "A", "player", 0);
    FEATURE_RUN(0, "cancel", "FEAT/A");
    field_end_of(&held, 1);
    const struct run *run = FEATURE_RUN(0, "status", "FEAT/A", "--json");
    const struct bl_json *answer = stage_answer(run, "feature", 0);
    assert_true(stage_null_at(answer, "/checkpoint/spent"));
    assert_true(stage_null_at(answer, "/task/spent"));
    held_end(&held);
}

static void approved_task_is_shown_completely(void **state)
{
    struct held held = {0};
    (void)state;
    field_pair(field_player("player", "if [ $BELAY_TASK = B ]; then sleep 60; fi"),
               field_coach("coach", ""), "task_timeout: 300s,", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await(&held, "task_ended", "A", 0);
    const char *out = FEATURE_RUN(0, "status", "FEAT")->out;
    scene_expect(out, "approved    A  not verified (");
    scene_expect_none(out, "A  , not verified");
    FEATURE_RUN(0, "cancel", "FEAT");
    field_end_of(&held, 130);
    held_end(&held);
}

/* ---- After kill -9 --------------------------------------------------------------------------- */

static void nothing_is_shown_as_running_after_kill_9(void **state)
{
    struct held held = {0};
    (void)state;
    field_pair(field_player("player", "if [ $BELAY_TASK = B ]; then sleep 60; fi"),
               field_coach("coach", ""), "", "");
    FEATURE_START(&held, "run", "FEAT", "--timeout", "300s");
    field_await(&held, "task_ended", "A", 0);
    field_await_phase(&held, "phase_started", "B", "player", 0);
    kill(held.pid, SIGKILL);
    held_wait(&held);
    const struct bl_json *status = field_status("FEAT");
    assert_string_equal(stage_text_at(status, "/state"), "interrupted");
    assert_string_equal(stage_text_at(status, "/waves/0/state"), "stopped");
    assert_true(stage_null_at(status, "/deadline_left_s"));
    assert_true(stage_double_at(field_row(status, "B"), "/elapsed_s") >= 0);
    const char *out = FEATURE_RUN(0, "status", "FEAT")->out;
    scene_expect_none(out, "running");
    scene_expect(out, "its belay process was killed or crashed");
    out = FEATURE_RUN(0, "report", "FEAT")->out;
    scene_expect_none(out, "Wave 1: running");
    scene_expect_none(out, "Ended       –");
    held_end(&held);
}

/* ---- Logs and warnings ----------------------------------------------------------------------- */

static void log_separates_the_tries_of_a_coach(void **state)
{
    (void)state;
    const char *coach = field_seat("coach", "cat >/dev/null\nprintf 'no verdict here'\n");
    field_tasks("A", field_player("player", ""), coach, "turns: 1,", "");
    FEATURE_RUN(1, "run", "FEAT");
    const char *out = FEATURE_RUN(0, "logs", "FEAT", "--phase", "coach")->out;
    scene_expect(out, "    | no verdict here\n    try 2:\n    | no verdict here\n"
                      "    try 3:\n    | no verdict here\n");
    const struct run *run = FEATURE_RUN(0, "logs", "FEAT", "--phase", "coach", "--json");
    const struct bl_json *answer = stage_answer(run, "feature-logs", 0);
    assert_int_equal(stage_size_at(answer, "/outputs"), 3);
    assert_string_equal(stage_text_at(answer, "/outputs/2/phase"), "coach-3");
}

static void warning_is_shown_once(void **state)
{
    (void)state;
    field_task("A", "");
    field_plan(stage_printf("tassks: 1\ntasks:\n  - {id: A, file_path: tasks/A.md}\n"
                            "belay:\n  player: {command: %s}\n  coach: {command: %s}\n",
                            field_player("player", ""), field_coach("coach", "")));
    field_commit();
    field_write("dirty.txt", "x\n");
    const char *out = FEATURE_RUN(0, "run", "FEAT")->out;
    assert_int_equal(stage_lines_with(out, "tassks"), 1);
    assert_int_equal(stage_lines_with(out, "not in the base"), 1);
    scene_expect(out, "\n.belay/features/FEAT.yaml:3: warning: unknown member");
    scene_expect_none(out, "warning: .belay");
    out = FEATURE_RUN(0, "validate", "FEAT")->out;
    assert_int_equal(stage_lines_with(out, "tassks"), 1);
    scene_expect_none(out, "warning: .belay");
}

SUITE(truth, FIELD(summary_names_the_deadline_that_fired),
      FIELD(status_shows_the_time_left_until_the_first_deadline),
      FIELD(held_task_loses_no_time_and_has_no_phase), FIELD(checkpoint_shows_unknown_spending),
      FIELD(approved_task_is_shown_completely), FIELD(nothing_is_shown_as_running_after_kill_9),
      FIELD(log_separates_the_tries_of_a_coach), FIELD(warning_is_shown_once));
