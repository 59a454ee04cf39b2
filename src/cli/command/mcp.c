#include "mcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/run/workplace.h"

#define ADDRESS_DEFAULT "127.0.0.1"

enum {
    OPTION_HTTP = RUN_OPTION_OWN,
    OPTION_TOKEN_FILE,
    OPTION_ORIGIN,
    OPTION_ADDRESS,
};

const char cli_mcp_help[] =
    "Usage: belay mcp [OPTION]...\n"
    "       belay mcp --http [PORT] [OPTION]...\n"
    "\n"
    "Offers belay to other agents as an MCP server, on standard input and output or\n"
    "over HTTP on loopback, with five tools: 'run' takes a prompt to its end, 'exec',\n"
    "'wait' and 'terminate' run JavaScript in cells, 'cancel' stops any of it and\n"
    "answers with the receipt when all of it is quiet. docs/mcp.md says how to tell\n"
    "other agents of it. Standard output carries the protocol and nothing else.\n"
    "Nobody can be asked here: what no rule allows is refused. A call may ask for a\n"
    "narrower permission mode, never for a wider one.\n"
    "\n"
    "Options:\n"
    "      --http[=PORT]           serve HTTP at http://127.0.0.1:PORT/mcp; 0, the\n"
    "                              default, takes any port that is free\n"
    "      --token-file FILE       with --http: has the token that each request must\n"
    "                              bring; made if it is not there. Without it:\n"
    "                              $XDG_STATE_HOME/belay/mcp-token\n"
    "      --origin HOST           with --http: a further host that may be in Origin\n"
    "                              and Host; repeatable\n"
    "      --address ADDRESS       with --http: another loopback address, as ::1\n" RUN_SERVING_HELP
    "      --max-budget-usd N      of each run: what could cost more is not sent; for\n"
    "                              models whose price is known\n"
    "      --cassette FILE         with --provider replay: answer from such a file\n"
    "      --timeout DURATION      a deadline for each run: 90, 90s, 500ms, 2.5m, 1h\n"
    "      --permission-mode MODE  the widest that calls can have: auto (the default:\n"
    "                              what stays in the workspace or in the sandbox\n"
    "                              runs, the rest by a rule), ask, read-only, "
    "yolo\n" RUN_RULES_HELP
    "      --on-cancel WHAT        of a turn that is stopped: discard (the default),\n"
    "                              or keep what had come of it, marked as "
    "interrupted\n" RUN_PLACE_HELP "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    the client has left, and nothing ran\n"
    "  1    error: the store, the configuration, the token or the port cannot be used\n"
    "  2    usage error\n"
    "  130  the client has left while something ran, or Ctrl-C came\n"
    "  143  ended by SIGTERM\n"
    "\n" RUN_ENVIRONMENT_HELP "Examples:\n"
    "  belay mcp\n"
    "  belay mcp --permission-mode read-only --timeout 10m\n"
    "  belay mcp --http 8765\n";

const struct option cli_mcp_options[] = {
    RUN_MEANS_OPTIONS,
    {"on-cancel", required_argument, NULL, RUN_OPTION_ON_CANCEL},
    {"http", optional_argument, NULL, OPTION_HTTP},
    {"token-file", required_argument, NULL, OPTION_TOKEN_FILE},
    {"origin", required_argument, NULL, OPTION_ORIGIN},
    {"address", required_argument, NULL, OPTION_ADDRESS},
    {0},
};

struct mcp_command {
    const char **origins; /* end in NULL */
    size_t origin_count;
    bool http;
    bool port_given;
    uint16_t port;
    const char *address;
    const char *token_file; /* NULL: the usual one */
    const char *only_http;  /* an option that was given and means nothing without; NULL: none */
    struct bl_arena arena;
    const char *token;
};

/* ---- The command line ------------------------------------------------------------------------ */

static int take_port(struct mcp_command *command, const char *value, struct bl_error *error)
{
    int64_t port;

    if (bl_text_to_int64(bl_text_from(value), &port) == 0 && port >= 0 && port <= UINT16_MAX) {
        command->port = (uint16_t)port;
        command->port_given = true;
        return 0;
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--http",
                 "'%.100s' is no port", value);
    bl_error_hint(error, "it is a number from 0 to 65535; 0 takes any that is free");
    return BL_EINVAL;
}

static int take_address(struct mcp_command *command, const char *value, struct bl_error *error)
{
    struct in_addr four;
    struct in6_addr six;
    bool loopback = false;

    if (strcmp(value, "localhost") == 0)
        value = ADDRESS_DEFAULT;
    if (inet_pton(AF_INET, value, &four) == 1)
        loopback = ntohl(four.s_addr) >> 24 == 127;
    else if (inet_pton(AF_INET6, value, &six) == 1)
        loopback = IN6_IS_ADDR_LOOPBACK(&six);
    command->address = value;
    if (loopback)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--address",
                 "'%.100s' is no loopback address", value);
    bl_error_hint(error, "give 127.0.0.1 or ::1; others reach it through a tunnel of yours");
    return BL_EINVAL;
}

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct mcp_command *command = context;

    switch (option) {
    case OPTION_HTTP:
        command->http = true;
        return value != NULL ? take_port(command, value, error) : 0;
    case OPTION_TOKEN_FILE:
        command->only_http = "--token-file";
        command->token_file = value;
        return 0;
    case OPTION_ORIGIN:
        command->only_http = "--origin";
        command->origins[command->origin_count++] = value;
        return 0;
    case OPTION_ADDRESS:
        command->only_http = "--address";
        return take_address(command, value, error);
    default: break;
    }
    /* The port may stand beside --http, too. */
    if (command->http && !command->port_given)
        return take_port(command, value, error);
    return cli_arguments_refuse(value, error);
}

static int check(const struct mcp_command *command, struct bl_error *error)
{
    if (command->http || command->only_http == NULL)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", command->only_http,
                 "%s is about HTTP, and that is not asked for", command->only_http);
    bl_error_hint(error, "add --http, or leave it out");
    return BL_EINVAL;
}

/* ---- Serving --------------------------------------------------------------------------------- */

static void listening(void *context, uint16_t port)
{
    const struct mcp_command *command = context;
    bool six = strchr(command->address, ':') != NULL;
    struct bl_buffer text;

    bl_buffer_init(&text, 8192);
    bl_buffer_printf(&text,
                     "belay mcp: listening on http://%s%s%s:%u/mcp\n"
                     "belay mcp: the token is in %s\n",
                     six ? "[" : "", command->address, six ? "]" : "", port, command->token_file);
    cli_remark(bl_buffer_text(&text));
    bl_buffer_done(&text);
}

static int serve(struct serving *serving, int *ret_exit_code, struct bl_error *error)
{
    struct mcp_command *command = serving->context;
    struct bl_mcp_server_options options = {
        .workplaces = &serving->workplaces.table,
        .activities = &serving->activities,
        .version = BELAY_VERSION,
        .in = STDIN_FILENO,
        .out = STDOUT_FILENO,
        .http = command->http,
        .address = command->address,
        .port = command->port,
        .token = command->token,
        .origins = command->origins,
        .listening = listening,
        .context = command,
    };

    if (!command->http)
        serving_greet(serving, "MCP (docs/mcp.md)");
    return bl_mcp_serve(&options, ret_exit_code, error);
}

static int find_token(struct mcp_command *command, struct bl_error *error)
{
    int code = 0;

    if (!command->http)
        return 0;
    if (command->token_file == NULL)
        code = mcp_token_path(&command->arena, &command->token_file, error);
    if (code == 0)
        code = mcp_token_read(&command->arena, command->token_file, &command->token, error);
    return code;
}

static int serve_mcp(struct serving *serving)
{
    struct mcp_command *command = serving->context;

    if (find_token(command, &serving->error) != 0)
        return cli_fail(serving->call, &serving->error, CLI_EXIT_FAILED);
    return serving_do(serving);
}

int cli_mcp_run(struct cli_call *call)
{
    struct mcp_command command = {.address = ADDRESS_DEFAULT};
    struct serving serving = {.call = call, .name = "mcp", .serve = serve, .context = &command};
    struct run_options options;
    int exit_code;

    bl_arena_init(&command.arena);
    command.origins =
        bl_arena_zalloc(&command.arena, (size_t)(call->count + 1) * sizeof *command.origins);
    int code = run_options_parse_serving(call, false, take, &command, &options, &serving.error);
    serving.options = &options;
    if (code == 0)
        code = check(&command, &serving.error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &serving.error);
    else
        exit_code = serve_mcp(&serving);
    run_options_done(&options);
    bl_arena_done(&command.arena);
    return exit_code;
}
