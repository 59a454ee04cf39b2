/* The processes below one: read, frozen, signalled, killed. The C library alone: the warden uses it
 * for what it holds, and belay for what a killed warden has left. */
#ifndef BELAY_PROC_TREE_H
#define BELAY_PROC_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tree {
    pid_t *pids; /* parents before children */
    size_t count;
    size_t capacity;
};

void tree_done(struct tree *tree);
void tree_push(struct tree *tree, pid_t pid);
/* Adds the children of `pid`, of all its threads. */
void tree_add_children(struct tree *tree, pid_t pid);
/* Adds all that is below those in it. With `frozen` (NULL: without) each one is stopped before its
 * children are read, so that none of these can come or go unseen; `except` (0: none) is not.
 * `frozen` takes what the signal was sent to: a process, or a group as a negative number. */
void tree_complete(struct tree *tree, struct tree *frozen, pid_t except);
bool tree_is_zombie(pid_t pid);

/* Of everything below this process, `except` passed over: */
/* how many there are, without zombies; */
size_t tree_count(pid_t except);
/* sends `signal`, and SIGCONT, to a frozen picture of it, and returns how many there were; */
size_t tree_signal(int signal, pid_t except);
/* sends SIGCONT to those who are stopped; */
void tree_continue(pid_t except);
/* one round of freezing and killing. */
void tree_kill(void);

#endif
