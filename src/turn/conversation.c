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

/* ---- As JSON --------------------------------------------------------------------------------- */

static const char *const role_names[] = {
    [BL_ROLE_USER] = "user",
    [BL_ROLE_ASSISTANT] = "assistant",
};
static const struct bl_names roles = BL_NAMES(role_names);
static const char *const block_names[] = {
    [BL_BLOCK_TEXT] = "text",      [BL_BLOCK_THINKING] = "thinking",
    [BL_BLOCK_CALL] = "tool_call", [BL_BLOCK_RESULT] = "tool_result",
    [BL_BLOCK_IMAGE] = "image",
};
static const struct bl_names block_types = BL_NAMES(block_names);

#define BL_RECORD_STRUCT struct bl_block
static const struct bl_member text_members[] = {
    BL_MEMBER_TEXT("text", text),
    BL_MEMBER_END,
};
static const struct bl_member call_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1),
    BL_MEMBER_TEXT("name", name, .about = "Name of the tool."),
    BL_MEMBER_RAW("input", input, .either = true, .object = true, BL_UNLESS(is_invalid)),
    BL_MEMBER_TEXT("input_text", input, .either = true, BL_KNOWN(is_invalid),
                   .about = "The input of an invalid call, as received."),
    BL_MEMBER_TEXT("invalid", invalid, .optional = true, .about = "Why the call is invalid."),
    BL_MEMBER_END,
};
static const struct bl_member result_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1, .about = "Id of the call."),
    BL_MEMBER_TEXT("text", text),
    BL_MEMBER_BOOLEAN("is_error", is_error),
    BL_MEMBER_END,
};
static const struct bl_member image_members[] = {
    BL_MEMBER_TEXT("media_type", name),
    BL_MEMBER_TEXT("data", text, .about = "Base64."),
    BL_MEMBER_TEXT("id", id, .optional = true,
                   .about = "Id of the call whose result contains the image."),
    BL_MEMBER_END,
};
static const struct bl_member block_members[] = {
    BL_MEMBER_ENUM("type", type, &block_types),
    BL_MEMBER_RAW("opaque", opaque, .optional = true,
                  .about = "Sent back to the provider unchanged."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static bool conversation_call_fits(const void *record, struct bl_record_fault *fault BL_UNUSED)
{
    const struct bl_block *call = record;
    return call->is_invalid == (call->invalid.size > 0);
}

/* An image that the engine would not keep is not read either: providers would refuse it every
 * time. */
static bool conversation_image_fits(const void *record, struct bl_record_fault *fault BL_UNUSED)
{
    return bl_image_problem(record) == NULL;
}

static const struct bl_record text_record =
    BL_RECORD_GROUP("block_text", text_members, .about = "Text of a message.");
static const struct bl_record thinking_record =
    BL_RECORD_GROUP("block_thinking", text_members, .about = "Thinking of the model.");
static const struct bl_record call_record = BL_RECORD_GROUP(
    "block_tool_call", call_members, .rule = conversation_call_fits, .about = "A tool call.");
static const struct bl_record result_record =
    BL_RECORD_GROUP("block_tool_result", result_members, .about = "The result of a call.");
static const struct bl_record image_record =
    BL_RECORD_GROUP("block_image", image_members, .rule = conversation_image_fits,
                    .about = "An image; only in a user's message.");
static const struct bl_record *const block_kinds[] = {
    [BL_BLOCK_TEXT] = &text_record,   [BL_BLOCK_THINKING] = &thinking_record,
    [BL_BLOCK_CALL] = &call_record,   [BL_BLOCK_RESULT] = &result_record,
    [BL_BLOCK_IMAGE] = &image_record,
};
static const struct bl_record block_record =
    BL_RECORD("block", struct bl_block, block_members, .kinds = block_kinds);

static bool conversation_message_fits(const void *record, struct bl_record_fault *fault BL_UNUSED)
{
    const struct bl_message *message = record;

    BL_LIST_EACH (link, &message->blocks) {
        if (BL_CONTAINER(link, struct bl_block, link)->type == BL_BLOCK_IMAGE &&
            message->role != BL_ROLE_USER)
            return false;
    }
    return true;
}

#define BL_RECORD_STRUCT struct bl_message
static const struct bl_member message_members[] = {
    BL_MEMBER_ENUM("role", role, &roles),
    BL_MEMBER_LIST("content", blocks, &block_record, struct bl_block, link),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_message_record =
    BL_RECORD("message", struct bl_message, message_members, .rule = conversation_message_fits);

void bl_messages_write(struct bl_json_writer *writer, const struct bl_list *messages)
{
    bl_json_write_array(writer);
    BL_LIST_EACH (link, messages)
        bl_record_write(writer, &bl_message_record, BL_CONTAINER(link, struct bl_message, link));
    bl_json_write_end(writer);
}

int bl_messages_read(struct bl_arena *arena, struct bl_text json, struct bl_list *messages)
{
    /* A whole turn may be larger than JSON from outside. */
    struct bl_json_limits limits = {.size_max = TURN_JSON_MAX, .string_max = TURN_JSON_MAX};
    const struct bl_json *value;
    struct bl_list read;

    int code = bl_json_read(arena, json, &limits, &value, NULL);
    if (code != 0)
        return code;
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return BL_EPARSE;
    bl_list_init(&read);
    BL_JSON_EACH (element, value) {
        struct bl_message *message = bl_arena_alloc(arena, sizeof *message);
        code = bl_record_view(arena, &bl_message_record, element, message, NULL);
        if (code != 0)
            return code;
        bl_list_push_back(&read, &message->link);
    }
    struct bl_list *link;
    while ((link = bl_list_pop_front(&read)) != NULL)
        bl_list_push_back(messages, link);
    return 0;
}

/* ---- Images ---------------------------------------------------------------------------------- */

static const struct {
    struct bl_text name;
    size_t offset; /* of the type's magic bytes in the file */
    struct bl_text mark;
} image_types[] = {
    {BL_TEXT("image/png"), 0, BL_TEXT("\x89PNG")},
    {BL_TEXT("image/jpeg"), 0, BL_TEXT("\xFF\xD8\xFF")},
    {BL_TEXT("image/gif"), 0, BL_TEXT("GIF8")},
    {BL_TEXT("image/webp"), 8, BL_TEXT("WEBP")},
};

/* Bytes that are enough to show the type. */
#define FIRST_SIZE ((size_t)12)

/* Removes the padding. */
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
        return "left out, models accept png, jpeg, gif and webp";
    if (image->text.size > BL_IMAGE_SIZE_MAX)
        return "left out, larger than 5 MiB in base64";
    return bl_base64_valid(image->text) ? NULL : "left out, invalid base64";
}

/* Returns a type that is safe to show in a text. */
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

struct bl_text bl_image_type(struct bl_text bytes)
{
    for (size_t i = 0; bytes.size >= FIRST_SIZE && i < BL_COUNT(image_types); i++) {
        struct bl_text mark = image_types[i].mark;
        if (memcmp(bytes.data + image_types[i].offset, mark.data, mark.size) == 0)
            return image_types[i].name;
    }
    return (struct bl_text){0};
}

/* Returns the type that the first bytes show, if any: providers refuse an image of another type
 * than declared. */
static struct bl_text true_type(struct bl_arena *arena, const struct bl_block *image)
{
    struct bl_text start = {image->text.data, FIRST_SIZE / 3 * 4}, first;

    if (image->text.size < start.size || !bl_base64_decode(arena, start, &first))
        return image->name;
    struct bl_text type = bl_image_type(first);
    return type.size > 0 ? type : image->name;
}

/* Appends a line. */
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
        const char *problem = "this model does not accept images";
        image.name = true_type(arena, &image);
        if (turn->engine->model->takes_images)
            problem = bl_image_problem(&image);
        if (problem == NULL && turn->image_count >= BL_IMAGES_MAX)
            problem = "left out, at most 20 images per message";
        if (problem != NULL) {
            text = conversation_add_line(arena, text, bl_image_note(arena, &image, problem));
            continue;
        }
        struct bl_block *kept = bl_arena_zalloc(arena, sizeof *kept);
        *kept = (struct bl_block){.type = BL_BLOCK_IMAGE, .id = id};
        /* Images of a call are in this arena; those of the prompt belong to the caller. */
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

/* Returns the newest text of a user in a list of messages; data NULL if there is none. */
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
