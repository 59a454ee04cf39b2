#include "recorder.h"

static const char question[] = ASKED_TEXT("Gr\u00fc\u00dfe");

/* All kinds of blocks, with kept members of two models. */
static const char history[] =
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\","
    "\"text\":\"two\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"Hm\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"field\":\"reasoning_content\"}},"
    "{\"type\":\"text\",\"text\":\"Let me look.\"},"
    "{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":\"read\",\"input\":{\"path\":\"a\"},"
    "\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"extra\":{\"extra_content\":{\"google\":"
    "{\"thought_signature\":\"Q2lRQg==/+\"}},\"function\":{\"note\":12345678901234567}}}},"
    "{\"type\":\"tool_call\",\"id\":\"toolu_an_id_of_another_server_that_is_much_longer_than_"
    "forty\","
    "\"name\":\"list\",\"input\":{}},"
    "{\"type\":\"tool_call\",\"id\":\"call_c\",\"name\":\"read\",\"input_text\":\"{\\\"pa\","
    "\"invalid\":"
    "\"it is cut\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"call_a\",\"text\":\"A\","
    "\"is_error\":false},{\"type\":\"tool_result\",\"id\":"
    "\"toolu_an_id_of_another_server_that_is_much_longer_than_forty\",\"text\":\"\",\"is_error\":"
    "false},{\"type\":\"tool_result\",\"id\":\"call_c\",\"text\":\"no\",\"is_error\":true},"
    "{\"type\":\"text\",\"text\":\"go on\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"So\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"field\":\"reasoning_content\"}},"
    "{\"type\":\"text\",\"text\":\"It is A.\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"thanks\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"Let me\"},"
    "{\"type\":\"text\",\"text\":\"Yes.\"},{\"type\":\"thinking\",\"text\":\"\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"details\":[{\"type\":\"reasoning.text\","
    "\"format\":\"anthropic-claude-v1\",\"index\":0,\"signature\":\"EqQBCkYIBxgC/+=\",\"text\":"
    "\"Let me\"},{\"type\":\"reasoning.encrypted\",\"data\":\"gAAAA/+==\",\"id\":\"rs_1\","
    "\"index\":1}]}}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"bye\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"only this\"}]}]";

/* ---- Headers ---- */

static void headers_hold_the_key_and_the_organization(void **state BL_UNUSED)
{
    struct bl_provider provider = {.name = "test"};
    struct bl_http_header headers[16];
    struct bl_arena arena;

    bl_arena_init(&arena);
    assert_int_equal(model_api_openai.headers(&provider, &arena, headers), 0);
    provider.key = "";
    provider.organization = "";
    assert_int_equal(model_api_openai.headers(&provider, &arena, headers), 0);
    provider.key = "key-1";
    provider.organization = "org-1";
    assert_int_equal(model_api_openai.headers(&provider, &arena, headers), 2);
    assert_string_equal(headers[0].name.data, "authorization");
    assert_string_equal(headers[0].value.data, "Bearer key-1");
    assert_string_equal(headers[1].name.data, "openai-organization");
    assert_string_equal(headers[1].value.data, "org-1");
    assert_int_equal(model_api_openai_responses.headers(&provider, &arena, headers), 2);
    bl_arena_done(&arena);
}

/* ---- Bodies ---- */

static void a_plain_question_has_only_what_it_needs(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", question);
    check_asked(&asking, "openai/request_plain.json");
    asking.request.session = NULL;
    check_asked(&asking, "openai/request_plain.json");
    asking_done(&asking);
}

static void every_field_is_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", question);
    asking_fill(&asking);
    asking.profile.thinking = BL_EFFORT_HIGH;
    check_asked(&asking, "openai/request_full.json");
    asking_done(&asking);
}

static void fields_that_a_server_does_not_know_are_left_out(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", question);
    asking_fill(&asking);
    asking.profile.thinking = BL_EFFORT_HIGH;
    asking.compat = (struct bl_compat){.max_tokens_field = true,
                                       .no_stream_options = true,
                                       .no_parallel_tool_calls = true,
                                       .no_reasoning_effort = true,
                                       .no_response_format = true,
                                       .no_tool_choice = true};
    check_asked(&asking, "openai/request_compat.json");
    asking_done(&asking);
}

static void the_effort_is_a_word_or_absent(void **state BL_UNUSED)
{
    static const struct {
        enum bl_effort effort;
        const char *words;
    } cases[] = {{BL_EFFORT_DEFAULT, NULL},
                 {BL_EFFORT_ADAPTIVE, NULL},
                 {BL_EFFORT_NONE, "\"reasoning_effort\":\"none\""},
                 {BL_EFFORT_LOW, "\"reasoning_effort\":\"low\""},
                 {BL_EFFORT_MEDIUM, "\"reasoning_effort\":\"medium\""}};
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", question);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        asking.profile.thinking = cases[i].effort;
        const char *words = cases[i].words != NULL ? cases[i].words : "reasoning_effort";
        assert_int_equal(asking_has(&asking, words), cases[i].words != NULL);
    }
    asking_done(&asking);
}

static void P36_kept_values_are_sent_back_to_their_model(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", history);
    check_asked(&asking, "openai/request_history.json");
    asking.compat.reasoning_required = true;
    check_asked(&asking, "openai/request_reasoning_required.json");
    asking_done(&asking);
}

static void P36_kept_values_of_another_model_are_not_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", history);
    asking.profile.model = "model-2";
    asking.request.tools = asked_tools;
    asking.request.tool_count = 1;
    check_asked(&asking, "openai/request_other_model.json");
    asking.request.tool_count = 0;
    asking.profile.model = "model-1";
    asking.provider.name = "other";
    check_asked(&asking, "openai/request_other_provider.json");
    asking_done(&asking);
}

static void kept_values_are_not_sent_to_a_server_that_refuses_them(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", history);
    asking.compat.no_reasoning_back = true;
    check_asked(&asking, "openai/request_no_reasoning.json");
    asking_done(&asking);
}

/* ---- Learning from a refusal ---- */

/* Returns the name of the differing bit, or "nothing". */
static const char *difference(const struct bl_compat *a, const struct bl_compat *b)
{
#define DIFFERS(bit)                                                                               \
    if (a->bit != b->bit)                                                                          \
    return #bit
    DIFFERS(max_tokens_field);
    DIFFERS(no_stream_options);
    DIFFERS(no_parallel_tool_calls);
    DIFFERS(no_reasoning_effort);
    DIFFERS(no_response_format);
    DIFFERS(no_tool_choice);
    DIFFERS(no_max_tokens);
    DIFFERS(no_prompt_cache_key);
    DIFFERS(no_include);
    DIFFERS(no_reasoning_summary);
    DIFFERS(no_reasoning_back);
    DIFFERS(no_reasoning_id);
    DIFFERS(reasoning_required);
#undef DIFFERS
    return "nothing";
}

static void check_learned(struct bl_compat before, const char *message, const char *expected)
{
    struct bl_compat after = before;

    bool changed = model_openai_learn(bl_text_from(message), &after);
    if (strcmp(difference(&before, &after), expected) != 0)
        fail_msg("%s: %s", message, difference(&before, &after));
    assert_int_equal(changed, strcmp(expected, "nothing") != 0);
}

static void P31_a_field_named_in_a_refusal_is_left_out(void **state BL_UNUSED)
{
    static const char *const cases[][2] = {
        {"Unrecognized request argument supplied: stream_options", "no_stream_options"},
        {"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are "
         "not permitted'}]",
         "no_stream_options"},
        {"Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
         "no_parallel_tool_calls"},
        {"Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
         "no_reasoning_effort"},
        {"Unsupported parameter: 'reasoning.effort' is not supported with this model.",
         "no_reasoning_effort"},
        {"Your organization must be verified to generate reasoning summaries.",
         "no_reasoning_summary"},
        {"Invalid parameter: 'response_format' of type 'json_schema' is not supported",
         "no_response_format"},
        {"Cannot use custom grammar constraints with tools.", "no_response_format"},
        {"json: unknown field \"tool_choice\"", "no_tool_choice"},
        {"Unknown parameter: 'prompt_cache_key'.", "no_prompt_cache_key"},
        {"Encrypted content is not supported with this model.", "no_include"},
        {"Unknown parameter: 'include'.", "no_include"},
        {"Unsupported parameter: 'max_output_tokens'", "no_max_tokens"},
        {"Unsupported parameter: 'max_completion_tokens'", "max_tokens_field"},
        {"property 'messages.2.reasoning_content' is unsupported", "no_reasoning_back"},
        {"The encrypted content for item rs_1 could not be verified.", "no_reasoning_back"},
        {"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
         "no_reasoning_id"},
        {"Missing `reasoning_content` field in the assistant message at message index 2.",
         "reasoning_required"},
        {"The reasoning_content in the thinking mode must be passed back to the API.",
         "reasoning_required"},
        {"Invalid value for 'model'", "nothing"},
        {"Please include a question", "nothing"},
        {"my_stream_options_are_mine", "nothing"},
        {"'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum "
         "context "
         "length is 8192 tokens",
         "nothing"},
        {"", "nothing"},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++)
        check_learned((struct bl_compat){0}, cases[i][0], cases[i][1]);
    /* A repeated refusal changes nothing: the field was not sent. */
    check_learned((struct bl_compat){.no_stream_options = true},
                  "Unrecognized request argument supplied: stream_options", "nothing");
}

static void the_limit_is_renamed_once_and_then_left_out(void **state BL_UNUSED)
{
    struct bl_compat compat = {.max_tokens_field = true};

    check_learned(compat,
                  "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                  "'max_completion_tokens' instead.",
                  "max_tokens_field");
    check_learned(compat, "Unsupported parameter: 'max_completion_tokens'", "nothing");
    compat = (struct bl_compat){0};
    assert_true(model_openai_learn(BL_TEXT("unknown field: max_completion_tokens"), &compat));
    assert_true(compat.max_tokens_field && !compat.no_max_tokens);
    assert_true(model_openai_learn(BL_TEXT("unknown field: max_tokens"), &compat));
    assert_true(compat.no_max_tokens);
    assert_false(model_openai_learn(BL_TEXT("unknown field: max_tokens"), &compat));
}

static void an_injected_message_follows_the_results_of_the_tools(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", INJECTED_MESSAGES);
    check_asked(&asking, "openai/request_injected.json");
    asking_done(&asking);
}

static void images_are_sent_with_prompts_and_results(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", ILLUSTRATED_MESSAGES);
    check_asked(&asking, "openai/request_images.json");
    asking_done(&asking);
}

static void a_summary_precedes_the_turns_that_are_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai, "test", ASKED_TEXT("four"));
    asking_sum_up(&asking);
    check_asked(&asking, "openai/request_summary.json");
    asking_done(&asking);
}

SUITE(openai, cmocka_unit_test(headers_hold_the_key_and_the_organization),
      cmocka_unit_test(a_plain_question_has_only_what_it_needs),
      cmocka_unit_test(every_field_is_sent),
      cmocka_unit_test(fields_that_a_server_does_not_know_are_left_out),
      cmocka_unit_test(the_effort_is_a_word_or_absent),
      cmocka_unit_test(P36_kept_values_are_sent_back_to_their_model),
      cmocka_unit_test(P36_kept_values_of_another_model_are_not_sent),
      cmocka_unit_test(kept_values_are_not_sent_to_a_server_that_refuses_them),
      cmocka_unit_test(P31_a_field_named_in_a_refusal_is_left_out),
      cmocka_unit_test(the_limit_is_renamed_once_and_then_left_out),
      cmocka_unit_test(an_injected_message_follows_the_results_of_the_tools),
      cmocka_unit_test(images_are_sent_with_prompts_and_results),
      cmocka_unit_test(a_summary_precedes_the_turns_that_are_sent));
