/* Who answers in a run. What is in files is read on the thread that reads all of them; the model
 * itself is made in a fiber, because a key may have to be asked for, and belongs to the loop. */
#include "run.h"

/* ---- What is in files ------------------------------------------------------------------------ */

static int model_refuse(struct run_preparation *preparation, const char *target,
                        const char *message, const char *hint)
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
        return model_refuse(preparation, "--cassette", "to replay, a cassette is needed",
                            "add --cassette FILE, one that --record has written");
    if (!found->replay && preparation->cassette_path != NULL)
        return model_refuse(preparation, "--cassette",
                            "a cassette is answered from by replay alone", "add --provider replay");
    if (preparation->recorded && found->provider == NULL)
        return model_refuse(preparation, "--record",
                            "the script model sends nothing that could be recorded",
                            "leave --record out, or choose another --provider");
    if (preparation->recorded && found->replay)
        return model_refuse(preparation, "--record", "what is replayed is on record already",
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
        provider = bl_variable("BELAY_PROVIDER");
    return preparation->cassette_path != NULL && provider != NULL &&
           strcmp(provider, "replay") == 0;
}

int run_model_read(struct run_preparation *preparation)
{
    struct bl_config_options options = {
        .directory = preparation->directory,
        .variable = bl_variable,
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

static int open_recorder(struct run_means *means, struct bl_error *error)
{
    const struct bl_text *secrets;
    size_t count = bl_config_secrets(means->preparation->config, &secrets);

    if (means->options->record_path == NULL)
        return 0;
    return bl_cassette_record(means->options->record_path, secrets, count, &means->recorder, error);
}

static int open_remote(struct run_means *means, struct bl_scope *scope, struct bl_error *error)
{
    const struct run_preparation *preparation = means->preparation;
    const struct bl_config_found *found = &preparation->found;
    int code = 0;

    if (!found->replay)
        code = bl_config_key(preparation->config, found->provider, error);
    /* After the key, which is one of the secrets. */
    if (code == 0)
        code = open_recorder(means, error);
    if (code == 0 && means->options->budgeted)
        bl_ledger_init(&means->ledger, means->options->max_budget_usd, scope);
    return code;
}

int run_model_open(struct run_means *means, struct bl_scope *scope, struct bl_error *error)
{
    const struct run_preparation *preparation = means->preparation;
    int code = 0;

    if (preparation->found.provider != NULL)
        code = open_remote(means, scope, error);
    if (code != 0)
        return code;
    means->models = (struct bl_models){
        .config = preparation->config,
        .found = preparation->found,
        .script = preparation->script,
        .ledger = means->options->budgeted ? &means->ledger : NULL,
        .recorder = means->recorder,
        .replay = preparation->cassette,
    };
    code = bl_models_open(&means->models, error);
    if (code == 0)
        means->model = means->models.model;
    return code;
}

void run_model_pretend(struct run_work *work)
{
    struct run_means *means = &work->means;
    const struct bl_config_found *found =
        means->preparation != NULL ? &means->preparation->found : NULL;

    work->fallback = bl_script_builtin();
    work->player = bl_script_player_new(work->fallback, 1, &means->model);
    if (found == NULL || found->provider == NULL)
        return;
    means->model.provider = found->provider->name;
    means->model.name = found->profile->model;
}

void run_model_close(struct run_means *means)
{
    bl_models_close(&means->models);
    bl_cassette_close(means->recorder, &means->record_error);
    means->recorder = NULL;
}
