/* Declarations shared by the files of this room. */
#ifndef BELAY_PROC_PARTS_H
#define BELAY_PROC_PARTS_H

#include <belay/proc.h>

#include "protocol.h"
#include "tree.h"

/* ---- Starting (start.c) ---- */

/* A warden that was started. */
struct proc_started {
    pid_t pid;
    int pidfd;
    int control;  /* messages; non-blocking */
    int lifeline; /* closed by us or at our death: the warden kills its tree */
};

/* Starts the warden directly instead of forking this process, so that the size of this process does
 * not matter. `mechanism` is not BL_MECHANISM_NONE; `record` is the number of its record, or -1 for
 * none; `lease_ns` is the end of its lease on CLOCK_BOOTTIME, or 0 for none. */
int proc_start(const struct bl_warden_options *options, enum bl_mechanism mechanism,
               const char *cgroup, int record, uint64_t lease_ns, struct proc_started *ret_started,
               struct bl_error *error);
/* Starts the guard. It has no control socket: `control` is -1. */
int proc_start_guard(int records, struct proc_started *ret_started, struct bl_error *error);

/* Sets `error` to the reason why a warden could not start its command. Returns the code. */
int proc_start_refused(int failure, enum warden_stage stage, const char *command,
                       struct bl_error *error);

/* ---- A warden seen from outside (look.c) ---- */

/* True if the warden cannot act because it is stopped or traced. */
bool proc_look_stuck(const struct proc_started *started);
/* A warden's activity up to the last look. Zeroed at first. */
struct proc_idle {
    uint64_t work;  /* grows each time it is scheduled, and while it runs */
    unsigned looks; /* looks in a row that found it asleep without new work */
};

/* True if the warden was asleep in the last looks. A warden that kills wakes up each millisecond,
 * so this one is frozen in a cgroup or blocked in the kernel. */
bool proc_look_frozen(const struct proc_started *started, struct proc_idle *idle);
/* True if a process of its tree is alive. A genuine warden that has sent its last message has none.
 */
bool proc_look_tree(const struct proc_started *started);
/* Returns the number of living processes of its tree, without the init of a namespace, which is not
 * part of the command. */
uint32_t proc_look_count(const struct proc_started *started, bool has_init);

/* ---- Records and the guard (guard.c) ---- */

/* Reserves a record. Returns its number, or -1 if no records are kept. */
int proc_record_take(void);
/* Starts the guard if records are kept and it is not running. Called before the first warden. */
void proc_guard_ensure(void);
void proc_record_free(int number);
/* Returns the descriptor of the record file for a warden, or -1 if there is none. */
int proc_records_fd(void);
#define RECORDS_NAME_SIZE 64
/* Writes the name of the record file of the process with this pid and start time. */
void proc_records_name(int64_t pid, int64_t started, char out[RECORDS_NAME_SIZE]);
/* Returns the pid of the guard, which is not an orphan, or 0 if there is none. */
pid_t proc_guard_pid(void);

/* ---- Containers ---- */

/* Chooses the container: `auto` becomes cgroup2 if it is available, otherwise subreaper.
 * BL_ENOTSUP: the requested container is not available. */
int proc_container_resolve(enum bl_mechanism wanted, enum bl_mechanism *ret_mechanism,
                           struct bl_error *error);
/* True if PID namespaces are available only inside a user namespace; also for root, in a container
 * without CAP_SYS_ADMIN. The probe of pidns finds this out, and runs now if it has not run yet. */
bool proc_container_needs_user(void);
/* Finds the directory in which this process may create cgroups. Returns false if there is none. */
bool proc_cgroup_directory(char *out, size_t size);
/* Makes the path of a new cgroup in that directory, with a random name; "-" if there is none. */
void proc_cgroup_name(char *out, size_t size);

/* ---- Wardens (warden.c) ---- */

/* Like bl_warden_wait, but always waits for the whole tree, also with `background`. */
int proc_warden_wait_tree(struct bl_warden *warden, struct bl_warden_end *ret_end);
/* Returns the number of processes that the warden holds. */
uint32_t proc_warden_count(const struct bl_warden *warden);
/* Ends the grace period of the current stop, and does not wait for the result. */
void proc_warden_hurry(struct bl_warden *warden);
/* True if the process is one of our wardens, and so not an orphan. */
bool proc_is_warden(pid_t pid);

/* ---- Doing a warden's work (sweep.c) ---- */

/* The system clock, and a pause of half a millisecond; for fibers and other threads. */
uint64_t proc_now_ns(void);
void proc_pause(void);
/* Returns the descriptors through which this process reads /proc; opened once. */
const struct tree_view *proc_view(void);
bool proc_adopting(void);
/* The processes left after a sweep. */
struct proc_rest {
    uint32_t survivors; /* or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE];
};
/* Kills and reaps orphans of this process until none is left, for a second at most. */
void proc_sweep_orphans(struct proc_rest *ret_rest);
/* True if this process has a living orphan that no warden holds. */
bool proc_orphans_seen(void);
/* Kills the processes in a cgroup and removes it. Only an empty cgroup can be removed, so this
 * proves that it is empty. */
void proc_sweep_cgroup(const char *path, struct proc_rest *ret_rest);
/* Kills the processes below a warden that cannot do it itself, for `limit_ns` at most. */
void proc_kill_below(pid_t pid, const char *cgroup, uint64_t limit_ns);
void proc_rest_unknown(struct proc_rest *rest, const char *format, ...) BL_PRINTF(2, 3);
/* Describes why a warden could not verify the end of its tree. */
void proc_rest_doubt(struct proc_rest *rest, enum warden_doubt doubt, int error);

/* Mark children that are probes and not orphans. While there are any, orphans are not looked for.
 */
void proc_probe_begin(void);
void proc_probe_end(void);

#endif
