/* The guard: a process beside the wardens of a Belay process. It is not an ancestor of any tool.
 *
 * When Belay is killed, each warden kills its tree and exits. A warden that was stopped, or is
 * traced by its own tool, cannot. So the guard waits for Belay's end, too, and gives the wardens a
 * moment. Then it kills the tree of each warden that is still alive, and the warden last. It finds
 * the wardens in the record file; a pid counts only together with its start time. The guard is not
 * the parent of the processes that it kills, so it proves nothing: the record then says that
 * nothing was proved, and the next Belay reports that. */
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* About ten times what a healthy warden needs. */
#define WARDENS_US_MAX 30000
#define ROUND_US       1000
#define GIVE_UP_US     1000000
#define EMPTY_ROUNDS   3

static void guard_sleep(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static bool guard_is_there(const struct tree_view *view, const struct record *record)
{
    return record->magic == RECORD_MAGIC && record->state == RECORD_HELD && record->pid > 1 &&
           tree_started(view, record->pid) == record->started &&
           tree_life_of(view, record->pid, NULL) != TREE_DEAD;
}

/* Kills the processes below the warden until three rounds in a row find none alive, then the
 * warden. Each round continues the warden: if it was only stopped, it reaps and does its own work.
 * Returns the number of processes that the largest round found. */
static size_t guard_take_over(const struct tree_view *view, const struct record *record)
{
    uint64_t give_up_us = warden_now_us() + GIVE_UP_US;
    size_t most = 0;
    for (int empty = 0; empty < EMPTY_ROUNDS && warden_now_us() < give_up_us;) {
        struct tree tree = {0};
        size_t living = 0;
        kill(record->pid, SIGCONT);
        if (record->cgroup[0] == '/')
            tree_kill_cgroup(record->cgroup);
        tree_add_children(view, &tree, record->pid);
        tree_kill(view, &tree);
        size_t found = tree.count - (tree.count > 0 && record->init != 0);
        most = found > most ? found : most;
        for (size_t i = 0; i < tree.count; i++)
            living += tree_life_of(view, tree.pids[i], NULL) != TREE_DEAD;
        empty = living == 0 && tree.error == 0 ? empty + 1 : 0;
        tree_done(&tree);
        guard_sleep(ROUND_US);
        if (!guard_is_there(view, record))
            return most;
    }
    kill(record->pid, SIGKILL);
    return most;
}

/* Empties the cgroup of a warden that was killed together with Belay. In the other containers such
 * a warden leaves nothing that can be found. */
static void guard_empty_cgroup(const struct record *record)
{
    uint64_t give_up_us = warden_now_us() + GIVE_UP_US;
    while (rmdir(record->cgroup) < 0 && errno == EBUSY && warden_now_us() < give_up_us) {
        tree_kill_cgroup(record->cgroup);
        guard_sleep(ROUND_US);
    }
}

static void guard_settle(const struct tree_view *view, int number)
{
    struct record record;
    if (!record_read(WARDEN_RECORDS, number, &record) || record.magic != RECORD_MAGIC ||
        record.state != RECORD_HELD)
        return;
    if (!guard_is_there(view, &record)) {
        if (record.cgroup[0] == '/')
            guard_empty_cgroup(&record);
        return;
    }
    size_t found = guard_take_over(view, &record);
    /* If it has ended by itself after all, its own record counts. */
    if (!record_read(WARDEN_RECORDS, number, &record) || record.state != RECORD_HELD)
        return;
    record.state = RECORD_ENDED;
    record.survivors = WARDEN_UNKNOWN;
    record.doubt = WARDEN_DOUBT_STUCK;
    record.processes = (int32_t)found;
    record.strongest = SIGKILL;
    record_write(WARDEN_RECORDS, number, &record);
}

/* Waits until no warden is left, or their time is up. */
static void guard_await_wardens(const struct tree_view *view)
{
    uint64_t until_us = warden_now_us() + WARDENS_US_MAX;
    bool waiting = true;
    while (waiting && warden_now_us() < until_us) {
        struct record record;
        waiting = false;
        for (int i = 0; !waiting && record_read(WARDEN_RECORDS, i, &record); i++)
            waiting = guard_is_there(view, &record);
        if (waiting)
            guard_sleep(ROUND_US);
    }
}

int guard_run(const struct owner *owner)
{
    struct record record;
    struct tree_view view;
    if (tree_view_open(&view) != 0)
        return 1;
    int fds[WARDEN_NEWS_MAX], watch = warden_watch_new();
    warden_watch(watch, WARDEN_LIFELINE);
    warden_watch(watch, owner->pidfd);
    while (watch >= 0 && warden_news(watch, -1, fds) == 0)
        continue;
    guard_await_wardens(&view);
    for (int i = 0; record_read(WARDEN_RECORDS, i, &record); i++)
        guard_settle(&view, i);
    return 0;
}
