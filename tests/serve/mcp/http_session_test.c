#include "booth.h"

#define HOLD_HEAD BOOTH_HEAD BOOTH_CALL "Mcp-Name: hold\r\n"

static void keep(char *out, size_t size, const char *text)
{
    bl_text_into(out, size, text);
}

/* ---- Without sessions ------------------------------------------------------------------------ */

/* Before the headers of the answer are sent, and after. */
static int close_the_stream(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest;
    uint64_t first_ns = mcp_http_first_ns, worst_ns = 0;
    unsigned long rounds = suite_rounds(20, 2000);

    booth_open(&booth);
    for (unsigned long i = 0; i < rounds; i++) {
        mcp_http_first_ns = i % 2 == 0 ? 60 * BL_NS_PER_S : BL_NS_PER_MS;
        booth_send(&booth, &guest, "POST", HOLD_HEAD, booth_tool("1", "hold", BOOTH_META));
        CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
        if (i % 2 != 0)
            CHECK_EQUAL(guest_await(&guest, "\r\n\r\n"), 0);
        uint64_t closed_ns = bl_now_ns();
        guest_close(&guest);
        CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
        if (booth.stopped_ns - closed_ns > worst_ns)
            worst_ns = booth.stopped_ns - closed_ns;
        CHECK_EQUAL(booth.stop.reason, BL_STOP_CLIENT_GONE);
        CHECK(strcmp(booth.stop.origin, "mcp: response stream closed") == 0);
    }
    mcp_http_first_ns = first_ns;
    CHECK(worst_ns < 100 * BL_NS_PER_MS);
    booth_close(&booth);
    print_message("a close was seen after %.3f ms at most\n", (double)worst_ns / 1e6);
    return 0;
}

static void M6_closing_the_stream_is_the_cancel(void **state)
{
    (void)state;
    run_in_loop(close_the_stream, NULL);
}

static int stream_an_answer(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest;

    booth_open(&booth);
    booth_send(&booth, &guest, "POST", HOLD_HEAD, booth_tool("1", "hold", BOOTH_META));
    CHECK_EQUAL(guest_await(&guest, "\r\n\r\n"), 0);
    CHECK(guest_has(&guest, "Content-Type: text/event-stream\r\n"));
    CHECK(guest_has(&guest, "X-Accel-Buffering: no\r\n"));
    bl_semaphore_give(&booth.release);
    CHECK_EQUAL(guest_await(&guest, "\r\n0\r\n\r\n"), 0);
    CHECK(guest_has(&guest, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"));
    CHECK(guest_has(&guest, "all is done"));
    CHECK(!guest_has(&guest, "id: "));
    guest_close(&guest);
    booth_close(&booth);
    return 0;
}

static void a_late_answer_is_an_event(void **state)
{
    (void)state;
    run_in_loop(stream_an_answer, NULL);
}

static int close_many(void *argument)
{
    (void)argument;
    struct booth booth;
    static struct guest guests[100];

    booth_open(&booth);
    for (size_t i = 0; i < BL_COUNT(guests); i++)
        booth_send(&booth, &guests[i], "POST", HOLD_HEAD, booth_tool("1", "hold", BOOTH_META));
    for (size_t i = 0; i < BL_COUNT(guests); i++)
        CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    CHECK_EQUAL(booth.holding, BL_COUNT(guests));
    for (size_t i = 0; i < BL_COUNT(guests); i += 2)
        guest_close(&guests[i]);
    for (size_t i = 0; i < BL_COUNT(guests); i += 2)
        CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
    CHECK_EQUAL(booth.holding, BL_COUNT(guests) / 2);
    for (size_t i = 1; i < BL_COUNT(guests); i += 2)
        bl_semaphore_give(&booth.release);
    for (size_t i = 1; i < BL_COUNT(guests); i += 2) {
        CHECK_EQUAL(guest_await(&guests[i], "all is done"), 0);
        guest_close(&guests[i]);
    }
    booth_close(&booth);
    return 0;
}

static void M6_other_clients_are_not_affected(void **state)
{
    (void)state;
    run_in_loop(close_many, NULL);
}

/* ---- Resuming -------------------------------------------------------------------------------- */

static int lose_and_resume(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest;
    char head[1024], resume[1100];

    booth_open(&booth);
    keep(head, sizeof head, booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &guest, "POST", head, booth_tool("\"a\"", "hold", ""));
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    CHECK_EQUAL(guest_await(&guest, "id: 1-0\nretry: 1000\ndata:\n\n"), 0);
    guest_close(&guest);
    /* The next request is served after the loss was noticed. */
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("2", "quick", "")), 200);
    CHECK_EQUAL(booth.holding, 1);
    CHECK_EQUAL(bl_semaphore_try_take(&booth.stopped), BL_EAGAIN);
    snprintf(resume, sizeof resume, "%sLast-Event-ID: 1-0\r\n", head);
    booth_send(&booth, &guest, "GET", resume, "");
    CHECK_EQUAL(guest_await(&guest, "text/event-stream"), 0);
    bl_semaphore_give(&booth.release);
    CHECK_EQUAL(guest_await(&guest, "\r\n0\r\n\r\n"), 0);
    CHECK(guest_has(&guest, "id: 1-1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{"));
    guest_close(&guest);
    /* The same again, each time; nothing follows. */
    CHECK_EQUAL(booth_ask(&booth, "GET", resume, ""), 200);
    CHECK(strstr(booth_answer, "id: 1-1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\"") != NULL);
    CHECK(strstr(booth_answer, "id: 1-0") == NULL);
    snprintf(resume, sizeof resume, "%sLast-Event-ID: 1-1\r\n", head);
    CHECK_EQUAL(booth_ask(&booth, "GET", resume, ""), 204);
    static const char *const unknown[] = {"9-0", "1", "x", "-1-1", "1-1-1", "99999999999-0", "1-x"};
    for (size_t i = 0; i < BL_COUNT(unknown); i++) {
        snprintf(resume, sizeof resume, "%sLast-Event-ID: %s\r\n", head, unknown[i]);
        CHECK_EQUAL(booth_ask(&booth, "GET", resume, ""), 400);
    }
    booth_close(&booth);
    return 0;
}

static void M6_a_lost_connection_is_resumed(void **state)
{
    (void)state;
    run_in_loop(lose_and_resume, NULL);
}

static int take_over(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest first, second;
    char head[1024], resume[1100];

    booth_open(&booth);
    keep(head, sizeof head, booth_initialize(&booth, "2025-06-18"));
    booth_send(&booth, &first, "POST", head, booth_tool("1", "hold", ""));
    /* An id without data is not an event, but the client remembers it. */
    CHECK_EQUAL(guest_await(&first, "\r\nid: 1-0\n\n\r\n"), 0);
    snprintf(resume, sizeof resume, "%sLast-Event-ID: 1-0\r\n", head);
    booth_send(&booth, &second, "GET", resume, "");
    CHECK_EQUAL(guest_await(&first, "\r\n0\r\n\r\n"), 0);
    bl_semaphore_give(&booth.release);
    CHECK_EQUAL(guest_await(&second, "all is done"), 0);
    CHECK(!guest_has(&first, "all is done"));
    guest_close(&first);
    guest_close(&second);
    booth_close(&booth);
    return 0;
}

static void a_stream_is_read_by_one_at_a_time(void **state)
{
    (void)state;
    run_in_loop(take_over, NULL);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

#define CANCEL(id)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

static int cancel_one(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest first, second;
    char head[1024], resume[1100];

    booth_open(&booth);
    keep(head, sizeof head, booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &first, "POST", head, booth_tool("1", "hold", ""));
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    booth_send(&booth, &second, "POST", head, booth_tool("\"1\"", "hold", ""));
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("1", "quick", "")), 400);
    CHECK(strstr(booth_answer, "-32600") != NULL);
    /* Cancels of unknown requests have no effect. */
    CHECK_EQUAL(booth_ask(&booth, "POST", head, CANCEL("77")), 202);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, CANCEL("null")), 202);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, CANCEL("{}")), 202);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"),
                202);
    CHECK_EQUAL(booth.holding, 2);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, CANCEL("1")), 202);
    CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
    CHECK_EQUAL(booth.stop.reason, BL_STOP_USER);
    CHECK(strcmp(booth.stop.origin, "notifications/cancelled") == 0);
    CHECK_EQUAL(guest_await(&first, "\r\n0\r\n\r\n"), 0);
    CHECK(!guest_has(&first, "jsonrpc"));
    snprintf(resume, sizeof resume, "%sLast-Event-ID: 1-0\r\n", head);
    CHECK_EQUAL(booth_ask(&booth, "GET", resume, ""), 204);
    CHECK_EQUAL(booth.holding, 1);
    bl_semaphore_give(&booth.release);
    CHECK_EQUAL(guest_await(&second, "all is done"), 0);
    guest_close(&first);
    guest_close(&second);
    booth_close(&booth);
    return 0;
}

static void a_cancelled_request_gets_no_response(void **state)
{
    (void)state;
    run_in_loop(cancel_one, NULL);
}

static int delete_session(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest, listener;
    char head[1024];

    booth_open(&booth);
    keep(head, sizeof head, booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &listener, "GET", head, "");
    CHECK_EQUAL(guest_await(&listener, "text/event-stream"), 0);
    CHECK_EQUAL(booth_ask(&booth, "GET", head, ""), 409);
    booth_send(&booth, &guest, "POST", head, booth_tool("1", "hold", ""));
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    CHECK_EQUAL(booth_ask(&booth, "DELETE", head, ""), 204);
    /* When it is answered, all is quiet. */
    CHECK_EQUAL(booth.holding, 0);
    CHECK_EQUAL(booth.stop.reason, BL_STOP_USER);
    CHECK(strcmp(booth.stop.origin, "DELETE") == 0);
    CHECK_EQUAL(guest_await(&listener, "\r\n0\r\n\r\n"), 0);
    CHECK_EQUAL(booth_ask(&booth, "DELETE", head, ""), 404);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("2", "quick", "")), 404);
    guest_close(&guest);
    guest_close(&listener);
    booth_close(&booth);
    return 0;
}

static void a_deleted_session_is_quiet_when_the_request_is_answered(void **state)
{
    (void)state;
    run_in_loop(delete_session, NULL);
}

static int go_away(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest, listener;
    uint64_t alone_ns = mcp_http_alone_ns;
    char head[1024], other[1024];

    mcp_http_alone_ns = 150 * BL_NS_PER_MS;
    booth_open(&booth);
    keep(other, sizeof other, booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &listener, "GET", other, "");
    keep(head, sizeof head, booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &guest, "POST", head, booth_tool("1", "hold", ""));
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    guest_close(&guest);
    uint64_t closed_ns = bl_now_ns();
    CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
    CHECK(booth.stopped_ns - closed_ns >= 100 * BL_NS_PER_MS);
    CHECK_EQUAL(booth.stop.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("2", "quick", "")), 404);
    /* A client that only listens is connected, even if it is silent. */
    CHECK_EQUAL(booth_ask(&booth, "POST", other, booth_tool("2", "quick", "")), 200);
    guest_close(&listener);
    booth_close(&booth);
    mcp_http_alone_ns = alone_ns;
    return 0;
}

static void M7_a_session_without_a_connection_is_ended(void **state)
{
    (void)state;
    run_in_loop(go_away, NULL);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static int ask_for_many(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest guest;
    char head[1024], id[16], body[256];

    booth_open(&booth);
    keep(head, sizeof head, booth_initialize(&booth, "2025-11-25"));
    for (unsigned i = 0; i < HTTP_WORKS_MAX; i++) {
        snprintf(id, sizeof id, "%u", i);
        booth_send(&booth, &guest, "POST", head, booth_tool(id, "hold", ""));
        CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
        guest_close(&guest);
    }
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("1000", "quick", "")), 429);
    for (unsigned i = 0; i < HTTP_WORKS_MAX; i++)
        bl_semaphore_give(&booth.release);
    while (booth.holding > 0)
        bl_yield();
    CHECK_EQUAL(booth_ask(&booth, "POST", head, booth_tool("1000", "quick", "")), 200);
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"2025-11-25\"}}");
    for (unsigned i = 1; i < HTTP_SESSIONS_MAX; i++)
        CHECK_EQUAL(booth_ask(&booth, "POST", BOOTH_HEAD, body), 200);
    CHECK_EQUAL(booth_ask(&booth, "POST", BOOTH_HEAD, body), 503);
    CHECK_EQUAL(booth_ask(&booth, "DELETE", head, ""), 204);
    CHECK_EQUAL(booth_ask(&booth, "POST", BOOTH_HEAD, body), 200);
    booth_close(&booth);
    return 0;
}

static void sessions_and_their_requests_are_bounded(void **state)
{
    (void)state;
    run_in_loop(ask_for_many, NULL);
}

SUITE(mcp_http_session, cmocka_unit_test(M6_closing_the_stream_is_the_cancel),
      cmocka_unit_test(a_late_answer_is_an_event),
      cmocka_unit_test(M6_other_clients_are_not_affected),
      cmocka_unit_test(M6_a_lost_connection_is_resumed),
      cmocka_unit_test(a_stream_is_read_by_one_at_a_time),
      cmocka_unit_test(a_cancelled_request_gets_no_response),
      cmocka_unit_test(a_deleted_session_is_quiet_when_the_request_is_answered),
      cmocka_unit_test(M7_a_session_without_a_connection_is_ended),
      cmocka_unit_test(sessions_and_their_requests_are_bounded));
