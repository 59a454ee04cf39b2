/* Runs `belay hold` beside the test, so that it can be signalled, and finds every process that
 * comes of it, wherever it hides: each has a mark in its environment. */
#ifndef BELAY_TESTS_CLI_HELD_H
#define BELAY_TESTS_CLI_HELD_H

#include "runner.h"

struct held {
    pid_t pid; /* 0: not started, or waited for */
    int out;   /* files in memory */
    int err;
    int terminal;     /* the other end of its terminal; -1: none */
    char mark[64];    /* "BELAY_TEST_MARK=…" */
    uint64_t from_ns; /* when it was started */
    int exit_code;    /* 128 + signal when it died by one */
};

enum {
    HELD_NULL = -1,     /* standard input is /dev/null */
    HELD_TERMINAL = -2, /* standard input is a terminal, its own: held->terminal is ours */
};

/* Starts `words` (the program first; ends in NULL). `input`: a descriptor, or as above; `output`: a
 * descriptor, or RUN_KEEP. */
void held_start(struct held *held, const char *const *words, int input, int output);
#define HOLD(held, ...)                                                                            \
    held_start(held, (const char *const[]){runner_program(), "hold", __VA_ARGS__, NULL},           \
               HELD_NULL, RUN_KEEP)
/* Waits until standard output holds `text`; fails the test after half a minute. */
void held_await(struct held *held, const char *text);
/* Waits until so many processes carry the mark; fails the test after half a minute. Returns how
 * long it took. */
double held_await_count(struct held *held, size_t count);
/* The same until there are that many or more: one that is being executed cannot be seen for a
 * moment. */
void held_await_at_least(struct held *held, size_t count);
/* Waits for its end: exit code, and what it wrote. Fails the test after half a minute. Returns the
 * seconds since it was started. */
double held_wait(struct held *held);
/* Kills it with SIGKILL and waits until no process carries the mark: the milliseconds that took.
 * Fails the test after half a minute. */
double held_kill(struct held *held);
/* How many living processes carry the mark, belay and warden among them. */
size_t held_count(const struct held *held);
/* What it wrote so far; static, until the next call for the same one. */
const char *held_out(const struct held *held);
const char *held_err(const struct held *held);
/* The last line on standard error, as the last two calls. */
const char *held_last_line(const struct held *held);
/* Kills whatever is left, and lets go. On one that was never started it does nothing. */
void held_end(struct held *held);

#endif
