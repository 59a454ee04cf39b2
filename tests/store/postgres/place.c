/* Places whose store is in a database. */
#include <pgbouncer.h>
#include <pgproxy.h>
#include <postgres.h>
#include <stdio.h>

#include "helpers.h"

/* The database that the others are copied from. */
#define TEMPLATE "belay_template"

static int create_template(void *argument)
{
    struct bl_error error = {0};
    if (!CHECK_EQUAL(bl_store_create(argument, &error), 0))
        fprintf(stderr, "%s\n", error.message);
    return error.code;
}

void place_make_database(struct place *place)
{
    static unsigned count;
    char sql[160], address[PG_ADDRESS_SIZE];
    struct pg_server *server = pg_server_shared();
    if (count == 0) {
        assert_true(pg_server_database(server, TEMPLATE));
        pg_server_address(server, TEMPLATE, NULL, address);
        run_in_loop(create_template, address);
    }
    place_make(place);
    snprintf(place->database, sizeof place->database, "store_%u", ++count);
    snprintf(sql, sizeof sql, "create database %s template " TEMPLATE, place->database);
    assert_true(pg_server_change(server, "postgres", sql));
    pg_server_address(server, place->database, NULL, place->where);
}

void place_make_proxied(struct place *place)
{
    place_make_database(place);
    place->proxy = pg_proxy_start(pg_server_shared()->port);
    assert_non_null(place->proxy);
    pg_tcp_address(pg_proxy_port(place->proxy), place->database, NULL, place->where);
}

void place_make_pooled(struct place *place)
{
    if (pg_bouncer_missing() != NULL)
        suite_skip(pg_bouncer_missing());
    place_make_database(place);
    place->bouncer = bl_zalloc(sizeof *place->bouncer);
    assert_true(pg_bouncer_start(place->bouncer, pg_server_shared()));
    place->proxy = pg_proxy_start(place->bouncer->home.port);
    assert_non_null(place->proxy);
    pg_tcp_address(pg_proxy_port(place->proxy), place->database, NULL, place->where);
}

void place_lose_answer(const struct place *place, const char *function)
{
    pg_proxy_fault(place->proxy,
                   &(struct pg_fault){.type = PG_DROP_AND_CUT, .times = 1, .match = function});
}

void place_deliver_late(const struct place *place, const char *function)
{
    pg_proxy_fault(place->proxy,
                   &(struct pg_fault){
                       .type = PG_CUT_AND_DELIVER, .times = 1, .late_ms = 300, .match = function});
}

void place_drop_database(struct place *place)
{
    char sql[160];
    pg_proxy_stop(place->proxy);
    if (place->bouncer != NULL)
        pg_bouncer_end(place->bouncer);
    bl_free(place->bouncer);
    snprintf(sql, sizeof sql, "drop database %s with (force)", place->database);
    assert_true(pg_server_change(pg_server_shared(), "postgres", sql));
}
