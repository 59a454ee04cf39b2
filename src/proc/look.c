/* The state of a warden, seen from outside. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "parts.h"

#define FROZEN_LOOKS 3u

/* The kernel reports a stopped child to its parent. That works even when the parent cannot open
 * /proc because a tool has lowered its descriptor limit (prlimit). */
bool proc_look_stuck(const struct proc_started *started)
{
    char state;
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)started->pidfd, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
        return true;
    return tree_life_of(proc_view(), started->pid, &state) == TREE_ALIVE &&
           (state == 'T' || state == 't');
}

/* State S is not enough: the kernel reports it during all of waitpid(), and on a busy machine
 * reaping a child can take a quarter of a second of CPU time. */
bool proc_look_frozen(const struct proc_started *started, struct proc_idle *idle)
{
    char state;
    uint64_t before = idle->work, run_ns, turns;
    tree_work(proc_view(), started->pid, &run_ns, &turns);
    idle->work = run_ns + turns;
    bool asleep = tree_life_of(proc_view(), started->pid, &state) == TREE_ALIVE &&
                  (state == 'S' || state == 'D');
    idle->looks = before != 0 && idle->work == before && asleep ? idle->looks + 1 : 0;
    return idle->looks >= FROZEN_LOOKS;
}

bool proc_look_tree(const struct proc_started *started)
{
    struct tree tree = {0};
    bool holds = false;
    tree_add_children(proc_view(), &tree, started->pid);
    for (size_t i = 0; i < tree.count; i++)
        holds = holds || tree_life_of(proc_view(), tree.pids[i], NULL) != TREE_DEAD;
    tree_done(&tree);
    return holds;
}

uint32_t proc_look_count(const struct proc_started *started, bool has_init)
{
    struct tree tree = {0};
    uint32_t count = 0;
    tree_add_children(proc_view(), &tree, started->pid);
    size_t first = has_init ? tree.count : 0;
    tree_complete(proc_view(), &tree);
    for (size_t i = first; i < tree.count; i++)
        count += tree_life_of(proc_view(), tree.pids[i], NULL) == TREE_ALIVE;
    tree_done(&tree);
    return count;
}
