/* json: reading, writing, look-ups, a canonical form, and validation against a schema.
 *
 * Reading makes an immutable tree in an arena; writing streams into a buffer. There are no
 * functions to build a tree: programs write the values that they send and read the values that they
 * receive.
 *
 * Promises: 64-bit integers are exact and doubles round-trip. Every limit is explicit. An error in
 * the input is reported with its offset, what was expected and an excerpt. Invalid UTF-8 and lone
 * surrogates are refused. No function recurses on the depth of the input. */
#ifndef BELAY_JSON_H
#define BELAY_JSON_H

#include <belay/base.h>

BL_PUBLIC_BEGIN

/* ---- Values ---------------------------------------------------------------------------------- */

enum bl_json_type {
    BL_JSON_NULL,
    BL_JSON_BOOLEAN,
    BL_JSON_INTEGER,  /* fits int64_t */
    BL_JSON_UNSIGNED, /* above INT64_MAX, fits uint64_t */
    BL_JSON_DOUBLE,   /* has a fraction or exponent, is "-0", or is an integer beyond 64 bits */
    BL_JSON_STRING,
    BL_JSON_ARRAY,
    BL_JSON_OBJECT,
    BL_JSON_END, /* internal: closes an array or object */
};

/* One node of a tree. The nodes are in document order in one block of memory. A container is
 * followed by its children and an END node; a member is a string node (its key) followed by its
 * value. Use the functions below to read it. */
struct bl_json {
    uint8_t type;
    uint8_t flags;
    uint16_t unused;
    uint32_t size; /* string: bytes; array: elements; object: members */
    union {
        const char *string; /* a NUL follows the last byte */
        int64_t integer;
        uint64_t unsigned_integer;
        double number;
        bool boolean;
        uint64_t span; /* container: nodes from itself to just after its END */
    };
};

/* ---- Reading --------------------------------------------------------------------------------- */

struct bl_json_limits {
    size_t size_max;         /* bytes of input; 0: 64 MiB; at most 4 GiB */
    size_t string_max;       /* bytes of one decoded string or key; 0: 16 MiB */
    uint32_t depth_max;      /* nested containers; 0: 128; at most 1024 */
    bool refuse_duplicates;  /* a duplicate key in an object is an error */
    bool replace_surrogates; /* a lone surrogate (of a split pair) becomes U+FFFD, not an error */
    /* For documents only. */
    uint32_t aliases_max; /* 0: limited only by the nodes that they make */
    bool keep_scalars;    /* YAML's numbers and booleans stay the text that was written */
    bool keep_duplicates; /* duplicate keys in a mapping are kept */
};

/* Where and why reading failed. */
struct bl_json_fault {
    size_t offset;        /* of the first byte that does not fit */
    uint32_t line;        /* from 1 */
    uint32_t column;      /* in bytes, from 1 */
    const char *expected; /* "',' or '}'", "a value", …: static */
    char found[16];       /* that byte, printable: "'x'", "0x07", "the end" */
    char excerpt[64];     /* the text around it, on one line, valid UTF-8 */
};

/* Reads exactly one value with only white space around it. The tree is in `arena`; the input may be
 * freed afterwards. `limits` NULL: defaults. `fault` may be NULL. Duplicate keys are kept:
 * bl_json_get returns the last one, and the canonical form contains only that. BL_EPARSE:
 * malformed; BL_ELIMIT: over a limit. On error, the arena is unchanged. */
int bl_json_read(struct bl_arena *arena, struct bl_text input, const struct bl_json_limits *limits,
                 const struct bl_json **ret_value, struct bl_json_fault *fault);
/* "offset 17 (line 2, column 5): expected ',' or '}', found 'x' near `…`". */
void bl_json_fault_text(const struct bl_json_fault *fault, char *out, size_t out_size);

/* ---- Access ---------------------------------------------------------------------------------- */

static inline enum bl_json_type bl_json_type(const struct bl_json *value)
{
    return (enum bl_json_type)value->type;
}

const char *bl_json_type_name(
    enum bl_json_type type); /* "null", "boolean", "integer", "number", … */

/* The node after `value` and all below it. */
static inline const struct bl_json *bl_json_next(const struct bl_json *value)
{
    return value +
           (value->type == BL_JSON_ARRAY || value->type == BL_JSON_OBJECT ? value->span : 1);
}

/* Iterates over elements: BL_JSON_EACH (element, array) {…}. Other types have no elements. */
#define BL_JSON_EACH(element, array)                                                               \
    for (const struct bl_json *element = bl_json_first(array, BL_JSON_ARRAY);                      \
         element->type != BL_JSON_END; element = bl_json_next(element))
/* Iterates over members: `key` is a string node, and its value is key + 1. */
#define BL_JSON_MEMBERS(key, object)                                                               \
    for (const struct bl_json *key = bl_json_first(object, BL_JSON_OBJECT);                        \
         key->type != BL_JSON_END; key = bl_json_next(key + 1))
/* Returns the first child of a container of that type, or an END node. `value` may be NULL. */
const struct bl_json *bl_json_first(const struct bl_json *value, enum bl_json_type type);

/* These functions accept NULL and values of another type, and then return NULL, false or the
 * fallback. So a chain of look-ups needs only one check, at its end. */
const struct bl_json *bl_json_get(const struct bl_json *object, struct bl_text key);
const struct bl_json *bl_json_at(const struct bl_json *array, size_t index);
/* RFC 6901: "" is the value itself, "/choices/0/delta" a path, ~0 and ~1 escapes. */
const struct bl_json *bl_json_pointer(const struct bl_json *value, struct bl_text pointer);
bool bl_json_is(const struct bl_json *value, enum bl_json_type type);
struct bl_text bl_json_text(const struct bl_json *value); /* empty unless a string */
bool bl_json_boolean(const struct bl_json *value, bool fallback);
/* Exact integers: INTEGER, and a DOUBLE without fraction that fits (3.0). False otherwise. */
bool bl_json_int64(const struct bl_json *value, int64_t *ret_value);
/* Any number, rounded to a double. False otherwise. */
bool bl_json_double(const struct bl_json *value, double *ret_value);
size_t bl_json_size(const struct bl_json *value); /* of strings, arrays, objects; else 0 */
/* True if the values are equal as JSON: 1, 1.0 and 1e0 are equal, and the order of members does not
 * matter. */
bool bl_json_equal(const struct bl_json *a, const struct bl_json *b);

/* ---- Writing --------------------------------------------------------------------------------- */

#define BL_JSON_WRITE_DEPTH_MAX 1024

/* Streams one value into a buffer. Embedded by the caller. The writer adds commas and colons. The
 * first error is kept (BL_ELIMIT: the buffer is full; BL_EINVAL: a number that is not finite,
 * nested too deeply, or calls out of order, which also fail an assertion). Check it once, with
 * bl_json_writer_done. */
struct bl_json_writer {
    struct bl_buffer *out;
    int error;
    uint32_t depth;
    uint32_t indent; /* 0: one line; else spaces per level */
    bool comma;      /* a comma is due before the next value or key */
    bool after_key;
    uint64_t objects[BL_JSON_WRITE_DEPTH_MAX / 64]; /* per level: 1 object, 0 array */
};

void bl_json_writer_init(struct bl_json_writer *writer, struct bl_buffer *out);
void bl_json_writer_indent(struct bl_json_writer *writer, uint32_t spaces);
int bl_json_writer_done(struct bl_json_writer *writer); /* BL_EINVAL also if a container is open */

void bl_json_write_object(struct bl_json_writer *writer);
void bl_json_write_array(struct bl_json_writer *writer);
void bl_json_write_end(struct bl_json_writer *writer); /* closes the innermost */
void bl_json_write_key(struct bl_json_writer *writer, struct bl_text key);
/* Writes U+FFFD in place of each part that is not valid UTF-8. */
void bl_json_write_text(struct bl_json_writer *writer, struct bl_text text);
void bl_json_write_string(struct bl_json_writer *writer, const char *string); /* NULL: null */
void bl_json_write_int64(struct bl_json_writer *writer, int64_t value);
void bl_json_write_uint64(struct bl_json_writer *writer, uint64_t value);
void bl_json_write_double(struct bl_json_writer *writer,
                          double value); /* shortest that reads back */
void bl_json_write_boolean(struct bl_json_writer *writer, bool value);
void bl_json_write_null(struct bl_json_writer *writer);
/* Writes a whole tree, with its duplicate keys. NULL is written as null. */
void bl_json_write_value(struct bl_json_writer *writer, const struct bl_json *value);
/* Returns a whole tree as text on one line, in the arena. */
struct bl_text bl_json_value_text(struct bl_arena *arena, const struct bl_json *value);
/* Returns a text as a JSON string, in the arena. */
struct bl_text bl_json_quote(struct bl_arena *arena, struct bl_text text);
/* Writes text that is already one JSON value; it is not checked. */
void bl_json_write_raw(struct bl_json_writer *writer, struct bl_text json);

/* Write a member of the open object: key and value. */
void bl_json_put_text(struct bl_json_writer *writer, const char *key, struct bl_text value);
void bl_json_put_string(struct bl_json_writer *writer, const char *key, const char *value);
void bl_json_put_uint64(struct bl_json_writer *writer, const char *key, uint64_t value);
void bl_json_put_boolean(struct bl_json_writer *writer, const char *key, bool value);
/* `json` is already one JSON value; an empty text is written as null. */
void bl_json_put_json(struct bl_json_writer *writer, const char *key, struct bl_text json);

/* Writes the form of RFC 8785: members sorted by UTF-16 units, the last of duplicates, no white
 * space, numbers as ECMAScript prints them. Only integers beyond 2^53 differ: they stay exact. */
int bl_json_write_canonical(struct bl_buffer *out, const struct bl_json *value);

/* Writes the shortest decimal that reads back as `value` (finite), as ECMAScript prints it. Returns
 * its size, at most 25 bytes. */
size_t bl_json_format_double(double value, char out[32]);

/* ---- Documents ------------------------------------------------------------------------------- */

/* A file that a person wrote, in YAML or JSON, as the same kind of tree, with the place of each
 * node. It lives in its arena. A file that begins with '{' or '[' and is valid JSON is read as
 * JSON. */
struct bl_document {
    const struct bl_json *root;
    const struct bl_document_place *places; /* by node: places[node - root] */
    size_t count;
};

struct bl_document_place {
    uint32_t line; /* from 1 */
    uint32_t column;
};

/* Reads one document. From YAML it supports the core types (null, booleans, integers, numbers,
 * text), and anchors and aliases within the limits. Tags outside the core schema, a second
 * document, keys that are not text, and duplicate keys in a mapping are errors. An empty file is
 * null. BL_EPARSE, BL_ELIMIT; the arena is then unchanged. */
int bl_document_read(struct bl_arena *arena, struct bl_text input,
                     const struct bl_json_limits *limits, struct bl_document *ret_document,
                     struct bl_json_fault *fault);
struct bl_document_place bl_document_place(const struct bl_document *document,
                                           const struct bl_json *node);

/* ---- Schema ---------------------------------------------------------------------------------- */

/* A compiled JSON Schema (2020-12): type, enum, const, required, properties, patternProperties,
 * additionalProperties, propertyNames, items, prefixItems, uniqueItems, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, minItems, maxItems,
 * minProperties, maxProperties, pattern, anyOf, oneOf, allOf, not, and local $ref into $defs or by
 * pointer. Other assertions (if, contains, unevaluatedProperties, …) are not checked;
 * bl_json_schema_ignored lists them. Immutable after compiling. */
struct bl_json_schema;

/* Compiles a schema; `source` is not needed afterwards. BL_EINVAL: not a schema, a remote or
 * dangling $ref, a pattern that does not compile, or a $ref cycle that does not descend into the
 * value; BL_ELIMIT: more than 20,000 schemas or 1,000 anchors. `error` (may be NULL) gives the path
 * and what to do. */
int bl_json_schema_new(const struct bl_json *source, struct bl_json_schema **ret_schema,
                       struct bl_error *error);
void bl_json_schema_free(struct bl_json_schema *schema); /* NULL is fine */
/* Returns the pointer of an unchecked keyword ("/properties/a/if"); `index` counts from 0. Empty
 * after the last one. */
struct bl_text bl_json_schema_ignored(const struct bl_json_schema *schema, size_t index);

/* One violation. It lives in the arena given to the check. */
struct bl_json_problem {
    struct bl_list link;
    struct bl_text path;    /* pointer into the value: "/items/3/name" */
    struct bl_text keyword; /* pointer into the schema: "/properties/items/items/required" */
    struct bl_text message; /* "must be a string, is 12" */
};

#define BL_JSON_PROBLEMS_MAX 100

/* Lists the violations in `value`, in document order, in `problems` (a list head, initialised
 * here). 0: valid. BL_EINVAL: not valid. BL_ELIMIT: too deep or too much work to decide; a value
 * that could not be decided counts as not valid, and a problem says why. Stops after
 * BL_JSON_PROBLEMS_MAX problems. */
int bl_json_schema_check(const struct bl_json_schema *schema, const struct bl_json *value,
                         struct bl_arena *arena, struct bl_list *problems);

BL_PUBLIC_END

#endif
