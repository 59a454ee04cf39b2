#include "suite.h"

extern const struct suite worker_suite, globals_suite, escape_suite, source_suite;

SUITE_MAIN(&worker_suite, &globals_suite, &escape_suite, &source_suite)
