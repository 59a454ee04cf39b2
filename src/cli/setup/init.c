#include <stdlib.h>
#include <unistd.h>

#include "setup.h"

#define TEXT_MAX ((size_t)256 * 1024)

/* Returns the root of the repository, or else the current folder, in the arena. NULL if the current
 * folder has been removed. */
static const char *init_root(struct bl_arena *arena)
{
    char *here = getcwd(NULL, 0);

    if (here == NULL)
        return NULL;
    size_t size = bl_repository_size(arena, here);
    const char *root = bl_arena_printf(arena, "%.*s", (int)size, here).data;
    free(here);
    return root;
}

static int init_write(struct cli_call *call, const struct init_options *options, const char *root,
                      struct bl_text text)
{
    struct bl_error error = {0};
    BL_AUTO_ARENA(arena);
    const char *path = bl_arena_printf(&arena, "%s/AGENTS.md", root).data;

    int code = setup_write(path, text, false, options->force, &error);
    if (code == BL_EEXIST)
        bl_error_hint(&error, "add --force to replace it, or --print to see what would be written");
    if (code != 0)
        return cli_fail(call, &error, CLI_EXIT_FAILED);
    return cli_print(call,
                     bl_arena_printf(&arena,
                                     "Wrote %s. Review it, and add what a newcomer needs to know: "
                                     "it has only facts found in files.\n",
                                     path),
                     CLI_EXIT_OK);
}

int cli_init_run(struct cli_call *call)
{
    struct init_options options = {0};
    struct bl_error error = {0};
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(text, TEXT_MAX);

    int code = cli_options_read(call, &options, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code != 0)
        return cli_fail_usage(call, &error);
    const char *root = init_root(&arena);
    if (root == NULL) {
        bl_error_set(&error, BL_ENOENT, BL_KIND_FILESYSTEM, "look at the repository", ".",
                     "the current folder cannot be found");
        return cli_fail(call, &error, CLI_EXIT_FAILED);
    }
    init_describe(root, &text);
    if (options.print)
        return cli_print(call, bl_buffer_text(&text), CLI_EXIT_OK);
    return init_write(call, &options, root, bl_buffer_text(&text));
}
