/* Patterns: ECMAScript regular expressions in Unicode mode.
 *
 * Design notes. The source is compiled in one pass, left to right, into a program of small
 * instructions. The search keeps the set of all instructions that could be next (Thompson, Pike),
 * so that its time is at most text times program, whatever the pattern. Jumps are relative, so that
 * a piece of program can be moved and copied: `x{3}` is three copies of x. A search only says
 * whether the pattern matches: groups capture nothing, and lazy is the same as greedy.
 *
 * Schemas in use contain forms that Unicode mode forbids (a lone `]` or `}`, `\-`, `\"`). They are
 * read as ECMAScript reads them without that mode. */
#include "pattern.h"

/* The largest program, in instructions, that a search runs without heap memory. */
#define SMALL_PROGRAM 128u

static int pattern_compile(struct bl_text source, bool caseless, struct bl_pattern **ret_pattern,
                           struct bl_error *error)
{
    struct bl_pattern *pattern = bl_zalloc(sizeof *pattern);
    int result = base_pattern_parse(source, caseless, pattern, error);
    if (result < 0) {
        bl_pattern_free(pattern);
        return result;
    }
    pattern->anchored = pattern->program[0].operation == BEGIN;
    *ret_pattern = pattern;
    return 0;
}

int bl_pattern_new(struct bl_text source, struct bl_pattern **ret_pattern, struct bl_error *error)
{
    return pattern_compile(source, false, ret_pattern, error);
}

int bl_pattern_new_caseless(struct bl_text source, struct bl_pattern **ret_pattern,
                            struct bl_error *error)
{
    return pattern_compile(source, true, ret_pattern, error);
}

void bl_pattern_free(struct bl_pattern *pattern)
{
    if (pattern == NULL)
        return;
    bl_free(pattern->program);
    bl_free(pattern->classes);
    bl_free(pattern->ranges);
    bl_free(pattern);
}

static bool class_has(const struct bl_pattern *pattern, uint32_t index, uint32_t point)
{
    const struct class *class = &pattern->classes[index];
    if (point < 128)
        return class->ascii[point / 64] >> point % 64 & 1;
    if (class->count == 0)
        return false; /* the pattern may have no ranges at all */
    const struct range *ranges = pattern->ranges + class->start;
    uint32_t low = 0, high = class->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (point < ranges[middle].first)
            high = middle;
        else if (point > ranges[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

bool base_pattern_advance(const struct bl_pattern *pattern, const struct place *place,
                          struct set *current, struct set *next)
{
    for (uint32_t i = 0; i < current->count; i++) {
        uint32_t at = current->members[i];
        struct instruction instruction = pattern->program[at];
        uint32_t target = at + (uint32_t)instruction.operand;
        bool holds = false;
        switch (instruction.operation) {
        case MATCH: return true;
        case CHARACTER:
            if (!place->at_end && place->point == (uint32_t)instruction.operand)
                base_set_add(next, at + 1);
            break;
        case CLASS:
            if (!place->at_end && class_has(pattern, (uint32_t)instruction.operand, place->point))
                base_set_add(next, at + 1);
            break;
        case SPLIT:
            base_set_add(current, target);
            holds = true;
            break;
        case JUMP: base_set_add(current, target); break;
        case BEGIN: holds = place->at_begin; break;
        case END: holds = place->at_end; break;
        case WORD_EDGE: holds = place->word_before != place->word_after; break;
        case NO_WORD_EDGE: holds = place->word_before == place->word_after; break;
        }
        if (holds)
            base_set_add(current, at + 1);
    }
    return false;
}

/* Runs the search. `memory` has zeroed room for four numbers per instruction. */
static int pattern_run(const struct bl_pattern *pattern, struct bl_text text, uint32_t *memory,
                       uint64_t *steps)
{
    struct set sets[2] = {{memory, memory + pattern->size, 0},
                          {memory + 2 * pattern->size, memory + 3 * pattern->size, 0}};
    struct set *current = &sets[0], *next = &sets[1];
    struct place place = {.at_begin = true};
    for (size_t offset = 0;;) {
        if (place.at_begin || !pattern->anchored)
            base_set_add(current, 0);
        struct bl_text rest = {text.data + offset, text.size - offset};
        place.at_end = rest.size == 0;
        size_t size = place.at_end ? 0 : bl_utf8_decode(rest, &place.point);
        if (size == 0 && !place.at_end) {
            place.point = BL_UTF8_REPLACEMENT;
            size = 1;
        }
        place.word_after = !place.at_end && base_is_word(place.point);
        if (base_pattern_advance(pattern, &place, current, next))
            return 1;
        if (place.at_end || (next->count == 0 && pattern->anchored))
            return 0;
        if (*steps < current->count)
            return BL_ELIMIT;
        *steps -= current->count;
        struct set *done = current;
        current = next;
        next = done;
        next->count = 0;
        offset += size;
        place.at_begin = false;
        place.word_before = place.word_after;
    }
}

int bl_pattern_search_within(const struct bl_pattern *pattern, struct bl_text text, uint64_t *steps)
{
    uint32_t small[4 * SMALL_PROGRAM];
    if (text.data == NULL)
        text.data = "";
    if (pattern->size <= SMALL_PROGRAM) {
        memset(small, 0, 4 * pattern->size * sizeof *small);
        return pattern_run(pattern, text, small, steps);
    }
    uint32_t *memory = bl_zalloc(4 * pattern->size * sizeof *memory);
    int result = pattern_run(pattern, text, memory, steps);
    bl_free(memory);
    return result;
}

bool bl_pattern_search(const struct bl_pattern *pattern, struct bl_text text)
{
    uint64_t steps = UINT64_MAX;
    return bl_pattern_search_within(pattern, text, &steps) == 1;
}
