#include "figure.h"
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

#define LATE_MS 50 /* promised: a run ends this soon after its deadline */

/* Tools run without a sandbox, so that no test depends on the machine's. */
#define FREE "--yolo", "--sandbox", "off"

static const char hello[] = "replies: [{say: hello}]\nrepeat: true\n";
static const char silent[] = "replies: [{wedge: before_first_token}]\n";
static const char stuck[] = "replies: [{wedge: after_first_token, say: begun, pieces: 1}]\n";
static const char sleeping[] =
    "replies:\n"
    "  - say: working\n"
    "    tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep 600 & sleep 600'}}]\n";

static const char *end_of(const struct bl_json *answer)
{
    return stage_text_at(answer, "/final_stop_reason");
}

/* ---- Why a run ends -------------------------------------------------------------------------- */

static void a_run_that_completes_is_in_its_session_once(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--provider", stage_script(hello), "--session", "s", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(end_of(answer), "completed");
    assert_int_equal(stage_number_at(answer, "/turns_completed"), 1);
    assert_string_equal(stage_text_at(answer, "/session_id"), "s");
    assert_true(stage_null_at(answer, "/receipt"));
    assert_int_equal(stage_turns("s"), 1);
}

static void limits_are_exit_code_3_and_change_nothing(void **state)
{
    const char *script = stage_script(hello);
    const char *tool = stage_script(
        "replies: [{tools: [{name: bash, input: {command: 'true'}}]}]\nrepeat: true\n");

    (void)state;
    RUN(&run, "run", "hi", "--provider", script, "--session", "s", "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "hi", "--provider", script, "--session", "s", "--max-session-turns", "1",
        "--json");
    assert_string_equal(end_of(stage_answer(&run, "run", 3)), "max_turns_reached");
    RUN(&run, "run", "one two three", "--provider", script, "--session", "s", "--max-budget-tokens",
        "4", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 3);
    assert_string_equal(end_of(answer), "max_budget_reached");
    assert_int_equal(stage_number_at(answer, "/spent/output_tokens"), 0);
    RUN(&run, "run", "one", "--provider", script, "--session", "s", "--max-budget-tokens", "3",
        "--json");
    answer = stage_answer(&run, "run", 3);
    assert_string_equal(end_of(answer), "max_budget_reached");
    assert_int_equal(stage_number_at(answer, "/spent/output_tokens"), 1);
    RUN(&run, "run", "hi", "--provider", tool, "--session", "s", "--max-steps", "2", FREE,
        "--json");
    assert_string_equal(end_of(stage_answer(&run, "run", 3)), "max_steps_reached");
    assert_int_equal(stage_turns("s"), 1);
}

static void step_limit_can_end_in_a_summary(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--max-steps", "1", "--on-exhausted", "synthesize", FREE, "--json",
        "--provider",
        stage_script("replies:\n"
                     "  - tools: [{name: bash, input: {command: 'true'}}]\n"
                     "  - tools: [{name: bash, input: {command: 'true'}}]\n"
                     "  - say: what was found\n"));
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "what was found");
}

static void an_error_of_the_model_is_exit_code_1(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--provider", stage_script("replies: [{say: x, when: never}]\n"),
        "--session", "s", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_string_equal(end_of(answer), "error");
    assert_string_equal(stage_text_at(answer, "/turns/0/error/kind"), "provider");
    RUN(&run, "run", "hi", "--provider",
        stage_script("replies: [{error: {status: 400, times: 1}}]\n"), "--session", "s", "--json");
    answer = stage_answer(&run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/turns/0/error/kind"), "provider");
    assert_int_equal(stage_turns("s"), 0);
}

static void overloads_are_tried_again(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--output-format", "stream-json", "--provider",
        stage_script("replies: [{error: {status: 529, times: 1}}, {say: at last}]\n"));
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_lines_with(run.out, "{\"type\":\"retry\","), 1);
}

/* ---- The deadline ---------------------------------------------------------------------------- */

static void a_deadline_of_zero_or_less_is_one_result_without_a_call(void **state)
{
    static const char *const none[] = {"--timeout=0", "--timeout=-1", "--timeout=-1h"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(none); i++) {
        RUN(&run, "run", "hi", "--provider", stage_script(hello), none[i], "--session", "s",
            "--continuation-prompt", "more", "--json");
        const struct bl_json *answer = stage_answer(&run, "run", 124);
        assert_string_equal(end_of(answer), "timeout");
        assert_int_equal(stage_size_at(answer, "/turns"), 1);
        assert_int_equal(stage_number_at(answer, "/spent/input_tokens"), 0);
        assert_string_equal(stage_text_at(answer, "/receipt/reason"), "timeout");
        /* On a busy machine there may be no time to open the session. */
        if (!stage_null_at(answer, "/session_id"))
            assert_int_equal(stage_turns("s"), 0);
    }
}

/* `begun` is an event that shows that the model or the tool was running. */
static void check_timeout(const char *yaml, const char *figure, const char *begun,
                          const char *output)
{
    bool in_time = false;

    for (unsigned i = 0; !in_time; i++) {
        START(&held, "run", "hi", "--provider", stage_script(yaml), "--timeout", stage_timeout(i),
              "--session", "s", FREE, "--output-format", "stream-json");
        double ms = held_wait(&held) * 1e3;
        const struct bl_json *answer = stage_result(&held, 124);
        assert_string_equal(end_of(answer), "timeout");
        assert_string_equal(stage_text_at(answer, "/receipt/reason"), "timeout");
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
        in_time = stage_lines_with(stage_output(&held), begun) > 0;
        if (in_time)
            assert_string_equal(stage_text_at(answer, "/turns/0/output"), output);
        /* The first timeout is usually long enough. */
        if (in_time && i == 0)
            assert_true(figure_between(figure, ms, 300, 300 + LATE_MS));
        assert_true(ms >= 300);
        assert_int_equal(held_count(&held), 0);
        held_end(&held);
    }
    assert_int_equal(stage_turns("s"), 0);
}

static void any_hang_ends_at_the_deadline(void **state)
{
    (void)state;
    check_timeout(silent, "02 deadline of a run, silent model", "{\"type\":\"turn_started\",", "");
    check_timeout(stuck, "02 deadline of a run, stuck model", "{\"type\":\"text_delta\",", "begun");
    check_timeout(sleeping, "02 deadline of a run, tool", "{\"type\":\"tool_started\",", "working");
}

static void one_deadline_is_over_all_turns(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--provider",
          stage_script("replies: [{say: x, delay: 150ms}]\nrepeat: true\n"), "--timeout", "700ms",
          "--continuation-prompt", "more", "--max-turns", "1000", "--session", "s", "--json");
    double ms = held_wait(&held) * 1e3;
    assert_true(figure_between("02 deadline over several turns", ms, 700, 700 + LATE_MS));
    const struct bl_json *answer = stage_result(&held, 124);
    int64_t completed = stage_number_at(answer, "/turns_completed");
    assert_in_range(completed, 0, 4);
    assert_int_equal(stage_size_at(answer, "/turns"), completed + 1);
    assert_int_equal(stage_turns("s"), completed);
}

static void without_a_continuation_there_is_one_turn(void **state)
{
    const char *script = stage_script(hello);

    (void)state;
    RUN(&run, "run", "hi", "--provider", script, "--max-turns", "5", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "run", 0), "/turns"), 1);
    RUN(&run, "run", "hi", "--provider", script, "--max-turns", "3", "--continuation-prompt",
        "more", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_int_equal(stage_size_at(answer, "/turns"), 3);
    assert_string_equal(stage_text_at(answer, "/turns/0/prompt"), "hi");
    assert_string_equal(stage_text_at(answer, "/turns/2/prompt"), "more");
    assert_string_equal(end_of(answer), "completed");
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void start_stuck(const char *yaml, const char *format)
{
    START(&held, "run", "hi", "--provider", stage_script(yaml), "--session", "s", FREE,
          "--output-format", format);
}

static void check_signal(int number, const char *origin, int exit_code)
{
    start_stuck(stuck, "stream-json");
    held_await(&held, "text_delta");
    kill(held.pid, number);
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, exit_code);
    assert_string_equal(end_of(answer), "cancelled");
    assert_string_equal(stage_text_at(answer, "/receipt/reason"), "signal");
    assert_string_equal(stage_text_at(answer, "/receipt/origin"), origin);
    assert_true(stage_true_at(answer, "/final_cancel_observed"));
    held_end(&held);
    assert_int_equal(stage_turns("s"), 0);
}

static void every_stop_signal_ends_in_one_result_line(void **state)
{
    (void)state;
    check_signal(SIGINT, "SIGINT", 130);
    check_signal(SIGTERM, "SIGTERM", 143);
    check_signal(SIGHUP, "SIGHUP", 130);
    check_signal(SIGQUIT, "SIGQUIT", 130);
}

/* Whenever the signal arrives, there is one result line, or the signal ends the program before it
 * can handle signals. */
static void a_signal_at_any_moment_ends_in_one_result_line(void **state)
{
    const char *script = stage_script(hello);
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 8 : 20, 500);

    (void)state;
    for (unsigned long i = 0; i < rounds; i++) {
        START(&held, "run", "hi", "--provider", script, "--output-format", "stream-json",
              "--continuation-prompt", "more", "--max-turns", "50", "--session", "s", "--sandbox",
              "off");
        nanosleep(&(struct timespec){.tv_nsec = (long)(i * 80000000 / rounds)}, NULL);
        kill(held.pid, SIGTERM);
        held_wait(&held);
        if (held_out(&held)[0] != '\0')
            stage_result(&held, held.exit_code == 0 ? 0 : 143);
        else
            assert_int_equal(held.exit_code, 128 + SIGTERM);
        held_end(&held);
    }
}

static void tool_ends_with_all_its_processes(void **state)
{
    (void)state;
    start_stuck(sleeping, "stream-json");
    held_await(&held, "ready");
    assert_true(held_count(&held) >= 3);
    kill(held.pid, SIGINT);
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 130);
    assert_string_equal(stage_text_at(answer, "/receipt/units/0/kind"), "tool");
    assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
    assert_int_equal(held_count(&held), 0);
}

/* The clean-up of the tool takes longer than the default grace period. */
static void stopped_tool_has_the_given_grace_period(void **state)
{
    const char *script = stage_script(
        "replies: [{tools: [{name: bash, input: {command: \"trap 'sleep 0.4; touch clean; exit' "
        "TERM; echo rea''dy; while :; do sleep 0.05; done\"}}]}]\nrepeat: true\n");
    static const struct {
        const char *grace;
        bool cleans;
    } cases[] = {{"0", false}, {"200ms", false}, {"60s", true}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        START(&held, "run", "hi", "--provider", script, FREE, "--output-format", "stream-json",
              "--grace", cases[i].grace);
        held_await(&held, "ready");
        kill(held.pid, SIGTERM);
        held_wait(&held);
        const struct bl_json *answer = stage_result(&held, 143);
        assert_string_equal(stage_text_at(answer, "/receipt/units/0/fate"),
                            cases[i].cleans ? "aborted" : "killed");
        assert_int_equal(stage_number_at(answer, "/receipt/survivors"), 0);
        assert_int_equal(stage_exists(stage_path("work/clean")), cases[i].cleans);
        held_end(&held);
    }
}

static void second_signal_cuts_the_grace_period(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--provider",
          stage_script("replies:\n"
                       "  - tools:\n"
                       "    - name: bash\n"
                       "      input: {command: 'trap \"echo hea\\\"\\\"rd\" TERM; echo rea\"\"dy; "
                       "while :; do sleep 0.01; done'}\n"),
          "--session", "s", FREE, "--output-format", "stream-json", "--grace", "60s");
    held_await(&held, "ready");
    kill(held.pid, SIGTERM);
    held_await(&held, "heard");
    kill(held.pid, SIGINT);
    held_wait(&held);
    const struct bl_json *answer = stage_result(&held, 143);
    assert_string_equal(stage_text_at(answer, "/receipt/units/0/fate"), "killed");
    assert_false(stage_true_at(answer, "/final_cancel_observed"));
    assert_int_equal(held_count(&held), 0);
    /* From the first signal on, which was noticed within milliseconds. */
    double quiet_ms = stage_double_at(answer, "/receipt/quiet_ms");
    assert_true(figure_at_most("03 second signal in a grace of 60 s", quiet_ms, 100));
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void keep_commits_the_partial_output(void **state)
{
    bool kept = false;

    (void)state;
    for (unsigned i = 0; !kept; i++) {
        RUN(&run, "run", "hi", "--provider", stage_script(stuck), "--timeout", stage_timeout(i),
            "--session", "s", "--on-cancel", "keep", "--json");
        kept = stage_true_at(stage_answer(&run, "run", 124), "/turns/0/interrupted");
    }
    RUN(&run, "session", "show", "s", "--json");
    const struct bl_json *answer = stage_answer(&run, "session-show", 0);
    assert_int_equal(stage_size_at(answer, "/turns"), 1);
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "begun");
    RUN(&run, "run", "hi", "--provider", stage_script(stuck), "--timeout", "300ms", "--session",
        "s", "--on-cancel", "discard", "--json");
    assert_false(stage_true_at(stage_answer(&run, "run", 124), "/turns/0/interrupted"));
    assert_int_equal(stage_turns("s"), 1);
}

static void continue_and_resume_use_the_session(void **state)
{
    const char *script = stage_script(hello);

    (void)state;
    RUN(&run, "run", "hi", "--continue", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 1), "/error/kind"), "session");
    RUN(&run, "run", "hi", "--resume", "first", "--json");
    stage_answer(&run, "run", 1);
    RUN(&run, "run", "hi", "--session", "first", "--provider", script, "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "hi", "-c", "--provider", script, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 0), "/session_id"), "first");
    RUN(&run, "run", "hi", "-r", "first", "--provider", script, "--json");
    stage_answer(&run, "run", 0);
    RUN(&run, "run", "hi", "-r", "frist", "--provider", script, "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_non_null(strstr(stage_text_at(answer, "/error/hint"), "first"));
    assert_int_equal(stage_turns("first"), 3);
}

static void a_request_is_run_once(void **state)
{
    const char *script = stage_script("replies: [{say: once}]\n");

    (void)state;
    RUN(&run, "run", "hi", "--request-id", "r1", "--provider", script, "--json");
    const struct bl_json *first = stage_answer(&run, "run", 0);
    RUN(&run, "run", "hi", "--request-id", "r1", "--provider",
        stage_script("replies: [{say: x, when: never}]\n"), "--json");
    const struct bl_json *again = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(first, "/turns/0/turn_id"),
                        stage_text_at(again, "/turns/0/turn_id"));
    assert_string_equal(stage_text_at(first, "/session_id"), stage_text_at(again, "/session_id"));
    assert_int_equal(stage_turns(stage_text_at(first, "/session_id")), 1);
    RUN(&run, "run", "hi", "--request-id", "r1", "--provider", script);
    assert_string_equal(run.out, "once\n");
    RUN(&run, "run", "another", "--request-id", "r1", "--provider", script, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "run", 2), "/error/kind"), "usage");
    RUN(&run, "run", "hi", "--request-id", "r1", "--session", "other", "--provider", script,
        "--json");
    stage_answer(&run, "run", 2);
}

static void killed_request_resumes_where_it_stopped(void **state)
{
    (void)state;
    START(&held, "run", "hi", "--request-id", "r1", "--session", "s", "--provider",
          stage_script("replies: [{say: one}, {wedge: after_first_token}]\n"),
          "--continuation-prompt", "more", "--max-turns", "2", "--output-format", "stream-json");
    held_await(&held, "\"prompt\":\"more\"");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    held_end(&held);
    RUN(&run, "run", "hi", "--request-id", "r1", "--session", "s", "--provider",
        stage_script("replies: [{say: two}]\n"), "--continuation-prompt", "more", "--max-turns",
        "2", "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_int_equal(stage_size_at(answer, "/turns"), 2);
    assert_string_equal(stage_text_at(answer, "/turns/0/output"), "one");
    assert_string_equal(stage_text_at(answer, "/turns/1/output"), "two");
    assert_int_equal(stage_turns("s"), 2);
}

static void a_session_has_one_writer(void **state)
{
    (void)state;
    start_stuck(stuck, "stream-json");
    held_await(&held, "text_delta");
    RUN(&run, "run", "hi", "--session", "s", "--provider", stage_script(hello), "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "session");
    assert_non_null(
        strstr(stage_text_at(answer, "/error/message"), stage_printf("%d", (int)held.pid)));
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "run", "hi", "--session", "s", "--provider", stage_script(hello));
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "The last owner of session s (pid "));
    assert_non_null(strstr(run.err, "was cut off and is not in the session. "
                                    "Nothing left running.\n"));
    RUN(&run, "run", "hi", "--session", "s", "--provider", stage_script(hello));
    assert_string_equal(run.err, "");
}

static void cut_off_turn_is_an_event(void **state)
{
    (void)state;
    start_stuck(stuck, "stream-json");
    held_await(&held, "text_delta");
    kill(held.pid, SIGKILL);
    held_wait(&held);
    RUN(&run, "run", "hi", "--session", "s", "--provider", stage_script(hello), "--output-format",
        "stream-json");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_non_null(strstr(run.out, "\"type\":\"warning\""));
    assert_non_null(strstr(run.out, "was cut off and is not in the session."));
}

static void file_that_is_not_a_store_is_unchanged(void **state)
{
    const char *path = stage_file("not-a-store.db", "this is not a database, and long enough to be "
                                                    "one page of it, maybe");
    struct bl_text before, after;

    (void)state;
    before = suite_read_file(path);
    RUN(&run, "run", "hi", "--store", path, "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 1);
    assert_string_equal(stage_text_at(answer, "/error/kind"), "filesystem");
    RUN(&run, "run", "hi", "--store", path, "--output-format", "stream-json");
    assert_int_equal(run.exit_code, 1);
    assert_int_equal(stage_lines_with(run.out, "\"type\":\"result\""), 1);
    after = suite_read_file(path);
    assert_true(bl_text_equal(before, after));
    bl_free((void *)before.data);
    bl_free((void *)after.data);
    runner_run_with(&run, (const char *const[]){"run", "hi", "--json", NULL},
                    (const char *const[]){"BELAY_STORE=/proc/nowhere/x.db", NULL}, RUN_KEEP);
    stage_answer(&run, "run", 1);
}

static void run_continues_without_a_control_socket(void **state)
{
    (void)state;
    runner_run_with(&run,
                    (const char *const[]){"run", "hi", "--provider", stage_script(hello),
                                          "--sandbox", "off", NULL},
                    (const char *const[]){"XDG_RUNTIME_DIR=/proc/nowhere", NULL}, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "hello\n");
    assert_string_equal(run.err, "");
}

static void call_without_a_rule_is_refused_and_recorded(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--permission-mode", "read-only", "--sandbox", "off", "--provider",
        stage_script("replies: [{tools: [{name: bash, input: {command: 'touch made'}}]}, "
                     "{say: done}]\n"),
        "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/permission_denials/0/tool_name"), "bash");
    assert_string_equal(stage_text_at(answer, "/result"), "done");
    assert_false(stage_exists("made"));
    RUN(&run, "run", "hi", "--sandbox", "off", "--allow", "bash(touch *)", "--provider",
        stage_script("replies: [{tools: [{name: bash, input: {command: 'touch made'}}]}, "
                     "{say: done}]\n"),
        "--json");
    stage_answer(&run, "run", 0);
    assert_true(stage_exists("made"));
}

#define BASH(command)                                                                              \
    "replies: [{tools: [{name: bash, input: {command: " command "}}]}, {say: done}]\n"

static void refused_calls_are_reported_with_the_options_that_allow_them(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--sandbox", "off", "--provider", stage_script(BASH("echo hi")));
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "done\n");
    assert_string_equal(run.err, "belay run: bash was refused: it would run outside a sandbox; to "
                                 "allow it, add --allow 'bash(echo *)'\n");
    RUN(&run, "run", "hi", "--sandbox", "off", "--allow", "bash(echo *)", "--provider",
        stage_script(BASH("echo hi")));
    assert_string_equal(run.err, "");
    RUN(&run, "run", "hi", "--sandbox", "off", "--provider",
        stage_script(BASH("\"make x; rm 'a b'\"")));
    assert_non_null(
        strstr(run.err, "add --allow 'bash(make x *)' --allow 'bash(rm '\\''a b'\\'')'\n"));
    RUN(&run, "run", "hi", "--deny", "bash", "--provider", stage_script(BASH("echo hi")));
    assert_string_equal(run.err, "belay run: bash was refused: denied by rule 'bash'\n");
    RUN(&run, "run", "hi", "--sandbox", "off", "--provider", stage_script(BASH("echo hi")),
        "--json");
    const struct bl_json *answer = stage_answer(&run, "run", 0);
    assert_string_equal(stage_text_at(answer, "/turns/0/permission_denials/0/rules/0"),
                        "bash(echo *)");
}

static void refused_calls_of_a_sub_agent_are_reported(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--sandbox", "off", "--provider",
        stage_script("replies:\n"
                     "  - when: '^hi$'\n"
                     "    tools: [{name: task, input: {agent: worker, prompt: below}}]\n"
                     "  - when: '^below$'\n"
                     "    tools: [{name: bash, input: {command: echo hi}}]\n"
                     "  - say: below is done\n"
                     "  - say: done\n"));
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_lines_with(run.err, "add --allow 'bash(echo *)'"), 1);
}

static void refused_commands_without_a_sandbox_get_a_hint(void **state)
{
    (void)state;
    runner_run_with(
        &run, (const char *const[]){"run", "hi", "--provider", stage_script(BASH("echo hi")), NULL},
        (const char *const[]){"PATH=/nowhere", NULL}, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "add --allow 'bash(echo *)'\nhint: with bubblewrap, "));
}

SUITE(run_work, HELD(a_run_that_completes_is_in_its_session_once),
      HELD(limits_are_exit_code_3_and_change_nothing), HELD(step_limit_can_end_in_a_summary),
      HELD(an_error_of_the_model_is_exit_code_1), HELD(overloads_are_tried_again),
      HELD(a_deadline_of_zero_or_less_is_one_result_without_a_call),
      HELD(any_hang_ends_at_the_deadline), HELD(one_deadline_is_over_all_turns),
      HELD(without_a_continuation_there_is_one_turn),
      HELD(every_stop_signal_ends_in_one_result_line),
      HELD(a_signal_at_any_moment_ends_in_one_result_line), HELD(tool_ends_with_all_its_processes),
      HELD(stopped_tool_has_the_given_grace_period), HELD(second_signal_cuts_the_grace_period),
      HELD(run_continues_without_a_control_socket), HELD(keep_commits_the_partial_output),
      HELD(continue_and_resume_use_the_session), HELD(a_request_is_run_once),
      HELD(killed_request_resumes_where_it_stopped), HELD(a_session_has_one_writer),
      HELD(cut_off_turn_is_an_event), HELD(file_that_is_not_a_store_is_unchanged),
      HELD(call_without_a_rule_is_refused_and_recorded),
      HELD(refused_calls_are_reported_with_the_options_that_allow_them),
      HELD(refused_calls_of_a_sub_agent_are_reported),
      HELD(refused_commands_without_a_sandbox_get_a_hint));
