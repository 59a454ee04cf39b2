/* ps, cancel, inject, debug and watch: commands about running work. */
#include "commands.h"

/* The id of running work: any text, because it may contain names that others chose. */
#define WORK_ID(structure, ...)                                                                    \
    CLI_TEXT("ID", 0, NULL, structure, id, .most = 2048, .complete = CLI_COMPLETE_RUNNING,         \
             .expected = "an id of 1 to 2048 bytes of UTF-8", .hint = "'belay ps' lists them",     \
             __VA_ARGS__)

/* ---- ps -------------------------------------------------------------------------------------- */

static const struct cli_option ps_options[] = {
    CLI_STORE_ROW(struct ps_options, store,
                  .detail = "Used to look up the runs of a process that was killed. A database is "
                            "also asked for the items of the fleet."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/ps.json."),
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_ps_command = {
    .name = "ps",
    .summary = "list running work",
    .about =
        "Lists all running work in every belay process of this user: runs, their sub-agents and "
        "tool calls, background jobs and cells, and sessions held by an idle conversation. Each "
        "line has the phase, the age, the time left to the deadline, the tokens used, the cost, "
        "the time since the last activity, the session, the directory and the first line of the "
        "prompt; on a terminal, columns that do not fit are left out. `belay cancel ID` stops one "
        "of them.\n\n"
        "A process that does not answer within 0.2 seconds is listed as not answering. A process "
        "that was killed is listed once as dead, with the state of its runs in the store.\n\n"
        "If the store is a database, a second table lists the items of the fleet that wait or run "
        "on other machines, as `belay fleet list` does.",
    .detail = "The kinds of work are:\n"
              "run\ta turn in progress, of `run`, `chat` or an editor\n"
              "agent\ta sub-agent\n"
              "call\ta tool call\n"
              "job\ta background command; it may run between turns\n"
              "cell\ta piece of JavaScript, see belay-cell(1)\n"
              "session\ta session that is held by an idle conversation\n\n"
              "Each process that does work listens on a control socket of its own, which answers "
              "only its user and root. The socket of a dead process is removed when it is found. "
              "In JSON, the members are `activities`, `sessions` and `processes`; `sessions` has "
              "every session that is held, idle or not.",
    .options = ps_options,
    .exits = "0\tthe list was printed\n"
             "1\tthe list could not be read, or standard output could not be "
             "written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay ps\n"
                "    belay ps --json",
    .see = "cancel chat run watch",
};

/* ---- cancel ---------------------------------------------------------------------------------- */

static const struct cli_option cancel_options[] = {
    CLI_FLAG("now", 0, struct cancel_options, now,
             .about = "Kill commands at once, without their grace period. Also hurries a stop that "
                      "another `belay cancel` is waiting for.",
             .detail =
                 "A single task of a feature keeps its grace period; a whole feature does not."),
    CLI_FLAG("after-step", 0, struct cancel_options, after_step,
             .about =
                 "Let the tool call or the answer in flight end, and stop before the next one.",
             .detail = "For runs, chats, sessions and sub-agents. A turn whose answer in flight "
                       "was its last completes. The command waits for the end; a second "
                       "`belay cancel` without this option stops at once."),
    CLI_DURATION(
        "timeout", 0, struct cancel_options, wait_ns, .sample = "30s",
        .about = "Stop waiting for workers on other machines after this time; default 10s.",
        .detail = "The stop is in force from the moment when it is in the database, also "
                  "if its worker does not answer. The same command later prints the answer."),
    CLI_STORE_ROW(struct cancel_options, store,
                  .detail =
                      "Used to look up work that has ended. A database is also asked for work "
                      "that runs or waits on other machines."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/cancel.json."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option cancel_operands[] = {
    WORK_ID(struct cancel_options, .about = "What to stop: an id from `belay ps`, or a session."),
    {0},
};

const struct cli_command cli_cancel_command = {
    .name = "cancel",
    .summary = "stop running work and print its receipt",
    .about = "Stops the run, sub-agent, tool call, background job or cell with that ID, in any "
             "belay process of this user. The ID of a session stops its turn, jobs and cells. The "
             "command waits until none of the work is left running and prints the receipt. For "
             "work that has already ended, it prints the receipt from the store.\n\n"
             "If the ID is ambiguous, nothing is stopped; give the full name: SESSION/CELL, "
             "FEATURE/TASK, RUN/AGENT or RUN/CALL.",
    .detail =
        "What is stopped depends on the kind of work:\n"
        "run\tthe turn in progress ends as `cancelled`, and with it the run; a `chat` continues\n"
        "session\tits turn, its background commands and its cells\n"
        "sub-agent\tit is stopped with its own sub-agents; its parent agent is informed and "
        "continues\n"
        "tool call\tonly that call; its result says so and the turn continues\n"
        "job\tthat background command\n"
        "cell\tit is terminated, as by belay-cell(1)\n\n"
        "Work that ended before a stop reached it has no receipt, and a line says so. In JSON, the "
        "members are `id`, `receipt` and, for work that ended without a stop, `result`.\n\n"
        "If the store is a database, work on other machines is stopped as well, and items of the "
        "queue, also those that wait. From then on nothing of the work enters the database. A "
        "worker that does not answer in time leaves the receipt without a number of survivors, and "
        "the exit code is 1. The members `worker` and `host` name the worker, `fenced` is true if "
        "its writes are refused.",
    .operands = cancel_operands,
    .options = cancel_options,
    .exits = "0\tstopped with nothing left running, or already ended\n"
             "1\tsomething is left running, the ID is unknown or ambiguous, or the process cannot "
             "be reached\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay cancel run_3p5yd7mcnxw2kq4tzvhb\n"
                "    belay cancel nightly --json\n"
                "    belay cancel --now nightly\n"
                "    belay cancel --after-step nightly",
    .see = "chat inject ps run watch",
};

/* ---- inject ---------------------------------------------------------------------------------- */

static const struct cli_option inject_options[] = {
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/inject.json."),
    CLI_HELP_ROW,
    {0},
};
static const struct cli_option inject_operands[] = {
    WORK_ID(struct inject_options,
            .about = "The receiver: a run, a sub-agent, or a session with a running turn."),
    CLI_ANY("TEXT", 0, NULL, struct inject_options, text, .optional = true,
            .hint = "put it in quotes",
            .about = "The message; without it, or with `-`, standard input is read, up to 64 KiB."),
    {0},
};
const struct cli_command cli_inject_command = {
    .name = "inject",
    .summary = "send a message to running work",
    .about = "Sends a message to the run, chat or sub-agent with that ID, in any belay process of "
             "this user. The model reads it after the results of its next tool calls. If the turn "
             "completes first, the message is the next prompt of the run or chat. Limits and a "
             "requested stop remain in effect.",
    .detail =
        "A message that is not delivered is never lost silently: a run reports it on standard "
        "error, in `undelivered` of its result and by the event `message_undelivered`; a chat puts "
        "it back into the input line. In JSON, the members are `id` and `message_id`.",
    .operands = inject_operands,
    .options = inject_options,
    .exits = "0\tthe message was accepted\n"
             "1\tthe ID is unknown or ambiguous, the work takes no messages, or its process cannot "
             "be reached\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay inject nightly 'leave the tests of the parser alone'\n"
                "    git diff | belay inject run_3p5yd7mcnxw2kq4tzvhb -",
    .see = "cancel chat ps run",
};

/* ---- debug ----------------------------------------------------------------------------------- */

static const struct cli_option debug_options[] = {
    CLI_HELP_ROW,
    {0},
};
static const struct cli_option debug_operands[] = {
    WORK_ID(struct debug_options,
            .about = "The process to describe: an id from `belay ps`, a session, or a PID."),
    {0},
};
const struct cli_command cli_debug_command = {
    .name = "debug",
    .summary = "print the fibers of a running process",
    .about = "Prints each fiber of the process that runs ID: its name, its scope, what it is "
             "waiting for and for how long, and its stack. ID names a run, a session, a sub-agent, "
             "a tool call, a job, a cell, a feature or a task, or is the number of a process. The "
             "work is not interrupted.",
    .detail = "A process that does not answer prints the same to its log on SIGUSR1: to the file "
              "in `BELAY_LOG_FILE`, or to standard error, or, while belay-chat(1) draws on the "
              "terminal, to log-PID.txt in the runtime folder.",
    .operands = debug_operands,
    .options = debug_options,
    .exits =
        "0\tthe fibers were printed\n"
        "1\tthe ID is unknown or ambiguous, or the process does not answer\n" CLI_EXIT_USAGE_TEXT
            CLI_EXIT_CLOSED_TEXT,
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay debug run_3p5yd7mcnxw2kq4tzvhb\n"
                "    belay debug nightly",
    .see = "cancel ps watch",
};

/* ---- watch ----------------------------------------------------------------------------------- */

static const struct cli_option watch_options[] = {
    {.type = CLI_TYPE_JSON, .name = "json", .about = "Same as `--output-format stream-json`."},
    CLI_FORMAT_ROW(CLI_STREAM_FORMATS,
                   .about =
                       "`text`, or `stream-json` (`json` is the same): one event per line, as in "
                       "docs/schemas/event.json, and a last line as in "
                       "docs/schemas/watch.json.",
                   .detail = "In text, the output of models and tools is indented; everything else "
                             "is a line with its time. In JSON, "
                             "`{\"type\":\"missed\",\"count\":N}` marks events that were left out, "
                             "and the last line has `id`, `events` and `missed`."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option watch_operands[] = {
    WORK_ID(struct watch_options, .optional = true,
            .about = "What to watch: an id from `belay ps`, or a session."),
    {0},
};

const struct cli_command cli_watch_command = {
    .name = "watch",
    .summary = "show the events of running work until it ends",
    .about = "Shows the events of the run, session, sub-agent, tool call or cell with that ID, "
             "from now until it ends, in any belay process of this user. Without an ID, shows all "
             "running work, until the last of these processes ends. `belay ps` lists running work. "
             "Ctrl-C ends only `watch`; a slow watcher never delays the work. For a feature, "
             "`belay feature logs -f` shows more.",
    .detail = "Watching a session ends when none of its work is running. Events that are not read "
              "in time are left out, and a line says how many. A watcher that reads nothing for "
              "two seconds is disconnected.",
    .operands = watch_operands,
    .options = watch_options,
    .exits = "0\tthe work has ended, or nothing was running and no ID was given\n"
             "1\tthe ID is unknown or ambiguous, or the process disappeared without reporting its "
             "end\n" CLI_EXIT_USAGE_TEXT "130\tCtrl-C, or output closed by the reader\n",
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay watch nightly\n"
                "    belay watch run_3p5yd7mcnxw2kq4tzvhb --json",
    .see = "cancel feature ps run",
};
