#include "field.h"

extern const struct suite judge_suite, merge_suite, refuse_suite, trace_suite;

SUITE_MAIN(&judge_suite, &merge_suite, &refuse_suite, &trace_suite)
