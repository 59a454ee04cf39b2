#include "suite.h"

extern const struct suite chat_suite, chat_call_suite, chat_command_suite, chat_draw_suite,
    chat_input_suite, chat_lines_suite, chat_view_suite, feature_display_suite, status_suite,
    serving_suite;

SUITE_MAIN(&feature_display_suite, &status_suite, &chat_view_suite, &chat_suite, &chat_call_suite,
           &chat_command_suite, &chat_draw_suite, &chat_input_suite, &chat_lines_suite,
           &serving_suite)
