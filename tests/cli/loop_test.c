#include "suite.h"

#include "cli/cli.h"

static int answer(void *argument)
{
    return *(int *)argument;
}

static void loop_returns_the_result_of_the_fiber(void **state)
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

SUITE(loop, cmocka_unit_test(loop_returns_the_result_of_the_fiber));
