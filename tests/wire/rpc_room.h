/* A connection for its tests, with handlers and the peer's end. */
#ifndef BELAY_TESTS_RPC_ROOM_H
#define BELAY_TESTS_RPC_ROOM_H

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <belay/rpc.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

#define IN_LOOP(test, main)                                                                        \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(main, NULL);                                                                   \
    }

#define REQUEST(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}\n"
#define RESULT(id, result)  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":" result "}"
#define FAILURE(id, code)   "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"error\":{\"code\":" code ","

/* A connection, its handlers, and the peer's end, which the test controls. */
static struct room {
    struct bl_nursery nursery;
    struct bl_rpc *rpc;
    int fd; /* the peer's end */
    struct bl_descriptor *descriptor;
    struct bl_buffer in; /* received by the peer */
    size_t taken;        /* bytes of it already checked */
    unsigned notified, faults, gone, serving, served;
    enum bl_stop_reason reason; /* of the last stopped call */
    const char *why;            /* reason of the disconnect */
    char last[64];              /* last notification */
    struct bl_semaphore begun;
    struct bl_semaphore go;
} room;

/* ---- Handlers ---- */

BL_UNUSED static void echo(void *context, struct bl_rpc_call *call)
{
    struct bl_buffer out;
    struct bl_json_writer writer;
    (void)context;
    bl_buffer_init(&out, (size_t)64 << 20);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, bl_rpc_call_params(call));
    bl_rpc_answer(call, bl_buffer_text(&out));
    bl_buffer_done(&out);
}

/* Waits until it is stopped or released. */
BL_UNUSED static void hang(void *context, struct bl_rpc_call *call)
{
    struct bl_stop stop;
    (void)context;
    room.serving++;
    bl_semaphore_give(&room.begun);
    int code = bl_semaphore_take(&room.go);
    bl_scope_stop_read(bl_rpc_call_scope(call), &stop);
    if (stop.reason != BL_STOP_NONE)
        room.reason = stop.reason;
    bl_rpc_answer(call, code == 0 ? BL_TEXT("\"given\"") : BL_TEXT("\"stopped\""));
    room.serving--;
}

BL_UNUSED static void forget(void *context, struct bl_rpc_call *call)
{
    (void)context, (void)call;
    bl_yield();
}

BL_UNUSED static void drop(void *context, struct bl_rpc_call *call)
{
    (void)context;
    bl_yield();
    bl_rpc_drop(call);
}

BL_UNUSED static void request(void *context, struct bl_rpc_call *call)
{
    struct bl_text method = bl_rpc_call_method(call);
    CHECK(context == &room);
    CHECK(bl_rpc_call_rpc(call) == room.rpc);
    CHECK(bl_rpc_call_find(room.rpc, bl_rpc_call_id(call)) == call);
    room.served++;
    if (bl_text_equal(method, BL_TEXT("now")))
        bl_rpc_answer(call, BL_TEXT("\"now\""));
    else if (bl_text_equal(method, BL_TEXT("echo")))
        bl_rpc_call_start(call, echo, NULL);
    else if (bl_text_equal(method, BL_TEXT("hang")))
        bl_rpc_call_start(call, hang, NULL);
    else if (bl_text_equal(method, BL_TEXT("forget")))
        bl_rpc_call_start(call, forget, NULL);
    else if (bl_text_equal(method, BL_TEXT("drop")))
        bl_rpc_call_start(call, drop, NULL);
    else if (bl_text_equal(method, BL_TEXT("bad")))
        bl_rpc_fail(call, BL_RPC_INVALID_PARAMS, "bad", BL_TEXT("{\"path\":\"/a\"}"));
}

BL_UNUSED static void notification(void *context, struct bl_text method,
                                   const struct bl_json *params)
{
    (void)context;
    room.notified++;
    bl_text_into(room.last, sizeof room.last, method.data);
    if (bl_text_equal(method, BL_TEXT("cancel"))) {
        struct bl_rpc_call *call =
            bl_rpc_call_find(room.rpc, bl_json_get(params, BL_TEXT("requestId")));
        if (call != NULL)
            bl_scope_stop(bl_rpc_call_scope(call), BL_STOP_USER, "test");
    }
}

BL_UNUSED static void fault(void *context, const struct bl_rpc_fault *found, struct bl_text line)
{
    (void)context, (void)line;
    CHECK(found->message[0] != '\0');
    room.faults++;
}

BL_UNUSED static void gone(void *context, const char *why)
{
    (void)context;
    room.gone++;
    room.why = why;
    CHECK_EQUAL(room.reason, BL_STOP_NONE); /* called before the calls are stopped */
}

/* ---- A connection and its peer --------------------------------------------------------------- */

BL_UNUSED static void begin(struct bl_rpc_options options)
{
    memset(&room, 0, sizeof room);
    room.fd = -1;
    bl_nursery_init(&room.nursery, bl_scope_current());
    bl_semaphore_init(&room.begun, 0);
    bl_semaphore_init(&room.go, 0);
    bl_buffer_init(&room.in, (size_t)64 << 20);
    options.request = request;
    options.notification = notification;
    options.fault = fault;
    options.gone = gone;
    options.context = &room;
    CHECK_EQUAL(bl_rpc_open(&room.nursery, &options, &room.rpc, NULL), 0);
}

BL_UNUSED static void hold_peer(int fd)
{
    room.fd = fd;
    CHECK_EQUAL(bl_descriptor_new(fd, &room.descriptor), 0);
}

BL_UNUSED static int open_room(struct bl_rpc_options options)
{
    int ends[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    options.in = options.out = ends[0];
    begin(options);
    hold_peer(ends[1]);
    return ends[0];
}

BL_UNUSED static void peer_go(void)
{
    bl_descriptor_free(room.descriptor);
    room.descriptor = NULL;
    if (room.fd >= 0)
        close(room.fd);
    room.fd = -1;
}

BL_UNUSED static void close_room(int fd)
{
    bl_rpc_close(room.rpc, BL_NS_PER_S);
    CHECK_EQUAL(room.serving, 0);
    bl_nursery_done(&room.nursery);
    peer_go();
    bl_buffer_done(&room.in);
    if (fd >= 0)
        close(fd);
}

BL_UNUSED static void say(struct bl_text text)
{
    CHECK_EQUAL(bl_descriptor_write(room.descriptor, text.data, text.size, NULL), 0);
}

/* Returns the next line, valid until the next call; empty if there is none. Fails after 20 s. */
BL_UNUSED static struct bl_text hear(void)
{
    struct bl_scope limit, *outer = bl_scope_current();
    struct bl_text line = {0};
    int code = 0;
    bl_scope_init(&limit, outer);
    bl_scope_set_deadline(&limit, bl_now_ns() + 20 * BL_NS_PER_S);
    bl_scope_enter(&limit);
    bl_buffer_consume(&room.in, room.taken);
    room.taken = 0;
    while (code == 0) {
        const char *end = room.in.size > 0 ? memchr(room.in.data, '\n', room.in.size) : NULL;
        if (end != NULL) {
            line = (struct bl_text){room.in.data, (size_t)(end - room.in.data)};
            room.taken = line.size + 1;
            break;
        }
        size_t size = 0;
        bl_buffer_reserve(&room.in, 65536);
        code = bl_descriptor_read(room.descriptor, room.in.data + room.in.size, 65536, &size);
        room.in.size += size;
        if (size == 0)
            break;
    }
    CHECK_EQUAL(code, 0);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    return line;
}

BL_UNUSED static bool hears(const char *expected)
{
    struct bl_text line = hear();
    bool right = bl_text_equal(line, bl_text_from(expected));
    if (!right)
        fprintf(stderr, "heard " BL_TEXT_FORMAT "\ninstead of %s\n",
                BL_TEXT_ARG(bl_utf8_cut(line, 300)), expected);
    return right;
}

BL_UNUSED static bool hears_begin(const char *expected)
{
    struct bl_text line = hear();
    bool right = bl_text_starts_with(line, bl_text_from(expected));
    if (!right)
        fprintf(stderr, "heard " BL_TEXT_FORMAT "\ninstead of %s\n",
                BL_TEXT_ARG(bl_utf8_cut(line, 300)), expected);
    return right;
}

/* Checks that the connection still answers valid requests. */
BL_UNUSED static void check_lives(void)
{
    say(BL_TEXT(REQUEST("\"alive\"", "now")));
    CHECK(hears(RESULT("\"alive\"", "\"now\"")));
}

BL_UNUSED static struct bl_text params_of_1_KiB(void)
{
    static char text[1024];
    memset(text, 'x', sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    return (struct bl_text){text, sizeof text};
}

#endif
