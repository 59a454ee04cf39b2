/* The program itself, and help. */
#include "commands.h"

/* ---- belay ----------------------------------------------------------------------------------- */

static const struct cli_option program_options[] = {
    CLI_HELP_ROW,
    CLI_FLAG("version", 'V', struct program_options, version, .about = "Print the version."),
    {0},
};

static const struct cli_topic program_topics[] = {
    {"JSON envelope",
     "A command with `--json` writes one line to standard output and nothing to standard error. "
     "`hold`, whose standard output belongs to the program it runs, writes it to standard error. "
     "The members are `timestamp`, `command`, `exit_code` (that of the process), `output_format`, "
     "`schema_version` and those of the command.\n\n"
     "If the command failed there is `error`, with `kind`, `operation`, `target`, `retryable`, "
     "`message` and `hint`, and `code` where there is something finer than the kind. Usage errors "
     "are such an envelope, too, if the command line asks for JSON anywhere before a lone `--`.\n\n"
     "With `--output-format stream-json` the envelope has the type `result` and is the last line, "
     "after the events."},
    {0},
};

const struct cli_command cli_program_command = {
    .name = "belay",
    .summary = "run LLM agents that stop when told to, and prove it",
    .usage = "belay COMMAND [OPTION]... [ARGUMENT]...\n\n"
             "belay -p PROMPT [OPTION]...\n\n"
             "belay help [COMMAND]\n\n"
             "belay --version",
    .about = "Runs LLM agents under deadlines, budgets and cancellation, and proves that what was "
             "stopped has stopped. Without a command, `belay` starts `chat` on a terminal and "
             "prints this help otherwise. `belay -p PROMPT` is the same as `belay run PROMPT`.\n\n"
             "`belay help COMMAND` and `belay COMMAND --help` explain a command.",
    .detail = "Long options are written in full. An unknown command, option or value is answered "
              "with the nearest one that exists.",
    .passes = true,
    .options = program_options,
    .topics = program_topics,
    .exits = "0\tdone\n"
             "1\tsomething failed, or standard output could not be written\n" CLI_EXIT_USAGE_TEXT
             "3\ta limit was reached (run, bootstrap, feature)\n"
             "124\tthe deadline was reached (run, bootstrap, cell run, feature, hold)\n"
             "130\tstopped, or output closed by the reader\n"
             "143\tstopped by SIGTERM (run, bootstrap, cell, feature, hold)\n",
    .environment =
        "BELAY_PROVIDER, BELAY_MODEL\tDefault provider and model.\n"
        "BELAY_STORE\tDefault store.\n"
        "BELAY_HOST\tName of this machine in the store's leases, if its own name is wrong.\n"
        "BELAY_CELL_WORKER\tThe program that runs cells, if it is not installed beside belay.\n"
        "NO_COLOR\tIf set and not empty: no colours. There are none either if standard output is "
        "not a terminal, or TERM is unset or `dumb`.\n"
        "PATH\tWhere bwrap(1) is looked for, in absolute folders only.\n",
    .files = "$XDG_CONFIG_HOME/belay/config.yaml\tproviders, models, permissions, hooks; see "
             "belay-run(1)\n"
             "$XDG_DATA_HOME/belay/sessions.db\tthe default store\n"
             "$XDG_DATA_HOME/belay/history\tlines typed in `chat`\n"
             "$XDG_RUNTIME_DIR/belay/cell.sock\tsocket of `cell serve`\n"
             "$XDG_RUNTIME_DIR/belay/control/*.sock\tcontrol sockets of running processes\n"
             "/usr/share/belay/schemas/*.json\tJSON Schemas of every envelope, of errors, "
             "receipts, turn results and events\n",
    .examples = "    belay -p 'say hello'\n"
                "    belay chat --model anthropic/claude-sonnet-5 --max-budget-usd 0.50\n"
                "    belay run --timeout 5m 'fix the build'\n"
                "    belay hold --timeout 5m -- make test\n"
                "    belay doctor --json | jq .containment.default",
    .see = "acp bootstrap cancel cell chat doctor feature hold mcp ps route run script session "
           "tools watch bwrap(1) systemd-run(1) timeout(1) cgroups(7) pid_namespaces(7)",
};

/* ---- help ------------------------------------------------------------------------------------ */

static const struct cli_option help_options[] = {
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option help_operands[] = {
    CLI_TEXT("COMMAND", 0, NULL, struct help_options, topic, .optional = true,
             .complete = CLI_COMPLETE_COMMANDS, .about = "The command to explain."),
    {0},
};

const struct cli_command cli_help_command = {
    .name = "help",
    .summary = "explain a command",
    .about = "Explains COMMAND: usage, options, exit codes and examples. Without one, lists the "
             "commands. The same as `belay COMMAND --help` and `belay --help`.",
    .operands = help_operands,
    .options = help_options,
    .exits = "0\tthe help was printed\n"
             "1\tstandard output could not be written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay help\n"
                "    belay help doctor",
    .see = "run",
};
