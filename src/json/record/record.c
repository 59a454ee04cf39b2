#include "record.h"

#include <inttypes.h>

const struct bl_member bl_element_text = {.type = BL_TYPE_TEXT, .size = sizeof(struct bl_text)};
const struct bl_member bl_element_string = {.type = BL_TYPE_STRING, .size = sizeof(char *)};
const struct bl_member bl_element_count = {.type = BL_TYPE_INTEGER, .size = sizeof(uint64_t)};

const struct bl_member bl_element_object = {
    .type = BL_TYPE_JSON, .size = sizeof(struct bl_json *), .object = true};

size_t record_enum(const struct bl_member *member, const void *slot)
{
    unsigned value;
    if (member->size == sizeof(bool))
        return *(const bool *)slot;
    memcpy(&value, slot, sizeof value);
    return value;
}

uint64_t record_integer(const struct bl_member *member, const void *slot)
{
    if (member->size == sizeof(uint64_t))
        return *(const uint64_t *)slot;
    return member->is_signed ? (uint64_t)(int64_t) * (const int32_t *)slot
                             : *(const uint32_t *)slot;
}

int record_boolean(const struct bl_member *member, const void *slot)
{
    return member->size == sizeof(bool) ? *(const bool *)slot : *(const int *)slot;
}

bool record_is_among(const struct bl_numbers *numbers, uint64_t bits)
{
    for (size_t i = 0; numbers != NULL && i < numbers->count; i++) {
        if ((uint64_t)numbers->numbers[i] == bits)
            return true;
    }
    return numbers == NULL;
}

uint64_t record_most(const struct bl_member *member)
{
    if (member->most > 0)
        return member->most;
    if (member->size == sizeof(uint64_t))
        return member->is_signed ? INT64_MAX : UINT64_MAX;
    return member->is_signed ? INT32_MAX : UINT32_MAX;
}

/* Appends " of 1 to 64 bytes", or nothing if there is no limit. */
static void record_expect_count(struct bl_buffer *out, const struct bl_member *member,
                                const char *unit)
{
    uint64_t most = record_text_most(member);

    if (member->least > 0 && most > 0)
        bl_buffer_printf(out, " of %" PRId64 " to %" PRIu64 " %s", member->least, most, unit);
    else if (most > 0)
        bl_buffer_printf(out, " of at most %" PRIu64 " %s", most, unit);
    else if (member->least == 1)
        bl_buffer_printf(out, " that is not empty");
    else if (member->least > 0)
        bl_buffer_printf(out, " of at least %" PRId64 " %s", member->least, unit);
}

static void record_expect_number(struct bl_buffer *out, const struct bl_member *member)
{
    if (member->numbers != NULL) {
        for (size_t i = 0; i < member->numbers->count; i++)
            bl_buffer_printf(out, "%s%" PRId64, i == 0 ? "one of " : ", ",
                             member->numbers->numbers[i]);
        return;
    }
    bl_buffer_printf(out, "%s", member->type == BL_TYPE_INTEGER ? "a whole number" : "a number");
    if (member->most > 0)
        bl_buffer_printf(out, " from %" PRId64 " to %" PRIu64, member->least, member->most);
    else
        bl_buffer_printf(out, " of at least %" PRId64, member->least);
}

/* People may write a unit; programs write seconds. */
static void record_expect_duration(struct bl_buffer *out, const struct bl_member *member)
{
    char least[32], most[32];

    bl_duration_format(member->least, least);
    bl_duration_format((int64_t)member->most, most);
    bl_buffer_printf(out, "a duration");
    if (member->least > 1)
        bl_buffer_printf(out, " of at least %s", least);
    else if (member->least == 1)
        bl_buffer_printf(out, " above zero");
    if (member->most > 0)
        bl_buffer_printf(out, "%s at most %s", member->least > 0 ? " and" : " of", most);
    bl_buffer_printf(out, " such as 20ms, 90s or 1.5h (a number alone is seconds)");
}

static void expect_names(struct bl_buffer *out, const struct bl_names *names)
{
    const char *separator = "one of ";
    for (size_t i = 0; i < names->count; i++) {
        if (names->names[i] == NULL)
            continue;
        bl_buffer_printf(out, "%s%s", separator, names->names[i]);
        separator = ", ";
    }
}

static void expect_text(struct bl_buffer *out, const struct bl_member *member)
{
    if (member->names != NULL) {
        expect_names(out, member->names);
        return;
    }
    bl_buffer_printf(out, "%s", member->form != NULL ? member->form->expected : "a string");
    record_expect_count(out, member, member->characters ? "characters" : "bytes");
}

void record_expected(struct bl_buffer *out, const struct bl_member *member)
{
    switch (member->type) {
    case BL_TYPE_TEXT:
    case BL_TYPE_STRING:
    case BL_TYPE_WORD: expect_text(out, member); break;
    case BL_TYPE_BOOLEAN: bl_buffer_printf(out, "true or false"); break;
    case BL_TYPE_INTEGER:
    case BL_TYPE_NUMBER: record_expect_number(out, member); break;
    case BL_TYPE_ENUM: expect_names(out, member->names); break;
    case BL_TYPE_TIME: bl_buffer_printf(out, "a time such as 2026-11-15T18:50:07.123Z"); break;
    case BL_TYPE_DURATION: record_expect_duration(out, member); break;
    case BL_TYPE_STRINGS:
        bl_buffer_printf(out, "a list of strings");
        record_expect_count(out, member, "elements");
        bl_buffer_printf(out, "%s", member->or_string ? " or one string" : "");
        break;
    case BL_TYPE_OBJECT:
    case BL_TYPE_POINTER: bl_buffer_printf(out, "an object"); break;
    case BL_TYPE_LIST:
    case BL_TYPE_ARRAY:
        bl_buffer_printf(out, "a list");
        record_expect_count(out, member, "elements");
        break;
    case BL_TYPE_JSON:
    case BL_TYPE_RAW:
        bl_buffer_printf(out, "%s%s",
                         member->element != NULL    ? "a list"
                         : record_is_object(member) ? "an object"
                                                    : "a value",
                         member->or_string ? " or a string" : "");
        break;
    case BL_TYPE_CONSTANT: bl_buffer_printf(out, "%s", member->none != 0 ? "true" : "false"); break;
    case BL_TYPE_BITS:
        bl_buffer_printf(out, "a list of whole numbers from 0 to %u", member->size * 8 - 1);
        break;
    case BL_TYPE_INCLUDE:
    case BL_TYPE_END: break;
    }
    if (member->nullable)
        bl_buffer_printf(out, " or null");
}
