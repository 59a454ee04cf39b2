/* Positions on the time axis. A run that was resumed the next day is two stretches with a break
 * between them, not two dots at the ends of a line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"

#define DAY_MS         86400000
#define BREAK_MS_MIN   30000 /* shorter breaks are drawn to scale */
#define BREAK_SHARE    0.20  /* so are breaks shorter than this share of all work */
#define IDLE_WIDTH     0.03
#define IDLE_WIDTH_MAX 0.30 /* for all breaks together */
#define REACH          0.25 /* share of all work: deadlines this soon after the end are drawn too */
#define TICKS          6
#define TICK_GAP       0.15 /* width of an 8-character label on a small screen */

struct interval {
    int64_t from_ms;
    int64_t to_ms;
};

struct intervals {
    struct interval *all;
    size_t count;
    size_t capacity;
};

static void axis_add(struct intervals *list, int64_t from_ms, int64_t to_ms)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->all = bl_realloc(list->all, list->capacity * sizeof *list->all);
    }
    list->all[list->count++] = (struct interval){from_ms, to_ms > from_ms ? to_ms : from_ms};
}

static void add_view(struct intervals *list, const struct report *report,
                     const struct bl_task_view *task)
{
    int64_t from_ms, to_ms;
    if (!view_time_ms(task->row.started_wall_ns, &from_ms))
        return;
    if (!view_time_ms(task->row.ended_wall_ns, &to_ms))
        to_ms = task->row.elapsed_s >= 0 ? from_ms + (int64_t)(task->row.elapsed_s * 1000)
                                         : report->end_ms;
    axis_add(list, from_ms, to_ms);
}

static void axis_collect(struct intervals *list, const struct report *report)
{
    int64_t at_ms;
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        for (size_t k = 0; k < task->attempt_count; k++)
            add_view(list, report, &task->attempt_views[k]);
        for (size_t k = 0; k < task->turn_count; k++) {
            const struct report_turn *turn = &task->all_turns[k];
            for (size_t b = 0; b < turn->bar_count; b++)
                if (turn->bars[b].from_ms >= 0)
                    axis_add(list, turn->bars[b].from_ms, turn->bars[b].to_ms);
        }
    }
    for (size_t i = 0; i < report->view->wave_count; i++)
        if (view_time_ms(report->view->waves[i].ended_wall_ns, &at_ms))
            axis_add(list, at_ms, at_ms);
    if (view_time_ms(report->view->started_wall_ns, &at_ms))
        axis_add(list, at_ms, at_ms);
}

static int compare_intervals(const void *left, const void *right)
{
    const struct interval *a = left, *b = right;
    return a->from_ms < b->from_ms ? -1 : a->from_ms > b->from_ms;
}

/* Joins intervals that are at most `gap_ms` apart. The list must be sorted. */
static void axis_join(struct intervals *list, int64_t gap_ms)
{
    size_t kept = 0;
    for (size_t i = 1; i < list->count; i++) {
        struct interval *last = &list->all[kept], *next = &list->all[i];
        if (next->from_ms - last->to_ms <= gap_ms)
            last->to_ms = next->to_ms > last->to_ms ? next->to_ms : last->to_ms;
        else
            list->all[++kept] = *next;
    }
    list->count = list->count > 0 ? kept + 1 : 0;
}

static int64_t sum(const struct intervals *list)
{
    int64_t total_ms = 0;
    for (size_t i = 0; i < list->count; i++)
        total_ms += list->all[i].to_ms - list->all[i].from_ms;
    return total_ms;
}

/* Extends the axis to a deadline soon after the end, to show how close it was. */
static void reach_deadlines(struct interval *last, const struct report *report, int64_t total_ms)
{
    int64_t reach_ms = last->to_ms + (int64_t)((double)total_ms * REACH), to_ms = last->to_ms;
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        const struct bl_task_view *newest =
            task->attempt_count > 0 ? &task->attempt_views[task->attempt_count - 1] : task->view;
        int64_t at_ms;
        if (newest->deadline_s < 0 || !view_time_ms(newest->row.started_wall_ns, &at_ms))
            continue;
        at_ms += (int64_t)(newest->deadline_s * 1000);
        if (at_ms > to_ms && at_ms <= reach_ms)
            to_ms = at_ms;
    }
    last->to_ms = to_ms;
}

static void make_stretches(struct report *report, const struct intervals *list, int64_t total_ms)
{
    struct report_axis *axis = &report->axis;
    size_t breaks = list->count - 1;
    double idle = breaks > 0 ? fmin(IDLE_WIDTH, IDLE_WIDTH_MAX / (double)breaks) : 0;
    double busy = 1 - idle * (double)breaks, at = 0;
    axis->stretches = bl_arena_zalloc(&report->arena, sizeof *axis->stretches * (2 * list->count));
    for (size_t i = 0; i < list->count; i++) {
        const struct interval *work = &list->all[i];
        double width = busy * (double)(work->to_ms - work->from_ms) / (double)total_ms;
        if (i > 0) {
            axis->stretches[axis->count++] =
                (struct report_stretch){list->all[i - 1].to_ms, work->from_ms, at, at + idle, true};
            at += idle;
        }
        axis->stretches[axis->count++] =
            (struct report_stretch){work->from_ms, work->to_ms, at, at + width, false};
        at += width;
    }
    axis->stretches[axis->count - 1].to = 1;
}

double report_axis_at(const struct report_axis *axis, int64_t wall_ms)
{
    for (size_t i = 0; i < axis->count; i++) {
        const struct report_stretch *stretch = &axis->stretches[i];
        if (wall_ms > stretch->to_ms)
            continue;
        if (wall_ms <= stretch->from_ms || stretch->to_ms == stretch->from_ms)
            return stretch->from;
        double part =
            (double)(wall_ms - stretch->from_ms) / (double)(stretch->to_ms - stretch->from_ms);
        return stretch->from + part * (stretch->to - stretch->from);
    }
    return axis->count > 0 ? 1 : 0;
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static int64_t tick_step_ms(int64_t total_ms)
{
    static const int64_t steps_s[] = {1,   2,   5,    10,   15,   30,    60,    120,   300,
                                      600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400};
    for (int64_t step_ms = 1; step_ms < 1000; step_ms *= 10) {
        if (total_ms <= step_ms * TICKS)
            return step_ms;
        if (total_ms <= 2 * step_ms * TICKS)
            return 2 * step_ms;
        if (total_ms <= 5 * step_ms * TICKS)
            return 5 * step_ms;
    }
    for (size_t i = 0; i < BL_COUNT(steps_s); i++)
        if (total_ms <= steps_s[i] * 1000 * TICKS)
            return steps_s[i] * 1000;
    return (total_ms / TICKS / 86400000 + 1) * 86400000;
}

/* Formats "+30 s" or "+1h 30m". */
static const char *offset_label(struct bl_arena *arena, int64_t ms)
{
    char text[32];

    bl_duration_format(ms * (int64_t)BL_NS_PER_MS, text);
    return bl_arena_printf(arena, "+%s", text).data;
}

/* Formats the time of day, with the date if it is not the first day. */
static const char *clock_label(struct bl_arena *arena, int64_t wall_ms, int64_t first_ms)
{
    bool another_day = wall_ms / DAY_MS != first_ms / DAY_MS;
    char time[32];
    bl_time_format(wall_ms * (int64_t)BL_NS_PER_MS, time);
    time[10] = ' ';
    return bl_arena_printf(arena, "%.*s", another_day ? 14 : 8, time + (another_day ? 5 : 11)).data;
}

static const char *date_label(struct bl_arena *arena, int64_t wall_ms)
{
    char time[32];
    bl_time_format(wall_ms * (int64_t)BL_NS_PER_MS, time);
    return bl_arena_printf(arena, "%.10s UTC", time).data;
}

/* Returns the width of a label and a small gap. */
static double axis_label_width(const char *label)
{
    return fmax(TICK_GAP * (double)strlen(label) / 8, TICK_GAP / 2);
}

static void add_tick(struct report *report, const struct report_stretch *stretch, int64_t at_ms)
{
    struct report_axis *axis = &report->axis;
    struct report_tick *last = axis->tick_count > 0 ? &axis->ticks[axis->tick_count - 1] : NULL;
    bool first = at_ms == stretch->from_ms;
    struct report_tick tick = {
        .at = report_axis_at(axis, at_ms),
        .first = first,
        .label = first ? clock_label(&report->arena, at_ms, axis->stretches[0].from_ms)
                       : offset_label(&report->arena, at_ms - stretch->from_ms),
    };
    bool near = last != NULL && tick.at - last->at < axis_label_width(last->label);
    /* The start of a stretch is more important than an offset in the one before. */
    if (near && first && !last->first)
        axis->tick_count--;
    else if (near ||
             (!first && tick.at + axis_label_width(tick.label) > stretch->to + TICK_GAP / 3))
        return;
    axis->ticks[axis->tick_count++] = tick;
}

static void make_ticks(struct report *report, int64_t total_ms)
{
    struct report_axis *axis = &report->axis;
    int64_t step_ms = tick_step_ms(total_ms);
    /* Ticks of a stretch are one step apart, and each stretch starts with one. */
    size_t most = axis->count + (size_t)(total_ms / step_ms) + 1;
    axis->ticks = bl_arena_alloc(&report->arena, sizeof *axis->ticks * most);
    for (size_t i = 0; i < axis->count; i++) {
        const struct report_stretch *stretch = &axis->stretches[i];
        for (int64_t at_ms = stretch->from_ms; !stretch->idle && at_ms <= stretch->to_ms;
             at_ms += step_ms)
            add_tick(report, stretch, at_ms);
    }
}

/* ---- Placing everything ---------------------------------------------------------------------- */

static void place_turn(const struct report_axis *axis, struct report_turn *turn)
{
    turn->from = turn->to = -1;
    for (size_t i = 0; i < turn->bar_count; i++) {
        struct report_bar *bar = &turn->bars[i];
        if (bar->from_ms < 0)
            continue;
        bar->from = report_axis_at(axis, bar->from_ms);
        bar->to = report_axis_at(axis, bar->to_ms);
        if (turn->from < 0 || bar->from < turn->from)
            turn->from = bar->from;
        turn->to = fmax(turn->to, bar->to);
    }
}

void report_place(struct report *report)
{
    struct intervals list = {0};
    axis_collect(&list, report);
    if (list.count > 0) {
        qsort(list.all, list.count, sizeof *list.all, compare_intervals);
        axis_join(&list, 0);
        int64_t work_ms = sum(&list), gap_ms = (int64_t)((double)work_ms * BREAK_SHARE);
        axis_join(&list, gap_ms > BREAK_MS_MIN ? gap_ms : BREAK_MS_MIN);
        reach_deadlines(&list.all[list.count - 1], report, sum(&list));
        int64_t total_ms = sum(&list);
        if (total_ms == 0)
            list.all[0].to_ms += total_ms = 1;
        make_stretches(report, &list, total_ms);
        make_ticks(report, total_ms);
        report->date = date_label(&report->arena, list.all[0].from_ms);
    }
    bl_free(list.all);
    for (size_t i = 0; i < report->view->task_count; i++)
        for (size_t k = 0; k < report->tasks[i].turn_count; k++)
            place_turn(&report->axis, &report->tasks[i].all_turns[k]);
}
