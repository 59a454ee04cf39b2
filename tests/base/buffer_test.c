#include "suite.h"

static void an_empty_append_is_fine(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 0);
    assert_int_equal(bl_buffer_append(&buffer, (struct bl_text){0}), 0);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("")), 0);
    assert_int_equal(bl_buffer_printf(&buffer, "%s", ""), 0);
    assert_int_equal(bl_buffer_text(&buffer).size, 0);
    bl_buffer_done(&buffer);
}

static void a_buffer_fills_to_its_maximum_and_not_beyond(void **state BL_UNUSED)
{
    for (size_t maximum = 0; maximum < 300; maximum += 7) {
        struct bl_buffer buffer;
        bl_buffer_init(&buffer, maximum);
        for (size_t i = 0; i < maximum; i++)
            assert_int_equal(bl_buffer_append_byte(&buffer, 'a'), 0);
        assert_int_equal(bl_buffer_append_byte(&buffer, 'b'), BL_ELIMIT);
        assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("b")), BL_ELIMIT);
        assert_int_equal(bl_buffer_printf(&buffer, "b"), BL_ELIMIT);
        assert_int_equal(bl_buffer_reserve(&buffer, 1), BL_ELIMIT);
        assert_int_equal(buffer.size, maximum);
        assert_true(buffer.capacity <= maximum);
        bl_buffer_done(&buffer);
    }
}

static void an_append_over_the_maximum_adds_nothing(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 10);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("12345")), 0);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("678901")), BL_ELIMIT);
    assert_int_equal(bl_buffer_printf(&buffer, "%d", 678901), BL_ELIMIT);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("67890")), 0);
    assert_memory_equal(buffer.data, "1234567890", 10);
    bl_buffer_done(&buffer);
}

static void capacity_doubles(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    size_t growths = 0, capacity = 0;
    bl_buffer_init(&buffer, SIZE_MAX);
    for (size_t i = 0; i < 1000000; i++) {
        assert_int_equal(bl_buffer_append_byte(&buffer, (char)i), 0);
        if (buffer.capacity != capacity) {
            assert_true(capacity == 0 || buffer.capacity == 2 * capacity);
            growths++;
        }
        capacity = buffer.capacity;
    }
    assert_true(growths < 20);
    for (size_t i = 0; i < 1000000; i++)
        assert_int_equal(buffer.data[i], (char)i);
    bl_buffer_done(&buffer);
}

static void sizes_that_would_overflow_exceed_the_limit(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 1000);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("abc")), 0);
    assert_int_equal(bl_buffer_reserve(&buffer, SIZE_MAX), BL_ELIMIT);
    assert_int_equal(bl_buffer_reserve(&buffer, SIZE_MAX - 2), BL_ELIMIT);
    assert_int_equal(bl_buffer_append(&buffer, (struct bl_text){"x", SIZE_MAX}), BL_ELIMIT);
    assert_int_equal(buffer.size, 3);
    bl_buffer_done(&buffer);
}

static void reserve_makes_room_that_can_be_written(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 5000);
    assert_int_equal(bl_buffer_reserve(&buffer, 0), 0);
    assert_non_null(buffer.data);
    assert_int_equal(bl_buffer_reserve(&buffer, 5000), 0);
    memset(buffer.data, 1, 5000);
    buffer.size = 5000;
    assert_int_equal(bl_buffer_reserve(&buffer, 0), 0);
    bl_buffer_done(&buffer);
}

static void printf_appends_what_fits_exactly(void **state BL_UNUSED)
{
    for (int width = 1; width < 200; width++) {
        struct bl_buffer buffer;
        bl_buffer_init(&buffer, 1 + (size_t)width);
        assert_int_equal(bl_buffer_append_byte(&buffer, '>'), 0);
        assert_int_equal(bl_buffer_printf(&buffer, "%*d", width, 7), 0);
        assert_int_equal(buffer.size, 1 + width);
        assert_int_equal(buffer.data[width], '7');
        assert_int_equal(bl_buffer_printf(&buffer, "%d", 1), BL_ELIMIT);
        bl_buffer_done(&buffer);
    }
}

static void consume_drops_from_the_front(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 100);
    bl_buffer_consume(&buffer, 5);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("0123456789")), 0);
    bl_buffer_consume(&buffer, 0);
    bl_buffer_consume(&buffer, 4);
    assert_true(bl_text_equal(bl_buffer_text(&buffer), BL_TEXT("456789")));
    bl_buffer_consume(&buffer, 100);
    assert_int_equal(buffer.size, 0);
    bl_buffer_done(&buffer);
}

static void clear_keeps_the_memory_and_done_leaves_it_usable(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 100);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("abc")), 0);
    size_t capacity = buffer.capacity;
    bl_buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer.capacity, capacity);
    bl_buffer_done(&buffer);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("abc")), 0);
    bl_buffer_done(&buffer);
}

static void a_buffer_can_be_appended_to_itself(void **state BL_UNUSED)
{
    struct bl_buffer buffer;
    bl_buffer_init(&buffer, 1 << 20);
    assert_int_equal(bl_buffer_append(&buffer, BL_TEXT("0123456789")), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(bl_buffer_append(&buffer, bl_buffer_text(&buffer)), 0);
    assert_int_equal(buffer.size, 10240);
    for (size_t i = 0; i < buffer.size; i++)
        assert_int_equal(buffer.data[i], '0' + i % 10);
    bl_buffer_done(&buffer);
}

SUITE(buffer, cmocka_unit_test(an_empty_append_is_fine),
      cmocka_unit_test(a_buffer_fills_to_its_maximum_and_not_beyond),
      cmocka_unit_test(an_append_over_the_maximum_adds_nothing), cmocka_unit_test(capacity_doubles),
      cmocka_unit_test(sizes_that_would_overflow_exceed_the_limit),
      cmocka_unit_test(reserve_makes_room_that_can_be_written),
      cmocka_unit_test(printf_appends_what_fits_exactly),
      cmocka_unit_test(consume_drops_from_the_front),
      cmocka_unit_test(clear_keeps_the_memory_and_done_leaves_it_usable),
      cmocka_unit_test(a_buffer_can_be_appended_to_itself));
