#include "suite.h"
#include "tool/parts.h"

static void valid_text_passes_and_invalid_bytes_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"plain", "plain"},
        {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\xC3", "\xEF\xBF\xBD"},
        {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE2\x82z", "\xEF\xBF\xBD\xEF\xBF\xBDz"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"\xF0\x9F\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        /* Pieces of every size give the same output. */
        size_t size = strlen(cases[i].bytes);
        for (size_t step = 1; step <= size; step++) {
            struct output_filter filter = {0};
            struct bl_buffer out;
            bl_buffer_init(&out, 4096);
            for (size_t at = 0; at < size; at += step) {
                size_t count = size - at < step ? size - at : step;
                output_filter_add(&filter, (struct bl_text){cases[i].bytes + at, count}, &out);
                assert_true(bl_utf8_valid(bl_buffer_text(&out)));
            }
            output_filter_end(&filter, &out);
            assert_true(bl_text_equal(bl_buffer_text(&out), bl_text_from(cases[i].text)));
            bl_buffer_done(&out);
        }
    }
}

static void random_bytes_in_random_pieces_give_valid_text(void **state)
{
    (void)state;
    struct bl_random random;
    struct bl_buffer out, whole;
    char bytes[512];
    bl_random_seed(&random, 5);
    bl_buffer_init(&out, 1 << 20);
    bl_buffer_init(&whole, 1 << 20);
    for (unsigned long round = 0; round < suite_rounds(2000, 200000); round++) {
        struct output_filter filter = {0}, at_once = {0};
        size_t size = bl_random_below(&random, sizeof bytes);
        /* Lead bytes and continuation bytes, mostly. */
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(0x80 + bl_random_below(&random, 0x80));
        bl_buffer_clear(&out);
        bl_buffer_clear(&whole);
        for (size_t at = 0; at < size;) {
            size_t count = 1 + bl_random_below(&random, 5);
            count = count > size - at ? size - at : count;
            output_filter_add(&filter, (struct bl_text){bytes + at, count}, &out);
            at += count;
        }
        output_filter_end(&filter, &out);
        output_filter_add(&at_once, (struct bl_text){bytes, size}, &whole);
        output_filter_end(&at_once, &whole);
        assert_true(bl_utf8_valid(bl_buffer_text(&out)));
        assert_true(bl_text_equal(bl_buffer_text(&out), bl_buffer_text(&whole)));
    }
    bl_buffer_done(&out);
    bl_buffer_done(&whole);
}

SUITE(output, cmocka_unit_test(valid_text_passes_and_invalid_bytes_are_replaced),
      cmocka_unit_test(random_bytes_in_random_pieces_give_valid_text));
