#include "suite.h"

extern const struct suite conversation_suite, engine_suite, event_suite, keep_suite, loop_suite,
    race_suite, session_suite, simulation_suite;

SUITE_MAIN(&conversation_suite, &engine_suite, &event_suite, &keep_suite, &loop_suite, &race_suite,
           &session_suite, &simulation_suite)
