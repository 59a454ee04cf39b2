/* Who answers in a run. What is in files is read on the thread that reads all of them; the model
 * itself is made in a fiber, because a key may have to be asked for, and belongs to the loop. */
#include "run.h"

/* ---- What is in files ------------------------------------------------------------------------ */

static int refuse(struct run_preparation *preparation, const char *target, const char *message,
                  const char *hint)
{
    bl_error_set(&preparation->error, BL_EINVAL, BL_KIND_USAGE, "choose the model", target, "%s",
                 message);
    bl_error_hint(&preparation->error, "%s", hint);
    return BL_EINVAL;
}

/* What was asked for must be there: a limit of cost a price, a cassette a replay. */
static int check_choice(struct run_preparation *preparation)
{
    const struct bl_config_found *found = &preparation->found;

    if (found->replay && preparation->cassette_path == NULL)
        return refuse(preparation, "--cassette", "to replay, a cassette is needed",
                      "add --cassette FILE, one that --record has written");
    if (!found->replay && preparation->cassette_path != NULL)
        return refuse(preparation, "--cassette", "a cassette is answered from by replay alone",
                      "add --provider replay");
    if (preparation->recorded && found->provider == NULL)
        return refuse(preparation, "--record",
                      "the script model sends nothing that could be recorded",
                      "leave --record out, or choose another --provider");
    if (preparation->recorded && found->replay)
        return refuse(preparation, "--record", "what is replayed is on record already",
                      "leave --record out");
    if (!preparation->budgeted || found->profile == NULL || found->profile->price.known)
        return 0;
    bl_error_set(
        &preparation->error, BL_EINVAL, BL_KIND_USAGE, "choose the model", "--max-budget-usd",
        "a limit in USD needs a price, and that of '%.200s' is not known", found->profile->model);
    bl_error_hint(&preparation->error,
                  "add it to prices.yaml (input, output; for anthropic cache_write, too), or "
                  "'free: true' to the model, or leave --max-budget-usd out");
    return BL_EINVAL;
}

/* Before anything else is asked: a cassette says itself what it was recorded with. */
static bool is_replay(const struct run_preparation *preparation)
{
    const char *provider = preparation->provider;

    if (provider == NULL)
        provider = cli_variable("BELAY_PROVIDER");
    return preparation->cassette_path != NULL && provider != NULL &&
           strcmp(provider, "replay") == 0;
}

int run_model_read(struct run_preparation *preparation)
{
    struct bl_config_options options = {
        .directory = preparation->directory,
        .variable = cli_variable,
    };
    struct bl_config_choice choice = {
        .provider = preparation->provider,
        .model = preparation->model,
    };
    struct bl_error *error = &preparation->error;
    struct bl_config_found *found = &preparation->found;

    int code = bl_config_read(&options, &preparation->config, error);
    if (code == 0 && is_replay(preparation))
        code = bl_cassette_load(preparation->cassette_path, &preparation->cassette, error);
    if (code != 0)
        return code;
    if (preparation->cassette != NULL && choice.model == NULL)
        code = bl_config_imitate(preparation->config, preparation->cassette, found, error);
    else
        code = bl_config_find(preparation->config, &choice, found, error);
    if (code == 0)
        code = check_choice(preparation);
    if (code == 0 && found->replay && preparation->cassette == NULL)
        code = bl_cassette_load(preparation->cassette_path, &preparation->cassette, error);
    if (code != 0 || found->provider != NULL)
        return code;
    if (found->script != NULL)
        return bl_script_load(found->script, &preparation->script, error);
    preparation->script = bl_script_builtin();
    return 0;
}

/* ---- The model ------------------------------------------------------------------------------- */

static uint64_t make_seed(void)
{
    uint64_t seed;

    bl_random_bytes(&seed, sizeof seed);
    return seed;
}

static int open_recorder(struct run_work *work)
{
    const struct bl_text *secrets;
    size_t count = bl_config_secrets(work->preparation->config, &secrets);

    if (work->options->record_path == NULL)
        return 0;
    return bl_cassette_record(work->options->record_path, secrets, count, &work->recorder,
                              &work->error);
}

static int open_remote(struct run_work *work)
{
    const struct run_preparation *preparation = work->preparation;
    const struct bl_config_found *found = &preparation->found;
    int code = 0;

    if (!found->replay)
        code = bl_config_key(preparation->config, found->provider, &work->error);
    /* After the key, which is one of the secrets. */
    if (code == 0)
        code = open_recorder(work);
    if (code != 0)
        return code;
    if (work->options->budgeted)
        bl_ledger_init(&work->ledger, work->options->max_budget_usd, &work->scope);
    struct bl_remote_options options = {
        .provider = found->provider,
        .profile = found->profile,
        .ledger = work->options->budgeted ? &work->ledger : NULL,
        .recorder = work->recorder,
        .replay = preparation->cassette,
        .seed = make_seed(),
    };
    return bl_remote_new(&options, &work->remote, &work->model, &work->error);
}

int run_model_open(struct run_work *work)
{
    const struct run_preparation *preparation = work->preparation;

    bl_toolbox_hide(work->toolbox, bl_config_key_variables(preparation->config));
    if (preparation->found.provider != NULL)
        return open_remote(work);
    work->player = bl_script_player_new(preparation->script, make_seed(), &work->model);
    return 0;
}

/* ---- Models of sub-agents -------------------------------------------------------------------- */

/* One that was made for somebody: a player of his own, or a connection of his own. */
struct made_model {
    struct bl_script_player *player;
    struct bl_remote *remote;
};

static int find_named(struct run_work *work, const char *name, struct bl_config_found *found,
                      struct bl_error *error)
{
    struct run_preparation *preparation = work->preparation;
    struct bl_config_choice choice = {.model = name};

    int code = bl_config_find(preparation->config, &choice, found, error);
    if (code != 0)
        return code;
    if (found->provider == NULL || preparation->found.replay)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, "choose the model", name,
                            "'%.100s' cannot be changed to here", name);
    if (work->options->budgeted && !found->profile->price.known)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose the model", name,
                            "a limit in USD is set, and the price of '%.100s' is not known", name);
    return bl_config_key(preparation->config, found->provider, error);
}

static int open_named(struct run_work *work, const char *name, struct made_model *made,
                      struct bl_model *ret_model, struct bl_error *error)
{
    struct bl_config_found found;

    int code = find_named(work, name, &found, error);
    if (code != 0)
        return code;
    struct bl_remote_options options = {
        .provider = found.provider,
        .profile = found.profile,
        .ledger = work->options->budgeted ? &work->ledger : NULL,
        .recorder = work->recorder,
        .seed = make_seed(),
    };
    return bl_remote_new(&options, &made->remote, ret_model, error);
}

/* Without a name: the script from its beginning; a provider's model is the same for all. With the
 * script model a persona's own model means nothing: it plays everybody. */
static int source_open(void *context, const char *name, struct bl_model *ret_model,
                       void **ret_handle, struct bl_error *error)
{
    struct run_work *work = context;
    const struct bl_script *script = work->preparation->script;

    *ret_handle = NULL;
    if (script == NULL && name == NULL) {
        *ret_model = work->model;
        return 0;
    }
    struct made_model *made = bl_zalloc(sizeof *made);
    int code = 0;
    if (script != NULL)
        made->player = bl_script_player_new(script, make_seed(), ret_model);
    else
        code = open_named(work, name, made, ret_model, error);
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

void run_model_source(struct run_work *work, struct bl_model_source *ret_source)
{
    *ret_source = (struct bl_model_source){source_open, source_close, work};
}

void run_model_pretend(struct run_work *work)
{
    const struct bl_config_found *found =
        work->preparation != NULL ? &work->preparation->found : NULL;

    work->fallback = bl_script_builtin();
    work->player = bl_script_player_new(work->fallback, 1, &work->model);
    if (found == NULL || found->provider == NULL)
        return;
    work->model.provider = found->provider->name;
    work->model.name = found->profile->model;
}

void run_model_close(struct run_work *work)
{
    bl_remote_free(work->remote);
    work->remote = NULL;
    bl_cassette_close(work->recorder, &work->record_error);
    work->recorder = NULL;
}
