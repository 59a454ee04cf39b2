/* run, chat, bootstrap, acp and mcp: the commands that work with a model. They share groups of
 * options. */
#include "run.h"

#include "commands.h"

static const char *const run_exhausted[] = {"stop", "synthesize"};
static const char *const run_cancelled[] = {"discard", "keep"};
static const char *const run_addresses[] = {"127.0.0.1", "::1"};

/* ---- The model ------------------------------------------------------------------------------- */

#define RUN_MODEL_ROWS                                                                             \
    CLI_PROVIDER_ROW(struct run_options, workspace.provider),                                      \
        CLI_MODEL_ROW(struct run_options, workspace.model),                                        \
        CLI_PATH("cassette", 0, "FILE", struct run_options, workspace.cassette_path,               \
                 .complete = CLI_COMPLETE_FILES, .sample = "calls.jsonl",                          \
                 .about = "With `--provider replay`: answer from this recording.",                 \
                 .detail = "No network is used. A request that differs from the recorded ones is " \
                           "an error with the code `no_match`."),                                  \
        CLI_PATH(                                                                                  \
            "system", 0, "FILE", struct run_options, workspace.system_path,                        \
            .complete = CLI_COMPLETE_FILES, .sample = "system.md",                                 \
            .about = "Instructions for the model that replace the built-in ones.",                 \
            .detail =                                                                              \
                "The instruction files follow them: `$XDG_CONFIG_HOME/belay/AGENTS.md`, then "     \
                "`AGENTS.md` from the root of the repository down to the current folder."),        \
        CLI_TEXT("append-system-prompt", 0, "TEXT", struct run_options, workspace.system_more,     \
                 .sample = "'Answer in German.'",                                                  \
                 .about = "Additional instructions for the model, after all others.")

const struct cli_option cli_run_model_served[] = {RUN_MODEL_ROWS, {0}};

#define RUN_RECORD_ROW                                                                             \
    CLI_PATH(                                                                                      \
        "record", 0, "FILE", struct run_options, workspace.record_path,                            \
        .complete = CLI_COMPLETE_FILES, .sample = "calls.jsonl",                                   \
        .about = "Record all requests and responses in FILE, without keys.",                       \
        .detail =                                                                                  \
            "FILE must not exist. The recording, a cassette, contains the whole conversation.")

static const struct cli_option run_model_talked[] = {RUN_MODEL_ROWS, RUN_RECORD_ROW, {0}};

static const struct cli_option run_model[] = {
    RUN_MODEL_ROWS,
    RUN_RECORD_ROW,
    CLI_PATH("structured-output", 0, "FILE", struct run_options, workspace.schema_path,
             .complete = CLI_COMPLETE_FILES, .sample = "answer.schema.json",
             .about = "Require an answer in JSON that matches the JSON Schema in FILE.",
             .detail = "If the answer does not match, the model is asked to correct it, at most "
                       "twice; then the turn ends as `error`, kind `parse`."),
    {0},
};

/* ---- The session ----------------------------------------------------------------------------- */

#define RUN_SESSION_ROWS(...)                                                                      \
    CLI_NAME("session", 0, "ID", struct run_options, session, CLI_ID_FORM,                         \
             .complete = CLI_COMPLETE_SESSIONS,                                                    \
             .about = "Use the session with this id; create it if it does not exist.",             \
             .detail = "At most one of `--session`, `--resume` and `--continue` can be given; "    \
                       "without any, a new session is created."),                                  \
        CLI_NAME("resume", 'r', "ID", struct run_options, resume, CLI_ID_FORM,                     \
                 .set = CLI_SET(struct run_options, resumes), .complete = CLI_COMPLETE_SESSIONS,   \
                 .about = "Resume this session, which must exist.", __VA_ARGS__),                  \
        CLI_FLAG("continue", 'c', struct run_options, newest,                                      \
                 .about = "Continue the newest session of this folder.",                           \
                 .detail = "If another process holds it, the command fails; an older session is "  \
                           "never used instead."),                                                 \
        CLI_FLAG("fork", 0, struct run_options, fork,                                              \
                 .about = "Continue in a copy of the session, even if the session is in use.",     \
                 .detail =                                                                         \
                     "Needs `--resume`, `--session` or `--continue`. The copy is a new session "   \
                     "with the same committed turns; the original session is not changed.")
#define RUN_ON_CANCEL_ROW(default_)                                                                \
    CLI_CHOICE("on-cancel", 0, "WHAT", struct run_options, workspace.limits.keep, run_cancelled,   \
               .initial = (default_), .sample = "keep",                                            \
               .about = "What to do with a stopped turn: `discard` it, or `keep` its output, "     \
                        "marked as interrupted.",                                                  \
               .detail = "A turn that was stopped before it started is never kept.")
#define RUN_STORE_ROW CLI_STORE_ROW(struct run_options, store)

static const struct cli_option run_session[] = {
    RUN_SESSION_ROWS(.bare = false),
    RUN_ON_CANCEL_ROW("discard"),
    RUN_STORE_ROW,
    CLI_NAME("request-id", 0, "ID", struct run_options, request_id, RUN_WORD_FORM,
             .sample = "job-17",
             .about = "Make the run idempotent: if the same id is given again, recorded turns are "
                      "replayed, and only missing ones are run.",
             .detail = "The id is valid in the whole store. With another prompt or session it is a "
                       "usage error."),
    {0},
};

static const struct cli_option run_session_talked[] = {
    RUN_SESSION_ROWS(.bare = true,
                     .detail = "Without ID, choose a session from a list, which needs a terminal: "
                               "type to search, use the arrow keys to move, Enter to open, Esc to "
                               "leave, and Tab to show the sessions of all folders."),
    RUN_ON_CANCEL_ROW("keep"),
    RUN_STORE_ROW,
    {0},
};

static const struct cli_option run_session_edited[] = {RUN_STORE_ROW, {0}};
const struct cli_option cli_run_session_offered[] = {
    RUN_ON_CANCEL_ROW("discard"), RUN_STORE_ROW, {0}};

/* ---- Limits ---------------------------------------------------------------------------------- */

#define RUN_LIMIT_ROWS                                                                             \
    CLI_DURATION("timeout", 0, struct run_options, workspace.timeout_ns, CLI_ANY_SIGN,             \
                 .sample = "90s", .set = CLI_SET(struct run_options, workspace.timed),             \
                 .about = "Deadline: stop after this time. 0 or less stops at once.",              \
                 .detail =                                                                         \
                     "`run` and `bootstrap` have one deadline for everything; in `chat` each "     \
                     "turn has its own, in `acp` each prompt, and in `mcp` each run. A duration "  \
                     "is a number of seconds or has a unit: `90`, `90s`, `500ms`, `2.5m`, `1h`."), \
        CLI_COUNT("max-session-turns", 0, "N", struct run_options,                                 \
                  workspace.limits.max_session_turns, .sample = "100",                             \
                  .about = "Turn limit for the session: start no turn if it already has N.",       \
                  .detail = "The turn ends as `max_turns_reached`."),                              \
        RUN_MAX_STEPS_ROW,                                                                         \
        CLI_CHOICE("on-exhausted", 0, "WHAT", struct run_options, workspace.limits.synthesize,     \
                   run_exhausted, .initial = "stop", .sample = "synthesize",                       \
                   .about = "At `--max-steps`: `stop` ends the turn as max_steps_reached, "        \
                            "`synthesize` makes one more call, without tools, to summarize "       \
                            "the results so far."),                                                \
        CLI_COUNT("max-budget-tokens", 0, "N", struct run_options,                                 \
                  workspace.limits.max_budget_tokens, .sample = "200000",                          \
                  .about = "Token limit for the session, input and output together.",              \
                  .detail = "A request that would exceed it is not sent, and a turn that has "     \
                            "exceeded it is not committed: `max_budget_reached`."),                \
        CLI_NUMBER("max-budget-usd", 0, "USD", struct run_options, workspace.max_budget_usd,       \
                   .sample = "0.50", .set = CLI_SET(struct run_options, workspace.budgeted),       \
                   .about = "Cost limit: a request that could exceed it is not sent. Needs a "     \
                            "model with a known price.",                                           \
                   .detail =                                                                       \
                       "Applies to one run; in `acp` to each prompt. Before each request, its "    \
                       "maximum cost is reserved. A request that does not fit, even with fewer "   \
                       "output tokens, is not sent, and the turn ends as `max_budget_reached`. "   \
                       "For a model whose price is unknown, the option is a usage error.")

const struct cli_option cli_run_limits_served[] = {RUN_LIMIT_ROWS, {0}};

static const struct cli_option run_limits[] = {
    RUN_LIMIT_ROWS,
    RUN_MAX_TURNS_ROW,
    CLI_TEXT("continuation-prompt", 0, "TEXT", struct run_options, continuation,
             .sample = "'continue until all tests pass'",
             .about = "Prompt for each further turn. Without it, the run has one turn."),
    {0},
};

/* ---- Tools ----------------------------------------------------------------------------------- */

#define RUN_RULE_DETAIL                                                                            \
    "A rule is TOOL or TOOL(PATTERN), as in `bash(git *)`, `write(src/**)` or `task(worker)`. A "  \
    "rule for a tool that does not exist is an error. "
#define RUN_TOOL_ROWS(default_)                                                                    \
    CLI_CHOICE(                                                                                    \
        "permission-mode", 0, "MODE", struct run_options, workspace.mode, cli_permission_names,    \
        .initial = (default_), .sample = "read-only",                                              \
        .set = CLI_SET(struct run_options, workspace.mode_chosen),                                 \
        .about =                                                                                   \
            "How to treat tool calls that no rule matches: `auto` runs those that stay in the "    \
            "workspace or in the sandbox, `ask` asks before changes, `read-only` refuses "         \
            "changes, `plan` refuses them until a plan is approved, `yolo` runs everything.",      \
        .detail = "Calls that only read always run. Commands that cannot ask the user (`run`, "    \
                  "`bootstrap`, `mcp`) refuse in mode `ask`; in mode `plan`, they end with a "     \
                  "plan as the answer. `read-only` and `plan` refuse changes even if a rule "      \
                  "allows them. In `acp`, sessions start in this mode; in `mcp`, it is the "       \
                  "widest mode that a call can request."),                                         \
        CLI_FLAG("yolo", 0, struct run_options, workspace.mode, .value = BL_PERMISSION_YOLO,       \
                 .set = CLI_SET(struct run_options, workspace.mode_chosen),                        \
                 .about = "Same as `--permission-mode yolo`."),                                    \
        CLI_LIST(CLI_TYPE_ANY, "allow", "RULE", struct run_options, workspace.allow, allow_count,  \
                 .complete = CLI_COMPLETE_TOOLS, .sample = "'bash(git *)'",                        \
                 .about = "Allow a tool: `bash`, `bash(git *)`, `write(src/**)`.",                 \
                 .detail = RUN_RULE_DETAIL                                                         \
                 "A pattern allows a command only if each of its parts matches a pattern, and "    \
                 "never a command with substitutions, assignments, redirections to files or "      \
                 "control structures. A star stands for arguments, never for another command: "    \
                 "builtins that evaluate their arguments, such as `eval` or `printf -v`, need a "  \
                 "rule without a star, and programs that run other programs, such as `env` or "    \
                 "`xargs`, need a rule that names the other program before its first star. In a "  \
                 "path, `*` matches within a folder, `**` also across folders, and a pattern "     \
                 "that ends in a slash matches everything in the folder. `--allow network` gives " \
                 "the sandbox network access; `--allow 'read(~/.npmrc)'` makes a file with "       \
                 "secrets visible to commands in the sandbox."),                                   \
        CLI_LIST(CLI_TYPE_ANY, "deny", "RULE", struct run_options, workspace.deny, deny_count,     \
                 .complete = CLI_COMPLETE_TOOLS, .sample = "'bash(rm *)'",                         \
                 .about = "Deny a tool; takes precedence over `--allow`, in every mode.",          \
                 .detail = RUN_RULE_DETAIL                                                         \
                 "A rule that denies `read` of a path also denies `edit`, `grep`, `glob` and "     \
                 "`ls` of it. It does not apply to `bash`."),                                      \
        CLI_LIST(CLI_TYPE_PATH, "add-dir", "DIR", struct run_options, workspace.folders,           \
                 folder_count, .complete = CLI_COMPLETE_FOLDERS, .sample = "../shared",            \
                 .about = "Another folder that tools may read and write.",                         \
                 .detail = "Paths outside the current folder and these are refused in every "      \
                           "mode."),                                                               \
        CLI_MCP_CONFIG_ROW(struct run_options, workspace.mcp_files, mcp_file_count),               \
        CLI_TRUST_MCP_ROW(struct run_options, workspace.trust_mcp,                                 \
                          .detail = "Without it, `chat` asks about each server once and "          \
                                    "remembers a yes to that exact entry; other commands do not "  \
                                    "start unapproved servers and print a warning."),              \
        CLI_SANDBOX_ROW(struct run_options, workspace.sandbox,                                     \
                        .set = CLI_SET(struct run_options, workspace.sandbox_chosen)),             \
        CLI_CONTAINER_ROW(struct run_options, workspace.container),                                \
        CLI_GRACE_ROW(struct run_options, workspace.grace_ms, CLI_SECONDS(60),                     \
                      .set = CLI_SET(struct run_options, workspace.graced),                        \
                      .detail = "A second stop skips the rest of the grace period. MCP servers "   \
                                "always have 200 ms.")

const struct cli_option cli_run_tools_auto[] = {RUN_TOOL_ROWS("auto"), {0}};
static const struct cli_option run_tools_ask[] = {RUN_TOOL_ROWS("ask"), {0}};

/* ---- Shared texts ---------------------------------------------------------------------------- */

#define RUN_EXITS                                                                                  \
    "0\tcompleted\n"                                                                               \
    "1\terror: the model, the store or belay itself failed, the session is in use, or a stop "     \
    "failed: processes are left running, or their end could not be verified\n" CLI_EXIT_USAGE_TEXT \
    "3\tmax_turns_reached, max_budget_reached or max_steps_reached\n"                              \
    "124\ttimeout: the deadline was reached\n"                                                     \
    "130\tcancelled, or output closed by the reader\n"                                             \
    "143\tcancelled by SIGTERM\n"

static const struct cli_topic run_topics[] = {
    {"Stopping",
     "These stop a run:\n"
     "- SIGINT (Ctrl-C) and SIGTERM; SIGHUP and SIGQUIT, unless they were ignored at the start\n"
     "- the deadline\n"
     "- belay-cancel(1)\n"
     "- a reader that closes standard output\n\n"
     "A call to the model is cut off and its socket is closed; the receipt says at which point. "
     "All processes of a running tool get SIGTERM and, after the grace period, SIGKILL, until none "
     "is left. A second signal skips the grace period. A turn that was already claimed for its "
     "commit completes; the next one is not started. If belay itself is killed, its tools are "
     "killed with it, and the session is at its last committed turn.\n\n"
     "The receipt has the origin of the stop, the times at which it was observed and complete, the "
     "fate of each unit of work, and the number of surviving processes, which must be 0."},
    {"JSON",
     "The members of the envelope are `session_id`, `provider`, `model`, `prompt`, `max_turns`, "
     "`timeout_seconds`, `turns_completed`, `turns`, `result`, `final_stop_reason`, "
     "`final_cancel_observed`, `usage`, `spent` and `receipt`; or only `error` if the run could "
     "not start. `usage` counts committed turns; `spent` also counts rejected ones. The schemas "
     "are `run.json`, `turn-result.json` and `event.json`."},
    {0},
};

/* ---- run ------------------------------------------------------------------------------------- */

static const struct cli_option run_options[] = {
    CLI_FORMAT_ROW(CLI_STREAM_FORMATS,
                   .about = "`text`, `json`: one line at the end, as in docs/schemas/run.json, or "
                            "`stream-json`: every event as it happens, and that line as the last.",
                   .detail = "In both JSON formats standard error is silent."),
    CLI_JSON_ROW(),
    CLI_FLAG(
        "quiet", 'q', struct run_options, quiet, .about = "Do not show progress.",
        .detail =
            "Without it, text output includes progress if standard error is a terminal: text as it "
            "arrives, a line for each tool call with its result, retries, and at the end tokens, "
            "cost and time. Refused calls, errors and receipts are printed in any case."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, run_model),
    CLI_GROUP("Session", 0, run_session),
    CLI_GROUP("Limits", 0, run_limits),
    CLI_GROUP("Tools", 0, cli_run_tools_auto),
    {0},
};

static const struct cli_option run_operands[] = {
    CLI_ANY("PROMPT|-", 0, NULL, struct run_options, prompt, .optional = true,
            .about = "The prompt; `-` reads it from standard input.",
            .detail = "Text on standard input, as in `git diff | belay run 'review'`, is appended "
                      "to PROMPT in a block between the lines `<stdin>` and `</stdin>`."),
    {0},
};

const struct cli_command cli_run_command = {
    .name = "run",
    .summary = "run one prompt non-interactively",
    .usage = "belay -p PROMPT [OPTION]...",
    .about = "Runs PROMPT and exits when it is done. Without PROMPT, or with `-`, the prompt is "
             "read from standard input; with PROMPT, text on standard input is appended to it. The "
             "answer of each completed turn goes to standard output. Standard error shows progress "
             "if it is a terminal, and gets refused calls and, after a stop, the receipt as one "
             "line. Ctrl-C and SIGTERM stop the run, and a second one skips the grace periods. "
             "SIGHUP, unless it was ignored at the start, and a reader that closes standard output "
             "stop it as well. A turn is committed to its session as a whole, or not at all.",
    .detail =
        "A prompt is UTF-8 and has at most 16 MiB, including standard input; an answer has at most "
        "8 MiB. If standard input is a pipe or socket on which nothing arrives for 3 seconds, or "
        "for a quarter of the time until the deadline, and no other command of a pipeline writes "
        "to it, PROMPT is run alone, with a warning. A file on standard input is also read: in a "
        "shell loop that reads its lines from standard input, add `< /dev/null`.\n\n"
        "A turn is one prompt with all the calls to the model and to tools that it needs. A turn "
        "that does not end as `completed` leaves the session unchanged and is kept beside it as an "
        "attempt; see belay-session(1). Standard error also reports why a turn did not complete, "
        "and that the last owner of the session had died.\n\n"
        "`@FILE` and `@FOLDER/` in PROMPT attach the file or the listing of the folder, as `read` "
        "and `ls` show them; `@\"FILE\"` is for names with blanks. The path of an image attaches "
        "it even without `@`. A name that cannot be read stays text, and standard error reports "
        "why. Prompts on standard input attach nothing.\n\n"
        "If an option is given more than once, the last value is used, except for repeatable "
        "options. If no provider is chosen or configured and no key is in the environment, the "
        "built-in script model answers, and a line on standard error says so. By default the "
        "sandbox is `workspace` in mode `auto` where it works, and `off` otherwise.",
    .operands = run_operands,
    .too_many = RUN_QUOTES,
    .options = run_options,
    .topics = run_topics,
    .exits = RUN_EXITS,
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES,
    .examples = "    belay run 'say hello'\n"
                "    git diff | belay run --timeout 5m 'review'\n"
                "    belay run --timeout 5m - < task.md\n"
                "    belay -p 'now add a test' --continue --json\n"
                "    belay run --output-format stream-json --max-turns 20 \\\n"
                "        --continuation-prompt 'continue until all tests pass' 'fix the build'",
    .see = "bootstrap cancel chat doctor ps script session tools",
};

/* ---- bootstrap ------------------------------------------------------------------------------- */

static const struct cli_option bootstrap_limits[] = {RUN_LIMIT_ROWS, {0}};

static const struct cli_option bootstrap_options[] = {
    CLI_FORMAT_ROW(CLI_FORMATS,
                   .about = "`text`, or `json`: one line, as in docs/schemas/bootstrap.json."),
    CLI_JSON_ROW(),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, run_model),
    CLI_GROUP("Session", 0, run_session),
    CLI_GROUP("Limits", 0, bootstrap_limits),
    CLI_GROUP("Tools", 0, cli_run_tools_auto),
    {0},
};

const struct cli_command cli_bootstrap_command = {
    .name = "bootstrap",
    .summary = "report the setup of a session and run its first turn",
    .about = "Reports the setup of a session (workspace, instructions, tools, provider, limits, "
             "containment, and the commands and tools that the prompt matches), runs the first "
             "turn, and keeps it if it completes. It stops in the same way as `belay run`.",
    .detail = "In JSON, the members are `session_id`, `prompt`, `workspace`, `instructions`, "
              "`tools`, `provider`, `model`, `limits`, `containment`, `routed_matches`, `turn` and "
              "`persisted` (true if the turn is in the store).",
    .operands = run_operands,
    .too_many = RUN_QUOTES,
    .options = bootstrap_options,
    .exits = RUN_EXITS,
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES,
    .examples = "    belay bootstrap 'say hello'\n"
                "    belay bootstrap --json --provider script:demo.yaml 'say hello'",
    .see = "route run tools",
};

/* ---- chat ------------------------------------------------------------------------------------ */

static const char *const chat_theme_names[] = {
    [BL_THEME_AUTO] = "auto", [BL_THEME_DARK] = "dark", [BL_THEME_LIGHT] = "light"};
static const char *const chat_notify_names[] = {
    [BL_NOTIFY_OFF] = "off", [BL_NOTIFY_BELL] = "bell", [BL_NOTIFY_OSC9] = "osc9"};

static const struct cli_option chat_display[] = {
    CLI_CHOICE(
        "theme", 0, "NAME", struct run_options, theme, chat_theme_names, .initial = "auto",
        .sample = "light", .set = CLI_SET(struct run_options, theme_chosen),
        .about = "Choose colours for a `dark` or a `light` background; `auto` asks the "
                 "terminal.",
        .detail = "`auto` reads COLORFGBG or else asks the terminal (OSC 11), and assumes a dark "
                  "background if there is no reply. In the configuration: `chat: {theme: light}`."),
    CLI_CHOICE("notify", 0, "HOW", struct run_options, notify, chat_notify_names, .initial = "bell",
               .sample = "osc9", .set = CLI_SET(struct run_options, notify_chosen),
               .about = "How to notify you when a long turn ends or has a question: `bell`, `osc9` "
                        "(a desktop notification, if the terminal supports it) or `off`.",
               .detail = "A turn is long if this happens at least 10 seconds after the last key "
                         "press. In the configuration: `chat: {notify: osc9, notify_after: 30s}`."),
    {0},
};

static const struct cli_option chat_options[] = {
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Display", 0, chat_display),
    CLI_GROUP("Model", 0, run_model_talked),
    CLI_GROUP("Session", 0, run_session_talked),
    CLI_GROUP("Limits", 0, cli_run_limits_served),
    CLI_GROUP("Tools", 0, run_tools_ask),
    {0},
};

static const struct cli_option chat_operands[] = {
    CLI_ANY("PROMPT", 0, NULL, struct run_options, prompt, .optional = true,
            .about = "The first prompt."),
    {0},
};

static const struct cli_topic chat_topics[] = {
    {"Keys", "Enter\tSend. During a turn, the message is delivered to that turn after its next "
             "tool results. If the turn completes first, the message is the next prompt; after any "
             "other end, it is back in the input line.\n"
             "Alt+Enter, Ctrl+J, backslash Enter\tStart a new line.\n"
             "Esc, Ctrl+C\tStop the turn and show the receipt; a second time, skip the grace "
             "periods. Without a turn, Ctrl+C clears the line; twice on an empty line, it leaves.\n"
             "Ctrl+D\tLeave, on an empty line. A running turn is stopped.\n"
             "y, n, a\tAnswer a question: yes; no; always, which adds the rule shown for the rest "
             "of the conversation.\n"
             "p, e\tAnswer always, and keep the rule: for this project, or everywhere.\n"
             "t\tAnswer no and write what to do instead; the model gets your text as the result.\n"
             "Shift+Tab\tChange to the next permission mode: ask, auto, plan.\n"
             "Up, Down, Ctrl+R\tBrowse the history; search it.\n"
             "Tab\tComplete a command or a path.\n"
             "Ctrl+A, Ctrl+E, Ctrl+W, Ctrl+U, Ctrl+K, Ctrl+Y, Ctrl+T, Alt+B, Alt+F, Alt+D\tMove "
             "and edit, as in a shell.\n"
             "Ctrl+_, Alt+R\tUndo; redo.\n"
             "Ctrl+G\tEdit the line in `$VISUAL`, `$EDITOR` or vi.\n"
             "Ctrl+V\tPaste an image from the clipboard, with wl-paste or xclip.\n"
             "Ctrl+O\tShow the whole transcript with nothing folded. Esc or Ctrl+O returns; "
             "arrows, Page Up, Page Down, g and G move.\n"
             "Ctrl+L, Ctrl+Z\tClear the screen; suspend."},
    {"Commands",
     "/help\tList the commands.\n"
     "/model [NAME]\tList the configured models and the one in use, or use another one from the "
     "next prompt on.\n"
     "/tools\tList the tools.\n"
     "/sessions\tList the sessions of this folder.\n"
     "/new\tStart a new session; this one is kept.\n"
     "/clear\tStart a new session and clear the screen.\n"
     "/resume [ID]\tResume that session; without ID, choose one from a list.\n"
     "/fork [ID]\tContinue in a copy of this session, with that ID.\n"
     "/compact\tSummarize all turns except the newest, to free room in the context.\n"
     "/ps\tList running work: the turn, calls, sub-agents, background commands.\n"
     "/cancel ID\tStop one of these and show the receipt.\n"
     "/finish\tStop the turn after the step in flight.\n"
     "/cost\tShow tokens and cost of the turn, of the session, and by model.\n"
     "/diff\tShow the changes in the workspace since the last commit.\n"
     "/context\tShow what fills the context, and the room left.\n"
     "/plan [PROMPT]\tChange to permission mode plan: nothing is changed before you approve a "
     "plan.\n"
     "/permissions [MODE | allow RULE | deny RULE | remove RULE]\tShow or change what tools may "
     "do, for this conversation.\n"
     "/vim\tSwitch vim keys on or off; `chat: {edit_mode: vim}` in the configuration makes them "
     "the default.\n"
     "/quit\tLeave.\n"
     "/NAME [ARGUMENTS]\tSend the prompt in `.belay/commands/NAME.md`; belay-commands(1).\n\n"
     "/model, /new, /clear, /resume, /fork and /compact wait for the end of the turn; the others "
     "run at once."},
    {"Shell commands",
     "!COMMAND runs a command without asking: in the workspace, in the sandbox if there is one, "
     "and with the environment that tools get. Esc stops it. The model gets the command and its "
     "output with the next prompt. Without a terminal, such a line is a prompt."},
    {"Stopping",
     "See belay-run(1). A stop applies to one turn: if it is too late for that turn, it does not "
     "affect the next one. Background commands continue, and the receipt names them; they are "
     "stopped when the conversation ends. SIGHUP, SIGTERM and a closed terminal stop the turn, "
     "keep its output, and end the conversation. The terminal is restored, even after a crash."},
    {0},
};

const struct cli_command cli_chat_command = {
    .name = "chat",
    .summary = "start a conversation in the terminal (the default)",
    .usage = "belay",
    .about =
        "Starts a conversation with a model that has tools. It shows answers and tool calls as "
        "they arrive, and asks before any call that is not allowed yet. Esc or Ctrl+C stops the "
        "turn and shows the receipt; a second one skips the grace periods. Text that is sent "
        "during a turn is delivered to it after its next tool results. Alt+Enter, Ctrl+J, or a "
        "backslash before Enter starts a new line. Ctrl+D leaves, and so does Ctrl+C twice. /help "
        "lists the commands. Without a terminal, each line of standard input is a prompt.",
    .detail = "Each prompt is a turn, which is committed to the session as a whole or not at all. "
              "The output of a stopped turn is kept, unless `--on-cancel discard` is given.\n\n"
              "The last two lines of the screen are the status (current step, time left, "
              "sub-agents, jobs, model, tokens, context left, cost, permission mode, sandbox) and "
              "the input line. The lines above them are not redrawn.\n\n"
              "Without a terminal, answers go to standard output and everything else to standard "
              "error. Calls that would need a question are then refused.",
    .operands = chat_operands,
    .too_many = RUN_QUOTES,
    .options = chat_options,
    .topics = chat_topics,
    .exits =
        "0\tthe conversation was ended\n"
        "1\terror: the session, the store or the terminal could not be used\n" CLI_EXIT_USAGE_TEXT
        "130\tthe terminal was closed, or output closed by the reader\n"
        "143\tended by SIGTERM\n",
    .environment = RUN_ENVIRONMENT
    "NO_COLOR\tIf set and not empty, no colours are used.\n"
    "COLORFGBG\tColours of the terminal, as `0;15`; for `--theme auto`.\n"
    "COLORTERM, TERM\tThe number of colours; with TERM `dumb`, chat works as without a terminal.\n",
    .files = RUN_FILES
    "$XDG_DATA_HOME/belay/history\tinput lines of all sessions, readable only by their owner\n",
    .examples = "    belay\n"
                "    belay chat --continue\n"
                "    belay chat --permission-mode auto --allow 'bash(make *)'",
    .see = "cancel ps run session tools",
};

/* ---- acp ------------------------------------------------------------------------------------- */

static const struct cli_option acp_options[] = {
    CLI_FLAG("minimal", 0, struct acp_options, minimal,
             .about = "Send only the kinds of updates in the first published schema, for editors "
                      "that support no others."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, cli_run_model_served),
    CLI_GROUP("Session", 0, run_session_edited),
    CLI_GROUP("Limits", 0, cli_run_limits_served),
    CLI_GROUP("Tools", 0, run_tools_ask),
    {0},
};

#define RUN_NO_MODEL                                                                               \
    "If no provider is chosen or configured and no key is set, there is no model, and a prompt "   \
    "is "                                                                                          \
    "answered with an error that names the variables to set."

const struct cli_command cli_acp_command = {
    .name = "acp",
    .summary = "serve an editor over the Agent Client Protocol (ACP)",
    .about = "Speaks the Agent Client Protocol, version 1, on standard input and output, so that "
             "an editor can use belay as its agent; docs/editors.md has settings for some editors. "
             "Standard output carries the protocol and nothing else; messages go to standard "
             "error. A cancelled prompt is answered, with the receipt, when none of its work is "
             "left running. If the editor closes standard input, or SIGTERM or Ctrl-C arrives, all "
             "sessions and their work are stopped.",
    .detail = "There is one JSON-RPC message per line. The sessions are those of belay-session(1); "
              "each works in the folder that the editor names, with the configuration found there. "
              "The `stopReason` of a cancelled prompt is `cancelled`, the receipt is in `_meta`, "
              "and the partial output is kept in the session, marked as interrupted. " RUN_NO_MODEL,
    .options = acp_options,
    .exits = "0\tthe editor disconnected, and nothing was running\n"
             "1\terror: the store or the configuration cannot be used\n" CLI_EXIT_USAGE_TEXT
             "130\tthe editor disconnected, or Ctrl-C arrived, while work was running\n"
             "143\tended by SIGTERM\n",
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES,
    .examples = "    belay acp\n"
                "    belay acp --model anthropic/claude-sonnet-5 --timeout 30m\n"
                "    belay acp --minimal --provider script:demo.yaml",
    .see = "cancel mcp ps run session",
};

/* ---- mcp ------------------------------------------------------------------------------------- */

static const struct cli_option mcp_http[] = {
    CLI_COUNT(
        "http", 0, "PORT", struct mcp_options, http_port, .optional = true, .most = UINT16_MAX,
        .set = CLI_SET(struct mcp_options, http), .sample = "8765",
        .about =
            "Serve HTTP at http://127.0.0.1:PORT/mcp; without PORT, or with 0, on any free port.",
        .detail = "The address and the path of the token file are printed to standard error."),
    CLI_PATH(
        "token-file", 0, "FILE", struct mcp_options, token_file, .complete = CLI_COMPLETE_FILES,
        .sample = "token", .initial = "$XDG_STATE_HOME/belay/mcp-token",
        .about = "File with the token that each request must send; created if it does not exist.",
        .detail = "A request sends it in `Authorization: Bearer`. A new token has 256 random bits. "
                  "No other user may have access to the file."),
    CLI_LIST(CLI_TYPE_TEXT, "origin", "HOST", struct mcp_options, origins, origin_count,
             .sample = "app.example",
             .about = "Another host to accept in the headers Origin and Host."),
    CLI_TEXT("address", 0, "ADDRESS", struct mcp_options, address, .choices = run_addresses,
             .choice_count = 2, .initial = "127.0.0.1", .sample = "::1",
             .about = "Loopback address to listen on.",
             .detail = "Any other address is a usage error."),
    {0},
};

static const struct cli_option mcp_entry[] = {
    CLI_FLAG("project", 0, struct mcp_options, project,
             .verbs = CLI_VERB(MCP_ADD) | CLI_VERB(MCP_REMOVE),
             .about = "Change `.mcp.json` in this folder, which a project shares, instead of your "
                      "own file."),
    CLI_LIST(CLI_TYPE_TEXT, "env", "NAME=VALUE", struct mcp_options, variables, variable_count,
             .verbs = CLI_VERB(MCP_ADD), .sample = "LOG=debug",
             .about = "A variable of the server; `NAME=${NAME}` takes its value from the "
                      "environment at each start."),
    CLI_LIST(CLI_TYPE_TEXT, "header", "NAME:VALUE", struct mcp_options, headers, header_count,
             .verbs = CLI_VERB(MCP_ADD), .sample = "'Authorization: Bearer ${TOKEN}'",
             .about = "A header of each request to a URL."),
    CLI_FLAG("force", 0, struct mcp_options, force, .verbs = CLI_VERB(MCP_ADD),
             .about = "Replace a server of the same name."),
    {0},
};

#define MCP_ENTRY_VERBS (CLI_VERB(MCP_ADD) | CLI_VERB(MCP_REMOVE))

static const struct cli_option mcp_options[] = {
    CLI_FORMAT_ROW(CLI_FORMATS, .verbs = CLI_VERB(MCP_LIST),
                   .about = "`text`, or `json`: one line, as in docs/schemas/mcp-list.json."),
    CLI_JSON_ROW(.verbs = CLI_VERB(MCP_LIST)),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Servers", MCP_ENTRY_VERBS, mcp_entry),
    CLI_GROUP("HTTP", CLI_VERB(MCP_SERVE), mcp_http),
    CLI_GROUP("Model", CLI_VERB(MCP_SERVE), cli_run_model_served),
    CLI_GROUP("Session", CLI_VERB(MCP_SERVE), cli_run_session_offered),
    CLI_GROUP("Limits", CLI_VERB(MCP_SERVE), cli_run_limits_served),
    CLI_GROUP("Tools", CLI_VERB(MCP_SERVE), cli_run_tools_auto),
    {0},
};

static const struct cli_option mcp_serve_operands[] = {
    CLI_COUNT("PORT", 0, NULL, struct mcp_options, port, .optional = true, .most = UINT16_MAX,
              .about = "The port for `--http`."),
    {0},
};

static const struct cli_option mcp_add_operands[] = {
    CLI_TEXT("NAME", 0, NULL, struct mcp_options, name, .most = 200,
             .hint = "'belay mcp add NAME URL', or 'belay mcp add NAME -- COMMAND ARGUMENT...'",
             .about = "A name for the server: its tools are called `mcp__NAME__TOOL`."),
    CLI_LIST(CLI_TYPE_TEXT, "URL|COMMAND", NULL, struct mcp_options, words, word_count,
             .complete = CLI_COMPLETE_PROGRAMS,
             .hint = "an http:// or https:// URL, or a command with its arguments",
             .about = "Its URL, or the command that starts it, with arguments. Write `--` before a "
                      "command that has options."),
    {0},
};

static const struct cli_option mcp_remove_operands[] = {
    CLI_TEXT("NAME", 0, NULL, struct mcp_options, name,
             .hint = "'belay mcp list' lists the servers", .about = "The name of the server."),
    {0},
};

static const struct cli_verb mcp_verbs[] = {
    [MCP_SERVE] = {"serve", "Serve other agents (the default).", NULL, mcp_serve_operands},
    [MCP_ADD] = {"add", "Add an MCP server, whose tools the model gets.",
                 "Nothing is started. A server that you add to `.mcp.json` counts as approved on "
                 "this machine.",
                 mcp_add_operands},
    [MCP_LIST] = {"list", "List the MCP servers that are configured here.", NULL, NULL},
    [MCP_REMOVE] = {"remove", "Remove an MCP server.", NULL, mcp_remove_operands},
    {0},
};

const struct cli_command cli_mcp_command = {
    .name = "mcp",
    .summary = "serve other agents as an MCP server, or manage MCP servers",
    .usage = "belay mcp [OPTION]...",
    .about =
        "Serves other agents as an MCP server, on standard input and output or over HTTP on "
        "loopback, with five tools: `run` runs a prompt, `exec`, `wait` and `terminate` run "
        "JavaScript in cells, and `cancel` stops any of these and answers with the receipt when "
        "none of the work is left running. docs/mcp.md has settings for some agents. Standard "
        "output carries the protocol and nothing else. The user cannot be asked, so calls that "
        "neither the mode nor a rule allows are refused. A call may request a narrower permission "
        "mode, but not a wider one.\n\n"
        "`add`, `list` and `remove` manage the MCP servers whose tools belay's own agents use.",
    .detail = "The versions of the protocol are 2026-07-28, 2025-11-25 and 2025-06-18. For work "
              "that has ended, `cancel` answers with its result. On standard input and output, the "
              "end of input stops everything. " RUN_NO_MODEL,
    .verbs = mcp_verbs,
    .verb_at = offsetof(struct mcp_options, verb),
    .verb_implied = true,
    .options = mcp_options,
    .exits = "0\tthe client disconnected, and nothing was running; or done\n"
             "1\terror: the store, the configuration, the token or the port cannot be used; a "
             "server exists already, or does not\n" CLI_EXIT_USAGE_TEXT
             "130\tthe client disconnected while work was running, or Ctrl-C arrived\n"
             "143\tended by SIGTERM\n",
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES,
    .examples = "    belay mcp\n"
                "    belay mcp --permission-mode read-only --timeout 10m\n"
                "    belay mcp --http 8765\n"
                "    belay mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n"
                "    belay mcp add issues https://mcp.example.com/mcp \\\n"
                "        --header 'Authorization: Bearer ${ISSUES_TOKEN}'\n"
                "    belay mcp list",
    .see = "acp cancel cell run tools",
};
