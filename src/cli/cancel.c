#include <belay/serve.h>

#include "cli.h"

#define LINE_MAX_SIZE 4096u
#define ID_SIZE_MAX   128u

const char cli_cancel_help[] =
    "Usage: belay cancel [OPTION]... ID\n"
    "\n"
    "Stops what has that ID, a run, a sub-agent, a tool call, a job in the background\n"
    "or a cell, or of a session its turn, jobs and cells, in whichever belay of this\n"
    "user it runs, waits until nothing of it is left, and prints the receipt. 'belay\n"
    "ps' lists what runs.\n"
    "\n"
    "Options:\n"
    "      --json                  one line, as in docs/schemas/cancel.json\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    it is stopped\n"
    "  1    nothing of that ID runs, or it could not be reached\n"
    "  2    usage error\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Environment:\n"
    "  XDG_RUNTIME_DIR  where the sockets of running belays are, in belay/; without\n"
    "                   it they are in /tmp/belay-UID\n"
    "\n"
    "Examples:\n"
    "  belay cancel run_3p5yd7mcnxw2kq4tzvhb\n"
    "  belay cancel nightly --json\n";

struct cancelling {
    struct bl_arena arena;
    const char *id;
    struct bl_text receipt;
    struct bl_error error;
};

/* Names what runs, when nothing of that id does. */
static void hint_running(struct cancelling *cancelling)
{
    struct bl_suggestion suggestion;
    struct bl_list processes;
    size_t count = 0;

    bl_suggestion_init(&suggestion, cancelling->id);
    bl_list_init(&processes);
    bl_control_list(&cancelling->arena, &processes, NULL);
    BL_LIST_EACH (link, &processes) {
        const struct bl_json *result = BL_CONTAINER(link, struct bl_control_process, link)->result;
        BL_JSON_EACH (activity, bl_json_get(result, BL_TEXT("activities"))) {
            struct bl_text id = bl_json_text(bl_json_get(activity, BL_TEXT("id")));
            struct bl_text session = bl_json_text(bl_json_get(activity, BL_TEXT("session")));
            count++;
            bl_suggestion_offer(&suggestion, bl_arena_text(&cancelling->arena, id).data);
            bl_suggestion_offer(&suggestion, bl_arena_text(&cancelling->arena, session).data);
        }
    }
    cancelling->error.hint[0] = '\0';
    if (suggestion.best != NULL)
        bl_error_hint(&cancelling->error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(&cancelling->error, count > 0 ? "'belay ps' lists what runs"
                                                    : "nothing runs; maybe it has just ended");
}

static int cancel_main(void *argument)
{
    struct cancelling *cancelling = argument;

    int code = bl_control_cancel(&cancelling->arena, cancelling->id, "belay cancel",
                                 &cancelling->receipt, &cancelling->error);
    if (code != BL_ENOENT)
        return code;
    cancelling->error = (struct bl_error){0};
    bl_error_set(&cancelling->error, code, BL_KIND_SESSION, "cancel", cancelling->id,
                 "nothing with the id '%s' runs", cancelling->id);
    hint_running(cancelling);
    return code;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void cancel_payload(struct bl_json_writer *writer, const void *context)
{
    const struct cancelling *cancelling = context;

    bl_json_put_string(writer, "id", cancelling->id);
    bl_json_put_json(writer, "receipt", cancelling->receipt);
}

static int print_text(const struct cli_call *call, struct cancelling *cancelling)
{
    const struct bl_json *receipt;
    struct bl_buffer line;

    bl_buffer_init(&line, LINE_MAX_SIZE);
    if (bl_json_read(&cancelling->arena, cancelling->receipt, NULL, &receipt, NULL) == 0 &&
        bl_json_is(receipt, BL_JSON_OBJECT))
        cli_receipt_line(receipt, &line);
    else
        bl_buffer_append(&line, BL_TEXT("It had ended before the stop reached it."));
    bl_buffer_append_byte(&line, '\n');
    int exit_code = cli_print(call, bl_buffer_text(&line), CLI_EXIT_OK);
    bl_buffer_done(&line);
    return exit_code;
}

static int check_id(const char *id, struct bl_error *error)
{
    size_t size = id != NULL ? strlen(id) : 0;

    if (size > 0 && size <= ID_SIZE_MAX && bl_utf8_valid(bl_text_from(id)))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "ID",
                 size == 0 ? "no id is given" : "that is no id");
    bl_error_hint(error, "'belay ps' lists what runs");
    return BL_EINVAL;
}

int cli_cancel_run(struct cli_call *call)
{
    struct cancelling cancelling = {0};
    struct bl_error *error = &cancelling.error;
    int exit_code;

    int code = cli_arguments_read(call, false, cli_take_one, &cancelling.id, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0)
        code = check_id(cancelling.id, error);
    if (code != 0)
        return cli_fail_usage(call, error);
    bl_arena_init(&cancelling.arena);
    if (cli_loop_run("cancel", cancel_main, &cancelling, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code = print_text(call, &cancelling);
    else
        exit_code = cli_envelope_print(call, CLI_EXIT_OK, cancel_payload, &cancelling);
    bl_arena_done(&cancelling.arena);
    return exit_code;
}
