#include "feature.h"

static int feature_perform(const struct feature_options *options)
{
    switch (options->verb) {
    case FEATURE_NEW: return feature_new_command(options);
    case FEATURE_VALIDATE: return feature_validate_command(options);
    case FEATURE_RUN:
    case FEATURE_RESUME:
    case FEATURE_RETRY: return feature_run_command(options);
    case FEATURE_STATUS: return feature_status_command(options);
    case FEATURE_LIST: return feature_list_command(options);
    case FEATURE_LOGS: return feature_logs_command(options);
    case FEATURE_CANCEL:
    case FEATURE_PAUSE:
    case FEATURE_EXTEND: return feature_ask_command(options, NULL);
    case FEATURE_CLEAN: return feature_clean_command(options);
    case FEATURE_REPORT: return feature_report_command(options);
    }
    return CLI_EXIT_USAGE;
}

int cli_feature_run(struct cli_call *call)
{
    struct feature_options options;
    struct bl_error error = {0};
    int exit_code;

    int code = feature_options_read(call, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = feature_perform(&options);
    feature_options_done(&options);
    return exit_code;
}
