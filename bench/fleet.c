/* Durable turns in a PostgreSQL database: 1, 64 and 512 sessions at once in one process, compared
 * with a plain libpq program that writes the same rows, 64 in each statement, over 1, 2 or 4
 * connections (the best of them). Argument: the address of an empty database with the schema of
 * Belay ("belay fleet init"). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include <belay/store.h>

#include "report.h"

#define ROUNDS       3
#define SESSIONS_MAX 512u
#define BATCH        64
#define COLUMNS      5
#define RESULT_SIZE  700u
#define MESSAGE_SIZE 600u
#define EVENT_SIZE   700u

static char result[RESULT_SIZE + 1], messages[MESSAGE_SIZE + 1], events[EVENT_SIZE + 1];
static const char *address;

static void fill_bodies(void)
{
    memset(result, 'r', RESULT_SIZE);
    memcpy(result, "{\"output\":\"", 11);
    memcpy(result + RESULT_SIZE - 2, "\"}", 3);
    snprintf(messages, sizeof messages,
             "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%0*d\"}]}]", 500, 7);
    memset(events, 'e', EVENT_SIZE);
    memcpy(events, "{\"type\":\"", 9);
    memcpy(events + EVENT_SIZE - 3, "\"}\n", 4);
}

/* ---- Belay ---- */

struct session {
    struct bl_store *store;
    struct bl_session session;
    struct bl_store_session *held;
    unsigned number;
    unsigned turns;
};

static void run_turn(struct session *session, unsigned turn)
{
    const struct bl_turn_store *table = bl_store_session_table(session->held);
    struct bl_error error = {0};
    char id[BL_ID_SIZE];
    snprintf(id, sizeof id, "turn_%u_%u", session->number, turn);
    int code = table->begin(table->context,
                            &(struct bl_attempt){.turn_id = bl_text_from(id),
                                                 .prompt = BL_TEXT("Do the next thing."),
                                                 .started_wall_ns = 1},
                            &error);
    if (code == 0)
        code = table->commit(table->context,
                             &(struct bl_settlement){.turn_id = bl_text_from(id),
                                                     .messages = bl_text_from(messages),
                                                     .result = bl_text_from(result),
                                                     .events = bl_text_from(events),
                                                     .ended_wall_ns = 2,
                                                     .turns_dropped = 1},
                             &error);
    if (code != 0)
        report_die(error.message);
}

static int session_main(void *argument)
{
    struct session *session = argument;
    for (unsigned i = 0; i < session->turns; i++)
        run_turn(session, i);
    return 0;
}

struct load {
    unsigned sessions;
    unsigned turns;
    double seconds;
};

static int load_main(void *argument)
{
    struct load *load = argument;
    static struct session sessions[SESSIONS_MAX];
    struct bl_store *store;
    struct bl_error error = {0};
    struct bl_nursery nursery;
    if (bl_store_open(address, &store, &error) != 0)
        report_die(error.message);
    for (unsigned i = 0; i < load->sessions; i++) {
        struct session *session = &sessions[i];
        *session = (struct session){.store = store, .number = i, .turns = load->turns};
        bl_session_init(&session->session, "");
        if (bl_store_hold(store, &(struct bl_store_hold_options){.directory = "/bench"},
                          &session->session, &session->held, &error) != 0)
            report_die(error.message);
    }
    double from_ns = report_wall_ns();
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < load->sessions; i++)
        bl_nursery_spawn(&nursery, NULL, "session", session_main, &sessions[i], NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    load->seconds = (report_wall_ns() - from_ns) / 1e9;
    for (unsigned i = 0; i < load->sessions; i++) {
        bl_store_release(sessions[i].held);
        bl_session_done(&sessions[i].session);
    }
    bl_store_close(store);
    return 0;
}

/* Returns microseconds for each turn. */
static double belay_turn(unsigned sessions)
{
    struct load load = {.sessions = sessions, .turns = sessions == 1 ? 1000 : 12800 / sessions};
    bl_loop_once("bench", load_main, &load, NULL);
    return load.seconds * 1e6 / (load.sessions * load.turns);
}

/* ---- Bare ---- */

static PGconn *connect_bare(void)
{
    PGconn *conn = PQconnectdb(address);
    if (PQstatus(conn) != CONNECTION_OK)
        report_die(PQerrorMessage(conn));
    return conn;
}

static void execute(PGconn *conn, const char *sql)
{
    PGresult *done = PQexec(conn, sql);
    if (PQresultStatus(done) != PGRES_COMMAND_OK)
        report_die(PQerrorMessage(conn));
    PQclear(done);
}

static void prepare(PGconn *conn, int rows)
{
    char sql[16384];
    size_t used = (size_t)snprintf(sql, sizeof sql,
                                   "with s as (update bare_session set total = total + 1 where key"
                                   " between $1::bigint and $1::bigint + %d) insert into bare"
                                   " values ",
                                   rows - 1);
    for (int i = 0; i < rows; i++) {
        int first = i * COLUMNS + 1;
        used +=
            (size_t)snprintf(sql + used, sizeof sql - used,
                             "%s($%d::bigint, $%d::bigint, $%d::bytea, $%d::bytea, $%d::bytea)",
                             i > 0 ? ", " : "", first, first + 1, first + 2, first + 3, first + 4);
    }
    PGresult *done = PQprepare(conn, "bare", sql, 0, NULL);
    if (PQresultStatus(done) != PGRES_COMMAND_OK)
        report_die(PQerrorMessage(conn));
    PQclear(done);
}

struct bare {
    pthread_t thread;
    unsigned number;
    int rows;
    unsigned statements;
};

static void *bare_main(void *argument)
{
    struct bare *bare = argument;
    PGconn *conn = connect_bare();
    char keys[BATCH][24], numbers[24];
    const char *values[BATCH * COLUMNS];
    prepare(conn, bare->rows);
    for (unsigned i = 0; i < bare->statements; i++) {
        snprintf(numbers, sizeof numbers, "%u", i);
        for (int row = 0; row < bare->rows; row++) {
            const char **at = values + row * COLUMNS;
            snprintf(keys[row], sizeof keys[row], "%u", bare->number * BATCH + (unsigned)row);
            at[0] = keys[row];
            at[1] = numbers;
            at[2] = result;
            at[3] = messages;
            at[4] = events;
        }
        PGresult *done = PQexecPrepared(conn, "bare", bare->rows * COLUMNS, values, NULL, NULL, 0);
        if (PQresultStatus(done) != PGRES_COMMAND_OK)
            report_die(PQerrorMessage(conn));
        PQclear(done);
    }
    PQfinish(conn);
    return NULL;
}

/* Returns microseconds for each row. */
static double bare_row(unsigned connections, int rows, unsigned statements)
{
    struct bare bares[4];
    PGconn *conn = connect_bare();
    execute(conn, "drop table if exists bare, bare_session");
    execute(conn, "create table bare (session bigint, number bigint, result bytea, messages bytea,"
                  " events bytea, primary key (session, number))");
    execute(conn, "create table bare_session (key bigint primary key, total bigint)");
    execute(conn, "insert into bare_session select g, 0 from generate_series(0, 255) g");
    double from_ns = report_wall_ns();
    for (unsigned i = 0; i < connections; i++) {
        bares[i] = (struct bare){.number = i, .rows = rows, .statements = statements / connections};
        pthread_create(&bares[i].thread, NULL, bare_main, &bares[i]);
    }
    for (unsigned i = 0; i < connections; i++)
        pthread_join(bares[i].thread, NULL);
    double seconds = (report_wall_ns() - from_ns) / 1e9;
    execute(conn, "drop table bare, bare_session");
    PQfinish(conn);
    return seconds * 1e6 / ((double)statements * rows);
}

static double bare_best(unsigned sessions)
{
    double best = 0;
    if (sessions == 1)
        return bare_row(1, 1, 1000);
    for (unsigned connections = 1; connections <= 4; connections *= 2) {
        double each = bare_row(connections, BATCH, 200);
        best = best == 0 || each < best ? each : best;
    }
    return best;
}

int main(int count, char **arguments)
{
    static const unsigned loads[] = {1, 64, 512};
    if (count != 2 && count != 3)
        report_die("usage: fleet ADDRESS [SESSIONS]");
    address = arguments[1];
    fill_bodies();
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        double belay[ROUNDS], bare[ROUNDS];
        char name[64];
        if (count == 3 && strtoul(arguments[2], NULL, 10) != loads[i])
            continue;
        for (int round = 0; round < ROUNDS; round++) {
            belay[round] = belay_turn(loads[i]);
            bare[round] = bare_best(loads[i]);
        }
        snprintf(name, sizeof name, "durable turn in PostgreSQL, %u sessions", loads[i]);
        report_line(name, report_median(belay, ROUNDS), "us",
                    loads[i] == 1 ? "bare libpq, one commit each" : "bare libpq, best batch",
                    report_median(bare, ROUNDS));
    }
    return 0;
}
