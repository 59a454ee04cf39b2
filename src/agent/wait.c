/* The tool `wait`: new output of a cell, its end, or its end once more. */
#include <inttypes.h>

#include "parts.h"

#define TERMINATE_ID "wait"

/* ---- Repeated results ------------------------------------------------------------------------ */

/* A result that was delivered before. */
struct told {
    struct bl_text text;
    bool is_error;
};

static void repeat(const struct exec_run *run, const struct told *told,
                   struct bl_tool_result *ret_result)
{
    struct bl_text text = exec_answer_again(run->call->arena, told->text), rest;
    bool is_terminated = exec_answer_is_of(text, run->cell_id, &rest) &&
                         bl_text_starts_with(rest, BL_TEXT("terminated"));

    *ret_result = (struct bl_tool_result){
        .text = text,
        .is_error = told->is_error && !(is_terminated && run->wants_end),
    };
}

/* Returns whether the call with that id, in the messages of one turn, is `exec` or `wait`. */
static bool wait_is_ours(const struct bl_list *messages, struct bl_text id)
{
    BL_LIST_EACH (link, messages) {
        BL_LIST_EACH (inner, &BL_CONTAINER(link, struct bl_message, link)->blocks) {
            const struct bl_block *block = BL_CONTAINER(inner, struct bl_block, link);
            if (block->type == BL_BLOCK_CALL && bl_text_equal(block->id, id))
                return bl_text_equal(block->name, BL_TEXT("exec")) ||
                       bl_text_equal(block->name, BL_TEXT("wait"));
        }
    }
    return false;
}

/* Returns the first result in the messages of one turn that reports its end. */
static bool find_in_turn(const struct bl_list *messages, struct bl_text cell_id,
                         struct told *ret_told)
{
    BL_LIST_EACH (link, messages) {
        BL_LIST_EACH (inner, &BL_CONTAINER(link, struct bl_message, link)->blocks) {
            const struct bl_block *block = BL_CONTAINER(inner, struct bl_block, link);
            if (block->type != BL_BLOCK_RESULT || !exec_answer_is_end(block->text, cell_id) ||
                !wait_is_ours(messages, block->id))
                continue;
            *ret_told = (struct told){block->text, block->is_error};
            return true;
        }
    }
    return false;
}

static bool find_in_context(const struct bl_session *session, struct bl_text cell_id,
                            struct told *ret_told)
{
    BL_LIST_EACH (link, &session->turns) {
        const struct bl_turn_record *record = BL_CONTAINER(link, struct bl_turn_record, link);
        if (find_in_turn(&record->messages, cell_id, ret_told))
            return true;
    }
    return false;
}

/* A search in the stored session, which has the turns that left the context, too. */
struct search {
    struct bl_arena *arena;
    struct bl_text cell_id;
    struct told told;
    enum exec_state state; /* of its end, from an event; EXEC_UNKNOWN if there is none */
    struct bl_text reason; /* of that end, from its receipt */
};

static void search_turn(struct search *search, const struct bl_json *turn)
{
    struct bl_text json = bl_json_value_text(search->arena, turn);
    struct bl_list messages;

    bl_list_init(&messages);
    if (bl_messages_read(search->arena, json, &messages) == 0)
        find_in_turn(&messages, search->cell_id, &search->told);
}

static void search_event(struct search *search, const struct bl_json *value)
{
    static const enum exec_state ends[] = {EXEC_COMPLETED, EXEC_FAILED, EXEC_TERMINATED};
    const struct bl_json *receipt = NULL;
    struct bl_receipt_row row;
    struct bl_event event;

    bl_event_take(search->arena, value, &event);
    if ((event.type != BL_EVENT_CELL_ENDED && event.type != BL_EVENT_CELL_SETTLED) ||
        !bl_text_equal(bl_text_from(event.cell), search->cell_id) || event.status == NULL)
        return;
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        if (strcmp(event.status, exec_state_text(ends[i])) != 0)
            continue;
        bl_json_read(search->arena, event.json, NULL, &receipt, NULL);
        bl_record_take(search->arena, &bl_receipt_record, receipt, &row);
        search->state = ends[i];
        search->reason = bl_text_from(row.reason);
    }
}

static int wait_search_line(void *context, struct bl_text line)
{
    static const struct bl_json_limits limits = {.size_max = SIZE_MAX / 2,
                                                 .string_max = SIZE_MAX / 2};
    const struct bl_json *value, *messages, *event;
    struct search *search = context;

    if (bl_text_find(line, search->cell_id) < 0 ||
        bl_json_read(search->arena, line, &limits, &value, NULL) != 0)
        return 0;
    bl_store_line_take(search->arena, value, &messages, &event);
    if (messages != NULL)
        search_turn(search, messages);
    if (event != NULL)
        search_event(search, event);
    return search->told.text.size > 0 ? BL_ECLOSED : 0;
}

/* Finds the end of a cell that the host does not know. */
static bool find_in_store(struct exec_run *run, struct told *ret_told)
{
    struct search search = {
        .arena = run->call->arena, .cell_id = run->cell_id, .state = EXEC_UNKNOWN};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct exec_answer answer = {.cell_id = run->cell_id,
                                 .note = BL_TEXT("Its output is no longer available.")};

    bl_store_export(run->agent->options.store, run->agent->session.id, wait_search_line, &search,
                    error);
    bl_free(error);
    *ret_told = search.told;
    if (search.told.text.size > 0)
        return true;
    if (search.state == EXEC_UNKNOWN)
        return false;
    answer.reason = search.reason;
    answer.state = search.state;
    *ret_told = (struct told){exec_answer_text(run->call->arena, &answer, EXEC_OUTPUT_TOKENS),
                              answer.state != EXEC_COMPLETED};
    return true;
}

/* ---- The call -------------------------------------------------------------------------------- */

static void wait_answer_missing(struct exec_run *run, struct bl_tool_result *ret_result)
{
    struct told told;

    if (run->cell != NULL)
        run->cell->missing = true;
    if (run->cell_id.size > 0 && find_in_store(run, &told)) {
        repeat(run, &told, ret_result);
        return;
    }
    struct exec_answer answer = {.cell_id = bl_utf8_cut(run->cell_id, BL_CELL_ID_SIZE),
                                 .state = EXEC_MISSING,
                                 .wall_ns = bl_now_ns() - run->from_ns};
    exec_fill(run, &answer, ret_result);
}

static int wait_terminate(struct exec_run *run)
{
    struct bl_cell_terminate_outcome *outcome = bl_arena_zalloc(run->call->arena, sizeof *outcome);
    struct bl_cell_terminate ask = {
        .cell_id = run->cell->id,
        .terminate_id = TERMINATE_ID,
        .reason = BL_STOP_USER,
        .origin = "wait",
    };
    int code =
        bl_cell_terminate(run->agent->cells.session, &ask, run->call->arena, outcome, &run->fault);

    if (code == 0)
        exec_take_terminated(run, outcome);
    return code;
}

/* The caller has taken the cell. */
static int agent_wait_for(struct exec_run *run, uint64_t yield_ms,
                          struct bl_tool_result *ret_result)
{
    struct agent_cell *cell = run->cell;

    if (cell->ended != 0) {
        repeat(run, &(struct told){bl_buffer_text(&cell->text), cell->is_error}, ret_result);
        return 0;
    }
    int code = run->wants_end ? wait_terminate(run) : exec_observe_next(run, yield_ms);
    if (code != 0 && bl_scope_check(run->call->scope) != 0)
        return run->wants_end ? exec_stop(run, true, ret_result)
                              : exec_leave_running(run, ret_result);
    if (code != 0)
        exec_fill_unknown(run, run->fault.message, ret_result);
    else if (run->outcome.type == BL_CELL_OBSERVE_MISSING)
        wait_answer_missing(run, ret_result);
    else
        exec_deliver(run, false, ret_result);
    return 0;
}

static struct agent_cell *wait_find_cell(struct exec_run *run)
{
    struct agent_cell *cell = agent_cell_find(run->agent, run->cell_id);

    if (cell == NULL) {
        exec_checkpoint_read(run->agent);
        cell = agent_cell_find(run->agent, run->cell_id);
    }
    return cell;
}

static bool wait_is_id(struct bl_text text)
{
    size_t good = 0;

    while (good < text.size &&
           ((text.data[good] >= 'a' && text.data[good] <= 'z') ||
            (text.data[good] >= '0' && text.data[good] <= '9') || text.data[good] == '-'))
        good++;
    return good == text.size && text.size > 0 && text.size <= 64;
}

static struct exec_run *make_run(struct bl_agent *agent, const struct bl_tool_call *call,
                                 uint64_t *ret_yield_ms)
{
    struct exec_run *run = bl_arena_zalloc(call->arena, sizeof *run);
    struct agent_wait_input input;

    bl_record_take(call->arena, &agent_wait_input, call->input, &input);
    run->agent = agent;
    run->call = call;
    run->from_ns = bl_now_ns();
    run->cell_id = input.cell_id;
    run->output_tokens_max = input.output_tokens_max;
    run->wants_end = input.terminate;
    *ret_yield_ms = input.yield_ms;
    return run;
}

int agent_wait(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error BL_UNUSED)
{
    uint64_t yield_ms;
    struct exec_run *run = make_run(agent, call, &yield_ms);
    struct told told;

    run->cell = wait_find_cell(run);
    if (run->cell == NULL && find_in_context(&agent->session, run->cell_id, &told)) {
        repeat(run, &told, ret_result);
        return 0;
    }
    if (run->cell == NULL && !wait_is_id(run->cell_id)) {
        wait_answer_missing(run, ret_result);
        return 0;
    }
    int code = agent_cells_open(agent, &run->fault);
    if (run->cell == NULL)
        run->cell = agent_cell_find(agent, run->cell_id);
    if (run->cell == NULL) {
        run->cell = agent_cell_add(agent, run->cell_id.data);
        /* If the cell exists, it belongs to an earlier agent, which reported its end; or the host
         * did. */
        run->cell->told = true;
    }
    if (code != 0) {
        exec_fill_unknown(run, run->fault.message, ret_result);
        return bl_scope_check(call->scope);
    }
    code = agent_cell_take(run->cell);
    if (code != 0)
        return exec_leave_running(run, ret_result);
    code = agent_wait_for(run, yield_ms, ret_result);
    agent_cell_give(agent, run->cell, call);
    return code;
}
