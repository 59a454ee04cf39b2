#include "config.h"

#include <unistd.h>

#include "model/model.h"

const char *model_login_path(struct bl_arena *arena, const char *provider, enum model_login where,
                             const char *(*variable)(const char *name))
{
    const char *folder = bl_user_folder(arena, BL_USER_CONFIG, variable);

    if (folder == NULL)
        return NULL;
    return bl_arena_printf(arena, "%s/keys/%s%s", folder, provider,
                           where == MODEL_LOGIN_KEYRING ? ".keyring" : "")
        .data;
}

const char *const *model_login_command(struct bl_arena *arena, const char *action,
                                       const char *provider)
{
    const char **words = bl_arena_zalloc(arena, 8 * sizeof *words);
    size_t count = 0;

    words[count++] = "secret-tool";
    words[count++] = action;
    if (strcmp(action, "store") == 0)
        words[count++] = bl_arena_printf(arena, "--label=belay: key of %s", provider).data;
    words[count++] = "service";
    words[count++] = "belay";
    words[count++] = "provider";
    words[count++] = bl_arena_text(arena, bl_text_from(provider)).data;
    return words;
}

const char *model_login_before(const struct bl_config *config, const char *provider)
{
    const struct config_provider *entry = config_provider_find(config, bl_text_from(provider));

    if (entry != NULL && entry->key_env != NULL && config->variable(entry->key_env) != NULL)
        return entry->key_env;
    if (entry != NULL && entry->token_env != NULL && config->variable(entry->token_env) != NULL)
        return entry->token_env;
    return NULL;
}

/* The configuration and the environment take precedence. */
void config_login_find(struct bl_config *config)
{
    const char *folder = bl_user_folder(&config->arena, BL_USER_CONFIG, config->variable);

    if (folder == NULL ||
        access(bl_arena_printf(&config->arena, "%s/keys", folder).data, F_OK) != 0)
        return;
    BL_LIST_EACH (link, &config->providers) {
        struct config_provider *entry = BL_CONTAINER(link, struct config_provider, link);
        const char *name = entry->provider.name;
        if (entry->key_file != NULL || entry->key_command != NULL || name[0] == '.' ||
            model_login_before(config, name) != NULL)
            continue;
        const char *file =
            model_login_path(&config->arena, name, MODEL_LOGIN_FILE, config->variable);
        const char *ring =
            model_login_path(&config->arena, name, MODEL_LOGIN_KEYRING, config->variable);
        if (access(file, F_OK) == 0)
            entry->key_file = file;
        else if (access(ring, F_OK) == 0)
            entry->key_command = model_login_command(&config->arena, "lookup", name);
    }
}

/* ---- Checking a key -------------------------------------------------------------------------- */

static int login_unknown(const struct bl_config *config, const char *provider,
                         struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "keep a key", provider,
                 "unknown provider '%.64s'", provider);
    bl_suggestion_init(&suggestion, provider);
    BL_LIST_EACH (link, &config->providers)
        bl_suggestion_offer(&suggestion,
                            BL_CONTAINER(link, struct config_provider, link)->provider.name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "define it under 'providers' in the configuration first");
    return BL_EINVAL;
}

/* Returns how the vendor's keys begin, if the provider is the vendor's own. */
static const char *login_beginning(const struct config_provider *entry)
{
    const struct bl_provider *provider = &entry->provider;

    if (provider->api == BL_API_OLLAMA ||
        strcmp(provider->base_url, bl_api_base_url(provider->api)) != 0)
        return "";
    return provider->api == BL_API_ANTHROPIC ? "sk-ant-" : "sk-";
}

int model_login_check(struct bl_config *config, const char *provider, struct bl_text text,
                      const char **ret_key, struct bl_error *error)
{
    struct config_provider *entry = config_provider_find(config, bl_text_from(provider));

    if (entry == NULL || provider[0] == '.')
        return login_unknown(config, provider, error);
    if (ret_key == NULL)
        return 0;
    int code = config_take_key(config, entry, text, "the input", error);
    if (code != 0)
        return code;
    const char *beginning = login_beginning(entry);
    if (strncmp(entry->provider.key, beginning, strlen(beginning)) != 0) {
        bl_error_set(error, BL_EACCES, BL_KIND_AUTH, "keep a key", provider,
                     "not a key of '%s': its keys begin with %s", provider, beginning);
        bl_error_hint(error,
                      "for another server of this kind, define a provider with its base_url");
        return BL_EACCES;
    }
    *ret_key = entry->provider.key;
    return 0;
}
