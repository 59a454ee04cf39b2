/* Reading the typed values of a document that somebody wrote by hand: what is wrong there is told
 * with its place and what it must be. Scripts, the configuration and personas are read so. */
#ifndef BELAY_VALUE_H
#define BELAY_VALUE_H

#include <belay/json.h>

BL_PUBLIC_BEGIN

#define BL_VALUE_SHOWN_SIZE 64u

/* A document while it is read. What it is read into has this as its part. */
struct bl_value_reader {
    struct bl_document document;
    const char *file;      /* what errors call it */
    const char *operation; /* what failed, for errors */
    /* Any value may be a key that stands in the wrong place: errors show none of them, nor an
     * excerpt. Their place is then said as FILE:3:5, else as line 3, column 5. */
    bool guarded;
    struct bl_error *error;
};

/* The document of `source`, in the arena. */
int bl_value_read_document(struct bl_value_reader *reader, struct bl_arena *arena,
                           struct bl_text source, size_t size_max);

/* Fails at `node`; `format` goes on after its place. */
int bl_value_fail_at(struct bl_value_reader *reader, const struct bl_json *node, const char *format,
                     ...) BL_PRINTF(3, 4);
/* The beginning of it, without what terminals obey. */
const char *bl_value_show(struct bl_text text, char out[BL_VALUE_SHOWN_SIZE]);
const char *bl_value_type(const struct bl_json *value); /* "a list", for errors */

/* The value of a member. 0, or the error set, with what its key must be. */
int bl_value_read_text(struct bl_value_reader *reader, const struct bl_json *key,
                       struct bl_text *ret_text);
/* A line for programs: not empty, and without control characters. `name` is what it is. */
int bl_value_read_line(struct bl_value_reader *reader, const struct bl_json *value,
                       const char *name, const char **ret_text);
int bl_value_read_boolean(struct bl_value_reader *reader, const struct bl_json *key,
                          bool *ret_value);
/* Text as "20ms", or a number of seconds; at least so long, which is 0 or 1: above zero. */
int bl_value_read_duration(struct bl_value_reader *reader, const struct bl_json *key,
                           int64_t least_ns, uint64_t *ret_ns);
/* The index of the word in `words`, which end in NULL. */
int bl_value_read_choice(struct bl_value_reader *reader, const struct bl_json *key,
                         const char *const *words, size_t *ret_index);
/* Hands each member of a mapping to `read`, with the index of its key in `names` (which end in
 * NULL); another key is an error. `what` is the mapping, for errors. */
typedef int bl_value_member(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                            void *out);
int bl_value_read_members(struct bl_value_reader *reader, const struct bl_json *mapping,
                          const char *what, const char *const *names, bl_value_member *read,
                          void *out);

BL_PUBLIC_END

#endif
