#include "feature.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DURATION_NS_MAX (7 * 24 * 3600 * BL_NS_PER_S)
#define TASKS_MAX       64u
#define TURN_MAX        1000000

enum {
    OPTION_PARALLEL = 512,
    OPTION_TIMEOUT,
    OPTION_TASK_TIMEOUT,
    OPTION_TIMEOUT_MULTIPLIER,
    OPTION_TURNS,
    OPTION_ON_FAILURE,
    OPTION_COACH_GRACE,
    OPTION_DRAIN,
    OPTION_MAX_BUDGET_TOKENS,
    OPTION_MAX_BUDGET_USD,
    OPTION_BASE,
    OPTION_TASK,
    OPTION_MORE_TURNS,
    OPTION_REQUIRE_CLEAN,
    OPTION_TAKE_OVER,
    OPTION_FRESH,
    OPTION_DRY_RUN,
    OPTION_ALL,
    OPTION_TURN,
    OPTION_PHASE,
    OPTION_HTML,
    OPTION_STORE,
    OPTION_FOLLOW = 'f',
};

const struct option cli_feature_options[] = {
    {"parallel", required_argument, NULL, OPTION_PARALLEL},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"task-timeout", required_argument, NULL, OPTION_TASK_TIMEOUT},
    {"timeout-multiplier", required_argument, NULL, OPTION_TIMEOUT_MULTIPLIER},
    {"turns", required_argument, NULL, OPTION_TURNS},
    {"on-failure", required_argument, NULL, OPTION_ON_FAILURE},
    {"coach-grace", required_argument, NULL, OPTION_COACH_GRACE},
    {"drain", required_argument, NULL, OPTION_DRAIN},
    {"max-budget-tokens", required_argument, NULL, OPTION_MAX_BUDGET_TOKENS},
    {"max-budget-usd", required_argument, NULL, OPTION_MAX_BUDGET_USD},
    {"base", required_argument, NULL, OPTION_BASE},
    {"task", required_argument, NULL, OPTION_TASK},
    {"more-turns", required_argument, NULL, OPTION_MORE_TURNS},
    {"require-clean", no_argument, NULL, OPTION_REQUIRE_CLEAN},
    {"take-over", no_argument, NULL, OPTION_TAKE_OVER},
    {"fresh", no_argument, NULL, OPTION_FRESH},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"all", no_argument, NULL, OPTION_ALL},
    {"follow", no_argument, NULL, OPTION_FOLLOW},
    {"turn", required_argument, NULL, OPTION_TURN},
    {"phase", required_argument, NULL, OPTION_PHASE},
    {"html", required_argument, NULL, OPTION_HTML},
    {"store", required_argument, NULL, OPTION_STORE},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

/* What a verb may be about. */
enum about {
    ABOUT_NOTHING,
    ABOUT_ANY,             /* nothing, a feature, a task */
    ABOUT_FEATURE,         /* a whole one */
    ABOUT_FEATURE_OR_TASK, /* one or the other */
    ABOUT_TASK,
};

static const struct verb {
    const char *name;
    enum about about;
    bool streams;
} verbs[] = {
    [FEATURE_VALIDATE] = {"validate", ABOUT_FEATURE, false},
    [FEATURE_RUN] = {"run", ABOUT_FEATURE, true},
    [FEATURE_STATUS] = {"status", ABOUT_ANY, false},
    [FEATURE_LIST] = {"list", ABOUT_NOTHING, false},
    [FEATURE_LOGS] = {"logs", ABOUT_FEATURE_OR_TASK, true},
    [FEATURE_CANCEL] = {"cancel", ABOUT_FEATURE_OR_TASK, false},
    [FEATURE_PAUSE] = {"pause", ABOUT_FEATURE, false},
    [FEATURE_RESUME] = {"resume", ABOUT_FEATURE_OR_TASK, true},
    [FEATURE_EXTEND] = {"extend", ABOUT_TASK, false},
    [FEATURE_RETRY] = {"retry", ABOUT_TASK, true},
    [FEATURE_CLEAN] = {"clean", ABOUT_FEATURE, false},
    [FEATURE_REPORT] = {"report", ABOUT_FEATURE, false},
};

const char *feature_verb_name(enum feature_verb verb)
{
    return verbs[verb].name;
}

#define OF(verb) (1u << (verb))
#define RUNS     (OF(FEATURE_RUN) | OF(FEATURE_RESUME) | OF(FEATURE_RETRY))

/* Whose option it is. */
static unsigned option_verbs(int option)
{
    switch (option) {
    case OPTION_PARALLEL:
    case OPTION_TIMEOUT:
    case OPTION_TASK_TIMEOUT:
    case OPTION_TIMEOUT_MULTIPLIER:
    case OPTION_TURNS:
    case OPTION_ON_FAILURE:
    case OPTION_COACH_GRACE:
    case OPTION_DRAIN:
    case OPTION_MAX_BUDGET_TOKENS:
    case OPTION_MAX_BUDGET_USD: return RUNS | OF(FEATURE_VALIDATE);
    case OPTION_REQUIRE_CLEAN:
    case OPTION_TAKE_OVER: return RUNS;
    case OPTION_TASK: return OF(FEATURE_RUN) | OF(FEATURE_RESUME);
    case OPTION_BASE:
    case OPTION_FRESH: return OF(FEATURE_RUN);
    case OPTION_MORE_TURNS: return OF(FEATURE_RESUME);
    case OPTION_DRY_RUN: return OF(FEATURE_CLEAN);
    case OPTION_ALL: return OF(FEATURE_LIST);
    case OPTION_FOLLOW:
    case OPTION_TURN:
    case OPTION_PHASE: return OF(FEATURE_LOGS);
    case OPTION_HTML: return OF(FEATURE_REPORT);
    default: return ~OF(FEATURE_VALIDATE);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int refuse_value(const char *value, const char *expected, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", NULL,
                 "'%.100s' is no value for it", value);
    bl_error_hint(error, "%s", expected);
    return BL_EINVAL;
}

static int parse_count(const char *value, int64_t least, int64_t most, uint32_t *ret_count,
                       struct bl_error *error)
{
    int64_t number;
    char expected[80];

    if (value[0] >= '0' && value[0] <= '9' && bl_text_to_int64(bl_text_from(value), &number) == 0 &&
        number >= least && number <= most) {
        *ret_count = (uint32_t)number;
        return 0;
    }
    snprintf(expected, sizeof expected, "it is a whole number from %lld to %lld", (long long)least,
             (long long)most);
    return refuse_value(value, expected, error);
}

static int parse_tokens(const char *value, uint64_t *ret_tokens, struct bl_error *error)
{
    int64_t number;

    if (value[0] < '0' || value[0] > '9' || bl_text_to_int64(bl_text_from(value), &number) != 0 ||
        number < 1 || number >= (int64_t)1 << 53)
        return refuse_value(value, "it is a whole number from 1 on", error);
    *ret_tokens = (uint64_t)number;
    return 0;
}

static int parse_duration(const char *value, bool zero, uint64_t *ret_ns, struct bl_error *error)
{
    int64_t ns;
    int code = bl_duration_parse(bl_text_from(value), &ns, error);

    if (code != 0)
        return code;
    if (ns < 0 || (ns == 0 && !zero) || (uint64_t)ns > DURATION_NS_MAX)
        return refuse_value(value,
                            zero ? "it is a duration from 0 to 7 days: 0, 500ms, 90, 2.5m, 1h"
                                 : "it is a duration above 0, of at most 7 days: 500ms, 90, 2.5m, "
                                   "1h",
                            error);
    *ret_ns = (uint64_t)ns;
    return 0;
}

/* Digits, with a decimal point or without: no sign, no exponent, no name of a number. */
static bool parse_decimal(const char *value, double *ret_number)
{
    size_t whole = strspn(value, "0123456789");
    size_t point = value[whole] == '.';
    size_t fraction = strspn(value + whole + point, "0123456789");

    *ret_number = strtod(value, NULL);
    return whole + fraction > 0 && value[whole + point + fraction] == '\0' && isfinite(*ret_number);
}

static int parse_multiplier(const char *value, double *ret_multiplier, struct bl_error *error)
{
    double number;

    if (!parse_decimal(value, &number) || number < 0.1 || number > 100)
        return refuse_value(value, "it is a number from 0.1 to 100", error);
    *ret_multiplier = number;
    return 0;
}

static int parse_usd(const char *value, double *ret_usd, struct bl_error *error)
{
    if (!parse_decimal(value, ret_usd))
        return refuse_value(value, "it is an amount in USD, zero or more: 5, 0.25", error);
    return 0;
}

static int parse_word(const char *value, const char *const *words, size_t count, size_t *ret_index,
                      const char *expected, struct bl_error *error)
{
    struct bl_suggestion suggestion;
    char near[96];

    bl_suggestion_init(&suggestion, value);
    for (size_t i = 0; i < count; i++) {
        bl_suggestion_offer(&suggestion, words[i]);
        if (strcmp(value, words[i]) != 0)
            continue;
        *ret_index = i;
        return 0;
    }
    snprintf(near, sizeof near, "did you mean '%s'?", suggestion.best);
    return refuse_value(value, suggestion.best != NULL ? near : expected, error);
}

static int parse_policy(const char *value, struct bl_plan_overrides *overrides,
                        struct bl_error *error)
{
    static const char *const names[] = {
        [BL_ON_FAILURE_WAVE_END] = "wave_end",
        [BL_ON_FAILURE_CANCEL_SIBLINGS] = "cancel_siblings",
        [BL_ON_FAILURE_CONTINUE] = "continue",
    };
    size_t index;

    int code = parse_word(value, names, BL_COUNT(names), &index,
                          "it is wave_end, cancel_siblings or continue", error);
    if (code != 0)
        return code;
    overrides->on_failure_set = true;
    overrides->on_failure = (enum bl_on_failure)index;
    return 0;
}

static int parse_phase(const char *value, const char **ret_phase, struct bl_error *error)
{
    static const char *const names[] = {"player",   "verify",  "coach",      "merge",
                                        "loop_top", "between", "after_turn", "gate"};
    size_t index;

    int code = parse_word(value, names, BL_COUNT(names), &index,
                          "it is player, verify, coach, merge or gate", error);
    if (code == 0)
        *ret_phase = names[index];
    return code;
}

/* Ids of features and tasks have one form. */
static bool is_id(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || (c != '-' && c != '_')))
            return false;
    }
    return text.size > 0 && text.size < BL_PLAN_ID_SIZE;
}

static int parse_task(const char *value, struct feature_options *options, struct bl_error *error)
{
    if (!is_id(bl_text_from(value)))
        return refuse_value(value, "it is the id of a task, as TASK-AUTH-001; repeatable", error);
    for (size_t i = 0; i < options->task_count; i++) {
        if (strcmp(options->tasks[i], value) == 0)
            return 0;
    }
    if (options->task_count == TASKS_MAX)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "read the command line", NULL,
                            "at most %u tasks can be named", TASKS_MAX);
    options->tasks[options->task_count++] = value;
    return 0;
}

/* What begins with '-' would be an option of git's. */
static int parse_base(const char *value, const char **ret_base, struct bl_error *error)
{
    if (value[0] == '\0' || value[0] == '-' || !bl_utf8_valid(bl_text_from(value)))
        return refuse_value(value, "it is a commit, a branch or a tag", error);
    *ret_base = value;
    return 0;
}

static int parse_path(const char *value, const char **ret_path, struct bl_error *error)
{
    *ret_path = value;
    return value[0] != '\0' ? 0 : refuse_value(value, "it is the path of a file", error);
}

static int parse_extension(const char *value, uint64_t *ret_ns, struct bl_error *error)
{
    struct bl_error unused = {0};

    if (value[0] == '+' && value[1] != '+' && value[1] != '-' &&
        parse_duration(value + 1, false, ret_ns, &unused) == 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "TIME",
                 "'%.100s' does not say how much longer", value);
    bl_error_hint(error, "it is '+' and a duration above 0, of at most 7 days: +600s, +10m");
    return BL_EINVAL;
}

/* ---- Options --------------------------------------------------------------------------------- */

static int take_limit(int option, const char *value, struct bl_plan_overrides *limits,
                      struct bl_error *error)
{
    switch (option) {
    case OPTION_PARALLEL: return parse_count(value, 1, 64, &limits->parallel, error);
    case OPTION_TURNS: return parse_count(value, 1, 50, &limits->turns, error);
    case OPTION_TIMEOUT:
        limits->feature_timeout_set = true;
        return parse_duration(value, false, &limits->feature_timeout_ns, error);
    case OPTION_TASK_TIMEOUT: return parse_duration(value, false, &limits->task_timeout_ns, error);
    case OPTION_TIMEOUT_MULTIPLIER:
        return parse_multiplier(value, &limits->timeout_multiplier, error);
    case OPTION_ON_FAILURE: return parse_policy(value, limits, error);
    case OPTION_COACH_GRACE:
        limits->coach_grace_set = true;
        return parse_duration(value, true, &limits->coach_grace_ns, error);
    case OPTION_DRAIN:
        limits->drain_set = true;
        return parse_duration(value, true, &limits->drain_ns, error);
    case OPTION_MAX_BUDGET_TOKENS: return parse_tokens(value, &limits->max_budget_tokens, error);
    case OPTION_MAX_BUDGET_USD:
        limits->max_budget_usd_set = true;
        return parse_usd(value, &limits->max_budget_usd, error);
    default: return BL_EINVAL;
    }
}

static int take_option(int option, const char *value, struct feature_options *options,
                       struct bl_error *error)
{
    switch (option) {
    case OPTION_BASE: return parse_base(value, &options->base, error);
    case OPTION_TASK: return parse_task(value, options, error);
    case OPTION_MORE_TURNS: return parse_count(value, 1, 50, &options->more_turns, error);
    case OPTION_REQUIRE_CLEAN: options->require_clean = true; return 0;
    case OPTION_TAKE_OVER: options->take_over = true; return 0;
    case OPTION_FRESH: options->fresh = true; return 0;
    case OPTION_DRY_RUN: options->dry_run = true; return 0;
    case OPTION_ALL: options->all = true; return 0;
    case OPTION_FOLLOW: options->follow = true; return 0;
    case OPTION_TURN: return parse_count(value, 1, TURN_MAX, &options->turn, error);
    case OPTION_PHASE: return parse_phase(value, &options->phase, error);
    case OPTION_HTML: return parse_path(value, &options->html, error);
    case OPTION_STORE: return parse_path(value, &options->store, error);
    default: return take_limit(option, value, &options->overrides, error);
    }
}

/* ---- The walk -------------------------------------------------------------------------------- */

struct walk {
    struct feature_options *options;
    bool verb_seen;
    const char *time; /* of extend */
    int *given;       /* options, in their order */
    size_t given_count;
};

static const char verbs_hint[] = "there are validate, run, status, list, logs, cancel, pause, "
                                 "resume, extend, retry, clean and report";

static int find_verb(const char *name, struct walk *walk, struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        bl_suggestion_offer(&suggestion, verbs[i].name);
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        walk->options->verb = (enum feature_verb)i;
        walk->verb_seen = true;
        return 0;
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                 "unknown verb '%.100s'", name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "%s", verbs_hint);
    return BL_EINVAL;
}

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct walk *walk = context;
    struct feature_options *options = walk->options;

    if (option != CLI_ARGUMENT_OPERAND) {
        walk->given[walk->given_count++] = option;
        return take_option(option, value, options, error);
    }
    if (!walk->verb_seen)
        return find_verb(value, walk, error);
    if (options->name == NULL && verbs[options->verb].about != ABOUT_NOTHING)
        options->name = value;
    else if (walk->time == NULL && options->verb == FEATURE_EXTEND)
        walk->time = value;
    else
        return cli_arguments_refuse(value, error);
    return 0;
}

/* The verb may stand behind its options. */
static int check_given(const struct walk *walk, struct bl_error *error)
{
    for (size_t i = 0; i < walk->given_count; i++) {
        if ((option_verbs(walk->given[i]) & OF(walk->options->verb)) == 0)
            return cli_option_refuse(cli_feature_options, walk->given[i], "feature",
                                     verbs[walk->options->verb].name, error);
    }
    return 0;
}

static int check_format(struct cli_call *call, const struct feature_options *options,
                        struct bl_error *error)
{
    if (call->format != CLI_FORMAT_STREAM_JSON || verbs[options->verb].streams)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--output-format",
                 "'feature %s' has no events to stream", verbs[options->verb].name);
    bl_error_hint(error, "it is text or json");
    return BL_EINVAL;
}

/* ---- What it is about ------------------------------------------------------------------------ */

/* FEAT/TASK, or the path of a plan and a task behind it; a file of that name is a path. */
static void split_name(struct feature_options *options)
{
    const char *slash = options->name != NULL ? strrchr(options->name, '/') : NULL;

    if (slash == NULL || !is_id(bl_text_from(slash + 1)) || access(options->name, F_OK) == 0)
        return;
    struct bl_text before = {options->name, (size_t)(slash - options->name)};
    if (is_id(before) || bl_text_ends_with(before, BL_TEXT(".yaml")) ||
        bl_text_ends_with(before, BL_TEXT(".yml")))
        options->task = slash + 1;
}

static int refuse_name(const struct feature_options *options, const char *target,
                       const char *message, const char *hint, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", target,
                 "'feature %s' %s", verbs[options->verb].name, message);
    bl_error_hint(error, "%s", hint);
    return BL_EINVAL;
}

static int check_name(const struct feature_options *options, struct bl_error *error)
{
    enum about about = verbs[options->verb].about;

    if (about == ABOUT_NOTHING || (about == ABOUT_ANY && options->name == NULL))
        return 0;
    if (options->name == NULL || options->name[0] == '\0')
        return refuse_name(options, about == ABOUT_TASK ? "FEAT/TASK" : "FEAT",
                           about == ABOUT_TASK ? "needs a task" : "needs a feature",
                           about == ABOUT_TASK ? "as FEAT-AUTH/TASK-AUTH-001"
                                               : "name it by its id, or by the path of its file",
                           error);
    if (!bl_utf8_valid(bl_text_from(options->name)))
        return refuse_name(options, "FEAT", "needs a name that is valid UTF-8",
                           "name it by its id, or by the path of its file", error);
    if (about == ABOUT_FEATURE && options->task != NULL)
        return refuse_name(options, options->name, "is about a whole feature",
                           options->verb == FEATURE_RUN ? "--task names tasks that are to run alone"
                                                        : "leave the task out",
                           error);
    if (options->task != NULL && options->task_count > 0)
        return refuse_name(options, "--task", "has its task by name and by --task",
                           "give one of them", error);
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int settle(struct feature_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder is gone");
    if (options->verb == FEATURE_VALIDATE)
        return 0;
    if (options->store == NULL)
        options->store = bl_variable("BELAY_STORE");
    return options->store != NULL ? 0
                                  : bl_store_default_path(&options->arena, &options->store, error);
}

static int check_time(const struct walk *walk, struct bl_error *error)
{
    if (walk->options->verb != FEATURE_EXTEND)
        return 0;
    return parse_extension(walk->time != NULL ? walk->time : "", &walk->options->extend_ns, error);
}

int feature_options_read(struct cli_call *call, struct feature_options *options,
                         struct bl_error *error)
{
    struct walk walk = {.options = options};

    *options = (struct feature_options){.call = call};
    walk.given = bl_arena_alloc(&options->arena, ((size_t)call->count + 1) * sizeof *walk.given);
    int code = cli_arguments_read(call, true, take, &walk, error);
    if (code != 0)
        return code;
    if (!walk.verb_seen) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "VERB",
                     "it is not said what to do");
        bl_error_hint(error, "%s", verbs_hint);
        return BL_EINVAL;
    }
    split_name(options);
    code = check_given(&walk, error);
    if (code == 0)
        code = check_format(call, options, error);
    if (code == 0)
        code = check_name(options, error);
    if (code == 0)
        code = check_time(&walk, error);
    return code != 0 ? code : settle(options, error);
}

void feature_options_done(struct feature_options *options)
{
    bl_arena_done(&options->arena);
}
