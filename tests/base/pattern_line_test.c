#include "suite.h"

/* Compares the result of bl_pattern_search for each line with the lines that the finder returns. */
static void expect_same(struct bl_text source, const struct bl_pattern *pattern,
                        struct bl_text text)
{
    struct bl_line_finder *finder = bl_line_finder_new(pattern, NULL);
    struct bl_text rest = text, line, found = {0};
    size_t offset = 0;
    bool more = bl_line_finder_next(finder, text, &offset, &found);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t size = end != NULL ? (size_t)(end - rest.data) : rest.size;
        line = (struct bl_text){rest.data, size};
        if (line.size > 0 && line.data[line.size - 1] == '\r')
            line.size--;
        rest = (struct bl_text){rest.data + size + (end != NULL), rest.size - size - (end != NULL)};
        if (!bl_pattern_search(pattern, line))
            continue;
        if (!more || found.data != line.data || found.size != line.size)
            fail_msg("/" BL_TEXT_FORMAT "/ on line \"" BL_TEXT_FORMAT "\"", BL_TEXT_ARG(source),
                     BL_TEXT_ARG(line));
        more = bl_line_finder_next(finder, text, &offset, &found);
    }
    if (more)
        fail_msg("/" BL_TEXT_FORMAT "/ finds \"" BL_TEXT_FORMAT "\"", BL_TEXT_ARG(source),
                 BL_TEXT_ARG(found));
    assert_int_equal(offset, text.size);
    bl_line_finder_free(finder);
}

static struct bl_pattern *compiled(struct bl_text source, bool caseless)
{
    struct bl_pattern *pattern = NULL;
    int code = caseless ? bl_pattern_new_caseless(source, &pattern, NULL)
                        : bl_pattern_new(source, &pattern, NULL);
    assert_int_equal(code, 0);
    return pattern;
}

static unsigned count_lines(const char *source, bool caseless, struct bl_text text)
{
    struct bl_pattern *pattern = compiled(bl_text_from(source), caseless);
    struct bl_line_finder *finder = bl_line_finder_new(pattern, NULL);
    struct bl_text line;
    size_t offset = 0;
    unsigned count = 0;
    while (bl_line_finder_next(finder, text, &offset, &line))
        count++;
    expect_same(bl_text_from(source), pattern, text);
    bl_line_finder_free(finder);
    bl_pattern_free(pattern);
    return count;
}

static void each_line_is_matched_separately(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        unsigned count;
    } cases[] = {
        {"a", "", 0},
        {"^$", "", 0},
        {"^$", "\n", 1},
        {"^$", "\n\n", 2},
        {"^$", "\r\n\r\n", 2},
        {"^$", "a\n\nb", 1},
        {"a", "a", 1},
        {"a", "a\n", 1},
        {"a$", "a\nba\nab", 2},
        {"^a", "a\nba\nab", 2},
        {"a$", "a\r\nba\r\nab\r", 2},
        {"a$", "a\r", 1},
        {"a\\rb", "a\rb\n", 1},
        {"a\\sb", "a\nb", 0},
        {"a[^x]b", "a\nb", 0},
        {"a\\nb", "a\nb", 0},
        {"a\\r", "a\r\n", 0},
        {"a\\r", "a\rb\n", 1},
        {"foo", "xfoox\nfo\no\nfoo\nfofoo", 3},
        {"foo$", "xfoox\nfoo\nfofoo", 2},
        {"\\bfoo\\b", "xfoo\nfoo\n(foo)\nfoo_\n", 2},
        {"foo.*bar", "foobar\nbarfoo\nfoo bar", 2},
        {"(foo|bar)+baz", "foobaz\nbaz\nbarfoobaz", 2},
        {"fo?o{2}", "foo\nfooo\nfo", 2},
        {"^.$", "\xC3\xA9\n\xFF\nab\n", 2},
        {"\\uFFFD", "\xFF\n\xEF\xBF\xBD\nx\n", 2},
        {"a\\uD83Db", "ab\n", 0},
        {"\xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9\nete\n", 1},
        {"", "a\n\nb", 3},
        {"[]", "a\n\xC3\xA9\n", 0},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        if (count_lines(cases[i].source, false, bl_text_from(cases[i].text)) != cases[i].count)
            fail_msg("/%s/ on \"%s\"", cases[i].source, cases[i].text);
}

static void caseless_patterns_take_both_cases(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        unsigned count;
    } cases[] = {
        {"foo", "FOO\nfoo\nFoO\nf00", 3},
        {"[a-c]+x", "ABX\nabx\ndx", 2},
        {"^[^a]$", "A\na\nb\n", 1},
        {"\\u00e9", "\xC3\x89\n\xC3\xA9\n", 2},
        {"stra\\u00dfe",
         "STRA\xE1\xBA\x9E"
         "E\nstra\xC3\x9F"
         "e\nSTRASSE",
         2},
        {"\\u03c3", "\xCE\xA3\n\xCF\x83\n\xCF\x82\n", 3},
        {"k", "\xE2\x84\xAA\nK\nk\n", 3},
        {"^\\p{Lu}$", "a\nA\n1", 2},
        {"^\\W$", "s\nk\n!", 1},
        {"^\\d\\x41$", "1a\n2A\nAA", 2},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        if (count_lines(cases[i].source, true, bl_text_from(cases[i].text)) != cases[i].count)
            fail_msg("/%s/i on \"%s\"", cases[i].source, cases[i].text);
}

static void write_random(struct bl_random *random, struct bl_buffer *out, int depth)
{
    static const char *const atoms[] = {
        "a", "b", "ab",  "cab", ".",      "[ab]",     "[^a]",         "\\w", "\\W",     "\\b",
        "^", "$", "\\B", "\\s", "\\p{L}", "\xC3\xA9", "[b-\xC3\xBC]", "\\r", "\\uFFFD", "bcba"};
    static const char *const quantifiers[] = {"*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"};
    uint64_t alternatives = 1 + bl_random_below(random, 2);
    for (uint64_t i = 0; i < alternatives; i++) {
        if (i > 0)
            bl_buffer_append_byte(out, '|');
        uint64_t items = 1 + bl_random_below(random, 4);
        for (uint64_t j = 0; j < items; j++) {
            const char *atom = atoms[bl_random_below(random, BL_COUNT(atoms))];
            bool group = depth < 3 && bl_random_below(random, 4) == 0;
            if (group) {
                bl_buffer_append_byte(out, '(');
                write_random(random, out, depth + 1);
                bl_buffer_append_byte(out, ')');
            } else {
                bl_buffer_append(out, bl_text_from(atom));
            }
            bool repeatable = group || strchr("^$", atom[0]) == NULL;
            if (!group && (strcmp(atom, "\\b") == 0 || strcmp(atom, "\\B") == 0))
                repeatable = false;
            if (repeatable && bl_random_below(random, 4) == 0)
                bl_buffer_append(out, bl_text_from(quantifiers[bl_random_below(random, 7)]));
        }
    }
}

static void agrees_with_a_search_of_each_line(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "a",        "b",    "c",    "ab",       "a",    "_",   " ",  "\n", "\r\n", "\n",
        "\xC3\xA9", "\xFF", "\xC3", "\xE2\x82", "bcba", "cab", "\r", "A",  "B",    "\xC3\x89"};
    unsigned long rounds = suite_rounds(4000, 400000) / (SUITE_SANITIZED ? 4 : 1);
    struct bl_random random;
    struct bl_buffer source, text;
    bl_random_seed(&random, 31);
    bl_buffer_init(&source, 4096);
    bl_buffer_init(&text, 4096);
    for (unsigned long i = 0; i < rounds; i++) {
        bl_buffer_clear(&source);
        bl_buffer_clear(&text);
        write_random(&random, &source, 0);
        uint64_t size = bl_random_below(&random, 60);
        for (uint64_t j = 0; j < size; j++)
            bl_buffer_append(&text,
                             bl_text_from(pieces[bl_random_below(&random, BL_COUNT(pieces))]));
        struct bl_pattern *pattern =
            compiled(bl_buffer_text(&source), bl_random_below(&random, 2) == 0);
        expect_same(bl_buffer_text(&source), pattern, bl_buffer_text(&text));
        bl_pattern_free(pattern);
    }
    bl_buffer_done(&text);
    bl_buffer_done(&source);
}

/* With an unbounded number of sets, the finder discards its rows many times. */
static void memory_is_bounded_for_an_unbounded_number_of_sets(void **state)
{
    (void)state;
    size_t size = SUITE_SANITIZED ? 100000 : 400000;
    char *text = bl_alloc(size);
    struct bl_random random;
    bl_random_seed(&random, 7);
    for (size_t i = 0; i < size; i++)
        text[i] = "aaabbb\n"[bl_random_below(&random, i % 100 == 99 ? 7 : 6)];
    static const char *const sources[] = {"a[ab]{16}c", "a[ab]{16}b$",
                                          "(a[ab]{9}|b[ab]{11})ab[ab]{14}a"};
    for (size_t i = 0; i < BL_COUNT(sources); i++)
        count_lines(sources[i], false, (struct bl_text){text, size});
    bl_free(text);
}

static void a_stopped_finder_finds_nothing(void **state)
{
    (void)state;
    atomic_bool stopped = true;
    static const char *const sources[] = {"foo", "fo+", "."};
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        struct bl_pattern *pattern = compiled(bl_text_from(sources[i]), false);
        struct bl_line_finder *finder = bl_line_finder_new(pattern, &stopped);
        struct bl_text line;
        size_t offset = 0;
        assert_false(bl_line_finder_next(finder, BL_TEXT("foo\nfoo\n"), &offset, &line));
        bl_line_finder_free(finder);
        bl_pattern_free(pattern);
    }
    bl_line_finder_free(NULL);
}

static void literals_longer_than_the_kept_part_are_found(void **state)
{
    (void)state;
    static char source[1001], text[4096];
    for (size_t i = 0; i < 1000; i++)
        source[i] = (char)('a' + i % 23);
    for (size_t size = 250; size <= 260; size++) {
        memcpy(text, "x\n", 2);
        memcpy(text + 2, source, size);
        text[2 + size] = '\n';
        memcpy(text + 3 + size, source, size - 1);
        text[2 + 2 * size] = '\n';
        struct bl_pattern *pattern = compiled((struct bl_text){source, size}, false);
        expect_same((struct bl_text){source, size}, pattern, (struct bl_text){text, 3 + 2 * size});
        bl_pattern_free(pattern);
    }
}

SUITE(pattern_line, cmocka_unit_test(each_line_is_matched_separately),
      cmocka_unit_test(caseless_patterns_take_both_cases),
      cmocka_unit_test(agrees_with_a_search_of_each_line),
      cmocka_unit_test(memory_is_bounded_for_an_unbounded_number_of_sets),
      cmocka_unit_test(a_stopped_finder_finds_nothing),
      cmocka_unit_test(literals_longer_than_the_kept_part_are_found));
