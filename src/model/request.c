#include "provider.h"

/* Limits for images in one request: servers refuse more. */
#define IMAGES_MAX       100u
#define IMAGES_BYTES_MAX ((uint64_t)24 * 1024 * 1024)
#define BYTES_PER_TOKEN  4u

/* ---- The conversation ------------------------------------------------------------------------ */

/* Servers refuse white space alone like an empty text. */
static bool is_worth_sending(const struct bl_block *block)
{
    if (block->type == BL_BLOCK_TEXT)
        return bl_text_trim(block->text).size > 0;
    return block->type != BL_BLOCK_THINKING || block->text.size > 0 || block->opaque.size > 0;
}

static bool model_request_is_object(struct bl_text text)
{
    BL_AUTO_ARENA(scratch);
    const struct bl_json *value;

    bool result =
        bl_json_read(&scratch, text, NULL, &value, NULL) == 0 && bl_json_is(value, BL_JSON_OBJECT);
    return result;
}

static struct bl_block *model_request_add_block(struct bl_arena *arena, struct bl_message *message,
                                                const struct bl_block *block)
{
    struct bl_block *copy = bl_block_add(arena, message, block->type);
    struct bl_list link = copy->link;

    *copy = *block;
    copy->link = link;
    return copy;
}

static void add_call(struct bl_arena *arena, struct bl_message *message,
                     const struct bl_block *block)
{
    struct bl_block *copy = model_request_add_block(arena, message, block);

    /* An invalid call of the model would be refused; its result says what was wrong. */
    if (copy->name.size == 0)
        copy->name = BL_TEXT("unknown");
    if (copy->input.size == 0 || (copy->is_invalid && !model_request_is_object(copy->input)))
        copy->input = BL_TEXT("{}");
}

/* Merges consecutive messages of one role: many servers require alternating roles. */
static void copy_messages(struct bl_arena *arena, const struct bl_list *from, struct bl_list *to)
{
    BL_LIST_EACH (link, from) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        struct bl_message *copy =
            bl_list_empty(to) ? NULL : BL_CONTAINER(to->previous, struct bl_message, link);
        if (copy != NULL && copy->role != message->role)
            copy = NULL;
        BL_LIST_EACH (part, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (!is_worth_sending(block))
                continue;
            if (copy == NULL)
                copy = bl_message_add(arena, to, message->role);
            if (block->type == BL_BLOCK_CALL)
                add_call(arena, copy, block);
            else
                model_request_add_block(arena, copy, block);
        }
    }
}

/* Takes the first result of that call out of the message; NULL if there is none. */
static struct bl_block *model_request_take_result(struct bl_message *message, struct bl_text id)
{
    BL_LIST_EACH (link, &message->blocks) {
        struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_RESULT && bl_text_equal(block->id, id)) {
            bl_list_remove(link);
            return block;
        }
    }
    return NULL;
}

/* Puts the results of the calls in `answer` (NULL if none) first in `message`, in the order of the
 * calls, one for each; drops results without a call. */
static void order_results(struct bl_arena *arena, const struct bl_message *answer,
                          struct bl_message *message)
{
    struct bl_message ordered = {.role = BL_ROLE_USER};
    struct bl_list *link;

    bl_list_init(&ordered.blocks);
    if (answer != NULL) {
        BL_LIST_EACH (part, &answer->blocks) {
            const struct bl_block *call = BL_CONTAINER(part, struct bl_block, link);
            if (call->type != BL_BLOCK_CALL)
                continue;
            struct bl_block *result = model_request_take_result(message, call->id);
            if (result == NULL) {
                result = bl_block_add(arena, &ordered, BL_BLOCK_RESULT);
                result->id = call->id;
                result->text = BL_TEXT("No result: the call was cut off.");
                result->is_error = true;
            } else {
                bl_list_push_back(&ordered.blocks, &result->link);
            }
            result->name = call->name;
        }
    }
    while ((link = bl_list_pop_front(&message->blocks)) != NULL) {
        if (BL_CONTAINER(link, struct bl_block, link)->type != BL_BLOCK_RESULT)
            bl_list_push_back(&ordered.blocks, link);
    }
    while ((link = bl_list_pop_front(&ordered.blocks)) != NULL)
        bl_list_push_back(&message->blocks, link);
}

bool model_has_block(const struct bl_message *message, enum bl_block_type type)
{
    BL_LIST_EACH (link, &message->blocks) {
        if (BL_CONTAINER(link, struct bl_block, link)->type == type)
            return true;
    }
    return false;
}

/* Gives every call exactly one result, in the message that follows it. */
static void match_results(struct bl_arena *arena, struct bl_list *messages)
{
    const struct bl_message *answer = NULL;

    BL_LIST_EACH_SAFE (link, messages) {
        struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (message->role == BL_ROLE_ASSISTANT) {
            answer = message;
            if (link_next != messages || !model_has_block(message, BL_BLOCK_CALL))
                continue;
            message = bl_message_add(arena, messages, BL_ROLE_USER);
        }
        order_results(arena, answer, message);
        answer = NULL;
        if (bl_list_empty(&message->blocks))
            bl_list_remove(&message->link);
    }
}

/* ---- Images ---------------------------------------------------------------------------------- */

bool model_takes_images(enum bl_api api, const struct bl_profile *profile)
{
    return profile->images_chosen ? profile->images : model_api_find(api)->images;
}

struct bl_text model_image_url(struct bl_arena *arena, const struct bl_block *image)
{
    return bl_arena_printf(arena, "data:" BL_TEXT_FORMAT ";base64," BL_TEXT_FORMAT,
                           BL_TEXT_ARG(image->name), BL_TEXT_ARG(image->text));
}

struct bl_text model_image_owner(struct bl_arena *arena, const struct bl_block *image,
                                 struct bl_text call_id)
{
    if (image->id.size == 0)
        return (struct bl_text){0};
    return bl_arena_printf(arena, "Image from the result of " BL_TEXT_FORMAT ":",
                           BL_TEXT_ARG(call_id));
}

/* Replaces an image by a line of text. */
static void replace_image(struct bl_arena *arena, struct bl_block *block, const char *why)
{
    struct bl_text note = bl_image_note(arena, block, why);

    block->type = BL_BLOCK_TEXT;
    block->text = note;
    block->name = block->id = (struct bl_text){0};
}

/* Keeps as many of the newest images as may be sent. */
static void settle_images(const struct model_build *build, struct bl_list *messages)
{
    bool takes = model_takes_images(build->provider->api, build->profile);
    struct model_images sent = {0};

    for (struct bl_list *link = messages->previous; link != messages; link = link->previous) {
        struct bl_list *blocks = &BL_CONTAINER(link, struct bl_message, link)->blocks;
        for (struct bl_list *part = blocks->previous; part != blocks; part = part->previous) {
            struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type != BL_BLOCK_IMAGE)
                continue;
            if (!takes) {
                replace_image(build->arena, block, "this model does not accept images");
            } else if (sent.count >= IMAGES_MAX ||
                       sent.bytes + block->text.size > IMAGES_BYTES_MAX) {
                replace_image(build->arena, block, "left out in favour of newer images");
                sent.bytes = IMAGES_BYTES_MAX; /* older ones are left out, too */
            } else {
                sent.count++;
                sent.bytes += block->text.size;
            }
        }
    }
    if (build->sent != NULL)
        *build->sent = sent;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* An answer that is to be continued must not end in white space. */
static void trim_last(struct bl_list *messages)
{
    if (bl_list_empty(messages))
        return;
    struct bl_message *message = BL_CONTAINER(messages->previous, struct bl_message, link);
    if (message->role != BL_ROLE_ASSISTANT)
        return;
    struct bl_block *block = BL_CONTAINER(message->blocks.previous, struct bl_block, link);
    if (block->type != BL_BLOCK_TEXT)
        return;
    size_t before = (size_t)(bl_text_trim(block->text).data - block->text.data);
    block->text.size = before + bl_text_trim(block->text).size;
}

void model_conversation(const struct model_build *build, struct bl_list *ret_messages)
{
    const struct bl_request *request = build->request;
    struct bl_arena *arena = build->arena;
    uint64_t skip = request->turns_skipped;

    bl_list_init(ret_messages);
    if (request->summary != NULL)
        copy_messages(arena, &request->summary->messages, ret_messages);
    if (request->session != NULL) {
        BL_LIST_EACH (link, &request->session->turns) {
            if (skip > 0)
                skip--;
            else
                copy_messages(arena, &BL_CONTAINER(link, struct bl_turn_record, link)->messages,
                              ret_messages);
        }
    }
    if (request->messages != NULL)
        copy_messages(arena, request->messages, ret_messages);
    settle_images(build, ret_messages);
    match_results(arena, ret_messages);
    trim_last(ret_messages);
}

struct bl_text model_schema_instruction(struct bl_arena *arena, const struct bl_request *request)
{
    if (request->schema.size == 0)
        return (struct bl_text){0};
    return bl_arena_printf(
        arena,
        "The final answer must be a single JSON value that conforms to this JSON Schema, "
        "without other text and without a code fence:\n" BL_TEXT_FORMAT,
        BL_TEXT_ARG(request->schema));
}

struct bl_text model_join_texts(struct bl_arena *arena, const struct bl_message *message,
                                enum bl_block_type type)
{
    BL_AUTO_BUFFER(joined, SIZE_MAX / 2);
    struct bl_text only = {0};
    size_t count = 0;

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != type || block->text.size == 0)
            continue;
        only = block->text;
        if (count++ > 0)
            bl_buffer_append(&joined, BL_TEXT("\n\n"));
        bl_buffer_append(&joined, block->text);
    }
    return count > 1 ? bl_arena_text(arena, bl_buffer_text(&joined)) : only;
}

struct bl_http_header model_bearer(struct bl_arena *arena, const char *key)
{
    return (struct bl_http_header){BL_TEXT("authorization"),
                                   bl_arena_printf(arena, "Bearer %s", key)};
}

/* ---- Its size -------------------------------------------------------------------------------- */

static uint64_t model_request_messages_bytes(const struct bl_list *messages)
{
    uint64_t bytes = 0;

    BL_LIST_EACH (link, messages) {
        BL_LIST_EACH (part, &BL_CONTAINER(link, struct bl_message, link)->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type == BL_BLOCK_IMAGE)
                bytes += (uint64_t)BL_IMAGE_TOKENS * BYTES_PER_TOKEN;
            else
                bytes += block->text.size + block->id.size + block->name.size + block->input.size +
                         block->opaque.size;
        }
    }
    return bytes;
}

uint64_t model_request_bytes(const struct bl_request *request)
{
    uint64_t bytes = request->system.size + request->schema.size;
    uint64_t skip = request->turns_skipped;

    for (size_t i = 0; i < request->tool_count; i++) {
        const struct bl_tool_offer *tool = &request->tools[i];
        bytes += bl_text_from(tool->name).size + bl_text_from(tool->description).size +
                 tool->schema.size;
    }
    if (request->summary != NULL)
        bytes += model_request_messages_bytes(&request->summary->messages);
    if (request->session != NULL) {
        BL_LIST_EACH (link, &request->session->turns) {
            if (skip > 0)
                skip--;
            else
                bytes += model_request_messages_bytes(
                    &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
        }
    }
    return request->messages != NULL ? bytes + model_request_messages_bytes(request->messages)
                                     : bytes;
}
