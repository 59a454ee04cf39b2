/* Connections over real sockets, pipes and files, with a peer controlled by the test. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>

#include "rpc_room.h"

/* ---- Invalid lines ---- */

/* Sends a request with parameters nested to that depth. */
static void say_deep(unsigned depth)
{
    struct bl_buffer line;
    bl_buffer_init(&line, 4096);
    bl_buffer_append(&line,
                     BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"now\",\"params\":"));
    for (unsigned i = 0; i < depth; i++)
        bl_buffer_append_byte(&line, '[');
    for (unsigned i = 0; i < depth; i++)
        bl_buffer_append_byte(&line, ']');
    bl_buffer_append(&line, BL_TEXT("}\n"));
    say(bl_buffer_text(&line));
    bl_buffer_done(&line);
}

static int broken(void *argument)
{
    static const struct {
        const char *line, *answer;
    } lines[] = {
        {"{\n", FAILURE("null", "-32700")},
        {"\xFF\xFE\n", FAILURE("null", "-32700")},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"now\",\"params\":{\"a\":\"\xC3\x28\"}}\n",
         FAILURE("null", "-32700")},
        {"[]\n", FAILURE("null", "-32600")},
        {"[" RESULT("1", "2") "]\n", FAILURE("null", "-32600")},
        {"7\n", FAILURE("null", "-32600")},
        {"{\"id\":7,\"method\":\"now\"}\n", FAILURE("7", "-32600")},
        {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"now\"}\n", FAILURE("null", "-32600")},
    };
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    for (size_t i = 0; i < BL_COUNT(lines); i++) {
        say(bl_text_from(lines[i].line));
        CHECK(hears_begin(lines[i].answer));
        CHECK_EQUAL(room.faults, i + 1);
    }
    say_deep(100);
    CHECK(hears(RESULT("1", "\"now\"")));
    say_deep(200);
    CHECK(hears_begin(FAILURE("null", "-32700")));
    check_lives();
    CHECK(!bl_rpc_gone(room.rpc));
    close_room(fd);
    return 0;
}

IN_LOOP(broken_lines_batches_and_200_levels_are_answered_with_errors, broken)

static int giant(void *argument)
{
    size_t size = (size_t)17 * 1024 * 1024;
    char *line = bl_alloc(size);
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    memset(line, ' ', size);
    /* It is answered before it ends, and none of it is stored. */
    say((struct bl_text){line, size});
    CHECK(hears(
        FAILURE("null", "-32700") "\"message\":\"line too long (the limit is 16777216 bytes)\"}}"));
    say((struct bl_text){line, 1000});
    say(BL_TEXT("\n"));
    check_lives();
    CHECK_EQUAL(room.faults, 1);
    bl_free(line);
    close_room(fd);
    return 0;
}

IN_LOOP(a_line_of_17_MiB_is_skipped_and_the_connection_lives, giant)

static int garbage(void *argument)
{
    struct bl_random random;
    char bytes[2048];
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    bl_random_seed(&random, 9);
    for (unsigned long round = 0; round < suite_rounds(50, 5000); round++) {
        size_t size = 1 + bl_random_below(&random, sizeof bytes - 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)bl_random_next(&random);
        bytes[size - 1] = '\n';
        say((struct bl_text){bytes, size});
        say(BL_TEXT(REQUEST("\"alive\"", "now")));
        struct bl_text line;
        do {
            line = hear();
            CHECK(bl_text_starts_with(line, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":")));
        } while (bl_text_starts_with(line, BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":null")));
        CHECK(bl_text_equal(line, BL_TEXT(RESULT("\"alive\"", "\"now\""))));
    }
    close_room(fd);
    return 0;
}

IN_LOOP(garbage_is_answered_with_errors, garbage)

/* ---- A peer that does not read ---- */

struct feeder {
    size_t sent;
    int code;
    bool ended;
};

static int feed_main(void *argument)
{
    struct feeder *feeder = argument;
    while (feeder->code == 0) {
        feeder->code = bl_rpc_notify(room.rpc, "n", params_of_1_KiB());
        feeder->sent += feeder->code == 0;
    }
    feeder->ended = true;
    return 0;
}

static int never_reads(void *argument)
{
    struct feeder feeder = {0};
    /* Much longer than it takes to fill the queue. */
    const uint64_t take_ns = (SUITE_SANITIZED ? 5000 : 500) * MS;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){.take_ns = take_ns});
    CHECK_EQUAL(bl_nursery_spawn(&room.nursery, NULL, "feed", feed_main, &feeder, NULL), 0);
    uint64_t start_ns = bl_now_ns();
    while (bl_rpc_queued(room.rpc) < BL_RPC_QUEUE_MAX - 4096)
        bl_yield();
    /* Its writer waits, the loop keeps turning, and a cancel is received. */
    bl_sleep(50 * MS);
    CHECK(!feeder.ended && room.gone == 0);
    CHECK(bl_rpc_queued(room.rpc) <= BL_RPC_QUEUE_MAX);
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n" REQUEST("1", "hang")));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    CHECK(strcmp(room.last, "hello") == 0);
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    CHECK(bl_now_ns() - start_ns >= take_ns);
    CHECK(strcmp(room.why, "takes nothing") == 0);
    CHECK_EQUAL(bl_rpc_queued(room.rpc), 0);
    for (int i = 0; i < 10; i++)
        bl_yield();
    CHECK(feeder.ended);
    CHECK_EQUAL(feeder.code, BL_EPIPE);
    CHECK_EQUAL(room.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(room.gone, 1);
    close_room(fd);
    return 0;
}

IN_LOOP(peer_that_never_reads_is_limited_and_disconnected, never_reads)

/* A byte now and then shows that the peer is alive. */
static int reads_slowly(void *argument)
{
    struct feeder feeder = {0};
    static char bytes[65536];
    (void)argument;
    int fd = open_room((struct bl_rpc_options){.take_ns = 400 * MS});
    CHECK_EQUAL(bl_nursery_spawn(&room.nursery, NULL, "feed", feed_main, &feeder, NULL), 0);
    for (int i = 0; i < 16; i++) {
        size_t size = 0;
        bl_sleep(50 * MS);
        CHECK_EQUAL(bl_descriptor_read(room.descriptor, bytes, sizeof bytes, &size), 0);
    }
    CHECK_EQUAL(room.gone, 0);
    peer_go();
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    close_room(fd);
    return 0;
}

IN_LOOP(slow_peer_stays_connected, reads_slowly)

/* A peer that sends requests and reads no answers is not read from any more, and memory is limited.
 */
static int asks_and_never_reads(void *argument)
{
    struct bl_text line = BL_TEXT(REQUEST("1", "now"));
    (void)argument;
    int fd = open_room((struct bl_rpc_options){.take_ns = 200 * MS});
    while (room.gone == 0) {
        ssize_t size = send(room.fd, line.data, line.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0)
            bl_sleep(MS);
        else if (size < (ssize_t)line.size)
            line = BL_TEXT("now\"}\n"); /* cut: what follows is invalid, and is answered as well */
        CHECK(bl_rpc_queued(room.rpc) <= BL_RPC_QUEUE_MAX + 4096);
    }
    CHECK(strcmp(room.why, "takes nothing") == 0);
    close_room(fd);
    return 0;
}

IN_LOOP(peer_that_sends_requests_and_never_reads_is_limited_and_disconnected, asks_and_never_reads)

/* After a stop, writers do not wait for the peer; at twice the maximum it is disconnected. */
static int stopped_feeds(void *argument)
{
    struct bl_scope scope, *outer = bl_scope_current();
    size_t most = 0;
    int code = 0;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    bl_scope_init(&scope, outer);
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    bl_scope_enter(&scope);
    while (code == 0) {
        code = bl_rpc_notify(room.rpc, "n", params_of_1_KiB());
        most = bl_rpc_queued(room.rpc) > most ? bl_rpc_queued(room.rpc) : most;
    }
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK_EQUAL(code, BL_EPIPE);
    CHECK(most > BL_RPC_QUEUE_MAX && most <= 2 * BL_RPC_QUEUE_MAX);
    CHECK(strcmp(room.why, "takes nothing") == 0);
    CHECK_EQUAL(room.gone, 1);
    close_room(fd);
    return 0;
}

IN_LOOP(stopped_writer_does_not_wait_and_twice_the_maximum_disconnects, stopped_feeds)

/* ---- Ends ------------------------------------------------------------------------------------ */

static int closes(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang") REQUEST("2", "hang")));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    bl_rpc_close(room.rpc, BL_NS_PER_S);
    room.rpc = NULL;
    CHECK_EQUAL(room.serving, 0);
    CHECK_EQUAL(room.reason, BL_STOP_SHUTDOWN);
    CHECK_EQUAL(room.gone, 0);
    CHECK(hears(RESULT("1", "\"stopped\"")));
    CHECK(hears(RESULT("2", "\"stopped\"")));
    close_room(fd);
    return 0;
}

IN_LOOP(closing_stops_calls_and_sends_their_answers, closes)

/* A stop of all fibers does not keep an answer from being sent, even if the peer reads late. */
static int nursery_stops(void *argument)
{
    struct bl_scope shield;
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang")));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    while (bl_rpc_queued(room.rpc) == 0)
        CHECK_EQUAL(bl_rpc_notify(room.rpc, "n", params_of_1_KiB()), 0);
    bl_scope_stop(&room.nursery.scope, BL_STOP_SIGNAL, "SIGTERM");
    bl_sleep(20 * MS);
    CHECK_EQUAL(room.reason, BL_STOP_PARENT);
    CHECK_EQUAL(room.gone, 0);
    bl_shield_begin(&shield, 20 * BL_NS_PER_S);
    struct bl_text line;
    while (bl_text_starts_with(line = hear(), BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"n\"")))
        continue;
    CHECK(bl_text_equal(line, BL_TEXT(RESULT("1", "\"stopped\""))));
    bl_shield_end(&shield);
    room.reason = BL_STOP_NONE;
    close_room(fd);
    return 0;
}

IN_LOOP(answers_are_sent_after_a_stop_of_all_fibers, nursery_stops)

/* The last line may lack its LF; a peer that only shut down its sending side gets the answers. */
static int end_of_input(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang")));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    say(BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"now\"}"));
    CHECK_EQUAL(shutdown(room.fd, SHUT_WR), 0);
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    CHECK(bl_rpc_gone(room.rpc));
    CHECK(strcmp(room.why, "end of input") == 0);
    CHECK(hears(RESULT("2", "\"now\"")));
    CHECK(hears(RESULT("1", "\"stopped\"")));
    CHECK_EQUAL(room.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(bl_rpc_notify(room.rpc, "n", (struct bl_text){0}), BL_EPIPE);
    CHECK_EQUAL(
        bl_rpc_notify_piece(room.rpc, &(struct bl_rpc_piece){.method = "n", .key = BL_TEXT("k")}),
        BL_EPIPE);
    CHECK_EQUAL(room.gone, 1);
    close_room(fd);
    return 0;
}

IN_LOOP(end_of_input_stops_calls_and_sends_their_answers, end_of_input)

static int half_open(void *argument)
{
    (void)argument;
    for (int goes = 0; goes < 2; goes++) {
        int fd = open_room((struct bl_rpc_options){.half_open = true});
        say(BL_TEXT(REQUEST("1", "hang")));
        CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
        CHECK_EQUAL(shutdown(room.fd, SHUT_WR), 0);
        bl_sleep(20 * MS);
        CHECK_EQUAL(room.gone, 0);
        if (goes == 0) {
            bl_semaphore_give(&room.go);
            CHECK(hears(RESULT("1", "\"given\"")));
        } else {
            peer_go();
        }
        CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
        bl_sleep(MS);
        CHECK_EQUAL(room.reason, goes == 0 ? BL_STOP_NONE : BL_STOP_CLIENT_GONE);
        close_room(fd);
    }
    return 0;
}

IN_LOOP(half_open_peer_is_answered_after_its_last_byte, half_open)

static int vanishes(void *argument)
{
    (void)argument;
    int fd = open_room((struct bl_rpc_options){0});
    say(BL_TEXT(REQUEST("1", "hang")));
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    peer_go();
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    bl_sleep(MS);
    CHECK_EQUAL(room.reason, BL_STOP_CLIENT_GONE);
    CHECK_EQUAL(room.gone, 1);
    CHECK_EQUAL(room.serving, 0);
    close_room(fd);
    return 0;
}

IN_LOOP(disconnect_is_reported_once_and_stops_the_calls, vanishes)

/* ---- Pipes and files ------------------------------------------------------------------------- */

/* Pipes of other processes are left unchanged; a reader that disconnects is noticed with nothing to
 * write. */
static int pipes(void *argument)
{
    int to[2], from[2];
    (void)argument;
    CHECK_EQUAL(pipe2(to, O_CLOEXEC), 0);
    CHECK_EQUAL(pipe2(from, O_CLOEXEC), 0);
    begin((struct bl_rpc_options){.in = to[0], .out = from[1]});
    hold_peer(from[0]);
    struct bl_text line = BL_TEXT(REQUEST("1", "now") REQUEST("2", "hang"));
    CHECK_EQUAL(write(to[1], line.data, line.size), (ssize_t)line.size);
    CHECK(hears(RESULT("1", "\"now\"")));
    CHECK_EQUAL(fcntl(to[0], F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQUAL(fcntl(from[1], F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQUAL(bl_semaphore_take(&room.begun), 0);
    peer_go();
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    CHECK(strcmp(room.why, "broken output") == 0);
    bl_sleep(MS);
    CHECK_EQUAL(room.reason, BL_STOP_CLIENT_GONE);
    close_room(-1);
    close(to[0]);
    close(to[1]);
    close(from[1]);
    return 0;
}

IN_LOOP(pipes_stay_blocking_and_a_closed_reader_is_noticed, pipes)

/* Both directions are one terminal, which others use as well. */
static int terminal(void *argument)
{
    struct termios mode;
    (void)argument;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_EQUAL(tcgetattr(slave, &mode), 0);
    cfmakeraw(&mode);
    CHECK_EQUAL(tcsetattr(slave, TCSANOW, &mode), 0);
    begin((struct bl_rpc_options){.in = slave, .out = slave});
    hold_peer(master);
    say(BL_TEXT(REQUEST("1", "now")));
    CHECK(hears(RESULT("1", "\"now\"")));
    CHECK_EQUAL(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
    close_room(slave);
    return 0;
}

IN_LOOP(a_terminal_can_be_both_ends_and_stays_blocking, terminal)

static int files(void *argument)
{
    char path[] = "/tmp/belay-rpc-XXXXXX";
    (void)argument;
    int in = mkstemp(path), out = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    struct bl_text lines = BL_TEXT(REQUEST("1", "now") REQUEST("2", "nap") REQUEST("3", "now"));
    CHECK_EQUAL(write(in, lines.data, lines.size), (ssize_t)lines.size);
    unlink(path);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* From a file to /dev/null, and from /dev/null to a file. */
    CHECK_EQUAL(lseek(in, 0, SEEK_SET), 0);
    begin((struct bl_rpc_options){.in = in, .out = null});
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    CHECK(strcmp(room.why, "end of input") == 0);
    CHECK_EQUAL(room.served, 3);
    close_room(-1);
    begin((struct bl_rpc_options){.in = null, .out = out});
    CHECK_EQUAL(bl_rpc_notify(room.rpc, "n", (struct bl_text){0}), 0);
    CHECK_EQUAL(bl_rpc_wait_gone(room.rpc), 0);
    close_room(-1);
    char text[256];
    ssize_t size = pread(in, text, sizeof text, (off_t)lines.size);
    CHECK(bl_text_equal((struct bl_text){text, size > 0 ? (size_t)size : 0},
                        BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n")));
    close(in);
    close(out);
    close(null);
    return 0;
}

IN_LOOP(regular_files_can_be_read_and_written, files)

static int unusable(void *argument)
{
    struct bl_nursery nursery;
    struct bl_error error = {0};
    struct bl_rpc *rpc = NULL;
    int ends[2];
    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct {
        int in, out, code;
    } cases[] = {
        {ends[1], ends[1], BL_ECLOSED}, /* in the wrong direction */
        {ends[0], ends[0], BL_ECLOSED}, {folder, ends[1], BL_ENOTSUP},
        {-1, ends[1], BL_ECLOSED},      {ends[0], 99999, BL_ECLOSED},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        error = (struct bl_error){0};
        struct bl_rpc_options options = {.in = cases[i].in, .out = cases[i].out};
        CHECK_EQUAL(bl_rpc_open(&nursery, &options, &rpc, &error), cases[i].code);
        CHECK(error.message[0] != '\0');
    }
    bl_rpc_close(NULL, 0);
    bl_nursery_done(&nursery);
    close(folder);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

IN_LOOP(unusable_descriptors_are_refused, unusable)

SUITE(rpc, cmocka_unit_test(broken_lines_batches_and_200_levels_are_answered_with_errors),
      cmocka_unit_test(a_line_of_17_MiB_is_skipped_and_the_connection_lives),
      cmocka_unit_test(garbage_is_answered_with_errors),
      cmocka_unit_test(peer_that_never_reads_is_limited_and_disconnected),
      cmocka_unit_test(slow_peer_stays_connected),
      cmocka_unit_test(peer_that_sends_requests_and_never_reads_is_limited_and_disconnected),
      cmocka_unit_test(stopped_writer_does_not_wait_and_twice_the_maximum_disconnects),
      cmocka_unit_test(closing_stops_calls_and_sends_their_answers),
      cmocka_unit_test(answers_are_sent_after_a_stop_of_all_fibers),
      cmocka_unit_test(end_of_input_stops_calls_and_sends_their_answers),
      cmocka_unit_test(half_open_peer_is_answered_after_its_last_byte),
      cmocka_unit_test(disconnect_is_reported_once_and_stops_the_calls),
      cmocka_unit_test(pipes_stay_blocking_and_a_closed_reader_is_noticed),
      cmocka_unit_test(a_terminal_can_be_both_ends_and_stays_blocking),
      cmocka_unit_test(regular_files_can_be_read_and_written),
      cmocka_unit_test(unusable_descriptors_are_refused));
