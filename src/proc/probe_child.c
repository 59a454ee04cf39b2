#include "parts.h"
#include "probe.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int proc_probe_limit_ms = 5000;

/* Like fork, with flags. Falls back to clone, which takes the same flags: some seccomp filters do
 * not know clone3. */
static long clone_process(uint64_t flags, int *pidfd)
{
    struct clone_args arguments = {
        .flags = flags | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid >= 0 || errno != ENOSYS)
        return pid;
    return syscall(SYS_clone, (unsigned long)(flags | CLONE_PIDFD | SIGCHLD), NULL, pidfd, NULL,
                   NULL);
}

int proc_child_start(struct proc_child *child, uint64_t flags, int (*main)(void))
{
    pid_t parent = getpid();
    int pidfd = -1;

    proc_probe_begin();
    long pid = clone_process(flags, &pidfd);
    if (pid < 0) {
        proc_probe_end();
        return -errno;
    }
    if (pid == 0) {
        /* The parent may have exited already; the pid of a parent in another PID namespace is 0. */
        pid_t seen = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? getppid() : -1;
        int status = seen == parent || seen == 0 ? main() : 127;
        syscall(SYS_exit_group, status);
        __builtin_unreachable();
    }
    *child = (struct proc_child){(pid_t)pid, pidfd};
    return 0;
}

void proc_child_wait(struct proc_child *child, struct proc_child_end *ret_end)
{
    struct pollfd ready = {.fd = child->pidfd, .events = POLLIN};
    siginfo_t info = {0};

    *ret_end = (struct proc_child_end){0};
    /* No retry after EINTR: this program has no signal handlers, so no signal interrupts the wait.
     */
    if (poll(&ready, 1, proc_probe_limit_ms) <= 0) {
        ret_end->timed_out = true;
        kill(child->pid, SIGKILL);
    }
    while (waitid(P_PID, (id_t)child->pid, &info, WEXITED) < 0 && errno == EINTR)
        continue;
    proc_probe_end();
    close(child->pidfd);
    ret_end->by_signal = info.si_code != CLD_EXITED;
    ret_end->status = info.si_status;
}
