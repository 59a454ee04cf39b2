#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage.h"

static const char *config_file(void)
{
    return stage_path("config/belay/config.yaml");
}

static void put(const char *text)
{
    mkdir(stage_path("config/belay"), 0700);
    FILE *file = fopen(config_file(), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char *held(void)
{
    static char text[4096];
    FILE *file = fopen(config_file(), "rb");
    size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

static void setting_a_member_keeps_comments_and_order(void **state BL_UNUSED)
{
    struct stat status;
    struct run run;

    put("# mine\nmodel: small   # for now\n\nmodels:\n  # local\n  small: {provider: ollama, "
        "model: "
        "qwen}\n  large:\n    provider: ollama\n    model: big # yes\npermissions:\n  mode: ask\n");
    RUN(&run, "config", "set", "model", "large");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "config", "set", "models.large.context_window", "8000");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "config", "set", "models.small.images", "true");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "config", "set", "models.small.model", "qwen-2");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "config", "set", "permissions.allow", "[\"bash(git *)\"]");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "config", "set", "providers.local.api", "openai");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(
        held(),
        "# mine\nmodel: large   # for now\n\nmodels:\n  # local\n  small: {provider: ollama, "
        "model: qwen-2, images: true}\n  large:\n    provider: ollama\n    model: big # yes\n"
        "    context_window: 8000\npermissions:\n  mode: ask\n  allow: [\"bash(git *)\"]\n"
        "providers:\n  local:\n    api: openai\n");
    assert_int_equal(stat(config_file(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    RUN(&run, "config", "get", "model");
    assert_string_equal(run.out, "large\n");
    RUN(&run, "config", "get", "permissions");
    assert_string_equal(run.out, "{\"mode\":\"ask\",\"allow\":[\"bash(git *)\"]}\n");
}

static void a_value_that_does_not_fit_changes_nothing(void **state BL_UNUSED)
{
    struct run run;

    RUN(&run, "config", "set", "modle", "x");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean \"model\"?"));
    assert_non_null(strstr(run.err, "config/belay/config.yaml:1:1: "));
    assert_false(stage_exists(config_file()));
    put("model: a/b\n");
    RUN(&run, "config", "set", "permissions.mode", "sometimes");
    assert_int_equal(run.exit_code, 1);
    RUN(&run, "config", "set", "permissions.allow", "[Bash]");
    assert_int_equal(run.exit_code, 1);
    RUN(&run, "config", "set", "providers.anthropic.key", "sk-ant-secret-0123");
    assert_int_equal(run.exit_code, 1);
    assert_null(strstr(run.err, "sk-ant-secret"));
    assert_string_equal(held(), "model: a/b\n");
    RUN(&run, "config", "get", "modl");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean 'model'?"));
}

static void values_of_headers_are_not_printed(void **state BL_UNUSED)
{
    static const char *const keys[] = {"providers", "providers.l", "providers.l.headers",
                                       "providers.l.headers.x-team"};
    struct run run;

    put("providers: {l: {api: openai, base_url: \"http://h.test\", headers: {x-team: "
        "hush-0123}}}\n");
    RUN(&run, "config", "get");
    assert_int_equal(run.exit_code, 0);
    assert_null(strstr(run.out, "hush"));
    for (size_t i = 0; i < BL_COUNT(keys); i++) {
        RUN(&run, "config", "get", keys[i]);
        assert_int_equal(run.exit_code, 0);
        assert_null(strstr(run.out, "hush"));
        assert_non_null(strstr(run.out, "[hidden]"));
    }
}

static void edited_text_is_checked(void **state BL_UNUSED)
{
    struct run run;
    const char *const words[] = {"config", "edit", NULL};
    const char *const wrong[] = {"VISUAL=printf 'modle: x' >", NULL};
    const char *const right[] = {"VISUAL=sed -i s/modle/model/", NULL};
    const char *const failing[] = {"VISUAL=false", NULL};

    put("model: a/b\n");
    runner_run_with(&run, words, wrong, RUN_KEEP);
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "did you mean \"model\"?"));
    assert_string_equal(held(), "model: a/b\n");
    /* The next `edit` continues with the same text. */
    runner_run_with(&run, words, right, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(held(), "model: x");
    runner_run_with(&run, words, failing, RUN_KEEP);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(held(), "model: x");
    RUN(&run, "config", "path");
    assert_string_equal(run.out, stage_printf("%s\n", config_file()));
}

SUITE(config, STAGED(setting_a_member_keeps_comments_and_order),
      STAGED(a_value_that_does_not_fit_changes_nothing), STAGED(values_of_headers_are_not_printed),
      STAGED(edited_text_is_checked));
