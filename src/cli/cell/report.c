#include <errno.h>
#include <stdio.h>

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

/* ---- What the cell says ---------------------------------------------------------------------- */

static void append_string(struct bl_buffer *list, struct bl_text text)
{
    struct bl_json_writer writer;
    size_t before = list->size;

    bl_buffer_append_byte(list, before > 0 ? ',' : '[');
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

/* Behind those that came before. */
static void keep_items(struct cell_work *work, const struct bl_list *items)
{
    struct bl_json_writer writer;
    struct bl_buffer array;

    if (bl_list_empty(items))
        return;
    bl_buffer_init(&array, ITEMS_MAX);
    bl_json_writer_init(&writer, &array);
    bl_json_write_array(&writer);
    cell_items_write(items, &writer);
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) == 0) {
        struct bl_text elements = {array.data + 1, array.size - 2};
        bl_buffer_append_byte(&work->items, work->items.size > 0 ? ',' : '[');
        bl_buffer_append(&work->items, elements);
    }
    bl_buffer_done(&array);
}

static void show_items(struct cell_work *work, const struct bl_list *items)
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
    show_items(work, &yielded->items);
    if (!yielded->stalled || work->stalled)
        return;
    work->stalled = true;
    cell_remark(work, BL_TEXT("belay cell: nothing is left that could wake it; it waits for its "
                              "deadline, or for Ctrl-C\n"));
}

bool cell_take_outcome(struct cell_work *work, const struct bl_cell_observe_outcome *outcome)
{
    switch (outcome->type) {
    case BL_CELL_OBSERVE_YIELDED: show_yielded(work, &outcome->yielded); return false;
    case BL_CELL_OBSERVE_COMPLETED: show_items(work, &outcome->completed.items); break;
    case BL_CELL_OBSERVE_TERMINATED: show_items(work, &outcome->terminated.items); break;
    case BL_CELL_OBSERVE_MISSING: break;
    }
    work->ended = true;
    return true;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int stop_exit_code(struct bl_text reason, struct bl_text origin)
{
    if (bl_text_equal(reason, BL_TEXT("timeout")))
        return CLI_EXIT_TIMEOUT;
    return bl_text_equal(origin, BL_TEXT("SIGTERM")) ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

/* Of a stop that nothing was there for, or whose answer did not get out. */
static int scope_exit_code(const struct bl_scope *scope)
{
    struct bl_stop stop;

    bl_scope_stop_read(scope, &stop);
    return stop_exit_code(bl_text_from(bl_stop_reason_name(stop.reason)),
                          bl_text_from(stop.origin));
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

static const char *outcome_name(const struct cell_work *work)
{
    if (!work->ended)
        return "never_started";
    if (work->end.type == BL_CELL_OBSERVE_TERMINATED)
        return "terminated";
    return end_error(work) != NULL ? "failed" : "completed";
}

static int settle_exit_code(struct cell_work *work)
{
    const struct bl_json *receipt = end_receipt(work);

    if (work->ended && work->end.type == BL_CELL_OBSERVE_MISSING)
        bl_error_set(&work->error, BL_ENOENT, BL_KIND_CELL, "observe the cell", work->cell_id,
                     "its record is gone");
    if (work->error.code != 0)
        return cli_error_exit_code(&work->error);
    if (!work->ended)
        return scope_exit_code(&work->scope);
    if (receipt != NULL)
        return stop_exit_code(bl_json_text(bl_json_get(receipt, BL_TEXT("reason"))),
                              bl_json_text(bl_json_get(receipt, BL_TEXT("origin"))));
    return end_error(work) != NULL ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static void write_receipt(struct bl_json_writer *writer, const struct cell_work *work)
{
    const struct bl_json *receipt = end_receipt(work);

    bl_json_write_key(writer, BL_TEXT("receipt"));
    if (receipt != NULL)
        bl_json_write_value(writer, receipt);
    else if (!work->ended && bl_receipt_ready(&work->receipt))
        bl_receipt_write(&work->receipt, writer);
    else
        bl_json_write_null(writer);
}

static void write_cell_error(struct bl_json_writer *writer, const struct bl_cell_error *error)
{
    bl_json_write_key(writer, BL_TEXT("cell_error"));
    if (error == NULL) {
        bl_json_write_null(writer);
        return;
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "kind", bl_cell_error_kind_name(error->kind));
    bl_json_put_text(writer, "name", error->name);
    bl_json_put_text(writer, "message", error->message);
    bl_json_put_text(writer, "stack", error->stack);
    bl_json_write_end(writer);
}

static void run_payload(struct bl_json_writer *writer, const void *context)
{
    const struct cell_work *work = context;
    const struct bl_cell_error *cause = end_error(work);
    bool completed = work->ended && work->end.type == BL_CELL_OBSERVE_COMPLETED;

    bl_json_put_string(writer, "verb", "run");
    bl_json_put_string(writer, "session_id", work->options->session);
    bl_json_put_string(writer, "cell_id", work->cell_id);
    bl_json_put_string(writer, "outcome", outcome_name(work));
    bl_json_put_json(writer, "output", bl_buffer_text(&work->items));
    bl_json_put_json(writer, "notifications", bl_buffer_text(&work->notifications));
    bl_json_put_uint64(writer, "stopped_calls", completed ? work->end.completed.stopped_calls : 0);
    write_cell_error(writer, cause);
    write_receipt(writer, work);
    if (cause != NULL) {
        struct bl_error error = {0};
        cell_failure(cause, work->cell_id, &error);
        cli_error_payload(writer, &error);
    }
}

static void report_json(struct cell_work *work)
{
    bool failed = work->error.code != 0;

    bl_buffer_append(&work->items, work->items.size > 0 ? BL_TEXT("]") : BL_TEXT("[]"));
    bl_buffer_append(&work->notifications,
                     work->notifications.size > 0 ? BL_TEXT("]") : BL_TEXT("[]"));
    cli_envelope_stream(&work->stream, work->call, &work->exit_code,
                        failed ? cli_error_payload : run_payload,
                        failed ? (const void *)&work->error : work);
}

static void remark_receipt(struct cell_work *work)
{
    const struct bl_json *receipt = end_receipt(work);
    struct bl_buffer line;

    bl_buffer_init(&line, ITEMS_MAX);
    if (receipt != NULL)
        cli_receipt_line(receipt, &line);
    else if (!work->ended && bl_receipt_ready(&work->receipt))
        bl_receipt_line(&work->receipt, &line);
    if (line.size > 0) {
        cell_remark(work, bl_text_trim(bl_buffer_text(&line)));
        cell_remark(work, BL_TEXT("\n"));
    }
    bl_buffer_done(&line);
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

/* An answer that did not get out is never taken for success. */
static void answer_lost(struct cell_work *work)
{
    int failed = work->stream.failed;

    if (failed == 0 || failed == EPIPE) {
        if (work->exit_code == CLI_EXIT_OK)
            work->exit_code =
                failed == EPIPE ? CLI_EXIT_CLIENT_GONE : scope_exit_code(&work->patience);
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
        answer_lost(work);
    if (work->heard && !cli_stream_flush(&work->remarks))
        work->heard = false;
}
