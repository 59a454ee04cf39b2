/* Absent members. */
#include "record.h"

/* Sets the parts of a member's absent value that are not zero. */
static void record_mark_absent(const struct bl_member *member, void *object)
{
    void *slot = record_slot(object, member);
    unsigned nameless = 0;

    if (member->known > 0)
        *((bool *)object + member->known - 1) = member->unless;
    if (member->type == BL_TYPE_NUMBER)
        *(double *)slot = (double)member->none;
    else if (member->type == BL_TYPE_INTEGER)
        memcpy(slot, &member->none, member->size);
    else if (member->type == BL_TYPE_BOOLEAN && member->size == sizeof(int))
        *(int *)slot = (int)member->none;
    else if (member->type == BL_TYPE_LIST)
        bl_list_init(slot);
    else if (member->type == BL_TYPE_ARRAY)
        *(size_t *)(void *)((char *)object + member->count) = 0;
    else if (member->type == BL_TYPE_ENUM && member->size != sizeof(bool) &&
             (member->optional || member->nullable)) {
        while (bl_names_get(member->names, nameless) != NULL)
            nameless++;
        *(unsigned *)slot = nameless;
    }
}

void record_set_absent(const struct bl_member *member, void *object)
{
    memset(record_slot(object, member), 0, member->size);
    record_mark_absent(member, object);
}

/* `zeroed`: the whole object is already zeroed. */
static void record_set_all_absent(const struct bl_member *member, void *object, bool zeroed)
{
    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_set_all_absent(member->record->members, record_slot(object, member), zeroed);
        else if (zeroed)
            record_mark_absent(member, object);
        else
            record_set_absent(member, object);
    }
}

/* The members of a group are zeroed one by one, because the struct has other members too. */
void record_clear(const struct bl_record *record, const struct bl_record *kind, void *into)
{
    bool zeroed = record->size > 0;

    memset(into, 0, record->size);
    record_set_all_absent(record->members, into, zeroed);
    if (kind != NULL)
        record_set_all_absent(kind->members, into, zeroed);
}
