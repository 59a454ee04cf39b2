/* The processes below one: read, counted, signalled, killed. The C library alone: the warden uses
 * it for what it holds, and belay for the tree of a warden that was killed.
 *
 * A look can fail: no descriptor left, /proc hidden, a kernel without lists of children. A tree
 * that was not read completely says so (`error`), and nothing may be concluded from its absence of
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
    int error;         /* errno of the first look that failed; 0: it is complete */
    uint64_t until_us; /* of the monotonic clock: no look goes on after it, ETIME; 0: no limit */
};

/* Where processes are looked at. Opened once, before any tool runs, so that nothing mounted over
 * /proc later and no lowered limit of descriptors blinds it. */
struct tree_view {
    int proc;     /* /proc itself */
    int children; /* the list of this process's children; -1: the kernel has none */
};

/* Returns 0 or the errno. `*ret_view` is -1, -1 when it fails. */
int tree_view_open(struct tree_view *ret_view);

void tree_done(struct tree *tree);
void tree_push(struct tree *tree, pid_t pid);
/* Adds the numbers in a file of the kernel's, read from its beginning. */
void tree_add_list(struct tree *tree, int fd);
/* Adds the children of this process: by its list, which needs no new descriptor, else by a search
 * of /proc. */
void tree_add_own(const struct tree_view *view, struct tree *tree);
/* The search alone: all processes whose parent is `parent`. */
void tree_search_children(const struct tree_view *view, struct tree *tree, pid_t parent);
/* Adds the children of `pid`, of all its threads. */
void tree_add_children(const struct tree_view *view, struct tree *tree, pid_t pid);
/* Adds all that is below those in it. */
void tree_complete(const struct tree_view *view, struct tree *tree);
/* One round of killing those in it and all that is below, which are added, level by level: all of a
 * level are killed before the children of the first are read. A signal takes less than a
 * microsecond, a look at /proc ten: a process that forks and exits all the time is gone when one
 * looks first. */
void tree_kill(const struct tree_view *view, struct tree *tree);

/* Sends a signal to those in it, the last first, each with the group that it may lead. */
void tree_send_each(const struct tree *tree, int signal);

/* Kills what is in a cgroup: by its own file, which misses a process whose main thread has ended
 * (seen on Linux 6.18: the signal goes to that thread), and one by one. */
void tree_kill_cgroup(const char *path);

enum tree_life {
    TREE_DEAD, /* gone, or a zombie without a thread that runs */
    TREE_ALIVE,
    TREE_UNKNOWN, /* it could not be looked at */
};

/* A process whose main thread has ended is a zombie by its state, and alive while another thread
 * runs. `*ret_state` (may be NULL): the letter of its state, '?' when unknown. */
enum tree_life tree_life_of(const struct tree_view *view, pid_t pid, char *ret_state);
/* When it began, in clock ticks since boot; 0: it is gone, or cannot be looked at. */
unsigned long long tree_started(const struct tree_view *view, pid_t pid);

/* What a count came to. */
struct tree_count {
    size_t living;
    size_t unseen;   /* that are there, and could not be looked at: they may be dead */
    uint64_t digest; /* of which they are: two equal counts of the same processes have the same */
    int error;       /* as in struct tree: not 0, and there may be more */
};

/* How long a look takes at most while somebody waits for a stop; it is microseconds for each
 * process.
 */
#define TREE_LOOK_US 20000

/* Of everything below this process, without `except` (0: nobody), within `limit_us`: */
struct tree_count tree_count_own(const struct tree_view *view, pid_t except, uint64_t limit_us);
/* stops the children, and those that they are just making: those of `except`, where that is the
 * init of a namespace; */
void tree_freeze_own(const struct tree_view *view, pid_t except);
/* sends `signal`, and SIGCONT, to a frozen picture of it; returns how many there were; */
struct tree_count tree_signal_own(const struct tree_view *view, int signal, pid_t except);
/* sends SIGCONT to those that are stopped; */
void tree_continue_own(const struct tree_view *view);
/* one round of killing; returns how many processes it found, dead ones too. */
size_t tree_kill_own(const struct tree_view *view);

#endif
