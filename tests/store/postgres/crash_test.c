/* A server that crashes under committing workers, and a session that two hosts open at once. */
#include <postgres.h>
#include <stdio.h>

#include "helpers.h"

#define WORKERS   16u
#define TURNS_MAX 100000u

/* ---- W9: crashes ---- */

struct crash_worker {
    struct place *place;
    unsigned number;
    bool *over;
    unsigned long acknowledged;
    unsigned long refused; /* with an error that says that the turn is not there */
    unsigned long unknown;
    uint64_t longest_ns;
};

/* Tries to hold the session until it succeeds: the server may be down. */
static bool hold_again(struct crash_worker *worker, struct bl_store *store, struct holding *holding)
{
    char id[16];
    snprintf(id, sizeof id, "s-%u", worker->number);
    int code = hold(holding, store, id);
    for (int tries = 1; code != 0 && tries < 300; tries++) {
        release(holding);
        bl_sleep(20 * MS);
        code = hold(holding, store, id);
    }
    if (code != 0) {
        fprintf(stderr, "session %s cannot be held again: %s\n", id, holding->error.message);
        release(holding);
    }
    return CHECK_EQUAL(code, 0);
}

static int commit_until_over(void *argument)
{
    struct crash_worker *worker = argument;
    struct bl_store *store = store_at(worker->place);
    struct holding holding;
    if (store == NULL || !hold_again(worker, store, &holding))
        return 1;
    for (unsigned i = 0; !*worker->over && i < TURNS_MAX; i++) {
        char turn_id[BL_ID_SIZE];
        snprintf(turn_id, sizeof turn_id, "turn_%u_%u", worker->number, i);
        int code = begin_turn(&holding, turn_id);
        uint64_t from_ns = bl_now_ns();
        if (code == 0)
            code = commit_turn(&holding, turn_id);
        uint64_t took_ns = bl_now_ns() - from_ns;
        worker->longest_ns = took_ns > worker->longest_ns ? took_ns : worker->longest_ns;
        worker->acknowledged += code == 0;
        worker->unknown += code == BL_EUNKNOWN;
        worker->refused += code != 0 && code != BL_EUNKNOWN;
        if (code == 0)
            continue;
        release(&holding);
        if (!hold_again(worker, store, &holding))
            break;
    }
    release(&holding);
    bl_store_close(store);
    return 0;
}

static int crash_under_load(void *argument)
{
    struct place *place = argument;
    struct pg_server *server = pg_server_shared();
    struct crash_worker workers[WORKERS];
    struct bl_nursery nursery;
    bool over = false;
    unsigned long acknowledged = 0, unknown = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct crash_worker){.place = place, .number = i, .over = &over};
        bl_nursery_spawn(&nursery, NULL, "worker", commit_until_over, &workers[i], NULL);
    }
    for (unsigned long i = 0; i < suite_rounds(4, 20); i++) {
        bl_sleep(300 * MS);
        CHECK(pg_server_kill(server));
        CHECK(pg_server_restart(server));
    }
    bl_sleep(300 * MS);
    over = true;
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (unsigned i = 0; i < WORKERS; i++) {
        acknowledged += workers[i].acknowledged;
        unknown += workers[i].unknown;
        CHECK(workers[i].acknowledged > 0);
        CHECK(workers[i].longest_ns < 20 * BL_NS_PER_S);
    }
    int64_t rows = ask_integer(place, "select count(*) from turn");
    CHECK_EQUAL(ask_integer(place, "select count(distinct id) from turn"), rows);
    CHECK_EQUAL(ask_integer(place, "select sum(turns_total)::bigint from session"), rows);
    /* What was refused is not there, and what was acknowledged is. */
    CHECK(rows >= (int64_t)acknowledged && rows <= (int64_t)(acknowledged + unknown));
    return 0;
}

static void W9_no_acknowledged_turn_is_lost_in_crashes(void **state BL_UNUSED)
{
    struct place place;
    place_make_database(&place);
    run_in_loop(crash_under_load, &place);
    place_remove(&place);
}

static void W7_W9_no_acknowledged_turn_is_lost_in_crashes(void **state BL_UNUSED)
{
    struct place place;
    place_make_pooled(&place);
    run_in_loop(crash_under_load, &place);
    place_remove(&place);
}

/* ---- W5: two hosts ---- */

struct rival {
    struct bl_store *store;
    const char *id;
    struct holding holding;
    int code;
};

static int hold_as_rival(void *argument)
{
    struct rival *rival = argument;
    rival->code = hold(&rival->holding, rival->store, rival->id);
    return 0;
}

static int open_from_two_hosts(void *argument)
{
    struct place *place = argument;
    static const char *const hosts[] = {"host-a", "host-b"};
    struct rival rivals[2];
    for (int i = 0; i < 2; i++)
        rivals[i] = (struct rival){.store = store_on(place, hosts[i])};
    for (unsigned long round = 0; round < suite_rounds(50, 1000); round++) {
        struct bl_nursery nursery;
        char id[32];
        snprintf(id, sizeof id, "s-%lu", round);
        bl_nursery_init(&nursery, bl_scope_current());
        for (int i = 0; i < 2; i++) {
            rivals[i].id = id;
            bl_nursery_spawn(&nursery, NULL, "rival", hold_as_rival, &rivals[i], NULL);
        }
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        int winner = rivals[0].code == 0 ? 0 : 1, loser = 1 - winner;
        CHECK_EQUAL(rivals[winner].code, 0);
        CHECK_EQUAL(rivals[loser].code, BL_EBUSY);
        CHECK(strstr(rivals[loser].holding.error.message, hosts[winner]) != NULL);
        release(&rivals[loser].holding);
        release(&rivals[winner].holding);
        CHECK_EQUAL(hold(&rivals[loser].holding, rivals[loser].store, id), 0);
        CHECK_EQUAL(rivals[loser].holding.held->grip.epoch, 2);
        release(&rivals[loser].holding);
    }
    /* --continue finds only the sessions of its own host. */
    struct bl_store_hold_options newest = {.newest = true, .directory = "/home/somebody"};
    CHECK_EQUAL(hold(&rivals[0].holding, rivals[0].store, "of-a"), 0);
    release(&rivals[0].holding);
    CHECK_EQUAL(hold(&rivals[1].holding, rivals[1].store, "of-b"), 0);
    release(&rivals[1].holding);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(hold_with(&rivals[i].holding, rivals[i].store, &newest), 0);
        CHECK(strcmp(rivals[i].holding.session.id, i == 0 ? "of-a" : "of-b") == 0);
        release(&rivals[i].holding);
        bl_store_close(rivals[i].store);
    }
    return 0;
}

static void W5_one_of_two_hosts_gets_a_session(void **state BL_UNUSED)
{
    struct place place;
    place_make_database(&place);
    run_in_loop(open_from_two_hosts, &place);
    place_remove(&place);
}

SUITE(pg_crash, cmocka_unit_test(W5_one_of_two_hosts_gets_a_session),
      cmocka_unit_test(W9_no_acknowledged_turn_is_lost_in_crashes),
      cmocka_unit_test(W7_W9_no_acknowledged_turn_is_lost_in_crashes));
