/* Probes of the machine: each tries one thing for real, never waits longer than
 * proc_probe_limit_ms, and leaves neither a process nor a cgroup directory behind. They hold up the
 * thread that makes them: what asks them keeps their answers. */
#ifndef BELAY_PROC_PROBE_H
#define BELAY_PROC_PROBE_H

#include <sys/types.h>

#include <belay/proc.h>

/* 5000, and less only in tests. */
extern int proc_probe_limit_ms;

/* ---- container.c: filling in an answer ------------------------------------------------------- */

void proc_check_answer(struct bl_container_check *check, bool available, const char *format, ...)
    BL_PRINTF(3, 4);
/* The probe itself could not be made, which says nothing about the machine. */
void proc_check_untried(struct bl_container_check *check, const char *format, ...) BL_PRINTF(2, 3);
void proc_check_hint(struct bl_container_check *check, const char *format, ...) BL_PRINTF(2, 3);

/* ---- container.c, container_pidns.c, container_cgroup.c, sandbox_probe.c --------------------- */

void proc_subreaper_probe(struct bl_container_check *check);
/* `*ret_user`: only in a user namespace. */
void proc_pidns_probe(struct bl_container_check *check, bool *ret_user);
void proc_cgroup_probe(struct bl_container_check *check);
/* Where this process's cgroup is to be found, by the text of /proc/self/mountinfo and
 * /proc/self/cgroup; false: nowhere, and `out` says why. */
bool proc_cgroup_locate(struct bl_text mounts, struct bl_text membership, char *out,
                        size_t out_size);
/* Tries the bubblewrap at `path`; bl_sandbox_check without its memory. */
void proc_bubblewrap_probe(const char *path, struct bl_container_check *check);

/* ---- sandbox.c ------------------------------------------------------------------------------- */

/* Where bubblewrap is by our PATH. False: nowhere, and `check` says so. */
bool proc_bubblewrap_find(char *out, size_t out_size, struct bl_container_check *check);
struct mounts;
/* The mounts of a view whose folders are canonical. */
int proc_bubblewrap_mounts(const struct bl_sandbox_view *view, struct mounts *mounts,
                           struct bl_error *error);
/* The command line of the bubblewrap at `path`, in the arena. */
const char *const *proc_bubblewrap_arguments(struct bl_arena *arena, const char *path,
                                             const struct bl_sandbox_view *view,
                                             const struct mounts *mounts,
                                             const char *const *arguments);

/* ---- probe_child.c --------------------------------------------------------------------------- */

/* A child that runs a function of ours in a copy of this process. */
struct proc_child {
    pid_t pid;
    int pidfd;
};

/* How a child ended. */
struct proc_child_end {
    bool timed_out; /* it was killed for that */
    bool by_signal;
    int status; /* exit code, or number of the signal */
};

/* Starts it with the clone `flags`. `main` may only make system calls; what it returns is its exit
 * code. The child dies with this thread. Returns 0 or a negative errno. */
int proc_child_start(struct proc_child *child, uint64_t flags, int (*main)(void));
/* Waits at most proc_probe_limit_ms, then kills it; either way the child is gone and reaped after.
 */
void proc_child_wait(struct proc_child *child, struct proc_child_end *ret_end);

/* ---- probe_program.c ------------------------------------------------------------------------- */

/* Looks for an executable file in the absolute folders of `search` (as PATH). False: not there. */
bool proc_program_find(const char *search, const char *name, char *out, size_t out_size);
/* Runs a program without a shell, with nothing to read; `output` gets the first bytes of what it
 * prints, standard error included. Killed with its process group after `limit_ms`. Returns 0 or a
 * negative errno when it could not be started. */
int proc_program_run(const char *const *arguments, int limit_ms, struct bl_buffer *output,
                     struct proc_child_end *ret_end);

#endif
