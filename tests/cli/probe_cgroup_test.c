#include "runner.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "../../src/cli/probe.h"

static void check_directory(const char *mounts, const char *membership, bool found,
                            const char *expected)
{
    char out[256];

    assert_int_equal(
        probe_cgroup_directory(bl_text_from(mounts), bl_text_from(membership), out, sizeof out),
        found);
    assert_string_equal(out, expected);
}

static void the_usual_mount_is_found(void **state)
{
    (void)state;
    check_directory("22 27 0:21 / /proc rw - proc proc rw\n"
                    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
                    "0::/user.slice/session-3.scope\n", true,
                    "/sys/fs/cgroup/user.slice/session-3.scope");
}

static void a_hybrid_mount_is_found(void **state)
{
    (void)state;
    check_directory("29 23 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                    "30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                    "31 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                    "4:memory:/a\n1:cpu:/\n0::/\n", true, "/sys/fs/cgroup/unified");
}

static void a_mount_of_a_part_of_the_tree_is_understood(void **state)
{
    static const char mounts[] = "31 29 0:27 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";

    (void)state;
    check_directory(mounts, "0::/docker/1\n", true, "/sys/fs/cgroup");
    check_directory(mounts, "0::/docker/1/x\n", true, "/sys/fs/cgroup/x");
    check_directory(mounts, "0::/docker/12\n", false,
                    "this process's cgroup lies outside of what is mounted");
}

static void escapes_in_a_path_are_undone(void **state)
{
    (void)state;
    check_directory("31 29 0:27 / /a\\040b rw - cgroup2 cgroup rw\n", "0::/c\n", true, "/a b/c");
}

static void without_one_it_says_why(void **state)
{
    (void)state;
    check_directory("30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "0::/\n", false,
                    "no cgroup2 file system is mounted");
    check_directory("", "1:cpu:/\n", false, "this process is in no cgroup of version 2");
    check_directory("", "", false, "this process is in no cgroup of version 2");
}

static void it_answers_and_leaves_nothing_behind(void **state)
{
    struct probe_check check;
    size_t before = runner_count_cgroups();
    sigset_t mask_before, mask_after;

    (void)state;
    sigprocmask(SIG_SETMASK, NULL, &mask_before);
    probe_cgroup2(&check);
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    assert_string_equal(check.name, "cgroup2");
    assert_true(check.detail[0] != '\0');
    assert_int_equal(runner_count_cgroups(), before);
    assert_memory_equal(&mask_before, &mask_after, sizeof(unsigned long));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

SUITE(probe_cgroup, cmocka_unit_test(the_usual_mount_is_found),
      cmocka_unit_test(a_hybrid_mount_is_found),
      cmocka_unit_test(a_mount_of_a_part_of_the_tree_is_understood),
      cmocka_unit_test(escapes_in_a_path_are_undone), cmocka_unit_test(without_one_it_says_why),
      cmocka_unit_test(it_answers_and_leaves_nothing_behind));
