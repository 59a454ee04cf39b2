#include "suite.h"

extern const struct suite exec_stop_suite, wait_suite, exec_suite, ask_suite, history_suite,
    hook_suite, inject_suite, instructions_suite, limits_suite, mcp_suite, persona_suite,
    prompt_suite, provider_suite, route_suite, run_suite, settings_suite, skill_suite, spent_suite,
    task_suite, tree_suite, valid_suite;

SUITE_MAIN(&exec_stop_suite, &wait_suite, &exec_suite, &history_suite, &instructions_suite,
           &persona_suite, &skill_suite, &prompt_suite, &settings_suite, &provider_suite,
           &route_suite, &run_suite, &spent_suite, &task_suite, &inject_suite, &ask_suite,
           &hook_suite, &limits_suite, &mcp_suite, &tree_suite, &valid_suite)
