/* The point at which a stop reached a turn, stops after the step in flight, and messages. */
#include "talk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct run run;
static struct held held, waiting;

static int end_held(void **state)
{
    held_end(&waiting);
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)
#define FREE       "--yolo", "--sandbox", "off"
#define STREAM     "--output-format", "stream-json"
#define CONFIG                                                                                     \
    "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_env: NEAR_PLACE}}\n"              \
    "models: {free: {provider: near, model: m, free: true}}\n"

static const char *const keyed[] = {"NEAR_PLACE=sk-the-key-of-this-test", NULL};

/* A call that reports its start, and continues when the file `go` exists. */
#define PATIENT "echo rea''dy; while [ ! -e go ]; do sleep 0.05; done; echo went"

/* ---- Where a turn was stopped ---------------------------------------------------------------- */

static const char *during(const struct bl_json *answer)
{
    const char *text = stage_text_at(answer, "/turns/0/stopped_during");

    assert_string_equal(stage_text_at(answer, "/final_stopped_during"), text);
    return text;
}

static void receipt_tells_a_silent_server_from_a_tool(void **state)
{
    static struct talk call = {.config = CONFIG, .environment = keyed};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "--json", "--timeout", "1500ms", "hi");
    talk(&call);
    assert_string_equal(during(stage_answer(&call.run, "run", 124)),
                        "model: waiting for response headers");
    call.arguments = TALK_WORDS("run", "--model", "free", "--timeout", "1500ms", "hi");
    talk(&call);
    assert_int_equal(call.run.exit_code, 124);
    assert_string_equal(call.run.err, "Timed out after 1.5 s while waiting for response headers. "
                                      "Nothing left running.\n");
    START(&held, "run", "hi", FREE, STREAM, "--provider",
          stage_script("replies: [{tools: [{name: bash, input: {command: \"" PATIENT "\"}}]}]\n"));
    held_await(&held, "ready");
    kill(held.pid, SIGINT);
    held_wait(&held);
    assert_string_equal(during(stage_result(&held, 130)), "tool: bash");
}

static void stop_of_the_script_model_names_the_point(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--json", "--timeout", "1s", "--provider",
        stage_script("replies: [{wedge: before_first_token}]\n"));
    assert_string_equal(during(stage_answer(&run, "run", 124)),
                        "model: waiting for the first token");
    RUN(&run, "run", "hi", "--json", "--timeout", "1s", "--provider",
        stage_script("replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n"));
    assert_string_equal(during(stage_answer(&run, "run", 124)), "model: streaming");
    RUN(&run, "run", "hi", "--json", "--timeout", "0");
    assert_string_equal(during(stage_answer(&run, "run", 124)), "entry");
    RUN(&run, "run", "hi", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_true(stage_null_at(answer, "/turns/0/stopped_during"));
    assert_true(stage_null_at(answer, "/final_stopped_during"));
}

static void a_stop_in_text_names_the_tool_and_its_processes(void **state)
{
    (void)state;
    START(&held, "run", "hi", FREE, "--session", "s", "--provider",
          stage_script("replies: [{tools: [{name: bash, input: {command: 'touch begun; sleep "
                       "600'}}]}]\n"));
    stage_await_file(stage_path("work/begun"));
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    const char *line = held_err(&held);
    assert_memory_equal(line, "Cancelled after ", 16);
    assert_non_null(strstr(line, " while running bash. Stopped in "));
    assert_non_null(strstr(line, "Nothing left running.\n"));
}

/* ---- After the step in flight ---------------------------------------------------------------- */

static void start_patient(const char *more)
{
    START(&held, "run", "hi", FREE, STREAM, "--session", "nightly", "--provider",
          stage_script(stage_printf("replies:\n"
                                    "  - tools:\n"
                                    "    - {name: bash, input: {command: \"" PATIENT "\"}}\n"
                                    "%s"
                                    "  - say: done\n",
                                    more)));
    held_await(&held, "ready");
}

/* Returns the output of the waiting cancel. */
static const struct bl_json *waited_for(void)
{
    held_wait(&waiting);
    assert_int_equal(waiting.exit_code, 0);
    const char *line = stage_last_line(stage_output(&waiting));
    runner_check_schema("cancel", line);
    return stage_json(line);
}

static void finish_in_the_background(void)
{
    START(&waiting, "cancel", "--after-step", "nightly", "--json");
    held_await(&held, "finish_requested");
}

static void after_a_step_a_run_stops_before_the_next_call(void **state)
{
    (void)state;
    start_patient("    - {name: bash, input: {command: 'touch second'}}\n");
    finish_in_the_background();
    RUN(&run, "ps", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "ps", 0), "/activities/0/phase"),
                        "finishing");
    stage_file("go", "");
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 130);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "cancelled");
    assert_string_equal(during(answer), "between steps");
    assert_string_equal(stage_text_at(answer, "/receipt/origin"), "belay cancel --after-step");
    assert_int_equal(stage_size_at(answer, "/receipt/units"), 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/steps/0/status"), "ok");
    assert_int_equal(stage_lines_with(stage_output(&held), "\"status\":\"not_run\""), 1);
    assert_false(stage_exists(stage_path("work/second")));
    assert_string_equal(stage_text_at(waited_for(), "/receipt/reason"), "user");
}

static void after_a_step_a_run_stops_before_the_next_request(void **state)
{
    (void)state;
    start_patient("");
    finish_in_the_background();
    stage_file("go", "");
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 130);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "cancelled");
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "");
}

static void last_answer_completes_after_a_gentle_stop(void **state)
{
    (void)state;
    START(&held, "run", "hi", STREAM, "--session", "nightly", "--provider",
          stage_script("replies: [{say: 'one two three four', pieces: 4, delay: 800ms}]\n"));
    held_await(&held, "turn_started");
    finish_in_the_background();
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 0);
    assert_string_equal(stage_text_at(answer, "/final_stop_reason"), "completed");
    assert_true(stage_null_at(waited_for(), "/receipt"));
}

static void a_plain_cancel_ends_a_gentle_stop_at_once(void **state)
{
    (void)state;
    start_patient("");
    finish_in_the_background();
    RUN(&run, "cancel", "nightly", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "cancel", 0), "/receipt/origin"),
                        "belay cancel");
    held_wait(&held);
    assert_string_equal(during(stage_result(&held, 130)), "tool: bash");
}

static void work_without_steps_is_not_stopped_gently(void **state)
{
    (void)state;
    start_patient("");
    RUN(&run, "ps", "--json");
    const char *name = stage_text_at(stage_json(run.out), "/activities/1/name");
    RUN(&run, "cancel", "--after-step", name);
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "has no steps"));
    RUN(&run, "cancel", "--after-step", "--now", "nightly");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "--now and --after-step exclude each other"));
    RUN(&run, "cancel", "--after-step", "nobody");
    assert_int_equal(run.exit_code, 1);
    stage_file("go", "");
    held_wait(&held);
    stage_result(&held, 0);
}

static void a_sub_agent_is_stopped_gently_and_its_run_goes_on(void **state)
{
    (void)state;
    START(&held, "run", "begin", FREE, STREAM, "--session", "nightly", "--provider",
          stage_script("replies:\n"
                       "  - when: begin\n"
                       "    tools: [{name: task, input: {agent: worker, prompt: below}}]\n"
                       "  - when: below\n"
                       "    tools:\n"
                       "    - {name: bash, input: {command: \"" PATIENT "\"}}\n"
                       "    - {name: bash, input: {command: 'touch second'}}\n"
                       "  - when: did not come\n"
                       "    say: went on\n"
                       "  - say: went on\n"));
    held_await(&held, "ready");
    RUN(&run, "ps", "--json");
    const struct bl_json *ps = stage_json(run.out);
    const char *agent = NULL;
    for (unsigned i = 0; i < 4 && agent == NULL; i++) {
        if (strcmp(stage_text_at(ps, stage_printf("/activities/%u/kind", i)), "agent") == 0)
            agent = stage_text_at(ps, stage_printf("/activities/%u/id", i));
    }
    assert_non_null(agent);
    START(&waiting, "cancel", "--after-step", agent, "--json");
    held_await(&held, "finish_requested");
    stage_file("go", "");
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "went on");
    assert_false(stage_exists(stage_path("work/second")));
    assert_string_equal(stage_text_at(waited_for(), "/receipt/reason"), "user");
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void a_message_reaches_a_run_after_its_next_tool_result(void **state)
{
    (void)state;
    start_patient("");
    RUN(&run, "inject", "nightly", "and also this", "--json");
    const struct bl_json *answer = stage_answer(&run, "inject", 0);
    const char *id = stage_text_at(answer, "/message_id");
    RUN(&run, "inject", "nightly", "and that");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, " will be delivered after the next tool result, or as the next "
                                    "prompt.\n"));
    stage_file("go", "");
    held_wait(&held);
    answer = stage_result(&held, 0);
    assert_int_equal(stage_size_at(answer, "/undelivered"), 0);
    const char *line = stage_printf("\"id\":\"%s\",\"text\":\"and also this\"", id);
    assert_int_equal(stage_lines_with(stage_output(&held), line), 1);
    RUN(&run, "inject", "nightly", "too late");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "no running work with id 'nightly'"));
}

static void undelivered_message_is_reported(void **state)
{
    (void)state;
    start_patient("");
    RUN(&run, "inject", "nightly", "never read", "--json");
    const char *id = stage_text_at(stage_answer(&run, "inject", 0), "/message_id");
    kill(held.pid, SIGINT);
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 130);
    assert_int_equal(stage_size_at(answer, "/undelivered"), 1);
    assert_string_equal(stage_text_at(answer, "/undelivered/0/id"), id);
    assert_string_equal(stage_text_at(answer, "/undelivered/0/text"), "never read");
    const char *out = stage_output(&held);
    assert_int_equal(stage_lines_with(out, "{\"type\":\"message_undelivered\","), 1);
    assert_int_equal(stage_lines_with(out, "{\"type\":\"message_injected\","), 0);
}

static void a_message_for_a_run_of_one_turn_is_reported_in_text(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--session", "nightly", "--max-turns", "1", "--provider",
          stage_script("replies: [{say: 'one two three four', pieces: 4, delay: 1s}]\n"));
    for (unsigned i = 0; i < 600; i++) {
        RUN(&run, "inject", "nightly", "too late");
        if (run.exit_code == 0)
            break;
        usleep(50000);
    }
    assert_int_equal(run.exit_code, 0);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_non_null(strstr(held_err(&held), " was not delivered: too late\n"));
}

static void invalid_message_is_refused(void **state)
{
    (void)state;
    start_patient("");
    RUN(&run, "inject", "nightly", "");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "the message is empty"));
    RUN(&run, "ps", "--json");
    const char *name = stage_text_at(stage_json(run.out), "/activities/1/name");
    RUN(&run, "inject", name, "hello");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "it is a call"));
    char *longest = malloc(80000);
    memset(longest, 'x', 79999);
    longest[79999] = '\0';
    RUN(&run, "inject", "nightly", longest);
    free(longest);
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "the message has 79999 bytes"));
    stage_file("go", "");
    held_wait(&held);
    stage_result(&held, 0);
}

SUITE(run_during, HELD(receipt_tells_a_silent_server_from_a_tool),
      HELD(stop_of_the_script_model_names_the_point),
      HELD(a_stop_in_text_names_the_tool_and_its_processes),
      HELD(after_a_step_a_run_stops_before_the_next_call),
      HELD(after_a_step_a_run_stops_before_the_next_request),
      HELD(last_answer_completes_after_a_gentle_stop),
      HELD(a_plain_cancel_ends_a_gentle_stop_at_once),
      HELD(work_without_steps_is_not_stopped_gently),
      HELD(a_sub_agent_is_stopped_gently_and_its_run_goes_on),
      HELD(a_message_reaches_a_run_after_its_next_tool_result),
      HELD(undelivered_message_is_reported),
      HELD(a_message_for_a_run_of_one_turn_is_reported_in_text), HELD(invalid_message_is_refused));
