/* Parses a report, as HTML and as text. */
#ifndef BELAY_TESTS_FEATURE_PAGE_H
#define BELAY_TESTS_FEATURE_PAGE_H

#include <stdio.h>

#include "suite.h"

static inline bool page_in_words(const char *words, struct bl_text word)
{
    struct bl_text rest = bl_text_from(words), one;
    while (bl_text_split(&rest, ' ', &one)) {
        if (bl_text_equal(one, word))
            return true;
    }
    return false;
}

static inline struct bl_text page_take_name(const char **at)
{
    const char *start = *at;
    while ((**at >= 'a' && **at <= 'z') || (**at >= '0' && **at <= '9') || **at == '-')
        (*at)++;
    return (struct bl_text){start, (size_t)(*at - start)};
}

/* Takes text in which '&' only starts references. Stops at `end`. */
static inline void page_take_text(const char **at, char end)
{
    static const char *const references[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (; **at != end && **at != '\0'; (*at)++) {
        assert_false(end == '"' && **at == '<');
        if (**at != '&')
            continue;
        bool known = false;
        for (size_t i = 0; i < BL_COUNT(references); i++)
            known = known || strncmp(*at, references[i], strlen(references[i])) == 0;
        assert_true(known);
    }
}

static inline void page_take_attributes(const char **at)
{
    while (**at == ' ') {
        (*at)++;
        struct bl_text name = page_take_name(at);
        assert_true(
            page_in_words("lang charset name content http-equiv class id style title href role "
                          "aria-label open data-name",
                          name));
        if (**at != '=')
            continue;
        (*at)++;
        assert_int_equal(*(*at)++, '"');
        /* The target of a reference is in the file. */
        if (bl_text_equal(name, BL_TEXT("href")))
            assert_int_equal(**at, '#');
        page_take_text(at, '"');
        assert_int_equal(*(*at)++, '"');
    }
}

/* Checks that every tag is a known one and closed in order, and that there is no script and no
 * external reference. Returns the number of elements. */
static inline size_t page_check(struct bl_text html)
{
    static const char *const known =
        "html head meta title style body header main footer section article p h1 h2 h3 h4 ul li "
        "div span b i a br small code pre table thead tbody tfoot tr th td details summary";
    struct bl_text open[64];
    size_t depth = 0, count = 0;
    const char *at = html.data;
    assert_int_equal(strncmp(at, "<!DOCTYPE html>\n", 16), 0);
    at += 16;
    while (*at != '\0') {
        page_take_text(&at, '<');
        if (*at == '\0')
            break;
        bool closes = *++at == '/';
        at += closes;
        struct bl_text name = page_take_name(&at);
        if (!page_in_words(known, name))
            fail_msg("an element '%.*s'", (int)name.size, name.data);
        if (closes) {
            assert_true(depth > 0 && bl_text_equal(open[--depth], name));
        } else {
            count++;
            page_take_attributes(&at);
            if (!page_in_words("meta br", name)) {
                assert_true(depth < BL_COUNT(open));
                open[depth++] = name;
            }
        }
        assert_int_equal(*at++, '>');
    }
    assert_int_equal(depth, 0);
    return count;
}

/* Reads the numeric cells of a row of the HTML table, as words of a line. */
static inline void page_html_numbers(struct bl_text text, const char *row, char out[256])
{
    ptrdiff_t at = bl_text_find(text, bl_text_from(row));
    assert_true(at >= 0);
    text.data += at;
    text.size -= (size_t)at;
    text.size = (size_t)bl_text_find(text, BL_TEXT("</tr>"));
    size_t used = 0;
    for (;;) {
        at = bl_text_find(text, BL_TEXT("<td class=\"num\""));
        if (at < 0)
            break;
        text.data += at;
        text.size -= (size_t)at;
        size_t start = (size_t)bl_text_find(text, BL_TEXT(">")) + 1;
        size_t end = (size_t)bl_text_find(text, BL_TEXT("</td>"));
        used += (size_t)snprintf(out + used, 256 - used, "%s%.*s", used > 0 ? " " : "",
                                 (int)(end - start), text.data + start);
        text.data += end;
        text.size -= end;
    }
}

/* Reads them from a line of the text, whose first two words are not numbers. */
static inline void page_text_numbers(struct bl_text rest, const char *row, char out[256])
{
    char start[64];
    snprintf(start, sizeof start, "\n%s ", row);
    struct bl_text line, word;
    ptrdiff_t at = bl_text_find(rest, BL_TEXT("\nTasks\n-----"));
    rest.data += at;
    rest.size -= (size_t)at;
    at = bl_text_find(rest, bl_text_from(start));
    assert_true(at >= 0);
    rest.data += at + 1;
    rest.size -= (size_t)at + 1;
    assert_true(bl_text_split(&rest, '\n', &line));
    size_t used = 0, words = 0;
    while (bl_text_split(&line, ' ', &word)) {
        if (word.size == 0 || words++ < 2)
            continue;
        used += (size_t)snprintf(out + used, 256 - used, "%s%.*s", used > 0 ? " " : "",
                                 (int)word.size, word.data);
    }
}

#endif
