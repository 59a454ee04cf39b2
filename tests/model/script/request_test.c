#include <stdio.h>

#include "model/script/serve.h"
#include "recorder.h"

static struct bl_arena arena;

static int begin(void **state BL_UNUSED)
{
    bl_arena_init(&arena);
    return 0;
}

static int end(void **state BL_UNUSED)
{
    bl_arena_done(&arena);
    return 0;
}

static struct script_request read_request(enum bl_api api, const char *body)
{
    struct script_request request;
    struct script_problem problem;

    if (script_request_read(&arena, api, false, bl_text_from(body), &request, &problem) != 0)
        fail_msg("%s: %s", body, problem.message);
    return request;
}

static void refuse(enum bl_api api, const char *body, const char *param, const char *message)
{
    struct script_request request;
    struct script_problem problem;

    if (script_request_read(&arena, api, false, bl_text_from(body), &request, &problem) == 0)
        fail_msg("taken: %s", body);
    assert_string_equal(problem.message, message);
    assert_string_equal(problem.param, param);
    assert_string_equal(problem.code, "bad_request");
    assert_int_equal(script_problem_status(&problem, api), 400);
}

static void check_text(struct bl_text text, const char *expected)
{
    if (!bl_text_equal(text, bl_text_from(expected)))
        fail_msg("'" BL_TEXT_FORMAT "' is not '%s'", BL_TEXT_ARG(text), expected);
}

static void the_newest_text_of_a_user_is_found_in_each_format(void **state BL_UNUSED)
{
    struct script_request request = read_request(
        BL_API_ANTHROPIC,
        "{\"model\":\"m\",\"max_tokens\":7,\"stream\":true,\"messages\":["
        "{\"role\":\"user\",\"content\":\"old\"},{\"role\":\"assistant\",\"content\":\"hm\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"image\",\"source\":{}},{\"type\":\"text\",\"text\":\"newest\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"n\","
        "\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"tool_use_id\":\"c\",\"content\":\"result\"}]}]}");
    check_text(request.newest, "newest");
    check_text(request.model, "m");
    assert_true(request.stream);
    assert_int_equal(request.max_tokens, 7);

    request = read_request(
        BL_API_OPENAI,
        "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"max_completion_tokens\":9,\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"newest\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":"
        "\"function\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"result\"}]}");
    check_text(request.newest, "newest");
    assert_true(request.stream && request.stream_usage);
    assert_int_equal(request.max_tokens, 9);

    request = read_request(
        BL_API_OPENAI_RESPONSES,
        "{\"model\":\"m\",\"stream\":true,\"include\":[\"reasoning.encrypted_content\"],"
        "\"max_output_tokens\":16,\"input\":[{\"role\":\"user\",\"content\":[{\"type\":"
        "\"input_text\",\"text\":\"newest\"}]},{\"type\":\"function_call\",\"call_id\":\"c\","
        "\"name\":\"n\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":"
        "\"c\",\"output\":\"result\"}]}");
    check_text(request.newest, "newest");
    assert_true(request.encrypted);
    assert_int_equal(request.max_tokens, 16);
    check_text(
        read_request(BL_API_OPENAI_RESPONSES, "{\"model\":\"m\",\"input\":\"all of it\"}").newest,
        "all of it");

    request = read_request(BL_API_OLLAMA,
                           "{\"model\":\"m\",\"options\":{\"num_predict\":3},\"messages\":["
                           "{\"role\":\"user\",\"content\":\"newest\"},{\"role\":\"assistant\","
                           "\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"n\","
                           "\"arguments\":{}}}]},{\"role\":\"tool\",\"content\":\"result\"}]}");
    check_text(request.newest, "newest");
    assert_true(request.stream);
    assert_int_equal(request.max_tokens, 3);
}

static void missing_members_have_defaults(void **state BL_UNUSED)
{
    static const char *const bodies[] = {
        [BL_API_ANTHROPIC] = "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\","
                             "\"content\":[]}]}",
        [BL_API_OPENAI] = "{\"model\":\"m\",\"max_tokens\":null,\"tools\":null,\"messages\":["
                          "{\"role\":\"system\",\"content\":\"\"}]}",
        [BL_API_OPENAI_RESPONSES] = "{\"model\":\"m\",\"input\":\"\"}",
        [BL_API_OLLAMA] = "{\"model\":\"m\",\"messages\":[],\"options\":{\"num_predict\":-1}}",
    };

    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        struct script_request request = read_request((enum bl_api)api, bodies[api]);
        assert_non_null(request.newest.data);
        assert_int_equal(request.newest.size, 0);
        assert_int_equal(request.stream, api == BL_API_OLLAMA);
        if (api != BL_API_ANTHROPIC)
            assert_true(request.max_tokens == BL_UNLIMITED);
    }
}

static void invalid_requests_are_refused_in_each_format(void **state BL_UNUSED)
{
    for (int api = BL_API_ANTHROPIC; api <= BL_API_OLLAMA; api++) {
        enum bl_api format = (enum bl_api)api;
        refuse(format, "[]", "", "the body must be a JSON object, found array");
        refuse(format, "{\"model\":", "",
               "the body is not JSON: offset 9 (line 1, column 10): expected a value, found the "
               "end near `{\"model\":`");
        refuse(format, "{}", "model", "model: missing");
        refuse(format, "{\"model\":7}", "model", "model: must be a string, found integer");
        refuse(format, "{\"model\":\"\"}", "model", "model: must not be empty");
        refuse(format, "{\"model\":\"m\",\"tools\":{}}", "tools",
               "tools: must be an array, found object");
        refuse(format, "{\"model\":\"m\",\"stream\":1}", "stream",
               "stream: must be a boolean, found integer");
    }
    refuse(BL_API_OPENAI, "{\"model\":\"m\"}", "messages", "messages: missing");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":\"x\"}", "messages",
           "messages: must be an array, found string");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":[]}", "messages",
           "messages: at least one message is required");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":[7]}", "messages.0",
           "messages.0: must be an object");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":[{\"role\":\"king\"}]}", "messages.0",
           "messages.0: role must be system, developer, user, assistant or tool");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}]}",
           "messages.0.content", "messages.0.content: missing");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":7}]}",
           "messages.0.content", "messages.0.content: must be a string or an array");
    refuse(BL_API_OPENAI,
           "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]}",
           "messages.0.content.0.type", "messages.0.content.0.type: missing");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"stream_options\":{},\"messages\":[]}",
           "stream_options", "stream_options: allowed only if stream is true");
    refuse(BL_API_OPENAI, "{\"model\":\"m\",\"max_tokens\":0,\"messages\":[]}", "max_tokens",
           "max_tokens: must be a positive integer");
    refuse(BL_API_ANTHROPIC, "{\"model\":\"m\",\"messages\":[]}", "max_tokens",
           "max_tokens: missing");
    refuse(BL_API_ANTHROPIC,
           "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":"
           "\"\"}]}",
           "messages.0", "messages.0: role must be user or assistant");
    refuse(BL_API_OPENAI_RESPONSES, "{\"model\":\"m\"}", "input", "input: missing");
    refuse(BL_API_OPENAI_RESPONSES, "{\"model\":\"m\",\"input\":[]}", "input",
           "input: must be a string, or an array of at least one item");
    refuse(BL_API_OLLAMA,
           "{\"model\":\"m\",\"messages\":[{\"role\":\"assistant\",\"content\":\"\","
           "\"tool_calls\":[{\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]}]}",
           "messages.0.tool_calls.0",
           "messages.0.tool_calls.0: function.arguments must be an object");
}

#define ANTHROPIC(messages) "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[" messages "]}"
#define OPENAI(messages)    "{\"model\":\"m\",\"messages\":[" messages "]}"
#define RESPONSES(items)    "{\"model\":\"m\",\"input\":[" items "]}"

static void a_call_has_one_result_and_a_result_its_call(void **state BL_UNUSED)
{
    refuse(BL_API_ANTHROPIC,
           ANTHROPIC("{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\","
                     "\"name\":\"n\",\"input\":{}}]},{\"role\":\"user\",\"content\":\"on\"}"),
           "messages.1", "messages.1: the call 'c' has no result before it");
    refuse(BL_API_ANTHROPIC,
           ANTHROPIC("{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
                     "\"x\",\"content\":\"r\"}]}"),
           "messages.0.content.0", "messages.0.content.0: there is no open call with the id 'x'");
    refuse(BL_API_OPENAI,
           OPENAI("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":"
                  "\"n\",\"arguments\":\"\"}}]},{\"role\":\"user\",\"content\":\"on\"}"),
           "messages.1", "messages.1: the call 'c' has no result before it");
    refuse(BL_API_OPENAI, OPENAI("{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"r\"}"),
           "messages.0", "messages.0: there is no open call with the id 'x'");
    refuse(BL_API_OPENAI_RESPONSES,
           RESPONSES("{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\","
                     "\"arguments\":\"{}\"}"),
           "input", "input: the call 'c' has no result before it");
    refuse(BL_API_OPENAI_RESPONSES,
           RESPONSES("{\"type\":\"function_call_output\",\"call_id\":\"x\",\"output\":\"\"}"),
           "input.0", "input.0: there is no open call with the id 'x'");
    refuse(BL_API_OPENAI,
           OPENAI("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":"
                  "\"n\",\"arguments\":\"\"}},{\"id\":\"c\",\"function\":{\"name\":\"n\","
                  "\"arguments\":\"\"}}]}"),
           "messages.0.tool_calls.1",
           "messages.0.tool_calls.1: the id 'c' belongs to another call");
}

static void thinking_must_be_sent_back_unchanged(void **state BL_UNUSED)
{
    char signature[SCRIPT_SIGNATURE_SIZE], body[600];

    script_signature(BL_TEXT("deep"), signature);
    for (int changed = 0; changed < 2; changed++) {
        const char *text = changed ? "deeper" : "deep";
        snprintf(body, sizeof body,
                 ANTHROPIC("{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
                           "\"thinking\":\"%s\",\"signature\":\"%s\"}]}"),
                 text, signature);
        if (changed)
            refuse(BL_API_ANTHROPIC, body, "messages.0.content.0",
                   "messages.0.content.0: the signature does not match the thinking: it must be "
                   "sent back unchanged");
        else
            read_request(BL_API_ANTHROPIC, body);
        snprintf(body, sizeof body,
                 RESPONSES("{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
                           "\"text\":\"%s\"}],\"encrypted_content\":\"%s\"}"),
                 text, signature);
        if (changed)
            refuse(BL_API_OPENAI_RESPONSES, body, "input.0",
                   "input.0: the signature does not match the thinking: it must be sent back "
                   "unchanged");
        else
            read_request(BL_API_OPENAI_RESPONSES, body);
    }
}

/* Every prefix of a request is either valid or refused with a reason. */
static void any_prefix_of_a_request_has_an_answer(void **state BL_UNUSED)
{
    static const char whole[] =
        ANTHROPIC("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}");
    struct script_request request;
    struct script_problem problem;

    for (size_t size = 0; size < sizeof whole - 1; size++) {
        struct bl_text part = {whole, size};
        assert_int_equal(
            script_request_read(&arena, BL_API_ANTHROPIC, false, part, &request, &problem),
            BL_EINVAL);
        assert_true(problem.message[0] != '\0');
    }
}

/* Reads the requests that each format builds. */
static void images_of_the_newest_message_are_counted_in_each_format(void **state BL_UNUSED)
{
    static const struct model_api *const apis[] = {&model_api_anthropic, &model_api_openai,
                                                   &model_api_openai_responses, &model_api_ollama};

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct asking asking;
        asking_init(&asking, apis[i], "test", ILLUSTRATED_MESSAGES);
        asking.profile.images_chosen = asking.profile.images = true;
        assert_int_equal(read_request(apis[i]->api, asking_body(&asking).data).images, 2);
        asking_add(&asking, "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":"
                            "\"call_c\",\"name\":\"shot\",\"input\":{}}]},{\"role\":\"user\","
                            "\"content\":[{\"type\":\"tool_result\",\"id\":\"call_c\",\"text\":"
                            "\"C\",\"is_error\":false}]}]");
        assert_int_equal(read_request(apis[i]->api, asking_body(&asking).data).images, 0);
        asking_done(&asking);
    }
}

static int ask_with_images(void *argument BL_UNUSED)
{
    struct bl_script *script =
        script_of("images: true\nreplies:\n- {images: 1, say: one, pieces: 1}\n"
                  "- {images: 2, say: two, pieces: 1}\n- {images: 0, say: none, pieces: 1}\n");
    struct recorder recorder;
    struct bl_model model;
    struct asking asking;

    struct bl_script_player *player = bl_script_player_new(script, 1, &model);
    recorder_init(&recorder);
    asking_init(&asking, &model_api_openai, "test", ILLUSTRATED_MESSAGES);
    CHECK_EQUAL(model.call(model.context, &asking.request, &recorder.sink, &recorder.error), 0);
    CHECK(strstr(recorder_log(&recorder), "two") != NULL);
    CHECK_EQUAL(recorder_ask(&recorder, &model, "no images"), 0);
    CHECK(strstr(recorder_log(&recorder), "none") != NULL);
    CHECK_EQUAL(recorder_ask(&recorder, &model, "no images"), BL_ENOENT);
    asking_done(&asking);
    recorder_done(&recorder);
    bl_script_player_free(player);
    bl_script_free(script);
    return 0;
}

static void a_reply_may_require_a_number_of_images(void **state BL_UNUSED)
{
    run_in_loop(ask_with_images, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

SUITE(script_request, TEST(the_newest_text_of_a_user_is_found_in_each_format),
      TEST(missing_members_have_defaults), TEST(invalid_requests_are_refused_in_each_format),
      TEST(a_call_has_one_result_and_a_result_its_call), TEST(thinking_must_be_sent_back_unchanged),
      TEST(any_prefix_of_a_request_has_an_answer),
      TEST(images_of_the_newest_message_are_counted_in_each_format),
      TEST(a_reply_may_require_a_number_of_images));
