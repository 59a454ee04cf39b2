/* The state of a database and its workers, for people. */
#include <stdio.h>

#include "postgres.h"

#define WORKERS_MAX 1000

int pg_visit(struct pg_store *store, const char *where, bool reading, const char *application,
             struct bl_error *error)
{
    *store = (struct pg_store){.reading = reading};
    store->work = (struct pg_link){.store = store, .silence_ns = PG_SILENCE_LONG_NS};
    if (!bl_store_is_database(where)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "open the database", where,
                     "store '%.200s' is a file, and this needs a database", where);
        bl_error_hint(error, "name one: --store postgres://USER@HOST:PORT/DATABASE");
        return BL_EINVAL;
    }
    store->resolver = bl_client_new(&(struct bl_client_options){0});
    int code = pg_address_make(where, reading, application, &store->address, error);
    return code == 0 ? pg_link_open(&store->work, error) : code;
}

void pg_visit_end(struct pg_store *store)
{
    pg_link_close(&store->work);
    bl_client_free(store->resolver);
    pg_address_done(&store->address);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void status_take_worker(struct pg_call *call, int number, struct bl_arena *arena,
                               struct bl_store_fleet *fleet)
{
    struct store_row row = pg_row(call, number);
    struct bl_store_worker *worker = bl_arena_zalloc(arena, sizeof *worker);
    double age_s = store_row_real(&row, 4);
    worker->id = store_row_string(arena, &row, 0);
    worker->host = store_row_string(arena, &row, 1);
    worker->pid = store_row_integer(&row, 2);
    worker->state = store_row_string(arena, &row, 3);
    /* The server's clock may have been set back. */
    worker->heartbeat_age_ms = age_s > 0 ? (uint64_t)(age_s * 1000) : 0;
    worker->sessions = store_row_count(&row, 5);
    fleet->workers_total = store_row_count(&row, 6);
    bl_list_push_back(&fleet->workers, &worker->link);
}

static int status_read_workers(struct pg_store *store, bool ended, struct bl_arena *arena,
                               struct bl_store_fleet *fleet, struct bl_error *error)
{
    static const char sql[] =
        "select w.id, w.host, w.pid, w.state,"
        " extract(epoch from clock_timestamp() - w.beat_at)::float8,"
        " (select count(*) from belay.session s where s.owner = w.id), count(*) over ()"
        " from belay.worker w where $1 or w.state <> 'gone' order by w.beat_at desc, w.id limit $2";
    struct pg_call *call = pg_call_new(arena, sql, "oi", ended, (int64_t)WORKERS_MAX);
    int code = pg_link_ask(&store->work, call, "read the workers", error);
    for (int i = 0; code == 0 && i < pg_rows(call); i++)
        status_take_worker(call, i, arena, fleet);
    pg_call_done(call);
    return code;
}

/* ---- Server ---------------------------------------------------------------------------------- */

static int status_measure(struct pg_store *store, struct bl_arena *arena,
                          struct bl_store_fleet *fleet, struct bl_error *error)
{
    struct pg_call *call = pg_call_new(arena, "select 1", "");
    uint64_t from_ns = bl_now_ns();
    int code = pg_link_ask(&store->work, call, "call the server", error);
    fleet->round_trip_ms = (double)(bl_now_ns() - from_ns) / (double)BL_NS_PER_MS;
    pg_call_done(call);
    return code;
}

/* Reads the state of the database, once the connection is open. */
static int status_read(struct pg_store *store, bool ended, struct bl_arena *arena,
                       struct bl_store_fleet *fleet, struct bl_error *error)
{
    int server = PQserverVersion(store->work.conn);
    int code = pg_check_server(&store->work, error);
    if (code != 0)
        return code;
    fleet->server = bl_arena_printf(arena, "%d.%d", server / 10000, server % 10000).data;
    fleet->schema = store->schema;
    fleet->lease_ms = (uint64_t)store->lease_ms;
    fleet->renew_ms = (uint64_t)store->renew_ms;
    code = status_measure(store, arena, fleet, error);
    return code == 0 ? status_read_workers(store, ended, arena, fleet, error) : code;
}

int bl_store_fleet_read(const char *where, bool ended, struct bl_arena *arena,
                        struct bl_store_fleet *ret_fleet, struct bl_error *error)
{
    struct pg_store store;
    struct bl_store_fleet fleet = {.store = bl_store_shown(arena, where)};
    struct bl_error own = {0};
    bl_list_init(&fleet.workers);
    int code = pg_visit(&store, where, true, "belay fleet status", &own);
    if (code == 0)
        code = status_read(&store, ended, arena, &fleet, &own);
    pg_visit_end(&store);
    if (code != 0) {
        if (error != NULL && error->code == 0)
            *error = own;
        return code;
    }
    *ret_fleet = fleet;
    bl_list_init(&ret_fleet->workers);
    struct bl_list *link;
    while ((link = bl_list_pop_front(&fleet.workers)) != NULL)
        bl_list_push_back(&ret_fleet->workers, link);
    return 0;
}
