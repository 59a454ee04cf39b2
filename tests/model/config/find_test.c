#include "configured.h"

static const char users[] =
    "providers:\n"
    "  router: {api: openai, base_url: 'https://router.test/v1'}\n"
    "  local: {api: openai, base_url: 'http://127.0.0.1:8080/v1'}\n"
    "models:\n"
    "  sonnet: {provider: anthropic, model: claude-x, max_output_tokens: 16000}\n"
    "  small: {provider: local, model: qwen-x, free: true}\n"
    "  demo: {provider: script, model: demo.yaml}\n";

static void check_found(const char *provider, const char *model, const char *found_provider,
                        const char *found_model)
{
    struct bl_config_found found = configured_find(provider, model);

    assert_true(found.chosen);
    assert_non_null(found.provider);
    assert_string_equal(found.provider->name, found_provider);
    assert_string_equal(found.profile->model, found_model);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void names_are_aliases_or_provider_and_model(void **state BL_UNUSED)
{
    configured_write(USER, users);
    configured_read();
    check_found(NULL, "sonnet", "anthropic", "claude-x");
    assert_int_equal(configured_find(NULL, "sonnet").profile->max_output_tokens, 16000);
    check_found(NULL, "small", "local", "qwen-x");
    check_found(NULL, "openai/gpt-x", "openai", "gpt-x");
    check_found("anthropic", "sonnet", "anthropic", "claude-x");
    check_found("local", "something", "local", "something");
    assert_string_equal(configured_find(NULL, "demo").script, "demo.yaml");
}

static void a_model_may_have_a_slash_in_its_name(void **state BL_UNUSED)
{
    configured_write(USER, users);
    configured_read();
    check_found("router", "anthropic/claude-x", "router", "anthropic/claude-x");
    check_found(NULL, "router/anthropic/claude-x", "router", "anthropic/claude-x");
    /* Without a provider of that name, it is part of the model's name. */
    configured_set("BELAY_PROVIDER", "router");
    configured_read();
    check_found(NULL, "meta/llama-x", "router", "meta/llama-x");
    check_found(NULL, "ollama/qwen", "ollama", "qwen");
}

static void unknown_provider_before_a_slash_is_refused(void **state BL_UNUSED)
{
    configured_write(USER, users);
    configured_read();
    assert_string_equal(configured_unfound(NULL, "foo/bar")->message, "unknown provider 'foo'");
    const struct bl_error *error = configured_unfound(NULL, "antropic/claude-x");
    assert_string_equal(error->message, "unknown provider 'antropic'");
    assert_string_equal(
        error->hint,
        "did you mean 'anthropic'? (if '/' is part of the model's name, also use --provider)");
    /* A key does not choose a provider for it. */
    configured_set("OPENAI_API_KEY", "k");
    configured_read();
    assert_string_equal(configured_unfound(NULL, "foo/bar")->message, "unknown provider 'foo'");
    check_found("openai", "foo/bar", "openai", "foo/bar");
}

static void unknown_names_are_refused_with_a_suggestion(void **state BL_UNUSED)
{
    configured_write(USER, users);
    configured_read();
    const struct bl_error *error = configured_unfound("antropic", "x");
    assert_int_equal(error->kind, BL_KIND_USAGE);
    assert_string_equal(error->message, "unknown provider 'antropic'");
    assert_string_equal(error->hint, "did you mean 'anthropic'?");
    assert_string_equal(configured_unfound("scrip", "x")->hint, "did you mean 'script'?");
    assert_string_equal(configured_unfound("relay", "x")->hint, "did you mean 'replay'?");
    assert_string_equal(configured_unfound("mistral", "x")->hint,
                        "available: anthropic, openai, openai-responses, ollama, router, local, "
                        "script:FILE and replay");
    assert_string_equal(configured_unfound("local", "sonnet")->message,
                        "'sonnet' is a model of the provider 'anthropic', not of 'local'");
    assert_string_equal(configured_unfound(NULL, "some-model")->message,
                        "no provider is chosen for the model 'some-model'");
    assert_string_equal(configured_unfound("ollama", NULL)->message,
                        "no model is chosen for the provider 'ollama'");
    assert_string_equal(configured_unfound("script:", NULL)->message, "'script:' names no file");
    assert_string_equal(configured_unfound(NULL, NULL)->message, "no model is chosen");
}

/* ---- Precedence ------------------------------------------------------------------------------ */

/* Flag, environment, project, user: the first that is set wins. */
static void the_first_source_that_is_set_wins(void **state BL_UNUSED)
{
    static const struct {
        const char *flag_provider, *flag_model, *env_provider, *env_model, *project, *user;
        const char *provider, *model; /* found */
    } rows[] = {
        {0, 0, 0, 0, 0, "model: sonnet\n", "anthropic", "claude-x"},
        {0, 0, 0, 0, "model: small\n", "model: sonnet\n", "local", "qwen-x"},
        {0, 0, 0, "openai/gpt-x", "model: small\n", "model: sonnet\n", "openai", "gpt-x"},
        {0, "ollama/q", 0, "openai/gpt-x", "model: small\n", "model: sonnet\n", "ollama", "q"},
        {"ollama", "q", "openai", "gpt-x", "model: small\n", "model: sonnet\n", "ollama", "q"},
        /* A provider alone excludes models of others. */
        {"local", 0, 0, 0, 0, "model: sonnet\n", 0, "no model is chosen for the provider 'local'"},
        {"local", 0, 0, 0, "model: small\n", "model: sonnet\n", "local", "qwen-x"},
        {"local", 0, 0, "sonnet", "model: small\n", 0, "local", "qwen-x"},
        {"local", 0, "openai", "gpt-x", "model: small\n", 0, "local", "qwen-x"},
        {"ollama", 0, 0, "q", "model: small\n", "model: sonnet\n", "ollama", "q"},
        {0, 0, "ollama", 0, 0, "model: sonnet\n", 0,
         "no model is chosen for the provider 'ollama'"},
        {0, 0, 0, 0, "provider: local\n", "provider: ollama\nmodel: q\n", 0,
         "no model is chosen for the provider 'local'"},
        /* A model alone takes the provider of the first source that sets one. */
        {0, "m", 0, 0, 0, "provider: local\n", "local", "m"},
        {0, "m", "ollama", 0, 0, "provider: local\n", "ollama", "m"},
        {0, "m", 0, 0, "provider: local\n", "provider: ollama\n", "local", "m"},
        {0, "sonnet", "ollama", 0, "provider: local\n", 0, "anthropic", "claude-x"},
        {0, 0, 0, 0, 0, "provider: router\nmodel: openai/gpt-x\n", "router", "openai/gpt-x"},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_arena arena = {0};
        configured_write(
            USER, bl_arena_printf(&arena, "%s%s", rows[i].user ? rows[i].user : "", users).data);
        configured_write(PROJECT, rows[i].project != NULL ? rows[i].project : "");
        configured_set("BELAY_PROVIDER", rows[i].env_provider);
        configured_set("BELAY_MODEL", rows[i].env_model);
        configured_read();
        if (rows[i].provider == NULL) {
            assert_string_equal(
                configured_unfound(rows[i].flag_provider, rows[i].flag_model)->message,
                rows[i].model);
        } else {
            check_found(rows[i].flag_provider, rows[i].flag_model, rows[i].provider, rows[i].model);
        }
        bl_arena_done(&arena);
    }
}

static void the_variable_of_anthropic_counts_as_environment(void **state BL_UNUSED)
{
    configured_set("ANTHROPIC_MODEL", "claude-env");
    configured_write(USER, users);
    configured_read();
    check_found("anthropic", NULL, "anthropic", "claude-env");
    check_found("anthropic", "claude-flag", "anthropic", "claude-flag");
    check_found(NULL, "sonnet", "anthropic", "claude-x");
    check_found(NULL, "small", "local", "qwen-x");
    configured_set("BELAY_MODEL", "claude-belay");
    configured_read();
    check_found("anthropic", NULL, "anthropic", "claude-belay");
    configured_set("BELAY_MODEL", NULL);
    configured_write(PROJECT, "model: sonnet\n");
    configured_read();
    check_found(NULL, NULL, "anthropic", "claude-env");
}

/* ---- Keys that choose ------------------------------------------------------------------------ */

static void the_only_key_chooses_the_provider(void **state BL_UNUSED)
{
    configured_set("ANTHROPIC_API_KEY", "key-a");
    configured_set("BELAY_MODEL", "m");
    configured_read();
    check_found(NULL, NULL, "anthropic", "m");
    assert_string_equal(configured_find(NULL, NULL).provider->key, "key-a");
    configured_set("ANTHROPIC_API_KEY", NULL);
    configured_set("OPENAI_API_KEY", "key-o");
    configured_read();
    check_found(NULL, NULL, "openai", "m");
    configured_set("ANTHROPIC_AUTH_TOKEN", "token-a");
    configured_read();
    assert_string_equal(configured_unfound(NULL, NULL)->message,
                        "no provider is chosen for the model 'm'");
    configured_set("BELAY_MODEL", NULL);
    configured_read();
    assert_string_equal(configured_unfound(NULL, NULL)->message,
                        "both anthropic and openai have keys, but no provider is chosen");
    configured_set("ANTHROPIC_MODEL", "claude-env");
    configured_read();
    check_found(NULL, NULL, "anthropic", "claude-env");
}

static void a_key_without_a_model_is_refused_with_a_hint(void **state BL_UNUSED)
{
    configured_set("ANTHROPIC_API_KEY", "key-a");
    configured_read();
    const struct bl_error *error = configured_unfound(NULL, NULL);
    assert_int_equal(error->kind, BL_KIND_USAGE);
    assert_string_equal(error->message, "no model is chosen for the provider 'anthropic'");
    assert_string_equal(error->hint, "use --model, or set BELAY_MODEL or ANTHROPIC_MODEL, or "
                                     "'model' in " USER);
}

static void without_anything_the_script_model_answers(void **state BL_UNUSED)
{
    configured_read();
    struct bl_config_found found = configured_find(NULL, NULL);
    assert_false(found.chosen);
    assert_null(found.provider);
    assert_null(found.script);
    found = configured_find("script", NULL);
    assert_true(found.chosen);
    assert_null(found.script);
    assert_string_equal(configured_find("script", "a/b.yaml").script, "a/b.yaml");
    assert_string_equal(configured_find("script:c.yaml", NULL).script, "c.yaml");
    configured_set("BELAY_MODEL", "d.yaml");
    configured_set("BELAY_PROVIDER", "script");
    configured_read();
    assert_string_equal(configured_find(NULL, NULL).script, "d.yaml");
    assert_string_equal(configured_find("script:c.yaml", NULL).script, "c.yaml");
}

/* ---- Replay ---------------------------------------------------------------------------------- */

static void a_replay_imitates_the_named_model(void **state BL_UNUSED)
{
    configured_write(USER, users);
    configured_read();
    struct bl_config_found found = configured_find("replay", "sonnet");
    assert_true(found.replay);
    assert_string_equal(found.provider->name, "anthropic");
    assert_string_equal(found.profile->model, "claude-x");
    found = configured_find("replay", "openai/gpt-x");
    assert_true(found.replay);
    assert_string_equal(found.provider->name, "openai");
    configured_set("BELAY_PROVIDER", "replay");
    configured_read();
    assert_true(configured_find(NULL, "sonnet").replay);
    assert_false(configured_find("local", "m").replay);
    configured_unfound(NULL, "demo");
}

static struct bl_config_found imitate(struct bl_config *config, const char *lines)
{
    struct bl_config_found found = {0};
    struct bl_cassette *cassette;
    struct bl_error error = {0};

    configured_write("tape", lines);
    if (bl_cassette_load(configured_path("tape"), &cassette, &error) != 0)
        fail_msg("%s", error.message);
    if (bl_config_imitate(config, cassette, &found, &error) != 0)
        assert_int_equal(error.kind, BL_KIND_USAGE);
    bl_cassette_close(cassette, NULL);
    return found;
}

#define TAPE(path, body)                                                                           \
    "{\"belay_cassette\":1,\"created\":\"2026-11-16T00:00:00.000Z\"}\n"                            \
    "{\"method\":\"POST\",\"path\":\"" path "\",\"body\":" body                                    \
    ",\"status\":200,\"headers\":{},\"pieces\":[],\"end\":\"end\"}\n"

static void a_cassette_identifies_its_model(void **state BL_UNUSED)
{
    configured_write(USER, users);
    struct bl_config *config = configured_read();
    struct bl_config_found found =
        imitate(config, TAPE("/v1/messages", "{\"model\":\"claude-x\",\"max_tokens\":5}"));
    assert_true(found.replay);
    assert_string_equal(found.profile->alias, "sonnet");
    found = imitate(config, TAPE("/v1/messages", "{\"model\":\"other\",\"max_tokens\":5}"));
    assert_true(found.replay);
    assert_string_equal(found.provider->name, "anthropic");
    assert_string_equal(found.profile->model, "other");
    assert_int_equal(found.profile->max_output_tokens, 5);
    found = imitate(config, TAPE("/api/v1/chat/completions",
                                 "{\"model\":\"a/b\",\"max_completion_tokens\":7}"));
    assert_int_equal(found.provider->api, BL_API_OPENAI);
    assert_string_equal(found.provider->base_url, "http://127.0.0.1/api/v1");
    assert_false(found.provider->compat.max_tokens_field);
    assert_int_equal(found.profile->max_output_tokens, 7);
    assert_null(imitate(config, TAPE("/other", "{\"model\":\"a\"}")).provider);
}

/* ---- Projects -------------------------------------------------------------------------------- */

static void P45_a_project_chooses_among_the_users_own(void **state BL_UNUSED)
{
    static const char *const refused[] = {"model: openai/gpt-dear\n", "provider: script:x.yaml\n",
                                          "provider: script\n", "provider: replay\n"};

    configured_write(USER, users);
    for (size_t i = 0; i < BL_COUNT(refused); i++) {
        configured_write(PROJECT, refused[i]);
        configured_read();
        const struct bl_error *error = configured_unfound(NULL, NULL);
        assert_int_equal(error->kind, BL_KIND_POLICY);
        assert_non_null(strstr(error->message, PROJECT ":1:"));
        /* The user's explicit choice overrides it. */
        check_found("ollama", "m", "ollama", "m");
    }
    configured_write(PROJECT, "provider: nobody\n");
    configured_read();
    assert_string_equal(configured_unfound(NULL, NULL)->message,
                        PROJECT ":1:11: unknown provider 'nobody'");
}

SUITE(config_find, CONFIGURED(names_are_aliases_or_provider_and_model),
      CONFIGURED(a_model_may_have_a_slash_in_its_name),
      CONFIGURED(unknown_provider_before_a_slash_is_refused),
      CONFIGURED(unknown_names_are_refused_with_a_suggestion),
      CONFIGURED(the_first_source_that_is_set_wins),
      CONFIGURED(the_variable_of_anthropic_counts_as_environment),
      CONFIGURED(the_only_key_chooses_the_provider),
      CONFIGURED(a_key_without_a_model_is_refused_with_a_hint),
      CONFIGURED(without_anything_the_script_model_answers),
      CONFIGURED(a_replay_imitates_the_named_model), CONFIGURED(a_cassette_identifies_its_model),
      CONFIGURED(P45_a_project_chooses_among_the_users_own));
