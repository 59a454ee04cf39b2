#include "stage.h"

static struct run run;

static void people_see_a_table_and_one_session(void **state)
{
    (void)state;
    RUN(&run, "run", "a title", "--session", "s", "--sandbox", "off", "--provider",
        stage_script("replies: [{say: \"one\\ntwo\"}]\n"));
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "session", "list");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.err, "");
    assert_memory_equal(run.out, "ID ", 3);
    assert_int_equal(stage_lines_with(run.out, "a title"), 1);
    RUN(&run, "session", "show", "s");
    assert_memory_equal(run.out, "Session    s\n", 13);
    assert_non_null(strstr(run.out, "Turns      1\n"));
    assert_non_null(strstr(run.out, "  > a title\n    one\n    two\n"));
    RUN(&run, "run", "no more", "--session", "s", "--sandbox", "off", "--max-session-turns", "1");
    assert_int_equal(run.exit_code, 3);
    RUN(&run, "session", "show", "s");
    assert_non_null(strstr(run.out, "\n"
                                    "Attempts, not part of the session:\n"));
    assert_non_null(strstr(run.out, "  rejected: max_turns_reached\n  > no more\n"));
}

static void control_sequences_are_escaped(void **state)
{
    (void)state;
    RUN(&run, "run", "red \x1b[31m\x07 title", "--session", "s", "--sandbox", "off", "--provider",
        stage_script("replies: [{say: \"\\e[2J\"}]\n"));
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "session", "list");
    assert_null(strchr(run.out, '\x1b'));
    assert_null(strchr(run.out, '\x07'));
    RUN(&run, "session", "show", "s");
    assert_null(strchr(run.out, '\x1b'));
}

static void an_empty_directory_points_at_the_others(void **state)
{
    (void)state;
    RUN(&run, "session", "list");
    assert_string_equal(run.out,
                        "No sessions in this directory; --all lists those of all directories.\n");
}

SUITE(session_text, STAGED(people_see_a_table_and_one_session),
      STAGED(control_sequences_are_escaped), STAGED(an_empty_directory_points_at_the_others));
