#include "member.h"

int cli_fleet_check(const char *where, struct bl_error *error)
{
    if (where != NULL && bl_store_is_database(where))
        return 0;
    if (where == NULL)
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--store",
                     "no database is named");
    else
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--store",
                     "store '%.200s' is a file, and a fleet needs a database", where);
    bl_error_hint(error, "name one with --store postgres://USER@HOST:PORT/DATABASE or BELAY_STORE");
    return BL_EINVAL;
}

uint64_t cli_member_grace_ns(const struct bl_workspace_options *options)
{
    uint32_t grace_ms =
        options != NULL && options->graced ? options->grace_ms : BL_GRACE_MS_DEFAULT;

    return grace_ms * BL_NS_PER_MS;
}

bool cli_member_stop(struct bl_activities *activities, const char *id,
                     const struct bl_fleet_order *order, struct bl_arena *arena,
                     struct bl_text *ret_receipt)
{
    const char *name =
        order->part != NULL ? bl_arena_printf(arena, "%s/%s", id, order->part).data : id;
    BL_AUTO_BUFFER(receipt, SIZE_MAX / 2);

    if (order->now)
        bl_activities_hurry(activities, name);
    if (bl_activities_cancel(activities, name, order->origin, &receipt) != 0)
        return false;
    *ret_receipt = bl_arena_text(arena, bl_buffer_text(&receipt));
    return true;
}

static bool cli_member_stop_session(void *context, const struct bl_fleet_order *order,
                                    struct bl_arena *arena, struct bl_text *ret_receipt)
{
    return cli_member_stop(context, order->item, order, arena, ret_receipt);
}

int cli_member_join(struct bl_store *store, struct bl_scope *work,
                    const struct bl_workspace_options *options, struct bl_activities *activities,
                    struct bl_fleet_member **ret_member, struct bl_error *error)
{
    const struct bl_fleet_store *table = bl_store_fleet_table(store);

    *ret_member = NULL;
    if (table == NULL)
        return 0;
    return bl_fleet_join(&(struct bl_fleet_options){.store = table,
                                                    .work = work,
                                                    .grace_ns = cli_member_grace_ns(options),
                                                    .stop_session = activities != NULL
                                                                        ? cli_member_stop_session
                                                                        : NULL,
                                                    .stop_context = activities},
                         ret_member, error);
}
