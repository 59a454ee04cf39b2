#include "member.h"

int cli_member_join(struct bl_store *store, struct bl_scope *work,
                    const struct bl_workspace_options *options, struct bl_fleet_member **ret_member,
                    struct bl_error *error)
{
    const struct bl_fleet_store *table = bl_store_fleet_table(store);
    uint32_t grace_ms =
        options != NULL && options->graced ? options->grace_ms : BL_GRACE_MS_DEFAULT;

    *ret_member = NULL;
    if (table == NULL)
        return 0;
    return bl_fleet_join(&(struct bl_fleet_options){.store = table,
                                                    .work = work,
                                                    .grace_ns = grace_ms * BL_NS_PER_MS},
                         ret_member, error);
}
