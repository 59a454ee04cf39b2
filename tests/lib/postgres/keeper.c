/* Keeps one PostgreSQL server for a test process (postgres.h):
 *
 *     pg-keeper FOLDER USER GROUP TEST-PROCESS        descriptor 3: the test's socket
 *
 * Each request is a packet of words that end in NUL, and each gets one answer, a line of text:
 *
 *     port                       PORT              reserves a free port of 127.0.0.1
 *     run self|server WORD...    exit CODE         runs a program, with its output in FOLDER/log
 *     serve self|server WORD...  pid PID           starts a program that keeps running; same output
 *     start PROGRAM NAME=VALUE...  ready PID | failed    starts FOLDER/data
 *     stop                       stopped | failed  ends all sessions, writes a checkpoint
 *     kill                       stopped | failed  kills all its processes
 *     end                        (the socket closes)
 *
 * When the test process ends in any way, the keeper kills all its descendants and removes the
 * folder. It has a session of its own, to survive the kill of the test's process group, and is the
 * subreaper of the server's processes: each of those has a session too. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <belay/base.h>

#include "process.h"

#define CONTROL       3
#define WORDS_MAX     64
#define REQUEST_MAX   16384
#define PROCESSES_MAX 4096
#define LOG_TAIL      6000
#define TICK_MS       2
#define START_S       60
#define STOP_S        30
#define KILL_S        20
#define RUN_S         120

struct keeper {
    const char *folder;
    uid_t user;
    gid_t group;
    int test; /* pidfd; -1: this kernel has none, and only the socket tells */
    int port_holder;
    int port;
    pid_t postmaster;
    bool ended; /* by request */
};

static volatile sig_atomic_t terminated;

static void keeper_terminate(int number BL_UNUSED)
{
    terminated = 1;
}

static int64_t keeper_now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void keeper_path(const struct keeper *keeper, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", keeper->folder, name);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Removes the System V segment by which servers notice that a data folder is in use: it would
 * outlive a killed server. The seventh line of postmaster.pid names it. */
static void keeper_remove_segment(struct keeper *keeper)
{
    char path[256], data[1024], *line = data;
    unsigned long key;
    int segment;

    keeper_path(keeper, "data/postmaster.pid", path, sizeof path);
    struct bl_text text = bl_file_read(AT_FDCWD, path, data, sizeof data - 1);
    data[text.size] = '\0';
    for (int i = 1; i < 7 && line != NULL; i++) {
        line = strchr(line, '\n');
        if (line != NULL)
            line++;
    }
    if (line != NULL && sscanf(line, "%lu %d", &key, &segment) == 2)
        shmctl(segment, IPC_RMID, NULL);
    unlink(path);
}

/* Kills the server's processes and all other descendants. Returns false if some do not end. */
static bool keeper_kill_all(struct keeper *keeper)
{
    static pid_t pids[PROCESSES_MAX];
    int64_t deadline = keeper_now_ms() + (int64_t)KILL_S * 1000;
    size_t count;
    pid_t pid = 0;

    if (keeper->postmaster > 0) {
        /* A stopped postmaster starts no more processes, and does not notice that they die. */
        kill(keeper->postmaster, SIGSTOP);
        count = process_children(keeper->postmaster, pids, BL_COUNT(pids));
        for (size_t i = 0; i < count; i++)
            kill(pids[i], SIGKILL);
        kill(keeper->postmaster, SIGKILL);
    }
    /* Orphans become children of this process, one generation after the other. */
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && keeper_now_ms() < deadline) {
        if (pid > 0)
            continue;
        count = process_children(getpid(), pids, BL_COUNT(pids));
        for (size_t i = 0; i < count; i++)
            kill(pids[i], SIGKILL);
        poll(NULL, 0, 1);
    }
    keeper->postmaster = 0;
    keeper_remove_segment(keeper);
    return pid < 0;
}

static int keeper_remove_entry(const char *path, const struct stat *status BL_UNUSED,
                               int type BL_UNUSED, struct FTW *place BL_UNUSED)
{
    remove(path);
    return 0;
}

/* The test has ended before its server: the log may explain the failure. */
static void keeper_print_log(struct keeper *keeper)
{
    char path[256], tail[LOG_TAIL];
    struct stat status;

    keeper_path(keeper, "log", path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    off_t from = status.st_size > LOG_TAIL ? status.st_size - LOG_TAIL : 0;
    ssize_t size = pread(fd, tail, sizeof tail, from);
    close(fd);
    if (size > 0)
        fprintf(stderr, "the test ended before its PostgreSQL server; end of the log:\n%.*s",
                (int)size, tail);
}

static _Noreturn void keeper_finish(struct keeper *keeper)
{
    bool all = keeper_kill_all(keeper);
    if (!keeper->ended)
        keeper_print_log(keeper);
    if (!all)
        fprintf(stderr, "%s: processes of the server do not end\n", keeper->folder);
    nftw(keeper->folder, keeper_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    _exit(all ? 0 : 1);
}

/* Waits; does not return if the test process has ended. Returns true if there is a request. */
static bool keeper_wait(struct keeper *keeper, int timeout_ms, bool requests)
{
    struct pollfd polled[] = {{.fd = CONTROL, .events = requests ? POLLIN : 0},
                              {.fd = keeper->test, .events = POLLIN}};
    int count = poll(polled, BL_COUNT(polled), timeout_ms);
    bool request = count > 0 && (polled[0].revents & POLLIN) != 0;
    if (terminated || (count > 0 && (polled[1].revents != 0 ||
                                     (!request && (polled[0].revents & (POLLHUP | POLLERR)) != 0))))
        keeper_finish(keeper);
    return request;
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* Runs a program in a child, as the user of the server or as that of the test. */
static pid_t keeper_spawn(struct keeper *keeper, bool as_server, char **words,
                          char *const *environment)
{
    char path[256];
    char *none[] = {NULL};
    pid_t keeper_pid = getpid();

    keeper_path(keeper, "log", path, sizeof path);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    signal(SIGTERM, SIG_DFL);
    if (as_server && geteuid() == 0 &&
        (setgroups(1, &keeper->group) < 0 || setgid(keeper->group) < 0 || setuid(keeper->user) < 0))
        _exit(126);
    umask(077);
    if (chdir(keeper->folder) < 0)
        _exit(126);
    clearenv();
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    setenv("HOME", keeper->folder, 1);
    setenv("LC_ALL", "C", 1);
    setenv("TZ", "UTC", 1);
    for (char *const *each = environment != NULL ? environment : none; *each != NULL; each++)
        putenv(*each);
    /* After the change of the user, which clears it: the keeper may be killed too. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper_pid)
        _exit(126);
    execv(words[0], words);
    fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static void keeper_run(struct keeper *keeper, char **words, char *answer, size_t size)
{
    int64_t deadline = keeper_now_ms() + (int64_t)RUN_S * 1000;
    int status = -1;
    pid_t pid = keeper_spawn(keeper, strcmp(words[1], "server") == 0, words + 2, NULL);

    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        if (keeper_now_ms() > deadline)
            kill(pid, SIGKILL);
        keeper_wait(keeper, TICK_MS, false);
    }
    snprintf(answer, size, "exit %d", pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 255);
}

/* Holds the port without listening, which the server may do beside it as both set SO_REUSEADDR. No
 * other process gets the port for a connection of its own while the server is down. */
static void keeper_reserve_port(struct keeper *keeper, char *answer, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_size = sizeof address;
    int on = 1;

    keeper->port_holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(keeper->port_holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(keeper->port_holder, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(keeper->port_holder, (struct sockaddr *)&address, &address_size) == 0)
        keeper->port = ntohs(address.sin_port);
    snprintf(answer, size, "%d", keeper->port);
}

/* True once the postmaster accepts connections: the eighth line of its file says so. */
static bool keeper_is_ready(struct keeper *keeper)
{
    char path[256], data[1024];

    keeper_path(keeper, "data/postmaster.pid", path, sizeof path);
    struct bl_text rest = bl_file_read(AT_FDCWD, path, data, sizeof data), line = {NULL, 0};
    for (int i = 0; i < 8; i++) {
        if (!bl_text_split(&rest, '\n', &line))
            return false;
    }
    return bl_text_is(bl_text_trim(line), "ready");
}

static void keeper_start(struct keeper *keeper, char **words, char *answer, size_t size)
{
    char data[256], name[64], path[256], option[] = "-D";
    char *command[] = {words[1], option, data, NULL};
    int64_t deadline = keeper_now_ms() + (int64_t)START_S * 1000;

    /* The files of a killed server name processes whose numbers may be in use again. */
    keeper_kill_all(keeper);
    snprintf(name, sizeof name, ".s.PGSQL.%d", keeper->port);
    keeper_path(keeper, name, path, sizeof path);
    unlink(path);
    snprintf(name, sizeof name, ".s.PGSQL.%d.lock", keeper->port);
    keeper_path(keeper, name, path, sizeof path);
    unlink(path);
    keeper_path(keeper, "data", data, sizeof data);
    snprintf(answer, size, "failed");
    keeper->postmaster = keeper_spawn(keeper, true, command, words + 2);
    while (keeper->postmaster > 0 && keeper_now_ms() < deadline) {
        if (waitpid(keeper->postmaster, NULL, WNOHANG) != 0) {
            keeper->postmaster = 0;
            return;
        }
        if (keeper_is_ready(keeper)) {
            snprintf(answer, size, "ready %d", (int)keeper->postmaster);
            return;
        }
        keeper_wait(keeper, TICK_MS, false);
    }
    keeper_kill_all(keeper);
}

static void keeper_stop(struct keeper *keeper, char *answer, size_t size)
{
    int64_t deadline = keeper_now_ms() + (int64_t)STOP_S * 1000;
    bool stopped = keeper->postmaster == 0;

    if (!stopped)
        kill(keeper->postmaster, SIGINT);
    while (!stopped && keeper_now_ms() < deadline) {
        stopped = waitpid(keeper->postmaster, NULL, WNOHANG) != 0;
        if (!stopped)
            keeper_wait(keeper, TICK_MS, false);
    }
    if (stopped)
        keeper->postmaster = 0;
    stopped = keeper_kill_all(keeper) && stopped;
    snprintf(answer, size, "%s", stopped ? "stopped" : "failed");
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void keeper_serve(struct keeper *keeper, char **words, size_t count)
{
    char answer[64] = "unknown request";

    if (strcmp(words[0], "end") == 0) {
        keeper->ended = true;
        keeper_finish(keeper);
    }
    if (strcmp(words[0], "port") == 0)
        keeper_reserve_port(keeper, answer, sizeof answer);
    else if (strcmp(words[0], "run") == 0 && count > 2)
        keeper_run(keeper, words, answer, sizeof answer);
    else if (strcmp(words[0], "serve") == 0 && count > 2)
        snprintf(answer, sizeof answer, "pid %d",
                 (int)keeper_spawn(keeper, strcmp(words[1], "server") == 0, words + 2, NULL));
    else if (strcmp(words[0], "start") == 0 && count > 1)
        keeper_start(keeper, words, answer, sizeof answer);
    else if (strcmp(words[0], "stop") == 0)
        keeper_stop(keeper, answer, sizeof answer);
    else if (strcmp(words[0], "kill") == 0)
        snprintf(answer, sizeof answer, "%s", keeper_kill_all(keeper) ? "stopped" : "failed");
    send(CONTROL, answer, strlen(answer), MSG_NOSIGNAL);
}

int main(int argument_count, char **arguments)
{
    static char request[REQUEST_MAX];
    struct sigaction action = {.sa_handler = keeper_terminate};

    if (argument_count != 5)
        return 2;
    struct keeper keeper = {.folder = arguments[1],
                            .user = (uid_t)strtoul(arguments[2], NULL, 10),
                            .group = (gid_t)strtoul(arguments[3], NULL, 10)};
    pid_t test = (pid_t)strtol(arguments[4], NULL, 10);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close_range(CONTROL + 1, ~0u, 0);
    fcntl(CONTROL, F_SETFD, FD_CLOEXEC);
    /* The socket alone would not do: children that the test has forked hold its other end too. */
    keeper.test = (int)syscall(SYS_pidfd_open, test, 0);
    if (getppid() != test)
        keeper_finish(&keeper);
    for (;;) {
        char *words[WORDS_MAX + 1];
        size_t count = 0;
        if (!keeper_wait(&keeper, -1, true))
            continue;
        ssize_t size = recv(CONTROL, request, sizeof request - 1, 0);
        if (size <= 0)
            keeper_finish(&keeper);
        request[size] = '\0';
        for (char *word = request; word < request + size && count < WORDS_MAX;
             word += strlen(word) + 1)
            words[count++] = word;
        words[count] = NULL;
        keeper_serve(&keeper, words, count);
    }
}
