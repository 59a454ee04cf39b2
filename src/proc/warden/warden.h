/* Inside the warden. */
#ifndef BELAY_PROC_WARDEN_H
#define BELAY_PROC_WARDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/protocol.h"
#include "proc/record.h"
#include "proc/tree.h"

/* ---- main.c: belay's end ---- */

/* Belay as its wardens and its guard see it. Its end is known by two signs: the lifeline, and its
 * pidfd, which no copy of a descriptor can hold back. */
struct owner {
    int pidfd;
};

/* What a warden or the guard waits for is watched by a descriptor that is made before the command
 * starts: poll fails when the limit of descriptors was lowered below the number it is given. */
int warden_watch_new(void);
void warden_watch(int watch, int fd);
void warden_unwatch(int watch, int fd);
/* Waits for the first of them, for `timeout_ms` at most (-1: no limit). The number of those that
 * have something to say, which are in `ret_fds`. */
#define WARDEN_NEWS_MAX 8
int warden_news(int watch, int timeout_ms, int ret_fds[WARDEN_NEWS_MAX]);
/* Microseconds of the monotonic clock. */
uint64_t warden_now_us(void);

/* ---- cgroup.c ---- */

/* Makes the cgroup `path` with these limits, and opens what killing and proof need of it. Returns
 * a descriptor of it for clone3, or -errno.
 * `*ret_limits` has bit 1 when memory, bit 2 when processes are limited by it. */
int cgroup_open(const char *path, uint64_t memory_bytes, uint64_t processes_max, int *ret_limits);
/* Kills all in it, by its own file and one by one. With `freeze` it is frozen first, so that nobody
 * in it forks meanwhile. */
void cgroup_kill(bool freeze);
/* 0: nobody is in it, 1: somebody is, or -errno: it does not say. */
int cgroup_populated(void);
/* Removes it, and what others made in it. */
void cgroup_close(void);

/* ---- start.c ---- */

struct start {
    uint64_t mask;
    uint64_t memory_bytes; /* per process; 0: no limit */
    int flags;
    char **arguments;
    int failure_fd; /* takes struct warden_message of a failure; closed by exec */
};

/* In the child, first of all: gives up the warden's descriptors, and then its protection. That of
 * failures and `*keep` (may be NULL) get other numbers. */
void start_shed(struct start *start, int *keep);
/* Becomes the command; reports and exits when it cannot. */
_Noreturn void start_command(const struct start *start);
/* Tells why, and exits. */
_Noreturn void start_failed(const struct start *start, int code, enum warden_stage stage);

/* ---- namespace.c: pidns ---- */

/* The init of a PID namespace: starts the command, writes its status (an int) to `status_fd`,
 * reaps, and exits when nobody is left. `uid`, `gid` are those outside. */
_Noreturn void namespace_init(const struct start *start, int status_fd, uid_t uid, gid_t gid);

/* ---- hold.c ---- */

/* What belay told it at the start. */
struct hold_options {
    int container;
    int flags;
    uint64_t grace_ms;
    uint64_t processes_max; /* 0: the cgroup counts, or nobody */
    int record;             /* number of its record; -1: none */
    const char *cgroup;
};

/* What it holds. */
struct hold {
    struct hold_options options;
    struct tree_view view;
    struct owner owner;
    struct record record;
    pid_t child;   /* the command, or the init of its namespace; 0: it was not started */
    pid_t init;    /* 0: no namespace */
    int watch;     /* for all that it waits for */
    int child_fd;  /* signalfd: a child has ended */
    int status_fd; /* the init's word on the command; -1: no namespace */
};

/* The pid of the command as belay sees it. */
pid_t hold_command_pid(const struct hold *hold);
/* Holds the command until nothing of it is left, or the rest cannot be killed, and tells belay.
 * `failed`: it was not started, and any process of it is killed. */
void hold_run(struct hold *hold, bool failed);
/* Belay may be gone: then nobody needs to know. */
void hold_say(const struct warden_message *message);

/* ---- guard.c ---- */

/* Waits for belay's end, then sees to it that its wardens come to theirs. */
int guard_run(const struct owner *owner);

#endif
