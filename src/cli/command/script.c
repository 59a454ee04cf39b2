#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <belay/model.h>

#include "cli/cli.h"
#include "cli/run/stream.h"
#include "cli/signals.h"
#include "cli/table/commands.h"

#define LINE_MAX_SIZE ((size_t)128 * 1024)

/* One serving: its command line, and all that it runs on. */
struct serving {
    struct cli_call *call;
    struct script_options options;
    struct bl_script *script;
    struct bl_scope scope;    /* of the server: what stops it ends the command */
    struct bl_scope patience; /* ends all waiting for whoever reads standard output */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_error error;
    int exit_code;
};

/* ---- What is printed ------------------------------------------------------------------------- */

static void command_script_print_listening(struct serving *serving, uint16_t port)
{
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);
    struct bl_json_writer writer;
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    if (serving->call->format == CLI_FORMAT_TEXT) {
        bl_buffer_printf(&line,
                         "listening on %s\n"
                         "  ANTHROPIC_BASE_URL=%s\n"
                         "  OPENAI_BASE_URL=%s/v1\n"
                         "  OLLAMA_HOST=%s\n",
                         url, url, url, url);
    } else {
        bl_json_writer_init(&writer, &line);
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "event", "listening");
        bl_json_put_string(&writer, "url", url);
        bl_json_put_uint64(&writer, "port", port);
        bl_json_put_string(&writer, "script", bl_script_name(serving->script));
        bl_json_write_end(&writer);
        bl_buffer_append_byte(&line, '\n');
    }
    cli_stream_write(&serving->stream, bl_buffer_text(&line));
}

static int64_t command_script_number_of(const struct bl_json *line, const char *key)
{
    int64_t number = 0;

    bl_json_int64(bl_json_get(line, bl_text_from(key)), &number);
    return number;
}

/* "3 anthropic /v1/messages claude-x: 200, 12 tokens in, 7 out". */
static void append_request(struct bl_buffer *out, const struct bl_json *line)
{
    struct bl_text model = bl_json_text(bl_json_get(line, BL_TEXT("model")));

    bl_buffer_printf(out, "%lld " BL_TEXT_FORMAT " ",
                     (long long)command_script_number_of(line, "n"),
                     BL_TEXT_ARG(bl_json_text(bl_json_get(line, BL_TEXT("format")))));
    bl_text_show(out, bl_json_text(bl_json_get(line, BL_TEXT("path"))), BL_SHOW_LINE);
    if (model.size > 0)
        bl_buffer_append_byte(out, ' ');
    bl_text_show(out, model, BL_SHOW_LINE);
    bl_buffer_printf(out, ": %lld, %lld tokens in, %lld out%s\n",
                     (long long)command_script_number_of(line, "status"),
                     (long long)command_script_number_of(line, "input_tokens"),
                     (long long)command_script_number_of(line, "output_tokens"),
                     bl_json_boolean(bl_json_get(line, BL_TEXT("cut")), false) ? ", cut off" : "");
}

static void journal(void *context, struct bl_text line)
{
    struct serving *serving = context;
    const struct bl_json *value;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(out, LINE_MAX_SIZE);

    if (serving->call->format != CLI_FORMAT_TEXT) {
        bl_buffer_append(&out, line);
        bl_buffer_append_byte(&out, '\n');
    } else if (bl_json_read(&arena, line, NULL, &value, NULL) == 0) {
        append_request(&out, value);
    }
    cli_stream_write(&serving->stream, bl_buffer_text(&out));
}

/* ---- Serving --------------------------------------------------------------------------------- */

static void command_script_hurry(void *context)
{
    struct serving *serving = context;

    bl_scope_stop(&serving->patience, BL_STOP_SIGNAL, "signal");
}

/* In the scope that a signal, or a reader that goes, stops. */
static int command_script_serve_until_stopped(struct serving *serving)
{
    struct bl_script_server_options options = {
        .script = serving->script,
        .port = (uint16_t)serving->options.port,
        .seed = 1,
        .journal = journal,
        .context = serving,
    };
    struct bl_script_server *server;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, &serving->scope);
    int code = bl_script_server_start(&nursery, &options, &server, &serving->error);
    if (code == 0) {
        command_script_print_listening(serving, bl_script_server_port(server));
        (void)bl_sleep(BL_NEVER);
        bl_script_server_stop(server);
    }
    bl_nursery_done(&nursery);
    return code;
}

static int command_script_stop_exit_code(const struct serving *serving)
{
    return serving->signals.first == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

static void command_script_serve(struct serving *serving)
{
    int code = cli_signals_start(&serving->signals, &serving->scope, command_script_hurry, serving);

    if (code != 0)
        bl_error_set(&serving->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    if (code == 0) {
        struct bl_scope *outer = bl_scope_enter(&serving->scope);
        code = command_script_serve_until_stopped(serving);
        bl_scope_enter(outer);
    }
    if (code == 0) {
        serving->exit_code = command_script_stop_exit_code(serving);
        bl_scope_stop(&serving->patience, BL_STOP_SHUTDOWN, "script serve");
        (void)cli_stream_flush(&serving->stream);
        if (serving->stream.failed != 0 && serving->stream.failed != EPIPE) {
            serving->exit_code = CLI_EXIT_FAILED;
            bl_error_set(&serving->error, bl_error_from_errno(serving->stream.failed),
                         BL_KIND_FILESYSTEM, "write", "standard output",
                         "cannot write standard output: %s", strerror(serving->stream.failed));
        }
    }
    cli_signals_end(&serving->signals);
}

static int command_script_serve_main(void *argument)
{
    struct serving *serving = argument;

    bl_scope_init(&serving->scope, bl_scope_current());
    bl_scope_init(&serving->patience, bl_scope_current());
    if (cli_stream_open(&serving->stream, STDOUT_FILENO, &serving->scope, &serving->patience,
                        &serving->error) == 0) {
        command_script_serve(serving);
        cli_stream_close(&serving->stream);
    }
    bl_scope_done(&serving->patience);
    bl_scope_done(&serving->scope);
    return 0;
}

int cli_script_run(struct cli_call *call)
{
    struct serving serving = {.call = call, .exit_code = CLI_EXIT_FAILED};
    struct bl_error *error = &serving.error;

    int code = cli_options_read(call, &serving.options, NULL, &serving.error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    if (bl_script_load(serving.options.file, &serving.script, error) != 0)
        return cli_fail(call, error, CLI_EXIT_FAILED);
    code = cli_loop_run("script serve", command_script_serve_main, &serving, error);
    bl_script_free(serving.script);
    if (code == 0 && error->code == 0)
        return serving.exit_code;
    return cli_fail(call, error, CLI_EXIT_FAILED);
}
