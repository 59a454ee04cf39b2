#include <belay/agent.h>
#include <stdio.h>

#include "cell.h"

/* ---- Offered tools --------------------------------------------------------------------------- */

/* True for tools that only read: those that may run in parallel, except fetch, which reads from
 * outside of this folder. */
static bool cell_only_reads(const struct bl_tool_offer *offer)
{
    return offer->parallel && strcmp(offer->name, "fetch") != 0;
}

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
        if (offer == CELL_OFFER_READ_ONLY && !cell_only_reads(found))
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

void cell_toolset_call(void *context, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result)
{
    struct cell_toolset *set = context;

    bl_agent_cell_call(&set->engine, call, ret_result);
}
