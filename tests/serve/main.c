#include <stdlib.h>

#include "place.h"

extern const struct suite acp_content_suite, acp_update_suite;
extern const struct suite mcp_task_suite, mcp_tools_suite, mcp_version_suite;
extern const struct suite mcp_http_header_suite, mcp_http_session_suite, mcp_http_stream_suite,
    mcp_http_suite;
extern const struct suite answer_suite, ask_suite, control_suite, control_id_suite,
    control_watch_suite, folder_suite, offer_suite, request_suite;

/* In mcp/task_test.c: another process that serves. */
int mcp_role(const char *folder);

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {
        &acp_content_suite,     &acp_update_suite, &mcp_http_header_suite,
        &mcp_http_stream_suite, &mcp_http_suite,   &mcp_http_session_suite,
        &mcp_version_suite,     &mcp_tools_suite,  &mcp_task_suite,
        &folder_suite,          &control_id_suite, &control_watch_suite,
        &request_suite,         &control_suite,    &ask_suite,
        &offer_suite,           &answer_suite};
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return role_main(argument_count, arguments);
    if (argument_count > 2 && strcmp(arguments[1], "--mcp-role") == 0)
        return mcp_role(arguments[2]);
    return suite_main(argument_count, arguments, suites, BL_COUNT(suites));
}
