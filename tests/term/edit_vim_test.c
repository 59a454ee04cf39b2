/* Undo, and vim keys. */
#include "suite.h"
#include "term/term.h"

#include <stdio.h>
#include <stdlib.h>

#define UNDO   "\x1F"
#define REDO   "\x1Br"
#define ESCAPE "\x1B"

/* Each byte string separately: a byte that follows an ESC at once would be Alt. */
static void press(struct edit_line *line, const char *bytes)
{
    struct keys keys;
    struct key key;

    keys_init(&keys);
    keys_add(&keys, bl_text_from(bytes));
    while (keys_next(&keys, true, &key) || keys_next(&keys, false, &key)) {
        edit_line_key(line, &key);
        assert_true(line->cursor <= edit_line_text(line).size);
        assert_true(bl_utf8_valid(edit_line_text(line)));
    }
    keys_done(&keys);
}

static void check(const struct edit_line *line, const char *expected)
{
    char shown[512];
    struct bl_text text = edit_line_text(line);

    snprintf(shown, sizeof shown, "%.*s|%.*s", (int)line->cursor, text.data,
             (int)(text.size - line->cursor), text.data + line->cursor);
    assert_string_equal(shown, expected);
}

/* ---- Undo ------------------------------------------------------------------------------------ */

static void changes_are_undone_and_redone_word_by_word(void **state)
{
    struct edit_line line;

    (void)state;
    edit_line_init(&line, NULL);
    press(&line, UNDO);
    check(&line, "|");
    press(&line, "one ");
    press(&line, "t");
    press(&line, "wo");
    press(&line, "\x15");
    check(&line, "|");
    press(&line, UNDO);
    check(&line, "one two|");
    press(&line, UNDO);
    check(&line, "one |");
    press(&line, REDO);
    check(&line, "one two|");
    press(&line, UNDO UNDO);
    check(&line, "|");
    press(&line, UNDO);
    check(&line, "|");
    press(&line, REDO "x");
    check(&line, "one x|");
    /* There is nothing to redo any more. */
    press(&line, REDO);
    check(&line, "one x|");
    edit_line_replace(&line, BL_TEXT("from the editor"));
    press(&line, UNDO);
    check(&line, "one x|");
    /* A submitted text cannot be undone. */
    edit_line_set(&line, BL_TEXT(""));
    press(&line, UNDO);
    check(&line, "|");
    edit_line_done(&line);
}

static void undo_stays_within_its_memory_limit(void **state)
{
    struct edit_line line;
    char *text = bl_alloc(60001);

    (void)state;
    memset(text, 'x', 60000);
    text[60000] = '\0';
    edit_line_init(&line, NULL);
    edit_line_insert(&line, bl_text_from(text));
    for (unsigned i = 0; i < 100; i++)
        press(&line, "y\x7F");
    assert_true(line.undo.bytes <= 1024 * 1024);
    for (unsigned i = 0; i < 300; i++)
        press(&line, UNDO);
    assert_true(edit_line_text(&line).size >= 60000);
    /* Longer texts are not kept. */
    edit_line_insert(&line, bl_text_from(text));
    press(&line, "z");
    assert_int_equal(line.undo.bytes, 0);
    edit_line_done(&line);
    bl_free(text);
}

/* ---- vim ------------------------------------------------------------------------------------- */

static void check_vim(const char *text, const char *keys, const char *expected)
{
    struct edit_line line;

    edit_line_init(&line, NULL);
    line.vim.on = true;
    press(&line, text);
    press(&line, ESCAPE);
    press(&line, "gg0");
    press(&line, keys);
    check(&line, expected);
    edit_line_done(&line);
}

static void motions_go_where_vim_goes(void **state)
{
    (void)state;
    check_vim("one two.three", "w", "one |two.three");
    check_vim("one two.three", "2w", "one two|.three");
    check_vim("one two.three", "2W", "one two.thre|e");
    check_vim("one two.three", "e", "on|e two.three");
    check_vim("one two.three", "$b", "one two.|three");
    check_vim("one two.three", "$B", "one |two.three");
    check_vim("one two", "llh", "o|ne two");
    check_vim("one two", "99l", "one tw|o");
    check_vim("  one", "$^", "  |one");
    check_vim("one two", "fo;", "one tw|o");
    check_vim("one two", "$Fo", "|one two");
    check_vim("one two", "tw", "one |two");
    check_vim("one\ntwo\nsix", "ljj", "one\ntwo\ns|ix");
    check_vim("one\ntwo\nsix", "Gk", "one\n|two\nsix");
    check_vim("h\xC3\xA9llo", "ll", "h\xC3\xA9|llo");
    check_vim("", "wbe$0", "|");
}

static void operators_change_what_vim_changes(void **state)
{
    (void)state;
    check_vim("one two three", "dw", "|two three");
    check_vim("one two three", "2dw", "|three");
    check_vim("one two three", "d2w", "|three");
    check_vim("one two three", "wd$", "one| ");
    check_vim("one two three", "wD", "one| ");
    check_vim("one two", "x", "|ne two");
    check_vim("one two", "3x", "| two");
    check_vim("one two", "lX", "|ne two");
    check_vim("one two", "cwsix\x1F", "| two");
    check_vim("one two", "cwsix", "six| two");
    check_vim("a two", "cwsix", "six| two");
    check_vim("one two three", "c2wsix", "six| three");
    check_vim("one two", "dfe", "| two");
    check_vim("one two", "dtw", "|wo");
    check_vim("one\ntwo\nsix", "jdd", "one\n|six");
    check_vim("one\ntwo\nsix", "Gdd", "one\n|two");
    check_vim("one\ntwo\nsix", "2dd", "|six");
    check_vim("one\ntwo\nsix", "dj", "|six");
    check_vim("one\ntwo", "ccsix", "six|\ntwo");
    check_vim("one\ntwo", "dG", "|");
    check_vim("one", "dd", "|");
    check_vim("one two three", "wldiw", "one | three");
    check_vim("one two three", "wldaw", "one |three");
    check_vim("one two.three", "$ciWsix", "one six|");
}

static void text_is_put_replaced_and_joined(void **state)
{
    (void)state;
    check_vim("one two", "dwp", "tone| wo");
    check_vim("one two", "ywP", "one| one two");
    check_vim("one two", "yw$p", "one twoone| ");
    check_vim("one\ntwo", "yyp", "one\n|one\ntwo");
    check_vim("one\ntwo", "yyjP", "one\n|one\ntwo");
    check_vim("one\ntwo", "ddp", "two\n|one");
    check_vim("one", "rO", "|One");
    check_vim("one", "~~", "ON|e");
    check_vim("one\n  two", "J", "one| two");
    check_vim("one", "xu", "|one");
    check_vim("one", "xxu", "|ne");
    check_vim("one", "xu\x12", "|ne");
}

static void insert_mode_is_reached_and_left(void **state)
{
    (void)state;
    check_vim("one", "ax", "ox|ne");
    check_vim("one", "Ax", "onex|");
    check_vim("  one", "$Ix", "  x|one");
    check_vim("one\ntwo", "ox", "one\nx|\ntwo");
    check_vim("one\ntwo", "Ox", "x|\none\ntwo");
    check_vim("one", "sx", "x|ne");
    check_vim("one\ntwo", "Sx", "x|\ntwo");
    check_vim("one", "Cx", "x|");
    /* An unknown command does nothing. */
    check_vim("one", "qZ@dzdi(ciq", "|one");
}

static void vim_keys_do_nothing_when_off(void **state)
{
    struct edit_line line;

    (void)state;
    edit_line_init(&line, NULL);
    press(&line, "one");
    press(&line, ESCAPE);
    press(&line, "dw");
    check(&line, "onedw|");
    assert_false(edit_vim_waits(&line));
    line.vim.on = true;
    assert_true(edit_vim_waits(&line));
    press(&line, ESCAPE);
    assert_false(edit_vim_waits(&line));
    press(&line, "2d");
    assert_true(edit_vim_waits(&line));
    press(&line, ESCAPE);
    assert_false(edit_vim_waits(&line));
    /* A submitted text ends normal mode. */
    edit_line_set(&line, BL_TEXT(""));
    press(&line, "x");
    check(&line, "x|");
    edit_line_done(&line);
}

SUITE(edit_vim, cmocka_unit_test(changes_are_undone_and_redone_word_by_word),
      cmocka_unit_test(undo_stays_within_its_memory_limit),
      cmocka_unit_test(motions_go_where_vim_goes),
      cmocka_unit_test(operators_change_what_vim_changes),
      cmocka_unit_test(text_is_put_replaced_and_joined),
      cmocka_unit_test(insert_mode_is_reached_and_left),
      cmocka_unit_test(vim_keys_do_nothing_when_off));
