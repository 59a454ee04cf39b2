#include "run.h"

int run_command(struct cli_call *call,
                int (*run)(struct cli_call *call, const struct run_options *options))
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
        exit_code = run(call, &options);
    run_options_done(&options);
    return exit_code;
}

static int run_prompted(struct cli_call *call, const struct run_options *options)
{
    return run_work_do(call, options, &run_face, NULL);
}

int cli_run_run(struct cli_call *call)
{
    return run_command(call, run_prompted);
}
