/* The events of openai-responses. */
#include <stdio.h>

#include "serve.h"

/* ---- Items ----------------------------------------------------------------------------------- */

/* Makes "msg_script_3_0" from the numbers of the answer and the block. */
static const char *item_id(const struct script_answer *answer, const struct script_block *block,
                           char out[64])
{
    const char *prefix = "msg";

    if (block->type == BL_BLOCK_THINKING)
        prefix = "rs";
    else if (block->type == BL_BLOCK_CALL)
        prefix = "fc";
    snprintf(out, 64, "%s_script_%llu_%u", prefix, (unsigned long long)answer->number,
             block->index);
    return out;
}

/* Writes the only part of a message or summary. */
static void write_part(struct bl_json_writer *writer, const struct script_block *block,
                       struct bl_text text)
{
    bl_json_write_object(writer);
    if (block->type == BL_BLOCK_THINKING) {
        bl_json_put_string(writer, "type", "summary_text");
        bl_json_put_text(writer, "text", text);
    } else {
        bl_json_put_string(writer, "type", "output_text");
        bl_json_put_json(writer, "annotations", BL_TEXT("[]"));
        bl_json_put_json(writer, "logprobs", BL_TEXT("[]"));
        bl_json_put_text(writer, "text", text);
    }
    bl_json_write_end(writer);
}

static void put_parts(struct bl_json_writer *writer, const char *key,
                      const struct script_block *block, bool done)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    if (done)
        write_part(writer, block, script_block_text(block));
    bl_json_write_end(writer);
}

static void script_responses_write_item(const struct script_answer *answer,
                                        struct bl_json_writer *writer,
                                        const struct script_block *block, bool done)
{
    /* The block that the token limit cut is incomplete. */
    bool cut = answer->truncated && block->link.next == &answer->blocks;
    const char *status = !done ? "in_progress" : cut ? "incomplete" : "completed";
    char id[64], signature[SCRIPT_SIGNATURE_SIZE];

    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", item_id(answer, block, id));
    if (block->type == BL_BLOCK_THINKING) {
        bl_json_put_string(writer, "type", "reasoning");
        put_parts(writer, "summary", block, done);
        if (answer->request->encrypted) {
            script_signature(done ? script_block_text(block) : BL_TEXT(""), signature);
            bl_json_put_string(writer, "encrypted_content", signature);
        }
    } else if (block->type == BL_BLOCK_CALL) {
        bl_json_put_string(writer, "type", "function_call");
        bl_json_put_string(writer, "status", status);
        bl_json_put_text(writer, "arguments", done ? script_block_text(block) : BL_TEXT(""));
        bl_json_put_text(writer, "call_id", block->id);
        bl_json_put_text(writer, "name", block->name);
    } else {
        bl_json_put_string(writer, "type", "message");
        bl_json_put_string(writer, "status", status);
        put_parts(writer, "content", block, done);
        bl_json_put_string(writer, "role", "assistant");
    }
    bl_json_write_end(writer);
}

/* ---- The response ---------------------------------------------------------------------------- */

static const char *incomplete_reason(const struct script_answer *answer)
{
    if (answer->ended && answer->end == BL_ANSWER_MAX_TOKENS)
        return "max_output_tokens";
    return answer->ended && answer->end == BL_ANSWER_REFUSAL ? "content_filter" : NULL;
}

/* Writes the request's value, or the default. */
static void put_echo(const struct script_answer *answer, struct bl_json_writer *writer,
                     const char *key, const char *fallback)
{
    const struct bl_json *value = bl_json_get(answer->request->body, bl_text_from(key));

    bl_json_write_key(writer, bl_text_from(key));
    if (value != NULL && !bl_json_is(value, BL_JSON_NULL))
        bl_json_write_value(writer, value);
    else
        bl_json_write_raw(writer, bl_text_from(fallback));
}

static void script_responses_put_usage(const struct script_answer *answer,
                                       struct bl_json_writer *writer)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    if (!answer->ended) {
        bl_json_write_null(writer);
        return;
    }
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "input_tokens", answer->usage.input_tokens);
    bl_json_put_json(writer, "input_tokens_details", BL_TEXT("{\"cached_tokens\":0}"));
    bl_json_put_uint64(writer, "output_tokens", answer->usage.output_tokens);
    bl_json_put_json(writer, "output_tokens_details", BL_TEXT("{\"reasoning_tokens\":0}"));
    bl_json_put_uint64(writer, "total_tokens", bl_usage_total(&answer->usage));
    bl_json_write_end(writer);
}

static const char *response_status(const struct script_answer *answer)
{
    if (!answer->ended)
        return "in_progress";
    return incomplete_reason(answer) != NULL ? "incomplete" : "completed";
}

static void write_response(const struct script_answer *answer, struct bl_json_writer *writer)
{
    const char *reason = incomplete_reason(answer);
    char id[48];

    snprintf(id, sizeof id, "resp_script_%llu", (unsigned long long)answer->number);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", id);
    bl_json_put_string(writer, "object", "response");
    bl_json_put_uint64(writer, "created_at", (uint64_t)answer->begun_wall_ns / BL_NS_PER_S);
    bl_json_put_string(writer, "status", response_status(answer));
    bl_json_put_boolean(writer, "background", false);
    bl_json_put_string(writer, "error", NULL);
    bl_json_write_key(writer, BL_TEXT("incomplete_details"));
    if (reason != NULL) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "reason", reason);
        bl_json_write_end(writer);
    } else {
        bl_json_write_null(writer);
    }
    put_echo(answer, writer, "instructions", "null");
    put_echo(answer, writer, "max_output_tokens", "null");
    bl_json_put_text(writer, "model", answer->request->model);
    bl_json_write_key(writer, BL_TEXT("output"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &answer->blocks) {
        if (answer->ended)
            script_responses_write_item(answer, writer,
                                        BL_CONTAINER(link, struct script_block, link), true);
    }
    bl_json_write_end(writer);
    put_echo(answer, writer, "parallel_tool_calls", "true");
    bl_json_put_string(writer, "previous_response_id", NULL);
    put_echo(answer, writer, "reasoning", "{\"effort\":null,\"summary\":null}");
    put_echo(answer, writer, "store", "true");
    put_echo(answer, writer, "temperature", "1");
    put_echo(answer, writer, "text", "{\"format\":{\"type\":\"text\"}}");
    put_echo(answer, writer, "tool_choice", "\"auto\"");
    put_echo(answer, writer, "tools", "[]");
    put_echo(answer, writer, "top_p", "1");
    put_echo(answer, writer, "truncation", "\"disabled\"");
    script_responses_put_usage(answer, writer);
    put_echo(answer, writer, "metadata", "{}");
    bl_json_write_end(writer);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* All events have a type and a number. */
static struct bl_json_writer *begin_event(struct script_answer *answer, const char *type)
{
    struct bl_json_writer *writer = script_event_begin(answer, type);

    bl_json_put_string(writer, "type", type);
    bl_json_put_uint64(writer, "sequence_number", answer->sequence++);
    return writer;
}

static void write_response_event(struct script_answer *answer, const char *type)
{
    struct bl_json_writer *writer = begin_event(answer, type);

    bl_json_write_key(writer, BL_TEXT("response"));
    write_response(answer, writer);
    script_event_end(answer);
}

static void write_item_event(struct script_answer *answer, const char *type,
                             const struct script_block *block, bool done)
{
    struct bl_json_writer *writer = begin_event(answer, type);

    bl_json_put_uint64(writer, "output_index", block->index);
    bl_json_write_key(writer, BL_TEXT("item"));
    script_responses_write_item(answer, writer, block, done);
    script_event_end(answer);
}

/* Begins an event about a part of an item, up to its own members. */
static struct bl_json_writer *begin_inner(struct script_answer *answer, const char *type,
                                          const struct script_block *block)
{
    struct bl_json_writer *writer = begin_event(answer, type);
    char id[64];

    bl_json_put_string(writer, "item_id", item_id(answer, block, id));
    bl_json_put_uint64(writer, "output_index", block->index);
    if (block->type == BL_BLOCK_THINKING)
        bl_json_put_uint64(writer, "summary_index", 0);
    else if (block->type == BL_BLOCK_TEXT)
        bl_json_put_uint64(writer, "content_index", 0);
    return writer;
}

static void write_part_event(struct script_answer *answer, const struct script_block *block,
                             bool done)
{
    static const char *const types[2][2] = {
        {"response.content_part.added", "response.content_part.done"},
        {"response.reasoning_summary_part.added", "response.reasoning_summary_part.done"},
    };
    struct bl_json_writer *writer =
        begin_inner(answer, types[block->type == BL_BLOCK_THINKING][done], block);

    bl_json_write_key(writer, BL_TEXT("part"));
    write_part(writer, block, done ? script_block_text(block) : BL_TEXT(""));
    script_event_end(answer);
}

static void responses_begin(struct script_answer *answer)
{
    write_response_event(answer, "response.created");
    write_response_event(answer, "response.in_progress");
}

static void responses_open(struct script_answer *answer, const struct script_block *block)
{
    write_item_event(answer, "response.output_item.added", block, false);
    if (block->type != BL_BLOCK_CALL)
        write_part_event(answer, block, false);
}

static void responses_delta(struct script_answer *answer, const struct script_block *block,
                            struct bl_text piece)
{
    const char *type = "response.output_text.delta";

    if (block->type == BL_BLOCK_THINKING)
        type = "response.reasoning_summary_text.delta";
    else if (block->type == BL_BLOCK_CALL)
        type = "response.function_call_arguments.delta";
    struct bl_json_writer *writer = begin_inner(answer, type, block);
    bl_json_put_text(writer, "delta", piece);
    if (block->type == BL_BLOCK_TEXT)
        bl_json_put_json(writer, "logprobs", BL_TEXT("[]"));
    script_event_end(answer);
}

static void responses_close(struct script_answer *answer, const struct script_block *block)
{
    struct bl_text text = script_block_text(block);

    if (block->type == BL_BLOCK_CALL) {
        struct bl_json_writer *writer =
            begin_inner(answer, "response.function_call_arguments.done", block);
        bl_json_put_text(writer, "name", block->name);
        bl_json_put_text(writer, "arguments", text);
        script_event_end(answer);
    } else {
        bool thinking = block->type == BL_BLOCK_THINKING;
        struct bl_json_writer *writer = begin_inner(
            answer, thinking ? "response.reasoning_summary_text.done" : "response.output_text.done",
            block);
        bl_json_put_text(writer, "text", text);
        if (!thinking)
            bl_json_put_json(writer, "logprobs", BL_TEXT("[]"));
        script_event_end(answer);
        write_part_event(answer, block, true);
    }
    write_item_event(answer, "response.output_item.done", block, true);
}

static void responses_finish(struct script_answer *answer)
{
    write_response_event(answer, incomplete_reason(answer) != NULL ? "response.incomplete"
                                                                   : "response.completed");
}

static void responses_whole(struct script_answer *answer)
{
    write_response(answer, &answer->writer);
}

const struct script_format script_format_responses = {
    responses_begin, responses_open,   responses_delta,
    responses_close, responses_finish, responses_whole,
};
