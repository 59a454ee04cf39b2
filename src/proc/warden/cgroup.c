#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX     64
#define REMOVE_US_MAX 100000

/* The cgroup of this warden. What killing and the proof need is opened when the cgroup is created:
 * the command may lower the warden's descriptor limit, or mount something over the path. */
static struct {
    char path[PATH_MAX];
    int directory;
    int kill;   /* -1: the kernel has no such file */
    int freeze; /* the same */
    int events;
    int members;
} cgroup = {.directory = -1};

/* Returns 0 or the errno. */
static int cgroup_write_file(const char *name, const char *value)
{
    int fd = openat(cgroup.directory, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int code = write(fd, value, strlen(value)) < 0 ? errno : 0;
    close(fd);
    return code;
}

static void cgroup_limit(uint64_t memory_bytes, uint64_t processes_max, int *ret_limits)
{
    char value[32];
    *ret_limits = 0;
    snprintf(value, sizeof value, "%llu", (unsigned long long)memory_bytes);
    if (memory_bytes > 0 && cgroup_write_file("memory.max", value) == 0) {
        cgroup_write_file("memory.swap.max", "0");
        *ret_limits |= 1;
    }
    snprintf(value, sizeof value, "%llu", (unsigned long long)processes_max);
    if (processes_max > 0 && cgroup_write_file("pids.max", value) == 0)
        *ret_limits |= 2;
}

int cgroup_open(const char *path, uint64_t memory_bytes, uint64_t processes_max, int *ret_limits)
{
    int length = snprintf(cgroup.path, sizeof cgroup.path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof cgroup.path)
        return -ENAMETOOLONG;
    if (mkdir(cgroup.path, 0755) < 0)
        return -errno;
    cgroup.directory = open(cgroup.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup.directory >= 0) {
        cgroup.kill = openat(cgroup.directory, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        cgroup.freeze = openat(cgroup.directory, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
        cgroup.members = openat(cgroup.directory, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        cgroup.events = openat(cgroup.directory, "cgroup.events", O_RDONLY | O_CLOEXEC);
    }
    if (cgroup.directory < 0 || cgroup.events < 0) {
        int code = -errno;
        rmdir(cgroup.path);
        return code;
    }
    cgroup_limit(memory_bytes, processes_max, ret_limits);
    return cgroup.directory;
}

/* Kills each member with a signal to the process. cgroup.kill signals the main thread, and so
 * misses a process whose main thread has exited (seen on Linux 6.18). */
static void cgroup_kill_members(void)
{
    struct tree members = {0};
    if (cgroup.members >= 0)
        tree_add_list(&members, cgroup.members);
    for (size_t i = 0; i < members.count; i++)
        if (members.pids[i] != getpid())
            kill(members.pids[i], SIGKILL);
    tree_done(&members);
}

/* Writes 1 to a control file. Returns false if there is no such file or the write fails. */
static bool cgroup_ask(int fd)
{
    return fd >= 0 && write(fd, "1", 1) == 1;
}

void cgroup_kill(bool freeze)
{
    if (freeze)
        cgroup_ask(cgroup.freeze);
    if (!cgroup_ask(cgroup.kill) || freeze)
        cgroup_kill_members();
}

int cgroup_populated(void)
{
    char data[256];
    ssize_t size = pread(cgroup.events, data, sizeof data - 1, 0);
    /* The cgroup was removed, so it is empty. */
    if (size < 0 && errno == ENODEV)
        return 0;
    if (size < 0)
        return -errno;
    data[size] = '\0';
    if (strstr(data, "populated 0") != NULL)
        return 0;
    return strstr(data, "populated 1") != NULL ? 1 : -EIO;
}

/* Removes a cgroup and those below it, which a Belay inside may have left if it was killed. Other
 * programs may create too many or too deep cgroups to remove them all in time: those left at
 * `until_us` stay, and are empty. */
static void cgroup_remove(const char *path, int depth, uint64_t until_us)
{
    char below[PATH_MAX];
    DIR *directory = depth > 0 ? opendir(path) : NULL;
    struct dirent *entry;
    while (directory != NULL && warden_now_us() < until_us &&
           (entry = readdir(directory)) != NULL) {
        int length = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && length > 0 &&
            (size_t)length < sizeof below)
            cgroup_remove(below, depth - 1, until_us);
    }
    if (directory != NULL)
        closedir(directory);
    /* The last process may not have left it yet. */
    while (rmdir(path) < 0 && errno == EBUSY && warden_now_us() < until_us)
        usleep(500);
}

void cgroup_close(void)
{
    if (cgroup.directory < 0)
        return;
    const int fds[] = {cgroup.directory, cgroup.kill, cgroup.freeze, cgroup.events, cgroup.members};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    cgroup.directory = -1;
    cgroup_remove(cgroup.path, DEPTH_MAX, warden_now_us() + REMOVE_US_MAX);
}
