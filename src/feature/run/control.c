/* Controls of a run: stop it or a part of it, pause it, give a task more time. */
#include <stdio.h>

#include "feature/parts.h"

struct feature_task *feature_task_find(struct bl_feature *feature, struct bl_text id)
{
    for (size_t i = 0; i < feature->plan->task_count; i++)
        if (bl_text_equal(id, bl_text_from(feature->tasks[i].row.id)))
            return &feature->tasks[i];
    return NULL;
}

static int no_such_task(const struct bl_feature *feature, const char *id, struct bl_error *error)
{
    struct bl_suggestion suggestion;
    bl_suggestion_init(&suggestion, id);
    for (size_t i = 0; i < feature->plan->task_count; i++)
        bl_suggestion_offer(&suggestion, feature->tasks[i].row.id);
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "find a task", id, "%s has no task '%.64s'",
                 feature->plan->id, id);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    return BL_ENOENT;
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static int cancel_all(struct bl_feature *feature, const char *origin, struct bl_buffer *ret_receipt)
{
    int code = 0;
    if (!feature->running)
        return 0;
    bl_scope_stop(&feature->scope, BL_STOP_USER, origin);
    while (code == 0 && feature->running)
        code = feature_bell_wait(&feature->finished);
    if (code == 0)
        code = bl_buffer_append(ret_receipt, bl_buffer_text(&feature->receipt_json));
    return code;
}

/* Cancels a task whose wave has not started: there is nothing to stop. */
static void cancel_pending(struct feature_task *task)
{
    task_attempt_begin(task);
    task->feature->person_cancelled = true;
    task_decide(task, BL_DECISION_CANCELLED, NULL, "cancelled before it started");
    feature_bell_ring(&task->ended);
}

static bool run_control_at_work(const struct feature_task *task)
{
    return task->ready || task->merge.open;
}

int bl_feature_cancel(struct bl_feature *feature, const char *id, const char *origin,
                      struct bl_buffer *ret_receipt, struct bl_error *error)
{
    if (id == NULL)
        return cancel_all(feature, origin, ret_receipt);
    struct feature_task *task = feature_task_find(feature, bl_text_from(id));
    if (task == NULL)
        return no_such_task(feature, id, error);
    if (!run_control_at_work(task)) {
        if (feature->running && task->row.state == BL_TASK_PENDING)
            cancel_pending(task);
        return 0;
    }
    uint32_t attempt = task->row.attempt;
    struct task_stage *const stages[] = {&task->main, &task->grace, &task->merge};
    for (size_t i = 0; i < BL_COUNT(stages); i++)
        if (stages[i]->open)
            bl_scope_stop(&stages[i]->scope, BL_STOP_USER, origin);
    int code = 0;
    while (code == 0 && run_control_at_work(task) && task->row.attempt == attempt)
        code = feature_bell_wait(&task->ended);
    if (code == 0 && task->row.receipt[0] != '\0' && task->row.attempt == attempt)
        code = bl_buffer_append(ret_receipt, bl_buffer_text(&task->receipt_json));
    return code;
}

/* ---- Pausing --------------------------------------------------------------------------------- */

static void run_control_set_state(struct bl_feature *feature, const char *state,
                                  enum feature_event_type type)
{
    bl_text_into(feature->row.state, sizeof feature->row.state, state);
    ledger_put_feature(feature);
    event_tell(feature, &(struct feature_event){.type = type});
    ledger_write(feature, false);
}

bool bl_feature_pause(struct bl_feature *feature)
{
    if (feature->paused || !feature->running)
        return false;
    feature->paused = true;
    run_control_set_state(feature, "paused", EVENT_FEATURE_PAUSED);
    return true;
}

bool bl_feature_resume(struct bl_feature *feature)
{
    if (!feature->paused)
        return false;
    feature->paused = false;
    feature_bell_ring(&feature->changed);
    run_control_set_state(feature, feature->draining ? "draining" : "running",
                          EVENT_FEATURE_RESUMED);
    return true;
}

/* ---- More time ------------------------------------------------------------------------------- */

static int run_control_too_late(const struct feature_task *task, struct bl_error *error)
{
    bl_error_set(error, BL_EEXIST, BL_KIND_FEATURE, "extend a task", task->row.id,
                 "%s is %s: its deadline can no longer be moved", task->row.id,
                 bl_task_state_name(task->row.state));
    bl_error_name_set(error, "too_late");
    return BL_EEXIST;
}

int bl_feature_extend(struct bl_feature *feature, const char *id, uint64_t by_ns,
                      double *ret_deadline_s, struct bl_error *error)
{
    struct feature_task *task = feature_task_find(feature, bl_text_from(id));
    if (task == NULL)
        return no_such_task(feature, id, error);
    struct task_stage *stage = &task->main;
    if (!stage->open || stage->deadline_ns == BL_NEVER || bl_scope_check(&stage->scope) != 0 ||
        task->row.state != BL_TASK_RUNNING)
        return run_control_too_late(task, error);
    uint64_t above = bl_scope_deadline_ns(&feature->scope);
    if (bl_time_add(stage->deadline_ns, by_ns) > above) {
        bl_error_set(error, BL_ERANGE, BL_KIND_FEATURE, "extend a task", id,
                     "the new deadline would be after the feature's deadline");
        char left[32];
        bl_duration_format((int64_t)(above - bl_now_ns()), left);
        bl_error_hint(error, "the feature ends in %s", left);
        return BL_ERANGE;
    }
    /* A held task has no timer now. It gets the longer one when it continues. */
    if (task->held_ns != 0) {
        stage->deadline_ns += by_ns;
        task->row.deadline_s += (double)by_ns / 1e9;
        task->row.held_left_s += (double)by_ns / 1e9;
        ledger_put_task(task);
    } else {
        task_deadline_move(task, stage, by_ns, "extended");
    }
    *ret_deadline_s = task->row.deadline_s;
    return ledger_write(feature, true);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static int drain(void *argument)
{
    struct bl_feature *feature = argument;
    struct bl_scope wait;
    bl_limit_begin(&wait, feature->plan->limits.drain_ns);
    int code = 0;
    while (code == 0 && feature->phases_running > 0)
        code = feature_bell_wait(&feature->changed);
    bl_limit_end(&wait);
    bl_scope_stop(&feature->scope, feature->drain_reason, feature->drain_origin);
    return 0;
}

void bl_feature_drain(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin)
{
    if (feature->draining || !feature->running)
        return;
    feature->draining = true;
    feature->drain_reason = reason;
    bl_text_into(feature->drain_origin, sizeof feature->drain_origin, origin);
    bl_text_into(feature->row.state, sizeof feature->row.state, "draining");
    ledger_put_feature(feature);
    EVENT_TELL(feature, FEATURE_DRAINING, NULL, .origin = origin);
    if (bl_nursery_spawn(&feature->services, NULL, "drain", drain, feature, NULL) != 0)
        bl_scope_stop(&feature->scope, reason, origin);
}

void bl_feature_hurry(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin)
{
    feature->hurried = true;
    seat_house_hurry(&feature->house);
    if (feature->running)
        bl_scope_stop(&feature->scope, feature->draining ? feature->drain_reason : reason,
                      feature->draining ? feature->drain_origin : origin);
}

int feature_wait_for_stop(struct bl_feature *feature)
{
    int code = 0;
    while (code == 0 && feature->draining)
        code = feature_bell_wait(&feature->changed);
    return code;
}

/* ---- Live view ------------------------------------------------------------------------------- */

static void run_control_add_record(struct bl_arena *arena, struct bl_list *records,
                                   struct bl_text name, const struct bl_record *record,
                                   const void *from)
{
    struct bl_row *row = bl_arena_zalloc(arena, sizeof *row);
    row->name = name.data;
    row->json = record_json(arena, record, from);
    if (row->json.size > 0)
        bl_list_push_back(records, &row->link);
}

/* Adds the tokens of the running phase, which are booked when it ends. Their cost is not known
 * before that. */
static struct bl_task_row live_row(const struct feature_task *task)
{
    struct bl_task_row row = task->row; /* the task still owns the texts */
    uint64_t booked = bl_usage_total(&row.spent.usage), seen = task->activity.tokens;
    if (seen > booked) {
        row.spent.usage.input_tokens += seen - booked;
        row.spent.cost_unknown = row.spent.cost_unknown || !row.spent_known;
        row.spent_known = true;
    }
    return row;
}

int bl_feature_live(struct bl_feature *feature, struct bl_arena *arena,
                    struct bl_feature_view **ret_view, struct bl_error *error)
{
    struct feature_record own;
    struct wave_record wave;
    struct bl_list records;
    bl_list_init(&records);
    ledger_feature_record(feature, arena, &own);
    run_control_add_record(arena, &records, BL_TEXT("feature"), &feature_row_record, &own);
    for (size_t i = 0; i < feature->plan->wave_count; i++) {
        ledger_wave_record(feature, arena, &feature->waves[i], &wave);
        run_control_add_record(arena, &records, bl_arena_printf(arena, "wave/%03zu", i + 1),
                               &wave_row_record, &wave);
    }
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct bl_task_row row = live_row(&feature->tasks[i]);
        run_control_add_record(arena, &records, bl_arena_printf(arena, "task/%s", row.id),
                               &task_row_record, &row);
    }
    return bl_feature_view_make(arena, &records, ret_view, error);
}
