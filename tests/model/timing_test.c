/* The guaranteed times of a call: stalls, and waits between attempts. */
#include "figure.h"
#include "remotely.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static double elapsed_ms(uint64_t from_ns, uint64_t to_ns)
{
    return ((double)to_ns - (double)from_ns) / MS;
}

/* ---- Stalls ---------------------------------------------------------------------------------- */

#define STALL_MS  500
#define PING_MS   100
#define STALL_MAX (60 * BL_NS_PER_S) /* longer than any test; only the `stall` timer ends it */

/* Bytes that do not reset the stall timer. */
static const struct {
    enum bl_api api;
    const char *bytes;
} pings[] = {
    {BL_API_ANTHROPIC, "event: ping\ndata: {\"type\":\"ping\"}\n\n: still here\n\n"
                       "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                       "\"text_delta\",\"text\":\"\"}}\n\n"},
    {BL_API_OPENAI, ": still here\n\ndata: {\"choices\":[]}\n\n"
                    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                    "\"content\":\"\"}}]}\n\n"},
    {BL_API_OPENAI_RESPONSES,
     ": still here\n\ndata: {\"type\":\"response.in_progress\",\"response\":{}}\n\n"
     "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"i\","
     "\"content_index\":0,\"delta\":\"\"}\n\n"},
    {BL_API_OLLAMA, "\n{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n"},
};

/* The first answer consists of such bytes, all others are real answers: the call completes only if
 * the stall timer ends the first. On a very busy machine a later one stalls, too. */
static int ping_forever(void *argument)
{
    size_t i = *(const size_t *)argument;
    struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                              {.type = PEER_SEND, .bytes = BL_TEXT(HEAD)},
                              {.type = PEER_SEND_REPEAT,
                               .bytes = bl_text_from(pings[i].bytes),
                               .number = STALL_MAX / (PING_MS * MS),
                               .pause_ns = PING_MS * MS},
                              {.type = PEER_SILENCE}};
    struct remotely *remotely = bl_alloc(sizeof *remotely);
    struct bl_scope scope;

    remotely_init(remotely, pings[i].api);
    remotely_acts(remotely, acts, BL_COUNT(acts));
    remotely_answer_hello(remotely);
    remotely->provider.connect_ns = remotely->provider.first_byte_ns = STALL_MAX;
    remotely->provider.stall_ns = STALL_MS * MS;
    remotely_open(remotely);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + STALL_MAX);
    struct bl_scope *outer = bl_scope_enter(&scope);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(remotely_ask(remotely, "Say hi."), 0);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK(bl_text_starts_with(bl_buffer_text(&remotely->recorder.log),
                              BL_TEXT("retry 1 of 4 stall 200\n")));
    CHECK(peer_requests(remotely->peer) >= 2);
    CHECK(figure_between("P5 stall while pings arrive",
                         elapsed_ms(from_ns, remotely->recorder.retried_ns[0]), STALL_MS,
                         STALL_MS + 100));
    remotely_done(remotely);
    bl_free(remotely);
    return 0;
}

static int ping_in_every_format(void *argument BL_UNUSED)
{
    size_t indices[BL_COUNT(pings)];
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(pings); i++) {
        indices[i] = i;
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "pings", ping_forever, &indices[i], NULL), 0);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

static void P5_pings_and_comments_do_not_keep_an_answer_alive(void **state BL_UNUSED)
{
    run_in_loop(ping_in_every_format, NULL);
}

/* With the guaranteed times if figures are taken; otherwise at a pace that a busy machine can
 * keep. */
static int drip(void *argument BL_UNUSED)
{
    struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = BL_TEXT(HEAD)},
        {.type = PEER_SEND,
         .bytes = BL_TEXT("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
                          "\"type\":\"text\",\"text\":\"\"}}\n\n")},
        {.type = PEER_SEND_REPEAT,
         .bytes = BL_TEXT("data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                          "\"text_delta\",\"text\":\"x\"}}\n\n"),
         .number = figure_taking() ? 4 : 14,
         .pause_ns = (figure_taking() ? 400 : 50) * MS},
        {.type = PEER_SEND, .bytes = remotely_hello(BL_API_ANTHROPIC)}};
    static struct remotely remotely;

    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_acts(&remotely, acts, BL_COUNT(acts));
    remotely.provider.stall_ns = STALL_MS * MS;
    remotely_open(&remotely);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    CHECK(bl_now_ns() - from_ns > STALL_MS * MS);
    CHECK_EQUAL(peer_requests(remotely.peer), 1);
    remotely_done(&remotely);
    return 0;
}

static void P6_slow_text_completes(void **state BL_UNUSED)
{
    run_in_loop(drip, NULL);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static int overloaded_twice(void *argument BL_UNUSED)
{
    static struct remotely remotely;
    struct bl_text body = BL_TEXT("{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                                  "\"message\":\"Overloaded\"}}");

    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 529, "retry-after-ms: 250\r\n", "application/json", body);
    remotely_answer(&remotely, 529, "retry-after-ms: 1\r\n", "application/json", body);
    remotely_answer_hello(&remotely);
    remotely_open(&remotely);
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), 0);
    CHECK_EQUAL(peer_requests(remotely.peer), 3);
    CHECK_STRING(recorder_log(&remotely.recorder),
                 "retry 1 of 4 overloaded 529\nretry 2 of 4 overloaded 529\n"
                 "usage 3 1\ntext Hi.\nusage 3 2\nstop end\n");
    /* The next attempt, which fails at once, is included. */
    const uint64_t *retried_ns = remotely.recorder.retried_ns;
    CHECK(figure_between("P37 wait for retry-after-ms: 250",
                         elapsed_ms(retried_ns[0], retried_ns[1]), 250, 320));
    remotely_done(&remotely);
    return 0;
}

static void P37_overload_waits_for_the_time_that_the_server_sets(void **state BL_UNUSED)
{
    run_in_loop(overloaded_twice, NULL);
}

static int no_time(void *argument BL_UNUSED)
{
    static struct remotely remotely;
    struct bl_scope scope;

    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 503, "retry-after: 10\r\n", "application/json", BL_TEXT("{}"));
    remotely_open(&remotely);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 2 * BL_NS_PER_S);
    struct bl_scope *outer = bl_scope_enter(&scope);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(remotely_ask(&remotely, "Say hi."), BL_EIO);
    CHECK(figure_since("P40 failure for lack of time", from_ns, 50));
    CHECK_EQUAL(bl_check(), 0);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK_STRING(remotely.recorder.error.name, "no_time_to_retry");
    CHECK(remotely.recorder.error.retryable);
    CHECK_EQUAL(peer_requests(remotely.peer), 1);
    remotely_done(&remotely);
    return 0;
}

static void P40_wait_that_would_pass_the_deadline_fails_now(void **state BL_UNUSED)
{
    run_in_loop(no_time, NULL);
}

SUITE(timing, cmocka_unit_test(P5_pings_and_comments_do_not_keep_an_answer_alive),
      cmocka_unit_test(P6_slow_text_completes),
      cmocka_unit_test(P37_overload_waits_for_the_time_that_the_server_sets),
      cmocka_unit_test(P40_wait_that_would_pass_the_deadline_fails_now));
