#include <errno.h>
#include <sys/stat.h>

#include "parts.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static int runtime_check_mode(const struct bl_runtime *runtime,
                              const struct bl_workspace_request *request, struct bl_error *error)
{
    const char *widest = bl_permission_mode_name(runtime->mode);

    if (!request->mode_chosen || !bl_permission_mode_wider(request->mode, runtime->mode))
        return 0;
    bl_error_set(error, BL_EACCES, BL_KIND_USAGE, "choose the permission mode", "permission_mode",
                 "permission mode '%s' allows more than '%s', which belay was started with",
                 bl_permission_mode_name(request->mode), widest);
    bl_error_hint(error, "request a stricter mode, or start belay with --permission-mode %s",
                  bl_permission_mode_name(request->mode));
    return BL_EACCES;
}

/* Folders to check on a thread, because a dead disk blocks. */
struct folder_check {
    struct bl_arena arena;
    const char *const *paths; /* NULL-terminated */
    const char *bad;          /* NULL: all exist */
    int failed;               /* its errno */
};

static void check_folders_on_thread(void *payload)
{
    struct folder_check *check = payload;
    struct stat facts;

    for (size_t i = 0; check->paths[i] != NULL && check->bad == NULL; i++) {
        bool absolute = check->paths[i][0] == '/';
        int failed = !absolute ? EINVAL : stat(check->paths[i], &facts) != 0 ? errno : 0;
        if (failed == 0 && !S_ISDIR(facts.st_mode))
            failed = ENOTDIR;
        if (failed != 0) {
            check->bad = check->paths[i];
            check->failed = failed;
        }
    }
}

static void folder_check_free(void *payload)
{
    struct folder_check *check = payload;

    bl_arena_done(&check->arena);
    bl_free(check);
}

static struct folder_check *folder_check_new(const struct bl_workspace_request *request)
{
    struct folder_check *check = bl_zalloc(sizeof *check);
    const char *const directory[] = {request->directory, NULL};

    bl_arena_init(&check->arena);
    check->paths = runtime_list_join(&check->arena, directory, request->folders);
    return check;
}

static int runtime_check_folders(const struct bl_workspace_request *request, struct bl_error *error)
{
    struct folder_check *check = folder_check_new(request);
    struct bl_work work = {.run = check_folders_on_thread,
                           .drop = folder_check_free,
                           .payload = check,
                           .abandon_on_stop = true};
    bool abandoned = false;

    int code = bl_work_call(&work, &abandoned);
    if (code == 0 && check->bad != NULL && check->failed == EINVAL)
        code = bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "open the folder", check->bad,
                            "'%.300s' is not an absolute path", check->bad);
    else if (code == 0 && check->bad != NULL)
        code = bl_error_set(error, bl_error_from_errno(check->failed), BL_KIND_USAGE,
                            "open the folder", check->bad, "the folder '%.300s' cannot be used: %s",
                            check->bad, strerrordesc_np(check->failed));
    if (!abandoned)
        folder_check_free(check);
    return code;
}

/* Returns the runtime's options, narrowed by the request. */
static struct bl_workspace_options runtime_narrow(const struct bl_runtime *runtime,
                                                  const struct bl_workspace_request *request,
                                                  struct bl_arena *arena)
{
    struct bl_workspace_options options = *runtime->options;
    double usd = request->max_budget_usd;

    options.model_optional = true;
    options.store = runtime->store;
    options.directory = request->directory;
    options.folders = runtime_list_join(arena, runtime->options->folders, request->folders);
    options.mcp_servers = request->mcp_servers;
    options.variables = request->variables;
    if (request->model != NULL)
        options.model = request->model;
    if (request->mode_chosen) {
        options.mode_chosen = true;
        options.mode = request->mode;
    } else if (!options.mode_chosen) {
        options.mode = request->asks ? BL_PERMISSION_ASK : BL_PERMISSION_AUTO;
    }
    options.limits.keep = options.limits.keep || request->keep;
    if (usd >= 0 && (!options.budgeted || usd < options.max_budget_usd)) {
        options.budgeted = true;
        options.max_budget_usd = usd;
    }
    return options;
}

int bl_runtime_open(struct bl_runtime *runtime, const struct bl_workspace_request *request,
                    struct bl_workspace **ret_workspace, struct bl_error *error)
{
    struct bl_arena words;
    int code = runtime_check_mode(runtime, request, error);

    if (code == 0)
        code = runtime_check_folders(request, error);
    if (code != 0)
        return code;
    bl_arena_init(&words);
    struct bl_workspace_options options = runtime_narrow(runtime, request, &words);
    code = bl_workspace_open(&options, ret_workspace, error);
    bl_arena_done(&words);
    if (code != 0)
        return bl_error_set(error, code, BL_KIND_RUNTIME, "open the folder", request->directory,
                            "the folder cannot be opened: %s", bl_error_text(code));
    bl_list_push_back(&runtime->open, &(*ret_workspace)->link);
    return 0;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* Returns whether the model of the options accepts images: the model is made for this check, and
 * not called. */
static bool runtime_takes_images(const struct runtime_choice *choice)
{
    struct bl_model model = {0};
    struct bl_remote *remote = NULL;
    struct bl_remote_options options = {
        .provider = choice->found.provider,
        .profile = choice->found.profile,
        .replay = choice->cassette,
    };

    if (choice->script != NULL) {
        struct bl_script_player *player = bl_script_player_new(choice->script, 1, &model);
        bl_script_player_free(player);
    } else if (bl_remote_new(&options, &remote, &model, NULL) == 0) {
        bl_remote_free(remote);
    }
    return model.takes_images;
}

static int runtime_look(struct bl_runtime *runtime, const struct bl_workspace *start,
                        struct bl_error *error)
{
    const struct bl_config_found *found = &start->found;
    const struct bl_project *project = start->project;
    const char *mode = project->settings.permission_mode;
    struct bl_arena *arena = &runtime->arena;

    if (mode != NULL && !runtime->options->mode_chosen) {
        int code = bl_permission_mode_parse(mode, &runtime->mode, error);
        if (code != 0)
            return code;
    }
    runtime->takes_images = runtime_takes_images(&start->files->choice);
    if (!found->chosen)
        runtime->keys = bl_config_key_wanted(project->config, NULL, arena);
    else if (found->provider != NULL && !found->replay)
        runtime->keys = bl_config_key_wanted(project->config, found->provider, arena);
    if (runtime->keys != NULL)
        runtime->keys = runtime_list_join(arena, runtime->keys, NULL);
    return 0;
}

int bl_runtime_begin(struct bl_runtime *runtime, const struct bl_workspace_options *options,
                     struct bl_store *store, struct bl_error *error)
{
    struct bl_workspace *start = NULL;

    *runtime = (struct bl_runtime){.options = options, .store = store, .mode = options->mode};
    bl_arena_init(&runtime->arena);
    bl_list_init(&runtime->open);
    int code = bl_workspace_new(options, &start, error);
    if (code == 0)
        code = bl_workspace_read(start, error);
    if (code == 0)
        code = runtime_look(runtime, start, error);
    bl_workspace_close(start);
    return code;
}

void bl_runtime_hurry(struct bl_runtime *runtime)
{
    BL_LIST_EACH (link, &runtime->open)
        bl_toolbox_hurry(BL_CONTAINER(link, struct bl_workspace, link)->toolbox);
}

void bl_runtime_end(struct bl_runtime *runtime)
{
    bl_arena_done(&runtime->arena);
}
