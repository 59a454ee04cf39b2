/* runtime: opens a workspace and makes agents in it: the library's front.
 *
 * A workspace is a folder with everything that an agent works with there: configuration, model and
 * key, tools and rules, instructions, personas, skills and MCP servers. Commands, servers, features
 * and programs that embed the library all open it here, so that an agent is the same everywhere.
 *
 * Promises: an error in a file, an option or a rule is reported before an agent exists. Files are
 * read on a thread, so that a stop ends an opening at once, even if a file blocks. */
#ifndef BELAY_RUNTIME_H
#define BELAY_RUNTIME_H

#include <belay/agent.h>

BL_PUBLIC_BEGIN

/* ---- A project ------------------------------------------------------------------------------- */

/* The configuration of a folder, which all its workspaces share. Embedded by its owner. */
struct bl_project {
    struct bl_arena arena;
    struct bl_config *config;
    struct bl_settings settings;
    struct bl_list personas; /* struct bl_persona */
    struct bl_list notices;  /* struct bl_notice: found, but cannot be used */
};

void bl_project_init(struct bl_project *project);
/* Reads the project for `directory`, an absolute path. Blocks. */
int bl_project_read(struct bl_project *project, const char *directory, struct bl_error *error);
void bl_project_done(struct bl_project *project);

/* ---- Kept rules ------------------------------------------------------------------------------ */

/* A rule that a user has allowed permanently, everywhere or in one project. Kept in
 * $XDG_CONFIG_HOME/belay/rules.json, outside of every repository. The functions block on file
 * I/O. */
struct bl_kept_rule {
    struct bl_list link;
    const char *rule;
    const char *project; /* the root of its repository; NULL: applies everywhere */
};
#define BL_KEPT_RULE_SIZE_MAX 4096

/* Reads the rules that apply in `directory`, into the arena. BL_EPARSE: the file is broken, and no
 * rule applies. */
int bl_kept_rules_read(struct bl_arena *arena, const char *directory, struct bl_list *ret_rules,
                       struct bl_error *error);
/* Adds a rule for the project of `directory`; NULL: everywhere. */
int bl_kept_rule_add(const char *rule, const char *directory, struct bl_error *error);
/* Removes a rule both for that project and everywhere. */
int bl_kept_rule_remove(const char *rule, const char *directory, bool *ret_found,
                        struct bl_error *error);

/* ---- Options --------------------------------------------------------------------------------- */

/* How a workspace is opened. Words and lists of words are copied; lists are NULL-terminated, and
 * NULL is an empty list. */
struct bl_workspace_options {
    const char *directory;       /* absolute; NULL: the current one */
    const char *told_from;       /* folder of instructions and skills; NULL: `directory` */
    const char *const *folders;  /* more folders that tools may use, absolute */
    const char *const *readable; /* more folders that tools may read */

    /* The model. */
    const char *provider; /* NULL: as configured; likewise the next */
    const char *model;
    const char *cassette_path; /* to answer from, with the provider "replay" */
    const char *record_path;   /* to record to */
    bool budgeted;             /* by max_budget_usd: needs a price */
    double max_budget_usd;
    bool model_optional; /* opens without a model or key, too: prompts then fail with the reason */

    /* The system prompt and the form of answers. */
    const char *system_path; /* of a file that replaces the built-in system prompt */
    const char *system_more; /* appended to it */
    const char *schema_path; /* JSON Schema of answers */

    /* Rules and tools. */
    bool mode_chosen; /* otherwise the configuration may choose it */
    enum bl_permission_mode mode;
    const char *const *allow; /* rules */
    const char *const *deny;
    bool sandbox_chosen; /* otherwise chosen by what the system supports */
    enum bl_sandbox sandbox;
    enum bl_mechanism container;
    bool graced; /* otherwise tools have the default grace period */
    uint32_t grace_ms;
    const char *const *mcp_files;      /* more configurations of MCP servers */
    const struct bl_json *mcp_servers; /* more servers, in the form of ACP; NULL if none */
    bool trust_mcp;                    /* also the project's own servers */
    bool without_mcp;                  /* no server at all */
    const char *const *variables;      /* for commands and MCP servers: "NAME=value" */

    /* Its sessions. */
    struct bl_store *store; /* outlives the workspace; NULL: that of `store_path` */
    const char *store_path; /* opened and closed with the workspace; NULL: agents are given a
                               store */

    /* Limits of each prompt. */
    struct bl_turn_limits limits;
    bool timed;
    int64_t timeout_ns;
    uint64_t max_turns;

    struct bl_ledger *ledger; /* of cost, shared with others; NULL: its own, by max_budget_usd */

    /* A project that was read before, and the model that was found in it; NULL: both are read. */
    struct bl_project *project;
    const struct bl_config_found *found;
};

/* Sets the defaults: no limits, one turn per prompt, permission mode auto. */
void bl_workspace_options_init(struct bl_workspace_options *options, const char *directory);

/* ---- A workspace ----------------------------------------------------------------------------- */

struct workspace_files;

/* Its members are for reading, unless noted otherwise. */
struct bl_workspace {
    struct bl_workspace_options options;
    struct bl_permissions *permissions;
    /* After its files are read: */
    struct bl_project *project; /* NULL: not read */
    struct bl_config_found found;
    const struct bl_list *instructions; /* struct bl_instruction */
    const struct bl_json_schema *schema;
    const struct bl_mcp_entry *const *untrusted; /* servers of the project that are not approved;
                                                    NULL-terminated */
    /* After it is open: */
    struct bl_toolbox *toolbox;
    struct bl_model model;
    struct bl_store *store;    /* NULL: agents are given one */
    struct bl_ledger *ledger;  /* of cost; NULL: no limit */
    enum bl_effort *thinking;  /* may be changed, effective from the next call on; NULL: the model
                                  does not support it */
    const char *const *models; /* for bl_agent_set_model, the current one first; NULL-terminated */
    struct bl_text *warnings;  /* for the events of the next prompt */
    size_t warning_count;
    struct bl_error record_error; /* after closing: code 0, or why the recording failed */
    /* Private. */
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

/* Creates a workspace that has read nothing yet. An invalid rule is an error. */
int bl_workspace_new(const struct bl_workspace_options *options,
                     struct bl_workspace **ret_workspace, struct bl_error *error);
/* In a fiber: reads its files. A stop returns at once and leaves the thread behind. */
int bl_workspace_read(struct bl_workspace *workspace, struct bl_error *error);
/* In a fiber, after the reading: opens tools and model, and fetches the key. */
int bl_workspace_equip(struct bl_workspace *workspace, struct bl_error *error);
/* All three steps. */
int bl_workspace_open(const struct bl_workspace_options *options,
                      struct bl_workspace **ret_workspace, struct bl_error *error);
/* In a fiber: releases the model and the recording; no agent of the workspace may be open. */
void bl_workspace_shut(struct bl_workspace *workspace);
/* The same, and frees it. Outside of a fiber only after bl_workspace_shut. NULL is fine. */
void bl_workspace_close(struct bl_workspace *workspace);

/* Adds a warning to the events of the next prompt. The text outlives the workspace. */
void bl_workspace_warn(struct bl_workspace *workspace, struct bl_text text);
/* Resets the cost limit: an overrun stops `scope`. NULL: nothing runs. */
void bl_workspace_charge(struct bl_workspace *workspace, struct bl_scope *scope);
/* Returns the options of its agents: all but session, listener, asker and activities, and the store
 * if the workspace has none. */
struct bl_agent_options bl_workspace_agent(struct bl_workspace *workspace);
/* Returns the options for a prompt, with the workspace's limits and warnings. */
struct bl_run_options bl_workspace_run(const struct bl_workspace *workspace, struct bl_text prompt);

/* ---- References in prompts ------------------------------------------------------------------- */

/* A file or folder that a prompt names: `@path`, `@"path with blanks"`, or, for an image, its bare
 * path. */
struct bl_reference {
    struct bl_text path; /* points into the prompt, without mark and quotes */
    bool marked;         /* with @ */
};

/* Takes the next reference off the front of `*rest`, with all text before it; false if there is
 * none. */
bool bl_reference_next(struct bl_text *rest, struct bl_reference *ret_reference);
bool bl_reference_is_image(struct bl_text path); /* by the file extension */

struct bl_attached {
    struct bl_text text;     /* for a struct bl_run_options; empty if none */
    struct bl_list images;   /* struct bl_block, likewise */
    struct bl_list notes;    /* struct bl_notice: what was attached, for people */
    struct bl_list warnings; /* likewise: what was not attached, and why */
};

void bl_attached_init(struct bl_attached *attached); /* empty */
/* Reads the files that the prompt names with the tools `read` and `ls`, within their limits and
 * rules. A name that cannot be read stays text, with a warning. In a fiber, with the workspace
 * open. Returns 0, or the code of a stop of its scope. All results are in the arena. */
int bl_workspace_attach(struct bl_workspace *workspace, struct bl_text prompt, bool takes_images,
                        struct bl_arena *arena, struct bl_attached *ret_attached);
/* For the first prompt of a run; `attached` outlives it. */
void bl_attached_give(const struct bl_attached *attached, struct bl_run_options *run);

/* ---- A runtime ------------------------------------------------------------------------------- */

/* Opens workspaces for clients, within the limits that the process was started with. Embedded by
 * its owner; its members are for reading. */
struct bl_runtime {
    const struct bl_workspace_options *options; /* the widest that a client gets */
    struct bl_store *store;
    enum bl_permission_mode mode;
    bool takes_images;       /* applies to the model of the options */
    const char *const *keys; /* variables that could hold the missing key; NULL-terminated; NULL:
                                there is a key, or none is needed */
    struct bl_list open;     /* struct bl_workspace */
    struct bl_arena arena;
};

struct bl_workspace_request {
    const char *directory;             /* absolute; must exist */
    const char *const *folders;        /* more folders, absolute; NULL-terminated; NULL if none */
    const struct bl_json *mcp_servers; /* of the client, in the form of ACP; NULL if none */
    const char *model;                 /* NULL: that of the runtime; likewise the next ones */
    bool mode_chosen;                  /* never wider than the runtime's mode */
    enum bl_permission_mode mode;
    bool asks;             /* a user can be asked about calls that no rule allows */
    bool keep;             /* stopped turns are kept */
    double max_budget_usd; /* negative: that of the runtime; otherwise the smaller one applies */
    const char *const *variables; /* for commands and MCP servers; NULL if none */
};

/* In a fiber: reads the workspace of the options, so that an error in them is reported at once.
 * Call bl_runtime_end after an error, too. Options and store outlive it. */
int bl_runtime_begin(struct bl_runtime *runtime, const struct bl_workspace_options *options,
                     struct bl_store *store, struct bl_error *error);
/* In a fiber. Error kind usage: the request is invalid (BL_EACCES: a wider mode). */
int bl_runtime_open(struct bl_runtime *runtime, const struct bl_workspace_request *request,
                    struct bl_workspace **ret_workspace, struct bl_error *error);
/* Skips the grace periods of all stops in progress in any of its workspaces. */
void bl_runtime_hurry(struct bl_runtime *runtime);
/* All its workspaces must be closed. */
void bl_runtime_end(struct bl_runtime *runtime);

/* ---- Answers --------------------------------------------------------------------------------- */

/* The result of a run, as `belay run` and the MCP tool return it. */
struct bl_run_answer {
    const char *session_id; /* NULL: stopped before it had one */
    const char *provider;   /* "none": no model yet; likewise the next */
    const char *model;
    struct bl_text prompt;
    uint64_t max_turns;
    bool timed;
    uint64_t timeout_ns;
    struct bl_text *turns; /* results as JSON */
    size_t turn_count;
    struct bl_text output;      /* of the last turn; empty if none */
    struct bl_run_result run;   /* its list of turns must not be used */
    struct bl_list undelivered; /* struct bl_undelivered */
};

extern const struct bl_record bl_run_answer_record;

/* The caller fills prompt, turns and time. `model` may be NULL. The result outlives the answer. */
void bl_run_answer_init(struct bl_run_answer *answer, struct bl_arena *arena,
                        const struct bl_agent_result *result, const struct bl_model *model);

/* ---- Runs on request ------------------------------------------------------------------------- */

/* What a client may ask of a run: the input of the MCP tool `run`, and a part of the items of a
 * queue. */
struct bl_run_request {
    struct bl_text prompt;
    const char *session; /* NULL: a new one */
    const char *model;   /* NULL: the runtime's */
    bool timed;
    uint64_t timeout_ns;   /* as int64_t; zero or less: already expired */
    uint64_t max_turns;    /* 0: the workspace's */
    uint64_t max_steps;    /* BL_UNLIMITED: no limit */
    double max_budget_usd; /* negative: no limit */
    bool mode_chosen;
    enum bl_permission_mode mode;
    const char *request_id; /* NULL: none */
};

extern const struct bl_record bl_run_request_record;

/* A request, and how its run is started. */
struct bl_run_order {
    struct bl_run_request request;
    const char *directory; /* absolute */
    const char *run_id;
    uint64_t from_ns;                 /* start of the time that it may take */
    struct bl_activities *activities; /* NULL: not listed */
    const char *const *variables;     /* for commands and MCP servers; NULL if none */
};

/* In a fiber: runs an agent in a workspace of its own, in `scope`, which the caller may stop. Call it
 * outside of that scope: after a stop, the result is still to be made. Returns 0 with the answer,
 * which is in the arena, also if the run did not complete; its session_id is NULL if the run was
 * stopped before it had a session, and is not in the store. Other codes: it could not start, and
 * `error` has the reason. */
int bl_runtime_run(struct bl_runtime *runtime, const struct bl_run_order *order,
                   struct bl_scope *scope, struct bl_arena *arena, struct bl_run_answer *ret_answer,
                   struct bl_error *error);

BL_PUBLIC_END

#endif
