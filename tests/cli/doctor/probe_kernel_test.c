#include "suite.h"

#include "cli/doctor/probe.h"

static void landlock_and_seccomp_say_yes_or_why_not(void **state)
{
    struct probe_check checks[2];

    (void)state;
    probe_landlock(&checks[0]);
    probe_seccomp(&checks[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(checks[i].detail[0] != '\0');
        assert_int_equal(checks[i].hint[0] == '\0', checks[i].state == PROBE_OK);
    }
    assert_int_equal(checks[0].version[0] != '\0', checks[0].state == PROBE_OK);
}

static void answers_are_cut_to_their_room(void **state)
{
    struct probe_check check = {0};
    char text[1000];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    probe_answer(&check, PROBE_OK, "%s", text);
    probe_hint(&check, "%s", text);
    assert_int_equal(strlen(check.detail), sizeof check.detail - 1);
    assert_int_equal(strlen(check.hint), sizeof check.hint - 1);
}

SUITE(probe_kernel, cmocka_unit_test(landlock_and_seccomp_say_yes_or_why_not),
      cmocka_unit_test(answers_are_cut_to_their_room));
