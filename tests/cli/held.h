/* Runs belay beside the test, so that it can be signalled, and finds all its descendants, even
 * after setsid or a double fork: each has a mark in its environment. */
#ifndef BELAY_TESTS_CLI_HELD_H
#define BELAY_TESTS_CLI_HELD_H

#include "runner.h"

struct held {
    pid_t pid; /* 0 if not started, or already waited for */
    int out;   /* files in memory */
    int err;
    int terminal;     /* the other end of its terminal; -1 if none */
    char mark[64];    /* "BELAY_TEST_MARK=…" */
    uint64_t from_ns; /* when it was started */
    int exit_code;    /* 128 + signal if a signal ended it */
};

enum {
    HELD_NULL = -1,     /* standard input is /dev/null */
    HELD_TERMINAL = -2, /* standard input is a terminal of its own; held->terminal is our end */
};

/* Starts `words`, which begin with the program and end in NULL. `input` is a descriptor or one of
 * the values above; `output` is a descriptor or RUN_KEEP. */
void held_start(struct held *held, const char *const *words, int input, int output);
#define HOLD(held, ...)                                                                            \
    held_start(held, (const char *const[]){runner_program(), "hold", __VA_ARGS__, NULL},           \
               HELD_NULL, RUN_KEEP)
/* Waits until standard output contains `text`; fails the test after half a minute. */
void held_await(struct held *held, const char *text);
/* Waits until exactly `count` processes have the mark; fails the test after half a minute. Returns
 * the time it took. */
double held_await_count(struct held *held, size_t count);
/* The same for at least `count` processes: during exec(), a process is invisible for a moment. */
void held_await_at_least(struct held *held, size_t count);
/* Waits for its end, and reads the exit code and the output. Fails the test after half a minute.
 * Returns the seconds since the start. */
double held_wait(struct held *held);
/* Kills it with SIGKILL and waits until no process has the mark. Returns the milliseconds that
 * took; fails the test after half a minute. */
double held_kill(struct held *held);
/* Returns the number of living processes with the mark, including belay and the warden. */
size_t held_count(const struct held *held);
/* Return its output so far, in static memory that is valid until the next call of the same
 * function. */
const char *held_out(const struct held *held);
const char *held_err(const struct held *held);
/* Returns the last line on standard error, in the same way. */
const char *held_last_line(const struct held *held);
/* Kills all processes left and frees the struct. Does nothing if it was never started. */
void held_end(struct held *held);

#endif
