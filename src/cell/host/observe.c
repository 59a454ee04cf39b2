/* Generations: requests, decisions and retained outcomes.
 *
 * Design notes.
 *
 * All callers that ask for the next generation wait in one list. The first one whose yield time
 * expires causes a decision, for all of them. A decision takes the output so far, and a fiber of
 * its own writes it, so that it does not depend on any caller. The callers get it when it is in the
 * store. If it cannot be written, the output returns to the front of the buffer, and the generation
 * remains undecided. */
#include <inttypes.h>
#include <stdio.h>

#include "host.h"

/* The content of one decision. */
struct decision {
    struct cell *cell;
    struct bl_buffer items;
    bool stalled;
    bool remembered; /* it is a first yield that was not observed at the time */
};

/* ---- Deciding -------------------------------------------------------------------------------- */

static void observe_give(struct cell_waiter *waiter, struct cell_outcome *outcome)
{
    waiter->outcome = cell_outcome_ref(outcome);
    bl_list_remove(&waiter->link);
    bl_list_init(&waiter->link);
    bl_semaphore_give(&waiter->woken);
}

static void observe_fail(struct cell_waiter *waiter, const char *why)
{
    waiter->store_failed = true;
    bl_text_into(waiter->detail, sizeof waiter->detail, why);
    bl_list_remove(&waiter->link);
    bl_list_init(&waiter->link);
    bl_semaphore_give(&waiter->woken);
}

static struct cell_outcome *make_yielded(const struct decision *decision)
{
    uint64_t generation = decision->cell->generation + 1;
    struct bl_json_writer writer;
    struct bl_buffer json;

    bl_buffer_init(&json, SIZE_MAX);
    bl_json_writer_init(&writer, &json);
    cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_YIELDED,
                                             .cell_id = decision->cell->id,
                                             .generation = generation,
                                             .items_json = bl_buffer_text(&decision->items),
                                             .stalled = decision->stalled});
    return cell_outcome_new(generation, &json);
}

static void observe_put_back(struct decision *decision)
{
    struct cell *cell = decision->cell;
    struct bl_buffer later = cell->output;
    size_t place = decision->items.size;

    if (place > 0 && later.size > 0) {
        bl_buffer_append_byte(&decision->items, ',');
        cell->session->host->undelivered++;
    }
    bl_buffer_append(&decision->items, bl_buffer_text(&later));
    cell->output = decision->items;
    bl_buffer_done(&later);
    bl_buffer_init(&decision->items, 0);
    if (decision->remembered) {
        cell->first_yield = place;
        cell->observed = false;
    }
    cell->stall_pending |= decision->stalled;
}

struct yield_write {
    struct bl_store_session *held;
    struct bl_store_cell record;
};

static int write_yield(void *context, struct bl_error *error)
{
    const struct yield_write *write = context;

    return bl_store_cell_yield(write->held, &write->record, error);
}

static void decided(struct decision *decision, struct cell_outcome *outcome)
{
    struct cell *cell = decision->cell;
    const struct bl_cell_port *port = &cell->session->port;
    struct bl_cell_event event = {
        .type = BL_CELL_EVENT_YIELDED,
        .cell_id = cell->id,
        .generation = outcome->generation,
        .outcome = outcome->json,
    };

    cell->session->host->undelivered -= decision->items.size;
    cell->generation = outcome->generation;
    cell_outcome_unref(cell->yielded);
    cell->yielded = outcome;
    BL_LIST_EACH_SAFE (link, &cell->waiters)
        observe_give(BL_CONTAINER(link, struct cell_waiter, link), outcome);
    cell->waiter_count = 0;
    if (port->event != NULL)
        port->event(port->context, &event);
}

static int decision_main(void *argument)
{
    struct decision *decision = argument;
    struct cell *cell = decision->cell;
    struct bl_cell_host *host = cell->session->host;
    struct cell_outcome *outcome = make_yielded(decision);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct yield_write write = {
        .held = cell->session->held,
        .record = {.id = bl_text_from(cell->id),
                   .generation = outcome->generation,
                   .yielded_generation = outcome->generation,
                   .yielded = outcome->json},
    };

    if (cell_store_write(host, error, write_yield, &write) == 0) {
        cell_fault_hit(host, CELL_AT_OBSERVE_DECIDED);
        decided(decision, outcome);
    } else {
        cell_outcome_unref(outcome);
        observe_put_back(decision);
        BL_LIST_EACH_SAFE (link, &cell->waiters)
            observe_fail(BL_CONTAINER(link, struct cell_waiter, link), error->message);
        cell->waiter_count = 0;
    }
    cell->deciding = false;
    cell_wake_all(&cell->settled);
    bl_buffer_done(&decision->items);
    bl_free(decision);
    bl_free(error);
    return 0;
}

/* Starts a decision with the output up to `place`. */
static void observe_decide(struct cell *cell, size_t place, bool stalled, bool remembered)
{
    struct decision *decision = bl_zalloc(sizeof *decision);

    *decision = (struct decision){.cell = cell, .stalled = stalled, .remembered = remembered};
    bl_buffer_init(&decision->items, SIZE_MAX);
    if (place == cell->output.size) {
        decision->items = cell->output;
        bl_buffer_init(&cell->output, SIZE_MAX);
    } else {
        bl_buffer_append(&decision->items, (struct bl_text){cell->output.data, place});
        bl_buffer_consume(&cell->output, place);
        if (cell->output.data[0] == ',') {
            bl_buffer_consume(&cell->output, 1);
            cell->session->host->undelivered--;
        }
    }
    cell->deciding = true;
    if (stalled)
        cell->stall_pending = false;
    if (remembered)
        cell->first_yield = SIZE_MAX;
    if (bl_nursery_spawn(&cell->session->nursery, NULL, "decision", decision_main, decision,
                         NULL) != 0)
        decision_main(decision);
}

static bool may_decide(const struct cell *cell)
{
    return cell->state == CELL_RUNNING && !cell->deciding && !bl_scope_stopped(&cell->scope);
}

void cell_on_yield(struct cell *cell)
{
    if (!cell->observed) {
        if (cell->first_yield == SIZE_MAX)
            cell->first_yield = cell->output.size;
    } else if (!bl_list_empty(&cell->waiters) && may_decide(cell)) {
        observe_decide(cell, cell->output.size, false, false);
    }
}

void cell_on_stall(struct cell *cell)
{
    if (!bl_list_empty(&cell->waiters) && may_decide(cell))
        observe_decide(cell, cell->output.size, true, false);
    else
        cell->stall_pending = true;
}

void cell_await_decision(struct cell *cell)
{
    struct cell_waiter waiter;

    while (cell->deciding) {
        cell_waiter_init(&waiter);
        bl_list_push_back(&cell->settled, &waiter.link);
        if (bl_semaphore_take(&waiter.woken) != 0) {
            bl_list_remove(&waiter.link);
            return;
        }
    }
}

void cell_give_end(struct cell *cell)
{
    BL_LIST_EACH_SAFE (link, &cell->waiters) {
        struct cell_waiter *waiter = BL_CONTAINER(link, struct cell_waiter, link);
        bool yielded = cell->yielded != NULL && cell->yielded->generation == waiter->generation;
        observe_give(waiter, yielded ? cell->yielded : cell->terminal);
    }
    cell->waiter_count = 0;
    BL_LIST_EACH_SAFE (link, &cell->terminators)
        observe_give(BL_CONTAINER(link, struct cell_waiter, link), cell->terminal);
}

void cell_refuse_end(struct cell *cell, const char *why)
{
    BL_LIST_EACH_SAFE (link, &cell->waiters)
        observe_fail(BL_CONTAINER(link, struct cell_waiter, link), why);
    cell->waiter_count = 0;
    BL_LIST_EACH_SAFE (link, &cell->terminators)
        observe_fail(BL_CONTAINER(link, struct cell_waiter, link), why);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int wrong_generation(const struct cell *cell, uint64_t asked, uint64_t expected,
                            struct bl_cell_fault *fault)
{
    int code = cell_refuse(fault, BL_CELL_WRONG_GENERATION,
                           "generation %" PRIu64 " is not available (expected %" PRIu64 ")", asked,
                           expected);

    fault->expected = expected;
    if (cell->yielded != NULL && !cell->unrecorded)
        fault->retained[fault->retained_count++] = cell->yielded->generation;
    if (cell->terminal != NULL)
        fault->retained[fault->retained_count++] = cell->terminal->generation;
    return code;
}

static void observe_acknowledge(struct cell *cell, uint64_t generation)
{
    if (cell->yielded == NULL || cell->yielded->generation >= generation)
        return;
    cell_outcome_unref(cell->yielded);
    cell->yielded = NULL;
}

/* Finds an outcome that can be answered at once. NULL with 0 if the caller must wait. */
static int answer_now(struct cell *cell, uint64_t generation, struct cell_outcome **ret_outcome,
                      struct bl_cell_fault *fault)
{
    uint64_t next = cell->generation + (cell->unrecorded ? 0 : 1);
    bool ended = cell_has_ended(cell);

    *ret_outcome = NULL;
    if (cell->yielded != NULL && !cell->unrecorded && cell->yielded->generation == generation)
        *ret_outcome = cell->yielded;
    else if (ended && (generation == cell->generation || generation == next))
        *ret_outcome = cell->terminal;
    else if (ended || generation != next)
        return wrong_generation(cell, generation, ended ? cell->generation : next, fault);
    observe_acknowledge(cell, generation);
    return 0;
}

/* Decides at once if it can: for a remembered first yield, for a stall, or if `due`, the yield time
 * has expired. */
static void decide_if_due(struct cell *cell, bool due)
{
    bool first = !cell->observed;

    if (!may_decide(cell))
        return;
    cell->observed = true;
    if (first && cell->first_yield != SIZE_MAX)
        observe_decide(cell, cell->first_yield, false, true);
    else if (cell->stall_pending)
        observe_decide(cell, cell->output.size, true, false);
    else if (due)
        observe_decide(cell, cell->output.size, false, false);
}

/* Returns 0 if woken; BL_ETIMEDOUT with `*ret_due` if the yield time expired; another code if
 * stopped. */
static int wait_until(struct cell_waiter *waiter, uint64_t due_ns, bool *ret_due)
{
    struct bl_scope timed;

    *ret_due = false;
    if (due_ns == BL_NEVER)
        return bl_semaphore_take(&waiter->woken);
    bl_limit_begin_until(&timed, due_ns);
    int code = bl_semaphore_take(&waiter->woken);
    bl_limit_end(&timed);
    *ret_due = code == BL_ETIMEDOUT && bl_check() == 0;
    return code;
}

static int await_outcome(struct cell *cell, const struct bl_cell_observe *observe,
                         struct cell_waiter *waiter)
{
    uint64_t from_ns = observe->from_ns != 0 ? observe->from_ns : bl_now_ns();
    uint64_t due_ns = bl_time_add(from_ns, observe->yield_ms * BL_NS_PER_MS);
    bool due = due_ns <= bl_now_ns();
    int code = 0;

    waiter->generation = observe->generation;
    bl_list_push_back(&cell->waiters, &waiter->link);
    cell->waiter_count++;
    decide_if_due(cell, due);
    /* The cell is not freed before every waiter has been given an outcome or a failure. */
    while (code == 0 && waiter->outcome == NULL && !waiter->store_failed) {
        code = wait_until(waiter, due ? BL_NEVER : due_ns, &due);
        /* An outcome given in the same turn of the loop takes precedence, and the cell may be freed
         * by then. */
        if (due && waiter->outcome == NULL && !waiter->store_failed)
            decide_if_due(cell, true);
        if (due)
            code = 0;
    }
    if (waiter->outcome == NULL && !waiter->store_failed) {
        bl_list_remove(&waiter->link);
        cell->waiter_count--;
    }
    return code;
}

static int refuse_unstored(struct bl_cell_fault *fault, const char *detail)
{
    int code = cell_refuse(fault, BL_CELL_STORE_FAILED, "cannot store the outcome");

    bl_text_into(fault->detail, sizeof fault->detail, detail);
    return code;
}

static int observe_live(struct cell *cell, const struct bl_cell_observe *observe,
                        struct cell_outcome **ret_outcome, struct bl_cell_fault *fault)
{
    struct cell_waiter waiter;

    cell_waiter_init(&waiter);
    if (cell->waiter_count >= BL_CELL_WAITERS_MAX) {
        int code =
            cell_refuse(fault, BL_CELL_LIMIT_REACHED,
                        "%u callers are already waiting for this generation", BL_CELL_WAITERS_MAX);
        bl_text_into(fault->limit, sizeof fault->limit, "waiters");
        fault->value = BL_CELL_WAITERS_MAX;
        return code;
    }
    await_outcome(cell, observe, &waiter);
    *ret_outcome = waiter.outcome;
    if (waiter.outcome != NULL)
        return 0;
    if (!waiter.store_failed)
        return cell_refuse(fault, BL_CELL_CANCELLED, "the wait was cancelled");
    return refuse_unstored(fault, waiter.detail);
}

static int observe_answer_missing(struct bl_arena *arena, const char *cell_id,
                                  struct bl_text *ret_ok)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(json, SIZE_MAX);

    bl_json_writer_init(&writer, &json);
    cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_MISSING, .cell_id = cell_id});
    *ret_ok = bl_arena_text(arena, bl_buffer_text(&json));
    return 0;
}

static int observe_answer(struct bl_arena *arena, struct cell_outcome *outcome,
                          struct bl_text *ret_ok)
{
    *ret_ok = bl_arena_text(arena, outcome->json);
    cell_outcome_unref(outcome);
    return 0;
}

static int observe_inside(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                          struct bl_arena *arena, struct bl_text *ret_ok,
                          struct bl_cell_fault *fault)
{
    struct cell_outcome *outcome;
    struct cell *cell;
    int code = cell_find_recorded(session, observe->cell_id, &cell, fault);

    if (code != 0)
        return code;
    if (cell == NULL)
        return observe_answer_missing(arena, observe->cell_id, ret_ok);
    code = answer_now(cell, observe->generation, &outcome, fault);
    if (code != 0)
        return code;
    if (outcome != NULL)
        return observe_answer(arena, cell_outcome_ref(outcome), ret_ok);
    code = observe_live(cell, observe, &outcome, fault);
    return code != 0 ? code : observe_answer(arena, outcome, ret_ok);
}

int cell_observe(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                 struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    cell_session_enter(session);
    int code = observe_inside(session, observe, arena, ret_ok, fault);
    cell_session_leave(session);
    return code;
}

static int terminate_inside(struct bl_cell_session *session,
                            const struct bl_cell_terminate *terminate, struct bl_arena *arena,
                            struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    struct cell_waiter waiter;
    char origin[80];
    struct cell *cell;
    int code = cell_find_admitted(session, terminate->cell_id, &cell, fault);

    if (code == 0)
        code = cell_refuse_by_fault(session->host, CELL_AT_TERMINATE_ASKED, fault);
    if (code == 0) /* it may have been freed during a delay */
        code = cell_find_recorded(session, terminate->cell_id, &cell, fault);
    if (code != 0)
        return code;
    if (cell == NULL)
        return observe_answer_missing(arena, terminate->cell_id, ret_ok);
    if (cell_has_ended(cell))
        return observe_answer(arena, cell_outcome_ref(cell->terminal), ret_ok);
    cell_waiter_init(&waiter);
    snprintf(origin, sizeof origin, "terminate:%s", terminate->terminate_id);
    bl_scope_stop(&cell->scope, terminate->reason,
                  terminate->origin != NULL ? terminate->origin : origin);
    bl_list_push_back(&cell->terminators, &waiter.link);
    bl_semaphore_take(&waiter.woken);
    if (waiter.outcome != NULL)
        return observe_answer(arena, waiter.outcome, ret_ok);
    if (waiter.store_failed)
        return refuse_unstored(fault, waiter.detail);
    bl_list_remove(&waiter.link);
    return cell_refuse(fault, BL_CELL_CANCELLED,
                       "the wait was cancelled; the cell is still being terminated");
}

int cell_terminate(struct bl_cell_session *session, const struct bl_cell_terminate *terminate,
                   struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    cell_session_enter(session);
    int code = terminate_inside(session, terminate, arena, ret_ok, fault);
    cell_session_leave(session);
    return code;
}
