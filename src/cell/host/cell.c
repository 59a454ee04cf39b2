/* The life of one cell: its worker, the worker's frames, its end. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>

#include "cell/worker/protocol.h"
#include "host.h"

/* Time limit for writing an end, and for what that waits for. */
#define END_NS_MAX (30 * BL_NS_PER_S)
/* How long to pause while the undelivered output of all cells is over its limit. */
#define FULL_NS (5 * BL_NS_PER_MS)
/* Extra tries, besides the number of spares, for workers that die before they have read `start`. */
#define BEGIN_TRIES 3u

static const char *cell_state_name(enum cell_state state)
{
    return state == CELL_ADMITTING ? "admitting" : bl_names_get(&cell_states, state);
}

bool cell_has_ended(const struct cell *cell)
{
    return cell->terminal != NULL;
}

void cell_waiter_init(struct cell_waiter *waiter)
{
    *waiter = (struct cell_waiter){0};
    bl_list_init(&waiter->link);
    bl_semaphore_init(&waiter->woken, 0);
}

void cell_wake_all(struct bl_list *waiters)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(waiters)) != NULL) {
        bl_list_init(link);
        bl_semaphore_give(&BL_CONTAINER(link, struct cell_waiter, link)->woken);
    }
}

struct cell *cell_find(const struct bl_cell_session *session, const char *id)
{
    return bl_map_get(&session->cells, bl_text_from(id));
}

void cell_move(struct cell *cell, enum cell_state to)
{
    static const unsigned char moves[CELL_TERMINATED + 1] = {
        [CELL_ADMITTING] = BL_TO(CELL_RUNNING) | BL_TO(CELL_COMPLETED) | BL_TO(CELL_TERMINATED),
        [CELL_RUNNING] = BL_TO(CELL_COMPLETING) | BL_TO(CELL_TERMINATING),
        [CELL_COMPLETING] = BL_TO(CELL_COMPLETED),
        [CELL_TERMINATING] = BL_TO(CELL_TERMINATED),
    };
    assert(BL_MAY_MOVE(moves, cell->state, to));
    BL_LOG(BL_ROOM_CELL, BL_LOG_DEBUG, "cell", BL_LOG_STRING("cell", cell->id),
           BL_LOG_STRING("from", cell_state_name(cell->state)),
           BL_LOG_STRING("to", cell_state_name(to)));
    cell->state = to;
}

struct cell *cell_new(struct bl_cell_session *session, const char *id)
{
    struct cell *cell = bl_zalloc(sizeof *cell);

    cell->session = session;
    bl_text_into(cell->id, sizeof cell->id, id);
    cell->state = CELL_ADMITTING;
    cell->first_yield = SIZE_MAX;
    bl_list_init(&cell->ended_link);
    bl_list_init(&cell->admission);
    bl_list_init(&cell->waiters);
    bl_list_init(&cell->terminators);
    bl_list_init(&cell->settled);
    bl_list_init(&cell->stored);
    bl_arena_init(&cell->arena);
    bl_buffer_init(&cell->output, SIZE_MAX);
    bl_list_push_back(&session->list, &cell->link);
    bl_map_set(&session->cells, bl_text_from(cell->id), cell, NULL);
    return cell;
}

void cell_free(struct cell *cell)
{
    bl_map_remove(&cell->session->cells, bl_text_from(cell->id));
    bl_list_remove(&cell->link);
    cell_outcome_unref(cell->yielded);
    cell_outcome_unref(cell->terminal);
    cell_outcome_unref(cell->unstored);
    cell_values_unref(cell->values);
    bl_arena_done(&cell->arena);
    bl_buffer_done(&cell->output);
    bl_free(cell);
}

/* ---- While it runs --------------------------------------------------------------------------- */

static void cell_lose(struct cell *cell, const char *why)
{
    cell->ending = CELL_LOST;
    cell->has_error = true;
    cell->error = (struct bl_cell_error){
        .kind = BL_CELL_ERROR_WORKER_LOST,
        .name = BL_TEXT("WorkerLost"),
        .message = bl_arena_text(&cell->arena, bl_text_from(why)),
    };
}

static int write_started(void *context, struct bl_error *error)
{
    const struct cell *cell = context;

    return bl_store_cell_started(cell->session->held, bl_text_from(cell->id), cell->worker->pid,
                                 cell->worker->pid_started, error);
}

/* Takes a spare, or starts a worker. If the store cannot record its pid, only a later proof is
 * lost. */
static int find_worker(struct cell *cell)
{
    struct bl_cell_host *host = cell->session->host;
    struct bl_error *error = bl_zalloc(sizeof *error);
    int code = 0;

    if (cell->worker == NULL)
        cell->worker = cell_pool_take(&host->pool);
    if (cell->worker == NULL) {
        code = cell_pool_start_one(&host->pool, &cell->worker, error);
        if (code == 0) {
            cell_store_write(host, error, write_started, cell);
        } else if (code != BL_ECANCELED && code != BL_ETIMEDOUT) {
            cell_lose(cell, error->message);
            code = BL_ECLOSED;
        }
    }
    bl_free(error);
    return code;
}

static int send_start(struct cell *cell)
{
    struct cell_worker_frame frame = {.type = CELL_WORKER_START,
                                      .start = {.source = cell->source,
                                                .tools = cell->tools,
                                                .tool_count = cell->tool_count,
                                                .values = cell->values->json,
                                                .memory_bytes = cell->memory_bytes,
                                                .output_bytes = cell->output_bytes,
                                                .notify = cell->session->port.notify != NULL}};

    return cell_worker_send(cell->worker, &frame);
}

/* Reads once from the worker. The caller yields before the next read. */
static int cell_read_some(struct cell *cell, bl_line_take *take)
{
    struct bl_cell_host *host = cell->session->host;
    size_t size;
    int code =
        bl_descriptor_read(cell->worker->descriptor, host->read_buffer, CELL_READ_SIZE, &size);

    if (code == 0 && size == 0)
        return BL_EPIPE;
    if (code == 0)
        code = bl_frames_feed(&cell->worker->frames, (struct bl_text){host->read_buffer, size},
                              take, cell);
    if (code == 0 && cell->live)
        cell->activity.active_ns = bl_now_ns();
    return code;
}

/* Finds a worker, sends `start`, and reads its first frames. Spares may die at any moment, even all
 * at once. A worker that had not read `start` to its end has run nothing of the cell, so another
 * one is tried. */
static int host_cell_begin(struct cell *cell)
{
    unsigned tries = cell->session->host->pool.wanted + BEGIN_TRIES;
    int code = 0;

    for (unsigned i = 0; i < tries; i++) {
        code = find_worker(cell);
        if (code != 0)
            break;
        bool unread = false;
        code = send_start(cell);
        if (code == 0) {
            code = cell_read_some(cell, cell_take_frame);
            unread = code == BL_ESYSTEM; /* ECONNRESET: the peer closed with unread data */
        } else {
            unread = code == BL_EPIPE || code == BL_ESYSTEM;
        }
        if (!unread)
            break;
        cell_worker_free(cell->worker);
        cell->worker = NULL;
    }
    cell_values_unref(cell->values);
    cell->values = NULL;
    return code;
}

/* Runs the cell until it ends by itself (BL_ECLOSED) or is stopped. */
static int host_cell_run(struct cell *cell)
{
    struct bl_cell_host *host = cell->session->host;
    int code = host_cell_begin(cell);

    while (code == 0) {
        while (code == 0 && host->undelivered > BL_CELL_UNDELIVERED_MAX)
            code = bl_sleep(FULL_NS);
        if (code == 0)
            code = cell_read_some(cell, cell_take_frame);
        if (code == 0)
            code = bl_yield();
    }
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT || code == BL_ECLOSED)
        return code;
    cell_lose(cell, code == BL_EPARSE || code == BL_ELIMIT ? "the worker violated the protocol"
                                                           : "the worker exited unexpectedly");
    return BL_ECLOSED;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Reads the remaining output of an ended worker. Nothing waits for it. */
static void read_to_end(struct cell *cell)
{
    struct bl_scope shield;
    int code = 0;

    bl_shield_begin(&shield, END_NS_MAX);
    while (code == 0)
        code = cell_read_some(cell, cell_take_last_frame);
    bl_shield_end(&shield);
}

/* Makes a remembered first yield that was never observed generation 1. */
static void decide_remembered(struct cell *cell)
{
    struct bl_json_writer writer;
    struct bl_buffer json;

    if (cell->first_yield == SIZE_MAX || cell->generation > 0)
        return;
    bl_buffer_init(&json, SIZE_MAX);
    bl_json_writer_init(&writer, &json);
    cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_YIELDED,
                                             .cell_id = cell->id,
                                             .generation = 1,
                                             .items_json = {cell->output.data, cell->first_yield}});
    cell->yielded = cell_outcome_new(1, &json);
    cell->generation = 1;
    cell->unrecorded = true;
    cell->session->host->undelivered -= cell->output.size;
    bl_buffer_consume(&cell->output, cell->first_yield);
    if (cell->output.size > 0 && cell->output.data[0] == ',')
        bl_buffer_consume(&cell->output, 1);
    cell->session->host->undelivered += cell->output.size;
    cell->first_yield = SIZE_MAX;
}

/* Returns the terminal outcome, with all output that no earlier outcome has. */
static struct cell_outcome *make_terminal(struct cell *cell, struct bl_text receipt)
{
    struct bl_text items = bl_buffer_text(&cell->output);
    struct bl_json_writer writer;
    struct bl_buffer json;

    bl_buffer_init(&json, SIZE_MAX);
    bl_json_writer_init(&writer, &json);
    cell_ok_write(&writer, &(struct cell_ok){.type = receipt.size > 0 ? CELL_OK_TERMINATED
                                                                      : CELL_OK_COMPLETED,
                                             .cell_id = cell->id,
                                             .generation = cell->generation + 1,
                                             .items_json = items,
                                             .error = cell->has_error ? &cell->error : NULL,
                                             .stopped_calls = cell->stopped_calls,
                                             .receipt_json = receipt});
    return cell_outcome_new(cell->generation + 1, &json);
}

/* Writes a second record, which reports the store's failure and has no values. If the store refuses
 * it, too, only this host knows the end, and the next host finds the cell unfinished. BL_EEXIST
 * means that the first write took effect after all; then its outcome counts. */
static struct cell_outcome *complete_unstored(struct cell *cell, struct cell_outcome *first,
                                              struct bl_error *error)
{
    struct bl_list none;

    bl_list_init(&none);
    cell->has_error = true;
    cell->error = (struct bl_cell_error){
        .kind = BL_CELL_ERROR_STORE_FAILED,
        .name = BL_TEXT("Error"),
        .message = bl_arena_printf(&cell->arena, "cannot store the outcome: %s", error->message),
    };
    struct cell_outcome *second = make_terminal(cell, (struct bl_text){0});
    *error = (struct bl_error){0};
    if (cell_record_end(cell, second, &none, (struct bl_text){0}, error) == BL_EEXIST) {
        cell_outcome_unref(second);
        cell_values_apply(cell->session, &cell->stored);
        return first;
    }
    cell_outcome_unref(first);
    return second;
}

/* Writes the values together with the record. If the values do not fit or the store refuses, no
 * value is stored, and the record says so. */
static struct cell_outcome *cell_complete(struct cell *cell, struct bl_error *error)
{
    if (!cell_values_fit(cell->session, &cell->stored)) {
        bl_list_init(&cell->stored);
        cell->has_error = true;
        cell->error = (struct bl_cell_error){
            .kind = BL_CELL_ERROR_STORE_FULL,
            .name = BL_TEXT("RangeError"),
            .message = BL_TEXT("the session's stored values exceed their limit; none was stored"),
        };
    }
    struct cell_outcome *terminal = make_terminal(cell, (struct bl_text){0});
    if (cell_record_end(cell, terminal, &cell->stored, (struct bl_text){0}, error) != 0)
        return complete_unstored(cell, terminal, error);
    cell_values_apply(cell->session, &cell->stored);
    return terminal;
}

static void cell_settle_end(struct cell *cell, struct cell_outcome *terminal)
{
    cell->terminal = terminal;
    cell->ended_ns = bl_now_ns();
    cell->session->host->undelivered -= cell->output.size;
    bl_buffer_done(&cell->output);
    bl_buffer_init(&cell->output, SIZE_MAX);
}

/* Runs in the claimed scope, which no stop reaches. */
static void end_completed(struct cell *cell)
{
    struct bl_cell_host *host = cell->session->host;
    struct bl_error *error = bl_zalloc(sizeof *error);

    cell_move(cell, CELL_COMPLETING);
    cell_fault_hit(host, CELL_AT_COMPLETE_CLAIMED);
    cell->stopped_calls = cell->calls_running;
    bl_scope_stop(&cell->calls.scope, BL_STOP_PARENT, "cell");
    bl_nursery_done(&cell->calls);
    if (cell->worker != NULL && cell->ending == CELL_LOST) {
        cell_worker_reap(cell->worker, &cell->end);
        cell_explain_loss(cell);
    } else if (cell->worker != NULL) {
        bl_warden_signal(cell->worker->warden, SIGKILL); /* it sends nothing more */
    }
    if (cell->ending == CELL_OVER_OUTPUT)
        cell_explain_output(cell);
    cell_await_decision(cell);
    decide_remembered(cell);
    /* Cells with values to store check the limit and write one after another. */
    bool stores = !bl_list_empty(&cell->stored);
    if (stores)
        bl_lock_take(&cell->session->storing);
    struct cell_outcome *terminal = cell_complete(cell, error);
    if (stores)
        bl_lock_give(&cell->session->storing);
    cell_fault_hit(host, CELL_AT_COMPLETE_RECORDED);
    cell_settle_end(cell, terminal);
    cell_tell_end(cell, CELL_COMPLETED, (struct bl_text){0});
    if (cell->worker != NULL)
        cell_worker_stop(cell->worker, 0, &cell->end);
    bl_unit_end(&cell->unit, BL_FATE_FINISHED);
    bl_unit_end(&cell->outer_unit, BL_FATE_FINISHED);
    bl_free(error);
}

/* The parent's receipt has either the units of the cell's own receipt or one line for the cell. */
static void end_units(struct cell *cell)
{
    if (bl_receipt_elsewhere(&cell->receipt)) {
        bl_unit_drop(&cell->outer_unit);
        return;
    }
    cell->outer_unit.mechanism = cell->unit.mechanism;
    cell->outer_unit.processes = cell->unit.processes;
    cell->outer_unit.signal = cell->unit.signal;
    bl_receipt_fold(&cell->receipt, &cell->outer_unit);
    bl_unit_end(&cell->outer_unit, cell->unit.fate);
}

static void cell_write_receipt(struct cell *cell, struct bl_buffer *out)
{
    struct bl_json_writer writer;

    /* The loop may still have to pass on a stop that arrived together with the end. */
    while (!bl_receipt_ready(&cell->receipt) && bl_yield() == 0)
        continue;
    bl_json_writer_init(&writer, out);
    bl_receipt_write(&cell->receipt, &writer);
    bl_json_writer_done(&writer);
}

static void stop_work(struct cell *cell)
{
    if (cell->worker != NULL) {
        cell_worker_stop(cell->worker, BL_CELL_GRACE_MS, &cell->end);
        read_to_end(cell);
        bl_command_unit_end(&cell->unit, &cell->end);
    } else {
        bl_unit_end(&cell->unit, BL_FATE_NEVER_STARTED);
    }
    bl_nursery_done(&cell->calls);
}

static void end_terminated(struct cell *cell)
{
    struct bl_cell_host *host = cell->session->host;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope shield;
    struct bl_buffer receipt;

    cell_move(cell, CELL_TERMINATING);
    bl_shield_begin(&shield, END_NS_MAX);
    cell_fault_hit(host, CELL_AT_TERMINATE_STOPPED);
    stop_work(cell);
    cell_await_decision(cell);
    decide_remembered(cell);
    bl_buffer_init(&receipt, SIZE_MAX);
    cell_write_receipt(cell, &receipt);
    struct cell_outcome *terminal = make_terminal(cell, bl_buffer_text(&receipt));
    int code = cell_record_end(cell, terminal, NULL, bl_buffer_text(&receipt), error);
    if (code != 0) /* the failure may be transient */
        code = cell_record_end(cell, terminal, NULL, bl_buffer_text(&receipt), error);
    if (code == 0)
        cell_fault_hit(host, CELL_AT_TERMINATE_RECORDED);
    cell_settle_end(cell, terminal);
    if (code == 0)
        cell_tell_end(cell, CELL_TERMINATED, bl_buffer_text(&receipt));
    else
        cell_keep_unstored(cell, bl_buffer_text(&receipt), error);
    end_units(cell);
    if (cell->session->activities != NULL) {
        bl_activity_end(&cell->activity, bl_buffer_text(&receipt));
        cell->activity.kind = NULL;
    }
    bl_buffer_done(&receipt);
    bl_shield_end(&shield);
    bl_free(error);
}

/* Frees what only a live cell has; from here on the cell is a record. */
static void leave(struct cell *cell)
{
    struct bl_cell_host *host = cell->session->host;

    if (cell->session->activities != NULL && cell->activity.kind != NULL)
        bl_activity_end(&cell->activity, (struct bl_text){0});
    cell_worker_free(cell->worker); /* may wait: until then the cell counts as live */
    cell->worker = NULL;
    bl_receipt_close(&cell->receipt);
    bl_scope_done(&cell->scope);
    cell_values_unref(cell->values);
    cell->values = NULL;
    bl_arena_done(&cell->arena);
    bl_list_init(&cell->stored);
    cell->live = false;
    host->live--;
    host->memory -= cell->memory_bytes;
    cell_retain(cell);
}

static int cell_main(void *argument)
{
    struct cell *cell = argument;
    struct bl_cell_session *session = cell->session;
    struct bl_scope *outer = bl_scope_enter(cell->parent);

    bl_unit_begin(&cell->outer_unit, BL_UNIT_CELL, cell->id, NULL);
    bl_scope_enter(&cell->scope);
    bl_unit_begin(&cell->unit, BL_UNIT_CELL, cell->id, NULL);
    if (host_cell_run(cell) == BL_ECLOSED && bl_scope_claim(&cell->scope) == 0)
        end_completed(cell);
    else
        end_terminated(cell);
    bl_scope_enter(outer);
    leave(cell);
    cell_wake_all(&session->joining);
    struct bl_scope shield;
    bl_shield_begin(&shield, END_NS_MAX);
    cell_evict(session->host);
    bl_shield_end(&shield);
    return 0;
}

static void list_activity(struct cell *cell)
{
    if (cell->session->activities == NULL)
        return;
    cell->activity =
        (struct bl_activity){.kind = "cell", .scope = &cell->scope, .phase = "running"};
    bl_text_into(cell->activity.id, sizeof cell->activity.id, cell->id);
    bl_text_into(cell->activity.session, sizeof cell->activity.session, cell->session->id);
    bl_activity_begin(cell->session->activities, &cell->activity);
}

int cell_begin(struct cell *cell, struct bl_scope *parent)
{
    struct bl_cell_session *session = cell->session;

    cell->parent = parent;
    bl_scope_init(&cell->scope, parent);
    bl_receipt_open(&cell->receipt, &cell->scope, cell->id);
    bl_nursery_init(&cell->calls, &cell->scope);
    if (bl_nursery_spawn(&session->nursery, NULL, cell->id, cell_main, cell, NULL) != 0) {
        bl_nursery_done(&cell->calls);
        bl_receipt_close(&cell->receipt);
        bl_scope_done(&cell->scope);
        return BL_ESTACKS;
    }
    cell->live = true;
    list_activity(cell);
    cell_move(cell, CELL_RUNNING);
    bl_scope_set_deadline(&cell->scope,
                          bl_time_add(cell->created_ns, cell->deadline_ms * BL_NS_PER_MS));
    return 0;
}
