/* What does not fit, and where.
 *
 * Design notes.
 *
 * The path of a fault is not kept on the way, since most records fit: it is written from the inside
 * out while the failure returns. */
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
        fault->node = node;
        fault->path[0] = '\0';
        record_cut(fault->message, sizeof fault->message, bl_buffer_text(message));
    }
    bl_buffer_done(message);
    return false;
}

bool record_fail_value(struct reading *reading, const struct bl_member *member,
                       const struct bl_json *value)
{
    struct bl_buffer message;

    if (reading->fault == NULL)
        return false;
    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "expected ");
    record_expected(&message, member);
    bl_buffer_printf(&message, ", found ");
    if (value != NULL)
        json_value_show(&message, value);
    else
        bl_buffer_printf(&message, "nothing");
    return record_fail(reading, value, &message);
}

bool record_fail_missing(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *object)
{
    struct bl_buffer message;

    bl_buffer_init(&message, 4096);
    bl_buffer_printf(&message, "missing; expected ");
    record_expected(&message, member);
    record_fail(reading, object, &message);
    return record_fail_below(reading, member->name, 0);
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

    bl_buffer_init(&text, sizeof fault->path * 3 + sizeof fault->message);
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
            bl_buffer_printf(&message, "there is another ");
            json_value_show(&message, element);
            record_fail(reading, element, &message);
            return record_fail_below(reading, NULL, index);
        }
        index++;
    }
    return true;
}
