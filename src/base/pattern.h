/* Inside of patterns: what the parser (pattern_parse.c), its classes and escapes (pattern_class.c),
 * the search (pattern.c) and the finder of lines (pattern_line.c) share. */
#ifndef BELAY_BASE_PATTERN_H
#define BELAY_BASE_PATTERN_H

#include <belay/base.h>

#define PATTERN_LAST_POINT 0x10FFFFu
#define PATTERN_DEPTH_MAX  128u

enum operation {
    MATCH,
    CHARACTER, /* operand: code point */
    CLASS,     /* operand: index of the class */
    SPLIT,     /* to the next instruction and to operand */
    JUMP,      /* to operand */
    BEGIN,
    END,
    WORD_EDGE,
    NO_WORD_EDGE,
};

struct instruction {
    enum operation operation;
    int32_t operand; /* jumps: distance from this instruction */
};

struct range {
    uint32_t first;
    uint32_t last;
};

/* A set of code points: sorted ranges that do not touch, and its first 128 as bits. */
struct class
{
    uint32_t start; /* in the pattern's ranges */
    uint32_t count;
    uint64_t ascii[2];
};

struct bl_pattern {
    struct instruction *program;
    struct class *classes;
    struct range *ranges;
    uint32_t size; /* of program */
    uint32_t class_count;
    uint32_t range_count;
    bool anchored; /* can match only from the beginning */
};

/* An open group, or the whole pattern. */
struct group {
    uint32_t start;       /* its first instruction */
    uint32_t alternative; /* first instruction of the alternative being read */
    uint32_t exits; /* 1 + the last JUMP to its end, each operand names the one before; 0 none */
    size_t offset;  /* of its parenthesis */
};

struct parser {
    struct bl_text source;
    size_t offset;
    struct bl_pattern *pattern;
    uint32_t program_capacity;
    uint32_t class_capacity;
    uint32_t range_capacity;
    uint32_t atom;   /* first instruction of what a quantifier would repeat */
    bool repeatable; /* there is such a thing */
    bool caseless;
    uint32_t depth;
    struct group groups[PATTERN_DEPTH_MAX];
    struct bl_error *error;
};

/* Fills the zeroed `pattern`; what it holds on error is freed by bl_pattern_free too. */
int base_pattern_parse(struct bl_text source, bool caseless, struct bl_pattern *pattern,
                       struct bl_error *error);

/* Sets the error: "offset N: what". Returns `code`. */
int base_parser_refuse(struct parser *parser, int code, size_t offset, const char *what);
/* Takes the next code point. BL_EPARSE: the end, or not UTF-8. */
int base_parser_take_point(struct parser *parser, uint32_t *ret_point);
/* The byte that stands `ahead` of the offset; -1 past the end. */
int base_parser_peek(const struct parser *parser, size_t ahead);
/* Takes exactly this text; false, with nothing taken, when something else comes. */
bool base_parser_take(struct parser *parser, const char *expected);
/* Makes an array hold `count` more items; doubles, so that appending stays linear. */
void *base_parser_grow(void *items, uint32_t size, uint32_t count, uint32_t *capacity,
                       size_t item_size);
/* An instruction that takes one character, and can be repeated. */
int base_parser_emit_atom(struct parser *parser, enum operation operation, uint32_t operand);

/* Adds the ranges of a class that stands for itself (`\d`, `\P{L}`), from its letter. 0 when it is
 * none, 1 when it was added. */
int base_class_add_escape(struct parser *parser, uint32_t letter);
/* Makes a class of the ranges added from `start` on, and an instruction of the class. */
int base_class_emit(struct parser *parser, uint32_t start, bool negated);
/* An instruction for that character; without regard to case for all that are alike to it. */
int base_class_emit_point(struct parser *parser, uint32_t point);
/* `.`: all but the ends of lines. */
int base_class_emit_dot(struct parser *parser);
/* What follows `[`, to its `]`. A dash beside a class (`[\w-.]`) is a dash. */
int base_class_parse(struct parser *parser);
/* The single character that an escape stands for; `point` is what followed the backslash. */
int base_class_take_escape(struct parser *parser, uint32_t point, uint32_t *ret_point);

/* ---- Running --------------------------------------------------------------------------------- */

/* A set of instructions that remembers the order of insertion: so it is its own queue of work. */
struct set {
    uint32_t *members;
    uint32_t *places; /* of each instruction in members; only then true when it stands there */
    uint32_t count;
};

static inline void base_set_add(struct set *set, uint32_t instruction)
{
    uint32_t place = set->places[instruction];
    if (place < set->count && set->members[place] == instruction)
        return;
    set->places[instruction] = set->count;
    set->members[set->count++] = instruction;
}

/* Where in the text the search stands. Beyond both ends stands no character. */
struct place {
    uint32_t point; /* the next character */
    bool at_begin;
    bool at_end;
    bool word_before;
    bool word_after;
};

/* Follows every instruction of `current`, over what takes no character within that set, and over
 * those that take the next character into `next`. True: the pattern has matched. */
bool base_pattern_advance(const struct bl_pattern *pattern, const struct place *place,
                          struct set *current, struct set *next);

static inline bool base_is_word(uint32_t point)
{
    return (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') || point == '_' ||
           (point >= 'a' && point <= 'z');
}

#endif
