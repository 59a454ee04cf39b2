/* The tools that a model is offered in this folder, for the commands that show them. */
#ifndef BELAY_CLI_TOOLS_H
#define BELAY_CLI_TOOLS_H

#include <belay/agent.h>

/* The command line's options for MCP servers; embedded, zeroed. */
struct tools_options {
    const char *name;   /* the operand; NULL if none */
    const char **files; /* values of --mcp-config; end in NULL; NULL if none */
    size_t file_count;
    bool trust_mcp;
};

/* The tools of `belay run` without options in this directory. Embedded by its owner. */
struct tools_offered {
    struct bl_arena arena;
    struct bl_permissions *permissions;
    struct bl_list servers; /* struct bl_mcp_entry */
    struct bl_list notices; /* struct bl_notice */
    struct bl_toolbox *toolbox;
    struct bl_tools tools;     /* only the offers are set */
    struct bl_mcp_view *views; /* of the servers */
    size_t view_count;
};

/* Collects the tools. With `options`, MCP servers are started, and have ended when this returns;
 * with NULL they are left out. tools_offered_done must be called even after an error. */
int tools_offered_init(struct tools_offered *offered, const struct tools_options *options,
                       struct bl_error *error);
void tools_offered_done(struct tools_offered *offered);

#endif
