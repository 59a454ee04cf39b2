/* How the wardens of a process that has ended ended, from the records that it left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "parts.h"
#include "record.h"

/* A warden whose Belay was killed ends within milliseconds; after 30 ms a guard helps it. */
#define END_NS_MAX (1500 * BL_NS_PER_MS)

static bool settle_is_there(const struct record *record)
{
    return record->state == RECORD_HELD && record->pid > 1 &&
           tree_started(proc_view(), record->pid) == record->started &&
           tree_life_of(proc_view(), record->pid, NULL) != TREE_DEAD;
}

/* Waits for a warden that is still working. If it does not end in time, it is killed with its tree,
 * as Belay would have done. */
static void settle_await(int fd, int number, struct record *record)
{
    uint64_t until_ns = proc_now_ns() + END_NS_MAX;
    while (settle_is_there(record) && proc_now_ns() < until_ns) {
        kill(record->pid, SIGCONT);
        proc_pause();
        record_read(fd, number, record);
    }
    if (!settle_is_there(record)) {
        record_read(fd, number, record); /* it writes before it exits */
        return;
    }
    proc_kill_below(record->pid, record->cgroup, END_NS_MAX);
    kill(record->pid, SIGKILL);
}

/* Handles a warden that ended without recording its proof. An empty cgroup proves nothing here: a
 * process that left the cgroup was held by the warden only. */
static void settle_unwritten(const struct record *record, struct proc_rest *ret_rest)
{
    uint64_t until_ns = proc_now_ns() + END_NS_MAX;
    bool gone = false;
    if (record->mechanism == WARDEN_CGROUP2)
        proc_sweep_cgroup(record->cgroup, ret_rest);
    /* The init dies with its warden, and the namespace with its init. */
    while (record->mechanism == WARDEN_PIDNS && !gone && proc_now_ns() < until_ns) {
        gone = record->init == 0 || tree_life_of(proc_view(), record->init, NULL) == TREE_DEAD;
        if (!gone)
            proc_pause();
    }
    if (!gone && ret_rest->survivors == 0)
        proc_rest_unknown(ret_rest, "belay and a warden were killed at the same time");
}

static void settle_record(int fd, int number, struct record *record, struct proc_rest *ret_rest)
{
    *ret_rest = (struct proc_rest){0};
    settle_await(fd, number, record);
    /* The guard may record at about this time, for a warden that it had to kill, that nothing was
     * proved. What the container itself proves does not depend on that. */
    if (record->state == RECORD_HELD ||
        (record->survivors < 0 && record->mechanism != WARDEN_SUBREAPER))
        settle_unwritten(record, ret_rest);
    else if (record->survivors < 0)
        proc_rest_doubt(ret_rest, (enum warden_doubt)record->doubt, record->doubt_errno);
    else
        ret_rest->survivors = (uint32_t)record->survivors;
}

void bl_wardens_settle(int64_t pid, int64_t started, struct bl_wardens_end *ret_end)
{
    char name[RECORDS_NAME_SIZE];
    struct record record;
    int folder = -1, fd = -1;
    *ret_end = (struct bl_wardens_end){.mechanism = BL_MECHANISM_NONE};
    proc_records_name(pid, started, name);
    if (bl_runtime_folder_open(false, &folder, NULL) == 0) {
        fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        close(folder);
    }
    if (fd < 0) {
        ret_end->survivors = BL_SURVIVORS_UNKNOWN;
        bl_text_into(ret_end->unverified, sizeof ret_end->unverified,
                     "no record of its processes was found");
        return;
    }
    for (int i = 0; record_read(fd, i, &record); i++) {
        struct proc_rest rest;
        if (record.magic != RECORD_MAGIC || record.state == RECORD_FREE)
            continue;
        settle_record(fd, i, &record, &rest);
        enum bl_mechanism mechanism = (enum bl_mechanism)record.mechanism;
        if (ret_end->mechanism == BL_MECHANISM_NONE || mechanism < ret_end->mechanism)
            ret_end->mechanism = mechanism;
        ret_end->processes += record.processes > 0 ? (uint32_t)record.processes : 0;
        ret_end->survivors = bl_survivors_add(ret_end->survivors, rest.survivors);
        if (rest.survivors == BL_SURVIVORS_UNKNOWN && ret_end->unverified[0] == '\0')
            bl_text_into(ret_end->unverified, sizeof ret_end->unverified, rest.unverified);
    }
    close(fd);
}
