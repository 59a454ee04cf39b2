/* Attacks on the warden. An attack that the kernel refuses is skipped: the tree stays, and Belay's
 * report of it must be true. */
#include "hostile.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "proc/protocol.h"

#define COPIED_MAX     64
#define ANCESTORS_MAX  4
#define DESCRIPTOR_MAX 64
#define PATH_SIZE      8192
#define STOPS_EACH     1000
#define STARTED_MS     20 /* until Belay knows that the command was started */

void attack_stop(const char *argument)
{
    (void)argument;
    hostile_say(HOSTILE_ATTACK);
    kill(hostile_warden(), SIGSTOP);
}

/* Without a pause: the kernel continues the warden when Belay dies, and it must not get far. */
void attack_stop_loop(const char *argument)
{
    attack_stop(argument);
    if (hostile_fork() != 0)
        return;
    setsid();
    hostile_stand();
    while (!hostile_is_over())
        for (int i = 0; i < STOPS_EACH; i++)
            kill(hostile_warden(), SIGSTOP);
    _exit(0);
}

void attack_kill(const char *argument)
{
    (void)argument;
    hostile_say(HOSTILE_ATTACK HOSTILE_DEADLY);
    hostile_nap_ms(STARTED_MS);
    kill(hostile_warden(), SIGKILL);
}

void attack_limit(const char *argument)
{
    static const struct {
        const char *name;
        __rlimit_resource_t resource;
    } limits[] = {{"nofile", RLIMIT_NOFILE}, {"as", RLIMIT_AS},   {"nproc", RLIMIT_NPROC},
                  {"stack", RLIMIT_STACK},   {"cpu", RLIMIT_CPU}, {"data", RLIMIT_DATA}};
    const struct rlimit nothing = {0, 0};
    /* Without room for a stack the next call may kill the warden, and without CPU time the kernel
     * kills it: both are equivalent to SIGKILL. */
    bool deadly = strcmp(argument, "stack") == 0 || strcmp(argument, "cpu") == 0 ||
                  strcmp(argument, "all") == 0;
    hostile_say(deadly ? HOSTILE_ATTACK HOSTILE_DEADLY : HOSTILE_ATTACK);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (strcmp(argument, limits[i].name) == 0 || strcmp(argument, "all") == 0)
            prlimit(hostile_warden(), limits[i].resource, &nothing, NULL);
}

/* Leaves Belay its standard streams and no other descriptors. */
void attack_limit_belay(const char *argument)
{
    char path[64], status[PATH_SIZE];
    const struct rlimit few = {3, 3};
    (void)argument;
    hostile_say(HOSTILE_ATTACK);
    hostile_nap_ms(STARTED_MS);
    snprintf(path, sizeof path, "/proc/%d/status", (int)hostile_warden());
    place_read(path, status, sizeof status);
    const char *parent = strstr(status, "\nPPid:");
    if (parent != NULL)
        prlimit((pid_t)strtol(parent + strlen("\nPPid:"), NULL, 10), RLIMIT_NOFILE, &few, NULL);
}

/* A child traces the warden and leaves it stopped. Reports whether tracing was permitted. */
static void attack_trace(bool seize)
{
    pid_t warden = hostile_warden();
    hostile_say(HOSTILE_ATTACK);
    if (hostile_fork() != 0)
        return;
    setsid();
    long result = seize ? ptrace(PTRACE_SEIZE, warden, NULL, NULL)
                        : ptrace(PTRACE_ATTACH, warden, NULL, NULL);
    if (result == 0 && (!seize || ptrace(PTRACE_INTERRUPT, warden, NULL, NULL) == 0))
        waitpid(warden, NULL, __WALL);
    hostile_say(result == 0 ? "traced\n" : "not traced\n");
    hostile_rest();
}

void attack_seize(const char *argument)
{
    (void)argument;
    attack_trace(true);
}

void attack_attach(const char *argument)
{
    (void)argument;
    attack_trace(false);
}

static pid_t attack_parent_of(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    place_read(path, line, sizeof line);
    const char *end = strrchr(line, ')');
    return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* True for Belay or a warden, by name. */
static bool attack_is_belay(pid_t pid)
{
    char path[64], name[32];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    place_read(path, name, sizeof name);
    return strncmp(name, "belay", 5) == 0 || strncmp(name, "warden", 6) == 0;
}

/* Copies all descriptors of a process, as far as the kernel permits. The copies stay open in this
 * process and its descendants. */
static size_t attack_copy_of(pid_t pid, int copies[COPIED_MAX])
{
    size_t count = 0;
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    for (int fd = 3; process >= 0 && fd < DESCRIPTOR_MAX && count < COPIED_MAX; fd++) {
        int copy = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
        if (copy < 0)
            continue;
        fcntl(copy, F_SETFD, 0);
        copies[count++] = copy;
    }
    if (process >= 0)
        close(process);
    return count;
}

/* With the write end of the lifeline open in the tree, the end of Belay causes no end-of-file. */
void attack_copy(const char *argument)
{
    int copies[COPIED_MAX];
    pid_t pid = hostile_warden();
    (void)argument;
    hostile_say(HOSTILE_ATTACK);
    for (int i = 0; i < ANCESTORS_MAX && pid > 1 && attack_is_belay(pid); i++) {
        attack_copy_of(pid, copies);
        pid = attack_parent_of(pid);
    }
}

/* Sends once as this process, and once with the credentials of the warden, which root may claim. */
static void attack_send(int fd, enum warden_message_type type)
{
    struct warden_message message = {.type = (int32_t)type};
    struct ucred warden = {.pid = hostile_warden(), .uid = geteuid(), .gid = getegid()};
    union {
        char bytes[CMSG_SPACE(sizeof warden)];
        struct cmsghdr alignment;
    } control = {0};
    struct iovec part = {&message, sizeof message};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    packet.msg_control = control.bytes;
    packet.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_CREDENTIALS;
    header->cmsg_len = CMSG_LEN(sizeof warden);
    memcpy(CMSG_DATA(header), &warden, sizeof warden);
    sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reports to Belay in the warden's name that the command has ended and nothing is left. */
void attack_forge(const char *argument)
{
    int copies[COPIED_MAX];
    size_t count = attack_copy_of(hostile_warden(), copies);
    attack_stop(argument);
    for (size_t i = 0; i < count; i++) {
        attack_send(copies[i], WARDEN_ENDED);
        attack_send(copies[i], WARDEN_QUIET);
    }
}

/* Moves to the parent of its own cgroup, and reports whether it could. */
void attack_leave_cgroup(const char *argument)
{
    char mount_point[PATH_MAX / 2], groups[PATH_MAX], path[PATH_SIZE];
    (void)argument;
    hostile_say(HOSTILE_ATTACK);
    place_read("/proc/self/cgroup", groups, sizeof groups);
    char *own = strstr(groups, "0::/");
    if (own == NULL || !place_find_mount("cgroup2", NULL, mount_point, sizeof mount_point))
        return;
    own += strlen("0::");
    own[strcspn(own, "\n")] = '\0';
    *strrchr(own, '/') = '\0';
    snprintf(path, sizeof path, "%s%s/cgroup.procs", mount_point, own);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    hostile_say(fd >= 0 && write(fd, "0", 1) == 1 ? "left\n" : "not left\n");
    if (fd >= 0)
        close(fd);
}

/* Only for a test with a mount namespace around Belay: in the machine's own namespace it would hide
 * /proc from all processes. The root mount of the test is private. */
void attack_hide_proc(const char *argument)
{
    (void)argument;
    hostile_say(HOSTILE_ATTACK);
    if (getenv("HOSTILE_MAY_MOUNT") == NULL)
        return;
    mount("hostile", "/proc", "tmpfs", 0, NULL);
}
