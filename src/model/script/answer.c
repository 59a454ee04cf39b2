/* Design notes.
 *
 * The player's pieces have one order: thinking, text, calls, usage, end. They are kept as a list of
 * blocks, at most one of them open, and each step (begin, open, delta, close, finish) calls the
 * format, which writes its events. Without a stream, only the last step writes: the whole answer,
 * from the blocks. All output of one piece is sent in one write. */
#include "serve.h"

#define ANSWER_SIZE_MAX ((size_t)256 * 1024 * 1024)

/* ---- For the formats ------------------------------------------------------------------------- */

struct bl_text script_block_text(const struct script_block *block)
{
    struct bl_text text = bl_buffer_text(&block->text);

    return text.data != NULL ? text : BL_TEXT("");
}

struct bl_json_writer *script_event_begin(struct script_answer *answer, const char *name)
{
    if (name != NULL)
        bl_buffer_printf(&answer->out, "event: %s\n", name);
    bl_buffer_append(&answer->out, BL_TEXT("data: "));
    bl_json_writer_init(&answer->writer, &answer->out);
    bl_json_write_object(&answer->writer);
    return &answer->writer;
}

void script_event_end(struct script_answer *answer)
{
    bl_json_write_end(&answer->writer);
    bl_buffer_append(&answer->out, BL_TEXT("\n\n"));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static bool streams(const struct script_answer *answer)
{
    return answer->request->stream;
}

static void script_answer_close_block(struct script_answer *answer)
{
    const struct script_block *block = answer->open;

    answer->open = NULL;
    if (block != NULL && streams(answer))
        answer->format->close(answer, block);
}

static void script_answer_open_block(struct script_answer *answer, enum bl_block_type type,
                                     const struct bl_piece *piece)
{
    if (type != BL_BLOCK_CALL && answer->open != NULL && answer->open->type == type)
        return;
    script_answer_close_block(answer);
    struct script_block *block = bl_arena_zalloc(answer->arena, sizeof *block);
    block->type = type;
    block->index = answer->block_count++;
    block->id = bl_arena_text(answer->arena, piece->id);
    block->name = bl_arena_text(answer->arena, piece->name);
    if (type == BL_BLOCK_CALL)
        block->call_index = answer->call_count++;
    bl_buffer_init(&block->text, ANSWER_SIZE_MAX);
    bl_list_push_back(&answer->blocks, &block->link);
    answer->open = block;
    if (streams(answer))
        answer->format->open(answer, block);
}

static void add_delta(struct script_answer *answer, struct bl_text text)
{
    if (text.size == 0 || answer->open == NULL)
        return;
    bl_buffer_append(&answer->open->text, text);
    if (streams(answer))
        answer->format->delta(answer, answer->open, text);
}

/* ---- The limit of tokens --------------------------------------------------------------------- */

static bool script_answer_is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Returns the part of a text within the limit; a word is a token. Sets `truncated` if a word begins
 * beyond the limit. */
static struct bl_text within_limit(struct script_answer *answer, struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        bool space = script_answer_is_space(text.data[i]);
        if (!space && !answer->in_word) {
            if (answer->words >= answer->request->max_tokens) {
                answer->truncated = true;
                return (struct bl_text){text.data, i};
            }
            answer->words++;
        }
        answer->in_word = !space;
    }
    return text;
}

/* ---- The sink -------------------------------------------------------------------------------- */

/* Sends all output, unless the answer is one object. */
static int script_answer_flush(struct script_answer *answer)
{
    if (answer->out.size >= ANSWER_SIZE_MAX)
        return BL_ELIMIT;
    if (!streams(answer) || answer->out.size == 0)
        return 0;
    int result = answer->write(answer->context, bl_buffer_text(&answer->out));
    bl_buffer_clear(&answer->out);
    return result;
}

static int script_answer_begin(struct script_answer *answer)
{
    if (answer->begun || !streams(answer))
        return 0;
    answer->begun = true;
    int result = answer->start(answer->context);
    if (result == 0)
        answer->format->begin(answer);
    return result;
}

static void script_end_answer(struct script_answer *answer, enum bl_answer_end end)
{
    script_answer_close_block(answer);
    answer->end = end;
    answer->ended = true;
    if (streams(answer)) {
        answer->format->finish(answer);
        return;
    }
    bl_json_writer_init(&answer->writer, &answer->out);
    answer->format->whole(answer);
}

static int script_answer_take(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct script_answer *answer = BL_CONTAINER(sink, struct script_answer, sink);
    struct bl_text text;

    int result = script_answer_begin(answer);
    if (result != 0)
        return result;
    switch (piece->type) {
    case BL_PIECE_TEXT:
        text = within_limit(answer, piece->text);
        if (text.size > 0)
            script_answer_open_block(answer, BL_BLOCK_TEXT, piece);
        add_delta(answer, text);
        if (answer->truncated)
            return BL_ELIMIT;
        break;
    case BL_PIECE_THINKING:
        script_answer_open_block(answer, BL_BLOCK_THINKING, piece);
        add_delta(answer, piece->text);
        break;
    case BL_PIECE_CALL_BEGIN: script_answer_open_block(answer, BL_BLOCK_CALL, piece); break;
    case BL_PIECE_CALL_DELTA: add_delta(answer, piece->text); break;
    case BL_PIECE_CALL_END:
        if (answer->open != NULL)
            answer->open->invalid = piece->invalid.size > 0;
        script_answer_close_block(answer);
        break;
    case BL_PIECE_USAGE: answer->usage = piece->usage; break;
    case BL_PIECE_RETRY: break;
    case BL_PIECE_END: script_end_answer(answer, piece->end); break;
    }
    return script_answer_flush(answer);
}

int script_answer_finish(struct script_answer *answer, const struct bl_usage *usage,
                         enum bl_answer_end end)
{
    int result = script_answer_begin(answer);
    if (result != 0)
        return result;
    answer->usage = *usage;
    script_end_answer(answer, end);
    return script_answer_flush(answer);
}

void script_answer_init(struct script_answer *answer, const struct script_request *request,
                        struct bl_arena *arena, const struct bl_clock *clock, uint64_t number)
{
    static const struct script_format *const formats[] = {
        [BL_API_ANTHROPIC] = &script_format_anthropic,
        [BL_API_OPENAI] = &script_format_openai,
        [BL_API_OPENAI_RESPONSES] = &script_format_responses,
        [BL_API_OLLAMA] = &script_format_ollama,
    };

    *answer = (struct script_answer){
        .sink = {.take = script_answer_take},
        .request = request,
        .format = formats[request->api],
        .arena = arena,
        .clock = clock,
        .number = number,
        .begun_ns = bl_clock_now_ns(clock),
        .begun_wall_ns = bl_clock_wall_ns(clock),
    };
    bl_list_init(&answer->blocks);
    bl_buffer_init(&answer->out, ANSWER_SIZE_MAX);
}

void script_answer_done(struct script_answer *answer)
{
    BL_LIST_EACH (link, &answer->blocks)
        bl_buffer_done(&BL_CONTAINER(link, struct script_block, link)->text);
    bl_buffer_done(&answer->out);
}

/* ---- Problems -------------------------------------------------------------------------------- */

/* The vendors' representation of a failure. */
struct problem_class {
    const char *code;
    int status;
    int openai_status;
    const char *anthropic_type;
    const char *openai_type;
    const char *openai_code;
    const char *message;
};

static const struct problem_class problem_classes[] = {
    {"server", 500, 500, "api_error", "server_error", NULL, "Internal server error"},
    {"rate_limited", 429, 429, "rate_limit_error", "requests", "rate_limit_exceeded",
     "Too many requests"},
    {"overloaded", 529, 503, "overloaded_error", "server_error", "slow_down", "Overloaded"},
    {"bad_request", 400, 400, "invalid_request_error", "invalid_request_error", NULL,
     "The request is not valid"},
    {"not_found", 404, 404, "not_found_error", "invalid_request_error", "model_not_found",
     "Not found"},
    {"auth", 401, 401, "authentication_error", "invalid_request_error", "invalid_api_key",
     "The key is not valid"},
    {"quota", 402, 429, "billing_error", "insufficient_quota", "insufficient_quota",
     "The account has no credit left"},
    {"context_overflow", 400, 400, "invalid_request_error", "invalid_request_error",
     "context_length_exceeded", "prompt is too long: it exceeds the context length"},
    {"refusal", 400, 400, "invalid_request_error", "invalid_request_error", "content_filter",
     "The answer was refused by the content policy"},
    {"redirect", 307, 307, "api_error", "server_error", NULL, "It is elsewhere"},
};

static const struct problem_class *script_answer_class_of(const struct script_problem *problem)
{
    const char *code =
        problem->code != NULL ? problem->code : bl_model_status_code(problem->status);

    for (size_t i = 0; i < BL_COUNT(problem_classes); i++) {
        if (strcmp(problem_classes[i].code, code) == 0)
            return &problem_classes[i];
    }
    return &problem_classes[0];
}

static bool is_openai(enum bl_api api)
{
    return api == BL_API_OPENAI || api == BL_API_OPENAI_RESPONSES;
}

int script_problem_status(const struct script_problem *problem, enum bl_api api)
{
    const struct problem_class *class = script_answer_class_of(problem);

    if (problem->status != 0)
        return problem->status;
    return is_openai(api) ? class->openai_status : class->status;
}

/* Statuses with a type that differs from their class. */
static const char *anthropic_type(const struct problem_class *class, int status)
{
    if (status == 403)
        return "permission_error";
    return status == 413 ? "request_too_large" : class->anthropic_type;
}

void script_problem_write(struct bl_json_writer *writer, const struct script_problem *problem,
                          enum bl_api api, struct bl_text request_id)
{
    const struct problem_class *class = script_answer_class_of(problem);
    const char *message = problem->message[0] != '\0' ? problem->message : class->message;

    bl_json_write_object(writer);
    if (api == BL_API_OLLAMA) {
        bl_json_put_string(writer, "error", message);
        bl_json_write_end(writer);
        return;
    }
    if (api == BL_API_ANTHROPIC)
        bl_json_put_string(writer, "type", "error");
    bl_json_write_key(writer, BL_TEXT("error"));
    bl_json_write_object(writer);
    if (api == BL_API_ANTHROPIC) {
        bl_json_put_string(writer, "type", anthropic_type(class, problem->status));
        bl_json_put_string(writer, "message", message);
    } else {
        bl_json_put_string(writer, "message", message);
        bl_json_put_string(writer, "type", class->openai_type);
        bl_json_put_string(writer, "param", problem->param[0] != '\0' ? problem->param : NULL);
        bl_json_put_string(writer, "code", class->openai_code);
    }
    bl_json_write_end(writer);
    if (api == BL_API_ANTHROPIC)
        bl_json_put_text(writer, "request_id", request_id);
    bl_json_write_end(writer);
}
