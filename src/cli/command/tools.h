/* What the model is offered here, for the commands that show it. */
#ifndef BELAY_CLI_TOOLS_H
#define BELAY_CLI_TOOLS_H

#include <belay/agent.h>

/* What the command line says of MCP servers; embedded, zeroed. */
struct tools_options {
    const char *name;   /* the operand; NULL: none */
    const char **files; /* of --mcp-config; end in NULL; NULL: none */
    size_t file_count;
    bool trust_mcp;
};

/* The tools that `belay run` without other options has in this directory. Embedded by its owner. */
struct tools_offered {
    struct bl_arena arena;
    struct bl_permissions *permissions;
    struct bl_list servers; /* struct bl_mcp_entry */
    struct bl_list notices; /* struct bl_notice */
    struct bl_toolbox *toolbox;
    struct bl_tools tools;     /* only its offers */
    struct bl_mcp_view *views; /* of the servers */
    size_t view_count;
};

/* `options` NULL: without MCP servers; else they are started, and have ended when it returns. On
 * error too tools_offered_done must be called. */
int tools_offered_init(struct tools_offered *offered, const struct tools_options *options,
                       struct bl_error *error);
void tools_offered_done(struct tools_offered *offered);

#endif
