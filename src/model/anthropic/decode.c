/* Answers in the format of Anthropic's Messages.
 *
 * Design notes. Blocks have an index, a start and a stop. Their content is reported as it arrives,
 * and kept, because an answer that pauses is sent back as it is. The decoder survives such a pause:
 * a message that starts again adds to the existing blocks. A block of an unknown type is assembled
 * from its pieces and sent back whole. */
#include "anthropic.h"

#define JSON_MAX   (2 * MODEL_EVENT_MAX)
#define BLOCKS_MAX 16384u /* of one answer */
#define OPEN_MAX   256u   /* blocks that are open at once */

/* A piece of text; any number of them, all in the arena. */
struct chunk {
    struct chunk *next;
    struct bl_text text;
};

struct chunks {
    struct chunk *first;
    struct chunk *last;
    size_t size;
};

enum block_kind {
    BLOCK_TEXT,
    BLOCK_THINKING,
    BLOCK_CALL,  /* of one of our tools */
    BLOCK_OTHER, /* kept for sending back */
};

struct block {
    struct bl_list link;
    struct bl_list open_link; /* until it stops */
    enum block_kind kind;
    int64_t index;
    struct bl_text start;     /* the start event's JSON; of other blocks */
    struct chunks text;       /* text, thinking */
    struct chunks signature;  /* of thinking */
    struct chunks input;      /* JSON, of calls and of other blocks */
    struct bl_text extra_key; /* another member that arrives in pieces, of other blocks; empty if
                                 none */
    struct chunks extra;
    struct model_call *call;
};

struct state {
    struct bl_list blocks; /* of the whole answer, over its pauses */
    size_t block_count;
    struct bl_list open; /* blocks that have not stopped */
    size_t open_count;
    struct model_call *empty_call; /* stopped, but not ended yet; NULL if none */
    struct bl_usage usage;         /* without cached input */
    struct bl_usage_detail detail;
    bool reason_known;
    char reason[40];
};

static struct state *anthropic_decode_state_of(struct model_decoder *decoder)
{
    if (decoder->state == NULL) {
        struct state *state = bl_arena_zalloc(decoder->arena, sizeof *state);
        bl_list_init(&state->blocks);
        bl_list_init(&state->open);
        decoder->state = state;
    }
    return decoder->state;
}

static void anthropic_decode_append(struct model_decoder *decoder, struct chunks *chunks,
                                    struct bl_text text)
{
    if (text.size == 0)
        return;
    struct chunk *chunk = bl_arena_alloc(decoder->arena, sizeof *chunk);
    *chunk = (struct chunk){.text = bl_arena_text(decoder->arena, text)};
    if (chunks->last != NULL)
        chunks->last->next = chunk;
    else
        chunks->first = chunk;
    chunks->last = chunk;
    chunks->size += text.size;
}

static struct bl_text anthropic_decode_join(struct bl_arena *arena, const struct chunks *chunks)
{
    char *data = bl_arena_alloc(arena, chunks->size + 1);
    size_t size = 0;

    for (const struct chunk *chunk = chunks->first; chunk != NULL; chunk = chunk->next) {
        memcpy(data + size, chunk->text.data, chunk->text.size);
        size += chunk->text.size;
    }
    data[size] = '\0';
    return (struct bl_text){data, size};
}

/* ---- Blocks to send back --------------------------------------------------------------------- */

/* Writes a block of an unknown type: its start, with the members that arrived in pieces. */
static void write_other(struct bl_arena *arena, const struct block *block,
                        struct bl_json_writer *writer)
{
    const struct bl_json *start, *input = NULL;
    struct bl_json_limits limits = {.string_max = JSON_MAX};

    if (bl_json_read(arena, block->start, &limits, &start, NULL) != 0)
        start = NULL;
    if (block->input.size > 0 && bl_json_read(arena, anthropic_decode_join(arena, &block->input),
                                              &limits, &input, NULL) != 0)
        input = NULL;
    bl_json_write_object(writer);
    BL_JSON_MEMBERS (key, start) {
        struct bl_text name = bl_json_text(key);
        if ((input != NULL && bl_text_equal(name, BL_TEXT("input"))) ||
            (block->extra_key.size > 0 && bl_text_equal(name, block->extra_key)))
            continue;
        bl_json_write_key(writer, name);
        bl_json_write_value(writer, key + 1);
    }
    if (input != NULL) {
        bl_json_write_key(writer, BL_TEXT("input"));
        bl_json_write_value(writer, input);
    }
    if (block->extra_key.size > 0) {
        bl_json_write_key(writer, block->extra_key);
        bl_json_write_text(writer, anthropic_decode_join(arena, &block->extra));
    }
    bl_json_write_end(writer);
}

static void anthropic_decode_write_call(const struct block *block, struct bl_json_writer *writer)
{
    BL_AUTO_ARENA(scratch);
    const struct bl_json *input;
    struct bl_text text = bl_buffer_text(&block->call->input);

    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "tool_use");
    bl_json_put_text(writer, "id", block->call->server_id);
    bl_json_put_text(writer, "name", block->call->name);
    bl_json_write_key(writer, BL_TEXT("input"));
    if (bl_json_read(&scratch, text, NULL, &input, NULL) == 0)
        bl_json_write_value(writer, input);
    else
        bl_json_write_raw(writer, BL_TEXT("{}"));
    bl_json_write_end(writer);
}

static void anthropic_decode_write_block(struct bl_arena *arena, const struct block *block,
                                         struct bl_json_writer *writer)
{
    if (block->kind == BLOCK_OTHER) {
        write_other(arena, block, writer);
        return;
    }
    if (block->kind == BLOCK_CALL) {
        anthropic_decode_write_call(block, writer);
        return;
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", block->kind == BLOCK_TEXT ? "text" : "thinking");
    bl_json_put_text(writer, block->kind == BLOCK_TEXT ? "text" : "thinking",
                     anthropic_decode_join(arena, &block->text));
    if (block->kind == BLOCK_THINKING)
        bl_json_put_text(writer, "signature", anthropic_decode_join(arena, &block->signature));
    bl_json_write_end(writer);
}

struct bl_text model_anthropic_resumed(const struct model_decoder *decoder)
{
    const struct state *state = decoder->state;
    BL_AUTO_BUFFER(out, BL_WIRE_REQUEST_MAX);
    struct bl_json_writer writer;
    BL_AUTO_ARENA(scratch);
    struct bl_text text = {0};
    size_t count = 0;

    if (state == NULL)
        return text;
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    BL_LIST_EACH (link, &state->blocks) {
        const struct block *block = BL_CONTAINER(link, struct block, link);
        if (block->kind == BLOCK_TEXT && block->text.size == 0)
            continue;
        anthropic_decode_write_block(&scratch, block, &writer);
        count++;
    }
    bl_json_write_end(&writer);
    if (count > 0 && bl_json_writer_done(&writer) == 0)
        text = bl_arena_text(decoder->arena, bl_buffer_text(&out));
    return text;
}

/* ---- Incoming blocks ------------------------------------------------------------------------- */

/* Returns the open block with that index; without an index, the newest open block. */
static struct block *anthropic_decode_find_block(const struct state *state,
                                                 const struct bl_json *data)
{
    int64_t index;
    bool given = bl_json_int64(bl_json_get(data, BL_TEXT("index")), &index);

    for (struct bl_list *link = state->open.previous; link != &state->open; link = link->previous) {
        struct block *block = BL_CONTAINER(link, struct block, open_link);
        if (!given || block->index == index)
            return block;
    }
    return NULL;
}

/* Ends a call that stopped without input: another block follows, so it has none. (At the end of an
 * answer it may have been cut off, and only the reason tells.) */
static int end_empty_call(struct model_decoder *decoder)
{
    struct state *state = anthropic_decode_state_of(decoder);
    struct model_call *call = state->empty_call;

    state->empty_call = NULL;
    return call != NULL ? model_call_end(decoder->assembly, call) : 0;
}

/* Two calls in a row cannot both be the last. */
static int stop_call(struct model_decoder *decoder, struct model_call *call)
{
    if (call->input.size > 0)
        return model_call_end(decoder->assembly, call);
    int result = end_empty_call(decoder);
    anthropic_decode_state_of(decoder)->empty_call = call;
    return result;
}

static int stop_block(struct model_decoder *decoder, struct block *block)
{
    struct model_assembly *assembly = decoder->assembly;
    BL_AUTO_BUFFER(out, JSON_MAX);
    struct bl_json_writer writer;
    struct bl_text nothing = {0};

    bl_list_remove(&block->open_link);
    anthropic_decode_state_of(decoder)->open_count--;
    assembly->meaningful = true;
    if (block->kind == BLOCK_TEXT)
        return 0;
    if (block->kind == BLOCK_CALL)
        return stop_call(decoder, block->call);
    BL_AUTO_ARENA(scratch);
    bl_json_writer_init(&writer, &out);
    if (block->kind == BLOCK_THINKING)
        bl_json_write_text(&writer, anthropic_decode_join(&scratch, &block->signature));
    else
        write_other(&scratch, block, &writer);
    struct bl_text opaque = nothing;
    if (bl_json_writer_done(&writer) == 0)
        opaque = model_opaque_make(decoder->arena, decoder->provider, decoder->profile,
                                   block->kind == BLOCK_THINKING ? "signature" : "block",
                                   bl_buffer_text(&out));
    return model_tell_thinking(assembly, nothing, opaque);
}

static int start_call(struct model_decoder *decoder, struct block *block,
                      const struct bl_json *content)
{
    const struct bl_json *input = bl_json_get(content, BL_TEXT("input"));

    int result = model_call_new(decoder->assembly, model_member(content, "id"),
                                model_member(content, "name"), &block->call);
    /* Always {} if pieces follow; the whole input from servers that send no pieces. */
    if (result == 0 && bl_json_size(input) > 0)
        result = model_call_whole(decoder->assembly, block->call, input);
    return result;
}

static int tell_block_text(struct model_decoder *decoder, struct block *block, struct bl_text text)
{
    anthropic_decode_append(decoder, &block->text, text);
    if (block->kind == BLOCK_TEXT)
        return model_tell_text(decoder->assembly, text);
    return model_tell_thinking(decoder->assembly, text, (struct bl_text){0});
}

/* Adds a block, after stopping one with the same index. */
static int anthropic_decode_add_block(struct model_decoder *decoder, const struct bl_json *data,
                                      struct block **ret_block)
{
    struct state *state = anthropic_decode_state_of(decoder);
    const struct bl_json *index = bl_json_get(data, BL_TEXT("index"));
    struct block *block = index != NULL ? anthropic_decode_find_block(state, data) : NULL;

    int result = block != NULL ? stop_block(decoder, block) : 0;
    if (result == 0)
        result = end_empty_call(decoder);
    if (result != 0)
        return result;
    if (state->block_count == BLOCKS_MAX || state->open_count == OPEN_MAX)
        return model_fail(decoder->assembly, "limit", 0,
                          BL_TEXT("the answer has too many content blocks"));
    block = bl_arena_zalloc(decoder->arena, sizeof *block);
    if (!bl_json_int64(index, &block->index))
        block->index = -1;
    bl_list_push_back(&state->blocks, &block->link);
    bl_list_push_back(&state->open, &block->open_link);
    state->block_count++;
    state->open_count++;
    decoder->assembly->meaningful = true;
    *ret_block = block;
    return 0;
}

static int start_block(struct model_decoder *decoder, const struct bl_json *data,
                       const struct bl_json *content)
{
    struct bl_text type = model_member(content, "type");
    struct block *block = NULL;

    if (type.size == 0)
        return 0;
    int result = anthropic_decode_add_block(decoder, data, &block);
    if (result != 0)
        return result;
    if (bl_text_equal(type, BL_TEXT("text"))) {
        block->kind = BLOCK_TEXT;
        return tell_block_text(decoder, block, model_member(content, "text"));
    }
    if (bl_text_equal(type, BL_TEXT("thinking"))) {
        block->kind = BLOCK_THINKING;
        anthropic_decode_append(decoder, &block->signature, model_member(content, "signature"));
        return tell_block_text(decoder, block, model_member(content, "thinking"));
    }
    /* Until the call exists, stopping the block must not end a call. */
    block->kind = BLOCK_OTHER;
    if (!bl_text_equal(type, BL_TEXT("tool_use"))) {
        block->start = model_json_text(decoder->arena, content);
        return 0;
    }
    result = start_call(decoder, block, content);
    if (block->call != NULL)
        block->kind = BLOCK_CALL;
    return result;
}

/* Adds to a block of an unknown type: any member that is text arrives in pieces. */
static void add_to_other(struct model_decoder *decoder, struct block *block,
                         const struct bl_json *delta)
{
    BL_JSON_MEMBERS (key, delta) {
        struct bl_text name = bl_json_text(key), text = bl_json_text(key + 1);
        if (text.size == 0 || bl_text_equal(name, BL_TEXT("type")))
            continue;
        decoder->assembly->meaningful = true;
        if (bl_text_equal(name, BL_TEXT("partial_json"))) {
            anthropic_decode_append(decoder, &block->input, text);
            continue;
        }
        if (block->extra_key.size == 0)
            block->extra_key = bl_arena_text(decoder->arena, name);
        if (bl_text_equal(name, block->extra_key))
            anthropic_decode_append(decoder, &block->extra, text);
    }
}

static int take_delta(struct model_decoder *decoder, const struct bl_json *data)
{
    const struct bl_json *delta = bl_json_get(data, BL_TEXT("delta"));
    struct block *block = anthropic_decode_find_block(anthropic_decode_state_of(decoder), data);
    struct bl_text type = model_member(delta, "type");

    if (block == NULL)
        return 0;
    switch (block->kind) {
    case BLOCK_TEXT:
        if (bl_text_equal(type, BL_TEXT("text_delta")))
            return tell_block_text(decoder, block, model_member(delta, "text"));
        return 0;
    case BLOCK_THINKING:
        if (bl_text_equal(type, BL_TEXT("thinking_delta")))
            return tell_block_text(decoder, block, model_member(delta, "thinking"));
        if (bl_text_equal(type, BL_TEXT("signature_delta"))) {
            anthropic_decode_append(decoder, &block->signature, model_member(delta, "signature"));
            decoder->assembly->meaningful = true;
        }
        return 0;
    case BLOCK_CALL:
        if (bl_text_equal(type, BL_TEXT("input_json_delta")))
            return model_call_input(decoder->assembly, block->call,
                                    model_member(delta, "partial_json"));
        return 0;
    case BLOCK_OTHER: add_to_other(decoder, block, delta); return 0;
    }
    return 0;
}

/* ---- Usage, reason and end ------------------------------------------------------------------- */

/* A present field overwrites the count; an absent one leaves it. */
static void anthropic_decode_take_count(const struct bl_json *usage, const char *key,
                                        uint64_t *count, bool *ret_found)
{
    int64_t value;

    if (bl_json_int64(bl_json_get(usage, bl_text_from(key)), &value) && value >= 0) {
        *count = (uint64_t)value;
        *ret_found = true;
    }
}

static int anthropic_decode_take_usage(struct model_decoder *decoder, const struct bl_json *usage)
{
    struct state *state = anthropic_decode_state_of(decoder);
    bool found = false;

    anthropic_decode_take_count(usage, "input_tokens", &state->usage.input_tokens, &found);
    anthropic_decode_take_count(usage, "output_tokens", &state->usage.output_tokens, &found);
    anthropic_decode_take_count(usage, "cache_read_input_tokens", &state->detail.cache_read_tokens,
                                &found);
    anthropic_decode_take_count(usage, "cache_creation_input_tokens",
                                &state->detail.cache_write_tokens, &found);
    anthropic_decode_take_count(bl_json_get(usage, BL_TEXT("output_tokens_details")),
                                "thinking_tokens", &state->detail.reasoning_tokens, &found);
    if (!found)
        return 0;
    struct bl_usage all = state->usage;
    bl_usage_add(&all, &(struct bl_usage){.input_tokens = state->detail.cache_read_tokens});
    bl_usage_add(&all, &(struct bl_usage){.input_tokens = state->detail.cache_write_tokens});
    return model_tell_usage(decoder->assembly, &all, &state->detail);
}

static void take_reason(struct model_decoder *decoder, const struct bl_json *reason)
{
    struct state *state = anthropic_decode_state_of(decoder);

    if (!bl_json_is(reason, BL_JSON_STRING))
        return;
    bl_text_into(state->reason, sizeof state->reason, bl_json_text(reason).data);
    state->reason_known = true;
}

static int finish_answer(struct model_decoder *decoder)
{
    static const struct {
        const char *reason;
        enum bl_answer_end end;
    } ends[] = {
        {"tool_use", BL_ANSWER_TOOL_CALLS},
        {"max_tokens", BL_ANSWER_MAX_TOKENS},
        {"stop_sequence", BL_ANSWER_STOP_SEQUENCE},
        {"refusal", BL_ANSWER_REFUSAL},
    };
    struct state *state = anthropic_decode_state_of(decoder);
    enum bl_answer_end end = BL_ANSWER_END;

    if (strcmp(state->reason, "model_context_window_exceeded") == 0)
        return model_fail(decoder->assembly, "context_overflow", 0,
                          BL_TEXT("the answer reached the end of the model's context"));
    if (strcmp(state->reason, "pause_turn") == 0) {
        /* The end of this part is not the end of the next one. */
        state->reason_known = false;
        state->reason[0] = '\0';
        decoder->assembly->pause = true;
        decoder->assembly->finished = true;
        return 0;
    }
    for (size_t i = 0; i < BL_COUNT(ends); i++) {
        if (strcmp(state->reason, ends[i].reason) == 0)
            end = ends[i].end;
    }
    return model_finish(decoder->assembly, end);
}

/* A message begins: the first one, or the continuation after a pause. */
static int start_message(struct model_decoder *decoder, const struct bl_json *message)
{
    struct state *state = anthropic_decode_state_of(decoder);
    int result = 0;

    while (result == 0 && !bl_list_empty(&state->open))
        result = stop_block(decoder, BL_CONTAINER(state->open.next, struct block, open_link));
    if (result == 0)
        result = end_empty_call(decoder);
    if (result != 0)
        return result;
    state->usage = (struct bl_usage){0};
    state->detail = (struct bl_usage_detail){0};
    state->reason_known = false;
    state->reason[0] = '\0';
    return anthropic_decode_take_usage(decoder, bl_json_get(message, BL_TEXT("usage")));
}

static int take_message_delta(struct model_decoder *decoder, const struct bl_json *data)
{
    take_reason(decoder, bl_json_pointer(data, BL_TEXT("/delta/stop_reason")));
    return anthropic_decode_take_usage(decoder, bl_json_get(data, BL_TEXT("usage")));
}

int anthropic_feed(struct model_decoder *decoder, struct bl_text event_name,
                   const struct bl_json *data)
{
    struct bl_text type = model_member(data, "type");
    const struct bl_json *error = bl_json_get(data, BL_TEXT("error"));

    if (type.size == 0)
        type = event_name;
    if (bl_text_equal(type, BL_TEXT("error")) ||
        (error != NULL && !bl_json_is(error, BL_JSON_NULL)))
        return model_fail_body(decoder->assembly, data);
    if (bl_text_equal(type, BL_TEXT("message_start")))
        return start_message(decoder, bl_json_get(data, BL_TEXT("message")));
    if (bl_text_equal(type, BL_TEXT("content_block_start")))
        return start_block(decoder, data, bl_json_get(data, BL_TEXT("content_block")));
    if (bl_text_equal(type, BL_TEXT("content_block_delta")))
        return take_delta(decoder, data);
    if (bl_text_equal(type, BL_TEXT("content_block_stop"))) {
        struct block *block = anthropic_decode_find_block(anthropic_decode_state_of(decoder), data);
        return block != NULL ? stop_block(decoder, block) : 0;
    }
    if (bl_text_equal(type, BL_TEXT("message_delta")))
        return take_message_delta(decoder, data);
    return bl_text_equal(type, BL_TEXT("message_stop")) ? finish_answer(decoder) : 0;
}

int anthropic_whole(struct model_decoder *decoder, const struct bl_json *answer)
{
    const struct bl_json *content = bl_json_get(answer, BL_TEXT("content"));
    const struct bl_json *error = bl_json_get(answer, BL_TEXT("error"));

    if ((error != NULL && !bl_json_is(error, BL_JSON_NULL)) ||
        bl_text_equal(model_member(answer, "type"), BL_TEXT("error")))
        return model_fail_body(decoder->assembly, answer);
    if (!bl_json_is(content, BL_JSON_ARRAY))
        return model_fail(decoder->assembly, "bad_response", 0,
                          BL_TEXT("the answer has no content"));
    int result = start_message(decoder, NULL);
    BL_JSON_EACH (part, content) {
        if (result == 0)
            result = start_block(decoder, NULL, part);
        struct block *block = anthropic_decode_find_block(anthropic_decode_state_of(decoder), NULL);
        if (result == 0 && block != NULL)
            result = stop_block(decoder, block);
    }
    take_reason(decoder, bl_json_get(answer, BL_TEXT("stop_reason")));
    if (result == 0)
        result = anthropic_decode_take_usage(decoder, bl_json_get(answer, BL_TEXT("usage")));
    return result == 0 ? finish_answer(decoder) : result;
}

int anthropic_finish(struct model_decoder *decoder)
{
    if (decoder->assembly->finished)
        return 0;
    if (decoder->assembly->failure.code != NULL)
        return BL_EIO;
    /* The reason is the last informative event. */
    if (anthropic_decode_state_of(decoder)->reason_known)
        return finish_answer(decoder);
    return model_fail(decoder->assembly, "stream_cut", 0,
                      BL_TEXT("the stream ended before the answer did"));
}
