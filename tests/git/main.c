#include "suite.h"

extern const struct suite run_suite;

SUITE_MAIN(&run_suite)
