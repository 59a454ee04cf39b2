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

/* ---- What runs now --------------------------------------------------------------------------- */

/* One piece of work under way. Embedded by whoever does it. */
struct bl_activity {
    struct bl_list link;
    const char *kind; /* run, agent, call, job */
    char id[72];
    char session[72];
    char phase[32]; /* model, tool bash, commit, … */
    struct bl_scope *scope;
    uint64_t started_ns;
    uint64_t active_ns; /* last sign of life */
    uint64_t tokens;
    struct bl_list waiters; /* who wants to know when it has ended */
};

/* All of a process. Embedded by its owner. */
struct bl_activities {
    struct bl_list list;
};

void bl_activities_init(struct bl_activities *activities);
/* Lists it; kind, id, session, phase and scope are filled. */
void bl_activity_begin(struct bl_activities *activities, struct bl_activity *activity);
/* Takes it off the list. `receipt` (JSON; may be empty: it was not stopped) goes to all who asked.
 */
void bl_activity_end(struct bl_activity *activity, struct bl_text receipt);
/* {"id","kind","session","phase","age_ms","deadline_left_ms"|null,"tokens","idle_ms"}, one each. */
void bl_activities_write(const struct bl_activities *activities, struct bl_json_writer *writer);
/* Stops what has that id (a run, a sub-agent, a call, a job; or a session: its turn and its jobs),
 * reason user, waits until it is quiet, and writes the receipt: nothing, when it had come to its
 * end first. BL_ENOENT: nothing of that id runs. `origin` names who asks. */
int bl_activities_cancel(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt);

/* ---- Permissions ----------------------------------------------------------------------------- */

enum bl_permission_mode {
    BL_PERMISSION_ASK,
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
 * "network" opens the sandbox's network.
 *
 * Of a path ("write(src/" and two stars, "read(.env)") the pattern is held against where it leads,
 * links followed, relative to the workspace and absolute ("~/" is the user's home): one star stays
 * within a folder, two do not, and what ends in a slash is a folder with all in it. What denies
 * `read` denies `edit`, `grep`, `glob` and `ls` of that path as well, and a search from above does
 * not look into it; it does not reach `bash`.
 *
 * Rules may be added while it is in use, by the loop's thread. */
struct bl_permissions;

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode);
void bl_permissions_free(struct bl_permissions *permissions); /* NULL is fine */
void bl_permissions_set_mode(struct bl_permissions *permissions, enum bl_permission_mode mode);
enum bl_permission_mode bl_permissions_mode(const struct bl_permissions *permissions);
/* BL_EINVAL: not a rule; the error shows where. */
int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error);

/* Of a tool that is none of the toolbox's, changes nothing by itself, and is about `subject`: what
 * the rules say. Answers as the engine's table does. */
enum bl_permit bl_permissions_decide(const struct bl_permissions *permissions, const char *tool,
                                     struct bl_text subject, char *ret_reason, size_t reason_size);
/* The name of a tool against a pattern with stars. */
bool bl_tool_name_fits(const char *pattern, const char *name);

/* The rule of that number, in the order they were added; NULL: there are no more. */
const char *bl_permissions_rule(const struct bl_permissions *permissions, size_t number,
                                bool *ret_allow);

/* ---- Hooks ----------------------------------------------------------------------------------- */

#define BL_HOOK_NS_DEFAULT (10 * BL_NS_PER_S)

enum bl_hook_when {
    BL_HOOK_BEFORE_TOOL,
    BL_HOOK_AFTER_TOOL,
    BL_HOOK_TURN_START,
    BL_HOOK_TURN_END,
    BL_HOOK_STOP,
};

/* Commands that the user has set to run at certain moments. */
struct bl_hooks;

struct bl_hooks *bl_hooks_new(void);
void bl_hooks_free(struct bl_hooks *hooks); /* NULL is fine; none may be running */
/* `pattern` chooses tools by name, with stars, as in a rule (NULL: all); `command` is for a shell;
 * `timeout_ns` 0: BL_HOOK_NS_DEFAULT. Texts are copied. */
void bl_hooks_add(struct bl_hooks *hooks, enum bl_hook_when when, const char *pattern,
                  const char *command, uint64_t timeout_ns);
bool bl_hooks_any(const struct bl_hooks *hooks, enum bl_hook_when when); /* NULL: none */

struct bl_hook_run {
    const struct bl_hooks *hooks;
    enum bl_hook_when when;
    const char *tool;      /* of the call; NULL: none */
    const char *id;        /* of the call, or the turn: names the unit in a receipt */
    struct bl_text event;  /* one JSON object, for its standard input */
    const char *directory; /* where it runs */
    enum bl_mechanism container;
    const char *const *hidden;  /* variables that it does not get; end in NULL; may be NULL */
    const char *const *allowed; /* those that it gets though they look like secrets */
    struct bl_arena *arena;
    /* Told of each that failed in a way that changes nothing; may be NULL. */
    void (*warn)(void *context, struct bl_text message);
    void *context;
};

/* Runs those that fit, one after another, in wardens, in the running fiber and its scope. 0;
 * BL_EACCES: one that ran before a tool has refused it (exit 2), and `*ret_reason` is what it said
 * on standard error, in the arena; BL_ECANCELED, BL_ETIMEDOUT: stopped, and nothing of it runs. */
int bl_hooks_run(const struct bl_hook_run *run, struct bl_text *ret_reason);

/* ---- The registry ---------------------------------------------------------------------------- */

struct bl_toolbox_options {
    const char *workspace;              /* absolute; where commands run */
    const char *const *folders;         /* further ones that tools may write to; absolute; end in
                                           NULL; may be NULL */
    const char *const *readable;        /* the same, for reading alone */
    struct bl_permissions *permissions; /* outlives the toolbox; answers that are to be remembered
                                           become rules of it */
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
/* These they get all the same. */
void bl_toolbox_allow_variables(struct bl_toolbox *toolbox, const char *const *variables);
/* The rule that "always" would mean for this call: "bash(git commit *)", "edit(src/a.c)"; in the
 * call's arena. Empty: it cannot be said as a rule. */
struct bl_text bl_toolbox_rule(struct bl_toolbox *toolbox, const struct bl_tool_call *call);

/* Commands in the background outlive their turn: they run in fibers of `nursery`, which no stop of
 * a turn reaches, and are listed in `activities` (may be NULL) as jobs of that session. Without it
 * there are none. In a fiber, before the first call. */
void bl_toolbox_begin(struct bl_toolbox *toolbox, struct bl_nursery *nursery,
                      struct bl_activities *activities, const char *session);
/* Stops all of them, and returns when nothing of them runs. In a fiber; before the nursery ends. */
void bl_toolbox_end(struct bl_toolbox *toolbox);
/* Elements of a receipt's `background`: {"id","command","processes","age_ms"} of each that runs.
 * `toolbox` is a struct bl_toolbox. */
void bl_toolbox_write_background(void *toolbox, struct bl_json_writer *writer);
/* Skips the graces of what is being stopped now or will be. */
void bl_toolbox_hurry(struct bl_toolbox *toolbox);
/* From now on they are given again; what is being stopped stays hurried. */
void bl_toolbox_calm(struct bl_toolbox *toolbox);

#endif
