#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/proc.h>

#define KEY                "find the key"
#define KEY_SIZE_MAX       4096u
#define OUTPUT_MAX         ((size_t)16 * 1024)
#define KEY_COMMAND_NS_MAX (5 * BL_NS_PER_S)

static int fail_key(const struct config_provider *entry, struct bl_error *error, const char *format,
                    ...) BL_PRINTF(3, 4);

/* The message never contains any part of the key. */
static int fail_key(const struct config_provider *entry, struct bl_error *error, const char *format,
                    ...)
{
    BL_AUTO_BUFFER(text, 2048);
    va_list arguments;

    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    bl_error_set(error, BL_EACCES, BL_KIND_AUTH, KEY, entry->provider.name, BL_TEXT_FORMAT,
                 BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_error_name_set(error, "auth");
    return BL_EACCES;
}

int config_take_key(struct bl_config *config, struct config_provider *entry, struct bl_text text,
                    const char *source, struct bl_error *error)
{
    struct bl_text line = {0};

    bl_text_split(&text, '\n', &line);
    line = bl_text_trim(line);
    if (line.size == 0)
        return fail_key(entry, error, "the first line of %s contains no key", source);
    if (line.size > KEY_SIZE_MAX)
        return fail_key(entry, error, "the key from %s is longer than %u bytes", source,
                        KEY_SIZE_MAX);
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] <= ' ' || line.data[i] >= 0x7f)
            return fail_key(entry, error,
                            "the key from %s contains a blank or a non-ASCII character at "
                            "byte %zu",
                            source, i);
    }
    config_secret_add(config, line);
    entry->provider.key = bl_arena_text(&config->arena, line).data;
    entry->key_source = source;
    return 0;
}

/* ---- The environment ------------------------------------------------------------------------- */

void config_key_look(struct bl_config *config, struct config_provider *entry)
{
    const char *key = entry->key_env != NULL ? config->variable(entry->key_env) : NULL;
    const char *token = entry->token_env != NULL ? config->variable(entry->token_env) : NULL;

    if (entry->provider.key != NULL)
        return;
    /* bl_config_key reports the error. */
    if (key != NULL && config_take_key(config, entry, bl_text_from(key), entry->key_env, NULL) == 0)
        return;
    if (token != NULL &&
        config_take_key(config, entry, bl_text_from(token), entry->token_env, NULL) == 0)
        entry->provider.key_is_token = true;
}

/* ---- A file ---------------------------------------------------------------------------------- */

/* Read on a thread, because files may block. */
struct key_file {
    char *path;
    char data[KEY_SIZE_MAX + 2];
    size_t size;
    int failed;   /* errno */
    bool strange; /* not a regular file */
    bool open;    /* accessible to others than its owner */
};

static void free_key_file(void *payload)
{
    struct key_file *file = payload;

    bl_free(file->path);
    explicit_bzero(file, sizeof *file);
    bl_free(file);
}

static void read_key_file(void *payload)
{
    struct key_file *file = payload;
    struct stat status;
    ssize_t count = 1;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &status) != 0) {
        file->failed = errno;
        if (fd >= 0)
            close(fd);
        return;
    }
    file->strange = !S_ISREG(status.st_mode);
    file->open = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
    while (!file->strange && !file->open && count != 0 && file->size < sizeof file->data) {
        count = read(fd, file->data + file->size, sizeof file->data - file->size);
        if (count > 0)
            file->size += (size_t)count;
        if (count >= 0 || errno == EINTR)
            continue;
        file->failed = errno;
        break;
    }
    close(fd);
}

static int judge_key_file(struct bl_config *config, struct config_provider *entry,
                          const struct key_file *file, struct bl_error *error)
{
    const char *path = entry->key_file;

    if (file->failed != 0)
        return fail_key(entry, error, "cannot read the key_file %s: %s", path,
                        strerrordesc_np(file->failed));
    if (file->strange)
        return fail_key(entry, error, "the key_file %s is not a regular file", path);
    if (file->open) {
        int code = fail_key(entry, error, "the key_file %s is accessible to other users", path);
        bl_error_hint(error, "restrict it to yourself: chmod 600 %s", path);
        return code;
    }
    return config_take_key(config, entry, (struct bl_text){file->data, file->size}, path, error);
}

static int fetch_from_file(struct bl_config *config, struct config_provider *entry,
                           struct bl_error *error)
{
    struct key_file *file = bl_zalloc(sizeof *file);
    struct bl_work work = {
        .run = read_key_file, .drop = free_key_file, .payload = file, .abandon_on_stop = true};
    size_t size = strlen(entry->key_file) + 1;
    bool abandoned = false;

    file->path = bl_alloc(size);
    memcpy(file->path, entry->key_file, size);
    int code = bl_work_call(&work, &abandoned);
    if (code == 0)
        code = judge_key_file(config, entry, file, error);
    if (!abandoned)
        free_key_file(file);
    return code;
}

/* ---- A command ------------------------------------------------------------------------------- */

/* Discards standard error, which is not part of the key. */
static const char *const *quiet_command(struct bl_arena *arena, const char *const *words)
{
    static const char *const before[] = {"sh", "-c", "exec \"$@\" 2>/dev/null", "sh"};
    size_t word_count = 0;

    while (words[word_count] != NULL)
        word_count++;
    const char **result =
        bl_arena_zalloc(arena, (BL_COUNT(before) + word_count + 1) * sizeof *result);
    memcpy(result, before, sizeof before);
    memcpy(result + BL_COUNT(before), words, word_count * sizeof *result);
    return result;
}

static int judge_command(struct bl_config *config, struct config_provider *entry,
                         const struct bl_warden_end *end, const struct bl_capture *capture,
                         struct bl_error *error)
{
    BL_AUTO_BUFFER(output, 2 * OUTPUT_MAX);
    int code;

    if (end->how != BL_END_EXITED || end->status != 0) {
        bool exited = end->how == BL_END_EXITED;
        code = fail_key(entry, error, "the key_command of '%s' ended with %s %d",
                        entry->provider.name, exited ? "exit code" : "signal", end->status);
        bl_error_hint(error, "run it by hand: it must print the key on its first line");
        return code;
    }
    if (bl_capture_left_out(capture) > 0 || bl_capture_text(capture, &output) != 0)
        code = fail_key(entry, error, "the key_command of '%s' prints more than %zu bytes",
                        entry->provider.name, OUTPUT_MAX);
    else
        code = config_take_key(config, entry, bl_buffer_text(&output), "key_command", error);
    if (output.data != NULL)
        explicit_bzero(output.data, output.size);
    return code;
}

static int fetch_from_command(struct bl_config *config, struct config_provider *entry,
                              struct bl_error *error)
{
    struct bl_capture capture;
    struct bl_warden_end end = {0};
    struct bl_scope limit;
    struct bl_command command = {
        .options = {.arguments = quiet_command(&config->arena, entry->key_command),
                    .input = -1,
                    .output = -1,
                    .error = -1},
        .kind = BL_UNIT_COMMAND,
        .id = "key_command",
        .name = entry->provider.name,
        .capture = &capture,
    };

    bl_capture_init(&capture, OUTPUT_MAX);
    bl_limit_begin(&limit, KEY_COMMAND_NS_MAX);
    int code = bl_command_run(&command, &end, error);
    bl_limit_end(&limit);
    if (code == BL_ETIMEDOUT && bl_check() == 0) {
        code = fail_key(entry, error, "the key_command of '%s' took longer than 5 s",
                        entry->provider.name);
        bl_error_hint(error, "it has no terminal, so it cannot prompt for input");
    } else if (code == 0) {
        code = judge_command(config, entry, &end, &capture, error);
    }
    bl_capture_done(&capture);
    return code;
}

/* ---- The key --------------------------------------------------------------------------------- */

static struct config_provider *entry_of(const struct bl_config *config,
                                        const struct bl_provider *provider)
{
    BL_LIST_EACH (link, &config->providers) {
        struct config_provider *entry = BL_CONTAINER(link, struct config_provider, link);
        if (&entry->provider == provider)
            return entry;
    }
    return NULL;
}

static bool has_auth_header(const struct bl_provider *provider)
{
    for (size_t i = 0; i < provider->header_count; i++) {
        const char *name = provider->headers[i].name.data;
        if (strcasecmp(name, "authorization") == 0 || strcasecmp(name, "x-api-key") == 0)
            return true;
    }
    return false;
}

static bool needs_key(const struct config_provider *entry)
{
    const struct bl_provider *provider = &entry->provider;
    /* A self-hosted server may need none. */
    bool vendors = provider->api != BL_API_OLLAMA &&
                   strcmp(provider->base_url, bl_api_base_url(provider->api)) == 0;

    return !has_auth_header(provider) && (vendors || entry->key_env_chosen);
}

static int refuse_without_key(const struct config_provider *entry, struct bl_error *error)
{
    const struct bl_provider *provider = &entry->provider;

    if (!needs_key(entry))
        return 0;
    if (entry->key_env == NULL) {
        int code = fail_key(entry, error, "the provider '%s' has no key", provider->name);
        bl_error_hint(error, "name its source with key_env, key_file or key_command");
        return code;
    }
    int code = fail_key(entry, error, "the provider '%s' has no key: %s is not set", provider->name,
                        entry->key_env);
    bl_error_hint(error, "set %s, or run belay login %s", entry->key_env, provider->name);
    return code;
}

int bl_config_key(struct bl_config *config, const struct bl_provider *provider,
                  struct bl_error *error)
{
    struct config_provider *entry = entry_of(config, provider);
    const char *value = NULL;

    if (entry == NULL || entry->provider.key != NULL)
        return 0;
    if (entry->key_file != NULL)
        return fetch_from_file(config, entry, error);
    if (entry->key_command != NULL)
        return fetch_from_command(config, entry, error);
    if (entry->key_env != NULL)
        value = config->variable(entry->key_env);
    /* config_key_look rejected the value: report why. */
    if (value != NULL)
        return config_take_key(config, entry, bl_text_from(value), entry->key_env, error);
    return refuse_without_key(entry, error);
}

const char *bl_config_key_source(const struct bl_config *config, const struct bl_provider *provider)
{
    const struct config_provider *entry = entry_of(config, provider);
    return entry != NULL ? entry->key_source : NULL;
}

const char *const *bl_config_key_wanted(const struct bl_config *config,
                                        const struct bl_provider *provider, struct bl_arena *arena)
{
    const struct config_provider *entry = entry_of(config, provider);
    size_t count = 0;

    if (provider == NULL) {
        const char **names = bl_arena_zalloc(arena, 3 * sizeof *names);
        names[count++] = "ANTHROPIC_API_KEY";
        names[count++] = "OPENAI_API_KEY";
        return names;
    }
    if (entry == NULL || provider->key != NULL || entry->key_file != NULL ||
        entry->key_command != NULL || entry->key_env == NULL || !needs_key(entry))
        return NULL;
    const char **names = bl_arena_zalloc(arena, 3 * sizeof *names);
    names[count++] = entry->key_env;
    if (entry->token_env != NULL)
        names[count++] = entry->token_env;
    return names;
}
