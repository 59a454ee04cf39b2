/* What reading, writing and describing records share. */
#ifndef BELAY_JSON_RECORD_H
#define BELAY_JSON_RECORD_H

#include <belay/record.h>

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
uint64_t record_most(const struct bl_member *member);
/* Bytes of a text or elements of a list; 0: no limit. A word that is not cut has its array's. */
uint64_t record_text_most(const struct bl_member *member);
/* What may stand there, in words: "a whole number from 1 to 64". */
void record_expected(struct bl_buffer *out, const struct bl_member *member);

/* ---- Faults ---------------------------------------------------------------------------------- */

struct reading {
    struct bl_arena *arena;
    struct bl_record_fault *fault; /* NULL: the caller does not ask for it */
    bool lenient;                  /* what does not fit is absent */
    unsigned depth;                /* records that it is in */
    bool shared;                   /* texts are those of the tree */
};

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
/* Puts a step in front of the fault's path: the failure is on its way out. An element where `name`
 * is NULL. */
bool record_fail_below(struct reading *reading, const char *name, size_t index);
/* Exactly one of those members that are marked `either` is to be there, and `count` are. */
bool record_fail_either(struct reading *reading, const struct bl_member *member, size_t count,
                        const struct bl_json *object);
/* No element of the list is there twice; else that is the fault. */
bool record_is_distinct(struct reading *reading, const struct bl_json *list);

#endif
