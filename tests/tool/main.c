#include <stdlib.h>

#include "box.h"

extern const struct suite activity_suite, bash_suite, command_suite, differential_suite,
    guard_suite, edit_suite, find_suite, glob_suite, grep_suite, hook_suite, ignore_suite,
    job_suite, ls_suite, mcp_config_suite, mcp_http_suite, mcp_list_suite, mcp_name_suite,
    mcp_result_suite, mcp_stop_suite, mcp_suite, output_suite, path_suite, permission_suite,
    read_suite, sandbox_suite, todo_suite, toolbox_suite, walk_suite, write_suite, fetch_suite,
    html_suite;

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {
        &activity_suite,   &glob_suite,         &output_suite,     &command_suite,
        &guard_suite,      &differential_suite, &permission_suite, &path_suite,
        &read_suite,       &write_suite,        &edit_suite,       &ls_suite,
        &sandbox_suite,    &todo_suite,         &ignore_suite,     &walk_suite,
        &find_suite,       &grep_suite,         &hook_suite,       &job_suite,
        &toolbox_suite,    &bash_suite,         &mcp_name_suite,   &mcp_result_suite,
        &mcp_config_suite, &mcp_list_suite,     &mcp_suite,        &mcp_stop_suite,
        &mcp_http_suite,   &html_suite,         &fetch_suite};
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return toolbox_role();
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
