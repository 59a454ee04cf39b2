/* Requests to POST {base}/chat/completions, learning from a server's refusal, and the parts that
 * both formats of OpenAI share. */
#include "openai.h"

#include <ctype.h>

/* Longest id in `tool_calls` that servers accept. */
#define CALL_ID_MAX 40u

size_t openai_headers(const struct bl_provider *provider, struct bl_arena *arena,
                      struct bl_http_header *out)
{
    size_t count = 0;

    if (provider->key != NULL && provider->key[0] != '\0')
        out[count++] = model_bearer(arena, provider->key);
    if (provider->organization != NULL && provider->organization[0] != '\0')
        out[count++] = (struct bl_http_header){BL_TEXT("openai-organization"),
                                               bl_text_from(provider->organization)};
    return count;
}

const char *openai_effort(enum bl_effort effort)
{
    switch (effort) {
    case BL_EFFORT_NONE: return "none";
    case BL_EFFORT_LOW: return "low";
    case BL_EFFORT_MEDIUM: return "medium";
    case BL_EFFORT_HIGH: return "high";
    case BL_EFFORT_DEFAULT:
    case BL_EFFORT_ADAPTIVE: break;
    }
    return NULL;
}

struct bl_text openai_call_id(struct bl_arena *arena, struct bl_text id, size_t size_max)
{
    static const uint64_t keys[2][2] = {{1, 2}, {3, 4}};

    if (id.size <= size_max)
        return id;
    return bl_arena_printf(arena, "call_%016llx%016llx", (unsigned long long)bl_hash(keys[0], id),
                           (unsigned long long)bl_hash(keys[1], id));
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool is_any(struct bl_text text, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (bl_text_equal(text, bl_text_from(*names)))
            return true;
    }
    return false;
}

/* Writes unknown members of a call as received. */
static void put_extra(struct bl_json_writer *writer, const struct bl_json *extra,
                      const char *const *known)
{
    BL_JSON_MEMBERS (key, extra) {
        if (is_any(bl_json_text(key), known))
            continue;
        bl_json_write_key(writer, bl_json_text(key));
        bl_json_write_value(writer, key + 1);
    }
}

static void openai_write_call(const struct model_build *build, struct bl_json_writer *writer,
                              const struct bl_block *block)
{
    static const char *const of_call[] = {"id", "index", "type", "function", NULL};
    static const char *const of_function[] = {"name", "arguments", NULL};
    const struct bl_json *extra =
        model_opaque_find(build->arena, block->opaque, build->provider, build->profile, "extra");

    bl_json_write_object(writer);
    bl_json_put_text(writer, "id", openai_call_id(build->arena, block->id, CALL_ID_MAX));
    bl_json_put_string(writer, "type", "function");
    bl_json_write_key(writer, BL_TEXT("function"));
    bl_json_write_object(writer);
    bl_json_put_text(writer, "name", block->name);
    bl_json_put_text(writer, "arguments", block->input);
    put_extra(writer, bl_json_get(extra, BL_TEXT("function")), of_function);
    bl_json_write_end(writer);
    put_extra(writer, extra, of_call);
    bl_json_write_end(writer);
}

static void openai_write_calls(const struct model_build *build, struct bl_json_writer *writer,
                               const struct bl_message *message)
{
    bl_json_write_key(writer, BL_TEXT("tool_calls"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_CALL)
            openai_write_call(build, writer, block);
    }
    bl_json_write_end(writer);
}

/* Writes `reasoning_details` of all blocks as received. Returns false if there are none. */
static bool write_details(const struct model_build *build, struct bl_json_writer *writer,
                          const struct bl_message *message)
{
    bool found = false;

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_THINKING)
            continue;
        const struct bl_json *details = model_opaque_find(
            build->arena, block->opaque, build->provider, build->profile, "details");
        if (bl_json_size(details) == 0 || !bl_json_is(details, BL_JSON_ARRAY))
            continue;
        if (!found) {
            bl_json_write_key(writer, BL_TEXT("reasoning_details"));
            bl_json_write_array(writer);
        }
        found = true;
        BL_JSON_EACH (detail, details)
            bl_json_write_value(writer, detail);
    }
    if (found)
        bl_json_write_end(writer);
    return found;
}

/* Writes the thinking of this model, in the field in which it arrived. */
static bool write_field(const struct model_build *build, struct bl_json_writer *writer,
                        const struct bl_message *message)
{
    static const char *const fields[] = {"reasoning_content", "reasoning", "reasoning_text", NULL};
    struct bl_message own = {.role = message->role};
    struct bl_text field = {0};

    bl_list_init(&own.blocks);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_THINKING)
            continue;
        struct bl_text name = bl_json_text(model_opaque_find(
            build->arena, block->opaque, build->provider, build->profile, "field"));
        if (!is_any(name, fields))
            continue;
        field = name;
        bl_block_add(build->arena, &own, BL_BLOCK_THINKING)->text = block->text;
    }
    if (field.size == 0)
        return false;
    bl_json_write_key(writer, field);
    bl_json_write_text(writer, model_join_texts(build->arena, &own, BL_BLOCK_THINKING));
    return true;
}

/* Servers contradict each other about sending thinking back. Signed details must always be sent
 * back. Plain text must be sent back with an answer that calls tools: newer servers refuse a tool
 * loop without it. With any other answer it is ignored at best, and older servers refuse it there.
 * Servers that refuse it even so, or require it with every answer, are learned from the refusal. */
static void openai_write_reasoning(const struct model_build *build, struct bl_json_writer *writer,
                                   const struct bl_message *message)
{
    bool required = build->compat->reasoning_required;
    bool written = false;

    if (build->compat->no_reasoning_back)
        return;
    if (write_details(build, writer, message))
        return;
    if (required || model_has_block(message, BL_BLOCK_CALL))
        written = write_field(build, writer, message);
    if (required && !written)
        bl_json_put_string(writer, "reasoning_content", "");
}

static void write_assistant(const struct model_build *build, struct bl_json_writer *writer,
                            const struct bl_message *message)
{
    struct bl_text content = model_join_texts(build->arena, message, BL_BLOCK_TEXT);
    bool calls = model_has_block(message, BL_BLOCK_CALL);

    /* Thinking alone is not a message. */
    if (content.size == 0 && !calls)
        return;
    bl_json_write_object(writer);
    bl_json_put_string(writer, "role", "assistant");
    bl_json_write_key(writer, BL_TEXT("content"));
    if (content.size > 0)
        bl_json_write_text(writer, content);
    else
        bl_json_write_null(writer);
    openai_write_reasoning(build, writer, message);
    if (calls)
        openai_write_calls(build, writer, message);
    bl_json_write_end(writer);
}

static void write_image(const struct model_build *build, struct bl_json_writer *writer,
                        const struct bl_block *image, bool nested)
{
    struct bl_text url = model_image_url(build->arena, image);

    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", nested ? "image_url" : "input_image");
    if (nested) {
        bl_json_write_key(writer, BL_TEXT("image_url"));
        bl_json_write_object(writer);
        bl_json_put_text(writer, "url", url);
        bl_json_write_end(writer);
    } else {
        bl_json_put_text(writer, "image_url", url);
        bl_json_put_string(writer, "detail", "auto");
    }
    bl_json_write_end(writer);
}

void openai_write_parts(const struct model_build *build, struct bl_json_writer *writer,
                        const struct bl_message *message, bool nested, size_t id_max)
{
    const char *text_type = nested ? "text" : "input_text";

    bl_json_write_array(writer);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        struct bl_text text = block->text;
        if (block->type == BL_BLOCK_IMAGE)
            text = model_image_owner(build->arena, block,
                                     openai_call_id(build->arena, block->id, id_max));
        else if (block->type != BL_BLOCK_TEXT)
            continue;
        if (text.size > 0) {
            bl_json_write_object(writer);
            bl_json_put_string(writer, "type", text_type);
            bl_json_put_text(writer, "text", text);
            bl_json_write_end(writer);
        }
        if (block->type == BL_BLOCK_IMAGE)
            write_image(build, writer, block, nested);
    }
    bl_json_write_end(writer);
}

static void openai_write_user(const struct model_build *build, struct bl_json_writer *writer,
                              const struct bl_message *message)
{
    struct bl_text content = model_join_texts(build->arena, message, BL_BLOCK_TEXT);
    bool images = model_has_block(message, BL_BLOCK_IMAGE);

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_RESULT)
            continue;
        bl_json_write_object(writer);
        bl_json_put_string(writer, "role", "tool");
        bl_json_put_text(writer, "tool_call_id",
                         openai_call_id(build->arena, block->id, CALL_ID_MAX));
        bl_json_put_text(writer, "content", block->text);
        bl_json_write_end(writer);
    }
    if (content.size == 0 && !images)
        return;
    bl_json_write_object(writer);
    bl_json_put_string(writer, "role", "user");
    bl_json_write_key(writer, BL_TEXT("content"));
    if (images)
        openai_write_parts(build, writer, message, true, CALL_ID_MAX);
    else
        bl_json_write_text(writer, content);
    bl_json_write_end(writer);
}

static void openai_write_messages(const struct model_build *build, struct bl_json_writer *writer)
{
    struct bl_list messages;

    model_conversation(build, &messages);
    bl_json_write_key(writer, BL_TEXT("messages"));
    bl_json_write_array(writer);
    if (build->request->system.size > 0) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "role", "system");
        bl_json_put_text(writer, "content", build->request->system);
        bl_json_write_end(writer);
    }
    BL_LIST_EACH (link, &messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (message->role == BL_ROLE_ASSISTANT)
            write_assistant(build, writer, message);
        else
            openai_write_user(build, writer, message);
    }
    bl_json_write_end(writer);
}

/* ---- The request ----------------------------------------------------------------------------- */

static void openai_write_tool(struct bl_json_writer *writer, const struct bl_tool_offer *tool,
                              bool nested)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "function");
    if (nested) {
        bl_json_write_key(writer, BL_TEXT("function"));
        bl_json_write_object(writer);
    }
    bl_json_put_string(writer, "name", tool->name);
    if (tool->description != NULL)
        bl_json_put_string(writer, "description", tool->description);
    bl_json_put_json(writer, "parameters",
                     tool->schema.size > 0 ? tool->schema
                                           : BL_TEXT("{\"type\":\"object\",\"properties\":{}}"));
    if (nested)
        bl_json_write_end(writer);
    else
        bl_json_put_boolean(writer, "strict", false);
    bl_json_write_end(writer);
}

void openai_write_tools(const struct model_build *build, struct bl_json_writer *writer, bool nested)
{
    const struct bl_request *request = build->request;

    if (request->tool_count == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("tools"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < request->tool_count; i++)
        openai_write_tool(writer, &request->tools[i], nested);
    bl_json_write_end(writer);
    /* "auto" is the default of every server, and some refuse it. */
    if (request->tools_forbidden && !build->compat->no_tool_choice)
        bl_json_put_string(writer, "tool_choice", "none");
    if (!build->compat->no_parallel_tool_calls)
        bl_json_put_boolean(writer, "parallel_tool_calls", true);
}

void openai_write_format(const struct model_build *build, struct bl_json_writer *writer,
                         bool nested)
{
    if (build->request->schema.size == 0 || build->compat->no_response_format)
        return;
    bl_json_write_key(writer, nested ? BL_TEXT("response_format") : BL_TEXT("text"));
    bl_json_write_object(writer);
    if (nested)
        bl_json_put_string(writer, "type", "json_schema");
    bl_json_write_key(writer, nested ? BL_TEXT("json_schema") : BL_TEXT("format"));
    bl_json_write_object(writer);
    if (!nested)
        bl_json_put_string(writer, "type", "json_schema");
    bl_json_put_string(writer, "name", "answer");
    bl_json_put_json(writer, "schema", build->request->schema);
    /* A strict schema may use only a subset of JSON Schema. */
    bl_json_put_boolean(writer, "strict", false);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static int openai_build_request(const struct model_build *build, struct bl_json_writer *writer,
                                struct bl_error *error BL_UNUSED)
{
    const struct bl_compat *compat = build->compat;
    const char *effort = openai_effort(build->profile->thinking);

    bl_json_write_object(writer);
    bl_json_put_string(writer, "model", build->profile->model);
    openai_write_messages(build, writer);
    bl_json_put_boolean(writer, "stream", true);
    if (!compat->no_stream_options)
        bl_json_put_json(writer, "stream_options", BL_TEXT("{\"include_usage\":true}"));
    if (build->max_output_tokens > 0 && !compat->no_max_tokens)
        bl_json_put_uint64(writer,
                           compat->max_tokens_field ? "max_tokens" : "max_completion_tokens",
                           build->max_output_tokens);
    openai_write_tools(build, writer, true);
    if (effort != NULL && !compat->no_reasoning_effort)
        bl_json_put_string(writer, "reasoning_effort", effort);
    openai_write_format(build, writer, true);
    bl_json_write_end(writer);
    return 0;
}

/* ---- Learning from a refusal ----------------------------------------------------------------- */

static bool openai_is_word_byte(char byte)
{
    return isalnum((unsigned char)byte) != 0 || byte == '_';
}

/* Finds a whole word, in any case. */
static bool names(struct bl_text message, const char *word)
{
    size_t size = strlen(word);

    for (size_t at = 0; at + size <= message.size; at++) {
        size_t i = 0;
        while (i < size && tolower((unsigned char)message.data[at + i]) == word[i])
            i++;
        if (i == size && (at == 0 || !openai_is_word_byte(message.data[at - 1])) &&
            (at + size == message.size || !openai_is_word_byte(message.data[at + size])))
            return true;
    }
    return false;
}

static bool names_any(struct bl_text message, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (names(message, *words))
            return true;
    }
    return false;
}

static bool set(bool *bit)
{
    bool changed = !*bit;

    *bit = true;
    return changed;
}

/* A limit that is refused for its value is a configuration mistake; leaving it out would hide
 * it. */
static bool is_about_value(struct bl_text message)
{
    static const char *const unknown[] = {"unsupported",  "not supported",    "unknown",
                                          "unrecognized", "not permitted",    "unexpected",
                                          "not allowed",  "instead",          "forbidden",
                                          "extra inputs", "does not support", NULL};
    static const char *const value[] = {"too large", "too high",     "too many", "at most",
                                        "less than", "greater than", "exceed",   "exceeds",
                                        "maximum",   "minimum",      "at least", "must be",
                                        "range",     "context",      NULL};

    return names_any(message, value) && !names_any(message, unknown);
}

static bool learn_limit(struct bl_text message, struct bl_compat *compat)
{
    bool old_name = names(message, "max_tokens"),
         new_name = names(message, "max_completion_tokens");

    if (compat->no_max_tokens || is_about_value(message))
        return false;
    if (names(message, "max_output_tokens"))
        return set(&compat->no_max_tokens);
    if (compat->max_tokens_field ? !old_name : !new_name)
        return false;
    /* A server that knows neither name mentions only the second one that it received. */
    if (compat->max_tokens_field && !new_name)
        return set(&compat->no_max_tokens);
    compat->max_tokens_field = !compat->max_tokens_field;
    return true;
}

static bool learn_reasoning(struct bl_text message, struct bl_compat *compat)
{
    static const char *const fields[] = {"reasoning_content",   "reasoning_details",
                                         "reasoning_text",      "messages.reasoning",
                                         "assistant.reasoning", NULL};
    static const char *const demands[] = {"missing", "must be passed back", "must be provided",
                                          "is required", NULL};

    if (names(message, "reasoning_content") && names_any(message, demands))
        return set(&compat->reasoning_required);
    /* Some servers without storage look an item up by its id nevertheless. */
    if (names(message, "item with id") && names(message, "not found"))
        return set(&compat->no_reasoning_id);
    if (names_any(message, fields) || names(message, "encrypted content for item"))
        return set(&compat->no_reasoning_back);
    return false;
}

bool model_openai_learn(struct bl_text message, struct bl_compat *compat)
{
    const struct {
        const char *word;
        bool *bit;
    } fields[] = {
        {"stream_options", &compat->no_stream_options},
        {"include_usage", &compat->no_stream_options},
        {"parallel_tool_calls", &compat->no_parallel_tool_calls},
        {"reasoning_effort", &compat->no_reasoning_effort},
        {"reasoning.effort", &compat->no_reasoning_effort},
        {"'reasoning'", &compat->no_reasoning_effort},
        {"reasoning.summary", &compat->no_reasoning_summary},
        {"reasoning summaries", &compat->no_reasoning_summary},
        {"response_format", &compat->no_response_format},
        {"text.format", &compat->no_response_format},
        /* From a server that builds a grammar of both. */
        {"grammar constraints with tools", &compat->no_response_format},
        {"tool_choice", &compat->no_tool_choice},
        {"prompt_cache_key", &compat->no_prompt_cache_key},
        {"reasoning.encrypted_content", &compat->no_include},
        {"encrypted content is not supported", &compat->no_include},
        {"'include'", &compat->no_include},
        {"\"include\"", &compat->no_include},
        {"parameter: include", &compat->no_include},
    };

    for (size_t i = 0; i < BL_COUNT(fields); i++) {
        if (names(message, fields[i].word) && set(fields[i].bit))
            return true;
    }
    return learn_limit(message, compat) || learn_reasoning(message, compat);
}

/* ---- Answers, for both formats --------------------------------------------------------------- */

bool openai_is_error(const struct bl_json *value)
{
    const struct bl_json *error = bl_json_get(value, BL_TEXT("error"));

    return bl_json_is(error, BL_JSON_OBJECT) || bl_json_text(error).size > 0 ||
           bl_text_equal(model_member(value, "object"), BL_TEXT("error"));
}

static uint64_t openai_count_of(const struct bl_json *object, const char *key)
{
    int64_t count;

    return bl_json_int64(bl_json_get(object, bl_text_from(key)), &count) && count > 0
               ? (uint64_t)count
               : 0;
}

/* Returns the first member that is present: formats name it differently. */
static uint64_t count_either(const struct bl_json *object, const char *key, const char *other)
{
    uint64_t count = openai_count_of(object, key);

    return count > 0 ? count : openai_count_of(object, other);
}

int openai_usage(struct model_assembly *assembly, const struct bl_json *value)
{
    const struct bl_json *input = bl_json_get(value, BL_TEXT("prompt_tokens_details"));
    const struct bl_json *output = bl_json_get(value, BL_TEXT("completion_tokens_details"));
    struct bl_usage usage = {
        .input_tokens = count_either(value, "prompt_tokens", "input_tokens"),
        .output_tokens = count_either(value, "completion_tokens", "output_tokens"),
    };

    if (input == NULL)
        input = bl_json_get(value, BL_TEXT("input_tokens_details"));
    if (output == NULL)
        output = bl_json_get(value, BL_TEXT("output_tokens_details"));
    /* A server that does not count sends zeros. */
    if (usage.input_tokens == 0 && usage.output_tokens == 0)
        return 0;
    struct bl_usage_detail detail = {
        .cache_read_tokens = openai_count_of(input, "cached_tokens"),
        .cache_write_tokens = count_either(input, "cache_write_tokens", "cache_creation_tokens"),
        .reasoning_tokens = openai_count_of(output, "reasoning_tokens"),
    };
    if (detail.cache_read_tokens == 0)
        detail.cache_read_tokens = count_either(value, "prompt_cache_hit_tokens", "cached_tokens");
    /* Some servers do not include reasoning in the output: then the total is the sum of all
     * three. */
    if (detail.reasoning_tokens > 0 &&
        openai_count_of(value, "total_tokens") ==
            usage.input_tokens + usage.output_tokens + detail.reasoning_tokens)
        usage.output_tokens += detail.reasoning_tokens;
    return model_tell_usage(assembly, &usage, &detail);
}

/* ---- The format ------------------------------------------------------------------------------ */

const struct model_api model_api_openai = {
    .api = BL_API_OPENAI,
    .images = true,
    .path = "/chat/completions",
    .headers = openai_headers,
    .build = openai_build_request,
    .feed = openai_feed,
    .whole = openai_whole,
    .finish = openai_finish,
    .classify = model_failure_read,
};
