#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fibers.h"

#include "cli/run/stream.h"

/* A stream on a pipe of its own, in a loop. */
struct piped {
    struct bl_scope run, wait_limit;
    struct cli_stream stream;
    int ends[2];
};

static void open_on(struct piped *piped, int fd)
{
    struct bl_error error = {0};

    bl_scope_init(&piped->run, bl_scope_current());
    bl_scope_init(&piped->wait_limit, bl_scope_current());
    CHECK_EQUAL(cli_stream_open(&piped->stream, fd, &piped->run, &piped->wait_limit, &error), 0);
}

static void open_piped(struct piped *piped)
{
    CHECK_EQUAL(pipe2(piped->ends, O_CLOEXEC), 0);
    open_on(piped, piped->ends[1]);
}

static void close_scopes(struct piped *piped)
{
    bl_scope_done(&piped->run);
    bl_scope_done(&piped->wait_limit);
}

static void close_piped(struct piped *piped)
{
    cli_stream_close(&piped->stream);
    close_scopes(piped);
    close(piped->ends[0]);
    close(piped->ends[1]);
}

/* Reads the available bytes. */
static size_t take_all(int fd)
{
    static char data[65536];
    size_t all = 0;
    ssize_t count;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((count = read(fd, data, sizeof data)) > 0)
        all += (size_t)count;
    return all;
}

static struct bl_text big(size_t size)
{
    static char data[4 << 20];

    memset(data, 'x', sizeof data);
    return (struct bl_text){data, size};
}

static int write_and_flush(void *argument)
{
    struct piped piped;
    char data[16] = "";

    (void)argument;
    open_piped(&piped);
    cli_stream_write(&piped.stream, BL_TEXT("one\n"));
    cli_stream_write(&piped.stream, (struct bl_text){0});
    cli_stream_write(&piped.stream, BL_TEXT("two\n"));
    CHECK(cli_stream_flush(&piped.stream));
    CHECK_EQUAL(read(piped.ends[0], data, sizeof data), 8);
    CHECK(memcmp(data, "one\ntwo\n", 8) == 0);
    close_piped(&piped);
    return 0;
}

static void output_is_in_order(void **state)
{
    (void)state;
    run_in_loop(write_and_flush, NULL);
}

static int keep_flags(void *argument)
{
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    cli_stream_write(&piped.stream, big(1 << 17));
    bl_sleep(BL_NS_PER_MS);
    CHECK((fcntl(piped.ends[1], F_GETFL) & O_NONBLOCK) == 0);
    close_piped(&piped);
    /* A socket cannot be opened again: its mode is restored. */
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, piped.ends), 0);
    open_on(&piped, piped.ends[1]);
    cli_stream_write(&piped.stream, BL_TEXT("x"));
    CHECK(cli_stream_flush(&piped.stream));
    cli_stream_close(&piped.stream);
    CHECK((fcntl(piped.ends[1], F_GETFL) & O_NONBLOCK) == 0);
    close_scopes(&piped);
    close(piped.ends[0]);
    close(piped.ends[1]);
    return 0;
}

static void shared_descriptor_is_unchanged(void **state)
{
    (void)state;
    run_in_loop(keep_flags, NULL);
}

static int regular_file(void *argument)
{
    int fd = memfd_create("out", MFD_CLOEXEC);
    struct piped piped;

    (void)argument;
    open_on(&piped, fd);
    cli_stream_write(&piped.stream, big(3 << 20));
    CHECK_EQUAL(lseek(fd, 0, SEEK_END), 3 << 20);
    CHECK(cli_stream_flush(&piped.stream));
    cli_stream_close(&piped.stream);
    close_scopes(&piped);
    close(fd);
    return 0;
}

static void a_file_is_written_at_once(void **state)
{
    (void)state;
    run_in_loop(regular_file, NULL);
}

static int writer_main(void *argument)
{
    struct piped *piped = argument;

    cli_stream_write(&piped->stream, big(CLI_STREAM_PENDING_MAX + (1 << 20)));
    return 0;
}

static int slow_reader(void *argument)
{
    struct bl_nursery nursery;
    struct bl_fiber *writer;
    struct piped piped;
    size_t all = 0;

    (void)argument;
    open_piped(&piped);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "writer", writer_main, &piped, &writer), 0);
    for (int i = 0; i < 20; i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK(!bl_fiber_ended(writer));
    for (int i = 0; i < 1000 && !bl_fiber_ended(writer); i++) {
        all += take_all(piped.ends[0]);
        bl_sleep(BL_NS_PER_MS);
    }
    CHECK(bl_fiber_ended(writer));
    CHECK(all >= 1 << 19 && all < CLI_STREAM_PENDING_MAX + (1 << 20));
    bl_nursery_done(&nursery);
    close_piped(&piped);
    return 0;
}

static void slow_reader_delays_the_writer(void **state)
{
    (void)state;
    run_in_loop(slow_reader, NULL);
}

/* `which` is the scope to stop; the writer runs in a claimed scope. */
static int stop_writer(struct piped *piped, struct bl_scope *own, struct bl_scope *which)
{
    struct bl_nursery nursery;
    struct bl_fiber *writer;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_init(own, &nursery.scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, own, "writer", writer_main, piped, &writer), 0);
    for (int i = 0; i < 5; i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK(!bl_fiber_ended(writer));
    if (which != own)
        CHECK_EQUAL(bl_scope_claim(own), 0);
    bl_scope_stop(which, BL_STOP_USER, "test");
    for (int i = 0; i < 100 && !bl_fiber_ended(writer); i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK(bl_fiber_ended(writer));
    bl_nursery_join(&nursery);
    bl_scope_done(own);
    bl_nursery_done(&nursery);
    return 0;
}

static int stopped_writer(void *argument)
{
    struct bl_scope own;
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    stop_writer(&piped, &own, &own);
    close_piped(&piped);
    open_piped(&piped);
    stop_writer(&piped, &own, &piped.wait_limit);
    close_piped(&piped);
    return 0;
}

static void a_stop_frees_a_writer_that_waits_also_when_its_scope_is_claimed(void **state)
{
    (void)state;
    run_in_loop(stopped_writer, NULL);
}

static int gone_while_idle(void *argument)
{
    struct bl_stop stop;
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    bl_sleep(BL_NS_PER_MS);
    CHECK(!bl_scope_stopped(&piped.run));
    close(piped.ends[0]);
    for (int i = 0; i < 1000 && !bl_scope_stopped(&piped.run); i++)
        bl_sleep(BL_NS_PER_MS);
    bl_scope_stop_read(&piped.run, &stop);
    CHECK_EQUAL(stop.reason, BL_STOP_CLIENT_GONE);
    CHECK(strcmp(stop.origin, "stdout") == 0);
    cli_stream_write(&piped.stream, BL_TEXT("nobody reads this"));
    CHECK(!cli_stream_flush(&piped.stream));
    cli_stream_close(&piped.stream);
    close_scopes(&piped);
    close(piped.ends[1]);
    return 0;
}

static void closed_output_stops_the_run_even_without_writes(void **state)
{
    (void)state;
    run_in_loop(gone_while_idle, NULL);
}

static int half_closed(void *argument)
{
    struct piped piped;
    char data[8];

    (void)argument;
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, piped.ends), 0);
    open_on(&piped, piped.ends[1]);
    shutdown(piped.ends[0], SHUT_WR);
    for (int i = 0; i < 10; i++)
        bl_sleep(BL_NS_PER_MS);
    CHECK(!bl_scope_stopped(&piped.run));
    cli_stream_write(&piped.stream, BL_TEXT("x"));
    CHECK(cli_stream_flush(&piped.stream));
    CHECK_EQUAL(read(piped.ends[0], data, sizeof data), 1);
    close_piped(&piped);
    return 0;
}

static void half_closed_socket_is_still_written_to(void **state)
{
    (void)state;
    run_in_loop(half_closed, NULL);
}

static int linger(void *argument)
{
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    bl_scope_stop(&piped.wait_limit, BL_STOP_USER, "test");
    cli_stream_write(&piped.stream, big(1 << 20));
    uint64_t from_ns = bl_now_ns();
    CHECK(!cli_stream_flush(&piped.stream));
    uint64_t took_ns = bl_now_ns() - from_ns;
    CHECK(took_ns >= CLI_STREAM_LINGER_NS && took_ns < 10 * CLI_STREAM_LINGER_NS);
    close_piped(&piped);
    return 0;
}

static void after_a_stop_a_reader_that_reads_nothing_is_abandoned(void **state)
{
    (void)state;
    run_in_loop(linger, NULL);
}

/* Reads a little at a time; each read counts as progress. */
static void *trickle_main(void *argument)
{
    static char data[65536];
    int fd = *(int *)argument;

    while (read(fd, data, sizeof data) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return NULL;
}

static int trickle(void *argument)
{
    pthread_t reader;
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    pthread_create(&reader, NULL, trickle_main, &piped.ends[0]);
    bl_scope_stop(&piped.wait_limit, BL_STOP_USER, "test");
    cli_stream_write(&piped.stream, big(3 << 20));
    CHECK(cli_stream_flush(&piped.stream));
    CHECK_EQUAL(piped.stream.written, 3 << 20);
    cli_stream_close(&piped.stream);
    close_scopes(&piped);
    close(piped.ends[1]);
    pthread_join(reader, NULL);
    close(piped.ends[0]);
    return 0;
}

static void after_a_stop_a_reader_that_is_slow_gets_all_of_it(void **state)
{
    (void)state;
    run_in_loop(trickle, NULL);
}

static int not_writable(void *argument)
{
    struct bl_error error = {0};
    struct piped piped;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)argument;
    bl_scope_init(&piped.run, bl_scope_current());
    CHECK_EQUAL(cli_stream_open(&piped.stream, fd, &piped.run, &piped.run, &error), BL_ECLOSED);
    CHECK_EQUAL(error.kind, BL_KIND_FILESYSTEM);
    bl_scope_done(&piped.run);
    close(fd);
    return 0;
}

static void an_output_that_cannot_be_written_is_refused_at_the_start(void **state)
{
    (void)state;
    run_in_loop(not_writable, NULL);
}

static int full_disk(void *argument)
{
    struct piped piped;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)argument;
    if (fd < 0)
        return 0;
    open_on(&piped, fd);
    cli_stream_write(&piped.stream, BL_TEXT("x"));
    cli_stream_flush(&piped.stream);
    CHECK(piped.stream.failed != 0);
    CHECK(bl_scope_stopped(&piped.run));
    cli_stream_close(&piped.stream);
    close_scopes(&piped);
    close(fd);
    return 0;
}

static void a_full_disk_stops_the_run(void **state)
{
    (void)state;
    run_in_loop(full_disk, NULL);
}

static int offer(void *argument)
{
    struct piped piped;

    (void)argument;
    open_piped(&piped);
    /* More than the pipe holds: it stays pending, and the next text is refused. */
    CHECK(cli_stream_offer(&piped.stream, big(1 << 20), 4096));
    CHECK_EQUAL(bl_yield(), 0);
    CHECK(!cli_stream_offer(&piped.stream, BL_TEXT("lost"), 4096));
    CHECK(cli_stream_offer(&piped.stream, BL_TEXT("kept"), 4 << 20));
    size_t taken = 0;
    while (taken < (1 << 20) + 4) {
        taken += take_all(piped.ends[0]);
        CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0);
    }
    CHECK(cli_stream_offer(&piped.stream, (struct bl_text){0}, 0));
    close(piped.ends[0]);
    piped.ends[0] = dup(piped.ends[1]);
    while (piped.stream.failed == 0)
        CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0);
    CHECK(!cli_stream_offer(&piped.stream, BL_TEXT("late"), 4 << 20));
    close_piped(&piped);
    return 0;
}

static void offer_without_a_reader_is_refused(void **state)
{
    (void)state;
    run_in_loop(offer, NULL);
}

SUITE(stream, cmocka_unit_test(output_is_in_order),
      cmocka_unit_test(shared_descriptor_is_unchanged), cmocka_unit_test(a_file_is_written_at_once),
      cmocka_unit_test(slow_reader_delays_the_writer),
      cmocka_unit_test(a_stop_frees_a_writer_that_waits_also_when_its_scope_is_claimed),
      cmocka_unit_test(closed_output_stops_the_run_even_without_writes),
      cmocka_unit_test(half_closed_socket_is_still_written_to),
      cmocka_unit_test(after_a_stop_a_reader_that_reads_nothing_is_abandoned),
      cmocka_unit_test(after_a_stop_a_reader_that_is_slow_gets_all_of_it),
      cmocka_unit_test(an_output_that_cannot_be_written_is_refused_at_the_start),
      cmocka_unit_test(a_full_disk_stops_the_run),
      cmocka_unit_test(offer_without_a_reader_is_refused));
