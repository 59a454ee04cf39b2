#include "suite.h"

#include "cli/cli.h"

static int answer(void *argument)
{
    return *(int *)argument;
}

static void a_fiber_runs_and_what_it_returns_is_the_answer(void **state)
{
    struct bl_error error = {0};
    int code = 0;

    (void)state;
    assert_int_equal(cli_loop_run("test", answer, &code, &error), 0);
    assert_int_equal(error.code, 0);
    code = BL_ENOENT;
    assert_int_equal(cli_loop_run("test", answer, &code, &error), BL_ENOENT);
    assert_int_equal(error.code, BL_ENOENT);
    assert_string_equal(error.operation, "test");
}

SUITE(loop, cmocka_unit_test(a_fiber_runs_and_what_it_returns_is_the_answer));
