#include "suite.h"

extern const struct suite descriptor_suite, fiber_suite, lock_suite, loop_suite, receipt_suite,
    scope_suite, signal_suite, simulation_suite, timer_suite, work_suite;

SUITE_MAIN(&timer_suite, &scope_suite, &fiber_suite, &lock_suite, &descriptor_suite, &signal_suite,
           &work_suite, &loop_suite, &receipt_suite, &simulation_suite)
