#include "suite.h"

static const struct bl_text nothing = {0};

static void texts_come_from_strings(void **state BL_UNUSED)
{
    assert_int_equal(bl_text_from(NULL).size, 0);
    assert_int_equal(bl_text_from("").size, 0);
    assert_int_equal(bl_text_from("abc").size, 3);
    assert_int_equal(BL_TEXT("a\0b").size, 3);
}

static void equality_compares_bytes(void **state BL_UNUSED)
{
    assert_true(bl_text_equal(nothing, BL_TEXT("")));
    assert_true(bl_text_equal(BL_TEXT("a\0b"), BL_TEXT("a\0b")));
    assert_false(bl_text_equal(BL_TEXT("a\0b"), BL_TEXT("a\0c")));
    assert_false(bl_text_equal(BL_TEXT("a"), BL_TEXT("ab")));
    assert_false(bl_text_equal(nothing, BL_TEXT("a")));
    assert_true(bl_text_is(nothing, ""));
    assert_true(bl_text_is(BL_TEXT("ab"), "ab"));
    assert_false(bl_text_is(nothing, "a"));
    assert_false(bl_text_is(BL_TEXT("a"), "ab"));
    assert_false(bl_text_is(BL_TEXT("ab"), "a"));
    assert_false(bl_text_is(BL_TEXT("a\0"), "a"));
}

static void order_is_by_unsigned_bytes_and_shorter_first(void **state BL_UNUSED)
{
    static const char *const ordered[] = {"", "a", "aa", "ab", "b", "\x7F", "\x80", "\xFF"};
    for (size_t i = 0; i < BL_COUNT(ordered); i++) {
        for (size_t j = 0; j < BL_COUNT(ordered); j++) {
            int order = bl_text_compare(bl_text_from(ordered[i]), bl_text_from(ordered[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    assert_int_equal(bl_text_compare(nothing, BL_TEXT("")), 0);
    assert_true(bl_text_compare(nothing, BL_TEXT("a")) < 0);
}

static void prefixes_and_suffixes_are_found(void **state BL_UNUSED)
{
    assert_true(bl_text_starts_with(BL_TEXT("abc"), BL_TEXT("ab")));
    assert_true(bl_text_starts_with(BL_TEXT("abc"), BL_TEXT("abc")));
    assert_true(bl_text_starts_with(BL_TEXT("abc"), nothing));
    assert_true(bl_text_starts_with(nothing, nothing));
    assert_false(bl_text_starts_with(BL_TEXT("abc"), BL_TEXT("abcd")));
    assert_false(bl_text_starts_with(BL_TEXT("abc"), BL_TEXT("b")));
    assert_false(bl_text_starts_with(nothing, BL_TEXT("a")));
    /* The bytes after the text in memory are not part of it. */
    static const char row[] = "abcabcde-";
    assert_true(bl_text_ends_with((struct bl_text){row, 3}, BL_TEXT("bc")));
    assert_true(bl_text_ends_with((struct bl_text){row, 3}, BL_TEXT("abc")));
    assert_false(bl_text_ends_with((struct bl_text){row, 3}, BL_TEXT("de")));
    assert_true(bl_text_ends_with(BL_TEXT("abc"), nothing));
    assert_true(bl_text_ends_with(nothing, nothing));
    assert_false(bl_text_ends_with(BL_TEXT("abc"), BL_TEXT("ab")));
    assert_false(bl_text_ends_with(BL_TEXT("abc"), BL_TEXT("b")));
    assert_false(bl_text_ends_with(BL_TEXT("c"), BL_TEXT("bc")));
}

static void find_gives_the_first_offset(void **state BL_UNUSED)
{
    assert_int_equal(bl_text_find(BL_TEXT("abcabc"), BL_TEXT("bc")), 1);
    assert_int_equal(bl_text_find(BL_TEXT("abc"), BL_TEXT("abc")), 0);
    assert_int_equal(bl_text_find(BL_TEXT("abc"), BL_TEXT("abcd")), -1);
    assert_int_equal(bl_text_find(BL_TEXT("abc"), nothing), 0);
    assert_int_equal(bl_text_find(nothing, nothing), 0);
    assert_int_equal(bl_text_find(nothing, BL_TEXT("a")), -1);
    assert_int_equal(bl_text_find(BL_TEXT("a\0b\0c"), BL_TEXT("\0c")), 3);
}

static ptrdiff_t find_naively(struct bl_text text, struct bl_text needle)
{
    for (size_t i = 0; i + needle.size <= text.size; i++) {
        if (memcmp(text.data + i, needle.data, needle.size) == 0)
            return (ptrdiff_t)i;
    }
    return -1;
}

static void find_agrees_with_a_check_of_every_offset(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 4);
    for (unsigned long i = 0; i < suite_rounds(50000, 1000000); i++) {
        char haystack[80], needle[8];
        struct bl_text text = {haystack, bl_random_below(&random, sizeof haystack)};
        struct bl_text part = {needle, bl_random_below(&random, sizeof needle)};
        for (size_t j = 0; j < text.size; j++)
            haystack[j] = (char)bl_random_below(&random, 3);
        for (size_t j = 0; j < part.size; j++)
            needle[j] = (char)bl_random_below(&random, 3);
        assert_int_equal(bl_text_find(text, part), find_naively(text, part));
    }
}

static void trim_removes_white_space_from_both_ends(void **state BL_UNUSED)
{
    static const struct {
        struct bl_text text;
        struct bl_text trimmed;
    } cases[] = {
        {{" \t\r\n\v\fa b\f\v\n\r\t ", 15}, {"a b", 3}},
        {{"abc", 3}, {"abc", 3}},
        {{"   ", 3}, {"", 0}},
        {{"\b \x0E", 3}, {"\b \x0E", 3}},
        {{"\0a ", 3}, {"\0a", 2}},
        {{"\xA0x\x85", 3}, {"\xA0x\x85", 3}},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_true(bl_text_equal(bl_text_trim(cases[i].text), cases[i].trimmed));
    assert_int_equal(bl_text_trim(nothing).size, 0);
}

/* Splits at commas and joins the parts with bars, each in brackets. */
static const char *split_shown(struct bl_text text)
{
    static char out[256];
    struct bl_text part;
    size_t size = 0;
    while (bl_text_split(&text, ',', &part)) {
        out[size++] = '[';
        memcpy(out + size, part.data, part.size);
        size += part.size;
        out[size++] = ']';
    }
    assert_int_equal(text.size, 0);
    out[size] = '\0';
    return out;
}

static void split_takes_part_after_part(void **state BL_UNUSED)
{
    assert_string_equal(split_shown(BL_TEXT("a,bc,d")), "[a][bc][d]");
    assert_string_equal(split_shown(BL_TEXT("a")), "[a]");
    assert_string_equal(split_shown(BL_TEXT(",a,,b")), "[][a][][b]");
    assert_string_equal(split_shown(BL_TEXT("a,")), "[a]");
    assert_string_equal(split_shown(BL_TEXT("a,,")), "[a][]");
    assert_string_equal(split_shown(BL_TEXT(",")), "[]");
    assert_string_equal(split_shown(BL_TEXT("")), "");
    /* Many callers take only the first part, and do not check whether there was one. */
    struct bl_text empty = {0}, part = BL_TEXT("left from before");
    assert_false(bl_text_split(&empty, ',', &part));
    assert_int_equal(part.size, 0);
    assert_string_equal(split_shown(nothing), "");
}

static void numbers_are_exact_at_both_ends_of_the_range(void **state BL_UNUSED)
{
    static const struct {
        const char *text;
        int result;
        int64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"7", 0, 7},
        {"-7", 0, -7},
        {"007", 0, 7},
        {"0000000000000000000000000000001", 0, 1},
        {"9223372036854775807", 0, INT64_MAX},
        {"9223372036854775808", BL_ERANGE, 0},
        {"-9223372036854775808", 0, INT64_MIN},
        {"-9223372036854775809", BL_ERANGE, 0},
        {"99999999999999999999", BL_ERANGE, 0},
        {"184467440737095516160000", BL_ERANGE, 0},
        {"-99999999999999999999", BL_ERANGE, 0},
        {"99999999999999999999x", BL_EPARSE, 0},
        {"", BL_EPARSE, 0},
        {"-", BL_EPARSE, 0},
        {"--1", BL_EPARSE, 0},
        {"+1", BL_EPARSE, 0},
        {" 1", BL_EPARSE, 0},
        {"1 ", BL_EPARSE, 0},
        {"1.0", BL_EPARSE, 0},
        {"0x1", BL_EPARSE, 0},
        {"1e3", BL_EPARSE, 0},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        int64_t value = 0;
        assert_int_equal(bl_text_to_int64(bl_text_from(cases[i].text), &value), cases[i].result);
        assert_true(value == cases[i].value);
    }
    int64_t untouched = 5;
    assert_int_equal(bl_text_to_int64(nothing, &untouched), BL_EPARSE);
    assert_int_equal(bl_text_to_int64(BL_TEXT("1\0"), &untouched), BL_EPARSE);
    assert_int_equal(untouched, 5);
}

static void a_string_is_truncated_to_its_field_at_a_character(void **state BL_UNUSED)
{
    char field[6];
    bl_text_into(field, sizeof field, "abcde");
    assert_string_equal(field, "abcde");
    bl_text_into(field, sizeof field, "abcdö");
    assert_string_equal(field, "abcd");
    bl_text_into(field, 1, "a");
    assert_string_equal(field, "");
    bl_text_into(field, sizeof field, NULL);
    assert_string_equal(field, "");
}

static void base64_round_trips(void **state BL_UNUSED)
{
    static const char *const broken[] = {"a", "====", "ab=c", "a===", "ab*=", "aaaa=aaa"};
    struct bl_random random;
    struct bl_arena arena = {0};
    struct bl_text back;
    char bytes[64];

    bl_random_seed(&random, 5);
    for (unsigned long round = 0; round < suite_rounds(300, 30000); round++) {
        struct bl_text text = {bytes, round % sizeof bytes};
        struct bl_buffer encoded;
        for (size_t i = 0; i < text.size; i++)
            bytes[i] = (char)bl_random_next(&random);
        bl_buffer_init(&encoded, 200);
        bl_base64_encode(&encoded, text);
        assert_true(bl_base64_decode(&arena, bl_buffer_text(&encoded), &back));
        assert_true(bl_text_equal(text, back));
        bl_buffer_done(&encoded);
        bl_arena_reset(&arena);
    }
    for (size_t i = 0; i < BL_COUNT(broken); i++)
        assert_false(bl_base64_decode(&arena, bl_text_from(broken[i]), &back));
    bl_arena_done(&arena);
}

static void names_are_found_by_value_and_by_name(void **state BL_UNUSED)
{
    static const char *const colours[] = {NULL, "red", "blue"};
    static const struct bl_names names = BL_NAMES(colours);
    size_t value = 7;

    assert_null(bl_names_get(&names, 0));
    assert_string_equal(bl_names_get(&names, 2), "blue");
    assert_null(bl_names_get(&names, 3));
    assert_true(bl_names_find(&names, BL_TEXT("red"), &value));
    assert_int_equal(value, 1);
    assert_false(bl_names_find(&names, BL_TEXT("re"), &value));
    assert_false(bl_names_find(&names, BL_TEXT(""), &value));
    assert_int_equal(value, 1);
}

SUITE(text, cmocka_unit_test(base64_round_trips),
      cmocka_unit_test(a_string_is_truncated_to_its_field_at_a_character),
      cmocka_unit_test(texts_come_from_strings), cmocka_unit_test(equality_compares_bytes),
      cmocka_unit_test(order_is_by_unsigned_bytes_and_shorter_first),
      cmocka_unit_test(prefixes_and_suffixes_are_found),
      cmocka_unit_test(find_gives_the_first_offset),
      cmocka_unit_test(find_agrees_with_a_check_of_every_offset),
      cmocka_unit_test(trim_removes_white_space_from_both_ends),
      cmocka_unit_test(split_takes_part_after_part),
      cmocka_unit_test(numbers_are_exact_at_both_ends_of_the_range),
      cmocka_unit_test(names_are_found_by_value_and_by_name));
