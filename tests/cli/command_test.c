#include "runner.h"

#include <stdio.h>

#include "cli/cli.h"

static void the_version_is_one_line(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "--version");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "belay " BELAY_VERSION "\n");
    assert_string_equal(run.err, "");
    RUN(&run, "-V");
    assert_string_equal(run.out, "belay " BELAY_VERSION "\n");
    RUN(&run, "version");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "belay " BELAY_VERSION "\n");
    RUN(&run, "version", "now");
    assert_string_equal(run.err,
                        "belay version: unexpected argument 'now'\nhint: --help shows the usage\n");
}

static void check_usage_error(const struct run *run, const char *line)
{
    assert_int_equal(run->exit_code, 2);
    assert_string_equal(run->out, "");
    assert_string_equal(run->err, line);
}

static void an_unknown_command_gets_a_suggestion(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "docter");
    check_usage_error(&run, "belay: unknown command 'docter'\nhint: did you mean 'doctor'?\n");
    RUN(&run, "doc", "--verbose");
    check_usage_error(&run, "belay: unknown command 'doc'\nhint: did you mean 'doctor'?\n");
    RUN(&run, "frobnicate");
    check_usage_error(&run, "belay: unknown command 'frobnicate'\nhint: 'belay --help' lists the "
                            "commands; for a prompt of one word write 'belay -- WORD'\n");
    RUN(&run, "");
    check_usage_error(&run, "belay: unknown command ''\nhint: 'belay --help' lists the commands; "
                            "for a prompt of one word write 'belay -- WORD'\n");
}

static void an_unknown_option_gets_a_suggestion(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "--versoin");
    check_usage_error(&run, "belay: unknown option '--versoin'\nhint: did you mean '--version'?\n");
    RUN(&run, "doctor", "--jsno");
    check_usage_error(&run,
                      "belay doctor: unknown option '--jsno'\nhint: did you mean '--json'?\n");
    RUN(&run, "--output-formt", "x");
    check_usage_error(&run,
                      "belay: unknown option '--output-formt'\nhint: --help lists the options\n");
}

static void misplaced_option_gets_a_hint(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "--output-format", "text", "doctor");
    check_usage_error(&run, "belay: unknown option '--output-format'\nhint: options follow the "
                            "command: 'belay run --output-format'\n");
}

static void check_json_error(const struct run *run, const char *target)
{
    char part[128];

    assert_int_equal(run->exit_code, 2);
    assert_string_equal(run->err, "");
    assert_ptr_equal(strchr(run->out, '\n'), run->out + strlen(run->out) - 1);
    runner_check_schema("envelope", run->out);
    assert_non_null(strstr(run->out, "\"exit_code\":2,"));
    assert_non_null(strstr(run->out, "\"error\":{\"kind\":\"usage\","));
    snprintf(part, sizeof part, "\"target\":\"%s\"", target);
    assert_non_null(strstr(run->out, part));
}

static void usage_errors_are_json_when_json_is_asked_for_anywhere(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "docter", "--json");
    check_json_error(&run, "docter");
    assert_non_null(strstr(run.out, "\"hint\":\"did you mean 'doctor'?\""));
    assert_non_null(strstr(run.out, "\"command\":\"belay\""));
    RUN(&run, "doctor", "--frob", "--output-format=json");
    check_json_error(&run, "--frob");
    assert_non_null(strstr(run.out, "\"command\":\"doctor\""));
    RUN(&run, "--json", "doctor");
    check_json_error(&run, "--json");
    RUN(&run, "doctor", "x", "--output-format", "json");
    check_json_error(&run, "x");
    RUN(&run, "help", "nothing", "--json");
    check_json_error(&run, "--json");
    RUN(&run, "doctor", "--output-format", "stream-json");
    check_json_error(&run, "--output-format");
    assert_memory_equal(run.out, "{\"type\":\"result\",", 17);
}

static void json_after_two_dashes_is_not_an_option(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--", "--json");
    check_usage_error(&run,
                      "belay doctor: unexpected argument '--json'\nhint: --help shows the usage\n");
}

static void a_broken_name_does_not_break_the_envelope(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "\xff\"\r", "--json");
    check_json_error(&run, "\xef\xbf\xbd\\\"\\r");
}

static void names_are_found_exactly(void **state)
{
    struct bl_error error = {0};

    (void)state;
    assert_string_equal(cli_command_find("doctor", &error)->name, "doctor");
    assert_int_equal(error.code, 0);
    assert_null(cli_command_find("doctor ", &error));
    assert_int_equal(error.code, BL_ENOENT);
    assert_int_equal(error.kind, BL_KIND_USAGE);
}

static void names_of_other_tools_get_a_hint(void **state)
{
    static const struct {
        const char *words[4];
        const char *line;
    } cases[] = {
        {{"turn-loop", "hi"}, "belay: unknown command 'turn-loop'\nhint: use 'belay run'\n"},
        {{"cell", "execute", "-"},
         "belay cell: unknown subcommand 'execute'\nhint: use 'belay cell run'\n"},
        {{"feature", "run", "X", "--max-turns"},
         "belay feature: unknown option '--max-turns'\nhint: use '--turns'\n"},
    };
    static struct run other;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        const char *words[5] = {NULL};
        memcpy(words, cases[i].words, sizeof cases[i].words);
        runner_run_with(&other, words, NULL, RUN_KEEP);
        assert_int_equal(other.exit_code, 2);
        assert_string_equal(other.err, cases[i].line);
    }
}

SUITE(command, cmocka_unit_test(the_version_is_one_line),
      cmocka_unit_test(an_unknown_command_gets_a_suggestion),
      cmocka_unit_test(an_unknown_option_gets_a_suggestion),
      cmocka_unit_test(misplaced_option_gets_a_hint),
      cmocka_unit_test(usage_errors_are_json_when_json_is_asked_for_anywhere),
      cmocka_unit_test(json_after_two_dashes_is_not_an_option),
      cmocka_unit_test(a_broken_name_does_not_break_the_envelope),
      cmocka_unit_test(names_are_found_exactly), cmocka_unit_test(names_of_other_tools_get_a_hint));
