/* Records as JSON Schema (draft 2020-12), for docs/schemas and for programs that read our output.
 */
#include "record.h"

#include <assert.h>

#define DEFINITIONS_MAX 64u
#define SCHEMA_ID       "urn:belay:schema:"
#define TIME_PATTERN    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"

struct describing {
    struct bl_json_writer *writer;
    bool alone; /* self-contained: not a document, and without references to documents */
    /* Records nested in the one that is described, each once. */
    const struct bl_record *records[DEFINITIONS_MAX];
    size_t count;
};

static bool record_is_elsewhere(const struct describing *to, const struct bl_record *record)
{
    return record->document && !to->alone;
}

/* The name within its document: "item" for "cell:item". */
static const char *record_definition_name(const struct bl_record *record)
{
    const char *colon = strchr(record->name, ':');

    return colon != NULL ? colon + 1 : record->name;
}

static void record_collect(struct describing *to, const struct bl_record *record);

static void record_collect_members(struct describing *to, const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        const struct bl_record *below =
            member->element != NULL ? member->element->record : member->record;
        for (size_t i = 0; member->choice != NULL && i < member->choice->names->count; i++)
            record_collect(to, member->choice->records[i]);
        if (member->type == BL_TYPE_INCLUDE)
            record_collect_members(to, below->members);
        else if (below != NULL && !member->secret)
            record_collect(to, below);
    }
}

static void record_collect_below(struct describing *to, const struct bl_record *record)
{
    const struct bl_names *names = record->members->names;

    record_collect_members(to, record->members);
    for (size_t i = 0; record->kinds != NULL && i < names->count; i++) {
        if (names->names[i] != NULL && record->kinds[i] != NULL &&
            !record_is_elsewhere(to, record->kinds[i]))
            record_collect_members(to, record->kinds[i]->members);
    }
}

static void record_collect(struct describing *to, const struct bl_record *record)
{
    if (record_is_elsewhere(to, record))
        return;
    for (size_t i = 0; i < to->count; i++) {
        if (to->records[i] == record)
            return;
    }
    assert(to->count < DEFINITIONS_MAX);
    to->records[to->count++] = record;
    record_collect_below(to, record);
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

static void record_describe_numbers(struct bl_json_writer *writer, const struct bl_member *member)
{
    bl_json_write_key(writer, BL_TEXT("enum"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < member->numbers->count; i++)
        bl_json_write_int64(writer, member->numbers->numbers[i]);
    if (member->nullable)
        bl_json_write_null(writer);
    bl_json_write_end(writer);
}

static void record_describe_number(struct bl_json_writer *writer, const struct bl_member *member,
                                   const char *type)
{
    if (member->numbers != NULL) {
        record_describe_numbers(writer, member);
        return;
    }
    record_describe_type(writer, type, member->nullable);
    if (member->least > INT64_MIN) {
        bl_json_write_key(writer, BL_TEXT("minimum"));
        bl_json_write_int64(writer, member->least);
    }
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

static void record_put_name(struct bl_json_writer *writer, const char *key, const char *prefix,
                            const char *name)
{
    char whole[96];
    size_t size = strlen(prefix);

    bl_text_into(whole, sizeof whole, prefix);
    bl_text_into(whole + size, sizeof whole - size, name);
    bl_json_put_string(writer, key, whole);
}

static void record_describe_reference(const struct describing *to, const struct bl_record *record)
{
    struct bl_json_writer *writer = to->writer;

    if (record_is_elsewhere(to, record))
        record_put_name(writer, "$ref", SCHEMA_ID, record->name);
    else
        record_put_name(writer, "$ref", "#/$defs/", record_definition_name(record));
}

static void record_describe_object(const struct describing *to, const struct bl_member *member)
{
    struct bl_json_writer *writer = to->writer;

    if (member->choice != NULL) {
        record_describe_type(writer, "object", member->nullable);
        return;
    }
    if (!member->nullable) {
        record_describe_reference(to, member->record);
        return;
    }
    bl_json_write_key(writer, BL_TEXT("anyOf"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    record_describe_reference(to, member->record);
    bl_json_write_end(writer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "null");
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void record_describe_value(const struct describing *to, const struct bl_member *member);

static void record_describe_elements(const struct describing *to, const struct bl_member *member)
{
    struct bl_json_writer *writer = to->writer;

    record_describe_type(writer, "array", member->nullable);
    record_describe_limits(writer, member, "minItems", "maxItems");
    if (member->distinct)
        bl_json_put_boolean(writer, "uniqueItems", true);
    bl_json_write_key(writer, BL_TEXT("items"));
    bl_json_write_object(writer);
    if (member->element != NULL || member->type == BL_TYPE_STRINGS)
        record_describe_value(to, member->element != NULL ? member->element : &bl_element_string);
    else
        record_describe_reference(to, member->record);
    bl_json_write_end(writer);
}

static void record_describe_bits(const struct describing *to, const struct bl_member *member)
{
    struct bl_json_writer *writer = to->writer;
    const struct bl_member number = {.type = BL_TYPE_INTEGER, .most = member->size * 8 - 1};

    record_describe_type(writer, "array", member->nullable);
    bl_json_write_key(writer, BL_TEXT("items"));
    bl_json_write_object(writer);
    record_describe_value(to, &number);
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

static void record_describe_value(const struct describing *to, const struct bl_member *member)
{
    struct bl_json_writer *writer = to->writer;

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
    case BL_TYPE_DURATION:
        if (member->or_string) {
            record_describe_types(writer, "number", "string");
            break;
        }
        record_describe_type(writer, "number", member->nullable);
        bl_json_put_uint64(writer, "minimum", 0);
        break;
    case BL_TYPE_OBJECT:
    case BL_TYPE_POINTER: record_describe_object(to, member); break;
    case BL_TYPE_STRINGS:
    case BL_TYPE_LIST:
    case BL_TYPE_ARRAY: record_describe_elements(to, member); break;
    case BL_TYPE_JSON:
    case BL_TYPE_RAW:
        if (member->element != NULL)
            record_describe_elements(to, member);
        else if (member->record != NULL || member->choice != NULL)
            record_describe_object(to, member);
        else if (member->or_string)
            record_describe_types(writer, "object", "string");
        else if (member->object)
            record_describe_type(writer, "object", member->nullable);
        break;
    case BL_TYPE_CONSTANT: bl_json_put_boolean(writer, "const", member->none != 0); break;
    case BL_TYPE_BITS: record_describe_bits(to, member); break;
    case BL_TYPE_INCLUDE:
    case BL_TYPE_END: break;
    }
    if (member->about != NULL)
        bl_json_put_string(writer, "description", member->about);
}

/* ---- Objects --------------------------------------------------------------------------------- */

typedef void record_describe(const struct describing *to, const struct bl_member *member);

static bool record_requires(const struct bl_member *member)
{
    return !member->optional && !member->either && !member->secret;
}

static void record_describe_required(struct bl_json_writer *writer, const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_describe_required(writer, member->record->members);
        else if (record_requires(member))
            bl_json_write_string(writer, member->name);
    }
}

static void record_describe_properties(const struct describing *to, const struct bl_member *member,
                                       record_describe *describe)
{
    struct bl_json_writer *writer = to->writer;

    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_describe_properties(to, member->record->members, describe);
        if (member->secret || member->type == BL_TYPE_INCLUDE)
            continue;
        bl_json_write_key(writer, bl_text_from(member->name));
        bl_json_write_object(writer);
        describe(to, member);
        bl_json_write_end(writer);
    }
}

/* Writes a property with a constant text. */
static void record_describe_const(struct bl_json_writer *writer, const char *key, const char *text)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "const", text);
    bl_json_write_end(writer);
}

/* ---- One of several -------------------------------------------------------------------------- */

/* Writes the alternative in which that `either` member is present, or a choice has value `index`.
 */
static void record_describe_alternative(const struct describing *to,
                                        const struct bl_member *members,
                                        const struct bl_member *member, size_t index)
{
    struct bl_json_writer *writer = to->writer;

    bl_json_write_object(writer);
    if (member->either) {
        bl_json_write_key(writer, BL_TEXT("required"));
        bl_json_write_array(writer);
        bl_json_write_string(writer, member->name);
        bl_json_write_end(writer);
    }
    bl_json_write_key(writer, BL_TEXT("properties"));
    bl_json_write_object(writer);
    if (member->choice != NULL) {
        record_describe_const(writer, member->choice->by, member->choice->names->names[index]);
        bl_json_write_key(writer, bl_text_from(member->name));
        bl_json_write_object(writer);
        record_describe_reference(to, member->choice->records[index]);
        bl_json_write_end(writer);
    } else {
        bl_json_put_boolean(writer, member->name, true);
    }
    for (const struct bl_member *other = members; other->type != BL_TYPE_END; other++) {
        if (member->either && other->either && other != member)
            bl_json_put_boolean(writer, other->name, false);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void record_describe_alternatives(const struct describing *to,
                                         const struct bl_member *members)
{
    struct bl_json_writer *writer = to->writer;
    const struct bl_member *member = members;

    while (member->type != BL_TYPE_END && !member->either && member->choice == NULL)
        member++;
    if (member->type == BL_TYPE_END)
        return;
    bl_json_write_key(writer, BL_TEXT("oneOf"));
    bl_json_write_array(writer);
    for (; member->type != BL_TYPE_END; member++) {
        size_t count = member->choice != NULL ? member->choice->names->count : member->either;
        for (size_t i = 0; i < count; i++)
            record_describe_alternative(to, members, member, i);
    }
    bl_json_write_end(writer);
}

static bool record_has_member(const struct bl_record *record, const char *name)
{
    const struct bl_member *member = record != NULL ? record->members : &(struct bl_member){0};

    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE ? record_has_member(member->record, name)
                                            : strcmp(member->name, name) == 0)
            return true;
    }
    return false;
}

/* True if the member belongs to other kinds only, and no kind before number `end` has it. */
static bool record_is_foreign(const struct bl_record *record, const struct bl_record *kind,
                              const char *name, size_t end)
{
    const struct bl_names *names = record->members->names;

    if (record_has_member(record, name) || record_has_member(kind, name))
        return false;
    for (size_t i = 0; i < end; i++) {
        if (names->names[i] != NULL && record_has_member(record->kinds[i], name))
            return false;
    }
    return true;
}

/* Refuses members of other kinds. A closed record already refuses all unknown members. */
static void record_describe_foreign(struct bl_json_writer *writer, const struct bl_record *record,
                                    const struct bl_record *kind)
{
    const struct bl_names *names = record->members->names;

    for (size_t i = 0; i < names->count && !record->closed; i++) {
        if (names->names[i] == NULL || record->kinds[i] == NULL || record->kinds[i] == kind)
            continue;
        const struct bl_member *member = record->kinds[i]->members;
        for (; member->type != BL_TYPE_END; member++) {
            if (member->type != BL_TYPE_INCLUDE && record_is_foreign(record, kind, member->name, i))
                bl_json_put_boolean(writer, member->name, false);
        }
    }
}

/* Describes the members of a record and of one of its kinds, if it has kinds: `name` is then the
 * value of its first member. */
static void record_describe_members(const struct describing *to, const struct bl_record *record,
                                    const struct bl_record *kind, const char *name)
{
    struct bl_json_writer *writer = to->writer;
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
    if (name != NULL)
        record_describe_const(writer, (members++)->name, name);
    record_describe_properties(to, members, record_describe_value);
    if (kind != NULL)
        record_describe_properties(to, kind->members, record_describe_value);
    if (name != NULL && (kind == NULL || !record_is_elsewhere(to, kind)))
        record_describe_foreign(writer, record, kind);
    bl_json_write_end(writer);
    record_describe_alternatives(to, kind != NULL ? kind->members : record->members);
    if (record->closed)
        bl_json_put_boolean(writer, "additionalProperties", false);
}

static void record_describe_kind(const struct describing *to, const struct bl_record *record,
                                 size_t index)
{
    struct bl_json_writer *writer = to->writer;
    const struct bl_record *kind = record->kinds[index];

    bl_json_write_object(writer);
    if (kind != NULL && record_is_elsewhere(to, kind)) {
        record_describe_reference(to, kind);
        bl_json_write_key(writer, BL_TEXT("properties"));
        bl_json_write_object(writer);
        record_describe_foreign(writer, record, kind);
        bl_json_write_end(writer);
    } else {
        if (kind != NULL && kind->about != NULL)
            bl_json_put_string(writer, "description", kind->about);
        record_describe_members(to, record, kind, record->members->names->names[index]);
    }
    bl_json_write_end(writer);
}

static void record_describe_body(const struct describing *to, const struct bl_record *record)
{
    struct bl_json_writer *writer = to->writer;
    const struct bl_names *names = record->members->names;

    if (record->about != NULL)
        bl_json_put_string(writer, "description", record->about);
    if (record->of != NULL) {
        size_t index = 0;
        while (record->of->kinds[index] != record)
            index++;
        record_describe_members(to, record->of, record, record->of->members->names->names[index]);
        return;
    }
    if (record->kinds == NULL) {
        record_describe_members(to, record, NULL, NULL);
        return;
    }
    bl_json_put_string(writer, "type", "object");
    bl_json_write_key(writer, BL_TEXT("oneOf"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < names->count; i++) {
        if (names->names[i] != NULL)
            record_describe_kind(to, record, i);
    }
    bl_json_write_end(writer);
}

void bl_record_schema(struct bl_json_writer *writer, const struct bl_record *record)
{
    struct describing to = {.writer = writer, .alone = !record->document};

    record_collect_below(&to, record);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "$schema", "https://json-schema.org/draft/2020-12/schema");
    record_put_name(writer, "$id", SCHEMA_ID, record->name);
    record_describe_body(&to, record);
    if (to.count > 0) {
        bl_json_write_key(writer, BL_TEXT("$defs"));
        bl_json_write_object(writer);
        for (size_t i = 0; i < to.count; i++) {
            bl_json_write_key(writer, bl_text_from(record_definition_name(to.records[i])));
            bl_json_write_object(writer);
            record_describe_body(&to, to.records[i]);
            bl_json_write_end(writer);
        }
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

/* ---- Inputs of tools ------------------------------------------------------------------------- */

static void record_describe_input(const struct describing *to, const struct bl_record *record);

/* A text with names keeps its type, and `items` of a list come after its description. */
static void record_describe_argument(const struct describing *to, const struct bl_member *member)
{
    struct bl_json_writer *writer = to->writer;

    if (member->type == BL_TYPE_TEXT && member->names != NULL)
        record_describe_type(writer, "string", false);
    if (member->type != BL_TYPE_ARRAY) {
        record_describe_value(to, member);
        return;
    }
    record_describe_type(writer, "array", false);
    record_describe_limits(writer, member, "minItems", "maxItems");
    bl_json_put_string(writer, "description", member->about);
    bl_json_write_key(writer, BL_TEXT("items"));
    if (member->element->record != NULL) {
        record_describe_input(to, member->element->record);
        return;
    }
    bl_json_write_object(writer);
    record_describe_value(to, member->element);
    bl_json_write_end(writer);
}

static bool record_requires_any(const struct bl_member *member)
{
    for (; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE ? record_requires_any(member->record->members)
                                            : record_requires(member))
            return true;
    }
    return false;
}

static void record_describe_input(const struct describing *to, const struct bl_record *record)
{
    struct bl_json_writer *writer = to->writer;

    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "object");
    bl_json_write_key(writer, BL_TEXT("properties"));
    bl_json_write_object(writer);
    record_describe_properties(to, record->members, record_describe_argument);
    bl_json_write_end(writer);
    if (record_requires_any(record->members)) {
        bl_json_write_key(writer, BL_TEXT("required"));
        bl_json_write_array(writer);
        record_describe_required(writer, record->members);
        bl_json_write_end(writer);
    }
    if (record->closed)
        bl_json_put_boolean(writer, "additionalProperties", false);
    bl_json_write_end(writer);
}

struct bl_text bl_record_input_schema(struct bl_arena *arena, const struct bl_record *record)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    record_describe_input(&(struct describing){.writer = &writer}, record);
    return bl_arena_text(arena, bl_buffer_text(&out));
}
