/* The parts of `belay run` and `belay bootstrap`: their command line (options.c), the prompt
 * (prompt.c), the run itself (work.c), and its output (output.c for `run`, doctor/bootstrap.c and
 * bootstrap_report.c for `bootstrap`). */
#ifndef BELAY_CLI_RUN_H
#define BELAY_CLI_RUN_H

#include <belay/runtime.h>

#include "cli/cli.h"
#include "cli/member.h"
#include "cli/signals.h"
#include "stream.h"

/* ---- The command line ------------------------------------------------------------------------ */

/* The command line and the environment, which own the texts. */
struct run_options {
    struct bl_arena arena;
    struct bl_workspace_options workspace;
    size_t folder_count; /* this and the following: sizes of the workspace's lists */
    size_t mcp_file_count;
    size_t allow_count;
    size_t deny_count;
    const char *prompt; /* NULL for standard input */
    bool converses;     /* prompts arrive later */
    bool shared;        /* the store must be a database */
    const char *session;
    bool newest;
    const char *resume;
    bool resumes;             /* --resume is given; in chat without an id, the user chooses one */
    bool fork;                /* continue in a copy of the session */
    const char *continuation; /* NULL if none */
    const char *request_id;
    const char *store;
    bool quiet; /* show no progress */
    /* For chat only. */
    enum bl_theme theme;
    enum bl_notify notify;
    bool theme_chosen, notify_chosen;
};

/* Additional options of commands that serve other programs; the shared options come first. */
struct acp_options {
    struct run_options run;
    bool minimal;
};

enum mcp_verb {
    MCP_SERVE,
    MCP_ADD,
    MCP_LIST,
    MCP_REMOVE,
};

struct mcp_options {
    struct run_options run;
    unsigned verb;
    const char *name;   /* of a server that is added or removed */
    const char **words; /* its command line, or its URL; ends in NULL */
    size_t word_count;
    const char **variables; /* "NAME=VALUE" */
    size_t variable_count;
    const char **headers; /* "Name: value" */
    size_t header_count;
    bool project; /* .mcp.json in place of the user's file */
    bool force;
    bool http;
    uint32_t http_port;     /* from --http=PORT; RUN_PORT_NONE if not given */
    uint32_t port;          /* the operand after --http; RUN_PORT_NONE if not given */
    const char *token_file; /* NULL for the default file */
    const char **origins;   /* end in NULL; NULL if none */
    size_t origin_count;
    const char *address; /* NULL for the default address */
};

#define RUN_PORT_NONE UINT32_MAX
_Static_assert(offsetof(struct acp_options, run) == 0 && offsetof(struct mcp_options, run) == 0,
               "the tables of options that they share have offsets in struct run_options");

/* Reads a command line by the command's table. Returns 0, CLI_OPTION_HELP if help is requested, or
 * an error. */
int run_options_parse(struct cli_call *call, struct run_options *options, struct bl_error *error);
/* The same for a conversation: calls that no rule allows are asked about, the output of stopped
 * turns is kept, and the prompt is only the first one. */
int run_options_parse_chat(struct cli_call *call, struct run_options *options,
                           struct bl_error *error);
/* The same for a command that serves other programs; `options` is the first member of the command's
 * own struct, which is zeroed. With `asks`, clients can answer questions, as in a conversation. */
int run_options_parse_serving(struct cli_call *call, bool asks, struct run_options *options,
                              struct bl_error *error);
/* The same for the queue of a fleet, whose store must be a database: for a worker, or else for a
 * command with a prompt. `options` is as above. */
int run_options_parse_queue(struct cli_call *call, bool serves, struct run_options *options,
                            struct bl_error *error);
void run_options_done(struct run_options *options);
/* Parses the command line of `run` or `bootstrap`, and runs it. Returns the exit code. */
int run_command(struct cli_call *call,
                int (*run)(struct cli_call *call, const struct run_options *options));

/* ---- The prompt ------------------------------------------------------------------------------ */

/* Checks that the prompt is valid UTF-8, has no NUL byte and is not empty; else sets a usage error
 * that names the position. */
int run_prompt_check(struct bl_text prompt, struct bl_error *error);
/* Reads the prompt into the arena, in a fiber: the prompt of the command line, followed by standard
 * input if anything arrives there; or only standard input. Standard input is read on a thread.
 * `*ret_notice` is set if standard input is open but not read. With `reminds`, a long wait is
 * reported on standard error if that is a terminal. */
int run_prompt_read(const struct run_options *options, bool reminds, struct bl_arena *arena,
                    struct bl_text *ret_prompt, const char **ret_notice, struct bl_error *error);

/* ---- The run --------------------------------------------------------------------------------- */

struct run_work;
struct run_progress;

/* The parts of a command around the run. */
struct run_face {
    const char *name;
    bool shows; /* in text, show progress on standard error if that is a terminal */
    /* Called in a fiber in the run's scope, when all input is read and before the session is
     * opened; NULL if not needed. */
    void (*before)(struct run_work *work);
    const struct bl_listener *(*listener)(struct run_work *work); /* NULL for no listener */
    /* Sets the exit code and writes the answer to the stream. */
    void (*report)(struct run_work *work);
    /* In text, writes remarks to standard error when the answer is written. */
    void (*remark)(struct run_work *work);
};

struct run_work {
    const struct cli_call *call;
    const struct run_options *options;
    const struct run_face *face;
    struct bl_arena arena;
    uint64_t started_ns;
    char run_id[BL_ID_SIZE];
    struct bl_scope scope;       /* of the run; claimed when the run has ended */
    struct bl_scope wait_limit;  /* bounds waits for the reader: ends at a stop or the deadline */
    struct bl_stop_hook stopped; /* on the run's scope */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_workspace *workspace;
    struct bl_text prompt;           /* empty until it is read */
    struct bl_attached attached;     /* files that the prompt names */
    struct bl_script *fallback;      /* stands for the model of a run that never started */
    struct bl_script_player *player; /* of `fallback` */
    struct bl_activities activities;
    struct bl_store *store;
    struct bl_fleet_member *member; /* NULL: the store is a file */
    struct bl_listener listening;
    struct bl_agent_result result;
    struct run_progress *progress; /* NULL if no progress is shown */
    struct bl_list refusals;       /* refused tool calls, reported at the end */
    bool bash_refused;             /* a call of bash is among them */
    struct bl_error error;         /* code 0 if there is a result; else the run could not start */
    int exit_code;
    void *context; /* of the face */
};

/* ---- Parts of a run, for other faces ---- */

/* Initializes the rest of the struct: `call`, `options` and `face` must be set. */
void run_work_init(struct run_work *work);
/* Opens the workspace and reads the prompt. Call in a fiber, in the run's scope. */
int run_begin(struct run_work *work);
/* Returns the options for the agent of this run. */
struct bl_agent_options run_agent_options(struct run_work *work);
/* Hints that a session held by another process can be copied. */
void run_hint_held(int code, struct bl_error *error);
/* Returns the sandbox in effect; off while it is not known. */
enum bl_sandbox run_sandbox(const struct run_work *work);
/* Returns the tools that the model is offered. */
struct bl_tools run_tools(const struct run_work *work);
/* Frees what outlives the loop. */
void run_release(struct run_work *work);

/* Performs the whole run on a loop of its own and returns the exit code of the process. */
int run_work_do(struct cli_call *call, const struct run_options *options,
                const struct run_face *face, void *context);
extern const struct bl_record run_match_record; /* struct bl_route_match */

/* ---- Refused calls --------------------------------------------------------------------------- */

/* Returns "bash was refused: …", with the options of the command that would allow the call. */
struct bl_text run_refusal_text(struct bl_arena *arena, const struct cli_command *command,
                                const struct bl_denial *denial);
/* Adds the refusals of a turn. */
void run_refusals_add(struct run_work *work, const struct bl_turn_result *result);
/* Prints the refusals to standard error. */
void run_refusals_say(struct run_work *work);

/* ---- Output ---------------------------------------------------------------------------------- */

extern const struct run_face run_face;

/* Writes the envelope as the last line of the stream. */
void run_answer_stream(struct run_work *work, const struct bl_record *record, const void *from);
/* Returns the exit code of the process for the outcome of the run. */
int run_exit_code(const struct run_work *work);
/* Appends the answers of the completed turns (struct bl_turn_result), each ending in a newline. */
void run_answers_write(struct bl_buffer *out, const struct bl_list *turns);
/* Prints to standard error, for people: the line of the receipt, or why the run did not complete. */
void run_remark_result(const struct cli_call *call, const struct bl_run_result *run,
                       const char *session);
/* Prints to standard error, for people: why the run did not complete, the receipt, and that the
 * last owner of the session had died. */
void run_remark_end(struct run_work *work);

#endif
