#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <belay/model.h>

#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/run/stream.h"
#include "cli/signals.h"
#include "cli/table/commands.h"

#define LINE_MAX_SIZE ((size_t)128 * 1024)

/* One call of `script serve`: its command line and its state. */
struct serving {
    struct cli_call *call;
    struct script_options options;
    struct bl_script *script;
    struct bl_scope scope;      /* of the server; its stop ends the command */
    struct bl_scope wait_limit; /* its stop ends all waiting for the reader of standard output */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_error error;
    int exit_code;
};

/* ---- Output ---------------------------------------------------------------------------------- */

struct script_listening {
    const char *event;
    char url[64];
    uint64_t port;
    const char *script;
};

static const char *const script_events[] = {"listening"};
static const struct bl_names script_event_names = BL_NAMES(script_events);
static const struct bl_form url_form = {"the address of a server here",
                                        "^http://127\\.0\\.0\\.1:[0-9]+$", NULL};

#define BL_RECORD_STRUCT struct script_listening
static const struct bl_member listening_members[] = {
    BL_MEMBER_STRING("event", event, .names = &script_event_names),
    BL_MEMBER_WORD("url", url, .form = &url_form),
    BL_MEMBER_INTEGER("port", port, .least = 1, .most = UINT16_MAX),
    BL_MEMBER_STRING("script", script, .about = "Name of the script, or of its file."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record script_listening_record =
    BL_RECORD("listening", struct script_listening, listening_members, .closed = true);

static void script_print_record(struct serving *serving, const struct bl_record *record,
                                const void *from)
{
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, &line);
    bl_record_write(&writer, record, from);
    bl_buffer_append_byte(&line, '\n');
    cli_stream_write(&serving->stream, bl_buffer_text(&line));
}

static void command_script_print_listening(struct serving *serving, uint16_t port)
{
    struct script_listening listening = {
        .event = script_events[0], .port = port, .script = bl_script_name(serving->script)};
    const char *url = listening.url;
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);

    snprintf(listening.url, sizeof listening.url, "http://127.0.0.1:%u", port);
    if (serving->call->format != CLI_FORMAT_TEXT) {
        script_print_record(serving, &script_listening_record, &listening);
        return;
    }
    bl_buffer_printf(&line,
                     "listening on %s\n"
                     "  ANTHROPIC_BASE_URL=%s\n"
                     "  OPENAI_BASE_URL=%s/v1\n"
                     "  OLLAMA_HOST=%s\n",
                     url, url, url, url);
    cli_stream_write(&serving->stream, bl_buffer_text(&line));
}

/* "3 anthropic /v1/messages claude-x: 200, 12 tokens in, 7 out". */
static void append_request(struct bl_buffer *out, const struct bl_script_served *served)
{
    char usage[CLI_USAGE_SIZE];

    bl_buffer_printf(out, "%" PRIu64 " %s ", served->number, bl_api_name(served->api));
    bl_text_show(out, served->path, BL_SHOW_LINE);
    if (served->model.size > 0)
        bl_buffer_append_byte(out, ' ');
    bl_text_show(out, served->model, BL_SHOW_LINE);
    bl_buffer_printf(out, ": %d, %s%s\n", served->status, cli_usage_text(&served->usage, usage),
                     served->cut ? ", cut off" : "");
}

static void journal(void *context, const struct bl_script_served *served)
{
    struct serving *serving = context;
    BL_AUTO_BUFFER(out, LINE_MAX_SIZE);

    if (serving->call->format != CLI_FORMAT_TEXT) {
        script_print_record(serving, &bl_script_served_record, served);
        return;
    }
    append_request(&out, served);
    cli_stream_write(&serving->stream, bl_buffer_text(&out));
}

/* ---- Serving --------------------------------------------------------------------------------- */

static void command_script_hurry(void *context)
{
    struct serving *serving = context;

    bl_scope_stop(&serving->wait_limit, BL_STOP_SIGNAL, "signal");
}

/* Runs in the scope that is stopped by a signal or by a reader that closes standard output. */
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
        bl_scope_stop(&serving->wait_limit, BL_STOP_SHUTDOWN, "script serve");
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
    bl_scope_init(&serving->wait_limit, bl_scope_current());
    if (cli_stream_open(&serving->stream, STDOUT_FILENO, &serving->scope, &serving->wait_limit,
                        &serving->error) == 0) {
        command_script_serve(serving);
        cli_stream_close(&serving->stream);
    }
    bl_scope_done(&serving->wait_limit);
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
