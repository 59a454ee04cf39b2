/* Answers of POST {base}/chat/completions, from any server that claims to be compatible.
 *
 * Design notes. Servers disagree about everything but the rough shape, so no single field is
 * required: a call is identified by its id, its index, or its position; the end by a finish reason,
 * the end of the stream, or [DONE]. A call ends with the answer and not before, because no server
 * marks the end of its arguments. */
#include "openai.h"

#include <stdio.h>

/* A member of an object that only the server interprets. */
struct member {
    struct bl_list link;
    struct bl_text key;
    struct bl_text json;
};

/* A text that grows in an arena. */
struct growing {
    char *data;
    size_t size;
    size_t capacity;
};

/* One element of `reasoning_details`, assembled from its pieces. */
struct detail {
    struct bl_list link;
    struct bl_text type;
    bool has_index;
    int64_t index;
    const char *text_key; /* the member that arrives in pieces; NULL: arrived whole */
    struct growing text;
    bool is_signed; /* nothing follows a signature */
    struct bl_list members;
};

/* Tracks whether the arguments so far are one whole object. Counted incrementally: reading them
 * again with each piece would take quadratic time. */
struct balance {
    uint32_t depth;
    bool in_string;
    bool escaped;
    bool whole;
};

struct call_state {
    struct balance balance;
    struct bl_list extra;          /* unknown members */
    struct bl_list function_extra; /* unknown members of its `function` */
};

struct openai_state {
    struct call_state calls[MODEL_CALLS_MAX]; /* as in the assembly */
    struct bl_list details;
    const char *field; /* the source of the open thinking block; NULL: none is open */
    bool refused;
    bool ended; /* a finish reason arrived */
    enum bl_answer_end end;
};

static struct openai_state *openai_decode_state_of(struct model_decoder *decoder)
{
    if (decoder->state == NULL) {
        struct openai_state *state = bl_arena_zalloc(decoder->arena, sizeof *state);
        bl_list_init(&state->details);
        decoder->state = state;
    }
    return decoder->state;
}

/* ---- Kept members ---------------------------------------------------------------------------- */

static void keep_member(struct bl_arena *arena, struct bl_list *members, struct bl_text key,
                        const struct bl_json *value)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct member *member = NULL;

    /* An empty value never overwrites. */
    if (bl_json_is(value, BL_JSON_NULL))
        return;
    BL_LIST_EACH (link, members) {
        struct member *candidate = BL_CONTAINER(link, struct member, link);
        if (bl_text_equal(candidate->key, key))
            member = candidate;
    }
    struct bl_text json = model_json_text(arena, value);
    /* Most of them are repeated with every piece. */
    if (json.size == 0 || (member != NULL && bl_text_equal(member->json, json))) {
        bl_arena_rewind(arena, mark);
        return;
    }
    if (member == NULL) {
        member = bl_arena_alloc(arena, sizeof *member);
        member->key = bl_arena_text(arena, key);
        bl_list_push_back(members, &member->link);
    }
    member->json = json;
}

static void write_members(struct bl_json_writer *writer, const struct bl_list *members)
{
    BL_LIST_EACH (link, members) {
        const struct member *member = BL_CONTAINER(link, struct member, link);
        bl_json_write_key(writer, member->key);
        bl_json_write_raw(writer, member->json);
    }
}

static void grow(struct bl_arena *arena, struct growing *text, struct bl_text more)
{
    if (more.size == 0)
        return;
    if (text->capacity - text->size < more.size) {
        size_t capacity = 2 * (text->size + more.size);
        text->data = text->capacity == 0
                         ? bl_arena_alloc(arena, capacity)
                         : bl_arena_resize(arena, text->data, text->capacity, capacity);
        text->capacity = capacity;
    }
    memcpy(text->data + text->size, more.data, more.size);
    text->size += more.size;
}

/* ---- Thinking -------------------------------------------------------------------------------- */

/* Ends the open thinking block: something else follows. */
static int close_thinking(struct model_decoder *decoder)
{
    struct openai_state *state = openai_decode_state_of(decoder);
    char quoted[32];

    if (state->field == NULL)
        return 0;
    int size = snprintf(quoted, sizeof quoted, "\"%s\"", state->field);
    state->field = NULL;
    return model_tell_thinking(decoder->assembly, (struct bl_text){0},
                               model_opaque_make(decoder->arena, decoder->provider,
                                                 decoder->profile, "field",
                                                 (struct bl_text){quoted, (size_t)size}));
}

/* Returns the member of a detail that arrives in pieces. */
static const char *text_key_of(const struct bl_json *piece)
{
    static const char *const keys[] = {"text", "summary"};

    for (size_t i = 0; i < BL_COUNT(keys); i++) {
        if (bl_json_is(bl_json_get(piece, bl_text_from(keys[i])), BL_JSON_STRING))
            return keys[i];
    }
    return NULL;
}

/* Returns the detail that the piece belongs to, or a new one. */
static struct detail *detail_of(struct model_decoder *decoder, const struct bl_json *piece)
{
    struct bl_list *details = &openai_decode_state_of(decoder)->details;
    struct bl_text type = model_member(piece, "type");
    bool is_signature = model_member(piece, "signature").size > 0;
    const char *text_key = text_key_of(piece);
    int64_t index = 0;
    bool has_index = bl_json_int64(bl_json_get(piece, BL_TEXT("index")), &index);

    if (!bl_list_empty(details)) {
        struct detail *last = BL_CONTAINER(details->previous, struct detail, link);
        if (!last->is_signed && last->text_key != NULL && last->has_index == has_index &&
            last->index == index && bl_text_equal(last->type, type) &&
            (text_key == last->text_key || (text_key == NULL && is_signature)))
            return last;
    }
    struct detail *detail = bl_arena_zalloc(decoder->arena, sizeof *detail);
    detail->type = bl_arena_text(decoder->arena, type);
    detail->has_index = has_index;
    detail->index = index;
    detail->text_key = text_key;
    bl_list_init(&detail->members);
    bl_list_push_back(details, &detail->link);
    return detail;
}

static int take_detail(struct model_decoder *decoder, const struct bl_json *piece, bool tell)
{
    struct detail *detail = detail_of(decoder, piece);
    struct bl_text text = {0};

    BL_JSON_MEMBERS (key, piece) {
        if (detail->text_key != NULL &&
            bl_text_equal(bl_json_text(key), bl_text_from(detail->text_key)))
            text = bl_json_text(key + 1);
        else
            keep_member(decoder->arena, &detail->members, bl_json_text(key), key + 1);
    }
    grow(decoder->arena, &detail->text, text);
    detail->is_signed = model_member(piece, "signature").size > 0;
    decoder->assembly->meaningful = true;
    return tell ? model_tell_thinking(decoder->assembly, text, (struct bl_text){0}) : 0;
}

/* Reports all details of the answer, as one array to send back unchanged. */
static int tell_details(struct model_decoder *decoder)
{
    struct openai_state *state = openai_decode_state_of(decoder);
    BL_AUTO_BUFFER(out, 2 * MODEL_EVENT_MAX);
    struct bl_json_writer writer;
    int result = 0;

    if (bl_list_empty(&state->details))
        return 0;
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, &state->details) {
        const struct detail *detail = BL_CONTAINER(link, struct detail, link);
        bl_json_write_object(&writer);
        write_members(&writer, &detail->members);
        if (detail->text_key != NULL)
            bl_json_put_text(&writer, detail->text_key,
                             (struct bl_text){detail->text.data, detail->text.size});
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) == 0)
        result = model_tell_thinking(decoder->assembly, (struct bl_text){0},
                                     model_opaque_make(decoder->arena, decoder->provider,
                                                       decoder->profile, "details",
                                                       bl_buffer_text(&out)));
    return result;
}

static int openai_decode_take_thinking(struct model_decoder *decoder, const struct bl_json *delta)
{
    static const char *const fields[] = {"reasoning_content", "reasoning", "reasoning_text"};
    const struct bl_json *details = bl_json_get(delta, BL_TEXT("reasoning_details"));
    struct openai_state *state = openai_decode_state_of(decoder);
    const char *field = NULL;
    int result = 0;

    for (size_t i = 0; i < BL_COUNT(fields) && field == NULL; i++) {
        struct bl_text text = bl_json_text(bl_json_get(delta, bl_text_from(fields[i])));
        if (text.size == 0)
            continue;
        field = fields[i];
        /* Details have the same text, and are sent back. */
        if (bl_json_size(details) == 0 && bl_list_empty(&state->details))
            state->field = field;
        result = model_tell_thinking(decoder->assembly, text, (struct bl_text){0});
    }
    BL_JSON_EACH (detail, details) {
        if (result == 0 && bl_json_is(detail, BL_JSON_OBJECT))
            result = take_detail(decoder, detail, field == NULL);
    }
    return result;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int openai_decode_take_text(struct model_decoder *decoder, struct bl_text text)
{
    if (text.size == 0)
        return 0;
    int result = close_thinking(decoder);
    return result == 0 ? model_tell_text(decoder->assembly, text) : result;
}

static int take_refusal(struct model_decoder *decoder, struct bl_text text)
{
    if (text.size > 0)
        openai_decode_state_of(decoder)->refused = true;
    return openai_decode_take_text(decoder, text);
}

/* Content is a text, or a list of parts: text, thinking, a refusal. */
static int take_content(struct model_decoder *decoder, const struct bl_json *content)
{
    int result = openai_decode_take_text(decoder, bl_json_text(content));

    BL_JSON_EACH (part, content) {
        const struct bl_json *thinking = bl_json_get(part, BL_TEXT("thinking"));
        if (result == 0)
            result =
                model_tell_thinking(decoder->assembly, bl_json_text(thinking), (struct bl_text){0});
        BL_JSON_EACH (piece, thinking) {
            if (result == 0)
                result = model_tell_thinking(decoder->assembly, model_member(piece, "text"),
                                             (struct bl_text){0});
        }
        if (result == 0)
            result = openai_decode_take_text(decoder, model_member(part, "text"));
        if (result == 0)
            result = take_refusal(decoder, model_member(part, "refusal"));
    }
    return result;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void balance_add(struct balance *balance, struct bl_text piece)
{
    for (size_t i = 0; i < piece.size; i++) {
        char byte = piece.data[i];
        if (balance->escaped) {
            balance->escaped = false;
        } else if (balance->in_string) {
            balance->escaped = byte == '\\';
            balance->in_string = byte != '"';
        } else if (byte == '"') {
            balance->in_string = true;
        } else if (byte == '{' || byte == '[') {
            balance->depth++;
        } else if ((byte == '}' || byte == ']') && balance->depth > 0) {
            balance->whole = --balance->depth == 0;
        }
    }
}

static struct call_state *call_state_of(struct model_decoder *decoder,
                                        const struct model_call *call)
{
    struct model_assembly *assembly = decoder->assembly;
    uint32_t at = assembly->call_count - 1;

    while (at > 0 && assembly->calls[at] != call)
        at--;
    return &openai_decode_state_of(decoder)->calls[at];
}

/* Returns the newest call with that key, or NULL; if the id is not empty, only calls with that
 * id. */
static struct model_call *openai_decode_find_call(const struct model_assembly *assembly,
                                                  struct bl_text id, const int64_t *key)
{
    for (uint32_t i = assembly->call_count; i-- > 0;) {
        struct model_call *call = assembly->calls[i];
        if ((id.size == 0 || bl_text_equal(call->server_id, id)) &&
            (key == NULL || call->key == *key))
            return call;
    }
    return NULL;
}

/* Returns whether a name without an id starts a new call: the current call has its name and all of
 * its arguments, or another name and some arguments. */
static bool starts_new_call(struct model_decoder *decoder, const struct model_call *call,
                            struct bl_text name)
{
    if (name.size == 0 || call->name.size == 0)
        return false;
    return call_state_of(decoder, call)->balance.whole ||
           (call->input.size > 0 && !bl_text_equal(name, call->name));
}

/* Returns the call that an entry belongs to; NULL: a new one. */
static struct model_call *match_call(struct model_decoder *decoder, const struct bl_json *entry,
                                     struct bl_text name, int64_t position, size_t count)
{
    const struct model_assembly *assembly = decoder->assembly;
    struct bl_text id = model_member(entry, "id");
    int64_t index;
    bool has_index = bl_json_int64(bl_json_get(entry, BL_TEXT("index")), &index);
    struct model_call *call;

    if (id.size > 0) {
        call = openai_decode_find_call(assembly, id, has_index ? &index : NULL);
        if (call != NULL || !has_index || name.size > 0)
            return call;
        /* A late id, for a call that has none. */
        call = openai_decode_find_call(assembly, (struct bl_text){0}, &index);
        return call != NULL && call->server_id.size == 0 ? call : NULL;
    }
    if (has_index)
        call = openai_decode_find_call(assembly, (struct bl_text){0}, &index);
    else
        call = openai_decode_find_call(assembly, (struct bl_text){0}, count > 1 ? &position : NULL);
    return call != NULL && !starts_new_call(decoder, call, name) ? call : NULL;
}

/* Keeps the unknown members of a call. */
static void keep_extra(struct model_decoder *decoder, struct call_state *state,
                       const struct bl_json *entry)
{
    static const char *const known[] = {"id", "index", "type", "function"};

    BL_JSON_MEMBERS (key, entry) {
        size_t i = 0;
        while (i < BL_COUNT(known) && !bl_text_equal(bl_json_text(key), bl_text_from(known[i])))
            i++;
        if (i == BL_COUNT(known))
            keep_member(decoder->arena, &state->extra, bl_json_text(key), key + 1);
    }
    BL_JSON_MEMBERS (key, bl_json_get(entry, BL_TEXT("function"))) {
        if (!bl_text_equal(bl_json_text(key), BL_TEXT("name")) &&
            !bl_text_equal(bl_json_text(key), BL_TEXT("arguments")))
            keep_member(decoder->arena, &state->function_extra, bl_json_text(key), key + 1);
    }
}

static int openai_decode_take_call(struct model_decoder *decoder, const struct bl_json *entry,
                                   int64_t position, size_t count)
{
    struct model_assembly *assembly = decoder->assembly;
    const struct bl_json *function = bl_json_get(entry, BL_TEXT("function"));
    const struct bl_json *arguments = bl_json_get(function, BL_TEXT("arguments"));
    struct bl_text name = model_member(function, "name");
    struct model_call *call = match_call(decoder, entry, name, position, count);
    int result;

    if (call == NULL) {
        result = model_call_new(assembly, model_member(entry, "id"), name, &call);
        if (result != 0)
            return result;
        if (!bl_json_int64(bl_json_get(entry, BL_TEXT("index")), &call->key))
            call->key = position;
        bl_list_init(&call_state_of(decoder, call)->extra);
        bl_list_init(&call_state_of(decoder, call)->function_extra);
    } else {
        result = model_call_name(assembly, call, name);
    }
    if (result != 0)
        return result;
    struct call_state *state = call_state_of(decoder, call);
    keep_extra(decoder, state, entry);
    if (!bl_json_is(arguments, BL_JSON_STRING)) {
        state->balance.whole = state->balance.whole || bl_json_is(arguments, BL_JSON_OBJECT);
        return model_call_whole(assembly, call, arguments);
    }
    balance_add(&state->balance, bl_json_text(arguments));
    return model_call_input(assembly, call, bl_json_text(arguments));
}

static int take_calls(struct model_decoder *decoder, const struct bl_json *entries)
{
    int64_t position = 0;
    int result = 0;

    if (bl_json_size(entries) > 0 && bl_json_is(entries, BL_JSON_ARRAY))
        result = close_thinking(decoder);
    BL_JSON_EACH (entry, entries) {
        if (result == 0 && bl_json_is(entry, BL_JSON_OBJECT))
            result = openai_decode_take_call(decoder, entry, position, bl_json_size(entries));
        position++;
    }
    return result;
}

/* Stores the kept members of a call, for sending it back. */
static void seal_call(struct model_decoder *decoder, struct model_call *call)
{
    const struct call_state *state = call_state_of(decoder, call);
    BL_AUTO_BUFFER(out, 2 * MODEL_EVENT_MAX);
    struct bl_json_writer writer;

    if (bl_list_empty(&state->extra) && bl_list_empty(&state->function_extra))
        return;
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    write_members(&writer, &state->extra);
    if (!bl_list_empty(&state->function_extra)) {
        bl_json_write_key(&writer, BL_TEXT("function"));
        bl_json_write_object(&writer);
        write_members(&writer, &state->function_extra);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) == 0)
        call->opaque = model_opaque_make(decoder->arena, decoder->provider, decoder->profile,
                                         "extra", bl_buffer_text(&out));
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int openai_decode_take_message(struct model_decoder *decoder, const struct bl_json *message)
{
    int result = openai_decode_take_thinking(decoder, message);

    if (result == 0)
        result = take_content(decoder, bl_json_get(message, BL_TEXT("content")));
    if (result == 0)
        result = take_refusal(decoder, model_member(message, "refusal"));
    if (result == 0)
        result = take_calls(decoder, bl_json_get(message, BL_TEXT("tool_calls")));
    return result;
}

/* Finish reasons of servers. An unlisted one means a normal end. */
static int take_finish(struct model_decoder *decoder, struct bl_text reason)
{
    static const struct {
        const char *word;
        enum bl_answer_end end;
        const char *code; /* the code, if it is a failure */
    } table[] = {
        {"length", BL_ANSWER_MAX_TOKENS, NULL},
        {"max_tokens", BL_ANSWER_MAX_TOKENS, NULL},
        {"model_length", BL_ANSWER_MAX_TOKENS, NULL},
        {"tool_calls", BL_ANSWER_TOOL_CALLS, NULL},
        {"function_call", BL_ANSWER_TOOL_CALLS, NULL},
        {"stop_sequence", BL_ANSWER_STOP_SEQUENCE, NULL},
        {"content_filter", BL_ANSWER_REFUSAL, NULL},
        {"refusal", BL_ANSWER_REFUSAL, NULL},
        {"safety", BL_ANSWER_REFUSAL, NULL},
        {"sensitive", BL_ANSWER_REFUSAL, NULL},
        {"error", BL_ANSWER_END, "server"},
        {"abort", BL_ANSWER_END, "server"},
        {"network_error", BL_ANSWER_END, "server"},
        {"insufficient_system_resource", BL_ANSWER_END, "overloaded"},
        {"model_context_window_exceeded", BL_ANSWER_END, "context_overflow"},
    };
    struct openai_state *state = openai_decode_state_of(decoder);

    if (reason.size == 0)
        return 0;
    state->ended = true;
    state->end = BL_ANSWER_END;
    for (size_t i = 0; i < BL_COUNT(table); i++) {
        if (!bl_text_equal(reason, bl_text_from(table[i].word)))
            continue;
        state->end = table[i].end;
        if (table[i].code != NULL)
            return model_fail(decoder->assembly, table[i].code, 0,
                              bl_arena_printf(decoder->arena,
                                              "the server ended the answer with '%s'",
                                              table[i].word));
    }
    return 0;
}

/* Processes one chunk, or a whole answer; `key` is the name of its message. */
static int take_chunk(struct model_decoder *decoder, const struct bl_json *data, const char *key)
{
    struct model_assembly *assembly = decoder->assembly;
    const struct bl_json *choice = bl_json_at(bl_json_get(data, BL_TEXT("choices")), 0);

    if (openai_is_error(data))
        return model_fail_body(assembly, data);
    if (openai_is_error(choice))
        return model_fail_body(assembly, choice);
    int result = openai_decode_take_message(decoder, bl_json_get(choice, bl_text_from(key)));
    if (result == 0)
        result = take_finish(decoder, model_member(choice, "finish_reason"));
    if (result == 0)
        result = openai_usage(assembly, bl_json_get(choice, BL_TEXT("usage")));
    if (result == 0)
        result = openai_usage(assembly, bl_json_pointer(data, BL_TEXT("/x_groq/usage")));
    return result == 0 ? openai_usage(assembly, bl_json_get(data, BL_TEXT("usage"))) : result;
}

int openai_feed(struct model_decoder *decoder, struct bl_text event_name,
                const struct bl_json *data)
{
    if (bl_text_equal(event_name, BL_TEXT("error")))
        return model_fail_body(decoder->assembly, data);
    return take_chunk(decoder, data, "delta");
}

static int openai_decode_end_answer(struct model_decoder *decoder)
{
    struct model_assembly *assembly = decoder->assembly;
    struct openai_state *state = openai_decode_state_of(decoder);
    int result = close_thinking(decoder);

    if (result == 0)
        result = tell_details(decoder);
    for (uint32_t i = 0; i < assembly->call_count && result == 0; i++) {
        seal_call(decoder, assembly->calls[i]);
        /* The limit cuts only the last call: earlier ones are whole. */
        if (i + 1 < assembly->call_count)
            result = model_call_end(assembly, assembly->calls[i]);
    }
    if (result != 0)
        return result;
    return model_finish(assembly, state->refused ? BL_ANSWER_REFUSAL : state->end);
}

int openai_whole(struct model_decoder *decoder, const struct bl_json *answer)
{
    int result = take_chunk(decoder, answer, "message");

    if (result == 0 &&
        !bl_json_is(bl_json_pointer(answer, BL_TEXT("/choices/0/message")), BL_JSON_OBJECT))
        result = model_fail(decoder->assembly, "bad_response", 0,
                            BL_TEXT("the answer has no choices[0].message"));
    return result == 0 ? openai_decode_end_answer(decoder) : result;
}

int openai_finish(struct model_decoder *decoder)
{
    if (decoder->assembly->finished)
        return 0;
    if (decoder->assembly->failure.code != NULL)
        return BL_EIO;
    if (!openai_decode_state_of(decoder)->ended)
        return model_fail(decoder->assembly, "stream_cut", 0,
                          BL_TEXT("the stream ended before its finish_reason"));
    return openai_decode_end_answer(decoder);
}
