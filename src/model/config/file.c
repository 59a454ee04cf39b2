#include "config.h"

#include <strings.h>

#define COMMAND_MAX 64u

/* A file being read. */
struct file {
    struct bl_source source;
    struct bl_config *config;
};

static int config_file_read(struct file *file, const struct bl_record *record,
                            const struct bl_json *value, void *into)
{
    return bl_source_read(&file->source, &file->config->arena, record, value, into);
}

static const struct bl_json *config_file_get(const struct bl_json *mapping, const char *name)
{
    return bl_json_get(mapping, bl_text_from(name));
}

/* ---- Providers ------------------------------------------------------------------------------- */

static const char *const resolver_words[] = {"own", "system"};
static const struct bl_names resolvers = BL_NAMES(resolver_words);
static const char *const max_tokens_words[] = {"max_completion_tokens", "max_tokens", "none"};
static const struct bl_names max_tokens_fields = BL_NAMES(max_tokens_words);
static const struct bl_member key_word = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &bl_form_line};

#define BL_RECORD_STRUCT struct config_provider
static const struct bl_member timers_members[] = {
    BL_MEMBER_DURATION("connect", provider.connect_ns, .optional = true, .least = 1),
    BL_MEMBER_DURATION("first_byte", provider.first_byte_ns, .optional = true, .least = 1),
    BL_MEMBER_DURATION("stall", provider.stall_ns, .optional = true, .least = 1),
    BL_MEMBER_END,
};
static const struct bl_record timers_record =
    BL_RECORD_GROUP("timers", timers_members, .closed = true);

/* Each is a field of requests; false leaves it out. */
#define COMPAT(key, field)                                                                         \
    BL_MEMBER_BOOLEAN(key, provider.compat.field, .optional = true, .inverted = true)
static const struct bl_member compat_members[] = {
    BL_MEMBER_STRING("max_tokens_field", max_tokens_field, .optional = true,
                     .names = &max_tokens_fields),
    COMPAT("stream_options", no_stream_options),
    COMPAT("parallel_tool_calls", no_parallel_tool_calls),
    COMPAT("reasoning_effort", no_reasoning_effort),
    COMPAT("response_format", no_response_format),
    COMPAT("tool_choice", no_tool_choice),
    COMPAT("prompt_cache_key", no_prompt_cache_key),
    COMPAT("include", no_include),
    BL_MEMBER_END,
};
static const struct bl_record compat_record =
    BL_RECORD_GROUP("compat", compat_members, .closed = true);

static const struct bl_member provider_members[] = {
    BL_MEMBER_ENUM("api", provider.api, &bl_api_names, .optional = true),
    CONFIG_LINE("base_url", provider.base_url, .optional = true),
    CONFIG_LINE("key_env", key_env, .optional = true, BL_KNOWN(key_env_chosen)),
    CONFIG_LINE("key_file", key_file, .optional = true),
    BL_MEMBER_STRINGS("key_command", key_command, .optional = true, .element = &key_word,
                      .or_string = true, .least = 1, .most = COMMAND_MAX),
    BL_MEMBER_JSON("headers", headers_said, .optional = true, .object = true),
    BL_MEMBER_GROUP("timers", &timers_record, .optional = true),
    BL_MEMBER_BOOLEAN("http2", provider.client.http2, .optional = true),
    BL_MEMBER_ENUM("resolver", provider.client.system_resolver, &resolvers, .optional = true),
    CONFIG_LINE("ca_file", provider.client.ca_file, .optional = true),
    BL_MEMBER_GROUP("compat", &compat_record, .optional = true),
    CONFIG_LINE("organization", provider.organization, .optional = true),
    CONFIG_LINE("beta", provider.beta, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record provider_record =
    BL_RECORD("a provider", struct config_provider, provider_members, .closed = true);

/* Resolves a path: "~/" is the home directory, a relative path starts at the file's folder. */
static const char *resolve_path(const struct file *file, const char *path)
{
    struct bl_arena *arena = &file->config->arena;
    const char *home = file->config->variable("HOME"), *name = file->source.file;
    const char *slash = strrchr(name, '/');

    if (path[0] == '/' || (path[0] == '~' && (path[1] != '/' || home == NULL)) || slash == NULL)
        return path;
    if (path[0] == '~')
        return bl_arena_printf(arena, "%s%s", home, path + 1).data;
    return bl_arena_printf(arena, "%.*s/%s", (int)(slash - name), name, path).data;
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

/* Headers that the HTTP client sets. */
static bool is_reserved_header(const char *name)
{
    static const char *const names[] = {"host",       "content-length", "transfer-encoding",
                                        "connection", "content-type",   "accept-encoding"};

    for (size_t i = 0; i < BL_COUNT(names); i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static int config_file_read_headers(struct file *file, struct config_provider *entry)
{
    struct bl_source *source = &file->source;
    const struct bl_json *value = entry->headers_said;
    struct bl_http_header *headers =
        bl_arena_zalloc(&file->config->arena, bl_json_size(value) * sizeof *headers);
    size_t count = 0;

    BL_JSON_MEMBERS (key, value) {
        if (!config_file_is_token(bl_json_text(key)))
            return bl_source_fail(source, key, "invalid header name");
        if (is_reserved_header(key->string))
            return bl_source_fail(source, key, "the header %s cannot be set", key->string);
        if (!bl_json_is(key + 1, BL_JSON_STRING) || !bl_form_line.fits(bl_json_text(key + 1)))
            return bl_source_fail(source, key + 1, "headers.%s: expected %s, found %s", key->string,
                                  bl_form_line.expected, bl_value_type(key + 1));
        headers[count++] = (struct bl_http_header){bl_json_text(key), bl_json_text(key + 1)};
    }
    entry->provider.headers = headers;
    entry->provider.header_count = count;
    return 0;
}

/* Finds the entry of a key: a built-in provider, or a new one, which needs an api. */
static int open_provider(struct file *file, const struct bl_json *key,
                         struct config_provider **ret_entry)
{
    const struct bl_json *api = config_file_get(key + 1, "api");
    struct config_provider *entry = config_provider_find(file->config, bl_json_text(key));
    size_t index = 0;

    bool known = bl_names_find(&bl_api_names, bl_json_text(api), &index);
    if (api == NULL && entry == NULL && bl_json_is(key + 1, BL_JSON_OBJECT)) {
        int code = bl_source_fail(&file->source, key, "a provider needs an api");
        bl_error_hint(file->source.error,
                      "choose one of: anthropic, openai, openai-responses, ollama");
        return code;
    }
    if (known && entry != NULL && entry->provider.api != (enum bl_api)index)
        return bl_source_fail(&file->source, api,
                              "the provider '%s' is built in, and its api is %s", key->string,
                              bl_api_name(entry->provider.api));
    if (entry == NULL)
        entry = config_provider_add(file->config, key->string, (enum bl_api)index);
    *ret_entry = entry;
    return 0;
}

/* Checks and completes the members beyond what the table can express. */
static int finish_provider(struct file *file, const struct bl_json *value,
                           struct config_provider *entry)
{
    struct bl_provider *provider = &entry->provider;
    const struct bl_json *base_url = config_file_get(value, "base_url");
    const struct bl_json *command = config_file_get(value, "key_command");
    const char *why = NULL, *field = entry->max_tokens_field;

    if (base_url != NULL && config_address(file->config, provider->api, provider->base_url,
                                           &provider->base_url, &why) != 0) {
        bl_source_fail(&file->source, base_url, "base_url is not a valid address: %s", why);
        bl_error_hint(file->source.error, "for example, https://host.example:8443/v1");
        return BL_EPARSE;
    }
    if (config_file_get(value, "key_env") != NULL)
        entry->token_env = NULL;
    if (config_file_get(value, "key_file") != NULL)
        entry->key_file = resolve_path(file, entry->key_file);
    if (config_file_get(value, "ca_file") != NULL)
        provider->client.ca_file = resolve_path(file, provider->client.ca_file);
    /* A single string is for the shell. */
    if (bl_json_is(command, BL_JSON_STRING)) {
        const char **words = bl_arena_zalloc(&file->config->arena, 4 * sizeof *words);
        words[0] = "sh";
        words[1] = "-c";
        words[2] = entry->key_command[0];
        entry->key_command = words;
    }
    if (field != NULL) {
        provider->compat.max_tokens_field = strcmp(field, "max_tokens") == 0;
        provider->compat.no_max_tokens = strcmp(field, "none") == 0;
    }
    return config_file_get(value, "headers") != NULL ? config_file_read_headers(file, entry) : 0;
}

static int read_provider(struct file *file, const struct bl_json *key)
{
    struct bl_source *source = &file->source;
    const struct bl_json *value = key + 1;
    struct config_provider *entry = NULL;
    char shown[BL_VALUE_SHOWN_SIZE];

    bl_value_show(bl_json_text(key), shown);
    if (key->size == 0 || strpbrk(key->string, "/:") != NULL)
        return bl_source_fail(source, key,
                              "the name of a provider must not be empty or contain '/' or ':'");
    if (strcmp(key->string, "script") == 0 || strcmp(key->string, "replay") == 0)
        return bl_source_fail(source, key, "'%s' is built in and cannot be configured", shown);
    if (config_file_get(value, "key") != NULL || config_file_get(value, "api_key") != NULL) {
        int code = bl_source_fail(source, key, "keys are not allowed in this file");
        bl_error_hint(source->error, "name its source with key_env, key_file or key_command");
        return code;
    }
    int code = open_provider(file, key, &entry);
    if (code != 0)
        return code;
    entry->place = config_place_of(source, key);
    code = config_file_read(file, &provider_record, value, entry);
    if (code == 0)
        code = finish_provider(file, value, entry);
    bool said =
        config_file_get(value, "key_file") != NULL || config_file_get(value, "key_command") != NULL;
    /* The key comes from the configured source, not from a variable that happens to be set. */
    if (said && config_file_get(value, "key_env") == NULL)
        entry->key_env = entry->token_env = NULL;
    if (code == 0 &&
        (entry->key_env != NULL) + (entry->key_file != NULL) + (entry->key_command != NULL) > 1) {
        code = bl_source_fail(source, key, "the key of '%s' has more than one source", shown);
        bl_error_hint(source->error, "keep one of key_env, key_file and key_command");
    }
    return code;
}

/* ---- Models ---------------------------------------------------------------------------------- */

static const char *const effort_words[] = {
    [BL_EFFORT_NONE] = "none", [BL_EFFORT_LOW] = "low",           [BL_EFFORT_MEDIUM] = "medium",
    [BL_EFFORT_HIGH] = "high", [BL_EFFORT_ADAPTIVE] = "adaptive",
};
static const struct bl_names efforts = BL_NAMES(effort_words);

#define MODEL_EXAMPLE                                                                              \
    "for example, {provider: anthropic, model: NAME}, with the provider's name of the model"
#define BL_RECORD_STRUCT struct config_model
/* A word, or a number of tokens. */
static const struct bl_member effort_members[] = {
    BL_MEMBER_ENUM("thinking", profile.thinking, &efforts),
    BL_MEMBER_END,
};
static const struct bl_member budget_members[] = {
    CONFIG_TOKENS("thinking", profile.thinking_tokens),
    BL_MEMBER_END,
};
static const struct bl_member model_members[] = {
    CONFIG_LINE("provider", provider, .about = MODEL_EXAMPLE),
    CONFIG_LINE("model", profile.model, .about = MODEL_EXAMPLE),
    CONFIG_TOKENS("max_output_tokens", profile.max_output_tokens),
    BL_MEMBER_JSON("thinking", thinking_said, .optional = true),
    CONFIG_TOKENS("context_window", profile.context_window),
    CONFIG_TOKENS("num_ctx", profile.num_ctx),
    CONFIG_LINE("keep_alive", profile.keep_alive, .optional = true),
    BL_MEMBER_BOOLEAN("free", free, .optional = true),
    BL_MEMBER_OBJECT("price", rates, &config_rates_record, .optional = true),
    CONFIG_TOKENS("overhead_tokens", profile.overhead_tokens),
    BL_MEMBER_BOOLEAN("images", profile.images, .optional = true, BL_KNOWN(profile.images_chosen)),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record effort_record =
    BL_RECORD("a model", struct config_model, effort_members);
static const struct bl_record budget_record =
    BL_RECORD("a model", struct config_model, budget_members);
static const struct bl_record model_record =
    BL_RECORD("a model", struct config_model, model_members, .closed = true);

static int read_model(struct file *file, const struct bl_json *key)
{
    struct bl_config *config = file->config;
    struct config_model *model = bl_arena_zalloc(&config->arena, sizeof *model);

    if (key->size == 0 || strchr(key->string, '/') != NULL)
        return bl_source_fail(&file->source, key,
                              "the name of a model must not be empty or contain '/'");
    model->rates = CONFIG_RATES_UNKNOWN;
    model->profile.alias = key->string;
    model->place = config_place_of(&file->source, key);
    int code = config_file_read(file, &model_record, key + 1, model);
    if (code == 0 && model->thinking_said != NULL) {
        bool budget = bl_json_is(model->thinking_said, BL_JSON_INTEGER);
        model->profile.thinking = BL_EFFORT_MEDIUM;
        code = config_file_read(file, budget ? &budget_record : &effort_record, key + 1, model);
    }
    if (code != 0)
        return code;
    model->provider_place = config_place_of(&file->source, config_file_get(key + 1, "provider"));
    if (model->free && model->rates.input > 0)
        return bl_source_fail(&file->source, key, "a model cannot be free and have a price");
    bl_list_push_back(&config->models, &model->link);
    return 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The top-level members of the file. */
struct top {
    struct config_said said;
    const struct bl_json *providers;
    const struct bl_json *models;
    const struct bl_json *permissions;
    const struct bl_json *hooks;
    const struct bl_json *env_allow;
    const struct bl_json *chat;
};

#define BL_RECORD_STRUCT struct top
static const struct bl_member top_members[] = {
    CONFIG_LINE("model", said.model, .optional = true),
    CONFIG_LINE("provider", said.provider, .optional = true),
    BL_MEMBER_JSON("providers", providers, .optional = true, .object = true),
    BL_MEMBER_JSON("models", models, .optional = true, .object = true),
    BL_MEMBER_JSON("permissions", permissions, .optional = true),
    BL_MEMBER_JSON("hooks", hooks, .optional = true),
    BL_MEMBER_JSON("env_allow", env_allow, .optional = true),
    BL_MEMBER_JSON("chat", chat, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record top_record =
    BL_RECORD("the configuration", struct top, top_members, .closed = true);

static int read_each(struct file *file, const struct bl_json *mapping,
                     int (*read)(struct file *file, const struct bl_json *key))
{
    BL_JSON_MEMBERS (name, mapping) {
        int code = read(file, name);
        if (code != 0)
            return code;
        file->config->defined = true;
    }
    return 0;
}

static int refuse_project(struct file *file, const struct bl_json *key, const char *what_it_may)
{
    struct bl_source *source = &file->source;
    struct bl_document_place place = bl_document_place(&source->document, key);

    bl_error_set(source->error, BL_EACCES, BL_KIND_POLICY, CONFIG_OPERATION, source->file,
                 "%s:%u:%u: a project's file must not define %s", source->file, place.line,
                 place.column, key->string);
    bl_error_hint(source->error, "%s: move '%s' to %s, if you trust it", what_it_may, key->string,
                  file->config->user_file != NULL ? file->config->user_file : "the user's file");
    return BL_EACCES;
}

static bool config_file_is_one_of(const struct bl_json *key, const char *const *names)
{
    while (*names != NULL && strcmp(*names, key->string) != 0)
        names++;
    return *names != NULL;
}

/* A cloned repository must not decide where a key is sent: keys that define a provider are refused
 * as such, also at the wrong level. Nor may it allow or run anything. */
static int check_project(struct file *file)
{
    static const char *const of_providers[] = {"providers", "models", "price", "prices", NULL};
    static const char *const opening[] = {"hooks", "env_allow", NULL};
    static const char *const permitting[] = {"mode", "allow", NULL};
    static const char choosing[] = "a project chooses among the user's providers and models";
    static const char denying[] = "a project may only deny permissions";
    static const char *const showing[] = {"chat", NULL};
    static const char shown[] = "only the user configures the terminal";
    const struct bl_json *root = file->source.document.root;

    BL_JSON_MEMBERS (key, root) {
        bool provider = config_file_is_one_of(key, of_providers);
        for (const struct bl_member *member = provider_members; member->type != BL_TYPE_END;
             member++)
            provider = provider || strcmp(key->string, member->name) == 0;
        if (provider)
            return refuse_project(file, key, choosing);
        if (config_file_is_one_of(key, opening))
            return refuse_project(file, key, denying);
        if (config_file_is_one_of(key, showing))
            return refuse_project(file, key, shown);
    }
    BL_JSON_MEMBERS (key, config_file_get(root, "permissions")) {
        if (config_file_is_one_of(key, permitting))
            return refuse_project(file, key, denying);
    }
    return 0;
}

int config_read_settings(struct bl_config *config, const char *name, bool project,
                         struct bl_text text, struct bl_error *error)
{
    struct file file = {.config = config};
    struct bl_source *source = &file.source;
    struct config_kept *kept = &config->kept[project];
    struct top top = {0};
    int code = config_open(config, name, text, source, error);

    if (code != 0 || bl_json_is(source->document.root, BL_JSON_NULL))
        return code;
    code = project ? check_project(&file) : 0;
    if (code == 0)
        code = config_file_read(&file, &top_record, source->document.root, &top);
    if (code == 0)
        code = read_each(&file, top.providers, read_provider);
    if (code == 0)
        code = read_each(&file, top.models, read_model);
    if (code != 0)
        return code;
    const struct bl_json *model = config_file_get(source->document.root, "model");
    const struct bl_json *provider = config_file_get(source->document.root, "provider");
    if (model != NULL)
        top.said.model_place = config_place_of(source, model);
    if (provider != NULL)
        top.said.provider_place = config_place_of(source, provider);
    config->said[project ? CONFIG_PROJECT : CONFIG_USER] = top.said;
    *kept = (struct config_kept){
        .source = *source,
        .values = {[CONFIG_PERMISSIONS] = top.permissions,
                   [CONFIG_HOOKS] = top.hooks,
                   [CONFIG_ENV_ALLOW] = top.env_allow,
                   [CONFIG_CHAT] = top.chat},
    };
    kept->source.error = NULL;
    return 0;
}

bool bl_config_section(const struct bl_config *config, const char *name, bool project,
                       struct bl_source *ret_source, const struct bl_json **ret_key)
{
    const struct config_kept *kept = &config->kept[project];

    for (size_t i = 0; i < CONFIG_SECTIONS; i++) {
        if (kept->values[i] == NULL || strcmp(kept->values[i][-1].string, name) != 0)
            continue;
        *ret_source = kept->source;
        *ret_key = kept->values[i] - 1;
        return true;
    }
    return false;
}
