/* Declarations shared by the files of the warden. */
#ifndef BELAY_PROC_WARDEN_H
#define BELAY_PROC_WARDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/protocol.h"
#include "proc/record.h"
#include "proc/tree.h"

/* ---- main.c: the end of Belay ---- */

/* Belay, as its wardens and its guard see it. Its end is detected in two ways: by the lifeline, and
 * by a pidfd, which unlike the lifeline cannot be held open by a copied descriptor. */
struct owner {
    int pidfd;
};

/* An epoll instance for all descriptors that a warden or the guard waits for, created before the
 * command starts. poll fails if the descriptor limit is lowered below the number of its entries. */
int warden_watch_new(void);
void warden_watch(int watch, int fd);
void warden_unwatch(int watch, int fd);
/* Waits until a descriptor is ready, for `timeout_ms` at most (-1: no limit). Returns the number of
 * ready descriptors, which are in `ret_fds`. */
#define WARDEN_NEWS_MAX 8
int warden_news(int watch, int timeout_ms, int ret_fds[WARDEN_NEWS_MAX]);
/* Returns the monotonic clock in microseconds. */
uint64_t warden_now_us(void);

/* ---- lease.c ---- */

/* The lease of this warden: Belay may be stopped or suspended when it ends. Measured on
 * CLOCK_BOOTTIME, so that suspended time counts. Tests replace this file by one whose clock can be
 * moved. */
struct lease {
    int fd;            /* readable from the end of the lease on */
    uint64_t until_ns; /* 0: none */
};

/* Opens the timer. Returns 0 or the errno. */
int lease_open(struct lease *lease);
void lease_set(struct lease *lease, uint64_t until_ns);
/* True if the lease has ended. */
bool lease_over(const struct lease *lease);

/* ---- cgroup.c ---- */

/* Creates the cgroup `path` with these limits, and opens what killing and the proof need. Returns a
 * descriptor of it for clone3, or -errno. `*ret_limits` has bit 0 set if the cgroup limits memory,
 * and bit 1 if it limits processes. */
int cgroup_open(const char *path, uint64_t memory_bytes, uint64_t processes_max, int *ret_limits);
/* Kills all processes in the cgroup through cgroup.kill, and each one by itself. With `freeze` it
 * is frozen first, so that its processes cannot fork meanwhile. */
void cgroup_kill(bool freeze);
/* Returns 0 if the cgroup is empty, 1 if it is not, or -errno if its state could not be read. */
int cgroup_populated(void);
/* Removes the cgroup, and those that were created in it. */
void cgroup_close(void);

/* ---- start.c ---- */

struct start {
    uint64_t mask;
    uint64_t memory_bytes; /* per process; 0: no limit */
    int flags;
    char **arguments;
    int failure_fd; /* receives the struct warden_message of a failure; closed by exec */
};

/* Runs first in the child: closes the warden's descriptors, and then makes the process dumpable.
 * The descriptors of failures and `*keep` (may be NULL) are renumbered. */
void start_shed(struct start *start, int *keep);
/* Executes the command; reports a failure and exits. */
_Noreturn void start_command(const struct start *start);
/* Reports the failure and exits. */
_Noreturn void start_failed(const struct start *start, int code, enum warden_stage stage);

/* ---- namespace.c: pidns ---- */

/* The init of a PID namespace: starts the command, writes its status (an int) to `status_fd`, reaps
 * children, and exits when none is left. `uid` and `gid` are those outside the namespace. */
_Noreturn void namespace_init(const struct start *start, int status_fd, uid_t uid, gid_t gid);

/* ---- hold.c ---- */

/* Options that Belay passes at the start. */
struct hold_options {
    int container;
    int flags;
    uint64_t grace_ms;
    uint64_t processes_max; /* 0: no limit, or the cgroup counts */
    int record;             /* number of its record; -1: none */
    const char *cgroup;
};

/* The command and process tree of a warden. */
struct hold {
    struct hold_options options;
    struct tree_view view;
    struct owner owner;
    struct record record;
    pid_t child;  /* the command, or the init of its namespace; 0: not started */
    pid_t init;   /* 0: no namespace */
    int watch;    /* epoll instance for all descriptors */
    int child_fd; /* signalfd for SIGCHLD */
    struct lease lease;
    int status_fd; /* pipe from the init with the command's status; -1: no namespace */
};

/* Returns the pid of the command in Belay's PID namespace. */
pid_t hold_command_pid(const struct hold *hold);
/* Holds the command until no process of it is left, or the rest cannot be killed, and reports to
 * Belay. `failed`: the command was not started, and all of its processes are killed. */
void hold_run(struct hold *hold, bool failed);
/* Receives the messages that only set the lease. Returns true if another message or the end of file
 * comes next. */
bool hold_take_leases(struct hold *hold);
/* Sends a message. If Belay has ended, it is lost, and not needed. */
void hold_send(const struct warden_message *message);

/* ---- guard.c ---- */

/* Waits for Belay's end, then ensures that its wardens end. */
int guard_run(const struct owner *owner);

#endif
