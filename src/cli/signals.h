/* Signals that stop: the first one stops a scope, later ones mean that somebody has no patience
 * left. One fiber listens for each. */
#ifndef BELAY_CLI_SIGNALS_H
#define BELAY_CLI_SIGNALS_H

#include <signal.h>

#include <belay/fiber.h>

#define CLI_SIGNALS 4

struct cli_signals;

struct cli_signal_listener {
    struct cli_signals *signals;
    struct bl_signal *signal; /* NULL: was ignored at the start, and stays so */
    int number;
};

/* Embedded by its owner, zeroed. */
struct cli_signals {
    struct bl_scope *scope; /* what the first one stops: reason signal, origin its name */
    struct bl_scope *after; /* what it stops when that one is claimed, because the work is done and
                               only its answer is not out; NULL: nothing */
    void (*hurry)(void *context); /* for each later one; may wait */
    void *context;
    int first; /* the one that stopped the scope; 0: none */
    bool blocked;
    sigset_t before; /* the mask, when blocked */
    struct bl_nursery nursery;
    struct cli_signal_listener listeners[CLI_SIGNALS];
};

/* From here on stop signals are held back: none ends the process while nobody can say how it ended.
 */
void cli_signals_block(struct cli_signals *signals);
/* Listens for SIGINT and SIGTERM and, unless they were ignored at the start (nohup(1), and shells
 * for what they start in the background), SIGHUP and SIGQUIT; those that were held back come now.
 * On error too cli_signals_end must be called. */
int cli_signals_start(struct cli_signals *signals, struct bl_scope *scope,
                      void (*hurry)(void *context), void *context);
/* Waits until nobody hurries any more. */
void cli_signals_end(struct cli_signals *signals);
/* True when the process ignores that signal. */
bool cli_signal_ignored(int number);

#endif
