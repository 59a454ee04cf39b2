/* Verification of belay's own: the declared commands on a clean copy of a commit. The smoke gate is
 * the same with one command. */
#ifndef BELAY_FEATURE_VERIFY_H
#define BELAY_FEATURE_VERIFY_H

#include "feature/seat/seat.h"
#include "git/git.h"

struct verify_order {
    const struct bl_verify_plan *plan;
    const struct bl_smoke_gate *gate; /* instead of the plan's commands; else NULL */
    const char *feature;
    const char *task; /* NULL: of the gate */
    uint32_t attempt;
    uint32_t turn;
    const char *commit;
    const char *base_commit; /* for `protect` */
    const char *carry_from;  /* the folder that `carry` paths are copied from: the worktree */
    const char *folder;      /* where the copy is made: must not exist; gone again afterwards */
    void (*active)(void *context, const char *what, uint64_t tokens);
    void (*output)(void *context, struct bl_text bytes);
    void *context;
};

struct verify_run {
    const char *command;
    bool setup;
    int exit_code; /* negative: it did not come to one */
    uint64_t ms;
};

/* In the arena. */
struct verify_outcome {
    enum bl_verified value;
    const struct verify_run *runs;
    size_t run_count;
    struct bl_text why;  /* failed, absent: a sentence with command and exit */
    struct bl_text tail; /* the end of the output of the command that decided: valid UTF-8, 4 KiB */
    struct bl_list issues; /* struct issue: a failing command, why it is absent, protected paths
                              that were changed */
};

/* In the running fiber and its scope. 0, also when it is absent; BL_ECANCELED, BL_ETIMEDOUT:
 * stopped, and nothing of it runs, nor is the copy left. */
int verify_run(struct seat_house *house, struct git_repository *git,
               const struct verify_order *order, struct bl_arena *arena,
               struct verify_outcome *ret_outcome);
/* Copies paths below `from` to the same place below `to`, without following a link and without
 * leaving either folder; links stay links, what is there already stays, what is not there, or fits
 * a protected pattern, is passed over. Lists end in NULL; `task` is the id of the unit. In the
 * running fiber and its scope; the work is done on a thread. BL_ECANCELED, BL_ETIMEDOUT: stopped;
 * others: `*ret_why`, in the arena, says what in words. */
int verify_carry(struct bl_arena *arena, const char *task, const char *from, const char *to,
                 const char *const *paths, const char *const *protect, struct bl_text *ret_why);
extern const struct bl_record verify_record; /* a struct verify_outcome */

#endif
