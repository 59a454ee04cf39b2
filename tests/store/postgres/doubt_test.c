/* Commits whose answer does not come: the turn is found, or it is not there and never will be. The
 * faults are those of a proxy between the store and a real server. */
#include <pgproxy.h>
#include <postgres.h>
#include <stdio.h>

#include "helpers.h"

#define SESSIONS 8u

/* One of several sessions that commit at once. */
struct committer {
    struct holding holding;
    char turn_id[BL_ID_SIZE];
    int code;
};

static int commit_in_doubt(void *argument)
{
    struct committer *committer = argument;
    committer->code = commit_turn(&committer->holding, committer->turn_id);
    return 0;
}

/* Sessions that hold, then begin and commit one turn after another, all at once, with a fault at
 * each commit. */
static void commit_with_fault(struct place *place, unsigned rounds, const struct pg_fault *fault)
{
    struct bl_store *store = store_at(place);
    struct committer committers[SESSIONS];
    struct bl_nursery nursery;
    for (unsigned i = 0; i < SESSIONS; i++) {
        char id[16];
        snprintf(id, sizeof id, "s-%u", i);
        committers[i] = (struct committer){.code = 0};
        CHECK_EQUAL(hold(&committers[i].holding, store, id), 0);
    }
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < SESSIONS; i++) {
            snprintf(committers[i].turn_id, sizeof committers[i].turn_id, "turn_%u_%u", i, round);
            CHECK_EQUAL(begin_turn(&committers[i].holding, committers[i].turn_id), 0);
        }
        pg_proxy_fault(place->proxy, fault);
        bl_nursery_init(&nursery, bl_scope_current());
        for (unsigned i = 0; i < SESSIONS; i++)
            bl_nursery_spawn(&nursery, NULL, "commit", commit_in_doubt, &committers[i], NULL);
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        for (unsigned i = 0; i < SESSIONS; i++) {
            if (!CHECK_EQUAL(committers[i].code, 0))
                fprintf(stderr, "%s\n", committers[i].holding.error.message);
        }
    }
    CHECK(pg_proxy_hits(place->proxy) >= rounds);
    pg_proxy_fault(place->proxy, NULL);
    for (unsigned i = 0; i < SESSIONS; i++)
        release(&committers[i].holding);
    bl_store_close(store);
    CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), SESSIONS * rounds);
    CHECK_EQUAL(ask_integer(place, "select count(distinct id) from turn"), SESSIONS * rounds);
    CHECK_EQUAL(ask_integer(place, "select sum(turns_total)::bigint from session"),
                SESSIONS * rounds);
}

POOL_TEST(W10_turn_whose_answer_is_lost_is_found)
{
    commit_with_fault(
        place, (unsigned)suite_rounds(6, 125),
        &(struct pg_fault){.type = PG_DROP_AND_CUT, .times = 1, .match = "commit_turns"});
}

POOL_TEST(W11_commit_that_arrives_late_changes_nothing)
{
    unsigned rounds = (unsigned)suite_rounds(6, 125);
    commit_with_fault(
        place, rounds,
        &(struct pg_fault){
            .type = PG_CUT_AND_DELIVER, .late_ms = 300, .times = 1, .match = "commit_turns"});
    /* The last one too. */
    bl_sleep(1500 * MS);
    CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), SESSIONS * rounds);
}

/* The rows of the commit arrive, and the commit does not take place. */
POOL_TEST(W12_rows_without_a_commit_are_not_an_answer)
{
    unsigned rounds = (unsigned)suite_rounds(5, 200);
    static const struct pg_fault fault = {
        .type = PG_HOLD_SYNC, .times = 1, .match = "commit_turns"};
    struct bl_store *store = store_at(place);
    struct committer committer;
    CHECK_EQUAL(hold(&committer.holding, store, "alpha"), 0);
    for (unsigned round = 0; round < rounds; round++) {
        struct bl_nursery nursery;
        snprintf(committer.turn_id, sizeof committer.turn_id, "turn_%u", round);
        CHECK_EQUAL(begin_turn(&committer.holding, committer.turn_id), 0);
        pg_proxy_fault(place->proxy, &fault);
        unsigned hits = pg_proxy_hits(place->proxy);
        bl_nursery_init(&nursery, bl_scope_current());
        bl_nursery_spawn(&nursery, NULL, "commit", commit_in_doubt, &committer, NULL);
        for (int i = 0; i < 2000 && pg_proxy_hits(place->proxy) == hits; i++)
            bl_sleep(MS);
        bl_sleep(20 * MS);
        /* The rows have been passed on; the transaction is open. */
        CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), round);
        pg_server_change(pg_server_shared(), place->database,
                         "select pg_terminate_backend(pid) from pg_stat_activity where datname ="
                         " current_database() and pid <> pg_backend_pid()");
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        CHECK_EQUAL(committer.code, 0);
        CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), round + 1);
        pg_proxy_fault(place->proxy, NULL);
    }
    release(&committer.holding);
    bl_store_close(store);
    CHECK_EQUAL(ask_integer(place, "select count(distinct id) from turn"), rounds);
}

/* ---- Outages ---- */

PROXY_TEST(W13_an_outage_shorter_than_the_lease_costs_no_turn)
{
    struct bl_store *store = store_at(place);
    struct committer committer = {.turn_id = "turn_1"};
    struct bl_nursery nursery;
    CHECK_EQUAL(hold(&committer.holding, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&committer.holding, "turn_1"), 0);
    pg_proxy_fault(place->proxy, &(struct pg_fault){.type = PG_HALF_OPEN});
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "commit", commit_in_doubt, &committer, NULL);
    bl_sleep((uint64_t)suite_rounds(7, 10) * BL_NS_PER_S);
    CHECK(nursery.running == 1);
    pg_proxy_fault(place->proxy, NULL);
    pg_proxy_cut(place->proxy);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(committer.code, 0);
    release(&committer.holding);
    bl_store_close(store);
    CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), 1);
}

SUITE(pg_doubt, POOL_UNITS(W10_turn_whose_answer_is_lost_is_found),
      POOL_UNITS(W11_commit_that_arrives_late_changes_nothing),
      POOL_UNITS(W12_rows_without_a_commit_are_not_an_answer),
      cmocka_unit_test(W13_an_outage_shorter_than_the_lease_costs_no_turn));
