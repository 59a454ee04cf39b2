/* Turns: in memory with the script model; durable with 1, 8, 64 and 512 sessions at once, compared
 * with a plain SQLite program that commits the same bytes in its best batch; memory of open
 * sessions; and the cost of a turn in a long session. Argument: a folder for the files (default:
 * the current one). */
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/agent.h>

#include "report.h"

#define ROUNDS        5
#define MEMORY_TURNS  20000u
#define DURABLE_TURNS 20000u
#define SESSIONS_MAX  512u
#define OPEN_SESSIONS 10000u
#define LONG_TURNS    10000u
#define SAMPLE_TURNS  200u

static const char script_text[] =
    "replies: [{say: 'This is the answer of a model that says about as much as one line holds.'}]\n"
    "repeat: true\n";
static const char prompt_text[] = "Do the next thing on the list, and say what it was.";

static char folder[PATH_MAX];
static struct bl_script *script;

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A session at work in its own fiber. */
struct worker {
    struct bl_store *store; /* NULL: in memory */
    struct bl_session session;
    struct bl_store_session *held;
    struct bl_script_player *player;
    struct bl_model model;
    struct bl_engine engine;
    struct bl_scope scope;
    struct bl_receipt receipt;
    uint64_t turns;
    char id[32];
};

static void worker_init(struct worker *worker, struct bl_store *store, unsigned number)
{
    memset(worker, 0, sizeof *worker);
    worker->store = store;
    snprintf(worker->id, sizeof worker->id, "bench-%u", number);
    bl_session_init(&worker->session, worker->id);
    worker->player = bl_script_player_new(script, number, &worker->model);
    worker->engine =
        (struct bl_engine){.model = &worker->model, .clock = bl_loop_clock(bl_loop_current())};
    bl_turn_limits_init(&worker->engine.limits);
    if (store == NULL)
        return;
    struct bl_error error = {0};
    struct bl_store_hold_options options = {.id = worker->id,
                                            .directory = folder,
                                            .run_id = worker->id,
                                            .prompt = bl_text_from(prompt_text)};
    if (bl_store_hold(store, &options, &worker->session, &worker->held, &error) != 0)
        report_die(error.message);
    worker->engine.store = bl_store_session_table(worker->held);
}

static void worker_done(struct worker *worker)
{
    bl_store_release(worker->held);
    bl_session_done(&worker->session);
    bl_script_player_free(worker->player);
}

/* `turns` turns as one loop. */
static int worker_main(void *argument)
{
    struct worker *worker = argument;
    struct bl_run_options options = {.run_id = worker->id,
                                     .prompt = bl_text_from(prompt_text),
                                     .continues = true,
                                     .continuation = bl_text_from(prompt_text)};
    struct bl_run_result result;
    struct bl_arena arena;

    bl_arena_init(&arena);
    bl_scope_init(&worker->scope, bl_scope_current());
    bl_receipt_open(&worker->receipt, &worker->scope, worker->id);
    /* In several loops, because results are kept as long as their loop. */
    for (uint64_t left = worker->turns; left > 0; left -= options.max_turns) {
        options.max_turns = left < 100 ? left : 100;
        bl_run(&worker->engine, &worker->session, &worker->receipt, &options, &arena, &result);
        if (result.turns_completed != options.max_turns)
            report_die(result.error != NULL ? result.error->message : "a turn did not complete");
        bl_arena_reset(&arena);
        /* The loop claims its scope at its end, so the next one needs a new scope. */
        bl_receipt_close(&worker->receipt);
        bl_scope_done(&worker->scope);
        bl_scope_init(&worker->scope, bl_scope_current());
        bl_receipt_open(&worker->receipt, &worker->scope, worker->id);
    }
    bl_receipt_close(&worker->receipt);
    bl_scope_done(&worker->scope);
    bl_arena_done(&arena);
    return 0;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static double memory_rate(void)
{
    struct worker worker;

    worker_init(&worker, NULL, 1);
    worker.engine.limits.compact_after_turns = 10;
    worker.turns = MEMORY_TURNS;
    double from_ns = report_processor_ns();
    worker_main(&worker);
    double elapsed_ns = report_processor_ns() - from_ns;
    worker_done(&worker);
    return MEMORY_TURNS / (elapsed_ns / 1e9);
}

static void path_of(char *out, size_t size, const char *name, const char *suffix)
{
    snprintf(out, size, "%s/%s%s", folder, name, suffix);
}

static void remove_file(const char *name)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[PATH_MAX + 64];

    for (size_t i = 0; i < BL_COUNT(suffixes); i++) {
        path_of(path, sizeof path, name, suffixes[i]);
        unlink(path);
    }
}

static struct bl_store *open_store(void)
{
    struct bl_error error = {0};
    struct bl_store *store;
    char path[PATH_MAX + 64];

    remove_file("turn-bench.db");
    path_of(path, sizeof path, "turn-bench.db", "");
    if (bl_store_open(path, &store, &error) != 0)
        report_die(error.message);
    return store;
}

static double durable_rate(unsigned sessions, uint64_t turns)
{
    struct bl_store *store = open_store();
    struct worker *workers = bl_zalloc(sessions * sizeof *workers);
    struct bl_nursery nursery;

    for (unsigned i = 0; i < sessions; i++) {
        worker_init(&workers[i], store, i);
        workers[i].engine.limits.compact_after_turns = 10;
        workers[i].turns = turns / sessions;
    }
    double from_ns = report_wall_ns();
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < sessions; i++)
        bl_nursery_spawn(&nursery, NULL, workers[i].id, worker_main, &workers[i], NULL);
    bl_nursery_join(&nursery);
    double elapsed_ns = report_wall_ns() - from_ns;
    bl_nursery_done(&nursery);
    for (unsigned i = 0; i < sessions; i++)
        worker_done(&workers[i]);
    bl_free(workers);
    bl_store_close(store);
    return (double)(turns / sessions * sessions) / (elapsed_ns / 1e9);
}

/* ---- The plain SQLite program ---------------------------------------------------------------- */

/* The bytes that a turn writes to the file: its messages, its result, its lines in the journal. */
static struct {
    size_t messages, result, lines;
} bytes;

static void execute(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        report_die(sqlite3_errmsg(db));
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        report_die(sqlite3_errmsg(db));
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void measure_bytes(void)
{
    sqlite3 *db;
    char path[PATH_MAX + 64];

    path_of(path, sizeof path, "turn-bench.db", "");
    if (sqlite3_open(path, &db) != SQLITE_OK)
        report_die(sqlite3_errmsg(db));
    bytes.messages = (size_t)ask(db, "SELECT avg(length(messages)) FROM turn");
    bytes.result = (size_t)ask(db, "SELECT avg(length(result)) FROM turn");
    bytes.lines = (size_t)ask(db, "SELECT sum(length(lines)) / (SELECT count(*) FROM turn) FROM "
                                  "journal");
    sqlite3_close(db);
}

static sqlite3 *open_bare(void)
{
    sqlite3 *db;
    char path[PATH_MAX + 64];

    remove_file("bare-bench.db");
    path_of(path, sizeof path, "bare-bench.db", "");
    if (sqlite3_open(path, &db) != SQLITE_OK)
        report_die(sqlite3_errmsg(db));
    execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                "CREATE TABLE session (id INTEGER PRIMARY KEY, turns INTEGER);"
                "CREATE TABLE turn (session INTEGER, number INTEGER, result TEXT, messages TEXT,"
                " UNIQUE (session, number));"
                "CREATE TABLE journal (session INTEGER, lines TEXT)");
    return db;
}

static void step(sqlite3 *db, sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        report_die(sqlite3_errmsg(db));
    sqlite3_reset(statement);
}

static double bare_rate(unsigned batch, uint64_t turns)
{
    static const char *const sql[] = {"INSERT INTO turn VALUES (?1, ?2, ?3, ?4)",
                                      "INSERT INTO journal VALUES (?1, ?2)",
                                      "UPDATE session SET turns = turns + 1 WHERE id = ?1"};
    char *text = bl_alloc(bytes.messages + bytes.result + bytes.lines);
    sqlite3_stmt *statements[3];
    sqlite3 *db = open_bare();

    memset(text, 'x', bytes.messages + bytes.result + bytes.lines);
    for (size_t i = 0; i < 3; i++)
        sqlite3_prepare_v2(db, sql[i], -1, &statements[i], NULL);
    for (unsigned i = 0; i < batch; i++) {
        char insert[80];
        snprintf(insert, sizeof insert, "INSERT INTO session VALUES (%u, 0)", i);
        execute(db, insert);
    }
    double from_ns = report_wall_ns();
    for (uint64_t done = 0; done < turns; done += batch) {
        execute(db, "BEGIN IMMEDIATE");
        for (unsigned i = 0; i < batch; i++) {
            sqlite3_bind_int64(statements[0], 1, i);
            sqlite3_bind_int64(statements[0], 2, (int64_t)(done / batch));
            sqlite3_bind_text(statements[0], 3, text, (int)bytes.result, SQLITE_STATIC);
            sqlite3_bind_text(statements[0], 4, text, (int)bytes.messages, SQLITE_STATIC);
            step(db, statements[0]);
            sqlite3_bind_int64(statements[1], 1, i);
            sqlite3_bind_text(statements[1], 2, text, (int)bytes.lines, SQLITE_STATIC);
            step(db, statements[1]);
            sqlite3_bind_int64(statements[2], 1, i);
            step(db, statements[2]);
        }
        execute(db, "COMMIT");
    }
    double elapsed_ns = report_wall_ns() - from_ns;
    for (size_t i = 0; i < 3; i++)
        sqlite3_finalize(statements[i]);
    sqlite3_close(db);
    bl_free(text);
    remove_file("bare-bench.db");
    return (double)((turns + batch - 1) / batch * batch) / (elapsed_ns / 1e9);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static double median_of(double (*measure)(unsigned, uint64_t), unsigned argument, uint64_t turns)
{
    double values[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++)
        values[i] = measure(argument, turns);
    return report_median(values, ROUNDS);
}

/* Reports a rate, for which larger is better, as the time of one, for which smaller is better. */
static void report_rate(const char *name, double rate, const char *baseline, double baseline_rate)
{
    report_line(name, 1e6 / rate, "us a turn", baseline,
                baseline_rate > 0 ? 1e6 / baseline_rate : 0);
}

static void report_durable(void)
{
    static const unsigned batches[] = {8, 64, 256};
    static const unsigned sessions[] = {1, 8, 64, 512};
    double best = 0, single;
    char name[80];

    durable_rate(64, 6400);
    measure_bytes();
    for (size_t i = 0; i < BL_COUNT(batches); i++) {
        double rate = median_of(bare_rate, batches[i], DURABLE_TURNS);
        if (rate > best)
            best = rate;
    }
    single = median_of(bare_rate, 1, DURABLE_TURNS / 8);
    for (size_t i = 0; i < BL_COUNT(sessions); i++) {
        double rate = median_of(durable_rate, sessions[i],
                                sessions[i] == 1 ? DURABLE_TURNS / 8 : DURABLE_TURNS);
        snprintf(name, sizeof name, "durable turn, %u sessions at once", sessions[i]);
        report_rate(name, rate,
                    sessions[i] == 1 ? "bare SQLite, one commit each" : "bare SQLite, best batch",
                    sessions[i] == 1 ? single : best);
    }
    remove_file("turn-bench.db");
}

static double resident_bytes(void)
{
    char text[128];
    struct bl_text all = bl_file_read(AT_FDCWD, "/proc/self/statm", text, sizeof text - 1);
    unsigned long pages = 0;

    text[all.size] = '\0';
    if (sscanf(text, "%*u %lu", &pages) != 1)
        report_die("cannot read /proc/self/statm");
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Measures open sessions with one turn each. */
static void report_memory(void)
{
    struct bl_store *store = open_store();
    struct worker *workers = bl_alloc(OPEN_SESSIONS * sizeof *workers);
    double before = resident_bytes();

    for (unsigned i = 0; i < OPEN_SESSIONS; i++) {
        worker_init(&workers[i], store, i);
        workers[i].turns = 1;
        worker_main(&workers[i]);
    }
    double each = (resident_bytes() - before) / OPEN_SESSIONS / 1024;
    report_line("resident memory of an open session (wanted: 24)", each, "KiB", "wanted", 24);
    for (unsigned i = 0; i < OPEN_SESSIONS; i++)
        worker_done(&workers[i]);
    bl_free(workers);
    bl_store_close(store);
    remove_file("turn-bench.db");
}

static double sample_us(struct worker *worker)
{
    worker->turns = SAMPLE_TURNS;
    double from_ns = report_wall_ns();
    worker_main(worker);
    return (report_wall_ns() - from_ns) / SAMPLE_TURNS / 1e3;
}

static double median_sample_us(struct worker *worker)
{
    double values[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++)
        values[i] = sample_us(worker);
    return report_median(values, ROUNDS);
}

static void report_growth(void)
{
    struct bl_store *store = open_store();
    struct worker worker;

    worker_init(&worker, store, 0);
    worker.turns = 10;
    worker_main(&worker);
    double early_us = median_sample_us(&worker);
    worker.turns = LONG_TURNS;
    worker_main(&worker);
    double late_us = median_sample_us(&worker);
    report_line("a turn after 10,000 turns in its session (wanted: 1.5 times at most)", late_us,
                "us a turn", "after 10", early_us);
    worker_done(&worker);
    bl_store_close(store);
    remove_file("turn-bench.db");
}

static void report_in_memory(void)
{
    double values[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++)
        values[i] = memory_rate();
    report_rate("turn in memory, script model", report_median(values, ROUNDS), "none", 0);
}

/* Memory comes first, because memory that the others leave in the allocator would hide it. */
static int bench_main(void *argument)
{
    static const struct {
        const char *name;
        void (*report)(void);
    } parts[] = {{"open", report_memory},
                 {"memory", report_in_memory},
                 {"durable", report_durable},
                 {"growth", report_growth}};
    const char *only = argument;

    for (size_t i = 0; i < BL_COUNT(parts); i++) {
        if (only == NULL || strcmp(only, parts[i].name) == 0)
            parts[i].report();
    }
    return 0;
}

int main(int argument_count, char **arguments)
{
    struct bl_error error = {0};
    struct bl_loop *loop;

    if (realpath(argument_count > 1 ? arguments[1] : ".", folder) == NULL)
        report_die("no such folder");
    if (bl_script_parse(bl_text_from(script_text), "bench", &script, &error) != 0)
        report_die(error.message);
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    bl_loop_run(loop, "bench", bench_main, argument_count > 2 ? arguments[2] : NULL);
    bl_loop_free(loop);
    bl_script_free(script);
    return 0;
}
