/* One SQLite file as a store. All functions run on worker threads, one at a time per connection. */
#ifndef BELAY_STORE_SQLITE_H
#define BELAY_STORE_SQLITE_H

#include <sqlite3.h>

#include "store/form.h"

/* "Bely", the application id in the file header. */
#define SQLITE_APPLICATION_ID 0x42656c79

#define SQLITE_STATEMENTS_MAX 128

enum sqlite_synchronous {
    SQLITE_SYNCHRONOUS_OFF,
    SQLITE_SYNCHRONOUS_NORMAL,
    SQLITE_SYNCHRONOUS_FULL,
};

/* A connection with its prepared statements, which are found by the address of their text. */
struct sqlite_link {
    sqlite3 *db; /* NULL: not open */
    const char *path;
    enum sqlite_synchronous synchronous;
    int wal_pages;  /* after the last commit */
    bool untrusted; /* a sync of the log has failed, so its contents may not be on disk */
    bool damaged;   /* the file was found damaged, and is not written to any more */
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[SQLITE_STATEMENTS_MAX];
    size_t statement_count;
};

struct sqlite_store {
    char *path;
    bool reading;
    bool immutable; /* read without locks, because its folder cannot be written to */
    struct sqlite_link writer;
    struct sqlite_link reader; /* opened when it is first needed */
};

/* ---- sqlite.c: connections, statements, errors ---- */

/* Opens a connection with our settings. `flags` are those of sqlite3_open_v2. */
int sqlite_link_open(struct sqlite_link *link, const char *path, int flags, bool immutable,
                     struct bl_error *error);
void sqlite_link_close(struct sqlite_link *link);
/* Converts an SQLite result to a code with an error; marks a damaged file. */
int sqlite_fail(struct sqlite_link *link, int result, const char *operation,
                struct bl_error *error);
/* Reports that there is no space for a file, with the folder and what to do. Returns BL_ENOSPC. */
int sqlite_full(const char *path, const char *operation, const char *cause, struct bl_error *error);
/* Returns a statement with its values: i int64_t, u uint64_t (limited to INT64_MAX), t struct
 * bl_text, s const char * (NULL: null), j struct bl_text (empty: null), b struct bl_text (bytes), d
 * double. Returns NULL with `error` on failure. */
sqlite3_stmt *sqlite_query(struct sqlite_link *link, struct bl_error *error, const char *sql,
                           const char *types, ...);
/* Returns 1 for a row. Returns 0 after the last row, or a code, and resets the statement. */
int sqlite_next(struct sqlite_link *link, sqlite3_stmt *statement, struct bl_error *error);
void sqlite_free(sqlite3_stmt *statement); /* resets it before its end; NULL is allowed */
/* Runs a statement without rows. Returns the number of rows changed, or a code. */
int sqlite_change(struct sqlite_link *link, struct bl_error *error, const char *sql,
                  const char *types, ...);
/* Reads one integer from the first row; 0 if there is none. */
int sqlite_integer(struct sqlite_link *link, struct bl_error *error, const char *sql,
                   int64_t *ret_value);
int sqlite_execute(struct sqlite_link *link, const char *sql, struct bl_error *error);
struct bl_text sqlite_text(sqlite3_stmt *statement, int column); /* valid until the next step */
/* Returns the current row of a statement, at each of its steps. */
struct store_row sqlite_row(sqlite3_stmt *statement);

/* ---- schema.c ---- */

struct sqlite_migration {
    const char *sql;
};

extern const struct sqlite_migration sqlite_migrations[];
extern const size_t sqlite_migration_count;

/* Upgrades a file from its version to `count`, in one transaction. A file of that version or newer
 * is left unchanged. */
int sqlite_migrate(struct sqlite_link *link, const struct sqlite_migration *migrations,
                   size_t count, struct bl_error *error);

/* ---- open.c ---- */

int sqlite_open(struct store_opening *opening, struct bl_error *error);
int sqlite_check(struct store_opening *opening, struct bl_error *error);
void sqlite_close(void *state);
/* Opens the connection for reading if it is not open. */
int sqlite_reader(struct sqlite_store *store, struct bl_error *error);

/* ---- write.c, read.c: batches ---- */

void sqlite_write(void *state, struct bl_list *jobs);
void sqlite_read(void *state, struct bl_list *jobs);

/* ---- Operations: each is atomic within its batch ---- */

int sqlite_hold(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error);
int sqlite_session_write(struct sqlite_link *link, struct store_write *write,
                         struct bl_error *error);
/* Ends the attempt as if its commit had not been tried, because the commit was refused after it may
 * have reached the file. */
int sqlite_commit_void(struct sqlite_link *link, const struct store_write *write,
                       struct bl_error *error);
/* Removes a running attempt. Returns 1 if it was running, 0 if not, or a code. */
int sqlite_end_running(struct sqlite_link *link, int64_t session, struct bl_text turn_id,
                       struct bl_error *error);
/* Adds the events and the receipt of a settlement to the journal and receipts. */
int sqlite_add_beside(struct sqlite_link *link, int64_t session, const char *run,
                      struct bl_text events, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error);
int sqlite_import(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
/* Copies a session under an unused id. */
int sqlite_fork_session(struct sqlite_link *link, int64_t from, const char *id, int64_t wall_ns,
                        int64_t *ret_session, struct bl_error *error);
int sqlite_fork(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_delete(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_checkpoint_get(struct sqlite_link *link, struct store_look *look,
                          struct bl_error *error);
/* Writes for the cells of a held session, whose epoch has been checked. */
int sqlite_cell_write(struct sqlite_link *link, struct store_write *write, struct bl_error *error);
/* Sets, replaces or deletes a stored value. */
int sqlite_cell_value_put(struct sqlite_link *link, int64_t session,
                          const struct bl_store_value *value, struct bl_error *error);
/* Add an ended cell, or a tombstone, from an import. Return 0 or more, or a code. */
int sqlite_cell_add(struct sqlite_link *link, int64_t session, const struct bl_store_cell *cell,
                    struct bl_error *error);
int sqlite_tombstone_add(struct sqlite_link *link, int64_t session,
                         const struct bl_store_cell *cell, int64_t buried_wall_ns,
                         struct bl_error *error);
/* Deletes the cells, tombstones and values of a session. */
int sqlite_cells_delete(struct sqlite_link *link, int64_t session, struct bl_error *error);
int sqlite_cells_load(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_cell_buried(struct sqlite_link *link, struct store_look *look, struct bl_error *error);
int sqlite_feature_hold(struct sqlite_link *link, struct store_feature_hold *hold,
                        struct bl_error *error);
int sqlite_feature_write(struct sqlite_link *link, struct store_feature_write *write,
                         struct bl_error *error);
int sqlite_feature_release(struct sqlite_link *link, struct store_feature_write *write,
                           struct bl_error *error);
/* Returns the feature's key and newest generation. BL_ENOENT with a suggestion. */
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
/* Deletes expired tasks, and ends this one if its owner has ended. */
int sqlite_task_settle(struct sqlite_link *link, struct store_task *task, struct bl_error *error);
int sqlite_task_get(struct sqlite_link *link, struct store_task *task, struct bl_error *error);

/* ---- hold.c: leases, and errors for missing sessions ---- */

/* The statements for the leases of one kind of object. */
struct sqlite_leased {
    const char *read, *take, *renew, *release;
};

extern const struct sqlite_leased sqlite_leased_session;
extern const struct sqlite_leased sqlite_leased_feature;

/* Returns 1 if there is a lease, 0 if not, or a code. */
int sqlite_lease_read(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      struct store_lease *ret_lease, struct bl_error *error);
/* Writes the claimant's lease with that epoch. Returns 0 or a code. */
int sqlite_lease_take(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                      const struct store_claimant *claimant, uint64_t epoch,
                      struct bl_error *error);
/* Returns 1 if renewed, 0 if the lease has another epoch, or a code. */
int sqlite_lease_renew(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                       uint64_t epoch, int64_t wall_ns, struct bl_error *error);
/* Releases the lease; one with another epoch is left unchanged. */
int sqlite_lease_release(struct sqlite_link *link, const struct sqlite_leased *leased, int64_t key,
                         uint64_t epoch, struct bl_error *error);
/* Offers the ids in the first column. */
void sqlite_suggest(struct sqlite_link *link, sqlite3_stmt *rows,
                    struct store_suggestion *suggestion);
/* Returns the session's key. BL_ENOENT with a suggestion. */
int sqlite_find_session(struct sqlite_link *link, const char *id, int64_t *ret_session,
                        struct bl_error *error);

struct store_cursor *sqlite_export_new(const void *state, const char *id);
int sqlite_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error);
void sqlite_export_free(struct store_cursor *cursor);

/* ---- left.c ---- */

/* Settles what a dead holder left in a session whose lease has just been taken; part of opening it.
 */
int sqlite_settle_left(struct sqlite_link *link, struct store_hold *hold, struct bl_error *error);

#endif
