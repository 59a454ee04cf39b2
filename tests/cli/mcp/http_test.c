/* `belay mcp --http`. */
#include "client.h"
#include "figure.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FREE     "--yolo", "--sandbox", "off"
#define RUN_HEAD LINE_NOW "Mcp-Method: tools/call\r\nMcp-Name: run\r\n"
#define PROMPT   "\"prompt\":\"go\""
#define STOP_MS  50 /* promised for a tool that ends on SIGTERM */

static struct desk desk;

static int end_desk(void **state)
{
    desk_close(&desk);
    return stage_end(state);
}

/* Returns a script whose tool reports its start and ends when a file exists. */
static const char *patient_script(void)
{
    return stage_script(
        "replies:\n"
        "  - tools: [{name: bash, input: {command: 'setsid sleep 61 & until [ -e go "
        "]; do sleep 0.02; done; kill %1; echo went'}}]\n"
        "  - {say: all is done}\n");
}

/* belay, a warden, the shell, and a sleeping process in a session of its own. */
#define AT_LEAST 4u

static const char *ask_for_receipt(const char *run)
{
    const char *answer;

    assert_int_equal(
        desk_ask(&desk, "POST", LINE_NOW "Mcp-Method: tools/call\r\nMcp-Name: cancel\r\n",
                 word_call("9", "cancel", stage_printf("\"id\":\"%s\"", run), WORD_NOW), &answer),
        200);
    return answer;
}

static void M6_a_closed_stream_ends_the_run(void **state)
{
    unsigned long rounds = suite_rounds(2, 100);
    struct line line;

    (void)state;
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    for (unsigned long i = 0; i < rounds; i++) {
        line_send(&line, &desk, "POST", RUN_HEAD, word_call("1", "run", PROMPT, WORD_NOW));
        const char *run = word_run(line_await(&line, "run_"));
        held_await_at_least(&desk.held, AT_LEAST);
        double from_ms = word_now_ms();
        line_close(&line);
        held_await_count(&desk.held, 1);
        double took_ms = word_now_ms() - from_ms;
        assert_true(figure_at_most("M6 closed stream of 2026-07-28", took_ms, 10 + STOP_MS));
        const char *receipt = ask_for_receipt(run);
        word_check_receipt(receipt, "client_gone");
        assert_non_null(strstr(receipt, "response stream closed"));
    }
}

static void M6_lost_run_continues_and_is_resumed(void **state)
{
    struct line line;

    (void)state;
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    const char *head = desk_session(&desk);
    line_send(&line, &desk, "POST", head, word_call("1", "run", PROMPT, "\"progressToken\":3"));
    line_await(&line, "id: 1-1\ndata: ");
    held_await_at_least(&desk.held, AT_LEAST);
    line_close(&line);
    /* After another whole request it is still running. */
    assert_int_equal(desk_ask(&desk, "POST", head,
                              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":"
                              "\"ping\"}",
                              NULL),
                     200);
    held_await_at_least(&desk.held, AT_LEAST);
    close(open(stage_path("work/go"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const char *answer;
    assert_int_equal(
        desk_ask(&desk, "GET", stage_printf("%sLast-Event-ID: 1-1\r\n", head), "", &answer), 200);
    assert_non_null(strstr(answer, "\"id\":1,\"result\":{"));
    assert_non_null(strstr(answer, "all is done"));
    assert_null(strstr(answer, "id: 1-1\n"));
    held_await_count(&desk.held, 1);
}

static void a_deleted_session_leaves_nothing_behind(void **state)
{
    struct line line;

    (void)state;
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    const char *head = desk_session(&desk);
    line_send(&line, &desk, "POST", head, word_call("1", "run", PROMPT, ""));
    held_await_at_least(&desk.held, AT_LEAST);
    assert_int_equal(desk_ask(&desk, "DELETE", head, "", NULL), 204);
    assert_int_equal(held_count(&desk.held), 1);
    assert_int_equal(desk_ask(&desk, "DELETE", head, "", NULL), 404);
    line_close(&line);
}

static const char *ask_task(const char *method, const char *id)
{
    const char *answer;
    const char *head = stage_printf(LINE_NOW "Mcp-Method: %s\r\nMcp-Name: %s\r\n", method, id);

    assert_int_equal(desk_ask(&desk, "POST", head, word_task("4", method, id), &answer), 200);
    return answer;
}

static void M8_a_task_lives_without_a_connection_and_ends_by_its_cancel(void **state)
{
    const char *answer;

    (void)state;
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    assert_int_equal(
        desk_ask(&desk, "POST", RUN_HEAD, word_call("1", "run", PROMPT, WORD_TASKS), &answer), 200);
    assert_non_null(strstr(answer, "\"resultType\":\"task\""));
    const char *id = word_run(answer);
    held_await_at_least(&desk.held, AT_LEAST);
    assert_non_null(strstr(ask_task("tasks/get", id), "\"status\":\"working\""));
    ask_task("tasks/cancel", id);
    assert_int_equal(held_count(&desk.held), 1);
    answer = ask_task("tasks/get", id);
    assert_non_null(strstr(answer, "\"status\":\"cancelled\""));
    assert_non_null(strstr(answer, "\"survivors\":0"));
}

/* A minute is too long for a daily test. */
static void M7_a_session_without_a_connection_is_ended(void **state)
{
    struct line line;

    (void)state;
    suite_skip_unless_soak();
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    const char *head = desk_session(&desk);
    line_send(&line, &desk, "POST", head, word_call("1", "run", PROMPT, "\"progressToken\":3"));
    const char *run = word_run(line_await(&line, "run_"));
    held_await_at_least(&desk.held, AT_LEAST);
    line_close(&line);
    sleep(50);
    assert_true(held_count(&desk.held) >= AT_LEAST);
    held_await_count(&desk.held, 1);
    word_check_receipt(ask_for_receipt(run), "client_gone");
}

/* Changes the token in several ways: only the exact token is accepted. */
static void M12_a_token_that_is_nearly_right_is_refused(void **state)
{
    (void)state;
    DESK_OPEN_HTTP(&desk, "--provider", stage_script("replies: [{say: hello}]\nrepeat: true\n"));
    size_t size = strlen(desk.token);
    char *last = strdup(desk.token), *first = strdup(desk.token);
    last[size - 1] = last[size - 1] == '0' ? '1' : '0';
    first[0] = first[0] == '0' ? '1' : '0';
    const struct {
        const char *scheme;
        const char *token;
        int status;
    } rows[] = {
        {"Bearer ", desk.token, 200},
        {"Bearer ", last, 401},
        {"Bearer ", first, 401},
        {"Bearer ", stage_keep((struct bl_text){desk.token, size - 1}), 401},
        {"Bearer ", stage_keep((struct bl_text){desk.token, 8}), 401},
        {"Bearer ", stage_keep(bl_text_from(stage_printf("%s0", desk.token))), 401},
        {"Bearer ", stage_keep(bl_text_from(stage_printf("%s%s", desk.token, desk.token))), 401},
        {"Bearer ", "", 401},
        {"", desk.token, 401},
        {"Basic ", desk.token, 401},
    };
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const char *head = stage_keep(bl_text_from(
            stage_printf(RUN_HEAD "Authorization: %s%s\r\n", rows[i].scheme, rows[i].token)));
        int status = desk_ask(&desk, "POST", head, word_call("1", "run", PROMPT, WORD_NOW), NULL);
        if (status != rows[i].status)
            fail_msg("row %zu: %d", i, status);
    }
    free(last);
    free(first);
}

static void M12_unauthorized_requests_are_refused(void **state)
{
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {RUN_HEAD, 200},
        {RUN_HEAD "Authorization: none\r\n", 401},
        {RUN_HEAD "Authorization: Bearer 00\r\n", 401},
        {RUN_HEAD "Origin: https://evil.test\r\n", 403},
        {RUN_HEAD "Host: evil.test\r\n", 403},
        {RUN_HEAD "Host: evil.test\r\nOrigin: http://evil.test\r\nAuthorization: x\r\n", 403},
        {LINE_NOW "Mcp-Method: tools/list\r\nMcp-Name: run\r\n", 400},
        {LINE_NOW "Mcp-Method: tools/call\r\nMcp-Name: exec\r\n", 400},
        {"MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/call\r\nMcp-Name: run\r\n", 400},
    };
    static struct run run;

    (void)state;
    RUN(&run, "mcp", "--http", "--address", "192.0.2.1");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "mcp", "--http", "--address", "0.0.0.0");
    assert_int_equal(run.exit_code, 2);
    DESK_OPEN_HTTP(&desk, "--provider", stage_script("replies: [{say: hello}]\nrepeat: true\n"));
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const char *answer;
        int status =
            desk_ask(&desk, "POST", rows[i].head, word_call("1", "run", PROMPT, WORD_NOW), &answer);
        if (status != rows[i].status || (status == 400 && strstr(answer, "-32020") == NULL))
            fail_msg("row %zu: %s", i, answer);
    }
}

static void kill_leaves_nothing_behind(void **state)
{
    struct line line;

    (void)state;
    DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
    line_send(&line, &desk, "POST", RUN_HEAD, word_call("1", "run", PROMPT, WORD_NOW));
    held_await_at_least(&desk.held, AT_LEAST);
    double ms = held_kill(&desk.held);
    assert_true(figure_at_most("03 kill -9 of belay mcp", ms, 100));
    line_close(&line);
}

/* With a standalone request, a request of a session, and no request. */
static void signal_ends_all_work_in_order(void **state)
{
    static const int codes[][2] = {{SIGTERM, 143}, {SIGINT, 130}, {SIGINT, 130}};
    struct line line;

    (void)state;
    for (unsigned i = 0; i < BL_COUNT(codes); i++) {
        DESK_OPEN_HTTP(&desk, FREE, "--provider", patient_script());
        if (i < 2) {
            const char *head = i == 0 ? RUN_HEAD : desk_session(&desk);
            line_send(&line, &desk, "POST", head,
                      word_call("1", "run", PROMPT, i == 0 ? WORD_NOW : ""));
            held_await_at_least(&desk.held, AT_LEAST);
        }
        kill(desk.held.pid, codes[i][0]);
        held_wait(&desk.held);
        assert_int_equal(desk.held.exit_code, codes[i][1]);
        assert_int_equal(held_count(&desk.held), 0);
        if (i < 2)
            line_close(&line);
        desk_close(&desk);
    }
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_desk)
SUITE(mcp_http, AT_DESK(M6_a_closed_stream_ends_the_run),
      AT_DESK(M6_lost_run_continues_and_is_resumed),
      AT_DESK(a_deleted_session_leaves_nothing_behind),
      AT_DESK(M8_a_task_lives_without_a_connection_and_ends_by_its_cancel),
      AT_DESK(M7_a_session_without_a_connection_is_ended),
      AT_DESK(M12_unauthorized_requests_are_refused),
      AT_DESK(M12_a_token_that_is_nearly_right_is_refused), AT_DESK(kill_leaves_nothing_behind),
      AT_DESK(signal_ends_all_work_in_order));
