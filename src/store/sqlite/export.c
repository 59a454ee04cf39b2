/* Exports a session as lines of JSON. The walk has its own connection and read transaction, so it
 * shows one moment however slowly its lines are read. JSON from the store is parsed and written
 * again, so that each line is one line, and an import is exported unchanged. */
#include "sqlite.h"

/* Size of the output of one step. */
#define STEP_BYTES ((size_t)256 * 1024)
#define JSON_MAX   ((size_t)1024 * 1024 * 1024)

/* The parts after the header, each with its rows in order. */
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
    sqlite3_stmt *rows; /* of this stage; NULL: not started */
    struct store_row row;
    uint64_t lines;
    struct bl_arena arena; /* for one line */
    struct store_line line;
    struct bl_usage usage;
    struct bl_spent spent;
    struct bl_buffer *out;
    int code;
    struct bl_error *error;
};

/* ---- Parts of a line ---- */

/* Returns a string, or NULL for null. */
static const char *export_string(struct store_cursor *cursor, int column)
{
    return store_row_string(&cursor->arena, &cursor->row, column);
}

static int64_t export_time(const struct store_cursor *cursor, int column)
{
    return store_row_time(&cursor->row, column);
}

static const struct bl_usage *export_usage(struct store_cursor *cursor, int column)
{
    cursor->usage = store_row_usage(&cursor->row, column);
    return &cursor->usage;
}

static const struct bl_spent *export_spent(struct store_cursor *cursor, int column)
{
    cursor->spent = store_row_spent(&cursor->row, column);
    return &cursor->spent;
}

/* Parses a JSON value; `what` names it in the error. */
static const struct bl_json *export_value(struct store_cursor *cursor, const char *what,
                                          struct bl_text json)
{
    /* Outcomes and values of cells may contain unpaired surrogates, which are not valid text. They
     * must not prevent the export of the rest. */
    static const struct bl_json_limits limits = {
        .size_max = JSON_MAX, .string_max = JSON_MAX, .replace_surrogates = true};
    const struct bl_json *value;
    if (bl_json_read(&cursor->arena, json, &limits, &value, NULL) == 0)
        return value;
    cursor->code = bl_error_set(cursor->error, BL_EPARSE, BL_KIND_SESSION, "export", cursor->id,
                                "cannot export session %s: a damaged %s", cursor->id, what);
    return NULL;
}

/* Returns a JSON value, or NULL for null. */
static const struct bl_json *export_json(struct store_cursor *cursor, const char *what, int column)
{
    return store_row_null(&cursor->row, column)
               ? NULL
               : export_value(cursor, what, store_row_text(&cursor->row, column));
}

static struct store_line *begin_line(struct store_cursor *cursor, enum store_line_type type)
{
    bl_arena_reset(&cursor->arena);
    cursor->line = (struct store_line){.type = type};
    return &cursor->line;
}

static void export_end_line(struct store_cursor *cursor)
{
    struct bl_json_writer writer;
    if (cursor->code != 0)
        return;
    bl_json_writer_init(&writer, cursor->out);
    bl_record_write(&writer, &bl_store_line_record, &cursor->line);
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        code = bl_buffer_append_byte(cursor->out, '\n');
    if (code != 0)
        cursor->code = bl_error_set(cursor->error, code, BL_KIND_SESSION, "export", cursor->id,
                                    "session %s has a line too large to export", cursor->id);
    cursor->lines++;
}

/* ---- Lines ---- */

static void export_take_events(struct store_cursor *cursor, struct bl_text lines)
{
    struct store_line *line = &cursor->line;
    const struct bl_json **events;
    struct bl_text rest = lines, event;
    while (bl_text_split(&rest, '\n', &event))
        line->event_count++;
    line->events = events =
        bl_arena_alloc(&cursor->arena, line->event_count * sizeof(struct bl_json *));
    while (cursor->code == 0 && bl_text_split(&lines, '\n', &event))
        *events++ = export_value(cursor, "event", event);
}

static void export_put_turn(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_TURN);
    line->number = store_row_count(&cursor->row, 0);
    line->id = export_string(cursor, 1);
    line->run = export_string(cursor, 2);
    line->interrupted = store_row_flag(&cursor->row, 3);
    line->ended_wall_ns = export_time(cursor, 4);
    line->usage = export_usage(cursor, 5);
    line->spent = export_spent(cursor, 7);
    line->json = export_json(cursor, "result", 12);
    line->messages = export_json(cursor, "messages", 13);
    export_take_events(cursor, store_row_text(&cursor->row, 14));
    export_end_line(cursor);
}

static void put_attempt(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_ATTEMPT);
    line->id = export_string(cursor, 0);
    line->run = export_string(cursor, 1);
    line->state = export_string(cursor, 2);
    line->started_wall_ns = export_time(cursor, 3);
    line->ended_wall_ns = export_time(cursor, 4);
    line->spent = export_spent(cursor, 5);
    line->receipt = export_string(cursor, 10);
    line->text = store_row_text(&cursor->row, 11);
    line->json = export_json(cursor, "result", 12);
    export_end_line(cursor);
}

static void put_events(struct store_cursor *cursor)
{
    struct bl_text rest = store_row_text(&cursor->row, 1), event;
    while (cursor->code == 0 && bl_text_split(&rest, '\n', &event)) {
        struct store_line *line = begin_line(cursor, STORE_LINE_EVENT);
        line->run = export_string(cursor, 0);
        line->json = export_value(cursor, "event", event);
        export_end_line(cursor);
    }
}

static void export_put_receipt(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_RECEIPT);
    line->id = export_string(cursor, 0);
    line->json = export_json(cursor, "receipt", 1);
    export_end_line(cursor);
}

static void export_put_checkpoint(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_CHECKPOINT);
    line->id = export_string(cursor, 0);
    line->json = export_json(cursor, "checkpoint", 1);
    export_end_line(cursor);
}

static void export_put_cell(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_CELL);
    line->id = export_string(cursor, 0);
    line->digest = export_string(cursor, 1);
    line->created_wall_ns = export_time(cursor, 2);
    line->ended_wall_ns = export_time(cursor, 3);
    line->deadline_ms = store_row_count(&cursor->row, 4);
    line->generation = store_row_count(&cursor->row, 5);
    line->completed = store_row_flag(&cursor->row, 6);
    line->json = export_json(cursor, "outcome", 7);
    line->yielded_generation = store_row_count(&cursor->row, 8);
    line->yielded = export_json(cursor, "yielded", 9);
    export_end_line(cursor);
}

static void put_cell_value(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_CELL_VALUE);
    line->text = store_row_text(&cursor->row, 0);
    line->json = export_json(cursor, "value", 1);
    export_end_line(cursor);
}

static void put_tombstone(struct store_cursor *cursor)
{
    struct store_line *line = begin_line(cursor, STORE_LINE_TOMBSTONE);
    line->id = export_string(cursor, 0);
    line->digest = export_string(cursor, 1);
    line->ended_wall_ns = export_time(cursor, 2);
    export_end_line(cursor);
}

static int put_header(struct store_cursor *cursor)
{
    cursor->rows = sqlite_query(&cursor->link, cursor->error,
                                "SELECT directory, title, parent, created, updated, turns_total,"
                                " context_from, input, output, spent_input, spent_output, cost,"
                                " cost_max, cost_unknown, agent_of, agent_turn, persona,"
                                " (SELECT messages FROM summary WHERE session = key)"
                                " FROM session WHERE key = ?",
                                "i", cursor->session);
    cursor->row = sqlite_row(cursor->rows);
    int code = sqlite_next(&cursor->link, cursor->rows, cursor->error);
    if (code != 1)
        return code == 0 ? BL_ENOENT : code;
    struct store_line *line = begin_line(cursor, STORE_LINE_SESSION);
    line->schema = STORE_LINE_SCHEMA;
    line->id = cursor->id;
    line->directory = export_string(cursor, 0);
    line->title = export_string(cursor, 1);
    line->parent = export_string(cursor, 2);
    line->created_wall_ns = export_time(cursor, 3);
    line->updated_wall_ns = export_time(cursor, 4);
    line->turns = store_row_count(&cursor->row, 5);
    line->context_from = store_row_count(&cursor->row, 6);
    line->usage = export_usage(cursor, 7);
    line->spent = export_spent(cursor, 9);
    line->agent_of = export_string(cursor, 14);
    line->agent_turn = export_string(cursor, 15);
    line->persona = export_string(cursor, 16);
    line->json = export_json(cursor, "summary", 17);
    export_end_line(cursor);
    sqlite_free(cursor->rows);
    cursor->rows = NULL;
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
    /* A cell that has not ended is not part of the history yet, like a running turn. */
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

/* Exports one row, or moves to the next stage. */
static int export_put_next(struct store_cursor *cursor)
{
    if (cursor->stage == STAGE_END) {
        begin_line(cursor, STORE_LINE_END)->number = cursor->lines;
        export_end_line(cursor);
        cursor->stage = STAGE_OVER;
        return cursor->code;
    }
    if (cursor->rows == NULL)
        cursor->rows = sqlite_query(&cursor->link, cursor->error, stages[cursor->stage].sql, "i",
                                    cursor->session);
    cursor->row = sqlite_row(cursor->rows);
    int code = sqlite_next(&cursor->link, cursor->rows, cursor->error);
    if (code == 1) {
        stages[cursor->stage].put(cursor);
        return cursor->code;
    }
    cursor->rows = NULL;
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
