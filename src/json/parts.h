/* Declarations shared by the files of json/. */
#ifndef BELAY_JSON_PARTS_H
#define BELAY_JSON_PARTS_H

#include <belay/json.h>

/* In bl_json.flags; the reader sets them. */
enum json_flag {
    JSON_PLAIN = 1,         /* string: had no escapes, so it is written unchanged;
                             * JSON_PADDING bytes after it may be read */
    JSON_KEY = 2,           /* string: a member's key */
    JSON_CLOSES_OBJECT = 4, /* END: of an object */
    JSON_VALID = 8,         /* string: its UTF-8 was checked */
};

/* Readable bytes after the reader's copy of its input, all NUL. */
#define JSON_PADDING 32

/* Reads the number at `at` into `*node`; a NUL must follow the input. Returns the position after
 * the number; or NULL, with the unexpected byte in `*ret_fault` and what was expected in
 * `*ret_expected`. */
char *json_number_read(char *at, struct bl_json *node, char **ret_fault, const char **ret_expected);

/* Write at most 20 bytes; return how many. */
size_t json_integer_format(int64_t value, char *out);
size_t json_unsigned_format(uint64_t value, char *out);
/* Like bl_json_format_double, but the output always reads back as a double: "1.0", "-0.0". */
size_t json_double_format(double value, char out[32]);

/* Appends `text` in quotes. `trusted`: its UTF-8 was checked; otherwise invalid parts become
 * U+FFFD.
 *
 *  */
int json_string_append(struct bl_buffer *out, struct bl_text text, bool trusted);

/* Writes a key from a table, which contains nothing to escape. */
void json_write_name(struct bl_json_writer *writer, const char *name);

/* Returns the keys of `object` in `arena`, sorted by UTF-16 units, the last of each; `*ret_count`
 * is their number. */
const struct bl_json **json_members_sort(struct bl_arena *arena, const struct bl_json *object,
                                         size_t *ret_count);

/* Returns the limits with defaults in place of zeros, and reduced to the largest supported values.
 */
struct bl_json_limits json_limits_complete(const struct bl_json_limits *limits);
/* `expected` must be static. */
void json_fault_fill(struct bl_json_fault *fault, struct bl_text input, size_t offset,
                     const char *expected);
/* Appends a value for messages: the beginning of a text in quotes, a number, "an array of 3". */
void json_value_show(struct bl_buffer *out, const struct bl_json *value);
void json_text_show(struct bl_buffer *out, struct bl_text text);
/* Returns a duplicate key of a closed object, or NULL. */
const struct bl_json *json_duplicate_find(const struct bl_json *object);

#endif
