#include "parts.h"

static int choice_refuse(const char *target, const char *message, const char *hint,
                         struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose the model", target, "%s", message);
    bl_error_hint(error, "%s", hint);
    return BL_EINVAL;
}

/* Checks the requirements of the options: a cost limit needs a price, a replay a cassette. */
static int choice_check(const struct runtime_choice *choice, struct bl_error *error)
{
    const struct bl_config_found *found = &choice->found;

    if (found->replay && choice->cassette_path == NULL)
        return choice_refuse("--cassette", "--provider replay needs a cassette",
                             "add --cassette FILE with a file that --record has written", error);
    if (!found->replay && choice->cassette_path != NULL)
        return choice_refuse("--cassette", "--cassette works only with --provider replay",
                             "add --provider replay", error);
    if (choice->recorded && found->provider == NULL)
        return choice_refuse("--record", "the script model sends no requests to record",
                             "omit --record, or choose another --provider", error);
    if (choice->recorded && found->replay)
        return choice_refuse("--record", "a replayed run is already recorded", "omit --record",
                             error);
    if (!choice->budgeted || found->profile == NULL || found->profile->price.known)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose the model", "--max-budget-usd",
                 "a limit in USD needs a price, but the price of '%.200s' is unknown",
                 found->profile->model);
    bl_error_hint(error,
                  "add it to prices.yaml (input, output; for anthropic also cache_write), or "
                  "'free: true' to the model, or omit --max-budget-usd");
    return BL_EINVAL;
}

/* Checked first: a cassette contains what it was recorded with. */
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
