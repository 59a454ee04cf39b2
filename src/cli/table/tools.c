/* tools, commands, tool and route: commands that list tools and slash commands. */
#include "cli/command/tools.h"
#include "commands.h"

#define TOOLS_ROWS                                                                                 \
    CLI_MCP_CONFIG_ROW(struct tools_options, files, file_count),                                   \
        CLI_TRUST_MCP_ROW(struct tools_options, trust_mcp)

/* ---- tools ----------------------------------------------------------------------------------- */

static const struct cli_option tools_options[] = {
    TOOLS_ROWS,
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/tools.json."),
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_tools_command = {
    .name = "tools",
    .summary = "list the tools that the model is offered",
    .about = "Lists the tools that the model is offered in this folder, with their descriptions, "
             "and the MCP servers that provide some of them. The servers are started for this; a "
             "server that offers nothing is listed with the reason. `belay tool NAME` shows the "
             "schema of one tool.",
    .detail =
        "The built-in tools are `bash`, `read`, `write`, `edit`, `glob`, `grep`, `ls`, "
        "`todo`, `fetch`, `task` (which names the kinds of sub-agents in this folder), `exec` and "
        "`wait`.",
    .options = tools_options,
    .exits =
        "0\tthe list was printed\n"
        "1\ta file cannot be read, or standard output could not be written\n" CLI_EXIT_USAGE_TEXT
            CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay tools\n"
                "    belay tools --json\n"
                "    belay tools --mcp-config servers.json",
    .see = "mcp run tool",
};

/* ---- commands -------------------------------------------------------------------------------- */

static const struct cli_option commands_options[] = {
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/commands.json."),
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_commands_command = {
    .name = "commands",
    .summary = "list the slash commands of chat",
    .about = "Lists the slash commands of `belay chat` in this folder, with their descriptions: "
             "built-in commands, those of the user, and those of the project.",
    .detail = "A command of your own is a Markdown file, `.belay/commands/NAME.md` or "
              "`$XDG_CONFIG_HOME/belay/commands/NAME.md`, whose text is the prompt. It may begin "
              "with `description` and `argument-hint` between two lines of three dashes. "
              "`$ARGUMENTS` stands for the text after the name, `$1` to `$9` for its words.",
    .options = commands_options,
    .exits = "0\tthe list was printed\n"
             "1\tstandard output could not be written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .files = "$XDG_CONFIG_HOME/belay/commands, .belay/commands\tcommands of the user and of a "
             "project\n",
    .examples = "    belay commands\n"
                "    belay commands --json",
    .see = "chat tools",
};

/* ---- tool ------------------------------------------------------------------------------------ */

static const struct cli_option tool_options[] = {
    TOOLS_ROWS,
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/tool.json."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option tool_operands[] = {
    CLI_TEXT("NAME", 0, NULL, struct tools_options, name, .complete = CLI_COMPLETE_TOOLS,
             .hint = "'belay tools' lists them", .about = "The tool to show."),
    {0},
};

const struct cli_command cli_tool_command = {
    .name = "tool",
    .summary = "show one tool with its schema",
    .about =
        "Shows one tool as the model sees it: its description and the JSON Schema of its input.",
    .operands = tool_operands,
    .options = tool_options,
    .exits = "0\tthe tool was printed\n"
             "1\tthe tool does not exist, a file cannot be read, or standard output could not be "
             "written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay tool bash\n"
                "    belay tool bash --json",
    .see = "mcp run tools",
};

/* ---- route ----------------------------------------------------------------------------------- */

static const struct cli_option route_options[] = {
    CLI_COUNT("limit", 0, "N", struct route_options, limit, .least = 1, .most = 1000, .sample = "5",
              .about = "Maximum number of matches to show."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/route.json."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option route_operands[] = {
    CLI_ANY("PROMPT", 0, NULL, struct route_options, prompt, .hint = "put it in quotes",
            .about = "The prompt to match."),
    {0},
};

const struct cli_command cli_route_command = {
    .name = "route",
    .summary = "show which commands and tools a prompt matches",
    .about =
        "Compares the words of PROMPT with the names and descriptions of commands and tools "
        "and prints the matches with their scores, best first. Words such as `the`, `is` and `to` "
        "do not count. Runs nothing.",
    .detail = "In JSON, the members are `prompt` and `routed_matches`.",
    .operands = route_operands,
    .options = route_options,
    .exits = "0\tthe matches were printed, if there are any\n"
             "1\tstandard output could not be written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay route 'run the tests in bash'\n"
                "    belay route --json 'list the tools'",
    .see = "tools",
};
