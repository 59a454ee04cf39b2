/* Design notes.
 *
 * An `exec` call that is stopped ends its cell, and must report the cell's outcome: the answer of
 * `terminate`, and nothing else. A completed cell stays completed, even if the stop came first
 * here. Without an answer the outcome is `unknown`, which is not an end. That is stored with the
 * session, and asked again when a turn begins, also after the next open of the session; the answer
 * then settles it. */
#include "parts.h"

#define CHECKPOINT   "cells"
#define TERMINATE_ID "exec-stop"
#define ALL_NS_MAX   (2 * BL_NS_PER_S)
#define TRY_NS_MAX   (700 * BL_NS_PER_MS)

/* ---- Stopping -------------------------------------------------------------------------------- */

/* Makes one attempt. The same id each time marks the same request. */
static int try_to_terminate(struct bl_agent *agent, const struct agent_cell *cell,
                            const struct bl_stop *stop, struct bl_arena *arena,
                            struct bl_cell_terminate_outcome *ret_outcome,
                            struct bl_cell_fault *fault)
{
    struct bl_cell_terminate terminate = {
        .cell_id = cell->id,
        .terminate_id = TERMINATE_ID,
        .reason = stop->reason,
        .origin = stop->origin[0] != '\0' ? stop->origin : NULL,
    };
    struct bl_scope limited;

    bl_limit_begin(&limited, TRY_NS_MAX);
    int code = bl_cell_terminate(agent->cells.session, &terminate, arena, ret_outcome, fault);
    bl_limit_end(&limited);
    return code;
}

bool exec_stop_cell(struct bl_agent *agent, const struct agent_cell *cell,
                    const struct bl_stop *stop, struct bl_arena *arena,
                    struct bl_cell_terminate_outcome *ret_outcome)
{
    static const uint64_t waits_ms[] = {0, 50, 100, 200, 400};
    struct bl_cell_fault *fault = bl_zalloc(sizeof *fault);
    struct bl_scope shield;
    int code = BL_EAGAIN;

    bl_shield_begin(&shield, ALL_NS_MAX);
    for (size_t i = 0; i < BL_COUNT(waits_ms) && code != 0 && bl_check() == 0; i++) {
        bl_sleep(waits_ms[i] * BL_NS_PER_MS);
        code = try_to_terminate(agent, cell, stop, arena, ret_outcome, fault);
    }
    bl_shield_end(&shield);
    bl_free(fault);
    return code == 0;
}

/* ---- Asking again ---------------------------------------------------------------------------- */

static struct agent_cell_fate exec_stop_fate_of(const struct bl_cell_terminate_outcome *outcome)
{
    switch (outcome->type) {
    case BL_CELL_TERMINATE_COMPLETED:
        return (struct agent_cell_fate){
            .status = outcome->completed.error != NULL ? "failed" : "completed",
            .generation = outcome->completed.generation,
        };
    case BL_CELL_TERMINATE_TERMINATED:
        return (struct agent_cell_fate){
            .status = "terminated",
            .generation = outcome->terminated.generation,
        };
    case BL_CELL_TERMINATE_MISSING: break;
    }
    return (struct agent_cell_fate){.status = "missing"};
}

static void ask_again(struct bl_agent *agent, struct agent_cell *cell)
{
    static const struct bl_stop stop = {.reason = BL_STOP_USER, .origin = "exec"};
    struct bl_cell_terminate_outcome *outcome = bl_zalloc(sizeof *outcome);
    struct bl_cell_fault *fault = bl_zalloc(sizeof *fault);
    struct bl_arena arena;
    struct bl_scope shield;

    bl_arena_init(&arena);
    bl_shield_begin(&shield, ALL_NS_MAX);
    int code = try_to_terminate(agent, cell, &stop, &arena, outcome, fault);
    bl_shield_end(&shield);
    if (code == 0) {
        struct agent_cell_fate fate = exec_stop_fate_of(outcome);
        if (outcome->type == BL_CELL_TERMINATE_TERMINATED)
            fate.receipt = bl_json_value_text(&arena, outcome->terminated.receipt);
        cell->over = true;
        agent_cell_tell_end(agent, cell, NULL, &fate);
    }
    bl_arena_done(&arena);
    bl_free(fault);
    bl_free(outcome);
}

void exec_ask_again(struct bl_agent *agent)
{
    struct bl_cell_fault *fault;
    bool any = false;

    BL_LIST_EACH (link, &agent->cells.known)
        any |= BL_CONTAINER(link, struct agent_cell, link)->unsettled;
    if (!any)
        return;
    fault = bl_zalloc(sizeof *fault);
    if (agent_cells_open(agent, fault) == 0) {
        BL_LIST_EACH (link, &agent->cells.known) {
            struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
            if (cell->unsettled)
                ask_again(agent, cell);
        }
        exec_checkpoint_write(agent);
    }
    bl_free(fault);
}

/* ---- State that outlives the process --------------------------------------------------------- */

/* Of one cell: which output the model has seen, and whether its outcome is unknown. */
#define BL_RECORD_STRUCT struct agent_cell
static const struct bl_member checkpoint_members[] = {
    BL_MEMBER_WORD("cell", id, .vital = true, .least = 1),
    BL_MEMBER_INTEGER("generation", committed),
    BL_MEMBER_BOOLEAN("told", told),
    BL_MEMBER_BOOLEAN("unsettled", unsettled),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record checkpoint_record =
    BL_RECORD("checkpoint", struct agent_cell, checkpoint_members);

/* Writes the state of all cells; empty if there is nothing to remember. */
static void write_checkpoint(const struct bl_agent *agent, struct bl_buffer *out)
{
    struct bl_json_writer writer;
    bool any = false;

    bl_json_writer_init(&writer, out);
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, &agent->cells.known) {
        const struct agent_cell *cell = BL_CONTAINER(link, struct agent_cell, link);
        if (!cell->unsettled && (cell->committed == 0 || cell->ended != 0))
            continue;
        any = true;
        bl_record_write(&writer, &checkpoint_record, cell);
    }
    bl_json_write_end(&writer);
    if (!any)
        bl_buffer_clear(out);
}

void exec_checkpoint_write(struct bl_agent *agent)
{
    struct bl_buffer *stored = &agent->cells.stored, now;
    struct bl_error *error;
    struct bl_scope shield;
    int code = 0;

    if (bl_list_empty(&agent->cells.known) && stored->size == 0)
        return;
    bl_buffer_init(&now, SIZE_MAX);
    write_checkpoint(agent, &now);
    if (!bl_text_equal(bl_buffer_text(&now), bl_buffer_text(stored))) {
        error = bl_zalloc(sizeof *error);
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        code = bl_store_checkpoint_put(agent->held, CHECKPOINT,
                                       now.size > 0 ? bl_buffer_text(&now) : BL_TEXT("[]"), error);
        bl_shield_end(&shield);
        bl_free(error);
        if (code == 0) {
            bl_buffer_clear(stored);
            bl_buffer_append(stored, bl_buffer_text(&now));
        }
    }
    bl_buffer_done(&now);
}

static void exec_stop_read_entry(struct bl_agent *agent, const struct bl_json *entry)
{
    struct agent_cell found;

    bl_record_take(NULL, &checkpoint_record, entry, &found);
    if (found.id[0] == '\0' || agent_cell_find(agent, bl_text_from(found.id)) != NULL)
        return;
    struct agent_cell *cell = agent_cell_add(agent, found.id);
    cell->generation = cell->committed = found.committed;
    cell->unsettled = found.unsettled;
    cell->told = found.told;
}

void exec_checkpoint_read(struct bl_agent *agent)
{
    const struct bl_store_hold_options *session = &agent->options.session;
    bool is_new = session->id == NULL && session->request_id == NULL && !session->newest;
    struct bl_error *error;
    struct bl_arena arena;
    struct bl_text json;
    struct bl_scope shield;
    const struct bl_json *list = NULL;

    if (agent->cells.restored || is_new)
        return;
    agent->cells.restored = true;
    error = bl_zalloc(sizeof *error);
    bl_arena_init(&arena);
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_checkpoint_get(agent->options.store, &arena, agent->session.id, CHECKPOINT,
                                       &json, error);
    bl_shield_end(&shield);
    if (code == 0 && bl_json_read(&arena, json, NULL, &list, NULL) == 0) {
        BL_JSON_EACH (entry, list)
            exec_stop_read_entry(agent, entry);
        if (bl_json_size(list) > 0)
            bl_buffer_append(&agent->cells.stored, json);
    }
    bl_arena_done(&arena);
    bl_free(error);
}
