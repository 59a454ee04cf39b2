#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asking.h"

static int unused(void *argument)
{
    (void)argument;
    unsigned before = peer_descriptors();
    struct bl_client *client = bl_client_new(&(struct bl_client_options){0});
    CHECK_EQUAL(peer_descriptors(), before);
    bl_client_free(client);
    bl_client_free(NULL);
    return 0;
}

static void client_that_is_not_used_costs_nothing(void **state BL_UNUSED)
{
    run_in_loop(unused, NULL);
}

#define AT_ONCE 20

static int idle(void *argument)
{
    static const struct peer_act slow[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_PAUSE, .pause_ns = 20 * MS},
        {.type = PEER_SEND, .bytes = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40}},
        {.type = PEER_AGAIN},
        {.type = PEER_END}};
    struct peer_script scripts[] = {{slow}};
    static struct asking askings[AT_ONCE];
    static struct asker askers[AT_ONCE];
    struct bl_nursery nursery;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    struct bl_client *client = bl_client_new(&(struct bl_client_options){0});
    for (size_t i = 0; i < AT_ONCE; i++) {
        asking_init(&askings[i]);
        askings[i].client = client;
        asker_start(&askers[i], &askings[i], peer_url(peer, "/"));
    }
    for (size_t i = 0; i < AT_ONCE; i++) {
        asker_join(&askers[i]);
        CHECK_EQUAL(askers[i].code, 0);
    }
    CHECK_EQUAL(peer_connections(peer), AT_ONCE);
    /* The closes arrive at the peer. */
    for (int i = 0; i < 1000 && peer_open(peer) > 8; i++)
        bl_sleep(MS);
    CHECK_EQUAL(peer_open(peer), 8);
    for (size_t i = 0; i < AT_ONCE; i++)
        bl_buffer_done(&askings[i].body);
    bl_client_free(client);
    CHECK_EQUAL(peer_await_closed(peer, 5 * BL_NS_PER_S), 0);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void eight_idle_connections_are_kept_and_closed_with_the_client(void **state BL_UNUSED)
{
    run_in_loop(idle, NULL);
}

static int stopped_early(void *argument)
{
    static const struct peer_act silent[] = {{.type = PEER_SILENCE}, {.type = PEER_END}};
    struct peer_script scripts[] = {{silent}};
    static struct asking asking;
    struct bl_nursery nursery;
    struct bl_scope scope;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    asking_init(&asking);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), BL_ECANCELED);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK(strcmp(asking.place, "never sent") == 0);
    bl_sleep(20 * MS); /* a connection would have arrived */
    CHECK_EQUAL(peer_connections(peer), 0);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void exchange_that_is_stopped_before_it_begins_opens_no_connection(void **state BL_UNUSED)
{
    run_in_loop(stopped_early, NULL);
}

static int wait_for_bytes(void *descriptor)
{
    return bl_descriptor_wait(descriptor, BL_READABLE, NULL);
}

/* The loop still polls the number of a closed descriptor: the next socket gets the same number, and
 * cannot be watched. */
static int unwatched(void *argument)
{
    static const struct peer_act answers[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40}},
        {.type = PEER_END}};
    struct peer_script scripts[] = {{answers}};
    static struct asking asking;
    struct bl_nursery nursery, waiting;
    struct bl_descriptor *descriptor;

    (void)argument;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_init(&waiting, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, 1);
    asking_init(&asking);
    /* Descriptors that a client opens with its first request must not take the number. */
    CHECK_EQUAL(ask(&asking, "http://127.0.0.1:1/"), BL_EIO);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(bl_descriptor_new(fd, &descriptor), 0);
    bl_nursery_spawn(&waiting, NULL, "waiting", wait_for_bytes, descriptor, NULL);
    bl_sleep(MS); /* the loop polls it now */
    close(fd);
    CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), BL_EIO);
    CHECK(strcmp(asking.failure.code, "connect") == 0);
    CHECK(!asking.failure.timed_out);
    CHECK(strcmp(asking.failure.message, "cannot watch the socket") == 0);
    bl_scope_stop(&waiting.scope, BL_STOP_USER, "test");
    bl_nursery_done(&waiting);
    bl_descriptor_free(descriptor);
    CHECK_EQUAL(ask(&asking, peer_url(peer, "/")), 0);
    asking_done(&asking);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    return 0;
}

static void exchange_fails_alone_when_its_socket_cannot_be_watched(void **state BL_UNUSED)
{
    run_in_loop(unwatched, NULL);
}

#define WITHOUT_LIBRARY "WIRE_TEST_WITHOUT_LIBCURL"

static int refused(void *argument BL_UNUSED)
{
    static struct asking asking;

    asking_init(&asking);
    CHECK_EQUAL(ask(&asking, "http://127.0.0.1:1/"), BL_ENOTSUP);
    CHECK_EQUAL(asking.error.code, BL_ENOTSUP);
    CHECK(strstr(asking.error.message, "libcurl.so.4") != NULL);
    CHECK(strcmp(asking.error.hint, "install libcurl4") == 0);
    asking_done(&asking);
    return 0;
}

/* Runs in another program, for which libcurl is an empty file. */
static void without_libcurl_a_request_is_refused(void **state BL_UNUSED)
{
    char folder[] = "/tmp/belay-wire-XXXXXX", library[64];
    char *const words[] = {"wire_test", "without_libcurl_*", NULL};
    extern char **environ;
    pid_t pid;
    int status = -1;

    if (getenv(WITHOUT_LIBRARY) != NULL) {
        run_in_loop(refused, NULL);
        return;
    }
    assert_non_null(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/libcurl.so.4", folder);
    close(open(library, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    setenv("LD_LIBRARY_PATH", folder, true);
    setenv(WITHOUT_LIBRARY, "1", true);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ), 0);
    unsetenv("LD_LIBRARY_PATH");
    unsetenv(WITHOUT_LIBRARY);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(library);
    rmdir(folder);
    assert_int_equal(status, 0);
}

SUITE(client, cmocka_unit_test(without_libcurl_a_request_is_refused),
      cmocka_unit_test(client_that_is_not_used_costs_nothing),
      cmocka_unit_test(exchange_that_is_stopped_before_it_begins_opens_no_connection),
      cmocka_unit_test(exchange_fails_alone_when_its_socket_cannot_be_watched),
      cmocka_unit_test(eight_idle_connections_are_kept_and_closed_with_the_client));
