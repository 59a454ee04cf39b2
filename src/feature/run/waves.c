/* Waves, one after another: the tasks of a wave run in parallel, then they are merged. Nothing of
 * the next wave starts before all of that has ended. */
#include <stdio.h>

#include "feature/parts.h"

/* ---- Dependencies ---------------------------------------------------------------------------- */

static bool satisfied(const struct bl_task_row *row)
{
    return row->state == BL_TASK_COMPLETED || row->state == BL_TASK_DEFERRED;
}

/* Returns the first dependency that keeps the task from running, or NULL. */
static const struct feature_task *blocker(const struct feature_task *task)
{
    const struct bl_plan_task *plan = task->plan;
    for (size_t i = 0; i < plan->dependency_count; i++) {
        const struct feature_task *other = &task->feature->tasks[plan->dependencies[i]];
        if (!satisfied(&other->row))
            return other;
    }
    return NULL;
}

/* Returns the failed task at the root of a chain of skipped ones. */
static const struct feature_task *waves_root_of(const struct feature_task *task)
{
    const struct feature_task *next;
    while (task->row.state == BL_TASK_SKIPPED && (next = blocker(task)) != NULL)
        task = next;
    return task;
}

static void waves_skip(struct feature_task *task, const struct feature_task *because)
{
    char message[256];
    const struct feature_task *root = waves_root_of(because);
    task_attempt_begin(task);
    snprintf(message, sizeof message, "it depends on %s, which is %s%s%s", because->row.id,
             bl_task_state_name(because->row.state), root != because ? " because of " : "",
             root != because ? root->row.id : "");
    bl_text_into(task->row.triggered_by, sizeof task->row.triggered_by, root->row.id);
    task_decide(task, BL_DECISION_SKIPPED, NULL, message);
}

static void warn_of_deferred(struct feature_task *task)
{
    const struct bl_plan_task *plan = task->plan;
    for (size_t i = 0; i < plan->dependency_count; i++) {
        const struct feature_task *other = &task->feature->tasks[plan->dependencies[i]];
        if (other->row.state == BL_TASK_DEFERRED)
            event_warn(task->feature, task,
                       "%s depends on %s, which is deferred and may be missing", task->row.id,
                       other->row.id);
    }
}

static bool to_run(const struct feature_task *task)
{
    enum bl_task_state state = task->row.state;
    return task->wanted && !satisfied(&task->row) && state != BL_TASK_APPROVED &&
           !bl_task_state_final(state);
}

/* ---- One wave -------------------------------------------------------------------------------- */

static void set_wave(struct bl_feature *feature, struct feature_wave *wave, enum wave_state state)
{
    BL_LOG(BL_ROOM_FEATURE, BL_LOG_INFO, "wave", BL_LOG_INTEGER("wave", wave->n),
           BL_LOG_STRING("from", bl_names_get(&wave_states, wave->state)),
           BL_LOG_STRING("to", bl_names_get(&wave_states, state)));
    wave->state = state;
    ledger_put_wave(feature, wave);
}

static void begin_wave(struct bl_feature *feature, struct feature_wave *wave, size_t count)
{
    if (wave->started_wall_ns == 0)
        wave->started_wall_ns = bl_clock_wall_ns(feature->clock);
    wave->ended_wall_ns = 0; /* from an earlier run */
    feature->wave = wave->n;
    set_wave(feature, wave, WAVE_RUNNING);
    EVENT_TELL(feature, WAVE_STARTED, NULL, .wave = wave, .count = count);
}

static void end_wave(struct bl_feature *feature, struct feature_wave *wave, enum wave_state state)
{
    wave->ended_wall_ns = bl_clock_wall_ns(feature->clock);
    set_wave(feature, wave, state);
    EVENT_TELL(feature, WAVE_ENDED, NULL, .wave = wave);
    ledger_write(feature, false);
}

/* Runs the tasks of a wave that can run, each in its own scope and fiber, in plan order. All have
 * ended when this returns. */
static void run_tasks(struct bl_feature *feature, const struct bl_plan_wave *planned)
{
    bl_nursery_init(&feature->nursery, &feature->scope);
    /* Their scopes are direct children of the feature's: the nursery only waits for them. */
    for (size_t i = 0; i < planned->count; i++) {
        struct feature_task *task = &feature->tasks[planned->tasks[i]];
        if (!to_run(task))
            continue;
        warn_of_deferred(task);
        task_ready(task);
        char name[32];
        bl_text_into(name, sizeof name, task->row.id);
        int code =
            bl_nursery_spawn(&feature->nursery, &task->main.scope, name, task_main, task, NULL);
        if (code != 0) {
            struct bl_error *error = bl_zalloc(sizeof *error);
            bl_error_set(error, code, BL_KIND_RUNTIME, "start a task", task->row.id,
                         "no fiber available for '%s'", task->row.id);
            feature_fail(feature, error);
            bl_free(error);
            task_decide_stopped(task, &task->main, BL_PHASE_LOOP_TOP, NULL);
            task_finish(task);
        }
    }
    /* A stop of the feature reaches the tasks themselves; here they are waited for. */
    struct bl_scope wait;
    bl_shield_begin(&wait, BL_NEVER);
    bl_nursery_join(&feature->nursery);
    bl_shield_end(&wait);
    bl_nursery_done(&feature->nursery);
}

/* Skips tasks that cannot run. Returns how many tasks are to run; `*ret_approved` is set if a task
 * waits for its merge. */
static size_t prepare_wave(struct bl_feature *feature, const struct bl_plan_wave *planned,
                           bool *ret_approved)
{
    size_t count = 0;
    *ret_approved = false;
    for (size_t i = 0; i < planned->count; i++) {
        struct feature_task *task = &feature->tasks[planned->tasks[i]];
        *ret_approved = *ret_approved || task->row.state == BL_TASK_APPROVED;
        if (!to_run(task))
            continue;
        const struct feature_task *because = blocker(task);
        if (because != NULL)
            waves_skip(task, because);
        else
            count++;
    }
    return count;
}

/* Returns the state of a wave whose tasks have ended and are merged. */
static enum wave_state ended_state(const struct bl_feature *feature,
                                   const struct feature_wave *wave)
{
    const struct bl_plan_wave *planned = &feature->plan->waves[wave->n - 1];
    for (size_t i = 0; i < planned->count; i++)
        if (!satisfied(&feature->tasks[planned->tasks[i]].row))
            return WAVE_FAILED;
    return wave->gate == BL_VERIFIED_ABSENT ? WAVE_UNVERIFIED : WAVE_COMPLETED;
}

static int run_wave(struct bl_feature *feature, struct feature_wave *wave)
{
    const struct bl_plan_wave *planned = &feature->plan->waves[wave->n - 1];
    bool approved;
    size_t count = prepare_wave(feature, planned, &approved);
    if (count == 0 && !approved) {
        enum wave_state state = ended_state(feature, wave);
        if (state != WAVE_FAILED && wave->state != state)
            set_wave(feature, wave, state);
        return bl_scope_check(&feature->scope);
    }
    begin_wave(feature, wave, count);
    run_tasks(feature, planned);
    int code = bl_scope_check(&feature->scope);
    if (code == 0 && feature->draining)
        code = feature_wait_for_stop(feature);
    if (code == 0) {
        set_wave(feature, wave, WAVE_MERGING);
        code = feature->means->merge(feature, wave);
    }
    if (code == 0)
        code = bl_scope_check(&feature->scope);
    end_wave(feature, wave, code != 0 ? WAVE_STOPPED : ended_state(feature, wave));
    return code;
}

int waves_run(struct bl_feature *feature)
{
    const struct bl_plan *plan = feature->plan;
    bool continues = plan->on_failure == BL_ON_FAILURE_CONTINUE;
    int code = 0;
    for (size_t i = 0; i < plan->wave_count && code == 0; i++) {
        if (!continues && (feature->failed || feature->person_cancelled))
            break;
        code = run_wave(feature, &feature->waves[i]);
    }
    return code;
}
