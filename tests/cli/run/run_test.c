#include "stage.h"

static struct run run;

static void help_is_printed_despite_other_options(void **state)
{
    (void)state;
    RUN(&run, "run", "--max-turns", "3", "x", "--help");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "Usage: belay run ", 17);
    assert_false(stage_exists(stage_path("data/belay")));
}

static void the_help_names_every_exit_code_and_variable(void **state)
{
    static const char *const parts[] = {
        "\n  0    ", "\n  1    ",      "\n  2    ",   "\n  3    ",   "\n  124  ",      "\n  130  ",
        "\n  143  ", "BELAY_PROVIDER", "BELAY_MODEL", "BELAY_STORE", "belay -p PROMPT"};

    (void)state;
    RUN(&run, "help", "run");
    for (size_t i = 0; i < BL_COUNT(parts); i++)
        assert_non_null(strstr(run.out, parts[i]));
}

static void a_run_needs_nothing_but_a_prompt(void **state)
{
    (void)state;
    RUN(&run, "run", "hello");
    assert_int_equal(run.exit_code, 0);
    assert_true(stage_exists(stage_path("data/belay/sessions.db")));
}

SUITE(run, STAGED(help_is_printed_despite_other_options),
      STAGED(the_help_names_every_exit_code_and_variable),
      STAGED(a_run_needs_nothing_but_a_prompt));
