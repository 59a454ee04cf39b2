#include "suite.h"

extern const struct suite chat_suite, chat_call_suite, chat_command_suite, chat_draw_suite,
    chat_input_suite, chat_lines_suite, chat_view_suite, edit_line_suite, edit_resize_suite,
    edit_screen_suite, feature_display_suite, history_suite, keys_suite, markdown_guard_suite,
    markdown_suite, status_suite, terminal_suite, width_suite, workplace_suite, wrap_suite;

SUITE_MAIN(&width_suite, &wrap_suite, &keys_suite, &edit_line_suite, &edit_screen_suite,
           &edit_resize_suite, &feature_display_suite, &history_suite, &terminal_suite,
           &markdown_suite, &markdown_guard_suite, &status_suite, &chat_view_suite, &chat_suite,
           &chat_call_suite, &chat_command_suite, &chat_draw_suite, &chat_input_suite,
           &chat_lines_suite, &workplace_suite)
