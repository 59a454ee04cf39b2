/* The warden: holds one command and everything that comes of it.
 *
 * Design notes.
 *
 * It is a child of belay with a session, a signal mask and a name of its own, so that neither
 * Ctrl-C nor pkill reach it, and it is a subreaper, so that whatever the command starts, and
 * however it hides (a new session, two forks), has this process as its ancestor. It waits for four
 * things: the lifeline (end of file: belay is gone, kill all, now), a word from belay, a child's
 * end, and the end of a grace.
 *
 *   holding  --stop, or something left behind-->  asked (signal sent, grace runs)
 *   holding  --lifeline, limit-->                 killing
 *   asked    --grace over, lifeline-->            killing
 *   any      --nobody left: proof-->              quiet: says so, and exits
 *
 * The proof is the container's own: waitpid says that no child is left (every orphan becomes ours),
 * the cgroup says that it is not populated, or the init of the namespace has been reaped, which the
 * kernel lets happen only after all others in it. */
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* After so long what is not dead will not die: uninterruptible, or another user's. */
#define KILL_MS_MAX     1000
#define SETTLE_MS       20
#define COUNT_PERIOD_MS 20

struct warden {
    int container;
    int flags;
    uint64_t grace_ms;
    uint64_t memory_bytes;
    uint64_t processes_max; /* 0: the cgroup counts, or nobody */
    pid_t child;            /* the command, or the init of its namespace */
    pid_t init;             /* 0: no namespace */
    int child_fd;           /* signalfd: a child has ended */
    int status_fd;          /* the init's word on the command; -1: no namespace */
    bool command_ended;
    int command_status;
    bool settling; /* the command has ended by itself, a moment ago */
    uint64_t settle_at_ms;
    bool nobody_left; /* waitpid has said so */
    bool asked;
    bool killing;
    bool by_limit;
    uint64_t kill_at_ms; /* end of the grace */
    uint64_t look_at_ms; /* for who is left stopped */
    uint64_t look_after_ms;
    uint64_t give_up_at_ms;
    int strongest;
    size_t processes;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Belay may be gone: then nobody needs to know. */
static void say(enum warden_message_type type, int a, int b, int c, int d)
{
    struct warden_message message = {(int32_t)type, a, b, c, d};
    send(WARDEN_CONTROL, &message, sizeof message, MSG_NOSIGNAL);
}

_Noreturn void start_failed(const struct start *start, int code, enum warden_stage stage)
{
    struct warden_message message = {WARDEN_FAILED, code, (int32_t)stage, 0, 0};
    if (write(start->failure_fd, &message, sizeof message) < 0)
        _exit(126);
    _exit(127);
}

/* Out of memory takes a tool, and neither warden nor belay. Not fatal where it is not allowed. */
static void volunteer_for_oom(void)
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

/* Executes the file; a script without a first line is the shell's. Returns the errno. */
static int execute_file(const char *path, char **arguments)
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

/* Looks the command up in PATH as a shell does: a folder that may not be entered is passed over,
 * and only a file that is there and may not be executed is EACCES. (execvp takes the one for the
 * other.) */
static int execute(char **arguments)
{
    const char *path = getenv("PATH");
    char candidate[4096];
    int code = ENOENT;
    if (strchr(arguments[0], '/') != NULL)
        return execute_file(arguments[0], arguments);
    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (*path != '\0') {
        size_t length = strcspn(path, ":");
        int size = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)length, path,
                            length > 0 ? "/" : "./", arguments[0]);
        if (size > 0 && (size_t)size < sizeof candidate) {
            int failure = execute_file(candidate, arguments);
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
    /* A session of its own: what it does to its process group must not reach the warden. */
    setsid();
    prctl(PR_SET_PDEATHSIG, 0);
    if ((start->flags & WARDEN_TERMINAL) != 0 && ioctl(0, TIOCSCTTY, 0) < 0)
        start_failed(start, errno, WARDEN_STAGE_TERMINAL);
    struct rlimit limit = {start->memory_bytes, start->memory_bytes};
    if (start->memory_bytes > 0 && setrlimit(RLIMIT_AS, &limit) < 0)
        start_failed(start, errno, WARDEN_STAGE_LIMIT);
    volunteer_for_oom();
    sigset_t mask;
    sigemptyset(&mask);
    for (int number = 1; number < 64; number++)
        if ((start->mask >> number & 1) != 0)
            sigaddset(&mask, number);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    start_failed(start, execute(start->arguments), WARDEN_STAGE_EXEC);
}

static long clone_child(uint64_t flags, int cgroup)
{
    struct clone_args arguments = {
        .flags = flags | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .exit_signal = SIGCHLD,
        .cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
    };
    return syscall(SYS_clone3, &arguments, sizeof arguments);
}

/* Starts the command in its container. Returns 0 or an errno, and the stage that failed. */
static int start_child(struct warden *warden, struct start *start, const char *cgroup,
                       enum warden_stage *ret_stage)
{
    int cgroup_fd = -1, limits = 0, status_ends[2] = {-1, -1};
    uint64_t flags = 0;
    *ret_stage = WARDEN_STAGE_START;
    if (warden->container == WARDEN_CGROUP2) {
        cgroup_fd = cgroup_open(cgroup, warden->memory_bytes, warden->processes_max, &limits);
        *ret_stage = WARDEN_STAGE_CGROUP;
        if (cgroup_fd < 0)
            return -cgroup_fd;
    }
    start->memory_bytes = (limits & 1) != 0 ? 0 : warden->memory_bytes;
    if ((limits & 2) != 0)
        warden->processes_max = 0;
    if (warden->container == WARDEN_PIDNS) {
        *ret_stage = WARDEN_STAGE_NAMESPACE;
        flags = CLONE_NEWPID | CLONE_NEWNS;
        if ((warden->flags & WARDEN_USER_NS) != 0)
            flags |= CLONE_NEWUSER;
        if (pipe2(status_ends, O_CLOEXEC) < 0)
            return errno;
    }
    uid_t uid = geteuid();
    gid_t gid = getegid();
    long pid = clone_child(flags, cgroup_fd);
    if (pid < 0)
        return errno;
    if (pid == 0 && warden->container == WARDEN_PIDNS) {
        close(status_ends[0]);
        namespace_init(start, status_ends[1], uid, gid);
    }
    if (pid == 0)
        start_command(start);
    warden->child = (pid_t)pid;
    warden->init = warden->container == WARDEN_PIDNS ? (pid_t)pid : 0;
    warden->status_fd = status_ends[0];
    if (status_ends[1] >= 0)
        close(status_ends[1]);
    return 0;
}

static bool lifeline_ended(void)
{
    struct pollfd lifeline = {.fd = WARDEN_LIFELINE, .events = POLLIN};
    return poll(&lifeline, 1, 0) != 0;
}

/* Waits until the command has been executed, or has said why not. */
static bool await_start(int failure_fd, struct warden_message *ret_failure)
{
    struct pollfd fds[2] = {{.fd = failure_fd, .events = POLLIN},
                            {.fd = WARDEN_LIFELINE, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
    return fds[0].revents == 0 || read(failure_fd, ret_failure, sizeof *ret_failure) <= 0;
}

/* The pid of the command as belay sees it. */
static pid_t command_pid(const struct warden *warden)
{
    struct tree tree = {0};
    pid_t pid = warden->child;
    if (warden->init != 0) {
        tree_add_children(&tree, warden->init);
        pid = tree.count > 0 ? tree.pids[0] : 0;
        tree_done(&tree);
    }
    return pid;
}

/* A storm of forks leaves little of the processors to anybody else. Where it is allowed the warden
 * goes before all of them while it signals and kills; elsewhere it has at least a session's share.
 */
static void hurry(void)
{
    struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
}

/* Not while it reaps: in freeing what /proc and the cgroup's folder had of the dead the kernel
 * waits for others who do the same by trying again and again. Before them all, a warden keeps them
 * from their processor, and itself from the end, until the kernel takes it away: for most of a
 * second. */
static void calm(void)
{
    struct sched_param priority = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &priority);
}

/* A stop does not wait for it: the command's end is told as it is. */
static void end_settling(struct warden *warden)
{
    if (!warden->settling)
        return;
    warden->settling = false;
    say(WARDEN_ENDED, warden->command_status, 0, 0, 0);
}

static void begin_kill(struct warden *warden)
{
    end_settling(warden);
    hurry();
    if (!warden->asked && !warden->killing)
        warden->processes = tree_count(warden->init);
    calm();
    if (!warden->killing)
        warden->give_up_at_ms = now_ms() + KILL_MS_MAX;
    warden->killing = true;
}

static void begin_stop(struct warden *warden, int signal, uint64_t grace_ms)
{
    uint64_t kill_at_ms = now_ms() + grace_ms;
    end_settling(warden);
    hurry();
    if (!warden->asked && !warden->killing) {
        warden->asked = true;
        warden->kill_at_ms = kill_at_ms;
        if (grace_ms > 0) {
            warden->strongest = signal;
            warden->processes = tree_signal(signal, warden->init);
            warden->look_after_ms = 1;
            warden->look_at_ms = now_ms() + 1;
        } else {
            warden->processes = tree_count(warden->init);
        }
    }
    calm();
    if (kill_at_ms < warden->kill_at_ms)
        warden->kill_at_ms = kill_at_ms;
}

/* Who was just being made when its group was stopped and continued begins its life stopped: the
 * kernel hands it the one signal, and not the other, which nobody of the group had a use for. It
 * would spend the grace so, and its parent in waiting for it. */
static void look_again(struct warden *warden)
{
    tree_continue();
    warden->look_after_ms *= 2;
    warden->look_at_ms = now_ms() + warden->look_after_ms;
}

/* What the command has left behind when it ended by itself, after a moment in which those who only
 * end a little later than it did (a helper, the init of a sandbox) could: it is stopped. */
static void settle(struct warden *warden)
{
    size_t left_behind = warden->nobody_left ? 0 : tree_count(warden->init);
    warden->settling = false;
    say(WARDEN_ENDED, warden->command_status, (int)left_behind, 0, 0);
    if (left_behind > 0 && (warden->flags & WARDEN_BACKGROUND) == 0)
        begin_stop(warden, SIGTERM, warden->grace_ms);
}

static void command_over(struct warden *warden, int status)
{
    warden->command_ended = true;
    warden->command_status = status;
    if (warden->asked || warden->killing) {
        say(WARDEN_ENDED, status, 0, 0, 0);
        return;
    }
    warden->settling = true;
    warden->settle_at_ms = now_ms() + SETTLE_MS;
}

static void reap(struct warden *warden)
{
    int status, command_status = 0;
    pid_t pid;
    bool over = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == warden->child && warden->init == 0) {
            over = true;
            command_status = status;
        }
    }
    warden->nobody_left = pid < 0 && errno == ECHILD;
    if (over)
        command_over(warden, command_status);
}

/* The init's word comes through a pipe; -1 only says that it lives. */
static void read_status(struct warden *warden)
{
    int status;
    ssize_t size = read(warden->status_fd, &status, sizeof status);
    if (size == (ssize_t)sizeof status && status != -1) {
        command_over(warden, status);
    } else if (size <= 0) {
        close(warden->status_fd);
        warden->status_fd = -1;
    }
}

static void read_control(struct warden *warden)
{
    struct warden_message message;
    ssize_t size = recv(WARDEN_CONTROL, &message, sizeof message, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size != (ssize_t)sizeof message) {
        begin_kill(warden); /* belay is gone */
    } else if (message.type == WARDEN_STOP) {
        begin_stop(warden, message.a, (uint64_t)message.b);
    } else if (message.type == WARDEN_SIGNAL && !warden->command_ended) {
        pid_t command = command_pid(warden);
        if (command > 0)
            kill(command, message.a);
    }
}

/* One round of killing. Who is killed in it leaves orphans, which are ours in the next. */
static void kill_round(struct warden *warden)
{
    hurry();
    if (warden->processes > 0 || !warden->command_ended)
        warden->strongest = SIGKILL;
    if (warden->init != 0)
        kill(warden->init, SIGKILL);
    else if (warden->container != WARDEN_CGROUP2 || !cgroup_kill())
        tree_kill_own();
    calm();
}

static bool quiet(const struct warden *warden)
{
    return warden->nobody_left && (warden->container != WARDEN_CGROUP2 || !cgroup_populated());
}

static int wait_ms(const struct warden *warden)
{
    uint64_t now = now_ms();
    if (warden->killing)
        return 1;
    if (warden->asked) {
        uint64_t next =
            warden->look_at_ms < warden->kill_at_ms ? warden->look_at_ms : warden->kill_at_ms;
        return next > now ? (int)(next - now) : 0;
    }
    if (warden->settling)
        return 1;
    return warden->processes_max > 0 ? COUNT_PERIOD_MS : -1;
}

static void wait_for_news(struct warden *warden)
{
    struct pollfd fds[4] = {{.fd = WARDEN_LIFELINE, .events = POLLIN},
                            {.fd = WARDEN_CONTROL, .events = POLLIN},
                            {.fd = warden->child_fd, .events = POLLIN},
                            {.fd = warden->status_fd, .events = POLLIN}};
    /* Once belay is gone its descriptors say so for ever. */
    if (warden->killing)
        fds[0].fd = fds[1].fd = -1;
    poll(fds, 4, wait_ms(warden));
    if (fds[0].revents != 0)
        begin_kill(warden);
    if (fds[1].revents != 0)
        read_control(warden);
    if (fds[3].revents != 0)
        read_status(warden);
    if (fds[2].revents != 0) {
        struct signalfd_siginfo info[16];
        if (read(warden->child_fd, info, sizeof info) < 0 && errno != EAGAIN)
            return;
    }
    reap(warden);
}

static void hold(struct warden *warden)
{
    size_t survivors = 0;
    reap(warden);
    while (!quiet(warden)) {
        if (warden->killing)
            kill_round(warden);
        wait_for_news(warden);
        if (warden->settling && now_ms() >= warden->settle_at_ms)
            settle(warden);
        if (warden->asked && !warden->killing && now_ms() >= warden->kill_at_ms)
            begin_kill(warden);
        if (!warden->killing && now_ms() >= warden->look_at_ms)
            look_again(warden);
        if (warden->processes_max > 0 && !warden->killing &&
            tree_count(warden->init) > warden->processes_max) {
            warden->by_limit = true;
            begin_kill(warden);
        }
        if (warden->killing && now_ms() >= warden->give_up_at_ms) {
            survivors = tree_count(0);
            break;
        }
    }
    /* The init has written before it went. */
    while (warden->status_fd >= 0)
        read_status(warden);
    if (warden->settling)
        settle(warden);
    if (warden->container == WARDEN_CGROUP2)
        cgroup_close();
    say(WARDEN_QUIET, (int)warden->processes, (int)survivors, warden->strongest, warden->by_limit);
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

/* From here on the command's streams are its own: a reader sees their end when the command's tree
 * has let go of them. */
static void leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd);
    if (null > 2)
        close(null);
}

int main(int count, char **arguments)
{
    if (count <= WARDEN_ARGUMENT_COMMAND) {
        fputs("belay-warden is started by belay; try: belay hold -- COMMAND\n", stderr);
        return 2;
    }
    prctl(PR_SET_NAME, "warden");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    sigset_t all, child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    close_range(WARDEN_DESCRIPTORS, ~0u, 0);
    fcntl(WARDEN_LIFELINE, F_SETFD, FD_CLOEXEC);
    fcntl(WARDEN_CONTROL, F_SETFD, FD_CLOEXEC);
    struct warden warden = {
        .container = (int)number(arguments[WARDEN_ARGUMENT_CONTAINER]),
        .flags = (int)number(arguments[WARDEN_ARGUMENT_FLAGS]),
        .grace_ms = number(arguments[WARDEN_ARGUMENT_GRACE_MS]),
        .memory_bytes = number(arguments[WARDEN_ARGUMENT_MEMORY]),
        .processes_max = number(arguments[WARDEN_ARGUMENT_PROCESSES]),
        .status_fd = -1,
        .look_at_ms = UINT64_MAX,
    };
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    warden.child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    int failure_ends[2];
    if (warden.child_fd < 0 || pipe2(failure_ends, O_CLOEXEC) < 0 || lifeline_ended())
        return 1;

    struct start start = {
        .mask = number(arguments[WARDEN_ARGUMENT_MASK]),
        .flags = warden.flags,
        .arguments = arguments + WARDEN_ARGUMENT_COMMAND,
        .failure_fd = failure_ends[1],
    };
    struct warden_message failure = {0};
    enum warden_stage stage;
    int code = start_child(&warden, &start, arguments[WARDEN_ARGUMENT_CGROUP], &stage);
    close(failure_ends[1]);
    if (code != 0) {
        failure = (struct warden_message){WARDEN_FAILED, code, (int32_t)stage, 0, 0};
        warden.nobody_left = true;
    } else {
        leave_streams();
        if (await_start(failure_ends[0], &failure))
            say(WARDEN_STARTED, command_pid(&warden), 0, 0, 0);
    }
    if (failure.type == WARDEN_FAILED) {
        say(WARDEN_FAILED, failure.a, failure.b, 0, 0);
        begin_kill(&warden);
    }
    hold(&warden);
    return 0;
}
