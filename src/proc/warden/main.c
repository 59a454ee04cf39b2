/* The warden: holds one command and its whole process tree.
 *
 * Design notes.
 *
 * The warden is a child of Belay with its own session, signal mask and name, so that neither Ctrl-C
 * nor pkill reaches it. It is a subreaper, so that it is an ancestor of everything that the command
 * starts, even after a new session or a double fork. It waits for the end of Belay, a message from
 * Belay, the end of a child, the end of a grace period, and the end of its lease (hold.c).
 *
 * It defends itself, because the command runs as the same user and may be hostile:
 * - It is not dumpable, so that a process without CAP_SYS_PTRACE can neither trace it nor copy its
 *   descriptors.
 * - What killing and the proof need is opened before the command starts. A descriptor limit that is
 *   lowered later (prlimit), or a file system mounted over /proc, has no effect.
 * - Belay's end is detected by a pidfd as well as by the lifeline, and the kernel continues a
 *   stopped warden when Belay dies (PR_SET_PDEATHSIG).
 * - Its messages count only if the kernel names it as their sender, and its last message only if it
 *   then exits with 0.
 *
 * The same program is the guard (guard.c). */
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t warden_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int warden_watch_new(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

void warden_watch(int watch, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0)
        epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event);
}

void warden_unwatch(int watch, int fd)
{
    if (fd >= 0)
        epoll_ctl(watch, EPOLL_CTL_DEL, fd, NULL);
}

int warden_news(int watch, int timeout_ms, int ret_fds[WARDEN_NEWS_MAX])
{
    struct epoll_event events[WARDEN_NEWS_MAX];
    int count = epoll_wait(watch, events, WARDEN_NEWS_MAX, timeout_ms);
    for (int i = 0; i < count; i++)
        ret_fds[i] = events[i].data.fd;
    return count < 0 ? 0 : count;
}

static uint64_t warden_number(const char *text)
{
    return strtoull(text, NULL, 10);
}

/* ---- Belay ----------------------------------------------------------------------------------- */

/* Opens a pidfd of Belay. If the parent is a process other than Belay, this process was reparented
 * and Belay has ended. The parent is checked before and after, so that the descriptor is Belay's.
 * Returns false if Belay has ended. */
static bool owner_open(struct owner *owner, pid_t pid)
{
    owner->pidfd = -1;
    if (getppid() != pid)
        return false;
    owner->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return getppid() == pid;
}

/* True if the lifeline or the pidfd reports Belay's end. */
static bool owner_ended(const struct owner *owner)
{
    struct pollfd fds[] = {{.fd = WARDEN_LIFELINE, .events = POLLIN},
                           {.fd = owner->pidfd, .events = POLLIN}};
    int count;
    /* An interrupted call has reported nothing. */
    while ((count = poll(fds, 2, 0)) < 0 && errno == EINTR)
        continue;
    return count != 0;
}

/* ---- The command ----------------------------------------------------------------------------- */

static long warden_clone(uint64_t flags, int cgroup)
{
    struct clone_args arguments = {
        .flags = flags | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .exit_signal = SIGCHLD,
        .cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0u,
    };
    return syscall(SYS_clone3, &arguments, sizeof arguments);
}

/* Runs in the child. */
static _Noreturn void warden_become(struct start *start, int status_fd, uid_t uid, gid_t gid)
{
    bool namespace = status_fd >= 0;
    start_shed(start, namespace ? &status_fd : NULL);
    if (namespace)
        namespace_init(start, status_fd, uid, gid);
    start_command(start);
}

/* Starts the command in its container. Returns 0, or an errno and the stage that failed. */
static int warden_start(struct hold *hold, struct start *start, enum warden_stage *ret_stage)
{
    struct hold_options *options = &hold->options;
    int cgroup_fd = -1, limits = 0, status_ends[2] = {-1, -1};
    uint64_t flags = 0;
    *ret_stage = WARDEN_STAGE_START;
    if (options->container == WARDEN_CGROUP2) {
        cgroup_fd =
            cgroup_open(options->cgroup, start->memory_bytes, options->processes_max, &limits);
        *ret_stage = WARDEN_STAGE_CGROUP;
        if (cgroup_fd < 0)
            return -cgroup_fd;
    }
    if ((limits & 1) != 0)
        start->memory_bytes = 0;
    if ((limits & 2) != 0)
        options->processes_max = 0;
    if (options->container == WARDEN_PIDNS) {
        *ret_stage = WARDEN_STAGE_NAMESPACE;
        flags = CLONE_NEWPID | CLONE_NEWNS;
        if ((options->flags & WARDEN_USER_NS) != 0)
            flags |= CLONE_NEWUSER;
        if (pipe2(status_ends, O_CLOEXEC | O_NONBLOCK) < 0)
            return errno;
        warden_watch(hold->watch, status_ends[0]);
    }
    uid_t uid = geteuid();
    gid_t gid = getegid();
    record_write(WARDEN_RECORDS, options->record, &hold->record);
    long pid = warden_clone(flags, cgroup_fd);
    if (pid < 0)
        return errno;
    if (pid == 0)
        warden_become(start, status_ends[1], uid, gid);
    if ((options->flags & WARDEN_FOREGROUND) != 0)
        setpgid(0, 0);
    hold->child = (pid_t)pid;
    hold->status_fd = status_ends[0];
    if (options->container == WARDEN_PIDNS) {
        close(status_ends[1]);
        hold->init = hold->record.init = (pid_t)pid;
        record_write(WARDEN_RECORDS, options->record, &hold->record);
    }
    return 0;
}

/* Waits until the command has been executed, or has reported why not. The end of the lease, and a
 * message from Belay that does more than set the lease, end the wait as well: on a file system that
 * does not answer (a dead NFS server) an execve may never return, and must be stoppable. Returns
 * true if the command was not refused. */
static bool warden_await_start(struct hold *hold, int failure_fd,
                               struct warden_message *ret_failure)
{
    bool spoken = false, over = false;
    while (!spoken && !over) {
        int fds[WARDEN_NEWS_MAX];
        int count = warden_news(hold->watch, -1, fds);
        for (int i = 0; i < count; i++) {
            spoken |= fds[i] == failure_fd;
            over |= fds[i] == WARDEN_LIFELINE || fds[i] == hold->owner.pidfd ||
                    fds[i] == hold->lease.fd ||
                    (fds[i] == WARDEN_CONTROL && hold_take_leases(hold));
        }
    }
    warden_unwatch(hold->watch, failure_fd);
    return !spoken || read(failure_fd, ret_failure, sizeof *ret_failure) <= 0;
}

/* Closes the warden's copies of the command's streams, so that a reader sees end of file when the
 * command's tree has closed them. */
static void warden_leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd);
    if (null > 2)
        close(null);
}

/* ---- This process ---------------------------------------------------------------------------- */

/* Protects this process from signals and tracing. With `foreground` it stays in Belay's session and
 * process group, so that its command inherits them, and takes its own group afterwards. Until then
 * it ignores signals of the terminal, which are blocked. */
static void warden_protect(const char *name, bool foreground)
{
    sigset_t all;
    /* If the caller of Belay ignores SIGCHLD, the kernel would reap the command before the warden
     * does. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* A stopped warden does not notice Belay's end, so the kernel continues it then. */
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (!foreground)
        setsid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    close_range(WARDEN_DESCRIPTORS, ~0u, 0);
    for (int fd = WARDEN_LIFELINE; fd < WARDEN_DESCRIPTORS; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Opens what must exist before the command starts. Returns 0 or the errno. */
static int warden_prepare(struct hold *hold, uint64_t lease_ns)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int code = tree_view_open(&hold->view);
    if (code == 0)
        code = lease_open(&hold->lease);
    if (code != 0)
        return code;
    hold->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    hold->watch = warden_watch_new();
    if (hold->child_fd < 0 || hold->watch < 0)
        return errno;
    const int fds[] = {WARDEN_LIFELINE, WARDEN_CONTROL, hold->owner.pidfd, hold->child_fd,
                       hold->lease.fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        warden_watch(hold->watch, fds[i]);
    lease_set(&hold->lease, lease_ns);
    hold->record = (struct record){
        .magic = RECORD_MAGIC,
        .state = RECORD_HELD,
        .pid = getpid(),
        .started = tree_started(&hold->view, getpid()),
        .mechanism = hold->options.container,
        .survivors = WARDEN_UNKNOWN,
    };
    if (hold->options.container == WARDEN_CGROUP2)
        snprintf(hold->record.cgroup, sizeof hold->record.cgroup, "%s", hold->options.cgroup);
    return 0;
}

static int warden_main(char **arguments, const struct owner *owner)
{
    struct hold hold = {
        .options = {.container = (int)warden_number(arguments[WARDEN_ARGUMENT_CONTAINER]),
                    .flags = (int)warden_number(arguments[WARDEN_ARGUMENT_FLAGS]),
                    .grace_ms = warden_number(arguments[WARDEN_ARGUMENT_GRACE_MS]),
                    .processes_max = warden_number(arguments[WARDEN_ARGUMENT_PROCESSES]),
                    .record = (int)strtol(arguments[WARDEN_ARGUMENT_RECORD], NULL, 10),
                    .cgroup = arguments[WARDEN_ARGUMENT_CGROUP]},
        .owner = *owner,
        .lease.fd = -1,
        .status_fd = -1,
    };
    struct warden_message failure = {0};
    enum warden_stage stage = WARDEN_STAGE_PROC;
    int failure_ends[2];
    int code = warden_prepare(&hold, warden_number(arguments[WARDEN_ARGUMENT_LEASE]));
    if (pipe2(failure_ends, O_CLOEXEC) < 0 || owner_ended(owner))
        return 1;
    struct start start = {
        .mask = warden_number(arguments[WARDEN_ARGUMENT_MASK]),
        .memory_bytes = warden_number(arguments[WARDEN_ARGUMENT_MEMORY]),
        .flags = hold.options.flags,
        .arguments = arguments + WARDEN_ARGUMENT_COMMAND,
        .failure_fd = failure_ends[1],
    };
    warden_watch(hold.watch, failure_ends[0]);
    if (code == 0 && lease_over(&hold.lease)) {
        code = ETIME;
        stage = WARDEN_STAGE_LEASE;
    }
    if (code == 0)
        code = warden_start(&hold, &start, &stage);
    close(failure_ends[1]);
    if (code != 0) {
        failure = (struct warden_message){.type = WARDEN_FAILED,
                                          .failed = {.code = code, .stage = (int32_t)stage}};
    } else {
        warden_leave_streams();
        if (warden_await_start(&hold, failure_ends[0], &failure))
            hold_send(&(struct warden_message){.type = WARDEN_STARTED,
                                               .started.pid = hold_command_pid(&hold)});
    }
    close(failure_ends[0]);
    if (failure.type == WARDEN_FAILED)
        hold_send(&failure);
    hold_run(&hold, failure.type == WARDEN_FAILED);
    return 0;
}

int main(int count, char **arguments)
{
    struct owner owner;
    bool guard = count == WARDEN_ARGUMENT_OWNER + 1 &&
                 strcmp(arguments[WARDEN_ARGUMENT_CONTAINER], "guard") == 0;
    if (!guard && count <= WARDEN_ARGUMENT_COMMAND) {
        fputs("belay-warden is started by belay; try: belay hold -- COMMAND\n", stderr);
        return 2;
    }
    int flags = guard ? 0 : (int)warden_number(arguments[WARDEN_ARGUMENT_FLAGS]);
    warden_protect(guard ? "warden-guard" : "warden", (flags & WARDEN_FOREGROUND) != 0);
    /* If Belay has ended, there is nothing to start, but the guard has work to do. */
    if (!owner_open(&owner, (pid_t)warden_number(arguments[WARDEN_ARGUMENT_OWNER])) && !guard)
        return 1;
    return guard ? guard_run(&owner) : warden_main(arguments, &owner);
}
