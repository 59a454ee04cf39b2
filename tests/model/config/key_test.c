#include "configured.h"

#include <sys/stat.h>
#include <unistd.h>

static const char secret[] = "sk-very-secret-key";

/* The result of fetching the key of `provider`. */
struct fetch {
    const char *name;
    struct bl_config *config;
    const struct bl_provider *provider;
    uint64_t stop_after_ns; /* 0: not stopped */
    int code;
    struct bl_error error;
};

static int fetch_main(void *argument)
{
    struct fetch *fetch = argument;
    struct bl_scope scope;

    bl_scope_init(&scope, bl_scope_current());
    if (fetch->stop_after_ns != 0)
        bl_scope_set_deadline(&scope, bl_now_ns() + fetch->stop_after_ns);
    struct bl_scope *outer = bl_scope_enter(&scope);
    fetch->code = bl_config_key(fetch->config, fetch->provider, &fetch->error);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    return 0;
}

static struct fetch fetch_key(const char *name)
{
    struct fetch fetch = {.name = name, .config = configured_read()};

    fetch.provider = configured_find(name, "m").provider;
    run_in_loop(fetch_main, &fetch);
    if (fetch.code != 0) {
        assert_null(fetch.provider->key);
        assert_null(strstr(fetch.error.message, "secret"));
        assert_null(strstr(fetch.error.hint, "secret"));
    }
    return fetch;
}

static void check_refused(const char *name, const char *message, const char *hint)
{
    struct fetch fetch = fetch_key(name);

    assert_int_equal(fetch.code, BL_EACCES);
    assert_int_equal(fetch.error.kind, BL_KIND_AUTH);
    assert_string_equal(fetch.error.name, "auth");
    if (strstr(fetch.error.message, message) == NULL || strstr(fetch.error.hint, hint) == NULL)
        fail_msg("'%s'; '%s'", fetch.error.message, fetch.error.hint);
}

static void check_key(const char *name, const char *key, const char *source)
{
    struct fetch fetch = fetch_key(name);
    const struct bl_text *secrets;
    bool listed = false;

    if (fetch.code != 0)
        fail_msg("%s", fetch.error.message);
    assert_string_equal(fetch.provider->key, key);
    assert_string_equal(bl_config_key_source(fetch.config, fetch.provider), source);
    size_t count = bl_config_secrets(fetch.config, &secrets);
    for (size_t i = 0; i < count; i++)
        listed |= bl_text_equal(secrets[i], bl_text_from(key));
    assert_true(listed);
}

/* ---- The environment ------------------------------------------------------------------------- */

static void keys_come_from_the_environment(void **state BL_UNUSED)
{
    configured_write(USER, "providers: {mine: {api: openai, base_url: 'http://127.0.0.1:1/v1', "
                           "key_env: MY_KEY}}\n");
    configured_set("ANTHROPIC_AUTH_TOKEN", "token-of-anthropic");
    check_key("anthropic", "token-of-anthropic", "ANTHROPIC_AUTH_TOKEN");
    assert_true(fetch_key("anthropic").provider->key_is_token);
    configured_set("ANTHROPIC_API_KEY", secret);
    check_key("anthropic", secret, "ANTHROPIC_API_KEY");
    assert_false(fetch_key("anthropic").provider->key_is_token);
    configured_set("OPENAI_API_KEY", "  key-of-openai\n");
    check_key("openai", "key-of-openai", "OPENAI_API_KEY");
    check_key("openai-responses", "key-of-openai", "OPENAI_API_KEY");
    configured_set("MY_KEY", "key-of-mine");
    check_key("mine", "key-of-mine", "MY_KEY");
}

/* A key goes only to the address that it is configured for. */
static void a_private_provider_gets_no_key_of_another(void **state BL_UNUSED)
{
    configured_write(USER, "providers: {mine: {api: openai, base_url: 'https://a.test/v1'}}\n");
    configured_set("OPENAI_API_KEY", secret);
    struct fetch fetch = fetch_key("mine");
    assert_int_equal(fetch.code, 0);
    assert_null(fetch.provider->key);
    assert_null(bl_config_key_source(fetch.config, fetch.provider));
}

static void a_missing_key_is_reported(void **state BL_UNUSED)
{
    configured_write(USER,
                     "providers: {mine: {api: openai, base_url: 'http://127.0.0.1:1/v1', "
                     "key_env: MY_KEY}, own: {api: anthropic, headers: {X-Api-Key: abcdefgh}}}\n");
    check_refused("anthropic", "the provider 'anthropic' has no key: ANTHROPIC_API_KEY is not set",
                  "set ANTHROPIC_API_KEY");
    check_refused("openai", "OPENAI_API_KEY is not set", "set OPENAI_API_KEY");
    check_refused("mine", "MY_KEY is not set", "set MY_KEY");
    assert_int_equal(fetch_key("ollama").code, 0);
    assert_int_equal(fetch_key("own").code, 0);
    /* A self-hosted server may need none. */
    configured_set("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080");
    assert_int_equal(fetch_key("anthropic").code, 0);
}

static void check_wanted(const char *name, const char *first, const char *second)
{
    struct bl_arena arena = {0};
    struct bl_config *config = configured_read();
    const struct bl_provider *provider = name != NULL ? configured_find(name, "m").provider : NULL;
    const char *const *wanted = bl_config_key_wanted(config, provider, &arena);

    if (first == NULL) {
        assert_null(wanted);
    } else {
        assert_non_null(wanted);
        assert_string_equal(wanted[0], first);
        if (second == NULL) {
            assert_null(wanted[1]);
        } else {
            assert_string_equal(wanted[1], second);
            assert_null(wanted[2]);
        }
    }
    bl_arena_done(&arena);
}

static void the_variables_that_would_hold_a_key_are_named(void **state BL_UNUSED)
{
    configured_write(USER, "providers: {mine: {api: openai, base_url: 'http://127.0.0.1:1/v1', "
                           "key_env: MY_KEY}, own: {api: anthropic, headers: {X-Api-Key: abcdefgh}}"
                           ", file: {api: anthropic, key_file: /none}"
                           ", command: {api: anthropic, key_command: ['false']}}\n");
    check_wanted(NULL, "ANTHROPIC_API_KEY", "OPENAI_API_KEY");
    check_wanted("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN");
    check_wanted("openai", "OPENAI_API_KEY", NULL);
    check_wanted("mine", "MY_KEY", NULL);
    check_wanted("own", NULL, NULL);
    check_wanted("file", NULL, NULL);
    check_wanted("command", NULL, NULL);
    check_wanted("ollama", NULL, NULL);
    configured_set("OPENAI_API_KEY", secret);
    check_wanted("openai", NULL, NULL);
}

static void an_invalid_key_is_refused(void **state BL_UNUSED)
{
    configured_set("OPENAI_API_KEY", "sk-secret two");
    check_refused("openai", "the key from OPENAI_API_KEY contains a blank", "");
    configured_set("OPENAI_API_KEY", "sk-secret-\xc3\xa4");
    check_refused("openai", "non-ASCII character at byte 10", "");
    configured_set("OPENAI_API_KEY", " \n");
    check_refused("openai", "the first line of OPENAI_API_KEY contains no key", "");
}

/* ---- A file ---------------------------------------------------------------------------------- */

#define WITH_FILE "providers: {anthropic: {key_file: keys/a}}\n"

static void keys_come_from_a_private_file(void **state BL_UNUSED)
{
    configured_write(USER, WITH_FILE);
    configured_write("config/belay/keys/a", "sk-very-secret-key  \nand a note\n");
    /* The configured file takes precedence over any variable. */
    configured_set("ANTHROPIC_API_KEY", "another-one");
    check_key("anthropic", secret, configured_path("config/belay/keys/a"));
    configured_write(USER, "providers: {anthropic: {key_file: ~/key}}\n");
    configured_write("home/key", secret);
    check_key("anthropic", secret, configured_path("home/key"));
}

static void a_file_that_others_can_read_is_refused(void **state BL_UNUSED)
{
    static const mode_t modes[] = {0640, 0604, 0660, 0644, 0610};

    configured_write(USER, WITH_FILE);
    configured_write("config/belay/keys/a", secret);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        chmod(configured_path("config/belay/keys/a"), modes[i]);
        check_refused("anthropic", "is accessible to other users", "chmod 600 /");
    }
    chmod(configured_path("config/belay/keys/a"), 0400);
    check_key("anthropic", secret, configured_path("config/belay/keys/a"));
}

static void a_file_that_holds_no_key_is_refused(void **state BL_UNUSED)
{
    static char large[8192];

    configured_write(USER, WITH_FILE);
    check_refused("anthropic", "cannot read the key_file", "");
    configured_write("config/belay/keys/a", "\nsecret\n");
    check_refused("anthropic", "contains no key", "");
    memset(large, 'k', sizeof large - 1);
    configured_write("config/belay/keys/a", large);
    check_refused("anthropic", "longer than 4096 bytes", "");
    unlink(configured_path("config/belay/keys/a"));
    assert_int_equal(mkdir(configured_path("config/belay/keys/a"), 0700), 0);
    check_refused("anthropic", "is not a regular file", "");
}

/* ---- A command ------------------------------------------------------------------------------- */

static void keys_come_from_a_command(void **state BL_UNUSED)
{
    configured_write(USER, "providers:\n"
                           "  a: {api: openai, base_url: 'http://127.0.0.1:1/v1',\n"
                           "      key_command: [printf, 'sk-very-secret-key\\nnote\\n']}\n"
                           "  b: {api: openai, base_url: 'http://127.0.0.1:1/v1',\n"
                           "      key_command: 'echo noise >&2; echo sk-very-secret-key'}\n");
    check_key("a", secret, "key_command");
    check_key("b", secret, "key_command");
}

static void a_command_without_a_key_is_refused(void **state BL_UNUSED)
{
    configured_write(USER, "providers:\n"
                           "  a: {api: openai, key_command: 'echo sk-secret; exit 3'}\n"
                           "  b: {api: openai, key_command: [no-such-command-here]}\n"
                           "  c: {api: openai, key_command: 'true'}\n"
                           "  d: {api: openai, key_command: 'kill -9 $$'}\n"
                           "  e: {api: openai, key_command: 'head -c 100000 /dev/zero'}\n");
    check_refused("a", "the key_command of 'a' ended with exit code 3", "run it by hand");
    check_refused("b", "ended with exit code 127", "");
    check_refused("c", "the first line of key_command contains no key", "");
    check_refused("d", "ended with signal 9", "");
    check_refused("e", "prints more than", "");
}

static void a_stop_ends_the_command(void **state BL_UNUSED)
{
    struct fetch fetch = {.stop_after_ns = 50 * BL_NS_PER_MS};

    configured_write(USER, "providers: {a: {api: openai, key_command: 'sleep 100'}}\n");
    fetch.config = configured_read();
    fetch.provider = configured_find("a", "m").provider;
    run_in_loop(fetch_main, &fetch);
    assert_int_equal(fetch.code, BL_ETIMEDOUT);
    assert_int_equal(fetch.error.code, 0);
}

static void a_command_has_five_seconds(void **state BL_UNUSED)
{
    suite_skip_unless_soak();
    configured_write(USER, "providers: {a: {api: openai, key_command: 'sleep 100'}}\n");
    check_refused("a", "took longer than 5 s", "no terminal");
}

SUITE(config_key, CONFIGURED(keys_come_from_the_environment),
      CONFIGURED(a_private_provider_gets_no_key_of_another), CONFIGURED(a_missing_key_is_reported),
      CONFIGURED(the_variables_that_would_hold_a_key_are_named),
      CONFIGURED(an_invalid_key_is_refused), CONFIGURED(keys_come_from_a_private_file),
      CONFIGURED(a_file_that_others_can_read_is_refused),
      CONFIGURED(a_file_that_holds_no_key_is_refused), CONFIGURED(keys_come_from_a_command),
      CONFIGURED(a_command_without_a_key_is_refused), CONFIGURED(a_stop_ends_the_command),
      CONFIGURED(a_command_has_five_seconds));
