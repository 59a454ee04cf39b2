/* Starts wardens; the only code that starts a child which outlives a probe. The child shares this
 * process's memory until exec, so that the start takes the same time in a process of any size. It
 * may change nothing but its own stack. All signals are blocked meanwhile; they stay blocked in the
 * warden, which gives its command the original signal mask. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

/* The thread sanitizer treats clone as fork, and takes this process for the child afterwards: it
 * would stop tracking memory and report false races. It does not intercept this name. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNKNOWN_TO_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNKNOWN_TO_SANITIZER 1
#endif
#if defined(UNKNOWN_TO_SANITIZER)
extern int __clone(int (*child)(void *), void *stack, int flags, void *argument, ...);
#define clone __clone
#endif

#define PATH_SIZE        4096
#define CHILD_STACK_SIZE ((size_t)32 * 1024)
/* Above all descriptor numbers that a warden uses. */
#define SAFE_DESCRIPTOR 10

struct child {
    const char *path;
    char *const *arguments;
    char *const *environment;
    const char *directory;
    int fds[WARDEN_DESCRIPTORS]; /* become 0, 1, 2, lifeline, control, records; -1: /dev/null */
    int failure;                 /* errno, set by the child */
    bool failed_in_directory;
};

/* Moves all descriptors out of the way first, then each to its place, because a place may be taken
 * by another of them. Uses plain system calls: these are the child's own descriptors, but a
 * sanitizer, whose memory the child shares, would take them for this process's. */
static int arrange_descriptors(struct child *child)
{
    int safe[WARDEN_DESCRIPTORS];
    for (int i = 0; i < WARDEN_DESCRIPTORS; i++) {
        int from = child->fds[i];
        if (from < 0)
            from = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
        safe[i] = from < 0 ? -1 : fcntl(from, F_DUPFD_CLOEXEC, SAFE_DESCRIPTOR);
        if (safe[i] < 0)
            return -1;
    }
    for (int i = 0; i < WARDEN_DESCRIPTORS; i++)
        if (syscall(SYS_dup3, safe[i], i, 0) < 0)
            return -1;
    return 0;
}

/* Runs in the child, on its own stack, in the memory of this process. */
static int child_main(void *argument)
{
    struct child *child = argument;
    child->failed_in_directory = child->directory != NULL && chdir(child->directory) < 0;
    if (!child->failed_in_directory && arrange_descriptors(child) == 0)
        execve(child->path, child->arguments, child->environment);
    child->failure = errno;
    _exit(127);
}

void bl_program_find(const char *name, const char *variable, char *out, size_t size)
{
    const char *named = getenv(variable);
    char self[2048];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    /* Beside this program in the build directory; in libexec when installed, even if the
     * installation was moved. */
    static const char *const places[] = {"", "../libexec/belay/"};
    if (named != NULL && named[0] == '/') {
        snprintf(out, size, "%s", named);
        return;
    }
    while (length > 0 && self[length - 1] != '/')
        length--;
    for (size_t i = 0; length > 0 && i < BL_COUNT(places); i++) {
        snprintf(out, size, "%.*s%s%s", (int)length, self, places[i], name);
        if (access(out, X_OK) == 0)
            return;
    }
    snprintf(out, size, "%s/%s", BELAY_LIBEXEC, name);
}

static uint64_t mask_bits(const sigset_t *mask)
{
    uint64_t bits = 0;
    for (int number = 1; number < 64; number++)
        if (sigismember(mask, number) == 1)
            bits |= 1ull << number;
    return bits;
}

/* Returns the warden's arguments: the numbers, then the command's own arguments. In the arena. */
static char **warden_arguments(struct bl_arena *arena, const struct bl_warden_options *options,
                               enum bl_mechanism mechanism, const char *cgroup, int record,
                               uint64_t lease_ns, uint64_t mask)
{
    size_t count = 0;
    while (options->arguments[count] != NULL)
        count++;
    const char **arguments =
        bl_arena_zalloc(arena, (WARDEN_ARGUMENT_COMMAND + count + 1) * sizeof *arguments);
    int flags = (options->background ? WARDEN_BACKGROUND : 0) |
                (options->terminal ? WARDEN_TERMINAL : 0) |
                (options->foreground ? WARDEN_FOREGROUND : 0);
    if (mechanism == BL_MECHANISM_PIDNS && proc_container_needs_user())
        flags |= WARDEN_USER_NS;
    arguments[0] = "warden";
    const struct {
        int place;
        uint64_t number;
    } numbers[] = {
        {WARDEN_ARGUMENT_CONTAINER, (uint64_t)mechanism},
        {WARDEN_ARGUMENT_OWNER, (uint64_t)getpid()},
        {WARDEN_ARGUMENT_GRACE_MS, options->grace_ms},
        {WARDEN_ARGUMENT_MASK, mask},
        {WARDEN_ARGUMENT_MEMORY, options->memory_bytes},
        {WARDEN_ARGUMENT_PROCESSES, options->processes_max},
        {WARDEN_ARGUMENT_FLAGS, (uint64_t)flags},
        {WARDEN_ARGUMENT_LEASE, lease_ns},
    };
    for (size_t i = 0; i < BL_COUNT(numbers); i++)
        arguments[numbers[i].place] =
            bl_arena_printf(arena, "%llu", (unsigned long long)numbers[i].number).data;
    arguments[WARDEN_ARGUMENT_RECORD] = bl_arena_printf(arena, "%d", record).data;
    arguments[WARDEN_ARGUMENT_CGROUP] = cgroup;
    memcpy(arguments + WARDEN_ARGUMENT_COMMAND, options->arguments, count * sizeof *arguments);
    return (char **)arguments;
}

/* Opens the lifeline first: if this process is killed from here on, a warden that was started sees
 * it. Packets carry the credentials of their sender from the kernel. */
static int proc_start_open_ends(int lifeline[2], int control[2])
{
    if (pipe2(lifeline, O_CLOEXEC) < 0)
        return errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) == 0) {
        if (setsockopt(control[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) == 0)
            return 0;
        int code = errno;
        close(control[0]);
        close(control[1]);
        errno = code;
    }
    int code = errno;
    close(lifeline[0]);
    close(lifeline[1]);
    return code;
}

static int clone_child(struct child *child, int *ret_pidfd, pid_t *ret_pid)
{
    char *stack = bl_alloc(CHILD_STACK_SIZE);
    pid_t pid = clone(child_main, stack + CHILD_STACK_SIZE,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, child, ret_pidfd);
    int code = pid < 0 ? errno : 0;
    bl_free(stack);
    *ret_pid = pid;
    return code;
}

static int proc_start_explain(struct bl_error *error, const struct child *child, int failure)
{
    int code = bl_error_from_errno(failure);
    if (child->failed_in_directory)
        bl_error_set(error, code, BL_KIND_FILESYSTEM, "start a command", child->directory,
                     "cannot enter the directory %s: %s", child->directory, strerror(failure));
    else
        bl_error_set(error, code, BL_KIND_RUNTIME, "start a warden", child->path,
                     "cannot start %s: %s", child->path, strerror(failure));
    if (failure == ENOENT && !child->failed_in_directory)
        bl_error_hint(
            error,
            "belay-warden must be in the directory of belay, or set BELAY_WARDEN to its path");
    else if (code == BL_EMFILE)
        bl_error_hint(error, "raise the limit for open files (ulimit -n)");
    return child->failed_in_directory ? code : BL_ESYSTEM;
}

/* Starts a warden or the guard with all signals blocked, and opens the lifeline and control socket.
 */
static int start_child(struct child *child, struct proc_started *ret_started,
                       struct bl_error *error)
{
    int lifeline[2], control[2];
    int failure = proc_start_open_ends(lifeline, control);
    if (failure != 0)
        return proc_start_explain(error, child, failure);
    child->fds[WARDEN_LIFELINE] = lifeline[0];
    child->fds[WARDEN_CONTROL] = control[1];
    failure = clone_child(child, &ret_started->pidfd, &ret_started->pid);
    close(lifeline[0]);
    close(control[1]);
    ret_started->lifeline = lifeline[1];
    ret_started->control = control[0];
    if (failure == 0 && child->failure == 0)
        return 0;
    /* The child exited before it became a warden, so it is reaped; if clone failed, there is no
     * child. */
    close(lifeline[1]);
    close(control[0]);
    if (failure == 0) {
        waitid(P_PIDFD, (id_t)ret_started->pidfd, &(siginfo_t){0}, WEXITED);
        close(ret_started->pidfd);
    }
    return proc_start_explain(error, child, failure != 0 ? failure : child->failure);
}

static const char *find_warden(struct bl_arena *arena)
{
    char *path = bl_arena_alloc(arena, PATH_SIZE);
    bl_program_find("belay-warden", "BELAY_WARDEN", path, PATH_SIZE);
    return path;
}

int proc_start(const struct bl_warden_options *options, enum bl_mechanism mechanism,
               const char *cgroup, int record, uint64_t lease_ns, struct proc_started *ret_started,
               struct bl_error *error)
{
    struct bl_arena arena = {0};
    sigset_t all, before;
    struct child child = {
        .path = find_warden(&arena),
        .directory = options->directory,
        .environment = options->environment != NULL ? (char *const *)options->environment : environ,
        .fds = {options->input, options->output, options->error, -1, -1, proc_records_fd()},
    };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    child.arguments =
        warden_arguments(&arena, options, mechanism, cgroup, record, lease_ns, mask_bits(&before));
    int code = start_child(&child, ret_started, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bl_arena_done(&arena);
    return code;
}

/* The environment is empty: the guard needs none, and other processes could read it. */
int proc_start_guard(int records, struct proc_started *ret_started, struct bl_error *error)
{
    struct bl_arena arena = {0};
    sigset_t all, before;
    const char *arguments[] = {"warden-guard", "guard",
                               bl_arena_printf(&arena, "%d", (int)getpid()).data, NULL};
    struct child child = {
        .path = find_warden(&arena),
        .arguments = (char *const *)arguments,
        .environment = (char *const[]){NULL},
        .directory = "/",
        .fds = {-1, -1, -1, -1, -1, records},
    };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = start_child(&child, ret_started, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        close(ret_started->control);
        ret_started->control = -1;
    }
    bl_arena_done(&arena);
    return code;
}

int proc_start_refused(int failure, enum warden_stage stage, const char *command,
                       struct bl_error *error)
{
    static const char *const stages[] = {
        [WARDEN_STAGE_START] = "start a process",
        [WARDEN_STAGE_CGROUP] = "create a cgroup",
        [WARDEN_STAGE_NAMESPACE] = "create a PID namespace",
        [WARDEN_STAGE_LIMIT] = "limit memory",
        [WARDEN_STAGE_TERMINAL] = "open the controlling terminal",
        [WARDEN_STAGE_PROC] = "read /proc",
        [WARDEN_STAGE_EXEC] = "execute it",
    };
    int code = bl_error_from_errno(failure);
    if (stage == WARDEN_STAGE_EXEC) {
        bool missing = failure == ENOENT || failure == ENOTDIR;
        code = missing ? BL_ENOENT : BL_EACCES;
        bl_error_set(error, code, BL_KIND_TOOL, "start a command", command, "%s: %s", command,
                     missing ? "command not found" : strerror(failure));
        bl_error_hint(error, missing ? "check the name and PATH"
                                     : "the file must be executable (chmod +x)");
        return code;
    }
    if (stage == WARDEN_STAGE_LEASE)
        return bl_error_set(error, BL_EREFUSED, BL_KIND_RUNTIME, "start a command", command,
                            "%s was not started: the lease of this process has ended", command);
    if (stage == WARDEN_STAGE_CGROUP || stage == WARDEN_STAGE_NAMESPACE)
        code = BL_ENOTSUP;
    bl_error_set(error, code, BL_KIND_RUNTIME, stages[stage], command, "cannot %s: %s",
                 stages[stage], strerror(failure));
    bl_error_hint(error, "run 'belay doctor' to check this machine");
    return code;
}
