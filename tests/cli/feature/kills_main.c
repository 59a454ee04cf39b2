#include "field.h"

extern const struct suite kill_suite, resume_suite, signal_suite, limits_suite;

SUITE_MAIN(&kill_suite, &resume_suite, &signal_suite, &limits_suite)
