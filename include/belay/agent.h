/* agent: where the parts meet. A session, a model, tools and a store become a run that can be
 * watched and stopped.
 *
 * Promises: what is listed as running runs, and what has ended is listed no more; a stop by id
 * reaches exactly that piece of work and what is below it, and answers with the receipt when all of
 * it is quiet. */
#ifndef BELAY_AGENT_H
#define BELAY_AGENT_H

#include <belay/model.h>
#include <belay/store.h>
#include <belay/tool.h>

BL_PUBLIC_BEGIN

/* ---- Personas and skills --------------------------------------------------------------------- */

/* A kind of sub-agent: built in, or a Markdown file with a front matter. */
struct bl_persona {
    struct bl_list link;
    const char *name; /* [a-z0-9-]{1,64} */
    const char *description;
    struct bl_text instructions; /* the body of the file */
    const char *const *tools;    /* names, may hold stars; end in NULL; NULL: all */
    const char *model;           /* NULL: that of the agent above */
    uint64_t max_steps;          /* BL_UNLIMITED: none; as the next */
    uint64_t max_budget_tokens;
    uint64_t timeout_ns; /* 0: none of its own */
    bool synthesize;     /* at max_steps */
    const char *path;    /* NULL: built in */
};

/* Something that was found and cannot be used, for the user. */
struct bl_notice {
    struct bl_list link;
    struct bl_text text;
};

/* Built-in ones (explore, worker, review), then those of $XDG_CONFIG_HOME/belay/agents and of
 * .belay/agents from the workspace's root down to `directory`: a later one of the same name takes
 * the place of an earlier one. Blocks as files do. A file that is wrong is left out, and a notice
 * (appended) says what is wrong and where. */
void bl_personas_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_personas,
                      struct bl_list *notices);
/* NULL: none of that name. */
const struct bl_persona *bl_persona_named(const struct bl_list *personas, struct bl_text name);

/* A folder with a SKILL.md: listed by name and description, read by the model when it needs it. */
struct bl_skill {
    struct bl_list link;
    const char *name;
    const char *description;
    const char *path;   /* of SKILL.md, absolute */
    const char *folder; /* that holds it */
};

/* Those of $XDG_CONFIG_HOME/belay/skills and of .belay/skills and .agents/skills from the
 * workspace's root down, as with personas. */
void bl_skills_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_skills,
                    struct bl_list *notices);

/* ---- Settings -------------------------------------------------------------------------------- */

/* What the configuration says of permissions, hooks and tools (the rest of it is the models'). */
struct bl_settings {
    const char *permission_mode;  /* NULL: not said */
    const char *const *allow;     /* rules; end in NULL */
    const char *const *deny;      /* the same; those of a project's file, too */
    const char *const *env_allow; /* variables that tools get though they look like secrets */
    struct bl_hooks *hooks;       /* NULL: none */
};

/* In the arena; bl_hooks_free is the caller's. A project's file may only deny: it comes with a
 * repository, and must neither open anything nor run anything. BL_EPARSE with file, line, column.
 */
int bl_settings_read(struct bl_arena *arena, const struct bl_config *config,
                     struct bl_settings *ret_settings, struct bl_error *error);

/* Adds its rules to those of `permissions`; its mode is the caller's business. */
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
    struct bl_text rule; /* what "always" would allow; empty: it cannot be remembered */
};

enum bl_reply {
    BL_REPLY_NO,
    BL_REPLY_YES,
    BL_REPLY_ALWAYS,
};

/* Whoever can be asked. */
struct bl_asker {
    /* In the running fiber and its scope: waits for the answer. A stop ends the wait (BL_ECANCELED,
     * BL_ETIMEDOUT), and the question is to be withdrawn. One question at a time. */
    int (*ask)(void *context, const struct bl_question *question, enum bl_reply *ret_reply);
    void *context;
    uint64_t limit_ns; /* who has not answered by then says no; 0: no limit */
};

/* ---- An agent -------------------------------------------------------------------------------- */

/* Makes the models of sub-agents, and those that the user changes to. */
struct bl_model_source {
    /* `name` NULL: the same as the agent above has. What comes is given back with `close`. */
    int (*open)(void *context, const char *name, struct bl_model *ret_model, void **ret_handle,
                struct bl_error *error);
    void (*close)(void *context, void *handle);
    void *context;
};

/* Whoever answers in a run: the agent's own model, and those of the sub-agents below it. Embedded
 * by its owner, who fills it in; what it points to outlives it. */
struct bl_models {
    struct bl_config *config;
    struct bl_config_found found;
    const struct bl_script *script; /* that is played; NULL: what was found answers */
    struct bl_ledger *ledger;       /* NULL here and below: none */
    struct bl_cassette *recorder;
    struct bl_cassette *replay;
    struct bl_model model; /* once it is open; the next two are the room's own */
    struct bl_script_player *player;
    struct bl_remote *remote;
};

/* In a fiber: fetches the key where one is needed, and makes the model. */
int bl_models_open(struct bl_models *models, struct bl_error *error);
/* In a fiber; also after an open that failed, or was none. */
void bl_models_close(struct bl_models *models);
/* Where sub-agents have theirs from: each a script of his own from its beginning, or the same
 * provider, or what his persona names. */
struct bl_model_source bl_models_source(struct bl_models *models);

struct bl_agent_options {
    struct bl_store *store;
    struct bl_store_hold_options
        session; /* its request_id, prompt, run_id too; without the last the
                                             agent makes one */
    const struct bl_model *model;
    const struct bl_model_source *models; /* NULL: sub-agents have the agent's own */
    struct bl_toolbox *toolbox;           /* NULL: no tools */
    const struct bl_list *personas;       /* struct bl_persona; NULL: no sub-agents */
    const struct bl_persona *persona;     /* what it is itself: its tools alone, its instructions
                                             after the system's; limits are the caller's business.
                                             NULL: itself */
    struct bl_budget *budget;             /* that it draws from besides its own; NULL: none */
    struct bl_unit *unit; /* stands for it in the receipt above, and has its units; NULL: they are
                             there themselves */
    const struct bl_hooks *hooks; /* NULL: none */
    const char *const *hidden;    /* variables that hooks do not get; as with a toolbox */
    const char *const *env_allow;
    const char *directory;              /* where hooks run */
    const struct bl_asker *asker;       /* NULL: nobody can be asked */
    struct bl_permissions *permissions; /* to which "always" adds a rule */
    const struct bl_listener *listener; /* NULL: nobody */
    struct bl_activities *activities;   /* NULL: not listed */
    struct bl_turn_limits limits;
    struct bl_text system;
    struct bl_text schema_text;
    const struct bl_json_schema *schema;
};

/* A session that is held, with a model, tools and controls: takes prompts to their ends, one at a
 * time. Belongs to fibers of one loop. */
struct bl_agent;

/* Opens the session. What the options point to must outlive the agent. */
int bl_agent_open(const struct bl_agent_options *options, struct bl_agent **ret_agent,
                  struct bl_error *error);
/* Stops what runs in the background, gives the session back. In a fiber; no prompt may be under
 * way. NULL is fine. */
void bl_agent_close(struct bl_agent *agent);
/* Runs one loop in `scope`, which the caller may stop, and which is claimed or stopped when it
 * returns: each has its own, so that an old stop never reaches the next. */
void bl_agent_prompt(struct bl_agent *agent, const struct bl_run_options *run,
                     struct bl_scope *scope, struct bl_arena *arena,
                     struct bl_run_result *ret_result);
/* A message for the turn under way, from another fiber: delivered after its next tool results, or
 * as the next prompt. BL_ECLOSED: the agent takes none any more. `ret_id` may be NULL. */
int bl_agent_inject(struct bl_agent *agent, struct bl_text text, char *ret_id);
/* What was injected and not delivered, as one text; it is the caller's business now. Empty: none.
 */
struct bl_text bl_agent_take_back(struct bl_agent *agent, struct bl_arena *arena);
/* What was injected and waits: struct bl_inbox_message, oldest first. */
const struct bl_list *bl_agent_waiting(const struct bl_agent *agent);
/* Sums up all turns but the newest, below `scope`; see bl_session_compact. */
int bl_agent_compact(struct bl_agent *agent, struct bl_scope *scope, uint64_t *ret_dropped,
                     struct bl_error *error);
/* Another model from its next call on, by the model source; also in the middle of a prompt. */
int bl_agent_set_model(struct bl_agent *agent, const char *name, struct bl_error *error);
const struct bl_model *bl_agent_model(const struct bl_agent *agent);
const struct bl_session *bl_agent_session(const struct bl_agent *agent);
const struct bl_store_recovery *bl_agent_recovery(const struct bl_agent *agent);
/* Of all prompts so far, rejected turns too. */
const struct bl_spent *bl_agent_spent(const struct bl_agent *agent);
/* What was left running on purpose, jobs and cells: elements of a receipt's `background`. */
void bl_agent_write_background(struct bl_agent *agent, struct bl_json_writer *writer);
/* What the model is offered: tools, `task`, `exec` and `wait`. */
const struct bl_tools *bl_agent_tools(const struct bl_agent *agent);

/* The same for one that is not open: what there would be; in the arena. */
struct bl_tools bl_agent_offers(struct bl_arena *arena, const struct bl_toolbox *toolbox,
                                const struct bl_list *personas);

/* Runs a call of a cell's by the engine's tools: the cell gets the text of the result as a string,
 * or why there is none. For the `call` of a struct bl_cell_port. */
struct bl_cell_call;
struct bl_cell_call_result;
void bl_agent_cell_call(struct bl_engine *engine, const struct bl_cell_call *call,
                        struct bl_cell_call_result *ret_result);

struct bl_agent_result {
    struct bl_text undelivered; /* what was injected, and no turn took; empty: nothing */
    char session_id[72];
    struct bl_store_recovery recovery;
    struct bl_run_result run;
};

/* Opens the session, runs one loop, closes the session. 0 also when the run did not complete: the
 * result says it. Other codes: it could not begin, and `error` says why. */
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

/* AGENTS.md from the workspace's root (the repository's, else the directory itself) down to
 * `directory`, nearest last, after the user's own ($XDG_CONFIG_HOME/belay/AGENTS.md). A file above
 * 256 KiB or that is not UTF-8 is an error; one of the workspace that is a link out of it is left
 * out, with a notice (struct bl_notice). */
int bl_instructions_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_list,
                         struct bl_list *notices, struct bl_error *error);

/* What the model is told before all else, in the arena: who it is and where, how to work with its
 * tools, the skills there are. `own` (--system) takes the place of the part that we wrote; then
 * come the instructions, and `more`. */
struct bl_prompt_parts {
    const char *directory;
    struct bl_text own;                 /* empty: ours */
    const struct bl_list *instructions; /* struct bl_instruction */
    const struct bl_list *skills;       /* struct bl_skill */
    struct bl_text more;                /* may be empty */
    int64_t wall_ns;                    /* today */
};

struct bl_text bl_system_prompt(struct bl_arena *arena, const struct bl_prompt_parts *parts);

/* A command or tool that a prompt matches. */
struct bl_route_match {
    struct bl_list link;
    const char *kind; /* command, tool */
    const char *name;
    uint32_t score;
};

/* Best first; words of the prompt against names and descriptions. Runs nothing. */
void bl_route(struct bl_arena *arena, struct bl_text prompt, const struct bl_tools *tools,
              struct bl_list *ret_matches);

BL_PUBLIC_END

#endif
