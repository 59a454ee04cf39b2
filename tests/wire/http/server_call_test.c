#include "house.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static const struct {
    struct bl_text bytes;
    int status;
    const char *has; /* NULL: not checked */
} requests[] = {
    {BL_TEXT("GET /a?b=c HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200, "GET /a?b=c \n"},
    {BL_TEXT("GET /a HTTP/1.1\n"
             "Host: localhost\nConnection: close\n\n"),
     200, "GET /a \n"},
    {BL_TEXT("\r\n\r\nGET /a HTTP/1.1\r\n" HOST "connection: CLOSE\r\n\r\n"), 200, "GET /a \n"},
    {BL_TEXT("GET http://localhost:1/p HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200,
     "GET /p \n"},
    {BL_TEXT("GET http://localhost HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200,
     "GET / \n"},
    {BL_TEXT("OPTIONS * HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200, "OPTIONS * \n"},
    {BL_TEXT("GET /old HTTP/1.0\r\n\r\n"), 200, "Connection: close\r\n"},
    {BL_TEXT("POST /b HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 5\r\n\r\nhello"),
     200, "POST /b hello\n"},
    {BL_TEXT("POST /b HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200, "POST /b \n"},
    {BL_TEXT("POST /c HTTP/1.1\r\n" HOST "Connection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
             "5\r\nhello\r\n6;ext=\"x\"\r\n world\r\n0\r\nTrailer: x\r\n\r\n"),
     200, "POST /c hello world\n"},
    {BL_TEXT("POST /c HTTP/1.1\r\n" HOST "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
             "00A\r\n0123456789\r\n0\r\n\r\n"),
     200, "POST /c 0123456789\n"},
    /* Refused. */
    {BL_TEXT("GET\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET /\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1 x\r\n\r\n"), 400, NULL},
    {BL_TEXT("G@T / HTTP/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET a HTTP/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET * HTTP/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET /a b HTTP/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET /\x80 HTTP/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST HOST "\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST "X : y\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST "X: y\r\n folded\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\n" HOST ": y\r\n\r\n"), 400, NULL},
    {BL_TEXT("GET / HTTP/2.0\r\n" HOST "\r\n"), 505, NULL},
    {BL_TEXT("GET / HTTQ/1.1\r\n" HOST "\r\n"), 400, NULL},
    {BL_TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, NULL},
    {BL_TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\n\n"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na"), 400,
     NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 1048577\r\n\r\n"), 413, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n"), 413, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
     400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n"), 501, NULL},
    {BL_TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 411, NULL},
    {BL_TEXT("POST / HTTP/1.0\r\n\r\n"), 411, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n"), 400,
     NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n"), 400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n100001\r\n"), 413, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
             "FFFFFFFFFFFFFFFF\r\n"),
     413, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
             "1FFFFFFFFFFFFFFFF\r\n"),
     400, NULL},
    {BL_TEXT("POST / HTTP/1.1\r\n" HOST "Expect: wonders\r\nContent-Length: 1\r\n\r\n"), 417, NULL},
    /* Only host names of this machine. */
    {BL_TEXT("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.test:80\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: 192.168.1.1\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: [::1]evil\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET http://evil.test/ HTTP/1.1\r\n" HOST "\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n"), 403, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: LOCALHOST:99\r\nConnection: close\r\n\r\n"), 200, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: [::1]:99\r\nConnection: close\r\n\r\n"), 200, NULL},
    {BL_TEXT("GET / HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n\r\n"), 200, NULL},
};

static int send_requests(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    for (size_t i = 0; i < BL_COUNT(requests); i++) {
        unsigned calls = house.desk.calls;
        int status = guest_ask(&guest, house.port, requests[i].bytes);
        bool right = status == requests[i].status &&
                     (requests[i].has == NULL || guest_has(&guest, requests[i].has)) &&
                     house.desk.calls == calls + (requests[i].status == 200);
        if (!right)
            fprintf(stderr, "request %zu, status %d: " BL_TEXT_FORMAT "\n", i, status,
                    BL_TEXT_ARG(requests[i].bytes));
        CHECK(right);
        guest_close(&guest);
    }
    close_house(&house);
    return 0;
}

IN_LOOP(good_requests_are_served_and_bad_ones_refused_with_a_status, send_requests)

static int drip_requests(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;
    struct bl_text bytes =
        BL_TEXT("POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n0\r\n\r\n\r\nGET /y HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");

    open_house(&house, 0);
    CHECK(guest_connect(&guest, house.port));
    for (size_t i = 0; i < bytes.size; i++) {
        CHECK_EQUAL(guest_send(&guest, (struct bl_text){bytes.data + i, 1}), 0);
        bl_yield();
        bl_sleep(1);
    }
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(guest_has(&guest, "POST /x abc\n"));
    CHECK(guest_has(&guest, "GET /y \n"));
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(a_request_may_come_byte_by_byte, drip_requests)

static int send_large_heads(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;
    struct bl_buffer bytes;

    open_house(&house, 0);
    bl_buffer_init(&bytes, 1u << 20);
    /* A line of 17 KiB; 70 KiB in lines; 257 lines; and an endless line. */
    for (unsigned i = 0; i < 4; i++) {
        bl_buffer_clear(&bytes);
        bl_buffer_append(&bytes, BL_TEXT("GET / HTTP/1.1\r\n" HOST));
        for (unsigned j = 0; i == 1 && j < 70; j++)
            bl_buffer_printf(&bytes, "X-%u: %01000u\r\n", j, j);
        for (unsigned j = 0; i == 2 && j < 256; j++)
            bl_buffer_printf(&bytes, "X-%u: y\r\n", j);
        if (i == 0 || i == 3)
            bl_buffer_printf(&bytes, "X: %017000u", i);
        if (i < 3)
            bl_buffer_append(&bytes, BL_TEXT("\r\n\r\n"));
        CHECK_EQUAL(guest_ask(&guest, house.port, bl_buffer_text(&bytes)), 431);
        guest_close(&guest);
    }
    bl_buffer_clear(&bytes);
    bl_buffer_append(&bytes, BL_TEXT("GET / HTTP/1.1\r\n" HOST "Connection: close\r\n"));
    bl_buffer_printf(&bytes, "X: %016000u\r\nY: %016000u\r\n\r\n", 1u, 2u);
    CHECK_EQUAL(guest_ask(&guest, house.port, bl_buffer_text(&bytes)), 200);
    guest_close(&guest);
    bl_buffer_done(&bytes);
    close_house(&house);
    return 0;
}

IN_LOOP(a_head_over_its_limits_is_refused, send_large_heads)

static int send_too_much(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;
    struct bl_buffer bytes;

    open_house(&house, 0);
    bl_buffer_init(&bytes, 8u << 20);
    bl_buffer_append(&bytes, BL_TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 4194304\r\n\r\n"));
    CHECK_EQUAL(bl_buffer_reserve(&bytes, 4u << 20), 0);
    memset(bytes.data + bytes.size, 'x', 4u << 20);
    bytes.size += 4u << 20;
    CHECK_EQUAL(guest_ask(&guest, house.port, bl_buffer_text(&bytes)), 413);
    guest_close(&guest);
    CHECK_EQUAL(house.desk.calls, 0);
    bl_buffer_clear(&bytes);
    bl_buffer_append(&bytes, BL_TEXT("POST /size HTTP/1.1\r\n" HOST "Connection: close\r\n"
                                     "Content-Length: 1048576\r\n\r\n"));
    memset(bytes.data + bytes.size, 'x', 1u << 20);
    bytes.size += 1u << 20;
    CHECK_EQUAL(guest_ask(&guest, house.port, bl_buffer_text(&bytes)), 200);
    CHECK(guest_has(&guest, "size 1048576\n"));
    guest_close(&guest);
    bl_buffer_done(&bytes);
    close_house(&house);
    return 0;
}

IN_LOOP(a_client_that_sends_too_much_still_reads_why, send_too_much)

static int expect_to_continue(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    CHECK(guest_connect(&guest, house.port));
    guest_say(&guest,
              "POST /x HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 4\r\n\r\n");
    CHECK_EQUAL(guest_await(&guest, "HTTP/1.1 100 Continue\r\n\r\n"), 0);
    bl_buffer_clear(&guest.got);
    guest_say(&guest, "body");
    CHECK_EQUAL(guest_await(&guest, "POST /x body\n"), 0);
    bl_buffer_clear(&guest.got);
    guest_say(&guest, "POST /x HTTP/1.1\r\n" HOST
                      "Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n");
    CHECK_EQUAL(guest_await(&guest, "\r\n\r\n"), 0);
    CHECK_EQUAL(guest_status(&guest), 413);
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(client_that_expects_100_continue_gets_it_or_a_refusal, expect_to_continue)

static int keep_and_pipeline(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    CHECK(guest_connect(&guest, house.port));
    for (unsigned i = 0; i < 3; i++) {
        bl_buffer_clear(&guest.got);
        guest_say(&guest, "GET /one HTTP/1.1\r\n" HOST "\r\n");
        CHECK_EQUAL(guest_await(&guest, "GET /one \n"), 0);
        CHECK(!guest_has(&guest, "Connection:"));
    }
    bl_buffer_clear(&guest.got);
    guest_say(&guest, "GET /1 HTTP/1.1\r\n" HOST "\r\nPOST /2 HTTP/1.1\r\n" HOST
                      "Content-Length: 2\r\n\r\nxyGET /3 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
                      "GET /4 HTTP/1.1\r\n" HOST "Connection: keep-alive, close\r\n\r\n"
                      "GET /5 HTTP/1.1\r\n" HOST "\r\n");
    guest_read_all(&guest);
    CHECK(guest_has(&guest, "GET /1 \n"));
    CHECK(guest_has(&guest, "POST /2 xy\n"));
    CHECK(guest_has(&guest, "Connection: keep-alive\r\n"));
    CHECK(guest_has(&guest, "GET /3 \n"));
    CHECK(guest_has(&guest, "GET /4 \n"));
    CHECK(!guest_has(&guest, "GET /5 \n"));
    CHECK_EQUAL(house.desk.calls, 7);
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(a_connection_serves_one_request_after_the_other, keep_and_pipeline)

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer_by_path(void *context, struct bl_http_call *call)
{
    struct desk *desk = context;
    struct bl_text path = bl_http_call_path(call);
    struct bl_http_header type = {BL_TEXT("X-Kind"), BL_TEXT("a \tb")};
    /* Headers that only the server sets. */
    struct bl_http_header ours[] = {{BL_TEXT("Content-Length"), BL_TEXT("99")},
                                    {BL_TEXT("connection"), BL_TEXT("upgrade")},
                                    {BL_TEXT("Transfer-Encoding"), BL_TEXT("gzip")},
                                    {BL_TEXT("Date"), BL_TEXT("never")}};

    desk->calls++;
    if (bl_text_equal(path, BL_TEXT("/whole"))) {
        CHECK_EQUAL(bl_http_call_answer(call, 201, &type, 1, BL_TEXT("body\0!")), 0);
        CHECK_EQUAL(bl_http_call_answer(call, 200, NULL, 0, BL_TEXT("")), BL_EINVAL);
        CHECK_EQUAL(bl_http_call_begin(call, 200, NULL, 0), BL_EINVAL);
    } else if (bl_text_equal(path, BL_TEXT("/ours"))) {
        CHECK_EQUAL(bl_http_call_answer(call, 529, ours, BL_COUNT(ours), BL_TEXT("x")), 0);
    } else if (bl_text_equal(path, BL_TEXT("/empty"))) {
        CHECK_EQUAL(bl_http_call_answer(call, 204, NULL, 0, BL_TEXT("ignored")), 0);
    } else if (bl_text_equal(path, BL_TEXT("/pieces"))) {
        CHECK_EQUAL(bl_http_call_write(call, BL_TEXT("early")), BL_EINVAL);
        CHECK_EQUAL(bl_http_call_end(call), BL_EINVAL);
        CHECK_EQUAL(bl_http_call_begin(call, 200, &type, 1), 0);
        CHECK_EQUAL(bl_http_call_begin(call, 200, &type, 1), BL_EINVAL);
        CHECK_EQUAL(bl_http_call_write(call, BL_TEXT("0123456789abcdef")), 0);
        CHECK_EQUAL(bl_http_call_write(call, BL_TEXT("")), 0);
        CHECK_EQUAL(bl_http_call_write(call, BL_TEXT("\n")), 0);
        CHECK_EQUAL(bl_http_call_end(call), 0);
        CHECK_EQUAL(bl_http_call_end(call), BL_EINVAL);
    } else if (bl_text_equal(path, BL_TEXT("/left"))) {
        bl_http_call_begin(call, 200, NULL, 0);
        bl_http_call_write(call, BL_TEXT("some"));
    } else if (bl_text_equal(path, BL_TEXT("/cut"))) {
        bl_http_call_begin(call, 200, NULL, 0);
        bl_http_call_write(call, BL_TEXT("some"));
        bl_http_call_cut(call);
        CHECK_EQUAL(bl_http_call_write(call, BL_TEXT("more")), BL_EPIPE);
        CHECK_EQUAL(bl_http_call_end(call), BL_EPIPE);
        CHECK_EQUAL(bl_http_call_answer(call, 200, NULL, 0, BL_TEXT("")), BL_EPIPE);
        bl_http_call_cut(call);
    }
}

/* Opens one connection for each request, closed by the test after the awaited text. */
static void ask(uint16_t port, struct guest *guest, const char *method, const char *path,
                const char *version, const char *awaited)
{
    char request[256];

    snprintf(request, sizeof request, "%s %s %s\r\n" HOST "\r\n", method, path, version);
    CHECK(guest_connect(guest, port));
    guest_say(guest, request);
    CHECK_EQUAL(guest_await(guest, awaited), 0);
}

static void open_office(struct house *house)
{
    struct bl_http_server_options options = {
        .address = "127.0.0.1", .serve = answer_by_path, .context = &house->desk};

    memset(house, 0, sizeof *house);
    house->descriptors = peer_descriptors();
    bl_nursery_init(&house->nursery, bl_scope_current());
    CHECK_EQUAL(bl_http_server_start(&house->nursery, &options, &house->server, NULL), 0);
    house->port = bl_http_server_port(house->server);
}

static int read_answers(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_office(&house);
    ask(house.port, &guest, "GET", "/whole", "HTTP/1.1", "\r\n\r\nbody");
    while (!bl_text_ends_with(bl_buffer_text(&guest.got), BL_TEXT("\r\n\r\nbody\0!")))
        CHECK_EQUAL(guest_read(&guest), 0);
    CHECK(guest_has(&guest, "HTTP/1.1 201 Created\r\nX-Kind: a \tb\r\nDate: "));
    CHECK(guest_has(&guest, " GMT\r\nContent-Length: 6\r\n"));
    guest_close(&guest);

    ask(house.port, &guest, "GET", "/ours", "HTTP/1.1", "\r\n\r\nx");
    CHECK_EQUAL(guest_status(&guest), 529);
    CHECK(guest_has(&guest, "Content-Length: 1\r\n"));
    CHECK(!guest_has(&guest, "99") && !guest_has(&guest, "never") && !guest_has(&guest, "gzip"));
    guest_close(&guest);

    ask(house.port, &guest, "GET", "/empty", "HTTP/1.1", "\r\n\r\n");
    guest_say(&guest, "GET /ours HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(guest_await(&guest, "\r\n\r\nHTTP/1.1 529"), 0);
    CHECK(guest_has(&guest, "HTTP/1.1 204 No Content\r\n") && !guest_has(&guest, "ignored"));
    guest_close(&guest);

    ask(house.port, &guest, "GET", "/nothing", "HTTP/1.1", "\r\n\r\n");
    CHECK_EQUAL(guest_status(&guest), 500);
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(a_whole_answer_is_framed_and_dated, read_answers)

static int read_pieces(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_office(&house);
    ask(house.port, &guest, "GET", "/pieces", "HTTP/1.1", "\r\n0\r\n\r\n");
    CHECK(guest_has(&guest, "Transfer-Encoding: chunked\r\n\r\n"
                            "10\r\n0123456789abcdef\r\n1\r\n\n\r\n0\r\n\r\n"));
    bl_buffer_clear(&guest.got);
    guest_say(&guest, "GET /pieces HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(guest_await(&guest, "\r\n0\r\n\r\n"), 0);
    guest_close(&guest);

    /* An HTTP/1.0 client gets them without chunks, and the end of the connection as the end. */
    ask(house.port, &guest, "GET", "/pieces", "HTTP/1.0", "Connection: close\r\n\r\n");
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(bl_text_ends_with(bl_buffer_text(&guest.got), BL_TEXT("\r\n\r\n0123456789abcdef\n")));
    CHECK(!guest_has(&guest, "chunked"));
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(an_answer_in_pieces_is_chunked_or_ends_with_the_connection, read_pieces)

static int read_heads(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_office(&house);
    ask(house.port, &guest, "HEAD", "/whole", "HTTP/1.1", "Content-Length: 6\r\n\r\n");
    guest_say(&guest, "HEAD /pieces HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(guest_await(&guest, "\r\n\r\nHTTP/1.1 200 OK\r\n"), 0);
    CHECK_EQUAL(guest_await(&guest, "Transfer-Encoding: chunked\r\n\r\n"), 0);
    guest_say(&guest, "GET /empty HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(guest_await(&guest, "\r\n\r\nHTTP/1.1 204"), 0);
    CHECK(!guest_has(&guest, "body") && !guest_has(&guest, "abcdef"));
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(response_to_head_has_no_body_and_keeps_the_connection, read_heads)

static int read_what_is_cut(void *argument)
{
    (void)argument;
    static const char *const paths[] = {"/left", "/cut"};
    struct house house;
    struct guest guest;

    open_office(&house);
    for (size_t i = 0; i < BL_COUNT(paths); i++) {
        char request[128];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
        CHECK(guest_connect(&guest, house.port));
        guest_say(&guest, request);
        CHECK_EQUAL(guest_read_all(&guest), BL_EPIPE);
        CHECK(!guest_has(&guest, "0\r\n\r\n"));
        guest_close(&guest);
    }
    close_house(&house);
    return 0;
}

IN_LOOP(unfinished_or_aborted_response_ends_with_a_reset, read_what_is_cut)

static void answer_badly(void *context, struct bl_http_call *call)
{
    static const struct bl_http_header bad[] = {
        {BL_TEXT("X"), BL_TEXT("a\r\nY: b")}, {BL_TEXT("X"), BL_TEXT("a\nb")},
        {BL_TEXT("X"), BL_TEXT("a\0b")},      {BL_TEXT("X Y"), BL_TEXT("a")},
        {BL_TEXT("X:"), BL_TEXT("a")},        {BL_TEXT(""), BL_TEXT("a")},
    };
    static const int statuses[] = {0, 100, 199, 600, -1};
    struct bl_http_header large = {BL_TEXT("X"), {bl_zalloc(300000), 300000}};
    (void)context;

    memset((void *)(uintptr_t)large.value.data, 'x', large.value.size);
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        CHECK_EQUAL(bl_http_call_answer(call, 200, &bad[i], 1, BL_TEXT("no")), BL_EINVAL);
        CHECK_EQUAL(bl_http_call_begin(call, 200, &bad[i], 1), BL_EINVAL);
    }
    for (size_t i = 0; i < BL_COUNT(statuses); i++)
        CHECK_EQUAL(bl_http_call_answer(call, statuses[i], NULL, 0, BL_TEXT("no")), BL_EINVAL);
    CHECK_EQUAL(bl_http_call_answer(call, 200, &large, 1, BL_TEXT("no")), BL_ELIMIT);
    CHECK(bl_text_equal(bl_http_call_header(call, "HOST"), BL_TEXT("127.0.0.1")));
    CHECK(bl_text_equal(bl_http_call_header(call, "x-twice"), BL_TEXT("one")));
    CHECK_EQUAL(bl_http_call_header(call, "absent").size, 0);
    CHECK_EQUAL(bl_http_call_answer(call, 200, NULL, 0, BL_TEXT("yes")), 0);
    bl_free((void *)(uintptr_t)large.value.data);
}

static int read_after_bad_answers(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_http_server *server;
    struct bl_http_server_options options = {.address = "127.0.0.1", .serve = answer_badly};
    struct guest guest;

    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    CHECK_EQUAL(guest_ask(&guest, bl_http_server_port(server),
                          BL_TEXT("GET / HTTP/1.1\r\n" HOST "X-Twice: one\r\nX-TWICE: two\r\n"
                                  "Connection: close\r\n\r\n")),
                200);
    CHECK(guest_has(&guest, "\r\n\r\nyes"));
    guest_close(&guest);
    bl_http_server_stop(server);
    bl_nursery_done(&nursery);
    return 0;
}

IN_LOOP(an_answer_that_cannot_be_sent_is_refused_and_another_can, read_after_bad_answers)

/* ---- Admission ---- */

static bool knows_name(void *context, struct bl_text host)
{
    (void)context;
    return bl_text_equal(host, BL_TEXT("name.test"));
}

/* By its path: admits, or refuses with or without an answer. */
static bool admit_some(void *context, struct bl_http_call *call)
{
    unsigned *seen = context;
    struct bl_text path = bl_http_call_path(call);

    ++*seen;
    CHECK_EQUAL(bl_http_call_body(call).size, 0);
    if (bl_text_equal(path, BL_TEXT("/away"))) {
        bl_http_call_answer(call, 401, NULL, 0, BL_TEXT("who are you"));
        return false;
    }
    return !bl_text_equal(path, BL_TEXT("/mute"));
}

static void say_size(void *context, struct bl_http_call *call)
{
    (void)context;
    struct bl_text text =
        bl_arena_printf(bl_http_call_arena(call), "size %zu", bl_http_call_body(call).size);

    bl_http_call_answer(call, 200, NULL, 0, text);
}

static int ask_at_the_door(void *argument)
{
    (void)argument;
    static const struct {
        struct bl_text bytes;
        int status;
        const char *has;
    } rows[] = {
        {BL_TEXT("POST /in HTTP/1.1\r\n" HOST
                 "Content-Length: 3\r\n\r\nabcGET /away HTTP/1.1\r\n" HOST "\r\n"),
         200, "size 3HTTP/1.1 401 Unauthorized\r\n"},
        {BL_TEXT("POST /away HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"), 401,
         "Connection: close\r\n"},
        /* The client is not asked for a body that would not be read. */
        {BL_TEXT("POST /away HTTP/1.1\r\n" HOST
                 "Expect: 100-continue\r\nContent-Length: 99\r\n\r\n"),
         401, "who are you"},
        {BL_TEXT("POST /away HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n"), 401, NULL},
        {BL_TEXT("POST /in HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n"), 413, NULL},
        {BL_TEXT("GET /mute HTTP/1.1\r\n" HOST "\r\n"), 500, NULL},
        {BL_TEXT("GET /in HTTP/1.1\r\nHost: name.test\r\nConnection: close\r\n\r\n"), 200, NULL},
        {BL_TEXT("GET http://name.test/in HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"), 200,
         NULL},
    };
    static const struct bl_text outside = BL_TEXT("GET /in HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    struct bl_nursery nursery;
    struct bl_http_server *server;
    struct guest guest;
    unsigned seen = 0;

    bl_nursery_init(&nursery, bl_scope_current());
    struct bl_http_server_options options = {.address = "127.0.0.1",
                                             .body_max = 1024,
                                             .knows_host = knows_name,
                                             .admit = admit_some,
                                             .serve = say_size,
                                             .context = &seen};
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        CHECK(guest_connect(&guest, bl_http_server_port(server)));
        guest_send(&guest, rows[i].bytes);
        shutdown(guest.fd, SHUT_WR);
        CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
        CHECK_EQUAL(guest_status(&guest), rows[i].status);
        CHECK(rows[i].has == NULL || guest_has(&guest, rows[i].has));
        guest_close(&guest);
    }
    CHECK_EQUAL(seen, BL_COUNT(rows) + 1);
    CHECK_EQUAL(guest_ask(&guest, bl_http_server_port(server), outside), 403);
    CHECK_EQUAL(seen, BL_COUNT(rows) + 1);
    guest_close(&guest);
    bl_http_server_stop(server);
    bl_nursery_done(&nursery);
    return 0;
}

IN_LOOP(request_may_be_refused_before_its_body, ask_at_the_door)

SUITE(server_call, cmocka_unit_test(good_requests_are_served_and_bad_ones_refused_with_a_status),
      cmocka_unit_test(a_request_may_come_byte_by_byte),
      cmocka_unit_test(a_head_over_its_limits_is_refused),
      cmocka_unit_test(a_client_that_sends_too_much_still_reads_why),
      cmocka_unit_test(client_that_expects_100_continue_gets_it_or_a_refusal),
      cmocka_unit_test(a_connection_serves_one_request_after_the_other),
      cmocka_unit_test(a_whole_answer_is_framed_and_dated),
      cmocka_unit_test(an_answer_in_pieces_is_chunked_or_ends_with_the_connection),
      cmocka_unit_test(response_to_head_has_no_body_and_keeps_the_connection),
      cmocka_unit_test(unfinished_or_aborted_response_ends_with_a_reset),
      cmocka_unit_test(an_answer_that_cannot_be_sent_is_refused_and_another_can),
      cmocka_unit_test(request_may_be_refused_before_its_body));
