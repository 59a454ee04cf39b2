/* Design notes.
 *
 * What concerns a worker is in rows; a notification only says that it is time to look. It arrives on
 * the connection of the heartbeats. The fiber that listens has the lock of that connection while it
 * waits for the socket, and gives it up when a heartbeat asks for it. A notification that arrives
 * among the answers of a heartbeat stays with the connection until this fiber has the lock again.
 *
 * Behind a pooler nothing can be heard; then the time between heartbeats, or one second, is all there
 * is. */
#include <stdlib.h>

#include "postgres.h"

#define DEAF_NS BL_NS_PER_S

/* ---- The lock ---- */

int pg_control_take(struct pg_store *store)
{
    store->wanted++;
    if (store->listening != NULL)
        bl_scope_stop(store->listening, BL_STOP_PARENT, "heartbeat");
    int code = bl_lock_take(&store->controls);
    store->wanted--;
    return code;
}

void pg_control_give(struct pg_store *store)
{
    bl_lock_give(&store->controls);
}

/* ---- Notifications ---- */

struct hearing {
    struct pg_store *store;
    bool lost;
    bool heard;
};

/* A wake-up for an item whose rank is lower than that of the last claim moves the mark back. */
static void take_notifications(void *argument)
{
    struct hearing *hearing = argument;
    struct pg_store *store = hearing->store;
    PGnotify *each;
    hearing->lost = PQconsumeInput(store->control.conn) == 0;
    while ((each = PQnotifies(store->control.conn)) != NULL) {
        char *end = each->extra;
        double rank = strtod(each->extra, &end);
        if (end != each->extra && rank < store->mark)
            store->mark = rank;
        hearing->heard = true;
        PQfreemem(each);
    }
}

/* Listens on a new connection. */
static int begin_to_hear(struct pg_store *store)
{
    BL_AUTO_ARENA(arena);
    if (store->heard == store->control.connection)
        return 0;
    struct pg_call *call = pg_call_new(&arena, "select belay.hear($1, $2, $3)", "ssi", store->owner,
                                       store->pool, (int64_t)PQbackendPID(store->control.conn));
    int code = pg_control_run(store, &call, 1, NULL);
    if (code == 0) {
        struct store_row row = pg_row(call, 0);
        store->deaf = !store_row_flag(&row, 0);
        store->heard = store->control.connection;
    }
    pg_call_done(call);
    return code;
}

/* Waits for the socket, until `until_ns`. BL_ECANCELED: a heartbeat wants the connection. */
static int wait_for_notification(struct pg_store *store, uint64_t until_ns)
{
    struct bl_scope limit;
    if (store->wanted > 0)
        return BL_ECANCELED;
    bl_limit_begin_until(&limit, until_ns);
    store->listening = &limit;
    int code = bl_descriptor_wait(store->control.descriptor, BL_READABLE, NULL);
    store->listening = NULL;
    bl_limit_end(&limit);
    return code;
}

/* Returns 0 if something was heard, or the connection is a new one; BL_ECANCELED if a heartbeat wants
 * it; BL_ENOTSUP if nothing can be heard. */
static int hear(struct pg_store *store, uint64_t until_ns)
{
    struct hearing hearing = {.store = store};
    int code = bl_lock_take(&store->controls);
    if (code != 0)
        return code;
    uint64_t connection = store->control.connection;
    code = pg_link_open(&store->control, NULL) == 0 ? begin_to_hear(store) : BL_ENOTSUP;
    /* What was sent before is not heard. */
    hearing.heard = store->control.connection != connection;
    if (code == 0 && store->deaf)
        code = BL_ENOTSUP;
    while (code == 0 && !hearing.heard) {
        bl_loop_call(take_notifications, &hearing);
        if (hearing.lost)
            pg_link_close(&store->control);
        if (hearing.heard || hearing.lost)
            break;
        code = wait_for_notification(store, until_ns);
    }
    pg_control_give(store);
    return code;
}

int pg_listen(void *context, uint64_t limit_ns)
{
    struct pg_store *store = context;
    uint64_t until_ns = bl_time_add(bl_now_ns(), limit_ns);
    uint64_t deaf_ns = bl_time_add(bl_now_ns(), DEAF_NS);
    for (;;) {
        int code = hear(store, until_ns), stopped = bl_check();
        if (stopped != 0 || code == 0 || bl_now_ns() >= until_ns)
            return stopped;
        /* Otherwise a heartbeat wants the connection, and gets it. */
        if (code != BL_ECANCELED)
            return bl_sleep_until(until_ns < deaf_ns ? until_ns : deaf_ns);
    }
}
