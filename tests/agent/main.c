#include "suite.h"

extern const struct suite history_suite, instructions_suite, provider_suite, route_suite, run_suite,
    spent_suite;

SUITE_MAIN(&history_suite, &instructions_suite, &provider_suite, &route_suite, &run_suite,
           &spent_suite)
