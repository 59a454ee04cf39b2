/* Workers: every process that holds something on the store is one, with a lease of its own. */
#include "postgres.h"

int pg_ask(struct pg_work *work, struct pg_call *call, struct bl_error *error)
{
    return pg_link_ask(work->link, call, "use the store", error);
}

static struct pg_call *call_register(struct pg_store *store, struct bl_arena *arena)
{
    const struct store_identity *self = &store->self;
    return pg_call_new(arena, "select belay.register($1, $2, $3, $4, $5, $6, $7::int)", "ssssiii",
                       store->owner, self->host, self->boot, self->pid_space, self->pid,
                       self->started, (int64_t)PG_SCHEMA_VERSION);
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

static struct pg_call *call_silent(struct pg_store *store, struct bl_arena *arena)
{
    return pg_call_new(arena,
                       "select w.id, w.beat from belay.worker w, belay.fleet f where"
                       " w.state in ('live', 'draining') and w.id <> $1 and (w.beat_at >"
                       " clock_timestamp() or w.beat_at < clock_timestamp() - f.renew_ms * 1.5 *"
                       " interval '1 ms')",
                       "s", store->owner);
}

static struct pg_call *call_settings(struct bl_arena *arena)
{
    return pg_call_new(
        arena, "select lease_ms, renew_ms, pg_postmaster_start_time() from belay.fleet", "");
}

static void read_beat(struct pg_store *store, struct bl_arena *arena, struct pg_call *const *calls,
                      struct bl_fleet_beat *ret_beat)
{
    struct store_row row = pg_row(calls[1], 0);
    ret_beat->live = pg_rows(calls[1]) == 1 && store_row_flag(&row, 0);
    row = pg_row(calls[2], 0);
    store->lease_ms = store_row_integer(&row, 0);
    store->renew_ms = store_row_integer(&row, 1);
    int64_t started = store_row_time(&row, 2);
    if (started != store->server_started)
        store->connection++;
    store->server_started = started;
    ret_beat->lease_ns = (uint64_t)store->lease_ms * BL_NS_PER_MS;
    ret_beat->renew_ns = (uint64_t)store->renew_ms * BL_NS_PER_MS;
    ret_beat->connection = store->connection;
    for (int i = 0; i < pg_rows(calls[3]); i++) {
        struct bl_fleet_silent *silent = bl_arena_zalloc(arena, sizeof *silent);
        row = pg_row(calls[3], i);
        silent->worker = store_row_string(arena, &row, 0);
        silent->beat = store_row_count(&row, 1);
        bl_list_push_back(&ret_beat->silent, &silent->link);
    }
}

/* Runs calls over the control link, which it opens; the caller holds the lock. */
static int control(struct pg_store *store, struct pg_call *const *calls, size_t count,
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

static int pg_fleet_beat(void *context, struct bl_arena *arena, struct bl_fleet_beat *ret_beat,
                         struct bl_error *error)
{
    struct pg_store *store = context;
    struct pg_call *calls[] = {
        call_register(store, arena),
        pg_call_new(arena, "select belay.beat($1)", "s", store->owner),
        call_settings(arena),
        call_silent(store, arena),
    };
    int code = bl_lock_take(&store->controls);
    if (code != 0)
        return code;
    uint64_t sent_ns = bl_now_ns();
    code = control(store, calls, BL_COUNT(calls), error);
    if (code == 0 && pg_rows(calls[2]) == 1) {
        read_beat(store, arena, calls, ret_beat);
        store->registered = ret_beat->live;
        store->beat_ns = sent_ns;
    }
    for (size_t i = 0; i < BL_COUNT(calls); i++)
        pg_call_done(calls[i]);
    bl_lock_give(&store->controls);
    return code;
}

static int pg_fleet_take_over(void *context, const char *worker, uint64_t beat, bool *ret_taken,
                              struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct pg_store *store = context;
    struct pg_call *call = pg_call_new(&arena, "select belay.take_over($1, $2, $3)", "ssu",
                                       store->owner, worker, beat);
    int code = bl_lock_take(&store->controls);
    if (code != 0)
        return code;
    code = control(store, &call, 1, error);
    if (code == 0 && pg_rows(call) == 1) {
        struct store_row row = pg_row(call, 0);
        *ret_taken = store_row_flag(&row, 0);
    }
    pg_call_done(call);
    bl_lock_give(&store->controls);
    return code;
}

const struct bl_fleet_store *pg_fleet(void *state)
{
    struct pg_store *store = state;
    store->fleet = (struct bl_fleet_store){
        .context = store, .beat = pg_fleet_beat, .take_over = pg_fleet_take_over};
    return &store->fleet;
}
