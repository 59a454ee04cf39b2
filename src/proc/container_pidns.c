#include <errno.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "probe.h"

enum {
    INIT_PROC_REFUSED = 10,
    INIT_NOT_FIRST,
};

/* The first process of the new PID namespace, in its own mount namespace: tests whether it may
 * mount its own /proc, as the init of a container must. */
static int namespace_init(void)
{
    if (getpid() != 1)
        return INIT_NOT_FIRST;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return INIT_PROC_REFUSED;
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return INIT_PROC_REFUSED;
    return 0;
}

static void explain_refused(struct bl_container_check *check, int code)
{
    switch (code) {
    case EPERM:
    case EACCES:
        proc_check_answer(check, false, "this user may not create PID and user namespaces");
        proc_check_hint(check, "set the sysctl kernel.unprivileged_userns_clone=1 (Debian) or "
                               "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a "
                               "container, allow clone in its seccomp profile");
        return;
    case ENOSPC:
    case EUSERS:
        proc_check_answer(check, false, "the limit of namespaces is reached");
        proc_check_hint(check, "raise the sysctls user.max_pid_namespaces and "
                               "user.max_user_namespaces");
        return;
    case EINVAL:
        proc_check_answer(check, false, "the kernel does not support PID namespaces");
        proc_check_hint(check, "use a kernel with CONFIG_PID_NS and CONFIG_USER_NS");
        return;
    default: proc_check_untried(check, "cannot start a child: %s", strerror(code)); return;
    }
}

static void explain_end(struct bl_container_check *check, const struct proc_child_end *end,
                        bool user)
{
    if (end->timed_out) {
        proc_check_answer(check, false, "the first process of a namespace timed out");
    } else if (end->by_signal) {
        proc_check_answer(check, false, "the first process of a namespace was killed by signal %d",
                          end->status);
        proc_check_hint(check, "a seccomp filter may be the cause");
    } else if (end->status == INIT_PROC_REFUSED) {
        proc_check_answer(check, false, "/proc cannot be mounted in a PID namespace");
        proc_check_hint(check, "in a container, unmask /proc (podman: --security-opt unmask=ALL)");
    } else if (end->status != 0) {
        proc_check_answer(check, false, "a new PID namespace could not be set up");
    } else {
        proc_check_answer(check, true, "%s, with its own /proc",
                          user ? "in a user namespace" : "as this user");
    }
}

/* Tests it as this user, and inside a user namespace if that is not permitted. */
void proc_pidns_probe(struct bl_container_check *check, bool *ret_user)
{
    uint64_t flags = CLONE_NEWPID | CLONE_NEWNS;
    struct proc_child child;
    struct proc_child_end end;

    *ret_user = false;
    int result = proc_child_start(&child, flags, namespace_init);
    if (result == -EPERM) {
        *ret_user = true;
        result = proc_child_start(&child, flags | CLONE_NEWUSER, namespace_init);
    }
    if (result != 0) {
        explain_refused(check, -result);
        return;
    }
    proc_child_wait(&child, &end);
    explain_end(check, &end, *ret_user);
}
