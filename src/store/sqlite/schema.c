#include <stdio.h>

#include "sqlite.h"

/* A session row changes only with commits. Its lease and attempts are in other tables, so that a
 * rejected turn does not change the row. Small columns come first, so that counting does not read
 * through messages. A key is never reused (AUTOINCREMENT), so that a writer of a deleted session
 * finds nothing. Times are nanoseconds since 1970; JSON texts are stored as the engine wrote them.
 * Events are lines: those of a committed turn are in its row, all others in the journal.
 *
 * Each commit touches as little as possible, since that determines the cost of a turn: it appends
 * one row to a table, updates one counter row, and overwrites one row. It touches no index on
 * values that change. */
static const char version_1[] =
    "CREATE TABLE store (one INTEGER PRIMARY KEY CHECK (one = 1), voids INTEGER NOT NULL) STRICT;"
    "INSERT INTO store VALUES (1, 0);"
    "CREATE TABLE session ("
    " key INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " created INTEGER NOT NULL,"
    " updated INTEGER NOT NULL,"
    " turns_total INTEGER NOT NULL DEFAULT 0,"
    " context_from INTEGER NOT NULL DEFAULT 1," /* number of the first turn that the model sees */
    " input INTEGER NOT NULL DEFAULT 0,"
    " output INTEGER NOT NULL DEFAULT 0,"
    " spent_input INTEGER NOT NULL DEFAULT 0," /* of committed turns */
    " spent_output INTEGER NOT NULL DEFAULT 0,"
    " cost REAL NOT NULL DEFAULT 0,"
    " cost_max REAL NOT NULL DEFAULT 0,"
    " cost_unknown INTEGER NOT NULL DEFAULT 0,"
    " directory TEXT NOT NULL,"
    " parent TEXT,"
    " title TEXT NOT NULL) STRICT;"
    "CREATE INDEX session_by_directory ON session (directory);"
    "CREATE TABLE lease ("
    " session INTEGER PRIMARY KEY,"
    " epoch INTEGER NOT NULL,"
    " owner TEXT," /* null: not held */
    " handle INTEGER NOT NULL DEFAULT 0,"
    " pid INTEGER NOT NULL DEFAULT 0,"
    " started INTEGER NOT NULL DEFAULT 0,"
    " since INTEGER NOT NULL DEFAULT 0,"
    " until INTEGER NOT NULL DEFAULT 0,"
    " host TEXT NOT NULL DEFAULT '',"
    " boot TEXT NOT NULL DEFAULT '',"
    " pid_space TEXT NOT NULL DEFAULT '') STRICT;"
    "CREATE TABLE request ("
    " id TEXT PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " prompt TEXT NOT NULL) STRICT;"
    "CREATE INDEX request_by_session ON request (session);"
    "CREATE TABLE run ("
    " id TEXT PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " request TEXT,"
    " started INTEGER NOT NULL) STRICT;"
    "CREATE INDEX run_by_session ON run (session);"
    "CREATE INDEX run_by_request ON run (request) WHERE request IS NOT NULL;"
    "CREATE TABLE turn ("
    " key INTEGER PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " number INTEGER NOT NULL,"
    " id TEXT NOT NULL,"
    " run TEXT NOT NULL,"
    " interrupted INTEGER NOT NULL,"
    " ended INTEGER NOT NULL,"
    " input INTEGER NOT NULL,"
    " output INTEGER NOT NULL,"
    " spent_input INTEGER NOT NULL,"
    " spent_output INTEGER NOT NULL,"
    " cost REAL NOT NULL,"
    " cost_max REAL NOT NULL,"
    " cost_unknown INTEGER NOT NULL,"
    " result TEXT NOT NULL,"
    " messages TEXT NOT NULL,"
    " events TEXT NOT NULL," /* lines */
    " UNIQUE (session, number)) STRICT;"
    "CREATE TABLE running (" /* the running attempt: at most one a session, overwritten each time */
    " session INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL,"
    " run TEXT NOT NULL,"
    " started INTEGER NOT NULL,"
    " prompt TEXT NOT NULL) STRICT;"
    "CREATE TABLE attempt ("
    " key INTEGER PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " id TEXT NOT NULL,"
    " run TEXT NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('rejected', 'cut_off')),"
    " started INTEGER NOT NULL,"
    " ended INTEGER NOT NULL,"
    " spent_input INTEGER NOT NULL DEFAULT 0,"
    " spent_output INTEGER NOT NULL DEFAULT 0,"
    " cost REAL NOT NULL DEFAULT 0,"
    " cost_max REAL NOT NULL DEFAULT 0,"
    " cost_unknown INTEGER NOT NULL DEFAULT 0,"
    " receipt TEXT,"
    " prompt TEXT NOT NULL,"
    " result TEXT,"
    " UNIQUE (session, id)) STRICT;"
    "CREATE TABLE receipt ("
    " key INTEGER PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " id TEXT NOT NULL,"
    " body TEXT NOT NULL,"
    " UNIQUE (session, id)) STRICT;"
    "CREATE TABLE journal ("
    " key INTEGER PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " run TEXT NOT NULL,"
    " lines TEXT NOT NULL) STRICT;"
    "CREATE INDEX journal_by_session ON journal (session, key);"
    "CREATE TABLE checkpoint ("
    " session INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " body TEXT NOT NULL,"
    " PRIMARY KEY (session, name)) STRICT;";

/* A summary has its own table: it may be long, and each commit rewrites the session's row.
 * Sub-agents may have many sessions, so the index for lists and for the newest session leaves these
 * out. */
static const char version_2[] =
    "ALTER TABLE session ADD COLUMN agent_of TEXT;" /* id of the parent agent's session */
    "ALTER TABLE session ADD COLUMN agent_turn TEXT;"
    "ALTER TABLE session ADD COLUMN persona TEXT;"
    "DROP INDEX session_by_directory;"
    "CREATE INDEX session_by_directory ON session (directory) WHERE agent_of IS NULL;"
    "CREATE INDEX session_by_agent ON session (agent_of) WHERE agent_of IS NOT NULL;"
    "CREATE TABLE summary (" /* of the turns before context_from */
    " session INTEGER PRIMARY KEY,"
    " messages TEXT NOT NULL) STRICT;";

/* Tombstones are counted in the row of the store: their number is limited across all sessions, and
 * the oldest keys are deleted first. The texts of a cell may be many megabytes. They are the last
 * columns, so that an admission writes none of them, and a search for an id or a digest reads none.
 */
static const char version_3[] =
    "ALTER TABLE store ADD COLUMN tombstones INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE cell ("
    " key INTEGER PRIMARY KEY AUTOINCREMENT,"
    " session INTEGER NOT NULL,"
    " id TEXT NOT NULL,"
    " created INTEGER NOT NULL,"
    " deadline_ms INTEGER NOT NULL,"
    " pid INTEGER NOT NULL DEFAULT 0," /* of its worker; 0: unknown */
    " pid_started INTEGER NOT NULL DEFAULT 0,"
    " yielded_generation INTEGER NOT NULL DEFAULT 0," /* 0: none is retained */
    " generation INTEGER NOT NULL DEFAULT 0,"         /* latest decided one */
    " completed INTEGER NOT NULL DEFAULT 0,"
    " ended INTEGER NOT NULL DEFAULT 0,"
    " digest BLOB NOT NULL,"
    " yielded TEXT,"
    " terminal TEXT," /* null: not ended */
    " UNIQUE (session, id)) STRICT;"
    "CREATE TABLE cell_value ("
    " key INTEGER PRIMARY KEY,"
    " session INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " body TEXT NOT NULL,"
    " UNIQUE (session, name)) STRICT;"
    "CREATE TABLE cell_tombstone ("
    " key INTEGER PRIMARY KEY AUTOINCREMENT,"
    " session INTEGER NOT NULL,"
    " id TEXT NOT NULL,"
    " buried INTEGER NOT NULL,"
    " digest BLOB NOT NULL,"
    " UNIQUE (session, id)) STRICT;";

/* A lease is renewed with each write, so it has its own table. Events are numbered across all
 * generations; they are small and only appended, so they are stored in their order. A record may be
 * long and is overwritten in place, so its table has row ids and is searched through the index. */
static const char version_4[] =
    "CREATE TABLE feature ("
    " key INTEGER PRIMARY KEY AUTOINCREMENT,"
    " created INTEGER NOT NULL,"
    " updated INTEGER NOT NULL,"
    " generation INTEGER NOT NULL DEFAULT 1,"
    " repository TEXT NOT NULL,"
    " id TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " run TEXT," /* of the last holder */
    " UNIQUE (repository, id)) STRICT;"
    "CREATE TABLE feature_lease (" /* like `lease` */
    " feature INTEGER PRIMARY KEY,"
    " epoch INTEGER NOT NULL,"
    " owner TEXT,"
    " handle INTEGER NOT NULL DEFAULT 0,"
    " pid INTEGER NOT NULL DEFAULT 0,"
    " started INTEGER NOT NULL DEFAULT 0,"
    " since INTEGER NOT NULL DEFAULT 0,"
    " until INTEGER NOT NULL DEFAULT 0,"
    " host TEXT NOT NULL DEFAULT '',"
    " boot TEXT NOT NULL DEFAULT '',"
    " pid_space TEXT NOT NULL DEFAULT '') STRICT;"
    "CREATE TABLE feature_record ("
    " key INTEGER PRIMARY KEY,"
    " feature INTEGER NOT NULL,"
    " generation INTEGER NOT NULL,"
    " name TEXT NOT NULL,"
    " json TEXT NOT NULL,"
    " UNIQUE (feature, generation, name)) STRICT;"
    "CREATE TABLE feature_event ("
    " feature INTEGER NOT NULL,"
    " generation INTEGER NOT NULL,"
    " number INTEGER NOT NULL,"
    " json TEXT NOT NULL,"
    " PRIMARY KEY (feature, generation, number)) STRICT, WITHOUT ROWID;";

/* Tasks that clients ask about later. They are few and short-lived, and are deleted when they
 * expire. A task may exist before its session, so the session is stored by its id. */
static const char version_5[] =
    "CREATE TABLE task ("
    " key INTEGER PRIMARY KEY,"
    " id TEXT NOT NULL UNIQUE,"
    " kind TEXT NOT NULL,"
    " session TEXT,"
    " created INTEGER NOT NULL,"
    " ended INTEGER NOT NULL DEFAULT 0,"
    " expires INTEGER NOT NULL DEFAULT 0," /* 0: working */
    " status TEXT NOT NULL CHECK (status IN ('working', 'completed', 'failed', 'cancelled')),"
    " pid INTEGER NOT NULL," /* of its owner; so is the next */
    " started INTEGER NOT NULL,"
    " host TEXT NOT NULL,"
    " boot TEXT NOT NULL,"
    " pid_space TEXT NOT NULL,"
    " receipt TEXT,"
    " result TEXT) STRICT;"
    "CREATE INDEX task_by_expiry ON task (expires) WHERE expires > 0;";

const struct sqlite_migration sqlite_migrations[] = {
    {version_1}, {version_2}, {version_3}, {version_4}, {version_5}};
const size_t sqlite_migration_count = BL_COUNT(sqlite_migrations);

static int run_migrations(struct sqlite_link *link, const struct sqlite_migration *migrations,
                          size_t count, struct bl_error *error)
{
    char pragma[80];
    int64_t version;
    /* Checked again under the lock: another process may have migrated the file meanwhile. */
    int code = sqlite_integer(link, error, "PRAGMA user_version", &version);
    if (code != 0 || (uint64_t)version >= count)
        return code;
    for (size_t i = (size_t)version; i < count && code == 0; i++)
        code = sqlite_execute(link, migrations[i].sql, error);
    if (code != 0)
        return code;
    snprintf(pragma, sizeof pragma, "PRAGMA application_id = %d; PRAGMA user_version = %zu",
             SQLITE_APPLICATION_ID, count);
    return sqlite_execute(link, pragma, error);
}

int sqlite_migrate(struct sqlite_link *link, const struct sqlite_migration *migrations,
                   size_t count, struct bl_error *error)
{
    /* Applies to a file without pages. The row of a turn is about 2 KiB, which would leave half of
     * a 4 KiB page unused. */
    int code = sqlite_execute(link, "PRAGMA page_size = 8192", error);
    if (code == 0)
        code = sqlite_execute(link, "BEGIN EXCLUSIVE", error);
    if (code != 0)
        return code;
    code = run_migrations(link, migrations, count, error);
    if (code == 0)
        code = sqlite_execute(link, "COMMIT", error);
    if (code != 0 && sqlite3_get_autocommit(link->db) == 0)
        sqlite3_exec(link->db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}
