#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <libpq-fe.h>

#include "helpers.h"
#include "pgproxy.h"

#define QUIET_MS  150 /* long enough to see that nothing arrives */
#define LATE_MS   1500
#define ANSWER_MS 20000 /* for an answer that must arrive */

/* A database with an empty table t, and a proxy in front of it. */
struct route {
    struct pg_server *server;
    struct pg_proxy *proxy;
    char database[32];
};

static void route_open(struct route *route)
{
    static unsigned count;

    route->server = pg_server_shared();
    snprintf(route->database, sizeof route->database, "route_%u", count++);
    assert_true(pg_server_database(route->server, route->database));
    assert_true(pg_server_change(route->server, route->database, "CREATE TABLE t (n int)"));
    route->proxy = pg_proxy_start(route->server->port);
    assert_non_null(route->proxy);
}

static void route_close(struct route *route)
{
    pg_proxy_stop(route->proxy);
}

/* Number of committed rows, not through the proxy. */
static int64_t route_rows(struct route *route)
{
    return pg_server_ask_integer(route->server, route->database, "SELECT count(*) FROM t");
}

static bool route_await_rows(struct route *route, const char *count)
{
    return pg_server_await(route->server, route->database, "SELECT count(*) FROM t", count,
                           ANSWER_MS);
}

static PGconn *route_connect(struct route *route)
{
    char address[PG_ADDRESS_SIZE];

    pg_tcp_address(pg_proxy_port(route->proxy), route->database, NULL, address);
    PGconn *connection = PQconnectdb(address);
    if (PQstatus(connection) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(connection));
    return connection;
}

static int64_t clock_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* True if PQgetResult would return without waiting, after at most `limit_ms`. A closed connection
 * has a result too. */
static bool has_result(PGconn *connection, int limit_ms)
{
    int64_t deadline = clock_ms() + limit_ms;
    struct pollfd polled = {.fd = PQsocket(connection), .events = POLLIN};

    while (PQisBusy(connection)) {
        int64_t left = deadline - clock_ms();
        if (left <= 0 || poll(&polled, 1, (int)left) <= 0)
            return false;
        if (!PQconsumeInput(connection))
            return true;
    }
    return true;
}

static ExecStatusType next_status(PGconn *connection)
{
    if (!has_result(connection, ANSWER_MS))
        fail_msg("no answer");
    PGresult *result = PQgetResult(connection);
    ExecStatusType status = result != NULL ? PQresultStatus(result) : PGRES_EMPTY_QUERY;
    PQclear(result);
    return status;
}

static bool run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* The connection ends without an answer, within the time for answers. */
static void assert_cut(PGconn *connection)
{
    assert_int_equal(next_status(connection), PGRES_FATAL_ERROR);
    assert_int_equal(PQstatus(connection), CONNECTION_BAD);
}

static void send_with_parameters(PGconn *connection, const char *sql)
{
    assert_int_equal(PQsendQueryParams(connection, sql, 0, NULL, NULL, NULL, NULL, 0), 1);
}

/* ---- Without a fault ------------------------------------------------------------------------- */

static void proxy_passes_messages_and_counts_them(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = route_connect(&route);
    assert_int_equal(pg_proxy_connections(route.proxy), 1);
    assert_int_equal(pg_proxy_open(route.proxy), 1);
    uint64_t ready = pg_proxy_messages(route.proxy, PG_SERVER, 'Z');
    for (int i = 0; i < 5; i++)
        assert_true(run(connection, "SELECT generate_series(1, 3)"));
    send_with_parameters(connection, "SELECT 1");
    assert_int_equal(next_status(connection), PGRES_TUPLES_OK);
    assert_int_equal(next_status(connection), PGRES_EMPTY_QUERY);
    assert_int_equal(pg_proxy_messages(route.proxy, PG_CLIENT, 'Q'), 5);
    assert_int_equal(pg_proxy_messages(route.proxy, PG_CLIENT, 'S'), 1);
    assert_int_equal(pg_proxy_messages(route.proxy, PG_SERVER, 'Z'), ready + 6);
    assert_int_equal(pg_proxy_messages(route.proxy, PG_SERVER, 'D'), 16);
    PQfinish(connection);
    route_close(&route);
}

/* More than a queue holds: the server has to wait for the client. */
static void proxy_passes_large_messages_byte_for_byte(void **state BL_UNUSED)
{
    const size_t size = (size_t)12 * 1024 * 1024;
    struct route route;
    char *text = bl_alloc(size + 1);

    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + (i * 7 + i / 4096) % 26);
    text[size] = '\0';
    route_open(&route);
    PGconn *connection = route_connect(&route);
    const char *const values[] = {text};
    PGresult *result = PQexecParams(connection, "SELECT $1::text UNION ALL SELECT $1::text", 1,
                                    NULL, values, NULL, NULL, 0);
    assert_int_equal(PQntuples(result), 1 + 1);
    assert_int_equal(PQgetlength(result, 1, 0), size);
    assert_int_equal(strcmp(PQgetvalue(result, 1, 0), text), 0);
    PQclear(result);
    PQfinish(connection);
    bl_free(text);
    route_close(&route);
}

static void *write_rows(void *argument)
{
    struct route *route = argument;
    char address[PG_ADDRESS_SIZE];
    intptr_t done = 0;

    pg_tcp_address(pg_proxy_port(route->proxy), route->database, NULL, address);
    PGconn *connection = PQconnectdb(address);
    for (int i = 0; i < 50; i++)
        done += run(connection, "INSERT INTO t VALUES (1)");
    PQfinish(connection);
    return (void *)done;
}

static void clients_use_the_proxy_at_once(void **state BL_UNUSED)
{
    struct route route;
    pthread_t threads[8];
    void *done;

    route_open(&route);
    for (size_t i = 0; i < BL_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_rows, &route), 0);
    for (size_t i = 0; i < BL_COUNT(threads); i++) {
        pthread_join(threads[i], &done);
        assert_int_equal((intptr_t)done, 50);
    }
    assert_int_equal(route_rows(&route), 50 * BL_COUNT(threads));
    route_close(&route);
}

static void delay_is_added_in_both_directions(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_delay(route.proxy, 100);
    int64_t before = clock_ms();
    assert_true(run(connection, "SELECT 1"));
    assert_in_range(clock_ms() - before, 200, ANSWER_MS);
    pg_proxy_delay(route.proxy, 0);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

/* ---- Lost answers ---------------------------------------------------------------------------- */

static void dropped_answers_leave_the_client_waiting(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_DROP});
    assert_int_equal(PQsendQuery(connection, "INSERT INTO t VALUES (1)"), 1);
    assert_true(route_await_rows(&route, "1"));
    assert_false(has_result(connection, QUIET_MS));
    pg_proxy_fault(route.proxy, NULL);
    assert_cut(connection);
    PQfinish(connection);
    connection = route_connect(&route);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

static void lost_answer_cuts_only_the_client_that_matches(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *other = route_connect(&route), *victim = route_connect(&route);
    pg_proxy_fault(route.proxy,
                   &(struct pg_fault){.type = PG_DROP_AND_CUT, .times = 1, .match = "(77)"});
    assert_true(run(other, "INSERT INTO t VALUES (1)"));
    assert_true(run(victim, "INSERT INTO t VALUES (2)"));
    assert_int_equal(pg_proxy_hits(route.proxy), 0);
    send_with_parameters(victim, "INSERT INTO t VALUES (77)");
    assert_cut(victim);
    assert_int_equal(pg_proxy_hits(route.proxy), 1);
    assert_true(route_await_rows(&route, "3"));
    assert_true(run(other, "INSERT INTO t VALUES (77)"));
    assert_int_equal(pg_proxy_hits(route.proxy), 1);
    PQfinish(victim);
    victim = route_connect(&route);
    assert_true(run(victim, "SELECT 1"));
    PQfinish(victim);
    PQfinish(other);
    route_close(&route);
}

/* The client is cut at the first answer, and the server still finishes the rest. */
static void server_finishes_what_a_cut_client_sent(void **state BL_UNUSED)
{
    struct route route;
    char address[PG_ADDRESS_SIZE];

    route_open(&route);
    pg_server_address(route.server, route.database, NULL, address);
    PGconn *locker = PQconnectdb(address);
    assert_true(run(locker, "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE; SELECT pg_advisory_lock(1)"));
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_DROP_AND_CUT});
    assert_int_equal(PQenterPipelineMode(connection), 1);
    send_with_parameters(connection, "SELECT pg_advisory_lock(1)");
    assert_int_equal(PQpipelineSync(connection), 1);
    send_with_parameters(connection, "INSERT INTO t VALUES (1)");
    assert_int_equal(PQpipelineSync(connection), 1);
    /* The proxy has both requests before there is an answer. */
    int64_t deadline = clock_ms() + ANSWER_MS;
    while (pg_proxy_messages(route.proxy, PG_CLIENT, 'S') < 2 && clock_ms() < deadline)
        poll(NULL, 0, 1);
    assert_true(run(locker, "SELECT pg_advisory_unlock(1)"));
    assert_cut(connection);
    assert_int_equal(route_rows(&route), 0);
    assert_true(run(locker, "COMMIT"));
    assert_true(route_await_rows(&route, "1"));
    PQfinish(connection);
    PQfinish(locker);
    route_close(&route);
}

/* ---- Held back ------------------------------------------------------------------------------- */

static void rows_arrive_before_a_held_ready(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_HOLD_READY});
    send_with_parameters(connection, "INSERT INTO t VALUES (1) RETURNING n");
    assert_int_equal(next_status(connection), PGRES_TUPLES_OK);
    assert_true(route_await_rows(&route, "1"));
    assert_false(has_result(connection, QUIET_MS));
    pg_proxy_fault(route.proxy, NULL);
    assert_int_equal(next_status(connection), PGRES_EMPTY_QUERY);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

/* The row is there, and the commit is not. */
static PGconn *insert_without_commit(struct route *route)
{
    PGconn *connection = route_connect(route);

    pg_proxy_fault(route->proxy, &(struct pg_fault){.type = PG_HOLD_SYNC, .match = "INSERT"});
    assert_true(run(connection, "SELECT 1"));
    send_with_parameters(connection, "INSERT INTO t VALUES (1) RETURNING n");
    assert_int_equal(next_status(connection), PGRES_TUPLES_OK);
    assert_int_equal(route_rows(route), 0);
    return connection;
}

static void rows_arrive_before_a_commit_that_is_held(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = insert_without_commit(&route);
    assert_false(has_result(connection, QUIET_MS));
    assert_int_equal(route_rows(&route), 0);
    pg_proxy_fault(route.proxy, NULL);
    assert_int_equal(next_status(connection), PGRES_EMPTY_QUERY);
    assert_int_equal(route_rows(&route), 1);
    PQfinish(connection);
    route_close(&route);
}

static void backend_that_ends_before_its_commit_has_no_rows(void **state BL_UNUSED)
{
    struct route route;
    char sql[64];

    route_open(&route);
    PGconn *connection = insert_without_commit(&route);
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(connection));
    assert_true(pg_server_change(route.server, route.database, sql));
    assert_int_equal(next_status(connection), PGRES_FATAL_ERROR);
    assert_false(run(connection, "SELECT 1"));
    assert_int_equal(PQstatus(connection), CONNECTION_BAD);
    assert_int_equal(route_rows(&route), 0);
    PQfinish(connection);
    route_close(&route);
}

/* ---- Cut and delivered later ----------------------------------------------------------------- */

static void request_of_a_cut_client_is_delivered_later(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_CUT_AND_DELIVER,
                                                   .late_ms = LATE_MS,
                                                   .times = 1,
                                                   .match = "INSERT"});
    int64_t before = clock_ms();
    send_with_parameters(connection, "INSERT INTO t VALUES (1)");
    assert_cut(connection);
    PQfinish(connection);
    /* A later connection is not affected, and does not wait for the late request. */
    connection = route_connect(&route);
    assert_true(run(connection, "SELECT 1"));
    int64_t rows = route_rows(&route);
    /* A busy machine may be later than the request. */
    if (clock_ms() - before < LATE_MS)
        assert_int_equal(rows, 0);
    assert_true(route_await_rows(&route, "1"));
    assert_in_range(clock_ms() - before, LATE_MS, ANSWER_MS);
    PQfinish(connection);
    route_close(&route);
}

/* ---- Half-open, cut, refused ----------------------------------------------------------------- */

static void half_open_proxy_swallows_and_accepts(void **state BL_UNUSED)
{
    struct route route;
    char address[PG_ADDRESS_SIZE];

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_HALF_OPEN});
    assert_int_equal(PQsendQuery(connection, "INSERT INTO t VALUES (1)"), 1);
    assert_false(has_result(connection, QUIET_MS));
    assert_int_equal(route_rows(&route), 0);
    assert_int_equal(pg_proxy_messages(route.proxy, PG_CLIENT, 'Q'), 0);

    pg_tcp_address(pg_proxy_port(route.proxy), route.database, NULL, address);
    PGconn *late = PQconnectStart(address);
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    for (int i = 0; i < 20 && status != PGRES_POLLING_FAILED; i++) {
        struct pollfd polled = {.fd = PQsocket(late),
                                .events = status == PGRES_POLLING_WRITING ? POLLOUT : POLLIN};
        if (poll(&polled, 1, QUIET_MS) == 0)
            break;
        status = PQconnectPoll(late);
    }
    assert_int_equal(status, PGRES_POLLING_READING); /* it has connected, and waits */
    int64_t deadline = clock_ms() + ANSWER_MS;
    while (pg_proxy_connections(route.proxy) < 2 && clock_ms() < deadline)
        poll(NULL, 0, 1);
    assert_int_equal(pg_proxy_open(route.proxy), 2);
    PQfinish(late);

    pg_proxy_fault(route.proxy, NULL);
    assert_cut(connection);
    assert_int_equal(route_rows(&route), 0);
    PQfinish(connection);
    connection = route_connect(&route);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

static void cut_closes_every_connection(void **state BL_UNUSED)
{
    struct route route;

    route_open(&route);
    PGconn *connections[3];
    for (size_t i = 0; i < BL_COUNT(connections); i++) {
        connections[i] = route_connect(&route);
        assert_int_equal(PQsendQuery(connections[i], "SELECT pg_sleep(60)"), 1);
    }
    pg_proxy_cut(route.proxy);
    assert_int_equal(pg_proxy_open(route.proxy), 0);
    for (size_t i = 0; i < BL_COUNT(connections); i++) {
        assert_cut(connections[i]);
        PQfinish(connections[i]);
    }
    PGconn *connection = route_connect(&route);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

static void refusing_proxy_keeps_open_connections(void **state BL_UNUSED)
{
    struct route route;
    char address[PG_ADDRESS_SIZE];

    route_open(&route);
    PGconn *connection = route_connect(&route);
    pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_REFUSE});
    pg_tcp_address(pg_proxy_port(route.proxy), route.database, NULL, address);
    PGconn *refused = PQconnectdb(address);
    assert_int_equal(PQstatus(refused), CONNECTION_BAD);
    PQfinish(refused);
    assert_true(run(connection, "SELECT 1"));
    PQfinish(connection);
    route_close(&route);
}

/* Its log stops at the proxy: what the primary has acknowledged since then is lost with it. */
static void standby_behind_a_silent_proxy_misses_rows(void **state BL_UNUSED)
{
    struct pg_server primary, standby;

    pg_skip_unless_available();
    assert_true(pg_server_start(&primary, NULL));
    struct pg_proxy *proxy = pg_proxy_start(primary.port);
    assert_non_null(proxy);
    assert_true(pg_server_change(&primary, "postgres", "CREATE TABLE t (n int)"));
    assert_true(pg_server_follow(&standby, &primary,
                                 &(struct pg_standby_options){.through = pg_proxy_port(proxy)}));
    assert_true(pg_server_change(&primary, "postgres", "INSERT INTO t VALUES (1)"));
    assert_true(pg_server_await(&standby, "postgres", "SELECT count(*) FROM t", "1", ANSWER_MS));
    pg_proxy_fault(proxy, &(struct pg_fault){.type = PG_DROP});
    assert_true(pg_server_change(&primary, "postgres", "INSERT INTO t VALUES (2)"));
    assert_true(pg_server_kill(&primary));
    assert_true(pg_server_promote(&standby));
    assert_int_equal(pg_server_ask_integer(&standby, "postgres", "SELECT count(*) FROM t"), 1);
    pg_server_end(&standby);
    pg_server_end(&primary);
    pg_proxy_stop(proxy);
}

/* The cases that tests repeat: each round has a lost answer, and its row is found. */
static void hundred_lost_answers_lose_no_row(void **state BL_UNUSED)
{
    struct route route;
    char sql[64];
    int rounds = (int)suite_rounds(100, 1000);

    route_open(&route);
    for (int i = 1; i <= rounds; i++) {
        PGconn *connection = route_connect(&route);
        pg_proxy_fault(route.proxy, &(struct pg_fault){.type = PG_DROP_AND_CUT, .times = 1});
        snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%d)", i);
        send_with_parameters(connection, sql);
        assert_cut(connection);
        assert_int_equal(pg_proxy_hits(route.proxy), i);
        PQfinish(connection);
    }
    snprintf(sql, sizeof sql, "%d", rounds);
    assert_true(route_await_rows(&route, sql));
    route_close(&route);
}

SUITE(proxy, cmocka_unit_test(proxy_passes_messages_and_counts_them),
      cmocka_unit_test(proxy_passes_large_messages_byte_for_byte),
      cmocka_unit_test(clients_use_the_proxy_at_once),
      cmocka_unit_test(delay_is_added_in_both_directions),
      cmocka_unit_test(dropped_answers_leave_the_client_waiting),
      cmocka_unit_test(lost_answer_cuts_only_the_client_that_matches),
      cmocka_unit_test(server_finishes_what_a_cut_client_sent),
      cmocka_unit_test(rows_arrive_before_a_held_ready),
      cmocka_unit_test(rows_arrive_before_a_commit_that_is_held),
      cmocka_unit_test(backend_that_ends_before_its_commit_has_no_rows),
      cmocka_unit_test(request_of_a_cut_client_is_delivered_later),
      cmocka_unit_test(half_open_proxy_swallows_and_accepts),
      cmocka_unit_test(cut_closes_every_connection),
      cmocka_unit_test(refusing_proxy_keeps_open_connections),
      cmocka_unit_test(standby_behind_a_silent_proxy_misses_rows),
      cmocka_unit_test(hundred_lost_answers_lose_no_row));
