#include "cli/cell/cell.h"
#include "commands.h"

#define CELL_ASKING                                                                                \
    (CLI_VERB(CELL_CREATE) | CLI_VERB(CELL_OBSERVE) | CLI_VERB(CELL_TERMINATE) |                   \
     CLI_VERB(CELL_RELEASE) | CLI_VERB(CELL_LIST))

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
                        "that change nothing) or `all` but `exec`, `wait` and `task`."),
    CLI_CHOICE("permission-mode", 0, "MODE", struct cell_options, mode, cli_permission_names,
               .initial = "auto", .sample = "read-only",
               .about = "Which of those calls may run; `ask` refuses, since nobody can be asked. "
                        "See `belay run`."),
    {0},
};

static const struct cli_option cell_options[] = {
    CLI_NAME("session", 0, "ID", struct cell_options, session, CLI_ID_FORM,
             .verbs = CLI_VERB(CELL_RUN) | CELL_ASKING, .complete = CLI_COMPLETE_SESSIONS,
             .about = "Session whose stored values the cell sees.",
             .detail = "Without it `run` has a session that is deleted afterwards, and the other "
                       "subcommands use `default`."),
    CLI_PATH("socket", 0, "PATH", struct cell_options, socket,
             .verbs = CLI_VERB(CELL_SERVE) | CELL_ASKING, .complete = CLI_COMPLETE_FILES,
             .initial = "$XDG_RUNTIME_DIR/belay/cell.sock", .sample = "/tmp/cell.sock",
             .about = "Socket of the host."),
    CLI_STORE_ROW(struct cell_options, store, .verbs = CLI_VERB(CELL_RUN) | CLI_VERB(CELL_SERVE)),
    CLI_NAME("id", 0, "ID", struct cell_options, id, CLI_ID_FORM, .verbs = CLI_VERB(CELL_CREATE),
             .about = "Id of the cell.",
             .detail = "The same source with the same id runs once, however often it is created; "
                       "another source is refused. Without it an id is made up."),
    CLI_COUNT("generation", 0, "N", struct cell_options, generation, .least = 1,
              .most = ((uint64_t)1 << 53) - 1, .verbs = CLI_VERB(CELL_OBSERVE), .sample = "1",
              .about = "Which observation to ask for.",
              .detail = "One that was answered is answered the same until the next one is asked "
                        "for. Without it the next one is asked for, which lets go of those before "
                        "it; for a cell that has ended its end is shown, and nothing is let go."),
    CLI_DURATION_MS("yield-time", 0, struct cell_options, yield_ms, .sample = "1m",
                    .most = BL_CELL_YIELD_MS_MAX * BL_NS_PER_MS, .initial = "10s",
                    .verbs = CLI_VERB(CELL_OBSERVE),
                    .about = "How long to wait for output; 0 returns at once."),
    CLI_NAME("terminate-id", 0, "ID", struct cell_options, terminate_id, CLI_ID_FORM,
             .verbs = CLI_VERB(CELL_TERMINATE),
             .about = "Name of this request; it stands in the receipt."),
    CLI_FLAG("stdio", 0, struct cell_options, standard, .verbs = CLI_VERB(CELL_SERVE),
             .about = "Read and write frames on standard input and output, for one client.",
             .detail = "The end of input ends the host and its cells."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/cell-run.json, "
                            "docs/schemas/cell-observe.json and so on.",
                   .detail = "The answer of a host is in the member `ok`."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Limits", CLI_VERB(CELL_RUN) | CLI_VERB(CELL_CREATE), cell_limits),
    CLI_GROUP("Tools", CLI_VERB(CELL_RUN), cell_run_options),
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
    [CELL_RUN] = {"run", "Run one cell here: print its output as it comes, and end with it.",
                  "Images are noted on standard error, where the texts of `notify` go, too. The "
                  "deadline, SIGINT, SIGTERM, SIGQUIT and SIGHUP (the last two unless they were "
                  "ignored at the start), and a reader that closes standard output, end the cell; "
                  "the receipt is printed on standard error. A cell that had completed by then has "
                  "completed.",
                  cell_file},
    [CELL_SERVE] = {"serve", "Serve cells to other programs until stopped.",
                    "The address is printed first; everything else goes to standard error. When "
                    "the host ends, so do all of its cells.",
                    NULL},
    [CELL_CREATE] = {"create", "Start a cell in that host and print its id.", NULL, cell_file},
    [CELL_OBSERVE] = {"observe", "Wait for output, or for the end.",
                      "It also returns if the cell hands over, has nothing left that could wake "
                      "it, or the yield time is over. Texts go to standard output, a line with the "
                      "state to standard error. The same generation asked again is answered the "
                      "same.",
                      cell_id},
    [CELL_TERMINATE] = {"terminate", "End a cell and print its output that was not read.",
                        "A cell that has ended is left as it is, and shown.", cell_id},
    [CELL_RELEASE] = {"release", "Let the host forget a cell that has ended.", NULL, cell_id},
    [CELL_LIST] = {"list", "List the cells of a session.", NULL, NULL},
    {0},
};

const struct cli_command cli_cell_command = {
    .name = "cell",
    .summary = "run JavaScript in a process of its own, or serve such cells",
    .about = "Runs JavaScript in cells: each in a process of its own, without files, network or "
             "other processes, under limits of time, memory and output. A cell can be watched, "
             "stopped, and asked about again: a lost reply loses nothing.\n\n"
             "All but `run` and `serve` ask the host behind the socket; none is started for them. "
             "A session without a client lives on for an hour; then its cells end. `belay cancel "
             "ID` ends a cell, too. docs/cells.md describes the language.",
    .detail = "docs/cell-protocol.md describes the protocol of the host.",
    .verbs = cell_verbs,
    .verb_at = offsetof(struct cell_options, verb),
    .options = cell_options,
    .exits =
        "0\trun: the cell completed; the others: the request was answered\n"
        "1\tthe cell ended with an error, there is none with that id, the request was "
        "refused, or there is no host\n" CLI_EXIT_USAGE_TEXT "124\trun: the deadline was reached\n"
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
