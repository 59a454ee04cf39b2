/* The report for a terminal, 80 columns wide. Names come last on a line, so that wide characters
 * shift nothing. */
#include <inttypes.h>
#include <stdio.h>

#include "report.h"

#define COLUMNS    80
#define LABEL_MAX  22
#define TEXT_MAX   ((size_t)1 << 20)
#define ISSUES_MAX 10

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Puts an escaped text, wrapped and indented by `indent`. The first line continues the current one
 * at column `at`. */
static void report_text_put_wrapped(struct page *page, const char *text, int at, int indent)
{
    BL_AUTO_BUFFER(clean, TEXT_MAX);
    struct bl_text rest, line;
    clean_append(&clean, bl_text_from(text), CLEAN_LINES);
    rest = bl_text_trim(bl_buffer_text(&clean));
    bool first_line = true;
    while (bl_text_split(&rest, '\n', &line)) {
        struct bl_text word;
        if (!first_line) {
            page_put(page, "\n%*s", indent, "");
            at = indent;
        }
        first_line = false;
        bool first_word = true;
        while (bl_text_split(&line, ' ', &word)) {
            int width = (int)bl_utf8_count(word);
            if (!first_word && at + 1 + width > COLUMNS) {
                page_put(page, "\n%*s", indent, "");
                at = indent;
                first_word = true;
            }
            page_put(page, "%s" BL_TEXT_FORMAT, first_word ? "" : " ", BL_TEXT_ARG(word));
            at += width + !first_word;
            first_word = false;
        }
    }
    page_put(page, "\n");
}

/* Puts a text right-aligned in a field, counted in characters. */
static void put_right(struct page *page, const char *text, int width)
{
    int size = (int)bl_utf8_count(bl_text_from(text));
    page_put(page, "%*s%s", size < width ? width - size : 0, "", text);
}

static void report_text_put_title(struct page *page, const char *title)
{
    page_put(page, "\n%s\n", title);
    for (size_t i = 0; i < strlen(title); i++)
        page_put(page, "-");
    page_put(page, "\n");
}

static void report_text_put_fact(struct page *page, const char *name, const char *value)
{
    page_put(page, "  %-12s", name);
    report_text_put_wrapped(page, value != NULL ? value : REPORT_UNKNOWN, 14, 14);
}

/* ---- The head -------------------------------------------------------------------------------- */

static void report_text_put_head(struct page *page, struct report *report)
{
    const struct bl_feature_view *view = report->view;
    const struct report_totals *totals = &report->totals;
    struct bl_arena *arena = &report->arena;
    page_put(page, "Feature ");
    page_clean(page, view->feature, CLEAN_LINE);
    page_put(page, ": ");
    page_clean(page, view->name, CLEAN_LINE);
    page_put(page, "\n\n");
    report_text_put_fact(page, "State", report->state);
    if (view->reason != NULL)
        report_text_put_fact(page, "Stopped",
                             bl_arena_printf(arena, "%s, by %s", view->reason,
                                             view->origin != NULL ? view->origin : REPORT_UNKNOWN)
                                 .data);
    report_text_put_fact(page, "Tasks",
                         bl_arena_printf(arena, "%s done: %s", totals->done, totals->states).data);
    report_text_put_fact(page, "Started", report_time(arena, view->started_wall_ns));
    report_text_put_fact(page, "Ended", report_time(arena, view->ended_wall_ns));
    report_text_put_fact(
        page, "Time",
        bl_arena_printf(arena, "%s; sum of all tasks %s", totals->time, totals->work).data);
    report_text_put_fact(
        page, "Turns",
        bl_arena_printf(arena, "%s counted; attempts: %s", totals->turns, totals->attempts).data);
    report_text_put_fact(page, "Tokens",
                         bl_arena_printf(arena, "%s (%s in, %s out)", totals->tokens,
                                         totals->input_tokens, totals->output_tokens)
                             .data);
    report_text_put_fact(page, "Cost", totals->cost);
    report_text_put_fact(page, "Stops", totals->stops);
    report_text_put_fact(page, "Base", view->base_commit);
    report_text_put_fact(
        page, "Result",
        view->result_commit == NULL
            ? NULL
            : bl_arena_printf(arena, "%s at %s",
                              view->result_branch != NULL ? view->result_branch : REPORT_UNKNOWN,
                              view->result_commit)
                  .data);
    report_text_put_fact(page, "Plan", view->plan_digest);
    report_text_put_fact(page, "Run", view->run_id);
    if (view->unverified)
        report_text_put_fact(page, "Unverified", "the gate of a wave could not run");
    if (view->error != NULL)
        report_text_put_fact(page, "Error", view->error->message);
}

/* ---- Timeline -------------------------------------------------------------------------------- */

static int report_text_cell_of(double at, int width)
{
    int cell = (int)(at * width);
    return cell < width ? cell : width - 1;
}

static void fill_cells(char *cells, int width, double from, double to, char letter)
{
    int first = report_text_cell_of(from, width), last = (int)(to * width);
    last = last > first ? last : first + 1;
    for (int i = first; i < last && i < width; i++)
        cells[i] = letter;
}

static void report_text_fill_row(const struct report *report, const struct report_task *task,
                                 char *cells, int width)
{
    static const char letters[] = {'P', 'V', 'C', '?'};
    static const char marks[] = {'|', 'M', 'X'};
    const struct report_axis *axis = &report->axis;
    memset(cells, ' ', (size_t)width);
    for (size_t i = 0; i < axis->count; i++)
        if (axis->stretches[i].idle)
            fill_cells(cells, width, axis->stretches[i].from, axis->stretches[i].to, '~');
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct bl_task_view *view = &task->attempt_views[i];
        int64_t from_ms, to_ms;
        if (!view_time_ms(view->row.started_wall_ns, &from_ms))
            continue;
        if (!view_time_ms(view->row.ended_wall_ns, &to_ms))
            to_ms = report->end_ms;
        fill_cells(cells, width, report_axis_at(axis, from_ms), report_axis_at(axis, to_ms), '.');
    }
    for (size_t i = 0; i < task->turn_count; i++) {
        const struct report_turn *turn = &task->all_turns[i];
        for (size_t k = 0; k < turn->bar_count; k++)
            if (turn->bars[k].from_ms >= 0)
                fill_cells(cells, width, turn->bars[k].from, turn->bars[k].to,
                           letters[turn->bars[k].phase]);
    }
    for (size_t i = 0; i < task->mark_count; i++) {
        const struct report_mark *mark = &task->marks[i];
        if (mark->kind != REPORT_DEADLINE || !mark->beyond)
            cells[report_text_cell_of(mark->at, width)] = marks[mark->kind];
    }
}

static void put_ticks(struct page *page, const struct report_axis *axis, int label, int width)
{
    int at = 0;
    page_put(page, "%*s", label + 3, "");
    for (size_t i = 0; i < axis->tick_count; i++) {
        const struct report_tick *tick = &axis->ticks[i];
        int cell = report_text_cell_of(tick->at, width), size = (int)strlen(tick->label);
        if (cell + size > width || (i > 0 && cell < at + 1))
            continue;
        page_put(page, "%*s%s", cell - at, "", tick->label);
        at = cell + size;
    }
    page_put(page, "\n");
}

static int report_text_label_width(const struct report *report)
{
    size_t width = 8;
    for (size_t i = 0; i < report->view->task_count; i++)
        if (strlen(report->tasks[i].id) > width)
            width = strlen(report->tasks[i].id);
    return width > LABEL_MAX ? LABEL_MAX : (int)width;
}

/* Puts the whole label, or a cut one with a mark. */
static void put_label(struct page *page, const char *id, int width)
{
    int size = (int)bl_utf8_count(bl_text_from(id));
    struct bl_text cut = bl_utf8_cut(bl_text_from(id), (size_t)width - 1);
    if (size <= width)
        page_put(page, "%s%*s", id, width - size, "");
    else
        page_put(page, BL_TEXT_FORMAT "%*s>", BL_TEXT_ARG(cut), width - 1 - (int)bl_utf8_count(cut),
                 "");
}

static void report_text_put_wave(struct page *page, const struct report *report,
                                 const struct report_wave *wave, int label)
{
    char cells[COLUMNS];
    int width = COLUMNS - label - 3;
    page_put(page, "Wave %u: ", wave->view->n);
    page_clean(page, wave->view->state, CLEAN_LINE);
    page_put(page, ", ");
    page_clean(page, wave->gate, CLEAN_LINE);
    page_put(page, ", %s\n", wave->time);
    for (size_t i = 0; i < wave->view->task_count; i++) {
        const struct report_task *task = &report->tasks[wave->view->tasks[i] - report->view->tasks];
        page_put(page, "  ");
        put_label(page, task->id, label);
        report_text_fill_row(report, task, cells, width);
        int size = width;
        while (size > 0 && cells[size - 1] == ' ')
            size--;
        page_put(page, "%s%.*s\n", size > 0 ? " " : "", size, cells);
    }
    if (wave->view->message != NULL) {
        page_put(page, "  ");
        report_text_put_wrapped(page, wave->view->message, 2, 2);
    }
}

static void report_text_put_timeline(struct page *page, const struct report *report)
{
    int label = report_text_label_width(report);
    report_text_put_title(page, "Timeline");
    if (report->date != NULL)
        page_put(page, "From %s\n", report->date);
    page_put(page, "P Player  V verify  C Coach  X stop  M merged  | deadline  ~ break\n\n");
    put_ticks(page, &report->axis, label, COLUMNS - label - 3);
    for (size_t i = 0; i < report->view->wave_count; i++)
        report_text_put_wave(page, report, &report->waves[i], label);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_numbers(struct page *page, const char *state, const char *attempts,
                        const char *turns, const char *time, const char *tokens, const char *cost)
{
    page_put(page, " %-11s", state);
    put_right(page, attempts, 5);
    put_right(page, turns, 7);
    put_right(page, time, 11);
    put_right(page, tokens, 12);
    put_right(page, cost, 11);
    page_put(page, "\n");
}

static void report_text_put_tasks(struct page *page, const struct report *report)
{
    const struct report_totals *totals = &report->totals;
    report_text_put_title(page, "Tasks");
    page_put(page, "%*s", 22, "");
    put_numbers(page, "state", "tries", "turns", "time", "tokens", "cost");
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        bool fits = strlen(task->id) <= LABEL_MAX;
        page_put(page, fits ? "%-22s%s" : "%s\n%22s", task->id, "");
        put_numbers(page, bl_task_state_name(task->view->row.state), task->attempts, task->turns,
                    task->time, task->tokens, task->cost);
        page_put(page, "  ");
        report_text_put_wrapped(page, task->view->row.name.data, 2, 4);
        page_put(page, "    ");
        report_text_put_wrapped(page, task->said, 4, 4);
        page_put(page, "    deadline %s; verification %s\n", task->deadline, task->verified);
    }
    page_put(page, "%-22s", "Total");
    put_numbers(page, totals->done, totals->attempts, totals->turns, totals->work, totals->tokens,
                totals->cost);
}

static void report_text_put_checkpoint(struct page *page, const struct bl_checkpoint *checkpoint)
{
    size_t files = checkpoint->dirty_count;
    page_put(page, "    checkpoint: turn %u, ", checkpoint->turn);
    page_clean(page, row_word(checkpoint->phase), CLEAN_LINE);
    page_put(page, ", ");
    page_clean(page, row_word(checkpoint->marker), CLEAN_LINE);
    page_put(page, ", %zu uncommitted file%s", files, files == 1 ? "" : "s");
    page_put(page, "%s\n", checkpoint->late_verdict.size > 0 ? ", a late verdict" : "");
}

static void report_text_put_stops(struct page *page, struct report *report)
{
    report_text_put_title(page, "Stops");
    if (report->stop_count == 0)
        page_put(page, "None.\n");
    for (size_t i = 0; i < report->stop_count; i++) {
        const struct report_stop *stop = &report->stops[i];
        page_clean(page, stop->at, CLEAN_LINE);
        page_put(page, "  ");
        page_clean(page, stop->what, CLEAN_LINE);
        if (stop->attempt > 0)
            page_put(page, ", attempt %u", stop->attempt);
        page_put(page, "\n    ");
        page_clean(page, stop->cause, CLEAN_LINE);
        page_put(page, "\n    ");
        report_text_put_wrapped(page, stop->sentence, 4, 4);
        if (stop->receipt != NULL) {
            page_put(page, "    receipt ");
            page_clean(page, stop->receipt_id, CLEAN_LINE);
            page_put(page, ": mechanism ");
            page_clean(page, row_word(stop->receipt->mechanism), CLEAN_LINE);
            page_put(page, ", survivors %s\n",
                     report_survivors(&report->arena, stop->receipt->survivors));
        }
        if (stop->checkpoint != NULL)
            report_text_put_checkpoint(page, stop->checkpoint);
    }
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void report_text_put_issue(struct page *page, const struct issue *issue)
{
    page_put(page, "    - %s", issue_severity_name(issue->severity));
    if (issue->file != NULL) {
        page_put(page, " ");
        page_clean(page, issue->file, CLEAN_LINE);
        if (issue->line > 0)
            page_put(page, ":%" PRId64, issue->line);
    }
    page_put(page, "\n      ");
    report_text_put_wrapped(page, issue->description.data, 6, 6);
}

static void report_text_put_turn(struct page *page, const struct report_turn *turn)
{
    size_t count = 0;
    page_put(page, "  attempt %u, turn %u: ", turn->attempt, turn->turn);
    page_clean(page, turn->decision, CLEAN_LINE);
    page_put(page, "%s, %s, verification ", turn->merge ? " (merge)" : "", turn->time);
    page_clean(page, turn->verified, CLEAN_LINE);
    page_put(page, "%s\n    tokens %s, cost %s", turn->counted ? "" : ", not counted", turn->tokens,
             turn->cost);
    for (size_t i = 0; i < turn->bar_count; i++) {
        const struct report_bar *bar = &turn->bars[i];
        page_put(page, ", %s %s", report_phase_name(bar->phase), bar->time);
        if (bar->outcome[0] != '\0' && strcmp(bar->outcome, "ended") != 0) {
            page_put(page, " (");
            page_clean(page, bar->outcome, CLEAN_LINE);
            page_put(page, ")");
        }
    }
    page_put(page, "\n");
    if (turn->rationale != NULL) {
        page_put(page, "    ");
        report_text_put_wrapped(page, turn->rationale, 4, 4);
    }
    BL_LIST_EACH (link, &turn->row->issues) {
        if (count++ < ISSUES_MAX)
            report_text_put_issue(page, BL_CONTAINER(link, struct issue, link));
    }
    if (count > ISSUES_MAX)
        page_put(page, "    … and %zu more issue%s\n", count - ISSUES_MAX,
                 count - ISSUES_MAX == 1 ? "" : "s");
}

static void put_turns(struct page *page, const struct report *report)
{
    bool any = false;
    report_text_put_title(page, "Turns");
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        if (task->turn_count == 0)
            continue;
        any = true;
        page_put(page, "%s\n", task->id);
        for (size_t k = 0; k < task->turn_count; k++)
            report_text_put_turn(page, &task->all_turns[k]);
    }
    if (!any)
        page_put(page, "None.\n");
}

static void report_text_put_warnings(struct page *page, const struct bl_feature_view *view)
{
    if (view->warning_count > 0)
        report_text_put_title(page, "Warnings");
    for (size_t i = 0; i < view->warning_count; i++) {
        page_put(page, "- ");
        report_text_put_wrapped(page, view->warnings[i].message.data, 2, 2);
    }
}

int bl_feature_report_text(const struct bl_feature_view *view, struct bl_buffer *out)
{
    struct report *report = bl_zalloc(sizeof *report);
    struct page page = {.out = out};
    report_make(view, report);
    report_text_put_head(&page, report);
    report_text_put_timeline(&page, report);
    report_text_put_tasks(&page, report);
    report_text_put_stops(&page, report);
    put_turns(&page, report);
    report_text_put_warnings(&page, view);
    report_done(report);
    bl_free(report);
    return page.code;
}
