#include "provided.h"

#include <stdio.h>

#define ARGUMENTS "{\"n\":1,\"why\":\"it is {so}\"}"

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

/* Each test is one fiber, or one per format. */
#define PLAY(name)                                                                                 \
    static void name##_play(struct provided *provided, enum bl_api api);                           \
    static int name##_main(void *argument)                                                         \
    {                                                                                              \
        struct provided *provided = bl_alloc(sizeof *provided);                                    \
        (void)argument;                                                                            \
        for (size_t i = 0; i < BL_COUNT(apis); i++) {                                              \
            provided_init(provided, apis[i]);                                                      \
            name##_play(provided, apis[i]);                                                        \
            provided_done(provided);                                                               \
        }                                                                                          \
        bl_free(provided);                                                                         \
        return 0;                                                                                  \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(name##_main, NULL);                                                            \
    }                                                                                              \
    static void name##_play(struct provided *provided, enum bl_api api BL_UNUSED)

static struct bl_text fixture(struct provided *provided, const char *name)
{
    struct bl_text bytes = read_fixture(name);
    struct bl_text copy = bl_arena_text(&provided->arena, bytes);

    bl_free((void *)(uintptr_t)bytes.data);
    return copy;
}

/* ---- Calls that are cut ---------------------------------------------------------------------- */

PLAY(P24_call_whose_stream_is_cut_at_any_byte_is_not_run)
{
    struct bl_text stream = call_stream(&provided->arena, api, "count", BL_TEXT(ARGUMENTS), NULL);
    size_t size = call_stream_end(api, stream);
    bool both = suite_rounds(0, 1) > 0;

    for (size_t i = 0; i < size; i++) {
        if (both || i % 2 == 0)
            provided_cut(provided, stream, i, true);
        if (both || i % 2 == 1)
            provided_cut(provided, stream, i, false);
    }
    size_t turns = provided->count;
    provided_answer(provided, stream);
    provided_hello(provided);
    provided_open(provided);
    /* Shorter than the shortest wait before a retry: the turn ends with the cut. */
    provided->turn_ns = 99 * MS;
    for (size_t i = 0; i < turns; i++) {
        enum bl_turn_end end = provided_turn(provided, "Count.");
        if (!CHECK((end == BL_TURN_ERROR || end == BL_TURN_TIMEOUT) && provided->executions == 0 &&
                   !provided->call_seen))
            fprintf(stderr, "%s, turn %zu of %zu: %s\n", bl_api_name(api), i, turns,
                    bl_turn_end_name(end));
    }
    CHECK_EQUAL(provided->session.turns_total, 0);
    /* A complete call is run. */
    provided->turn_ns = 0;
    CHECK_EQUAL(provided_turn(provided, "Count."), BL_TURN_COMPLETED);
    CHECK_EQUAL(provided->executions, 1);
}

PLAY(P24_cut_call_is_run_once_when_its_retry_is_complete)
{
    struct bl_text stream = call_stream(&provided->arena, api, "count", BL_TEXT(ARGUMENTS), NULL);

    provided_cut(provided, stream, call_stream_end(api, stream), true);
    provided_answer(provided, stream);
    provided_hello(provided);
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "Count."), BL_TURN_COMPLETED);
    CHECK_EQUAL(provided->executions, 1);
    CHECK_EQUAL(provided->retries, 1);
    CHECK(provided->discarded > 0);
    CHECK_EQUAL(peer_requests(provided->peer), 3);
    /* A dropped answer is not sent back. */
    struct bl_text body = peer_request_body(provided->peer, 2);
    ptrdiff_t first = bl_text_find(body, BL_TEXT("Now."));
    CHECK(first >= 0);
    body = (struct bl_text){body.data + first + 1, body.size - (size_t)first - 1};
    CHECK(!has(body, "Now."));
}

/* Finish reasons of servers for an answer at the limit; NULL at the end. */
static const char *const finishes[][4] = {
    [BL_API_ANTHROPIC] = {"max_tokens", "end_turn", "tool_use"},
    [BL_API_OPENAI] = {"length", "stop", "tool_calls"},
    [BL_API_OPENAI_RESPONSES] = {"incomplete", "completed"},
    [BL_API_OLLAMA] = {"length", "stop"},
};

PLAY(P25_arguments_cut_by_the_limit_at_any_byte_are_reported_and_not_run)
{
    struct bl_text arguments = BL_TEXT(ARGUMENTS);

    for (const char *const *finish = finishes[api]; *finish != NULL; finish++) {
        for (size_t i = 0; i < arguments.size; i++) {
            struct bl_text cut = {arguments.data, i};
            provided_answer(provided, call_stream(&provided->arena, api, "count", cut, *finish));
            provided_hello(provided);
        }
    }
    provided_open(provided);
    for (unsigned i = 0; i < provided->count / 2; i++) {
        bl_session_drop(&provided->session, provided->session.turns_in_context, NULL);
        enum bl_turn_end end = provided_turn(provided, "Count.");
        struct bl_text body = peer_request_body(provided->peer, 2 * i + 1);
        if (!CHECK(end == BL_TURN_COMPLETED && provided->executions == 0 && has(body, "Not run: ")))
            fprintf(stderr, "%s, turn %u: %s, %u run\n" BL_TEXT_FORMAT "\n", bl_api_name(api), i,
                    bl_turn_end_name(end), provided->executions, BL_TEXT_ARG(body));
        CHECK_EQUAL(peer_requests(provided->peer), 2 * i + 2);
        CHECK(has(provided->result.json, "\"status\":\"invalid\""));
        CHECK(!provided->result.truncated);
    }
}

PLAY(P25_call_cut_before_its_first_byte_is_not_a_call_without_arguments)
{
    /* Its calls arrive whole, or not at all. */
    if (api == BL_API_OLLAMA)
        return;
    provided_answer(provided,
                    call_stream(&provided->arena, api, "list", BL_TEXT(""), finishes[api][0]));
    provided_hello(provided);
    provided_answer(provided, call_stream(&provided->arena, api, "list", BL_TEXT(""), NULL));
    provided_hello(provided);
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "List."), BL_TURN_COMPLETED);
    if (!CHECK_EQUAL(provided->executions, 0))
        fprintf(stderr, "%s\n", bl_api_name(api));
    CHECK_EQUAL(provided_turn(provided, "List."), BL_TURN_COMPLETED);
    CHECK_EQUAL(provided->executions, 1);
}

PLAY(P26_third_cut_call_in_a_row_is_an_error)
{
    struct bl_text stream = call_stream(&provided->arena, api, "count", BL_TEXT("{\"n\":"), NULL);

    for (int i = 0; i < 5; i++)
        provided_answer(provided, stream);
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "Count."), BL_TURN_ERROR);
    CHECK_EQUAL(peer_requests(provided->peer), 3);
    CHECK_EQUAL(provided->executions, 0);
    CHECK_STRING(provided->result.error.name, "bad_response");
    CHECK_EQUAL(provided->session.turns_total, 0);
}

/* ---- Overflow -------------------------------------------------------------------------------- */

static const struct {
    int status;
    const char *body;
} overflows[] = {
    {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
          "\"prompt is too long: 215391 tokens > 200000 maximum\"}}"},
    {400, "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"This model's maximum "
          "context length is 8192 tokens.\"}}"},
    {413, "too large"},
};

static void overflow(struct provided *provided)
{
    for (size_t i = 0; i < BL_COUNT(overflows); i++) {
        /* The first time, the older turns are summarized; the second time that does not help. */
        provided_error(provided, overflows[i].status, NULL, overflows[i].body);
        provided_hello(provided);
        provided_hello(provided);
        for (int request = 0; request < 3; request++)
            provided_error(provided, overflows[i].status, NULL, overflows[i].body);
    }
}

PLAY(P32_overflow_leaves_older_turns_out_once)
{
    static const char *const prompts[] = {"first-of-all", "second", "third", "the-newest"};

    for (size_t i = 0; i < BL_COUNT(prompts); i++)
        provided_hello(provided);
    overflow(provided);
    provided_open(provided);
    provided_store(provided);
    for (size_t i = 0; i < BL_COUNT(prompts); i++)
        CHECK_EQUAL(provided_turn(provided, prompts[i]), BL_TURN_COMPLETED);
    unsigned requests = BL_COUNT(prompts);
    for (size_t i = 0; i < BL_COUNT(overflows); i++) {
        uint64_t turns = provided->session.turns_in_context;
        CHECK_EQUAL(provided_turn(provided, "once more"), BL_TURN_COMPLETED);
        CHECK_EQUAL(peer_requests(provided->peer), requests + 3);
        CHECK_EQUAL(provided->session.turns_in_context, turns - (turns + 1) / 2 + 1);
        CHECK_EQUAL(provided->session.turns_total, BL_COUNT(prompts) + i + 1);
        CHECK_EQUAL(provided->retries, 0);
        struct bl_text before = provided_memory(provided);
        CHECK_EQUAL(provided_turn(provided, "and again"), BL_TURN_ERROR);
        CHECK_STRING(provided->result.error.name, "context_overflow");
        CHECK_EQUAL(peer_requests(provided->peer), requests + 6);
        CHECK(bl_text_equal(provided_memory(provided), before));
        requests += 6;
    }
    /* Without the oldest, and with the newest turn. */
    CHECK(has(peer_request_body(provided->peer, 4), "first-of-all"));
    CHECK(has(peer_request_body(provided->peer, 5), "first-of-all"));
    CHECK(!has(peer_request_body(provided->peer, 6), "first-of-all"));
    CHECK(has(peer_request_body(provided->peer, 6), "Summary of the conversation"));
    CHECK(has(peer_request_body(provided->peer, 6), "the-newest"));
    struct bl_text memory = provided_memory(provided);
    provided_store(provided);
    CHECK(bl_text_equal(provided_memory(provided), memory));
}

PLAY(P32_overflow_of_an_empty_session_is_asked_once)
{
    for (size_t i = 0; i < BL_COUNT(overflows); i++)
        provided_error(provided, overflows[i].status, NULL, overflows[i].body);
    provided_open(provided);
    for (unsigned i = 0; i < BL_COUNT(overflows); i++) {
        CHECK_EQUAL(provided_turn(provided, "Hello."), BL_TURN_ERROR);
        CHECK_STRING(provided->result.error.name, "context_overflow");
        CHECK_EQUAL(provided->result.error.kind, BL_KIND_PROVIDER);
        CHECK_EQUAL(peer_requests(provided->peer), i + 1);
    }
}

PLAY(P32_request_that_would_overflow_is_not_sent)
{
    char prompt[4001];

    if (api != BL_API_OLLAMA)
        return;
    memset(prompt, 'x', sizeof prompt - 1);
    prompt[sizeof prompt - 1] = '\0';
    provided_hello(provided);
    provided->profile.num_ctx = 9000;
    provided_open(provided);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(provided_turn(provided, prompt), BL_TURN_COMPLETED);
    CHECK_EQUAL(peer_requests(provided->peer), 3);
    /* Half is reserved for the answer: the fourth turn of a thousand tokens does not fit, and the
     * older ones are summarized before it is sent. */
    CHECK_EQUAL(provided_turn(provided, prompt), BL_TURN_COMPLETED);
    CHECK_EQUAL(peer_requests(provided->peer), 5);
    CHECK_EQUAL(provided->session.turns_in_context, 2);
    provided->profile.num_ctx = 500;
    CHECK_EQUAL(provided_turn(provided, prompt), BL_TURN_ERROR);
    CHECK_STRING(provided->result.error.name, "context_overflow");
    CHECK_EQUAL(peer_requests(provided->peer), 5);
}

/* ---- Refusals and limits --------------------------------------------------------------------- */

static const char *const refusals[][3] = {
    [BL_API_ANTHROPIC] = {"anthropic/refusal.sse"},
    [BL_API_OPENAI] = {"openai/refusal.sse", "openai/filter.sse"},
    [BL_API_OPENAI_RESPONSES] = {"responses/refusal.sse", "responses/filter.sse"},
    [BL_API_OLLAMA] = {NULL}, /* its answers cannot express a refusal */
};

PLAY(P33_refusal_is_an_error_and_leaves_the_session_unchanged)
{
    unsigned count = 1;

    provided_hello(provided);
    for (const char *const *name = refusals[api]; *name != NULL; name++, count++)
        provided_answer(provided, fixture(provided, *name));
    provided_error(provided, 400, NULL,
                   "{\"error\":{\"code\":\"content_filter\",\"message\":\"The prompt was filtered "
                   "(content_filter).\"}}");
    provided_hello(provided);
    provided_open(provided);
    provided_store(provided);
    CHECK_EQUAL(provided_turn(provided, "Hello."), BL_TURN_COMPLETED);
    struct bl_text memory = provided_memory(provided), stored = provided_stored(provided);
    CHECK(stored.size > 0);
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQUAL(provided_turn(provided, "Do harm."), BL_TURN_ERROR);
        CHECK_STRING(provided->result.error.name, "refusal");
        CHECK_EQUAL(provided->result.error.kind, BL_KIND_PROVIDER);
        CHECK(bl_text_equal(provided_memory(provided), memory));
        CHECK(bl_text_equal(provided_stored(provided), stored));
        CHECK_EQUAL(peer_requests(provided->peer), i + 2);
        CHECK_EQUAL(bl_usage_total(&provided->result.usage), 0);
    }
    provided_store(provided);
    CHECK(bl_text_equal(provided_memory(provided), memory));
    CHECK_EQUAL(provided_turn(provided, "Hello."), BL_TURN_COMPLETED);
    CHECK(!has(peer_request_body(provided->peer, count + 1), "Do harm."));
}

PLAY(P34_text_cut_by_the_limit_completes_and_is_marked)
{
    static const char *const names[] = {
        [BL_API_ANTHROPIC] = "anthropic/max_tokens.sse",
        [BL_API_OPENAI] = "openai/length.sse",
        [BL_API_OPENAI_RESPONSES] = "responses/incomplete.sse",
        [BL_API_OLLAMA] = "ollama/length.jsonl",
    };

    provided_answer(provided, fixture(provided, names[api]));
    provided_hello(provided);
    provided_open(provided);
    CHECK_EQUAL(provided_turn(provided, "Tell me all."), BL_TURN_COMPLETED);
    CHECK(provided->result.truncated);
    CHECK(has(provided->result.json, "\"truncated\":true"));
    CHECK(bl_text_starts_with(provided->result.output, BL_TEXT("Once")));
    CHECK_EQUAL(peer_requests(provided->peer), 1);
    CHECK_EQUAL(provided_turn(provided, "More."), BL_TURN_COMPLETED);
    CHECK(!provided->result.truncated);
    CHECK(has(provided->result.json, "\"truncated\":false"));
}

SUITE(provider, cmocka_unit_test(P24_call_whose_stream_is_cut_at_any_byte_is_not_run),
      cmocka_unit_test(P24_cut_call_is_run_once_when_its_retry_is_complete),
      cmocka_unit_test(P25_arguments_cut_by_the_limit_at_any_byte_are_reported_and_not_run),
      cmocka_unit_test(P25_call_cut_before_its_first_byte_is_not_a_call_without_arguments),
      cmocka_unit_test(P26_third_cut_call_in_a_row_is_an_error),
      cmocka_unit_test(P32_overflow_leaves_older_turns_out_once),
      cmocka_unit_test(P32_overflow_of_an_empty_session_is_asked_once),
      cmocka_unit_test(P32_request_that_would_overflow_is_not_sent),
      cmocka_unit_test(P33_refusal_is_an_error_and_leaves_the_session_unchanged),
      cmocka_unit_test(P34_text_cut_by_the_limit_completes_and_is_marked));
