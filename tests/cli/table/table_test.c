/* Checks over the tables of all commands. */
#include "suite.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <belay/feature.h>

#include "cli/cli.h"
#include "cli/table/commands.h"

#define DOCUMENT_MAX ((size_t)512 * 1024)
#define WORDS_MAX    16

static char scratch[16384] __attribute__((aligned(16))); /* for the struct of any command */
static char document[DOCUMENT_MAX];

/* Calls `check` for each option of each command. */
static void each_option(void (*check)(const struct cli_command *command,
                                      const struct cli_option *option, unsigned verbs))
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        struct cli_cursor cursor = {0};
        const struct cli_option *option;
        while ((option = cli_option_next(cli_commands[i]->options, &cursor)) != NULL)
            check(cli_commands[i], option, cli_option_verbs(option, &cursor));
    }
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool is_sentence(const char *text)
{
    return text != NULL && text[0] != '\0' && text[strlen(text) - 1] == '.';
}

static void check_described(const struct cli_command *command, const struct cli_option *option,
                            unsigned verbs)
{
    (void)verbs;
    if (!is_sentence(option->about))
        fail_msg("belay %s --%s has no sentence about it", command->name, option->name);
    if (option->detail != NULL && !is_sentence(option->detail))
        fail_msg("belay %s --%s: the detail is not a sentence", command->name, option->name);
    if (cli_option_takes(option) && option->argument == NULL)
        fail_msg("belay %s --%s: the argument has no name", command->name, option->name);
    bool typed = option->type == CLI_TYPE_DURATION || option->type == CLI_TYPE_BYTES;
    if (typed && option->sample == NULL)
        fail_msg("belay %s --%s has no sample", command->name, option->name);
}

static void every_option_is_described(void **state)
{
    (void)state;
    each_option(check_described);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const struct cli_command *command = cli_commands[i];
        assert_non_null(command->summary);
        assert_true(is_sentence(command->about));
        assert_non_null(command->exits);
        assert_non_null(command->examples);
        assert_non_null(command->see);
        for (const struct cli_verb *verb = command->verbs; verb != NULL && verb->name; verb++)
            assert_true(is_sentence(verb->about));
    }
}

/* Reads a file below BELAY_BUILD_ROOT or BELAY_SOURCE_ROOT into `document`. */
static void read_document(const char *root, const char *path)
{
    char whole[PATH_MAX];

    assert_non_null(getenv(root));
    snprintf(whole, sizeof whole, "%s/%s", getenv(root), path);
    FILE *file = fopen(whole, "r");
    if (file == NULL)
        fail_msg("cannot open %s", whole);
    size_t size = fread(document, 1, sizeof document - 1, file);
    document[size] = '\0';
    fclose(file);
}

static void check_in_help(const struct cli_command *command, const struct cli_option *option,
                          unsigned verbs)
{
    struct bl_buffer help;
    char form[80], word[90];

    (void)verbs;
    bl_buffer_init(&help, DOCUMENT_MAX);
    cli_help_write(&help, command);
    bl_buffer_append_byte(&help, '\0');
    cli_option_form(option, "    ", form, sizeof form);
    snprintf(word, sizeof word, "\n  %s", form);
    if (strstr(bl_buffer_text(&help).data, word) == NULL)
        fail_msg("the help of belay %s does not have '%s'", command->name, form);
    bl_buffer_done(&help);
}

static void every_option_is_in_the_help(void **state)
{
    (void)state;
    each_option(check_in_help);
    assert_non_null(cli_commands[0]);
}

/* Escapes a text as in a man page. */
static void escape_dashes(const char *text, char *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '-')
            *out++ = '\\';
        *out++ = *text;
    }
    *out = '\0';
}

static void check_in_manual(const struct cli_command *command, const struct cli_option *option,
                            unsigned verbs)
{
    char path[64], form[80], escaped[170], line[200];

    (void)verbs;
    if (strcmp(command->name, "help") == 0)
        return;
    snprintf(path, sizeof path, "docs/belay-%s.1", command->name);
    read_document("BELAY_BUILD_ROOT", path);
    cli_option_form(option, "", form, sizeof form);
    escape_dashes(form, escaped);
    snprintf(line, sizeof line, ".TP\n\\fB%s\\fR\n", escaped);
    if (strstr(document, line) == NULL)
        fail_msg("the man page of belay %s does not have '%s'", command->name, form);
}

static void every_option_is_in_the_man_page(void **state)
{
    (void)state;
    each_option(check_in_manual);
    assert_non_null(cli_commands[0]);
}

static void reference_in_git_matches_the_tables(void **state)
{
    static const char *const pages[] = {"commands.md", "errors.md"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(pages); i++) {
        char path[64];
        snprintf(path, sizeof path, "docs/%s", pages[i]);
        read_document("BELAY_BUILD_ROOT", path);
        char *built = strdup(document);
        snprintf(path, sizeof path, "docs/reference/%s", pages[i]);
        read_document("BELAY_SOURCE_ROOT", path);
        if (strcmp(built, document) != 0)
            fail_msg("%s is stale: run 'ninja -C build reference'", path);
        free(built);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static const char *right_value(const struct cli_option *option)
{
    for (size_t i = 0; i < option->choice_count; i++) {
        if (option->choices[i] != NULL)
            return option->choices[i];
    }
    if (option->sample != NULL)
        return option->sample;
    return option->type == CLI_TYPE_COUNT ? "5" : "x";
}

/* Returns an invalid value; for text, only invalid UTF-8 is one. */
static const char *wrong_value(const struct cli_option *option)
{
    switch (option->type) {
    case CLI_TYPE_STORE:
    case CLI_TYPE_PATH: return "";
    case CLI_TYPE_REVISION: return "-x";
    case CLI_TYPE_COUNT:
    case CLI_TYPE_NUMBER: return "-1";
    case CLI_TYPE_BYTES: return "0";
    case CLI_TYPE_NAME:
    case CLI_TYPE_DURATION:
    case CLI_TYPE_CHOICE:
    case CLI_TYPE_WORD:
    case CLI_TYPE_FORMAT: return "no such value";
    case CLI_TYPE_TEXT: return "\xff";
    case CLI_TYPE_ANY:
    case CLI_TYPE_FLAG:
    case CLI_TYPE_JSON:
    case CLI_TYPE_VERBOSE:
    case CLI_TYPE_HELP:
    case CLI_TYPE_GROUP:
    case CLI_TYPE_NONE:
    default: return NULL;
    }
}

/* Reads `belay COMMAND VERB WORD OPERAND…`, with the operands that the verb must have. */
static int read_option(const struct cli_command *command, unsigned verb, const char *word,
                       struct bl_error *error)
{
    char *words[WORDS_MAX] = {(char *)command->name};
    struct cli_call call = {.command = command, .count = 1, .arguments = words};
    const struct cli_option *operand = cli_operands(command, verb);
    struct bl_arena arena = {0};

    if (command->verbs != NULL)
        words[call.count++] = (char *)command->verbs[verb].name;
    words[call.count++] = (char *)word;
    for (; operand != NULL && operand->type != CLI_TYPE_NONE; operand++) {
        if (!operand->optional)
            words[call.count++] = (char *)right_value(operand);
    }
    memset(scratch, 0, sizeof scratch);
    *error = (struct bl_error){0};
    int code = cli_options_read(&call, scratch, &arena, error);
    bl_arena_done(&arena);
    return code;
}

static void check_values(const struct cli_command *command, const struct cli_option *option,
                         unsigned verbs)
{
    struct bl_error error;
    char word[200], name[64];

    snprintf(name, sizeof name, "--%s", option->name);
    for (unsigned verb = 0; verb == 0 || (command->verbs && command->verbs[verb].name); verb++) {
        if ((verbs & CLI_VERB(verb)) == 0)
            continue;
        if (cli_option_takes(option))
            snprintf(word, sizeof word, "%s=%s", name, right_value(option));
        int code = read_option(command, verb, cli_option_takes(option) ? word : name, &error);
        if (code != (option->type == CLI_TYPE_HELP ? CLI_OPTION_HELP : 0))
            fail_msg("belay %s refuses %s: %s", command->name, word, error.message);
        if (wrong_value(option) == NULL)
            continue;
        snprintf(word, sizeof word, "%s=%s", name, wrong_value(option));
        if (read_option(command, verb, word, &error) != BL_EINVAL)
            fail_msg("belay %s accepts %s", command->name, word);
        assert_memory_equal(error.message, "invalid value '", 15);
        assert_string_equal(error.target, name);
        assert_int_equal(error.kind, BL_KIND_USAGE);
    }
}

static void every_option_takes_a_right_value_and_refuses_a_wrong_one(void **state)
{
    (void)state;
    each_option(check_values);
}

static void check_limits(const struct cli_command *command, const struct cli_option *option,
                         unsigned verbs)
{
    struct bl_error error;
    unsigned verb = 0;
    char word[200];

    while ((verbs & CLI_VERB(verb)) == 0)
        verb++;
    if (option->most == 0 || option->type == CLI_TYPE_NAME || option->type == CLI_TYPE_TEXT)
        return;
    for (unsigned long long more = 0; more < 2; more++) {
        unsigned long long value = option->most + more;
        if (option->type == CLI_TYPE_DURATION)
            snprintf(word, sizeof word, "--%s=%llu.%09llus", option->name, value / BL_NS_PER_S,
                     value % BL_NS_PER_S);
        else
            snprintf(word, sizeof word, "--%s=%llu", option->name, value);
        int code = read_option(command, verb, word, &error);
        if (code != (more == 0 ? 0 : BL_EINVAL))
            fail_msg("belay %s %s: %d", command->name, word, code);
    }
}

static void every_limit_is_the_last_value_that_is_accepted(void **state)
{
    (void)state;
    each_option(check_limits);
    assert_non_null(cli_commands[0]);
}

/* The tables link no other room, so they repeat the names of its values. */
static void choices_are_the_names_that_their_rooms_give_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cli_sandbox_names); i++)
        assert_string_equal(cli_sandbox_names[i], bl_sandbox_name((enum bl_sandbox)i));
    for (size_t i = 0; i < BL_COUNT(cli_permission_names); i++)
        assert_string_equal(cli_permission_names[i],
                            bl_permission_mode_name((enum bl_permission_mode)i));
    assert_string_equal(cli_container_names[BL_MECHANISM_NONE], "auto");
    for (size_t i = 1; i < BL_COUNT(cli_container_names); i++)
        assert_string_equal(cli_container_names[i], bl_mechanism_name((enum bl_mechanism)i));
    const struct cli_option *option;
    struct cli_cursor cursor = {0};
    while ((option = cli_option_next(cli_feature_command.options, &cursor)) != NULL) {
        for (size_t i = 0; strcmp(option->name, "on-failure") == 0 && i < option->choice_count; i++)
            assert_string_equal(option->choices[i], bl_on_failure_name((enum bl_on_failure)i));
    }
}

/* ---- Meanings -------------------------------------------------------------------------------- */

/* Options whose texts differ between commands, and why. */
static const char *const exceptions[] = {
    "json",              /* `watch` has no answer, and streams */
    "output-format",     /* each names its own schema */
    "timeout",           /* the deadline of what the command does: a run, a feature, a cell */
    "max-budget-tokens", /* the same for budgets */
    "max-budget-usd",
    "permission-mode", /* the default differs, and whether a user can be asked */
    "force",           /* each names what it does all the same */
    "session",         /* of cells only the stored values */
    "drain",           /* of a feature its phases, of a worker its items */
    "model",           /* `submit` names one of the worker's */
    "request-id",      /* of a run, or of an item */
    "limit",           /* each names what it lists */
    "verbose",         /* timeout(1) has it, and says the signal alone */
};

static bool is_exception(const char *name)
{
    for (size_t i = 0; i < BL_COUNT(exceptions); i++) {
        if (strcmp(exceptions[i], name) == 0)
            return true;
    }
    return false;
}

static const struct cli_command *other_command;
static const struct cli_option *other_option;

static void check_meaning(const struct cli_command *command, const struct cli_option *option,
                          unsigned verbs)
{
    (void)verbs;
    if (strcmp(option->name, other_option->name) != 0)
        return;
    bool same = (option->type == other_option->type || is_exception(option->name)) &&
                option->letter == other_option->letter &&
                (option->count != 0) == (other_option->count != 0) &&
                (option->argument == NULL) == (other_option->argument == NULL) &&
                (option->argument == NULL || strcmp(option->argument, other_option->argument) == 0);
    if (!same || (strcmp(option->about, other_option->about) != 0 && !is_exception(option->name)))
        fail_msg("--%s has one meaning in belay %s and another in belay %s", option->name,
                 command->name, other_command->name);
}

static void check_meanings(const struct cli_command *command, const struct cli_option *option,
                           unsigned verbs)
{
    (void)verbs;
    other_command = command;
    other_option = option;
    each_option(check_meaning);
}

static void no_two_commands_give_one_name_two_meanings(void **state)
{
    (void)state;
    each_option(check_meanings);
    assert_non_null(other_command);
}

SUITE(option_table, cmocka_unit_test(every_option_is_described),
      cmocka_unit_test(every_option_is_in_the_help),
      cmocka_unit_test(every_option_is_in_the_man_page),
      cmocka_unit_test(reference_in_git_matches_the_tables),
      cmocka_unit_test(every_option_takes_a_right_value_and_refuses_a_wrong_one),
      cmocka_unit_test(every_limit_is_the_last_value_that_is_accepted),
      cmocka_unit_test(choices_are_the_names_that_their_rooms_give_them),
      cmocka_unit_test(no_two_commands_give_one_name_two_meanings));
