/* Plays processes that are hard to stop: nasty MODE [ARGUMENT]. A process that is ready is named
 * "nasty-ready", so that a test knows when its tree is complete. Each process ends after a minute
 * even if it ignores signals, so that a failed test leaves nothing behind for long. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S              60
#define NS_PER_S            1000000000L
#define STORM_S             10
#define STORM_LINES         8
#define STORM_PROCESSES     2000
#define EXIT_NO_MEMORY      77
#define EXIT_NO_PROCESS     78
#define CHATTY_PERIOD       26u
#define READY_NAME          "nasty-ready"
#define EXIT_USAGE          64
#define STORM_EACH_STAYS_OF 4

/* The timer sends SIGKILL, which also ends a process that is stopped or ignores other signals. */
static void live_briefly(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec life = {.it_value = {.tv_sec = LIFE_S}};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &life, NULL) != 0)
        _exit(EXIT_USAGE);
}

/* fork() with a time limit for the child. If no process is available, exits with a code that says
 * so. */
static pid_t branch(void)
{
    pid_t child = fork();
    if (child < 0)
        _exit(EXIT_NO_PROCESS);
    if (child == 0)
        live_briefly();
    return child;
}

_Noreturn static void rest(void)
{
    prctl(PR_SET_NAME, READY_NAME);
    for (;;)
        pause();
}

static void ignore(int number)
{
    sigaction(number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static long number_of(const char *text)
{
    char *end;
    errno = 0;
    long value = text != NULL ? strtol(text, &end, 10) : -1;
    if (text == NULL || errno != 0 || *end != '\0' || value < 0) {
        fprintf(stderr, "nasty: a number is missing\n");
        exit(EXIT_USAGE);
    }
    return value;
}

static int plain(const char *argument)
{
    (void)argument;
    rest();
}

static int ignore_term(const char *argument)
{
    (void)argument;
    ignore(SIGTERM);
    ignore(SIGINT);
    ignore(SIGHUP);
    rest();
}

/* A child in its own session; this process stays unless the argument is "leave". */
static int new_session(const char *argument)
{
    if (branch() == 0) {
        setsid();
        rest();
    }
    if (argument != NULL && strcmp(argument, "leave") == 0)
        return 0;
    rest();
}

static int new_session_ignore(const char *argument)
{
    (void)argument;
    if (branch() == 0) {
        setsid();
        ignore_term(NULL);
    }
    rest();
}

/* A classic daemon: its parent has exited, and it has its own session. This process exits as soon
 * as the daemon is ready, unless the argument is "stay". */
static int double_fork(const char *argument)
{
    int ready[2];
    char byte;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return EXIT_USAGE;
    pid_t middle = branch();
    if (middle == 0) {
        setsid();
        if (branch() != 0)
            _exit(0);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        close(ready[0]);
        prctl(PR_SET_NAME, READY_NAME);
        if (write(ready[1], "r", 1) != 1)
            _exit(EXIT_USAGE);
        close(ready[1]);
        rest();
    }
    close(ready[1]);
    waitpid(middle, NULL, 0);
    if (read(ready[0], &byte, 1) != 1)
        return EXIT_USAGE;
    if (argument == NULL || strcmp(argument, "stay") != 0)
        return 0;
    rest();
}

static int no_hangup(const char *argument)
{
    (void)argument;
    execlp("sh", "sh", "-c", "nohup sleep 60 >/dev/null 2>&1 & wait", (char *)NULL);
    return EXIT_USAGE;
}

static int many(const char *argument)
{
    for (long i = number_of(argument); i > 0; i--) {
        if (branch() == 0)
            rest();
    }
    rest();
}

/* A chain in which each process is the child of the previous one. */
static int deep(const char *argument)
{
    for (long i = number_of(argument); i > 0; i--) {
        if (branch() != 0)
            rest();
    }
    rest();
}

static bool before(const struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < end->tv_sec;
}

/* One line of a storm: every millisecond it continues in a new process and the old one exits, so
 * that a scan always comes too late; some of the old ones stay. `made` counts the processes of all
 * lines, including zombies, which occupy scarce pids. When all are made, the line comes to rest,
 * and must be stopped like any other process. */
_Noreturn static void storm_line(unsigned *made, const struct timespec *end)
{
    struct timespec pause_for = {.tv_nsec = 1000000};

    while (before(end)) {
        nanosleep(&pause_for, NULL);
        unsigned number = __atomic_add_fetch(made, 1, __ATOMIC_RELAXED);
        if (number > STORM_PROCESSES)
            rest();
        pid_t child = fork();
        if (child == 0)
            live_briefly();
        else if (child > 0 && number % STORM_EACH_STAYS_OF == 0)
            rest();
        else if (child > 0)
            _exit(0);
    }
    _exit(0);
}

/* With "ignore" it ignores SIGTERM. */
static int storm(const char *argument)
{
    struct timespec end;
    void *shared =
        mmap(NULL, sizeof(unsigned), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return EXIT_NO_MEMORY;
    if (argument != NULL && strcmp(argument, "ignore") == 0)
        ignore(SIGTERM);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += STORM_S;
    for (int i = 0; i < STORM_LINES; i++) {
        if (branch() == 0)
            storm_line(shared, &end);
    }
    rest();
}

static int stopped(const char *argument)
{
    (void)argument;
    prctl(PR_SET_NAME, READY_NAME);
    raise(SIGSTOP);
    rest();
}

/* Blocks in open(2): the FIFO has no writer. */
static int fifo(const char *argument)
{
    prctl(PR_SET_NAME, READY_NAME);
    int fd = argument != NULL ? open(argument, O_RDONLY) : -1;
    return fd >= 0 ? 0 : EXIT_USAGE;
}

/* Exits; a grandchild in another session keeps standard output open. */
static int hold_stdout(const char *argument)
{
    (void)argument;
    if (write(STDOUT_FILENO, "held\n", 5) != 5)
        return EXIT_USAGE;
    pid_t middle = branch();
    if (middle == 0) {
        setsid();
        if (branch() != 0)
            _exit(0);
        rest();
    }
    waitpid(middle, NULL, 0);
    return 0;
}

/* Writes the given number of bytes, repeating the alphabet. */
static int chatty(const char *argument)
{
    static char block[CHATTY_PERIOD * 1024];
    size_t left = (size_t)number_of(argument);

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)('a' + i % CHATTY_PERIOD);
    while (left > 0) {
        size_t wanted = left < sizeof block ? left : sizeof block;
        for (size_t done = 0; done < wanted;) {
            ssize_t count = write(STDOUT_FILENO, block + done, wanted - done);
            if (count < 0)
                return EXIT_USAGE;
            done += (size_t)count;
        }
        left -= wanted;
    }
    return 0;
}

static int binary(const char *argument)
{
    (void)argument;
    unsigned char bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    return write(STDOUT_FILENO, bytes, sizeof bytes) == sizeof bytes ? 0 : EXIT_USAGE;
}

static int exit_with(const char *argument)
{
    return (int)number_of(argument);
}

/* Exits with 0 at this time on CLOCK_BOOTTIME, in nanoseconds. */
static int exit_at(const char *argument)
{
    long at_ns = number_of(argument);
    struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
    return 0;
}

/* A child in its own session appends the time on CLOCK_BOOTTIME, as 8 bytes, to the file every
 * 10 ms. */
static int ticks(const char *argument)
{
    if (branch() != 0)
        rest();
    setsid();
    int fd = open(argument, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    prctl(PR_SET_NAME, READY_NAME);
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_BOOTTIME, &now);
        int64_t now_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
        if (write(fd, &now_ns, sizeof now_ns) != sizeof now_ns)
            return EXIT_USAGE;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static int raise_signal(const char *argument)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    raise((int)number_of(argument));
    return EXIT_USAGE;
}

/* Prints its open descriptors on one line, without the one that reads the directory. */
static int descriptors(const char *argument)
{
    (void)argument;
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        return EXIT_USAGE;
    for (int fd = 0; fd < 4096; fd++) {
        if (fd != dirfd(directory) && fcntl(fd, F_GETFD) >= 0)
            printf("%d ", fd);
    }
    closedir(directory);
    return 0;
}

static int memory(const char *argument)
{
    for (long i = number_of(argument); i > 0; i--) {
        void *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (block == MAP_FAILED)
            return EXIT_NO_MEMORY;
        memset(block, 1, 1 << 20);
    }
    return 0;
}

/* Prints "tty" if 0, 1 and 2 are the controlling terminal. */
static int terminal(const char *argument)
{
    (void)argument;
    int own = open("/dev/tty", O_RDWR | O_CLOEXEC);
    printf("%s\n", own < 0 ? "no controlling terminal"
                   : isatty(0) && isatty(1) && isatty(2) && tcgetpgrp(0) == getpgrp()
                       ? "tty"
                       : "not a terminal");
    return 0;
}

/* Exits with 42 on SIGTERM; before that it writes the number of bytes in the argument. */
static int give_way(const char *argument)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_NAME, READY_NAME);
    sigwait(&set, &number);
    return argument != NULL && chatty(argument) != 0 ? EXIT_USAGE : 42;
}

/* The same, but always in the middle of a fork, which is slow because much memory is copied. */
static int forking(const char *argument)
{
    const size_t size = 32u << 20;
    sigset_t set;
    (void)argument;
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return EXIT_NO_MEMORY;
    madvise(room, size, MADV_NOHUGEPAGE);
    memset(room, 1, size);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_NAME, READY_NAME);
    do {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    } while (sigtimedwait(&set, NULL, &(struct timespec){0}) != SIGTERM);
    return 42;
}

/* Run from a setuid copy that belongs to another user: becomes that user permanently, so that its
 * starter cannot signal it. */
static int stranger(const char *argument)
{
    uid_t user = geteuid();
    (void)argument;
    if (setresuid(user, user, user) != 0)
        return EXIT_USAGE;
    rest();
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)(const char *argument);
    } modes[] = {
        {"plain", plain},
        {"ignore-term", ignore_term},
        {"setsid", new_session},
        {"setsid-ignore", new_session_ignore},
        {"double-fork", double_fork},
        {"nohup", no_hangup},
        {"many", many},
        {"deep", deep},
        {"storm", storm},
        {"stopped", stopped},
        {"fifo", fifo},
        {"hold-stdout", hold_stdout},
        {"chatty", chatty},
        {"binary", binary},
        {"exit", exit_with},
        {"exit-at", exit_at},
        {"ticks", ticks},
        {"raise", raise_signal},
        {"fds", descriptors},
        {"memory", memory},
        {"tty", terminal},
        {"give-way", give_way},
        {"forking", forking},
        {"stranger", stranger},
    };
    const char *mode = argument_count > 1 ? arguments[1] : "";

    live_briefly();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, mode) == 0)
            return modes[i].run(argument_count > 2 ? arguments[2] : NULL);
    }
    fprintf(stderr, "nasty: no mode '%s'\n", mode);
    return EXIT_USAGE;
}
