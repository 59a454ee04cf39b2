/* What the files of json/ share with each other. */
#ifndef BELAY_JSON_PARTS_H
#define BELAY_JSON_PARTS_H

#include <belay/json.h>

/* In bl_json.flags; the reader sets them. */
enum json_flag {
    JSON_PLAIN = 1,         /* string: came without escapes, so it is written as it stands;
                             * JSON_PADDING bytes after it may be read */
    JSON_KEY = 2,           /* string: a member's key */
    JSON_CLOSES_OBJECT = 4, /* END: of an object */
    JSON_VALID = 8,         /* string: its UTF-8 was checked */
};

/* Readable bytes after the reader's copy of its input, all NUL. */
#define JSON_PADDING 32

/* Reads the number at `at` into `*node`; what follows the input must be a NUL. Returns just after
 * it, or NULL: `*ret_fault` is then the byte that does not fit, `*ret_expected` what would. */
char *json_number_read(char *at, struct bl_json *node, char **ret_fault, const char **ret_expected);

/* 20 bytes at most; return how many. */
size_t json_integer_format(int64_t value, char *out);
size_t json_unsigned_format(uint64_t value, char *out);
/* As bl_json_format_double, but what is printed is a double when it is read back: "1.0", "-0.0". */
size_t json_double_format(double value, char out[32]);

/* Appends `text` in quotes. `trusted`: its UTF-8 was checked; else broken parts become U+FFFD. */
int json_string_append(struct bl_buffer *out, struct bl_text text, bool trusted);

/* The keys of `object`, sorted by UTF-16 units, the last of each. In `arena`; `*ret_count` of them.
 */
const struct bl_json **json_members_sort(struct bl_arena *arena, const struct bl_json *object,
                                         size_t *ret_count);

/* With the defaults where nothing is said, and within what can be kept. */
struct bl_json_limits json_limits_complete(const struct bl_json_limits *limits);
/* `expected` must be static. */
void json_fault_fill(struct bl_json_fault *fault, struct bl_text input, size_t offset,
                     const char *expected);
/* Appends what a value is, for messages: the beginning of a text in quotes, a number, "an array of
 * 3". */
void json_value_show(struct bl_buffer *out, const struct bl_json *value);
void json_text_show(struct bl_buffer *out, struct bl_text text);
/* A key of a closed object that an earlier member has too; or NULL. */
const struct bl_json *json_duplicate_find(const struct bl_json *object);

#endif
