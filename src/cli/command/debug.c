#include <inttypes.h>

#include <belay/serve.h>

#include "cli/cli.h"

const char cli_debug_help[] =
    "Usage: belay debug [OPTION]... ID\n"
    "\n"
    "Print what the process of a run is doing: each fiber with its scope, what it\n"
    "waits for, since when, and its stack. ID is that of a run, a session, a\n"
    "sub-agent, a tool call, a job, a cell, a feature or a task, or the number of a\n"
    "process; 'belay ps' lists them. The work goes on undisturbed. A process that\n"
    "does not answer prints the same to its standard error (or BELAY_LOG_FILE) on\n"
    "SIGUSR1.\n"
    "\n"
    "Options:\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  1    nothing with that ID runs, several things have it, or its process does\n"
    "       not answer\n"
    "  2    usage error\n"
    "  130  output closed by the reader\n"
    "\n"
    "Environment:\n"
    "  XDG_RUNTIME_DIR  where the sockets of running belays are, in belay/control;\n"
    "                   without it they are in /tmp/belay-UID/control\n"
    "\n"
    "Examples:\n"
    "  belay debug run_3p5yd7mcnxw2kq4tzvhb\n"
    "  belay debug nightly\n";

const struct option cli_debug_options[] = {
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

struct debugging {
    struct bl_arena arena;
    const char *id;
    struct bl_control_description description;
    struct bl_error error;
};

static int debug_main(void *argument)
{
    struct debugging *debugging = argument;
    return bl_control_describe(&debugging->arena, debugging->id, &debugging->description,
                               &debugging->error);
}

static int debug_print(const struct cli_call *call, const struct debugging *debugging)
{
    const struct bl_control_description *description = &debugging->description;
    struct bl_buffer text;
    bl_buffer_init(&text, description->fibers.size + 256);
    bl_buffer_printf(&text, "Process %" PRId64 ":\n\n", description->pid);
    bl_buffer_append(&text, description->fibers);
    if (!description->whole)
        bl_buffer_append(&text, BL_TEXT("\n(more fibers than are printed)\n"));
    int exit_code = cli_print(call, bl_buffer_text(&text), CLI_EXIT_OK);
    bl_buffer_done(&text);
    return exit_code;
}

int cli_debug_run(struct cli_call *call)
{
    struct debugging debugging = {0};
    struct bl_error *error = &debugging.error;
    int exit_code;

    int code = cli_arguments_read(call, false, cli_take_id, &debugging.id, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0 && debugging.id == NULL)
        code = cli_refuse_id("missing ID", error);
    if (code != 0)
        return cli_fail_usage(call, error);
    bl_arena_init(&debugging.arena);
    if (cli_loop_run("debug", debug_main, &debugging, error) != 0)
        exit_code = cli_fail(call, error, CLI_EXIT_FAILED);
    else
        exit_code = debug_print(call, &debugging);
    bl_arena_done(&debugging.arena);
    return exit_code;
}
