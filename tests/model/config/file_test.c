#include "configured.h"

#include <stdio.h>

/* ---- Valid files ----------------------------------------------------------------------------- */

static void everything_of_a_provider_is_read(void **state BL_UNUSED)
{
    configured_write(USER, "providers:\n"
                           "  local:\n"
                           "    api: openai-responses\n"
                           "    base_url: 'http://127.0.0.1:8080/v1/'\n"
                           "    key_env: LOCAL\n"
                           "    headers: {X-Team: red team, x-other: 'two'}\n"
                           "    timers: {connect: 500ms, first_byte: 15m, stall: 90}\n"
                           "    http2: true\n"
                           "    resolver: system\n"
                           "    ca_file: ca.pem\n"
                           "    organization: org\n"
                           "    beta: some-beta\n"
                           "    compat: {max_tokens_field: max_tokens, stream_options: false,\n"
                           "      parallel_tool_calls: false, reasoning_effort: false,\n"
                           "      response_format: false, tool_choice: false,\n"
                           "      prompt_cache_key: false, include: false}\n"
                           "models: {m: {provider: local, model: x}}\n");
    configured_read();
    const struct bl_provider *provider = configured_find(NULL, "m").provider;
    assert_string_equal(provider->name, "local");
    assert_int_equal(provider->api, BL_API_OPENAI_RESPONSES);
    assert_string_equal(provider->base_url, "http://127.0.0.1:8080/v1");
    assert_int_equal(provider->header_count, 2);
    assert_true(bl_text_equal(provider->headers[0].name, BL_TEXT("X-Team")));
    assert_true(bl_text_equal(provider->headers[0].value, BL_TEXT("red team")));
    assert_int_equal(provider->connect_ns, 500 * BL_NS_PER_MS);
    assert_int_equal(provider->first_byte_ns, 900 * BL_NS_PER_S);
    assert_int_equal(provider->stall_ns, 90 * BL_NS_PER_S);
    assert_true(provider->client.http2);
    assert_true(provider->client.system_resolver);
    assert_string_equal(provider->client.ca_file, configured_path("config/belay/ca.pem"));
    assert_string_equal(provider->organization, "org");
    assert_string_equal(provider->beta, "some-beta");
    const struct bl_compat *compat = &provider->compat;
    assert_true(compat->max_tokens_field && compat->no_stream_options &&
                compat->no_parallel_tool_calls && compat->no_reasoning_effort &&
                compat->no_response_format && compat->no_tool_choice &&
                compat->no_prompt_cache_key && compat->no_include && !compat->no_max_tokens);
}

static void everything_of_a_model_is_read(void **state BL_UNUSED)
{
    configured_write(USER, "models:\n"
                           "  m:\n"
                           "    provider: ollama\n"
                           "    model: qwen:7b\n"
                           "    max_output_tokens: 4000\n"
                           "    thinking: high\n"
                           "    context_window: 32768\n"
                           "    num_ctx: 16384\n"
                           "    keep_alive: 10m\n"
                           "    overhead_tokens: 7\n"
                           "    images: true\n"
                           "    price: {input: 1, output: 2.5, cache_read: 0.1}\n"
                           "  n: {provider: anthropic, model: x, thinking: 2048, free: true}\n"
                           "  o: {provider: anthropic, model: x, thinking: adaptive}\n");
    configured_read();
    const struct bl_profile *profile = configured_find(NULL, "m").profile;
    assert_string_equal(profile->alias, "m");
    assert_string_equal(profile->model, "qwen:7b");
    assert_int_equal(profile->max_output_tokens, 4000);
    assert_int_equal(profile->thinking, BL_EFFORT_HIGH);
    assert_int_equal(profile->context_window, 32768);
    assert_int_equal(profile->num_ctx, 16384);
    assert_string_equal(profile->keep_alive, "10m");
    assert_int_equal(profile->overhead_tokens, 7);
    assert_true(profile->images_chosen && profile->images);
    assert_true(profile->price.known);
    assert_true(profile->price.output > 2.49 && profile->price.output < 2.51);
    profile = configured_find(NULL, "n").profile;
    assert_int_equal(profile->thinking, BL_EFFORT_MEDIUM);
    assert_int_equal(profile->thinking_tokens, 2048);
    assert_true(profile->price.known);
    assert_int_equal(configured_find(NULL, "o").profile->thinking, BL_EFFORT_ADAPTIVE);
    assert_false(configured_find(NULL, "o").profile->images_chosen);
}

static void max_tokens_are_asked_for_by_the_host(void **state BL_UNUSED)
{
    configured_write(USER, "providers:\n"
                           "  a: {api: openai, base_url: 'https://a.test/v1'}\n"
                           "  b: {api: openai, base_url: 'https://a.test/v1',\n"
                           "      compat: {max_tokens_field: max_completion_tokens}}\n"
                           "  c: {api: openai, base_url: 'https://a.test/v1',\n"
                           "      compat: {max_tokens_field: none}}\n"
                           "  d: {api: openai}\n");
    configured_read();
    assert_true(configured_find("a", "m").provider->compat.max_tokens_field);
    assert_false(configured_find("b", "m").provider->compat.max_tokens_field);
    assert_true(configured_find("c", "m").provider->compat.no_max_tokens);
    assert_false(configured_find("d", "m").provider->compat.max_tokens_field);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void every_error_has_its_position(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        const char *message; /* after the file's name */
        const char *hint;    /* a part of it */
    } cases[] = {
        {"modle: x\n", ":1:1: unknown member \"modle\" in the configuration",
         "did you mean \"model\"?"},
        {"- a\n", ":1:1: expected a mapping, found a list", ""},
        {"model: 3\n",
         ":1:8: model: expected one line of text without control characters, found a whole number",
         "quotes"},
        {"model: ''\n",
         ":1:8: model: expected one line of text without control characters, found an empty string",
         ""},
        {"model: \"a\\nb\"\n", ":1:8: model: expected one line of text without control characters",
         ""},
        {"models: {\n", ":2:1: expected ", ""},
        {"model: a\nmodel: b\n", ":2:1: expected ", ""},
        {"providers: []\n", ":1:12: providers: expected a mapping, found an empty list", ""},
        {"providers: {p: {}}\n", ":1:13: a provider needs an api", "openai-responses"},
        {"providers: {p: {api: opnai}}\n",
         ":1:22: api: expected one of anthropic, openai, openai-responses, ollama",
         "did you mean \"openai\"?"},
        {"providers: {openai: {api: ollama}}\n",
         ":1:27: the provider 'openai' is built in, and its api is openai", ""},
        {"providers: {script: {api: openai}}\n",
         ":1:13: 'script' is built in and cannot be configured", ""},
        {"providers: {a/b: {api: openai}}\n",
         ":1:13: the name of a provider must not be empty or contain '/' or ':'", ""},
        {"providers: {p: {api: openai, base-url: x}}\n",
         ":1:30: unknown member \"base-url\" in a provider", "did you mean \"base_url\"?"},
        {"providers: {p: {api: openai, base_url: 'localhost:1'}}\n",
         ":1:40: base_url is not a valid address: expected http://HOST or https://HOST, optionally "
         "with a port and a path",
         "for example, https://"},
        {"providers: {p: {api: openai, timers: {stall: 0}}}\n",
         ":1:46: timers.stall: expected a duration above zero such as 20ms, 90s or 1.5h (a number "
         "alone is seconds)",
         ""},
        {"providers: {p: {api: openai, timers: {total: 1}}}\n",
         ":1:39: timers: unknown member \"total\" in timers", "stall"},
        {"providers: {p: {api: openai, http2: 1}}\n",
         ":1:37: http2: expected true or false, found a whole number", ""},
        {"providers: {p: {api: openai, headers: {'a b': c}}}\n", ":1:40: invalid header name", ""},
        {"providers: {p: {api: openai, headers: {Host: c}}}\n",
         ":1:40: the header Host cannot be set", ""},
        {"providers: {p: {api: openai, compat: {store: true}}}\n",
         ":1:39: compat: unknown member \"store\" in compat", "stream_options"},
        {"providers: {p: {api: openai, key_command: []}}\n",
         ":1:43: key_command: expected a list of strings of 1 to 64 elements or one string, found "
         "an empty list",
         ""},
        {"providers: {p: {api: openai, key_env: A, key_file: b}}\n",
         ":1:13: the key of 'p' has more than one source", "keep one"},
        {"models: {m: {model: x}}\n",
         ":1:13: provider: missing; expected one line of text without control characters",
         "for example, {"},
        {"models: {m: {provider: nobody, model: x}}\n",
         ":1:24: the model 'm' has an unknown provider", "providers"},
        {"models: {m: {provider: antropic, model: x}}\n",
         ":1:24: the model 'm' has an unknown provider", "did you mean 'anthropic'?"},
        {"models: {a/b: {provider: ollama, model: x}}\n",
         ":1:10: the name of a model must not be empty or contain '/'", ""},
        {"models: {m: {provider: ollama, model: x, num_ctx: 0}}\n",
         ":1:51: num_ctx: expected a whole number from 1 to 1000000000 or null", ""},
        {"models: {m: {provider: ollama, model: x, thinking: hard}}\n",
         ":1:52: thinking: expected one of none, low, medium, high, adaptive", ""},
        {"models: {m: {provider: ollama, model: x, price: {input: -1}}}\n",
         ":1:57: price.input: expected a number of at least 0 or null", "USD"},
        {"models: {m: {provider: ollama, model: x, free: true, price: {input: 1}}}\n",
         ":1:10: a model cannot be free and have a price", ""},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char expected[256];
        snprintf(expected, sizeof expected, USER "%s", cases[i].message);
        configured_write(USER, cases[i].text);
        const struct bl_error *error = configured_refused();
        assert_int_equal(error->kind, BL_KIND_PARSE);
        if (strncmp(error->message, expected, strlen(expected)) != 0)
            fail_msg("%s: '%s' instead of '%s'", cases[i].text, error->message, expected);
        if (strstr(error->hint, cases[i].hint) == NULL)
            fail_msg("%s: hint '%s'", cases[i].text, error->hint);
    }
}

/* Wherever a key is put by mistake. */
static void no_error_shows_a_value(void **state BL_UNUSED)
{
    static const char *const files[] = {
        "providers: {p: {api: sk-secret-1}}\n",
        "providers: {p: {api: openai, key: sk-secret-1}}\n",
        "providers: {p: {api: openai, api_key: sk-secret-1}}\n",
        "providers: {p: {api: openai, base_url: 'https://sk-secret-1@a.test'}}\n",
        "providers: {p: {api: openai, timers: {stall: sk-secret-1}}}\n",
        "providers: {p: {api: openai, http2: sk-secret-1}}\n",
        "providers: {p: {api: openai, headers: {Authorization: sk-secret-1, X: {}}}}\n",
        "providers: {p: {api: openai, headers: {Authorization: 'sk-secret-1\n",
        "providers: {p: {api: openai, headers: {Authorization: sk-secret-1]}}\n",
        "models: {m: {provider: sk-secret-1, model: x}}\n",
        "models: {m: {provider: ollama, model: x, thinking: sk-secret-1}}\n",
    };

    for (size_t i = 0; i < BL_COUNT(files); i++) {
        configured_write(USER, files[i]);
        const struct bl_error *error = configured_refused();
        if (strstr(error->message, "sk-secret") != NULL || strstr(error->hint, "sk-secret") != NULL)
            fail_msg("%s: %s; %s", files[i], error->message, error->hint);
    }
    configured_write(USER, files[1]);
    assert_non_null(strstr(configured_refused()->hint, "key_env, key_file or key_command"));
}

/* ---- Other sections -------------------------------------------------------------------------- */

static void other_sections_are_kept_with_their_positions(void **state BL_UNUSED)
{
    static const char *const names[] = {"permissions", "hooks", "env_allow"};
    struct bl_source source;
    struct bl_error error = {0};
    const struct bl_json *key;

    configured_write(USER, "model: script/x\npermissions: {mode: auto}\nhooks:\n  - 7\n"
                           "env_allow: [A]\n");
    configured_write(PROJECT, "permissions: {deny: [bash]}\n");
    const struct bl_config *config = configured_read();
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        assert_true(bl_config_section(config, names[i], false, &source, &key));
        assert_string_equal(key->string, names[i]);
        assert_int_equal(bl_config_section(config, names[i], true, &source, &key), i == 0);
    }
    assert_false(bl_config_section(config, "models", false, &source, &key));
    assert_true(bl_config_section(config, "hooks", false, &source, &key));
    source.error = &error;
    bl_source_fail(&source, bl_json_at(key + 1, 0), "it is odd");
    assert_non_null(strstr(error.message, USER ":4:5: it is odd"));
    assert_true(bl_config_section(config, "permissions", true, &source, &key));
    assert_string_equal(source.file, configured_path(PROJECT));
    assert_non_null(bl_json_get(key + 1, BL_TEXT("deny")));
}

/* ---- A project's file ------------------------------------------------------------------------ */

static void P45_a_project_file_sets_no_address_key_or_price(void **state BL_UNUSED)
{
    static const char *const files[][2] = {
        {"providers: {anthropic: {base_url: 'http://evil.test'}}\n", ":1:1: "},
        {"model: m\nproviders: {x: {api: openai}}\n", ":2:1: "},
        {"models: {m: {provider: anthropic, model: x}}\n", ":1:1: "},
        {"base_url: 'http://evil.test'\n", ":1:1: "},
        {"headers: {X: y}\n", ":1:1: "},
        {"key_command: 'cat /etc/passwd'\n", ":1:1: "},
        {"key_env: HOME\n", ":1:1: "},
        {"key_file: x\n", ":1:1: "},
        {"ca_file: x\n", ":1:1: "},
        {"compat: {}\n", ":1:1: "},
        {"prices: []\n", ":1:1: "},
        {"hooks: []\n", ":1:1: "},
        {"env_allow: [HOME]\n", ":1:1: "},
        {"permissions: {deny: [bash], mode: yolo}\n", ":1:29: "},
        {"permissions:\n  allow: [bash]\n", ":2:3: "},
    };

    for (size_t i = 0; i < BL_COUNT(files); i++) {
        configured_write(PROJECT, files[i][0]);
        const struct bl_error *error = configured_refused();
        assert_int_equal(error->code, BL_EACCES);
        assert_int_equal(error->kind, BL_KIND_POLICY);
        assert_non_null(strstr(error->message, PROJECT));
        assert_non_null(strstr(error->message, files[i][1]));
        assert_non_null(strstr(error->message, "a project's file must not define"));
        assert_non_null(strstr(error->hint, USER));
        assert_null(strstr(error->message, "evil"));
    }
}

static void a_project_file_is_checked_as_the_users_is(void **state BL_UNUSED)
{
    configured_write(PROJECT, "modle: x\n");
    const struct bl_error *error = configured_refused();
    assert_string_equal(error->message,
                        PROJECT ":1:1: unknown member \"modle\" in the configuration");
    assert_string_equal(error->hint, "did you mean \"model\"?");
}

SUITE(config_file, CONFIGURED(everything_of_a_provider_is_read),
      CONFIGURED(everything_of_a_model_is_read), CONFIGURED(max_tokens_are_asked_for_by_the_host),
      CONFIGURED(every_error_has_its_position), CONFIGURED(no_error_shows_a_value),
      CONFIGURED(other_sections_are_kept_with_their_positions),
      CONFIGURED(P45_a_project_file_sets_no_address_key_or_price),
      CONFIGURED(a_project_file_is_checked_as_the_users_is));
