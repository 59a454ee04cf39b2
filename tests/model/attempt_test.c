#include <stdio.h>

#include "remotely.h"

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

/* ---- Variants of streams --------------------------------------------------------------------- */

/* Returns the stream with another line ending. */
static struct bl_text with_line_ends(struct bl_arena *arena, struct bl_text stream, const char *end)
{
    size_t end_size = strlen(end);
    char *out = bl_arena_alloc(arena, stream.size * end_size + 1);
    size_t size = 0;

    for (size_t i = 0; i < stream.size; i++) {
        if (stream.data[i] == '\n') {
            memcpy(out + size, end, end_size);
            size += end_size;
        } else {
            out[size++] = stream.data[i];
        }
    }
    return (struct bl_text){out, size};
}

/* Returns events as lines of JSON, or lines as events. */
static struct bl_text turned(struct bl_arena *arena, struct bl_text stream)
{
    struct bl_text rest = stream, line;
    char *out = bl_arena_alloc(arena, stream.size * 2);
    size_t size = 0;

    while (bl_text_split(&rest, '\n', &line)) {
        bool event = bl_text_starts_with(line, BL_TEXT("data: "));
        if (event)
            line = (struct bl_text){line.data + 6, line.size - 6};
        if (line.size == 0 || line.data[0] != '{')
            continue;
        if (!event)
            size += (size_t)snprintf(out + size, stream.size * 2 - size, "data: ");
        memcpy(out + size, line.data, line.size);
        size += line.size;
        out[size++] = '\n';
        if (!event)
            out[size++] = '\n';
    }
    return (struct bl_text){out, size};
}

/* Returns the stream with another text instead of "Hi." */
static struct bl_text saying(struct bl_arena *arena, struct bl_text stream, const char *text)
{
    size_t at = (size_t)bl_text_find(stream, BL_TEXT("Hi."));
    struct bl_buffer out;

    bl_buffer_init(&out, 1u << 20);
    while (at < stream.size) {
        bl_buffer_append(&out, (struct bl_text){stream.data, at});
        bl_buffer_append(&out, bl_text_from(text));
        stream = (struct bl_text){stream.data + at + 3, stream.size - at - 3};
        ptrdiff_t next = bl_text_find(stream, BL_TEXT("Hi."));
        at = next < 0 ? stream.size : (size_t)next;
    }
    bl_buffer_append(&out, stream);
    struct bl_text copy = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return copy;
}

/* Returns "Hi." as an answer without a stream. */
static struct bl_text whole_hello(enum bl_api api)
{
    switch (api) {
    case BL_API_ANTHROPIC:
        return BL_TEXT("{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{"
                       "\"type\":\"text\",\"text\":\"Hi.\"}],\"stop_reason\":\"end_turn\","
                       "\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}");
    case BL_API_OPENAI:
        return BL_TEXT("{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
                       "\"Hi.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,"
                       "\"completion_tokens\":2}}");
    case BL_API_OPENAI_RESPONSES:
        return BL_TEXT("{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":"
                       "\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[{\"type\":"
                       "\"output_text\",\"text\":\"Hi.\"}]}],\"usage\":{\"input_tokens\":3,"
                       "\"output_tokens\":2}}");
    case BL_API_OLLAMA: break;
    }
    return BL_TEXT("{\"message\":{\"role\":\"assistant\",\"content\":\"Hi.\"},\"done\":true,"
                   "\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}");
}

/* ---- One answer, checked --------------------------------------------------------------------- */

static struct bl_text answer_of(struct remotely *remotely, const char *type, struct bl_text body)
{
    return peer_answer(&remotely->arena, 200, type, NULL, body);
}

/* Makes one call: whatever the form of the bytes, it returns that text, with the first attempt. */
static void check_said(struct remotely *remotely, const char *what, const char *text)
{
    char line[64];

    snprintf(line, sizeof line, "text %s\n", text);
    int code = remotely_ask(remotely, "Say hi.");
    const char *log = recorder_log(&remotely->recorder);
    if (!CHECK(code == 0 && strstr(log, line) != NULL && strstr(log, "stop end\n") != NULL &&
               strstr(log, "usage 3 2\n") != NULL && strstr(log, "retry") == NULL))
        fprintf(stderr, "%s, %s: %d %s\n%s", bl_api_name(remotely->provider.api), what, code,
                remotely->recorder.error.message, log);
    bl_buffer_clear(&remotely->recorder.log);
}

static struct remotely *begin(enum bl_api api)
{
    struct remotely *remotely = bl_alloc(sizeof *remotely);

    remotely_init(remotely, api);
    return remotely;
}

static void end(struct remotely *remotely)
{
    remotely_done(remotely);
    bl_free(remotely);
}

/* Sends a whole answer, head included, and expects "Hi." in one attempt. */
static void check_hello(enum bl_api api, const char *what, const char *type, struct bl_text body)
{
    struct remotely *remotely = begin(api);
    struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                              {.type = PEER_SEND, .bytes = answer_of(remotely, type, body)},
                              {.type = PEER_CLOSE}};

    remotely_acts(remotely, acts, BL_COUNT(acts));
    remotely_open(remotely);
    check_said(remotely, what, "Hi.");
    CHECK_EQUAL(peer_requests(remotely->peer), 1);
    end(remotely);
}

static int content_types(void *argument BL_UNUSED)
{
    static const char *const types[] = {NULL,
                                        "text/plain",
                                        "application/octet-stream",
                                        "application/json",
                                        "application/json; charset=utf-8",
                                        "TEXT/EVENT-STREAM",
                                        "nonsense"};

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (size_t j = 0; j < BL_COUNT(types); j++) {
            const char *what = types[j] != NULL ? types[j] : "no type";
            check_hello(apis[i], what, types[j], remotely_hello(apis[i]));
        }
    }
    return 0;
}

static void content_type_is_checked_and_not_trusted(void **state BL_UNUSED)
{
    run_in_loop(content_types, NULL);
}

static int whole_answers(void *argument BL_UNUSED)
{
    static const char *const types[] = {"application/json", NULL, "text/plain",
                                        "text/event-stream"};

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (size_t j = 0; j < BL_COUNT(types); j++)
            check_hello(apis[i], "whole", types[j], whole_hello(apis[i]));
    }
    return 0;
}

static void P30_whole_answer_to_a_streaming_request_is_read_whole(void **state BL_UNUSED)
{
    run_in_loop(whole_answers, NULL);
}

static int other_framing(void *argument BL_UNUSED)
{
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct bl_text stream = remotely_hello(apis[i]);
        bool lines = apis[i] == BL_API_OLLAMA;
        check_hello(apis[i], "turned", lines ? "text/event-stream" : "application/x-ndjson",
                    turned(&arena, stream));
        check_hello(apis[i], "CRLF", remotely_type(apis[i]),
                    with_line_ends(&arena, stream, "\r\n"));
        check_hello(apis[i], "CR", remotely_type(apis[i]), with_line_ends(&arena, stream, "\r"));
        check_hello(apis[i], "CRLF, no type", NULL, with_line_ends(&arena, stream, "\r\n"));
        /* Without the blank line, or the line ending, after the last event. */
        stream.size -= lines ? 1 : 2;
        check_hello(apis[i], "no last line end", remotely_type(apis[i]), stream);
    }
    check_hello(BL_API_OPENAI, "byte order mark", NULL,
                bl_arena_printf(&arena, "\xef\xbb\xbf" BL_TEXT_FORMAT,
                                BL_TEXT_ARG(remotely_hello(BL_API_OPENAI))));
    check_hello(
        BL_API_OPENAI, "white space first", NULL,
        bl_arena_printf(&arena, "\n \n" BL_TEXT_FORMAT, BL_TEXT_ARG(whole_hello(BL_API_OPENAI))));
    bl_arena_done(&arena);
    return 0;
}

static void any_line_ending_and_either_framing_is_read(void **state BL_UNUSED)
{
    run_in_loop(other_framing, NULL);
}

static int drips(void *argument BL_UNUSED)
{
    static const char *const texts[] = {"Hi.", "Gr\u00fc\u00dfe \u20ac \U0001f44b"};

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (size_t j = 0; j < BL_COUNT(texts); j++) {
            struct remotely *remotely = begin(apis[i]);
            struct bl_text stream = saying(&remotely->arena, remotely_hello(apis[i]), texts[j]);
            /* With chunks of the same size, so that no layer joins them. */
            struct bl_buffer out;
            bl_buffer_init(&out, 1u << 20);
            for (size_t at = 0; at < stream.size; at++)
                bl_buffer_append(
                    &out, peer_chunk(&remotely->arena, (struct bl_text){stream.data + at, 1}));
            bl_buffer_append(&out, BL_TEXT("0\r\n\r\n"));
            struct peer_act acts[] = {
                {.type = PEER_READ_REQUEST},
                {.type = PEER_SEND,
                 .bytes = peer_head(&remotely->arena, 200, remotely_type(apis[i]), NULL)},
                {.type = PEER_SEND_DRIP, .bytes = bl_buffer_text(&out), .number = 6, .pause_ns = 1},
                {.type = PEER_CLOSE}};
            remotely_acts(remotely, acts, BL_COUNT(acts));
            remotely_open(remotely);
            check_said(remotely, "one byte at a time", texts[j]);
            end(remotely);
            bl_buffer_done(&out);
        }
    }
    return 0;
}

static void one_byte_at_a_time_is_the_same_answer(void **state BL_UNUSED)
{
    run_in_loop(drips, NULL);
}

static int broken_text(void *argument BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct remotely *remotely = begin(apis[i]);
        struct bl_text stream = saying(&remotely->arena, remotely_hello(apis[i]), "a\xe2\x82z");
        struct peer_act acts[] = {
            {.type = PEER_READ_REQUEST},
            {.type = PEER_SEND, .bytes = answer_of(remotely, remotely_type(apis[i]), stream)},
            {.type = PEER_CLOSE}};
        remotely_acts(remotely, acts, BL_COUNT(acts));
        remotely_open(remotely);
        check_said(remotely, "broken UTF-8", "a\ufffdz");
        end(remotely);
    }
    return 0;
}

static void broken_text_is_replaced_and_not_refused(void **state BL_UNUSED)
{
    run_in_loop(broken_text, NULL);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Returns the stream up to and with the event that ends the answer. */
static struct bl_text until_finished(enum bl_api api)
{
    static const char *const marks[] = {"message_stop", "finish_reason", "response.completed",
                                        "done_reason"};
    struct bl_text stream = remotely_hello(api);
    size_t size = (size_t)bl_text_find(stream, bl_text_from(marks[api]));

    while (stream.data[size] != '\n')
        size++;
    size += api == BL_API_OLLAMA ? 1 : 2;
    return (struct bl_text){stream.data, size};
}

static int early_ends(void *argument BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (int reset = 0; reset < 2; reset++) {
            struct remotely *remotely = begin(apis[i]);
            char promise[64];
            /* It announces more bytes than it sends. */
            snprintf(promise, sizeof promise, "Content-Length: %zu\r\n",
                     remotely_hello(apis[i]).size + 1000);
            struct bl_text answer = peer_answer(&remotely->arena, 200, remotely_type(apis[i]),
                                                promise, until_finished(apis[i]));
            struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                                      {.type = PEER_SEND, .bytes = answer},
                                      {.type = PEER_PAUSE, .pause_ns = reset ? 10 * MS : 1},
                                      {.type = reset ? PEER_RESET : PEER_CLOSE}};
            remotely_acts(remotely, acts, BL_COUNT(acts));
            remotely_open(remotely);
            CHECK_EQUAL(remotely_ask(remotely, "Say hi."), 0);
            CHECK(strstr(recorder_log(&remotely->recorder), "stop end\n") != NULL);
            CHECK(strstr(recorder_log(&remotely->recorder), "retry") == NULL);
            CHECK_EQUAL(peer_requests(remotely->peer), 1);
            end(remotely);
        }
    }
    return 0;
}

static void P29_end_of_the_connection_after_the_finish_is_success(void **state BL_UNUSED)
{
    run_in_loop(early_ends, NULL);
}

static int junk_after(void *argument BL_UNUSED)
{
    static const char *const junk[] = {
        "data: {\"type\":\"error\",\"error\":{\"message\":\"late\"}}\n\n", "data: [DONE]\n\n",
        "<html>\n", "{\"error\":\"late\"}\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]"
        "}\n\n"};
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        for (size_t j = 0; j < BL_COUNT(junk); j++)
            check_hello(apis[i], junk[j], remotely_type(apis[i]),
                        bl_arena_printf(&arena, BL_TEXT_FORMAT "%s",
                                        BL_TEXT_ARG(remotely_hello(apis[i])), junk[j]));
    }
    bl_arena_done(&arena);
    return 0;
}

static void P29_junk_after_the_end_is_not_read(void **state BL_UNUSED)
{
    run_in_loop(junk_after, NULL);
}

static int open_after_end(void *argument BL_UNUSED)
{
    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct remotely *remotely = begin(apis[i]);
        struct peer_act acts[] = {
            {.type = PEER_READ_REQUEST},
            {.type = PEER_SEND,
             .bytes = answer_of(remotely, remotely_type(apis[i]), remotely_hello(apis[i]))},
            {.type = PEER_SILENCE}};
        remotely_acts(remotely, acts, BL_COUNT(acts));
        remotely_open(remotely);
        for (unsigned call = 1; call <= 3; call++) {
            uint64_t from_ns = bl_now_ns();
            check_said(remotely, "left open", "Hi.");
            CHECK(bl_now_ns() - from_ns <= 500 * MS);
            CHECK_EQUAL(peer_connections(remotely->peer), call);
        }
        CHECK_EQUAL(peer_await_closed(remotely->peer, 5 * BL_NS_PER_S), 0);
        end(remotely);
    }
    return 0;
}

static void connection_that_stays_open_after_the_end_is_left_behind(void **state BL_UNUSED)
{
    run_in_loop(open_after_end, NULL);
}

/* ---- Invalid answers ------------------------------------------------------------------------- */

static int not_answers(void *argument BL_UNUSED)
{
    static const struct {
        const char *type, *body, *code;
    } cases[] = {
        {"text/event-stream", "<html><title>Sign in</title></html>", "bad_response"},
        {"text/event-stream",
         "{\"error\":{\"message\":\"invalid key\",\"type\":"
         "\"authentication_error\"}}",
         "auth"},
        {NULL, " \n <!doctype html><title>Oh</title>", "bad_response"},
        {NULL, "{\"detail\":", "bad_response"},
        {"application/json", "{}", "bad_response"},
        {"application/json", "[1,2]", "bad_response"},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        for (size_t j = 0; j < 3; j++) {
            struct remotely *remotely = begin(apis[j]);
            struct peer_act acts[] = {
                {.type = PEER_READ_REQUEST},
                {.type = PEER_SEND,
                 .bytes = answer_of(remotely, cases[i].type, bl_text_from(cases[i].body))},
                {.type = PEER_CLOSE}};
            remotely_acts(remotely, acts, BL_COUNT(acts));
            remotely_open(remotely);
            CHECK(remotely_ask(remotely, "Say hi.") != 0);
            const char *name = remotely->recorder.error.name;
            if (!CHECK(strcmp(name, cases[i].code) == 0))
                fprintf(stderr, "case %zu, %s: %s %s\n", i, bl_api_name(apis[j]), name,
                        remotely->recorder.error.message);
            CHECK_EQUAL(peer_requests(remotely->peer), 1);
            end(remotely);
        }
    }
    return 0;
}

static void invalid_answers_fail_with_any_content_type(void **state BL_UNUSED)
{
    run_in_loop(not_answers, NULL);
}

/* A field without a colon: an event stream that ends before its first event. */
static int text_alone(void *argument BL_UNUSED)
{
    for (size_t i = 0; i < 3; i++) {
        struct remotely *remotely = begin(apis[i]);
        struct peer_act acts[] = {
            {.type = PEER_READ_REQUEST},
            {.type = PEER_SEND,
             .bytes = answer_of(remotely, "application/json", BL_TEXT("\"Hi.\""))},
            {.type = PEER_CLOSE}};
        remotely_acts(remotely, acts, BL_COUNT(acts));
        remotely_answer(remotely, 401, "", "application/json", BL_TEXT("{}"));
        remotely_open(remotely);
        CHECK_EQUAL(remotely_ask(remotely, "Say hi."), BL_EACCES);
        CHECK_STRING(recorder_log(&remotely->recorder), "retry 1 of 4 stream_cut 0\n");
        CHECK_EQUAL(peer_requests(remotely->peer), 2);
        end(remotely);
    }
    return 0;
}

static void text_that_is_not_a_stream_is_a_cut_stream(void **state BL_UNUSED)
{
    run_in_loop(text_alone, NULL);
}

#define STREAM_MAX ((uint64_t)256 * 1024 * 1024)

static int endless(void *argument BL_UNUSED)
{
    static char comment[1u << 20];
    struct remotely *remotely = begin(BL_API_OPENAI);
    unsigned long long read_bytes = 0;

    memset(comment, 'x', sizeof comment);
    comment[0] = ':';
    comment[sizeof comment - 1] = '\n';
    struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = answer_of(remotely, "text/event-stream", BL_TEXT(""))},
        {.type = PEER_SEND_ENDLESS, .bytes = {comment, sizeof comment}}};
    remotely_acts(remotely, acts, BL_COUNT(acts));
    remotely_open(remotely);
    CHECK_EQUAL(remotely_ask(remotely, "Say hi."), BL_EIO);
    CHECK_STRING(remotely->recorder.error.name, "limit");
    CHECK_EQUAL(peer_requests(remotely->peer), 1);
    /* With bytes that were received but not processed yet. */
    CHECK_EQUAL(sscanf(remotely->recorder.sink.detail, "stream cut after %llu bytes", &read_bytes),
                1);
    CHECK(read_bytes > STREAM_MAX && read_bytes < STREAM_MAX + 2 * BL_WIRE_PENDING_MAX);
    end(remotely);
    return 0;
}

static void stream_without_an_end_is_over_the_limit_at_256_mebibytes(void **state BL_UNUSED)
{
    run_in_loop(endless, NULL);
}

SUITE(attempt, cmocka_unit_test(content_type_is_checked_and_not_trusted),
      cmocka_unit_test(P30_whole_answer_to_a_streaming_request_is_read_whole),
      cmocka_unit_test(any_line_ending_and_either_framing_is_read),
      cmocka_unit_test(one_byte_at_a_time_is_the_same_answer),
      cmocka_unit_test(broken_text_is_replaced_and_not_refused),
      cmocka_unit_test(P29_end_of_the_connection_after_the_finish_is_success),
      cmocka_unit_test(P29_junk_after_the_end_is_not_read),
      cmocka_unit_test(connection_that_stays_open_after_the_end_is_left_behind),
      cmocka_unit_test(invalid_answers_fail_with_any_content_type),
      cmocka_unit_test(text_that_is_not_a_stream_is_a_cut_stream),
      cmocka_unit_test(stream_without_an_end_is_over_the_limit_at_256_mebibytes));
