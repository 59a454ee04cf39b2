#include "helpers.h"

static void every_state_has_a_name_that_reads_back(void **state)
{
    (void)state;
    for (int i = BL_TASK_PENDING; i <= BL_TASK_DEFERRED; i++) {
        size_t read;
        const char *name = bl_task_state_name((enum bl_task_state)i);
        assert_true(bl_names_find(&bl_task_states, bl_text_from(name), &read));
        assert_int_equal(read, i);
    }
    size_t kept = BL_TASK_RUNNING;
    assert_false(bl_names_find(&bl_task_states, BL_TEXT("Completed"), &kept));
    assert_false(bl_names_find(&bl_task_states, (struct bl_text){0}, &kept));
    assert_int_equal(kept, BL_TASK_RUNNING);
}

static void states_from_completed_on_are_final(void **state)
{
    static const enum bl_task_state open[] = {BL_TASK_PENDING, BL_TASK_QUEUED, BL_TASK_RUNNING,
                                              BL_TASK_STOPPING, BL_TASK_APPROVED};
    size_t final = 0;
    (void)state;
    for (size_t i = 0; i < BL_COUNT(open); i++)
        assert_false(bl_task_state_final(open[i]));
    for (int i = BL_TASK_PENDING; i <= BL_TASK_DEFERRED; i++)
        final += bl_task_state_final((enum bl_task_state)i);
    assert_int_equal(final, 8);
}

static void every_decision_has_a_name_and_a_state(void **state)
{
    (void)state;
    for (int i = BL_DECISION_NONE + 1; i <= BL_DECISION_DEFERRED; i++) {
        size_t read;
        enum bl_task_decision decision = (enum bl_task_decision)i;
        const char *name = bl_task_decision_name(decision);
        assert_true(bl_names_find(&bl_task_decisions, bl_text_from(name), &read));
        assert_int_equal(read, i);
        enum bl_task_state came = bl_task_decision_state(decision);
        assert_true(came == BL_TASK_APPROVED || bl_task_state_final(came));
    }
}

/* The closed set of the specification. */
static void decisions_lead_to_the_specified_states(void **state)
{
    static const struct {
        const char *decision;
        const char *state;
    } rows[] = {
        {"approved", "approved"},
        {"approved_late", "approved"},
        {"already_completed", "completed"},
        {"max_turns_reached", "failed"},
        {"stalled", "failed"},
        {"player_failed", "failed"},
        {"coach_failed", "failed"},
        {"merge_conflict", "failed"},
        {"gate_failed", "failed"},
        {"max_budget_reached", "failed"},
        {"error", "failed"},
        {"timeout", "timed_out"},
        {"timeout_budget_exhausted", "timed_out"},
        {"cancelled", "cancelled"},
        {"blocked", "blocked"},
        {"interrupted", "interrupted"},
        {"skipped", "skipped"},
        {"deferred", "deferred"},
    };
    (void)state;
    assert_int_equal(BL_COUNT(rows), BL_DECISION_DEFERRED);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        size_t decision;
        assert_true(bl_names_find(&bl_task_decisions, bl_text_from(rows[i].decision), &decision));
        assert_string_equal(
            bl_task_state_name(bl_task_decision_state((enum bl_task_decision)decision)),
            rows[i].state);
    }
}

static void no_decision_has_no_name(void **state)
{
    size_t decision = BL_DECISION_STALLED;
    (void)state;
    assert_null(bl_task_decision_name(BL_DECISION_NONE));
    assert_false(bl_names_find(&bl_task_decisions, (struct bl_text){0}, &decision));
    assert_false(bl_names_find(&bl_task_decisions, BL_TEXT("guessed"), &decision));
    assert_int_equal(decision, BL_DECISION_STALLED);
    assert_int_equal(bl_task_decision_state(BL_DECISION_NONE), BL_TASK_PENDING);
}

static void policies_have_names(void **state)
{
    (void)state;
    assert_string_equal(bl_on_failure_name(BL_ON_FAILURE_WAVE_END), "wave_end");
    assert_string_equal(bl_on_failure_name(BL_ON_FAILURE_CANCEL_SIBLINGS), "cancel_siblings");
    assert_string_equal(bl_on_failure_name(BL_ON_FAILURE_CONTINUE), "continue");
}

static void check_stop(enum bl_stop_reason reason, const char *by, double deadline_s,
                       const char *wanted)
{
    struct bl_task_view task = {.row = {.state = BL_TASK_CANCELLED, .reason = reason},
                                .deadline_s = deadline_s};
    bl_text_into(task.row.triggered_by, sizeof task.row.triggered_by, by);
    struct bl_arena arena;
    bl_arena_init(&arena);
    assert_string_equal(bl_task_view_text(&arena, &task).data, wanted);
    bl_arena_done(&arena);
}

static void text_shows_why_a_task_was_stopped(void **state)
{
    (void)state;
    check_stop(BL_STOP_USER, "user", 2400, "cancelled: by the user");
    check_stop(BL_STOP_TIMEOUT, "timer", 2.5, "cancelled: its deadline of 2.5 s was reached");
    check_stop(BL_STOP_TIMEOUT, "timer", 2400, "cancelled: its deadline of 40m was reached");
    check_stop(BL_STOP_TIMEOUT, "timer", -1, "cancelled: timeout, by timer");
    check_stop(BL_STOP_SIBLING_FAILURE, "TASK-1", 2400, "cancelled: sibling_failure, by TASK-1");
    check_stop(BL_STOP_USER, NULL, 2400, "cancelled: user");
}

static int close_none(void *argument BL_UNUSED)
{
    bl_feature_close(NULL);
    return CHECK_EQUAL(bl_check(), 0) ? 0 : -1;
}

static void closing_null_does_nothing(void **state BL_UNUSED)
{
    run_in_loop(close_none, NULL);
}

SUITE(state, cmocka_unit_test(closing_null_does_nothing),
      cmocka_unit_test(every_state_has_a_name_that_reads_back),
      cmocka_unit_test(states_from_completed_on_are_final),
      cmocka_unit_test(every_decision_has_a_name_and_a_state),
      cmocka_unit_test(decisions_lead_to_the_specified_states),
      cmocka_unit_test(no_decision_has_no_name), cmocka_unit_test(policies_have_names),
      cmocka_unit_test(text_shows_why_a_task_was_stopped));
