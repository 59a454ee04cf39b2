/* Searches the lines of one file.
 *
 * Design notes. A file is read through a buffer, and whole lines of it are searched; a small file
 * fits at once. Lines that may still be needed as context stay at the start of the buffer when the
 * rest makes room for new data. The buffer grows for long lines, up to a limit; only that much of a
 * longer line is searched. So the size of a file does not matter, and truncating a file while it is
 * read does no harm, as it would to a mapping. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "search.h"

#define BUFFER_SIZE    ((size_t)128 * 1024)
#define BUFFER_LARGE   ((size_t)1024 * 1024)
#define BUFFER_MAX     ((size_t)8 * 1024 * 1024)
#define BINARY_LOOK    ((size_t)8 * 1024)
#define LINE_SHOWN_MAX ((size_t)500)
#define CONTEXT_MAX    ((size_t)256 * 1024)

struct grep_searcher {
    const struct grep_request *request;
    struct bl_line_finder *finder;
    char *data;
    size_t capacity;
    size_t filled;
    size_t done;    /* offset up to which it is searched */
    size_t printed; /* offset after the last printed line */
    size_t counted; /* `line` is the number of the line that begins here */
    uint64_t line;
    bool gap; /* lines between the last printed one and the buffer have been dropped */
    bool printed_any;
    bool skips_line; /* the data up to the next LF belongs to a line that was too long */
    bool prints;
    bool full;
    unsigned trailing; /* lines of context still to print */
    struct bl_buffer text;
    struct grep_found *found;
};

struct grep_searcher *grep_searcher_new(const struct grep_request *request)
{
    struct grep_searcher *searcher = bl_zalloc(sizeof *searcher);
    searcher->request = request;
    searcher->finder = bl_line_finder_new(request->pattern, request->stopped);
    searcher->capacity = BUFFER_SIZE;
    searcher->data = bl_alloc(searcher->capacity);
    bl_buffer_init(&searcher->text, SIZE_MAX);
    return searcher;
}

void grep_searcher_free(struct grep_searcher *searcher)
{
    if (searcher == NULL)
        return;
    bl_line_finder_free(searcher->finder);
    bl_buffer_done(&searcher->text);
    bl_free(searcher->data);
    bl_free(searcher);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static uint64_t count_newlines(const char *at, size_t size)
{
    uint64_t count = 0;
    /* Eight bytes at once: an LF becomes 0, and each zero byte leaves its highest bit set. */
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word ^= 0x0A0A0A0A0A0A0A0Aull;
        uint64_t low = (word & 0x7F7F7F7F7F7F7F7Full) + 0x7F7F7F7F7F7F7F7Full;
        count += (uint64_t)__builtin_popcountll(~(low | word | 0x7F7F7F7F7F7F7F7Full));
    }
    for (; size > 0; at++, size--)
        count += *at == '\n';
    return count;
}

/* Returns the number of the line that begins at `offset`, which must not be before the offset of
 * the last call. */
static uint64_t line_number(struct grep_searcher *searcher, size_t offset)
{
    searcher->line +=
        count_newlines(searcher->data + searcher->counted, offset - searcher->counted);
    searcher->counted = offset;
    return searcher->line;
}

static void grep_append_line(struct bl_buffer *out, struct bl_text line)
{
    struct output_filter filter = {0};
    struct bl_text shown = line.size > LINE_SHOWN_MAX ? bl_utf8_cut(line, LINE_SHOWN_MAX) : line;
    size_t start = out->size;
    output_filter_add(&filter, shown, out);
    output_filter_end(&filter, out);
    for (char *nul = out->data + start;
         out->size > start && (nul = memchr(nul, '\0', (size_t)(out->data + out->size - nul)));)
        *nul = ' ';
    if (shown.size < line.size)
        bl_buffer_printf(out, " [%zu more byte%s]", line.size - shown.size,
                         line.size - shown.size == 1 ? "" : "s");
    bl_buffer_append_byte(out, '\n');
}

/* Returns the line that begins at `offset`, without its LF or CR LF; `*ret_next` is the start of
 * the next line. */
static struct bl_text grep_line_at(const struct grep_searcher *searcher, size_t offset,
                                   size_t limit, size_t *ret_next)
{
    const char *start = searcher->data + offset;
    const char *end = memchr(start, '\n', limit - offset);
    *ret_next = end != NULL ? (size_t)(end - searcher->data) + 1 : limit;
    if (end == NULL)
        end = searcher->data + limit;
    if (end > start && end[-1] == '\r')
        end--;
    return (struct bl_text){start, (size_t)(end - start)};
}

static void print_line(struct grep_searcher *searcher, size_t offset, struct bl_text line,
                       char mark)
{
    bl_buffer_printf(&searcher->text, "%" PRIu64 "%c", line_number(searcher, offset), mark);
    grep_append_line(&searcher->text, line);
    searcher->printed_any = true;
}

/* Prints the context after the last printed line, up to `limit`. */
static void print_trailing(struct grep_searcher *searcher, size_t limit)
{
    while (searcher->trailing > 0 && searcher->printed < limit) {
        size_t next;
        struct bl_text line = grep_line_at(searcher, searcher->printed, limit, &next);
        print_line(searcher, searcher->printed, line, '-');
        searcher->printed = next;
        searcher->trailing--;
    }
}

/* Returns the start of the line that is `count` lines before the one at `offset`, but not before
 * `least`. */
static size_t lines_before(const struct grep_searcher *searcher, size_t offset, unsigned count,
                           size_t least)
{
    for (; count > 0 && offset > least; count--) {
        const char *before =
            offset - 1 > least ? memrchr(searcher->data + least, '\n', offset - 1 - least) : NULL;
        offset = before != NULL ? (size_t)(before - searcher->data) + 1 : least;
    }
    return offset;
}

static void print_match(struct grep_searcher *searcher, struct bl_text line, size_t next)
{
    const struct grep_request *request = searcher->request;
    size_t offset = (size_t)(line.data - searcher->data), after;
    if (request->context > 0) {
        print_trailing(searcher, offset);
        size_t start = lines_before(searcher, offset, request->context, searcher->printed);
        if (searcher->printed_any && (searcher->gap || start > searcher->printed))
            bl_buffer_append(&searcher->text, BL_TEXT("--\n"));
        for (; start < offset; start = after) {
            struct bl_text before = grep_line_at(searcher, start, offset, &after);
            print_line(searcher, start, before, '-');
        }
    }
    print_line(searcher, offset, line, ':');
    searcher->printed = next;
    searcher->gap = false;
    searcher->trailing = request->context;
    searcher->found->lines++;
    searcher->full =
        searcher->found->lines >= request->lines_max || searcher->text.size >= request->bytes_max;
}

/* A line matches but is no longer printed: the lines after it are not context of the printed
 * ones. */
static void end_printing(struct grep_searcher *searcher, struct bl_text line)
{
    print_trailing(searcher, (size_t)(line.data - searcher->data));
    searcher->trailing = 0;
}

/* ---- Searching ------------------------------------------------------------------------------- */

/* Returns true if nothing more needs to be known about this file. */
static bool search_lines(struct grep_searcher *searcher, size_t limit)
{
    struct bl_text text = {searcher->data, limit}, line;
    while (bl_line_finder_next(searcher->finder, text, &searcher->done, &line)) {
        searcher->found->matches++;
        if (searcher->request->output == GREP_FILES)
            return true;
        if (searcher->full)
            end_printing(searcher, line);
        else if (searcher->prints)
            print_match(searcher, line, searcher->done);
    }
    if (searcher->prints)
        print_trailing(searcher, limit);
    return false;
}

/* Drops the searched data, except for context that later matches may need. */
static void grep_line_drop(struct grep_searcher *searcher, size_t limit)
{
    size_t keep = limit;
    if (searcher->prints && searcher->request->context > 0) {
        keep = lines_before(searcher, limit, searcher->request->context, 0);
        /* Lines this long get no context. */
        if (limit - keep > CONTEXT_MAX)
            keep = limit;
    }
    if (searcher->prints)
        line_number(searcher, keep > searcher->counted ? keep : searcher->counted);
    searcher->gap |= searcher->printed < keep;
    searcher->printed = searcher->printed > keep ? searcher->printed - keep : 0;
    searcher->counted = searcher->counted > keep ? searcher->counted - keep : 0;
    searcher->done = limit - keep;
    memmove(searcher->data, searcher->data + keep, searcher->filled - keep);
    searcher->filled -= keep;
}

static void make_room(struct grep_searcher *searcher, size_t capacity)
{
    if (searcher->capacity >= capacity)
        return;
    searcher->data = bl_realloc(searcher->data, capacity);
    searcher->capacity = capacity;
}

/* Drops the rest of a line that was too long. */
static void skip_rest(struct grep_searcher *searcher)
{
    const char *start = searcher->data + searcher->done;
    const char *end = memchr(start, '\n', searcher->filled - searcher->done);
    size_t drop = end != NULL ? (size_t)(end - start) + 1 : searcher->filled - searcher->done;
    searcher->skips_line = end == NULL;
    memmove(searcher->data + searcher->done, start + drop,
            searcher->filled - searcher->done - drop);
    searcher->filled -= drop;
}

/* Called when the buffer is full or the file has ended. Returns true if the search of the file is
 * complete. */
static bool search_buffer(struct grep_searcher *searcher, bool at_end)
{
    if (searcher->skips_line)
        skip_rest(searcher);
    const char *last =
        memrchr(searcher->data + searcher->done, '\n', searcher->filled - searcher->done);
    size_t limit = last != NULL ? (size_t)(last - searcher->data) + 1 : searcher->done;
    bool too_long = limit == searcher->done && searcher->filled == BUFFER_MAX;
    if (at_end || too_long)
        limit = searcher->filled;
    if (limit == searcher->done && !at_end) {
        if (searcher->filled == searcher->capacity)
            make_room(searcher,
                      searcher->capacity < BUFFER_LARGE ? BUFFER_LARGE : 2 * searcher->capacity);
        return false;
    }
    if (search_lines(searcher, limit) || at_end)
        return true;
    if (too_long) {
        searcher->found->long_lines++;
        searcher->skips_line = true;
        /* Its LF is dropped with its rest, so count the line here. */
        if (searcher->prints)
            line_number(searcher, limit);
        searcher->line++;
    }
    grep_line_drop(searcher, limit);
    make_room(searcher, BUFFER_LARGE);
    return false;
}

static enum grep_outcome search_open(struct grep_searcher *searcher, int fd)
{
    bool first = true;
    for (;;) {
        if (atomic_load_explicit(searcher->request->stopped, memory_order_relaxed))
            return GREP_SEARCHED;
        ssize_t got =
            read(fd, searcher->data + searcher->filled, searcher->capacity - searcher->filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return GREP_UNREADABLE;
        searcher->filled += (size_t)got;
        size_t look = searcher->filled < BINARY_LOOK ? searcher->filled : BINARY_LOOK;
        if (first && memchr(searcher->data, '\0', look) != NULL)
            return GREP_BINARY;
        first = false;
        if ((got == 0 || searcher->filled == searcher->capacity) &&
            search_buffer(searcher, got == 0))
            return GREP_SEARCHED;
    }
}

enum grep_outcome grep_search(struct grep_searcher *searcher, int fd, bool prints,
                              struct grep_found *ret_found)
{
    *ret_found = (struct grep_found){0};
    searcher->filled = searcher->done = searcher->printed = searcher->counted = 0;
    searcher->line = 1;
    searcher->gap = searcher->printed_any = searcher->skips_line = searcher->full = false;
    searcher->trailing = 0;
    searcher->prints = prints && searcher->request->output == GREP_CONTENT;
    searcher->found = ret_found;
    bl_buffer_clear(&searcher->text);
    enum grep_outcome outcome = search_open(searcher, fd);
    ret_found->text = bl_buffer_text(&searcher->text);
    return outcome;
}
