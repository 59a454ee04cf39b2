#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"

#define MS BL_NS_PER_MS

struct pump {
    struct bl_descriptor *end;
    char *data;
    size_t size;
};

static int pump_in(void *argument)
{
    struct pump *pump = argument;
    size_t written = 0;
    int code = bl_descriptor_write(pump->end, pump->data, pump->size, &written);
    CHECK_EQUAL(written, pump->size);
    return code;
}

static int pump_through(void *argument)
{
    (void)argument;
    enum {
        SIZE = 3 * 1024 * 1024
    };
    int ends[2];
    struct bl_descriptor *left, *right;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQUAL(bl_descriptor_new(ends[0], &left), 0);
    CHECK_EQUAL(bl_descriptor_new(ends[1], &right), 0);
    char *data = bl_alloc(SIZE), *got = bl_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 7 + i / 251);
    /* Both directions at once on the same descriptors. */
    struct pump forth = {left, data, SIZE}, back = {right, data, 1000};
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "forth", pump_in, &forth, NULL);
    bl_nursery_spawn(&nursery, NULL, "back", pump_in, &back, NULL);
    for (size_t size = 0, count; size < SIZE; size += count) {
        CHECK_EQUAL(bl_descriptor_read(right, got + size, SIZE - size, &count), 0);
        if (!CHECK(count > 0))
            break;
    }
    CHECK_EQUAL(memcmp(data, got, SIZE), 0);
    size_t count;
    CHECK_EQUAL(bl_descriptor_read(left, got, SIZE, &count), 0);
    CHECK_EQUAL(count, 1000);
    bl_nursery_done(&nursery);
    bl_descriptor_free(left);
    close(ends[0]);
    CHECK_EQUAL(bl_descriptor_read(right, got, SIZE, &count), 0);
    CHECK_EQUAL(count, 0);
    bl_descriptor_free(right);
    close(ends[1]);
    bl_free(data);
    bl_free(got);
    return 0;
}

static void bytes_go_through_in_both_directions(void **state)
{
    (void)state;
    run_in_loop(pump_through, NULL);
}

/* Checks that the loop does not spin while nothing happens for 20 ms. */
static void check_idle(void)
{
    struct turns *turns = turns_begin();
    CHECK_EQUAL(bl_sleep(20 * MS), 0);
    CHECK(turns_end(turns) < 20);
}

static int stop_and_use_again(void *argument)
{
    (void)argument;
    int ends[2];
    struct bl_descriptor *descriptor;
    struct bl_scope scope;
    unsigned events = 0;
    char byte;
    size_t count;
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQUAL(bl_descriptor_new(ends[0], &descriptor), 0);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 5 * MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_descriptor_read(descriptor, &byte, 1, &count), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK_EQUAL(write(ends[1], "xy", 2), 2);
    CHECK_EQUAL(bl_descriptor_read(descriptor, &byte, 1, &count), 0);
    CHECK_EQUAL(byte, 'x');
    CHECK_EQUAL(bl_descriptor_wait(descriptor, BL_READABLE, &events), 0);
    CHECK_EQUAL(events, BL_READABLE);
    /* Readable, and no fiber waits. */
    check_idle();
    CHECK_EQUAL(bl_descriptor_read(descriptor, &byte, 1, &count), 0);
    CHECK_EQUAL(byte, 'y');
    bl_descriptor_free(descriptor);
    CHECK_EQUAL(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void a_stopped_wait_leaves_the_descriptor_usable_and_unchanged(void **state)
{
    (void)state;
    run_in_loop(stop_and_use_again, NULL);
}

static int read_a_byte(void *argument)
{
    char byte;
    size_t count;
    int code = bl_descriptor_read(argument, &byte, 1, &count);
    return code == 0 && count == 1 ? byte : code;
}

/* The descriptor is always writable, and the fiber waits only to read. */
static int read_where_one_could_write(void *argument)
{
    (void)argument;
    int ends[2], result = 0;
    unsigned events = 0;
    struct bl_descriptor *descriptor;
    struct bl_nursery nursery;
    struct bl_fiber *reader;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    CHECK_EQUAL(bl_descriptor_new(ends[0], &descriptor), 0);
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "reader", read_a_byte, descriptor, &reader);
    CHECK_EQUAL(bl_yield(), 0);
    CHECK_EQUAL(bl_descriptor_wait(descriptor, BL_WRITABLE, &events), 0);
    CHECK_EQUAL(events, BL_WRITABLE);
    check_idle();
    CHECK(!bl_fiber_ended(reader));
    CHECK_EQUAL(write(ends[1], "z", 1), 1);
    CHECK_EQUAL(bl_fiber_join(reader, &result), 0);
    CHECK_EQUAL(result, 'z');
    bl_nursery_done(&nursery);
    bl_descriptor_free(descriptor);
    /* It was non-blocking before, and still is. */
    CHECK_EQUAL(fcntl(ends[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void an_unawaited_event_does_not_keep_the_loop_busy(void **state BL_UNUSED)
{
    run_in_loop(read_where_one_could_write, NULL);
}

static int broken_pipe(void *argument)
{
    (void)argument;
    int ends[2];
    struct bl_descriptor *descriptor;
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQUAL(bl_descriptor_new(ends[1], &descriptor), 0);
    char block[4096] = {0};
    while (write(ends[1], block, sizeof block) > 0)
        ;
    struct pump pump = {descriptor, block, sizeof block};
    struct bl_nursery nursery;
    struct bl_fiber *writer;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "writer", pump_in, &pump, &writer);
    CHECK_EQUAL(bl_sleep(5 * MS), 0);
    pump.size = 0; /* no byte will be written */
    close(ends[0]);
    int result = 0;
    CHECK_EQUAL(bl_fiber_join(writer, &result), 0);
    CHECK_EQUAL(result, BL_EPIPE);
    bl_nursery_done(&nursery);
    bl_descriptor_free(descriptor);
    close(ends[1]);
    return 0;
}

static void a_writer_learns_that_the_other_end_has_closed(void **state)
{
    (void)state;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    run_in_loop(broken_pipe, NULL);
    sigaction(SIGPIPE, &before, NULL);
}

static int odd_descriptors(void *argument)
{
    (void)argument;
    struct bl_descriptor *descriptor;
    bl_descriptor_free(NULL);
    CHECK_EQUAL(bl_descriptor_new(-1, &descriptor), BL_ESYSTEM);
    FILE *file = tmpfile();
    CHECK_EQUAL(bl_descriptor_new(fileno(file), &descriptor), BL_ENOTSUP);
    fclose(file);
    return 0;
}

static void a_descriptor_that_cannot_be_waited_for_is_an_error(void **state)
{
    (void)state;
    run_in_loop(odd_descriptors, NULL);
}

static int spawn_shell(const char *command)
{
    char *arguments[] = {"sh", "-c", NULL, NULL};
    union {
        const char *in;
        char *out;
    } text = {.in = command};
    arguments[2] = text.out;
    pid_t child;
    CHECK_EQUAL(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ), 0);
    return (int)syscall(SYS_pidfd_open, child, 0);
}

static int children(void *argument)
{
    (void)argument;
    struct bl_child_end end;
    int pidfd = spawn_shell("exit 7");
    CHECK_EQUAL(bl_child_wait(pidfd, &end), 0);
    CHECK(!end.by_signal && !end.core_dumped);
    CHECK_EQUAL(end.status, 7);
    CHECK_EQUAL(bl_child_wait(pidfd, &end), BL_ECHILD);
    close(pidfd);

    pidfd = spawn_shell("exec sleep 3600");
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 5 * MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(bl_child_wait(pidfd, &end), BL_ETIMEDOUT);
    struct bl_scope shield;
    bl_shield_begin(&shield, 60 * BL_NS_PER_S);
    CHECK_EQUAL(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
    CHECK_EQUAL(bl_child_wait(pidfd, &end), 0);
    CHECK(end.by_signal && !end.core_dumped);
    CHECK_EQUAL(end.status, SIGKILL);
    bl_shield_end(&shield);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    close(pidfd);
    return 0;
}

static void a_child_is_waited_for_stopped_and_waited_for_again(void **state)
{
    (void)state;
    run_in_loop(children, NULL);
}

/* Starts a process that traces `child` until `hold` is closed. Returns 0 if that is not permitted.
 */
static pid_t trace(pid_t child, const int hold[2])
{
    int ready[2];
    char byte = 0;
    CHECK_EQUAL(pipe2(ready, O_CLOEXEC), 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        close(hold[1]);
        byte = ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0;
        _exit(write(ready[1], &byte, 1) == 1 && read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    CHECK_EQUAL(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return byte == 1 ? tracer : 0;
}

/* The tracer of a child is the first to learn of its exit. */
static int traced_child(void *argument)
{
    bool *traced = argument;
    struct bl_child_end end = {0};
    int hold[2];
    CHECK_EQUAL(pipe2(hold, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        for (;;)
            pause();
    }
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK_EQUAL(bl_sleep(10 * MS), 0);
    pid_t tracer = trace(child, hold);
    *traced = tracer != 0;
    CHECK_EQUAL(kill(child, SIGKILL), 0);
    if (*traced)
        CHECK_EQUAL(bl_child_wait(pidfd, &end), BL_ECHILD);
    close(hold[1]);
    close(hold[0]);
    if (*traced)
        CHECK_EQUAL(waitpid(tracer, NULL, 0), tracer);
    CHECK_EQUAL(bl_child_wait(pidfd, &end), 0);
    CHECK(end.by_signal && end.status == SIGKILL);
    close(pidfd);
    return 0;
}

static void a_child_that_cannot_be_reaped_yet_has_not_ended(void **state BL_UNUSED)
{
    bool traced = false;
    run_in_loop(traced_child, &traced);
    if (!traced)
        suite_skip("may not trace a process");
}

struct ready_pipe {
    int ends[2];
    struct bl_descriptor *in, *out;
    char bytes[64];
};

static int read_ready(struct ready_pipe *pipe)
{
    size_t size;
    CHECK_EQUAL(write(pipe->ends[1], pipe->bytes, sizeof pipe->bytes), sizeof pipe->bytes);
    return bl_descriptor_read(pipe->in, pipe->bytes, sizeof pipe->bytes, &size);
}

static int write_ready(struct ready_pipe *pipe)
{
    int code = bl_descriptor_write(pipe->out, pipe->bytes, sizeof pipe->bytes, NULL);
    if (code == 0)
        CHECK_EQUAL(read(pipe->ends[0], pipe->bytes, sizeof pipe->bytes), sizeof pipe->bytes);
    return code;
}

static int use_ready_pipe(void *argument)
{
    (void)argument;
    static int (*const uses[])(struct ready_pipe *) = {read_ready, write_ready};
    struct ready_pipe pipe = {0};
    CHECK_EQUAL(pipe2(pipe.ends, O_CLOEXEC), 0);
    CHECK_EQUAL(bl_descriptor_new(pipe.ends[0], &pipe.in), 0);
    CHECK_EQUAL(bl_descriptor_new(pipe.ends[1], &pipe.out), 0);
    for (size_t i = 0; i < BL_COUNT(uses); i++) {
        struct bl_scope scope;
        uint64_t begun_ns = bl_now_ns();
        int code = 0;
        bl_scope_init(&scope, bl_scope_current());
        bl_scope_set_deadline(&scope, begun_ns + 20 * MS);
        struct bl_scope *outer = bl_scope_enter(&scope);
        while (code == 0 && bl_now_ns() - begun_ns < 10 * BL_NS_PER_S)
            code = uses[i](&pipe);
        CHECK_EQUAL(code, BL_ETIMEDOUT);
        bl_scope_enter(outer);
        bl_scope_done(&scope);
        while (read(pipe.ends[0], pipe.bytes, sizeof pipe.bytes) > 0)
            ;
    }
    bl_descriptor_free(pipe.in);
    bl_descriptor_free(pipe.out);
    close(pipe.ends[0]);
    close(pipe.ends[1]);
    return 0;
}

static void a_descriptor_that_is_always_ready_does_not_delay_the_deadline(void **state)
{
    (void)state;
    run_in_loop(use_ready_pipe, NULL);
}

SUITE(descriptor, cmocka_unit_test(bytes_go_through_in_both_directions),
      cmocka_unit_test(a_stopped_wait_leaves_the_descriptor_usable_and_unchanged),
      cmocka_unit_test(an_unawaited_event_does_not_keep_the_loop_busy),
      cmocka_unit_test(a_writer_learns_that_the_other_end_has_closed),
      cmocka_unit_test(a_descriptor_that_cannot_be_waited_for_is_an_error),
      cmocka_unit_test(a_child_is_waited_for_stopped_and_waited_for_again),
      cmocka_unit_test(a_child_that_cannot_be_reaped_yet_has_not_ended),
      cmocka_unit_test(a_descriptor_that_is_always_ready_does_not_delay_the_deadline));
