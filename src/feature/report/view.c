/* Records of the store, made into what everybody looks at.
 *
 * Whatever a record lacks, or has of another type, is not known; a feature that was only half
 * written when its runner died can be looked at like any other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "feature/parts.h"
#include "report.h"

#define WAVES_MAX   1000u /* numbers above are nobody's */
#define MESSAGE_MAX ((size_t)1024)

/* A view while it is made. */
struct maker {
    struct bl_arena *arena;
    struct bl_feature_view *view;
    int64_t now_ns;
    const struct bl_json *feature; /* NULL: there is no such record, as the next */
    const struct bl_json *plan;
    struct bl_map rows;                         /* by id of the task: its row */
    struct bl_map numbers;                      /* by id of the task: its number + 1 */
    struct bl_map plan_waves;                   /* by id of the task: its wave, from 1 */
    const struct bl_json *waves[WAVES_MAX + 1]; /* by number; NULL: not on record */
    size_t task_capacity;
};

/* ---- Members --------------------------------------------------------------------------------- */

static const struct bl_json *report_view_get(const struct bl_json *object, const char *key)
{
    return bl_json_get(object, bl_text_from(key));
}

static const char *get_string(const struct bl_json *object, const char *key)
{
    struct bl_text text = bl_json_text(report_view_get(object, key));
    return text.size > 0 ? text.data : NULL;
}

static uint32_t get_count(const struct bl_json *object, const char *key)
{
    int64_t value;
    bool known =
        bl_json_int64(report_view_get(object, key), &value) && value > 0 && value <= UINT32_MAX;
    return known ? (uint32_t)value : 0;
}

/* Negative: not known. */
static double get_number(const struct bl_json *object, const char *key)
{
    double value;
    bool known = bl_json_double(report_view_get(object, key), &value) && value >= 0 &&
                 value <= FEATURE_SECONDS_MAX;
    return known ? value : -1;
}

/* ---- Times ----------------------------------------------------------------------------------- */

bool view_time_ms(int64_t wall_ns, int64_t *ret_wall_ms)
{
    if (wall_ns == 0)
        return false;
    *ret_wall_ms = wall_ns / (int64_t)BL_NS_PER_MS;
    return true;
}

bool view_time_read(const char *text, int64_t *ret_wall_ms)
{
    int64_t wall_ns;
    if (!bl_time_parse(bl_text_from(text), &wall_ns))
        return false;
    *ret_wall_ms = wall_ns / (int64_t)BL_NS_PER_MS;
    return true;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Of an attempt that ended without saying how long it was, and of one that goes on. */
static void fill_times(struct bl_task_view *task, int64_t now_ns)
{
    struct bl_task_row *row = &task->row;
    bool live = row->state == BL_TASK_RUNNING || row->state == BL_TASK_STOPPING;
    int64_t ended_ns = live ? now_ns : row->ended_wall_ns;
    if (row->started_wall_ns == 0 || ended_ns == 0)
        return;
    if (row->elapsed_s < 0)
        row->elapsed_s =
            ended_ns > row->started_wall_ns ? (double)(ended_ns - row->started_wall_ns) / 1e9 : 0;
    if (live && task->deadline_left_s < 0 && task->deadline_s >= 0)
        task->deadline_left_s = fmax(task->deadline_s - row->elapsed_s, 0);
}

/* The slot starts the timer: a task that waits for one has no deadline yet. */
static void fill_deadline(struct bl_task_view *task)
{
    struct bl_task_row *row = &task->row;
    bool waits = row->state == BL_TASK_PENDING || row->state == BL_TASK_QUEUED;
    row->deadline_s = waits ? -1 : task->deadline_s;
    bl_text_into(row->deadline_source, sizeof row->deadline_source,
                 waits ? NULL : task->deadline_source);
}

void view_task_read(struct bl_arena *arena, const struct bl_json *json, int64_t now_ns,
                    struct bl_task_view *task)
{
    const struct bl_task_view planned = *task;
    const struct bl_json *checkpoint = report_view_get(json, "checkpoint");
    struct bl_task_row *row = &task->row;
    size_t state;
    bl_record_take(arena, &task_view_read_record, json, task);
    task->json = json;
    task->checkpoint = bl_json_is(checkpoint, BL_JSON_OBJECT) ? checkpoint : NULL;
    if (planned.row.id[0] != '\0')
        memcpy(row->id, planned.row.id, sizeof row->id);
    if (row->name.size == 0)
        row->name = planned.row.name;
    if (row->turns_max == 0)
        row->turns_max = planned.row.turns_max;
    if (get_number(json, "grace_s") < 0)
        row->grace_s = planned.row.grace_s;
    if (!bl_names_find(&bl_task_states, bl_json_text(report_view_get(json, "state")), &state))
        row->state = bl_task_decision_state(row->decision);
    bool decided = row->deadline_s >= 0;
    task->deadline_s = decided ? row->deadline_s : planned.deadline_s;
    bl_text_into(task->deadline_source, sizeof task->deadline_source,
                 decided ? row->deadline_source : planned.deadline_source);
    fill_times(task, now_ns);
    fill_deadline(task);
}

/* The place of a task, made at the end if it has none. */
static struct bl_task_view *task_place(struct maker *maker, struct bl_text id)
{
    struct bl_feature_view *view = maker->view;
    size_t number = (size_t)(uintptr_t)bl_map_get(&maker->numbers, id);
    if (number > 0)
        return &view->tasks[number - 1];
    if (view->task_count == maker->task_capacity) {
        size_t size = sizeof *view->tasks * maker->task_capacity;
        maker->task_capacity = maker->task_capacity * 2 + 16;
        view->tasks = bl_arena_resize(maker->arena, view->tasks, size,
                                      sizeof *view->tasks * maker->task_capacity);
    }
    struct bl_task_view *task = &view->tasks[view->task_count++];
    bl_record_take(maker->arena, &task_view_read_record, NULL, task);
    task->deadline_s = -1;
    bl_text_into(task->row.id, sizeof task->row.id, bl_arena_text(maker->arena, id).data);
    bl_map_set(&maker->numbers, id, (void *)(uintptr_t)view->task_count, NULL);
    return task;
}

/* In the plan's order; what the plan says stands until the task's row says more. */
static void place_planned(struct maker *maker)
{
    uint32_t wave = 0;
    BL_JSON_EACH (planned, report_view_get(maker->plan, "tasks")) {
        struct bl_text id = bl_json_text(report_view_get(planned, "id"));
        if (id.size == 0)
            continue;
        struct bl_task_view *task = task_place(maker, id);
        double grace_s = get_number(planned, "grace_s");
        task->row.name = bl_json_text(report_view_get(planned, "name"));
        task->row.turns_max = get_count(planned, "turns");
        task->deadline_s = get_number(planned, "deadline_s");
        bl_text_into(task->deadline_source, sizeof task->deadline_source,
                     get_string(planned, "deadline_source"));
        task->row.grace_s = grace_s >= 0 ? grace_s : 0;
    }
    BL_JSON_EACH (ids, report_view_get(maker->plan, "waves")) {
        if (++wave > WAVES_MAX)
            break;
        BL_JSON_EACH (id, ids)
            bl_map_set(&maker->plan_waves, bl_json_text(id), (void *)(uintptr_t)wave, NULL);
    }
}

static uint32_t wave_of(struct maker *maker, const struct bl_task_view *task)
{
    struct bl_text id = bl_text_from(task->row.id);
    if (task->row.wave >= 1 && task->row.wave <= WAVES_MAX)
        return task->row.wave;
    for (uint32_t n = 1; n <= WAVES_MAX; n++) {
        BL_JSON_EACH (named, report_view_get(maker->waves[n], "tasks")) {
            if (bl_text_equal(bl_json_text(named), id))
                return n;
        }
    }
    uint32_t planned = (uint32_t)(uintptr_t)bl_map_get(&maker->plan_waves, id);
    return planned > 0 ? planned : 1;
}

static void make_tasks(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    place_planned(maker);
    BL_MAP_EACH (entry, &maker->rows)
        view_task_read(maker->arena, entry->value, maker->now_ns, task_place(maker, entry->key));
    for (size_t i = 0; i < view->task_count; i++) {
        struct bl_task_view *task = &view->tasks[i];
        if (task->row.name.size == 0)
            task->row.name = bl_arena_text(maker->arena, bl_text_from(task->row.id));
        task->row.wave = wave_of(maker, task);
        view->counts[task->row.state]++;
        if (task->row.spent_known)
            bl_spent_add(&view->spent, &task->row.spent);
        view->spent_known = view->spent_known || task->row.spent_known;
    }
}

/* ---- Waves ----------------------------------------------------------------------------------- */

static uint32_t count_waves(const struct maker *maker)
{
    uint32_t count = (uint32_t)bl_json_size(report_view_get(maker->plan, "waves"));
    count = count <= WAVES_MAX ? count : WAVES_MAX;
    for (uint32_t n = count + 1; n <= WAVES_MAX; n++) {
        if (maker->waves[n] != NULL)
            count = n;
    }
    for (size_t i = 0; i < maker->view->task_count; i++) {
        if (maker->view->tasks[i].row.wave > count)
            count = maker->view->tasks[i].row.wave;
    }
    return count;
}

static void make_waves(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    view->wave_count = count_waves(maker);
    view->waves = bl_arena_zalloc(maker->arena, sizeof *view->waves * (view->wave_count + 1));
    for (size_t i = 0; i < view->task_count; i++)
        view->waves[view->tasks[i].row.wave - 1].task_count++;
    for (uint32_t i = 0; i < view->wave_count; i++) {
        struct bl_wave_view *wave = &view->waves[i];
        const struct bl_json *row = maker->waves[i + 1];
        const char *state = get_string(row, "state");
        wave->n = i + 1;
        wave->state = state != NULL ? state : "pending";
        wave->gate = get_string(row, "gate");
        wave->started_wall_ns = row_member_time(row, "started_at");
        wave->ended_wall_ns = row_member_time(row, "ended_at");
        wave->message = get_string(row, "message");
        wave->tasks = bl_arena_alloc(maker->arena, sizeof *wave->tasks * wave->task_count);
        wave->task_count = 0;
        if (wave->gate != NULL && strcmp(wave->gate, "absent") == 0)
            view->unverified = true;
    }
    for (size_t i = 0; i < view->task_count; i++) {
        struct bl_wave_view *wave = &view->waves[view->tasks[i].row.wave - 1];
        wave->tasks[wave->task_count++] = i;
    }
}

/* ---- The feature ----------------------------------------------------------------------------- */

static void report_view_add_record(struct maker *maker, struct bl_list *list, const char *name,
                                   struct bl_text json)
{
    struct bl_row *record = bl_arena_zalloc(maker->arena, sizeof *record);
    record->name = bl_arena_text(maker->arena, bl_text_from(name)).data;
    record->json = bl_arena_text(maker->arena, json);
    bl_list_push_back(list, &record->link);
}

static void add_warning(struct maker *maker, const struct bl_json *value, const char *message)
{
    struct bl_buffer buffer;
    struct bl_json_writer writer;
    bl_buffer_init(&buffer, SIZE_MAX / 2);
    bl_json_writer_init(&writer, &buffer);
    if (bl_json_is(value, BL_JSON_OBJECT)) {
        bl_json_write_value(&writer, value);
    } else {
        bl_json_write_object(&writer);
        if (value != NULL)
            bl_json_put_text(&writer, "message", bl_json_text(value));
        else
            bl_json_put_string(&writer, "message", message);
        bl_json_write_end(&writer);
    }
    if (bl_json_writer_done(&writer) == 0)
        report_view_add_record(maker, &maker->view->warnings, "warning", bl_buffer_text(&buffer));
    bl_buffer_done(&buffer);
}

static void report_view_make_feature(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    const struct bl_json *row = maker->feature, *error = report_view_get(row, "error");
    const char *state = get_string(row, "state");
    int64_t value;
    view->feature = get_string(row, "feature");
    view->name = get_string(row, "name");
    if (view->feature == NULL)
        view->feature = get_string(maker->plan, "id");
    if (view->name == NULL)
        view->name = get_string(maker->plan, "name");
    view->repository = get_string(row, "repository");
    view->run_id = get_string(row, "run_id");
    view->state = state != NULL ? state : "pending";
    view->plan_digest = get_string(row, "plan_digest");
    if (view->plan_digest == NULL)
        view->plan_digest = get_string(maker->plan, "digest");
    view->base_commit = get_string(row, "base_commit");
    view->result_branch = get_string(row, "result_branch");
    view->result_commit = get_string(row, "result_commit");
    view->started_wall_ns = row_member_time(row, "started_at");
    view->ended_wall_ns = row_member_time(row, "ended_at");
    view->reason = get_string(row, "reason");
    view->origin = get_string(row, "origin");
    view->exit_code = -1;
    if (bl_json_int64(report_view_get(row, "exit_code"), &value) && value >= 0 && value <= 255)
        view->exit_code = (int)value;
    view->parallel = get_count(row, "parallel");
    view->feature_deadline_s = get_number(row, "feature_deadline_s");
    view->generation = get_count(row, "generation");
    view->owner_pid = get_count(row, "owner_pid");
    view->owner = get_string(row, "owner");
    view->unverified = bl_json_boolean(report_view_get(row, "unverified"), false);
    view->error = bl_json_is(error, BL_JSON_OBJECT) ? error : NULL;
    BL_JSON_EACH (warning, report_view_get(row, "warnings"))
        add_warning(maker, warning, NULL);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* A record with what it is sorted by. */
struct sortable {
    char time[32]; /* unknown ones come last */
    uint32_t attempt;
    uint32_t turn;
    struct bl_row *record;
};

static int compare_sortable(const void *left, const void *right)
{
    const struct sortable *a = left, *b = right;
    int order = strcmp(a->time, b->time);
    if (order == 0 && a->attempt != b->attempt)
        order = a->attempt < b->attempt ? -1 : 1;
    if (order == 0 && a->turn != b->turn)
        order = a->turn < b->turn ? -1 : 1;
    return order != 0 ? order : strcmp(a->record->name, b->record->name);
}

/* Oldest first, by the time that a member says. */
static void sort_records(struct maker *maker, struct bl_list *list, const char *key)
{
    size_t count = 0;
    BL_LIST_EACH (link, list)
        count++;
    struct sortable *all = bl_alloc((count + 1) * sizeof *all);
    struct bl_list *link;
    for (size_t i = 0; (link = bl_list_pop_front(list)) != NULL; i++) {
        struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct bl_arena_mark mark = bl_arena_mark(maker->arena);
        const struct bl_json *row = view_record_read(maker->arena, record->json);
        const char *time = get_string(row, key);
        all[i] = (struct sortable){
            .attempt = get_count(row, "attempt"), .turn = get_count(row, "turn"), .record = record};
        bl_text_into(all[i].time, sizeof all[i].time, time != NULL ? time : "~");
        bl_arena_rewind(maker->arena, mark);
    }
    qsort(all, count, sizeof *all, compare_sortable);
    for (size_t i = 0; i < count; i++)
        bl_list_push_back(list, &all[i].record->link);
    bl_free(all);
}

/* Of the newest run, or of an attempt that is its task's newest. */
static bool report_view_is_current(const struct bl_feature_view *view,
                                   const struct bl_json *feature, const struct bl_json *receipt)
{
    const char *id = get_string(receipt, "id"), *own = get_string(feature, "receipt");
    int64_t asked_ns = row_member_time(receipt, "requested_at");
    if (id != NULL && own != NULL && strcmp(id, own) == 0)
        return true;
    for (size_t i = 0; id != NULL && i < view->task_count; i++) {
        if (strcmp(view->tasks[i].row.receipt, id) == 0)
            return true;
    }
    return view->started_wall_ns == 0 || asked_ns == 0 || asked_ns >= view->started_wall_ns;
}

static void split_receipts(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    sort_records(maker, &view->receipts, "requested_at");
    BL_LIST_EACH_SAFE (link, &view->receipts) {
        struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct bl_arena_mark mark = bl_arena_mark(maker->arena);
        const struct bl_json *receipt = view_record_read(maker->arena, record->json);
        bool current = report_view_is_current(view, maker->feature, receipt);
        bl_arena_rewind(maker->arena, mark);
        if (current)
            continue;
        bl_list_remove(link);
        bl_list_push_back(&view->earlier_receipts, link);
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

const struct bl_json *view_record_read(struct bl_arena *arena, struct bl_text json)
{
    const struct bl_json *value;
    if (json.size == 0 || bl_json_read(arena, json, NULL, &value, NULL) != 0)
        return NULL;
    return bl_json_is(value, BL_JSON_OBJECT) ? value : NULL;
}

/* The rest of a name that begins so; NULL: it does not. */
static const char *report_view_after(const char *name, const char *prefix)
{
    size_t size = strlen(prefix);
    return strncmp(name, prefix, size) == 0 ? name + size : NULL;
}

static void report_view_take_wave(struct maker *maker, const char *number,
                                  const struct bl_json *row)
{
    int64_t n;
    if (bl_text_to_int64(bl_text_from(number), &n) == 0 && n >= 1 && n <= WAVES_MAX)
        maker->waves[n] = row;
}

static void report_view_take_record(struct maker *maker, const struct bl_row *record)
{
    static const char *const kept[] = {"turn/", "attempt/", "receipt/", "warning/"};
    struct bl_feature_view *view = maker->view;
    struct bl_list *const lists[] = {&view->turns, &view->attempts, &view->receipts, NULL};
    const char *name = record->name, *task = report_view_after(name, "task/"),
               *wave = report_view_after(name, "wave/");
    size_t which = 0;
    while (which < BL_COUNT(kept) && report_view_after(name, kept[which]) == NULL)
        which++;
    bool known = strcmp(name, "feature") == 0 || strcmp(name, "plan") == 0 || task != NULL ||
                 wave != NULL || which < BL_COUNT(kept);
    if (!known)
        return;
    struct bl_arena_mark mark = bl_arena_mark(maker->arena);
    const struct bl_json *row = view_record_read(maker->arena, record->json);
    if (row == NULL) {
        char message[MESSAGE_MAX];
        snprintf(message, sizeof message, "the record %s cannot be read, and was left out", name);
        add_warning(maker, NULL, message);
    } else if (strcmp(name, "feature") == 0) {
        maker->feature = row;
    } else if (strcmp(name, "plan") == 0) {
        maker->plan = row;
    } else if (task != NULL) {
        bl_map_set(&maker->rows, bl_text_from(task), (void *)(uintptr_t)row, NULL);
    } else if (wave != NULL) {
        report_view_take_wave(maker, wave, row);
    } else if (lists[which] != NULL) {
        bl_arena_rewind(maker->arena, mark); /* whoever wants it reads it */
        report_view_add_record(maker, lists[which], name, record->json);
    } else {
        add_warning(maker, row, NULL);
    }
}

int bl_feature_view_make(struct bl_arena *arena, const struct bl_list *records,
                         struct bl_feature_view **ret_view, struct bl_error *error)
{
    (void)error;
    struct maker *maker = bl_zalloc(sizeof *maker);
    struct bl_feature_view *view = bl_arena_zalloc(arena, sizeof *view);
    maker->arena = arena;
    maker->view = view;
    maker->now_ns = bl_clock_wall_ns(&bl_clock_system);
    bl_map_init(&maker->rows);
    bl_map_init(&maker->numbers);
    bl_map_init(&maker->plan_waves);
    bl_list_init(&view->receipts);
    bl_list_init(&view->turns);
    bl_list_init(&view->warnings);
    bl_list_init(&view->attempts);
    bl_list_init(&view->earlier_receipts);
    BL_LIST_EACH (link, records)
        report_view_take_record(maker, BL_CONTAINER(link, struct bl_row, link));
    report_view_make_feature(maker);
    make_tasks(maker);
    make_waves(maker);
    split_receipts(maker);
    sort_records(maker, &view->turns, "started_at");
    sort_records(maker, &view->attempts, "ended_at");
    bl_map_done(&maker->rows);
    bl_map_done(&maker->numbers);
    bl_map_done(&maker->plan_waves);
    bl_free(maker);
    *ret_view = view;
    return 0;
}

struct bl_task_view *bl_feature_view_task(const struct bl_feature_view *view, struct bl_text id)
{
    for (size_t i = 0; i < view->task_count; i++) {
        if (bl_text_equal(bl_text_from(view->tasks[i].row.id), id))
            return &view->tasks[i];
    }
    return NULL;
}
