#include "recorder.h"

#include <stdio.h>

static const struct bl_tool_offer tools[] = {
    {"read_file",
     "Reads a file.",
     {"{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}", 57},
     NULL,
     false},
    {"list", NULL, {NULL, 0}, NULL, false},
};

static void scene_init(struct asking *scene, const char *messages)
{
    asking_init(scene, &model_api_anthropic, "anthropic", messages);
    scene->build.max_output_tokens = 16000;
}

static size_t count_marks(struct asking *scene)
{
    struct bl_text body = asking_body(scene);
    size_t count = 0;
    ptrdiff_t at;
    while ((at = bl_text_find(body, BL_TEXT("\"cache_control\""))) >= 0) {
        body = (struct bl_text){body.data + at + 1, body.size - (size_t)at - 1};
        count++;
    }
    return count;
}

#define SIGNED(provider, model)                                                                    \
    "{\"type\":\"thinking\",\"text\":\"Let me look.\",\"opaque\":{\"provider\":\"" provider        \
    "\",\"model\":\"" model "\",\"signature\":\"EqQB+/abc==\"}}"
#define KEPT(provider, model)                                                                      \
    "{\"type\":\"thinking\",\"text\":\"\",\"opaque\":{\"provider\":\"" provider                    \
    "\",\"model\":\"" model "\",\"block\":{\"type\":\"redacted_thinking\",\"data\":\"Em==\"}}}"

static void a_plain_request(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("Gr\u00fc\u00dfe \\\"here\\\"\\n"));
    check_asked(&scene, "anthropic/plain.request.json");
    /* A limit is always sent. */
    scene.build.max_output_tokens = 0;
    assert_true(asking_has(&scene, "\"max_tokens\":8192,"));
    assert_int_equal(model_api_anthropic.default_max_output_tokens, 8192);
    asking_done(&scene);
}

/* Adds earlier turns, calls with results, thinking of this model, tools and a system text. */
static void add_long_conversation(struct asking *scene)
{
    asking_add_turn(scene,
                    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"before\"}]},"
                    "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\"},"
                    "{\"type\":\"text\",\"text\":\"Before. \"}]}]");
    asking_add(scene,
               "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},"
               "{\"role\":\"assistant\",\"content\":[" SIGNED("anthropic", "model-1") "," KEPT(
                   "anthropic", "model-1") ",{\"type\":\"text\",\"text\":\"Looking.\"},"
                                           "{\"type\":\"tool_call\",\"id\":\"toolu_01\",\"name\":"
                                           "\"read_file\",\"input\":{\"path\":"
                                           "\"a\"}},{\"type\":\"tool_call\",\"id\":\"functions."
                                           "list:1\",\"name\":\"a.list\","
                                           "\"input_text\":\"{\\\"x\",\"invalid\":\"cut\"},{"
                                           "\"type\":\"tool_call\",\"id\":"
                                           "\"toolu_03\",\"name\":\"list\",\"input\":{}}]},"
                                           "{\"role\":\"user\",\"content\":[{\"type\":\"tool_"
                                           "result\",\"id\":\"functions.list:1\","
                                           "\"text\":\"\",\"is_error\":true},{\"type\":\"tool_"
                                           "result\",\"id\":\"toolu_01\",\"text\":"
                                           "\"inside\",\"is_error\":false}]}]");
    scene->request.system = BL_TEXT("Be brief.");
    scene->request.tools = tools;
    scene->request.tool_count = 2;
}

static void P22_a_conversation_with_calls_tools_and_thinking(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, "[]");
    add_long_conversation(&scene);
    scene.profile.thinking = BL_EFFORT_MEDIUM;
    check_asked(&scene, "anthropic/tools.request.json");
    assert_int_equal(count_marks(&scene), 3);
    /* For counting: only the members that this endpoint accepts. */
    scene.build.count_only = true;
    check_asked(&scene, "anthropic/count.request.json");
    asking_done(&scene);
}

static void tools_stay_offered_when_calls_are_forbidden(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("go"));
    scene.request.tools = tools;
    scene.request.tool_count = 2;
    assert_true(asking_has(&scene, "\"tool_choice\":{\"type\":\"auto\"}"));
    scene.request.tools_forbidden = true;
    assert_true(asking_has(&scene, "\"name\":\"read_file\""));
    assert_true(asking_has(&scene, "\"tool_choice\":{\"type\":\"none\"}"));
    scene.request.tool_count = 0;
    assert_false(asking_has(&scene, "tool"));
    asking_done(&scene);
}

static void the_effort_decides_the_budget_of_thinking(void **state BL_UNUSED)
{
    static const struct {
        enum bl_effort effort;
        uint64_t tokens, limit;
        const char *part; /* NULL: no thinking */
    } cases[] = {
        {BL_EFFORT_DEFAULT, 0, 16000, NULL},
        {BL_EFFORT_NONE, 4000, 16000, NULL},
        {BL_EFFORT_ADAPTIVE, 0, 16000, "\"thinking\":{\"type\":\"adaptive\"}"},
        {BL_EFFORT_ADAPTIVE, 0, 100, "\"thinking\":{\"type\":\"adaptive\"}"},
        {BL_EFFORT_LOW, 0, 16000, "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2048}"},
        {BL_EFFORT_MEDIUM, 0, 16000, "\"budget_tokens\":8192}"},
        {BL_EFFORT_HIGH, 0, 16000, "\"budget_tokens\":12000}"},
        {BL_EFFORT_HIGH, 0, 64000, "\"budget_tokens\":24576}"},
        {BL_EFFORT_LOW, 4000, 16000, "\"budget_tokens\":4000}"},
        {BL_EFFORT_LOW, 3, 16000, "\"budget_tokens\":1024}"},
        {BL_EFFORT_LOW, 0, 1025, "\"budget_tokens\":1024}"},
        /* A smaller budget is refused, and so is one that is not below the limit. */
        {BL_EFFORT_LOW, 0, 1024, NULL},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct asking scene;
        scene_init(&scene, ASKED_TEXT("go"));
        scene.profile.thinking = cases[i].effort;
        scene.profile.thinking_tokens = cases[i].tokens;
        scene.build.max_output_tokens = cases[i].limit;
        assert_true(cases[i].part != NULL ? asking_has(&scene, cases[i].part)
                                          : !asking_has(&scene, "thinking"));
        asking_done(&scene);
    }
}

static void P36_thinking_is_sent_only_to_its_own_model(void **state BL_UNUSED)
{
    static const char *const conversations[] = {
        SIGNED("anthropic", "model-1") "," KEPT("anthropic", "model-1"),
        SIGNED("local", "model-1") "," KEPT("local", "model-1"),
        SIGNED("anthropic", "model-2") "," KEPT("anthropic", "model-2"),
        "{\"type\":\"thinking\",\"text\":\"Let me look.\"}",
    };
    for (size_t i = 0; i < BL_COUNT(conversations); i++) {
        for (enum bl_effort effort = BL_EFFORT_DEFAULT; effort <= BL_EFFORT_ADAPTIVE; effort++) {
            struct asking scene;
            char json[1024];
            scene_init(&scene, "[]");
            snprintf(
                json, sizeof json,
                "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},{\"role\":"
                "\"assistant\",\"content\":[%s]},{\"role\":\"user\",\"content\":[{\"type\":"
                "\"text\","
                "\"text\":\"on\"}]}]",
                conversations[i]);
            asking_add(&scene, json);
            scene.profile.thinking = effort;
            bool goes = i == 0 && effort != BL_EFFORT_NONE;
            assert_int_equal(goes,
                             asking_has(&scene, "{\"role\":\"assistant\",\"content\":[{\"type\":"
                                                "\"thinking\",\"thinking\":\"Let me look.\","
                                                "\"signature\":\"EqQB+/abc==\"},{\"type\":"
                                                "\"redacted_thinking\",\"data\":\"Em==\"}]}"));
            /* A message that becomes empty is not sent. */
            assert_int_equal(goes, asking_has(&scene, "assistant"));
            asking_done(&scene);
        }
    }
}

/* Results of the server's own tools are sent back whether or not the model must think. */
static void other_kept_blocks_are_sent_back_without_thinking(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(
        &scene,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},{\"role\":"
        "\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"opaque\":{\"provider\":"
        "\"anthropic\",\"model\":\"model-1\",\"block\":{\"type\":\"novelty\",\"x\":[1.5]}}}]}]");
    scene.profile.thinking = BL_EFFORT_NONE;
    assert_true(asking_has(&scene, "\"content\":[{\"type\":\"novelty\",\"x\":[1.5]}]}]"));
    asking_done(&scene);
}

static void P35_an_answer_that_paused_is_the_last_message(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("go"));
    scene.build.resumed = BL_TEXT("[{\"type\":\"text\",\"text\":\"Searching. \"}]");
    check_asked(&scene, "anthropic/resumed.request.json");
    asking_done(&scene);
}

static void the_schema_of_the_answer_is_an_instruction(void **state BL_UNUSED)
{
    struct asking scene;
    scene_init(&scene, ASKED_TEXT("go"));
    scene.request.schema = BL_TEXT("{\"type\":\"array\"}");
    assert_true(asking_has(&scene, ":\\n{\\\"type\\\":\\\"array\\\"}\",\"cache_control\""));
    scene.request.system = BL_TEXT("Be brief.");
    assert_true(
        asking_has(&scene, "[{\"type\":\"text\",\"text\":\"Be brief.\"},{\"type\":\"text\""));
    assert_int_equal(count_marks(&scene), 2);
    scene.request.schema = (struct bl_text){0};
    scene.request.system = BL_TEXT(" \n");
    assert_false(asking_has(&scene, "system"));
    asking_done(&scene);
}

static void expect_headers(const struct bl_provider *provider, const char *expected)
{
    struct bl_arena arena;
    struct bl_http_header headers[16];
    struct bl_buffer out;
    bl_arena_init(&arena);
    bl_buffer_init(&out, 4096);
    size_t count = model_api_anthropic.headers(provider, &arena, headers);
    for (size_t i = 0; i < count; i++)
        bl_buffer_printf(&out, BL_TEXT_FORMAT ": " BL_TEXT_FORMAT "\n",
                         BL_TEXT_ARG(headers[i].name), BL_TEXT_ARG(headers[i].value));
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

static void headers_name_the_key_and_the_version(void **state BL_UNUSED)
{
    expect_headers(&(struct bl_provider){.key = NULL}, "anthropic-version: 2023-06-01\n");
    expect_headers(&(struct bl_provider){.key = "k"},
                   "x-api-key: k\nanthropic-version: 2023-06-01\n");
    expect_headers(&(struct bl_provider){.key = "t", .key_is_token = true, .beta = "a,b"},
                   "authorization: Bearer t\nanthropic-version: 2023-06-01\nanthropic-beta: a,b\n");
    assert_string_equal(model_api_anthropic.path, "/v1/messages");
    assert_false(model_api_anthropic.lines);
}

static void an_injected_message_follows_the_results_of_the_tools(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_anthropic, "test", INJECTED_MESSAGES);
    check_asked(&asking, "anthropic/injected.request.json");
    asking_done(&asking);
}

static void images_are_sent_with_prompts_and_results(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_anthropic, "test", ILLUSTRATED_MESSAGES);
    check_asked(&asking, "anthropic/images.request.json");
    asking_done(&asking);
    /* A block inside a result has no cache mark of its own. */
    asking_init(
        &asking, &model_api_anthropic, "test",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},{\"role\":"
        "\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":"
        "\"shot\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"id\":\"call_a\",\"text\":\"\",\"is_error\":false},{\"type\":\"image\","
        "\"media_type\":\"image/png\",\"data\":\"AAAA\",\"id\":\"call_a\"}]}]");
    check_asked(&asking, "anthropic/image_alone.request.json");
    asking_done(&asking);
}

static void a_summary_precedes_the_turns_that_are_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_anthropic, "test", ASKED_TEXT("four"));
    asking_sum_up(&asking);
    check_asked(&asking, "anthropic/summary.request.json");
    asking_done(&asking);
}

SUITE(anthropic, cmocka_unit_test(a_plain_request),
      cmocka_unit_test(P22_a_conversation_with_calls_tools_and_thinking),
      cmocka_unit_test(tools_stay_offered_when_calls_are_forbidden),
      cmocka_unit_test(the_effort_decides_the_budget_of_thinking),
      cmocka_unit_test(P36_thinking_is_sent_only_to_its_own_model),
      cmocka_unit_test(other_kept_blocks_are_sent_back_without_thinking),
      cmocka_unit_test(P35_an_answer_that_paused_is_the_last_message),
      cmocka_unit_test(the_schema_of_the_answer_is_an_instruction),
      cmocka_unit_test(headers_name_the_key_and_the_version),
      cmocka_unit_test(an_injected_message_follows_the_results_of_the_tools),
      cmocka_unit_test(images_are_sent_with_prompts_and_results),
      cmocka_unit_test(a_summary_precedes_the_turns_that_are_sent));
