#include "filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <belay/base.h>

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, member)

/* The low half of an argument comes first: x86-64 and arm64 are little-endian. */
bool filter_install(const struct filter *filter)
{
    const size_t argument = offsetof(struct seccomp_data, args) + 8 * (size_t)filter->argument;
    struct sock_filter lines[] = {
        LOAD(offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)filter->call, 0, 4),
        LOAD((uint32_t)argument),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, filter->mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, filter->value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, filter->action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {BL_COUNT(lines), lines};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
