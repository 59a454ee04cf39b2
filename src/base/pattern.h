/* The internals of patterns, shared by the parser (pattern_parse.c), its classes and escapes
 * (pattern_class.c), the search (pattern.c) and the line finder (pattern_line.c). */
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

/* A set of code points: sorted ranges that do not touch, and a bit for each ASCII character. */
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
    uint32_t exits; /* 1 + the last JUMP to its end; its operand links to the one before; 0: none */
    size_t offset;  /* of its parenthesis */
};

struct parser {
    struct bl_text source;
    size_t offset;
    struct bl_pattern *pattern;
    uint32_t program_capacity;
    uint32_t class_capacity;
    uint32_t range_capacity;
    uint32_t atom;   /* first instruction of the atom that a quantifier would repeat */
    bool repeatable; /* `atom` is valid */
    bool caseless;
    uint32_t depth;
    struct group groups[PATTERN_DEPTH_MAX];
    struct bl_error *error;
};

/* Fills the zeroed `pattern`. Also after an error, the caller frees it with bl_pattern_free. */
int base_pattern_parse(struct bl_text source, bool caseless, struct bl_pattern *pattern,
                       struct bl_error *error);

/* Sets the error: "offset N: what". Returns `code`. */
int base_parser_refuse(struct parser *parser, int code, size_t offset, const char *what);
/* Takes the next code point. BL_EPARSE: the end, or not UTF-8. */
int base_parser_take_point(struct parser *parser, uint32_t *ret_point);
/* Returns the byte `ahead` bytes after the offset, or -1 past the end. */
int base_parser_peek(const struct parser *parser, size_t ahead);
/* Takes exactly this text. Returns false and takes nothing if another text follows. */
bool base_parser_take(struct parser *parser, const char *expected);
/* Grows an array to hold `count` more items. Doubles it, so that appending stays linear. */
void *base_parser_grow(void *items, uint32_t size, uint32_t count, uint32_t *capacity,
                       size_t item_size);
/* Adds an instruction that takes one character and can be repeated. */
int base_parser_emit_atom(struct parser *parser, enum operation operation, uint32_t operand);

/* Adds the ranges of a class escape (`\d`, `\P{L}`), given its letter. Returns 1 if they were
 * added, 0 if the letter names no class. */
int base_class_add_escape(struct parser *parser, uint32_t letter);
/* Makes a class of the ranges added from `start` on, and adds an instruction for the class. */
int base_class_emit(struct parser *parser, uint32_t start, bool negated);
/* Adds an instruction for that character; in a caseless pattern, for all its case variants. */
int base_class_emit_point(struct parser *parser, uint32_t point);
/* Adds an instruction for `.`: any character except line terminators. */
int base_class_emit_dot(struct parser *parser);
/* Parses a class from after its `[` to its `]`. A dash next to a class (`[\w-.]`) is literal. */
int base_class_parse(struct parser *parser);
/* Takes the character that an escape stands for. `point` is the character after the backslash. */
int base_class_take_escape(struct parser *parser, uint32_t point, uint32_t *ret_point);

/* ---- Running --------------------------------------------------------------------------------- */

/* A set of instructions in the order of insertion, so that it is also its own work queue. */
struct set {
    uint32_t *members;
    uint32_t *places; /* index in members, by instruction; valid only if members agrees */
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

/* The position of the search in the text. */
struct place {
    uint32_t point; /* the next character */
    bool at_begin;
    bool at_end;
    bool word_before;
    bool word_after;
};

/* Follows every instruction of `current`: successors that take no character are added to `current`,
 * and successors of those that take the next character to `next`. Returns true on a match. */
bool base_pattern_advance(const struct bl_pattern *pattern, const struct place *place,
                          struct set *current, struct set *next);

static inline bool base_is_word(uint32_t point)
{
    return (point >= '0' && point <= '9') || (point >= 'A' && point <= 'Z') || point == '_' ||
           (point >= 'a' && point <= 'z');
}

#endif
