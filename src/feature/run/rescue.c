/* Fresh starts that lose nothing: each branch becomes a rescue ref, and its worktree moves aside
 * with its uncommitted files. The intent is stored first, and each step can be repeated: the next
 * start finishes an interrupted one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "feature/parts.h"

struct rescue_item {
    struct bl_list link;
    const char *branch; /* full ref; empty, like `commit` and `ref`, for a folder in Belay's place
                           without a branch */
    const char *commit;
    const char *ref; /* rescue ref */
    const char *worktree;
    const char *aside;
};

/* The stored intent. */
struct rescue_intent {
    const char *task;     /* NULL: all */
    struct bl_list items; /* struct rescue_item */
};

#define BL_RECORD_STRUCT struct rescue_item
static const struct bl_member item_members[] = {
    BL_MEMBER_STRING("branch", branch, .vital = true, .about = "A full ref; empty: none."),
    BL_MEMBER_STRING("commit", commit, .vital = true),
    BL_MEMBER_STRING("ref", ref, .vital = true, .about = "Rescue ref."),
    BL_MEMBER_STRING("worktree", worktree, .vital = true),
    BL_MEMBER_STRING("aside", aside, .vital = true, .about = "New path of the worktree."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record item_record =
    BL_RECORD("rescue_item", struct rescue_item, item_members);

#define BL_RECORD_STRUCT struct rescue_intent
static const struct bl_member intent_members[] = {
    BL_MEMBER_STRING("task", task, .nullable = true, .about = "null: all tasks."),
    BL_MEMBER_LIST("items", items, &item_record, struct rescue_item, link),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record intent_record =
    BL_RECORD("rescue_intent", struct rescue_intent, intent_members);

/* ---- Listing --------------------------------------------------------------------------------- */

static const char *rescue_place_of(struct bl_feature *feature, struct bl_arena *arena,
                                   const char *name)
{
    return bl_arena_printf(arena, "%s/.belay/worktrees/%s/%s", feature->plan->repository,
                           feature->plan->id, name)
        .data;
}

/* Finds the next unused rescue number. */
static int next_number(struct bl_feature *feature, struct bl_arena *arena, const char *name,
                       unsigned long *ret_number, struct bl_error *error)
{
    char prefix[FEATURE_REF_SIZE];
    struct bl_list refs;
    snprintf(prefix, sizeof prefix, "refs/belay/rescue/%s/%s/", feature->plan->id, name);
    int code = git_refs_list(feature->git, arena, prefix, &refs, error);
    *ret_number = 1;
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &refs) {
        const struct git_ref *ref = BL_CONTAINER(link, struct git_ref, link);
        unsigned long number = strtoul(ref->name + strlen(prefix), NULL, 10);
        if (number >= *ret_number)
            *ret_number = number + 1;
    }
    const char *place = rescue_place_of(feature, arena, name);
    while (access(bl_arena_printf(arena, "%s.%lu", place, *ret_number).data, F_OK) == 0)
        ++*ret_number;
    return 0;
}

/* Adds an item; `ref` NULL: only the folder in the worktree's place. */
static int rescue_add_item(struct bl_feature *feature, struct bl_arena *arena, const char *name,
                           const struct git_ref *ref, struct bl_list *items, struct bl_error *error)
{
    const char *id = feature->plan->id;
    unsigned long number;
    int code = next_number(feature, arena, name, &number, error);
    if (code != 0)
        return code;
    struct rescue_item *item = bl_arena_zalloc(arena, sizeof *item);
    item->branch = item->commit = item->ref = "";
    if (ref != NULL) {
        item->branch = ref->name;
        item->commit = bl_arena_text(arena, bl_text_from(ref->id)).data;
        item->ref = bl_arena_printf(arena, "refs/belay/rescue/%s/%s/%lu", id, name, number).data;
    }
    item->worktree = rescue_place_of(feature, arena, name);
    item->aside = bl_arena_printf(arena, "%s.%lu", item->worktree, number).data;
    bl_list_push_back(items, &item->link);
    return 0;
}

static bool rescue_is_listed(const struct bl_list *items, const char *worktree)
{
    BL_LIST_EACH (link, items)
        if (strcmp(BL_CONTAINER(link, struct rescue_item, link)->worktree, worktree) == 0)
            return true;
    return false;
}

/* Lists folders in the place of worktrees that have no branch of Belay's. */
static int list_places(struct bl_feature *feature, struct bl_arena *arena, const char *task,
                       struct bl_list *items, struct bl_error *error)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < feature->plan->task_count; i++) {
        const char *id = feature->plan->tasks[i].id;
        const char *place = rescue_place_of(feature, arena, id);
        if ((task == NULL || strcmp(task, id) == 0) && access(place, F_OK) == 0 &&
            !rescue_is_listed(items, place))
            code = rescue_add_item(feature, arena, id, NULL, items, error);
    }
    return code;
}

static int list_items(struct bl_feature *feature, struct bl_arena *arena, const char *task,
                      struct bl_list *items, struct bl_error *error)
{
    char prefix[FEATURE_REF_SIZE];
    struct bl_list refs;
    bl_list_init(items);
    feature_branch(feature, "", prefix);
    int code = git_refs_list(feature->git, arena, prefix, &refs, error);
    BL_LIST_EACH (link, &refs) {
        const struct git_ref *ref = BL_CONTAINER(link, struct git_ref, link);
        if (code == 0 && (task == NULL || strcmp(ref->name + strlen(prefix), task) == 0))
            code = rescue_add_item(feature, arena, ref->name + strlen(prefix), ref, items, error);
    }
    return code == 0 ? list_places(feature, arena, task, items, error) : code;
}

/* ---- Moving aside ---------------------------------------------------------------------------- */

static void rescue_tell(struct bl_feature *feature, const struct rescue_item *item, bool moved)
{
    struct feature_event event = {.type = EVENT_RESCUE_MADE,
                                  .worktree = moved ? item->aside : NULL};
    if (item->branch[0] != '\0') {
        event.ref = item->ref;
        event.branch = item->branch + strlen("refs/heads/");
        event.commit = item->commit;
    }
    event_tell(feature, &event);
}

/* Moves aside a worktree, or a folder unknown to git. */
static int rescue_move_aside(struct bl_feature *feature, const struct rescue_item *item,
                             struct bl_error *error)
{
    bool here = access(item->worktree, F_OK) == 0;
    bool there = access(item->aside, F_OK) == 0;
    if (here == there)
        return 0;
    /* git may still have the old path of a worktree that was moved before a kill. */
    int code = git_worktree_move(feature->git, item->worktree, item->aside, error);
    if (code != BL_ENOENT)
        return code;
    *error = (struct bl_error){0};
    if (there || rename(item->worktree, item->aside) == 0)
        return 0;
    int failed = errno;
    return bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, "keep aside",
                        item->worktree, "cannot rename '%s': %s", item->worktree, strerror(failed));
}

/* Rescues one item. Each step first checks whether it is already done. */
static int rescue_save(struct bl_feature *feature, const struct rescue_item *item,
                       struct bl_error *error)
{
    char id[GIT_ID_SIZE];
    bool has_branch = item->branch[0] != '\0';
    int code = has_branch ? git_ref_find(feature->git, item->ref, id, error) : 0;
    if (code == BL_ENOENT)
        code = git_ref_swap(feature->git, item->ref, NULL, item->commit, "belay: rescue", error);
    if (code == 0)
        code = rescue_move_aside(feature, item, error);
    if (code != 0)
        return code;
    code = has_branch ? git_ref_find(feature->git, item->branch, id, error) : BL_ENOENT;
    if (code == 0)
        code = git_ref_swap(feature->git, item->branch, item->commit, NULL, "belay: rescue", error);
    else if (code == BL_ENOENT)
        code = 0;
    if (code == 0)
        rescue_tell(feature, item, access(item->aside, F_OK) == 0);
    return code;
}

/* Resets a task to its initial state. Its cost stays. */
static void forget_task(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    struct bl_task_row old = *row;
    task_row_init(row);
    bl_text_into(row->id, sizeof row->id, old.id);
    row_text_set(&row->name, old.name);
    row->wave = old.wave;
    row->attempt = old.attempt;
    row->spent = old.spent;
    row->spent_known = old.spent_known;
    task_row_done(&old);
    row_text_set(&task->carry, (struct bl_text){0});
    task->retried = true;
}

static void forget_all(struct bl_feature *feature)
{
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct feature_task *task = &feature->tasks[i];
        task_row_done(&task->row);
        task_row_init(&task->row);
        row_text_set(&task->carry, (struct bl_text){0});
    }
    for (size_t i = 0; i < feature->plan->wave_count; i++)
        feature->waves[i] = (struct feature_wave){.n = (uint32_t)i + 1};
    feature->resumed = false;
    feature->plan_changed = false;
    feature->unverified = false;
    feature->row.started_wall_ns = 0;
    feature->row.result_commit[0] = '\0';
}

static int rescue_finish(struct bl_feature *feature, struct feature_task *task,
                         struct bl_error *error)
{
    if (task != NULL) {
        forget_task(task);
        ledger_put_task(task);
        ledger_put(feature, "fresh", (struct bl_text){0});
        return ledger_write(feature, true);
    }
    struct bl_store_feature_write write = {.new_generation = true, .durable = true};
    int code = feature->means->write(feature, &write, error);
    if (code == 0)
        forget_all(feature);
    return code;
}

static int save_all(struct bl_feature *feature, struct feature_task *task,
                    const struct bl_list *items, struct bl_error *error)
{
    int code = 0;
    BL_LIST_EACH (link, items) {
        if (code == 0)
            code = rescue_save(feature, BL_CONTAINER(link, struct rescue_item, link), error);
    }
    return code == 0 ? rescue_finish(feature, task, error) : code;
}

int rescue_run(struct bl_feature *feature, struct feature_task *task, struct bl_error *error)
{
    struct rescue_intent intent = {.task = task != NULL ? task->plan->id : NULL};
    BL_AUTO_ARENA(arena);
    int code = list_items(feature, &arena, intent.task, &intent.items, error);
    if (code == 0) {
        ledger_put_record(feature, "fresh", &intent_record, &intent);
        code = ledger_write(feature, true);
        if (code != 0)
            *error = feature->error;
    }
    if (code == 0)
        code = save_all(feature, task, &intent.items, error);
    return code;
}

int rescue_recover(struct bl_feature *feature, const struct bl_json *value, struct bl_error *error)
{
    struct rescue_intent intent;
    BL_AUTO_ARENA(arena);
    bl_record_take(&arena, &intent_record, value, &intent);
    struct feature_task *task =
        intent.task != NULL ? feature_task_find(feature, bl_text_from(intent.task)) : NULL;
    return save_all(feature, task, &intent.items, error);
}
