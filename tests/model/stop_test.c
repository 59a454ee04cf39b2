#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figure.h"
#include "remotely.h"

#define QUIET_MS   10
#define ROUNDS_MAX 200u

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

static unsigned stop_rounds(void)
{
    return figure_taking() ? ROUNDS_MAX : (unsigned)suite_rounds(10, ROUNDS_MAX);
}

/* ---- One call -------------------------------------------------------------------------------- */

/* A call in its own fiber and scope. */
struct asker {
    struct remotely *remotely;
    struct bl_nursery nursery;
    uint64_t ended_ns;
    int code;
};

static int asker_main(void *argument)
{
    struct asker *asker = argument;

    asker->code = remotely_ask(asker->remotely, "Say hi.");
    asker->ended_ns = bl_now_ns();
    return 0;
}

static void asker_start(struct asker *asker, struct remotely *remotely)
{
    bl_buffer_clear(&remotely->recorder.log);
    *asker = (struct asker){.remotely = remotely};
    bl_nursery_init(&asker->nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&asker->nursery, NULL, "asker", asker_main, asker, NULL), 0);
}

/* Stops the call, and returns the time until its end. */
static uint64_t asker_stop(struct asker *asker)
{
    uint64_t from_ns = bl_now_ns();

    bl_scope_stop(&asker->nursery.scope, BL_STOP_USER, "test");
    bl_nursery_join(&asker->nursery);
    bl_nursery_done(&asker->nursery);
    return asker->ended_ns - from_ns;
}

static void await_log(struct remotely *remotely, const char *part)
{
    while (strstr(recorder_log(&remotely->recorder), part) == NULL) {
        if (!CHECK_EQUAL(bl_sleep(MS / 4), 0))
            return;
    }
}

static int stop_in_backoff(void *argument)
{
    static uint64_t times_ns[ROUNDS_MAX];
    static struct remotely remotely;
    unsigned rounds = stop_rounds();
    unsigned before = 0;
    struct asker asker;

    (void)argument;
    remotely_init(&remotely, BL_API_ANTHROPIC);
    remotely_answer(&remotely, 529, "retry-after-ms: 30000\r\n", "application/json", BL_TEXT("{}"));
    remotely_open(&remotely);
    for (unsigned i = 0; i < rounds; i++) {
        asker_start(&asker, &remotely);
        await_log(&remotely, "retry 1 of 4 overloaded 529\n");
        times_ns[i] = asker_stop(&asker);
        CHECK_EQUAL(asker.code, BL_ECANCELED);
        CHECK_STRING(remotely.recorder.sink.detail, "in backoff 1 of 4");
        CHECK(!remotely.recorder.sink.abandoned);
        CHECK_EQUAL(peer_await_closed(remotely.peer, 5 * BL_NS_PER_S), 0);
        if (i == 0)
            before = peer_descriptors();
        CHECK_EQUAL(peer_descriptors(), before);
        CHECK_EQUAL(peer_requests(remotely.peer), i + 1);
    }
    bl_sleep(20 * MS);
    CHECK_EQUAL(peer_requests(remotely.peer), rounds);
    CHECK(figure_at_most("P1 stop in backoff", figure_p99_ms(times_ns, rounds), QUIET_MS));
    remotely_done(&remotely);
    return 0;
}

static void P1_stop_in_backoff_is_quiet_at_once_and_sends_nothing_more(void **state BL_UNUSED)
{
    run_in_loop(stop_in_backoff, NULL);
}

/* Returns the stream up to after its text, without its end. */
static struct bl_text beginning(enum bl_api api)
{
    struct bl_text stream = remotely_hello(api);
    size_t size = (size_t)bl_text_find(stream, BL_TEXT("Hi."));

    while (stream.data[size] != '\n')
        size++;
    size += api == BL_API_OLLAMA ? 1 : 2;
    return (struct bl_text){stream.data, size};
}

static int stop_in_stream(void *argument)
{
    static uint64_t times_ns[ROUNDS_MAX];
    static struct remotely remotely;
    unsigned rounds = stop_rounds();

    (void)argument;
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct bl_text stream = beginning(apis[i]);
        char detail[64];
        struct asker asker;
        unsigned before = 0;
        remotely_init(&remotely, apis[i]);
        struct peer_act acts[] = {
            {.type = PEER_READ_REQUEST},
            {.type = PEER_SEND,
             .bytes = peer_answer(&remotely.arena, 200, remotely_type(apis[i]), NULL, stream)},
            {.type = PEER_SILENCE}};
        remotely_acts(&remotely, acts, BL_COUNT(acts));
        remotely_open(&remotely);
        snprintf(detail, sizeof detail, "stream cut after %zu bytes", stream.size);
        for (unsigned round = 0; round < rounds; round++) {
            asker_start(&asker, &remotely);
            await_log(&remotely, "text Hi.\n");
            times_ns[round] = asker_stop(&asker);
            CHECK_EQUAL(asker.code, BL_ECANCELED);
            CHECK_STRING(remotely.recorder.sink.detail, detail);
            CHECK(strstr(recorder_log(&remotely.recorder), "stop ") == NULL);
            CHECK_EQUAL(peer_await_closed(remotely.peer, 5 * BL_NS_PER_S), 0);
            if (round == 0)
                before = peer_descriptors();
            CHECK_EQUAL(peer_descriptors(), before);
        }
        CHECK_EQUAL(peer_requests(remotely.peer), rounds);
        CHECK_EQUAL(peer_connections(remotely.peer), rounds);
        snprintf(detail, sizeof detail, "P1 stop in a stream, %s", bl_api_name(apis[i]));
        CHECK(figure_at_most(detail, figure_p99_ms(times_ns, rounds), QUIET_MS));
        remotely_done(&remotely);
    }
    return 0;
}

static void P1_stop_in_a_stream_is_immediate_and_reports_the_position(void **state BL_UNUSED)
{
    run_in_loop(stop_in_stream, NULL);
}

/* ---- Ten thousand ---------------------------------------------------------------------------- */

/* A server in another process, so that its descriptors are not ours: it answers each request with
 * the beginning of a stream, and then stays silent. */
struct crowd_server {
    pid_t pid;
    uint16_t port;
    int report; /* receives the number of closed connections, once `expected` have closed */
};

#define CROWD_EVENTS 256

static struct bl_text crowd_stream(void)
{
    return BL_TEXT("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                   "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{"
                   "\"input_tokens\":3,\"output_tokens\":1}}}\n\n"
                   "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
                   "\"type\":\"text\",\"text\":\"\"}}\n\n"
                   "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                   "\"text_delta\",\"text\":\"Hi.\"}}\n\n");
}

/* Returns true when the client has disconnected. */
static bool crowd_talk(int fd)
{
    char bytes[4096];
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        return true;
    /* The request is small: its last byte ends the body. */
    if (count > 0 && bytes[count - 1] == '}') {
        struct bl_text stream = crowd_stream();
        (void)!send(fd, stream.data, stream.size, MSG_NOSIGNAL);
    }
    return false;
}

static void crowd_serve(int listener, int report, uint32_t expected)
{
    struct epoll_event events[CROWD_EVENTS], event = {.events = EPOLLIN, .data.fd = listener};
    int poll = epoll_create1(EPOLL_CLOEXEC);
    uint32_t closed = 0;

    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    while (closed < expected) {
        int count = epoll_wait(poll, events, CROWD_EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                if (event.data.fd >= 0)
                    epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else if (crowd_talk(fd)) {
                close(fd);
                closed++;
            }
        }
    }
    (void)!write(report, &closed, sizeof closed);
}

static void crowd_server_start(struct crowd_server *server, uint32_t expected)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int ends[2], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 4096), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pipe(ends), 0);
    server->port = ntohs(address.sin_port);
    server->report = ends[0];
    server->pid = fork();
    if (server->pid == 0) {
        close(ends[0]);
        crowd_serve(listener, ends[1], expected);
        _exit(0);
    }
    close(listener);
    close(ends[1]);
    assert_true(server->pid > 0);
}

struct crowd {
    struct crowd_server server;
    struct bl_remote *remote;
    struct bl_model model;
    struct bl_scope scope;
    uint32_t size;
    uint32_t answered; /* have received text */
    uint32_t cut;      /* ended as expected */
};

struct crowd_member {
    struct bl_sink sink;
    struct crowd *crowd;
};

static int take_piece(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct crowd_member *member = BL_CONTAINER(sink, struct crowd_member, sink);

    member->crowd->answered += piece->type == BL_PIECE_TEXT;
    return 0;
}

static int member_main(void *argument)
{
    struct crowd *crowd = argument;
    struct crowd_member *member = bl_zalloc(sizeof *member);
    struct bl_arena arena;
    struct bl_session session;
    struct bl_list messages;
    struct bl_error error = {0};
    struct bl_request request = {.session = &session, .messages = &messages};

    member->sink.take = take_piece;
    member->crowd = crowd;
    bl_arena_init(&arena);
    bl_session_init(&session, "crowd");
    bl_list_init(&messages);
    struct bl_message *message = bl_message_add(&arena, &messages, BL_ROLE_USER);
    bl_block_add(&arena, message, BL_BLOCK_TEXT)->text = BL_TEXT("Say hi.");
    int code = crowd->model.call(crowd->model.context, &request, &member->sink, &error);
    crowd->cut +=
        code == BL_ECANCELED && strncmp(member->sink.detail, "stream cut after ", 17) == 0;
    bl_session_done(&session);
    bl_arena_done(&arena);
    bl_free(member);
    return 0;
}

/* Runs `count` streams and stops all of them at once; returns the time from the stop to the last
 * end. */
static uint64_t stop_streams(struct crowd *crowd, uint32_t count)
{
    struct bl_nursery nursery;

    crowd->answered = crowd->cut = 0;
    bl_scope_init(&crowd->scope, bl_scope_current());
    bl_nursery_init(&nursery, &crowd->scope);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stream", member_main, crowd, NULL), 0);
    while (crowd->answered < count && CHECK_EQUAL(bl_sleep(MS), 0))
        ;
    CHECK(peer_descriptors() >= count);
    uint64_t from_ns = bl_now_ns();
    bl_scope_stop(&crowd->scope, BL_STOP_USER, "test");
    bl_nursery_join(&nursery);
    uint64_t ns = bl_now_ns() - from_ns;
    bl_nursery_done(&nursery);
    bl_scope_done(&crowd->scope);
    CHECK_EQUAL(crowd->cut, count);
    return ns;
}

static int stop_crowd(void *argument)
{
    struct crowd *crowd = argument;
    char url[64];
    struct bl_provider provider = {
        .name = "there", .api = BL_API_ANTHROPIC, .base_url = url, .connect_ns = 300 * BL_NS_PER_S};
    struct bl_profile profile = {.model = "test-1"};
    struct bl_remote_options options = {.provider = &provider, .profile = &profile, .seed = 1};
    struct bl_error error = {0};
    struct bl_scope scope;

    snprintf(url, sizeof url, "http://127.0.0.1:%u", crowd->server.port);
    CHECK_EQUAL(bl_remote_new(&options, &crowd->remote, &crowd->model, &error), 0);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 300 * BL_NS_PER_S);
    struct bl_scope *outer = bl_scope_enter(&scope);
    /* Allocations of the first call stay, and are not counted. */
    stop_streams(crowd, 1);
    unsigned before = peer_descriptors();
    uint64_t ns = stop_streams(crowd, crowd->size);
    CHECK_EQUAL(peer_descriptors(), before);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK(figure_at_most("P2 stop of 10,000 streams", (double)ns / MS, 500));
    bl_remote_free(crowd->remote);
    return 0;
}

/* Returns the number of streams that the descriptor limit allows. */
static uint32_t crowd_size(void)
{
    uint64_t wanted = figure_taking() ? 10000 : suite_rounds(500, SUITE_SANITIZED ? 2000 : 10000);
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur > (figure_taking() ? wanted : 100) + 100);
    return (uint32_t)(wanted < limit.rlim_cur - 100 ? wanted : limit.rlim_cur - 100);
}

static void P2_one_stop_ends_thousands_of_streams_and_gives_their_descriptors_back(
    void **state BL_UNUSED)
{
    struct crowd crowd = {.size = crowd_size()};
    uint32_t closed = 0;
    int status = -1;

    crowd_server_start(&crowd.server, crowd.size + 1);
    run_in_loop(stop_crowd, &crowd);
    /* The server has seen each of them close. */
    assert_int_equal(read(crowd.server.report, &closed, sizeof closed), sizeof closed);
    assert_int_equal(closed, crowd.size + 1);
    close(crowd.server.report);
    assert_int_equal(waitpid(crowd.server.pid, &status, 0), crowd.server.pid);
    assert_int_equal(status, 0);
}

SUITE(stop, cmocka_unit_test(P1_stop_in_backoff_is_quiet_at_once_and_sends_nothing_more),
      cmocka_unit_test(P1_stop_in_a_stream_is_immediate_and_reports_the_position),
      cmocka_unit_test(P2_one_stop_ends_thousands_of_streams_and_gives_their_descriptors_back));
