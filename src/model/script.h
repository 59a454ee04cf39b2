/* Reading scripts: what the files of it share. Inside model/ only. */
#ifndef BELAY_MODEL_SCRIPT_H
#define BELAY_MODEL_SCRIPT_H

#include "parts.h"

#define SCRIPT_SIZE_MAX  (16u << 20)
#define SCRIPT_OPERATION "read the script"

/* A script while it is read. Its texts are those of the document, which is in its arena. */
struct script_parser {
    struct bl_script *script;
    struct bl_document document;
    const char *name; /* what errors call it */
    size_t inputs_size;
    struct bl_error *error;
};

/* Fails at `node`; `format` goes on after "line 3, column 5: ". */
int script_fail_at(struct script_parser *parser, const struct bl_json *node, const char *format,
                   ...) BL_PRINTF(3, 4);
const char *script_type(const struct bl_json *value); /* "a list", for errors */

/* The value of a member. 0, or the error set, with what its key must be. */
int script_read_text(struct script_parser *parser, const struct bl_json *key,
                     struct bl_text *ret_text);
int script_read_count(struct script_parser *parser, const struct bl_json *key, int64_t least,
                      int64_t most, uint64_t *ret_count);
int script_read_boolean(struct script_parser *parser, const struct bl_json *key, bool *ret_value);
/* Text as "20ms", or a number of seconds; not negative. */
int script_read_duration(struct script_parser *parser, const struct bl_json *key, uint64_t *ret_ns);
/* The index of the word in `words`, which end in NULL. */
int script_read_choice(struct script_parser *parser, const struct bl_json *key,
                       const char *const *words, size_t *ret_index);
/* Hands each member to `read`, with the index of its key in `names` (which end in NULL); another
 * key is an error. `what` is the mapping, for errors. */
int script_read_members(struct script_parser *parser, const struct bl_json *mapping,
                        const char *what, const char *const *names,
                        int (*read)(struct script_parser *parser, size_t which,
                                    const struct bl_json *key, void *out),
                        void *out);

#endif
