/* Design notes.
 *
 * Signals stop a scope in which one fiber only waits. Host, server and control socket run outside
 * of that scope and are then stopped one after another, so that the end of every cell is recorded
 * and every client has its answer before the process exits. */
#include <stdio.h>
#include <unistd.h>

#include <belay/serve.h>

#include "cell.h"
#include "cli/answers.h"
#include "cli/member.h"
#include "cli/run/stream.h"
#include "cli/signals.h"

#define LINE_MAX_SIZE ((size_t)64 * 1024)

struct serving {
    struct cli_call *call;
    const struct cell_options *options;
    struct bl_scope scope;      /* its stop ends the host */
    struct bl_scope wait_limit; /* bounds waits for the reader of standard error */
    struct bl_scope listening;  /* stopped if standard error is closed, which stops nothing else */
    struct cli_signals signals;
    struct cli_stream remarks;
    bool heard; /* `remarks` is open */
    struct bl_store *store;
    struct bl_fleet_member *member; /* NULL: the store is a file */
    struct bl_activities activities;
    struct bl_cell_host *host;
    struct bl_cell_server *server;
    struct bl_error error;
    int exit_code;
};

/* ---- Output ---------------------------------------------------------------------------------- */

/* Writes one line to standard error, with control sequences from clients escaped. */
static void cell_serve_say(void *context, struct bl_text text)
{
    struct serving *serving = context;
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);

    if (!serving->heard)
        return;
    bl_buffer_append(&line, BL_TEXT("belay cell: "));
    bl_text_show(&line, text, BL_SHOW_LINE);
    bl_buffer_append_byte(&line, '\n');
    cli_stream_say(&serving->remarks, bl_buffer_text(&line));
}

/* The line of `belay cell serve --json`. */
struct listening {
    const char *event;
    const char *socket;
    uint64_t pid;
    const char *store;
};

static const char *const event_names[] = {"listening"};
static const struct bl_names events = BL_NAMES(event_names);

#define BL_RECORD_STRUCT struct listening
static const struct bl_member listening_members[] = {
    BL_MEMBER_STRING("event", event, .names = &events),
    BL_MEMBER_STRING("socket", socket, .least = 1, .about = "Path of the socket."),
    BL_MEMBER_INTEGER("pid", pid, .least = 1, .about = "Process id of the host."),
    BL_MEMBER_STRING("store", store, .least = 1,
                     .about =
                         "Path of the store, or the address of a database without a password."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record cell_listening_record =
    BL_RECORD("cell-serve", struct listening, listening_members, .closed = true,
              .about = "The line of belay cell serve --json, written when the host listens. If it "
                       "cannot start, the line is an envelope with an error: see envelope.json.");

/* Prints the address on standard output; with --stdio, which uses that for frames, on standard
 * error. Returns the exit code. */
static int cell_serve_print_listening(struct serving *serving)
{
    const char *path = bl_cell_server_path(serving->server);
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);

    if (serving->options->standard) {
        cell_serve_say(serving, BL_TEXT("frames on standard input and output"));
        return CLI_EXIT_OK;
    }
    if (serving->call->format == CLI_FORMAT_TEXT) {
        bl_buffer_printf(&line, "listening on %s\n", path);
    } else {
        bl_json_writer_init(&writer, &line);
        bl_record_write(&writer, &cell_listening_record,
                        &(struct listening){.event = event_names[0],
                                            .socket = path,
                                            .pid = (uint64_t)getpid(),
                                            .store = bl_store_where(serving->store)});
        bl_buffer_append_byte(&line, '\n');
    }
    return cli_print(serving->call, bl_buffer_text(&line), CLI_EXIT_OK);
}

/* ---- Serving --------------------------------------------------------------------------------- */

static size_t count_cells(const struct serving *serving)
{
    size_t count = 0;

    BL_LIST_EACH (link, &serving->activities.list)
        count += strcmp(BL_CONTAINER(link, struct bl_activity, link)->kind, "cell") == 0;
    return count;
}

static void end_server(struct serving *serving)
{
    size_t cells = count_cells(serving);
    struct bl_stop stop;
    char line[160];

    bl_scope_stop_read(&serving->scope, &stop);
    /* Without a stop, the only client, on the standard streams, has left. */
    bool stopped = stop.reason != BL_STOP_NONE;
    enum bl_stop_reason reason = stopped ? stop.reason : BL_STOP_CLIENT_GONE;
    const char *origin = stopped ? stop.origin : "stdin";
    bl_cell_server_stop(serving->server, reason, origin);
    bl_cell_host_stop(serving->host, reason, origin);
    if (stopped)
        serving->exit_code =
            serving->signals.first == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
    snprintf(line, sizeof line, "ended by %s, with %zu cell%s", origin, cells,
             cells == 1 ? "" : "s");
    cell_serve_say(serving, bl_text_from(line));
}

static int start_server(struct serving *serving, struct bl_nursery *services)
{
    const struct cell_options *options = serving->options;
    struct bl_cell_host_options host = {.store = serving->store, .eager = true};

    int code = bl_cell_host_start(services, &host, &serving->host, &serving->error);
    if (code != 0)
        return code;
    struct bl_cell_server_options server = {
        .host = serving->host,
        .socket = options->socket,
        .input = options->standard ? STDIN_FILENO : -1,
        .output = options->standard ? STDOUT_FILENO : -1,
        .directory = options->directory,
        .activities = &serving->activities,
        .log = cell_serve_say,
        .context = serving,
    };
    code = bl_cell_server_start(services, &server, &serving->server, &serving->error);
    if (code != 0)
        bl_cell_host_stop(serving->host, BL_STOP_SHUTDOWN, "cell serve");
    return code;
}

static int cell_serve_until_stopped(struct serving *serving)
{
    struct bl_control *control = NULL;
    struct bl_nursery services;
    struct bl_error error = {0};

    bl_nursery_init(&services, bl_scope_current());
    int code = start_server(serving, &services);
    if (code == 0) {
        if (bl_control_start(&services, &serving->activities, &control, &error) != 0) {
            control = NULL;
            cell_serve_say(serving,
                           BL_TEXT("'belay ps' and 'belay cancel' cannot reach these cells:"));
            cell_serve_say(serving, bl_text_from(error.message));
        }
        serving->exit_code = cell_serve_print_listening(serving);
        struct bl_scope *outer = bl_scope_enter(&serving->scope);
        if (serving->exit_code == CLI_EXIT_OK)
            (void)bl_cell_server_wait(serving->server);
        bl_scope_enter(outer);
        end_server(serving);
    }
    bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

static void cell_serve_nothing(void *context)
{
    (void)context;
}

static void cli_serve(struct serving *serving)
{
    struct bl_error *error = &serving->error;
    int code = cli_signals_start(&serving->signals, &serving->scope, cell_serve_nothing, NULL);

    if (code != 0)
        bl_error_set(error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    bl_activities_init(&serving->activities);
    if (code == 0)
        code = bl_store_open(serving->options->store, &serving->store, error);
    if (code == 0)
        code = cli_member_join(serving->store, &serving->scope, NULL, &serving->activities,
                               &serving->member, error);
    if (code == 0)
        code = cell_serve_until_stopped(serving);
    bl_fleet_leave(serving->member);
    bl_store_close(serving->store);
    if (code != 0)
        bl_error_set(error, code, BL_KIND_CELL, "serve cells", serving->options->socket,
                     "cannot serve cells: %s", bl_error_text(code));
    cli_signals_block(&serving->signals);
    cli_signals_end(&serving->signals);
}

static int cell_serve_main(void *argument)
{
    struct serving *serving = argument;
    struct bl_error unheard = {0};

    bl_scope_init(&serving->scope, bl_scope_current());
    bl_scope_init(&serving->listening, bl_scope_current());
    bl_scope_init(&serving->wait_limit, bl_scope_current());
    serving->heard = serving->call->format == CLI_FORMAT_TEXT &&
                     cli_stream_open(&serving->remarks, STDERR_FILENO, &serving->listening,
                                     &serving->wait_limit, &unheard) == 0;
    cli_serve(serving);
    if (serving->heard) {
        bl_scope_stop(&serving->wait_limit, BL_STOP_SHUTDOWN, "cell serve");
        (void)cli_stream_flush(&serving->remarks);
        cli_stream_close(&serving->remarks);
    }
    bl_scope_done(&serving->wait_limit);
    bl_scope_done(&serving->listening);
    bl_scope_done(&serving->scope);
    return 0;
}

int cell_serve(struct cli_call *call, const struct cell_options *options)
{
    struct serving serving = {.call = call, .options = options, .exit_code = CLI_EXIT_FAILED};
    struct bl_error *error = &serving.error;

    cli_processes_begin();
    cli_signals_block(&serving.signals);
    int code = cli_loop_run("cell serve", cell_serve_main, &serving, error);
    if (code == 0 && error->code == 0)
        return serving.exit_code;
    return cli_fail(call, error, cli_error_exit_code(error));
}
