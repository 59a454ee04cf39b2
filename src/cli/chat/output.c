#include <inttypes.h>
#include <stdio.h>

#include "view.h"

#define LINE_SIZE_MAX ((size_t)1024) /* more than any window shows */
#define TAIL_SHOWN    4u

void chat_output_init(struct chat_output *output)
{
    *output = (struct chat_output){0};
    bl_buffer_init(&output->head, SIZE_MAX / 2);
    bl_buffer_init(&output->all, SIZE_MAX / 2);
    bl_buffer_init(&output->line, SIZE_MAX / 2);
    for (size_t i = 0; i < CHAT_OUTPUT_LINES; i++)
        bl_buffer_init(&output->tail[i], SIZE_MAX / 2);
}

void chat_output_done(struct chat_output *output)
{
    bl_buffer_done(&output->head);
    bl_buffer_done(&output->all);
    bl_buffer_done(&output->line);
    for (size_t i = 0; i < CHAT_OUTPUT_LINES; i++)
        bl_buffer_done(&output->tail[i]);
}

/* ---- Input ----------------------------------------------------------------------------------- */

static void chat_output_end_line(struct chat_output *output)
{
    struct bl_text line = bl_buffer_text(&output->line);
    struct bl_buffer *slot = &output->tail[output->count % CHAT_OUTPUT_LINES];

    bl_buffer_clear(slot);
    bl_buffer_append(slot, line);
    if (output->count < CHAT_OUTPUT_HEAD) {
        bl_buffer_append(&output->head, line);
        bl_buffer_append_byte(&output->head, '\n');
    }
    if (output->kept == output->count && output->all.size + line.size < CHAT_OUTPUT_MAX) {
        bl_buffer_append(&output->all, line);
        bl_buffer_append_byte(&output->all, '\n');
        output->kept++;
    }
    output->count++;
    output->returned = false;
    bl_buffer_clear(&output->line);
}

static void add_byte(struct chat_output *output, char byte)
{
    switch (byte) {
    case '\n': chat_output_end_line(output); return;
    case '\r': output->returned = true; return;
    case '\x1b': output->state = OUTPUT_ESCAPE; return;
    case '\a':
    case '\b':
    case '\0': return;
    default: break;
    }
    if (output->returned)
        bl_buffer_clear(&output->line);
    output->returned = false;
    if (output->line.size < LINE_SIZE_MAX)
        bl_buffer_append_byte(&output->line, byte);
}

/* Skips a byte of an escape sequence. */
static void skip_byte(struct chat_output *output, char byte)
{
    bool final = byte >= 0x40 && byte <= 0x7e;

    switch (output->state) {
    case OUTPUT_TEXT: break;
    case OUTPUT_ESCAPE:
        if (byte == '[')
            output->state = OUTPUT_SEQUENCE;
        else if (byte == ']' || byte == 'P' || byte == 'X' || byte == '^' || byte == '_')
            output->state = OUTPUT_STRING;
        else if (byte < 0x20 || byte > 0x2f)
            output->state = OUTPUT_TEXT;
        break;
    case OUTPUT_SEQUENCE:
        if (final || byte == '\n')
            output->state = OUTPUT_TEXT;
        break;
    case OUTPUT_STRING:
        if (byte == '\a' || byte == '\n')
            output->state = OUTPUT_TEXT;
        else if (byte == '\x1b')
            output->state = OUTPUT_STRING_ESCAPE;
        break;
    case OUTPUT_STRING_ESCAPE: output->state = byte == '\\' ? OUTPUT_TEXT : OUTPUT_STRING; break;
    }
    /* An unterminated sequence must not swallow everything that follows. */
    if (byte == '\n')
        add_byte(output, byte);
}

void chat_output_add(struct chat_output *output, struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (output->state == OUTPUT_TEXT)
            add_byte(output, text.data[i]);
        else
            skip_byte(output, text.data[i]);
    }
}

void chat_output_end(struct chat_output *output)
{
    if (output->line.size > 0)
        chat_output_end_line(output);
}

/* ---- Display --------------------------------------------------------------------------------- */

static const struct text_style dim = {.dim = true};

/* Returns the line without a character that was cut at the maximum. */
static struct bl_text whole_characters(const struct bl_buffer *line)
{
    return bl_utf8_cut(bl_buffer_text(line), line->size);
}

static void show_last(const struct chat_output *output, size_t count,
                      const struct chat_frame *frame, size_t indent)
{
    for (uint64_t i = output->count - count; i < output->count; i++)
        chat_line(frame, indent, whole_characters(&output->tail[i % CHAT_OUTPUT_LINES]), &dim);
}

void chat_output_live(const struct chat_output *output, size_t lines_max,
                      const struct chat_frame *frame, size_t indent)
{
    bool open = output->line.size > 0;
    size_t count = lines_max - (open && lines_max > 0 ? 1 : 0);

    if (lines_max == 0)
        return;
    count = count < CHAT_OUTPUT_LINES ? count : CHAT_OUTPUT_LINES;
    show_last(output, count < output->count ? count : (size_t)output->count, frame, indent);
    if (open)
        chat_line(frame, indent, whole_characters(&output->line), &dim);
}

static void output_say_left_out(uint64_t count, const char *how, const struct chat_frame *frame,
                                size_t indent)
{
    char text[64];

    snprintf(text, sizeof text, "… %" PRIu64 " more line%s%s", count, count == 1 ? "" : "s", how);
    chat_line(frame, indent, bl_text_from(text), &dim);
}

static void output_show_all(const struct chat_output *output, const struct chat_frame *frame,
                            size_t indent)
{
    chat_code(frame, indent, bl_buffer_text(&output->all), BL_TEXT(""));
    if (output->kept < output->count)
        output_say_left_out(output->count - output->kept, " were not kept", frame, indent);
}

void chat_output_summary(const struct chat_output *output, const struct chat_frame *frame,
                         size_t indent)
{
    if (frame->whole) {
        output_show_all(output, frame, indent);
        return;
    }
    struct bl_text head = bl_buffer_text(&output->head), line;

    if (output->count <= CHAT_OUTPUT_LINES) {
        show_last(output, (size_t)output->count, frame, indent);
        return;
    }
    while (bl_text_split(&head, '\n', &line))
        chat_line(frame, indent, line, &dim);
    output_say_left_out(output->count - CHAT_OUTPUT_HEAD - TAIL_SHOWN, " (Ctrl+O)", frame, indent);
    show_last(output, TAIL_SHOWN, frame, indent);
}
