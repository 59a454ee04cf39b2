#include "cli.h"
#include "cli/run/stream.h"

#define ENVELOPE_MAX      ((size_t)64 * 1024 * 1024)
#define LONG_ENVELOPE_MAX ((size_t)2 * 1024 * 1024 * 1024)

static void write_common(struct bl_json_writer *writer, const struct cli_call *call, int exit_code)
{
    char timestamp[32];

    bl_time_format(bl_clock_wall_ns(&bl_clock_system), timestamp);
    /* In a stream of events the envelope is the last one. */
    if (call->format == CLI_FORMAT_STREAM_JSON)
        bl_json_put_string(writer, "type", "result");
    bl_json_put_string(writer, "timestamp", timestamp);
    bl_json_put_string(writer, "command", call->command != NULL ? call->command->name : "belay");
    bl_json_write_key(writer, BL_TEXT("exit_code"));
    bl_json_write_int64(writer, exit_code);
    bl_json_put_string(writer, "output_format", cli_format_name(call->format));
    bl_json_write_key(writer, BL_TEXT("schema_version"));
    bl_json_write_int64(writer, CLI_SCHEMA_VERSION);
}

int cli_envelope_write(struct bl_buffer *out, const struct cli_call *call, int exit_code,
                       cli_payload *payload, const void *context)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    write_common(&writer, call, exit_code);
    payload(&writer, context);
    bl_json_write_end(&writer);
    int result = bl_json_writer_done(&writer);
    if (result != 0)
        return result;
    return bl_buffer_append_byte(out, '\n');
}

int cli_envelope_print(const struct cli_call *call, int exit_code, cli_payload *payload,
                       const void *context)
{
    struct bl_buffer line;

    bl_buffer_init(&line, ENVELOPE_MAX);
    int result = cli_envelope_write(&line, call, exit_code, payload, context);
    if (result == 0)
        exit_code = cli_print_raw(call, bl_buffer_text(&line), exit_code);
    bl_buffer_done(&line);
    return result == 0 ? exit_code : CLI_EXIT_FAILED;
}

void cli_envelope_stream(struct cli_stream *stream, const struct cli_call *call, int *exit_code,
                         cli_payload *payload, const void *context)
{
    struct bl_error error = {0};
    struct bl_buffer line;

    bl_buffer_init(&line, LONG_ENVELOPE_MAX);
    int code = cli_envelope_write(&line, call, *exit_code, payload, context);
    if (code != 0) {
        bl_error_set(&error, code, BL_KIND_RUNTIME, "write the answer", NULL,
                     "the answer cannot be written: %s", bl_error_text(code));
        *exit_code = CLI_EXIT_FAILED;
        bl_buffer_clear(&line);
        cli_envelope_write(&line, call, *exit_code, cli_error_payload, &error);
    }
    cli_stream_write(stream, bl_buffer_text(&line));
    bl_buffer_done(&line);
}

void cli_error_payload(struct bl_json_writer *writer, const void *context)
{
    bl_json_write_key(writer, BL_TEXT("error"));
    bl_record_write(writer, &bl_error_record, context);
}

int cli_fail(const struct cli_call *call, const struct bl_error *error, int exit_code)
{
    if (call->format != CLI_FORMAT_TEXT)
        return cli_envelope_print(call, exit_code, cli_error_payload, error);
    cli_complain(call, error);
    return exit_code;
}

int cli_error_exit_code(const struct bl_error *error)
{
    return error->kind == BL_KIND_USAGE ? CLI_EXIT_USAGE : CLI_EXIT_FAILED;
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
