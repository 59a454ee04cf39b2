/* Design notes.
 *
 * A request is checked as strictly as the vendors do wherever a client could otherwise make an
 * unnoticed mistake: types, roles, calls without results and results without calls, and thinking
 * that is not sent back unchanged. Fields without effect here are ignored. */
#include <stdarg.h>
#include <stdio.h>

#include "serve.h"

#define TOKENS_MAX ((int64_t)1 << 40)
#define PLACE_SIZE sizeof(((struct script_problem *)NULL)->param)

/* A request being read. */
struct reader {
    struct script_request *request;
    struct script_problem *problem;
    struct bl_map pending; /* ids of calls without a result */
};

static int script_request_refuse(struct reader *reader, const char *param, const char *format, ...)
    BL_PRINTF(3, 4);

static int script_request_refuse(struct reader *reader, const char *param, const char *format, ...)
{
    struct script_problem *problem = reader->problem;
    va_list arguments;

    problem->code = "bad_request";
    bl_text_into(problem->param, sizeof problem->param, param);
    int size = snprintf(problem->message, sizeof problem->message, "%s%s", param,
                        param[0] != '\0' ? ": " : "");
    va_start(arguments, format);
    vsnprintf(problem->message + size, sizeof problem->message - (size_t)size, format, arguments);
    va_end(arguments);
    problem->message[bl_utf8_valid_prefix(bl_text_from(problem->message), NULL)] = '\0';
    return BL_EINVAL;
}

static void set_place(char out[PLACE_SIZE], const char *format, ...) BL_PRINTF(2, 3);

static void set_place(char out[PLACE_SIZE], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(out, PLACE_SIZE, format, arguments);
    va_end(arguments);
}

/* ---- Members --------------------------------------------------------------------------------- */

static const struct bl_json *script_request_member(const struct bl_json *object, const char *key)
{
    const struct bl_json *value = bl_json_get(object, bl_text_from(key));

    return bl_json_is(value, BL_JSON_NULL) ? NULL : value;
}

static int need_text(struct reader *reader, const struct bl_json *object, const char *key,
                     const char *where, struct bl_text *ret_text)
{
    const struct bl_json *value = script_request_member(object, key);
    char param[PLACE_SIZE];

    set_place(param, "%s%s%s", where, where[0] != '\0' ? "." : "", key);
    if (value == NULL)
        return script_request_refuse(reader, param, "missing");
    if (!bl_json_is(value, BL_JSON_STRING))
        return script_request_refuse(reader, param, "must be a string, found %s",
                                     bl_json_type_name(bl_json_type(value)));
    *ret_text = bl_json_text(value);
    return 0;
}

static int take_boolean(struct reader *reader, const struct bl_json *object, const char *key,
                        bool *out)
{
    const struct bl_json *value = script_request_member(object, key);

    if (value == NULL)
        return 0;
    if (!bl_json_is(value, BL_JSON_BOOLEAN))
        return script_request_refuse(reader, key, "must be a boolean, found %s",
                                     bl_json_type_name(bl_json_type(value)));
    *out = value->boolean;
    return 0;
}

/* Reads a token limit. A value below 1 is refused, unless it is negative and that means no
 * limit. */
static int take_limit(struct reader *reader, const struct bl_json *object, const char *key,
                      const char *param, bool negative_is_none)
{
    const struct bl_json *value = script_request_member(object, key);
    int64_t limit;

    if (value == NULL)
        return 0;
    if (!bl_json_int64(value, &limit) || limit > TOKENS_MAX || (limit < 1 && !negative_is_none))
        return script_request_refuse(reader, param, "must be a positive integer");
    if (limit >= 0)
        reader->request->max_tokens = (uint64_t)limit;
    return 0;
}

static int check_list(struct reader *reader, const char *key)
{
    const struct bl_json *value = script_request_member(reader->request->body, key);

    if (value != NULL && !bl_json_is(value, BL_JSON_ARRAY))
        return script_request_refuse(reader, key, "must be an array, found %s",
                                     bl_json_type_name(bl_json_type(value)));
    return 0;
}

/* ---- Content --------------------------------------------------------------------------------- */

/* Reads content that is a string or an array of objects with a type, and calls `take` for each of
 * these. The newest text (of a part whose type is `text_type`) is stored in `newest`, unless that
 * is NULL. */
typedef int take_part(struct reader *reader, const struct bl_json *part, struct bl_text type,
                      const char *where);

static int script_request_read_parts(struct reader *reader, const struct bl_json *content,
                                     const char *where, const char *text_type,
                                     struct bl_text *newest, take_part *take)
{
    char place[PLACE_SIZE];
    unsigned index = 0;

    if (bl_json_is(content, BL_JSON_STRING)) {
        if (newest != NULL)
            *newest = bl_json_text(content);
        return 0;
    }
    if (!bl_json_is(content, BL_JSON_ARRAY))
        return script_request_refuse(reader, where, "must be a string or an array");
    BL_JSON_EACH (part, content) {
        struct bl_text type, text;
        set_place(place, "%s.%u", where, index++);
        if (!bl_json_is(part, BL_JSON_OBJECT))
            return script_request_refuse(reader, place, "must be an object");
        int result = need_text(reader, part, "type", place, &type);
        if (result == 0 && bl_text_equal(type, bl_text_from(text_type))) {
            result = need_text(reader, part, "text", place, &text);
            if (result == 0 && newest != NULL)
                *newest = text;
        } else if (result == 0 && take != NULL) {
            result = take(reader, part, type, place);
        }
        if (result != 0)
            return result;
    }
    return 0;
}

static int call_made(struct reader *reader, struct bl_text id, const char *where)
{
    if (bl_map_has(&reader->pending, id))
        return script_request_refuse(
            reader, where, "the id '" BL_TEXT_FORMAT "' belongs to another call", BL_TEXT_ARG(id));
    bl_map_set(&reader->pending, id, reader, NULL);
    return 0;
}

static int call_answered(struct reader *reader, struct bl_text id, const char *where)
{
    if (bl_map_remove(&reader->pending, id) == NULL)
        return script_request_refuse(reader, where,
                                     "there is no open call with the id '" BL_TEXT_FORMAT "'",
                                     BL_TEXT_ARG(id));
    return 0;
}

/* Checks that every call has its result. */
static int check_answered(struct reader *reader, const char *where)
{
    uint32_t position = 0;
    const struct bl_map_entry *entry = bl_map_next(&reader->pending, &position);

    if (entry == NULL)
        return 0;
    return script_request_refuse(reader, where,
                                 "the call '" BL_TEXT_FORMAT "' has no result before it",
                                 BL_TEXT_ARG(entry->key));
}

void script_signature(struct bl_text thinking, char out[SCRIPT_SIGNATURE_SIZE])
{
    static const uint64_t keys[2][2] = {{0x62656c6179, 1}, {0x62656c6179, 2}};

    snprintf(out, SCRIPT_SIGNATURE_SIZE, "script_%016llx%016llx",
             (unsigned long long)bl_hash(keys[0], thinking),
             (unsigned long long)bl_hash(keys[1], thinking));
}

static int check_signature(struct reader *reader, struct bl_text thinking, struct bl_text signature,
                           const char *where)
{
    char right[SCRIPT_SIGNATURE_SIZE];

    script_signature(thinking, right);
    if (bl_text_equal(signature, bl_text_from(right)))
        return 0;
    return script_request_refuse(reader, where,
                                 "the signature does not match the thinking: it must be sent back "
                                 "unchanged");
}

/* ---- anthropic ------------------------------------------------------------------------------- */

static int take_anthropic_answer(struct reader *reader, const struct bl_json *part,
                                 struct bl_text type, const char *where)
{
    struct bl_text id, name, thinking, signature;
    int result = 0;

    if (bl_text_equal(type, BL_TEXT("tool_use"))) {
        result = need_text(reader, part, "id", where, &id);
        if (result == 0)
            result = need_text(reader, part, "name", where, &name);
        if (result == 0 && !bl_json_is(script_request_member(part, "input"), BL_JSON_OBJECT))
            result = script_request_refuse(reader, where, "input must be an object");
        if (result == 0)
            result = call_made(reader, id, where);
    } else if (bl_text_equal(type, BL_TEXT("thinking"))) {
        result = need_text(reader, part, "thinking", where, &thinking);
        if (result == 0)
            result = need_text(reader, part, "signature", where, &signature);
        if (result == 0)
            result = check_signature(reader, thinking, signature, where);
    }
    return result;
}

/* Counts images, which may be next to texts in a user's message of any format. */
static int script_request_take_image(struct reader *reader, const struct bl_json *part BL_UNUSED,
                                     struct bl_text type, const char *where BL_UNUSED)
{
    reader->request->images += bl_text_equal(type, BL_TEXT("image")) ||
                               bl_text_equal(type, BL_TEXT("image_url")) ||
                               bl_text_equal(type, BL_TEXT("input_image"));
    return 0;
}

static int take_anthropic_question(struct reader *reader, const struct bl_json *part,
                                   struct bl_text type, const char *where)
{
    struct bl_text id;

    if (!bl_text_equal(type, BL_TEXT("tool_result")))
        return script_request_take_image(reader, part, type, where);
    int result = need_text(reader, part, "tool_use_id", where, &id);
    if (result == 0 && bl_json_is(script_request_member(part, "content"), BL_JSON_ARRAY))
        result = script_request_read_parts(reader, script_request_member(part, "content"), where,
                                           "text", NULL, script_request_take_image);
    return result == 0 ? call_answered(reader, id, where) : result;
}

static int read_anthropic_message(struct reader *reader, const struct bl_json *message,
                                  struct bl_text role, const char *where)
{
    const struct bl_json *content = script_request_member(message, "content");
    char place[PLACE_SIZE];

    set_place(place, "%s.content", where);
    if (content == NULL)
        return script_request_refuse(reader, place, "missing");
    if (bl_text_equal(role, BL_TEXT("assistant"))) {
        int result = check_answered(reader, where);
        return result == 0 ? script_request_read_parts(reader, content, place, "text", NULL,
                                                       take_anthropic_answer)
                           : result;
    }
    if (!bl_text_equal(role, BL_TEXT("user")))
        return script_request_refuse(reader, where, "role must be user or assistant");
    reader->request->images = 0;
    int result = script_request_read_parts(reader, content, place, "text", &reader->request->newest,
                                           take_anthropic_question);
    /* All results of calls must be in the message that follows. */
    return result == 0 ? check_answered(reader, where) : result;
}

/* ---- openai, ollama -------------------------------------------------------------------------- */

static int read_openai_calls(struct reader *reader, const struct bl_json *calls, const char *where)
{
    char place[PLACE_SIZE];
    unsigned index = 0;

    if (!bl_json_is(calls, BL_JSON_ARRAY))
        return script_request_refuse(reader, where, "tool_calls must be an array");
    BL_JSON_EACH (call, calls) {
        const struct bl_json *function = script_request_member(call, "function");
        struct bl_text text, id;
        set_place(place, "%s.tool_calls.%u", where, index++);
        if (!bl_json_is(function, BL_JSON_OBJECT))
            return script_request_refuse(reader, place, "function must be an object");
        int result = need_text(reader, call, "id", place, &id);
        if (result == 0)
            result = need_text(reader, function, "name", place, &text);
        if (result == 0)
            result = need_text(reader, function, "arguments", place, &text);
        if (result == 0)
            result = call_made(reader, id, place);
        if (result != 0)
            return result;
    }
    return 0;
}

static int read_openai_message(struct reader *reader, const struct bl_json *message,
                               struct bl_text role, const char *where)
{
    const struct bl_json *content = script_request_member(message, "content");
    const struct bl_json *calls = script_request_member(message, "tool_calls");
    bool answer = bl_text_equal(role, BL_TEXT("assistant"));
    bool user = bl_text_equal(role, BL_TEXT("user"));
    char place[PLACE_SIZE];
    struct bl_text id;
    int result = 0;

    set_place(place, "%s.content", where);
    if (bl_text_equal(role, BL_TEXT("tool"))) {
        reader->request->images = 0;
        result = need_text(reader, message, "tool_call_id", where, &id);
        if (result == 0)
            result = call_answered(reader, id, where);
    } else if (answer || user || bl_text_equal(role, BL_TEXT("system")) ||
               bl_text_equal(role, BL_TEXT("developer"))) {
        result = check_answered(reader, where);
    } else {
        return script_request_refuse(reader, where,
                                     "role must be system, developer, user, assistant or tool");
    }
    if (result == 0 && content == NULL && !(answer && calls != NULL))
        result = script_request_refuse(reader, place, "missing");
    reader->request->images = user ? 0 : reader->request->images;
    if (result == 0 && content != NULL)
        result = script_request_read_parts(reader, content, place, "text",
                                           user ? &reader->request->newest : NULL,
                                           user ? script_request_take_image : NULL);
    if (result == 0 && answer && calls != NULL)
        result = read_openai_calls(reader, calls, where);
    return result;
}

static int read_ollama_message(struct reader *reader, const struct bl_json *message,
                               struct bl_text role, const char *where)
{
    bool answer = bl_text_equal(role, BL_TEXT("assistant"));
    bool user = bl_text_equal(role, BL_TEXT("user"));
    struct bl_text text = {"", 0};
    char place[PLACE_SIZE];
    unsigned index = 0;

    if (!answer && !user && !bl_text_equal(role, BL_TEXT("system")) &&
        !bl_text_equal(role, BL_TEXT("tool")))
        return script_request_refuse(reader, where, "role must be system, user, assistant or tool");
    if (script_request_member(message, "content") != NULL || !answer) {
        int result = need_text(reader, message, "content", where, &text);
        if (result != 0)
            return result;
    }
    if (user)
        reader->request->newest = text;
    if (!answer)
        reader->request->images = bl_json_size(script_request_member(message, "images"));
    BL_JSON_EACH (call, script_request_member(message, "tool_calls")) {
        set_place(place, "%s.tool_calls.%u", where, index++);
        if (!bl_json_is(bl_json_get(bl_json_get(call, BL_TEXT("function")), BL_TEXT("arguments")),
                        BL_JSON_OBJECT))
            return script_request_refuse(reader, place, "function.arguments must be an object");
    }
    return 0;
}

/* ---- openai-responses ------------------------------------------------------------------------ */

static int read_reasoning(struct reader *reader, const struct bl_json *item, const char *where)
{
    const struct bl_json *encrypted = script_request_member(item, "encrypted_content");

    if (!bl_json_is(script_request_member(item, "summary"), BL_JSON_ARRAY))
        return script_request_refuse(reader, where, "summary must be an array");
    if (encrypted == NULL)
        return 0;
    struct bl_text summary = bl_json_text(bl_json_pointer(item, BL_TEXT("/summary/0/text")));
    return check_signature(reader, summary, bl_json_text(encrypted), where);
}

static int read_responses_item(struct reader *reader, const struct bl_json *item, const char *where)
{
    const struct bl_json *content = script_request_member(item, "content");
    struct bl_text type = BL_TEXT("message"), role, id, text;
    char place[PLACE_SIZE];
    int result;

    if (script_request_member(item, "type") != NULL) {
        result = need_text(reader, item, "type", where, &type);
        if (result != 0)
            return result;
    }
    if (bl_text_equal(type, BL_TEXT("function_call"))) {
        result = need_text(reader, item, "call_id", where, &id);
        if (result == 0)
            result = need_text(reader, item, "name", where, &text);
        if (result == 0)
            result = need_text(reader, item, "arguments", where, &text);
        return result == 0 ? call_made(reader, id, where) : result;
    }
    if (bl_text_equal(type, BL_TEXT("function_call_output"))) {
        reader->request->images = 0;
        result = need_text(reader, item, "call_id", where, &id);
        return result == 0 ? call_answered(reader, id, where) : result;
    }
    if (bl_text_equal(type, BL_TEXT("reasoning")))
        return read_reasoning(reader, item, where);
    if (!bl_text_equal(type, BL_TEXT("message")))
        return 0;
    result = need_text(reader, item, "role", where, &role);
    if (result != 0)
        return result;
    bool user = bl_text_equal(role, BL_TEXT("user"));
    reader->request->images = user ? 0 : reader->request->images;
    set_place(place, "%s.content", where);
    return script_request_read_parts(
        reader, content, place,
        bl_text_equal(role, BL_TEXT("assistant")) ? "output_text" : "input_text",
        user ? &reader->request->newest : NULL, user ? script_request_take_image : NULL);
}

static int read_responses(struct reader *reader)
{
    struct script_request *request = reader->request;
    const struct bl_json *input = script_request_member(request->body, "input");
    unsigned index = 0;
    char where[PLACE_SIZE];

    int result = take_boolean(reader, request->body, "stream", &request->stream);
    if (result == 0)
        result = take_limit(reader, request->body, "max_output_tokens", "max_output_tokens", false);
    if (result == 0)
        result = check_list(reader, "include");
    if (result != 0)
        return result;
    BL_JSON_EACH (name, script_request_member(request->body, "include")) {
        if (bl_text_equal(bl_json_text(name), BL_TEXT("reasoning.encrypted_content")))
            request->encrypted = true;
    }
    if (input == NULL)
        return script_request_refuse(reader, "input", "missing");
    if (bl_json_is(input, BL_JSON_STRING)) {
        request->newest = bl_json_text(input);
        return 0;
    }
    if (!bl_json_is(input, BL_JSON_ARRAY) || bl_json_size(input) == 0)
        return script_request_refuse(reader, "input",
                                     "must be a string, or an array of at least one item");
    BL_JSON_EACH (item, input) {
        set_place(where, "input.%u", index++);
        if (!bl_json_is(item, BL_JSON_OBJECT))
            return script_request_refuse(reader, where, "must be an object");
        result = read_responses_item(reader, item, where);
        if (result != 0)
            return result;
    }
    return check_answered(reader, "input");
}

/* ---- All ------------------------------------------------------------------------------------- */

static int read_messages(struct reader *reader)
{
    const struct bl_json *messages = script_request_member(reader->request->body, "messages");
    enum bl_api api = reader->request->api;
    unsigned index = 0;
    char where[PLACE_SIZE];

    if (messages == NULL)
        return script_request_refuse(reader, "messages", "missing");
    if (!bl_json_is(messages, BL_JSON_ARRAY))
        return script_request_refuse(reader, "messages", "must be an array, found %s",
                                     bl_json_type_name(bl_json_type(messages)));
    /* For ollama, no messages means: load the model. */
    if (bl_json_size(messages) == 0 && api != BL_API_OLLAMA)
        return script_request_refuse(reader, "messages", "at least one message is required");
    BL_JSON_EACH (message, messages) {
        struct bl_text role;
        set_place(where, "messages.%u", index++);
        if (!bl_json_is(message, BL_JSON_OBJECT))
            return script_request_refuse(reader, where, "must be an object");
        int result = need_text(reader, message, "role", where, &role);
        if (result == 0 && api == BL_API_ANTHROPIC)
            result = read_anthropic_message(reader, message, role, where);
        else if (result == 0 && api == BL_API_OPENAI)
            result = read_openai_message(reader, message, role, where);
        else if (result == 0)
            result = read_ollama_message(reader, message, role, where);
        if (result != 0)
            return result;
    }
    return check_answered(reader, "messages");
}

static int read_anthropic(struct reader *reader, bool count_only)
{
    const struct bl_json *body = reader->request->body;

    int result = take_boolean(reader, body, "stream", &reader->request->stream);
    if (result == 0 && !count_only && script_request_member(body, "max_tokens") == NULL)
        result = script_request_refuse(reader, "max_tokens", "missing");
    if (result == 0)
        result = take_limit(reader, body, "max_tokens", "max_tokens", false);
    return result == 0 ? read_messages(reader) : result;
}

static int read_openai(struct reader *reader)
{
    struct script_request *request = reader->request;
    const struct bl_json *options = script_request_member(request->body, "stream_options");

    int result = take_boolean(reader, request->body, "stream", &request->stream);
    if (result == 0 && options != NULL && !request->stream)
        result = script_request_refuse(reader, "stream_options", "allowed only if stream is true");
    if (result == 0)
        result = take_boolean(reader, options, "include_usage", &request->stream_usage);
    if (result == 0)
        result = take_limit(reader, request->body, "max_tokens", "max_tokens", false);
    if (result == 0)
        result = take_limit(reader, request->body, "max_completion_tokens", "max_completion_tokens",
                            false);
    return result == 0 ? read_messages(reader) : result;
}

static int read_ollama(struct reader *reader)
{
    struct script_request *request = reader->request;
    const struct bl_json *options = script_request_member(request->body, "options");

    request->stream = true;
    int result = take_boolean(reader, request->body, "stream", &request->stream);
    if (result == 0 && options != NULL && !bl_json_is(options, BL_JSON_OBJECT))
        result = script_request_refuse(reader, "options", "must be an object");
    if (result == 0)
        result = take_limit(reader, options, "num_predict", "options.num_predict", true);
    return result == 0 ? read_messages(reader) : result;
}

static int script_request_read_body(struct reader *reader, struct bl_arena *arena, bool count_only,
                                    struct bl_text body)
{
    struct script_request *request = reader->request;
    struct bl_json_fault fault;
    char where[256];

    if (bl_json_read(arena, body, NULL, &request->body, &fault) != 0) {
        bl_json_fault_text(&fault, where, sizeof where);
        return script_request_refuse(reader, "", "the body is not JSON: %s", where);
    }
    if (!bl_json_is(request->body, BL_JSON_OBJECT))
        return script_request_refuse(reader, "", "the body must be a JSON object, found %s",
                                     bl_json_type_name(bl_json_type(request->body)));
    int result = need_text(reader, request->body, "model", "", &request->model);
    if (result == 0 && request->model.size == 0)
        result = script_request_refuse(reader, "model", "must not be empty");
    if (result == 0)
        result = check_list(reader, "tools");
    if (result != 0)
        return result;
    switch (request->api) {
    case BL_API_ANTHROPIC: return read_anthropic(reader, count_only);
    case BL_API_OPENAI: return read_openai(reader);
    case BL_API_OPENAI_RESPONSES: return read_responses(reader);
    case BL_API_OLLAMA: return read_ollama(reader);
    }
    return BL_EINVAL;
}

int script_request_read(struct bl_arena *arena, enum bl_api api, bool count_only,
                        struct bl_text body, struct script_request *request,
                        struct script_problem *problem)
{
    struct reader reader = {.request = request, .problem = problem};

    *request =
        (struct script_request){.api = api, .newest = BL_TEXT(""), .max_tokens = BL_UNLIMITED};
    *problem = (struct script_problem){0};
    bl_map_init(&reader.pending);
    int result = script_request_read_body(&reader, arena, count_only, body);
    bl_map_done(&reader.pending);
    return result;
}
