#include "helpers.h"

extern const struct suite clean_suite, issue_suite, plan_check_suite, plan_find_suite,
    plan_graph_suite, plan_limits_suite, plan_read_suite, plan_suite_suite, plan_task_suite,
    plan_text_suite, player_result_suite, prompt_suite, race_suite, report_suite, row_suite,
    seat_agent_suite, seat_command_suite, stall_suite, state_suite, verdict_suite, verify_suite,
    view_suite;

SUITE_MAIN(&clean_suite, &issue_suite, &plan_check_suite, &plan_find_suite, &plan_graph_suite,
           &plan_limits_suite, &plan_read_suite, &plan_suite_suite, &plan_task_suite,
           &plan_text_suite, &player_result_suite, &prompt_suite, &race_suite, &report_suite,
           &row_suite, &seat_agent_suite, &seat_command_suite, &stall_suite, &state_suite,
           &verdict_suite, &verify_suite, &view_suite)
