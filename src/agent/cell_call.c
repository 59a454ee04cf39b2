/* Tool calls of a cell's code. */
#include "parts.h"

static void cell_call_refuse(struct bl_cell_call_result *result, enum bl_cell_call_refusal refusal,
                             struct bl_text message)
{
    *result = (struct bl_cell_call_result){.refusal = refusal, .message = message};
}

void bl_agent_cell_call(struct bl_engine *engine, const struct bl_cell_call *call,
                        struct bl_cell_call_result *ret_result)
{
    struct bl_text id = bl_arena_printf(call->arena, "%s-%s", call->cell_id, call->id);
    struct bl_nested_call nested = {
        .id = id.data, .name = call->tool, .input_text = call->input_text, .arena = call->arena};
    struct bl_tool_result result = {0};
    struct bl_stop stop;

    switch (bl_nested_run(engine, &nested, &result)) {
    case BL_NESTED_OK:
        if (result.is_error)
            break;
        *ret_result = (struct bl_cell_call_result){.ok = true,
                                                   .json = bl_json_quote(call->arena, result.text)};
        return;
    case BL_NESTED_DENIED: cell_call_refuse(ret_result, BL_CELL_CALL_DENIED, result.text); return;
    case BL_NESTED_STEP_LIMIT:
        cell_call_refuse(ret_result, BL_CELL_CALL_STEP_LIMIT, result.text);
        return;
    case BL_NESTED_STOPPED:
        bl_scope_stop_read(call->scope, &stop);
        cell_call_refuse(ret_result,
                         stop.reason == BL_STOP_TIMEOUT ? BL_CELL_CALL_TIMEOUT
                                                        : BL_CELL_CALL_CANCELLED,
                         result.text.size > 0 ? result.text : BL_TEXT("it was stopped"));
        return;
    case BL_NESTED_INVALID:
    case BL_NESTED_FAILED: break;
    }
    cell_call_refuse(ret_result, BL_CELL_CALL_FAILED, result.text);
}
