/* Errors for users: the kinds of the JSON envelope, and the exit codes. */
#include <belay/base.h>

#include "commands.h"

/* The exit code of a command that could not start, or that failed without a result. */
const struct cli_error_kind cli_error_kinds[] = {
    [BL_KIND_UNKNOWN] = {CLI_EXIT_FAILED, "The cause is unknown."},
    [BL_KIND_FILESYSTEM] = {CLI_EXIT_FAILED, "A file or folder could not be read or written."},
    [BL_KIND_AUTH] = {CLI_EXIT_FAILED,
                      "There is no key for the provider, or the provider rejected it."},
    [BL_KIND_SESSION] = {CLI_EXIT_FAILED,
                         "A session, a run or the store was not found, is in use or is damaged."},
    [BL_KIND_PARSE] = {CLI_EXIT_FAILED,
                       "A file or a message is malformed; the error names the place."},
    [BL_KIND_RUNTIME] = {CLI_EXIT_FAILED,
                         "The system refused an operation that belay needs, or belay failed."},
    [BL_KIND_MCP] = {CLI_EXIT_FAILED, "An MCP server could not be started, or its call failed."},
    [BL_KIND_DELIVERY] =
        {CLI_EXIT_FAILED,
         "Another belay process could not be reached, or exited without an answer."},
    [BL_KIND_USAGE] = {CLI_EXIT_USAGE, "The command line or one of its values is invalid."},
    [BL_KIND_POLICY] = {CLI_EXIT_FAILED, "A permission or a budget does not allow it."},
    [BL_KIND_PROVIDER] = {CLI_EXIT_FAILED, "The model's provider refused the call or failed."},
    [BL_KIND_PROVIDER_TIMEOUT] = {CLI_EXIT_FAILED, "The model's provider did not answer in time."},
    [BL_KIND_TOOL] = {CLI_EXIT_FAILED, "A tool was not found, or its call failed."},
    [BL_KIND_CELL] = {CLI_EXIT_FAILED, "A cell failed, or its host refused the request."},
    [BL_KIND_FEATURE] = {CLI_EXIT_FAILED, "A feature, a plan or a task cannot be processed."},
};

#define KIND_COUNT(name, text) +1
_Static_assert(sizeof cli_error_kinds / sizeof cli_error_kinds[0] ==
                   0 BL_ERROR_KIND_TABLE(KIND_COUNT),
               "each kind has a row");
#undef KIND_COUNT

#define EXIT_ROW(name, code, meaning) {code, meaning},
const struct cli_exit_row cli_exit_rows[] = {CLI_EXIT_TABLE(EXIT_ROW){-1, NULL}};
#undef EXIT_ROW
