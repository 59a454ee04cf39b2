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
    /* Closing them arrives at the peer. */
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

SUITE(client, cmocka_unit_test(client_that_is_not_used_costs_nothing),
      cmocka_unit_test(eight_idle_connections_are_kept_and_closed_with_the_client));
