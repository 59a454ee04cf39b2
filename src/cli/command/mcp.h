/* The token that clients of `belay mcp --http` must bring. */
#ifndef BELAY_CLI_MCP_H
#define BELAY_CLI_MCP_H

#include <belay/base.h>

/* Where it is kept unless a file is given: $XDG_STATE_HOME/belay/mcp-token. In the arena. */
int mcp_token_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error);
/* Reads the file's first line; where there is no file one is made, with 256 random bits, that
 * nobody else can read. In the arena. Blocks as files do. BL_EACCES: others can get at it;
 * BL_EINVAL: it holds no such token. */
int mcp_token_read(struct bl_arena *arena, const char *path, const char **ret_token,
                   struct bl_error *error);

#endif
