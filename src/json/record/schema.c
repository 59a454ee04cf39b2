/* Records as JSON Schema (draft 2020-12), for docs/schemas and for programs that read our output.
 */
#include "record.h"

#include <assert.h>

#define DEFINITIONS_MAX 64u
#define TIME_PATTERN    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"

/* Records below the one that is described, each once. */
struct definitions {
    const struct bl_record *records[DEFINITIONS_MAX];
    size_t count;
};

static void record_collect(struct definitions *definitions, const struct bl_record *record);

static void record_collect_members(struct definitions *definitions, const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        const struct bl_record *below =
            member->element != NULL ? member->element->record : member->record;
        if (member->type == BL_TYPE_INCLUDE)
            record_collect_members(definitions, below->members);
        else if (below != NULL && !member->secret)
            record_collect(definitions, below);
    }
}

static void record_collect_below(struct definitions *definitions, const struct bl_record *record)
{
    const struct bl_names *names = record->members->names;

    record_collect_members(definitions, record->members);
    for (size_t i = 0; record->kinds != NULL && i < names->count; i++) {
        if (names->names[i] != NULL && record->kinds[i] != NULL)
            record_collect_members(definitions, record->kinds[i]->members);
    }
}

static void record_collect(struct definitions *definitions, const struct bl_record *record)
{
    for (size_t i = 0; i < definitions->count; i++) {
        if (definitions->records[i] == record)
            return;
    }
    assert(definitions->count < DEFINITIONS_MAX);
    definitions->records[definitions->count++] = record;
    record_collect_below(definitions, record);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void record_describe_types(struct bl_json_writer *writer, const char *one, const char *other)
{
    bl_json_write_key(writer, BL_TEXT("type"));
    bl_json_write_array(writer);
    bl_json_write_string(writer, one);
    bl_json_write_string(writer, other);
    bl_json_write_end(writer);
}

static void record_describe_type(struct bl_json_writer *writer, const char *type, bool nullable)
{
    if (nullable)
        record_describe_types(writer, type, "null");
    else
        bl_json_put_string(writer, "type", type);
}

static void record_describe_limits(struct bl_json_writer *writer, const struct bl_member *member,
                                   const char *least, const char *most)
{
    if (member->least > 0)
        bl_json_put_uint64(writer, least, (uint64_t)member->least);
    if (record_text_most(member) > 0)
        bl_json_put_uint64(writer, most, record_text_most(member));
}

static void record_describe_number(struct bl_json_writer *writer, const struct bl_member *member,
                                   const char *type)
{
    record_describe_type(writer, type, member->nullable);
    bl_json_write_key(writer, BL_TEXT("minimum"));
    bl_json_write_int64(writer, member->least);
    if (member->most > 0)
        bl_json_put_uint64(writer, "maximum", member->most);
}

static void record_describe_names(struct bl_json_writer *writer, const struct bl_member *member)
{
    bl_json_write_key(writer, BL_TEXT("enum"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < member->names->count; i++) {
        if (member->names->names[i] != NULL)
            bl_json_write_string(writer, member->names->names[i]);
    }
    if (member->nullable)
        bl_json_write_null(writer);
    bl_json_write_end(writer);
}

static void record_describe_reference(struct bl_json_writer *writer, const struct bl_record *record)
{
    char reference[96] = "#/$defs/";
    size_t size = strlen(reference);

    bl_text_into(reference + size, sizeof reference - size, record->name);
    bl_json_put_string(writer, "$ref", reference);
}

static void record_describe_object(struct bl_json_writer *writer, const struct bl_member *member)
{
    if (!member->nullable) {
        record_describe_reference(writer, member->record);
        return;
    }
    bl_json_write_key(writer, BL_TEXT("anyOf"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    record_describe_reference(writer, member->record);
    bl_json_write_end(writer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "null");
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void record_describe_value(struct bl_json_writer *writer, const struct bl_member *member);

static void record_describe_elements(struct bl_json_writer *writer, const struct bl_member *member)
{
    record_describe_type(writer, "array", member->nullable);
    record_describe_limits(writer, member, "minItems", "maxItems");
    if (member->distinct)
        bl_json_put_boolean(writer, "uniqueItems", true);
    bl_json_write_key(writer, BL_TEXT("items"));
    bl_json_write_object(writer);
    if (member->element != NULL)
        record_describe_value(writer, member->element);
    else
        record_describe_reference(writer, member->record);
    bl_json_write_end(writer);
}

static void record_describe_text(struct bl_json_writer *writer, const struct bl_member *member)
{
    if (member->names != NULL) {
        record_describe_names(writer, member);
        return;
    }
    record_describe_type(writer, "string", member->nullable);
    record_describe_limits(writer, member, "minLength", "maxLength");
    if (member->form != NULL && member->form->pattern != NULL)
        bl_json_put_string(writer, "pattern", member->form->pattern);
}

static void record_describe_value(struct bl_json_writer *writer, const struct bl_member *member)
{
    switch (member->type) {
    case BL_TYPE_TEXT:
    case BL_TYPE_STRING:
    case BL_TYPE_WORD: record_describe_text(writer, member); break;
    case BL_TYPE_BOOLEAN: record_describe_type(writer, "boolean", member->nullable); break;
    case BL_TYPE_INTEGER: record_describe_number(writer, member, "integer"); break;
    case BL_TYPE_NUMBER: record_describe_number(writer, member, "number"); break;
    case BL_TYPE_ENUM: record_describe_names(writer, member); break;
    case BL_TYPE_TIME:
        record_describe_type(writer, "string", member->nullable);
        bl_json_put_string(writer, "pattern", TIME_PATTERN);
        break;
    case BL_TYPE_OBJECT:
    case BL_TYPE_POINTER: record_describe_object(writer, member); break;
    case BL_TYPE_LIST:
    case BL_TYPE_ARRAY: record_describe_elements(writer, member); break;
    case BL_TYPE_JSON:
    case BL_TYPE_RAW:
        if (member->record != NULL)
            record_describe_object(writer, member);
        else if (member->or_string)
            record_describe_types(writer, "object", "string");
        else if (member->object)
            record_describe_type(writer, "object", member->nullable);
        break;
    case BL_TYPE_CONSTANT: bl_json_put_boolean(writer, "const", member->none != 0); break;
    case BL_TYPE_INCLUDE:
    case BL_TYPE_END: break;
    }
    if (member->about != NULL)
        bl_json_put_string(writer, "description", member->about);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static void record_describe_required(struct bl_json_writer *writer, const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_describe_required(writer, member->record->members);
        else if (!member->optional && !member->secret)
            bl_json_write_string(writer, member->name);
    }
}

static void record_describe_properties(struct bl_json_writer *writer,
                                       const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_describe_properties(writer, member->record->members);
        if (member->secret || member->type == BL_TYPE_INCLUDE)
            continue;
        bl_json_write_key(writer, bl_text_from(member->name));
        bl_json_write_object(writer);
        record_describe_value(writer, member);
        bl_json_write_end(writer);
    }
}

/* The members of a record, and of one of its kinds if it has them: `name` is then the value of its
 * first member. */
static void record_describe_members(struct bl_json_writer *writer, const struct bl_record *record,
                                    const struct bl_record *kind, const char *name)
{
    const struct bl_member *members = record->members;

    bl_json_put_string(writer, "type", "object");
    bl_json_write_key(writer, BL_TEXT("required"));
    bl_json_write_array(writer);
    record_describe_required(writer, members);
    if (kind != NULL)
        record_describe_required(writer, kind->members);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("properties"));
    bl_json_write_object(writer);
    if (name != NULL) {
        bl_json_write_key(writer, bl_text_from(members->name));
        bl_json_write_object(writer);
        bl_json_put_string(writer, "const", name);
        bl_json_write_end(writer);
        members++;
    }
    record_describe_properties(writer, members);
    if (kind != NULL)
        record_describe_properties(writer, kind->members);
    bl_json_write_end(writer);
    if (record->closed)
        bl_json_put_boolean(writer, "additionalProperties", false);
}

static void record_describe_body(struct bl_json_writer *writer, const struct bl_record *record)
{
    const struct bl_names *names = record->members->names;

    if (record->about != NULL)
        bl_json_put_string(writer, "description", record->about);
    if (record->kinds == NULL) {
        record_describe_members(writer, record, NULL, NULL);
        return;
    }
    bl_json_write_key(writer, BL_TEXT("oneOf"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < names->count; i++) {
        if (names->names[i] == NULL)
            continue;
        bl_json_write_object(writer);
        record_describe_members(writer, record, record->kinds[i], names->names[i]);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

void bl_record_schema(struct bl_json_writer *writer, const struct bl_record *record)
{
    struct definitions definitions = {.count = 0};
    char id[96] = "urn:belay:schema:";
    size_t size = strlen(id);

    bl_text_into(id + size, sizeof id - size, record->name);
    record_collect_below(&definitions, record);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "$schema", "https://json-schema.org/draft/2020-12/schema");
    bl_json_put_string(writer, "$id", id);
    record_describe_body(writer, record);
    if (definitions.count > 0) {
        bl_json_write_key(writer, BL_TEXT("$defs"));
        bl_json_write_object(writer);
        for (size_t i = 0; i < definitions.count; i++) {
            bl_json_write_key(writer, bl_text_from(definitions.records[i]->name));
            bl_json_write_object(writer);
            record_describe_body(writer, definitions.records[i]);
            bl_json_write_end(writer);
        }
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}
