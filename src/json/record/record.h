/* Declarations shared by reading, writing and describing records. */
#ifndef BELAY_JSON_RECORD_H
#define BELAY_JSON_RECORD_H

#include <belay/source.h>

#include "json/parts.h"

#define RECORD_MEMBERS_MAX 128u /* of one record, over all of its tables */
#define RECORD_DEPTH_MAX   16u  /* of nested records, some of which contain their own type */
#define RECORD_TABLES_MAX  8u   /* its own, its kind's, and those that they include */

static inline const void *record_at(const void *object, const struct bl_member *member)
{
    return (const char *)object + member->offset;
}

static inline void *record_slot(void *object, const struct bl_member *member)
{
    return (char *)object + member->offset;
}

/* True for JSON or raw JSON that must be an object. */
static inline bool record_is_object(const struct bl_member *member)
{
    return member->object || member->or_string || member->record != NULL;
}

/* The value of an enum, as an index into its names. */
size_t record_enum(const struct bl_member *member, const void *slot);
/* An integer of any width, as its 64 bits. */
uint64_t record_integer(const struct bl_member *member, const void *slot);
/* A boolean, or an int that may be -1 for "not known". */
int record_boolean(const struct bl_member *member, const void *slot);
/* True if the number is in the set, or if `numbers` is NULL. */
bool record_is_among(const struct bl_numbers *numbers, uint64_t bits);
/* The largest allowed integer, by the member's limit or its type. */
uint64_t record_most(const struct bl_member *member);
/* Limit for the bytes of a text or the elements of a list; 0: none. A word that is not `cut` is
 * limited by its array. */
static inline uint64_t record_text_most(const struct bl_member *member)
{
    if (member->type != BL_TYPE_WORD || member->cut)
        return member->most;
    return member->most > 0 && member->most < member->size ? member->most : member->size - 1;
}
/* Appends a description of the allowed values: "a whole number from 1 to 64". */
void record_expected(struct bl_buffer *out, const struct bl_member *member);

/* ---- Reading --------------------------------------------------------------------------------- */

struct reading {
    struct bl_arena *arena;
    struct bl_record_fault *fault; /* NULL: the caller does not need it */
    bool lenient;                  /* invalid values become absent */
    unsigned depth;                /* of nested records */
    bool shared;                   /* texts point into the tree */
    struct bl_source *source;      /* NULL: not a document */
    bool merge;                    /* missing members are left unchanged */
    bool failed;                   /* a fault was reported, and reading continued */
    bool extensible;               /* unknown members are ignored everywhere */
};

/* One of the tables that make up a record. */
struct found_table {
    const struct bl_member *members;
    size_t base;  /* offset of their struct in the record's */
    size_t first; /* number of its first member among those of all tables */
};

/* The members of an object found so far. */
struct found {
    struct found_table tables[RECORD_TABLES_MAX]; /* its own, the kind's, and what these include */
    size_t table_count;
    size_t member_count;
    const struct bl_member *next; /* to be tried first */
    size_t next_index;            /* its number among those of all tables */
    size_t table;                 /* the table of `next` */
    size_t kind_table;            /* the first table of the kind */
    uint64_t seen[RECORD_MEMBERS_MAX / 64];
};

bool record_read_record(struct reading *reading, const struct bl_record *record,
                        const struct bl_json *value, void *into);
/* `object` is the struct that contains the member; NULL: only check the value. */
bool record_read_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value, void *object);
bool record_read_duration(struct reading *reading, const struct bl_member *member,
                          const struct bl_json *value, uint64_t *slot);
bool record_read_strings(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *value, const char *const **slot);
/* Gives the member its absent value. */
void record_set_absent(const struct bl_member *member, void *object);
/* Initialises an object with all members absent. */
void record_clear(const struct bl_record *record, const struct bl_record *kind, void *into);
/* True for null in a loose source, where it means "absent". */
static inline bool record_is_loose_null(const struct reading *reading,
                                        const struct bl_member *member, const struct bl_json *value)
{
    return reading->source != NULL && reading->source->loose && member->optional &&
           !member->nullable && bl_json_is(value, BL_JSON_NULL);
}
/* Converts a scalar of a loose source to the member's type, in `*made`; otherwise returns `value`.
 */
const struct bl_json *record_loosen(struct reading *reading, const struct bl_member *member,
                                    const struct bl_json *value, struct bl_json *made);

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Makes the fault the source's error; returns BL_EPARSE. */
int record_source_fault(struct bl_source *source, const struct bl_record_fault *fault);
/* Reports a fault if the caller collects all faults. Returns false if the reading ends here. */
bool record_continues(struct reading *reading);

/* Truncates at a character boundary. */
void record_cut(char *out, size_t size, struct bl_text text);
/* The record_fail functions return false. This one frees the message. */
bool record_fail(struct reading *reading, const struct bl_json *node, struct bl_buffer *message);
/* "expected …, found …" */
bool record_fail_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value);
/* "missing; expected …", for a member of that object. */
bool record_fail_missing(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *object);
bool record_fail_object(struct reading *reading, const struct bl_json *value);
/* For a key that is in none of the tables. In a record that is not closed, a key that is close to a
 * known name is reported if all faults are. */
bool record_fail_unknown(struct reading *reading, const struct bl_record *record,
                         const struct found *found, const struct bl_json *key);
/* Puts a step in front of the fault's path, while the failure returns. The step is an element if
 * `name` is NULL. */
bool record_fail_below(struct reading *reading, const char *name, size_t index);
/* For members marked `either`, of which `count` are present instead of exactly one. */
bool record_fail_either(struct reading *reading, const struct bl_member *member, size_t count,
                        const struct bl_json *object);
/* True if the list has no duplicates; otherwise sets the fault. */
bool record_is_distinct(struct reading *reading, const struct bl_json *list);

#endif
