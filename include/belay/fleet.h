/* fleet: processes that share a store over several machines.
 *
 * A process that holds something on such a store is a member: it has one lease for all that it
 * holds, renews it with heartbeats, and stops its own work in time if it cannot. A member also
 * watches the others: it takes over from one whose heartbeat it has not seen for a whole lease.
 *
 * Promise: no clock of a machine decides. A member measures its own lease from the moment before a
 * heartbeat was sent, and the silence of others by its own watch, over one unbroken connection. So
 * the work of a member has ended before another one can have it, unless the member's whole machine,
 * its wardens included, was frozen.
 *
 * The room works on a table of functions: the store fills it, and tests fill it with a simulation.
 * All functions are called in fibers. */
#ifndef BELAY_FLEET_H
#define BELAY_FLEET_H

#include <belay/store.h>

BL_PUBLIC_BEGIN

struct bl_fleet_member;

struct bl_fleet_options {
    const struct bl_fleet_store *store;
    struct bl_scope *work; /* stopped when the lease is lost: reason lease_lost */
    uint64_t grace_ns;     /* the longest grace period that the work needs to stop */
    /* Time since boot, including suspended time; NULL: that of this machine. */
    uint64_t (*now_ns)(void *context);
    /* Moves the time at which the wardens end their trees by themselves; 0: never. NULL: those of
     * this process. */
    void (*wardens)(void *context, uint64_t until_ns);
    void *context;
    uint64_t seed; /* of all random times; 0: from the system */
    /* Stops a session that this process holds, or a part of it, for another process; waits for its
     * end, and writes the receipt into the arena. False: it is not at work. NULL: orders for sessions
     * are not taken. */
    bool (*stop_session)(void *stop_context, const struct bl_fleet_order *order,
                         struct bl_arena *arena, struct bl_text *ret_receipt);
    void *stop_context;
};

/* Joins: sends the first heartbeat, and starts a fiber that sends the others. Call it before the
 * work begins. The options are copied. */
int bl_fleet_join(const struct bl_fleet_options *options, struct bl_fleet_member **ret_member,
                  struct bl_error *error);
/* Ends the heartbeats. Call it when the work has ended and holds nothing. NULL is allowed. */
void bl_fleet_leave(struct bl_fleet_member *member);
/* True if the member has stopped its work because of its lease. */
bool bl_fleet_lost(const struct bl_fleet_member *member);

/* ---- Workers --------------------------------------------------------------------------------- */

/* A try of an item: what its worker runs. */
struct bl_fleet_try {
    const struct bl_fleet_item *item;
    struct bl_scope *scope; /* its deadline is set; stopped by a stop, a drain and the lease */
    struct bl_arena *arena; /* lives until the end was recorded */
    struct bl_fleet_end
        end;             /* the function fills it: state, exit_code, session, envelope, receipt */
    bool retryable;      /* BL_FLEET_FAILED: another try may succeed */
    uint64_t ran_ns;     /* known at the end */
    struct bl_list link; /* private, as all that follows */
};

struct bl_fleet_retries {
    uint32_t most;     /* 0: none */
    uint64_t delay_ns; /* of the first; doubles up to 10 min, within 20 % */
};

struct bl_fleet_worker_options {
    struct bl_fleet_options member; /* `work` is the scope of everything that the worker does */
    struct bl_fleet_place place;
    uint64_t drain_ns;      /* after a drain, items may end within it; the rest is given back */
    uint64_t until_idle_ns; /* drains when nothing ran or was claimed for this time; 0: never */
    /* Runs an item, in a fiber of its own, and fills the end. Its scope is the running one. */
    void (*run)(void *context, struct bl_fleet_try *one);
    /* Reads from an item how often it is retried. */
    struct bl_fleet_retries (*retries)(void *context, const struct bl_fleet_item *item);
    /* A try that ran has ended; `one->end` says how, or that the item is retried or given back. NULL:
     * nothing. */
    void (*ended)(void *context, const struct bl_fleet_try *one);
    /* Ends the grace periods of a try that an order stops at once. Must not wait. NULL: nothing. */
    void (*hurry)(void *context, struct bl_fleet_try *one);
    /* Stops a part of a running try, waits for its end, and writes the receipt into the arena.
     * False: no such part is at work. NULL: a try has no parts. */
    bool (*stop_part)(void *context, struct bl_fleet_try *one, const struct bl_fleet_order *order,
                      struct bl_arena *arena, struct bl_text *ret_receipt);
    void *context;
};

struct bl_fleet_worker;

/* Joins, and claims and runs items until the worker is drained, or its work or the running fiber's
 * scope is stopped. Returns 0 after a drain; BL_ECANCELED after a stop, which gives the items back;
 * an error if it cannot join. A worker that was taken over joins again. `*ret_worker` is set before
 * it waits for the first time, and NULL again when the call returns. */
int bl_fleet_work(const struct bl_fleet_worker_options *options,
                  struct bl_fleet_worker **ret_worker, struct bl_error *error);
/* Begins to drain, from another fiber of the loop; a second call stops the items and gives them
 * back. NULL is allowed. */
void bl_fleet_drain(struct bl_fleet_worker *worker);

BL_PUBLIC_END

#endif
