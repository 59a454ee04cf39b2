/* The parts of `belay hold`: its command line (hold_options.c), the run under a warden (hold_run.c)
 * and the report (hold_report.c). */
#ifndef BELAY_CLI_HOLD_H
#define BELAY_CLI_HOLD_H

#include <belay/proc.h>

#include "cli/cli.h"

/* Exit codes of hold itself, the same as those of timeout(1), env(1) and the shell. */
enum {
    HOLD_EXIT_TIMEOUT = 124,
    HOLD_EXIT_FAILED = 125, /* hold itself failed: usage error, container not available */
    HOLD_EXIT_NOT_EXECUTABLE = 126,
    HOLD_EXIT_NOT_FOUND = 127,
    HOLD_EXIT_SIGNAL = 128, /* plus the signal's number */
};

/* The command line. */
struct hold_options {
    bool as_timeout;              /* called by the name of timeout(1) */
    const char *const *arguments; /* the command's; ends in NULL */
    const char *signal_name;      /* NULL for SIGTERM */
    int signal;                   /* sent at the deadline */
    const char *kill_after;       /* NULL if not given */
    bool graced;                  /* grace_ms is given */
    bool killed_is_told;          /* exit code 137 reports a command that had to be killed */
    bool preserve_status;
    bool foreground;
    bool verbose;
    bool timed;
    int64_t timeout_ns; /* zero or less: reached at once */
    uint32_t grace_ms;
    enum bl_mechanism container;
    enum bl_sandbox sandbox;
    uint64_t memory_bytes;  /* 0: no limit */
    uint32_t processes_max; /* 0: no limit */
};

/* The outcome, one of three: the command could not be started (error.code is not 0), it was stopped
 * before it started (`started` is false), or `end` says how it ended. */
struct hold_outcome {
    const struct hold_options *options; /* NULL if no option changes the exit code */
    struct bl_error error;
    bool started;
    struct bl_warden_end end;
    struct bl_stop stop;           /* reason BL_STOP_NONE if the command was not stopped */
    int stop_signal;               /* the signal that stopped it; 0 if none */
    struct bl_buffer receipt_line; /* empty without a stop */
    struct bl_buffer receipt_json;
};

void hold_outcome_init(struct hold_outcome *outcome);
void hold_outcome_done(struct hold_outcome *outcome);

/* True if the program is called timeout, in any folder. */
bool hold_is_timeout(const char *name);
/* Checks what the table cannot, and removes a DURATION from the front of the command. Returns
 * BL_EINVAL on a usage error. */
int hold_options_settle(struct cli_call *call, struct hold_options *options,
                        struct bl_error *error);

/* Runs the command until it ends or is stopped by deadline or signal, on a loop of its own. */
void hold_run(const struct hold_options *options, struct hold_outcome *outcome);

/* Returns the exit code of the process. */
int hold_exit_code(const struct hold_outcome *outcome);
/* Reports on standard error. In JSON always an envelope; in text an error, the line of a receipt,
 * the number of processes left behind, or nothing. Returns the exit code. */
int hold_report(const struct cli_call *call, const struct hold_options *options,
                const struct hold_outcome *outcome);
/* Reports an error in the format that the command line asks for. Returns `exit_code`. */
int hold_fail(const struct cli_call *call, const struct bl_error *error, int exit_code);

#endif
