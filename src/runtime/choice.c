#include "parts.h"

static int choice_refuse(const char *target, const char *message, const char *hint,
                         struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose the model", target, "%s", message);
    bl_error_hint(error, "%s", hint);
    return BL_EINVAL;
}

/* What was asked for must be there: a limit of cost a price, a cassette a replay. */
static int choice_check(const struct runtime_choice *choice, struct bl_error *error)
{
    const struct bl_config_found *found = &choice->found;

    if (found->replay && choice->cassette_path == NULL)
        return choice_refuse("--cassette", "to replay, a cassette is needed",
                             "add --cassette FILE, one that --record has written", error);
    if (!found->replay && choice->cassette_path != NULL)
        return choice_refuse("--cassette", "a cassette is answered from by replay alone",
                             "add --provider replay", error);
    if (choice->recorded && found->provider == NULL)
        return choice_refuse("--record", "the script model sends nothing that could be recorded",
                             "leave --record out, or choose another --provider", error);
    if (choice->recorded && found->replay)
        return choice_refuse("--record", "what is replayed is on record already",
                             "leave --record out", error);
    if (!choice->budgeted || found->profile == NULL || found->profile->price.known)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose the model", "--max-budget-usd",
                 "a limit in USD needs a price, and that of '%.200s' is not known",
                 found->profile->model);
    bl_error_hint(error,
                  "add it to prices.yaml (input, output; for anthropic cache_write, too), or "
                  "'free: true' to the model, or leave --max-budget-usd out");
    return BL_EINVAL;
}

/* Before anything else is asked: a cassette says itself what it was recorded with. */
static bool choice_is_replay(const struct runtime_choice *choice)
{
    const char *provider = choice->provider;

    if (provider == NULL)
        provider = bl_variable("BELAY_PROVIDER");
    return choice->cassette_path != NULL && provider != NULL && strcmp(provider, "replay") == 0;
}

static int choice_find(struct runtime_choice *choice, struct bl_error *error)
{
    struct bl_config_choice asked = {.provider = choice->provider, .model = choice->model};
    int code = 0;

    if (choice_is_replay(choice))
        code = bl_cassette_load(choice->cassette_path, &choice->cassette, error);
    if (code != 0)
        return code;
    if (choice->cassette != NULL && asked.model == NULL)
        return bl_config_imitate(choice->config, choice->cassette, &choice->found, error);
    return bl_config_find(choice->config, &asked, &choice->found, error);
}

int runtime_choice_load(struct runtime_choice *choice, struct bl_error *error)
{
    const struct bl_config_found *found = &choice->found;

    if (found->replay && choice->cassette == NULL)
        return bl_cassette_load(choice->cassette_path, &choice->cassette, error);
    if (found->provider != NULL)
        return 0;
    if (found->script != NULL)
        return bl_script_load(found->script, &choice->script, error);
    choice->script = bl_script_builtin();
    return 0;
}

int runtime_choice_make(struct runtime_choice *choice, struct bl_error *error)
{
    int code = choice_find(choice, error);

    if (code == 0)
        code = choice_check(choice, error);
    return code == 0 ? runtime_choice_load(choice, error) : code;
}

void runtime_choice_done(struct runtime_choice *choice)
{
    bl_script_free(choice->script);
    bl_cassette_close(choice->cassette, NULL);
}
