/* Proofs: trials that are repeated, with the properties that must hold after each.
 *
 *     a receipt never reports fewer survivors than the observer finds
 *     it reports null, with a reason, only if the warden was attacked
 *     no process is alive at the end, unless the plan allows it to be reported
 *     the end comes within ten times the time that Belay promises */
#ifndef BELAY_TESTS_PROOF_PROOF_H
#define BELAY_TESTS_PROOF_PROOF_H

#include "trial.h"

enum {
    PROOF_ATTACK = 1,      /* on the warden: "could not verify" is a valid answer */
    PROOF_MAY_SURVIVE = 2, /* living processes must be counted, or reported as unverified */
    PROOF_LEFT_BEHIND = 4, /* the command leaves at least one process behind */
    PROOF_OWN_MOUNTS = 8,
    PROOF_HIDDEN_PIDS = 16,
    PROOF_SETUID_COPY = 32, /* its path is the last word */
    PROOF_TEXT = 64,        /* text output instead of JSON */
    PROOF_NOT_TRACED = 128, /* the kernel must refuse to trace the warden */
    PROOF_RACE = 256,       /* ten times as often in the short form */
    PROOF_SURVIVES = 512,   /* some processes cannot be stopped: they are counted exactly, and the
                               stop fails */
};

struct proof_plan {
    enum trial_stop stop;
    unsigned flags;
    const char *words[TRIAL_WORDS_MAX];
};

struct proof_variant {
    const struct proof_plan *plan;
    const char *container;
    enum trial_user user;
    unsigned variants; /* of the plan: each has a share of the long form */
};

/* Runs a trial of a plan once. Returns NULL, or what is wrong. */
const char *proof_try(struct trial *trial, const struct proof_plan *plan);
/* A test whose state is a variant. Grace periods of 0 and 200 ms; a plan with a deadline also runs
 * with a signal as soon as the tree is running. The long form makes 1,000 trials of a plan, or
 * BELAY_PROOF_TRIALS. */
void proof_run(void **state);

/* A test of one plan in one container as one user. */
#define PROOF_IN(sentence, container, user, variants)                                              \
    {                                                                                              \
#sentence "_in_" #container "_as_" #user, proof_run, NULL, NULL, &(struct proof_variant)   \
        {                                                                                          \
            &sentence, #container, USER_##user, variants                                           \
        }                                                                                          \
    }
#define PROOF_EVERYWHERE(sentence)                                                                 \
    PROOF_IN(sentence, pidns, root, 6), PROOF_IN(sentence, cgroup2, root, 6),                      \
        PROOF_IN(sentence, subreaper, root, 6), PROOF_IN(sentence, pidns, user, 6),                \
        PROOF_IN(sentence, cgroup2, user, 6), PROOF_IN(sentence, subreaper, user, 6)
/* The warden cannot be reached from inside a PID namespace. */
#define PROOF_IN_REACH(sentence)                                                                   \
    PROOF_IN(sentence, cgroup2, root, 4), PROOF_IN(sentence, subreaper, root, 4),                  \
        PROOF_IN(sentence, cgroup2, user, 4), PROOF_IN(sentence, subreaper, user, 4)

#endif
