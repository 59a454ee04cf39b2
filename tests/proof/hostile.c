#include "hostile.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LIFE_MS        20000
#define READY_MS_MAX   5000
#define FORK_TRIES     200
#define END_VARIABLE   "HOSTILE_END_MS" /* on CLOCK_MONOTONIC; kept across exec */
#define TAG_DESCRIPTOR 200

static struct {
    uint64_t end_ms;
    char path[PATH_MAX];
    pid_t first;
    pid_t warden;
    int standing[2]; /* each process holds the second until it is running */
    char *name;      /* of the arguments, to be overwritten */
    size_t name_size;
} self;

static uint64_t hostile_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* SIGKILL also ends a process that is stopped, traced or without a main thread. */
void hostile_limit_life(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec life = {.it_value = {.tv_sec = (time_t)(self.end_ms / 1000),
                                           .tv_nsec = (long)(self.end_ms % 1000) * 1000000}};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, TIMER_ABSTIME, &life, NULL) != 0)
        _exit(HOSTILE_EXIT_USAGE);
}

bool hostile_is_over(void)
{
    return hostile_now_ms() >= self.end_ms;
}

pid_t hostile_fork(void)
{
    pid_t child = fork();
    for (int i = 0; child < 0 && i < FORK_TRIES; i++) {
        hostile_nap_ms(1);
        child = fork();
    }
    if (child < 0)
        _exit(1);
    if (child == 0)
        hostile_limit_life();
    return child;
}

void hostile_nap_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void hostile_say(const char *line)
{
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        _exit(HOSTILE_EXIT_USAGE);
}

void hostile_stand(void)
{
    struct pollfd others = {.fd = self.standing[0], .events = POLLIN};
    if (self.standing[1] < 0)
        return;
    close(self.standing[1]);
    self.standing[1] = -1;
    if (getpid() != self.first)
        return;
    poll(&others, 1, READY_MS_MAX);
    hostile_say(HOSTILE_READY);
}

void hostile_rest(void)
{
    hostile_stand();
    for (;;)
        pause();
}

void hostile_execute(const char *word)
{
    char *arguments[] = {self.path, (char *)word, NULL};
    execv(self.path, arguments);
    _exit(HOSTILE_EXIT_USAGE);
}

pid_t hostile_warden(void)
{
    return self.warden;
}

long hostile_number(const char *text)
{
    char *end = NULL;
    errno = 0;
    long value = text != NULL ? strtol(text, &end, 10) : -1;
    if (text == NULL || errno != 0 || *end != '\0' || value < 0) {
        fprintf(stderr, "hostile: missing number\n");
        _exit(HOSTILE_EXIT_USAGE);
    }
    return value;
}

void tree_rename_to(const char *name)
{
    prctl(PR_SET_NAME, name);
    memset(self.name, 0, self.name_size);
    snprintf(self.name, self.name_size, "%s", name);
}

/* A child plays the rest of the line; this process ends when the child's tree is running. */
static void hostile_leave(const char *argument)
{
    (void)argument;
    if (hostile_fork() == 0)
        return;
    hostile_stand();
    _exit(0);
}

/* A child plays the rest of the line; this process stays. */
static void hostile_child(const char *argument)
{
    (void)argument;
    if (hostile_fork() != 0)
        hostile_rest();
}

/* Waits until a process has another user's id: the real one, or the effective one. Where /proc hides
 * other users' processes, it is then gone. */
static void hostile_await_user(pid_t pid, bool real)
{
    char path[32], text[4096] = "";
    unsigned ids[2];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    for (int i = 0; i < READY_MS_MAX && place_read(path, text, sizeof text) > 0; i++) {
        const char *line = strstr(text, "\nUid:");
        if (line != NULL && sscanf(line, "\nUid: %u %u", &ids[0], &ids[1]) == 2 &&
            ids[real ? 0 : 1] != getuid())
            return;
        hostile_nap_ms(1);
    }
}

/* Starts a child that is a setuid copy of this program; `change` "all" changes all of its user ids.
 * The pipe reports it as running when it executes, before it is another user's. */
_Noreturn static void hostile_become(const char *path, const char *change)
{
    pid_t child = hostile_fork();

    if (child == 0) {
        execl(path, path, "other-user", change, (char *)NULL);
        _exit(HOSTILE_EXIT_USAGE);
    }
    hostile_await_user(child, strcmp(change, "all") == 0);
    hostile_rest();
}

static void hostile_setuid(const char *argument)
{
    hostile_become(argument, "effective");
}

static void hostile_setuid_all(const char *argument)
{
    hostile_become(argument, "all");
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
    bool takes_argument;
} words[] = {
    {"leave", hostile_leave, false},
    {"child", hostile_child, false},
    {"setuid", hostile_setuid, true},
    {"setuid-all", hostile_setuid_all, true},
    {"stop-warden", attack_stop, false},
    {"stop-warden-loop", attack_stop_loop, false},
    {"limit-belay", attack_limit_belay, false},
    {"kill-warden", attack_kill, false},
    {"limit-warden", attack_limit, true},
    {"seize-warden", attack_seize, false},
    {"attach-warden", attack_attach, false},
    {"forge", attack_forge, false},
    {"copy", attack_copy, false},
    {"leave-cgroup", attack_leave_cgroup, false},
    {"hide-proc", attack_hide_proc, false},
    {"rest", tree_rest, false},
    {"ignore-signals", tree_ignore_signals, false},
    {"dead-leader", tree_dead_leader, false},
    {"comets", tree_comets, true},
    {"storm", tree_storm, false},
    {"many", tree_many, true},
    {"session", tree_session, false},
    {"daemon", tree_daemon, false},
    {"namespaces", tree_namespaces, false},
    {"stopped", tree_stopped, false},
    {"traced", tree_traced, false},
    {"subreaper", tree_subreaper, false},
    {"thread-exec", tree_thread_exec, false},
    {"renamed", tree_renamed, false},
    {"vfork", tree_vfork, false},
    {"clone-parent", tree_clone_parent, false},
    {"no-exit-signal", tree_no_exit_signal, false},
    {"other-user", tree_other_user, true},
    {"seed", tree_seed, true},
};

/* An empty line is an error of the test. */
static void hostile_play(char **line)
{
    while (*line != NULL) {
        size_t i = 0;
        while (i < sizeof words / sizeof words[0] && strcmp(words[i].name, *line) != 0)
            i++;
        if (i == sizeof words / sizeof words[0])
            break;
        line++;
        const char *argument = words[i].takes_argument ? *line : NULL;
        line += argument != NULL;
        words[i].run(argument);
    }
    fprintf(stderr, "hostile: no such word: %s\n", *line != NULL ? *line : "(end of line)");
}

/* Opens a descriptor that every descendant inherits and that Belay does not know. An observer
 * without privileges sees by it whether any process is left. */
static void hostile_hold_tag(void)
{
    const char *path = getenv(HOSTILE_TAG);
    int fd = path != NULL ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    dup2(fd, TAG_DESCRIPTOR);
    close(fd);
}

int main(int argument_count, char **arguments)
{
    const char *end = getenv(END_VARIABLE);
    char text[32];
    (void)argument_count;
    self.end_ms = end != NULL ? strtoull(end, NULL, 10) : hostile_now_ms() + LIFE_MS;
    hostile_limit_life();
    snprintf(text, sizeof text, "%llu", (unsigned long long)self.end_ms);
    setenv(END_VARIABLE, text, 1);
    hostile_hold_tag();
    self.warden = getppid();
    /* After exec, it has nothing to announce. */
    self.first = end == NULL ? getpid() : 0;
    self.name = arguments[0];
    self.name_size = strlen(arguments[0]);
    ssize_t size = readlink("/proc/self/exe", self.path, sizeof self.path - 1);
    if (size <= 0 || pipe2(self.standing, O_CLOEXEC) != 0)
        return HOSTILE_EXIT_USAGE;
    hostile_play(arguments + 1);
    return HOSTILE_EXIT_USAGE;
}
