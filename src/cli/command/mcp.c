#include "mcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/run/serving.h"
#include "cli/setup/setup.h"

#define ADDRESS_DEFAULT "127.0.0.1"

struct mcp_command {
    struct mcp_options options;
    struct bl_arena arena;
    const char *token;
};

/* ---- The command line ------------------------------------------------------------------------ */

static int check_address(struct mcp_options *options, struct bl_error *error)
{
    const char *value = options->address;
    struct in_addr four;
    struct in6_addr six;
    bool loopback = false;

    if (value == NULL || strcmp(value, "localhost") == 0)
        value = ADDRESS_DEFAULT;
    options->address = value;
    if (inet_pton(AF_INET, value, &four) == 1)
        loopback = ntohl(four.s_addr) >> 24 == 127;
    else if (inet_pton(AF_INET6, value, &six) == 1)
        loopback = IN6_IS_ADDR_LOOPBACK(&six);
    if (loopback)
        return 0;
    cli_value_refuse("--address", value, "a loopback address: 127.0.0.1 or ::1", error);
    bl_error_hint(error, "use a tunnel to make it reachable from other machines");
    return BL_EINVAL;
}

/* The port may also be given as an operand after --http. */
static int check_port(struct mcp_options *options, struct bl_error *error)
{
    char operand[16];

    if (options->port == RUN_PORT_NONE) {
        options->port = options->http_port != RUN_PORT_NONE ? options->http_port : 0;
        return 0;
    }
    if (options->http && options->http_port == RUN_PORT_NONE)
        return 0;
    snprintf(operand, sizeof operand, "%u", options->port);
    return cli_operand_refuse(operand, NULL, error);
}

static int command_mcp_check(struct mcp_options *options, struct bl_error *error)
{
    const char *only_http = options->token_file != NULL ? "--token-file"
                            : options->origin_count > 0 ? "--origin"
                            : options->address != NULL  ? "--address"
                                                        : NULL;

    if (!options->http && only_http != NULL) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", only_http,
                     "%s needs --http", only_http);
        bl_error_hint(error, "add --http, or omit the option");
        return BL_EINVAL;
    }
    int code = check_address(options, error);
    return code != 0 ? code : check_port(options, error);
}

/* ---- Serving --------------------------------------------------------------------------------- */

static void listening(void *context, uint16_t port)
{
    const struct mcp_command *command = context;
    bool six = strchr(command->options.address, ':') != NULL;
    BL_AUTO_BUFFER(text, 8192);

    bl_buffer_printf(&text,
                     "belay mcp: listening on http://%s%s%s:%u/mcp\n"
                     "belay mcp: the token is in %s\n",
                     six ? "[" : "", command->options.address, six ? "]" : "", port,
                     command->options.token_file);
    cli_remark(bl_buffer_text(&text));
}

static int command_mcp_serve(struct serving *serving, int *ret_exit_code, struct bl_error *error)
{
    struct mcp_command *command = serving->context;
    struct bl_mcp_server_options options = {
        .runtime = &serving->runtime,
        .activities = &serving->activities,
        .version = BELAY_VERSION,
        .in = STDIN_FILENO,
        .out = STDOUT_FILENO,
        .http = command->options.http,
        .address = command->options.address,
        .port = (uint16_t)command->options.port,
        .token = command->token,
        .origins = command->options.origins,
        .listening = listening,
        .context = command,
    };

    if (!command->options.http)
        serving_greet(serving, "MCP (docs/mcp.md)");
    return bl_mcp_serve(&options, ret_exit_code, error);
}

static int find_token(struct mcp_command *command, struct bl_error *error)
{
    int code = 0;

    if (!command->options.http)
        return 0;
    if (command->options.token_file == NULL)
        code = mcp_token_path(&command->arena, &command->options.token_file, error);
    if (code == 0)
        code = mcp_token_read(&command->arena, command->options.token_file, &command->token, error);
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
    struct mcp_command command = {.options = {.http_port = RUN_PORT_NONE, .port = RUN_PORT_NONE}};
    struct serving serving = {
        .call = call, .name = "mcp", .serve = command_mcp_serve, .context = &command};
    struct run_options *options = &command.options.run;
    int exit_code;

    bl_arena_init(&command.arena);
    int code = run_options_parse_serving(call, false, options, &serving.error);
    serving.options = options;
    if (code == 0)
        code = command_mcp_check(&command.options, &serving.error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &serving.error);
    else if (command.options.verb != MCP_SERVE)
        exit_code = mcp_servers_run(call, &command.options);
    else
        exit_code = serve_mcp(&serving);
    run_options_done(options);
    bl_arena_done(&command.arena);
    return exit_code;
}
