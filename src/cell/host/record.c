/* The terminal record of a cell: it is in the store before the end is reported to anyone.
 *
 * Design notes.
 *
 * If the store refuses the record of a stop, the cell cannot run again: its worker has ended. Such
 * a cell stays `terminating`, with its outcome in memory (`unstored`). Callers are refused with
 * store_failed, no event reports the end, and the next request for the cell writes the record
 * again. If the host ends before that, the next host finds a cell without an end, and closes it. */
#include "host.h"

/* Has no pointers into the cell, which may be freed before the write is done. */
struct record_write {
    struct bl_store_session *held;
    char id[BL_CELL_ID_SIZE];
    struct bl_store_cell record;
    const struct bl_list *values;
    char receipt_id[BL_ID_SIZE];
    struct bl_text receipt;
};

static int record_write_end(void *context, struct bl_error *error)
{
    const struct record_write *write = context;

    return bl_store_cell_end(write->held, &write->record, write->values,
                             write->receipt.size > 0 ? write->receipt_id : NULL, write->receipt,
                             error);
}

static int record_once(struct cell *cell, struct cell_outcome *terminal,
                       const struct bl_list *values, struct bl_text receipt, struct bl_error *error)
{
    struct record_write write = {.held = cell->session->held, .values = values, .receipt = receipt};

    bl_text_into(write.id, sizeof write.id, cell->id);
    bl_text_into(write.receipt_id, sizeof write.receipt_id, cell->receipt.id);
    write.record.id = bl_text_from(write.id);
    /* The yield may be acknowledged meanwhile. */
    struct cell_outcome *yielded = cell->yielded != NULL ? cell_outcome_ref(cell->yielded) : NULL;
    if (yielded != NULL) {
        write.record.yielded_generation = yielded->generation;
        write.record.yielded = yielded->json;
    }
    write.record.generation = terminal->generation;
    write.record.terminal = terminal->json;
    write.record.completed = receipt.size == 0;
    write.record.ended_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    int code = cell_store_write(cell->session->host, error, record_write_end, &write);
    cell_outcome_unref(yielded);
    return code;
}

/* BL_EUNKNOWN means that the store cannot tell whether the record was written. Writing it again
 * settles that. */
int cell_record_end(struct cell *cell, struct cell_outcome *terminal, const struct bl_list *values,
                    struct bl_text receipt, struct bl_error *error)
{
    int code = record_once(cell, terminal, values, receipt, error);

    if (code == BL_EUNKNOWN) {
        *error = (struct bl_error){0};
        code = record_once(cell, terminal, values, receipt, error);
    }
    return code;
}

static void record_tell(struct cell *cell, struct bl_text receipt)
{
    const struct bl_cell_port *port = &cell->session->port;
    struct bl_cell_event event = {
        .type = BL_CELL_EVENT_ENDED,
        .cell_id = cell->id,
        .generation = cell->terminal->generation,
        .outcome = cell->terminal->json,
        .receipt = receipt,
        .completed = cell->state == CELL_COMPLETED,
        .failed = cell->state == CELL_COMPLETED && cell->has_error,
    };

    if (port->event != NULL)
        port->event(port->context, &event);
}

void cell_tell_end(struct cell *cell, enum cell_state state, struct bl_text receipt)
{
    cell_move(cell, state);
    cell->generation = cell->terminal->generation;
    cell->unrecorded = false;
    cell_give_end(cell);
    record_tell(cell, receipt);
}

void cell_keep_unstored(struct cell *cell, struct bl_text receipt, const struct bl_error *error)
{
    cell->unstored = cell_outcome_copy(0, receipt);
    cell_refuse_end(cell, error->message);
}

/* The cell may have been freed when this returns. */
int cell_store_again(struct cell *cell, struct bl_error *error)
{
    struct bl_cell_session *session = cell->session;
    struct cell_outcome *terminal = cell_outcome_ref(cell->terminal);
    struct cell_outcome *receipt = cell_outcome_ref(cell->unstored);
    char id[BL_CELL_ID_SIZE];

    bl_text_into(id, sizeof id, cell->id);
    int code = record_once(cell, terminal, NULL, receipt->json, error);
    cell = cell_find(session, id);
    if (code == 0 && cell != NULL && cell->unstored == receipt) {
        cell_outcome_unref(cell->unstored);
        cell->unstored = NULL;
        cell_tell_end(cell, CELL_TERMINATED, receipt->json);
    }
    cell_outcome_unref(terminal);
    cell_outcome_unref(receipt);
    return code;
}
