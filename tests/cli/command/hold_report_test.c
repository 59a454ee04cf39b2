#include "runner.h"

#include <signal.h>
#include <stdio.h>

#include "cli/command/hold.h"

static int code_of(int how, int status, enum bl_stop_reason reason, int number)
{
    struct hold_outcome outcome = {.started = true, .stop_signal = number};

    outcome.end.how = (unsigned)how;
    outcome.end.status = status;
    outcome.stop.reason = reason;
    return hold_exit_code(&outcome);
}

static void the_exit_code_is_the_commands_own_unless_it_was_stopped(void **state)
{
    (void)state;
    assert_int_equal(code_of(BL_END_EXITED, 0, BL_STOP_NONE, 0), 0);
    assert_int_equal(code_of(BL_END_EXITED, 200, BL_STOP_NONE, 0), 200);
    assert_int_equal(code_of(BL_END_SIGNALED, SIGSEGV, BL_STOP_NONE, 0), 139);
    /* The command ended before the stop reached it. */
    assert_int_equal(code_of(BL_END_EXITED, 3, BL_STOP_TIMEOUT, 0), 3);
    assert_int_equal(code_of(BL_END_STOPPED, 0, BL_STOP_TIMEOUT, 0), 124);
    assert_int_equal(code_of(BL_END_STOPPED, SIGKILL, BL_STOP_TIMEOUT, SIGTERM), 124);
    assert_int_equal(code_of(BL_END_STOPPED, 0, BL_STOP_SIGNAL, SIGINT), 130);
    assert_int_equal(code_of(BL_END_STOPPED, 0, BL_STOP_SIGNAL, SIGHUP), 130);
    assert_int_equal(code_of(BL_END_STOPPED, 0, BL_STOP_SIGNAL, SIGQUIT), 130);
    assert_int_equal(code_of(BL_END_STOPPED, 0, BL_STOP_SIGNAL, SIGTERM), 143);
    assert_int_equal(code_of(BL_END_LIMIT, SIGKILL, BL_STOP_NONE, 0), 137);
    assert_int_equal(code_of(BL_END_LOST, 0, BL_STOP_NONE, 0), 125);
}

static void start_failures_have_the_exit_codes_of_the_shell(void **state)
{
    static const int codes[][2] = {
        {BL_ENOENT, 127}, {BL_EACCES, 126}, {BL_ENOTSUP, 125}, {BL_ESYSTEM, 125}};
    struct hold_outcome outcome = {0};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(codes); i++) {
        outcome.error.code = codes[i][0];
        assert_int_equal(hold_exit_code(&outcome), codes[i][1]);
    }
}

/* Runs `sh -c script` with the options, and checks the one line on standard error. */
static void check_json(struct run *run, const char *const *words, int exit_code)
{
    char part[64];

    runner_run_with(run, words, NULL, RUN_KEEP);
    assert_int_equal(run->exit_code, exit_code);
    assert_ptr_equal(strchr(run->err, '\n'), run->err + strlen(run->err) - 1);
    snprintf(part, sizeof part, "\"command\":\"hold\",\"exit_code\":%d,", exit_code);
    assert_non_null(strstr(run->err, part));
    runner_check_schema("envelope", run->err);
}
#define JSON(run, exit_code, ...)                                                                  \
    check_json(run, (const char *const[]){"hold", "--json", __VA_ARGS__, NULL}, exit_code)

static void the_envelope_of_a_command_that_ended(void **state)
{
    static struct run run;

    (void)state;
    JSON(&run, 7, "--", "sh", "-c", "echo out; exit 7");
    runner_check_schema("hold", run.err);
    assert_string_equal(run.out, "out\n");
    assert_non_null(strstr(run.err, "\"command_line\":[\"sh\",\"-c\",\"echo out; exit 7\"],"));
    assert_non_null(strstr(run.err, "\"sandbox\":\"off\",\"timeout_seconds\":null,"
                                    "\"end\":{\"how\":\"exited\",\"status\":7,\"by_signal\":false,"
                                    "\"processes\":0,\"left_behind\":0,\"survivors\":0},"
                                    "\"receipt\":null}\n"));
    JSON(&run, 139, "--timeout", "1h", "--", "sh", "-c", "kill -SEGV $$");
    runner_check_schema("hold", run.err);
    assert_non_null(strstr(run.err, "\"timeout_seconds\":3600"));
    assert_non_null(strstr(run.err, "\"how\":\"signaled\",\"status\":11,\"by_signal\":true,"));
}

static void the_envelope_of_a_command_that_was_stopped(void **state)
{
    static struct run run;

    (void)state;
    JSON(&run, 124, "--timeout", "50ms", "--", "sleep", "60");
    runner_check_schema("hold", run.err);
    assert_non_null(strstr(run.err, "\"how\":\"stopped\",\"status\":15,\"by_signal\":true,"
                                    "\"processes\":1,\"left_behind\":0,\"survivors\":0}"));
    char *receipt = strstr(run.err, "\"receipt\":");
    assert_non_null(receipt);
    receipt += strlen("\"receipt\":");
    receipt[strlen(receipt) - 2] = '\0'; /* the envelope's own end */
    runner_check_schema("receipt", receipt);
    assert_non_null(strstr(receipt, "\"scope\":\"hold_"));
    assert_non_null(strstr(receipt, "\"reason\":\"timeout\",\"origin\":\"deadline\","));
    assert_non_null(strstr(receipt, "\"cancel_observed\":true,\"survivors\":0,"));
    assert_non_null(strstr(receipt, "{\"kind\":\"command\",\"id\":\"command\",\"name\":\"sleep\","
                                    "\"fate\":\"aborted\","));
}

static void the_envelope_of_a_command_that_never_started(void **state)
{
    static struct run run;

    (void)state;
    JSON(&run, 124, "--timeout", "0", "--", "echo", "started");
    runner_check_schema("hold", run.err);
    assert_string_equal(run.out, "");
    assert_non_null(strstr(run.err, "\"container\":null,"));
    assert_non_null(strstr(run.err, "\"end\":null,"));
    assert_non_null(strstr(run.err, "\"fate\":\"never_started\""));
    JSON(&run, 127, "--", "belay-no-such-command");
    assert_non_null(strstr(run.err, "\"error\":{\"kind\":\"tool\","));
    assert_non_null(strstr(run.err, "\"target\":\"belay-no-such-command\""));
}

static void normal_end_prints_nothing_in_text(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--", "sh", "-c", "exit 3");
    assert_int_equal(run.exit_code, 3);
    assert_string_equal(run.err, "");
}

static void stop_is_reported_in_one_line(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--timeout", "50ms", "--", "sleep", "60");
    assert_int_equal(run.exit_code, 124);
    assert_memory_equal(run.err, "Stopped in ", 11);
    assert_non_null(strstr(run.err, ": 1 process. Nothing left running.\n"));
    assert_ptr_equal(strchr(run.err, '\n'), run.err + strlen(run.err) - 1);
}

static void processes_left_behind_are_reported_in_one_line(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--", "sh", "-c", "(setsid sleep 60 &); sleep 60 & exit 4");
    assert_int_equal(run.exit_code, 4);
    assert_string_equal(run.err, "Left behind by the command and stopped: 2 processes. Nothing "
                                 "left running.\n");
    RUN(&run, "hold", "--", "sh", "-c", "sleep 60 & kill -USR1 $$");
    assert_int_equal(run.exit_code, 128 + SIGUSR1);
    assert_string_equal(run.err, "Left behind by the command and stopped: 1 process. Nothing left "
                                 "running.\n");
}

SUITE(hold_report, cmocka_unit_test(the_exit_code_is_the_commands_own_unless_it_was_stopped),
      cmocka_unit_test(start_failures_have_the_exit_codes_of_the_shell),
      cmocka_unit_test(the_envelope_of_a_command_that_ended),
      cmocka_unit_test(the_envelope_of_a_command_that_was_stopped),
      cmocka_unit_test(the_envelope_of_a_command_that_never_started),
      cmocka_unit_test(normal_end_prints_nothing_in_text),
      cmocka_unit_test(stop_is_reported_in_one_line),
      cmocka_unit_test(processes_left_behind_are_reported_in_one_line));
