/* The parts of `belay run` and `belay bootstrap`: their command line (run_options.c), what they
 * read before they begin (run_prepare.c), what they work with (run_means.c, run_model.c), the run
 * itself (run_work.c), and what they say about it (run_output.c; bootstrap.c and bootstrap_report.c
 * for the latter). */
#ifndef BELAY_CLI_RUN_H
#define BELAY_CLI_RUN_H

#include <belay/agent.h>
#include <belay/model.h>

#include "cli/cli.h"
#include "cli/signals.h"
#include "stream.h"

/* ---- The command line ------------------------------------------------------------------------ */

/* What the command line and the environment ask for. Texts are theirs. */
struct run_options {
    struct bl_arena arena;
    const char *prompt; /* NULL: standard input */
    bool converses;     /* prompts come later */
    const char *provider;
    const char *model;
    bool budgeted;
    double max_budget_usd;
    const char *record_path;
    const char *cassette_path;
    const char *session;
    bool newest;
    const char *resume;
    uint64_t max_turns;
    struct bl_turn_limits limits;
    bool timed;
    int64_t timeout_ns;
    bool graced; /* else tools have the usual grace */
    uint32_t grace_ms;
    const char *continuation; /* NULL: none */
    const char *schema_path;
    bool mode_chosen; /* else the configuration may say it */
    enum bl_permission_mode mode;
    const char **folders; /* of --add-dir, absolute; end in NULL */
    size_t folder_count;
    const char **mcp_files; /* of --mcp-config; end in NULL */
    size_t mcp_file_count;
    bool trust_mcp;
    const char **allow; /* rules; end in NULL; NULL: none */
    size_t allow_count;
    const char **deny; /* the same */
    size_t deny_count;
    const char *request_id;
    const char *store;
    const char *system_path;
    const char *system_more;
    bool sandbox_chosen;
    enum bl_sandbox sandbox;
    enum bl_mechanism container;
    const char *directory; /* where we are: absolute */
};

/* What commands that serve others have besides: what they share comes first. */
struct acp_options {
    struct run_options run;
    bool minimal;
};

struct mcp_options {
    struct run_options run;
    bool http;
    uint32_t http_port; /* --http=PORT, and --http PORT; RUN_PORT_NONE: not given */
    uint32_t port;
    const char *token_file; /* NULL: the usual one */
    const char **origins;   /* end in NULL; NULL: none */
    size_t origin_count;
    const char *address; /* NULL: the usual one */
};

#define RUN_PORT_NONE UINT32_MAX
_Static_assert(offsetof(struct acp_options, run) == 0 && offsetof(struct mcp_options, run) == 0,
               "the tables of options that they share have offsets in struct run_options");

/* Reads a command line by the command's table. 0; CLI_OPTION_HELP: help was asked for; else what is
 * wrong with it. */
int run_options_parse(struct cli_call *call, struct run_options *options, struct bl_error *error);
/* The same for a conversation: what nobody has allowed is asked, what is stopped is kept, and a
 * prompt is only the first one. */
int run_options_parse_chat(struct cli_call *call, struct run_options *options,
                           struct bl_error *error);
/* The same for one that serves others; `options` is the first member of its own struct, which is
 * zeroed. `asks`: they have somebody who can be asked, as in a conversation. */
int run_options_parse_serving(struct cli_call *call, bool asks, struct run_options *options,
                              struct bl_error *error);
/* The command line's rules, in its mode; the caller's. They were tried when it was read. */
struct bl_permissions *run_options_permissions(const struct run_options *options);
void run_options_done(struct run_options *options);
/* Parses the command line of `run` or `bootstrap`, and runs it. Returns the exit code. */
int run_command(struct cli_call *call,
                int (*run)(struct cli_call *call, const struct run_options *options));

/* ---- What is read before the run ------------------------------------------------------------- */

#define RUN_PROMPT_MAX ((size_t)64 * 1024 * 1024)

/* Everything that comes from files, read on a thread of its own, because files may block: a FIFO,
 * a dead disk, a standard input that nobody closes. Owns all it holds. */
struct run_preparation {
    struct bl_arena arena;
    const char *prompt_argument; /* what is to be read: from the options */
    bool converses;
    const char *provider;
    const char *model;
    bool budgeted;
    bool recorded;
    const char *cassette_path;
    const char *schema_path;
    const char *system_path;
    const char *system_more;
    const char *directory;
    const char *const *mcp_files;
    bool trust_mcp;
    struct bl_text prompt; /* what came of it */
    struct bl_config *config;
    struct bl_config_found found;
    struct bl_script *script;     /* NULL: another model answers */
    struct bl_cassette *cassette; /* to answer from; NULL: none */
    struct bl_text system;
    struct bl_text schema_text;
    struct bl_json_schema *schema;
    struct bl_list instructions; /* struct bl_instruction */
    struct bl_list personas;     /* struct bl_persona */
    struct bl_list skills;       /* struct bl_skill */
    struct bl_list notices;      /* struct bl_notice: what was found and cannot be used */
    struct bl_settings settings;
    const char *const *skill_folders; /* end in NULL */
    struct bl_list servers;           /* struct bl_mcp_entry */
    /* Of them, those of the project that nobody has agreed to; end in NULL. */
    const struct bl_mcp_entry *const *untrusted;
    int code;
    struct bl_error error;
};

struct run_preparation *run_preparation_new(const struct run_options *options);
void run_preparation_free(void *preparation); /* NULL is fine */
/* Blocks. */
void run_preparation_read(void *preparation);
/* Valid UTF-8, no NUL, not empty; else a usage error that says where. */
int run_prompt_check(struct bl_text prompt, struct bl_error *error);

/* ---- What work is done with ------------------------------------------------------------------ */

/* In one folder: what its files say, rules, tools, a model. Embedded by its owner. */
struct run_means {
    const struct run_options *options;
    struct bl_arena arena;
    struct run_preparation *preparation; /* NULL: it was stopped while it read */
    struct bl_permissions *permissions;
    struct bl_toolbox *toolbox;
    struct bl_ledger ledger;
    struct bl_cassette *recorder;
    struct bl_error record_error; /* code 0: what was to be recorded is */
    struct bl_models models;
    struct bl_model model;
    struct bl_model_source source;
    struct bl_text *warnings; /* for the events */
    size_t warning_count;
};

/* The options outlive it. */
void run_means_init(struct run_means *means, const struct run_options *options);
/* In a fiber: reads what comes from files. Stopped: whoever still reads is left to it. */
int run_means_prepare(struct run_means *means, struct bl_error *error);
/* In a fiber, when all is read: applies the settings, and opens the toolbox. */
int run_means_equip(struct run_means *means, struct bl_error *error);
/* Adds one for the events. */
void run_means_warn(struct run_means *means, struct bl_text text);
/* What an agent is made of that works with it: all but store, session, listener, asker and
 * activities. */
struct bl_agent_options run_means_agent(struct run_means *means);
/* In no fiber any more, or in one: run_model_close comes before it. Also on one that is half made.
 */
void run_means_done(struct run_means *means);

/* ---- The model ------------------------------------------------------------------------------- */

/* Who answers, and all of it that is in files. Blocks. */
int run_model_read(struct run_preparation *preparation);
/* In a fiber of the work's scope, which an overrun of the budget stops, when all is read: fetches
 * the key, and makes the model. */
int run_model_open(struct run_means *means, struct bl_scope *scope, struct bl_error *error);
/* In a fiber: ends what run_model_open made, and what is recorded. */
void run_model_close(struct run_means *means);

/* ---- The run --------------------------------------------------------------------------------- */

struct run_work;

/* What a command does around the run. */
struct run_face {
    const char *name;
    /* In a fiber in the run's scope, when all is read and before the session is opened; NULL:
     * nothing. */
    void (*before)(struct run_work *work);
    const struct bl_listener *(*listener)(struct run_work *work); /* NULL: nobody listens */
    /* Writes the answer to the stream, having set the exit code. */
    void (*report)(struct run_work *work);
    /* In text, when the answer is out: what there is to say on standard error. */
    void (*remark)(struct run_work *work);
};

struct run_work {
    const struct cli_call *call;
    const struct run_options *options;
    const struct run_face *face;
    struct bl_arena arena;
    uint64_t started_ns;
    char run_id[BL_ID_SIZE];
    struct bl_scope scope;       /* of the run: claimed when it has ended */
    struct bl_scope patience;    /* with the reader: ends with a stop and at the deadline */
    struct bl_stop_hook stopped; /* on the run's scope */
    struct cli_signals signals;
    struct cli_stream stream;
    struct run_means means;
    struct bl_script *fallback;      /* plays the model of a run that never began */
    struct bl_script_player *player; /* of that */
    struct bl_activities activities;
    struct bl_store *store;
    struct bl_listener listening;
    struct bl_agent_result result;
    struct bl_error error; /* code 0: the result is it; else the run could not begin */
    int exit_code;
    void *context; /* the face's */
};

/* ---- Its parts, for other faces ---- */

/* In a fiber of the run's scope: reads what comes from files, opens the toolbox and the model. */
int run_begin(struct run_work *work);
/* A model that is never called, for a run that was stopped before it had one: it has the name of
 * the one that was chosen, if that is known. */
void run_model_pretend(struct run_work *work);
/* What an agent of this run is made of. */
struct bl_agent_options run_agent_options(struct run_work *work);
/* What is in force; off, as long as nothing is known. */
enum bl_sandbox run_sandbox(const struct run_work *work);
/* What the model is offered. */
struct bl_tools run_tools(const struct run_work *work);
/* What run_begin made that outlives the loop. */
void run_release(struct run_work *work);

/* Does all of it on a loop of its own, and returns the exit code of the process. */
int run_work_do(struct cli_call *call, const struct run_options *options,
                const struct run_face *face, void *context);
/* Members of an envelope: the session's id (null: none was opened), provider, model. */
void run_write_session(struct bl_json_writer *writer, const struct run_work *work);
void run_write_model(struct bl_json_writer *writer, const struct run_work *work);
void run_write_timeout(struct bl_json_writer *writer, const struct run_options *options);
struct bl_text run_prompt(const struct run_work *work); /* empty: was not read */
/* [{"kind","name","score"}, …] of bl_route. */
void run_write_matches(struct bl_json_writer *writer, const struct bl_list *matches);

/* ---- What is said ---------------------------------------------------------------------------- */

extern const struct run_face run_face;

/* The envelope as the last line on the stream. */
void run_write_envelope(struct run_work *work, cli_payload *payload, const void *context);
/* Of the process, by what came of the run. */
int run_exit_code(const struct run_work *work);
/* For people, on standard error: why it did not complete, the receipt, who died before. */
void run_remark_end(struct run_work *work);

#endif
