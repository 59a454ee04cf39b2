/* W7: the name of a connection, and its questions to the server, through PgBouncer. */
#include <pgbouncer.h>
#include <postgres.h>
#include <stdio.h>

#include "helpers.h"

static int open_pooled(void *argument)
{
    struct place *place = argument;
    struct bl_store *stores[3];
    char names[64];
    /* More stores than connections to the server: what one leaves there, another one would find. */
    for (size_t i = 0; i < BL_COUNT(stores); i++) {
        struct holding holding;
        char sql[160], id[16];
        stores[i] = store_at(place);
        snprintf(id, sizeof id, "s-%zu", i);
        CHECK_EQUAL(hold(&holding, stores[i], id), 0);
        add_turn(&holding, "turn_1");
        snprintf(sql, sizeof sql,
                 "select count(*) from pg_stat_activity where datname = current_database() and"
                 " application_name = (select owner from session where id = '%s')",
                 id);
        CHECK_EQUAL(ask_integer(place, sql), 1);
        release(&holding);
    }
    CHECK_EQUAL(ask_integer(place, "select count(*) from pg_locks where locktype = 'advisory'"), 0);
    ask_text(place, "select count(*) from pg_stat_activity where state like 'idle in%'", names,
             sizeof names);
    CHECK(strcmp(names, "0") == 0);
    for (size_t i = 0; i < BL_COUNT(stores); i++)
        bl_store_close(stores[i]);
    return 0;
}

static void W7_workers_are_named_through_pgbouncer(void **state BL_UNUSED)
{
    struct place place;
    place_make_pooled(&place);
    run_in_loop(open_pooled, &place);
    place_remove(&place);
}

static int open_standby(void *argument)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    CHECK(bl_store_open(argument, &store, &error) != 0);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    CHECK_EQUAL(bl_store_open_reading(argument, &store, NULL), 0);
    bl_store_close(store);
    return 0;
}

static void W7_standby_behind_pgbouncer_is_only_read(void **state BL_UNUSED)
{
    struct place place;
    struct pg_server standby;
    struct pg_bouncer bouncer;
    char address[PG_ADDRESS_SIZE];
    if (pg_bouncer_missing() != NULL)
        suite_skip(pg_bouncer_missing());
    place_make_database(&place);
    assert_true(pg_server_follow(&standby, pg_server_shared(), NULL));
    assert_true(pg_bouncer_start(&bouncer, &standby));
    pg_tcp_address(bouncer.home.port, place.database, NULL, address);
    run_in_loop(open_standby, address);
    pg_bouncer_end(&bouncer);
    pg_server_end(&standby);
    place_remove(&place);
}

SUITE(pg_pooled, cmocka_unit_test(W7_workers_are_named_through_pgbouncer),
      cmocka_unit_test(W7_standby_behind_pgbouncer_is_only_read));
