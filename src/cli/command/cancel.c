#include <belay/serve.h>

#include "cli/answers.h"
#include "cli/table/commands.h"
#include "elsewhere.h"

#define WAIT_NS       (10 * BL_NS_PER_S)
#define LINE_MAX_SIZE 4096u

struct cancelling {
    struct bl_arena arena;
    struct cancel_options options;
    struct bl_text receipt;
    struct bl_text result; /* of work that ended without a stop */
    const char *worker;    /* that ran it on another machine; NULL if none; likewise its host */
    const char *host;
    bool elsewhere; /* `fenced` is known */
    bool fenced;
    struct bl_error error;
};

/* Sets the hint: a similar id that is running, or a process that does not answer and may run it. */
static void hint_running(struct cancelling *cancelling)
{
    bool begun = cancelling->error.code == BL_EUNKNOWN;
    struct bl_suggestion suggestion;
    struct bl_list processes;
    int64_t silent = 0;
    size_t count = 0;

    bl_suggestion_init(&suggestion, cancelling->options.id);
    bl_list_init(&processes);
    bl_control_list(&cancelling->arena, &processes, NULL);
    BL_LIST_EACH (link, &processes) {
        const struct bl_control_process *process =
            BL_CONTAINER(link, struct bl_control_process, link);
        if (process->state == BL_CONTROL_SILENT)
            silent = process->pid;
        if (process->state != BL_CONTROL_ANSWERING)
            continue;
        BL_LIST_EACH (at, &process->activities) {
            const struct bl_activity_view *activity =
                BL_CONTAINER(at, struct bl_activity_view, link);
            count++;
            bl_suggestion_offer(&suggestion, bl_arena_text(&cancelling->arena, activity->id).data);
            bl_suggestion_offer(&suggestion,
                                bl_arena_text(&cancelling->arena, activity->session).data);
        }
    }
    if (begun && silent == 0)
        return;
    cancelling->error.hint[0] = '\0';
    if (suggestion.best != NULL && !begun)
        bl_error_hint(&cancelling->error, "did you mean '%s'?", suggestion.best);
    else if (silent != 0)
        bl_error_hint(&cancelling->error, "process %lld does not answer, and may be running it",
                      (long long)silent);
    else
        bl_error_hint(&cancelling->error, count > 0
                                              ? "'belay ps' lists running work"
                                              : "nothing is running; the work may have just ended");
}

/* ---- Work that has ended --------------------------------------------------------------------- */

/* Takes work from the store that no answering process runs. */
static int command_cancel_take_work(struct cancelling *cancelling, const struct bl_store_work *work)
{
    struct bl_error *error = &cancelling->error;

    if (work->receipt.size > 0 || work->ended) {
        cancelling->receipt = work->receipt;
        cancelling->result = work->receipt.size > 0 ? (struct bl_text){0} : work->result;
        return 0;
    }
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_SESSION, "cancel", cancelling->options.id,
                 "%s '%s' has started and not ended, and no answering process is running it",
                 work->kind, cancelling->options.id);
    bl_error_hint(error, "'belay ps' lists processes that do not answer; if the process was "
                         "killed, its work was killed with it");
    return BL_EUNKNOWN;
}

static int command_cancel_look_up(struct cancelling *cancelling)
{
    const char *where = cancelling->options.store;
    struct bl_store *store = NULL;
    struct bl_store_work work;
    struct bl_error error = {0};
    int code = where != NULL ? 0 : bl_store_default_path(&cancelling->arena, &where, &error);

    if (code == 0)
        code = bl_store_open_reading(where, &store, &error);
    if (code == 0)
        code = bl_store_find(store, &cancelling->arena, cancelling->options.id, &work, &error);
    if (code == 0)
        code = command_cancel_take_work(cancelling, &work);
    else if (code != BL_ENOENT) /* without a store there is no work to find */
        cancelling->error = error;
    bl_store_close(store);
    return code;
}

/* Stops work of the fleet that shares the store. BL_ENOENT: there is no such work, or no fleet. */
static int command_cancel_elsewhere(struct cancelling *cancelling)
{
    const struct cancel_options *options = &cancelling->options;
    struct elsewhere elsewhere = {.arena = &cancelling->arena,
                                  .where = options->store,
                                  .id = options->id,
                                  .now = options->now,
                                  .wait_ns = options->wait_ns};
    int code = 0;

    if (elsewhere.where == NULL)
        code = bl_store_default_path(&cancelling->arena, &elsewhere.where, NULL);
    if (code != 0 || !bl_store_is_database(elsewhere.where) || options->after_step)
        return BL_ENOENT;
    code = elsewhere_stop(&elsewhere, &cancelling->error);
    if (code != 0)
        return code;
    cancelling->elsewhere = true;
    cancelling->worker = elsewhere.worker;
    cancelling->host = elsewhere.host;
    cancelling->fenced = elsewhere.fenced;
    cancelling->receipt = elsewhere.receipt;
    cancelling->result = elsewhere.result;
    return 0;
}

/* Stops running work; if it is not running, looks up its end in the store. */
static int command_cancel_main(void *argument)
{
    struct cancelling *cancelling = argument;
    struct bl_error error = {0};

    int code = cancelling->options.after_step
                   ? bl_control_finish(&cancelling->arena, cancelling->options.id,
                                       "belay cancel --after-step", &cancelling->receipt, &error)
                   : bl_control_cancel(&cancelling->arena, cancelling->options.id, "belay cancel",
                                       cancelling->options.now, &cancelling->receipt, &error);
    if (code == 0 && cancelling->receipt.size == 0)
        command_cancel_look_up(cancelling); /* for its result */
    if (code == 0) {
        cancelling->error = (struct bl_error){0};
        return 0;
    }
    if (code != BL_ENOENT) {
        cancelling->error = error;
        return code;
    }
    code = command_cancel_elsewhere(cancelling);
    if (code != BL_ENOENT)
        return code;
    code = command_cancel_look_up(cancelling);
    if (code != BL_ENOENT && code != BL_EUNKNOWN)
        return code;
    if (code == BL_ENOENT) {
        cancelling->error = (struct bl_error){0};
        bl_error_set(&cancelling->error, code, BL_KIND_SESSION, "cancel", cancelling->options.id,
                     "no running work with id '%s'", cancelling->options.id);
    }
    hint_running(cancelling);
    return code;
}

/* ---- The answer ------------------------------------------------------------------------------ */

#define BL_RECORD_STRUCT struct cancelling
static const struct bl_member cancel_members[] = {
    BL_MEMBER_STRING("id", options.id, .least = 1, .about = "Id from the command line."),
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                  .about = "Written when none of the work was left running, or found in the store; "
                           "null: it had ended before the stop."),
    BL_MEMBER_RAW(
        "result", result, .nullable = true, .object = true,
        .about =
            "Result from the store, of work that had ended; null with a receipt, or if unknown."),
    BL_MEMBER_STRING("worker", worker, .optional = true, .least = 1,
                     .about = "Worker of the fleet that ran it."),
    BL_MEMBER_STRING("host", host, .optional = true, .about = "Machine of that worker."),
    BL_MEMBER_BOOLEAN("fenced", fenced, .optional = true, BL_KNOWN(elsewhere),
                      .about = "Work on another machine: none of its turns can enter the database "
                               "any more, whether its worker has answered or not."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer cancel_answer = {BL_RECORD("cancel", struct cancelling, cancel_members),
                                         .of = "cancel", .exits = &cli_exits_failing};

/* A stop counts as failed unless the receipt proves that nothing survived. */
static int command_cancel_exit_code_of(struct cancelling *cancelling)
{
    const struct bl_json *value;
    struct bl_receipt_row receipt;

    if (cancelling->receipt.size == 0 ||
        bl_json_read(&cancelling->arena, cancelling->receipt, NULL, &value, NULL) != 0)
        return CLI_EXIT_OK;
    bl_record_take(&cancelling->arena, &bl_receipt_record, value, &receipt);
    return receipt.survivors == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

static int command_cancel_print_text(const struct cli_call *call, struct cancelling *cancelling,
                                     int exit_code)
{
    const struct bl_json *receipt;
    BL_AUTO_BUFFER(line, LINE_MAX_SIZE);

    if (bl_json_read(&cancelling->arena, cancelling->receipt, NULL, &receipt, NULL) == 0 &&
        bl_json_is(receipt, BL_JSON_OBJECT))
        cli_receipt_line(receipt, &line);
    else
        bl_buffer_append(&line, cancelling->options.after_step
                                    ? BL_TEXT("The work has ended; there was nothing left to stop.")
                                    : BL_TEXT("The work had ended before the stop reached it."));
    if (cancelling->host != NULL)
        bl_buffer_printf(&line, " (host %s)", cancelling->host);
    bl_buffer_append_byte(&line, '\n');
    exit_code = cli_print(call, bl_buffer_text(&line), exit_code);
    return exit_code;
}

int cli_cancel_run(struct cli_call *call)
{
    struct cancelling cancelling = {.options.wait_ns = WAIT_NS};
    struct bl_error *error = &cancelling.error;
    int exit_code;

    int code = cli_options_read(call, &cancelling.options, NULL, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0 && cancelling.options.now && cancelling.options.after_step) {
        code = bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--now",
                            "--now and --after-step exclude each other");
        bl_error_hint(error, "give one of them");
    }
    if (code != 0)
        return cli_fail_usage(call, error);
    bl_arena_init(&cancelling.arena);
    if (cli_loop_run("cancel", command_cancel_main, &cancelling, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else if (call->format == CLI_FORMAT_TEXT)
        exit_code =
            command_cancel_print_text(call, &cancelling, command_cancel_exit_code_of(&cancelling));
    else
        exit_code = cli_answer_print(call, command_cancel_exit_code_of(&cancelling),
                                     &cancel_answer.record, &cancelling);
    bl_arena_done(&cancelling.arena);
    return exit_code;
}
