/* Ollama's own format: the compatible endpoint ignores num_ctx, and truncates silently. */
#include "provider.h"

#define BYTES_PER_TOKEN 4u

static size_t ollama_write_headers(const struct bl_provider *provider, struct bl_arena *arena,
                                   struct bl_http_header *out)
{
    if (provider->key == NULL)
        return 0;
    out[0] = model_bearer(arena, provider->key);
    return 1;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void begin_message(struct bl_json_writer *writer, const char *role, struct bl_text content)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "role", role);
    bl_json_put_text(writer, "content", content);
}

static void ollama_write_calls(struct bl_json_writer *writer, const struct bl_message *message)
{
    bool open = false;

    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_CALL)
            continue;
        if (!open) {
            bl_json_write_key(writer, BL_TEXT("tool_calls"));
            bl_json_write_array(writer);
            open = true;
        }
        bl_json_write_object(writer);
        bl_json_write_key(writer, BL_TEXT("function"));
        bl_json_write_object(writer);
        bl_json_put_text(writer, "name", block->name);
        bl_json_put_json(writer, "arguments", block->input);
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    if (open)
        bl_json_write_end(writer);
}

/* Returns the thinking of this model; that of others is not sent. */
static struct bl_text own_thinking(const struct model_build *build,
                                   const struct bl_message *message)
{
    struct bl_message own = {.role = message->role};

    bl_list_init(&own.blocks);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_THINKING &&
            model_opaque_find(build->arena, block->opaque, build->provider, build->profile,
                              "thinking") != NULL)
            bl_block_add(build->arena, &own, BL_BLOCK_THINKING)->text = block->text;
    }
    return model_join_texts(build->arena, &own, BL_BLOCK_THINKING);
}

static void ollama_write_answer(const struct model_build *build, struct bl_json_writer *writer,
                                const struct bl_message *message)
{
    begin_message(writer, "assistant", model_join_texts(build->arena, message, BL_BLOCK_TEXT));
    struct bl_text thinking = own_thinking(build, message);
    if (thinking.size > 0)
        bl_json_put_text(writer, "thinking", thinking);
    ollama_write_calls(writer, message);
    bl_json_write_end(writer);
}

static void write_images(struct bl_json_writer *writer, const struct bl_message *message)
{
    bl_json_write_key(writer, BL_TEXT("images"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_IMAGE)
            bl_json_write_text(writer, block->text);
    }
    bl_json_write_end(writer);
}

static void ollama_write_user(const struct model_build *build, struct bl_json_writer *writer,
                              const struct bl_message *message)
{
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type != BL_BLOCK_RESULT)
            continue;
        begin_message(writer, "tool", block->text);
        bl_json_put_text(writer, "tool_name", block->name);
        bl_json_write_end(writer);
    }
    struct bl_text text = model_join_texts(build->arena, message, BL_BLOCK_TEXT);
    bool images = model_has_block(message, BL_BLOCK_IMAGE);
    if (text.size == 0 && !images)
        return;
    if (text.size == 0 && model_has_block(message, BL_BLOCK_RESULT))
        text = BL_TEXT("Images from the results above.");
    begin_message(writer, "user", text);
    if (images)
        write_images(writer, message);
    bl_json_write_end(writer);
}

static void ollama_write_messages(const struct model_build *build, struct bl_json_writer *writer)
{
    struct bl_text system = build->request->system;
    struct bl_text instruction = model_schema_instruction(build->arena, build->request);
    struct bl_list messages;

    if (system.size > 0 && instruction.size > 0)
        system = bl_arena_printf(build->arena, BL_TEXT_FORMAT "\n\n" BL_TEXT_FORMAT,
                                 BL_TEXT_ARG(system), BL_TEXT_ARG(instruction));
    else if (instruction.size > 0)
        system = instruction;
    model_conversation(build, &messages);
    bl_json_write_key(writer, BL_TEXT("messages"));
    bl_json_write_array(writer);
    if (system.size > 0) {
        begin_message(writer, "system", system);
        bl_json_write_end(writer);
    }
    BL_LIST_EACH (link, &messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (message->role == BL_ROLE_USER)
            ollama_write_user(build, writer, message);
        else
            ollama_write_answer(build, writer, message);
    }
    bl_json_write_end(writer);
}

/* The format has no choice of tools: if none may be called, none is offered. */
static void ollama_write_tools(const struct bl_request *request, struct bl_json_writer *writer)
{
    if (request->tool_count == 0 || request->tools_forbidden)
        return;
    bl_json_write_key(writer, BL_TEXT("tools"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < request->tool_count; i++) {
        const struct bl_tool_offer *tool = &request->tools[i];
        bl_json_write_object(writer);
        bl_json_put_string(writer, "type", "function");
        bl_json_write_key(writer, BL_TEXT("function"));
        bl_json_write_object(writer);
        bl_json_put_string(writer, "name", tool->name);
        bl_json_put_string(writer, "description",
                           tool->description != NULL ? tool->description : "");
        bl_json_put_json(writer, "parameters",
                         tool->schema.size > 0 ? tool->schema : BL_TEXT("{\"type\":\"object\"}"));
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void ollama_write_options(const struct model_build *build, struct bl_json_writer *writer)
{
    const struct bl_profile *profile = build->profile;

    if (profile->thinking == BL_EFFORT_NONE)
        bl_json_put_boolean(writer, "think", false);
    else if (profile->thinking == BL_EFFORT_LOW)
        bl_json_put_string(writer, "think", "low");
    else if (profile->thinking == BL_EFFORT_MEDIUM)
        bl_json_put_string(writer, "think", "medium");
    else if (profile->thinking == BL_EFFORT_HIGH)
        bl_json_put_string(writer, "think", "high");
    if (profile->keep_alive != NULL) {
        int64_t seconds;
        /* A number means seconds; a string would need a unit. */
        bl_json_write_key(writer, BL_TEXT("keep_alive"));
        if (bl_text_to_int64(bl_text_from(profile->keep_alive), &seconds) == 0)
            bl_json_write_int64(writer, seconds);
        else
            bl_json_write_string(writer, profile->keep_alive);
    }
    if (profile->num_ctx == 0 && build->max_output_tokens == 0)
        return;
    bl_json_write_key(writer, BL_TEXT("options"));
    bl_json_write_object(writer);
    if (profile->num_ctx > 0)
        bl_json_put_uint64(writer, "num_ctx", profile->num_ctx);
    if (build->max_output_tokens > 0)
        bl_json_put_uint64(writer, "num_predict", build->max_output_tokens);
    bl_json_write_end(writer);
}

static int ollama_write_body(const struct model_build *build, struct bl_json_writer *writer,
                             struct bl_error *error)
{
    const struct bl_profile *profile = build->profile;
    uint64_t estimate = model_request_bytes(build->request) / BYTES_PER_TOKEN;

    if (profile->num_ctx > 0 && estimate > profile->num_ctx) {
        int result = bl_error_set(
            error, BL_ELIMIT, BL_KIND_PROVIDER, "call the model", build->provider->name,
            "the conversation is longer than the model's context: about %llu "
            "tokens, num_ctx is %llu; it was not sent",
            (unsigned long long)estimate, (unsigned long long)profile->num_ctx);
        bl_error_name_set(error, "context_overflow");
        bl_error_hint(error, "raise num_ctx of this model, or start a new session");
        return result;
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "model", profile->model);
    ollama_write_messages(build, writer);
    ollama_write_tools(build->request, writer);
    bl_json_put_boolean(writer, "stream", true);
    ollama_write_options(build, writer);
    bl_json_write_end(writer);
    return 0;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Thinking has no end marker: it is over when something else arrives. */
struct state {
    bool thinking;
};

static int ollama_end_thinking(struct model_decoder *decoder)
{
    struct state *state = decoder->state;

    if (state == NULL || !state->thinking)
        return 0;
    state->thinking = false;
    return model_tell_thinking(decoder->assembly, (struct bl_text){0},
                               model_opaque_make(decoder->arena, decoder->provider,
                                                 decoder->profile, "thinking", BL_TEXT("true")));
}

static int ollama_take_thinking(struct model_decoder *decoder, struct bl_text text)
{
    struct state *state = decoder->state;

    if (text.size == 0)
        return 0;
    if (state == NULL)
        decoder->state = state = bl_arena_zalloc(decoder->arena, sizeof *state);
    state->thinking = true;
    return model_tell_thinking(decoder->assembly, text, (struct bl_text){0});
}

/* Calls arrive whole. Their arguments are an object, or, from some models, its text. */
static int ollama_take_call(struct model_decoder *decoder, const struct bl_json *value)
{
    const struct bl_json *function = bl_json_get(value, BL_TEXT("function"));
    struct model_call *call;

    int result = model_call_new(decoder->assembly, model_member(value, "id"),
                                model_member(function, "name"), &call);
    if (result == 0)
        result =
            model_call_whole(decoder->assembly, call, bl_json_get(function, BL_TEXT("arguments")));
    return result == 0 ? model_call_end(decoder->assembly, call) : result;
}

static int ollama_take_message(struct model_decoder *decoder, const struct bl_json *message)
{
    struct bl_text content = model_member(message, "content");
    const struct bl_json *calls = bl_json_get(message, BL_TEXT("tool_calls"));
    struct bl_text thinking = model_member(message, "thinking");

    /* Servers that only imitate this format use the name of another one. */
    if (thinking.size == 0)
        thinking = model_member(message, "reasoning_content");
    int result = ollama_take_thinking(decoder, thinking);
    if (result == 0 && (content.size > 0 || bl_json_size(calls) > 0))
        result = ollama_end_thinking(decoder);
    if (result == 0)
        result = model_tell_text(decoder->assembly, content);
    BL_JSON_EACH (call, calls) {
        if (result == 0)
            result = ollama_take_call(decoder, call);
    }
    return result;
}

static int ollama_take_usage(struct model_decoder *decoder, const struct bl_json *data)
{
    struct bl_usage usage = {0};
    struct bl_usage_detail detail = {0};
    int64_t input, output;
    bool input_given = bl_json_int64(bl_json_get(data, BL_TEXT("prompt_eval_count")), &input);
    bool output_given = bl_json_int64(bl_json_get(data, BL_TEXT("eval_count")), &output);

    /* Missing or zero: not counted. */
    if (!output_given || output <= 0)
        return 0;
    /* Some versions do not count a prompt that is entirely in the cache. */
    if (input_given && input > 0)
        usage.input_tokens = (uint64_t)input;
    else if (decoder->assembly->request != NULL)
        usage.input_tokens = model_request_bytes(decoder->assembly->request) / BYTES_PER_TOKEN;
    usage.output_tokens = (uint64_t)output;
    return model_tell_usage(decoder->assembly, &usage, &detail);
}

static int ollama_take_end(struct model_decoder *decoder, const struct bl_json *data)
{
    struct bl_text reason = model_member(data, "done_reason");

    /* The model was only loaded, or is being unloaded: it did not get the request. */
    if (bl_text_equal(reason, BL_TEXT("load")) || bl_text_equal(reason, BL_TEXT("unload")))
        return model_fail(decoder->assembly, "server", 0,
                          BL_TEXT("the server loaded the model but did not answer"));
    int result = ollama_end_thinking(decoder);
    if (result == 0)
        result = ollama_take_usage(decoder, data);
    if (result != 0)
        return result;
    return model_finish(decoder->assembly, bl_text_equal(reason, BL_TEXT("length"))
                                               ? BL_ANSWER_MAX_TOKENS
                                               : BL_ANSWER_END);
}

static int ollama_feed(struct model_decoder *decoder, struct bl_text event_name BL_UNUSED,
                       const struct bl_json *data)
{
    const struct bl_json *error = bl_json_get(data, BL_TEXT("error"));

    if (error != NULL && !bl_json_is(error, BL_JSON_NULL))
        return model_fail_body(decoder->assembly, data);
    int result = ollama_take_message(decoder, bl_json_get(data, BL_TEXT("message")));
    if (result != 0 || !bl_json_boolean(bl_json_get(data, BL_TEXT("done")), false))
        return result;
    return ollama_take_end(decoder, data);
}

static int model_ollama_finish(struct model_decoder *decoder)
{
    if (decoder->assembly->finished)
        return 0;
    return model_fail(decoder->assembly, "stream_cut", 0,
                      BL_TEXT("the stream ended before the answer did"));
}

/* A whole answer is the same object as a line, once. */
static int whole(struct model_decoder *decoder, const struct bl_json *answer)
{
    if (!bl_json_is(bl_json_get(answer, BL_TEXT("message")), BL_JSON_OBJECT) &&
        bl_json_get(answer, BL_TEXT("error")) == NULL)
        return model_fail(decoder->assembly, "bad_response", 0,
                          BL_TEXT("the answer has no message"));
    int result = ollama_feed(decoder, (struct bl_text){0}, answer);
    return result == 0 ? model_ollama_finish(decoder) : result;
}

const struct model_api model_api_ollama = {
    .api = BL_API_OLLAMA,
    .lines = true,
    .path = "/api/chat",
    .headers = ollama_write_headers,
    .build = ollama_write_body,
    .feed = ollama_feed,
    .whole = whole,
    .finish = model_ollama_finish,
    .classify = model_failure_read,
};
