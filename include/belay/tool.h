/* tool: the tools that a model can call. Fills the engine's table of tools (turn.h).
 *
 * A registry of tools with their schemas, the permissions that decide whether a call may run, and
 * the built-in tools. Processes that a tool starts run in a warden.
 *
 * Promises: a call runs only if its input matches its schema and a rule or the mode allows it. When
 * a stopped call has returned, none of its processes is running. Results are bounded and valid
 * UTF-8. */
#ifndef BELAY_TOOL_H
#define BELAY_TOOL_H

#include <belay/proc.h>
#include <belay/turn.h>

BL_PUBLIC_BEGIN

/* ---- Running work ---------------------------------------------------------------------------- */

/* One piece of work under way. Embedded by its owner. */
struct bl_activity {
    struct bl_list link;
    struct bl_activities *activities; /* the list that holds it */
    const char *kind;                 /* run, agent, call, job, cell, feature, task */
    char id[72];
    char session[72];
    char run[72];   /* run of a sub-agent or a call; else empty */
    char phase[32]; /* model, tool bash, commit, … */
    struct bl_scope *scope;
    uint64_t started_ns;
    uint64_t active_ns; /* last activity */
    uint64_t tokens;
    bool priced; /* `cost_usd`, the cost of its model calls so far, is known */
    double cost_usd;
    /* working directory; NULL if unknown; it and `prompt` outlive the activity */
    const char *directory;
    const char *prompt;     /* one line of the prompt; NULL if there is none */
    struct bl_list waiters; /* callers waiting for its end */
    void *owner;            /* context of the callbacks below */
    /* Skips the grace periods of its stop; NULL if it has none. `hurried` is set before the
     * call. */
    void (*hurry)(struct bl_activity *activity);
    bool hurried;
    bool finishing; /* asked to stop after the step in flight */
    /* Sends it a message (bl_agent_inject); NULL if it takes none. */
    int (*inject)(struct bl_activity *activity, struct bl_text text, char ret_id[BL_ID_SIZE]);
    /* Asks it to stop after the step in flight (bl_agent_finish), without waiting; NULL if it has
     * no steps. */
    int (*finish)(struct bl_activity *activity, const char *origin);
};

/* A session that a process holds open, even while no work of it is running. Embedded by its holder,
 * whose texts outlive it. */
struct bl_open_session {
    struct bl_list link;
    const char *id;
    const char *directory; /* NULL if unknown */
    const char *prompt;    /* one line of the newest prompt; empty if there is none yet */
    uint64_t opened_ns;
    uint64_t active_ns;           /* time of its last event */
    const uint64_t *turns;        /* number of committed turns */
    const struct bl_spent *spent; /* since it was opened */
};

/* All activities of a process. Embedded by its owner. */
struct bl_activities {
    struct bl_list list;
    struct bl_list sessions; /* struct bl_open_session, oldest first */
    /* Observers: `told` receives each event of each agent, `changed` is called when an activity
     * begins or ends. They must not wait. NULL if there is no observer. */
    void (*told)(void *context, const struct bl_event *event);
    void (*changed)(void *context, const struct bl_activity *activity);
    void *context;
};

/* Writes a unique name: `RUN/AGENT`, `RUN/CALL`, `SESSION/CELL` or `FEAT/TASK`; for runs and
 * features, whose ids are unique, the id. */
#define BL_ACTIVITY_NAME_SIZE 160
void bl_activity_name(const struct bl_activity *activity, char out[BL_ACTIVITY_NAME_SIZE]);
void bl_activities_tell(const struct bl_activities *activities, const struct bl_event *event);

void bl_activities_init(struct bl_activities *activities);
/* Adds it to the list. Kind, id, session, phase and scope must be set. */
void bl_activity_begin(struct bl_activities *activities, struct bl_activity *activity);
/* Removes it from the list. `receipt` (JSON; empty if it was not stopped) is passed to all waiting
 * callers. */
void bl_activity_end(struct bl_activity *activity, struct bl_text receipt);

/* An activity as reported to other processes. */
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
    double cost_usd;
    bool cost_unknown;
    struct bl_text directory; /* empty if unknown */
    struct bl_text prompt;    /* one line of the prompt; empty if there is none */
    int64_t pid;              /* its process id, if the caller asked for it */
};
extern const struct bl_record bl_activity_record;

/* An open session as reported to other processes. */
struct bl_open_session_view {
    struct bl_list link;
    struct bl_text session;
    bool idle; /* no turn is under way; background commands may be running */
    struct bl_text directory;
    struct bl_text prompt;
    uint64_t age_ms; /* since it was opened */
    uint64_t idle_ms;
    uint64_t turns;
    double cost_usd;
    bool cost_unknown;
    int64_t pid; /* as in struct bl_activity_view */
};
extern const struct bl_record bl_open_session_record;
/* Lists the open sessions of a process, as struct bl_open_session_view in the arena. */
void bl_activities_sessions(const struct bl_activities *activities, struct bl_arena *arena,
                            struct bl_list *ret_sessions);

/* Returns a snapshot of the activity in the arena, which may outlive it. */
struct bl_activity_view *bl_activity_view(struct bl_arena *arena,
                                          const struct bl_activity *activity);
void bl_activities_write(const struct bl_activities *activities, struct bl_json_writer *writer);
void bl_activity_write(struct bl_json_writer *writer, const struct bl_activity *activity);
/* Skips the grace periods of the activities that bl_activities_cancel would stop for `id`. */
void bl_activities_hurry(struct bl_activities *activities, const char *id);
/* Stops the activity with that id or name (a run, sub-agent, call or job; or a session: its turn
 * and its jobs) for reason user, waits until it has stopped, and writes the receipt. Writes nothing
 * if the activity ended by itself first. Returns BL_ENOENT if nothing with that id is running.
 * `origin` names the requester. */
int bl_activities_cancel(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt);
/* Does the same after the step in flight, for a run, a sub-agent, or the turn of a session. Writes
 * nothing if it completed. Returns BL_ENOTSUP if the activity has no steps. */
int bl_activities_finish(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt);

/* ---- Permissions ----------------------------------------------------------------------------- */

enum bl_permission_mode {
    BL_PERMISSION_ASK,
    BL_PERMISSION_AUTO,
    BL_PERMISSION_READ_ONLY,
    BL_PERMISSION_YOLO,
    BL_PERMISSION_PLAN, /* as read-only, until the user has approved a plan */
};

int bl_permission_mode_parse(const char *text, enum bl_permission_mode *ret_mode,
                             struct bl_error *error);
const char *bl_permission_mode_name(enum bl_permission_mode mode);
extern const struct bl_names bl_permission_mode_names;
/* Returns true if `mode` permits more by default than `than`, in the order read-only, ask, auto,
 * yolo. Plan permits what read-only does, but may become ask or auto: it is wider than read-only
 * alone. */
bool bl_permission_mode_wider(enum bl_permission_mode mode, enum bl_permission_mode than);

/* Rules are TOOL or TOOL(GLOB), such as "bash(git *)" or "mcp__name__*". Denying rules win, and
 * rules apply in every mode. A star matches any bytes; " *" at the end also matches no argument.
 * For a command, each part of a list or pipeline must match an allowing rule, whose star matches
 * arguments and never another command. A command that contains anything a pattern cannot inspect
 * (substitutions, control structures, assignments, redirections to files) matches only a rule
 * without a pattern. A denying rule matches wherever the command seems to be run: a guard rail, not
 * a security boundary. "network" opens the sandbox's network.
 *
 * For a path ("write(src/" and two stars, "read(.env)") the pattern is compared with the resolved
 * path, both relative to the workspace and absolute ("~/" is the user's home): one star stays
 * within a folder, two stars cross folders, and a trailing slash means a folder and everything in
 * it. A rule that denies `read` also denies `edit`, `grep`, `glob` and `ls` of that path, and a
 * search from a parent folder skips it; it does not apply to `bash`. Files that Git or belay may
 * run, and places where secrets are kept, can be changed only if a rule with a pattern allows it
 * (bl_sandbox_guarded), in every mode but yolo.
 *
 * Rules may be added while it is in use, but only on the loop's thread. */
struct bl_permissions;

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode);
void bl_permissions_free(struct bl_permissions *permissions); /* NULL is fine */
void bl_permissions_set_mode(struct bl_permissions *permissions, enum bl_permission_mode mode);
enum bl_permission_mode bl_permissions_mode(const struct bl_permissions *permissions);
/* Returns BL_EINVAL, kind usage, if it is not a rule, and the error shows where; or if it names a
 * tool that does not exist: then the error has the name BL_UNKNOWN_TOOL and suggests another. */
int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error);

/* Removes each rule with the same text. Returns false if there is none. */
bool bl_permissions_remove(struct bl_permissions *permissions, bool allow, const char *rule);

/* Decides by the rules for a tool that is not in the toolbox and changes nothing itself; `subject`
 * is what patterns are compared with. Returns what the engine's table returns. */
enum bl_permit bl_permissions_decide(const struct bl_permissions *permissions, const char *tool,
                                     struct bl_text subject, char *ret_reason, size_t reason_size);
/* Returns the paths of bl_sandbox_secrets that a rule allows to be read by name, such as
 * "read(~/.npmrc)" or "read(~/.aws/)": commands in a sandbox can see them. In the arena; ends in
 * NULL. */
const char *const *bl_permissions_shown(const struct bl_permissions *permissions,
                                        struct bl_arena *arena);
/* Matches the name of a tool against a pattern with stars. */
bool bl_tool_name_fits(const char *pattern, const char *name);

/* The agent's own tools. Rules can name them like those of the toolbox. */
#define BL_TOOL_TASK "task"
#define BL_TOOL_EXEC "exec"
#define BL_TOOL_WAIT "wait"
#define BL_TOOL_PLAN "plan"
/* Error name for a tool that does not exist. */
#define BL_UNKNOWN_TOOL "unknown_tool"

/* Checks that a name or pattern in a rule, hook or persona can match a tool of the toolbox, the
 * agent or an MCP server (mcp__SERVER__TOOL). Returns BL_EINVAL, kind usage, name BL_UNKNOWN_TOOL,
 * with a suggestion. */
int bl_tool_name_check(const char *pattern, struct bl_error *error);

/* Returns rule number `number`, in the order of addition, or NULL past the last one. */
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

/* The user's commands that run at certain moments. */
struct bl_hooks;

struct bl_hooks *bl_hooks_new(void);
void bl_hooks_free(struct bl_hooks *hooks); /* NULL is fine; no hook may be running */
/* `pattern` selects tools by name, with stars, as in a rule (NULL: all tools); `command` is run by
 * a shell; `timeout_ns` 0 means BL_HOOK_NS_DEFAULT. Texts are copied. */
void bl_hooks_add(struct bl_hooks *hooks, enum bl_hook_when when, const char *pattern,
                  const char *command, uint64_t timeout_ns);
bool bl_hooks_any(const struct bl_hooks *hooks, enum bl_hook_when when); /* NULL has no hooks */

struct bl_hook_run {
    const struct bl_hooks *hooks;
    enum bl_hook_when when;
    const char *tool;      /* of the call; NULL if there is none */
    const char *id;        /* of the call or the turn: names the unit in a receipt */
    struct bl_text event;  /* one JSON object, for its standard input */
    const char *directory; /* working directory */
    enum bl_mechanism container;
    const char *const *hidden;  /* variables withheld from it; ends in NULL; may be NULL */
    const char *const *allowed; /* variables passed to it although they look like secrets */
    struct bl_arena *arena;
    /* Reports each hook that failed without an effect on the call; may be NULL. */
    void (*warn)(void *context, struct bl_text message);
    void *context;
};

/* Runs the matching hooks one after another, in wardens, in the running fiber and its scope.
 * Returns 0; BL_EACCES if a hook that runs before a tool refused it (exit 2), with its standard
 * error as `*ret_reason`, in the arena; BL_ECANCELED or BL_ETIMEDOUT if stopped, when none of its
 * processes is running. */
int bl_hooks_run(const struct bl_hook_run *run, struct bl_text *ret_reason);

/* ---- MCP servers ----------------------------------------------------------------------------- */

/* Where a server is configured, which decides whether it may be started. */
enum bl_mcp_source {
    BL_MCP_OF_USER,      /* the user's own file */
    BL_MCP_OF_OPTION,    /* --mcp-config */
    BL_MCP_OF_WORKSPACE, /* .mcp.json: only after the user has approved that exact entry */
    BL_MCP_OF_CLIENT,    /* an editor's session/new */
};

/* One server as configured; in the arena that it was read into. */
struct bl_mcp_entry {
    struct bl_list link;
    const char *name;
    enum bl_mcp_source source;
    const char *path;             /* of the file; NULL if there is none */
    const char *command;          /* stdio; NULL for HTTP */
    const char *const *arguments; /* end in NULL */
    const char *const *variables; /* "NAME=value"; end in NULL */
    const char *directory;        /* NULL for the workspace */
    const char *url;
    const char *const *headers; /* "Name: value"; end in NULL */
    uint64_t call_ns;           /* 0: BL_MCP_CALL_NS */
    uint64_t start_ns;          /* 0: BL_MCP_START_NS */
    bool trust;                 /* on_cancel: trust: stopping a call leaves the server running */
    const char *const *enabled_tools; /* patterns with stars; end in NULL; NULL for all */
    char digest[65];                  /* of the entry after expansion, in hex */
};

#define BL_MCP_CALL_NS  (300 * BL_NS_PER_S)
#define BL_MCP_START_NS (10 * BL_NS_PER_S)

struct bl_mcp_config_options {
    const char *directory;                     /* of the workspace */
    const char *const *files;                  /* of --mcp-config; end in NULL; may be NULL */
    const char *(*variable)(const char *name); /* for ${VAR} and ${VAR:-default} */
    /* Reports an entry that cannot be used. */
    void (*notice)(void *context, struct bl_text text);
    void *context;
};

/* Reads the user's file ($XDG_CONFIG_HOME/belay/mcp.json), .mcp.json of the workspace, then the
 * given files; a later entry replaces an earlier one of the same name. Blocks on file I/O. An
 * invalid entry is skipped with a notice; a file given by option that cannot be read is an error,
 * with line and column. */
int bl_mcp_config_read(struct bl_arena *arena, const struct bl_mcp_config_options *options,
                       struct bl_list *ret_entries, struct bl_error *error);
/* Checks the server `name` in `text`, which is to become the file at `path`; variables count as set.
 * Returns BL_EPARSE or BL_EINVAL with line and column; BL_ENOENT if the text has no such server. */
int bl_mcp_config_check(const char *path, struct bl_text text, const char *name,
                        struct bl_error *error);
/* Reads ACP's `mcpServers` in the same way. Returns BL_EINVAL, with the path of the fault as the
 * error's target. */
int bl_mcp_entries_read(struct bl_arena *arena, const struct bl_json *servers,
                        struct bl_list *ret_entries, struct bl_error *error);
/* Returns whether the user has approved that exact entry. Blocks on file I/O
 * ($XDG_STATE_HOME/belay/mcp-trust). */
bool bl_mcp_trusted(const struct bl_mcp_entry *entry);
int bl_mcp_trust(const struct bl_mcp_entry *entry, struct bl_error *error);

/* A server as the toolbox lists it. */
struct bl_mcp_view {
    const char *name;
    const struct bl_mcp_entry *entry;
    const char *state;    /* off, untrusted, starting, ready, failed, out_of_service */
    struct bl_text why;   /* reason for off, untrusted, failed and out_of_service; may be empty */
    const char *protocol; /* negotiated version; NULL if there is none yet */
    size_t tool_count;
};

/* ---- The registry ---------------------------------------------------------------------------- */

struct bl_toolbox_options {
    const char *workspace; /* absolute; working directory of commands */
    /* additional folders that tools may write to; absolute; end in NULL; may be NULL */
    const char *const *folders;
    const char *const *readable; /* the same, but read-only */
    /* outlives the toolbox; remembered answers are added to it as rules */
    struct bl_permissions *permissions;
    enum bl_mechanism container;
    bool sandbox_chosen; /* `sandbox` was requested; otherwise the mode and the machine decide */
    enum bl_sandbox sandbox;
    bool grace_chosen;     /* `grace_ms` was requested; else BL_GRACE_MS_DEFAULT */
    uint32_t grace_ms;     /* grace period of stopped tools; 0: they are killed at once */
    uint32_t mcp_grace_ms; /* grace period of MCP servers; 0: BL_GRACE_MS_DEFAULT */
    size_t output_max;     /* maximum size of a result, in bytes; 0: 64 KiB */
    /* struct bl_mcp_entry: servers whose tools are offered as well, from bl_toolbox_begin on;
     * outlives it; NULL for none */
    const struct bl_list *mcp;
    bool mcp_trusted; /* --trust-mcp: servers of the workspace too */
    /* Reports the state of a server and the tools of it that are skipped; may be NULL. */
    void (*notice)(void *context, struct bl_text text);
    void *notice_context;
};

struct bl_toolbox;

/* Returns BL_ENOTSUP if the requested sandbox is not available. The texts of the options must
 * outlive it. Where a sandbox may be in force, it is tried for real, which takes some milliseconds
 * the first time. */
int bl_toolbox_new(const struct bl_toolbox_options *options, struct bl_toolbox **ret_toolbox,
                   struct bl_error *error);
void bl_toolbox_free(struct bl_toolbox *toolbox); /* NULL is fine; no call may be under way */
const struct bl_tools *bl_toolbox_tools(const struct bl_toolbox *toolbox);
/* Starts the servers that are due, reads their tool lists, and applies changes since the last time:
 * the table's offers may differ afterwards. Runs in a fiber; a stop of its scope ends it early. The
 * table's `refresh` calls this. */
void bl_toolbox_refresh(struct bl_toolbox *toolbox);
/* Holds the table's current offers, and all that they point to, until they are released, whatever a
 * refresh changes meanwhile. NULL if they never change. */
struct bl_toolbox_held;
struct bl_toolbox_held *bl_toolbox_hold(struct bl_toolbox *toolbox);
void bl_toolbox_let_go(struct bl_toolbox_held *held); /* NULL is fine */
/* From now on, replaces the options' `notice`. The callback runs in a fiber and may wait. NULL
 * restores the options' callback. */
void bl_toolbox_set_notice(struct bl_toolbox *toolbox,
                           void (*notice)(void *context, struct bl_text text), void *context);
/* Allows an untrusted server to be started from now on. */
void bl_toolbox_trust(struct bl_toolbox *toolbox, const struct bl_mcp_entry *entry);
/* Fills server number `number`, in order; returns false past the last one. */
bool bl_toolbox_mcp(const struct bl_toolbox *toolbox, size_t number, struct bl_mcp_view *ret_view);
/* Returns the sandbox in force. The first call may try the machine's sandbox, which takes
 * milliseconds. A sandbox that was not requested comes with the mode auto, and stays. */
enum bl_sandbox bl_toolbox_sandbox(struct bl_toolbox *toolbox);
/* Withholds these variables from commands, besides any that look like secrets. Names end in NULL,
 * and outlive the toolbox. */
void bl_toolbox_hide(struct bl_toolbox *toolbox, const char *const *variables);
/* Passes these variables to commands even if they look like secrets. */
void bl_toolbox_allow_variables(struct bl_toolbox *toolbox, const char *const *variables);
/* Gives these variables ("NAME=value") to commands and MCP servers, too. */
void bl_toolbox_add_variables(struct bl_toolbox *toolbox, const char *const *variables);
/* Returns the rule that "always" would add for this call: "bash(git commit *)", "edit(src/a.c)"; in
 * the call's arena. Empty if no rule can express it. */
struct bl_text bl_toolbox_rule(struct bl_toolbox *toolbox, const struct bl_tool_call *call);
/* Returns the rules that would allow a call that is refused or that the user would be asked about:
 * the rule of bl_toolbox_rule, one rule for each command of a list, or else the whole tool. In the
 * call's arena; ends in NULL. Empty if the call is allowed, or no rule would allow it. */
const char *const *bl_toolbox_rules_allowing(struct bl_toolbox *toolbox,
                                             const struct bl_tool_call *call);

/* Background commands outlive their turn: they run in fibers of `nursery`, which no stop of a turn
 * reaches, and are listed in `activities` (may be NULL) as jobs of that session. Without this call
 * there are none. Call it in a fiber, before the first tool call. */
void bl_toolbox_begin(struct bl_toolbox *toolbox, struct bl_nursery *nursery,
                      struct bl_activities *activities, const char *session);
/* Sets the callback for each background command that was stopped, with its receipt (JSON). It runs
 * in the command's own fiber and may wait. `told`: a call has already reported the receipt as its
 * own. Call it after each bl_toolbox_begin. */
void bl_toolbox_on_stopped(struct bl_toolbox *toolbox,
                           void (*stopped)(void *context, const char *job, struct bl_text receipt,
                                           bool told),
                           void *context);
/* Tells background commands, and MCP servers without a call in progress, that the session is about
 * to end. This happens alongside other stops, so that one grace period serves for all. Does not
 * wait. */
void bl_toolbox_retire(struct bl_toolbox *toolbox);
/* Stops all background commands, and returns when none of their processes is running. Runs in a
 * fiber, before the nursery ends. Calling it again has no effect. */
void bl_toolbox_end(struct bl_toolbox *toolbox);
/* Writes the elements of a receipt's `background`: {"id","command","processes","age_ms"} of each
 * running command. `toolbox` is a struct bl_toolbox. */
void bl_toolbox_write_background(void *toolbox, struct bl_json_writer *writer);
/* Skips the grace periods of stops under way and of later ones. */
void bl_toolbox_hurry(struct bl_toolbox *toolbox);
/* Restores grace periods for later stops; stops under way stay hurried. */
void bl_toolbox_calm(struct bl_toolbox *toolbox);

BL_PUBLIC_END

#endif
