#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"

#define KEY "sk-ant-test-0123456789abcdef"

/* Installs a secret-tool that stores its input in a file. */
static const char *keyring(const char *body)
{
    const char *folder = stage_path("tools");

    mkdir(folder, 0755);
    FILE *file = fopen(stage_printf("%s/secret-tool", folder), "wb");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    fclose(file);
    chmod(stage_printf("%s/secret-tool", folder), 0755);
    return stage_printf("PATH=%s:%s", folder, getenv("PATH"));
}

static const char *key_file(void)
{
    return stage_path("config/belay/keys/anthropic");
}

static void key_is_stored_in_a_private_file_and_used(void **state BL_UNUSED)
{
    const char *const answers[] = {TALK_TEXT("Hello."), NULL};
    struct stat status;
    struct run run;
    struct talk talking = {
        .answers = answers,
        .config = "providers: {anthropic: {base_url: ADDRESS}}\n",
        .arguments = TALK_WORDS("run", "--model", "anthropic/m", "--json", "hello"),
    };

    RUN(&run, "login", "--no-keyring", "--with-key-from", stage_file("key", KEY "\n"));
    assert_int_equal(run.exit_code, 0);
    assert_null(strstr(run.out, KEY));
    assert_int_equal(stat(key_file(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    talk(&talking);
    assert_int_equal(talking.run.exit_code, 0);
    assert_non_null(strstr(talking.heads[0], "x-api-key: " KEY));
    RUN(&run, "logout");
    assert_int_equal(run.exit_code, 0);
    assert_false(stage_exists(key_file()));
    RUN(&run, "logout");
    assert_int_equal(run.exit_code, 1);
}

static void a_key_is_kept_in_the_keyring_where_it_works(void **state BL_UNUSED)
{
    struct run run;
    const char *path = keyring("case $1 in\n"
                               "store) [ \"$*\" = \"store --label=belay: key of anthropic service "
                               "belay provider anthropic\" ] && cat >\"$HOME/ring\";;\n"
                               "lookup) cat \"$HOME/ring\";;\n"
                               "clear) rm \"$HOME/ring\";;\nesac");
    const char *const environment[] = {path, NULL};
    const char *const login[] = {"login", "--with-key-from", stage_file("key", KEY), NULL};
    const char *const logout[] = {"logout", NULL};

    runner_run_with(&run, login, environment, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "in the keyring"));
    assert_false(stage_exists(key_file()));
    assert_true(stage_exists(stage_printf("%s.keyring", key_file())));
    runner_run_with(&run, logout, environment, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_false(stage_exists(stage_printf("%s.keyring", key_file())));
}

static void broken_keyring_is_skipped(void **state BL_UNUSED)
{
    struct run run;
    const char *path = keyring("cat >/dev/null; [ $1 = store ]");
    const char *const environment[] = {path, NULL};
    const char *const words[] = {"login", "--with-key-from", stage_file("key", KEY), NULL};

    runner_run_with(&run, words, environment, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "keys/anthropic.\n"));
    assert_true(stage_exists(key_file()));
}

static void invalid_key_is_refused_and_not_shown(void **state BL_UNUSED)
{
    static const char *const wrong[] = {"", "sk-ant-two words", "sk-proj-0123456789",
                                        "sk-ant-\xC3\xA9"};
    struct run run;

    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        RUN(&run, "login", "--no-keyring", "--with-key-from", stage_file("key", wrong[i]));
        assert_int_equal(run.exit_code, 1);
        assert_true(wrong[i][0] == '\0' || strstr(run.err, wrong[i]) == NULL);
        assert_false(stage_exists(key_file()));
    }
    RUN(&run, "login", "anthropc", "--with-key-from", "-");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "unknown provider 'anthropc'"));
    assert_non_null(strstr(run.err, "did you mean 'anthropic'?"));
    RUN(&run, "login");
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err, "--with-key-from"));
}

SUITE(login, STAGED(key_is_stored_in_a_private_file_and_used),
      STAGED(a_key_is_kept_in_the_keyring_where_it_works), STAGED(broken_keyring_is_skipped),
      STAGED(invalid_key_is_refused_and_not_shown));
