#include "stage.h"

#include <signal.h>
#include <stdio.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void in_text_the_answer_of_each_completed_turn_ends_in_one_newline(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--provider",
        stage_script("replies: [{say: one}, {say: \"two\\n\"}, {say: \"\"}]\n"),
        "--continuation-prompt", "more", "--max-turns", "3");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "one\ntwo\n\n");
    assert_string_equal(run.err, "");
}

static void incomplete_turn_is_an_error_and_a_hint_on_standard_error(void **state)
{
    const char *script = stage_script("replies: [{say: one}]\n");

    (void)state;
    RUN(&run, "run", "one two", "--provider", script, "--max-budget-tokens", "1");
    assert_int_equal(run.exit_code, 3);
    assert_string_equal(run.out, "");
    assert_memory_equal(run.err, "belay run: max_budget_reached: ", 31);
    assert_non_null(strstr(run.err, "; the session is unchanged"));
    RUN(&run, "run", "hi", "--provider", script, "--max-session-turns", "0");
    assert_memory_equal(run.err, "belay run: max_turns_reached: ", 30);
    RUN(&run, "run", "hi", "--provider", script, "--continuation-prompt", "more");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "one\n");
    assert_memory_equal(run.err, "belay run: error: ", 18);
    assert_int_equal(stage_lines_with(run.err, ""), 2);
    assert_memory_equal(strchr(run.err, '\n'), "\nhint: ", 7);
}

static void stop_is_reported_by_its_receipt_in_text(void **state)
{
    const char *stuck =
        stage_script("replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n");

    bool told = false, kept = false;

    (void)state;
    for (unsigned i = 0; !told; i++) {
        RUN(&run, "run", "hi", "--provider", stuck, "--timeout", stage_timeout(i));
        assert_int_equal(run.exit_code, 124);
        assert_string_equal(run.out, "");
        assert_memory_equal(run.err, "Timed out after ", 16);
        assert_non_null(strstr(run.err, " Nothing left running.\n"));
        assert_int_equal(stage_lines_with(run.err, ""), 1);
        told = strstr(run.err, " while receiving the answer. ") != NULL;
    }
    for (unsigned i = 0; !kept; i++) {
        RUN(&run, "run", "hi", "--provider", stuck, "--timeout", stage_timeout(i), "--on-cancel",
            "keep", "--session", "s");
        kept = strstr(run.err, "\nThe partial output is kept in session s, marked as "
                               "interrupted.\n") != NULL;
    }
}

static void the_envelope_has_all_members(void **state)
{
    static const char *const members[] = {
        "timestamp",
        "command",
        "exit_code",
        "output_format",
        "schema_version",
        "session_id",
        "provider",
        "model",
        "prompt",
        "max_turns",
        "timeout_seconds",
        "turns_completed",
        "turns",
        "final_stop_reason",
        "final_cancel_observed",
        "usage",
        "spent",
        "receipt",
    };

    (void)state;
    RUN(&run, "run", "hi", "--json", "--timeout", "2.5m");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    for (size_t i = 0; i < BL_COUNT(members); i++)
        assert_non_null(bl_json_get(answer, bl_text_from(members[i])));
    assert_int_equal(stage_number_at(answer, "/timeout_seconds"), 150);
    assert_int_equal(stage_number_at(answer, "/max_turns"), 8);
    assert_string_equal(stage_text_at(answer, "/output_format"), "json");
    assert_string_equal(stage_text_at(answer, "/model"), "builtin");
    assert_null(bl_json_get(answer, BL_TEXT("type")));
}

/* Checks that every line is an event, numbered without gaps, and the last one is the result. */
static void check_stream(const char *out)
{
    struct bl_text rest = bl_text_from(out), line;
    int64_t seq = 0;

    while (bl_text_split(&rest, '\n', &line) && rest.size > 0) {
        const char *event = stage_printf("" BL_TEXT_FORMAT, BL_TEXT_ARG(line));
        const struct bl_json *value = stage_json(event);
        runner_check_schema("event", event);
        assert_string_not_equal(stage_text_at(value, "/type"), "result");
        assert_int_equal(stage_number_at(value, "/seq"), ++seq);
    }
    assert_string_equal(stage_text_at(stage_json(stage_last_line(out)), "/type"), "result");
    assert_true(seq >= 4);
}

static void a_stream_is_events_in_order_and_one_result(void **state)
{
    static const char *const types[] = {
        "run_started", "turn_started", "text_delta", "tool_requested", "tool_started",
        "tool_output", "tool_ended",   "usage",      "turn_ended",     "run_ended"};

    (void)state;
    RUN(&run, "run", "hi", "--output-format", "stream-json", "--yolo", "--sandbox", "off",
        "--provider",
        stage_script("replies:\n"
                     "  - say: let me see\n"
                     "    tools: [{name: bash, input: {command: 'echo seen'}}]\n"
                     "  - say: done\n"));
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    check_stream(run.out);
    for (size_t i = 0; i < BL_COUNT(types); i++)
        assert_true(stage_lines_with(run.out, stage_printf("{\"type\":\"%s\",", types[i])) >= 1);
    RUN(&run, "run", "hi", "--output-format", "stream-json", "--timeout", "200ms", "--provider",
        stage_script("replies: [{wedge: before_first_token}]\n"));
    assert_int_equal(run.exit_code, 124);
    check_stream(run.out);
    assert_int_equal(stage_lines_with(run.out, "{\"type\":\"receipt\","), 1);
    assert_int_equal(stage_lines_with(run.out, "{\"type\":\"cancel_requested\","), 1);
}

static void events_come_as_they_happen(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--output-format", "stream-json", "--provider",
          stage_script("replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n"));
    held_await(&held, "\"text\":\"begun\"");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    assert_int_equal(stage_lines_with(held_out(&held), "\"type\":\"result\""), 0);
}

static void usage_errors_in_a_stream_are_its_one_result(void **state)
{
    (void)state;
    RUN(&run, "run", "--output-format", "stream-json", "--frob", "x");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "{\"type\":\"result\",", 17);
    assert_int_equal(stage_lines_with(run.out, ""), 1);
}

static void difficult_text_is_written_correctly(void **state)
{
    (void)state;
    RUN(&run, "run", "say \"\\\b\x1b[31m \xf0\x9f\xa7\x97 \xe2\x80\xa8", "--json", "--provider",
        stage_script("replies: [{say: \"\\u0000\\u001b[31m \\U0001F9D7\"}]\n"));
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/prompt"),
                        "say \"\\\b\x1b[31m \xf0\x9f\xa7\x97 \xe2\x80\xa8");
}

SUITE(run_output, HELD(in_text_the_answer_of_each_completed_turn_ends_in_one_newline),
      HELD(incomplete_turn_is_an_error_and_a_hint_on_standard_error),
      HELD(stop_is_reported_by_its_receipt_in_text), HELD(the_envelope_has_all_members),
      HELD(a_stream_is_events_in_order_and_one_result), HELD(events_come_as_they_happen),
      HELD(usage_errors_in_a_stream_are_its_one_result), HELD(difficult_text_is_written_correctly));
