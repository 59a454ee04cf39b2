/* Probes of the machine. Each one tests a feature by using it, takes at most proc_probe_limit_ms,
 * and leaves neither a process nor a cgroup behind. A probe blocks its thread, so callers store the
 * results. */
#ifndef BELAY_PROC_PROBE_H
#define BELAY_PROC_PROBE_H

#include <sys/types.h>

#include <belay/proc.h>

/* 5000; tests set a lower value. */
extern int proc_probe_limit_ms;

/* ---- container.c: filling in an answer ------------------------------------------------------- */

void proc_check_answer(struct bl_container_check *check, bool available, const char *format, ...)
    BL_PRINTF(3, 4);
/* The probe itself could not run, so nothing is known about the machine. */
void proc_check_untried(struct bl_container_check *check, const char *format, ...) BL_PRINTF(2, 3);
void proc_check_hint(struct bl_container_check *check, const char *format, ...) BL_PRINTF(2, 3);

/* ---- container.c, container_pidns.c, container_cgroup.c, sandbox/probe.c --------------------- */

void proc_subreaper_probe(struct bl_container_check *check);
/* `*ret_user`: available only inside a user namespace. */
void proc_pidns_probe(struct bl_container_check *check, bool *ret_user);
void proc_cgroup_probe(struct bl_container_check *check);
/* Finds the directory of this process's cgroup from the text of /proc/self/mountinfo and
 * /proc/self/cgroup. Returns false if there is none, with the reason in `out`. */
bool proc_cgroup_locate(struct bl_text mounts, struct bl_text membership, char *out,
                        size_t out_size);
/* Tests the bubblewrap at `path`; bl_sandbox_check without its stored result. */
void proc_bubblewrap_probe(const char *path, struct bl_container_check *check);

/* ---- sandbox/sandbox.c ----------------------------------------------------------------------- */

/* Finds bubblewrap in PATH. Returns false if it is not there, with the reason in `check`. */
bool proc_bubblewrap_find(char *out, size_t out_size, struct bl_container_check *check);
struct mounts;
/* Makes the mounts of a view with canonical folders. */
int proc_bubblewrap_mounts(const struct bl_sandbox_view *view, struct mounts *mounts,
                           struct bl_error *error);
/* Returns the command line for the bubblewrap at `path`, in the arena. */
const char *const *proc_bubblewrap_arguments(struct bl_arena *arena, const char *path,
                                             const struct bl_sandbox_view *view,
                                             const struct mounts *mounts,
                                             const char *const *arguments);

/* ---- probe_child.c --------------------------------------------------------------------------- */

/* A child that runs a function in a copy of this process. */
struct proc_child {
    pid_t pid;
    int pidfd;
};

/* How a child ended. */
struct proc_child_end {
    bool timed_out; /* it was killed when its time was up */
    bool by_signal;
    int status; /* exit code or signal number */
};

/* Starts the child with the clone `flags`. `main` may only make system calls; its result is the
 * exit code. The child dies with this thread. Returns 0 or a negative errno. */
int proc_child_start(struct proc_child *child, uint64_t flags, int (*main)(void));
/* Waits at most proc_probe_limit_ms, then kills the child. The child is reaped in either case. */
void proc_child_wait(struct proc_child *child, struct proc_child_end *ret_end);

/* ---- probe_program.c ------------------------------------------------------------------------- */

/* Looks for an executable file in the absolute folders of `search`, a list like PATH. Returns false
 * if there is none. */
bool proc_program_find(const char *search, const char *name, char *out, size_t out_size);
/* Runs a program without a shell and with empty input. `output` receives the first bytes that it
 * prints, including standard error. The program and its process group are killed after `limit_ms`.
 * Returns 0, or a negative errno if it could not be started. */
int proc_program_run(const char *const *arguments, int limit_ms, struct bl_buffer *output,
                     struct proc_child_end *ret_end);

#endif
