/* ps, cancel, debug and watch: commands about running work. */
#include "commands.h"

/* The id of something that runs: any text, since the names of others may be part of it. */
#define WORK_ID(structure, ...)                                                                    \
    CLI_TEXT("ID", 0, NULL, structure, id, .most = 2048, .complete = CLI_COMPLETE_RUNNING,         \
             .expected = "an id of 1 to 2048 bytes of UTF-8", .hint = "'belay ps' lists them",     \
             __VA_ARGS__)

/* ---- ps -------------------------------------------------------------------------------------- */

static const struct cli_option ps_options[] = {
    CLI_STORE_ROW(struct ps_options, store,
                  .detail = "Used to look up the runs of a process that was killed."),
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
        "Lists everything that runs now in any belay process of this user: runs, their sub-agents "
        "and tool calls, background jobs and cells. Each line has the phase, the age, the time "
        "left to the deadline, the tokens used and the time since the last sign of life. `belay "
        "cancel ID` stops one of them.\n\n"
        "A process that does not answer within 0.2 seconds is listed as not answering. A process "
        "that was killed is listed once as dead, with what the store knows about its runs.",
    .detail = "The kinds of work are:\n"
              "run\ta turn in progress, of `run`, `chat` or an editor\n"
              "agent\ta sub-agent\n"
              "call\ta tool call\n"
              "job\ta background command; it may run between turns\n"
              "cell\ta piece of JavaScript, see belay-cell(1)\n\n"
              "Each process that does work listens on a control socket of its own, which answers "
              "only its user and root. The socket of a dead process is removed when it is found. "
              "In JSON, the members are `activities` and `processes`.",
    .options = ps_options,
    .exits = "0\tthe list was printed\n"
             "1\tthe list could not be made, or standard output could not be "
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
                      "another cancel waits for.",
             .detail = "One task of a feature keeps its grace period; the feature as a whole does "
                       "not."),
    CLI_STORE_ROW(struct cancel_options, store, .detail = "Used to look up work that has ended."),
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
    .about =
        "Stops the run, sub-agent, tool call, background job or cell with that ID, in whichever "
        "belay process of this user it runs. A session's ID stops its turn, jobs and cells. The "
        "command waits until nothing of it is left and prints the receipt. For work that has "
        "already ended, it prints the receipt from the store again.\n\n"
        "If several things have the same ID, nothing is stopped; name one in full, as "
        "SESSION/CELL, FEATURE/TASK, RUN/AGENT or RUN/CALL.",
    .detail = "What is stopped depends on the kind of work:\n"
              "run\tthe turn in progress ends as `cancelled`, and with it the run; a `chat` goes "
              "on\n"
              "session\tits turn, its background commands and its cells\n"
              "sub-agent\tit is stopped with those below it; the agent above is told and goes on\n"
              "tool call\tonly that call; its result says so and the turn goes on\n"
              "job\tthat background command\n"
              "cell\tit is terminated, as by belay-cell(1)\n\n"
              "Work that ended before a stop reached it has no receipt, and a line says so. In "
              "JSON, the members are `id`, `receipt` and, for work that ended without a stop, "
              "`result`.",
    .operands = cancel_operands,
    .options = cancel_options,
    .exits = "0\tstopped and nothing is left, or it had ended already\n"
             "1\tsomething is left running, no or several things have that ID, or its process "
             "cannot be reached\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay cancel run_3p5yd7mcnxw2kq4tzvhb\n"
                "    belay cancel nightly --json\n"
                "    belay cancel --now nightly",
    .see = "chat ps run watch",
};

/* ---- debug ----------------------------------------------------------------------------------- */

static const struct cli_option debug_options[] = {
    CLI_HELP_ROW,
    {0},
};
static const struct cli_option debug_operands[] = {
    WORK_ID(struct debug_options,
            .about = "Whose process to describe: an id from `belay ps`, a session, or a PID."),
    {0},
};
const struct cli_command cli_debug_command = {
    .name = "debug",
    .summary = "print what the process of a run is doing",
    .about = "Prints each fiber of the process that works on ID: its name, its scope, what it "
             "waits for and since when, and its stack. ID is that of a run, a session, a "
             "sub-agent, a tool call, a job, a cell, a feature or a task, or the number of a "
             "process. The work goes on undisturbed.",
    .detail = "A process that does not answer prints the same on SIGUSR1, to where its log goes: "
              "the file that `BELAY_LOG_FILE` names, or standard error, or log-PID.txt in the "
              "runtime folder while belay-chat(1) draws on the terminal.",
    .operands = debug_operands,
    .options = debug_options,
    .exits = "0\tthe fibers were printed\n"
             "1\tno or several things have that ID, or its process does not "
             "answer\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
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
    .about =
        "Shows the events of the run, session, sub-agent, tool call or cell with that ID, from "
        "now until it ends, in whichever belay process of this user it runs. Without an ID, "
        "shows everything that runs now, until the last of these processes ends. `belay ps` "
        "lists running work. Ctrl-C ends only the watching; the work never waits for a "
        "watcher. For a feature, `belay feature logs -f` shows more.",
    .detail =
        "Watching a session ends when nothing of it runs any more. Events that are not read "
        "in time are left out, and a line says how many. A watcher that reads nothing for two "
        "seconds is disconnected.",
    .operands = watch_operands,
    .options = watch_options,
    .exits =
        "0\tthe work has ended, or nothing ran and no ID was given\n"
        "1\tno or several things have that ID, or the process disappeared without "
        "reporting its end\n" CLI_EXIT_USAGE_TEXT "130\tCtrl-C, or output closed by the reader\n",
    .environment = CLI_RUNTIME_FOLDER_TEXT,
    .examples = "    belay watch nightly\n"
                "    belay watch run_3p5yd7mcnxw2kq4tzvhb --json",
    .see = "cancel feature ps run",
};
