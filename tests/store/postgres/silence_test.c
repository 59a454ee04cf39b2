/* W14: servers and name servers that stay silent hold up neither the loop nor a stop. */
#include <arpa/inet.h>
#include <pgproxy.h>
#include <postgres.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "store/postgres/postgres.h"

/* Ten times what the specification says. */
#define STALL_NS    (200 * MS)
#define STOP_NS     (500 * MS)
#define STOP_FROM   (300 * MS)
#define SILENCE_TCP "postgres://" PG_USER ":" PG_PASSWORD "@127.0.0.1:%u/none%s"

static uint64_t silence_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * BL_NS_PER_S + (uint64_t)time.tv_nsec;
}

/* A call that does not come to an end by itself. */
struct silence {
    void (*call)(struct silence *silence);
    char where[PG_ADDRESS_SIZE];
    struct bl_store *store;
    struct holding holding;
    int code;
    bool returned;
    uint64_t returned_ns;
    bool over;
    uint64_t longest_ns; /* between turns of the loop */
};

static int silence_tick(void *argument)
{
    struct silence *silence = argument;
    while (!silence->over) {
        uint64_t from_ns = silence_now_ns();
        if (bl_sleep(MS) != 0)
            break;
        uint64_t gap_ns = silence_now_ns() - from_ns - MS;
        silence->longest_ns = gap_ns > silence->longest_ns ? gap_ns : silence->longest_ns;
    }
    return 0;
}

static int silence_call(void *argument)
{
    struct silence *silence = argument;
    silence->call(silence);
    silence->returned_ns = silence_now_ns();
    silence->returned = true;
    return 0;
}

/* Makes the call, and stops its caller while it waits. */
static void stop_in_silence(struct silence *silence, const char *what)
{
    struct bl_nursery nursery;
    struct bl_scope caller;
    struct bl_fiber *fiber = NULL;
    silence->over = silence->returned = false;
    silence->longest_ns = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_scope_init(&caller, &nursery.scope);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "tick", silence_tick, silence, NULL), 0);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, &caller, "call", silence_call, silence, &fiber), 0);
    bl_sleep(STOP_FROM);
    CHECK(!silence->returned);
    uint64_t stopped_ns = silence_now_ns();
    bl_scope_stop(&caller, BL_STOP_USER, "test");
    bl_fiber_join(fiber, NULL);
    bl_scope_done(&caller);
    silence->over = true;
    bl_nursery_done(&nursery);
    CHECK(silence->code != 0);
    bool fast = CHECK(silence->longest_ns < STALL_NS);
    fast = CHECK(silence->returned_ns - stopped_ns < STOP_NS) && fast;
    if (!fast || suite_rounds(0, 1) > 0)
        fprintf(stderr, "%s: longest stall %.1f ms, stopped after %.1f ms\n", what,
                (double)silence->longest_ns / 1e6,
                (double)(silence->returned_ns - stopped_ns) / 1e6);
}

static void open_silent(struct silence *silence)
{
    silence->code = bl_store_open(silence->where, &silence->store, NULL);
}

/* ---- A server -------------------------------------------------------------------------------- */

PROXY_TEST(W14_server_that_accepts_and_stays_silent_blocks_nothing)
{
    struct silence silence = {.call = open_silent};
    snprintf(silence.where, sizeof silence.where, "%s", place->where);
    pg_proxy_fault(place->proxy, &(struct pg_fault){.type = PG_HALF_OPEN});
    stop_in_silence(&silence, "accepts");
    /* From its first answer on. */
    pg_proxy_fault(place->proxy, &(struct pg_fault){.type = PG_DROP, .times = 1});
    stop_in_silence(&silence, "answers the start");
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 1);
}

static void commit_silent(struct silence *silence)
{
    silence->code = commit_turn(&silence->holding, "turn_1");
}

static void list_silent(struct silence *silence)
{
    BL_AUTO_ARENA(arena);
    struct bl_list summaries;
    bl_list_init(&summaries);
    silence->code = bl_store_list(silence->store, &arena, NULL, 0, false, &summaries, NULL);
}

PROXY_TEST(W14_commit_at_a_server_that_falls_silent_blocks_nothing)
{
    struct silence silence = {.store = store_at(place)};
    CHECK_EQUAL(hold(&silence.holding, silence.store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&silence.holding, "turn_1"), 0);
    pg_proxy_fault(place->proxy, &(struct pg_fault){.type = PG_HALF_OPEN});
    silence.call = commit_silent;
    stop_in_silence(&silence, "commit");
    CHECK_EQUAL(silence.code, BL_EUNKNOWN);
    silence.call = list_silent;
    stop_in_silence(&silence, "list");
    pg_proxy_fault(place->proxy, NULL);
    pg_proxy_cut(place->proxy);
    release(&silence.holding);
    bl_store_close(silence.store);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* Agrees to encrypt each connection, and then says nothing. */
static void *agree_to_encrypt(void *argument)
{
    int listener = *(int *)argument, fds[16];
    size_t count = 0;
    for (int fd; count < BL_COUNT(fds) && (fd = accept(listener, NULL, NULL)) >= 0;) {
        char request[8];
        fds[count++] = fd;
        if (recv(fd, request, sizeof request, MSG_WAITALL) == (ssize_t)sizeof request)
            send(fd, "S", 1, MSG_NOSIGNAL);
    }
    while (count > 0)
        close(fds[--count]);
    return NULL;
}

static int handshake_hangs(void *argument)
{
    struct silence silence = {.call = open_silent};
    snprintf(silence.where, sizeof silence.where, SILENCE_TCP, *(unsigned *)argument,
             "?sslmode=require");
    stop_in_silence(&silence, "handshake");
    return 0;
}

/* Returns a socket at a free port of 127.0.0.1. */
static int silent_socket(int type, unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void W14_tls_handshake_that_hangs_blocks_nothing(void **state BL_UNUSED)
{
    pthread_t thread;
    unsigned port;
    pg_skip_unless_available();
    int listener = silent_socket(SOCK_STREAM, &port);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(pthread_create(&thread, NULL, agree_to_encrypt, &listener), 0);
    run_in_loop(handshake_hangs, &port);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

/* ---- A name server --------------------------------------------------------------------------- */

struct nameless {
    struct silence silence;
    struct pg_store store;
};

static void connect_nameless(struct silence *silence)
{
    struct nameless *nameless = BL_CONTAINER(silence, struct nameless, silence);
    silence->code = pg_link_open(&nameless->store.work, NULL);
}

static int name_is_not_known(void *argument)
{
    struct nameless nameless = {.silence.call = connect_nameless};
    struct pg_store *store = &nameless.store;
    char servers[32];
    snprintf(servers, sizeof servers, "127.0.0.1:%u", *(unsigned *)argument);
    CHECK_EQUAL(
        pg_address_make("postgres://u@database.example/d", false, "test", &store->address, NULL),
        0);
    store->resolver = bl_client_new(&(struct bl_client_options){.name_servers = servers});
    store->work = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_NS};
    stop_in_silence(&nameless.silence, "name server");
    pg_link_close(&store->work);
    bl_client_free(store->resolver);
    pg_address_done(&store->address);
    return 0;
}

static void W14_name_server_that_does_not_answer_blocks_nothing(void **state BL_UNUSED)
{
    unsigned port;
    pg_skip_unless_available();
    int server = silent_socket(SOCK_DGRAM, &port);
    run_in_loop(name_is_not_known, &port);
    close(server);
}

SUITE(pg_silence, cmocka_unit_test(W14_server_that_accepts_and_stays_silent_blocks_nothing),
      cmocka_unit_test(W14_commit_at_a_server_that_falls_silent_blocks_nothing),
      cmocka_unit_test(W14_tls_handshake_that_hangs_blocks_nothing),
      cmocka_unit_test(W14_name_server_that_does_not_answer_blocks_nothing));
