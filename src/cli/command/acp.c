#include <unistd.h>

#include "cli/run/serving.h"

static int command_acp_serve(struct serving *serving, int *ret_exit_code, struct bl_error *error)
{
    const struct acp_options *acp = serving->context;
    struct bl_acp_options options = {
        .in = STDIN_FILENO,
        .out = STDOUT_FILENO,
        .runtime = &serving->runtime,
        .activities = &serving->activities,
        .version = BELAY_VERSION,
        .minimal = acp->minimal,
    };

    serving_greet(serving, "the Agent Client Protocol (docs/editors.md)");
    return bl_acp_serve(&options, ret_exit_code, error);
}

int cli_acp_run(struct cli_call *call)
{
    struct serving serving = {.call = call, .name = "acp", .serve = command_acp_serve};
    struct acp_options options = {0};
    int exit_code;

    int code = run_options_parse_serving(call, true, &options.run, &serving.error);
    serving.options = &options.run;
    serving.context = &options;
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &serving.error);
    else
        exit_code = serving_do(&serving);
    run_options_done(&options.run);
    return exit_code;
}
