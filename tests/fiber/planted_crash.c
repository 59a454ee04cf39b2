/* A crash in a fiber, in a test: a build with a sanitizer must end with the stack in its report. */
#include "fibers.h"

static int planted_crash_here(void *argument)
{
    static volatile int *volatile nowhere;
    (void)argument;
    *nowhere = 1;
    return CHECK(nowhere == NULL);
}

static void crashes(void **state)
{
    (void)state;
    run_in_loop(planted_crash_here, NULL);
}

SUITE(planted, cmocka_unit_test(crashes));
SUITE_MAIN(&planted_suite)
