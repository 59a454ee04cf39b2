#include "tool/parts.h"

static const struct bl_text replacement = BL_TEXT("\xEF\xBF\xBD");

/* Appends the valid part of `bytes` to `out`. Returns the size, at most three bytes, of an
 * incomplete sequence at the end. */
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
    /* Add single bytes to the held ones until they form a sequence or are invalid. */
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

/* ---- Bounded text ---------------------------------------------------------------------------- */

void output_text_init(struct output_text *output, size_t limit)
{
    *output = (struct output_text){.filter = {.held_size = 0}};
    bl_buffer_init(&output->piece, SIZE_MAX);
    bl_capture_init(&output->kept, limit);
}

void output_text_done(struct output_text *output)
{
    bl_buffer_done(&output->piece);
    bl_capture_done(&output->kept);
}

struct bl_text output_text_add(struct output_text *output, struct bl_text bytes)
{
    bl_buffer_clear(&output->piece);
    output_filter_add(&output->filter, bytes, &output->piece);
    bl_capture_add(&output->kept, bl_buffer_text(&output->piece));
    return bl_buffer_text(&output->piece);
}

struct bl_text output_text_end(struct output_text *output)
{
    bl_buffer_clear(&output->piece);
    output_filter_end(&output->filter, &output->piece);
    bl_capture_add(&output->kept, bl_buffer_text(&output->piece));
    return bl_buffer_text(&output->piece);
}

/* The part left out of the middle may begin or end inside a character. */
void output_text_write(const struct output_text *output, struct bl_buffer *out)
{
    struct output_filter filter = {0};
    BL_AUTO_BUFFER(text, SIZE_MAX);
    bl_capture_text(&output->kept, &text);
    output_filter_add(&filter, bl_buffer_text(&text), out);
    output_filter_end(&filter, out);
}

void output_text_forget(struct output_text *output)
{
    size_t limit = output->kept.limit;
    bl_capture_done(&output->kept);
    bl_capture_init(&output->kept, limit);
}
