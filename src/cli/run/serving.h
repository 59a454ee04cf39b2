/* The frame of a command that serves other programs: signals, store, control socket and runtime. */
#ifndef BELAY_CLI_SERVING_H
#define BELAY_CLI_SERVING_H

#include <belay/serve.h>

#include "run.h"

struct serving {
    struct cli_call *call;
    const struct run_options *options;
    const char *name;
    /* Called in a fiber, in the scope that a signal stops. Serves until the last client has left.
     * Returns an error and sets `*error` if it cannot start. */
    int (*serve)(struct serving *serving, int *ret_exit_code, struct bl_error *error);
    /* For a worker, which joins the fleet by itself: called in a fiber for each stop signal, which
     * then stops nothing else, and does not set the exit code. NULL: the first signal stops the
     * scope. */
    void (*interrupt)(struct serving *serving);
    void *context; /* of the command */
    /* For `serve`: */
    struct bl_runtime runtime;
    struct bl_activities activities;
    struct bl_store *store;
    struct bl_scope scope;
    /* Private: */
    struct bl_scope asked; /* stopped by the first signal, with `interrupt` */
    struct bl_stop_hook interrupted;
    struct cli_signals signals;
    struct bl_fleet_member *member; /* NULL: the store is a file */
    struct bl_error error;
    int exit_code;
};

/* On a terminal, prints which protocol the command speaks. `protocol` is its name and its page. */
void serving_greet(const struct serving *serving, const char *protocol);
/* Runs `serve` with signals, store and control socket, on a loop of its own. Returns the exit code
 * of the process. Standard output belongs to `serve`. */
int serving_do(struct serving *serving);

#endif
