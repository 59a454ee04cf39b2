/* `keep`: a stopped turn is committed as it is, well-formed and marked. */
#include "stage.h"

static struct bl_turn_result *stop_a_turn(struct stage *stage, uint64_t after_ns)
{
    struct stopper stopper;

    stage->engine.limits.keep = true;
    stop_after(&stopper, stage, after_ns, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "go");
    bl_nursery_done(&stopper.nursery);
    stage_check_agreement(stage, result);
    return result;
}

SCENE(text_of_a_cut_answer_is_kept)
{
    stage->estimate = 4;
    stage_line(stage, (struct line){.think = "hm", .say = "one two", .delay_ns = 10 * MS});
    struct bl_turn_result *result = stop_a_turn(stage, 25 * MS);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(result->interrupted);
    CHECK_EQUAL(result->error.code, 0);
    CHECK(stage->turns[0].interrupted);
    CHECK(has(bl_text_from(stage->turns[0].messages), "\"text\":\"one \""));
    CHECK(has(bl_text_from(stage->turns[0].messages), "\"type\":\"thinking\""));
    CHECK(bl_usage_total(&result->usage) > 4);
    CHECK(stage->stored_receipt[0] != '\0');
    CHECK_EQUAL(stage->rejected, 0);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(thinking_that_had_not_ended_is_not_kept_and_an_empty_answer_reads_interrupted)
{
    stage_line(stage, (struct line){.think = "a b c d e f", .say = "x", .delay_ns = 10 * MS});
    stop_a_turn(stage, 25 * MS);
    CHECK(!has(bl_text_from(stage->turns[0].messages), "thinking"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "\"text\":\"[interrupted]\""));
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(call_that_had_not_ended_is_not_kept)
{
    stage_line(stage,
               (struct line){.say = "look", .tool = "work", .calls = 2, .delay_ns = 10 * MS});
    stop_a_turn(stage, 25 * MS);
    CHECK(!has(bl_text_from(stage->turns[0].messages), "call_1_1"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "call_1_0"));
    CHECK_EQUAL(stage->tool_calls, 0);
    check_valid(stage, stage->turns[0].messages);
    return 0;
}

SCENE(stopped_tool_keeps_its_output_and_others_get_a_synthetic_result)
{
    stage->tool_ns = 20 * MS;
    stage_line(stage, (struct line){.tool = "work", .calls = 3});
    struct bl_turn_result *result = stop_a_turn(stage, 30 * MS);
    CHECK_EQUAL(stage->tool_calls, 2);
    CHECK(has(bl_text_from(stage->turns[0].messages), "half done"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "half, then stopped"));
    CHECK(has(bl_text_from(stage->turns[0].messages), "[interrupted]"));
    CHECK(has(result->json, "\"interrupted\":true"));
    check_valid(stage, stage->turns[0].messages);
    stage_rearm(stage);
    stage_line(stage, (struct line){.say = "on we go"});
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_COMPLETED);
    return 0;
}

SCENE(turn_stopped_at_entry_is_not_kept)
{
    stage->engine.limits.keep = true;
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
    struct bl_turn_result *result = stage_turn(stage, "go");
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(!result->interrupted);
    CHECK_EQUAL(stage->turn_count, 0);
    stage_check_agreement(stage, result);
    return 0;
}

SCENE(other_results_discard)
{
    stage->engine.limits.keep = true;
    stage_line(stage, (struct line){.say = "x", .fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_ERROR);
    stage->engine.limits.max_budget_tokens = 1;
    stage_line(stage, (struct line){.say = "x", .output_tokens = 5});
    CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->turn_count, 0);
    return 0;
}

SCENE(store_that_refuses_to_keep_is_reported_and_nothing_is_interrupted)
{
    stage->commit_code = BL_ENOSPC;
    stage_line(stage, (struct line){.say = "one two", .delay_ns = 10 * MS});
    struct bl_turn_result *result = stop_a_turn(stage, 15 * MS);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(!result->interrupted);
    CHECK_EQUAL(result->error.code, BL_ENOSPC);
    CHECK_EQUAL(stage->session.turns_total, 0);
    CHECK_EQUAL(stage->rejected, 1);
    return 0;
}

SCENE(in_doubt_keep_leaves_the_session_unknown)
{
    stage->commit_code = BL_EUNKNOWN;
    stage_line(stage, (struct line){.say = "one two", .delay_ns = 10 * MS});
    struct bl_turn_result *result = stop_a_turn(stage, 15 * MS);
    CHECK_EQUAL(result->error.code, BL_EUNKNOWN);
    CHECK(stage->session.unknown);
    CHECK_EQUAL(stage->rejected, 0);
    /* Nothing is added after a commit that may have taken place. */
    size_t written = stage->written.size;
    bl_journal_emit(&stage->journal, &(struct bl_event){.type = BL_EVENT_WARNING});
    CHECK_EQUAL(bl_journal_note(&stage->journal, NULL), 0);
    CHECK_EQUAL(stage->written.size, written);
    return 0;
}

SCENE(stop_at_any_moment_leaves_a_valid_history)
{
    /* 60 ms of thinking, text and calls, then tools, then more: cut in every millisecond. */
    unsigned long moments = suite_rounds(160, 160);

    for (unsigned long at = 1; at < moments; at += 3) {
        stage->line_count = stage->line_next = 0;
        stage->tool_ns = 15 * MS;
        stage_line(stage, (struct line){.think = "hm hm",
                                        .say = "let me look",
                                        .tool = "work",
                                        .calls = 2,
                                        .delay_ns = 10 * MS});
        stage_line(stage, (struct line){.say = "it is done now", .delay_ns = 10 * MS});
        size_t before = stage->turn_count;
        struct bl_turn_result *result = stop_a_turn(stage, at * MS);
        CHECK_EQUAL(stage->turn_count, before + 1);
        CHECK(result->interrupted || result->end == BL_TURN_COMPLETED);
        check_valid(stage, stage->turns[before % STAGE_TURNS_MAX].messages);
        stage_rearm(stage);
        stage->event_count = 0;
    }
    return 0;
}

SUITE(
    keep, cmocka_unit_test(text_of_a_cut_answer_is_kept),
    cmocka_unit_test(thinking_that_had_not_ended_is_not_kept_and_an_empty_answer_reads_interrupted),
    cmocka_unit_test(call_that_had_not_ended_is_not_kept),
    cmocka_unit_test(stopped_tool_keeps_its_output_and_others_get_a_synthetic_result),
    cmocka_unit_test(turn_stopped_at_entry_is_not_kept), cmocka_unit_test(other_results_discard),
    cmocka_unit_test(store_that_refuses_to_keep_is_reported_and_nothing_is_interrupted),
    cmocka_unit_test(in_doubt_keep_leaves_the_session_unknown),
    cmocka_unit_test(stop_at_any_moment_leaves_a_valid_history));
