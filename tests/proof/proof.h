/* Proofs: trials that are made over and over, with what must hold after each.
 *
 *     a receipt never says fewer survivors than the observer finds
 *     it says null, with a reason, only where the warden was attacked
 *     nothing is alive at the end, unless the plan allows that it is said
 *     the end comes within ten times the time that belay promises */
#ifndef BELAY_TESTS_PROOF_PROOF_H
#define BELAY_TESTS_PROOF_PROOF_H

#include "trial.h"

enum {
    PROOF_ATTACK = 1,      /* on the warden: "could not verify" is an answer */
    PROOF_MAY_SURVIVE = 2, /* what is alive must be counted, or said to be unverified */
    PROOF_LEFT_BEHIND = 4, /* the command leaves at least one process behind */
    PROOF_OWN_MOUNTS = 8,
    PROOF_HIDDEN_PIDS = 16,
    PROOF_SETUID_COPY = 32, /* its path is the last word */
    PROOF_TEXT = 64,        /* the text form instead of JSON */
    PROOF_NOT_TRACED = 128, /* the kernel must refuse to trace the warden */
    PROOF_RACE = 256,       /* ten times as often in the short form */
    PROOF_SURVIVES = 512,   /* some of it cannot be stopped: counted exactly, and a failed stop */
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
    unsigned variants; /* of the plan: each has its share of the long form */
};

/* Makes a trial as a plan says, once. Returns NULL, or what is wrong. */
const char *proof_try(struct trial *trial, const struct proof_plan *plan);
/* A test: its state is a variant. Graces of 0 and 200 ms, and where the plan has a deadline also a
 * signal as soon as the tree stands. The long form makes 1,000 trials of a plan, or as many as
 * BELAY_PROOF_TRIALS says. */
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
/* From inside a PID namespace the warden cannot be reached. */
#define PROOF_IN_REACH(sentence)                                                                   \
    PROOF_IN(sentence, cgroup2, root, 4), PROOF_IN(sentence, subreaper, root, 4),                  \
        PROOF_IN(sentence, cgroup2, user, 4), PROOF_IN(sentence, subreaper, user, 4)

#endif
