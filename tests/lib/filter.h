/* System calls that fail: kernels, containers and users that refuse them. */
#ifndef BELAY_TESTS_FILTER_H
#define BELAY_TESTS_FILTER_H

#include <stdbool.h>
#include <stdint.h>

struct filter {
    long call;
    /* Only where one of its arguments has this value: (argument & mask) == value. A mask of 0 is
     * every call. */
    unsigned argument; /* from 0 */
    uint32_t mask, value;
    uint32_t action; /* SECCOMP_RET_ERRNO | EPERM, or another one of seccomp(2) */
};

/* From now on, and for good, in this process and its children. False: the kernel has refused it. */
bool filter_install(const struct filter *filter);

#endif
