/* Stop signals: the first one stops a scope, and each later one hurries the stop. One fiber listens
 * for each signal. */
#ifndef BELAY_CLI_SIGNALS_H
#define BELAY_CLI_SIGNALS_H

#include <signal.h>

#include <belay/fiber.h>

#define CLI_SIGNALS 4

struct cli_signals;

struct cli_signal_listener {
    struct cli_signals *signals;
    struct bl_signal *signal; /* NULL if it was ignored at the start: it stays ignored */
    int number;
};

/* Embedded by its owner, zeroed. */
struct cli_signals {
    struct bl_scope *scope; /* stopped by the first signal, with its name as the origin */
    struct bl_scope *after; /* stopped instead if `scope` is claimed: the work is done, only its
                               answer is not written yet; NULL if none */
    void (*hurry)(void *context); /* called for each later signal; may wait */
    void *context;
    int first; /* the signal that stopped the scope; 0 if none */
    bool blocked;
    sigset_t before; /* the mask before blocking */
    struct bl_nursery nursery;
    struct cli_signal_listener listeners[CLI_SIGNALS];
};

/* Blocks the stop signals, so that none ends the process before it can report its end. */
void cli_signals_block(struct cli_signals *signals);
/* Listens for SIGINT and SIGTERM and, unless they were ignored at the start (by nohup(1), or by a
 * shell for background commands), for SIGHUP and SIGQUIT. Blocked signals are delivered now.
 * cli_signals_end must be called even after an error. */
int cli_signals_start(struct cli_signals *signals, struct bl_scope *scope,
                      void (*hurry)(void *context), void *context);
/* Ends the listeners; waits for running calls of `hurry`. */
void cli_signals_end(struct cli_signals *signals);
/* True if the process ignores the signal. */
bool cli_signal_ignored(int number);

#endif
