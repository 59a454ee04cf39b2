/* Every end that was asked for, with what proves it. */
#include "report.h"

#include "feature/parts.h"

#include <inttypes.h>
#include <stdlib.h>

#define UNIT_DEPTH_MAX 8u
#define KINDS          (BL_UNIT_TASK + 1)

struct unit_sum {
    uint64_t counts[KINDS];
    uint64_t processes;
};

static void stops_add_units(struct unit_sum *sum, const struct bl_json *units, unsigned depth)
{
    BL_JSON_EACH (unit, units) {
        struct bl_text kind = bl_json_text(report_get(unit, "kind"));
        bool of_processes = report_get(unit, "processes") != NULL;
        sum->processes += report_count(unit, "processes");
        for (size_t i = 0; i < KINDS; i++)
            sum->counts[i] +=
                !of_processes && bl_text_equal(kind, bl_text_from(bl_unit_kind_name(i)));
        if (depth < UNIT_DEPTH_MAX)
            stops_add_units(sum, report_get(unit, "units"), depth + 1);
    }
}

/* As bl_receipt_line says it. */
static const char *receipt_sentence(struct bl_arena *arena, const struct bl_json *receipt)
{
    struct unit_sum sum = {0};
    const char *separator = ": ";
    struct bl_text unverified;
    uint32_t survivors = bl_survivors_read(receipt, &unverified);
    BL_AUTO_BUFFER(rest, 4096);
    double quiet_ms = -1;
    stops_add_units(&sum, report_get(receipt, "units"), 0);
    bl_json_double(report_get(receipt, "quiet_ms"), &quiet_ms);
    struct bl_text text = bl_arena_printf(arena, "Stopped in %s",
                                          quiet_ms == 0 ? "less than 0.1 ms"
                                                        : report_seconds(arena, quiet_ms / 1000));
    for (size_t i = 0; i < KINDS; i++) {
        if (sum.counts[i] == 0)
            continue;
        text = bl_arena_printf(arena, "%s%s%" PRIu64 " %s", text.data, separator, sum.counts[i],
                               bl_unit_kind_noun(i, sum.counts[i] != 1));
        separator = ", ";
    }
    if (sum.processes > 0)
        text = bl_arena_printf(arena, "%s%s%" PRIu64 " process%s", text.data, separator,
                               sum.processes, sum.processes == 1 ? "" : "es");
    bl_survivors_text(survivors, unverified, &rest);
    text = bl_arena_printf(arena, "%s. " BL_TEXT_FORMAT, text.data,
                           BL_TEXT_ARG(bl_buffer_text(&rest)));
    return text.data;
}

static bool was_stopped(const struct bl_task_view *task)
{
    return task->row.receipt[0] != '\0' || task->checkpoint != NULL ||
           task->row.decision == BL_DECISION_TIMEOUT ||
           task->row.decision == BL_DECISION_CANCELLED ||
           task->row.decision == BL_DECISION_INTERRUPTED;
}

static void fill_stop(struct report *report, struct report_stop *stop, struct bl_map *receipts)
{
    const struct bl_json *receipt = NULL;
    if (stop->receipt_id != NULL) {
        receipt = bl_map_get(receipts, bl_text_from(stop->receipt_id));
        bl_map_remove(receipts, bl_text_from(stop->receipt_id));
    }
    const char *asked = report_member(stop->checkpoint, "requested_at");
    if (asked == NULL)
        asked = report_member(receipt, "requested_at");
    stop->receipt = receipt;
    stop->at = asked != NULL ? asked : stop->at != NULL ? stop->at : REPORT_UNKNOWN;
    stop->reason = stop->reason != NULL ? stop->reason : report_member(receipt, "reason");
    if (stop->reason == NULL)
        stop->reason = report_member(stop->checkpoint, "reason");
    if (stop->reason == NULL)
        stop->reason = REPORT_UNKNOWN;
    if (stop->triggered_by == NULL)
        stop->triggered_by = report_member(stop->checkpoint, "triggered_by");
    if (stop->triggered_by == NULL)
        stop->triggered_by = report_member(receipt, "origin");
    if (stop->triggered_by == NULL)
        stop->triggered_by = REPORT_UNKNOWN;
    stop->cause =
        strcmp(stop->reason, stop->triggered_by) == 0
            ? stop->reason
            : bl_arena_printf(&report->arena, "%s, by %s", stop->reason, stop->triggered_by).data;
    if (receipt != NULL)
        stop->sentence = receipt_sentence(&report->arena, receipt);
    else if (stop->receipt_id != NULL)
        stop->sentence = "Its receipt is not on record.";
    else if (strcmp(stop->reason, "owner_died") == 0)
        stop->sentence = "No receipt: belay was killed, and nothing on record says what became of "
                         "its processes.";
    else
        stop->sentence = "No receipt: nothing of it was running.";
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
        const struct bl_json *receipt = view_record_read(&report->arena, record->json);
        const char *id = report_member(receipt, "id");
        if (id == NULL && strncmp(record->name, "receipt/", 8) == 0)
            id = record->name + 8;
        if (id != NULL && receipt != NULL)
            bl_map_set(receipts, bl_text_from(id), (void *)(uintptr_t)receipt, NULL);
    }
}

/* Those of attempts first; whatever receipt is left is of the feature, or of a part of a task. */
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
                                         .checkpoint = view->checkpoint};
            fill_stop(report, stop, &receipts);
        }
    }
    BL_MAP_EACH (entry, &receipts) {
        struct report_stop *stop = &report->stops[report->stop_count++];
        const char *scope = report_member(entry->value, "scope");
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
