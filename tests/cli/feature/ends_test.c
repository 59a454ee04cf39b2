/* The end of a task, and its effect on the others. */
#include "field.h"

static const char *rejecting_coach(void)
{
    return field_coach("rejects", "verdict feedback rejected "
                                  "'[{\"severity\":\"major\",\"description\":\"no\"}]'\n"
                                  "exit 0");
}

/* Writes a task that fails in its first turn, when its Player ends. */
static void failing_task(const char *id, const char *before)
{
    field_task(id, stage_printf("belay:\n"
                                "  player: {command: %s}\n"
                                "  coach: {command: %s}\n"
                                "  limits: {turns: 1}\n",
                                field_player(stage_printf("player-%s", id), before),
                                rejecting_coach()));
}

static void working_task(const char *id, const char *before)
{
    field_task(id, stage_printf("belay:\n  player: {command: %s}\n",
                                field_player(stage_printf("player-%s", id), before)));
}

/* Tasks and waves as YAML, the policy, more limits. */
static void plan(const char *tasks, const char *groups, const char *policy, const char *limits)
{
    field_plan(stage_printf("tasks:\n%s"
                            "orchestration: {parallel_groups: %s}\n"
                            "belay:\n"
                            "  player: {command: %s}\n"
                            "  coach: {command: %s}\n"
                            "  limits: {%s min_turn_budget: 0s}\n"
                            "  on_failure: %s\n",
                            tasks, groups, field_player("player", ""), field_coach("coach", ""),
                            limits, policy));
    field_commit();
}

static const char *wait_for(const char *path)
{
    return stage_printf("until [ -e %s ]; do sleep 0.02; done", path);
}

static const char *of_row(const struct bl_json *envelope, const char *task, const char *pointer)
{
    return stage_text_at(field_row(envelope, task), pointer);
}

static size_t line_of(const struct held *held, const char *type, const char *task, size_t n)
{
    const struct bl_json *event = field_event(held, type, task, n);
    if (event == NULL)
        fail_msg("no %s of %s", type, task);
    return field_line(held, event);
}

/* ---- F17 ------------------------------------------------------------------------------------- */

/* Returns a Player whose processes all ignore SIGTERM, one of them outside the process group. */
static const char *stubborn_player(void)
{
    return field_seat("stubborn",
                      stage_printf("trap '' TERM INT HUP\n"
                                   "setsid sh -c 'trap \"\" TERM; echo $$ >> %s; sleep 60' &\n"
                                   "echo $$ >> %s\n"
                                   "while :; do sleep 0.05; done\n",
                                   stage_path("pids"), stage_path("pids")));
}

/* Runs one round. Returns false if the stubborn task was stopped before it started. */
static bool cross_into_wave_2(unsigned long limit_ms)
{
    struct held held = {0};
    const char *alive = stage_path("alive");
    field_task("A", stage_printf("belay:\n"
                                 "  player: {command: %s, grace: 200ms}\n"
                                 "  limits: {task_timeout: %lums}\n",
                                 stubborn_player(), limit_ms));
    field_task("B", "");
    working_task("C", stage_printf("for i in $(cat %s); do kill -0 $i && echo $i >> %s; done",
                                   stage_path("pids"), alive));
    plan("  - {id: A, file_path: tasks/A.md}\n"
         "  - {id: B, file_path: tasks/B.md}\n"
         "  - {id: C, file_path: tasks/C.md}\n",
         "[[A, B], [C]]", "continue", "");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 1);
    if (!stage_exists(stage_path("pids"))) {
        held_end(&held);
        return false;
    }
    assert_string_equal(of_row(envelope, "A", "/state"), "timed_out");
    assert_string_equal(of_row(envelope, "B", "/state"), "completed");
    assert_string_equal(of_row(envelope, "C", "/state"), "completed");
    size_t receipts = field_count(&held, "receipt", "A");
    assert_int_equal(receipts, 1);
    assert_int_equal(field_count(&held, "receipt", NULL), 1);
    const struct bl_json *receipt = field_event(&held, "receipt", "A", 0);
    assert_int_equal(stage_number_at(receipt, "/receipt/survivors"), 0);
    size_t began = line_of(&held, "phase_started", "C", 0);
    assert_true(began > line_of(&held, "receipt", "A", receipts - 1));
    assert_true(began > line_of(&held, "task_ended", "A", 0));
    assert_true(began > line_of(&held, "task_ended", "B", 0));
    assert_true(line_of(&held, "task_queued", "C", 0) > line_of(&held, "task_ended", "A", 0));
    assert_false(stage_exists(alive));
    held_end(&held);
    return true;
}

static void F17_wave_2_never_starts_beside_wave_1(void **state)
{
    unsigned long rounds = suite_rounds(1, 100);
    unsigned long limit_ms = SUITE_SANITIZED ? 1000 : 400;
    for (unsigned long i = 0, late = 0; i < rounds;) {
        if (cross_into_wave_2(limit_ms)) {
            i++;
        } else {
            assert_true(late++ < rounds + 3);
            limit_ms *= 2;
        }
        field_end(state);
        field_begin(state);
    }
}

/* ---- F18 ------------------------------------------------------------------------------------- */

/* Returns the number of lines in the journal. */
static size_t journal_size(void)
{
    struct held held = {0};
    FEATURE_START(&held, "logs", "FEAT");
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    size_t lines = stage_lines_with(stage_output(&held), "\"seq\":");
    held_end(&held);
    return lines;
}

static void check_unknown(const char *name, const char *suggestion)
{
    const struct run *run = FEATURE_RUN(1, "cancel", name);
    if (strstr(run->err, suggestion) == NULL)
        fail_msg("no %s in '%.500s'", suggestion, run->err);
}

/* Cancels work that has ended: the answer says so, and nothing happens. */
static void check_ended(const char *name, const char *said)
{
    size_t before = journal_size();
    const struct run *run = FEATURE_RUN(0, "cancel", name);
    if (strstr(run->out, said) == NULL)
        fail_msg("no %s in '%.500s'", said, run->out);
    assert_int_equal(journal_size(), before);
}

static void F18_one_of_three_can_be_cancelled(void **state)
{
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    working_task("ALPHA", wait_for(go));
    working_task("BRAVO", "sleep 60");
    working_task("CHARLIE", wait_for(go));
    plan("  - {id: ALPHA, file_path: tasks/ALPHA.md}\n"
         "  - {id: BRAVO, file_path: tasks/BRAVO.md}\n"
         "  - {id: CHARLIE, file_path: tasks/CHARLIE.md}\n",
         "[[ALPHA, BRAVO, CHARLIE]]", "wave_end", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await_phase(&held, "phase_started", NULL, "player", 2);
    check_unknown("FEAT/BRAVA", "'FEAT/BRAVO'");
    check_unknown("CHARLEY", "'CHARLIE'");
    check_unknown("FEET", "'FEAT'");
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);

    const struct bl_json *answer =
        stage_json(FEATURE_RUN(0, "cancel", "FEAT/BRAVO", "--json")->out);
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    const struct bl_json *status = field_status("FEAT");
    assert_string_equal(of_row(status, "BRAVO", "/state"), "cancelled");
    assert_string_equal(of_row(status, "BRAVO", "/triggered_by"), "user");
    assert_string_equal(of_row(status, "BRAVO", "/receipt"), stage_text_at(answer, "/receipt/id"));
    assert_string_equal(of_row(status, "ALPHA", "/state"), "running");
    assert_string_equal(of_row(status, "CHARLIE", "/state"), "running");
    check_ended("FEAT/BRAVO", "cancelled");

    field_touch(go);
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(of_row(envelope, "ALPHA", "/state"), "completed");
    assert_string_equal(of_row(envelope, "BRAVO", "/state"), "cancelled");
    assert_string_equal(of_row(envelope, "CHARLIE", "/state"), "completed");
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 1);
    assert_int_equal(field_count(&held, "task_ended", "BRAVO"), 1);
    check_ended("BRAVO", "cancelled");
    check_ended("FEAT/ALPHA", "completed");
    held_end(&held);
}

/* ---- F35 ------------------------------------------------------------------------------------- */

static void F35_wave_end_lets_siblings_finish(void **state)
{
    struct held held = {0};
    const char *go = stage_path("go");
    (void)state;
    failing_task("A", stage_printf("sleep %g", (double)suite_rounds(50, 1000) / 1000));
    working_task("B", wait_for(go));
    field_task("C", "");
    plan("  - {id: A, file_path: tasks/A.md}\n"
         "  - {id: B, file_path: tasks/B.md}\n"
         "  - {id: C, file_path: tasks/C.md}\n",
         "[[A, B], [C]]", "wave_end", "");
    FEATURE_START(&held, "run", "FEAT");
    field_await(&held, "task_ended", "A", 0);
    field_rest((double)suite_rounds(50, 2000) / 1000);
    field_touch(go);
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(of_row(envelope, "A", "/state"), "failed");
    assert_string_equal(of_row(envelope, "A", "/decision"), "max_turns_reached");
    assert_string_equal(of_row(envelope, "B", "/state"), "completed");
    assert_true(stage_true_at(field_row(envelope, "B"), "/merged"));
    assert_true(line_of(&held, "task_ended", "B", 0) > line_of(&held, "task_ended", "A", 0));
    assert_int_equal(field_count(&held, "cancel_requested", NULL), 0);
    assert_string_equal(of_row(envelope, "C", "/state"), "pending");
    assert_int_equal(field_count(&held, "phase_started", "C"), 0);
    assert_int_equal(field_count(&held, "wave_started", NULL), 1);
    assert_string_equal(field_git_output("ls-tree --name-only belay/FEAT/_result -- A.txt B.txt"),
                        "B.txt");
    held_end(&held);
}

/* ---- F36 ------------------------------------------------------------------------------------- */

/* P is approved, A fails, B runs, and Q has no slot. */
static void plan_siblings(void)
{
    const char *runs = stage_path("runs");
    field_task("P", "");
    working_task("B", stage_printf("touch %s\nsleep 60", runs));
    failing_task(
        "A", stage_printf("%s\nsleep %g", wait_for(runs), (double)suite_rounds(50, 1000) / 1000));
    field_task("Q", "");
    field_task("W", "");
    plan("  - {id: P, file_path: tasks/P.md}\n"
         "  - {id: B, file_path: tasks/B.md}\n"
         "  - {id: A, file_path: tasks/A.md}\n"
         "  - {id: Q, file_path: tasks/Q.md}\n"
         "  - {id: W, file_path: tasks/W.md}\n",
         "[[P, B, A, Q], [W]]", "cancel_siblings", "parallel: 2,");
}

static void F36_cancel_siblings_stops_them_at_once(void **state)
{
    struct held held = {0};
    (void)state;
    plan_siblings();
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(of_row(envelope, "A", "/state"), "failed");
    const char *const stopped[] = {"B", "Q"};
    for (size_t i = 0; i < BL_COUNT(stopped); i++) {
        assert_string_equal(of_row(envelope, stopped[i], "/state"), "cancelled");
        assert_string_equal(of_row(envelope, stopped[i], "/reason"), "sibling_failure");
        assert_string_equal(of_row(envelope, stopped[i], "/triggered_by"), "A");
        assert_string_equal(of_row(envelope, stopped[i], "/checkpoint/reason"), "sibling_failure");
        assert_string_equal(of_row(envelope, stopped[i], "/checkpoint/triggered_by"), "A");
    }
    assert_int_equal(stage_number_at(field_row(envelope, "Q"), "/turn"), 0);
    assert_int_equal(field_count(&held, "phase_started", "Q"), 0);

    double failed = field_time(field_event(&held, "task_ended", "A", 0));
    const struct bl_json *receipt = field_event(&held, "receipt", "B", 0);
    assert_non_null(receipt);
    assert_int_equal(stage_number_at(receipt, "/receipt/survivors"), 0);
    field_bound("F36 a sibling is quiet after the failure", field_time(receipt) - failed, 0.3);
    /* Approved work is merged; then the run ends. */
    assert_string_equal(of_row(envelope, "P", "/state"), "completed");
    assert_true(stage_true_at(field_row(envelope, "P"), "/merged"));
    assert_string_equal(
        field_git_output("ls-tree --name-only belay/FEAT/_result -- A.txt B.txt P.txt Q.txt"),
        "P.txt");
    assert_string_equal(of_row(envelope, "W", "/state"), "pending");
    assert_int_equal(field_count(&held, "phase_started", "W"), 0);
    held_end(&held);
}

/* ---- F37 ------------------------------------------------------------------------------------- */

static void F37_continue_skips_dependents_and_runs_the_rest(void **state)
{
    struct held held = {0};
    (void)state;
    failing_task("ALPHA", "");
    field_task("B", "");
    field_task("C", "");
    field_task("D", "");
    field_task("E", "");
    field_task("F", "");
    plan("  - {id: ALPHA, file_path: tasks/ALPHA.md}\n"
         "  - {id: B, file_path: tasks/B.md}\n"
         "  - {id: C, file_path: tasks/C.md, dependencies: [ALPHA]}\n"
         "  - {id: D, file_path: tasks/D.md, dependencies: [B]}\n"
         "  - {id: E, file_path: tasks/E.md, dependencies: [C]}\n"
         "  - {id: F, file_path: tasks/F.md, dependencies: [D]}\n",
         "[[ALPHA, B], [C, D], [E, F]]", "continue", "");
    FEATURE_START(&held, "run", "FEAT");
    const struct bl_json *envelope = field_end_of(&held, 1);
    assert_string_equal(of_row(envelope, "ALPHA", "/state"), "failed");
    const char *const done[] = {"B", "D", "F"}, *const skipped[] = {"C", "E"};
    for (size_t i = 0; i < BL_COUNT(done); i++) {
        assert_string_equal(of_row(envelope, done[i], "/state"), "completed");
        assert_true(stage_true_at(field_row(envelope, done[i]), "/merged"));
    }
    for (size_t i = 0; i < BL_COUNT(skipped); i++) {
        assert_string_equal(of_row(envelope, skipped[i], "/state"), "skipped");
        assert_string_equal(of_row(envelope, skipped[i], "/decision"), "skipped");
        assert_string_equal(of_row(envelope, skipped[i], "/triggered_by"), "ALPHA");
        assert_non_null(strstr(of_row(envelope, skipped[i], "/message"), "ALPHA"));
        assert_int_equal(field_count(&held, "phase_started", skipped[i]), 0);
        assert_int_equal(field_count(&held, "task_ended", skipped[i]), 1);
        const struct bl_json *ended = field_event(&held, "task_ended", skipped[i], 0);
        assert_string_equal(stage_text_at(ended, "/triggered_by"), "ALPHA");
    }
    assert_string_equal(
        field_git_output("ls-tree --name-only belay/FEAT/_result -- ALPHA.txt B.txt C.txt D.txt "
                         "E.txt F.txt | tr '\\n' ' '"),
        "B.txt D.txt F.txt ");
    held_end(&held);
}

SUITE(ends, FIELD(F17_wave_2_never_starts_beside_wave_1), FIELD(F18_one_of_three_can_be_cancelled),
      FIELD(F35_wave_end_lets_siblings_finish), FIELD(F36_cancel_siblings_stops_them_at_once),
      FIELD(F37_continue_skips_dependents_and_runs_the_rest));
