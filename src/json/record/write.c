#include "record.h"

#include <math.h>

static size_t record_array_count(const struct bl_member *member, const void *object)
{
    return *(const size_t *)(const void *)((const char *)object + member->count);
}

/* A zeroed struct has list heads that were never initialised: those lists are empty. */
static bool record_list_empty(const struct bl_list *head)
{
    return head->next == NULL || bl_list_empty(head);
}

/* Returns the member's JSON text, or an empty text if it is to be written from the struct. */
static struct bl_text record_encoded(const struct bl_member *member, const void *object)
{
    if (member->encoded == 0)
        return (struct bl_text){0};
    return *(const struct bl_text *)(const void *)((const char *)object + member->encoded - 1);
}

static bool record_has_bit(const uint64_t *words, size_t number)
{
    return (words[number / 64] >> number % 64 & 1) != 0;
}

static bool record_bits_any(const struct bl_member *member, const uint64_t *words)
{
    size_t number = 0;
    while (number < (size_t)member->size * 8 && !record_has_bit(words, number))
        number++;
    return number < (size_t)member->size * 8;
}

static void record_write_bits(struct bl_json_writer *writer, const struct bl_member *member,
                              const uint64_t *words)
{
    bl_json_write_array(writer);
    for (size_t number = 0; number < (size_t)member->size * 8; number++) {
        if (record_has_bit(words, number))
            bl_json_write_uint64(writer, number);
    }
    bl_json_write_end(writer);
}

static bool record_is_known(const struct bl_member *member, const void *object)
{
    return *((const bool *)object + member->known - 1) != member->unless;
}

static bool record_has_value(const struct bl_member *member, const void *object)
{
    const void *slot = record_at(object, member);

    if (member->known > 0 && !(member->optional && member->nullable))
        return record_is_known(member, object);
    if (record_encoded(member, object).size > 0)
        return true;
    switch (member->type) {
    case BL_TYPE_TEXT:
    case BL_TYPE_RAW: return ((const struct bl_text *)slot)->size > 0;
    case BL_TYPE_WORD: return *(const char *)slot != '\0';
    case BL_TYPE_STRING:
    case BL_TYPE_JSON:
    case BL_TYPE_STRINGS:
    case BL_TYPE_POINTER: return *(const void *const *)slot != NULL;
    case BL_TYPE_TIME:
    case BL_TYPE_DURATION: return *(const int64_t *)slot != 0;
    case BL_TYPE_ENUM: return bl_names_get(member->names, record_enum(member, slot)) != NULL;
    case BL_TYPE_NUMBER: return *(const double *)slot != (double)member->none;
    case BL_TYPE_INTEGER: return record_integer(member, slot) != (uint64_t)member->none;
    case BL_TYPE_BOOLEAN: return record_boolean(member, slot) != (int)member->none;
    case BL_TYPE_LIST: return !record_list_empty(slot);
    case BL_TYPE_ARRAY: return record_array_count(member, object) > 0;
    case BL_TYPE_BITS: return record_bits_any(member, slot);
    case BL_TYPE_OBJECT:
    case BL_TYPE_INCLUDE:
    case BL_TYPE_CONSTANT:
    case BL_TYPE_END: break;
    }
    return true;
}

static void record_write_list(struct bl_json_writer *writer, const struct bl_member *member,
                              const struct bl_list *head)
{
    bl_json_write_array(writer);
    if (!record_list_empty(head)) {
        BL_LIST_EACH (link, head)
            bl_record_write(writer, member->record, (const char *)link - member->link);
    }
    bl_json_write_end(writer);
}

static void record_write_value(struct bl_json_writer *writer, const struct bl_member *member,
                               const void *object);

static void record_write_array(struct bl_json_writer *writer, const struct bl_member *member,
                               const void *object)
{
    const char *elements = record_at(object, member);
    size_t count = record_array_count(member, object);

    if (!member->embedded)
        elements = *(const char *const *)(const void *)elements;
    bl_json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        record_write_value(writer, member->element, elements + i * member->element->size);
    bl_json_write_end(writer);
}

static void record_write_number(struct bl_json_writer *writer, const struct bl_member *member,
                                double number)
{
    double unit = pow(10, member->decimals);
    bl_json_write_double(writer, member->decimals > 0 ? round(number * unit) / unit : number);
}

static void record_write_integer(struct bl_json_writer *writer, const struct bl_member *member,
                                 uint64_t bits)
{
    if (member->is_signed)
        bl_json_write_int64(writer, (int64_t)bits);
    else
        bl_json_write_uint64(writer, bits);
}

/* An empty text is not a JSON value, so it is written as null, even if the member is not nullable.
 */
static void record_write_raw(struct bl_json_writer *writer, struct bl_text json)
{
    if (json.size > 0)
        bl_json_write_raw(writer, json);
    else
        bl_json_write_null(writer);
}

static void record_write_time(struct bl_json_writer *writer, int64_t wall_ns)
{
    char text[32];
    bl_time_format(wall_ns, text);
    bl_json_write_string(writer, text);
}

static void record_write_strings(struct bl_json_writer *writer, const char *const *strings)
{
    bl_json_write_array(writer);
    for (; strings != NULL && *strings != NULL; strings++)
        bl_json_write_string(writer, *strings);
    bl_json_write_end(writer);
}

/* Returns the record of an object, which another member may select. */
static const struct bl_record *record_of(const struct bl_member *member, const void *object)
{
    unsigned index;

    if (member->choice == NULL)
        return member->record;
    memcpy(&index, (const char *)object + member->chosen, sizeof index);
    return member->choice->records[index];
}

static void record_write_encoded(struct bl_json_writer *writer, const struct bl_member *member,
                                 struct bl_text text)
{
    bool elements = member->type == BL_TYPE_LIST || member->type == BL_TYPE_ARRAY;

    if (elements)
        bl_json_write_array(writer);
    bl_json_write_raw(writer, text);
    if (elements)
        bl_json_write_end(writer);
}

static void record_write_text(struct bl_json_writer *writer, const struct bl_member *member,
                              struct bl_text text)
{
    bl_json_write_text(writer, member->cut ? bl_utf8_cut(text, member->most) : text);
}

static void record_write_value(struct bl_json_writer *writer, const struct bl_member *member,
                               const void *object)
{
    const void *slot = record_at(object, member);

    switch (member->type) {
    case BL_TYPE_TEXT: record_write_text(writer, member, *(const struct bl_text *)slot); break;
    case BL_TYPE_STRING: bl_json_write_string(writer, *(const char *const *)slot); break;
    case BL_TYPE_WORD: bl_json_write_string(writer, slot); break;
    case BL_TYPE_BOOLEAN:
        bl_json_write_boolean(writer, (record_boolean(member, slot) != 0) != member->inverted);
        break;
    case BL_TYPE_INTEGER: record_write_integer(writer, member, record_integer(member, slot)); break;
    case BL_TYPE_NUMBER: record_write_number(writer, member, *(const double *)slot); break;
    case BL_TYPE_ENUM:
        bl_json_write_string(writer, bl_names_get(member->names, record_enum(member, slot)));
        break;
    case BL_TYPE_TIME: record_write_time(writer, *(const int64_t *)slot); break;
    case BL_TYPE_DURATION:
        bl_json_write_double(writer, (double)*(const uint64_t *)slot / 1e9);
        break;
    case BL_TYPE_STRINGS: record_write_strings(writer, *(const char *const *const *)slot); break;
    case BL_TYPE_JSON: bl_json_write_value(writer, *(const struct bl_json *const *)slot); break;
    case BL_TYPE_RAW: record_write_raw(writer, *(const struct bl_text *)slot); break;
    case BL_TYPE_OBJECT: bl_record_write(writer, record_of(member, object), slot); break;
    case BL_TYPE_POINTER:
        bl_record_write(writer, member->record, *(const void *const *)slot);
        break;
    case BL_TYPE_LIST: record_write_list(writer, member, slot); break;
    case BL_TYPE_ARRAY: record_write_array(writer, member, object); break;
    case BL_TYPE_CONSTANT: bl_json_write_boolean(writer, member->none != 0); break;
    case BL_TYPE_BITS: record_write_bits(writer, member, slot); break;
    case BL_TYPE_INCLUDE:
    case BL_TYPE_END: break;
    }
}

static void record_write_member(struct bl_json_writer *writer, const struct bl_member *member,
                                const void *from)
{
    if (member->secret)
        return;
    if (member->type == BL_TYPE_INCLUDE) {
        bl_record_write_members(writer, member->record, record_at(from, member));
        return;
    }
    if (member->optional && member->nullable && member->known > 0 && !record_is_known(member, from))
        return;
    /* A required pointer that is NULL is left out: there is nothing to write. */
    bool may_lack =
        member->optional || member->nullable || member->either || member->type == BL_TYPE_POINTER;
    bool absent = may_lack && !record_has_value(member, from);
    if (absent && !member->nullable)
        return;
    json_write_name(writer, member->name);
    if (absent)
        bl_json_write_null(writer);
    else if (record_encoded(member, from).size > 0)
        record_write_encoded(writer, member, record_encoded(member, from));
    else
        record_write_value(writer, member, from);
}

void bl_record_write_members(struct bl_json_writer *writer, const struct bl_record *record,
                             const void *from)
{
    const struct bl_member *member = record->members;

    if (record->kinds != NULL) {
        const struct bl_record *kind = record->kinds[record_enum(member, record_at(from, member))];
        record_write_member(writer, member++, from);
        if (kind != NULL)
            bl_record_write_members(writer, kind, from);
    }
    for (; member->type != BL_TYPE_END; member++)
        record_write_member(writer, member, from);
}

void bl_record_write(struct bl_json_writer *writer, const struct bl_record *record,
                     const void *from)
{
    bl_json_write_object(writer);
    bl_record_write_members(writer, record, from);
    bl_json_write_end(writer);
}

struct bl_text bl_record_text(struct bl_arena *arena, const struct bl_record *record,
                              const void *from)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, record, from);
    return bl_arena_text(arena, bl_buffer_text(&out));
}

bool bl_record_equal(const struct bl_record *record, const void *a, const void *b)
{
    const void *const sides[] = {a, b};
    struct bl_buffer texts[2];
    int code = 0;

    for (size_t i = 0; i < BL_COUNT(sides); i++) {
        struct bl_json_writer writer;
        bl_buffer_init(&texts[i], SIZE_MAX);
        bl_json_writer_init(&writer, &texts[i]);
        bl_record_write(&writer, record, sides[i]);
        code = code != 0 ? code : bl_json_writer_done(&writer);
    }
    bool equal = code == 0 && bl_text_equal(bl_buffer_text(&texts[0]), bl_buffer_text(&texts[1]));
    bl_buffer_done(&texts[0]);
    bl_buffer_done(&texts[1]);
    return equal;
}
