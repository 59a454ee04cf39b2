#include "left.h"

extern const struct suite program_suite, acp_suite, feature_suite, mcp_suite;

SUITE_MAIN(&program_suite, &acp_suite, &feature_suite, &mcp_suite)
