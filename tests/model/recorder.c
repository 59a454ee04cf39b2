#include "recorder.h"

#include <stdio.h>

static void write_call_end(struct bl_buffer *log, const struct bl_piece *piece)
{
    bl_buffer_printf(log, "end %u " BL_TEXT_FORMAT, piece->index, BL_TEXT_ARG(piece->text));
    if (piece->invalid.size > 0)
        bl_buffer_printf(log, " (" BL_TEXT_FORMAT ")", BL_TEXT_ARG(piece->invalid));
    bl_buffer_append_byte(log, '\n');
}

static const char *end_name(enum bl_answer_end end)
{
    switch (end) {
    case BL_ANSWER_END: return "end";
    case BL_ANSWER_TOOL_CALLS: return "tool_calls";
    case BL_ANSWER_MAX_TOKENS: return "max_tokens";
    case BL_ANSWER_STOP_SEQUENCE: return "stop_sequence";
    case BL_ANSWER_REFUSAL: return "refusal";
    }
    return "unknown";
}

static int take(struct bl_sink *sink, const struct bl_piece *piece)
{
    struct recorder *recorder = BL_CONTAINER(sink, struct recorder, sink);
    struct bl_buffer *log = &recorder->log;

    if (++recorder->count == recorder->refuse_at)
        return BL_EPIPE;
    switch (piece->type) {
    case BL_PIECE_TEXT:
        bl_buffer_printf(log, "text " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(piece->text));
        break;
    case BL_PIECE_THINKING:
        bl_buffer_printf(log, "thinking " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(piece->text));
        break;
    case BL_PIECE_CALL_BEGIN:
        bl_buffer_printf(log, "begin %u " BL_TEXT_FORMAT " " BL_TEXT_FORMAT "\n", piece->index,
                         BL_TEXT_ARG(piece->id), BL_TEXT_ARG(piece->name));
        break;
    case BL_PIECE_CALL_DELTA:
        bl_buffer_printf(log, "delta %u " BL_TEXT_FORMAT "\n", piece->index,
                         BL_TEXT_ARG(piece->text));
        break;
    case BL_PIECE_CALL_END: write_call_end(log, piece); break;
    case BL_PIECE_USAGE:
        bl_buffer_printf(log, "usage %llu %llu%s\n", (unsigned long long)piece->usage.input_tokens,
                         (unsigned long long)piece->usage.output_tokens,
                         piece->estimated ? " estimated" : "");
        break;
    case BL_PIECE_RETRY:
        recorder->retry_ms = piece->retry.wait_ms;
        bl_buffer_printf(log, "retry %u of %u %s %d\n", piece->retry.attempt, piece->retry.of,
                         piece->retry.code, piece->retry.status);
        break;
    case BL_PIECE_END: bl_buffer_printf(log, "stop %s\n", end_name(piece->end)); break;
    }
    return 0;
}

void recorder_init(struct recorder *recorder)
{
    *recorder = (struct recorder){.sink = {.take = take}};
    bl_buffer_init(&recorder->log, 64u << 20);
}

void recorder_done(struct recorder *recorder)
{
    bl_buffer_done(&recorder->log);
}

const char *recorder_log(struct recorder *recorder)
{
    bl_buffer_append_byte(&recorder->log, '\0');
    recorder->log.size--;
    return recorder->log.data;
}

/* A request whose only message is `text`. */
static void make_request(struct bl_arena *arena, struct bl_session *session,
                         struct bl_list *messages, const char *text, struct bl_request *ret_request)
{
    bl_session_init(session, "test");
    bl_list_init(messages);
    struct bl_message *message = bl_message_add(arena, messages, BL_ROLE_USER);
    bl_block_add(arena, message, BL_BLOCK_TEXT)->text = bl_text_from(text);
    *ret_request = (struct bl_request){.session = session, .messages = messages};
}

int recorder_ask(struct recorder *recorder, const struct bl_model *model, const char *text)
{
    struct bl_arena arena;
    struct bl_session session;
    struct bl_list messages;
    struct bl_request request;

    bl_arena_init(&arena);
    make_request(&arena, &session, &messages, text, &request);
    recorder->error = (struct bl_error){0};
    int result = model->call(model->context, &request, &recorder->sink, &recorder->error);
    bl_session_done(&session);
    bl_arena_done(&arena);
    return result;
}

uint64_t recorder_estimate(const struct bl_model *model, const char *text)
{
    struct bl_arena arena;
    struct bl_session session;
    struct bl_list messages;
    struct bl_request request;

    bl_arena_init(&arena);
    make_request(&arena, &session, &messages, text, &request);
    uint64_t estimate = model->estimate(model->context, &request);
    bl_session_done(&session);
    bl_arena_done(&arena);
    return estimate;
}

struct bl_script *script_of(const char *source)
{
    struct bl_script *script;
    struct bl_error error = {0};

    if (bl_script_parse(bl_text_from(source), "test.yaml", &script, &error) != 0)
        fail_msg("%s", error.message);
    return script;
}

void refuse_script(const char *source, const char *message, const char *hint)
{
    struct bl_script *script;
    struct bl_error error = {0};

    int result = bl_script_parse(bl_text_from(source), "test.yaml", &script, &error);
    if (result != BL_EPARSE)
        fail_msg("%d: %s", result, source);
    assert_int_equal(error.code, result);
    assert_int_equal(error.kind, BL_KIND_PARSE);
    assert_string_equal(error.operation, "read the script");
    assert_string_equal(error.target, "test.yaml");
    assert_string_equal(error.message, message);
    if (strstr(error.hint, hint) == NULL)
        fail_msg("%s: the hint is: %s", source, error.hint);
    /* Without an error to fill it does the same. */
    assert_int_equal(bl_script_parse(bl_text_from(source), "test.yaml", &script, NULL), result);
}

void check_string(const char *a, const char *b, const char *file, int line)
{
    char text[400];

    snprintf(text, sizeof text, "\"%s\" is \"%s\"", a, b);
    check_that(strcmp(a, b) == 0, text, file, line);
}

void check_log(struct recorder *recorder, const char *expected, const char *file, int line)
{
    check_string(recorder_log(recorder), expected, file, line);
    bl_buffer_clear(&recorder->log);
}
