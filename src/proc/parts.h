/* What the files of this room share. */
#ifndef BELAY_PROC_PARTS_H
#define BELAY_PROC_PARTS_H

#include <belay/proc.h>

#include "protocol.h"
#include "tree.h"

/* ---- Starting (start.c) ---- */

/* What a started warden is to us. */
struct proc_started {
    pid_t pid;
    int pidfd;
    int control;  /* messages, non-blocking */
    int lifeline; /* closing it, or dying, is the order to kill all */
};

/* Starts the warden itself, not through fork: a parent of any size starts it as quickly.
 * `mechanism` is not BL_MECHANISM_NONE; `record` is the number of its record, -1: none. */
int proc_start(const struct bl_warden_options *options, enum bl_mechanism mechanism,
               const char *cgroup, int record, struct proc_started *ret_started,
               struct bl_error *error);
/* Starts the guard. It has no control: `control` is -1. */
int proc_start_guard(int records, struct proc_started *ret_started, struct bl_error *error);

/* Why a warden could not start its command: the code, with `error` set. */
int proc_start_refused(int failure, enum warden_stage stage, const char *command,
                       struct bl_error *error);

/* ---- How a warden is, seen from outside (look.c) ---- */

/* It can do nothing by itself: it is stopped or traced. */
bool proc_look_stuck(const struct proc_started *started);
/* What a warden has done until it was last looked at. All zero at first. */
struct proc_idle {
    uint64_t work;  /* grows with each turn on a processor, and in it */
    unsigned looks; /* in a row that found it asleep, without any work since the one before */
};

/* It sleeps, and has done so in the last looks. While it kills it wakes each millisecond: so it is
 * frozen in a cgroup, or the kernel holds it. */
bool proc_look_frozen(const struct proc_started *started, struct proc_idle *idle);
/* Something of its tree is there. An honest warden that has said its last word has none. */
bool proc_look_tree(const struct proc_started *started);
/* How many of its tree live, without the init of a namespace, which is no part of the command. */
uint32_t proc_look_count(const struct proc_started *started, bool has_init);

/* ---- Records and the guard (guard.c) ---- */

/* The number of a free record; -1: there are no records. */
int proc_record_take(void);
/* Starts the guard where there are records, unless it runs. Called before the first warden. */
void proc_guard_ensure(void);
void proc_record_free(int number);
/* Of the file, for a warden; -1: none. */
int proc_records_fd(void);
#define RECORDS_NAME_SIZE 64
/* The name of the file of a process, by its pid and start time. */
void proc_records_name(int64_t pid, int64_t started, char out[RECORDS_NAME_SIZE]);
/* The guard, which is no orphan; 0: there is none. */
pid_t proc_guard_pid(void);

/* ---- Containers ---- */

/* The container in force for what was asked: `auto` becomes cgroup2 where it works, else subreaper.
 * BL_ENOTSUP: it was asked for by name and is not available. */
int proc_container_resolve(enum bl_mechanism wanted, enum bl_mechanism *ret_mechanism,
                           struct bl_error *error);
/* True when a PID namespace can be had here only in a user namespace: also for root, in a container
 * without CAP_SYS_ADMIN. Known once bl_container_check was asked about pidns; asks it if it was
 * not. */
bool proc_container_needs_user(void);
/* The directory in which this process may make cgroups; false: none. */
bool proc_cgroup_directory(char *out, size_t size);
/* A path for a new cgroup in it, with a random name; "-": none. */
void proc_cgroup_name(char *out, size_t size);

/* ---- Wardens (warden.c) ---- */

/* As bl_warden_wait, for the tree of a command that was started with `background`, too. */
int proc_warden_wait_tree(struct bl_warden *warden, struct bl_warden_end *ret_end);
/* How many processes it holds now. */
uint32_t proc_warden_count(const struct bl_warden *warden);
/* Cuts the grace of a stop that is under way, and does not wait for what comes of it. */
void proc_warden_hurry(struct bl_warden *warden);
/* True: the process is a warden of ours, which is not an orphan. */
bool proc_is_warden(pid_t pid);

/* ---- Doing a warden's work (sweep.c) ---- */

/* The machine's clock, and half a millisecond of rest, in a fiber or in any thread. */
uint64_t proc_now_ns(void);
void proc_pause(void);
/* Where this process looks at others; opened once. */
const struct tree_view *proc_view(void);
bool proc_adopting(void);
/* What was left, and what is known of it. */
struct proc_rest {
    uint32_t survivors; /* or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE];
};
/* Kills and reaps what has come to this process until nothing has, for a second at most. */
void proc_sweep_orphans(struct proc_rest *ret_rest);
/* True: something alive has come to this process that no warden holds any more. */
bool proc_orphans_seen(void);
/* Kills what is in a cgroup, and removes it: that is the proof. */
void proc_sweep_cgroup(const char *path, struct proc_rest *ret_rest);
/* Kills what is below a process that cannot do it, for `limit_ns` at most. */
void proc_kill_below(pid_t pid, const char *cgroup, uint64_t limit_ns);
void proc_rest_unknown(struct proc_rest *rest, const char *format, ...) BL_PRINTF(2, 3);
/* Words for what a warden could not verify. */
void proc_rest_doubt(struct proc_rest *rest, enum warden_doubt doubt, int error);

/* Children of ours that are probes, not orphans: while there are some, none is looked for. */
void proc_probe_begin(void);
void proc_probe_end(void);

#endif
