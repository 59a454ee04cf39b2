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

enum run_option {
    RUN_OPTION_PROVIDER = 512,
    RUN_OPTION_MODEL,
    RUN_OPTION_SESSION,
    RUN_OPTION_MAX_TURNS,
    RUN_OPTION_MAX_SESSION_TURNS,
    RUN_OPTION_MAX_STEPS,
    RUN_OPTION_ON_EXHAUSTED,
    RUN_OPTION_MAX_BUDGET_TOKENS,
    RUN_OPTION_TIMEOUT,
    RUN_OPTION_CONTINUATION_PROMPT,
    RUN_OPTION_STRUCTURED_OUTPUT,
    RUN_OPTION_PERMISSION_MODE,
    RUN_OPTION_YOLO,
    RUN_OPTION_ALLOW,
    RUN_OPTION_DENY,
    RUN_OPTION_ON_CANCEL,
    RUN_OPTION_REQUEST_ID,
    RUN_OPTION_STORE,
    RUN_OPTION_SYSTEM,
    RUN_OPTION_APPEND_SYSTEM_PROMPT,
    RUN_OPTION_SANDBOX,
    RUN_OPTION_CONTAINER,
    RUN_OPTION_MAX_BUDGET_USD,
    RUN_OPTION_RECORD,
    RUN_OPTION_CASSETTE,
    RUN_OPTION_ADD_DIR,
    RUN_OPTION_MCP_CONFIG,
    RUN_OPTION_TRUST_MCP,
    RUN_OPTION_GRACE,
    RUN_OPTION_OWN = 1024, /* from here on a command's own */
    RUN_OPTION_CONTINUE = 'c',
    RUN_OPTION_RESUME = 'r',
};

#define RUN_SHORT_OPTIONS "cr:h"
/* What ends the helps: environment and files; and with --help and exit codes that of runs. */
#define RUN_ENVIRONMENT_HELP                                                                       \
    "Environment:\n"                                                                               \
    "  BELAY_PROVIDER  the provider, where --provider is not given\n"                              \
    "  BELAY_MODEL     its model, where --model is not given\n"                                    \
    "  BELAY_STORE     the store, where --store is not given; without either it is\n"              \
    "                  $XDG_DATA_HOME/belay/sessions.db\n"                                         \
    "  ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL, ANTHROPIC_MODEL,\n"            \
    "  OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_ORG_ID, OLLAMA_HOST\n"                              \
    "                  keys, addresses and models of the built-in providers\n"                     \
    "\n"                                                                                           \
    "Files:\n"                                                                                     \
    "  $XDG_CONFIG_HOME/belay/config.yaml  providers, models, permissions, hooks\n"                \
    "  $XDG_CONFIG_HOME/belay/prices.yaml  what models cost\n"                                     \
    "  $XDG_CONFIG_HOME/belay/agents, skills, AGENTS.md\n"                                         \
    "                                      personas, skills, instructions of the user\n"           \
    "  .belay/config.yaml                  of a project: its model, what it denies\n"              \
    "  .belay/agents, .belay/skills, .agents/skills, AGENTS.md\n"                                  \
    "                                      the same, of a project\n"                               \
    "  $XDG_CONFIG_HOME/belay/mcp.json     MCP servers that offer tools\n"                         \
    "  .mcp.json                           the same, of a project: each starts once\n"             \
    "                                      the user has agreed to it\n"                            \
    "\n"

#define RUN_ENDING_HELP                                                                            \
    "  -h, --help                  print this help\n"                                              \
    "\n"                                                                                           \
    "Exit codes:\n"                                                                                \
    "  0    completed\n"                                                                           \
    "  1    error: the model, the store or belay itself failed\n"                                  \
    "  2    usage error\n"                                                                         \
    "  3    max_turns_reached, max_budget_reached or max_steps_reached\n"                          \
    "  124  timeout: the deadline was reached\n"                                                   \
    "  130  cancelled, or whoever read standard output is gone\n"                                  \
    "  143  cancelled by SIGTERM\n"                                                                \
    "\n" RUN_ENVIRONMENT_HELP

/* The rows that say what work is done with, wherever; those of what has one session; those of runs
 * alone. */
#define RUN_MEANS_OPTIONS                                                                          \
    {"provider", required_argument, NULL, RUN_OPTION_PROVIDER},                                    \
        {"model", required_argument, NULL, RUN_OPTION_MODEL},                                      \
        {"max-session-turns", required_argument, NULL, RUN_OPTION_MAX_SESSION_TURNS},              \
        {"max-steps", required_argument, NULL, RUN_OPTION_MAX_STEPS},                              \
        {"on-exhausted", required_argument, NULL, RUN_OPTION_ON_EXHAUSTED},                        \
        {"max-budget-tokens", required_argument, NULL, RUN_OPTION_MAX_BUDGET_TOKENS},              \
        {"max-budget-usd", required_argument, NULL, RUN_OPTION_MAX_BUDGET_USD},                    \
        {"cassette", required_argument, NULL, RUN_OPTION_CASSETTE},                                \
        {"timeout", required_argument, NULL, RUN_OPTION_TIMEOUT},                                  \
        {"grace", required_argument, NULL, RUN_OPTION_GRACE},                                      \
        {"permission-mode", required_argument, NULL, RUN_OPTION_PERMISSION_MODE},                  \
        {"yolo", no_argument, NULL, RUN_OPTION_YOLO},                                              \
        {"allow", required_argument, NULL, RUN_OPTION_ALLOW},                                      \
        {"deny", required_argument, NULL, RUN_OPTION_DENY},                                        \
        {"store", required_argument, NULL, RUN_OPTION_STORE},                                      \
        {"system", required_argument, NULL, RUN_OPTION_SYSTEM},                                    \
        {"append-system-prompt", required_argument, NULL, RUN_OPTION_APPEND_SYSTEM_PROMPT},        \
        {"add-dir", required_argument, NULL, RUN_OPTION_ADD_DIR},                                  \
        {"mcp-config", required_argument, NULL, RUN_OPTION_MCP_CONFIG},                            \
        {"trust-mcp", no_argument, NULL, RUN_OPTION_TRUST_MCP},                                    \
        {"sandbox", required_argument, NULL, RUN_OPTION_SANDBOX},                                  \
        {"container", required_argument, NULL, RUN_OPTION_CONTAINER},                              \
    {                                                                                              \
        "help", no_argument, NULL, CLI_OPTION_HELP                                                 \
    }

#define RUN_COMMON_OPTIONS                                                                         \
    RUN_MEANS_OPTIONS, {"session", required_argument, NULL, RUN_OPTION_SESSION},                   \
        {"continue", no_argument, NULL, RUN_OPTION_CONTINUE},                                      \
        {"resume", required_argument, NULL, RUN_OPTION_RESUME},                                    \
        {"record", required_argument, NULL, RUN_OPTION_RECORD},                                    \
    {                                                                                              \
        "on-cancel", required_argument, NULL, RUN_OPTION_ON_CANCEL                                 \
    }

#define RUN_SHARED_OPTIONS                                                                         \
    RUN_COMMON_OPTIONS,                                                                            \
        {"structured-output", required_argument, NULL, RUN_OPTION_STRUCTURED_OUTPUT},              \
        {"request-id", required_argument, NULL, RUN_OPTION_REQUEST_ID},                            \
        {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},                      \
    {                                                                                              \
        "json", no_argument, NULL, CLI_OPTION_JSON                                                 \
    }

/* What their helps say about them. */
#define RUN_LIMITS_HELP                                                                            \
    "      --max-session-turns N   refuse to go on when the session holds N turns\n"               \
    "      --max-steps N           at most N tool calls a turn\n"                                  \
    "      --on-exhausted WHAT     at --max-steps: stop (the default; the turn ends\n"             \
    "                              as max_steps_reached), or synthesize (one more\n"               \
    "                              call, without tools, writes up what there is)\n"                \
    "      --max-budget-tokens N   of the whole session, this turn included\n"

#define RUN_MODEL_HELP                                                                             \
    "      --provider NAME         who answers: anthropic, openai, openai-responses,\n"            \
    "                              ollama, one that is configured, script:FILE, or\n"              \
    "                              replay with --cassette; where nothing is chosen or\n"           \
    "                              configured, the built-in script model\n"                        \
    "      --model NAME            of that provider; alone: PROVIDER/MODEL, or one\n"              \
    "                              that is configured\n"                                           \
    "      --session ID            the session of that id, made if there is none\n"                \
    "  -c, --continue              the newest session of this directory\n"                         \
    "  -r, --resume ID             that session, which must exist\n" RUN_LIMITS_HELP               \
    "      --max-budget-usd N      of this run: what could cost more is not sent; for\n"           \
    "                              models whose price is known\n"                                  \
    "      --record FILE           write down what goes over the wire, without keys\n"             \
    "      --cassette FILE         with --provider replay: answer from such a file\n"

/* Where nobody has chosen and nothing is configured, there is no model: others must know. */
#define RUN_SERVING_HELP                                                                           \
    "      --provider NAME         who answers: anthropic, openai, openai-responses,\n"            \
    "                              ollama, one that is configured, script,\n"                      \
    "                              script:FILE, or replay with --cassette\n"                       \
    "      --model NAME            of that provider; alone: PROVIDER/MODEL, or one\n"              \
    "                              that is configured\n" RUN_LIMITS_HELP

#define RUN_RULES_HELP                                                                             \
    "      --yolo                  the same as --permission-mode yolo\n"                           \
    "      --allow RULE            let a tool run: 'bash', 'bash(git *)',\n"                       \
    "                              'write(src/**)'; repeatable\n"                                  \
    "      --deny RULE             never let it run; wins over --allow; repeatable\n"

#define RUN_MCP_HELP                                                                               \
    "      --mcp-config FILE       MCP servers whose tools are offered as well, as in\n"           \
    "                              .mcp.json; repeatable\n"                                        \
    "      --trust-mcp             start the servers that the project's .mcp.json\n"               \
    "                              names, though nobody has agreed to them\n"

#define RUN_PLACE_HELP                                                                             \
    "      --store FILE            where sessions are kept\n"                                      \
    "      --system FILE           instructions for the model in the place of ours,\n"             \
    "                              before all others\n"                                            \
    "      --append-system-prompt TEXT\n"                                                          \
    "                              instructions for the model, after all others\n"                 \
    "      --add-dir DIR           a further folder that tools may write to;\n"                    \
    "                              repeatable\n" RUN_MCP_HELP                                      \
    "      --sandbox NAME          off, workspace, read-only; without it: workspace\n"             \
    "                              in mode auto where it works, else off\n"                        \
    "      --container NAME        what holds the processes of tools: auto, pidns,\n"              \
    "                              cgroup2, subreaper\n"                                           \
    "      --grace DURATION        what a stopped tool has to clean up before it is\n"             \
    "                              killed (200ms): up to 60s; 0: killed at once\n"

#define RUN_SHARED_HELP                                                                            \
    RUN_MODEL_HELP                                                                                 \
    "      --timeout DURATION      one deadline over everything: 90, 90s, 500ms,\n"                \
    "                              2.5m, 1h; 0 and less: reached at once\n"                        \
    "      --structured-output FILE\n"                                                             \
    "                              the answer must be JSON that fits this JSON Schema\n"           \
    "      --permission-mode MODE  auto (the default: what stays in the workspace or\n"            \
    "                              in the sandbox runs, the rest by a rule), ask,\n"               \
    "                              read-only, yolo\n" RUN_RULES_HELP                               \
    "      --on-cancel WHAT        of a turn that is stopped: discard (the default),\n"            \
    "                              or keep what had come of it, marked as interrupted\n"           \
    "      --request-id ID         names this run: given again, what is recorded of\n"             \
    "                              it is answered, and only what is missing is "                   \
    "run\n" RUN_PLACE_HELP

/* A rule of --allow or --deny, in the order of the command line. */
struct run_rule {
    bool allow;
    const char *text;
};

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
    struct run_rule *rules;
    size_t rule_count;
    const char *request_id;
    const char *store;
    const char *system_path;
    const char *system_more;
    bool sandbox_chosen;
    enum bl_sandbox sandbox;
    enum bl_mechanism container;
    const char *directory; /* where we are: absolute */
};

/* Reads a command line with the command's own table. 0; CLI_OPTION_HELP: help was asked for; else
 * what is wrong with it. `streams`: it knows stream-json. */
int run_options_parse(struct cli_call *call, bool streams, struct run_options *options,
                      struct bl_error *error);
/* The same for a conversation: what nobody has allowed is asked, what is stopped is kept, and a
 * prompt is only the first one. */
int run_options_parse_chat(struct cli_call *call, struct run_options *options,
                           struct bl_error *error);
/* The same for one that serves others: `take` has its operands, and options from RUN_OPTION_OWN on.
 * `asks`: they have somebody who can be asked, as in a conversation. */
int run_options_parse_serving(struct cli_call *call, bool asks, cli_take *take_own, void *context,
                              struct run_options *options, struct bl_error *error);
/* The command line's rules, in its mode; the caller's. They were tried when it was read. */
struct bl_permissions *run_options_permissions(const struct run_options *options);
void run_options_done(struct run_options *options);

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
