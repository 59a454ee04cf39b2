#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

#define MAX_TURNS_DEFAULT 8
#define REQUEST_ID_MAX    128
#define GRACE_NS_MAX      (60 * (int64_t)BL_NS_PER_S)

static int refuse_value(const char *value, const char *expected, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", NULL,
                 "'%.100s' is no value for it", value);
    bl_error_hint(error, "%s", expected);
    return BL_EINVAL;
}

/* A whole number from `minimum` on that fits 64 bits, in decimal, nothing else. */
static int parse_count(const char *value, uint64_t minimum, uint64_t *ret_count,
                       struct bl_error *error)
{
    uint64_t count = 0;

    for (const char *digit = value; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return refuse_value(value, "it is a whole number, in decimal digits alone", error);
        unsigned more = (unsigned)(*digit - '0');
        if (count > (UINT64_MAX - more) / 10)
            return refuse_value(value, "it is a whole number up to 18446744073709551615", error);
        count = count * 10 + more;
    }
    if (value[0] == '\0')
        return refuse_value(value, "it is a whole number, in decimal digits", error);
    if (count < minimum)
        return refuse_value(value, "it is a whole number from 1 on", error);
    *ret_count = count;
    return 0;
}

/* One of two words; `*ret_second` is true for the second. */
static int parse_choice(const char *value, const char *first, const char *second, bool *ret_second,
                        struct bl_error *error)
{
    char expected[80];

    *ret_second = strcmp(value, second) == 0;
    if (*ret_second || strcmp(value, first) == 0)
        return 0;
    snprintf(expected, sizeof expected, "it is %s or %s", first, second);
    return refuse_value(value, expected, error);
}

static int parse_request_id(const char *value, const char **ret_id, struct bl_error *error)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._:-";
    size_t size = strlen(value);

    if (size == 0 || size > REQUEST_ID_MAX || strspn(value, allowed) != size)
        return refuse_value(value, "it has 1 to 128 of the characters A-Z a-z 0-9 . _ : -", error);
    *ret_id = value;
    return 0;
}

static int parse_id(const char *value, const char **ret_id, struct bl_error *error)
{
    *ret_id = value;
    return bl_session_id_check(value, error);
}

static int parse_text(const char *value, const char **ret_text, struct bl_error *error)
{
    size_t valid = bl_utf8_valid_prefix(bl_text_from(value), NULL);

    if (valid != strlen(value)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", NULL,
                     "it is not valid UTF-8 from byte %zu on", valid);
        return BL_EINVAL;
    }
    *ret_text = value;
    return 0;
}

/* Digits, with a decimal point or without: no sign, no exponent, no name of a number. */
static int parse_usd(const char *value, double *ret_usd, struct bl_error *error)
{
    size_t whole = strspn(value, "0123456789");
    size_t point = value[whole] == '.';
    size_t fraction = strspn(value + whole + point, "0123456789");
    double usd = strtod(value, NULL);

    if (whole + fraction == 0 || value[whole + point + fraction] != '\0' || !isfinite(usd))
        return refuse_value(value, "it is an amount in USD, zero or more: 5, 0.25", error);
    *ret_usd = usd;
    return 0;
}

/* For a moment's cleaning up: who is stopped may not go on for as long as it likes. */
static int parse_grace(const char *value, uint32_t *ret_ms, struct bl_error *error)
{
    int64_t ns;
    int code = bl_duration_parse(bl_text_from(value), &ns, error);

    if (code != 0)
        return code;
    if (ns < 0 || ns > GRACE_NS_MAX)
        return refuse_value(value, "it is a duration from 0 to 60s, such as 200ms", error);
    /* Rounded up: a grace that was asked for is never none. */
    *ret_ms = (uint32_t)((ns + (int64_t)BL_NS_PER_MS - 1) / (int64_t)BL_NS_PER_MS);
    return 0;
}

static int take_limit(int option, const char *value, struct run_options *options,
                      struct bl_error *error)
{
    struct bl_turn_limits *limits = &options->limits;

    switch (option) {
    case RUN_OPTION_MAX_TURNS: return parse_count(value, 1, &options->max_turns, error);
    case RUN_OPTION_MAX_SESSION_TURNS:
        return parse_count(value, 0, &limits->max_session_turns, error);
    case RUN_OPTION_MAX_STEPS: return parse_count(value, 0, &limits->max_steps, error);
    case RUN_OPTION_MAX_BUDGET_TOKENS:
        return parse_count(value, 0, &limits->max_budget_tokens, error);
    case RUN_OPTION_MAX_BUDGET_USD:
        options->budgeted = true;
        return parse_usd(value, &options->max_budget_usd, error);
    case RUN_OPTION_ON_EXHAUSTED:
        return parse_choice(value, "stop", "synthesize", &limits->synthesize, error);
    case RUN_OPTION_ON_CANCEL: return parse_choice(value, "discard", "keep", &limits->keep, error);
    case RUN_OPTION_TIMEOUT:
        options->timed = true;
        return bl_duration_parse(bl_text_from(value), &options->timeout_ns, error);
    case RUN_OPTION_GRACE:
        options->graced = true;
        return parse_grace(value, &options->grace_ms, error);
    default: return BL_EINVAL;
    }
}

/* As it is now, with every link followed. */
static int add_folder(const char *value, struct run_options *options, struct bl_error *error)
{
    char *path = realpath(value, NULL);
    struct stat facts;

    if (path == NULL || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
        const char *why = path == NULL ? strerror(errno) : "it is no folder";
        bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "read the command line", NULL,
                     "'%.200s' cannot be used: %s", value, why);
        free(path);
        return BL_ENOENT;
    }
    options->folders[options->folder_count++] =
        bl_arena_text(&options->arena, bl_text_from(path)).data;
    free(path);
    return 0;
}

static int take_option(int option, const char *value, struct run_options *options,
                       struct bl_error *error)
{
    switch (option) {
    case RUN_OPTION_PROVIDER: options->provider = value; return 0;
    case RUN_OPTION_MODEL: return parse_text(value, &options->model, error);
    case RUN_OPTION_RECORD: options->record_path = value; return 0;
    case RUN_OPTION_CASSETTE: options->cassette_path = value; return 0;
    case RUN_OPTION_SESSION: return parse_id(value, &options->session, error);
    case RUN_OPTION_CONTINUE: options->newest = true; return 0;
    case RUN_OPTION_RESUME: return parse_id(value, &options->resume, error);
    case RUN_OPTION_CONTINUATION_PROMPT: return parse_text(value, &options->continuation, error);
    case RUN_OPTION_STRUCTURED_OUTPUT: options->schema_path = value; return 0;
    case RUN_OPTION_PERMISSION_MODE:
        options->mode_chosen = true;
        return bl_permission_mode_parse(value, &options->mode, error);
    case RUN_OPTION_YOLO:
        options->mode_chosen = true;
        options->mode = BL_PERMISSION_YOLO;
        return 0;
    case RUN_OPTION_ADD_DIR: return add_folder(value, options, error);
    case RUN_OPTION_MCP_CONFIG: options->mcp_files[options->mcp_file_count++] = value; return 0;
    case RUN_OPTION_TRUST_MCP: options->trust_mcp = true; return 0;
    case RUN_OPTION_ALLOW:
    case RUN_OPTION_DENY:
        options->rules[options->rule_count++] =
            (struct run_rule){option == RUN_OPTION_ALLOW, value};
        return 0;
    case RUN_OPTION_REQUEST_ID: return parse_request_id(value, &options->request_id, error);
    case RUN_OPTION_STORE: options->store = value; return 0;
    case RUN_OPTION_SYSTEM: options->system_path = value; return 0;
    case RUN_OPTION_APPEND_SYSTEM_PROMPT: return parse_text(value, &options->system_more, error);
    case RUN_OPTION_SANDBOX:
        options->sandbox_chosen = true;
        return bl_sandbox_parse(value, &options->sandbox, error);
    case RUN_OPTION_CONTAINER: return bl_container_parse(value, &options->container, error);
    default: return take_limit(option, value, options, error);
    }
}

/* ---- What belongs together ------------------------------------------------------------------- */

static int check_session(const struct run_options *options, struct bl_error *error)
{
    int ways = (options->session != NULL) + (options->resume != NULL) + options->newest;

    if (ways <= 1)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--session",
                 "--session, --resume and --continue name the session in different ways");
    bl_error_hint(error, "give one of them");
    return BL_EINVAL;
}

static int add_rules(const struct run_options *options, struct bl_permissions *permissions,
                     struct bl_error *error)
{
    int code = 0;

    for (size_t i = 0; i < options->rule_count && code == 0; i++) {
        const struct run_rule *rule = &options->rules[i];
        struct bl_error detail = {0};
        code = bl_permissions_add(permissions, rule->allow, rule->text, &detail);
        if (code == 0)
            continue;
        bl_error_set(error, code, detail.kind, detail.operation, detail.target,
                     "%.460s given with --%s", detail.message, rule->allow ? "allow" : "deny");
        bl_error_name_set(error, detail.name);
        bl_error_hint(error, "%s", detail.hint);
    }
    return code;
}

static int check_rules(const struct run_options *options, struct bl_error *error)
{
    struct bl_permissions *permissions = bl_permissions_new(options->mode);
    int code = add_rules(options, permissions, error);

    bl_permissions_free(permissions);
    return code;
}

struct bl_permissions *run_options_permissions(const struct run_options *options)
{
    struct bl_permissions *permissions = bl_permissions_new(options->mode);

    (void)add_rules(options, permissions, NULL);
    return permissions;
}

static int find_directory(struct run_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) != NULL)
        return 0;
    return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the workspace", NULL,
                        "the current folder is gone, and with it the workspace");
}

static int find_store(struct run_options *options, struct bl_error *error)
{
    if (options->store == NULL)
        options->store = bl_variable("BELAY_STORE");
    if (options->store != NULL)
        return 0;
    return bl_store_default_path(&options->arena, &options->store, error);
}

static int settle(struct run_options *options, struct bl_error *error)
{
    int code = check_session(options, error);
    if (code == 0)
        code = check_rules(options, error);
    if (code == 0 && options->prompt != NULL)
        code = run_prompt_check(bl_text_from(options->prompt), error);
    if (code == 0)
        code = find_directory(options, error);
    if (code == 0)
        code = find_store(options, error);
    if (code != 0 || options->prompt != NULL || options->converses || isatty(STDIN_FILENO) != 1)
        return code;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "PROMPT", "no prompt");
    bl_error_hint(error, "give one as an argument, or on standard input");
    return BL_EINVAL;
}

/* ---- The walk -------------------------------------------------------------------------------- */

struct walk {
    struct run_options *options;
    bool prompt_seen;
    cli_take *take_own; /* NULL: a prompt is taken, and there are no others */
    void *context;
};

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct walk *walk = context;

    if (walk->take_own != NULL && (option == CLI_ARGUMENT_OPERAND || option >= RUN_OPTION_OWN))
        return walk->take_own(walk->context, option, value, error);
    if (option != CLI_ARGUMENT_OPERAND)
        return take_option(option, value, walk->options, error);
    if (!walk->prompt_seen) {
        walk->prompt_seen = true;
        walk->options->prompt = strcmp(value, "-") == 0 ? NULL : value;
        return 0;
    }
    cli_arguments_refuse(value, error);
    error->hint[0] = '\0';
    bl_error_hint(error, "a prompt of several words stands in quotes");
    return BL_EINVAL;
}

static int parse(struct cli_call *call, bool streams, struct walk *walk, struct bl_error *error)
{
    struct run_options *options = walk->options;

    options->max_turns = MAX_TURNS_DEFAULT;
    bl_arena_init(&options->arena);
    options->rules = bl_arena_zalloc(&options->arena, (size_t)call->count * sizeof *options->rules);
    options->folders =
        bl_arena_zalloc(&options->arena, (size_t)(call->count + 1) * sizeof *options->folders);
    options->mcp_files =
        bl_arena_zalloc(&options->arena, (size_t)(call->count + 1) * sizeof *options->mcp_files);
    int code = cli_arguments_read(call, streams, take, walk, error);
    return code != 0 ? code : settle(options, error);
}

int run_options_parse(struct cli_call *call, bool streams, struct run_options *options,
                      struct bl_error *error)
{
    struct walk walk = {.options = options};

    *options = (struct run_options){.mode = BL_PERMISSION_AUTO};
    bl_turn_limits_init(&options->limits);
    return parse(call, streams, &walk, error);
}

int run_options_parse_chat(struct cli_call *call, struct run_options *options,
                           struct bl_error *error)
{
    struct walk walk = {.options = options};

    *options = (struct run_options){.mode = BL_PERMISSION_ASK, .converses = true};
    bl_turn_limits_init(&options->limits);
    options->limits.keep = true;
    return parse(call, false, &walk, error);
}

int run_options_parse_serving(struct cli_call *call, bool asks, cli_take *take_own, void *context,
                              struct run_options *options, struct bl_error *error)
{
    struct walk walk = {.options = options, .take_own = take_own, .context = context};

    *options = (struct run_options){.mode = asks ? BL_PERMISSION_ASK : BL_PERMISSION_AUTO,
                                    .converses = true};
    bl_turn_limits_init(&options->limits);
    options->limits.keep = asks;
    return parse(call, false, &walk, error);
}

void run_options_done(struct run_options *options)
{
    bl_arena_done(&options->arena);
}
