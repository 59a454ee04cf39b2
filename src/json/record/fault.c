/* Faults: what is not valid, and where.
 *
 * Design notes.
 *
 * Since most records are valid, the path is not tracked while reading: it is written from the
 * inside out while the failure returns. */
#include "record.h"

#include <stdio.h>

void record_cut(char *out, size_t size, struct bl_text text)
{
    struct bl_text fitting = bl_utf8_cut(text, size - 1);
    memcpy(out, fitting.data, fitting.size);
    out[fitting.size] = '\0';
}

bool record_fail(struct reading *reading, const struct bl_json *node, struct bl_buffer *message)
{
    struct bl_record_fault *fault = reading->fault;

    if (fault != NULL) {
        *fault = (struct bl_record_fault){.node = node};
        record_cut(fault->message, sizeof fault->message, bl_buffer_text(message));
    }
    bl_buffer_done(message);
    return false;
}

/* True if a value has the member's type, but is not one of the expected values. */
static bool record_is_typed(const struct bl_member *member, const struct bl_json *value)
{
    enum bl_member_type type = member->type;
    bool number = bl_json_double(value, &(double){0});
    bool text = bl_json_is(value, BL_JSON_STRING) && value->size > 0;

    if (type == BL_TYPE_INTEGER)
        return number && value->type != BL_JSON_DOUBLE;
    if (type == BL_TYPE_NUMBER || type == BL_TYPE_DURATION)
        return number || (text && type == BL_TYPE_DURATION);
    return text && (type == BL_TYPE_TEXT || type == BL_TYPE_STRING || type == BL_TYPE_WORD ||
                    type == BL_TYPE_ENUM);
}

/* Appends the value that was found. Documents use their own words for objects and arrays; a guarded
 * document shows no values. */
static void record_show_found(struct bl_buffer *message, const struct reading *reading,
                              const struct bl_json *value)
{
    if (value == NULL)
        bl_buffer_printf(message, "nothing");
    else if (reading->source != NULL &&
             (reading->source->guarded || value->type == BL_JSON_ARRAY ||
              value->type == BL_JSON_OBJECT || value->type == BL_JSON_NULL))
        bl_buffer_printf(message, "%s", bl_value_type(value));
    else
        json_value_show(message, value);
}

static void record_hint_near(struct bl_record_fault *fault, const struct bl_suggestion *suggestion)
{
    if (suggestion->best != NULL)
        snprintf(fault->hint, sizeof fault->hint, "did you mean \"%s\"?", suggestion->best);
}

/* Adds a hint: the value that was probably meant, or what to do. */
static void record_hint_value(struct reading *reading, const struct bl_member *member,
                              const struct bl_json *value)
{
    struct bl_record_fault *fault = reading->fault;
    struct bl_suggestion suggestion;
    bool text = member->type == BL_TYPE_TEXT || member->type == BL_TYPE_STRING;

    if (member->names != NULL && bl_json_is(value, BL_JSON_STRING)) {
        bl_suggestion_init(&suggestion, value->string != NULL ? value->string : "");
        for (size_t i = 0; i < member->names->count; i++) {
            if (member->names->names[i] != NULL)
                bl_suggestion_offer(&suggestion, member->names->names[i]);
        }
        record_hint_near(fault, &suggestion);
    } else if (reading->source != NULL && text && value != NULL && value->type != BL_JSON_STRING &&
               value->type != BL_JSON_ARRAY && value->type != BL_JSON_OBJECT) {
        bl_text_into(fault->hint, sizeof fault->hint, "put quotes around it");
    }
    if (reading->source != NULL && fault->hint[0] == '\0' && member->about != NULL)
        bl_text_into(fault->hint, sizeof fault->hint, member->about);
}

bool record_fail_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value)
{
    struct bl_buffer message;

    if (reading->fault == NULL)
        return false;
    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "expected ");
    bool written = reading->source != NULL && reading->source->file != NULL;
    if (written && (member->type == BL_TYPE_OBJECT || member->object))
        bl_buffer_printf(&message, "a mapping");
    else
        record_expected(&message, member);
    if (reading->source == NULL || !reading->source->guarded || !record_is_typed(member, value)) {
        bl_buffer_printf(&message, ", found ");
        record_show_found(&message, reading, value);
    }
    record_fail(reading, value, &message);
    reading->fault->member = member;
    record_hint_value(reading, member, value);
    return false;
}

bool record_fail_missing(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *object)
{
    struct bl_buffer message;

    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "missing; expected ");
    record_expected(&message, member);
    record_fail(reading, object, &message);
    if (reading->fault != NULL) {
        reading->fault->member = member;
        record_hint_value(reading, member, NULL);
    }
    return record_fail_below(reading, member->name, 0);
}

/* True if the key may be a misspelling of `name`: their lengths differ by at most 2. A name that
 * only extends the other one is a different word. */
static bool record_is_slip(const char *name, const struct bl_json *key)
{
    size_t known = strlen(name), own = bl_json_size(key);
    return own + 2 >= known && own <= known + 2;
}

static void record_offer_names(struct bl_suggestion *suggestion, const struct bl_record *record,
                               const struct found *found, const struct bl_json *key)
{
    for (size_t i = 0; i < found->table_count; i++) {
        const struct bl_member *member = found->tables[i].members;
        for (; member->type != BL_TYPE_END; member++) {
            if (member->name != NULL && (record->closed || record_is_slip(member->name, key)))
                bl_suggestion_offer(suggestion, member->name);
        }
    }
}

/* Lists all valid names in the hint. */
static void record_hint_names(struct bl_record_fault *fault, const struct found *found)
{
    const char *separator = "expected one of ";
    BL_AUTO_BUFFER(names, 4096);

    for (size_t i = 0; i < found->table_count; i++) {
        const struct bl_member *member = found->tables[i].members;
        for (; member->type != BL_TYPE_END; member++) {
            if (member->name == NULL)
                continue;
            bl_buffer_printf(&names, "%s%s", separator, member->name);
            separator = ", ";
        }
    }
    record_cut(fault->hint, sizeof fault->hint, bl_buffer_text(&names));
}

bool record_fail_unknown(struct reading *reading, const struct bl_record *record,
                         const struct found *found, const struct bl_json *key)
{
    bool told = reading->source != NULL && reading->source->tell != NULL;
    struct bl_suggestion suggestion;
    struct bl_buffer message;

    if (reading->extensible || (!record->closed && !told))
        return true;
    bl_suggestion_init(&suggestion, key->string);
    record_offer_names(&suggestion, record, found, key);
    if (!record->closed && suggestion.best == NULL)
        return true;
    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "unknown member ");
    json_value_show(&message, key);
    bl_buffer_printf(&message, " in %s%s", record->name, record->closed ? "" : " is ignored");
    record_fail(reading, key, &message);
    if (reading->fault == NULL)
        return false;
    reading->fault->ignored = !record->closed;
    record_hint_near(reading->fault, &suggestion);
    if (suggestion.best == NULL && reading->source != NULL)
        record_hint_names(reading->fault, found);
    return false;
}

bool record_continues(struct reading *reading)
{
    if (reading->source == NULL || reading->source->tell == NULL)
        return false;
    if (!reading->fault->ignored)
        reading->failed = true;
    reading->source->tell(reading->source, reading->fault);
    return true;
}

bool record_fail_either(struct reading *reading, const struct bl_member *member, size_t count,
                        const struct bl_json *object)
{
    const char *separator = "expected either ";
    struct bl_buffer message;

    bl_buffer_init(&message, 4096);
    for (; member->type != BL_TYPE_END; member++) {
        if (!member->either)
            continue;
        bl_buffer_printf(&message, "%s\"%s\"", separator, member->name);
        separator = " or ";
    }
    bl_buffer_printf(&message, ", found %s", count == 0 ? "neither" : "both");
    return record_fail(reading, object, &message);
}

bool record_fail_object(struct reading *reading, const struct bl_json *value)
{
    static const struct bl_member object = {.type = BL_TYPE_OBJECT};
    return record_fail_value(reading, &object, value);
}

bool record_fail_below(struct reading *reading, const char *name, size_t index)
{
    struct bl_record_fault *fault = reading->fault;
    char path[sizeof fault->path], step[24];

    if (fault == NULL)
        return false;
    if (name == NULL) {
        snprintf(step, sizeof step, "%zu", index);
        name = step;
    }
    if (snprintf(path, sizeof path, "/%s%s", name, fault->path) < (int)sizeof path)
        memcpy(fault->path, path, sizeof path);
    return false;
}

void bl_record_fault_text(const struct bl_record_fault *fault, char *out, size_t out_size)
{
    struct bl_text path = bl_text_from(fault->path), step;
    struct bl_buffer text;

    bl_buffer_init(&text, sizeof fault->path * 3 + sizeof fault->message + sizeof fault->hint);
    if (path.size > 0)
        path = (struct bl_text){path.data + 1, path.size - 1};
    while (bl_text_split(&path, '/', &step)) {
        int64_t index;
        if (bl_text_to_int64(step, &index) == 0)
            bl_buffer_printf(&text, "[" BL_TEXT_FORMAT "]", BL_TEXT_ARG(step));
        else
            bl_buffer_printf(&text, "%s" BL_TEXT_FORMAT, text.size > 0 ? "." : "",
                             BL_TEXT_ARG(step));
    }
    bl_buffer_printf(&text, "%s%s", text.size > 0 ? ": " : "", fault->message);
    /* A hint is added only if it fits as a whole. */
    if (fault->hint[0] != '\0' && text.size + sizeof "; " + strlen(fault->hint) <= out_size)
        bl_buffer_printf(&text, "; %s", fault->hint);
    record_cut(out, out_size, bl_buffer_text(&text));
    bl_buffer_done(&text);
}

bool record_is_distinct(struct reading *reading, const struct bl_json *list)
{
    struct bl_buffer message;
    size_t index = 0;

    BL_JSON_EACH (element, list) {
        BL_JSON_EACH (earlier, list) {
            if (earlier == element)
                break;
            if (!bl_json_equal(earlier, element))
                continue;
            bl_buffer_init(&message, 4096);
            bl_buffer_printf(&message, "duplicate of an earlier element: ");
            json_value_show(&message, element);
            record_fail(reading, element, &message);
            return record_fail_below(reading, NULL, index);
        }
        index++;
    }
    return true;
}
