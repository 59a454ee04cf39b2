#include "suite.h"

extern const struct suite edit_line_suite, edit_resize_suite, edit_screen_suite, edit_vim_suite,
    highlight_suite, history_suite, keys_suite, markdown_guard_suite, markdown_suite, style_suite,
    terminal_suite, width_suite, wrap_suite;

SUITE_MAIN(&width_suite, &style_suite, &wrap_suite, &highlight_suite, &keys_suite, &edit_line_suite,
           &edit_screen_suite, &edit_vim_suite, &edit_resize_suite, &history_suite, &terminal_suite,
           &markdown_suite, &markdown_guard_suite)
