/* What the rooms above use of models in addition to belay/model.h. */
#ifndef BELAY_MODEL_MODEL_H
#define BELAY_MODEL_MODEL_H

#include <belay/model.h>

/* ---- Keys that `belay login` stores ---------------------------------------------------------- */

/* The place of a stored key: a file that only its owner can read, or the user's keyring; an empty
 * file then marks the key. */
enum model_login {
    MODEL_LOGIN_FILE,
    MODEL_LOGIN_KEYRING,
};

/* Returns the path of that file, in the arena. NULL if the user's folder is unknown. */
const char *model_login_path(struct bl_arena *arena, const char *provider, enum model_login where,
                             const char *(*variable)(const char *name));
/* Returns the command that prints a key from the keyring, or stores one (from standard input), or
 * deletes it, by `action`; in the arena, NULL-terminated. */
const char *const *model_login_command(struct bl_arena *arena, const char *action,
                                       const char *provider);
/* Takes the first line of `text` as a key of that provider. BL_EINVAL, kind usage: unknown
 * provider; BL_EACCES, kind auth: it cannot be a key of the provider. The error contains nothing of
 * the key. */
int model_login_check(struct bl_config *config, const char *provider, struct bl_text text,
                      const char **ret_key, struct bl_error *error);
/* Returns the variable that is set and takes precedence over a stored key; NULL if none. */
const char *model_login_before(const struct bl_config *config, const char *provider);

#endif
