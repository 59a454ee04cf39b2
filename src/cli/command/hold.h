/* The parts of `belay hold`: its command line (hold.c), the run under a warden (hold_run.c), and
 * what it says about it (hold_report.c). */
#ifndef BELAY_CLI_HOLD_H
#define BELAY_CLI_HOLD_H

#include <belay/proc.h>

#include "cli/cli.h"

/* Exit codes of hold's own; those of timeout(1), env(1) and the shell. */
enum {
    HOLD_EXIT_TIMEOUT = 124,
    HOLD_EXIT_FAILED = 125, /* hold itself: a wrong command line, a container that is not there */
    HOLD_EXIT_NOT_EXECUTABLE = 126,
    HOLD_EXIT_NOT_FOUND = 127,
    HOLD_EXIT_SIGNAL = 128, /* plus the signal's number */
};

/* What the command line asks for. */
struct hold_options {
    const char *const *arguments; /* the command's; ends in NULL */
    bool timed;
    int64_t timeout_ns; /* zero and less: reached at once */
    uint32_t grace_ms;
    enum bl_mechanism container;
    enum bl_sandbox sandbox;
    uint64_t memory_bytes;  /* 0: no limit */
    uint32_t processes_max; /* 0: no limit */
};

/* How it went. Exactly one of three: it could not be started (error.code is not 0), a stop came
 * before it was (`started` is false), or `end` says how it ended. */
struct hold_outcome {
    struct bl_error error;
    bool started;
    struct bl_warden_end end;
    struct bl_stop stop;           /* reason BL_STOP_NONE: it was not stopped */
    int stop_signal;               /* the signal that stopped it; 0: none */
    struct bl_buffer receipt_line; /* empty: no stop, no receipt */
    struct bl_buffer receipt_json;
};

void hold_outcome_init(struct hold_outcome *outcome);
void hold_outcome_done(struct hold_outcome *outcome);

/* Runs the command to its end, or to a stop by deadline or signal, on a loop of its own. */
void hold_run(const struct hold_options *options, struct hold_outcome *outcome);

/* The exit code of the process. */
int hold_exit_code(const struct hold_outcome *outcome);
/* Says on standard error what there is to say: an envelope in JSON, always; in text an error, the
 * line of a receipt, what was left behind, or nothing. Returns the exit code. */
int hold_report(const struct cli_call *call, const struct hold_options *options,
                const struct hold_outcome *outcome);
/* An error in the format that the command line asked for. Returns `exit_code`. */
int hold_fail(const struct cli_call *call, const struct bl_error *error, int exit_code);

#endif
