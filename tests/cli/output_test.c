#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Both formats, since the program writes them in different places. */
static const char *const calls[][3] = {
    {"doctor", NULL}, {"doctor", "--json", NULL}, {"--help", NULL}, {"--version", NULL}};

static void a_closed_standard_output_is_an_error(void **state)
{
    static struct run run;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(calls); i++) {
        runner_run_with(&run, calls[i], NULL, RUN_CLOSE);
        assert_int_equal(run.exit_code, 1);
    }
}

static void full_disk_is_a_reported_error(void **state)
{
    static struct run run;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(full >= 0);
    runner_run_with(&run, calls[0], NULL, full);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err,
                        "belay doctor: cannot write standard output: No space left on device\n");
    runner_run_with(&run, calls[1], NULL, full);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "");
    close(full);
}

static void closed_pipe_ends_it_quietly(void **state)
{
    static struct run run;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    for (size_t i = 0; i < BL_COUNT(calls); i++) {
        runner_run_with(&run, calls[i], NULL, ends[1]);
        assert_int_equal(run.exit_code, 130);
        assert_string_equal(run.err, "");
    }
    close(ends[1]);
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "a\r\x1b[31mb\xff");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.err,
                        "belay: unknown command 'a\\r\\x1b[31mb\xef\xbf\xbd'\nhint: 'belay --help' "
                        "lists the commands; for a prompt of one word write 'belay -- WORD'\n");
}

/* Runs the doctor on a terminal. Returns whether it used colours, or -1 without a terminal. */
static int colours_with(const char *const *environment)
{
    static struct run run;
    static char seen[65536];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char *name = NULL;

    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        name = ptsname(master);
    int slave = name != NULL ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (slave < 0) {
        if (master >= 0)
            close(master);
        return -1;
    }
    runner_run_with(&run, calls[0], environment, slave);
    assert_int_equal(run.exit_code, 0);
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t size = 0;
    for (ssize_t count; (count = read(master, seen + size, sizeof seen - 1 - size)) > 0;)
        size += (size_t)count;
    close(slave);
    close(master);
    seen[size] = '\0';
    assert_non_null(strstr(seen, "Containment"));
    return strchr(seen, '\x1b') != NULL;
}

static void a_terminal_gets_colours_unless_they_are_refused(void **state)
{
    (void)state;
    int colours = colours_with((const char *const[]){"TERM=xterm", NULL});
    if (colours < 0)
        suite_skip("no pseudo-terminals");
    assert_int_equal(colours, 1);
    assert_int_equal(colours_with((const char *const[]){"TERM=xterm", "NO_COLOR=", NULL}), 1);
    assert_int_equal(colours_with((const char *const[]){"TERM=xterm", "NO_COLOR=1", NULL}), 0);
    assert_int_equal(colours_with((const char *const[]){"TERM=dumb", NULL}), 0);
}

static void only_a_terminal_gets_colours(void **state)
{
    static struct run run;

    (void)state;
    runner_run_with(&run, calls[0], (const char *const[]){"TERM=xterm", NULL}, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_null(strchr(run.out, '\x1b'));
}

SUITE(output, cmocka_unit_test(a_closed_standard_output_is_an_error),
      cmocka_unit_test(full_disk_is_a_reported_error),
      cmocka_unit_test(closed_pipe_ends_it_quietly),
      cmocka_unit_test(control_characters_do_not_reach_the_terminal),
      cmocka_unit_test(a_terminal_gets_colours_unless_they_are_refused),
      cmocka_unit_test(only_a_terminal_gets_colours));
