#include "signals.h"

#include "cli.h"

static const struct {
    int number;
    bool unless_ignored;
    const char *name;
} stop_signals[CLI_SIGNALS] = {
    {SIGINT, false, "SIGINT"},
    {SIGTERM, false, "SIGTERM"},
    {SIGHUP, true, "SIGHUP"},
    {SIGQUIT, true, "SIGQUIT"},
};

void cli_signals_block(struct cli_signals *signals)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < CLI_SIGNALS; i++)
        sigaddset(&set, stop_signals[i].number);
    signals->blocked = pthread_sigmask(SIG_BLOCK, &set, &signals->before) == 0;
}

static const char *signal_name(int number)
{
    for (size_t i = 0; i < CLI_SIGNALS; i++) {
        if (stop_signals[i].number == number)
            return stop_signals[i].name;
    }
    return "signal";
}

/* Main of a listener: the first of all signals stops the scope, each later one hurries. */
static int signals_listen_main(void *argument)
{
    struct cli_signal_listener *listener = argument;
    struct cli_signals *signals = listener->signals;
    uint64_t count;
    int code;

    while ((code = bl_signal_wait(listener->signal, &count)) == 0) {
        if (!bl_scope_stopped(signals->scope)) {
            signals->first = listener->number;
            const char *name = signal_name(listener->number);
            if (!bl_scope_stop(signals->scope, BL_STOP_SIGNAL, name) && signals->after != NULL)
                bl_scope_stop(signals->after, BL_STOP_SIGNAL, name);
            count--;
        }
        if (count > 0)
            signals->hurry(signals->context);
    }
    return code;
}

bool cli_signal_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int cli_signals_start(struct cli_signals *signals, struct bl_scope *scope,
                      void (*hurry)(void *context), void *context)
{
    int code = 0;

    signals->scope = scope;
    signals->hurry = hurry;
    signals->context = context;
    bl_nursery_init(&signals->nursery, bl_scope_current());
    for (size_t i = 0; i < CLI_SIGNALS && code == 0; i++) {
        struct cli_signal_listener *listener = &signals->listeners[i];
        if (stop_signals[i].unless_ignored && cli_signal_ignored(stop_signals[i].number))
            continue;
        listener->signals = signals;
        listener->number = stop_signals[i].number;
        code = bl_signal_new(listener->number, &listener->signal);
        if (code == 0)
            code = bl_nursery_spawn(&signals->nursery, NULL, stop_signals[i].name,
                                    signals_listen_main, listener, NULL);
    }
    cli_describe_on_signal(&signals->nursery);
    if (signals->blocked)
        pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
    signals->blocked = false;
    return code;
}

void cli_signals_end(struct cli_signals *signals)
{
    bl_nursery_done(&signals->nursery);
    for (size_t i = 0; i < CLI_SIGNALS; i++)
        bl_signal_free(signals->listeners[i].signal);
}
