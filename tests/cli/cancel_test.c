#include "stage.h"

#include <stdio.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static void start(void)
{
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep 600'}}]\n"
                       "  - say: done\n"));
    held_await(&held, "ready");
}

static void a_run_is_stopped_by_its_session(void **state)
{
    (void)state;
    start();
    RUN(&run, "cancel", "nightly", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 0);
    assert_string_equal(stage_text_at(answer, "/id"), "nightly");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "user");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    held_wait(&held);
    const struct bl_json *result = stage_result(&held, 130);
    assert_string_equal(stage_text_at(result, "/final_stop_reason"), "cancelled");
    assert_string_equal(stage_text_at(result, "/receipt/id"), stage_text_at(answer, "/receipt/id"));
    assert_int_equal(held_count(&held), 0);
}

static void a_run_is_stopped_by_its_own_id(void **state)
{
    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/0/id");
    RUN(&run, "cancel", id);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "Stopped in ", 11);
    assert_non_null(strstr(run.out, "process"));
    assert_non_null(strstr(run.out, "Nothing left running.\n"));
    held_wait(&held);
    stage_result(&held, 130);
}

static void a_call_is_stopped_and_its_run_goes_on(void **state)
{
    (void)state;
    start();
    RUN(&run, "ps", "--json");
    const char *id = stage_text_at(stage_answer(&run, "ps", 0), "/activities/1/id");
    RUN(&run, "cancel", id, "--json");
    stage_answer(&run, "cancel", 0);
    held_wait(&held);
    const struct bl_json *result = stage_result(&held, 0);
    assert_string_equal(stage_text_at(result, "/turns/0/output"), "done");
    assert_int_equal(held_count(&held), 0);
}

static void what_does_not_run_is_exit_code_1_with_a_suggestion(void **state)
{
    (void)state;
    RUN(&run, "cancel", "nightly");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay cancel: nothing with the id 'nightly' runs; nothing runs; "
                                 "maybe it has just ended\n");
    start();
    RUN(&run, "cancel", "nihgtly");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'nightly'?"));
    RUN(&run, "cancel", "something-else", "--json");
    const struct bl_json *answer = stage_answer(&run, "cancel", 1);
    assert_string_equal(stage_text_at(answer, "/error/hint"), "'belay ps' lists what runs");
}

static void an_id_is_needed(void **state)
{
    static char long_id[10001];

    (void)state;
    memset(long_id, 'a', sizeof long_id - 1);
    RUN(&run, "cancel", "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", "", "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", long_id, "--json");
    stage_answer(&run, "cancel", 2);
    RUN(&run, "cancel", "a", "b", "--json");
    stage_answer(&run, "cancel", 2);
}

SUITE(cancel, HELD(a_run_is_stopped_by_its_session), HELD(a_run_is_stopped_by_its_own_id),
      HELD(a_call_is_stopped_and_its_run_goes_on),
      HELD(what_does_not_run_is_exit_code_1_with_a_suggestion), HELD(an_id_is_needed));
