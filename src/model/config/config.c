#include "config.h"

#include <belay/proc.h>

#include <stdio.h>

/* Shorter strings are not secrets, and replacing them everywhere would garble a text. */
#define SECRET_SIZE_MIN 6u
#define OLLAMA_PORT     "11434"

/* ---- Providers and models -------------------------------------------------------------------- */

struct config_provider *config_provider_find(const struct bl_config *config, struct bl_text name)
{
    BL_LIST_EACH (link, &config->providers) {
        struct config_provider *entry = BL_CONTAINER(link, struct config_provider, link);
        if (bl_text_equal(bl_text_from(entry->provider.name), name))
            return entry;
    }
    return NULL;
}

struct config_model *config_model_find(const struct bl_config *config, struct bl_text alias)
{
    BL_LIST_EACH (link, &config->models) {
        struct config_model *model = BL_CONTAINER(link, struct config_model, link);
        if (bl_text_equal(bl_text_from(model->profile.alias), alias))
            return model;
    }
    return NULL;
}

struct config_provider *config_provider_add(struct bl_config *config, const char *name,
                                            enum bl_api api)
{
    struct config_provider *entry = bl_arena_zalloc(&config->arena, sizeof *entry);

    entry->provider.name = name;
    entry->provider.api = api;
    entry->provider.base_url = bl_api_base_url(api);
    bl_proxies_read(&entry->provider.client.proxies);
    bl_list_push_back(&config->providers, &entry->link);
    return entry;
}

static void add_built_in(struct bl_config *config)
{
    struct config_provider *entry = config_provider_add(config, "anthropic", BL_API_ANTHROPIC);

    entry->key_env = "ANTHROPIC_API_KEY";
    entry->token_env = "ANTHROPIC_AUTH_TOKEN";
    entry = config_provider_add(config, "openai", BL_API_OPENAI);
    entry->key_env = "OPENAI_API_KEY";
    entry = config_provider_add(config, "openai-responses", BL_API_OPENAI_RESPONSES);
    entry->key_env = "OPENAI_API_KEY";
    config_provider_add(config, "ollama", BL_API_OLLAMA);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

int config_address(struct bl_config *config, enum bl_api api, const char *text,
                   const char **ret_address, const char **ret_why)
{
    struct bl_text address = bl_text_trim(bl_text_from(text));
    struct bl_url url;

    /* Checked here, so that a password appears in no error. */
    if (memchr(address.data, '@', address.size) != NULL) {
        *ret_why = "it contains a user part; send a key in a header instead";
        return BL_EINVAL;
    }
    while (bl_text_ends_with(address, BL_TEXT("/")))
        address.size--;
    /* The format adds it. */
    if (api == BL_API_ANTHROPIC && bl_text_ends_with(address, BL_TEXT("/v1")))
        address.size -= 3;
    const char *copy = bl_arena_text(&config->arena, address).data;
    if (strchr(copy, '?') != NULL || strchr(copy, '#') != NULL) {
        *ret_why = "it contains a query or a fragment";
        return BL_EINVAL;
    }
    if (bl_url_parse(&config->arena, copy, &url, NULL) != 0) {
        *ret_why = "expected http://HOST or https://HOST, optionally with a port and a path";
        return BL_EINVAL;
    }
    *ret_address = copy;
    return 0;
}

/* Reads OLLAMA_HOST, which the server uses, too: scheme and port may be missing, and the address of
 * all interfaces means this machine. */
static const char *ollama_address(struct bl_arena *arena, const char *text)
{
    struct bl_text host = bl_text_trim(bl_text_from(text));
    ptrdiff_t scheme_end = bl_text_find(host, BL_TEXT("://"));
    struct bl_text scheme = BL_TEXT("http"), port = {0}, path = {0};

    if (scheme_end >= 0) {
        scheme = (struct bl_text){host.data, (size_t)scheme_end};
        host = (struct bl_text){host.data + scheme_end + 3, host.size - (size_t)scheme_end - 3};
    }
    const char *slash = memchr(host.data, '/', host.size);
    if (slash != NULL) {
        path = (struct bl_text){slash, host.size - (size_t)(slash - host.data)};
        host.size = (size_t)(slash - host.data);
    }
    const char *first = memchr(host.data, ':', host.size);
    const char *last = memrchr(host.data, ':', host.size);
    const char *bracket = memchr(host.data, ']', host.size);
    bool bare_ipv6 = first != NULL && first != last && bracket == NULL;
    if (last != NULL && !bare_ipv6 && (bracket == NULL || last > bracket)) {
        port = (struct bl_text){last, host.size - (size_t)(last - host.data)};
        host.size = (size_t)(last - host.data);
    }
    /* With a scheme, the default port is the scheme's own: the server itself reads it so. */
    if (port.size <= 1)
        port = scheme_end >= 0 ? (struct bl_text){"", 0} : BL_TEXT(":" OLLAMA_PORT);
    if (host.size == 0 || bl_text_equal(host, BL_TEXT("0.0.0.0")))
        host = BL_TEXT("127.0.0.1");
    else if (bl_text_equal(host, BL_TEXT("[::]")) || bl_text_equal(host, BL_TEXT("::")))
        host = BL_TEXT("[::1]");
    else if (bare_ipv6)
        host = bl_arena_printf(arena, "[" BL_TEXT_FORMAT "]", BL_TEXT_ARG(host));
    return bl_arena_printf(arena, BL_TEXT_FORMAT "://" BL_TEXT_FORMAT BL_TEXT_FORMAT BL_TEXT_FORMAT,
                           BL_TEXT_ARG(scheme), BL_TEXT_ARG(host), BL_TEXT_ARG(port),
                           BL_TEXT_ARG(path))
        .data;
}

/* ---- Environment ----------------------------------------------------------------------------- */

static int take_address(struct bl_config *config, const char *provider, const char *variable,
                        struct bl_error *error)
{
    struct config_provider *entry = config_provider_find(config, bl_text_from(provider));
    const char *text = config->variable(variable);
    const char *why = NULL;

    if (text == NULL)
        return 0;
    if (entry->provider.api == BL_API_OLLAMA)
        text = ollama_address(&config->arena, text);
    int code = config_address(config, entry->provider.api, text, &entry->provider.base_url, &why);
    if (code == 0)
        return 0;
    bl_error_set(error, code, BL_KIND_USAGE, CONFIG_OPERATION, variable,
                 "%s is not a valid address: %s", variable, why);
    bl_error_hint(error, "set it to something like %s, or unset it",
                  bl_api_base_url(entry->provider.api));
    return code;
}

static int read_environment(struct bl_config *config, struct bl_error *error)
{
    static const char *const addresses[][2] = {
        {"anthropic", "ANTHROPIC_BASE_URL"},
        {"openai", "OPENAI_BASE_URL"},
        {"openai-responses", "OPENAI_BASE_URL"},
        {"ollama", "OLLAMA_HOST"},
    };
    static const char *const organized[] = {"openai", "openai-responses"};
    const char *organization = config->variable("OPENAI_ORG_ID");
    int code = 0;

    config->said[CONFIG_ENVIRONMENT].provider = config->variable("BELAY_PROVIDER");
    config->said[CONFIG_ENVIRONMENT].model = config->variable("BELAY_MODEL");
    for (size_t i = 0; i < BL_COUNT(addresses) && code == 0; i++)
        code = take_address(config, addresses[i][0], addresses[i][1], error);
    for (size_t i = 0; i < BL_COUNT(organized) && organization != NULL; i++)
        config_provider_find(config, bl_text_from(organized[i]))->provider.organization =
            organization;
    return code;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Reads a whole file into the arena. BL_ENOENT without an error: it does not exist. */
static int config_read_file(struct bl_arena *arena, const char *path, struct bl_text *ret_text,
                            struct bl_error *error)
{
    struct bl_buffer source;
    const char *why;
    int code = bl_file_load(path, CONFIG_SIZE_MAX, &source, &why);

    if (code == 0)
        *ret_text = bl_arena_text(arena, bl_buffer_text(&source));
    else if (code != BL_ENOENT)
        bl_error_set(error, code, BL_KIND_FILESYSTEM, CONFIG_OPERATION, path, "cannot read %s: %s",
                     path, code == BL_ELIMIT ? "it is larger than 1 MiB" : why);
    bl_buffer_done(&source);
    return code;
}

static int read_users(struct bl_config *config, struct bl_error *error)
{
    struct bl_text source;
    int code;

    if (config->user_file == NULL)
        return 0;
    code = config_read_file(&config->arena, config->user_file, &source, error);
    if (code == 0)
        code = config_read_settings(config, config->user_file, false, source, error);
    if (code != 0 && code != BL_ENOENT)
        return code;
    code = config_read_file(&config->arena, config->prices_file, &source, error);
    if (code == 0)
        code = config_read_prices(config, config->prices_file, source, error);
    return code == BL_ENOENT ? 0 : code;
}

/* Reads the nearest file, from the directory up to the root of the repository. */
static int read_project(struct bl_config *config, const char *directory, struct bl_error *error)
{
    struct bl_text source;
    int code = BL_ENOENT;

    if (directory == NULL)
        return 0;
    size_t root = bl_repository_size(&config->arena, directory);
    for (size_t end = strlen(directory); code == BL_ENOENT && end >= root && end > 0; end--) {
        if (end != strlen(directory) && directory[end] != '/')
            continue;
        const char *path =
            bl_arena_printf(&config->arena, "%.*s/.belay/config.yaml", (int)end, directory).data;
        code = config_read_file(&config->arena, path, &source, error);
        if (code == 0)
            code = config_read_settings(config, path, true, source, error);
    }
    return code == BL_ENOENT ? 0 : code;
}

static void name_files(struct bl_config *config)
{
    const char *folder = bl_user_folder(&config->arena, BL_USER_CONFIG, config->variable);

    if (folder == NULL)
        return;
    config->user_file = bl_arena_printf(&config->arena, "%s/config.yaml", folder).data;
    config->prices_file = bl_arena_printf(&config->arena, "%s/prices.yaml", folder).data;
}

/* ---- Checks after reading -------------------------------------------------------------------- */

static int check_models(const struct bl_config *config, struct bl_error *error)
{
    BL_LIST_EACH (link, &config->models) {
        const struct config_model *model = BL_CONTAINER(link, struct config_model, link);
        struct bl_suggestion suggestion;
        if (strcmp(model->provider, "script") == 0 ||
            config_provider_find(config, bl_text_from(model->provider)) != NULL)
            continue;
        bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, CONFIG_OPERATION, model->provider_place.file,
                     "%s:%u:%u: the model '%.60s' has an unknown provider",
                     model->provider_place.file, model->provider_place.line,
                     model->provider_place.column, model->profile.alias);
        bl_suggestion_init(&suggestion, model->provider);
        BL_LIST_EACH (other, &config->providers)
            bl_suggestion_offer(&suggestion,
                                BL_CONTAINER(other, struct config_provider, link)->provider.name);
        if (suggestion.best != NULL)
            bl_error_hint(error, "did you mean '%s'?", suggestion.best);
        else
            bl_error_hint(error, "define it under 'providers'");
        return BL_EPARSE;
    }
    return 0;
}

void config_secret_add(struct bl_config *config, struct bl_text secret)
{
    if (secret.size < SECRET_SIZE_MIN)
        return;
    for (size_t i = 0; i < config->secret_count; i++)
        if (bl_text_equal(config->secrets[i], secret))
            return;
    if (config->secret_count == config->secret_capacity) {
        config->secret_capacity = config->secret_capacity * 2 + 8;
        config->secrets =
            bl_realloc(config->secrets, config->secret_capacity * sizeof *config->secrets);
    }
    config->secrets[config->secret_count++] = bl_arena_text(&config->arena, secret);
}

/* Adds a header's value, and the part after its first word: "Bearer …". */
static void add_header_secrets(struct bl_config *config, const struct bl_provider *provider)
{
    for (size_t i = 0; i < provider->header_count; i++) {
        struct bl_text value = provider->headers[i].value, first;
        config_secret_add(config, value);
        if (bl_text_split(&value, ' ', &first))
            config_secret_add(config, bl_text_trim(value));
    }
}

static void add_variable(struct bl_config *config, const char *name)
{
    const char *value;

    if (name == NULL)
        return;
    for (size_t i = 0; i < config->variable_count; i++)
        if (strcmp(config->variables[i], name) == 0)
            return;
    config->variables =
        bl_realloc(config->variables, (config->variable_count + 2) * sizeof *config->variables);
    config->variables[config->variable_count++] = name;
    config->variables[config->variable_count] = NULL;
    value = config->variable(name);
    if (value != NULL)
        config_secret_add(config, bl_text_trim(bl_text_from(value)));
}

static void config_finish(struct bl_config *config)
{
    config_login_find(config);
    /* Also those that the file has replaced by another source. */
    add_variable(config, "ANTHROPIC_API_KEY");
    add_variable(config, "ANTHROPIC_AUTH_TOKEN");
    add_variable(config, "OPENAI_API_KEY");
    BL_LIST_EACH (link, &config->providers) {
        struct config_provider *entry = BL_CONTAINER(link, struct config_provider, link);
        struct bl_url url;
        add_variable(config, entry->key_env);
        add_header_secrets(config, &entry->provider);
        if (entry->provider.api == BL_API_OPENAI && entry->max_tokens_field == NULL &&
            bl_url_parse(&config->arena, entry->provider.base_url, &url, NULL) == 0)
            entry->provider.compat.max_tokens_field =
                !bl_text_equal(url.host, BL_TEXT("api.openai.com"));
    }
}

/* ---- The configuration ----------------------------------------------------------------------- */

int bl_config_read(const struct bl_config_options *options, struct bl_config **ret_config,
                   struct bl_error *error)
{
    struct bl_config *config = bl_zalloc(sizeof *config);
    struct bl_error unused = {0};

    if (error == NULL)
        error = &unused;
    bl_arena_init(&config->arena);
    bl_list_init(&config->providers);
    bl_list_init(&config->models);
    bl_list_init(&config->prices);
    config->variable = options->variable;
    name_files(config);
    add_built_in(config);
    int code = read_users(config, error);
    /* After the user's file, whose base URLs it overrides. */
    if (code == 0)
        code = read_environment(config, error);
    if (code == 0)
        code = read_project(config, options->directory, error);
    if (code == 0)
        code = check_models(config, error);
    if (code != 0) {
        bl_config_free(config);
        return code;
    }
    config_finish(config);
    bl_environment_hide_named(config->variables);
    *ret_config = config;
    return 0;
}

void bl_config_free(struct bl_config *config)
{
    if (config == NULL)
        return;
    bl_free(config->secrets);
    bl_free(config->variables);
    bl_arena_done(&config->arena);
    bl_free(config);
}

size_t bl_config_secrets(const struct bl_config *config, const struct bl_text **ret_secrets)
{
    *ret_secrets = config->secrets;
    return config->secret_count;
}

const char *const *bl_config_key_variables(const struct bl_config *config)
{
    return config->variables;
}

const char *const *bl_config_aliases(const struct bl_config *config, struct bl_arena *arena)
{
    size_t count = 0;

    BL_LIST_EACH (link, &config->models)
        count++;
    const char **names = bl_arena_zalloc(arena, (count + 1) * sizeof *names);
    count = 0;
    BL_LIST_EACH (link, &config->models)
        names[count++] = BL_CONTAINER(link, struct config_model, link)->profile.alias;
    return names;
}
