/* A run of a feature, from its first wave to its end. */
#include <stdio.h>

#include "feature/parts.h"

#define RECEIPT_MAX ((size_t)16 * 1024 * 1024)
#define WARNED_MAX  ((size_t)64 * 1024)

void feature_fail(struct bl_feature *feature, const struct bl_error *error)
{
    if (feature->error.code == 0)
        feature->error = *error;
    if (feature->running)
        bl_scope_stop(&feature->scope, BL_STOP_FEATURE_FAILURE, feature->error.operation);
}

const struct bl_error *bl_feature_error(const struct bl_feature *feature)
{
    return feature->error.code != 0 ? &feature->error : NULL;
}

void feature_budget_check(struct bl_feature *feature)
{
    if (bl_budget_passed(&feature->budget))
        bl_scope_stop(&feature->scope, BL_STOP_BUDGET, "max_budget_tokens");
    if (feature->ledger.limit_usd >= 0 && feature->ledger.booked_usd > feature->ledger.limit_usd)
        bl_scope_stop(&feature->scope, BL_STOP_BUDGET, "max_budget_usd");
}

/* ---- Creation -------------------------------------------------------------------------------- */

static bool feature_is_wanted(const struct bl_feature_options *options, const char *id)
{
    if (options->tasks == NULL || options->tasks[0] == NULL)
        return true;
    for (size_t i = 0; options->tasks[i] != NULL; i++)
        if (strcmp(options->tasks[i], id) == 0)
            return true;
    return false;
}

static void feature_make_task(struct bl_feature *feature, size_t number)
{
    struct feature_task *task = &feature->tasks[number];
    task->feature = feature;
    task->plan = &feature->plan->tasks[number];
    task_row_init(&task->row);
    bl_buffer_init(&task->receipt_json, RECEIPT_MAX);
    feature_bell_init(&task->ended);
    task->wanted = feature_is_wanted(&feature->options, task->plan->id);
    snprintf(task->scratch, sizeof task->scratch, "%s/%s", feature->scratch, task->plan->id);
}

struct bl_feature *feature_new(const struct bl_feature_options *options,
                               const struct feature_means *means)
{
    struct bl_feature *feature = bl_zalloc(sizeof *feature);
    const struct bl_plan *plan = options->plan;
    feature->options = *options;
    feature->plan = plan;
    feature->means = means;
    feature->clock = bl_loop_clock(bl_loop_current());
    feature->row.exit_code = -1;
    bl_text_into(feature->row.run_id, sizeof feature->row.run_id, options->run_id);
    bl_text_into(feature->row.state, sizeof feature->row.state, "pending");
    snprintf(feature->result_ref, sizeof feature->result_ref, "refs/heads/belay/%s/_result",
             plan->id);
    snprintf(feature->scratch, sizeof feature->scratch, "%s/.belay/run/%s", plan->repository,
             plan->id);
    bl_buffer_init(&feature->receipt_json, RECEIPT_MAX);
    bl_buffer_init(&feature->warned, WARNED_MAX);
    feature_bell_init(&feature->changed);
    feature_bell_init(&feature->finished);
    ledger_init(feature);
    feature->tasks = bl_zalloc((plan->task_count + 1) * sizeof *feature->tasks);
    for (size_t i = 0; i < plan->task_count; i++)
        feature_make_task(feature, i);
    feature->waves = bl_zalloc((plan->wave_count + 1) * sizeof *feature->waves);
    for (size_t i = 0; i < plan->wave_count; i++)
        feature->waves[i].n = (uint32_t)i + 1;
    return feature;
}

void feature_free(struct bl_feature *feature)
{
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct feature_task *task = &feature->tasks[i];
        struct bl_text *const texts[] = {&task->late_verdict, &task->partial_text,
                                         &task->partial_result, &task->carry};
        for (size_t j = 0; j < BL_COUNT(texts); j++)
            row_text_set(texts[j], (struct bl_text){0});
        task_row_done(&task->row);
        bl_buffer_done(&task->receipt_json);
    }
    bl_free(feature->tasks);
    bl_free(feature->waves);
    bl_buffer_done(&feature->receipt_json);
    bl_buffer_done(&feature->warned);
    ledger_done(feature);
    bl_free(feature);
}

/* ---- Running --------------------------------------------------------------------------------- */

static void feature_tell_start(struct bl_feature *feature)
{
    const char **already = bl_alloc((feature->plan->task_count + 1) * sizeof *already);
    size_t count = 0;
    if (feature->plan_changed)
        EVENT_TELL(feature, PLAN_CHANGED, NULL);
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        enum bl_task_state state = feature->tasks[i].row.state;
        if (state == BL_TASK_COMPLETED || state == BL_TASK_APPROVED || state == BL_TASK_DEFERRED)
            already[count++] = feature->tasks[i].row.id;
    }
    EVENT_TELL(feature, FEATURE_STARTED, NULL, .names = already, .name_count = count);
    bl_free(already);
    if (feature->dirty_files > 0)
        event_warn(feature, NULL, "%zu uncommitted file%s of the checkout %s not in the base",
                   feature->dirty_files, feature->dirty_files == 1 ? "" : "s",
                   feature->dirty_files == 1 ? "is" : "are");
}

/* Reads the stop at the scope where it began. */
static void feature_read_stop(const struct bl_feature *feature, struct bl_stop *stop)
{
    bl_scope_stop_read(&feature->scope, stop);
    if (stop->reason == BL_STOP_PARENT)
        bl_scope_stop_read(feature->outer, stop);
}

/* Returns whether all tasks are done, or (`wanted`) all tasks selected for this run. */
static bool all_done(const struct bl_feature *feature, bool wanted)
{
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        const struct feature_task *task = &feature->tasks[i];
        if ((task->wanted || !wanted) && task->row.state != BL_TASK_COMPLETED &&
            task->row.state != BL_TASK_DEFERRED)
            return false;
    }
    return true;
}

static int feature_exit_code(const struct bl_feature *feature, const struct bl_stop *stop,
                             const char **ret_state)
{
    *ret_state = "failed";
    if (feature->error.code != 0)
        return 1;
    switch (stop->reason) {
    case BL_STOP_USER:
    case BL_STOP_SIGNAL:
    case BL_STOP_CLIENT_GONE:
    case BL_STOP_SHUTDOWN:
    case BL_STOP_PARENT:
        *ret_state = "cancelled";
        return strcmp(stop->origin, "SIGTERM") == 0 ? 143 : 130;
    case BL_STOP_TIMEOUT: *ret_state = "timed_out"; return 124;
    case BL_STOP_BUDGET: return 3;
    case BL_STOP_LEASE_LOST: *ret_state = "interrupted"; return 1;
    case BL_STOP_NONE:
    case BL_STOP_SIBLING_FAILURE:
    case BL_STOP_FEATURE_FAILURE:
    case BL_STOP_OWNER_DIED: break;
    }
    if (!all_done(feature, true))
        return 1;
    *ret_state = all_done(feature, false) ? "completed" : "pending";
    return 0;
}

static int feature_put_end(struct bl_feature *feature)
{
    struct feature_row *row = &feature->row;
    struct bl_stop stop;
    const char *state;
    feature_read_stop(feature, &stop);
    row->exit_code = feature_exit_code(feature, &stop, &state);
    row->ended_wall_ns = bl_clock_wall_ns(feature->clock);
    row->deadline_wall_ns = 0;
    bl_text_into(row->state, sizeof row->state, state);
    row->reason[0] = row->origin[0] = row->receipt[0] = '\0';
    if (stop.reason != BL_STOP_NONE) {
        bl_text_into(row->reason, sizeof row->reason, bl_stop_reason_name(stop.reason));
        bl_text_into(row->origin, sizeof row->origin, stop.origin);
        bl_text_into(row->receipt, sizeof row->receipt, feature->receipt.id);
        feature_receipt_put(feature, NULL, &feature->receipt, &feature->receipt_json);
    }
    ledger_put_feature(feature);
    EVENT_TELL(feature, FEATURE_ENDED, NULL);
    return ledger_write(feature, true);
}

static void feature_hurry(struct bl_activity *activity)
{
    struct bl_feature *feature = BL_CONTAINER(activity, struct bl_feature, activity);
    feature->hurried = true;
    seat_house_hurry(&feature->house);
}

static void begin_activity(struct bl_feature *feature)
{
    feature->activity =
        (struct bl_activity){.kind = "feature", .scope = &feature->scope, .hurry = feature_hurry};
    bl_text_into(feature->activity.id, sizeof feature->activity.id, feature->row.run_id);
    bl_text_into(feature->activity.session, sizeof feature->activity.session, feature->plan->id);
    bl_text_into(feature->activity.phase, sizeof feature->activity.phase, "running");
    if (feature->options.activities != NULL)
        bl_activity_begin(feature->options.activities, &feature->activity);
}

/* Tells a stop of the whole feature, once. */
static void scope_stopped(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct bl_feature *feature = BL_CONTAINER(hook, struct bl_feature, stopped);
    struct bl_stop stop;
    bl_scope_stop_read(scope, &stop);
    EVENT_TELL(feature, CANCEL_REQUESTED, NULL, .reason = stop.reason, .origin = stop.origin);
}

int bl_feature_run(struct bl_feature *feature, struct bl_scope *scope)
{
    struct bl_scope shield;
    uint64_t limit_ns = feature->plan->limits.feature_timeout_ns;
    feature->outer = scope;
    bl_scope_init(&feature->scope, scope);
    bl_receipt_open(&feature->receipt, &feature->scope, feature->row.run_id);
    bl_stop_hook_add(&feature->stopped, &feature->scope, scope_stopped);
    bl_nursery_init(&feature->services, bl_loop_scope(bl_loop_current()));
    bl_semaphore_init(&feature->slots, feature->plan->limits.parallel);
    struct bl_scope *outer = bl_scope_enter(&feature->scope);
    feature->running = true;
    begin_activity(feature);
    if (limit_ns > 0) {
        bl_scope_set_deadline(&feature->scope, bl_time_add(bl_now_ns(), limit_ns));
        feature->row.deadline_wall_ns = bl_clock_wall_ns(feature->clock) + (int64_t)limit_ns;
        ledger_put_feature(feature);
    }
    bl_nursery_spawn(&feature->services, NULL, "ledger", ledger_beat, feature, NULL);
    feature_tell_start(feature);
    waves_run(feature);
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    /* An end that the store refuses is a failure too. */
    if (feature_put_end(feature) != 0 && feature->row.exit_code == 0)
        feature_put_end(feature);
    events_tell(feature, true);
    bl_shield_end(&shield);
    feature->running = false;
    if (feature->options.activities != NULL)
        bl_activity_end(&feature->activity, bl_buffer_text(&feature->receipt_json));
    bl_scope_enter(outer);
    bl_nursery_done(&feature->services);
    bl_stop_hook_remove(&feature->stopped);
    bl_receipt_close(&feature->receipt);
    bl_scope_done(&feature->scope);
    feature_bell_ring(&feature->finished);
    return feature->row.exit_code;
}
