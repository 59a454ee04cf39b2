#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include <belay/serve.h>

#include "cli/answers.h"
#include "cli/run/stream.h"
#include "cli/table/commands.h"

#define LINE_MAX_SIZE ((size_t)64 * 1024 * 1024)
/* Events that are not read in time are left out and counted. */
#define PENDING_MAX ((size_t)16 * 1024 * 1024)

struct watching {
    struct cli_call *call;
    struct bl_arena arena;
    struct watch_options options;
    struct bl_scope scope;
    struct cli_stream stream;
    struct watch_text text;
    uint64_t events;
    uint64_t missed;   /* total */
    uint64_t left_out; /* not reported yet */
    struct bl_error error;
    int exit_code;
};

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_left_out(const struct watching *watching, struct bl_buffer *out)
{
    if (watching->call->format == CLI_FORMAT_TEXT)
        bl_buffer_printf(out, "… %" PRIu64 " event%s left out: not read in time\n",
                         watching->left_out, watching->left_out == 1 ? "" : "s");
    else
        bl_buffer_printf(out, "{\"type\":\"missed\",\"count\":%" PRIu64 "}\n", watching->left_out);
}

/* Never waits: an event that does not fit in the queue is left out. */
static void command_watch_on_event(void *context, const struct bl_json *event)
{
    struct watching *watching = context;
    struct bl_arena arena = {0};
    BL_AUTO_BUFFER(out, LINE_MAX_SIZE);

    if (watching->left_out > 0)
        put_left_out(watching, &out);
    if (watching->call->format == CLI_FORMAT_TEXT) {
        watch_text_event(&watching->text, event, &out);
    } else {
        bl_buffer_append(&out, bl_json_value_text(&arena, event));
        bl_buffer_append_byte(&out, '\n');
    }
    if (cli_stream_offer(&watching->stream, bl_buffer_text(&out), PENDING_MAX)) {
        watching->left_out = 0;
        watching->events++;
    } else {
        watching->left_out++;
        watching->missed++;
    }
    bl_arena_done(&arena);
}

static void on_missed(void *context, uint64_t count)
{
    struct watching *watching = context;

    watching->left_out += count;
    watching->missed += count;
}

/* ---- The end --------------------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct watching
static const struct bl_member watch_members[] = {
    BL_MEMBER_STRING("id", options.id, .nullable = true, .least = 1,
                     .about = "Id from the command line; null: everything was watched."),
    BL_MEMBER_INTEGER("events", events, .about = "Number of events written."),
    BL_MEMBER_INTEGER("missed", missed,
                      .about = "Number of events left out because they were not read in time; a "
                               "line {\"type\":\"missed\",\"count\":N} says where."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer watch_answer = {BL_RECORD("watch", struct watching, watch_members),
                                        .of = "watch --output-format stream-json",
                                        .format = CLI_ANSWER_STREAM};

/* True if nothing is running and no id was given. */
static bool found_nothing(const struct watching *watching, int code)
{
    return code == BL_ENOENT && watching->options.id == NULL;
}

static void command_watch_finish(struct watching *watching, int code)
{
    const struct cli_call *call = watching->call;
    struct bl_buffer out;

    bl_buffer_init(&out, LINE_MAX_SIZE);
    if (watching->left_out > 0)
        put_left_out(watching, &out);
    if (found_nothing(watching, code))
        code = 0;
    watching->exit_code = code == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    if (call->format == CLI_FORMAT_TEXT) {
        watch_text_end(&watching->text, &out);
        if (code == 0 && watching->events == 0 && watching->error.code == BL_ENOENT)
            bl_buffer_append(&out, BL_TEXT("No running work.\n"));
    } else {
        cli_answer_write(&out, call, watching->exit_code,
                         code == 0 ? &watch_answer.record : &cli_failure_record,
                         code == 0 ? (const void *)watching : &watching->error);
    }
    cli_stream_write(&watching->stream, bl_buffer_text(&out));
    cli_stream_flush(&watching->stream);
    bl_buffer_done(&out);
    if (code != 0 && call->format == CLI_FORMAT_TEXT)
        cli_complain(call, &watching->error);
}

/* ---- The work -------------------------------------------------------------------------------- */

static int command_watch(struct watching *watching)
{
    struct bl_control_watch watch = {.id = watching->options.id,
                                     .event = command_watch_on_event,
                                     .missed = on_missed,
                                     .context = watching};
    struct bl_scope *outer = bl_scope_enter(&watching->scope);

    int code = bl_control_watch(&watching->arena, &watch, &watching->error);
    bl_scope_enter(outer);
    return code;
}

static int command_watch_main(void *argument)
{
    struct watching *watching = argument;
    struct bl_scope *outer = bl_scope_current();

    bl_scope_init(&watching->scope, outer);
    int code = cli_stream_open(&watching->stream, STDOUT_FILENO, &watching->scope, outer,
                               &watching->error);
    if (code == 0) {
        code = command_watch(watching);
        /* The reader has closed standard output. */
        if (bl_scope_stopped(&watching->scope))
            watching->exit_code = CLI_EXIT_CLIENT_GONE;
        else
            command_watch_finish(watching, code);
        if (watching->stream.failed != 0)
            watching->exit_code =
                watching->stream.failed == EPIPE ? CLI_EXIT_CLIENT_GONE : CLI_EXIT_FAILED;
        cli_stream_close(&watching->stream);
    } else {
        cli_complain(watching->call, &watching->error);
        watching->exit_code = CLI_EXIT_FAILED;
    }
    bl_scope_done(&watching->scope);
    return 0;
}

int cli_watch_run(struct cli_call *call)
{
    struct watching watching = {.call = call};
    struct bl_error *error = &watching.error;

    int code = cli_options_read(call, &watching.options, NULL, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, error);
    if (call->format == CLI_FORMAT_JSON)
        call->format = CLI_FORMAT_STREAM_JSON;
    bl_arena_init(&watching.arena);
    watch_text_init(&watching.text, watching.options.id == NULL);
    if (cli_loop_run("watch", command_watch_main, &watching, error) != 0)
        watching.exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    watch_text_done(&watching.text);
    bl_arena_done(&watching.arena);
    return watching.exit_code;
}
