#include "suite.h"

#include <regex.h>
#include <stdio.h>
#include <time.h>

/* Compiles, searches and frees; fails the test if the pattern does not compile. */
static bool found(const char *source, struct bl_text text)
{
    struct bl_pattern *pattern = NULL;
    struct bl_error error = {0};
    if (bl_pattern_new(bl_text_from(source), &pattern, &error) < 0)
        fail_msg("/%s/: %s", source, error.message);
    bool result = bl_pattern_search(pattern, text);
    bl_pattern_free(pattern);
    return result;
}

struct search_case {
    const char *source;
    const char *text;
    bool found;
};

static void expect_cases(const struct search_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        suite_fail_if(found(cases[i].source, bl_text_from(cases[i].text)) != cases[i].found,
                      "/%s/ on \"%s\": expected %s", cases[i].source, cases[i].text,
                      cases[i].found ? "a match" : "no match");
    }
}

static void searches_anywhere_unless_anchored(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"", "", true},           {"", "x", true},       {"a+", "xxaayy", true},
        {"b", "aaa", false},      {"^a*$", "aaa", true}, {"^a*$", "aab", false},
        {"^a", "ba", false},      {"a$", "ab", false},   {"a$", "a\n", false},
        {"^b", "a\nb", false},    {"^$", "", true},      {"^$", "x", false},
        {"$^", "", true},         {"a^b", "ab", false},  {"(^a|b)c", "bc", true},
        {"x(^a|b)", "xa", false}, {"a|^b", "cb", false}, {"^a|b", "cb", true},
    };
    expect_cases(cases, BL_COUNT(cases));
}

static void groups_and_alternatives_combine(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"^(a|bc|def)$", "a", true},
        {"^(a|bc|def)$", "bc", true},
        {"^(a|bc|def)$", "def", true},
        {"^(a|bc|def)$", "bd", false},
        {"^(?:a|b)(?<name>c|d)$", "bd", true},
        {"^(?:a|b)(?<name>c|d)$", "ab", false},
        {"^(a|)$", "", true},
        {"^(|a)b$", "ab", true},
        {"^a||b$", "zzz", true},
        {"^((a|b)|(c|(d|e)))+$", "abcde", true},
        {"^((a|b)|(c|(d|e)))+$", "abcfde", false},
        {"^()$", "", true},
    };
    expect_cases(cases, BL_COUNT(cases));
}

static void quantifiers_count(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"^a?$", "", true},
        {"^a?$", "aa", false},
        {"^a+$", "", false},
        {"^a+$", "aaa", true},
        {"^a{3}$", "aaa", true},
        {"^a{3}$", "aa", false},
        {"^a{3}$", "aaaa", false},
        {"^a{2,}$", "a", false},
        {"^a{2,}$", "aaaaa", true},
        {"^a{0,}$", "", true},
        {"^a{2,4}$", "a", false},
        {"^a{2,4}$", "aaaa", true},
        {"^a{2,4}$", "aaaaa", false},
        {"^a{0}$", "", true},
        {"^a{0}$", "a", false},
        {"^ba{0,0}c$", "bc", true},
        {"^(ab){2}$", "abab", true},
        {"^(ab|c){2,3}$", "cabc", true},
        {"^(ab|c){2,3}$", "cabcc", false},
        {"^(a*)*$", "aaaa", true},
        {"^(a*)+b$", "aab", true},
        {"^(a?){3}$", "aa", true},
        {"^(a?){3}$", "aaaa", false},
        {"^a+?b*?c??$", "aab", true},
        {"^(?:){1000000000}x$", "x", true},
        {"^(a{2}){3}$", "aaaaaa", true},
        {"^(a{2}){3}$", "aaaaa", false},
        {"^((a|b){2}|c){2}$", "abc", true},
    };
    expect_cases(cases, BL_COUNT(cases));
}

static void classes_hold_ranges_and_escapes(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"^[abc]+$", "cab", true},
        {"^[a-c]+$", "abd", false},
        {"^[^a-c]+$", "xyz", true},
        {"^[^a-c]+$", "xaz", false},
        {"^[]$", "", false},
        {"[]", "a", false},
        {"[]", "é", false},
        {"^[^]$", "\n", true},
        {"^[-a]+$", "-a", true},
        {"^[a-]+$", "-a", true},
        {"^[\\w-]+$", "a-b", true},
        {"^[\\w-.]+$", "a-b.c", true},
        {"^[a-\\d]+$", "a-5", true},
        {"^[\\d\\s]+$", "1 2", true},
        {"^[^\\d]$", "5", false},
        {"^[\\D]$", "5", false},
        {"^[\\D5]$", "5", true},
        {"^[\\]\\\\]+$", "]\\", true},
        {"^[\\b]$", "\b", true},
        {"^[\\x41-\\x43]+$", "ABC", true},
        {"^[^\\W_]+$", "a_b", false},
        {"^[α-ω]+$", "λογος", true},
        {"^[α-ω]+$", "λóγος", false},
        {"^[😀-😎]$", "😃", true},
        {"^[\\uD83D\\uDE00-\\uD83D\\uDE0E]$", "😃", true},
        {"^[^x]$", "é", true},
        {"^[.*+?(){}|^$]+$", ".*+?(){}|^$", true},
        {"^[a\\-z]+$", "-", true},
        {"^[a\\-z]+$", "b", false},
    };
    expect_cases(cases, BL_COUNT(cases));
}

static void escapes_stand_for_characters_and_classes(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"^\\t\\n\\v\\f\\r$", "\t\n\v\f\r", true},
        {"^\\x41\\u0042\\u{43}\\u{1F600}$", "ABC😀", true},
        {"^\\uD83D\\uDE00$", "😀", true},
        {"^\\uD83D$", "😀", false},
        {"^\\cJ\\cj$", "\n\n", true},
        {"^\\d+$", "0123456789", true},
        {"^\\d$", "٣", false},
        {"^\\D$", "٣", true},
        {"^\\w+$", "aZ_09", true},
        {"^\\w$", "é", false},
        {"^\\W$", "é", true},
        {"^\\s+$", " \t\n\r\v\f\u00A0\uFEFF\u2028\u3000\u1680", true},
        {"^\\S$", "\u2003", false},
        {"^\\s$", "\u200B", false},
        {"^.$", "\u2028", false},
        {"^.$", "\n", false},
        {"^.$", "😀", true},
        {"^..$", "😀", false},
        {"^\\.\\*\\/\\-\\\"\\@\\ $", ".*/-\"@ ", true},
        {"^]}{$", "]}{", true},
        {"^a{,3}$", "a{,3}", true},
        {"^{}x{a}$", "{}x{a}", true},
        {"\\bfoo\\b", "a foo b", true},
        {"\\bfoo\\b", "afoo b", false},
        {"\\bfoo\\b", "foo", true},
        {"\\Boo\\b", "foo", true},
        {"\\Bfoo", "foo", false},
        {"^\\B$", "", true},
    };
    expect_cases(cases, BL_COUNT(cases));
    assert_true(found("^a\\0b$", (struct bl_text){"a\0b", 3}));
    assert_true(found("^a.b$", (struct bl_text){"a\0b", 3}));
    assert_true(found("^$", (struct bl_text){NULL, 0}));
}

static void properties_are_general_categories(void **state)
{
    (void)state;
    static const struct search_case cases[] = {
        {"^\\p{L}+$", "aBéλЖ中", true},
        {"^\\p{Letter}+$", "π", true},
        {"^\\p{Letter}+$", "1", false},
        {"^\\p{Lu}$", "É", true},
        {"^\\p{Lu}$", "é", false},
        {"^\\p{Uppercase_Letter}$", "Ж", true},
        {"^\\p{gc=Nd}+$", "1٣", true},
        {"^\\p{General_Category=Decimal_Number}+$", "1٣", true},
        {"^\\p{N}$", "½", true},
        {"^\\p{Nd}$", "½", false},
        {"^\\P{L}+$", "12 !", true},
        {"^\\P{L}+$", "12a", false},
        {"^\\p{P}+$", "!?«»…", true},
        {"^\\p{Punctuation}$", "+", false},
        {"^\\p{Sm}$", "+", true},
        {"^\\p{Sc}$", "€", true},
        {"^\\p{Zs}$", " ", true},
        {"^\\p{LC}$", "a", true},
        {"^\\p{LC}$", "中", false},
        {"^\\p{ASCII}+$", "abc", true},
        {"^\\p{ASCII}$", "é", false},
        {"^\\P{ASCII}$", "é", true},
        {"^\\p{Any}$", "\n", true},
        {"\\P{Any}", "abc", false},
        {"^\\p{Assigned}$", "a", true},
        {"^\\p{Cn}$", "\u0378", true},
        {"^[\\p{L}\\p{Nd}_-]+$", "é_1-", true},
        {"^[^\\p{L}]+$", "é", false},
        {"^[\\P{L}x]+$", "1x", true},
        {"^\\p{Co}$", "\U0010FFFD", true},
    };
    expect_cases(cases, BL_COUNT(cases));
}

static void malformed_patterns_are_refused_with_offset(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        int code;
        const char *message; /* its beginning */
    } cases[] = {
        {"*", BL_EPARSE, "offset 0: "},
        {"a**", BL_EPARSE, "offset 2: "},
        {"a|+", BL_EPARSE, "offset 2: "},
        {"(?:+)", BL_EPARSE, "offset 3: "},
        {"^*", BL_EPARSE, "offset 1: "},
        {"{2}", BL_EPARSE, "offset 0: "},
        {"a{2}{3}", BL_EPARSE, "offset 4: "},
        {"a{3,2}", BL_EPARSE, "offset 1: "},
        {"ab(c", BL_EPARSE, "offset 2: expected ')'"},
        {"abc)", BL_EPARSE, "offset 3: expected '('"},
        {"x[a-", BL_EPARSE, "offset 1: expected ']'"},
        {"[", BL_EPARSE, "offset 0: expected ']'"},
        {"[z-a]", BL_EPARSE, "offset 2: expected a range"},
        {"a\\", BL_EPARSE, "offset 2: "},
        {"\\xZZ", BL_EPARSE, "offset 1: "},
        {"\\u12", BL_EPARSE, "offset 2: "},
        {"\\u{110000}", BL_EPARSE, "offset 2: "},
        {"\\u{}", BL_EPARSE, "offset 2: "},
        {"\\A", BL_EPARSE, "offset 1: "},
        {"\\p", BL_EPARSE, "offset 2: "},
        {"\\p{L", BL_EPARSE, "offset 4: "},
        {"(?<>a)", BL_EPARSE, "offset 3: "},
        {"(?P<n>a)", BL_EPARSE, "offset 0: "},
        {"a\xFF", BL_EPARSE, "offset 1: not UTF-8"},
        {"\\p{Script=Greek}", BL_ENOTSUP, "offset 2: "},
        {"\\p{gc=ASCII}", BL_ENOTSUP, "offset 2: "},
        {"(a)\\1", BL_ENOTSUP, "offset 3: back-references"},
        {"(?<n>a)\\k<n>", BL_ENOTSUP, "offset 7: back-references"},
        {"a(?=b)", BL_ENOTSUP, "offset 1: look-ahead"},
        {"a(?!b)", BL_ENOTSUP, "offset 1: look-ahead"},
        {"(?<=a)b", BL_ENOTSUP, "offset 0: look-ahead"},
        {"(?<!a)b", BL_ENOTSUP, "offset 0: look-ahead"},
        {"a{20000}", BL_ELIMIT, "offset 8: too large"},
        {"a{4294967297}", BL_ELIMIT, "offset 13: too large"},
        {"((a{100}){100}){100}", BL_ELIMIT, "offset 20: too large"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_pattern *pattern = NULL;
        struct bl_error error = {0};
        int code = bl_pattern_new(bl_text_from(cases[i].source), &pattern, &error);
        if (code != cases[i].code || strstr(error.message, cases[i].message) != error.message)
            fail_msg("/%s/: %s \"%s\"", cases[i].source, bl_error_name(code), error.message);
        assert_null(pattern);
        assert_string_equal(error.operation, "pattern");
        assert_int_equal(bl_pattern_new(bl_text_from(cases[i].source), &pattern, NULL), code);
    }
}

static void limits_hold_for_depth_ranges_and_length(void **state)
{
    (void)state;
    static char source[200000];
    struct bl_pattern *pattern = NULL;
    memset(source, '(', 127);
    memset(source + 127, ')', 127);
    assert_int_equal(bl_pattern_new((struct bl_text){source, 254}, &pattern, NULL), 0);
    bl_pattern_free(pattern);
    memset(source, '(', 100000);
    assert_int_equal(bl_pattern_new((struct bl_text){source, 60000}, &pattern, NULL), BL_ELIMIT);
    assert_int_equal(bl_pattern_new((struct bl_text){source, 100000}, &pattern, NULL), BL_ELIMIT);
    for (size_t i = 0; i < 10000; i++)
        memcpy(source + i * 5, "\\p{L}", 5);
    assert_int_equal(bl_pattern_new((struct bl_text){source, 50000}, &pattern, NULL), BL_ELIMIT);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void catastrophic_patterns_take_linear_time(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "(a+)+$",
        "^(a+)+$",
        "(a*)*b",
        "(a|a)*b",
        "(a|aa)+$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*)(.*)(.*)(.*)(.*)x",
        "(a?){50}a{50}$",
    };
    static char text[50001];
    memset(text, 'a', 50000);
    text[50000] = '!';
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        double start = seconds();
        assert_false(found(sources[i], (struct bl_text){text, sizeof text}));
        assert_true(seconds() - start < (SUITE_SANITIZED ? 20 : 2));
    }
}

static void search_within_stops_at_its_budget(void **state)
{
    (void)state;
    static char text[10000];
    memset(text, 'a', sizeof text);
    struct bl_pattern *pattern;
    assert_int_equal(bl_pattern_new(BL_TEXT("a{1,5000}b"), &pattern, NULL), 0);
    uint64_t steps = 1000000;
    struct bl_text all = {text, sizeof text};
    assert_int_equal(bl_pattern_search_within(pattern, all, &steps), BL_ELIMIT);
    steps = 1000000;
    assert_int_equal(bl_pattern_search_within(pattern, BL_TEXT("xaab"), &steps), 1);
    assert_in_range(steps, 999900, 999999);
    assert_int_equal(bl_pattern_search_within(pattern, BL_TEXT("xaac"), &steps), 0);
    bl_pattern_free(pattern);
}

/* Writes a random pattern of the subset that has the same meaning in ECMAScript and POSIX. The
 * depth is bounded. */
static void write_random(struct bl_random *random, struct bl_buffer *out, int depth)
{
    static const char *const atoms[] = {"a", "b", "c", ".", "[ab]", "[^a]", "[b-c]", "x", "\\."};
    static const char *const quantifiers[] = {"*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"};
    uint64_t alternatives = 1 + bl_random_below(random, 2);
    for (uint64_t i = 0; i < alternatives; i++) {
        if (i > 0)
            bl_buffer_append_byte(out, '|');
        if (depth == 0 && bl_random_below(random, 3) == 0)
            bl_buffer_append_byte(out, '^');
        uint64_t items = 1 + bl_random_below(random, 3);
        for (uint64_t j = 0; j < items; j++) {
            if (depth < 3 && bl_random_below(random, 3) == 0) {
                bl_buffer_append_byte(out, '(');
                write_random(random, out, depth + 1);
                bl_buffer_append_byte(out, ')');
            } else {
                bl_buffer_append(out, bl_text_from(atoms[bl_random_below(random, 9)]));
            }
            if (bl_random_below(random, 3) == 0)
                bl_buffer_append(out, bl_text_from(quantifiers[bl_random_below(random, 7)]));
        }
        if (depth == 0 && bl_random_below(random, 3) == 0)
            bl_buffer_append_byte(out, '$');
    }
}

static void agrees_with_posix_on_random_patterns(void **state)
{
    (void)state;
    unsigned long rounds = suite_rounds(5000, 200000) / (SUITE_SANITIZED ? 4 : 1);
    struct bl_random random;
    struct bl_buffer source;
    bl_random_seed(&random, 20);
    bl_buffer_init(&source, 4096);
    for (unsigned long i = 0; i < rounds; i++) {
        bl_buffer_clear(&source);
        write_random(&random, &source, 0);
        bl_buffer_append_byte(&source, '\0');
        regex_t posix;
        assert_int_equal(regcomp(&posix, source.data, REG_EXTENDED | REG_NOSUB), 0);
        struct bl_pattern *pattern = NULL;
        assert_int_equal(bl_pattern_new(bl_text_from(source.data), &pattern, NULL), 0);
        for (int j = 0; j < 20; j++) {
            char text[16];
            size_t size = bl_random_below(&random, 12);
            for (size_t k = 0; k < size; k++)
                text[k] = "aaabbbcx."[bl_random_below(&random, 9)];
            text[size] = '\0';
            bool expected = regexec(&posix, text, 0, NULL, 0) == 0;
            if (bl_pattern_search(pattern, (struct bl_text){text, size}) != expected)
                fail_msg("/%s/ on \"%s\": POSIX says %d", source.data, text, expected);
        }
        bl_pattern_free(pattern);
        regfree(&posix);
    }
    bl_buffer_done(&source);
}

static void invalid_utf8_is_harmless(void **state)
{
    (void)state;
    assert_true(found("^.$", (struct bl_text){"\xFF", 1}));
    assert_true(found("^a..$", (struct bl_text){"a\xE2\x82", 3}));
    bl_pattern_free(NULL);
}

SUITE(pattern, cmocka_unit_test(searches_anywhere_unless_anchored),
      cmocka_unit_test(groups_and_alternatives_combine), cmocka_unit_test(quantifiers_count),
      cmocka_unit_test(classes_hold_ranges_and_escapes),
      cmocka_unit_test(escapes_stand_for_characters_and_classes),
      cmocka_unit_test(properties_are_general_categories),
      cmocka_unit_test(malformed_patterns_are_refused_with_offset),
      cmocka_unit_test(limits_hold_for_depth_ranges_and_length),
      cmocka_unit_test(catastrophic_patterns_take_linear_time),
      cmocka_unit_test(search_within_stops_at_its_budget),
      cmocka_unit_test(agrees_with_posix_on_random_patterns),
      cmocka_unit_test(invalid_utf8_is_harmless));
