/* A toolbox in a folder of its own, and calls made as the engine makes them. */
#ifndef BELAY_TESTS_TOOL_BOX_H
#define BELAY_TESTS_TOOL_BOX_H

#include "../proc/helpers.h"
#include "tool/parts.h"

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
    struct bl_text told;                /* the JSON of the last event that was told */
    uint64_t events;
    bool begun;
    struct bl_nursery nursery; /* of jobs, and what they are listed in; once it has begun */
    struct bl_activities activities;
};

/* In a fiber. Without a sandbox, mode yolo; box_open makes the toolbox of what `options` then say.
 */
void box_init(struct box *box, enum bl_mechanism container);
void box_open(struct box *box);
/* From now on there can be jobs. */
void box_begin(struct box *box);
/* Removes the folder; checks that nothing of it runs. */
void box_done(struct box *box);

/* One call in the box's scope, with that input (JSON), permitted or not. */
int box_call(struct box *box, const char *input);
/* The same with {"command": …} and, unless it is 0, a time limit. */
int box_bash(struct box *box, const char *command, int timeout_ms);
bool box_permit(struct box *box, const char *command, char *ret_reason, size_t size);
/* The same for any tool. */
int box_use(struct box *box, const char *tool, const char *input);
enum bl_permit box_decide(struct box *box, const char *tool, const char *input, char *ret_reason,
                          size_t size);
/* The rule that bl_toolbox_rule makes of it; static. */
const char *box_rule(struct box *box, const char *tool, const char *input);
/* A file in the workspace, made or written over. */
void box_write(const struct box *box, const char *name, const char *text);
/* The text of the result; static. */
const char *box_text(const struct box *box);

/* toolbox_test.c: what this program does when its first argument is "--role". Returns its exit
 * code.
 */
int toolbox_role(void);
/* job_test.c: the same where the environment names this role. */
#define JOB_ROLE "BELAY_TEST_JOB_ROLE"
int job_role(void);

#endif
