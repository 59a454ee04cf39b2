/* A toolbox with its own workspace folder, and calls made as the engine makes them. */
#ifndef BELAY_TESTS_TOOL_BOX_H
#define BELAY_TESTS_TOOL_BOX_H

#include "../proc/helpers.h"
#include "tool/parts.h"

struct box {
    char workspace[64];
    char marker[MARKER_MAX]; /* in the environment of all processes that it starts */
    struct bl_permissions *permissions;
    struct bl_toolbox_options options;
    struct bl_toolbox *toolbox;
    struct bl_arena arena;
    struct bl_scope scope; /* of the calls */
    struct bl_receipt receipt;
    struct bl_tool_call call;
    struct bl_tool_result result;
    struct bl_error error;
    struct bl_buffer heard; /* output as it was reported; at most 64 KiB of it */
    uint64_t heard_bytes;
    uint64_t pieces;
    uint64_t pieces_broken;             /* pieces that were not valid UTF-8 */
    void (*on_output)(struct box *box); /* may be NULL */
    struct bl_text told;                /* the JSON of the last event */
    uint64_t events;
    bool begun;
    struct bl_nursery nursery; /* of jobs and their activities, once begun */
    struct bl_activities activities;
};

/* Runs in a fiber. No sandbox, mode yolo; box_open creates the toolbox from the current
 * `options`. */
void box_init(struct box *box, enum bl_mechanism container);
void box_open(struct box *box);
/* From now on, jobs can be started. */
void box_begin(struct box *box);
/* Removes the folder; checks that no process of it is running. */
void box_done(struct box *box);

/* Makes one call in the box's scope with that input (JSON), permitted or not. */
int box_call(struct box *box, const char *input);
/* The same with {"command": …} and, unless it is 0, a timeout. */
int box_bash(struct box *box, const char *command, int timeout_ms);
bool box_permit(struct box *box, const char *command, char *ret_reason, size_t size);
/* The same for any tool. */
int box_use(struct box *box, const char *tool, const char *input);
enum bl_permit box_decide(struct box *box, const char *tool, const char *input, char *ret_reason,
                          size_t size);
/* Returns the rule from bl_toolbox_rule for the call; static. */
const char *box_rule(struct box *box, const char *tool, const char *input);
/* Creates or overwrites a file in the workspace. */
void box_write(const struct box *box, const char *name, const char *text);
/* Returns the text of the result; static. */
const char *box_text(const struct box *box);

/* toolbox_test.c: runs when the program's first argument is "--role". Returns the exit code. */
int toolbox_role(void);
/* job_test.c: the same if the environment names this role. */
#define JOB_ROLE "BELAY_TEST_JOB_ROLE"
int job_role(void);

#endif
