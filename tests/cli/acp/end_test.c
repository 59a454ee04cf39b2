/* The end of a client, of belay, of a deadline: what each of them means for the turn. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "client.h"

#define YOLO "--permission-mode", "yolo"

static const char *trap_script(void)
{
    return stage_script(stage_printf("replies:\n"
                                     "  - when: trap\n"
                                     "    tools: [{name: bash, input: {command: \"%s\"}}]\n"
                                     "  - say: done\n"
                                     "repeat: true\n",
                                     client_trap()));
}

static const char *exported(const char *session)
{
    static struct run run;
    RUN(&run, "session", "export", session);
    assert_int_equal(run.exit_code, 0);
    return run.out;
}

static void A17_the_end_of_the_client_is_the_end_of_all(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", trap_script());
    const char *session = client_new(&client);
    client_prompt(&client, "trap");
    client_await_trap();
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 130);
    double ms = (double)(client_now_ns() - client.sent_ns) / 1e6;
    assert_int_equal(client_trapped(), 0);
    client_check_ms(ms, 250);
    client_end(&client);
    assert_true(stage_lines_with(exported(session), "\"reason\":\"client_gone\"") > 0);
}

static void A17_a_client_that_goes_when_nothing_runs(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script("replies: [{say: done}]"));
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 0);
    client_end(&client);
    CLIENT_START(&client, YOLO, "--provider", stage_script("replies: [{say: done}]"));
    client_new(&client);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 0);
    client_end(&client);
}

static void A17_a_client_that_closes_its_reading_end(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", trap_script());
    client_new(&client);
    client_prompt(&client, "trap");
    client_await_trap();
    close(client.from);
    client.from = open("/dev/null", O_RDONLY | O_CLOEXEC);
    client.sent_ns = client_now_ns();
    assert_int_equal(client_exit(&client), 130);
    assert_int_equal(client_trapped(), 0);
    client_end(&client);
}

static void A18_belay_is_killed_and_nothing_is_left(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", trap_script());
    const char *session = client_new(&client);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_prompt(&client, "trap");
    client_await_trap();
    kill(client.held.pid, SIGKILL);
    double seconds = held_await_count(&client.held, 0);
    assert_int_equal(client_trapped(), 0);
    client_check_ms(seconds * 1e3, 100);
    client_end(&client);
    /* The next one finds the session at the end of its first turn. */
    CLIENT_START(&client, YOLO, "--provider", trap_script());
    size_t from = client.count;
    int64_t load = client_ask(&client, "session/load",
                              "{\"sessionId\":\"%s\",\"cwd\":\"%s\",\"mcpServers\":[]}", session,
                              stage_path("work"));
    client_result(&client, load);
    assert_int_equal(client_count(&client, from, "user_message_chunk"), 1);
    client.session = session;
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_end(&client);
}

static void sigterm_stops_all(void **state BL_UNUSED)
{
    struct client client;

    HELD_NEEDS_SIGNALS;
    CLIENT_START(&client, YOLO, "--provider", trap_script());
    client_new(&client);
    int64_t prompt = client_prompt(&client, "trap");
    client_await_trap();
    kill(client.held.pid, SIGTERM);
    assert_string_equal(client_stop_reason(&client, prompt), "cancelled");
    assert_int_equal(client_exit(&client), 143);
    assert_int_equal(client_trapped(), 0);
    client_end(&client);
}

static void A21_each_end_of_a_turn_has_its_answer(void **state BL_UNUSED)
{
    static const struct {
        const char *script;
        const char *option, *value;
        const char *reason; /* NULL: an error */
        int64_t code;
    } cases[] = {
        {"replies: [{say: done}]", NULL, NULL, "end_turn", 0},
        {"replies: [{say: cut off, stop: max_tokens}]", NULL, NULL, "max_tokens", 0},
        {"replies: [{say: no, stop: refusal}]", NULL, NULL, "refusal", 0},
        {"replies: [{tools: [{name: ls, input: {path: .}}]}]\nrepeat: true", "--max-steps", "2",
         "max_turn_requests", 0},
        {"replies: [{say: much}]", "--max-budget-tokens", "1", "max_tokens", 0},
        {"replies: [{say: one}]", "--max-session-turns", "0", "max_turn_requests", 0},
        {"replies: [{error: {status: 401}}]", NULL, NULL, NULL, -32000},
        {"replies: [{error: {status: 400}}]", NULL, NULL, NULL, -32603},
        {"replies: [{when: never, say: x}]", NULL, NULL, NULL, -32603},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct client client;
        CLIENT_START(&client, YOLO, "--provider", stage_script(cases[i].script), cases[i].option,
                     cases[i].value);
        client_new(&client);
        int64_t prompt = client_prompt(&client, "go");
        if (cases[i].reason != NULL)
            assert_string_equal(client_stop_reason(&client, prompt), cases[i].reason);
        else
            assert_int_equal(client_refusal(&client, prompt), cases[i].code);
        client_end(&client);
    }
}

static void A22_a_deadline_is_an_error_unless_the_client_had_asked(void **state BL_UNUSED)
{
    struct client client;
    const char *script = stage_script("replies: [{wedge: before_first_token}]\nrepeat: true");

    CLIENT_START(&client, YOLO, "--provider", script, "--timeout", "300ms");
    client_new(&client);
    int64_t prompt = client_prompt(&client, "go");
    uint64_t from_ns = client.sent_ns;
    assert_int_equal(client_refusal(&client, prompt), -32800);
    const struct bl_json *answer = client_answer(&client, prompt);
    assert_string_equal(stage_text_at(answer, "/error/data/stop_reason"), "timeout");
    assert_int_equal(stage_number_at(answer, "/error/data/receipt/survivors"), 0);
    size_t line = client_answer_line(&client, prompt);
    double ms = (double)(client.lines[line].at_ns - from_ns) / 1e6;
    assert_true(ms >= 300);
    client_check_ms(ms, 350);
    prompt = client_prompt(&client, "go");
    client_listen(&client, 100);
    client_cancel(&client);
    assert_string_equal(client_stop_reason(&client, prompt), "cancelled");
    client_end(&client);
}

SUITE(end, STAGED(A17_the_end_of_the_client_is_the_end_of_all),
      STAGED(A17_a_client_that_goes_when_nothing_runs),
      STAGED(A17_a_client_that_closes_its_reading_end),
      STAGED(A18_belay_is_killed_and_nothing_is_left), STAGED(sigterm_stops_all),
      STAGED(A21_each_end_of_a_turn_has_its_answer),
      STAGED(A22_a_deadline_is_an_error_unless_the_client_had_asked));
