/* Clients that request too much, read too little, or are too many. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "figure.h"
#include "wire_client.h"

#define OBSERVE   "{'session_id':'s-1','cell_id':'%s','generation':%u,'yield_time_ms':%u}"
#define TERMINATE "{'session_id':'s-1','cell_id':'%s','terminate_id':'t','reason':'user'}"

enum {
    CELLS = BL_CELL_REQUESTS_MAX / BL_CELL_WAITERS_MAX
};

static void full(struct wire_stage *stage)
{
    struct wire_client client;
    char cell[16];
    uint64_t ids[BL_CELL_REQUESTS_MAX];
    size_t count = 0;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (unsigned i = 0; i < CELLS; i++) {
        snprintf(cell, sizeof cell, "c-%u", i);
        CHECK_HAS(wire_call(&client, "create_cell",
                            "{'session_id':'s-1','cell_id':'%s','source':'setTimeout(() => 0, "
                            "600000); await new Promise(() => 0)','tools':[],"
                            "'limits':{'memory_bytes':16777216}}",
                            cell),
                  "created");
        for (unsigned j = 0; j < BL_CELL_WAITERS_MAX; j++)
            ids[count++] = wire_ask(&client, "observe", OBSERVE, cell, 1, 300000);
    }
    CHECK_EQUAL(count, BL_CELL_REQUESTS_MAX);
    const char *refused = wire_call(&client, "observe", OBSERVE, "c-1", 1, 300000);
    CHECK_HAS(refused, "'err':{'code':'limit_reached'");
    CHECK_HAS(refused, "'retryable':true,'limit':'requests','value':256}");
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}"),
              "'code':'limit_reached'");
    uint64_t from_ns = bl_now_ns();
    CHECK_HAS(wire_call(&client, "terminate", TERMINATE, "c-0"), "'type':'terminated'");
    CHECK(figure_since("C42 terminate while 256 observes wait", from_ns, 100));
    for (unsigned j = 0; j < BL_CELL_WAITERS_MAX; j++)
        CHECK_HAS(wire_reply(&client, ids[j]), "'type':'terminated'");
    /* There is room again, and a terminate is always accepted. */
    CHECK_HAS(wire_call(&client, "observe", OBSERVE, "c-0", 2, 0), "'type':'terminated'");
    wire_send(&client, "{'type':'cancel','id':%llu}", (unsigned long long)ids[count - 1]);
    CHECK_HAS(wire_reply(&client, ids[count - 1]), "'code':'cancelled'");
    CHECK_HAS(wire_call(&client, "close_session", "{'session_id':'s-1','forget':true}"),
              "'survivors':0");
    wire_leave(&client);
}

WIRE_TEST(C42_the_257th_observe_is_refused_and_terminate_still_works, full)

static void never_reads(struct wire_stage *stage)
{
    struct wire_client slow, other;
    unsigned replies = 80; /* of 1 MiB each: more than a queue can have */
    wire_join_session(&other, stage, "b", "s-2", 1000);
    wire_join_session(&slow, stage, "a", "s-1", 60000);
    CHECK_HAS(wire_create(&slow, "s-1", "c-1", "text(`x`.repeat(1 << 20))"), "created");
    const char *end = wire_ok(&slow, wire_call(&slow, "observe", OBSERVE, "c-1", 1, 20000));
    CHECK_HAS(end, "'type':'completed'");
    char *kept = bl_alloc(strlen(end) + 1);
    memcpy(kept, end, strlen(end) + 1);
    for (unsigned i = 0; i < replies; i++)
        wire_ask(&slow, "observe", OBSERVE, "c-1", 1, 0);
    /* It is disconnected although it reads nothing, and the others are served throughout. */
    uint64_t deadline_ns = bl_now_ns() + 20 * BL_NS_PER_S;
    while (wire_connections(stage) > 1 && bl_now_ns() < deadline_ns)
        CHECK_HAS(wire_call(&other, "list", "{'session_id':'s-2','after':null,'max':1}"),
                  "'type':'listed'");
    CHECK_EQUAL(wire_connections(stage), 1);
    CHECK_HAS(stage->log, "client a: too_slow");
    CHECK(wire_await_closed(&slow, 10 * BL_NS_PER_S));
    wire_leave(&slow);
    wire_join_session(&slow, stage, "a", "s-1", 1000);
    CHECK(strcmp(wire_ok(&slow, wire_call(&slow, "observe", OBSERVE, "c-1", 1, 0)), kept) == 0);
    bl_free(kept);
    wire_leave(&slow);
    wire_leave(&other);
}

WIRE_TEST(C42_a_client_that_never_reads_is_disconnected_and_loses_nothing, never_reads)

/* Too many small frames; a client that reads again within a moment gets the reason. */
static void too_many_frames(struct wire_stage *stage)
{
    struct wire_client client;
    int small = 4096;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_EQUAL(setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    for (unsigned i = 0; i < 5000 && strstr(stage->log, "too_slow") == NULL; i++) {
        wire_ask(&client, "list", "{'session_id':'s-1','after':null,'max':1}");
        bl_yield();
    }
    CHECK_HAS(stage->log, "client a: too_slow");
    CHECK_HAS(wire_await(&client, "bye"), "{'type':'bye','reason':'too_slow','message':'");
    CHECK(wire_await_closed(&client, 10 * BL_NS_PER_S));
    wire_leave(&client);
}

WIRE_TEST(a_queue_of_too_many_frames_is_too_slow, too_many_frames)

static void many_sessions(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join(&client, stage, "a", "");
    for (unsigned i = 0; i < BL_CELL_SESSIONS_MAX; i++)
        CHECK_HAS(wire_call(&client, "open_session",
                            "{'session_id':'s-%u','serves_tools':false,'linger_ms':0}", i),
                  "opened");
    CHECK_HAS(wire_call(&client, "open_session",
                        "{'session_id':'s-64','serves_tools':false,'linger_ms':0}"),
              "'retryable':true,'limit':'sessions','value':64}");
    /* An open session may be opened again, and a closed one makes room. */
    CHECK_HAS(wire_call(&client, "open_session",
                        "{'session_id':'s-5','serves_tools':false,'linger_ms':0}"),
              "opened");
    CHECK_HAS(wire_call(&client, "close_session", "{'session_id':'s-5','forget':true}"), "closed");
    CHECK_HAS(wire_call(&client, "open_session",
                        "{'session_id':'s-64','serves_tools':false,'linger_ms':0}"),
              "opened");
    wire_leave(&client);
}

WIRE_TEST(a_connection_has_64_sessions, many_sessions)

static void many_connections(struct wire_stage *stage)
{
    enum {
        AT_ONCE = 100
    };
    struct wire_client first, *crowd = bl_zalloc(AT_ONCE * sizeof *crowd);
    unsigned total = 1000, most = 0;
    wire_join_session(&first, stage, "a", "s-1", 1000);
    for (unsigned done = 0; done < total; done += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            wire_connect(&crowd[i], stage);
            bl_yield();
            most = wire_connections(stage) > most ? wire_connections(stage) : most;
        }
        CHECK_HAS(wire_call(&first, "list", "{'session_id':'s-1','after':null,'max':1}"),
                  "'type':'listed'");
        /* Connections over the limit are closed. */
        CHECK(wire_await_closed(&crowd[AT_ONCE - 1], 10 * BL_NS_PER_S));
        CHECK(bl_list_empty(&crowd[AT_ONCE - 1].incoming));
        for (unsigned i = 0; i < AT_ONCE; i++)
            wire_leave(&crowd[i]);
        while (wire_connections(stage) > 1 && bl_yield() == 0)
            continue;
    }
    CHECK_EQUAL(most, BL_CELL_CONNECTIONS_MAX);
    struct wire_client last;
    wire_join(&last, stage, "z", "");
    wire_leave(&last);
    wire_leave(&first);
    bl_free(crowd);
}

WIRE_TEST(a_thousand_connections_are_accepted_64_at_a_time, many_connections)

static void vanishes(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 60000);
    wire_create(&client, "s-1", "c-1",
                "text(`x`); setTimeout(() => 0, 60000);"
                "await new Promise(() => 0)");
    wire_ask(&client, "observe", OBSERVE, "c-1", 1, 60000);
    wire_ask(&client, "list", "{'session_id':'s-1','after':null,'max':1}");
    wire_send_bytes(&client, BL_TEXT("\0\1\0\0{\"type\":"));
    wire_leave(&client);
    while (wire_connections(stage) > 0 && bl_yield() == 0)
        continue;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_call(&client, "observe", OBSERVE, "c-1", 1, 0),
              "'type':'yielded','cell_id':'c-1','generation':1");
    CHECK_HAS(wire_call(&client, "terminate", TERMINATE, "c-1"), "'type':'terminated'");
    wire_leave(&client);
}

WIRE_TEST(a_client_that_vanishes_ends_only_its_own_waits, vanishes)

SUITE(server_limit, cmocka_unit_test(C42_the_257th_observe_is_refused_and_terminate_still_works),
      cmocka_unit_test(C42_a_client_that_never_reads_is_disconnected_and_loses_nothing),
      cmocka_unit_test(a_queue_of_too_many_frames_is_too_slow),
      cmocka_unit_test(a_connection_has_64_sessions),
      cmocka_unit_test(a_thousand_connections_are_accepted_64_at_a_time),
      cmocka_unit_test(a_client_that_vanishes_ends_only_its_own_waits));
