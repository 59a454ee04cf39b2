/* Design notes.
 *
 * Flag, environment, project, user: each source may set a provider, a model, or both. The first
 * source with a provider decides the provider, and the first source with a model decides the model.
 * But a model of a lower source belongs to the provider that is set with it, and is skipped if a
 * higher source chose another provider. An alias and "provider/model" imply their provider, unless
 * one is set next to them: then the name is taken as it is, so that names with a '/' are possible.
 *
 *   --provider  --model        provider   model
 *   -           sonnet         the alias's, and its model
 *   -           a/b            a          b         if there is a provider a
 *   -           a/b            as below   a/b       if there is none, and a lower source sets one
 *   -           a/b            an error             if there is none
 *   r           a/b            r          a/b */
#include <stdio.h>

#include "config.h"
#include "model/script/cassette.h"

#define FIND "find the provider"

struct search {
    struct bl_config *config;
    struct config_said said[CONFIG_SOURCES];
    struct bl_text provider; /* empty: not known yet */
    struct bl_text script;   /* of script:FILE */
    enum config_source provider_source;
    const char *model; /* the provider's name for it; NULL: not known yet */
    const struct config_model *alias;
    enum config_source model_source;
    bool replay;
    struct bl_error *error;
};

/* ---- Errors ---------------------------------------------------------------------------------- */

static int config_find_refuse(struct search *search, enum bl_error_kind kind,
                              const struct config_place *place, const char *target,
                              const char *format, ...) BL_PRINTF(5, 6);

/* Prefixes the error with the position, if the value is from a file. */
static int config_find_refuse(struct search *search, enum bl_error_kind kind,
                              const struct config_place *place, const char *target,
                              const char *format, ...)
{
    BL_AUTO_BUFFER(text, 2048);
    va_list arguments;

    if (place != NULL && place->file != NULL)
        bl_buffer_printf(&text, "%s:%u:%u: ", place->file, place->line, place->column);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    int code = kind == BL_KIND_POLICY ? BL_EACCES : BL_EINVAL;
    bl_error_set(search->error, code, kind, FIND, target, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(bl_buffer_text(&text)));
    return code;
}

/* `more` is appended; may be empty. */
static void hint_providers(struct search *search, const char *word, const char *more)
{
    struct bl_suggestion suggestion;
    BL_AUTO_BUFFER(all, 1024);

    bl_suggestion_init(&suggestion, word);
    BL_LIST_EACH (link, &search->config->providers) {
        const char *name = BL_CONTAINER(link, struct config_provider, link)->provider.name;
        bl_suggestion_offer(&suggestion, name);
        bl_buffer_printf(&all, "%s, ", name);
    }
    bl_suggestion_offer(&suggestion, "script");
    bl_suggestion_offer(&suggestion, "replay");
    if (suggestion.best != NULL)
        bl_error_hint(search->error, "did you mean '%s'?%s", suggestion.best, more);
    else
        bl_error_hint(search->error, "available: " BL_TEXT_FORMAT "script:FILE and replay%s",
                      BL_TEXT_ARG(bl_buffer_text(&all)), more);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_provider(const struct bl_config *config, struct bl_text name)
{
    return bl_text_equal(name, BL_TEXT("script")) || config_provider_find(config, name) != NULL;
}

/* Returns the provider that a model name implies: that of its alias, or the part before the first
 * '/'. Empty if none; otherwise `*ret_model` is the provider's name for the model. */
static struct bl_text implied_provider(const struct bl_config *config, const char *model,
                                       const struct config_model **ret_alias,
                                       const char **ret_model)
{
    const char *slash = strchr(model, '/');

    *ret_alias = config_model_find(config, bl_text_from(model));
    *ret_model = model;
    if (*ret_alias != NULL) {
        *ret_model = (*ret_alias)->profile.model;
        return bl_text_from((*ret_alias)->provider);
    }
    if (slash == NULL || slash[1] == '\0')
        return (struct bl_text){0};
    struct bl_text prefix = {model, (size_t)(slash - model)};
    if (!is_provider(config, prefix))
        return (struct bl_text){0};
    *ret_model = slash + 1;
    return prefix;
}

/* ---- The provider ---------------------------------------------------------------------------- */

static int take_provider(struct search *search, enum config_source source)
{
    const struct config_said *said = &search->said[source];
    struct bl_text name = bl_text_from(said->provider);

    if (bl_text_starts_with(name, BL_TEXT("script:"))) {
        search->script = (struct bl_text){name.data + 7, name.size - 7};
        name.size = 6;
        if (search->script.size == 0) {
            int code = config_find_refuse(search, BL_KIND_USAGE, &said->provider_place,
                                          said->provider, "'script:' names no file");
            bl_error_hint(search->error, "use script:FILE");
            return code;
        }
    }
    if (!is_provider(search->config, name)) {
        int code = config_find_refuse(search, BL_KIND_USAGE, &said->provider_place, said->provider,
                                      "unknown provider '%.100s'", said->provider);
        hint_providers(search, said->provider, "");
        return code;
    }
    /* A script calls tools like a model, and a project must not choose the calls. */
    if (source == CONFIG_PROJECT && config_provider_find(search->config, name) == NULL) {
        int code = config_find_refuse(search, BL_KIND_POLICY, &said->provider_place,
                                      said->provider_place.file,
                                      "a project's file must not choose a script");
        bl_error_hint(search->error, "use --provider script:FILE if you trust it");
        return code;
    }
    search->provider = name;
    search->provider_source = source;
    return 0;
}

/* Takes the first provider that is set. For `replay`, the next one is the provider to imitate. */
static int choose_provider(struct search *search)
{
    for (enum config_source source = CONFIG_FLAG; source < CONFIG_SOURCES; source++) {
        struct config_said *said = &search->said[source];
        if (said->provider == NULL)
            continue;
        if (strcmp(said->provider, "replay") != 0)
            return take_provider(search, source);
        if (source == CONFIG_PROJECT)
            return config_find_refuse(search, BL_KIND_POLICY, &said->provider_place,
                                      said->provider_place.file,
                                      "a project's file must not choose a cassette");
        search->replay = true;
        said->provider = NULL;
    }
    return 0;
}

/* ---- The model ------------------------------------------------------------------------------- */

static int take_model(struct search *search, enum config_source source, const char *model,
                      const struct config_model *alias)
{
    const struct config_said *said = &search->said[source];

    if (source == CONFIG_PROJECT && alias == NULL) {
        int code =
            config_find_refuse(search, BL_KIND_POLICY, &said->model_place, said->model_place.file,
                               "the project's model is not defined by the user");
        bl_error_hint(search->error, "define it under 'models' in %s, or use --model",
                      search->config->user_file != NULL ? search->config->user_file
                                                        : "the user's file");
        return code;
    }
    search->model = model;
    search->alias = alias;
    search->model_source = source;
    return 0;
}

/* Takes a model that is set with the provider, or above it. */
static int take_own_model(struct search *search, enum config_source source)
{
    const struct config_said *said = &search->said[source];
    const struct config_model *alias;
    const char *model;
    struct bl_text implied = implied_provider(search->config, said->model, &alias, &model);
    bool together = search->provider.size > 0 && search->provider_source == source;

    if (!together) {
        if (implied.size > 0) {
            search->provider = implied;
            search->provider_source = source;
            search->script = (struct bl_text){0};
        }
        return take_model(search, source, model, alias);
    }
    if (alias != NULL && !bl_text_equal(implied, search->provider)) {
        int code = config_find_refuse(
            search, BL_KIND_USAGE, &said->model_place, said->model,
            "'%.100s' is a model of the provider '%s', not of '" BL_TEXT_FORMAT "'", said->model,
            alias->provider, BL_TEXT_ARG(search->provider));
        bl_error_hint(search->error, "use the provider's name of the model, or omit the "
                                     "provider");
        return code;
    }
    return take_model(search, source, alias != NULL ? model : said->model, alias);
}

/* Takes a model of a lower source; `*ret_taken` is false if it belongs to another provider. */
static int take_lower_model(struct search *search, enum config_source source, bool *ret_taken)
{
    const struct config_said *said = &search->said[source];
    const struct config_model *alias;
    const char *model;
    struct bl_text owner = implied_provider(search->config, said->model, &alias, &model);

    if (said->provider != NULL && alias == NULL) {
        owner = bl_text_from(said->provider);
        model = said->model;
    }
    *ret_taken = owner.size == 0 || bl_text_equal(owner, search->provider);
    return *ret_taken ? take_model(search, source, model, alias) : 0;
}

static int config_find_choose_model(struct search *search)
{
    bool taken = false;
    int code = 0;

    for (enum config_source source = CONFIG_FLAG; source < CONFIG_SOURCES && code == 0; source++) {
        if (search->said[source].model == NULL)
            continue;
        if (search->provider.size == 0 || search->provider_source >= source)
            return take_own_model(search, source);
        code = take_lower_model(search, source, &taken);
        if (taken)
            return code;
    }
    return code;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static bool config_find_has_key(const struct search *search, const char *name)
{
    const struct config_provider *entry = config_provider_find(search->config, bl_text_from(name));
    const char *(*variable)(const char *) = search->config->variable;

    return entry->key_file != NULL || entry->key_command != NULL ||
           (entry->key_env != NULL && variable(entry->key_env) != NULL) ||
           (entry->token_env != NULL && variable(entry->token_env) != NULL);
}

/* PROVIDER/MODEL with an unknown provider is most likely a typo; a key that happens to be set does
 * not make it valid. */
static int refuse_unknown_prefix(struct search *search, const char *slash)
{
    char prefix[101];

    snprintf(prefix, sizeof prefix, "%.*s", (int)(slash - search->model), search->model);
    int code =
        config_find_refuse(search, BL_KIND_USAGE, &search->said[search->model_source].model_place,
                           prefix, "unknown provider '%s'", prefix);
    hint_providers(search, prefix, " (if '/' is part of the model's name, also use --provider)");
    return code;
}

/* Without a provider, chooses the one that has a key, if there is exactly one. */
static int guess_provider(struct search *search)
{
    const char *slash = search->model != NULL ? strchr(search->model, '/') : NULL;
    bool anthropic = config_find_has_key(search, "anthropic"),
         openai = config_find_has_key(search, "openai");
    int code;

    if (slash != NULL && slash > search->model && slash[1] != '\0')
        return refuse_unknown_prefix(search, slash);
    if (anthropic && openai && search->model == NULL)
        openai = search->config->variable("ANTHROPIC_MODEL") == NULL;
    if (anthropic != openai) {
        search->provider = anthropic ? BL_TEXT("anthropic") : BL_TEXT("openai");
        return 0;
    }
    if (search->model != NULL)
        code = config_find_refuse(search, BL_KIND_USAGE,
                                  &search->said[search->model_source].model_place, search->model,
                                  "no provider is chosen for the model '%.100s'", search->model);
    else if (anthropic)
        code = config_find_refuse(search, BL_KIND_USAGE, NULL, NULL,
                                  "both anthropic and openai have keys, but no provider is chosen");
    else
        code = config_find_refuse(search, BL_KIND_USAGE, NULL, NULL, "no model is chosen");
    bl_error_hint(search->error, "give --model PROVIDER/MODEL, or --provider and --model, or set "
                                 "BELAY_PROVIDER and BELAY_MODEL");
    return code;
}

static int refuse_without_model(struct search *search)
{
    bool anthropic = bl_text_equal(search->provider, BL_TEXT("anthropic"));
    int code = config_find_refuse(search, BL_KIND_USAGE, NULL, "--model",
                                  "no model is chosen for the provider '" BL_TEXT_FORMAT "'",
                                  BL_TEXT_ARG(search->provider));

    bl_error_hint(search->error, "use --model, or set BELAY_MODEL%s, or 'model' in %s",
                  anthropic ? " or ANTHROPIC_MODEL" : "",
                  search->config->user_file != NULL ? search->config->user_file
                                                    : "the user's file");
    return code;
}

static bool nothing_is_set(const struct search *search)
{
    return search->provider.size == 0 && search->model == NULL && !search->replay &&
           !search->config->defined && !config_find_has_key(search, "anthropic") &&
           !config_find_has_key(search, "openai");
}

/* ---- The answer ------------------------------------------------------------------------------ */

static int fill_script(struct search *search, struct bl_config_found *found)
{
    found->chosen = true;
    if (search->replay) {
        int code = config_find_refuse(search, BL_KIND_USAGE, NULL, "replay",
                                      "a script cannot be replayed");
        bl_error_hint(search->error, "name the model that the cassette was recorded with: "
                                     "--model PROVIDER/MODEL");
        return code;
    }
    found->script = search->script.size > 0 ? search->script.data : search->model;
    return 0;
}

static int fill_remote(struct search *search, struct bl_config_found *found)
{
    struct bl_config *config = search->config;
    struct config_provider *entry = config_provider_find(config, search->provider);
    const char *users_own = config->variable("ANTHROPIC_MODEL");

    /* Part of the environment, and so before the files. */
    if (bl_text_equal(search->provider, BL_TEXT("anthropic")) && users_own != NULL &&
        (search->model == NULL || search->model_source > CONFIG_ENVIRONMENT)) {
        search->model = users_own;
        search->alias = NULL;
    }
    if (search->model == NULL)
        return refuse_without_model(search);
    struct bl_profile *profile = bl_arena_zalloc(&config->arena, sizeof *profile);
    if (search->alias != NULL)
        *profile = search->alias->profile;
    else
        profile->model = bl_arena_text(&config->arena, bl_text_from(search->model)).data;
    config_price_fill(config, entry, search->alias, profile);
    config_key_look(config, entry);
    *found = (struct bl_config_found){
        .provider = &entry->provider,
        .profile = profile,
        .chosen = true,
        .replay = search->replay,
    };
    return 0;
}

int bl_config_find(struct bl_config *config, const struct bl_config_choice *choice,
                   struct bl_config_found *ret_found, struct bl_error *error)
{
    struct bl_error unused = {0};
    struct search search = {.config = config, .error = error != NULL ? error : &unused};
    struct bl_config_found found = {0};

    memcpy(search.said, config->said, sizeof search.said);
    search.said[CONFIG_FLAG] =
        (struct config_said){.provider = choice->provider, .model = choice->model};
    int code = choose_provider(&search);
    if (code == 0 && search.script.size == 0)
        code = config_find_choose_model(&search);
    if (code != 0)
        return code;
    if (nothing_is_set(&search)) {
        *ret_found = found;
        return 0;
    }
    if (search.provider.size == 0)
        code = guess_provider(&search);
    if (code == 0)
        code = bl_text_equal(search.provider, BL_TEXT("script")) ? fill_script(&search, &found)
                                                                 : fill_remote(&search, &found);
    if (code == 0)
        *ret_found = found;
    return code;
}

/* ---- What a cassette was recorded with ------------------------------------------------------- */

/* Finds the format whose path the exchange's path ends with; `*ret_before` is the part before
 * it. */
static bool recorded_api(struct bl_text path, enum bl_api *ret_api, struct bl_text *ret_before)
{
    static const enum bl_api apis[] = {
#define API_NAME(name, text) name,
        BL_API_TABLE(API_NAME)
#undef API_NAME
    };

    for (size_t i = 0; i < BL_COUNT(apis); i++) {
        struct bl_text own = bl_text_from(model_api_find(apis[i])->path);
        if (!bl_text_ends_with(path, own))
            continue;
        *ret_api = apis[i];
        *ret_before = (struct bl_text){path.data, path.size - own.size};
        return true;
    }
    return false;
}

/* Returns the output limit in a body; 0 if none. */
static uint64_t recorded_limit(const struct bl_json *body)
{
    static const char *const places[] = {"/max_tokens", "/max_completion_tokens",
                                         "/max_output_tokens", "/options/num_predict"};
    int64_t tokens;

    for (size_t i = 0; i < BL_COUNT(places); i++)
        if (bl_json_int64(bl_json_pointer(body, bl_text_from(places[i])), &tokens) && tokens > 0)
            return (uint64_t)tokens;
    return 0;
}

/* Finds the configuration of that model, if there is one. */
static bool find_configured(struct bl_config *config, enum bl_api api, struct bl_text model,
                            struct bl_config_found *found)
{
    struct bl_config_choice choice = {.provider = "replay"};
    bool fits = bl_config_find(config, &choice, found, NULL) == 0 && found->provider != NULL &&
                found->provider->api == api &&
                bl_text_equal(bl_text_from(found->profile->model), model);

    BL_LIST_EACH (link, &config->models) {
        const struct config_model *alias = BL_CONTAINER(link, struct config_model, link);
        if (fits)
            break;
        choice.model = alias->profile.alias;
        fits = bl_text_equal(bl_text_from(alias->profile.model), model) &&
               bl_config_find(config, &choice, found, NULL) == 0 && found->provider != NULL &&
               found->provider->api == api;
    }
    return fits;
}

int bl_config_imitate(struct bl_config *config, const struct bl_cassette *cassette,
                      struct bl_config_found *ret_found, struct bl_error *error)
{
    struct bl_arena *arena = &config->arena;
    struct bl_config_found found;
    struct bl_text before = {0};
    enum bl_api api = BL_API_OPENAI;

    for (size_t i = 0; i < cassette->exchange_count; i++) {
        const struct cassette_exchange *exchange = &cassette->exchanges[i];
        struct bl_text model = bl_json_text(bl_json_get(exchange->body, BL_TEXT("model")));
        if (model.size == 0 || !recorded_api(exchange->path, &api, &before))
            continue;
        if (find_configured(config, api, model, &found)) {
            *ret_found = found;
            return 0;
        }
        struct config_provider *entry = bl_arena_zalloc(arena, sizeof *entry);
        struct bl_profile *profile = bl_arena_zalloc(arena, sizeof *profile);
        /* Nothing is sent there: only the path matters. */
        entry->provider.base_url =
            bl_arena_printf(arena, "http://127.0.0.1" BL_TEXT_FORMAT, BL_TEXT_ARG(before)).data;
        entry->provider.name = bl_api_name(api);
        entry->provider.api = api;
        entry->provider.compat.max_tokens_field =
            bl_json_get(exchange->body, BL_TEXT("max_tokens")) != NULL;
        profile->model = bl_arena_text(arena, model).data;
        profile->max_output_tokens = recorded_limit(exchange->body);
        *ret_found = (struct bl_config_found){
            .provider = &entry->provider, .profile = profile, .chosen = true, .replay = true};
        return 0;
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, FIND, cassette->path,
                 "the cassette %s contains no request to a model", cassette->path);
    bl_error_hint(error, "name the model that it was recorded with: --model PROVIDER/MODEL");
    return BL_ENOENT;
}
