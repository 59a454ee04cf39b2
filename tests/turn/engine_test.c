#include "stage.h"

SCENE(completes_a_turn)
{
    static const char *const commands[] = {"a", "b", NULL}, *const tools[] = {"c", NULL};

    stage->engine.matched_commands = commands;
    stage->engine.matched_tools = tools;
    stage_line(stage, (struct line){.say = "hello there", .input_tokens = 3, .output_tokens = 2});
    struct bl_turn_result *result = stage_turn(stage, "say hello");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(bl_text_equal(result->output, BL_TEXT("hello there")));
    CHECK_EQUAL(result->usage.input_tokens, 3);
    CHECK_EQUAL(result->spent.usage.output_tokens, 2);
    CHECK(result->spent.cost_usd > 2.4 && result->spent.cost_usd < 2.6);
    CHECK(!result->cancel_observed);
    CHECK(has(result->json,
              "\"prompt\":\"say hello\",\"output\":\"hello there\",\"stop_reason\":\"completed\","
              "\"cancel_observed\":false,\"stopped_during\":null,\"interrupted\":false,\"matched_"
              "commands\":[\"a\",\"b\"],"
              "\"matched_tools\":[\"c\"],\"permission_denials\":[],\"steps\":[],\"usage\":"
              "{\"input_tokens\":3,\"output_tokens\":2},\"spent\":{\"input_tokens\":3,"
              "\"output_tokens\":2,\"cost_usd\":2.5,\"cost_usd_max\":2.5},\"truncated\":false,"
              "\"started_at\":\""));
    CHECK(has(result->json, "\"duration_ms\":0,\"receipt\":null,\"error\":null}"));
    CHECK_EQUAL(stage->session.turns_total, 1);
    CHECK_EQUAL(stage->session.usage.input_tokens, 3);
    CHECK_EQUAL(stage->begun, 1);
    CHECK_EQUAL(stage->rejected, 0);
    CHECK(has(bl_text_from(stage->turns[0].messages), "hello there"));
    static const enum bl_event_type told[] = {BL_EVENT_TURN_STARTED, BL_EVENT_TEXT_DELTA,
                                              BL_EVENT_TEXT_DELTA, BL_EVENT_USAGE,
                                              BL_EVENT_TURN_ENDED};
    CHECK_EQUAL(stage->tools_seen, stage->tools.offer_count);
    CHECK_EQUAL(stage->event_count, BL_COUNT(told));
    for (size_t i = 0; i < BL_COUNT(told); i++)
        CHECK_EQUAL(stage->events[i], told[i]);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(stop_set_before_entry_returns_cancelled_with_all_state_as_before)
{
    stage_line(stage, (struct line){.say = "never"});
    struct bl_text before = stage_memory(stage);
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(result->cancel_observed);
    CHECK_EQUAL(result->output.size, 0);
    CHECK_EQUAL(stage->requests, 0);
    CHECK_EQUAL(stage->begun, 1);
    CHECK_EQUAL(stage->turn_count, 0);
    CHECK(has(result->receipt, "\"reason\":\"user\""));
    CHECK(bl_text_equal(before, stage_memory(stage)));
    stage_check_agreement(stage, result);
    return 0;
}

static void stop_at_second_delta(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA && stage_told(stage, BL_EVENT_TEXT_DELTA) == 2)
        bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(stop_while_the_output_is_made_is_honoured_at_the_output_checkpoint)
{
    /* Two pieces: after the second, the model waits for nothing. */
    stage_line(stage, (struct line){.say = "all of it", .output_tokens = 3});
    stage->lines[0].say = "all it";
    stage->on_event = stop_at_second_delta;
    struct bl_text before = stage_memory(stage);
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(bl_text_equal(result->output, BL_TEXT("all it")));
    CHECK_EQUAL(result->usage.output_tokens, 0);
    CHECK_EQUAL(result->spent.usage.output_tokens, 3);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK_EQUAL(stage->rejected, 1);
    CHECK(bl_text_equal(bl_text_from(stage->rejected_result), result->json));
    stage_check_agreement(stage, result);
    return 0;
}

static void stop_on_commit(struct stage *stage)
{
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(stop_after_the_claim_is_not_observed_by_this_turn_and_is_by_the_next)
{
    stage_line(stage, (struct line){.say = "done"});
    stage_line(stage, (struct line){.say = "never"});
    stage->on_commit = stop_on_commit;
    stage->store_ns = 10 * MS;
    struct bl_turn_result *first = stage_turn(stage, "one");
    CHECK_EQUAL(first->end, BL_TURN_COMPLETED);
    CHECK(!first->cancel_observed);
    CHECK_EQUAL(first->receipt.size, 0);
    stage_check_agreement(stage, first);
    struct bl_turn_result *second = stage_turn(stage, "two");
    CHECK_EQUAL(second->end, BL_TURN_CANCELLED);
    CHECK(second->cancel_observed);
    CHECK(has(second->receipt, "\"kind\":\"turn\""));
    CHECK(has(second->receipt, "\"fate\":\"finished\""));
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->turn_count, 1);
    stage_check_agreement(stage, second);
    return 0;
}

SCENE(stop_comes_before_the_turn_limit)
{
    stage->engine.limits.max_session_turns = 0;
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_CANCELLED);
    stage_rearm(stage);
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_TURNS);
    CHECK_EQUAL(stage->requests, 0);
    return 0;
}

SCENE(turn_limit_comes_before_the_projected_budget)
{
    stage->engine.limits.max_session_turns = 0;
    stage->engine.limits.max_budget_tokens = 0;
    stage->estimate = 5;
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_TURNS);
    stage->engine.limits.max_session_turns = 1;
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->requests, 0);
    return 0;
}

SCENE(over_budget_changes_nothing_and_a_smaller_prompt_then_works)
{
    stage->engine.limits.max_budget_tokens = 10;
    stage->estimate = 11;
    struct bl_text before = stage_memory(stage);
    for (int i = 0; i < 5; i++) {
        struct bl_turn_result *result = stage_turn(stage, "far too much");
        CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
        CHECK(!result->cancel_observed);
        CHECK_EQUAL(result->receipt.size, 0);
        CHECK(bl_text_equal(before, stage_memory(stage)));
        stage_check_agreement(stage, result);
    }
    CHECK_EQUAL(stage->requests, 0);
    CHECK_EQUAL(stage->rejected, 5);
    stage->estimate = 4;
    stage_line(stage, (struct line){.say = "ok", .input_tokens = 4, .output_tokens = 6});
    CHECK_EQUAL(stage_turn(stage, "less")->end, BL_TURN_COMPLETED);
    return 0;
}

SCENE(equal_to_the_budget_is_allowed_projected_and_actual)
{
    stage->engine.limits.max_budget_tokens = 10;
    stage->estimate = 10;
    stage_line(stage, (struct line){.say = "ok", .input_tokens = 7, .output_tokens = 3});
    CHECK_EQUAL(stage_turn(stage, "exactly")->end, BL_TURN_COMPLETED);
    stage->estimate = 0;
    stage_line(stage, (struct line){.say = "free"});
    CHECK_EQUAL(stage_turn(stage, "nothing more")->end, BL_TURN_COMPLETED);
    stage->estimate = 1;
    CHECK_EQUAL(stage_turn(stage, "one more")->end, BL_TURN_MAX_BUDGET);
    return 0;
}

SCENE(actual_use_over_the_budget_is_rejected_and_spent_is_not_hidden)
{
    stage->engine.limits.max_budget_tokens = 10;
    stage->estimate = 1;
    stage_line(stage, (struct line){.say = "far too long", .input_tokens = 1, .output_tokens = 10});
    struct bl_turn_result *result = stage_turn(stage, "short");
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(bl_usage_total(&result->usage), 0);
    CHECK_EQUAL(bl_usage_total(&result->spent.usage), 11);
    CHECK(bl_text_equal(result->output, BL_TEXT("far too long")));
    CHECK_EQUAL(bl_usage_total(&stage->session.usage), 0);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(budget_is_projected_again_before_each_request_of_a_turn)
{
    stage->engine.limits.max_budget_tokens = 10;
    stage->estimate = 4;
    stage_line(stage, (struct line){.tool = "work", .input_tokens = 5, .output_tokens = 2});
    stage_line(stage, (struct line){.say = "never"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->tool_calls, 1);
    CHECK_EQUAL(bl_usage_total(&result->spent.usage), 7);
    return 0;
}

SCENE(turn_limit_fires_although_compaction_has_dropped_turns)
{
    stage->engine.limits.max_session_turns = 4;
    stage->engine.limits.compact_after_turns = 2;
    for (int i = 0; i < 4; i++) {
        stage_line(stage, (struct line){.say = "ok", .input_tokens = 1, .output_tokens = 1});
        CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    }
    CHECK_EQUAL(stage->session.turns_in_context, 2);
    CHECK_EQUAL(stage->session.turns_total, 4);
    CHECK_EQUAL(stage->turns_dropped, 2);
    CHECK_EQUAL(stage->session.usage.input_tokens, 4);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 2);
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_TURNS);
    return 0;
}

SCENE(deadline_is_timeout_and_everything_else_is_not)
{
    stage_line(stage, (struct line){.wedge = true});
    bl_scope_set_deadline(&stage->scope, bl_now_ns() + 50 * MS);
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_TIMEOUT);
    CHECK(result->cancel_observed);
    CHECK_EQUAL(result->duration_ms, 50);
    CHECK(has(result->receipt, "\"reason\":\"timeout\""));
    CHECK(has(result->receipt, "\"kind\":\"model\""));
    CHECK(has(result->receipt, "\"detail\":\"cut\""));
    stage_check_agreement(stage, result);
    stage_rearm(stage);
    stage_line(stage, (struct line){
                          .say = "a", .fail = BL_ETIMEDOUT, .fail_kind = BL_KIND_PROVIDER_TIMEOUT});
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_PROVIDER_TIMEOUT);
    CHECK(!result->cancel_observed);
    CHECK(has(result->json, "\"kind\":\"provider_timeout\""));
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(answer_without_an_end_is_an_error)
{
    stage_line(stage, (struct line){.say = "half an", .no_end = true});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.code, BL_EPARSE);
    CHECK(has(result->json, "the answer is incomplete"));
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(stop_for_the_budget_is_max_budget_reached)
{
    struct stopper stopper;

    stage_line(stage, (struct line){.say = "one two", .wedge = true});
    stop_after(&stopper, stage, 5 * MS, BL_STOP_BUDGET);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK(has(result->receipt, "\"reason\":\"budget\""));
    stage_check_agreement(stage, result);
    return 0;
}

/* Nobody asked for it: it is not a cancel, and a script sees an error. */
static int lose_lease(struct stage *stage, bool keep)
{
    struct stopper stopper;

    stage->engine.limits.keep = keep;
    stage_line(stage, (struct line){.say = "one two", .wedge = true});
    stop_after(&stopper, stage, 5 * MS, BL_STOP_LEASE_LOST);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_SESSION);
    CHECK(strcmp(result->error.name, "lease_lost") == 0);
    CHECK(!result->interrupted);
    CHECK(has(result->receipt, "\"reason\":\"lease_lost\""));
    CHECK_EQUAL(stage->session.turns_total, 0);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(turn_whose_lease_is_lost_is_an_error_with_a_receipt)
{
    return lose_lease(stage, false);
}

SCENE(turn_whose_lease_is_lost_is_not_kept)
{
    return lose_lease(stage, true);
}

SCENE(cut_answer_is_spent_by_estimate_and_shown_up_to_the_cut)
{
    struct stopper stopper;

    stage->estimate = 9;
    stage_line(stage, (struct line){.say = "abcdefgh rest", .wedge = true});
    stop_after(&stopper, stage, 5 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(bl_text_equal(result->output, BL_TEXT("abcdefgh ")));
    CHECK_EQUAL(result->spent.usage.input_tokens, 9);
    CHECK_EQUAL(result->spent.usage.output_tokens, 3);
    CHECK_EQUAL(bl_usage_total(&stage->session.usage), 0);
    return 0;
}

SCENE(P32_context_that_overflows_loses_its_older_half_once_a_turn)
{
    struct line overflow = {
        .fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER, .fail_name = "context_overflow"};

    for (int i = 0; i < 3; i++) {
        stage_line(stage, (struct line){.say = "ok"});
        stage_turn(stage, "go");
    }
    stage_line(stage, overflow);
    stage_line(stage, (struct line){.say = "two turns, both ok"});
    stage_line(stage, (struct line){.say = "shorter"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->turns_skipped, 2);
    CHECK_EQUAL(stage->turns_dropped, 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 1);
    CHECK_EQUAL(stage->session.turns_in_context, 2);
    struct bl_text before = stage_memory(stage);
    stage_line(stage, overflow);
    stage_line(stage, overflow);
    stage_line(stage, overflow);
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(has(result->json, "\"code\":\"context_overflow\""));
    /* A summary was requested, too, and failed; the turn continued without one. */
    CHECK_EQUAL(stage_told(stage, BL_EVENT_WARNING), 1);
    CHECK_EQUAL(stage->requests, 3 + 3 + 3);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    return 0;
}

SCENE(call_that_a_limit_of_cost_does_not_cover_is_max_budget_reached)
{
    stage_line(stage, (struct line){.fail = BL_EBUDGET, .fail_kind = BL_KIND_POLICY});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(result->spent.usage.input_tokens, 0);
    return 0;
}

SCENE(failed_call_that_may_be_billed_is_spent_with_its_whole_reservation)
{
    stage->estimate = 4;
    stage_line(stage, (struct line){.say = "lost words",
                                    .fail = BL_EIO,
                                    .fail_kind = BL_KIND_PROVIDER,
                                    .reserved_usd = 40});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(result->spent.cost_usd == 3.5);
    CHECK(result->spent.cost_usd_max == 40);
    CHECK_EQUAL(result->usage.input_tokens, 0);
    return 0;
}

static void count_discards(struct stage *stage, const struct bl_event *event)
{
    unsigned *discards = stage->extra;

    *discards += event->type == BL_EVENT_RETRY && event->count > 0;
}

SCENE(P41_retry_discards_the_answer_so_far_and_reports_it)
{
    unsigned discards = 0;

    stage->extra = &discards;
    stage->on_event = count_discards;
    stage_line(stage, (struct line){.say = "once only", .retries = 2});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(discards, 2);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(bl_text_equal(result->output, BL_TEXT("once only")));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RETRY), 2);
    return 0;
}

SCENE(P33_P34_refusal_is_an_error_and_a_cut_by_the_limit_is_not)
{
    stage_line(stage, (struct line){.say = "yes"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    struct bl_text before = stage_memory(stage);
    stage_line(stage, (struct line){.say = "no", .end = BL_ANSWER_REFUSAL});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(has(result->json, "\"code\":\"refusal\""));
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK_EQUAL(stage->turn_count, 1);
    stage_line(stage, (struct line){.say = "too lo", .end = BL_ANSWER_MAX_TOKENS});
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(result->truncated);
    return 0;
}

SCENE(store_that_refuses_makes_it_an_error_with_memory_as_before)
{
    struct bl_text before = stage_memory(stage);

    stage_line(stage, (struct line){.say = "done", .output_tokens = 4});
    stage->commit_code = BL_ENOSPC;
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_FILESYSTEM);
    CHECK_EQUAL(result->receipt.size, 0);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK_EQUAL(stage->rejected, 1);
    CHECK_EQUAL(result->spent.usage.output_tokens, 4);
    stage_check_agreement(stage, result);
    stage->commit_code = 0;
    stage_line(stage, (struct line){.say = "now"});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    stage->begin_code = BL_ECLOSED;
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK(has(result->json, "\"message\":\"the stage refuses\""));
    stage_check_agreement(stage, result);
    CHECK_EQUAL(stage->requests, 2);
    return 0;
}

/* Another process has recorded a stop in the store before this one heard of it. */
SCENE(store_that_holds_a_stop_makes_it_cancelled)
{
    struct bl_text before = stage_memory(stage);

    stage_line(stage, (struct line){.say = "done", .output_tokens = 4});
    stage->commit_code = BL_ECANCELED;
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(result->error.code, 0);
    CHECK_EQUAL(stage->rejected, 1);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    stage_check_agreement(stage, result);
    stage->commit_code = 0;
    stage->begin_code = BL_ECANCELED;
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_CANCELLED);
    CHECK_EQUAL(stage->requests, 1);
    return 0;
}

SCENE(in_doubt_commit_requires_opening_the_session_again)
{
    stage_line(stage, (struct line){.say = "done"});
    stage_line(stage, (struct line){.say = "never"});
    stage->on_commit = stop_on_commit;
    stage->store_ns = 60 * BL_NS_PER_S;
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->duration_ms, 5000);
    CHECK(has(result->json, "\"code\":\"commit_unknown\""));
    CHECK(stage->session.unknown);
    CHECK_EQUAL(stage->session.turns_total, 0);
    CHECK_EQUAL(stage->rejected, 0);
    struct bl_text receipt = BL_TEXT("");
    struct bl_buffer out;
    struct bl_json_writer writer;
    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(&stage->receipt, &writer);
    receipt = bl_buffer_text(&out);
    CHECK(has(receipt, "\"kind\":\"turn\""));
    CHECK(has(receipt, "\"fate\":\"unknown\""));
    bl_buffer_done(&out);
    stage_rearm(stage);
    result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_ERROR);
    CHECK_EQUAL(result->error.kind, BL_KIND_SESSION);
    CHECK_EQUAL(stage->requests, 1);
    return 0;
}

SCENE(without_a_store_a_turn_is_only_in_memory)
{
    stage->engine.store = NULL;
    stage->engine.tools = NULL;
    stage_line(stage, (struct line){.say = "light"});
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(stage->tools_seen, 0);
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->session.turns_total, 1);
    stage_check_agreement(stage, result);
    return 0;
}

SUITE(engine, cmocka_unit_test(turn_whose_lease_is_lost_is_an_error_with_a_receipt),
      cmocka_unit_test(turn_whose_lease_is_lost_is_not_kept), cmocka_unit_test(completes_a_turn),
      cmocka_unit_test(answer_without_an_end_is_an_error),
      cmocka_unit_test(stop_set_before_entry_returns_cancelled_with_all_state_as_before),
      cmocka_unit_test(stop_while_the_output_is_made_is_honoured_at_the_output_checkpoint),
      cmocka_unit_test(stop_after_the_claim_is_not_observed_by_this_turn_and_is_by_the_next),
      cmocka_unit_test(stop_comes_before_the_turn_limit),
      cmocka_unit_test(turn_limit_comes_before_the_projected_budget),
      cmocka_unit_test(over_budget_changes_nothing_and_a_smaller_prompt_then_works),
      cmocka_unit_test(equal_to_the_budget_is_allowed_projected_and_actual),
      cmocka_unit_test(actual_use_over_the_budget_is_rejected_and_spent_is_not_hidden),
      cmocka_unit_test(budget_is_projected_again_before_each_request_of_a_turn),
      cmocka_unit_test(turn_limit_fires_although_compaction_has_dropped_turns),
      cmocka_unit_test(deadline_is_timeout_and_everything_else_is_not),
      cmocka_unit_test(stop_for_the_budget_is_max_budget_reached),
      cmocka_unit_test(cut_answer_is_spent_by_estimate_and_shown_up_to_the_cut),
      cmocka_unit_test(P32_context_that_overflows_loses_its_older_half_once_a_turn),
      cmocka_unit_test(call_that_a_limit_of_cost_does_not_cover_is_max_budget_reached),
      cmocka_unit_test(failed_call_that_may_be_billed_is_spent_with_its_whole_reservation),
      cmocka_unit_test(P41_retry_discards_the_answer_so_far_and_reports_it),
      cmocka_unit_test(P33_P34_refusal_is_an_error_and_a_cut_by_the_limit_is_not),
      cmocka_unit_test(store_that_refuses_makes_it_an_error_with_memory_as_before),
      cmocka_unit_test(store_that_holds_a_stop_makes_it_cancelled),
      cmocka_unit_test(in_doubt_commit_requires_opening_the_session_again),
      cmocka_unit_test(without_a_store_a_turn_is_only_in_memory));
