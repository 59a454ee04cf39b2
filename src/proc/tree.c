#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Time limit for one look. It takes microseconds for each process. */
#define LOOK_US_MAX  TREE_LOOK_US
#define QUICK_PASSES 4
/* A process that has run for this time is not a helper that is about to end. */
#define HELPER_RUN_NS 50000000u

/* ---- Opening /proc ----------------------------------------------------------------------------
 */

int tree_view_open(struct tree_view *ret_view)
{
    char path[64];
    *ret_view = (struct tree_view){-1, -1};
    ret_view->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret_view->proc < 0)
        return errno;
    /* Orphans are reparented to the main thread while it lives. */
    snprintf(path, sizeof path, "%d/task/%d/children", (int)getpid(), (int)getpid());
    ret_view->children = openat(ret_view->proc, path, O_RDONLY | O_CLOEXEC);
    return 0;
}

static uint64_t tree_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void tree_fail(struct tree *tree, int error)
{
    if (tree->error == 0)
        tree->error = error;
}

/* If memory is short, a process that cannot be stored is killed at once, so that it does not
 * survive. */
void tree_push(struct tree *tree, pid_t pid)
{
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity == 0 ? 64 : tree->capacity * 2;
        pid_t *pids = realloc(tree->pids, capacity * sizeof *pids);
        if (pids == NULL) {
            tree_fail(tree, ENOMEM);
            kill(pid, SIGKILL);
            return;
        }
        tree->pids = pids;
        tree->capacity = capacity;
    }
    tree->pids[tree->count++] = pid;
}

void tree_done(struct tree *tree)
{
    free(tree->pids);
    *tree = (struct tree){0};
}

/* ---- Children -------------------------------------------------------------------------------- */

/* Reads a list of numbers, each followed by a space or a newline. */
void tree_add_list(struct tree *tree, int fd)
{
    char data[4096];
    long number = 0;
    off_t offset = 0;
    ssize_t size;
    while ((size = pread(fd, data, sizeof data, offset)) > 0) {
        offset += size;
        for (ssize_t i = 0; i < size; i++) {
            if (data[i] >= '0' && data[i] <= '9') {
                number = number * 10 + (data[i] - '0');
            } else if (number > 0) {
                tree_push(tree, (pid_t)number);
                number = 0;
            }
        }
    }
    /* ESRCH: the process has ended, and its children have another parent. */
    if (size < 0 && errno != ESRCH)
        tree_fail(tree, errno);
}

/* True if a process has ended. Its entry in /proc is then missing; but where /proc hides other
 * users' processes (hidepid=2), the entry is missing while the process exists. */
static bool tree_is_gone(pid_t pid, int error)
{
    return (error == ENOENT || error == ESRCH) && kill(pid, 0) < 0 && errno == ESRCH;
}

static void tree_read_thread(const struct tree_view *view, struct tree *tree, pid_t pid,
                             const char *thread)
{
    char path[64];
    snprintf(path, sizeof path, "%d/task/%.16s/children", (int)pid, thread);
    int fd = openat(view->proc, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        tree_add_list(tree, fd);
        close(fd);
    } else if ((errno != ENOENT && errno != ESRCH) || view->children < 0) {
        tree_fail(tree, errno); /* a thread may end; a kernel without lists has none at all */
    }
}

static void tree_read_threads(const struct tree_view *view, struct tree *tree, pid_t pid,
                              const char *path)
{
    int fd = openat(view->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (directory == NULL) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        if (!tree_is_gone(pid, error))
            tree_fail(tree, error);
        return;
    }
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            tree_read_thread(view, tree, pid, entry->d_name);
    closedir(directory);
}

/* Most processes have one thread; the link count of the task directory shows that without reading
 * it. */
void tree_add_children(const struct tree_view *view, struct tree *tree, pid_t pid)
{
    char path[64], thread[16];
    struct stat status;
    snprintf(path, sizeof path, "%d/task", (int)pid);
    if (fstatat(view->proc, path, &status, 0) < 0) {
        int error = errno;
        if (!tree_is_gone(pid, error))
            tree_fail(tree, error);
        return;
    }
    if (status.st_nlink <= 3) {
        snprintf(thread, sizeof thread, "%d", (int)pid);
        tree_read_thread(view, tree, pid, thread);
        return;
    }
    tree_read_threads(view, tree, pid, path);
}

/* True if the time is up: following processes that fork and exit in a loop might never end. */
static bool tree_is_late(struct tree *tree)
{
    if (tree->until_us == 0 || tree_now_us() < tree->until_us)
        return false;
    tree_fail(tree, ETIME);
    return true;
}

void tree_complete(const struct tree_view *view, struct tree *tree)
{
    for (size_t i = 0; i < tree->count && !tree_is_late(tree); i++)
        tree_add_children(view, tree, tree->pids[i]);
}

/* ---- One process ----------------------------------------------------------------------------- */

/* Fields of /proc/PID/stat, counted from 1. */
enum {
    STAT_STATE = 3,
    STAT_PARENT = 4,
    STAT_THREADS = 20,
    STAT_STARTED = 22,
    STAT_FIELDS,
};

/* Reads the fields of /proc/PID/stat after the last ')' of the name, which may contain any
 * character. Returns 0 or the errno. */
static int tree_read_stat(const struct tree_view *view, pid_t pid, char *ret_state,
                          unsigned long long ret_fields[STAT_FIELDS])
{
    char path[32], data[1024];
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    int fd = openat(view->proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    ssize_t size = read(fd, data, sizeof data - 1);
    int error = size < 0 ? errno : ESRCH;
    close(fd);
    if (size <= 0)
        return error;
    data[size] = '\0';
    char *at = strrchr(data, ')');
    if (at == NULL || at[1] != ' ')
        return EIO;
    *ret_state = at[2];
    at += 3;
    for (int field = STAT_PARENT; field < STAT_FIELDS; field++)
        ret_fields[field] = strtoull(at, &at, 10);
    return 0;
}

enum tree_life tree_life_of(const struct tree_view *view, pid_t pid, char *ret_state)
{
    unsigned long long fields[STAT_FIELDS];
    char state = '?';
    int error = tree_read_stat(view, pid, &state, fields);
    if (ret_state != NULL)
        *ret_state = state;
    if (error != 0)
        return tree_is_gone(pid, error) ? TREE_DEAD : TREE_UNKNOWN;
    bool ended = state == 'Z' || state == 'X' || state == 'x';
    return ended && fields[STAT_THREADS] <= 1 ? TREE_DEAD : TREE_ALIVE;
}

unsigned long long tree_started(const struct tree_view *view, pid_t pid)
{
    unsigned long long fields[STAT_FIELDS];
    char state;
    return tree_read_stat(view, pid, &state, fields) == 0 ? fields[STAT_STARTED] : 0;
}

void tree_work(const struct tree_view *view, pid_t pid, uint64_t *ret_run_ns, uint64_t *ret_turns)
{
    char path[32], data[96] = "", *at = data;
    *ret_run_ns = *ret_turns = 0;
    snprintf(path, sizeof path, "%d/schedstat", (int)pid);
    int fd = openat(view->proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, data, sizeof data - 1) > 0) {
        *ret_run_ns = strtoull(at, &at, 10);
        strtoull(at, &at, 10);
        *ret_turns = strtoull(at, &at, 10);
    }
    close(fd);
}

void tree_search_children(const struct tree_view *view, struct tree *tree, pid_t parent)
{
    unsigned long long fields[STAT_FIELDS];
    struct dirent *entry;
    char state, *end;
    int fd = openat(view->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        tree_fail(tree, errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        long pid = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && pid > 0 && tree_read_stat(view, (pid_t)pid, &state, fields) == 0 &&
            fields[STAT_PARENT] == (unsigned long long)parent)
            tree_push(tree, (pid_t)pid);
    }
    closedir(directory);
}

void tree_add_own(const struct tree_view *view, struct tree *tree)
{
    if (view->children >= 0)
        tree_add_list(tree, view->children);
    else
        tree_search_children(view, tree, getpid());
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* Returns the target for signals to `pid`: its whole process group, in one call. That reaches a
 * fork bomb and a child that is being forked: the kernel delivers to the child what its group
 * receives meanwhile, but not a signal for the parent alone. If its session is not ours, the
 * session began below us, and all of the group are our descendants. The session is read first: once
 * a process has left our session, its group is never ours again. */
static pid_t tree_target(pid_t pid)
{
    pid_t session = getsid(pid);
    pid_t group = getpgid(pid);
    return session > 0 && session != getsid(0) && group > 1 ? -group : pid;
}

/* Sends the signal once to the target of `pid`, and records the target. */
static void tree_send(struct tree *sent, pid_t pid, int signal)
{
    pid_t target = tree_target(pid);
    for (size_t i = sent->count; i > 0; i--)
        if (sent->pids[i - 1] == target)
            return;
    kill(target, signal);
    tree_push(sent, target);
}

static void tree_send_all(const struct tree *targets, int signal)
{
    for (size_t i = 0; i < targets->count; i++)
        kill(targets->pids[i], signal);
}

/* Kills the processes from index `first` on, each with its group and also by itself, since it may
 * have changed its group. */
static void tree_kill_all(const struct tree *tree, size_t first)
{
    struct tree sent = {0};
    for (size_t i = first; i < tree->count; i++) {
        kill(tree->pids[i], SIGKILL);
        tree_send(&sent, tree->pids[i], SIGKILL);
    }
    tree_done(&sent);
}

void tree_kill(const struct tree_view *view, struct tree *tree)
{
    size_t level = 0;
    while (level < tree->count && !tree_is_late(tree)) {
        size_t end = tree->count;
        tree_kill_all(tree, level);
        for (size_t i = level; i < end && !tree_is_late(tree); i++)
            tree_add_children(view, tree, tree->pids[i]);
        level = end;
    }
}

static struct tree_count tree_count_living(const struct tree_view *view, struct tree *tree,
                                           pid_t except)
{
    struct tree_count count = {0};
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->pids[i] == except)
            continue;
        switch (tree_is_late(tree) ? TREE_UNKNOWN : tree_life_of(view, tree->pids[i], NULL)) {
        case TREE_ALIVE:
            count.living++;
            count.digest += (uint64_t)tree->pids[i] * 0x9e3779b97f4a7c15u;
            break;
        case TREE_DEAD: break;
        case TREE_UNKNOWN:
            count.unseen++;
            tree_fail(tree, EACCES);
            break;
        }
    }
    count.error = tree->error;
    return count;
}

void tree_send_each(const struct tree *tree, int signal)
{
    for (size_t i = tree->count; i > 0; i--) {
        kill(-tree->pids[i - 1], signal);
        kill(tree->pids[i - 1], signal);
    }
}

static int tree_open_in(const char *folder, const char *name, int flags)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC);
}

void tree_kill_cgroup(const char *path)
{
    struct tree members = {0};
    int fd = tree_open_in(path, "cgroup.kill", O_WRONLY);
    if (fd >= 0 && write(fd, "1", 1) < 0)
        errno = 0;
    if (fd >= 0)
        close(fd);
    fd = tree_open_in(path, "cgroup.procs", O_RDONLY);
    if (fd >= 0) {
        tree_add_list(&members, fd);
        close(fd);
    }
    for (size_t i = 0; i < members.count; i++)
        kill(members.pids[i], SIGKILL);
    tree_done(&members);
}

/* Sends a signal to the children of this process, or to those of `init`, the init of a namespace,
 * if it is not 0. `tree` contains the children afterwards.
 *
 * Processes that fork and exit in a loop leave this process as many zombies as it does not reap,
 * and a look at each of them comes too late. So the children are signalled without checking,
 * youngest first, since those alive are last in the list; each with the group that it may lead,
 * which includes a child that it is forking. One pass reaches all except those that ran on another
 * CPU meanwhile; the next passes reach these. */
static void tree_send_children(const struct tree_view *view, struct tree *tree, pid_t init,
                               int signal)
{
    for (int pass = 0; pass < QUICK_PASSES; pass++) {
        size_t before = tree->count;
        tree->count = 0;
        if (init != 0)
            tree_add_children(view, tree, init);
        else
            tree_add_own(view, tree);
        tree_send_each(tree, signal);
        if (tree->count == 0 || (pass > 0 && tree->count == before))
            return;
    }
}

/* ---- All descendants of this process -----------------------------------------------------------
 */

struct tree_count tree_count_own(const struct tree_view *view, pid_t except, uint64_t limit_us)
{
    struct tree tree = {.until_us = tree_now_us() + limit_us};
    tree_add_own(view, &tree);
    tree_complete(view, &tree);
    struct tree_count count = tree_count_living(view, &tree, except);
    tree_done(&tree);
    return count;
}

bool tree_waits_own(const struct tree_view *view, pid_t except, uint64_t limit_us)
{
    struct tree tree = {.until_us = tree_now_us() + limit_us};
    bool waits = false;
    tree_add_own(view, &tree);
    tree_complete(view, &tree);
    for (size_t i = 0; i < tree.count && !waits && !tree_is_late(&tree); i++) {
        uint64_t run_ns, turns;
        char state;
        if (tree.pids[i] == except || tree_life_of(view, tree.pids[i], &state) != TREE_ALIVE ||
            (state != 'R' && state != 'D'))
            continue;
        tree_work(view, tree.pids[i], &run_ns, &turns);
        waits = turns > 0 && run_ns < HELPER_RUN_NS;
    }
    tree_done(&tree);
    return waits;
}

/* Stops each process except `except` before its children are read, so that none can appear or end
 * unseen. */
struct tree_count tree_signal_own(const struct tree_view *view, int signal, pid_t except)
{
    struct tree tree = {.until_us = tree_now_us() + LOOK_US_MAX}, frozen = {0};
    tree_freeze_own(view, except);
    tree_add_own(view, &tree);
    for (size_t i = 0; i < tree.count && !tree_is_late(&tree); i++) {
        if (tree.pids[i] != except)
            tree_send(&frozen, tree.pids[i], SIGSTOP);
        tree_add_children(view, &tree, tree.pids[i]);
    }
    struct tree_count count = tree_count_living(view, &tree, except);
    /* A process may have changed its group before it was stopped. */
    for (size_t i = 0; i < tree.count; i++)
        if (tree.pids[i] != except)
            tree_send(&frozen, tree.pids[i], SIGSTOP);
    tree_send_all(&frozen, signal);
    tree_send_all(&frozen, SIGCONT);
    tree_done(&tree);
    tree_done(&frozen);
    return count;
}

void tree_continue_own(const struct tree_view *view)
{
    struct tree tree = {.until_us = tree_now_us() + LOOK_US_MAX};
    tree_add_own(view, &tree);
    tree_complete(view, &tree);
    for (size_t i = 0; i < tree.count; i++) {
        char state;
        if (tree_life_of(view, tree.pids[i], &state) == TREE_ALIVE && state == 'T')
            kill(tree.pids[i], SIGCONT);
    }
    tree_done(&tree);
}

void tree_freeze_own(const struct tree_view *view, pid_t except)
{
    struct tree tree = {0};
    tree_send_children(view, &tree, except, SIGSTOP);
    tree_done(&tree);
}

size_t tree_kill_own(const struct tree_view *view)
{
    struct tree tree = {.until_us = tree_now_us() + LOOK_US_MAX};
    tree_send_children(view, &tree, 0, SIGKILL);
    tree_kill(view, &tree);
    size_t count = tree.count;
    tree_done(&tree);
    return count;
}
