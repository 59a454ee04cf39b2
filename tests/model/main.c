#include "suite.h"

extern const struct suite retry_suite;
extern const struct suite script_suite;
extern const struct suite script_load_suite;
extern const struct suite script_parse_suite;
extern const struct suite script_value_suite;

SUITE_MAIN(&retry_suite, &script_value_suite, &script_parse_suite, &script_load_suite,
           &script_suite)
