/* Tests the warden's cgroup separately, because rounds of killing that freeze it are rare. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "proc/parts.h"
#include "proc/warden/warden.h"

#define EMPTY_MS 10000.0

/* Replaces the function of the warden's main.c, which is not linked here. */
uint64_t warden_now_us(void)
{
    return bl_clock_now_ns(&bl_clock_system) / BL_NS_PER_US;
}

static pid_t cgroup_put_child(int directory)
{
    char number[16];
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_LIFE_S);
        for (;;)
            pause();
    }
    int size = snprintf(number, sizeof number, "%d", (int)child);
    int fd = openat(directory, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, number, (size_t)size), size);
    close(fd);
    return child;
}

/* Returns whether the cgroup was frozen. */
static char cgroup_frozen(int directory)
{
    char byte = '?';
    bl_file_read(directory, "cgroup.freeze", &byte, 1);
    return byte;
}

static void killing_freezes_the_cgroup_only_when_asked_to(void **state)
{
    char path[PATH_MAX];
    int status, limits;

    container_of_test(state);
    proc_cgroup_name(path, sizeof path);
    int directory = cgroup_open(path, 0, 0, &limits);
    assert_true(directory >= 0);
    assert_int_equal(cgroup_populated(), 0);
    for (int freeze = 0; freeze < 2; freeze++) {
        pid_t child = cgroup_put_child(directory);
        assert_int_equal(cgroup_populated(), 1);
        cgroup_kill(freeze);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(cgroup_frozen(directory), freeze ? '1' : '0');
        /* The kernel may count the process for a moment after it was reaped. */
        for (double end_ms = now_ms() + EMPTY_MS; cgroup_populated() != 0 && now_ms() < end_ms;)
            nap_ms(1);
        assert_int_equal(cgroup_populated(), 0);
    }
    cgroup_close();
    assert_int_not_equal(access(path, F_OK), 0);
}

SUITE(cgroup, {"killing_freezes_the_cgroup_only_when_asked_to",
               killing_freezes_the_cgroup_only_when_asked_to, NULL, NULL, &each_container[1]});
