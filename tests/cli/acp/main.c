#include "client.h"

extern const struct suite end_suite, input_suite, race_suite, session_suite, stop_suite,
    stream_suite;

SUITE_MAIN(&session_suite, &stop_suite, &race_suite, &stream_suite, &end_suite, &input_suite)
