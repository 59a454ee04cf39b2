#include "suite.h"

/* Table 3-7 of the Unicode standard, row by row: the well-formed sequences. */
static const struct row {
    unsigned length;
    unsigned char low[4];
    unsigned char high[4];
} table[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

/* Returns the length of the first sequence according to the table, or 0. `*ret_cut` is true if the
 * sequence is only incomplete. */
static size_t reference_length(const unsigned char *bytes, size_t size, bool *ret_cut)
{
    *ret_cut = false;
    for (size_t i = 0; i < BL_COUNT(table); i++) {
        unsigned j = 0;
        while (j < table[i].length && j < size && bytes[j] >= table[i].low[j] &&
               bytes[j] <= table[i].high[j])
            j++;
        if (j == table[i].length)
            return j;
        if (j == size && size > 0)
            *ret_cut = true;
    }
    return 0;
}

static void check_against_table(const unsigned char *bytes, size_t size)
{
    struct bl_text text = {(const char *)bytes, size};
    size_t prefix = 0, count = 0;
    bool cut = false, got_cut;
    for (size_t length; prefix < size; prefix += length) {
        length = reference_length(bytes + prefix, size - prefix, &cut);
        if (length == 0)
            break;
        cut = false;
    }
    assert_int_equal(bl_utf8_valid_prefix(text, &got_cut), prefix);
    assert_int_equal(bl_utf8_valid_prefix(text, NULL), prefix);
    assert_int_equal(got_cut, cut);
    assert_int_equal(bl_utf8_valid(text), prefix == size);

    for (size_t at = 0; at < size; count++) {
        bool ignored;
        size_t length = reference_length(bytes + at, size - at, &ignored);
        at += length > 0 ? length : 1;
    }
    assert_int_equal(bl_utf8_count(text), count);
}

static void every_code_point_round_trips(void **state BL_UNUSED)
{
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        char bytes[4];
        uint32_t decoded = 0;
        size_t length = bl_utf8_encode(code_point, bytes);
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            assert_true(length == 0);
            continue;
        }
        /* Plain comparisons: a million calls of cmocka are slow. */
        if (length == 0 || bl_utf8_decode((struct bl_text){bytes, length}, &decoded) != length ||
            decoded != code_point || !bl_utf8_valid((struct bl_text){bytes, length}))
            fail_msg("U+%04X", code_point);
    }
    char bytes[4];
    assert_int_equal(bl_utf8_encode(0x110000, bytes), 0);
    assert_int_equal(bl_utf8_encode(UINT32_MAX, bytes), 0);
}

static void all_sequences_of_two_bytes_agree_with_the_table(void **state BL_UNUSED)
{
    for (unsigned i = 0; i < 0x10000; i++)
        check_against_table((unsigned char[]){(unsigned char)(i >> 8), (unsigned char)i}, 2);
}

static void check_first_sequence(const unsigned char *bytes, size_t size)
{
    uint32_t code_point;
    bool cut;
    size_t expected = reference_length(bytes, size, &cut);
    if (bl_utf8_decode((struct bl_text){(const char *)bytes, size}, &code_point) != expected)
        fail_msg("%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
}

/* After each lead, the bytes at the edges of every range in the table. */
static void sequences_at_the_edges_agree_with_the_table(void **state BL_UNUSED)
{
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                          0xA0, 0xBF, 0xC0, 0xC2, 0xF4, 0xFF};
    const size_t count = BL_COUNT(edges);
    for (unsigned lead = 0x7F; lead < 0x100; lead++) {
        for (size_t i = 0; i < count * count * count; i++) {
            unsigned char bytes[4] = {(unsigned char)lead, edges[i / count / count],
                                      edges[i / count % count], edges[i % count]};
            check_first_sequence(bytes, 4);
            check_first_sequence(bytes, 3);
            if (bytes[3] == 0x80) {
                check_against_table(bytes, 3);
                check_against_table(bytes, 4);
            }
        }
    }
}

/* Mostly well-formed text, so that later positions are reached, with a byte changed or removed. */
static void random_texts_agree_with_the_table(void **state BL_UNUSED)
{
    struct bl_random random;
    bl_random_seed(&random, 5);
    for (unsigned long i = 0; i < suite_rounds(30000, 1000000); i++) {
        unsigned char bytes[80];
        size_t size = 0, wanted = bl_random_below(&random, 70);
        while (size < wanted) {
            static const uint32_t limits[] = {0x80, 0x80, 0x80, 0x800, 0x10000, 0x110000};
            uint32_t limit = limits[bl_random_below(&random, BL_COUNT(limits))];
            size += bl_utf8_encode((uint32_t)bl_random_below(&random, limit), (char *)bytes + size);
        }
        if (size > 0 && bl_random_below(&random, 2) == 0)
            bytes[bl_random_below(&random, size)] = (unsigned char)bl_random_next(&random);
        size_t start = bl_random_below(&random, size < 8 ? size + 1 : 8);
        size -= start;
        check_against_table(bytes + start, size - (size > 0 ? bl_random_below(&random, 2) : 0));
    }
}

static void an_invalid_byte_is_found_at_every_offset_of_a_long_text(void **state BL_UNUSED)
{
    char bytes[64];
    for (size_t size = 0; size <= sizeof bytes; size++) {
        memset(bytes, 'a', sizeof bytes);
        assert_true(bl_utf8_valid((struct bl_text){bytes, size}));
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (char)0x80;
            assert_int_equal(bl_utf8_valid_prefix((struct bl_text){bytes, size}, NULL), i);
            bytes[i] = 'a';
        }
    }
}

static void an_empty_text_is_valid_and_has_no_code_point(void **state BL_UNUSED)
{
    uint32_t code_point = 7;
    bool cut = true;
    assert_true(bl_utf8_valid((struct bl_text){0}));
    assert_int_equal(bl_utf8_valid_prefix((struct bl_text){0}, &cut), 0);
    assert_false(cut);
    assert_int_equal(bl_utf8_decode((struct bl_text){0}, &code_point), 0);
    assert_int_equal(bl_utf8_decode(BL_TEXT("\xC3"), &code_point), 0);
    assert_int_equal(code_point, 7);
    assert_int_equal(bl_utf8_count((struct bl_text){0}), 0);
    assert_int_equal(bl_utf8_cut((struct bl_text){0}, 5).size, 0);
}

static void a_nul_byte_is_a_code_point(void **state BL_UNUSED)
{
    uint32_t code_point = 7;
    assert_int_equal(bl_utf8_decode(BL_TEXT("\0x"), &code_point), 1);
    assert_int_equal(code_point, 0);
    assert_int_equal(bl_utf8_count(BL_TEXT("a\0b")), 3);
}

static void a_cut_falls_between_code_points(void **state BL_UNUSED)
{
    /* Offsets at which a code point begins: 0, 1, 3, 6, 10, 11. */
    static const struct bl_text text = {"aé€😀b", 11};
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t i = 0; i < BL_COUNT(expected); i++) {
        struct bl_text kept = bl_utf8_cut(text, i);
        assert_int_equal(kept.size, expected[i]);
        assert_ptr_equal(kept.data, text.data);
    }
    assert_int_equal(bl_utf8_cut(text, SIZE_MAX).size, 11);
}

static void a_text_that_ends_inside_a_code_point_is_cut_before_it(void **state BL_UNUSED)
{
    assert_int_equal(bl_utf8_cut(BL_TEXT("ab\xF0\x9F\x98"), 100).size, 2);
    assert_int_equal(bl_utf8_cut(BL_TEXT("ab\xE2"), 100).size, 2);
    assert_int_equal(bl_utf8_cut(BL_TEXT("\xE2\x82"), 2).size, 0);
}

static void invalid_bytes_do_not_shorten_a_cut(void **state BL_UNUSED)
{
    assert_int_equal(bl_utf8_cut(BL_TEXT("\x80\x80\x80\x80\x80"), 4).size, 4);
    assert_int_equal(bl_utf8_cut(BL_TEXT("ab\xFF\xFE"), 3).size, 3);
    assert_int_equal(bl_utf8_cut(BL_TEXT("a\xED\xA0\x80"), 3).size, 3);
}

SUITE(utf8, cmocka_unit_test(every_code_point_round_trips),
      cmocka_unit_test(all_sequences_of_two_bytes_agree_with_the_table),
      cmocka_unit_test(sequences_at_the_edges_agree_with_the_table),
      cmocka_unit_test(random_texts_agree_with_the_table),
      cmocka_unit_test(an_invalid_byte_is_found_at_every_offset_of_a_long_text),
      cmocka_unit_test(an_empty_text_is_valid_and_has_no_code_point),
      cmocka_unit_test(a_nul_byte_is_a_code_point),
      cmocka_unit_test(a_cut_falls_between_code_points),
      cmocka_unit_test(a_text_that_ends_inside_a_code_point_is_cut_before_it),
      cmocka_unit_test(invalid_bytes_do_not_shorten_a_cut));
