#include <sys/resource.h>

#include "house.h"

/* ---- The peer used by other tests ---- */

static int talk_to_peer(void *argument)
{
    (void)argument;
    struct bl_arena arena;
    struct bl_nursery nursery;
    struct guest guest;
    unsigned descriptors = peer_descriptors();

    bl_arena_init(&arena);
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer_act first[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = peer_head(&arena, 200, "text/plain", "X-A: b")},
        {.type = PEER_SEND_DRIP,
         .bytes = peer_chunk(&arena, BL_TEXT("hello")),
         .number = 2,
         .pause_ns = BL_NS_PER_MS},
        {.type = PEER_SEND, .bytes = peer_chunk(&arena, BL_TEXT(""))},
        {.type = PEER_AGAIN},
    };
    struct peer_act second[] = {{.type = PEER_READ_SOME, .number = 2}, {.type = PEER_RESET}};
    struct peer_act third[] = {
        {.type = PEER_SEND, .bytes = peer_answer(&arena, 404, NULL, NULL, BL_TEXT("no"))},
        {.type = PEER_END}};
    struct peer_act fourth[] = {{.type = PEER_SILENCE}, {.type = PEER_END}};
    struct peer_script scripts[] = {{first}, {second}, {third}, {fourth}};
    struct peer *peer = peer_start(&nursery, scripts, BL_COUNT(scripts));

    CHECK(guest_connect(&guest, peer_port(peer)));
    for (unsigned i = 0; i < 2; i++) {
        bl_buffer_clear(&guest.got);
        guest_say(&guest, "POST /x HTTP/1.1\r\nContent-LENGTH: 3\r\nKey: v w \r\n\r\nabc");
        CHECK_EQUAL(guest_await(&guest, "\r\n0\r\n\r\n"), 0);
        CHECK(guest_has(&guest, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
        CHECK(guest_has(&guest, "X-A: b\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    }
    CHECK_EQUAL(peer_requests(peer), 2);
    CHECK_EQUAL(peer_connections(peer), 1);
    CHECK(bl_text_equal(peer_request_body(peer, 1), BL_TEXT("abc")));
    CHECK(bl_text_equal(peer_request_header(peer, 1, "key"), BL_TEXT("v w")));
    CHECK(bl_text_starts_with(peer_request(peer, 0), BL_TEXT("POST /x ")));
    CHECK_EQUAL(peer_request(peer, 2).size, 0);
    CHECK_EQUAL(peer_open(peer), 1);
    CHECK_EQUAL(peer_closed_ns(peer), 0);
    guest_close(&guest);
    CHECK_EQUAL(peer_await_closed(peer, 10 * BL_NS_PER_S), 0);
    CHECK(peer_closed_ns(peer) != 0);

    CHECK(guest_connect(&guest, peer_port(peer)));
    guest_say(&guest, "hello");
    CHECK_EQUAL(guest_read_all(&guest), BL_EPIPE);
    guest_close(&guest);
    CHECK_EQUAL(guest_ask(&guest, peer_port(peer), BL_TEXT("unread")), 404);
    CHECK(guest_has(&guest, "Connection: close\r\n\r\nno"));
    guest_close(&guest);
    CHECK(guest_connect(&guest, peer_port(peer)));
    while (peer_connections(peer) < 4)
        bl_yield();
    CHECK_EQUAL(peer_await_closed(peer, BL_NS_PER_MS), BL_ETIMEDOUT);
    guest_close(&guest);
    CHECK_EQUAL(peer_await_closed(peer, 10 * BL_NS_PER_S), 0);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    bl_arena_done(&arena);
    CHECK_EQUAL(peer_descriptors(), descriptors);
    return 0;
}

IN_LOOP(peer_of_tests_follows_its_script, talk_to_peer)

static int knock_at_full_peer(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct sockaddr_in address = {.sin_family = AF_INET};
    unsigned descriptors = peer_descriptors();

    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, NULL, 0);
    address.sin_port = htons(peer_port(peer));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct bl_descriptor *descriptor;
    CHECK_EQUAL(connect(fd, (struct sockaddr *)&address, sizeof address), -1);
    CHECK_EQUAL(errno, EINPROGRESS);
    CHECK_EQUAL(bl_descriptor_new(fd, &descriptor), 0);
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 20 * BL_NS_PER_MS);
    struct bl_scope *before = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_descriptor_wait(descriptor, BL_WRITABLE, NULL), BL_ETIMEDOUT);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    bl_descriptor_free(descriptor);
    close(fd);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(peer_descriptors(), descriptors);
    return 0;
}

IN_LOOP(a_peer_without_script_leaves_connections_half_open, knock_at_full_peer)

/* ---- Clients that disconnect ---- */

static int go_away(void *argument)
{
    (void)argument;
    static const char *const paths[] = {"/slow", "/stream"};
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    for (unsigned i = 0; i < 4; i++) {
        char request[128];
        house.desk.reason = BL_STOP_NONE;
        CHECK(guest_connect(&guest, house.port));
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i % 2]);
        guest_say(&guest, request);
        CHECK_EQUAL(bl_semaphore_take(&house.desk.begun), 0);
        if (i >= 2) { /* with a reset */
            struct linger linger = {1, 0};
            setsockopt(guest.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        guest_close(&guest);
        CHECK_EQUAL(bl_semaphore_take(&house.desk.stopped), 0);
        CHECK_EQUAL(house.desk.reason, BL_STOP_CLIENT_GONE);
        CHECK_EQUAL(house.desk.code, BL_ECANCELED);
    }
    close_house(&house);
    return 0;
}

IN_LOOP(call_stops_when_its_client_disconnects, go_away)

static int go_away_early(void *argument)
{
    (void)argument;
    static const char *const begun[] = {"", "GE", "GET / HTTP/1.1\r\nHost: local",
                                        "POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc",
                                        "POST / HTTP/1.1\r\n" HOST
                                        "Transfer-Encoding: chunked\r\n\r\n5\r\nab"};
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    for (size_t i = 0; i < BL_COUNT(begun); i++) {
        CHECK(guest_connect(&guest, house.port));
        guest_say(&guest, begun[i]);
        bl_sleep(BL_NS_PER_MS);
        shutdown(guest.fd, SHUT_WR);
        CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
        CHECK_EQUAL(guest.got.size, 0);
        guest_close(&guest);
    }
    CHECK_EQUAL(house.desk.calls, 0);
    close_house(&house);
    return 0;
}

IN_LOOP(client_that_disconnects_in_its_request_is_not_served, go_away_early)

static int shut_down_half(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    CHECK(guest_connect(&guest, house.port));
    guest_say(&guest, "GET /quick HTTP/1.1\r\n" HOST "\r\nGET /second HTTP/1.1\r\n" HOST "\r\n");
    shutdown(guest.fd, SHUT_WR);
    CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
    CHECK(guest_has(&guest, "GET /quick \n"));
    CHECK(guest_has(&guest, "GET /second \n"));
    guest_close(&guest);

    CHECK(guest_connect(&guest, house.port));
    guest_say(&guest, "GET /slow HTTP/1.1\r\n" HOST "\r\n");
    shutdown(guest.fd, SHUT_WR);
    CHECK_EQUAL(bl_semaphore_take(&house.desk.stopped), 0);
    CHECK_EQUAL(house.desk.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(guest_read_all(&guest), BL_EPIPE);
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(client_that_shut_down_its_sending_side_gets_immediate_responses, shut_down_half)

static int read_nothing(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;
    struct rusage before, after;
    char *block = bl_zalloc(1u << 20);

    open_house(&house, 0);
    house.desk.flood = (struct bl_text){block, 1u << 20};
    CHECK(guest_connect(&guest, house.port));
    guest_say(&guest, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(bl_semaphore_take(&house.desk.begun), 0);
    getrusage(RUSAGE_SELF, &before);
    bl_sleep(50 * BL_NS_PER_MS);
    getrusage(RUSAGE_SELF, &after);
    CHECK_EQUAL(house.desk.serving, 1); /* it waits */
    long long used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000LL +
                        after.ru_utime.tv_usec - before.ru_utime.tv_usec;
    CHECK(used_us < 45000); /* and does not spin */
    bl_http_server_stop(house.server);
    house.server = NULL;
    CHECK_EQUAL(house.desk.reason, BL_STOP_PARENT);
    CHECK_EQUAL(house.desk.code, BL_ECANCELED);
    CHECK_EQUAL(guest_read_all(&guest), BL_EPIPE);
    guest_close(&guest);
    close_house(&house);
    bl_free(block);
    return 0;
}

IN_LOOP(writing_to_a_client_that_does_not_read_waits_and_a_stop_ends_it, read_nothing)

/* More than the socket buffers hold: it takes many writes, which end at any byte. */
static int read_late(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;
    size_t count = (size_t)4 << 20;
    uint32_t *numbers = bl_alloc(count * sizeof *numbers);

    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)i;
    open_house(&house, 0);
    house.desk.flood = (struct bl_text){(const char *)numbers, count * sizeof *numbers};
    CHECK_EQUAL(guest_ask(&guest, house.port,
                          BL_TEXT("GET /whole HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n")),
                200);
    CHECK(bl_text_ends_with(bl_buffer_text(&guest.got), house.desk.flood));
    guest_close(&guest);
    CHECK_EQUAL(guest_ask(&guest, house.port,
                          BL_TEXT("GET /piece HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n")),
                200);
    struct bl_text got = bl_buffer_text(&guest.got), end = BL_TEXT("\r\n0\r\n\r\n");
    CHECK(bl_text_ends_with(got, end));
    got.size -= end.size;
    CHECK(bl_text_ends_with(got, house.desk.flood));
    guest_close(&guest);
    close_house(&house);
    bl_free(numbers);
    return 0;
}

IN_LOOP(a_large_answer_arrives_whole, read_late)

/* ---- The server ------------------------------------------------------------------------------ */

static int start_badly(void *argument)
{
    (void)argument;
    static const char *const addresses[] = {"0.0.0.0", "::", "", "localhost", "192.168.0.1", NULL};
    struct bl_nursery nursery;
    struct bl_http_server *server, *second = NULL;
    struct bl_http_server_options options = {.serve = serve};
    unsigned descriptors = peer_descriptors();

    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(addresses); i++) {
        struct bl_error error = {0};
        options.address = addresses[i];
        CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, &error), BL_EINVAL);
        CHECK(error.hint[0] != '\0');
    }
    options.address = "127.9.8.7";
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    bl_http_server_stop(server);
    options.address = "127.0.0.1";
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    options.port = bl_http_server_port(server);
    struct bl_error error = {0};
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &second, &error), BL_EBUSY);
    CHECK(strstr(error.hint, "port") != NULL);
    bl_http_server_stop(server);
    /* The port is free again at once. */
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    bl_http_server_stop(server);
    bl_http_server_stop(NULL);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(peer_descriptors(), descriptors);
    return 0;
}

IN_LOOP(only_loopback_is_served_and_a_used_port_is_reported, start_badly)

static int end_nursery_first(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_http_server *server;
    struct bl_http_server_options options = {.address = "127.0.0.1", .serve = serve};
    struct desk desk = {.calls = 0};
    struct guest guest;
    unsigned descriptors = peer_descriptors();

    options.context = &desk;
    bl_semaphore_init(&desk.begun, 0);
    bl_semaphore_init(&desk.stopped, 0);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &server, NULL), 0);
    CHECK(guest_connect(&guest, bl_http_server_port(server)));
    guest_say(&guest, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
    CHECK_EQUAL(guest_await(&guest, "first"), 0);
    bl_nursery_done(&nursery);
    bl_http_server_stop(server);
    CHECK_EQUAL(guest_read_all(&guest), BL_EPIPE);
    guest_close(&guest);
    CHECK_EQUAL(peer_descriptors(), descriptors);
    return 0;
}

IN_LOOP(a_server_ends_with_its_nursery, end_nursery_first)

static int serve_six(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_http_server *server = NULL;
    struct desk desk = {.calls = 0};
    struct bl_http_server_options options = {.address = "::1", .serve = serve, .context = &desk};

    bl_semaphore_init(&desk.begun, 0);
    bl_semaphore_init(&desk.stopped, 0);
    bl_nursery_init(&nursery, bl_scope_current());
    int code = bl_http_server_start(&nursery, &options, &server, NULL);
    if (code == 0) { /* otherwise this machine has no IPv6 */
        struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                       .sin6_port = htons(bl_http_server_port(server)),
                                       .sin6_addr = in6addr_loopback};
        struct guest guest = {.fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        bl_buffer_init(&guest.got, 1u << 20);
        CHECK_EQUAL(connect(guest.fd, (struct sockaddr *)&address, sizeof address), 0);
        CHECK_EQUAL(bl_descriptor_new(guest.fd, &guest.descriptor), 0);
        guest_say(&guest, "GET / HTTP/1.0\r\nHost: [::1]\r\n\r\n");
        CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
        CHECK_EQUAL(guest_status(&guest), 200);
        guest_close(&guest);
        bl_http_server_stop(server);
    }
    bl_nursery_done(&nursery);
    return 0;
}

IN_LOOP(the_other_loopback_address_is_served_too, serve_six)

static int queue_up(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guests[3];

    open_house(&house, 2);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(guest_connect(&guests[i], house.port));
        guest_say(&guests[i], "GET /x HTTP/1.1\r\n" HOST "\r\n");
    }
    CHECK_EQUAL(guest_await(&guests[0], "GET /x \n"), 0);
    CHECK_EQUAL(guest_await(&guests[1], "GET /x \n"), 0);
    bl_sleep(5 * BL_NS_PER_MS);
    CHECK_EQUAL(house.desk.calls, 2);
    guest_close(&guests[0]);
    CHECK_EQUAL(guest_await(&guests[2], "GET /x \n"), 0);
    CHECK_EQUAL(house.desk.calls, 3);
    guest_close(&guests[1]);
    guest_close(&guests[2]);
    close_house(&house);
    return 0;
}

IN_LOOP(connections_beyond_the_limit_wait_in_the_queue, queue_up)

static int open_many(void *argument)
{
    (void)argument;
    struct rlimit limit;
    struct house house;

    /* Both ends are in this process. */
    getrlimit(RLIMIT_NOFILE, &limit);
    size_t count = (size_t)suite_rounds(500, 10000);
    if (count > limit.rlim_cur / 2 - 100)
        count = limit.rlim_cur / 2 - 100;
    open_house(&house, (uint32_t)count);
    struct guest *guests = bl_zalloc(count * sizeof *guests);
    for (size_t i = 0; i < count; i++) {
        CHECK(guest_connect(&guests[i], house.port));
        guest_say(&guests[i], "GET /stream HTTP/1.1\r\n" HOST "\r\n");
        if (i % 100 == 99)
            bl_yield();
    }
    for (size_t i = 0; i < count; i++)
        CHECK_EQUAL(guest_await(&guests[i], "first"), 0);
    CHECK_EQUAL(house.desk.serving, count);
    /* Half of them disconnect by themselves. */
    for (size_t i = 0; i < count; i += 2)
        guest_close(&guests[i]);
    for (size_t i = 0; i < count; i += 2)
        CHECK_EQUAL(bl_semaphore_take(&house.desk.stopped), 0);
    CHECK_EQUAL(house.desk.serving, count / 2);
    bl_http_server_stop(house.server);
    house.server = NULL;
    CHECK_EQUAL(house.desk.serving, 0);
    for (size_t i = 1; i < count; i += 2) {
        CHECK_EQUAL(guest_read_all(&guests[i]), BL_EPIPE);
        guest_close(&guests[i]);
    }
    bl_free(guests);
    close_house(&house);
    return 0;
}

IN_LOOP(many_streams_at_once_and_a_stop_that_ends_them_all, open_many)

/* Virtual time advances without polling sockets: turns of the loop poll them. */
static void sleep_virtually(uint64_t duration_ns)
{
    for (unsigned i = 0; i < 50; i++)
        bl_yield();
    bl_sleep(duration_ns);
    for (unsigned i = 0; i < 50; i++)
        bl_yield();
}

static int dawdle(void *argument)
{
    (void)argument;
    static const struct {
        const char *begun;
        int status; /* 0: closed without an answer */
    } cases[] = {
        {"", 0},
        {"GET / HTTP/1.1\r\nHo", 408},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nabc", 408},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5", 408},
    };
    struct house house;

    open_house(&house, 0);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct guest guest;
        char byte;
        CHECK(guest_connect(&guest, house.port));
        guest_say(&guest, cases[i].begun);
        sleep_virtually(29 * BL_NS_PER_S);
        CHECK_EQUAL(recv(guest.fd, &byte, 1, MSG_DONTWAIT), -1);
        sleep_virtually(100 * BL_NS_PER_S);
        CHECK_EQUAL(guest_read_all(&guest), BL_ECLOSED);
        CHECK_EQUAL(guest_status(&guest), cases[i].status);
        guest_close(&guest);
    }
    CHECK_EQUAL(house.desk.calls, 0);
    close_house(&house);
    return 0;
}

static void slow_client_gets_408_or_is_disconnected(void **state)
{
    (void)state;
    run_in_virtual_loop(1, dawdle, NULL);
}

static int send_chunks(void *argument)
{
    (void)argument;
    static const char body[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    static const struct {
        const char *size;
        int length, status;
    } cases[] = {
        {"9", 9, 200},       {"a", 10, 200},  {"A", 10, 200},  {"f", 15, 200},  {"F", 15, 200},
        {"10", 16, 200},     {"1a", 26, 200}, {"0a", 10, 200}, {"a ", 10, 200}, {"a;x=y", 10, 200},
        {"a ; x", 10, 200},  {"g", 16, 400},  {"`", 10, 400},  {"/", 10, 400},  {":", 10, 400},
        {"a x", 10, 400},    {";", 10, 400},  {"", 10, 400},   {"9", 10, 400},  {"c", 10, 400},
        {"100001", 10, 413},
    };
    struct house house;
    struct guest guest;
    char bytes[4096], expected[64];

    open_house(&house, 0);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        snprintf(bytes, sizeof bytes,
                 "POST /c HTTP/1.1\r\n" HOST "Connection: close\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n%s\r\n%.*s\r\n0\r\n\r\n\r\n\r\n",
                 cases[i].size, cases[i].length, body);
        snprintf(expected, sizeof expected, "POST /c %.*s\n", cases[i].length, body);
        int status = guest_ask(&guest, house.port, bl_text_from(bytes));
        if (!CHECK_EQUAL(status, cases[i].status))
            fprintf(stderr, "size '%s'\n", cases[i].size);
        CHECK(status != 200 || guest_has(&guest, expected));
        guest_close(&guest);
    }
    /* A chunk line may have 1,024 bytes; a longer one is invalid, whether it ends or not. */
    for (int i = 0; i < 3; i++) {
        snprintf(bytes, sizeof bytes,
                 "POST /c HTTP/1.1\r\n" HOST "Connection: close\r\nTransfer-Encoding: "
                 "chunked\r\n\r\na;%0*u%s",
                 i == 0 ? 1022 : 1023, 1u, i == 2 ? "" : "\r\n0123456789\r\n0\r\n\r\n");
        CHECK_EQUAL(guest_ask(&guest, house.port, bl_text_from(bytes)), i == 0 ? 200 : 400);
        guest_close(&guest);
    }
    close_house(&house);
    return 0;
}

IN_LOOP(sizes_of_chunks_are_hexadecimal_and_their_lines_bounded, send_chunks)

/* A request without a body is not waited for, and gets no 100 Continue. */
static int send_no_body(void *argument)
{
    (void)argument;
    struct house house;
    struct guest guest;

    open_house(&house, 0);
    CHECK_EQUAL(guest_ask(&guest, house.port,
                          BL_TEXT("POST /x HTTP/1.1\r\n" HOST "Connection: close\r\nExpect: "
                                  "100-continue\r\nContent-Length: 0\r\n\r\n")),
                200);
    CHECK(!guest_has(&guest, "100 Continue"));
    guest_close(&guest);
    close_house(&house);
    return 0;
}

IN_LOOP(a_request_without_a_body_is_not_told_to_continue, send_no_body)

SUITE(server, cmocka_unit_test(sizes_of_chunks_are_hexadecimal_and_their_lines_bounded),
      cmocka_unit_test(a_request_without_a_body_is_not_told_to_continue),
      cmocka_unit_test(peer_of_tests_follows_its_script),
      cmocka_unit_test(a_peer_without_script_leaves_connections_half_open),
      cmocka_unit_test(call_stops_when_its_client_disconnects),
      cmocka_unit_test(client_that_disconnects_in_its_request_is_not_served),
      cmocka_unit_test(client_that_shut_down_its_sending_side_gets_immediate_responses),
      cmocka_unit_test(writing_to_a_client_that_does_not_read_waits_and_a_stop_ends_it),
      cmocka_unit_test(a_large_answer_arrives_whole),
      cmocka_unit_test(only_loopback_is_served_and_a_used_port_is_reported),
      cmocka_unit_test(a_server_ends_with_its_nursery),
      cmocka_unit_test(the_other_loopback_address_is_served_too),
      cmocka_unit_test(connections_beyond_the_limit_wait_in_the_queue),
      cmocka_unit_test(many_streams_at_once_and_a_stop_that_ends_them_all),
      cmocka_unit_test(slow_client_gets_408_or_is_disconnected));
