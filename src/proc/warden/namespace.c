#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool namespace_write_file(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write(fd, value, strlen(value)) >= 0;
    close(fd);
    return written;
}

/* Maps the user and group to themselves, so that the command keeps its identity. */
static bool namespace_map_user(uid_t uid, gid_t gid)
{
    char map[64];
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    bool mapped = namespace_write_file("/proc/self/setgroups", "deny") &&
                  namespace_write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    return mapped && namespace_write_file("/proc/self/gid_map", map);
}

/* Reaps until no child is left. The namespace dies with this process. */
static _Noreturn void namespace_reap(pid_t command, int status_fd)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            exit(0);
        if (pid == command && write(status_fd, &status, sizeof status) < 0)
            exit(1);
    }
}

/* Mounts /proc after unmounting all inherited ones, so that a command that unmounts it does not
 * find the machine's /proc below it. In a user namespace the inherited mounts are locked and stay.
 * But there the command cannot unmount this one: it has no capability in that namespace, and in a
 * namespace of its own this mount is locked as well. */
static bool namespace_mount_proc(void)
{
    while (umount2("/proc", MNT_DETACH) == 0)
        continue;
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

_Noreturn void namespace_init(const struct start *start, int status_fd, uid_t uid, gid_t gid)
{
    /* When the warden dies, so does this process, and then the kernel kills all others. The warden
     * may have died before: then the pipe has no reader. */
    int alive = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "warden-init");
    if (write(status_fd, &alive, sizeof alive) < 0)
        exit(1);
    if ((start->flags & WARDEN_USER_NS) != 0 && !namespace_map_user(uid, gid))
        start_failed(start, errno, WARDEN_STAGE_NAMESPACE);
    prctl(PR_SET_DUMPABLE, 0);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || !namespace_mount_proc())
        start_failed(start, errno, WARDEN_STAGE_NAMESPACE);
    pid_t command = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (command < 0)
        start_failed(start, errno, WARDEN_STAGE_START);
    if (command == 0) {
        prctl(PR_SET_DUMPABLE, 1);
        start_command(start);
    }
    /* The command's own copies decide when its streams end, and when it has started. */
    close(start->failure_fd);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    namespace_reap(command, status_fd);
}
