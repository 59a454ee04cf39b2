/* Declarations shared by the files of this room. */
#ifndef BELAY_GIT_PARTS_H
#define BELAY_GIT_PARTS_H

#include <belay/git.h>

/* Settings for `-c`, "key=value"; end in NULL. */
typedef const char *const *git_overrides;

/* Runs one program without checking the repository's configuration. */
int git_program_run(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                    git_overrides overrides, const char *const *arguments,
                    struct bl_git_answer *ret_answer, struct bl_error *error);
/* Checks the configuration of the call's repository. The overrides disable the programs that it
 * names, for a call that reads; NULL if that is not possible. `*ret_key` is the key of the first of
 * these programs, or NULL if there are none. */
int git_config_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                     git_overrides *ret_overrides, const char **ret_key, struct bl_error *error);

#endif
