#include "booth.h"

/* A server whose every request reads the same stream. */
struct desk {
    struct bl_nursery nursery;
    struct bl_http_server *server;
    struct http_stream *stream;
    uint64_t after;
    bool resumed;
    int code; /* of the last reader */
    struct bl_semaphore read;
};

static void serve_stream(void *context, struct bl_http_call *call)
{
    struct desk *desk = context;

    desk->code = http_stream_read(desk->stream, call, desk->after, desk->resumed);
    bl_semaphore_give(&desk->read);
}

static void open_desk(struct desk *desk)
{
    memset(desk, 0, sizeof *desk);
    bl_semaphore_init(&desk->read, 0);
    bl_nursery_init(&desk->nursery, bl_scope_current());
    struct bl_http_server_options options = {
        .address = "127.0.0.1", .serve = serve_stream, .context = desk};
    CHECK_EQUAL(bl_http_server_start(&desk->nursery, &options, &desk->server, NULL), 0);
    desk->stream = http_stream_new();
    desk->stream->number = 4;
}

static void close_desk(struct desk *desk)
{
    bl_http_server_stop(desk->server);
    http_stream_drop(desk->stream);
    bl_nursery_done(&desk->nursery);
}

static void visit(struct desk *desk, struct guest *guest)
{
    CHECK(guest_connect(guest, bl_http_server_port(desk->server)));
    guest_say(guest, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

static int answer_at_once(void *argument)
{
    (void)argument;
    struct desk desk;
    struct guest guest;

    open_desk(&desk);
    http_stream_put(desk.stream, BL_TEXT("{\"answer\":1}"));
    http_stream_end(desk.stream, true, 404);
    visit(&desk, &guest);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK_EQUAL(guest_status(&guest), 404);
    CHECK(guest_has(&guest, "Content-Type: application/json\r\n"));
    CHECK(guest_has(&guest, "\r\n\r\n{\"answer\":1}"));
    guest_close(&guest);
    close_desk(&desk);
    return 0;
}

static void an_early_answer_is_plain_json(void **state)
{
    (void)state;
    run_in_loop(answer_at_once, NULL);
}

static int notify_first(void *argument)
{
    (void)argument;
    struct desk desk;
    struct guest guest;

    open_desk(&desk);
    desk.stream->has_ids = desk.stream->primes = true;
    visit(&desk, &guest);
    while (desk.stream->reader == NULL)
        bl_yield();
    http_stream_put(desk.stream, BL_TEXT("{\"one\":1}"));
    CHECK_EQUAL(guest_await(&guest, "id: 4-1\ndata: {\"one\":1}\n\n"), 0);
    CHECK(guest_has(&guest, "id: 4-0\nretry: 1000\ndata:\n\n"));
    http_stream_put(desk.stream, BL_TEXT("{\"two\":2}"));
    CHECK_EQUAL(guest_await(&guest, "id: 4-2\ndata: {\"two\":2}\n\n"), 0);
    http_stream_end(desk.stream, false, 200);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK_EQUAL(bl_semaphore_take(&desk.read), 0);
    CHECK_EQUAL(desk.code, 0);
    guest_close(&guest);
    close_desk(&desk);
    return 0;
}

static void events_are_sent_as_they_happen(void **state)
{
    (void)state;
    run_in_loop(notify_first, NULL);
}

static int keep_some(void *argument)
{
    (void)argument;
    struct desk desk;
    struct guest guest;
    static char large[HTTP_EVENTS_SIZE_MAX + 10];
    char text[32];

    open_desk(&desk);
    desk.stream->has_ids = desk.resumed = true;
    for (unsigned i = 1; i <= HTTP_EVENTS_MAX + 500; i++) {
        int size = snprintf(text, sizeof text, "[%u]", i);
        http_stream_put(desk.stream, (struct bl_text){text, (size_t)size});
    }
    CHECK_EQUAL(desk.stream->event_count, HTTP_EVENTS_MAX);
    desk.after = 1522;
    CHECK(http_stream_has_after(desk.stream, 1523));
    CHECK(!http_stream_has_after(desk.stream, 1524));
    http_stream_end(desk.stream, true, 200);
    visit(&desk, &guest);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(guest_has(&guest, "\r\nid: 4-1523\ndata: [1523]\n\nid: 4-1524\ndata: [1524]\n\n\r\n"));
    guest_close(&guest);
    desk.after = 3; /* long dropped: from the oldest event kept */
    visit(&desk, &guest);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(guest_has(&guest, "\r\nid: 4-501\ndata: [501]\n\n"));
    CHECK(guest_has(&guest, "[1524]"));
    guest_close(&guest);
    /* The newest event stays, whatever its size. */
    memset(large, 'x', sizeof large);
    http_stream_put(desk.stream, (struct bl_text){large, sizeof large});
    CHECK_EQUAL(desk.stream->event_count, 1);
    visit(&desk, &guest);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(guest.got.size > sizeof large);
    guest_close(&guest);
    close_desk(&desk);
    return 0;
}

static void a_stream_keeps_a_limited_number_of_events(void **state)
{
    (void)state;
    run_in_loop(keep_some, NULL);
}

/* A client that never reads does not delay the producer. */
static int read_nothing(void *argument)
{
    (void)argument;
    struct desk desk;
    struct guest guest;
    static char text[65536];

    open_desk(&desk);
    desk.resumed = true;
    memset(text, 'y', sizeof text);
    visit(&desk, &guest);
    while (desk.stream->reader == NULL)
        bl_yield();
    for (unsigned i = 0; i < 2000; i++) {
        http_stream_put(desk.stream, (struct bl_text){text, sizeof text});
        bl_yield();
    }
    CHECK(desk.stream->event_size <= HTTP_EVENTS_SIZE_MAX);
    guest_close(&guest);
    CHECK_EQUAL(bl_semaphore_take(&desk.read), 0);
    CHECK(desk.code != 0);
    close_desk(&desk);
    return 0;
}

static void slow_reader_delays_no_other(void **state)
{
    (void)state;
    run_in_loop(read_nothing, NULL);
}

static int take_nothing(void *argument)
{
    (void)argument;
    struct desk desk;
    struct guest guest;
    static char text[HTTP_EVENTS_SIZE_MAX];
    uint64_t take_ns = mcp_http_take_ns;

    mcp_http_take_ns = 50 * BL_NS_PER_MS;
    open_desk(&desk);
    memset(text, 'z', sizeof text);
    http_stream_put(desk.stream, (struct bl_text){text, sizeof text});
    for (unsigned i = 0; i < 2; i++) {
        desk.resumed = i == 0;
        visit(&desk, &guest);
        /* More than a socket takes, repeatedly, until the client is too slow. */
        while (bl_semaphore_try_take(&desk.read) != 0) {
            http_stream_put(desk.stream, (struct bl_text){text, sizeof text});
            CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0);
        }
        CHECK_EQUAL(desk.code, BL_ETIMEDOUT);
        guest_close(&guest);
    }
    close_desk(&desk);
    mcp_http_take_ns = take_ns;
    return 0;
}

static void slow_reader_is_disconnected(void **state)
{
    (void)state;
    run_in_loop(take_nothing, NULL);
}

static void ids_of_events_are_two_numbers(void **state)
{
    (void)state;
    uint32_t stream = 0;
    uint64_t event = 0;

    assert_true(http_event_id_parse(BL_TEXT("12-345"), &stream, &event));
    assert_int_equal(stream, 12);
    assert_int_equal(event, 345);
    assert_true(http_event_id_parse(BL_TEXT("4294967295-9223372036854775807"), &stream, &event));
    static const char *const broken[] = {"",
                                         "-",
                                         "1",
                                         "1-",
                                         "-1",
                                         "1-2-",
                                         "1-2-3",
                                         "+1-2",
                                         "1--2",
                                         "4294967296-0",
                                         "1-9223372036854775808",
                                         "1-2 "};
    for (size_t i = 0; i < BL_COUNT(broken); i++)
        if (http_event_id_parse(bl_text_from(broken[i]), &stream, &event))
            fail_msg("%s", broken[i]);
}

SUITE(mcp_http_stream, cmocka_unit_test(an_early_answer_is_plain_json),
      cmocka_unit_test(events_are_sent_as_they_happen),
      cmocka_unit_test(a_stream_keeps_a_limited_number_of_events),
      cmocka_unit_test(slow_reader_delays_no_other), cmocka_unit_test(slow_reader_is_disconnected),
      cmocka_unit_test(ids_of_events_are_two_numbers));
