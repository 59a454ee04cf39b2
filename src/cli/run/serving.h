/* A command that serves others: signals, store, control socket and runtime around it. */
#ifndef BELAY_CLI_SERVING_H
#define BELAY_CLI_SERVING_H

#include <belay/serve.h>

#include "run.h"

struct serving {
    struct cli_call *call;
    const struct run_options *options;
    const char *name;
    /* In a fiber, in the scope that a signal stops: serves until its last client is gone. Not 0: it
     * could not begin, and `error` says why. */
    int (*serve)(struct serving *serving, int *ret_exit_code, struct bl_error *error);
    void *context; /* the command's */
    /* For `serve`: */
    struct bl_runtime runtime;
    struct bl_activities activities;
    /* Its own: */
    struct bl_scope scope;
    struct cli_signals signals;
    struct bl_store *store;
    struct bl_error error;
    int exit_code;
};

/* On a terminal: says which protocol is spoken there. `protocol`: its name and its page. */
void serving_greet(const struct serving *serving, const char *protocol);
/* With signals, store and control socket around it, on a loop of its own. Returns the exit code of
 * the process. Standard output belongs to `serve`. */
int serving_do(struct serving *serving);

#endif
