/* The parser of patterns: from text to program. */
#include "pattern.h"

#include <assert.h>
#include <stdio.h>

#define SOURCE_MAX  65536u
#define PROGRAM_MAX 20000u
#define REPEAT_MAX  1000000u /* exceeds every program; larger counts are reduced to it */
#define UNBOUNDED   UINT32_MAX

int base_parser_refuse(struct parser *parser, int code, size_t offset, const char *what)
{
    char target[128];
    struct bl_text shown = bl_utf8_cut(parser->source, sizeof target - 1);
    snprintf(target, sizeof target, BL_TEXT_FORMAT, BL_TEXT_ARG(shown));
    return bl_error_set(parser->error, code, BL_KIND_PARSE, "pattern", target, "offset %zu: %s",
                        offset, what);
}

int base_parser_take_point(struct parser *parser, uint32_t *ret_point)
{
    struct bl_text rest = {parser->source.data + parser->offset,
                           parser->source.size - parser->offset};
    if (rest.size == 0)
        return base_parser_refuse(parser, BL_EPARSE, parser->offset,
                                  "expected a character, found the end");
    size_t size = bl_utf8_decode(rest, ret_point);
    if (size == 0)
        return base_parser_refuse(parser, BL_EPARSE, parser->offset, "not UTF-8");
    parser->offset += size;
    return 0;
}

int base_parser_peek(const struct parser *parser, size_t ahead)
{
    if (ahead >= parser->source.size - parser->offset)
        return -1;
    return (unsigned char)parser->source.data[parser->offset + ahead];
}

bool base_parser_take(struct parser *parser, const char *expected)
{
    struct bl_text rest = {parser->source.data + parser->offset,
                           parser->source.size - parser->offset};
    struct bl_text prefix = bl_text_from(expected);
    if (!bl_text_starts_with(rest, prefix))
        return false;
    parser->offset += prefix.size;
    return true;
}

void *base_parser_grow(void *items, uint32_t size, uint32_t count, uint32_t *capacity,
                       size_t item_size)
{
    if (size + count <= *capacity)
        return items;
    *capacity = (size + count) * 2;
    return bl_realloc(items, *capacity * item_size);
}

/* Reserves room for `count` more instructions. BL_ELIMIT: the program would be too large. */
static int program_reserve(struct parser *parser, uint64_t count)
{
    struct bl_pattern *pattern = parser->pattern;
    if (count > PROGRAM_MAX - pattern->size)
        return base_parser_refuse(parser, BL_ELIMIT, parser->offset,
                                  "too large: expands to more than 20000 instructions");
    pattern->program = base_parser_grow(pattern->program, pattern->size, (uint32_t)count,
                                        &parser->program_capacity, sizeof *pattern->program);
    return 0;
}

static int emit(struct parser *parser, enum operation operation, uint32_t operand)
{
    int result = program_reserve(parser, 1);
    if (result < 0)
        return result;
    struct bl_pattern *pattern = parser->pattern;
    pattern->program[pattern->size++] = (struct instruction){operation, (int32_t)operand};
    return 0;
}

int base_parser_emit_atom(struct parser *parser, enum operation operation, uint32_t operand)
{
    parser->atom = parser->pattern->size;
    parser->repeatable = true;
    return emit(parser, operation, operand);
}

static int emit_assertion(struct parser *parser, enum operation operation)
{
    parser->repeatable = false;
    return emit(parser, operation, 0);
}

/* Parses the rest of an escape outside of a class. */
static int parse_escape(struct parser *parser)
{
    size_t start = parser->offset - 1;
    uint32_t ranges = parser->pattern->range_count, point;
    int result = base_parser_take_point(parser, &point);
    if (result < 0)
        return result;
    if (point == 'b' || point == 'B')
        return emit_assertion(parser, point == 'b' ? WORD_EDGE : NO_WORD_EDGE);
    if ((point >= '1' && point <= '9') || point == 'k')
        return base_parser_refuse(parser, BL_ENOTSUP, start, "back-references are not supported");
    result = base_class_add_escape(parser, point);
    if (result < 0)
        return result;
    if (result > 0)
        return base_class_emit(parser, ranges, false);
    result = base_class_take_escape(parser, point, &point);
    if (result < 0)
        return result;
    return base_class_emit_point(parser, point);
}

/* Opens a group, from after its `(`. All kinds of groups are treated alike; a name is only checked
 * for its syntax. */
static int open_group(struct parser *parser)
{
    size_t opening = parser->offset - 1;
    if (base_parser_take(parser, "?=") || base_parser_take(parser, "?!") ||
        base_parser_take(parser, "?<=") || base_parser_take(parser, "?<!"))
        return base_parser_refuse(parser, BL_ENOTSUP, opening,
                                  "look-ahead and look-behind are not supported");
    if (base_parser_take(parser, "?<")) {
        size_t name = parser->offset;
        while (base_parser_peek(parser, 0) >= 0 &&
               strchr(">()[]{}|*+?^. ", base_parser_peek(parser, 0)) == NULL)
            parser->offset++;
        if (parser->offset == name || !base_parser_take(parser, ">"))
            return base_parser_refuse(parser, BL_EPARSE, name, "expected a group name and '>'");
    } else if (base_parser_take(parser, "?") && !base_parser_take(parser, ":")) {
        return base_parser_refuse(parser, BL_EPARSE, opening, "expected '(', '(?:' or '(?<name>'");
    }
    if (parser->depth == PATTERN_DEPTH_MAX)
        return base_parser_refuse(parser, BL_ELIMIT, opening, "groups nested deeper than 128");
    uint32_t start = parser->pattern->size;
    parser->groups[parser->depth++] = (struct group){start, start, 0, opening};
    parser->repeatable = false;
    return 0;
}

/* Handles `|`: puts a SPLIT before the alternative that ends here, and after it a JUMP to the
 * group's end. The jumps of one group are chained until that end is known. */
static int next_alternative(struct parser *parser)
{
    struct group *group = &parser->groups[parser->depth - 1];
    struct bl_pattern *pattern = parser->pattern;
    int result = program_reserve(parser, 2);
    if (result < 0)
        return result;
    struct instruction *first = &pattern->program[group->alternative];
    uint32_t count = pattern->size - group->alternative;
    memmove(first + 1, first, count * sizeof *first);
    *first = (struct instruction){SPLIT, (int32_t)count + 2};
    first[count + 1] = (struct instruction){JUMP, (int32_t)group->exits};
    pattern->size += 2;
    group->exits = pattern->size;
    group->alternative = pattern->size;
    parser->repeatable = false;
    return 0;
}

/* Ends the innermost group, which then can be repeated. */
static void close_group(struct parser *parser)
{
    struct group *group = &parser->groups[--parser->depth];
    struct bl_pattern *pattern = parser->pattern;
    for (uint32_t exit = group->exits; exit != 0;) {
        struct instruction *jump = &pattern->program[exit - 1];
        uint32_t before = (uint32_t)jump->operand;
        jump->operand = (int32_t)(pattern->size - (exit - 1));
        exit = before;
    }
    parser->atom = group->start;
    parser->repeatable = true;
}

/* Replaces the last atom by `minimum` to `maximum` copies of it. The copies start where the atom
 * was; the atom itself is kept behind them meanwhile:
 *     x{2,4}  x x SPLIT x SPLIT x     each SPLIT may leave to the end
 *     x{2,}   x x SPLIT               back to the last x
 *     x*      SPLIT x JUMP            back to the SPLIT */
static int repeat_atom(struct parser *parser, uint32_t minimum, uint32_t maximum)
{
    struct bl_pattern *pattern = parser->pattern;
    uint32_t size = pattern->size - parser->atom;
    pattern->size = parser->atom;
    if (size == 0 || maximum == 0)
        return 0;
    bool unbounded = maximum == UNBOUNDED;
    uint32_t copies = unbounded ? (minimum > 0 ? minimum : 1) : maximum;
    uint32_t extra = unbounded ? (minimum > 0 ? 1 : 2) : maximum - minimum;
    uint64_t total = (uint64_t)copies * size + extra;
    int result = program_reserve(parser, total);
    if (result < 0)
        return result;
    pattern->program = base_parser_grow(pattern->program, pattern->size, (uint32_t)total + size,
                                        &parser->program_capacity, sizeof *pattern->program);
    struct instruction *out = pattern->program + parser->atom;
    struct instruction *end = out + total;
    memmove(end, out, size * sizeof *out);
    for (uint32_t i = 0; i < copies; i++) {
        if (i >= minimum)
            *out =
                (struct instruction){SPLIT, unbounded ? (int32_t)size + 2 : (int32_t)(end - out)};
        if (i >= minimum)
            out++;
        memcpy(out, end, size * sizeof *out);
        out += size;
    }
    if (unbounded && minimum == 0)
        *out++ = (struct instruction){JUMP, -(int32_t)size - 1};
    else if (unbounded)
        *out++ = (struct instruction){SPLIT, -(int32_t)size};
    assert(out == end);
    pattern->size += (uint32_t)total;
    return 0;
}

static bool pattern_parse_take_count(struct parser *parser, uint32_t *ret_count)
{
    size_t start = parser->offset;
    uint32_t count = 0;
    for (; base_parser_peek(parser, 0) >= '0' && base_parser_peek(parser, 0) <= '9';
         parser->offset++) {
        count = count * 10 + (uint32_t)(base_parser_peek(parser, 0) - '0');
        if (count > REPEAT_MAX)
            count = REPEAT_MAX;
    }
    *ret_count = count;
    return parser->offset > start;
}

/* Takes `{n}`, `{n,}` or `{n,m}`. Returns false and consumes nothing if the brace opens none of
 * them. */
static bool take_braces(struct parser *parser, uint32_t *ret_minimum, uint32_t *ret_maximum)
{
    size_t start = parser->offset;
    if (base_parser_take(parser, "{") && pattern_parse_take_count(parser, ret_minimum)) {
        *ret_maximum = *ret_minimum;
        if (base_parser_take(parser, ",") && !pattern_parse_take_count(parser, ret_maximum))
            *ret_maximum = UNBOUNDED;
        if (base_parser_take(parser, "}"))
            return true;
    }
    parser->offset = start;
    return false;
}

/* Parses a quantifier. Returns 1, or 0 if the character is an ordinary one (a lone brace). */
static int parse_quantifier(struct parser *parser)
{
    size_t start = parser->offset;
    uint32_t minimum = 0, maximum = UNBOUNDED;
    if (base_parser_take(parser, "+"))
        minimum = 1;
    else if (base_parser_take(parser, "?"))
        maximum = 1;
    else if (!base_parser_take(parser, "*") && !take_braces(parser, &minimum, &maximum))
        return 0;
    if (!parser->repeatable)
        return base_parser_refuse(parser, BL_EPARSE, start,
                                  "expected an item to repeat before a quantifier");
    if (minimum > maximum)
        return base_parser_refuse(parser, BL_EPARSE, start,
                                  "expected {n,m} with n not greater than m");
    base_parser_take(parser, "?");
    parser->repeatable = false;
    int result = repeat_atom(parser, minimum, maximum);
    return result < 0 ? result : 1;
}

/* Reads one item: a character, class, assertion, parenthesis or bar. */
static int parse_item(struct parser *parser)
{
    size_t start = parser->offset;
    uint32_t point;
    int result = base_parser_take_point(parser, &point);
    if (result < 0)
        return result;
    switch (point) {
    case '(': return open_group(parser);
    case ')':
        if (parser->depth == 1)
            return base_parser_refuse(parser, BL_EPARSE, start, "expected '(' before this ')'");
        close_group(parser);
        return 0;
    case '|': return next_alternative(parser);
    case '[': return base_class_parse(parser);
    case '\\': return parse_escape(parser);
    case '^': return emit_assertion(parser, BEGIN);
    case '$': return emit_assertion(parser, END);
    case '.': return base_class_emit_dot(parser);
    default: return base_class_emit_point(parser, point);
    }
}

static int base_parse(struct parser *parser)
{
    if (parser->source.size > SOURCE_MAX)
        return base_parser_refuse(parser, BL_ELIMIT, SOURCE_MAX, "longer than 65536 bytes");
    parser->depth = 1;
    parser->groups[0] = (struct group){0};
    while (parser->offset < parser->source.size) {
        int next = base_parser_peek(parser, 0), result = 0;
        if (next == '*' || next == '+' || next == '?' || next == '{')
            result = parse_quantifier(parser);
        if (result == 0)
            result = parse_item(parser);
        if (result < 0)
            return result;
    }
    if (parser->depth > 1)
        return base_parser_refuse(parser, BL_EPARSE, parser->groups[parser->depth - 1].offset,
                                  "expected ')' to close this '('");
    close_group(parser);
    return emit(parser, MATCH, 0);
}

int base_pattern_parse(struct bl_text source, bool caseless, struct bl_pattern *pattern,
                       struct bl_error *error)
{
    /* On the heap: its table of groups is large for the stack of a fiber. */
    struct parser *parser = bl_zalloc(sizeof *parser);
    parser->source = source;
    parser->pattern = pattern;
    parser->caseless = caseless;
    parser->error = error;
    int result = base_parse(parser);
    bl_free(parser);
    return result;
}
