/* The events of three formats; responses.c has the fourth. */
#include "serve.h"

#include <stdio.h>

/* Returns the text of that type; empty if there is none. */
static struct bl_text format_text_of(const struct script_answer *answer, enum bl_block_type type)
{
    BL_LIST_EACH (link, &answer->blocks) {
        const struct script_block *block = BL_CONTAINER(link, struct script_block, link);
        if (block->type == type)
            return script_block_text(block);
    }
    return BL_TEXT("");
}

/* Writes the input of a call as a value; as a string if it is not an object. */
static void format_write_input(struct bl_json_writer *writer, const struct script_block *block)
{
    if (block->invalid)
        bl_json_write_text(writer, script_block_text(block));
    else
        bl_json_write_raw(writer, script_block_text(block));
}

static void format_put_id(struct bl_json_writer *writer, const struct script_answer *answer,
                          const char *prefix)
{
    char id[48];

    snprintf(id, sizeof id, "%sscript_%llu", prefix, (unsigned long long)answer->number);
    bl_json_put_string(writer, "id", id);
}

static uint64_t begun_s(const struct script_answer *answer)
{
    return (uint64_t)answer->begun_wall_ns / BL_NS_PER_S;
}

/* ---- anthropic ------------------------------------------------------------------------------- */

static const char *anthropic_stop(enum bl_answer_end end)
{
    switch (end) {
    case BL_ANSWER_END: return "end_turn";
    case BL_ANSWER_TOOL_CALLS: return "tool_use";
    case BL_ANSWER_MAX_TOKENS: return "max_tokens";
    case BL_ANSWER_STOP_SEQUENCE: return "stop_sequence";
    case BL_ANSWER_REFUSAL: return "refusal";
    }
    return "end_turn";
}

static void put_anthropic_usage(struct bl_json_writer *writer, const struct bl_usage *usage)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "input_tokens", usage->input_tokens);
    bl_json_put_uint64(writer, "cache_creation_input_tokens", 0);
    bl_json_put_uint64(writer, "cache_read_input_tokens", 0);
    bl_json_put_uint64(writer, "output_tokens", usage->output_tokens);
    bl_json_write_end(writer);
}

/* Writes a content block; in a stream it starts empty. */
static void write_anthropic_block(struct bl_json_writer *writer, const struct script_block *block,
                                  bool empty)
{
    struct bl_text text = empty ? BL_TEXT("") : script_block_text(block);
    char signature[SCRIPT_SIGNATURE_SIZE] = "";

    bl_json_write_object(writer);
    if (block->type == BL_BLOCK_THINKING) {
        if (!empty)
            script_signature(text, signature);
        bl_json_put_string(writer, "type", "thinking");
        bl_json_put_text(writer, "thinking", text);
        bl_json_put_string(writer, "signature", signature);
    } else if (block->type == BL_BLOCK_CALL) {
        bl_json_put_string(writer, "type", "tool_use");
        bl_json_put_text(writer, "id", block->id);
        bl_json_put_text(writer, "name", block->name);
        bl_json_write_key(writer, BL_TEXT("input"));
        if (empty)
            bl_json_write_raw(writer, BL_TEXT("{}"));
        else
            format_write_input(writer, block);
    } else {
        bl_json_put_string(writer, "type", "text");
        bl_json_put_text(writer, "text", text);
    }
    bl_json_write_end(writer);
}

static void write_anthropic_message(struct script_answer *answer, struct bl_json_writer *writer)
{
    bl_json_write_object(writer);
    format_put_id(writer, answer, "msg_");
    bl_json_put_string(writer, "type", "message");
    bl_json_put_string(writer, "role", "assistant");
    bl_json_put_text(writer, "model", answer->request->model);
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &answer->blocks) {
        if (answer->ended)
            write_anthropic_block(writer, BL_CONTAINER(link, struct script_block, link), false);
    }
    bl_json_write_end(writer);
    bl_json_put_string(writer, "stop_reason", answer->ended ? anthropic_stop(answer->end) : NULL);
    bl_json_put_string(writer, "stop_sequence", NULL);
    struct bl_usage usage = answer->usage;
    /* Like the vendor's server, which counts a first token before it is known. */
    if (!answer->ended)
        usage.output_tokens = 1;
    put_anthropic_usage(writer, &usage);
    bl_json_write_end(writer);
}

static void anthropic_begin(struct script_answer *answer)
{
    struct bl_json_writer *writer = script_event_begin(answer, "message_start");

    bl_json_put_string(writer, "type", "message_start");
    bl_json_write_key(writer, BL_TEXT("message"));
    write_anthropic_message(answer, writer);
    script_event_end(answer);
}

static void anthropic_open(struct script_answer *answer, const struct script_block *block)
{
    struct bl_json_writer *writer = script_event_begin(answer, "content_block_start");

    bl_json_put_string(writer, "type", "content_block_start");
    bl_json_put_uint64(writer, "index", block->index);
    bl_json_write_key(writer, BL_TEXT("content_block"));
    write_anthropic_block(writer, block, true);
    script_event_end(answer);
    if (block->index == 0) {
        bl_json_put_string(script_event_begin(answer, "ping"), "type", "ping");
        script_event_end(answer);
    }
}

static void write_anthropic_delta(struct script_answer *answer, uint32_t index, const char *type,
                                  const char *key, struct bl_text value)
{
    struct bl_json_writer *writer = script_event_begin(answer, "content_block_delta");

    bl_json_put_string(writer, "type", "content_block_delta");
    bl_json_put_uint64(writer, "index", index);
    bl_json_write_key(writer, BL_TEXT("delta"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", type);
    bl_json_put_text(writer, key, value);
    bl_json_write_end(writer);
    script_event_end(answer);
}

static void anthropic_delta(struct script_answer *answer, const struct script_block *block,
                            struct bl_text piece)
{
    if (block->type == BL_BLOCK_THINKING)
        write_anthropic_delta(answer, block->index, "thinking_delta", "thinking", piece);
    else if (block->type == BL_BLOCK_CALL)
        write_anthropic_delta(answer, block->index, "input_json_delta", "partial_json", piece);
    else
        write_anthropic_delta(answer, block->index, "text_delta", "text", piece);
}

static void anthropic_close(struct script_answer *answer, const struct script_block *block)
{
    char signature[SCRIPT_SIGNATURE_SIZE];

    if (block->type == BL_BLOCK_THINKING) {
        script_signature(script_block_text(block), signature);
        write_anthropic_delta(answer, block->index, "signature_delta", "signature",
                              bl_text_from(signature));
    }
    struct bl_json_writer *writer = script_event_begin(answer, "content_block_stop");
    bl_json_put_string(writer, "type", "content_block_stop");
    bl_json_put_uint64(writer, "index", block->index);
    script_event_end(answer);
}

static void anthropic_finish(struct script_answer *answer)
{
    struct bl_json_writer *writer = script_event_begin(answer, "message_delta");

    bl_json_put_string(writer, "type", "message_delta");
    bl_json_write_key(writer, BL_TEXT("delta"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "stop_reason", anthropic_stop(answer->end));
    bl_json_put_string(writer, "stop_sequence", NULL);
    bl_json_write_end(writer);
    put_anthropic_usage(writer, &answer->usage);
    script_event_end(answer);
    bl_json_put_string(script_event_begin(answer, "message_stop"), "type", "message_stop");
    script_event_end(answer);
}

static void anthropic_whole(struct script_answer *answer)
{
    write_anthropic_message(answer, &answer->writer);
}

const struct script_format script_format_anthropic = {
    anthropic_begin, anthropic_open,   anthropic_delta,
    anthropic_close, anthropic_finish, anthropic_whole,
};

/* ---- openai ---------------------------------------------------------------------------------- */

static const char *openai_stop(enum bl_answer_end end)
{
    switch (end) {
    case BL_ANSWER_END:
    case BL_ANSWER_STOP_SEQUENCE: return "stop";
    case BL_ANSWER_TOOL_CALLS: return "tool_calls";
    case BL_ANSWER_MAX_TOKENS: return "length";
    case BL_ANSWER_REFUSAL: return "content_filter";
    }
    return "stop";
}

static void put_openai_head(struct script_answer *answer, struct bl_json_writer *writer,
                            const char *object)
{
    format_put_id(writer, answer, "chatcmpl-");
    bl_json_put_string(writer, "object", object);
    bl_json_put_uint64(writer, "created", begun_s(answer));
    bl_json_put_text(writer, "model", answer->request->model);
    bl_json_put_string(writer, "service_tier", "default");
    bl_json_put_string(writer, "system_fingerprint", "fp_script");
    bl_json_write_key(writer, BL_TEXT("choices"));
    bl_json_write_array(writer);
}

static void put_openai_usage(struct bl_json_writer *writer, const struct bl_usage *usage)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "prompt_tokens", usage->input_tokens);
    bl_json_put_uint64(writer, "completion_tokens", usage->output_tokens);
    bl_json_put_uint64(writer, "total_tokens", bl_usage_total(usage));
    bl_json_put_json(writer, "prompt_tokens_details",
                     BL_TEXT("{\"cached_tokens\":0,\"audio_tokens\":0}"));
    bl_json_put_json(writer, "completion_tokens_details",
                     BL_TEXT("{\"reasoning_tokens\":0,\"audio_tokens\":0,"
                             "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}"));
    bl_json_write_end(writer);
}

/* Begin and end a chunk: the members before and after its delta. */
static struct bl_json_writer *chunk_begin(struct script_answer *answer)
{
    struct bl_json_writer *writer = script_event_begin(answer, NULL);

    put_openai_head(answer, writer, "chat.completion.chunk");
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "index", 0);
    bl_json_write_key(writer, BL_TEXT("delta"));
    bl_json_write_object(writer);
    return writer;
}

static void format_chunk_end(struct script_answer *answer, const char *finish_reason)
{
    struct bl_json_writer *writer = &answer->writer;

    bl_json_write_end(writer);
    bl_json_put_string(writer, "logprobs", NULL);
    bl_json_put_string(writer, "finish_reason", finish_reason);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    if (answer->request->stream_usage)
        bl_json_put_string(writer, "usage", NULL);
    script_event_end(answer);
}

static void openai_begin(struct script_answer *answer)
{
    struct bl_json_writer *writer = chunk_begin(answer);

    bl_json_put_string(writer, "role", "assistant");
    bl_json_put_string(writer, "content", "");
    bl_json_put_string(writer, "refusal", NULL);
    format_chunk_end(answer, NULL);
}

static void write_openai_call(struct bl_json_writer *writer, const struct script_block *block,
                              bool streamed, bool named, struct bl_text arguments)
{
    bl_json_write_object(writer);
    if (streamed)
        bl_json_put_uint64(writer, "index", block->call_index);
    if (named) {
        bl_json_put_text(writer, "id", block->id);
        bl_json_put_string(writer, "type", "function");
    }
    bl_json_write_key(writer, BL_TEXT("function"));
    bl_json_write_object(writer);
    if (named)
        bl_json_put_text(writer, "name", block->name);
    bl_json_put_text(writer, "arguments", arguments);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void write_openai_call_chunk(struct script_answer *answer, const struct script_block *block,
                                    bool named, struct bl_text arguments)
{
    struct bl_json_writer *writer = chunk_begin(answer);

    bl_json_write_key(writer, BL_TEXT("tool_calls"));
    bl_json_write_array(writer);
    write_openai_call(writer, block, true, named, arguments);
    bl_json_write_end(writer);
    format_chunk_end(answer, NULL);
}

static void openai_open(struct script_answer *answer, const struct script_block *block)
{
    if (block->type == BL_BLOCK_CALL)
        write_openai_call_chunk(answer, block, true, BL_TEXT(""));
}

static void openai_delta(struct script_answer *answer, const struct script_block *block,
                         struct bl_text piece)
{
    if (block->type == BL_BLOCK_CALL) {
        write_openai_call_chunk(answer, block, false, piece);
        return;
    }
    bl_json_put_text(chunk_begin(answer),
                     block->type == BL_BLOCK_THINKING ? "reasoning_content" : "content", piece);
    format_chunk_end(answer, NULL);
}

static void close_silently(struct script_answer *answer BL_UNUSED,
                           const struct script_block *block BL_UNUSED)
{
}

static void openai_finish(struct script_answer *answer)
{
    chunk_begin(answer);
    format_chunk_end(answer, openai_stop(answer->end));
    if (answer->request->stream_usage) {
        struct bl_json_writer *writer = script_event_begin(answer, NULL);
        put_openai_head(answer, writer, "chat.completion.chunk");
        bl_json_write_end(writer);
        put_openai_usage(writer, &answer->usage);
        script_event_end(answer);
    }
    bl_buffer_append(&answer->out, BL_TEXT("data: [DONE]\n\n"));
}

static void openai_whole(struct script_answer *answer)
{
    struct bl_json_writer *writer = &answer->writer;
    struct bl_text said = format_text_of(answer, BL_BLOCK_TEXT);
    struct bl_text thinking = format_text_of(answer, BL_BLOCK_THINKING);

    bl_json_write_object(writer);
    put_openai_head(answer, writer, "chat.completion");
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "index", 0);
    bl_json_write_key(writer, BL_TEXT("message"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "role", "assistant");
    if (said.size > 0 || answer->call_count == 0)
        bl_json_put_text(writer, "content", said);
    else
        bl_json_put_string(writer, "content", NULL);
    bl_json_put_string(writer, "refusal", NULL);
    if (thinking.size > 0)
        bl_json_put_text(writer, "reasoning_content", thinking);
    if (answer->call_count > 0) {
        bl_json_write_key(writer, BL_TEXT("tool_calls"));
        bl_json_write_array(writer);
        BL_LIST_EACH (link, &answer->blocks) {
            const struct script_block *block = BL_CONTAINER(link, struct script_block, link);
            if (block->type == BL_BLOCK_CALL)
                write_openai_call(writer, block, false, true, script_block_text(block));
        }
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_put_string(writer, "logprobs", NULL);
    bl_json_put_string(writer, "finish_reason", openai_stop(answer->end));
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    put_openai_usage(writer, &answer->usage);
    bl_json_write_end(writer);
}

const struct script_format script_format_openai = {
    openai_begin, openai_open, openai_delta, close_silently, openai_finish, openai_whole,
};

/* ---- ollama ---------------------------------------------------------------------------------- */

/* Begins a line, up to its message; the caller writes the other members and ends it. */
static struct bl_json_writer *ollama_begin_object(struct script_answer *answer,
                                                  struct bl_text content)
{
    struct bl_json_writer *writer = &answer->writer;
    char now[32];

    bl_time_format(bl_clock_wall_ns(answer->clock), now);
    bl_json_write_object(writer);
    bl_json_put_text(writer, "model", answer->request->model);
    bl_json_put_string(writer, "created_at", now);
    bl_json_write_key(writer, BL_TEXT("message"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "role", "assistant");
    bl_json_put_text(writer, "content", content);
    return writer;
}

static struct bl_json_writer *line_begin(struct script_answer *answer, struct bl_text content)
{
    bl_json_writer_init(&answer->writer, &answer->out);
    return ollama_begin_object(answer, content);
}

static void format_line_end(struct script_answer *answer)
{
    bl_json_write_end(&answer->writer);
    bl_json_put_boolean(&answer->writer, "done", false);
    bl_json_write_end(&answer->writer);
    bl_buffer_append_byte(&answer->out, '\n');
}

static void write_ollama_call(struct bl_json_writer *writer, const struct script_block *block)
{
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("function"));
    bl_json_write_object(writer);
    bl_json_put_text(writer, "name", block->name);
    bl_json_write_key(writer, BL_TEXT("arguments"));
    format_write_input(writer, block);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void ollama_begin(struct script_answer *answer BL_UNUSED) {}

static void ollama_open(struct script_answer *answer BL_UNUSED,
                        const struct script_block *block BL_UNUSED)
{
}

static void ollama_delta(struct script_answer *answer, const struct script_block *block,
                         struct bl_text piece)
{
    if (block->type == BL_BLOCK_CALL)
        return;
    bool thinking = block->type == BL_BLOCK_THINKING;
    struct bl_json_writer *writer = line_begin(answer, thinking ? BL_TEXT("") : piece);
    if (thinking)
        bl_json_put_text(writer, "thinking", piece);
    format_line_end(answer);
}

/* A call is sent whole. */
static void ollama_close(struct script_answer *answer, const struct script_block *block)
{
    if (block->type != BL_BLOCK_CALL)
        return;
    struct bl_json_writer *writer = line_begin(answer, BL_TEXT(""));
    bl_json_write_key(writer, BL_TEXT("tool_calls"));
    bl_json_write_array(writer);
    write_ollama_call(writer, block);
    bl_json_write_end(writer);
    format_line_end(answer);
}

/* Closes the message, and writes how it ended. */
static void put_ollama_end(struct script_answer *answer)
{
    struct bl_json_writer *writer = &answer->writer;
    uint64_t took_ns = bl_clock_now_ns(answer->clock) - answer->begun_ns;

    bl_json_write_end(writer);
    bl_json_put_string(writer, "done_reason",
                       answer->end == BL_ANSWER_MAX_TOKENS ? "length" : "stop");
    bl_json_put_boolean(writer, "done", true);
    bl_json_put_uint64(writer, "total_duration", took_ns);
    bl_json_put_uint64(writer, "load_duration", 0);
    bl_json_put_uint64(writer, "prompt_eval_count", answer->usage.input_tokens);
    bl_json_put_uint64(writer, "prompt_eval_duration", 0);
    bl_json_put_uint64(writer, "eval_count", answer->usage.output_tokens);
    bl_json_put_uint64(writer, "eval_duration", took_ns);
    bl_json_write_end(writer);
}

static void ollama_finish(struct script_answer *answer)
{
    line_begin(answer, BL_TEXT(""));
    put_ollama_end(answer);
    bl_buffer_append_byte(&answer->out, '\n');
}

static void ollama_whole(struct script_answer *answer)
{
    struct bl_text thinking = format_text_of(answer, BL_BLOCK_THINKING);
    struct bl_json_writer *writer =
        ollama_begin_object(answer, format_text_of(answer, BL_BLOCK_TEXT));

    if (thinking.size > 0)
        bl_json_put_text(writer, "thinking", thinking);
    if (answer->call_count > 0) {
        bl_json_write_key(writer, BL_TEXT("tool_calls"));
        bl_json_write_array(writer);
        BL_LIST_EACH (link, &answer->blocks) {
            const struct script_block *block = BL_CONTAINER(link, struct script_block, link);
            if (block->type == BL_BLOCK_CALL)
                write_ollama_call(writer, block);
        }
        bl_json_write_end(writer);
    }
    put_ollama_end(answer);
}

const struct script_format script_format_ollama = {
    ollama_begin, ollama_open, ollama_delta, ollama_close, ollama_finish, ollama_whole,
};
