/* The table of a run.
 *
 * Design notes.
 *
 * Each table is drawn from scratch: all cells, then the columns that fit. A column is dropped as a
 * whole, the least important first. States and ids stay, and ids may be cut. If there are too few
 * lines, running tasks come first, then failed ones, and the rest is summarized. */
#include "feature.h"

#include <limits.h>
#include <stdio.h>

#include "cli/chat/view.h"

#define COLUMNS_MIN    40u
#define NARROW         64u
#define ID_WIDTH_MAX   32u
#define NAME_WIDTH_MIN 12u
#define NAME_WIDTH_MAX 60u
#define ACTIVITY_MAX   14u
#define QUIET_S        60.0
#define UNKNOWN        "–"

/* ---- Times ----------------------------------------------------------------------------------- */

const char *feature_span_text(double seconds, char out[16])
{
    char text[48];

    if (!(seconds >= 0) || seconds > 1e9) {
        bl_text_into(out, 16, UNKNOWN);
        return out;
    }
    unsigned whole = (unsigned)seconds;
    if (whole < 60)
        snprintf(text, sizeof text, "%us", whole);
    else if (whole < 600)
        snprintf(text, sizeof text, "%um%02us", whole / 60, whole % 60);
    else if (whole < 3600)
        snprintf(text, sizeof text, "%um", whole / 60);
    else if (whole < 48 * 3600)
        snprintf(text, sizeof text, "%uh%02um", whole / 3600, whole / 60 % 60);
    else
        snprintf(text, sizeof text, "%ud%02uh", whole / 86400, whole / 3600 % 24);
    bl_text_into(out, 16, text);
    return out;
}

const char *feature_duration_text(double seconds, char out[32])
{
    if (seconds >= 0 && seconds <= 1e9)
        bl_duration_format((int64_t)(seconds * 1e9), out);
    else
        bl_text_into(out, 32, UNKNOWN);
    return out;
}

double feature_time_since(int64_t then_ns, int64_t wall_ns)
{
    if (then_ns == 0)
        return -1;
    return wall_ns > then_ns ? (double)(wall_ns - then_ns) / 1e9 : 0;
}

/* ---- Cells ----------------------------------------------------------------------------------- */

enum column {
    COLUMN_STATE,
    COLUMN_ID,
    COLUMN_PHASE,
    COLUMN_TURN,
    COLUMN_AGE,
    COLUMN_ACTIVITY,
    COLUMN_LEFT,
    COLUMN_TOKENS,
    COLUMN_COST,
    COLUMN_NAME,
    COLUMNS,
};

static const struct {
    const char *head;
    unsigned weight; /* the lowest is dropped first; 0: never dropped */
    bool right;
} columns[COLUMNS] = {
    [COLUMN_STATE] = {"state", 0, false},  [COLUMN_ID] = {"task", 0, false},
    [COLUMN_PHASE] = {"phase", 90, false}, [COLUMN_TURN] = {"turn", 80, false},
    [COLUMN_AGE] = {"age", 50, true},      [COLUMN_ACTIVITY] = {"activity", 60, false},
    [COLUMN_LEFT] = {"left", 85, true},    [COLUMN_TOKENS] = {"tokens", 30, true},
    [COLUMN_COST] = {"cost", 40, true},    [COLUMN_NAME] = {"name", 10, false},
};

struct layout {
    const struct feature_table_look *look;
    size_t widths[COLUMNS]; /* 0: dropped */
    size_t gap;
};

static bool feature_table_at_work(const struct bl_task_view *task)
{
    return task->row.state == BL_TASK_RUNNING || task->row.state == BL_TASK_STOPPING;
}

static const char *feature_table_cost_text(const struct bl_spent *spent, bool known, char out[32])
{
    if (!known || (spent->cost_unknown && spent->cost_usd <= 0))
        snprintf(out, 32, UNKNOWN);
    else
        snprintf(out, 32, spent->cost_usd < 1 ? "$%.3f%s" : "$%.2f%s", spent->cost_usd,
                 spent->cost_unknown ? "+" : "");
    return out;
}

static const char *feature_table_tokens_text(const struct bl_spent *spent, bool known, char out[32])
{
    if (known)
        return chat_short_count(bl_usage_total(&spent->usage), out);
    snprintf(out, 32, UNKNOWN);
    return out;
}

/* Formats the last activity and its age, or how long the task has been quiet. */
static void activity_text(const struct bl_task_view *task, int64_t wall_ns, char out[64])
{
    double since = feature_time_since(task->row.active_wall_ns, wall_ns);
    char span[16];

    feature_span_text(since, span);
    if (since < 0 || since >= QUIET_S)
        snprintf(out, 64, since < 0 ? UNKNOWN : "quiet %s", span);
    else
        snprintf(out, 64, "%.40s %s", task->row.activity[0] != '\0' ? task->row.activity : "active",
                 span);
}

static const char *phase_text(const struct bl_task_view *task)
{
    enum bl_task_phase phase = task->row.phase;

    if (phase == BL_PHASE_NONE)
        return UNKNOWN;
    if (phase == BL_PHASE_LOOP_TOP || phase == BL_PHASE_BETWEEN || phase == BL_PHASE_AFTER_TURN)
        return "…";
    return bl_task_phase_name(phase);
}

static void turn_text(const struct bl_task_view *task, char out[64])
{
    if (task->row.turn == 0 && task->row.turns_max == 0)
        snprintf(out, 64, UNKNOWN);
    else
        snprintf(out, 64, "%u/%u", (unsigned)task->row.turn, (unsigned)task->row.turns_max);
}

/* Returns the text of a cell, in `out` or static. Cells that do not apply to waiting or ended tasks
 * are empty; unknown values are "–". */
static const char *cell_text(const struct bl_task_view *task, enum column column, int64_t wall_ns,
                             char out[64])
{
    bool works = feature_table_at_work(task), begun = task->row.attempt > 0;

    switch (column) {
    case COLUMN_STATE: return bl_task_state_name(task->row.state);
    case COLUMN_ID: return task->row.id[0] != '\0' ? task->row.id : UNKNOWN;
    case COLUMN_PHASE: return works ? phase_text(task) : "";
    case COLUMN_TURN:
        if (!works && !begun)
            return "";
        turn_text(task, out);
        return out;
    case COLUMN_AGE: return works || begun ? feature_span_text(task->row.elapsed_s, out) : "";
    case COLUMN_ACTIVITY:
        if (!works)
            return "";
        activity_text(task, wall_ns, out);
        return out;
    case COLUMN_LEFT: return works ? feature_span_text(task->deadline_left_s, out) : "";
    case COLUMN_TOKENS:
        return begun ? feature_table_tokens_text(&task->row.spent, task->row.spent_known, out) : "";
    case COLUMN_COST:
        return begun ? feature_table_cost_text(&task->row.spent, task->row.spent_known, out) : "";
    case COLUMN_NAME: return task->row.name.size > 0 ? task->row.name.data : "";
    case COLUMNS: break;
    }
    return "";
}

static const struct text_style *state_style(enum bl_task_state state)
{
    static const struct text_style busy = {.colour = TEXT_CYAN}, good = {.colour = TEXT_GREEN},
                                   bad = {.colour = TEXT_RED}, warned = {.colour = TEXT_YELLOW},
                                   dim = {.dim = true};

    switch (state) {
    case BL_TASK_RUNNING: return &busy;
    case BL_TASK_APPROVED:
    case BL_TASK_COMPLETED: return &good;
    case BL_TASK_FAILED:
    case BL_TASK_TIMED_OUT:
    case BL_TASK_BLOCKED: return &bad;
    case BL_TASK_STOPPING:
    case BL_TASK_CANCELLED:
    case BL_TASK_INTERRUPTED: return &warned;
    case BL_TASK_PENDING:
    case BL_TASK_QUEUED:
    case BL_TASK_SKIPPED:
    case BL_TASK_DEFERRED: break;
    }
    return &dim;
}

/* ---- The layout ------------------------------------------------------------------------------ */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t feature_table_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t total_width(const struct layout *layout)
{
    size_t sum = 0, shown = 0;

    for (size_t i = 0; i < COLUMNS; i++) {
        sum += layout->widths[i];
        shown += layout->widths[i] > 0;
    }
    return sum + (shown > 0 ? shown - 1 : 0) * layout->gap;
}

/* Returns the heaviest column lighter than `below`, or COLUMNS. */
static enum column next_column(unsigned below)
{
    enum column found = COLUMNS;

    for (enum column column = 0; column < COLUMNS; column++) {
        if (columns[column].weight > 0 && columns[column].weight < below &&
            (found == COLUMNS || columns[column].weight > columns[found].weight))
            found = column;
    }
    return found;
}

/* Places the permanent columns, then the others by weight while they fit. The name may be cut. */
static void feature_table_fit(struct layout *layout, const size_t wanted[COLUMNS])
{
    size_t most = layout->look->columns;
    unsigned weight = UINT_MAX;
    enum column column;

    layout->widths[COLUMN_STATE] = wanted[COLUMN_STATE];
    layout->widths[COLUMN_ID] = wanted[COLUMN_ID];
    while ((column = next_column(weight)) != COLUMNS) {
        weight = columns[column].weight;
        if (wanted[column] == 0)
            continue;
        layout->widths[column] = wanted[column];
        size_t total = total_width(layout), over = total > most ? total - most : 0;
        if (over == 0)
            continue;
        bool shrinks = column == COLUMN_NAME && wanted[column] >= over + NAME_WIDTH_MIN;
        layout->widths[column] = shrinks ? wanted[column] - over : 0;
    }
}

static void feature_table_measure(const struct bl_feature_view *view, struct layout *layout)
{
    size_t wanted[COLUMNS] = {0};
    char text[64];

    layout->gap = layout->look->columns < NARROW ? 1 : 2;
    for (enum column column = 0; column < COLUMNS; column++) {
        for (size_t i = 0; i < view->task_count; i++)
            wanted[column] =
                larger(wanted[column], text_width(bl_text_from(cell_text(
                                           &view->tasks[i], column, layout->look->wall_ns, text))));
        if (wanted[column] > 0)
            wanted[column] = larger(wanted[column], text_width(bl_text_from(columns[column].head)));
    }
    /* Cut long ids enough to leave room for the phase. */
    wanted[COLUMN_ID] = feature_table_smaller(
        wanted[COLUMN_ID], feature_table_smaller(ID_WIDTH_MAX, layout->look->columns * 2 / 5));
    wanted[COLUMN_NAME] = feature_table_smaller(wanted[COLUMN_NAME], NAME_WIDTH_MAX);
    wanted[COLUMN_ACTIVITY] = feature_table_smaller(wanted[COLUMN_ACTIVITY], ACTIVITY_MAX);
    feature_table_fit(layout, wanted);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void put_blanks(struct bl_buffer *out, size_t count)
{
    while (count-- > 0)
        bl_buffer_append_byte(out, ' ');
}

/* Puts a cell, cut to its width, and padded unless it is the last. */
static void feature_table_put_cell(const struct layout *layout, enum column column,
                                   const char *text, const struct text_style *style, bool last,
                                   struct bl_buffer *out)
{
    size_t width = layout->widths[column];
    BL_AUTO_BUFFER(cell, 4096);
    struct text_line line;

    text_line_init(&line, &cell, width, layout->look->colours);
    text_line_add(&line, bl_text_from(text), style);
    text_line_end(&line);
    cell.size--;
    size_t taken = text_line_width(bl_buffer_text(&cell));
    size_t blanks = taken < width ? width - taken : 0;
    if (columns[column].right)
        put_blanks(out, blanks);
    bl_buffer_append(out, bl_buffer_text(&cell));
    if (!columns[column].right && !last)
        put_blanks(out, blanks);
}

static enum column last_column(const struct layout *layout)
{
    enum column last = COLUMN_ID;

    for (enum column column = 0; column < COLUMNS; column++) {
        if (layout->widths[column] > 0)
            last = column;
    }
    return last;
}

static void trim_line(struct bl_buffer *out, size_t from)
{
    while (out->size > from && out->data[out->size - 1] == ' ')
        out->size--;
    bl_buffer_append_byte(out, '\n');
}

/* Puts a row; `task` NULL: the headings. */
static void feature_table_put_row(const struct layout *layout, const struct bl_task_view *task,
                                  struct bl_buffer *out)
{
    static const struct text_style plain = {0}, dim = {.dim = true};
    enum column last = last_column(layout);
    size_t from = out->size;
    char text[64];

    for (enum column column = 0; column < COLUMNS; column++) {
        if (layout->widths[column] == 0)
            continue;
        if (out->size > from)
            put_blanks(out, layout->gap);
        const struct text_style *style = task == NULL ? &dim : &plain;
        if (task != NULL && column == COLUMN_STATE)
            style = state_style(task->row.state);
        feature_table_put_cell(layout, column,
                               task == NULL ? columns[column].head
                                            : cell_text(task, column, layout->look->wall_ns, text),
                               style, column == last, out);
    }
    trim_line(out, from);
}

/* ---- The head line --------------------------------------------------------------------------- */

#define PARTS_MAX 10u

struct head {
    char parts[PARTS_MAX][64];
    unsigned weights[PARTS_MAX]; /* 0: dropped */
    size_t count;
};

static void feature_table_add_part(struct head *head, unsigned weight, const char *format, ...)
    BL_PRINTF(3, 4);

static void feature_table_add_part(struct head *head, unsigned weight, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(head->parts[head->count], sizeof head->parts[0], format, arguments);
    va_end(arguments);
    head->weights[head->count++] = weight;
}

static size_t failures(const struct bl_feature_view *view)
{
    return view->counts[BL_TASK_FAILED] + view->counts[BL_TASK_TIMED_OUT] +
           view->counts[BL_TASK_BLOCKED];
}

/* Returns the first wave that has not ended, or the last one. */
static size_t current_wave(const struct bl_feature_view *view)
{
    for (size_t i = 0; i < view->wave_count; i++) {
        const char *state = view->waves[i].state;
        if (state == NULL || strcmp(state, "running") == 0 || strcmp(state, "merging") == 0 ||
            strcmp(state, "pending") == 0)
            return i + 1;
    }
    return view->wave_count;
}

static void feature_table_add_parts(struct head *head, const struct bl_feature_view *view)
{
    size_t running = view->counts[BL_TASK_RUNNING] + view->counts[BL_TASK_STOPPING];
    size_t wave = current_wave(view);
    const char *wave_state = wave > 0 ? view->waves[wave - 1].state : NULL;
    char text[32];

    feature_table_add_part(head, 100, "wave %zu/%zu", wave, view->wave_count);
    if (view->state != NULL && strcmp(view->state, "running") != 0)
        feature_table_add_part(head, 98, "%.20s", view->state);
    else if (wave_state != NULL && strcmp(wave_state, "merging") == 0)
        feature_table_add_part(head, 98, "merging");
    feature_table_add_part(head, 95, "running %zu/%u", running, (unsigned)view->parallel);
    feature_table_add_part(head, 90, "queued %zu", view->counts[BL_TASK_QUEUED]);
    feature_table_add_part(head, 70, "done %zu/%zu",
                           view->counts[BL_TASK_COMPLETED] + view->counts[BL_TASK_DEFERRED],
                           view->task_count);
    if (failures(view) > 0)
        feature_table_add_part(head, 85, "failed %zu", failures(view));
    if (view->unverified)
        feature_table_add_part(head, 60, "unverified");
    feature_table_add_part(head, 30, "%s tokens",
                           feature_table_tokens_text(&view->spent, view->spent_known, text));
    feature_table_cost_text(&view->spent, view->spent_known, text);
    feature_table_add_part(head, 40, text[0] == '$' ? "%s" : "cost %s", text);
}

static size_t head_width(const struct head *head)
{
    size_t width = 0;

    for (size_t i = 0; i < head->count; i++) {
        if (head->weights[i] > 0)
            width += 2 + text_width(bl_text_from(head->parts[i]));
    }
    return width > 0 ? width - 2 : 0;
}

static void feature_table_put_head(const struct bl_feature_view *view,
                                   const struct feature_table_look *look, struct bl_buffer *out)
{
    static const struct text_style bold = {.bold = true};
    struct head *head = bl_zalloc(sizeof *head);
    struct text_line line;
    const char *gap = "";

    feature_table_add_parts(head, view);
    while (head_width(head) > look->columns) {
        size_t lightest = 0;
        for (size_t i = 1; i < head->count; i++) {
            if (head->weights[i] > 0 && head->weights[i] < head->weights[lightest])
                lightest = i;
        }
        if (lightest == 0)
            break;
        head->weights[lightest] = 0;
    }
    text_line_init(&line, out, look->columns, look->colours);
    for (size_t i = 0; i < head->count; i++) {
        if (head->weights[i] == 0)
            continue;
        text_line_add(&line, bl_text_from(gap), &bold);
        text_line_add(&line, bl_text_from(head->parts[i]), &bold);
        gap = "  ";
    }
    text_line_end(&line);
    bl_free(head);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Order in which tasks are shown if not all fit. */
static unsigned rank(enum bl_task_state state)
{
    switch (state) {
    case BL_TASK_RUNNING:
    case BL_TASK_STOPPING: return 0;
    case BL_TASK_FAILED:
    case BL_TASK_TIMED_OUT:
    case BL_TASK_BLOCKED:
    case BL_TASK_CANCELLED:
    case BL_TASK_INTERRUPTED: return 1;
    case BL_TASK_APPROVED:
    case BL_TASK_QUEUED: return 2;
    case BL_TASK_PENDING:
    case BL_TASK_COMPLETED:
    case BL_TASK_SKIPPED:
    case BL_TASK_DEFERRED: break;
    }
    return 3;
}

/* Chooses `room` tasks: the most important first, then in plan order. */
static size_t feature_table_choose(const struct bl_feature_view *view, size_t room, bool *chosen)
{
    size_t count = 0;

    for (unsigned wanted = 0; wanted < 4; wanted++) {
        for (size_t i = 0; i < view->task_count && count < room; i++) {
            if (rank(view->tasks[i].row.state) != wanted)
                continue;
            chosen[i] = true;
            count++;
        }
    }
    return count;
}

static void put_rest(const struct bl_feature_view *view, const bool *chosen,
                     const struct feature_table_look *look, struct bl_buffer *out)
{
    static const struct text_style dim = {.dim = true};
    size_t counts[BL_TASK_DEFERRED + 1] = {0}, sum = 0;
    const char *separator = ": ";
    struct text_line line;
    char text[64];

    for (size_t i = 0; i < view->task_count; i++) {
        if (chosen[i])
            continue;
        counts[view->tasks[i].row.state]++;
        sum++;
    }
    text_line_init(&line, out, look->columns, look->colours);
    snprintf(text, sizeof text, "… and %zu more", sum);
    text_line_add(&line, bl_text_from(text), &dim);
    for (size_t i = 0; i < BL_COUNT(counts); i++) {
        if (counts[i] == 0)
            continue;
        snprintf(text, sizeof text, "%s%zu %s", separator, counts[i],
                 bl_task_state_name((enum bl_task_state)i));
        text_line_add(&line, bl_text_from(text), &dim);
        separator = ", ";
    }
    text_line_end(&line);
}

int feature_table_draw(const struct bl_feature_view *view, const struct feature_table_look *asked,
                       struct bl_buffer *out)
{
    struct feature_table_look look = *asked;
    struct layout layout = {.look = &look};
    size_t before = out->size;

    look.columns = larger(look.columns, COLUMNS_MIN);
    feature_table_put_head(view, &look, out);
    if (view->task_count == 0 || look.rows < 2)
        return out->size > before ? 0 : BL_ELIMIT;
    size_t room = look.rows - 1;
    bool heads = room > view->task_count || room >= 6;
    room -= heads;
    if (room < view->task_count && room > 1)
        room--;
    bool *chosen = bl_zalloc(view->task_count * sizeof *chosen);
    size_t shown = feature_table_choose(view, room, chosen);
    feature_table_measure(view, &layout);
    if (heads)
        feature_table_put_row(&layout, NULL, out);
    for (size_t i = 0; i < view->task_count; i++) {
        if (chosen[i])
            feature_table_put_row(&layout, &view->tasks[i], out);
    }
    if (shown < view->task_count && look.rows > 2)
        put_rest(view, chosen, &look, out);
    bl_free(chosen);
    return out->size < out->maximum ? 0 : BL_ELIMIT;
}
