/* Operations that only read. Each job has its own read transaction, so that its answer shows one
 * moment. */
#include "sqlite.h"

#define SUMMARY_COLUMNS                                                                            \
    "id, directory, title, parent, created, updated, turns_total, input, output,"                  \
    " spent_input, spent_output, cost, cost_max, cost_unknown, agent_of, agent_turn, persona, key"

/* ---- Summaries ---- */

/* Adds the number and cost of the ended attempts. */
static int add_attempts(struct sqlite_link *link, int64_t session, struct bl_store_summary *summary,
                        struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows = sqlite_query(link, error,
                                      "SELECT spent_input, spent_output, cost, cost_max,"
                                      " cost_unknown FROM attempt WHERE session = ?",
                                      "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_summary_add_attempt(summary, &row);
    return code;
}

static int add_holder(struct sqlite_link *link, struct store_look *look, int64_t session,
                      struct bl_store_summary *summary, struct bl_error *error)
{
    struct store_lease lease;
    int code = sqlite_lease_read(link, &sqlite_leased_session, session, &lease, error);
    if (code == 1)
        store_summary_add_holder(summary, look, &lease);
    return code < 0 ? code : 0;
}

/* Reads the summary from the current row. */
static int read_summary(struct sqlite_link *link, struct store_look *look,
                        const struct store_row *row, struct bl_arena *arena,
                        struct bl_store_summary *ret_summary, struct bl_error *error)
{
    int64_t session = store_row_integer(row, 17);
    store_summary_read(row, arena, ret_summary);
    int code = add_attempts(link, session, ret_summary, error);
    return code != 0 ? code : add_holder(link, look, session, ret_summary, error);
}

int sqlite_list(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    struct bl_arena *arena = &look->job.output;
    int code;
    bl_list_init(&look->summaries);
    sqlite3_stmt *rows = sqlite_query(
        link, error,
        "SELECT " SUMMARY_COLUMNS " FROM session"
        " WHERE (?1 IS NULL OR directory = ?1) AND (?3 OR agent_of IS NULL)"
        " AND (?4 IS NULL OR updated < ?5 OR (updated = ?5 AND id > ?4))"
        " ORDER BY updated DESC, id LIMIT ?2",
        "siisi", look->directory,
        look->limit == 0 || look->limit > INT64_MAX ? (int64_t)-1 : (int64_t)look->limit,
        (int64_t)look->agents, look->after_id, look->after_updated_wall_ns);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1) {
        struct bl_store_summary *summary = bl_arena_alloc(arena, sizeof *summary);
        code = read_summary(link, look, &row, arena, summary, error);
        if (code != 0) {
            sqlite_free(rows);
            return code;
        }
        bl_list_push_back(&look->summaries, &summary->link);
    }
    return code;
}

/* ---- One session ---- */

static int read_turns(struct sqlite_link *link, int64_t session, struct bl_arena *arena,
                      struct store_texts *turns, struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows = sqlite_query(
        link, error, "SELECT result FROM turn WHERE session = ? ORDER BY number", "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_texts_add(turns, arena, store_row_copy(arena, &row, 0));
    return code;
}

static int read_attempts(struct sqlite_link *link, int64_t session, struct bl_arena *arena,
                         struct store_texts *attempts, struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT attempt.id, state, prompt, started, ended, result, receipt.body,"
                     " attempt.key AS position"
                     " FROM attempt LEFT JOIN receipt ON receipt.session = attempt.session AND"
                     " receipt.id = attempt.receipt WHERE attempt.session = ?1 UNION ALL"
                     " SELECT id, 'running', prompt, started, NULL, NULL, NULL,"
                     " 9223372036854775807 FROM running WHERE session = ?1 ORDER BY position",
                     "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_texts_add(attempts, arena, store_attempt_json(arena, &row));
    return code;
}

/* Reads receipts of stops that belong to no turn or attempt. */
static int sqlite_read_receipts(struct sqlite_link *link, int64_t session, struct bl_arena *arena,
                                struct store_texts *receipts, struct bl_error *error)
{
    int code;
    sqlite3_stmt *rows =
        sqlite_query(link, error,
                     "SELECT body FROM receipt WHERE session = ?1 AND id NOT IN (SELECT receipt"
                     " FROM attempt WHERE session = ?1 AND receipt IS NOT NULL) AND id NOT IN"
                     " (SELECT json_extract(result, '$.receipt.id') FROM turn WHERE session = ?1"
                     " AND json_valid(result) AND json_type(result, '$.receipt') = 'object')"
                     " ORDER BY key",
                     "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_texts_add(receipts, arena, store_row_copy(arena, &row, 0));
    return code;
}

int sqlite_show(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    struct bl_arena *arena = &look->job.output;
    struct store_texts turns = {0}, attempts = {0}, receipts = {0};
    int64_t session;
    int code = sqlite_find_session(link, look->id, &session, error);
    if (code != 0)
        return code;
    sqlite3_stmt *rows = sqlite_query(
        link, error, "SELECT " SUMMARY_COLUMNS " FROM session WHERE key = ?", "i", session);
    struct store_row row = sqlite_row(rows);
    code = sqlite_next(link, rows, error);
    if (code == 1) {
        code = read_summary(link, look, &row, arena, &look->view.summary, error);
        sqlite_free(rows);
    }
    if (code == 0 && !look->brief)
        code = read_turns(link, session, arena, &turns, error);
    if (code == 0 && !look->brief)
        code = read_attempts(link, session, arena, &attempts, error);
    if (code == 0 && !look->brief)
        code = sqlite_read_receipts(link, session, arena, &receipts, error);
    store_look_take_texts(look, &turns, &attempts, &receipts);
    return code;
}

/* Includes turns that the model does not see any more: a compaction moves the start of the context
 * and keeps the turns. */
int sqlite_turns(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    int64_t session;
    int code = sqlite_find_session(link, look->id, &session, error);
    if (code != 0)
        return code;
    bl_list_init(&look->turns);
    sqlite3_stmt *rows = sqlite_query(
        link, error, "SELECT id, interrupted, messages FROM turn WHERE session = ? ORDER BY number",
        "i", session);
    struct store_row row = sqlite_row(rows);
    while ((code = sqlite_next(link, rows, error)) == 1)
        store_look_add_turn(look, &row);
    return code;
}

int sqlite_checkpoint_get(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    int64_t session;
    int code = sqlite_find_session(link, look->id, &session, error);
    if (code != 0)
        return code;
    sqlite3_stmt *rows =
        sqlite_query(link, error, "SELECT body FROM checkpoint WHERE session = ? AND name = ?",
                     "is", session, look->name);
    struct store_row row = sqlite_row(rows);
    code = sqlite_next(link, rows, error);
    if (code == 0)
        return store_refuse_missing_checkpoint(look->id, look->name, error);
    if (code != 1)
        return code;
    look->json = store_row_copy(&look->job.output, &row, 0);
    sqlite_free(rows);
    return 0;
}

/* ---- Batches ---- */

static int run_look(struct sqlite_link *link, struct store_job *job, struct bl_error *error)
{
    void *whole = job;
    struct store_look *look = whole;
    switch (job->operation) {
    case STORE_CHECKPOINT_GET: return sqlite_checkpoint_get(link, look, error);
    case STORE_LIST: return sqlite_list(link, look, error);
    case STORE_SHOW: return sqlite_show(link, look, error);
    case STORE_CELLS_LOAD: return sqlite_cells_load(link, look, error);
    case STORE_CELL_BURIED: return sqlite_cell_buried(link, look, error);
    case STORE_FEATURE_LOAD: return sqlite_feature_load(link, whole, error);
    case STORE_FEATURE_EVENTS: return sqlite_feature_events(link, whole, error);
    case STORE_FEATURE_LIST: return sqlite_feature_list(link, whole, error);
    case STORE_TASK_GET: return sqlite_task_get(link, whole, error);
    case STORE_FIND: return sqlite_find(link, whole, error);
    case STORE_TURNS: return sqlite_turns(link, look, error);
    case STORE_EXPORT_PAGE:
    case STORE_TASK_BEGIN:
    case STORE_TASK_END:
    case STORE_TASK_SETTLE:
    case STORE_FEATURE_HOLD:
    case STORE_FEATURE_WRITE:
    case STORE_FEATURE_RELEASE:
    case STORE_HOLD:
    case STORE_RELEASE:
    case STORE_RENEW:
    case STORE_BEGIN:
    case STORE_COMMIT:
    case STORE_REJECT:
    case STORE_NOTE:
    case STORE_COMPACT:
    case STORE_CHECKPOINT_PUT:
    case STORE_CELL_ADMIT:
    case STORE_CELL_STARTED:
    case STORE_CELL_YIELD:
    case STORE_CELL_END:
    case STORE_CELL_BURY:
    case STORE_CELL_WITHDRAW:
    case STORE_CELLS_FORGET:
    case STORE_IMPORT:
    case STORE_FORK:
    case STORE_DELETE: break;
    }
    return bl_error_set(error, BL_EINVAL, BL_KIND_UNKNOWN, "store", link->path, "not a read");
}

void sqlite_read(void *state, struct bl_list *jobs)
{
    struct sqlite_store *store = state;
    BL_LIST_EACH (each, jobs) {
        struct store_job *job = BL_CONTAINER(each, struct store_job, link);
        job->code = sqlite_reader(store, &job->error);
        if (job->code == 0)
            job->code = sqlite_execute(&store->reader, "BEGIN", &job->error);
        if (job->code != 0)
            continue;
        job->code = run_look(&store->reader, job, &job->error);
        sqlite3_exec(store->reader.db, "COMMIT", NULL, NULL, NULL);
    }
}
