/* `belay mcp` on standard streams. */
#include "client.h"
#include "figure.h"

#include <signal.h>
#include <unistd.h>

#define FREE "--yolo", "--sandbox", "off"

static struct desk desk;

static int end_desk(void **state)
{
    desk_close(&desk);
    return stage_end(state);
}

/* Returns a script with a tool that detaches itself and another that ignores SIGTERM. */
static const char *stubborn_script(void)
{
    return stage_script("replies:\n"
                        "  - tools: [{name: bash, input: {command: 'setsid sleep 61 & (trap \"\" "
                        "TERM; sleep 62; sleep 62) & (sleep 63 &) ; sleep 64; :'}}]\n"
                        "  - {say: never}\n");
}

/* belay, a warden, the shell, four sleeping processes, and the shell that ignores SIGTERM. */
#define AT_LEAST 8u

static void M5_a_cancelled_run_is_quiet_and_gets_no_response(void **state)
{
    unsigned long rounds = suite_rounds(2, 100);
    unsigned silence_ms = (unsigned)suite_rounds(200, 2000);

    (void)state;
    DESK_OPEN(&desk, FREE, "--provider", stubborn_script());
    desk_greet(&desk);
    for (unsigned long i = 0; i < rounds; i++) {
        const char *id = stage_printf("%lu", i + 1);
        desk_say(&desk, word_call(id, "run", "\"prompt\":\"go\"", "\"progressToken\":\"p\""));
        const char *run = word_run(desk_await(&desk, "notifications/progress"));
        held_await_at_least(&desk.held, AT_LEAST);
        double from_ms = word_now_ms();
        desk_say(&desk, stage_printf("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                     "\"params\":{\"requestId\":%s}}",
                                     id));
        held_await_count(&desk.held, 1);
        double took_ms = word_now_ms() - from_ms;
        assert_true(figure_between("M5 notifications/cancelled", took_ms, 200, 250));
        const char *line;
        while ((line = desk_line(&desk, silence_ms)) != NULL)
            assert_null(strstr(line, "\"id\""));
        desk_say(&desk, word_call("\"c\"", "cancel", stage_printf("\"id\":\"%s\"", run), ""));
        word_check_receipt(desk_await(&desk, "\"id\":\"c\""), "user");
    }
}

static void M13_a_wider_mode_than_the_servers_is_refused(void **state)
{
    const char *mark = stage_path("work/mark");

    (void)state;
    DESK_OPEN(&desk, "--permission-mode", "read-only", "--provider",
              stage_script("replies: [{tools: [{name: bash, input: {command: 'touch mark'}}]}, "
                           "{say: done}]\nrepeat: true\n"));
    desk_greet(&desk);
    desk_say(&desk, word_call("1", "run", "\"prompt\":\"go\",\"permission_mode\":\"yolo\"", ""));
    const char *answer = desk_await(&desk, "\"id\":1");
    assert_true(strstr(answer, "\"error\":{") != NULL ||
                strstr(answer, "\"isError\":true") != NULL);
    assert_non_null(strstr(answer, "yolo"));
    /* The server's own mode is accepted, and does not allow writing. */
    desk_say(&desk, word_call("2", "run", "\"prompt\":\"go\"", ""));
    desk_await(&desk, "\"id\":2");
    assert_false(stage_exists(mark));
    close(desk.in);
    desk.in = -1;
    held_wait(&desk.held);
    assert_int_equal(desk.held.exit_code, 0);
}

static void the_end_of_input_stops_all(void **state)
{
    (void)state;
    DESK_OPEN(&desk, FREE, "--provider", stubborn_script());
    desk_greet(&desk);
    desk_say(&desk, word_call("1", "run", "\"prompt\":\"go\"", ""));
    held_await_at_least(&desk.held, AT_LEAST);
    double from_ms = word_now_ms();
    close(desk.in);
    desk.in = -1;
    held_wait(&desk.held);
    double took_ms = word_now_ms() - from_ms;
    assert_int_equal(held_count(&desk.held), 0);
    assert_int_equal(desk.held.exit_code, 130);
    assert_true(figure_between("M5 end of standard input", took_ms, 200, 250));
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_desk)
SUITE(mcp_stdio, AT_DESK(M5_a_cancelled_run_is_quiet_and_gets_no_response),
      AT_DESK(M13_a_wider_mode_than_the_servers_is_refused), AT_DESK(the_end_of_input_stops_all));
