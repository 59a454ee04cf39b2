/* Design notes.
 *
 * Text is processed line by line, and only whole lines decide anything, so that the result does not
 * depend on how it is split into pieces. Lines are collected in `block` until their construct is
 * complete; then they are parsed and laid out together, and never looked at again. A line may begin
 * something that the lines before it cannot change any more:
 *
 *   - after a blank line, if nothing in `block` can continue after one: a list can, with a line
 *     that is indented or another item; indented code can, with more of it;
 *   - at a fence that does not belong to a list item, which only a parser can tell if it is
 *     indented by two or three columns;
 *   - before and after a heading with #, and a rule.
 *
 * Everything else stays together, which is always correct, and only later. This includes the two
 * constructs that look ahead: an underlined heading, and a line that continues without its mark.
 *
 * Lines of a fence are final one by one, since a fence may be very long.
 *
 * Known limits: a reference ([text][1]) is resolved only within its own block, and definitions of
 * references in a block of their own are shown as they are written; a block longer than BLOCK_MAX
 * is cut at a line, and a line longer than LINE_MAX at a blank. */
#include "markdown_parse.h"
#include "term.h"

#define LINE_MAX_SIZE ((size_t)16 * 1024)
#define LINE_CUT_SIZE ((size_t)1024) /* how far back to search for a blank */
#define BLOCK_MAX     ((size_t)64 * 1024)
/* size of the pending text laid out again with each piece */
#define PENDING_MAX    ((size_t)8 * 1024)
#define FENCE_SIZE_MIN 3u
#define PROBES_MAX     64u
#define TAB_COLUMNS    4u

struct fence {
    char character; /* 0 if none is open */
    size_t size;
    size_t indent;
};

struct markdown {
    size_t columns;
    bool colours;
    struct bl_buffer line;  /* in progress */
    struct bl_buffer block; /* whole lines that are not final */
    bool blank;             /* its last line is blank */
    bool list;              /* one of its lines may be an item */
    bool indented;          /* one of its lines may be indented code */
    unsigned probes;        /* number of probes for fences in it */
    struct fence fence;
    struct highlight code; /* state for the lines in the fence */
    struct bl_buffer done; /* laid out, not taken */
    bool begun;            /* something has been laid out before */
    bool gap;              /* an empty line is due before the open fence */
    struct bl_buffer pending;
    bool pending_valid;
};

struct markdown *markdown_new(size_t columns, bool colours)
{
    struct markdown *markdown = bl_zalloc(sizeof *markdown);

    markdown->columns = columns;
    markdown->colours = colours;
    bl_buffer_init(&markdown->line, SIZE_MAX / 2);
    bl_buffer_init(&markdown->block, SIZE_MAX / 2);
    bl_buffer_init(&markdown->done, SIZE_MAX / 2);
    bl_buffer_init(&markdown->pending, SIZE_MAX / 2);
    return markdown;
}

void markdown_free(struct markdown *markdown)
{
    if (markdown == NULL)
        return;
    bl_buffer_done(&markdown->line);
    bl_buffer_done(&markdown->block);
    bl_buffer_done(&markdown->done);
    bl_buffer_done(&markdown->pending);
    bl_free(markdown);
}

/* ---- Kinds of lines -------------------------------------------------------------------------- */

/* A line, and the text after its indent. */
struct line {
    struct bl_text text;
    size_t indent; /* in columns */
    struct bl_text rest;
};

static struct line line_of(struct bl_text text)
{
    struct line line = {.text = text, .rest = text};

    while (line.rest.size > 0 && (line.rest.data[0] == ' ' || line.rest.data[0] == '\t')) {
        line.indent += line.rest.data[0] == ' ' ? 1 : TAB_COLUMNS - line.indent % TAB_COLUMNS;
        line.rest.data++;
        line.rest.size--;
    }
    return line;
}

static bool is_blank_byte(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\v' || byte == '\f';
}

static bool markdown_is_blank(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (!is_blank_byte(text.data[i]))
            return false;
    }
    return true;
}

static size_t run_of(struct bl_text text, char byte)
{
    size_t size = 0;

    while (size < text.size && text.data[size] == byte)
        size++;
    return size;
}

static bool blank_at(struct bl_text text, size_t at)
{
    return at >= text.size || is_blank_byte(text.data[at]);
}

static bool is_heading(const struct line *line)
{
    size_t marks = run_of(line->rest, '#');

    return line->indent < 4 && marks >= 1 && marks <= 6 && blank_at(line->rest, marks);
}

static bool markdown_is_rule(const struct line *line)
{
    char mark = line->rest.size > 0 ? line->rest.data[0] : '\0';
    size_t marks = 0;

    if (line->indent >= 4 || (mark != '*' && mark != '-' && mark != '_'))
        return false;
    for (size_t i = 0; i < line->rest.size; i++) {
        if (line->rest.data[i] == mark)
            marks++;
        else if (!is_blank_byte(line->rest.data[i]))
            return false;
    }
    return marks >= 3;
}

/* Errs on the side of true. */
static bool is_item(const struct line *line)
{
    struct bl_text rest = line->rest;
    size_t digits = 0;

    if (rest.size == 0)
        return false;
    if (rest.data[0] == '-' || rest.data[0] == '+' || rest.data[0] == '*')
        return blank_at(rest, 1);
    while (digits < rest.size && rest.data[digits] >= '0' && rest.data[digits] <= '9')
        digits++;
    return digits > 0 && digits < rest.size &&
           (rest.data[digits] == '.' || rest.data[digits] == ')') && blank_at(rest, digits + 1);
}

static bool opens_fence(const struct line *line, struct fence *ret_fence)
{
    struct bl_text rest = line->rest;
    char mark = rest.size > 0 ? rest.data[0] : '\0';
    size_t size = run_of(rest, mark);

    if (line->indent >= 4 || (mark != '`' && mark != '~') || size < FENCE_SIZE_MIN)
        return false;
    if (mark == '`' && memchr(rest.data + size, '`', rest.size - size) != NULL)
        return false;
    *ret_fence = (struct fence){.character = mark, .size = size, .indent = line->indent};
    return true;
}

static bool closes_fence(const struct fence *fence, const struct line *line)
{
    size_t size = run_of(line->rest, fence->character);

    if (size < fence->size)
        return false;
    return line->indent < 4 &&
           markdown_is_blank((struct bl_text){line->rest.data + size, line->rest.size - size});
}

/* Returns whether the line is a definition: "[1]: https://…" */
static bool is_definition(struct bl_text text)
{
    struct line line = line_of(text);
    struct bl_text rest = line.rest;

    if (line.indent >= 4 || rest.size == 0 || rest.data[0] != '[')
        return false;
    ptrdiff_t end = bl_text_find(rest, BL_TEXT("]:"));
    return end > 1 &&
           !markdown_is_blank((struct bl_text){rest.data + end + 2, rest.size - (size_t)end - 2});
}

/* ---- Laying out ------------------------------------------------------------------------------ */

static bool all_definitions(struct bl_text text)
{
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        if (!is_definition(line))
            return false;
    }
    return true;
}

static void render_block(const struct markdown *markdown, struct bl_text text,
                         struct bl_buffer *out)
{
    static const struct text_style style = {.dim = true};

    if (all_definitions(text))
        text_wrap_all(text, &style, markdown->columns, markdown->colours, out);
    else
        markdown_render(text, markdown->columns, markdown->colours, out);
}

/* Lays out the lines of `block`, which are complete. */
static void flush_block(struct markdown *markdown)
{
    size_t before = markdown->done.size;
    struct bl_text text = bl_buffer_text(&markdown->block);

    if (text.size > 0) {
        if (markdown->begun)
            bl_buffer_append_byte(&markdown->done, '\n');
        size_t from = markdown->done.size;
        render_block(markdown, text, &markdown->done);
        if (markdown->done.size == from)
            markdown->done.size = before;
        else
            markdown->begun = true;
    }
    bl_buffer_clear(&markdown->block);
    markdown->blank = markdown->list = markdown->indented = false;
    markdown->probes = 0;
}

static void begin_fence_output(struct markdown *markdown, struct bl_buffer *out)
{
    if (markdown->gap)
        bl_buffer_append_byte(out, '\n');
}

static void open_fence(struct markdown *markdown, const struct line *line, struct fence fence)
{
    size_t before = markdown->done.size;

    struct bl_text info = {line->rest.data + fence.size, line->rest.size - fence.size};

    markdown->fence = fence;
    highlight_begin(&markdown->code, bl_text_trim(info));
    markdown->gap = markdown->begun;
    begin_fence_output(markdown, &markdown->done);
    size_t from = markdown->done.size;
    /* The info string is rendered as elsewhere. */
    markdown_render(line->text, markdown->columns, markdown->colours, &markdown->done);
    if (markdown->done.size == from) {
        markdown->done.size = before;
        return;
    }
    markdown->gap = false;
    markdown->begun = true;
}

/* Renders the line without the indent of the fence. */
static void render_fence_line(const struct markdown *markdown, const struct line *line,
                              struct highlight *code, struct bl_buffer *out)
{
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);

    for (size_t column = markdown->fence.indent; column < line->indent; column++)
        bl_buffer_append_byte(&text, ' ');
    bl_buffer_append(&text, line->rest);
    markdown_render_code(bl_buffer_text(&text), code, markdown->columns, markdown->colours, out);
}

static void take_fence_line(struct markdown *markdown, const struct line *line)
{
    if (closes_fence(&markdown->fence, line)) {
        markdown->fence = (struct fence){0};
        return;
    }
    begin_fence_output(markdown, &markdown->done);
    markdown->gap = false;
    markdown->begun = true;
    render_fence_line(markdown, line, &markdown->code, &markdown->done);
}

/* ---- Taking lines ---------------------------------------------------------------------------- */

/* Returns whether a fence is outside of list items, which are indented by at least two columns. */
static bool is_outermost_fence(struct markdown *markdown, const struct line *line)
{
    struct bl_buffer *block = &markdown->block;
    size_t size = block->size;

    if (!markdown->list || line->indent < 2 || ++markdown->probes > PROBES_MAX)
        return true;
    bl_buffer_append(block, line->text);
    bool outermost = markdown_ends_in_code(bl_buffer_text(block));
    block->size = size;
    return outermost;
}

/* Returns whether the line begins something that is independent of `block`. */
static bool begins_anew(struct markdown *markdown, const struct line *line)
{
    struct fence fence;

    if (opens_fence(line, &fence))
        return is_outermost_fence(markdown, line);
    if (!markdown->blank)
        return false;
    return markdown->list ? line->indent == 0 && !is_item(line) : line->indent < 4;
}

static void take_blank(struct markdown *markdown, struct bl_text text)
{
    if (markdown->block.size == 0)
        return;
    if (!markdown->list && !markdown->indented) {
        flush_block(markdown);
        return;
    }
    markdown->blank = true;
    /* Its blanks are significant in code. */
    bl_buffer_append(&markdown->block, text);
    bl_buffer_append_byte(&markdown->block, '\n');
}

static void markdown_take_line(struct markdown *markdown, struct bl_text text)
{
    struct line line = line_of(text);
    struct fence fence;

    if (markdown->fence.character != '\0') {
        take_fence_line(markdown, &line);
        return;
    }
    if (markdown_is_blank(text)) {
        take_blank(markdown, text);
        return;
    }
    if (markdown->block.size > 0 && begins_anew(markdown, &line))
        flush_block(markdown);
    bool first = markdown->block.size == 0;
    if (first && opens_fence(&line, &fence)) {
        open_fence(markdown, &line, fence);
        return;
    }
    bool alone = first && (is_heading(&line) || markdown_is_rule(&line));
    markdown->blank = false;
    markdown->list = markdown->list || is_item(&line);
    markdown->indented = markdown->indented || line.indent >= 4;
    bl_buffer_append(&markdown->block, text);
    bl_buffer_append_byte(&markdown->block, '\n');
    if (alone || markdown->block.size > BLOCK_MAX)
        flush_block(markdown);
}

/* Carriage returns end a line; elsewhere they become blanks. */
static struct bl_text without_returns(struct bl_buffer *line)
{
    if (line->size > 0 && line->data[line->size - 1] == '\r')
        line->size--;
    for (size_t i = 0; i < line->size; i++) {
        if (line->data[i] == '\r')
            line->data[i] = ' ';
    }
    return bl_buffer_text(line);
}

/* Takes a part of a line that is too long. */
static void markdown_cut_line(struct markdown *markdown)
{
    struct bl_text text = bl_buffer_text(&markdown->line);
    size_t size = text.size;

    while (size > text.size - LINE_CUT_SIZE && text.data[size - 1] != ' ')
        size--;
    if (size == text.size - LINE_CUT_SIZE)
        size = bl_utf8_cut(text, text.size - 4).size;
    BL_AUTO_BUFFER(part, SIZE_MAX / 2);
    bl_buffer_append(&part, (struct bl_text){text.data, size});
    bl_buffer_consume(&markdown->line, size);
    markdown_take_line(markdown, without_returns(&part));
}

void markdown_add(struct markdown *markdown, struct bl_text text)
{
    markdown->pending_valid = markdown->pending_valid && text.size == 0;
    while (text.size > 0) {
        if (text.data[0] == '\n') {
            markdown_take_line(markdown, without_returns(&markdown->line));
            bl_buffer_clear(&markdown->line);
            text.data++;
            text.size--;
            continue;
        }
        if (markdown->line.size >= LINE_MAX_SIZE)
            markdown_cut_line(markdown);
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end == NULL ? text.size : (size_t)(end - text.data);
        size_t room = LINE_MAX_SIZE - markdown->line.size;
        size = size < room ? size : room;
        bl_buffer_append(&markdown->line, (struct bl_text){text.data, size});
        text.data += size;
        text.size -= size;
    }
}

void markdown_end(struct markdown *markdown)
{
    if (markdown->line.size > 0)
        markdown_take_line(markdown, without_returns(&markdown->line));
    bl_buffer_clear(&markdown->line);
    flush_block(markdown);
    markdown->fence = (struct fence){0};
    markdown->pending_valid = false;
}

void markdown_take_lines(struct markdown *markdown, struct bl_buffer *out)
{
    bl_buffer_append(out, bl_buffer_text(&markdown->done));
    bl_buffer_clear(&markdown->done);
}

void markdown_resize(struct markdown *markdown, size_t columns)
{
    markdown->columns = columns;
    markdown->pending_valid = false;
}

/* ---- Pending text ---------------------------------------------------------------------------- */

/* Returns the end of the text, from the start of a line if there is one. */
static struct bl_text bounded_tail(struct bl_text text)
{
    if (text.size <= PENDING_MAX)
        return text;
    struct bl_text tail = {text.data + text.size - PENDING_MAX, PENDING_MAX};
    const char *start = memchr(tail.data, '\n', tail.size);
    if (start == NULL)
        start = memchr(tail.data, ' ', tail.size);
    if (start != NULL) {
        tail.size -= (size_t)(start + 1 - tail.data);
        tail.data = start + 1;
    }
    return tail;
}

static void render_pending(struct markdown *markdown, struct bl_text line)
{
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);

    bl_buffer_clear(&markdown->pending);
    if (markdown->fence.character != '\0') {
        struct line shown = line_of(line);
        struct highlight code = markdown->code;
        /* It may become the end of the fence. */
        if (line.size == 0 || run_of(shown.rest, markdown->fence.character) == shown.rest.size)
            return;
        begin_fence_output(markdown, &markdown->pending);
        render_fence_line(markdown, &shown, &code, &markdown->pending);
        return;
    }
    bl_buffer_append(&text, bl_buffer_text(&markdown->block));
    bl_buffer_append(&text, line);
    if (markdown->begun)
        bl_buffer_append_byte(&markdown->pending, '\n');
    size_t from = markdown->pending.size;
    render_block(markdown, bounded_tail(bl_buffer_text(&text)), &markdown->pending);
    if (markdown->pending.size == from)
        bl_buffer_clear(&markdown->pending);
}

void markdown_pending(struct markdown *markdown, size_t lines_max, struct bl_buffer *out)
{
    struct bl_text line = bl_buffer_text(&markdown->line);
    bool cut;
    size_t valid = bl_utf8_valid_prefix(line, &cut);

    /* The rest of the character has not arrived yet. */
    if (cut)
        line.size = valid;
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (!markdown->pending_valid)
        render_pending(markdown, line);
    markdown->pending_valid = true;
    bl_buffer_clear(out);
    bl_buffer_append(out, text_last_lines(bl_buffer_text(&markdown->pending), lines_max));
}
