#include <unistd.h>

#include "cli/cli.h"
#include "cli/table/commands.h"

static const struct command_entry {
    const struct cli_command *command;
    int (*run)(struct cli_call *call);
} entries[] = {
    {&cli_run_command, cli_run_run},
    {&cli_chat_command, cli_chat_run},
    {&cli_bootstrap_command, cli_bootstrap_run},
    {&cli_session_command, cli_session_run},
    {&cli_route_command, cli_route_run},
    {&cli_tools_command, cli_tools_run},
    {&cli_tool_command, cli_tool_run},
    {&cli_ps_command, cli_ps_run},
    {&cli_cancel_command, cli_cancel_run},
    {&cli_debug_command, cli_debug_run},
    {&cli_watch_command, cli_watch_run},
    {&cli_cell_command, cli_cell_run},
    {&cli_feature_command, cli_feature_run},
    {&cli_acp_command, cli_acp_run},
    {&cli_mcp_command, cli_mcp_run},
    {&cli_hold_command, cli_hold_run},
    {&cli_script_command, cli_script_run},
    {&cli_doctor_command, cli_doctor_run},
    {&cli_help_command, cli_help_run},
};

static const struct command_entry *command_find(const char *name, struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < BL_COUNT(entries); i++) {
        if (strcmp(entries[i].command->name, name) == 0)
            return &entries[i];
        bl_suggestion_offer(&suggestion, entries[i].command->name);
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "find the command", name, "unknown command '%s'",
                 name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "'belay --help' lists the commands");
    return NULL;
}

const struct cli_command *cli_command_find(const char *name, struct bl_error *error)
{
    const struct command_entry *entry = command_find(name, error);

    return entry != NULL ? entry->command : NULL;
}

static int run_command(struct cli_call *call, const char *name, int count, char **arguments)
{
    struct bl_error error = {0};
    const struct command_entry *entry = command_find(name, &error);

    if (entry == NULL)
        return cli_fail_usage(call, &error);
    call->command = entry->command;
    call->count = count;
    call->arguments = arguments;
    return entry->run(call);
}

/* A command has the option whose name this is. */
static bool command_has_option(const struct cli_command *command, const char *name)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;

    while ((row = cli_option_next(command->options, &cursor)) != NULL) {
        if (strcmp(row->name, name) == 0)
            return true;
    }
    return false;
}

/* An option of some command that stands before the command's name gets a hint of its own. */
static void hint_misplaced(struct bl_error *error)
{
    bool is_long = strncmp(error->target, "--", 2) == 0;

    for (size_t i = 0; i < BL_COUNT(entries) && is_long; i++) {
        if (!command_has_option(entries[i].command, error->target + 2))
            continue;
        error->hint[0] = '\0';
        bl_error_hint(error, "options follow the command: 'belay %s %s'", entries[i].command->name,
                      error->target);
        return;
    }
}

int cli_main(int count, char **arguments)
{
    struct cli_call call = {.asked = cli_format_asked(count, arguments)};
    struct cli_call program = {
        .command = &cli_program_command, .count = count, .arguments = arguments};
    struct program_options options = {0};
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
    if (strcmp(arguments[1], "__complete") == 0)
        return cli_complete_run(count - 2, arguments + 2);
    int code = cli_options_read(&program, &options, NULL, &error);
    if (code < 0) {
        hint_misplaced(&error);
        return cli_fail_usage(&call, &error);
    }
    if (options.version)
        return cli_print(&call, BL_TEXT("belay " BELAY_VERSION "\n"), 0);
    if (code == CLI_OPTION_HELP || program.rest == NULL)
        return cli_help_print(&call, NULL);
    return run_command(&call, program.rest[0], count - (int)(program.rest - arguments),
                       program.rest);
}
