/* The tools `exec` and `wait`: the model's code in a cell, and its results. */
#include "parts.h"

/* Limit for a cell of which only the name is known. */
#define TRIES_MAX 3u

/* ---- Descriptions for the model -------------------------------------------------------------- */

struct bl_tool_offer exec_offer(struct bl_arena *arena)
{
    return (struct bl_tool_offer){
        .name = BL_TOOL_EXEC,
        .description =
            "Runs JavaScript (a module: strict, top-level await) in a cell, a separate process "
            "without files, network or imports, and returns what it prints. Call tools as "
            "`await tools.NAME(input)`, with the tool's own input; the result is its text, and a "
            "failed or refused call throws a ToolError. Calls may run in parallel (Promise.all). "
            "Use it when several calls, loops or computations on results would otherwise take many "
            "answers. Globals: text(v) and console.log print, image(v), store(key, value) and "
            "load(key) keep JSON values for later cells, notify(text) sends you a message at once, "
            "yield_control() returns the output so far, exit(), setTimeout, ALL_TOOLS. If the cell "
            "keeps running, the result has its id, for `wait`; it ends with this turn, unless "
            "'background' is true.",
        .schema = bl_record_input_schema(arena, &agent_exec_input),
    };
}

struct bl_tool_offer wait_offer(struct bl_arena *arena)
{
    return (struct bl_tool_offer){
        .name = BL_TOOL_WAIT,
        .description =
            "Waits for a cell that `exec` left running, and returns its new output; or ends the "
            "cell. The result of a cell that has ended can be read again.",
        .schema = bl_record_input_schema(arena, &agent_wait_input),
        .parallel = true,
    };
}

/* ---- Results --------------------------------------------------------------------------------- */

static void exec_fail(struct bl_tool_result *result, struct bl_text text)
{
    *result = (struct bl_tool_result){.text = text, .is_error = true};
}

static uint64_t generation_of(const struct bl_cell_observe_outcome *outcome)
{
    switch (outcome->type) {
    case BL_CELL_OBSERVE_YIELDED: return outcome->yielded.generation;
    case BL_CELL_OBSERVE_COMPLETED: return outcome->completed.generation;
    case BL_CELL_OBSERVE_TERMINATED: return outcome->terminated.generation;
    case BL_CELL_OBSERVE_MISSING: return 0;
    }
    return 0;
}

/* Makes the answer for the model; the members common to all outcomes are filled. */
static struct exec_answer answer_of(const struct exec_run *run)
{
    const struct bl_cell_observe_outcome *outcome = &run->outcome;
    struct bl_receipt_row receipt;
    struct exec_answer answer = {.cell_id = run->cell_id,
                                 .state = EXEC_MISSING,
                                 .wall_ns = bl_now_ns() - run->from_ns,
                                 .unseen = run->has_unseen ? &run->unseen.yielded.items : NULL};

    switch (outcome->type) {
    case BL_CELL_OBSERVE_YIELDED:
        answer.state = outcome->yielded.stalled ? EXEC_STALLED : EXEC_RUNNING;
        answer.items = &outcome->yielded.items;
        break;
    case BL_CELL_OBSERVE_COMPLETED:
        answer.state = outcome->completed.error != NULL ? EXEC_FAILED : EXEC_COMPLETED;
        answer.items = &outcome->completed.items;
        answer.error = outcome->completed.error;
        answer.stopped_calls = outcome->completed.stopped_calls;
        break;
    case BL_CELL_OBSERVE_TERMINATED:
        answer.state = EXEC_TERMINATED;
        answer.items = &outcome->terminated.items;
        bl_record_take(run->call->arena, &bl_receipt_record, outcome->terminated.receipt, &receipt);
        answer.reason = bl_text_from(receipt.reason);
        break;
    case BL_CELL_OBSERVE_MISSING: break;
    }
    return answer;
}

void exec_fill(const struct exec_run *run, const struct exec_answer *answer,
               struct bl_tool_result *ret_result)
{
    bool is_error = answer->state == EXEC_FAILED || answer->state == EXEC_MISSING ||
                    answer->state == EXEC_UNKNOWN ||
                    (answer->state == EXEC_TERMINATED && !run->wants_end);

    *ret_result = (struct bl_tool_result){
        .text = exec_answer_text(run->call->arena, answer, run->output_tokens_max),
        .is_error = is_error,
    };
    /* The text mentions them: for a model that does not accept images, that is all. */
    if (run->agent->model.takes_images)
        ret_result->images = exec_answer_images(run->call->arena, answer);
}

void exec_fill_unknown(const struct exec_run *run, const char *note,
                       struct bl_tool_result *ret_result)
{
    struct exec_answer answer = {.cell_id = run->cell_id,
                                 .state = EXEC_UNKNOWN,
                                 .wall_ns = bl_now_ns() - run->from_ns,
                                 .note = bl_text_from(note)};

    exec_fill(run, &answer, ret_result);
}

static void exec_tell(const struct exec_run *run, enum bl_event_type type, uint64_t generation)
{
    struct bl_event event = {.type = type, .cell = run->cell->id, .generation = generation};

    run->call->tell(run->call, &event);
}

static void exec_tell_ended(struct exec_run *run, const char *status, bool with_output)
{
    const struct bl_cell_observe_outcome *outcome = &run->outcome;
    struct bl_arena *arena = run->call->arena;
    struct agent_cell_fate fate = {.status = status, .generation = generation_of(outcome)};
    const struct bl_list *items = NULL;

    if (outcome->type == BL_CELL_OBSERVE_TERMINATED) {
        fate.receipt = bl_json_value_text(arena, outcome->terminated.receipt);
        items = &outcome->terminated.items;
    } else if (outcome->type == BL_CELL_OBSERVE_COMPLETED) {
        items = &outcome->completed.items;
    }
    if (with_output && items != NULL)
        fate.output = exec_output_text(arena, items, EXEC_OUTPUT_TOKENS);
    run->cell->over = true;
    agent_cell_tell_end(run->agent, run->cell, run->call, &fate);
}

static const char *exec_status_of(const struct bl_cell_observe_outcome *outcome)
{
    if (outcome->type == BL_CELL_OBSERVE_TERMINATED)
        return "terminated";
    return outcome->completed.error != NULL ? "failed" : "completed";
}

/* Delivers an outcome to the model: emits it, counts it, and keeps an end. */
void exec_deliver(struct exec_run *run, bool stopped, struct bl_tool_result *ret_result)
{
    struct agent_cell *cell = run->cell;
    struct exec_answer answer = answer_of(run);

    exec_fill(run, &answer, ret_result);
    cell->generation = generation_of(&run->outcome);
    if (run->outcome.type == BL_CELL_OBSERVE_YIELDED) {
        exec_tell(run, BL_EVENT_CELL_YIELDED, cell->generation);
        return;
    }
    exec_tell_ended(run, exec_status_of(&run->outcome), stopped);
    cell->ended = cell->generation;
    cell->is_error = ret_result->is_error;
    bl_buffer_clear(&cell->text);
    bl_buffer_append(&cell->text, ret_result->text);
}

/* ---- Asking the host ------------------------------------------------------------------------- */

static int exec_observe(struct exec_run *run, uint64_t generation, uint64_t yield_ms,
                        struct bl_cell_observe_outcome *ret_outcome)
{
    struct bl_cell_observe ask = {.cell_id = run->cell->id,
                                  .generation = generation,
                                  .yield_ms = yield_ms,
                                  .from_ns = run->from_ns};

    return bl_cell_observe(run->agent->cells.session, &ask, run->call->arena, ret_outcome,
                           &run->fault);
}

/* Observes the next outcome that the model has not seen. An outcome seen in a turn that left no
 * trace may have been dropped: then takes the oldest that is retained. */
int exec_observe_next(struct exec_run *run, uint64_t yield_ms)
{
    uint64_t generation = run->cell->generation + 1;
    int code = exec_observe(run, generation, yield_ms, &run->outcome);

    for (unsigned i = 0; i < TRIES_MAX && code != 0; i++) {
        if (run->fault.code != BL_CELL_WRONG_GENERATION)
            break;
        uint64_t next = run->fault.expected;
        for (size_t k = run->fault.retained_count; k > 0; k--)
            if (run->fault.retained[k - 1] > run->cell->generation)
                next = run->fault.retained[k - 1];
        code = exec_observe(run, next, yield_ms, &run->outcome);
    }
    return code;
}

/* If the end follows a yield that the model has not seen, reads that yield, too. */
static void read_unseen(struct exec_run *run)
{
    struct bl_scope shield;

    if (generation_of(&run->outcome) <= run->cell->generation + 1)
        return;
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    run->has_unseen = exec_observe(run, generation_of(&run->outcome) - 1, 0, &run->unseen) == 0 &&
                      run->unseen.type == BL_CELL_OBSERVE_YIELDED;
    bl_shield_end(&shield);
}

/* Repairs the links of a list whose head was copied. */
static void take_items(struct bl_list *items, bool empty)
{
    if (empty) {
        bl_list_init(items);
        return;
    }
    items->next->previous = items;
    items->previous->next = items;
}

/* Converts the outcome to one of `observe`, which can express all outcomes of `terminate`. */
void exec_take_terminated(struct exec_run *run, const struct bl_cell_terminate_outcome *outcome)
{
    struct bl_cell_observe_outcome *taken = &run->outcome;
    bool empty;

    *taken = (struct bl_cell_observe_outcome){.json = outcome->json};
    switch (outcome->type) {
    case BL_CELL_TERMINATE_COMPLETED:
        empty = bl_list_empty(&outcome->completed.items);
        taken->type = BL_CELL_OBSERVE_COMPLETED;
        taken->completed = outcome->completed;
        take_items(&taken->completed.items, empty);
        break;
    case BL_CELL_TERMINATE_TERMINATED:
        empty = bl_list_empty(&outcome->terminated.items);
        taken->type = BL_CELL_OBSERVE_TERMINATED;
        taken->terminated = outcome->terminated;
        take_items(&taken->terminated.items, empty);
        break;
    case BL_CELL_TERMINATE_MISSING:
        taken->type = BL_CELL_OBSERVE_MISSING;
        taken->missing.cell_id = outcome->missing.cell_id;
        break;
    }
    read_unseen(run);
}

/* ---- Stopped --------------------------------------------------------------------------------- */

/* The cell ends with the call. `made`: the cell is known to exist. */
int exec_stop(struct exec_run *run, bool made, struct bl_tool_result *ret_result)
{
    struct bl_cell_terminate_outcome *outcome = bl_arena_zalloc(run->call->arena, sizeof *outcome);
    struct bl_stop why;

    bl_scope_stop_read(run->call->scope, &why);
    bool answered = exec_stop_cell(run->agent, run->cell, &why, run->call->arena, outcome);
    bool missing = answered && outcome->type == BL_CELL_TERMINATE_MISSING;
    if (answered && !missing) {
        exec_take_terminated(run, outcome);
        exec_deliver(run, true, ret_result);
    } else if (missing && !made) {
        run->outcome.type = BL_CELL_OBSERVE_MISSING;
        struct exec_answer answer = answer_of(run);
        exec_fill(run, &answer, ret_result);
        exec_tell_ended(run, "never_started", false);
        run->cell->missing = true;
    } else {
        run->outcome.type = BL_CELL_OBSERVE_MISSING;
        exec_fill_unknown(run, "It was asked to end, but its outcome is unknown.", ret_result);
        exec_tell_ended(run, "unknown", false);
        run->cell->over = false;
        exec_checkpoint_write(run->agent);
    }
    return bl_scope_check(run->call->scope);
}

/* A cell that does not belong to the turn outlives its stop. */
int exec_leave_running(struct exec_run *run, struct bl_tool_result *ret_result)
{
    struct exec_answer answer = {
        .cell_id = run->cell_id, .state = EXEC_RUNNING, .wall_ns = bl_now_ns() - run->from_ns};

    exec_fill(run, &answer, ret_result);
    return bl_scope_check(run->call->scope);
}

static bool exec_is_stopped(const struct exec_run *run)
{
    return bl_scope_check(run->call->scope) != 0;
}

/* ---- exec ------------------------------------------------------------------------------------ */

/* Lists the agent's tools, except those that cells cannot call. */
static const struct bl_cell_tool *make_tools(const struct bl_agent *agent, struct bl_arena *arena,
                                             size_t *ret_count)
{
    struct bl_cell_tool *tools =
        bl_arena_alloc(arena, (agent->tools.offer_count + 1) * sizeof *tools);
    size_t count = 0;

    for (size_t i = 0; i < agent->tools.offer_count; i++) {
        const struct bl_tool_offer *offer = &agent->tools.offers[i];
        if (!agent_tool_is_nested(offer->name))
            continue;
        tools[count++] = (struct bl_cell_tool){.name = bl_text_from(offer->name),
                                               .description = bl_text_from(offer->description),
                                               .schema = offer->schema};
    }
    *ret_count = count;
    return tools;
}

static int exec_create(struct exec_run *run, const struct agent_exec_input *request)
{
    struct bl_agent *agent = run->agent;
    struct bl_cell_create create = {
        .cell_id = run->cell->id,
        .source = request->source,
        .deadline_ms = request->timeout_ms,
    };

    create.tools = make_tools(agent, run->call->arena, &create.tool_count);
    if (!request->background && run->call->turn_scope != NULL) {
        create.scope = agent_cells_turn_scope(agent, run->call);
        run->cell->of_turn = true;
    }
    return bl_cell_create(agent->cells.session, &create, &run->fault);
}

/* Creates the cell and observes it for the first time. `*ret_kept`: the cell must be remembered. */
static int create_and_observe(struct exec_run *run, const struct agent_exec_input *request,
                              struct bl_tool_result *ret_result, bool *ret_kept)
{
    const struct bl_scope *turn = run->call->turn_scope;

    *ret_kept = true;
    if (exec_create(run, request) != 0) {
        if (exec_is_stopped(run))
            return exec_stop(run, false, ret_result);
        *ret_kept = false;
        exec_fail(ret_result, bl_arena_printf(run->call->arena, "No cell was created: %s.",
                                              run->fault.message));
        return 0;
    }
    exec_tell(run, BL_EVENT_CELL_CREATED, 0);
    int code = exec_observe_next(run, request->yield_ms);
    if (code == 0 && run->outcome.type != BL_CELL_OBSERVE_MISSING) {
        exec_deliver(run, false, ret_result);
        return 0;
    }
    if (code != 0 && exec_is_stopped(run)) {
        bool outlives = request->background && turn != NULL && bl_scope_stopped(turn);
        return outlives ? exec_leave_running(run, ret_result) : exec_stop(run, true, ret_result);
    }
    exec_fill_unknown(run, code != 0 ? run->fault.message : "Its record no longer exists.",
                      ret_result);
    return 0;
}

/* Adds a cell with a new id for each call, even if a provider gives two calls the same id. */
static struct agent_cell *add_cell(struct bl_agent *agent, const struct bl_tool_call *call)
{
    char id[EXEC_ID_SIZE];
    uint64_t repeat = 0;

    do
        exec_cell_id(agent->session.id, call->turn, call->id, repeat++, id);
    while (agent_cell_find(agent, bl_text_from(id)) != NULL);
    return agent_cell_add(agent, id);
}

int agent_exec(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error BL_UNUSED)
{
    struct exec_run *run = bl_arena_zalloc(call->arena, sizeof *run);
    struct agent_exec_input request;
    struct bl_text problem;
    bool kept;

    *run = (struct exec_run){.agent = agent, .call = call, .from_ns = bl_now_ns()};
    if (!exec_input_read(call->arena, call->input, &request, &problem)) {
        exec_fail(ret_result, problem);
        return 0;
    }
    if (agent_cells_open(agent, &run->fault) != 0) {
        exec_fail(ret_result, bl_arena_printf(call->arena, "No cell can be created here: %s.",
                                              run->fault.message));
        return bl_scope_check(call->scope);
    }
    run->output_tokens_max = request.output_tokens_max;
    run->cell = add_cell(agent, call);
    run->cell_id = bl_text_from(run->cell->id);
    int code = agent_cell_take(run->cell);
    if (code != 0) {
        agent_cell_forget(run->cell);
        exec_fail(ret_result, BL_TEXT("Stopped before it was run."));
        return code;
    }
    code = create_and_observe(run, &request, ret_result, &kept);
    agent_cell_give(agent, run->cell, call);
    if (!kept)
        agent_cell_forget(run->cell);
    return code;
}
