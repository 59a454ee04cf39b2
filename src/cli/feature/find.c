/* Resolves names on the command line, and opens the store they are looked up in. */
#include "feature.h"

#include <errno.h>
#include <unistd.h>

/* ---- The store ------------------------------------------------------------------------------- */

int feature_store_open(const struct feature_options *options, bool reading,
                       struct bl_store **ret_store, struct bl_error *error)
{
    struct bl_arena arena = {0};
    const char *where = options->store;

    int code = where != NULL ? 0 : bl_store_default_path(&arena, &where, error);
    if (code == 0)
        code = reading ? bl_store_open_reading(where, ret_store, error)
                       : bl_store_open(where, ret_store, error);
    bl_arena_done(&arena);
    return code;
}

int feature_store_find(const struct feature_options *options, struct bl_store **ret_store,
                       struct bl_error *error)
{
    struct bl_error first = {0};

    /* Settling what a dead runner left is a write, so the store is opened for writing if possible.
     * But reading must not create a store, and must work on a read-only one. */
    if (options->store == NULL || bl_store_is_database(options->store) ||
        access(options->store, F_OK) == 0 || errno != ENOENT) {
        if (feature_store_open(options, false, ret_store, &first) == 0)
            return 0;
    }
    struct bl_error second = {0};
    int code = feature_store_open(options, true, ret_store, &second);
    if (code == 0)
        return 0;
    if (code == BL_ENOENT) {
        const char *name = options->name != NULL ? options->name : "of that name";
        bl_error_set(error, code, BL_KIND_FEATURE, "find the feature", options->name,
                     "no feature %s: there is no store %s", name,
                     options->store != NULL ? options->store : "");
        bl_error_hint(error,
                      "'belay feature run' creates it; use --store FILE to select another one");
        return code;
    }
    if (error != NULL && error->code == 0)
        *error = first.code != 0 ? first : second;
    return first.code != 0 ? first.code : code;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* State of a lookup. */
struct lookup {
    struct bl_store *store;
    struct bl_arena *arena;
    const char *repository;
    struct bl_list features; /* struct bl_store_feature_summary */
    struct bl_error *error;
};

static const struct bl_store_feature_summary *summary_of(const struct bl_list *link)
{
    return BL_CONTAINER(link, struct bl_store_feature_summary, link);
}

static bool has_feature(const struct lookup *lookup, const char *id)
{
    BL_LIST_EACH (link, &lookup->features) {
        if (strcmp(summary_of(link)->id, id) == 0)
            return true;
    }
    return false;
}

/* Finds out whether that feature has that task. */
static int has_task(const struct lookup *lookup, const char *id, const char *task, bool *ret_has)
{
    const char *name = bl_arena_printf(lookup->arena, "task/%s", task).data;
    struct bl_list records;

    *ret_has = false;
    int code = bl_store_feature_load(lookup->store, lookup->arena, lookup->repository, id, name,
                                     &records, NULL, NULL, lookup->error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &records)
        *ret_has = *ret_has || strcmp(BL_CONTAINER(link, struct bl_row, link)->name, name) == 0;
    return 0;
}

static void offer_tasks(const struct lookup *lookup, const char *id,
                        struct bl_suggestion *suggestion)
{
    struct bl_list records;

    if (bl_store_feature_load(lookup->store, lookup->arena, lookup->repository, id, "task/",
                              &records, NULL, NULL, NULL) != 0)
        return;
    BL_LIST_EACH (link, &records)
        bl_suggestion_offer(suggestion,
                            BL_CONTAINER(link, struct bl_row, link)->name + strlen("task/"));
}

static int not_found(const struct lookup *lookup, const char *name)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    BL_LIST_EACH (link, &lookup->features)
        bl_suggestion_offer(&suggestion, summary_of(link)->id);
    BL_LIST_EACH (link, &lookup->features)
        offer_tasks(lookup, summary_of(link)->id, &suggestion);
    bl_error_set(lookup->error, BL_ENOENT, BL_KIND_FEATURE, "find the feature", name,
                 "no feature '%.100s' in the store for this repository", name);
    if (suggestion.best != NULL)
        bl_error_hint(lookup->error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(lookup->error, bl_list_empty(&lookup->features)
                                         ? "'belay feature run' starts one; 'belay feature list "
                                           "--all' lists those of other repositories"
                                         : "'belay feature list' lists the features");
    return BL_ENOENT;
}

static int task_not_found(const struct lookup *lookup, const char *id, const char *task)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, task);
    offer_tasks(lookup, id, &suggestion);
    bl_error_set(lookup->error, BL_ENOENT, BL_KIND_FEATURE, "find the task", task,
                 "feature %s has no task '%.100s'", id, task);
    if (suggestion.best != NULL)
        bl_error_hint(lookup->error, "did you mean '%s/%s'?", id, suggestion.best);
    else
        bl_error_hint(lookup->error, "'belay feature status %s' shows its tasks", id);
    return BL_ENOENT;
}

/* Finds the only feature that has that task. */
static int feature_find_task(const struct lookup *lookup, const char *task, const char **ret_id)
{
    const char *first = NULL;

    BL_LIST_EACH (link, &lookup->features) {
        const char *id = summary_of(link)->id;
        bool has;
        int code = has_task(lookup, id, task, &has);
        if (code != 0)
            return code;
        if (!has)
            continue;
        if (first != NULL) {
            bl_error_set(lookup->error, BL_EINVAL, BL_KIND_USAGE, "find the task", task,
                         "both %s and %s have a task '%s'", first, id, task);
            bl_error_hint(lookup->error, "choose one, such as %s/%s", first, task);
            return BL_EINVAL;
        }
        first = id;
    }
    *ret_id = first;
    return first != NULL ? 0 : not_found(lookup, task);
}

static bool feature_find_is_path(const char *name)
{
    struct bl_text text = bl_text_from(name);
    return strchr(name, '/') != NULL || bl_text_ends_with(text, BL_TEXT(".yaml")) ||
           bl_text_ends_with(text, BL_TEXT(".yml"));
}

int feature_name_resolve(const struct feature_options *options, struct bl_store *store,
                         struct bl_arena *arena, const char **ret_repository, const char **ret_id,
                         const char **ret_task, struct bl_error *error)
{
    struct lookup lookup = {.store = store, .arena = arena, .error = error};
    struct bl_text name = bl_text_from(options->name);
    bool has = false;

    if (options->task != NULL)
        name.size -= strlen(options->task) + 1;
    const char *feature = bl_arena_text(arena, name).data;
    bl_list_init(&lookup.features);
    int code = bl_plan_repository(arena, options->directory, &lookup.repository, error);
    if (code == 0)
        code = bl_store_feature_list(store, arena, lookup.repository, &lookup.features, error);
    if (code != 0)
        return code;
    *ret_repository = lookup.repository;
    *ret_task = options->task;
    *ret_id = bl_plan_name_id(arena, options->directory, feature);
    if (*ret_id == NULL)
        *ret_id = feature;
    if (!has_feature(&lookup, *ret_id)) {
        if (options->task != NULL || feature_find_is_path(feature))
            return not_found(&lookup, *ret_id);
        *ret_task = feature;
        return feature_find_task(&lookup, feature, ret_id);
    }
    if (options->task == NULL)
        return 0;
    code = has_task(&lookup, *ret_id, options->task, &has);
    return code != 0 || has ? code : task_not_found(&lookup, *ret_id, options->task);
}

/* ---- One feature ----------------------------------------------------------------------------- */

void feature_work_init(struct feature_work *work, const struct feature_options *options)
{
    *work = (struct feature_work){.options = options};
    bl_arena_init(&work->arena);
}

void feature_work_done(struct feature_work *work)
{
    bl_arena_done(&work->arena);
}

/* Checks that the name is of the right kind: it may be a task's where a feature is needed, or the
 * reverse. */
static int check_part(struct feature_work *work)
{
    enum feature_verb verb = work->options->verb;
    bool whole = verb == FEATURE_PAUSE || verb == FEATURE_CLEAN || verb == FEATURE_REPORT;

    if (whole && work->task != NULL) {
        bl_error_set(&work->error, BL_EINVAL, BL_KIND_USAGE, "read the command line",
                     work->options->name, "'feature %s' takes a whole feature, but %s is a task",
                     feature_verb_name(verb), work->task);
        bl_error_hint(&work->error, "the task belongs to %s", work->id);
        return BL_EINVAL;
    }
    if (verb == FEATURE_EXTEND && work->task == NULL) {
        bl_error_set(&work->error, BL_EINVAL, BL_KIND_USAGE, "read the command line",
                     work->options->name, "'feature extend' needs a task, but %s is a feature",
                     work->id);
        bl_error_hint(&work->error, "use %s/TASK", work->id);
        return BL_EINVAL;
    }
    return 0;
}

int feature_work_open(struct feature_work *work)
{
    int code = feature_store_find(work->options, &work->store, &work->error);
    if (code == 0)
        code = feature_name_resolve(work->options, work->store, &work->arena, &work->repository,
                                    &work->id, &work->task, &work->error);
    return code != 0 ? code : check_part(work);
}

int feature_work_look(struct feature_work *work)
{
    return bl_feature_look(work->store, &work->arena, work->repository, work->id, &work->view,
                           &work->error);
}

void feature_work_close(struct feature_work *work)
{
    bl_store_close(work->store);
    work->store = NULL;
}
