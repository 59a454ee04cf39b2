/* agent: combines the parts. A session, a model, tools and a store become a run that can be watched
 * and stopped.
 *
 * Promises: work that is listed as running does run, and is unlisted once it has ended. A stop by
 * id reaches exactly that piece of work and everything below it, and answers with the receipt when
 * all of it has stopped. */
#ifndef BELAY_AGENT_H
#define BELAY_AGENT_H

#include <belay/model.h>
#include <belay/store.h>
#include <belay/tool.h>

BL_PUBLIC_BEGIN

/* ---- Personas and skills --------------------------------------------------------------------- */

/* A kind of sub-agent: built in, or a Markdown file with front matter. */
struct bl_persona {
    struct bl_list link;
    const char *name; /* [a-z0-9-]{1,64} */
    const char *description;
    struct bl_text instructions; /* the body of the file */
    const char *const *tools;    /* names, with wildcards; NULL-terminated; NULL: all */
    const char *model;           /* NULL: that of the agent above */
    uint64_t max_steps;          /* BL_UNLIMITED: none; likewise the next */
    uint64_t max_budget_tokens;
    uint64_t timeout_ns; /* 0: none of its own */
    bool synthesize;     /* at max_steps */
    const char *path;    /* NULL: built in */
};

/* A file or entry that was found but cannot be used, for the user. */
struct bl_notice {
    struct bl_list link;
    struct bl_text text;
};
/* Appends one to a list of them. The text, which is not copied, lives as long as the arena. */
void bl_notice_add(struct bl_arena *arena, struct bl_list *notices, struct bl_text text);

/* Finds the built-in personas (explore, worker, review), then those of
 * $XDG_CONFIG_HOME/belay/agents and of .belay/agents from the workspace's root down to `directory`:
 * a later persona replaces an earlier one of the same name. Blocks on file I/O. An invalid file is
 * left out, and an appended notice says what is wrong and where. */
void bl_personas_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_personas,
                      struct bl_list *notices);
/* Returns NULL if no persona has that name. */
const struct bl_persona *bl_persona_named(const struct bl_list *personas, struct bl_text name);

/* A folder with a SKILL.md: listed by name and description, read by the model when needed. */
struct bl_skill {
    struct bl_list link;
    const char *name;
    const char *description;
    const char *path;   /* of SKILL.md, absolute */
    const char *folder; /* that contains it */
};

/* Finds the skills of $XDG_CONFIG_HOME/belay/skills and of .belay/skills and .agents/skills from
 * the workspace's root down, as with personas. */
void bl_skills_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_skills,
                    struct bl_list *notices);

/* ---- Custom commands ------------------------------------------------------------------------- */

/* A prompt in a Markdown file, which `/NAME` sends in a conversation. */
struct bl_custom_command {
    struct bl_list link;
    const char *name; /* of the file: [a-z0-9-]{1,64} */
    const char *description;
    const char *hint; /* its arguments; NULL if none is given */
    struct bl_text body;
    const char *path;
    bool of_user; /* not of the project */
};

/* Finds the commands of $XDG_CONFIG_HOME/belay/commands and of .belay/commands from the workspace's
 * root down, as with personas. */
void bl_custom_commands_find(struct bl_arena *arena, const char *directory,
                             struct bl_list *ret_commands, struct bl_list *notices);
/* Returns the command's prompt, in the arena: $ARGUMENTS stands for all arguments, $1 to $9 for
 * words, which quotes may group. Without any of these, the arguments follow the text. Empty if the
 * prompt would be too long. */
#define BL_CUSTOM_PROMPT_MAX ((size_t)1024 * 1024)
struct bl_text bl_custom_command_prompt(struct bl_arena *arena,
                                        const struct bl_custom_command *command,
                                        struct bl_text arguments);

/* ---- Settings -------------------------------------------------------------------------------- */

/* The background for which `belay chat` chooses its colours; `auto` asks the terminal. */
enum bl_theme {
    BL_THEME_AUTO,
    BL_THEME_DARK,
    BL_THEME_LIGHT,
};
/* How a waiting user learns that a turn has ended or asks something. */
enum bl_notify {
    BL_NOTIFY_OFF,
    BL_NOTIFY_BELL,
    BL_NOTIFY_OSC9, /* a desktop notification, by terminals that support OSC 9 */
};
/* Keys that edit the line. */
enum bl_edit_mode {
    BL_EDIT_EMACS,
    BL_EDIT_VIM,
};
extern const struct bl_names bl_theme_names;
extern const struct bl_names bl_notify_names;

struct bl_chat_settings {
    enum bl_theme theme;
    enum bl_notify notify;
    uint64_t notify_after_ns;
    bool title; /* set the title of the terminal's window */
    enum bl_edit_mode edit_mode;
};

/* The configuration of permissions, hooks and tools (the rest of it is for models). */
struct bl_settings {
    const char *permission_mode;  /* NULL if unset */
    const char *const *allow;     /* rules; NULL-terminated */
    const char *const *deny;      /* likewise, with those of a project's file */
    const char *const *env_allow; /* variables that tools get although they look like secrets */
    struct bl_hooks *hooks;       /* NULL if none */
    struct bl_chat_settings chat;
};

/* Reads the settings into the arena; the caller calls bl_hooks_free. A project's file may only
 * deny: it comes with a repository, and must neither allow nor run anything. BL_EPARSE with file,
 * line, column. */
int bl_settings_read(struct bl_arena *arena, const struct bl_config *config,
                     struct bl_settings *ret_settings, struct bl_error *error);

/* Adds the rules of the settings to `permissions`; the caller applies the mode. */
int bl_settings_apply(const struct bl_settings *settings, struct bl_permissions *permissions,
                      struct bl_error *error);

/* ---- Questions ------------------------------------------------------------------------------- */

#define BL_QUESTION_NS_DEFAULT (60 * BL_NS_PER_S)

struct bl_question {
    const char *agent; /* NULL: the root */
    const char *id;    /* of the call */
    const char *tool;
    struct bl_text text; /* what is asked, and why */
    const struct bl_json *input;
    struct bl_text rule;    /* what "always" would allow; empty: no rule can be kept */
    struct bl_arena *arena; /* for the reason of the answer; NULL: no model would read a reason */
};

enum bl_reply {
    BL_REPLY_NO,
    BL_REPLY_YES,
    BL_REPLY_ALWAYS,
};

/* The answer to a question. */
struct bl_answer {
    enum bl_reply reply;
    struct bl_text reason; /* of a no, for the model; in the question's arena; may be empty */
    enum bl_permission_mode mode; /* of a yes to a plan: how to continue; ask by default */
};
/* Longer reasons are cut. */
#define BL_REASON_MAX ((size_t)4000)

/* Asks the user. */
struct bl_asker {
    /* In the running fiber and its scope: waits for the answer. A stop ends the wait (BL_ECANCELED,
     * BL_ETIMEDOUT) and withdraws the question. One question at a time. */
    int (*ask)(void *context, const struct bl_question *question, struct bl_answer *ret_answer);
    void *context;
    uint64_t limit_ns; /* no answer within it counts as no; 0: no limit */
};

/* ---- An agent -------------------------------------------------------------------------------- */

/* Opens models for sub-agents, and those that the user switches to. */
struct bl_model_source {
    /* `name` NULL: the same model as the agent above. The caller returns the model with `close`. */
    int (*open)(void *context, const char *name, struct bl_model *ret_model, void **ret_handle,
                struct bl_error *error);
    void (*close)(void *context, void *handle);
    void *context;
};

/* The models of a run: the agent's own, and those of the sub-agents below it. Embedded by its
 * owner, who fills it in; everything it points to outlives it. */
struct bl_models {
    struct bl_config *config;
    struct bl_config_found found;
    const struct bl_script *script; /* the script to play; NULL: `found` answers */
    struct bl_ledger *ledger;       /* NULL here and below: none */
    struct bl_cassette *recorder;
    struct bl_cassette *replay;
    struct bl_model model; /* once it is open; the next two are private to the room */
    struct bl_script_player *player;
    struct bl_remote *remote;
};

/* In a fiber: fetches the key if one is needed, and opens the model. */
int bl_models_open(struct bl_models *models, struct bl_error *error);
/* In a fiber; also after a failed open, or without one. */
void bl_models_close(struct bl_models *models);
/* Returns the source of models for sub-agents: each gets its own script from the beginning, the
 * same provider, or the model that its persona names. */
struct bl_model_source bl_models_source(struct bl_models *models);

struct bl_agent_options {
    struct bl_store *store;
    struct bl_store_hold_options
        session; /* with request_id, prompt and run_id; without the last the agent makes one */
    const struct bl_model *model;
    const struct bl_model_source *models; /* NULL: sub-agents use the agent's own */
    struct bl_toolbox *toolbox;           /* NULL: no tools */
    const struct bl_list *personas;       /* struct bl_persona; NULL: no sub-agents */
    const struct bl_persona *persona;     /* the persona of this agent: only its tools, and its
                                             instructions after the system prompt; the caller
                                             applies the limits. NULL if none */
    struct bl_budget *budget;             /* drawn from in addition to its own; NULL if none */
    struct bl_unit *unit; /* represents the agent in the receipt above, and contains its units;
                             NULL: its units are in that receipt directly */
    const struct bl_hooks *hooks; /* NULL if none */
    const char *const *hidden;    /* variables that hooks do not get; as with a toolbox */
    const char *const *env_allow;
    const char *directory;              /* where hooks run */
    const struct bl_asker *asker;       /* NULL: there is no user to ask */
    struct bl_permissions *permissions; /* where "always" adds a rule */
    const struct bl_listener *listener; /* NULL if none */
    struct bl_activities *activities;   /* NULL: not listed */
    struct bl_turn_limits limits;
    struct bl_text system;
    struct bl_text schema_text;
    const struct bl_json_schema *schema;
};

/* A session that is held, with a model, tools and controls: runs prompts to their ends, one at a
 * time. Belongs to fibers of one loop. */
struct bl_agent;

/* Opens the session. What the options point to must outlive the agent. */
int bl_agent_open(const struct bl_agent_options *options, struct bl_agent **ret_agent,
                  struct bl_error *error);
/* Stops background work and releases the session. In a fiber; no prompt may be in progress. NULL is
 * fine. */
void bl_agent_close(struct bl_agent *agent);
/* Runs one loop in `scope`, which the caller may stop, and which is claimed or stopped on return.
 * Each loop needs its own scope, so that an old stop never reaches the next one. */
void bl_agent_prompt(struct bl_agent *agent, const struct bl_run_options *run,
                     struct bl_scope *scope, struct bl_arena *arena,
                     struct bl_run_result *ret_result);
/* Injects a message into the turn in progress, from another fiber: delivered after its next tool
 * results, or as the next prompt. BL_ECLOSED: the agent accepts no more messages. `ret_id` may be
 * NULL. */
int bl_agent_inject(struct bl_agent *agent, struct bl_text text, char *ret_id);
/* Requests a gentle stop of the prompt in progress, and of the sub-agents below it (struct
 * bl_finish). The request is emitted as an event and ends with the prompt. BL_ENOENT: no prompt is
 * in progress. */
int bl_agent_finish(struct bl_agent *agent, const char *origin);
/* Takes back injected messages that were not delivered, as one text. Empty if none. */
struct bl_text bl_agent_take_back(struct bl_agent *agent, struct bl_arena *arena);
/* Lists injected messages that wait: struct bl_inbox_message, oldest first. */
const struct bl_list *bl_agent_waiting(const struct bl_agent *agent);
/* Compacts all turns but the newest, below `scope`; see bl_session_compact. */
int bl_agent_compact(struct bl_agent *agent, struct bl_scope *scope, uint64_t *ret_dropped,
                     struct bl_error *error);
/* Switches to another model of the model source, from the next call on; also in the middle of a
 * prompt. */
int bl_agent_set_model(struct bl_agent *agent, const char *name, struct bl_error *error);
const struct bl_model *bl_agent_model(const struct bl_agent *agent);
const struct bl_session *bl_agent_session(const struct bl_agent *agent);
const struct bl_store_recovery *bl_agent_recovery(const struct bl_agent *agent);
/* Spending of all prompts so far, rejected turns included. */
const struct bl_spent *bl_agent_spent(const struct bl_agent *agent);
/* Writes the work left running on purpose, jobs and cells: elements of a receipt's `background`. */
void bl_agent_write_background(struct bl_agent *agent, struct bl_json_writer *writer);
/* The tools that the model is offered: those of the toolbox, `task`, `exec` and `wait`. */
const struct bl_tools *bl_agent_tools(const struct bl_agent *agent);

/* The same for an agent that is not open; in the arena. */
struct bl_tools bl_agent_offers(struct bl_arena *arena, const struct bl_toolbox *toolbox,
                                const struct bl_list *personas);

/* Runs a call of a cell by the engine's tools: the cell gets the text of the result as a string, or
 * the reason why there is none. For the `call` of a struct bl_cell_port. */
struct bl_cell_call;
struct bl_cell_call_result;
void bl_agent_cell_call(struct bl_engine *engine, const struct bl_cell_call *call,
                        struct bl_cell_call_result *ret_result);

/* A message that is in no turn. */
struct bl_undelivered {
    struct bl_list link;
    const char *id;
    struct bl_text text;
};

struct bl_agent_result {
    struct bl_list undelivered; /* struct bl_undelivered: injected messages that are in no turn */
    char session_id[72];
    struct bl_store_recovery recovery;
    struct bl_run_result run;
};

/* Opens the session, runs one loop, closes the session. Returns 0 also if the run did not complete:
 * the result has the reason. Other codes: it could not start, and `error` has the reason. */
int bl_agent_run(const struct bl_agent_options *options, const struct bl_run_options *run,
                 struct bl_scope *scope, struct bl_arena *arena, struct bl_agent_result *ret_result,
                 struct bl_error *error);

/* ---- What a session starts with -------------------------------------------------------------- */

/* One file of instructions. */
struct bl_instruction {
    struct bl_list link;
    const char *path;
    struct bl_text text;
};

/* Finds AGENTS.md from the workspace's root (the repository's, else the directory itself) down to
 * `directory`, nearest last, after the user's own ($XDG_CONFIG_HOME/belay/AGENTS.md). A file that
 * is above 256 KiB or not UTF-8 is an error; a file of the workspace that is a link out of it is
 * left out, with a notice (struct bl_notice). */
int bl_instructions_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_list,
                         struct bl_list *notices, struct bl_error *error);

/* The parts of the system prompt: who the agent is and where, how to work with its tools, the
 * available skills. `own` (--system) replaces the built-in part; the instructions and `more`
 * follow. */
struct bl_prompt_parts {
    const char *directory;
    struct bl_text own;                 /* empty: the built-in part */
    const struct bl_list *instructions; /* struct bl_instruction */
    const struct bl_list *skills;       /* struct bl_skill */
    struct bl_text more;                /* may be empty */
    int64_t wall_ns;                    /* current time */
};

struct bl_text bl_system_prompt(struct bl_arena *arena, const struct bl_prompt_parts *parts);

/* A command or tool that a prompt matches. */
struct bl_route_match {
    struct bl_list link;
    const char *kind; /* command, tool */
    const char *name;
    uint32_t score;
};

/* Finds commands and tools that match, best first, by comparing words of the prompt with names and
 * descriptions. Runs nothing. */
void bl_route(struct bl_arena *arena, struct bl_text prompt, const struct bl_tools *tools,
              struct bl_list *ret_matches);

BL_PUBLIC_END

#endif
