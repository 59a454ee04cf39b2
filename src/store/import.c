/* Imports a session from lines of JSON, as export.c writes them. The same code processes the lines
 * twice: first without a sink, so that errors are found before the import blocks other writers, and
 * then to pass each line on to the form of storage. */
#include <stdio.h>

#include "form.h"

#define JSON_MAX    ((size_t)1024 * 1024 * 1024)
#define CHUNK_BYTES ((size_t)64 * 1024)

struct import {
    const struct store_sink *sink; /* NULL: only check */
    void *context;                 /* of the sink */
    struct store_look *look;       /* NULL: only check */
    struct bl_error *error;
    int code;
    uint64_t line;         /* number of the current line, from 1 */
    struct bl_arena arena; /* for one line */
    struct store_line at;  /* the current line */
    struct bl_buffer text; /* one of its values as text */
    struct bl_map seen;    /* what may occur only once */
    uint64_t turns;        /* so far */
    uint64_t turns_due;    /* number in the header */
    bool counted;          /* the header contains usage and spending; otherwise they are summed over
                           the turns */
    struct bl_usage usage;
    struct bl_spent spent;
    bool ended;
    struct bl_buffer events; /* of `run`, not in the store yet */
    char run[STORE_SESSION_ID_SIZE];
};

static int import_refuse(struct import *import, const char *what)
{
    if (import->code == 0) {
        import->code = BL_EPARSE;
        bl_error_set(import->error, BL_EPARSE, BL_KIND_PARSE, "import", NULL, "line %llu: %s",
                     (unsigned long long)import->line, what);
        bl_error_hint(import->error, "nothing was imported; export the session again");
    }
    return import->code;
}

static void import_keep(struct import *import, int code)
{
    if (code < 0 && import->code == 0)
        import->code = code;
}

/* ---- Values of a line ---- */

/* Returns a value of the line as text, valid until the next call. */
static struct bl_text import_json(struct import *import, const struct bl_json *value)
{
    struct bl_json_writer writer;
    bl_buffer_clear(&import->text);
    bl_json_writer_init(&writer, &import->text);
    bl_json_write_value(&writer, value);
    if (bl_json_writer_done(&writer) != 0)
        import_refuse(import, "a value is too large or too deeply nested");
    return bl_buffer_text(&import->text);
}

/* Returns messages as text in the arena; `what` names their member in errors. */
static struct bl_text import_messages(struct import *import, const char *what,
                                      const struct bl_json *messages)
{
    struct bl_list list;
    char why[64];
    struct bl_text text = bl_arena_text(&import->arena, import_json(import, messages));
    bl_list_init(&list);
    if (import->code == 0 && bl_messages_read(&import->arena, text, &list) != 0) {
        snprintf(why, sizeof why, "%s: not a list of messages", what);
        import_refuse(import, why);
    }
    return text;
}

/* Returns the events as lines, valid until the next value. */
static struct bl_text import_events(struct import *import)
{
    struct bl_json_writer writer;
    bl_buffer_clear(&import->text);
    for (size_t i = 0; i < import->at.event_count; i++) {
        bl_json_writer_init(&writer, &import->text);
        bl_json_write_value(&writer, import->at.events[i]);
        if (bl_json_writer_done(&writer) != 0 || bl_buffer_append_byte(&import->text, '\n') != 0)
            import_refuse(import, "a value is too large or too deeply nested");
    }
    return bl_buffer_text(&import->text);
}

static void import_once(struct import *import, const char *type, const char *id)
{
    struct bl_text key = bl_arena_printf(&import->arena, "%s %s", type, id);
    if (bl_map_has(&import->seen, key))
        import_refuse(import, "duplicate id");
    else
        bl_map_set(&import->seen, key, import, NULL);
}

/* ---- Lines ---- */

/* True if the line can be passed on to the sink. */
static bool import_writes(const struct import *import)
{
    return import->code == 0 && import->sink != NULL;
}

static void import_check_session(struct import *import)
{
    const struct store_line *line = &import->at;
    if (line->schema != STORE_LINE_SCHEMA)
        import_refuse(import, "unsupported schema (expected 1)");
    if (line->context_from > line->turns + 1)
        import_refuse(import, "context_from: outside the turns");
    if ((line->usage != NULL) != (line->spent != NULL))
        import_refuse(import, "usage and spent: only one is present");
    import->turns_due = line->turns;
    import->counted = line->usage != NULL && line->spent != NULL;
    if (import->counted) {
        import->usage = *line->usage;
        import->spent = *line->spent;
    }
}

static void import_take_session(struct import *import)
{
    const struct store_line *line = &import->at;
    struct bl_text summary = {0};
    import_check_session(import);
    if (line->json != NULL)
        summary = import_messages(import, "summary", line->json);
    if (!import_writes(import))
        return;
    const char *id = import->look->id != NULL ? import->look->id : line->id;
    import_keep(import, import->sink->session(import->context, id, line, summary, import->error));
    import->look->made_id = bl_arena_text(&import->look->job.output, bl_text_from(id)).data;
}

static void import_take_turn(struct import *import)
{
    const struct store_line *line = &import->at;
    if (line->number != ++import->turns)
        import_refuse(import, "missing or duplicate turn");
    struct bl_text result = bl_arena_text(&import->arena, import_json(import, line->json));
    struct bl_text messages = import_messages(import, "messages", line->messages);
    struct bl_text events = import_events(import);
    if (!import->counted) {
        bl_usage_add(&import->usage, line->usage);
        bl_spent_add(&import->spent, line->spent);
    }
    if (import_writes(import))
        import_keep(import, import->sink->turn(import->context, line, result, messages, events,
                                               import->error));
}

static void import_take_attempt(struct import *import)
{
    const struct store_line *line = &import->at;
    struct bl_text result = {0};
    if (line->json != NULL)
        result = import_json(import, line->json);
    import_once(import, "attempt", line->id);
    if (import_writes(import))
        import_keep(import, import->sink->attempt(import->context, line, result, import->error));
}

static void import_flush_events(struct import *import)
{
    if (import_writes(import) && import->events.size > 0)
        import_keep(import, import->sink->beside(import->context, import->run,
                                                 bl_buffer_text(&import->events), NULL,
                                                 (struct bl_text){0}, import->error));
    bl_buffer_clear(&import->events);
}

static void import_take_event(struct import *import)
{
    const char *run = import->at.run;
    struct bl_text event = import_json(import, import->at.json);
    if (strcmp(run, import->run) != 0 || import->events.size > CHUNK_BYTES)
        import_flush_events(import);
    bl_text_into(import->run, sizeof import->run, run);
    bl_buffer_append(&import->events, event);
    bl_buffer_append_byte(&import->events, '\n');
}

static void import_take_receipt(struct import *import)
{
    const char *id = import->at.id;
    struct bl_text body = import_json(import, import->at.json);
    import_once(import, "receipt", id);
    if (import_writes(import))
        import_keep(import, import->sink->beside(import->context, "", (struct bl_text){0}, id, body,
                                                 import->error));
}

static void import_take_checkpoint(struct import *import)
{
    const char *name = import->at.id;
    import_once(import, "checkpoint", name);
    struct bl_text body = import_json(import, import->at.json);
    if (import_writes(import))
        import_keep(import, import->sink->checkpoint(import->context, name, body, import->error));
}

/* ---- Cells ---- */

static struct bl_text import_digest(struct import *import)
{
    const char *hex = import->at.digest;
    unsigned char *bytes = bl_arena_zalloc(&import->arena, STORE_DIGEST_SIZE);
    for (size_t i = 0; i < (size_t)2 * STORE_DIGEST_SIZE; i++) {
        int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
        bytes[i / 2] = (unsigned char)(bytes[i / 2] << 4 | digit);
    }
    return (struct bl_text){(const char *)bytes, STORE_DIGEST_SIZE};
}

/* Returns an outcome as text, in the arena. It must have the id, generation and type of the cell.
 */
static struct bl_text import_outcome(struct import *import, const struct bl_json *value,
                                     uint64_t generation, const char *type)
{
    struct bl_text id = bl_text_from(import->at.id);
    int64_t said = 0;
    bl_json_int64(bl_json_get(value, BL_TEXT("generation")), &said);
    if (said < 1 || (uint64_t)said != generation ||
        !bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("cell_id"))), id) ||
        !bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("type"))), bl_text_from(type)))
        import_refuse(import, "the outcome is not from this cell");
    return bl_arena_text(&import->arena, import_json(import, value));
}

static void import_take_cell(struct import *import)
{
    const struct store_line *line = &import->at;
    struct bl_store_cell cell = {
        .id = bl_text_from(line->id),
        .digest = import_digest(import),
        .created_wall_ns = line->created_wall_ns,
        .deadline_ms = (int64_t)line->deadline_ms,
        .yielded_generation = line->yielded_generation,
        .generation = line->generation,
        .completed = line->completed,
        .ended_wall_ns = line->ended_wall_ns,
    };
    /* An id is used only once, by a cell or a tombstone. */
    import_once(import, "cell", line->id);
    cell.terminal = import_outcome(import, line->json, line->generation,
                                   line->completed ? "completed" : "terminated");
    if (line->yielded_generation != 0 || line->yielded != NULL)
        cell.yielded = import_outcome(import, line->yielded, line->yielded_generation, "yielded");
    if (line->yielded_generation >= line->generation)
        import_refuse(import, "the cell yielded after its end");
    if (import_writes(import))
        import_keep(import, import->sink->cell(import->context, &cell, import->error));
}

static void import_take_cell_value(struct import *import)
{
    struct bl_store_value value = {.key = import->at.text};
    /* Quoted, because a key may contain NUL. */
    import_once(import, "value", bl_json_quote(&import->arena, value.key).data);
    value.json = import_json(import, import->at.json);
    if (import_writes(import))
        import_keep(import, import->sink->value(import->context, &value, import->error));
}

static void import_take_tombstone(struct import *import)
{
    struct bl_store_cell cell = {.id = bl_text_from(import->at.id),
                                 .digest = import_digest(import)};
    import_once(import, "cell", import->at.id);
    if (import_writes(import))
        import_keep(import, import->sink->tombstone(import->context, &cell,
                                                    import->at.ended_wall_ns, import->error));
}

static void import_take_end(struct import *import)
{
    import_flush_events(import);
    import->ended = true;
    if (import->at.number != import->line - 1)
        import_refuse(import, "the number of lines differs from the last line's");
    if (import->turns != import->turns_due)
        import_refuse(import, "fewer turns than the first line announces");
    if (import_writes(import))
        import_keep(import, import->sink->totals(import->context, &import->usage, &import->spent,
                                                 import->error));
}

static void import_take_line(struct import *import, struct bl_text line)
{
    static const struct bl_json_limits limits = {.size_max = JSON_MAX, .string_max = JSON_MAX};
    static void (*const takes[])(struct import * import) = {
        [STORE_LINE_SESSION] = import_take_session,
        [STORE_LINE_TURN] = import_take_turn,
        [STORE_LINE_ATTEMPT] = import_take_attempt,
        [STORE_LINE_EVENT] = import_take_event,
        [STORE_LINE_RECEIPT] = import_take_receipt,
        [STORE_LINE_CHECKPOINT] = import_take_checkpoint,
        [STORE_LINE_CELL] = import_take_cell,
        [STORE_LINE_CELL_VALUE] = import_take_cell_value,
        [STORE_LINE_TOMBSTONE] = import_take_tombstone,
        [STORE_LINE_END] = import_take_end,
    };
    struct bl_record_fault misfit = {0};
    struct bl_json_fault fault;
    const struct bl_json *value;
    char why[sizeof misfit.path + sizeof misfit.message];
    bl_arena_reset(&import->arena);
    import->line++;
    if (import->ended) {
        import_refuse(import, "unexpected data after the last line");
        return;
    }
    if (bl_json_read(&import->arena, line, &limits, &value, &fault) != 0) {
        bl_json_fault_text(&fault, why, sizeof why);
        import_refuse(import, why);
        return;
    }
    bool first = import->line == 1;
    struct bl_text type = bl_json_text(bl_json_get(value, BL_TEXT("type")));
    if (first != bl_text_equal(type, BL_TEXT("session"))) {
        import_refuse(
            import, first ? "the first line is not of type session: this is not an exported session"
                          : "a second line of type session");
        return;
    }
    if (bl_record_view(&import->arena, &bl_store_line_record, value, &import->at, &misfit) == 0) {
        takes[import->at.type](import);
        return;
    }
    bl_record_fault_text(&misfit, why, sizeof why);
    import_refuse(import, why);
}

static int import_take_lines(struct import *import, struct bl_text lines)
{
    struct bl_text line;
    bl_buffer_init(&import->text, JSON_MAX);
    bl_buffer_init(&import->events, JSON_MAX);
    bl_map_init(&import->seen);
    while (import->code == 0 && bl_text_split(&lines, '\n', &line))
        import_take_line(import, line);
    if (import->code == 0 && !import->ended) {
        import->line++;
        import_refuse(import, "the last line, of type end, is missing: the file is truncated");
    }
    bl_map_done(&import->seen);
    bl_buffer_done(&import->events);
    bl_buffer_done(&import->text);
    bl_arena_done(&import->arena);
    return import->code;
}

int store_import_check(struct bl_text lines, struct bl_error *error)
{
    struct import import = {.error = error};
    return import_take_lines(&import, lines);
}

int store_import(struct store_look *look, const struct store_sink *sink, void *context,
                 struct bl_error *error)
{
    struct import import = {.sink = sink, .context = context, .look = look, .error = error};
    return import_take_lines(&import, look->lines);
}
