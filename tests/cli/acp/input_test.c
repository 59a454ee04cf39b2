/* Invalid lines: each gets an error or no answer, and the next line is processed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define YOLO   "--permission-mode", "yolo"
#define DONE   "replies: [{say: done}]\nrepeat: true"
#define MIB    ((size_t)1024 * 1024)
#define ROUNDS 120u /* lines per start of the program */

/* Writes arbitrary bytes. */
static void send_bytes(struct client *client, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t count = write(client->to, data, size);
        assert_true(count > 0);
        data += count;
        size -= (size_t)count;
    }
}

/* Checks that the program is running and answers a valid request. */
static void check_alive(struct client *client)
{
    client_result(client, client_ask(client, "_belay/ps", "{}"));
}

/* Sends a line and expects this error with the id null, or with 0 no answer. */
static void expect(struct client *client, const char *data, size_t size, int code)
{
    size_t from = client->count;

    send_bytes(client, data, size);
    send_bytes(client, "\n", 1);
    check_alive(client);
    assert_int_equal(client->count - from, code == 0 ? 1 : 2);
    if (code == 0)
        return;
    const struct bl_json *answer = client->lines[from].json;
    if (stage_number_at(answer, "/error/code") != code ||
        !bl_json_is(bl_json_get(answer, BL_TEXT("id")), BL_JSON_NULL))
        fail_msg("%.100s: %.300s", data, client->lines[from].text);
}

static void A30_invalid_requests_are_refused_or_ignored(void **state BL_UNUSED)
{
    static const struct {
        struct bl_text line;
        int code;
    } cases[] = {
        {BL_TEXT(""), 0},
        {BL_TEXT("\r"), 0},
        {BL_TEXT("what"), -32700},
        {BL_TEXT("{"), -32700},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"session/list\",\"id\":\"a\"} trailing"),
         -32700},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"\xff\xfe\"}"), -32700},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"\xc3\"}"), -32700},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\0y\"}"), -32700},
        {BL_TEXT("null"), -32600},
        {BL_TEXT("7"), -32600},
        {BL_TEXT("\"text\""), -32600},
        {BL_TEXT("[]"), -32600},
        {BL_TEXT("[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/list\"}]"), -32600},
        {BL_TEXT("{}"), -32600},
        {BL_TEXT("{\"jsonrpc\":\"2.0\"}"), -32600},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/list\"}"), -32600},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"no/such\",\"params\":{\"a\":1}}"), 0},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}"), 0},
        {BL_TEXT(
             "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":7}}"),
         0},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":[1]}"), 0},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":\"nobody asked\",\"result\":{}}"), 0},
        {BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{\"code\":-1,\"message\":\"no\"}}"), 0},
    };
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        expect(&client, cases[i].line.data, cases[i].line.size, cases[i].code);
    client_new(&client);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 0);
    client_end(&client);
}

static void A30_lines_that_are_too_long_or_too_deep_are_skipped(void **state BL_UNUSED)
{
    static const char begin[] =
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/list\",\"x\":\"";
    size_t size = 17 * MIB;
    char *data = malloc(size);
    struct client client;

    assert_non_null(data);
    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    memset(data, 'x', size);
    memcpy(data, begin, sizeof begin - 1);
    memcpy(data + size - 2, "\"}", 2);
    expect(&client, data, size, -32700);
    for (size_t i = 0; i < 400; i++)
        data[i] = i < 200 ? '[' : ']';
    expect(&client, data, 400, -32700);
    /* A line within the limit is read; an image takes at most half of it. */
    memset(data, 'x', size);
    memcpy(data, begin, sizeof begin - 1);
    memcpy(data + 15 * MIB, "\"}\n", 3);
    send_bytes(&client, data, 15 * MIB + 3);
    client_await(&client, 0, "\"id\":\"a\",\"result\"");
    check_alive(&client);
    client_end(&client);
    free(data);
}

/* A prompt whose id is always the same. */
static const char *twice(const struct client *client, const char *text)
{
    return stage_printf("{\"jsonrpc\":\"2.0\",\"id\":\"twice\",\"method\":\"session/prompt\","
                        "\"params\":{\"sessionId\":\"%s\",\"prompt\":[{\"type\":\"text\",\"text\":"
                        "\"%s\"}]}}\n",
                        client->session, text);
}

static void A30_an_id_that_is_in_flight_is_not_taken_twice(void **state BL_UNUSED)
{
    struct client client;
    const char *prompt;

    CLIENT_START(&client, YOLO, "--provider",
                 stage_script("replies: [{when: wait, wedge: before_first_token}, {say: done}]"));
    client_new(&client);
    prompt = twice(&client, "wait");
    send_bytes(&client, prompt, strlen(prompt));
    size_t from = client.count;
    send_bytes(&client, prompt, strlen(prompt));
    size_t refused = client_await(&client, from, "\"id\":\"twice\"");
    assert_int_equal(stage_number_at(client.lines[refused].json, "/error/code"), -32600);
    client_cancel(&client);
    client_await(&client, refused + 1, "\"stopReason\":\"cancelled\"");
    /* It is free again. */
    prompt = twice(&client, "go");
    send_bytes(&client, prompt, strlen(prompt));
    client_await(&client, refused + 2, "\"stopReason\":\"end_turn\"");
    client_end(&client);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

#define BEGIN  "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":"
#define NOTE   "{\"jsonrpc\":\"2.0\",\"method\":"
#define THIS   "\"sessionId\":\"$SESSION\""
#define HERE   "\"cwd\":\"$WORK\",\"mcpServers\":[]"
#define PROMPT "\"prompt\":[{\"type\":\"text\",\"text\":\"hello\"}"

static const char *const good[] = {
    BEGIN "\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"session\":"
          "{\"notices\":{}}}}}",
    BEGIN "\"session/new\",\"params\":{" HERE "}}",
    BEGIN "\"session/load\",\"params\":{" THIS "," HERE "}}",
    BEGIN "\"session/resume\",\"params\":{" THIS "," HERE "}}",
    BEGIN "\"session/list\",\"params\":{\"cwd\":\"$WORK\",\"cursor\":null}}",
    BEGIN "\"session/list\",\"params\":{\"cursor\":\"1700000000000000000.some-session\"}}",
    BEGIN "\"session/close\",\"params\":{" THIS "}}",
    BEGIN "\"session/delete\",\"params\":{" THIS "}}",
    BEGIN "\"session/prompt\",\"params\":{" THIS "," PROMPT "]}}",
    BEGIN
    "\"session/prompt\",\"params\":{" THIS "," PROMPT
    ",{\"type\":\"resource_link\",\"uri\":\"file:///a/b\",\"name\":\"b\"},{\"type\":\"image\","
    "\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}]}}",
    BEGIN "\"session/prompt\",\"params\":{" THIS "," PROMPT
          ",{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///a\",\"text\":\"b\"}},{\"type\":"
          "\"resource\",\"resource\":{\"uri\":\"file:///c\",\"blob\":\"AAAA\",\"mimeType\":"
          "\"image/gif\"}}]}}",
    BEGIN "\"session/set_mode\",\"params\":{" THIS ",\"modeId\":\"read-only\"}}",
    BEGIN "\"session/set_config_option\",\"params\":{" THIS ",\"configId\":\"mode\",\"value\":"
          "\"auto\"}}",
    BEGIN "\"session/set_config_option\",\"params\":{" THIS ",\"configId\":\"_belay_timeout\","
          "\"value\":\"10s\"}}",
    BEGIN "\"_belay/inject\",\"params\":{" THIS "," PROMPT "]}}",
    BEGIN "\"_belay/cancel\",\"params\":{\"id\":\"call_1\"}}",
    BEGIN "\"_belay/ps\",\"params\":{}}",
    BEGIN "\"authenticate\",\"params\":{\"methodId\":\"env:X\"}}",
    NOTE "\"session/cancel\",\"params\":{" THIS "}}",
    NOTE "\"$/cancel_request\",\"params\":{\"requestId\":\"a\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"result\":{\"outcome\":{\"outcome\":\"selected\","
    "\"optionId\":\"allow_once\"}}}",
};

static void fill_in(struct bl_buffer *line, const char *text, const struct client *client)
{
    for (; *text != '\0'; text++) {
        bool session = strncmp(text, "$SESSION", 8) == 0, work = strncmp(text, "$WORK", 5) == 0;
        if (session || work) {
            const char *word = session ? client->session : stage_path("work");
            bl_buffer_append(line, bl_text_from(word));
            text += session ? 7 : 4;
        } else {
            bl_buffer_append_byte(line, *text);
        }
    }
}

/* Changes, removes or repeats a few bytes, or inserts random ones. */
static void damage(struct bl_buffer *line, struct bl_random *random)
{
    static const char *const bits[] = {"\"",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\\",
                                       "null",
                                       "-1",
                                       "1e999",
                                       "\\ud800",
                                       "\xf0\x9f\x98\x80",
                                       "\xff",
                                       "\\u0000",
                                       "\n",
                                       "{}",
                                       "9223372036854775808",
                                       "\xe2\x80\xa8",
                                       "true"};
    size_t at = line->size > 0 ? bl_random_below(random, line->size) : 0;
    size_t size = 1 + bl_random_below(random, 12);

    if (at + size > line->size)
        size = line->size - at;
    struct bl_buffer after;
    bl_buffer_init(&after, 1 << 20);
    bl_buffer_append(&after, (struct bl_text){line->data + at, line->size - at});
    line->size = at;
    switch (bl_random_below(random, 5)) {
    case 0: /* goes */ bl_buffer_consume(&after, size); break;
    case 1: /* comes twice */ bl_buffer_append(line, (struct bl_text){after.data, size}); break;
    case 2: /* any bytes */
        for (size_t i = 0; i < size; i++)
            after.data[i] = (char)bl_random_below(random, 256);
        break;
    case 3: /* the end of it goes */ after.size = 0; break;
    default:
        bl_buffer_append(line, bl_text_from(bits[bl_random_below(random, BL_COUNT(bits))]));
        bl_buffer_consume(&after, bl_random_below(random, 2) != 0 ? size : 0);
        break;
    }
    bl_buffer_append(line, bl_buffer_text(&after));
    bl_buffer_done(&after);
}

static void A30_damaged_lines_never_end_it(void **state BL_UNUSED)
{
    unsigned long starts = suite_rounds(2, 2000);
    struct bl_random random;
    struct bl_buffer line;
    struct client client;

    bl_buffer_init(&line, 1 << 20);
    for (unsigned long start = 0; start < starts; start++) {
        print_message("seed %lu\n", start); /* to repeat a failure */
        bl_random_seed(&random, start);
        CLIENT_START(&client, YOLO, "--provider", stage_script("images: true\n" DONE));
        client_new(&client);
        const char *session = client.session;
        for (unsigned i = 0; i < ROUNDS; i++) {
            client.session = session;
            bl_buffer_clear(&line);
            fill_in(&line, good[bl_random_below(&random, BL_COUNT(good))], &client);
            for (size_t times = bl_random_below(&random, 4); times > 0; times--)
                damage(&line, &random);
            bl_buffer_append_byte(&line, '\n');
            send_bytes(&client, line.data, line.size);
            if (i % 10 != 9)
                continue;
            check_alive(&client);
            client.count = 0; /* ids may be reused now */
        }
        client_close_input(&client);
        int code = client_exit(&client);
        assert_true(code == 0 || code == 130);
        client_end(&client);
    }
    bl_buffer_done(&line);
}

SUITE(input, STAGED(A30_invalid_requests_are_refused_or_ignored),
      STAGED(A30_lines_that_are_too_long_or_too_deep_are_skipped),
      STAGED(A30_an_id_that_is_in_flight_is_not_taken_twice),
      STAGED(A30_damaged_lines_never_end_it));
