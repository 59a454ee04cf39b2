#include <stdio.h>
#include <stdlib.h>

#include "model/script/serve.h"
#include "recorder.h"

#define LONG_NS  (30 * BL_NS_PER_S)
#define SHORT_NS (80 * BL_NS_PER_MS)

/* A server of a script, and a client of it, in one loop. */
struct served {
    struct bl_nursery nursery;
    struct bl_script *script;
    struct bl_script_server *server;
    struct bl_client *client;
    struct bl_buffer journal; /* lines */
    struct bl_arena arena;
};

/* The result of a request. */
struct answer {
    int status;
    struct bl_buffer body;
    char type[64];
    char retry_after[16];
    char retry_after_ms[16];
    char should_retry[16];
    char failure[24]; /* code of the failure; empty if none */
};

static void keep_journal(void *context, const struct bl_script_served *request)
{
    struct served *served = context;
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, &served->journal);
    bl_record_write(&writer, &bl_script_served_record, request);
    bl_buffer_append_byte(&served->journal, '\n');
}

static void serve(struct served *served, const char *script)
{
    struct bl_script_server_options options = {.journal = keep_journal, .context = served};
    struct bl_client_options client = {0};
    struct bl_error error = {0};

    *served = (struct served){0};
    bl_arena_init(&served->arena);
    bl_buffer_init(&served->journal, 1u << 20);
    bl_nursery_init(&served->nursery, bl_scope_current());
    CHECK_EQUAL(bl_script_parse(bl_text_from(script), "test", &served->script, &error), 0);
    options.script = served->script;
    CHECK_EQUAL(bl_script_server_start(&served->nursery, &options, &served->server, &error), 0);
    served->client = bl_client_new(&client);
}

static void end_serving(struct served *served)
{
    bl_client_free(served->client);
    bl_script_server_stop(served->server);
    bl_nursery_done(&served->nursery);
    bl_script_free(served->script);
    bl_buffer_done(&served->journal);
    bl_arena_done(&served->arena);
}

static const char *journal(struct served *served)
{
    bl_buffer_append_byte(&served->journal, '\0');
    served->journal.size--;
    return served->journal.data;
}

/* Waits until the server has noted `count` requests, which it does after each. */
static void await_journal(struct served *served, size_t count)
{
    for (;;) {
        size_t lines = 0;
        for (size_t i = 0; i < served->journal.size; i++)
            lines += served->journal.data[i] == '\n';
        if (lines >= count || !CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0))
            return;
    }
}

static const char *address(struct served *served, const char *path)
{
    return bl_arena_printf(&served->arena, "http://127.0.0.1:%u%s",
                           bl_script_server_port(served->server), path)
        .data;
}

static void copy_header(const struct bl_exchange *exchange, const char *name, char *out,
                        size_t size)
{
    struct bl_text value = bl_exchange_header(exchange, name);

    snprintf(out, size, BL_TEXT_FORMAT, BL_TEXT_ARG(value));
}

static void read_answer(struct bl_exchange *exchange, struct answer *answer)
{
    struct bl_text bytes;

    int result = bl_exchange_headers(exchange);
    if (result == 0) {
        answer->status = bl_exchange_status(exchange);
        copy_header(exchange, "content-type", answer->type, sizeof answer->type);
        copy_header(exchange, "retry-after", answer->retry_after, sizeof answer->retry_after);
        copy_header(exchange, "retry-after-ms", answer->retry_after_ms,
                    sizeof answer->retry_after_ms);
        copy_header(exchange, "x-should-retry", answer->should_retry, sizeof answer->should_retry);
    }
    while (result == 0 && (result = bl_exchange_read(exchange, &bytes)) == 0 && bytes.size > 0)
        bl_buffer_append(&answer->body, bytes);
    if (result == BL_EIO)
        bl_text_into(answer->failure, sizeof answer->failure, bl_exchange_failure(exchange)->code);
    else
        CHECK_EQUAL(result, 0);
    bl_buffer_append_byte(&answer->body, '\0');
}

/* Timeout for a silent server. */
struct timeouts {
    uint64_t first_byte_ns;
    uint64_t stall_ns;
};

static const struct timeouts long_timeouts = {LONG_NS, LONG_NS};

/* Sends a request, and reads the whole answer. */
static void ask_with(struct served *served, const char *method, const char *path, const char *body,
                     const struct bl_http_header *header, struct timeouts timeouts,
                     struct answer *answer)
{
    struct bl_http_request request = {
        .method = method,
        .url = address(served, path),
        .headers = header,
        .header_count = header != NULL,
        .body = bl_text_from(body),
        .connect_ns = LONG_NS,
        .first_byte_ns = timeouts.first_byte_ns,
        .stall_ns = timeouts.stall_ns,
    };
    struct bl_exchange *exchange = NULL;
    struct bl_error error = {0};

    *answer = (struct answer){0};
    bl_buffer_init(&answer->body, 1u << 20);
    if (!CHECK_EQUAL(bl_exchange_new(served->client, &request, &exchange, &error), 0)) {
        bl_buffer_append_byte(&answer->body, '\0');
        return;
    }
    read_answer(exchange, answer);
    bl_exchange_free(exchange);
}

static void ask(struct served *served, const char *path, const char *body, struct answer *answer)
{
    ask_with(served, "POST", path, body, NULL, long_timeouts, answer);
}

#define HAS(answer, part)                                                                          \
    check_that(strstr((answer)->body.data, part) != NULL, (answer)->body.data, __FILE__, __LINE__)

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"two words\"}]"

static const struct {
    const char *path;
    const char *stream; /* the bodies of requests */
    const char *whole;
    const char *name;
} formats[] = {
    [BL_API_ANTHROPIC] = {"/v1/messages",
                          "{\"model\":\"m\",\"max_tokens\":9,\"stream\":true," MESSAGES "}",
                          "{\"model\":\"m\",\"max_tokens\":9," MESSAGES "}", "anthropic"},
    [BL_API_OPENAI] = {"/v1/chat/completions", "{\"model\":\"m\",\"stream\":true," MESSAGES "}",
                       "{\"model\":\"m\"," MESSAGES "}", "openai"},
    [BL_API_OPENAI_RESPONSES] = {"/v1/responses",
                                 "{\"model\":\"m\",\"stream\":true,\"input\":\"two words\"}",
                                 "{\"model\":\"m\",\"input\":\"two words\"}", "openai-responses"},
    [BL_API_OLLAMA] = {"/api/chat", "{\"model\":\"m\"," MESSAGES "}",
                       "{\"model\":\"m\",\"stream\":false," MESSAGES "}", "ollama"},
};

/* ---- Answers --------------------------------------------------------------------------------- */

static int formats_main(void *argument BL_UNUSED)
{
    static const char *const types[] = {"text/event-stream; charset=utf-8",
                                        "text/event-stream; charset=utf-8",
                                        "text/event-stream; charset=utf-8", "application/x-ndjson"};
    static const char *const ends[] = {"event: message_stop", "data: [DONE]",
                                       "event: response.completed", "\"done\":true"};
    struct served served;
    struct answer answer;

    serve(&served, "replies: [{say: Hello there}]\nrepeat: true\n");
    for (size_t i = 0; i < BL_COUNT(formats); i++) {
        ask(&served, formats[i].path, formats[i].stream, &answer);
        CHECK_EQUAL(answer.status, 200);
        CHECK_STRING(answer.type, types[i]);
        HAS(&answer, ends[i]);
        HAS(&answer, "\"Hel\"");
        bl_buffer_done(&answer.body);
        ask(&served, formats[i].path, formats[i].whole, &answer);
        CHECK_EQUAL(answer.status, 200);
        CHECK_STRING(answer.type, "application/json");
        HAS(&answer, "\"Hello there\"");
        bl_buffer_done(&answer.body);
    }
    ask(&served, "/chat/completions?x=1", formats[BL_API_OPENAI].whole, &answer);
    HAS(&answer, "\"object\":\"chat.completion\"");
    bl_buffer_done(&answer.body);
    ask(&served, "/responses", formats[BL_API_OPENAI_RESPONSES].whole, &answer);
    HAS(&answer, "\"object\":\"response\"");
    bl_buffer_done(&answer.body);
    end_serving(&served);
    return 0;
}

static void each_format_is_served_at_its_address(void **state BL_UNUSED)
{
    run_in_loop(formats_main, NULL);
}

static int others_main(void *argument BL_UNUSED)
{
    struct bl_http_header version = {BL_TEXT("anthropic-version"), BL_TEXT("2023-06-01")};
    struct served served;
    struct answer answer;

    serve(&served, "name: tape\nreplies: [{say: a}]\n");
    ask(&served, "/v1/messages/count_tokens", "{\"model\":\"m\"," MESSAGES "}", &answer);
    CHECK_STRING(answer.body.data, "{\"input_tokens\":2}");
    bl_buffer_done(&answer.body);
    ask_with(&served, "GET", "/v1/models", "", NULL, long_timeouts, &answer);
    HAS(&answer, "{\"object\":\"list\",\"data\":[{\"id\":\"tape\",\"object\":\"model\"");
    bl_buffer_done(&answer.body);
    ask_with(&served, "GET", "/v1/models", "", &version, long_timeouts, &answer);
    HAS(&answer, "{\"data\":[{\"type\":\"model\",\"id\":\"tape\"");
    bl_buffer_done(&answer.body);
    ask_with(&served, "GET", "/api/tags", "", NULL, long_timeouts, &answer);
    HAS(&answer, "{\"models\":[{\"name\":\"tape\"");
    bl_buffer_done(&answer.body);
    end_serving(&served);
    return 0;
}

static void models_are_listed_and_tokens_counted(void **state BL_UNUSED)
{
    run_in_loop(others_main, NULL);
}

static int refused_main(void *argument BL_UNUSED)
{
    static const struct {
        const char *method;
        const char *path;
        int status;
        const char *part;
    } rows[] = {
        {"POST", "/v1/nothing", 404,
         "{\"error\":{\"message\":\"there is no resource at /v1/nothing\""},
        {"GET", "/api/nothing", 404, "{\"error\":\"there is no resource at /api/nothing\"}"},
        {"POST", "/v1/messages/batches", 404,
         "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\""},
        {"GET", "/v1/messages", 405,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\""},
        {"POST", "/v1/messages", 400, "\"message\":\"the body is not JSON: offset 0"},
        {"POST", "/v1/chat/completions", 400, "\"type\":\"invalid_request_error\""},
        {"POST", "/v1/responses", 400, "\"type\":\"invalid_request_error\""},
        {"POST", "/api/chat", 400, "{\"error\":\"the body is not JSON: offset 0"},
    };
    struct served served;
    struct answer answer;

    serve(&served, "replies: [{say: a}]\n");
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        ask_with(&served, rows[i].method, rows[i].path, "", NULL, long_timeouts, &answer);
        CHECK_EQUAL(answer.status, rows[i].status);
        HAS(&answer, rows[i].part);
        bl_buffer_done(&answer.body);
    }
    /* None of these used up the reply; after it nothing is left. */
    ask(&served, "/api/chat", formats[BL_API_OLLAMA].whole, &answer);
    CHECK_EQUAL(answer.status, 200);
    bl_buffer_done(&answer.body);
    for (size_t i = 0; i < BL_COUNT(formats); i++) {
        ask(&served, formats[i].path, formats[i].stream, &answer);
        CHECK_EQUAL(answer.status, 400);
        HAS(&answer, "the script 'test' has no reply left: 1 of 1 are used");
        bl_buffer_done(&answer.body);
    }
    end_serving(&served);
    return 0;
}

static void unanswerable_requests_are_refused_in_their_format(void **state BL_UNUSED)
{
    run_in_loop(refused_main, NULL);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static int failures_main(void *argument BL_UNUSED)
{
    static const struct {
        const char *error;
        int status;
        int openai_status;
        const char *part;
    } rows[] = {
        {"{status: 529, retry_after: 250ms, should_retry: true}", 529, 529, "verloaded"},
        {"{status: 503, message: Be patient}", 503, 503, "Be patient"},
        {"{code: rate_limited}", 429, 429, "Too many"},
        {"{code: overloaded}", 529, 503, "verloaded"},
        {"{code: quota}", 402, 429, "credit"},
        {"{code: auth}", 401, 401, "key"},
        {"{code: context_overflow}", 400, 400, "context length"},
        {"{code: not_found}", 404, 404, "Not found"},
        {"{code: server, status: 200}", 200, 200, "Internal server error"},
        {"{code: redirect}", 307, 307, "elsewhere"},
        {"{code: bad_response}", 200, 200, "<!doctype html>"},
    };
    struct served served;
    struct answer answer;
    char script[200];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        snprintf(script, sizeof script, "replies: [{error: %s}]\nrepeat: true\n", rows[i].error);
        serve(&served, script);
        for (size_t api = 0; api < BL_COUNT(formats); api++) {
            bool openai = api == BL_API_OPENAI || api == BL_API_OPENAI_RESPONSES;
            ask(&served, formats[api].path, formats[api].stream, &answer);
            CHECK_EQUAL(answer.status, openai ? rows[i].openai_status : rows[i].status);
            HAS(&answer, rows[i].part);
            CHECK_STRING(answer.retry_after, i == 0 ? "1" : "");
            CHECK_STRING(answer.retry_after_ms, i == 0 ? "250" : "");
            CHECK_STRING(answer.should_retry, i == 0 ? "true" : "");
            bl_buffer_done(&answer.body);
        }
        end_serving(&served);
    }
    return 0;
}

static void failures_of_the_script_are_errors_of_http(void **state BL_UNUSED)
{
    run_in_loop(failures_main, NULL);
}

static int broken_main(void *argument BL_UNUSED)
{
    static const struct {
        const char *reply;
        const char *failure;
        int status;
        struct timeouts timeouts;
    } rows[] = {
        {"{error: {code: stream_cut, message: half}}", "stream_cut", 200, {LONG_NS, LONG_NS}},
        {"{error: {code: stall, message: half}}", "stall", 200, {LONG_NS, SHORT_NS}},
        {"{error: {code: first_byte}}", "first_byte", 0, {SHORT_NS, LONG_NS}},
        {"{error: {code: limit}}", "limit", 0, {LONG_NS, LONG_NS}},
        {"{wedge: before_first_token}", "first_byte", 0, {SHORT_NS, LONG_NS}},
        {"{wedge: after_first_token, say: half and more}", "stall", 200, {LONG_NS, SHORT_NS}},
    };
    struct served served;
    struct answer answer;
    char script[200];

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        snprintf(script, sizeof script, "replies: [%s]\nrepeat: true\n", rows[i].reply);
        serve(&served, script);
        for (size_t api = 0; api < BL_COUNT(formats); api++) {
            ask_with(&served, "POST", formats[api].path, formats[api].stream, NULL,
                     rows[i].timeouts, &answer);
            CHECK_STRING(answer.failure, rows[i].failure);
            CHECK_EQUAL(answer.status, rows[i].status);
            if (rows[i].status == 200)
                HAS(&answer, "half");
            bl_buffer_done(&answer.body);
        }
        /* The server sees each of them disconnect. */
        await_journal(&served, BL_COUNT(formats));
        if (i != 3)
            CHECK(strstr(journal(&served), "\"cut\":false") == NULL);
        end_serving(&served);
    }
    return 0;
}

static void failures_of_a_server_are_played(void **state BL_UNUSED)
{
    run_in_loop(broken_main, NULL);
}

/* A refusal is an answer; in formats without one, it is an error. */
static int refusal_main(void *argument BL_UNUSED)
{
    static const char *const parts[] = {"\"stop_reason\":\"refusal\"",
                                        "\"finish_reason\":\"content_filter\"",
                                        "\"reason\":\"content_filter\"", "content policy"};
    struct served served;
    struct answer answer;

    serve(&served, "replies: [{error: {code: refusal}}]\nrepeat: true\n");
    for (size_t api = 0; api < BL_COUNT(formats); api++) {
        for (int stream = 0; stream < 2; stream++) {
            ask(&served, formats[api].path, stream ? formats[api].stream : formats[api].whole,
                &answer);
            CHECK_EQUAL(answer.status, api == BL_API_OLLAMA ? 400 : 200);
            HAS(&answer, parts[api]);
            bl_buffer_done(&answer.body);
        }
    }
    end_serving(&served);
    return 0;
}

static void a_refusal_is_an_answer(void **state BL_UNUSED)
{
    run_in_loop(refusal_main, NULL);
}

/* ---- The journal ----------------------------------------------------------------------------- */

static int journal_main(void *argument BL_UNUSED)
{
    struct served served;
    struct answer answer;

    serve(&served, "replies:\n- say: one two three\n- say: one\n  usage: {input: 70, output: 80}\n"
                   "- error: {status: 529}\n- error: {code: stream_cut}\n");
    ask(&served, "/v1/messages", "{\"model\":\"a\",\"max_tokens\":2,\"stream\":true," MESSAGES "}",
        &answer);
    bl_buffer_done(&answer.body);
    ask(&served, "/api/chat", formats[BL_API_OLLAMA].whole, &answer);
    bl_buffer_done(&answer.body);
    for (int i = 0; i < 2; i++) {
        ask(&served, "/v1/responses", formats[BL_API_OPENAI_RESPONSES].stream, &answer);
        bl_buffer_done(&answer.body);
    }
    ask_with(&served, "GET", "/nowhere", "", NULL, long_timeouts, &answer);
    bl_buffer_done(&answer.body);
    await_journal(&served, 5);
    CHECK_STRING(
        journal(&served),
        "{\"n\":1,\"format\":\"anthropic\",\"path\":\"/v1/messages\",\"model\":\"a\",\"stream\":"
        "true,\"max_tokens\":2,\"body_bytes\":93,\"input_tokens\":2,\"output_tokens\":2,"
        "\"status\":200,\"cut\":false}\n"
        "{\"n\":2,\"format\":\"ollama\",\"path\":\"/api/chat\",\"model\":\"m\",\"stream\":false,"
        "\"max_tokens\":null,\"body_bytes\":79,\"input_tokens\":70,\"output_tokens\":80,"
        "\"status\":200,\"cut\":false}\n"
        "{\"n\":3,\"format\":\"openai-responses\",\"path\":\"/v1/responses\",\"model\":\"m\","
        "\"stream\":true,\"max_tokens\":null,\"body_bytes\":47,\"input_tokens\":0,"
        "\"output_tokens\":0,\"status\":529,\"cut\":false}\n"
        "{\"n\":4,\"format\":\"openai-responses\",\"path\":\"/v1/responses\",\"model\":\"m\","
        "\"stream\":true,\"max_tokens\":null,\"body_bytes\":47,\"input_tokens\":0,"
        "\"output_tokens\":0,\"status\":200,\"cut\":true}\n"
        "{\"n\":5,\"format\":\"openai\",\"path\":\"/nowhere\",\"model\":null,\"stream\":false,"
        "\"max_tokens\":null,\"body_bytes\":0,\"input_tokens\":0,\"output_tokens\":0,"
        "\"status\":404,\"cut\":false}\n");
    end_serving(&served);
    return 0;
}

static void every_request_is_one_line_of_the_journal(void **state BL_UNUSED)
{
    run_in_loop(journal_main, NULL);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

struct client {
    struct served *served;
    bool seen[16];
    unsigned count;
};

static int client_main(void *argument)
{
    struct client *client = argument;
    struct answer answer;

    ask(client->served, "/api/chat", formats[BL_API_OLLAMA].whole, &answer);
    CHECK_EQUAL(answer.status, 200);
    const char *at = strstr(answer.body.data, "number ");
    if (CHECK(at != NULL)) {
        unsigned number = (unsigned)strtoul(at + 7, NULL, 10);
        if (CHECK(number < 16 && !client->seen[number])) {
            client->seen[number] = true;
            client->count++;
        }
    }
    bl_buffer_done(&answer.body);
    return 0;
}

static int crowd_main(void *argument BL_UNUSED)
{
    struct served served;
    struct client client = {.served = &served};
    struct bl_nursery nursery;
    char script[600];
    int size = snprintf(script, sizeof script, "replies:\n");

    for (unsigned i = 0; i < 16; i++)
        size += snprintf(script + size, sizeof script - (size_t)size, "- say: number %u\n", i);
    serve(&served, script);
    bl_nursery_init(&nursery, bl_scope_current());
    for (unsigned i = 0; i < 16; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "client", client_main, &client, NULL), 0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(client.count, 16);
    end_serving(&served);
    return 0;
}

static void clients_at_once_get_each_reply_once(void **state BL_UNUSED)
{
    run_in_loop(crowd_main, NULL);
}

static int taken_main(void *argument BL_UNUSED)
{
    struct served served;
    struct bl_script_server *second = NULL;
    struct bl_error error = {0};

    serve(&served, "replies: [{wedge: before_first_token}]\n");
    struct bl_script_server_options options = {.script = served.script,
                                               .port = bl_script_server_port(served.server)};
    CHECK_EQUAL(bl_script_server_start(&served.nursery, &options, &second, &error), BL_EBUSY);
    CHECK(error.message[0] != '\0');
    bl_script_server_stop(NULL);
    end_serving(&served);
    return 0;
}

static void a_port_that_is_taken_is_an_error(void **state BL_UNUSED)
{
    run_in_loop(taken_main, NULL);
}

SUITE(script_serve, cmocka_unit_test(each_format_is_served_at_its_address),
      cmocka_unit_test(models_are_listed_and_tokens_counted),
      cmocka_unit_test(unanswerable_requests_are_refused_in_their_format),
      cmocka_unit_test(failures_of_the_script_are_errors_of_http),
      cmocka_unit_test(failures_of_a_server_are_played), cmocka_unit_test(a_refusal_is_an_answer),
      cmocka_unit_test(every_request_is_one_line_of_the_journal),
      cmocka_unit_test(clients_at_once_get_each_reply_once),
      cmocka_unit_test(a_port_that_is_taken_is_an_error));
