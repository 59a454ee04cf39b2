/* `belay hold`, `run`, `cancel` and `watch` of work that leaves processes running. */
#include <signal.h>
#include <unistd.h>

#include "left.h"

static struct held held, other, watch;
static struct run run;

static int program_end(void **state)
{
    held_end(&held);
    held_end(&other);
    held_end(&watch);
    return left_end(state);
}

#define PROGRAM(test) cmocka_unit_test_setup_teardown(test, left_begin, program_end)

static void program_terminate(struct held *one)
{
    held_await(one, "ready");
    kill(one->pid, SIGTERM);
}

static void hold_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    HOLD(&held, "--container", "subreaper", "--json", "--", "sh", "-c", left_command());
    HOLD(&other, "--container", "subreaper", "--", "sh", "-c", left_command());
    program_terminate(&held);
    program_terminate(&other);
    held_wait(&held);
    held_wait(&other);
    const struct bl_json *answer = stage_json(held_last_line(&held));
    runner_check_schema("hold", held_last_line(&held));
    assert_int_equal(stage_number_at(answer, "/end/survivors"), LEFT_COUNT);
    assert_string_equal(stage_text_at(answer, "/end/how"), "stopped");
    left_check(bl_json_get(answer, BL_TEXT("receipt")));
    assert_non_null(strstr(held_err(&other), LEFT_TEXT "\n"));
    /* A stop that failed, whatever its reason. */
    assert_int_equal(stage_number_at(answer, "/exit_code"), 125);
    assert_int_equal(held.exit_code, 125);
    assert_int_equal(other.exit_code, 125);
}

/* Returns a script of short calls, so that a watcher gets events, until the file `go` exists. */
static const char *program_patient_script(void)
{
    return stage_script(
        stage_printf("replies:\n"
                     "  - tools: [{name: bash, input: {command: 'if [ -e go ]; then "
                     "exec %s; fi; sleep 0.05'}}]\n"
                     "repeat: true\n",
                     left_command()));
}

static void program_start_run(struct held *one, const char *format)
{
    START(one, "run", "hi", "--session", "s", "--output-format", format, "--provider",
          program_patient_script(), LEFT_OPTIONS);
    held_await_at_least(one, 2);
    do {
        RUN(&run, "ps", "--json");
    } while (strstr(run.out, "\"session\":\"s\"") == NULL);
}

/* Waits until all processes of the run have the mark, including belay, the warden and the shell. */
static void program_go(struct held *one)
{
    stage_file("go", "");
    held_await_at_least(one, 3 + LEFT_COUNT);
}

/* One stop, as reported in every place. */
static void cancelled_run_reports_its_survivors_everywhere(void **state BL_UNUSED)
{
    left_require();
    program_start_run(&held, "stream-json");
    START(&watch, "watch", "s", "--json");
    held_await(&watch, "tool_ended");
    program_go(&held);
    RUN(&run, "cancel", "s", "--json");
    const struct bl_json *cancelled = stage_answer(&run, "cancel", 1);
    left_check(bl_json_get(cancelled, BL_TEXT("receipt")));
    held_wait(&held);
    const struct bl_json *result = stage_result(&held, 1);
    assert_string_equal(stage_text_at(result, "/final_stop_reason"), "cancelled");
    left_check(bl_json_get(result, BL_TEXT("receipt")));
    held_wait(&watch);
    assert_true(stage_lines_with(stage_output(&watch), "\"survivors\":2,\"background\"") > 0);
    assert_int_equal(stage_lines_with(stage_output(&watch), "\"survivors\":0"), 0);
    /* From the store, every time. */
    left_check_store("s", "user");
    for (int i = 0; i < 2; i++) {
        RUN(&run, "cancel", "s");
        assert_int_equal(run.exit_code, 1);
        assert_non_null(strstr(run.out, " " LEFT_TEXT "\n"));
    }
    RUN(&run, "session", "show", "s", "--json");
    const struct bl_json *shown = stage_answer(&run, "session-show", 0);
    left_check(bl_json_pointer(shown, BL_TEXT("/attempts/0/receipt")));
}

static void a_run_that_is_terminated_says_in_text_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    program_start_run(&held, "text");
    START(&watch, "watch", "s");
    held_await(&watch, "tool bash");
    program_go(&held);
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 1);
    assert_non_null(strstr(held_err(&held), " " LEFT_TEXT "\n"));
    held_wait(&watch);
    assert_non_null(strstr(held_out(&watch), LEFT_TEXT));
    left_check_store("s", "signal");
}

/* A time limit of a call does not stop the run: the model gets the result, and the run continues.
 */
static void timed_out_call_reports_its_survivors_to_the_model(void **state BL_UNUSED)
{
    left_require();
    RUN(&run, "run", "hi", "--session", "s", "--json", "--provider",
        stage_script(stage_printf("replies:\n  - tools: [{name: bash, input: {timeout_ms: 500, "
                                  "command: '%s'}}]\n  - say: done\n",
                                  left_command())),
        LEFT_OPTIONS);
    stage_answer(&run, "run", 0);
    RUN(&run, "session", "export", "s");
    assert_non_null(strstr(run.out, "timed out after 500 ms\\ncould not be stopped: 2 processes"));
}

/* The warden records its proof; the next belay reads it. */
static void after_kill_9_the_next_run_reports_the_survivors(void **state BL_UNUSED)
{
    left_require();
    program_start_run(&held, "stream-json");
    program_go(&held);
    kill(held.pid, SIGKILL);
    held_wait(&held);
    held_await_count(&held, LEFT_COUNT);
    RUN(&run, "run", "hi", "--session", "s", "--provider", stage_script("replies: [{say: done}]\n"),
        LEFT_OPTIONS);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "was cut off and is not in the session. " LEFT_TEXT "\n"));
    left_check_store("s", "owner_died");
}

SUITE(program, PROGRAM(hold_says_how_many_are_left),
      PROGRAM(cancelled_run_reports_its_survivors_everywhere),
      PROGRAM(a_run_that_is_terminated_says_in_text_how_many_are_left),
      PROGRAM(timed_out_call_reports_its_survivors_to_the_model),
      PROGRAM(after_kill_9_the_next_run_reports_the_survivors));
