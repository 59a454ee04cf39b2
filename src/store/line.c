/* The lines of an exported session: one table per type, used for both writing and reading. */
#include "form.h"

#define NAME_MAX_SIZE 4095
#define KEY_MAX       256 /* of a stored value */

static const char *const type_names[] = {
    [STORE_LINE_SESSION] = "session",
    [STORE_LINE_TURN] = "turn",
    [STORE_LINE_ATTEMPT] = "attempt",
    [STORE_LINE_EVENT] = "event",
    [STORE_LINE_RECEIPT] = "receipt",
    [STORE_LINE_CHECKPOINT] = "checkpoint",
    [STORE_LINE_CELL] = "cell",
    [STORE_LINE_CELL_VALUE] = "cell_value",
    [STORE_LINE_TOMBSTONE] = "cell_tombstone",
    [STORE_LINE_END] = "end",
};
static const struct bl_names types = BL_NAMES(type_names);
static const char *const state_names[] = {"rejected", "cut_off"};
static const struct bl_names states = BL_NAMES(state_names);

static bool digest_fits(struct bl_text text)
{
    size_t good = 0;
    while (good < text.size && memchr("0123456789abcdef", text.data[good], 16) != NULL)
        good++;
    return good == text.size && text.size == (size_t)2 * STORE_DIGEST_SIZE;
}

static const struct bl_form digest_form = {"64 hexadecimal digits", "^[0-9a-f]{64}$", digest_fits};

static const struct bl_member message_element = BL_ELEMENT(struct bl_message, &bl_message_record);

#define BL_RECORD_STRUCT struct store_line

#define LINE_COUNT(key, field, ...) BL_MEMBER_INTEGER(key, field, .most = INT64_MAX, __VA_ARGS__)
/* An id made by Belay. */
#define LINE_ID(key, field, ...)                                                                   \
    BL_MEMBER_STRING(key, field, .least = 1, .most = BL_ID_SIZE - 1, __VA_ARGS__)
/* Members added in version 2 of the store. */
#define LINE_LATER .optional = true, .nullable = true
#define LINE_CELL                                                                                  \
    BL_MEMBER_STRING("id", id, .form = &bl_session_id_form),                                       \
        BL_MEMBER_STRING(                                                                          \
            "digest", digest, .form = &digest_form,                                                \
            .about = "SHA-256 of the cell's content: the id is used for no other content.")

static const struct bl_member session_members[] = {
    LINE_COUNT("schema", schema, .about = "Version of the file, 1."),
    BL_MEMBER_STRING("id", id, .form = &bl_session_id_form),
    BL_MEMBER_STRING("directory", directory),
    BL_MEMBER_STRING("title", title),
    BL_MEMBER_STRING("parent", parent, .nullable = true),
    BL_MEMBER_TIME("created_at", created_wall_ns),
    BL_MEMBER_TIME("updated_at", updated_wall_ns),
    LINE_COUNT("turns", turns, .about = "Number of turns in the file."),
    LINE_COUNT("context_from", context_from, .least = 1,
               .about = "Number of the first turn in the model's context."),
    BL_MEMBER_POINTER("usage", usage, &bl_usage_record, LINE_LATER),
    BL_MEMBER_POINTER("spent", spent, &bl_spent_record, LINE_LATER),
    BL_MEMBER_STRING("agent_of", agent_of, LINE_LATER, .form = &bl_session_id_form),
    LINE_ID("agent_turn", agent_turn, LINE_LATER),
    BL_MEMBER_STRING("persona", persona, LINE_LATER),
    BL_MEMBER_JSON("summary", json, LINE_LATER, .element = &message_element,
                   .about = "Messages that replace the turns before the context."),
    BL_MEMBER_END,
};
static const struct bl_member turn_members[] = {
    LINE_COUNT("number", number, .least = 1),
    LINE_ID("id", id),
    BL_MEMBER_STRING("run", run),
    BL_MEMBER_BOOLEAN("interrupted", interrupted),
    BL_MEMBER_TIME("ended_at", ended_wall_ns),
    BL_MEMBER_POINTER("usage", usage, &bl_usage_record),
    BL_MEMBER_POINTER("spent", spent, &bl_spent_record),
    BL_MEMBER_JSON("result", json, .object = true),
    BL_MEMBER_JSON("messages", messages, .element = &message_element),
    BL_MEMBER_ARRAY("events", events, event_count, &bl_element_object),
    BL_MEMBER_END,
};
static const struct bl_member attempt_members[] = {
    LINE_ID("id", id),
    BL_MEMBER_STRING("run", run),
    BL_MEMBER_STRING("state", state, .names = &states),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_TIME("ended_at", ended_wall_ns),
    BL_MEMBER_POINTER("spent", spent, &bl_spent_record),
    BL_MEMBER_STRING("receipt", receipt, .nullable = true, .about = "Id of its receipt."),
    BL_MEMBER_TEXT("prompt", text),
    BL_MEMBER_JSON("result", json, .nullable = true, .object = true),
    BL_MEMBER_END,
};
static const struct bl_member event_members[] = {
    BL_MEMBER_STRING("run", run, .most = STORE_SESSION_ID_SIZE - 1),
    BL_MEMBER_JSON("event", json, .object = true),
    BL_MEMBER_END,
};
static const struct bl_member receipt_members[] = {
    LINE_ID("id", id),
    BL_MEMBER_JSON("receipt", json, .object = true),
    BL_MEMBER_END,
};
static const struct bl_member checkpoint_members[] = {
    BL_MEMBER_STRING("name", id, .least = 1, .most = NAME_MAX_SIZE),
    BL_MEMBER_JSON("checkpoint", json),
    BL_MEMBER_END,
};
static const struct bl_member cell_members[] = {
    LINE_CELL,
    BL_MEMBER_TIME("created_at", created_wall_ns),
    BL_MEMBER_TIME("ended_at", ended_wall_ns),
    LINE_COUNT("deadline_ms", deadline_ms),
    LINE_COUNT("generation", generation, .least = 1, .about = "Generation of its end."),
    BL_MEMBER_BOOLEAN("completed", completed,
                      .about = "True: it ended by itself; false: it was terminated."),
    BL_MEMBER_JSON("outcome", json, .object = true,
                   .about = "Outcome as observe returns it: completed or terminated."),
    LINE_COUNT("yielded_generation", yielded_generation,
               .about = "0: no outcome before the end was waiting to be acknowledged."),
    BL_MEMBER_JSON("yielded", yielded, .object = true, LINE_LATER,
                   .about = "Outcome of that generation."),
    BL_MEMBER_END,
};
static const struct bl_member value_members[] = {
    BL_MEMBER_TEXT("key", text, .least = 1, .most = KEY_MAX),
    BL_MEMBER_JSON("value", json),
    BL_MEMBER_END,
};
static const struct bl_member tombstone_members[] = {
    LINE_CELL,
    BL_MEMBER_TIME("buried_at", ended_wall_ns),
    BL_MEMBER_END,
};
static const struct bl_member end_members[] = {
    LINE_COUNT("lines", number, .about = "Number of lines before this one."),
    BL_MEMBER_END,
};
static const struct bl_member line_members[] = {
    BL_MEMBER_ENUM("type", type, &types),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record session_record = BL_RECORD_GROUP(
    "session", session_members, .about = "The session: always the first line, and only there.");
static const struct bl_record turn_record =
    BL_RECORD_GROUP("turn", turn_members, .about = "A committed turn.");
static const struct bl_record attempt_record =
    BL_RECORD_GROUP("attempt", attempt_members, .about = "A turn that is not in the session.");
static const struct bl_record event_record =
    BL_RECORD_GROUP("event", event_members, .about = "An event of a run outside of its turns.");
static const struct bl_record receipt_record =
    BL_RECORD_GROUP("receipt", receipt_members, .about = "The receipt of a stop.");
static const struct bl_record checkpoint_record =
    BL_RECORD_GROUP("checkpoint", checkpoint_members, .about = "A checkpoint.");
static const struct bl_record cell_record = BL_RECORD_GROUP(
    "cell", cell_members, .about = "A cell that has ended. A running one is not exported.");
static const struct bl_record value_record = BL_RECORD_GROUP(
    "cell_value", value_members, .about = "A value that a cell has stored in its session.");
static const struct bl_record tombstone_record =
    BL_RECORD_GROUP("cell_tombstone", tombstone_members,
                    .about = "Id of a cell that was released or evicted, so that it does not run "
                             "again.");
static const struct bl_record end_record =
    BL_RECORD_GROUP("end", end_members, .about = "The last line.");

static const struct bl_record *const kinds[] = {
    [STORE_LINE_SESSION] = &session_record,     [STORE_LINE_TURN] = &turn_record,
    [STORE_LINE_ATTEMPT] = &attempt_record,     [STORE_LINE_EVENT] = &event_record,
    [STORE_LINE_RECEIPT] = &receipt_record,     [STORE_LINE_CHECKPOINT] = &checkpoint_record,
    [STORE_LINE_CELL] = &cell_record,           [STORE_LINE_CELL_VALUE] = &value_record,
    [STORE_LINE_TOMBSTONE] = &tombstone_record, [STORE_LINE_END] = &end_record,
};
const struct bl_record bl_store_line_record =
    BL_RECORD("session-line", struct store_line, line_members, .kinds = kinds,
              .about = "A line of the file: the session, an entry of it, or the end.");

void bl_store_line_take(struct bl_arena *arena, const struct bl_json *line,
                        const struct bl_json **ret_messages, const struct bl_json **ret_event)
{
    struct store_line found;

    bl_record_take(arena, &bl_store_line_record, line, &found);
    *ret_messages = found.type == STORE_LINE_TURN ? found.messages : NULL;
    *ret_event = found.type == STORE_LINE_EVENT ? found.json : NULL;
}
