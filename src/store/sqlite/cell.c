/* Cells of a session: admission, yields, end and burial, and the stored values.
 *
 * Only a cell that has not ended can change, and it ends once. So an end that is retried after a
 * missing answer finds out which of the two ends is in the store. */
#include "sqlite.h"

/* Limit for deletions with one burial, so that other jobs do not wait for a whole day's tombstones.
 */
#define TRIM_MAX 1024

/* ---- Admission ---- */

/* Explains why nothing was admitted: the id is in use. */
static int refuse_used(struct sqlite_link *link, const struct store_write *write,
                       struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT digest FROM cell_tombstone WHERE session = ?1 AND"
                                      " id = ?2 UNION ALL"
                                      " SELECT digest FROM cell WHERE session = ?1 AND id = ?2",
                                      "it", write->grip.session, cell->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code < 0)
        return code;
    code = store_refuse_used_cell(write, code == 1 ? store_row_text(&row, 0) : (struct bl_text){0},
                                  error);
    sqlite_free(rows);
    return code;
}

static int sqlite_cell_admit(struct sqlite_link *link, const struct store_write *write,
                             struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    int changed = sqlite_change(
        link, error,
        "INSERT INTO cell (session, id, created, deadline_ms, pid, pid_started, digest)"
        " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS"
        " (SELECT 1 FROM cell_tombstone WHERE session = ?1 AND id = ?2)"
        " ON CONFLICT (session, id) DO NOTHING",
        "itiiiib", write->grip.session, cell->id, cell->created_wall_ns, cell->deadline_ms,
        cell->pid, cell->pid_started, cell->digest);
    return changed < 0 ? changed : changed == 0 ? refuse_used(link, write, error) : 0;
}

/* Removes a cell of which no caller knows and that has decided nothing. */
static int withdraw(struct sqlite_link *link, const struct store_write *write,
                    struct bl_error *error)
{
    int changed = sqlite_change(link, error,
                                "DELETE FROM cell WHERE session = ? AND id = ? AND generation = 0"
                                " AND terminal IS NULL",
                                "it", write->grip.session, write->cell.record.id);
    return changed < 0 ? changed : 0;
}

/* ---- While it runs ---- */

static int sqlite_cell_start(struct sqlite_link *link, const struct store_write *write,
                             struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    int changed =
        sqlite_change(link, error,
                      "UPDATE cell SET pid = ?, pid_started = ? WHERE session = ? AND"
                      " id = ?",
                      "iiit", cell->pid, cell->pid_started, write->grip.session, cell->id);
    if (changed == 0)
        return store_refuse_missing_cell(write, error);
    return changed < 0 ? changed : 0;
}

/* Explains why the cell was not changed. Returns 0 if this same end is in the store. */
static int refuse_change(struct sqlite_link *link, const struct store_write *write,
                         struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    sqlite3_stmt *rows =
        sqlite_query(link, error, "SELECT terminal FROM cell WHERE session = ? AND id = ?", "it",
                     write->grip.session, cell->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code == 0)
        return store_refuse_missing_cell(write, error);
    if (code != 1)
        return code;
    code = store_refuse_ended_cell(write, store_row_text(&row, 0), error);
    sqlite_free(rows);
    return code;
}

static int yield(struct sqlite_link *link, const struct store_write *write, struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    int changed =
        sqlite_change(link, error,
                      "UPDATE cell SET yielded_generation = ?1, generation = ?1,"
                      " yielded = ?2 WHERE session = ?3 AND id = ?4 AND terminal IS NULL",
                      "ujit", cell->generation, cell->yielded, write->grip.session, cell->id);
    return changed < 0 ? changed : changed == 0 ? refuse_change(link, write, error) : 0;
}

/* ---- The end ---- */

int sqlite_cell_value_put(struct sqlite_link *link, int64_t session,
                          const struct bl_store_value *value, struct bl_error *error)
{
    int code;
    if (value->json.size == 0)
        code = sqlite_change(link, error, "DELETE FROM cell_value WHERE session = ? AND name = ?",
                             "it", session, value->key);
    else
        code = sqlite_change(link, error,
                             "INSERT INTO cell_value (session, name, body) VALUES (?, ?, ?)"
                             " ON CONFLICT (session, name) DO UPDATE SET body = excluded.body",
                             "itt", session, value->key, value->json);
    return code < 0 ? code : 0;
}

static int sqlite_cell_end(struct sqlite_link *link, const struct store_write *write,
                           struct bl_error *error)
{
    const struct bl_store_cell *cell = &write->cell.record;
    int changed = sqlite_change(
        link, error,
        "UPDATE cell SET yielded_generation = ?, generation = ?, completed = ?, ended = ?,"
        " yielded = ?, terminal = ? WHERE session = ? AND id = ? AND terminal IS NULL",
        "uuiijtit", cell->yielded_generation, cell->generation, (int64_t)cell->completed,
        cell->ended_wall_ns, cell->yielded, cell->terminal, write->grip.session, cell->id);
    if (changed == 0)
        return refuse_change(link, write, error);
    int code = changed < 0 ? changed : 0;
    BL_LIST_EACH (each, &write->cell.values) {
        if (code == 0)
            code = sqlite_cell_value_put(link, write->grip.session,
                                         BL_CONTAINER(each, struct bl_store_value, link), error);
    }
    if (code != 0)
        return code;
    return sqlite_add_beside(link, write->grip.session, write->run, (struct bl_text){0},
                             write->cell.receipt_id, write->cell.receipt, error);
}

/* ---- Tombstones ---- */

static bool is_old(const struct store_write *write, int64_t buried_wall_ns)
{
    return write->wall_ns > buried_wall_ns &&
           (uint64_t)write->wall_ns - (uint64_t)buried_wall_ns > write->cell.tombstone_ns_max;
}

/* Deletes the oldest tombstones, by key, if they are too many or too old. Returns their number, or
 * a code. */
static int trim(struct sqlite_link *link, const struct store_write *write, uint64_t count,
                struct bl_error *error)
{
    uint64_t surplus = count > write->cell.tombstones_max ? count - write->cell.tombstones_max : 0;
    uint64_t gone = 0;
    int64_t last = 0;
    int code;
    sqlite3_stmt *rows =
        sqlite_query(link, error, "SELECT key, buried FROM cell_tombstone ORDER BY key LIMIT ?",
                     "i", (int64_t)TRIM_MAX);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1) {
        if (gone >= surplus && !is_old(write, store_row_time(&row, 1))) {
            sqlite_free(rows);
            break;
        }
        last = store_row_integer(&row, 0);
        gone++;
    }
    if (code < 0 || gone == 0)
        return code < 0 ? code : 0;
    return sqlite_change(link, error, "DELETE FROM cell_tombstone WHERE key <= ?", "i", last);
}

static int sqlite_cell_bury(struct sqlite_link *link, const struct store_write *write,
                            struct bl_error *error)
{
    int64_t session = write->grip.session, count = 0;
    struct bl_text id = write->cell.record.id;
    int code = sqlite_change(link, error,
                             "INSERT INTO cell_tombstone (session, id, buried, digest)"
                             " SELECT session, id, ?, digest FROM cell WHERE session = ? AND"
                             " id = ? AND terminal IS NOT NULL",
                             "iit", write->wall_ns, session, id);
    if (code == 0)
        return refuse_change(link, write, error);
    if (code > 0)
        code = sqlite_change(link, error, "DELETE FROM cell WHERE session = ? AND id = ?", "it",
                             session, id);
    if (code >= 0)
        code = sqlite_integer(link, error, "SELECT tombstones FROM store", &count);
    if (code < 0)
        return code;
    int gone = trim(link, write, (uint64_t)count + 1, error);
    if (gone == 1)
        return 0;
    code = gone < 0 ? gone
                    : sqlite_change(link, error, "UPDATE store SET tombstones = tombstones + ?",
                                    "i", (int64_t)1 - gone);
    return code < 0 ? code : 0;
}

int sqlite_cells_delete(struct sqlite_link *link, int64_t session, struct bl_error *error)
{
    static const char *const statements[] = {
        "UPDATE store SET tombstones = tombstones -"
        " (SELECT count(*) FROM cell_tombstone WHERE session = ?1)"
        " WHERE EXISTS (SELECT 1 FROM cell_tombstone WHERE session = ?1)",
        "DELETE FROM cell_tombstone WHERE session = ?",
        "DELETE FROM cell_value WHERE session = ?",
        "DELETE FROM cell WHERE session = ?",
    };
    int code = 0;
    for (size_t i = 0; i < BL_COUNT(statements) && code == 0; i++) {
        int changed = sqlite_change(link, error, statements[i], "i", session);
        code = changed < 0 ? changed : 0;
    }
    return code;
}

int sqlite_cell_write(struct sqlite_link *link, struct store_write *write, struct bl_error *error)
{
    enum store_operation operation = write->job.operation;
    if (operation == STORE_CELL_ADMIT)
        return sqlite_cell_admit(link, write, error);
    if (operation == STORE_CELL_STARTED)
        return sqlite_cell_start(link, write, error);
    if (operation == STORE_CELL_YIELD)
        return yield(link, write, error);
    if (operation == STORE_CELL_END)
        return sqlite_cell_end(link, write, error);
    if (operation == STORE_CELL_BURY)
        return sqlite_cell_bury(link, write, error);
    if (operation == STORE_CELL_WITHDRAW)
        return withdraw(link, write, error);
    return sqlite_cells_delete(link, write->grip.session, error);
}

/* ---- Imported cells ---- */

int sqlite_cell_add(struct sqlite_link *link, int64_t session, const struct bl_store_cell *cell,
                    struct bl_error *error)
{
    return sqlite_change(link, error,
                         "INSERT INTO cell (session, id, created, deadline_ms,"
                         " yielded_generation, generation, completed, ended, digest, yielded,"
                         " terminal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         "itiiuuiibjt", session, cell->id, cell->created_wall_ns, cell->deadline_ms,
                         cell->yielded_generation, cell->generation, (int64_t)cell->completed,
                         cell->ended_wall_ns, cell->digest, cell->yielded, cell->terminal);
}

int sqlite_tombstone_add(struct sqlite_link *link, int64_t session,
                         const struct bl_store_cell *cell, int64_t buried_wall_ns,
                         struct bl_error *error)
{
    int code = sqlite_change(link, error,
                             "INSERT INTO cell_tombstone (session, id, buried, digest)"
                             " VALUES (?, ?, ?, ?)",
                             "itib", session, cell->id, buried_wall_ns, cell->digest);
    if (code >= 0)
        code = sqlite_change(link, error, "UPDATE store SET tombstones = tombstones + 1", "");
    return code;
}

/* ---- Reading ---- */

/* Sorts only the keys: a sort of the rows would move all their texts. */
int sqlite_cells_load(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT id, digest, created, deadline_ms, pid, pid_started,"
                     " yielded_generation, generation, completed, ended, yielded, terminal"
                     " FROM cell WHERE key IN (SELECT key FROM cell WHERE session = ?)"
                     " ORDER BY key",
                     "i", look->session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_look_add_cell(look, &row);
    if (code != 0)
        return code;
    rows = sqlite_query(link, error,
                        "SELECT name, body FROM cell_value WHERE key IN"
                        " (SELECT key FROM cell_value WHERE session = ?) ORDER BY key",
                        "i", look->session);
    row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_look_add_value(look, &row);
    return code;
}

int sqlite_cell_buried(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    sqlite3_stmt *row =
        sqlite_query(link, error, "SELECT 1 FROM cell_tombstone WHERE session = ? AND id = ?", "it",
                     look->session, look->cell_id);
    int code = sqlite_next(link, row, error);
    if (code < 0)
        return code;
    look->buried = code == 1;
    if (code == 1)
        sqlite_free(row);
    return 0;
}
