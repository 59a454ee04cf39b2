#include "observer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <belay/base.h>

#include "place.h"

#define PROCESSES_MAX "4000" /* a whole tree with its zombies, if the controller is available */
#define KILL_TRIES    5000   /* milliseconds */
#define DEPTH_MAX     64
#define LOOKS_MAX     50 /* milliseconds, for a process that is about to exit */
#define LIST_MAX      ((size_t)64 * 1024)

static char folder[PATH_MAX - 64]; /* may be empty */
static char fifo[PATH_MAX];        /* may be empty */

static void observer_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool observer_write(const char *file, const char *value)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, value, strlen(value)) > 0;
    if (fd >= 0)
        close(fd);
    return written;
}

void observer_open(void)
{
    static const char *const options[] = {"pids", "freezer", "name=systemd"};
    char mount_point[PATH_MAX / 2];
    /* Orphans are reparented to this process: the machine's own init may be slow to reap thousands
     * of them. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; i < BL_COUNT(options) && geteuid() == 0 && folder[0] == '\0'; i++) {
        if (!place_find_mount("cgroup", options[i], mount_point, sizeof mount_point))
            continue;
        snprintf(folder, sizeof folder, "%s/belay-proof-%d", mount_point, (int)getpid());
        if (mkdir(folder, 0755) != 0)
            folder[0] = '\0';
    }
    if (folder[0] != '\0') {
        observer_write("pids.max", PROCESSES_MAX);
        return;
    }
    snprintf(fifo, sizeof fifo, "/tmp/belay-proof-%d", (int)getpid());
    if (mkfifo(fifo, 0666) != 0) {
        perror(fifo);
        exit(1);
    }
}

bool observer_counts(void)
{
    return folder[0] != '\0';
}

void observer_enter(void)
{
    if (folder[0] != '\0' && !observer_write("cgroup.procs", "0")) {
        perror(folder);
        _exit(1);
    }
}

const char *observer_tag(void)
{
    return fifo[0] != '\0' ? fifo : NULL;
}

/* Lists the living threads. Returns their number; the list is static. */
static size_t observer_threads(const pid_t **ret_threads)
{
    static char data[LIST_MAX * 8];
    static pid_t threads[LIST_MAX];
    char path[PATH_MAX];
    size_t count = 0;

    snprintf(path, sizeof path, "%s/tasks", folder);
    if (access(path, R_OK) != 0) {
        perror(path);
        exit(1);
    }
    place_read(path, data, sizeof data);
    for (char *at = data, *end; count < LIST_MAX; at = end) {
        long number = strtol(at, &end, 10);
        if (end == at)
            break;
        threads[count++] = (pid_t)number;
    }
    *ret_threads = threads;
    return count;
}

/* Reads a number from /proc/THREAD/status: "\nTgid:" is its process, "\nPPid:" the parent. 0: it
 * has ended. */
static pid_t observer_status_of(pid_t thread, const char *field)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
    place_read(path, text, sizeof text);
    const char *line = strstr(text, field);
    return line != NULL ? (pid_t)strtol(line + strlen(field), NULL, 10) : 0;
}

enum kind {
    KIND_TOOL,
    KIND_HELPER,
    KIND_UNKNOWN, /* about to exit: its memory is released already */
};

/* By the executable, because names and arguments can be changed. */
static enum kind observer_kind_of(pid_t thread)
{
    char path[64], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)thread);
    ssize_t size = readlink(path, program, sizeof program - 1);
    if (size <= 0)
        return KIND_UNKNOWN;
    program[size] = '\0';
    const char *name = strrchr(program, '/');
    bool helper =
        name != NULL && (strcmp(name, "/belay") == 0 || strcmp(name, "/belay-warden") == 0);
    return helper ? KIND_HELPER : KIND_TOOL;
}

/* Looks once. Returns the number of processes of unknown kind, which count as tools. */
static size_t observer_glance(struct observed *ret_observed)
{
    static pid_t seen[LIST_MAX];
    const pid_t *threads;
    size_t thread_count = observer_threads(&threads), count = 0, unknown = 0;

    *ret_observed = (struct observed){0};
    for (size_t i = 0; i < thread_count; i++) {
        pid_t process = observer_status_of(threads[i], "\nTgid:");
        size_t j = 0;
        while (j < count && seen[j] != process)
            j++;
        if (process == 0 || j < count)
            continue;
        enum kind kind = observer_kind_of(threads[i]);
        seen[count++] = process;
        unknown += kind == KIND_UNKNOWN;
        ret_observed->helpers += kind == KIND_HELPER;
        ret_observed->tools += kind != KIND_HELPER;
    }
    return unknown;
}

void observer_look(struct observed *ret_observed)
{
    if (folder[0] != '\0') {
        for (int i = 0; i < LOOKS_MAX && observer_glance(ret_observed) > 0; i++)
            observer_nap();
        return;
    }
    int fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    *ret_observed = (struct observed){.tools = fd >= 0};
    if (fd >= 0)
        close(fd);
}

/* Searches upwards from each tool, so that other helpers of Belay are not mistaken for it. */
pid_t observer_warden_of(pid_t belay)
{
    const pid_t *threads;
    size_t count = folder[0] != '\0' ? observer_threads(&threads) : 0;
    for (size_t i = 0; i < count; i++) {
        if (observer_kind_of(threads[i]) != KIND_TOOL)
            continue;
        pid_t pid = threads[i], parent = observer_status_of(pid, "\nPPid:");
        for (int depth = 0; depth < DEPTH_MAX && parent > 1 && parent != belay; depth++) {
            pid = parent;
            parent = observer_status_of(pid, "\nPPid:");
        }
        if (parent == belay)
            return pid;
    }
    return 0;
}

size_t observer_kill(void)
{
    struct observed observed;
    const pid_t *threads;

    observer_write("pids.max", "0");
    for (int i = 0; i < KILL_TRIES; i++) {
        size_t count = folder[0] != '\0' ? observer_threads(&threads) : 0;
        for (size_t j = 0; j < count; j++)
            kill(threads[j], SIGKILL);
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
            continue;
        observer_look(&observed);
        if (count == 0 && observed.tools == 0)
            break;
        observer_nap();
    }
    observer_write("pids.max", PROCESSES_MAX);
    return observed.tools + observed.helpers;
}

void observer_close(void)
{
    if (fifo[0] != '\0')
        unlink(fifo);
    for (int i = 0; i < KILL_TRIES && folder[0] != '\0' && rmdir(folder) != 0 && errno == EBUSY;
         i++)
        observer_nap();
}
