#include "suite.h"

extern const struct suite server_suite, server_limit_suite, server_bad_suite, reconnect_suite,
    lossy_suite;

SUITE_MAIN(&server_suite, &server_limit_suite, &server_bad_suite, &reconnect_suite, &lossy_suite)
