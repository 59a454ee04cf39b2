/* The tables of all commands, and the structs of those whose options are few. */
#ifndef BELAY_CLI_COMMANDS_H
#define BELAY_CLI_COMMANDS_H

#include "option.h"

extern const struct cli_command cli_run_command;
extern const struct cli_command cli_chat_command;
extern const struct cli_command cli_bootstrap_command;
extern const struct cli_command cli_acp_command;
extern const struct cli_command cli_mcp_command;
extern const struct cli_command cli_ps_command;
extern const struct cli_command cli_cancel_command;
extern const struct cli_command cli_inject_command;
extern const struct cli_command cli_debug_command;
extern const struct cli_command cli_watch_command;
extern const struct cli_command cli_help_command;
extern const struct cli_command cli_version_command;
extern const struct cli_command cli_session_command;
extern const struct cli_command cli_cell_command;
extern const struct cli_command cli_feature_command;
extern const struct cli_command cli_fleet_command;
extern const struct cli_command cli_submit_command;
extern const struct cli_command cli_wait_command;
extern const struct cli_command cli_worker_command;
extern const struct cli_command cli_commands_command;
extern const struct cli_command cli_tools_command;
extern const struct cli_command cli_tool_command;
extern const struct cli_command cli_route_command;
extern const struct cli_command cli_doctor_command;
extern const struct cli_command cli_hold_command;
extern const struct cli_command cli_script_command;
extern const struct cli_command cli_init_command;
extern const struct cli_command cli_config_command;
extern const struct cli_command cli_login_command;
extern const struct cli_command cli_logout_command;

struct program_options {
    bool version;
};

struct help_options {
    const char *topic; /* NULL for the program itself */
};

struct doctor_options {
    const char *store; /* NULL for the default store */
    const char *provider;
    const char *model;
};

struct script_options {
    unsigned verb;
    const char *file;
    uint32_t port;
};

struct route_options {
    const char *prompt;
    uint32_t limit; /* 0 for no limit */
};

struct ps_options {
    const char *store; /* NULL for the default store */
};

struct cancel_options {
    const char *id;
    bool now;
    bool after_step;
    const char *store; /* NULL for the default store */
    uint64_t wait_ns;  /* for workers on other machines */
};

struct inject_options {
    const char *id;
    const char *text; /* NULL or "-" for standard input */
};

struct debug_options {
    const char *id;
};

struct watch_options {
    const char *id; /* NULL for all running work */
};

#endif
