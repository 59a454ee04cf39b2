#include "held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANCESTORS_MAX 64
#define PATIENCE_NS   (30 * BL_NS_PER_S)
#define ENVIRON_MAX   131072u

static uint64_t now_ns(void)
{
    return bl_clock_now_ns(&bl_clock_system);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Returns our environment with the mark. Leak detection costs seconds per process, and is done in
 * tests that link the library; the same holds for waiting for races at exit. */
static char **make_environment(const struct held *held)
{
    size_t count = 0, used = 0;

    while (environ[count] != NULL)
        count++;
    char **result = bl_zalloc((count + 4) * sizeof *result);
    result[used++] = (char *)held->mark;
    result[used++] = (char *)"ASAN_OPTIONS=detect_leaks=0";
    result[used++] = (char *)"TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0";
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "ASAN_OPTIONS=", 13) != 0 &&
            strncmp(environ[i], "TSAN_OPTIONS=", 13) != 0)
            result[used++] = environ[i];
    }
    return result;
}

/* The first terminal that a session leader opens becomes the session's terminal. */
static void add_terminal(struct held *held, posix_spawn_file_actions_t *actions,
                         posix_spawnattr_t *attributes, char name[PATH_MAX])
{
    int slave;

    assert_int_equal(openpty(&held->terminal, &slave, name, NULL, NULL), 0);
    fcntl(held->terminal, F_SETFD, FD_CLOEXEC);
    close(slave);
    posix_spawn_file_actions_addopen(actions, STDIN_FILENO, name, O_RDWR, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
}

void held_start(struct held *held, const char *const *words, int input, int output)
{
    static unsigned counter;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    char name[PATH_MAX];

    *held = (struct held){.terminal = -1, .from_ns = now_ns()};
    snprintf(held->mark, sizeof held->mark, "BELAY_TEST_MARK=%d-%u", (int)getpid(), counter++);
    held->out = memfd_create("out", MFD_CLOEXEC);
    held->err = memfd_create("err", MFD_CLOEXEC);
    assert_true(held->out >= 0 && held->err >= 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (input == HELD_TERMINAL)
        add_terminal(held, &actions, &attributes, name);
    else if (input == HELD_NULL)
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output == RUN_KEEP ? held->out : output,
                                     STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, held->err, STDERR_FILENO);
    char **variables = make_environment(held);
    int result =
        posix_spawnp(&held->pid, words[0], &actions, &attributes, (char *const *)words, variables);
    bl_free(variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (result != 0)
        fail_msg("%s: %s", words[0], strerror(result));
}

/* True for belay and its wardens, which only root can inspect: they are found by their parents. The
 * guard is also below belay, and has no mark. */
static bool is_protected_part(pid_t pid, pid_t ancestor)
{
    char path[64], data[512];
    for (int depth = 0; depth < ANCESTORS_MAX && pid > 1; depth++) {
        if (pid == ancestor)
            return true;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        struct bl_text text = bl_file_read(AT_FDCWD, path, data, sizeof data - 1);
        data[text.size] = '\0';
        char *end = strrchr(data, ')');
        if (end == NULL || (depth == 0 && strstr(data, "(warden-guard)") != NULL))
            return false;
        pid = (pid_t)strtol(end + 4, NULL, 10);
    }
    return false;
}

/* True if the initial environment of the process has the mark. A zombie has none. */
static bool carries_mark(const char *process, const struct held *held)
{
    const char *mark = held->mark;
    static char data[ENVIRON_MAX];
    char path[64];

    snprintf(path, sizeof path, "/proc/%.16s/environ", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES && held->pid > 0 &&
               is_protected_part((pid_t)strtol(process, NULL, 10), held->pid);
    ssize_t size = read(fd, data, sizeof data);
    close(fd);
    return size > 0 && memmem(data, (size_t)size, mark, strlen(mark) + 1) != NULL;
}

/* Counts the processes with the mark, and sends each the signal `number` (0 for none). */
static size_t signal_marked(const struct held *held, int number)
{
    DIR *directory = opendir("/proc");
    size_t count = 0;

    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !carries_mark(entry->d_name, held))
            continue;
        count++;
        if (number != 0)
            kill(pid, number);
    }
    closedir(directory);
    return count;
}

size_t held_count(const struct held *held)
{
    return signal_marked(held, 0);
}

double held_await_count(struct held *held, size_t count)
{
    uint64_t from_ns = now_ns();
    size_t found;

    while ((found = held_count(held)) != count) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("%zu processes instead of %zu", found, count);
        nap();
    }
    return (double)(now_ns() - from_ns) / 1e9;
}

void held_await_at_least(struct held *held, size_t count)
{
    uint64_t from_ns = now_ns();
    size_t found;

    while ((found = held_count(held)) < count) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("%zu processes instead of %zu or more", found, count);
        nap();
    }
}

void held_await(struct held *held, const char *text)
{
    uint64_t from_ns = now_ns();

    while (strstr(held_out(held), text) == NULL) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("no '%s' in '%s' and '%s'", text, held_out(held), held_err(held));
        nap();
    }
}

double held_wait(struct held *held)
{
    uint64_t from_ns = now_ns();
    int status;
    pid_t pid;

    while ((pid = waitpid(held->pid, &status, WNOHANG)) == 0) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("it does not end; '%s'", held_err(held));
        nap();
    }
    assert_int_equal(pid, held->pid);
    held->pid = 0;
    held->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return (double)(now_ns() - held->from_ns) / 1e9;
}

double held_kill(struct held *held)
{
    uint64_t from_ns = now_ns();

    assert_int_equal(kill(held->pid, SIGKILL), 0);
    held_wait(held);
    held_await_count(held, 0);
    return (double)(now_ns() - from_ns) / BL_NS_PER_MS;
}

static const char *read_all(int fd, char *data)
{
    ssize_t size = pread(fd, data, RUN_OUTPUT_MAX - 1, 0);
    assert_true(size >= 0);
    data[size] = '\0';
    return data;
}

const char *held_out(const struct held *held)
{
    static char data[RUN_OUTPUT_MAX];
    return read_all(held->out, data);
}

const char *held_err(const struct held *held)
{
    static char data[RUN_OUTPUT_MAX];
    return read_all(held->err, data);
}

const char *held_last_line(const struct held *held)
{
    const char *text = held_err(held), *line = text;

    for (const char *next; (next = strchr(line, '\n')) != NULL && next[1] != '\0';)
        line = next + 1;
    return line;
}

void held_end(struct held *held)
{
    if (held->mark[0] == '\0')
        return;
    if (held->pid > 0)
        kill(held->pid, SIGKILL);
    for (int i = 0; i < 500 && signal_marked(held, SIGKILL) > 0; i++)
        nap();
    if (held->pid > 0)
        waitpid(held->pid, NULL, 0);
    close(held->out);
    close(held->err);
    if (held->terminal >= 0)
        close(held->terminal);
    *held = (struct held){.terminal = -1};
}
