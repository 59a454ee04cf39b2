/* Makes views from the records of the store.
 *
 * Missing members, and those of a wrong type, are unknown. So a feature that was only half written
 * when its runner died can still be viewed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "feature/parts.h"
#include "report.h"

#define WAVES_MAX 1000u /* higher numbers are ignored */

/* The plan's record, as far as the view needs it. */
struct planned_task {
    struct bl_text id;
    struct bl_text name;
    uint32_t turns;
    double deadline_s;
    char deadline_source[24];
    double grace_s;
};

struct planned {
    const char *id;
    const char *name;
    const char *digest;
    const struct planned_task *tasks;
    size_t task_count;
    const struct bl_json *waves; /* lists of ids */
};

#define BL_RECORD_STRUCT struct planned_task
static const struct bl_member planned_task_members[] = {
    BL_MEMBER_TEXT("id", id),
    BL_MEMBER_TEXT("name", name),
    BL_MEMBER_INTEGER("turns", turns),
    BL_MEMBER_NUMBER("deadline_s", deadline_s, .none = -1, .most = FEATURE_SECONDS_MAX),
    BL_MEMBER_WORD("deadline_source", deadline_source, .cut = true),
    BL_MEMBER_NUMBER("grace_s", grace_s, .most = FEATURE_SECONDS_MAX),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record planned_task_record =
    BL_RECORD("planned_task", struct planned_task, planned_task_members);
static const struct bl_member planned_task_element =
    BL_ELEMENT(struct planned_task, &planned_task_record);

#define BL_RECORD_STRUCT struct planned
static const struct bl_member planned_members[] = {
    BL_MEMBER_STRING("id", id),
    BL_MEMBER_STRING("name", name),
    BL_MEMBER_STRING("digest", digest),
    BL_MEMBER_ARRAY("tasks", tasks, task_count, &planned_task_element),
    BL_MEMBER_JSON("waves", waves),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record planned_record =
    BL_RECORD("planned", struct planned, planned_members);

/* Sort keys of a turn, an attempt or a receipt. */
struct listed {
    const char *id;
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    int64_t requested_wall_ns;
    uint32_t attempt;
    uint32_t turn;
};

#define BL_RECORD_STRUCT struct listed
static const struct bl_member listed_members[] = {
    BL_MEMBER_STRING("id", id),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_TIME("ended_at", ended_wall_ns),
    BL_MEMBER_TIME("requested_at", requested_wall_ns),
    BL_MEMBER_INTEGER("attempt", attempt),
    BL_MEMBER_INTEGER("turn", turn),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record listed_record = BL_RECORD("listed", struct listed, listed_members);

/* State while a view is made. */
struct maker {
    struct bl_arena *arena;
    struct bl_feature_view *view;
    int64_t now_ns;
    struct feature_record feature;
    struct planned plan;
    struct bl_map rows;                       /* by task id: its row */
    struct bl_map numbers;                    /* by task id: its number + 1 */
    struct bl_map plan_waves;                 /* by task id: its wave, from 1 */
    struct wave_record *waves[WAVES_MAX + 1]; /* by number; NULL: no record */
    size_t task_capacity;
    struct bl_feature_warning *unreadable; /* warnings about omitted records */
    size_t unreadable_count;
};

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

static double view_left_s(int64_t deadline_wall_ns, int64_t now_ns)
{
    return deadline_wall_ns > now_ns ? (double)(deadline_wall_ns - now_ns) / 1e9 : 0;
}

/* Computes the times of a running attempt, and of one that ended without a recorded duration. */
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
    if (!live || task->deadline_left_s >= 0)
        return;
    if (row->held_left_s >= 0)
        task->deadline_left_s = row->held_left_s;
    else if (row->deadline_wall_ns != 0)
        task->deadline_left_s = view_left_s(row->deadline_wall_ns, now_ns);
    else if (task->deadline_s >= 0) /* an older belay wrote the row */
        task->deadline_left_s = fmax(task->deadline_s - row->elapsed_s, 0);
}

/* The feature's deadline stops its tasks too. */
static void view_limit(const struct bl_feature_view *view, struct bl_task_view *task)
{
    bool live = task->row.state == BL_TASK_RUNNING || task->row.state == BL_TASK_STOPPING;
    if (!live || view->deadline_left_s < 0 ||
        (task->deadline_left_s >= 0 && task->deadline_left_s <= view->deadline_left_s))
        return;
    task->deadline_left_s = view->deadline_left_s;
    task->ends_with_feature = true;
}

/* A waiting task has no deadline: its timer starts when it takes a slot. */
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
    const struct bl_json *checkpoint = bl_json_get(json, BL_TEXT("checkpoint"));
    struct bl_task_row *row = &task->row;
    double grace_s;
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
    if (!bl_json_double(bl_json_get(json, BL_TEXT("grace_s")), &grace_s))
        row->grace_s = planned.row.grace_s;
    if (!bl_names_find(&bl_task_states, bl_json_text(bl_json_get(json, BL_TEXT("state"))), &state))
        row->state = bl_task_decision_state(row->decision);
    bool decided = row->deadline_s >= 0;
    task->deadline_s = decided ? row->deadline_s : planned.deadline_s;
    bl_text_into(task->deadline_source, sizeof task->deadline_source,
                 decided ? row->deadline_source : planned.deadline_source);
    fill_times(task, now_ns);
    fill_deadline(task);
}

/* Returns the place of a task, and adds one at the end if it has none. */
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

/* Adds the tasks in plan order. Values from the plan apply until the task's row has others. */
static void place_planned(struct maker *maker)
{
    uint32_t wave = 0;
    for (size_t i = 0; i < maker->plan.task_count; i++) {
        const struct planned_task *planned = &maker->plan.tasks[i];
        if (planned->id.size == 0)
            continue;
        struct bl_task_view *task = task_place(maker, planned->id);
        task->row.name = planned->name;
        task->row.turns_max = planned->turns;
        task->deadline_s = planned->deadline_s;
        memcpy(task->deadline_source, planned->deadline_source, sizeof task->deadline_source);
        task->row.grace_s = planned->grace_s;
    }
    BL_JSON_EACH (ids, maker->plan.waves) {
        if (++wave > WAVES_MAX)
            break;
        BL_JSON_EACH (id, ids)
            bl_map_set(&maker->plan_waves, bl_json_text(id), (void *)(uintptr_t)wave, NULL);
    }
}

static uint32_t wave_of(struct maker *maker, const struct bl_task_view *task)
{
    if (task->row.wave >= 1 && task->row.wave <= WAVES_MAX)
        return task->row.wave;
    for (uint32_t n = 1; n <= WAVES_MAX; n++) {
        const struct wave_record *wave = maker->waves[n];
        for (size_t i = 0; wave != NULL && i < wave->task_count; i++) {
            if (strcmp(wave->tasks[i], task->row.id) == 0)
                return n;
        }
    }
    uint32_t planned =
        (uint32_t)(uintptr_t)bl_map_get(&maker->plan_waves, bl_text_from(task->row.id));
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
        view_limit(view, task);
        view->counts[task->row.state]++;
        if (task->row.spent_known)
            bl_spent_add(&view->spent, &task->row.spent);
        view->spent_known = view->spent_known || task->row.spent_known;
    }
}

/* Sums the tokens of approved tasks. The others count only in `spent`. */
static void sum_usage(struct bl_feature_view *view)
{
    bool any = false;
    for (size_t i = 0; i < view->task_count; i++) {
        const struct bl_task_row *row = &view->tasks[i].row;
        bool stands =
            row->state == BL_TASK_APPROVED || (row->state == BL_TASK_COMPLETED && row->attempt > 0);
        any = any || stands;
        if (!stands || !row->spent_known)
            continue;
        view->usage_known = true;
        bl_usage_add(&view->usage, &row->spent.usage);
    }
    view->usage_known = view->usage_known || !any;
}

/* ---- Waves ----------------------------------------------------------------------------------- */

static uint32_t count_waves(const struct maker *maker)
{
    uint32_t count = (uint32_t)bl_json_size(maker->plan.waves);
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
        const struct wave_record none = {.message = NULL};
        const struct wave_record *row = maker->waves[i + 1] != NULL ? maker->waves[i + 1] : &none;
        wave->n = i + 1;
        wave->state = bl_names_get(&wave_states, row->wave.state);
        wave->gate = bl_verified_name(row->wave.gate);
        wave->started_wall_ns = row->wave.started_wall_ns;
        wave->ended_wall_ns = row->wave.ended_wall_ns;
        wave->message = row->message;
        wave->tasks = bl_arena_alloc(maker->arena, sizeof *wave->tasks * wave->task_count);
        wave->task_count = 0;
        view->unverified = view->unverified || row->wave.gate == BL_VERIFIED_ABSENT;
    }
    for (size_t i = 0; i < view->task_count; i++) {
        struct bl_wave_view *wave = &view->waves[view->tasks[i].row.wave - 1];
        wave->tasks[wave->task_count++] = &view->tasks[i];
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

/* Lists warnings about omitted records, then those of the run. */
static void list_warnings(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    size_t count = maker->unreadable_count + maker->feature.warning_count;
    view->warnings = bl_arena_alloc(maker->arena, (count + 1) * sizeof *view->warnings);
    memcpy(view->warnings, maker->unreadable, maker->unreadable_count * sizeof *view->warnings);
    view->warning_count = maker->unreadable_count;
    for (size_t i = 0; i < maker->feature.warning_count; i++)
        view->warnings[view->warning_count++].message = maker->feature.warnings[i];
}

static void report_view_make_feature(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    if (view->feature == NULL)
        view->feature = maker->plan.id;
    if (view->name == NULL)
        view->name = maker->plan.name;
    if (view->plan_digest == NULL)
        view->plan_digest = maker->plan.digest;
    if (view->state == NULL)
        view->state = "pending";
    bool runs = view->deadline_wall_ns != 0 && view->ended_wall_ns == 0 &&
                strcmp(view->state, "interrupted") != 0;
    view->deadline_left_s = runs ? view_left_s(view->deadline_wall_ns, maker->now_ns) : -1;
    list_warnings(maker);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* A record with its sort keys. */
struct sortable {
    int64_t wall_ns; /* unknown ones come last */
    struct listed listed;
    struct bl_row *record;
};

static int compare_sortable(const void *left, const void *right)
{
    const struct sortable *a = left, *b = right;
    if (a->wall_ns != b->wall_ns)
        return a->wall_ns < b->wall_ns ? -1 : 1;
    if (a->listed.attempt != b->listed.attempt)
        return a->listed.attempt < b->listed.attempt ? -1 : 1;
    if (a->listed.turn != b->listed.turn)
        return a->listed.turn < b->listed.turn ? -1 : 1;
    return strcmp(a->record->name, b->record->name);
}

/* Sorts records, oldest first, by the time at that offset in a struct listed. */
static void sort_records(struct maker *maker, struct bl_list *list, size_t time_at)
{
    size_t count = 0;
    BL_LIST_EACH (link, list)
        count++;
    struct sortable *all = bl_alloc((count + 1) * sizeof *all);
    struct bl_list *link;
    for (size_t i = 0; (link = bl_list_pop_front(list)) != NULL; i++) {
        struct bl_arena_mark mark = bl_arena_mark(maker->arena);
        all[i].record = BL_CONTAINER(link, struct bl_row, link);
        bl_record_take(maker->arena, &listed_record,
                       view_record_read(maker->arena, all[i].record->json), &all[i].listed);
        memcpy(&all[i].wall_ns, (const char *)&all[i].listed + time_at, sizeof all[i].wall_ns);
        if (all[i].wall_ns == 0)
            all[i].wall_ns = INT64_MAX;
        bl_arena_rewind(maker->arena, mark);
    }
    qsort(all, count, sizeof *all, compare_sortable);
    for (size_t i = 0; i < count; i++)
        bl_list_push_back(list, &all[i].record->link);
    bl_free(all);
}

/* Returns whether a receipt is from the newest run, or from its task's newest attempt. */
static bool report_view_is_current(const struct bl_feature_view *view, const struct listed *receipt)
{
    const char *id = receipt->id;
    if (id != NULL && view->receipt != NULL && strcmp(id, view->receipt) == 0)
        return true;
    for (size_t i = 0; id != NULL && i < view->task_count; i++) {
        if (strcmp(view->tasks[i].row.receipt, id) == 0)
            return true;
    }
    return view->started_wall_ns == 0 || receipt->requested_wall_ns == 0 ||
           receipt->requested_wall_ns >= view->started_wall_ns;
}

static void split_receipts(struct maker *maker)
{
    struct bl_feature_view *view = maker->view;
    sort_records(maker, &view->receipts, offsetof(struct listed, requested_wall_ns));
    BL_LIST_EACH_SAFE (link, &view->receipts) {
        struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        struct bl_arena_mark mark = bl_arena_mark(maker->arena);
        struct listed receipt;
        bl_record_take(maker->arena, &listed_record, view_record_read(maker->arena, record->json),
                       &receipt);
        bool current = report_view_is_current(view, &receipt);
        bl_arena_rewind(maker->arena, mark);
        if (current)
            continue;
        bl_list_remove(link);
        bl_list_push_back(&view->earlier_receipts, link);
    }
    BL_LIST_EACH (link, &view->receipts)
        view->receipt_count++;
    view->receipt_texts =
        bl_arena_alloc(maker->arena, view->receipt_count * sizeof *view->receipt_texts);
    size_t count = 0;
    BL_LIST_EACH (link, &view->receipts)
        view->receipt_texts[count++] = BL_CONTAINER(link, struct bl_row, link)->json;
}

/* ---- Records --------------------------------------------------------------------------------- */

const struct bl_json *view_record_read(struct bl_arena *arena, struct bl_text json)
{
    const struct bl_json *value;
    if (json.size == 0 || bl_json_read(arena, json, NULL, &value, NULL) != 0)
        return NULL;
    return bl_json_is(value, BL_JSON_OBJECT) ? value : NULL;
}

/* Returns the rest of a name after `prefix`, or NULL. */
static const char *report_view_after(const char *name, const char *prefix)
{
    size_t size = strlen(prefix);
    return strncmp(name, prefix, size) == 0 ? name + size : NULL;
}

static void report_view_take_wave(struct maker *maker, const char *number,
                                  const struct bl_json *row)
{
    int64_t n;
    if (bl_text_to_int64(bl_text_from(number), &n) != 0 || n < 1 || n > WAVES_MAX)
        return;
    maker->waves[n] = bl_arena_alloc(maker->arena, sizeof *maker->waves[n]);
    bl_record_take(maker->arena, &wave_row_record, row, maker->waves[n]);
}

/* Returns the list that keeps records of that name unparsed, or NULL. */
static struct bl_list *report_view_list(struct bl_feature_view *view, const char *name)
{
    if (report_view_after(name, "turn/") != NULL)
        return &view->turns;
    if (report_view_after(name, "attempt/") != NULL)
        return &view->attempts;
    return report_view_after(name, "receipt/") != NULL ? &view->receipts : NULL;
}

static void report_view_take_record(struct maker *maker, const struct bl_row *record)
{
    const char *name = record->name, *task = report_view_after(name, "task/"),
               *wave = report_view_after(name, "wave/");
    struct bl_list *list = report_view_list(maker->view, name);
    bool feature = strcmp(name, "feature") == 0, plan = strcmp(name, "plan") == 0;
    if (!feature && !plan && task == NULL && wave == NULL && list == NULL)
        return;
    struct bl_arena_mark mark = bl_arena_mark(maker->arena);
    const struct bl_json *row = view_record_read(maker->arena, record->json);
    if (row == NULL) {
        maker->unreadable[maker->unreadable_count++].message =
            bl_arena_printf(maker->arena, "cannot read record %s; it is omitted", name);
    } else if (plan) {
        bl_record_take(maker->arena, &planned_record, row, &maker->plan);
    } else if (task != NULL) {
        bl_map_set(&maker->rows, bl_text_from(task), (void *)(uintptr_t)row, NULL);
    } else if (wave != NULL) {
        report_view_take_wave(maker, wave, row);
    } else if (list != NULL) {               /* the feature's row was read before */
        bl_arena_rewind(maker->arena, mark); /* the reader of the list parses it */
        report_view_add_record(maker, list, name, record->json);
    }
}

int bl_feature_view_make(struct bl_arena *arena, const struct bl_list *records,
                         struct bl_feature_view **ret_view, struct bl_error *error)
{
    (void)error;
    struct maker *maker = bl_zalloc(sizeof *maker);
    struct bl_feature_view *view = bl_arena_zalloc(arena, sizeof *view);
    const struct bl_json *row = NULL;
    struct bl_list *const lists[] = {&view->receipts, &view->turns, &view->attempts,
                                     &view->earlier_receipts};
    size_t count = 0;
    maker->arena = arena;
    maker->view = view;
    maker->now_ns = bl_clock_wall_ns(&bl_clock_system);
    bl_map_init(&maker->rows);
    bl_map_init(&maker->numbers);
    bl_map_init(&maker->plan_waves);
    BL_LIST_EACH (link, records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        if (strcmp(record->name, "feature") == 0)
            row = view_record_read(arena, record->json);
        count++;
    }
    bl_record_take(arena, &feature_row_record, row, &maker->feature);
    *view = maker->feature.view;
    maker->unreadable = bl_arena_alloc(arena, (count + 1) * sizeof *maker->unreadable);
    for (size_t i = 0; i < BL_COUNT(lists); i++)
        bl_list_init(lists[i]);
    BL_LIST_EACH (link, records)
        report_view_take_record(maker, BL_CONTAINER(link, struct bl_row, link));
    report_view_make_feature(maker);
    make_tasks(maker);
    sum_usage(view);
    make_waves(maker);
    split_receipts(maker);
    sort_records(maker, &view->turns, offsetof(struct listed, started_wall_ns));
    sort_records(maker, &view->attempts, offsetof(struct listed, ended_wall_ns));
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
