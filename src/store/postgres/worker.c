/* Workers: every process that holds something on the store is one, with a lease of its own. */
#include <math.h>

#include "postgres.h"

int pg_ask(struct pg_work *work, struct pg_call *call, struct bl_error *error)
{
    return pg_link_ask(work->link, call, "use the store", error);
}

static struct pg_call *call_register(struct pg_store *store, struct bl_arena *arena)
{
    const struct store_identity *self = &store->self;
    struct pg_array labels;
    pg_array_init(&labels, 't');
    for (size_t i = 0; i < store->label_count; i++)
        pg_array_add_text(&labels, store->labels[i]);
    struct pg_call *call = pg_call_new(
        arena, "select belay.register($1, $2, $3, $4, $5, $6, $7::int, $8, $9, $10)", "ssssiiisAi",
        store->owner, self->host, self->boot, self->pid_space, self->pid, self->started,
        (int64_t)PG_SCHEMA_VERSION, store->pool, &labels, (int64_t)store->slots);
    pg_call_keep(call, arena);
    pg_array_done(&labels);
    return call;
}

static int register_as(struct pg_work *work, struct bl_error *error)
{
    struct pg_store *store = work->store;
    if (store->registered)
        return 0;
    struct pg_call *call = call_register(store, &work->arena);
    uint64_t from_ns = bl_now_ns();
    int code = pg_ask(work, call, error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        store->registered = store_row_flag(&row, 0);
        store->beat_ns = from_ns;
        /* It was taken over: all that it held is fenced, and it begins again as another worker. */
        if (!store->registered)
            bl_id_make(store->owner, "own_");
    }
    pg_call_done(call);
    return code == 0 && !store->registered ? BL_EAGAIN : code;
}

int pg_register(struct pg_work *work, struct bl_error *error)
{
    int code = BL_EAGAIN;
    for (int tries = 0; code == BL_EAGAIN && tries < 3; tries++)
        code = register_as(work, error);
    return code == BL_EAGAIN ? BL_EBUSY : code;
}

/* The lease is the worker's: one heartbeat renews it for all that the worker holds. */
int pg_beat(struct pg_work *work, bool *ret_live, struct bl_error *error)
{
    struct pg_store *store = work->store;
    uint64_t from_ns = bl_now_ns();
    *ret_live = true;
    if (from_ns - store->beat_ns < (uint64_t)store->renew_ms * BL_NS_PER_MS / 2)
        return 0;
    struct pg_call *call = pg_call_new(&work->arena, "select belay.beat($1)", "s", store->owner);
    int code = pg_ask(work, call, error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        *ret_live = store_row_flag(&row, 0);
        store->beat_ns = from_ns;
    }
    pg_call_done(call);
    if (code == 0 && !*ret_live)
        store->registered = false;
    return code;
}

static int worker_renew(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    bool live;
    int code = pg_beat(work, &live, error);
    if (code == 0 && !live)
        code = pg_refuse_stale(work, BL_CONTAINER(job, struct store_write, job), error);
    return code;
}

const struct pg_operation pg_renew = {.run = worker_renew};

/* ---- Heartbeats ---- */

/* The calls of a heartbeat: one pipeline. */
enum {
    BEAT_REGISTER,
    BEAT_RENEW,
    BEAT_FLEET, /* the settings, and other workers */
    BEAT_TEND,
    BEAT_CALLS,
};

/* Rows of workers that seem silent, or are on this host; at least one row, for the settings. */
static struct pg_call *call_fleet(struct pg_store *store, struct bl_arena *arena)
{
    return pg_call_new(
        arena,
        "select f.lease_ms, f.renew_ms, pg_postmaster_start_time(), w.id, w.beat,"
        " w.beat_at > clock_timestamp() or w.beat_at < clock_timestamp() - f.renew_ms * 1.5 *"
        " interval '1 ms', w.host, w.boot, w.pid_space, w.pid, w.started"
        " from belay.fleet f left join belay.worker w on w.state in ('live', 'draining')"
        " and w.id <> $1 and (w.host = $2 or w.beat_at > clock_timestamp() or w.beat_at <"
        " clock_timestamp() - f.renew_ms * 1.5 * interval '1 ms')",
        "ss", store->owner, store->self.host);
}

static void beat_read_settings(struct pg_store *store, struct pg_call *call,
                               struct bl_fleet_beat *ret_beat)
{
    struct store_row row = pg_row(call, 0);
    store->lease_ms = store_row_integer(&row, 0);
    store->renew_ms = store_row_integer(&row, 1);
    int64_t started = store_row_time(&row, 2);
    if (started != store->server_started)
        store->connection++;
    store->server_started = started;
    ret_beat->lease_ns = (uint64_t)store->lease_ms * BL_NS_PER_MS;
    ret_beat->renew_ns = (uint64_t)store->renew_ms * BL_NS_PER_MS;
    ret_beat->connection = store->connection;
}

static bool beat_is_dead(const struct pg_store *store, const struct store_row *row)
{
    struct store_identity other = {.pid = store_row_integer(row, 9),
                                   .started = store_row_integer(row, 10)};
    store_row_into(other.host, sizeof other.host, row, 6);
    store_row_into(other.boot, sizeof other.boot, row, 7);
    store_row_into(other.pid_space, sizeof other.pid_space, row, 8);
    return store_identity_life(&store->self, &other) == STORE_DEAD;
}

/* Other workers: those that are dead on this host are collected in `ret_dead`. */
static void beat_read_workers(struct pg_store *store, struct bl_arena *arena, struct pg_call *call,
                              struct bl_fleet_beat *ret_beat, struct bl_list *ret_dead)
{
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        if (store_row_null(&row, 3))
            continue;
        struct bl_fleet_silent *other = bl_arena_zalloc(arena, sizeof *other);
        other->worker = store_row_string(arena, &row, 3);
        other->beat = store_row_count(&row, 4);
        if (beat_is_dead(store, &row))
            bl_list_push_back(ret_dead, &other->link);
        else if (store_row_flag(&row, 5))
            bl_list_push_back(&ret_beat->silent, &other->link);
    }
}

/* Columns of belay.tend. */
enum {
    TEND_KIND,
    TEND_ID,
    TEND_EPOCH,
    TEND_FLAG,
    TEND_OTHER,
    TEND_STOP,
    TEND_PART,
    TEND_ORIGIN,
};

static void beat_read_work(struct bl_arena *arena, struct pg_call *call,
                           struct bl_fleet_beat *ret_beat)
{
    for (int i = 0; i < pg_rows(call); i++) {
        struct store_row row = pg_row(call, i);
        struct bl_text kind = store_row_text(&row, TEND_KIND);
        if (bl_text_equal(kind, BL_TEXT("self"))) {
            ret_beat->draining = store_row_flag(&row, TEND_FLAG);
            ret_beat->waiting = store_row_flag(&row, TEND_OTHER);
        } else if (bl_text_equal(kind, BL_TEXT("owned"))) {
            struct bl_fleet_owned *owned = bl_arena_zalloc(arena, sizeof *owned);
            owned->id = store_row_string(arena, &row, TEND_ID);
            owned->epoch = store_row_count(&row, TEND_EPOCH);
            bl_list_push_back(&ret_beat->owned, &owned->link);
        } else {
            struct bl_fleet_order *order = bl_arena_zalloc(arena, sizeof *order);
            order->stop = store_row_string(arena, &row, TEND_STOP);
            order->item = store_row_string(arena, &row, TEND_ID);
            order->part = store_row_string(arena, &row, TEND_PART);
            order->origin = store_row_string(arena, &row, TEND_ORIGIN);
            order->now = store_row_flag(&row, TEND_FLAG);
            bl_list_push_back(&ret_beat->orders, &order->link);
        }
    }
}

int pg_control_run(struct pg_store *store, struct pg_call *const *calls, size_t count,
                   struct bl_error *error)
{
    struct bl_list list;
    bool open = store->control.conn != NULL;
    int code = pg_link_open(&store->control, error);
    if (code != 0)
        return code;
    if (!open)
        store->connection++;
    bl_list_init(&list);
    for (size_t i = 0; i < count; i++)
        bl_list_push_back(&list, &calls[i]->link);
    code = pg_link_run(&store->control, &list, error);
    for (size_t i = 0; i < count && code == 0; i++)
        code = pg_failed(&store->control, calls[i], "renew the lease", error);
    return code;
}

/* Takes over from a worker; the caller has the lock. */
static int beat_take_over(struct pg_store *store, const char *worker, uint64_t beat,
                          bool *ret_taken, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct pg_call *call = pg_call_new(&arena, "select belay.take_over($1, $2, $3)", "ssu",
                                       store->owner, worker, beat);
    int code = pg_control_run(store, &call, 1, error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        *ret_taken = store_row_flag(&row, 0);
    }
    pg_call_done(call);
    return code;
}

/* Those that are dead on this host need no observation. What fails is tried by the next heartbeat. */
static void beat_take_over_dead(struct pg_store *store, const struct bl_list *dead)
{
    int code = 0;
    BL_LIST_EACH (link, dead) {
        const struct bl_fleet_silent *each = BL_CONTAINER(link, struct bl_fleet_silent, link);
        bool taken = false;
        if (code == 0)
            code = beat_take_over(store, each->worker, each->beat, &taken, NULL);
    }
}

int pg_fleet_beat(void *context, struct bl_arena *arena, struct bl_fleet_beat *ret_beat,
                  struct bl_error *error)
{
    struct pg_store *store = context;
    struct bl_list dead;
    struct pg_call *calls[BEAT_CALLS] = {
        [BEAT_REGISTER] = call_register(store, arena),
        [BEAT_RENEW] = pg_call_new(arena, "select belay.beat($1)", "s", store->owner),
        [BEAT_FLEET] = call_fleet(store, arena),
        [BEAT_TEND] = pg_call_new(arena, "select * from belay.tend($1)", "s", store->owner),
    };
    int code = pg_control_take(store);
    if (code != 0)
        return code;
    bl_list_init(&dead);
    uint64_t sent_ns = bl_now_ns();
    code = pg_control_run(store, calls, BEAT_CALLS, error);
    if (code == 0 && pg_rows(calls[BEAT_FLEET]) > 0) {
        struct store_row row = pg_row(calls[BEAT_RENEW], 0);
        ret_beat->live = pg_rows(calls[BEAT_RENEW]) == 1 && store_row_flag(&row, 0);
        beat_read_settings(store, calls[BEAT_FLEET], ret_beat);
        beat_read_workers(store, arena, calls[BEAT_FLEET], ret_beat, &dead);
        beat_read_work(arena, calls[BEAT_TEND], ret_beat);
        store->registered = ret_beat->live;
        store->beat_ns = sent_ns;
        store->mark = -INFINITY;
    }
    for (size_t i = 0; i < BEAT_CALLS; i++)
        pg_call_done(calls[i]);
    beat_take_over_dead(store, &dead);
    pg_control_give(store);
    return code;
}

int pg_fleet_take_over(void *context, const char *worker, uint64_t beat, bool *ret_taken,
                       struct bl_error *error)
{
    struct pg_store *store = context;
    int code = pg_control_take(store);
    if (code != 0)
        return code;
    code = beat_take_over(store, worker, beat, ret_taken, error);
    pg_control_give(store);
    return code;
}
