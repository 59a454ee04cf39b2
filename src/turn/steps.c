/* The tool calls of one answer: limits, permission, the call itself, its result. */
#include <stdio.h>

#include "parts.h"

/* A call of the model. In the turn's arena. */
struct call_step {
    struct step step;
    struct turn *turn;
    struct bl_block *block;
    uint32_t index;            /* among the calls of its answer */
    struct bl_scope *siblings; /* of all calls that run beside it, and itself */
    bool settled;              /* it has a result */
    bool failed;               /* the runtime failed, and the turn with it */
};

/* Calls of one answer that run in parallel. If one of them cannot be run, the rest of the answer is
 * not run. */
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

uint64_t step_ms(const struct step *step)
{
    uint64_t all_ns = bl_clock_now_ns(step->engine->clock) - step->from_ns;
    uint64_t asked_ns = step->asked_ns + step->result.asked_ns;

    return (all_ns > asked_ns ? all_ns - asked_ns : 0) / BL_NS_PER_MS;
}

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

/* Returns them in the arena of the result; NULL if none. */
static const char *const *steps_rules_allowing(struct turn *turn, const struct step *step)
{
    const struct bl_tools *tools = step->engine->tools;
    const char *const *rules =
        tools->rules != NULL && !step->answered ? tools->rules(tools->context, &step->call) : NULL;
    size_t count = 0;

    while (rules != NULL && rules[count] != NULL)
        count++;
    if (count == 0)
        return NULL;
    const char **kept = bl_arena_zalloc(turn->arena, (count + 1) * sizeof *kept);
    for (size_t i = 0; i < count; i++)
        kept[i] = bl_arena_text(turn->arena, bl_text_from(rules[i])).data;
    return kept;
}

const struct bl_denial *step_deny(struct turn *turn, const struct step *step, const char *reason)
{
    struct bl_denial *denial = bl_arena_alloc(turn->arena, sizeof *denial);

    denial->tool = bl_arena_text(turn->arena, step->name);
    denial->reason = bl_arena_text(turn->arena, bl_text_from(reason));
    denial->rules = steps_rules_allowing(turn, step);
    bl_list_push_back(&turn->result->denials, &denial->link);
    return denial;
}

/* Asks the user, if possible. A stop counts as an answer, too. */
static enum bl_permit ask_permission(struct step *step, char *reason, size_t reason_size)
{
    const struct bl_tools *tools = step->engine->tools;
    struct bl_event event = {.type = BL_EVENT_PERMISSION_ASKED, .name = step->name};
    char question[512];

    if (tools->ask == NULL) {
        snprintf(reason, reason_size, "it needs approval, and no user can be asked here");
        return BL_PERMIT_DENIED;
    }
    step->answered = true;
    step->doing = "permission";
    bl_text_into(question, sizeof question, reason);
    reason[0] = '\0';
    event.text = bl_text_from(question);
    step_tell(&step->call, &event);
    uint64_t from_ns = bl_clock_now_ns(step->engine->clock);
    enum bl_permit answer = tools->ask(tools->context, &step->call, question, reason, reason_size);
    step->asked_ns += bl_clock_now_ns(step->engine->clock) - from_ns;
    bool stopped = bl_scope_check(&step->scope) != 0;
    event = (struct bl_event){.type = BL_EVENT_PERMISSION_ANSWERED,
                              .name = step->name,
                              .text = bl_text_from(reason),
                              .status = stopped                      ? "cancelled"
                                        : answer == BL_PERMIT_DENIED ? "denied"
                                                                     : "allowed"};
    step_tell(&step->call, &event);
    return stopped ? BL_PERMIT_DENIED : answer;
}

bool step_permitted(struct step *step, char *reason, size_t reason_size)
{
    const struct bl_tools *tools = step->engine->tools;

    step->doing = "hook";
    enum bl_permit permit = tools->permit(tools->context, &step->call, reason, reason_size);
    if (permit == BL_PERMIT_ASK)
        permit = ask_permission(step, reason, reason_size);
    step->call.fails = permit == BL_PERMIT_FAILS;
    return permit == BL_PERMIT_ALLOWED || step->call.fails;
}

/* Emits the receipt of a stop that was requested where the receipt is open. */
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

    step->doing = "tool";
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

/* Sets the reason why a call cannot be run, if any. */
static void check_call(struct turn *turn, struct bl_block *block, const struct bl_json **ret_input)
{
    *ret_input = NULL;
    if (block->is_invalid)
        return;
    block->invalid = step_misfit(turn->engine->tools, &turn->record->arena, block->name,
                                 block->input, ret_input);
    block->is_invalid = block->invalid.size > 0;
}

/* ---- One call of the model ------------------------------------------------------------------- */

static void call_step_end(struct call_step *own, const char *status, uint64_t ms,
                          struct bl_text text)
{
    own->turn->call_ended[own->index] = true;
    step_end(own->turn, &own->step, status, ms, text);
}

static void steps_settle(struct call_step *own, struct bl_text text, bool is_error)
{
    own->step.result.text = text;
    own->step.result.is_error = is_error;
    own->settled = true;
}

static void steps_deny(struct call_step *own, const char *reason)
{
    struct turn *turn = own->turn;
    struct bl_arena *arena = &turn->record->arena;
    const struct bl_denial *denial = step_deny(turn, &own->step, reason);
    struct bl_text text = bl_arena_printf(arena, "Not permitted: %s", reason);

    for (size_t i = 0; denial->rules != NULL && denial->rules[i] != NULL; i++)
        text = bl_arena_printf(arena, BL_TEXT_FORMAT "%s %s", BL_TEXT_ARG(text),
                               i > 0 ? " and" : "; the user can allow it with the rule",
                               denial->rules[i]);
    steps_settle(own, text, true);
    call_step_end(own, "denied", 0, own->step.result.text);
}

static int run_tool(struct call_step *own)
{
    struct turn *turn = own->turn;
    struct bl_error error = {0};
    int code = step_run(&own->step, &error);
    bool failed = code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT;

    /* The first of several failures is reported. */
    if (failed && turn->result->end != BL_TURN_ERROR)
        turn->result->error = error;
    step_count_spent(turn, &own->step);
    return code;
}

/* A call that was stopped alone has a result like any other. */
static int steps_run_permitted(struct call_step *own)
{
    struct bl_tool_result *result = &own->step.result;
    struct turn *turn = own->turn;
    int code = run_tool(own);
    uint64_t ms = step_ms(&own->step);
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;

    if (code != 0 && !stopped) {
        call_step_end(own, "error", ms, (struct bl_text){0});
        turn_fail(turn, code, BL_KIND_TOOL, "the tool '" BL_TEXT_FORMAT "' failed: %s",
                  BL_TEXT_ARG(own->step.name), bl_error_text(code));
        return code;
    }
    steps_settle(own, result->text, result->is_error || stopped);
    call_step_end(own, stopped ? "stopped" : result->is_error ? "error" : "ok", ms, result->text);
    return 0;
}

/* Ends a call that was stopped alone, in the question or a hook before it. */
static void stop_before(struct call_step *own)
{
    steps_settle(own, BL_TEXT("Stopped before it was run."), true);
    call_step_end(own, "stopped", 0, own->step.result.text);
}

/* Runs one call from its permission to its result. Not 0: the turn has failed. */
static int run_step(void *argument)
{
    struct call_step *own = argument;
    struct step *step = &own->step;
    struct turn *turn = own->turn;
    char *reason = bl_zalloc(TURN_REASON_SIZE);
    int code = 0;

    step->from_ns = bl_clock_now_ns(turn->engine->clock);
    bl_list_push_back(&turn->at_work, &step->link);
    bl_scope_init(&step->scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&step->scope);
    bool may = step_permitted(step, reason, TURN_REASON_SIZE);
    if (bl_scope_check(&turn->scope) != 0)
        code = 0; /* the turn ends, and reports it */
    else if (bl_scope_check(&step->scope) != 0)
        stop_before(own);
    else if (!may)
        steps_deny(own, reason);
    else
        code = steps_run_permitted(own);
    bl_free(reason);
    bl_scope_enter(outer);
    bl_scope_done(&step->scope);
    if (bl_scope_check(&turn->scope) != 0)
        turn_note_stop(turn);
    bl_list_remove(&step->link);
    own->failed = code != 0;
    if (own->failed)
        bl_scope_stop(own->siblings, BL_STOP_SIBLING_FAILURE, step->call.name);
    return code;
}

static struct call_step *turn_make_step(struct turn *turn, struct bl_block *block, uint32_t index,
                                        const struct bl_json *input)
{
    struct call_step *own = bl_arena_zalloc(&turn->record->arena, sizeof *own);

    own->turn = turn;
    own->block = block;
    own->index = index;
    bl_list_init(&own->step.link);
    own->step.doing = "hook";
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
        /* Without memory for a stack, it runs in this fiber. */
        if (bl_nursery_spawn(&nursery, NULL, own->step.call.name, run_step, own, NULL) != 0)
            run_step(own);
    }
    run_step(batch->steps[0]);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_scope_enter(outer);
}

/* Runs the batch; results are in the order of the calls. False: the turn has ended. */
static bool steps_run_batch(struct turn *turn, struct batch *batch)
{
    struct bl_receipt receipt; /* for calls that are stopped because another one failed */
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
    return step_find_tool(turn->engine->tools, block->name)->parallel;
}

/* ---- All calls of an answer ------------------------------------------------------------------ */

/* Handles the step limit: the call that would exceed it is not run. False: the turn ends here. */
static bool at_step_limit(struct turn *turn)
{
    if (!turn->engine->limits.synthesize)
        return turn_end_as(turn, BL_TURN_MAX_STEPS);
    turn->tools_forbidden = true;
    turn_complete_results(turn, BL_TEXT("Not run: the limit of tool calls is reached. Answer with "
                                        "what you have found so far."));
    return true;
}

static void tell_requested(struct turn *turn)
{
    memset(turn->call_ended, 0, sizeof turn->call_ended);
    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL)
            turn_emit(turn, (struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                                              .id = block->id,
                                              .name = block->name,
                                              .json = block->is_invalid ? (struct bl_text){0}
                                                                        : block->input});
    }
}

/* A call that has not ended when the turn continues or ends was never run. */
static void tell_not_run(struct turn *turn)
{
    bool limited = turn->tools_forbidden || turn->result->end == BL_TURN_MAX_STEPS;
    uint32_t index = 0;

    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_CALL || turn->call_ended[index++])
            continue;
        const struct step step = {.engine = turn->engine,
                                  .id = block->id,
                                  .name = block->name,
                                  .call = {.turn = turn->result->turn_id}};
        step_end(NULL, &step, "not_run", 0,
                 limited ? BL_TEXT("Not run: the limit of tool calls is reached.")
                         : BL_TEXT("Not run: the turn ended before it."));
    }
}

/* Lets the model repeat an invalid call twice in a row, then fails. */
static bool tolerate_invalid(struct turn *turn, bool found)
{
    turn->invalid_in_row = found ? turn->invalid_in_row + 1 : 0;
    if (turn->invalid_in_row <= 2)
        return true;
    turn_fail(turn, BL_EPARSE, BL_KIND_PROVIDER,
              "the model made invalid tool calls three times in a row");
    bl_error_name_set(&turn->result->error, "bad_response");
    return false;
}

/* Refuses an invalid call. */
static void steps_refuse(struct turn *turn, const struct bl_block *block, uint32_t index)
{
    add_result(turn, block,
               bl_arena_printf(&turn->record->arena, "Not run: " BL_TEXT_FORMAT ".",
                               BL_TEXT_ARG(block->invalid)),
               true);
    const struct step step = {.engine = turn->engine,
                              .id = block->id,
                              .name = block->name,
                              .call = {.turn = turn->result->turn_id}};
    turn->call_ended[index] = true;
    step_end(turn, &step, "invalid", 0, block->invalid);
}

/* Runs the calls in order; adjacent calls that may run in parallel run at once. */
static bool steps_run_all(struct turn *turn, struct batch *batch, bool *ret_invalid)
{
    uint32_t index = 0;

    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        const struct bl_json *input;
        if (block->type != BL_BLOCK_CALL)
            continue;
        if (!turn_may_continue(turn))
            return false;
        uint32_t at = index++;
        check_call(turn, block, &input);
        bool alone = block->is_invalid || !is_parallel(turn, block);
        if (alone && !steps_run_batch(turn, batch))
            return false;
        if (block->is_invalid) {
            *ret_invalid = true;
            steps_refuse(turn, block, at);
            continue;
        }
        if (turn->steps >= turn->engine->limits.max_steps) {
            if (!steps_run_batch(turn, batch))
                return false;
            return at_step_limit(turn);
        }
        turn->steps++;
        batch->steps[batch->count++] = turn_make_step(turn, block, at, input);
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
    turn->stage = TURN_CALLS;
    bool going_on = steps_run_all(turn, &batch, &invalid);
    turn->stage = TURN_BETWEEN;
    tell_not_run(turn);
    if (!going_on)
        return false;
    turn_place_images(turn, turn->results);
    turn_take_injected(turn);
    return turn->tools_forbidden || tolerate_invalid(turn, invalid);
}
