#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <belay/proc.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Scrubs an environment, and compares the result in order. */
static void check(const char *const *environment, const char *const *secrets,
                  const char *const *allow, const char *const *expected)
{
    struct bl_arena arena = {0};
    const char *const *result = bl_environment_scrub(&arena, environment, secrets, allow);
    size_t i = 0;

    for (; expected[i] != NULL; i++) {
        assert_non_null(result[i]);
        assert_string_equal(result[i], expected[i]);
    }
    assert_null(result[i]);
    bl_arena_done(&arena);
}

static void secrets_are_known_by_the_ends_of_their_names(void **state)
{
    (void)state;
    check(LIST("PATH=/bin", "OPENAI_API_KEY=a", "GITHUB_TOKEN=b", "OAUTH_CLIENT_SECRET=c",
               "HOME=/root"),
          NULL, NULL, LIST("PATH=/bin", "HOME=/root"));
}

static void the_bare_words_are_secrets_too(void **state)
{
    (void)state;
    check(LIST("API_KEY=a", "TOKEN=b", "SECRET=c", "_TOKEN=d", "A=1"), NULL, NULL, LIST("A=1"));
}

static void names_match_regardless_of_case(void **state)
{
    (void)state;
    check(LIST("openai_api_key=a", "Github_Token=b", "secret=c", "a=1"), NULL, NULL, LIST("a=1"));
}

static void names_that_only_resemble_a_secret_stay(void **state)
{
    const char *const *kept =
        LIST("TOKENS=1", "MAX_TOKENS=1", "MYTOKEN=2", "TOKEN_FILE=3", "SECRETS_DIR=4", "MONKEY=5",
             "PATH=/bin", "PWD=/", "OLDPWD=/", "KEYBOARD=de", "XAUTHORITY=/x",
             "TOKENIZERS_PARALLELISM=1", "SSH_ASKPASS=/x", "COMPASS=1", "AUTHOR=me",
             "GIT_AUTHOR_NAME=me", "AWS_REGION=eu", "DB_PASSWORD_FILE=/x", "X=A_TOKEN",
             "Y=A_TOKEN=z", "PATTERN=1", "KEY_REPEAT=1", "DISPLAY=:0", "LS_COLORS=*.key=1");

    (void)state;
    check(kept, NULL, NULL, kept);
}

static void common_secrets_are_known_by_their_names(void **state)
{
    (void)state;
    check(LIST("AWS_SECRET_ACCESS_KEY=a", "AWS_ACCESS_KEY_ID=b", "AWS_SESSION_TOKEN=c",
               "AWS_CONTAINER_CREDENTIALS_FULL_URI=d", "DB_PASSWORD=e", "PGPASSWORD=f",
               "MYSQL_PWD=g", "GH_PAT=h", "OPENAI_KEY=i", "SSH_AUTH_SOCK=/j", "SECRET_KEY_BASE=k",
               "GOOGLE_APPLICATION_CREDENTIALS=/l", "DATABASE_URL=m", "SENTRY_DSN=n",
               "npm_config__auth=o", "DBUS_SESSION_BUS_ADDRESS=p", "GPG_AGENT_INFO=q",
               "BORG_PASSPHRASE=r", "GITHUB_TOKEN_RO=s", "APIKEY=t", "DB_PWD=u", "CI_JOB_JWT=v",
               "SMTP_CREDS=w", "BEARER=x", "SESSION_COOKIE=y", "ACCESSTOKEN=z",
               "DJANGO_SECRETKEY=z", "BELAY_STORE=postgres://db/belay", "A=1"),
          NULL, NULL, LIST("A=1"));
}

static void a_url_with_a_password_is_a_secret_whatever_its_name(void **state)
{
    (void)state;
    check(LIST("HTTPS_PROXY=http://me:pw@proxy:3128", "REDIS=redis://:pw@host/0",
               "TWO=http://a http://me:p@b", "P=http://proxy:3128", "Q=ssh://git@host/x",
               "R=http://host/a:b@c", "S=http://me:@host"),
          NULL, NULL,
          LIST("P=http://proxy:3128", "Q=ssh://git@host/x", "R=http://host/a:b@c",
               "S=http://me:@host"));
}

/* The tables in docs/agents.md and in the code are equal. */
static void documentation_lists_every_pattern(void **state)
{
    char path[4096], quoted[64];
    const char *root = getenv("BELAY_SOURCE_ROOT");

    (void)state;
    snprintf(path, sizeof path, "%s/docs/agents.md", root != NULL ? root : ".");
    struct bl_text docs = suite_read_file(path);
    size_t start = (size_t)bl_text_find(docs, BL_TEXT("### Secrets"));
    assert_true(start < docs.size);
    struct bl_text section = {docs.data + start, docs.size - start};
    for (const char *const *pattern = bl_environment_secrets; *pattern != NULL; pattern++) {
        snprintf(quoted, sizeof quoted, "`%s`", *pattern);
        if (bl_text_find(section, bl_text_from(quoted)) < 0)
            fail_msg("docs/agents.md does not list %s", *pattern);
    }
    bl_free((void *)docs.data);
}

static void named_secrets_go_as_well(void **state)
{
    (void)state;
    check(LIST("MY_WORD=a", "my_word=b", "MY_WORD_FILE=c", "MY=d"), LIST("MY_WORD"), NULL,
          LIST("MY_WORD_FILE=c", "MY=d"));
}

static void what_is_allowed_wins(void **state)
{
    (void)state;
    check(LIST("GITHUB_TOKEN=a", "OTHER_TOKEN=b", "KEY=c"), LIST("KEY"),
          LIST("GITHUB_TOKEN", "KEY", "ABSENT"), LIST("GITHUB_TOKEN=a", "KEY=c"));
}

static void allowed_names_match_exactly(void **state)
{
    (void)state;
    check(LIST("GITHUB_TOKEN=a", "github_token=b"), NULL, LIST("github_token"),
          LIST("github_token=b"));
}

static void malformed_entries_are_dropped(void **state)
{
    (void)state;
    check(LIST("NO_EQUALS", "", "=nameless", "EMPTY=", "A=1"), NULL, NULL, LIST("EMPTY=", "A=1"));
}

static void duplicates_are_kept_unless_they_are_secret(void **state)
{
    (void)state;
    check(LIST("A=1", "A_TOKEN=1", "A=2", "A_TOKEN=2"), NULL, NULL, LIST("A=1", "A=2"));
}

static void nothing_gives_nothing(void **state)
{
    static const char *const none[] = {NULL};

    (void)state;
    check(none, none, none, none);
}

static void null_copies_this_processs_environment(void **state)
{
    struct bl_arena arena = {0};
    bool found = false;

    (void)state;
    assert_int_equal(setenv("BELAY_ENVIRONMENT_TEST", "kept", 1), 0);
    assert_int_equal(setenv("BELAY_ENVIRONMENT_TEST_TOKEN", "gone", 1), 0);
    const char *const *result = bl_environment_scrub(&arena, NULL, NULL, NULL);
    unsetenv("BELAY_ENVIRONMENT_TEST");
    unsetenv("BELAY_ENVIRONMENT_TEST_TOKEN");
    for (; *result != NULL; result++) {
        found = found || strcmp(*result, "BELAY_ENVIRONMENT_TEST=kept") == 0;
        assert_null(strstr(*result, "BELAY_ENVIRONMENT_TEST_TOKEN"));
        for (char **own = environ; *own != NULL; own++)
            assert_ptr_not_equal(*own, *result);
    }
    assert_true(found);
    bl_arena_done(&arena);
}

static void added_variables_replace_those_of_the_same_name(void **state)
{
    const char *const *environment = LIST("A=1", "AB=2", "C=3");
    BL_AUTO_ARENA(arena);

    (void)state;
    assert_ptr_equal(bl_environment_add(&arena, environment, NULL), environment);
    const char *const *all = bl_environment_add(&arena, environment, LIST("A=4", "D="));
    const char *const *expected = LIST("AB=2", "C=3", "A=4", "D=");
    for (size_t i = 0; expected[i] != NULL; i++)
        assert_string_equal(all[i], expected[i]);
    assert_null(all[4]);
}

SUITE(environment, cmocka_unit_test(added_variables_replace_those_of_the_same_name),
      cmocka_unit_test(secrets_are_known_by_the_ends_of_their_names),
      cmocka_unit_test(the_bare_words_are_secrets_too),
      cmocka_unit_test(names_match_regardless_of_case),
      cmocka_unit_test(names_that_only_resemble_a_secret_stay),
      cmocka_unit_test(common_secrets_are_known_by_their_names),
      cmocka_unit_test(a_url_with_a_password_is_a_secret_whatever_its_name),
      cmocka_unit_test(documentation_lists_every_pattern),
      cmocka_unit_test(named_secrets_go_as_well), cmocka_unit_test(what_is_allowed_wins),
      cmocka_unit_test(allowed_names_match_exactly),
      cmocka_unit_test(malformed_entries_are_dropped),
      cmocka_unit_test(duplicates_are_kept_unless_they_are_secret),
      cmocka_unit_test(nothing_gives_nothing),
      cmocka_unit_test(null_copies_this_processs_environment));
