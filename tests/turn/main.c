#include "suite.h"

extern const struct suite answer_suite, background_suite, nested_suite, compact_suite,
    conversation_suite, engine_suite, event_suite, inbox_suite, keep_suite, loop_suite,
    parallel_suite, permission_suite, race_suite, room_suite, session_suite, simulation_suite,
    steps_suite, structure_suite;

SUITE_MAIN(&answer_suite, &nested_suite, &background_suite, &conversation_suite, &engine_suite,
           &steps_suite, &structure_suite, &event_suite, &keep_suite, &loop_suite, &race_suite,
           &room_suite, &session_suite, &inbox_suite, &parallel_suite, &permission_suite,
           &compact_suite, &simulation_suite)
