#include "suite.h"
#include "term/term.h"

#include <locale.h>
#include <wchar.h>

static struct text_cluster first_cluster(const char *string)
{
    struct bl_text text = bl_text_from(string);
    struct text_cluster cluster;

    assert_true(text_cluster_next(&text, &cluster));
    return cluster;
}

static void characters_take_none_one_or_two_columns(void **state)
{
    static const struct {
        uint32_t character;
        unsigned width;
    } rows[] = {
        {'a', 1},     {' ', 1},     {0, 0},        {'\n', 0},    {0x1B, 0},    {0x7F, 0},
        {0x9B, 0},    {0xA0, 1},    {0xAD, 1},     {0xE9, 1},    {0x301, 0},   {0x200B, 0},
        {0x200D, 0},  {0xFE0F, 0},  {0x4E00, 2},   {0x3042, 2},  {0xFF21, 2},  {0xAC00, 2},
        {0x1F600, 2}, {0x20000, 2}, {0x2FA20, 2},  {0x3FFFD, 2}, {0x2500, 1},  {0x2028, 0},
        {0x1160, 0},  {0xE0100, 0}, {0x10FFFF, 1}, {0x1100, 2},  {0x1FAE0, 2}, {0x915, 1},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        suite_fail_if(text_character_width(rows[i].character) != rows[i].width,
                      "U+%04X: %u, not %u", rows[i].character,
                      text_character_width(rows[i].character), rows[i].width);
    }
}

/* Compares with the C library's table, which may be of another version of Unicode. */
static void widths_are_those_of_the_c_library(void **state)
{
    size_t compared = 0, different = 0;

    (void)state;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        suite_skip("missing locale: C.UTF-8");
    for (uint32_t i = 0x20; i < 0x30000; i++) {
        int width = wcwidth((wchar_t)i);
        if (width < 0 || (i >= 0xD800 && i < 0xF900))
            continue;
        compared++;
        if ((unsigned)width != text_character_width(i))
            different++;
    }
    setlocale(LC_CTYPE, "C");
    assert_true(compared > 50000);
    if (different * 200 > compared)
        fail_msg("%zu of %zu differ", different, compared);
}

static void units_drawn_as_one_are_one_cluster(void **state)
{
    static const struct {
        const char *text;
        size_t size; /* of the first cluster */
        unsigned width;
    } rows[] = {
        {"abc", 1, 1},
        {"e\u0301x", 3, 1},                       /* a letter and its mark */
        {"\u6F22\u5B57", 3, 2},                   /* ideographs */
        {"\U0001F600\U0001F600", 4, 2},           /* two faces are two */
        {"\U0001F44D\U0001F3FDx", 8, 2},          /* a skin tone */
        {"\U0001F469\u200D\U0001F680x", 11, 2},   /* joined */
        {"\u2764\uFE0Fx", 6, 2},                  /* shown as a picture */
        {"\u2764x", 3, 1},                        /* and plain */
        {"1\uFE0F\u20E3x", 7, 2},                 /* a key cap */
        {"\U0001F1E9\U0001F1EA\U0001F1EB", 8, 2}, /* a flag, and half of one */
        {"\U0001F1EBx", 4, 1},
        {"\u1100\u1161\u11A8x", 9, 2}, /* a syllable of three */
        {"\u0915\u0940x", 6, 2},       /* a vowel sign that takes a column */
        {"\u0301a", 2, 0},             /* a mark with nothing before it */
        {"\u200Da", 3, 0},
        {"\na", 1, 0},
        {"a\n\u0301", 1, 1},
        {"\n\u0301", 1, 0}, /* a control character takes no marks */
        {"\xFFz", 1, 1},
        {"\xE2\x82z", 1, 1},
        {"a\xCC", 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct text_cluster cluster = first_cluster(rows[i].text);
        if (cluster.bytes.size != rows[i].size || cluster.width != rows[i].width)
            fail_msg("row %zu: %zu bytes, %u columns", i, cluster.bytes.size, cluster.width);
    }
}

static void clusters_cover_any_bytes_and_are_bounded(void **state)
{
    struct bl_random random;
    char bytes[64];

    (void)state;
    bl_random_seed(&random, 11);
    for (unsigned long round = suite_rounds(3000, 100000); round > 0; round--) {
        size_t size = 0;
        while (size < 48 && bl_random_below(&random, 12) != 0) {
            static const uint32_t picks[] = {'a', 0x301, 0x200D, 0x1F469, 0xFE0F, 0x1F1E6, 0x4E00};
            if (bl_random_below(&random, 5) == 0)
                bytes[size++] = (char)bl_random_next(&random);
            else
                size +=
                    bl_utf8_encode(picks[bl_random_below(&random, BL_COUNT(picks))], bytes + size);
        }
        struct bl_text text = {bytes, size}, rest = text;
        struct text_cluster cluster;
        size_t sum = 0, width = 0;
        while (text_cluster_next(&rest, &cluster)) {
            assert_true(cluster.bytes.size > 0 && cluster.bytes.data == bytes + sum);
            sum += cluster.bytes.size;
            width += cluster.width;
        }
        assert_int_equal(sum, size);
        assert_int_equal(text_width(text), width);
        for (size_t columns = 0; columns < 6; columns++) {
            struct bl_text cut = text_cut_width(text, columns);
            assert_true(text_width(cut) <= columns && cut.data == text.data);
        }
    }
}

static void cluster_of_only_marks_is_bounded(void **state)
{
    struct bl_buffer marks;

    (void)state;
    bl_buffer_init(&marks, SIZE_MAX / 2);
    for (int i = 0; i < 1000; i++)
        bl_buffer_append(&marks, BL_TEXT("\u0301"));
    struct bl_text text = bl_buffer_text(&marks);
    struct text_cluster cluster;
    assert_true(text_cluster_next(&text, &cluster));
    assert_true(cluster.bytes.size <= 64);
    bl_buffer_done(&marks);
}

static void text_is_cut_before_a_character_that_does_not_fit(void **state)
{
    struct bl_text text = BL_TEXT("a\u6F22e\u0301z");

    (void)state;
    assert_int_equal(text_width(text), 5);
    assert_int_equal(text_cut_width(text, 0).size, 0);
    assert_int_equal(text_cut_width(text, 2).size, 1);
    assert_int_equal(text_cut_width(text, 3).size, 4);
    assert_int_equal(text_cut_width(text, 4).size, 7);
    assert_int_equal(text_cut_width(text, 5).size, 8);
    assert_int_equal(text_cut_width(text, 99).size, 8);
}

SUITE(width, cmocka_unit_test(characters_take_none_one_or_two_columns),
      cmocka_unit_test(widths_are_those_of_the_c_library),
      cmocka_unit_test(units_drawn_as_one_are_one_cluster),
      cmocka_unit_test(clusters_cover_any_bytes_and_are_bounded),
      cmocka_unit_test(cluster_of_only_marks_is_bounded),
      cmocka_unit_test(text_is_cut_before_a_character_that_does_not_fit));
