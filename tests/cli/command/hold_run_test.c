#include "held.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "figure.h"
#include "proc/parts.h"

static struct held held;

static int end_held(void **state)
{
    (void)state;
    held_end(&held);
    return 0;
}

/* ---- Streams and environment ----------------------------------------------------------------- */

static void bytes_pass_through_unchanged(void **state)
{
    enum {
        SIZE = 3 << 20
    };
    struct bl_random random;
    int input = memfd_create("in", MFD_CLOEXEC);
    char *sent = bl_alloc(SIZE), *came = bl_alloc(SIZE);

    (void)state;
    bl_random_seed(&random, 7);
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)bl_random_next(&random);
    assert_int_equal(pwrite(input, sent, SIZE, 0), SIZE);
    held_start(&held,
               (const char *const[]){runner_program(), "hold", "--", "sh", "-c", "cat | cat", NULL},
               input, RUN_KEEP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    assert_int_equal(pread(held.out, came, SIZE, 0), SIZE);
    assert_memory_equal(sent, came, SIZE);
    assert_string_equal(held_err(&held), "");
    bl_free(sent);
    bl_free(came);
    close(input);
}

static void closed_standard_output_is_left_to_the_command(void **state)
{
    static struct run run;

    (void)state;
    runner_run_with(&run, (const char *const[]){"hold", "--", "sh", "-c", "echo x || exit 9", NULL},
                    NULL, RUN_CLOSE);
    assert_int_equal(run.exit_code, 9);
}

/* Signals that we catch or ignore must have their default action in the command. */
static void closed_pipe_ends_the_command_by_sigpipe(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    held_start(&held, (const char *const[]){runner_program(), "hold", "--", "yes", NULL}, HELD_NULL,
               ends[1]);
    close(ends[1]);
    held_wait(&held);
    assert_int_equal(held.exit_code, 128 + SIGPIPE);
}

static void whole_environment_is_passed_on(void **state)
{
    static struct run run;

    (void)state;
    runner_run_with(
        &run, (const char *const[]){"hold", "--", "sh", "-c", "echo $BELAY_TEST_API_KEY", NULL},
        (const char *const[]){"BELAY_TEST_API_KEY=whole", NULL}, RUN_KEEP);
    assert_string_equal(run.out, "whole\n");
}

/* A caller that does not wait for its children may ignore SIGCHLD, and belay inherits that. */
static void a_sigchld_ignored_by_the_caller_does_not_hide_the_end(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--timeout", "10s", "--", "env", "--ignore-signal=CHLD", runner_program(),
        "hold", "--", "sh", "-c", "exit 3");
    assert_int_equal(run.exit_code, 3);
}

static void not_found_and_not_executable_have_different_codes(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "hold", "--", "belay-no-such-command");
    assert_int_equal(run.exit_code, 127);
    assert_memory_equal(run.err, "belay hold: ", 12);
    RUN(&run, "hold", "--", "/etc/passwd");
    assert_int_equal(run.exit_code, 126);
    RUN(&run, "hold", "--", "/");
    assert_int_equal(run.exit_code, 126);
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* A shell that prints the signal it got, and continues if `status` is 0. */
#define TELLING(status)                                                                            \
    "tell() { echo \"got $1\"; [ " status " = 0 ] || exit " status "; }\n"                         \
    "for s in INT TERM HUP QUIT; do trap \"tell $s\" $s; done\n"                                   \
    "echo ready; while :; do sleep 0.02; done"

static void check_signal(int number, const char *name, int exit_code)
{
    char part[64];

    HOLD(&held, "--json", "--grace", "10s", "--", "sh", "-c", TELLING("5"));
    held_await(&held, "ready");
    kill(held.pid, number);
    held_wait(&held);
    assert_int_equal(held.exit_code, exit_code);
    snprintf(part, sizeof part, "got %s\n", name);
    assert_non_null(strstr(held_out(&held), part));
    runner_check_schema("hold", held_last_line(&held));
    snprintf(part, sizeof part, "\"reason\":\"signal\",\"origin\":\"SIG%s\",", name);
    assert_non_null(strstr(held_last_line(&held), part));
    assert_non_null(strstr(held_last_line(&held), "\"status\":5,\"by_signal\":false,"));
    assert_int_equal(held_count(&held), 0);
    held_end(&held);
}

static void command_gets_the_signal_that_arrived(void **state)
{
    (void)state;
    check_signal(SIGINT, "INT", 130);
    check_signal(SIGTERM, "TERM", 143);
    check_signal(SIGHUP, "HUP", 130);
    check_signal(SIGQUIT, "QUIT", 130);
}

static void ctrl_c_on_a_terminal_reaches_the_command_as_sigint(void **state)
{
    (void)state;
    held_start(&held,
               (const char *const[]){runner_program(), "hold", "--grace", "10s", "--", "sh", "-c",
                                     TELLING("5"), NULL},
               HELD_TERMINAL, RUN_KEEP);
    held_await(&held, "ready");
    assert_int_equal(write(held.terminal, "\003", 1), 1);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
    assert_non_null(strstr(held_out(&held), "got INT\n"));
    assert_non_null(strstr(held_err(&held), "Nothing left running.\n"));
    assert_int_equal(held_count(&held), 0);
}

static void ctrl_z_pauses_neither_the_command_nor_its_deadline(void **state)
{
    (void)state;
    held_start(&held,
               (const char *const[]){runner_program(), "hold", "--timeout", "500ms", "--", "sh",
                                     "-c", TELLING("5"), NULL},
               HELD_TERMINAL, RUN_KEEP);
    held_await(&held, "ready");
    assert_int_equal(write(held.terminal, "\032", 1), 1);
    held_wait(&held);
    assert_int_equal(held.exit_code, 124);
}

static void the_second_signal_skips_the_grace(void **state)
{
    (void)state;
    HOLD(&held, "--grace", "1h", "--json", "--", "sh", "-c", TELLING("0"));
    held_await(&held, "ready");
    kill(held.pid, SIGTERM);
    held_await(&held, "got TERM");
    assert_true(held_count(&held) >= 3);
    kill(held.pid, SIGINT);
    held_wait(&held);
    /* The first one is the reason. */
    assert_int_equal(held.exit_code, 143);
    assert_non_null(strstr(held_last_line(&held), "\"origin\":\"SIGTERM\""));
    assert_non_null(strstr(held_last_line(&held), "\"fate\":\"killed\""));
    assert_int_equal(held_count(&held), 0);
}

static void signal_skips_the_grace_period_of_a_deadline(void **state)
{
    (void)state;
    HOLD(&held, "--timeout", "100ms", "--grace", "1h", "--", "sh", "-c", TELLING("0"));
    held_await(&held, "got TERM");
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 124);
    assert_int_equal(held_count(&held), 0);
}

static void many_signals_at_once_do_no_harm(void **state)
{
    (void)state;
    HOLD(&held, "--grace", "1h", "--json", "--", "sh", "-c", TELLING("0"));
    held_await(&held, "ready");
    for (int i = 0; i < 100; i++)
        kill(held.pid, (const int[]){SIGTERM, SIGINT, SIGHUP, SIGQUIT}[i % 4]);
    held_wait(&held);
    assert_true(held.exit_code == 143 || held.exit_code == 130);
    runner_check_schema("hold", held_last_line(&held));
    assert_int_equal(held_count(&held), 0);
}

/* As under nohup(1). */
static void sighup_ignored_at_the_start_stays_ignored(void **state)
{
    char script[512];

    (void)state;
    snprintf(script, sizeof script,
             "trap '' HUP; exec %s hold -- sh -c 'echo ready; sleep 0.3; exit 6'",
             runner_program());
    held_start(&held, (const char *const[]){"sh", "-c", script, NULL}, HELD_NULL, RUN_KEEP);
    held_await(&held, "ready");
    kill(held.pid, SIGHUP);
    held_wait(&held);
    assert_int_equal(held.exit_code, 6);
    assert_string_equal(held_err(&held), "");
}

/* ---- Nothing is left ------------------------------------------------------------------------- */

/* A process tree that does not end by itself: daemons of both kinds that ignore every signal they
 * can, one of them stopped by SIGSTOP, and the command itself. */
#define STUBBORN                                                                                   \
    "trap '' TERM INT HUP QUIT\n"                                                                  \
    "(setsid sleep 60 &)\n"                                                                        \
    "(setsid sh -c 'sleep 60 & sleep 60' &)\n"                                                     \
    "nohup sleep 60 >/dev/null 2>&1 &\n"                                                           \
    "sleep 60 & kill -STOP $!\n"                                                                   \
    "echo ready; "
/* Belay, the warden, the shell and its four processes at least, when it prints that it is ready. */
#define STUBBORN_COUNT 7

/* Promised after the grace period, and after kill -9. */
#define STOP_MS 50
#define KILL_MS 100

static const char *figure_name(const char *what, const char *container)
{
    static char name[128];

    snprintf(name, sizeof name, "%s in %s", what, container);
    return name;
}

static const char *const containers[] = {"subreaper", "cgroup2", "pidns"};

static bool available(const char *container)
{
    static struct run run;

    RUN(&run, "hold", "--container", container, "--", "true");
    if (run.exit_code == 0)
        return true;
    print_message("%s: %s", container, run.err);
    /* The error says what is missing and how to get it. */
    assert_int_equal(run.exit_code, 125);
    assert_non_null(strstr(run.err, "; "));
    return false;
}

/* The command may end before anything has observed it. */
static void short_command_is_reported_correctly(void **state)
{
    static struct run run;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        if (!available(containers[i]))
            continue;
        unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 4 : 20, 100);
        for (unsigned long round = 0; round < rounds; round++) {
            RUN(&run, "hold", "--container", containers[i], "--", "sh", "-c", "exit 3");
            assert_string_equal(run.err, "");
            assert_int_equal(run.exit_code, 3);
        }
    }
}

/* In all containers at the same time, because waiting for the deadline takes longest. */
static void stubborn_process_tree_ends_after_the_grace_period(void **state)
{
    static struct held trees[BL_COUNT(containers)];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        if (available(containers[i]))
            HOLD(&trees[i], "--container", containers[i], "--timeout", "1s", "--grace", "100ms",
                 "--json", "--", "sh", "-c", STUBBORN "wait");
    }
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        struct held *tree = &trees[i];
        if (!available(containers[i]))
            continue;
        double ms = held_wait(tree) * 1e3;
        assert_int_equal(held_count(tree), 0);
        assert_int_equal(tree->exit_code, 124);
        assert_true(figure_between(figure_name("03 hold of a stubborn tree", containers[i]), ms,
                                   1100, 1100 + STOP_MS));
        runner_check_schema("hold", held_last_line(tree));
        assert_non_null(strstr(held_last_line(tree), "\"fate\":\"killed\""));
        assert_non_null(strstr(held_last_line(tree), "\"survivors\":0"));
        assert_non_null(strstr(held_last_line(tree), containers[i]));
        held_end(tree);
    }
}

static void daemons_do_not_outlive_the_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        if (!available(containers[i]))
            continue;
        HOLD(&held, "--container", containers[i], "--", "sh", "-c", STUBBORN "exit 4");
        held_wait(&held);
        assert_int_equal(held_count(&held), 0);
        assert_int_equal(held.exit_code, 4);
        assert_memory_equal(held_err(&held), "Left behind by the command and stopped: ", 40);
        held_end(&held);
    }
}

/* A daemon keeps standard output open. */
static void daemon_holding_the_output_causes_no_delay(void **state)
{
    int ends[2];
    char data[64];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&held,
               (const char *const[]){runner_program(), "hold", "--", "sh", "-c",
                                     "(setsid sleep 60 &); echo said", NULL},
               HELD_NULL, ends[1]);
    close(ends[1]);
    held_wait(&held);
    assert_int_equal(read(ends[0], data, sizeof data), 5);
    assert_int_equal(read(ends[0], data, sizeof data), 0);
    close(ends[0]);
}

static void nothing_survives_a_kill_of_belay(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(containers); i++) {
        if (!available(containers[i]))
            continue;
        HOLD(&held, "--container", containers[i], "--", "sh", "-c", STUBBORN "wait");
        held_await(&held, "ready");
        held_await_at_least(&held, STUBBORN_COUNT);
        double ms = held_kill(&held);
        assert_true(
            figure_at_most(figure_name("03 kill -9 of belay hold", containers[i]), ms, KILL_MS));
        held_end(&held);
    }
}

/* Belay is killed at any point between its first instruction and the command's. */
static void nothing_survives_a_kill_in_the_middle_of_the_start(void **state)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 20 : 100, 2000);

    (void)state;
    for (unsigned long i = 0; i < rounds; i++) {
        HOLD(&held, "--", "sleep", "60");
        usleep((useconds_t)(i * 37 % 4000));
        double ms = held_kill(&held);
        assert_true(figure_at_most("03 kill -9 in the middle of the start", ms, KILL_MS));
        held_end(&held);
    }
}

static void start_nested(void)
{
    char inner[512];

    snprintf(inner, sizeof inner, "echo ready; exec %s hold --json -- sleep 60", runner_program());
    HOLD(&held, "--json", "--grace", "20s", "--", runner_program(), "hold", "--json", "--", "sh",
         "-c", inner);
    /* Three times belay and warden, and the command. */
    held_await_count(&held, 7);
}

static void hold_inside_hold_inside_hold_ends_from_the_inside(void **state)
{
    (void)state;
    start_nested();
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    assert_int_equal(held_count(&held), 0);
    runner_check_schema("hold", held_last_line(&held));
    /* Within the grace period, each with a receipt of its own. */
    assert_non_null(strstr(held_last_line(&held), "\"fate\":\"aborted\""));
    const char *first = strstr(held_err(&held), "\"receipt\":{");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"receipt\":{"));
}

static void hold_inside_hold_dies_with_the_outermost(void **state)
{
    (void)state;
    start_nested();
    double ms = held_kill(&held);
    assert_true(figure_at_most("03 kill -9 of the outermost of three holds", ms, KILL_MS));
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void exceeding_the_process_limit_ends_all(void **state)
{
    (void)state;
    HOLD(&held, "--container", "subreaper", "--processes", "5", "--", "sh", "-c",
         "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait");
    held_wait(&held);
    assert_int_equal(held.exit_code, 137);
    assert_string_equal(held_err(&held), "More than 5 processes: all were killed. Nothing "
                                         "left running.\n");
    assert_int_equal(held_count(&held), 0);
}

/* Creates a cgroup as a warden would have left it, with that age in seconds. */
static void make_relic(const char *path, int age_s)
{
    struct timespec now, times[2];
    assert_int_equal(mkdir(path, 0755), 0);
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){now.tv_sec - age_s, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void stale_cgroup_is_removed_later(void **state)
{
    static struct run run;
    char own[1024], old[1100], young[1100];

    (void)state;
    if (!proc_cgroup_directory(own, sizeof own)) {
        print_message("no cgroup of this process found\n");
        suite_skip("container mechanism not available");
    }
    snprintf(old, sizeof old, "%s/belay-00000000000000aa", own);
    snprintf(young, sizeof young, "%s/belay-00000000000000bb", own);
    make_relic(old, 120);
    make_relic(young, 0);
    RUN(&run, "hold", "--", "true");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(rmdir(old), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rmdir(young), 0);
}

#define HELD_TEST(test) cmocka_unit_test_teardown(test, end_held)

SUITE(hold_run, HELD_TEST(bytes_pass_through_unchanged),
      cmocka_unit_test(closed_standard_output_is_left_to_the_command),
      HELD_TEST(closed_pipe_ends_the_command_by_sigpipe),
      cmocka_unit_test(whole_environment_is_passed_on),
      cmocka_unit_test(a_sigchld_ignored_by_the_caller_does_not_hide_the_end),
      cmocka_unit_test(not_found_and_not_executable_have_different_codes),
      HELD_TEST(command_gets_the_signal_that_arrived),
      HELD_TEST(ctrl_c_on_a_terminal_reaches_the_command_as_sigint),
      HELD_TEST(ctrl_z_pauses_neither_the_command_nor_its_deadline),
      HELD_TEST(the_second_signal_skips_the_grace),
      HELD_TEST(signal_skips_the_grace_period_of_a_deadline),
      HELD_TEST(many_signals_at_once_do_no_harm),
      HELD_TEST(sighup_ignored_at_the_start_stays_ignored),
      cmocka_unit_test(short_command_is_reported_correctly),
      HELD_TEST(stubborn_process_tree_ends_after_the_grace_period),
      HELD_TEST(daemons_do_not_outlive_the_command),
      HELD_TEST(daemon_holding_the_output_causes_no_delay),
      HELD_TEST(nothing_survives_a_kill_of_belay),
      HELD_TEST(nothing_survives_a_kill_in_the_middle_of_the_start),
      HELD_TEST(hold_inside_hold_inside_hold_ends_from_the_inside),
      HELD_TEST(hold_inside_hold_dies_with_the_outermost),
      HELD_TEST(exceeding_the_process_limit_ends_all),
      cmocka_unit_test(stale_cgroup_is_removed_later));
