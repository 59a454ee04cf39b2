#include "hold.h"

/* Reports a usage error in the format requested anywhere on the command line. */
static int fail_usage(struct cli_call *call, struct bl_error *error)
{
    call->format = call->asked;
    error->kind = BL_KIND_USAGE;
    return hold_fail(call, error, HOLD_EXIT_FAILED);
}

int cli_hold_run(struct cli_call *call)
{
    struct hold_options options = {.grace_ms = BL_GRACE_MS_DEFAULT};
    struct hold_outcome outcome;
    struct bl_error error = {0};

    options.as_timeout = hold_is_timeout(call->arguments[0]);
    int code = cli_options_read(call, &options, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0)
        code = hold_options_settle(call, &options, &error);
    if (code != 0)
        return fail_usage(call, &error);
    hold_outcome_init(&outcome);
    hold_run(&options, &outcome);
    int exit_code = hold_report(call, &options, &outcome);
    hold_outcome_done(&outcome);
    return exit_code;
}
