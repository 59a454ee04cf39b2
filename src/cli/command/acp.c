#include <unistd.h>

#include "cli/run/workplace.h"

enum {
    OPTION_MINIMAL = RUN_OPTION_OWN,
};

const char cli_acp_help[] =
    "Usage: belay acp [OPTION]...\n"
    "\n"
    "Speaks the Agent Client Protocol, version 1, on standard input and output, so\n"
    "that an editor can have belay as its agent: docs/editors.md says how to tell it\n"
    "so. Standard output carries the protocol and nothing else; what there is to say\n"
    "goes to standard error. A prompt that is cancelled is answered when all of it is\n"
    "quiet, with the receipt. When the editor closes standard input, or SIGTERM or\n"
    "Ctrl-C comes, every session is stopped, with all that it runs.\n"
    "\n"
    "Options:\n"
    "      --minimal               send only the kinds of updates of the first\n"
    "                              published schema, for editors that know no "
    "more\n" RUN_SERVING_HELP
    "      --max-budget-usd N      of each prompt: what could cost more is not sent;\n"
    "                              for models whose price is known\n"
    "      --cassette FILE         with --provider replay: answer from such a file\n"
    "      --timeout DURATION      a deadline for each prompt: 90, 90s, 500ms, 2.5m,\n"
    "                              1h\n"
    "      --permission-mode MODE  that sessions begin with: ask (the default: before\n"
    "                              what changes something), auto (what stays in the\n"
    "                              workspace or in the sandbox runs, the rest by a\n"
    "                              rule), read-only, yolo\n" RUN_RULES_HELP RUN_PLACE_HELP
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the editor has left, and nothing ran\n"
    "  1    error: the store or the configuration cannot be used\n"
    "  2    usage error\n"
    "  130  the editor has left, or Ctrl-C came, while something ran\n"
    "  143  ended by SIGTERM\n"
    "\n" RUN_ENVIRONMENT_HELP "Examples:\n"
    "  belay acp\n"
    "  belay acp --model anthropic/claude-sonnet-5 --timeout 30m\n"
    "  belay acp --minimal --provider script:demo.yaml\n";

const struct option cli_acp_options[] = {
    RUN_MEANS_OPTIONS,
    {"minimal", no_argument, NULL, OPTION_MINIMAL},
    {0},
};

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    bool *minimal = context;

    if (option != OPTION_MINIMAL)
        return cli_arguments_refuse(value, error);
    *minimal = true;
    return 0;
}

static int serve(struct serving *serving, int *ret_exit_code, struct bl_error *error)
{
    const bool *minimal = serving->context;
    struct bl_acp_options options = {
        .in = STDIN_FILENO,
        .out = STDOUT_FILENO,
        .workplaces = &serving->workplaces.table,
        .activities = &serving->activities,
        .version = BELAY_VERSION,
        .minimal = *minimal,
    };

    serving_greet(serving, "the Agent Client Protocol (docs/editors.md)");
    return bl_acp_serve(&options, ret_exit_code, error);
}

int cli_acp_run(struct cli_call *call)
{
    struct serving serving = {.call = call, .name = "acp", .serve = serve};
    struct run_options options;
    bool minimal = false;
    int exit_code;

    int code = run_options_parse_serving(call, true, take, &minimal, &options, &serving.error);
    serving.options = &options;
    serving.context = &minimal;
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &serving.error);
    else
        exit_code = serving_do(&serving);
    run_options_done(&options);
    return exit_code;
}
