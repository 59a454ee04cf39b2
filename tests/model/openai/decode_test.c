#include "recorder.h"

#include <stdlib.h>

static const struct feeding plain = {.api = &model_api_openai};

static void P17_an_answer_is_the_same_at_any_cut(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/text.sse",
                  "text Grüße\n"
                  "text  🧗!\n"
                  "usage 21 9 cache 16 0 reasoning 4\n"
                  "stop end\n");
    check_fixture(&model_api_openai, "openai/small.sse",
                  "text é\n"
                  "usage 3 1\n"
                  "stop end\n");
    check_fixture(
        &model_api_openai, "openai/thinking.sse",
        "thinking Hm\n"
        "thinking , so\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"field\":\"reasoning_"
        "content\"}\n"
        "text Yes\n"
        "usage 2 3 estimated\n"
        "stop end\n");
    check_fixture(&model_api_openai, "openai/parallel.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\n"
                  "delta 0 \"a\"}\n"
                  "begin 1 call_b read\n"
                  "delta 1 {\"path\":\"b\"}\n"
                  "begin 2 call_c list\n"
                  "delta 2 {}\n"
                  "usage 21 9 cache 16 0 reasoning 4\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {\"path\":\"b\"}\n"
                  "end 2 {}\n"
                  "stop tool_calls\n");
}

static void P23_calls_without_index_or_with_the_same_one_are_distinguished(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/no_index.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\n"
                  "delta 0 \"a\"}\n"
                  "begin 1 call_b read\n"
                  "delta 1 {\"pa\n"
                  "delta 1 th\":\"b\"}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {\"path\":\"b\"}\n"
                  "usage 2 6 estimated\n"
                  "stop tool_calls\n");
    check_fixture(&model_api_openai, "openai/index_zero.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\"a\"}\n"
                  "begin 1 call_b read\n"
                  "delta 1 {\"path\":\n"
                  "delta 1 \"b\"}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {\"path\":\"b\"}\n"
                  "usage 2 6 estimated\n"
                  "stop tool_calls\n");
    check_fixture(&model_api_openai, "openai/no_ids.sse",
                  "begin 0 call_1 read\n"
                  "delta 0 {\"path\":\"a\"}\n"
                  "begin 1 call_2 read\n"
                  "delta 1 {\"path\":\"b\"}\n"
                  "begin 2 call_3 list\n"
                  "delta 2 {\"all\":\n"
                  "delta 2 true}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {\"path\":\"b\"}\n"
                  "end 2 {\"all\":true}\n"
                  "usage 2 9 estimated\n"
                  "stop tool_calls\n");
    check_fixture(&model_api_openai, "openai/positions.sse",
                  "begin 0 call_1 read\n"
                  "delta 0 {\"path\":\n"
                  "begin 1 call_2 list\n"
                  "delta 1 {\"all\":\n"
                  "delta 0 \"a\"}\n"
                  "delta 1 true}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {\"all\":true}\n"
                  "usage 2 6 estimated\n"
                  "stop tool_calls\n");
    check_fixture(&model_api_openai, "openai/index_only.sse",
                  "begin 0 call_1 read\n"
                  "begin 1 call_2 list\n"
                  "delta 0 {\"path\":\"a\"}\n"
                  "delta 1 {}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "end 1 {}\n"
                  "usage 2 4 estimated\n"
                  "stop tool_calls\n");
}

static void P23_a_repeated_id_or_name_changes_nothing(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/repeated.sse",
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\n"
                  "delta 0 \":\"\n"
                  "delta 0 a\"}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "usage 2 3 estimated\n"
                  "stop tool_calls\n");
}

static void P23_arguments_are_an_object_or_nothing_or_come_at_once(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai, "openai/arguments.sse",
        "begin 0 call_a put\n"
        "delta 0 {\"big\":9223372036854775807,\"unsigned\":18446744073709551615,\"small\":-92"
        "23372036854775808,\"real\":0.1,\"text\":\"ä\\n\"}\n"
        "begin 1 call_b list\n"
        "begin 2 call_c list\n"
        "begin 3 call_d list\n"
        "begin 4 call_e read\n"
        "delta 4 {\"path\":\"a\"}\n"
        "end 0 {\"big\":9223372036854775807,\"unsigned\":18446744073709551615,\"small\":-9223"
        "372036854775808,\"real\":0.1,\"text\":\"ä\\n\"}\n"
        "end 1 {}\n"
        "end 2 {}\n"
        "end 3 {}\n"
        "end 4 {\"path\":\"a\"}\n"
        "usage 2 32 estimated\n"
        "stop tool_calls\n");
}

static void P23_the_calls_decide_not_the_finish_reason(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/stop_with_calls.sse",
                  "text Let me look.\n"
                  "begin 0 call_a read\n"
                  "delta 0 {\"path\":\"a\"}\n"
                  "end 0 {\"path\":\"a\"}\n"
                  "usage 2 6 estimated\n"
                  "stop tool_calls\n");
    check_fixture(
        &model_api_openai, "openai/cut_arguments.sse",
        "begin 0 call_a list\n"
        "begin 1 call_b read\n"
        "delta 1 {\"path\":\"a\n"
        "end 0 {}\n"
        "end 1 {\"path\":\"a (its input is cut off or is not JSON: offset 10 (line 1, column "
        "11): expected '\"', found the end near `{\"path\":\"a`)\n"
        "usage 2 3 estimated\n"
        "stop tool_calls\n");
    check_fixture(&model_api_openai, "openai/cut_by_length.sse",
                  "begin 0 call_a list\n"
                  "begin 1 call_b read\n"
                  "end 0 {}\n"
                  "end 1  (its input is cut off: the output limit was reached first)\n"
                  "usage 2 1 estimated\n"
                  "stop tool_calls\n");
}

static void P23_usage_is_found_in_any_chunk(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/usage_every.sse",
                  "text a\n"
                  "usage 7 1\n"
                  "text b\n"
                  "usage 7 2\n"
                  "stop end\n");
    check_fixture(&model_api_openai, "openai/usage_in_choice.sse",
                  "text a\n"
                  "usage 12 3 cache 8 0\n"
                  "stop end\n");
    check_fixture(&model_api_openai, "openai/usage_groq.sse",
                  "text a\n"
                  "usage 5 2\n"
                  "stop end\n");
}

static void P23_meaningless_chunks_are_ignored(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/ignored.sse",
                  "text a\n"
                  "text b\n"
                  "usage 2 1 estimated\n"
                  "stop end\n");
}

static void P23_an_error_in_the_stream_is_a_failure(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/error_first.sse",
                  "fail server: The server had an error while processing your request\n");
    check_fixture(&model_api_openai, "openai/error_mid.sse",
                  "text a\n"
                  "fail server: Provider disconnected\n");
    check_fixture(&model_api_openai, "openai/error_string.sse",
                  "text a\n"
                  "fail server: model runner has unexpectedly stopped\n");
    check_fixture(&model_api_openai, "openai/error_named.sse",
                  "fail rate_limited: Too many requests\n");
    check_fixture(
        &model_api_openai, "openai/aborted.sse",
        "text a\n"
        "fail overloaded: the server ended the answer with 'insufficient_system_resource'\n");
}

static void P23_unknown_keys_of_a_call_are_kept(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai, "openai/extra.sse",
        "begin 0 call_a read\n"
        "delta 0 {\"path\":\"a\"}\n"
        "begin 1 call_b list\n"
        "delta 1 {}\n"
        "end 0 {\"path\":\"a\"} opaque {\"provider\":\"test\",\"model\":\"model-1\",\"extra\""
        ":{\"extra_content\":{\"google\":{\"thought_signature\":\"Q2lRQg==/+\"}},\"function\""
        ":{\"note\":12345678901234567}}}\n"
        "end 1 {}\n"
        "usage 2 4 estimated\n"
        "stop tool_calls\n");
}

static void thinking_has_the_field_that_it_arrived_in(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai, "openai/thinking_calls.sse",
        "thinking Look\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"field\":\"reasoning"
        "\"}\n"
        "begin 0 call_a list\n"
        "delta 0 {}\n"
        "end 0 {}\n"
        "usage 2 2 estimated\n"
        "stop tool_calls\n");
}

static void P36_details_of_reasoning_are_kept_unchanged(void **state BL_UNUSED)
{
    check_fixture(
        &model_api_openai, "openai/details.sse",
        "thinking Let \n"
        "thinking me\n"
        "text Yes.\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"details\":[{\"type\""
        ":\"reasoning.text\",\"format\":\"anthropic-claude-v1\",\"index\":0,\"signature\":\"E"
        "qQBCkYIBxgC/+=\",\"text\":\"Let me\"},{\"type\":\"reasoning.encrypted\",\"data\":\"g"
        "AAAA/+==\",\"id\":\"rs_1\",\"index\":1}]}\n"
        "usage 2 3 estimated\n"
        "stop end\n");
    check_fixture(
        &model_api_openai, "openai/details_text.sse",
        "thinking One\n"
        "thinking  two\n"
        "text Yes.\n"
        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"details\":[{\"type\""
        ":\"reasoning.summary\",\"summary\":\"One two\"}]}\n"
        "usage 2 3 estimated\n"
        "stop end\n");
}

static void content_may_arrive_in_parts(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/parts.sse",
                  "thinking Hm\n"
                  "text Yes\n"
                  "text .\n"
                  "usage 2 2 estimated\n"
                  "stop end\n");
}

static void P27_reasoning_and_cached_input_are_counted_once(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/usage_beside.sse",
                  "text a\n"
                  "usage 10 9 cache 6 0 reasoning 7\n"
                  "stop end\n");
}

static void P28_missing_usage_is_estimated(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/usage_never.sse",
                  "text twelve bytes\n"
                  "usage 2 3 estimated\n"
                  "stop end\n");
}

static void P29_an_end_before_the_finish_reason_is_a_cut(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/no_finish.sse",
                  "text a\n"
                  "begin 0 call_a list\n"
                  "delta 0 {}\n"
                  "fail stream_cut: the stream ended before its finish_reason\n");
    check_fixture(&model_api_openai, "openai/no_done.sse",
                  "text a\n"
                  "usage 2 1 estimated\n"
                  "stop end\n");
    check_fixture(&model_api_openai, "openai/no_blank.sse",
                  "text a\n"
                  "usage 2 1 estimated\n"
                  "stop end\n");
}

static void P33_a_refusal_ends_as_one(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/refusal.sse",
                  "text I cannot \n"
                  "text help.\n"
                  "usage 2 4 estimated\n"
                  "stop refusal\n");
    check_fixture(&model_api_openai, "openai/filter.sse",
                  "text Well\n"
                  "usage 2 1 estimated\n"
                  "stop refusal\n");
}

static void P34_text_cut_by_the_limit_is_marked(void **state BL_UNUSED)
{
    check_fixture(&model_api_openai, "openai/length.sse",
                  "text Once upon\n"
                  "usage 4 2\n"
                  "stop max_tokens\n");
}

/* ---- Answers that are not a stream ---- */

static void P30_json_to_a_streaming_request_is_read_whole(void **state BL_UNUSED)
{
    check_whole_fixture(&model_api_openai, "openai/whole.json",
                        "thinking Hm\n"
                        "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"field\":"
                        "\"reasoning_content\"}\n"
                        "text Let me look.\n"
                        "begin 0 call_a read\n"
                        "delta 0 {\"path\":\"a\"}\n"
                        "begin 1 call_2 list\n"
                        "delta 1 {}\n"
                        "usage 21 9 cache 16 0 reasoning 4\n"
                        "end 0 {\"path\":\"a\"}\n"
                        "end 1 {}\n"
                        "stop tool_calls\n");
    check_whole(&plain, BL_TEXT("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}"),
                "text a\nusage 2 1 estimated\nstop end\n");
}

static void P23_an_error_with_status_200_is_a_failure(void **state BL_UNUSED)
{
    check_whole_fixture(
        &model_api_openai, "openai/error.json",
        "fail context_overflow: This model's maximum context length is 8192 tokens. "
        "However, your messages resulted in 9001 tokens.\n");
    check_whole(&plain, BL_TEXT("{\"hello\":\"world\"}"),
                "fail bad_response: the answer has no choices[0].message\n");
}

static void check_failure(const char *name, int status, const char *code, bool retryable)
{
    struct bl_text body = read_fixture(name), none = {0};
    struct bl_model_failure failure;

    model_failure_classify(&model_api_openai, status, none, none, none, body, 0, &failure);
    assert_int_equal(failure.status, status);
    assert_string_equal(failure.code != NULL ? failure.code : bl_model_status_code(status), code);
    assert_int_equal(bl_model_failure_retryable(&failure), retryable);
    bl_free((void *)(uintptr_t)body.data);
}

static void P23_a_loading_model_is_retried_and_a_broken_template_is_not(void **state BL_UNUSED)
{
    check_failure("openai/loading.json", 503, "server", true);
    check_failure("openai/template.json", 500, "bad_request", false);
}

/* ---- Calls that are cut ---- */

/* Returns the end of the line that contains `words`. */
static size_t line_end(struct bl_text bytes, const char *words)
{
    ptrdiff_t at = bl_text_find(bytes, bl_text_from(words));

    assert_true(at >= 0);
    const char *end = memchr(bytes.data + at, '\n', bytes.size - (size_t)at);
    return (size_t)(end - bytes.data);
}

static void P24_a_stream_cut_in_a_call_ends_no_call(void **state BL_UNUSED)
{
    struct bl_text bytes = read_fixture("openai/parallel.sse");
    size_t finished = line_end(bytes, "\"finish_reason\":\"tool_calls\"");
    struct recorder recorder;

    for (size_t size = 0; size <= bytes.size; size++) {
        recorder_init(&recorder);
        int result = feed_stream(&recorder, &plain, (struct bl_text){bytes.data, size}, NULL, 0);
        const char *log = recorder_log(&recorder);
        assert_int_equal(result, size < finished ? BL_EIO : 0);
        assert_int_equal(strstr(log, "\nend ") == NULL, size < finished);
        assert_int_equal(strstr(log, "stop ") == NULL, size < finished);
        assert_int_equal(strstr(log, "fail stream_cut") != NULL, size < finished);
        recorder_done(&recorder);
    }
    bl_free((void *)(uintptr_t)bytes.data);
}

/* Writes a whole call, then one with these arguments, then that reason. */
static void write_cut(struct bl_buffer *out, struct bl_text arguments, const char *reason)
{
    struct bl_json_writer writer;

    bl_buffer_clear(out);
    bl_buffer_append(out, BL_TEXT("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,"
                                  "\"id\":\"call_a\",\"function\":{\"name\":\"list\","
                                  "\"arguments\":\"{}\"}},{\"index\":1,\"id\":\"call_b\","
                                  "\"function\":{\"name\":\"read\",\"arguments\":"));
    bl_json_writer_init(&writer, out);
    bl_json_write_text(&writer, arguments);
    bl_buffer_printf(out,
                     "}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"%s\"}]}"
                     "\n\ndata: [DONE]\n\n",
                     reason);
}

static void P25_arguments_cut_by_the_limit_are_never_a_call(void **state BL_UNUSED)
{
    static const char *const reasons[] = {"length", "tool_calls", "stop"};
    struct bl_text arguments =
        BL_TEXT("{\"path\":\"\\\"}\",\"n\":[1,{\"x\":-2.5e3}],\"\u00e9\":{}}");
    struct recorder recorder;
    struct bl_buffer bytes;

    bl_buffer_init(&bytes, 1u << 16);
    for (size_t i = 0; i < BL_COUNT(reasons); i++) {
        /* No arguments at all mean an empty object, unless the limit was reached. */
        for (size_t size = i == 0 ? 0 : 1; size < arguments.size; size++) {
            write_cut(&bytes, (struct bl_text){arguments.data, size}, reasons[i]);
            recorder_init(&recorder);
            int result = feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0);
            assert_int_equal(result, 0);
            const char *log = recorder_log(&recorder);
            const char *end = strstr(log, "\nend 1 ");
            assert_non_null(strstr(log, "\nend 0 {}\n"));
            assert_non_null(end);
            assert_non_null(strstr(end, "(its input "));
            assert_non_null(strstr(end, "\nstop tool_calls\n"));
            recorder_done(&recorder);
        }
    }
    bl_buffer_done(&bytes);
}

/* ---- Limits ---- */

static void more_calls_than_the_limit_fail(void **state BL_UNUSED)
{
    struct recorder recorder;
    struct bl_buffer bytes;

    bl_buffer_init(&bytes, 1u << 20);
    for (unsigned i = 0; i <= MODEL_CALLS_MAX; i++)
        bl_buffer_printf(&bytes,
                         "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c%u\","
                         "\"function\":{\"name\":\"list\",\"arguments\":\"{}\"}}]}}]}\n\n",
                         i);
    recorder_init(&recorder);
    assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), BL_EIO);
    const char *log = recorder_log(&recorder);
    assert_non_null(strstr(log, "fail limit: "));
    assert_null(strstr(log, "\nend "));
    recorder_done(&recorder);
    bl_buffer_done(&bytes);
}

/* A server that repeats the name with every piece, and sends no id, must not make the decoder scan
 * all arguments again each time. */
static void many_pieces_of_one_call_take_time_in_proportion(void **state BL_UNUSED)
{
    unsigned long pieces = suite_rounds(20000, 200000);
    struct recorder recorder;
    struct bl_buffer bytes;

    bl_buffer_init(&bytes, 64u << 20);
    for (unsigned long i = 0; i <= pieces; i++)
        bl_buffer_printf(&bytes,
                         "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":"
                         "\"put\",\"arguments\":\"%s\"}}]}}]}\n\n",
                         i == 0        ? "{\\\"a\\\":\\\""
                         : i == pieces ? "\\\"}"
                                       : "}");
    bl_buffer_append(&bytes, BL_TEXT("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"));
    recorder_init(&recorder);
    assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), 0);
    const char *log = recorder_log(&recorder);
    assert_null(strstr(log, "begin 1"));
    assert_non_null(strstr(log, "}\"}\nusage"));
    recorder_done(&recorder);
    bl_buffer_done(&bytes);
}

static void a_listener_that_stops_ends_the_answer(void **state BL_UNUSED)
{
    static const char *const fixtures[] = {"openai/parallel.sse", "openai/details.sse",
                                           "openai/thinking_calls.sse"};

    for (size_t i = 0; i < BL_COUNT(fixtures); i++)
        check_refusals(&plain, fixtures[i]);
}

SUITE(openai_decode, cmocka_unit_test(P17_an_answer_is_the_same_at_any_cut),
      cmocka_unit_test(P23_calls_without_index_or_with_the_same_one_are_distinguished),
      cmocka_unit_test(P23_a_repeated_id_or_name_changes_nothing),
      cmocka_unit_test(P23_arguments_are_an_object_or_nothing_or_come_at_once),
      cmocka_unit_test(P23_the_calls_decide_not_the_finish_reason),
      cmocka_unit_test(P23_usage_is_found_in_any_chunk),
      cmocka_unit_test(P23_meaningless_chunks_are_ignored),
      cmocka_unit_test(P23_an_error_in_the_stream_is_a_failure),
      cmocka_unit_test(P23_unknown_keys_of_a_call_are_kept),
      cmocka_unit_test(thinking_has_the_field_that_it_arrived_in),
      cmocka_unit_test(P36_details_of_reasoning_are_kept_unchanged),
      cmocka_unit_test(content_may_arrive_in_parts),
      cmocka_unit_test(P27_reasoning_and_cached_input_are_counted_once),
      cmocka_unit_test(P28_missing_usage_is_estimated),
      cmocka_unit_test(P29_an_end_before_the_finish_reason_is_a_cut),
      cmocka_unit_test(P33_a_refusal_ends_as_one),
      cmocka_unit_test(P34_text_cut_by_the_limit_is_marked),
      cmocka_unit_test(P30_json_to_a_streaming_request_is_read_whole),
      cmocka_unit_test(P23_an_error_with_status_200_is_a_failure),
      cmocka_unit_test(P23_a_loading_model_is_retried_and_a_broken_template_is_not),
      cmocka_unit_test(P24_a_stream_cut_in_a_call_ends_no_call),
      cmocka_unit_test(P25_arguments_cut_by_the_limit_are_never_a_call),
      cmocka_unit_test(more_calls_than_the_limit_fail),
      cmocka_unit_test(many_pieces_of_one_call_take_time_in_proportion),
      cmocka_unit_test(a_listener_that_stops_ends_the_answer));
