/* Records: a C struct that is also a JSON object, described once.
 *
 * A constant table describes each member: its JSON name, its offset in the struct, its type, its
 * limits and its meaning. The same table is used to read, write and check the object and to write
 * its JSON Schema, so that these four cannot disagree.
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
 * A member whose C type does not match its macro does not compile.
 *
 * Absent values. A member that is neither `optional` nor `nullable` is always present. One that is
 * `optional` may be missing, and one that is `nullable` may be null. Both then have the absent
 * value of their type, which is written as null if the member is nullable and left out otherwise:
 *
 *     text, word, raw JSON    empty             integer, number, boolean    `none`
 *     string, JSON, pointer   NULL              enum                        a value without a name
 *     time, duration          0                 list, array, bits           empty
 *     strings                 NULL
 *     any                     the bool that `known` names is false (with BL_UNLESS: true)
 *
 * If a member is both and has such a bool, the bool says whether the member is present; a present
 * member is null if it has the absent value of its type. */
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

/* The syntax of a text, beyond its size. */
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

/* Selects the record of an object by another member of the enclosing object. */
struct bl_choice {
    const char *by;                         /* that member, a text or an enum */
    const struct bl_names *names;           /* its values */
    const struct bl_record *const *records; /* one for each value */
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
    bool either;   /* exactly one of the members with this mark is present */
    bool cut;      /* word, text with a limit: truncated at a character, not refused */
    bool secret;   /* read, never written */
    bool inverted; /* boolean: the struct holds the opposite */
    bool vital;    /* even a lenient reader refuses the record without it */
    bool distinct; /* list, array: no duplicates; for short ones */
    bool embedded; /* array: its elements are in the struct */
    bool object;   /* JSON, raw JSON: must be an object; the same if `record` is set */
    /* JSON, raw JSON: an object or a string; strings: a list or one string; duration: also "90s" */
    bool or_string;
    bool characters;  /* text: its limits count characters, as in JSON Schema, not bytes */
    bool canonical;   /* raw JSON: read in its canonical form */
    bool extensible;  /* JSON: its record may have unknown members, even if it is closed */
    uint8_t decimals; /* number: how many are written; 0: as many as it has */
    /* The first version with the member; documents of earlier versions may lack it. */
    uint16_t since;
    int64_t none;   /* integer, number, boolean: the absent value; constant: its value */
    int64_t least;  /* of an integer, a number or a duration; bytes of a text, elements of a list */
    uint64_t most;  /* likewise; 0: only the limit of the type */
    uint32_t known; /* BL_KNOWN, BL_UNLESS: the bool that says whether there is a value */
    bool unless;    /* the bool is true if there is no value */
    uint32_t count; /* array: BL_COUNTED, the size_t that counts its elements */
    uint32_t link;  /* list: offset of the link in an element */
    uint32_t encoded;             /* BL_ENCODED: the text that is written in place of the value */
    const struct bl_names *names; /* of an enum; a text must be one of these too */
    const struct bl_numbers *numbers; /* an integer must be one of these */
    const struct bl_form *form;
    /* Record of an object, a pointer or the elements. JSON and raw JSON are checked against it. */
    const struct bl_record *record;
    const struct bl_member *element; /* array: type of an element, at offset 0; raw JSON: an array
                                        of these; strings: any string if NULL */
    /* In place of `record`, for an object, JSON or raw JSON; at most one member of a table. */
    const struct bl_choice *choice;
    uint32_t chosen; /* BL_CHOSEN: the enum that selects the record when an object is written */
};

/* The first fault that was found. */
struct bl_record_fault {
    const struct bl_json *node;     /* the value; if a member is missing, the object */
    const struct bl_member *member; /* the member of the value; NULL if its name is unknown */
    bool ignored;      /* a member that may be misspelt, in a record that is not closed */
    char path[160];    /* of the value, as a JSON pointer: "/tasks/3/timeout"; "": the record */
    char message[240]; /* "expected a whole number from 1 to 64, found \"soon\"" */
    char hint[240];    /* "did you mean \"steps\"?"; may be empty */
};

struct bl_record {
    const char *name; /* "receipt": of the schema and of its $defs */
    const char *about;
    size_t size;
    const struct bl_member *members;
    bool closed; /* unknown members are refused, with a suggestion; otherwise they are ignored */
    /* Kinds: the first member is an enum, and its value selects additional members of the same
     * struct. A member of another kind only is refused. NULL in the list: no additional members. */
    const struct bl_record *const *kinds;
    bool document; /* its schema is one of several that refer to each other, by their $id */
    const struct bl_record *of; /* of a kind with such a schema: the record that has it */
    /* Checks conditions beyond the table, once all members are valid; the rule of the kind runs
     * first. It may fill the fault's path and message. Returns true if the record is valid. */
    bool (*rule)(const void *record, struct bl_record_fault *fault);
};

#define BL_RECORD(text, type, table, ...)                                                          \
    {                                                                                              \
        .name = (text), .size = sizeof(type), .members = (table), __VA_ARGS__                      \
    }

/* A record whose members are in the struct of the enclosing record. */
#define BL_RECORD_GROUP(text, table, ...)                                                          \
    {                                                                                              \
        .name = (text), .members = (table), __VA_ARGS__                                            \
    }

/* ---- Tables ---------------------------------------------------------------------------------- */

#define BL_RECORD_AT(field) (((BL_RECORD_STRUCT *)0)->field)
/* 0 if the field has that type; otherwise it does not compile. */
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

/* The value may already be JSON, in a struct bl_text, which is written if it is not empty. For a
 * list or an array the text is the elements, separated by commas. Reading leaves it empty. */
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
/* An enum, or a bool with two names, for which false is the absent value. */
#define BL_MEMBER_ENUM(key, field, table, ...)                                                     \
    BL_MEMBER_OF(BL_TYPE_ENUM, key, field,                                                         \
                 0 * sizeof(_Generic(BL_RECORD_AT(field), unsigned : 0, int : 0, bool : 0)),       \
                 .names = (table), __VA_ARGS__)
/* A boolean that always has this value and is not stored in the struct. */
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
/* const struct bl_json *: any value; after reading, a pointer to the node itself. */
#define BL_MEMBER_JSON(key, field, ...)                                                            \
    BL_MEMBER_OF(BL_TYPE_JSON, key, field, BL_RECORD_IS(field, const struct bl_json *), __VA_ARGS__)
/* struct bl_text that is one JSON value. */
#define BL_MEMBER_RAW(key, field, ...)                                                             \
    BL_MEMBER_OF(BL_TYPE_RAW, key, field, BL_RECORD_IS(field, struct bl_text), __VA_ARGS__)
/* A struct with its own table: embedded, or by a pointer that may be NULL. */
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
/* An array in the struct itself; its capacity is the limit. */
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
/* The members of another table, in the same JSON object: of the same struct, or of an embedded one.
 */
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

/* Fills all of `*into`, with pointers into the arena or into `value`. `fault` may be NULL.
 * BL_EPARSE: the value is not valid, and the contents of `*into` are undefined. */
int bl_record_read(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault);
/* The same without copying texts: they point into `value`, which must live as long. */
int bl_record_view(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault);
/* The same, but members that are missing in `value` are left unchanged. */
int bl_record_merge(struct bl_arena *arena, const struct bl_record *record,
                    const struct bl_json *value, void *into, struct bl_record_fault *fault);
/* Only checks the value. Does not apply the record's rule. */
int bl_record_check(const struct bl_record *record, const struct bl_json *value,
                    struct bl_record_fault *fault);
/* Reads the valid members, for documents that may be newer or damaged. A member that is not valid
 * or missing gets its absent value. So does every member if `value` is not an object, or if a
 * `vital` member is not valid or missing; such an element of a list is left out. A text keeps a
 * name that the table does not have, and a time may have any number of decimals. */
void bl_record_take(struct bl_arena *arena, const struct bl_record *record,
                    const struct bl_json *value, void *into);
/* Writes "tasks[3].timeout: expected …", or only the message without a path, and then the hint. */
void bl_record_fault_text(const struct bl_record_fault *fault, char *out, size_t out_size);
/* Writes the record as one object. */
void bl_record_write(struct bl_json_writer *writer, const struct bl_record *record,
                     const void *from);
/* Writes only the members, into an object that is open. */
void bl_record_write_members(struct bl_json_writer *writer, const struct bl_record *record,
                             const void *from);
/* Returns the object as text, in the arena. */
struct bl_text bl_record_text(struct bl_arena *arena, const struct bl_record *record,
                              const void *from);
/* Writes the JSON Schema (draft 2020-12). Nested records are in $defs, under their names ("item"
 * for "cell:item"). The schema of a document refers to other documents instead. */
void bl_record_schema(struct bl_json_writer *writer, const struct bl_record *record);
/* Returns the input schema of a tool for a model or a client, as text in the arena: the same
 * keywords, with nested records inline and no references. For records of texts, numbers, booleans,
 * enums, durations and arrays of these and of records, without kinds and choices. */
struct bl_text bl_record_input_schema(struct bl_arena *arena, const struct bl_record *record);
/* True if both would be written as the same JSON. */
bool bl_record_equal(const struct bl_record *record, const void *a, const void *b);

/* The error object of envelopes and results: a struct bl_error. */
extern const struct bl_record bl_error_record;

BL_PUBLIC_END

#endif
