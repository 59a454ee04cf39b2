/* A session of cells: its records and values, opened from the store and closed again. */
#include <stdio.h>

#include "host.h"

/* A worker's warden kills it when its host is killed; this is how long to wait for that. */
#define WARDEN_KILL_NS_MAX (300 * BL_NS_PER_MS)
#define WARDEN_POLL_NS     (5 * BL_NS_PER_MS)
#define CLOSE_NS_MAX       (60 * BL_NS_PER_S)

/* ---- Values ---------------------------------------------------------------------------------- */

struct cell_values *cell_values_ref(struct cell_values *values)
{
    values->references++;
    return values;
}

void cell_values_unref(struct cell_values *values)
{
    if (values != NULL && --values->references == 0)
        bl_free(values);
}

static void take_snapshot(struct bl_cell_session *session)
{
    struct bl_json_writer writer;
    struct bl_buffer json;

    bl_buffer_init(&json, SIZE_MAX);
    bl_json_writer_init(&writer, &json);
    bl_json_write_object(&writer);
    BL_MAP_EACH (entry, &session->by_key) {
        bl_json_write_key(&writer, entry->key);
        bl_json_write_raw(&writer, bl_buffer_text(entry->value));
    }
    bl_json_write_end(&writer);
    bl_json_writer_done(&writer);
    struct cell_values *values = bl_alloc(sizeof *values + json.size);
    char *bytes = (char *)(values + 1);
    memcpy(bytes, json.data, json.size);
    *values = (struct cell_values){1, {bytes, json.size}};
    bl_buffer_done(&json);
    cell_values_unref(session->values);
    session->values = values;
}

static uint64_t value_size(struct bl_text key, const struct bl_buffer *value)
{
    return value != NULL ? key.size + value->size : 0;
}

bool cell_values_fit(const struct bl_cell_session *session, const struct bl_list *stored)
{
    uint64_t bytes = session->values_bytes;
    int64_t count = (int64_t)session->by_key.count;

    BL_LIST_EACH (link, stored) {
        const struct bl_store_value *value = BL_CONTAINER(link, struct bl_store_value, link);
        const struct bl_buffer *old = bl_map_get(&session->by_key, value->key);
        if (value->json.size > BL_CELL_VALUE_MAX)
            return false;
        bytes -= value_size(value->key, old);
        count -= old != NULL;
        if (value->json.size > 0) {
            bytes += value->key.size + value->json.size;
            count++;
        }
    }
    return bytes <= BL_CELL_VALUES_BYTES_MAX && count <= (int64_t)BL_CELL_VALUES_MAX;
}

static void drop_value(struct bl_cell_session *session, struct bl_text key)
{
    struct bl_buffer *old = bl_map_remove(&session->by_key, key);

    if (old == NULL)
        return;
    session->values_bytes -= value_size(key, old);
    bl_buffer_done(old);
    bl_free(old);
}

static void host_session_apply(struct bl_cell_session *session, const struct bl_store_value *value)
{
    drop_value(session, value->key);
    if (value->json.size == 0)
        return;
    struct bl_buffer *kept = bl_alloc(sizeof *kept);
    bl_buffer_init(kept, SIZE_MAX);
    bl_buffer_append(kept, value->json);
    bl_map_set(&session->by_key, value->key, kept, NULL);
    session->values_bytes += value_size(value->key, kept);
}

void cell_values_apply(struct bl_cell_session *session, const struct bl_list *stored)
{
    if (bl_list_empty(stored))
        return;
    BL_LIST_EACH (link, stored)
        host_session_apply(session, BL_CONTAINER(link, struct bl_store_value, link));
    take_snapshot(session);
}

static void drop_values(struct bl_cell_session *session)
{
    BL_MAP_EACH (entry, &session->by_key) {
        bl_buffer_done(entry->value);
        bl_free(entry->value);
    }
    bl_map_done(&session->by_key);
    cell_values_unref(session->values);
}

/* ---- Cells of a dead host -------------------------------------------------------------------- */

/* Counts the processes of the recorded worker that are alive, by pid and start time, which together
 * are unique. A worker is one process: its system call filter does not let it create others. */
static uint32_t count_survivors(const struct bl_store_cell *record)
{
    uint64_t until_ns = bl_now_ns() + WARDEN_KILL_NS_MAX;
    uint32_t alive = bl_store_process_alive(record->pid, record->pid_started);
    while (alive > 0 && bl_now_ns() < until_ns && bl_sleep(WARDEN_POLL_NS) == 0)
        alive = bl_store_process_alive(record->pid, record->pid_started);
    return alive;
}

/* A cell without a recorded worker was killed with its host before the worker started. Then the
 * recovery of the host's wardens tells whether anything is left. */
static void write_lost_receipt(const struct bl_cell_session *session,
                               const struct bl_store_cell *record, char ret_id[BL_ID_SIZE],
                               struct bl_buffer *out)
{
    const struct bl_wardens_end *left = &bl_store_session_recovery(session->held)->left;
    struct bl_receipt receipt;
    struct bl_scope scope, *outer = bl_scope_current();
    struct bl_json_writer writer;
    struct bl_unit unit;
    uint32_t survivors = record->pid != 0 ? count_survivors(record) : left->survivors;

    bl_scope_init(&scope, outer);
    bl_receipt_open(&receipt, &scope, record->id.data);
    bl_scope_enter(&scope);
    bl_unit_begin(&unit, BL_UNIT_CELL, record->id.data, NULL);
    bl_scope_enter(outer);
    bl_scope_stop(&scope, BL_STOP_OWNER_DIED, "host_lost");
    unit.mechanism = record->pid != 0 ? BL_MECHANISM_SUBREAPER : BL_MECHANISM_NONE;
    unit.survivors = survivors;
    if (survivors == BL_SURVIVORS_UNKNOWN)
        bl_text_into(unit.unverified, sizeof unit.unverified, left->unverified);
    bl_text_into(unit.detail, sizeof unit.detail, "the host was lost");
    bl_unit_end(&unit, survivors != 0 ? BL_FATE_UNKNOWN : BL_FATE_KILLED);
    while (!bl_receipt_ready(&receipt) && bl_yield() == 0)
        continue;
    bl_json_writer_init(&writer, out);
    bl_receipt_write(&receipt, &writer);
    bl_json_writer_done(&writer);
    memcpy(ret_id, receipt.id, BL_ID_SIZE);
    bl_receipt_close(&receipt);
    bl_scope_done(&scope);
}

static int close_lost(struct bl_cell_session *session, struct bl_arena *arena,
                      struct bl_store_cell *record, struct bl_error *error)
{
    struct bl_json_writer writer;
    struct bl_buffer receipt, json;
    char receipt_id[BL_ID_SIZE];

    bl_buffer_init(&receipt, SIZE_MAX);
    bl_buffer_init(&json, SIZE_MAX);
    write_lost_receipt(session, record, receipt_id, &receipt);
    record->generation++;
    bl_json_writer_init(&writer, &json);
    cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_TERMINATED,
                                             .cell_id = record->id.data,
                                             .generation = record->generation,
                                             .receipt_json = bl_buffer_text(&receipt)});
    record->terminal = bl_arena_text(arena, bl_buffer_text(&json));
    record->completed = false;
    record->ended_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    int code =
        bl_store_cell_end(session->held, record, NULL, receipt_id, bl_buffer_text(&receipt), error);
    bl_buffer_done(&receipt);
    bl_buffer_done(&json);
    return code;
}

/* ---- Operations in progress ------------------------------------------------------------------ */

void cell_session_enter(struct bl_cell_session *session)
{
    session->users++;
}

void cell_session_leave(struct bl_cell_session *session)
{
    session->users--;
    cell_wake_all(&session->joining);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static uint64_t age_to_ns(int64_t wall_ns)
{
    int64_t age = bl_clock_wall_ns(bl_loop_clock(bl_loop_current())) - wall_ns;
    uint64_t now = bl_now_ns();

    return age <= 0 ? now : (uint64_t)age < now ? now - (uint64_t)age : 0;
}

static void host_session_add_record(struct bl_cell_session *session,
                                    const struct bl_store_cell *record)
{
    struct cell *cell = cell_new(session, record->id.data);

    if (record->digest.size == sizeof cell->digest)
        memcpy(cell->digest, record->digest.data, sizeof cell->digest);
    cell_move(cell, record->completed ? CELL_COMPLETED : CELL_TERMINATED);
    cell->created_wall_ns = record->created_wall_ns;
    cell->created_ns = age_to_ns(record->created_wall_ns);
    cell->ended_ns = age_to_ns(record->ended_wall_ns);
    cell->generation = record->generation;
    cell->observed = true;
    if (record->yielded_generation != 0 && record->yielded.size > 0)
        cell->yielded = cell_outcome_copy(record->yielded_generation, record->yielded);
    cell->terminal = cell_outcome_copy(record->generation, record->terminal);
    cell_retain(cell);
}

static int host_session_load(struct bl_cell_session *session, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct bl_list cells, values;

    int code = bl_store_cells_load(session->held, &arena, &cells, &values, error);
    if (code == 0) {
        BL_LIST_EACH (link, &values)
            host_session_apply(session, BL_CONTAINER(link, struct bl_store_value, link));
        take_snapshot(session);
        BL_LIST_EACH (link, &cells) {
            struct bl_store_cell *record = BL_CONTAINER(link, struct bl_store_cell, link);
            if (code == 0 && record->terminal.size == 0)
                code = close_lost(session, &arena, record, error);
            if (code == 0)
                host_session_add_record(session, record);
        }
    }
    return code;
}

/* Renews the lease while it is held, so that other machines see that the session is in use. */
static int host_session_renew_main(void *argument)
{
    struct bl_cell_session *session = argument;
    struct bl_error *error = bl_alloc(sizeof *error);

    while (bl_sleep(BL_STORE_RENEW_NS) == 0) {
        *error = (struct bl_error){0};
        bl_store_renew(session->held, error);
    }
    bl_free(error);
    return 0;
}

static int host_session_hold(struct bl_cell_session *session, const char *directory,
                             struct bl_error *error)
{
    char run[BL_ID_SIZE];
    struct bl_store_hold_options options = {
        .id = session->id, .directory = directory != NULL ? directory : "/", .run_id = run};

    bl_id_make(run, "run_");
    session->context = bl_zalloc(sizeof *session->context);
    bl_session_init(session->context, "");
    int code =
        bl_store_hold(session->host->store, &options, session->context, &session->held, error);
    session->held_here = code == 0;
    if (code == 0 && bl_nursery_spawn(&session->nursery, NULL, "lease", host_session_renew_main,
                                      session, NULL) != 0)
        code = BL_ESTACKS;
    return code;
}

static void free_records(struct bl_cell_session *session)
{
    while (!bl_list_empty(&session->list)) {
        struct cell *cell = BL_CONTAINER(session->list.next, struct cell, link);
        if (cell_has_ended(cell))
            cell_drop(cell);
        else
            cell_free(cell);
    }
}

/* All of it must be quiet. */
static void take_apart(struct bl_cell_session *session)
{
    bl_list_remove(&session->link);
    bl_nursery_done(&session->nursery);
    if (session->receipt.scope != NULL)
        bl_receipt_close(&session->receipt);
    bl_scope_done(&session->scope);
    free_records(session);
    if (session->held_here)
        bl_store_release(session->held);
    if (session->context != NULL)
        bl_session_done(session->context);
    bl_free(session->context);
    drop_values(session);
    bl_map_done(&session->cells);
    bl_free(session);
}

static struct bl_cell_session *host_session_make(struct bl_cell_host *host,
                                                 const struct bl_cell_session_options *options)
{
    struct bl_cell_session *session = bl_zalloc(sizeof *session);

    session->host = host;
    session->port = options->port;
    session->activities = options->activities;
    session->held = options->held;
    bl_text_into(session->id, sizeof session->id, options->id);
    bl_map_init(&session->cells);
    bl_map_init(&session->by_key);
    bl_lock_init(&session->storing);
    bl_list_init(&session->list);
    bl_list_init(&session->joining);
    bl_list_push_back(&host->sessions, &session->link);
    bl_scope_init(&session->scope, &host->nursery->scope);
    bl_receipt_open(&session->receipt, &session->scope, session->id);
    bl_nursery_init(&session->nursery, &host->nursery->scope);
    return session;
}

static int host_session_explain(struct bl_cell_fault *fault, const char *id, int code,
                                const struct bl_error *error)
{
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return cell_refuse(fault, BL_CELL_CANCELLED,
                           "cancelled while the session was being opened");
    if (code == BL_EBUSY) {
        code = cell_refuse(fault, BL_CELL_SESSION_BUSY, "%s", error->message);
        bl_text_into(fault->id, sizeof fault->id, id);
        return code;
    }
    code = cell_refuse(fault, BL_CELL_STORE_FAILED, "cannot open the session");
    bl_text_into(fault->detail, sizeof fault->detail, error->message);
    return code;
}

static bool host_session_is_open(const struct bl_cell_host *host, const char *id)
{
    BL_LIST_EACH (link, &host->sessions)
        if (strcmp(BL_CONTAINER(link, struct bl_cell_session, link)->id, id) == 0)
            return true;
    return false;
}

int bl_cell_session_open(struct bl_cell_host *host, const struct bl_cell_session_options *options,
                         struct bl_cell_session **ret_session, struct bl_cell_fault *fault)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope shield;
    int code = 0;

    if (host->stopping)
        code = cell_refuse(fault, BL_CELL_SHUTTING_DOWN, "the host is shutting down");
    else if (host_session_is_open(host, options->id))
        code = host_session_explain(fault, options->id,
                                    bl_error_set(error, BL_EBUSY, BL_KIND_SESSION, "open a session",
                                                 options->id,
                                                 "the session is already open in this host"),
                                    error);
    if (code != 0) {
        bl_free(error);
        return code;
    }
    /* From here on, the opening runs to its end. */
    struct bl_cell_session *session = host_session_make(host, options);
    session->users++;
    bl_shield_begin(&shield, CLOSE_NS_MAX);
    if (session->held == NULL)
        code = host_session_hold(session, options->directory, error);
    if (code == 0)
        code = host_session_load(session, error);
    if (code == 0)
        cell_evict(host);
    session->users--;
    if (session->closing) { /* its host is being stopped, and frees it */
        cell_wake_all(&session->joining);
        code = cell_refuse(fault, BL_CELL_SHUTTING_DOWN, "the host is shutting down");
    } else if (code != 0) {
        code = host_session_explain(fault, options->id, code, error);
        take_apart(session);
    } else {
        *ret_session = session;
    }
    bl_shield_end(&shield);
    bl_free(error);
    return code;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static bool any_live(const struct bl_cell_session *session)
{
    BL_LIST_EACH (link, &session->list) {
        const struct cell *cell = BL_CONTAINER(link, struct cell, link);
        if (cell->live || cell->state == CELL_ADMITTING)
            return true;
    }
    return false;
}

/* Stops each cell by itself, so that its receipt has the reason. The caller then stops the session,
 * for the session's own receipt. */
static bool stop_cells(struct bl_cell_session *session, enum bl_stop_reason reason,
                       const char *origin)
{
    bool any = false;

    BL_LIST_EACH (link, &session->list) {
        struct cell *cell = BL_CONTAINER(link, struct cell, link);
        if (cell->live)
            any |= bl_scope_stop(&cell->scope, reason, origin);
    }
    return any;
}

static void await_quiet(struct bl_cell_session *session, enum bl_stop_reason reason,
                        const char *origin)
{
    struct cell_waiter waiter;

    while (any_live(session) || session->users > 0) {
        stop_cells(session, reason, origin); /* one may have been admitted meanwhile */
        cell_waiter_init(&waiter);
        bl_list_push_back(&session->joining, &waiter.link);
        bl_semaphore_take(&waiter.woken);
        bl_list_remove(&waiter.link);
    }
}

/* Tries a last time to store ends that the store has refused. */
static void store_ends(struct bl_cell_session *session)
{
    struct bl_error *error = bl_zalloc(sizeof *error);

    BL_LIST_EACH (link, &session->list) {
        struct cell *cell = BL_CONTAINER(link, struct cell, link);
        *error = (struct bl_error){0};
        if (cell->unstored != NULL)
            cell_store_again(cell, error);
    }
    bl_free(error);
}

static void write_session_receipt(struct bl_cell_session *session, struct bl_buffer *out)
{
    struct bl_json_writer writer;

    while (!bl_receipt_ready(&session->receipt) && bl_yield() == 0)
        continue;
    bl_json_writer_init(&writer, out);
    bl_receipt_write(&session->receipt, &writer);
    bl_json_writer_done(&writer);
}

void bl_cell_session_close(struct bl_cell_session *session, bool forget, enum bl_stop_reason reason,
                           const char *origin, struct bl_buffer *ret_receipt)
{
    struct bl_scope shield;

    if (session == NULL || session->closing)
        return;
    session->closing = true;
    bl_shield_begin(&shield, CLOSE_NS_MAX);
    bool stopped = stop_cells(session, reason, origin);
    if (stopped)
        bl_scope_stop(&session->scope, reason, origin);
    await_quiet(session, reason, origin);
    if (stopped && ret_receipt != NULL)
        write_session_receipt(session, ret_receipt);
    if (!forget)
        store_ends(session);
    if (forget) {
        struct bl_error *error = bl_zalloc(sizeof *error);
        bl_store_cells_forget(session->held, error);
        bl_free(error);
    }
    take_apart(session);
    bl_shield_end(&shield);
}
