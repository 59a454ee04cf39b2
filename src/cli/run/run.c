#include "run.h"

int cli_run_run(struct cli_call *call)
{
    struct run_options options;
    struct bl_error error = {0};
    int exit_code;

    int code = run_options_parse(call, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = run_work_do(call, &options, &run_face, NULL);
    run_options_done(&options);
    return exit_code;
}
