/* Nested calls of work that a call has started, in its turn. */
#include "house.h"

#include <stdio.h>

static void call_once(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    struct bl_tool_result result;

    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{\"path\":\"x\"}", &result), BL_NESTED_OK);
    CHECK(has(result.text, "nested c-a/1"));
    CHECK(!result.is_error);
}

SCENE(a_nested_call_is_a_step_and_journaled_with_its_result)
{
    struct bl_turn_result *result = play(stage, call_once);
    char turn[64];

    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    snprintf(turn, sizeof turn, "\"turn\":\"%s\"", result->turn_id);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_REQUESTED), 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_STARTED), 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_OUTPUT), 1);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_ENDED), 2);
    CHECK_EQUAL(
        written(stage, "\"id\":\"c-a/1\",\"name\":\"read\",\"input\":{\"path\":\"x\"}}", turn), 1);
    CHECK_EQUAL(written(stage, "\"status\":\"ok\",\"ms\":0,\"result\":\"nested c-a/1\"}", turn), 1);
    /* The result of a model's call is only in the messages. */
    CHECK_EQUAL(written(stage, "\"type\":\"tool_ended\"", "\"result\""), 1);
    CHECK(!has(bl_text_from(stage->turns[0].messages), "nested"));
    CHECK(has(result->json, "{\"id\":\"c-a/1\",\"tool\":\"read\",\"status\":\"ok\",\"ms\":0}"));
    stage_check_agreement(stage, result);
    return 0;
}

static void call_twice(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    struct bl_tool_result result;

    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_OK);
    CHECK_EQUAL(run_nested(stage, "c-a/2", "read", "{}", &result), BL_NESTED_STEP_LIMIT);
    CHECK(has(result.text, "the limit of tool calls is reached"));
    CHECK(result.is_error);
}

SCENE(nested_calls_count_as_steps_and_stop_at_the_limit)
{
    stage->engine.limits.max_steps = 2;
    struct bl_turn_result *result = play(stage, call_twice);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 2);
    CHECK_EQUAL(written(stage, "\"id\":\"c-a/2\"", "\"status\":\"denied\""), 1);
    CHECK(!has(result->json, "c-a/2"));
    return 0;
}

static void be_denied(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    struct bl_tool_result result;

    stage->tool_deny = true;
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_DENIED);
    CHECK(bl_text_equal(result.text, BL_TEXT("the stage says no")));
    stage->tool_deny = false;
}

SCENE(a_nested_call_that_is_not_permitted_is_a_denial_of_the_turn)
{
    struct bl_turn_result *result = play(stage, be_denied);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(has(result->json, "{\"tool_name\":\"read\",\"reason\":\"the stage says no\"}"));
    CHECK(has(result->json, "\"id\":\"c-a/1\",\"tool\":\"read\",\"status\":\"denied\""));
    CHECK_EQUAL(written(stage, "\"status\":\"denied\"", "\"result\":\"the stage says no\""), 1);
    return 0;
}

static void be_wrong(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    struct bl_tool_result result;

    CHECK_EQUAL(run_nested(stage, "c-a/1", "nothing", "{}", &result), BL_NESTED_INVALID);
    CHECK(has(result.text, "there is no tool 'nothing'"));
    CHECK_EQUAL(run_nested(stage, "c-a/2", "read", "[1]", &result), BL_NESTED_INVALID);
    CHECK(has(result.text, "not a JSON object"));
    CHECK_EQUAL(run_nested(stage, "c-a/3", "read", "{\"cut", &result), BL_NESTED_INVALID);
    CHECK(has(result.text, "not JSON"));
}

SCENE(an_invalid_nested_call_reports_why)
{
    struct bl_turn_result *result = play(stage, be_wrong);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK_EQUAL(written(stage, "\"type\":\"tool_ended\"", "\"status\":\"invalid\""), 3);
    CHECK_EQUAL(written(stage, "tool_requested", "\"input\":null"), 2);
    return 0;
}

static int fail_nested(struct stage *stage, const struct bl_tool_call *call,
                       struct bl_tool_result *result, struct bl_error *error)
{
    struct bl_tool_result nested;

    if (is_nested(call))
        return bl_error_set(error, BL_EIO, BL_KIND_TOOL, "run", "read", "the runtime failed");
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &nested), BL_NESTED_FAILED);
    CHECK(has(nested.text, "the runtime failed"));
    result->text = BL_TEXT("done");
    return 0;
}

SCENE(a_runtime_that_fails_in_a_nested_call_does_not_fail_the_turn)
{
    stage->on_call = fail_nested;
    struct bl_turn_result *result = play(stage, NULL);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(written(stage, "\"status\":\"error\"", "the runtime failed"), 1);
    return 0;
}

static enum bl_permit say_yes(struct stage *stage BL_UNUSED,
                              const struct bl_tool_call *call BL_UNUSED, char *reason BL_UNUSED,
                              size_t reason_size BL_UNUSED)
{
    bl_sleep(5 * MS);
    return BL_PERMIT_ALLOWED;
}

static void be_asked_about(struct stage *stage, const struct bl_tool_call *call BL_UNUSED)
{
    struct bl_tool_result result;

    stage->tool_ask = true;
    stage->on_ask = say_yes;
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_OK);
}

SCENE(the_user_is_asked_about_a_nested_call)
{
    CHECK_EQUAL(play(stage, be_asked_about)->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(written(stage, "permission_asked", "\"id\":\"c-a/1\""), 1);
    CHECK_EQUAL(written(stage, "permission_answered", "\"answer\":\"allowed\""), 1);
    return 0;
}

/* Checks the scopes of a call. */
static void look_at_scopes(struct stage *stage, const struct bl_tool_call *call)
{
    CHECK(call->turn_scope != NULL);
    CHECK(call->turn_scope != call->scope);
    CHECK_EQUAL(bl_scope_check(call->turn_scope), 0);
    CHECK(bl_scope_stop(call->turn_scope, BL_STOP_USER, "test"));
    CHECK_EQUAL(bl_scope_check(call->scope), BL_ECANCELED);
    CHECK_EQUAL(bl_scope_check(&stage->scope), 0);
}

SCENE(a_call_has_the_scope_of_its_turn)
{
    CHECK_EQUAL(play(stage, look_at_scopes)->end, BL_TURN_CANCELLED);
    return 0;
}

/* ---- Next to the model's own calls ----------------------------------------------------------- */

static int meet_all(struct stage *stage, const struct bl_tool_call *call,
                    struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    int code = 0;

    if (!is_nested(call))
        for (cells_begun = 0; cells_begun < 8; cells_begun++) {
            char id[16];
            snprintf(id, sizeof id, "c-%zu", cells_begun);
            cell_begin(&cells[cells_begun], stage, &house, call->turn_scope, id);
        }
    while (code == 0 && stage->tools_at_once_max < 9)
        code = bl_sleep(MS);
    result->text = BL_TEXT("met");
    return code;
}

SCENE(many_nested_calls_run_in_parallel_with_the_models_own)
{
    house_begin(stage);
    stage->on_call = meet_all;
    CHECK_EQUAL(bl_scope_set_deadline(&stage->scope, bl_now_ns() + BL_NS_PER_S), 0);
    struct bl_turn_result *result = play(stage, NULL);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tools_at_once_max, 9);
    CHECK_EQUAL(written(stage, "tool_ended", "\"result\":\"met\""), 8);
    stage_check_agreement(stage, result);
    bl_nursery_done(&house);
    return 0;
}

/* ---- The end of a turn ----------------------------------------------------------------------- */

/* Leaves a cell in the turn's scope whose call would take an hour. */
static void leave_a_cell(struct stage *stage, const struct bl_tool_call *call)
{
    cell_begin(&cells[0], stage, &house, call->turn_scope, "c-left");
    cells_begun = 1;
}

static int sleep_nested(struct stage *stage, const struct bl_tool_call *call,
                        struct bl_tool_result *result, struct bl_error *error)
{
    struct bl_unit unit;

    if (!is_nested(call))
        return act(stage, call, result, error);
    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->name);
    int code = bl_sleep(3600 * BL_NS_PER_S);
    bl_unit_end(&unit, BL_FATE_ABORTED);
    result->text = BL_TEXT("half of it");
    return code;
}

static void must_be_settled(struct stage *stage)
{
    (void)stage;
    CHECK(settled);
}

SCENE(work_left_running_by_a_turn_ends_before_it_commits)
{
    house_begin(stage);
    stage->on_call = sleep_nested;
    stage->on_commit = must_be_settled;
    struct bl_turn_result *result = play(stage, leave_a_cell);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(cells[0].end, BL_NESTED_STOPPED);
    CHECK(has(result->json, "\"id\":\"c-left/1\",\"tool\":\"read\",\"status\":\"stopped\""));
    CHECK_EQUAL(written(stage, "\"status\":\"stopped\"", "\"result\":\"half of it\""), 1);
    CHECK_EQUAL(result->receipt.size, 0);
    stage_check_agreement(stage, result);
    bl_nursery_done(&house);
    return 0;
}

SCENE(work_left_running_by_a_turn_ends_before_its_budget_is_checked)
{
    house_begin(stage);
    stage->on_call = sleep_nested;
    stage->engine.limits.max_budget_tokens = 5;
    struct bl_turn_result *result = play(stage, leave_a_cell);
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK(settled);
    CHECK(has(result->json, "\"status\":\"stopped\""));
    bl_nursery_done(&house);
    return 0;
}

/* The second answer hangs, and is stopped: the cell has the turn's scope. */
SCENE(work_ended_by_a_stop_is_in_the_receipt_of_the_turn)
{
    struct stopper stopper;

    house_begin(stage);
    stage->on_call = sleep_nested;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "never said", .wedge = true});
    set_scene(stage, leave_a_cell);
    stop_after(&stopper, stage, 20 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(settled);
    CHECK_EQUAL(cells[0].end, BL_NESTED_STOPPED);
    CHECK(has(result->receipt, "\"kind\":\"cell\",\"id\":\"c-left\",\"fate\":\"aborted\""));
    CHECK(has(result->receipt, "\"kind\":\"tool\",\"id\":\"c-left/1\""));
    CHECK(has(bl_text_from(stage->stored_receipt), "c-left/1"));
    CHECK_EQUAL(written(stage, "\"type\":\"tool_ended\"", "\"id\":\"c-left/1\""), 1);
    stage_check_agreement(stage, result);
    bl_nursery_done(&house);
    return 0;
}

SCENE(work_left_running_by_a_failed_turn_ends_too)
{
    house_begin(stage);
    stage->on_call = sleep_nested;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage,
               (struct line){
                   .say = "x", .delay_ns = 5 * MS, .fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    set_scene(stage, leave_a_cell);
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(settled);
    CHECK(has(result->json, "\"status\":\"stopped\""));
    bl_nursery_done(&house);
    return 0;
}

static void settle_slowly(struct stage *stage, struct bl_scope *scope)
{
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    end_cells(stage, scope);
}

SCENE(a_stop_while_the_rest_is_ended_comes_before_the_claim)
{
    house_begin(stage);
    stage->on_call = sleep_nested;
    stage->on_settle = settle_slowly;
    struct bl_turn_result *result = play(stage, leave_a_cell);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(stage->turn_count, 0);
    CHECK(has(result->receipt, "c-left"));
    bl_nursery_done(&house);
    return 0;
}

/* The call gets a receipt of its own for a stop that did not come from above. */
static int stop_itself(struct stage *stage, const struct bl_tool_call *call,
                       struct bl_tool_result *result, struct bl_error *error)
{
    if (is_nested(call))
        bl_scope_stop(call->scope, BL_STOP_USER, "test");
    return sleep_nested(stage, call, result, error);
}

static void call_one_that_is_stopped(struct stage *stage, const struct bl_tool_call *call)
{
    struct bl_tool_result result;

    (void)call;
    CHECK_EQUAL(run_nested(stage, "c-a/1", "read", "{}", &result), BL_NESTED_STOPPED);
    CHECK(has(result.text, "half of it"));
    CHECK_EQUAL(bl_check(), 0);
}

SCENE(a_nested_call_can_be_stopped_alone)
{
    stage->on_call = stop_itself;
    struct bl_turn_result *result = play(stage, call_one_that_is_stopped);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(written(stage, "\"type\":\"receipt\"", "\"id\":\"c-a/1\",\"receipt\""), 1);
    return 0;
}

SUITE(nested, cmocka_unit_test(a_nested_call_is_a_step_and_journaled_with_its_result),
      cmocka_unit_test(nested_calls_count_as_steps_and_stop_at_the_limit),
      cmocka_unit_test(a_nested_call_that_is_not_permitted_is_a_denial_of_the_turn),
      cmocka_unit_test(an_invalid_nested_call_reports_why),
      cmocka_unit_test(a_runtime_that_fails_in_a_nested_call_does_not_fail_the_turn),
      cmocka_unit_test(the_user_is_asked_about_a_nested_call),
      cmocka_unit_test(a_call_has_the_scope_of_its_turn),
      cmocka_unit_test(many_nested_calls_run_in_parallel_with_the_models_own),
      cmocka_unit_test(work_left_running_by_a_turn_ends_before_it_commits),
      cmocka_unit_test(work_left_running_by_a_turn_ends_before_its_budget_is_checked),
      cmocka_unit_test(work_ended_by_a_stop_is_in_the_receipt_of_the_turn),
      cmocka_unit_test(work_left_running_by_a_failed_turn_ends_too),
      cmocka_unit_test(a_stop_while_the_rest_is_ended_comes_before_the_claim),
      cmocka_unit_test(a_nested_call_can_be_stopped_alone));
