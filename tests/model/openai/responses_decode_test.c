#include "recorder.h"

static const struct feeding plain = {.api = &model_api_openai_responses};

static void P17_an_answer_is_the_same_at_any_cut(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/text.sse",
                  "text Grüße\n"
                  "text  🧗!\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop end\n");
    check_fixture(&model_api_openai_responses, "responses/small.sse",
                  "text é\n"
                  "usage 2 1 estimated\n"
                  "stop end\n");
    check_fixture(
        &model_api_openai_responses, "responses/calls.sse",
        "thinking Fir\n"
        "thinking st.\n"
        "thinking \n"
        "\n"
        "\n"
        "thinking Second.\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_"
        "1\",\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"First."
        "\"},{\"type\":\"summary_text\",\"text\":\"Second.\"}],\"content\":null,\"encrypted_c"
        "ontent\":\"gAAAAABo/+w==\",\"status\":null}}\n"
        "begin 0 call_a read\n"
        "delta 0 {\"path\"\n"
        "delta 0 :\"a\"}\n"
        "end 0 {\"path\":\"a\"}\n"
        "begin 1 call_b list\n"
        "delta 1 {}\n"
        "end 1 {}\n"
        "usage 37 11 cache 32 0 reasoning 6\n"
        "stop tool_calls\n");
}

static void the_item_that_is_done_replaces_its_pieces(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/authoritative.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\"wr\n"
                  "end 0 {\"path\":\"right\"}\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop tool_calls\n");
}

static void items_that_only_the_end_contains_are_taken(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai_responses, "responses/no_items.sse",
        "text Hi\n"
        "begin 0 call_a put\n"
        "delta 0 {\"big\":9223372036854775807,\"unsigned\":18446744073709551615}\n"
        "end 0 {\"big\":9223372036854775807,\"unsigned\":18446744073709551615}\n"
        "thinking Late\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_"
        "1\",\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"Late\""
        "}],\"encrypted_content\":\"x\"}}\n"
        "usage 37 11 cache 32 0 reasoning 6\n"
        "stop tool_calls\n");
}

static void items_are_identified_by_id_or_else_by_position(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/ids_change.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\"a\"}\n"
                  "begin 1 call_b list\n"
                  "delta 1 {}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {}\n"
                  "usage 2 4 estimated\n"
                  "stop tool_calls\n");
    check_fixture(&model_api_openai_responses, "responses/places_zero.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\n"
                  "begin 1 call_b list\n"
                  "delta 1 {}\n"
                  "delta 0 \"a\"}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {}\n"
                  "usage 2 4 estimated\n"
                  "stop tool_calls\n");
}

static void P36_raw_reasoning_is_kept_unchanged(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai_responses, "responses/raw_thinking.sse",
        "thinking Hm\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_"
        "1\",\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
        "\"text\":\"Hm\"}]}}\n"
        "text Yes\n"
        "usage 2 2 estimated\n"
        "stop end\n");
}

static void P25_a_call_that_the_limit_cut_is_invalid(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/cut_call.sse",
                  "begin 0 call_a list\n"
                  "delta 0 {}\n"
                  "end 0 {}\n"
                  "begin 1 call_b read\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "end 1  (its input is cut off: the output limit was reached first)\n"
                  "stop tool_calls\n");
    check_fixture(
        &model_api_openai_responses, "responses/cut_call_completed.sse",
        "begin 0 call_a read\n"
        "delta 0 {\"path\":\"a\n"
        "usage 37 11 cache 32 0 reasoning 6\n"
        "end 0 {\"path\":\"a (its input is cut off or is not JSON: offset 10 (line 1, column "
        "11): expected '\"', found the end near `{\"path\":\"a`)\n"
        "stop tool_calls\n");
}

static void P28_missing_usage_is_estimated(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/no_blank.sse",
                  "text a\n"
                  "usage 2 1 estimated\n"
                  "stop end\n");
}

static void P29_an_end_before_completed_is_a_cut_and_junk_after_it_is_ignored(
    void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/no_end.sse",
                  "text a\n"
                  "fail stream_cut: the stream ended before response.completed\n");
    check_fixture(&model_api_openai_responses, "responses/junk.sse",
                  "text a\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop end\n");
}

static void P30_an_error_first_or_later_is_a_failure(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/error_first.sse",
                  "fail overloaded: Overloaded\n");
    check_fixture(&model_api_openai_responses, "responses/error.sse",
                  "text a\n"
                  "fail rate_limited: Rate limit reached\n");
    check_fixture(&model_api_openai_responses, "responses/error_wrapped.sse",
                  "fail bad_request: No such thing\n");
    check_fixture(&model_api_openai_responses, "responses/failed.sse",
                  "fail server: The model failed to generate a response.\n");
    check_fixture(&model_api_openai_responses, "responses/failed_overflow.sse",
                  "fail context_overflow: Your input exceeds the context window of this model.\n");
    check_fixture(&model_api_openai_responses, "responses/failed_silent.sse",
                  "fail server: the server ended the answer without a reason\n");
}

static void P33_a_refusal_ends_as_one(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/refusal.sse",
                  "text I cannot \n"
                  "text help.\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop refusal\n");
    check_fixture(&model_api_openai_responses, "responses/filter.sse",
                  "text Well\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop refusal\n");
}

static void P34_text_cut_by_the_limit_is_marked(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai_responses, "responses/incomplete.sse",
                  "text Once upon\n"
                  "usage 37 11 cache 32 0 reasoning 6\n"
                  "stop max_tokens\n");
}

/* ---- Answers that are not a stream ---- */

static void P30_json_to_a_streaming_request_is_read_whole(void **state BL_UNUSED)
{
    check_whole_fixture(&model_api_openai_responses, "responses/whole.json",
                        "thinking First.\n"
                        "thinking \n"
                        "\n"
                        "\n"
                        "thinking Second.\n"
                        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"item\":{"
                        "\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_"
                        "text\",\"text\":\"First.\"},{\"type\":\"summary_text\",\"text\":\"Second."
                        "\"}],\"content\":null,\"encrypted_content\":\"gAAAAABo/+w==\",\"status\":"
                        "null}}\n"
                        "text Let me look.\n"
                        "begin 0 call_a read\n"
                        "delta 0 {\"path\":\"a\"}\n"
                        "end 0 {\"path\":\"a\"}\n"
                        "usage 37 11 cache 32 0 reasoning 6\n"
                        "stop tool_calls\n");
    check_whole_fixture(&model_api_openai_responses, "responses/whole_incomplete.json",
                        "text Once\nusage 2 1 estimated\nstop max_tokens\n");
    check_whole_fixture(&model_api_openai_responses, "responses/whole_failed.json",
                        "fail server: It failed.\n");
    check_whole(&plain, BL_TEXT("{\"output\":[],\"status\":\"cancelled\"}"),
                "fail server: the server ended the answer without a reason\n");
    check_whole(&plain, BL_TEXT("{\"hello\":\"world\"}"),
                "fail bad_response: the answer has no output\n");
}

/* ---- Calls that are cut ---- */

static void P24_a_stream_cut_before_its_end_runs_nothing(void **state BL_UNUSED)
{
    struct bl_text bytes = read_fixture("responses/calls.sse");
    ptrdiff_t last = bl_text_find(bytes, BL_TEXT("data: {\"type\":\"response.completed\""));
    struct recorder recorder;

    assert_true(last > 0);
    size_t finished = bytes.size - 2; /* complete without its blank line */
    for (size_t size = 0; size <= bytes.size; size++) {
        recorder_init(&recorder);
        int result = feed_stream(&recorder, &plain, (struct bl_text){bytes.data, size}, NULL, 0);
        const char *log = recorder_log(&recorder);
        assert_int_equal(result, size < finished ? BL_EIO : 0);
        assert_int_equal(strstr(log, "stop ") == NULL, size < finished);
        assert_int_equal(strstr(log, "fail stream_cut") != NULL, size < finished);
        recorder_done(&recorder);
    }
    bl_free((void *)(uintptr_t)bytes.data);
}

static void put_item(struct bl_json_writer *writer, struct bl_text arguments, const char *status)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "function_call");
    bl_json_put_string(writer, "id", "fc_1");
    bl_json_put_string(writer, "call_id", "call_a");
    bl_json_put_string(writer, "name", "read");
    bl_json_put_text(writer, "arguments", arguments);
    bl_json_put_string(writer, "status", status);
    bl_json_write_end(writer);
}

/* Writes a call with these arguments, with the given ends of its item and answer. */
static void write_cut(struct bl_buffer *out, struct bl_text arguments, const char *status,
                      const char *end)
{
    struct bl_json_writer writer;

    bl_buffer_clear(out);
    bl_buffer_append(out, BL_TEXT("data: {\"type\":\"response.output_item.done\",\"item\":"));
    bl_json_writer_init(&writer, out);
    put_item(&writer, arguments, status);
    bl_buffer_printf(out, "}\n\ndata: {\"type\":\"response.%s\"}\n\n", end);
}

static void P25_arguments_cut_by_the_limit_are_never_a_call(void **state BL_UNUSED)
{
    static const char *const ends[][2] = {{"incomplete", "incomplete"},
                                          {"incomplete", "completed"},
                                          {"completed", "incomplete"},
                                          {"completed", "completed"}};
    struct bl_text arguments = BL_TEXT("{\"path\":\"\\\"}\",\"n\":[1,{\"x\":-2.5e3}]}");
    struct recorder recorder;
    struct bl_buffer bytes;

    bl_buffer_init(&bytes, 1u << 16);
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        /* No arguments at all mean an empty object, if the item is complete. */
        for (size_t size = i < 2 ? 0 : 1; size < arguments.size; size++) {
            write_cut(&bytes, (struct bl_text){arguments.data, size}, ends[i][0], ends[i][1]);
            recorder_init(&recorder);
            assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), 0);
            const char *end = strstr(recorder_log(&recorder), "\nend 0 ");
            assert_non_null(end);
            assert_non_null(strstr(end, "(its input "));
            assert_non_null(strstr(end, "\nstop tool_calls\n"));
            recorder_done(&recorder);
        }
    }
    bl_buffer_done(&bytes);
}

/* ---- Oddities ---- */

static void pieces_without_an_item_belong_to_the_open_one(void **state BL_UNUSED)
{
    check_stream(&plain,
                 "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
                 "data: {\"type\":\"response.output_text.delta\",\"delta\":\"b\"}\n\n"
                 "event: response.completed\ndata: {}\n\n",
                 "text a\ntext b\nusage 2 1 estimated\nstop end\n");
}

static void an_empty_piece_does_not_replace_the_text(void **state BL_UNUSED)
{
    check_stream(&plain,
                 "data: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"m\","
                 "\"type\":\"message\"}}\n\n"
                 "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"delta\":\"\"}"
                 "\n\n"
                 "data: {\"type\":\"response.output_item.done\",\"item\":{\"id\":\"m\","
                 "\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"a\"}]}}"
                 "\n\nevent: response.completed\ndata: {}\n\n",
                 "text a\nusage 2 1 estimated\nstop end\n");
}

static void meaningless_events_are_ignored(void **state BL_UNUSED)
{
    check_stream(&plain,
                 ": ping\n\ndata: 7\n\ndata: {\"type\":\"keepalive\"}\n\n"
                 "data: {\"type\":\"response.output_item.done\"}\n\n"
                 "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":5,"
                 "\"delta\":\"{}\"}\n\n"
                 "data: {\"type\":\"response.completed\",\"response\":{\"output\":[7,null]}}\n\n",
                 "usage 2 1 estimated\nstop end\n");
}

static void a_status_that_contradicts_its_event_is_believed(void **state BL_UNUSED)
{
    check_stream(&plain,
                 "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
                 "data: {\"type\":\"response.completed\",\"response\":{\"status\":"
                 "\"incomplete\"}}\n\n",
                 "text a\nusage 2 1 estimated\nstop max_tokens\n");
    check_stream(&plain,
                 "data: {\"type\":\"response.completed\",\"response\":{\"status\":"
                 "\"failed\"}}\n\n",
                 "fail server: the server ended the answer without a reason\n");
}

static void more_items_than_the_limit_fail(void **state BL_UNUSED)
{
    struct recorder recorder;
    struct bl_buffer bytes;

    bl_buffer_init(&bytes, 1u << 20);
    for (unsigned i = 0; i < 1100; i++)
        bl_buffer_printf(&bytes,
                         "data: {\"type\":\"response.output_item.added\",\"item\":{\"id\":\"m%u\"}}"
                         "\n\n",
                         i);
    recorder_init(&recorder);
    assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), BL_EIO);
    assert_string_equal(recorder_log(&recorder),
                        "fail limit: the answer has more than 1024 items\n");
    recorder_done(&recorder);
    bl_buffer_done(&bytes);
}

static void a_listener_that_stops_ends_the_answer(void **state BL_UNUSED)
{
    check_refusals(&plain, "responses/calls.sse");
}

SUITE(responses_decode, cmocka_unit_test(P17_an_answer_is_the_same_at_any_cut),
      cmocka_unit_test(the_item_that_is_done_replaces_its_pieces),
      cmocka_unit_test(items_that_only_the_end_contains_are_taken),
      cmocka_unit_test(items_are_identified_by_id_or_else_by_position),
      cmocka_unit_test(P36_raw_reasoning_is_kept_unchanged),
      cmocka_unit_test(P25_a_call_that_the_limit_cut_is_invalid),
      cmocka_unit_test(P28_missing_usage_is_estimated),
      cmocka_unit_test(P29_an_end_before_completed_is_a_cut_and_junk_after_it_is_ignored),
      cmocka_unit_test(P30_an_error_first_or_later_is_a_failure),
      cmocka_unit_test(P33_a_refusal_ends_as_one),
      cmocka_unit_test(P34_text_cut_by_the_limit_is_marked),
      cmocka_unit_test(P30_json_to_a_streaming_request_is_read_whole),
      cmocka_unit_test(P24_a_stream_cut_before_its_end_runs_nothing),
      cmocka_unit_test(P25_arguments_cut_by_the_limit_are_never_a_call),
      cmocka_unit_test(pieces_without_an_item_belong_to_the_open_one),
      cmocka_unit_test(an_empty_piece_does_not_replace_the_text),
      cmocka_unit_test(meaningless_events_are_ignored),
      cmocka_unit_test(a_status_that_contradicts_its_event_is_believed),
      cmocka_unit_test(more_items_than_the_limit_fail),
      cmocka_unit_test(a_listener_that_stops_ends_the_answer));
