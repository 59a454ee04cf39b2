#include "runner.h"

static void check_refused(const struct run *run, const char *line)
{
    assert_int_equal(run->exit_code, 125);
    assert_string_equal(run->out, "");
    assert_string_equal(run->err, line);
}

static void a_wrong_command_line_is_exit_code_125(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold");
    check_refused(
        &run, "belay hold: missing argument COMMAND\nhint: 'belay help hold' shows the usage\n");
    RUN(&run, "hold", "--timeout", "5", "--");
    check_refused(
        &run, "belay hold: missing argument COMMAND\nhint: 'belay help hold' shows the usage\n");
    RUN(&run, "hold", "--timout", "5", "--", "true");
    check_refused(&run, "belay hold: unknown option '--timout'\nhint: did you mean '--timeout'?\n");
    RUN(&run, "hold", "--grace");
    check_refused(&run, "belay hold: option '--grace' needs an argument\n");
}

static void invalid_durations_are_refused(void **state)
{
    static const char *const wrong[] = {"", "abc", "5x", "nan", "inf", "-0", "1e99", "5 s"};
    static struct run run;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "hold", "--timeout", wrong[i], "--", "echo", "started");
        assert_int_equal(run.exit_code, 125);
        assert_string_equal(run.out, "");
        RUN(&run, "hold", "--grace", wrong[i], "--", "echo", "started");
        assert_int_equal(run.exit_code, 125);
        assert_string_equal(run.out, "");
    }
    RUN(&run, "hold", "--grace", "-1", "--", "true");
    check_refused(&run, "belay hold: invalid value '-1' for --grace (expected a duration from 0 "
                        "to 24 days, such as 2s)\n");
    RUN(&run, "hold", "--grace", "25h", "--timeout", "876000h", "--", "echo", "started");
    assert_int_equal(run.exit_code, 0);
}

static void invalid_limits_are_refused(void **state)
{
    static const char *const memory[] = {"",     "0",  "-1", "K",
                                         "1.5G", "5X", "+5", "9223372036854775807K"};
    static const char *const processes[] = {"", "0", "-1", "many", "5K", "4294967296"};
    static struct run run;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(memory); i++) {
        RUN(&run, "hold", "--memory", memory[i], "--", "true");
        assert_int_equal(run.exit_code, 125);
        assert_non_null(strstr(run.err, "(expected a number of bytes such as 512M)\n"));
    }
    for (size_t i = 0; i < BL_COUNT(processes); i++) {
        RUN(&run, "hold", "--processes", processes[i], "--", "true");
        assert_int_equal(run.exit_code, 125);
        assert_non_null(strstr(run.err, "(expected a whole number from 1 to 2147483647)\n"));
    }
    RUN(&run, "hold", "--memory", "2G", "--processes", "100", "--", "echo", "started");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "started\n");
}

static void names_that_are_unknown_are_refused_with_the_list(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--container", "docker", "--", "true");
    assert_int_equal(run.exit_code, 125);
    assert_non_null(strstr(run.err, "docker"));
    assert_non_null(strstr(run.err, "(expected auto, subreaper, cgroup2 or pidns)"));
    RUN(&run, "hold", "--sandbox", "docker", "--", "true");
    assert_int_equal(run.exit_code, 125);
    assert_non_null(strstr(run.err, "workspace"));
}

static void options_after_the_command_belong_to_it(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "echo", "--json", "--timeout", "-h", "--");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "--json --timeout -h --\n");
    assert_string_equal(run.err, "");
    RUN(&run, "hold", "--", "echo", "--", "--json");
    assert_string_equal(run.out, "-- --json\n");
    RUN(&run, "hold", "--timeout=1h", "echo", "x");
    assert_string_equal(run.out, "x\n");
}

static void usage_errors_in_json_go_to_standard_error(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--timeout", "soon", "--json", "--", "true");
    assert_int_equal(run.exit_code, 125);
    assert_string_equal(run.out, "");
    runner_check_schema("envelope", run.err);
    assert_non_null(strstr(run.err, "\"command\":\"hold\",\"exit_code\":125,"));
    assert_non_null(strstr(run.err, "\"error\":{\"kind\":\"usage\","));
    assert_non_null(strstr(run.err, "\"target\":\"--timeout\""));
}

SUITE(hold, cmocka_unit_test(a_wrong_command_line_is_exit_code_125),
      cmocka_unit_test(invalid_durations_are_refused), cmocka_unit_test(invalid_limits_are_refused),
      cmocka_unit_test(names_that_are_unknown_are_refused_with_the_list),
      cmocka_unit_test(options_after_the_command_belong_to_it),
      cmocka_unit_test(usage_errors_in_json_go_to_standard_error));
