/* git: runs the system's git program for belay.
 *
 * Promises: a program runs in a warden and is stopped with the running fiber's scope. It gets none
 * of the user's secrets, and no variable that sends it to another repository. It runs no hooks,
 * signs nothing, asks nothing, addresses no network, and does not look inside submodules. It runs
 * no program that the repository's own configuration names, which tools can write; filters and
 * merge drivers of the user's and the system's configuration (git-lfs, say) work.
 *
 * All functions that take an error are called in fibers; they wait. */
#ifndef BELAY_GIT_H
#define BELAY_GIT_H

#include <belay/base.h>

BL_PUBLIC_BEGIN

#define BL_GIT_OUTPUT_MAX ((size_t)64 << 20) /* of one program */
#define BL_GIT_WORDS_MAX  ((size_t)64 << 10) /* of what it says on standard error */

/* Embedded by its user. */
struct bl_git {
    struct bl_arena arena;
    const char **environment; /* what every program gets */
    size_t environment_count;
    struct bl_list checked; /* configurations that were looked at */
    uint64_t spent_ns;      /* that programs took so far */
    uint64_t programs;
};

void bl_git_init(struct bl_git *git);
void bl_git_done(struct bl_git *git);
/* Is a variable set, and not empty? */
bool bl_git_variable_has(const struct bl_git *git, const char *name);
/* Sets a variable for all programs from now on. */
void bl_git_variable_set(struct bl_git *git, const char *name, const char *value);

struct bl_git_call {
    const char *operation; /* for errors: "commit the work" */
    const char *directory; /* where it runs: the top of the work tree */
    const char *folder; /* its git directory; NULL: git looks for it, and the configuration is not
                           checked: only for commands that run no programs, as rev-parse */
    struct bl_text input;
    int lock; /* a descriptor that a program without input has as its standard input: locked by the
                 caller, it stays so while a process of it lives. 0: none */
    bool writes; /* takes locks; stopped gently */
};

/* In the arena of the call. */
struct bl_git_answer {
    int status;            /* its exit code */
    struct bl_text output; /* a NUL follows */
    struct bl_text words;  /* of standard error; the same */
    bool cut;              /* there was more output than BL_GIT_OUTPUT_MAX */
};

/* Runs git with arguments that end in NULL, the command first. 0: it came to an exit code, of which
 * ever kind. BL_EREFUSED: as bl_git_check, for a call that writes; one that reads goes on without
 * the program. */
int bl_git_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
               const char *const *arguments, struct bl_git_answer *ret_answer,
               struct bl_error *error);
#define BL_GIT_ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* BL_EREFUSED: the repository's own configuration names a filter, a merge driver or a hook that the
 * user's does not have; the error says which. The call needs a folder. */
int bl_git_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                 struct bl_error *error);
/* The error that an answer stands for, with git's words. Returns its code. */
int bl_git_refuse(const struct bl_git_call *call, const struct bl_git_answer *answer,
                  struct bl_error *error);
/* It failed because a lock of git's is held. */
bool bl_git_is_busy(const struct bl_git_answer *answer);
/* The error of a call of the system that failed; `target` is the path. */
int bl_git_fail(const char *operation, const char *target, int system_errno,
                struct bl_error *error);

BL_PUBLIC_END

#endif
