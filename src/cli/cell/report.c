#include <errno.h>
#include <stdio.h>

#include <belay/record.h>

#include "cell/cell.h"
#include "cli/answers.h"
#include "run.h"

#define ITEMS_MAX ((size_t)64 * 1024 * 1024)

bool cell_is_text(const struct cell_work *work)
{
    return work->call->format == CLI_FORMAT_TEXT;
}

void cell_remark(struct cell_work *work, struct bl_text text)
{
    if (cell_is_text(work) && work->heard)
        cli_stream_say(&work->remarks, text);
}

/* ---- Output of the cell ---------------------------------------------------------------------- */

static void append_string(struct bl_buffer *list, struct bl_text text)
{
    struct bl_json_writer writer;
    size_t before = list->size;

    if (before > 0)
        bl_buffer_append_byte(list, ',');
    bl_json_writer_init(&writer, list);
    bl_json_write_text(&writer, text);
    if (bl_json_writer_done(&writer) != 0)
        list->size = before;
}

void cell_notified(void *context, const char *cell_id, uint64_t seq, struct bl_text text)
{
    struct cell_work *work = context;

    if (cell_is_text(work)) {
        cell_remark(work, text);
        if (!bl_text_ends_with(text, BL_TEXT("\n")))
            cell_remark(work, BL_TEXT("\n"));
    } else {
        append_string(&work->notifications, text);
    }
    bl_cell_notify_ack(work->session, cell_id, seq);
}

/* Appends the items as the protocol encodes them; none of them if one does not fit. */
static void keep_items(struct cell_work *work, const struct bl_list *items)
{
    struct bl_buffer *kept = &work->items;
    size_t before = kept->size;

    BL_LIST_EACH (link, items) {
        struct bl_json_writer writer;
        if (kept->size > 0)
            bl_buffer_append_byte(kept, ',');
        bl_json_writer_init(&writer, kept);
        bl_record_write(&writer, &bl_cell_item_record,
                        BL_CONTAINER(link, struct bl_cell_item, link));
        if (bl_json_writer_done(&writer) != 0) {
            kept->size = before;
            return;
        }
    }
}

static void cell_report_show_items(struct cell_work *work, const struct bl_list *items)
{
    struct bl_buffer out, notes;

    if (!cell_is_text(work)) {
        keep_items(work, items);
        return;
    }
    bl_buffer_init(&out, ITEMS_MAX);
    bl_buffer_init(&notes, ITEMS_MAX);
    cell_items_text(items, &out, &notes);
    cli_stream_say(&work->stream, bl_buffer_text(&out));
    cell_remark(work, bl_buffer_text(&notes));
    bl_buffer_done(&notes);
    bl_buffer_done(&out);
}

static void show_yielded(struct cell_work *work, const struct bl_cell_yielded *yielded)
{
    cell_report_show_items(work, &yielded->items);
    if (!yielded->stalled || work->stalled)
        return;
    work->stalled = true;
    cell_remark(work, BL_TEXT("belay cell: stalled: nothing is left that can wake it; it waits for "
                              "its deadline or Ctrl-C\n"));
}

bool cell_take_outcome(struct cell_work *work, const struct bl_cell_observe_outcome *outcome)
{
    switch (outcome->type) {
    case BL_CELL_OBSERVE_YIELDED: show_yielded(work, &outcome->yielded); return false;
    case BL_CELL_OBSERVE_COMPLETED: cell_report_show_items(work, &outcome->completed.items); break;
    case BL_CELL_OBSERVE_TERMINATED:
        cell_report_show_items(work, &outcome->terminated.items);
        break;
    case BL_CELL_OBSERVE_MISSING: break;
    }
    work->ended = true;
    return true;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int cell_report_stop_exit_code(const char *reason, const char *origin)
{
    if (reason != NULL && strcmp(reason, bl_stop_reason_name(BL_STOP_TIMEOUT)) == 0)
        return CLI_EXIT_TIMEOUT;
    return origin != NULL && strcmp(origin, "SIGTERM") == 0 ? CLI_EXIT_TERMINATED
                                                            : CLI_EXIT_CLIENT_GONE;
}

/* Returns the exit code for a stop before the cell started, or for an answer that was not
 * delivered. */
static int scope_exit_code(const struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    return cell_report_stop_exit_code(bl_stop_reason_name(stop.reason), stop.origin);
}

static const struct bl_cell_error *end_error(const struct cell_work *work)
{
    return work->ended && work->end.type == BL_CELL_OBSERVE_COMPLETED ? work->end.completed.error
                                                                      : NULL;
}

static const struct bl_json *end_receipt(const struct cell_work *work)
{
    return work->ended && work->end.type == BL_CELL_OBSERVE_TERMINATED
               ? work->end.terminated.receipt
               : NULL;
}

/* The members of `belay cell run --json` besides the envelope. */
struct run_answer {
    const char *verb;
    const char *session_id; /* NULL for a session of its own, which is deleted */
    const char *cell_id;
    enum run_outcome {
        RUN_COMPLETED,
        RUN_FAILED,
        RUN_TERMINATED,
        RUN_NEVER_STARTED,
    } outcome;
    struct bl_list output;
    const char *const *notifications;
    size_t notification_count;
    struct bl_text output_json, notifications_json; /* the same two, already encoded */
    uint64_t stopped_calls;
    const struct bl_cell_error *cell_error;
    const struct bl_json *receipt;
    struct bl_text receipt_json;
    const struct bl_error *error;
};

static const char *const run_verb[] = {"run"};
static const struct bl_names run_verbs = BL_NAMES(run_verb);
static const char *const outcome_names[] = {"completed", "failed", "terminated", "never_started"};
static const struct bl_names outcomes = BL_NAMES(outcome_names);

#define BL_RECORD_STRUCT struct run_answer
static const struct bl_member run_members[] = {
    BL_MEMBER_STRING("verb", verb, .names = &run_verbs),
    BL_MEMBER_STRING("session_id", session_id, .nullable = true, .form = &cell_id_form,
                     .about =
                         "From the command line; null for a temporary session, which is deleted."),
    BL_MEMBER_STRING("cell_id", cell_id, .form = &cell_id_form),
    BL_MEMBER_ENUM("outcome", outcome, &outcomes,
                   .about = "failed: it has completed with an error; terminated: it was stopped; "
                            "never_started: it was stopped before it ran."),
    BL_MEMBER_LIST("output", output, &bl_cell_item_record, struct bl_cell_item, link,
                   BL_ENCODED(output_json), .about = "All items, in order."),
    BL_MEMBER_ARRAY("notifications", notifications, notification_count, &bl_element_string,
                    BL_ENCODED(notifications_json), .about = "Texts that were passed to notify."),
    BL_MEMBER_INTEGER("stopped_calls", stopped_calls,
                      .about =
                          "Nested calls that were still running at the end, and were stopped."),
    BL_MEMBER_POINTER("cell_error", cell_error, &bl_cell_error_record, .nullable = true,
                      .about = "Error of a cell that failed."),
    BL_MEMBER_JSON("receipt", receipt, .nullable = true, .record = &bl_receipt_record,
                   BL_ENCODED(receipt_json), .about = "Receipt of a cell that was stopped."),
    BL_MEMBER_POINTER("error", error, &bl_error_record, .optional = true,
                      .about = "Only with exit code 1."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const int64_t run_exit_codes[] = {CLI_EXIT_OK, CLI_EXIT_FAILED, CLI_EXIT_TIMEOUT,
                                         CLI_EXIT_CLIENT_GONE, CLI_EXIT_TERMINATED};
static const struct bl_numbers run_exits = BL_NUMBERS(run_exit_codes);
const struct cli_answer cell_run_answer = {
    BL_RECORD("cell-run", struct run_answer, run_members,
              .about = "One line on standard output, when the cell has ended."),
    .of = "cell run", .exits = &run_exits};

static enum run_outcome end_outcome(const struct cell_work *work)
{
    if (!work->ended)
        return RUN_NEVER_STARTED;
    if (work->end.type == BL_CELL_OBSERVE_TERMINATED)
        return RUN_TERMINATED;
    return end_error(work) != NULL ? RUN_FAILED : RUN_COMPLETED;
}

static int settle_exit_code(struct cell_work *work)
{
    const struct bl_json *receipt = end_receipt(work);
    struct bl_receipt_row row;
    BL_AUTO_ARENA(arena);

    if (work->ended && work->end.type == BL_CELL_OBSERVE_MISSING)
        bl_error_set(&work->error, BL_ENOENT, BL_KIND_CELL, "observe the cell", work->cell_id,
                     "the record of the cell is missing");
    if (work->error.code != 0)
        return cli_error_exit_code(&work->error);
    if (!work->ended)
        return scope_exit_code(&work->scope);
    if (receipt != NULL) {
        bl_record_take(&arena, &bl_receipt_record, receipt, &row);
        return cell_report_stop_exit_code(row.reason, row.origin);
    }
    return end_error(work) != NULL ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static void report_run(struct cell_work *work)
{
    bool completed = work->ended && work->end.type == BL_CELL_OBSERVE_COMPLETED;
    struct bl_json_writer inner;
    struct bl_buffer receipt;
    struct bl_error error = {0};
    struct run_answer answer = {
        .verb = run_verb[0],
        .session_id = work->options->session,
        .cell_id = work->cell_id,
        .outcome = end_outcome(work),
        .output_json = bl_buffer_text(&work->items),
        .notifications_json = bl_buffer_text(&work->notifications),
        .stopped_calls = completed ? work->end.completed.stopped_calls : 0,
        .cell_error = end_error(work),
        .receipt = end_receipt(work),
    };

    bl_buffer_init(&receipt, ITEMS_MAX);
    if (!work->ended && bl_receipt_ready(&work->receipt)) {
        bl_json_writer_init(&inner, &receipt);
        bl_receipt_write(&work->receipt, &inner);
        bl_json_writer_done(&inner);
        answer.receipt_json = bl_buffer_text(&receipt);
    }
    if (answer.cell_error != NULL) {
        cell_failure(answer.cell_error, work->cell_id, &error);
        answer.error = &error;
    }
    cli_answer_stream(&work->stream, work->call, &work->exit_code, &cell_run_answer.record,
                      &answer);
    bl_buffer_done(&receipt);
}

static void report_json(struct cell_work *work)
{
    if (work->error.code != 0)
        cli_answer_stream(&work->stream, work->call, &work->exit_code, &cli_failure_record,
                          &work->error);
    else
        report_run(work);
}

static void remark_receipt(struct cell_work *work)
{
    const struct bl_json *receipt = end_receipt(work);
    BL_AUTO_BUFFER(line, ITEMS_MAX);

    if (receipt != NULL)
        cli_receipt_line(receipt, &line);
    else if (!work->ended && bl_receipt_ready(&work->receipt))
        bl_receipt_line(&work->receipt, &line);
    if (line.size > 0) {
        cell_remark(work, bl_text_trim(bl_buffer_text(&line)));
        cell_remark(work, BL_TEXT("\n"));
    }
}

static void remark_end(struct cell_work *work)
{
    struct bl_buffer text;

    if (work->error.code != 0)
        return;
    bl_buffer_init(&text, ITEMS_MAX);
    if (end_error(work) != NULL)
        cell_failure_text(end_error(work), &text);
    if (work->ended && work->end.type == BL_CELL_OBSERVE_COMPLETED &&
        work->end.completed.stopped_calls > 0)
        bl_buffer_printf(&text, "belay cell: calls stopped at the end: %llu\n",
                         (unsigned long long)work->end.completed.stopped_calls);
    cell_remark(work, bl_buffer_text(&text));
    bl_buffer_done(&text);
    remark_receipt(work);
}

/* Sets the exit code for an answer that was not delivered: never success. */
static void cell_report_answer_lost(struct cell_work *work)
{
    int failed = work->stream.failed;

    if (failed == 0 || failed == EPIPE) {
        if (work->exit_code == CLI_EXIT_OK)
            work->exit_code =
                failed == EPIPE ? CLI_EXIT_CLIENT_GONE : scope_exit_code(&work->wait_limit);
        return;
    }
    work->exit_code = CLI_EXIT_FAILED;
    bl_error_set(&work->error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "write",
                 "standard output", "cannot write standard output: %s", strerror(failed));
}

void cell_answer(struct cell_work *work)
{
    work->exit_code = settle_exit_code(work);
    if (!cell_is_text(work))
        report_json(work);
    bool delivered = cli_stream_flush(&work->stream);
    remark_end(work);
    if (!delivered)
        cell_report_answer_lost(work);
    if (work->heard && !cli_stream_flush(&work->remarks))
        work->heard = false;
}
