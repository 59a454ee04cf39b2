#include "suite.h"

extern const struct suite mcp_stdio_suite, mcp_http_suite, hostile_suite;

SUITE_MAIN(&mcp_stdio_suite, &mcp_http_suite, &hostile_suite)
