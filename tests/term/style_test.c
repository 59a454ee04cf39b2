#include <stdlib.h>

#include "term/term.h"

#include "suite.h"

static void check_known(const char *variable, bool known, bool light)
{
    bool told = !light;

    assert_int_equal(text_background_known(variable, &told), known);
    assert_true(!known || told == light);
}

static void variable_gives_the_background(void **state)
{
    (void)state;
    check_known("15;0", true, false);
    check_known("0;15", true, true);
    check_known("0;default;7", true, true);
    check_known("12;8", true, false);
    check_known(NULL, false, false);
    check_known("", false, false);
    check_known("15", false, false);
    check_known("0;default", false, false);
    check_known("0;16", false, false);
    check_known("0;-1", false, false);
}

static void check_told(const char *reply, bool known, bool light)
{
    bool told = !light;

    suite_fail_if(text_background_told(bl_text_from(reply), &told) != known, "%s", reply);
    assert_true(!known || told == light);
}

static void terminal_reply_gives_the_background(void **state)
{
    (void)state;
    check_told("11;rgb:ffff/ffff/ffff", true, true);
    check_told("11;rgb:0000/0000/0000", true, false);
    check_told("11;rgb:fd/f6/e3", true, true);
    check_told("11;rgb:0/2b/36", true, false);
    check_told("11;rgba:FFFF/FFFF/FFFF/8000", true, true);
    check_told("11;rgb:fff/fff/fff", true, true);
    check_told("10;rgb:ffff/ffff/ffff", false, false);
    check_told("11;rgb:ffff/ffff", false, false);
    check_told("11;rgb:fffff/0/0", false, false);
    check_told("11;rgb:gg/00/00", false, false);
    check_told("11;#ffffff", false, false);
    check_told("", false, false);
}

static void check_written(const struct text_style *style, const char *wanted)
{
    struct text_style now = {0};
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    text_style_change(&out, &now, style, true);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void colours_suit_the_background_and_the_terminal(void **state)
{
    static const struct text_style yellow = {.colour = TEXT_YELLOW},
                                   added = {.bold = true, .tint = TEXT_ADDED};

    (void)state;
    unsetenv("COLORTERM");
    setenv("TERM", "xterm", 1);
    text_colours_for(true);
    check_written(&yellow, "\x1b[35m");
    check_written(&added, "\x1b[1;32m");
    setenv("TERM", "xterm-256color", 1);
    text_colours_for(true);
    check_written(&yellow, "\x1b[38;5;130m");
    check_written(&added, "\x1b[1;48;5;194m");
    setenv("COLORTERM", "truecolor", 1);
    text_colours_for(false);
    check_written(&yellow, "\x1b[33m");
    check_written(&added, "\x1b[1;48;2;22;56;36m");
    unsetenv("COLORTERM");
    setenv("TERM", "xterm", 1);
    text_colours_for(false);
    check_written(&added, "\x1b[1;32m");
}

SUITE(style, cmocka_unit_test(variable_gives_the_background),
      cmocka_unit_test(terminal_reply_gives_the_background),
      cmocka_unit_test(colours_suit_the_background_and_the_terminal));
