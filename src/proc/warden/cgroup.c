#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A warden has one. */
static char cgroup_path[PATH_MAX];
static int cgroup_fd = -1;

/* Returns 0 or the errno. */
static int write_file(const char *name, const char *value)
{
    int fd = openat(cgroup_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int code = write(fd, value, strlen(value)) < 0 ? errno : 0;
    close(fd);
    return code;
}

int cgroup_open(const char *path, uint64_t memory_bytes, uint64_t processes_max, int *ret_limits)
{
    char value[32];
    int length = snprintf(cgroup_path, sizeof cgroup_path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof cgroup_path)
        return -ENAMETOOLONG;
    if (mkdir(cgroup_path, 0755) < 0)
        return -errno;
    cgroup_fd = open(cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup_fd < 0) {
        int code = -errno;
        rmdir(cgroup_path);
        return code;
    }
    *ret_limits = 0;
    snprintf(value, sizeof value, "%llu", (unsigned long long)memory_bytes);
    if (memory_bytes > 0 && write_file("memory.max", value) == 0) {
        write_file("memory.swap.max", "0");
        *ret_limits |= 1;
    }
    snprintf(value, sizeof value, "%llu", (unsigned long long)processes_max);
    if (processes_max > 0 && write_file("pids.max", value) == 0)
        *ret_limits |= 2;
    return cgroup_fd;
}

bool cgroup_kill(void)
{
    return write_file("cgroup.kill", "1") == 0;
}

bool cgroup_populated(void)
{
    char data[256];
    int fd = openat(cgroup_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, data, sizeof data - 1);
    close(fd);
    if (size <= 0)
        return false;
    data[size] = '\0';
    return strstr(data, "populated 1") != NULL;
}

/* A belay inside may have made cgroups of its own, and was killed before it removed them. */
static void remove_below(const char *path, int depth)
{
    char below[PATH_MAX];
    DIR *directory = depth > 0 ? opendir(path) : NULL;
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        int length = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && length > 0 &&
            (size_t)length < sizeof below)
            remove_below(below, depth - 1);
    }
    if (directory != NULL)
        closedir(directory);
    /* The last process may still be on its way out of it. */
    for (int i = 0; i < 200 && rmdir(path) < 0 && errno == EBUSY; i++)
        usleep(500);
}

void cgroup_close(void)
{
    if (cgroup_fd < 0)
        return;
    close(cgroup_fd);
    cgroup_fd = -1;
    remove_below(cgroup_path, 8);
}
