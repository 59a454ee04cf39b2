#include "term/term.h"

#include "suite.h"

static const struct text_style plain, bold = {.bold = true}, red = {.colour = TEXT_RED},
                                      bold_red = {.bold = true, .colour = TEXT_RED};

static struct bl_buffer out;
static struct text_wrap wrap;

static void begin(size_t columns, bool colours)
{
    bl_buffer_init(&out, SIZE_MAX / 2);
    text_wrap_init(&wrap, &out, columns, colours);
}

/* Ends the line, and compares. */
static void expect(const char *lines)
{
    text_wrap_end_line(&wrap);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, lines);
    text_wrap_done(&wrap);
    bl_buffer_done(&out);
}

static void add(const char *text, const struct text_style *style)
{
    text_wrap_add(&wrap, bl_text_from(text), style);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void lines_are_broken_at_blanks(void **state)
{
    (void)state;
    begin(10, false);
    add("one two three four", &plain);
    expect("one two\nthree four\n");
    begin(10, false);
    add("  led \t by   blanks  ", &plain);
    expect("led by\nblanks\n");
}

static void overlong_word_is_broken_anywhere(void **state)
{
    (void)state;
    begin(6, false);
    add("ab abcdefghijklmnop yz", &plain);
    expect("ab\nabcdef\nghijkl\nmnop\nyz\n");
}

static void a_line_feed_ends_the_line(void **state)
{
    (void)state;
    begin(20, false);
    add("one\n\ntwo\n", &plain);
    expect("one\n\ntwo\n");
}

static void word_may_arrive_in_pieces(void **state)
{
    (void)state;
    begin(8, false);
    add("one th", &plain);
    add("re", &bold);
    add("e four", &plain);
    expect("one\nthree\nfour\n");
}

static void wide_characters_are_broken_between(void **state)
{
    (void)state;
    begin(6, false);
    add("日本語の文章", &plain);
    expect("日本語\nの文章\n");
    begin(5, false);
    add("日本語", &plain);
    expect("日本\n語\n");
}

static void indents_precede_each_line(void **state)
{
    (void)state;
    begin(10, false);
    wrap.first_indent = BL_TEXT("- ");
    wrap.indent = BL_TEXT("  ");
    wrap.indent_width = 2;
    add("one two three\n\nfour", &plain);
    expect("- one two\n  three\n\n  four\n");
}

static void indent_without_room_is_omitted(void **state)
{
    (void)state;
    begin(5, false);
    wrap.first_indent = wrap.indent = BL_TEXT("    ");
    wrap.indent_width = 4;
    add("one two", &plain);
    expect("one\ntwo\n");
}

/* ---- Styles ---------------------------------------------------------------------------------- */

static void each_line_ends_without_a_style(void **state)
{
    (void)state;
    begin(8, true);
    add("one two three", &red);
    add(" four", &plain);
    expect("\x1b[31mone two\x1b[0m\n\x1b[31mthree\x1b[0m\nfour\n");
}

static void styles_are_changed_with_few_sequences(void **state)
{
    (void)state;
    begin(40, true);
    add("a", &plain);
    add("b", &bold);
    add("c", &bold_red);
    add("d", &red);
    add("e", &plain);
    expect("a\x1b[1mb\x1b[31mc\x1b[0;31md\x1b[0me\n");
}

static void without_colours_there_is_no_sequence(void **state)
{
    (void)state;
    begin(40, false);
    add("a", &bold);
    add("b", &red);
    expect("ab\n");
}

/* ---- Untrusted text -------------------------------------------------------------------------- */

static void control_characters_are_replaced(void **state)
{
    (void)state;
    begin(40, true);
    add("a\x1b[31mb\x07\x7f\xc2\x9b"
        "1mc",
        &plain);
    text_wrap_add(&wrap, BL_TEXT("\0d\xff"), &plain);
    expect("a\xEF\xBF\xBD[31mb\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
           "1mc\xEF\xBF\xBD"
           "d\xEF\xBF\xBD\n");
}

static void direction_changes_are_replaced(void **state)
{
    (void)state;
    begin(40, false);
    add("a\xE2\x80\xAE"
        "b\xE2\x81\xA6"
        "c\xE2\x80\xA8"
        "d",
        &plain);
    expect("a\xEF\xBF\xBD"
           "b\xEF\xBF\xBD"
           "c\xEF\xBF\xBD"
           "d\n");
}

static void letters_keep_their_marks(void **state)
{
    (void)state;
    begin(4, false);
    add("e\xCC\x81"
        "e\xCC\x81"
        "e\xCC\x81"
        "e\xCC\x81"
        "e\xCC\x81",
        &plain);
    expect("e\xCC\x81"
           "e\xCC\x81"
           "e\xCC\x81"
           "e\xCC\x81"
           "\n"
           "e\xCC\x81\n");
}

/* ---- Verbatim text --------------------------------------------------------------------------- */

static void literal_text_keeps_its_blanks(void **state)
{
    (void)state;
    begin(20, false);
    text_wrap_add_literal(&wrap, BL_TEXT("  if (a)\n\n\tb;\n"), &plain);
    expect("  if (a)\n\n    b;\n");
}

static void literal_lines_are_broken_anywhere(void **state)
{
    (void)state;
    begin(5, false);
    text_wrap_add_literal(&wrap, BL_TEXT("ab cdefg 日本"), &plain);
    expect("ab cd\nefg \n日本\n");
}

/* ---- One line -------------------------------------------------------------------------------- */

static void check_line(size_t columns, const char *text, const char *wanted)
{
    struct text_line line;

    bl_buffer_init(&out, SIZE_MAX / 2);
    text_line_init(&line, &out, columns, false);
    text_line_add(&line, bl_text_from(text), &plain);
    text_line_end(&line);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void a_single_line_is_cut_with_an_ellipsis(void **state)
{
    (void)state;
    check_line(5, "abcde", "abcde\n");
    check_line(5, "abcdef", "abcd…\n");
    check_line(5, "a\nb\tc", "a b c\n");
    check_line(5, "日本語", "日本…\n");
    check_line(4, "日本語", "日…\n");
    check_line(1, "abc", "…\n");
    check_line(9, "\x1b[0m", "\xEF\xBF\xBD[0m\n");
}

static void a_cut_line_ends_without_a_style(void **state)
{
    struct text_line line;

    (void)state;
    bl_buffer_init(&out, SIZE_MAX / 2);
    text_line_init(&line, &out, 4, true);
    text_line_add(&line, BL_TEXT("ab"), &plain);
    text_line_add(&line, BL_TEXT("cdef"), &red);
    text_line_add(&line, BL_TEXT("more"), &bold);
    text_line_end(&line);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, "ab\x1b[31mc…\x1b[0m\n");
    bl_buffer_done(&out);
}

static void the_last_lines_are_found(void **state)
{
    (void)state;
    struct bl_text text = BL_TEXT("a\nb\nc\n");
    assert_true(bl_text_equal(text_last_lines(text, 0), BL_TEXT("")));
    assert_true(bl_text_equal(text_last_lines(text, 1), BL_TEXT("c\n")));
    assert_true(bl_text_equal(text_last_lines(text, 2), BL_TEXT("b\nc\n")));
    assert_true(bl_text_equal(text_last_lines(text, 3), text));
    assert_true(bl_text_equal(text_last_lines(text, 9), text));
    assert_true(bl_text_equal(text_last_lines(BL_TEXT("\n\n"), 1), BL_TEXT("\n")));
}

static void line_width_excludes_escape_sequences(void **state)
{
    (void)state;
    assert_int_equal(text_line_width(BL_TEXT("a\x1b[1;31mb日\x1b[0m")), 4);
}

/* ---- Any text -------------------------------------------------------------------------------- */

static const char *const scraps[] = {"a",
                                     "word",
                                     " ",
                                     "  ",
                                     "\n",
                                     "\t",
                                     "日",
                                     "本語",
                                     "é",
                                     "👍",
                                     "👩‍👧",
                                     "e\xCC\x81",
                                     "🇩🇪",
                                     "\x1b[2J",
                                     "\x07",
                                     "\xff",
                                     "\xE2\x80\xAE",
                                     "\xEF\xB8\x8F",
                                     "❤",
                                     "ไทย",
                                     "longer-word-than-most-lines-have-room-for",
                                     "\r",
                                     "\xCC\x81",
                                     "\xE0\xA4\xBE",
                                     "\xE2\x80\x8D",
                                     "|",
                                     "1"};

/* Adds everything but white space, escape sequences and combining marks. */
static void add_letters(struct bl_buffer *letters, struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte == '\x1b') {
            while (i < text.size && text.data[i] != 'm')
                i++;
        } else if (byte > ' ' && byte < 0x7f) {
            bl_buffer_append_byte(letters, (char)byte);
        }
    }
}

static void check_lines(struct bl_text text, size_t columns, bool colours)
{
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        assert_true(text_line_width(line) <= columns);
        const char *last = line.size == 0 ? NULL : memrchr(line.data, '\x1b', line.size);
        assert_true(colours || last == NULL);
        assert_true(last == NULL || memcmp(last, "\x1b[0m", 4) == 0);
    }
}

static void any_text_stays_within_its_columns_and_loses_nothing(void **state)
{
    static const struct text_style *const styles[] = {&plain, &bold, &red, &bold_red};
    unsigned long rounds = suite_rounds(3000, 300000);
    struct bl_random random;
    struct bl_buffer given, got;

    (void)state;
    bl_random_seed(&random, 6);
    bl_buffer_init(&given, SIZE_MAX / 2);
    bl_buffer_init(&got, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        size_t columns = 4 + bl_random_below(&random, 40);
        bool colours = bl_random_below(&random, 2) == 0;
        begin(columns, colours);
        wrap.first_indent = BL_TEXT("> ");
        wrap.indent = BL_TEXT("  ");
        wrap.indent_width = 2;
        bl_buffer_clear(&given);
        bl_buffer_clear(&got);
        for (uint64_t count = bl_random_below(&random, 40); count > 0; count--) {
            struct bl_text scrap = bl_text_from(scraps[bl_random_below(&random, BL_COUNT(scraps))]);
            const struct text_style *style = styles[bl_random_below(&random, BL_COUNT(styles))];
            if (bl_random_below(&random, 8) == 0)
                text_wrap_add_literal(&wrap, scrap, style);
            else
                text_wrap_add(&wrap, scrap, style);
            /* An untrusted escape sequence loses its ESC, and the rest is text. */
            add_letters(&given, scrap.data[0] == '\x1b' ? BL_TEXT("[2J") : scrap);
        }
        text_wrap_end_line(&wrap);
        check_lines(bl_buffer_text(&out), columns, colours);
        add_letters(&got, bl_buffer_text(&out));
        /* The first indent's own mark. */
        struct bl_text letters = bl_buffer_text(&got);
        if (letters.size > 0 && columns >= 6) {
            letters.data++;
            letters.size--;
        }
        assert_true(bl_text_equal(letters, bl_buffer_text(&given)));
        text_wrap_done(&wrap);
        bl_buffer_done(&out);
    }
    bl_buffer_done(&given);
    bl_buffer_done(&got);
}

SUITE(wrap, cmocka_unit_test(lines_are_broken_at_blanks),
      cmocka_unit_test(overlong_word_is_broken_anywhere),
      cmocka_unit_test(a_line_feed_ends_the_line), cmocka_unit_test(word_may_arrive_in_pieces),
      cmocka_unit_test(wide_characters_are_broken_between),
      cmocka_unit_test(indents_precede_each_line), cmocka_unit_test(indent_without_room_is_omitted),
      cmocka_unit_test(each_line_ends_without_a_style),
      cmocka_unit_test(styles_are_changed_with_few_sequences),
      cmocka_unit_test(without_colours_there_is_no_sequence),
      cmocka_unit_test(control_characters_are_replaced),
      cmocka_unit_test(direction_changes_are_replaced), cmocka_unit_test(letters_keep_their_marks),
      cmocka_unit_test(literal_text_keeps_its_blanks),
      cmocka_unit_test(literal_lines_are_broken_anywhere),
      cmocka_unit_test(a_single_line_is_cut_with_an_ellipsis),
      cmocka_unit_test(a_cut_line_ends_without_a_style), cmocka_unit_test(the_last_lines_are_found),
      cmocka_unit_test(line_width_excludes_escape_sequences),
      cmocka_unit_test(any_text_stays_within_its_columns_and_loses_nothing));
