/* The text of a run at its start and its end. */
#include <stdio.h>

#include <belay/record.h>

#include "cli/chat/view.h"
#include "feature.h"

#define NAMES_MAX 12u

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Names on one line after a heading; nothing if there are none. */
struct names {
    struct bl_buffer *out;
    const char *head;
    size_t count;
};

static void feature_text_add_name(struct names *names, const char *name, const char *note)
{
    if (names->count < NAMES_MAX) {
        bl_buffer_append(names->out, bl_text_from(names->count == 0 ? names->head : ", "));
        feature_put_safe(names->out, bl_text_from(name));
        bl_buffer_append(names->out, bl_text_from(note));
    }
    names->count++;
}

static void end_names(const struct names *names)
{
    if (names->count > NAMES_MAX)
        bl_buffer_printf(names->out, " and %zu more", (size_t)(names->count - NAMES_MAX));
    if (names->count > 0)
        bl_buffer_append_byte(names->out, '\n');
}

static const char *feature_text_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- The start ------------------------------------------------------------------------------- */

/* Puts the number of parallel tasks and its source. */
static void put_parallel(const struct bl_plan *plan, const struct bl_plan_overrides *overrides,
                         struct bl_buffer *out)
{
    unsigned parallel = (unsigned)plan->limits.parallel;

    bl_buffer_printf(out, "%u at once (", parallel);
    if (overrides != NULL && overrides->parallel > 0)
        bl_buffer_printf(out, "--parallel %u)", parallel);
    else if (plan->recommended_parallel == 0)
        bl_buffer_printf(out, "limits.parallel %u)", parallel);
    else if (plan->recommended_parallel > (int64_t)parallel)
        bl_buffer_printf(out, "recommended_parallel %lld, limits.parallel %u)",
                         (long long)plan->recommended_parallel, parallel);
    else
        bl_buffer_printf(out, "recommended_parallel %u)", parallel);
}

static size_t count_deadlines(const struct bl_plan *plan, const char *wanted)
{
    size_t count = 0;
    char text[96];

    for (size_t i = 0; i < plan->task_count; i++) {
        bl_plan_deadline_text(&plan->tasks[i], text);
        count += strcmp(text, wanted) == 0;
    }
    return count;
}

/* Puts the most common deadline, then the tasks with other ones. */
static void put_deadlines(const struct bl_plan *plan, struct bl_buffer *out)
{
    struct names names = {.out = out, .head = "; "};
    char usual[96] = "–", text[96], note[100];
    size_t most = 0;

    for (size_t i = 0; i < plan->task_count && most <= plan->task_count - i; i++) {
        bl_plan_deadline_text(&plan->tasks[i], text);
        size_t count = count_deadlines(plan, text);
        if (count > most)
            bl_text_into(usual, sizeof usual, text);
        most = count > most ? count : most;
    }
    bl_buffer_printf(out, "deadline %s for each task", usual);
    for (size_t i = 0; i < plan->task_count; i++) {
        bl_plan_deadline_text(&plan->tasks[i], text);
        snprintf(note, sizeof note, ": %s", text);
        if (strcmp(text, usual) != 0)
            feature_text_add_name(&names, plan->tasks[i].id, note);
    }
    if (names.count == 0)
        bl_buffer_append_byte(out, '\n');
    end_names(&names);
}

static void put_policy(const struct bl_plan *plan, const struct bl_feature_view *view,
                       struct bl_buffer *out)
{
    const struct bl_feature_limits *limits = &plan->limits;
    char deadline[32];

    bl_buffer_printf(out, "on failure %s", bl_on_failure_name(plan->on_failure));
    if (limits->feature_timeout_ns > 0) {
        bl_duration_format((int64_t)limits->feature_timeout_ns, deadline);
        bl_buffer_printf(out, ", feature deadline %s", deadline);
    }
    if (limits->max_budget_tokens != BL_UNLIMITED)
        bl_buffer_printf(out, ", at most %llu tokens",
                         (unsigned long long)limits->max_budget_tokens);
    if (limits->max_budget_usd >= 0)
        bl_buffer_printf(out, ", at most $%.2f", limits->max_budget_usd);
    if (view != NULL && view->base_commit != NULL) {
        bl_buffer_append(out, BL_TEXT(", base "));
        feature_put_safe(out, bl_utf8_cut(bl_text_from(view->base_commit), 10));
    }
    bl_buffer_append_byte(out, '\n');
}

static void put_taken_over(const struct bl_feature_view *view, struct bl_buffer *out)
{
    struct names done = {.out = out, .head = "already done: "};
    struct names begun = {.out = out, .head = "resumed: "};
    char note[48];

    for (size_t i = 0; view != NULL && i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        if (task->row.state == BL_TASK_COMPLETED || task->row.state == BL_TASK_APPROVED ||
            task->row.state == BL_TASK_DEFERRED)
            feature_text_add_name(&done, task->row.id,
                                  task->row.state == BL_TASK_DEFERRED ? " (deferred)" : "");
    }
    end_names(&done);
    for (size_t i = 0; view != NULL && i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        bool ended = task->row.state == BL_TASK_COMPLETED || task->row.state == BL_TASK_APPROVED ||
                     task->row.state == BL_TASK_DEFERRED;
        if (ended || task->row.turn == 0)
            continue;
        snprintf(note, sizeof note, " after turn %u", (unsigned)task->row.turn);
        feature_text_add_name(&begun, task->row.id, note);
    }
    end_names(&begun);
}

int feature_banner_text(const struct bl_plan *plan, const struct bl_plan_overrides *overrides,
                        const struct bl_feature_view *view, struct bl_map *warned,
                        struct bl_buffer *out)
{
    feature_put_safe(out, bl_text_from(plan->id));
    bl_buffer_append_byte(out, ' ');
    feature_put_safe(out, bl_text_from(plan->name));
    bl_buffer_printf(out, ": %zu wave%s, %zu task%s, ", plan->wave_count,
                     feature_text_plural(plan->wave_count), plan->task_count,
                     feature_text_plural(plan->task_count));
    put_parallel(plan, overrides, out);
    bl_buffer_append_byte(out, '\n');
    put_deadlines(plan, out);
    put_policy(plan, view, out);
    put_taken_over(view, out);
    BL_LIST_EACH (link, &plan->warnings) {
        size_t from = out->size;
        bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), out);
        if (warned != NULL)
            bl_map_set(warned, (struct bl_text){out->data + from, out->size - from}, out, NULL);
        bl_buffer_append_byte(out, '\n');
    }
    return out->size < out->maximum ? 0 : BL_ELIMIT;
}

/* ---- The end --------------------------------------------------------------------------------- */

static double feature_seconds(const struct bl_feature_view *view)
{
    bool ended = view->ended_wall_ns != 0;

    return feature_time_since(view->started_wall_ns,
                              ended ? view->ended_wall_ns : bl_clock_wall_ns(&bl_clock_system));
}

static void feature_text_put_spent(const struct bl_spent *spent, bool known, struct bl_buffer *out)
{
    char tokens[32];

    if (!known)
        return;
    bl_buffer_printf(out, ", %s", chat_tokens(bl_usage_total(&spent->usage), tokens));
    if (spent->cost_usd > 0)
        bl_buffer_printf(out, ", $%.3f%s", spent->cost_usd, spent->cost_unknown ? " or more" : "");
}

static size_t count_done(const struct bl_feature_view *view)
{
    return view->counts[BL_TASK_COMPLETED] + view->counts[BL_TASK_DEFERRED];
}

static void put_sum(const struct bl_feature_view *view, struct bl_buffer *out)
{
    double seconds = feature_seconds(view);
    char span[16], deadline[32];

    feature_put_safe(out, bl_text_from(view->feature));
    bl_buffer_append_byte(out, ' ');
    feature_put_safe(out, bl_text_from(view->state != NULL ? view->state : "–"));
    if (view->reason != NULL && strcmp(view->reason, "timeout") == 0 &&
        view->feature_deadline_s >= 0) {
        bl_buffer_printf(out, " (deadline %s)",
                         feature_duration_text(view->feature_deadline_s, deadline));
    } else if (view->reason != NULL) {
        bl_buffer_append(out, BL_TEXT(" ("));
        feature_put_safe(out, bl_text_from(view->reason));
        bl_buffer_append_byte(out, ')');
    }
    bl_buffer_printf(out, ": %zu of %zu task%s done", count_done(view), view->task_count,
                     feature_text_plural(view->task_count));
    if (seconds >= 0)
        bl_buffer_printf(out, ", %s", feature_span_text(seconds, span));
    feature_text_put_spent(&view->spent, view->spent_known, out);
    bl_buffer_append_byte(out, '\n');
}

/* Ids are not cut: users search for them. */
static size_t id_width(const struct bl_feature_view *view)
{
    size_t width = 0;

    for (size_t i = 0; i < view->task_count; i++) {
        size_t own =
            view->tasks[i].row.id[0] != '\0' ? text_width(bl_text_from(view->tasks[i].row.id)) : 1;
        width = own > width ? own : width;
    }
    return width;
}

/* Puts a text padded to `width`, right- or left-aligned. */
static void put_padded(struct bl_buffer *out, struct bl_text text, size_t width, bool right)
{
    size_t from = out->size;

    feature_put_safe(out, text);
    size_t taken = text_width((struct bl_text){out->data + from, out->size - from});
    size_t blanks = taken < width ? width - taken : 0;
    if (right) {
        out->size = from;
        bl_buffer_printf(out, "%*s", (int)blanks, "");
        feature_put_safe(out, text);
    } else {
        bl_buffer_printf(out, "%*s", (int)blanks, "");
    }
}

static void feature_text_put_task(const struct bl_task_view *task, size_t width,
                                  struct bl_buffer *out)
{
    struct bl_arena arena;
    char turns[32], span[16];

    bl_buffer_append(out, BL_TEXT("  "));
    put_padded(out, bl_text_from(task->row.id), width, false);
    snprintf(turns, sizeof turns, "%u turn%s", (unsigned)task->row.turn,
             feature_text_plural(task->row.turn));
    put_padded(out, bl_text_from(task->row.turn > 0 ? turns : "–"), 10, true);
    put_padded(
        out, bl_text_from(task->row.turn > 0 ? feature_span_text(task->row.elapsed_s, span) : "–"),
        8, true);
    bl_buffer_append(out, BL_TEXT("  "));
    bl_arena_init(&arena);
    feature_put_safe(out, bl_task_view_text(&arena, task));
    bl_arena_done(&arena);
    bl_buffer_append_byte(out, '\n');
}

static void put_unverified(const struct bl_feature_view *view, struct bl_buffer *out)
{
    struct names waves = {.out = out, .head = "unverified (gate did not run): "};
    struct names tasks = {.out = out, .head = "not verified (no commands declared): "};
    char name[32];

    for (size_t i = 0; i < view->wave_count; i++) {
        const struct bl_wave_view *wave = &view->waves[i];
        if (wave->gate == NULL || strcmp(wave->gate, "absent") != 0)
            continue;
        snprintf(name, sizeof name, "wave %u", (unsigned)wave->n);
        feature_text_add_name(&waves, name, "");
    }
    end_names(&waves);
    for (size_t i = 0; i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        if ((task->row.state == BL_TASK_COMPLETED || task->row.state == BL_TASK_APPROVED) &&
            task->row.verified == BL_VERIFIED_NONE)
            feature_text_add_name(&tasks, task->row.id, "");
    }
    end_names(&tasks);
}

/* Returns the receipt with that id, or with NULL that of the run; in the arena. NULL if there is
 * none. */
static const struct bl_json *feature_text_find_receipt(const struct bl_feature_view *view,
                                                       const char *id, struct bl_arena *arena)
{
    const char *wanted = id != NULL ? id : view->run_id;
    struct bl_receipt_row row;

    bl_arena_reset(arena);
    BL_LIST_EACH (link, &view->receipts) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        const struct bl_json *receipt;
        if (wanted == NULL || bl_json_read(arena, record->json, NULL, &receipt, NULL) != 0)
            continue;
        bl_record_take(arena, &bl_receipt_record, receipt, &row);
        const char *found = id != NULL ? row.id : row.scope;
        if (found != NULL && strcmp(found, wanted) == 0)
            return receipt;
    }
    return NULL;
}

static void feature_text_put_receipt(const char *owner, const struct bl_json *receipt,
                                     struct bl_buffer *out)
{
    if (receipt == NULL)
        return;
    feature_put_safe(out, bl_text_from(owner));
    bl_buffer_append(out, BL_TEXT(": "));
    cli_receipt_line(receipt, out);
    bl_buffer_append_byte(out, '\n');
}

/* Puts the receipts of the newest attempts and of the run. Earlier ones were shown before. */
static void put_receipts(const struct bl_feature_view *view, struct bl_buffer *out)
{
    BL_AUTO_ARENA(arena);

    for (size_t i = 0; i < view->task_count; i++) {
        const struct bl_task_view *task = &view->tasks[i];
        if (task->row.receipt[0] != '\0')
            feature_text_put_receipt(
                task->row.id, feature_text_find_receipt(view, task->row.receipt, &arena), out);
    }
    feature_text_put_receipt(view->feature, feature_text_find_receipt(view, NULL, &arena), out);
}

/* A table does not show warnings while it runs. */
static void feature_text_put_warnings(const struct bl_feature_view *view,
                                      const struct bl_map *warned, struct bl_buffer *out)
{
    for (size_t i = 0; i < view->warning_count; i++) {
        if (warned != NULL && bl_map_has(warned, view->warnings[i].message))
            continue;
        bl_buffer_append(out, BL_TEXT("warning: "));
        feature_put_safe(out, view->warnings[i].message);
        bl_buffer_append_byte(out, '\n');
    }
}

/* Returns whether a task has used up its turns and needs more to continue. */
static bool out_of_turns(const struct bl_feature_view *view)
{
    for (size_t i = 0; i < view->task_count; i++) {
        if (view->tasks[i].row.decision == BL_DECISION_MAX_TURNS)
            return true;
    }
    return false;
}

static void feature_text_put_next(const struct bl_feature_view *view, struct bl_buffer *out)
{
    if (view->result_commit != NULL && view->result_branch != NULL) {
        bl_buffer_append(out, BL_TEXT("Merge with: git merge "));
        feature_put_safe(out, bl_text_from(view->result_branch));
        bl_buffer_append_byte(out, '\n');
    }
    if (count_done(view) < view->task_count) {
        bl_buffer_append(out, BL_TEXT("Resume with: belay feature resume "));
        feature_put_safe(out, bl_text_from(view->feature));
        bl_buffer_append(out, out_of_turns(view) ? BL_TEXT(" --more-turns 3\n") : BL_TEXT("\n"));
    }
}

int feature_end_text(const struct bl_feature_view *view, const struct bl_map *warned,
                     struct bl_buffer *out)
{
    size_t width = id_width(view);

    put_sum(view, out);
    for (size_t i = 0; i < view->task_count; i++)
        feature_text_put_task(&view->tasks[i], width, out);
    put_unverified(view, out);
    feature_text_put_warnings(view, warned, out);
    put_receipts(view, out);
    feature_text_put_next(view, out);
    return out->size < out->maximum ? 0 : BL_ELIMIT;
}
