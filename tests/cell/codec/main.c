#include "suite.h"

extern const struct suite codec_suite, golden_suite, request_suite, union_suite;

SUITE_MAIN(&codec_suite, &golden_suite, &request_suite, &union_suite)
