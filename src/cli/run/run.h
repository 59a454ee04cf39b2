/* The parts of `belay run` and `belay bootstrap`: their command line (options.c), the prompt
 * (prompt.c), the run itself (work.c), and what they say about it (output.c; doctor/bootstrap.c and
 * bootstrap_report.c for the latter). */
#ifndef BELAY_CLI_RUN_H
#define BELAY_CLI_RUN_H

#include <belay/runtime.h>

#include "cli/cli.h"
#include "cli/signals.h"
#include "stream.h"

/* ---- The command line ------------------------------------------------------------------------ */

/* What the command line and the environment ask for. Texts are theirs. */
struct run_options {
    struct bl_arena arena;
    struct bl_workspace_options workspace;
    size_t folder_count; /* of its lists */
    size_t mcp_file_count;
    size_t allow_count;
    size_t deny_count;
    const char *prompt; /* NULL: standard input */
    bool converses;     /* prompts come later */
    const char *session;
    bool newest;
    const char *resume;
    const char *continuation; /* NULL: none */
    const char *request_id;
    const char *store;
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
void run_options_done(struct run_options *options);
/* Parses the command line of `run` or `bootstrap`, and runs it. Returns the exit code. */
int run_command(struct cli_call *call,
                int (*run)(struct cli_call *call, const struct run_options *options));

/* ---- The prompt ------------------------------------------------------------------------------ */

/* Valid UTF-8, no NUL, not empty; else a usage error that says where. */
int run_prompt_check(struct bl_text prompt, struct bl_error *error);
/* In a fiber: that of the command line, or all of standard input, which is read on a thread. In the
 * arena. */
int run_prompt_read(const struct run_options *options, struct bl_arena *arena,
                    struct bl_text *ret_prompt, struct bl_error *error);

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
    struct bl_workspace *workspace;
    struct bl_text prompt;           /* empty: not read yet */
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

/* Call, options and face are set. */
void run_work_init(struct run_work *work);
/* In a fiber of the run's scope: opens the workspace, and reads the prompt. */
int run_begin(struct run_work *work);
/* What an agent of this run is made of. */
struct bl_agent_options run_agent_options(struct run_work *work);
/* What is in force; off, as long as nothing is known. */
enum bl_sandbox run_sandbox(const struct run_work *work);
/* What the model is offered. */
struct bl_tools run_tools(const struct run_work *work);
/* What outlives the loop. */
void run_release(struct run_work *work);

/* Does all of it on a loop of its own, and returns the exit code of the process. */
int run_work_do(struct cli_call *call, const struct run_options *options,
                const struct run_face *face, void *context);
extern const struct bl_record run_match_record; /* struct bl_route_match */

/* ---- What is said ---------------------------------------------------------------------------- */

extern const struct run_face run_face;

/* The envelope as the last line on the stream. */
void run_answer_stream(struct run_work *work, const struct bl_record *record, const void *from);
/* Of the process, by what came of the run. */
int run_exit_code(const struct run_work *work);
/* For people, on standard error: why it did not complete, the receipt, who died before. */
void run_remark_end(struct run_work *work);

#endif
