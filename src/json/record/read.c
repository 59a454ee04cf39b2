/* Design notes.
 *
 * One pass over the members of the object reads and checks them. Objects that a program wrote from
 * the same table have their members in its order, so the member after the last one is tried first.
 * Such an object costs one comparison per member instead of a look-up among all members.
 */
#include "record.h"

#include <assert.h>

/* ---- Values ---------------------------------------------------------------------------------- */

static struct bl_text record_keep_text(const struct reading *reading, struct bl_text text)
{
    return reading->shared ? text : bl_arena_text(reading->arena, text);
}

static bool record_read_text(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    uint64_t most = record_text_most(member);

    if (value->type != BL_JSON_STRING)
        return record_fail_value(reading, member, value);
    struct bl_text text = {value->string, value->size};
    if (member->cut && member->type != BL_TYPE_WORD)
        text = bl_utf8_cut(text, most);
    size_t size = member->characters ? bl_utf8_count(text) : text.size;
    if ((int64_t)size < member->least || (most > 0 && size > most) ||
        (member->form != NULL && member->form->fits != NULL && !member->form->fits(text)) ||
        (member->names != NULL && !reading->lenient &&
         !bl_names_find(member->names, text, &(size_t){0})))
        return record_fail_value(reading, member, value);
    /* A C string ends at its first NUL, which would silently truncate the text. */
    if (member->type != BL_TYPE_TEXT && memchr(text.data, '\0', text.size) != NULL)
        return record_fail_value(reading, member, value);
    if (slot == NULL)
        return true;
    if (member->type == BL_TYPE_WORD)
        record_cut(slot, member->size, text);
    else if (member->type == BL_TYPE_STRING)
        *(const char **)slot = record_keep_text(reading, text).data;
    else
        *(struct bl_text *)slot = record_keep_text(reading, text);
    return true;
}

static bool record_read_integer(struct reading *reading, const struct bl_member *member,
                                const struct bl_json *value, void *slot)
{
    uint64_t bits;
    int64_t number;

    if (bl_json_is(value, BL_JSON_UNSIGNED)) {
        bits = value->unsigned_integer;
        if (bits > record_most(member))
            return record_fail_value(reading, member, value);
    } else {
        if (!bl_json_int64(value, &number) || number < member->least ||
            (number > 0 && (uint64_t)number > record_most(member)))
            return record_fail_value(reading, member, value);
        bits = (uint64_t)number;
    }
    if (!record_is_among(member->numbers, bits))
        return record_fail_value(reading, member, value);
    if (slot != NULL)
        memcpy(slot, &bits, member->size);
    return true;
}

static bool record_read_number(struct reading *reading, const struct bl_member *member,
                               const struct bl_json *value, void *slot)
{
    double number;

    if (!bl_json_double(value, &number) || number < (double)member->least ||
        (member->most > 0 && number > (double)member->most))
        return record_fail_value(reading, member, value);
    if (slot != NULL)
        *(double *)slot = number;
    return true;
}

static void record_set_enum(const struct bl_member *member, void *slot, size_t index)
{
    if (member->size == sizeof(bool))
        *(bool *)slot = index != 0;
    else
        *(unsigned *)slot = (unsigned)index;
}

static bool record_read_enum(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    size_t index;

    if (!bl_json_is(value, BL_JSON_STRING) ||
        !bl_names_find(member->names, bl_json_text(value), &index))
        return record_fail_value(reading, member, value);
    if (slot != NULL)
        record_set_enum(member, slot, index);
    return true;
}

static bool record_read_time(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    struct bl_text text = bl_json_text(value);
    int64_t wall_ns;

    /* Any other number of decimals would not be written back the same way. */
    if ((text.size != strlen("2026-11-15T18:50:07.123Z") && !reading->lenient) ||
        !bl_time_parse(text, &wall_ns))
        return record_fail_value(reading, member, value);
    if (slot != NULL)
        *(int64_t *)slot = wall_ns;
    return true;
}

static bool record_read_boolean(struct reading *reading, const struct bl_member *member,
                                const struct bl_json *value, void *slot)
{
    if (!bl_json_is(value, BL_JSON_BOOLEAN))
        return record_fail_value(reading, member, value);
    if (slot != NULL && member->size == sizeof(bool))
        *(bool *)slot = value->boolean != member->inverted;
    else if (slot != NULL)
        *(int *)slot = value->boolean;
    return true;
}

static bool record_is_counted(struct reading *reading, const struct bl_member *member,
                              const struct bl_json *value)
{
    size_t count = bl_json_size(value);

    if (!bl_json_is(value, BL_JSON_ARRAY) || (int64_t)count < member->least ||
        (member->most > 0 && count > member->most))
        return record_fail_value(reading, member, value);
    return !member->distinct || record_is_distinct(reading, value);
}

/* Reads a record into new memory, where missing members are absent. */
static bool record_read_new(struct reading *reading, const struct bl_record *record,
                            const struct bl_json *value, void *into)
{
    bool merge = reading->merge;

    reading->merge = false;
    bool fits = record_read_record(reading, record, value, into);
    reading->merge = merge;
    return fits;
}

static bool record_read_list(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    size_t index = 0;

    if (!record_is_counted(reading, member, value))
        return false;
    if (slot != NULL)
        bl_list_init(slot);
    BL_JSON_EACH (node, value) {
        char *element = slot != NULL ? bl_arena_alloc(reading->arena, member->record->size) : NULL;
        bool fits = record_read_new(reading, member->record, node, element);
        if (!fits && !reading->lenient)
            return record_fail_below(reading, NULL, index);
        if (fits && slot != NULL)
            bl_list_push_back(slot, (struct bl_list *)(void *)(element + member->link));
        index++;
    }
    return true;
}

static bool record_read_array(struct reading *reading, const struct bl_member *member,
                              const struct bl_json *value, void *object)
{
    size_t size = member->element->size, count = bl_json_size(value), index = 0;
    char *elements = NULL;

    if (!record_is_counted(reading, member, value))
        return false;
    if (object != NULL) {
        elements = member->embedded ? record_slot(object, member)
                                    : bl_arena_zalloc(reading->arena, count * size);
        if (!member->embedded)
            *(void **)record_slot(object, member) = count > 0 ? elements : NULL;
        *(size_t *)(void *)((char *)object + member->count) = count;
    }
    BL_JSON_EACH (node, value) {
        if (!record_read_value(reading, member->element, node,
                               elements != NULL ? elements + index * size : NULL))
            return record_fail_below(reading, NULL, index);
        index++;
    }
    return true;
}

static bool record_read_pointer(struct reading *reading, const struct bl_member *member,
                                const struct bl_json *value, void *slot)
{
    void *object = slot != NULL ? bl_arena_alloc(reading->arena, member->record->size) : NULL;

    if (slot != NULL)
        *(void **)slot = object;
    return record_read_new(reading, member->record, value, object);
}

/* Returns the canonical form of the value, or an empty text if it cannot be written. */
static struct bl_text record_canonical(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_text kept = {0};
    BL_AUTO_BUFFER(text, SIZE_MAX);

    if (bl_json_write_canonical(&text, value) == 0)
        kept = bl_arena_text(arena, bl_buffer_text(&text));
    return kept;
}

/* True if the JSON value matches its member, down to the nested records. */
static bool record_fits_json(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value)
{
    struct reading strict = {.fault = reading->fault,
                             .depth = reading->depth,
                             .extensible = reading->extensible || member->extensible};
    size_t index = 0;

    if (member->record != NULL)
        return record_read_record(&strict, member->record, value, NULL);
    BL_JSON_EACH (node, member->element != NULL && member->element->record != NULL ? value : NULL) {
        if (!record_read_record(&strict, member->element->record, node, NULL))
            return record_fail_below(reading, NULL, index);
        index++;
    }
    return true;
}

static bool record_read_json(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    if ((record_is_object(member) && !bl_json_is(value, BL_JSON_OBJECT) &&
         !(member->or_string && bl_json_is(value, BL_JSON_STRING))) ||
        (member->element != NULL && !bl_json_is(value, BL_JSON_ARRAY)))
        return record_fail_value(reading, member, value);
    /* A lenient reader keeps values that it may not understand. */
    if (!reading->lenient && !record_fits_json(reading, member, value))
        return false;
    if (slot != NULL && member->type == BL_TYPE_RAW && member->canonical)
        *(struct bl_text *)slot = record_canonical(reading->arena, value);
    else if (slot != NULL && member->type == BL_TYPE_RAW)
        *(struct bl_text *)slot = bl_json_value_text(reading->arena, value);
    else if (slot != NULL)
        *(const struct bl_json **)slot = value;
    return true;
}

static bool record_read_bits(struct reading *reading, const struct bl_member *member,
                             const struct bl_json *value, void *slot)
{
    uint64_t *words = slot;
    int64_t number;

    if (!bl_json_is(value, BL_JSON_ARRAY))
        return record_fail_value(reading, member, value);
    BL_JSON_EACH (bit, value) {
        if (!bl_json_int64(bit, &number) || number < 0 || number >= (int64_t)member->size * 8)
            return record_fail_value(reading, member, value);
        if (words != NULL)
            words[number / 64] |= (uint64_t)1 << number % 64;
    }
    return true;
}

static bool record_read_typed(struct reading *reading, const struct bl_member *member,
                              const struct bl_json *value, void *object)
{
    void *slot = object != NULL ? record_slot(object, member) : NULL;

    switch (member->type) {
    case BL_TYPE_TEXT:
    case BL_TYPE_STRING:
    case BL_TYPE_WORD: return record_read_text(reading, member, value, slot);
    case BL_TYPE_BOOLEAN: return record_read_boolean(reading, member, value, slot);
    case BL_TYPE_INTEGER: return record_read_integer(reading, member, value, slot);
    case BL_TYPE_NUMBER: return record_read_number(reading, member, value, slot);
    case BL_TYPE_ENUM: return record_read_enum(reading, member, value, slot);
    case BL_TYPE_TIME: return record_read_time(reading, member, value, slot);
    case BL_TYPE_DURATION: return record_read_duration(reading, member, value, slot);
    case BL_TYPE_STRINGS: return record_read_strings(reading, member, value, slot);
    case BL_TYPE_OBJECT:
        return member->name != NULL ? record_read_record(reading, member->record, value, slot)
                                    : record_read_new(reading, member->record, value, slot);
    case BL_TYPE_POINTER: return record_read_pointer(reading, member, value, slot);
    case BL_TYPE_LIST: return record_read_list(reading, member, value, slot);
    case BL_TYPE_ARRAY: return record_read_array(reading, member, value, object);
    case BL_TYPE_JSON:
    case BL_TYPE_RAW: return record_read_json(reading, member, value, slot);
    case BL_TYPE_CONSTANT:
        return (bl_json_is(value, BL_JSON_BOOLEAN) && value->boolean == (member->none != 0)) ||
               record_fail_value(reading, member, value);
    case BL_TYPE_BITS: return record_read_bits(reading, member, value, slot);
    case BL_TYPE_INCLUDE:
    case BL_TYPE_END: break;
    }
    return false;
}

bool record_read_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value, void *object)
{
    struct bl_json made;

    if (reading->source == NULL)
        return record_read_typed(reading, member, value, object);
    const struct bl_json *typed = record_loosen(reading, member, value, &made);
    bool fits = record_read_typed(reading, member, typed, object);

    if (!fits && typed != value && reading->fault->node == typed)
        reading->fault->node = value;
    return fits;
}

/* ---- Objects --------------------------------------------------------------------------------- */

static void record_add_table(struct found *found, const struct bl_member *members, size_t base)
{
    const struct bl_member *member = members;

    assert(found->table_count < RECORD_TABLES_MAX);
    found->tables[found->table_count++] = (struct found_table){members, base, found->member_count};
    while (member->type != BL_TYPE_END)
        member++;
    found->member_count += (size_t)(member - members);
    assert(found->member_count <= RECORD_MEMBERS_MAX);
    for (member = members; member->type != BL_TYPE_END; member++) {
        if (member->type == BL_TYPE_INCLUDE)
            record_add_table(found, member->record->members, base + member->offset);
    }
}

static void record_find_begin(struct found *found, const struct bl_record *record,
                              const struct bl_record *kind)
{
    found->table_count = found->member_count = 0;
    memset(found->seen, 0, sizeof found->seen);
    record_add_table(found, record->members, 0);
    found->next = record->members;
    found->next_index = found->table = 0;
    found->kind_table = found->table_count;
    if (kind != NULL)
        record_add_table(found, kind->members, 0);
}

static bool record_is_named(const struct bl_member *member, struct bl_text name)
{
    return member->name != NULL && bl_text_is(name, member->name);
}

static const struct bl_member *record_find_in(const struct bl_member *member, struct bl_text name)
{
    while (member->type != BL_TYPE_END && !record_is_named(member, name))
        member++;
    return member->type != BL_TYPE_END ? member : NULL;
}

/* Returns the member of that name, or NULL. Until the next call, found->table is its table. */
static const struct bl_member *record_find_member(struct found *found, struct bl_text name)
{
    const struct bl_member *member = found->next;
    size_t index = found->next_index;

    if (!record_is_named(member, name)) {
        member = NULL;
        for (size_t i = 0; i < found->table_count && member == NULL; i++) {
            const struct found_table *table = &found->tables[i];
            member = record_find_in(table->members, name);
            if (member == NULL)
                continue;
            index = table->first + (size_t)(member - table->members);
            found->table = i;
        }
        if (member == NULL)
            return NULL;
    }
    found->seen[index / 64] |= (uint64_t)1 << index % 64;
    found->next = member + 1;
    found->next_index = index + 1;
    return member;
}

/* Refuses a member of another kind: it is a mistake, even where unknown members are ignored. */
static bool record_fail_foreign(struct reading *reading, const struct bl_record *record,
                                const struct bl_record *kind, const struct bl_json *key)
{
    const struct bl_names *names = record->members->names;
    const char *own = NULL, *foreign = NULL;
    struct bl_buffer message;

    for (size_t i = 0; i < names->count; i++) {
        const struct bl_record *other = names->names[i] != NULL ? record->kinds[i] : NULL;
        if (other != NULL && other == kind)
            own = names->names[i];
        else if (other != NULL && foreign == NULL &&
                 record_find_in(other->members, bl_json_text(key)) != NULL)
            foreign = names->names[i];
    }
    if (foreign == NULL)
        return true;
    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "\"%s\" is a member of %s", key->string, foreign);
    if (own != NULL)
        bl_buffer_printf(&message, ", not of %s", own);
    return record_fail(reading, key, &message);
}

/* Applies the rules, which check what the tables cannot express. */
static bool record_keeps_rule(struct reading *reading, const struct bl_record *record,
                              const void *into)
{
    return record == NULL || record->rule == NULL || into == NULL ||
           record->rule(into, reading->fault);
}

static bool record_read_member(struct reading *reading, const struct bl_member *member,
                               const struct bl_json *value, void *into)
{
    if (bl_json_is(value, BL_JSON_NULL) && member->nullable) {
        if (into != NULL)
            record_set_absent(member, into);
        if (into != NULL && member->known > 0 && member->optional)
            *((bool *)into + member->known - 1) = !member->unless;
        return true;
    }
    if (!record_read_value(reading, member, value, into)) {
        if (!reading->lenient || member->vital)
            return record_fail_below(reading, member->name, 0) || record_continues(reading);
        record_set_absent(member, into);
        return true;
    }
    if (member->known > 0 && into != NULL)
        *((bool *)into + member->known - 1) = !member->unless;
    return true;
}

/* Reads a member whose record is selected by another member of the object `around`. */
static bool record_read_chosen(struct reading *reading, const struct bl_member *member,
                               const struct bl_json *around, const struct bl_json *value,
                               void *into)
{
    const struct bl_choice *choice = member->choice;
    const struct bl_member tag = {.type = BL_TYPE_ENUM, .names = choice->names};
    const struct bl_json *name = bl_json_get(around, bl_text_from(choice->by));
    struct bl_member chosen = *member;
    size_t index;

    if (!bl_json_is(name, BL_JSON_STRING) ||
        !bl_names_find(choice->names, bl_json_text(name), &index)) {
        if (reading->lenient)
            return true;
        record_fail_value(reading, &tag, name);
        return record_fail_below(reading, choice->by, 0);
    }
    chosen.record = choice->records[index];
    return record_read_member(reading, &chosen, value, into);
}

static bool record_is_complete(struct reading *reading, const struct found *found,
                               const struct found_table *table, const struct bl_json *value)
{
    const struct bl_member *member = table->members;
    size_t either = 0, either_seen = 0;

    for (size_t i = table->first; member->type != BL_TYPE_END; member++, i++) {
        bool seen = (found->seen[i / 64] >> i % 64 & 1) != 0;
        either += member->either;
        either_seen += member->either && seen;
        bool required = reading->lenient
                            ? member->vital
                            : !member->optional && !member->either && member->since == 0 &&
                                  member->type != BL_TYPE_INCLUDE;
        if (seen || !required)
            continue;
        record_fail_missing(reading, member, value);
        if (!record_continues(reading))
            return false;
    }
    return reading->lenient || either == 0 || either_seen == 1 ||
           record_fail_either(reading, table->members, either_seen, value);
}

/* Finds the kind that the first member names, if that kind exists. */
static bool record_read_kind(struct reading *reading, const struct bl_record *record,
                             const struct bl_json *value, const struct bl_record **ret_kind,
                             size_t *ret_index)
{
    const struct bl_member *tag = record->members;
    const struct bl_json *name;

    *ret_kind = NULL;
    if (record->kinds == NULL)
        return true;
    name = bl_json_get(value, bl_text_from(tag->name));
    if (name == NULL)
        return reading->lenient || record_fail_missing(reading, tag, value);
    if (!bl_json_is(name, BL_JSON_STRING) ||
        !bl_names_find(tag->names, bl_json_text(name), ret_index)) {
        record_fail_value(reading, tag, name);
        return record_fail_below(reading, tag->name, 0);
    }
    *ret_kind = record->kinds[*ret_index];
    return true;
}

bool record_read_record(struct reading *reading, const struct bl_record *record,
                        const struct bl_json *value, void *into)
{
    struct found found;
    const struct bl_record *kind;
    size_t index;

    if (!bl_json_is(value, BL_JSON_OBJECT) || reading->depth == RECORD_DEPTH_MAX)
        return record_fail_object(reading, value);
    if (!record_read_kind(reading, record, value, &kind, &index))
        return false;
    record_find_begin(&found, record, kind);
    if (into != NULL && !reading->merge)
        record_clear(record, kind, into);
    BL_JSON_MEMBERS (key, value) {
        const struct bl_member *member = record_find_member(&found, bl_json_text(key));
        if (member == NULL && reading->lenient)
            continue;
        if (member == NULL && record->kinds != NULL &&
            !record_fail_foreign(reading, record, kind, key))
            return false;
        if (member == NULL && !record_fail_unknown(reading, record, &found, key) &&
            !record_continues(reading))
            return false;
        if (member == NULL || record_is_loose_null(reading, member, key + 1))
            continue;
        void *object = into != NULL ? (char *)into + found.tables[found.table].base : NULL;
        /* The members of the kind usually come next. */
        if (kind != NULL && member == record->members && member->known == 0) {
            if (into != NULL)
                record_set_enum(member, record_slot(into, member), index);
            found.next = kind->members;
            found.next_index = found.tables[found.kind_table].first;
            found.table = found.kind_table;
            continue;
        }
        reading->depth++;
        bool fits = member->choice != NULL
                        ? record_read_chosen(reading, member, value, key + 1, object)
                        : record_read_member(reading, member, key + 1, object);
        reading->depth--;
        if (!fits)
            return false;
    }
    for (size_t i = 0; i < found.table_count; i++) {
        if (!record_is_complete(reading, &found, &found.tables[i], value))
            return false;
    }
    return record_keeps_rule(reading, kind, into) && record_keeps_rule(reading, record, into);
}

int bl_record_read(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault)
{
    struct reading reading = {.arena = arena, .fault = fault};
    return record_read_record(&reading, record, value, into) ? 0 : BL_EPARSE;
}

int bl_record_view(struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into, struct bl_record_fault *fault)
{
    struct reading reading = {.arena = arena, .fault = fault, .shared = true};
    return record_read_record(&reading, record, value, into) ? 0 : BL_EPARSE;
}

int bl_record_merge(struct bl_arena *arena, const struct bl_record *record,
                    const struct bl_json *value, void *into, struct bl_record_fault *fault)
{
    struct reading reading = {.arena = arena, .fault = fault, .shared = true, .merge = true};
    return record_read_record(&reading, record, value, into) ? 0 : BL_EPARSE;
}

void bl_record_take(struct bl_arena *arena, const struct bl_record *record,
                    const struct bl_json *value, void *into)
{
    struct reading reading = {.arena = arena, .lenient = true};

    if (record_read_record(&reading, record, value, into))
        return;
    record_clear(record, NULL, into);
}

int bl_record_check(const struct bl_record *record, const struct bl_json *value,
                    struct bl_record_fault *fault)
{
    return bl_record_read(NULL, record, value, NULL, fault);
}
