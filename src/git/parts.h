/* What the files of this room share. */
#ifndef BELAY_GIT_PARTS_H
#define BELAY_GIT_PARTS_H

#include <belay/git.h>

/* Settings that stand behind `-c`, "key=value"; end in NULL. */
typedef const char *const *git_overrides;

/* One program, whatever the repository's configuration says. */
int git_program_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                    git_overrides overrides, const char *const *arguments,
                    struct bl_git_answer *ret_answer, struct bl_error *error);
/* Looks at the configuration of the repository that a call is about. The overrides (NULL: it cannot
 * be done) disarm the programs that it names, for a call that reads; `*ret_key` (NULL: none) is the
 * first of these. */
int git_config_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                     git_overrides *ret_overrides, const char **ret_key, struct bl_error *error);

#endif
