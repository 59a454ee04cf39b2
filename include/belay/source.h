/* Documents that people write: scripts, the configuration, personas, plans. They are read by the
 * tables of their records, and errors are reported with their place. */
#ifndef BELAY_SOURCE_H
#define BELAY_SOURCE_H

#include <belay/record.h>
#include <belay/value.h>

BL_PUBLIC_BEGIN

/* A document while it is read. The struct that is filled from it may embed it. */
struct bl_source {
    struct bl_document document;
    const char *file;      /* its name in errors; NULL for JSON that is not from a file */
    const char *operation; /* what failed, for errors */
    /* A value may be a secret key in the wrong place: errors show neither values nor excerpts. */
    bool guarded;
    /* Scalars are the text that was written (`keep_scalars`), and the table decides their types.
     * Null is the same as absent, unless the member is nullable. */
    bool loose;
    struct bl_error *error;
    /* Receives the first fault of each member, and reading continues; paths begin at the record
     * that contains the member. NULL: the first fault is the error and ends the reading. */
    void (*tell)(struct bl_source *source, const struct bl_record_fault *fault);
};

/* Reads the document in `text` into the arena. BL_EPARSE, BL_ELIMIT. */
int bl_source_open(struct bl_source *source, struct bl_arena *arena, struct bl_text text,
                   size_t size_max);
/* Reads a value of the document into `*into`, like bl_record_view, but keeps the defaults that
 * `*into` holds for missing members, also in embedded structs. BL_EPARSE: the value is not valid.
 */
int bl_source_read(struct bl_source *source, struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into);
/* Sets the error at `node`: "FILE:3:5: …". Returns BL_EPARSE. */
int bl_source_fail(struct bl_source *source, const struct bl_json *node, const char *format, ...)
    BL_PRINTF(3, 4);

/* One line of text: not empty, and without control characters. */
extern const struct bl_form bl_form_line;

BL_PUBLIC_END

#endif
