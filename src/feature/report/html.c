/* The report as one HTML file, without external references and scripts. */
#include <stdio.h>

#include "report.h"

#define LETTER_WIDTH 0.025 /* narrower bars have no letter */
#define NUMBER_WIDTH 0.018 /* narrower turns have no number */

static void html_put_text(struct page *page, const char *text)
{
    page_clean(page, text, CLEAN_HTML_LINE);
}

/* Returns the style of a state, decision or verification. */
static const char *tone(const char *word)
{
    static const char *const tones[][2] = {
        {"completed", "good"}, {"approved", "good"},   {"approve", "good"},
        {"passed", "good"},    {"failed", "bad"},      {"timed_out", "bad"},
        {"timeout", "bad"},    {"coach_error", "bad"}, {"player_error", "bad"},
        {"critical", "bad"},   {"cancelled", "warn"},  {"interrupted", "warn"},
        {"blocked", "warn"},   {"stopping", "warn"},   {"feedback", "warn"},
        {"absent", "warn"},    {"major", "warn"},      {"draining", "warn"},
        {"stopped", "warn"},   {"running", "live"},    {"paused", "live"},
        {"merging", "live"},   {"unverified", "warn"},
    };
    for (size_t i = 0; word != NULL && i < BL_COUNT(tones); i++)
        if (strcmp(word, tones[i][0]) == 0)
            return tones[i][1];
    return "calm";
}

void report_html_badge(struct page *page, const char *word, const char *shown)
{
    page_put(page, "<span class=\"badge %s\">", tone(word));
    html_put_text(page, shown);
    page_put(page, "</span>");
}

/* ---- The head -------------------------------------------------------------------------------- */

static void put_tile(struct page *page, const char *name, const char *value, const char *more)
{
    page_put(page, "<li><span>%s</span><b>", name);
    html_put_text(page, value);
    page_put(page, "</b><small>");
    html_put_text(page, more);
    page_put(page, "</small></li>\n");
}

static void put_tiles(struct page *page, struct report *report)
{
    const struct report_totals *totals = &report->totals;
    struct bl_arena *arena = &report->arena;
    page_put(page, "<ul class=\"tiles\">\n");
    put_tile(page, "Tasks done", totals->done, totals->states);
    put_tile(page, "Time", totals->time,
             bl_arena_printf(arena, "sum of all tasks %s", totals->work).data);
    put_tile(page, "Turns counted", totals->turns,
             bl_arena_printf(arena, "attempts: %s", totals->attempts).data);
    put_tile(
        page, "Tokens", totals->tokens,
        bl_arena_printf(arena, "%s in, %s out", totals->input_tokens, totals->output_tokens).data);
    put_tile(page, "Cost", totals->cost, "as reported by the seats");
    put_tile(page, "Stops", totals->stops,
             report->stop_count > 0 ? "each with its receipt below" : "nothing was stopped");
    page_put(page, "</ul>\n");
}

static void html_put_fact(struct page *page, const char *name, const char *value, bool code)
{
    page_put(page, "<li><span>%s</span><span%s>", name, code ? " class=\"mono\"" : "");
    html_put_text(page, value);
    page_put(page, "</span></li>\n");
}

static void put_facts(struct page *page, struct report *report)
{
    const struct bl_feature_view *view = report->view;
    page_put(page, "<ul class=\"facts card\">\n");
    html_put_fact(page, "Started", report_time(&report->arena, view->started_wall_ns), false);
    html_put_fact(page, "Ended", report_time(&report->arena, view->ended_wall_ns), false);
    html_put_fact(page, "Base", view->base_commit, true);
    html_put_fact(page, "Result", view->result_commit, true);
    html_put_fact(page, "Branch", view->result_branch, true);
    html_put_fact(page, "Run", view->run_id, true);
    html_put_fact(page, "Plan", view->plan_digest, true);
    html_put_fact(page, "Folder", view->repository, true);
    page_put(page, "</ul>\n");
}

static void put_alerts(struct page *page, const struct bl_feature_view *view)
{
    if (view->error != NULL) {
        page_put(page, "<div class=\"card alert\" role=\"note\"><p><b>Error:</b> ");
        html_put_text(page, view->error->message);
        page_put(page, "</p>");
        if (view->error->hint[0] != '\0') {
            page_put(page, "<p class=\"soft\">");
            html_put_text(page, view->error->hint);
            page_put(page, "</p>");
        }
        page_put(page, "</div>\n");
    }
    if (view->reason != NULL) {
        page_put(page,
                 "<div class=\"card alert\" role=\"note\"><p><b>The feature was stopped:</b> ");
        html_put_text(page, view->reason);
        page_put(page, ", by ");
        html_put_text(page, view->origin);
        page_put(page, "</p></div>\n");
    }
    if (view->unverified)
        page_put(page, "<div class=\"card alert warning\" role=\"note\"><p><b>Unverified:</b> the "
                       "gate of a wave could not run.</p></div>\n");
}

/* The background of every track has lines at the ticks and shades over the breaks. */
static void put_grid(struct page *page, const struct report_axis *axis)
{
    page_put(page, ".track{background-image:");
    for (size_t i = 0; i < axis->count; i++) {
        const struct report_stretch *stretch = &axis->stretches[i];
        if (stretch->idle)
            page_put(page,
                     "linear-gradient(90deg,transparent %.3f%%,var(--idle) %.3f%% %.3f%%,"
                     "transparent %.3f%%),",
                     stretch->from * 100, stretch->from * 100, stretch->to * 100,
                     stretch->to * 100);
    }
    for (size_t i = 0; i < axis->tick_count; i++)
        page_put(page,
                 "linear-gradient(90deg,transparent %.3f%%,var(--grid) %.3f%% "
                 "calc(%.3f%% + 1px),transparent calc(%.3f%% + 1px)),",
                 axis->ticks[i].at * 100, axis->ticks[i].at * 100, axis->ticks[i].at * 100,
                 axis->ticks[i].at * 100);
    page_put(page, "none}\n");
}

static void html_put_head(struct page *page, struct report *report)
{
    const struct bl_feature_view *view = report->view;
    page_put(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'\">\n<title>");
    html_put_text(page, view->feature);
    page_put(page, ": ");
    html_put_text(page, view->name);
    page_put(page, "</title>\n<style>\n%s", report_style);
    put_grid(page, &report->axis);
    page_put(page, "</style>\n</head>\n<body>\n<header>\n<p class=\"soft mono\">");
    html_put_text(page, view->feature);
    page_put(page, "</p>\n<h1>");
    html_put_text(page, view->name);
    page_put(page, "</h1>\n<p>");
    report_html_badge(page, view->state, report->state);
    page_put(page, "</p>\n</header>\n<main>\n");
    put_tiles(page, report);
    put_facts(page, report);
    put_alerts(page, view);
}

/* ---- Timeline -------------------------------------------------------------------------------- */

static void put_place(struct page *page, double from, double to)
{
    page_put(page, "style=\"left:%.3f%%;width:%.3f%%\"", from * 100, (to - from) * 100);
}

const char *report_html_phase(enum report_phase phase)
{
    static const char *const classes[] = {"player", "verify", "coach", "other"};
    return classes[phase];
}

/* Returns the class of an outcome with its own style. */
static const char *outcome_class(const char *outcome)
{
    static const char *const known[] = {"stopped", "failed", "running"};
    for (size_t i = 0; i < BL_COUNT(known); i++)
        if (strcmp(outcome, known[i]) == 0)
            return known[i];
    return "";
}

static void put_bar(struct page *page, const struct report_turn *turn, const struct report_bar *bar)
{
    const char *name = report_phase_name(bar->phase);
    char from[32], to[32];
    bl_time_format(bar->from_ms * (int64_t)BL_NS_PER_MS, from);
    bl_time_format(bar->to_ms * (int64_t)BL_NS_PER_MS, to);
    page_put(page, "<span class=\"bar %s %s\" ", report_html_phase(bar->phase),
             outcome_class(bar->outcome));
    put_place(page, bar->from, bar->to);
    page_put(page, " title=\"%s, attempt %u, turn %u: %s, ", name, turn->attempt, turn->turn,
             bar->time);
    html_put_text(page, bar->outcome);
    page_put(page, " (%.8s to %.8s UTC)\">%.1s</span>", from + 11, to + 11,
             bar->to - bar->from >= LETTER_WIDTH ? name : "");
}

static void put_mark(struct page *page, const struct report_mark *mark)
{
    static const char *const classes[] = {"deadline", "merge", "stop"};
    page_put(page, "<span class=\"mark %s%s\" style=\"left:%.3f%%\" title=\"", classes[mark->kind],
             mark->beyond ? " beyond" : "", mark->at * 100);
    html_put_text(page, mark->what);
    page_put(page, "\"></span>");
}

static void put_waits(struct page *page, const struct report *report,
                      const struct report_task *task)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct bl_task_view *view = &task->attempt_views[i];
        int64_t from_ms, to_ms;
        if (!view_time_ms(view->row.started_wall_ns, &from_ms))
            continue;
        if (!view_time_ms(view->row.ended_wall_ns, &to_ms))
            to_ms = report->end_ms;
        page_put(page, "<span class=\"wait\" ");
        put_place(page, report_axis_at(&report->axis, from_ms),
                  report_axis_at(&report->axis, to_ms > from_ms ? to_ms : from_ms));
        page_put(page, "></span>");
    }
}

static void html_put_row(struct page *page, const struct report *report, size_t number)
{
    const struct report_task *task = &report->tasks[number];
    page_put(page, "<div class=\"row\"><div class=\"label\" title=\"");
    html_put_text(page, task->view->row.name.data);
    page_put(page, "\"><b><a href=\"#%s%zu\">", task->turn_count > 0 ? "turns-" : "task-",
             number + 1);
    html_put_text(page, task->view->row.id);
    page_put(page, "</a></b><span>");
    html_put_text(page, task->said);
    page_put(page, "</span></div><div class=\"track\" role=\"img\" aria-label=\"");
    html_put_text(page, task->view->row.id);
    page_put(page, ": %s turns, %s, ", task->turns, task->time);
    html_put_text(page, task->said);
    page_put(page, "\">");
    put_waits(page, report, task);
    for (size_t i = 0; i < task->turn_count; i++) {
        const struct report_turn *turn = &task->all_turns[i];
        if (turn->from >= 0 && turn->to - turn->from >= NUMBER_WIDTH) {
            page_put(page, "<span class=\"turn\" ");
            put_place(page, turn->from, turn->to);
            page_put(page, " title=\"%sturn %u\">%u</span>", turn->merge ? "merge " : "",
                     turn->turn, turn->turn);
        }
        for (size_t k = 0; k < turn->bar_count; k++)
            if (turn->bars[k].from_ms >= 0)
                put_bar(page, turn, &turn->bars[k]);
    }
    for (size_t i = 0; i < task->mark_count; i++)
        put_mark(page, &task->marks[i]);
    page_put(page, "</div></div>\n");
}

static void put_lane(struct page *page, const struct report *report, const struct report_wave *wave)
{
    page_put(page, "<section class=\"lane\" id=\"wave-%u\"><h3>Wave %u ", wave->view->n,
             wave->view->n);
    report_html_badge(page, wave->view->state, wave->view->state);
    page_put(page, "<span class=\"soft\">");
    html_put_text(page, wave->gate);
    page_put(page, "</span><span class=\"soft\">%s</span></h3>\n", wave->time);
    if (wave->view->message != NULL) {
        page_put(page, "<p class=\"small\">");
        html_put_text(page, wave->view->message);
        page_put(page, "</p>\n");
    }
    for (size_t i = 0; i < wave->view->task_count; i++)
        html_put_row(page, report, (size_t)(wave->view->tasks[i] - report->view->tasks));
    page_put(page, "</section>\n");
}

static void html_put_timeline(struct page *page, const struct report *report)
{
    const struct report_axis *axis = &report->axis;
    page_put(page,
             "<h2 id=\"timeline\">Timeline</h2>\n<div class=\"card\">\n<ul class=\"legend\">"
             "<li><span class=\"key player\"></span>Player</li>"
             "<li><span class=\"key verify\"></span>Verify</li>"
             "<li><span class=\"key coach\"></span>Coach</li>"
             "<li><span class=\"key other stopped\"></span>cut off or failed</li>"
             "<li><span class=\"key\"><span class=\"mark stop\"></span></span>stop</li>"
             "<li><span class=\"key\"><span class=\"mark merge\" style=\"top:-18px\"></span></span>"
             "merged</li>"
             "<li><span class=\"key\"><span class=\"mark deadline\"></span></span>deadline "
             "(\xe2\x80\xba after the end)</li></ul>\n"
             "<div class=\"axis\"><div class=\"soft small\">");
    html_put_text(page, report->date);
    page_put(page, "</div><div class=\"ticks\">");
    for (size_t i = 0; i < axis->tick_count; i++)
        page_put(page, "<span style=\"left:%.3f%%\">%s</span>", axis->ticks[i].at * 100,
                 axis->ticks[i].label);
    page_put(page, "</div></div>\n");
    for (size_t i = 0; i < report->view->wave_count; i++)
        put_lane(page, report, &report->waves[i]);
    page_put(page, "</div>\n");
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void html_put_cell(struct page *page, const char *name, const char *value)
{
    page_put(page, "<td class=\"num\" data-name=\"%s\">", name);
    html_put_text(page, value);
    page_put(page, "</td>");
}

static void html_put_tasks(struct page *page, const struct report *report)
{
    const struct report_totals *totals = &report->totals;
    page_put(page, "<h2 id=\"tasks\">Tasks</h2>\n<div class=\"card scroll\"><table class=\"wide\">"
                   "<thead><tr><th>Task</th><th>Result</th><th class=\"num\">Attempts</th>"
                   "<th class=\"num\">Turns</th><th class=\"num\">Time</th>"
                   "<th class=\"num\">Tokens</th><th class=\"num\">Cost</th></tr></thead>\n"
                   "<tbody>\n");
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        page_put(page, "<tr id=\"task-%zu\"><td><b>", i + 1);
        html_put_text(page, task->view->row.id);
        page_put(page, "</b><small>");
        html_put_text(page, task->view->row.name.data);
        page_put(page, "</small></td><td>");
        const char *state = bl_task_state_name(task->view->row.state);
        report_html_badge(page, state, state);
        page_put(page, "<small>");
        if (strcmp(task->said, state) != 0) {
            html_put_text(page, task->said);
            page_put(page, "<br>");
        }
        page_put(page, "verification ");
        html_put_text(page, task->verified);
        page_put(page, "; deadline ");
        html_put_text(page, task->deadline);
        page_put(page, "</small></td>");
        html_put_cell(page, "Attempts", task->attempts);
        html_put_cell(page, "Turns", task->turns);
        html_put_cell(page, "Time", task->time);
        html_put_cell(page, "Tokens", task->tokens);
        html_put_cell(page, "Cost", task->cost);
        page_put(page, "</tr>\n");
    }
    page_put(page, "</tbody>\n<tfoot><tr id=\"total\"><td>Total</td><td>%s</td>", totals->done);
    html_put_cell(page, "Attempts", totals->attempts);
    html_put_cell(page, "Turns", totals->turns);
    html_put_cell(page, "Time", totals->work);
    html_put_cell(page, "Tokens", totals->tokens);
    html_put_cell(page, "Cost", totals->cost);
    page_put(page, "</tr></tfoot></table></div>\n");
}

/* ---- Stops ----------------------------------------------------------------------------------- */

static void html_put_number(struct page *page, const char *number)
{
    page_put(page, "<td class=\"num\">");
    html_put_text(page, number);
    page_put(page, "</td>");
}

static void put_units(struct page *page, struct report *report, const struct bl_list *units,
                      unsigned depth)
{
    struct bl_arena *arena = &report->arena;
    BL_LIST_EACH (link, units) {
        const struct bl_unit_row *unit = BL_CONTAINER(link, struct bl_unit_row, link);
        page_put(page, "<tr><td>%.*s%s", (int)depth * 3, "\xe2\x80\xba\xe2\x80\xba\xe2\x80\xba",
                 depth > 0 ? " " : "");
        html_put_text(page, row_word(unit->kind));
        page_put(page, "</td><td class=\"mono\">");
        html_put_text(page, unit->name != NULL ? unit->name : row_word(unit->id));
        page_put(page, "</td><td>");
        html_put_text(page, row_word(unit->fate));
        page_put(page, "</td>");
        html_put_number(page, report_number(arena, unit->ms));
        html_put_number(page, report_number(arena, unit->has_processes ? unit->processes : -1.0));
        html_put_number(page, report_survivors(arena, unit->survivors));
        page_put(page, "<td>");
        html_put_text(page, row_word(unit->signal));
        page_put(page, "</td><td>");
        html_put_text(page, unit->detail);
        page_put(page, "</td></tr>\n");
        if (depth < 3)
            put_units(page, report, &unit->units, depth + 1);
    }
}

static void html_put_ms(struct page *page, struct report *report, const char *name, double ms)
{
    struct bl_arena *arena = &report->arena;
    html_put_fact(page, name, bl_arena_printf(arena, "%s ms", report_number(arena, ms)).data,
                  false);
}

static void html_put_receipt(struct page *page, struct report *report,
                             const struct report_stop *stop)
{
    const struct bl_receipt_row *receipt = stop->receipt;
    page_put(page, "<ul class=\"facts small\">\n");
    html_put_fact(page, "Receipt", stop->receipt_id, true);
    html_put_fact(page, "Scope", receipt->scope, true);
    html_put_ms(page, report, "Seen after", receipt->observed_ms);
    html_put_ms(page, report, "Quiet after", receipt->quiet_ms);
    html_put_fact(page, "Held by", row_word(receipt->mechanism), false);
    html_put_fact(page, "Survivors", report_survivors(&report->arena, receipt->survivors), false);
    page_put(page, "</ul>\n");
    if (bl_list_empty(&receipt->units))
        return;
    page_put(page, "<div class=\"scroll\"><table class=\"inner\"><thead><tr><th>Unit</th>"
                   "<th>Name</th><th>Fate</th><th class=\"num\">ms</th>"
                   "<th class=\"num\">Processes</th><th class=\"num\">Survivors</th>"
                   "<th>Signal</th><th>Detail</th></tr></thead><tbody>\n");
    put_units(page, report, &receipt->units, 0);
    page_put(page, "</tbody></table></div>\n");
}

static void html_put_checkpoint(struct page *page, const struct bl_checkpoint *checkpoint)
{
    page_put(page, "<p class=\"small\"><b>Checkpoint:</b> turn %u, ", checkpoint->turn);
    html_put_text(page, row_word(checkpoint->phase));
    page_put(page, ", ");
    html_put_text(page, row_word(checkpoint->marker));
    page_put(page, ", %zu uncommitted file%s", checkpoint->dirty_count,
             checkpoint->dirty_count == 1 ? "" : "s");
    if (checkpoint->late_verdict.size > 0)
        page_put(page, ", a late verdict");
    page_put(page, "</p>\n");
    for (size_t i = 0; i < checkpoint->dirty_count; i++) {
        page_put(page, "<div class=\"mono soft\">");
        html_put_text(page, checkpoint->dirty_files[i]);
        page_put(page, "</div>\n");
    }
}

static void html_put_stops(struct page *page, struct report *report)
{
    page_put(page, "<h2 id=\"stops\">Stops</h2>\n");
    if (report->stop_count == 0)
        page_put(page, "<p class=\"soft\">None.</p>\n");
    for (size_t i = 0; i < report->stop_count; i++) {
        const struct report_stop *stop = &report->stops[i];
        page_put(page, "<details class=\"stop\"><summary><b>");
        html_put_text(page, stop->what);
        page_put(page, "</b>");
        if (stop->attempt > 0)
            page_put(page, ", attempt %u", stop->attempt);
        page_put(page, ": ");
        html_put_text(page, stop->cause);
        page_put(page, " <span class=\"soft small\">");
        html_put_text(page, stop->at);
        page_put(page, "</span><br>");
        html_put_text(page, stop->sentence);
        page_put(page, "</summary><div class=\"body\">\n");
        if (stop->receipt != NULL)
            html_put_receipt(page, report, stop);
        if (stop->checkpoint != NULL)
            html_put_checkpoint(page, stop->checkpoint);
        page_put(page, "</div></details>\n");
    }
}

/* ---- The whole file -------------------------------------------------------------------------- */

static void html_put_warnings(struct page *page, const struct bl_feature_view *view)
{
    if (view->warning_count == 0)
        return;
    page_put(page, "<h2 id=\"warnings\">Warnings</h2>\n<div class=\"card\">\n");
    for (size_t i = 0; i < view->warning_count; i++) {
        page_put(page, "<p>");
        html_put_text(page, view->warnings[i].message.data);
        page_put(page, "</p>\n");
    }
    page_put(page, "</div>\n");
}

int bl_feature_report_html(const struct bl_feature_view *view, struct bl_buffer *out)
{
    struct report *report = bl_zalloc(sizeof *report);
    struct page page = {.out = out};
    report_make(view, report);
    html_put_head(&page, report);
    html_put_timeline(&page, report);
    html_put_tasks(&page, report);
    html_put_stops(&page, report);
    report_html_turns(&page, report);
    html_put_warnings(&page, view);
    page_put(&page, "</main>\n<footer>Generated by belay from the records of this feature. "
                    "All times are UTC; " REPORT_UNKNOWN " means unknown.</footer>\n"
                    "</body>\n</html>\n");
    report_done(report);
    bl_free(report);
    return page.code;
}
