/* The tool calls of one answer. */
#include "stage.h"

SCENE(answer_with_too_many_calls_is_an_error)
{
    stage_line(stage, (struct line){.tool = "work", .calls = 128});
    stage_line(stage, (struct line){.say = "done"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 128);
    stage_line(stage, (struct line){.tool = "work", .calls = 129});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.code, BL_ELIMIT);
    CHECK_EQUAL(stage->tool_calls, 128);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(tools_run_and_their_results_go_back)
{
    stage->tool_ns = 20 * MS;
    stage_line(stage, (struct line){.say = "look", .tool = "work", .calls = 2});
    stage_line(stage, (struct line){.say = "found"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 2);
    CHECK_EQUAL(result->duration_ms, 40);
    CHECK(has(result->json, "\"duration_ms\":40,"));
    CHECK(has(result->json, "\"steps\":[{\"id\":\"call_1_0\",\"tool\":\"work\",\"status\":\"ok\","
                            "\"ms\":20}"));
    CHECK(has(bl_text_from(stage->turns[0].messages),
              "\"type\":\"tool_result\",\"id\":\"call_1_1\""));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_STARTED), 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_OUTPUT), 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_ENDED), 2);
    stage_check_agreement(stage, result);
    return 0;
}

static struct bl_scope *call_scope;

static void remember_call(struct stage *stage, const struct bl_event *event)
{
    (void)stage;
    if (event->type == BL_EVENT_TOOL_STARTED)
        call_scope = event->call->scope;
}

static int stop_call_main(void *argument)
{
    int code = bl_sleep(5 * MS);
    (void)argument;
    bl_scope_stop(call_scope, BL_STOP_USER, "test");
    return code;
}

SCENE(one_call_can_be_stopped_and_the_turn_continues)
{
    struct bl_nursery nursery;

    stage->tool_ns = 60 * BL_NS_PER_S;
    stage->on_event = remember_call;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "without it"});
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_call_main, NULL, NULL);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&nursery);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(result->error.code, 0);
    CHECK(has(result->json, "\"status\":\"stopped\""));
    CHECK(has(bl_text_from(stage->turns[0].messages), "half, then stopped"));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK_EQUAL(result->receipt.size, 0);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(stopped_tool_is_in_the_receipt_of_the_run)
{
    struct stopper stopper;

    stage->tool_ns = 60 * BL_NS_PER_S;
    stage_line(stage, (struct line){.tool = "work", .calls = 2});
    stop_after(&stopper, stage, 5 * MS, BL_STOP_SIGNAL);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(has(result->receipt, "{\"kind\":\"tool\",\"id\":\"call_1_0\",\"name\":\"work\",\"fate\":"
                               "\"aborted\""));
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK(bl_text_equal(bl_text_from(stage->stored_receipt), result->receipt));
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(denied_call_is_a_result_and_a_record)
{
    stage->tool_deny = true;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.say = "then not"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 0);
    CHECK(has(result->json,
              "\"permission_denials\":[{\"tool_name\":\"work\",\"reason\":\"the stage "
              "says no\"}]"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "Not permitted: the stage says no"));
    return 0;
}

SCENE(failure_of_the_runtime_in_a_tool_is_an_error)
{
    stage->tool_fails = true;
    stage_line(stage, (struct line){.tool = "work"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_TOOL);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(step_limit_stops_the_call_that_would_exceed_it)
{
    stage->engine.limits.max_steps = 2;
    stage_line(stage, (struct line){.tool = "work", .calls = 2});
    stage_line(stage, (struct line){.tool = "work"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_MAX_STEPS);
    CHECK_EQUAL(stage->tool_calls, 2);
    CHECK_EQUAL(stage->turn_count, 0);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(step_limit_synthesizes_with_one_more_call_without_tools)
{
    stage->engine.limits.max_steps = 1;
    stage->engine.limits.synthesize = true;
    stage_line(stage, (struct line){.tool = "work", .calls = 3});
    stage_line(stage, (struct line){.say = "so far"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(stage->saw_forbidden);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK(has(bl_text_from(stage->turns[0].messages), "Not run: the limit"));
    stage_line(stage, (struct line){.tool = "work", .calls = 2});
    stage_line(stage, (struct line){.tool = "work"});
    CHECK_EQUAL(stage_turn(stage, "again")->end, BL_TURN_MAX_STEPS);
    return 0;
}

SCENE(P26_invalid_call_is_reported_twice_in_a_row_and_then_an_error)
{
    struct line broken = {.tool = "work", .input = "{\"a\":", .invalid = "?"};

    stage_line(stage, broken);
    stage_line(stage, (struct line){.tool = "no-such-tool"});
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.tool = "work", .input = "[1]"});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK(has(bl_text_from(stage->turns[0].messages), "there is no tool 'no-such-tool'"));
    CHECK(has(result->json, "\"tool\":\"no-such-tool\",\"status\":\"invalid\",\"ms\":0}"));
    for (int i = 0; i < 4; i++)
        stage_line(stage, broken);
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(has(result->json, "\"code\":\"bad_response\""));
    CHECK_EQUAL(stage->requests, 5 + 3);
    return 0;
}

SCENE(input_that_does_not_match_the_schema_is_reported_and_not_run)
{
    static const char text[] =
        "{\"type\":\"object\",\"required\":[\"n\"],\"additionalProperties\":{\"type\":\"number\"}}";
    struct bl_tool_offer offer = stage->tools.offers[0];
    struct bl_json_schema *schema = NULL;
    const struct bl_json *source;

    CHECK_EQUAL(bl_json_read(&stage->arena, bl_text_from(text), NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &schema, NULL), 0);
    offer.compiled = schema;
    stage->tools.offers = &offer;
    stage_line(stage, (struct line){.tool = "work"});
    stage_line(stage, (struct line){.tool = "work",
                                    .input = "{\"n\":\"\",\"a\":\"\",\"b\":\"\",\"c\":\"\","
                                             "\"d\":\"\",\"e\":\"\"}"});
    stage_line(stage, (struct line){.tool = "work", .input = "{\"n\":1}"});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 1);
    struct bl_text messages = bl_text_from(stage->turns[0].messages);
    CHECK(has(messages, "schema: missing required property \\\"n\\\".\""));
    /* The first five of six problems. */
    CHECK(has(messages, "schema: /n must be a number, is \\\"\\\"; /a must be"));
    CHECK(has(messages, "; /d must be a number, is \\\"\\\".\""));
    bl_json_schema_free(schema);
    return 0;
}

SUITE(steps, cmocka_unit_test(answer_with_too_many_calls_is_an_error),
      cmocka_unit_test(tools_run_and_their_results_go_back),
      cmocka_unit_test(one_call_can_be_stopped_and_the_turn_continues),
      cmocka_unit_test(stopped_tool_is_in_the_receipt_of_the_run),
      cmocka_unit_test(denied_call_is_a_result_and_a_record),
      cmocka_unit_test(failure_of_the_runtime_in_a_tool_is_an_error),
      cmocka_unit_test(step_limit_stops_the_call_that_would_exceed_it),
      cmocka_unit_test(step_limit_synthesizes_with_one_more_call_without_tools),
      cmocka_unit_test(P26_invalid_call_is_reported_twice_in_a_row_and_then_an_error),
      cmocka_unit_test(input_that_does_not_match_the_schema_is_reported_and_not_run));
