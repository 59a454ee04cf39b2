/* Cancels: the time of the answer, the processes left by then, and later updates. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "figure.h"

#define YOLO "--permission-mode", "yolo"

/* Promised times: after a cancel, and with a tool after its grace period. */
#define ANSWER_MS 30
#define STOP_MS   50
#define GRACE_MS  200

/* Returns the time from the last written line to the answer. */
static double answer_ms(struct client *client, int64_t id)
{
    size_t line = client_answer_line(client, id);
    return (double)(client->lines[line].at_ns - client->sent_ns) / 1e6;
}

static void assert_cancelled(struct client *client, int64_t id)
{
    const struct bl_json *result = client_result(client, id);
    assert_string_equal(stage_text_at(result, "/stopReason"), "cancelled");
    assert_string_equal(stage_text_at(result, "/_meta/belay~1stop_reason"), "cancelled");
    assert_int_equal(stage_number_at(result, "/_meta/belay~1receipt/survivors"), 0);
    assert_int_equal(stage_size_at(result, "/_meta/belay~1background"), 0);
}

/* ---- A silent model -------------------------------------------------------------------------- */

struct silence {
    int listener;
    int connection;
    struct client client;
};

/* Starts a server that accepts a request and never answers, and a client that uses it as its model.
 */
static void silence_begin(struct silence *silence)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    silence->connection = -1;
    silence->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(silence->listener >= 0);
    assert_int_equal(bind(silence->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(silence->listener, 16), 0);
    assert_int_equal(getsockname(silence->listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(mkdir(stage_path("work/.belay"), 0700), 0);
    setenv("SILENT_KEY", "sk-none", 1);
    const char *folder = stage_path("config/belay");
    assert_int_equal(mkdir(folder, 0700), 0);
    FILE *file = fopen(stage_path("config/belay/config.yaml"), "we");
    assert_non_null(file);
    fprintf(file,
            "model: near/silent\nproviders:\n  near: {api: anthropic, base_url: "
            "'http://127.0.0.1:%d', key_env: SILENT_KEY}\n",
            ntohs(address.sin_port));
    assert_int_equal(fclose(file), 0);
    CLIENT_START(&silence->client, YOLO);
    client_new(&silence->client);
}

/* Waits for the request. */
static void silence_await(struct silence *silence)
{
    struct pollfd wanted = {.fd = silence->listener, .events = POLLIN};
    char data[1024];

    assert_int_equal(poll(&wanted, 1, 30000), 1);
    silence->connection = accept4(silence->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(silence->connection >= 0);
    assert_true(read(silence->connection, data, sizeof data) > 0);
}

/* True if the other end has closed the connection. Does not wait. */
static bool silence_closed(const struct silence *silence)
{
    char data[65536];
    ssize_t size;

    while ((size = recv(silence->connection, data, sizeof data, MSG_DONTWAIT)) > 0)
        continue;
    return size == 0 || errno == ECONNRESET;
}

static void silence_end(struct silence *silence)
{
    client_end(&silence->client);
    close(silence->listener);
    if (silence->connection >= 0)
        close(silence->connection);
    unsetenv("SILENT_KEY");
}

static void A5_a_silent_model_is_cut_before_the_answer(void **state BL_UNUSED)
{
    struct silence silence;
    struct client *client = &silence.client;

    silence_begin(&silence);
    int64_t prompt = client_prompt(client, "hello");
    silence_await(&silence);
    client_cancel(client);
    double ms = answer_ms(client, prompt);
    assert_true(silence_closed(&silence));
    assert_cancelled(client, prompt);
    assert_true(figure_at_most("A5 cancel of a silent model", ms, ANSWER_MS));
    silence_end(&silence);
}

static void A14_cancel_request_of_the_prompt_is_a_cancel(void **state BL_UNUSED)
{
    struct silence silence;
    struct client *client = &silence.client;

    silence_begin(&silence);
    int64_t prompt = client_prompt(client, "hello");
    silence_await(&silence);
    size_t before = client->count;
    client_notify(client, "$/cancel_request", "{\"requestId\":4711}");
    client_notify(client, "$/cancel_request", "{\"requestId\":\"none\"}");
    client_notify(client, "$/cancel_request", "{}");
    client_listen(client, 50);
    assert_int_equal(client->count, before);
    client_notify(client, "$/cancel_request", "{\"requestId\":%lld}", (long long)prompt);
    double ms = answer_ms(client, prompt);
    assert_true(silence_closed(&silence));
    assert_cancelled(client, prompt);
    assert_true(figure_at_most("A14 $/cancel_request of a silent model", ms, ANSWER_MS));
    silence_end(&silence);
}

static void A12_a_cancel_right_behind_its_prompt_asks_no_model(void **state BL_UNUSED)
{
    struct silence silence;
    struct client *client = &silence.client;
    struct pollfd wanted;

    silence_begin(&silence);
    client_write(client,
                 "{\"jsonrpc\":\"2.0\",\"id\":70,\"method\":\"session/prompt\",\"params\":"
                 "{\"sessionId\":\"%s\",\"prompt\":[{\"type\":\"text\",\"text\":\"hello\"}]}}\n"
                 "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":"
                 "{\"sessionId\":\"%s\"}}\n",
                 client->session, client->session);
    assert_string_equal(client_stop_reason(client, 70), "cancelled");
    client_listen(client, 50);
    wanted = (struct pollfd){.fd = silence.listener, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 0), 0);
    silence_end(&silence);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* Returns a script whose only answer is a call of the trap. */
static const char *trap_script(void)
{
    return stage_script(stage_printf("replies:\n"
                                     "  - when: trap\n"
                                     "    tools:\n"
                                     "      - {name: bash, input: {command: \"%s\"}}\n"
                                     "repeat: true\n",
                                     client_trap()));
}

static void A6_nothing_of_a_tool_is_left_at_the_moment_of_the_answer(void **state BL_UNUSED)
{
    unsigned long rounds = suite_rounds(2, 100);
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", trap_script());
    client_new(&client);
    for (unsigned long i = 0; i < rounds; i++) {
        size_t from = client.count;
        int64_t prompt = client_prompt(&client, "trap");
        client_await_trap();
        client_cancel(&client);
        double ms = answer_ms(&client, prompt);
        assert_int_equal(client_trapped(), 0);
        assert_cancelled(&client, prompt);
        assert_true(figure_between("A6 cancel of a tool that ignores TERM", ms, GRACE_MS,
                                   GRACE_MS + STOP_MS));
        /* One final update of the call. */
        assert_int_equal(client_count(&client, from, "\"status\":\"failed\""), 1);
        assert_int_equal(client_count(&client, from, "\"belay/fate\":\"killed\""), 1);
    }
    client_end(&client);
}

static void A15_a_second_cancel_skips_the_grace(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--grace", "5s", "--provider", trap_script());
    client_new(&client);
    int64_t prompt = client_prompt(&client, "trap");
    client_await_trap();
    size_t from = client.count;
    client_cancel(&client);
    client_listen(&client, 300);
    assert_int_equal(client_count(&client, from, "\"stopReason\""), 0);
    client_await_trap(); /* all processes are in their grace period */
    client_cancel(&client);
    double ms = answer_ms(&client, prompt);
    assert_int_equal(client_trapped(), 0);
    assert_cancelled(&client, prompt);
    assert_true(figure_at_most("A15 second cancel in a grace of 5 s", ms, 100));
    client_end(&client);
}

static void without_a_grace_a_tool_is_killed_at_once(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--grace", "0", "--provider", trap_script());
    client_new(&client);
    int64_t prompt = client_prompt(&client, "trap");
    client_await_trap();
    client_cancel(&client);
    double ms = answer_ms(&client, prompt);
    assert_int_equal(client_trapped(), 0);
    assert_cancelled(&client, prompt);
    assert_true(figure_at_most("A6 cancel without a grace", ms, STOP_MS));
    client_end(&client);
}

static void A16_the_receipt_is_the_one_in_the_store(void **state BL_UNUSED)
{
    static struct run run;
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", trap_script());
    client_new(&client);
    int64_t prompt = client_prompt(&client, "trap");
    client_await_trap();
    client_cancel(&client);
    assert_cancelled(&client, prompt);
    const struct bl_json *receipt =
        bl_json_pointer(client_result(&client, prompt), BL_TEXT("/_meta/belay~1receipt"));
    assert_string_equal(stage_text_at(receipt, "/reason"), "user");
    assert_string_equal(stage_text_at(receipt, "/origin"), "acp");
    assert_int_equal(stage_size_at(receipt, "/units"), 1);
    assert_string_equal(stage_text_at(receipt, "/units/0/kind"), "tool");
    assert_string_equal(stage_text_at(receipt, "/units/0/name"), "bash");
    assert_string_equal(stage_text_at(receipt, "/units/0/fate"), "killed");
    assert_true(stage_number_at(receipt, "/units/0/processes") >= 4);
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, (size_t)1 << 20);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, receipt);
    runner_check_schema("receipt", stage_keep(bl_buffer_text(&text)));
    RUN(&run, "session", "export", client.session);
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_lines_with(run.out, stage_printf("{\"type\":\"receipt\",\"id\":\"%s\","
                                                            "\"receipt\":" BL_TEXT_FORMAT "}",
                                                            stage_text_at(receipt, "/id"),
                                                            BL_TEXT_ARG(bl_buffer_text(&text)))),
                     1);
    bl_buffer_done(&text);
    client_end(&client);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void A10_a_cancel_ends_an_open_question(void **state BL_UNUSED)
{
    struct client client;
    const char *script = stage_script(
        "replies:\n  - tools: [{name: bash, input: {command: touch ran}}]\n  - say: done\n");

    CLIENT_START(&client, "--permission-mode", "ask", "--provider", script);
    client_new(&client);
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "go");
    size_t question = client_await(&client, from, "session/request_permission");
    const struct bl_json *asked = client.lines[question].json;
    assert_string_equal(stage_text_at(asked, "/params/toolCall/kind"), "execute");
    assert_string_equal(stage_text_at(asked, "/params/toolCall/rawInput/command"), "touch ran");
    assert_string_equal(stage_text_at(asked, "/params/options/0/optionId"), "allow_once");
    client_cancel(&client);
    double ms = answer_ms(&client, prompt);
    assert_cancelled(&client, prompt);
    assert_true(figure_at_most("A10 cancel in an open question", ms, ANSWER_MS));
    size_t answer = client_answer_line(&client, prompt);
    size_t withdrawn = client_await(&client, from, "$/cancel_request");
    assert_true(withdrawn < answer);
    struct bl_text id = bl_json_text(bl_json_get(asked, BL_TEXT("id")));
    int64_t number = 0;
    bool named = bl_json_int64(bl_json_get(asked, BL_TEXT("id")), &number);
    if (named)
        assert_int_equal(stage_number_at(client.lines[withdrawn].json, "/params/requestId"),
                         number);
    else
        assert_string_equal(stage_text_at(client.lines[withdrawn].json, "/params/requestId"),
                            id.data);
    /* Too late. */
    client_write(&client,
                 named ? "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"outcome\":{\"outcome\":"
                         "\"selected\",\"optionId\":\"allow_once\"}}}\n"
                       : "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"result\":{\"outcome\":{\"outcome\":"
                         "\"selected\",\"optionId\":\"allow_once\"}}}\n",
                 named ? stage_printf("%lld", (long long)number) : id.data);
    assert_string_equal(client_talk(&client, "again"), "end_turn");
    assert_false(stage_exists(stage_path("work/ran")));
    client_end(&client);
}

/* The effect of each answer of the client. */
static void a_question_is_answered(void **state BL_UNUSED)
{
    static const struct {
        const char *outcome;
        bool runs;
    } cases[] = {
        {"{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"allow_once\"}}", true},
        {"{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"reject_once\"}}", false},
        {"{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"sudo\"}}", false},
        {"{\"outcome\":{\"outcome\":\"cancelled\"}}", false},
        {"{}", false},
    };
    struct client client;
    const char *script =
        stage_script("replies:\n"
                     "  - {when: go, tools: [{name: bash, input: {command: touch ran}}]}\n"
                     "  - say: done\nrepeat: true\n");

    CLIENT_START(&client, "--permission-mode", "ask", "--provider", script);
    client_new(&client);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        size_t from = client.count;
        unlink("ran");
        int64_t prompt = client_prompt(&client, "go");
        size_t asked = client_await(&client, from, "session/request_permission");
        struct bl_buffer id;
        struct bl_json_writer writer;
        bl_buffer_init(&id, 4096);
        bl_json_writer_init(&writer, &id);
        bl_json_write_value(&writer, bl_json_get(client.lines[asked].json, BL_TEXT("id")));
        client_write(&client, "{\"jsonrpc\":\"2.0\",\"id\":" BL_TEXT_FORMAT ",\"result\":%s}\n",
                     BL_TEXT_ARG(bl_buffer_text(&id)), cases[i].outcome);
        bl_buffer_done(&id);
        assert_string_equal(client_stop_reason(&client, prompt), "end_turn");
        assert_int_equal(stage_exists(stage_path("work/ran")), cases[i].runs);
    }
    client_end(&client);
}

/* ---- Every kind of cut ----------------------------------------------------------------------- */

static void A9_a_cancel_in_any_step_is_not_an_error(void **state BL_UNUSED)
{
    static const struct {
        const char *reply;
        const char *sign; /* that it is there; NULL: a little later */
    } cases[] = {
        {"wedge: before_first_token", NULL},
        {"wedge: after_first_token\n    say: part", "agent_message_chunk"},
        {"thinking: long\n    piece_delay: 10s\n    say: never", "agent_thought_chunk"},
        {"delay: 60s\n    say: late", NULL},
        {"error: {status: 529, times: 4, retry_after: 30s}", NULL},
        {"say: a b c d e f\n    pieces: 6\n    piece_delay: 5s", "agent_message_chunk"},
        {"tools: [{name: bash, input: {command: sleep 60}}]", "in_progress"},
        {"tools: [{name: bash, input: {command: sleep 60}}, {name: bash, input: {command: sleep "
         "61}}]",
         "in_progress"},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct client client;
        CLIENT_START(&client, YOLO, "--provider",
                     stage_script(stage_printf("replies:\n  - %s\n", cases[i].reply)));
        client_new(&client);
        size_t from = client.count;
        int64_t prompt = client_prompt(&client, "go");
        if (cases[i].sign != NULL)
            client_await(&client, from, cases[i].sign);
        else
            client_listen(&client, 60);
        client_cancel(&client);
        assert_cancelled(&client, prompt);
        client_end(&client);
    }
}

static void A11_a_cancel_without_a_turn_does_nothing(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script("replies: [{say: done}]\nrepeat: true"));
    client_new(&client);
    size_t from = client.count;
    client_cancel(&client);
    client_cancel(&client);
    client_notify(&client, "session/cancel", "{\"sessionId\":\"nobody\"}");
    client_notify(&client, "session/cancel", "{}");
    client_listen(&client, 50);
    assert_int_equal(client_count(&client, from, "error"), 0);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_cancel(&client);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_end(&client);
}

SUITE(stop, STAGED(A5_a_silent_model_is_cut_before_the_answer),
      STAGED(A6_nothing_of_a_tool_is_left_at_the_moment_of_the_answer),
      STAGED(A9_a_cancel_in_any_step_is_not_an_error), STAGED(A10_a_cancel_ends_an_open_question),
      STAGED(a_question_is_answered), STAGED(A11_a_cancel_without_a_turn_does_nothing),
      STAGED(A12_a_cancel_right_behind_its_prompt_asks_no_model),
      STAGED(A14_cancel_request_of_the_prompt_is_a_cancel),
      STAGED(A15_a_second_cancel_skips_the_grace), STAGED(without_a_grace_a_tool_is_killed_at_once),
      STAGED(A16_the_receipt_is_the_one_in_the_store));
