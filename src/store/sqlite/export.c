/* Exports a session. The walk has its own connection and read transaction, so it shows one moment
 * however slowly its lines are read. */
#include "sqlite.h"

struct store_cursor {
    struct sqlite_link link; /* open from the first step on */
    char *path;
    bool reading;
    bool immutable;
    int64_t session;
    enum store_line_type type; /* of the lines of `rows` */
    sqlite3_stmt *rows;        /* NULL: not started */
    bool over;
    struct store_export export;
};

static const char *const export_statements[] = {
    [STORE_LINE_SESSION] = "SELECT directory, title, parent, created, updated, turns_total,"
                           " context_from, input, output, spent_input, spent_output, cost,"
                           " cost_max, cost_unknown, agent_of, agent_turn, persona,"
                           " (SELECT messages FROM summary WHERE session = key)"
                           " FROM session WHERE key = ?",
    [STORE_LINE_TURN] = "SELECT number, id, run, interrupted, ended, input, output, spent_input,"
                        " spent_output, cost, cost_max, cost_unknown, result, messages, events"
                        " FROM turn WHERE session = ? ORDER BY number",
    [STORE_LINE_ATTEMPT] = "SELECT id, run, state, started, ended, spent_input, spent_output, cost,"
                           " cost_max, cost_unknown, receipt, prompt, result FROM attempt"
                           " WHERE session = ? ORDER BY key",
    [STORE_LINE_EVENT] = "SELECT run, lines FROM journal WHERE session = ? ORDER BY key",
    [STORE_LINE_RECEIPT] = "SELECT id, body FROM receipt WHERE session = ? ORDER BY key",
    [STORE_LINE_CHECKPOINT] = "SELECT name, body FROM checkpoint WHERE session = ? ORDER BY name",
    /* A cell that has not ended is not part of the history yet, like a running turn. */
    [STORE_LINE_CELL] = "SELECT id, digest, created, ended, deadline_ms, generation, completed,"
                        " terminal, yielded_generation, yielded FROM cell WHERE key IN"
                        " (SELECT key FROM cell WHERE session = ? AND terminal IS NOT NULL)"
                        " ORDER BY key",
    [STORE_LINE_CELL_VALUE] = "SELECT name, body FROM cell_value WHERE key IN"
                              " (SELECT key FROM cell_value WHERE session = ?) ORDER BY key",
    [STORE_LINE_TOMBSTONE] = "SELECT id, digest, buried FROM cell_tombstone WHERE session = ?"
                             " ORDER BY key",
};

/* Exports one row, or moves to the next type of lines. */
static int export_put_next(struct store_cursor *cursor)
{
    struct store_export *export = &cursor->export;
    if (cursor->type == STORE_LINE_END) {
        cursor->over = true;
        return store_export_put(export, STORE_LINE_END, NULL);
    }
    if (cursor->rows == NULL)
        cursor->rows = sqlite_query(&cursor->link, export->error, export_statements[cursor->type],
                                    "i", cursor->session);
    struct store_row row = sqlite_row(cursor->rows);
    int code = sqlite_next(&cursor->link, cursor->rows, export->error);
    if (code == 1)
        return store_export_put(export, cursor->type, &row);
    cursor->rows = NULL;
    cursor->type++;
    return code;
}

static int begin_walk(struct store_cursor *cursor)
{
    int code = sqlite_link_open(&cursor->link, cursor->path,
                                cursor->reading ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE,
                                cursor->immutable, cursor->export.error);
    if (code == 0)
        code = sqlite_execute(&cursor->link, "PRAGMA query_only = 1; BEGIN", cursor->export.error);
    if (code == 0)
        code = sqlite_find_session(&cursor->link, cursor->export.id, &cursor->session,
                                   cursor->export.error);
    return code;
}

int sqlite_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error)
{
    int code = 0;
    store_export_step(&cursor->export, out, error);
    if (cursor->link.db == NULL)
        code = begin_walk(cursor);
    while (code == 0 && !cursor->over && !store_export_full(&cursor->export))
        code = export_put_next(cursor);
    return code;
}

struct store_cursor *sqlite_export_new(const void *state, const char *id)
{
    const struct sqlite_store *store = state;
    struct store_cursor *cursor = bl_zalloc(sizeof *cursor);
    size_t size = strlen(store->path) + 1;
    cursor->path = bl_alloc(size);
    memcpy(cursor->path, store->path, size);
    cursor->reading = store->reading;
    cursor->immutable = store->immutable;
    store_export_init(&cursor->export, id);
    return cursor;
}

void sqlite_export_free(struct store_cursor *cursor)
{
    if (cursor == NULL)
        return;
    sqlite_link_close(&cursor->link);
    store_export_done(&cursor->export);
    bl_free(cursor->path);
    bl_free(cursor);
}
