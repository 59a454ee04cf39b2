#include "cell.h"

#include <limits.h>
#include <unistd.h>

#include "cli/table/commands.h"

static int (*const cell_verbs[])(struct cli_call *call, const struct cell_options *options) = {
    [CELL_VERB_RUN] = cell_run,       [CELL_VERB_SERVE] = cell_serve,
    [CELL_VERB_CREATE] = cell_ask,    [CELL_VERB_OBSERVE] = cell_ask,
    [CELL_VERB_TERMINATE] = cell_ask, [CELL_VERB_RELEASE] = cell_ask,
    [CELL_VERB_LIST] = cell_ask,
};

/* ---- Combinations of options ----------------------------------------------------------------- */

static int check_together(const struct cli_call *call, const struct cell_options *options,
                          struct bl_error *error)
{
    if (options->standard && options->socket != NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--stdio",
                            "--stdio and --socket exclude each other");
    if (options->standard && call->format != CLI_FORMAT_TEXT)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--json",
                            "with --stdio, standard output is used for frames");
    if (options->verb == CELL_VERB_CREATE && options->timed && options->timeout_ns <= 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--timeout",
                            "the deadline of a new cell must be positive");
    return 0;
}

static int cell_settle(struct cell_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder no longer exists");
    if (options->verb != CELL_VERB_RUN && options->session == NULL)
        options->session = "default";
    if (options->verb != CELL_VERB_RUN && options->verb != CELL_VERB_SERVE)
        return 0;
    return options->store != NULL ? 0
                                  : bl_store_default_path(&options->arena, &options->store, error);
}

static int cell_read_arguments(struct cli_call *call, struct cell_options *options,
                               struct bl_error *error)
{
    int code = cli_options_read(call, options, &options->arena, error);

    options->name = cli_cell_command.verbs[options->verb].name;
    if (code == 0)
        code = check_together(call, options, error);
    return code != 0 ? code : cell_settle(options, error);
}

uint64_t cell_deadline_ms(const struct cell_options *options)
{
    if (!options->timed || options->timeout_ns <= 0)
        return 0;
    /* Rounded up, so that a deadline never becomes 0, which means none. */
    return ((uint64_t)options->timeout_ns + BL_NS_PER_MS - 1) / BL_NS_PER_MS;
}

int cli_cell_run(struct cli_call *call)
{
    struct cell_options options = {.mode = BL_PERMISSION_AUTO, .yield_ms = BL_CELL_YIELD_MS};
    struct bl_error error = {0};
    int exit_code;

    bl_arena_init(&options.arena);
    int code = cell_read_arguments(call, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = cell_verbs[options.verb](call, &options);
    bl_arena_done(&options.arena);
    return exit_code;
}
