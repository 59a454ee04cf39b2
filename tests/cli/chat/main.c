#include "suite.h"

extern const struct suite chat_suite, chat_call_suite, chat_command_suite, chat_draw_suite,
    chat_input_suite, chat_lines_suite, chat_look_suite, chat_session_suite, chat_steer_suite,
    chat_view_suite, feature_display_suite, run_progress_suite, status_suite, serving_suite,
    chat_context_suite, chat_login_suite;

SUITE_MAIN(&chat_suite, &chat_call_suite, &chat_command_suite, &chat_draw_suite, &chat_input_suite,
           &chat_lines_suite, &chat_look_suite, &chat_session_suite, &chat_steer_suite,
           &chat_view_suite, &feature_display_suite, &run_progress_suite, &status_suite,
           &serving_suite, &chat_context_suite, &chat_login_suite)
