#include <belay/wire.h>

#include "suite.h"

#define LINE_MAX ((size_t)64)

/* The lines received, each followed by a bar. */
struct taken {
    struct bl_buffer lines;
    unsigned count;
    unsigned fail_at; /* 0: never */
};

static int take(void *context, struct bl_text line)
{
    struct taken *taken = context;

    assert_int_equal(bl_buffer_append(&taken->lines, line), 0);
    assert_int_equal(bl_buffer_append_byte(&taken->lines, '|'), 0);
    return ++taken->count == taken->fail_at ? BL_EBUSY : 0;
}

static void begin(struct bl_lines *lines, struct taken *taken)
{
    *taken = (struct taken){.fail_at = 0};
    bl_buffer_init(&taken->lines, 1u << 20);
    bl_lines_init(lines, LINE_MAX);
}

static void finish(struct bl_lines *lines, struct taken *taken, struct bl_text expected)
{
    struct bl_text got = bl_buffer_text(&taken->lines);

    if (!bl_text_equal(got, expected))
        fail_msg("lines \"" BL_TEXT_FORMAT "\", expected \"" BL_TEXT_FORMAT "\"", BL_TEXT_ARG(got),
                 BL_TEXT_ARG(expected));
    bl_buffer_done(&taken->lines);
    bl_lines_done(lines);
}

static const struct {
    struct bl_text bytes;
    struct bl_text lines;
} cases[] = {
    {BL_TEXT("a\nb\n"), BL_TEXT("a|b|")},
    {BL_TEXT("a\rb\r"), BL_TEXT("a|b|")},
    {BL_TEXT("a\r\nb\r\n"), BL_TEXT("a|b|")},
    {BL_TEXT("a\n\rb\n"), BL_TEXT("a||b|")},
    {BL_TEXT("\n\n\r\r\r\n"), BL_TEXT("|||||")},
    {BL_TEXT("a\0b\nc"), BL_TEXT("a\0b|c|")},
    {BL_TEXT("no end"), BL_TEXT("no end|")},
    {BL_TEXT("\r\n\n"), BL_TEXT("||")},
    {BL_TEXT("a\r\r\n\nb\nc\rd\n\r\n"), BL_TEXT("a|||b|c|d||")},
    {BL_TEXT(""), BL_TEXT("")},
    {BL_TEXT("\xEF\xBB\xBF{}\n"), BL_TEXT("\xEF\xBB\xBF{}|")},
};

static void lines_end_at_lf_cr_and_crlf_wherever_the_pieces_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_text bytes = cases[i].bytes;
        for (size_t first = 0; first <= bytes.size; first++) {
            for (size_t second = first; second <= bytes.size; second++) {
                struct bl_lines lines;
                struct taken taken;
                begin(&lines, &taken);
                struct bl_text pieces[] = {{bytes.data, first},
                                           {bytes.data + first, second - first},
                                           {bytes.data + second, bytes.size - second}};
                for (size_t j = 0; j < BL_COUNT(pieces); j++)
                    assert_int_equal(bl_lines_feed(&lines, pieces[j], take, &taken), 0);
                assert_int_equal(bl_lines_end(&lines, take, &taken), 0);
                finish(&lines, &taken, cases[i].lines);
            }
        }
    }
}

static void a_cr_at_the_end_of_a_piece_ends_its_line_at_once(void **state)
{
    (void)state;
    struct bl_lines lines;
    struct taken taken;

    begin(&lines, &taken);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("one\r"), take, &taken), 0);
    assert_int_equal(taken.count, 1);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT(""), take, &taken), 0);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("\n"), take, &taken), 0);
    assert_int_equal(taken.count, 1);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("\n"), take, &taken), 0);
    assert_int_equal(taken.count, 2);
    finish(&lines, &taken, BL_TEXT("one||"));
}

static void a_line_over_the_limit_is_refused_whole_or_in_pieces(void **state)
{
    (void)state;
    struct bl_lines lines;
    struct taken taken;
    char text[LINE_MAX + 2];

    memset(text, 'x', sizeof text);
    text[LINE_MAX] = '\n';
    begin(&lines, &taken);
    assert_int_equal(bl_lines_feed(&lines, (struct bl_text){text, LINE_MAX + 1}, take, &taken), 0);
    assert_int_equal(taken.count, 1);
    for (size_t i = 0; i <= LINE_MAX; i++)
        assert_int_equal(bl_lines_feed(&lines, (struct bl_text){text + i, 1}, take, &taken), 0);
    assert_int_equal(taken.count, 2);

    text[LINE_MAX] = 'x';
    text[LINE_MAX + 1] = '\n';
    assert_int_equal(bl_lines_feed(&lines, (struct bl_text){text, LINE_MAX + 2}, take, &taken),
                     BL_ELIMIT);
    assert_int_equal(bl_lines_feed(&lines, (struct bl_text){text, LINE_MAX}, take, &taken), 0);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("x"), take, &taken), BL_ELIMIT);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("x\n"), take, &taken), BL_ELIMIT);
    assert_int_equal(taken.count, 2);
    bl_buffer_done(&taken.lines);
    bl_lines_done(&lines);
}

static void result_of_the_callback_ends_the_feed(void **state)
{
    (void)state;
    struct bl_lines lines;
    struct taken taken;

    begin(&lines, &taken);
    taken.fail_at = 2;
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("a\nb\nc\n"), take, &taken), BL_EBUSY);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("d"), take, &taken), 0);
    taken.fail_at = 3;
    assert_int_equal(bl_lines_end(&lines, take, &taken), BL_EBUSY);
    assert_int_equal(bl_lines_end(&lines, take, &taken), 0);
    finish(&lines, &taken, BL_TEXT("a|b|d|"));
}

static void a_long_line_leaves_its_memory_behind(void **state)
{
    (void)state;
    struct bl_lines lines;
    struct taken taken = {.fail_at = 0};
    struct bl_text part = BL_TEXT("0123456789abcdef");

    bl_buffer_init(&taken.lines, 4u << 20);
    bl_lines_init(&lines, 2u << 20);
    for (unsigned i = 0; i < 65536; i++)
        assert_int_equal(bl_lines_feed(&lines, part, take, &taken), 0);
    assert_true(lines.pending.capacity >= 1u << 20);
    assert_int_equal(bl_lines_feed(&lines, BL_TEXT("\n"), take, &taken), 0);
    assert_int_equal(taken.lines.size, 65536u * 16 + 1);
    assert_int_equal(lines.pending.capacity, 0);
    bl_buffer_done(&taken.lines);
    bl_lines_done(&lines);
}

SUITE(line, cmocka_unit_test(lines_end_at_lf_cr_and_crlf_wherever_the_pieces_are_cut),
      cmocka_unit_test(a_cr_at_the_end_of_a_piece_ends_its_line_at_once),
      cmocka_unit_test(a_line_over_the_limit_is_refused_whole_or_in_pieces),
      cmocka_unit_test(result_of_the_callback_ends_the_feed),
      cmocka_unit_test(a_long_line_leaves_its_memory_behind));
