#include "suite.h"

extern const struct suite sha256_suite, arena_suite, buffer_suite, clock_suite, error_suite,
    file_suite, list_suite, log_suite, map_suite, pattern_line_suite, pattern_suite, random_suite,
    show_suite, suggest_suite, text_suite, utf8_suite;

SUITE_MAIN(&sha256_suite, &arena_suite, &buffer_suite, &clock_suite, &error_suite, &file_suite,
           &list_suite, &log_suite, &map_suite, &pattern_suite, &pattern_line_suite, &random_suite,
           &show_suite, &suggest_suite, &text_suite, &utf8_suite)
