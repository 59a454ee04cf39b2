/* This process as a member of the fleet that shares its store. */
#ifndef BELAY_CLI_MEMBER_H
#define BELAY_CLI_MEMBER_H

#include <belay/fleet.h>
#include <belay/runtime.h>

/* Checks that a store is named and that it is a database: only those have a queue and workers. */
int cli_fleet_check(const char *where, struct bl_error *error);
/* Returns the longest grace period of stops in a workspace with these options; NULL: the default. */
uint64_t cli_member_grace_ns(const struct bl_workspace_options *options);
/* Stops the activity with that name (ID, or ID/PART) for an order of another process, and writes its
 * receipt into the arena. False: there is none. */
bool cli_member_stop(struct bl_activities *activities, const char *id,
                     const struct bl_fleet_order *order, struct bl_arena *arena,
                     struct bl_text *ret_receipt);
/* Joins if the store is shared by several machines; `*ret_member` is NULL if it is a file. The work
 * is stopped when the lease is lost. `options` gives the grace period; NULL: the default. Other
 * processes can stop `activities`, which are initialised; NULL: nothing. Leave with bl_fleet_leave
 * before the store is closed. */
int cli_member_join(struct bl_store *store, struct bl_scope *work,
                    const struct bl_workspace_options *options, struct bl_activities *activities,
                    struct bl_fleet_member **ret_member, struct bl_error *error);

#endif
