/* Leases of sessions and features: whether a holder may still write, and whether a claimant may
 * take over. A form reads the lease of a key and writes the new one in the same transaction. */
#include "form.h"

void store_lease_read(const struct store_row *row, int column, struct store_lease *ret_lease)
{
    struct store_identity *holder = &ret_lease->holder;
    *ret_lease = (struct store_lease){
        .epoch = store_row_count(row, column),
        .held = !store_row_null(row, column + 1),
        .handle = store_row_count(row, column + 2),
        .holder = {.pid = store_row_integer(row, column + 3),
                   .started = store_row_integer(row, column + 4)},
        .since_wall_ns = store_row_time(row, column + 5),
        .until_wall_ns = store_row_time(row, column + 6),
    };
    store_row_into(ret_lease->owner, sizeof ret_lease->owner, row, column + 1);
    store_row_into(holder->host, sizeof holder->host, row, column + 7);
    store_row_into(holder->boot, sizeof holder->boot, row, column + 8);
    store_row_into(holder->pid_space, sizeof holder->pid_space, row, column + 9);
}

/* A holder is out of sight only while its lease has not expired. */
static enum store_life lease_life(const struct store_lease *lease,
                                  const struct store_identity *self, int64_t wall_ns)
{
    enum store_life life = store_identity_life(self, &lease->holder);
    bool ended = wall_ns >= lease->until_wall_ns;
    return life == STORE_OUT_OF_SIGHT && ended ? STORE_DEAD : life;
}

bool store_lease_binds(const struct store_lease *lease, const struct store_identity *self,
                       int64_t wall_ns)
{
    return lease->held && lease_life(lease, self, wall_ns) != STORE_DEAD;
}

/* True for a lease of this store whose handle is not open any more. It was left without a release,
 * after a commit with an unknown result or a stop while it was taken. A lease of another store in
 * this process is alive. */
static bool left_by_us(const struct store_claimant *claimant, const struct store_lease *lease)
{
    if (strcmp(lease->owner, claimant->owner) != 0)
        return false;
    for (size_t i = 0; i < claimant->handle_count; i++) {
        if (claimant->handles[i] == lease->handle)
            return false;
    }
    return true;
}

void store_lease_owner(const struct store_lease *lease, const struct store_claimant *claimant,
                       struct bl_store_owner *ret_owner)
{
    *ret_owner = (struct bl_store_owner){.life = BL_OWNER_NONE};
    if (!lease->held)
        return;
    ret_owner->pid = lease->holder.pid;
    ret_owner->pid_started = lease->holder.started;
    ret_owner->seen_wall_ns = lease->until_wall_ns - (int64_t)STORE_LEASE_NS;
    store_identity_text(&lease->holder, lease->since_wall_ns, ret_owner->text,
                        sizeof ret_owner->text);
    ret_owner->life = BL_OWNER_DEAD;
    if (left_by_us(claimant, lease))
        return;
    switch (lease_life(lease, &claimant->self, claimant->wall_ns)) {
    case STORE_ALIVE: ret_owner->life = BL_OWNER_ALIVE; break;
    case STORE_DEAD: ret_owner->life = BL_OWNER_DEAD; break;
    case STORE_OUT_OF_SIGHT: ret_owner->life = BL_OWNER_OUT_OF_SIGHT; break;
    }
}

/* True if a live holder, or one that may be alive, has the lease. */
static bool lease_is_taken(const struct bl_store_owner *owner)
{
    return owner->life == BL_OWNER_ALIVE || owner->life == BL_OWNER_OUT_OF_SIGHT;
}

int store_hold_claim(struct store_hold *hold, const struct store_lease *before,
                     struct bl_error *error)
{
    struct bl_store_owner owner;
    store_lease_owner(before, &hold->claimant, &owner);
    /* Also of a holder that has released it. */
    if (before->epoch > 0)
        store_identity_text(&before->holder, before->since_wall_ns, hold->recovery.owner,
                            sizeof hold->recovery.owner);
    if (lease_is_taken(&owner))
        return store_refuse_held_session(hold, before, error);
    hold->recovery.owner_died = before->held;
    hold->before = before->holder;
    hold->grip.epoch = before->epoch + 1;
    return 0;
}

int store_feature_claim(struct store_feature_hold *hold, const struct store_lease *before,
                        struct bl_error *error)
{
    store_lease_owner(before, &hold->claimant, &hold->owner);
    if (lease_is_taken(&hold->owner))
        return store_refuse_held_feature(hold, error);
    hold->grip.epoch = before->epoch + 1;
    return 0;
}
