#include "cli.h"
#include "cli/run/stream.h"

#define ENVELOPE_MAX      ((size_t)64 * 1024 * 1024)
#define LONG_ENVELOPE_MAX ((size_t)2 * 1024 * 1024 * 1024)

struct head {
    const char *type; /* NULL outside of streams */
    int64_t written_wall_ns;
    const char *command;
    int32_t exit_code;
    enum cli_format format;
    uint32_t version;
    const struct bl_error *error; /* NULL if none */
};

static const char *const result_names[] = {"result"};
static const struct bl_names result_types = BL_NAMES(result_names);

#define BL_RECORD_STRUCT struct head
static const struct bl_member head_members[] = {
    BL_MEMBER_STRING("type", type, .names = &result_types, .optional = true,
                     .about = "Only in stream-json, where the envelope is the last line."),
    BL_MEMBER_TIME("timestamp", written_wall_ns, .about = "When the envelope was written, UTC."),
    BL_MEMBER_STRING("command", command, .least = 1,
                     .about = "Name of the command; belay if there is none."),
    BL_MEMBER_INTEGER("exit_code", exit_code, .most = 255, .about = "Exit code of the process."),
    BL_MEMBER_ENUM("output_format", format, &cli_json_formats),
    BL_MEMBER_INTEGER("schema_version", version, .least = 1,
                      .about = "Raised when a member changes its meaning or is removed."),
    BL_MEMBER_END,
};
const struct bl_record cli_head_record = BL_RECORD("head", struct head, head_members);

static const struct bl_member envelope_members[] = {
    BL_MEMBER_INCLUDE(&cli_head_record),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record cli_envelope_record =
    BL_RECORD("envelope", struct head, envelope_members,
              .about = "Members that the envelopes of all commands have in common. Each command "
                       "adds its own.");

static const struct bl_member failure_members[] = {
    BL_MEMBER_GROUP("error", &bl_error_record),
    BL_MEMBER_END,
};
const struct bl_record cli_failure_record = BL_RECORD("failure", struct bl_error, failure_members);

static const int64_t failing[] = {CLI_EXIT_OK, CLI_EXIT_FAILED};
const struct bl_numbers cli_exits_failing = BL_NUMBERS(failing);
const struct bl_numbers cli_exits_any = {0};
static const int64_t running[] = {CLI_EXIT_OK,      CLI_EXIT_FAILED,      CLI_EXIT_LIMIT,
                                  CLI_EXIT_TIMEOUT, CLI_EXIT_CLIENT_GONE, CLI_EXIT_TERMINATED};
const struct bl_numbers cli_exits_running = BL_NUMBERS(running);

static void write_common(struct bl_json_writer *writer, const struct cli_call *call, int exit_code)
{
    bool streamed = call->format == CLI_FORMAT_STREAM_JSON;
    struct head head = {
        .type = streamed ? result_names[0] : NULL,
        .written_wall_ns = bl_clock_wall_ns(&bl_clock_system),
        .command = call->command != NULL ? call->command->name : "belay",
        .exit_code = exit_code,
        .format = call->format,
        .version = CLI_SCHEMA_VERSION,
    };

    bl_record_write_members(writer, &cli_head_record, &head);
}

int cli_answer_write(struct bl_buffer *out, const struct cli_call *call, int exit_code,
                     const struct bl_record *record, const void *from)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    write_common(&writer, call, exit_code);
    bl_record_write_members(&writer, record, from);
    bl_json_write_end(&writer);
    int result = bl_json_writer_done(&writer);
    if (result != 0)
        return result;
    return bl_buffer_append_byte(out, '\n');
}

int cli_answer_print(const struct cli_call *call, int exit_code, const struct bl_record *record,
                     const void *from)
{
    BL_AUTO_BUFFER(line, ENVELOPE_MAX);

    int result = cli_answer_write(&line, call, exit_code, record, from);
    if (result == 0)
        exit_code = cli_print_raw(call, bl_buffer_text(&line), exit_code);
    return result == 0 ? exit_code : CLI_EXIT_FAILED;
}

void cli_answer_write_long(struct bl_buffer *out, const struct cli_call *call, int *exit_code,
                           const struct bl_record *record, const void *from)
{
    struct bl_error error = {0};

    bl_buffer_init(out, LONG_ENVELOPE_MAX);
    int code = cli_answer_write(out, call, *exit_code, record, from);
    if (code == 0)
        return;
    bl_error_set(&error, code, BL_KIND_RUNTIME, "write the answer", NULL,
                 "the answer cannot be written: %s", bl_error_text(code));
    *exit_code = CLI_EXIT_FAILED;
    bl_buffer_clear(out);
    cli_answer_write(out, call, *exit_code, &cli_failure_record, &error);
}

void cli_answer_stream(struct cli_stream *stream, const struct cli_call *call, int *exit_code,
                       const struct bl_record *record, const void *from)
{
    struct bl_buffer line;

    cli_answer_write_long(&line, call, exit_code, record, from);
    cli_stream_write(stream, bl_buffer_text(&line));
    bl_buffer_done(&line);
}

int cli_fail(const struct cli_call *call, const struct bl_error *error, int exit_code)
{
    if (call->format != CLI_FORMAT_TEXT)
        return cli_answer_print(call, exit_code, &cli_failure_record, error);
    cli_complain(call, error);
    return exit_code;
}

int cli_error_exit_code(const struct bl_error *error)
{
    return cli_error_kinds[error->kind].exit_code;
}

int cli_fail_early(struct cli_call *call, const struct bl_error *error)
{
    call->format = call->asked;
    return cli_fail(call, error, cli_error_exit_code(error));
}

int cli_fail_usage(struct cli_call *call, const struct bl_error *error)
{
    call->format = call->asked;
    return cli_fail(call, error, CLI_EXIT_USAGE);
}
