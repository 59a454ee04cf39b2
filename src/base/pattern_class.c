/* Classes and escapes of patterns. */
#include "pattern.h"

#include <stdlib.h>

#include "categories.h"

#define RANGES_MAX 131072u

static const struct range digits[] = {{'0', '9'}};
static const struct range word_characters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range spaces[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct range line_ends[] = {{0xA, 0xA}, {0xD, 0xD}, {0x2028, 0x2029}};

static int pattern_class_add_range(struct parser *parser, uint32_t first, uint32_t last)
{
    struct bl_pattern *pattern = parser->pattern;
    if (pattern->range_count >= RANGES_MAX)
        return base_parser_refuse(parser, BL_ELIMIT, parser->offset, "too many character ranges");
    /* One more than needed, so that the complement always fits. */
    pattern->ranges = base_parser_grow(pattern->ranges, pattern->range_count, 2,
                                       &parser->range_capacity, sizeof *pattern->ranges);
    pattern->ranges[pattern->range_count++] = (struct range){first, last};
    return 0;
}

/* Adds the characters that differ only by case from one in `first` to `last`. */
static int add_cases(struct parser *parser, uint32_t first, uint32_t last)
{
    size_t low = 0, high = BL_COUNT(case_pairs);
    int result = 0;
    if (!parser->caseless)
        return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (case_pairs[middle].point < first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; result == 0 && low < BL_COUNT(case_pairs) && case_pairs[low].point <= last; low++)
        result = pattern_class_add_range(parser, case_pairs[low].alike, case_pairs[low].alike);
    return result;
}

/* The same for all ranges from `start` on. */
static int add_cases_from(struct parser *parser, uint32_t start)
{
    uint32_t end = parser->pattern->range_count;
    int result = 0;
    for (uint32_t i = start; i < end && result == 0; i++) {
        struct range range = parser->pattern->ranges[i];
        result = add_cases(parser, range.first, range.last);
    }
    return result;
}

/* Replaces the ranges from `start` on, which must be sorted and disjoint, by their complement. */
static void complement(struct parser *parser, uint32_t start)
{
    struct bl_pattern *pattern = parser->pattern;
    uint32_t next = 0, out = start;
    pattern->ranges = base_parser_grow(pattern->ranges, pattern->range_count, 1,
                                       &parser->range_capacity, sizeof *pattern->ranges);
    for (uint32_t i = start; i < pattern->range_count; i++) {
        struct range range = pattern->ranges[i];
        if (range.first > next)
            pattern->ranges[out++] = (struct range){next, range.first - 1};
        next = range.last + 1;
    }
    if (next <= PATTERN_LAST_POINT)
        pattern->ranges[out++] = (struct range){next, PATTERN_LAST_POINT};
    pattern->range_count = out;
}

static int add_table(struct parser *parser, const struct range *table, size_t count, bool negated)
{
    uint32_t start = parser->pattern->range_count;
    for (size_t i = 0; i < count; i++) {
        int result = pattern_class_add_range(parser, table[i].first, table[i].last);
        if (result < 0)
            return result;
    }
    if (negated)
        complement(parser, start);
    return 0;
}

/* Adds all code points whose category is in `mask`. */
static int add_categories(struct parser *parser, uint32_t mask)
{
    for (size_t i = 0; i < BL_COUNT(category_runs);) {
        size_t start = i;
        while (i < BL_COUNT(category_runs) && mask >> (category_runs[i] & 31u) & 1u)
            i++;
        if (i == start) {
            i++;
            continue;
        }
        uint32_t last =
            i < BL_COUNT(category_runs) ? (category_runs[i] >> 5) - 1 : PATTERN_LAST_POINT;
        int result = pattern_class_add_range(parser, category_runs[start] >> 5, last);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Parses the rest of `\p` or `\P`: `{name}` or `{General_Category=name}`. */
static int pattern_class_add_property(struct parser *parser, bool negated)
{
    static const struct range ascii[] = {{0, 0x7F}};
    size_t start = parser->offset;
    if (!base_parser_take(parser, "{"))
        return base_parser_refuse(parser, BL_EPARSE, start, "expected '{' and a property name");
    struct bl_text name = {parser->source.data + parser->offset,
                           parser->source.size - parser->offset};
    ptrdiff_t end = bl_text_find(name, BL_TEXT("}"));
    if (end < 0)
        return base_parser_refuse(parser, BL_EPARSE, parser->source.size,
                                  "expected '}' after a property name");
    name.size = (size_t)end;
    parser->offset += name.size + 1;
    bool only_category = false;
    const struct bl_text keys[] = {BL_TEXT("General_Category="), BL_TEXT("gc=")};
    for (size_t i = 0; i < BL_COUNT(keys); i++) {
        if (bl_text_starts_with(name, keys[i])) {
            name = (struct bl_text){name.data + keys[i].size, name.size - keys[i].size};
            only_category = true;
            break;
        }
    }
    if (!only_category && bl_text_equal(name, BL_TEXT("ASCII")))
        return add_table(parser, ascii, 1, negated);
    for (size_t i = 0; i < BL_COUNT(category_names); i++) {
        if (bl_text_equal(name, bl_text_from(category_names[i].name)))
            return add_categories(parser,
                                  negated ? ~category_names[i].mask : category_names[i].mask);
    }
    return base_parser_refuse(
        parser, BL_ENOTSUP, start,
        "unknown property (expected a general category such as L, Letter or Nd; or Any, "
        "ASCII or Assigned)");
}

int base_class_add_escape(struct parser *parser, uint32_t letter)
{
    uint32_t start = parser->pattern->range_count;
    int result;
    switch (letter) {
    case 'd':
    case 'D': result = add_table(parser, digits, BL_COUNT(digits), letter == 'D'); break;
    case 'w':
    case 'W':
        result = add_table(parser, word_characters, BL_COUNT(word_characters), letter == 'W');
        break;
    case 's':
    case 'S': result = add_table(parser, spaces, BL_COUNT(spaces), letter == 'S'); break;
    case 'p':
    case 'P':
        result = pattern_class_add_property(parser, letter == 'P');
        if (result == 0)
            result = add_cases_from(parser, start);
        break;
    default: return 0;
    }
    return result < 0 ? result : 1;
}

static int pattern_class_compare_ranges(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

int base_class_emit(struct parser *parser, uint32_t start, bool negated)
{
    struct bl_pattern *pattern = parser->pattern;
    uint32_t out = start;
    if (pattern->range_count > start)
        qsort(pattern->ranges + start, pattern->range_count - start, sizeof *pattern->ranges,
              pattern_class_compare_ranges);
    for (uint32_t i = start; i < pattern->range_count; i++) {
        struct range range = pattern->ranges[i];
        if (out > start && range.first <= pattern->ranges[out - 1].last + 1) {
            if (range.last > pattern->ranges[out - 1].last)
                pattern->ranges[out - 1].last = range.last;
        } else {
            pattern->ranges[out++] = range;
        }
    }
    pattern->range_count = out;
    if (negated)
        complement(parser, start);

    struct class class = {.start = start, .count = pattern->range_count - start};
    for (uint32_t i = start; i < pattern->range_count; i++) {
        for (uint32_t c = pattern->ranges[i].first; c <= pattern->ranges[i].last && c < 128; c++)
            class.ascii[c / 64] |= 1ull << c % 64;
    }
    pattern->classes = base_parser_grow(pattern->classes, pattern->class_count, 1,
                                        &parser->class_capacity, sizeof *pattern->classes);
    pattern->classes[pattern->class_count] = class;
    return base_parser_emit_atom(parser, CLASS, pattern->class_count++);
}

int base_class_emit_point(struct parser *parser, uint32_t point)
{
    uint32_t start = parser->pattern->range_count;
    int result = add_cases(parser, point, point);
    if (result < 0)
        return result;
    if (parser->pattern->range_count == start)
        return base_parser_emit_atom(parser, CHARACTER, point);
    result = pattern_class_add_range(parser, point, point);
    return result < 0 ? result : base_class_emit(parser, start, false);
}

static int pattern_class_hex_value(int byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* Takes exactly `count` hexadecimal digits. Consumes nothing if there are fewer. */
static bool take_hex(struct parser *parser, size_t count, uint32_t *ret_value)
{
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = pattern_class_hex_value(base_parser_peek(parser, i));
        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    parser->offset += count;
    *ret_value = value;
    return true;
}

/* Parses the rest of `\u`: HHHH, a pair of surrogates, or {H…}. A lone surrogate gives a code point
 * that matches nothing, since no valid text contains it. */
static int take_unicode_escape(struct parser *parser, uint32_t *ret_point)
{
    size_t start = parser->offset;
    if (base_parser_take(parser, "{")) {
        uint32_t value = 0, digit;
        size_t digit_count = 0;
        for (; value <= PATTERN_LAST_POINT && take_hex(parser, 1, &digit); digit_count++)
            value = value << 4 | digit;
        if (digit_count == 0 || value > PATTERN_LAST_POINT || !base_parser_take(parser, "}"))
            return base_parser_refuse(parser, BL_EPARSE, start,
                                      "expected \\u{…} with a code point inside");
        *ret_point = value;
        return 0;
    }
    uint32_t high, low;
    if (!take_hex(parser, 4, &high))
        return base_parser_refuse(parser, BL_EPARSE, start,
                                  "expected four hexadecimal digits after \\u");
    *ret_point = high;
    size_t after_high = parser->offset;
    if (high >> 10 != 0xD800 >> 10 || !base_parser_take(parser, "\\u"))
        return 0;
    if (take_hex(parser, 4, &low) && low >> 10 == 0xDC00 >> 10)
        *ret_point = 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
    else
        parser->offset = after_high;
    return 0;
}

int base_class_take_escape(struct parser *parser, uint32_t point, uint32_t *ret_point)
{
    static const char letters[] = "tnvfr";
    static const char values[] = "\t\n\v\f\r";
    size_t start = parser->offset - 1;
    int next = base_parser_peek(parser, 0);
    const char *letter = point > 0 && point < 128 ? strchr(letters, (int)point) : NULL;

    if (letter != NULL) {
        *ret_point = (unsigned char)values[letter - letters];
        return 0;
    }
    if (point == 'x')
        return take_hex(parser, 2, ret_point)
                   ? 0
                   : base_parser_refuse(parser, BL_EPARSE, start,
                                        "expected two hexadecimal digits after \\x");
    if (point == 'u')
        return take_unicode_escape(parser, ret_point);
    if (point == 'c' && ((next | 0x20) >= 'a' && (next | 0x20) <= 'z')) {
        parser->offset++;
        *ret_point = (uint32_t)next & 31;
        return 0;
    }
    if (point == '0' && !(next >= '0' && next <= '9')) {
        *ret_point = 0;
        return 0;
    }
    bool alphanumeric = (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') ||
                        (point >= 'a' && point <= 'z');
    if (alphanumeric)
        return base_parser_refuse(parser, BL_EPARSE, start, "expected a valid escape after '\\'");
    *ret_point = point;
    return 0;
}

/* Takes one member of a class. Returns 0 and the character in `*ret_point`, or 1 for a class like
 * \d. */
static int take_class_member(struct parser *parser, uint32_t *ret_point)
{
    int result = base_parser_take_point(parser, ret_point);
    if (result < 0 || *ret_point != '\\')
        return result;
    uint32_t escape;
    result = base_parser_take_point(parser, &escape);
    if (result < 0)
        return result;
    result = base_class_add_escape(parser, escape);
    if (result != 0)
        return result;
    if (escape == 'b') {
        *ret_point = '\b';
        return 0;
    }
    return base_class_take_escape(parser, escape, ret_point);
}

int base_class_parse(struct parser *parser)
{
    size_t opening = parser->offset - 1;
    uint32_t start = parser->pattern->range_count;
    bool negated = base_parser_take(parser, "^");
    while (!base_parser_take(parser, "]")) {
        if (base_parser_peek(parser, 0) < 0)
            return base_parser_refuse(parser, BL_EPARSE, opening, "expected ']' to close this '['");
        size_t member = parser->offset;
        uint32_t first, last;
        int is_class = take_class_member(parser, &first);
        if (is_class < 0)
            return is_class;
        if (is_class)
            continue;
        last = first;
        if (base_parser_peek(parser, 0) == '-' && base_parser_peek(parser, 1) >= 0 &&
            base_parser_peek(parser, 1) != ']') {
            size_t dash = parser->offset++;
            is_class = take_class_member(parser, &last);
            if (is_class < 0)
                return is_class;
            if (is_class) {
                last = first;
                int result = pattern_class_add_range(parser, '-', '-');
                if (result < 0)
                    return result;
            } else if (last < first) {
                return base_parser_refuse(parser, BL_EPARSE, dash < member ? member : dash,
                                          "expected a range from low to high");
            }
        }
        int result = pattern_class_add_range(parser, first, last);
        if (result == 0)
            result = add_cases(parser, first, last);
        if (result < 0)
            return result;
    }
    return base_class_emit(parser, start, negated);
}

int base_class_emit_dot(struct parser *parser)
{
    uint32_t start = parser->pattern->range_count;
    int result = add_table(parser, line_ends, BL_COUNT(line_ends), true);
    return result < 0 ? result : base_class_emit(parser, start, false);
}
