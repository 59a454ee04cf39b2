/* cli: the commands of `belay`, what they print, and how they fail.
 *
 * A command is a row of the table in command.c. It reads its own arguments, writes one answer to
 * standard output (text for people, or the JSON envelope) and returns the exit code of the process.
 *
 * Promises: a usage error is one line, with exit code 2; if the command line asks for JSON
 * anywhere, it is an envelope on standard output instead, and standard error stays silent. The exit
 * code in an envelope is the exit code of the process. If standard output is closed or full, the
 * command never reports success. */
#ifndef BELAY_CLI_H
#define BELAY_CLI_H

#include <belay/base.h>
#include <belay/record.h>
#include <belay/turn.h>
#include <belay/version.h>

#include "table/option.h"

/* Raised when a field of an envelope changes its meaning or is removed. */
#define CLI_SCHEMA_VERSION 1

enum cli_format {
    CLI_FORMAT_TEXT,
    CLI_FORMAT_JSON,
    CLI_FORMAT_STREAM_JSON,
};

/* One call of a command; lives as long as cli_main. */
struct cli_call {
    const struct cli_command *command; /* NULL if the name is missing or unknown */
    enum cli_format asked;  /* requested anywhere on the command line; for usage errors */
    enum cli_format format; /* of the answer */
    int count;
    char **arguments; /* [0] is the command's name */
    char **rest;      /* another program's command line, if the command passes one on; else NULL */
};

/* The program: runs the command line and returns the exit code. */
int cli_main(int count, char **arguments);

/* ---- command.c ------------------------------------------------------------------------------- */

/* Returns NULL and sets `*error`, with a suggestion, if there is no such command. */
const struct cli_command *cli_command_find(const char *name, struct bl_error *error);

int cli_acp_run(struct cli_call *call);
int cli_mcp_run(struct cli_call *call);
int cli_doctor_run(struct cli_call *call);
int cli_bootstrap_run(struct cli_call *call);
int cli_cancel_run(struct cli_call *call);
int cli_cell_run(struct cli_call *call);
int cli_chat_run(struct cli_call *call);
int cli_feature_run(struct cli_call *call);
int cli_fleet_run(struct cli_call *call);
int cli_submit_run(struct cli_call *call);
int cli_wait_run(struct cli_call *call);
int cli_worker_run(struct cli_call *call);
int cli_ps_run(struct cli_call *call);
int cli_inject_run(struct cli_call *call);
int cli_route_run(struct cli_call *call);
int cli_run_run(struct cli_call *call);
int cli_script_run(struct cli_call *call);
int cli_session_run(struct cli_call *call);
int cli_tool_run(struct cli_call *call);
int cli_commands_run(struct cli_call *call);
int cli_tools_run(struct cli_call *call);
int cli_debug_run(struct cli_call *call);
int cli_watch_run(struct cli_call *call);
int cli_hold_run(struct cli_call *call);
int cli_init_run(struct cli_call *call);
int cli_config_run(struct cli_call *call);
int cli_login_run(struct cli_call *call);
int cli_logout_run(struct cli_call *call);

/* ---- help.c ---------------------------------------------------------------------------------- */

/* Prints the help of a command, or of the program (NULL). Returns the exit code. */
int cli_help_print(struct cli_call *call, const struct cli_command *command);
/* The same as text, in lines of at most 80 columns. */
void cli_help_write(struct bl_buffer *out, const struct cli_command *command);
int cli_help_run(struct cli_call *call);
/* Prints the version. Returns the exit code. */
int cli_version_print(const struct cli_call *call);
int cli_version_run(struct cli_call *call);

/* Returned by cli_options_read if help is requested. */
#define CLI_OPTION_HELP 1

/* ---- complete.c ------------------------------------------------------------------------------ */

/* `belay __complete`: `arguments` are POSITION and the words of a command line. Returns the exit
 * code. */
int cli_complete_run(int count, char **arguments);

/* ---- option.c -------------------------------------------------------------------------------- */

/* Reads the command line into the command's struct, `into`, as its table describes. Members whose
 * option is not given stay unchanged. Lists are allocated in the arena (NULL if the command has
 * none). Returns 0, CLI_OPTION_HELP if help is requested, or the code of a usage error. */
int cli_options_read(struct cli_call *call, void *into, struct bl_arena *arena,
                     struct bl_error *error);
/* Refuses a value: sets `*error` and returns BL_EINVAL. `name` is "--timeout", or "FILE" for an
 * operand. */
int cli_value_refuse(const char *name, const char *value, const char *expected,
                     struct bl_error *error);
/* Returns a word of the command line for messages: without the password, if it is the address of a
 * database. */
const char *cli_word_shown(struct bl_arena *arena, const char *word);
/* Refuses a surplus operand in the same way. `hint` is NULL for the default hint. */
int cli_operand_refuse(const char *operand, const char *hint, struct bl_error *error);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* Returns the format that a command line asks for, even if the rest of it is wrong: CLI_FORMAT_TEXT
 * unless it has --json or --output-format json|stream-json before a lone "--". */
enum cli_format cli_format_asked(int count, char *const *values);
extern const struct bl_names cli_json_formats; /* of enum cli_format, except text */

/* ---- loop.c ---------------------------------------------------------------------------------- */

/* For commands that start processes: adopts orphans, and keeps tools from inspecting this process.
 */
void cli_processes_begin(void);
/* Runs `main` as a fiber on a loop of its own and returns its result. */
int cli_loop_run(const char *name, int (*main)(void *argument), void *argument,
                 struct bl_error *error);

/* ---- log.c ----------------------------------------------------------------------------------- */

/* Opens the log as BELAY_LOG and BELAY_LOG_FILE say; warns of an invalid value. */
void cli_log_open(void);
/* Logs every decision, unless BELAY_LOG is set. */
void cli_log_verbose(void);
/* True if the log goes to a terminal on standard error. */
bool cli_log_on_terminal(void);
/* Call before drawing on the terminal: redirects a log that would go there to a file. Returns true
 * and writes the path to `out` if the log was redirected. */
bool cli_log_aside(char *out, size_t out_size);
struct bl_nursery;
/* From now on, SIGUSR1 writes the description of all fibers to the log's destination. */
void cli_describe_on_signal(struct bl_nursery *nursery);

/* ---- envelope.c ------------------------------------------------------------------------------ */

/* The members that every envelope has; the second also has the error that may replace an answer. */
extern const struct bl_record cli_head_record, cli_envelope_record;
/* Only the member "error", from a struct bl_error. */
extern const struct bl_record cli_failure_record;

/* The answer to one command line. docs/schemas/NAME.json is generated from it; NAME is the record's
 * name. */
struct cli_answer {
    struct bl_record record;           /* the members besides those of every envelope */
    const char *of;                    /* the command line: "session list" */
    const struct bl_numbers *exits;    /* exit codes; NULL means 0 only, an empty list means any */
    const struct bl_record *failure;   /* the answer on failure; NULL for cli_failure_record */
    const struct bl_numbers *failures; /* exit codes on failure; NULL for 1 and 2 */
    enum {
        CLI_ANSWER_JSON,
        CLI_ANSWER_STREAM,
        CLI_ANSWER_ANY,
    } format;
};

extern const struct bl_numbers cli_exits_failing; /* 0 and 1 */
extern const struct bl_numbers cli_exits_any;
extern const struct bl_numbers cli_exits_running; /* of a run that started and may be stopped */

/* Writes one line: the members of every envelope, then those of the record. BL_ELIMIT if the line
 * does not fit. */
int cli_answer_write(struct bl_buffer *out, const struct cli_call *call, int exit_code,
                     const struct bl_record *record, const void *from);
/* Prints the envelope with the members of the record. Returns the exit code of the process:
 * `exit_code`, or another one if the line cannot be written. */
int cli_answer_print(const struct cli_call *call, int exit_code, const struct bl_record *record,
                     const void *from);

/* Writes a line as cli_answer_write does, for a run's output, of any size. If the answer cannot be
 * written, an error is written instead and `*exit_code` changes. The buffer is initialised here. */
void cli_answer_write_long(struct bl_buffer *out, const struct cli_call *call, int *exit_code,
                           const struct bl_record *record, const void *from);
/* The same into a stream. */
struct cli_stream;
void cli_answer_stream(struct cli_stream *stream, const struct cli_call *call, int *exit_code,
                       const struct bl_record *record, const void *from);

/* Reports an error in the format of the answer and returns the exit code. */
int cli_fail(const struct cli_call *call, const struct bl_error *error, int exit_code);
/* The same for a usage error: in the format requested anywhere on the command line, with exit code
 * 2. */
int cli_fail_usage(struct cli_call *call, const struct bl_error *error);
/* Returns the exit code of the error's kind (cli_error_kinds). */
int cli_error_exit_code(const struct bl_error *error);
/* Reports any error that occurs before the whole command line is read. */
int cli_fail_early(struct cli_call *call, const struct bl_error *error);

/* ---- receipt.c ------------------------------------------------------------------------------- */

/* bl_receipt_row_line for a receipt from any source. */
void cli_receipt_line(const struct bl_json *receipt, struct bl_buffer *out);

/* ---- output.c -------------------------------------------------------------------------------- */

/* Call at the start of the program: a file opened later never becomes standard output, and writing
 * to a closed pipe is an error, not a signal. */
void cli_streams_prepare(void);
/* Writes all of the text to standard output. Returns `exit_code`, or the exit code for a failed
 * write. On a terminal, control sequences are shown escaped. */
int cli_print(const struct cli_call *call, struct bl_text text, int exit_code);
/* The same without escaping: for JSON, and for text with our own colours whose foreign parts are
 * already escaped. */
int cli_print_raw(const struct cli_call *call, struct bl_text text, int exit_code);
/* Writes "belay doctor: message" to standard error and, if the error has a hint, a line "hint: …".
 * Control characters are escaped. */
void cli_complain(const struct cli_call *call, const struct bl_error *error);
/* Writes to standard error; control sequences are shown escaped, on a terminal or not. */
void cli_remark(struct bl_text text);
/* Returns "1 token in, 20 out". */
#define CLI_USAGE_SIZE 64
const char *cli_usage_text(const struct bl_usage *usage, char out[CLI_USAGE_SIZE]);
/* True if the descriptor is a terminal and the environment allows colours. */
bool cli_colour_wanted(int fd);

#endif
