/* The tool calls of one answer: limits, permission, the call itself, its result. */
#include <stdio.h>

#include "parts.h"

#define MISFITS_TOLD_MAX 5u

/* A call at work, as the tool sees it and as its output comes back. */
struct step {
    struct bl_tool_call call; /* first: the output callback finds the rest by it */
    struct turn *turn;
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
        if (bl_text_equal(BL_CONTAINER(link, struct bl_block, link)->id, call->id))
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
}

/* The end of a step: in the turn's result, and told. */
static void end_step(struct turn *turn, const struct bl_block *call, const char *status,
                     uint64_t ms)
{
    struct bl_step *step = bl_arena_alloc(turn->arena, sizeof *step);

    step->id = bl_arena_text(turn->arena, call->id);
    step->tool = bl_arena_text(turn->arena, call->name);
    step->status = status;
    step->ms = ms;
    bl_list_push_back(&turn->result->steps, &step->link);
    turn_emit(turn, (struct bl_event){.type = BL_EVENT_TOOL_ENDED,
                                      .id = call->id,
                                      .name = call->name,
                                      .status = status,
                                      .ms = ms});
}

static void deny(struct turn *turn, const struct bl_block *call, const char *reason)
{
    struct bl_denial *denial = bl_arena_alloc(turn->arena, sizeof *denial);

    denial->tool = bl_arena_text(turn->arena, call->name);
    denial->reason = bl_arena_text(turn->arena, bl_text_from(reason));
    bl_list_push_back(&turn->result->denials, &denial->link);
    add_result(turn, call, bl_arena_printf(&turn->record->arena, "Not permitted: %s", reason),
               true);
    end_step(turn, call, "denied", 0);
}

/* ---- One call ---------------------------------------------------------------------------------
 */

static void tell_output(const struct bl_tool_call *call, struct bl_text bytes)
{
    const struct step *step = BL_CONTAINER(call, struct step, call);

    turn_emit(step->turn, (struct bl_event){.type = BL_EVENT_TOOL_OUTPUT,
                                            .id = bl_text_from(call->id),
                                            .text = bytes});
}

static const struct bl_tool_offer *find_tool(const struct bl_tools *tools, struct bl_text name)
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

/* Fills result->invalid of a call that cannot be run as it stands. */
static void check_call(struct turn *turn, struct bl_block *block, const struct bl_json **ret_input)
{
    struct bl_arena *arena = &turn->record->arena;
    struct bl_json_fault fault;
    char text[256];

    *ret_input = NULL;
    if (block->invalid.size > 0)
        return;
    const struct bl_tool_offer *tool = find_tool(turn->engine->tools, block->name);
    if (tool == NULL) {
        block->invalid = bl_arena_printf(arena, "there is no tool '" BL_TEXT_FORMAT "'",
                                         BL_TEXT_ARG(bl_utf8_cut(block->name, 64)));
    } else if (bl_json_read(arena, block->input, NULL, ret_input, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        block->invalid = bl_arena_printf(arena, "its input is not JSON: %s", text);
    } else if (!bl_json_is(*ret_input, BL_JSON_OBJECT)) {
        block->invalid = BL_TEXT("its input is not a JSON object");
    } else {
        block->invalid = misfit(arena, tool, *ret_input);
    }
}

/* Runs it in a scope of its own, with a receipt of its own, so that it can be stopped alone. */
static int run_tool(struct turn *turn, struct step *step, struct bl_tool_result *result)
{
    const struct bl_tools *tools = turn->engine->tools;
    struct bl_tool_call *call = &step->call;
    struct bl_error error = {0};
    struct bl_receipt receipt;

    bl_receipt_open(&receipt, call->scope, call->id);
    turn_emit(turn, (struct bl_event){.type = BL_EVENT_TOOL_STARTED,
                                      .id = bl_text_from(call->id),
                                      .name = bl_text_from(call->name),
                                      .call = call});
    struct bl_scope *outer = bl_scope_enter(call->scope);
    int code = tools->call(tools->context, call, result, &error);
    bl_scope_enter(outer);
    if (code != 0 && code != BL_ECANCELED && code != BL_ETIMEDOUT)
        turn->result->error = error;
    if (bl_scope_check(call->scope) != 0 && bl_scope_check(&turn->scope) == 0)
        turn_emit(turn,
                  (struct bl_event){.type = BL_EVENT_RECEIPT,
                                    .id = bl_text_from(call->id),
                                    .json = turn_receipt_text(&receipt, &turn->record->arena)});
    bl_receipt_close(&receipt);
    return code;
}

/* False: the turn is at its end. */
static bool settle_call(struct turn *turn, const struct bl_block *block,
                        const struct bl_tool_result *result, int code, uint64_t ms)
{
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;

    if (code != 0 && !stopped) {
        end_step(turn, block, "error", ms);
        return turn_fail(turn, code, BL_KIND_TOOL, "the tool '" BL_TEXT_FORMAT "' failed: %s",
                         BL_TEXT_ARG(block->name), bl_error_text(code));
    }
    add_result(turn, block, result->text, result->is_error || stopped);
    end_step(turn, block, stopped ? "stopped" : result->is_error ? "error" : "ok", ms);
    /* A call that was stopped alone is a result like any other. */
    if (bl_scope_check(&turn->scope) != 0)
        return turn_end_stopped(turn);
    return true;
}

static bool run_call(struct turn *turn, struct bl_block *block, const struct bl_json *input)
{
    const struct bl_tools *tools = turn->engine->tools;
    struct bl_tool_result result = {0};
    char reason[512] = "";
    struct bl_scope scope;
    struct step step = {.turn = turn,
                        .call = {.id = block->id.data,
                                 .name = block->name.data,
                                 .input_text = block->input,
                                 .input = input,
                                 .scope = &scope,
                                 .arena = &turn->record->arena,
                                 .output = tell_output}};

    bl_scope_init(&scope, &turn->scope);
    uint64_t from_ns = bl_clock_now_ns(turn->engine->clock);
    bool permitted = tools->permit(tools->context, &step.call, reason, sizeof reason);
    bool go_on;
    if (bl_scope_check(&turn->scope) != 0) {
        go_on = turn_end_stopped(turn);
    } else if (!permitted) {
        deny(turn, block, reason);
        go_on = true;
    } else {
        int code = run_tool(turn, &step, &result);
        uint64_t ns = bl_clock_now_ns(turn->engine->clock) - from_ns;
        go_on = settle_call(turn, block, &result, code, ns / BL_NS_PER_MS);
    }
    bl_scope_done(&scope);
    return go_on;
}

/* ---- All calls of an answer -------------------------------------------------------------------
 */

/* False: at the step limit, and what that means has been done. */
static bool take_step(struct turn *turn)
{
    const struct bl_turn_limits *limits = &turn->engine->limits;

    if (turn->steps < limits->max_steps) {
        turn->steps++;
        return true;
    }
    if (!limits->synthesize)
        return turn_end_as(turn, BL_TURN_MAX_STEPS);
    turn->tools_forbidden = true;
    turn_complete_results(turn, BL_TEXT("Not run: the limit of tool calls is reached. Answer with "
                                        "what was found so far."));
    return false;
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

bool turn_run_calls(struct turn *turn)
{
    bool invalid = false;

    tell_requested(turn);
    BL_LIST_EACH (link, &turn->answer.message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        const struct bl_json *input;
        if (block->type != BL_BLOCK_CALL)
            continue;
        if (bl_scope_check(&turn->scope) != 0)
            return turn_end_stopped(turn);
        check_call(turn, block, &input);
        if (block->invalid.size > 0) {
            invalid = true;
            add_result(turn, block,
                       bl_arena_printf(&turn->record->arena, "Not run: " BL_TEXT_FORMAT ".",
                                       BL_TEXT_ARG(block->invalid)),
                       true);
            end_step(turn, block, "invalid", 0);
            continue;
        }
        if (!take_step(turn))
            return turn->tools_forbidden;
        if (!run_call(turn, block, input))
            return false;
    }
    return tolerate_invalid(turn, invalid);
}
