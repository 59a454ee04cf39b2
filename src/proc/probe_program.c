#include "parts.h"
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Relative folders are skipped: programs in the current directory do not belong to the machine. */
bool proc_program_find(const char *search, const char *name, char *out, size_t out_size)
{
    struct bl_text rest = bl_text_from(search);
    struct bl_text folder;
    struct stat status;

    while (bl_text_split(&rest, ':', &folder)) {
        if (folder.size == 0 || folder.data[0] != '/' || folder.size > PATH_MAX)
            continue;
        int size = snprintf(out, out_size, BL_TEXT_FORMAT "/%s", BL_TEXT_ARG(folder), name);
        if (size < 0 || (size_t)size >= out_size)
            continue;
        if (stat(out, &status) == 0 && S_ISREG(status.st_mode) && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

/* Starts the program in its own process group, with default signal handlers and mask. Returns 0 or
 * the errno. */
static int spawn_program(const char *const *arguments, int output_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    int result = posix_spawn(ret_pid, arguments[0], &actions, &attributes, (char *const *)arguments,
                             environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* Reads the available output without waiting. Returns false at end of file or on an error. Output
 * that does not fit is dropped, so that the program is not blocked. */
static bool probe_program_read_some(int fd, struct bl_buffer *output)
{
    char data[1024];

    for (;;) {
        ssize_t count = read(fd, data, sizeof data);
        if (count < 0)
            return errno == EAGAIN || errno == EINTR;
        if (count == 0)
            return false;
        size_t room = output->maximum - output->size;
        size_t kept = (size_t)count < room ? (size_t)count : room;
        bl_buffer_append(output, (struct bl_text){data, kept});
    }
}

/* Waits for the end of the process, not of its output, which a descendant may hold open. Returns
 * false if the time is up. */
static bool wait_end(int pidfd, int output_fd, uint64_t deadline_ns, struct bl_buffer *output)
{
    struct pollfd ready[2] = {{.fd = pidfd, .events = POLLIN}, {.fd = output_fd, .events = POLLIN}};

    for (;;) {
        uint64_t now_ns = bl_clock_now_ns(&bl_clock_system);
        if (now_ns >= deadline_ns)
            return false;
        int count = poll(ready, 2, (int)((deadline_ns - now_ns) / BL_NS_PER_MS) + 1);
        if (count < 0 && errno != EINTR)
            return false;
        /* After an interrupt or a timeout neither is ready, and the read does not block. */
        if (ready[1].revents != 0 && !probe_program_read_some(output_fd, output))
            ready[1].fd = -1;
        if (ready[0].revents != 0)
            return true;
    }
}

int proc_program_run(const char *const *arguments, int limit_ms, struct bl_buffer *output,
                     struct proc_child_end *ret_end)
{
    uint64_t deadline_ns = bl_clock_now_ns(&bl_clock_system) + (uint64_t)limit_ms * BL_NS_PER_MS;
    siginfo_t info = {0};
    pid_t pid;
    int ends[2];

    *ret_end = (struct proc_child_end){0};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    proc_probe_begin();
    int result = spawn_program(arguments, ends[1], &pid);
    close(ends[1]);
    if (result != 0) {
        proc_probe_end();
        close(ends[0]);
        return -result;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    int pidfd = pidfd_open(pid, 0);
    ret_end->timed_out = pidfd < 0 || !wait_end(pidfd, ends[0], deadline_ns, output);
    /* Until the process is reaped its pid is not reused, so this kills what it left in its group.
     */
    kill(-pid, SIGKILL);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR)
        continue;
    proc_probe_end();
    probe_program_read_some(ends[0], output);
    close(ends[0]);
    if (pidfd >= 0)
        close(pidfd);
    ret_end->by_signal = info.si_code != CLD_EXITED;
    ret_end->status = info.si_status;
    return 0;
}
