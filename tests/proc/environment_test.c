#include "suite.h"

#include <stdlib.h>
#include <unistd.h>

#include <belay/proc.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Scrubs, and compares with what should be left, in order. */
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

static void big_and_small_letters_count_alike(void **state)
{
    (void)state;
    check(LIST("openai_api_key=a", "Github_Token=b", "secret=c", "a=1"), NULL, NULL, LIST("a=1"));
}

static void names_that_only_resemble_a_secret_stay(void **state)
{
    const char *const *kept = LIST("TOKENS=1", "MYTOKEN=2", "TOKEN_FILE=3", "SECRETS_DIR=4",
                                   "APIKEY=5", "MYAPI_KEY=6", "KEY=7", "X=A_TOKEN", "Y=A_TOKEN=z");

    (void)state;
    check(kept, NULL, NULL, kept);
}

static void named_secrets_go_as_well(void **state)
{
    (void)state;
    check(LIST("MY_PASSWORD=a", "my_password=b", "MY_PASSWORD_FILE=c", "MY=d"), LIST("MY_PASSWORD"),
          NULL, LIST("MY_PASSWORD_FILE=c", "MY=d"));
}

static void what_is_allowed_wins(void **state)
{
    (void)state;
    check(LIST("GITHUB_TOKEN=a", "OTHER_TOKEN=b", "KEY=c"), LIST("KEY"),
          LIST("GITHUB_TOKEN", "KEY", "ABSENT"), LIST("GITHUB_TOKEN=a", "KEY=c"));
}

static void allowing_is_to_the_letter(void **state)
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

static void doubles_stay_and_secret_doubles_go(void **state)
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

static void without_one_given_it_is_our_own_and_a_copy(void **state)
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

SUITE(environment, cmocka_unit_test(secrets_are_known_by_the_ends_of_their_names),
      cmocka_unit_test(the_bare_words_are_secrets_too),
      cmocka_unit_test(big_and_small_letters_count_alike),
      cmocka_unit_test(names_that_only_resemble_a_secret_stay),
      cmocka_unit_test(named_secrets_go_as_well), cmocka_unit_test(what_is_allowed_wins),
      cmocka_unit_test(allowing_is_to_the_letter), cmocka_unit_test(malformed_entries_are_dropped),
      cmocka_unit_test(doubles_stay_and_secret_doubles_go), cmocka_unit_test(nothing_gives_nothing),
      cmocka_unit_test(without_one_given_it_is_our_own_and_a_copy));
