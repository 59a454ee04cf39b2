/* The program itself; help, version, doctor, hold and script. */
#include "cli/command/hold.h"
#include "commands.h"

/* ---- belay ----------------------------------------------------------------------------------- */

static const struct cli_option program_options[] = {
    CLI_HELP_ROW,
    CLI_FLAG("version", 'V', struct program_options, version,
             .about = "Print the version, as `belay version` does."),
    {0},
};

static const struct cli_other_name program_other_names[] = {
    {"turn-loop", "belay run"},
    {"turn_loop", "belay run"},
    {0},
};

static const struct cli_topic program_topics[] = {
    {"JSON envelope",
     "A command with `--json` writes one line to standard output and nothing to standard error. "
     "`hold`, whose standard output belongs to the program it runs, writes it to standard error. "
     "The members are `timestamp`, `command`, `exit_code` (that of the process), `output_format`, "
     "`schema_version` and those of the command.\n\n"
     "If the command failed there is `error`, with `kind`, `operation`, `target`, `retryable`, "
     "`message` and `hint`, and `code` if there is a code more specific than the kind. Usage "
     "errors are such an envelope as well, if the command line asks for JSON anywhere before a "
     "lone `--`.\n\n"
     "With `--output-format stream-json` the envelope has the type `result` and is the last line, "
     "after the events."},
    {0},
};

const struct cli_command cli_program_command = {
    .name = "belay",
    .summary = "run LLM agents that stop when told to, and prove it",
    .usage = "belay COMMAND [OPTION]... [ARGUMENT]...\n\n"
             "belay PROMPT [OPTION]...\n\n"
             "belay -p PROMPT [OPTION]...\n\n"
             "belay help [COMMAND]\n\n"
             "belay --version",
    .about =
        "Runs LLM agents under deadlines, budgets and cancellation, and proves that what was "
        "stopped has stopped. Without a command, `belay` starts `chat` on a terminal and prints "
        "this help otherwise. `belay -p PROMPT` is the same as `belay run PROMPT`.\n\n"
        "`belay PROMPT` starts `chat` with that prompt on a terminal, and `run` otherwise. A "
        "PROMPT contains a blank or follows `--`: `belay \"fix the test\"`, `belay -- "
        "continue`.\n\n"
        "`belay help COMMAND` and `belay COMMAND --help` explain a command.",
    .detail = "Long options cannot be abbreviated. For an unknown command, option or value, the "
              "error suggests the most similar one.",
    .passes = true,
    .options = program_options,
    .other_names = program_other_names,
    .topics = program_topics,
    .exits = "0\tdone\n"
             "1\tan error occurred, or standard output could not be written\n" CLI_EXIT_USAGE_TEXT
             "3\ta limit was reached (run, bootstrap, feature)\n"
             "124\tthe deadline was reached (run, bootstrap, cell run, feature, hold)\n"
             "130\tstopped, or output closed by the reader\n"
             "143\tstopped by SIGTERM (run, bootstrap, cell, feature, hold)\n",
    .environment =
        "BELAY_PROVIDER, BELAY_MODEL\tDefault provider and model.\n"
        "BELAY_STORE\tDefault store: a file or the address of a database.\n"
        "BELAY_LOG\tLog level: `debug`, or levels by room, such as `proc=trace,wire=debug`.\n"
        "BELAY_LOG_FILE\tFile for the log, instead of standard error.\n"
        "BELAY_HOST\tName of this machine in the store's leases, if its own name is wrong.\n"
        "BELAY_CELL_WORKER\tThe program that runs cells, if it is not installed beside belay.\n"
        "NO_COLOR\tIf set and not empty, no colours are used; nor are they if standard output is "
        "not a terminal, or TERM is unset or `dumb`.\n"
        "PATH\tSearched for bwrap(1), in absolute folders only.\n",
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
    .see =
        "acp bootstrap cancel cell chat doctor feature fleet hold mcp ps route run script session "
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

/* ---- version --------------------------------------------------------------------------------- */

static const struct cli_option version_options[] = {
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_version_command = {
    .name = "version",
    .summary = "print the version",
    .about = "Prints the version in one line: `belay`, a blank and the number. The same as "
             "`belay --version`.",
    .options = version_options,
    .exits = "0\tthe version was printed\n"
             "1\tstandard output could not be written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay version",
    .see = "doctor",
};

/* ---- doctor ---------------------------------------------------------------------------------- */

static const struct cli_option doctor_options[] = {
    CLI_PROVIDER_ROW(struct doctor_options, provider),
    CLI_MODEL_ROW(struct doctor_options, model),
    CLI_STORE_ROW(struct doctor_options, store, .detail = "It is checked if it is a database."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/doctor.json, or for a model call "
                                         "docs/schemas/doctor-provider.json."),
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_doctor_command = {
    .name = "doctor",
    .summary = "check what this machine supports, or call a model",
    .about = "Checks what this machine supports, by trying it: the system, containers for tools "
             "(pidns, cgroup2, subreaper) and the default one, the parts of a sandbox (bubblewrap, "
             "Landlock, seccomp), cells, fibers, libraries and limits; and the store, if it is a "
             "database. For everything that is missing, it prints the reason and a fix.\n\n"
             "Marks: `ok` is available, `no` is not, `--` could not be tried.\n\n"
             "With --provider or --model it makes one short call to that model instead, as `belay "
             "run` would, within 30 seconds, and reports the time, the usage and the cost, or the "
             "error and whether a retry may help. Keys are not shown. Ctrl-C stops it.",
    .detail = "A probe has five seconds to end, and leaves no process or cgroup behind. A model "
              "call is a real one and may cost money; the report names the address and the source "
              "of the key.",
    .options = doctor_options,
    .exits = "0\tthe report was written, whatever it shows; or the provider answered\n"
             "1\tthe provider did not answer, or standard output could not be "
             "written\n" CLI_EXIT_USAGE_TEXT "130\tstopped, or output closed by the reader\n"
             "143\tstopped by SIGTERM\n",
    .environment = "NO_COLOR\tIf set and not empty, no colours are used.\n"
                   "PATH\tSearched for bwrap(1), in absolute folders only.\n",
    .examples = "    belay doctor\n"
                "    belay doctor --json | jq .containment.default\n"
                "    belay doctor --provider ollama --model qwen",
    .see = "fleet run script bwrap(1)",
};

/* ---- hold ------------------------------------------------------------------------------------ */

static const struct cli_option hold_options[] = {
    CLI_DURATION("timeout", 0, struct hold_options, timeout_ns, CLI_ANY_SIGN, .sample = "5m",
                 .set = CLI_SET(struct hold_options, timed),
                 .about = "Deadline: stop after this time. 0 or less stops at once.",
                 .detail = "A duration is a number of seconds or has a unit: `90`, `90s`, `500ms`, "
                           "`2.5m`, `1h`. At a deadline of zero or less the command is not "
                           "started."),
    CLI_ANY("signal", 's', "SIGNAL", struct hold_options, signal_name, .initial = "TERM",
            .sample = "INT",
            .about = "Signal to send at the deadline: a name such as `HUP`, or a number."),
    /* 24 days in milliseconds fit the int that poll(2) takes. */
    CLI_GRACE_ROW(struct hold_options, grace_ms, CLI_SECONDS(24 * 86400),
                  .set = CLI_SET(struct hold_options, graced)),
    CLI_ANY("kill-after", 'k', "DURATION", struct hold_options, kill_after, .sample = "5s",
            .about = "Grace period as in timeout(1): 0 never kills, and the exit code is 137 if "
                     "the command had to be killed."),
    CLI_FLAG("preserve-status", 'p', struct hold_options, preserve_status,
             .about = "At the deadline, exit with the status of COMMAND instead of 124."),
    CLI_FLAG("foreground", 'f', struct hold_options, foreground,
             .about = "Leave COMMAND in the session and process group of `hold`, so that it can "
                      "use the terminal and gets its signals."),
    CLI_FLAG("verbose", 'v', struct hold_options, verbose,
             .about = "Print the signal sent at the deadline to standard error."),
    CLI_CONTAINER_ROW(struct hold_options, container),
    CLI_SANDBOX_ROW(struct hold_options, sandbox, .initial = "off"),
    CLI_BYTES("memory", 0, struct hold_options, memory_bytes, .sample = "512M",
              .about = "Memory limit.",
              .detail = "For all processes together in `cgroup2` where the controller is "
                        "delegated; for each process otherwise."),
    CLI_COUNT("processes", 0, "N", struct hold_options, processes_max, .least = 1,
              .most = INT32_MAX, .sample = "100",
              .about = "Process limit: if it is exceeded, all processes are killed.",
              .detail = "The exit code is then 137. In `cgroup2` where the controller is "
                        "delegated, starting one more fails instead."),
    CLI_JSON_ROW(),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option hold_operands[] = {
    {.type = CLI_TYPE_TEXT,
     .name = "COMMAND",
     .complete = CLI_COMPLETE_PROGRAMS,
     .hint = "'belay help hold' shows the usage",
     .about = "The program to run."},
    {.type = CLI_TYPE_TEXT,
     .name = "ARGUMENT",
     .optional = true,
     .count = 1,
     .complete = CLI_COMPLETE_FILES,
     .about = "Its arguments."},
    {0},
};

const struct cli_command cli_hold_command = {
    .name = "hold",
    .summary = "run a command under a deadline and leave no process behind",
    .usage = "belay hold [OPTION]... DURATION COMMAND [ARGUMENT]...",
    .about = "Runs COMMAND and, when it ends or is stopped, leaves no process of it behind: no "
             "child, no daemon, nothing that ignores signals. Standard input, output and error are "
             "the command's. The deadline, Ctrl-C and SIGTERM stop it: a signal, a grace period, "
             "SIGKILL for the processes left, and a proof. Ctrl-C sends the command SIGINT; a "
             "second one skips the grace period. If belay itself is killed, the command and all of "
             "its processes are killed with it.",
    .detail = "`belay hold DURATION COMMAND` is the command line of timeout(1). DURATION is a "
              "number with an optional unit: `s`, `m`, `h`, `d` or `ms`; 0 means no deadline. It "
              "is read if neither `--timeout` nor `--` precedes it. Called by the name `timeout`, "
              "as by a symbolic link, belay behaves as timeout(1): DURATION is required, without "
              "`-k`, it waits for a command that ignores the signal; signals are passed on, and "
              "the exit code is then that of COMMAND; and nothing is printed about a stop. "
              "Processes that the command leaves behind are stopped as well.\n\n"
              "SIGQUIT and SIGHUP also stop it, unless they were ignored at the start. All "
              "processes get the signal that arrived, or SIGTERM at the deadline. Processes left "
              "running when the command ends by itself are stopped in the same way.\n\n"
              "The command runs in a session of its own without a controlling terminal: `/dev/tty` "
              "cannot be opened, and Ctrl-Z does nothing. It inherits the whole environment and no "
              "descriptor but 0, 1 and 2.\n\n"
              "After a stop, and if processes had been left running or a limit was exceeded, one "
              "line goes to standard error; otherwise nothing does. With `--json` there is always "
              "one line on standard error, as in docs/schemas/hold.json: `command_line`, "
              "`container` (the one in force), `sandbox`, `timeout_seconds`, `end` with `how` "
              "(`exited`, `signaled`, `stopped`, `limit` or `lost`), `status`, `by_signal`, "
              "`processes`, `left_behind` and `survivors` (a number, or null with the reason in "
              "`unverified`), and `receipt`, which is null if it was not stopped.",
    .operands = hold_operands,
    .passes = true,
    .options = hold_options,
    .exits = "124\tthe deadline was reached, whatever signal was needed\n"
             "125\thold itself failed: a usage error, or a container or sandbox that is not "
             "available\n"
             "126\tCOMMAND cannot be executed\n"
             "127\tCOMMAND was not found\n"
             "130\tstopped by SIGINT, SIGHUP or SIGQUIT\n"
             "137\tthe deadline was reached, COMMAND had to be killed, and -k or -s KILL was "
             "given\n"
             "143\tstopped by SIGTERM\n"
             "else\tthe exit code of COMMAND, or 128 + N if signal N ended it\n",
    .examples = "    belay hold --timeout 5m -- make test\n"
                "    belay hold -s INT -k 10s 5m make test\n"
                "    ln -s $(command -v belay) ~/bin/timeout\n"
                "    belay hold --timeout 30s --grace 2s -- ./server --port 8080\n"
                "    belay hold --container pidns --json -- sh -c 'sleep 60 & exit 3'",
    .see = "doctor run bwrap(1) systemd-run(1) timeout(1) cgroups(7) pid_namespaces(7)",
};

/* ---- script ---------------------------------------------------------------------------------- */

static const struct cli_option script_options[] = {
    CLI_COUNT("port", 0, "N", struct script_options, port, .most = UINT16_MAX, .sample = "8080",
              .initial = "0", .about = "Port to listen on; 0 takes any free one."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: each line is an object, as in "
                                         "docs/schemas/script-serve.json."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option script_operands[] = {
    CLI_PATH("FILE", 0, NULL, struct script_options, file, .complete = CLI_COMPLETE_FILES,
             .hint = "the usage is 'belay script serve FILE'",
             .about = "A script in YAML or JSON."),
    {0},
};

static const struct cli_verb script_verbs[] = {
    {"serve", "Serve the script on 127.0.0.1 until stopped.", NULL, script_operands},
    {0},
};

const struct cli_command cli_script_command = {
    .name = "script",
    .summary = "serve a scripted model over HTTP, in every provider's format",
    .about = "Serves the script model over HTTP on 127.0.0.1, in the formats of four kinds of "
             "provider, so that any agent can be tried without a key, a network or a bill:\n\n"
             "    POST /v1/messages          anthropic; also /v1/messages/count_tokens\n"
             "    POST /v1/chat/completions  openai; also /chat/completions\n"
             "    POST /v1/responses         openai-responses; also /responses\n"
             "    POST /api/chat             ollama\n"
             "    GET  /v1/models, /api/tags\n\n"
             "Requests use up the replies of the script in the order of their arrival, from all "
             "clients; `when` tells clients apart. A reply that is an error becomes an HTTP error, "
             "a dropped connection or silence. No key is required. The address is printed first, "
             "then a line for each request when it is answered. Ctrl-C or SIGTERM ends it.",
    .detail = "One request is one attempt; retries are up to the client. When no reply is left, a "
              "request is answered with status 400. The line for a request has its number, format, "
              "path and model, the status (0 if nothing was answered), the tokens, and whether it "
              "was cut off.",
    .verbs = script_verbs,
    .verb_at = offsetof(struct script_options, verb),
    .options = script_options,
    .exits = "1\tthe script cannot be read, or the port is taken\n" CLI_EXIT_USAGE_TEXT
             "130\tended by Ctrl-C, or output closed by the reader\n"
             "143\tended by SIGTERM\n",
    .examples = "    belay script serve demo.yaml --port 8080\n"
                "    ANTHROPIC_BASE_URL=http://127.0.0.1:8080 agent -p 'hello'\n"
                "    OPENAI_BASE_URL=http://127.0.0.1:8080/v1 agent -p 'hello'",
    .see = "doctor run",
};
