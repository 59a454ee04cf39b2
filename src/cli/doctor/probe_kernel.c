#include "probe.h"

#include <errno.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/syscall.h>
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

void probe_landlock(struct probe_check *check)
{
    *check = (struct probe_check){.name = "landlock"};
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi > 0) {
        snprintf(check->version, sizeof check->version, "%ld", abi);
        probe_answer(check, PROBE_OK, "ABI %ld", abi);
        return;
    }
    if (errno == EOPNOTSUPP) {
        probe_answer(check, PROBE_NO, "built into the kernel, but switched off");
        probe_hint(check, "add landlock to the list lsm= of the kernel's command line");
    } else if (errno == ENOSYS) {
        probe_answer(check, PROBE_NO, "not in this kernel");
        probe_hint(check, "use a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK");
    } else {
        probe_answer(check, PROBE_NO, "refused: %s", strerror(errno));
        probe_hint(check, "a seccomp filter may be blocking it");
    }
}

void probe_seccomp(struct probe_check *check)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;

    *check = (struct probe_check){.name = "seccomp"};
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
        probe_answer(check, PROBE_OK, "filters that end the process");
        return;
    }
    probe_answer(check, PROBE_NO, "no filters that end the process: %s", strerror(errno));
    probe_hint(check, "use a kernel from 4.14 on with CONFIG_SECCOMP_FILTER");
}
