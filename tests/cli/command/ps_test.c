#include "figure.h"
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

static void list_is_empty_at_first(void **state)
{
    (void)state;
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "No running work.\n");
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
    assert_string_equal(stage_text_at(answer, "/activities/1/name"),
                        stage_printf("%s/%s", stage_text_at(answer, "/activities/0/id"),
                                     stage_text_at(answer, "/activities/1/id")));
    assert_string_equal(stage_text_at(answer, "/processes/0/state"), "answering");
    assert_int_equal(stage_size_at(answer, "/processes/0/left"), 0);
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "ID ", 3);
    assert_int_equal(stage_lines_with(run.out, "tool bash"), 2);
}

/* Starts a run that only waits. */
static void start(struct held *one, const char *session)
{
    START(one, "run", "hi", "--session", session, "--output-format", "stream-json", "--provider",
          stage_script("replies: [{wedge: before_first_token}]\n"));
    held_await(one, "turn_started");
}

static void R2_a_hung_and_a_dead_process_are_named_and_the_socket_is_removed(void **state)
{
    static struct held dead;

    (void)state;
    start(&held, "hung");
    start(&dead, "dead");
    pid_t dead_pid = dead.pid;
    kill(held.pid, SIGSTOP);
    kill(dead.pid, SIGKILL);
    held_wait(&dead);
    double start_ms = (double)bl_clock_now_ns(&bl_clock_system) / 1e6;
    RUN(&run, "ps", "--json");
    double took_ms = (double)bl_clock_now_ns(&bl_clock_system) / 1e6 - start_ms;
    const struct bl_json *answer = stage_answer(&run, "ps", 0);
    assert_true(figure_at_most("R2 belay ps with a hung and a dead process", took_ms, 400));
    assert_int_equal(stage_size_at(answer, "/activities"), 0);
    assert_int_equal(stage_size_at(answer, "/processes"), 2);
    int hung_at = stage_number_at(answer, "/processes/0/pid") == held.pid ? 0 : 1;
    const char *hung = hung_at == 0 ? "/processes/0" : "/processes/1";
    const char *gone = hung_at == 0 ? "/processes/1" : "/processes/0";
    assert_int_equal(stage_number_at(answer, stage_printf("%s/pid", hung)), held.pid);
    assert_string_equal(stage_text_at(answer, stage_printf("%s/state", hung)), "not answering");
    assert_int_equal(stage_number_at(answer, stage_printf("%s/pid", gone)), dead_pid);
    assert_string_equal(stage_text_at(answer, stage_printf("%s/state", gone)), "dead");
    assert_string_equal(stage_text_at(answer, stage_printf("%s/left/0/kind", gone)), "run");
    assert_string_equal(stage_text_at(answer, stage_printf("%s/left/0/session", gone)), "dead");
    assert_string_equal(stage_text_at(answer, stage_printf("%s/left/0/state", gone)), "cut off");
    /* Only once: its socket has been removed. */
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, stage_printf("process %d: not answering\n", (int)held.pid));
    kill(held.pid, SIGCONT);
    held_end(&dead);
}

static void killed_process_is_listed_with_the_state_of_its_runs(void **state)
{
    (void)state;
    start(&held, "nightly");
    pid_t pid = held.pid;
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, stage_printf("process %d: dead; run_", (int)pid),
                        strlen(stage_printf("process %d: dead; run_", (int)pid)));
    assert_non_null(strstr(run.out, " of nightly: cut off\n"));
    RUN(&run, "ps");
    assert_string_equal(run.out, "No running work.\n");
}

static void state_is_read_from_the_selected_store(void **state)
{
    const char *other = stage_path("other.db");

    (void)state;
    START(&held, "run", "hi", "--session", "nightly", "--store", other, "--output-format",
          "stream-json", "--provider", stage_script("replies: [{wedge: before_first_token}]\n"));
    held_await(&held, "turn_started");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "ps", "--store", other, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "ps", 0), "/processes/0/left/0/state"),
                        "cut off");
    RUN(&run, "ps", "--store");
    assert_int_equal(run.exit_code, 2);
}

SUITE(ps, HELD(list_is_empty_at_first), HELD(a_run_and_its_call_are_listed_while_they_run),
      HELD(R2_a_hung_and_a_dead_process_are_named_and_the_socket_is_removed),
      HELD(killed_process_is_listed_with_the_state_of_its_runs),
      HELD(state_is_read_from_the_selected_store));
