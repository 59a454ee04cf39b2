/* A session as lines of JSON. The walk has a connection and a read transaction of its own: it tells
 * of one moment, however slowly its lines are taken. What stands in the store as JSON is read and
 * written anew, so that a line is always one line, and what is imported is exported the same. */
#include "sqlite.h"

/* As much is put together in one step. */
#define STEP_BYTES ((size_t)256 * 1024)
#define JSON_MAX   ((size_t)1024 * 1024 * 1024)

/* What follows the header, each with its rows in order. */
enum stage {
    STAGE_TURNS,
    STAGE_ATTEMPTS,
    STAGE_EVENTS,
    STAGE_RECEIPTS,
    STAGE_CHECKPOINTS,
    STAGE_CELLS,
    STAGE_VALUES,
    STAGE_TOMBSTONES,
    STAGE_END,
    STAGE_OVER,
};

struct store_cursor {
    struct sqlite_link link;
    char *path;
    bool reading;
    bool immutable;
    char id[STORE_SESSION_ID_SIZE];
    int64_t session;
    enum stage stage;
    sqlite3_stmt *row; /* of this stage; NULL: not begun */
    uint64_t lines;
    struct bl_arena arena; /* of one value */
    struct bl_buffer *out;
    struct bl_json_writer writer;
    int code;
    struct bl_error *error;
};

/* ---- Pieces of a line ---- */

static void export_put_text(struct store_cursor *cursor, const char *key, struct bl_text text)
{
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    bl_json_write_text(&cursor->writer, text);
}

static void put_column(struct store_cursor *cursor, const char *key, int column)
{
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    if (sqlite3_column_type(cursor->row, column) == SQLITE_NULL)
        bl_json_write_null(&cursor->writer);
    else
        bl_json_write_text(&cursor->writer, sqlite_text(cursor->row, column));
}

static void put_count(struct store_cursor *cursor, const char *key, uint64_t count)
{
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    bl_json_write_uint64(&cursor->writer, count);
}

static void export_put_time(struct store_cursor *cursor, const char *key, int column)
{
    char time[32];
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    if (sqlite3_column_type(cursor->row, column) == SQLITE_NULL) {
        bl_json_write_null(&cursor->writer);
        return;
    }
    bl_time_format(sqlite3_column_int64(cursor->row, column), time);
    bl_json_write_string(&cursor->writer, time);
}

static void export_put_usage(struct store_cursor *cursor, int column)
{
    bl_json_write_key(&cursor->writer, BL_TEXT("usage"));
    bl_record_write(&cursor->writer, &bl_usage_record,
                    &(struct bl_usage){sqlite_count(cursor->row, column),
                                       sqlite_count(cursor->row, column + 1)});
}

static void export_put_spent(struct store_cursor *cursor, int column)
{
    struct bl_spent spent;
    sqlite_spent(cursor->row, column, &spent);
    bl_json_write_key(&cursor->writer, BL_TEXT("spent"));
    bl_record_write(&cursor->writer, &bl_spent_record, &spent);
}

/* `what` it is, for the error. */
static void export_put_value(struct store_cursor *cursor, const char *what, struct bl_text json)
{
    /* What cells say and store may hold halves of pairs: no text, and no reason to keep all the
     * rest from whoever wants it. */
    static const struct bl_json_limits limits = {
        .size_max = JSON_MAX, .string_max = JSON_MAX, .replace_surrogates = true};
    const struct bl_json *value;
    bl_arena_reset(&cursor->arena);
    if (bl_json_read(&cursor->arena, json, &limits, &value, NULL) == 0) {
        bl_json_write_value(&cursor->writer, value);
        return;
    }
    bl_json_write_null(&cursor->writer);
    cursor->code =
        bl_error_set(cursor->error, BL_EPARSE, BL_KIND_SESSION, "export", cursor->id,
                     "session %s cannot be exported: a %s in it is damaged", cursor->id, what);
}

static void put_json(struct store_cursor *cursor, const char *key, struct bl_text json)
{
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    export_put_value(cursor, key, json);
}

static void put_json_column(struct store_cursor *cursor, const char *key, int column)
{
    if (sqlite3_column_type(cursor->row, column) != SQLITE_NULL) {
        put_json(cursor, key, sqlite_text(cursor->row, column));
        return;
    }
    bl_json_write_key(&cursor->writer, bl_text_from(key));
    bl_json_write_null(&cursor->writer);
}

static void begin_line(struct store_cursor *cursor, const char *type)
{
    bl_json_writer_init(&cursor->writer, cursor->out);
    bl_json_write_object(&cursor->writer);
    export_put_text(cursor, "type", bl_text_from(type));
}

static void export_end_line(struct store_cursor *cursor)
{
    bl_json_write_end(&cursor->writer);
    int code = bl_json_writer_done(&cursor->writer);
    if (code == 0)
        code = bl_buffer_append_byte(cursor->out, '\n');
    if (code != 0)
        cursor->code = bl_error_set(cursor->error, code, BL_KIND_SESSION, "export", cursor->id,
                                    "session %s has a line too large to export", cursor->id);
    cursor->lines++;
}

/* ---- Lines ---- */

static void export_put_turn(struct store_cursor *cursor)
{
    begin_line(cursor, "turn");
    put_count(cursor, "number", sqlite_count(cursor->row, 0));
    put_column(cursor, "id", 1);
    put_column(cursor, "run", 2);
    bl_json_put_boolean(&cursor->writer, "interrupted", sqlite3_column_int(cursor->row, 3) != 0);
    export_put_time(cursor, "ended_at", 4);
    export_put_usage(cursor, 5);
    export_put_spent(cursor, 7);
    put_json_column(cursor, "result", 12);
    put_json_column(cursor, "messages", 13);
    bl_json_write_key(&cursor->writer, BL_TEXT("events"));
    bl_json_write_array(&cursor->writer);
    struct bl_text rest = sqlite_text(cursor->row, 14), line;
    while (cursor->code == 0 && bl_text_split(&rest, '\n', &line))
        export_put_value(cursor, "event", line);
    bl_json_write_end(&cursor->writer);
    export_end_line(cursor);
}

static void put_attempt(struct store_cursor *cursor)
{
    begin_line(cursor, "attempt");
    put_column(cursor, "id", 0);
    put_column(cursor, "run", 1);
    put_column(cursor, "state", 2);
    export_put_time(cursor, "started_at", 3);
    export_put_time(cursor, "ended_at", 4);
    export_put_spent(cursor, 5);
    put_column(cursor, "receipt", 10);
    put_column(cursor, "prompt", 11);
    put_json_column(cursor, "result", 12);
    export_end_line(cursor);
}

static void put_events(struct store_cursor *cursor)
{
    struct bl_text rest = sqlite_text(cursor->row, 1), line;
    while (cursor->code == 0 && bl_text_split(&rest, '\n', &line)) {
        begin_line(cursor, "event");
        put_column(cursor, "run", 0);
        put_json(cursor, "event", line);
        export_end_line(cursor);
    }
}

static void export_put_receipt(struct store_cursor *cursor)
{
    begin_line(cursor, "receipt");
    put_column(cursor, "id", 0);
    put_json_column(cursor, "receipt", 1);
    export_end_line(cursor);
}

static void export_put_checkpoint(struct store_cursor *cursor)
{
    begin_line(cursor, "checkpoint");
    put_column(cursor, "name", 0);
    put_json_column(cursor, "checkpoint", 1);
    export_end_line(cursor);
}

static void export_put_cell(struct store_cursor *cursor)
{
    begin_line(cursor, "cell");
    put_column(cursor, "id", 0);
    put_column(cursor, "digest", 1);
    export_put_time(cursor, "created_at", 2);
    export_put_time(cursor, "ended_at", 3);
    put_count(cursor, "deadline_ms", sqlite_count(cursor->row, 4));
    put_count(cursor, "generation", sqlite_count(cursor->row, 5));
    bl_json_put_boolean(&cursor->writer, "completed", sqlite3_column_int(cursor->row, 6) != 0);
    put_json_column(cursor, "outcome", 7);
    put_count(cursor, "yielded_generation", sqlite_count(cursor->row, 8));
    put_json_column(cursor, "yielded", 9);
    export_end_line(cursor);
}

static void put_cell_value(struct store_cursor *cursor)
{
    begin_line(cursor, "cell_value");
    put_column(cursor, "key", 0);
    put_json_column(cursor, "value", 1);
    export_end_line(cursor);
}

static void put_tombstone(struct store_cursor *cursor)
{
    begin_line(cursor, "cell_tombstone");
    put_column(cursor, "id", 0);
    put_column(cursor, "digest", 1);
    export_put_time(cursor, "buried_at", 2);
    export_end_line(cursor);
}

static int put_header(struct store_cursor *cursor)
{
    cursor->row = sqlite_query(&cursor->link, cursor->error,
                               "SELECT directory, title, parent, created, updated, turns_total,"
                               " context_from, input, output, spent_input, spent_output, cost,"
                               " cost_max, cost_unknown, agent_of, agent_turn, persona,"
                               " (SELECT messages FROM summary WHERE session = key)"
                               " FROM session WHERE key = ?",
                               "i", cursor->session);
    int code = sqlite_next(&cursor->link, cursor->row, cursor->error);
    if (code != 1)
        return code == 0 ? BL_ENOENT : code;
    begin_line(cursor, "session");
    put_count(cursor, "schema", 1);
    export_put_text(cursor, "id", bl_text_from(cursor->id));
    put_column(cursor, "directory", 0);
    put_column(cursor, "title", 1);
    put_column(cursor, "parent", 2);
    export_put_time(cursor, "created_at", 3);
    export_put_time(cursor, "updated_at", 4);
    put_count(cursor, "turns", sqlite_count(cursor->row, 5));
    put_count(cursor, "context_from", sqlite_count(cursor->row, 6));
    export_put_usage(cursor, 7);
    export_put_spent(cursor, 9);
    put_column(cursor, "agent_of", 14);
    put_column(cursor, "agent_turn", 15);
    put_column(cursor, "persona", 16);
    put_json_column(cursor, "summary", 17);
    export_end_line(cursor);
    sqlite_free(cursor->row);
    cursor->row = NULL;
    return cursor->code;
}

static const struct {
    const char *sql;
    void (*put)(struct store_cursor *cursor);
} stages[] = {
    [STAGE_TURNS] = {"SELECT number, id, run, interrupted, ended, input, output, spent_input,"
                     " spent_output, cost, cost_max, cost_unknown, result, messages, events"
                     " FROM turn WHERE session = ? ORDER BY number",
                     export_put_turn},
    [STAGE_ATTEMPTS] = {"SELECT id, run, state, started, ended, spent_input, spent_output, cost,"
                        " cost_max, cost_unknown, receipt, prompt, result FROM attempt"
                        " WHERE session = ? ORDER BY key",
                        put_attempt},
    [STAGE_EVENTS] = {"SELECT run, lines FROM journal WHERE session = ? ORDER BY key", put_events},
    [STAGE_RECEIPTS] = {"SELECT id, body FROM receipt WHERE session = ? ORDER BY key",
                        export_put_receipt},
    [STAGE_CHECKPOINTS] = {"SELECT name, body FROM checkpoint WHERE session = ? ORDER BY name",
                           export_put_checkpoint},
    /* One that has not ended is no history yet, as a turn that is under way. */
    [STAGE_CELLS] =
        {"SELECT id, lower(hex(digest)), created, ended, deadline_ms, generation, completed,"
         " terminal, yielded_generation, yielded FROM cell WHERE key IN"
         " (SELECT key FROM cell WHERE session = ? AND terminal IS NOT NULL)"
         " ORDER BY key",
         export_put_cell},
    [STAGE_VALUES] = {"SELECT name, body FROM cell_value WHERE key IN"
                      " (SELECT key FROM cell_value WHERE session = ?) ORDER BY key",
                      put_cell_value},
    [STAGE_TOMBSTONES] =
        {"SELECT id, lower(hex(digest)), buried FROM cell_tombstone WHERE session = ?"
         " ORDER BY key",
         put_tombstone},
};

/* One row, or the step to the next stage. */
static int export_put_next(struct store_cursor *cursor)
{
    if (cursor->stage == STAGE_END) {
        uint64_t lines = cursor->lines;
        begin_line(cursor, "end");
        put_count(cursor, "lines", lines);
        export_end_line(cursor);
        cursor->stage = STAGE_OVER;
        return cursor->code;
    }
    if (cursor->row == NULL)
        cursor->row = sqlite_query(&cursor->link, cursor->error, stages[cursor->stage].sql, "i",
                                   cursor->session);
    int code = sqlite_next(&cursor->link, cursor->row, cursor->error);
    if (code == 1) {
        stages[cursor->stage].put(cursor);
        return cursor->code;
    }
    cursor->row = NULL;
    cursor->stage++;
    return code;
}

static int begin_walk(struct store_cursor *cursor)
{
    int code = sqlite_link_open(&cursor->link, cursor->path,
                                cursor->reading ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE,
                                cursor->immutable, cursor->error);
    if (code == 0)
        code = sqlite_execute(&cursor->link, "PRAGMA query_only = 1; BEGIN", cursor->error);
    if (code == 0)
        code = sqlite_find_session(&cursor->link, cursor->id, &cursor->session, cursor->error);
    return code == 0 ? put_header(cursor) : code;
}

int sqlite_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error)
{
    int code = 0;
    cursor->out = out;
    cursor->error = error;
    if (cursor->lines == 0)
        code = begin_walk(cursor);
    while (code == 0 && cursor->stage != STAGE_OVER && out->size < STEP_BYTES)
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
    bl_text_into(cursor->id, sizeof cursor->id, id);
    return cursor;
}

void sqlite_export_free(struct store_cursor *cursor)
{
    if (cursor == NULL)
        return;
    sqlite_link_close(&cursor->link);
    bl_arena_done(&cursor->arena);
    bl_free(cursor->path);
    bl_free(cursor);
}
