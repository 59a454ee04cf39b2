/* Documents that people write: scripts, the configuration, personas, plans. They are read by the
 * tables of their records, and what does not fit is told with its place. */
#ifndef BELAY_SOURCE_H
#define BELAY_SOURCE_H

#include <belay/record.h>
#include <belay/value.h>

BL_PUBLIC_BEGIN

/* A document while it is read. The struct that it is read into may embed it. */
struct bl_source {
    struct bl_document document;
    const char *file;      /* its name in errors; NULL: it is JSON that came from elsewhere */
    const char *operation; /* what failed, for errors */
    /* Any value may be a key in the wrong place: errors show none of them, nor an excerpt. */
    bool guarded;
    /* Scalars are the text that was written (`keep_scalars`): what they are, the table says. Null is
     * the same as nothing, unless the member is nullable. */
    bool loose;
    struct bl_error *error;
    /* Gets the first fault of each member, and reading goes on; paths begin at the record that the
     * member is of. NULL: the first fault is the error, and ends it. */
    void (*tell)(struct bl_source *source, const struct bl_record_fault *fault);
};

/* Reads the document of `text` into the arena. BL_EPARSE, BL_ELIMIT. */
int bl_source_open(struct bl_source *source, struct bl_arena *arena, struct bl_text text,
                   size_t size_max);
/* Reads a value of the document into `*into`, as bl_record_view does. But what is not there stays
 * as it was, in embedded structs too: `*into` holds the defaults. BL_EPARSE: it does not fit. */
int bl_source_read(struct bl_source *source, struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into);
/* Fails at `node`: "FILE:3:5: …". Returns BL_EPARSE. */
int bl_source_fail(struct bl_source *source, const struct bl_json *node, const char *format, ...)
    BL_PRINTF(3, 4);

/* A string on one line for programs: not empty, and without control characters. */
extern const struct bl_form bl_form_line;

BL_PUBLIC_END

#endif
