/* Records: a C struct that is also a JSON object, described once.
 *
 * A constant table names each member: its JSON name, where it is in the struct, its type and
 * limits, and what it means. The table reads, writes and checks the object, and writes its JSON
 * Schema, so that these four cannot disagree.
 *
 *     #define BL_RECORD_STRUCT struct wave
 *     static const struct bl_member wave_members[] = {
 *         BL_MEMBER_INTEGER("n", number, .least = 1, .about = "Number of the wave."),
 *         BL_MEMBER_STRING("gate", gate, .nullable = true, .about = "Result of the gate."),
 *         BL_MEMBER_END,
 *     };
 *     #undef BL_RECORD_STRUCT
 *     const struct bl_record wave_record = BL_RECORD("wave", struct wave, wave_members);
 *
 * A member whose C type is not the one that its macro wants does not compile.
 *
 * Absent values. A member that is neither `optional` nor `nullable` is always there. One that is
 * `optional` may be missing, one that is `nullable` may be null; both then have the absent value of
 * their type, which is written as null if the member is nullable and left out if not:
 *
 *     text, word, raw JSON    empty             integer, number, boolean    `none`
 *     string, JSON, pointer   NULL              enum                        a value without a name
 *     time, duration          0                 list, array, bits           empty
 *     strings                 NULL
 *     any                     the bool that `known` names is false (of BL_UNLESS: true)
 *
 * Of a member that is both, and has such a bool, the bool says whether it is there at all; it is
 * then null where its value is the absent one. */
#ifndef BELAY_RECORD_H
#define BELAY_RECORD_H

#include <belay/json.h>

BL_PUBLIC_BEGIN

struct bl_record;

enum bl_member_type {
    BL_TYPE_END, /* of the table */
    BL_TYPE_TEXT,
    BL_TYPE_STRING,
    BL_TYPE_WORD,
    BL_TYPE_BOOLEAN,
    BL_TYPE_INTEGER,
    BL_TYPE_NUMBER,
    BL_TYPE_ENUM,
    BL_TYPE_TIME,
    BL_TYPE_DURATION,
    BL_TYPE_STRINGS,
    BL_TYPE_JSON,
    BL_TYPE_RAW,
    BL_TYPE_OBJECT,
    BL_TYPE_POINTER,
    BL_TYPE_LIST,
    BL_TYPE_ARRAY,
    BL_TYPE_BITS,
    BL_TYPE_INCLUDE,
    BL_TYPE_CONSTANT,
};

/* What a text must look like beyond its size. */
struct bl_form {
    const char *expected; /* "a commit id": for errors */
    const char *pattern;  /* for the schema; NULL: none */
    bool (*fits)(struct bl_text text);
};

/* A closed set of whole numbers. */
struct bl_numbers {
    const int64_t *numbers;
    size_t count;
};

#define BL_NUMBERS(array)                                                                          \
    {                                                                                              \
        .numbers = (array), .count = BL_COUNT(array)                                               \
    }

/* Which record an object is, where another member of the object around it says so. */
struct bl_choice {
    const char *by;                         /* that member, a text or an enum */
    const struct bl_names *names;           /* its values */
    const struct bl_record *const *records; /* one for each of them */
};

struct bl_member {
    const char *name;
    const char *about; /* one sentence, for the schema */
    enum bl_member_type type;
    uint32_t offset;
    uint32_t size;
    bool is_signed; /* integer */
    bool optional;
    bool nullable;
    bool either;      /* of the members so marked exactly one is there */
    bool cut;         /* word, text with a limit: a longer one is cut at a character, not refused */
    bool secret;      /* read, never written */
    bool inverted;    /* boolean: the struct holds the opposite */
    bool vital;       /* not even a lenient reader takes the record without it */
    bool distinct;    /* list, array: no element is there twice; for short ones */
    bool embedded;    /* array: its elements are in the struct */
    bool object;      /* JSON, raw JSON: an object, not any value; the same where `record` is set */
    bool or_string;   /* JSON, raw JSON: an object or a string; strings: a list or one string */
    bool canonical;   /* raw JSON: read in its canonical form */
    uint8_t decimals; /* number: how many are written; 0: as many as it has */
    /* The first version that has the member; it may be missing in documents of earlier ones. */
    uint16_t since;
    int64_t none;   /* integer, number, boolean: the absent value; of a constant: its value */
    int64_t least;  /* of an integer, a number or a duration; bytes of a text, elements of a list */
    uint64_t most;  /* the same; 0: no limit but the type's */
    uint32_t known; /* BL_KNOWN, BL_UNLESS: the bool that says whether there is a value */
    bool unless;    /* that bool says that there is none */
    uint32_t count; /* array: BL_COUNTED, the size_t that counts its elements */
    uint32_t link;  /* list: offset of the link in an element */
    uint32_t encoded;             /* BL_ENCODED: the text that is written in place of the value */
    const struct bl_names *names; /* of an enum; a text must be one of these, too */
    const struct bl_numbers *numbers; /* an integer must be one of these */
    const struct bl_form *form;
    /* Of an object, a pointer or the elements. JSON and raw JSON are checked against it. */
    const struct bl_record *record;
    const struct bl_member *element; /* array: what an element is, at offset 0; raw JSON: it is an
                                        array of these; strings: any string if NULL */
    /* In place of `record`: of an object, JSON or raw JSON, of one member of a table at most. */
    const struct bl_choice *choice;
    uint32_t chosen; /* BL_CHOSEN: the enum that says it, to write an object */
};

/* What was wrong. The first thing alone is told. */
struct bl_record_fault {
    const struct bl_json *node;     /* the value; where a member is missing, the object */
    const struct bl_member *member; /* that the value is to be; NULL: its name is unknown */
    bool ignored;      /* a member that may be misspelt, in a record that is not closed */
    char path[160];    /* to it, as a JSON pointer: "/tasks/3/timeout"; "": the record */
    char message[240]; /* "expected a whole number from 1 to 64, found \"soon\"" */
    char hint[240];    /* "did you mean \"steps\"?"; may be empty */
};

struct bl_record {
    const char *name; /* "receipt": of the schema and of its $defs */
    const char *about;
    size_t size;
    const struct bl_member *members;
    bool closed; /* unknown members are refused, with a suggestion; else they are ignored */
    /* Kinds: the first member is an enum, and its value picks more members of the same struct. A
     * member that only another kind has is refused. NULL in the list: no more members. */
    const struct bl_record *const *kinds;
    bool document; /* its schema is a document of its own, to which others refer by its $id */
    const struct bl_record *of; /* of a kind with such a schema: the record that has it */
    /* What the table cannot say, once all members fit; that of the kind comes first. It may fill
     * the fault's path and message; returns whether the record fits. */
    bool (*rule)(const void *record, struct bl_record_fault *fault);
};

#define BL_RECORD(text, type, table, ...)                                                          \
    {                                                                                              \
        .name = (text), .size = sizeof(type), .members = (table), __VA_ARGS__                      \
    }

/* Its members are in the struct of the record around it. */
#define BL_RECORD_GROUP(text, table, ...)                                                          \
    {                                                                                              \
        .name = (text), .members = (table), __VA_ARGS__                                            \
    }

/* ---- Tables ---------------------------------------------------------------------------------- */

#define BL_RECORD_AT(field) (((BL_RECORD_STRUCT *)0)->field)
/* 0 where the field has that type; else it does not compile. */
#define BL_RECORD_IS(field, type) (0 * sizeof(_Generic(&BL_RECORD_AT(field), type * : 0)))
#define BL_MEMBER_OF(kind, key, field, check, ...)                                                 \
    {                                                                                              \
        .name = (key), .type = (kind),                                                             \
        .offset = (uint32_t)(offsetof(BL_RECORD_STRUCT, field) + (check)),                         \
        .size = sizeof BL_RECORD_AT(field), __VA_ARGS__                                            \
    }
#define BL_UNLESS(field) BL_KNOWN(field), .unless = true
#define BL_KNOWN(field)  .known = (uint32_t)(offsetof(BL_RECORD_STRUCT, field) + 1)
#define BL_CHOSEN(field) .chosen = (uint32_t)offsetof(BL_RECORD_STRUCT, field)
#define BL_COUNTED(field)                                                                          \
    .count = (uint32_t)(offsetof(BL_RECORD_STRUCT, field) + BL_RECORD_IS(field, size_t))

/* The value may be JSON already, in a struct bl_text: that is written, if it is not empty. Of a
 * list or an array these are the elements, with commas between them. It is left empty by reading.
 */
#define BL_ENCODED(field)                                                                          \
    .encoded =                                                                                     \
        (uint32_t)(offsetof(BL_RECORD_STRUCT, field) + 1 + BL_RECORD_IS(field, struct bl_text))

/* struct bl_text, in the arena when it is read. */
#define BL_MEMBER_TEXT(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_TEXT, key, field, BL_RECORD_IS(field, struct bl_text), __VA_ARGS__)
/* const char *, in the arena when it is read. */
#define BL_MEMBER_STRING(key, field, ...)                                                          \
    BL_MEMBER_OF(BL_TYPE_STRING, key, field, BL_RECORD_IS(field, const char *), __VA_ARGS__)
/* char[n] with a NUL at its end. */
#define BL_MEMBER_WORD(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_WORD, key, field,                                                         \
                 0 * sizeof(_Generic(&BL_RECORD_AT(field)[0], char * : 0)) +                       \
                     0 * sizeof(char[_Generic(&BL_RECORD_AT(field), char ** : -1, default : 1)]),  \
                 __VA_ARGS__)
/* bool; or int with .none = -1 for "not known". */
#define BL_MEMBER_BOOLEAN(key, field, ...)                                                         \
    BL_MEMBER_OF(BL_TYPE_BOOLEAN, key, field,                                                      \
                 0 * sizeof(_Generic(BL_RECORD_AT(field), bool : 0, int : 0)), __VA_ARGS__)
/* Any integer type of 32 or 64 bits. */
#define BL_MEMBER_INTEGER(key, field, ...)                                                         \
    BL_MEMBER_OF(BL_TYPE_INTEGER, key, field, 0,                                                   \
                 .is_signed = _Generic(BL_RECORD_AT(field), int32_t                                \
                                       : true, int64_t                                             \
                                       : true, uint32_t                                            \
                                       : false, uint64_t                                           \
                                       : false),                                                   \
                 __VA_ARGS__)
#define BL_MEMBER_NUMBER(key, field, ...)                                                          \
    BL_MEMBER_OF(BL_TYPE_NUMBER, key, field, BL_RECORD_IS(field, double), __VA_ARGS__)
/* Or a bool that has two names; it is absent as false. */
#define BL_MEMBER_ENUM(key, field, table, ...)                                                     \
    BL_MEMBER_OF(BL_TYPE_ENUM, key, field,                                                         \
                 0 * sizeof(_Generic(BL_RECORD_AT(field), unsigned : 0, int : 0, bool : 0)),       \
                 .names = (table), __VA_ARGS__)
/* A boolean that always has this value, and no place in the struct. */
#define BL_MEMBER_CONSTANT(key, value, ...)                                                        \
    {                                                                                              \
        .name = (key), .type = BL_TYPE_CONSTANT, .none = (value), __VA_ARGS__                      \
    }
/* int64_t, nanoseconds since 1970; "2026-11-15T18:50:07.123Z" in JSON. */
#define BL_MEMBER_TIME(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_TIME, key, field, BL_RECORD_IS(field, int64_t), __VA_ARGS__)
/* uint64_t, nanoseconds; a number of seconds in JSON. A person may also write "90s" or "1.5h". */
#define BL_MEMBER_DURATION(key, field, ...)                                                        \
    BL_MEMBER_OF(BL_TYPE_DURATION, key, field, BL_RECORD_IS(field, uint64_t), __VA_ARGS__)
/* const char *const *, which ends in NULL: a list of strings, in the arena when it is read. */
#define BL_MEMBER_STRINGS(key, field, ...)                                                         \
    BL_MEMBER_OF(BL_TYPE_STRINGS, key, field, BL_RECORD_IS(field, const char *const *), __VA_ARGS__)
/* const struct bl_json *: any value; where it was read, it is that very node. */
#define BL_MEMBER_JSON(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_JSON, key, field, BL_RECORD_IS(field, const struct bl_json *), __VA_ARGS__)
/* struct bl_text that is one JSON value. */
#define BL_MEMBER_RAW(key, field, ...)                                                             \
    BL_MEMBER_OF(BL_TYPE_RAW, key, field, BL_RECORD_IS(field, struct bl_text), __VA_ARGS__)
/* A struct with a table of its own, embedded, or by a pointer that may be NULL. */
#define BL_MEMBER_OBJECT(key, field, table, ...)                                                   \
    BL_MEMBER_OF(BL_TYPE_OBJECT, key, field, 0, .record = (table), __VA_ARGS__)
#define BL_MEMBER_POINTER(key, field, table, ...)                                                  \
    BL_MEMBER_OF(BL_TYPE_POINTER, key, field, 0 * sizeof(*BL_RECORD_AT(field)), .record = (table), \
                 __VA_ARGS__)
/* struct bl_list of structs with their link at `.link`. */
#define BL_MEMBER_LIST(key, field, table, type, member, ...)                                       \
    BL_MEMBER_OF(BL_TYPE_LIST, key, field, BL_RECORD_IS(field, struct bl_list), .record = (table), \
                 .link = (uint32_t)offsetof(type, member), __VA_ARGS__)
/* A pointer to elements that another member counts. */
#define BL_MEMBER_ARRAY(key, field, counter, what, ...)                                            \
    BL_MEMBER_OF(BL_TYPE_ARRAY, key, field, 0 * sizeof(*BL_RECORD_AT(field)), .element = (what),   \
                 BL_COUNTED(counter), __VA_ARGS__)
/* An array in the struct itself; so many elements fit. */
#define BL_MEMBER_SLOTS(key, field, counter, what, ...)                                            \
    BL_MEMBER_OF(BL_TYPE_ARRAY, key, field, 0, .element = (what), BL_COUNTED(counter),             \
                 .embedded = true, .most = BL_COUNT(BL_RECORD_AT(field)), __VA_ARGS__)
/* An object whose members are in the same struct: its table is a BL_RECORD_GROUP. */
#define BL_MEMBER_GROUP(key, table, ...)                                                           \
    {                                                                                              \
        .name = (key), .type = BL_TYPE_OBJECT, .record = (table), __VA_ARGS__                      \
    }
/* uint64_t[n]: a set of numbers from 0 to 64 * n - 1; in JSON a list of them. */
#define BL_MEMBER_BITS(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_BITS, key, field,                                                         \
                 0 * sizeof(_Generic(&BL_RECORD_AT(field)[0], uint64_t * : 0)), __VA_ARGS__)
/* Members of another table, in the same object: of the same struct, or of one that is embedded. */
#define BL_MEMBER_INCLUDE(table)                                                                   \
    {                                                                                              \
        .type = BL_TYPE_INCLUDE, .record = (table)                                                 \
    }
#define BL_MEMBER_EMBED(field, table)                                                              \
    BL_MEMBER_OF(BL_TYPE_INCLUDE, NULL, field, 0, .record = (table))
#define BL_MEMBER_END                                                                              \
    {                                                                                              \
        .type = BL_TYPE_END                                                                        \
    }

/* Elements of arrays. */
extern const struct bl_member bl_element_text;   /* struct bl_text */
extern const struct bl_member bl_element_string; /* const char * */
extern const struct bl_member bl_element_count;  /* uint64_t */
extern const struct bl_member bl_element_object; /* const struct bl_json *, an object */
/* A struct that `table` describes. */
#define BL_ELEMENT(type_, table)                                                                   \
    {                                                                                              \
        .type = BL_TYPE_OBJECT, .size = sizeof(type_), .record = (table)                           \
    }

/* ---- Uses ------------------------------------------------------------------------------------ */

/* Fills `*into`, all of it. What it points to is in the arena or in `value`. `fault` may be NULL.
 * BL_EPARSE: it does not fit; what `*into` then holds is undefined. */
int bl_record_read(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault);
/* The same without copying texts: they are those of `value`, which must live as long. */
int bl_record_view(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault);
/* The same check without building anything. The rule is not asked. */
int bl_record_check(const struct bl_record *record, const struct bl_json *value,
                    struct bl_record_fault *fault);
/* Reads what fits, for documents that may be newer, or broken in places: a member that does not fit
 * or is missing has its absent value, and so has every member where `value` is not an object, or a
 * member that is `vital` does not fit or is missing. Such an element of a list is left out. A text
 * keeps a name that the table does not have, and a time may have any number of decimals. */
void bl_record_take(struct bl_arena *arena, const struct bl_record *record,
                    const struct bl_json *value, void *into);
/* "tasks[3].timeout: expected …", or the message alone; the hint follows it. */
void bl_record_fault_text(const struct bl_record_fault *fault, char *out, size_t out_size);
/* One object. */
void bl_record_write(struct bl_json_writer *writer, const struct bl_record *record,
                     const void *from);
/* Its members alone, into an object that is open. */
void bl_record_write_members(struct bl_json_writer *writer, const struct bl_record *record,
                             const void *from);
/* The object as text in the arena. */
struct bl_text bl_record_text(struct bl_arena *arena, const struct bl_record *record,
                              const void *from);
/* Draft 2020-12; records below it are in $defs, under their names. */
void bl_record_schema(struct bl_json_writer *writer, const struct bl_record *record);
/* True when both would be written alike. */
bool bl_record_equal(const struct bl_record *record, const void *a, const void *b);

/* The error object of envelopes and results: a struct bl_error. */
extern const struct bl_record bl_error_record;

BL_PUBLIC_END

#endif
