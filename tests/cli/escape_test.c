/* Foreign text on a terminal: its control sequences are escaped. */
#include "stage.h"

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#define ANSWER "replies: [{say: \"a\\e[2J\\e]0;title\\a\\u009b31m\\u202eb\\r\\nc\\td\"}]\n"
#define RAW                                                                                        \
    "a\x1b[2J\x1b]0;title\a\xc2\x9b"                                                               \
    "31m\u202eb\r\nc\td\n"
#define SHOWN "a\\x1b[2J\\x1b]0;title\\x07\\u009b31m\\u202eb\nc\td\n"

static struct run run;
static char seen[RUN_OUTPUT_MAX];

/* Runs belay with a terminal as its standard output, and returns the output. */
static const char *on_terminal(const char *const *arguments)
{
    struct termios modes;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    assert_int_equal(tcgetattr(slave, &modes), 0);
    cfmakeraw(&modes);
    assert_int_equal(tcsetattr(slave, TCSANOW, &modes), 0);
    runner_run_with(&run, arguments, NULL, slave);
    assert_int_equal(fcntl(master, F_SETFL, O_NONBLOCK), 0);
    ssize_t size = read(master, seen, sizeof seen - 1);
    seen[size > 0 ? size : 0] = '\0';
    close(slave);
    close(master);
    return seen;
}
#define ON_TERMINAL(...) on_terminal((const char *const[]){__VA_ARGS__, NULL})

static void an_answer_on_a_terminal_is_shown_escaped(void **state)
{
    (void)state;
    assert_string_equal(
        ON_TERMINAL("run", "hi", "--session", "s", "--provider", stage_script(ANSWER)), SHOWN);
    assert_int_equal(run.exit_code, 0);
    /* The store keeps the text as it was received. */
    ON_TERMINAL("session", "show", "s");
    assert_null(strchr(seen, '\x1b'));
    assert_null(strstr(seen, "\u202e"));
}

static void answer_in_a_pipe_is_not_escaped(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--provider", stage_script(ANSWER));
    assert_string_equal(run.out, RAW);
}

static void json_on_a_terminal_is_whole(void **state)
{
    (void)state;
    ON_TERMINAL("run", "hi", "--json", "--provider", stage_script(ANSWER));
    assert_string_equal(stage_text_at(stage_json(seen), "/turns/0/output"),
                        "a\x1b[2J\x1b]0;title\a\xc2\x9b"
                        "31m\u202eb\r\nc\td");
}

static void prompts_of_a_session_are_shown_escaped(void **state)
{
    (void)state;
    RUN(&run, "run", "hi \x1b[31m\xc2\x9b\u202e", "--session", "s", "--provider",
        stage_script("replies: [{say: x}]"));
    assert_int_equal(run.exit_code, 0);
    ON_TERMINAL("session", "list");
    assert_non_null(strstr(seen, "hi \\x1b[31m"));
    assert_null(strchr(seen, '\x1b'));
    assert_null(strstr(seen, "\xc2\x9b"));
    ON_TERMINAL("session", "show", "s");
    assert_null(strchr(seen, '\x1b'));
}

static void output_of_a_cell_on_a_terminal_is_shown_escaped(void **state)
{
    const char *path = stage_file("cell.js", "text('a\\u001b[2Jb\\u202e')\n");

    (void)state;
    assert_non_null(strstr(ON_TERMINAL("cell", "run", path), "a\\x1b[2Jb\\u202e"));
    assert_null(strchr(seen, '\x1b'));
    RUN(&run, "cell", "run", path);
    assert_non_null(strstr(run.out, "a\x1b[2Jb\u202e"));
}

/* Even if standard error is not a terminal: logs are read on terminals. */
static void warnings_are_always_shown_escaped(void **state)
{
    (void)state;
    RUN(&run, "run", "hi", "--system", "no\x1b[2Jfile\u202e");
    assert_int_not_equal(run.exit_code, 0);
    assert_null(strchr(run.err, '\x1b'));
    assert_null(strstr(run.err, "\u202e"));
    assert_non_null(strstr(run.err, "no\\x1b[2Jfile\\u202e"));
}

SUITE(escape, STAGED(an_answer_on_a_terminal_is_shown_escaped),
      STAGED(answer_in_a_pipe_is_not_escaped), STAGED(json_on_a_terminal_is_whole),
      STAGED(prompts_of_a_session_are_shown_escaped),
      STAGED(output_of_a_cell_on_a_terminal_is_shown_escaped),
      STAGED(warnings_are_always_shown_escaped));
