/* What the files of this room share. */
#ifndef BELAY_PROC_PARTS_H
#define BELAY_PROC_PARTS_H

#include <belay/proc.h>

/* What a started warden is to us. */
struct proc_started {
    pid_t pid;
    int pidfd;
    int control;  /* messages, non-blocking */
    int lifeline; /* closing it, or dying, is the order to kill all */
};

/* Starts the warden itself, not through fork: a parent of any size starts it as quickly.
 * `mechanism` is not BL_MECHANISM_NONE. */
int proc_start(const struct bl_warden_options *options, enum bl_mechanism mechanism,
               const char *cgroup, struct proc_started *ret_started, struct bl_error *error);
/* The container in force for what was asked: `auto` becomes cgroup2 where it works, else subreaper.
 * BL_ENOTSUP: it was asked for by name and is not available. */
int proc_container_resolve(enum bl_mechanism wanted, enum bl_mechanism *ret_mechanism,
                           struct bl_error *error);
/* As bl_warden_wait, for the tree of a command that was started with `background`, too. */
int proc_warden_wait_tree(struct bl_warden *warden, struct bl_warden_end *ret_end);
/* How many processes it holds now. */
uint32_t proc_warden_count(const struct bl_warden *warden);
/* Cuts the grace of a stop that is under way, and does not wait for what comes of it. */
void proc_warden_hurry(struct bl_warden *warden);
/* True when a PID namespace can be had here only in a user namespace: also for root, in a container
 * without CAP_SYS_ADMIN. Known once bl_container_check was asked about pidns; asks it if it was
 * not. */
bool proc_container_needs_user(void);
/* The directory in which this process may make cgroups; false: none. */
bool proc_cgroup_directory(char *out, size_t size);

#endif
