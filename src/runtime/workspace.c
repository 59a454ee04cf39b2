/* Design notes.
 *
 * A workspace is opened in steps. Its files are read on a thread, which a stop leaves behind. Tools
 * and model are made in a fiber, because a key may have to be fetched, and belong to the loop.
 * Between these steps a command may read its prompt from input that never ends: errors in the files
 * are reported before that, and nothing has been started yet. */
#include <limits.h>
#include <unistd.h>

#include "parts.h"

void bl_workspace_options_init(struct bl_workspace_options *options, const char *directory)
{
    *options = (struct bl_workspace_options){
        .directory = directory, .mode = BL_PERMISSION_AUTO, .max_turns = 1};
    bl_turn_limits_init(&options->limits);
}

int runtime_directory(struct bl_arena *arena, const char **ret_directory, struct bl_error *error)
{
    char *directory = bl_arena_alloc(arena, PATH_MAX);

    *ret_directory = directory;
    if (getcwd(directory, PATH_MAX) != NULL)
        return 0;
    return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the workspace", NULL,
                        "the current folder no longer exists");
}

/* ---- Rules ----------------------------------------------------------------------------------- */

int runtime_rules_add(const char *const *rules, bool allow, struct bl_permissions *permissions,
                      struct bl_error *error)
{
    int code = 0;

    for (size_t i = 0; rules != NULL && rules[i] != NULL && code == 0; i++)
        code = bl_permissions_add(permissions, allow, rules[i], error);
    return code;
}

/* A rule that is unknown here (of a newer belay, for example) is left out. */
static void workspace_apply_kept(struct bl_workspace *workspace)
{
    BL_LIST_EACH (link, &workspace->files->rules) {
        const struct bl_kept_rule *kept = BL_CONTAINER(link, struct bl_kept_rule, link);
        struct bl_error error = {0};
        if (bl_permissions_add(workspace->permissions, true, kept->rule, &error) != 0)
            bl_workspace_warn(workspace,
                              bl_arena_printf(&workspace->arena, "rules.json: %s", error.message));
    }
}

/* Applies the configured permissions; the rules of the options are added to them. */
static int workspace_apply_settings(struct bl_workspace *workspace, struct bl_error *error)
{
    const struct bl_settings *settings = &workspace->project->settings;
    enum bl_permission_mode mode;
    int code = 0;

    if (settings->permission_mode != NULL && !workspace->options.mode_chosen) {
        code = bl_permission_mode_parse(settings->permission_mode, &mode, error);
        if (code == 0)
            bl_permissions_set_mode(workspace->permissions, mode);
    }
    return code == 0 ? bl_settings_apply(settings, workspace->permissions, error) : code;
}

/* ---- Files ----------------------------------------------------------------------------------- */

int bl_workspace_new(const struct bl_workspace_options *options,
                     struct bl_workspace **ret_workspace, struct bl_error *error)
{
    struct bl_workspace *workspace = bl_zalloc(sizeof *workspace);

    bl_list_init(&workspace->link);
    bl_arena_init(&workspace->arena);
    workspace->options = runtime_options_copy(options, &workspace->arena);
    workspace->permissions = bl_permissions_new(options->mode);
    int code = 0;
    if (options->directory == NULL)
        code = runtime_directory(&workspace->arena, &workspace->options.directory, error);
    if (code == 0)
        code = runtime_rules_add(options->allow, true, workspace->permissions, error);
    if (code == 0)
        code = runtime_rules_add(options->deny, false, workspace->permissions, error);
    if (code == 0)
        *ret_workspace = workspace;
    else
        bl_workspace_close(workspace);
    return code;
}

/* The thinking effort may be changed, so the workspace has its own profile. */
static void workspace_take_files(struct bl_workspace *workspace, struct workspace_files *files)
{
    struct bl_project *shared = workspace->options.project;

    workspace->files = files;
    workspace->project = shared != NULL ? shared : &files->project;
    workspace->instructions = &files->instructions;
    workspace->schema = files->schema;
    workspace->untrusted = files->untrusted;
    workspace->found = files->choice.found;
    if (workspace->found.profile != NULL) {
        workspace->profile = *workspace->found.profile;
        workspace->found.profile = &workspace->profile;
    }
}

int bl_workspace_read(struct bl_workspace *workspace, struct bl_error *error)
{
    struct workspace_files *files = workspace_files_new(&workspace->options);
    struct bl_work job = {
        .run = workspace_files_read,
        .drop = workspace_files_free,
        .payload = files,
        .abandon_on_stop = true,
    };
    bool abandoned;

    int code = bl_work_call(&job, &abandoned);
    if (code == 0)
        workspace_take_files(workspace, files);
    else if (!abandoned)
        workspace_files_free(files);
    if (code == 0 && files->code != 0 && error != NULL)
        *error = files->error;
    return code == 0 ? files->code : code;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* The client's servers replace ours of the same name. */
static int workspace_take_servers(struct bl_workspace *workspace, struct bl_error *error)
{
    struct bl_list *there = &workspace->files->servers;
    struct bl_list brought;
    int code = 0;

    bl_list_init(&brought);
    if (workspace->options.mcp_servers != NULL)
        code =
            bl_mcp_entries_read(&workspace->arena, workspace->options.mcp_servers, &brought, error);
    workspace->options.mcp_servers = NULL;
    while (code == 0 && !bl_list_empty(&brought)) {
        struct bl_mcp_entry *entry =
            BL_CONTAINER(bl_list_pop_front(&brought), struct bl_mcp_entry, link);
        BL_LIST_EACH_SAFE (link, there)
            if (strcmp(BL_CONTAINER(link, struct bl_mcp_entry, link)->name, entry->name) == 0)
                bl_list_remove(link);
        bl_list_push_back(there, &entry->link);
    }
    return code;
}

/* Returns the folders of the options, and those of skills. */
static const char *const *workspace_readable(struct bl_workspace *workspace)
{
    const struct bl_list *skills = &workspace->files->skills;
    size_t count = 0;

    BL_LIST_EACH (link, skills)
        count++;
    const char **folders = bl_arena_zalloc(&workspace->arena, (count + 1) * sizeof *folders);
    count = 0;
    BL_LIST_EACH (link, skills)
        folders[count++] = BL_CONTAINER(link, struct bl_skill, link)->folder;
    return runtime_list_join(&workspace->arena, workspace->options.readable, folders);
}

static int workspace_open_toolbox(struct bl_workspace *workspace, struct bl_error *error)
{
    const struct bl_workspace_options *options = &workspace->options;
    const struct bl_project *project = workspace->project;
    struct bl_toolbox_options toolbox = {
        .workspace = options->directory,
        .folders = options->folders,
        .readable = workspace_readable(workspace),
        .permissions = workspace->permissions,
        .container = options->container,
        .sandbox_chosen = options->sandbox_chosen,
        .sandbox = options->sandbox,
        .grace_chosen = options->graced,
        .grace_ms = options->grace_ms,
        .mcp = &workspace->files->servers,
        .mcp_trusted = options->trust_mcp,
    };

    int code = bl_toolbox_new(&toolbox, &workspace->toolbox, error);
    if (code != 0)
        return code;
    bl_toolbox_allow_variables(workspace->toolbox, project->settings.env_allow);
    bl_toolbox_hide(workspace->toolbox, bl_config_key_variables(project->config));
    bl_toolbox_add_variables(workspace->toolbox, options->variables);
    return 0;
}

/* ---- The model ------------------------------------------------------------------------------- */

static int workspace_open_recorder(struct bl_workspace *workspace, struct bl_error *error)
{
    const char *path = workspace->options.record_path, *store = bl_variable("BELAY_STORE");
    const struct bl_text *known;
    BL_AUTO_ARENA(arena);

    if (path == NULL)
        return 0;
    size_t count = bl_config_secrets(workspace->project->config, &known);
    struct bl_text *secrets = bl_arena_alloc(&arena, (count + 1) * sizeof *secrets);
    for (size_t i = 0; i < count; i++)
        secrets[i] = known[i];
    if (store != NULL && bl_store_password(&arena, store, &secrets[count]))
        count++;
    return bl_cassette_record(path, secrets, count, &workspace->recorder, error);
}

static int workspace_open_chosen(struct bl_workspace *workspace, struct bl_error *error)
{
    const struct runtime_choice *choice = &workspace->files->choice;
    const struct bl_config_found *found = &workspace->found;
    struct bl_models *answering = &workspace->answering;
    int code = 0;

    if (found->provider != NULL && !found->replay)
        code = bl_config_key(workspace->project->config, found->provider, error);
    /* After the key, which is one of the secrets. */
    if (code == 0 && found->provider != NULL)
        code = workspace_open_recorder(workspace, error);
    if (code != 0)
        return code;
    answering->script = choice->script;
    answering->recorder = workspace->recorder;
    answering->replay = choice->cassette;
    code = bl_models_open(answering, error);
    workspace->model = answering->model;
    return code;
}

static uint64_t workspace_estimate_nothing(void *context BL_UNUSED,
                                           const struct bl_request *request BL_UNUSED)
{
    return 0;
}

static int workspace_refuse_call(void *context, const struct bl_request *request BL_UNUSED,
                                 struct bl_sink *sink, struct bl_error *error)
{
    const struct bl_workspace *workspace = context;

    sink->unbilled = true;
    if (error != NULL)
        *error = workspace->no_model;
    return workspace->no_model.code;
}

/* A session can be opened, listed and read without a key: only a prompt needs one. */
static void workspace_do_without_model(struct bl_workspace *workspace)
{
    const struct bl_config_found *found = &workspace->found;

    workspace->model = (struct bl_model){
        .provider = found->provider != NULL ? found->provider->name : "none",
        .name = found->profile != NULL ? found->profile->model : "none",
        .context = workspace,
        .estimate = workspace_estimate_nothing,
        .call = workspace_refuse_call,
    };
    workspace->answering.model = workspace->model;
}

static int workspace_say_nothing_is_chosen(struct bl_error *error)
{
    bl_error_set(error, BL_EACCES, BL_KIND_AUTH, "choose the model", NULL,
                 "no model: nothing is configured, and no key is set");
    bl_error_name_set(error, "auth");
    bl_error_hint(error, "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --provider or --model");
    return BL_EACCES;
}

static int workspace_open_model(struct bl_workspace *workspace, struct bl_error *error)
{
    struct bl_error *why = &workspace->no_model;
    bool optional = workspace->options.model_optional;

    workspace->answering.config = workspace->project->config;
    workspace->answering.found = workspace->found;
    workspace->answering.ledger = workspace->ledger;
    int code = optional && !workspace->found.chosen ? workspace_say_nothing_is_chosen(why)
                                                    : workspace_open_chosen(workspace, why);
    if (code != 0 && optional && why->kind == BL_KIND_AUTH) {
        workspace_do_without_model(workspace);
        return 0;
    }
    if (code != 0 && error != NULL)
        *error = *why;
    return code;
}

/* Lists the current model, then the models with aliases. With a script, only the script. */
static const char *const *workspace_list_models(struct bl_workspace *workspace)
{
    const struct bl_config_found *found = &workspace->found;
    struct bl_arena *arena = &workspace->arena;
    const char *const *aliases = bl_config_aliases(workspace->project->config, arena);
    const char **names = bl_arena_zalloc(arena, (runtime_list_size(aliases) + 2) * sizeof *names);
    size_t at = 0;

    if (!found->chosen)
        return names;
    if (found->provider == NULL) {
        names[at] = workspace->model.name;
        return names;
    }
    names[at++] =
        found->profile->alias != NULL
            ? found->profile->alias
            : bl_arena_printf(arena, "%s/%s", found->provider->name, found->profile->model).data;
    for (size_t i = 0; aliases[i] != NULL; i++) {
        if (strcmp(aliases[i], names[0]) != 0)
            names[at++] = aliases[i];
    }
    return names;
}

static int workspace_open_store(struct bl_workspace *workspace, struct bl_error *error)
{
    const struct bl_workspace_options *options = &workspace->options;

    workspace->store = options->store;
    workspace->owns_store = options->store == NULL && options->store_path != NULL;
    return workspace->owns_store ? bl_store_open(options->store_path, &workspace->store, error) : 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

int bl_workspace_equip(struct bl_workspace *workspace, struct bl_error *error)
{
    const struct bl_workspace_options *options = &workspace->options;

    workspace->ledger = options->ledger != NULL ? options->ledger
                        : options->budgeted     ? &workspace->cost
                                                : NULL;
    bl_workspace_charge(workspace, NULL);
    int code = workspace_take_servers(workspace, error);
    if (code == 0)
        code = workspace_apply_settings(workspace, error);
    workspace_apply_kept(workspace);
    if (code == 0)
        code = workspace_open_toolbox(workspace, error);
    if (code == 0)
        code = workspace_open_model(workspace, error);
    if (code == 0)
        code = workspace_open_store(workspace, error);
    if (code != 0)
        return code;
    if (workspace->found.provider != NULL && !workspace->found.replay)
        workspace->thinking = &workspace->profile.thinking;
    workspace->models = workspace_list_models(workspace);
    BL_LIST_EACH (link, &workspace->files->project.notices)
        bl_workspace_warn(workspace, BL_CONTAINER(link, struct bl_notice, link)->text);
    BL_LIST_EACH (link, &workspace->files->notices)
        bl_workspace_warn(workspace, BL_CONTAINER(link, struct bl_notice, link)->text);
    return 0;
}

int bl_workspace_open(const struct bl_workspace_options *options,
                      struct bl_workspace **ret_workspace, struct bl_error *error)
{
    struct bl_workspace *workspace = NULL;

    int code = bl_workspace_new(options, &workspace, error);
    if (code == 0)
        code = bl_workspace_read(workspace, error);
    if (code == 0)
        code = bl_workspace_equip(workspace, error);
    if (code == 0)
        *ret_workspace = workspace;
    else
        bl_workspace_close(workspace);
    return code;
}

void bl_workspace_shut(struct bl_workspace *workspace)
{
    bl_models_close(&workspace->answering);
    bl_cassette_close(workspace->recorder, &workspace->record_error);
    workspace->recorder = NULL;
    if (workspace->owns_store)
        bl_store_close(workspace->store);
    workspace->owns_store = false;
}

void bl_workspace_close(struct bl_workspace *workspace)
{
    if (workspace == NULL)
        return;
    bl_list_remove(&workspace->link);
    bl_workspace_shut(workspace);
    bl_toolbox_free(workspace->toolbox);
    bl_permissions_free(workspace->permissions);
    workspace_files_free(workspace->files);
    bl_arena_done(&workspace->arena);
    bl_free(workspace);
}

/* ---- Its agents ------------------------------------------------------------------------------ */

void bl_workspace_warn(struct bl_workspace *workspace, struct bl_text text)
{
    size_t count = workspace->warning_count;
    struct bl_text *warnings = bl_arena_alloc(&workspace->arena, (count + 1) * sizeof *warnings);

    if (count > 0)
        memcpy(warnings, workspace->warnings, count * sizeof *warnings);
    warnings[workspace->warning_count++] = text;
    workspace->warnings = warnings;
}

void bl_workspace_charge(struct bl_workspace *workspace, struct bl_scope *scope)
{
    if (workspace->ledger == &workspace->cost)
        bl_ledger_init(&workspace->cost, workspace->options.max_budget_usd, scope);
}

struct bl_agent_options bl_workspace_agent(struct bl_workspace *workspace)
{
    const struct bl_project *project = workspace->project;
    const struct bl_workspace_options *options = &workspace->options;

    workspace->source = bl_models_source(&workspace->answering);
    return (struct bl_agent_options){
        .store = workspace->store,
        .session = {.directory = options->directory},
        .model = &workspace->model,
        .models = &workspace->source,
        .toolbox = workspace->toolbox,
        .personas = &project->personas,
        .hooks = project->settings.hooks,
        .hidden = bl_config_key_variables(project->config),
        .env_allow = project->settings.env_allow,
        .directory = options->directory,
        .permissions = workspace->permissions,
        .limits = options->limits,
        .system = workspace->files->system,
        .schema_text = workspace->files->schema_text,
        .schema = workspace->schema,
    };
}

struct bl_run_options bl_workspace_run(const struct bl_workspace *workspace, struct bl_text prompt)
{
    return (struct bl_run_options){
        .prompt = prompt,
        .max_turns = workspace->options.max_turns,
        .timed = workspace->options.timed,
        .timeout_ns = workspace->options.timeout_ns,
        .warnings = workspace->warnings,
        .warning_count = workspace->warning_count,
    };
}
