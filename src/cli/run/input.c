#include "input.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/base.h>

#define ANCESTORS_MAX 64u

bool run_input_may_come(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);

    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && isatty(STDIN_FILENO) != 1;
}

bool run_input_has_begun(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&input, 1, 0) == 1;
}

/* ---- Writers of a pipe ----------------------------------------------------------------------- */

/* Returns the parent of a process, or 0 if it has none or has exited. The name of a program may
 * contain any character, even ')'. */
static pid_t input_parent_of(pid_t pid)
{
    char path[32], text[512];
    int parent = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *end = strrchr(text, ')');
    if (end != NULL && strlen(end) > 4)
        parent = (int)strtol(end + 4, NULL, 10);
    return parent > 0 ? parent : 0;
}

static bool input_is_ancestor(pid_t pid)
{
    pid_t above = getpid();

    for (unsigned i = 0; i < ANCESTORS_MAX && above > 0; i++) {
        if (above == pid)
            return true;
        above = input_parent_of(above);
    }
    return false;
}

/* True if the process has the pipe open for writing: the modes of the links in /proc/PID/fd are
 * those in which the descriptors are open. */
static bool input_is_written_by(pid_t pid, const struct stat *input)
{
    char path[32];
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
        struct stat link, target;
        found = fstatat(dirfd(folder), entry->d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(link.st_mode) && (link.st_mode & S_IWUSR) != 0 &&
                fstatat(dirfd(folder), entry->d_name, &target, 0) == 0 &&
                target.st_dev == input->st_dev && target.st_ino == input->st_ino;
    }
    closedir(folder);
    return found;
}

bool run_input_is_of_pipeline(void)
{
    struct stat input;
    bool found = false;

    if (fstat(STDIN_FILENO, &input) != 0 || !S_ISFIFO(input.st_mode))
        return false;
    DIR *folder = opendir("/proc");
    if (folder == NULL)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = pid > 0 && getsid(pid) == getsid(0) && input_is_written_by(pid, &input) &&
                !input_is_ancestor(pid);
    }
    closedir(folder);
    return found;
}
