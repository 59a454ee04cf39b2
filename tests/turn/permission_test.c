/* Questions: the events of a turn about them, and the answers. */
#include "stage.h"

#include <stdio.h>

/* The event of the last answer. */
static struct {
    char status[16];
    char reason[128];
    char id[32];
} told;

static void hear(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->type != BL_EVENT_PERMISSION_ANSWERED)
        return;
    bl_text_into(told.status, sizeof told.status, event->status);
    snprintf(told.reason, sizeof told.reason, BL_TEXT_FORMAT, BL_TEXT_ARG(event->text));
    snprintf(told.id, sizeof told.id, BL_TEXT_FORMAT, BL_TEXT_ARG(event->id));
}

static enum bl_permit say_yes(struct stage *stage BL_UNUSED,
                              const struct bl_tool_call *call BL_UNUSED, char *reason BL_UNUSED,
                              size_t reason_size BL_UNUSED)
{
    return bl_sleep(5 * MS) == 0 ? BL_PERMIT_ALLOWED : BL_PERMIT_DENIED;
}

static enum bl_permit say_no(struct stage *stage BL_UNUSED,
                             const struct bl_tool_call *call BL_UNUSED, char *reason,
                             size_t reason_size)
{
    snprintf(reason, reason_size, "the user said no");
    return BL_PERMIT_DENIED;
}

static enum bl_permit say_nothing(struct stage *stage BL_UNUSED,
                                  const struct bl_tool_call *call BL_UNUSED, char *reason,
                                  size_t reason_size)
{
    CHECK(bl_sleep(BL_NEVER / 2) != 0);
    snprintf(reason, reason_size, "it was stopped before the question was answered");
    return BL_PERMIT_DENIED;
}

static void ask_with(struct stage *stage,
                     enum bl_permit (*answer)(struct stage *, const struct bl_tool_call *, char *,
                                              size_t))
{
    memset(&told, 0, sizeof told);
    stage->on_event = hear;
    stage->tool_ask = true;
    stage->on_ask = answer;
}

SCENE(call_that_is_allowed_by_an_answer_runs)
{
    ask_with(stage, say_yes);
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK(bl_list_empty(&result->denials));
    CHECK_EQUAL(strcmp(told.status, "allowed"), 0);
    CHECK_EQUAL(strcmp(told.id, "call_1_0"), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_PERMISSION_ASKED), 1);
    return 0;
}

SCENE(refusal_is_a_result_for_the_model_and_a_record_in_the_turn)
{
    ask_with(stage, say_no);
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 0);
    CHECK(has(result->json, "\"permission_denials\":[{\"tool_name\":\"work\",\"reason\":\"the user "
                            "said no\"}]"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "Not permitted: the user said no"));
    CHECK_EQUAL(strcmp(told.status, "denied"), 0);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(pending_question_is_answered_cancelled_by_a_stop)
{
    struct stopper stopper;

    ask_with(stage, say_nothing);
    stage->engine.limits.keep = true;
    stage_line(stage, (struct line){.tool = "read", .calls = 2});
    stop_after(&stopper, stage, 5 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(result->cancel_observed);
    CHECK_EQUAL(strcmp(told.status, "cancelled"), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_PERMISSION_ANSWERED), 2);
    CHECK_EQUAL(stage->tool_calls, 0);
    CHECK(bl_list_empty(&result->denials));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

static enum bl_permit yes_and_a_stop(struct stage *stage, const struct bl_tool_call *call BL_UNUSED,
                                     char *reason BL_UNUSED, size_t reason_size BL_UNUSED)
{
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    return BL_PERMIT_ALLOWED;
}

SCENE(answer_that_comes_with_a_stop_runs_nothing)
{
    ask_with(stage, yes_and_a_stop);
    stage_line(stage, (struct line){.tool = "work"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(stage->tool_calls, 0);
    CHECK_EQUAL(strcmp(told.status, "cancelled"), 0);
    return 0;
}

/* Only the first call is stopped, in its question. */
static enum bl_permit stop_this_call(struct stage *stage BL_UNUSED, const struct bl_tool_call *call,
                                     char *reason BL_UNUSED, size_t reason_size BL_UNUSED)
{
    if (!has(bl_text_from(call->id), "_0"))
        return BL_PERMIT_ALLOWED;
    bl_scope_stop(call->scope, BL_STOP_USER, "test");
    return bl_sleep(MS) == 0 ? BL_PERMIT_ALLOWED : BL_PERMIT_DENIED;
}

SCENE(question_of_a_call_that_is_stopped_alone_leaves_the_turn)
{
    ask_with(stage, stop_this_call);
    stage_line(stage, (struct line){.tool = "read", .calls = 2});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK(has(bl_text_from(stage->turns[0].messages), "Stopped before it was run."));
    CHECK(has(result->json, "{\"id\":\"call_1_0\",\"tool\":\"read\",\"status\":\"stopped\""));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(without_a_user_to_ask_a_call_is_refused)
{
    stage->tool_ask = true;
    stage->tools.ask = NULL;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 0);
    CHECK(has(result->json, "\"reason\":\"it needs approval, and no user can be asked here\""));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_PERMISSION_ASKED), 0);
    return 0;
}

SUITE(permission, cmocka_unit_test(call_that_is_allowed_by_an_answer_runs),
      cmocka_unit_test(refusal_is_a_result_for_the_model_and_a_record_in_the_turn),
      cmocka_unit_test(pending_question_is_answered_cancelled_by_a_stop),
      cmocka_unit_test(answer_that_comes_with_a_stop_runs_nothing),
      cmocka_unit_test(question_of_a_call_that_is_stopped_alone_leaves_the_turn),
      cmocka_unit_test(without_a_user_to_ask_a_call_is_refused));
