/* Rows and texts of the commands that run prompts: run, chat, bootstrap, acp, mcp (run.c), submit and
 * worker (queue.c). */
#ifndef BELAY_CLI_TABLE_RUN_H
#define BELAY_CLI_TABLE_RUN_H

#include "cli/run/run.h"

extern const struct cli_option cli_run_model_served[], cli_run_session_offered[],
    cli_run_limits_served[], cli_run_tools_auto[];

#define RUN_MAX_STEPS_ROW                                                                          \
    CLI_COUNT("max-steps", 0, "N", struct run_options, workspace.limits.max_steps, .sample = "50", \
              .about = "Limit for tool calls in one turn, not counting those of sub-agents.")
#define RUN_MAX_TURNS_ROW                                                                          \
    CLI_COUNT("max-turns", 0, "N", struct run_options, workspace.max_turns, .least = 1,            \
              .initial = "8", .sample = "20", .about = "Turn limit for this run.",                 \
              .detail = "After N turns the run ends as `completed`.")
/* Ids that callers choose. */
#define RUN_WORD_FORM                                                                              \
    .most = 128, .letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-",  \
    .expected = "1 to 128 of the characters A-Z a-z 0-9 . _ : -"

/* The name of a pool. */
#define QUEUE_KEY_ABOUT  "Fairness key: items with different keys take turns."
#define QUEUE_POOL_ABOUT "Pool of workers, which share a queue."
#define QUEUE_POOL_FORM                                                                            \
    .most = 64, .letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",    \
    .expected = "1 to 64 of the characters A-Z a-z 0-9 . _ -", .sample = "gpu"

#define RUN_QUOTES "put a prompt of several words in quotes"

#define RUN_ENVIRONMENT                                                                            \
    "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY\tKeys of the built-in providers; "    \
    "the second is sent as a bearer token. They are not passed to tools.\n"                        \
    "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST\tAddresses of the built-in providers; the "  \
    "second with `/v1`, the first without.\n"                                                      \
    "ANTHROPIC_MODEL, OPENAI_ORG_ID\tDefault model of `anthropic`; organization for OpenAI.\n"     \
    "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY\tProxies; lower case is accepted as well. "      \
    "Never used for connections to this machine.\n"                                                \
    "SSL_CERT_FILE, SSL_CERT_DIR\tCertificates to trust instead of the system's.\n"                \
    "XDG_CONFIG_HOME\tFolder of the configuration; without it `~/.config`.\n"                      \
    "XDG_DATA_HOME\tFolder of the default store; without it `~/.local/share`.\n"                   \
    "XDG_RUNTIME_DIR\tFolder of the control socket, in `belay/control`; without it "               \
    "`/tmp/belay-UID/control`.\n"

#define RUN_FILES                                                                                  \
    "$XDG_CONFIG_HOME/belay/config.yaml\tproviders, models, permissions, hooks, `env_allow`, "     \
    "`edit_mode`; see docs/agents.md\n"                                                            \
    "$XDG_CONFIG_HOME/belay/rules.json\trules that were allowed permanently in `chat`\n"           \
    "$XDG_CONFIG_HOME/belay/prices.yaml\tprices of models in USD per million tokens: `match`, "    \
    "`input`, `output`, `cache_read`, `cache_write`; takes precedence over the built-in table\n"   \
    "$XDG_CONFIG_HOME/belay/agents, .belay/agents\tpersonas: kinds of sub-agents\n"                \
    "$XDG_CONFIG_HOME/belay/skills, .belay/skills, .agents/skills\tskills: instructions that the " \
    "model reads when it needs them\n"                                                             \
    "$XDG_CONFIG_HOME/belay/AGENTS.md, AGENTS.md\tinstructions of the user and of a project\n"     \
    ".belay/config.yaml\tconfiguration of a project: only `model`, `provider` and `deny` rules; "  \
    "takes precedence over the user's file\n"                                                      \
    "$XDG_CONFIG_HOME/belay/mcp.json\tMCP servers that offer tools\n"                              \
    ".mcp.json\tMCP servers of a project; each starts only after the user has approved it\n"

#endif
