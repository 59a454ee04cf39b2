/* Messages as JSON and back, and the images in them. */
#include <stdio.h>

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
    [BL_BLOCK_TEXT] = "text",      [BL_BLOCK_THINKING] = "thinking",
    [BL_BLOCK_CALL] = "tool_call", [BL_BLOCK_RESULT] = "tool_result",
    [BL_BLOCK_IMAGE] = "image",
};

static void conversation_write_call(struct bl_json_writer *writer, const struct bl_block *block)
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

static void conversation_write_block(struct bl_json_writer *writer, const struct bl_block *block)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", block_names[block->type]);
    switch (block->type) {
    case BL_BLOCK_TEXT:
    case BL_BLOCK_THINKING: bl_json_put_text(writer, "text", block->text); break;
    case BL_BLOCK_CALL: conversation_write_call(writer, block); break;
    case BL_BLOCK_RESULT:
        bl_json_put_text(writer, "id", block->id);
        bl_json_put_text(writer, "text", block->text);
        bl_json_put_boolean(writer, "is_error", block->is_error);
        break;
    case BL_BLOCK_IMAGE:
        bl_json_put_text(writer, "media_type", block->name);
        bl_json_put_text(writer, "data", block->text);
        if (block->id.size > 0)
            bl_json_put_text(writer, "id", block->id);
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
            conversation_write_block(writer, BL_CONTAINER(part, struct bl_block, link));
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* What the engine would not have kept is not read either: a provider would refuse it for ever. */
static bool conversation_read_image(const struct bl_json *value, const struct bl_message *message,
                                    struct bl_block *block)
{
    block->name = bl_json_text(bl_json_get(value, BL_TEXT("media_type")));
    block->text = bl_json_text(bl_json_get(value, BL_TEXT("data")));
    return message->role == BL_ROLE_USER && bl_image_problem(block) == NULL;
}

static bool conversation_read_block(struct bl_arena *arena, const struct bl_json *value,
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
        block->input = bl_json_value_text(arena, input);
    if (opaque != NULL)
        block->opaque = bl_json_value_text(arena, opaque);
    if (block->type == BL_BLOCK_IMAGE)
        return conversation_read_image(value, message, block);
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
        if (!conversation_read_block(arena, part, message))
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

/* ---- Images ---------------------------------------------------------------------------------- */

static const struct {
    struct bl_text name;
    size_t offset; /* where in the first bytes of a file the mark of its type stands */
    struct bl_text mark;
} image_types[] = {
    {BL_TEXT("image/png"), 0, BL_TEXT("\x89PNG")},
    {BL_TEXT("image/jpeg"), 0, BL_TEXT("\xFF\xD8\xFF")},
    {BL_TEXT("image/gif"), 0, BL_TEXT("GIF8")},
    {BL_TEXT("image/webp"), 8, BL_TEXT("WEBP")},
};

/* As many first bytes as show the type. */
#define FIRST_SIZE ((size_t)12)

/* Without what fills up the last four characters. */
static struct bl_text base64_digits(struct bl_text data)
{
    for (unsigned i = 0; i < 2 && bl_text_ends_with(data, BL_TEXT("=")); i++)
        data.size--;
    return data;
}

const char *bl_image_problem(const struct bl_block *image)
{
    size_t type = 0;

    while (type < BL_COUNT(image_types) && !bl_text_equal(image_types[type].name, image->name))
        type++;
    if (type == BL_COUNT(image_types))
        return "left out, models take png, jpeg, gif and webp";
    if (image->text.size > BL_IMAGE_SIZE_MAX)
        return "left out, larger than 5 MiB in base64";
    return bl_base64_valid(image->text) ? NULL : "left out, not base64";
}

/* A type as it may stand in a text. */
static struct bl_text shown_type(struct bl_text name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] <= ' ' || name.data[i] > '~' || name.data[i] == ']')
            return BL_TEXT("of unknown type");
    }
    return name.size > 0 && name.size <= 64 ? name : BL_TEXT("of unknown type");
}

struct bl_text bl_image_note(struct bl_arena *arena, const struct bl_block *image, const char *why)
{
    size_t digits = base64_digits(image->text).size;
    size_t bytes = digits / 4 * 3 + digits % 4 * 3 / 4;
    char size[32];

    if (bytes < 1024)
        snprintf(size, sizeof size, "%zu bytes", bytes);
    else if (bytes < (size_t)1024 * 1024)
        snprintf(size, sizeof size, "%zu KiB", (bytes + 1023) / 1024);
    else
        snprintf(size, sizeof size, "%.1f MiB", (double)bytes / (1024 * 1024));
    return bl_arena_printf(arena, "[image " BL_TEXT_FORMAT ", %s%s%s]",
                           BL_TEXT_ARG(shown_type(image->name)), size, why != NULL ? ": " : "",
                           why != NULL ? why : "");
}

/* The type that its first bytes show, where they show one: providers refuse an image that is said
 * to be another. */
static struct bl_text true_type(struct bl_arena *arena, const struct bl_block *image)
{
    struct bl_text start = {image->text.data, FIRST_SIZE / 3 * 4}, first;

    if (image->text.size < start.size || !bl_base64_decode(arena, start, &first) ||
        first.size < FIRST_SIZE)
        return image->name;
    for (size_t i = 0; i < BL_COUNT(image_types); i++) {
        struct bl_text mark = image_types[i].mark;
        if (memcmp(first.data + image_types[i].offset, mark.data, mark.size) == 0)
            return image_types[i].name;
    }
    return image->name;
}

/* A line more. */
static struct bl_text conversation_add_line(struct bl_arena *arena, struct bl_text text,
                                            struct bl_text line)
{
    bool begun = text.size > 0 && !bl_text_ends_with(text, BL_TEXT("\n"));

    return bl_arena_printf(arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(text),
                           begun ? "\n" : "", BL_TEXT_ARG(line));
}

struct bl_text turn_note_images(struct bl_arena *arena, const struct bl_list *images,
                                const char *why, struct bl_text text)
{
    if (images == NULL)
        return text;
    BL_LIST_EACH (link, images)
        text = conversation_add_line(
            arena, text, bl_image_note(arena, BL_CONTAINER(link, struct bl_block, link), why));
    return text;
}

struct bl_text turn_take_images(struct turn *turn, const struct bl_list *images, struct bl_text id,
                                struct bl_text text)
{
    struct bl_arena *arena = &turn->record->arena;

    if (images == NULL)
        return text;
    BL_LIST_EACH (link, images) {
        struct bl_block image = *BL_CONTAINER(link, struct bl_block, link);
        const char *problem = "this model takes none";
        image.name = true_type(arena, &image);
        if (turn->engine->model->takes_images)
            problem = bl_image_problem(&image);
        if (problem == NULL && turn->image_count >= BL_IMAGES_MAX)
            problem = "left out, a message has 20 at most";
        if (problem != NULL) {
            text = conversation_add_line(arena, text, bl_image_note(arena, &image, problem));
            continue;
        }
        struct bl_block *kept = bl_arena_zalloc(arena, sizeof *kept);
        *kept = (struct bl_block){.type = BL_BLOCK_IMAGE, .id = id};
        /* What a call made is in this arena; what came with the prompt is somebody else's. */
        kept->name = bl_arena_text(arena, image.name);
        kept->text = id.size > 0 ? image.text : bl_arena_text(arena, image.text);
        bl_list_push_back(&turn->images, &kept->link);
        turn->image_count++;
    }
    return text;
}

void turn_place_images(struct turn *turn, struct bl_message *message)
{
    struct bl_list *link;

    while (message != NULL && (link = bl_list_pop_front(&turn->images)) != NULL)
        bl_list_push_back(&message->blocks, link);
    turn->image_count = 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* The newest text of a user in a list of messages; data NULL: there is none. */
static struct bl_text conversation_newest_text(const struct bl_list *messages)
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
    struct bl_text text = conversation_newest_text(request->messages);

    if (text.data != NULL || request->session == NULL)
        return text;
    const struct bl_list *turns = &request->session->turns;
    for (struct bl_list *link = turns->previous; link != turns && text.data == NULL;
         link = link->previous)
        text = conversation_newest_text(&BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    return text;
}
