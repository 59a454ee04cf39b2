#include "suite.h"

static void check(struct bl_text text, enum bl_show form, const char *expected)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX);
    assert_int_equal(bl_text_show(&out, text, form), 0);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
}

static void escape_sequences_are_made_visible(void **state BL_UNUSED)
{
    check(BL_TEXT("a\x1b[31mb\x1b]0;title\ac\x7f"), BL_SHOW_LINES,
          "a\\x1b[31mb\\x1b]0;title\\x07c\\x7f");
    check(BL_TEXT("\xc2\x9b[2J"), BL_SHOW_LINES, "\\u009b[2J");
    check(BL_TEXT("a\0b"), BL_SHOW_LINES, "a\\x00b");
}

static void direction_marks_are_made_visible(void **state BL_UNUSED)
{
    check(BL_TEXT("a\u202eb\u2066c\u061cd"), BL_SHOW_LINES, "a\\u202eb\\u2066c\\u061cd");
    check(BL_TEXT("שלום ü 漢字 👩‍👩‍👧"), BL_SHOW_LINE,
          "שלום ü 漢字 👩‍👩‍👧");
}

static void terminal_controls_are_unsafe(void **state BL_UNUSED)
{
    static const struct {
        uint32_t first, last;
    } unsafe[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x061C, 0x061C}, {0x200E, 0x200F},
                  {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF}};

    for (size_t i = 0; i < BL_COUNT(unsafe); i++) {
        assert_true(i == 0 || !bl_utf8_unsafe(unsafe[i].first - 1));
        assert_true(bl_utf8_unsafe(unsafe[i].first));
        assert_true(bl_utf8_unsafe(unsafe[i].last));
        assert_false(bl_utf8_unsafe(unsafe[i].last + 1));
    }
}

static void lines_keep_their_breaks_and_a_line_has_none(void **state BL_UNUSED)
{
    check(BL_TEXT("a\tb\r\nc\rd\n"), BL_SHOW_LINES, "a\tb\nc\\rd\n");
    check(BL_TEXT("a\tb\r\nc"), BL_SHOW_LINE, "a\\tb\\r\\nc");
}

static void invalid_bytes_are_replaced(void **state BL_UNUSED)
{
    check(BL_TEXT("a\xff\xe2\x82z"), BL_SHOW_LINES, "a\uFFFD\uFFFD\uFFFDz");
    check(BL_TEXT(""), BL_SHOW_LINE, "");
}

static void a_full_buffer_is_an_error(void **state BL_UNUSED)
{
    struct bl_buffer out;

    bl_buffer_init(&out, 4);
    assert_int_not_equal(bl_text_show(&out, BL_TEXT("ab\x1b"), BL_SHOW_LINE), 0);
    bl_buffer_done(&out);
}

SUITE(show, cmocka_unit_test(escape_sequences_are_made_visible),
      cmocka_unit_test(direction_marks_are_made_visible),
      cmocka_unit_test(terminal_controls_are_unsafe),
      cmocka_unit_test(lines_keep_their_breaks_and_a_line_has_none),
      cmocka_unit_test(invalid_bytes_are_replaced), cmocka_unit_test(a_full_buffer_is_an_error));
