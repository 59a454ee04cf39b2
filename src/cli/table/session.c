#include "cli/session/session.h"
#include "commands.h"

static const struct cli_option session_options[] = {
    CLI_FLAG("all", 0, struct session_work, all, .verbs = CLI_VERB(SESSION_LIST),
             .about = "List all of them, not only those of this folder.",
             .detail = "Includes the sessions of sub-agents, which name their parent session."),
    CLI_NAME("as", 0, "ID", struct session_work, as, CLI_ID_FORM,
             .verbs = CLI_VERB(SESSION_IMPORT) | CLI_VERB(SESSION_FORK),
             .about = "Id of the new session."),
    CLI_FLAG("force", 0, struct session_work, force, .verbs = CLI_VERB(SESSION_MOVE_ASIDE),
             .about = "Rename even a usable store.",
             .detail = "Its sessions are kept in the renamed file; `--store` opens it."),
    CLI_STORE_ROW(struct session_work, where),
    CLI_JSON_ROW(),
    CLI_FORMAT_ROW(CLI_FORMATS, .about = "`text`, or `json`: one line, as in "
                                         "docs/schemas/session-list.json, "
                                         "docs/schemas/session-show.json and so on."),
    CLI_HELP_ROW,
    {0},
};

#define SESSION_ID                                                                                 \
    CLI_NAME("ID", 0, NULL, struct session_work, source, CLI_ID_FORM,                              \
             .complete = CLI_COMPLETE_SESSIONS, .hint = "'belay session list --all' lists them",   \
             .about = "A session.")

static const struct cli_option session_one[] = {SESSION_ID, {0}};

static const struct cli_option session_export_operands[] = {
    SESSION_ID,
    CLI_PATH("FILE", 0, NULL, struct session_work, file, .optional = true,
             .complete = CLI_COMPLETE_FILES, .about = "The file to write."),
    {0},
};

static const struct cli_option session_import_operands[] = {
    CLI_PATH("FILE|-", 0, NULL, struct session_work, file, .optional = true,
             .complete = CLI_COMPLETE_FILES, .about = "The file to read."),
    {0},
};

static const struct cli_option session_several[] = {
    CLI_LIST(CLI_TYPE_NAME, "ID", NULL, struct session_work, ids, id_count, CLI_ID_FORM,
             .complete = CLI_COMPLETE_SESSIONS, .hint = "'belay session list --all' lists them",
             .about = "The sessions."),
    {0},
};

static const struct cli_verb session_verbs[] = {
    [SESSION_LIST] = {"list", "List the sessions of this folder, newest first.",
                      "A session that is in use names its holder.", NULL},
    [SESSION_SHOW] = {"show", "Show a session: its turns, attempts, and tokens used and spent.",
                      NULL, session_one},
    [SESSION_EXPORT] =
        {"export", "Write a session as JSON Lines, to standard output or to FILE.",
         "The lines are the session, its turns with their messages, attempts, events, receipts, "
         "checkpoints, ended cells with their stored values, and a last line with the number of "
         "lines. FILE is written atomically and is readable only by its owner.",
         session_export_operands},
    [SESSION_IMPORT] = {"import", "Read an exported session from FILE or standard input.",
                        "Either everything is imported or nothing.", session_import_operands},
    [SESSION_FORK] = {"fork", "Make a new session with the same turns.",
                      "Values stored by cells are copied; the cells and the sessions of sub-agents "
                      "stay with the old session.",
                      session_one},
    [SESSION_DELETE] =
        {"delete", "Delete sessions permanently, with the sessions of their sub-agents.",
         "A session in use is not deleted; a failure does not affect the other sessions.",
         session_several},
    [SESSION_MOVE_ASIDE] =
        {"move-aside", "Rename an unusable store, so that a new one can be created.",
         "Every page of the store is read first; a usable store is not renamed, "
         "unless `--force` is given. The new name is STORE.aside-TIME. Only for files.",
         NULL},
    {0},
};

static const struct cli_topic session_topics[] = {
    {"One writer",
     "A run holds its session from its first turn to its end. Another run on it fails with exit "
     "code 1 and names the holder. A holder on this machine keeps the session until its process "
     "ends. A holder on another machine keeps it until its lease expires: the lease lasts 30 "
     "seconds and is renewed every 5. Reading a session needs no lease.\n\n"
     "After a run was killed, the next one reports which turn was cut off. The record of that "
     "turn, with a receipt of reason `owner_died`, is among the attempts."},
    {0},
};

const struct cli_command cli_session_command = {
    .name = "session",
    .summary = "list, show, export, import, fork and delete sessions",
    .about = "Manages the sessions in a store. A session is a list of committed turns with their "
             "usage. Turns that did not complete, or were cut off when their process died, are "
             "kept beside it as attempts.",
    .detail = "A store is one SQLite file, or a PostgreSQL database (see belay-fleet(1)).",
    .verbs = session_verbs,
    .verb_at = offsetof(struct session_work, verb),
    .options = session_options,
    .topics = session_topics,
    .exits = "0\tdone\n"
             "1\tthe session does not exist, it is in use, or the store cannot be "
             "used\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = "BELAY_HOST\tName of this machine in leases, if its own name is wrong.\n"
                   "XDG_DATA_HOME\tFolder of the default store; without it `~/.local/share`.\n",
    .examples = "    belay session list --all\n"
                "    belay session show nightly --json\n"
                "    belay session export nightly nightly.jsonl\n"
                "    belay session import nightly.jsonl --as nightly-2",
    .see = "chat run",
};
