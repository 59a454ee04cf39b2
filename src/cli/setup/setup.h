/* The commands for setup: init, login and logout, config, and mcp add, list and remove. */
#ifndef BELAY_CLI_SETUP_H
#define BELAY_CLI_SETUP_H

#include "cli/cli.h"

struct init_options {
    bool force;
    bool print;
};

struct login_options {
    const char *provider;
    const char *key_from; /* a file, or "-"; NULL for the terminal */
    bool no_keyring;
};

enum config_verb {
    CONFIG_GET,
    CONFIG_SET,
    CONFIG_EDIT,
    CONFIG_PATH,
};

struct config_options {
    unsigned verb;
    const char *key;
    const char *value;
};

/* Writes a file atomically and creates the folders above it. With `secret`, only its owner can read
 * it. Returns BL_EEXIST if the file exists and `replace` is false. */
int setup_write(const char *path, struct bl_text text, bool secret, bool replace,
                struct bl_error *error);
/* Returns the path of a file in the user's configuration folder. BL_ENOENT if there is no such
 * folder, because neither HOME nor XDG_CONFIG_HOME is set. */
int setup_config_path(struct bl_arena *arena, const char *name, const char **ret_path,
                      struct bl_error *error);

/* ---- Inspecting a repository (init_look.c) --------------------------------------------------- */

/* Appends the text of an AGENTS.md for the repository at `root`. Blocks on file access. */
void init_describe(const char *root, struct bl_buffer *out);

/* ---- A key (login_ask.c) --------------------------------------------------------------------- */

#define LOGIN_KEY_MAX ((size_t)4096)

/* Asks for a key on the terminal, without echo. BL_ECANCELED after Ctrl-C or Ctrl-D; BL_ENOTSUP if
 * there is no terminal. The caller must wipe `out`. */
int login_ask(const char *provider, char out[LOGIN_KEY_MAX + 1], struct bl_error *error);

/* ---- The configuration's text (config_text.c) ------------------------------------------------ */

/* Returns the member at a path of names separated by dots, or NULL. */
const struct bl_json *config_text_find(const struct bl_json *root, struct bl_text key);
/* Returns the text, in the arena, with that member set to a value: YAML on one line, or else a
 * string. Comments, order and all other members are unchanged. BL_EINVAL, kind usage, if that is
 * not possible. */
int config_text_set(struct bl_arena *arena, struct bl_text text, struct bl_text key,
                    struct bl_text value, struct bl_text *ret_text, struct bl_error *error);

/* ---- MCP servers (mcp_servers.c) ------------------------------------------------------------- */

struct mcp_options;

/* belay mcp add, list and remove. Returns the exit code. */
int mcp_servers_run(struct cli_call *call, const struct mcp_options *options);

#endif
