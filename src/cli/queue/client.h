/* The frame of a command that asks the queue: signals and store. */
#ifndef BELAY_CLI_QUEUE_CLIENT_H
#define BELAY_CLI_QUEUE_CLIENT_H

#include <belay/store.h>

#include "cli/signals.h"

struct queue_client {
    const char *name;
    const char *where; /* the database */
    /* Called in a fiber, in the scope that a signal stops. */
    int (*work)(struct queue_client *client);
    /* For `work`: */
    const struct bl_fleet_store *table;
    struct bl_error error;
    /* Results: */
    int code;   /* of `work`, or of what failed before it; `error` is set unless it was stopped by a
                   signal or is BL_EAGAIN */
    int signal; /* that stopped it; 0 if none */
    /* Private: */
    struct bl_store *store;
    struct bl_scope scope;
    struct cli_signals signals;
};

/* Runs `work` with signals and store, on a loop of its own. */
void queue_client_do(struct queue_client *client);

#endif
