/* Design notes.
 *
 * A call of `exec` that is stopped ends its cell, and must say what became of it: what `terminate`
 * answers, and nothing else. A completed cell stays completed, though the stop came first here; and
 * when nobody answers it is `unknown`, which is no end. That is written down with the session, and
 * asked again when a turn begins, also by whoever opens the session next; what is answered then
 * settles it. */
#include "parts.h"

#define CHECKPOINT   "cells"
#define TERMINATE_ID "exec-stop"
#define ALL_NS_MAX   (2 * BL_NS_PER_S)
#define TRY_NS_MAX   (700 * BL_NS_PER_MS)

/* ---- Stopping -------------------------------------------------------------------------------- */

/* One try. The same id each time: it is the same wish. */
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

/* ---- What outlives the process --------------------------------------------------------------- */

/* Which output the model has seen, and what is not known; empty: there is nothing of the kind. */
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
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "cell", cell->id);
        bl_json_put_uint64(&writer, "generation", cell->committed);
        bl_json_put_boolean(&writer, "told", cell->told);
        bl_json_put_boolean(&writer, "unsettled", cell->unsettled);
        bl_json_write_end(&writer);
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
    struct bl_text id = bl_json_text(bl_json_get(entry, BL_TEXT("cell")));
    int64_t generation = 0;

    if (id.size == 0 || id.size >= BL_CELL_ID_SIZE || agent_cell_find(agent, id) != NULL)
        return;
    bl_json_int64(bl_json_get(entry, BL_TEXT("generation")), &generation);
    struct agent_cell *cell = agent_cell_add(agent, id.data);
    cell->generation = cell->committed = generation > 0 ? (uint64_t)generation : 0;
    cell->unsettled = bl_json_boolean(bl_json_get(entry, BL_TEXT("unsettled")), false);
    cell->told = bl_json_boolean(bl_json_get(entry, BL_TEXT("told")), false);
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
