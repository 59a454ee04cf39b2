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
/* Adds all that is below those in it. */
void tree_complete(struct tree *tree);
/* One round of killing those in it and all that is below, which are added: each is stopped before
 * its children are read. */
void tree_kill(struct tree *tree);
bool tree_is_zombie(pid_t pid);

/* Of everything below this process: */
/* how many there are, without zombies and `except` (0: nobody); */
size_t tree_count(pid_t except);
/* sends `signal`, and SIGCONT, to a frozen picture of it without `except`, and returns how many
 * there were; */
size_t tree_signal(int signal, pid_t except);
/* sends SIGCONT to those who are stopped; */
void tree_continue(void);
/* one round of killing. */
void tree_kill_own(void);

#endif
