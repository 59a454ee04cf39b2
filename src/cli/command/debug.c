#include <inttypes.h>

#include <belay/serve.h>

#include "cli/cli.h"
#include "cli/table/commands.h"

struct debugging {
    struct bl_arena arena;
    struct debug_options options;
    struct bl_control_description description;
    struct bl_error error;
};

static int debug_main(void *argument)
{
    struct debugging *debugging = argument;
    return bl_control_describe(&debugging->arena, debugging->options.id, &debugging->description,
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

    int code = cli_options_read(call, &debugging.options, NULL, error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
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
