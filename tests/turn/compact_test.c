/* Compaction: the oldest turns are summarized and leave the context. */
#include "stage.h"

#include <stdio.h>

/* Some hundreds of bytes. */
#define LONG                                                                                       \
    "a long answer that takes its room in the context of the model, so that the next one has "     \
    "less of it, and the one after that none at all; a long answer that takes its space again, "   \
    "and again, as answers do which nobody asked for in this length, and which everybody gets; "   \
    "and it continues until there are four hundred bytes of it, which are a hundred tokens. OK."
/* Tokens: four such answers are over its limit. */
#define ROOM 400u

static void fill(struct stage *stage, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        stage_line(stage, (struct line){.say = LONG, .input_tokens = 1, .output_tokens = 1});
        CHECK_EQUAL(stage_turn(stage, "go")->end, BL_TURN_COMPLETED);
    }
    stage->line_count = stage->line_next = 0;
    stage->requests = 0;
    stage->event_count = 0;
}

static void set_room(struct stage *stage)
{
    stage->model.input_tokens_max = ROOM;
}

SCENE(oldest_turns_are_summarized_inside_the_turn_that_needs_the_room)
{
    fill(stage, 4);
    set_room(stage);
    stage_line(stage, (struct line){.say = "in short", .input_tokens = 50, .output_tokens = 5});
    stage_line(stage, (struct line){.say = "ok", .input_tokens = 10, .output_tokens = 1});
    struct bl_turn_result *result = stage_turn(stage, "next");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK(bl_text_equal(result->output, BL_TEXT("ok")));
    /* Its usage and spending belong to the turn. */
    CHECK_EQUAL(result->usage.input_tokens, 60);
    CHECK_EQUAL(result->usage.output_tokens, 6);
    CHECK_EQUAL(result->spent.usage.input_tokens, 60);
    CHECK_EQUAL(stage->requests, 2);
    /* Its text is not emitted as the answer. */
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TEXT_DELTA), 1);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 1);
    /* The second request had the summary instead of the turns that left. */
    CHECK(stage->turns_skipped >= 2);
    CHECK(has(bl_text_from(stage->seen_summary), "in short"));
    CHECK_EQUAL(stage->turns_dropped, stage->turns_skipped);
    CHECK_EQUAL(stage->session.turns_in_context, 5 - stage->turns_dropped);
    CHECK_EQUAL(stage->session.turns_total, 5);
    CHECK(stage->session.summary != NULL);
    CHECK(has(bl_text_from(stage->stored_summary), "in short"));
    check_valid(stage, stage->stored_summary);
    stage_check_agreement(stage, result);
    /* The next turn gets it from the session. */
    stage->seen_summary[0] = '\0';
    stage_line(stage, (struct line){.say = "on"});
    CHECK_EQUAL(stage_turn(stage, "on")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->seen_summary), "in short"));
    CHECK_EQUAL(stage->turns_skipped, 0);
    return 0;
}

static void note_the_request(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_USAGE && stage->requests == 1)
        bl_text_into(stage->extra, sizeof stage->newest_text, stage->newest_text);
}

SCENE(summary_of_a_summary_replaces_both)
{
    fill(stage, 4);
    set_room(stage);
    stage_line(stage, (struct line){.say = "the first summary"});
    stage_line(stage, (struct line){.say = LONG});
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_COMPLETED);
    uint64_t dropped = stage->turns_dropped;
    fill(stage, 0);
    stage->model.input_tokens_max = 0;
    fill(stage, 3);
    set_room(stage);
    stage->extra = bl_arena_zalloc(&stage->arena, sizeof stage->newest_text);
    stage->on_event = note_the_request;
    stage_line(stage, (struct line){.say = "the second summary"});
    stage_line(stage, (struct line){.say = "ok"});
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->extra), "the first summary"));
    CHECK(stage->turns_dropped > dropped);
    CHECK(has(bl_text_from(stage->seen_summary), "the second summary"));
    CHECK(has(bl_text_from(stage->stored_summary), "the second summary"));
    return 0;
}

static void stop_in_the_summary(struct stage *stage, bool keep)
{
    struct stopper stopper;

    fill(stage, 4);
    set_room(stage);
    stage->engine.limits.keep = keep;
    stage_line(stage, (struct line){.say = "in short", .wedge = true});
    struct bl_text before = stage_memory(stage);
    stop_after(&stopper, stage, 5 * MS, BL_STOP_USER);
    struct bl_turn_result *result = stage_turn(stage, "next");
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(result->end, BL_TURN_CANCELLED);
    CHECK(has(result->receipt, "\"kind\":\"model\""));
    CHECK_EQUAL(result->interrupted, keep);
    CHECK_EQUAL(result->output.size, 0);
    CHECK(bl_usage_total(&result->spent.usage) > 0);
    CHECK_EQUAL(stage->turns_dropped, 0);
    CHECK(stage->session.summary == NULL);
    CHECK(stage->stored_summary == NULL);
    CHECK_EQUAL(stage->session.turns_in_context, keep ? 5 : 4);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 0);
    stage_check_agreement(stage, result);
    if (keep) {
        CHECK(has(bl_text_from(stage->turns[4].messages), "[interrupted]"));
        CHECK(!has(bl_text_from(stage->turns[4].messages), "in short"));
        check_valid(stage, stage->turns[4].messages);
    } else {
        CHECK(bl_text_equal(before, stage_memory(stage)));
    }
}

SCENE(stop_in_the_summary_ends_the_turn_and_leaves_the_context)
{
    stop_in_the_summary(stage, false);
    return 0;
}

SCENE(stop_in_the_summary_leaves_the_context_under_keep_too)
{
    stop_in_the_summary(stage, true);
    return 0;
}

SCENE(failed_summary_warns_and_the_turn_continues_without_it)
{
    fill(stage, 4);
    set_room(stage);
    stage_line(stage, (struct line){.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "next");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(result->error.code, 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_WARNING), 1);
    CHECK(has(bl_text_from(stage->warning), "without a summary: it failed"));
    CHECK(stage->turns_skipped > 0);
    CHECK(stage->session.summary == NULL);
    CHECK_EQUAL(stage->session.turns_in_context, 5 - stage->turns_skipped);
    return 0;
}

SCENE(summary_draws_from_the_budget_of_its_turn)
{
    fill(stage, 4); /* which used 8 */
    set_room(stage);
    stage->engine.limits.max_budget_tokens = 30;
    stage->estimate = 10;
    stage_line(stage, (struct line){.say = "in short", .input_tokens = 10, .output_tokens = 5});
    stage_line(stage, (struct line){.say = "never"});
    struct bl_turn_result *result = stage_turn(stage, "next");
    CHECK_EQUAL(result->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(bl_usage_total(&result->spent.usage), 15);
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->session.turns_in_context, 4);
    CHECK(stage->session.summary == NULL);
    /* A summary that exceeds the budget is not requested, with a warning; nor is the rest sent. */
    stage->engine.limits.max_budget_tokens = 17;
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->requests, 1);
    CHECK(has(bl_text_from(stage->warning), "budget exceeded"));
    return 0;
}

SCENE(model_that_overflows_gets_the_newer_half)
{
    fill(stage, 4);
    stage->engine.limits.compact_after_turns = 4; /* one would leave anyway */
    stage_line(stage, (struct line){.fail = BL_EINVAL,
                                    .fail_kind = BL_KIND_PROVIDER,
                                    .fail_name = "context_overflow"});
    stage_line(stage, (struct line){.say = "in short"});
    stage_line(stage, (struct line){.say = "ok"});
    struct bl_turn_result *result = stage_turn(stage, "next");
    CHECK_EQUAL(result->end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->requests, 3);
    CHECK_EQUAL(stage->turns_skipped, 2);
    CHECK(has(bl_text_from(stage->seen_summary), "in short"));
    CHECK_EQUAL(stage->session.turns_in_context, 3);
    return 0;
}

SCENE(rejected_turn_with_a_summary_leaves_the_context)
{
    fill(stage, 4);
    set_room(stage);
    stage_line(stage, (struct line){.say = "in short"});
    stage_line(stage, (struct line){.say = "ok"});
    stage->commit_code = BL_ENOSPC;
    struct bl_text before = stage_memory(stage);
    CHECK_EQUAL(stage_turn(stage, "next")->end, BL_TURN_ERROR);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK(stage->session.summary == NULL);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 0);
    return 0;
}

/* ---- On request ------------------------------------------------------------------------------ */

struct by_hand {
    uint64_t dropped;
    struct bl_spent spent;
    struct bl_error error;
    int code;
};

static void compact(struct stage *stage, struct by_hand *by_hand)
{
    *by_hand = (struct by_hand){0};
    by_hand->code =
        bl_session_compact(&stage->engine, &stage->session, &stage->receipt, &stage->journal, 1,
                           &by_hand->dropped, &by_hand->spent, &by_hand->error);
}

/* ---- The text to summarize ------------------------------------------------------------------- */

/* Checks the text for a turn with a call and a result of `bytes` bytes. */
static bool told_as(struct stage *stage, size_t bytes, const char *mark)
{
    struct bl_buffer expected, input;

    bl_buffer_init(&expected, 1 << 16);
    bl_buffer_init(&input, 1 << 16);
    bl_buffer_printf(&input, "\"%0*d\"", (int)bytes - 2, 0);
    struct bl_turn_record *record = bl_turn_record_new();
    struct bl_message *message =
        bl_message_add(&record->arena, &record->messages, BL_ROLE_ASSISTANT);
    struct bl_block *call = bl_block_add(&record->arena, message, BL_BLOCK_CALL);
    call->name = BL_TEXT("work");
    call->input = bl_arena_text(&record->arena, bl_buffer_text(&input));
    message = bl_message_add(&record->arena, &record->messages, BL_ROLE_USER);
    bl_block_add(&record->arena, message, BL_BLOCK_RESULT)->text = call->input;
    bl_session_add(&stage->session, record);
    struct bl_text shown = bl_utf8_cut(call->input, 2000);
    bl_buffer_printf(&expected,
                     "Tool call work: " BL_TEXT_FORMAT "%s\n\nResult: " BL_TEXT_FORMAT "%s\n\n---",
                     BL_TEXT_ARG(shown), mark, BL_TEXT_ARG(shown), mark);
    stage_add_turn(stage, 1);
    stage_line(stage, (struct line){.say = "in short"});
    struct by_hand by_hand;
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    bl_buffer_append(&expected, (struct bl_text){"", 1});
    bool found = has(bl_text_from(stage->newest_text), bl_buffer_text(&expected).data);
    bl_buffer_done(&expected);
    bl_buffer_done(&input);
    return found;
}

SCENE(summary_request_has_all_texts_and_the_beginning_of_tool_output)
{
    struct by_hand by_hand;

    stage_add_turn_of_each(stage);
    fill(stage, 1);
    stage_line(stage, (struct line){.say = " in short\n"});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    struct bl_text request = bl_text_from(stage->newest_text);
    CHECK(has(request, "---\n\nUser: hi\n\n[image]\n\nTool call work: {\"n\":1}\n\n"
                       "Result (failed): out\n\n---\n\nSummarize it"));
    CHECK(has(bl_text_from(stage->stored_summary),
              "[Summary of the conversation so far]\\n\\nin short\""));
    /* The assistant's text, and the previous summary, are included in full. */
    fill(stage, 1);
    stage_line(stage, (struct line){.say = "shorter"});
    compact(stage, &by_hand);
    CHECK(has(bl_text_from(stage->newest_text),
              "in short\n\nAssistant: I will continue from there.\n\n"
              "User: go\n\nAssistant: " LONG "\n\n---"));
    CHECK(told_as(stage, 2000, ""));
    CHECK(told_as(stage, 2001, " […]"));
    return 0;
}

SCENE(summary_has_64_KiB_at_most)
{
    struct by_hand by_hand;
    char *words = bl_alloc(65536 + 2);

    memset(words, 'x', 65536 + 1);
    words[65536 + 1] = '\0';
    fill(stage, 2);
    stage_line(stage, (struct line){.say = words});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    words[65536] = '\0';
    CHECK(has(bl_text_from(stage->stored_summary), words));
    words[65536] = 'x';
    CHECK(!has(bl_text_from(stage->stored_summary), words));
    bl_free(words);
    return 0;
}

/* ---- Its end --------------------------------------------------------------------------------- */

SCENE(requested_compaction_is_a_claimed_commit_of_its_own)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage_line(stage, (struct line){.say = "in short", .input_tokens = 9, .output_tokens = 3});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    CHECK_EQUAL(by_hand.dropped, 2);
    CHECK_EQUAL(bl_usage_total(&by_hand.spent.usage), 12);
    CHECK_EQUAL(stage->compacted, 1);
    CHECK_EQUAL(stage->turns_dropped, 2);
    CHECK_EQUAL(stage->turn_count, 3);
    CHECK_EQUAL(stage->session.turns_total, 3);
    CHECK_EQUAL(stage->session.turns_in_context, 1);
    CHECK_EQUAL(bl_usage_total(&stage->session.usage), 6 + 12);
    CHECK(has(bl_text_from(stage->stored_summary), "in short"));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_TEXT_DELTA), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 1);
    /* It is complete: a stop has no effect. */
    bl_scope_stop(&stage->scope, BL_STOP_USER, "late");
    CHECK_EQUAL(bl_scope_check(&stage->scope), 0);
    stage_rearm(stage);
    stage_line(stage, (struct line){.say = "on"});
    CHECK_EQUAL(stage_turn(stage, "on")->end, BL_TURN_COMPLETED);
    CHECK(has(bl_text_from(stage->seen_summary), "in short"));
    return 0;
}

SCENE(compaction_of_nothing_changes_nothing)
{
    struct by_hand by_hand;

    fill(stage, 1);
    struct bl_text before = stage_memory(stage);
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    CHECK_EQUAL(by_hand.dropped, 0);
    CHECK_EQUAL(stage->requests, 0);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    return 0;
}

SCENE(stop_before_the_claim_of_a_compaction_changes_nothing_and_has_a_receipt)
{
    struct by_hand by_hand;
    struct stopper stopper;

    fill(stage, 3);
    stage_line(stage, (struct line){.say = "in short", .wedge = true});
    struct bl_text before = stage_memory(stage);
    stop_after(&stopper, stage, 5 * MS, BL_STOP_USER);
    compact(stage, &by_hand);
    bl_nursery_done(&stopper.nursery);
    CHECK_EQUAL(by_hand.code, BL_ECANCELED);
    CHECK_EQUAL(by_hand.dropped, 0);
    CHECK(bl_usage_total(&by_hand.spent.usage) > 0);
    CHECK_EQUAL(stage->compacted, 0);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK(has(bl_text_from(stage->stored_receipt), "\"kind\":\"model\""));
    CHECK_EQUAL(stage->noted, 1);
    return 0;
}

static void stop_on_commit(struct stage *stage)
{
    bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(stop_after_the_claim_of_a_compaction_comes_too_late)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage->on_commit = stop_on_commit;
    stage_line(stage, (struct line){.say = "in short"});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    CHECK_EQUAL(by_hand.dropped, 2);
    CHECK_EQUAL(stage->session.turns_in_context, 1);
    CHECK(has(bl_text_from(stage->stored_receipt), "\"fate\":\"finished\""));
    return 0;
}

static void check_refused(struct stage *stage, int code)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage->compact_code = code;
    stage_line(stage, (struct line){.say = "in short"});
    struct bl_text before = stage_memory(stage);
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, code);
    CHECK_EQUAL(by_hand.error.kind, BL_KIND_FILESYSTEM);
    CHECK_EQUAL(by_hand.dropped, 0);
    CHECK(bl_text_equal(before, stage_memory(stage)));
    CHECK_EQUAL(stage->session.unknown, code == BL_EUNKNOWN);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 0);
}

SCENE(compaction_that_the_store_refuses_changes_nothing)
{
    check_refused(stage, BL_ENOSPC);
    return 0;
}

SCENE(compaction_with_an_in_doubt_commit_leaves_the_session_unknown)
{
    check_refused(stage, BL_EUNKNOWN);
    return 0;
}

SCENE(compaction_whose_call_fails_reports_why)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage_line(stage, (struct line){.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, BL_EIO);
    CHECK_EQUAL(strcmp(by_hand.error.message, "it failed"), 0);
    static const struct line useless[] = {
        {.say = "", .output_tokens = 1},
        {.say = " "},
        {.say = "I would rather not", .end = BL_ANSWER_REFUSAL},
        {.say = "half of", .no_end = true},
    };
    for (size_t i = 0; i < BL_COUNT(useless); i++) {
        stage_rearm(stage);
        stage_line(stage, useless[i]);
        compact(stage, &by_hand);
        CHECK_EQUAL(by_hand.code, BL_EPARSE);
        CHECK_EQUAL(by_hand.error.kind, BL_KIND_PROVIDER);
        CHECK(by_hand.error.message[0] != '\0');
        CHECK_EQUAL(stage->session.turns_in_context, 3);
        CHECK_EQUAL(stage->compacted, 0);
    }
    return 0;
}

static void stop_at_usage(struct stage *stage, const struct bl_event *event)
{
    if (event->type == BL_EVENT_USAGE)
        bl_scope_stop(&stage->scope, BL_STOP_USER, "test");
}

SCENE(stop_after_the_answer_of_a_compaction_comes_in_time)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage->on_event = stop_at_usage;
    stage->note_code = BL_EIO;
    stage_line(stage, (struct line){.say = "in short"});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, BL_ECANCELED);
    CHECK_EQUAL(stage->compacted, 0);
    CHECK_EQUAL(stage->session.turns_in_context, 3);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_COMPACTED), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    /* The receipt could not be stored, which is reported. */
    CHECK_EQUAL(stage_told(stage, BL_EVENT_ERROR), 1);
    return 0;
}

SCENE(requested_compaction_draws_from_the_budget_of_the_session)
{
    struct by_hand by_hand;

    fill(stage, 3); /* which used 6 */
    stage->estimate = 4;
    stage->engine.limits.max_budget_tokens = 9;
    stage_line(stage, (struct line){.say = "in short"});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, BL_EBUDGET);
    CHECK_EQUAL(stage->requests, 0);
    stage->engine.limits.max_budget_tokens = 10;
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    CHECK_EQUAL(by_hand.dropped, 2);
    return 0;
}

SCENE(compaction_without_a_store_is_only_in_memory)
{
    struct by_hand by_hand;

    fill(stage, 3);
    stage->engine.store = NULL;
    stage_line(stage, (struct line){.say = "in short"});
    compact(stage, &by_hand);
    CHECK_EQUAL(by_hand.code, 0);
    CHECK_EQUAL(stage->session.turns_in_context, 1);
    CHECK_EQUAL(stage->compacted, 0);
    CHECK_EQUAL(stage->noted, 0);
    return 0;
}

SUITE(compact, cmocka_unit_test(oldest_turns_are_summarized_inside_the_turn_that_needs_the_room),
      cmocka_unit_test(summary_of_a_summary_replaces_both),
      cmocka_unit_test(stop_in_the_summary_ends_the_turn_and_leaves_the_context),
      cmocka_unit_test(stop_in_the_summary_leaves_the_context_under_keep_too),
      cmocka_unit_test(failed_summary_warns_and_the_turn_continues_without_it),
      cmocka_unit_test(summary_draws_from_the_budget_of_its_turn),
      cmocka_unit_test(model_that_overflows_gets_the_newer_half),
      cmocka_unit_test(rejected_turn_with_a_summary_leaves_the_context),
      cmocka_unit_test(summary_request_has_all_texts_and_the_beginning_of_tool_output),
      cmocka_unit_test(summary_has_64_KiB_at_most),
      cmocka_unit_test(stop_after_the_answer_of_a_compaction_comes_in_time),
      cmocka_unit_test(requested_compaction_draws_from_the_budget_of_the_session),
      cmocka_unit_test(compaction_without_a_store_is_only_in_memory),
      cmocka_unit_test(requested_compaction_is_a_claimed_commit_of_its_own),
      cmocka_unit_test(compaction_of_nothing_changes_nothing),
      cmocka_unit_test(stop_before_the_claim_of_a_compaction_changes_nothing_and_has_a_receipt),
      cmocka_unit_test(stop_after_the_claim_of_a_compaction_comes_too_late),
      cmocka_unit_test(compaction_that_the_store_refuses_changes_nothing),
      cmocka_unit_test(compaction_with_an_in_doubt_commit_leaves_the_session_unknown),
      cmocka_unit_test(compaction_whose_call_fails_reports_why));
