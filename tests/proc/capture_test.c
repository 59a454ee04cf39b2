#include <stdio.h>

#include "helpers.h"

/* Checks what is kept of `total` bytes of the alphabet, added in pieces of `piece` bytes. */
static void check_alphabet(size_t limit, size_t total, size_t piece)
{
    struct bl_capture capture;
    struct bl_buffer out, expected;
    char *all = bl_alloc(total + 1);

    for (size_t i = 0; i < total; i++)
        all[i] = (char)('a' + i % 26);
    bl_capture_init(&capture, limit);
    for (size_t i = 0; i < total; i += piece)
        bl_capture_add(&capture, (struct bl_text){all + i, piece < total - i ? piece : total - i});
    bl_buffer_init(&out, limit + 256);
    bl_buffer_init(&expected, limit + 256);
    if (total <= limit) {
        bl_buffer_append(&expected, (struct bl_text){all, total});
    } else {
        size_t tail = limit / 2, head = limit - tail;
        bl_buffer_append(&expected, (struct bl_text){all, head});
        bl_buffer_printf(&expected, "\n…%zu bytes left out…\n", total - limit);
        bl_buffer_append(&expected, (struct bl_text){all + total - tail, tail});
    }
    assert_int_equal(bl_capture_text(&capture, &out), 0);
    assert_int_equal(capture.total, total);
    assert_int_equal(bl_capture_left_out(&capture), total > limit ? total - limit : 0);
    assert_int_equal(out.size, expected.size);
    assert_true(bl_text_equal(bl_buffer_text(&out), bl_buffer_text(&expected)));
    bl_buffer_done(&out);
    bl_buffer_done(&expected);
    bl_capture_done(&capture);
    bl_free(all);
}

static void head_and_tail_are_kept_and_the_middle_is_counted(void **state)
{
    static const size_t limits[] = {1, 2, 3, 7, 10, 64},
                        totals[] = {0, 1, 2, 3, 6, 7, 8, 63, 64, 65, 100, 129, 1000};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(limits); i++) {
        for (size_t j = 0; j < BL_COUNT(totals); j++) {
            for (size_t piece = 1; piece < 140; piece += piece < 12 ? 1 : 31)
                check_alphabet(limits[i], totals[j], piece);
        }
    }
}

static void a_long_output_costs_no_more_than_its_limit(void **state)
{
    (void)state;
    check_alphabet(65536, 10 << 20, 16384);
    check_alphabet(65536, 10 << 20, 65537);
    check_alphabet(65536, 10 << 20, 10 << 20);
}

static void bytes_stay_as_they_came(void **state)
{
    struct bl_capture capture;
    struct bl_buffer out;
    char bytes[512];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    bl_capture_init(&capture, 1024);
    bl_capture_add(&capture, (struct bl_text){bytes, 200});
    bl_capture_add(&capture, (struct bl_text){NULL, 0});
    bl_capture_add(&capture, (struct bl_text){bytes + 200, 312});
    bl_buffer_init(&out, 4096);
    assert_int_equal(bl_capture_text(&capture, &out), 0);
    assert_int_equal(out.size, sizeof bytes);
    assert_memory_equal(out.data, bytes, sizeof bytes);
    bl_buffer_done(&out);
    bl_capture_done(&capture);
}

static void a_limit_of_nothing_only_counts(void **state)
{
    struct bl_capture capture;
    struct bl_buffer out;
    (void)state;
    bl_capture_init(&capture, 0);
    bl_capture_add(&capture, BL_TEXT("twelve bytes"));
    bl_buffer_init(&out, 4096);
    assert_int_equal(bl_capture_text(&capture, &out), 0);
    assert_int_equal(bl_capture_left_out(&capture), 12);
    assert_true(bl_text_find(bl_buffer_text(&out), BL_TEXT("12 bytes left out")) >= 0);
    bl_buffer_done(&out);
    bl_capture_done(&capture);
}

static void a_buffer_that_is_too_small_is_a_limit(void **state)
{
    struct bl_capture capture;
    struct bl_buffer out;
    (void)state;
    bl_capture_init(&capture, 64);
    bl_capture_add(&capture, BL_TEXT("more than eight bytes"));
    bl_buffer_init(&out, 8);
    assert_int_equal(bl_capture_text(&capture, &out), BL_ELIMIT);
    bl_buffer_done(&out);
    bl_capture_done(&capture);
}

SUITE(capture, cmocka_unit_test(head_and_tail_are_kept_and_the_middle_is_counted),
      cmocka_unit_test(a_long_output_costs_no_more_than_its_limit),
      cmocka_unit_test(bytes_stay_as_they_came), cmocka_unit_test(a_limit_of_nothing_only_counts),
      cmocka_unit_test(a_buffer_that_is_too_small_is_a_limit));
