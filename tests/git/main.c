#include "suite.h"

extern const struct suite config_suite, run_suite;

SUITE_MAIN(&config_suite, &run_suite)
