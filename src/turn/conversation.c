#include "parts.h"

struct bl_message *bl_message_add(struct bl_arena *arena, struct bl_list *messages,
                                  enum bl_role role)
{
    struct bl_message *message = bl_arena_alloc(arena, sizeof *message);

    message->role = role;
    bl_list_init(&message->blocks);
    bl_list_push_back(messages, &message->link);
    return message;
}

struct bl_block *bl_block_add(struct bl_arena *arena, struct bl_message *message,
                              enum bl_block_type type)
{
    struct bl_block *block = bl_arena_zalloc(arena, sizeof *block);

    block->type = type;
    bl_list_push_back(&message->blocks, &block->link);
    return block;
}

static const char *const block_names[] = {
    [BL_BLOCK_TEXT] = "text",
    [BL_BLOCK_THINKING] = "thinking",
    [BL_BLOCK_CALL] = "tool_call",
    [BL_BLOCK_RESULT] = "tool_result",
};

static void write_call(struct bl_json_writer *writer, const struct bl_block *block)
{
    bl_json_put_text(writer, "id", block->id);
    bl_json_put_text(writer, "name", block->name);
    /* What could not be read is kept as it came. */
    if (block->invalid.size > 0) {
        bl_json_put_text(writer, "input_text", block->input);
        bl_json_put_text(writer, "invalid", block->invalid);
    } else {
        bl_json_put_json(writer, "input", block->input);
    }
}

static void write_block(struct bl_json_writer *writer, const struct bl_block *block)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", block_names[block->type]);
    switch (block->type) {
    case BL_BLOCK_TEXT:
    case BL_BLOCK_THINKING: bl_json_put_text(writer, "text", block->text); break;
    case BL_BLOCK_CALL: write_call(writer, block); break;
    case BL_BLOCK_RESULT:
        bl_json_put_text(writer, "id", block->id);
        bl_json_put_text(writer, "text", block->text);
        bl_json_put_boolean(writer, "is_error", block->is_error);
        break;
    }
    if (block->opaque.size > 0)
        bl_json_put_json(writer, "opaque", block->opaque);
    bl_json_write_end(writer);
}

void bl_messages_write(struct bl_json_writer *writer, const struct bl_list *messages)
{
    bl_json_write_array(writer);
    BL_LIST_EACH (link, messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        bl_json_write_object(writer);
        bl_json_put_string(writer, "role", message->role == BL_ROLE_USER ? "user" : "assistant");
        bl_json_write_key(writer, BL_TEXT("content"));
        bl_json_write_array(writer);
        BL_LIST_EACH (part, &message->blocks)
            write_block(writer, BL_CONTAINER(part, struct bl_block, link));
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* A value as text of its own, in the arena. */
static struct bl_text value_text(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_buffer out;
    struct bl_json_writer writer;

    bl_buffer_init(&out, TURN_JSON_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, value);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

static bool read_block(struct bl_arena *arena, const struct bl_json *value,
                       struct bl_message *message)
{
    struct bl_text name = bl_json_text(bl_json_get(value, BL_TEXT("type")));
    const struct bl_json *input = bl_json_get(value, BL_TEXT("input"));
    const struct bl_json *opaque = bl_json_get(value, BL_TEXT("opaque"));
    size_t type = 0;

    while (type < BL_COUNT(block_names) && !bl_text_equal(bl_text_from(block_names[type]), name))
        type++;
    if (type == BL_COUNT(block_names))
        return false;
    struct bl_block *block = bl_block_add(arena, message, (enum bl_block_type)type);
    block->text = bl_json_text(bl_json_get(value, BL_TEXT("text")));
    block->id = bl_json_text(bl_json_get(value, BL_TEXT("id")));
    block->name = bl_json_text(bl_json_get(value, BL_TEXT("name")));
    block->invalid = bl_json_text(bl_json_get(value, BL_TEXT("invalid")));
    block->is_error = bl_json_boolean(bl_json_get(value, BL_TEXT("is_error")), false);
    block->input = bl_json_text(bl_json_get(value, BL_TEXT("input_text")));
    if (input != NULL)
        block->input = value_text(arena, input);
    if (opaque != NULL)
        block->opaque = value_text(arena, opaque);
    bool is_call = block->type == BL_BLOCK_CALL;
    if (is_call && block->invalid.size == 0 && !bl_json_is(input, BL_JSON_OBJECT))
        return false;
    return block->id.size > 0 || (!is_call && block->type != BL_BLOCK_RESULT);
}

static bool read_message(struct bl_arena *arena, const struct bl_json *value,
                         struct bl_list *messages)
{
    struct bl_text role = bl_json_text(bl_json_get(value, BL_TEXT("role")));
    const struct bl_json *content = bl_json_get(value, BL_TEXT("content"));
    bool is_user = bl_text_equal(role, BL_TEXT("user"));

    if (!is_user && !bl_text_equal(role, BL_TEXT("assistant")))
        return false;
    if (!bl_json_is(content, BL_JSON_ARRAY))
        return false;
    struct bl_message *message =
        bl_message_add(arena, messages, is_user ? BL_ROLE_USER : BL_ROLE_ASSISTANT);
    BL_JSON_EACH (part, content) {
        if (!read_block(arena, part, message))
            return false;
    }
    return true;
}

int bl_messages_read(struct bl_arena *arena, struct bl_text json, struct bl_list *messages)
{
    /* A whole turn may be larger than what a stranger may send us. */
    struct bl_json_limits limits = {.size_max = TURN_JSON_MAX, .string_max = TURN_JSON_MAX};
    const struct bl_json *value;
    struct bl_list read;

    int code = bl_json_read(arena, json, &limits, &value, NULL);
    if (code != 0)
        return code;
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return BL_EPARSE;
    bl_list_init(&read);
    BL_JSON_EACH (message, value) {
        if (!read_message(arena, message, &read))
            return BL_EPARSE;
    }
    struct bl_list *link;
    while ((link = bl_list_pop_front(&read)) != NULL)
        bl_list_push_back(messages, link);
    return 0;
}

/* ---- Requests ---------------------------------------------------------------------------------
 */

/* The newest text of a user in a list of messages; data NULL: there is none. */
static struct bl_text newest_text(const struct bl_list *messages)
{
    for (struct bl_list *link = messages->previous; link != messages; link = link->previous) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (message->role != BL_ROLE_USER)
            continue;
        for (struct bl_list *part = message->blocks.previous; part != &message->blocks;
             part = part->previous) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type == BL_BLOCK_TEXT)
                return block->text;
        }
    }
    return (struct bl_text){0};
}

struct bl_text bl_request_newest_text(const struct bl_request *request)
{
    struct bl_text text = newest_text(request->messages);

    if (text.data != NULL || request->session == NULL)
        return text;
    const struct bl_list *turns = &request->session->turns;
    for (struct bl_list *link = turns->previous; link != turns && text.data == NULL;
         link = link->previous)
        text = newest_text(&BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    return text;
}
