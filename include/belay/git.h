/* git: runs the system's git program for belay.
 *
 * Promises: a program runs in a warden and is stopped with the running fiber's scope. It gets none
 * of the user's secrets, and no variable that redirects it to another repository. It runs no hooks,
 * signs nothing, prompts for nothing, uses no network, and does not look inside submodules. It runs
 * no program named by the repository's own configuration, because tools can write that file.
 * Filters and merge drivers from the user's and the system's configuration (git-lfs, for example)
 * work.
 *
 * All functions that take an error wait, and must be called in fibers. */
#ifndef BELAY_GIT_H
#define BELAY_GIT_H

#include <belay/base.h>

BL_PUBLIC_BEGIN

#define BL_GIT_OUTPUT_MAX ((size_t)64 << 20) /* standard output of one program */
#define BL_GIT_WORDS_MAX  ((size_t)64 << 10) /* its standard error */

/* Embedded by its user. */
struct bl_git {
    struct bl_arena arena;
    const char **environment; /* of every program */
    size_t environment_count;
    struct bl_list checked; /* configurations that were checked */
    uint64_t spent_ns;      /* total run time of programs */
    uint64_t programs;
};

void bl_git_init(struct bl_git *git);
void bl_git_done(struct bl_git *git);
/* True if a variable is set and not empty. */
bool bl_git_variable_has(const struct bl_git *git, const char *name);
/* Sets a variable for all later programs. */
void bl_git_variable_set(struct bl_git *git, const char *name, const char *value);

struct bl_git_call {
    const char *operation; /* for errors: "commit the work" */
    const char *directory; /* working directory: the top of the work tree */
    const char *folder;    /* its git directory. NULL: git finds it, and the configuration is not
                           checked; only for commands that run no programs, such as rev-parse */
    struct bl_text input;
    int lock; /* standard input of a program without input: a descriptor that the caller has locked,
                 and that stays locked while a process of the program lives. 0: none */
    bool writes; /* takes locks; stopped gently */
};

/* In the arena of the call. */
struct bl_git_answer {
    int status;            /* its exit code */
    struct bl_text output; /* followed by a NUL */
    struct bl_text words;  /* standard error; followed by a NUL */
    bool cut;              /* there was more output than BL_GIT_OUTPUT_MAX */
};

/* Runs git with arguments that end in NULL, the command first. Returns 0 if git exited, with any
 * exit code. BL_EREFUSED: as in bl_git_check, for a call that writes; a call that reads continues
 * without the foreign program. */
int bl_git_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
               const char *const *arguments, struct bl_git_answer *ret_answer,
               struct bl_error *error);
#define BL_GIT_ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Checks the configuration. BL_EREFUSED: the repository's own configuration names a filter, a merge
 * driver or a hook that the user's does not have; the error says which. The call needs a folder. */
int bl_git_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                 struct bl_error *error);
/* Sets the error for a failed answer, with git's message. Returns its code. */
int bl_git_refuse(const struct bl_git_call *call, const struct bl_git_answer *answer,
                  struct bl_error *error);
/* True if the call failed because one of git's locks is held. */
bool bl_git_is_busy(const struct bl_git_answer *answer);
/* Sets the error for a failed system call; `target` is the path. */
int bl_git_fail(const char *operation, const char *target, int system_errno,
                struct bl_error *error);

BL_PUBLIC_END

#endif
