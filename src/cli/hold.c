#include "hold.h"

#include <stdio.h>

const char cli_hold_help[] =
    "Usage: belay hold [OPTION]... [--] COMMAND [ARGUMENT]...\n"
    "\n"
    "Runs COMMAND and, when it ends or is stopped, leaves nothing of it behind: no\n"
    "child, no daemon, nothing that ignores signals. Standard input, output and error\n"
    "are the command's. At the deadline, on Ctrl-C and on SIGTERM it is stopped: a\n"
    "signal, a grace, SIGKILL for all that is left, and a proof. Ctrl-C sends the\n"
    "command SIGINT; a second one skips the grace. When belay itself is killed, the\n"
    "command and all of its processes are killed with it.\n"
    "\n"
    "Options:\n"
    "      --timeout DURATION  stop it then: 90, 90s, 500ms, 2.5m, 1h; 0: at once\n"
    "      --grace DURATION    from the signal to SIGKILL (default: 200ms)\n"
    "      --container NAME    what holds its processes: auto (the default: cgroup2\n"
    "                          where it works, else subreaper), pidns, cgroup2,\n"
    "                          subreaper; 'belay doctor' says what works here\n"
    "      --sandbox NAME      off (the default), workspace (only the current folder\n"
    "                          and a private /tmp are writable, no network) or\n"
    "                          read-only; needs bubblewrap\n"
    "      --memory BYTES      limit of memory: 512M, 2G\n"
    "      --processes N       limit of processes: one more, and all are killed\n"
    "      --json              at the end one line on standard error, as in\n"
    "                          docs/schemas/hold.json\n"
    "  -h, --help              print this help\n"
    "\n"
    "Exit codes:\n"
    "  124  the deadline was reached\n"
    "  125  hold itself failed: a usage error, a container that is not available\n"
    "  126  COMMAND cannot be executed\n"
    "  127  COMMAND was not found\n"
    "  130  stopped by SIGINT, SIGHUP or SIGQUIT\n"
    "  143  stopped by SIGTERM\n"
    "  else that of COMMAND, or 128 + N when signal N ended it\n"
    "\n"
    "Examples:\n"
    "  belay hold --timeout 5m -- make test\n"
    "  belay hold --timeout 30s --grace 2s -- ./server --port 8080\n"
    "  belay hold --container pidns --json -- sh -c 'sleep 60 & exit 3'\n";

enum {
    OPTION_TIMEOUT = 512,
    OPTION_GRACE,
    OPTION_CONTAINER,
    OPTION_SANDBOX,
    OPTION_MEMORY,
    OPTION_PROCESSES,
};

const struct option cli_hold_options[] = {
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"container", required_argument, NULL, OPTION_CONTAINER},
    {"sandbox", required_argument, NULL, OPTION_SANDBOX},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

static int refuse_value(const char *option, const char *value, const char *expected,
                        struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", option,
                 "'%s' is no value for %s", value, option);
    bl_error_hint(error, "%s", expected);
    return BL_EINVAL;
}

#define GRACE_DAYS_MAX 24

/* A grace has no sign, and fits what poll(2) counts in: milliseconds, 24 days of them. */
static int parse_grace(const char *value, uint32_t *ret_ms, struct bl_error *error)
{
    int64_t ns;
    int code = bl_duration_parse(bl_text_from(value), &ns, error);

    if (code != 0)
        return code;
    if (ns < 0 || ns > GRACE_DAYS_MAX * 86400 * (int64_t)BL_NS_PER_S)
        return refuse_value("--grace", value, "it is a duration from 0 to 24 days, such as 200ms",
                            error);
    /* Rounded up: a grace that was asked for is never none. */
    *ret_ms = (uint32_t)((ns + (int64_t)BL_NS_PER_MS - 1) / (int64_t)BL_NS_PER_MS);
    return 0;
}

/* A whole number from 1 to `maximum`, in decimal. */
static bool parse_count(struct bl_text text, int64_t maximum, int64_t *ret_value)
{
    return text.size > 0 && text.data[0] >= '0' && text.data[0] <= '9' &&
           bl_text_to_int64(text, ret_value) == 0 && *ret_value >= 1 && *ret_value <= maximum;
}

static int parse_memory(const char *value, uint64_t *ret_bytes, struct bl_error *error)
{
    if (cli_bytes_parse(value, ret_bytes))
        return 0;
    return refuse_value("--memory", value, "it is a number of bytes, such as 65536, 512M or 2G",
                        error);
}

static int parse_processes(const char *value, uint32_t *ret_count, struct bl_error *error)
{
    int64_t number;

    if (!parse_count(bl_text_from(value), INT32_MAX, &number))
        return refuse_value("--processes", value, "it is a number from 1 on", error);
    *ret_count = (uint32_t)number;
    return 0;
}

/* One option with its argument. */
static int take_option(int option, const char *value, struct hold_options *options,
                       struct bl_error *error)
{
    switch (option) {
    case OPTION_TIMEOUT:
        options->timed = true;
        return bl_duration_parse(bl_text_from(value), &options->timeout_ns, error);
    case OPTION_GRACE: return parse_grace(value, &options->grace_ms, error);
    case OPTION_CONTAINER: return bl_container_parse(value, &options->container, error);
    case OPTION_SANDBOX: return bl_sandbox_parse(value, &options->sandbox, error);
    case OPTION_MEMORY: return parse_memory(value, &options->memory_bytes, error);
    case OPTION_PROCESSES: return parse_processes(value, &options->processes_max, error);
    default: return BL_EINVAL;
    }
}

/* An error that does not say what it is about is about the option. */
static void name_option(int option, struct bl_error *error)
{
    for (const struct option *row = cli_hold_options; row->name != NULL; row++) {
        if (row->val == option && error->target[0] == '\0')
            snprintf(error->target, sizeof error->target, "--%s", row->name);
    }
}

/* A wrong command line, in the format that it asked for anywhere. */
static int fail_usage(struct cli_call *call, struct bl_error *error)
{
    call->format = call->asked;
    error->kind = BL_KIND_USAGE;
    return hold_fail(call, error, HOLD_EXIT_FAILED);
}

int cli_hold_run(struct cli_call *call)
{
    struct hold_options options = {.grace_ms = BL_GRACE_MS_DEFAULT};
    struct hold_outcome outcome;
    struct cli_arguments walk;
    struct bl_error error = {0};
    int found;

    cli_arguments_init(&walk, call->count, call->arguments, call->command->short_options,
                       call->command->getopt);
    /* The first operand is the command: whatever follows is its own. */
    while ((found = cli_arguments_next(&walk, &error)) != CLI_ARGUMENT_OPERAND) {
        if (found == CLI_OPTION_HELP)
            return cli_help_print(call, call->command);
        if (found == CLI_OPTION_JSON)
            call->format = CLI_FORMAT_JSON;
        else if (found == CLI_ARGUMENT_END)
            bl_error_set(&error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "COMMAND",
                         "no command to hold");
        else if (found > 0 && take_option(found, walk.value, &options, &error) != 0)
            name_option(found, &error);
        if (error.code != 0) {
            bl_error_hint(&error, "'belay help hold' says how it is used");
            return fail_usage(call, &error);
        }
    }
    options.arguments = (const char *const *)call->arguments + walk.index;

    hold_outcome_init(&outcome);
    hold_run(&options, &outcome);
    int exit_code = hold_report(call, &options, &outcome);
    hold_outcome_done(&outcome);
    return exit_code;
}
