#include "runner.h"

#include <stdio.h>

#include "cli/cli.h"

static void check_help(const struct run *run)
{
    struct bl_text rest = bl_text_from(run->out);
    struct bl_text line;

    assert_int_equal(run->exit_code, 0);
    assert_string_equal(run->err, "");
    assert_memory_equal(run->out, "Usage: belay", 12);
    static const char *const parts[] = {"\nOptions:\n", "\nExit codes:\n", "\nExamples:\n"};
    for (size_t i = 0; i < BL_COUNT(parts); i++)
        assert_non_null(strstr(run->out, parts[i]));
    while (bl_text_split(&rest, '\n', &line))
        assert_in_range(bl_utf8_count(line), 0, 80);
}

static void program_without_arguments_prints_its_help(void **state)
{
    static struct run alone, asked;

    (void)state;
    runner_run_with(&alone, (const char *const[]){NULL}, NULL, RUN_KEEP);
    check_help(&alone);
    static const char *const ways[] = {"--help", "-h", "help", "--"};
    for (size_t i = 0; i < BL_COUNT(ways); i++) {
        RUN(&asked, ways[i]);
        check_help(&asked);
        assert_string_equal(asked.out, alone.out);
    }
}

static void the_help_lists_every_command(void **state)
{
    static struct run run;
    char line[256];

    (void)state;
    RUN(&run, "--help");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const struct cli_command *command = cli_commands[i];
        snprintf(line, sizeof line, "\n  %-10s %s\n", command->name, command->summary);
        assert_non_null(strstr(run.out, line));
    }
}

static void help_of_a_command_is_available_in_three_ways(void **state)
{
    static struct run run, other;

    (void)state;
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const struct cli_command *command = cli_commands[i];
        RUN(&run, command->name, "--help");
        check_help(&run);
        RUN(&other, "help", command->name);
        assert_string_equal(run.out, other.out);
        RUN(&other, command->name, "-h");
        assert_string_equal(run.out, other.out);
    }
}

static void help_explains_one_command_at_a_time(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "help", "docter");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err,
                        "belay help: unknown command 'docter'\nhint: did you mean 'doctor'?\n");
    RUN(&run, "help", "doctor", "help");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err,
                        "belay help: unexpected argument 'help'\nhint: --help shows the usage\n");
}

SUITE(help, cmocka_unit_test(program_without_arguments_prints_its_help),
      cmocka_unit_test(the_help_lists_every_command),
      cmocka_unit_test(help_of_a_command_is_available_in_three_ways),
      cmocka_unit_test(help_explains_one_command_at_a_time));
