#include <belay/base.h>

#include <inttypes.h>

bool bl_utf8_unsafe(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) || code_point == 0x061C ||
           code_point == 0x200E || code_point == 0x200F ||
           (code_point >= 0x2028 && code_point <= 0x202E) ||
           (code_point >= 0x2066 && code_point <= 0x2069) || code_point == 0xFEFF;
}

static int show_escape(struct bl_buffer *out, uint32_t code_point)
{
    switch (code_point) {
    case '\n': return bl_buffer_append(out, BL_TEXT("\\n"));
    case '\r': return bl_buffer_append(out, BL_TEXT("\\r"));
    case '\t': return bl_buffer_append(out, BL_TEXT("\\t"));
    default:
        return bl_buffer_printf(out, code_point < 0x80 ? "\\x%02" PRIx32 : "\\u%04" PRIx32,
                                code_point);
    }
}

int bl_text_show(struct bl_buffer *out, struct bl_text text, enum bl_show form)
{
    size_t plain = 0; /* bytes at the front that are copied unchanged */
    int code = 0;
    while (code == 0 && plain < text.size) {
        uint32_t code_point = 0;
        struct bl_text rest = {text.data + plain, text.size - plain};
        size_t size = bl_utf8_decode(rest, &code_point);
        bool stands = form == BL_SHOW_LINES && (code_point == '\n' || code_point == '\t');
        if (size > 0 && (stands || !bl_utf8_unsafe(code_point))) {
            plain += size;
            continue;
        }
        code = bl_buffer_append(out, (struct bl_text){text.data, plain});
        bool line_end = form == BL_SHOW_LINES && bl_text_starts_with(rest, BL_TEXT("\r\n"));
        if (code == 0 && size == 0)
            code = bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        else if (code == 0 && !line_end)
            code = show_escape(out, code_point);
        size = size == 0 ? 1 : size;
        text.data += plain + size;
        text.size -= plain + size;
        plain = 0;
    }
    return code == 0 ? bl_buffer_append(out, (struct bl_text){text.data, plain}) : code;
}
