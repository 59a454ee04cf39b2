#include "suite.h"

static const char *suggest(const char *word)
{
    static const char *const names[] = {"run", "chat", "session", "doctor", "help"};
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, word);
    for (size_t i = 0; i < BL_COUNT(names); i++)
        bl_suggestion_offer(&suggestion, names[i]);
    return suggestion.best;
}

static void a_prefix_suggests_the_name(void **state)
{
    (void)state;
    assert_string_equal(suggest("doc"), "doctor");
    assert_string_equal(suggest("s"), "session");
}

static void a_name_with_a_suffix_suggests_the_name(void **state)
{
    (void)state;
    assert_string_equal(suggest("sessions"), "session");
}

static void two_edits_are_close(void **state)
{
    (void)state;
    assert_string_equal(suggest("docter"), "doctor");
    assert_string_equal(suggest("dotcor"), "doctor");
    assert_string_equal(suggest("odctro"), "doctor");
    assert_string_equal(suggest("hlep"), "help");
    assert_string_equal(suggest("ession"), "session");
}

static void three_edits_are_far(void **state)
{
    (void)state;
    assert_null(suggest("dactary"));
    assert_null(suggest("frobnicate"));
}

static void a_short_word_does_not_suggest_every_other(void **state)
{
    (void)state;
    assert_null(suggest("xy"));
    assert_null(suggest("ls"));
}

static void the_closest_name_wins_and_then_the_first(void **state)
{
    static const struct {
        const char *word, *names[4], *best;
    } rows[] = {
        {"abcdef", {"abxdxf", "abcdxf"}, "abcdxf"},
        {"abcdef", {"abcdxf", "abxdxf"}, "abcdxf"},
        {"abcdef", {"abcdxf", "xbcdef"}, "abcdxf"},
        {"abcdef", {"abcdxf", "abc", "ab"}, "abc"},
        {"abcd", {"abxy"}, "abxy"},
        {"abc", {"axy"}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_suggestion suggestion;
        bl_suggestion_init(&suggestion, rows[i].word);
        for (size_t j = 0; rows[i].names[j] != NULL; j++)
            bl_suggestion_offer(&suggestion, rows[i].names[j]);
        if (rows[i].best == NULL)
            assert_null(suggestion.best);
        else
            assert_string_equal(suggestion.best, rows[i].best);
    }
}

static void words_over_64_bytes_are_not_compared(void **state)
{
    char word[66], name[66];

    (void)state;
    for (size_t size = 64; size <= 65; size++) {
        struct bl_suggestion suggestion;
        memset(word, 'x', size);
        memset(name, 'x', size);
        word[0] = 'y';
        word[size] = name[size] = '\0';
        bl_suggestion_init(&suggestion, word);
        bl_suggestion_offer(&suggestion, name);
        assert_int_equal(suggestion.best != NULL, size == 64);
    }
}

static void empty_and_very_long_words_suggest_nothing(void **state)
{
    char word[1000];

    (void)state;
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    assert_null(suggest(""));
    assert_null(suggest(word));
}

SUITE(suggest, cmocka_unit_test(a_prefix_suggests_the_name),
      cmocka_unit_test(a_name_with_a_suffix_suggests_the_name),
      cmocka_unit_test(two_edits_are_close), cmocka_unit_test(three_edits_are_far),
      cmocka_unit_test(a_short_word_does_not_suggest_every_other),
      cmocka_unit_test(the_closest_name_wins_and_then_the_first),
      cmocka_unit_test(words_over_64_bytes_are_not_compared),
      cmocka_unit_test(empty_and_very_long_words_suggest_nothing));
