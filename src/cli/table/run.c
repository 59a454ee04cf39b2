/* run, chat and bootstrap; acp and mcp: everything that works with a model. The groups are shared.
 */
#include "cli/run/run.h"
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
                 .detail = "No network is used. A request that differs from those on record is "   \
                           "an error with the code `no_match`."),                                  \
        CLI_PATH("system", 0, "FILE", struct run_options, workspace.system_path,                   \
                 .complete = CLI_COMPLETE_FILES, .sample = "system.md",                            \
                 .about = "Instructions for the model that replace the built-in ones.",            \
                 .detail =                                                                         \
                     "After them come the instruction files: "                                     \
                     "`$XDG_CONFIG_HOME/belay/AGENTS.md`, then `AGENTS.md` from the root of "      \
                     "the repository down to the current folder."),                                \
        CLI_TEXT("append-system-prompt", 0, "TEXT", struct run_options, workspace.system_more,     \
                 .sample = "'Answer in German.'",                                                  \
                 .about = "Instructions for the model, after all others.")

static const struct cli_option run_model_served[] = {RUN_MODEL_ROWS, {0}};

#define RUN_RECORD_ROW                                                                             \
    CLI_PATH("record", 0, "FILE", struct run_options, workspace.record_path,                       \
             .complete = CLI_COMPLETE_FILES, .sample = "calls.jsonl",                              \
             .about = "Record what goes over the wire, without keys.",                             \
             .detail = "FILE must not exist. The recording, a cassette, holds the whole "          \
                       "conversation.")

static const struct cli_option run_model_talked[] = {RUN_MODEL_ROWS, RUN_RECORD_ROW, {0}};

static const struct cli_option run_model[] = {
    RUN_MODEL_ROWS,
    RUN_RECORD_ROW,
    CLI_PATH("structured-output", 0, "FILE", struct run_options, workspace.schema_path,
             .complete = CLI_COMPLETE_FILES, .sample = "answer.schema.json",
             .about = "Require an answer that is JSON and fits the JSON Schema in FILE.",
             .detail = "The model is told what does not fit, at most twice; then the turn ends as "
                       "`error`, kind `parse`."),
    {0},
};

/* ---- The session ----------------------------------------------------------------------------- */

#define RUN_SESSION_ROWS                                                                           \
    CLI_NAME("session", 0, "ID", struct run_options, session, CLI_ID_FORM,                         \
             .complete = CLI_COMPLETE_SESSIONS,                                                    \
             .about = "Use the session with this id; create it if there is none.",                 \
             .detail = "At most one of `--session`, `--resume` and `--continue` can be given; "    \
                       "without any, a new session is created."),                                  \
        CLI_NAME("resume", 'r', "ID", struct run_options, resume, CLI_ID_FORM,                     \
                 .complete = CLI_COMPLETE_SESSIONS,                                                \
                 .about = "Use this session, which must exist."),                                  \
        CLI_FLAG("continue", 'c', struct run_options, newest,                                      \
                 .about = "Use the newest session of this folder.")
#define RUN_ON_CANCEL_ROW(default_)                                                                \
    CLI_CHOICE("on-cancel", 0, "WHAT", struct run_options, workspace.limits.keep, run_cancelled,   \
               .initial = (default_), .sample = "keep",                                            \
               .about = "What to do with a stopped turn: `discard` it, or `keep` its output, "     \
                        "marked as interrupted.",                                                  \
               .detail = "A turn that was stopped before it began is never kept.")
#define RUN_STORE_ROW CLI_STORE_ROW(struct run_options, store)

static const struct cli_option run_session[] = {
    RUN_SESSION_ROWS,
    RUN_ON_CANCEL_ROW("discard"),
    RUN_STORE_ROW,
    CLI_NAME("request-id", 0, "ID", struct run_options, request_id, .most = 128,
             .letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-",
             .expected = "1 to 128 of the characters A-Z a-z 0-9 . _ : -", .sample = "job-17",
             .about = "Name this run: if it is given again, recorded turns are answered as they "
                      "were, and only what is missing is run.",
             .detail = "The name holds in the whole store. With another prompt or session it is a "
                       "usage error."),
    {0},
};

static const struct cli_option run_session_talked[] = {
    RUN_SESSION_ROWS,
    RUN_ON_CANCEL_ROW("keep"),
    RUN_STORE_ROW,
    {0},
};

static const struct cli_option run_session_edited[] = {RUN_STORE_ROW, {0}};
static const struct cli_option run_session_offered[] = {
    RUN_ON_CANCEL_ROW("discard"), RUN_STORE_ROW, {0}};

/* ---- Limits ---------------------------------------------------------------------------------- */

#define RUN_LIMIT_ROWS                                                                             \
    CLI_DURATION("timeout", 0, struct run_options, workspace.timeout_ns, CLI_ANY_SIGN,             \
                 .sample = "90s", .set = CLI_SET(struct run_options, workspace.timed),             \
                 .about = "Deadline: stop after this time. 0 or less stops at once.",              \
                 .detail = "One deadline covers everything that `run` and `bootstrap` do; in "     \
                           "`chat` each turn has its own, in `acp` each prompt and in `mcp` each " \
                           "run. A duration is a number of seconds or has a unit: `90`, `90s`, "   \
                           "`500ms`, `2.5m`, `1h`."),                                              \
        CLI_COUNT("max-session-turns", 0, "N", struct run_options,                                 \
                  workspace.limits.max_session_turns, .sample = "100",                             \
                  .about = "Refuse to go on if the session already has N turns.",                  \
                  .detail = "The turn ends as `max_turns_reached`."),                              \
        CLI_COUNT("max-steps", 0, "N", struct run_options, workspace.limits.max_steps,             \
                  .sample = "50",                                                                  \
                  .about = "Limit for the tool calls of one turn, without those of sub-agents."),  \
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
                   .about = "Cost limit: a request that could exceed it is not sent. For models "  \
                            "whose price is known.",                                               \
                   .detail =                                                                       \
                       "For one run; in `acp` for each prompt. Before each request the most "      \
                       "that it can cost is reserved; one that does not fit, even with "           \
                       "fewer output tokens, is not sent: `max_budget_reached`. If the "           \
                       "price of the model is not known, it is a usage error.")

static const struct cli_option run_limits_served[] = {RUN_LIMIT_ROWS, {0}};

static const struct cli_option run_limits[] = {
    RUN_LIMIT_ROWS,
    CLI_COUNT("max-turns", 0, "N", struct run_options, workspace.max_turns, .least = 1,
              .initial = "8", .sample = "20", .about = "Turn limit for this run.",
              .detail = "After so many turns the run ends as `completed`."),
    CLI_TEXT("continuation-prompt", 0, "TEXT", struct run_options, continuation,
             .sample = "'go on until all tests pass'",
             .about = "Prompt of each further turn. Without it there is one turn."),
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
        .about = "What happens to tool calls that no rule names: `auto` runs what stays in "       \
                 "the workspace or in the sandbox, `ask` asks before changes, `read-only` "        \
                 "refuses changes, `yolo` runs everything.",                                       \
        .detail = "Reading always runs. Where nobody can be asked (`run`, `bootstrap`, "           \
                  "`mcp`), `ask` refuses. `read-only` refuses whatever a rule allows. In "         \
                  "`acp` it is the mode that sessions begin with, in `mcp` the widest mode "       \
                  "that a call can have."),                                                        \
        CLI_FLAG("yolo", 0, struct run_options, workspace.mode, .value = BL_PERMISSION_YOLO,       \
                 .set = CLI_SET(struct run_options, workspace.mode_chosen),                        \
                 .about = "Same as `--permission-mode yolo`."),                                    \
        CLI_LIST(                                                                                  \
            CLI_TYPE_ANY, "allow", "RULE", struct run_options, workspace.allow, allow_count,       \
            .complete = CLI_COMPLETE_TOOLS, .sample = "'bash(git *)'",                             \
            .about = "Allow a tool: `bash`, `bash(git *)`, `write(src/**)`.",                      \
            .detail = RUN_RULE_DETAIL                                                              \
            "A pattern allows a command only if each of its parts matches one, and none that "     \
            "holds substitutions, assignments, redirections to files or control structures. "      \
            "A star stands for arguments, never for another command: builtins that evaluate "      \
            "their arguments, such as `eval` or `printf -v`, need a rule without a star, and "     \
            "programs that run others, such as `env` or `xargs`, need one that names the "         \
            "other before its first star. In a path, one star stays within a folder, two do "      \
            "not, and a pattern that ends in a slash means everything in the folder. "             \
            "`--allow network` opens the network of the sandbox; `--allow 'read(~/.npmrc)'` "      \
            "shows a file of secrets to commands in the sandbox."),                                \
        CLI_LIST(                                                                                  \
            CLI_TYPE_ANY, "deny", "RULE", struct run_options, workspace.deny, deny_count,          \
            .complete = CLI_COMPLETE_TOOLS, .sample = "'bash(rm *)'",                              \
            .about = "Never allow a tool; wins over `--allow`, in every mode.",                    \
            .detail = RUN_RULE_DETAIL                                                              \
            "A rule that denies `read` of a path also denies `edit`, `grep`, `glob` and `ls` "     \
            "of it, and does not reach `bash`."),                                                  \
        CLI_LIST(CLI_TYPE_PATH, "add-dir", "DIR", struct run_options, workspace.folders,           \
                 folder_count, .complete = CLI_COMPLETE_FOLDERS, .sample = "../shared",            \
                 .about = "Another folder that tools may read and write.",                         \
                 .detail = "Paths outside the current folder and these are refused in every "      \
                           "mode."),                                                               \
        CLI_MCP_CONFIG_ROW(struct run_options, workspace.mcp_files, mcp_file_count),               \
        CLI_TRUST_MCP_ROW(struct run_options, workspace.trust_mcp,                                 \
                          .detail = "Without it `chat` asks about each of them once, and "         \
                                    "remembers a yes to that exact entry; elsewhere they stay "    \
                                    "off, and a warning says so."),                                \
        CLI_SANDBOX_ROW(struct run_options, workspace.sandbox,                                     \
                        .set = CLI_SET(struct run_options, workspace.sandbox_chosen)),             \
        CLI_CONTAINER_ROW(struct run_options, workspace.container),                                \
        CLI_GRACE_ROW(struct run_options, workspace.grace_ms, CLI_SECONDS(60),                     \
                      .set = CLI_SET(struct run_options, workspace.graced),                        \
                      .detail = "A second stop skips the rest of it. MCP servers always have "     \
                                "200 ms.")

static const struct cli_option run_tools_auto[] = {RUN_TOOL_ROWS("auto"), {0}};
static const struct cli_option run_tools_ask[] = {RUN_TOOL_ROWS("ask"), {0}};

/* ---- Texts that they share ------------------------------------------------------------------- */

#define RUN_ENVIRONMENT                                                                            \
    "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY\tKeys of the built-in providers; "    \
    "the "                                                                                         \
    "second is sent as a bearer token. Tools do not get them.\n"                                   \
    "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST\tAddresses of the built-in providers; the "  \
    "second with `/v1`, the first without.\n"                                                      \
    "ANTHROPIC_MODEL, OPENAI_ORG_ID\tDefault model of `anthropic`; organization of OpenAI.\n"      \
    "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY\tProxies, in lower case, too; never used for "   \
    "this machine.\n"                                                                              \
    "SSL_CERT_FILE, SSL_CERT_DIR\tCertificates to trust instead of the system's.\n"                \
    "XDG_CONFIG_HOME\tFolder of the configuration; without it `~/.config`.\n"                      \
    "XDG_DATA_HOME\tFolder of the default store; without it `~/.local/share`.\n"                   \
    "XDG_RUNTIME_DIR\tFolder of the control socket, in `belay/control`; without it "               \
    "`/tmp/belay-UID/control`.\n"

#define RUN_FILES                                                                                  \
    "$XDG_CONFIG_HOME/belay/config.yaml\tproviders, models, permissions, hooks, `env_allow`; see " \
    "docs/agents.md\n"                                                                             \
    "$XDG_CONFIG_HOME/belay/prices.yaml\tprices of models in USD per million tokens: `match`, "    \
    "`input`, `output`, `cache_read`, `cache_write`; wins over the built-in table\n"               \
    "$XDG_CONFIG_HOME/belay/agents, .belay/agents\tpersonas: kinds of sub-agents\n"                \
    "$XDG_CONFIG_HOME/belay/skills, .belay/skills, .agents/skills\tskills: instructions that the " \
    "model reads when it needs them\n"                                                             \
    "$XDG_CONFIG_HOME/belay/AGENTS.md, AGENTS.md\tinstructions of the user and of a project\n"     \
    ".belay/config.yaml\tof a project: `model`, `provider` and `deny` rules, nothing else; wins "  \
    "over the user's file\n"                                                                       \
    "$XDG_CONFIG_HOME/belay/mcp.json\tMCP servers that offer tools\n"                              \
    ".mcp.json\tMCP servers of a project; each starts once the user has agreed to it\n"

#define RUN_EXITS                                                                                  \
    "0\tcompleted\n"                                                                               \
    "1\terror: the model, the store or belay itself failed, the session is in use, or a stop "     \
    "failed: processes are left running, or their end could not be verified\n" CLI_EXIT_USAGE_TEXT \
    "3\tmax_turns_reached, max_budget_reached or max_steps_reached\n"                              \
    "124\ttimeout: the deadline was reached\n"                                                     \
    "130\tcancelled, or output closed by the reader\n"                                             \
    "143\tcancelled by SIGTERM\n"

#define RUN_QUOTES "put a prompt of several words in quotes"

static const struct cli_topic run_topics[] = {
    {"Stopping",
     "These stop a run:\n"
     "- SIGINT (Ctrl-C) and SIGTERM; SIGHUP and SIGQUIT, unless they were ignored at the start\n"
     "- the deadline\n"
     "- belay-cancel(1)\n"
     "- a reader that closes standard output\n\n"
     "The call to the model is cut where it is, and its socket is closed; the receipt says where "
     "that was. All processes of a running tool get SIGTERM, have the grace period, and then get "
     "SIGKILL, until none is left. A second signal skips the grace period. A turn that was already "
     "claimed for its commit completes; the next one is not begun. If belay itself is killed, its "
     "tools are killed with it, and the session is at its last committed turn.\n\n"
     "The receipt says who asked, when the stop was observed, when everything was quiet, what each "
     "unit of work came to, and how many processes survived: a number that must be 0."},
    {"JSON",
     "The members of the envelope are `session_id`, `provider`, `model`, `prompt`, `max_turns`, "
     "`timeout_seconds`, `turns_completed`, `turns`, `final_stop_reason`, "
     "`final_cancel_observed`, `usage`, `spent` and `receipt`; or `error` alone if the run could "
     "not begin. `usage` is what is committed; `spent` also counts what was rejected. The schemas "
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
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, run_model),
    CLI_GROUP("Session", 0, run_session),
    CLI_GROUP("Limits", 0, run_limits),
    CLI_GROUP("Tools", 0, run_tools_auto),
    {0},
};

static const struct cli_option run_operands[] = {
    CLI_ANY("PROMPT|-", 0, NULL, struct run_options, prompt, .optional = true,
            .about = "What to do; `-` reads it from standard input."),
    {0},
};

const struct cli_command cli_run_command = {
    .name = "run",
    .summary = "run a prompt to its end, without a terminal",
    .usage = "belay -p PROMPT [OPTION]...",
    .about = "Runs PROMPT to its end, without a terminal: one loop of turns, then exit. Without "
             "PROMPT, or with `-`, it is read from standard input. The answer of each completed "
             "turn goes to standard output; after a stop the receipt goes to standard error, as "
             "one line. Ctrl-C and SIGTERM stop the run, and a second one skips the grace periods; "
             "so do SIGHUP, unless it was ignored at the start, and a reader that closes standard "
             "output. A turn is committed to its session whole, or not at all.",
    .detail = "A prompt is UTF-8, at most 64 MiB. A turn is one prompt run to its end, with as "
              "many calls to the model and to tools as that needs. Every end but `completed` "
              "leaves the session as it was; the turn is then kept beside the session as an "
              "attempt, see belay-session(1). Standard error also says why a turn did not "
              "complete, and that the last owner of the session had died.\n\n"
              "If an option is given more than once, the last one counts, except for repeatable "
              "ones. If no provider is chosen or configured and no key is in the environment, the "
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
                "    git diff | belay run --timeout 5m --provider script:review.yaml -\n"
                "    belay -p 'go on' --continue --json\n"
                "    belay run --output-format stream-json --max-turns 20 \\\n"
                "        --continuation-prompt 'go on until all tests pass' 'fix the build'",
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
    CLI_GROUP("Tools", 0, run_tools_auto),
    {0},
};

const struct cli_command cli_bootstrap_command = {
    .name = "bootstrap",
    .summary = "report what a session starts with, and run its first turn",
    .about = "Reports everything that a session starts with (workspace, instructions, tools, "
             "provider, limits, containment, what the prompt matches), runs the first turn, and "
             "keeps it if it completes. It is stopped as `belay run` is.",
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

static const struct cli_option chat_options[] = {
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, run_model_talked),
    CLI_GROUP("Session", 0, run_session_talked),
    CLI_GROUP("Limits", 0, run_limits_served),
    CLI_GROUP("Tools", 0, run_tools_ask),
    {0},
};

static const struct cli_option chat_operands[] = {
    CLI_ANY("PROMPT", 0, NULL, struct run_options, prompt, .optional = true,
            .about = "The first prompt."),
    {0},
};

static const struct cli_topic chat_topics[] = {
    {"Keys",
     "Enter\tSend. While a turn runs, it is given to that turn after its next tool results; if the "
     "turn completes before, it is the next prompt; after any other end it is in the line again.\n"
     "Alt+Enter, Ctrl+J, backslash Enter\tStart a new line.\n"
     "Esc, Ctrl+C\tStop the turn and show the receipt; once more skips the grace periods. Without "
     "a turn, Ctrl+C clears the line and, twice in an empty line, leaves.\n"
     "Ctrl+D\tLeave, in an empty line. A running turn is stopped.\n"
     "y, n, a\tAnswer a question: yes; no; always, which allows the rule that is shown for the "
     "rest of the conversation.\n"
     "Up, Down, Ctrl+R\tGo through the history; search it.\n"
     "Tab\tComplete a command or a path.\n"
     "Ctrl+A, Ctrl+E, Ctrl+W, Ctrl+U, Ctrl+K, Ctrl+Y, Ctrl+T, Alt+B, Alt+F, Alt+D\tMove and edit, "
     "as in a shell.\n"
     "Ctrl+L, Ctrl+Z\tClear the screen; suspend."},
    {"Commands",
     "/help\tList the commands.\n"
     "/model [NAME]\tShow the model, or choose another one from the next prompt on.\n"
     "/tools\tList the tools.\n"
     "/sessions\tList the sessions of this folder.\n"
     "/resume ID\tGo on with that session.\n"
     "/fork [ID]\tGo on in a copy of this session.\n"
     "/compact\tSum up all turns but the newest, to make room.\n"
     "/ps\tList running work: the turn, calls, sub-agents, background commands.\n"
     "/cancel ID\tStop one of these and show the receipt.\n"
     "/cost\tShow tokens and money: of the session, and what was spent.\n"
     "/permissions [MODE | allow RULE | deny RULE]\tShow or change what tools may do, for this "
     "conversation.\n"
     "/quit\tLeave.\n\n"
     "/model, /resume, /fork and /compact wait for the end of the turn; the others answer at "
     "once."},
    {"Stopping",
     "As in belay-run(1). Each turn is stopped by itself: a stop that came too late for one does "
     "not reach the next. Background commands go on, and the receipt names them; they are stopped "
     "when the conversation ends. SIGHUP, SIGTERM and a terminal that goes away stop the turn, "
     "keep it, and end the conversation. The terminal is restored, even after a crash."},
    {0},
};

const struct cli_command cli_chat_command = {
    .name = "chat",
    .summary = "talk with a model in the terminal; also: belay alone",
    .usage = "belay",
    .about = "Talks with a model that has tools, in the terminal: shows its answers as they come "
             "and what it does, and asks before anything that nobody has allowed. Esc or Ctrl+C "
             "stops the turn and shows the receipt; once more skips the grace periods. What is "
             "typed while a turn runs is given to it after its next tool results. Alt+Enter, "
             "Ctrl+J, or a backslash before Enter start a new line. Ctrl+D leaves, and so does "
             "Ctrl+C twice. /help lists the commands. Without a terminal each line of standard "
             "input is a prompt.",
    .detail = "Each prompt is a turn, which is in the session whole or not at all. A stopped turn "
              "is kept as far as it came, unless `--on-cancel discard` is given.\n\n"
              "The last two lines of the screen are the status (current step, time left, "
              "sub-agents, jobs, model, tokens, cost, permission mode, sandbox) and the input "
              "line. The lines above them are not touched again.\n\n"
              "Without a terminal, answers go to standard output and everything else to standard "
              "error. Nobody can be asked then, so what would be asked is refused.",
    .operands = chat_operands,
    .too_many = RUN_QUOTES,
    .options = chat_options,
    .topics = chat_topics,
    .exits =
        "0\tleft\n"
        "1\terror: the session, the store or the terminal could not be used\n" CLI_EXIT_USAGE_TEXT
        "130\tthe terminal is gone, or output closed by the reader\n"
        "143\tended by SIGTERM\n",
    .environment = RUN_ENVIRONMENT "NO_COLOR\tIf set and not empty: no colours.\n",
    .files = RUN_FILES "$XDG_DATA_HOME/belay/history\tlines typed in all sessions, readable by "
                       "their owner alone\n",
    .examples = "    belay\n"
                "    belay chat --continue\n"
                "    belay chat --permission-mode auto --allow 'bash(make *)'",
    .see = "cancel ps run session tools",
};

/* ---- acp ------------------------------------------------------------------------------------- */

static const struct cli_option acp_options[] = {
    CLI_FLAG("minimal", 0, struct acp_options, minimal,
             .about = "Send only the kinds of updates of the first published schema, for editors "
                      "that know no more."),
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("Model", 0, run_model_served),
    CLI_GROUP("Session", 0, run_session_edited),
    CLI_GROUP("Limits", 0, run_limits_served),
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
             "an editor can use belay as its agent; docs/editors.md has the settings of some "
             "editors. Standard output carries the protocol and nothing else; messages go to "
             "standard error. A cancelled prompt is answered when nothing of it is left running, "
             "with the receipt. If the editor closes standard input, or SIGTERM or Ctrl-C arrives, "
             "every session is stopped with everything that it runs.",
    .detail = "There is one JSON-RPC message per line. The sessions are those of belay-session(1); "
              "each works in the folder that the editor names, with the configuration found there. "
              "The `stopReason` of a cancelled prompt is `cancelled`, the receipt is in `_meta`, "
              "and what was said is kept in the session, marked as interrupted. " RUN_NO_MODEL,
    .options = acp_options,
    .exits = "0\tthe editor left, and nothing ran\n"
             "1\terror: the store or the configuration cannot be used\n" CLI_EXIT_USAGE_TEXT
             "130\tthe editor left, or Ctrl-C arrived, while something ran\n"
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
    CLI_COUNT("http", 0, "PORT", struct mcp_options, http_port, .optional = true,
              .most = UINT16_MAX, .set = CLI_SET(struct mcp_options, http), .sample = "8765",
              .about = "Serve HTTP at http://127.0.0.1:PORT/mcp; without PORT, or with 0, at any "
                       "free port.",
              .detail = "The address, and where the token is, are printed on standard error."),
    CLI_PATH("token-file", 0, "FILE", struct mcp_options, token_file,
             .complete = CLI_COMPLETE_FILES, .sample = "token",
             .initial = "$XDG_STATE_HOME/belay/mcp-token",
             .about = "File with the token that each request must have; created if it does not "
                      "exist.",
             .detail = "A request has it in `Authorization: Bearer`. The file has 256 random bits, "
                       "and nobody else may have access to it."),
    CLI_LIST(CLI_TYPE_TEXT, "origin", "HOST", struct mcp_options, origins, origin_count,
             .sample = "app.example", .about = "Another host that is accepted in Origin and Host."),
    CLI_TEXT("address", 0, "ADDRESS", struct mcp_options, address, .choices = run_addresses,
             .choice_count = 2, .initial = "127.0.0.1", .sample = "::1",
             .about = "Another loopback address.", .detail = "Any other address is a usage error."),
    {0},
};

static const struct cli_option mcp_options[] = {
    CLI_VERBOSE_ROW,
    CLI_HELP_ROW,
    CLI_GROUP("HTTP", 0, mcp_http),
    CLI_GROUP("Model", 0, run_model_served),
    CLI_GROUP("Session", 0, run_session_offered),
    CLI_GROUP("Limits", 0, run_limits_served),
    CLI_GROUP("Tools", 0, run_tools_auto),
    {0},
};

static const struct cli_option mcp_operands[] = {
    CLI_COUNT("PORT", 0, NULL, struct mcp_options, port, .optional = true, .most = UINT16_MAX,
              .about = "With `--http`: its port."),
    {0},
};

const struct cli_command cli_mcp_command = {
    .name = "mcp",
    .summary = "offer runs and cells to other agents, as an MCP server",
    .usage = "belay mcp --http [PORT] [OPTION]...",
    .about = "Offers belay to other agents as an MCP server, on standard input and output or over "
             "HTTP on loopback, with five tools: `run` runs a prompt to its end, `exec`, `wait` "
             "and `terminate` run JavaScript in cells, `cancel` stops any of it and answers with "
             "the receipt when nothing of it is left running. docs/mcp.md has the settings of some "
             "agents. Standard output carries the protocol and nothing else. Nobody can be asked: "
             "what neither the mode nor a rule allows is refused. A call may ask for a narrower "
             "permission mode, never for a wider one.",
    .detail = "The versions of the protocol are 2026-07-28, 2025-11-25 and 2025-06-18. For work "
              "that has ended, `cancel` answers with its result. On standard input and output, the "
              "end of input stops everything. " RUN_NO_MODEL,
    .operands = mcp_operands,
    .options = mcp_options,
    .exits =
        "0\tthe client left, and nothing ran\n"
        "1\terror: the store, the configuration, the token or the port cannot be "
        "used\n" CLI_EXIT_USAGE_TEXT "130\tthe client left while something ran, or Ctrl-C arrived\n"
        "143\tended by SIGTERM\n",
    .environment = RUN_ENVIRONMENT,
    .files = RUN_FILES,
    .examples = "    belay mcp\n"
                "    belay mcp --permission-mode read-only --timeout 10m\n"
                "    belay mcp --http 8765",
    .see = "acp cancel cell run tools",
};
