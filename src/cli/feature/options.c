#include "feature.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/table/commands.h"

#define DURATION_NS_MAX (7 * 24 * 3600 * BL_NS_PER_S)
#define TASKS_MAX       64u
#define PLANS_SHOWN     5u

const char *feature_verb_name(enum feature_verb verb)
{
    return cli_feature_command.verbs[verb].name;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Ids of features and tasks have the same form. */
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

/* Removes duplicates. */
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

/* ---- The name -------------------------------------------------------------------------------- */

/* Splits FEAT/TASK, or the path of a plan with a task after it. An existing file of that name is a
 * path. */
static void split_name(struct feature_options *options)
{
    const char *slash = options->name != NULL ? strrchr(options->name, '/') : NULL;

    if (options->verb == FEATURE_NEW || slash == NULL ||
        !feature_options_is_id(bl_text_from(slash + 1)) || access(options->name, F_OK) == 0)
        return;
    struct bl_text before = {options->name, (size_t)(slash - options->name)};
    if (feature_options_is_id(before) || bl_text_ends_with(before, BL_TEXT(".yaml")) ||
        bl_text_ends_with(before, BL_TEXT(".yml")))
        options->task = slash + 1;
}

/* Refuses a name such as "Login page", with the id it may mean in the hint. */
static int check_new_id(const struct feature_options *options, struct bl_error *error)
{
    char expected[200], id[BL_PLAN_ID_SIZE] = "FEAT-";
    size_t size = strlen(id);

    if (options->verb != FEATURE_NEW || feature_options_is_id(bl_text_from(options->name)))
        return 0;
    for (const char *c = options->name; *c != '\0' && size + 1 < sizeof id; c++) {
        if (isalnum((unsigned char)*c))
            id[size++] = (char)toupper((unsigned char)*c);
        else if (id[size - 1] != '-')
            id[size++] = '-';
    }
    while (size > 0 && id[size - 1] == '-')
        size--;
    snprintf(expected, sizeof expected, "an id of A-Z, a-z, 0-9, _ and -, such as %.*s",
             size > strlen("FEAT-") ? (int)size : (int)strlen("FEAT-LOGIN"),
             size > strlen("FEAT-") ? id : "FEAT-LOGIN");
    return cli_value_refuse("FEAT", options->name, expected, error);
}

/* Refuses a task where a whole feature is needed. */
static int refuse_task(const struct feature_options *options, struct bl_error *error)
{
    const char *verb = feature_verb_name(options->verb);
    struct bl_text feature = {options->name, (size_t)(options->task - options->name) - 1};

    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", options->name,
                 "'feature %s' takes a whole feature, but '%s' names task '%s'", verb,
                 options->name, options->task);
    if (options->verb == FEATURE_RUN)
        bl_error_hint(error,
                      "to run only that task: belay feature run " BL_TEXT_FORMAT " --task %s",
                      BL_TEXT_ARG(feature), options->task);
    else
        bl_error_hint(error, "omit the task: belay feature %s " BL_TEXT_FORMAT, verb,
                      BL_TEXT_ARG(feature));
    return BL_EINVAL;
}

/* Lists the plans in the hint if the name is missing. */
static int list_plans(const struct feature_options *options, int code, struct bl_error *error)
{
    char directory[PATH_MAX];
    const char *top, *const *ids;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(text, 400);
    size_t i = 0;

    bool wanted = options->name == NULL && error->target[0] != '\0' &&
                  strcmp(error->target, "FEAT") == 0 &&
                  (options->verb == FEATURE_VALIDATE || options->verb == FEATURE_RUN);
    if (!wanted || getcwd(directory, sizeof directory) == NULL ||
        bl_plan_repository(&arena, directory, &top, NULL) != 0)
        return code;
    ids = bl_plan_ids(&arena, top);
    for (; ids[i] != NULL && i < PLANS_SHOWN; i++)
        bl_buffer_printf(&text, "%s%s", i > 0 ? ", " : "", ids[i]);
    if (i == 0)
        return code;
    error->hint[0] = '\0';
    bl_error_hint(
        error, "use the id of a feature, or the path of its plan; plans here: " BL_TEXT_FORMAT "%s",
        BL_TEXT_ARG(bl_buffer_text(&text)), ids[i] != NULL ? ", …" : "");
    return code;
}

static int check_name(const struct feature_options *options, struct bl_error *error)
{
    enum feature_verb verb = options->verb;
    bool whole = verb == FEATURE_VALIDATE || verb == FEATURE_RUN || verb == FEATURE_PAUSE ||
                 verb == FEATURE_CLEAN || verb == FEATURE_REPORT;

    if (whole && options->task != NULL)
        return refuse_task(options, error);
    if (options->task == NULL || options->task_count == 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--task",
                 "'feature %s' got a task in its name and with --task", feature_verb_name(verb));
    bl_error_hint(error, "use only one of them");
    return BL_EINVAL;
}

/* ---- All options ----------------------------------------------------------------------------- */

static int feature_options_settle(struct feature_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder does not exist");
    if (options->verb == FEATURE_VALIDATE)
        return 0;
    return options->store != NULL ? 0
                                  : bl_store_default_path(&options->arena, &options->store, error);
}

/* Checks a value like "+10m". */
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
        return code == CLI_OPTION_HELP ? code : list_plans(options, code, error);
    split_name(options);
    code = check_new_id(options, error);
    if (code == 0)
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
