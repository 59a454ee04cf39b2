/* A repository with one commit in a separate folder, and git calls on it. */
#ifndef BELAY_TESTS_GIT_STAGE_H
#define BELAY_TESTS_GIT_STAGE_H

#include <belay/git.h>

#include "fibers.h"

struct stage {
    char root[64];
    struct bl_git git;
    struct bl_arena arena;
    struct bl_error error;
    struct bl_git_call call;
    void (*act)(struct stage *stage);
};

/* Runs `act` in a fiber, with `call` set to read that repository; removes the folder. */
void stage_play(void (*act)(struct stage *stage));
/* Runs one call, which must exit. */
struct bl_git_answer stage_run(struct stage *stage, const char *const *arguments);

#endif
