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

static void a_beginning_means_the_whole(void **state)
{
    (void)state;
    assert_string_equal(suggest("doc"), "doctor");
    assert_string_equal(suggest("s"), "session");
}

static void a_name_with_something_behind_it_means_the_name(void **state)
{
    (void)state;
    assert_string_equal(suggest("sessions"), "session");
}

static void two_edits_are_near(void **state)
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

static void a_short_word_does_not_mean_every_other(void **state)
{
    (void)state;
    assert_null(suggest("xy"));
    assert_null(suggest("ls"));
}

static void nothing_and_very_long_words_mean_nothing(void **state)
{
    char word[1000];

    (void)state;
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    assert_null(suggest(""));
    assert_null(suggest(word));
}

SUITE(suggest, cmocka_unit_test(a_beginning_means_the_whole),
      cmocka_unit_test(a_name_with_something_behind_it_means_the_name),
      cmocka_unit_test(two_edits_are_near), cmocka_unit_test(three_edits_are_far),
      cmocka_unit_test(a_short_word_does_not_mean_every_other),
      cmocka_unit_test(nothing_and_very_long_words_mean_nothing));
