#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"
#include "runtime/runtime.h"

#define MAX_TURNS_DEFAULT 8

/* ---- Combinations of options ----------------------------------------------------------------- */

static int check_session(const struct run_options *options, struct bl_error *error)
{
    int ways = (options->session != NULL) + options->resumes + options->newest;

    if (options->fork && (ways == 0 || options->request_id != NULL)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--fork",
                     ways == 0 ? "--fork needs a session to copy"
                               : "--fork and --request-id cannot be given together");
        bl_error_hint(error, "%s",
                      ways == 0 ? "name it with --resume ID, --session ID or --continue"
                                : "each copy is a new session");
        return BL_EINVAL;
    }
    if (ways == 1 && options->resumes && options->resume == NULL && options->fork)
        return cli_value_refuse("--resume", "", "an ID, with --fork", error);
    if (ways == 1 && options->resumes && options->resume == NULL &&
        (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--resume",
                     "--resume needs an ID if there is no terminal");
        bl_error_hint(error, "'belay session list' lists the sessions of this folder");
        return BL_EINVAL;
    }
    if (ways <= 1)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--session",
                 "--session, --resume and --continue exclude each other");
    bl_error_hint(error, "give one of them");
    return BL_EINVAL;
}

static int try_rules(const char *const *rules, bool allow, struct bl_permissions *permissions,
                     struct bl_error *error)
{
    struct bl_error detail = {0};

    int code = runtime_rules_add(rules, allow, permissions, &detail);
    if (code == 0)
        return 0;
    bl_error_set(error, code, detail.kind, detail.operation, detail.target,
                 "%.460s given with --%s", detail.message, allow ? "allow" : "deny");
    bl_error_name_set(error, detail.name);
    bl_error_hint(error, "%s", detail.hint);
    return code;
}

/* Checks the rules before anything starts, so that the error names the option. */
static int check_rules(const struct run_options *options, struct bl_error *error)
{
    struct bl_permissions *permissions = bl_permissions_new(options->workspace.mode);

    int code = try_rules(options->workspace.allow, true, permissions, error);
    if (code == 0)
        code = try_rules(options->workspace.deny, false, permissions, error);
    bl_permissions_free(permissions);
    return code;
}

/* Resolves the folders, following every link. */
static int run_options_find_folders(struct run_options *options, struct bl_error *error)
{
    const char **folders =
        bl_arena_zalloc(&options->arena, (options->folder_count + 1) * sizeof *folders);

    for (size_t i = 0; i < options->folder_count; i++) {
        const char *value = options->workspace.folders[i];
        char *path = realpath(value, NULL);
        struct stat facts;
        if (path == NULL || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) {
            const char *why = path == NULL ? strerror(errno) : "not a folder";
            bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "read the command line", "--add-dir",
                         "'%.200s' cannot be used: %s", value, why);
            free(path);
            return BL_ENOENT;
        }
        folders[i] = bl_arena_text(&options->arena, bl_text_from(path)).data;
        free(path);
    }
    options->workspace.folders = folders;
    return 0;
}

static int find_store(struct run_options *options, struct bl_error *error)
{
    if (options->shared)
        return cli_fleet_check(options->store, error);
    if (options->store != NULL)
        return 0;
    return bl_store_default_path(&options->arena, &options->store, error);
}

static int run_options_settle(struct run_options *options, struct bl_error *error)
{
    int code = check_session(options, error);
    if (code == 0)
        code = check_rules(options, error);
    if (code == 0)
        code = run_options_find_folders(options, error);
    if (options->prompt != NULL && strcmp(options->prompt, "-") == 0)
        options->prompt = NULL;
    if (code == 0 && options->prompt != NULL)
        code = run_prompt_check(bl_text_from(options->prompt), error);
    if (code == 0)
        code = runtime_directory(&options->arena, &options->workspace.directory, error);
    if (code == 0)
        code = find_store(options, error);
    if (code != 0 || options->prompt != NULL || options->converses || isatty(STDIN_FILENO) != 1)
        return code;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "PROMPT", "no prompt");
    bl_error_hint(error, "give one as an argument, or on standard input");
    return BL_EINVAL;
}

/* ---- The whole command line ------------------------------------------------------------------ */

static int parse_options(struct cli_call *call, enum bl_permission_mode mode,
                         struct run_options *options, struct bl_error *error)
{
    bl_workspace_options_init(&options->workspace, NULL);
    options->workspace.mode = mode;
    options->workspace.limits.keep = mode == BL_PERMISSION_ASK;
    options->workspace.max_turns = MAX_TURNS_DEFAULT;
    bl_arena_init(&options->arena);
    int code = cli_options_read(call, options, &options->arena, error);
    return code != 0 ? code : run_options_settle(options, error);
}

int run_options_parse(struct cli_call *call, struct run_options *options, struct bl_error *error)
{
    *options = (struct run_options){0};
    return parse_options(call, BL_PERMISSION_AUTO, options, error);
}

int run_options_parse_chat(struct cli_call *call, struct run_options *options,
                           struct bl_error *error)
{
    return run_options_parse_serving(call, true, options, error);
}

int run_options_parse_serving(struct cli_call *call, bool asks, struct run_options *options,
                              struct bl_error *error)
{
    *options = (struct run_options){.converses = true};
    return parse_options(call, asks ? BL_PERMISSION_ASK : BL_PERMISSION_AUTO, options, error);
}

int run_options_parse_queue(struct cli_call *call, bool serves, struct run_options *options,
                            struct bl_error *error)
{
    *options = (struct run_options){.converses = serves, .shared = true};
    return parse_options(call, BL_PERMISSION_AUTO, options, error);
}

void run_options_done(struct run_options *options)
{
    bl_arena_done(&options->arena);
}
