#include "suite.h"

extern const struct suite instructions_suite, route_suite, run_suite;

SUITE_MAIN(&instructions_suite, &route_suite, &run_suite)
