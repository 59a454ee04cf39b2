/* What the model is offered here, for the commands that show it. */
#ifndef BELAY_CLI_TOOLS_H
#define BELAY_CLI_TOOLS_H

#include <belay/agent.h>

/* The tools that `belay run` without options has in this directory. Embedded by its owner. */
struct tools_offered {
    struct bl_arena arena;
    struct bl_permissions *permissions;
    struct bl_toolbox *toolbox;
    struct bl_tools tools; /* only its offers */
};

/* On error too tools_offered_done must be called. */
int tools_offered_init(struct tools_offered *offered, struct bl_error *error);
void tools_offered_done(struct tools_offered *offered);

#endif
