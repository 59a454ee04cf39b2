/* Inside the warden. */
#ifndef BELAY_PROC_WARDEN_H
#define BELAY_PROC_WARDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../protocol.h"
#include "../tree.h"

/* ---- cgroup2 ---- */

/* Makes the cgroup `path` with these limits. Returns a descriptor of it for clone3, or
 * -errno.
 * `*ret_limits` has bit 1 when memory, bit 2 when processes are limited by it. */
int cgroup_open(const char *path, uint64_t memory_bytes, uint64_t processes_max, int *ret_limits);
/* Kills all in it; false: it has no such file. */
bool cgroup_kill(void);
bool cgroup_populated(void);
/* Removes it, and what others made in it. */
void cgroup_close(void);

/* ---- pidns ---- */

struct start {
    uint64_t mask;
    uint64_t memory_bytes; /* per process; 0: no limit */
    int flags;
    char **arguments;
    int failure_fd; /* takes struct warden_message of a failure; closed by exec */
};

/* Becomes the command; reports and exits when it cannot. */
_Noreturn void start_command(const struct start *start);
/* Tells why, and exits. */
_Noreturn void start_failed(const struct start *start, int code, enum warden_stage stage);

/* The init of a PID namespace: starts the command, writes its status (an int) to `status_fd`,
 * reaps, and exits when nobody is left. `uid`, `gid` are those outside. */
_Noreturn void namespace_init(const struct start *start, int status_fd, uid_t uid, gid_t gid);

#endif
