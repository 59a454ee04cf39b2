/* The tool calls of one answer: limits, permission, the call itself, its result. */
#include <stdio.h>

#include "parts.h"

#define MISFITS_TOLD_MAX 5u

/* A call of the model. In the turn's arena. */
struct call_step {
    struct step step;
    struct turn *turn;
    struct bl_block *block;
    struct bl_scope *siblings; /* of all that run beside it, and itself */
    bool settled;              /* it has a result */
    bool failed;               /* as the runtime does, and the turn with it */
};

/* Calls of one answer that run beside each other; and what is left of the answer is not run when
 * one of them could not be. */
struct batch {
    struct call_step *steps[TURN_CALLS_MAX];
    size_t count;
};

static void add_result(struct turn *turn, const struct bl_block *call, struct bl_text text,
                       bool is_error)
{
    struct bl_arena *arena = &turn->record->arena;

    if (turn->results == NULL)
        turn->results = bl_message_add(arena, &turn->record->messages, BL_ROLE_USER);
    struct bl_block *result = bl_block_add(arena, turn->results, BL_BLOCK_RESULT);
    result->id = call->id;
    result->text = text;
    result->is_error = is_error;
}

static bool has_result(const struct turn *turn, const struct bl_block *call)
{
    if (turn->results == NULL)
        return false;
    BL_LIST_EACH (link, &turn->results->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_RESULT && bl_text_equal(block->id, call->id))
            return true;
    }
    return false;
}

void turn_complete_results(struct turn *turn, struct bl_text text)
{
    const struct bl_message *message = turn->answer.message;

    if (message == NULL)
        return;
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL && !has_result(turn, block))
            add_result(turn, block, text, true);
    }
    turn_place_images(turn, turn->results);
}

/* ---- What any call does ---------------------------------------------------------------------- */

void step_emit(const struct step *step, struct bl_event event)
{
    struct bl_journal *journal = engine_journal(step->engine);

    event.nested = step->nested;
    if (journal != NULL)
        journal_emit_in(journal, &event, step->call.turn);
}

void step_end(struct turn *turn, const struct step *step, const char *status, uint64_t ms,
              struct bl_text text)
{
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "tool call ended", BL_LOG_TEXT("call", step->id),
           BL_LOG_TEXT("tool", step->name), BL_LOG_STRING("status", status),
           BL_LOG_INTEGER("ms", (int64_t)ms));
    if (turn != NULL) {
        struct bl_step *listed = bl_arena_alloc(turn->arena, sizeof *listed);
        listed->id = bl_arena_text(turn->arena, step->id);
        listed->tool = bl_arena_text(turn->arena, step->name);
        listed->status = status;
        listed->ms = ms;
        bl_list_push_back(&turn->result->steps, &listed->link);
    }
    step_emit(step, (struct bl_event){.type = BL_EVENT_TOOL_ENDED,
                                      .id = step->id,
                                      .name = step->name,
                                      .status = status,
                                      .ms = ms,
                                      .text = text});
}

void step_output(const struct bl_tool_call *call, struct bl_text bytes)
{
    const struct step *step = BL_CONTAINER(call, struct step, call);

    step_emit(step, (struct bl_event){.type = BL_EVENT_TOOL_OUTPUT, .id = step->id, .text = bytes});
}

void step_tell(const struct bl_tool_call *call, struct bl_event *event)
{
    const struct step *step = BL_CONTAINER(call, struct step, call);

    event->id = step->id;
    step_emit(step, *event);
}

void step_count_spent(struct turn *turn, const struct step *step)
{
    bl_spent_add(&turn->result->spent, &step->result.spent);
    bl_usage_add(&turn->used, &step->result.spent.usage);
}

void step_deny(struct turn *turn, const struct step *step, const char *reason)
{
    struct bl_denial *denial = bl_arena_alloc(turn->arena, sizeof *denial);

    denial->tool = bl_arena_text(turn->arena, step->name);
    denial->reason = bl_arena_text(turn->arena, bl_text_from(reason));
    bl_list_push_back(&turn->result->denials, &denial->link);
}

/* Asks whoever can be asked. A stop answers it, too. */
static bool ask_permission(struct step *step, char *reason, size_t reason_size)
{
    const struct bl_tools *tools = step->engine->tools;
    struct bl_event event = {.type = BL_EVENT_PERMISSION_ASKED, .name = step->name};
    char question[512];

    if (tools->ask == NULL) {
        size_t size = strlen(reason);
        snprintf(reason + size, reason_size - size, "%snobody can be asked here",
                 size > 0 ? ": " : "");
        return false;
    }
    bl_text_into(question, sizeof question, reason);
    reason[0] = '\0';
    event.text = bl_text_from(question);
    step_tell(&step->call, &event);
    enum bl_permit answer = tools->ask(tools->context, &step->call, question, reason, reason_size);
    bool stopped = bl_scope_check(&step->scope) != 0;
    event = (struct bl_event){.type = BL_EVENT_PERMISSION_ANSWERED,
                              .name = step->name,
                              .text = bl_text_from(reason),
                              .status = stopped                       ? "cancelled"
                                        : answer == BL_PERMIT_ALLOWED ? "allowed"
                                                                      : "denied"};
    step_tell(&step->call, &event);
    return answer == BL_PERMIT_ALLOWED && !stopped;
}

bool step_permitted(struct step *step, char *reason, size_t reason_size)
{
    const struct bl_tools *tools = step->engine->tools;

    switch (tools->permit(tools->context, &step->call, reason, reason_size)) {
    case BL_PERMIT_ALLOWED: return true;
    case BL_PERMIT_ASK: return ask_permission(step, reason, reason_size);
    case BL_PERMIT_DENIED: return false;
    }
    return false;
}

/* Of a stop that was asked where the receipt is open. */
static void tell_receipt(const struct step *step, struct bl_receipt *receipt)
{
    struct bl_text json = turn_receipt_text(receipt, step->call.arena);

    if (json.size > 0)
        step_emit(step, (struct bl_event){.type = BL_EVENT_RECEIPT, .id = step->id, .json = json});
}

int step_run(struct step *step, struct bl_error *error)
{
    const struct bl_tools *tools = step->engine->tools;
    struct bl_receipt receipt;

    bl_receipt_open(&receipt, &step->scope, step->call.id);
    BL_LOG(BL_ROOM_TURN, BL_LOG_DEBUG, "tool call begins", BL_LOG_TEXT("tool", step->name));
    step_emit(step, (struct bl_event){.type = BL_EVENT_TOOL_STARTED,
                                      .id = step->id,
                                      .name = step->name,
                                      .call = &step->call});
    int code = tools->call(tools->context, &step->call, &step->result, error);
    tell_receipt(step, &receipt);
    bl_receipt_close(&receipt);
    return code;
}

/* ---- What can be run ------------------------------------------------------------------------- */

static const struct bl_tool_offer *steps_find_tool(const struct bl_tools *tools,
                                                   struct bl_text name)
{
    for (size_t i = 0; tools != NULL && i < tools->offer_count; i++) {
        if (bl_text_equal(bl_text_from(tools->offers[i].name), name))
            return &tools->offers[i];
    }
    return NULL;
}

/* What is wrong with the input by the tool's schema, in the words of the first few problems; empty:
 * it fits. */
static struct bl_text misfit(struct bl_arena *arena, const struct bl_tool_offer *tool,
                             const struct bl_json *input)
{
    struct bl_text text = {0};
    struct bl_list problems;
    unsigned count = 0;

    if (tool->compiled == NULL ||
        bl_json_schema_check(tool->compiled, input, arena, &problems) == 0)
        return text;
    text = BL_TEXT("its input does not fit the tool's schema");
    BL_LIST_EACH (link, &problems) {
        const struct bl_json_problem *problem = BL_CONTAINER(link, struct bl_json_problem, link);
        if (++count <= MISFITS_TOLD_MAX)
            text = bl_arena_printf(arena, BL_TEXT_FORMAT "%s%.100s %.200s", BL_TEXT_ARG(text),
                                   count == 1 ? ": " : "; ",
                                   problem->path.size > 0 ? problem->path.data : "it",
                                   problem->message.data);
    }
    return text;
}

struct bl_text step_misfit(const struct bl_tools *tools, struct bl_arena *arena,
                           struct bl_text name, struct bl_text text,
                           const struct bl_json **ret_input)
{
    const struct bl_tool_offer *tool = steps_find_tool(tools, name);
    struct bl_json_fault fault;
    char why[256];

    *ret_input = NULL;
    int code = bl_json_read(arena, text, NULL, ret_input, &fault);
    if (tool == NULL)
        return bl_arena_printf(arena, "there is no tool '" BL_TEXT_FORMAT "'",
                               BL_TEXT_ARG(bl_utf8_cut(name, 64)));
    if (code != 0) {
        bl_json_fault_text(&fault, why, sizeof why);
        return bl_arena_printf(arena, "its input is not JSON: %s", why);
    }
    if (!bl_json_is(*ret_input, BL_JSON_OBJECT))
        return BL_TEXT("its input is not a JSON object");
    return misfit(arena, tool, *ret_input);
}

/* Fills result->invalid of a call that cannot be run as it stands. */
static void check_call(struct turn *turn, struct bl_block *block, const struct bl_json **ret_input)
{
    *ret_input = NULL;
    if (block->invalid.size == 0)
        block->invalid = step_misfit(turn->engine->tools, &turn->record->arena, block->name,
                                     block->input, ret_input);
}

/* ---- One call of the model ------------------------------------------------------------------- */

static void steps_settle(struct call_step *own, struct bl_text text, bool is_error)
{
    own->step.result.text = text;
    own->step.result.is_error = is_error;
    own->settled = true;
}

static void steps_deny(struct call_step *own, const char *reason)
{
    struct turn *turn = own->turn;

    step_deny(turn, &own->step, reason);
    steps_settle(own, bl_arena_printf(&turn->record->arena, "Not permitted: %s", reason), true);
    step_end(turn, &own->step, "denied", 0, own->step.result.text);
}

static int run_tool(struct call_step *own)
{
    struct turn *turn = own->turn;
    struct bl_error error = {0};
    int code = step_run(&own->step, &error);
    bool failed = code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT;

    /* Of several that fail the first is told. */
    if (failed && turn->result->end != BL_TURN_ERROR)
        turn->result->error = error;
    step_count_spent(turn, &own->step);
    return code;
}

/* A call that was stopped alone is a result like any other. */
static int steps_run_permitted(struct call_step *own, uint64_t from_ns)
{
    struct bl_tool_result *result = &own->step.result;
    struct turn *turn = own->turn;
    int code = run_tool(own);
    uint64_t ms = (bl_clock_now_ns(turn->engine->clock) - from_ns) / BL_NS_PER_MS;
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;

    if (code != 0 && !stopped) {
        step_end(turn, &own->step, "error", ms, (struct bl_text){0});
        turn_fail(turn, code, BL_KIND_TOOL, "the tool '" BL_TEXT_FORMAT "' failed: %s",
                  BL_TEXT_ARG(own->step.name), bl_error_text(code));
        return code;
    }
    steps_settle(own, result->text, result->is_error || stopped);
    step_end(turn, &own->step,
             stopped            ? "stopped"
             : result->is_error ? "error"
                                : "ok",
             ms, result->text);
    return 0;
}

/* By a stop of this call alone, in the question or a hook before it. */
static void stop_before(struct call_step *own)
{
    steps_settle(own, BL_TEXT("Stopped before it was run."), true);
    step_end(own->turn, &own->step, "stopped", 0, own->step.result.text);
}

/* One call from its permission to its result. Not 0: the turn has failed. */
static int run_step(void *argument)
{
    struct call_step *own = argument;
    struct step *step = &own->step;
    struct turn *turn = own->turn;
    uint64_t from_ns = bl_clock_now_ns(turn->engine->clock);
    char reason[512] = "";
    int code = 0;

    bl_scope_init(&step->scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&step->scope);
    bool may = step_permitted(step, reason, sizeof reason);
    if (bl_scope_check(&turn->scope) != 0)
        code = 0; /* the turn is at its end, and says so */
    else if (bl_scope_check(&step->scope) != 0)
        stop_before(own);
    else if (!may)
        steps_deny(own, reason);
    else
        code = steps_run_permitted(own, from_ns);
    bl_scope_enter(outer);
    bl_scope_done(&step->scope);
    own->failed = code != 0;
    if (own->failed)
        bl_scope_stop(own->siblings, BL_STOP_SIBLING_FAILURE, step->call.name);
    return code;
}

static struct call_step *turn_make_step(struct turn *turn, struct bl_block *block,
                                        const struct bl_json *input)
{
    struct call_step *own = bl_arena_zalloc(&turn->record->arena, sizeof *own);

    own->turn = turn;
    own->block = block;
    own->step.engine = turn->engine;
    own->step.id = block->id;
    own->step.name = block->name;
    own->step.call = (struct bl_tool_call){.id = block->id.data,
                                           .name = block->name.data,
                                           .turn = turn->result->turn_id,
                                           .turn_scope = &turn->scope,
                                           .input_text = block->input,
                                           .input = input,
                                           .scope = &own->step.scope,
                                           .arena = &turn->record->arena,
                                           .budget = &turn->budget,
                                           .output = step_output,
                                           .tell = step_tell};
    return own;
}

/* ---- Several at once ------------------------------------------------------------------------- */

/* Returns when all of them have ended. */
static void run_steps(struct batch *batch, struct bl_scope *siblings)
{
    struct bl_nursery nursery;
    struct bl_scope *outer = bl_scope_enter(siblings);

    bl_nursery_init(&nursery, siblings);
    for (size_t i = 1; i < batch->count; i++) {
        struct call_step *own = batch->steps[i];
        /* Without a stack for it, it has its turn in this fiber. */
        if (bl_nursery_spawn(&nursery, NULL, own->step.call.name, run_step, own, NULL) != 0)
            run_step(own);
    }
    run_step(batch->steps[0]);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_scope_enter(outer);
}

/* Runs what is gathered; results stand in the order of the calls. False: the turn is at its end. */
static bool steps_run_batch(struct turn *turn, struct batch *batch)
{
    struct bl_receipt receipt; /* of what one that fails does to the others */
    struct bl_scope siblings;

    if (batch->count == 0)
        return true;
    bl_scope_init(&siblings, &turn->scope);
    bl_receipt_open(&receipt, &siblings, turn->result->turn_id);
    for (size_t i = 0; i < batch->count; i++)
        batch->steps[i]->siblings = &siblings;
    run_steps(batch, &siblings);
    for (size_t i = 0; i < batch->count; i++) {
        const struct call_step *own = batch->steps[i];
        const struct bl_tool_result *result = &own->step.result;
        if (own->failed && !bl_list_empty(&receipt.stopped))
            tell_receipt(&own->step, &receipt);
        if (own->settled)
            add_result(turn, own->block,
                       turn_take_images(turn, result->images, own->block->id, result->text),
                       result->is_error);
    }
    batch->count = 0;
    bl_receipt_close(&receipt);
    bl_scope_done(&siblings);
    if (turn->result->end == BL_TURN_ERROR)
        return false;
    return bl_scope_check(&turn->scope) == 0 || turn_end_stopped(turn);
}

static bool is_parallel(const struct turn *turn, const struct bl_block *block)
{
    return steps_find_tool(turn->engine->tools, block->name)->parallel;
}

/* ---- All calls of an answer ------------------------------------------------------------------ */

/* The call that would pass the limit is not run. False: the turn ends here. */
static bool at_step_limit(struct turn *turn)
{
    if (!turn->engine->limits.synthesize)
        return turn_end_as(turn, BL_TURN_MAX_STEPS);
    turn->tools_forbidden = true;
    turn_complete_results(turn, BL_TEXT("Not run: the limit of tool calls is reached. Answer with "
                                        "what was found so far."));
    return true;
}

static void tell_requested(struct turn *turn)
{
    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL)
            turn_emit(turn,
                      (struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                                        .id = block->id,
                                        .name = block->name,
                                        .json = block->invalid.size == 0 ? block->input
                                                                         : (struct bl_text){0}});
    }
}

/* The model is told twice in a row what is wrong with a call, not for ever. */
static bool tolerate_invalid(struct turn *turn, bool found)
{
    turn->invalid_in_row = found ? turn->invalid_in_row + 1 : 0;
    if (turn->invalid_in_row <= 2)
        return true;
    turn_fail(turn, BL_EPARSE, BL_KIND_PROVIDER,
              "the model asked for tools in a way that cannot be run, three times in a row");
    bl_error_name_set(&turn->result->error, "bad_response");
    return false;
}

/* A call that cannot be run. */
static void steps_refuse(struct turn *turn, const struct bl_block *block)
{
    add_result(turn, block,
               bl_arena_printf(&turn->record->arena, "Not run: " BL_TEXT_FORMAT ".",
                               BL_TEXT_ARG(block->invalid)),
               true);
    const struct step step = {.engine = turn->engine,
                              .id = block->id,
                              .name = block->name,
                              .call = {.turn = turn->result->turn_id}};
    step_end(turn, &step, "invalid", 0, block->invalid);
}

/* Each call in its turn; those that may run beside each other, and stand together, at once. */
static bool steps_run_all(struct turn *turn, struct batch *batch, bool *ret_invalid)
{
    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        const struct bl_json *input;
        if (block->type != BL_BLOCK_CALL)
            continue;
        if (bl_scope_check(&turn->scope) != 0)
            return turn_end_stopped(turn);
        check_call(turn, block, &input);
        bool alone = block->invalid.size > 0 || !is_parallel(turn, block);
        if (alone && !steps_run_batch(turn, batch))
            return false;
        if (block->invalid.size > 0) {
            *ret_invalid = true;
            steps_refuse(turn, block);
            continue;
        }
        if (turn->steps >= turn->engine->limits.max_steps) {
            if (!steps_run_batch(turn, batch))
                return false;
            return at_step_limit(turn);
        }
        turn->steps++;
        batch->steps[batch->count++] = turn_make_step(turn, block, input);
        if (alone && !steps_run_batch(turn, batch))
            return false;
    }
    return steps_run_batch(turn, batch);
}

bool turn_run_calls(struct turn *turn)
{
    struct batch batch = {.count = 0};
    bool invalid = false;

    tell_requested(turn);
    if (!steps_run_all(turn, &batch, &invalid))
        return false;
    turn_place_images(turn, turn->results);
    turn_take_injected(turn);
    return turn->tools_forbidden || tolerate_invalid(turn, invalid);
}
