#include "suite.h"

extern const struct suite mcp_stdio_suite, mcp_http_suite, mcp_elsewhere_suite, mcp_cell_suite,
    hostile_suite;

SUITE_MAIN(&mcp_stdio_suite, &mcp_http_suite, &mcp_elsewhere_suite, &mcp_cell_suite, &hostile_suite)
