/* Design notes.
 *
 * A word is collected until it is known to have ended, then placed on this line or the next. It is
 * stored with its escape sequences, which are changes from the style at its start; the sequence
 * that leads to that style is written when the word is placed. Each line begins and ends without a
 * style, so that it can be cut, scrolled away and redrawn alone.
 *
 * Untrusted text passes through safe_run and nowhere else. */
#include "term.h"

#define TAB_COLUMNS   4u
#define WRAP_ROOM_MIN 4u
#define REPLACEMENT   BL_TEXT("\xEF\xBF\xBD")
#define ELLIPSIS      BL_TEXT("\xE2\x80\xA6")

/* ---- Untrusted text -------------------------------------------------------------------------- */

/* Returns the size of the longest prefix that may be shown as it is; its only white space is
 * blanks. */
static size_t safe_run(struct bl_text text)
{
    size_t size = 0;

    while (size < text.size) {
        unsigned char byte = (unsigned char)text.data[size];
        uint32_t character = byte;
        size_t length = 1;
        if (byte >= 0x80)
            length =
                bl_utf8_decode((struct bl_text){text.data + size, text.size - size}, &character);
        if (length == 0 || bl_utf8_unsafe(character))
            break;
        size += length;
    }
    return size;
}

/* Returns the size of the character at the start that must not be shown, or of an invalid byte. */
static size_t unsafe_size(struct bl_text text)
{
    uint32_t character;
    size_t length = bl_utf8_decode(text, &character);

    return length == 0 ? 1 : length;
}

/* A mark without its letter would join the text before it, and a variation selector would widen a
 * picture: neither may follow text by chance. */
static bool is_stray(const struct text_cluster *cluster, bool follows)
{
    return cluster->width == 0 &&
           (!follows || bl_text_starts_with(cluster->bytes, BL_TEXT("\xEF\xB8\x8F")));
}

/* Does the same as text_cluster_next, without its tables for ASCII letters, and without clusters
 * wider than the narrowest line. */
static bool next_cluster(struct bl_text *text, struct text_cluster *ret_cluster)
{
    struct bl_text rest = *text;
    uint32_t character;

    if (text->size == 0)
        return false;
    size_t size = 1;
    if ((unsigned char)text->data[0] < 0x80 &&
        (text->size == 1 || (unsigned char)text->data[1] < 0x80)) {
        ret_cluster->width = 1;
    } else {
        text_cluster_next(&rest, ret_cluster);
        size = ret_cluster->bytes.size;
        if (ret_cluster->width > WRAP_ROOM_MIN) {
            size = bl_utf8_decode(*text, &character);
            ret_cluster->width = text_character_width(character);
        }
    }
    ret_cluster->bytes = (struct bl_text){text->data, size};
    text->data += size;
    text->size -= size;
    return true;
}

static void wrap_skip(struct bl_text *text, size_t size)
{
    text->data += size;
    text->size -= size;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

void text_wrap_init(struct text_wrap *wrap, struct bl_buffer *out, size_t columns, bool colours)
{
    *wrap = (struct text_wrap){.out = out,
                               .columns = columns < WRAP_ROOM_MIN ? WRAP_ROOM_MIN : columns,
                               .colours = colours};
    bl_buffer_init(&wrap->word, SIZE_MAX / 2);
}

void text_wrap_done(struct text_wrap *wrap)
{
    bl_buffer_done(&wrap->word);
}

/* An indent that leaves no room is omitted. */
static size_t indent_width(const struct text_wrap *wrap)
{
    return wrap->indent_width + WRAP_ROOM_MIN > wrap->columns ? 0 : wrap->indent_width;
}

static void open_line(struct text_wrap *wrap, bool empty)
{
    struct bl_text indent = wrap->first_done ? wrap->indent : wrap->first_indent;

    if (wrap->indent_width > 0 && indent_width(wrap) == 0)
        indent.size = 0;
    while (empty && indent.size > 0 && indent.data[indent.size - 1] == ' ')
        indent.size--;
    bl_buffer_append(wrap->out, indent);
    wrap->column = indent_width(wrap);
    wrap->line_open = true;
    wrap->line_filled = false;
    wrap->first_done = true;
}

static void close_line(struct text_wrap *wrap)
{
    static const struct text_style none = {0};

    text_style_change(wrap->out, &wrap->style, &none, wrap->colours);
    bl_buffer_append_byte(wrap->out, '\n');
    wrap->line_open = false;
    wrap->blank = false;
}

static void place_word(struct text_wrap *wrap)
{
    if (wrap->word.size == 0)
        return;
    size_t blank = wrap->blank ? 1 : 0;
    if (wrap->line_open && wrap->line_filled &&
        wrap->column + blank + wrap->word_width > wrap->columns)
        close_line(wrap);
    if (!wrap->line_open)
        open_line(wrap, false);
    if (wrap->blank && wrap->line_filled) {
        text_style_change(wrap->out, &wrap->style, &wrap->blank_style, wrap->colours);
        bl_buffer_append_byte(wrap->out, ' ');
        wrap->column++;
    }
    text_style_change(wrap->out, &wrap->style, &wrap->word_first, wrap->colours);
    bl_buffer_append(wrap->out, bl_buffer_text(&wrap->word));
    wrap->style = wrap->colours ? wrap->word_style : wrap->style;
    wrap->column += wrap->word_width;
    wrap->line_filled = true;
    wrap->blank = false;
    bl_buffer_clear(&wrap->word);
    wrap->word_width = 0;
}

/* Ends the line, even an empty one. */
static void break_line(struct text_wrap *wrap)
{
    place_word(wrap);
    if (!wrap->line_open)
        open_line(wrap, true);
    close_line(wrap);
}

void text_wrap_end_line(struct text_wrap *wrap)
{
    place_word(wrap);
    if (wrap->line_open)
        close_line(wrap);
    wrap->blank = false;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void add_cluster(struct text_wrap *wrap, const struct text_cluster *cluster,
                        const struct text_style *style)
{
    if (is_stray(cluster, wrap->word.size > 0))
        return;
    /* Scripts without blanks are broken anywhere. */
    if (cluster->width > 1)
        place_word(wrap);
    if (wrap->word.size > 0 &&
        wrap->word_width + cluster->width > wrap->columns - indent_width(wrap)) {
        place_word(wrap);
        close_line(wrap);
    }
    if (wrap->word.size == 0) {
        wrap->word_first = *style;
        wrap->word_style = *style;
    }
    text_style_change(&wrap->word, &wrap->word_style, style, wrap->colours);
    bl_buffer_append(&wrap->word, cluster->bytes);
    wrap->word_width += cluster->width;
    if (cluster->width > 1)
        place_word(wrap);
}

static void add_run(struct text_wrap *wrap, struct bl_text run, const struct text_style *style)
{
    struct text_cluster cluster;

    while (next_cluster(&run, &cluster)) {
        if (cluster.bytes.data[0] != ' ' || cluster.bytes.size > 1) {
            add_cluster(wrap, &cluster, style);
            continue;
        }
        place_word(wrap);
        wrap->blank = true;
        wrap->blank_style = *style;
    }
}

void text_wrap_add(struct text_wrap *wrap, struct bl_text text, const struct text_style *style)
{
    const struct text_cluster replacement = {.bytes = REPLACEMENT, .width = 1};

    while (text.size > 0) {
        size_t size = safe_run(text);
        add_run(wrap, (struct bl_text){text.data, size}, style);
        wrap_skip(&text, size);
        if (text.size == 0)
            break;
        size = 1;
        switch (text.data[0]) {
        case '\n': break_line(wrap); break;
        case '\t':
        case '\r': add_run(wrap, BL_TEXT(" "), style); break;
        default: size = unsafe_size(text); add_cluster(wrap, &replacement, style);
        }
        wrap_skip(&text, size);
    }
}

/* ---- Verbatim text --------------------------------------------------------------------------- */

static void add_literal(struct text_wrap *wrap, struct bl_text bytes, size_t width,
                        const struct text_style *style)
{
    if (wrap->line_open && wrap->line_filled && wrap->column + width > wrap->columns)
        close_line(wrap);
    if (!wrap->line_open)
        open_line(wrap, false);
    text_style_change(wrap->out, &wrap->style, style, wrap->colours);
    bl_buffer_append(wrap->out, bytes);
    wrap->column += width;
    wrap->line_filled = true;
}

static void add_tab(struct text_wrap *wrap, const struct text_style *style)
{
    size_t from = wrap->line_open ? wrap->column - indent_width(wrap) : 0;

    for (size_t count = TAB_COLUMNS - from % TAB_COLUMNS; count > 0; count--)
        add_literal(wrap, BL_TEXT(" "), 1, style);
}

void text_wrap_add_literal(struct text_wrap *wrap, struct bl_text text,
                           const struct text_style *style)
{
    struct text_cluster cluster;

    place_word(wrap);
    while (text.size > 0) {
        size_t size = safe_run(text);
        struct bl_text run = {text.data, size};
        while (next_cluster(&run, &cluster)) {
            if (!is_stray(&cluster, wrap->line_open && wrap->line_filled))
                add_literal(wrap, cluster.bytes, cluster.width, style);
        }
        wrap_skip(&text, size);
        if (text.size == 0)
            break;
        size = 1;
        if (text.data[0] == '\n') {
            break_line(wrap);
        } else if (text.data[0] == '\t') {
            add_tab(wrap, style);
        } else {
            size = unsafe_size(text);
            add_literal(wrap, REPLACEMENT, 1, style);
        }
        wrap_skip(&text, size);
    }
}

void text_wrap_all(struct bl_text text, const struct text_style *style, size_t columns,
                   bool colours, struct bl_buffer *out)
{
    struct text_wrap wrap;

    text_wrap_init(&wrap, out, columns, colours);
    text_wrap_add(&wrap, text, style);
    text_wrap_end_line(&wrap);
    text_wrap_done(&wrap);
}

/* ---- One line -------------------------------------------------------------------------------- */

void text_line_init(struct text_line *line, struct bl_buffer *out, size_t columns, bool colours)
{
    *line = (struct text_line){.out = out, .columns = columns, .colours = colours};
    line->keep = out->size;
}

static void line_put(struct text_line *line, struct bl_text bytes, size_t width,
                     const struct text_style *style)
{
    if (line->cut)
        return;
    if (line->column + width > line->columns) {
        line->out->size = line->keep;
        line->style = line->keep_style;
        text_style_change(line->out, &line->style, style, line->colours);
        bl_buffer_append(line->out, ELLIPSIS);
        line->cut = true;
        return;
    }
    text_style_change(line->out, &line->style, style, line->colours);
    bl_buffer_append(line->out, bytes);
    line->column += width;
    if (line->column < line->columns) {
        line->keep = line->out->size;
        line->keep_style = line->style;
    }
}

void text_line_add(struct text_line *line, struct bl_text text, const struct text_style *style)
{
    struct text_cluster cluster;

    while (text.size > 0 && !line->cut) {
        size_t size = safe_run(text);
        struct bl_text run = {text.data, size};
        while (!line->cut && next_cluster(&run, &cluster)) {
            if (!is_stray(&cluster, line->column > 0))
                line_put(line, cluster.bytes, cluster.width, style);
        }
        wrap_skip(&text, size);
        if (text.size == 0)
            break;
        bool white = text.data[0] == '\n' || text.data[0] == '\t' || text.data[0] == '\r';
        line_put(line, white ? BL_TEXT(" ") : REPLACEMENT, 1, style);
        wrap_skip(&text, unsafe_size(text));
    }
}

void text_line_end(struct text_line *line)
{
    static const struct text_style none = {0};

    text_style_change(line->out, &line->style, &none, line->colours);
    bl_buffer_append_byte(line->out, '\n');
}

/* ---- Lines after layout ---------------------------------------------------------------------- */

size_t text_line_width(struct bl_text line)
{
    size_t width = 0;

    while (line.size > 0) {
        const char *escape = memchr(line.data, '\x1b', line.size);
        size_t size = escape == NULL ? line.size : (size_t)(escape - line.data);
        width += text_width((struct bl_text){line.data, size});
        wrap_skip(&line, size);
        const char *end = line.size == 0 ? NULL : memchr(line.data, 'm', line.size);
        wrap_skip(&line, end == NULL ? line.size : (size_t)(end - line.data) + 1);
    }
    return width;
}

struct bl_text text_last_lines(struct bl_text text, size_t lines_max)
{
    size_t from = text.size, lines = 0;

    while (from > 0) {
        if (text.data[from - 1] == '\n' && from < text.size && ++lines == lines_max)
            break;
        from--;
    }
    if (lines_max == 0 || text.size == 0)
        return (struct bl_text){0};
    return (struct bl_text){text.data + from, text.size - from};
}
