#include "cli/cell/cell.h"
#include "commands.h"

#define CELL_ASKING                                                                                \
    (CLI_VERB(CELL_VERB_CREATE) | CLI_VERB(CELL_VERB_OBSERVE) | CLI_VERB(CELL_VERB_TERMINATE) |    \
     CLI_VERB(CELL_VERB_RELEASE) | CLI_VERB(CELL_VERB_LIST))

static const char *const cell_offers[] = {
    [CELL_OFFER_NONE] = "none",
    [CELL_OFFER_READ_ONLY] = "read-only",
    [CELL_OFFER_ALL] = "all",
};

static const struct cli_option cell_limits[] = {
    CLI_DURATION("timeout", 0, struct cell_options, timeout_ns, CLI_ANY_SIGN, .sample = "30s",
                 .most = BL_CELL_DEADLINE_MS_MAX * BL_NS_PER_MS, .initial = "30m",
                 .set = CLI_SET(struct cell_options, timed),
                 .about = "Deadline: stop after this time. 0 or less stops at once."),
    CLI_BYTES("memory", 0, struct cell_options, memory_bytes, .most = BL_CELL_MEMORY_MAX,
              .initial = "64M", .sample = "128M", .about = "Memory limit.",
              .detail = "Counted beyond what an idle cell needs."),
    CLI_BYTES("max-output", 0, struct cell_options, output_bytes, .most = BL_CELL_OUTPUT_MAX,
              .initial = "4M", .sample = "512K",
              .about = "Limit for the output over the cell's life, counted as JSON."),
    {0},
};

static const struct cli_option cell_run_options[] = {
    CLI_CHOICE("tools", 0, "WHICH", struct cell_options, offer, cell_offers, .initial = "none",
               .sample = "read-only",
               .about = "Tools that the code may call as `tools.NAME`: `none`, `read-only` (those "
                        "that change nothing) or `all` (except `exec`, `wait` and `task`)."),
    CLI_CHOICE("permission-mode", 0, "MODE", struct cell_options, mode, cli_permission_names,
               .initial = "auto", .sample = "read-only",
               .about = "Which of those calls may run; `ask` refuses, since the user cannot be "
                        "asked. See `belay run`."),
    {0},
};

static const struct cli_option cell_options[] = {
    CLI_NAME(
        "session", 0, "ID", struct cell_options, session, CLI_ID_FORM,
        .verbs = CLI_VERB(CELL_VERB_RUN) | CELL_ASKING, .complete = CLI_COMPLETE_SESSIONS,
        .about = "Session whose stored values the cell sees.",
        .detail =
            "Without it, `run` uses a temporary session, and the other subcommands use `default`."),
    CLI_PATH("socket", 0, "PATH", struct cell_options, socket,
             .verbs = CLI_VERB(CELL_VERB_SERVE) | CELL_ASKING, .complete = CLI_COMPLETE_FILES,
             .initial = "$XDG_RUNTIME_DIR/belay/cell.sock", .sample = "/tmp/cell.sock",
             .about = "Socket of the host."),
    CLI_STORE_ROW(struct cell_options, store,
                  .verbs = CLI_VERB(CELL_VERB_RUN) | CLI_VERB(CELL_VERB_SERVE)),
    CLI_NAME("id", 0, "ID", struct cell_options, id, CLI_ID_FORM,
             .verbs = CLI_VERB(CELL_VERB_CREATE), .about = "Id of the cell.",
             .detail = "The same source with the same id runs once, however often it is created; a "
                       "different source is refused. Without it, an id is generated."),
    CLI_COUNT("generation", 0, "N", struct cell_options, generation, .least = 1,
              .most = ((uint64_t)1 << 53) - 1, .verbs = CLI_VERB(CELL_VERB_OBSERVE), .sample = "1",
              .about = "Number of the observation to request.",
              .detail =
                  "The answer to a generation stays the same until the next one is requested. "
                  "Without it, the next one is requested, which discards earlier ones; for a cell "
                  "that has ended, its end is shown and nothing is discarded."),
    CLI_DURATION_MS("yield-time", 0, struct cell_options, yield_ms, .sample = "1m",
                    .most = BL_CELL_YIELD_MS_MAX * BL_NS_PER_MS, .initial = "10s",
                    .verbs = CLI_VERB(CELL_VERB_OBSERVE),
                    .about = "How long to wait for output; 0 returns at once."),
    CLI_NAME("terminate-id", 0, "ID", struct cell_options, terminate_id, CLI_ID_FORM,
             .verbs = CLI_VERB(CELL_VERB_TERMINATE),
             .about = "Name of this request, for the receipt."),
    CLI_FLAG("stdio", 0, struct cell_options, standard, .verbs = CLI_VERB(CELL_VERB_SERVE),
             .about = "Read and write frames on standard input and output, for one client.",
             .detail = "The end of input ends the host and its cells."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/cell-run.json, "
                            "docs/schemas/cell-observe.json and so on.",
                   .detail = "The answer of the host is in the member `ok`."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Limits", CLI_VERB(CELL_VERB_RUN) | CLI_VERB(CELL_VERB_CREATE), cell_limits),
    CLI_GROUP("Tools", CLI_VERB(CELL_VERB_RUN), cell_run_options),
    {0},
};

static const struct cli_option cell_file[] = {
    CLI_PATH("FILE|-", 0, NULL, struct cell_options, operand, .complete = CLI_COMPLETE_FILES,
             .hint = "'-' reads standard input", .about = "The source."),
    {0},
};

static const struct cli_option cell_id[] = {
    CLI_NAME("ID", 0, NULL, struct cell_options, operand, CLI_ID_FORM,
             .complete = CLI_COMPLETE_CELLS, .hint = "'belay cell list' lists those of a session",
             .about = "The cell."),
    {0},
};

static const struct cli_verb cell_verbs[] = {
    [CELL_VERB_RUN] =
        {"run", "Run one cell, print its output as it arrives, and exit when it ends.",
         "Images are noted on standard error, which also gets the texts of `notify`. The deadline, "
         "SIGINT, SIGTERM, SIGQUIT and SIGHUP (the last two unless they were ignored at the "
         "start), and a reader that closes standard output, end the cell; the receipt is printed "
         "to standard error. A cell that completes before the stop counts as completed.",
         cell_file},
    [CELL_VERB_SERVE] =
        {"serve", "Serve cells to other programs until stopped.",
         "The address is printed first; everything else goes to standard error. When "
         "the host ends, so do all of its cells.",
         NULL},
    [CELL_VERB_CREATE] = {"create", "Start a cell in the host and print its id.", NULL, cell_file},
    [CELL_VERB_OBSERVE] =
        {"observe", "Wait for output or for the end.",
         "It also returns if the cell yields, has nothing left that can wake it, or the yield time "
         "is over. Text goes to standard output, a line with the state to standard error. The same "
         "generation always has the same answer.",
         cell_id},
    [CELL_VERB_TERMINATE] = {"terminate", "End a cell and print its unread output.",
                             "For a cell that has already ended, its end is shown.", cell_id},
    [CELL_VERB_RELEASE] = {"release", "Remove a cell that has ended from the host.", NULL, cell_id},
    [CELL_VERB_LIST] = {"list", "List the cells of a session.", NULL, NULL},
    {0},
};

static const struct cli_other_name cell_other_names[] = {
    {"execute", "belay cell run"},
    {"exec", "belay cell run"},
    {"wait", "belay cell observe"},
    {0},
};

const struct cli_command cli_cell_command = {
    .name = "cell",
    .summary = "run JavaScript in a process of its own, or serve such cells",
    .about = "Runs JavaScript in cells: each in a process of its own, without files, network or "
             "other processes, under limits of time, memory and output. A cell can be observed and "
             "stopped, and each answer can be requested again: a lost reply loses nothing.\n\n"
             "All subcommands except `run` and `serve` need a running host, which they ask over "
             "its socket. A session without a client is kept for an hour; then its cells end. "
             "`belay cancel ID` also ends a cell. docs/cells.md describes the language.",
    .detail = "docs/cell-protocol.md describes the protocol of the host.",
    .verbs = cell_verbs,
    .verb_at = offsetof(struct cell_options, verb),
    .options = cell_options,
    .other_names = cell_other_names,
    .exits = "0\trun: the cell completed; the others: the request was answered\n"
             "1\tthe cell ended with an error, the id is unknown, the request was refused, or "
             "there is no host\n" CLI_EXIT_USAGE_TEXT "124\trun: the deadline was reached\n"
             "130\trun, serve: stopped; or output closed by the reader\n"
             "143\trun, serve: stopped by SIGTERM\n",
    .environment = "BELAY_CELL_WORKER\tThe program that runs cells, if it is not installed beside "
                   "belay.\n",
    .files = "$XDG_RUNTIME_DIR/belay/cell.sock\tsocket of the host; without the variable in "
             "/tmp/belay-UID\n",
    .examples = "    echo 'text(6 * 7)' | belay cell run -\n"
                "    belay cell run count.js --tools read-only --timeout 30s --json\n"
                "    belay cell serve &\n"
                "    id=$(belay cell create job.js) && belay cell observe $id --yield-time 1m",
    .see = "cancel ps run",
};
