/* The line finder.
 *
 * Design notes. The search of pattern.c goes from one set of instructions to the next with each
 * character. Here each set gets a row of a table, with a column for each class of characters that
 * the pattern distinguishes, so that each step is computed once and then looked up. Rows are made
 * when they are needed. When their memory is used up, all rows are discarded, and the search
 * continues from the current set: it stays linear, whatever the pattern.
 *
 * The end of a line is a separate class: there the set either matches or is replaced by the set of
 * a line's beginning. So one loop scans the whole text, and goes line by line only where a line
 * matches. Two columns are never filled, so that their bytes leave the loop: a CR, which ends a
 * line if an LF follows, and the bytes of characters beyond ASCII, which are decoded first.
 *
 * If every match contains a certain literal text, the finder first looks for its rarest byte. */
#include <stdlib.h>

#include "pattern.h"

/* The results of a step other than a row. Rows begin at the width of the table, which is larger. */
enum {
    STEP_UNKNOWN,
    STEP_FOUND,
    STEP_DEAD, /* nothing can match any more in this line */
    STEP_COUNT,
};

#define TABLE_CELLS_MAX  ((size_t)256 * 1024)
#define ROWS_MIN         64u
#define MEMBERS_MAX      ((size_t)256 * 1024)
#define LITERAL_MAX      256u
#define NO_ROW           UINT32_MAX
#define FLAG_AT_BEGIN    1u
#define FLAG_WORD_BEFORE 2u
#define MISSES_FREE      32u
#define BYTES_PER_MISS   16u

/* The set of instructions that a row stands for. */
struct row {
    size_t start; /* in the finder's members */
    uint32_t count;
    uint32_t flags;
};

struct bl_line_finder {
    const struct bl_pattern *pattern;
    const atomic_bool *stopped;
    /* The text in every match; size 0 if there is none. */
    char literal[LITERAL_MAX];
    size_t literal_size;
    size_t rare;   /* offset of its rarest byte */
    bool is_whole; /* the pattern is only that text */
    /* Character classes: interval i is from bounds[i] to before bounds[i + 1]. */
    uint32_t *bounds;
    uint32_t *interval_class;
    uint32_t interval_count;
    uint32_t *class_points; /* a member of each class */
    uint32_t class_count;
    uint32_t column_return; /* of a CR, and of bytes beyond ASCII: never filled */
    uint32_t column_wide;
    uint32_t byte_column[256];
    /* The table: rows begin at multiples of its width; row 0 is not used. */
    uint32_t width;
    uint32_t row_count;
    uint32_t row_max;
    uint32_t *table;
    struct row *rows;
    uint32_t *members;
    size_t member_count;
    uint32_t *slots; /* hash table of rows; NO_ROW if free */
    uint32_t slot_mask;
    uint32_t start; /* step to the row of a line's beginning */
    bool has_begin;
    bool has_word_edge;
    struct set sets[2];
};

/* ---- Character classes ----------------------------------------------------------------------- */

static int pattern_line_compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint32_t find_interval(const struct bl_line_finder *finder, uint32_t point)
{
    uint32_t low = 0, high = finder->interval_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (finder->bounds[middle] <= point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static const struct range always_apart[] = {{'\n', '\n'}, {'\r', '\r'}, {'0', '9'}, {'A', 'Z'},
                                            {'_', '_'},   {'a', 'z'},   {0, 127}};

static void make_intervals(struct bl_line_finder *finder)
{
    const struct bl_pattern *pattern = finder->pattern;
    size_t most = 2 * ((size_t)pattern->size + pattern->range_count + BL_COUNT(always_apart)) + 1;
    uint32_t *bounds = bl_alloc(most * sizeof *bounds), count = 0, kept = 0;
    bounds[count++] = 0;
    for (size_t i = 0; i < BL_COUNT(always_apart); i++) {
        bounds[count++] = always_apart[i].first;
        bounds[count++] = always_apart[i].last + 1;
    }
    for (uint32_t i = 0; i < pattern->size; i++) {
        if (pattern->program[i].operation == CHARACTER) {
            bounds[count++] = (uint32_t)pattern->program[i].operand;
            bounds[count++] = (uint32_t)pattern->program[i].operand + 1;
        }
    }
    for (uint32_t i = 0; i < pattern->range_count; i++) {
        bounds[count++] = pattern->ranges[i].first;
        bounds[count++] = pattern->ranges[i].last + 1;
    }
    qsort(bounds, count, sizeof *bounds, pattern_line_compare_numbers);
    for (uint32_t i = 0; i < count; i++)
        if ((kept == 0 || bounds[i] != bounds[kept - 1]) && bounds[i] <= PATTERN_LAST_POINT)
            bounds[kept++] = bounds[i];
    finder->bounds = bounds;
    finder->interval_count = kept;
    finder->interval_class = bl_zalloc(kept * sizeof *finder->interval_class);
}

/* The counts with which classes are split: for each class, the number of its intervals, how many of
 * them the current ranges cover, and the class that those become. */
struct splitter {
    uint32_t *sizes;
    uint32_t *taken;
    uint32_t *becomes;
};

/* Splits the classes so that no class has characters both inside and outside the ranges. */
static void split_classes(struct bl_line_finder *finder, struct splitter *splitter,
                          const struct range *ranges, uint32_t count)
{
    uint32_t *class_of = finder->interval_class, before = finder->class_count;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = find_interval(finder, ranges[i].first);
             at < finder->interval_count && finder->bounds[at] <= ranges[i].last; at++)
            splitter->taken[class_of[at]]++;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t at = find_interval(finder, ranges[i].first);
             at < finder->interval_count && finder->bounds[at] <= ranges[i].last; at++) {
            uint32_t old = class_of[at];
            if (old >= before || splitter->taken[old] == splitter->sizes[old])
                continue;
            if (splitter->becomes[old] == 0)
                splitter->becomes[old] = finder->class_count++;
            class_of[at] = splitter->becomes[old];
            splitter->sizes[class_of[at]]++;
        }
    }
    for (uint32_t class = 0; class < before; class ++) {
        if (splitter->becomes[class] != 0)
            splitter->sizes[class] -= splitter->taken[class];
        splitter->taken[class] = splitter->becomes[class] = 0;
    }
}

static void make_classes(struct bl_line_finder *finder)
{
    const struct bl_pattern *pattern = finder->pattern;
    make_intervals(finder);
    size_t size = finder->interval_count * sizeof(uint32_t);
    struct splitter splitter = {bl_zalloc(size), bl_zalloc(size), bl_zalloc(size)};
    finder->class_count = 1;
    splitter.sizes[0] = finder->interval_count;
    for (size_t i = 0; i < BL_COUNT(always_apart); i++)
        split_classes(finder, &splitter, &always_apart[i], 1);
    for (uint32_t i = 0; i < pattern->size; i++) {
        uint32_t point = (uint32_t)pattern->program[i].operand;
        if (pattern->program[i].operation == CHARACTER)
            split_classes(finder, &splitter, &(struct range){point, point}, 1);
    }
    for (uint32_t i = 0; i < pattern->class_count; i++)
        if (pattern->classes[i].count > 0)
            split_classes(finder, &splitter, pattern->ranges + pattern->classes[i].start,
                          pattern->classes[i].count);
    bl_free(splitter.sizes);
    bl_free(splitter.taken);
    bl_free(splitter.becomes);
    finder->class_points = bl_alloc(finder->class_count * sizeof *finder->class_points);
    for (uint32_t i = 0; i < finder->interval_count; i++)
        finder->class_points[finder->interval_class[i]] = finder->bounds[i];
    finder->column_return = finder->class_count;
    finder->column_wide = finder->class_count + 1;
    finder->width = finder->class_count + 2;
    for (uint32_t byte = 0; byte < 256; byte++)
        finder->byte_column[byte] = byte >= 128 ? finder->column_wide
                                    : byte == '\r'
                                        ? finder->column_return
                                        : finder->interval_class[find_interval(finder, byte)];
}

/* ---- The literal ----------------------------------------------------------------------------- */

/* True for a character that can be found in a text by its bytes: a surrogate never occurs, and the
 * replacement character also stands for invalid bytes. */
static bool pattern_line_is_plain(struct instruction instruction)
{
    char bytes[4];
    uint32_t point = (uint32_t)instruction.operand;
    return instruction.operation == CHARACTER && point != BL_UTF8_REPLACEMENT &&
           bl_utf8_encode(point, bytes) > 0;
}

/* Finds the longest run of characters in every match: of instructions that no jump skips.
 * Instructions that take no character do not end a run. */
static void find_longest_run(struct bl_line_finder *finder)
{
    const struct bl_pattern *pattern = finder->pattern;
    char run[LITERAL_MAX];
    size_t size = 0;
    uint32_t skipped_to = 0;
    for (uint32_t i = 0; i < pattern->size; i++) {
        struct instruction instruction = pattern->program[i];
        bool jumps = instruction.operation == SPLIT || instruction.operation == JUMP;
        bool takes = instruction.operation == CHARACTER || instruction.operation == CLASS;
        if (jumps && instruction.operand > 0 && i + (uint32_t)instruction.operand > skipped_to)
            skipped_to = i + (uint32_t)instruction.operand;
        if (pattern_line_is_plain(instruction) && i >= skipped_to && size + 4 <= LITERAL_MAX)
            size += bl_utf8_encode((uint32_t)instruction.operand, run + size);
        else if (jumps || takes || i < skipped_to)
            size = 0;
        if (size > finder->literal_size) {
            memcpy(finder->literal, run, size);
            finder->literal_size = size;
        }
    }
}

/* Bytes of source code and prose, the most common first; all others are rare. */
static const char common_bytes[] = " etaoinrslcdu_mpfhgbvy.,;()w-x=*k/\"'0123>:AETSIRCNjq#";

static size_t rarity(char byte)
{
    const char *place = byte != '\0' ? strchr(common_bytes, byte) : NULL;
    return place != NULL ? (size_t)(place - common_bytes) : sizeof common_bytes;
}

static void make_literal(struct bl_line_finder *finder)
{
    const struct bl_pattern *pattern = finder->pattern;
    find_longest_run(finder);
    for (size_t i = 1; i < finder->literal_size; i++)
        if (rarity(finder->literal[i]) > rarity(finder->literal[finder->rare]))
            finder->rare = i;
    finder->is_whole = finder->literal_size > 0 && finder->literal_size + 4 <= LITERAL_MAX &&
                       memchr(finder->literal, '\n', finder->literal_size) == NULL &&
                       memchr(finder->literal, '\r', finder->literal_size) == NULL;
    for (uint32_t i = 0; i + 1 < pattern->size; i++)
        if (!pattern_line_is_plain(pattern->program[i]))
            finder->is_whole = false;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void discard_rows(struct bl_line_finder *finder)
{
    memset(finder->table, 0, (size_t)finder->row_count * finder->width * sizeof *finder->table);
    memset(finder->slots, 0xFF, ((size_t)finder->slot_mask + 1) * sizeof *finder->slots);
    finder->row_count = 1;
    finder->member_count = 0;
}

static uint32_t hash_members(const uint32_t *members, uint32_t count, uint32_t flags)
{
    uint64_t hash = 0xCBF29CE484222325ull ^ flags;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ members[i]) * 0x100000001B3ull;
    return (uint32_t)(hash ^ hash >> 32);
}

/* Returns the step to the row of a set, whose members are sorted; makes the row if it is new.
 * `*ret_forgot` is true if all other rows were discarded. */
static uint32_t row_of(struct bl_line_finder *finder, const uint32_t *members, uint32_t count,
                       uint32_t flags, bool *ret_forgot)
{
    uint32_t hash = hash_members(members, count, flags);
    for (uint32_t slot = hash & finder->slot_mask; finder->slots[slot] != NO_ROW;
         slot = (slot + 1) & finder->slot_mask) {
        const struct row *row = &finder->rows[finder->slots[slot]];
        if (row->count == count && row->flags == flags &&
            (count == 0 ||
             memcmp(finder->members + row->start, members, count * sizeof *members) == 0))
            return finder->slots[slot] * finder->width;
    }
    *ret_forgot =
        finder->row_count == finder->row_max || finder->member_count + count > MEMBERS_MAX;
    if (*ret_forgot)
        discard_rows(finder);
    uint32_t slot = hash & finder->slot_mask;
    while (finder->slots[slot] != NO_ROW)
        slot = (slot + 1) & finder->slot_mask;
    finder->slots[slot] = finder->row_count;
    finder->rows[finder->row_count] = (struct row){finder->member_count, count, flags};
    if (count > 0)
        memcpy(finder->members + finder->member_count, members, count * sizeof *members);
    finder->member_count += count;
    return finder->row_count++ * finder->width;
}

/* Computes the step from a row over a character of that class. This may discard all other rows,
 * including that one. */
static uint32_t pattern_line_make_step(struct bl_line_finder *finder, uint32_t from, uint32_t class)
{
    const struct bl_pattern *pattern = finder->pattern;
    const struct row row = finder->rows[from / finder->width];
    struct set *current = &finder->sets[0], *next = &finder->sets[1];
    uint32_t point = finder->class_points[class];
    struct place place = {.point = point,
                          .at_begin = row.flags & FLAG_AT_BEGIN,
                          .at_end = point == '\n',
                          .word_before = row.flags & FLAG_WORD_BEFORE,
                          .word_after = base_is_word(point)};
    bool forgot = false;
    current->count = next->count = 0;
    for (uint32_t i = 0; i < row.count; i++)
        base_set_add(current, finder->members[row.start + i]);
    if (place.at_begin || !pattern->anchored)
        base_set_add(current, 0);
    uint32_t step;
    if (base_pattern_advance(pattern, &place, current, next)) {
        step = STEP_FOUND;
    } else if (place.at_end) {
        step = row_of(finder, NULL, 0, finder->has_begin ? FLAG_AT_BEGIN : 0, &forgot);
        finder->start = step;
    } else if (next->count == 0 && pattern->anchored) {
        step = STEP_DEAD;
    } else {
        qsort(next->members, next->count, sizeof *next->members, pattern_line_compare_numbers);
        step = row_of(finder, next->members, next->count,
                      finder->has_word_edge && place.word_after ? FLAG_WORD_BEFORE : 0, &forgot);
    }
    if (!forgot)
        finder->table[from + class] = step;
    else if (!place.at_end)
        finder->start = STEP_UNKNOWN;
    return step;
}

static uint32_t start_step(struct bl_line_finder *finder)
{
    bool forgot = false;
    if (finder->start == STEP_UNKNOWN)
        finder->start = row_of(finder, NULL, 0, finder->has_begin ? FLAG_AT_BEGIN : 0, &forgot);
    return finder->start;
}

/* ---- The finder ------------------------------------------------------------------------------ */

struct bl_line_finder *bl_line_finder_new(const struct bl_pattern *pattern,
                                          const atomic_bool *stopped)
{
    struct bl_line_finder *finder = bl_zalloc(sizeof *finder);
    finder->pattern = pattern;
    finder->stopped = stopped;
    make_literal(finder);
    if (finder->is_whole)
        return finder;
    for (uint32_t i = 0; i < pattern->size; i++) {
        enum operation operation = pattern->program[i].operation;
        finder->has_word_edge |= operation == WORD_EDGE || operation == NO_WORD_EDGE;
        finder->has_begin |= operation == BEGIN;
    }
    make_classes(finder);
    size_t rows = TABLE_CELLS_MAX / finder->width;
    finder->row_max = rows < ROWS_MIN ? ROWS_MIN : (uint32_t)rows;
    finder->slot_mask = 1;
    while (finder->slot_mask < 2 * finder->row_max)
        finder->slot_mask = finder->slot_mask * 2 + 1;
    /* Zeroed memory from the system costs nothing until it is used. */
    finder->table = bl_zalloc((size_t)finder->row_max * finder->width * sizeof *finder->table);
    finder->rows = bl_alloc(finder->row_max * sizeof *finder->rows);
    finder->slots = bl_alloc(((size_t)finder->slot_mask + 1) * sizeof *finder->slots);
    /* A set has at most one member per instruction of the program: fewer than MEMBERS_MAX. */
    finder->members = bl_alloc(MEMBERS_MAX * sizeof *finder->members);
    for (size_t i = 0; i < 2; i++)
        finder->sets[i] = (struct set){bl_zalloc(pattern->size * sizeof(uint32_t)),
                                       bl_zalloc(pattern->size * sizeof(uint32_t)), 0};
    discard_rows(finder);
    return finder;
}

void bl_line_finder_free(struct bl_line_finder *finder)
{
    if (finder == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        bl_free(finder->sets[i].members);
        bl_free(finder->sets[i].places);
    }
    bl_free(finder->members);
    bl_free(finder->slots);
    bl_free(finder->rows);
    bl_free(finder->table);
    bl_free(finder->class_points);
    bl_free(finder->interval_class);
    bl_free(finder->bounds);
    bl_free(finder);
}

static bool pattern_line_is_stopped(const struct bl_line_finder *finder)
{
    return finder->stopped != NULL && atomic_load_explicit(finder->stopped, memory_order_relaxed);
}

/* Follows the known steps of the table. Returns the first byte without one; `*state` is the row
 * there. */
static const unsigned char *run_known(const struct bl_line_finder *finder, const unsigned char *at,
                                      const unsigned char *end, uint32_t *state)
{
    const uint32_t *table = finder->table, *column = finder->byte_column;
    uint32_t row = *state;
    while (end - at >= 4) {
        uint32_t a = table[row + column[at[0]]];
        if (a < STEP_COUNT)
            break;
        row = a;
        uint32_t b = table[row + column[at[1]]];
        if (b < STEP_COUNT) {
            at += 1;
            break;
        }
        row = b;
        uint32_t c = table[row + column[at[2]]];
        if (c < STEP_COUNT) {
            at += 2;
            break;
        }
        row = c;
        uint32_t d = table[row + column[at[3]]];
        if (d < STEP_COUNT) {
            at += 3;
            break;
        }
        row = d;
        at += 4;
    }
    while (at < end && table[row + column[*at]] >= STEP_COUNT)
        row = table[row + column[*at++]];
    *state = row;
    return at;
}

/* The class of the character at `at`, and its size. */
static uint32_t class_at(const struct bl_line_finder *finder, const unsigned char *at,
                         const unsigned char *end, size_t *ret_size)
{
    uint32_t column = finder->byte_column[*at], point = *at;
    *ret_size = 1;
    if (column == finder->column_return && (end - at == 1 || at[1] == '\n')) {
        *ret_size = end - at == 1 ? 1 : 2;
        point = '\n';
    } else if (column == finder->column_wide) {
        struct bl_text rest = {(const char *)at, (size_t)(end - at)};
        *ret_size = bl_utf8_decode(rest, &point);
        if (*ret_size == 0) {
            point = BL_UTF8_REPLACEMENT;
            *ret_size = 1;
        }
    } else if (column != finder->column_return) {
        return column;
    }
    return finder->interval_class[find_interval(finder, point)];
}

static uint32_t step_over(struct bl_line_finder *finder, uint32_t state, uint32_t class)
{
    uint32_t step = finder->table[state + class];
    return step != STEP_UNKNOWN ? step : pattern_line_make_step(finder, state, class);
}

/* Returns a place in the first line that matches, or NULL if there is none. `at` is the beginning
 * of a line. */
static const unsigned char *pattern_line_find_place(struct bl_line_finder *finder,
                                                    const unsigned char *at,
                                                    const unsigned char *end)
{
    uint32_t state = start_step(finder), newline = finder->byte_column['\n'];
    bool open = false; /* the current line has no end yet */
    while (at < end && !pattern_line_is_stopped(finder)) {
        const unsigned char *from = at;
        size_t size;
        at = run_known(finder, at, end, &state);
        if (at > from)
            open = at[-1] != '\n';
        if (at == end)
            break;
        uint32_t class = class_at(finder, at, end, &size);
        uint32_t step = step_over(finder, state, class);
        open = class != newline;
        if (step == STEP_FOUND)
            return at;
        if (step == STEP_DEAD) {
            at = memchr(at, '\n', (size_t)(end - at));
            if (at == NULL)
                return NULL;
            size = 1;
            step = start_step(finder);
            open = false;
        }
        state = step;
        at += size;
    }
    return open && at == end && step_over(finder, state, newline) == STEP_FOUND ? end : NULL;
}

/* Returns the first place of the literal at or after `at`, or NULL if there is none. */
static const char *find_literal(const struct bl_line_finder *finder, const char *at,
                                const char *end)
{
    size_t size = finder->literal_size, misses = 0;
    const char *from = at;
    while ((size_t)(end - at) >= size) {
        const char *rare =
            memchr(at + finder->rare, finder->literal[finder->rare], (size_t)(end - at) - size + 1);
        if (rare == NULL)
            return NULL;
        at = rare - finder->rare;
        if (memcmp(at, finder->literal, size) == 0)
            return at;
        at++;
        /* That byte is not rare in this text. */
        if (++misses > MISSES_FREE + (size_t)(at - from) / BYTES_PER_MISS)
            return memmem(at, (size_t)(end - at), finder->literal, size);
    }
    return NULL;
}

/* Returns the line around a place; `*ret_next` is the start of the line after it. */
static struct bl_text line_around(struct bl_text text, size_t from, size_t place, size_t *ret_next)
{
    const char *before = place > from ? memrchr(text.data + from, '\n', place - from) : NULL;
    const char *start = before != NULL ? before + 1 : text.data + from;
    const char *end = memchr(text.data + place, '\n', text.size - place);
    *ret_next = end != NULL ? (size_t)(end - text.data) + 1 : text.size;
    if (end == NULL)
        end = text.data + text.size;
    if (end > start && end[-1] == '\r')
        end--;
    return (struct bl_text){start, (size_t)(end - start)};
}

bool bl_line_finder_next(struct bl_line_finder *finder, struct bl_text text, size_t *offset,
                         struct bl_text *ret_line)
{
    while (*offset < text.size && !pattern_line_is_stopped(finder)) {
        const char *at = text.data + *offset, *end = text.data + text.size;
        if (finder->literal_size == 0) {
            at = (const char *)pattern_line_find_place(finder, (const unsigned char *)at,
                                                       (const unsigned char *)end);
        } else {
            at = find_literal(finder, at, end);
        }
        if (at == NULL)
            break;
        size_t next;
        *ret_line = line_around(text, *offset, (size_t)(at - text.data), &next);
        const unsigned char *line = (const unsigned char *)ret_line->data;
        *offset = next;
        if (finder->literal_size == 0 || finder->is_whole ||
            pattern_line_find_place(finder, line, (const unsigned char *)text.data + next) != NULL)
            return true;
    }
    *offset = text.size;
    return false;
}
