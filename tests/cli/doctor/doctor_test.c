#include "runner.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <belay/json.h>

#include "cli/doctor/doctor.h"

static void its_envelope_fits_its_schema(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--json");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_ptr_equal(strchr(run.out, '\n'), run.out + strlen(run.out) - 1);
    runner_check_schema("doctor", run.out);
    runner_check_schema("envelope", run.out);
}

static void both_spellings_of_json_are_the_same(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--output-format", "json");
    assert_int_equal(run.exit_code, 0);
    runner_check_schema("doctor", run.out);
    RUN(&run, "doctor", "--output-format=json");
    runner_check_schema("doctor", run.out);
}

static void last_format_is_used(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "doctor", "--json", "--output-format", "text");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "belay ", 6);
}

static void text_fits_80_columns(void **state)
{
    static struct run run;
    struct bl_text line;

    (void)state;
    RUN(&run, "doctor");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    struct bl_text rest = bl_text_from(run.out);
    while (bl_text_split(&rest, '\n', &line)) {
        /* A path is never broken. */
        if (bl_text_find(bl_text_trim(line), BL_TEXT(" ")) >= 0)
            assert_in_range(bl_utf8_count(line), 0, 80);
    }
    static const char *const sections[] = {
        "\nSystem\n",   "\nContainment (default: ", "\nSandbox\n", "\nFibers\n", "\nLimits\n",
        "\nLibraries\n"};
    for (size_t i = 0; i < BL_COUNT(sections); i++)
        assert_non_null(strstr(run.out, sections[i]));
}

/* A process left behind would become our child; a cgroup would be below ours. */
static void it_leaves_no_process_and_no_cgroup_behind(void **state)
{
    static struct run run;

    (void)state;
    size_t cgroups = runner_count_cgroups();
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < 10; i++) {
        RUN(&run, "doctor", "--json");
        assert_int_equal(run.exit_code, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    assert_int_equal(runner_count_cgroups(), cgroups);
}

static void the_default_container_leaves_the_view_as_it_is(void **state)
{
    struct doctor_report report = {.pidns = {.name = "pidns", .state = PROBE_OK},
                                   .cgroup2 = {.name = "cgroup2", .state = PROBE_OK},
                                   .subreaper = {.name = "subreaper", .state = PROBE_OK}};

    (void)state;
    assert_string_equal(doctor_default_container(&report), "cgroup2");
    report.cgroup2.state = PROBE_UNTRIED;
    assert_string_equal(doctor_default_container(&report), "subreaper");
    report.subreaper.state = PROBE_NO;
    assert_null(doctor_default_container(&report));
}

SUITE(doctor, cmocka_unit_test(its_envelope_fits_its_schema),
      cmocka_unit_test(both_spellings_of_json_are_the_same), cmocka_unit_test(last_format_is_used),
      cmocka_unit_test(text_fits_80_columns),
      cmocka_unit_test(it_leaves_no_process_and_no_cgroup_behind),
      cmocka_unit_test(the_default_container_leaves_the_view_as_it_is));
