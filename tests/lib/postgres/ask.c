#include "server.h"

#include <poll.h>
#include <stdio.h>

#include <libpq-fe.h>

#define STATEMENT_S 60

void pg_server_address(const struct pg_server *server, const char *database, const char *user,
                       char *out)
{
    snprintf(out, PG_ADDRESS_SIZE, "postgres://%s@/%s?host=%s&port=%u",
             user != NULL ? user : PG_USER, database, server->folder, server->port);
}

void pg_tcp_address(uint16_t port, const char *database, const char *user, char *out)
{
    snprintf(out, PG_ADDRESS_SIZE, "postgres://%s:%s@127.0.0.1:%u/%s",
             user != NULL ? user : PG_USER, PG_PASSWORD, port, database);
}

static PGconn *pg_connect(const struct pg_server *server, const char *database)
{
    char port[8];
    const char *const names[] = {"host",
                                 "port",
                                 "user",
                                 "dbname",
                                 "gssencmode",
                                 "sslmode",
                                 "options",
                                 "connect_timeout",
                                 "application_name",
                                 NULL};
    const char *const values[] = {server->folder, port, PG_USER, database,     "disable",
                                  "disable",      "",   "30",    "belay-test", NULL};

    snprintf(port, sizeof port, "%u", server->port);
    return PQconnectdbParams(names, values, 0);
}

/* Returns the last result of the query, or NULL after the time limit. */
static PGresult *pg_query(PGconn *connection, const char *sql)
{
    struct pollfd polled = {.fd = PQsocket(connection), .events = POLLIN};
    int64_t deadline = pg_now_ms() + (int64_t)STATEMENT_S * 1000;
    PGresult *last = NULL, *result;

    if (!PQsendQuery(connection, sql))
        return NULL;
    for (;;) {
        while (PQisBusy(connection)) {
            int64_t left = deadline - pg_now_ms();
            if (left <= 0 || poll(&polled, 1, (int)left) <= 0 || !PQconsumeInput(connection)) {
                PQclear(last);
                return NULL;
            }
        }
        result = PQgetResult(connection);
        if (result == NULL)
            return last;
        if (last != NULL && PQresultStatus(last) == PGRES_FATAL_ERROR) {
            PQclear(result);
            continue;
        }
        PQclear(last);
        last = result;
    }
}

static bool pg_execute(struct pg_server *server, const char *database, const char *sql, char *out,
                       size_t out_size, bool loud)
{
    PGconn *connection = pg_connect(server, database);
    PGresult *result = PQstatus(connection) == CONNECTION_OK ? pg_query(connection, sql) : NULL;
    ExecStatusType status = PQresultStatus(result);
    bool done = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;

    if (out != NULL)
        bl_text_into(out, out_size,
                     done && PQntuples(result) > 0 && PQnfields(result) > 0
                         ? PQgetvalue(result, 0, 0)
                         : NULL);
    if (!done && loud)
        pg_fail(server, "%s: %s%s", sql, PQerrorMessage(connection),
                result == NULL ? "no answer" : "");
    PQclear(result);
    PQfinish(connection);
    return done;
}

bool pg_server_ask(struct pg_server *server, const char *database, const char *sql, char *out,
                   size_t out_size)
{
    return pg_execute(server, database, sql, out, out_size, true);
}

int64_t pg_server_ask_integer(struct pg_server *server, const char *database, const char *sql)
{
    char text[64];
    int64_t value = INT64_MIN;

    pg_server_ask(server, database, sql, text, sizeof text);
    bl_text_to_int64(bl_text_from(text), &value);
    return value;
}

bool pg_server_change(struct pg_server *server, const char *database, const char *sql)
{
    return pg_execute(server, database, sql, NULL, 0, true);
}

bool pg_server_await(struct pg_server *server, const char *database, const char *sql,
                     const char *expected, unsigned limit_ms)
{
    int64_t deadline = pg_now_ms() + limit_ms;
    char answer[256];

    do {
        if (pg_execute(server, database, sql, answer, sizeof answer, false) &&
            strcmp(answer, expected) == 0)
            return true;
        poll(NULL, 0, PG_POLL_MS);
    } while (pg_now_ms() < deadline);
    return pg_fail(server, "%s: '%s' after %u ms, expected '%s'", sql, answer, limit_ms, expected);
}

bool pg_server_database(struct pg_server *server, const char *name)
{
    char sql[256];

    snprintf(sql, sizeof sql, "CREATE DATABASE \"%s\" TEMPLATE template0", name);
    return pg_server_change(server, "postgres", sql);
}
