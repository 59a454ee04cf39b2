#include <unistd.h>

#include "run.h"

/* ---- Finding the plan ------------------------------------------------------------------------ */

/* Returns the name without the task. */
static const char *name_alone(struct feature_runner *work)
{
    const struct feature_options *options = work->options;
    struct bl_text name = bl_text_from(options->name);

    if (options->task != NULL)
        name.size = (size_t)(options->task - options->name) - 1;
    return bl_arena_text(&work->arena, name).data;
}

static bool feature_open_is_path(const char *name)
{
    struct bl_text text = bl_text_from(name);

    return strchr(name, '/') != NULL || bl_text_ends_with(text, BL_TEXT(".yaml")) ||
           bl_text_ends_with(text, BL_TEXT(".yml"));
}

static bool has_plan_file(struct feature_runner *work, const char *repository, const char *id)
{
    static const char *const folders[] = {".belay", ".guardkit"};
    static const char *const endings[] = {"yaml", "yml"};

    for (size_t i = 0; i < BL_COUNT(folders) * BL_COUNT(endings); i++) {
        struct bl_text path = bl_arena_printf(&work->arena, "%s/%s/features/%s.%s", repository,
                                              folders[i / 2], id, endings[i % 2]);
        if (access(path.data, F_OK) == 0)
            return true;
    }
    return false;
}

/* Returns the plan of a known feature: its id, or the path of its last run. */
static const char *known_plan(struct feature_runner *work, const char *repository, const char *id)
{
    struct bl_error unused = {0};
    struct bl_list records;

    if (has_plan_file(work, repository, id) ||
        bl_store_feature_load(work->store, &work->arena, repository, id, "plan", &records, NULL,
                              NULL, &unused) != 0)
        return id;
    BL_LIST_EACH (link, &records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        const struct bl_json *plan;
        if (strcmp(record->name, "plan") != 0 ||
            bl_json_read(&work->arena, record->json, NULL, &plan, NULL) != 0)
            continue;
        struct bl_text path = bl_json_text(bl_json_get(plan, BL_TEXT("path")));
        if (path.size > 0 && access(path.data, F_OK) == 0)
            return path.data;
    }
    return id;
}

/* Opens the store of a feature that must exist; does not create one. */
static int open_known_store(struct feature_runner *work)
{
    const struct feature_options *options = work->options;

    if (access(options->store, F_OK) != 0)
        return feature_store_find(options, &work->store, &work->error);
    return feature_store_open(options, false, &work->store, &work->error);
}

/* Finds the feature of a resume or retry, which must exist. */
static int find_known(struct feature_runner *work, const char **ret_name)
{
    const char *repository, *id, *given = name_alone(work);

    int code = open_known_store(work);
    if (code == 0)
        code = feature_name_resolve(work->options, work->store, &work->arena, &repository, &id,
                                    &work->task, &work->error);
    if (code != 0)
        return code;
    if (work->options->verb == FEATURE_RETRY && work->task == NULL) {
        bl_error_set(&work->error, BL_EINVAL, BL_KIND_USAGE, "find the task", work->options->name,
                     "'feature retry' needs a task");
        bl_error_hint(&work->error, "use %.60s/TASK", id);
        return BL_EINVAL;
    }
    *ret_name = feature_open_is_path(given) ? given : known_plan(work, repository, id);
    return 0;
}

static int feature_open_check_tasks(struct feature_runner *work)
{
    const struct bl_plan *plan = work->preparation->plan;

    for (size_t i = 0; i < work->options->task_count; i++) {
        const char *wanted = work->options->tasks[i];
        struct bl_suggestion suggestion;
        bool found = false;
        bl_suggestion_init(&suggestion, wanted);
        for (size_t j = 0; j < plan->task_count; j++) {
            bl_suggestion_offer(&suggestion, plan->tasks[j].id);
            found = found || strcmp(plan->tasks[j].id, wanted) == 0;
        }
        if (found)
            continue;
        bl_error_set(&work->error, BL_EINVAL, BL_KIND_USAGE, "find the task", "--task",
                     "%s has no task '%s'", plan->id, wanted);
        if (suggestion.best != NULL)
            bl_error_hint(&work->error, "did you mean '%s'?", suggestion.best);
        return BL_EINVAL;
    }
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int read_plan(struct feature_runner *work, const char *name)
{
    int code = feature_prepare(work->options, name, &work->preparation);

    if (code != 0)
        return code;
    if (work->preparation->code == 0)
        return feature_open_check_tasks(work);
    work->error = work->preparation->error;
    return work->preparation->code;
}

static int open_feature(struct feature_runner *work)
{
    const struct feature_options *options = work->options;
    const char **tasks = bl_arena_zalloc(&work->arena, 2 * sizeof *tasks);
    bool alone = options->verb == FEATURE_RESUME && work->task != NULL;

    tasks[0] = work->task;
    struct bl_feature_options open = {
        .plan = work->preparation->plan,
        .store = work->store,
        .project = &work->preparation->project,
        .activities = &work->activities,
        .listener = work->call->format == CLI_FORMAT_JSON ? NULL : &work->listener,
        .run_id = work->run_id,
        .base = options->base,
        .tasks = alone                     ? tasks
                 : options->task_count > 0 ? options->tasks
                                           : NULL,
        .retry = options->verb == FEATURE_RETRY ? work->task : NULL,
        .more_turns = options->more_turns,
        .resumes = options->verb != FEATURE_RUN,
        .require_clean = options->require_clean,
        .take_over = options->take_over,
        .fresh = options->fresh,
    };
    return bl_feature_open(&open, &work->feature, &work->error);
}

int feature_begin(struct feature_runner *work)
{
    struct bl_scope *outer = bl_scope_enter(&work->asked);
    const char *name = work->options->name;
    int code = 0;

    if (work->options->verb != FEATURE_RUN)
        code = find_known(work, &name);
    if (code == 0)
        code = read_plan(work, name);
    if (code == 0 && work->store == NULL)
        code = feature_store_open(work->options, false, &work->store, &work->error);
    if (code == 0)
        code = cli_member_join(work->store, &work->asked, NULL, NULL, &work->member, &work->error);
    if (code == 0)
        code = open_feature(work);
    bl_scope_enter(outer);
    return code;
}
