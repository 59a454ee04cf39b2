/* cli: the commands of `belay`, what they print, and how they fail.
 *
 * A command is a row of the table in command.c. It walks its own arguments, writes one answer to
 * standard output (text for people, or the JSON envelope) and returns the exit code of the process.
 *
 * Promises: usage errors are one line and exit code 2; where the command line asks for JSON
 * anywhere they are an envelope on standard output, and standard error stays silent; the exit code
 * inside an envelope is the process's own; a standard output that is closed or full is never taken
 * for success. */
#ifndef BELAY_CLI_H
#define BELAY_CLI_H

#include <belay/base.h>
#include <belay/record.h>
#include <belay/version.h>

#include "table/option.h"

/* Raised when a field of an envelope changes its meaning or goes. */
#define CLI_SCHEMA_VERSION 1

enum cli_format {
    CLI_FORMAT_TEXT,
    CLI_FORMAT_JSON,
    CLI_FORMAT_STREAM_JSON,
};

/* One call of a command: lives as long as cli_main. */
struct cli_call {
    const struct cli_command *command; /* NULL: none was named, or an unknown one */
    enum cli_format asked;             /* by the command line, anywhere: for usage errors */
    enum cli_format format;            /* of the answer */
    int count;
    char **arguments; /* [0] is the command's name */
    char **rest;      /* of a command that passes them on: those of another program; else NULL */
};

/* The program: runs what the command line says, and returns the exit code. */
int cli_main(int count, char **arguments);

/* ---- command.c ------------------------------------------------------------------------------- */

/* NULL: no such command, and `*error` says so, with a suggestion. */
const struct cli_command *cli_command_find(const char *name, struct bl_error *error);

int cli_acp_run(struct cli_call *call);
int cli_mcp_run(struct cli_call *call);
int cli_doctor_run(struct cli_call *call);
int cli_bootstrap_run(struct cli_call *call);
int cli_cancel_run(struct cli_call *call);
int cli_cell_run(struct cli_call *call);
int cli_chat_run(struct cli_call *call);
int cli_feature_run(struct cli_call *call);
int cli_ps_run(struct cli_call *call);
int cli_route_run(struct cli_call *call);
int cli_run_run(struct cli_call *call);
int cli_script_run(struct cli_call *call);
int cli_session_run(struct cli_call *call);
int cli_tool_run(struct cli_call *call);
int cli_tools_run(struct cli_call *call);
int cli_debug_run(struct cli_call *call);
int cli_watch_run(struct cli_call *call);
int cli_hold_run(struct cli_call *call);

/* ---- help.c ---------------------------------------------------------------------------------- */

/* Prints the help of a command, or of the program (NULL). Returns the exit code. */
int cli_help_print(struct cli_call *call, const struct cli_command *command);
/* The same as text, in lines of at most 80 columns. */
void cli_help_write(struct bl_buffer *out, const struct cli_command *command);
int cli_help_run(struct cli_call *call);

/* What cli_options_read returns where help is asked for. */
#define CLI_OPTION_HELP 1

/* ---- complete.c ------------------------------------------------------------------------------ */

/* `belay __complete`: `arguments` are POSITION and the words of a command line. Returns the exit
 * code. */
int cli_complete_run(int count, char **arguments);

/* ---- option.c -------------------------------------------------------------------------------- */

/* Reads the command line by the command's table into its struct, `into`: what is not given stays as
 * it is. Lists are made in the arena (NULL: the command has none). 0; CLI_OPTION_HELP: help is
 * asked for; else what is wrong, a usage error. */
int cli_options_read(struct cli_call *call, void *into, struct bl_arena *arena,
                     struct bl_error *error);
/* A value that cannot be used: sets `*error`, returns BL_EINVAL. `name` is "--timeout", or "FILE"
 * of an operand. */
int cli_value_refuse(const char *name, const char *value, const char *expected,
                     struct bl_error *error);
/* An operand that nobody asked for: the same. `hint` NULL: the usual one. */
int cli_operand_refuse(const char *operand, const char *hint, struct bl_error *error);

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* The format that a command line asks for, whatever else it says: CLI_FORMAT_TEXT unless --json or
 * --output-format json|stream-json stands before a lone "--". */
enum cli_format cli_format_asked(int count, char *const *values);
extern const struct bl_names cli_json_formats; /* of enum cli_format, all but text */

/* ---- loop.c ---------------------------------------------------------------------------------- */

/* For commands that start processes: orphans come to us, and a tool cannot look into us. */
void cli_processes_begin(void);
/* Runs `main` as a fiber on a loop of its own, and returns what it returned. */
int cli_loop_run(const char *name, int (*main)(void *argument), void *argument,
                 struct bl_error *error);

/* ---- log.c ----------------------------------------------------------------------------------- */

/* Switches the log on as BELAY_LOG and BELAY_LOG_FILE say; a wrong value is a warning. */
void cli_log_open(void);
/* Logs every decision, unless BELAY_LOG says what is logged. */
void cli_log_verbose(void);
/* Before something is drawn on the terminal: a log that would go there goes to a file instead.
 * True: it does from now on, and `out` has its path. */
bool cli_log_aside(char *out, size_t out_size);
struct bl_nursery;
/* From now on SIGUSR1 writes the description of all fibers to where the log goes. */
void cli_describe_on_signal(struct bl_nursery *nursery);

/* ---- envelope.c ------------------------------------------------------------------------------ */

/* The members that every envelope has; with the error that may be in place of an answer. */
extern const struct bl_record cli_head_record, cli_envelope_record;
/* Member "error" alone, from a struct bl_error. */
extern const struct bl_record cli_failure_record;

/* The answer to one command line. docs/schemas/NAME.json is made of it, NAME that of the record. */
struct cli_answer {
    struct bl_record record;           /* what it adds to the members of every envelope */
    const char *of;                    /* "session list": the command line */
    const struct bl_numbers *exits;    /* exit codes; NULL: 0 alone; none in it: any */
    const struct bl_record *failure;   /* in its place; NULL: cli_failure_record */
    const struct bl_numbers *failures; /* exit codes with that; NULL: 1 and 2 */
    enum {
        CLI_ANSWER_JSON,
        CLI_ANSWER_STREAM,
        CLI_ANSWER_ANY,
    } format;
};

extern const struct bl_numbers cli_exits_failing; /* 0 and 1 */
extern const struct bl_numbers cli_exits_any;
extern const struct bl_numbers cli_exits_running; /* of a run that began: it may be stopped */

/* Writes the one line: the members of every envelope, then those of that record. BL_ELIMIT: it does
 * not fit. */
int cli_answer_write(struct bl_buffer *out, const struct cli_call *call, int exit_code,
                     const struct bl_record *record, const void *from);
/* Prints the envelope with the members of that record. Returns the exit code of the process:
 * `exit_code`, unless the line could not be written. */
int cli_answer_print(const struct cli_call *call, int exit_code, const struct bl_record *record,
                     const void *from);

/* The same to a run's output, of any size. One that cannot be written is an error there, and in the
 * exit code. */
struct cli_stream;
void cli_answer_stream(struct cli_stream *stream, const struct cli_call *call, int *exit_code,
                       const struct bl_record *record, const void *from);

/* Says what went wrong, in the format of the answer, and returns the exit code. */
int cli_fail(const struct cli_call *call, const struct bl_error *error, int exit_code);
/* The same for a wrong command line: in the format that it asked for anywhere, exit code 2. */
int cli_fail_usage(struct cli_call *call, const struct bl_error *error);
/* That of its kind (cli_error_kinds). */
int cli_error_exit_code(const struct bl_error *error);
/* What went wrong before the command line was read to its end, whatever it is. */
int cli_fail_early(struct cli_call *call, const struct bl_error *error);

/* ---- receipt.c ------------------------------------------------------------------------------- */

/* bl_receipt_row_line of a receipt of any origin. */
void cli_receipt_line(const struct bl_json *receipt, struct bl_buffer *out);

/* ---- output.c -------------------------------------------------------------------------------- */

/* For the start of the program: what is opened later never becomes standard output, and writing to
 * a reader that is gone is an error, not a signal. */
void cli_streams_prepare(void);
/* Writes all of it to standard output; returns `exit_code`, or the one that says why it could not.
 * Where that is a terminal, what a terminal would obey is shown escaped. */
int cli_print(const struct cli_call *call, struct bl_text text, int exit_code);
/* The same as it is: JSON, and text with colours of our own in which words of others are harmless.
 */
int cli_print_raw(const struct cli_call *call, struct bl_text text, int exit_code);
/* One line on standard error: "belay doctor: message; hint". Control characters do not get through.
 */
void cli_complain(const struct cli_call *call, const struct bl_error *error);
/* Writes to standard error; what a terminal would obey is shown escaped, wherever that goes. */
void cli_remark(struct bl_text text);
/* True when standard output is a terminal whose user wants colours. */
bool cli_colour_wanted(void);

#endif
