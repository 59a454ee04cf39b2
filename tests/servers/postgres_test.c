#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "helpers.h"
#include "process.h"

#define CHILDREN_MAX 64
#define GONE_MS      10000

/* ---- Roles ----------------------------------------------------------------------------------- */

/* Returns the System V segment of a server, which the seventh line of its file names. */
static int segment_of(const struct pg_server *server)
{
    char path[128], text[64];
    unsigned long key;
    int segment = -1;

    snprintf(path, sizeof path, "%s/data/postmaster.pid", server->folder);
    struct bl_text file = suite_read_file(path), rest = file, line = {NULL, 0};
    for (int i = 0; i < 7; i++)
        bl_text_split(&rest, '\n', &line);
    snprintf(text, sizeof text, BL_TEXT_FORMAT, BL_TEXT_ARG(line));
    assert_int_equal(sscanf(text, "%lu %d", &key, &segment), 2);
    bl_free((void *)(uintptr_t)file.data);
    return segment;
}

int role_main(const char *role)
{
    struct pg_server server;

    if (!pg_server_start(&server, NULL))
        return 1;
    printf("%s %d %d %u %d\n", server.folder, (int)server.keeper, (int)server.pid, server.port,
           segment_of(&server));
    fflush(stdout);
    if (strcmp(role, "stay") == 0)
        sleep(120);
    if (pg_server_ask_integer(&server, "postgres", "SELECT 6 * 7") != 42)
        return 1;
    pg_server_end(&server);
    return 0;
}

/* This program in a role, and the server that it has started. */
struct actor {
    pid_t pid;
    FILE *output;
    struct pg_server server;
    int segment;
};

/* `variable` is set in its environment, unless it is NULL. */
static void actor_start(struct actor *actor, const char *role, const char *variable,
                        const char *value)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    actor->pid = fork();
    if (actor->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        if (strcmp(role, "stay") == 0) /* its keeper will print the log */
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        if (variable != NULL)
            setenv(variable, value, 1);
        execl("/proc/self/exe", "servers_test", "--role", role, NULL);
        _exit(127);
    }
    close(ends[1]);
    actor->output = fdopen(ends[0], "r");
}

/* Waits until it has started its server. */
static void actor_read(struct actor *actor)
{
    int keeper, pid;
    unsigned port;

    assert_int_equal(fscanf(actor->output, "%95s %d %d %u %d", actor->server.folder, &keeper, &pid,
                            &port, &actor->segment),
                     5);
    actor->server.keeper = keeper;
    actor->server.pid = pid;
    actor->server.port = (uint16_t)port;
}

static int actor_end(struct actor *actor)
{
    int status = 0;

    while (waitpid(actor->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    fclose(actor->output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- Observations ---------------------------------------------------------------------------- */

static bool gone_within(pid_t pid, int limit_ms)
{
    for (int i = 0; i < limit_ms && process_lives(pid); i++)
        poll(NULL, 0, 1);
    return !process_lives(pid);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void server_answers_over_its_socket_and_tcp(void **state BL_UNUSED)
{
    struct pg_server *server = pg_server_shared();
    char address[PG_ADDRESS_SIZE], text[32];

    assert_true(pg_server_database(server, "answers"));
    assert_true(
        pg_server_change(server, "answers", "CREATE TABLE t (n int); INSERT INTO t VALUES (7)"));
    assert_int_equal(pg_server_ask_integer(server, "answers", "SELECT n FROM t"), 7);
    assert_true(pg_server_ask(server, "answers", "SELECT NULL", text, sizeof text));
    assert_string_equal(text, "");
    assert_true(pg_server_ask(server, "answers", "SHOW fsync", text, sizeof text));
    assert_string_equal(text, "on");
    pg_tcp_address(server->port, "answers", NULL, address);
    PGconn *connection = PQconnectdb(address);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    PQfinish(connection);
    pg_server_address(server, "answers", NULL, address);
    connection = PQconnectdb(address);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    PQfinish(connection);
}

static void tcp_requires_the_password(void **state BL_UNUSED)
{
    struct pg_server *server = pg_server_shared();
    char address[PG_ADDRESS_SIZE];

    snprintf(address, sizeof address, "postgres://%s:wrong@127.0.0.1:%u/postgres", PG_USER,
             server->port);
    PGconn *connection = PQconnectdb(address);
    assert_int_equal(PQstatus(connection), CONNECTION_BAD);
    assert_non_null(strstr(PQerrorMessage(connection), "password authentication failed"));
    PQfinish(connection);
}

static void tests_of_one_process_share_a_server(void **state BL_UNUSED)
{
    struct pg_server *server = pg_server_shared();

    assert_ptr_equal(server, pg_server_shared());
    assert_true(process_lives(server->pid));
}

static void killed_server_restarts_with_its_data(void **state BL_UNUSED)
{
    struct pg_server server;
    pid_t children[CHILDREN_MAX];
    char address[PG_ADDRESS_SIZE];

    pg_skip_unless_available();
    assert_true(pg_server_start(&server, NULL));
    assert_true(pg_server_change(&server, "postgres", "CREATE TABLE t (n int)"));
    assert_true(pg_server_change(&server, "postgres", "INSERT INTO t VALUES (1)"));
    pg_server_address(&server, "postgres", NULL, address);
    PGconn *open = PQconnectdb(address);
    PQclear(PQexec(open, "BEGIN"));
    PQclear(PQexec(open, "INSERT INTO t VALUES (2)"));
    pid_t busy = PQbackendPID(open), postmaster = server.pid;
    assert_int_equal(PQsendQuery(open, "SELECT pg_sleep(60)"), 1);
    size_t count = process_children(server.pid, children, CHILDREN_MAX);
    assert_in_range(count, 5, CHILDREN_MAX); /* checkpointer, writers, launchers, the session */

    assert_true(pg_server_kill(&server));
    assert_false(process_lives(postmaster));
    assert_false(process_lives(busy));
    for (size_t i = 0; i < count; i++)
        assert_false(process_lives(children[i]));
    PQfinish(open);
    open = PQconnectdb(address);
    assert_int_equal(PQstatus(open), CONNECTION_BAD);
    PQfinish(open);

    assert_true(pg_server_restart(&server));
    assert_int_equal(pg_server_ask_integer(&server, "postgres", "SELECT sum(n) FROM t"), 1);
    assert_int_not_equal(server.pid, postmaster);
    pg_server_end(&server);
    assert_int_equal(server.keeper, 0);
}

static void stopped_server_restarts_at_its_port(void **state BL_UNUSED)
{
    struct pg_server server;

    pg_skip_unless_available();
    assert_true(pg_server_start(
        &server, &(struct pg_options){.max_connections = 23, .settings = "work_mem = '3MB'"}));
    uint16_t port = server.port;
    pid_t pid = server.pid;
    assert_true(pg_server_stop(&server));
    assert_false(process_lives(pid));
    assert_true(pg_server_restart(&server));
    assert_int_equal(server.port, port);
    assert_int_equal(pg_server_ask_integer(&server, "postgres", "SHOW max_connections"), 23);
    assert_true(pg_server_await(&server, "postgres", "SHOW work_mem", "3MB", 1000));
    pg_server_end(&server);
    assert_false(process_lives(server.pid));
}

/* Its environment is the same after a crash. */
static void options_reach_the_server(void **state BL_UNUSED)
{
    static const char *const environment[] = {"BELAY_PG_TEST=here", NULL};
    struct pg_server server;
    char address[PG_ADDRESS_SIZE], path[64];

    pg_skip_unless_available();
    assert_true(pg_server_start(&server, &(struct pg_options){.listen = "127.0.0.1,127.0.0.2",
                                                              .environment = environment}));
    snprintf(address, sizeof address, "postgres://%s:%s@127.0.0.2:%u/postgres", PG_USER,
             PG_PASSWORD, server.port);
    PGconn *connection = PQconnectdb(address);
    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    PQfinish(connection);
    assert_true(pg_server_kill(&server));
    assert_true(pg_server_restart(&server));
    snprintf(path, sizeof path, "/proc/%d/environ", (int)server.pid);
    struct bl_text text = suite_read_file(path);
    assert_true(bl_text_find(text, bl_text_from(environment[0])) >= 0);
    bl_free((void *)(uintptr_t)text.data);
    pg_server_end(&server);
}

static void failed_start_prints_the_log(void **state BL_UNUSED)
{
    struct pg_server server;
    char text[8192];

    pg_skip_unless_available();
    int before = dup(STDERR_FILENO), output = memfd_create("stderr", MFD_CLOEXEC);
    dup2(output, STDERR_FILENO);
    bool started = pg_server_start(&server, &(struct pg_options){.settings = "no_setting = 1"});
    dup2(before, STDERR_FILENO);
    ssize_t size = pread(output, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    close(before);
    close(output);
    assert_false(started);
    assert_int_equal(server.keeper, 0);
    assert_non_null(strstr(text, "unrecognized configuration parameter \"no_setting\""));
}

/* Without a copy of a data folder: one of them makes it. */
static void four_processes_start_servers_at_once(void **state BL_UNUSED)
{
    struct actor actors[4];
    char root[] = "/tmp/belay-pg-root-XXXXXX", command[64];

    pg_skip_unless_available();
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_start(&actors[i], "start", "BELAY_BUILD_ROOT", root);
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_read(&actors[i]);
    for (size_t i = 0; i < BL_COUNT(actors); i++) {
        assert_int_equal(actor_end(&actors[i]), 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(actors[i].server.port, actors[j].server.port);
        assert_int_equal(access(actors[i].server.folder, F_OK), -1);
        assert_false(process_lives(actors[i].server.keeper));
    }
    snprintf(command, sizeof command, "test $(ls -d %s/* | wc -l) = 2", root); /* and the lock */
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

static void assert_nothing_left(const struct actor *actor, const pid_t *children, size_t count)
{
    struct shmid_ds segment;

    assert_true(gone_within(actor->server.keeper, GONE_MS));
    assert_false(process_lives(actor->server.pid));
    for (size_t i = 0; i < count; i++)
        assert_false(process_lives(children[i]));
    assert_int_equal(access(actor->server.folder, F_OK), -1);
    assert_int_equal(shmctl(actor->segment, IPC_STAT, &segment), -1);
}

static void nothing_is_left_of_a_killed_test(void **state BL_UNUSED)
{
    struct actor actor;
    struct shmid_ds segment;
    pid_t children[CHILDREN_MAX];
    char address[PG_ADDRESS_SIZE];

    pg_skip_unless_available();
    actor_start(&actor, "stay", NULL, NULL);
    actor_read(&actor);
    pg_server_address(&actor.server, "postgres", NULL, address);
    PGconn *open = PQconnectdb(address);
    assert_int_equal(PQsendQuery(open, "SELECT pg_sleep(60)"), 1);
    size_t count = process_children(actor.server.pid, children, CHILDREN_MAX);
    assert_in_range(count, 5, CHILDREN_MAX);
    assert_int_equal(shmctl(actor.segment, IPC_STAT, &segment), 0);
    kill(actor.pid, SIGKILL);
    assert_int_equal(actor_end(&actor), -SIGKILL);
    assert_nothing_left(&actor, children, count);
    PQfinish(open);
}

/* The keeper cannot clean up, but no process of the server may survive. */
static void server_ends_with_a_killed_keeper(void **state BL_UNUSED)
{
    struct actor actor;
    pid_t children[CHILDREN_MAX];
    char command[160];

    pg_skip_unless_available();
    actor_start(&actor, "stay", NULL, NULL);
    actor_read(&actor);
    size_t count = process_children(actor.server.pid, children, CHILDREN_MAX);
    kill(actor.server.keeper, SIGKILL);
    assert_true(gone_within(actor.server.pid, GONE_MS));
    for (size_t i = 0; i < count; i++)
        assert_true(gone_within(children[i], GONE_MS));
    kill(actor.pid, SIGKILL);
    assert_int_equal(actor_end(&actor), -SIGKILL);
    shmctl(actor.segment, IPC_RMID, NULL);
    snprintf(command, sizeof command, "rm -rf %s", actor.server.folder);
    assert_int_equal(system(command), 0);
}

static void synchronous_standby_takes_over_with_every_row(void **state BL_UNUSED)
{
    struct pg_server primary, standby;
    char address[PG_ADDRESS_SIZE];

    pg_skip_unless_available();
    assert_true(pg_server_start(&primary, NULL));
    assert_true(
        pg_server_follow(&standby, &primary, &(struct pg_standby_options){.synchronous = true}));
    assert_true(pg_server_change(&primary, "postgres", "CREATE TABLE t (n int)"));
    for (int i = 0; i < 20; i++)
        assert_true(pg_server_change(&primary, "postgres", "INSERT INTO t VALUES (1)"));
    pg_server_address(&standby, "postgres", NULL, address);
    PGconn *reader = PQconnectdb(address);
    PGresult *refused = PQexec(reader, "INSERT INTO t VALUES (1)");
    assert_int_equal(PQresultStatus(refused), PGRES_FATAL_ERROR);
    PQclear(refused);
    PQfinish(reader);

    assert_true(pg_server_kill(&primary));
    assert_true(pg_server_promote(&standby));
    assert_int_equal(pg_server_ask_integer(&standby, "postgres", "SELECT count(*) FROM t"), 20);
    assert_true(pg_server_change(&standby, "postgres", "INSERT INTO t VALUES (1)"));
    pg_server_end(&standby);
    pg_server_end(&primary);
}

/* How long a test with its own server waits for it. */
static void server_starts_quickly(void **state BL_UNUSED)
{
    struct pg_server server;
    struct timespec before, after;

    pg_server_shared(); /* the copy of a data folder exists */
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_true(pg_server_start(&server, NULL));
    clock_gettime(CLOCK_MONOTONIC, &after);
    long ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    print_message("a server started in %ld ms\n", ms);
    pg_server_end(&server);
    assert_in_range(ms, 0, 10000);
}

SUITE(postgres, cmocka_unit_test(server_answers_over_its_socket_and_tcp),
      cmocka_unit_test(tcp_requires_the_password),
      cmocka_unit_test(tests_of_one_process_share_a_server),
      cmocka_unit_test(killed_server_restarts_with_its_data),
      cmocka_unit_test(stopped_server_restarts_at_its_port),
      cmocka_unit_test(options_reach_the_server), cmocka_unit_test(failed_start_prints_the_log),
      cmocka_unit_test(four_processes_start_servers_at_once),
      cmocka_unit_test(nothing_is_left_of_a_killed_test),
      cmocka_unit_test(server_ends_with_a_killed_keeper),
      cmocka_unit_test(synchronous_standby_takes_over_with_every_row),
      cmocka_unit_test(server_starts_quickly));
