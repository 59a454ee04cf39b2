/* Belay's own verification: runs the declared commands on a clean copy of a commit. The smoke gate
 * is the same with one command. */
#ifndef BELAY_FEATURE_VERIFY_H
#define BELAY_FEATURE_VERIFY_H

#include "feature/seat/seat.h"
#include "git/git.h"

struct verify_order {
    const struct bl_verify_plan *plan;
    const struct bl_smoke_gate *gate; /* runs instead of the plan's commands; NULL: none */
    const char *feature;
    const char *task; /* NULL: the gate */
    uint32_t attempt;
    uint32_t turn;
    const char *commit;
    const char *base_commit; /* for `protect` */
    const char *carry_from;  /* the source of `carry` paths: the worktree */
    const char *folder;      /* path of the copy: must not exist; removed afterwards */
    void (*active)(void *context, const char *what, uint64_t tokens);
    void (*output)(void *context, struct bl_text bytes);
    void *context;
};

struct verify_run {
    const char *command;
    bool setup;
    int exit_code; /* negative: no exit code */
    uint64_t ms;
};

/* In the arena. */
struct verify_outcome {
    enum bl_verified value;
    const struct verify_run *runs;
    size_t run_count;
    struct bl_text why;    /* failed, absent: a sentence with the command and its exit */
    struct bl_text tail;   /* end of the output of the deciding command: valid UTF-8, 4 KiB */
    struct bl_list issues; /* struct issue: a failed command, the reason for `absent`, changed
                              protected paths */
};

/* Runs in the current fiber and scope. Returns 0, also for `absent`. BL_ECANCELED, BL_ETIMEDOUT:
 * stopped; no process of it runs, and the copy is removed. */
int verify_run(struct seat_house *house, struct git_repository *git,
               const struct verify_order *order, struct bl_arena *arena,
               struct verify_outcome *ret_outcome);
/* Copies paths below `from` to the same place below `to`, without following links and without
 * leaving either folder. Links stay links. Existing targets stay. Missing sources and paths that
 * match a protected pattern are skipped. Lists are NULL-terminated; `task` is the id of the unit.
 * Runs in the current fiber and scope, with the work on a thread. BL_ECANCELED, BL_ETIMEDOUT:
 * stopped. Other errors: `*ret_why`, in the arena, is the reason in words. */
int verify_carry(struct bl_arena *arena, const char *task, const char *from, const char *to,
                 const char *const *paths, const char *const *protect, struct bl_text *ret_why);
extern const struct bl_record verify_record; /* a struct verify_outcome */

#endif
