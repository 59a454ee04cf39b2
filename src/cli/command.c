#include <unistd.h>

#include "cli/cli.h"
#include "cli/command/hold.h"
#include "cli/table/commands.h"

static const struct command_entry {
    const struct cli_command *command;
    int (*run)(struct cli_call *call);
} entries[] = {
    {&cli_run_command, cli_run_run},
    {&cli_chat_command, cli_chat_run},
    {&cli_bootstrap_command, cli_bootstrap_run},
    {&cli_session_command, cli_session_run},
    {&cli_commands_command, cli_commands_run},
    {&cli_route_command, cli_route_run},
    {&cli_tools_command, cli_tools_run},
    {&cli_tool_command, cli_tool_run},
    {&cli_ps_command, cli_ps_run},
    {&cli_inject_command, cli_inject_run},
    {&cli_cancel_command, cli_cancel_run},
    {&cli_debug_command, cli_debug_run},
    {&cli_watch_command, cli_watch_run},
    {&cli_cell_command, cli_cell_run},
    {&cli_feature_command, cli_feature_run},
    {&cli_fleet_command, cli_fleet_run},
    {&cli_submit_command, cli_submit_run},
    {&cli_wait_command, cli_wait_run},
    {&cli_worker_command, cli_worker_run},
    {&cli_acp_command, cli_acp_run},
    {&cli_mcp_command, cli_mcp_run},
    {&cli_hold_command, cli_hold_run},
    {&cli_init_command, cli_init_run},
    {&cli_config_command, cli_config_run},
    {&cli_login_command, cli_login_run},
    {&cli_logout_command, cli_logout_run},
    {&cli_script_command, cli_script_run},
    {&cli_doctor_command, cli_doctor_run},
    {&cli_help_command, cli_help_run},
    {&cli_version_command, cli_version_run},
};

static const struct command_entry *command_find(const char *name, struct bl_error *error)
{
    struct bl_suggestion suggestion;
    BL_AUTO_ARENA(arena);
    const char *shown = cli_word_shown(&arena, name);

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < BL_COUNT(entries); i++) {
        if (strcmp(entries[i].command->name, name) == 0)
            return &entries[i];
        bl_suggestion_offer(&suggestion, entries[i].command->name);
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "find the command", shown, "unknown command '%s'",
                 shown);
    const char *ours = cli_other_name(&cli_program_command, name);
    if (ours != NULL)
        bl_error_hint(error, "use '%s'", ours);
    else if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "'belay --help' lists the commands; for a prompt of one word write "
                             "'belay -- WORD'");
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

/* Replaces the hint if a command's option precedes the command's name. */
static void hint_misplaced(struct bl_error *error)
{
    bool is_long = strncmp(error->target, "--", 2) == 0;

    for (size_t i = 0; i < BL_COUNT(entries) && is_long; i++) {
        if (!cli_command_has_option(entries[i].command, error->target + 2))
            continue;
        error->hint[0] = '\0';
        bl_error_hint(error, "options follow the command: 'belay %s %s'", entries[i].command->name,
                      error->target);
        return;
    }
}

static bool at_terminal(void)
{
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

/* No command has a blank in its name. A prompt of one word must follow "--", so that a mistyped
 * command is not taken for a prompt. */
static bool is_prompt(const char *word)
{
    return word[strcspn(word, " \t\n")] != '\0';
}

/* `words` begin with the prompt. On a terminal it starts a chat, otherwise a run. */
static int run_prompt(struct cli_call *call, int count, char **words)
{
    static char chat[] = "chat", run[] = "run";
    char *name = at_terminal() && call->asked == CLI_FORMAT_TEXT ? chat : run;
    char **arguments = bl_alloc(((size_t)count + 2) * sizeof *arguments);

    arguments[0] = name;
    memcpy(arguments + 1, words, (size_t)count * sizeof *words);
    arguments[count + 1] = NULL;
    int exit_code = run_command(call, name, count + 1, arguments);
    bl_free(arguments);
    return exit_code;
}

/* For a call by the name of timeout(1). */
static int run_as_timeout(struct cli_call *call, int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "--version") == 0)
        return cli_print(call, BL_TEXT("timeout (belay " BELAY_VERSION ")\n"), 0);
    return run_command(call, "hold", count, arguments);
}

/* `belay -c` and `belay -r ID` are options of chat. */
static bool names_session(const char *word)
{
    return strcmp(word, "-c") == 0 || strcmp(word, "--continue") == 0 ||
           strncmp(word, "-r", 2) == 0 || strcmp(word, "--resume") == 0 ||
           strncmp(word, "--resume=", sizeof "--resume=" - 1) == 0;
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
    if (count > 0 && hold_is_timeout(arguments[0]))
        return run_as_timeout(&call, count, arguments);
    if (count < 2)
        return at_terminal() ? run_command(&call, "chat", 1, (char *[]){(char[]){"chat"}, NULL})
                             : cli_help_print(&call, NULL);
    /* Common in the command lines of other agents. */
    if (strcmp(arguments[1], "-p") == 0 || strcmp(arguments[1], "--print") == 0)
        return run_command(&call, "run", count - 1, arguments + 1);
    if (names_session(arguments[1]))
        return run_command(&call, "chat", count, arguments);
    if (strcmp(arguments[1], "__complete") == 0)
        return cli_complete_run(count - 2, arguments + 2);
    int code = cli_options_read(&program, &options, NULL, &error);
    if (code < 0) {
        hint_misplaced(&error);
        return cli_fail_usage(&call, &error);
    }
    if (options.version)
        return cli_version_print(&call);
    if (code == CLI_OPTION_HELP || program.rest == NULL)
        return cli_help_print(&call, NULL);
    int left = count - (int)(program.rest - arguments);
    bool marked = strcmp(program.rest[-1], "--") == 0;
    if (!marked && !is_prompt(program.rest[0]))
        return run_command(&call, program.rest[0], left, program.rest);
    return run_prompt(&call, left + marked, program.rest - marked);
}
