/* One trial: `belay hold` around a hostile tree, a stop, and the reports of Belay and the observer.
 * Runs as root or as an ordinary user, in a container, possibly with its own mounts. */
#ifndef BELAY_TESTS_PROOF_TRIAL_H
#define BELAY_TESTS_PROOF_TRIAL_H

#include "suite.h"

#include "observer.h"

#define TRIAL_WORDS_MAX 12u
#define TRIAL_TEXT_MAX  65536u

enum trial_user {
    USER_root,
    USER_user, /* an ordinary user */
};

enum trial_stop {
    TRIAL_DEADLINE,    /* --timeout */
    TRIAL_SIGNAL,      /* SIGTERM when the tree is running */
    TRIAL_OWN_END,     /* the command ends by itself, and may leave processes behind */
    TRIAL_KILL_BELAY,  /* kill -9 when the tree is running */
    TRIAL_KILL_WARDEN, /* kill -9 of the warden when the tree is running */
};

struct trial {
    const char *container;
    enum trial_user user;
    enum trial_stop stop;
    unsigned timeout_ms; /* of TRIAL_DEADLINE */
    unsigned grace_ms;
    bool text;                          /* without --json */
    bool own_mounts;                    /* a mount namespace around belay */
    bool hidden_pids;                   /* with hidepid=2 in it */
    unsigned limit_ms;                  /* from the stop to the end; then Belay is killed */
    const char *words[TRIAL_WORDS_MAX]; /* of hostile */

    /* The outcome. */
    bool ready;
    bool attacked;
    bool hung; /* it did not end within the limit */
    double
        stop_ms;   /* from the stop to Belay's end; without Belay, to the end of the last process */
    int exit_code; /* 128 + signal if a signal killed it */
    struct observed left; /* at Belay's end; without Belay, at the limit */
    bool reported;        /* there was an envelope of a started command */
    bool verified;        /* `survivors` is a number everywhere */
    int64_t survivors;    /* the smaller of end and receipt */
    int64_t left_behind;
    bool lost; /* the warden did not report its end, or its report differs from what was found */
    char out[4096];
    char err[TRIAL_TEXT_MAX];
};

/* Runs the trial, and kills what the observer finds after it. Fails the test if the trial could not
 * be run, or if the envelope does not fit its schema. */
void trial_run(struct trial *trial);
/* Prints the outcome, for a test that is about to fail. */
void trial_print(const struct trial *trial);
/* Skips the test with a message if the user or the container is not available. */
void trial_require(const char *container, enum trial_user user);
/* The same as a predicate. */
bool trial_available(const char *container, enum trial_user user);
/* A copy of hostile that belongs to another ordinary user and is setuid; removed by trial_close. */
const char *trial_setuid_copy(void);
void trial_close(void);

#endif
