/* The token that clients of `belay mcp --http` must send. */
#ifndef BELAY_CLI_MCP_H
#define BELAY_CLI_MCP_H

#include <belay/base.h>

/* Returns the default path of the token file, $XDG_STATE_HOME/belay/mcp-token, in the arena. */
int mcp_token_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error);
/* Reads the token from the first line of the file, into the arena. If there is no file, creates one
 * with 256 random bits that only its owner can read. Blocks on file access. BL_EACCES if other
 * users have access to the file, BL_EINVAL if it has no valid token. */
int mcp_token_read(struct bl_arena *arena, const char *path, const char **ret_token,
                   struct bl_error *error);

#endif
