#include "parts.h"

static const struct bl_text replacement = BL_TEXT("\xEF\xBF\xBD");

/* What of `bytes` is certain goes to `out`; returns how many bytes, at most three, are the
 * beginning of a sequence that could still be completed. */
static size_t filter(struct bl_text bytes, struct bl_buffer *out)
{
    while (bytes.size > 0) {
        bool cut;
        size_t good = bl_utf8_valid_prefix(bytes, &cut);
        bl_buffer_append(out, (struct bl_text){bytes.data, good});
        bytes.data += good;
        bytes.size -= good;
        if (cut || bytes.size == 0)
            break;
        bl_buffer_append(out, replacement);
        bytes.data++;
        bytes.size--;
    }
    return bytes.size;
}

void output_filter_add(struct output_filter *output, struct bl_text bytes, struct bl_buffer *out)
{
    /* One byte at a time joins what is held, until that is a sequence, or broken. */
    while (output->held_size > 0 && bytes.size > 0) {
        output->held[output->held_size++] = *bytes.data++;
        bytes.size--;
        struct bl_text held = {output->held, output->held_size};
        output->held_size = filter(held, out);
        memmove(output->held, held.data + held.size - output->held_size, output->held_size);
    }
    if (bytes.size == 0)
        return;
    output->held_size = filter(bytes, out);
    memcpy(output->held, bytes.data + bytes.size - output->held_size, output->held_size);
}

void output_filter_end(struct output_filter *output, struct bl_buffer *out)
{
    for (; output->held_size > 0; output->held_size--)
        bl_buffer_append(out, replacement);
}
