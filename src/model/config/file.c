#include "config.h"

#include <strings.h>

#define COMMAND_MAX 64u

/* A file while it is read. */
struct file {
    struct bl_value_reader reader;
    struct bl_config *config;
    bool project;
};

static struct file *file_of(struct bl_value_reader *reader)
{
    return BL_CONTAINER(reader, struct file, reader);
}

static struct bl_config *config_of(struct bl_value_reader *reader)
{
    return file_of(reader)->config;
}

/* ---- Providers ------------------------------------------------------------------------------- */

/* A path: "~/" is the home, what is relative is below the file's own folder. */
static int read_path(struct bl_value_reader *reader, const struct bl_json *key,
                     const char **ret_path)
{
    struct bl_arena *arena = &config_of(reader)->arena;
    const char *home = config_of(reader)->variable("HOME");
    const char *path = NULL;
    int code = config_read_text(reader, key, &path);

    if (code != 0)
        return code;
    const char *slash = strrchr(reader->file, '/');
    if (path[0] == '/' || (path[0] == '~' && (path[1] != '/' || home == NULL)) || slash == NULL)
        *ret_path = path;
    else if (path[0] == '~')
        *ret_path = bl_arena_printf(arena, "%s%s", home, path + 1).data;
    else
        *ret_path =
            bl_arena_printf(arena, "%.*s/%s", (int)(slash - reader->file), reader->file, path).data;
    return 0;
}

static int read_base_url(struct bl_value_reader *reader, const struct bl_json *key,
                         struct config_provider *entry)
{
    const char *text = NULL, *why = NULL;
    int code = config_read_text(reader, key, &text);

    if (code != 0)
        return code;
    code = config_address(config_of(reader), entry->provider.api, text, &entry->provider.base_url,
                          &why);
    if (code == 0)
        return 0;
    code = bl_value_fail_at(reader, key + 1, "base_url is no address: %s", why);
    bl_error_hint(reader->error, "like https://host.example:8443/v1");
    return code;
}

/* One text for the shell, or a list of words. */
static int config_file_read_command(struct bl_value_reader *reader, const struct bl_json *key,
                                    struct config_provider *entry)
{
    const struct bl_json *value = key + 1;
    size_t count = bl_json_is(value, BL_JSON_ARRAY) ? bl_json_size(value) : 3;
    size_t used = 0;
    int code = 0;

    if (count == 0 || count > COMMAND_MAX)
        return bl_value_fail_at(reader, value, "key_command has from 1 to %u words", COMMAND_MAX);
    const char **words = bl_arena_zalloc(&config_of(reader)->arena, (count + 1) * sizeof *words);
    entry->key_command = words;
    if (!bl_json_is(value, BL_JSON_ARRAY)) {
        words[0] = "sh";
        words[1] = "-c";
        return config_read_text(reader, key, &words[2]);
    }
    BL_JSON_EACH (element, value) {
        code = bl_value_read_line(reader, element, "a word of key_command", &words[used++]);
        if (code != 0)
            return code;
    }
    return 0;
}

static bool config_file_is_token(struct bl_text text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        bool alphanumeric = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                            (byte >= 'A' && byte <= 'Z');
        if (!alphanumeric && (byte == '\0' || strchr(others, byte) == NULL))
            return false;
    }
    return text.size > 0;
}

/* Those that are the client's own business. */
static bool is_reserved_header(const char *name)
{
    static const char *const names[] = {"host",       "content-length", "transfer-encoding",
                                        "connection", "content-type",   "accept-encoding"};

    for (size_t i = 0; i < BL_COUNT(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static int config_file_read_headers(struct bl_value_reader *reader, const struct bl_json *value,
                                    struct config_provider *entry)
{
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, value, "headers must be a mapping, is %s",
                                bl_value_type(value));
    struct bl_http_header *headers =
        bl_arena_zalloc(&config_of(reader)->arena, bl_json_size(value) * sizeof *headers);
    size_t count = 0;
    BL_JSON_MEMBERS (key, value) {
        const char *text = NULL;
        if (!config_file_is_token(bl_json_text(key)))
            return bl_value_fail_at(reader, key, "that is no name of a header");
        if (is_reserved_header(key->string))
            return bl_value_fail_at(reader, key, "the header %s is not to be set", key->string);
        int code = config_read_text(reader, key, &text);
        if (code != 0)
            return code;
        headers[count++] = (struct bl_http_header){bl_json_text(key), bl_json_text(key + 1)};
    }
    entry->provider.headers = headers;
    entry->provider.header_count = count;
    return 0;
}

static int read_timer(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                      void *out)
{
    struct bl_provider *provider = out;
    uint64_t *const timers[] = {&provider->connect_ns, &provider->first_byte_ns,
                                &provider->stall_ns};

    return bl_value_read_duration(reader, key, 1, timers[which]);
}

/* Each key is a field of requests: false leaves it out. */
static int read_compat(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                       void *out)
{
    static const char *const words[] = {"max_completion_tokens", "max_tokens", "none", NULL};
    struct config_provider *entry = out;
    struct bl_compat *compat = &entry->provider.compat;
    bool *const left_out[] = {&compat->no_stream_options,   &compat->no_parallel_tool_calls,
                              &compat->no_reasoning_effort, &compat->no_response_format,
                              &compat->no_tool_choice,      &compat->no_prompt_cache_key,
                              &compat->no_include};
    bool sent = true;
    size_t index = 0;

    if (which == 0) {
        int code = bl_value_read_choice(reader, key, words, &index);
        entry->max_tokens_chosen = true;
        compat->max_tokens_field = index == 1;
        compat->no_max_tokens = index == 2;
        return code;
    }
    int code = bl_value_read_boolean(reader, key, &sent);
    *left_out[which - 1] = !sent;
    return code;
}

enum provider_key {
    PROVIDER_API,
    PROVIDER_BASE_URL,
    PROVIDER_KEY_ENV,
    PROVIDER_KEY_FILE,
    PROVIDER_KEY_COMMAND,
    PROVIDER_HEADERS,
    PROVIDER_TIMERS,
    PROVIDER_HTTP2,
    PROVIDER_RESOLVER,
    PROVIDER_CA_FILE,
    PROVIDER_COMPAT,
    PROVIDER_ORGANIZATION,
    PROVIDER_BETA,
};

static const char *const provider_keys[] = {
    [PROVIDER_API] = "api",
    [PROVIDER_BASE_URL] = "base_url",
    [PROVIDER_KEY_ENV] = "key_env",
    [PROVIDER_KEY_FILE] = "key_file",
    [PROVIDER_KEY_COMMAND] = "key_command",
    [PROVIDER_HEADERS] = "headers",
    [PROVIDER_TIMERS] = "timers",
    [PROVIDER_HTTP2] = "http2",
    [PROVIDER_RESOLVER] = "resolver",
    [PROVIDER_CA_FILE] = "ca_file",
    [PROVIDER_COMPAT] = "compat",
    [PROVIDER_ORGANIZATION] = "organization",
    [PROVIDER_BETA] = "beta",
    NULL,
};

static int read_provider_member(struct bl_value_reader *reader, size_t which,
                                const struct bl_json *key, void *out)
{
    static const char *const timers[] = {"connect", "first_byte", "stall", NULL};
    static const char *const compat[] = {
        "max_tokens_field", "stream_options",  "parallel_tool_calls",
        "reasoning_effort", "response_format", "tool_choice",
        "prompt_cache_key", "include",         NULL};
    static const char *const resolvers[] = {"own", "system", NULL};
    struct config_provider *entry = out;
    struct bl_provider *provider = &entry->provider;
    size_t index = 0;
    int code = 0;

    switch ((enum provider_key)which) {
    case PROVIDER_API: return 0; /* read before all others */
    case PROVIDER_BASE_URL: return read_base_url(reader, key, entry);
    case PROVIDER_KEY_ENV:
        entry->token_env = NULL;
        entry->key_env_chosen = true;
        return config_read_text(reader, key, &entry->key_env);
    case PROVIDER_KEY_FILE: return read_path(reader, key, &entry->key_file);
    case PROVIDER_KEY_COMMAND: return config_file_read_command(reader, key, entry);
    case PROVIDER_HEADERS: return config_file_read_headers(reader, key + 1, entry);
    case PROVIDER_TIMERS:
        return bl_value_read_members(reader, key + 1, "timers", timers, read_timer, provider);
    case PROVIDER_HTTP2: return bl_value_read_boolean(reader, key, &provider->client.http2);
    case PROVIDER_RESOLVER:
        code = bl_value_read_choice(reader, key, resolvers, &index);
        provider->client.system_resolver = index == 1;
        return code;
    case PROVIDER_CA_FILE: return read_path(reader, key, &provider->client.ca_file);
    case PROVIDER_COMPAT:
        return bl_value_read_members(reader, key + 1, "compat", compat, read_compat, entry);
    case PROVIDER_ORGANIZATION: return config_read_text(reader, key, &provider->organization);
    case PROVIDER_BETA: return config_read_text(reader, key, &provider->beta);
    }
    return 0;
}

/* The entry that is told of: one that is built in, or a new one, whose format must be said. */
static int open_provider(struct bl_value_reader *reader, const struct bl_json *key,
                         struct config_provider **ret_entry)
{
    static const char *const apis[] = {
#define API_TEXT(name, text) text,
        BL_API_TABLE(API_TEXT)
#undef API_TEXT
            NULL};
    const struct bl_json *member = bl_json_first(key + 1, BL_JSON_OBJECT);
    struct config_provider *entry = config_provider_find(config_of(reader), bl_json_text(key));
    size_t index = 0;

    while (member->type != BL_JSON_END && strcmp(member->string, "api") != 0)
        member = bl_json_next(member + 1);
    if (member->type != BL_JSON_END) {
        int code = bl_value_read_choice(reader, member, apis, &index);
        if (code != 0)
            return code;
        if (entry != NULL && entry->provider.api != (enum bl_api)index)
            return bl_value_fail_at(reader, member + 1,
                                    "the provider '%s' is built in, and its api "
                                    "is %s",
                                    key->string, bl_api_name(entry->provider.api));
    } else if (entry == NULL) {
        int code = bl_value_fail_at(reader, key, "a provider needs an api");
        bl_error_hint(reader->error, "what it may be: anthropic, openai, openai-responses, ollama");
        return code;
    }
    if (entry == NULL)
        entry = config_provider_add(config_of(reader), key->string, (enum bl_api)index);
    *ret_entry = entry;
    return 0;
}

static int read_provider(struct bl_value_reader *reader, const struct bl_json *key)
{
    struct config_provider *entry = NULL;
    char shown[BL_VALUE_SHOWN_SIZE];

    bl_value_show(bl_json_text(key), shown);
    if (key->size == 0 || strpbrk(key->string, "/:") != NULL)
        return bl_value_fail_at(reader, key,
                                "the name of a provider is not empty, and has no '/' "
                                "and no ':'");
    if (strcmp(key->string, "script") == 0 || strcmp(key->string, "replay") == 0)
        return bl_value_fail_at(reader, key, "'%s' is built in, and has nothing to configure",
                                shown);
    if (!bl_json_is(key + 1, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, key + 1, "a provider must be a mapping, is %s",
                                bl_value_type(key + 1));
    if (bl_json_get(key + 1, BL_TEXT("key")) != NULL ||
        bl_json_get(key + 1, BL_TEXT("api_key")) != NULL) {
        int code = bl_value_fail_at(reader, key, "a key does not stand in this file");
        bl_error_hint(reader->error, "key_env, key_file or key_command say where it comes from");
        return code;
    }
    int code = open_provider(reader, key, &entry);
    if (code != 0)
        return code;
    entry->place = config_place_of(reader, key);
    code = bl_value_read_members(reader, key + 1, "a provider", provider_keys, read_provider_member,
                                 entry);
    bool said = bl_json_get(key + 1, BL_TEXT("key_file")) != NULL ||
                bl_json_get(key + 1, BL_TEXT("key_command")) != NULL;
    /* The key comes from where the file says, and not from a variable that happens to be set. */
    if (said && bl_json_get(key + 1, BL_TEXT("key_env")) == NULL)
        entry->key_env = entry->token_env = NULL;
    if (code == 0 &&
        (entry->key_env != NULL) + (entry->key_file != NULL) + (entry->key_command != NULL) > 1) {
        code =
            bl_value_fail_at(reader, key, "the key of '%s' comes from more than one place", shown);
        bl_error_hint(reader->error, "keep one of key_env, key_file and key_command");
    }
    return code;
}

/* ---- Models ---------------------------------------------------------------------------------- */

static int read_thinking(struct bl_value_reader *reader, const struct bl_json *key,
                         struct bl_profile *profile)
{
    static const char *const words[] = {"none", "low", "medium", "high", "adaptive", NULL};
    static const enum bl_effort efforts[] = {BL_EFFORT_NONE, BL_EFFORT_LOW, BL_EFFORT_MEDIUM,
                                             BL_EFFORT_HIGH, BL_EFFORT_ADAPTIVE};
    size_t index = 0;

    if (bl_json_is(key + 1, BL_JSON_INTEGER)) {
        int code = config_read_tokens(reader, key, &profile->thinking_tokens);
        if (code == 0)
            profile->thinking = BL_EFFORT_MEDIUM;
        return code;
    }
    int code = bl_value_read_choice(reader, key, words, &index);
    if (code == 0)
        profile->thinking = efforts[index];
    return code;
}

static int config_file_read_price_member(struct bl_value_reader *reader, size_t which,
                                         const struct bl_json *key, void *out)
{
    struct config_rates *rates = out;
    double *const fields[] = {&rates->input, &rates->output, &rates->cache_read,
                              &rates->cache_write};

    return config_read_rate(reader, key, fields[which]);
}

enum model_key {
    MODEL_PROVIDER,
    MODEL_MODEL,
    MODEL_MAX_OUTPUT_TOKENS,
    MODEL_THINKING,
    MODEL_CONTEXT_WINDOW,
    MODEL_NUM_CTX,
    MODEL_KEEP_ALIVE,
    MODEL_FREE,
    MODEL_PRICE,
    MODEL_OVERHEAD_TOKENS,
    MODEL_IMAGES,
};

static const char *const model_keys[] = {
    [MODEL_PROVIDER] = "provider",
    [MODEL_MODEL] = "model",
    [MODEL_MAX_OUTPUT_TOKENS] = "max_output_tokens",
    [MODEL_THINKING] = "thinking",
    [MODEL_CONTEXT_WINDOW] = "context_window",
    [MODEL_NUM_CTX] = "num_ctx",
    [MODEL_KEEP_ALIVE] = "keep_alive",
    [MODEL_FREE] = "free",
    [MODEL_PRICE] = "price",
    [MODEL_OVERHEAD_TOKENS] = "overhead_tokens",
    [MODEL_IMAGES] = "images",
    NULL,
};

static int read_model_member(struct bl_value_reader *reader, size_t which,
                             const struct bl_json *key, void *out)
{
    static const char *const rates[] = {"input", "output", "cache_read", "cache_write", NULL};
    struct config_model *model = out;
    struct bl_profile *profile = &model->profile;

    switch ((enum model_key)which) {
    case MODEL_PROVIDER:
        model->provider_place = config_place_of(reader, key + 1);
        return config_read_text(reader, key, &model->provider);
    case MODEL_MODEL: return config_read_text(reader, key, &profile->model);
    case MODEL_MAX_OUTPUT_TOKENS:
        return config_read_tokens(reader, key, &profile->max_output_tokens);
    case MODEL_THINKING: return read_thinking(reader, key, profile);
    case MODEL_CONTEXT_WINDOW: return config_read_tokens(reader, key, &profile->context_window);
    case MODEL_NUM_CTX: return config_read_tokens(reader, key, &profile->num_ctx);
    case MODEL_KEEP_ALIVE: return config_read_text(reader, key, &profile->keep_alive);
    case MODEL_FREE: return bl_value_read_boolean(reader, key, &model->free);
    case MODEL_PRICE:
        return bl_value_read_members(reader, key + 1, "price", rates, config_file_read_price_member,
                                     &model->rates);
    case MODEL_OVERHEAD_TOKENS: return config_read_tokens(reader, key, &profile->overhead_tokens);
    case MODEL_IMAGES:
        profile->images_chosen = true;
        return bl_value_read_boolean(reader, key, &profile->images);
    }
    return 0;
}

static int read_model(struct bl_value_reader *reader, const struct bl_json *key)
{
    struct bl_config *config = config_of(reader);
    struct config_model *model = bl_arena_zalloc(&config->arena, sizeof *model);

    if (key->size == 0 || strchr(key->string, '/') != NULL)
        return bl_value_fail_at(reader, key, "the name of a model is not empty, and has no '/'");
    model->rates = CONFIG_RATES_UNKNOWN;
    model->profile.alias = key->string;
    model->place = config_place_of(reader, key);
    int code =
        bl_value_read_members(reader, key + 1, "a model", model_keys, read_model_member, model);
    if (code != 0)
        return code;
    if (model->provider == NULL || model->profile.model == NULL) {
        code = bl_value_fail_at(reader, key, "a model needs a provider and a model");
        bl_error_hint(reader->error, "like {provider: anthropic, model: …}, as its provider "
                                     "calls it");
        return code;
    }
    if (model->free && model->rates.input > 0)
        return bl_value_fail_at(reader, key, "a model is free, or has a price");
    bl_list_push_back(&config->models, &model->link);
    return 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

static int read_each(struct bl_value_reader *reader, const struct bl_json *key,
                     int (*read)(struct bl_value_reader *reader, const struct bl_json *key))
{
    if (!bl_json_is(key + 1, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, key + 1, "%s must be a mapping, is %s", key->string,
                                bl_value_type(key + 1));
    BL_JSON_MEMBERS (name, key + 1) {
        int code = read(reader, name);
        if (code != 0)
            return code;
        config_of(reader)->defined = true;
    }
    return 0;
}

static int refuse_project(struct bl_value_reader *reader, const struct bl_json *key,
                          const char *what_it_may)
{
    struct bl_document_place place = bl_document_place(&reader->document, key);

    bl_error_set(reader->error, BL_EACCES, BL_KIND_POLICY, CONFIG_OPERATION, reader->file,
                 "%s:%u:%u: a project's file does not define %s", reader->file, place.line,
                 place.column, key->string);
    bl_error_hint(reader->error, "%s: move '%s' to %s, if you trust it", what_it_may, key->string,
                  config_of(reader)->user_file != NULL ? config_of(reader)->user_file
                                                       : "the user's file");
    return BL_EACCES;
}

/* A repository that was cloned must not decide where a key goes. */
static int refuse_provider(struct bl_value_reader *reader, const struct bl_json *key)
{
    return refuse_project(reader, key, "it chooses among the user's own");
}

/* Nor must it open or run anything. */
static int check_project_section(struct bl_value_reader *reader, enum config_section which,
                                 const struct bl_json *key)
{
    static const char what_it_may[] = "of permissions it may only deny";

    if (which != CONFIG_PERMISSIONS)
        return refuse_project(reader, key, what_it_may);
    BL_JSON_MEMBERS (member, key + 1) {
        if (strcmp(member->string, "mode") == 0 || strcmp(member->string, "allow") == 0)
            return refuse_project(reader, member, what_it_may);
    }
    return 0;
}

static int keep_section(struct bl_value_reader *reader, enum config_section which,
                        const struct bl_json *key)
{
    bool project = file_of(reader)->project;

    config_of(reader)->kept[project].keys[which] = key;
    return project ? check_project_section(reader, which, key) : 0;
}

enum top_key {
    TOP_MODEL,
    TOP_PROVIDER,
    TOP_PROVIDERS,
    TOP_MODELS,
    TOP_PERMISSIONS,
    TOP_HOOKS,
    TOP_ENV_ALLOW,
};

static const char *const top_keys[] = {
    [TOP_MODEL] = "model",
    [TOP_PROVIDER] = "provider",
    [TOP_PROVIDERS] = "providers",
    [TOP_MODELS] = "models",
    [TOP_PERMISSIONS] = "permissions",
    [TOP_HOOKS] = "hooks",
    [TOP_ENV_ALLOW] = "env_allow",
    NULL,
};

static int config_file_read_top_member(struct bl_value_reader *reader, size_t which,
                                       const struct bl_json *key, void *out)
{
    struct config_said *said = out;

    switch ((enum top_key)which) {
    case TOP_MODEL:
        said->model_place = config_place_of(reader, key + 1);
        return config_read_text(reader, key, &said->model);
    case TOP_PROVIDER:
        said->provider_place = config_place_of(reader, key + 1);
        return config_read_text(reader, key, &said->provider);
    case TOP_PROVIDERS:
        return file_of(reader)->project ? refuse_provider(reader, key)
                                        : read_each(reader, key, read_provider);
    case TOP_MODELS:
        return file_of(reader)->project ? refuse_provider(reader, key)
                                        : read_each(reader, key, read_model);
    case TOP_PERMISSIONS: return keep_section(reader, CONFIG_PERMISSIONS, key);
    case TOP_HOOKS: return keep_section(reader, CONFIG_HOOKS, key);
    case TOP_ENV_ALLOW: return keep_section(reader, CONFIG_ENV_ALLOW, key);
    }
    return 0;
}

/* Keys that say where a provider is, at the wrong level of a project's file, are refused as what
 * they are, and not as unknown ones. */
static int check_project(struct bl_value_reader *reader)
{
    if (!file_of(reader)->project)
        return 0;
    BL_JSON_MEMBERS (key, reader->document.root) {
        for (size_t i = 0; provider_keys[i] != NULL; i++)
            if (strcmp(key->string, provider_keys[i]) == 0)
                return refuse_provider(reader, key);
        if (strcmp(key->string, "price") == 0 || strcmp(key->string, "prices") == 0)
            return refuse_provider(reader, key);
    }
    return 0;
}

int config_read_settings(struct bl_config *config, const char *file, bool project,
                         struct bl_text source, struct bl_error *error)
{
    struct file in = {.config = config, .project = project};
    struct config_said *said = &config->said[project ? CONFIG_PROJECT : CONFIG_USER];
    int code = config_open(config, file, source, &in.reader, error);

    if (code != 0 || bl_json_is(in.reader.document.root, BL_JSON_NULL))
        return code;
    code = check_project(&in.reader);
    if (code != 0)
        return code;
    code = bl_value_read_members(&in.reader, in.reader.document.root, "the configuration", top_keys,
                                 config_file_read_top_member, said);
    config->kept[project].reader = in.reader;
    config->kept[project].reader.error = NULL;
    return code;
}

bool bl_config_section(const struct bl_config *config, const char *name, bool project,
                       struct bl_value_reader *ret_reader, const struct bl_json **ret_key)
{
    const struct config_kept *kept = &config->kept[project];

    for (size_t i = 0; i < CONFIG_SECTIONS; i++) {
        if (kept->keys[i] == NULL || strcmp(kept->keys[i]->string, name) != 0)
            continue;
        *ret_reader = kept->reader;
        *ret_key = kept->keys[i];
        return true;
    }
    return false;
}
