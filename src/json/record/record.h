/* What reading, writing and describing records share. */
#ifndef BELAY_JSON_RECORD_H
#define BELAY_JSON_RECORD_H

#include <belay/source.h>

#include "json/parts.h"

#define RECORD_MEMBERS_MAX 128u /* of one record, over all of its tables */
#define RECORD_DEPTH_MAX   16u  /* of records in each other: some hold their own kind */
#define RECORD_TABLES_MAX  8u   /* its own, its kind's, and those that they include */

static inline const void *record_at(const void *object, const struct bl_member *member)
{
    return (const char *)object + member->offset;
}

static inline void *record_slot(void *object, const struct bl_member *member)
{
    return (char *)object + member->offset;
}

/* JSON or raw JSON that must be an object. */
static inline bool record_is_object(const struct bl_member *member)
{
    return member->object || member->or_string || member->record != NULL;
}

/* The enum that it is, as an index into its names. */
size_t record_enum(const struct bl_member *member, const void *slot);
/* An integer of any width, as its 64 bits. */
uint64_t record_integer(const struct bl_member *member, const void *slot);
/* A boolean, or an int that may be -1: not known. */
int record_boolean(const struct bl_member *member, const void *slot);
/* The largest integer that may stand there, by its limit or by its type. */
/* True where there is no such set, too. */
bool record_is_among(const struct bl_numbers *numbers, uint64_t bits);
uint64_t record_most(const struct bl_member *member);
/* Bytes of a text or elements of a list; 0: no limit. A word that is not cut has its array's. */
uint64_t record_text_most(const struct bl_member *member);
/* What may stand there, in words: "a whole number from 1 to 64". */
void record_expected(struct bl_buffer *out, const struct bl_member *member);

/* ---- Reading --------------------------------------------------------------------------------- */

struct reading {
    struct bl_arena *arena;
    struct bl_record_fault *fault; /* NULL: the caller does not ask for it */
    bool lenient;                  /* what does not fit is absent */
    unsigned depth;                /* records that it is in */
    bool shared;                   /* texts are those of the tree */
    struct bl_source *source;      /* what people wrote; NULL: it is not a document */
    bool merge;                    /* what is missing stays as it was */
    bool failed;                   /* a fault was told, and reading went on */
};

/* One of the tables that a record is made of. */
struct found_table {
    const struct bl_member *members;
    size_t base;  /* of their struct, in the record's */
    size_t first; /* number of its first member among those of all tables */
};

/* What was found of an object's members. */
struct found {
    struct found_table tables[RECORD_TABLES_MAX]; /* its own, the kind's, and what these include */
    size_t table_count;
    size_t member_count;
    size_t table;                 /* where the last one was found */
    const struct bl_member *next; /* to be tried first */
    uint64_t seen[RECORD_MEMBERS_MAX / 64];
};

bool record_read_record(struct reading *reading, const struct bl_record *record,
                        const struct bl_json *value, void *into);
/* `object` is what the member is in; NULL: only checked. */
bool record_read_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value, void *object);
bool record_read_duration(struct reading *reading, const struct bl_member *member,
                          const struct bl_json *value, uint64_t *slot);
bool record_read_strings(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *value, const char *const **slot);
/* Null, where a loose source means nothing by it. */
static inline bool record_is_unsaid(const struct reading *reading, const struct bl_member *member,
                                    const struct bl_json *value)
{
    return reading->source != NULL && reading->source->loose && member->optional &&
           !member->nullable && bl_json_is(value, BL_JSON_NULL);
}
/* A scalar of a loose source as the type that the member has, in `*made`; else `value`. */
const struct bl_json *record_loosen(struct reading *reading, const struct bl_member *member,
                                    const struct bl_json *value, struct bl_json *made);

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Makes the fault the source's error; returns BL_EPARSE. */
int record_source_fault(struct bl_source *source, const struct bl_record_fault *fault);
/* After a fault: tells it, if all are asked for. False: the reading ends here. */
bool record_goes_on(struct reading *reading);

void record_cut(char *out, size_t size, struct bl_text text); /* at a character */
/* All return false. The message is taken. */
bool record_fail(struct reading *reading, const struct bl_json *node, struct bl_buffer *message);
/* "expected …, found …" */
bool record_fail_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value);
/* "missing; expected …", of a member of that object. */
bool record_fail_missing(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *object);
bool record_fail_object(struct reading *reading, const struct bl_json *value);
/* A key that is in none of the tables. Of a record that is not closed one that is near to another
 * is told, if all faults are. */
bool record_fail_unknown(struct reading *reading, const struct bl_record *record,
                         const struct found *found, const struct bl_json *key);
/* Puts a step in front of the fault's path: the failure is on its way out. An element where `name`
 * is NULL. */
bool record_fail_below(struct reading *reading, const char *name, size_t index);
/* Exactly one of those members that are marked `either` is to be there, and `count` are. */
bool record_fail_either(struct reading *reading, const struct bl_member *member, size_t count,
                        const struct bl_json *object);
/* No element of the list is there twice; else that is the fault. */
bool record_is_distinct(struct reading *reading, const struct bl_json *list);

#endif
