#include "held.h"
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

/* Starts a run that hangs in a tool. */
static void start(void)
{
    START(&held, "run", "hi", "--session", "nightly", "--yolo", "--sandbox", "off",
          "--output-format", "stream-json", "--provider",
          stage_script("replies:\n"
                       "  - tools: [{name: bash, input: {command: 'echo rea\"\"dy; sleep 600'}}]\n"
                       "  - say: done\n"));
    held_await(&held, "ready");
}

static void check_shown(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in:\n%s", part, text);
}

/* Checks the facts needed to find a hang: the fiber of the call, its place, and what it waits for.
 */
static void check_description(const char *text)
{
    static const char *const parts[] = {": waits for ", ", scope run_",   "/turn_",        " live",
                                        "    #0 ",      "bl_warden_wait", "bl_command_run"};
    for (size_t i = 0; i < BL_COUNT(parts); i++)
        check_shown(text, parts[i]);
}

static void debug_shows_where_a_run_hangs_and_leaves_it_alone(void **state BL_UNUSED)
{
    start();
    RUN(&run, "debug", "nightly");
    assert_string_equal(run.err, "");
    assert_int_equal(run.exit_code, 0);
    check_shown(run.out, stage_printf("Process %d:\n", (int)held.pid));
    check_description(run.out);
    RUN(&run, "debug", stage_printf("%d", (int)held.pid));
    assert_int_equal(run.exit_code, 0);
    check_description(run.out);
    RUN(&run, "cancel", "nightly");
    assert_int_equal(run.exit_code, 0);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
}

static void debug_of_an_id_that_does_not_run_says_so(void **state BL_UNUSED)
{
    RUN(&run, "debug", "nightly");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "");
    check_shown(run.err, "nightly");
    RUN(&run, "debug");
    assert_int_equal(run.exit_code, 2);
    check_shown(run.err, "missing argument ID");
}

static void debug_shows_what_a_cell_server_waits_for(void **state BL_UNUSED)
{
    const char *socket = stage_path("cells.sock");
    START(&held, "cell", "serve", "--socket", socket);
    stage_await_file(socket);
    RUN(&run, "debug", stage_printf("%d", (int)held.pid));
    assert_string_equal(run.err, "");
    assert_int_equal(run.exit_code, 0);
    check_shown(run.out, ": waits for ");
    check_shown(run.out, "    #0 ");
}

static void await_error_output(const char *part)
{
    for (int i = 0; i < 3000 && strstr(held_err(&held), part) == NULL; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    check_shown(held_err(&held), part);
}

static void sigusr1_describes_the_fibers_and_the_run_goes_on(void **state BL_UNUSED)
{
    start();
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(kill(held.pid, SIGUSR1), 0);
        await_error_output("SIGUSR1: running");
    }
    check_shown(held_err(&held), stage_printf("---- fibers of process %d ----\n", (int)held.pid));
    check_description(held_err(&held));
    RUN(&run, "cancel", "nightly");
    assert_int_equal(run.exit_code, 0);
}

SUITE(debug, HELD(debug_shows_where_a_run_hangs_and_leaves_it_alone),
      HELD(debug_of_an_id_that_does_not_run_says_so),
      HELD(debug_shows_what_a_cell_server_waits_for),
      HELD(sigusr1_describes_the_fibers_and_the_run_goes_on));
