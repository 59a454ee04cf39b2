/* The only writer of a run's records.
 *
 * Rows and events are queued, and each write takes the whole queue: so tasks share transactions,
 * and the journal has the events in order. */
#include <stdio.h>

#include "feature/parts.h"

struct pending_record {
    struct bl_row record;
    char name[224];
};

struct pending_event {
    struct bl_list link;
    size_t size;
    char json[];
};

void ledger_init(struct bl_feature *feature)
{
    bl_list_init(&feature->pending_records);
    bl_list_init(&feature->pending_events);
    bl_list_init(&feature->untold);
    feature_bell_init(&feature->to_write);
    bl_lock_init(&feature->writing);
}

static void free_record(struct pending_record *pending)
{
    bl_free((char *)pending->record.json.data);
    bl_free(pending);
}

static void free_lists(struct bl_list *records, struct bl_list *events)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(records)) != NULL)
        free_record(BL_CONTAINER(link, struct pending_record, record.link));
    while ((link = bl_list_pop_front(events)) != NULL)
        bl_free(BL_CONTAINER(link, struct pending_event, link));
}

void ledger_done(struct bl_feature *feature)
{
    events_tell(feature, true);
    free_lists(&feature->pending_records, &feature->pending_events);
}

/* ---- Pending writes -------------------------------------------------------------------------- */

void ledger_put(struct bl_feature *feature, const char *name, struct bl_text json)
{
    struct pending_record *pending = NULL;
    BL_LIST_EACH (link, &feature->pending_records) {
        struct pending_record *other = BL_CONTAINER(link, struct pending_record, record.link);
        if (strcmp(other->name, name) == 0)
            pending = other;
    }
    if (pending == NULL) {
        pending = bl_zalloc(sizeof *pending);
        bl_text_into(pending->name, sizeof pending->name, name);
        pending->record.name = pending->name;
        bl_list_push_back(&feature->pending_records, &pending->record.link);
    }
    row_text_set(&pending->record.json, json);
    feature->asked++;
}

void ledger_put_event(struct bl_feature *feature, struct bl_text json)
{
    struct pending_event *pending = bl_alloc(sizeof *pending + json.size);
    pending->size = json.size;
    memcpy(pending->json, json.data, json.size);
    bl_list_push_back(&feature->pending_events, &pending->link);
    feature->asked++;
    feature_bell_ring(&feature->to_write);
}

void ledger_put_record(struct bl_feature *feature, const char *name, const struct bl_record *record,
                       const void *from)
{
    struct bl_arena arena = {0};
    struct bl_text json = record_json(&arena, record, from);
    if (json.size > 0)
        ledger_put(feature, name, json);
    bl_arena_done(&arena);
}

void ledger_put_task(struct feature_task *task)
{
    char name[96];
    snprintf(name, sizeof name, "task/%s", task->row.id);
    task->active_changed = false;
    ledger_put_record(task->feature, name, &task_row_record, &task->row);
}

/* Lists the warnings of plan and run. */
static void ledger_list_warnings(const struct bl_feature *feature, struct bl_arena *arena,
                                 struct feature_record *record)
{
    struct bl_text warned = bl_buffer_text(&feature->warned), warning;
    size_t count = 0;
    BL_LIST_EACH (link, &feature->plan->warnings)
        count++;
    for (struct bl_text rest = warned; bl_text_split(&rest, '\0', &warning);)
        count++;
    record->warnings = bl_arena_alloc(arena, (count + 1) * sizeof *record->warnings);
    BL_LIST_EACH (link, &feature->plan->warnings) {
        struct bl_buffer line;
        bl_buffer_init(&line, 8192);
        bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), &line);
        record->warnings[record->warning_count++] = bl_arena_text(arena, bl_buffer_text(&line));
        bl_buffer_done(&line);
    }
    while (bl_text_split(&warned, '\0', &warning))
        record->warnings[record->warning_count++] = warning;
}

void ledger_feature_record(const struct bl_feature *feature, struct bl_arena *arena,
                           struct feature_record *ret_record)
{
    const struct feature_row *row = &feature->row;
    const struct bl_plan *plan = feature->plan;
    uint64_t timeout_ns = plan->limits.feature_timeout_ns;
    *ret_record = (struct feature_record){
        .view =
            {
                .feature = plan->id,
                .name = plan->name,
                .repository = plan->repository,
                .run_id = row->run_id,
                .state = row->state,
                .plan_digest = plan->digest,
                .base_commit = row_word(row->base_commit),
                .result_branch = feature->result_ref + strlen("refs/heads/"),
                .result_commit = row_word(row->result_commit),
                .started_wall_ns = row->started_wall_ns,
                .ended_wall_ns = row->ended_wall_ns,
                .deadline_wall_ns = row->deadline_wall_ns,
                .reason = row_word(row->reason),
                .origin = row_word(row->origin),
                .exit_code = row->exit_code,
                .parallel = plan->limits.parallel,
                .feature_deadline_s = timeout_ns > 0 ? (double)timeout_ns / 1e9 : -1,
                .receipt = row_word(row->receipt),
                .unverified = feature->unverified,
                .error = bl_feature_error(feature),
            },
        .tasks_total = plan->task_count,
    };
    for (size_t i = 0; i < plan->task_count; i++) {
        const struct bl_task_row *task = &feature->tasks[i].row;
        ret_record->tasks_done +=
            task->state == BL_TASK_COMPLETED || task->state == BL_TASK_DEFERRED;
        if (task->spent_known)
            bl_spent_add(&ret_record->spent, &task->spent);
        ret_record->spent_known = ret_record->spent_known || task->spent_known;
    }
    ledger_list_warnings(feature, arena, ret_record);
}

void ledger_put_feature(struct bl_feature *feature)
{
    struct bl_arena arena = {0};
    struct feature_record record;
    ledger_feature_record(feature, &arena, &record);
    ledger_put_record(feature, "feature", &feature_row_record, &record);
    bl_arena_done(&arena);
}

void ledger_put_attempt(struct feature_task *task)
{
    char name[128];
    snprintf(name, sizeof name, "attempt/%s/%03u", task->row.id, task->row.attempt);
    ledger_put_record(task->feature, name, &task_row_record, &task->row);
}

void ledger_wave_record(const struct bl_feature *feature, struct bl_arena *arena,
                        const struct feature_wave *wave, struct wave_record *ret_record)
{
    const struct bl_plan_wave *planned = &feature->plan->waves[wave->n - 1];
    const char **tasks = bl_arena_alloc(arena, planned->count * sizeof *tasks);
    for (size_t i = 0; i < planned->count; i++)
        tasks[i] = feature->plan->tasks[planned->tasks[i]].id;
    *ret_record = (struct wave_record){.wave = *wave, .tasks = tasks, .task_count = planned->count};
}

void ledger_put_wave(struct bl_feature *feature, const struct feature_wave *wave)
{
    struct bl_arena arena = {0};
    struct wave_record record;
    char name[32];
    ledger_wave_record(feature, &arena, wave, &record);
    /* Padded, so that waves sort in order. */
    snprintf(name, sizeof name, "wave/%03u", wave->n);
    ledger_put_record(feature, name, &wave_row_record, &record);
    bl_arena_done(&arena);
}

void ledger_put_turn(struct feature_task *task, const struct task_turn *turn)
{
    char name[128];
    snprintf(name, sizeof name, "turn/%s/%03u/%04u", task->row.id, turn->attempt, turn->number);
    ledger_put_record(task->feature, name, &task_turn_record, turn);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_lists(struct bl_feature *feature, const struct bl_list *records,
                       const struct bl_list *events, bool durable, struct bl_error *error)
{
    size_t count = 0;
    BL_LIST_EACH (link, events)
        count++;
    struct bl_text *lines = bl_alloc((count + 1) * sizeof *lines);
    count = 0;
    BL_LIST_EACH (link, events) {
        const struct pending_event *event = BL_CONTAINER(link, struct pending_event, link);
        lines[count++] = (struct bl_text){event->json, event->size};
    }
    struct bl_store_feature_write write = {
        .records = records,
        .events = lines,
        .event_count = count,
        .durable = durable,
    };
    int code = feature->means->write(feature, &write, error);
    bl_free(lines);
    return code;
}

static void take_list(struct bl_list *from, struct bl_list *to)
{
    struct bl_list *link;
    bl_list_init(to);
    while ((link = bl_list_pop_front(from)) != NULL)
        bl_list_push_back(to, link);
}

/* Handles the loss of the lease: another process owns the feature, and nothing more is written. */
static void tell_stale(struct bl_feature *feature, const struct bl_error *error)
{
    if (feature->stale)
        return;
    feature->stale = true;
    /* No further write will come. */
    events_drop(feature, UINT64_MAX);
    events_tell(feature, true);
    EVENT_TELL(feature, STALE_WRITE_REFUSED, NULL, .text = bl_text_from(error->message));
}

/* Notes which rows and events a write saved or lost. */
static void note_saved(struct bl_feature *feature, const struct bl_list *records,
                       const struct bl_list *events, bool saved)
{
    static const char prefix[] = "task/";
    BL_LIST_EACH (link, records) {
        const char *name = BL_CONTAINER(link, struct bl_row, link)->name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        struct feature_task *task =
            feature_task_find(feature, bl_text_from(name + sizeof prefix - 1));
        if (task != NULL)
            task->unsaved = !saved;
    }
    BL_LIST_EACH (link, events)
        feature->unsaved_events += !saved;
}

void bl_feature_unsaved_text(const struct bl_feature *feature, struct bl_buffer *out)
{
    size_t count = 0;
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        const struct feature_task *task = &feature->tasks[i];
        if (!task->unsaved)
            continue;
        bl_buffer_printf(out, "%s%s (%s)", count++ == 0 ? "not saved: the state of " : ", ",
                         task->row.id, bl_task_state_name(task->row.state));
    }
    if (feature->unsaved_events > 0)
        bl_buffer_printf(out, "%s%llu event%s", count > 0 ? "; " : "not saved: ",
                         (unsigned long long)feature->unsaved_events,
                         feature->unsaved_events == 1 ? "" : "s");
}

static int write_pending(struct bl_feature *feature)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_list records, events;
    uint64_t number = feature->asked;
    bool durable = feature->pending_durable;
    take_list(&feature->pending_records, &records);
    take_list(&feature->pending_events, &events);
    feature->pending_durable = false;
    int code = write_lists(feature, &records, &events, durable, error);
    feature->written = number;
    feature->write_code = code;
    if (code != 0)
        events_drop(feature, number);
    events_tell(feature, false);
    note_saved(feature, &records, &events, code == 0);
    free_lists(&records, &events);
    if (strcmp(error->name, "stale_write") == 0)
        tell_stale(feature, error);
    if (code != 0)
        feature_fail(feature, error);
    bl_free(error);
    return code;
}

int ledger_write(struct bl_feature *feature, bool durable)
{
    struct bl_scope shield;
    uint64_t number = feature->asked;
    int code = BL_EBUSY;
    feature->pending_durable = feature->pending_durable || durable;
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    if (!feature->stale)
        code = bl_lock_take(&feature->writing);
    if (!feature->stale && code == 0) {
        /* A write before this one may have included these records. */
        code = feature->written >= number ? feature->write_code : write_pending(feature);
        bl_lock_give(&feature->writing);
    }
    bl_shield_end(&shield);
    return code;
}

static void put_activities(struct bl_feature *feature)
{
    for (size_t i = 0; i < feature->plan->task_count; i++)
        if (feature->tasks[i].active_changed)
            ledger_put_task(&feature->tasks[i]);
}

int ledger_beat(void *argument)
{
    struct bl_feature *feature = argument;
    uint64_t beat_ns = bl_now_ns() + FEATURE_BEAT_NS;
    int code = 0;
    while (code == 0 && !feature->stale) {
        struct bl_scope wait;
        bl_limit_begin_until(&wait, beat_ns);
        if (bl_list_empty(&feature->pending_events))
            feature_bell_wait(&feature->to_write);
        bl_limit_end(&wait);
        code = bl_check();
        if (code != 0)
            break;
        if (bl_now_ns() >= beat_ns) {
            put_activities(feature);
            feature->asked++;
            beat_ns = bl_now_ns() + FEATURE_BEAT_NS;
        }
        ledger_write(feature, false);
    }
    return 0;
}
