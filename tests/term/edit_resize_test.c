/* The screen after many changes, including changes of the window. */
#include "screen.h"
#include "suite.h"
#include "term/term.h"

#include <stdio.h>
#include <stdlib.h>

/* The screen shows the same as a draw on an empty screen. */
static void check_fresh(struct scene *scene)
{
    struct scene fresh;
    size_t row, column, fresh_row, fresh_column;

    scene_begin(&fresh, scene->screen.columns, scene->screen.rows, scene->screen.colours);
    fresh.view = scene->view;
    scene_draw(&fresh, BL_TEXT(""));
    screen_cursor(scene->terminal, &row, &column);
    screen_cursor(fresh.terminal, &fresh_row, &fresh_column);
    assert_int_equal(column, fresh_column);
    assert_int_equal(scene->screen.cursor_row, fresh_row);
    assert_true(row >= fresh_row);
    size_t top = row - fresh_row;
    for (size_t i = top; i < scene->screen.rows; i++) {
        const char *expected =
            i - top < fresh.screen.height ? screen_row(fresh.terminal, i - top) : "";
        assert_string_equal(screen_row(scene->terminal, i), expected);
    }
    scene_end(&fresh);
}

/* Each line of the conversation is there once, in order. */
static void check_above(const char *all, unsigned count)
{
    unsigned next = 0;

    for (const char *at = all; (at = strstr(at, "above ")) != NULL; at++) {
        if (at != all && at[-1] != '\n')
            continue;
        assert_int_equal(strtoul(at + 6, NULL, 10), next);
        next++;
    }
    assert_int_equal(next, count);
}

static void random_text(struct bl_random *random, struct bl_buffer *out, const char *name,
                        size_t lines_max, size_t columns)
{
    bl_buffer_clear(out);
    for (size_t lines = bl_random_below(random, lines_max + 1); lines > 0; lines--) {
        size_t width = bl_random_below(random, columns + 1);
        size_t start = out->size;
        bl_buffer_append(out, bl_text_from(name));
        while (out->size - start < width)
            bl_buffer_append_byte(out, (char)('a' + bl_random_below(random, 26)));
        if (out->size - start > columns)
            out->size = start + columns;
        bl_buffer_append_byte(out, '\n');
    }
}

static void random_edit(struct bl_random *random, struct edit_line *line)
{
    static const char *const pieces[] = {"a",       "Z",      " ",         "\u6F22",
                                         "e\u0301", "\u00E4", "\U0001F600"};
    static const enum key_type moves[] = {
        KEY_LEFT,      KEY_RIGHT,   KEY_UP,        KEY_DOWN,     KEY_HOME, KEY_END,
        KEY_BACKSPACE, KEY_NEWLINE, KEY_KILL_WORD, KEY_KILL_END, KEY_YANK, KEY_WORD_LEFT};

    for (size_t i = bl_random_below(random, 30); i > 0; i--) {
        const char *piece = pieces[bl_random_below(random, BL_COUNT(pieces))];
        if (bl_random_below(random, 4) == 0)
            edit_line_key(line,
                          &(struct key){.type = moves[bl_random_below(random, BL_COUNT(moves))]});
        else
            edit_line_insert(line, bl_text_from(piece));
    }
}

static void screen_equals_a_fresh_draw_after_any_changes(void **state)
{
    (void)state;
    for (unsigned long seed = 1; seed <= suite_rounds(25, 2000); seed++) {
        struct bl_random random;
        struct scene scene;
        struct bl_buffer live, menu, above;
        unsigned count = 0;
        bl_random_seed(&random, seed);
        scene_begin(&scene, 40 + bl_random_below(&random, 161), 4 + bl_random_below(&random, 40),
                    false);
        bl_buffer_init(&live, SIZE_MAX / 2);
        bl_buffer_init(&menu, SIZE_MAX / 2);
        bl_buffer_init(&above, SIZE_MAX / 2);
        for (int step = 0; step < 40; step++) {
            if (bl_random_below(&random, 6) == 0) {
                scene_resize(&scene, 40 + bl_random_below(&random, 161),
                             4 + bl_random_below(&random, 40));
                bl_buffer_clear(&live);
                bl_buffer_clear(&menu);
            }
            size_t columns = scene.screen.columns;
            if (bl_random_below(&random, 3) == 0)
                random_text(&random, &live, "live ", 30, columns);
            if (bl_random_below(&random, 3) == 0)
                random_text(&random, &menu, "menu ", 8, columns);
            if (bl_random_below(&random, 8) == 0)
                edit_line_set(&scene.line, BL_TEXT(""));
            random_edit(&random, &scene.line);
            bl_buffer_clear(&above);
            for (size_t i = bl_random_below(&random, 4); i > 1; i--)
                bl_buffer_printf(&above, "above %u\n", count++);
            scene.view.live = bl_buffer_text(&live);
            scene.view.menu = bl_buffer_text(&menu);
            scene.view.status = bl_random_below(&random, 5) == 0 ? BL_TEXT("") : BL_TEXT("status");
            scene.view.line = bl_random_below(&random, 9) == 0 ? NULL : &scene.line;
            scene_draw(&scene, bl_buffer_text(&above));
            screen_check_sequences(bl_buffer_text(&scene.bytes), false);
            check_fresh(&scene);
            check_above(screen_all(scene.terminal), count);
        }
        bl_buffer_done(&live);
        bl_buffer_done(&menu);
        bl_buffer_done(&above);
        scene_end(&scene);
    }
}

/* The line comes back from the scrollback into a window one column too narrow for it: half of its
 * last character is missing, and newer releases of libvterm show the other half. */
static void a_wide_character_cut_by_the_window_does_no_harm(void **state)
{
    struct screen *screen = screen_new(6, 2);

    (void)state;
    screen_feed(screen, BL_TEXT("abcd\u6F22\r\nsecond\r\nthird"));
    screen_resize(screen, 5, 3);
    const char *shown = screen_shown(screen);
    if (strcmp(shown, "abcd\u6F22\nsecon\nthird\n") != 0)
        assert_string_equal(shown, "abcd\nsecon\nthird\n");
    assert_int_equal(shown[0], 'a');
    screen_free(screen);
}

static struct multiplexer multiplexer;

/* Also after a failed test, so that no server is left. */
static int end_multiplexer(void **state)
{
    (void)state;
    multiplexer_end(&multiplexer);
    return 0;
}

/* tmux scrolls lines up when there is no more room: parts of our own lines may be left behind in
 * the scrollback. The screen shows none of them, and no part of the conversation is lost or
 * doubled. */
static void a_terminal_that_reflows_shows_our_lines_once(void **state)
{
    static const size_t sizes[][2] = {{50, 24}, {40, 24},  {100, 24}, {60, 12},
                                      {45, 20}, {200, 24}, {41, 9}};
    struct scene scene;
    struct bl_buffer shown;
    char status[100], above[32], menu[32], last[32] = "";
    unsigned count = 0;

    (void)state;
    if (!multiplexer_begin(&multiplexer, 80, 24))
        suite_skip("missing program: tmux");
    scene_begin(&scene, 80, 24, false);
    bl_buffer_init(&shown, SIZE_MAX / 2);
    scene.screen.reflows = true;
    scene.view.live =
        BL_TEXT("live one, a line that is longer than forty columns by far\nlive two\n");
    edit_line_set(&scene.line, BL_TEXT("this is the text that is being written, and longer than "
                                       "seventy-seven columns in all"));
    for (size_t i = 0; i <= BL_COUNT(sizes); i++) {
        bl_buffer_clear(&scene.bytes);
        if (i > 0) {
            multiplexer_resize(&multiplexer, sizes[i - 1][0], sizes[i - 1][1]);
            edit_screen_resize(&scene.screen, sizes[i - 1][0], sizes[i - 1][1], &scene.bytes);
        }
        snprintf(status, sizeof status, "step %zu: the status goes on for a long while here", i);
        snprintf(above, sizeof above, "above %u\n", count++);
        snprintf(menu, sizeof menu, "menu %zu", i);
        scene.view.status = bl_text_from(status);
        scene.view.menu = bl_text_from(menu);
        edit_screen_draw(&scene.screen, &scene.view, bl_text_from(above), &scene.bytes);
        multiplexer_feed(&multiplexer, bl_buffer_text(&scene.bytes));
        multiplexer_read(&multiplexer, menu, false, &shown);
        /* The newest of the conversation, then our lines, and nothing below. */
        const char *at = strstr(shown.data, above);
        assert_non_null(at);
        static const char *const parts[] = {"live one", "live two", "step ", "> this is", "menu "};
        for (size_t j = 0; j < BL_COUNT(parts); j++) {
            /* Later, the scrollback reappears when the window grows. */
            at = strstr(i < 3 ? shown.data : at, parts[j]);
            assert_non_null(at);
            assert_null(strstr(at + 1, parts[j]));
        }
        multiplexer_read(&multiplexer, menu, true, &shown);
        check_above(shown.data, count);
        assert_true(i != 1 || strstr(shown.data, last) == NULL);
        snprintf(last, sizeof last, "step %zu", i);
    }
    bl_buffer_done(&shown);
    scene_end(&scene);
}

SUITE(edit_resize, cmocka_unit_test(screen_equals_a_fresh_draw_after_any_changes),
      cmocka_unit_test(a_wide_character_cut_by_the_window_does_no_harm),
      cmocka_unit_test_teardown(a_terminal_that_reflows_shows_our_lines_once, end_multiplexer));
