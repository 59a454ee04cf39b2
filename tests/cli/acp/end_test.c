/* The end of a client, of belay and of a deadline: the effect of each on the turn. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "figure.h"

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
    assert_true(figure_between("A17 end of file in a tool that ignores TERM", ms, 200, 250));
    client_end(&client);
    assert_true(stage_lines_with(exported(session), "\"reason\":\"client_gone\"") > 0);
}

/* Opens a session with an MCP server that ignores requests to exit. */
static void new_with_server(struct client *client)
{
    const char *root = getenv("BELAY_BUILD_ROOT");
    int64_t id = client_ask(client, "session/new",
                            "{\"cwd\":\"%s\",\"mcpServers\":[{\"name\":\"guest\",\"command\":"
                            "\"%s/tests/tool/mcp-guest\",\"args\":[\"--stubborn\",\"yes\"],"
                            "\"env\":[]}]}",
                            stage_path("work"), root != NULL ? root : ".");
    client->session = stage_text_at(client_result(client, id), "/sessionId");
}

/* Several sessions, each with a background job and a server, and one with a tool as well: stopped
 * one after another, they would need one grace period per job and one for the tool. */
static void A17_one_grace_period_covers_everything_stopped(void **state BL_UNUSED)
{
    static const double grace_ms = 2000;
    struct client client;

    CLIENT_START(&client, YOLO, "--grace", "2s", "--provider",
                 stage_script(stage_printf(
                     "replies:\n"
                     "  - when: trap\n"
                     "    tools: [{name: bash, input: {command: \"%s\"}}]\n"
                     "  - when: job\n"
                     "    tools: [{name: bash, input: {command: \"trap '' TERM; sleep 300; true\","
                     " background: true}}]\n"
                     "  - say: done\n"
                     "repeat: true\n",
                     client_trap())));
    for (int i = 0; i < 3; i++) {
        new_with_server(&client);
        assert_string_equal(client_talk(&client, "job"), "end_turn");
    }
    client_prompt(&client, "trap");
    client_await_trap();
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 130);
    double ms = (double)(client_now_ns() - client.sent_ns) / 1e6;
    assert_int_equal(client_trapped(), 0);
    assert_true(ms < 3 * grace_ms);
    assert_true(figure_between("A17 one grace for three sessions", ms, grace_ms, grace_ms + 50));
    client_end(&client);
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

/* Kills the client and belay at the same time, so that neither notices the end of the other. */
static void kill_both(struct client *client)
{
    pid_t holder = fork();

    assert_true(holder >= 0);
    while (holder == 0)
        pause();
    /* From here on, that process is the client: no other process has the pipes. */
    client_close_input(client);
    close(client->from);
    client->from = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kill(client->held.pid, SIGSTOP);
    kill(holder, SIGKILL);
    kill(client->held.pid, SIGKILL);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static void A18_client_and_belay_are_killed_and_nothing_is_left(void **state BL_UNUSED)
{
    unsigned long rounds = suite_rounds(1, 20);

    for (unsigned long i = 0; i < rounds; i++) {
        struct client client;
        CLIENT_START(&client, YOLO, "--provider", trap_script());
        const char *session = client_new(&client);
        assert_string_equal(client_talk(&client, "hello"), "end_turn");
        client_prompt(&client, "trap");
        client_await_trap();
        kill_both(&client);
        double seconds = held_await_count(&client.held, 0);
        assert_int_equal(client_trapped(), 0);
        assert_true(figure_at_most("A18 kill -9 of client and belay", seconds * 1e3, 100));
        client_end(&client);
        /* The next process finds the session at the end of its first turn. */
        CLIENT_START(&client, YOLO, "--provider", trap_script());
        size_t from = client.count;
        int64_t load = client_ask(&client, "session/load",
                                  "{\"sessionId\":\"%s\",\"cwd\":\"%s\",\"mcpServers\":[]}",
                                  session, stage_path("work"));
        client_result(&client, load);
        assert_int_equal(client_count(&client, from, "user_message_chunk"), 1);
        client.session = session;
        assert_string_equal(client_talk(&client, "hello"), "end_turn");
        client_end(&client);
    }
}

static void sigterm_stops_all(void **state BL_UNUSED)
{
    struct client client;

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
        const char *reason; /* NULL for an error */
        int64_t code;
        const char *kind;
    } cases[] = {
        {"replies: [{say: done}]", NULL, NULL, "end_turn", 0, NULL},
        {"replies: [{say: cut off, stop: max_tokens}]", NULL, NULL, "max_tokens", 0, NULL},
        {"replies: [{say: no, stop: refusal}]", NULL, NULL, "refusal", 0, NULL},
        {"replies: [{tools: [{name: ls, input: {path: .}}]}]\nrepeat: true", "--max-steps", "2",
         "max_turn_requests", 0, NULL},
        {"replies: [{say: much}]", "--max-budget-tokens", "1", "max_tokens", 0, NULL},
        {"replies: [{say: one}]", "--max-session-turns", "0", "max_turn_requests", 0, NULL},
        {"replies: [{error: {status: 401}}]", NULL, NULL, NULL, -32000, "auth"},
        {"replies: [{error: {status: 400}}]", NULL, NULL, NULL, -32603, "provider"},
        {"replies: [{when: never, say: x}]", NULL, NULL, NULL, -32603, "provider"},
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
        /* Ours, whole. */
        if (cases[i].reason == NULL) {
            const struct bl_json *data =
                bl_json_pointer(client_answer(&client, prompt), BL_TEXT("/error/data"));
            assert_string_equal(stage_text_at(data, "/kind"), cases[i].kind);
            assert_true(strlen(stage_text_at(data, "/message")) > 0);
        }
        client_end(&client);
    }
}

#define DEADLINE_MS 300
#define CANCEL_MS   200

static void A22_a_deadline_is_an_error(void **state BL_UNUSED)
{
    struct client client;
    const char *script = stage_script("replies: [{wedge: before_first_token}]\nrepeat: true");

    CLIENT_START(&client, YOLO, "--provider", script, "--timeout",
                 stage_printf("%dms", DEADLINE_MS));
    client_new(&client);
    int64_t prompt = client_prompt(&client, "go");
    assert_int_equal(client_refusal(&client, prompt), -32800);
    const struct bl_json *answer = client_answer(&client, prompt);
    assert_string_equal(stage_text_at(answer, "/error/data/stop_reason"), "timeout");
    assert_int_equal(stage_number_at(answer, "/error/data/receipt/survivors"), 0);
    size_t line = client_answer_line(&client, prompt);
    double ms = (double)(client.lines[line].at_ns - client.sent_ns) / 1e6;
    assert_true(figure_between("A22 deadline of a prompt", ms, DEADLINE_MS, DEADLINE_MS + 50));
    client_end(&client);
}

/* Cancels a prompt after `sign` and before its deadline, and checks the answer and its time.
 * Returns false if the machine was too slow. */
static bool cancel_before_deadline(const char *script, const char *sign, unsigned scale,
                                   double *ret_ms)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", script, "--grace", "60s", "--timeout",
                 stage_printf("%ums", DEADLINE_MS * scale));
    client_new(&client);
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "go");
    uint64_t from_ns = client.sent_ns;
    client_listen(&client, CANCEL_MS * scale);
    bool seen = sign == NULL || client_count(&client, from, sign) > 0;
    client_cancel(&client);
    bool in_time = (double)(client.sent_ns - from_ns) / 1e6 < (DEADLINE_MS - 50) * scale;
    size_t line = client_answer_line(&client, prompt);
    if (in_time)
        assert_string_equal(client_stop_reason(&client, prompt), "cancelled");
    *ret_ms = (double)(client.lines[line].at_ns - from_ns) / 1e6;
    client_end(&client);
    return in_time && seen;
}

static void A22_a_cancel_before_the_deadline_is_a_cancel(void **state BL_UNUSED)
{
    const char *script = stage_script("replies: [{wedge: before_first_token}]");
    unsigned scale = 1;
    double ms;

    while (!cancel_before_deadline(script, NULL, scale, &ms))
        assert_in_range(scale *= 2, 1, 16);
    assert_true(ms >= CANCEL_MS * scale);
}

/* The deadline passes during the grace period of the tool. */
static void A22_cancel_remains_one_when_the_tool_ends_after_the_deadline(void **state BL_UNUSED)
{
    unsigned scale = 1;
    double ms;

    for (;; scale *= 2) {
        const char *script = stage_script(
            stage_printf("replies: [{tools: [{name: bash, input: {command: \"trap 'sleep %g; "
                         "exit' TERM; while :; do sleep 0.02; done\"}}]}]\n",
                         0.3 * scale));
        assert_in_range(scale, 1, 16);
        if (cancel_before_deadline(script, "in_progress", scale, &ms))
            break;
    }
    assert_true(ms > DEADLINE_MS * scale);
}

SUITE(end, STAGED(A17_the_end_of_the_client_is_the_end_of_all),
      STAGED(A17_one_grace_period_covers_everything_stopped),
      STAGED(A17_a_client_that_goes_when_nothing_runs),
      STAGED(A17_a_client_that_closes_its_reading_end),
      STAGED(A18_client_and_belay_are_killed_and_nothing_is_left), STAGED(sigterm_stops_all),
      STAGED(A21_each_end_of_a_turn_has_its_answer), STAGED(A22_a_deadline_is_an_error),
      STAGED(A22_a_cancel_before_the_deadline_is_a_cancel),
      STAGED(A22_cancel_remains_one_when_the_tool_ends_after_the_deadline));
