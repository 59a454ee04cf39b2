/* Exports a session as lines of JSON, from the rows of any form of storage. JSON from the store is
 * parsed and written again, so that each line is one line, and an import is exported unchanged. */
#include "form.h"

/* Size of the output of one step. */
#define STEP_BYTES ((size_t)256 * 1024)
#define JSON_MAX   ((size_t)1024 * 1024 * 1024)

/* ---- Parts of a line ---- */

/* Returns a string, or NULL for null. */
static const char *export_string(struct store_export *export, int column)
{
    return store_row_string(&export->arena, export->row, column);
}

static int64_t export_time(const struct store_export *export, int column)
{
    return store_row_time(export->row, column);
}

static const struct bl_usage *export_usage(struct store_export *export, int column)
{
    export->usage = store_row_usage(export->row, column);
    return &export->usage;
}

static const struct bl_spent *export_spent(struct store_export *export, int column)
{
    export->spent = store_row_spent(export->row, column);
    return &export->spent;
}

/* Parses a JSON value; `what` names it in the error. */
static const struct bl_json *export_value(struct store_export *export, const char *what,
                                          struct bl_text json)
{
    /* Outcomes and values of cells may contain unpaired surrogates, which are not valid text. They
     * must not prevent the export of the rest. */
    static const struct bl_json_limits limits = {
        .size_max = JSON_MAX, .string_max = JSON_MAX, .replace_surrogates = true};
    const struct bl_json *value;
    if (bl_json_read(&export->arena, json, &limits, &value, NULL) == 0)
        return value;
    export->code = bl_error_set(export->error, BL_EPARSE, BL_KIND_SESSION, "export", export->id,
                                "cannot export session %s: a damaged %s", export->id, what);
    return NULL;
}

/* Returns a JSON value, or NULL for null. */
static const struct bl_json *export_json(struct store_export *export, const char *what, int column)
{
    return store_row_null(export->row, column)
               ? NULL
               : export_value(export, what, store_row_text(export->row, column));
}

static struct store_line *export_begin_line(struct store_export *export, enum store_line_type type)
{
    bl_arena_reset(&export->arena);
    export->line = (struct store_line){.type = type};
    return &export->line;
}

static void export_end_line(struct store_export *export)
{
    struct bl_json_writer writer;
    if (export->code != 0)
        return;
    bl_json_writer_init(&writer, export->out);
    bl_record_write(&writer, &bl_store_line_record, &export->line);
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        code = bl_buffer_append_byte(export->out, '\n');
    if (code != 0)
        export->code = bl_error_set(export->error, code, BL_KIND_SESSION, "export", export->id,
                                    "session %s has a line too large to export", export->id);
    export->lines++;
}

/* Returns bytes as hexadecimal digits. */
static const char *export_digits(struct store_export *export, int column)
{
    static const char digits[] = "0123456789abcdef";
    struct bl_text bytes = store_row_text(export->row, column);
    char *text = bl_arena_alloc(&export->arena, 2 * bytes.size + 1);
    for (size_t i = 0; i < bytes.size; i++) {
        text[2 * i] = digits[(unsigned char)bytes.data[i] >> 4];
        text[2 * i + 1] = digits[(unsigned char)bytes.data[i] & 15];
    }
    text[2 * bytes.size] = '\0';
    return text;
}

/* ---- Lines ---- */

/* Columns: directory, title, parent, created, updated, turns_total, context_from, input, output,
 * spent (5 columns), agent_of, agent_turn, persona, messages of the summary. */
static void export_put_session(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_SESSION);
    line->schema = STORE_LINE_SCHEMA;
    line->id = export->id;
    line->directory = export_string(export, 0);
    line->title = export_string(export, 1);
    line->parent = export_string(export, 2);
    line->created_wall_ns = export_time(export, 3);
    line->updated_wall_ns = export_time(export, 4);
    line->turns = store_row_count(export->row, 5);
    line->context_from = store_row_count(export->row, 6);
    line->usage = export_usage(export, 7);
    line->spent = export_spent(export, 9);
    line->agent_of = export_string(export, 14);
    line->agent_turn = export_string(export, 15);
    line->persona = export_string(export, 16);
    line->json = export_json(export, "summary", 17);
    export_end_line(export);
}

static void export_take_events(struct store_export *export, struct bl_text lines)
{
    struct store_line *line = &export->line;
    const struct bl_json **events;
    struct bl_text rest = lines, event;
    while (bl_text_split(&rest, '\n', &event))
        line->event_count++;
    line->events = events =
        bl_arena_alloc(&export->arena, line->event_count * sizeof(struct bl_json *));
    while (export->code == 0 && bl_text_split(&lines, '\n', &event))
        *events++ = export_value(export, "event", event);
}

/* Columns: number, id, run, interrupted, ended, input, output, spent (5 columns), result,
 * messages, events. */
static void export_put_turn(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_TURN);
    line->number = store_row_count(export->row, 0);
    line->id = export_string(export, 1);
    line->run = export_string(export, 2);
    line->interrupted = store_row_flag(export->row, 3);
    line->ended_wall_ns = export_time(export, 4);
    line->usage = export_usage(export, 5);
    line->spent = export_spent(export, 7);
    line->json = export_json(export, "result", 12);
    line->messages = export_json(export, "messages", 13);
    export_take_events(export, store_row_text(export->row, 14));
    export_end_line(export);
}

/* Columns: id, run, state, started, ended, spent (5 columns), receipt, prompt, result. */
static void export_put_attempt(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_ATTEMPT);
    line->id = export_string(export, 0);
    line->run = export_string(export, 1);
    line->state = export_string(export, 2);
    line->started_wall_ns = export_time(export, 3);
    line->ended_wall_ns = export_time(export, 4);
    line->spent = export_spent(export, 5);
    line->receipt = export_string(export, 10);
    line->text = store_row_text(export->row, 11);
    line->json = export_json(export, "result", 12);
    export_end_line(export);
}

/* Columns: run, lines. */
static void export_put_events(struct store_export *export)
{
    struct bl_text rest = store_row_text(export->row, 1), event;
    while (export->code == 0 && bl_text_split(&rest, '\n', &event)) {
        struct store_line *line = export_begin_line(export, STORE_LINE_EVENT);
        line->run = export_string(export, 0);
        line->json = export_value(export, "event", event);
        export_end_line(export);
    }
}

/* Columns: id, body. */
static void export_put_receipt(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_RECEIPT);
    line->id = export_string(export, 0);
    line->json = export_json(export, "receipt", 1);
    export_end_line(export);
}

/* Columns: name, body. */
static void export_put_checkpoint(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_CHECKPOINT);
    line->id = export_string(export, 0);
    line->json = export_json(export, "checkpoint", 1);
    export_end_line(export);
}

/* Columns: id, digest, created, ended, deadline_ms, generation, completed, terminal,
 * yielded_generation, yielded. */
static void export_put_cell(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_CELL);
    line->id = export_string(export, 0);
    line->digest = export_digits(export, 1);
    line->created_wall_ns = export_time(export, 2);
    line->ended_wall_ns = export_time(export, 3);
    line->deadline_ms = store_row_count(export->row, 4);
    line->generation = store_row_count(export->row, 5);
    line->completed = store_row_flag(export->row, 6);
    line->json = export_json(export, "outcome", 7);
    line->yielded_generation = store_row_count(export->row, 8);
    line->yielded = export_json(export, "yielded", 9);
    export_end_line(export);
}

/* Columns: name, body. */
static void export_put_value(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_CELL_VALUE);
    line->text = store_row_text(export->row, 0);
    line->json = export_json(export, "value", 1);
    export_end_line(export);
}

/* Columns: id, digest, buried. */
static void export_put_tombstone(struct store_export *export)
{
    struct store_line *line = export_begin_line(export, STORE_LINE_TOMBSTONE);
    line->id = export_string(export, 0);
    line->digest = export_digits(export, 1);
    line->ended_wall_ns = export_time(export, 2);
    export_end_line(export);
}

static void export_put_end(struct store_export *export)
{
    export_begin_line(export, STORE_LINE_END)->number = export->lines;
    export_end_line(export);
}

int store_export_put(struct store_export *export, enum store_line_type type,
                     const struct store_row *row)
{
    static void (*const puts[])(struct store_export * export) = {
        [STORE_LINE_SESSION] = export_put_session,
        [STORE_LINE_TURN] = export_put_turn,
        [STORE_LINE_ATTEMPT] = export_put_attempt,
        [STORE_LINE_EVENT] = export_put_events,
        [STORE_LINE_RECEIPT] = export_put_receipt,
        [STORE_LINE_CHECKPOINT] = export_put_checkpoint,
        [STORE_LINE_CELL] = export_put_cell,
        [STORE_LINE_CELL_VALUE] = export_put_value,
        [STORE_LINE_TOMBSTONE] = export_put_tombstone,
        [STORE_LINE_END] = export_put_end,
    };
    export->row = row;
    puts[type](export);
    return export->code;
}

/* ---- The walk ---- */

void store_export_init(struct store_export *export, const char *id)
{
    *export = (struct store_export){.lines = 0};
    bl_text_into(export->id, sizeof export->id, id);
}

void store_export_done(struct store_export *export)
{
    bl_arena_done(&export->arena);
}

void store_export_step(struct store_export *export, struct bl_buffer *out, struct bl_error *error)
{
    export->out = out;
    export->error = error;
}

bool store_export_full(const struct store_export *export)
{
    return export->out->size >= STEP_BYTES;
}
