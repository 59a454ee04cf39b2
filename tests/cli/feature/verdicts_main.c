#include "field.h"

extern const struct suite judge_suite, merge_suite, new_suite, refuse_suite, trace_suite,
    truth_suite, validate_suite;

SUITE_MAIN(&judge_suite, &merge_suite, &new_suite, &refuse_suite, &trace_suite, &truth_suite,
           &validate_suite)
