/* All stops, with their proof. */
#include "report.h"

#include "feature/parts.h"

#include <stdlib.h>

static const char *receipt_sentence(struct bl_arena *arena, const struct bl_receipt_row *receipt)
{
    BL_AUTO_BUFFER(line, 4096);
    bl_receipt_row_line(receipt, &line);
    return bl_arena_text(arena, bl_buffer_text(&line)).data;
}

static bool was_stopped(const struct bl_task_view *task)
{
    return task->row.receipt[0] != '\0' || task->checkpoint != NULL ||
           task->row.decision == BL_DECISION_TIMEOUT ||
           task->row.decision == BL_DECISION_CANCELLED ||
           task->row.decision == BL_DECISION_INTERRUPTED;
}

/* Returns the first text that is not empty, or "–". */
static const char *stops_first(const char *first, const char *second, const char *third)
{
    const char *const texts[] = {first, second, third};
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        if (row_word(texts[i]) != NULL)
            return texts[i];
    }
    return REPORT_UNKNOWN;
}

static void fill_stop(struct report *report, struct report_stop *stop, struct bl_map *receipts)
{
    static const struct bl_receipt_row no_receipt;
    static const struct bl_checkpoint no_checkpoint;
    if (stop->receipt_id != NULL) {
        stop->receipt = bl_map_get(receipts, bl_text_from(stop->receipt_id));
        bl_map_remove(receipts, bl_text_from(stop->receipt_id));
    }
    const struct bl_receipt_row *receipt = stop->receipt != NULL ? stop->receipt : &no_receipt;
    const struct bl_checkpoint *checkpoint =
        stop->checkpoint != NULL ? stop->checkpoint : &no_checkpoint;
    const char *asked = report_time(&report->arena, checkpoint->requested_wall_ns != 0
                                                        ? checkpoint->requested_wall_ns
                                                        : receipt->requested_wall_ns);
    stop->at = stops_first(asked, stop->at, NULL);
    stop->reason = stops_first(stop->reason, receipt->reason, checkpoint->reason);
    stop->triggered_by = stops_first(stop->triggered_by, checkpoint->triggered_by, receipt->origin);
    stop->cause =
        strcmp(stop->reason, stop->triggered_by) == 0
            ? stop->reason
            : bl_arena_printf(&report->arena, "%s, by %s", stop->reason, stop->triggered_by).data;
    if (stop->receipt != NULL)
        stop->sentence = receipt_sentence(&report->arena, receipt);
    else if (stop->receipt_id != NULL)
        stop->sentence = "Its receipt is not in the store.";
    else if (strcmp(stop->reason, "owner_died") == 0)
        stop->sentence = "No receipt: belay was killed, and the fate of its processes is "
                         "unknown.";
    else
        stop->sentence = "No receipt: nothing was running.";
}

static int compare_stops(const void *left, const void *right)
{
    const struct report_stop *a = left, *b = right;
    int order = strcmp(a->at, b->at);
    return order != 0 ? order : strcmp(a->what, b->what);
}

static void read_receipts(struct report *report, const struct bl_list *list,
                          struct bl_map *receipts)
{
    BL_LIST_EACH (link, report_list(list)) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        const struct bl_json *value = view_record_read(&report->arena, record->json);
        struct bl_receipt_row *receipt = bl_arena_alloc(&report->arena, sizeof *receipt);
        bl_record_take(&report->arena, &bl_receipt_record, value, receipt);
        const char *id = row_word(receipt->id);
        if (id == NULL && strncmp(record->name, "receipt/", 8) == 0)
            id = record->name + 8;
        if (id != NULL && value != NULL)
            bl_map_set(receipts, bl_text_from(id), receipt, NULL);
    }
}

/* Returns NULL if there is no checkpoint. */
static const struct bl_checkpoint *stops_checkpoint(struct report *report,
                                                    const struct bl_task_view *task)
{
    struct bl_checkpoint *checkpoint;
    if (task->checkpoint == NULL)
        return NULL;
    checkpoint = bl_arena_alloc(&report->arena, sizeof *checkpoint);
    bl_record_take(&report->arena, &bl_checkpoint_record, task->checkpoint, checkpoint);
    return checkpoint;
}

/* First the stops of attempts. The remaining receipts are of the feature, or of a part of a
 * task. */
void report_stops_make(struct report *report)
{
    struct bl_map receipts;
    size_t capacity = 1;
    bl_map_init(&receipts);
    read_receipts(report, &report->view->earlier_receipts, &receipts);
    read_receipts(report, &report->view->receipts, &receipts);
    for (size_t i = 0; i < report->view->task_count; i++)
        capacity += report->tasks[i].attempt_count;
    capacity += receipts.count;
    report->stops = bl_arena_zalloc(&report->arena, sizeof *report->stops * capacity);
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        for (size_t k = 0; k < task->attempt_count; k++) {
            const struct bl_task_view *view = &task->attempt_views[k];
            if (!was_stopped(view))
                continue;
            struct report_stop *stop = &report->stops[report->stop_count++];
            *stop = (struct report_stop){.what = task->view->row.id,
                                         .attempt = view->row.attempt,
                                         .reason = bl_names_get(&bl_stop_reasons, view->row.reason),
                                         .triggered_by = row_word(view->row.triggered_by),
                                         .at = report_time(&report->arena, view->row.ended_wall_ns),
                                         .receipt_id = row_word(view->row.receipt),
                                         .checkpoint = stops_checkpoint(report, view)};
            fill_stop(report, stop, &receipts);
        }
    }
    BL_MAP_EACH (entry, &receipts) {
        struct report_stop *stop = &report->stops[report->stop_count++];
        const struct bl_receipt_row *receipt = entry->value;
        const char *scope = receipt->scope;
        bool whole = scope == NULL ||
                     (report->view->run_id != NULL && strcmp(scope, report->view->run_id) == 0);
        stop->what = !whole                          ? scope
                     : report->view->feature != NULL ? report->view->feature
                                                     : REPORT_UNKNOWN;
        stop->receipt_id = bl_arena_text(&report->arena, entry->key).data;
        fill_stop(report, stop, &receipts);
    }
    qsort(report->stops, report->stop_count, sizeof *report->stops, compare_stops);
    bl_map_done(&receipts);
}
