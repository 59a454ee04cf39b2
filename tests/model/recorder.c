#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>

static void write_opaque(struct bl_buffer *log, const struct bl_piece *piece)
{
    if (piece->opaque.size > 0)
        bl_buffer_printf(log, " opaque " BL_TEXT_FORMAT, BL_TEXT_ARG(piece->opaque));
    bl_buffer_append_byte(log, '\n');
}

static void write_call_end(struct bl_buffer *log, const struct bl_piece *piece)
{
    bl_buffer_printf(log, "end %u " BL_TEXT_FORMAT, piece->index, BL_TEXT_ARG(piece->text));
    if (piece->invalid.size > 0)
        bl_buffer_printf(log, " (" BL_TEXT_FORMAT ")", BL_TEXT_ARG(piece->invalid));
    write_opaque(log, piece);
}

static void write_usage(struct bl_buffer *log, const struct bl_piece *piece)
{
    const struct bl_usage_detail *detail = &piece->usage_detail;

    bl_buffer_printf(log, "usage %llu %llu%s", (unsigned long long)piece->usage.input_tokens,
                     (unsigned long long)piece->usage.output_tokens,
                     piece->estimated ? " estimated" : "");
    if (detail->cache_read_tokens + detail->cache_write_tokens > 0)
        bl_buffer_printf(log, " cache %llu %llu", (unsigned long long)detail->cache_read_tokens,
                         (unsigned long long)detail->cache_write_tokens);
    if (detail->reasoning_tokens > 0)
        bl_buffer_printf(log, " reasoning %llu", (unsigned long long)detail->reasoning_tokens);
    if (piece->cost_known)
        bl_buffer_printf(log, " cost %.6f", piece->cost_usd);
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
        bl_buffer_printf(log, "thinking " BL_TEXT_FORMAT, BL_TEXT_ARG(piece->text));
        write_opaque(log, piece);
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
    case BL_PIECE_USAGE: write_usage(log, piece); break;
    case BL_PIECE_RETRY:
        recorder->retry_ms = piece->retry.wait_ms;
        recorder->retried_ns[piece->retry.attempt - 1] = bl_now_ns();
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

/* ---- Streams of exact bytes ---- */

struct feeder {
    struct model_assembly assembly;
    struct model_decoder decoder;
    struct bl_arena arena;
    struct bl_session session;
    struct bl_list messages;
    struct bl_request request;
};

static void feeder_init(struct feeder *feeder, struct recorder *recorder,
                        const struct feeding *feeding)
{
    static const struct bl_provider plain_provider = {.name = "test"};
    static const struct bl_profile plain_profile = {.model = "model-1"};
    const struct bl_profile *profile = feeding->profile != NULL ? feeding->profile : &plain_profile;

    bl_arena_init(&feeder->arena);
    make_request(&feeder->arena, &feeder->session, &feeder->messages, "question", &feeder->request);
    model_assembly_init(&feeder->assembly, &feeder->arena,
                        feeding->request != NULL ? feeding->request : &feeder->request,
                        &profile->price, &recorder->sink);
    feeder->decoder = (struct model_decoder){
        .api = feeding->api,
        .provider = feeding->provider != NULL ? feeding->provider : &plain_provider,
        .profile = profile,
        .assembly = &feeder->assembly,
        .arena = &feeder->arena,
    };
}

/* Records the end, and frees the feeder. */
static int feeder_end(struct feeder *feeder, struct recorder *recorder, int result)
{
    const struct bl_model_failure *failure = &feeder->assembly.failure;

    if (failure->code != NULL)
        bl_buffer_printf(&recorder->log, "fail %s: %s\n", failure->code, failure->message);
    else if (result != 0)
        bl_buffer_printf(&recorder->log, "result %d\n", result);
    else if (feeder->assembly.pause)
        bl_buffer_printf(&recorder->log, "pause\n");
    model_assembly_done(&feeder->assembly);
    bl_session_done(&feeder->session);
    bl_arena_done(&feeder->arena);
    return result;
}

static int feed_json(struct feeder *feeder, struct bl_text name, struct bl_text data)
{
    const struct bl_json_limits limits = {.replace_surrogates = true};
    struct bl_arena arena;
    const struct bl_json *value;
    int result;

    if (feeder->assembly.finished)
        return 0;
    if (bl_text_equal(data, BL_TEXT("[DONE]")))
        return feeder->decoder.api->finish(&feeder->decoder);
    /* Freed at once: a decoder must copy what it keeps of an event. */
    bl_arena_init(&arena);
    if (bl_json_read(&arena, data, &limits, &value, NULL) != 0)
        result = model_fail(&feeder->assembly, "bad_response", 0, data);
    else
        result = feeder->decoder.api->feed(&feeder->decoder, name, value);
    bl_arena_done(&arena);
    return result;
}

static int take_event(void *context, const struct bl_sse_event *event)
{
    return feed_json(context, event->name, event->data);
}

static int take_line(void *context, struct bl_text line)
{
    return bl_text_trim(line).size == 0 ? 0 : feed_json(context, (struct bl_text){0}, line);
}

/* The parsers of a format's bytes. */
union parser {
    struct bl_sse sse;
    struct bl_lines lines;
};

static int feed_piece(const struct model_api *api, union parser *parser, struct bl_text piece,
                      struct feeder *feeder)
{
    /* A separate copy, so that a read beyond its end is detected. */
    char *copy = bl_alloc(piece.size);
    memcpy(copy, piece.data, piece.size);
    piece.data = copy;
    int result = api->lines ? bl_lines_feed(&parser->lines, piece, take_line, feeder)
                            : bl_sse_feed(&parser->sse, piece, take_event, feeder);
    bl_free(copy);
    return result;
}

int feed_stream(struct recorder *recorder, const struct feeding *feeding, struct bl_text bytes,
                const size_t *cuts, size_t cut_count)
{
    const struct model_api *api = feeding->api;
    struct feeder feeder;
    union parser parser;
    size_t at = 0;
    int result = 0;

    feeder_init(&feeder, recorder, feeding);
    if (api->lines)
        bl_lines_init(&parser.lines, MODEL_LINE_MAX);
    else
        bl_sse_init(&parser.sse, MODEL_LINE_MAX, MODEL_EVENT_MAX);
    for (size_t i = 0; i <= cut_count && result == 0; i++) {
        size_t next = i < cut_count && cuts[i] < bytes.size ? cuts[i] : bytes.size;
        if (next > at)
            result =
                feed_piece(api, &parser, (struct bl_text){bytes.data + at, next - at}, &feeder);
        at = next > at ? next : at;
    }
    if (result == 0)
        result = api->lines ? bl_lines_end(&parser.lines, take_line, &feeder)
                            : bl_sse_end(&parser.sse, take_event, &feeder);
    if (result == 0 && !feeder.assembly.finished)
        result = api->finish(&feeder.decoder);
    if (api->lines)
        bl_lines_done(&parser.lines);
    else
        bl_sse_done(&parser.sse);
    return feeder_end(&feeder, recorder, result);
}

int feed_whole(struct recorder *recorder, const struct feeding *feeding, struct bl_text json)
{
    struct feeder feeder;
    struct bl_arena arena;
    const struct bl_json *value;

    feeder_init(&feeder, recorder, feeding);
    bl_arena_init(&arena);
    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0)
        fail_msg("not JSON: " BL_TEXT_FORMAT, BL_TEXT_ARG(json));
    int result = feeding->api->whole(&feeder.decoder, value);
    bl_arena_done(&arena);
    return feeder_end(&feeder, recorder, result);
}

struct bl_text read_fixture(const char *name)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/model/fixtures/%s", root != NULL ? root : ".", name);
    return suite_read_file(path);
}

static void check_cuts(const struct feeding *feeding, struct bl_text bytes, const size_t *cuts,
                       size_t cut_count, const char *name, const char *expected)
{
    struct recorder recorder;

    recorder_init(&recorder);
    feed_stream(&recorder, feeding, bytes, cuts, cut_count);
    if (strcmp(recorder_log(&recorder), expected) != 0)
        print_error("%s, %zu cuts, the first at %zu\n", name, cut_count,
                    cut_count > 0 ? cuts[0] : 0);
    assert_string_equal(recorder_log(&recorder), expected);
    recorder_done(&recorder);
}

#define PAIRS_SIZE_MAX 160u /* bytes of a stream that is cut at every pair of them */

static void check_bytes(const struct feeding *feeding, struct bl_text bytes, const char *name,
                        const char *expected)
{
    size_t *cuts = bl_alloc((bytes.size + 1) * sizeof(*cuts));

    check_cuts(feeding, bytes, NULL, 0, name, expected);
    for (size_t i = 0; i < bytes.size; i++)
        cuts[i] = i;
    check_cuts(feeding, bytes, cuts, bytes.size, name, expected);
    /* Every byte in a plain build; a sanitizer build samples them. */
    unsigned long step = suite_rounds(bytes.size > 4000 ? 5 : SUITE_SANITIZED ? 3 : 1, 1);
    for (size_t i = 1; i < bytes.size; i += step)
        check_cuts(feeding, bytes, &i, 1, name, expected);
    size_t pairs = suite_rounds(PAIRS_SIZE_MAX, 8 * PAIRS_SIZE_MAX);
    for (size_t i = 1; bytes.size <= pairs && i < bytes.size; i++) {
        for (size_t j = i + 1; j < bytes.size; j++)
            check_cuts(feeding, bytes, (size_t[]){i, j}, 2, name, expected);
    }
    bl_free(cuts);
}

void check_fixture(const struct model_api *api, const char *name, const char *expected)
{
    struct bl_text bytes = read_fixture(name);

    check_bytes(&(struct feeding){.api = api}, bytes, name, expected);
    bl_free((void *)(uintptr_t)bytes.data);
}

void check_stream(const struct feeding *feeding, const char *bytes, const char *expected)
{
    check_bytes(feeding, bl_text_from(bytes), "a stream", expected);
}

void check_fed(const struct feeding *feeding, const char *bytes, const char *expected)
{
    check_cuts(feeding, bl_text_from(bytes), NULL, 0, "a stream", expected);
}

void check_whole(const struct feeding *feeding, struct bl_text json, const char *expected)
{
    struct recorder recorder;

    recorder_init(&recorder);
    feed_whole(&recorder, feeding, json);
    assert_string_equal(recorder_log(&recorder), expected);
    recorder_done(&recorder);
}

void check_whole_fixture(const struct model_api *api, const char *name, const char *expected)
{
    struct bl_text json = read_fixture(name);

    check_whole(&(struct feeding){.api = api}, json, expected);
    bl_free((void *)(uintptr_t)json.data);
}

void check_refusals(const struct feeding *feeding, const char *name)
{
    struct bl_text bytes = read_fixture(name);
    struct recorder recorder;
    unsigned at = 0;
    int result;

    do {
        recorder_init(&recorder);
        recorder.refuse_at = ++at;
        result = feed_stream(&recorder, feeding, bytes, NULL, 0);
        assert_int_equal(result, recorder.count < at ? 0 : BL_EPIPE);
        assert_int_equal(recorder.count, result == 0 ? at - 1 : at);
        assert_int_equal(strstr(recorder_log(&recorder), "stop ") == NULL, result != 0);
        recorder_done(&recorder);
    } while (result != 0);
    bl_free((void *)(uintptr_t)bytes.data);
}

/* ---- Requests ---- */

const struct bl_tool_offer asked_tools[2] = {
    {"read", "Reads a file.",
     BL_TEXT("{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}},"
             "\"required\":[\"path\"]}"),
     NULL, false},
    {"list", NULL, BL_TEXT(""), NULL, false},
};

void asking_add(struct asking *asking, const char *messages)
{
    if (bl_messages_read(&asking->arena, bl_text_from(messages), &asking->messages) != 0)
        fail_msg("not messages: %s", messages);
}

void asking_add_turn(struct asking *asking, const char *messages)
{
    struct bl_turn_record *record = bl_turn_record_new();

    assert_int_equal(bl_messages_read(&record->arena, bl_text_from(messages), &record->messages),
                     0);
    bl_session_add(&asking->session, record);
}

void asking_init(struct asking *asking, const struct model_api *api, const char *provider,
                 const char *messages)
{
    *asking = (struct asking){.api = api,
                              .provider = {.name = provider, .api = api->api},
                              .profile = {.model = "model-1"}};
    bl_arena_init(&asking->arena);
    bl_session_init(&asking->session, "session-1");
    bl_list_init(&asking->messages);
    asking_add(asking, messages);
    asking->request =
        (struct bl_request){.session = &asking->session, .messages = &asking->messages};
    asking->build = (struct model_build){.provider = &asking->provider,
                                         .profile = &asking->profile,
                                         .request = &asking->request,
                                         .compat = &asking->compat,
                                         .arena = &asking->arena};
}

void asking_sum_up(struct asking *asking)
{
    asking->summary = bl_turn_record_new();
    assert_int_equal(bl_messages_read(&asking->summary->arena,
                                      BL_TEXT(ASKED_TEXT("So far: one and two.")),
                                      &asking->summary->messages),
                     0);
    asking_add_turn(asking, ASKED_TEXT("one"));
    asking_add_turn(asking, ASKED_TEXT("two"));
    asking_add_turn(asking, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                            "\"three\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\","
                            "\"text\":\"3\"}]}]");
    asking->request.turns_skipped = 2;
    asking->request.summary = asking->summary;
}

void asking_done(struct asking *asking)
{
    bl_turn_record_free(asking->summary);
    bl_session_done(&asking->session);
    bl_arena_done(&asking->arena);
}

void asking_fill(struct asking *asking)
{
    asking->request.system = BL_TEXT("Be brief.");
    asking->request.tools = asked_tools;
    asking->request.tool_count = BL_COUNT(asked_tools);
    asking->request.tools_forbidden = true;
    asking->request.schema = BL_TEXT("{\"type\":\"object\"}");
    asking->build.max_output_tokens = 16000;
}

struct bl_text asking_body(struct asking *asking)
{
    struct bl_buffer out;
    struct bl_json_writer writer;
    struct bl_error error = {0};

    bl_buffer_init(&out, 1u << 20);
    bl_json_writer_init(&writer, &out);
    if (asking->api->build(&asking->build, &writer, &error) != 0)
        fail_msg("%s", error.message);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    struct bl_text body = bl_arena_text(&asking->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return body;
}

bool asking_has(struct asking *asking, const char *part)
{
    return bl_text_find(asking_body(asking), bl_text_from(part)) >= 0;
}

void check_asked(struct asking *asking, const char *name)
{
    struct bl_text expected = read_fixture(name);
    struct bl_text body = asking_body(asking);

    /* Print the whole body: cmocka cuts long messages. */
    if (!bl_text_equal(body, bl_text_trim(expected))) {
        fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(body));
        fail_msg("%s is not what was built, above", name);
    }
    bl_free((void *)(uintptr_t)expected.data);
}

/* ---- Scripts ---- */

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
    /* The result is the same without an error to fill. */
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
