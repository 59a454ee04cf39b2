#include "stage.h"

#include <signal.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void nothing_runs_at_first(void **state)
{
    (void)state;
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "Nothing runs.\n");
    RUN(&run, "ps", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "ps", 0), "/activities"), 0);
    RUN(&run, "ps", "x", "--json");
    stage_answer(&run, "ps", 2);
}

static void a_run_and_its_call_are_listed_while_they_run(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--session", "s", "--timeout", "1h", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies: [{tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep "
                       "600'}}]}]\n"));
    held_await(&held, "ready");
    RUN(&run, "ps", "--json");
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    assert_int_equal(stage_size_at(answer, "/activities"), 2);
    assert_string_equal(stage_text_at(answer, "/activities/0/kind"), "run");
    assert_string_equal(stage_text_at(answer, "/activities/0/session"), "s");
    assert_string_equal(stage_text_at(answer, "/activities/0/phase"), "tool bash");
    assert_int_equal(stage_number_at(answer, "/activities/0/pid"), held.pid);
    assert_in_range(stage_number_at(answer, "/activities/0/deadline_left_ms"), 3000000, 3600000);
    assert_string_equal(stage_text_at(answer, "/activities/1/kind"), "call");
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "ID ", 3);
    assert_int_equal(stage_lines_with(run.out, "tool bash"), 2);
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "ps");
    assert_string_equal(run.out, "Nothing runs.\n");
}

SUITE(ps, HELD(nothing_runs_at_first), HELD(a_run_and_its_call_are_listed_while_they_run));
