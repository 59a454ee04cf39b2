/* Calls of one answer that run in parallel; and the budget that they share. */
#include "stage.h"

/* ---- At the same time ------------------------------------------------------------------------ */

/* Waits for a second call, which works only if neither waits for the other's end. */
static int meet(struct stage *stage, const struct bl_tool_call *call BL_UNUSED,
                struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    int code = 0;

    while (code == 0 && stage->tools_at_once_max < 2)
        code = bl_sleep(MS);
    result->text = BL_TEXT("met");
    return code;
}

SCENE(tools_that_allow_it_run_at_the_same_time)
{
    stage->on_call = meet;
    stage_line(stage, (struct line){.tool = "read", .calls = 2});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(bl_scope_set_deadline(&stage->scope, bl_now_ns() + BL_NS_PER_S), 0);
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tools_at_once_max, 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TOOL_ENDED), 2);
    stage_check_agreement(stage, result);
    return 0;
}

/* Earlier calls take longer. */
static int late_first(struct stage *stage BL_UNUSED, const struct bl_tool_call *call,
                      struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    int code = bl_sleep((uint64_t)('9' - call->id[strlen(call->id) - 1]) * MS);

    result->text = bl_arena_printf(call->arena, "result of %s", call->id);
    return code;
}

static void note_the_order_of_ends(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_ENDED && stage_told(stage, BL_EVENT_TOOL_ENDED) == 1)
        stage->extra = (void *)(uintptr_t)event->id.data[event->id.size - 1];
}

SCENE(results_are_in_the_order_of_calls)
{
    stage->on_call = late_first;
    stage->on_event = note_the_order_of_ends;
    stage_line(stage, (struct line){.tool = "read", .calls = 3});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL((uintptr_t)stage->extra, '2');
    struct bl_text messages = bl_text_from(stage->turns[0].messages);
    ptrdiff_t first = bl_text_find(messages, BL_TEXT("result of call_1_0"));
    ptrdiff_t second = bl_text_find(messages, BL_TEXT("result of call_1_1"));
    ptrdiff_t third = bl_text_find(messages, BL_TEXT("result of call_1_2"));
    CHECK(first > 0 && first < second && second < third);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(other_tools_run_one_after_another)
{
    stage->tool_ns = 5 * MS;
    stage_line(stage, (struct line){.tool = "work", .calls = 3});
    stage_line(stage, (struct line){.say = "ok"});
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 3);
    CHECK_EQUAL(stage->tools_at_once_max, 1);
    CHECK_EQUAL(bl_now_ns() - from_ns, 15 * MS);
    return 0;
}

SCENE(sequential_call_waits_for_earlier_calls_and_delays_later_ones)
{
    stage->tool_ns = 5 * MS;
    stage_line(stage, (struct line){.tool = "read read work read read nothing read"});
    stage_line(stage, (struct line){.say = "ok"});
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 6);
    CHECK_EQUAL(stage->tools_at_once_max, 2);
    CHECK_EQUAL(bl_now_ns() - from_ns, 20 * MS);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(call_beyond_the_limit_is_not_run_and_earlier_ones_are)
{
    stage->engine.limits.max_steps = 2;
    stage_line(stage, (struct line){.tool = "read", .calls = 3});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_STEPS);
    CHECK_EQUAL(stage->tool_calls, 2);
    stage->engine.limits.synthesize = true;
    stage_line(stage, (struct line){.tool = "read", .calls = 3});
    stage_line(stage, (struct line){.say = "as far as I got"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->tool_calls, 4);
    CHECK(stage->saw_forbidden);
    CHECK(has(bl_text_from(stage->turns[0].messages), "Not run: the limit of tool calls"));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

static void stop_at_text(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(synthesis_can_be_cancelled_like_anything_else)
{
    stage->engine.limits.max_steps = 1;
    stage->engine.limits.synthesize = true;
    stage->on_event = stop_at_text;
    stage_line(stage, (struct line){.tool = "read", .calls = 2});
    stage_line(stage, (struct line){.say = "as far as I got", .delay_ns = MS});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(stage->saw_forbidden);
    CHECK(has(result->receipt, "\"kind\":\"model\""));
    CHECK_EQUAL(stage->turn_count, 0);
    return 0;
}

/* ---- Failures and stops ---------------------------------------------------------------------- */

/* The second fails; the others wait forever. */
static int one_fails(struct stage *stage, const struct bl_tool_call *call,
                     struct bl_tool_result *result, struct bl_error *error)
{
    struct bl_unit unit;

    if (has(bl_text_from(call->id), "_1_1")) {
        bl_sleep(MS);
        return bl_error_set(error, BL_EIO, BL_KIND_TOOL, "run", "read", "the runtime failed");
    }
    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->name);
    int code = bl_sleep(BL_NEVER / 2);
    struct bl_stop stop;
    bl_scope_stop_read(call->scope, &stop);
    CHECK(strcmp(stop.origin, call->name) == 0);
    bl_unit_end(&unit, BL_FATE_ABORTED);
    stage->extra = (void *)((uintptr_t)stage->extra + (code == BL_ECANCELED));
    result->text = BL_TEXT("stopped");
    return code;
}

static void look_at_the_receipt(struct stage *stage BL_UNUSED, const struct bl_event *event)
{
    if (event->type != BL_EVENT_RECEIPT)
        return;
    CHECK(bl_text_equal(event->id, BL_TEXT("call_1_1")));
    CHECK(has(event->json, "\"reason\":\"sibling_failure\",\"origin\":\"read\""));
    CHECK(has(event->json, "\"id\":\"call_1_0\""));
}

SCENE(runtime_error_in_a_call_stops_its_siblings)
{
    stage->on_call = one_fails;
    stage->on_event = look_at_the_receipt;
    stage_line(stage, (struct line){.tool = "read", .calls = 4});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.code, BL_EIO);
    CHECK(strcmp(result->error.message, "the runtime failed") == 0);
    CHECK(!bl_scope_stopped(&stage->scope));
    CHECK_EQUAL(result->receipt.size, 0);
    CHECK_EQUAL((uintptr_t)stage->extra, stage->tool_calls - 1);
    CHECK(stage->tool_calls >= 2);
    CHECK_EQUAL(stage->turn_count, 0);
    /* One stop, of the siblings: one receipt, which lists them. */
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    stage_check_agreement(stage, result);
    stage_line(stage, (struct line){.say = "on"});
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_COMPLETED);
    return 0;
}

SCENE(one_stop_ends_all_with_one_receipt_that_lists_each)
{
    struct stopper first, second;

    stage->tool_ns = BL_NEVER / 2;
    stage->engine.limits.keep = true;
    stage_line(stage, (struct line){.tool = "read", .calls = 3});
    stop_after(&first, stage, 5 * MS, BL_STOP_USER);
    stop_after(&second, stage, 5 * MS, BL_STOP_SIGNAL);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&first.nursery);
    bl_nursery_done(&second.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(result->cancel_observed);
    CHECK(has(result->receipt, "\"id\":\"call_1_0\""));
    CHECK(has(result->receipt, "\"id\":\"call_1_1\""));
    CHECK(has(result->receipt, "\"id\":\"call_1_2\""));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_CANCEL_REQUESTED), 1);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

/* The second call stops the first one, and only that. */
static int stop_the_other(struct stage *stage, const struct bl_tool_call *call,
                          struct bl_tool_result *result, struct bl_error *error BL_UNUSED)
{
    struct bl_unit unit;

    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->name);
    int code = 0;
    if (stage->extra == NULL) {
        stage->extra = call->scope;
        code = bl_sleep(BL_NEVER / 2);
    } else {
        bl_sleep(MS);
        bl_scope_stop(stage->extra, BL_STOP_USER, "test");
        code = bl_sleep(MS);
    }
    bl_unit_end(&unit, code == 0 ? BL_FATE_FINISHED : BL_FATE_ABORTED);
    result->text = code == 0 ? BL_TEXT("whole") : BL_TEXT("half");
    return code;
}

SCENE(call_that_is_stopped_alone_leaves_its_siblings_and_its_turn)
{
    stage->on_call = stop_the_other;
    stage_line(stage, (struct line){.tool = "read", .calls = 2});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(result->receipt.size, 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK(has(result->json, "\"status\":\"stopped\""));
    CHECK(has(result->json, "\"status\":\"ok\""));
    CHECK(has(bl_text_from(stage->turns[0].messages), "\"half\""));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(stop_at_any_moment_of_parallel_calls_leaves_a_valid_history)
{
    for (uint64_t at = 1; at < 40; at++) {
        struct stopper stopper;
        stage->line_count = stage->line_next = 0;
        stage->tool_ns = 5 * MS;
        stage->engine.limits.keep = true;
        stage_line(stage, (struct line){.say = "look",
                                        .tool = "read read work read nothing read",
                                        .delay_ns = 2 * MS});
        stage_line(stage, (struct line){.say = "done", .delay_ns = 2 * MS});
        size_t before = stage->turn_count;
        stop_after(&stopper, stage, at * MS, BL_STOP_USER);
        stage_check_agreement(stage, stage_turn(stage, "go"));
        bl_nursery_done(&stopper.nursery);
        CHECK_EQUAL(stage->turn_count, before + 1);
        check_valid(stage, stage->turns[before].messages);
        stage_rearm(stage);
        stage->event_count = 0;
    }
    return 0;
}

/* ---- One budget ------------------------------------------------------------------------------ */

static void budget_is_reserved_from_all_above_or_from_none(void **state BL_UNUSED)
{
    struct bl_budget root = {.limit = 100, .used = 40};
    struct bl_budget child = {.limit = 50, .above = &root};
    struct bl_budget grandchild = {.limit = BL_UNLIMITED, .above = &child};

    assert_true(bl_budget_reserve(&grandchild, 50));
    assert_int_equal(root.reserved, 50);
    assert_false(bl_budget_reserve(&grandchild, 1)); /* the child's own limit is lower */
    assert_false(bl_budget_reserve(&root, 11));
    assert_true(bl_budget_reserve(&root, 10)); /* reaching the limit is fine */
    assert_int_equal(root.reserved, 60);
    bl_budget_settle(&grandchild, 50, 20);
    assert_int_equal(root.used, 60);
    assert_int_equal(child.used, 20);
    assert_int_equal(root.reserved, 10);
    bl_budget_settle(&root, 10, 40);
    assert_false(bl_budget_passed(&root));
    assert_false(bl_budget_reserve(&grandchild, 1));
    assert_int_equal(child.reserved, 0);
    bl_budget_settle(&root, 0, 1);
    assert_true(bl_budget_passed(&grandchild));
}

/* Runs a model: draws from the budget of the turn meanwhile. */
static int draw(struct stage *stage, const struct bl_tool_call *call, struct bl_tool_result *result,
                struct bl_error *error BL_UNUSED)
{
    struct bl_budget own = {.limit = BL_UNLIMITED, .above = call->budget};

    while (bl_budget_reserve(&own, 7)) {
        CHECK(call->budget->used + call->budget->reserved <= call->budget->limit);
        int code = bl_sleep(bl_random_below(stage->extra, 5 * MS));
        bl_budget_settle(&own, 7, 7);
        result->spent.usage.input_tokens += 7;
        if (code != 0)
            return code;
    }
    result->text = BL_TEXT("drawn");
    return 0;
}

SCENE(several_at_once_never_overshoot)
{
    struct bl_random random;

    bl_random_seed(&random, 7);
    stage->extra = &random;
    stage->on_call = draw;
    stage->engine.limits.max_budget_tokens = 100;
    stage->estimate = 1;
    stage_line(stage, (struct line){.tool = "read", .calls = 5, .input_tokens = 1});
    stage_line(stage, (struct line){.say = "ok", .input_tokens = 1});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(bl_usage_total(&result->usage), 100);
    CHECK_EQUAL(bl_usage_total(&result->spent.usage), 100);
    CHECK_EQUAL(bl_usage_total(&stage->session.usage), 100);
    stage_line(stage, (struct line){.say = "never"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_BUDGET);
    return 0;
}

SCENE(usage_of_a_stopped_call_counts)
{
    struct bl_random random;
    struct stopper stopper;

    bl_random_seed(&random, 7);
    stage->extra = &random;
    stage->on_call = draw;
    stage->engine.limits.max_budget_tokens = 1000000;
    stage_line(stage, (struct line){.tool = "read", .calls = 3});
    stop_after(&stopper, stage, 50 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(bl_usage_total(&result->usage), 0);
    CHECK(bl_usage_total(&result->spent.usage) >= 3 * 7 * 10);
    return 0;
}

SUITE(parallel, cmocka_unit_test(tools_that_allow_it_run_at_the_same_time),
      cmocka_unit_test(results_are_in_the_order_of_calls),
      cmocka_unit_test(other_tools_run_one_after_another),
      cmocka_unit_test(sequential_call_waits_for_earlier_calls_and_delays_later_ones),
      cmocka_unit_test(call_beyond_the_limit_is_not_run_and_earlier_ones_are),
      cmocka_unit_test(synthesis_can_be_cancelled_like_anything_else),
      cmocka_unit_test(runtime_error_in_a_call_stops_its_siblings),
      cmocka_unit_test(one_stop_ends_all_with_one_receipt_that_lists_each),
      cmocka_unit_test(call_that_is_stopped_alone_leaves_its_siblings_and_its_turn),
      cmocka_unit_test(stop_at_any_moment_of_parallel_calls_leaves_a_valid_history),
      cmocka_unit_test(budget_is_reserved_from_all_above_or_from_none),
      cmocka_unit_test(several_at_once_never_overshoot),
      cmocka_unit_test(usage_of_a_stopped_call_counts));
