/* A session from lines of JSON, as sqlite_export.c writes them. The lines are gone through twice by
 * the same code: first without a file, so that what is wrong is found before anybody waits for it;
 * then each is put into the store. */
#include <stdio.h>

#include "sqlite.h"

#define JSON_MAX    ((size_t)1024 * 1024 * 1024)
#define CHUNK_BYTES ((size_t)64 * 1024)
#define DIGEST_SIZE ((size_t)32)
#define KEY_MAX     256 /* of what a cell stores */

struct import {
    struct sqlite_link *link; /* NULL: only look */
    struct store_look *look;  /* NULL: so too */
    struct bl_error *error;
    int code;
    uint64_t line;         /* number of the one at hand, from 1 */
    struct bl_arena arena; /* of one line */
    const struct bl_json *value;
    struct bl_buffer text; /* one value of it, written anew */
    struct bl_map seen;    /* what may come only once */
    int64_t session;
    uint64_t turns;    /* so far */
    int64_t turns_due; /* as the header says */
    bool counted;      /* it says what was used and spent; else that is the sum of the turns */
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

/* ---- Members of a line. What is not as it must be is refused, and stands as empty. ---- */

static const struct bl_json *import_member(struct import *import, const char *key,
                                           enum bl_json_type type)
{
    const struct bl_json *value = bl_json_get(import->value, bl_text_from(key));
    char what[128];
    if (bl_json_is(value, type))
        return value;
    snprintf(what, sizeof what, "\"%s\" is missing, or not of type %s", key,
             bl_json_type_name(type));
    import_refuse(import, what);
    return NULL;
}

static bool is_null(const struct import *import, const char *key)
{
    return bl_json_is(bl_json_get(import->value, bl_text_from(key)), BL_JSON_NULL);
}

/* What older files do not have is as null. */
static bool is_given(const struct import *import, const char *key)
{
    return bl_json_get(import->value, bl_text_from(key)) != NULL && !is_null(import, key);
}

/* A NUL inside is not text that we wrote. */
static const char *string(struct import *import, const char *key)
{
    struct bl_text text = bl_json_text(import_member(import, key, BL_JSON_STRING));
    if (text.size == 0)
        return "";
    if (strlen(text.data) != text.size)
        import_refuse(import, "a text that holds NUL");
    return text.data;
}

static const char *name(struct import *import, const char *key, size_t size_max)
{
    const char *text = string(import, key);
    if (import->code == 0 && (text[0] == '\0' || strlen(text) >= size_max))
        import_refuse(import, "an id that is empty or too long");
    return text;
}

static int64_t import_number(struct import *import, const char *key)
{
    int64_t value = 0;
    const struct bl_json *integer = import_member(import, key, BL_JSON_INTEGER);
    if (integer != NULL && (!bl_json_int64(integer, &value) || value < 0))
        import_refuse(import, "a number below zero");
    return value;
}

static int64_t digits(const char *text, size_t size)
{
    int64_t value = -1;
    return bl_text_to_int64((struct bl_text){text, size}, &value) == 0 ? value : -1;
}

/* Days from 1970-01-01; years are taken to begin in March, as in bl_time_format. */
static int64_t import_days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "2026-11-15T18:50:07.123Z", and nothing else: what it says must be written the same. */
static int64_t time_of(struct import *import, const char *key)
{
    char again[32];
    const char *text = string(import, key);
    if (import->code != 0)
        return 0;
    if (strlen(text) == 24) {
        int64_t seconds =
            import_days_of(digits(text, 4), digits(text + 5, 2), digits(text + 8, 2)) * 86400 +
            digits(text + 11, 2) * 3600 + digits(text + 14, 2) * 60 + digits(text + 17, 2);
        int64_t ms, ns;
        if (!__builtin_mul_overflow(seconds, 1000, &ms) &&
            !__builtin_add_overflow(ms, digits(text + 20, 3), &ms) &&
            !__builtin_mul_overflow(ms, 1000000, &ns)) {
            bl_time_format(ns, again);
            if (strcmp(again, text) == 0)
                return ns;
        }
    }
    import_refuse(import, "a time that is not written as 2026-11-15T18:50:07.123Z");
    return 0;
}

static struct bl_spent spent(struct import *import)
{
    struct bl_spent value;
    bl_record_take(NULL, &bl_spent_record, import_member(import, "spent", BL_JSON_OBJECT), &value);
    return value;
}

/* A value of the line as text; stays until the next. */
static struct bl_text json(struct import *import, const struct bl_json *value)
{
    struct bl_json_writer writer;
    bl_buffer_clear(&import->text);
    bl_json_writer_init(&writer, &import->text);
    bl_json_write_value(&writer, value);
    if (bl_json_writer_done(&writer) != 0)
        import_refuse(import, "a value that is too large or too deep");
    return bl_buffer_text(&import->text);
}

/* The elements of an array as lines; they stay until the next value. */
static struct bl_text lines_of(struct import *import, const struct bl_json *array)
{
    struct bl_json_writer writer;
    bl_buffer_clear(&import->text);
    BL_JSON_EACH (element, array) {
        if (!bl_json_is(element, BL_JSON_OBJECT))
            import_refuse(import, "an event that is not an object");
        bl_json_writer_init(&writer, &import->text);
        bl_json_write_value(&writer, element);
        if (bl_json_writer_done(&writer) != 0 || bl_buffer_append_byte(&import->text, '\n') != 0)
            import_refuse(import, "a value that is too large or too deep");
    }
    return bl_buffer_text(&import->text);
}

static void once(struct import *import, const char *type, const char *id)
{
    struct bl_text key = bl_arena_printf(&import->arena, "%s %s", type, id);
    if (bl_map_has(&import->seen, key))
        import_refuse(import, "the same id as on a line before");
    else
        bl_map_set(&import->seen, key, import, NULL);
}

/* ---- Lines ---- */

static int refuse_existing(struct import *import, const char *id)
{
    int64_t session;
    struct bl_error missing = {0};
    int code = sqlite_find_session(import->link, id, &session, &missing);
    if (code == BL_ENOENT)
        return 0;
    if (code != 0) {
        *import->error = missing;
        return code;
    }
    bl_error_set(import->error, BL_EEXIST, BL_KIND_SESSION, "import", id,
                 "there is a session %s already", id);
    bl_error_hint(import->error, "give it another id");
    return BL_EEXIST;
}

static void import_count(struct import *import, const struct bl_usage *used,
                         const struct bl_spent *cost)
{
    import_keep(
        import,
        sqlite_change(import->link, import->error,
                      "UPDATE session SET input = input + min(?1, 9223372036854775807 - input),"
                      " output = output + min(?2, 9223372036854775807 - output),"
                      " spent_input = spent_input + min(?3, 9223372036854775807 - spent_input),"
                      " spent_output = spent_output + min(?4, 9223372036854775807 - spent_output),"
                      " cost = cost + ?5, cost_max = cost_max + ?6,"
                      " cost_unknown = cost_unknown | ?7 WHERE key = ?8",
                      "uuuuddii", used->input_tokens, used->output_tokens, cost->usage.input_tokens,
                      cost->usage.output_tokens, cost->cost_usd, cost->cost_usd_max,
                      (int64_t)cost->cost_unknown, import->session));
}

/* The first line. */
struct header {
    const char *id;
    const char *directory;
    const char *title;
    const char *parent; /* NULL: none, as those of the sub-agent */
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    int64_t context_from;
    const char *agent_of;
    const char *agent_turn;
    const char *persona;
    struct bl_text summary; /* empty: none */
    struct bl_usage used;   /* by turns, and by compactions that were no turn's */
    struct bl_spent cost;
};

/* What is in a file since version 2 of the store. */
static void read_later_members(struct import *import, struct header *header)
{
    struct bl_list messages;
    if (is_given(import, "agent_of"))
        header->agent_of = string(import, "agent_of");
    if (is_given(import, "agent_turn"))
        header->agent_turn = name(import, "agent_turn", BL_ID_SIZE);
    if (is_given(import, "persona"))
        header->persona = string(import, "persona");
    import->counted = is_given(import, "usage") || is_given(import, "spent");
    if (import->counted) {
        bl_record_take(NULL, &bl_usage_record, import_member(import, "usage", BL_JSON_OBJECT),
                       &header->used);
        header->cost = spent(import);
    }
    if (!is_given(import, "summary"))
        return;
    struct bl_text text = json(import, import_member(import, "summary", BL_JSON_ARRAY));
    bl_list_init(&messages);
    if (import->code == 0 && bl_messages_read(&import->arena, text, &messages) != 0)
        import_refuse(import, "\"summary\" is not made of messages");
    header->summary = bl_arena_text(&import->arena, text);
}

static void import_read_header(struct import *import, struct header *header)
{
    *header = (struct header){
        .id = name(import, "id", STORE_SESSION_ID_SIZE),
        .directory = string(import, "directory"),
        .title = string(import, "title"),
        .parent = is_null(import, "parent") ? NULL : string(import, "parent"),
        .created_wall_ns = time_of(import, "created_at"),
        .updated_wall_ns = time_of(import, "updated_at"),
        .context_from = import_number(import, "context_from"),
    };
    import->turns_due = import_number(import, "turns");
    read_later_members(import, header);
    if (import->code == 0 && import_number(import, "schema") != 1)
        import_refuse(import, "made by another belay: only schema 1 is known here");
    if (import->code == 0 && bl_session_id_check(header->id, NULL) != 0)
        import_refuse(import, "\"id\" is not a session id");
    if (import->code == 0 && header->agent_of != NULL &&
        bl_session_id_check(header->agent_of, NULL) != 0)
        import_refuse(import, "\"agent_of\" is not a session id");
    if (import->code == 0 &&
        (header->context_from < 1 || header->context_from > import->turns_due + 1))
        import_refuse(import, "\"context_from\" is outside of the turns");
}

static void import_take_session(struct import *import)
{
    struct header header;
    import_read_header(import, &header);
    if (import->code != 0 || import->link == NULL)
        return;
    const char *id = import->look->id != NULL ? import->look->id : header.id;
    import_keep(import, refuse_existing(import, id));
    if (import->code != 0)
        return;
    import_keep(import, sqlite_change(
                            import->link, import->error,
                            "INSERT INTO session (id, created, updated, turns_total, context_from,"
                            " directory, parent, title, agent_of, agent_turn, persona)"
                            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            "siiiissssss", id, header.created_wall_ns, header.updated_wall_ns,
                            import->turns_due, header.context_from, header.directory, header.parent,
                            header.title, header.agent_of, header.agent_turn, header.persona));
    import->session = sqlite3_last_insert_rowid(import->link->db);
    if (import->code == 0)
        import_count(import, &header.used, &header.cost);
    if (import->code == 0 && header.summary.size > 0)
        import_keep(import, sqlite_change(import->link, import->error,
                                          "INSERT INTO summary (session, messages) VALUES (?, ?)",
                                          "it", import->session, header.summary));
    import->look->made_id = bl_arena_text(&import->look->job.output, bl_text_from(id)).data;
}

static void import_take_turn(struct import *import)
{
    struct bl_list messages;
    struct bl_spent cost = spent(import);
    int64_t position = import_number(import, "number"), ended = time_of(import, "ended_at");
    const char *id = name(import, "id", BL_ID_SIZE), *run = string(import, "run");
    const struct bl_json *usage = import_member(import, "usage", BL_JSON_OBJECT);
    bool interrupted =
        bl_json_boolean(import_member(import, "interrupted", BL_JSON_BOOLEAN), false);
    struct bl_usage used;
    bl_record_take(NULL, &bl_usage_record, usage, &used);
    if (import->code == 0 && (uint64_t)position != ++import->turns)
        import_refuse(import, "a turn is missing before this one, or it comes twice");
    struct bl_text result = json(import, import_member(import, "result", BL_JSON_OBJECT));
    result = bl_arena_text(&import->arena, result);
    struct bl_text text = json(import, import_member(import, "messages", BL_JSON_ARRAY));
    bl_list_init(&messages);
    if (import->code == 0 && bl_messages_read(&import->arena, text, &messages) != 0)
        import_refuse(import, "\"messages\" are not those of a turn");
    text = bl_arena_text(&import->arena, text);
    struct bl_text events = lines_of(import, import_member(import, "events", BL_JSON_ARRAY));
    if (import->code != 0 || import->link == NULL)
        return;
    import_keep(
        import,
        sqlite_change(import->link, import->error,
                      "INSERT INTO turn (session, number, id, run, interrupted, ended, input,"
                      " output, spent_input, spent_output, cost, cost_max, cost_unknown, result,"
                      " messages, events)"
                      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      "iissiiuuuuddittt", import->session, position, id, run, (int64_t)interrupted,
                      ended, used.input_tokens, used.output_tokens, cost.usage.input_tokens,
                      cost.usage.output_tokens, cost.cost_usd, cost.cost_usd_max,
                      (int64_t)cost.cost_unknown, result, text, events));
    if (import->code == 0 && !import->counted)
        import_count(import, &used, &cost);
}

static void take_attempt(struct import *import)
{
    struct bl_spent cost = spent(import);
    const char *id = name(import, "id", BL_ID_SIZE), *run = string(import, "run");
    const char *state = string(import, "state");
    struct bl_text prompt = bl_json_text(import_member(import, "prompt", BL_JSON_STRING));
    const char *receipt = is_null(import, "receipt") ? NULL : string(import, "receipt");
    int64_t started = time_of(import, "started_at");
    int64_t ended = time_of(import, "ended_at");
    struct bl_text result = {0};
    if (!is_null(import, "result"))
        result = json(import, import_member(import, "result", BL_JSON_OBJECT));
    if (strcmp(state, "rejected") != 0 && strcmp(state, "cut_off") != 0)
        import_refuse(import, "\"state\" is none that an attempt has");
    once(import, "attempt", id);
    if (import->code != 0 || import->link == NULL)
        return;
    import_keep(
        import,
        sqlite_change(import->link, import->error,
                      "INSERT INTO attempt (session, id, run, state, started, ended, spent_input,"
                      " spent_output, cost, cost_max, cost_unknown, receipt, prompt, result)"
                      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      "isssiiuuddistj", import->session, id, run, state, started, ended,
                      cost.usage.input_tokens, cost.usage.output_tokens, cost.cost_usd,
                      cost.cost_usd_max, (int64_t)cost.cost_unknown, receipt, prompt, result));
}

static void flush_events(struct import *import)
{
    if (import->link != NULL && import->code == 0)
        import_keep(import, sqlite_add_beside(import->link, import->session, import->run,
                                              bl_buffer_text(&import->events), NULL,
                                              (struct bl_text){0}, import->error));
    bl_buffer_clear(&import->events);
}

static void import_take_event(struct import *import)
{
    const char *run = string(import, "run");
    struct bl_text event = json(import, import_member(import, "event", BL_JSON_OBJECT));
    if (strlen(run) >= sizeof import->run)
        import_refuse(import, "an id that is too long");
    if (strcmp(run, import->run) != 0 || import->events.size > CHUNK_BYTES)
        flush_events(import);
    bl_text_into(import->run, sizeof import->run, run);
    bl_buffer_append(&import->events, event);
    bl_buffer_append_byte(&import->events, '\n');
}

static void import_take_receipt(struct import *import)
{
    const char *id = name(import, "id", BL_ID_SIZE);
    struct bl_text body = json(import, import_member(import, "receipt", BL_JSON_OBJECT));
    once(import, "receipt", id);
    if (import->code == 0 && import->link != NULL)
        import_keep(import, sqlite_add_beside(import->link, import->session, "",
                                              (struct bl_text){0}, id, body, import->error));
}

static void take_checkpoint(struct import *import)
{
    const char *id = name(import, "name", 4096);
    const struct bl_json *value = bl_json_get(import->value, BL_TEXT("checkpoint"));
    if (value == NULL)
        import_refuse(import, "\"checkpoint\" is missing");
    once(import, "checkpoint", id);
    struct bl_text body = json(import, value);
    if (import->code == 0 && import->link != NULL)
        import_keep(import,
                    sqlite_change(import->link, import->error,
                                  "INSERT INTO checkpoint (session, name, body) VALUES (?, ?, ?)",
                                  "ist", import->session, id, body));
}

/* ---- Cells ---- */

static struct bl_text import_digest(struct import *import)
{
    const char *hex = string(import, "digest");
    unsigned char *bytes = bl_arena_zalloc(&import->arena, DIGEST_SIZE);
    size_t size = strspn(hex, "0123456789abcdef");
    if (import->code == 0 && (size != 2 * DIGEST_SIZE || hex[size] != '\0'))
        import_refuse(import, "\"digest\" is not made of 64 digits");
    for (size_t i = 0; i < 2 * DIGEST_SIZE && import->code == 0; i++) {
        int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
        bytes[i / 2] = (unsigned char)(bytes[i / 2] << 4 | digit);
    }
    return (struct bl_text){(const char *)bytes, DIGEST_SIZE};
}

/* An id is used once, by a cell or its tombstone; it is formed as a session's. */
static const char *cell_id(struct import *import)
{
    const char *id = string(import, "id");
    if (import->code == 0 && bl_session_id_check(id, NULL) != 0)
        import_refuse(import, "\"id\" is not that of a cell");
    once(import, "cell", id);
    return id;
}

/* An outcome as text, in the arena; it must be of that cell, generation and type. */
static struct bl_text outcome(struct import *import, const char *key, const char *id,
                              int64_t generation, const char *type)
{
    const struct bl_json *value = import_member(import, key, BL_JSON_OBJECT);
    int64_t said = 0;
    bl_json_int64(bl_json_get(value, BL_TEXT("generation")), &said);
    if (import->code == 0 &&
        (said != generation || said < 1 ||
         !bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("cell_id"))), bl_text_from(id)) ||
         !bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("type"))), bl_text_from(type))))
        import_refuse(import, "an outcome that is not of this cell");
    return bl_arena_text(&import->arena, json(import, value));
}

static void import_take_cell(struct import *import)
{
    const char *id = cell_id(import);
    int64_t generation = import_number(import, "generation"),
            yield = import_number(import, "yielded_generation");
    struct bl_store_cell cell = {
        .id = bl_text_from(id),
        .digest = import_digest(import),
        .created_wall_ns = time_of(import, "created_at"),
        .deadline_ms = import_number(import, "deadline_ms"),
        .yielded_generation = (uint64_t)yield,
        .generation = (uint64_t)generation,
        .completed = bl_json_boolean(import_member(import, "completed", BL_JSON_BOOLEAN), false),
        .ended_wall_ns = time_of(import, "ended_at"),
    };
    cell.terminal =
        outcome(import, "outcome", id, generation, cell.completed ? "completed" : "terminated");
    if (yield != 0 || is_given(import, "yielded"))
        cell.yielded = outcome(import, "yielded", id, yield, "yielded");
    if (import->code == 0 && yield >= generation)
        import_refuse(import, "a cell that yielded after its end");
    if (import->code == 0 && import->link != NULL)
        import_keep(import, sqlite_cell_add(import->link, import->session, &cell, import->error));
}

static void take_cell_value(struct import *import)
{
    const struct bl_json *key = import_member(import, "key", BL_JSON_STRING);
    const struct bl_json *body = bl_json_get(import->value, BL_TEXT("value"));
    struct bl_store_value value = {.key = bl_json_text(key)};
    if (import->code == 0 && (value.key.size == 0 || value.key.size > KEY_MAX))
        import_refuse(import, "a key that is empty or too long");
    if (body == NULL)
        import_refuse(import, "\"value\" is missing");
    /* In its quotes, since it may hold NUL. */
    once(import, "value", bl_arena_text(&import->arena, json(import, key)).data);
    value.json = json(import, body);
    if (import->code == 0 && import->link != NULL)
        import_keep(import,
                    sqlite_cell_value_put(import->link, import->session, &value, import->error));
}

static void take_tombstone(struct import *import)
{
    struct bl_store_cell cell = {.id = bl_text_from(cell_id(import)),
                                 .digest = import_digest(import)};
    int64_t buried = time_of(import, "buried_at");
    if (import->code == 0 && import->link != NULL)
        import_keep(import, sqlite_tombstone_add(import->link, import->session, &cell, buried,
                                                 import->error));
}

static void import_take_end(struct import *import)
{
    flush_events(import);
    import->ended = true;
    if (import->code == 0 && (uint64_t)import_number(import, "lines") != import->line - 1)
        import_refuse(import, "the number of lines is not the one that the last line says");
    if (import->code == 0 && import->turns != (uint64_t)import->turns_due)
        import_refuse(import, "there are fewer turns than the first line says");
}

static void import_take_line(struct import *import, struct bl_text line)
{
    static const struct bl_json_limits limits = {.size_max = JSON_MAX, .string_max = JSON_MAX};
    static const struct {
        const char *type;
        void (*take)(struct import *import);
    } types[] = {{"session", import_take_session},   {"turn", import_take_turn},
                 {"attempt", take_attempt},          {"event", import_take_event},
                 {"receipt", import_take_receipt},   {"checkpoint", take_checkpoint},
                 {"cell", import_take_cell},         {"cell_value", take_cell_value},
                 {"cell_tombstone", take_tombstone}, {"end", import_take_end}};
    struct bl_json_fault fault;
    char why[192];
    bl_arena_reset(&import->arena);
    import->line++;
    if (import->ended) {
        import_refuse(import, "something follows the last line");
        return;
    }
    if (bl_json_read(&import->arena, line, &limits, &import->value, &fault) != 0) {
        bl_json_fault_text(&fault, why, sizeof why);
        import_refuse(import, why);
        return;
    }
    const char *type = string(import, "type");
    bool first = import->line == 1;
    if (import->code == 0 && first != (strcmp(type, "session") == 0)) {
        import_refuse(import,
                      first ? "the first line is not of type session: this is no exported session"
                            : "a second line of type session");
        return;
    }
    for (size_t i = 0; i < BL_COUNT(types) && import->code == 0; i++) {
        if (strcmp(types[i].type, type) == 0) {
            types[i].take(import);
            return;
        }
    }
    import_refuse(import, "\"type\" is none that a session has");
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
        import_refuse(import, "the last line, of type end, is missing: the file was cut");
    }
    bl_map_done(&import->seen);
    bl_buffer_done(&import->events);
    bl_buffer_done(&import->text);
    bl_arena_done(&import->arena);
    return import->code;
}

int sqlite_import_check(struct bl_text lines, struct bl_error *error)
{
    struct import import = {.error = error};
    return import_take_lines(&import, lines);
}

int sqlite_import(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    struct import import = {.link = link, .look = look, .error = error};
    return import_take_lines(&import, look->lines);
}
