#include "run.h"

const char cli_run_help[] =
    "Usage: belay run [OPTION]... [PROMPT|-]\n"
    "       belay -p PROMPT [OPTION]...\n"
    "\n"
    "Takes PROMPT to its end, without a terminal: one loop of turns, then exit.\n"
    "Without PROMPT, or with '-', it is read from standard input. The answer of each\n"
    "completed turn goes to standard output; after a stop the receipt, as one line,\n"
    "to standard error. Ctrl-C and SIGTERM stop it, and a second one skips the graces\n"
    "of what is being stopped; so do SIGHUP, unless it was ignored at the start, and\n"
    "a reader of standard output that goes away. A turn is committed to its session\n"
    "whole, or not at all.\n"
    "\n"
    "Options:\n" RUN_SHARED_HELP "      --max-turns N           turns of this loop (default: 8)\n"
    "      --continuation-prompt TEXT\n"
    "                              the prompt of each further turn; without it there\n"
    "                              is one turn\n"
    "      --output-format FORMAT  text (the default), json: one line at the end, as\n"
    "                              in docs/schemas/run.json, stream-json: every event\n"
    "                              as it happens, and that line as the last\n"
    "      --json                  the same as --output-format json\n" RUN_ENDING_HELP "Examples:\n"
    "  belay run 'say hello'\n"
    "  git diff | belay run --timeout 5m --provider script:review.yaml -\n"
    "  belay -p 'go on' --continue --json\n"
    "  belay run --output-format stream-json --max-turns 20 \\\n"
    "      --continuation-prompt 'go on until all tests pass' 'fix the build'\n";

const struct option cli_run_options[] = {
    RUN_SHARED_OPTIONS,
    {"max-turns", required_argument, NULL, RUN_OPTION_MAX_TURNS},
    {"continuation-prompt", required_argument, NULL, RUN_OPTION_CONTINUATION_PROMPT},
    {0},
};

int cli_run_run(struct cli_call *call)
{
    struct run_options options;
    struct bl_error error = {0};
    int exit_code;

    int code = run_options_parse(call, true, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = run_work_do(call, &options, &run_face, NULL);
    run_options_done(&options);
    return exit_code;
}
