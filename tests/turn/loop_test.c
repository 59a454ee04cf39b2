#include "stage.h"

static struct bl_run_options options_of(const char *prompt, const char *continuation)
{
    return (struct bl_run_options){.run_id = "run_stage",
                                   .prompt = bl_text_from(prompt),
                                   .continues = continuation != NULL,
                                   .continuation = bl_text_from(continuation),
                                   .max_turns = 8};
}

static void play(struct stage *stage, const struct bl_run_options *options,
                 struct bl_run_result *result)
{
    stage->last_seq = 0;
    bl_run(&stage->engine, &stage->session, &stage->receipt, options, &stage->arena, result);
}

/* Returns the results of all its turns as one text. */
static struct bl_text turns_of(struct stage *stage, const struct bl_run_result *result)
{
    struct bl_text all = {0};

    BL_LIST_EACH (link, &result->turns) {
        struct bl_text turn = BL_CONTAINER(link, struct bl_turn_result, link)->json;
        all = bl_arena_printf(&stage->arena, BL_TEXT_FORMAT BL_TEXT_FORMAT "\n", BL_TEXT_ARG(all),
                              BL_TEXT_ARG(turn));
    }
    return all;
}

SCENE(without_a_continuation_there_is_exactly_one_turn)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "one", .input_tokens = 1});
    stage_line(stage, (struct line){.say = "two"});
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 1);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(bl_run_exit_code(&result), 0);
    CHECK_EQUAL(stage->requests, 1);
    CHECK_EQUAL(stage->noted, 1);
    CHECK_EQUAL(result.receipt.size, 0);
    CHECK_EQUAL(stage->events[0], BL_EVENT_RUN_STARTED);
    CHECK_EQUAL(stage->events[stage->event_count - 1], BL_EVENT_RUN_ENDED);
    CHECK(has(bl_buffer_text(&stage->written), "\"type\":\"run_ended\""));
    return 0;
}

SCENE(continuation_prompt_is_sent_without_any_suffix)
{
    struct bl_run_options options = options_of("go", "go on");
    struct bl_run_result result;

    for (int i = 0; i < 9; i++)
        stage_line(stage, (struct line){.say = "ok", .input_tokens = 2});
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 8);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(result.usage.input_tokens, 16);
    CHECK_EQUAL(strcmp(stage->newest_text, "go on"), 0);
    CHECK(has(bl_text_from(stage->turns[7].result), "\"prompt\":\"go on\""));
    return 0;
}

SCENE(one_deadline_covers_all_turns)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    for (int i = 0; i < 8; i++)
        stage_line(stage, (struct line){.say = "ok", .delay_ns = 30 * MS});
    options.timed = true;
    options.timeout_ns = 100 * MS;
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 3);
    CHECK_EQUAL(result.end, BL_TURN_TIMEOUT);
    CHECK_EQUAL(bl_run_exit_code(&result), 124);
    CHECK_EQUAL(result.stop.reason, BL_STOP_TIMEOUT);
    CHECK(has(result.receipt_line, "Nothing left running."));
    CHECK_EQUAL(stage->turn_count, 3);
    CHECK(bl_text_equal(bl_text_from(stage->stored_receipt), result.receipt));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    return 0;
}

/* A background job that looks different each time. */
static void count_background(void *context, struct bl_json_writer *writer)
{
    struct bl_background_row row = {.id = "job_1", .age_ms = ++*(unsigned *)context};
    bl_record_write(writer, &bl_background_record, &row);
}

SCENE(run_and_turn_have_one_receipt_of_one_stop)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;
    unsigned looks = 0;

    stage_line(stage, (struct line){.say = "never", .delay_ns = BL_NS_PER_S});
    stage->receipt.background = count_background;
    stage->receipt.background_context = &looks;
    options.timed = true;
    options.timeout_ns = 100 * MS;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_TIMEOUT);
    CHECK(has(result.receipt, "\"job_1\""));
    CHECK(bl_text_equal(bl_text_from(stage->stored_receipt), result.receipt));
    const struct bl_turn_result *turn =
        BL_CONTAINER(result.turns.next, struct bl_turn_result, link);
    CHECK(bl_text_equal(turn->receipt, result.receipt));
    return 0;
}

static void zero_or_less(struct stage *stage, int64_t timeout_ns)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "never"});
    options.timed = true;
    options.timeout_ns = timeout_ns;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_TIMEOUT);
    CHECK_EQUAL(result.turns_completed, 0);
    CHECK(result.turns.next != &result.turns && result.turns.next->next == &result.turns);
    CHECK_EQUAL(stage->requests, 0);
    CHECK_EQUAL(stage->begun, 1);
    CHECK(stage->stored_receipt[0] != '\0');
}

SCENE(deadline_of_zero_is_one_timeout_without_a_call)
{
    zero_or_less(stage, 0);
    return 0;
}

SCENE(deadline_below_zero_is_one_timeout_without_a_call)
{
    zero_or_less(stage, -5 * (int64_t)BL_NS_PER_S);
    return 0;
}

SCENE(deadline_counts_from_the_callers_start)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "never"});
    options.timed = true;
    options.timeout_ns = 10 * MS;
    options.from_ns = bl_now_ns() + 1;
    bl_sleep(20 * MS);
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_TIMEOUT);
    CHECK_EQUAL(stage->requests, 0);
    return 0;
}

SCENE(warnings_are_emitted_at_the_start)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_text warnings[] = {BL_TEXT("one"), BL_TEXT("two")};
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "ok"});
    options.warnings = warnings;
    options.warning_count = 2;
    play(stage, &options, &result);
    CHECK_EQUAL(stage->events[0], BL_EVENT_RUN_STARTED);
    CHECK_EQUAL(stage->events[1], BL_EVENT_WARNING);
    CHECK_EQUAL(stage->events[2], BL_EVENT_WARNING);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    return 0;
}

SCENE(loop_ends_at_the_first_result_that_is_not_completed)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "ok"});
    stage_line(stage, (struct line){.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    stage_line(stage, (struct line){.say = "never"});
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 1);
    CHECK_EQUAL(result.end, BL_TURN_ERROR);
    CHECK_EQUAL(bl_run_exit_code(&result), 1);
    CHECK(result.error != NULL && result.error->kind == BL_KIND_PROVIDER);
    CHECK_EQUAL(stage->requests, 2);
    return 0;
}

static void stop_on_second_commit(struct stage *stage)
{
    if (stage->turn_count == 1)
        bl_scope_stop(&stage->scope, BL_STOP_SIGNAL, "SIGTERM");
}

SCENE(late_stop_is_seen_by_the_next_turn_at_entry)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    for (int i = 0; i < 4; i++)
        stage_line(stage, (struct line){.say = "ok"});
    stage->on_commit = stop_on_second_commit;
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 2);
    CHECK_EQUAL(result.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(bl_run_exit_code(&result), 143);
    CHECK(has(result.receipt, "\"kind\":\"turn\""));
    CHECK_EQUAL(stage->requests, 2);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    CHECK(stage->stored_receipt[0] != '\0');
    return 0;
}

SCENE(late_stop_without_a_next_turn_leaves_the_run_completed)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "ok"});
    stage_line(stage, (struct line){.say = "ok"});
    options.max_turns = 2;
    stage->on_commit = stop_on_second_commit;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(bl_run_exit_code(&result), 0);
    CHECK(!result.cancel_observed);
    CHECK(has(result.receipt, "\"fate\":\"finished\""));
    CHECK(bl_text_equal(bl_text_from(stage->stored_receipt), result.receipt));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RECEIPT), 1);
    return 0;
}

static void refuse_and_stop(struct stage *stage)
{
    stage->commit_code = BL_EIO;
    bl_scope_stop(&stage->scope, BL_STOP_SIGNAL, "SIGINT");
}

SCENE(refused_commit_with_a_stop_is_an_error_with_the_receipt_of_the_stop)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "ok"});
    stage->on_commit = refuse_and_stop;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_ERROR);
    CHECK_EQUAL(bl_run_exit_code(&result), 1);
    CHECK(has(result.receipt, "\"kind\":\"turn\""));
    CHECK_EQUAL(stage->turn_count, 0);
    return 0;
}

SCENE(recorded_turns_are_not_run_again)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result first, second;
    struct bl_text recorded[4];

    for (int i = 0; i < 4; i++)
        stage_line(stage, (struct line){.say = "ok", .input_tokens = 3});
    options.max_turns = 2;
    play(stage, &options, &first);
    size_t count = 0;
    BL_LIST_EACH (link, &first.turns)
        recorded[count++] = BL_CONTAINER(link, struct bl_turn_result, link)->json;
    stage_rearm(stage);
    options.recorded = recorded;
    options.recorded_count = 2;
    play(stage, &options, &second);
    CHECK_EQUAL(second.turns_completed, 2);
    CHECK_EQUAL(second.usage.input_tokens, 6);
    CHECK_EQUAL(stage->requests, 2);
    CHECK_EQUAL(second.end, first.end);
    CHECK(bl_record_equal(&bl_spent_record, &first.spent, &second.spent));
    CHECK(bl_text_equal(turns_of(stage, &first), turns_of(stage, &second)));
    stage_rearm(stage);
    options.max_turns = 3;
    play(stage, &options, &second);
    CHECK_EQUAL(second.turns_completed, 3);
    CHECK_EQUAL(stage->requests, 3);
    CHECK_EQUAL(strcmp(stage->newest_text, "on"), 0);
    return 0;
}

SCENE(first_turn_overflow_leaves_an_empty_session_and_success_then_overflow_only_the_success)
{
    struct bl_run_options options = options_of("go", "on");
    struct bl_run_result result;

    stage->engine.limits.max_budget_tokens = 5;
    stage->estimate = 6;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(bl_run_exit_code(&result), 3);
    CHECK_EQUAL(stage->turn_count, 0);
    stage_rearm(stage);
    stage->estimate = 3;
    stage_line(stage, (struct line){.say = "ok", .input_tokens = 3});
    play(stage, &options, &result);
    CHECK_EQUAL(result.turns_completed, 1);
    CHECK_EQUAL(result.end, BL_TURN_MAX_BUDGET);
    CHECK_EQUAL(stage->turn_count, 1);
    CHECK_EQUAL(stage->session.turns_total, 1);
    return 0;
}

SCENE(recorded_turn_that_did_not_complete_is_the_end_of_the_run)
{
    static const char *const ends[] = {"cancelled",         "timeout",
                                       "max_turns_reached", "max_budget_reached",
                                       "max_steps_reached", "error"};

    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        struct bl_run_options options = options_of("go", "on");
        struct bl_run_result result;
        size_t end;
        struct bl_text recorded =
            bl_arena_printf(&stage->arena,
                            "{\"turn_id\":\"turn_a\",\"stop_reason\":\"%s\",\"spent\":"
                            "{\"input_tokens\":2,\"output_tokens\":1,\"cost_usd\":0.5}}",
                            ends[i]);
        CHECK(bl_names_find(&bl_turn_ends, bl_text_from(ends[i]), &end));
        CHECK_EQUAL(strcmp(bl_turn_end_name((enum bl_turn_end)end), ends[i]), 0);
        options.recorded = &recorded;
        options.recorded_count = 1;
        stage_rearm(stage);
        play(stage, &options, &result);
        CHECK_EQUAL(result.end, end);
        CHECK_EQUAL(result.turns_completed, 0);
        CHECK_EQUAL(bl_usage_total(&result.spent.usage), 3);
        CHECK_EQUAL(bl_usage_total(&result.usage), 0);
        const struct bl_turn_result *turn =
            BL_CONTAINER(result.turns.next, struct bl_turn_result, link);
        CHECK_EQUAL(strcmp(turn->turn_id, "turn_a"), 0);
    }
    CHECK_EQUAL(stage->requests, 0);
    CHECK(!bl_names_find(&bl_turn_ends, BL_TEXT("finished"), &(size_t){0}));
    return 0;
}

SCENE(end_that_cannot_be_stored_is_preceded_by_an_error)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;

    stage_line(stage, (struct line){.say = "ok"});
    stage->note_code = BL_EIO;
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_ERROR), 1);
    CHECK_EQUAL(stage->events[stage->event_count - 2], BL_EVENT_ERROR);
    CHECK_EQUAL(stage->events[stage->event_count - 1], BL_EVENT_RUN_ENDED);
    return 0;
}

/* Runs a loop of a sub-agent: it has no run end of its own to store. */
static void play_part(struct stage *stage, int note_code)
{
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;

    stage_rearm(stage);
    stage_line(stage, (struct line){.fail = BL_EIO, .fail_kind = BL_KIND_PROVIDER});
    stage->event_count = stage->noted = 0;
    stage->reject_code = BL_EIO;
    stage->note_code = note_code;
    options.agent = "child";
    play(stage, &options, &result);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RUN_STARTED), 0);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_RUN_ENDED), 0);
}

SCENE(events_refused_with_a_turn_are_stored_at_the_end_of_the_run)
{
    play_part(stage, 0);
    CHECK_EQUAL(stage->noted, 1);
    CHECK(has(bl_buffer_text(&stage->written), "\"agent\":\"child\""));
    CHECK(has(bl_buffer_text(&stage->written), "\"type\":\"turn_ended\""));
    CHECK_EQUAL(stage_told(stage, BL_EVENT_ERROR), 1);
    play_part(stage, BL_EIO);
    CHECK_EQUAL(stage_told(stage, BL_EVENT_ERROR), 2);
    /* If everything is stored already, nothing more is stored. */
    struct bl_run_options options = options_of("go", NULL);
    struct bl_run_result result;
    stage_rearm(stage);
    stage->note_code = stage->reject_code = 0;
    stage->noted = 0;
    stage_line(stage, (struct line){.say = "ok"});
    options.agent = "child";
    play(stage, &options, &result);
    CHECK_EQUAL(result.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(stage->noted, 0);
    return 0;
}

static void an_unproved_stop_has_failed(void **state)
{
    static const uint32_t failed[] = {1, 7, BL_SURVIVORS_UNKNOWN};
    struct bl_run_result result = {.end = BL_TURN_TIMEOUT};
    (void)state;
    assert_int_equal(bl_run_exit_code(&result), 124);
    for (size_t i = 0; i < BL_COUNT(failed); i++) {
        result.survivors = failed[i];
        assert_int_equal(bl_run_exit_code(&result), 1);
    }
}

SUITE(loop, cmocka_unit_test(an_unproved_stop_has_failed),
      cmocka_unit_test(without_a_continuation_there_is_exactly_one_turn),
      cmocka_unit_test(continuation_prompt_is_sent_without_any_suffix),
      cmocka_unit_test(one_deadline_covers_all_turns),
      cmocka_unit_test(run_and_turn_have_one_receipt_of_one_stop),
      cmocka_unit_test(deadline_of_zero_is_one_timeout_without_a_call),
      cmocka_unit_test(deadline_below_zero_is_one_timeout_without_a_call),
      cmocka_unit_test(deadline_counts_from_the_callers_start),
      cmocka_unit_test(warnings_are_emitted_at_the_start),
      cmocka_unit_test(loop_ends_at_the_first_result_that_is_not_completed),
      cmocka_unit_test(late_stop_is_seen_by_the_next_turn_at_entry),
      cmocka_unit_test(late_stop_without_a_next_turn_leaves_the_run_completed),
      cmocka_unit_test(refused_commit_with_a_stop_is_an_error_with_the_receipt_of_the_stop),
      cmocka_unit_test(recorded_turns_are_not_run_again),
      cmocka_unit_test(recorded_turn_that_did_not_complete_is_the_end_of_the_run),
      cmocka_unit_test(end_that_cannot_be_stored_is_preceded_by_an_error),
      cmocka_unit_test(events_refused_with_a_turn_are_stored_at_the_end_of_the_run),
      cmocka_unit_test(
          first_turn_overflow_leaves_an_empty_session_and_success_then_overflow_only_the_success));
