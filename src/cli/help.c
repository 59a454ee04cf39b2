#include "cli.h"

#define HELP_MAX ((size_t)64 * 1024)

const char cli_help_help[] =
    "Usage: belay help [COMMAND]\n"
    "\n"
    "Explains COMMAND: its usage, options, exit codes, and examples. Without one,\n"
    "lists the commands. The same as 'belay COMMAND --help' and 'belay --help'.\n"
    "\n"
    "Options:\n"
    "  -h, --help    print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the help was printed\n"
    "  1    standard output could not be written\n"
    "  2    usage error: an unknown option or command\n"
    "  130  whoever read standard output is gone\n"
    "\n"
    "Examples:\n"
    "  belay help\n"
    "  belay help doctor\n";

const struct option cli_help_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

static const char program_usage[] =
    "Usage: belay COMMAND [OPTION]... [ARGUMENT]...\n"
    "       belay -p PROMPT [OPTION]...\n"
    "       belay help [COMMAND]\n"
    "       belay --version\n"
    "\n"
    "Runs LLM agents that stop when they are told to, and proves that they stopped.\n"
    "\n"
    "Commands:\n";

static const char program_details[] =
    "\n"
    "Options:\n"
    "  -h, --help     print this help\n"
    "  -V, --version  print the version\n"
    "\n"
    "'belay help COMMAND' or 'belay COMMAND --help' explains a command.\n"
    "\n"
    "Exit codes:\n"
    "  0    done\n"
    "  1    something failed\n"
    "  2    usage error\n"
    "  3    a limit was reached (run, bootstrap, feature)\n"
    "  124  the deadline was reached (run, bootstrap, cell run, feature, hold)\n"
    "  130  stopped, or whoever read standard output is gone\n"
    "  143  stopped by SIGTERM (run, bootstrap, cell, feature, hold)\n"
    "\n"
    "Environment:\n"
    "  BELAY_PROVIDER, BELAY_MODEL  who answers, where no option says it\n"
    "  BELAY_STORE                  where sessions are kept, where no option says it\n"
    "  NO_COLOR                     when set and not empty: no colours\n"
    "\n"
    "Examples:\n"
    "  belay -p 'say hello'   one prompt, one answer\n"
    "  belay session list     what was said before in this directory\n"
    "  belay doctor           what this machine offers\n"
    "  belay doctor --json    the same, for programs\n"
    "  belay help doctor\n";

int cli_help_print(struct cli_call *call, const struct cli_command *command)
{
    struct bl_buffer out;

    if (command != NULL)
        return cli_print(call, bl_text_from(command->help), CLI_EXIT_OK);
    bl_buffer_init(&out, HELP_MAX);
    bl_buffer_append(&out, bl_text_from(program_usage));
    for (const struct cli_command *row = cli_commands; row->name != NULL; row++)
        bl_buffer_printf(&out, "  %-10s %s\n", row->name, row->summary);
    bl_buffer_append(&out, bl_text_from(program_details));
    int exit_code = cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
    bl_buffer_done(&out);
    return exit_code;
}

int cli_help_run(struct cli_call *call)
{
    const struct cli_command *topic = NULL;
    struct cli_arguments walk;
    struct bl_error error = {0};

    cli_arguments_init(&walk, call->count, call->arguments, call->command->short_options,
                       call->command->options);
    for (;;) {
        int found = cli_arguments_next(&walk, &error);
        if (found == CLI_ARGUMENT_END)
            return cli_help_print(call, topic);
        if (found == CLI_OPTION_HELP)
            return cli_help_print(call, call->command);
        if (found == CLI_ARGUMENT_OPERAND && topic == NULL)
            topic = cli_command_find(walk.value, &error);
        else if (found == CLI_ARGUMENT_OPERAND)
            cli_arguments_refuse(walk.value, &error);
        if (error.code != 0)
            return cli_fail_usage(call, &error);
    }
}
