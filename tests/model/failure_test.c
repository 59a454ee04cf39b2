#include "recorder.h"

#include <stdio.h>

#define NOW_NS ((int64_t)784111777 * (int64_t)BL_NS_PER_S) /* 06 Nov 1994 08:49:37 GMT */

static const struct bl_text none;

static struct bl_model_failure classify(int status, const char *body)
{
    struct bl_model_failure failure;
    model_failure_classify(&model_api_anthropic, status, none, none, none, bl_text_from(body),
                           NOW_NS, &failure);
    assert_int_equal(failure.status, status);
    assert_int_equal(failure.retry_after_ms, -1);
    assert_int_equal(failure.should_retry, -1);
    assert_false(failure.timed_out);
    return failure;
}

static void expect_code(int status, const char *body, const char *code)
{
    struct bl_model_failure failure = classify(status, body);
    if (failure.code == NULL || strcmp(failure.code, code) != 0)
        fail_msg("%d %s: %s, not %s", status, body, failure.code, code);
}

static const struct {
    int status;
    const char *body;
} overflows[] = {
    /* Anthropic */
    {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
          "\"prompt is too long: 213462 tokens > 200000 maximum\"}}"},
    {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input "
          "length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
          "input length or `max_tokens` and try again\"}}"},
    {413, "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\",\"message\":\"Request "
          "exceeds the maximum size\"}}"},
    /* OpenAI, Azure */
    {400, "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. "
          "However, your messages resulted in 8545 tokens.\",\"type\":\"invalid_request_error\","
          "\"param\":\"messages\",\"code\":\"context_length_exceeded\"}}"},
    {400, "{\"error\":{\"message\":\"Your input exceeds the context window of this model. Please "
          "adjust your input and try again.\",\"type\":\"invalid_request_error\",\"code\":null}}"},
    /* llama.cpp, now and before */
    {400, "{\"error\":{\"code\":400,\"message\":\"request (9000 tokens) exceeds the available "
          "context size (4096 tokens), try increasing it\",\"type\":\"exceed_context_size_error\","
          "\"n_prompt_tokens\":9000,\"n_ctx\":4096}}"},
    {500, "{\"error\":{\"code\":500,\"message\":\"the request exceeds the available context size. "
          "try increasing the context size or enable context shift\",\"type\":\"server_error\"}}"},
    {500, "{\"error\":{\"code\":500,\"message\":\"Context size has been exceeded.\","
          "\"type\":\"server_error\"}}"},
    /* vLLM */
    {400,
     "{\"object\":\"error\",\"message\":\"This model's maximum context length is 4096 "
     "tokens. However, you requested 5000 tokens\",\"type\":\"BadRequestError\",\"param\":null,"
     "\"code\":400}"},
    {400, "{\"error\":{\"message\":\"The decoder prompt (length 5000) is longer than the maximum "
          "model length of 4096.\",\"type\":\"BadRequestError\",\"code\":400}}"},
    /* Ollama */
    {400, "{\"error\":\"the input length exceeds the context length\"}"},
    {400, "{\"error\":\"the prompt is longer than the context length currently available to the "
          "model; shorten the prompt\"}"},
    {500, "{\"error\":\"input after truncation exceeds maximum context length\"}"},
    /* OpenRouter, and one that wraps another server's message */
    {400, "{\"error\":{\"message\":\"This endpoint's maximum context length is 131072 tokens. "
          "However, you requested about 140000 tokens\",\"code\":400}}"},
    {400, "{\"error\":{\"message\":\"Provider returned error\",\"code\":400,\"metadata\":{\"raw\":"
          "\"{\\\"error\\\":{\\\"message\\\":\\\"Prompt is too long\\\"}}\"}}}"},
    /* Groq, Mistral, Gemini, xAI */
    {400, "{\"error\":{\"message\":\"Please reduce the length of the messages or completion.\","
          "\"type\":\"invalid_request_error\",\"param\":\"messages\"}}"},
    {400,
     "{\"object\":\"error\",\"message\":\"Prompt contains 65536 tokens and 0 draft tokens, too "
     "large for model with 32768 maximum context length\",\"type\":"
     "\"invalid_request_prompt\",\"code\":\"3051\"}"},
    {400, "[{\"error\":{\"code\":400,\"message\":\"The input token count (1196265) exceeds the "
          "maximum number of tokens allowed (1048575).\",\"status\":\"INVALID_ARGUMENT\"}}]"},
    {400, "{\"code\":\"Client specified an invalid argument\",\"error\":\"This model's maximum "
          "prompt length is 131072 but the request contains 537812 tokens.\"}"},
    /* LM Studio, SGLang, TGI, Bedrock, Moonshot, MiniMax, Cohere */
    {400, "{\"error\":\"Trying to keep the first 5010 tokens when context the overflows. However, "
          "the model is loaded with context length of only 4096 tokens\"}"},
    {400, "{\"object\":\"error\",\"message\":\"The input (5000 tokens) is longer than the model's "
          "context length (4096 tokens).\",\"type\":\"BadRequestError\",\"code\":400}"},
    {422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= "
          "4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`\",\"error_type\":"
          "\"validation\"}"},
    {400, "{\"message\":\"Input is too long for requested model.\"}"},
    {400, "{\"error\":{\"message\":\"Invalid request: Your request exceeded model token limit: "
          "262144 (requested: 291351)\",\"type\":\"invalid_request_error\"}}"},
    {400, "{\"type\":\"error\",\"error\":{\"type\":\"bad_request_error\",\"message\":\"invalid "
          "params, "
          "context window exceeds limit (2013)\"}}"},
    {400, "{\"message\":\"too many tokens: total number of tokens in the prompt cannot exceed "
          "4081\"}"},
    /* Any words. */
    {413, "<html><head><title>413 Request Entity Too Large</title></head></html>"},
    {413, ""},
};

static void P32_the_overflow_texts_of_the_common_servers(void **state BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(overflows); i++)
        expect_code(overflows[i].status, overflows[i].body, "context_overflow");
}

static void rates_of_tokens_are_not_an_overflow(void **state BL_UNUSED)
{
    expect_code(429, "{\"message\":\"Too many tokens, please wait before trying again.\"}",
                "rate_limited");
    expect_code(400, "{\"message\":\"Too many tokens, please wait before trying again.\"}",
                "rate_limited");
    expect_code(429,
                "{\"error\":{\"message\":\"Request too large for m on tokens per min (TPM): Limit "
                "30000, Requested 40000. maximum context length\",\"code\":"
                "\"rate_limit_exceeded\"}}",
                "rate_limited");
    expect_code(429,
                "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Number of request tokens "
                "has exceeded your per-minute rate limit\"}}",
                "rate_limited");
}

static void P38_no_credit_is_quota_at_any_status(void **state BL_UNUSED)
{
    static const struct {
        int status;
        const char *body;
    } cases[] = {
        {402, ""},
        {402, "{\"error\":{\"message\":\"Insufficient Balance\",\"type\":\"unknown_error\"}}"},
        {402, "{\"error\":{\"message\":\"maximum context length\"}}"},
        {429,
         "{\"error\":{\"message\":\"You exceeded your current quota, please check your plan.\","
         "\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}"},
        {403,
         "{\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"billing\"}}"},
        {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
              "\"Your credit "
              "balance is too low to access the API.\"}}"},
        {429, "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Limit\","
              "\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}"},
        {400,
         "{\"error\":{\"message\":\"You have reached your specified API usage limits. You will "
         "regain access on 2026-12-01\"}}"},
        {403, "{\"error\":{\"message\":\"Key limit exceeded (total limit).\",\"code\":403}}"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        expect_code(cases[i].status, cases[i].body, "quota");
        struct bl_model_failure failure = classify(cases[i].status, cases[i].body);
        failure.should_retry = 1;
        assert_false(bl_model_failure_retryable(&failure));
    }
}

static void the_status_decides_where_the_text_does_not(void **state BL_UNUSED)
{
    static const struct {
        int status;
        const char *code;
    } cases[] = {
        {400, "bad_request"}, {401, "auth"},   {403, "auth"},        {404, "not_found"},
        {408, "server"},      {409, "server"}, {422, "bad_request"}, {429, "rate_limited"},
        {500, "server"},      {503, "server"}, {529, "overloaded"},  {307, "redirect"},
        {418, "bad_request"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        expect_code(cases[i].status, "", cases[i].code);
        expect_code(cases[i].status,
                    "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}",
                    cases[i].code);
    }
}

static void the_text_decides_if_it_is_more_specific(void **state BL_UNUSED)
{
    static const struct {
        int status;
        const char *body, *code;
    } cases[] = {
        {500, "{\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
         "overloaded"},
        {429, "{\"error\":{\"type\":\"engine_overloaded_error\",\"message\":\"busy\"}}",
         "overloaded"},
        {503, "{\"error\":{\"message\":\"Slow Down\",\"type\":\"server_error\"}}", "overloaded"},
        {429, "{\"error\":{\"message\":\"Slow down.\",\"type\":\"rate_limit_error\"}}",
         "rate_limited"},
        {503,
         "{\"error\":{\"code\":503,\"message\":\"The model is overloaded. Please try again "
         "later.\",\"status\":\"UNAVAILABLE\"}}",
         "overloaded"},
        /* A model that is loading will be available soon. */
        {503,
         "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}",
         "server"},
        /* A chat template that does not accept the conversation never will. */
        {500,
         "{\"error\":{\"code\":500,\"message\":\"Jinja Exception: System message must be at the "
         "beginning\",\"type\":\"server_error\"}}",
         "bad_request"},
        {500, "{\"error\":\"template: :3:14: executing \\\"\\\" at <.Foo>: can't evaluate\"}",
         "bad_request"},
        {500, "{\"error\":{\"message\":\"Conversation roles must alternate user/assistant\"}}",
         "bad_request"},
        {400,
         "{\"error\":{\"code\":\"content_filter\",\"message\":\"The response was filtered due to "
         "the "
         "prompt triggering Azure OpenAI's content management policy.\",\"status\":400}}",
         "refusal"},
        {400,
         "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Output blocked by content "
         "filtering policy\"}}",
         "refusal"},
        {400,
         "{\"error\":{\"message\":\"Content Exists Risk\",\"type\":\"invalid_request_error\"}}",
         "refusal"},
        {400,
         "[{\"error\":{\"code\":400,\"message\":\"API key not valid. Please pass a valid API "
         "key.\",\"status\":\"INVALID_ARGUMENT\"}}]",
         "auth"},
        {400, "{\"error\":{\"message\":\"foo/bar is not a valid model ID\",\"code\":400}}",
         "not_found"},
        {404, "{\"error\":\"model 'x' not found\"}", "not_found"},
        /* Status 200, but an error. */
        {200, "{\"error\":{\"type\":\"api_error\",\"message\":\"Internal server error\"}}",
         "server"},
        {200, "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}", "bad_request"},
        {200, "{\"error\":{\"code\":429,\"message\":\"later\"}}", "rate_limited"},
        {200, "{\"error\":{\"code\":\"503\",\"message\":\"later\"}}", "server"},
        {200, "{\"error\":\"what\"}", "server"},
        {200, "<html>", "bad_response"},
        {200, "", "bad_response"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        expect_code(cases[i].status, cases[i].body, cases[i].code);
}

static void the_message_is_found_in_every_shape(void **state BL_UNUSED)
{
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"{\"error\":{\"message\":\"a b\",\"type\":\"x\"}}", "a b"},
        {"{\"error\":\"plain\"}", "plain"},
        {"{\"detail\":\"not here\"}", "not here"},
        {"{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\",\"type\":\"missing\"}]}",
         "field required"},
        {"{\"detail\":{\"error\":{\"message\":\"deep\"}}}", "deep"},
        {"{\"message\":\"top\",\"code\":7}", "top"},
        {"{\"error\":{},\"message\":\"beside\"}", "beside"},
        {"{\"errors\":[{\"message\":\"first\"},{\"message\":\"second\"}]}", "first"},
        {"{\"error\":{\"type\":\"only_a_type\"}}", "only_a_type"},
        {"[{\"error\":{\"message\":\"in a list\"}}]", "in a list"},
        {"{\"error\":null}", ""},
        {"{}", ""},
        {"17", ""},
        {"\"text\"", "text"},
        {"  plain\r\n\ttext \n", "plain   text"},
        {"{\"error\":{\"message\":\"cut off he", "{\"error\":{\"message\":\"cut off he"},
        {"<!DOCTYPE html>\n<html><head><TITLE lang=en>\n502 Bad\nGateway </TITLE>",
         "the answer is HTML: 502 Bad Gateway"},
        {"<html><body>no title</body></html>", "the answer is HTML"},
        {"<html><title", "the answer is HTML"},
        {"\xff\xfe broken", "\uFFFD\uFFFD broken"},
        {"", ""},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_model_failure failure = classify(500, cases[i].body);
        assert_string_equal(failure.message, cases[i].message);
    }
}

static void a_long_message_is_cut_at_a_character(void **state BL_UNUSED)
{
    char body[1000];
    for (size_t shift = 0; shift < 3; shift++) {
        size_t size = shift;
        memset(body, 'a', shift);
        while (size + 3 < sizeof body) {
            memcpy(body + size, "\u20ac", 3);
            size += 3;
        }
        body[size] = '\0';
        struct bl_model_failure failure = classify(500, body);
        assert_true(bl_utf8_valid(bl_text_from(failure.message)));
        assert_in_range(strlen(failure.message), 253, 255);
    }
}

static void retry_after_is_seconds_fractions_or_a_date(void **state BL_UNUSED)
{
    static const struct {
        const char *value;
        int64_t ms;
    } cases[] = {
        {"", -1},
        {"0", 0},
        {"12", 12000},
        {" 12 ", 12000},
        {"1.5", 1500},
        {"0.0001", 1},
        {"0.25", 250},
        {"2.", 2000},
        {"1.123456789", 1124},
        {"-1", -1},
        {"1e3", -1},
        {"soon", -1},
        {"12s", -1},
        {"999999999999999999", 31622400000},
        {"99999999999999999999", -1},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:49:47 GMT", 10000},
        {"Sun, 06 Nov 1994 08:49:00 GMT", 0},
        {"Sunday, 06-Nov-94 08:50:37 GMT", 60000},
        {"Sun Nov  6 08:50:37 1994", 60000},
        {"Mon Nov 14 08:49:37 1994", 8 * 86400000ll},
        {"Tue, 06 Dec 1994 08:49:37 GMT", 30 * 86400000ll},
        {"Mon, 06 Nov 1995 08:49:37 GMT", 365 * 86400000ll},
        {"Wed, 06 Nov 2069 08:49:37 GMT", 31622400000},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Sun, 99 Nov 1994 08:49:37 GMT", -1},
        {"Sun, 06 Foo 1994 08:49:37 GMT", -1},
        {"Sun, 06 Nov 1994 25:49:37 GMT", -1},
        {"Sun, 06 Nov 994 08:49:37 GMT", -1},
        {"Sun, 06 Nov 1994", -1},
        {"Sun,", -1},
        {"Sun Nov", -1},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        int64_t ms = model_retry_after_ms(bl_text_from(cases[i].value), NOW_NS);
        suite_fail_if(ms != cases[i].ms, "%s: %lld", cases[i].value, (long long)ms);
    }
}

/* Compares with days counted one by one from 1970 to the end of nanoseconds. */
static void dates_agree_with_the_calendar(void **state BL_UNUSED)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t days = 0;
    char text[64];
    for (int year = 1970; year < 2262; year++) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (int month = 0; month < 12; month++) {
            for (int day = 1; day <= lengths[month] + (leap && month == 1); day++, days++) {
                int64_t now_ns = days * 86400 * (int64_t)BL_NS_PER_S;
                snprintf(text, sizeof text, "Day, %02d %s %d 00:00:01 GMT", day, months[month],
                         year);
                assert_int_equal(model_retry_after_ms(bl_text_from(text), now_ns), 1000);
            }
        }
    }
}

static void the_headers_say_when_and_whether(void **state BL_UNUSED)
{
    struct bl_model_failure failure;
    model_failure_classify(NULL, 503, BL_TEXT("7"), BL_TEXT("250"), BL_TEXT("false"), none, NOW_NS,
                           &failure);
    assert_int_equal(failure.retry_after_ms, 250);
    assert_int_equal(failure.should_retry, 0);
    model_failure_classify(NULL, 503, BL_TEXT("7"), BL_TEXT("250.5"), BL_TEXT(" true"), none,
                           NOW_NS, &failure);
    assert_int_equal(failure.retry_after_ms, 251);
    assert_int_equal(failure.should_retry, 1);
    model_failure_classify(NULL, 503, BL_TEXT("7"), BL_TEXT("x"), BL_TEXT("perhaps"), none, NOW_NS,
                           &failure);
    assert_int_equal(failure.retry_after_ms, 7000);
    assert_int_equal(failure.should_retry, -1);
    assert_string_equal(failure.code, "server");
}

static void a_type_or_a_text_means_a_code_by_itself(void **state BL_UNUSED)
{
    static const struct {
        const char *type, *message, *code;
    } cases[] = {
        {"overloaded_error", "", "overloaded"},
        {"insufficient_quota", "", "quota"},
        {"", "prompt is too long: 9 tokens > 8 maximum", "context_overflow"},
        {"server_error", "PROMPT IS TOO LONG", "context_overflow"},
        {"rate_limit_error", "", "rate_limited"},
        {"api_error", "", "server"},
        {"authentication_error", "", "auth"},
        {"permission_error", "", "auth"},
        {"not_found_error", "", "not_found"},
        {"invalid_request_error", "", "bad_request"},
        {"timeout_error", "", "server"},
        {"server_error", "", "server"},
        {"rate_limit_exceeded", "", "rate_limited"},
        {"", "", "server"},
        {"novelty", "something", "server"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct model_assembly assembly = {.sink = NULL};
        const struct bl_json *json;
        struct bl_arena arena;
        bl_arena_init(&arena);
        struct bl_text body =
            bl_arena_printf(&arena, "{\"error\":{\"type\":\"%s\",\"message\":\"%s\"}}",
                            cases[i].type, cases[i].message);
        assert_int_equal(bl_json_read(&arena, body, NULL, &json, NULL), 0);
        assert_int_equal(model_fail_body(&assembly, json), BL_EIO);
        assert_string_equal(assembly.failure.code, cases[i].code);
        bl_arena_done(&arena);
    }
}

SUITE(failure, cmocka_unit_test(P32_the_overflow_texts_of_the_common_servers),
      cmocka_unit_test(rates_of_tokens_are_not_an_overflow),
      cmocka_unit_test(P38_no_credit_is_quota_at_any_status),
      cmocka_unit_test(the_status_decides_where_the_text_does_not),
      cmocka_unit_test(the_text_decides_if_it_is_more_specific),
      cmocka_unit_test(the_message_is_found_in_every_shape),
      cmocka_unit_test(a_long_message_is_cut_at_a_character),
      cmocka_unit_test(retry_after_is_seconds_fractions_or_a_date),
      cmocka_unit_test(dates_agree_with_the_calendar),
      cmocka_unit_test(the_headers_say_when_and_whether),
      cmocka_unit_test(a_type_or_a_text_means_a_code_by_itself));
