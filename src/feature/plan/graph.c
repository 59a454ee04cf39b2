#include "plan.h"

#include <ctype.h>
#include <stdlib.h>

#define WORDS ((PLAN_TASKS_MAX + 63) / 64)

/* For each task, the tasks it depends on, directly or indirectly. */
struct reach {
    uint64_t (*rows)[WORDS];
};

static bool reaches(const struct reach *reach, size_t from, size_t to)
{
    return (reach->rows[from][to / 64] >> (to % 64) & 1) != 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

size_t plan_task_find(const struct plan_loader *loader, struct bl_text id)
{
    char lower[BL_PLAN_ID_SIZE * 4];

    if (id.size >= sizeof lower)
        return SIZE_MAX;
    for (size_t i = 0; i < id.size; i++)
        lower[i] = (char)tolower((unsigned char)id.data[i]);
    uintptr_t found = (uintptr_t)bl_map_get(&loader->ids, (struct bl_text){lower, id.size});
    if (found == 0)
        return SIZE_MAX;
    return bl_text_equal(bl_text_from(loader->plan->tasks[found - 1].id), id) ? found - 1
                                                                              : SIZE_MAX;
}

const char *const *plan_task_ids(struct plan_loader *loader, size_t *ret_count)
{
    const struct bl_plan *plan = loader->plan;
    const char **ids = bl_arena_alloc(loader->arena, (plan->task_count + 1) * sizeof *ids);
    size_t count = 0;

    for (size_t i = 0; i < plan->task_count; i++) {
        if (loader->drafts[i].id != NULL)
            ids[count++] = plan->tasks[i].id;
    }
    *ret_count = count;
    return ids;
}

/* `what` precedes the unknown name: "A depends on", "wave 2 names". */
static void fault_unknown(struct plan_loader *loader, const struct bl_json *node, const char *code,
                          const char *what, struct bl_text name)
{
    size_t count = 0;

    if (loader->tasks_cut)
        return;
    const char *const *ids = plan_task_ids(loader, &count);
    plan_fault(loader, &loader->file, node, code, "%s %s, which does not exist.%s", what,
               plan_show(loader, name),
               plan_suggest(loader, name.size > 0 ? name.data : "", ids, count));
}

/* ---- Dependencies ---------------------------------------------------------------------------- */

static bool graph_is_listed(const size_t *numbers, size_t count, size_t number)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] == number)
            return true;
    }
    return false;
}

static void graph_read_dependencies(struct plan_loader *loader, size_t number)
{
    struct bl_plan_task *task = &loader->plan->tasks[number];
    const struct plan_draft *draft = &loader->drafts[number];

    task->dependencies =
        bl_arena_alloc(loader->arena, (draft->dependency_count + 1) * sizeof *task->dependencies);
    for (size_t i = 0; i < draft->dependency_count; i++) {
        const struct bl_json *node = draft->dependencies[i];
        struct bl_text name = {0};
        plan_scalar(loader, node, &name);
        size_t found = plan_task_find(loader, name);
        if (found == SIZE_MAX)
            fault_unknown(loader, node, "E05",
                          bl_arena_printf(loader->arena, "%s depends on", task->id).data, name);
        else if (found == number)
            plan_fault(loader, &loader->file, node, "E05", "%s depends on itself", task->id);
        else if (!graph_is_listed(task->dependencies, task->dependency_count, found))
            task->dependencies[task->dependency_count++] = found;
    }
}

static struct reach find_reach(struct plan_loader *loader)
{
    const struct bl_plan *plan = loader->plan;
    struct reach reach = {
        bl_arena_zalloc(loader->arena, (plan->task_count + 1) * sizeof *reach.rows)};

    for (size_t i = 0; i < plan->task_count; i++) {
        for (size_t j = 0; j < plan->tasks[i].dependency_count; j++) {
            size_t on = plan->tasks[i].dependencies[j];
            reach.rows[i][on / 64] |= (uint64_t)1 << (on % 64);
        }
    }
    for (size_t via = 0; via < plan->task_count; via++) {
        for (size_t from = 0; from < plan->task_count; from++) {
            if (!reaches(&reach, from, via))
                continue;
            for (size_t i = 0; i < WORDS; i++)
                reach.rows[from][i] |= reach.rows[via][i];
        }
    }
    return reach;
}

/* ---- Cycles ---------------------------------------------------------------------------------- */

/* A walk along dependencies. `next` is the index of each task's next dependency. */
struct walk {
    size_t *path;
    size_t depth;
    size_t *next;
    enum {
        NEW,
        OPEN,
        DONE
    } * marks;
};

/* Returns the node with the dependency of `task` on `on`. */
static const struct bl_json *dependency_node(struct plan_loader *loader, size_t task, size_t on)
{
    const struct plan_draft *draft = &loader->drafts[task];
    struct bl_text name = {0};

    for (size_t i = 0; i < draft->dependency_count; i++) {
        if (plan_scalar(loader, draft->dependencies[i], &name) &&
            plan_task_find(loader, name) == on)
            return draft->dependencies[i];
    }
    return draft->node;
}

static void fault_cycle(struct plan_loader *loader, const struct walk *walk, size_t first)
{
    const struct bl_plan_task *tasks = loader->plan->tasks;
    BL_AUTO_BUFFER(text, (size_t)1 << 16);
    size_t at = 0;

    while (walk->path[at] != first)
        at++;
    for (; at < walk->depth; at++)
        bl_buffer_printf(&text, "%s → ", tasks[walk->path[at]].id);
    bl_buffer_printf(&text, "%s", tasks[first].id);
    plan_fault(loader, &loader->file, dependency_node(loader, walk->path[walk->depth - 1], first),
               "E05", "cyclic dependencies: " BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&text)));
}

/* Reports each dependency that closes a cycle, with the whole cycle. */
static void find_cycles(struct plan_loader *loader)
{
    const struct bl_plan *plan = loader->plan;
    size_t count = plan->task_count + 1;
    struct walk walk = {
        .path = bl_arena_alloc(loader->arena, count * sizeof *walk.path),
        .next = bl_arena_zalloc(loader->arena, count * sizeof *walk.next),
        .marks = bl_arena_zalloc(loader->arena, count * sizeof *walk.marks),
    };

    for (size_t start = 0; start < plan->task_count; start++) {
        if (walk.marks[start] != NEW)
            continue;
        walk.path[walk.depth++] = start;
        walk.marks[start] = OPEN;
        while (walk.depth > 0) {
            size_t task = walk.path[walk.depth - 1];
            if (walk.next[task] == plan->tasks[task].dependency_count) {
                walk.marks[task] = DONE;
                walk.depth--;
                continue;
            }
            size_t on = plan->tasks[task].dependencies[walk.next[task]++];
            if (walk.marks[on] == OPEN) {
                fault_cycle(loader, &walk, on);
            } else if (walk.marks[on] == NEW) {
                walk.marks[on] = OPEN;
                walk.path[walk.depth++] = on;
            }
        }
    }
}

/* ---- Waves ----------------------------------------------------------------------------------- */

static void place_task(struct plan_loader *loader, const struct bl_json *node, size_t wave)
{
    const char *what = bl_arena_printf(loader->arena, "wave %zu names", wave).data;
    struct bl_text name;

    if (!plan_scalar(loader, node, &name)) {
        plan_fault(loader, &loader->file, node, "E04", "wave %zu: expected task ids, found %s",
                   wave, bl_value_type(node));
        return;
    }
    size_t number = plan_task_find(loader, name);
    if (number == SIZE_MAX) {
        fault_unknown(loader, node, "E04", what, name);
        return;
    }
    struct plan_draft *draft = &loader->drafts[number];
    const char *id = loader->plan->tasks[number].id;
    if (draft->wave == wave)
        plan_fault(loader, &loader->file, node, "E04", "%s is listed twice in wave %zu", id, wave);
    else if (draft->wave > 0)
        plan_fault(loader, &loader->file, node, "E04", "%s is in wave %zu and in wave %zu", id,
                   draft->wave, wave);
    else
        draft->wave = wave;
}

static void read_waves(struct plan_loader *loader, const struct bl_json *groups)
{
    const struct plan_file *file = &loader->file;
    size_t wave = 0;

    BL_JSON_EACH (group, groups) {
        if (++wave > PLAN_WAVES_MAX) {
            plan_fault(loader, file, group, "E01", "more than %u waves", PLAN_WAVES_MAX);
            loader->waves_cut = true;
            wave--;
            break;
        }
        if (group->type != BL_JSON_ARRAY && group->type != BL_JSON_NULL) {
            plan_fault(loader, file, group, "E04", "wave %zu: expected a list of tasks, found %s",
                       wave, bl_value_type(group));
            loader->waves_cut = true;
            continue;
        }
        if (bl_json_size(group) == 0)
            plan_warn(loader, file, group, "wave %zu is empty and is ignored", wave);
        BL_JSON_EACH (node, group)
            place_task(loader, node, wave);
    }
    loader->declared_waves = wave;
    for (size_t i = 0; i < loader->plan->task_count && !loader->waves_cut; i++) {
        if (loader->drafts[i].wave == 0 && loader->drafts[i].id != NULL)
            plan_fault(loader, file, loader->drafts[i].node, "E04", "%s is not in a wave",
                       loader->plan->tasks[i].id);
    }
}

/* Puts each task right after the last of its dependencies. Tasks in a cycle stay in place. */
static void compute_waves(struct plan_loader *loader, const struct reach *reach)
{
    const struct bl_plan *plan = loader->plan;
    bool moved = true;

    for (size_t i = 0; i < plan->task_count; i++)
        loader->drafts[i].wave = 1;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < plan->task_count; i++) {
            for (size_t j = 0; j < plan->tasks[i].dependency_count; j++) {
                size_t on = plan->tasks[i].dependencies[j];
                size_t least = loader->drafts[on].wave + 1;
                if (!reaches(reach, on, i) && loader->drafts[i].wave < least) {
                    loader->drafts[i].wave = least;
                    moved = true;
                }
            }
        }
    }
    for (size_t i = 0; i < plan->task_count; i++) {
        if (loader->drafts[i].wave > loader->declared_waves)
            loader->declared_waves = loader->drafts[i].wave;
    }
    if (loader->declared_waves > PLAN_WAVES_MAX)
        plan_fault(loader, &loader->file, loader->file.document.root, "E01",
                   "more than %u waves: the dependencies need %zu", PLAN_WAVES_MAX,
                   loader->declared_waves);
}

static void check_order(struct plan_loader *loader, const struct reach *reach)
{
    const struct bl_plan *plan = loader->plan;

    for (size_t i = 0; i < plan->task_count; i++) {
        size_t wave = loader->drafts[i].wave;
        for (size_t j = 0; j < plan->tasks[i].dependency_count; j++) {
            size_t on = plan->tasks[i].dependencies[j], later = loader->drafts[on].wave;
            const char *own_id = plan->tasks[i].id, *id = plan->tasks[on].id;
            /* Cycles have their own error. */
            if (wave == 0 || later < wave || reaches(reach, on, i))
                continue;
            const struct bl_json *node = dependency_node(loader, i, on);
            if (later == wave)
                plan_fault(loader, &loader->file, node, "E06",
                           "%s depends on %s, but both are in wave %zu: move %s to wave %zu or "
                           "later",
                           own_id, id, wave, own_id, wave + 1);
            else
                plan_fault(loader, &loader->file, node, "E06",
                           "%s (wave %zu) depends on %s (wave %zu): move %s to wave %zu or later",
                           own_id, wave, id, later, own_id, later + 1);
        }
    }
}

/* Fills the plan's waves: without empty ones, tasks in plan order. */
static void keep_waves(struct plan_loader *loader)
{
    struct bl_plan *plan = loader->plan;
    size_t declared = loader->declared_waves;
    size_t *sizes = bl_arena_zalloc(loader->arena, (declared + 1) * sizeof *sizes);

    for (size_t i = 0; i < plan->task_count; i++)
        sizes[loader->drafts[i].wave]++;
    plan->waves = bl_arena_zalloc(loader->arena, (declared + 1) * sizeof *plan->waves);
    loader->kept_waves = bl_arena_zalloc(loader->arena, (declared + 1) * sizeof *sizes);
    for (size_t wave = 1; wave <= declared; wave++) {
        if (sizes[wave] > 0)
            plan->waves[plan->wave_count++].tasks =
                bl_arena_alloc(loader->arena, sizes[wave] * sizeof *sizes);
        loader->kept_waves[wave - 1] = plan->wave_count;
    }
    for (size_t i = 0; i < plan->task_count; i++) {
        if (loader->drafts[i].wave == 0)
            continue;
        size_t kept = loader->kept_waves[loader->drafts[i].wave - 1] - 1;
        plan->tasks[i].wave = kept;
        plan->waves[kept].tasks[plan->waves[kept].count++] = i;
    }
}

void plan_graph_read(struct plan_loader *loader)
{
    const struct bl_json *orchestration = plan_member(loader->file.document.root, "orchestration");
    const struct bl_json *groups =
        orchestration != NULL ? plan_member(orchestration + 1, "parallel_groups") : NULL;

    for (size_t i = 0; i < loader->plan->task_count; i++)
        graph_read_dependencies(loader, i);
    struct reach reach = find_reach(loader);
    find_cycles(loader);
    bool list = groups != NULL && bl_json_is(groups + 1, BL_JSON_ARRAY);
    if (groups != NULL && !list)
        plan_fault(loader, &loader->file, groups + 1, "E04",
                   "parallel_groups: expected a list of lists of tasks, found %s",
                   bl_value_type(groups + 1));
    if (list && bl_json_size(groups + 1) > 0) {
        read_waves(loader, groups + 1);
        check_order(loader, &reach);
    } else {
        compute_waves(loader, &reach);
    }
    keep_waves(loader);
}
