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

BL_PUBLIC_BEGIN

/* ---- What runs now --------------------------------------------------------------------------- */

/* One piece of work under way. Embedded by whoever does it. */
struct bl_activity {
    struct bl_list link;
    struct bl_activities *activities; /* that it is listed in */
    const char *kind;                 /* run, agent, call, job, cell, feature, task */
    char id[72];
    char session[72];
    char run[72];   /* of a sub-agent or a call: the run that holds it; else empty */
    char phase[32]; /* model, tool bash, commit, … */
    struct bl_scope *scope;
    uint64_t started_ns;
    uint64_t active_ns; /* last sign of life */
    uint64_t tokens;
    struct bl_list waiters; /* who wants to know when it has ended */
    void *owner;            /* for those two */
    /* Skips the graces of its stop; NULL: there are none. `hurried`: it was told so. */
    void (*hurry)(struct bl_activity *activity);
    bool hurried;
    /* Gives it a message (bl_agent_inject); NULL: it takes none. */
    int (*inject)(struct bl_activity *activity, struct bl_text text, char ret_id[BL_ID_SIZE]);
};

/* All of a process. Embedded by its owner. */
struct bl_activities {
    struct bl_list list;
    /* Whoever watches: told what is told in each agent, and that something has begun or ended. Must
     * not wait. NULL: nobody does. */
    void (*told)(void *context, const struct bl_event *event);
    void (*changed)(void *context, const struct bl_activity *activity);
    void *context;
};

/* A name that nothing else has: `RUN/AGENT`, `RUN/CALL`, `SESSION/CELL`, `FEAT/TASK`; runs and
 * features have theirs by themselves. */
#define BL_ACTIVITY_NAME_SIZE 160
void bl_activity_name(const struct bl_activity *activity, char out[BL_ACTIVITY_NAME_SIZE]);
void bl_activities_tell(const struct bl_activities *activities, const struct bl_event *event);

void bl_activities_init(struct bl_activities *activities);
/* Lists it; kind, id, session, phase and scope are filled. */
void bl_activity_begin(struct bl_activities *activities, struct bl_activity *activity);
/* Takes it off the list. `receipt` (JSON; may be empty: it was not stopped) goes to all who asked.
 */
void bl_activity_end(struct bl_activity *activity, struct bl_text receipt);

/* An activity as other processes are told of it. */
struct bl_activity_view {
    struct bl_list link;
    struct bl_text id;
    struct bl_text name;
    struct bl_text kind;
    struct bl_text session;
    struct bl_text phase;
    uint64_t age_ms;
    int64_t deadline_left_ms; /* -1: no deadline */
    uint64_t tokens;
    uint64_t idle_ms;
    int64_t pid; /* of its process, where somebody has asked for it */
};
extern const struct bl_record bl_activity_record;

/* What it is now; in the arena, which may outlive it. */
struct bl_activity_view *bl_activity_view(struct bl_arena *arena,
                                          const struct bl_activity *activity);
void bl_activities_write(const struct bl_activities *activities, struct bl_json_writer *writer);
void bl_activity_write(struct bl_json_writer *writer, const struct bl_activity *activity);
/* Skips the graces of those that bl_activities_cancel with that id would stop. */
void bl_activities_hurry(struct bl_activities *activities, const char *id);
/* Stops what has that id or name (a run, a sub-agent, a call, a job; or a session: its turn and its
 * jobs), reason user, waits until it is quiet, and writes the receipt: nothing, when it had come to
 * its end first. BL_ENOENT: nothing of that id runs. `origin` names who asks. */
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
extern const struct bl_names bl_permission_mode_names;
/* Lets more through where nobody has said anything: read-only, ask, auto, yolo. */
bool bl_permission_mode_wider(enum bl_permission_mode mode, enum bl_permission_mode than);

/* TOOL or TOOL(GLOB), as "bash(git *)", "mcp__name__*"; deny wins; rules hold in every mode. A star
 * stands for any bytes, and " *" at the end for no argument, too. Of a command each part of a list
 * or pipeline must fit an allowing rule, whose star stands for arguments and never for another
 * command; one that holds what a pattern cannot look into
 * (substitutions, control structures, assignments, redirections to files) fits only a rule without
 * a pattern. A denying rule fits wherever the command seems to be run: a guard rail, no wall.
 * "network" opens the sandbox's network.
 *
 * Of a path ("write(src/" and two stars, "read(.env)") the pattern is held against where it leads,
 * links followed, relative to the workspace and absolute ("~/" is the user's home): one star stays
 * within a folder, two do not, and what ends in a slash is a folder with all in it. What denies
 * `read` denies `edit`, `grep`, `glob` and `ls` of that path as well, and a search from above does
 * not look into it; it does not reach `bash`. What Git or belay may run, and where secrets are
 * kept, only a rule with a pattern allows to be changed (bl_sandbox_guarded), whatever the mode but
 * yolo.
 *
 * Rules may be added while it is in use, by the loop's thread. */
struct bl_permissions;

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode);
void bl_permissions_free(struct bl_permissions *permissions); /* NULL is fine */
void bl_permissions_set_mode(struct bl_permissions *permissions, enum bl_permission_mode mode);
enum bl_permission_mode bl_permissions_mode(const struct bl_permissions *permissions);
/* BL_EINVAL, kind usage: not a rule, and the error shows where; or a rule about a tool that does
 * not exist: the error has the name BL_UNKNOWN_TOOL and suggests another. */
int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error);

/* Of a tool that is none of the toolbox's, changes nothing by itself, and is about `subject`: what
 * the rules say. Answers as the engine's table does. */
enum bl_permit bl_permissions_decide(const struct bl_permissions *permissions, const char *tool,
                                     struct bl_text subject, char *ret_reason, size_t reason_size);
/* Those of bl_sandbox_secrets that a rule lets be read by name, as "read(~/.npmrc)" and
 * "read(~/.aws/)" do: commands in a sandbox see them. In the arena; end in NULL. */
const char *const *bl_permissions_shown(const struct bl_permissions *permissions,
                                        struct bl_arena *arena);
/* The name of a tool against a pattern with stars. */
bool bl_tool_name_fits(const char *pattern, const char *name);

/* The agent's own tools, which rules name as well as those of the toolbox. */
#define BL_TOOL_TASK "task"
#define BL_TOOL_EXEC "exec"
#define BL_TOOL_WAIT "wait"
/* The finer name of the error for a tool that does not exist. */
#define BL_UNKNOWN_TOOL "unknown_tool"

/* Checks a name or pattern of names, as rules, hooks and personas have it: a tool of the toolbox,
 * the agent or an MCP server (mcp__SERVER__TOOL) can fit it. BL_EINVAL, kind usage, name
 * BL_UNKNOWN_TOOL, with a suggestion. */
int bl_tool_name_check(const char *pattern, struct bl_error *error);

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

/* ---- MCP servers ----------------------------------------------------------------------------- */

/* Where a server was named: it decides whether it may be started. */
enum bl_mcp_source {
    BL_MCP_OF_USER,      /* the user's own file */
    BL_MCP_OF_OPTION,    /* --mcp-config */
    BL_MCP_OF_WORKSPACE, /* .mcp.json: only after the user has agreed to that exact entry */
    BL_MCP_OF_CLIENT,    /* an editor's session/new */
};

/* One server, as it was written down; in the arena that it was read into. */
struct bl_mcp_entry {
    struct bl_list link;
    const char *name;
    enum bl_mcp_source source;
    const char *path;             /* of the file; NULL: none */
    const char *command;          /* stdio; NULL: HTTP */
    const char *const *arguments; /* end in NULL */
    const char *const *variables; /* "NAME=value"; end in NULL */
    const char *directory;        /* NULL: the workspace */
    const char *url;
    const char *const *headers; /* "Name: value"; end in NULL */
    uint64_t call_ns;           /* 0: BL_MCP_CALL_NS */
    uint64_t start_ns;          /* 0: BL_MCP_START_NS */
    bool trust;                 /* on_cancel: trust: a stop of a call leaves the server running */
    const char *const *enabled_tools; /* patterns with stars; end in NULL; NULL: all */
    char digest[65];                  /* of the entry as it is after expansion, in hex */
};

#define BL_MCP_CALL_NS  (300 * BL_NS_PER_S)
#define BL_MCP_START_NS (10 * BL_NS_PER_S)

struct bl_mcp_config_options {
    const char *directory;                     /* of the workspace */
    const char *const *files;                  /* of --mcp-config; end in NULL; may be NULL */
    const char *(*variable)(const char *name); /* for ${VAR} and ${VAR:-default} */
    /* Something that was found and cannot be used. */
    void (*notice)(void *context, struct bl_text text);
    void *context;
};

/* The user's file ($XDG_CONFIG_HOME/belay/mcp.json), .mcp.json of the workspace, then the files
 * given: a later entry of the same name takes the place of an earlier one. Blocks as files do. An
 * entry that is wrong is left out with a notice; a file given by option that cannot be read is an
 * error, with line and column. */
int bl_mcp_config_read(struct bl_arena *arena, const struct bl_mcp_config_options *options,
                       struct bl_list *ret_entries, struct bl_error *error);
/* The same from ACP's `mcpServers`. BL_EINVAL: the error's target is the path in it. */
int bl_mcp_entries_read(struct bl_arena *arena, const struct bl_json *servers,
                        struct bl_list *ret_entries, struct bl_error *error);
/* Has the user agreed to that exact entry? Blocks as files do ($XDG_STATE_HOME/belay/mcp-trust). */
bool bl_mcp_trusted(const struct bl_mcp_entry *entry);
int bl_mcp_trust(const struct bl_mcp_entry *entry, struct bl_error *error);

/* What a toolbox knows of a server, for those who list. */
struct bl_mcp_view {
    const char *name;
    const struct bl_mcp_entry *entry;
    const char *state;    /* off, untrusted, starting, ready, failed, out_of_service */
    struct bl_text why;   /* of off, untrusted, failed and out_of_service; may be empty */
    const char *protocol; /* version that was agreed on; NULL: none yet */
    size_t tool_count;
};

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
    bool grace_chosen;         /* `grace_ms` was asked for; else BL_GRACE_MS_DEFAULT */
    uint32_t grace_ms;         /* of tools that are stopped; 0: they are killed at once */
    uint32_t mcp_grace_ms;     /* of MCP servers; 0: BL_GRACE_MS_DEFAULT */
    size_t output_max;         /* bytes of a result; 0: 64 KiB */
    const struct bl_list *mcp; /* struct bl_mcp_entry: servers whose tools are offered as well, from
                                  bl_toolbox_begin on; outlives it; NULL: none */
    bool mcp_trusted;          /* --trust-mcp: the workspace's too */
    /* What became of a server, and what of it is left out; may be NULL. */
    void (*notice)(void *context, struct bl_text text);
    void *notice_context;
};

struct bl_toolbox;

/* BL_ENOTSUP: the sandbox that was asked for is not available. Options' texts must outlive it.
 * Tries the sandbox for real where one may be in force, which takes some milliseconds the first
 * time. */
int bl_toolbox_new(const struct bl_toolbox_options *options, struct bl_toolbox **ret_toolbox,
                   struct bl_error *error);
void bl_toolbox_free(struct bl_toolbox *toolbox); /* NULL is fine; no call may be under way */
const struct bl_tools *bl_toolbox_tools(const struct bl_toolbox *toolbox);
/* Starts the servers that are to be started, reads what they offer, and takes up what has changed
 * since: the table's offers may be others afterwards. In a fiber; a stop of its scope ends it
 * early. The table's `refresh` does this. */
void bl_toolbox_refresh(struct bl_toolbox *toolbox);
/* The offers that the table has now, and all that they point to, stay until they are let go of,
 * whatever a refresh changes meanwhile. NULL: they never change. */
struct bl_toolbox_held;
struct bl_toolbox_held *bl_toolbox_hold(struct bl_toolbox *toolbox);
void bl_toolbox_let_go(struct bl_toolbox_held *held); /* NULL is fine */
/* Who is told what became of servers, from now on, in place of the options' `notice`: in a fiber,
 * and may wait. NULL: as the options have it. */
void bl_toolbox_set_notice(struct bl_toolbox *toolbox,
                           void (*notice)(void *context, struct bl_text text), void *context);
/* A server that was untrusted may be started from now on. */
void bl_toolbox_trust(struct bl_toolbox *toolbox, const struct bl_mcp_entry *entry);
/* The server of that number, in order; false: there are no more. */
bool bl_toolbox_mcp(const struct bl_toolbox *toolbox, size_t number, struct bl_mcp_view *ret_view);
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
/* The session is about to end: they are told so, and MCP servers that work on no call, beside
 * whatever else is being stopped, so that one grace serves for all. Does not wait. */
void bl_toolbox_retire(struct bl_toolbox *toolbox);
/* Stops all of them, and returns when nothing of them runs. In a fiber; before the nursery ends. */
void bl_toolbox_end(struct bl_toolbox *toolbox);
/* Elements of a receipt's `background`: {"id","command","processes","age_ms"} of each that runs.
 * `toolbox` is a struct bl_toolbox. */
void bl_toolbox_write_background(void *toolbox, struct bl_json_writer *writer);
/* Skips the graces of what is being stopped now or will be. */
void bl_toolbox_hurry(struct bl_toolbox *toolbox);
/* From now on they are given again; what is being stopped stays hurried. */
void bl_toolbox_calm(struct bl_toolbox *toolbox);

BL_PUBLIC_END

#endif
