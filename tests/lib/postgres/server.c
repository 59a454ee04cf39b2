#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "suite.h"

#define LOG_TAIL       6000
#define KEEPER_S       150 /* longer than any of its own waits */
#define KEEPER_EXIT_S  30
#define LOCK_S         120
#define DEFAULT_LISTEN "127.0.0.1"

int64_t pg_now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

bool pg_fail(const struct pg_server *server, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    if (server != NULL)
        pg_server_print_log(server);
    return false;
}

void pg_server_print_log(const struct pg_server *server)
{
    char path[128], tail[LOG_TAIL];
    struct stat status;

    snprintf(path, sizeof path, "%s/log", server->folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t from =
        fstat(fd, &status) == 0 && status.st_size > LOG_TAIL ? status.st_size - LOG_TAIL : 0;
    ssize_t size = pread(fd, tail, sizeof tail, from);
    close(fd);
    if (size > 0)
        fprintf(stderr, "end of %s:\n%.*s", path, (int)size, tail);
}

/* ---- The keeper ------------------------------------------------------------------------------ */

static bool pg_keeper_start(struct pg_server *server)
{
    const struct pg_programs *programs = pg_programs();
    char user[16], group[16], self[16];
    char *words[] = {(char *)(uintptr_t)programs->keeper, server->folder, user, group, self, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    snprintf(user, sizeof user, "%u", (unsigned)programs->user);
    snprintf(group, sizeof group, "%u", (unsigned)programs->group);
    snprintf(self, sizeof self, "%d", (int)getpid());
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int code =
        posix_spawn(&server->keeper, programs->keeper, &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    server->control = ends[0];
    if (code == 0)
        return true;
    close(ends[0]);
    server->keeper = 0;
    return false;
}

/* Waits until the keeper has removed everything and exited. */
static void pg_keeper_await(struct pg_server *server)
{
    int64_t deadline = pg_now_ms() + (int64_t)KEEPER_EXIT_S * 1000;
    pid_t pid;

    while ((pid = waitpid(server->keeper, NULL, WNOHANG)) == 0 && pg_now_ms() < deadline)
        poll(NULL, 0, 1);
    if (pid == 0)
        pg_fail(NULL, "%s: the keeper of the server does not end", server->folder);
    close(server->control);
    *server = (struct pg_server){0};
}

void pg_word(struct pg_request *request, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int size = vsnprintf(request->bytes + request->size, sizeof request->bytes - request->size,
                         format, arguments);
    va_end(arguments);
    if (size >= 0 && (size_t)size < sizeof request->bytes - request->size)
        request->size += (size_t)size + 1;
}

bool pg_call(struct pg_server *server, const struct pg_request *request, char *out, size_t out_size)
{
    struct pollfd polled = {.fd = server->control, .events = POLLIN};
    int64_t deadline = pg_now_ms() + (int64_t)KEEPER_S * 1000;

    bl_text_into(out, out_size, NULL);
    if (server->keeper == 0 ||
        send(server->control, request->bytes, request->size, MSG_NOSIGNAL) < 0)
        return false;
    while (poll(&polled, 1, PG_POLL_MS * 20) <= 0) {
        if (pg_now_ms() > deadline)
            return false;
    }
    ssize_t size = recv(server->control, out, out_size - 1, 0);
    out[size > 0 ? size : 0] = '\0';
    return size > 0;
}

/* The same for a request of one word; true if the answer begins with `expected`. */
static bool pg_command(struct pg_server *server, const char *word, const char *expected)
{
    struct pg_request request = {.size = 0};
    char answer[64];

    pg_word(&request, "%s", word);
    return pg_call(server, &request, answer, sizeof answer) &&
           strncmp(answer, expected, strlen(expected)) == 0;
}

/* ---- The data folder ------------------------------------------------------------------------- */

bool pg_folder_make(struct pg_server *server)
{
    const struct pg_programs *programs = pg_programs();
    struct pg_request request = {.size = 0};
    const char *temporary = getenv("TMPDIR");
    char answer[64];

    *server = (struct pg_server){.control = -1};
    /* The path of a socket has 107 bytes. */
    if (temporary == NULL || strlen(temporary) > 60)
        temporary = "/tmp";
    snprintf(server->folder, sizeof server->folder, "%s/belay-pg-XXXXXX", temporary);
    if (programs->missing != NULL)
        return pg_fail(NULL, "%s", programs->missing);
    if (mkdtemp(server->folder) == NULL)
        return pg_fail(NULL, "%s: %s", server->folder, strerror(errno));
    if (geteuid() == 0 && chown(server->folder, programs->user, programs->group) < 0)
        return pg_fail(NULL, "%s: %s", server->folder, strerror(errno));
    if (!pg_keeper_start(server)) {
        rmdir(server->folder);
        return pg_fail(NULL, "%s: cannot start", programs->keeper);
    }
    pg_word(&request, "port");
    pg_call(server, &request, answer, sizeof answer);
    server->port = (uint16_t)strtoul(answer, NULL, 10);
    return server->port != 0 || pg_fail(server, "no free port");
}

/* Returns a descriptor that holds the lock, or -1. It is free again when all copies are closed. */
static int pg_lock(const char *path)
{
    int64_t deadline = pg_now_ms() + (int64_t)LOCK_S * 1000;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (pg_now_ms() > deadline || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            return -1;
        }
        poll(NULL, 0, PG_POLL_MS);
    }
    return fd;
}

static bool pg_copy(struct pg_server *server, const char *from, const char *to)
{
    struct pg_request request = {.size = 0};
    char answer[64];

    pg_word(&request, "run");
    pg_word(&request, "self");
    pg_word(&request, "/bin/cp");
    pg_word(&request, "-a");
    pg_word(&request, "--reflink=auto");
    pg_word(&request, "%s", from);
    pg_word(&request, "%s", to);
    return pg_call(server, &request, answer, sizeof answer) && strcmp(answer, "exit 0") == 0;
}

static bool pg_initdb(struct pg_server *server)
{
    struct pg_request request = {.size = 0};
    char path[128], answer[64];

    snprintf(path, sizeof path, "%s/password", server->folder);
    FILE *file = fopen(path, "we");
    if (file == NULL || fprintf(file, "%s\n", PG_PASSWORD) < 0 || fclose(file) != 0)
        return pg_fail(server, "%s: %s", path, strerror(errno));
    pg_word(&request, "run");
    pg_word(&request, "server");
    pg_word(&request, "%s/initdb", pg_programs()->folder);
    pg_word(&request, "--pgdata=%s/data", server->folder);
    pg_word(&request, "--pwfile=%s", path);
    pg_word(&request, "--username=" PG_USER);
    pg_word(&request, "--auth-local=trust");
    pg_word(&request, "--auth-host=scram-sha-256");
    pg_word(&request, "--encoding=UTF8");
    pg_word(&request, "--locale=C");
    pg_word(&request, "--no-sync");
    return (pg_call(server, &request, answer, sizeof answer) && strcmp(answer, "exit 0") == 0) ||
           pg_fail(server, "initdb failed: %s", answer);
}

/* Makes the copy that later servers start from. Without it they take a second longer. */
static void pg_keep_copy(struct pg_server *server, const char *copy)
{
    struct pg_request request = {.size = 0};
    char fresh[300], data[128], answer[64];

    snprintf(fresh, sizeof fresh, "%s.new", copy);
    snprintf(data, sizeof data, "%s/data", server->folder);
    /* A run that was killed may have left half of one. */
    pg_word(&request, "run");
    pg_word(&request, "self");
    pg_word(&request, "/bin/rm");
    pg_word(&request, "-rf");
    pg_word(&request, "%s", fresh);
    pg_call(server, &request, answer, sizeof answer);
    if (pg_copy(server, data, fresh))
        rename(fresh, copy);
}

/* Makes the data folder: by initdb, or from the copy of one that initdb has made. */
static bool pg_data_make(struct pg_server *server)
{
    const char *copy = pg_programs()->copy;
    char data[128], lock[300];

    snprintf(data, sizeof data, "%s/data", server->folder);
    if (copy[0] == '\0')
        return pg_initdb(server);
    if (access(copy, F_OK) == 0)
        return pg_copy(server, copy, data) || pg_fail(server, "cannot copy %s", copy);
    snprintf(lock, sizeof lock, "%s.lock", copy);
    int fd = pg_lock(lock);
    bool made;
    if (access(copy, F_OK) == 0) {
        made = pg_copy(server, copy, data) || pg_fail(server, "cannot copy %s", copy);
    } else {
        made = pg_initdb(server);
        if (made && fd >= 0)
            pg_keep_copy(server, copy);
    }
    if (fd >= 0)
        close(fd);
    return made;
}

bool pg_append(struct pg_server *server, const char *name, const char *format, ...)
{
    char path[160];
    va_list arguments;

    snprintf(path, sizeof path, "%s/data/%s", server->folder, name);
    FILE *file = fopen(path, "ae");
    if (file == NULL)
        return pg_fail(server, "%s: %s", path, strerror(errno));
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    return fclose(file) == 0;
}

bool pg_configure(struct pg_server *server, const struct pg_options *options)
{
    static const struct pg_options defaults;

    if (options == NULL)
        options = &defaults;
    server->environment = options->environment;
    return pg_append(server, "pg_hba.conf", "host all all all scram-sha-256\n") &&
           pg_append(server, "postgresql.conf",
                     "port = %u\n"
                     "listen_addresses = '%s'\n"
                     "unix_socket_directories = '%s'\n"
                     "max_connections = %u\n"
                     "shared_buffers = 16MB\n"
                     "huge_pages = off\n"
                     "jit = off\n"
                     /* Files of the data folder, which disappear with it after a crash. */
                     "dynamic_shared_memory_type = mmap\n"
                     "wal_keep_size = 64MB\n"
                     "log_line_prefix = '%%m [%%p] %%q%%u@%%d '\n"
                     "log_checkpoints = off\n"
                     "%s\n",
                     server->port, options->listen != NULL ? options->listen : DEFAULT_LISTEN,
                     server->folder, options->max_connections > 0 ? options->max_connections : 100u,
                     options->settings != NULL ? options->settings : "");
}

/* ---- Life ------------------------------------------------------------------------------------ */

bool pg_server_start(struct pg_server *server, const struct pg_options *options)
{
    if (pg_folder_make(server) && pg_data_make(server) && pg_configure(server, options) &&
        pg_server_restart(server))
        return true;
    pg_server_end(server);
    return false;
}

bool pg_server_stop(struct pg_server *server)
{
    server->pid = 0;
    return pg_command(server, "stop", "stopped") || pg_fail(server, "the server does not stop");
}

bool pg_server_kill(struct pg_server *server)
{
    server->pid = 0;
    return pg_command(server, "kill", "stopped") || pg_fail(server, "the server survives");
}

bool pg_server_restart(struct pg_server *server)
{
    struct pg_request request = {.size = 0};
    char answer[64];

    pg_word(&request, "start");
    pg_word(&request, "%s/postgres", pg_programs()->folder);
    for (const char *const *each = server->environment; each != NULL && *each != NULL; each++)
        pg_word(&request, "%s", *each);
    server->pid = 0;
    if (!pg_call(server, &request, answer, sizeof answer) || strncmp(answer, "ready ", 6) != 0)
        return pg_fail(server, "the server does not start: %s", answer);
    server->pid = (pid_t)strtol(answer + 6, NULL, 10);
    return true;
}

void pg_server_end(struct pg_server *server)
{
    if (server->keeper == 0)
        return;
    pg_command(server, "end", "");
    pg_keeper_await(server);
}

/* ---- The shared server ----------------------------------------------------------------------- */

static struct pg_server pg_shared;
static pid_t pg_shared_owner;

/* A failed run ends it without a request: then the keeper prints the log. */
static void pg_shared_end(int status, void *argument BL_UNUSED)
{
    if (pg_shared_owner != getpid() || pg_shared.keeper == 0)
        return;
    if (status == 0) {
        pg_server_end(&pg_shared);
    } else {
        shutdown(pg_shared.control, SHUT_RDWR);
        pg_keeper_await(&pg_shared);
    }
}

struct pg_server *pg_server_shared(void)
{
    pg_skip_unless_available();
    if (pg_shared.keeper != 0 && pg_shared_owner == getpid())
        return &pg_shared;
    if (!pg_server_start(&pg_shared, NULL))
        fail_msg("no shared PostgreSQL server");
    if (pg_shared_owner == 0)
        on_exit(pg_shared_end, NULL);
    pg_shared_owner = getpid();
    return &pg_shared;
}
