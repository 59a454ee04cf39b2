/* runtime: opens a workspace and makes agents in it: the library's front.
 *
 * A workspace is a folder with everything that an agent works with there: configuration, model and
 * key, tools and rules, instructions, personas, skills and MCP servers. Commands, servers, features
 * and programs that embed the library all open it here, so that an agent is the same everywhere.
 *
 * Promises: an error in a file, an option or a rule is reported before an agent exists; files are
 * read on a thread, so that a stop ends an opening at once, even when a file blocks. */
#ifndef BELAY_RUNTIME_H
#define BELAY_RUNTIME_H

#include <belay/agent.h>

BL_PUBLIC_BEGIN

/* ---- A project ------------------------------------------------------------------------------- */

/* The configuration of a folder: what all its workspaces have in common. Embedded by its owner. */
struct bl_project {
    struct bl_arena arena;
    struct bl_config *config;
    struct bl_settings settings;
    struct bl_list personas; /* struct bl_persona */
    struct bl_list notices;  /* struct bl_notice: found, and cannot be used */
};

void bl_project_init(struct bl_project *project);
/* Reads it for `directory`, which is absolute. Blocks. */
int bl_project_read(struct bl_project *project, const char *directory, struct bl_error *error);
void bl_project_done(struct bl_project *project);

/* ---- Options --------------------------------------------------------------------------------- */

/* How a workspace is opened. Words and lists of words are copied; lists end in NULL, and NULL is
 * an empty one. */
struct bl_workspace_options {
    const char *directory;       /* absolute; NULL: the current one */
    const char *told_from;       /* folder of instructions and skills; NULL: `directory` */
    const char *const *folders;  /* further ones that tools may use, absolute */
    const char *const *readable; /* further ones that tools may read */

    /* The model. */
    const char *provider; /* NULL: as configured; as the next */
    const char *model;
    const char *cassette_path; /* to answer from, with the provider "replay" */
    const char *record_path;   /* to record to */
    bool budgeted;             /* by max_budget_usd: needs a price */
    double max_budget_usd;
    bool model_optional; /* opens without a model or key, too: prompts then fail with the reason */

    /* What it is told. */
    const char *system_path; /* of a file in place of our own system prompt */
    const char *system_more; /* appended to it */
    const char *schema_path; /* of answers */

    /* Rules and tools. */
    bool mode_chosen; /* else the configuration may say it */
    enum bl_permission_mode mode;
    const char *const *allow; /* rules */
    const char *const *deny;
    bool sandbox_chosen; /* else by what the system offers */
    enum bl_sandbox sandbox;
    enum bl_mechanism container;
    bool graced; /* else tools have the usual grace period */
    uint32_t grace_ms;
    const char *const *mcp_files;      /* further configurations of MCP servers */
    const struct bl_json *mcp_servers; /* further servers, as ACP has them; NULL: none */
    bool trust_mcp;                    /* also the project's own servers */
    bool without_mcp;                  /* no server at all */

    /* Its sessions. */
    struct bl_store *store; /* outlives it; NULL: that of `store_path` */
    const char *store_path; /* opened and closed with it; NULL: agents are given a store */

    /* Limits of each prompt. */
    struct bl_turn_limits limits;
    bool timed;
    int64_t timeout_ns;
    uint64_t max_turns;

    struct bl_ledger *ledger; /* of cost, shared with others; NULL: its own, by max_budget_usd */

    /* A project that was read before, and the model that was found in it; NULL: they are read. */
    struct bl_project *project;
    const struct bl_config_found *found;
};

/* No limits, one turn a prompt, permission mode auto. */
void bl_workspace_options_init(struct bl_workspace_options *options, const char *directory);

/* ---- A workspace ----------------------------------------------------------------------------- */

struct workspace_files;

/* Its members are for reading, unless noted otherwise. */
struct bl_workspace {
    struct bl_workspace_options options;
    struct bl_permissions *permissions;
    /* Once its files are read: */
    struct bl_project *project; /* NULL: not read */
    struct bl_config_found found;
    const struct bl_list *instructions; /* struct bl_instruction */
    const struct bl_json_schema *schema;
    const struct bl_mcp_entry *const *untrusted; /* servers of the project nobody has agreed to;
                                                    ends in NULL */
    /* Once it is open: */
    struct bl_toolbox *toolbox;
    struct bl_model model;
    struct bl_store *store;    /* NULL: agents are given one */
    struct bl_ledger *ledger;  /* of cost; NULL: no limit */
    enum bl_effort *thinking;  /* may be changed, in force from the next call on; NULL: the model
                                    has nothing of that kind */
    const char *const *models; /* for bl_agent_set_model, the current one first; ends in NULL */
    struct bl_text *warnings;  /* for the events of the next prompt */
    size_t warning_count;
    struct bl_error record_error; /* once it is closed: code 0, or why the recording failed */
    /* Its own. */
    struct bl_list link;
    struct bl_arena arena;
    struct workspace_files *files;
    struct bl_profile profile;
    struct bl_ledger cost;
    struct bl_cassette *recorder;
    bool owns_store;
    struct bl_models answering;
    struct bl_model_source source;
    struct bl_error no_model;
};

/* One that has read nothing yet. A rule that is wrong is an error. */
int bl_workspace_new(const struct bl_workspace_options *options,
                     struct bl_workspace **ret_workspace, struct bl_error *error);
/* In a fiber: reads its files. A stop leaves the thread to its file, and returns. */
int bl_workspace_read(struct bl_workspace *workspace, struct bl_error *error);
/* In a fiber, after the reading: opens tools and model, and asks for the key. */
int bl_workspace_equip(struct bl_workspace *workspace, struct bl_error *error);
/* The three of them. */
int bl_workspace_open(const struct bl_workspace_options *options,
                      struct bl_workspace **ret_workspace, struct bl_error *error);
/* In a fiber: gives back the model and what is recorded; no agent of it may be open. */
void bl_workspace_shut(struct bl_workspace *workspace);
/* The same, and frees it. Outside of a fiber only after bl_workspace_shut. NULL is fine. */
void bl_workspace_close(struct bl_workspace *workspace);

/* A warning for the events of the next prompt. The text outlives the workspace. */
void bl_workspace_warn(struct bl_workspace *workspace, struct bl_text text);
/* Starts the limit of cost anew: an overrun stops `scope`. NULL: nothing runs. */
void bl_workspace_charge(struct bl_workspace *workspace, struct bl_scope *scope);
/* What its agents are made of: all but session, listener, asker and activities, and the
 * store where it has none. */
struct bl_agent_options bl_workspace_agent(struct bl_workspace *workspace);
/* A prompt with the workspace's limits and warnings. */
struct bl_run_options bl_workspace_run(const struct bl_workspace *workspace, struct bl_text prompt);

/* ---- A runtime ------------------------------------------------------------------------------- */

/* Opens workspaces for clients, within what the process was started with. Embedded by its owner;
 * its members are for reading. */
struct bl_runtime {
    const struct bl_workspace_options *options; /* the widest that a client gets */
    struct bl_store *store;
    enum bl_permission_mode mode;
    bool takes_images;       /* the model of the options */
    const char *const *keys; /* variables that would hold a key, where there is none; end in NULL;
                                NULL: there is one, or none is needed */
    struct bl_list open;     /* struct bl_workspace */
    struct bl_arena arena;
};

struct bl_workspace_request {
    const char *directory;             /* absolute; must exist */
    const char *const *folders;        /* further ones, absolute; end in NULL; NULL: none */
    const struct bl_json *mcp_servers; /* of the client, as ACP has them; NULL: none */
    const char *model;                 /* NULL: that of the runtime; as the next ones */
    bool mode_chosen;                  /* never a wider one than the runtime's */
    enum bl_permission_mode mode;
    bool asks;             /* a person can be asked about what no rule allows */
    bool keep;             /* stopped turns are kept */
    double max_budget_usd; /* negative: that of the runtime; else the smaller one counts */
};

/* In a fiber: reads the workspace of the options, so that an error in them is reported at once. Also
 * after an error bl_runtime_end is called. Options and store outlive it. */
int bl_runtime_begin(struct bl_runtime *runtime, const struct bl_workspace_options *options,
                     struct bl_store *store, struct bl_error *error);
/* In a fiber. An error of kind usage: the request is at fault (a wider mode: BL_EACCES). */
int bl_runtime_open(struct bl_runtime *runtime, const struct bl_workspace_request *request,
                    struct bl_workspace **ret_workspace, struct bl_error *error);
/* Skips the grace periods of what is being stopped in any of its workspaces. */
void bl_runtime_hurry(struct bl_runtime *runtime);
/* All its workspaces are closed. */
void bl_runtime_end(struct bl_runtime *runtime);

/* ---- Answers --------------------------------------------------------------------------------- */

/* What a run came to, as `belay run` and the tool of MCP answer. */
struct bl_run_answer {
    const char *session_id; /* NULL: it was stopped before it had one */
    const char *provider;   /* "none": it had no model yet; as the next */
    const char *model;
    struct bl_text prompt;
    uint64_t max_turns;
    bool timed;
    uint64_t timeout_ns;
    struct bl_text *turns; /* the results as JSON */
    size_t turn_count;
    struct bl_run_result run; /* its list of turns is not for use */
};

extern const struct bl_record bl_run_answer_record;

/* Prompt, turns and time are the caller's to fill. `model` may be NULL. The result outlives it. */
void bl_run_answer_init(struct bl_run_answer *answer, struct bl_arena *arena,
                        const struct bl_agent_result *result, const struct bl_model *model);

BL_PUBLIC_END

#endif
