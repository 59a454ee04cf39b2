/* Connections: reuse, redirects, HTTP versions. */
#include <stdio.h>

#include "remotely.h"

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

/* Each answer leaves an open connection, which the server then closes. */
static int closed_meanwhile(void *argument BL_UNUSED)
{
    static struct remotely remotely;

    remotely_init(&remotely, BL_API_OPENAI);
    remotely_answer_hello(&remotely);
    remotely_open(&remotely);
    for (unsigned i = 1; i <= 5; i++) {
        CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
        CHECK_STRING(recorder_log(&remotely.recorder), "text Hi.\nusage 3 2\nstop end\n");
        bl_buffer_clear(&remotely.recorder.log);
        CHECK_EQUAL(peer_requests(remotely.peer), i);
        /* With and without time for the close to arrive. */
        if (i % 2 == 0)
            bl_sleep(5 * MS);
    }
    remotely_done(&remotely);
    return 0;
}

static void P9_kept_connection_that_the_server_closed_is_not_a_retry(void **state BL_UNUSED)
{
    run_in_loop(closed_meanwhile, NULL);
}

static int redirected(void *argument BL_UNUSED)
{
    static const struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = {"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 38}},
        {.type = PEER_END}};
    static const struct peer_script script = {acts};
    static struct remotely remotely;
    struct bl_nursery nursery;
    char headers[128];

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *elsewhere = peer_start(&nursery, &script, 1);
    snprintf(headers, sizeof headers, "Location: %s\r\n", peer_url(elsewhere, "/v1/messages"));
    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 307, headers, "text/html", BL_TEXT("<html>moved</html>"));
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), BL_EIO);
    CHECK_STRING(remotely.recorder.error.name, "redirect");
    CHECK(strstr(remotely.recorder.error.message, peer_url(elsewhere, "/v1/messages")) != NULL);
    CHECK_EQUAL(peer_requests(remotely.peer), 1);
    bl_sleep(20 * MS);
    CHECK_EQUAL(peer_connections(elsewhere), 0);
    remotely_done(&remotely);
    peer_stop(elsewhere);
    bl_nursery_done(&nursery);
    return 0;
}

static void P13_redirect_is_not_followed(void **state BL_UNUSED)
{
    run_in_loop(redirected, NULL);
}

/* ---- HTTP/2 ---------------------------------------------------------------------------------- */

/* Streams of each format, in the order of `apis`: text, thinking, calls, and ends of all kinds. */
static const char *const streams[BL_COUNT(apis)][7] = {
    {"anthropic/text.sse", "anthropic/tools.sse", "anthropic/opaque.sse", "anthropic/refusal.sse",
     "anthropic/max_tokens.sse", "anthropic/overflow.sse", NULL},
    {"openai/text.sse", "openai/parallel.sse", "openai/thinking_calls.sse", "openai/refusal.sse",
     "openai/cut_by_length.sse", "openai/usage_never.sse", NULL},
    {"responses/text.sse", "responses/calls.sse", "responses/raw_thinking.sse",
     "responses/refusal.sse", "responses/incomplete.sse", "responses/failed_overflow.sse", NULL},
    {"ollama/text.jsonl", "ollama/tools.jsonl", "ollama/length.jsonl", "ollama/overflow.jsonl",
     NULL},
};

/* Requests all of them, one after an overload, and, because the retry takes time, only one cut
 * stream. Their events are in `ret_all`. */
static void ask_for_streams(size_t format, struct front *front, struct bl_buffer *ret_all)
{
    static struct remotely remotely;
    struct bl_text stream = remotely_hello(apis[format]), bodies[BL_COUNT(streams[0])];
    size_t count = 0;

    remotely_init(&remotely, apis[format]);
    remotely.front = front;
    remotely_answer(&remotely, 529, "retry-after-ms: 1\r\n", "application/json", BL_TEXT("{}"));
    remotely_answer_hello(&remotely);
    for (; streams[format][count] != NULL; count++) {
        bodies[count] = read_fixture(streams[format][count]);
        remotely_answer(&remotely, 200, "", remotely_type(apis[format]), bodies[count]);
    }
    bool cut = format == 0;
    if (cut) {
        remotely_cut(&remotely, stream, stream.size / 2);
        remotely_answer_hello(&remotely);
    }
    remotely_open(&remotely);
    for (size_t i = 0; i < count + 1 + cut; i++) {
        int code = remotely_ask(&remotely, "Say hi.");
        bl_buffer_printf(ret_all, "%s%d %s\n", recorder_log(&remotely.recorder), code,
                         remotely.recorder.error.name);
        bl_buffer_clear(&remotely.recorder.log);
    }
    CHECK_EQUAL(peer_requests(remotely.peer), count + 2 + 2 * cut);
    remotely_done(&remotely);
    for (size_t i = 0; i < count; i++)
        bl_free((void *)(uintptr_t)bodies[i].data);
}

static int both_versions(void *argument BL_UNUSED)
{
    struct bl_buffer expected, found;
    struct front front = {0};

    bl_buffer_init(&expected, 1u << 20);
    bl_buffer_init(&found, 1u << 20);
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        bl_buffer_clear(&expected);
        bl_buffer_clear(&found);
        ask_for_streams(i, NULL, &expected);
        ask_for_streams(i, &front, &found);
        const char *retried = i == 0 ? "retry 1 of 4 stream_cut" : "retry 1 of 4 overloaded";
        CHECK(bl_text_find(bl_buffer_text(&expected), bl_text_from(retried)) >= 0);
        if (!CHECK(bl_text_equal(bl_buffer_text(&expected), bl_buffer_text(&found))))
            fprintf(stderr, "HTTP/1.1:\n" BL_TEXT_FORMAT "HTTP/2:\n" BL_TEXT_FORMAT,
                    BL_TEXT_ARG(bl_buffer_text(&expected)), BL_TEXT_ARG(bl_buffer_text(&found)));
    }
    bl_buffer_done(&expected);
    bl_buffer_done(&found);
    return 0;
}

static void P12_http2_gives_the_same_events(void **state BL_UNUSED)
{
    if (!front_available())
        suite_skip("missing program: nghttpx or openssl");
    run_in_loop(both_versions, NULL);
}

SUITE(connection, cmocka_unit_test(P9_kept_connection_that_the_server_closed_is_not_a_retry),
      cmocka_unit_test(P12_http2_gives_the_same_events),
      cmocka_unit_test(P13_redirect_is_not_followed));
