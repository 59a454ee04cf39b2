#include "feature.h"

#include <limits.h>
#include <unistd.h>

#include "cli/table/commands.h"

#define DURATION_NS_MAX (7 * 24 * 3600 * BL_NS_PER_S)
#define TASKS_MAX       64u

const char *feature_verb_name(enum feature_verb verb)
{
    return cli_feature_command.verbs[verb].name;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Ids of features and tasks have one form. */
static bool feature_options_is_id(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || (c != '-' && c != '_')))
            return false;
    }
    return text.size > 0 && text.size < BL_PLAN_ID_SIZE;
}

/* Each once. */
static int feature_options_check_tasks(struct feature_options *options, struct bl_error *error)
{
    size_t count = 0;

    for (size_t i = 0; i < options->task_count; i++) {
        const char *task = options->tasks[i];
        bool again = false;
        if (!feature_options_is_id(bl_text_from(task)))
            return cli_value_refuse("--task", task, "the id of a task, such as TASK-AUTH-001",
                                    error);
        for (size_t j = 0; j < count; j++)
            again = again || strcmp(options->tasks[j], task) == 0;
        if (!again)
            options->tasks[count++] = task;
    }
    if (options->tasks != NULL)
        options->tasks[count] = NULL;
    options->task_count = count;
    if (count <= TASKS_MAX)
        return 0;
    return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "read the command line", "--task",
                        "at most %u tasks can be named with --task", TASKS_MAX);
}

/* ---- What it is about ------------------------------------------------------------------------ */

/* FEAT/TASK, or the path of a plan and a task behind it; a file of that name is a path. */
static void split_name(struct feature_options *options)
{
    const char *slash = options->name != NULL ? strrchr(options->name, '/') : NULL;

    if (slash == NULL || !feature_options_is_id(bl_text_from(slash + 1)) ||
        access(options->name, F_OK) == 0)
        return;
    struct bl_text before = {options->name, (size_t)(slash - options->name)};
    if (feature_options_is_id(before) || bl_text_ends_with(before, BL_TEXT(".yaml")) ||
        bl_text_ends_with(before, BL_TEXT(".yml")))
        options->task = slash + 1;
}

static int refuse_name(const struct feature_options *options, const char *target,
                       const char *message, const char *hint, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", target,
                 "'feature %s' %s", feature_verb_name(options->verb), message);
    bl_error_hint(error, "%s", hint);
    return BL_EINVAL;
}

static int check_name(const struct feature_options *options, struct bl_error *error)
{
    enum feature_verb verb = options->verb;
    bool whole = verb == FEATURE_VALIDATE || verb == FEATURE_RUN || verb == FEATURE_PAUSE ||
                 verb == FEATURE_CLEAN || verb == FEATURE_REPORT;

    if (whole && options->task != NULL)
        return refuse_name(options, options->name, "is about a whole feature",
                           verb == FEATURE_RUN ? "use --task to run some tasks alone"
                                               : "leave the task out",
                           error);
    if (options->task != NULL && options->task_count > 0)
        return refuse_name(options, "--task", "has its task by name and by --task",
                           "give one of them", error);
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int feature_options_settle(struct feature_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder is gone");
    if (options->verb == FEATURE_VALIDATE)
        return 0;
    return options->store != NULL ? 0
                                  : bl_store_default_path(&options->arena, &options->store, error);
}

/* "+10m" */
static int check_longer(struct feature_options *options, struct bl_error *error)
{
    const char *value = options->longer;
    int64_t ns;

    if (options->verb != FEATURE_EXTEND)
        return 0;
    if (value[0] == '+' && value[1] != '+' && value[1] != '-' &&
        bl_duration_parse(bl_text_from(value + 1), &ns, NULL) == 0 && ns > 0 &&
        (uint64_t)ns <= DURATION_NS_MAX) {
        options->extend_ns = (uint64_t)ns;
        return 0;
    }
    return cli_value_refuse("+DURATION", value,
                            "'+' and a duration above 0 and at most 7 days, such as +10m", error);
}

int feature_options_read(struct cli_call *call, struct feature_options *options,
                         struct bl_error *error)
{
    *options = (struct feature_options){.call = call};
    int code = cli_options_read(call, options, &options->arena, error);
    if (code != 0)
        return code;
    split_name(options);
    code = feature_options_check_tasks(options, error);
    if (code == 0)
        code = check_name(options, error);
    if (code == 0)
        code = check_longer(options, error);
    return code != 0 ? code : feature_options_settle(options, error);
}

void feature_options_done(struct feature_options *options)
{
    bl_arena_done(&options->arena);
}
