/* Finds a piece of work by its id.
 *
 * Ids that are globally unique (runs, receipts, sessions) are searched first, then ids that are
 * unique only within their holder, then turns. Turns have no index, since each commit would have to
 * update it, so their table is scanned. Each function returns 1 with the answer in `find`, 0 if it
 * does not find the id, or a code. */
#include "sqlite.h"

/* ---- Parts of an answer ---- */

static int sqlite_find_take_receipt(struct sqlite_link *link, struct store_find *find,
                                    int64_t session, const char *id, struct bl_error *error)
{
    if (id == NULL)
        return 0;
    /* The stored receipt: it may have been completed after the result of the turn was written. */
    sqlite3_stmt *rows = sqlite_query(
        link, error, "SELECT body FROM receipt WHERE session = ? AND id = ?", "is", session, id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    find->work.receipt = store_row_copy(&find->job.output, &row, 0);
    sqlite_free(rows);
    return 0;
}

/* Takes the result and the receipt's id from these columns of the row, and resets the statement. */
static int sqlite_find_take_end(struct sqlite_link *link, struct store_find *find, int64_t session,
                                sqlite3_stmt *rows, int column, struct bl_error *error)
{
    struct store_row row = sqlite_row(rows);
    const char *receipt = store_work_take_end(find, &row, column);
    sqlite_free(rows);
    return sqlite_find_take_receipt(link, find, session, receipt, error);
}

#define RECEIPT_ID(json)                                                                           \
    "CASE WHEN json_valid(" json ") THEN json_extract(" json ", '$.receipt.id') END"

/* Takes the turn or attempt that ended last in the session, of one run or of all. */
static int take_newest(struct sqlite_link *link, struct store_find *find, int64_t session,
                       const char *run, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT result, receipt FROM ("
        "SELECT * FROM (SELECT result, " RECEIPT_ID(
            "result") " AS receipt, ended, 1 AS committed"
                      " FROM turn WHERE session = ?1 AND (?2 IS NULL OR run = ?2)"
                      " ORDER BY number DESC LIMIT 1) UNION ALL"
                      " SELECT * FROM (SELECT result, receipt, ended, 0 AS committed FROM attempt"
                      " WHERE session = ?1 AND (?2 IS NULL OR run = ?2) ORDER BY key DESC LIMIT 1))"
                      " ORDER BY ended DESC, committed DESC LIMIT 1",
        "is", session, run);
    int code = sqlite_next(link, rows, error);
    return code == 1 ? sqlite_find_take_end(link, find, session, rows, 0, error) : code;
}

/* Returns 1 if a turn of the run or an attempt has that receipt. */
static int is_of_turn(struct sqlite_link *link, int64_t session, const char *run,
                      const char *receipt, struct bl_error *error)
{
    sqlite3_stmt *row = sqlite_query(
        link, error,
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM attempt WHERE session = ?1 AND receipt = ?3)"
        " OR EXISTS (SELECT 1 FROM turn WHERE session = ?1 AND run = ?2 AND"
        " instr(result, ?3) AND ?3 = " RECEIPT_ID("result") ")",
        "iss", session, run, receipt);
    int code = sqlite_next(link, row, error);
    if (code == 1)
        sqlite_free(row);
    return code;
}

/* Takes the receipt of a run that was stopped between turns, which no turn has. */
static int take_late_receipt(struct sqlite_link *link, struct store_find *find, int64_t session,
                             const char *run, struct bl_error *error)
{
    struct bl_arena *arena = &find->job.output;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT id, body FROM receipt WHERE session = ? AND"
                                      " json_valid(body) AND json_extract(body, '$.scope') = ?"
                                      " ORDER BY key DESC LIMIT 1",
                                      "is", session, run);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    const char *receipt = store_row_string(arena, &row, 0);
    struct bl_text body = store_row_copy(arena, &row, 1);
    sqlite_free(rows);
    code = is_of_turn(link, session, run, receipt, error);
    if (code == 0)
        find->work.receipt = body;
    return code < 0 ? code : 0;
}

/* Returns 1 if an attempt is recorded as running. An attempt left by a dead holder counts until the
 * session is held again, which settles it. */
static int is_running(struct sqlite_link *link, int64_t session, const char *run,
                      struct bl_error *error)
{
    sqlite3_stmt *row = sqlite_query(
        link, error, "SELECT 1 FROM running WHERE session = ?1 AND (?2 IS NULL OR run = ?2)", "is",
        session, run);
    int code = sqlite_next(link, row, error);
    if (code == 1)
        sqlite_free(row);
    return code;
}

/* Returns 1 if the session has a live holder. */
static int sqlite_find_is_held(struct sqlite_link *link, const struct store_find *find,
                               int64_t session, struct bl_error *error)
{
    struct store_lease lease;
    int code = sqlite_lease_read(link, &sqlite_leased_session, session, &lease, error);
    return code != 1 ? code : store_lease_binds(&lease, &find->self, find->wall_ns);
}

/* ---- Runs, sessions, receipts ---- */

static int find_run(struct sqlite_link *link, struct store_find *find, struct bl_error *error)
{
    struct bl_arena *arena = &find->job.output;
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT session.key, session.id, run.rowid = (SELECT max(later.rowid) FROM run AS later"
        " WHERE later.session = run.session) FROM run JOIN session ON session.key = run.session"
        " WHERE run.id = ?",
        "s", find->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    int64_t session = store_row_integer(&row, 0);
    bool latest = store_row_flag(&row, 2);
    find->work = (struct bl_store_work){
        .kind = "run", .id = find->id, .session = store_row_string(arena, &row, 1)};
    sqlite_free(rows);
    int busy = is_running(link, session, find->id, error);
    if (busy == 0 && latest)
        busy = sqlite_find_is_held(link, find, session, error);
    if (busy < 0)
        return busy;
    find->work.ended = busy == 0;
    code = take_newest(link, find, session, find->id, error);
    if (code == 0 && find->work.receipt.size == 0)
        code = take_late_receipt(link, find, session, find->id, error);
    return code < 0 ? code : 1;
}

static int find_session(struct sqlite_link *link, struct store_find *find, struct bl_error *error)
{
    sqlite3_stmt *rows =
        sqlite_query(link, error, "SELECT key FROM session WHERE id = ?", "s", find->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    int64_t session = store_row_integer(&row, 0);
    sqlite_free(rows);
    int busy = is_running(link, session, NULL, error);
    if (busy == 0)
        busy = sqlite_find_is_held(link, find, session, error);
    if (busy < 0)
        return busy;
    find->work = (struct bl_store_work){
        .kind = "session", .id = find->id, .session = find->id, .ended = busy == 0};
    code = take_newest(link, find, session, NULL, error);
    return code < 0 ? code : 1;
}

/* An import under another id has the same receipts, so that of the first session is used. */
static int sqlite_find_receipt(struct sqlite_link *link, struct store_find *find,
                               struct bl_error *error)
{
    struct bl_arena *arena = &find->job.output;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT receipt.body, session.id FROM receipt JOIN session"
                                      " ON session.key = receipt.session WHERE receipt.id = ?"
                                      " ORDER BY receipt.session LIMIT 1",
                                      "s", find->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code == 0) {
        rows = sqlite_query(link, error,
                            "SELECT json, NULL FROM feature_record WHERE name = 'receipt/' || ?"
                            " ORDER BY key DESC LIMIT 1",
                            "s", find->id);
        row = sqlite_row(rows);
        code = sqlite_next(link, rows, error);
    }
    if (code != 1)
        return code;
    find->work = (struct bl_store_work){
        .kind = "receipt",
        .id = find->id,
        .session = store_row_string(arena, &row, 1),
        .ended = true,
        .receipt = store_row_copy(arena, &row, 0),
    };
    sqlite_free(rows);
    return 1;
}

/* ---- Features and their tasks ---- */

/* Takes the record of the task or feature in that generation, and the receipt that it names. */
static int sqlite_find_take_record(struct sqlite_link *link, struct store_find *find,
                                   int64_t feature, int64_t generation, const char *name,
                                   struct bl_error *error)
{
    /* All other states of a task are final; a feature has `ended_at`. */
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT json, CASE WHEN name = 'feature' THEN json_extract(json, '$.ended_at') IS NOT NULL"
        " ELSE coalesce(json_extract(json, '$.state'), 'pending') NOT IN"
        " ('pending', 'queued', 'running', 'stopping', 'approved') END,"
        " (SELECT kept.json FROM feature_record AS kept WHERE kept.feature = record.feature AND"
        " kept.generation = record.generation AND"
        " kept.name = 'receipt/' || json_extract(record.json, '$.receipt'))"
        " FROM feature_record AS record WHERE feature = ? AND generation = ? AND name = ?"
        " AND json_valid(json)",
        "iis", feature, generation, name);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code < 0 ? code : 1;
    store_work_take_record(find, &row);
    sqlite_free(rows);
    return 1;
}

/* Finds the run of a whole feature: in its record, or as the run of its holder if there is no
 * record yet. */
static int find_feature_run(struct sqlite_link *link, struct store_find *find,
                            struct bl_error *error)
{
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT feature, generation FROM feature_record WHERE name = 'feature' AND"
                     " json_valid(json) AND json_extract(json, '$.run_id') = ?1 UNION ALL"
                     " SELECT key, generation FROM feature WHERE run = ?1 LIMIT 1",
                     "s", find->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    int64_t feature = store_row_integer(&row, 0), generation = store_row_integer(&row, 1);
    sqlite_free(rows);
    find->work = (struct bl_store_work){.kind = "run", .id = find->id};
    return sqlite_find_take_record(link, find, feature, generation, "feature", error);
}

/* ---- Ids that are unique within their holder ---- */

static int gather(struct sqlite_link *link, struct store_find *find, sqlite3_stmt *rows,
                  const char *kind, struct store_candidates *found, struct bl_error *error)
{
    struct store_row row = sqlite_row(rows);
    int code;
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_candidates_add(found, find, kind, &row);
    return code;
}

static int gather_cells(struct sqlite_link *link, struct store_find *find,
                        struct store_candidates *found, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT session.id || '/' || held.id, session.key, 0 FROM"
        " (SELECT session, id FROM cell WHERE id = ?1 UNION"
        " SELECT session, id FROM cell_tombstone WHERE id = ?1) AS held"
        " JOIN session ON session.key = held.session WHERE ?2 IS NULL OR session.id = ?2"
        " ORDER BY session.key",
        "ss", find->last, find->holder);
    return gather(link, find, rows, "cell", found, error);
}

/* If features of several repositories have the same id, the path precedes it. */
static int gather_features(struct sqlite_link *link, struct store_find *find,
                           struct store_candidates *found, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT CASE count(*) OVER () WHEN 1 THEN '' ELSE feature.repository || '/' END ||"
        " feature.id || '/' || ?1, feature.key, feature.generation FROM feature JOIN feature_record"
        " AS record ON record.feature = feature.key AND record.generation = feature.generation AND"
        " record.name = 'task/' || ?1 WHERE ?2 IS NULL OR feature.id = ?2 OR"
        " feature.repository || '/' || feature.id = ?2 ORDER BY feature.key",
        "ss", find->last, find->holder);
    int code = gather(link, find, rows, "task", found, error);
    if (code != 0)
        return code;
    rows = sqlite_query(link, error,
                        "SELECT CASE count(*) OVER () WHEN 1 THEN '' ELSE repository || '/' END ||"
                        " id, key, generation FROM feature WHERE id = ?1 AND"
                        " (?2 IS NULL OR repository = ?2) ORDER BY key",
                        "ss", find->last, find->holder);
    return gather(link, find, rows, "feature", found, error);
}

static int sqlite_find_take_cell(struct sqlite_link *link, struct store_find *find, int64_t session,
                                 struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT terminal, " RECEIPT_ID("terminal") ", terminal IS NOT NULL, yielded"
                                                   " FROM cell WHERE session = ? AND id = ?",
        "is", session, find->last);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code < 0)
        return code;
    const char *receipt = store_work_take_cell(find, code == 1 ? &row : NULL);
    sqlite_free(rows);
    code = sqlite_find_take_receipt(link, find, session, receipt, error);
    return code < 0 ? code : 1;
}

static int find_held(struct sqlite_link *link, struct store_find *find, struct bl_error *error)
{
    struct store_candidates found = {0};
    int code = gather_cells(link, find, &found, error);
    /* SESSION/CELL is a full name. A feature with the name of a session needs the path of its
     * repository. */
    if (code == 0 && (found.count == 0 || find->holder == NULL))
        code = gather_features(link, find, &found, error);
    if (code != 0 || found.count == 0)
        return code;
    if (found.count > 1)
        return store_refuse_ambiguous(find, &found, error);
    const struct store_candidate *only = &found.first;
    const char *record = store_work_take_candidate(find, only);
    return record == NULL
               ? sqlite_find_take_cell(link, find, only->holder, error)
               : sqlite_find_take_record(link, find, only->holder, only->generation, record, error);
}

/* ---- Turns ---- */

/* A fork has the turns of its parent, so that of the older session is used. */
static int find_turn(struct sqlite_link *link, struct store_find *find, struct bl_error *error)
{
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT session.key, session.id, held.result, held.receipt, held.ended FROM"
        " (SELECT session, result, receipt, 1 AS ended FROM attempt WHERE id = ?1 UNION ALL"
        " SELECT session, NULL, NULL, 0 FROM running WHERE id = ?1 UNION ALL"
        " SELECT session, result, " RECEIPT_ID(
            "result") ", 1 FROM turn WHERE id = ?1) AS held"
                      " JOIN session ON session.key = held.session ORDER BY session.key LIMIT 1",
        "s", find->id);
    struct store_row row = sqlite_row(rows);
    int code = sqlite_next(link, rows, error);
    if (code != 1)
        return code;
    find->work = (struct bl_store_work){
        .kind = "turn",
        .id = find->id,
        .session = store_row_string(&find->job.output, &row, 1),
        .ended = store_row_flag(&row, 4),
    };
    code = sqlite_find_take_end(link, find, store_row_integer(&row, 0), rows, 2, error);
    return code < 0 ? code : 1;
}

int sqlite_find(struct sqlite_link *link, struct store_find *find, struct bl_error *error)
{
    static int (*const finders[])(struct sqlite_link *, struct store_find *, struct bl_error *) = {
        find_run, find_session, sqlite_find_receipt, find_feature_run, find_held, find_turn};
    for (size_t i = 0; i < BL_COUNT(finders); i++) {
        int code = finders[i](link, find, error);
        if (code != 0)
            return code == 1 ? 0 : code;
    }
    return store_refuse_unknown_work(find, link->path, error);
}
