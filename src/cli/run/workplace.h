/* Workplaces (serve.h) for the commands that serve others: in each folder that is asked for what
 * `belay run` would work with there, from the options that belay was started with. */
#ifndef BELAY_CLI_WORKPLACE_H
#define BELAY_CLI_WORKPLACE_H

#include <belay/serve.h>

#include "run.h"

/* All of a process. Embedded by its owner. */
struct workplaces {
    struct bl_workplaces table; /* for those who serve */
    const struct run_options *options;
    struct bl_arena arena;
    struct bl_list open;
};

/* In a fiber: reads what there is where belay was started, so that what is wrong with its options
 * is said at once. On error too workplaces_end must be called. Options and store outlive it. */
int workplaces_begin(struct workplaces *workplaces, const struct run_options *options,
                     struct bl_store *store, struct bl_error *error);
/* Skips the graces of whatever is being stopped in any of them. */
void workplaces_hurry(struct workplaces *workplaces);
/* All of them are closed. */
void workplaces_end(struct workplaces *workplaces);

/* ---- A command that serves ------------------------------------------------------------------- */

struct serving {
    struct cli_call *call;
    const struct run_options *options;
    const char *name;
    /* In a fiber, in the scope that a signal stops: serves until nobody is left to serve. Not 0: it
     * could not begin, and `error` says why. */
    int (*serve)(struct serving *serving, int *ret_exit_code, struct bl_error *error);
    void *context; /* the command's */
    /* For `serve`: */
    struct workplaces workplaces;
    struct bl_activities activities;
    /* Its own: */
    struct bl_scope scope;
    struct cli_signals signals;
    struct bl_store *store;
    struct bl_error error;
    int exit_code;
};

/* Whoever has started it by hand on a terminal is told what speaks there. `protocol`: its name and
 * the page about it. */
void serving_greet(const struct serving *serving, const char *protocol);
/* With signals, store and control socket around it, on a loop of its own. Returns the exit code of
 * the process. Standard output is left to whoever serves. */
int serving_do(struct serving *serving);

#endif
