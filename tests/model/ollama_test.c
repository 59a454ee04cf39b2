#include "recorder.h"

#include <stdio.h>

static const struct feeding plain = {.api = &model_api_ollama};

#define OWN "{\"provider\":\"test\",\"model\":\"model-1\",\"thinking\":true}"

static void P17_streams_are_the_same_at_any_cut(void **state BL_UNUSED)
{
    static const struct {
        const char *file, *log;
    } streams[] = {
        {"text", "text Gr\u00fc\u00df\ntext e \U0001f600\nusage 26 7\nstop end\n"},
        {"tools", "thinking Let me\nthinking  see\nthinking  opaque " OWN "\ntext Looking.\n"
                  "begin 0 call_1 read_file\ndelta 0 {\"path\":\"\u00e4.txt\",\"lines\":[1,2.5]}\n"
                  "end 0 {\"path\":\"\u00e4.txt\",\"lines\":[1,2.5]}\nbegin 1 call_2 list\n"
                  "delta 1 {}\nend 1 {}\nbegin 2 call_x list\ndelta 2 {\"depth\":2}\n"
                  "end 2 {\"depth\":2}\nusage 26 7\nstop tool_calls\n"},
        {"length", "text Once\nusage 26 16\nstop max_tokens\n"},
        {"error", "text Half\nfail server: an error was encountered while running the model: "
                  "unexpected EOF\n"},
        {"overflow", "fail context_overflow: the input length exceeds the context length\n"},
        {"unfinished", "text Half\nfail stream_cut: the stream ended before the answer did\n"},
        {"load", "fail server: the server loaded the model but did not answer\n"},
    };
    for (size_t i = 0; i < BL_COUNT(streams); i++) {
        char name[64];
        snprintf(name, sizeof name, "ollama/%s.jsonl", streams[i].file);
        check_fixture(&model_api_ollama, name, streams[i].log);
    }
}

static void expect(const char *bytes, const char *log)
{
    check_fed(&plain, bytes, log);
}

static void P23_oddities_of_servers(void **state BL_UNUSED)
{
    /* No newline after the last line, empty lines, junk after the end. */
    expect("\r\n{\"message\":{\"content\":\"a\"}}\r\n\n{\"done\":true,\"eval_count\":3,"
           "\"prompt_eval_count\":4}",
           "text a\nusage 4 3\nstop end\n");
    expect(
        "{\"message\":{\"content\":\"a\"},\"done\":true,\"eval_count\":3,\"prompt_eval_count\":4}\n"
        "nonsense\n{\"error\":\"late\"}\n",
        "text a\nusage 4 3\nstop end\n");
    /* Arguments that are missing, strings, or cut strings. */
    expect("{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"x\"}},{\"function\":{\"name\":"
           "\"x\","
           "\"arguments\":null}},{\"function\":{\"name\":\"x\",\"arguments\":\"\"}},{\"function\":{"
           "\"name\":\"x\",\"arguments\":[]}},{\"function\":{}}]}}\n"
           "{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":1,\"prompt_eval_count\":1}\n",
           "begin 0 call_1 x\nend 0 {}\nbegin 1 call_2 x\nend 1 {}\nbegin 2 call_3 x\nend 2 {}\n"
           "begin 3 call_4 x\ndelta 3 []\n"
           "end 3 [] (its input is not a JSON object but of type array)\n"
           "begin 4 call_5 \nend 4 {} (it does not name a tool)\nusage 1 1\nstop tool_calls\n");
    /* Values that are not strings. */
    expect("{\"message\":{\"content\":null,\"thinking\":7,\"tool_calls\":null},\"error\":null}\n"
           "7\n[]\n{\"message\":\"x\"}\n{\"done\":\"yes\"}\n{\"done\":true,\"eval_count\":1}\n",
           "usage 2 1\nstop end\n");
    expect("not JSON\n", "fail bad_response: not JSON\n");
    /* Thinking under another format's name; the own name takes precedence. */
    expect("{\"message\":{\"content\":\"\",\"reasoning_content\":\"so\"}}\n"
           "{\"message\":{\"thinking\":\"it\",\"reasoning_content\":\"no\"}}\n"
           "{\"done\":true,\"eval_count\":3,\"prompt_eval_count\":4}\n",
           "thinking so\nthinking it\n"
           "thinking  opaque {\"provider\":\"test\",\"model\":\"model-1\",\"thinking\":true}\n"
           "usage 4 3\nstop end\n");
}

static void P28_no_counts_are_estimated(void **state BL_UNUSED)
{
    expect("{\"message\":{\"content\":\"hello\"},\"done\":true}\n",
           "text hello\nusage 2 2 estimated\nstop end\n");
    expect("{\"message\":{\"content\":\"hello\"},\"done\":true,\"eval_count\":-3}\n",
           "text hello\nusage 2 2 estimated\nstop end\n");
    expect("{\"message\":{\"content\":\"hello\"},\"done\":true,\"eval_count\":0,"
           "\"prompt_eval_count\":0}\n",
           "text hello\nusage 2 2 estimated\nstop end\n");
}

static void P24_a_stream_cut_anywhere_ends_nothing(void **state BL_UNUSED)
{
    struct bl_text whole = read_fixture("ollama/tools.jsonl");
    /* Without its newline the last line is complete. */
    for (size_t size = 0; size + 1 < whole.size; size++) {
        struct recorder recorder;
        recorder_init(&recorder);
        int result = feed_stream(&recorder, &plain, (struct bl_text){whole.data, size}, NULL, 0);
        assert_int_equal(result, BL_EIO);
        assert_null(strstr(recorder_log(&recorder), "stop "));
        recorder_done(&recorder);
    }
    bl_free((void *)(uintptr_t)whole.data);
}

static void P25_text_arguments_cut_by_the_limit_are_invalid(void **state BL_UNUSED)
{
    static const char whole[] = "{\\\"path\\\":\\\"a\\\"}";
    for (size_t size = 1; size < strlen(whole); size++) {
        char bytes[512];
        struct recorder recorder;
        if (whole[size - 1] == '\\')
            continue;
        snprintf(bytes, sizeof bytes,
                 "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"x\",\"arguments\":\"%.*"
                 "s\"}}]},"
                 "\"done\":true,\"done_reason\":\"length\"}\n",
                 (int)size, whole);
        recorder_init(&recorder);
        assert_int_equal(feed_stream(&recorder, &plain, bl_text_from(bytes), NULL, 0), 0);
        assert_non_null(strstr(recorder_log(&recorder), "(its input is cut off"));
        recorder_done(&recorder);
    }
}

static void P30_json_instead_of_a_stream_is_read_whole(void **state BL_UNUSED)
{
    static const struct {
        const char *json, *log;
    } cases[] = {
        {"{\"message\":{\"content\":\"a\",\"thinking\":\"t\"},\"done\":true,\"eval_count\":1,"
         "\"prompt_eval_count\":2}",
         "thinking t\nthinking  opaque " OWN "\ntext a\nusage 2 1\nstop end\n"},
        {"{\"error\":\"model 'x' not found\"}", "fail server: model 'x' not found\n"},
        {"{\"error\":\"unauthorized\",\"status\":401}", "fail auth: unauthorized\n"},
        {"{\"message\":{\"content\":\"a\"}}",
         "text a\nfail stream_cut: the stream ended before the answer did\n"},
        {"{}", "fail bad_response: the answer has no message\n"},
        {"[]", "fail bad_response: the answer has no message\n"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        check_whole(&plain, bl_text_from(cases[i].json), cases[i].log);
}

static void refusal_of_the_sink_ends_the_stream(void **state BL_UNUSED)
{
    check_refusals(&plain, "ollama/tools.jsonl");
}

/* ---- Requests ---- */

static void scene_init(struct asking *scene, const char *messages)
{
    asking_init(scene, &model_api_ollama, "ollama", messages);
    scene->profile.model = "qwen3:8b";
}

static void a_plain_request(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("go"));
    check_asked(&scene, "ollama/plain.request.json");
    asking_done(&scene);
}

static void a_conversation_with_calls_and_options(void **state BL_UNUSED)
{
    static const struct bl_tool_offer tools[] = {
        {"read_file", "Reads a file.", {"{\"type\":\"object\"}", 17}, NULL, false},
        {"list", NULL, {NULL, 0}, NULL, false},
    };
    struct asking scene;
    scene_init(
        &scene,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},{\"role\":"
        "\"assistant\","
        "\"content\":[{\"type\":\"thinking\",\"text\":\"mine\",\"opaque\":{\"provider\":\"ollama\","
        "\"model\":\"qwen3:8b\",\"thinking\":true}},{\"type\":\"thinking\",\"text\":\"not mine\","
        "\"opaque\":{\"provider\":\"anthropic\",\"model\":\"m\",\"signature\":\"s\"}},"
        "{\"type\":\"text\",\"text\":\"Looking.\"},{\"type\":\"text\",\"text\":\"Still.\"},"
        "{\"type\":\"tool_call\",\"id\":\"call_1\",\"name\":\"read_file\",\"input\":{\"path\":"
        "\"a\"}},"
        "{\"type\":\"tool_call\",\"id\":\"call_2\",\"name\":\"list\",\"input\":{}}]},{\"role\":"
        "\"user\","
        "\"content\":[{\"type\":\"tool_result\",\"id\":\"call_2\",\"text\":\"none\",\"is_error\":"
        "true},"
        "{\"type\":\"tool_result\",\"id\":\"call_1\",\"text\":\"inside\",\"is_error\":false},"
        "{\"type\":\"text\",\"text\":\"and?\"}]}]");
    scene.request.system = BL_TEXT("Be brief.");
    scene.request.tools = tools;
    scene.request.tool_count = 2;
    scene.request.schema = BL_TEXT("{\"type\":\"array\"}");
    scene.profile.thinking = BL_EFFORT_HIGH;
    scene.profile.keep_alive = "10m";
    scene.profile.num_ctx = 8192;
    scene.build.max_output_tokens = 1000;
    check_asked(&scene, "ollama/tools.request.json");
    asking_done(&scene);
}

static void options_are_sent_where_they_are_set(void **state BL_UNUSED)
{
    static const struct bl_tool_offer tool = {"x", "y", {"{}", 2}, NULL, false};
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("go"));
    scene.profile.thinking = BL_EFFORT_NONE;
    assert_true(asking_has(&scene, "\"think\":false"));
    scene.profile.thinking = BL_EFFORT_LOW;
    assert_true(asking_has(&scene, "\"think\":\"low\""));
    scene.profile.thinking = BL_EFFORT_MEDIUM;
    assert_true(asking_has(&scene, "\"think\":\"medium\""));
    scene.profile.thinking = BL_EFFORT_ADAPTIVE;
    assert_false(asking_has(&scene, "think"));
    scene.profile.keep_alive = "-1";
    assert_true(asking_has(&scene, "\"keep_alive\":-1"));
    scene.build.max_output_tokens = 7;
    assert_true(asking_has(&scene, "\"options\":{\"num_predict\":7}"));
    /* The format has no choice of tools. */
    scene.request.tools = &tool;
    scene.request.tool_count = 1;
    assert_true(asking_has(&scene, "tools"));
    scene.request.tools_forbidden = true;
    assert_false(asking_has(&scene, "tools"));
    asking_done(&scene);
}

static void P32_request_longer_than_num_ctx_is_not_sent(void **state BL_UNUSED)
{
    struct asking scene;
    struct bl_buffer out;
    struct bl_json_writer writer;
    struct bl_error error = {0};
    scene_init(&scene, ASKED_TEXT("12345678901234567890"));
    bl_buffer_init(&out, 4096);
    bl_json_writer_init(&writer, &out);
    scene.profile.num_ctx = 5;
    assert_true(asking_has(&scene, "\"num_ctx\":5"));
    scene.profile.num_ctx = 4;
    assert_int_equal(model_api_ollama.build(&scene.build, &writer, &error), BL_ELIMIT);
    assert_string_equal(error.name, "context_overflow");
    assert_int_equal(error.kind, BL_KIND_PROVIDER);
    assert_false(error.retryable);
    assert_non_null(strstr(error.message, "about 5 tokens, num_ctx is 4"));
    assert_non_null(strstr(error.hint, "num_ctx"));
    assert_int_equal(out.size, 0);
    bl_buffer_done(&out);
    asking_done(&scene);
}

static void a_key_is_sent_if_there_is_one(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_http_header headers[16];
    bl_arena_init(&arena);
    assert_int_equal(model_api_ollama.headers(&(struct bl_provider){.name = "o"}, &arena, headers),
                     0);
    assert_int_equal(model_api_ollama.headers(&(struct bl_provider){.key = "k"}, &arena, headers),
                     1);
    assert_true(bl_text_equal(headers[0].name, BL_TEXT("authorization")));
    assert_true(bl_text_equal(headers[0].value, BL_TEXT("Bearer k")));
    assert_true(model_api_ollama.lines);
    assert_string_equal(model_api_ollama.path, "/api/chat");
    bl_arena_done(&arena);
}

static void an_injected_message_follows_the_results_of_the_tools(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_ollama, "test", INJECTED_MESSAGES);
    check_asked(&asking, "ollama/injected.request.json");
    asking_done(&asking);
}

static void images_are_sent_with_prompts_and_results(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_ollama, "test", ILLUSTRATED_MESSAGES);
    asking.profile.images_chosen = asking.profile.images = true;
    check_asked(&asking, "ollama/images.request.json");
    asking_done(&asking);
}

static void a_summary_precedes_the_turns_that_are_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_ollama, "test", ASKED_TEXT("four"));
    asking_sum_up(&asking);
    check_asked(&asking, "ollama/summary.request.json");
    asking_done(&asking);
}

SUITE(ollama, cmocka_unit_test(P17_streams_are_the_same_at_any_cut),
      cmocka_unit_test(P23_oddities_of_servers), cmocka_unit_test(P28_no_counts_are_estimated),
      cmocka_unit_test(P24_a_stream_cut_anywhere_ends_nothing),
      cmocka_unit_test(P25_text_arguments_cut_by_the_limit_are_invalid),
      cmocka_unit_test(P30_json_instead_of_a_stream_is_read_whole),
      cmocka_unit_test(refusal_of_the_sink_ends_the_stream), cmocka_unit_test(a_plain_request),
      cmocka_unit_test(a_conversation_with_calls_and_options),
      cmocka_unit_test(options_are_sent_where_they_are_set),
      cmocka_unit_test(P32_request_longer_than_num_ctx_is_not_sent),
      cmocka_unit_test(a_key_is_sent_if_there_is_one),
      cmocka_unit_test(an_injected_message_follows_the_results_of_the_tools),
      cmocka_unit_test(images_are_sent_with_prompts_and_results),
      cmocka_unit_test(a_summary_precedes_the_turns_that_are_sent));
