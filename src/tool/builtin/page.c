/* Design notes. A text is streamed into its page: lines before the page are counted, lines of the
 * page are kept up to a length, and lines after it are counted again, so that the result can report
 * what it leaves out. */
#include <inttypes.h>

#include "tool/parts.h"

#define LINE_CHARACTERS ((size_t)2000)
#define LINE_BYTES      (LINE_CHARACTERS * 4)
/* Bytes read after the page to count lines, or of one line to find its end. */
#define COUNT_MAX ((uint64_t)64 * 1024 * 1024)
#define NOTES_MAX ((size_t)512)

void text_page_init(struct text_page *page, struct bl_arena *arena, struct bl_buffer *out,
                    size_t output_max, int64_t offset, int64_t limit)
{
    *page = (struct text_page){.arena = arena,
                               .out = out,
                               .output_max = output_max,
                               .offset = offset,
                               .limit = limit,
                               .number = 1};
    bl_buffer_init(&page->line, LINE_BYTES + 1);
}

void text_page_done(struct text_page *page)
{
    bl_buffer_done(&page->line);
}

/* Returns as much of a line as may be shown. */
static struct bl_text page_cut_line(const struct text_page *page, struct bl_text line)
{
    size_t bytes = 0, most = page->output_max / 2;
    for (size_t i = 0; i < LINE_CHARACTERS && bytes < line.size; i++) {
        uint32_t code_point;
        size_t size =
            bl_utf8_decode((struct bl_text){line.data + bytes, line.size - bytes}, &code_point);
        if (bytes + size > most)
            break;
        bytes += size > 0 ? size : 1;
    }
    return (struct bl_text){line.data, bytes};
}

/* Replaces NUL and bytes that belong to no character by U+FFFD. */
static void page_add_valid(struct text_page *page, struct bl_text bytes)
{
    struct output_filter filter = {0};
    if (bl_utf8_valid(bytes) && memchr(bytes.data, '\0', bytes.size) == NULL) {
        bl_buffer_append(page->out, bytes);
        return;
    }
    page->broken = true;
    for (size_t i = 0; i < bytes.size; i++)
        if (page->line.data[i] == '\0')
            page->line.data[i] = (char)0xFF;
    output_filter_add(&filter, bytes, page->out);
    output_filter_end(&filter, page->out);
}

/* The current line has ended. */
static void page_show_line(struct text_page *page)
{
    struct bl_text line = bl_buffer_text(&page->line);
    if (page->line_size == line.size && line.size > 0 && line.data[line.size - 1] == '\r') {
        page->lines_with_return++;
        page->line_size--;
        line.size--;
    }
    struct bl_buffer *out = page->out;
    struct bl_text shown = line.size > 0 ? page_cut_line(page, line) : line;
    if (out->size > 0 && out->size + shown.size + NOTES_MAX > page->output_max) {
        page->next = page->number;
        return;
    }
    bl_buffer_printf(out, "%6" PRId64 "\t", page->number);
    if (shown.size > 0)
        page_add_valid(page, shown);
    if (shown.size < page->line_size)
        bl_buffer_printf(out, " [%s%s more in this line]", page->beyond_count ? "at least " : "",
                         file_size_text(page->arena, page->line_size - shown.size));
    bl_buffer_append_byte(out, '\n');
    if (page->number - page->offset + 1 >= page->limit)
        page->next = page->number + 1;
}

static bool page_is_here(const struct text_page *page)
{
    return page->number >= page->offset && page->next == 0;
}

static void page_end_line(struct text_page *page)
{
    if (page_is_here(page))
        page_show_line(page);
    bl_buffer_clear(&page->line);
    page->line_size = 0;
    page->number++;
}

void text_page_add(struct text_page *page, struct bl_text bytes)
{
    size_t count = bytes.size;
    while (bytes.size > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end != NULL ? (size_t)(end - bytes.data) : bytes.size;
        if (page_is_here(page)) {
            size_t room = LINE_BYTES + 1 - page->line.size;
            bl_buffer_append(&page->line, (struct bl_text){bytes.data, size < room ? size : room});
        }
        page->line_size += size;
        if (end != NULL)
            page_end_line(page);
        size += end != NULL;
        bytes = (struct bl_text){bytes.data + size, bytes.size - size};
    }
    page->behind += page->next != 0 ? count : 0;
    page->beyond_count =
        page->behind > COUNT_MAX || (page_is_here(page) && page->line_size > COUNT_MAX);
}

bool text_page_end(struct text_page *page)
{
    bool unfinished = page->line_size > 0 && !page->beyond_count;
    if (page->line_size > 0)
        page_end_line(page);
    if (page->beyond_count && page->next == 0)
        page->next = page->number;
    return unfinished;
}

bool text_page_is_last(const struct text_page *page)
{
    return page->next == 0 || page->next > page->number - 1;
}

static void page_note_range(struct text_page *page, int64_t from, int64_t to, const char *what)
{
    if (to == from)
        bl_buffer_printf(page->out, "[line %" PRId64 " left out%s]\n", from, what);
    else if (to > from)
        bl_buffer_printf(page->out, "[lines %" PRId64 "-%" PRId64 " left out%s]\n", from, to, what);
}

void text_page_note(struct text_page *page, const char *noun, const char *verb, uint64_t size)
{
    page_note_range(page, 1, page->offset - 1, "");
    if (page->beyond_count)
        bl_buffer_printf(page->out,
                         "[everything from line %" PRId64
                         " on left out; the %s has %s: %s again with "
                         "offset %" PRId64 "]\n",
                         page->next, noun, file_size_text(page->arena, size), verb, page->next);
    else if (!text_page_is_last(page))
        page_note_range(
            page, page->next, page->number - 1,
            bl_arena_printf(page->arena, ": %s again with offset %" PRId64, verb, page->next).data);
}
