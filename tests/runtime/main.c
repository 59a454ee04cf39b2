#include "suite.h"

extern const struct suite runtime_suite, workspace_suite;

SUITE_MAIN(&workspace_suite, &runtime_suite)
