#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <belay/model.h>

#include "cli/cli.h"
#include "cli/run/stream.h"
#include "cli/signals.h"

#define LINE_MAX_SIZE ((size_t)128 * 1024)

const char cli_script_help[] =
    "Usage: belay script serve FILE [OPTION]...\n"
    "\n"
    "Serves the script model over HTTP on 127.0.0.1, in the formats of four kinds of\n"
    "provider, so that any agent can be tried without a key, a network or a bill:\n"
    "\n"
    "  POST /v1/messages          anthropic; also /v1/messages/count_tokens\n"
    "  POST /v1/chat/completions  openai; also /chat/completions\n"
    "  POST /v1/responses         openai-responses; also /responses\n"
    "  POST /api/chat             ollama\n"
    "  GET  /v1/models, /api/tags\n"
    "\n"
    "FILE is a script in YAML or JSON. Its replies are used up in the order in which\n"
    "requests come, whoever sends them; `when` tells clients apart. Replies that are\n"
    "errors become errors of HTTP, cut connections and silences. No key is asked for.\n"
    "First the address is printed, then a line for each request when it is answered.\n"
    "Ctrl-C or SIGTERM ends it.\n"
    "\n"
    "Options:\n"
    "      --port N                the port; 0, the default: any that is free\n"
    "      --json                  each line a JSON object\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  1    the script cannot be read, or the port is taken\n"
    "  2    usage error\n"
    "  130  ended by Ctrl-C, or whoever read standard output is gone\n"
    "  143  ended by SIGTERM\n"
    "\n"
    "Examples:\n"
    "  belay script serve demo.yaml --port 8080\n"
    "  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 agent -p 'hello'\n"
    "  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 agent -p 'hello'\n";

enum {
    OPTION_PORT = 512,
};

const struct option cli_script_options[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

/* One serving: its command line, and all that it runs on. */
struct serving {
    struct cli_call *call;
    const char *verb; /* NULL: none yet */
    const char *file;
    uint16_t port;
    struct bl_script *script;
    struct bl_scope scope;    /* of the server: what stops it ends the command */
    struct bl_scope patience; /* ends all waiting for whoever reads standard output */
    struct cli_signals signals;
    struct cli_stream stream;
    struct bl_error error;
    int exit_code;
};

/* ---- The command line ------------------------------------------------------------------------ */

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct serving *serving = context;
    int64_t port;

    if (option == OPTION_PORT) {
        if (bl_text_to_int64(bl_text_from(value), &port) == 0 && port >= 0 && port <= UINT16_MAX) {
            serving->port = (uint16_t)port;
            return 0;
        }
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--port",
                     "'%s' is no port", value);
        bl_error_hint(error, "it is a number from 0 to 65535; 0 takes any that is free");
        return BL_EINVAL;
    }
    if (serving->verb == NULL) {
        serving->verb = value;
        if (strcmp(value, "serve") == 0)
            return 0;
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", value,
                     "unknown verb '%s'", value);
        bl_error_hint(error, "it is 'belay script serve FILE'");
        return BL_EINVAL;
    }
    if (serving->file != NULL)
        return cli_arguments_refuse(value, error);
    serving->file = value;
    return 0;
}

static int read_arguments(struct serving *serving)
{
    int code = cli_arguments_read(serving->call, false, take, serving, &serving->error);

    if (code != 0 || serving->file != NULL)
        return code;
    bl_error_set(&serving->error, BL_EINVAL, BL_KIND_USAGE, "read the command line",
                 serving->verb == NULL ? "serve" : "FILE",
                 serving->verb == NULL ? "what to do with a script is missing"
                                       : "no script to serve");
    bl_error_hint(&serving->error, "it is 'belay script serve FILE'");
    return BL_EINVAL;
}

/* ---- What is printed ------------------------------------------------------------------------- */

static void print_listening(struct serving *serving, uint16_t port)
{
    struct bl_buffer line;
    struct bl_json_writer writer;
    char url[64];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    bl_buffer_init(&line, LINE_MAX_SIZE);
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
    bl_buffer_done(&line);
}

static int64_t number_of(const struct bl_json *line, const char *key)
{
    int64_t number = 0;

    bl_json_int64(bl_json_get(line, bl_text_from(key)), &number);
    return number;
}

/* "3 anthropic /v1/messages claude-x: 200, 12 tokens in, 7 out". */
static void append_request(struct bl_buffer *out, const struct bl_json *line)
{
    struct bl_text model = bl_json_text(bl_json_get(line, BL_TEXT("model")));

    bl_buffer_printf(out, "%lld " BL_TEXT_FORMAT " ", (long long)number_of(line, "n"),
                     BL_TEXT_ARG(bl_json_text(bl_json_get(line, BL_TEXT("format")))));
    bl_text_show(out, bl_json_text(bl_json_get(line, BL_TEXT("path"))), BL_SHOW_LINE);
    if (model.size > 0)
        bl_buffer_append_byte(out, ' ');
    bl_text_show(out, model, BL_SHOW_LINE);
    bl_buffer_printf(
        out, ": %lld, %lld tokens in, %lld out%s\n", (long long)number_of(line, "status"),
        (long long)number_of(line, "input_tokens"), (long long)number_of(line, "output_tokens"),
        bl_json_boolean(bl_json_get(line, BL_TEXT("cut")), false) ? ", cut off" : "");
}

static void journal(void *context, struct bl_text line)
{
    struct serving *serving = context;
    const struct bl_json *value;
    struct bl_arena arena;
    struct bl_buffer out;

    bl_arena_init(&arena);
    bl_buffer_init(&out, LINE_MAX_SIZE);
    if (serving->call->format != CLI_FORMAT_TEXT) {
        bl_buffer_append(&out, line);
        bl_buffer_append_byte(&out, '\n');
    } else if (bl_json_read(&arena, line, NULL, &value, NULL) == 0) {
        append_request(&out, value);
    }
    cli_stream_write(&serving->stream, bl_buffer_text(&out));
    bl_buffer_done(&out);
    bl_arena_done(&arena);
}

/* ---- Serving --------------------------------------------------------------------------------- */

static void hurry(void *context)
{
    struct serving *serving = context;

    bl_scope_stop(&serving->patience, BL_STOP_SIGNAL, "signal");
}

/* In the scope that a signal, or a reader that goes, stops. */
static int serve_until_stopped(struct serving *serving)
{
    struct bl_script_server_options options = {
        .script = serving->script,
        .port = serving->port,
        .seed = 1,
        .journal = journal,
        .context = serving,
    };
    struct bl_script_server *server;
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, &serving->scope);
    int code = bl_script_server_start(&nursery, &options, &server, &serving->error);
    if (code == 0) {
        print_listening(serving, bl_script_server_port(server));
        (void)bl_sleep(BL_NEVER);
        bl_script_server_stop(server);
    }
    bl_nursery_done(&nursery);
    return code;
}

static int stop_exit_code(const struct serving *serving)
{
    return serving->signals.first == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

static void serve(struct serving *serving)
{
    int code = cli_signals_start(&serving->signals, &serving->scope, hurry, serving);

    if (code != 0)
        bl_error_set(&serving->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    if (code == 0) {
        struct bl_scope *outer = bl_scope_enter(&serving->scope);
        code = serve_until_stopped(serving);
        bl_scope_enter(outer);
    }
    if (code == 0) {
        serving->exit_code = stop_exit_code(serving);
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

static int serve_main(void *argument)
{
    struct serving *serving = argument;

    bl_scope_init(&serving->scope, bl_scope_current());
    bl_scope_init(&serving->patience, bl_scope_current());
    if (cli_stream_open(&serving->stream, STDOUT_FILENO, &serving->scope, &serving->patience,
                        &serving->error) == 0) {
        serve(serving);
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

    int code = read_arguments(&serving);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    if (bl_script_load(serving.file, &serving.script, error) != 0)
        return cli_fail(call, error, CLI_EXIT_FAILED);
    code = cli_loop_run("script serve", serve_main, &serving, error);
    bl_script_free(serving.script);
    if (code == 0 && error->code == 0)
        return serving.exit_code;
    return cli_fail(call, error, CLI_EXIT_FAILED);
}
