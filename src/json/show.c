/* Values in messages: the beginning of a text, and the size of an array. */
#include "parts.h"

#define SHOWN_SIZE 60u /* bytes of a string that are shown */

void json_text_show(struct bl_buffer *out, struct bl_text name)
{
    struct bl_json_writer writer;
    struct bl_text shown = bl_utf8_cut(name, SHOWN_SIZE);
    bl_json_writer_init(&writer, out);
    bl_json_write_text(&writer, shown);
    if (shown.size < name.size)
        bl_buffer_append(out, BL_TEXT("…"));
}

void json_value_show(struct bl_buffer *out, const struct bl_json *value)
{
    struct bl_json_writer writer;
    switch (bl_json_type(value)) {
    case BL_JSON_STRING: json_text_show(out, bl_json_text(value)); break;
    case BL_JSON_ARRAY:
        if (value->size == 0)
            bl_buffer_append(out, BL_TEXT("an empty array"));
        else
            bl_buffer_printf(out, "an array of %u", value->size);
        break;
    case BL_JSON_OBJECT:
        bl_buffer_append(out, value->size == 0 ? BL_TEXT("an empty object") : BL_TEXT("an object"));
        break;
    case BL_JSON_NULL:
    case BL_JSON_BOOLEAN:
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED:
    case BL_JSON_DOUBLE:
    case BL_JSON_END:
        bl_json_writer_init(&writer, out);
        bl_json_write_value(&writer, value);
        break;
    }
}
