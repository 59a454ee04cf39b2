#include "cli/fleet/fleet.h"
#include "commands.h"
#include "run.h"

static const char *const fleet_state_choices[] = {
    [BL_FLEET_DELAYED] = "delayed",         [BL_FLEET_PARKED] = "parked",
    [BL_FLEET_QUEUED] = "queued",           [BL_FLEET_RUNNING] = "running",
    [BL_FLEET_STOPPING] = "stopping",       [BL_FLEET_COMPLETED] = "completed",
    [BL_FLEET_FAILED] = "failed",           [BL_FLEET_CANCELLED] = "cancelled",
    [BL_FLEET_INTERRUPTED] = "interrupted",
};

static const struct cli_option fleet_options[] = {
    CLI_FLAG("ended", 0, struct fleet_work, ended,
             .verbs = CLI_VERB(FLEET_STATUS) | CLI_VERB(FLEET_LIST),
             .about = "List those that have ended, too."),
    CLI_CHOICE("state", 0, "STATE", struct fleet_work, state, fleet_state_choices,
               .verbs = CLI_VERB(FLEET_LIST), .sample = "failed",
               .set = CLI_SET(struct fleet_work, chosen),
               .about = "List only items in this state."),
    CLI_NAME("pool", 0, "NAME", struct fleet_work, pool, QUEUE_POOL_FORM,
             .verbs = CLI_VERB(FLEET_LIST), .about = QUEUE_POOL_ABOUT),
    CLI_TEXT("key", 0, "KEY", struct fleet_work, key, .most = 200, .verbs = CLI_VERB(FLEET_LIST),
             .sample = "team-a", .about = QUEUE_KEY_ABOUT),
    CLI_COUNT("limit", 0, "N", struct fleet_work, limit, .verbs = CLI_VERB(FLEET_LIST), .least = 1,
              .most = FLEET_LIST_MOST, .initial = "100", .sample = "1000",
              .about = "Maximum number of items to list."),
    CLI_TEXT("after", 0, "ID", struct fleet_work, after, .most = 200, .verbs = CLI_VERB(FLEET_LIST),
             .sample = "run_3p5yd7mcnxw2kq4tzvhb",
             .about = "List the items after this one: the next page."),
    CLI_FLAG("plan", 0, struct fleet_work, plan, .verbs = CLI_VERB(FLEET_INIT),
             .about = "Print the SQL and change nothing.",
             .detail = "It connects to no server and needs no `--store`. An administrator can run "
                       "the SQL with psql(1), in one transaction."),
    CLI_STORE("store", 0, "STORE", struct fleet_work, where, .env = "BELAY_STORE",
              .sample = "postgres://ann@db.example.com/belay", .about = CLI_STORE_ABOUT,
              .detail =
                  "Here it must be a database. The address may have parameters of libpq, such as "
                  "`?sslrootcert=FILE`. On the command line, an address with a password is "
                  "refused, because other users can see it: put the address into BELAY_STORE, or "
                  "the password into ~/.pgpass or a service file."),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/fleet-init.json, "
                                         "docs/schemas/fleet-list.json and "
                                         "docs/schemas/fleet-status.json."),
    CLI_HELP_ROW,
    {0},
};

static const struct cli_verb fleet_verbs[] = {
    [FLEET_INIT] =
        {"init", "Create the schema of Belay in a database.",
         "In one transaction it creates the schema `belay` with its tables and functions, and the "
         "roles `belay_worker` and `belay_read` if the server does not have them. The database "
         "must exist, and the user needs CREATE on it and CREATEROLE. If the schema is there "
         "already and this Belay can use it, nothing is changed and the exit code is 0, so that a "
         "script can run it any number of times.",
         NULL},
    [FLEET_STATUS] =
        {"status", "Show the server, the schema, and the workers of a database.",
         "A worker is a process of Belay that holds sessions in the database, or held some. It "
         "is `live`, `draining`, `lost` (another process has taken its sessions) or `gone` (it has "
         "ended). At most 1,000 are listed, those with the newest heartbeat first.",
         NULL},
    [FLEET_LIST] =
        {"list", "List the items of the queue.",
         "The oldest first: those that wait and those that run, and with `--ended` also those that "
         "have ended. An item is `delayed` (until its time), `parked` (until its limit key allows "
         "it), `queued`, `running`, `stopping`, `completed`, `failed`, `cancelled` or "
         "`interrupted` (its worker was lost, and it is not repeated).",
         NULL},
    {0},
};

const struct cli_command cli_fleet_command = {
    .name = "fleet",
    .summary = "set up and inspect a store for several machines",
    .about =
        "Manages a PostgreSQL database as a store, which processes on several machines can use "
        "at the same time. `fleet init` creates its schema; then `--store` and BELAY_STORE of "
        "every command take its address.",
    .detail = "libpq 14 or newer must be installed, and the server must be PostgreSQL 13 or newer. "
              "A server on another machine, and any server that a service file names, must have a "
              "certificate that the client can verify (`sslmode=verify-full`).",
    .verbs = fleet_verbs,
    .verb_at = offsetof(struct fleet_work, verb),
    .options = fleet_options,
    .exits = "0\tdone, or the schema was there already\n"
             "1\tthe server cannot be reached, refuses the user, or has another "
             "schema\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = "PGPASSFILE, PGSERVICEFILE, PGSSLROOTCERT and others\tSettings of libpq.\n",
    .examples = "    belay fleet init --store postgres://ann@db.example.com/belay\n"
                "    belay fleet init --plan | psql --single-transaction belay\n"
                "    belay fleet status --json\n"
                "    belay fleet list --state failed",
    .see = "run session submit wait worker psql(1)",
};
