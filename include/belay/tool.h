/* tool: what a model can call. Fills the engine's table of tools (turn.h).
 *
 * A registry of tools with their schemas, the permissions that decide whether a call may run, and
 * the built-in tools. What a tool starts runs in a warden.
 *
 * Promises: a call whose input does not fit its schema is not run; neither is one that no rule
 * allows; when a stopped call has returned, nothing of it runs. Results are bounded and valid
 * UTF-8. */
#ifndef BELAY_TOOL_H
#define BELAY_TOOL_H

#include <belay/proc.h>
#include <belay/turn.h>

/* ---- Permissions ----------------------------------------------------------------------------- */

enum bl_permission_mode {
    BL_PERMISSION_ASK, /* nobody can be asked yet: what would be asked is refused */
    BL_PERMISSION_AUTO,
    BL_PERMISSION_READ_ONLY,
    BL_PERMISSION_YOLO,
};

int bl_permission_mode_parse(const char *text, enum bl_permission_mode *ret_mode,
                             struct bl_error *error);
const char *bl_permission_mode_name(enum bl_permission_mode mode);

/* TOOL or TOOL(GLOB), as "bash(git *)", "mcp__name__*"; deny wins; rules hold in every mode. A star
 * stands for any bytes, and " *" at the end for no argument, too. Of a command each part of a list
 * or pipeline must fit an allowing rule; one that holds what a pattern cannot look into
 * (substitutions, control structures, assignments, redirections to files) fits only a rule without
 * a pattern. A denying rule fits wherever the command seems to be run: a guard rail, no wall.
 * "network" opens the sandbox's network. */
struct bl_permissions;

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode);
void bl_permissions_free(struct bl_permissions *permissions); /* NULL is fine */
/* BL_EINVAL: not a rule; the error shows where. */
int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error);

/* ---- The registry ---------------------------------------------------------------------------- */

struct bl_toolbox_options {
    const char *workspace;                    /* absolute; where commands run */
    const struct bl_permissions *permissions; /* outlives the toolbox */
    enum bl_mechanism container;
    bool sandbox_chosen; /* `sandbox` was asked for; else as the mode and the machine have it */
    enum bl_sandbox sandbox;
    uint32_t grace_ms; /* 0: BL_GRACE_MS_DEFAULT */
    size_t output_max; /* bytes of a result; 0: 64 KiB */
};

struct bl_toolbox;

/* BL_ENOTSUP: the sandbox that was asked for is not available. Options' texts must outlive it.
 * Tries the sandbox for real where one may be in force, which takes some milliseconds the first
 * time. */
int bl_toolbox_new(const struct bl_toolbox_options *options, struct bl_toolbox **ret_toolbox,
                   struct bl_error *error);
void bl_toolbox_free(struct bl_toolbox *toolbox); /* NULL is fine; no call may be under way */
const struct bl_tools *bl_toolbox_tools(const struct bl_toolbox *toolbox);
/* The one in force; the first time it may try the machine's, which takes milliseconds. */
enum bl_sandbox bl_toolbox_sandbox(struct bl_toolbox *toolbox);
/* Commands do not get these variables, nor any that look like secrets. Names end in NULL, and
 * outlive the toolbox. */
void bl_toolbox_hide(struct bl_toolbox *toolbox, const char *const *variables);
/* Skips the graces of what is being stopped now or will be. */
void bl_toolbox_hurry(struct bl_toolbox *toolbox);

#endif
