/* Process trees: read, count, signal and kill. Uses the C library only: wardens use it for the tree
 * they hold, and Belay for the tree of a warden that was killed.
 *
 * Reading can fail: no free descriptor, a hidden /proc, a kernel without lists of children. A tree
 * that was not read completely has `error` set; then an empty tree does not mean that there are no
 * processes. */
#ifndef BELAY_PROC_TREE_H
#define BELAY_PROC_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree {
    pid_t *pids; /* parents before children */
    size_t count;
    size_t capacity;
    int error;         /* errno of the first failure; 0: the tree is complete */
    uint64_t until_us; /* on the monotonic clock: reading ends then with ETIME; 0: no limit */
};

/* Descriptors for reading /proc. They are opened once, before any tool runs, so that neither a
 * mount over /proc nor a lowered descriptor limit can blind this process later. */
struct tree_view {
    int proc;     /* /proc */
    int children; /* the list of this process's children; -1: the kernel has none */
};

/* Returns 0 or the errno. On failure both descriptors in `*ret_view` are -1. */
int tree_view_open(struct tree_view *ret_view);

void tree_done(struct tree *tree);
void tree_push(struct tree *tree, pid_t pid);
/* Adds the numbers in a file of the kernel, read from its start. */
void tree_add_list(struct tree *tree, int fd);
/* Adds the children of this process from the kernel's list, which needs no new descriptor, or
 * otherwise from a search of /proc. */
void tree_add_own(const struct tree_view *view, struct tree *tree);
/* Adds the processes whose parent is `parent`, from a search of /proc. */
void tree_search_children(const struct tree_view *view, struct tree *tree, pid_t parent);
/* Adds the children of all threads of `pid`. */
void tree_add_children(const struct tree_view *view, struct tree *tree, pid_t pid);
/* Adds all descendants of the processes in the tree. */
void tree_complete(const struct tree_view *view, struct tree *tree);
/* Does one round of killing: kills the processes in the tree, adds their descendants level by
 * level, and kills these. A whole level is killed before the children of its first process are
 * read. A signal takes less than a microsecond and reading /proc takes ten, so a process that forks
 * and exits in a loop would escape if its children were read first. */
void tree_kill(const struct tree_view *view, struct tree *tree);

/* Sends a signal to each process in the tree and to the group that it may lead, last process first.
 */
void tree_send_each(const struct tree *tree, int signal);

/* Kills the processes in a cgroup through cgroup.kill, and then each one: cgroup.kill signals the
 * main thread, and so misses a process whose main thread has exited (seen on Linux 6.18). */
void tree_kill_cgroup(const char *path);

enum tree_life {
    TREE_DEAD, /* exited, or a zombie without running threads */
    TREE_ALIVE,
    TREE_UNKNOWN, /* its state could not be read */
};

/* Returns whether a process is alive. If its main thread has exited, its state is zombie, but it is
 * alive while another thread runs. `*ret_state` (may be NULL) is the letter of its state, or '?' if
 * unknown. */
enum tree_life tree_life_of(const struct tree_view *view, pid_t pid, char *ret_state);
/* Reads the time that a process's main thread has been on a processor, and the number of its turns.
 * Both are 0 if unknown. */
void tree_work(const struct tree_view *view, pid_t pid, uint64_t *ret_run_ns, uint64_t *ret_turns);
/* Returns the start time in clock ticks since boot, or 0 if the process has exited or cannot be
 * read. */
unsigned long long tree_started(const struct tree_view *view, pid_t pid);

/* The result of a count. */
struct tree_count {
    size_t living;
    size_t unseen;   /* exist, but their state could not be read: they may be dead */
    uint64_t digest; /* of the pids: counts of the same processes have the same digest */
    int error;       /* as in struct tree; if it is not 0, there may be more processes */
};

/* Time limit for reading the tree during a stop. Reading takes microseconds for each process. */
#define TREE_LOOK_US 20000

/* The following work on all descendants of this process. Counts them without `except` (0: none),
 * within `limit_us`. */
struct tree_count tree_count_own(const struct tree_view *view, pid_t except, uint64_t limit_us);
/* Returns whether a descendant, other than `except`, waits for a processor or the disk and has
 * hardly run: it has just started, or is a helper that has little left to do. */
bool tree_waits_own(const struct tree_view *view, pid_t except, uint64_t limit_us);
/* Stops the children of this process, including those that are being forked. If `except` is the
 * init of a namespace, stops its children instead. */
void tree_freeze_own(const struct tree_view *view, pid_t except);
/* Sends `signal` and SIGCONT to the frozen tree; returns the count. */
struct tree_count tree_signal_own(const struct tree_view *view, int signal, pid_t except);
/* Sends SIGCONT to stopped processes. */
void tree_continue_own(const struct tree_view *view);
/* Does one round of killing; returns the number of processes found, including dead ones. */
size_t tree_kill_own(const struct tree_view *view);

#endif
