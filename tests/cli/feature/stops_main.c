#include "field.h"

extern const struct suite stop_suite, late_suite, ends_suite;

SUITE_MAIN(&stop_suite, &late_suite, &ends_suite)
