/* Requests in the format of Anthropic's Messages. decode.c reads the answers. */
#include "anthropic.h"

#define VERSION             "2023-06-01"
#define OUTPUT_TOKENS       8192u
#define BUDGET_TOKENS_LEAST 1024u /* a smaller budget is refused */
#define NAME_SIZE_MAX       64u

static size_t anthropic_write_headers(const struct bl_provider *provider, struct bl_arena *arena,
                                      struct bl_http_header *out)
{
    size_t count = 0;

    if (provider->key != NULL && provider->key_is_token)
        out[count++] = model_bearer(arena, provider->key);
    else if (provider->key != NULL)
        out[count++] = (struct bl_http_header){BL_TEXT("x-api-key"), bl_text_from(provider->key)};
    out[count++] = (struct bl_http_header){BL_TEXT("anthropic-version"), BL_TEXT(VERSION)};
    if (provider->beta != NULL)
        out[count++] =
            (struct bl_http_header){BL_TEXT("anthropic-beta"), bl_text_from(provider->beta)};
    return count;
}

/* ---- Thinking -------------------------------------------------------------------------------- */

static uint64_t anthropic_output_limit(const struct model_build *build)
{
    return build->max_output_tokens > 0 ? build->max_output_tokens : OUTPUT_TOKENS;
}

/* Returns the part of the output limit for thinking; 0: thinking is off. */
static uint64_t thinking_budget(const struct model_build *build)
{
    uint64_t limit = anthropic_output_limit(build), budget = build->profile->thinking_tokens;

    if (limit <= BUDGET_TOKENS_LEAST)
        return 0;
    switch (build->profile->thinking) {
    case BL_EFFORT_DEFAULT:
    case BL_EFFORT_NONE:
    case BL_EFFORT_ADAPTIVE: return 0;
    case BL_EFFORT_LOW: budget = budget > 0 ? budget : 2048; break;
    case BL_EFFORT_MEDIUM: budget = budget > 0 ? budget : 8192; break;
    case BL_EFFORT_HIGH: budget = budget > 0 ? budget : 24576; break;
    }
    /* Leave some tokens for the answer. */
    if (budget > limit - limit / 4)
        budget = limit - limit / 4;
    return budget > BUDGET_TOKENS_LEAST ? budget : BUDGET_TOKENS_LEAST;
}

static void write_thinking(const struct model_build *build, struct bl_json_writer *writer)
{
    uint64_t budget = thinking_budget(build);
    bool adaptive = build->profile->thinking == BL_EFFORT_ADAPTIVE ||
                    (budget > 0 && build->compat->thinking_adaptive);

    if (budget == 0 && !adaptive)
        return;
    bl_json_write_key(writer, BL_TEXT("thinking"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", adaptive ? "adaptive" : "enabled");
    if (!adaptive)
        bl_json_put_uint64(writer, "budget_tokens", budget);
    bl_json_write_end(writer);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static struct bl_text block_json(struct bl_arena *arena, const struct bl_block *block,
                                 const struct bl_json *signature)
{
    BL_AUTO_BUFFER(out, BL_WIRE_REQUEST_MAX);
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "thinking");
    bl_json_put_text(&writer, "thinking", block->text);
    bl_json_write_key(&writer, BL_TEXT("signature"));
    bl_json_write_value(&writer, signature);
    bl_json_write_end(&writer);
    struct bl_text text = {0};
    if (bl_json_writer_done(&writer) == 0)
        text = bl_arena_text(arena, bl_buffer_text(&out));
    return text;
}

/* Returns a thinking block as it is sent back, or nothing: thinking of other models is meaningless
 * here, and none is needed if the model must not think. */
static struct bl_text thinking_json(const struct model_build *build, const struct bl_block *block)
{
    bool thinks = build->profile->thinking != BL_EFFORT_NONE;
    const struct bl_json *value = model_opaque_find(build->arena, block->opaque, build->provider,
                                                    build->profile, "signature");

    if (value != NULL)
        return thinks ? block_json(build->arena, block, value) : (struct bl_text){0};
    value =
        model_opaque_find(build->arena, block->opaque, build->provider, build->profile, "block");
    if (value == NULL ||
        (!thinks && bl_text_equal(model_member(value, "type"), BL_TEXT("redacted_thinking"))))
        return (struct bl_text){0};
    return model_json_text(build->arena, value);
}

/* Sets `opaque` of each thinking block to the JSON to write for it. Removes blocks that are not
 * sent back, and messages that become empty. */
static void settle_thinking(const struct model_build *build, struct bl_list *messages)
{
    BL_LIST_EACH_SAFE (link, messages) {
        struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        BL_LIST_EACH_SAFE (part, &message->blocks) {
            struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (block->type != BL_BLOCK_THINKING)
                continue;
            block->opaque = thinking_json(build, block);
            if (block->opaque.size == 0)
                bl_list_remove(part);
        }
        if (bl_list_empty(&message->blocks))
            bl_list_remove(link);
    }
}

/* Replaces characters of ids and names of other servers that this one refuses: it accepts letters,
 * digits, _ and -. */
static struct bl_text plain_name(struct bl_arena *arena, struct bl_text text, bool is_id)
{
    static const uint64_t key[2] = {0, 0};
    struct bl_text plain = bl_arena_text(arena, text);
    bool changed = text.size > NAME_SIZE_MAX;

    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';
        if (!fine)
            ((char *)(uintptr_t)plain.data)[i] = '_';
        changed = changed || !fine;
    }
    if (plain.size > NAME_SIZE_MAX - 17)
        plain.size = changed ? NAME_SIZE_MAX - 17 : plain.size;
    /* Two ids must stay different. */
    if (changed && is_id)
        plain = bl_arena_printf(arena, BL_TEXT_FORMAT "_%016llx", BL_TEXT_ARG(plain),
                                (unsigned long long)bl_hash(key, text));
    return plain;
}

static void write_cache_mark(struct bl_json_writer *writer)
{
    bl_json_put_json(writer, "cache_control", BL_TEXT("{\"type\":\"ephemeral\"}"));
}

/* Returns the result that contains the image; NULL if it is in the message itself. A result that is
 * an error contains only text. */
static const struct bl_block *result_of(const struct bl_message *message,
                                        const struct bl_block *image)
{
    if (image->type != BL_BLOCK_IMAGE || image->id.size == 0)
        return NULL;
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_RESULT && bl_text_equal(block->id, image->id))
            return block->is_error ? NULL : block;
    }
    return NULL;
}

static void put_image(struct bl_json_writer *writer, const struct bl_block *block)
{
    bl_json_put_string(writer, "type", "image");
    bl_json_write_key(writer, BL_TEXT("source"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "base64");
    bl_json_put_text(writer, "media_type", block->name);
    bl_json_put_text(writer, "data", block->text);
    bl_json_write_end(writer);
}

static void anthropic_put_text(struct bl_json_writer *writer, struct bl_text text)
{
    bl_json_put_string(writer, "type", "text");
    bl_json_put_text(writer, "text", text);
}

/* Writes one text, or, with images, a list of the text and the images. */
static void write_result_content(struct bl_json_writer *writer, const struct bl_message *message,
                                 const struct bl_block *result)
{
    bool listed = false;

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (result_of(message, block) != result)
            continue;
        if (!listed) {
            listed = true;
            bl_json_write_key(writer, BL_TEXT("content"));
            bl_json_write_array(writer);
            if (bl_text_trim(result->text).size > 0) {
                bl_json_write_object(writer);
                anthropic_put_text(writer, result->text);
                bl_json_write_end(writer);
            }
        }
        bl_json_write_object(writer);
        put_image(writer, block);
        bl_json_write_end(writer);
    }
    if (listed)
        bl_json_write_end(writer);
    else if (result->text.size > 0)
        bl_json_put_text(writer, "content", result->text);
}

static void anthropic_write_block(const struct model_build *build, struct bl_json_writer *writer,
                                  const struct bl_message *message, const struct bl_block *block,
                                  bool marked)
{
    if (block->type == BL_BLOCK_THINKING) {
        bl_json_write_raw(writer, block->opaque);
        return;
    }
    bl_json_write_object(writer);
    /* An image outside of its result needs a line that names its call. */
    if (block->type == BL_BLOCK_IMAGE && block->id.size > 0) {
        anthropic_put_text(writer, model_image_owner(build->arena, block,
                                                     plain_name(build->arena, block->id, true)));
        bl_json_write_end(writer);
        bl_json_write_object(writer);
    }
    if (block->type == BL_BLOCK_TEXT) {
        anthropic_put_text(writer, block->text);
    } else if (block->type == BL_BLOCK_IMAGE) {
        put_image(writer, block);
    } else if (block->type == BL_BLOCK_CALL) {
        bl_json_put_string(writer, "type", "tool_use");
        bl_json_put_text(writer, "id", plain_name(build->arena, block->id, true));
        bl_json_put_text(writer, "name", plain_name(build->arena, block->name, false));
        bl_json_put_json(writer, "input", block->input);
    } else {
        bl_json_put_string(writer, "type", "tool_result");
        bl_json_put_text(writer, "tool_use_id", plain_name(build->arena, block->id, true));
        write_result_content(writer, message, block);
        bl_json_put_boolean(writer, "is_error", block->is_error);
    }
    if (marked)
        write_cache_mark(writer);
    bl_json_write_end(writer);
}

/* Returns the last block of the user's newest message that is not part of another block; NULL if
 * there is none. */
static const struct bl_block *newest_user_block(const struct bl_list *messages)
{
    for (const struct bl_list *link = messages->previous; link != messages; link = link->previous) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (message->role != BL_ROLE_USER)
            continue;
        const struct bl_list *part = message->blocks.previous;
        while (result_of(message, BL_CONTAINER(part, struct bl_block, link)) != NULL)
            part = part->previous;
        return BL_CONTAINER(part, struct bl_block, link);
    }
    return NULL;
}

static void anthropic_write_messages(const struct model_build *build, struct bl_json_writer *writer)
{
    struct bl_list messages;

    model_conversation(build, &messages);
    settle_thinking(build, &messages);
    const struct bl_block *newest = newest_user_block(&messages);
    bl_json_write_key(writer, BL_TEXT("messages"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        bl_json_write_object(writer);
        bl_json_put_string(writer, "role", message->role == BL_ROLE_USER ? "user" : "assistant");
        bl_json_write_key(writer, BL_TEXT("content"));
        bl_json_write_array(writer);
        BL_LIST_EACH (part, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            if (result_of(message, block) == NULL)
                anthropic_write_block(build, writer, message, block, block == newest);
        }
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    if (build->resumed.size > 0) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "role", "assistant");
        bl_json_put_json(writer, "content", build->resumed);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void anthropic_write_system(const struct model_build *build, struct bl_json_writer *writer)
{
    struct bl_text texts[2] = {build->request->system,
                               model_schema_instruction(build->arena, build->request)};
    size_t last = texts[1].size > 0 ? 1 : 0;

    if (bl_text_trim(texts[last]).size == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("system"));
    bl_json_write_array(writer);
    for (size_t i = 0; i <= last; i++) {
        if (bl_text_trim(texts[i]).size == 0)
            continue;
        bl_json_write_object(writer);
        bl_json_put_string(writer, "type", "text");
        bl_json_put_text(writer, "text", texts[i]);
        if (i == last)
            write_cache_mark(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void anthropic_write_tools(const struct bl_request *request, struct bl_json_writer *writer)
{
    if (request->tool_count == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("tools"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < request->tool_count; i++) {
        const struct bl_tool_offer *tool = &request->tools[i];
        bl_json_write_object(writer);
        bl_json_put_string(writer, "name", tool->name);
        if (tool->description != NULL)
            bl_json_put_string(writer, "description", tool->description);
        bl_json_put_json(writer, "input_schema",
                         tool->schema.size > 0 ? tool->schema : BL_TEXT("{\"type\":\"object\"}"));
        if (i + 1 == request->tool_count)
            write_cache_mark(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_put_json(writer, "tool_choice",
                     request->tools_forbidden ? BL_TEXT("{\"type\":\"none\"}")
                                              : BL_TEXT("{\"type\":\"auto\"}"));
}

static int anthropic_write_body(const struct model_build *build, struct bl_json_writer *writer,
                                struct bl_error *error BL_UNUSED)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "model", build->profile->model);
    if (!build->count_only) {
        bl_json_put_uint64(writer, "max_tokens", anthropic_output_limit(build));
        bl_json_put_boolean(writer, "stream", true);
    }
    anthropic_write_system(build, writer);
    anthropic_write_messages(build, writer);
    anthropic_write_tools(build->request, writer);
    write_thinking(build, writer);
    bl_json_write_end(writer);
    return 0;
}

const struct model_api model_api_anthropic = {
    .api = BL_API_ANTHROPIC,
    .images = true,
    .path = "/v1/messages",
    .default_max_output_tokens = OUTPUT_TOKENS,
    .headers = anthropic_write_headers,
    .build = anthropic_write_body,
    .feed = anthropic_feed,
    .whole = anthropic_whole,
    .finish = anthropic_finish,
    .classify = model_failure_read,
};

bool model_anthropic_learn(struct bl_text message, struct bl_compat *compat)
{
    if (compat->thinking_adaptive || bl_text_find(message, BL_TEXT("thinking")) < 0 ||
        bl_text_find(message, BL_TEXT("adaptive")) < 0)
        return false;
    compat->thinking_adaptive = true;
    return true;
}
