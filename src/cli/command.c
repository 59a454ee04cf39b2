#include <stdio.h>
#include <unistd.h>

#include "cli/run/run.h"

const struct cli_command cli_commands[] = {
    {"run", "take a prompt to its end, without a terminal", cli_run_help, RUN_SHORT_OPTIONS,
     cli_run_options, cli_run_run},
    {"chat", "talk with a model in the terminal; also: belay alone", cli_chat_help,
     RUN_SHORT_OPTIONS, cli_chat_options, cli_chat_run},
    {"bootstrap", "report what a session starts with, and run its first turn", cli_bootstrap_help,
     RUN_SHORT_OPTIONS, cli_bootstrap_options, cli_bootstrap_run},
    {"session", "list, show, export, import, fork and delete sessions", cli_session_help, "h",
     cli_session_options, cli_session_run},
    {"route", "say which commands and tools a prompt matches", cli_route_help, "h",
     cli_format_options, cli_route_run},
    {"tools", "list the tools that a model is offered", cli_tools_help, "h", cli_tools_options,
     cli_tools_run},
    {"tool", "show one tool, with its schema", cli_tool_help, "h", cli_tools_options, cli_tool_run},
    {"ps", "show what runs now", cli_ps_help, "h", cli_ps_options, cli_ps_run},
    {"cancel", "stop what runs, by its id, and print the receipt", cli_cancel_help, "h",
     cli_cancel_options, cli_cancel_run},
    {"debug", "print what the process of a run is doing", cli_debug_help, "h", cli_debug_options,
     cli_debug_run},
    {"watch", "show what happens in what runs, until it has ended", cli_watch_help, "h",
     cli_format_options, cli_watch_run},
    {"cell", "run JavaScript in a process of its own; serve such cells to others", cli_cell_help,
     "h", cli_cell_options, cli_cell_run},
    {"feature", "take a plan of tasks to merged work, and stop any part of it", cli_feature_help,
     "fh", cli_feature_options, cli_feature_run},
    {"acp", "be the agent of an editor, by the Agent Client Protocol", cli_acp_help, "h",
     cli_acp_options, cli_acp_run},
    {"mcp", "offer runs and cells to other agents, as an MCP server", cli_mcp_help, "h",
     cli_mcp_options, cli_mcp_run},
    {"hold", "run a command, with a deadline, that leaves nothing behind", cli_hold_help, "h",
     cli_hold_options, cli_hold_run},
    {"script", "serve a scripted model over HTTP, in every provider's format", cli_script_help, "h",
     cli_script_options, cli_script_run},
    {"doctor", "say what this machine offers, and what to do about the rest", cli_doctor_help, "h",
     cli_doctor_options, cli_doctor_run},
    {"help", "explain a command", cli_help_help, "h", cli_help_options, cli_help_run},
    {0},
};

static const struct option program_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {"version", no_argument, NULL, CLI_OPTION_VERSION},
    {0},
};

const struct cli_command *cli_command_find(const char *name, struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (const struct cli_command *command = cli_commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0)
            return command;
        bl_suggestion_offer(&suggestion, command->name);
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "find the command", name, "unknown command '%s'",
                 name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "'belay --help' lists the commands");
    return NULL;
}

static int run_command(struct cli_call *call, const char *name, int count, char **arguments)
{
    struct bl_error error = {0};

    call->command = cli_command_find(name, &error);
    if (call->command == NULL)
        return cli_fail_usage(call, &error);
    call->count = count;
    call->arguments = arguments;
    return call->command->run(call);
}

/* An option of some command that stands before the command's name gets a hint of its own. */
static void hint_misplaced(struct bl_error *error)
{
    for (const struct cli_command *command = cli_commands; command->name != NULL; command++) {
        for (const struct option *option = command->options; option->name != NULL; option++) {
            if (strncmp(error->target, "--", 2) != 0 ||
                strcmp(error->target + 2, option->name) != 0)
                continue;
            error->hint[0] = '\0';
            bl_error_hint(error, "it stands after a command: 'belay %s --%s'", command->name,
                          option->name);
            return;
        }
    }
}

int cli_main(int count, char **arguments)
{
    struct cli_call call = {.asked = cli_format_asked(count, arguments)};
    struct cli_arguments walk;
    struct bl_error error = {0};

    cli_streams_prepare();
    cli_log_open();
    if (count < 2)
        return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
                   ? run_command(&call, "chat", 1, (char *[]){(char[]){"chat"}, NULL})
                   : cli_help_print(&call, NULL);
    /* What users of agent command lines type. */
    if (strcmp(arguments[1], "-p") == 0 || strcmp(arguments[1], "--print") == 0)
        return run_command(&call, "run", count - 1, arguments + 1);
    cli_arguments_init(&walk, count, arguments, "hV", program_options);
    switch (cli_arguments_next(&walk, &error)) {
    case CLI_OPTION_HELP: return cli_help_print(&call, NULL);
    case CLI_OPTION_VERSION: return cli_print(&call, BL_TEXT("belay " BELAY_VERSION "\n"), 0);
    case CLI_ARGUMENT_OPERAND:
        return run_command(&call, arguments[walk.index], count - walk.index,
                           arguments + walk.index);
    case CLI_ARGUMENT_END: return cli_help_print(&call, NULL);
    default: hint_misplaced(&error); return cli_fail_usage(&call, &error);
    }
}
