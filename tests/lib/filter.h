/* Failing system calls, to simulate kernels, containers and users that refuse them. */
#ifndef BELAY_TESTS_FILTER_H
#define BELAY_TESTS_FILTER_H

#include <stdbool.h>
#include <stdint.h>

struct filter {
    long call;
    /* Applies only if one of the arguments has this value: (argument & mask) == value. With a mask
     * of 0, applies to every call. */
    unsigned argument; /* from 0 */
    uint32_t mask, value;
    uint32_t action; /* SECCOMP_RET_ERRNO | EPERM, or another one of seccomp(2) */
};

/* Installs the filter permanently in this process and its children. Returns false if the kernel
 * refuses. */
bool filter_install(const struct filter *filter);

#endif
