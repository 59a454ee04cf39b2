#include "term/term.h"

#include "suite.h"

/* Puts each piece that is not plain in brackets, after the first letter of its kind. */
static void mark(void *context, struct bl_text piece, const struct text_style *style)
{
    static const char colours[] = {[TEXT_GREEN] = 's',
                                   [TEXT_YELLOW] = 'n',
                                   [TEXT_BLUE] = 'f',
                                   [TEXT_MAGENTA] = 'k',
                                   [TEXT_CYAN] = 'v'};
    char letter = style->tint == TEXT_ADDED     ? '+'
                  : style->tint == TEXT_REMOVED ? '-'
                  : style->dim                  ? 'c'
                  : style->bold                 ? 'h'
                                                : colours[style->colour];

    assert_true(piece.size > 0);
    if (letter == '\0')
        bl_buffer_append(context, piece);
    else
        bl_buffer_printf(context, "%c[" BL_TEXT_FORMAT "]", letter, BL_TEXT_ARG(piece));
}

static void check(const char *name, const char *code, const char *wanted)
{
    struct bl_text rest = bl_text_from(code), line;
    struct highlight highlight;
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    highlight_begin(&highlight, bl_text_from(name));
    while (bl_text_split(&rest, '\n', &line)) {
        highlight_line(&highlight, line, mark, &out);
        bl_buffer_append_byte(&out, '\n');
    }
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void words_strings_comments_and_numbers_have_colours(void **state)
{
    (void)state;
    check("c",
          "#include <stdio.h>\n"
          "static int f(char c) /* one\n two */ { return c == '\\n' ? 0x1F : g(\"a\\\"b\"); } // "
          "end\n",
          "k[#include] <stdio.h>\n"
          "k[static] v[int] f[f](v[char] c) c[/* one]\n"
          "c[ two */] { k[return] c == s['\\n'] ? n[0x1F] : f[g](s[\"a\\\"b\"]); } c[// end]\n");
    check("Python",
          "@cache\ndef f(x):  # doc\n    \"\"\"one\n    two\"\"\"\n    return None, 'it', 1.5\n",
          "f[@cache]\nk[def] f[f](x):  c[# doc]\n    s[\"\"\"one]\ns[    two\"\"\"]\n"
          "    k[return] v[None], s['it'], n[1.5]\n");
    check("src/a.ts", "const x: string = `a\n${b}` // c\n",
          "k[const] x: v[string] = s[`a]\ns[${b}`] c[// c]\n");
    check("go", "func f(r rune) { s := `\\` }\n", "k[func] f[f](r v[rune]) { s := s[`\\`] }\n");
    check("rust", "fn f<'a>(x: &'a str) -> char { 'x' }\n",
          "k[fn] f<'a>(x: &'a v[str]) -> v[char] { s['x'] }\n");
    check("sh", "# c\nif [ \"$1\" = x ]; then echo $HOME ${A#b} a#b $? # d\nfi\n",
          "c[# c]\nk[if] [ s[\"$1\"] = x ]; k[then] v[echo] v[$HOME] v[${A#b}] a#b v[$?] c[# d]\n"
          "k[fi]\n");
    check("json", "{\"a\" : [1, -2.5, \"b\", true]}\n",
          "{f[\"a\"] : [n[1], -n[2.5], s[\"b\"], v[true]]}\n");
    check("config.yaml", "- name: it's on # c\n  url: http://x\nplain text: no\n",
          "- f[name]: it's v[on] c[# c]\n  f[url]: http://x\nplain text: v[no]\n");
    check("toml", "port = 8080\n", "f[port] = n[8080]\n");
}

static void diff_lines_are_coloured_by_their_signs(void **state)
{
    (void)state;
    check("diff", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-- old\n++ new\n",
          "h[diff --git a/x b/x]\nh[--- a/x]\nh[+++ b/x]\nv[@@ -1,2 +1,2 @@]\n same\n-[-- old]\n"
          "+[++ new]\n");
}

static void unknown_language_gets_common_rules_and_no_language_none(void **state)
{
    (void)state;
    check("kotlin", "fun f(): Int { return 1 } // don't\n",
          "k[fun] f[f](): Int { k[return] n[1] } c[// don't]\n");
    check("", "if x return \"y\"\n", "if x return \"y\"\n");
    check("text", "if x return 1\n", "if x return 1\n");
    check("a very long name that no language has", "if 1\n", "k[if] n[1]\n");
}

static void join(void *context, struct bl_text piece, const struct text_style *style)
{
    (void)style;
    bl_buffer_append(context, piece);
}

/* Nothing is lost or written twice, and the time is linear in the length of the line. */
static void a_long_line_is_whole_and_takes_little_time(void **state)
{
    static const char *const parts[] = {"\"", "'", "/*", "a:", "$", "${", "\\", "(", "- ", "\"\" "};
    uint64_t from_ns = bl_clock_now_ns(&bl_clock_system);
    struct bl_buffer line, out;

    (void)state;
    bl_buffer_init(&line, SIZE_MAX / 2);
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < BL_COUNT(parts); i++) {
        static const char *const names[] = {"c", "py", "js", "sh", "json", "yaml", "rs", "x"};
        bl_buffer_clear(&line);
        while (line.size < (size_t)1 << 20)
            bl_buffer_append(&line, bl_text_from(parts[i]));
        for (size_t name = 0; name < BL_COUNT(names); name++) {
            struct highlight highlight;
            highlight_begin(&highlight, bl_text_from(names[name]));
            bl_buffer_clear(&out);
            highlight_line(&highlight, bl_buffer_text(&line), join, &out);
            assert_true(bl_text_equal(bl_buffer_text(&out), bl_buffer_text(&line)));
        }
    }
    assert_true(bl_clock_now_ns(&bl_clock_system) - from_ns < 30 * BL_NS_PER_S);
    bl_buffer_done(&line);
    bl_buffer_done(&out);
}

SUITE(highlight, cmocka_unit_test(words_strings_comments_and_numbers_have_colours),
      cmocka_unit_test(diff_lines_are_coloured_by_their_signs),
      cmocka_unit_test(unknown_language_gets_common_rules_and_no_language_none),
      cmocka_unit_test(a_long_line_is_whole_and_takes_little_time));
