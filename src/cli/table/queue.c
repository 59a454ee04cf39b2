/* submit, wait and worker: the queue of a store for several machines. */
#include "cli/queue/queue.h"

#include "commands.h"
#include "run.h"

static const char *const queue_priorities[] = {
    "-9", "-8", "-7", "-6", "-5", "-4", "-3", "-2", "-1", "0",
    "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",
};
_Static_assert(sizeof queue_priorities / sizeof queue_priorities[0] == 2 * QUEUE_PRIORITY_MOST + 1,
               "a name for each priority");

#define QUEUE_STORE_ROW(structure, member)                                                         \
    CLI_STORE("store", 0, "STORE", structure, member, .env = "BELAY_STORE",                        \
              .sample = "postgres://ann@db.example.com/belay", .about = CLI_STORE_ABOUT,           \
              .detail = "Here it must be a database.")
#define QUEUE_LABELS(structure)                                                                    \
    CLI_LIST(CLI_TYPE_TEXT, "label", "KEY=VALUE", structure, labels, label_count,                  \
             .sample = "gpu=yes",                                                                  \
             .about = "Label of a worker; an item needs a worker that has all of its labels.")
#define QUEUE_POOL_ROW(structure)                                                                  \
    CLI_NAME("pool", 0, "NAME", structure, pool, QUEUE_POOL_FORM, .initial = QUEUE_POOL,           \
             .about = QUEUE_POOL_ABOUT)
#define QUEUE_DAYS(count) ((count)*CLI_SECONDS(86400))

/* ---- submit ---------------------------------------------------------------------------------- */

static const struct cli_option submit_run[] = {
    CLI_NAME("session", 0, "ID", struct run_options, session, CLI_ID_FORM,
             .complete = CLI_COMPLETE_SESSIONS,
             .about = "Use the session with this id; create it if it does not exist."),
    CLI_TEXT("model", 0, "NAME", struct run_options, workspace.model,
             .sample = "anthropic/claude-sonnet-5",
             .about = "A model that the worker knows; otherwise the worker's own."),
    CLI_CHOICE("permission-mode", 0, "MODE", struct run_options, workspace.mode,
               cli_permission_names, .sample = "read-only",
               .set = CLI_SET(struct run_options, workspace.mode_chosen),
               .about = "How to treat tool calls that no rule matches, as in belay-run(1); "
                        "otherwise the worker's own mode.",
               .detail = "A mode that is wider than the worker's fails the item."),
    CLI_DURATION("timeout", 0, struct run_options, workspace.timeout_ns, .least = 1,
                 .sample = "10m", .set = CLI_SET(struct run_options, workspace.timed),
                 .about = "Deadline: stop this long after a worker has claimed the item.",
                 .detail = "It is kept when another worker takes the item over. A retry gets a new "
                           "one."),
    RUN_MAX_TURNS_ROW,
    RUN_MAX_STEPS_ROW,
    CLI_NUMBER("max-budget-usd", 0, "USD", struct run_options, workspace.max_budget_usd,
               .sample = "0.50", .set = CLI_SET(struct run_options, workspace.budgeted),
               .about = "Cost limit for the run; never more than the worker's own."),
    CLI_PATH("dir", 0, "PATH", struct submit_options, directory, .sample = "/srv/project",
             .about = "Absolute path of the directory to work in, which must exist on the worker's "
                      "machine.",
             .detail = "Choose its machine with `--label`. Without the option, the run gets an "
                       "empty directory of its own, which is removed afterwards."),
    {0},
};

static const struct cli_option submit_queue[] = {
    QUEUE_POOL_ROW(struct submit_options),
    QUEUE_LABELS(struct submit_options),
    CLI_TEXT("key", 0, "KEY", struct submit_options, key, .most = 200, .sample = "team-a",
             .about = QUEUE_KEY_ABOUT,
             .detail = "Without it, the key is the user of the database."),
    CLI_NUMBER("weight", 0, "N", struct submit_options, weight, .lowest = 0.001,
               .highest = QUEUE_WEIGHT_MOST, .expected = "a number from 0.001 to 1000",
               .initial = "1", .sample = "4", .about = "Share of its key, compared to other keys."),
    CLI_CHOICE("priority", 0, "N", struct submit_options, priority, queue_priorities,
               .initial = "0", .sample = "5", .expected = "a whole number from -9 to 9",
               .about = "From -9 to 9: a higher priority comes earlier.",
               .detail = "It is a head start. Items of a low priority run, too."),
    CLI_TEXT("limit-key", 0, "KEY", struct submit_options, limit_key, .most = 200,
             .sample = "anthropic",
             .about = "Run at most as many items with this key at a time as its limit allows."),
    CLI_DURATION("in", 0, struct submit_options, delay_ns, .least = 1, .most = QUEUE_DAYS(366),
                 .sample = "1h", .about = "Start no earlier than after this time."),
    CLI_TEXT("at", 0, "TIME", struct submit_options, at, .sample = "2026-11-20T03:00:00Z",
             .about = "Start no earlier than at this time, in UTC."),
    CLI_COUNT("retry", 0, "N", struct submit_options, retry, .most = QUEUE_RETRY_MOST,
              .initial = "3", .sample = "0", .about = "Number of retries after an error.",
              .detail = "Only errors that a retry may fix are retried. A retry continues in the "
                        "same session, and runs no committed turn again."),
    CLI_DURATION("retry-delay", 0, struct submit_options, retry_delay_ns, .most = CLI_SECONDS(600),
                 .initial = "10s", .sample = "1m",
                 .set = CLI_SET(struct submit_options, retry_delayed),
                 .about = "Time until the first retry; it doubles up to 10 minutes."),
    CLI_TEXT("retry-on", 0, "ENDS", struct submit_options, retry_on, .initial = "error",
             .sample = "error,timeout",
             .about = "Ends that are retried: `error`, `timeout`, or both with a comma."),
    CLI_NAME("request-id", 0, "ID", struct run_options, request_id, RUN_WORD_FORM,
             .sample = "nightly-2026-11-17",
             .about = "Submit once: any number of calls with this id make one item.",
             .detail = "Each call gets the same answer, also after the end of the item. With "
                       "another prompt it is a usage error."),
    CLI_TEXT("trace-parent", 0, "T", struct submit_options, trace_parent,
             .sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
             .about = "A traceparent for tools, which get it as TRACEPARENT."),
    {0},
};

static const struct cli_option submit_options[] = {
    CLI_FLAG("wait", 'w', struct submit_options, wait,
             .about = "Wait for the end, print the answer as belay-run(1) does, and exit with its "
                      "exit code."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/submit.json; with `--wait` as in "
                                         "docs/schemas/run.json."),
    QUEUE_STORE_ROW(struct run_options, store),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Run", 0, submit_run),
    CLI_GROUP("Queue", 0, submit_queue),
    {0},
};

static const struct cli_option submit_operands[] = {
    CLI_ANY("PROMPT|-", 0, NULL, struct run_options, prompt, .optional = true,
            .about = "The prompt; `-` reads it from standard input.",
            .detail =
                "Text on standard input is appended to PROMPT, as by belay-run(1). Nothing is "
                "attached: the files are those of the worker."),
    {0},
};

#define QUEUE_ENVIRONMENT                                                                          \
    "PGPASSFILE, PGSERVICEFILE, PGSSLROOTCERT and others\tSettings of libpq.\n"

const struct cli_command cli_submit_command = {
    .name = "submit",
    .summary = "submit a prompt to the queue of a fleet",
    .about = "Puts PROMPT into the queue of a database and prints the id of the item. A worker of "
             "the pool runs it as belay-run(1) does; `belay wait ID` prints its answer and `belay "
             "cancel ID` stops it. With `--wait`, Ctrl-C ends only this command.",
    .detail = "The item is in the database when the id is printed. What a run may do is bounded by "
              "its worker: permission mode, sandbox, folders, providers and cost.",
    .operands = submit_operands,
    .too_many = RUN_QUOTES,
    .options = submit_options,
    .exits = "0\tsubmitted, or with `--wait` completed\n"
             "1\tthe database cannot be used, or with `--wait` the run "
             "failed\n" CLI_EXIT_USAGE_TEXT "3, 124, 143\twith `--wait`: the exit code of the run\n"
             "130\tcancelled, Ctrl-C, or output closed by the reader\n",
    .environment = QUEUE_ENVIRONMENT,
    .examples = "    belay submit 'summarise the changes of today'\n"
                "    belay submit --wait --label gpu=yes --dir /srv/m 'train the model'\n"
                "    belay submit --request-id nightly-2026-11-17 - < task.md",
    .see = "cancel fleet run wait worker",
};

/* ---- wait ------------------------------------------------------------------------------------ */

static const struct cli_option wait_options[] = {
    CLI_DURATION("timeout", 0, struct wait_options, timeout_ns, .least = 0, .sample = "5m",
                 .set = CLI_SET(struct wait_options, timed),
                 .about = "Wait no longer than this; the work continues."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: the line that `belay run --json` would have "
                            "printed, as in docs/schemas/run.json."),
    QUEUE_STORE_ROW(struct wait_options, store),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option wait_operands[] = {
    CLI_TEXT("ID", 0, NULL, struct wait_options, id, .most = 200,
             .hint = "'belay fleet list' lists the items", .about = "The item: an id from submit."),
    {0},
};

const struct cli_command cli_wait_command = {
    .name = "wait",
    .summary = "wait for submitted work and print its answer",
    .about = "Waits for the end of an item, prints what `belay run` would have printed, and exits "
             "with the exit code of the run. For an item that has ended, it prints the same again, "
             "any number of times. Ctrl-C ends only `wait`; the work continues.",
    .operands = wait_operands,
    .options = wait_options,
    .exits = "0\tcompleted\n"
             "1\tthe run failed, the id is unknown, or the database cannot be "
             "used\n" CLI_EXIT_USAGE_TEXT "3\ta limit of turns, steps or budget was reached\n"
             "75\t`--timeout` was reached; the work continues\n"
             "124\tthe deadline of the run was reached\n"
             "130\tcancelled, Ctrl-C, or output closed by the reader\n"
             "143\tended by SIGTERM\n",
    .environment = QUEUE_ENVIRONMENT,
    .examples = "    belay wait run_3p5yd7mcnxw2kq4tzvhb\n"
                "    belay wait run_3p5yd7mcnxw2kq4tzvhb --timeout 5m --json",
    .see = "cancel fleet submit worker",
};

/* ---- worker ---------------------------------------------------------------------------------- */

static const struct cli_option worker_queue[] = {
    QUEUE_POOL_ROW(struct worker_options),
    QUEUE_LABELS(struct worker_options),
    CLI_COUNT("slots", 0, "N", struct worker_options, slots, .least = 1, .most = QUEUE_SLOTS_MOST,
              .initial = "1", .sample = "8", .about = "Number of items to run at a time."),
    CLI_DURATION("drain", 0, struct worker_options, drain_ns, .initial = "10m", .sample = "1m",
                 .about = "After a signal: let running items end within this time, then stop them "
                          "and give them back."),
    CLI_DURATION("until-idle", 0, struct worker_options, until_idle_ns, .least = 1, .sample = "10m",
                 .about = "End when nothing was claimed for this time."),
    {0},
};

static const struct cli_option worker_options[] = {
    CLI_FLAG("quiet", 'q', struct run_options, quiet, .about = "Do not show progress.",
             .detail = "Without it, a line is printed for each item that begins or ends."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Queue", 0, worker_queue),
    CLI_GROUP("Model", 0, cli_run_model_served),
    CLI_GROUP("Session", 0, cli_run_session_offered),
    CLI_GROUP("Limits", 0, cli_run_limits_served),
    CLI_GROUP("Tools", 0, cli_run_tools_auto),
    {0},
};

static const struct cli_topic worker_topics[] = {
    {"Stopping",
     "The first SIGTERM or Ctrl-C drains: nothing more is claimed, running items may end within "
     "`--drain`, and those that do not are stopped and given back, for other workers. A second "
     "signal stops and gives back at once, and a third one skips the grace periods.\n\n"
     "Tools die with their worker, even after `kill -9`. Its items are run by others when its "
     "lease "
     "has ended; on the same machine at once. Committed turns are not run again."},
    {"Environment of tools",
     "BELAY_ITEM\tThe id of the item.\n"
     "BELAY_EPOCH\tA number that is higher each time that the item is started: a service that "
     "remembers the highest one can refuse a worker that lost the item.\n"
     "TRACEPARENT\tThe `--trace-parent` of submit."},
    {0},
};

const struct cli_command cli_worker_command = {
    .name = "worker",
    .summary = "run items from the queue of a fleet",
    .about = "Claims items that `belay submit` puts into the queue of a database, and runs them, "
             "each in a session and in a directory of its own. The options bound what items may "
             "do: an item may request a narrower permission mode, less time and less cost, but "
             "never more. Permission to submit to a pool is permission to run code on the "
             "machines of its workers.",
    .detail = "An item that names no directory gets an empty one below "
              "`$XDG_STATE_HOME/belay/items`, which is removed afterwards. `belay ps` and `belay "
              "cancel` on this machine see each item by its id.",
    .options = worker_options,
    .topics = worker_topics,
    .exits = "0\tdrained\n"
             "1\terror: the database or the configuration cannot be used\n" CLI_EXIT_USAGE_TEXT,
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES
    "$XDG_STATE_HOME/belay/items\tdirectories of items that name none, while they run\n",
    .examples = "    belay worker --slots 8\n"
                "    belay worker --pool gpu --label gpu=yes --permission-mode read-only",
    .see = "cancel fleet ps submit wait",
};
