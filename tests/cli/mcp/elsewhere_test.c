/* Two servers on one store: one stops the work of the other. */
#include "client.h"
#include "process.h"

#include <signal.h>

#define FREE "--yolo", "--sandbox", "off"
static struct desk here, there;

static int end_desks(void **state)
{
    desk_close(&here);
    desk_close(&there);
    return stage_end(state);
}

static const char *script(void)
{
    return stage_script("replies:\n"
                        "  - tools: [{name: bash, input: {command: 'setsid sleep 61 & (trap \"\" "
                        "TERM; sleep 62; sleep 62) & (sleep 63 &) ; sleep 64; :'}}]\n"
                        "  - {say: never}\n");
}

static void open_both(void)
{
    const char *provider = script();

    DESK_OPEN(&there, FREE, "--provider", provider);
    DESK_OPEN(&here, FREE, "--provider", provider);
}

static const char *ask(struct desk *desk, const char *method, const char *task)
{
    static unsigned count;
    const char *id = stage_printf("\"t%u\"", ++count);

    desk_say(desk, word_task(id, method, task));
    return desk_await(desk, stage_printf("\"id\":%s", id));
}

/* Starts a call and returns its task. */
static const char *begin(const char *tool, const char *arguments)
{
    desk_say(&there, word_call("1", tool, arguments, WORD_TASKS));
    const struct bl_json *answer = stage_json(desk_await(&there, "\"id\":1"));

    assert_string_equal(stage_text_at(answer, "/result/resultType"), "task");
    return stage_text_at(answer, "/result/taskId");
}

/* `worker` is the process of a cell, or 0 for a run. Another process, for the next cell, may be
 * starting. */
static void check_cancelled(const char *task, pid_t worker)
{
    const struct bl_json *ours, *theirs;

    assert_non_null(strstr(ask(&here, "tasks/cancel", task), "\"result\":{"));
    size_t left = held_count(&there.held);
    bool lives = worker != 0 && process_lives(worker);
    ours = stage_json(ask(&here, "tasks/get", task));
    theirs = stage_json(ask(&there, "tasks/get", task));
    assert_false(lives);
    if (worker != 0)
        held_await_count(&there.held, 1);
    else
        assert_int_equal(left, 1);
    assert_string_equal(stage_text_at(ours, "/result/status"), "cancelled");
    assert_string_equal(stage_text_at(theirs, "/result/status"), "cancelled");
    const struct bl_json *receipt =
        bl_json_get(bl_json_pointer(ours, BL_TEXT("/result/_meta")), BL_TEXT("belay/receipt"));
    assert_string_equal(stage_text_at(receipt, "/reason"), "user");
    assert_string_equal(stage_text_at(receipt, "/origin"), "tasks/cancel");
    assert_int_equal(stage_number_at(receipt, "/survivors"), 0);
    /* A second cancel is acknowledged and changes nothing. */
    assert_non_null(strstr(ask(&here, "tasks/cancel", task), "\"result\":{"));
}

static void M8_a_task_of_another_process_is_stopped_before_the_acknowledgement(void **state)
{
    (void)state;
    open_both();
    const char *task = begin("run", "\"prompt\":\"go\"");
    held_await_at_least(&there.held, 6);
    check_cancelled(task, 0);
}

static void task_is_stopped_at_the_moment_of_its_creation(void **state)
{
    (void)state;
    open_both();
    check_cancelled(begin("run", "\"prompt\":\"go\""), 0);
}

static void M8_a_cell_of_another_process_is_stopped_before_the_acknowledgement(void **state)
{
    (void)state;
    open_both();
    const char *task = begin("exec", "\"source\":\"for(;;);\",\"yield_time_ms\":50");
    pid_t worker = 0;
    for (int i = 0; i < 3000 && worker == 0; i++) {
        usleep(20000);
        worker = process_busy(there.held.pid, "belay-cell-work");
    }
    assert_true(process_lives(worker));
    check_cancelled(task, worker);
}

static void the_tool_cancel_reaches_a_run_of_another_process(void **state)
{
    const char *first;

    (void)state;
    open_both();
    desk_greet(&there);
    desk_say(&there, word_call("1", "run", "\"prompt\":\"go\"", "\"progressToken\":\"p\""));
    const char *id = word_run(desk_await(&there, "notifications/progress"));
    held_await_at_least(&there.held, 6);
    desk_greet(&here);
    desk_say(&here,
             word_call("7", "cancel", stage_printf("\"id\":\"%s\",\"reason\":\"enough\"", id), ""));
    first = desk_await(&here, "\"id\":7");
    assert_int_equal(held_count(&there.held), 1);
    word_check_receipt(first, "user");
    assert_non_null(strstr(first, "mcp cancel: enough"));
    /* From now on both servers give the same answer. */
    desk_await(&there, "\"id\":1");
    for (int i = 0; i < 3; i++) {
        struct desk *desk = i == 0 ? &there : &here;
        desk_say(desk, word_call("7", "cancel", stage_printf("\"id\":\"%s\"", id), ""));
        assert_string_equal(desk_await(desk, "\"id\":7"), first);
    }
}

/* The name of a session can be guessed; this session belongs to another client. */
static void work_of_other_clients_is_not_stopped_by_name(void **state)
{
    static struct run run;
    static struct held held;

    (void)state;
    START(&held, "run", "hi", "--session", "nightly", FREE, "--output-format", "stream-json",
          "--provider", script());
    held_await(&held, "tool_started");
    DESK_OPEN(&here, FREE, "--provider", script());
    desk_greet(&here);
    desk_say(&here, word_call("1", "cancel", "\"id\":\"nightly\"", ""));
    assert_non_null(strstr(desk_await(&here, "\"id\":1"), "\"isError\":true"));
    RUN(&run, "ps", "--json");
    assert_non_null(strstr(run.out, "\"phase\":\"tool bash\""));
    RUN(&run, "cancel", "nightly", "--now");
    held_end(&held);
}

static void a_process_that_does_not_answer_is_named(void **state)
{
    (void)state;
    open_both();
    const char *task = begin("run", "\"prompt\":\"go\"");
    held_await_at_least(&there.held, 6);
    kill(there.held.pid, SIGSTOP);
    const char *answer = ask(&here, "tasks/cancel", task);
    assert_non_null(strstr(answer, "\"code\":-32603"));
    assert_non_null(
        strstr(answer, stage_printf("process %d does not answer", (int)there.held.pid)));
    assert_non_null(strstr(ask(&here, "tasks/get", task), "\"status\":\"working\""));
    kill(there.held.pid, SIGCONT);
    check_cancelled(task, 0);
}

#define AT_DESKS(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_desks)
SUITE(mcp_elsewhere, AT_DESKS(M8_a_task_of_another_process_is_stopped_before_the_acknowledgement),
      AT_DESKS(task_is_stopped_at_the_moment_of_its_creation),
      AT_DESKS(M8_a_cell_of_another_process_is_stopped_before_the_acknowledgement),
      AT_DESKS(the_tool_cancel_reaches_a_run_of_another_process),
      AT_DESKS(work_of_other_clients_is_not_stopped_by_name),
      AT_DESKS(a_process_that_does_not_answer_is_named));
