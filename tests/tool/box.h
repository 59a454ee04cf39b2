/* A toolbox in a folder of its own, and calls made as the engine makes them. */
#ifndef BELAY_TESTS_TOOL_BOX_H
#define BELAY_TESTS_TOOL_BOX_H

#include "../../src/tool/parts.h"
#include "../proc/helpers.h"

struct box {
    char workspace[64];
    char marker[MARKER_MAX]; /* in the environment of all that it starts */
    struct bl_permissions *permissions;
    struct bl_toolbox_options options;
    struct bl_toolbox *toolbox;
    struct bl_arena arena;
    struct bl_scope scope; /* of the calls */
    struct bl_receipt receipt;
    struct bl_tool_call call;
    struct bl_tool_result result;
    struct bl_error error;
    struct bl_buffer heard; /* what was told as it came; at most 64 KiB of it */
    uint64_t heard_bytes;
    uint64_t pieces;
    uint64_t pieces_broken;             /* that were not valid UTF-8 */
    void (*on_output)(struct box *box); /* NULL: nothing more */
};

/* In a fiber. Without a sandbox, mode yolo; box_open makes the toolbox of what `options` then say.
 */
void box_init(struct box *box, enum bl_mechanism container);
void box_open(struct box *box);
/* Removes the folder; checks that nothing of it runs. */
void box_done(struct box *box);

/* One call in the box's scope, with that input (JSON), permitted or not. */
int box_call(struct box *box, const char *input);
/* The same with {"command": …} and, unless it is 0, a time limit. */
int box_bash(struct box *box, const char *command, int timeout_ms);
bool box_permit(struct box *box, const char *command, char *ret_reason, size_t size);
/* The text of the result; static. */
const char *box_text(const struct box *box);

/* toolbox_test.c: what this program does when its first argument is "--role". Returns its exit
 * code.
 */
int toolbox_role(void);

#endif
