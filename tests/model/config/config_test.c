#include "configured.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The stage ------------------------------------------------------------------------------- */

static struct {
    char root[200];
    struct bl_map variables;
    struct bl_config *config;
    struct bl_error error;
} stage;

const char *configured_variable(const char *name)
{
    return bl_map_get(&stage.variables, bl_text_from(name));
}

void configured_set(const char *name, const char *value)
{
    if (value != NULL)
        bl_map_set(&stage.variables, bl_text_from(name), (void *)value, NULL);
    else
        bl_map_remove(&stage.variables, bl_text_from(name));
}

const char *configured_path(const char *relative)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % BL_COUNT(paths)];

    snprintf(path, sizeof paths[0], "%s/%s", stage.root, relative);
    return path;
}

void configured_write(const char *relative, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", stage.root, relative);
    for (char *slash = path + strlen(stage.root) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

int configured_begin(void **state BL_UNUSED)
{
    static char home[300], config[300];
    const char *base = getenv("TMPDIR");

    memset(&stage, 0, sizeof stage);
    bl_map_init(&stage.variables);
    snprintf(stage.root, sizeof stage.root, "%.100s/belay-config-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(stage.root));
    snprintf(home, sizeof home, "%s/home", stage.root);
    snprintf(config, sizeof config, "%s/config", stage.root);
    configured_set("HOME", home);
    configured_set("XDG_CONFIG_HOME", config);
    configured_write("project/.git/HEAD", "");
    return 0;
}

static int remove_entry(const char *path, const struct stat *status BL_UNUSED, int type BL_UNUSED,
                        struct FTW *walk BL_UNUSED)
{
    return remove(path);
}

int configured_end(void **state BL_UNUSED)
{
    bl_config_free(stage.config);
    bl_map_done(&stage.variables);
    return nftw(stage.root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int read_from(const char *directory)
{
    struct bl_config_options options = {.directory = directory, .variable = configured_variable};

    bl_config_free(stage.config);
    stage.config = NULL;
    stage.error = (struct bl_error){0};
    return bl_config_read(&options, &stage.config, &stage.error);
}

struct bl_config *configured_read(void)
{
    if (read_from(configured_path("project")) != 0)
        fail_msg("%s; %s", stage.error.message, stage.error.hint);
    return stage.config;
}

/* Removes the folder at the start of paths in errors. */
static void cut_root(char *text)
{
    size_t size = strlen(stage.root) + 1;

    for (char *at; (at = strstr(text, stage.root)) != NULL;)
        memmove(at, at + size, strlen(at + size) + 1);
}

static const struct bl_error *shown_error(int code)
{
    assert_int_equal(stage.error.code, code);
    cut_root(stage.error.message);
    cut_root(stage.error.hint);
    return &stage.error;
}

const struct bl_error *configured_refused(void)
{
    int code = read_from(configured_path("project"));

    assert_int_not_equal(code, 0);
    assert_null(stage.config);
    return shown_error(code);
}

struct bl_config_found configured_find(const char *provider, const char *model)
{
    struct bl_config_choice choice = {provider, model};
    struct bl_config_found found;

    stage.error = (struct bl_error){0};
    if (bl_config_find(stage.config, &choice, &found, &stage.error) != 0)
        fail_msg("%s; %s", stage.error.message, stage.error.hint);
    return found;
}

const struct bl_error *configured_unfound(const char *provider, const char *model)
{
    struct bl_config_choice choice = {provider, model};
    struct bl_config_found found;

    stage.error = (struct bl_error){0};
    int code = bl_config_find(stage.config, &choice, &found, &stage.error);
    assert_int_not_equal(code, 0);
    return shown_error(code);
}

/* ---- Built in, and the environment ----------------------------------------------------------- */

static const struct bl_provider *provider_of(const char *name)
{
    struct config_provider *entry = config_provider_find(stage.config, bl_text_from(name));
    assert_non_null(entry);
    return &entry->provider;
}

static void without_files_the_built_in_providers_are_there(void **state BL_UNUSED)
{
    configured_read();
    assert_string_equal(provider_of("anthropic")->base_url, "https://api.anthropic.com");
    assert_string_equal(provider_of("openai")->base_url, "https://api.openai.com/v1");
    assert_string_equal(provider_of("openai-responses")->base_url, "https://api.openai.com/v1");
    assert_string_equal(provider_of("ollama")->base_url, "http://127.0.0.1:11434");
    assert_false(provider_of("openai")->compat.max_tokens_field);
    assert_int_equal(provider_of("openai")->first_byte_ns, 0);
}

static void addresses_come_from_the_environment(void **state BL_UNUSED)
{
    configured_set("ANTHROPIC_BASE_URL", "http://127.0.0.1:8081/");
    configured_set("OPENAI_BASE_URL", "http://127.0.0.1:8082/v1/");
    configured_set("OPENAI_ORG_ID", "org-1");
    configured_read();
    assert_string_equal(provider_of("anthropic")->base_url, "http://127.0.0.1:8081");
    assert_string_equal(provider_of("openai")->base_url, "http://127.0.0.1:8082/v1");
    assert_string_equal(provider_of("openai-responses")->base_url, "http://127.0.0.1:8082/v1");
    assert_string_equal(provider_of("openai")->organization, "org-1");
    assert_true(provider_of("openai")->compat.max_tokens_field);
    /* The format adds it. */
    configured_set("ANTHROPIC_BASE_URL", "https://gateway.test/anthropic/v1/");
    configured_read();
    assert_string_equal(provider_of("anthropic")->base_url, "https://gateway.test/anthropic");
}

static void the_environment_overrides_the_users_file(void **state BL_UNUSED)
{
    configured_write(USER, "providers: {anthropic: {base_url: 'https://one.test'}}\n");
    configured_read();
    assert_string_equal(provider_of("anthropic")->base_url, "https://one.test");
    configured_set("ANTHROPIC_BASE_URL", "https://two.test");
    configured_read();
    assert_string_equal(provider_of("anthropic")->base_url, "https://two.test");
}

static void ollama_hosts_are_completed(void **state BL_UNUSED)
{
    static const char *const cases[][2] = {
        {"localhost", "http://localhost:11434"},
        {"0.0.0.0", "http://127.0.0.1:11434"},
        {"0.0.0.0:8080", "http://127.0.0.1:8080"},
        {":8080", "http://127.0.0.1:8080"},
        {"models.test:1234", "http://models.test:1234"},
        {"http://models.test", "http://models.test"},
        {"https://models.test/ollama/", "https://models.test/ollama"},
        {"https://models.test:8443", "https://models.test:8443"},
        {"[::]:8080", "http://[::1]:8080"},
        {"::1", "http://[::1]:11434"},
        {"[::1]", "http://[::1]:11434"},
        {"  localhost  ", "http://localhost:11434"},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        configured_set("OLLAMA_HOST", cases[i][0]);
        configured_read();
        assert_string_equal(provider_of("ollama")->base_url, cases[i][1]);
    }
}

static void an_invalid_address_is_refused_without_its_password(void **state BL_UNUSED)
{
    static const char *const wrong[] = {"https://me:hunter22@gateway.test", "gateway",
                                        "ftp://a.test", "https://a.test/v1?key=hunter22",
                                        "https://"};

    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        configured_set("OPENAI_BASE_URL", wrong[i]);
        const struct bl_error *error = configured_refused();
        assert_int_equal(error->kind, BL_KIND_USAGE);
        assert_string_equal(error->target, "OPENAI_BASE_URL");
        assert_non_null(strstr(error->message, "OPENAI_BASE_URL is not a valid address"));
        assert_null(strstr(error->message, "hunter22"));
        assert_null(strstr(error->hint, "hunter22"));
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void the_home_is_used_without_a_folder_of_its_own(void **state BL_UNUSED)
{
    configured_write("home/.config/belay/config.yaml", "model: ollama/a\n");
    configured_set("XDG_CONFIG_HOME", NULL);
    configured_read();
    assert_string_equal(configured_find(NULL, NULL).profile->model, "a");
    configured_set("XDG_CONFIG_HOME", "relative");
    configured_read();
    assert_string_equal(configured_find(NULL, NULL).profile->model, "a");
    configured_set("HOME", NULL);
    configured_read();
    assert_false(configured_find(NULL, NULL).chosen);
}

static void the_nearest_project_file_counts_up_to_the_repository(void **state BL_UNUSED)
{
    char deep[512];

    configured_write(USER, "models:\n  a: {provider: ollama, model: m-a}\n"
                           "  b: {provider: ollama, model: m-b}\n"
                           "  c: {provider: ollama, model: m-c}\n");
    configured_write(PROJECT, "model: a\n");
    configured_write("project/sub/.belay/config.yaml", "model: b\n");
    configured_write("project/sub/deeper/file", "");
    configured_write(".belay/config.yaml", "model: c\n");
    snprintf(deep, sizeof deep, "%s/project/sub/deeper", stage.root);
    assert_int_equal(read_from(deep), 0);
    assert_string_equal(configured_find(NULL, NULL).profile->model, "m-b");
    configured_read();
    assert_string_equal(configured_find(NULL, NULL).profile->model, "m-a");
    /* A file above the repository is ignored. */
    unlink(configured_path(PROJECT));
    configured_read();
    assert_string_equal(configured_unfound(NULL, NULL)->message, "no model is chosen");
    /* Without a repository only the folder itself is searched. */
    unlink(configured_path("project/.git/HEAD"));
    rmdir(configured_path("project/.git"));
    unlink(configured_path("project/sub/.belay/config.yaml"));
    assert_int_equal(read_from(deep), 0);
    configured_unfound(NULL, NULL);
}

static void non_regular_files_are_refused(void **state BL_UNUSED)
{
    configured_write("config/belay/x", "");
    assert_int_equal(mkdir(configured_path(USER), 0700), 0);
    assert_string_equal(configured_refused()->message,
                        "cannot read config/belay/config.yaml: is a directory");
    rmdir(configured_path(USER));
    assert_int_equal(mkfifo(configured_path(USER), 0600), 0);
    assert_string_equal(configured_refused()->message,
                        "cannot read config/belay/config.yaml: not a regular file");
    unlink(configured_path(USER));
    configured_write(USER, "");
    assert_int_equal(truncate(configured_path(USER), (off_t)CONFIG_SIZE_MAX + 1), 0);
    assert_string_equal(configured_refused()->message,
                        "cannot read config/belay/config.yaml: it is larger than 1 MiB");
    configured_write(USER, "# nothing\n");
    configured_read();
    assert_false(configured_find(NULL, NULL).chosen);
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static bool is_secret(const char *text)
{
    const struct bl_text *secrets;
    size_t count = bl_config_secrets(stage.config, &secrets);

    for (size_t i = 0; i < count; i++)
        if (bl_text_equal(secrets[i], bl_text_from(text)))
            return true;
    return false;
}

static void keys_and_headers_are_secrets(void **state BL_UNUSED)
{
    configured_write(USER,
                     "providers:\n"
                     "  mine: {api: openai, base_url: 'https://a.test/v1', key_env: MY_KEY,\n"
                     "    headers: {Authorization: 'Bearer header-secret', X-Short: 'yes'}}\n");
    configured_set("ANTHROPIC_API_KEY", " key-anthropic\n");
    configured_set("ANTHROPIC_AUTH_TOKEN", "token-anthropic");
    configured_set("MY_KEY", "key-mine");
    configured_read();
    assert_true(is_secret("key-anthropic"));
    assert_true(is_secret("token-anthropic"));
    assert_true(is_secret("key-mine"));
    assert_true(is_secret("Bearer header-secret"));
    assert_true(is_secret("header-secret"));
    /* Replacing it in every text would garble them. */
    assert_false(is_secret("yes"));
}

static void the_variables_that_hold_keys_are_named(void **state BL_UNUSED)
{
    static const char *const expected[] = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
                                           "OPENAI_API_KEY", "MY_KEY", NULL};

    configured_write(USER, "providers:\n"
                           "  mine: {api: openai, base_url: 'https://a.test/v1', key_env: MY_KEY}\n"
                           "  openai: {key_file: key}\n");
    const char *const *names = bl_config_key_variables(configured_read());
    for (size_t i = 0; i < BL_COUNT(expected); i++) {
        if (expected[i] == NULL)
            assert_null(names[i]);
        else
            assert_string_equal(names[i], expected[i]);
    }
}

SUITE(config, CONFIGURED(without_files_the_built_in_providers_are_there),
      CONFIGURED(addresses_come_from_the_environment),
      CONFIGURED(the_environment_overrides_the_users_file), CONFIGURED(ollama_hosts_are_completed),
      CONFIGURED(an_invalid_address_is_refused_without_its_password),
      CONFIGURED(the_home_is_used_without_a_folder_of_its_own),
      CONFIGURED(the_nearest_project_file_counts_up_to_the_repository),
      CONFIGURED(non_regular_files_are_refused), CONFIGURED(keys_and_headers_are_secrets),
      CONFIGURED(the_variables_that_hold_keys_are_named));
