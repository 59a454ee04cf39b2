#include "suite.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/probe.h"

static int returns_seven(void)
{
    return 7;
}

static int kills_itself(void)
{
    kill(getpid(), SIGKILL);
    return 0;
}

static int waits_for_ever(void)
{
    while (pause() != 0)
        continue;
    return 0;
}

static void its_return_value_is_its_exit_code(void **state)
{
    struct proc_child child;
    struct proc_child_end end;

    (void)state;
    assert_int_equal(proc_child_start(&child, 0, returns_seven), 0);
    proc_child_wait(&child, &end);
    assert_false(end.timed_out || end.by_signal);
    assert_int_equal(end.status, 7);
}

static void an_end_by_signal_is_told_apart(void **state)
{
    struct proc_child child;
    struct proc_child_end end;

    (void)state;
    assert_int_equal(proc_child_start(&child, 0, kills_itself), 0);
    proc_child_wait(&child, &end);
    assert_true(end.by_signal);
    assert_int_equal(end.status, SIGKILL);
}

static void one_that_does_not_end_is_killed_and_reaped(void **state)
{
    struct proc_child child;
    struct proc_child_end end;

    (void)state;
    int limit_ms = proc_probe_limit_ms;
    proc_probe_limit_ms = 500;
    uint64_t start_ns = bl_clock_now_ns(&bl_clock_system);
    assert_int_equal(proc_child_start(&child, 0, waits_for_ever), 0);
    proc_child_wait(&child, &end);
    uint64_t took_ns = bl_clock_now_ns(&bl_clock_system) - start_ns;
    proc_probe_limit_ms = limit_ms;
    assert_true(end.timed_out);
    assert_int_equal(end.status, SIGKILL);
    assert_in_range(took_ns / BL_NS_PER_MS, 490, 2500);
    assert_int_equal(limit_ms, 5000);
    assert_int_equal(waitpid(child.pid, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void kernel_refusal_is_returned_as_errno(void **state)
{
    struct proc_child child;

    (void)state;
    /* Signal handlers can only be shared together with memory. */
    assert_int_equal(proc_child_start(&child, CLONE_SIGHAND, returns_seven), -EINVAL);
}

SUITE(probe_child, cmocka_unit_test(its_return_value_is_its_exit_code),
      cmocka_unit_test(an_end_by_signal_is_told_apart),
      cmocka_unit_test(one_that_does_not_end_is_killed_and_reaped),
      cmocka_unit_test(kernel_refusal_is_returned_as_errno));
