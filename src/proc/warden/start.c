/* The steps from the warden's child to the command. */
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void start_failed(const struct start *start, int code, enum warden_stage stage)
{
    struct warden_message message = {.type = WARDEN_FAILED,
                                     .failed = {.code = code, .stage = (int32_t)stage}};
    if (write(start->failure_fd, &message, sizeof message) < 0)
        _exit(126);
    _exit(127);
}

/* Closes the warden's descriptors and makes this process dumpable again. Until then its files in
 * /proc belong to root, and some of them must be written. The descriptors are closed first, because
 * a dumpable process can be inspected by others. */
void start_shed(struct start *start, int *keep)
{
    int next = WARDEN_LIFELINE;
    int *kept[] = {&start->failure_fd, keep};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i] == NULL || *kept[i] < 0)
            continue;
        /* Numbers only become smaller, so no descriptor that is still needed is overwritten. */
        if (*kept[i] != next && dup3(*kept[i], next, O_CLOEXEC) >= 0)
            *kept[i] = next;
        next++;
    }
    close_range((unsigned)next, ~0u, 0);
    prctl(PR_SET_DUMPABLE, 1);
}

/* Makes the out-of-memory killer choose a tool before the warden or Belay. A failure is ignored. */
static void start_volunteer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "800", 3) < 0) {
        close(fd);
        return;
    }
    close(fd);
}

/* Executes the file. A script without an interpreter line runs in the shell. Returns the errno. */
static int start_execute_file(const char *path, char **arguments)
{
    execve(path, arguments, environ);
    if (errno != ENOEXEC)
        return errno;
    size_t count = 0;
    while (arguments[count] != NULL)
        count++;
    char **shell = calloc(count + 2, sizeof *shell);
    if (shell == NULL)
        return ENOMEM;
    shell[0] = (char *)"sh";
    shell[1] = (char *)path;
    memcpy(shell + 2, arguments + 1, count * sizeof *shell);
    execve("/bin/sh", shell, environ);
    return errno;
}

/* Looks the command up in PATH as a shell does. A folder that cannot be searched is skipped; only a
 * file that exists and is not executable is EACCES. (execvp does not distinguish these.) */
static int start_execute(char **arguments)
{
    const char *path = getenv("PATH");
    char candidate[4096];
    int code = ENOENT;
    if (strchr(arguments[0], '/') != NULL)
        return start_execute_file(arguments[0], arguments);
    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (*path != '\0') {
        size_t length = strcspn(path, ":");
        int size = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)length, path,
                            length > 0 ? "/" : "./", arguments[0]);
        if (size > 0 && (size_t)size < sizeof candidate) {
            int failure = start_execute_file(candidate, arguments);
            struct stat status;
            if (failure != ENOENT && failure != ENOTDIR && stat(candidate, &status) == 0 &&
                S_ISREG(status.st_mode))
                code = failure;
        }
        path += length + (path[length] == ':');
    }
    return code;
}

_Noreturn void start_command(const struct start *start)
{
    /* Its own session, so that signals for its process group do not reach the warden. A foreground
     * command keeps Belay's session, and the warden takes its own group (see warden_protect). */
    if ((start->flags & WARDEN_FOREGROUND) == 0)
        setsid();
    if ((start->flags & WARDEN_TERMINAL) != 0 && ioctl(0, TIOCSCTTY, 0) < 0)
        start_failed(start, errno, WARDEN_STAGE_TERMINAL);
    struct rlimit limit = {start->memory_bytes, start->memory_bytes};
    if (start->memory_bytes > 0 && setrlimit(RLIMIT_AS, &limit) < 0)
        start_failed(start, errno, WARDEN_STAGE_LIMIT);
    start_volunteer_for_oom();
    sigset_t mask;
    sigemptyset(&mask);
    for (int number = 1; number < 64; number++)
        if ((start->mask >> number & 1) != 0)
            sigaddset(&mask, number);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    start_failed(start, start_execute(start->arguments), WARDEN_STAGE_EXEC);
}
