/* The reader of command lines, on a table of its own. */
#include "suite.h"

#include <stdlib.h>

#include "cli/cli.h"

enum {
    VERB_MAKE,
    VERB_SHOW
};

struct settings {
    unsigned verb;
    bool quiet;
    bool timed;
    int64_t timeout_ns;
    uint32_t grace_ms;
    uint64_t turns;
    double amount;
    uint64_t memory;
    unsigned colour;
    const char *word;
    const char *id;
    const char *path;
    const char **rules;
    size_t rule_count;
    uint32_t port;
    bool served;
    const char *name;
    const char **more;
    size_t more_count;
};

static const char *const colours[] = {"red", NULL, "green", "blue"};

static const struct cli_option limits[] = {
    CLI_DURATION("timeout", 't', struct settings, timeout_ns, .least = INT64_MIN, .sample = "90s",
                 .set = CLI_SET(struct settings, timed), .about = "A deadline."),
    CLI_COUNT("turns", 0, "N", struct settings, turns, .least = 1, .most = 64, .about = "Turns."),
    {0},
};

static const struct cli_option options[] = {
    CLI_GROUP("Limits", 0, limits),
    CLI_FLAG("quiet", 'q', struct settings, quiet, .about = "Say less."),
    CLI_DURATION_MS("grace", 0, struct settings, grace_ms, .most = 60000000000u, .sample = "200ms",
                    .about = "A grace."),
    CLI_NUMBER("amount", 0, "USD", struct settings, amount, .sample = "0.25", .about = "Money."),
    CLI_BYTES("memory", 0, struct settings, memory, .most = 1u << 30, .sample = "64M",
              .about = "Memory."),
    CLI_CHOICE("colour", 'c', "NAME", struct settings, colour, colours, .about = "A colour."),
    CLI_WORD("word", 0, "NAME", struct settings, word, colours, .verbs = CLI_VERB(VERB_MAKE),
             .about = "The same."),
    CLI_NAME("id", 'i', "ID", struct settings, id, CLI_ID_FORM, .about = "An id."),
    CLI_PATH("path", 0, "FILE", struct settings, path, .env = "BELAY_TEST_PATH",
             .about = "A file."),
    CLI_LIST(CLI_TYPE_TEXT, "rule", "RULE", struct settings, rules, rule_count, .about = "A rule."),
    CLI_COUNT("port", 0, "PORT", struct settings, port, .optional = true, .most = 65535,
              .set = CLI_SET(struct settings, served), .about = "Serve."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_STREAM_FORMATS, .verbs = CLI_VERB(VERB_MAKE), .about = "Events, too."),
    CLI_FORMAT_ROW(CLI_FORMATS, .verbs = CLI_VERB(VERB_SHOW), .about = "No events."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option make_operands[] = {
    CLI_TEXT("NAME", 0, NULL, struct settings, name, .hint = "name it", .about = "A name."),
    CLI_LIST(CLI_TYPE_TEXT, "MORE", NULL, struct settings, more, more_count, .optional = true,
             .about = "More."),
    {0},
};

static const struct cli_verb verbs[] = {
    [VERB_MAKE] = {"make", "Make it.", NULL, make_operands},
    [VERB_SHOW] = {"show", "Show it.", NULL, NULL},
    {0},
};

static const struct cli_command command = {
    .name = "test",
    .verbs = verbs,
    .verb_at = offsetof(struct settings, verb),
    .options = options,
};

static struct cli_call call;
static struct settings settings;
static struct bl_arena arena;
static struct bl_error error;

static int read_words(const struct cli_command *of, char **words, int count)
{
    settings = (struct settings){0};
    error = (struct bl_error){0};
    call = (struct cli_call){.command = of, .count = count, .arguments = words};
    return cli_options_read(&call, &settings, &arena, &error);
}

#define WORDS(...) ((char *[]){"test", __VA_ARGS__, NULL})
#define READ(...)  read_words(&command, WORDS(__VA_ARGS__), (int)BL_COUNT(WORDS(__VA_ARGS__)) - 1)

#define FAILS(what, about, advice, ...)                                                            \
    do {                                                                                           \
        assert_int_equal(READ(__VA_ARGS__), BL_EINVAL);                                            \
        assert_int_equal(error.kind, BL_KIND_USAGE);                                               \
        assert_string_equal(error.message, what);                                                  \
        assert_string_equal(error.target, about);                                                  \
        assert_string_equal(error.hint, advice);                                                   \
    } while (0)

static int end_arena(void **state)
{
    (void)state;
    bl_arena_done(&arena);
    bl_arena_init(&arena);
    return 0;
}

static void values_of_every_type_are_stored(void **state)
{
    (void)state;
    assert_int_equal(READ("make", "a", "--timeout", "-2.5m", "--turns=64", "-q", "--grace", "0.1ms",
                          "--amount", ".25", "--memory", "1G", "-cblue", "--word", "green", "-i",
                          "n-1", "--path", "f"),
                     0);
    assert_int_equal(settings.verb, VERB_MAKE);
    assert_true(settings.timed && settings.quiet);
    assert_int_equal(settings.timeout_ns, -150 * (int64_t)BL_NS_PER_S);
    assert_int_equal(settings.turns, 64);
    assert_int_equal(settings.grace_ms, 1);
    assert_true(settings.amount == 0.25);
    assert_int_equal(settings.memory, 1 << 30);
    assert_int_equal(settings.colour, 3);
    assert_string_equal(settings.word, "green");
    assert_string_equal(settings.id, "n-1");
    assert_string_equal(settings.path, "f");
    assert_string_equal(settings.name, "a");
    assert_null(settings.more);
}

static void values_not_given_are_unchanged(void **state)
{
    (void)state;
    assert_int_equal(READ("show"), 0);
    assert_int_equal(settings.verb, VERB_SHOW);
    assert_false(settings.timed || settings.served || settings.quiet);
    assert_null(settings.rules);
    assert_int_equal(call.format, CLI_FORMAT_TEXT);
}

static void lists_grow_and_end_in_null(void **state)
{
    (void)state;
    assert_int_equal(READ("--rule", "x", "make", "a", "b", "--rule=y", "c"), 0);
    assert_int_equal(settings.rule_count, 2);
    assert_string_equal(settings.rules[1], "y");
    assert_null(settings.rules[2]);
    assert_int_equal(settings.more_count, 2);
    assert_string_equal(settings.more[0], "b");
    assert_null(settings.more[2]);
}

static void an_optional_argument_needs_an_equals_sign(void **state)
{
    (void)state;
    assert_int_equal(READ("make", "--port", "8080"), 0);
    assert_true(settings.served);
    assert_int_equal(settings.port, 0);
    assert_string_equal(settings.name, "8080");
    assert_int_equal(READ("show", "--port=8080"), 0);
    assert_int_equal(settings.port, 8080);
    FAILS("invalid value '65536' for --port (expected a whole number from 0 to 65535)", "--port",
          "", "show", "--port=65536");
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    assert_int_equal(READ("make", "-q", "--", "--json", "-x", "-"), 0);
    assert_string_equal(settings.name, "--json");
    assert_string_equal(settings.more[0], "-x");
    assert_string_equal(settings.more[1], "-");
    assert_int_equal(call.format, CLI_FORMAT_TEXT);
}

static void letters_can_be_combined(void **state)
{
    (void)state;
    assert_int_equal(READ("show", "-qcred"), 0);
    assert_true(settings.quiet);
    assert_int_equal(READ("show", "-qc", "green"), 0);
    assert_int_equal(settings.colour, 2);
    assert_int_equal(READ("show", "-qh"), CLI_OPTION_HELP);
    FAILS("unknown option '-x'", "-x", "--help lists the options", "show", "-qx");
    FAILS("option '-c' needs an argument", "-c", "", "show", "-qc");
}

static void errors_of_options_are_distinct(void **state)
{
    (void)state;
    FAILS("unknown option '--jsn'", "--jsn", "did you mean '--json'?", "show", "--jsn=3");
    FAILS("unknown option '--frobnicate'", "--frobnicate", "--help lists the options", "show",
          "--frobnicate");
    FAILS("option '--json' takes no argument", "--json=3", "", "show", "--json=3");
    FAILS("option '--turns' needs an argument", "--turns", "", "show", "--turns");
    /* An abbreviation is refused: it may become the name of another option. */
    FAILS("unknown option '--js'", "--js", "did you mean '--json'?", "show", "--js");
}

static void a_very_long_option_is_cut(void **state)
{
    static char word[5000];

    (void)state;
    memset(word, 'y', sizeof word - 1);
    memcpy(word, "--", 2);
    assert_int_equal(READ("show", word), BL_EINVAL);
    assert_int_equal(strlen(error.target), 102);
}

static void a_wrong_value_names_option_value_and_what_is_expected(void **state)
{
    static const char *const rows[][2] = {
        {"--timeout=soon", "invalid value 'soon' for --timeout (expected a duration such as 90s)"},
        {"--grace=61s", "invalid value '61s' for --grace (expected a duration from 0 to 60s, such "
                        "as 200ms)"},
        {"--turns=0", "invalid value '0' for --turns (expected a whole number from 1 to 64)"},
        {"--turns=65", "invalid value '65' for --turns (expected a whole number from 1 to 64)"},
        {"--turns=+1", "invalid value '+1' for --turns (expected a whole number from 1 to 64)"},
        {"--turns=18446744073709551617", "invalid value '18446744073709551617' for --turns "
                                         "(expected a whole number from 1 to 64)"},
        {"--amount=1e3", "invalid value '1e3' for --amount (expected a number, 0 or more, such as "
                         "0.25)"},
        {"--memory=2G", "invalid value '2G' for --memory (expected a number of bytes up to 1G, "
                        "such as 64M)"},
        {"--memory=0", "invalid value '0' for --memory (expected a number of bytes up to 1G, such "
                       "as 64M)"},
        {"--colour=", "invalid value '' for --colour (expected red, green or blue)"},
        {"--id=A", "invalid value 'A' for --id (expected 1 to 64 characters: a-z, 0-9 and '-')"},
        {"--path=", "invalid value '' for --path (expected the path of a file)"},
        {"--rule=\xff", "invalid value '\xff' for --rule (expected valid UTF-8)"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_text rest = bl_text_from(rows[i][0]), name;
        assert_int_equal(READ("show", (char *)rows[i][0]), BL_EINVAL);
        assert_string_equal(error.message, rows[i][1]);
        assert_true(bl_text_split(&rest, '=', &name));
        assert_true(bl_text_equal(bl_text_from(error.target), name));
        assert_int_equal(error.kind, BL_KIND_USAGE);
    }
    FAILS("invalid value 'gren' for --colour (expected red, green or blue)", "--colour",
          "did you mean 'green'?", "show", "--colour", "gren");
}

static void verbs_have_options_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(READ("--word", "red", "make", "a"), 0);
    FAILS("'test show' has no option '--word'", "--word",
          "--help lists the options of each subcommand", "--word", "red", "show");
    assert_int_equal(READ("make", "a", "--output-format", "stream-json"), 0);
    assert_int_equal(call.format, CLI_FORMAT_STREAM_JSON);
    FAILS("invalid value 'stream-json' for --output-format (expected text or json)",
          "--output-format", "", "show", "--output-format", "stream-json");
}

static void missing_or_unknown_verb_is_reported(void **state)
{
    (void)state;
    FAILS("missing subcommand", "SUBCOMMAND", "expected make and show", "-q");
    FAILS("unknown subcommand 'mak'", "mak", "did you mean 'make'?", "mak");
    FAILS("unknown subcommand 'xyzzy'", "xyzzy", "expected make and show", "xyzzy");
}

static void operands_are_counted(void **state)
{
    (void)state;
    FAILS("missing argument NAME", "NAME", "name it", "make");
    FAILS("unexpected argument 'x'", "x", "--help shows the usage", "show", "x");
    FAILS("invalid value '\xff' for NAME (expected valid UTF-8)", "NAME", "", "make", "\xff");
}

static void last_value_of_a_repeated_option_is_used(void **state)
{
    (void)state;
    assert_int_equal(READ("show", "--turns", "2", "--json", "--turns", "3", "--output-format=text"),
                     0);
    assert_int_equal(settings.turns, 3);
    assert_int_equal(call.format, CLI_FORMAT_TEXT);
    assert_int_equal(READ("show", "--output-format", "text", "--json"), 0);
    assert_int_equal(call.format, CLI_FORMAT_JSON);
}

static void variable_is_the_default_of_its_option(void **state)
{
    (void)state;
    setenv("BELAY_TEST_PATH", "from-env", 1);
    assert_int_equal(READ("show"), 0);
    assert_string_equal(settings.path, "from-env");
    assert_int_equal(READ("show", "--path", "given"), 0);
    assert_string_equal(settings.path, "given");
    setenv("BELAY_TEST_PATH", "", 1);
    assert_int_equal(READ("show"), 0);
    assert_null(settings.path);
    unsetenv("BELAY_TEST_PATH");
}

static void help_is_asked_for_anywhere(void **state)
{
    (void)state;
    assert_int_equal(READ("--help"), CLI_OPTION_HELP);
    assert_int_equal(READ("show", "--turns", "many", "-h", "--frob"), CLI_OPTION_HELP);
    assert_int_equal(READ("show", "--frob", "--help"), BL_EINVAL);
}

static void another_programs_command_line_is_passed_on(void **state)
{
    static const struct cli_command passing = {.name = "hold", .passes = true, .options = options};

    (void)state;
    assert_int_equal(read_words(&passing, WORDS("-q", "ls", "--json", "-x"), 5), 0);
    assert_true(settings.quiet);
    assert_ptr_equal(call.rest, call.arguments + 2);
    assert_int_equal(call.format, CLI_FORMAT_TEXT);
    assert_int_equal(read_words(&passing, WORDS("--", "-x"), 3), 0);
    assert_string_equal(call.rest[0], "-x");
    assert_int_equal(read_words(&passing, WORDS("-q"), 2), 0);
    assert_null(call.rest);
}

#define ROW(test) cmocka_unit_test_teardown(test, end_arena)

SUITE(option, ROW(values_of_every_type_are_stored), ROW(values_not_given_are_unchanged),
      ROW(lists_grow_and_end_in_null), ROW(an_optional_argument_needs_an_equals_sign),
      ROW(two_dashes_end_the_options), ROW(letters_can_be_combined),
      ROW(errors_of_options_are_distinct), ROW(a_very_long_option_is_cut),
      ROW(a_wrong_value_names_option_value_and_what_is_expected),
      ROW(verbs_have_options_of_their_own), ROW(missing_or_unknown_verb_is_reported),
      ROW(operands_are_counted), ROW(last_value_of_a_repeated_option_is_used),
      ROW(variable_is_the_default_of_its_option), ROW(help_is_asked_for_anywhere),
      ROW(another_programs_command_line_is_passed_on));
