#include "suite.h"

#include <errno.h>
#include <sys/wait.h>

#include "../../src/cli/probe.h"

static void pidns_answers_and_leaves_no_process(void **state)
{
    struct probe_check check;
    static char before[65536], after[65536];

    (void)state;
    struct bl_text mounts_before = probe_read_file("/proc/self/mountinfo", before, sizeof before);
    probe_pidns(&check);
    struct bl_text mounts_after = probe_read_file("/proc/self/mountinfo", after, sizeof after);
    assert_string_equal(check.name, "pidns");
    assert_true(check.detail[0] != '\0');
    if (check.state == PROBE_OK)
        assert_string_equal(check.hint, "");
    assert_true(bl_text_equal(mounts_before, mounts_after));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void a_subreaper_can_be_had_on_every_kernel_of_ours(void **state)
{
    struct probe_check check;

    (void)state;
    probe_subreaper(&check);
    assert_int_equal(check.state, PROBE_OK);
    assert_string_equal(check.hint, "");
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

SUITE(probe_containment, cmocka_unit_test(pidns_answers_and_leaves_no_process),
      cmocka_unit_test(a_subreaper_can_be_had_on_every_kernel_of_ours),
      cmocka_unit_test(answers_are_cut_to_their_room));
