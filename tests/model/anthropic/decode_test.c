#include "recorder.h"

#include <stdio.h>

static const struct feeding plain = {.api = &model_api_anthropic};

#define FOR_MODEL "{\"provider\":\"test\",\"model\":\"model-1\","

static void P17_streams_are_the_same_at_any_cut(void **state BL_UNUSED)
{
    static const struct {
        const char *file, *log;
    } streams[] = {
        {"text", "usage 12 1\ntext Gr\u00fc\u00dfe, \ntext \U0001f600!\nusage 12 7\nstop end\n"},
        {"tools", "usage 420 2 cache 300 100\nthinking Let me \nthinking look.\n"
                  "thinking  opaque " FOR_MODEL "\"signature\":\"EqQB+/abc==\"}\n"
                  "text Looking.\nbegin 0 toolu_01 read_file\ndelta 0 {\"path\": \"a\n"
                  "delta 0 .txt\"}\nend 0 {\"path\": \"a.txt\"}\nbegin 1 toolu_02 list\nend 1 {}\n"
                  "begin 2 call_3 list\ndelta 2 {\"depth\":2}\nend 2 {\"depth\":2}\n"
                  "usage 420 89 cache 300 100\nstop tool_calls\n"},
        {"opaque", "usage 12 1\nthinking  opaque " FOR_MODEL "\"block\":{\"type\":"
                   "\"redacted_thinking\",\"data\":\"EmwKAhgB/x==\"}}\nthinking  opaque " FOR_MODEL
                   "\"block\":{\"type\":\"novelty\",\"n\":1.5,\"content\":\"abcd\"}}\n"
                   "text done\nusage 12 4\nstop stop_sequence\n"},
        {"pause", "usage 30 3\ntext Searching. \nthinking  opaque " FOR_MODEL
                  "\"block\":{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_01\",\"name\":"
                  "\"web_search\",\"input\":{\"query\":\"belay\"}}}\nthinking  opaque " FOR_MODEL
                  "\"block\":{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_01\","
                  "\"content\":[{\"type\":\"web_search_result\",\"title\":\"A\",\"url\":"
                  "\"https://a.test/\",\"encrypted_content\":\"Eq==\"}]}}\nthinking hm\n"
                  "thinking  opaque " FOR_MODEL "\"signature\":\"sig\"}\nusage 30 40\npause\n"},
        {"refusal", "usage 12 1\ntext I\nstop refusal\n"},
        {"max_tokens", "usage 12 1\ntext Once upon a\nusage 12 16\nstop max_tokens\n"},
        {"cut_call",
         "usage 12 1\nbegin 0 toolu_01 write\ndelta 0 {\"path\":\"a\",\"con\n"
         "end 0 {\"path\":\"a\",\"con (its input is cut off or is not JSON: offset 16 "
         "(line 1, column 17): expected '\"', found the end near `{\"path\":\"a\",\"con`)\n"
         "usage 12 16\nstop tool_calls\n"},
        {"overflow", "usage 12 1\ntext x\nusage 12 9\n"
                     "fail context_overflow: the answer reached the end of the model's context\n"},
        {"overloaded", "usage 12 1\ntext Half\nfail overloaded: Overloaded\n"},
        {"unfinished",
         "usage 12 1\ntext Half\nfail stream_cut: the stream ended before the answer did\n"},
        {"no_stop", "usage 12 1\ntext All\nusage 12 2\nstop end\n"},
        {"no_usage", "text Hi\nusage 2 1 estimated\nstop end\n"},
    };
    for (size_t i = 0; i < BL_COUNT(streams); i++) {
        char name[64];
        snprintf(name, sizeof name, "anthropic/%s.sse", streams[i].file);
        check_fixture(&model_api_anthropic, name, streams[i].log);
    }
}

static void expect(const char *bytes, const char *log)
{
    check_fed(&plain, bytes, log);
}

#define EVENT(json) "data: " json "\n\n"
#define DELTA(index, json)                                                                         \
    EVENT("{\"type\":\"content_block_delta\",\"index\":" #index ",\"delta\":" json "}")
#define START(index, json)                                                                         \
    EVENT("{\"type\":\"content_block_start\",\"index\":" #index ",\"content_block\":" json "}")
#define STOP(index) EVENT("{\"type\":\"content_block_stop\",\"index\":" #index "}")
#define REASON(reason)                                                                             \
    EVENT("{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason "\"}}")
#define USAGE(json) EVENT("{\"type\":\"message_delta\",\"delta\":{},\"usage\":" json "}")
#define END         EVENT("{\"type\":\"message_stop\"}")
#define TEXT        "{\"type\":\"text\",\"text\":\"\"}"
#define TOOL(id)    "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"x\",\"input\":{}}"
#define INPUT(text) "{\"type\":\"input_json_delta\",\"partial_json\":\"" text "\"}"
#define GUESS       "usage 2 1 estimated\n"

static void P27_cumulative_usage_is_the_last_value(void **state BL_UNUSED)
{
    expect(EVENT("{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,"
                 "\"cache_read_input_tokens\":10,\"cache_creation_input_tokens\":20,"
                 "\"output_tokens\":1}}}") USAGE("{\"output_tokens\":10}")
               USAGE("{\"output_tokens\":10}") USAGE(
                   "{\"input_tokens\":6,\"cache_read_input_tokens\":null,\"output_tokens\":-1}")
                   USAGE("{\"output_tokens\":30,\"output_tokens_details\":{\"thinking_tokens\":9}}")
                       REASON("end_turn") END,
           "usage 35 1 cache 10 20\nusage 35 10 cache 10 20\nusage 36 10 cache 10 20\n"
           "usage 36 30 cache 10 20 reasoning 9\nstop end\n");
}

static void P23_oddities_of_compatible_servers(void **state BL_UNUSED)
{
    /* Simultaneous blocks, by their index. */
    expect(START(0, TEXT) START(1, TOOL("a")) DELTA(0, "{\"type\":\"text_delta\",\"text\":\"t\"}")
               DELTA(1, INPUT("{}")) STOP(1) STOP(0) REASON("end_turn") END,
           "begin 0 a x\ntext t\ndelta 0 {}\nend 0 {}\n" GUESS "stop tool_calls\n");
    /* No index, a block without a stop, text in a block's start. */
    expect(EVENT("{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":"
                 "\"a\"}}") EVENT("{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_"
                                  "delta\",\"text\":\"b\"}}") REASON("end_turn") END,
           "text a\ntext b\n" GUESS "stop end\n");
    /* A call that is complete in its start. */
    expect(START(0, "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"x\",\"input\":{\"b\":[1]}}")
               STOP(0) REASON("end_turn") END,
           "begin 0 a x\ndelta 0 {\"b\":[1]}\nend 0 {\"b\":[1]}\nusage 2 3 estimated\n"
           "stop tool_calls\n");
    /* Thinking without a signature still ends, and is sent back unchanged. */
    expect(START(0, "{\"type\":\"thinking\",\"thinking\":\"hm\"}") STOP(0) REASON("end_turn") END,
           "thinking hm\nthinking  opaque " FOR_MODEL "\"signature\":\"\"}\n" GUESS "stop end\n");
    /* A block that starts again ends the earlier one; events of unknown blocks are ignored. */
    expect(START(0, TOOL("a")) START(0, TOOL("b")) DELTA(7, INPUT("{}")) STOP(7) STOP(0) STOP(0)
               REASON("tool_use") END,
           "begin 0 a x\nend 0 {}\nbegin 1 b x\nend 1 {}\n" GUESS "stop tool_calls\n");
    /* Named only by the event; junk after the end; unknown events and types. */
    expect("event: content_block_start\ndata: "
           "{\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n"
           "event: vendor\ndata: {\"x\":1}\n\ndata: 7\n\ndata: [1]\n\n" START(0, "{}") START(1, "3")
               REASON("novelty") END "data: nonsense\n\n" EVENT("{\"type\":\"error\"}"),
           "text a\n" GUESS "stop end\n");
    expect(REASON("end_turn") "data: [DONE]\n\n", GUESS "stop end\n");
}

static void P30_an_error_inside_a_good_answer_fails_it(void **state BL_UNUSED)
{
    expect(EVENT("{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":"
                 "\"slower\"}}"),
           "fail rate_limited: slower\n");
    expect(EVENT("{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"oh\"}}"),
           "fail server: oh\n");
    expect(EVENT("{\"error\":{\"message\":\"prompt is too long\"}}"),
           "fail context_overflow: prompt is too long\n");
    expect("event: error\ndata: {\"message\":\"hm\"}\n\n", "fail server: hm\n");
    expect("data: <html>\n\n", "fail bad_response: <html>\n");
}

static void expect_whole(const char *json, const char *log)
{
    check_whole(&plain, bl_text_from(json), log);
}

static void P30_json_to_a_stream_request_is_read_whole(void **state BL_UNUSED)
{
    expect_whole(
        "{\"type\":\"message\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
        "\"signature\":\"s\"},{\"type\":\"redacted_thinking\",\"data\":\"d\"},"
        "{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"x\","
        "\"input\":{}},{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"y\",\"input\":{\"k\":1}}],"
        "\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}",
        "thinking hm\nthinking  opaque " FOR_MODEL
        "\"signature\":\"s\"}\nthinking  opaque " FOR_MODEL
        "\"block\":{\"type\":\"redacted_thinking\",\"data\":\"d\"}}\ntext Hi\n"
        "begin 0 a x\nend 0 {}\nbegin 1 b y\ndelta 1 {\"k\":1}\nend 1 {\"k\":1}\n"
        "usage 3 4\nstop tool_calls\n");
    expect_whole("{\"content\":[],\"stop_reason\":\"refusal\"}", GUESS "stop refusal\n");
    expect_whole("{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"o\"}}",
                 "fail overloaded: o\n");
    expect_whole("{\"hello\":1}", "fail bad_response: the answer has no content\n");
    expect_whole("[]", "fail bad_response: the answer has no content\n");
    expect_whole("{\"content\":[],\"stop_reason\":\"pause_turn\"}", "pause\n");
}

/* The connection is cut after every byte of a call's arguments: nothing marks their end. */
static void P24_a_stream_cut_in_a_call_ends_nothing(void **state BL_UNUSED)
{
    struct bl_text whole = read_fixture("anthropic/tools.sse");
    ptrdiff_t reason = bl_text_find(whole, BL_TEXT("event: message_delta"));
    assert_true(reason > 0);
    for (size_t size = 0; size < (size_t)reason; size++) {
        struct recorder recorder;
        recorder_init(&recorder);
        int result = feed_stream(&recorder, &plain, (struct bl_text){whole.data, size}, NULL, 0);
        assert_int_equal(result, BL_EIO);
        assert_non_null(strstr(recorder_log(&recorder), "fail stream_cut"));
        assert_null(strstr(recorder_log(&recorder), "stop "));
        recorder_done(&recorder);
    }
    bl_free((void *)(uintptr_t)whole.data);
}

/* The output limit cuts the arguments after every byte, also after none, and the server reports any
 * reason. */
static void P25_a_call_cut_by_the_output_limit_is_invalid(void **state BL_UNUSED)
{
    static const char whole[] = "{\\\"path\\\":\\\"a.txt\\\",\\\"n\\\":[1,{}]}";
    static const char *const reasons[] = {"max_tokens", "tool_use", "end_turn"};
    for (size_t i = 0; i < BL_COUNT(reasons); i++) {
        for (size_t size = 0; size < strlen(whole); size++) {
            char bytes[2048];
            struct recorder recorder;
            if (size > 0 && whole[size - 1] == '\\')
                continue;
            snprintf(bytes, sizeof bytes,
                     START(0, TOOL("a")) DELTA(0, INPUT("{}")) STOP(0) START(1, TOOL("b"))
                         DELTA(1, INPUT("%.*s")) STOP(1) REASON("%s") END,
                     (int)size, whole, reasons[i]);
            recorder_init(&recorder);
            assert_int_equal(feed_stream(&recorder, &plain, bl_text_from(bytes), NULL, 0), 0);
            const char *log = recorder_log(&recorder);
            assert_non_null(strstr(log, "end 0 {}\n"));
            /* Without a byte only the reason distinguishes it from a call without arguments. */
            if (size > 0 || i == 0)
                assert_non_null(strstr(log, "(its input is cut off"));
            assert_non_null(strstr(log, "stop tool_calls\n"));
            recorder_done(&recorder);
        }
    }
}

/* One answer with a pause: its blocks are sent back unchanged, and the rest adds to them. */
static void P35_an_answer_that_paused_is_sent_back_unchanged(void **state BL_UNUSED)
{
    static const struct bl_provider provider = {.name = "test"};
    static const struct bl_profile profile = {.model = "model-1"};
    static const char expected[] =
        "[{\"type\":\"text\",\"text\":\"Searching. \"},{\"type\":\"server_tool_use\",\"id\":"
        "\"srvtoolu_01\",\"name\":\"web_search\",\"input\":{\"query\":\"belay\"}},{\"type\":"
        "\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_01\",\"content\":[{\"type\":"
        "\"web_search_result\",\"title\":\"A\",\"url\":\"https://a.test/\",\"encrypted_content\":"
        "\"Eq==\"}]},{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"}]";
    struct bl_arena arena;
    struct recorder recorder;
    struct model_assembly assembly;
    bl_arena_init(&arena);
    recorder_init(&recorder);
    model_assembly_init(&assembly, &arena, NULL, NULL, &recorder.sink);
    struct model_decoder decoder = {.api = &model_api_anthropic,
                                    .provider = &provider,
                                    .profile = &profile,
                                    .assembly = &assembly,
                                    .arena = &arena};
    assert_int_equal(model_anthropic_resumed(&decoder).size, 0);
    static const char *const files[] = {"anthropic/pause.sse", "anthropic/resumed.sse"};
    for (size_t i = 0; i < 2; i++) {
        struct bl_text rest = read_fixture(files[i]), line, all = rest;
        while (bl_text_split(&rest, '\n', &line)) {
            const struct bl_json *data;
            if (!bl_text_starts_with(line, BL_TEXT("data: ")))
                continue;
            line = (struct bl_text){line.data + 6, line.size - 6};
            assert_int_equal(bl_json_read(&arena, line, NULL, &data, NULL), 0);
            assert_int_equal(model_api_anthropic.feed(&decoder, (struct bl_text){0}, data), 0);
        }
        bl_free((void *)(uintptr_t)all.data);
        assert_true(assembly.finished);
        assert_int_equal(assembly.pause, i == 0);
        if (i > 0)
            break;
        assert_true(bl_text_equal(model_anthropic_resumed(&decoder), bl_text_from(expected)));
        assembly.usage_before = assembly.usage;
        assembly.pause = assembly.finished = false;
        /* The end of the first part is not the end of the second. */
        assembly.failure.code = NULL;
        assert_int_equal(model_api_anthropic.finish(&decoder), BL_EIO);
        assert_string_equal(assembly.failure.code, "stream_cut");
        assembly.failure.code = NULL;
    }
    struct bl_text log = bl_text_from(recorder_log(&recorder));
    assert_true(
        bl_text_ends_with(log, BL_TEXT("usage 80 41\ntext Found.\nusage 80 45\nstop end\n")));
    struct bl_text resumed = model_anthropic_resumed(&decoder);
    assert_true(
        bl_text_ends_with(resumed, BL_TEXT("\"},{\"type\":\"text\",\"text\":\"Found.\"}]")));
    model_assembly_done(&assembly);
    recorder_done(&recorder);
    bl_arena_done(&arena);
}

static void P29_the_reason_is_what_ends_an_answer(void **state BL_UNUSED)
{
    expect(START(0, TEXT), "fail stream_cut: the stream ended before the answer did\n");
    expect("", "fail stream_cut: the stream ended before the answer did\n");
    expect(START(0, TEXT) REASON("end_turn"), GUESS "stop end\n");
    expect(START(0, TEXT) REASON("end_turn") END "junk: x\n\ndata: {\n\n", GUESS "stop end\n");
}

static void P33_a_refusal_wins_over_other_content(void **state BL_UNUSED)
{
    expect(REASON("refusal") END, GUESS "stop refusal\n");
    expect(START(0, TOOL("a")) DELTA(0, INPUT("{}")) STOP(0) REASON("refusal") END,
           "begin 0 a x\ndelta 0 {}\nend 0 {}\n" GUESS "stop refusal\n");
}

static void P34_text_cut_by_the_output_limit_is_marked(void **state BL_UNUSED)
{
    expect(START(0, "{\"type\":\"text\",\"text\":\"Once\"}") REASON("max_tokens") END,
           "text Once\n" GUESS "stop max_tokens\n");
}

static void too_many_blocks_are_over_a_limit(void **state BL_UNUSED)
{
    static const char start[] = START(0, TEXT) STOP(0);
    struct bl_buffer bytes;
    struct recorder recorder;
    bl_buffer_init(&bytes, 16u << 20);
    for (unsigned i = 0; i < 300; i++)
        bl_buffer_printf(&bytes,
                         "data: {\"type\":\"content_block_start\",\"index\":%u,"
                         "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
                         i);
    recorder_init(&recorder);
    assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), BL_EIO);
    assert_string_equal(recorder_log(&recorder),
                        "fail limit: the answer has too many content blocks\n");
    recorder_done(&recorder);
    bl_buffer_clear(&bytes);
    for (unsigned i = 0; i < 17000; i++)
        bl_buffer_append(&bytes, bl_text_from(start));
    recorder_init(&recorder);
    assert_int_equal(feed_stream(&recorder, &plain, bl_buffer_text(&bytes), NULL, 0), BL_EIO);
    recorder_done(&recorder);
    bl_buffer_done(&bytes);
}

static void refusal_of_the_sink_ends_the_stream(void **state BL_UNUSED)
{
    check_refusals(&plain, "anthropic/tools.sse");
}

SUITE(anthropic_decode, cmocka_unit_test(P17_streams_are_the_same_at_any_cut),
      cmocka_unit_test(P27_cumulative_usage_is_the_last_value),
      cmocka_unit_test(P23_oddities_of_compatible_servers),
      cmocka_unit_test(P30_an_error_inside_a_good_answer_fails_it),
      cmocka_unit_test(P30_json_to_a_stream_request_is_read_whole),
      cmocka_unit_test(P24_a_stream_cut_in_a_call_ends_nothing),
      cmocka_unit_test(P25_a_call_cut_by_the_output_limit_is_invalid),
      cmocka_unit_test(P35_an_answer_that_paused_is_sent_back_unchanged),
      cmocka_unit_test(P29_the_reason_is_what_ends_an_answer),
      cmocka_unit_test(P33_a_refusal_wins_over_other_content),
      cmocka_unit_test(P34_text_cut_by_the_output_limit_is_marked),
      cmocka_unit_test(too_many_blocks_are_over_a_limit),
      cmocka_unit_test(refusal_of_the_sink_ends_the_stream));
