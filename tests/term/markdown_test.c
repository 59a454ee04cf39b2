#include "term/term.h"

#include "markdown_text.h"
#include "suite.h"

static void check_lines(struct bl_text text, size_t columns, bool colours)
{
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        const char *last = line.size == 0 ? NULL : memrchr(line.data, '\x1b', line.size);
        assert_true(text_line_width(line) <= columns);
        assert_true(colours || last == NULL);
        assert_true(last == NULL || memcmp(last, "\x1b[0m", 4) == 0);
    }
}

/* Renders a whole text at once, through the stream. */
static void stream_whole(struct bl_text text, size_t columns, bool colours, struct bl_buffer *out)
{
    struct markdown *markdown = markdown_new(columns, colours);

    markdown_add(markdown, text);
    markdown_end(markdown);
    markdown_take_lines(markdown, out);
    markdown_free(markdown);
    check_lines(bl_buffer_text(out), columns, colours);
}

static void expect_at(size_t columns, bool colours, const char *text, const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    stream_whole(bl_text_from(text), columns, colours, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void expect(const char *text, const char *wanted)
{
    expect_at(40, false, text, wanted);
}

/* ---- Appearance ------------------------------------------------------------------------------ */

static void paragraphs_are_wrapped_and_keep_their_line_breaks(void **state)
{
    (void)state;
    expect("A paragraph that is longer than one line of forty columns.\nIts second line.\n\nNext.",
           "A paragraph that is longer than one line\n"
           "of forty columns.\n"
           "Its second line.\n"
           "\n"
           "Next.\n");
}

static void headings_are_bold_or_keep_their_marks(void **state)
{
    (void)state;
    expect("# One\n## Two\ntext\n\nThree\n---\n", "# One\n\n## Two\n\ntext\n\n## Three\n");
    expect_at(40, true, "# One\n\n## Two *x*\n",
              "\x1b[1;4mOne\x1b[0m\n"
              "\n"
              "\x1b[1mTwo \x1b[3mx\x1b[0m\n");
}

static void emphasis_keeps_its_marks_without_colours(void **state)
{
    (void)state;
    expect("*a* **b** ~~c~~ `d`", "*a* **b** ~~c~~ `d`\n");
    expect_at(40, true, "*a* **b** ~~c~~ `d`",
              "\x1b[3ma\x1b[0m \x1b[1mb\x1b[0m \x1b[9mc\x1b[0m \x1b[36md\x1b[0m\n");
}

static void lists_have_bullets_numbers_and_hanging_indents(void **state)
{
    (void)state;
    expect("- one that is long enough to be wrapped once\n"
           "- two\n"
           "  - nested\n"
           "    1. deeper\n"
           "    2. and on\n"
           "- [ ] open\n"
           "- [x] done\n",
           "• one that is long enough to be wrapped\n"
           "  once\n"
           "• two\n"
           "  ◦ nested\n"
           "    1. deeper\n"
           "    2. and on\n"
           "[ ] open\n"
           "[x] done\n");
    expect("9) a\n10) b\n\n    para\n", "9) a\n\n10) b\n\n    para\n");
    expect("-\n- x\n", "•\n• x\n");
}

static void quotes_have_a_bar(void **state)
{
    (void)state;
    expect("> quoted and long enough to be wrapped here\n>\n> > inner\n\nafter",
           "│ quoted and long enough to be wrapped\n"
           "│ here\n"
           "│\n"
           "│ │ inner\n"
           "\n"
           "after\n");
}

static void code_is_indented_below_its_language(void **state)
{
    (void)state;
    expect("Run:\n```sh\nmake  test\n\n\techo \"$x\"\n```\nthen.", "Run:\n"
                                                                   "\n"
                                                                   "  sh\n"
                                                                   "    make  test\n"
                                                                   "\n"
                                                                   "        echo \"$x\"\n"
                                                                   "\n"
                                                                   "then.\n");
    expect("- item\n  ```\n  code\n  ```\n", "• item\n      code\n");
    expect("```\nlong code lines are broken anywhere, not at blanks\n```",
           "    long code lines are broken anywhere,\n"
           "     not at blanks\n");
    expect("  ~~~ c\n    two\n ```\n  ~~~\nend", "  c\n      two\n    ```\n\nend\n");
}

static void links_show_their_address_if_the_text_does_not(void **state)
{
    (void)state;
    expect_at(60, false, "[text](https://x.test/a) https://y.test <me@z.test> www.w.test",
              "text (https://x.test/a) https://y.test me@z.test www.w.test\n");
    expect_at(60, false, "![alt *x*](p.png) [https://x.test](https://x.test)",
              "[image: alt *x*] (p.png) https://x.test\n");
}

static void references_that_are_defined_elsewhere_are_shown(void **state)
{
    (void)state;
    expect("See [text][1].\n\n[1]: https://x.test\n[2]: https://y.test\n",
           "See [text][1].\n\n[1]: https://x.test\n[2]: https://y.test\n");
    expect("See [text][1].\n[1]: not a definition here",
           "See [text][1].\n[1]: not a definition here\n");
}

static void html_is_text_and_entities_are_characters(void **state)
{
    (void)state;
    expect("<div>\n*a*<br>b <b>c</b>\n</div>", "<div>\n*a*\nb <b>c</b>\n</div>\n");
    expect("&lt;&#65;&#x42;&gt; &copy; &unknown; &#0; &#27;[1m",
           "<AB> © &unknown; \xEF\xBF\xBD \xEF\xBF\xBD[1m\n");
}

static void rules_span_the_width(void **state)
{
    (void)state;
    expect_at(8, false, "a\n\n---\n\nb\n***\nc", "a\n\n────────\n\nb\n\n────────\n\nc\n");
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const char table[] = "| Name | Size | What |\n"
                            "|:-----|-----:|:----:|\n"
                            "| a.c  | 12 | `code` and *more* |\n"
                            "| other.c | 1234 | x |\n";

static void tables_are_laid_out_in_columns(void **state)
{
    (void)state;
    expect(table, "Name    │ Size │       What\n"
                  "────────┼──────┼──────────────────\n"
                  "a.c     │   12 │ `code` and *more*\n"
                  "other.c │ 1234 │         x\n");
}

static void tables_shrink_to_the_window(void **state)
{
    (void)state;
    expect(
        "| Option | What it does |\n|---|---|\n| --deadline TIME | stops the run when it is over "
        "and says so |\n| -q | quiet |\n",
        "Option          │ What it does\n"
        "────────────────┼───────────────────────\n"
        "--deadline TIME │ stops the run when it\n"
        "                │ is over and says so\n"
        "-q              │ quiet\n");
}

static void tables_without_room_are_pairs(void **state)
{
    (void)state;
    expect_at(24, false,
              "| First | Second | Third column |\n|---|---|---|\n"
              "| a long value | b long value | c long value |\n| d | | f |\n",
              "First: a long value\n"
              "Second: b long value\n"
              "Third column: c long\n"
              "value\n"
              "\n"
              "First: d\n"
              "Third column: f\n");
}

static void oversized_tables_are_shown_as_written(void **state)
{
    struct bl_buffer text, out;

    (void)state;
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (int row = 0; row < 2; row++) {
        for (int column = 0; column < 100; column++)
            bl_buffer_append(&text, row == 0 ? BL_TEXT("|a") : BL_TEXT("|---"));
        bl_buffer_append(&text, BL_TEXT("|\n"));
    }
    /* Each such row would have as many cells as the head. */
    for (int row = 0; row < 1000; row++)
        bl_buffer_append(&text, BL_TEXT("|\n"));
    stream_whole(bl_buffer_text(&text), 40, false, &out);
    assert_true(bl_text_starts_with(bl_buffer_text(&out), BL_TEXT("|a|a|a|a|a|a|a|a|a|a")));
    bl_buffer_done(&text);
    bl_buffer_done(&out);
}

/* ---- Streaming ------------------------------------------------------------------------------- */

static void take(struct markdown *markdown, const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    markdown_take_lines(markdown, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void pending(struct markdown *markdown, size_t lines_max, const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    bl_buffer_append(&out, BL_TEXT("is replaced"));
    markdown_pending(markdown, lines_max, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void blocks_are_final_when_they_are_complete(void **state)
{
    struct markdown *markdown = markdown_new(40, false);

    (void)state;
    markdown_add(markdown, BL_TEXT("# Title\nA para"));
    take(markdown, "# Title\n");
    pending(markdown, 9, "\nA para\n");
    markdown_add(markdown, BL_TEXT("graph\nof **two"));
    take(markdown, "");
    pending(markdown, 9, "\nA paragraph\nof **two\n");
    pending(markdown, 1, "of **two\n");
    markdown_add(markdown, BL_TEXT("** lines\n\n"));
    take(markdown, "\nA paragraph\nof **two** lines\n");
    pending(markdown, 9, "");
    markdown_add(markdown, BL_TEXT("- a\n\n"));
    take(markdown, "");
    markdown_add(markdown, BL_TEXT("  more\n\nend"));
    take(markdown, "");
    markdown_add(markdown, BL_TEXT("\n"));
    take(markdown, "\n• a\n\n  more\n");
    markdown_end(markdown);
    take(markdown, "\nend\n");
    markdown_free(markdown);
}

static void lines_of_an_open_fence_are_final(void **state)
{
    struct markdown *markdown = markdown_new(40, false);

    (void)state;
    markdown_add(markdown, BL_TEXT("text\n```c\nint a;\nint"));
    take(markdown, "text\n\n  c\n    int a;\n");
    pending(markdown, 9, "    int\n");
    markdown_add(markdown, BL_TEXT(" b;\n``"));
    take(markdown, "    int b;\n");
    pending(markdown, 9, "");
    markdown_add(markdown, BL_TEXT("`\nend"));
    take(markdown, "");
    pending(markdown, 9, "\nend\n");
    markdown_end(markdown);
    take(markdown, "\nend\n");
    markdown_free(markdown);
}

static void a_fence_in_a_list_belongs_to_its_item(void **state)
{
    struct markdown *markdown = markdown_new(40, false);

    (void)state;
    markdown_add(markdown, BL_TEXT("- a\n  ```\n  in\n"));
    take(markdown, "");
    markdown_add(markdown, BL_TEXT("  ```\n1. b\n  ```\n  out\n"));
    /* Two columns are within "- ", and not within "1. ". */
    take(markdown, "• a\n      in\n\n1. b\n\n    out\n");
    markdown_add(markdown, BL_TEXT("\nmore\n```\nend\n\n"));
    take(markdown, "\n    more\n\nend\n");
    markdown_free(markdown);
}

static void a_cut_character_waits_for_its_rest(void **state)
{
    struct markdown *markdown = markdown_new(40, false);

    (void)state;
    markdown_add(markdown, BL_TEXT("caf\xC3"));
    pending(markdown, 9, "caf\n");
    markdown_add(markdown, BL_TEXT("\xA9\r"));
    pending(markdown, 9, "café\n");
    markdown_add(markdown, BL_TEXT("\nx"));
    pending(markdown, 9, "café\nx\n");
    markdown_free(markdown);
}

static void pending_text_is_laid_out_for_the_new_width(void **state)
{
    struct markdown *markdown = markdown_new(40, false);

    (void)state;
    markdown_add(markdown, BL_TEXT("one two three"));
    pending(markdown, 9, "one two three\n");
    markdown_resize(markdown, 8);
    pending(markdown, 9, "one two\nthree\n");
    markdown_free(markdown);
}

/* Checks that the time is linear in the size of the text, not quadratic: otherwise the rounds here
 * take seconds. */
static void long_blocks_take_linear_time(void **state)
{
    static const char *const openings[] = {"```c\n", "", "- item\n\n"};
    static const char *const lines[] = {"int line;\n", "words of a paragraph \n", "- item\n"};
    struct bl_buffer out;

    (void)state;
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (size_t kind = 0; kind < BL_COUNT(lines); kind++) {
        struct markdown *markdown = markdown_new(80, true);
        markdown_add(markdown, bl_text_from(openings[kind]));
        for (int i = 0; i < 10000; i++) {
            markdown_add(markdown, bl_text_from(lines[kind]));
            if (i % 100 == 0)
                markdown_pending(markdown, 10, &out);
        }
        markdown_end(markdown);
        bl_buffer_clear(&out);
        markdown_take_lines(markdown, &out);
        size_t count = 0;
        for (size_t i = 0; i < out.size; i++)
            count += out.data[i] == '\n';
        assert_true(count >= 10000);
        markdown_free(markdown);
    }
    bl_buffer_done(&out);
}

static void hostile_text_takes_bounded_time(void **state)
{
    static const char *const scraps[] = {"[", "![", "*a_ ", "`",   "<",      ">",
                                         "|", "&",  "[a](", "**",  "~~",     "- ",
                                         "]", "(",  "`a``", "<a@", "http://"};
    struct bl_buffer text, out;

    (void)state;
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < BL_COUNT(scraps); i++) {
        bl_buffer_clear(&text);
        while (text.size < 60000)
            bl_buffer_append(&text, bl_text_from(scraps[i]));
        bl_buffer_clear(&out);
        stream_whole(bl_buffer_text(&text), 60, true, &out);
    }
    bl_buffer_done(&text);
    bl_buffer_done(&out);
}

/* ---- Any text -------------------------------------------------------------------------------- */

static void stream_in_pieces(struct bl_random *random, struct bl_text text, size_t columns,
                             bool colours, struct bl_buffer *out)
{
    struct markdown *markdown = markdown_new(columns, colours);
    struct bl_buffer shown;

    bl_buffer_init(&shown, SIZE_MAX / 2);
    while (text.size > 0) {
        size_t size = 1 + bl_random_below(random, text.size / 40 + 12);
        size = size < text.size ? size : text.size;
        markdown_add(markdown, (struct bl_text){text.data, size});
        text.data += size;
        text.size -= size;
        if (bl_random_below(random, 3) == 0)
            markdown_take_lines(markdown, out);
        if (bl_random_below(random, 3) == 0) {
            markdown_pending(markdown, 5, &shown);
            check_lines(bl_buffer_text(&shown), columns, colours);
        }
    }
    markdown_end(markdown);
    markdown_take_lines(markdown, out);
    markdown_free(markdown);
    bl_buffer_done(&shown);
}

static void any_pieces_give_the_same_lines_as_the_whole(void **state)
{
    unsigned long rounds = suite_rounds(2000, 200000);
    struct bl_buffer text, whole, pieces;
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 66);
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&whole, SIZE_MAX / 2);
    bl_buffer_init(&pieces, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        size_t columns = 20 + bl_random_below(&random, 60);
        bool colours = bl_random_below(&random, 2) == 0;
        markdown_text(&random, false, &text);
        bl_buffer_clear(&whole);
        bl_buffer_clear(&pieces);
        stream_whole(bl_buffer_text(&text), columns, colours, &whole);
        stream_in_pieces(&random, bl_buffer_text(&text), columns, colours, &pieces);
        assert_true(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)));
    }
    bl_buffer_done(&text);
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
}

/* Blocks that became final one by one equal those of the text parsed as a whole. In one text of
 * several thousand the parser differs: it takes a fence for a row of the table above it, or keeps
 * state that it should have reset. */
static void blocks_are_those_of_the_whole_text(void **state)
{
    unsigned long rounds = suite_rounds(2000, 200000), differences = 0;
    struct bl_buffer text, whole, at_once;
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 67);
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&whole, SIZE_MAX / 2);
    bl_buffer_init(&at_once, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        markdown_text(&random, true, &text);
        bl_buffer_clear(&whole);
        bl_buffer_clear(&at_once);
        stream_whole(bl_buffer_text(&text), 60, false, &whole);
        markdown_render(bl_buffer_text(&text), 60, false, &at_once);
        differences += !bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&at_once));
    }
    assert_true(differences <= rounds / 1000);
    bl_buffer_done(&text);
    bl_buffer_done(&whole);
    bl_buffer_done(&at_once);
}

static void a_line_without_an_end_is_cut_at_the_same_place(void **state)
{
    struct bl_buffer text, whole, pieces;
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 1);
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&whole, SIZE_MAX / 2);
    bl_buffer_init(&pieces, SIZE_MAX / 2);
    while (text.size < 40000)
        bl_buffer_append(&text, text.size < 20000 ? BL_TEXT("日本 text ") : BL_TEXT("日本"));
    stream_whole(bl_buffer_text(&text), 60, false, &whole);
    stream_in_pieces(&random, bl_buffer_text(&text), 60, false, &pieces);
    assert_true(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)));
    assert_true(bl_text_find(bl_buffer_text(&whole), BL_TEXT("\xEF\xBF\xBD")) < 0);
    bl_buffer_done(&text);
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
}

SUITE(markdown, cmocka_unit_test(paragraphs_are_wrapped_and_keep_their_line_breaks),
      cmocka_unit_test(headings_are_bold_or_keep_their_marks),
      cmocka_unit_test(emphasis_keeps_its_marks_without_colours),
      cmocka_unit_test(lists_have_bullets_numbers_and_hanging_indents),
      cmocka_unit_test(quotes_have_a_bar), cmocka_unit_test(code_is_indented_below_its_language),
      cmocka_unit_test(links_show_their_address_if_the_text_does_not),
      cmocka_unit_test(references_that_are_defined_elsewhere_are_shown),
      cmocka_unit_test(html_is_text_and_entities_are_characters),
      cmocka_unit_test(rules_span_the_width), cmocka_unit_test(tables_are_laid_out_in_columns),
      cmocka_unit_test(tables_shrink_to_the_window),
      cmocka_unit_test(tables_without_room_are_pairs),
      cmocka_unit_test(oversized_tables_are_shown_as_written),
      cmocka_unit_test(blocks_are_final_when_they_are_complete),
      cmocka_unit_test(lines_of_an_open_fence_are_final),
      cmocka_unit_test(a_fence_in_a_list_belongs_to_its_item),
      cmocka_unit_test(a_cut_character_waits_for_its_rest),
      cmocka_unit_test(pending_text_is_laid_out_for_the_new_width),
      cmocka_unit_test(long_blocks_take_linear_time),
      cmocka_unit_test(hostile_text_takes_bounded_time),
      cmocka_unit_test(any_pieces_give_the_same_lines_as_the_whole),
      cmocka_unit_test(blocks_are_those_of_the_whole_text),
      cmocka_unit_test(a_line_without_an_end_is_cut_at_the_same_place));
