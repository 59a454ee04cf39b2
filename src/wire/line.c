#include <belay/wire.h>

/* Largest buffer that is kept after a line: a long line must not hold its memory for the rest of
 * the stream. */
#define KEPT_MAX ((size_t)256 * 1024)

void bl_lines_init(struct bl_lines *lines, size_t line_max)
{
    bl_buffer_init(&lines->pending, line_max);
    lines->line_max = line_max;
    lines->after_cr = false;
}

void bl_lines_done(struct bl_lines *lines)
{
    bl_buffer_done(&lines->pending);
}

/* Delivers the pending bytes and `rest` as one line. */
static int take_pending(struct bl_lines *lines, struct bl_text rest, bl_line_take *take,
                        void *context)
{
    int code = bl_buffer_append(&lines->pending, rest);
    if (code != 0)
        return code;
    code = take(context, bl_buffer_text(&lines->pending));
    if (lines->pending.capacity > KEPT_MAX)
        bl_buffer_done(&lines->pending);
    else
        bl_buffer_clear(&lines->pending);
    return code;
}

static int wire_take_line(struct bl_lines *lines, struct bl_text line, bl_line_take *take,
                          void *context)
{
    if (lines->pending.size > 0)
        return take_pending(lines, line, take, context);
    if (line.size > lines->line_max)
        return BL_ELIMIT;
    return take(context, line);
}

/* Returns the first `byte` in [from, end), or `end`. */
static const char *line_find(const char *from, const char *end, char byte)
{
    const char *found = from < end ? memchr(from, byte, (size_t)(end - from)) : NULL;
    return found != NULL ? found : end;
}

int bl_lines_feed(struct bl_lines *lines, struct bl_text bytes, bl_line_take *take, void *context)
{
    if (bytes.size == 0)
        return 0;
    const char *next = bytes.data, *end = bytes.data + bytes.size;
    if (lines->after_cr && *next == '\n')
        next++;
    lines->after_cr = false;
    /* Most streams contain no CR: it is searched once, and again only after one was found. */
    const char *cr = line_find(next, end, '\r');
    while (next < end) {
        const char *stop = line_find(next, cr, '\n');
        if (stop == end)
            return bl_buffer_append(&lines->pending, (struct bl_text){next, (size_t)(end - next)});
        struct bl_text line = {next, (size_t)(stop - next)};
        next = stop + 1;
        if (stop == cr) {
            if (next == end)
                lines->after_cr = true;
            else if (*next == '\n')
                next++;
            cr = line_find(next, end, '\r');
        }
        int code = wire_take_line(lines, line, take, context);
        if (code != 0)
            return code;
    }
    return 0;
}

int bl_lines_end(struct bl_lines *lines, bl_line_take *take, void *context)
{
    lines->after_cr = false;
    if (lines->pending.size == 0)
        return 0;
    return take_pending(lines, (struct bl_text){NULL, 0}, take, context);
}
