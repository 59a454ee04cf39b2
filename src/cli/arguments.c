#include "cli.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

void cli_arguments_init(struct cli_arguments *arguments, int count, char **values,
                        const char *short_options, const struct option *options)
{
    *arguments = (struct cli_arguments){.count = count, .values = values, .options = options};
    /* '-': operands come in their place; ':': a missing argument is told apart. */
    int size =
        snprintf(arguments->short_options, sizeof arguments->short_options, "-:%s", short_options);
    assert(size > 0 && (size_t)size < sizeof arguments->short_options);
    (void)size;
    opterr = 0;
    optind = 0; /* glibc: forget the walk before */
}

/* The name in "--name=value". */
static struct bl_text option_name(const char *word)
{
    const char *end = strchr(word, '=');
    struct bl_text name = bl_text_from(word + 2);

    if (end != NULL)
        name.size = (size_t)(end - word - 2);
    return name;
}

static const struct option *option_find(const struct cli_arguments *arguments, struct bl_text name)
{
    for (const struct option *option = arguments->options; option->name != NULL; option++) {
        if (bl_text_equal(bl_text_from(option->name), name))
            return option;
    }
    return NULL;
}

static int fail_unknown_long(const struct cli_arguments *arguments, const char *word,
                             struct bl_error *error)
{
    struct bl_text name = option_name(word);
    struct bl_suggestion suggestion;
    char copy[128];

    snprintf(copy, sizeof copy, BL_TEXT_FORMAT, (int)(name.size < 100 ? name.size : 100),
             name.data);
    bl_suggestion_init(&suggestion, copy);
    for (const struct option *option = arguments->options; option->name != NULL; option++)
        bl_suggestion_offer(&suggestion, option->name);
    snprintf(copy, sizeof copy, "--" BL_TEXT_FORMAT, (int)(name.size < 100 ? name.size : 100),
             name.data);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", copy,
                 "unknown option '%s'", copy);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '--%s'?", suggestion.best);
    else
        bl_error_hint(error, "--help lists the options");
    return BL_EINVAL;
}

/* After '?' or ':' of getopt_long: finds out which of the four things is wrong with `word`. */
static int fail_option(const struct cli_arguments *arguments, const char *word, bool missing,
                       struct bl_error *error)
{
    char letter[8];
    const char *target = word;
    bool is_long = bl_text_starts_with(bl_text_from(word), BL_TEXT("--"));

    if (is_long) {
        const struct option *option = option_find(arguments, option_name(word));
        if (option == NULL)
            return fail_unknown_long(arguments, word, error);
        if (!missing) {
            bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", word,
                         "option '--%s' takes no argument", option->name);
            return BL_EINVAL;
        }
    } else {
        snprintf(letter, sizeof letter, "-%c", optopt);
        target = letter;
    }
    if (missing)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", target,
                            "option '%s' needs an argument", target);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", target,
                 "unknown option '%s'", target);
    bl_error_hint(error, "--help lists the options");
    return BL_EINVAL;
}

/* After the end of the options ("--"), what is left are operands. */
static int next_operand(struct cli_arguments *arguments)
{
    arguments->ended = true;
    if (optind >= arguments->count)
        return CLI_ARGUMENT_END;
    arguments->index = optind;
    arguments->value = arguments->values[optind++];
    return CLI_ARGUMENT_OPERAND;
}

int cli_arguments_next(struct cli_arguments *arguments, struct bl_error *error)
{
    if (arguments->ended)
        return next_operand(arguments);
    int start = optind > 0 ? optind : 1;
    int which = -1;
    int found = getopt_long(arguments->count, arguments->values, arguments->short_options,
                            arguments->options, &which);
    if (found == -1)
        return next_operand(arguments);

    const char *word = arguments->values[start];
    if (found == '?' || found == ':')
        return fail_option(arguments, word, found == ':', error);
    arguments->index = start;
    arguments->value = optarg;
    if (which >= 0 && option_find(arguments, option_name(word)) == NULL)
        return fail_unknown_long(arguments, word, error);
    return found;
}

int cli_arguments_refuse(const char *operand, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", operand,
                 "unexpected argument '%s'", operand);
    bl_error_hint(error, "--help says what is expected");
    return BL_EINVAL;
}

int cli_option_refuse(const struct option *options, int option, const char *command,
                      const char *verb, struct bl_error *error)
{
    char name[40];

    while (options->val != option)
        options++;
    snprintf(name, sizeof name, "--%s", options->name);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                 "'%s %s' has no option '%s'", command, verb, name);
    bl_error_hint(error, "--help says whose it is");
    return BL_EINVAL;
}

/* An error that does not say what it is about is about the option. */
static void name_option(const struct cli_command *command, int option, struct bl_error *error)
{
    for (const struct option *row = command->getopt; row->name != NULL; row++) {
        if (row->val == option && error->target[0] == '\0')
            snprintf(error->target, sizeof error->target, "--%s", row->name);
    }
}

const struct option cli_format_options[] = {
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

int cli_take_none(void *context, int option, const char *value, struct bl_error *error)
{
    (void)context;
    (void)option;
    return cli_arguments_refuse(value, error);
}

int cli_take_one(void *context, int option, const char *value, struct bl_error *error)
{
    const char **operand = context;

    (void)option;
    if (*operand != NULL)
        return cli_arguments_refuse(value, error);
    *operand = value;
    return 0;
}

int cli_arguments_read(struct cli_call *call, bool streams, cli_take *take, void *context,
                       struct bl_error *error)
{
    struct cli_arguments walk;
    int found;

    cli_arguments_init(&walk, call->count, call->arguments, call->command->short_options,
                       call->command->getopt);
    while ((found = cli_arguments_next(&walk, error)) != CLI_ARGUMENT_END) {
        int code = found;
        if (found == CLI_OPTION_HELP)
            return CLI_OPTION_HELP;
        if (found == CLI_OPTION_OUTPUT_FORMAT)
            code = cli_format_parse(walk.value, streams, &call->format, error);
        else if (found > 0 && found != CLI_OPTION_JSON)
            code = take(context, found, walk.value, error);
        if (found == CLI_OPTION_JSON) {
            call->format = CLI_FORMAT_JSON;
            code = 0;
        }
        if (code == 0)
            continue;
        name_option(call->command, found, error);
        error->kind = BL_KIND_USAGE;
        return code;
    }
    return 0;
}

const char *cli_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *cli_format_name(enum cli_format format)
{
    return cli_format_names[format];
}

/* True when `value` (NULL is fine) is the name of a JSON format. */
static bool format_is_json(const char *value, enum cli_format *format)
{
    if (value == NULL)
        return false;
    if (strcmp(value, "json") == 0)
        *format = CLI_FORMAT_JSON;
    else if (strcmp(value, "stream-json") == 0)
        *format = CLI_FORMAT_STREAM_JSON;
    else
        return false;
    return true;
}

enum cli_format cli_format_asked(int count, char *const *values)
{
    static const char with_value[] = "--output-format=";
    enum cli_format format = CLI_FORMAT_TEXT;

    for (int i = 1; i < count && strcmp(values[i], "--") != 0; i++) {
        if (strcmp(values[i], "--json") == 0)
            format = CLI_FORMAT_JSON;
        else if (strcmp(values[i], "--output-format") == 0)
            format_is_json(i + 1 < count ? values[i + 1] : NULL, &format);
        else if (strncmp(values[i], with_value, sizeof with_value - 1) == 0)
            format_is_json(values[i] + sizeof with_value - 1, &format);
    }
    return format;
}

int cli_format_parse(const char *value, bool streams, enum cli_format *ret_format,
                     struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, value);
    for (int i = CLI_FORMAT_TEXT; i <= (streams ? CLI_FORMAT_STREAM_JSON : CLI_FORMAT_JSON); i++) {
        const char *name = cli_format_name((enum cli_format)i);
        bl_suggestion_offer(&suggestion, name);
        if (strcmp(value, name) != 0)
            continue;
        *ret_format = (enum cli_format)i;
        return 0;
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--output-format",
                 "unknown output format '%s'", value);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, streams ? "it is text, json or stream-json" : "it is text or json");
    return BL_EINVAL;
}
