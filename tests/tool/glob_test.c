#include "../../src/tool/parts.h"
#include "suite.h"

static bool fits(const char *glob, const char *text)
{
    return glob_match(bl_text_from(glob), bl_text_from(text));
}

static void stars_stand_for_any_bytes_and_the_rest_for_itself(void **state)
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

static void a_star_after_a_blank_at_the_end_stands_for_no_argument_too(void **state)
{
    (void)state;
    assert_true(fits("make *", "make"));
    assert_true(fits("make *", "make test"));
    assert_false(fits("make *", "maker"));
    assert_false(fits("make*x *", "make"));
    assert_true(fits("make*x *", "make x"));
}

/* A matcher that goes back to try again would need years for this. */
static void many_stars_over_a_long_text_take_no_time(void **state)
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

SUITE(glob, cmocka_unit_test(stars_stand_for_any_bytes_and_the_rest_for_itself),
      cmocka_unit_test(a_star_after_a_blank_at_the_end_stands_for_no_argument_too),
      cmocka_unit_test(many_stars_over_a_long_text_take_no_time));
