/* One SQLite file as a store. Everything here runs on worker threads, one at a time a connection.
 */
#ifndef BELAY_STORE_SQLITE_H
#define BELAY_STORE_SQLITE_H

#include <sqlite3.h>

#include "store/parts.h"

/* "Bely": what says in the file's header that it is ours. */
#define SQLITE_APPLICATION_ID 0x42656c79

#define SQLITE_STATEMENTS_MAX 128

enum sqlite_synchronous {
    SQLITE_SYNCHRONOUS_OFF,
    SQLITE_SYNCHRONOUS_NORMAL,
    SQLITE_SYNCHRONOUS_FULL,
};

/* A connection with its statements, which are made once and found by the address of their text. */
struct sqlite_link {
    sqlite3 *db; /* NULL: not open */
    const char *path;
    enum sqlite_synchronous synchronous;
    int wal_pages;  /* after the last commit */
    bool untrusted; /* a sync of the log has failed: what it holds may not be on the disk */
    bool damaged;   /* the file has been seen to be; it is not written to any more */
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[SQLITE_STATEMENTS_MAX];
    size_t statement_count;
};

struct sqlite_store {
    char *path;
    bool reading;
    bool immutable; /* read as a file that nobody writes: its folder cannot be written to */
    struct sqlite_link writer;
    struct sqlite_link reader; /* opened when it is first needed */
};

/* ---- line.c: lines of an exported session ---- */

#define SQLITE_DIGEST_SIZE 32 /* bytes */
#define SQLITE_LINE_SCHEMA 1

enum sqlite_line_type {
    SQLITE_LINE_SESSION,
    SQLITE_LINE_TURN,
    SQLITE_LINE_ATTEMPT,
    SQLITE_LINE_EVENT,
    SQLITE_LINE_RECEIPT,
    SQLITE_LINE_CHECKPOINT,
    SQLITE_LINE_CELL,
    SQLITE_LINE_CELL_VALUE,
    SQLITE_LINE_TOMBSTONE,
    SQLITE_LINE_END,
};

/* A line of any type: bl_store_line_record says which members each of them has. */
struct sqlite_line {
    enum sqlite_line_type type;
    uint64_t schema;
    const char *id; /* of a checkpoint: its name */
    const char *run;
    const char *directory;
    const char *title;
    const char *parent; /* NULL: none; as the next three, state and receipt */
    const char *agent_of;
    const char *agent_turn;
    const char *persona;
    const char *state;
    const char *receipt;
    const char *digest;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    uint64_t number; /* of a turn; of lines */
    uint64_t turns;
    uint64_t context_from;
    uint64_t deadline_ms;
    uint64_t generation;
    uint64_t yielded_generation;
    bool interrupted;
    bool completed;
    struct bl_text text; /* a prompt, a key */
    const struct bl_usage *usage;
    const struct bl_spent *spent;
    const struct bl_json *json; /* what the line is about: a result, a receipt, a value, … */
    const struct bl_json *messages;
    const struct bl_json *yielded;
    const struct bl_json *const *events;
    size_t event_count;
};

/* ---- sqlite.c: connections, statements, errors ---- */

/* Opens a connection with our settings. `flags` as of sqlite3_open_v2. */
int sqlite_link_open(struct sqlite_link *link, const char *path, int flags, bool immutable,
                     struct bl_error *error);
void sqlite_link_close(struct sqlite_link *link);
/* The code of an SQLite result, explained; marks a damaged file. */
int sqlite_fail(struct sqlite_link *link, int result, const char *operation,
                struct bl_error *error);
/* A statement with its values: i int64_t, u uint64_t (at most INT64_MAX is kept), t struct bl_text,
 * s const char * (NULL: null), j struct bl_text (empty: null), b struct bl_text (bytes), d double.
 * NULL: `error` says why. */
sqlite3_stmt *sqlite_query(struct sqlite_link *link, struct bl_error *error, const char *sql,
                           const char *types, ...);
/* 1: a row; 0: no more of them, or a code, and the statement is free again. */
int sqlite_next(struct sqlite_link *link, sqlite3_stmt *statement, struct bl_error *error);
void sqlite_free(sqlite3_stmt *statement); /* makes it free again before its end; NULL is fine */
/* Runs a statement that gives no rows. How many rows it changed, or a code. */
int sqlite_change(struct sqlite_link *link, struct bl_error *error, const char *sql,
                  const char *types, ...);
/* One integer of the first row; 0 when there is none. */
int sqlite_integer(struct sqlite_link *link, struct bl_error *error, const char *sql,
                   int64_t *ret_value);
int sqlite_execute(struct sqlite_link *link, const char *sql, struct bl_error *error);
struct bl_text sqlite_text(sqlite3_stmt *statement, int column);  /* until the next step */
struct bl_text sqlite_bytes(sqlite3_stmt *statement, int column); /* so too */
struct bl_text sqlite_copy(struct bl_arena *arena, sqlite3_stmt *statement, int column);
const char *sqlite_string(struct bl_arena *arena, sqlite3_stmt *statement, int column);
uint64_t sqlite_count(sqlite3_stmt *statement, int column);
/* Five columns, from `column` on: input, output, cost, cost_max, cost_unknown. */
void sqlite_spent(sqlite3_stmt *statement, int column, struct bl_spent *ret_spent);

/* ---- sqlite_schema.c ---- */

struct sqlite_migration {
    const char *sql;
};

extern const struct sqlite_migration sqlite_migrations[];
extern const size_t sqlite_migration_count;

/* Brings a file from its version to `count`, in one transaction; a file of that version or newer is
 * left alone. */
int sqlite_migrate(struct sqlite_link *link, const struct sqlite_migration *migrations,
                   size_t count, struct bl_error *error);

/* ---- sqlite_open.c ---- */

int sqlite_open(const char *where, bool reading, void **ret_state, struct bl_error *error);
void sqlite_close(void *state);
/* The connection for reading. */
int sqlite_reader(struct sqlite_store *store, struct bl_error *error);

/* ---- sqlite_write.c, sqlite_read.c: batches ---- */

void sqlite_write(void *state, struct bl_list *jobs);
void sqlite_read(void *state, struct bl_list *jobs);

/* ---- Operations: each all or nothing in its batch ---- */

int sqlite_hold(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error);
int sqlite_session_write(struct sqlite_link *link, struct store_write *write,
                         struct bl_error *error);
/* Ends the attempt as if its commit had never been tried; for one that was refused after it may
 * have reached the file. */
int sqlite_commit_void(struct sqlite_link *link, const struct store_write *write,
                       struct bl_error *error);
/* The attempt of that id is not under way any more: 1; it was not: 0; or a code. */
int sqlite_end_running(struct sqlite_link *link, int64_t session, struct bl_text turn_id,
                       struct bl_error *error);
/* Adds to journal and receipts what a settlement carries. */
int sqlite_add_beside(struct sqlite_link *link, int64_t session, const char *run,
                      struct bl_text events, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error);
int sqlite_import(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_import_check(struct bl_text lines, struct bl_error *error);
int sqlite_fork(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_delete(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_checkpoint_get(struct sqlite_link *link, struct store_look *look,
                          struct bl_error *error);
/* What a held session writes of its cells; under its epoch, which has been looked at. */
int sqlite_cell_write(struct sqlite_link *link, struct store_write *write, struct bl_error *error);
/* What a cell has stored: put, replaced, or deleted. */
int sqlite_cell_value_put(struct sqlite_link *link, int64_t session,
                          const struct bl_store_value *value, struct bl_error *error);
/* An ended one, and a tombstone, from elsewhere. 0 and more, or a code. */
int sqlite_cell_add(struct sqlite_link *link, int64_t session, const struct bl_store_cell *cell,
                    struct bl_error *error);
int sqlite_tombstone_add(struct sqlite_link *link, int64_t session,
                         const struct bl_store_cell *cell, int64_t buried_wall_ns,
                         struct bl_error *error);
/* Cells, tombstones and values of a session go. */
int sqlite_cells_delete(struct sqlite_link *link, int64_t session, struct bl_error *error);
int sqlite_cells_load(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_cell_buried(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_feature_hold(struct sqlite_link *link, struct store_feature_hold *hold,
                        struct bl_error *error);
int sqlite_feature_write(struct sqlite_link *link, struct store_feature_write *write,
                         struct bl_error *error);
int sqlite_feature_release(struct sqlite_link *link, struct store_feature_write *write,
                           struct bl_error *error);
/* The feature's key and newest generation. BL_ENOENT with a suggestion. */
int sqlite_find_feature(struct sqlite_link *link, const char *repository, const char *id,
                        int64_t *ret_feature, uint64_t *ret_generation, struct bl_error *error);
int sqlite_feature_load(struct sqlite_link *link, struct store_feature_look *look,
                        struct bl_error *error);
int sqlite_feature_events(struct sqlite_link *link, struct store_feature_look *look,
                          struct bl_error *error);
int sqlite_feature_list(struct sqlite_link *link, struct store_feature_look *look,
                        struct bl_error *error);
int sqlite_list(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_show(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_turns(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_find(struct sqlite_link *link, struct store_find *find, struct bl_error *error);
int sqlite_task_begin(struct sqlite_link *link, struct store_task *task, struct bl_error *error);
int sqlite_task_end(struct sqlite_link *link, struct store_task *task, struct bl_error *error);
/* Removes what has expired, and ends this one if its owner is gone. */
int sqlite_task_settle(struct sqlite_link *link, struct store_task *task, struct bl_error *error);
int sqlite_task_get(struct sqlite_link *link, struct store_task *task, struct bl_error *error);

/* ---- sqlite_hold.c: leases, and what is not found ---- */

/* What can be held: the statements for its leases. */
struct sqlite_leased {
    const char *noun;
    const char *read, *take, *renew, *release;
};

extern const struct sqlite_leased sqlite_leased_session;
extern const struct sqlite_leased sqlite_leased_feature;

struct sqlite_lease {
    uint64_t epoch;
    bool held;
    char owner[32];
    uint64_t handle;
    struct store_identity holder;
    int64_t since_wall_ns;
    int64_t until_wall_ns;
};

/* 1: found; 0: there is none; or a code. */
int sqlite_lease_read(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      struct sqlite_lease *ret_lease, struct bl_error *error);
/* Somebody who may still write: alive here, or out of sight with a lease that has not ended. */
bool sqlite_lease_binds(const struct sqlite_lease *lease, const struct store_identity *self,
                        int64_t wall_ns);
/* Who that is, as the claimant sees it. */
void sqlite_lease_owner(const struct sqlite_lease *lease, const struct store_claimant *claimant,
                        struct bl_store_owner *ret_owner);
/* 1: it is the claimant's now, its epoch one above that of before; 0: it binds somebody; or a code.
 */
int sqlite_lease_take(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      const struct store_claimant *claimant, struct sqlite_lease *ret_before,
                      struct bl_store_owner *ret_owner, struct bl_error *error);
/* 1: done; 0: it is under another epoch; or a code. */
int sqlite_lease_renew(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                       uint64_t epoch, int64_t wall_ns, struct bl_error *error);
/* One under another epoch is left as it is. */
int sqlite_lease_release(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                         uint64_t epoch, struct bl_error *error);
/* Says with `code` who has it now. */
int sqlite_lease_refuse(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                        const char *id, int code, struct bl_error *error);

#define SQLITE_SUGGEST_IDS_MAX 1000

/* The hint of an error: the id nearest to the word, of those in the first column, or `otherwise`.
 */
void sqlite_suggest(struct sqlite_link *link, sqlite3_stmt *row, const char *word,
                    const char *otherwise, struct bl_error *error);
/* The session's key. BL_ENOENT with a suggestion. */
int sqlite_find_session(struct sqlite_link *link, const char *id, int64_t *ret_session,
                        struct bl_error *error);

struct store_cursor *sqlite_export_new(const void *state, const char *id);
int sqlite_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error);
void sqlite_export_free(struct store_cursor *cursor);

#endif
