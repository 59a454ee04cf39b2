#include "suite.h"

#include <stdlib.h>

#include "../../src/cli/cli.h"

static const struct option options[] = {
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

#define WORDS(...) ((char *[]){"belay", __VA_ARGS__, NULL})
#define START(walk, ...)                                                                           \
    cli_arguments_init(walk, (int)BL_COUNT(WORDS(__VA_ARGS__)) - 1, WORDS(__VA_ARGS__),            \
                       "ho:", options)

static void options_and_operands_come_in_order(void **state)
{
    struct cli_arguments walk;
    struct bl_error error = {0};

    (void)state;
    START(&walk, "one", "--json", "--output-format=text", "-o", "x", "-h", "two");
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_OPERAND);
    assert_string_equal(walk.value, "one");
    assert_int_equal(walk.index, 1);
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_OPTION_JSON);
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_OPTION_OUTPUT_FORMAT);
    assert_string_equal(walk.value, "text");
    assert_int_equal(cli_arguments_next(&walk, &error), 'o');
    assert_string_equal(walk.value, "x");
    assert_int_equal(cli_arguments_next(&walk, &error), 'h');
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_OPERAND);
    assert_string_equal(walk.value, "two");
    assert_int_equal(walk.index, 7);
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_END);
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_END);
    assert_int_equal(error.code, 0);
}

static void two_dashes_end_the_options(void **state)
{
    struct cli_arguments walk;
    struct bl_error error = {0};

    (void)state;
    START(&walk, "--json", "--", "--json", "-x");
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_OPTION_JSON);
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_OPERAND);
    assert_string_equal(walk.value, "--json");
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_OPERAND);
    assert_string_equal(walk.value, "-x");
    assert_int_equal(cli_arguments_next(&walk, &error), CLI_ARGUMENT_END);
}

static void check_failure(const char *message, const char *target, const char *hint, char **words,
                          int count)
{
    struct cli_arguments walk;
    struct bl_error error = {0};

    cli_arguments_init(&walk, count, words, "ho:", options);
    assert_int_equal(cli_arguments_next(&walk, &error), BL_EINVAL);
    assert_int_equal(error.kind, BL_KIND_USAGE);
    assert_string_equal(error.message, message);
    assert_string_equal(error.target, target);
    assert_string_equal(error.hint, hint);
}

#define FAILS(message, target, hint, ...)                                                          \
    check_failure(message, target, hint, WORDS(__VA_ARGS__), (int)BL_COUNT(WORDS(__VA_ARGS__)) - 1)

static void what_is_wrong_with_an_option_is_told_apart(void **state)
{
    (void)state;
    FAILS("unknown option '--jsn'", "--jsn", "did you mean '--json'?", "--jsn=3");
    FAILS("unknown option '--frobnicate'", "--frobnicate", "--help lists the options",
          "--frobnicate");
    FAILS("unknown option '-x'", "-x", "--help lists the options", "-x");
    FAILS("option '--json' takes no argument", "--json=3", "", "--json=3");
    FAILS("option '--output-format' needs an argument", "--output-format", "", "--output-format");
    FAILS("option '-o' needs an argument", "-o", "", "-o");
}

static void an_abbreviation_is_not_the_option(void **state)
{
    (void)state;
    FAILS("unknown option '--js'", "--js", "did you mean '--json'?", "--js");
    FAILS("unknown option '--output'", "--output", "did you mean '--output-format'?", "--output",
          "json");
}

static void a_very_long_option_is_cut(void **state)
{
    static char word[5000];
    struct cli_arguments walk;
    struct bl_error error = {0};

    (void)state;
    memset(word, 'y', sizeof word - 1);
    memcpy(word, "--", 2);
    START(&walk, word);
    assert_int_equal(cli_arguments_next(&walk, &error), BL_EINVAL);
    assert_int_equal(strlen(error.target), 102);
}

static void an_operand_that_nobody_wants_is_named(void **state)
{
    struct bl_error error = {0};

    (void)state;
    assert_int_equal(cli_arguments_refuse("foo", &error), BL_EINVAL);
    assert_string_equal(error.message, "unexpected argument 'foo'");
}

#define ASKED(...) cli_format_asked((int)BL_COUNT(WORDS(__VA_ARGS__)) - 1, WORDS(__VA_ARGS__))

static void json_is_asked_for_anywhere_before_two_dashes(void **state)
{
    (void)state;
    assert_int_equal(ASKED("run"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("--bogus", "run", "--json"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format", "json", "-x"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format=json"), CLI_FORMAT_JSON);
    assert_int_equal(ASKED("run", "--output-format", "stream-json"), CLI_FORMAT_STREAM_JSON);
    assert_int_equal(ASKED("run", "--output-format=stream-json"), CLI_FORMAT_STREAM_JSON);
    assert_int_equal(ASKED("run", "--output-format=text"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("run", "--output-format"), CLI_FORMAT_TEXT);
    assert_int_equal(ASKED("hold", "--", "jq", "--json"), CLI_FORMAT_TEXT);
    assert_int_equal(cli_format_asked(0, NULL), CLI_FORMAT_TEXT);
}

static void formats_are_read_and_suggested(void **state)
{
    enum cli_format format = CLI_FORMAT_TEXT;
    struct bl_error error = {0};

    (void)state;
    assert_int_equal(cli_format_parse("json", false, &format, &error), 0);
    assert_int_equal(format, CLI_FORMAT_JSON);
    assert_int_equal(cli_format_parse("text", false, &format, &error), 0);
    assert_int_equal(format, CLI_FORMAT_TEXT);
    assert_int_equal(cli_format_parse("jsn", false, &format, &error), BL_EINVAL);
    assert_string_equal(error.hint, "did you mean 'json'?");
    assert_int_equal(format, CLI_FORMAT_TEXT);
    assert_string_equal(cli_format_name(CLI_FORMAT_STREAM_JSON), "stream-json");
    error = (struct bl_error){0};
    assert_int_equal(cli_format_parse("stream-json", false, &format, &error), BL_EINVAL);
    assert_int_equal(cli_format_parse("stream-json", true, &format, &error), 0);
    assert_int_equal(format, CLI_FORMAT_STREAM_JSON);
}

struct taken {
    int options;
    const char *operand;
};

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct taken *taken = context;

    if (option == CLI_ARGUMENT_OPERAND && taken->operand != NULL)
        return cli_arguments_refuse(value, error);
    if (option == CLI_ARGUMENT_OPERAND) {
        taken->operand = value;
        return 0;
    }
    taken->options++;
    return strcmp(value, "wrong") == 0
               ? bl_error_set(error, BL_ERANGE, BL_KIND_RUNTIME, "take", NULL, "it is wrong")
               : 0;
}

static const struct option own_options[] = {
    {"own", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

static int read_words(struct cli_call *call, char **words, int count, struct taken *taken,
                      struct bl_error *error)
{
    static const struct cli_command command = {
        .name = "test", .short_options = "ho:", .getopt = own_options};

    *taken = (struct taken){0};
    *error = (struct bl_error){0};
    *call = (struct cli_call){.command = &command, .count = count, .arguments = words};
    return cli_arguments_read(call, false, take, taken, error);
}

#define READ(...)                                                                                  \
    read_words(&call, WORDS(__VA_ARGS__), (int)BL_COUNT(WORDS(__VA_ARGS__)) - 1, &taken, &error)

static void a_whole_command_line_is_read_at_once(void **state)
{
    struct cli_call call;
    struct taken taken;
    struct bl_error error;

    (void)state;
    assert_int_equal(READ("--own", "x", "operand", "-o", "y", "--json"), 0);
    assert_int_equal(taken.options, 2);
    assert_string_equal(taken.operand, "operand");
    assert_int_equal(call.format, CLI_FORMAT_JSON);
    assert_int_equal(READ("--json", "--output-format", "text"), 0);
    assert_int_equal(call.format, CLI_FORMAT_TEXT);
    assert_int_equal(READ("--own", "x", "--help", "--frob"), CLI_OPTION_HELP);
    assert_int_equal(READ("--own", "wrong"), BL_ERANGE);
    assert_string_equal(error.target, "--own");
    assert_int_equal(error.kind, BL_KIND_USAGE);
    assert_int_equal(READ("one", "two"), BL_EINVAL);
    assert_string_equal(error.target, "two");
    assert_int_equal(READ("--frob"), BL_EINVAL);
}

static void a_variable_that_is_empty_is_not_set(void **state)
{
    (void)state;
    setenv("BELAY_TEST_VARIABLE", "x", 1);
    assert_string_equal(cli_variable("BELAY_TEST_VARIABLE"), "x");
    setenv("BELAY_TEST_VARIABLE", "", 1);
    assert_null(cli_variable("BELAY_TEST_VARIABLE"));
    unsetenv("BELAY_TEST_VARIABLE");
    assert_null(cli_variable("BELAY_TEST_VARIABLE"));
}

SUITE(arguments, cmocka_unit_test(options_and_operands_come_in_order),
      cmocka_unit_test(two_dashes_end_the_options),
      cmocka_unit_test(what_is_wrong_with_an_option_is_told_apart),
      cmocka_unit_test(an_abbreviation_is_not_the_option),
      cmocka_unit_test(a_very_long_option_is_cut),
      cmocka_unit_test(an_operand_that_nobody_wants_is_named),
      cmocka_unit_test(json_is_asked_for_anywhere_before_two_dashes),
      cmocka_unit_test(formats_are_read_and_suggested),
      cmocka_unit_test(a_whole_command_line_is_read_at_once),
      cmocka_unit_test(a_variable_that_is_empty_is_not_set));
