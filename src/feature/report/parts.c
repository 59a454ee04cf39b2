/* Computes the numbers of a report and groups its parts. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_BYTES ((size_t)4096)
#define STATES_MAX     ((size_t)4096)

/* ---- Pages ----------------------------------------------------------------------------------- */

void page_put(struct page *page, const char *format, ...)
{
    va_list arguments;
    if (page->code != 0)
        return;
    va_start(arguments, format);
    page->code = bl_buffer_vprintf(page->out, format, arguments);
    va_end(arguments);
}

void page_clean(struct page *page, const char *text, enum clean_form form)
{
    if (page->code == 0)
        page->code =
            clean_append(page->out, bl_text_from(text != NULL ? text : REPORT_UNKNOWN), form);
}

/* ---- Formatting numbers ---------------------------------------------------------------------- */

const char *report_time(struct bl_arena *arena, int64_t wall_ns)
{
    char text[32];
    if (wall_ns == 0)
        return NULL;
    bl_time_format(wall_ns, text);
    return bl_arena_text(arena, bl_text_from(text)).data;
}

const char *report_seconds(struct bl_arena *arena, double seconds)
{
    char text[32];
    if (!(seconds >= 0) || seconds > 1e9)
        return REPORT_UNKNOWN;
    bl_duration_format((int64_t)(seconds * 1e9), text);
    return bl_arena_text(arena, bl_text_from(text)).data;
}

static const char *thousands(struct bl_arena *arena, uint64_t value)
{
    char digits[32], out[48];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, value), at = 0;
    for (int i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    return bl_arena_text(arena, (struct bl_text){out, (size_t)at}).data;
}

const char *report_number(struct bl_arena *arena, double number)
{
    char text[32];
    if (!(number >= 0))
        return REPORT_UNKNOWN;
    if (number == trunc(number) && number < 1e15)
        return thousands(arena, (uint64_t)number);
    size_t size = bl_json_format_double(number, text);
    return bl_arena_text(arena, (struct bl_text){text, size}).data;
}

const char *report_survivors(struct bl_arena *arena, uint32_t survivors)
{
    return report_number(arena, survivors == BL_SURVIVORS_UNKNOWN ? -1.0 : survivors);
}

static const char *count_text(struct bl_arena *arena, uint64_t count)
{
    return bl_arena_printf(arena, "%" PRIu64, count).data;
}

static const char *parts_tokens_text(struct bl_arena *arena, const struct bl_spent *spent,
                                     bool known)
{
    return known ? thousands(arena, bl_usage_total(&spent->usage)) : REPORT_UNKNOWN;
}

static const char *parts_cost_text(struct bl_arena *arena, const struct bl_spent *spent, bool known)
{
    if (!known || spent->cost_unknown || !isfinite(spent->cost_usd))
        return REPORT_UNKNOWN;
    return bl_arena_printf(arena, "$%.4f", spent->cost_usd).data;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

const char *report_phase_name(enum report_phase phase)
{
    static const char *const names[] = {"Player", "Verify", "Coach", "Other"};
    return names[phase];
}

static enum report_phase parts_phase_of(enum bl_task_phase phase)
{
    if (phase == BL_PHASE_PLAYER)
        return REPORT_PLAYER;
    if (phase == BL_PHASE_VERIFY)
        return REPORT_VERIFY;
    return phase == BL_PHASE_COACH ? REPORT_COACH : REPORT_OTHER;
}

/* Makes a bar. A phase that was taken over ran in another turn: it is listed, but not drawn. */
static void make_bar(struct report *report, const struct turn_phase *phase, struct report_bar *bar)
{
    const char *outcome = bl_names_get(&turn_phase_states, phase->state);
    bar->phase = parts_phase_of(phase->phase);
    bar->outcome = outcome != NULL ? outcome : "";
    bar->time = REPORT_UNKNOWN;
    if (phase->state == TURN_PHASE_CARRIED ||
        !view_time_ms(phase->started_wall_ns, &bar->from_ms)) {
        bar->from_ms = -1;
        return;
    }
    if (!view_time_ms(phase->ended_wall_ns, &bar->to_ms)) {
        bool told = phase->ms >= 0 && phase->ms <= (int64_t)1e12;
        bar->to_ms = told ? bar->from_ms + phase->ms : report->end_ms;
    }
    if (bar->to_ms < bar->from_ms)
        bar->to_ms = bar->from_ms;
    bar->time = report_seconds(&report->arena, (double)(bar->to_ms - bar->from_ms) / 1000);
}

/* Reads the Player's summary and the Coach's verdict. */
static void parts_read_words(struct bl_arena *arena, struct report_turn *turn)
{
    struct player_result result;
    struct bl_text problem;
    struct verdict_said said;
    player_result_parse(arena, turn->row->result.json, &result, &problem);
    bl_record_take(arena, &verdict_said_record, view_record_read(arena, turn->row->verdict.json),
                   &said);
    turn->summary = result.summary.size > 0 ? result.summary.data : NULL;
    turn->rationale = said.rationale.size > 0 ? said.rationale.data : NULL;
    turn->criteria =
        bl_arena_alloc(arena, (bl_json_size(said.criteria) + 1) * sizeof *turn->criteria);
    BL_JSON_EACH (criterion, said.criteria)
        bl_record_take(arena, &criterion_record, criterion,
                       &turn->criteria[turn->criterion_count++]);
}

static void make_turn(struct report *report, const struct task_turn *row, struct report_turn *turn)
{
    bool known = bl_usage_total(&row->spent.usage) > 0;
    int64_t from_ms, to_ms;
    turn->row = row;
    turn->attempt = row->attempt;
    turn->turn = row->number;
    turn->merge = row->merge;
    turn->counted = row->counted;
    turn->decision = row->decision != NULL ? row->decision : REPORT_UNKNOWN;
    turn->verified = row->verified ? bl_verified_name(row->verify.value) : REPORT_UNKNOWN;
    turn->tokens = parts_tokens_text(&report->arena, &row->spent, known);
    turn->cost = parts_cost_text(&report->arena, &row->spent, known);
    turn->time = REPORT_UNKNOWN;
    if (view_time_ms(row->started_wall_ns, &from_ms)) {
        if (!view_time_ms(row->ended_wall_ns, &to_ms))
            to_ms = report->end_ms;
        turn->time = report_seconds(&report->arena, fmax((double)(to_ms - from_ms) / 1000, 0));
    }
    turn->bars = bl_arena_zalloc(&report->arena, sizeof *turn->bars * (row->phase_count + 1));
    for (size_t i = 0; i < row->phase_count; i++)
        make_bar(report, &row->phases[i], &turn->bars[turn->bar_count++]);
    parts_read_words(&report->arena, turn);
}

static int compare_turns(const void *left, const void *right)
{
    const struct report_turn *a = left, *b = right;
    if (a->attempt != b->attempt)
        return a->attempt < b->attempt ? -1 : 1;
    return a->turn < b->turn ? -1 : a->turn > b->turn;
}

const struct bl_list *report_list(const struct bl_list *list)
{
    static const struct bl_list none = {(struct bl_list *)(uintptr_t)&none,
                                        (struct bl_list *)(uintptr_t)&none};
    return list->next != NULL ? list : &none;
}

/* Returns NULL if there is no task with that id. */
static struct report_task *parts_task_of(struct report *report, const struct bl_map *numbers,
                                         struct bl_text id)
{
    size_t number = (size_t)(uintptr_t)bl_map_get(numbers, id);
    return number > 0 ? &report->tasks[number - 1] : NULL;
}

/* Finds the task of a record "attempt/TASK/N". */
static struct report_task *parts_task_named(struct report *report, const struct bl_map *numbers,
                                            const char *name)
{
    const char *id = strchr(name, '/'), *end = strrchr(name, '/');
    if (id == NULL || end == id)
        return NULL;
    return parts_task_of(report, numbers, (struct bl_text){id + 1, (size_t)(end - id - 1)});
}

/* Distributes the turns among their tasks: first counts, then fills. */
static void share_turns(struct report *report, const struct bl_map *numbers)
{
    struct bl_arena *arena = &report->arena;
    size_t count = 0, at = 0;
    BL_LIST_EACH (link, report_list(&report->view->turns))
        count++;
    struct task_turn **rows = bl_arena_alloc(arena, sizeof *rows * (count + 1));
    BL_LIST_EACH (link, report_list(&report->view->turns)) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct task_turn *row = bl_arena_alloc(arena, sizeof *row);
        if (!task_turn_read(arena, record->json, row))
            continue;
        struct report_task *task = parts_task_of(report, numbers, bl_text_from(row->task));
        if (task == NULL)
            continue;
        rows[at++] = row;
        task->turn_count++;
    }
    for (size_t i = 0; i < report->view->task_count; i++) {
        struct report_task *task = &report->tasks[i];
        task->all_turns = bl_arena_zalloc(arena, sizeof *task->all_turns * (task->turn_count + 1));
        task->turn_count = 0;
    }
    for (size_t i = 0; i < at; i++) {
        struct report_task *task = parts_task_of(report, numbers, bl_text_from(rows[i]->task));
        make_turn(report, rows[i], &task->all_turns[task->turn_count++]);
    }
    for (size_t i = 0; i < report->view->task_count; i++)
        qsort(report->tasks[i].all_turns, report->tasks[i].turn_count,
              sizeof *report->tasks[i].all_turns, compare_turns);
}

/* Reads the earlier attempts from their rows. The newest is the task's own row. */
static void share_attempts(struct report *report, const struct bl_map *numbers)
{
    struct bl_arena *arena = &report->arena;
    for (size_t i = 0; i < report->view->task_count; i++) {
        struct report_task *task = &report->tasks[i];
        task->attempt_views =
            bl_arena_zalloc(arena, sizeof *task->attempt_views * (task->attempt_count + 1));
        task->attempt_count = 0;
    }
    BL_LIST_EACH (link, report_list(&report->view->attempts)) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct report_task *task = parts_task_named(report, numbers, record->name);
        if (task == NULL)
            continue;
        struct bl_task_view *view = &task->attempt_views[task->attempt_count];
        *view = (struct bl_task_view){.deadline_s = -1};
        view_task_read(arena, view_record_read(arena, record->json),
                       report->end_ms * (int64_t)BL_NS_PER_MS, view);
        if (view->row.attempt < task->view->row.attempt)
            task->attempt_count++;
    }
    for (size_t i = 0; i < report->view->task_count; i++) {
        struct report_task *task = &report->tasks[i];
        task->attempt_views[task->attempt_count++] = *task->view;
    }
}

static void count_attempts(struct report *report, const struct bl_map *numbers)
{
    BL_LIST_EACH (link, report_list(&report->view->attempts)) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct report_task *task = parts_task_named(report, numbers, record->name);
        if (task != NULL)
            task->attempt_count++;
    }
}

/* ---- The newest known time ------------------------------------------------------------------- */

static void later(int64_t *at_ms, int64_t wall_ns)
{
    int64_t other_ms;
    if (view_time_ms(wall_ns, &other_ms) && other_ms > *at_ms)
        *at_ms = other_ms;
}

/* Returns the newest known time. For running tasks that is the time of the view. */
static int64_t end_of(const struct bl_feature_view *view)
{
    int64_t end_ms = 0, started_ms;
    later(&end_ms, view->started_wall_ns);
    later(&end_ms, view->ended_wall_ns);
    for (size_t i = 0; i < view->wave_count; i++)
        later(&end_ms, view->waves[i].ended_wall_ns);
    for (size_t i = 0; i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        later(&end_ms, task->row.ended_wall_ns);
        later(&end_ms, task->row.active_wall_ns);
        bool live = task->row.state == BL_TASK_RUNNING || task->row.state == BL_TASK_STOPPING;
        if (live && task->row.elapsed_s >= 0 &&
            view_time_ms(task->row.started_wall_ns, &started_ms)) {
            int64_t now_ms = started_ms + (int64_t)(task->row.elapsed_s * 1000);
            end_ms = now_ms > end_ms ? now_ms : end_ms;
        }
    }
    return end_ms;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Returns a negative value if no attempt has a known duration. */
static double work_seconds(const struct report_task *task)
{
    double total_s = -1;
    for (size_t i = 0; i < task->attempt_count; i++) {
        double elapsed_s = task->attempt_views[i].row.elapsed_s;
        if (elapsed_s >= 0)
            total_s = fmax(total_s, 0) + elapsed_s;
    }
    return total_s;
}

static const char *deadline_text(struct bl_arena *arena, const struct bl_task_view *task)
{
    const char *deadline = report_seconds(arena, task->deadline_s);
    if (task->deadline_s < 0 || !(task->row.grace_s > 0))
        return deadline;
    return bl_arena_printf(arena, "%s + %s coach grace", deadline,
                           report_seconds(arena, task->row.grace_s))
        .data;
}

static const char *clean_line(struct bl_arena *arena, const char *text)
{
    BL_AUTO_BUFFER(out, LINE_MAX_BYTES);
    clean_append(&out, bl_text_from(text), CLEAN_LINE);
    return bl_arena_text(arena, bl_buffer_text(&out)).data;
}

static void parts_make_task(struct report *report, struct report_task *task)
{
    struct bl_arena *arena = &report->arena;
    const struct bl_task_view *view = task->view;
    bool on_record = view->json != NULL || view->row.attempt > 0;
    task->id = clean_line(arena, view->row.id);
    task->said = bl_task_view_text(arena, view).data;
    task->attempts = on_record ? count_text(arena, view->row.attempt) : REPORT_UNKNOWN;
    if (!on_record)
        task->turns = REPORT_UNKNOWN;
    else if (view->row.turns_max > 0)
        task->turns =
            bl_arena_printf(arena, "%u/%u", view->row.turns_counted, view->row.turns_max).data;
    else
        task->turns = count_text(arena, view->row.turns_counted);
    task->verified = view->row.verified == BL_VERIFIED_UNKNOWN ? REPORT_UNKNOWN
                     : view->row.verified == BL_VERIFIED_NONE
                         ? "none declared"
                         : bl_verified_name(view->row.verified);
    task->time = report_seconds(arena, work_seconds(task));
    task->deadline = deadline_text(arena, view);
    task->tokens = parts_tokens_text(arena, &view->row.spent, view->row.spent_known);
    task->cost = parts_cost_text(arena, &view->row.spent, view->row.spent_known);
}

/* ---- Marks ----------------------------------------------------------------------------------- */

static void add_mark(struct report *report, struct report_task *task, enum report_mark_kind kind,
                     int64_t at_ms, struct bl_text what)
{
    const struct report_axis *axis = &report->axis;
    task->marks[task->mark_count++] = (struct report_mark){
        .kind = kind,
        .at = report_axis_at(axis, at_ms),
        .beyond = axis->count > 0 && at_ms > axis->stretches[axis->count - 1].to_ms,
        .what = what.data,
    };
}

static void make_marks(struct report *report, struct report_task *task)
{
    struct bl_arena *arena = &report->arena;
    const struct bl_wave_view *wave =
        task->view->row.wave > 0 && task->view->row.wave <= report->view->wave_count
            ? &report->view->waves[task->view->row.wave - 1]
            : NULL;
    int64_t at_ms;
    task->marks = bl_arena_zalloc(arena, sizeof *task->marks * (2 * task->attempt_count + 1));
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct bl_task_view *view = &task->attempt_views[i];
        if (view->deadline_s >= 0 && view_time_ms(view->row.started_wall_ns, &at_ms))
            add_mark(report, task, REPORT_DEADLINE, at_ms + (int64_t)(view->deadline_s * 1000),
                     bl_arena_printf(arena, "deadline of attempt %u: %s", view->row.attempt,
                                     deadline_text(arena, view)));
    }
    if (task->view->row.merged && wave != NULL &&
        (view_time_ms(task->view->row.merged_wall_ns, &at_ms) ||
         view_time_ms(wave->ended_wall_ns, &at_ms) ||
         view_time_ms(task->view->row.ended_wall_ns, &at_ms)))
        add_mark(report, task, REPORT_MERGED, at_ms, BL_TEXT("merged"));
    for (size_t i = 0; i < report->stop_count; i++) {
        const struct report_stop *stop = &report->stops[i];
        if (stop->attempt > 0 && strcmp(stop->what, task->view->row.id) == 0 &&
            view_time_read(stop->at, &at_ms))
            add_mark(report, task, REPORT_STOPPED, at_ms,
                     bl_arena_printf(arena, "attempt %u stopped: %s", stop->attempt, stop->cause));
    }
}

/* ---- Waves and totals ------------------------------------------------------------------------ */

static void make_wave(struct report *report, const struct bl_wave_view *view,
                      struct report_wave *wave)
{
    static const char *const words[][2] = {
        {"none", "no gate"},
        {"passed", "gate passed"},
        {"failed", "gate failed"},
        {"absent", "unverified: the gate could not run"},
    };
    int64_t from_ms, to_ms;
    wave->view = view;
    wave->time = REPORT_UNKNOWN;
    if (view_time_ms(view->started_wall_ns, &from_ms)) {
        if (!view_time_ms(view->ended_wall_ns, &to_ms))
            to_ms = report->end_ms;
        wave->time = report_seconds(&report->arena, fmax((double)(to_ms - from_ms) / 1000, 0));
    }
    wave->gate = view->gate != NULL ? view->gate : "gate not run";
    for (size_t i = 0; view->gate != NULL && i < BL_COUNT(words); i++)
        if (strcmp(view->gate, words[i][0]) == 0)
            wave->gate = words[i][1];
}

static const char *states_text(struct bl_arena *arena, const struct bl_feature_view *view)
{
    BL_AUTO_BUFFER(out, STATES_MAX);
    for (size_t i = 0; i < BL_COUNT(view->counts); i++)
        if (view->counts[i] > 0)
            bl_buffer_printf(&out, "%s%zu %s", out.size > 0 ? ", " : "", view->counts[i],
                             bl_task_state_name((enum bl_task_state)i));
    struct bl_text text = bl_buffer_text(&out);
    return text.size > 0 ? bl_arena_text(arena, text).data : REPORT_UNKNOWN;
}

static void make_totals(struct report *report)
{
    struct bl_arena *arena = &report->arena;
    const struct bl_feature_view *view = report->view;
    struct report_totals *totals = &report->totals;
    uint64_t attempts = 0, turns = 0;
    double work_s = -1;
    int64_t from_ms, to_ms;
    for (size_t i = 0; i < view->task_count; i++) {
        double seconds = work_seconds(&report->tasks[i]);
        attempts += view->tasks[i].row.attempt;
        turns += view->tasks[i].row.turns_counted;
        if (seconds >= 0)
            work_s = fmax(work_s, 0) + seconds;
    }
    totals->done = bl_arena_printf(arena, "%zu/%zu",
                                   view->counts[BL_TASK_COMPLETED] + view->counts[BL_TASK_DEFERRED],
                                   view->task_count)
                       .data;
    totals->states = states_text(arena, view);
    totals->attempts = count_text(arena, attempts);
    totals->turns = count_text(arena, turns);
    totals->time = REPORT_UNKNOWN;
    if (view_time_ms(view->started_wall_ns, &from_ms)) {
        if (!view_time_ms(view->ended_wall_ns, &to_ms))
            to_ms = report->end_ms;
        totals->time = report_seconds(arena, fmax((double)(to_ms - from_ms) / 1000, 0));
    }
    totals->work = report_seconds(arena, work_s);
    bool known = view->spent_known;
    totals->input_tokens =
        known ? thousands(arena, view->spent.usage.input_tokens) : REPORT_UNKNOWN;
    totals->output_tokens =
        known ? thousands(arena, view->spent.usage.output_tokens) : REPORT_UNKNOWN;
    totals->tokens = parts_tokens_text(arena, &view->spent, known);
    totals->cost = parts_cost_text(arena, &view->spent, known);
    totals->stops = count_text(arena, report->stop_count);
}

/* ---- The whole report ------------------------------------------------------------------------ */

void report_make(const struct bl_feature_view *view, struct report *report)
{
    struct bl_map numbers;
    *report = (struct report){.view = view, .end_ms = end_of(view)};
    bl_arena_init(&report->arena);
    bl_map_init(&numbers);
    report->tasks = bl_arena_zalloc(&report->arena, sizeof *report->tasks * (view->task_count + 1));
    report->waves = bl_arena_zalloc(&report->arena, sizeof *report->waves * (view->wave_count + 1));
    for (size_t i = 0; i < view->task_count; i++) {
        report->tasks[i].view = &view->tasks[i];
        bl_map_set(&numbers, bl_text_from(view->tasks[i].row.id), (void *)(uintptr_t)(i + 1), NULL);
    }
    count_attempts(report, &numbers);
    share_attempts(report, &numbers);
    share_turns(report, &numbers);
    bl_map_done(&numbers);
    report_stops_make(report);
    report_place(report);
    for (size_t i = 0; i < view->task_count; i++) {
        parts_make_task(report, &report->tasks[i]);
        make_marks(report, &report->tasks[i]);
    }
    for (size_t i = 0; i < view->wave_count; i++)
        make_wave(report, &view->waves[i], &report->waves[i]);
    make_totals(report);
    const char *state = view->state != NULL ? view->state : REPORT_UNKNOWN;
    report->state =
        view->exit_code >= 0
            ? bl_arena_printf(&report->arena, "%s, exit code %d", state, view->exit_code).data
            : state;
}

void report_done(struct report *report)
{
    bl_arena_done(&report->arena);
}
