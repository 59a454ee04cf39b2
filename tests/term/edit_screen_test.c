#include "screen.h"
#include "suite.h"
#include "term/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check_cursor(struct scene *scene, size_t row, size_t column)
{
    size_t at_row, at_column;

    screen_cursor(scene->terminal, &at_row, &at_column);
    assert_int_equal(at_row, row);
    assert_int_equal(at_column, column);
}

static void all_parts_are_shown_in_their_order(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 12, false);
    scene.view.live = BL_TEXT("being\nsaid\n");
    scene.view.status = BL_TEXT("model 12 tokens");
    scene.view.menu = BL_TEXT("/compact\n/cost\n");
    edit_line_set(&scene.line, BL_TEXT("hello\nworld"));
    scene_draw(&scene, BL_TEXT("said before\n"));
    assert_string_equal(screen_shown(scene.terminal),
                        "said before\nbeing\nsaid\nmodel 12 tokens\n> hello\n  world\n/compact\n"
                        "/cost\n");
    check_cursor(&scene, 5, 7);
    assert_true(screen_cursor_visible(scene.terminal));
    edit_line_set(&scene.line, BL_TEXT(""));
    scene.view.hint = BL_TEXT("say something");
    scene.view.menu = BL_TEXT("");
    scene.view.live = BL_TEXT("");
    scene_draw(&scene, BL_TEXT("being\nsaid\n"));
    assert_string_equal(screen_shown(scene.terminal),
                        "said before\nbeing\nsaid\nmodel 12 tokens\n> say something\n");
    check_cursor(&scene, 4, 2);
    bl_buffer_clear(&scene.bytes);
    edit_screen_clear(&scene.screen, &scene.bytes);
    screen_feed(scene.terminal, bl_buffer_text(&scene.bytes));
    assert_string_equal(screen_shown(scene.terminal), "said before\nbeing\nsaid\n");
    check_cursor(&scene, 3, 0);
    scene_end(&scene);
}

/* ---- Expected positions, computed in another way --------------------------------------------- */

/* The units of the test texts: each a cluster, with its width on every terminal. */
static const struct unit {
    const char *text;
    size_t width;
} units[] = {{"a", 1},       {"Z", 1},      {" ", 1},         {"\u6F22", 2},
             {"e\u0301", 1}, {"\u00E4", 1}, {"\U0001F600", 2}};

/* Lays units out on a grid; `text` is an index for each unit, -1 for a new line. Returns the lines,
 * and the position of the cursor before unit `cursor`. */
struct expectation {
    struct bl_buffer text; /* LF after each */
    size_t rows;
    size_t cursor_row;
    size_t cursor_column;
};

static void expect(struct expectation *expectation, const int *text, size_t count, size_t cursor,
                   size_t columns)
{
    size_t column = 2, row = 0, blanks = 0;

    bl_buffer_init(&expectation->text, SIZE_MAX / 2);
    bl_buffer_append(&expectation->text, BL_TEXT(">"));
    blanks = 1;
    for (size_t i = 0; i <= count; i++) {
        bool full = i < count && text[i] >= 0 && column + units[text[i]].width > columns - 1;
        bool ends = i < count && text[i] < 0;
        if (full) {
            bl_buffer_append(&expectation->text, BL_TEXT("\n"));
            column = blanks = 2;
            row++;
        }
        if (i == cursor) {
            expectation->cursor_row = row;
            expectation->cursor_column = column;
        }
        if (i == count)
            break;
        if (ends) {
            bl_buffer_append(&expectation->text, BL_TEXT("\n"));
            column = blanks = 2;
            row++;
            continue;
        }
        column += units[text[i]].width;
        if (units[text[i]].text[0] == ' ') {
            blanks++;
            continue;
        }
        for (; blanks > 0; blanks--)
            bl_buffer_append_byte(&expectation->text, ' ');
        bl_buffer_append(&expectation->text, bl_text_from(units[text[i]].text));
    }
    bl_buffer_append(&expectation->text, BL_TEXT("\n"));
    expectation->rows = row + 1;
}

/* Empty lines at the end are not distinguished from none. */
static void trim_empty(struct bl_buffer *text)
{
    while (text->size > 1 && text->data[text->size - 1] == '\n' &&
           text->data[text->size - 2] == '\n')
        text->size--;
    bl_buffer_append_byte(text, '\0');
}

static void cursor_is_at_its_place_in_the_text(void **state)
{
    struct bl_random random;
    int text[300];

    (void)state;
    bl_random_seed(&random, 77);
    for (unsigned long round = suite_rounds(60, 3000); round > 0; round--) {
        size_t columns = 40 + bl_random_below(&random, 161);
        size_t count = bl_random_below(&random, BL_COUNT(text));
        struct scene scene;
        scene_begin(&scene, columns, 60, false);
        for (size_t i = 0; i < count; i++) {
            text[i] = (int)bl_random_below(&random, BL_COUNT(units) * 6);
            text[i] = text[i] == 0 ? -1 : text[i] % (int)BL_COUNT(units);
            const char *piece = text[i] < 0 ? "\n" : units[text[i]].text;
            edit_line_insert(&scene.line, bl_text_from(piece));
        }
        /* Back through the text, as with the Left key. */
        for (size_t cursor = count + 1; cursor-- > 0;) {
            struct expectation expected;
            expect(&expected, text, count, cursor, columns);
            scene_draw(&scene, BL_TEXT(""));
            trim_empty(&expected.text);
            assert_string_equal(screen_shown(scene.terminal), expected.text.data);
            check_cursor(&scene, expected.cursor_row, expected.cursor_column);
            bl_buffer_done(&expected.text);
            edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
            if (cursor % 8 != 0)
                continue;
            /* In larger steps. */
            for (size_t i = 0; i < 7 && cursor > 0; i++, cursor--)
                edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
        }
        scene_end(&scene);
    }
}

static void the_cursor_after_a_full_line_is_in_its_last_column(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 10, false);
    for (int i = 0; i < 37; i++)
        edit_line_insert(&scene.line, BL_TEXT("x"));
    scene_draw(&scene, BL_TEXT(""));
    check_cursor(&scene, 0, 39);
    edit_line_insert(&scene.line, BL_TEXT("y"));
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_row(scene.terminal, 1), "  y");
    check_cursor(&scene, 1, 3);
    edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
    scene_draw(&scene, BL_TEXT(""));
    check_cursor(&scene, 1, 2);
    scene_end(&scene);
}

static void a_wide_character_is_never_cut_at_the_edge(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 10, false);
    for (int i = 0; i < 36; i++)
        edit_line_insert(&scene.line, BL_TEXT("x"));
    edit_line_insert(&scene.line, BL_TEXT("\u6F22"));
    scene.view.live = BL_TEXT("\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22"
                              "\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22x\u6F22\n");
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_row(scene.terminal, 0),
                        "\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22"
                        "\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22\u6F22x");
    assert_string_equal(screen_row(scene.terminal, 2), "  \u6F22");
    check_cursor(&scene, 2, 4);
    scene_end(&scene);
}

/* This terminal draws each part of a sequence that we count as one picture. */
static void terminal_with_other_widths_is_drawn_correctly(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 10, false);
    scene.view.status = BL_TEXT("status \u2764\uFE0F");
    edit_line_set(&scene.line, BL_TEXT("\U0001F469\u200D\U0001F469\u200D\U0001F467xy"));
    edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
    scene_draw(&scene, BL_TEXT("above\n"));
    /* Two for the prompt, six for the pictures, and x. */
    check_cursor(&scene, 2, 9);
    for (int i = 0; i < 20; i++)
        edit_line_insert(&scene.line, BL_TEXT("\U0001F469\u200D\U0001F467 "));
    edit_line_insert(&scene.line, BL_TEXT("end"));
    scene_draw(&scene, BL_TEXT(""));
    edit_line_set(&scene.line, BL_TEXT("short"));
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_row(scene.terminal, 0), "above");
    assert_string_equal(screen_row(scene.terminal, 2), "> short");
    scene_end(&scene);
}

static void view_higher_than_the_screen_is_shown_in_part(void **state)
{
    struct scene scene;
    struct bl_buffer live;

    (void)state;
    scene_begin(&scene, 40, 8, false);
    bl_buffer_init(&live, SIZE_MAX / 2);
    for (int i = 0; i < 50; i++)
        bl_buffer_printf(&live, "live %d\n", i);
    scene.view.live = bl_buffer_text(&live);
    scene.view.status = BL_TEXT("status");
    scene.view.menu = BL_TEXT("m1\nm2\nm3\nm4\nm5\nm6\nm7\nm8\n");
    scene_draw(&scene, BL_TEXT("above\n"));
    assert_string_equal(screen_shown(scene.terminal), "above\nstatus\n>\nm1\nm2\nm3\nm4\nm5\n");
    scene.view.menu = BL_TEXT("");
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal),
                        "above\nlive 45\nlive 46\nlive 47\nlive 48\nlive 49\nstatus\n>\n");
    /* Of the text, the part around the cursor is shown. */
    for (int i = 0; i < 30; i++) {
        char row[32];
        snprintf(row, sizeof row, "%srow %d", i == 0 ? "" : "\n", i);
        edit_line_insert(&scene.line, bl_text_from(row));
    }
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal),
                        "above\nstatus\n  row 24\n  row 25\n  row 26\n"
                        "  row 27\n  row 28\n  row 29\n");
    check_cursor(&scene, 7, 8);
    for (int i = 0; i < 27; i++)
        edit_line_key(&scene.line, &(struct key){.type = KEY_UP});
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal), "above\nstatus\n> row 0\n  row 1\n  row 2\n"
                                                      "  row 3\n  row 4\n  row 5\n");
    check_cursor(&scene, 4, 7);
    bl_buffer_done(&live);
    scene_end(&scene);
}

static void the_smallest_windows_work(void **state)
{
    (void)state;
    for (size_t rows = 1; rows < 5; rows++) {
        for (size_t columns = 1; columns < 12; columns++) {
            struct scene scene;
            scene_begin(&scene, columns, rows, true);
            scene.view.live = BL_TEXT("a long line of the answer\n\u6F22\n");
            scene.view.status = BL_TEXT("\x1B[1mstatus\x1B[0m");
            scene.view.menu = BL_TEXT("menu\n");
            scene.view.hint = BL_TEXT("hint");
            scene_draw(&scene, BL_TEXT("above\n"));
            edit_line_set(&scene.line, BL_TEXT("some \u6F22 text\t\x01\nof two lines"));
            scene_draw(&scene, BL_TEXT(""));
            assert_true(scene.screen.height <= (rows > 2 ? rows - 1 : 1));
            scene_end(&scene);
        }
    }
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void without_colours_there_is_no_style(void **state)
{
    (void)state;
    for (int colours = 0; colours < 2; colours++) {
        struct scene scene;
        scene_begin(&scene, 40, 10, colours != 0);
        scene.view.hint = BL_TEXT("hint");
        scene.view.status = BL_TEXT("status");
        scene_draw(&scene, BL_TEXT("above\n"));
        screen_check_sequences(bl_buffer_text(&scene.bytes), colours != 0);
        bool dim = bl_text_find(bl_buffer_text(&scene.bytes), BL_TEXT("\x1B[2m")) >= 0;
        assert_int_equal(dim, colours);
        edit_line_set(&scene.line, BL_TEXT("\u6F22 text\nmore"));
        scene.line.searching = true;
        scene_draw(&scene, BL_TEXT(""));
        screen_check_sequences(bl_buffer_text(&scene.bytes), colours != 0);
        assert_false(screen_styled(scene.terminal));
        scene_end(&scene);
    }
}

static void unchanged_lines_are_not_written_again(void **state)
{
    struct scene scene;
    struct bl_buffer live;

    (void)state;
    scene_begin(&scene, 80, 40, true);
    bl_buffer_init(&live, SIZE_MAX / 2);
    for (int i = 0; i < 30; i++)
        bl_buffer_printf(&live, "a line of what is being said, number %d\n", i);
    scene.view.live = bl_buffer_text(&live);
    scene.view.status = BL_TEXT("status");
    scene_draw(&scene, BL_TEXT(""));
    scene_draw(&scene, BL_TEXT(""));
    assert_int_equal(scene.bytes.size, 0);
    edit_line_insert(&scene.line, BL_TEXT("x"));
    scene_draw(&scene, BL_TEXT(""));
    assert_true(scene.bytes.size > 0 && scene.bytes.size < 160);
    edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
    scene_draw(&scene, BL_TEXT(""));
    assert_true(scene.bytes.size > 0 && scene.bytes.size < 80);
    bl_buffer_done(&live);
    scene_end(&scene);
}

static void lines_that_are_too_wide_are_cut_with_their_styles(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 6, true);
    scene.view.status =
        BL_TEXT("\x1B[1m0123456789\x1B[31m0123456789012345678901234567890123456789");
    scene_draw(&scene, BL_TEXT("0123456789012345678901234567890123456789\n"
                               "0123456789012345678901234567890123456789ab\n"));
    assert_string_equal(screen_shown(scene.terminal),
                        "0123456789012345678901234567890123456789\n"
                        "0123456789012345678901234567890123456789\nab\n"
                        "0123456789012345678901234567890123456789\n>\n");
    check_cursor(&scene, 4, 2);
    assert_true(screen_styled(scene.terminal));
    scene.view.status = BL_TEXT("0123456789012345678901234567890123456789ab");
    edit_line_set(&scene.line, BL_TEXT("plain"));
    scene_draw(&scene, BL_TEXT(""));
    assert_false(screen_styled(scene.terminal));
    assert_string_equal(screen_row(scene.terminal, 3), "0123456789012345678901234567890123456789");
    scene_end(&scene);
}

static void control_characters_are_shown_in_caret_notation(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 6, false);
    edit_line_set(&scene.line, BL_TEXT("a\tb\x1B[31mc\x7F\xC2\x85\u2028z"));
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_row(scene.terminal, 0), "> a   b^[[31mc^?\uFFFD\uFFFDz");
    check_cursor(&scene, 0, 19);
    scene_end(&scene);
}

static void a_search_is_shown_below_the_line(void **state)
{
    struct history *history = history_new();
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 6, false);
    scene.line.history = history;
    history_add(history, BL_TEXT("make test"));
    edit_line_key(&scene.line, &(struct key){.type = KEY_SEARCH});
    edit_line_key(&scene.line, &(struct key){.type = KEY_TEXT, .text = BL_TEXT("te")});
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal), "> make test\nsearch: te\n");
    check_cursor(&scene, 0, 7);
    edit_line_key(&scene.line, &(struct key){.type = KEY_TEXT, .text = BL_TEXT("q")});
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal), "> make test\nsearch: teq (no match)\n");
    edit_line_key(&scene.line, &(struct key){.type = KEY_ESCAPE});
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal), ">\n");
    scene_end(&scene);
    history_free(history);
}

static void without_a_line_there_is_no_cursor(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene, 40, 6, false);
    scene.view.line = NULL;
    scene.view.status = BL_TEXT("status");
    scene_draw(&scene, BL_TEXT("above\n"));
    assert_string_equal(screen_shown(scene.terminal), "above\nstatus\n");
    assert_false(screen_cursor_visible(scene.terminal));
    scene.view.status = BL_TEXT("");
    scene_draw(&scene, BL_TEXT("more\n"));
    assert_string_equal(screen_shown(scene.terminal), "above\nmore\n");
    assert_true(screen_cursor_visible(scene.terminal));
    scene.view.line = &scene.line;
    scene_draw(&scene, BL_TEXT(""));
    assert_string_equal(screen_shown(scene.terminal), "above\nmore\n>\n");
    scene_end(&scene);
}

static void a_very_long_text_is_drawn_in_bounded_time(void **state)
{
    struct scene scene;
    struct timespec start, end;
    char *block = bl_alloc(KEYS_PASTE_MAX);

    (void)state;
    memset(block, 'x', KEYS_PASTE_MAX);
    for (int lines = 0; lines < 2; lines++) {
        for (size_t i = 50; lines == 1 && i < KEYS_PASTE_MAX; i += 50)
            block[i] = '\n';
        scene_begin(&scene, 80, 24, false);
        edit_line_insert(&scene.line, (struct bl_text){block, KEYS_PASTE_MAX});
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
        for (int i = 0; i < 10; i++) {
            edit_line_key(&scene.line, &(struct key){.type = KEY_LEFT});
            scene_draw(&scene, BL_TEXT(""));
            assert_true(scene.bytes.size < 4096);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        /* The thread sanitizer takes a quarter of a second for each. */
        assert_true(end.tv_sec - start.tv_sec < 30);
        assert_int_equal(scene.screen.height, 23);
        scene_end(&scene);
    }
    bl_free(block);
}

SUITE(edit_screen, cmocka_unit_test(all_parts_are_shown_in_their_order),
      cmocka_unit_test(cursor_is_at_its_place_in_the_text),
      cmocka_unit_test(the_cursor_after_a_full_line_is_in_its_last_column),
      cmocka_unit_test(a_wide_character_is_never_cut_at_the_edge),
      cmocka_unit_test(terminal_with_other_widths_is_drawn_correctly),
      cmocka_unit_test(view_higher_than_the_screen_is_shown_in_part),
      cmocka_unit_test(the_smallest_windows_work),
      cmocka_unit_test(without_colours_there_is_no_style),
      cmocka_unit_test(unchanged_lines_are_not_written_again),
      cmocka_unit_test(lines_that_are_too_wide_are_cut_with_their_styles),
      cmocka_unit_test(control_characters_are_shown_in_caret_notation),
      cmocka_unit_test(a_search_is_shown_below_the_line),
      cmocka_unit_test(without_a_line_there_is_no_cursor),
      cmocka_unit_test(a_very_long_text_is_drawn_in_bounded_time));
