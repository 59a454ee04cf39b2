#include "suite.h"
#include "tool/parts.h"

static bool fits(const char *glob, const char *text)
{
    return glob_match(bl_text_from(glob), bl_text_from(text));
}

static void star_matches_any_bytes_and_other_bytes_match_themselves(void **state)
{
    (void)state;
    assert_true(fits("git status", "git status"));
    assert_false(fits("git status", "git statu"));
    assert_false(fits("git status", "git status "));
    assert_true(fits("git *", "git log --oneline"));
    assert_false(fits("git *", "gitk x"));
    assert_true(fits("*", ""));
    assert_true(fits("*", "anything; at\nall"));
    assert_true(fits("**", "a/b/c"));
    assert_true(fits("mcp__*__read", "mcp__files__read"));
    assert_false(fits("mcp__*__read", "mcp__read"));
    assert_true(fits("a*b*c", "abc"));
    assert_true(fits("a*b*c", "a--b--b--c"));
    assert_false(fits("a*b*c", "a--c--b"));
    assert_false(fits("ab*ba", "aba"));
    assert_true(fits("a.[?", "a.[?"));
    assert_false(fits("a?c", "abc"));
    assert_false(fits("", "x"));
    assert_true(fits("", ""));
}

static void trailing_star_after_a_blank_also_matches_no_argument(void **state)
{
    (void)state;
    assert_true(fits("make *", "make"));
    assert_true(fits("make *", "make test"));
    assert_false(fits("make *", "maker"));
    assert_false(fits("make*x *", "make"));
    assert_true(fits("make*x *", "make x"));
}

/* A backtracking matcher would need years for this. */
static void many_stars_over_a_long_text_take_linear_time(void **state)
{
    (void)state;
    size_t size = 100000;
    char *text = bl_alloc(size), glob[64] = "";
    memset(text, 'a', size);
    for (size_t i = 0; i < 30; i++)
        memcpy(glob + 2 * i, "*a", 2);
    memcpy(glob + 60, "*b", 3);
    for (int i = 0; i < 1000; i++)
        assert_false(glob_match(bl_text_from(glob), (struct bl_text){text, size}));
    bl_free(text);
}

static bool path_fits(const char *glob, const char *path)
{
    return glob_match_path(bl_text_from(glob), bl_text_from(path));
}

static void star_stays_within_a_folder_and_two_stars_do_not(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *path;
        bool fits;
    } cases[] = {
        {"a.c", "a.c", true},
        {"a.c", "src/a.c", false},
        {"*.c", "a.c", true},
        {"*.c", "src/a.c", false},
        {"*", "a", true},
        {"*", "a/b", false},
        {"**", "a", true},
        {"**", "a/b/c", true},
        {"**/a.c", "a.c", true},
        {"**/a.c", "x/y/a.c", true},
        {"**/a.c", "xa.c", false},
        {"**/*.pem", "a.pem", true},
        {"**/*.pem", "k/l/a.pem", true},
        {"**/*.pem", "k/a.pem/b", false},
        {"src/**", "src/a/b.c", true},
        {"src/**", "src/a", true},
        {"src/**", "src", true},
        {"src/**", "srcs/a", false},
        {"src/**", "a/src/b", false},
        {"src/**/*.c", "src/a.c", true},
        {"src/**/*.c", "src/x/y/a.c", true},
        {"src/**/*.c", "src/x/y/a.h", false},
        {"src/*/a.c", "src/x/a.c", true},
        {"src/*/a.c", "src/x/y/a.c", false},
        {"src/*/a.c", "src/a.c", false},
        {"a/**/b/**/c", "a/b/c", true},
        {"a/**/b/**/c", "a/x/b/y/z/c", true},
        {"a/**/b/**/c", "a/x/y/c", false},
        {"a*b*c/d", "aXbYc/d", true},
        {"a*b*c/d", "aX/bYc/d", false},
        {"a**z", "a/b/z", true},
        {"*a*/b", "xaya/b", true},
        {"src/", "src", true},
        {"src/", "src/a/b", true},
        {"src/", "srcs", false},
        {"*/", "x/y", true},
        {"./src/*.c", "src/a.c", true},
        {"/etc/**", "/etc/a/b", true},
        {"/etc/*", "/etc/a/b", false},
        {"/**", "/etc", true},
        {"/**", "etc", false},
        {"/", "/etc", true},
        {"a?[b", "a?[b", true},
        {"a?c", "abc", false},
        {"", "a", false},
        {"a", "", false},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        suite_fail_if(path_fits(cases[i].glob, cases[i].path) != cases[i].fits, "%s: %s",
                      cases[i].glob, cases[i].path);
}

/* The specification, tried in every way: the oracle for the test above. */
static bool fits_slowly(const char *glob, const char *path, bool begins)
{
    if (*glob == '\0')
        return *path == '\0';
    if (glob[0] == '*' && glob[1] == '*') {
        bool folders = begins && glob[2] == '/';
        const char *rest = glob + (folders ? 3 : 2);
        for (const char *at = path;; at++) {
            bool start = at == path || at[-1] == '/';
            if ((!folders || start) && fits_slowly(rest, at, folders))
                return true;
            if (*at == '\0')
                return false;
        }
    }
    if (*glob == '*') {
        for (const char *at = path;; at++) {
            if (fits_slowly(glob + 1, at, false))
                return true;
            if (*at == '\0' || *at == '/')
                return false;
        }
    }
    return *glob == *path && fits_slowly(glob + 1, path + 1, *glob == '/');
}

static void path_matches_agree_with_exhaustive_search(void **state)
{
    (void)state;
    static const char *const pieces[] = {"*", "**", "/", "a", "b", "**/", "/**", "a/"};
    struct bl_random random;
    unsigned long rounds = suite_rounds(30000, 3000000), fitting = 0;
    bl_random_seed(&random, 7);
    for (unsigned long round = 0; round < rounds; round++) {
        char glob[32] = "", path[16] = "";
        size_t size = 0;
        for (size_t i = bl_random_below(&random, 6); i > 0; i--) {
            const char *piece = pieces[bl_random_below(&random, BL_COUNT(pieces))];
            memcpy(glob + size, piece, strlen(piece) + 1);
            size += strlen(piece);
        }
        for (size_t i = 0, length = bl_random_below(&random, 9); i < length; i++)
            path[i] = "ab/a"[bl_random_below(&random, 4)];
        /* Patterns for folders have their own rule. */
        if (strstr(glob, "***") != NULL || (size > 0 && glob[size - 1] == '/') ||
            (size > 2 && strcmp(glob + size - 3, "/**") == 0))
            continue;
        bool expected = fits_slowly(glob, path, true);
        suite_fail_if(path_fits(glob, path) != expected, "'%s': '%s': %d", glob, path, expected);
        fitting += expected;
    }
    print_message("           %lu of %lu fit\n", fitting, rounds);
}

SUITE(glob, cmocka_unit_test(star_matches_any_bytes_and_other_bytes_match_themselves),
      cmocka_unit_test(trailing_star_after_a_blank_also_matches_no_argument),
      cmocka_unit_test(many_stars_over_a_long_text_take_linear_time),
      cmocka_unit_test(star_stays_within_a_folder_and_two_stars_do_not),
      cmocka_unit_test(path_matches_agree_with_exhaustive_search));
