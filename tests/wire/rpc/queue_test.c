#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fibers.h"
#include "wire/rpc/rpc.h"

#define IN_LOOP(test, main)                                                                        \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(main, NULL);                                                                   \
    }

/* Opens two ends: bytes written to `ends[1]` are read from `ends[0]`; neither blocks. */
static void open_pair(int ends[2], bool pipe_wanted)
{
    if (pipe_wanted)
        CHECK_EQUAL(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    else
        CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

/* Reads all that is available. */
static void drain(int fd, struct bl_buffer *out)
{
    char bytes[4096];
    ssize_t size;
    while ((size = read(fd, bytes, sizeof bytes)) > 0)
        bl_buffer_append(out, (struct bl_text){bytes, (size_t)size});
}

/* Writes messages of dots until some are queued. Returns the number of bytes. */
static size_t fill(struct rpc_queue *queue)
{
    char dots[1024];
    size_t total = 0;
    int code = 0;
    memset(dots, '.', sizeof dots);
    while (code == 0) {
        code = rpc_queue_put(queue, (struct bl_text){dots, sizeof dots});
        total += sizeof dots;
    }
    CHECK_EQUAL(code, BL_EAGAIN);
    CHECK(queue->size > 0 && queue->size <= sizeof dots);
    return total;
}

static int order(void *argument)
{
    int ends[2];
    (void)argument;
    for (int kind = 0; kind < 2; kind++) {
        struct rpc_queue queue;
        struct bl_buffer seen;
        open_pair(ends, kind == 1);
        rpc_queue_init(&queue, ends[1]);
        bl_buffer_init(&seen, (size_t)64 << 20);
        /* Written at once if nothing is queued. */
        CHECK_EQUAL(rpc_queue_put(&queue, BL_TEXT("first\n")), 0);
        CHECK_EQUAL(queue.size, 0);
        size_t filled = fill(&queue);
        for (int i = 0; i < 100; i++) {
            char message[32];
            int size = snprintf(message, sizeof message, "%d\n", i);
            CHECK_EQUAL(rpc_queue_put(&queue, (struct bl_text){message, (size_t)size}), BL_EAGAIN);
        }
        CHECK_EQUAL(rpc_queue_write(&queue), BL_EAGAIN);
        while (queue.size > 0) {
            drain(ends[0], &seen);
            int code = rpc_queue_write(&queue);
            CHECK(code == 0 || code == BL_EAGAIN);
        }
        drain(ends[0], &seen);
        CHECK(bl_list_empty(&queue.blocks));
        CHECK_EQUAL(seen.size, 6 + filled + 10 * 2 + 90 * 3);
        CHECK_EQUAL(queue.accepted, seen.size);
        const char *at = seen.data + 6 + filled;
        for (long i = 0; i < 100; i++) {
            char *next;
            CHECK_EQUAL(strtol(at, &next, 10), i);
            at = next + 1;
        }
        bl_buffer_done(&seen);
        rpc_queue_clear(&queue);
        close(ends[0]);
        close(ends[1]);
    }
    return 0;
}

IN_LOOP(messages_go_out_in_order_at_once_or_later, order)

static int join(void *argument)
{
    int ends[2];
    struct rpc_queue queue;
    struct bl_buffer seen;
    (void)argument;
    open_pair(ends, false);
    rpc_queue_init(&queue, ends[1]);
    bl_buffer_init(&seen, (size_t)64 << 20);
    /* Nothing is queued, so there is nothing to join. */
    CHECK(!rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("x")));
    CHECK_EQUAL(rpc_queue_put_open(&queue, BL_TEXT("<a>\n"), BL_TEXT("k"), 2), 0);
    CHECK(!rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("x")));
    size_t filled = fill(&queue);
    CHECK_EQUAL(rpc_queue_put_open(&queue, BL_TEXT("<b>\n"), BL_TEXT("k"), 2), BL_EAGAIN);
    size_t before = queue.size;
    CHECK(!rpc_queue_join(&queue, BL_TEXT("other"), BL_TEXT("x")));
    CHECK(rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("cd")));
    CHECK(rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("")));
    CHECK(rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("e")));
    CHECK_EQUAL(queue.size, before + 3);
    /* A message that is not the last takes no more text. */
    CHECK_EQUAL(rpc_queue_put(&queue, BL_TEXT("plain\n")), BL_EAGAIN);
    CHECK(!rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("x")));
    CHECK_EQUAL(rpc_queue_put_open(&queue, BL_TEXT("<f>\n"), BL_TEXT("k"), 2), BL_EAGAIN);
    while (queue.size > 0) {
        drain(ends[0], &seen);
        rpc_queue_write(&queue);
    }
    drain(ends[0], &seen);
    CHECK(bl_text_equal((struct bl_text){seen.data + 4 + filled, seen.size - 4 - filled},
                        BL_TEXT("<bcde>\nplain\n<f>\n")));
    bl_buffer_done(&seen);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

IN_LOOP(a_piece_joins_the_last_message_of_its_key, join)

/* A message that is being written is not changed any more. */
static int begun(void *argument)
{
    int ends[2];
    struct rpc_queue queue;
    struct bl_buffer message, seen;
    (void)argument;
    open_pair(ends, true);
    rpc_queue_init(&queue, ends[1]);
    bl_buffer_init(&message, (size_t)4 << 20);
    bl_buffer_init(&seen, (size_t)4 << 20);
    bl_buffer_reserve(&message, (size_t)1 << 20);
    memset(message.data, 'm', (size_t)1 << 20);
    message.size = (size_t)1 << 20;
    CHECK_EQUAL(rpc_queue_put_open(&queue, bl_buffer_text(&message), BL_TEXT("k"), 2), BL_EAGAIN);
    CHECK(!rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("x")));
    while (queue.size > 0) {
        drain(ends[0], &seen);
        rpc_queue_write(&queue);
        CHECK(queue.size == 0 || !rpc_queue_join(&queue, BL_TEXT("k"), BL_TEXT("x")));
    }
    drain(ends[0], &seen);
    CHECK(bl_text_equal(bl_buffer_text(&seen), bl_buffer_text(&message)));
    bl_buffer_done(&message);
    bl_buffer_done(&seen);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

IN_LOOP(nothing_joins_a_message_that_has_begun_to_go_out, begun)

/* With the default action of SIGPIPE the process survives, and a SIGPIPE that was pending stays
 * pending. */
static int no_reader(void *argument)
{
    int ends[2];
    (void)argument;
    struct sigaction before, standard = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &standard, &before);
    for (int kind = 0; kind < 2; kind++) {
        struct rpc_queue queue;
        open_pair(ends, kind == 1);
        rpc_queue_init(&queue, ends[1]);
        close(ends[0]);
        CHECK_EQUAL(rpc_queue_put(&queue, BL_TEXT("x\n")), BL_EPIPE);
        rpc_queue_clear(&queue);
        close(ends[1]);
    }
    sigset_t pending;
    sigpending(&pending);
    CHECK_EQUAL(sigismember(&pending, SIGPIPE), 0);
    sigaction(SIGPIPE, &before, NULL);
    return 0;
}

IN_LOOP(missing_reader_is_reported_without_a_signal, no_reader)

SUITE(rpc_queue, cmocka_unit_test(messages_go_out_in_order_at_once_or_later),
      cmocka_unit_test(a_piece_joins_the_last_message_of_its_key),
      cmocka_unit_test(nothing_joins_a_message_that_has_begun_to_go_out),
      cmocka_unit_test(missing_reader_is_reported_without_a_signal));
