#include "probe.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

void probe_answer(struct probe_check *check, enum probe_state state, const char *format, ...)
{
    va_list arguments;

    check->state = state;
    va_start(arguments, format);
    vsnprintf(check->detail, sizeof check->detail, format, arguments);
    va_end(arguments);
}

void probe_hint(struct probe_check *check, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(check->hint, sizeof check->hint, format, arguments);
    va_end(arguments);
}

enum {
    INIT_PROC_REFUSED = 10,
    INIT_NOT_FIRST,
};

/* The first process of the new PID namespace, with a mount namespace of its own: sees whether it
 * may have its own /proc, as a container's init must. */
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

static void explain_refused(struct probe_check *check, int code)
{
    switch (code) {
    case EPERM:
    case EACCES:
        probe_answer(check, PROBE_NO, "this user may not make PID and user namespaces");
        probe_hint(check, "set the sysctl kernel.unprivileged_userns_clone=1 (Debian) or "
                          "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a "
                          "container, allow clone in its seccomp profile");
        return;
    case ENOSPC:
    case EUSERS:
        probe_answer(check, PROBE_NO, "no more namespaces allowed");
        probe_hint(check, "raise the sysctls user.max_pid_namespaces and "
                          "user.max_user_namespaces");
        return;
    case EINVAL:
        probe_answer(check, PROBE_NO, "the kernel has no PID namespaces");
        probe_hint(check, "use a kernel with CONFIG_PID_NS and CONFIG_USER_NS");
        return;
    default: probe_answer(check, PROBE_UNTRIED, "cannot start a child: %s", strerror(code)); return;
    }
}

static void explain_end(struct probe_check *check, const struct probe_end *end, bool user)
{
    if (end->timed_out) {
        probe_answer(check, PROBE_NO, "the first process of a namespace did not end in time");
    } else if (end->by_signal) {
        probe_answer(check, PROBE_NO, "the first process of a namespace was killed by signal %d",
                     end->status);
        probe_hint(check, "a seccomp filter may stand in the way");
    } else if (end->status == INIT_PROC_REFUSED) {
        probe_answer(check, PROBE_NO, "a PID namespace, but not a /proc of its own");
        probe_hint(check, "in a container, unmask /proc (podman: --security-opt unmask=ALL)");
    } else if (end->status != 0) {
        probe_answer(check, PROBE_NO, "a new PID namespace did not come up");
    } else {
        probe_answer(check, PROBE_OK, "%s, with its own /proc",
                     user ? "in a user namespace" : "as this user");
    }
}

/* Tries it as this user, and where that is not permitted in a user namespace. */
void probe_pidns(struct probe_check *check)
{
    uint64_t flags = CLONE_NEWPID | CLONE_NEWNS;
    struct probe_child child;
    struct probe_end end;
    bool user = false;

    *check = (struct probe_check){.name = "pidns"};
    int result = probe_child_start(&child, flags, namespace_init);
    if (result == -EPERM) {
        user = true;
        result = probe_child_start(&child, flags | CLONE_NEWUSER, namespace_init);
    }
    if (result != 0) {
        explain_refused(check, -result);
        return;
    }
    probe_child_wait(&child, &end);
    explain_end(check, &end, user);
}

void probe_subreaper(struct probe_check *check)
{
    int is_subreaper = 0;

    *check = (struct probe_check){.name = "subreaper"};
    if (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0) {
        probe_answer(check, PROBE_OK, "orphans come to the warden, which sweeps /proc");
        return;
    }
    probe_answer(check, PROBE_NO, "prctl: %s", strerror(errno));
    probe_hint(check, "use a kernel from 3.4 on");
}
