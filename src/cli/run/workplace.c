#include "workplace.h"

#include <errno.h>
#include <malloc.h>
#include <sys/stat.h>

#define LARGE_SIZE (256 * 1024)

/* One that is open. */
struct workplace {
    struct bl_workplace view; /* what others see of it; first, so that it is found again */
    struct bl_list link;
    struct bl_arena arena;
    struct run_options options; /* as belay was started, with what was asked for */
    struct run_means means;
    struct bl_profile profile; /* of its own, because how much it thinks may be changed */
    struct bl_error no_key;    /* why nobody can answer; code 0: somebody can */
};

/* ---- What is asked for ----------------------------------------------------------------------- */

static int check_mode(const struct workplaces *workplaces,
                      const struct bl_workplace_request *request, struct bl_error *error)
{
    const char *widest = bl_permission_mode_name(workplaces->table.mode);

    if (!request->mode_chosen || !bl_permission_mode_wider(request->mode, workplaces->table.mode))
        return 0;
    bl_error_set(error, BL_EACCES, BL_KIND_USAGE, "choose the permission mode", "permission_mode",
                 "permission mode '%s' lets more through than '%s', with which belay was started",
                 bl_permission_mode_name(request->mode), widest);
    bl_error_hint(error, "ask for a narrower one, or start belay with --permission-mode %s",
                  bl_permission_mode_name(request->mode));
    return BL_EACCES;
}

/* Folders, looked at on a thread, because a dead disk blocks. */
struct folder_check {
    struct bl_arena arena;
    const char **paths; /* end in NULL */
    const char *bad;    /* NULL: they are all there */
    int failed;         /* its errno */
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

static struct folder_check *folder_check_new(const struct bl_workplace_request *request)
{
    struct folder_check *check = bl_zalloc(sizeof *check);
    size_t count = 0, at = 0;

    bl_arena_init(&check->arena);
    while (request->folders != NULL && request->folders[count] != NULL)
        count++;
    check->paths = bl_arena_zalloc(&check->arena, (count + 2) * sizeof *check->paths);
    check->paths[at++] = bl_arena_text(&check->arena, bl_text_from(request->directory)).data;
    for (size_t i = 0; i < count; i++)
        check->paths[at++] = bl_arena_text(&check->arena, bl_text_from(request->folders[i])).data;
    return check;
}

static int check_folders(const struct bl_workplace_request *request, struct bl_error *error)
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

/* The command line's folders and those that are asked for. */
static void take_folders(struct workplace *place, const char *const *more)
{
    size_t count = 0;

    while (more != NULL && more[count] != NULL)
        count++;
    size_t before = place->options.folder_count;
    const char **folders = bl_arena_zalloc(&place->arena, (before + count + 1) * sizeof *folders);
    for (size_t i = 0; i < before; i++)
        folders[i] = place->options.folders[i];
    for (size_t i = 0; i < count; i++)
        folders[before + i] = bl_arena_text(&place->arena, bl_text_from(more[i])).data;
    place->options.folders = folders;
    place->options.folder_count = before + count;
}

static void workplace_take_request(struct workplace *place, const struct workplaces *workplaces,
                                   const struct bl_workplace_request *request)
{
    struct run_options *options = &place->options;

    *options = *workplaces->options;
    options->directory = bl_arena_text(&place->arena, bl_text_from(request->directory)).data;
    if (request->model != NULL)
        options->model = bl_arena_text(&place->arena, bl_text_from(request->model)).data;
    if (request->mode_chosen) {
        options->mode_chosen = true;
        options->mode = request->mode;
    } else if (!options->mode_chosen) {
        options->mode = request->asks ? BL_PERMISSION_ASK : BL_PERMISSION_AUTO;
    }
    options->limits.keep = options->limits.keep || request->keep;
    double usd = request->max_budget_usd;
    if (usd >= 0 && (!options->budgeted || usd < options->max_budget_usd)) {
        options->budgeted = true;
        options->max_budget_usd = usd;
    }
    take_folders(place, request->folders);
}

/* ---- MCP servers that the client brings along ------------------------------------------------ */

static int take_servers(struct workplace *place, const struct bl_json *servers,
                        struct bl_error *error)
{
    struct bl_list *there = &place->means.preparation->servers;
    struct bl_list brought;

    bl_list_init(&brought);
    if (servers == NULL)
        return 0;
    int code = bl_mcp_entries_read(&place->arena, servers, &brought, error);
    if (code != 0)
        return code;
    while (!bl_list_empty(&brought)) {
        struct bl_mcp_entry *entry = BL_CONTAINER(brought.next, struct bl_mcp_entry, link);
        struct bl_list *next;
        bl_list_remove(&entry->link);
        for (struct bl_list *link = there->next; link != there; link = next) {
            next = link->next;
            if (strcmp(BL_CONTAINER(link, struct bl_mcp_entry, link)->name, entry->name) == 0)
                bl_list_remove(link);
        }
        bl_list_push_back(there, &entry->link);
    }
    return 0;
}

/* ---- A model that nobody has a key for ------------------------------------------------------- */

static uint64_t estimate_nothing(void *context BL_UNUSED,
                                 const struct bl_request *request BL_UNUSED)
{
    return 0;
}

static int refuse_call(void *context, const struct bl_request *request BL_UNUSED,
                       struct bl_sink *sink, struct bl_error *error)
{
    const struct workplace *place = context;

    sink->unbilled = true;
    if (error != NULL)
        *error = place->no_key;
    return place->no_key.code;
}

/* A session can be opened, listed and looked at without a key: only a prompt needs one. */
static void do_without_key(struct workplace *place)
{
    struct run_means *means = &place->means;
    const struct bl_config_found *found = &means->preparation->found;

    means->model = (struct bl_model){
        .provider = found->provider != NULL ? found->provider->name : "none",
        .name = found->profile != NULL ? found->profile->model : "none",
        .context = place,
        .estimate = estimate_nothing,
        .call = refuse_call,
    };
    means->models = (struct bl_models){
        .config = means->preparation->config,
        .found = *found,
        .ledger = place->options.budgeted ? &means->ledger : NULL,
        .model = means->model,
    };
    bl_ledger_init(&means->ledger, place->options.max_budget_usd, NULL);
}

static void say_nothing_is_chosen(struct bl_error *error)
{
    bl_error_set(error, BL_EACCES, BL_KIND_AUTH, "choose the model", NULL,
                 "there is no model: nothing is configured, and no key is set");
    bl_error_name_set(error, "auth");
    bl_error_hint(error, "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or give --provider or --model");
}

static int workplace_open_model(struct workplace *place, struct bl_error *error)
{
    struct bl_config_found *found = &place->means.preparation->found;
    struct bl_error *why = &place->no_key;
    int code = 0;

    if (found->profile != NULL) {
        place->profile = *found->profile;
        found->profile = &place->profile;
    }
    if (!found->chosen)
        say_nothing_is_chosen(why);
    else
        code = run_model_open(&place->means, NULL, why);
    if (why->code != 0 && why->kind == BL_KIND_AUTH) {
        do_without_key(place);
        return 0;
    }
    if (code != 0 && error != NULL)
        *error = *why;
    return code;
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The one that it has, then those that users gave a name. A script plays everybody. */
static const char *const *list_models(struct workplace *place)
{
    const struct run_preparation *preparation = place->means.preparation;
    const struct bl_config_found *found = &preparation->found;
    const char *const *aliases = bl_config_aliases(preparation->config, &place->arena);
    size_t count = 0, at = 0;

    while (aliases[count] != NULL)
        count++;
    const char **names = bl_arena_zalloc(&place->arena, (count + 2) * sizeof *names);
    if (!found->chosen)
        return names;
    if (found->provider == NULL) {
        names[at] = place->means.model.name;
        return names;
    }
    names[at++] =
        found->profile->alias != NULL
            ? found->profile->alias
            : bl_arena_printf(&place->arena, "%s/%s", found->provider->name, found->profile->model)
                  .data;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(aliases[i], names[0]) != 0)
            names[at++] = aliases[i];
    }
    return names;
}

static void workplace_show(struct workplace *place, const struct workplaces *workplaces)
{
    struct run_means *means = &place->means;

    place->view = (struct bl_workplace){
        .agent = run_means_agent(means),
        .permissions = means->permissions,
        .toolbox = means->toolbox,
        .timed = place->options.timed,
        .timeout_ns = place->options.timeout_ns,
        .max_turns = place->options.max_turns,
        .warnings = means->warnings,
        .warning_count = means->warning_count,
        .models = list_models(place),
        .thinking = place->options.cassette_path == NULL && means->models.found.provider != NULL
                        ? &place->profile.thinking
                        : NULL,
        .ledger = place->options.budgeted ? &means->ledger : NULL,
    };
    place->view.agent.store = workplaces->table.store;
}

static void place_free(struct workplace *place)
{
    run_model_close(&place->means);
    run_means_done(&place->means);
    bl_arena_done(&place->arena);
    bl_free(place);
}

static int equip(struct workplace *place, const struct bl_workplace_request *request,
                 struct bl_error *error)
{
    int code = run_means_prepare(&place->means, error);

    if (code == 0)
        code = take_servers(place, request->mcp_servers, error);
    if (code == 0)
        code = run_means_equip(&place->means, error);
    if (code == 0)
        code = workplace_open_model(place, error);
    return code;
}

static int open_place(void *context, const struct bl_workplace_request *request,
                      struct bl_workplace **ret_workplace, struct bl_error *error)
{
    struct workplaces *workplaces = context;
    int code = check_mode(workplaces, request, error);

    if (code == 0)
        code = check_folders(request, error);
    if (code != 0)
        return code;
    struct workplace *place = bl_zalloc(sizeof *place);
    bl_arena_init(&place->arena);
    workplace_take_request(place, workplaces, request);
    run_means_init(&place->means, &place->options);
    code = equip(place, request, error);
    if (code != 0) {
        bl_error_set(error, code, BL_KIND_RUNTIME, "open the folder", request->directory,
                     "the folder cannot be opened: %s", bl_error_text(code));
        place_free(place);
        return code;
    }
    workplace_show(place, workplaces);
    bl_list_push_back(&workplaces->open, &place->link);
    *ret_workplace = &place->view;
    return 0;
}

static void close_place(void *context BL_UNUSED, struct bl_workplace *workplace)
{
    struct workplace *place = BL_CONTAINER(workplace, struct workplace, view);

    bl_list_remove(&place->link);
    place_free(place);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static const char *const *copy_names(struct bl_arena *arena, const char *const *names)
{
    size_t count = 0;

    if (names == NULL)
        return NULL;
    while (names[count] != NULL)
        count++;
    const char **copies = bl_arena_zalloc(arena, (count + 1) * sizeof *copies);
    for (size_t i = 0; i < count; i++)
        copies[i] = bl_arena_text(arena, bl_text_from(names[i])).data;
    return copies;
}

/* Of the model that belay was started with: it is made for that, and not called. */
static bool takes_images(const struct run_preparation *preparation)
{
    struct bl_model model = {0};
    struct bl_remote *remote = NULL;
    struct bl_remote_options options = {
        .provider = preparation->found.provider,
        .profile = preparation->found.profile,
        .replay = preparation->cassette,
    };

    if (preparation->script != NULL) {
        struct bl_script_player *player = bl_script_player_new(preparation->script, 1, &model);
        bl_script_player_free(player);
    } else if (bl_remote_new(&options, &remote, &model, NULL) == 0) {
        bl_remote_free(remote);
    }
    return model.takes_images;
}

static int workplace_look_around(struct workplaces *workplaces,
                                 const struct run_preparation *preparation, struct bl_error *error)
{
    struct bl_workplaces *table = &workplaces->table;
    const struct bl_config_found *found = &preparation->found;
    const char *mode = preparation->settings.permission_mode;
    struct bl_arena *arena = &workplaces->arena;

    table->mode = workplaces->options->mode;
    if (mode != NULL && !workplaces->options->mode_chosen) {
        int code = bl_permission_mode_parse(mode, &table->mode, error);
        if (code != 0)
            return code;
    }
    table->takes_images = takes_images(preparation);
    if (!found->chosen)
        table->keys = bl_config_key_wanted(preparation->config, NULL, arena);
    else if (found->provider != NULL && !found->replay)
        table->keys =
            copy_names(arena, bl_config_key_wanted(preparation->config, found->provider, arena));
    return 0;
}

int workplaces_begin(struct workplaces *workplaces, const struct run_options *options,
                     struct bl_store *store, struct bl_error *error)
{
    struct run_means start;

    *workplaces = (struct workplaces){
        .table = {.open = open_place,
                  .close = close_place,
                  .context = workplaces,
                  .store = store,
                  .directory = options->directory},
        .options = options,
    };
    bl_arena_init(&workplaces->arena);
    bl_list_init(&workplaces->open);
    run_means_init(&start, options);
    int code = run_means_prepare(&start, error);
    if (code == 0)
        code = workplace_look_around(workplaces, start.preparation, error);
    run_means_done(&start);
    return code;
}

void workplaces_hurry(struct workplaces *workplaces)
{
    BL_LIST_EACH (link, &workplaces->open)
        bl_toolbox_hurry(BL_CONTAINER(link, struct workplace, link)->means.toolbox);
}

void workplaces_end(struct workplaces *workplaces)
{
    bl_arena_done(&workplaces->arena);
}

/* ---- A command that serves ------------------------------------------------------------------- */

static void workplace_hurry(void *context)
{
    struct serving *serving = context;

    workplaces_hurry(&serving->workplaces);
}

static void warn_unreachable(const struct serving *serving, const struct bl_error *error)
{
    struct bl_buffer line;

    bl_buffer_init(&line, 4096);
    bl_buffer_printf(&line, "belay %s: `belay ps` and `belay cancel` cannot reach it: %s\n",
                     serving->name, error->message);
    cli_remark(bl_buffer_text(&line));
    bl_buffer_done(&line);
}

static int workplace_stop_exit_code(const struct serving *serving)
{
    return serving->signals.first == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_CLIENT_GONE;
}

/* With its control socket. One that cannot be made is no reason not to serve. */
static int serve_listed(struct serving *serving)
{
    struct bl_nursery services;
    struct bl_control *control = NULL;
    struct bl_error *error = bl_zalloc(sizeof *error);

    bl_nursery_init(&services, bl_scope_current());
    if (bl_control_start(&services, &serving->activities, &control, error) != 0) {
        control = NULL;
        warn_unreachable(serving, error);
    }
    bl_free(error);
    struct bl_scope *outer = bl_scope_enter(&serving->scope);
    int code = serving->serve(serving, &serving->exit_code, &serving->error);
    bl_scope_enter(outer);
    if (code == 0 && serving->signals.first != 0)
        serving->exit_code = workplace_stop_exit_code(serving);
    bl_control_stop(control);
    bl_nursery_done(&services);
    return code;
}

static int workplace_begin(struct serving *serving)
{
    const struct run_options *options = serving->options;
    struct bl_scope *outer = bl_scope_enter(&serving->scope);

    int code = bl_store_open(options->store, &serving->store, &serving->error);
    if (code == 0)
        code = workplaces_begin(&serving->workplaces, options, serving->store, &serving->error);
    bl_scope_enter(outer);
    return code;
}

static void workplace_perform(struct serving *serving)
{
    int code = workplace_begin(serving);

    if (code == 0)
        code = serve_listed(serving);
    if (code == 0)
        return;
    if (bl_scope_stopped(&serving->scope) && (code == BL_ECANCELED || code == BL_ETIMEDOUT)) {
        serving->error = (struct bl_error){0};
        serving->exit_code = workplace_stop_exit_code(serving);
        return;
    }
    bl_error_set(&serving->error, code, BL_KIND_RUNTIME, serving->name, NULL, "cannot serve: %s",
                 bl_error_text(code));
}

static int serving_main(void *argument)
{
    struct serving *serving = argument;

    bl_scope_init(&serving->scope, bl_scope_current());
    bl_list_init(&serving->workplaces.open);
    bl_arena_init(&serving->workplaces.arena);
    bl_activities_init(&serving->activities);
    int code = cli_signals_start(&serving->signals, &serving->scope, workplace_hurry, serving);
    if (code == 0)
        workplace_perform(serving);
    else
        bl_error_set(&serving->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    workplaces_end(&serving->workplaces);
    bl_store_close(serving->store);
    cli_signals_block(&serving->signals);
    cli_signals_end(&serving->signals);
    bl_scope_done(&serving->scope);
    return 0;
}

/* Serves for hours: what was large goes back to the system when it is freed. Left to itself the
 * allocator keeps such blocks, once it has seen a few, and what lies between them too. */
static void give_memory_back(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_SIZE);
    mallopt(M_TRIM_THRESHOLD, LARGE_SIZE);
}

void serving_greet(const struct serving *serving, const char *protocol)
{
    char line[300];

    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return;
    int size = snprintf(line, sizeof line,
                        "belay %s: this speaks %s: other programs start it; Ctrl-D ends it\n",
                        serving->name, protocol);
    cli_remark((struct bl_text){line, (size_t)size});
}

int serving_do(struct serving *serving)
{
    give_memory_back();
    cli_processes_begin();
    cli_signals_block(&serving->signals);
    int code = cli_loop_run(serving->name, serving_main, serving, &serving->error);

    if (code == 0 && serving->error.code == 0)
        return serving->exit_code;
    return cli_fail(serving->call, &serving->error, cli_error_exit_code(&serving->error));
}
