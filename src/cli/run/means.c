#include "run.h"

void run_means_init(struct run_means *means, const struct run_options *options)
{
    *means = (struct run_means){.options = options};
    bl_arena_init(&means->arena);
    means->permissions = run_options_permissions(options);
}

int run_means_prepare(struct run_means *means, struct bl_error *error)
{
    struct run_preparation *preparation = run_preparation_new(means->options);
    struct bl_work job = {
        .run = run_preparation_read,
        .drop = run_preparation_free,
        .payload = preparation,
        .abandon_on_stop = true,
    };
    bool abandoned;

    int code = bl_work_call(&job, &abandoned);
    if (code == 0)
        means->preparation = preparation;
    else if (!abandoned)
        run_preparation_free(preparation);
    if (code != 0)
        return code;
    *error = preparation->error;
    return preparation->code;
}

void run_means_warn(struct run_means *means, struct bl_text text)
{
    struct bl_text *warnings =
        bl_arena_alloc(&means->arena, (means->warning_count + 1) * sizeof *warnings);

    if (means->warning_count > 0)
        memcpy(warnings, means->warnings, means->warning_count * sizeof *warnings);
    warnings[means->warning_count++] = text;
    means->warnings = warnings;
}

/* What the configuration says of permissions; the command line's own rules stand beside it. */
static int apply_settings(struct run_means *means, struct bl_error *error)
{
    const struct bl_settings *settings = &means->preparation->settings;
    enum bl_permission_mode mode;
    int code = 0;

    if (settings->permission_mode != NULL && !means->options->mode_chosen) {
        code = bl_permission_mode_parse(settings->permission_mode, &mode, error);
        if (code == 0)
            bl_permissions_set_mode(means->permissions, mode);
    }
    if (code == 0)
        code = bl_settings_apply(settings, means->permissions, error);
    return code;
}

static int open_toolbox(struct run_means *means, struct bl_error *error)
{
    const struct run_options *options = means->options;
    const struct run_preparation *preparation = means->preparation;
    struct bl_toolbox_options toolbox = {
        .workspace = options->directory,
        .folders = options->folders,
        .readable = preparation->skill_folders,
        .permissions = means->permissions,
        .container = options->container,
        .sandbox_chosen = options->sandbox_chosen,
        .sandbox = options->sandbox,
        .grace_chosen = options->graced,
        .grace_ms = options->grace_ms,
        .mcp = &preparation->servers,
        .mcp_trusted = options->trust_mcp,
    };

    int code = bl_toolbox_new(&toolbox, &means->toolbox, error);
    if (code != 0)
        return code;
    bl_toolbox_allow_variables(means->toolbox, preparation->settings.env_allow);
    bl_toolbox_hide(means->toolbox, bl_config_key_variables(preparation->config));
    return 0;
}

int run_means_equip(struct run_means *means, struct bl_error *error)
{
    int code = apply_settings(means, error);

    if (code == 0)
        code = open_toolbox(means, error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &means->preparation->notices)
        run_means_warn(means, BL_CONTAINER(link, struct bl_notice, link)->text);
    return 0;
}

struct bl_agent_options run_means_agent(struct run_means *means)
{
    const struct run_preparation *preparation = means->preparation;

    means->source = bl_models_source(&means->models);
    return (struct bl_agent_options){
        .session = {.directory = means->options->directory},
        .model = &means->model,
        .models = &means->source,
        .toolbox = means->toolbox,
        .personas = &preparation->personas,
        .hooks = preparation->settings.hooks,
        .hidden = bl_config_key_variables(preparation->config),
        .env_allow = preparation->settings.env_allow,
        .directory = means->options->directory,
        .permissions = means->permissions,
        .limits = means->options->limits,
        .system = preparation->system,
        .schema_text = preparation->schema_text,
        .schema = preparation->schema,
    };
}

void run_means_done(struct run_means *means)
{
    bl_toolbox_free(means->toolbox);
    bl_permissions_free(means->permissions);
    run_preparation_free(means->preparation);
    bl_arena_done(&means->arena);
}
