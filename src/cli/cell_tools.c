#include <stdio.h>

#include "cell.h"

/* ---- What is offered ------------------------------------------------------------------------- */

/* Of the toolbox's those that may run beside others are those that only read. */
static void choose_offers(struct cell_toolset *set, enum cell_offer offer, struct bl_arena *arena)
{
    const struct bl_tools *all = bl_toolbox_tools(set->toolbox);
    struct bl_tool_offer *offers = bl_arena_alloc(arena, all->offer_count * sizeof *offers);

    set->table = *all;
    set->table.ask = NULL;
    set->table.offers = offers;
    set->table.offer_count = 0;
    set->tools = bl_arena_zalloc(arena, all->offer_count * sizeof *set->tools);
    for (size_t i = 0; i < all->offer_count; i++) {
        const struct bl_tool_offer *found = &all->offers[i];
        if (offer == CELL_OFFER_READ_ONLY && !found->parallel)
            continue;
        offers[set->table.offer_count++] = *found;
        set->tools[set->count++] = (struct bl_cell_tool){
            .name = bl_text_from(found->name),
            .description = bl_text_from(found->description),
            .schema = found->schema,
        };
    }
}

int cell_toolset_open(struct cell_toolset *set, const struct cell_options *options,
                      struct bl_arena *arena, struct bl_error *error)
{
    struct bl_toolbox_options toolbox = {.workspace = options->directory};

    if (options->offer == CELL_OFFER_NONE)
        return 0;
    set->permissions = bl_permissions_new(options->mode);
    toolbox.permissions = set->permissions;
    int code = bl_toolbox_new(&toolbox, &set->toolbox, error);
    if (code != 0)
        return code;
    choose_offers(set, options->offer, arena);
    set->engine.tools = &set->table;
    set->engine.clock = bl_loop_clock(bl_loop_current());
    return 0;
}

void cell_toolset_close(struct cell_toolset *set)
{
    bl_toolbox_free(set->toolbox);
    bl_permissions_free(set->permissions);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void refuse(struct bl_cell_call_result *result, enum bl_cell_call_refusal refusal,
                   struct bl_text message)
{
    *result = (struct bl_cell_call_result){.refusal = refusal, .message = message};
}

/* The text of a result as the value that the code gets. */
static void answer(const struct bl_cell_call *call, struct bl_text text,
                   struct bl_cell_call_result *result)
{
    struct bl_json_writer writer;
    struct bl_buffer json;

    bl_buffer_init(&json, BL_CELL_CALL_BYTES_MAX);
    bl_json_writer_init(&writer, &json);
    bl_json_write_text(&writer, text);
    if (bl_json_writer_done(&writer) == 0)
        *result = (struct bl_cell_call_result){
            .ok = true, .json = bl_arena_text(call->arena, bl_buffer_text(&json))};
    else
        refuse(result, BL_CELL_CALL_TOO_LARGE, BL_TEXT("its result has more than 8 MiB"));
    bl_buffer_done(&json);
}

void cell_toolset_call(void *context, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result)
{
    struct cell_toolset *set = context;
    struct bl_text id = bl_arena_printf(call->arena, "%s.%s", call->cell_id, call->id);
    struct bl_nested_call nested = {
        .id = id.data,
        .name = call->tool,
        .input_text = call->input_text,
        .arena = call->arena,
    };
    struct bl_tool_result result = {0};

    switch (bl_nested_run(&set->engine, &nested, &result)) {
    case BL_NESTED_OK:
        if (result.is_error)
            refuse(ret_result, BL_CELL_CALL_FAILED, result.text);
        else
            answer(call, result.text, ret_result);
        return;
    case BL_NESTED_DENIED: refuse(ret_result, BL_CELL_CALL_DENIED, result.text); return;
    case BL_NESTED_STEP_LIMIT: refuse(ret_result, BL_CELL_CALL_STEP_LIMIT, result.text); return;
    case BL_NESTED_STOPPED: refuse(ret_result, BL_CELL_CALL_CANCELLED, result.text); return;
    case BL_NESTED_INVALID:
    case BL_NESTED_FAILED: refuse(ret_result, BL_CELL_CALL_FAILED, result.text); return;
    }
}
