#include <belay/agent.h>

#define OPERATION "choose the model"

/* A model that was made for one agent: its own player, or its own connection. */
struct made_model {
    struct bl_script_player *player;
    struct bl_remote *remote;
};

static uint64_t make_seed(void)
{
    uint64_t seed;

    bl_random_bytes(&seed, sizeof seed);
    return seed;
}

static int make_remote(const struct bl_models *models, const struct bl_config_found *found,
                       struct bl_remote **ret_remote, struct bl_model *ret_model,
                       struct bl_error *error)
{
    struct bl_remote_options options = {
        .provider = found->provider,
        .profile = found->profile,
        .ledger = models->ledger,
        .recorder = models->recorder,
        .replay = models->replay,
        .seed = make_seed(),
    };

    if (models->replay == NULL) {
        int code = bl_config_key(models->config, found->provider, error);
        if (code != 0)
            return code;
    }
    return bl_remote_new(&options, ret_remote, ret_model, error);
}

int bl_models_open(struct bl_models *models, struct bl_error *error)
{
    if (models->script == NULL)
        return make_remote(models, &models->found, &models->remote, &models->model, error);
    models->player = bl_script_player_new(models->script, make_seed(), &models->model);
    return 0;
}

void bl_models_close(struct bl_models *models)
{
    bl_script_player_free(models->player);
    bl_remote_free(models->remote);
    models->player = NULL;
    models->remote = NULL;
}

/* ---- Models of sub-agents -------------------------------------------------------------------- */

static int open_named(const struct bl_models *models, const char *name, struct made_model *made,
                      struct bl_model *ret_model, struct bl_error *error)
{
    struct bl_config_choice choice = {.model = name};
    struct bl_config_found found;

    int code = bl_config_find(models->config, &choice, &found, error);
    if (code != 0)
        return code;
    if (found.provider == NULL || models->replay != NULL)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, OPERATION, name,
                            "cannot switch to '%.100s' here", name);
    if (models->ledger != NULL && !found.profile->price.known)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, name,
                            "a limit in USD is set, but the price of '%.100s' is unknown", name);
    return make_remote(models, &found, &made->remote, ret_model, error);
}

/* Without a name: the script from its beginning, or the provider's shared model. With the script
 * model a persona's model has no effect: the script plays all agents. */
static int source_open(void *context, const char *name, struct bl_model *ret_model,
                       void **ret_handle, struct bl_error *error)
{
    const struct bl_models *models = context;

    *ret_handle = NULL;
    if (models->script == NULL && name == NULL) {
        *ret_model = models->model;
        return 0;
    }
    struct made_model *made = bl_zalloc(sizeof *made);
    int code = 0;
    if (models->script != NULL)
        made->player = bl_script_player_new(models->script, make_seed(), ret_model);
    else
        code = open_named(models, name, made, ret_model, error);
    if (code == 0)
        *ret_handle = made;
    else
        bl_free(made);
    return code;
}

static void source_close(void *context BL_UNUSED, void *handle)
{
    struct made_model *made = handle;

    if (made == NULL)
        return;
    bl_script_player_free(made->player);
    bl_remote_free(made->remote);
    bl_free(made);
}

struct bl_model_source bl_models_source(struct bl_models *models)
{
    return (struct bl_model_source){source_open, source_close, models};
}
