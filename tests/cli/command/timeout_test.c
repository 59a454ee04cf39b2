#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 10
#define REAL      "/usr/bin/timeout"
#define STUBBORN  "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done"

static struct run run;
static struct held held;

/* Runs the program with the words and returns its exit code, or 128 + signal. */
static int code_of(const char *program, const char *const words[WORDS_MAX])
{
    const char *arguments[WORDS_MAX + 2] = {program};

    memcpy(arguments + 1, words, WORDS_MAX * sizeof *words);
    held_start(&held, arguments, HELD_NULL, RUN_KEEP);
    held_wait(&held);
    int code = held.exit_code;
    held_end(&held);
    return code;
}

static const char *named_timeout(void)
{
    const char *path = stage_path("timeout");

    assert_int_equal(symlink(runner_program(), path), 0);
    return path;
}

static void exit_codes_are_those_of_timeout_case_by_case(void **state)
{
    static const struct {
        int code;
        const char *words[WORDS_MAX];
    } cases[] = {
        {0, {"5", "true"}},
        {7, {"5s", "sh", "-c", "exit 7"}},
        {3, {"0", "sh", "-c", "exit 3"}},
        {0, {"inf", "true"}},
        {0, {"1e1", "true"}},
        {124, {"0.1", "sleep", "20"}},
        {124, {".002m", "sleep", "20"}},
        {124, {"--foreground", "0.1", "sleep", "20"}},
        {124, {"-s", "INT", "0.1", "sh", "-c", "trap 'exit 9' INT; sleep 20"}},
        {9, {"--preserve-status", "0.1", "sh", "-c", "trap 'exit 9' TERM; sleep 20"}},
        {143, {"--preserve-status", "0.1", "sleep", "20"}},
        {129, {"--preserve-status", "--signal=sighup", "0.1", "sleep", "20"}},
        {137, {"-s", "9", "0.1", "sleep", "20"}},
        {137, {"-k", "0.1", "0.1", "sh", "-c", STUBBORN}},
        {137, {"-k0.1s", "0.1", "sh", "-c", STUBBORN}},
        {124, {"-k", "5", "0.1", "sh", "-c", "trap 'sleep 0.5; exit 0' TERM; sleep 20"}},
        {124, {"0.1", "sh", "-c", "trap 'sleep 1; exit 0' TERM; sleep 20"}},
        {137, {"5", "sh", "-c", "kill -KILL $$"}},
        {143, {"5", "sh", "-c", "kill -TERM $$"}},
        {126, {"5", "/"}},
        {127, {"5", "/nothing/there"}},
        {125, {NULL}},
        {125, {"5"}},
        {125, {"soon", "true"}},
        {125, {"5x", "true"}},
        {125, {"-1", "true"}},
        {125, {"-s", "NONSENSE", "5", "true"}},
        {125, {"-k", "soon", "5", "true"}},
        {125, {"--nonsense", "5", "true"}},
        {124, {"--", "0.1", "sleep", "20"}},
    };
    const char *ours = named_timeout();
    bool compares = access(REAL, X_OK) == 0;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        int code = code_of(ours, cases[i].words);
        int real = compares ? code_of(REAL, cases[i].words) : cases[i].code;
        if (code != cases[i].code || real != cases[i].code)
            fail_msg("case %zu: %d, by timeout(1) %d, expected %d", i, code, real, cases[i].code);
    }
}

static void a_signal_to_timeout_is_passed_on(void **state)
{
    (void)state;
    held_start(&held,
               (const char *const[]){named_timeout(), "60", "sh", "-c",
                                     "trap 'exit 6' TERM; echo up; sleep 20 & wait", NULL},
               HELD_NULL, RUN_KEEP);
    held_await(&held, "up\n");
    assert_int_equal(kill(held.pid, SIGTERM), 0);
    held_wait(&held);
    assert_int_equal(held.exit_code, 6);
    assert_string_equal(held_err(&held), "");
    held_end(&held);
}

/* Without -k the command may take any time, but processes that it leaves behind may not. */
static void descendants_ignoring_the_signal_do_not_delay_timeout(void **state)
{
    static const char *const words[WORDS_MAX] = {
        "0.1", "sh", "-c", "(trap '' TERM; sleep 3000) & trap 'exit 0' TERM; sleep 3000 & wait"};

    (void)state;
    assert_int_equal(code_of(named_timeout(), words), 124);
}

static void hold_takes_the_arguments_of_timeout(void **state)
{
    (void)state;
    RUN(&run, "hold", "0.1", "sleep", "20");
    assert_int_equal(run.exit_code, 124);
    assert_non_null(strstr(run.err, "Nothing left running."));
    RUN(&run, "hold", "0", "sh", "-c", "exit 4");
    assert_int_equal(run.exit_code, 4);
    RUN(&run, "hold", "--timeout", "0", "true");
    assert_int_equal(run.exit_code, 124);
    RUN(&run, "hold", "-v", "-s", "int", "-p", "100ms", "sleep", "20");
    assert_int_equal(run.exit_code, 130);
    assert_non_null(strstr(run.err, "belay hold: sending signal INT to command 'sleep'\n"));
    RUN(&run, "hold", "-k", "0.1", "0.1", "sh", "-c", STUBBORN);
    assert_int_equal(run.exit_code, 137);
    RUN(&run, "hold", "0.1", "sh", "-c", STUBBORN);
    assert_int_equal(run.exit_code, 124);
}

static void duration_after_timeout_is_the_command(void **state)
{
    (void)state;
    RUN(&run, "hold", "--", "5s", "true");
    assert_int_equal(run.exit_code, 127);
    RUN(&run, "hold", "--timeout", "5s", "5s", "true");
    assert_int_equal(run.exit_code, 127);
    RUN(&run, "hold", "5s");
    assert_int_equal(run.exit_code, 125);
    assert_string_equal(
        run.err, "belay hold: missing argument COMMAND\nhint: 'belay help hold' shows the usage\n");
    RUN(&run, "hold", "-s", "NONSENSE", "5", "true");
    assert_string_equal(run.err, "belay hold: invalid value 'NONSENSE' for --signal (expected a "
                                 "signal such as TERM, INT or 9)\n");
    RUN(&run, "hold", "-k", "1", "--grace", "1", "5", "true");
    assert_int_equal(run.exit_code, 125);
    assert_non_null(strstr(run.err, "--grace and --kill-after exclude each other"));
}

static void a_command_in_the_foreground_stays_in_our_session_and_group(void **state)
{
    static const char show[] = "cut -d' ' -f5,6 /proc/self/stat; exec \"$0\" hold \"$1\" -- "
                               "cut -d' ' -f5,6 /proc/self/stat";
    char first[64], second[64];

    (void)state;
    for (int foreground = 0; foreground < 2; foreground++) {
        const char *option = foreground != 0 ? "--foreground" : "--grace=1s";
        held_start(&held,
                   (const char *const[]){"/bin/sh", "-c", show, runner_program(), option, NULL},
                   HELD_NULL, RUN_KEEP);
        held_wait(&held);
        assert_int_equal(sscanf(held_out(&held), "%63[^\n]\n%63[^\n]", first, second), 2);
        assert_int_equal(strcmp(first, second) == 0, foreground);
        held_end(&held);
    }
}

SUITE(timeout, STAGED(exit_codes_are_those_of_timeout_case_by_case),
      STAGED(a_signal_to_timeout_is_passed_on),
      STAGED(descendants_ignoring_the_signal_do_not_delay_timeout),
      STAGED(hold_takes_the_arguments_of_timeout), STAGED(duration_after_timeout_is_the_command),
      STAGED(a_command_in_the_foreground_stays_in_our_session_and_group));
