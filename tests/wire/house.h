/* A server for its tests, with a handler that serves by path. */
#ifndef BELAY_TESTS_HOUSE_H
#define BELAY_TESTS_HOUSE_H

#include "guest.h"

#define HOST "Host: 127.0.0.1\r\n"

/* What the server of these tests serves, by path. */
struct desk {
    unsigned calls;
    unsigned serving;
    int code;                   /* of the last failed write */
    enum bl_stop_reason reason; /* of the last stopped call */
    struct bl_semaphore begun;
    struct bl_semaphore stopped;
    struct bl_text flood;
};

static void echo(struct bl_http_call *call)
{
    struct bl_text method = bl_http_call_method(call), path = bl_http_call_path(call);
    struct bl_text body = bl_http_call_body(call);
    struct bl_text text = bl_arena_printf(
        bl_http_call_arena(call), BL_TEXT_FORMAT " " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n",
        BL_TEXT_ARG(method), BL_TEXT_ARG(path), BL_TEXT_ARG(body));

    bl_http_call_answer(call, 200, NULL, 0, text);
}

static void serve(void *context, struct bl_http_call *call)
{
    struct desk *desk = context;
    struct bl_text path = bl_http_call_path(call);

    desk->calls++;
    desk->serving++;
    bl_semaphore_give(&desk->begun);
    if (bl_text_starts_with(path, BL_TEXT("/slow"))) {
        desk->code = bl_sleep_until(BL_NEVER);
    } else if (bl_text_starts_with(path, BL_TEXT("/stream"))) {
        bl_http_call_begin(call, 200, NULL, 0);
        bl_http_call_write(call, BL_TEXT("first"));
        desk->code = bl_sleep_until(BL_NEVER);
    } else if (bl_text_starts_with(path, BL_TEXT("/flood"))) {
        desk->code = bl_http_call_begin(call, 200, NULL, 0);
        while (desk->code == 0)
            desk->code = bl_http_call_write(call, desk->flood);
    } else if (bl_text_equal(path, BL_TEXT("/whole"))) {
        desk->code = bl_http_call_answer(call, 200, NULL, 0, desk->flood);
    } else if (bl_text_equal(path, BL_TEXT("/piece"))) {
        bl_http_call_begin(call, 200, NULL, 0);
        desk->code = bl_http_call_write(call, desk->flood);
        bl_http_call_end(call);
    } else if (bl_text_starts_with(path, BL_TEXT("/size"))) {
        struct bl_text text =
            bl_arena_printf(bl_http_call_arena(call), "size %zu\n", bl_http_call_body(call).size);
        bl_http_call_answer(call, 200, NULL, 0, text);
    } else {
        echo(call);
    }
    struct bl_stop stop;
    bl_scope_stop_read(bl_scope_current(), &stop);
    desk->serving--;
    if (stop.reason != BL_STOP_NONE) {
        desk->reason = stop.reason;
        bl_semaphore_give(&desk->stopped);
    }
}

struct house {
    struct bl_nursery nursery;
    struct bl_http_server *server;
    struct desk desk;
    uint16_t port;
    unsigned descriptors;
};

BL_UNUSED static void open_house(struct house *house, uint32_t connections_max)
{
    memset(house, 0, sizeof *house);
    house->descriptors = peer_descriptors();
    bl_nursery_init(&house->nursery, bl_scope_current());
    bl_semaphore_init(&house->desk.begun, 0);
    bl_semaphore_init(&house->desk.stopped, 0);
    struct bl_http_server_options options = {.address = "127.0.0.1",
                                             .connections_max = connections_max,
                                             .body_max = 1u << 20,
                                             .serve = serve,
                                             .context = &house->desk};
    CHECK_EQUAL(bl_http_server_start(&house->nursery, &options, &house->server, NULL), 0);
    house->port = bl_http_server_port(house->server);
    CHECK(house->port != 0);
}

BL_UNUSED static void close_house(struct house *house)
{
    bl_http_server_stop(house->server);
    CHECK_EQUAL(house->desk.serving, 0);
    bl_nursery_done(&house->nursery);
    CHECK_EQUAL(peer_descriptors(), house->descriptors);
}

#define IN_LOOP(test, main)                                                                        \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(main, NULL);                                                                   \
    }

#endif
