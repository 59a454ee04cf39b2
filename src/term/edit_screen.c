/* Design notes.
 *
 * A draw lays out all visible lines, and then writes those that are not on the screen already.
 * Terminals differ about the width of some characters, so nothing important depends on our count of
 * columns: lines do not wrap while ours are drawn (a line too wide for the terminal is cut, and
 * never becomes two), and in a line with more than ASCII the cursor is placed by writing the text
 * before it again.
 *
 * The input text keeps one column free at the right, for the cursor after a full line. */
#include "term.h"

#include <stdlib.h>

#define TAB_WIDTH       4
#define SPACED_ROWS_MIN 12u
/* Of a text with many lines, or one long line, only this much before the cursor is laid out. */
#define LAYOUT_BACK_MAX ((size_t)256 * 1024)

static const struct bl_text replacement = {"\xEF\xBF\xBD", 3};

/* One line of the screen. */
struct row {
    struct bl_text text; /* in the arena */
    size_t width;
};

/* A part of the input text that goes on one line. */
struct input_row {
    size_t start;
    size_t end;
};

struct drawing {
    struct bl_arena arena;
    const struct edit_screen *screen;
    const struct edit_view *view;
    struct row rows[EDIT_SCREEN_HEIGHT_MAX];
    size_t count;
    size_t cursor_row;
    size_t cursor_column;
    struct bl_text cursor_prefix; /* the text before the cursor in its line */
};

/* ---- Text with escape sequences -------------------------------------------------------------- */

/* Returns the size of the escape sequence at the start, or 0. */
static size_t escape_size(struct bl_text text)
{
    if (text.size < 2 || text.data[0] != '\x1B')
        return 0;
    if (text.data[1] == ']') {
        for (size_t i = 2; i < text.size; i++) {
            if (text.data[i] == '\a')
                return i + 1;
            if (text.data[i] == '\\' && text.data[i - 1] == '\x1B')
                return i + 1;
        }
        return text.size;
    }
    if (text.data[1] != '[')
        return 2;
    for (size_t i = 2; i < text.size; i++) {
        if (text.data[i] >= 0x40 && text.data[i] <= 0x7E)
            return i + 1;
    }
    return text.size;
}

/* Cuts a line laid out by the caller to the columns, and resets its style at the end. */
static struct row cut_row(struct bl_arena *arena, struct bl_text text, size_t columns)
{
    struct bl_text rest = text;
    struct text_cluster cluster;
    struct row row = {text, 0};
    bool styled = false;

    while (rest.size > 0) {
        size_t escape = escape_size(rest);
        if (escape > 0) {
            styled = true;
            rest.data += escape;
            rest.size -= escape;
            continue;
        }
        text_cluster_next(&rest, &cluster);
        if (row.width + cluster.width > columns) {
            row.text.size = (size_t)(cluster.bytes.data - text.data);
            break;
        }
        row.width += cluster.width;
    }
    if (styled)
        row.text = bl_arena_printf(arena, BL_TEXT_FORMAT "\x1B[0m", BL_TEXT_ARG(row.text));
    return row;
}

/* ---- The input text -------------------------------------------------------------------------- */

/* Returns the most columns that a terminal may take for a cluster: some draw each part of a
 * sequence. */
static size_t width_at_most(const struct text_cluster *cluster)
{
    struct bl_text rest = cluster->bytes;
    size_t sum = 0, size;
    uint32_t character;

    while ((size = bl_utf8_decode(rest, &character)) > 0) {
        sum += text_character_width(character);
        rest.data += size;
        rest.size -= size;
    }
    return sum > cluster->width ? sum : cluster->width;
}

/* Returns the appearance of a cluster that begins in that column of its line. */
static struct row cluster_shown(const struct text_cluster *cluster, size_t column, char caret[2])
{
    unsigned char byte = (unsigned char)cluster->bytes.data[0];
    uint32_t character;

    if (byte == '\t') {
        size_t width = TAB_WIDTH - column % TAB_WIDTH;
        return (struct row){{"    ", width}, width};
    }
    if (byte < 0x20 || byte == 0x7F) {
        caret[0] = '^';
        caret[1] = (char)(byte ^ 0x40);
        return (struct row){{caret, 2}, 2};
    }
    if (bl_utf8_decode(cluster->bytes, &character) == 0 ||
        (character >= 0x80 && character < 0xA0) || character == 0x2028 || character == 0x2029)
        return (struct row){replacement, 1};
    return (struct row){cluster->bytes, width_at_most(cluster)};
}

/* The layout of the input text. */
struct layout {
    struct bl_text text;
    size_t cursor;
    size_t columns;        /* for the text: without prompt and the free column */
    size_t before;         /* number of rows to lay out after the cursor's */
    struct bl_buffer rows; /* struct input_row */
    size_t cursor_row;
    size_t cursor_column;
    bool cursor_met;
};

static size_t layout_count(const struct layout *layout)
{
    return layout->rows.size / sizeof(struct input_row);
}

static struct input_row layout_row(const struct layout *layout, size_t index)
{
    struct input_row row;
    memcpy(&row, layout->rows.data + index * sizeof row, sizeof row);
    return row;
}

static void layout_end_row(struct layout *layout, size_t start, size_t end)
{
    struct input_row row = {start, end};
    bl_buffer_append(&layout->rows, (struct bl_text){(const char *)&row, sizeof row});
}

static void layout_meet(struct layout *layout, size_t at, size_t column)
{
    if (at != layout->cursor)
        return;
    layout->cursor_row = layout_count(layout);
    layout->cursor_column = column;
    layout->cursor_met = true;
}

static bool layout_enough(const struct layout *layout)
{
    return layout->cursor_met && layout_count(layout) > layout->cursor_row + layout->before;
}

static void layout_run(struct layout *layout, size_t from)
{
    struct bl_text rest = {layout->text.data + from, layout->text.size - from};
    struct text_cluster cluster;
    size_t start = from, column = 0;
    char caret[2];

    while (!layout_enough(layout) && text_cluster_next(&rest, &cluster)) {
        size_t at = (size_t)(cluster.bytes.data - layout->text.data);
        if (cluster.bytes.data[0] == '\n') {
            layout_meet(layout, at, column);
            layout_end_row(layout, start, at);
            start = at + 1;
            column = 0;
            continue;
        }
        struct row shown = cluster_shown(&cluster, column, caret);
        if (column > 0 && column + shown.width > layout->columns) {
            layout_end_row(layout, start, at);
            start = at;
            column = 0;
            shown = cluster_shown(&cluster, column, caret);
        }
        layout_meet(layout, at, column);
        column += shown.width;
    }
    if (!layout_enough(layout)) {
        layout_meet(layout, layout->text.size, column);
        layout_end_row(layout, start, layout->text.size);
    }
}

/* Returns where to begin: `lines` lines before the cursor, and not too far from it. */
static size_t layout_start(struct bl_text text, size_t cursor, size_t lines)
{
    size_t far = cursor > LAYOUT_BACK_MAX ? cursor - LAYOUT_BACK_MAX : 0;
    size_t at = cursor;

    while (at > far) {
        if (text.data[at - 1] == '\n' && lines-- == 0)
            return at;
        at--;
    }
    if (at == 0)
        return 0;
    /* In the middle of a long line: at a place that stays the same while the cursor moves. */
    at = at / LAYOUT_BACK_MAX * LAYOUT_BACK_MAX;
    while (at < cursor && ((unsigned char)text.data[at] & 0xC0) == 0x80)
        at++;
    return at;
}

static struct bl_text shown_text(struct bl_arena *arena, struct bl_text text, struct bl_text indent,
                                 size_t *ret_width)
{
    struct bl_buffer out;
    struct text_cluster cluster;
    size_t width = 0;
    char caret[2];

    bl_buffer_init(&out, SIZE_MAX / 2);
    bl_buffer_append(&out, indent);
    while (text_cluster_next(&text, &cluster)) {
        struct row shown = cluster_shown(&cluster, width, caret);
        bl_buffer_append(&out, shown.text);
        width += shown.width;
    }
    struct bl_text copy = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    *ret_width = width;
    return copy;
}

/* ---- All lines ------------------------------------------------------------------------------- */

static size_t edit_screen_count_lines(struct bl_text text)
{
    struct bl_text line;
    size_t count = 0;

    while (bl_text_split(&text, '\n', &line))
        count++;
    return count;
}

static void add_row(struct drawing *drawing, struct row row)
{
    if (drawing->count < BL_COUNT(drawing->rows))
        drawing->rows[drawing->count++] = row;
}

/* Adds `count` lines of a laid-out text, from line `first` on. */
static void edit_screen_add_lines(struct drawing *drawing, struct bl_text text, size_t first,
                                  size_t count)
{
    struct bl_text line;

    for (size_t i = 0; i < first + count && bl_text_split(&text, '\n', &line); i++) {
        if (i >= first)
            add_row(drawing, cut_row(&drawing->arena, line, drawing->screen->columns));
    }
}

/* The prompt, or blanks of its width. Omitted if there is no room. */
struct prompt {
    struct row first;
    struct row others;
};

static struct prompt make_prompt(struct drawing *drawing)
{
    size_t columns = drawing->screen->columns;
    struct prompt prompt = {.first = cut_row(&drawing->arena, drawing->view->prompt, columns)};

    if (prompt.first.width + 4 > columns)
        return (struct prompt){0};
    prompt.others.width = prompt.first.width;
    prompt.others.text = bl_arena_printf(&drawing->arena, "%*s", (int)prompt.others.width, "");
    return prompt;
}

static struct row hint_row(struct drawing *drawing, const struct prompt *prompt, size_t columns)
{
    struct row hint = cut_row(&drawing->arena, drawing->view->hint, columns);
    bool colours = drawing->screen->colours && hint.width > 0;
    struct bl_text text = bl_arena_printf(&drawing->arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT "%s",
                                          BL_TEXT_ARG(prompt->first.text), colours ? "\x1B[2m" : "",
                                          BL_TEXT_ARG(hint.text), colours ? "\x1B[0m" : "");

    return (struct row){text, prompt->first.width + hint.width};
}

static void edit_screen_add_input(struct drawing *drawing, const struct layout *layout,
                                  const struct prompt *prompt, size_t count)
{
    size_t top = layout->cursor_row >= count ? layout->cursor_row - count + 1 : 0;

    for (size_t i = top; i < top + count; i++) {
        struct input_row part = layout_row(layout, i);
        const struct row *indent = part.start == 0 ? &prompt->first : &prompt->others;
        struct bl_text bytes = {layout->text.data + part.start, part.end - part.start};
        struct row row;
        row.text = shown_text(&drawing->arena, bytes, indent->text, &row.width);
        row.width += indent->width;
        if (i == layout->cursor_row) {
            size_t width;
            bytes.size = layout->cursor - part.start;
            drawing->cursor_row = drawing->count;
            drawing->cursor_column = indent->width + layout->cursor_column;
            drawing->cursor_prefix = shown_text(&drawing->arena, bytes, indent->text, &width);
        }
        if (layout->text.size == 0)
            row = hint_row(drawing, prompt, layout->columns);
        add_row(drawing, row);
    }
}

/* Returns the text below the input line. */
static struct bl_text menu_text(struct drawing *drawing)
{
    const struct edit_line *line = drawing->view->line;
    size_t width;

    if (line == NULL || !line->searching)
        return drawing->view->menu;
    struct bl_text needle =
        shown_text(&drawing->arena, bl_buffer_text(&line->needle), BL_TEXT("search: "), &width);
    bool nothing = line->needle.size > 0 && line->found == SIZE_MAX;
    return bl_arena_printf(&drawing->arena, BL_TEXT_FORMAT "%s", BL_TEXT_ARG(needle),
                           nothing ? " (no match)" : "");
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Distributes the available lines: to the input text and the menu, to the status, and the rest to
 * the output in progress. */
static void lay_out(struct drawing *drawing)
{
    const struct edit_screen *screen = drawing->screen;
    const struct edit_view *view = drawing->view;
    size_t room = screen->rows > 2 ? least(screen->rows - 1, EDIT_SCREEN_HEIGHT_MAX) : 1;
    struct prompt prompt = make_prompt(drawing);
    struct layout layout = {.before = room};

    bl_buffer_init(&layout.rows, SIZE_MAX / 2);
    if (view->line != NULL) {
        size_t taken = prompt.first.width + 1;
        layout.text = edit_line_text(view->line);
        layout.cursor = view->line->cursor;
        layout.columns = screen->columns > taken + 2 ? screen->columns - taken : 2;
        layout_run(&layout, layout_start(layout.text, layout.cursor, room));
    }
    struct bl_text menu = menu_text(drawing);
    size_t menu_lines = edit_screen_count_lines(menu);
    size_t status = view->status.size > 0 && room > (view->line != NULL ? 1 : 0);
    size_t space = status > 0 && view->spaced && screen->rows >= SPACED_ROWS_MIN;
    room -= status + 2 * space;
    size_t input = least(layout_count(&layout), room - least(menu_lines, room / 2));
    room -= input;
    menu_lines = least(menu_lines, room);
    room -= menu_lines;
    size_t live_lines = edit_screen_count_lines(view->live);
    size_t live = least(live_lines, room);

    edit_screen_add_lines(drawing, view->live, live_lines - live, live);
    edit_screen_add_lines(drawing, BL_TEXT("\n"), 0, space);
    if (status > 0)
        edit_screen_add_lines(drawing, view->status, 0, 1);
    edit_screen_add_lines(drawing, BL_TEXT("\n"), 0, space);
    edit_screen_add_input(drawing, &layout, &prompt, input);
    edit_screen_add_lines(drawing, menu, 0, menu_lines);
    bl_buffer_done(&layout.rows);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void move(struct bl_buffer *out, size_t count, char direction)
{
    if (count > 0)
        bl_buffer_printf(out, "\x1B[%zu%c", count, direction);
}

/* Erases from the first column on, but not all at once: if a screen is erased from its very first
 * cell on, tmux moves it into the history. */
static void erase_below(struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("\x1B[K\x1B[2G\x1B[J\r"));
}

/* Moves to the first of our lines. */
static void go_home(const struct edit_screen *screen, struct bl_buffer *out)
{
    move(out, screen->cursor_row, 'A');
    bl_buffer_append(out, BL_TEXT("\r"));
}

static bool edit_screen_is_plain(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] > 0x7E)
            return false;
    }
    return true;
}

/* Writes lines of the conversation. A line may be wider than we count: then it wraps, without
 * loss. */
static void write_above(const struct edit_screen *screen, struct bl_text above,
                        struct bl_arena *arena, struct bl_buffer *out)
{
    struct bl_text line;

    while (bl_text_split(&above, '\n', &line)) {
        bool fits = cut_row(arena, line, screen->columns).text.size >= line.size;
        if (fits)
            bl_buffer_append(out, BL_TEXT("\x1B[K"));
        else
            erase_below(out);
        bl_buffer_append(out, line);
        bl_buffer_append(out, BL_TEXT("\r\n"));
    }
    erase_below(out);
}

/* Erasing after a line that fills the screen would remove its last character. */
static void edit_screen_write_row(const struct edit_screen *screen, const struct row *row,
                                  struct bl_buffer *out)
{
    bool erase_after = row->width < screen->columns && edit_screen_is_plain(row->text);

    if (!erase_after)
        bl_buffer_append(out, BL_TEXT("\x1B[K"));
    bl_buffer_append(out, row->text);
    if (erase_after)
        bl_buffer_append(out, BL_TEXT("\x1B[K"));
}

/* Moves from line `at` down to line `to`, which may be a new one just below ours. */
static void go_down(struct bl_buffer *out, size_t at, size_t to)
{
    for (; at < to; at++)
        bl_buffer_append(out, BL_TEXT("\r\n"));
}

/* Writes the changed lines. Returns the line of the cursor afterwards, or SIZE_MAX if nothing
 * changed. */
static size_t write_rows(struct edit_screen *screen, const struct drawing *drawing,
                         struct bl_buffer *out)
{
    size_t at = 0;
    bool written = false;

    for (size_t i = 0; i < drawing->count; i++) {
        const struct row *row = &drawing->rows[i];
        uint64_t hash = bl_hash(screen->hash_key, row->text);
        bool same = i < screen->height && screen->hashes[i] == hash;
        screen->hashes[i] = hash;
        screen->widths[i] = (uint16_t)least(row->width, UINT16_MAX);
        if (same)
            continue;
        go_down(out, at, i);
        bl_buffer_append(out, BL_TEXT("\r"));
        edit_screen_write_row(screen, row, out);
        at = i;
        written = true;
    }
    if (drawing->count < screen->height) {
        go_down(out, at, drawing->count);
        bl_buffer_append(out, BL_TEXT("\r"));
        erase_below(out);
        at = drawing->count;
        written = true;
    }
    return written ? at : SIZE_MAX;
}

static void place_cursor(const struct drawing *drawing, size_t at, struct bl_buffer *out)
{
    if (at > drawing->cursor_row)
        move(out, at - drawing->cursor_row, 'A');
    else
        move(out, drawing->cursor_row - at, 'B');
    if (edit_screen_is_plain(drawing->cursor_prefix)) {
        bl_buffer_printf(out, "\x1B[%zuG", drawing->cursor_column + 1);
    } else {
        bl_buffer_append(out, BL_TEXT("\r"));
        bl_buffer_append(out, drawing->cursor_prefix);
    }
}

void edit_screen_init(struct edit_screen *screen, size_t columns, size_t rows, bool colours)
{
    *screen = (struct edit_screen){.columns = columns, .rows = rows, .colours = colours};
    bl_random_bytes(screen->hash_key, sizeof screen->hash_key);
}

void edit_screen_draw(struct edit_screen *screen, const struct edit_view *view,
                      struct bl_text above, struct bl_buffer *out)
{
    struct drawing *drawing = bl_zalloc(sizeof *drawing);
    size_t begin = out->size;

    drawing->screen = screen;
    drawing->view = view;
    lay_out(drawing);
    /* Without an input line there is no place for a cursor. */
    bool hidden = view->line == NULL && drawing->count > 0;
    bl_buffer_append(out, BL_TEXT("\x1B[?2026h\x1B[?25l"));
    go_home(screen, out);
    if (above.size > 0) {
        write_above(screen, above, &drawing->arena, out);
        screen->height = 0;
    }
    bl_buffer_append(out, BL_TEXT("\x1B[?7l"));
    size_t at = write_rows(screen, drawing, out);
    bool moved = drawing->cursor_row != screen->cursor_row ||
                 drawing->cursor_column != screen->cursor_column || hidden != screen->cursor_hidden;
    if (at == SIZE_MAX && above.size == 0 && !moved) {
        out->size = begin;
    } else {
        place_cursor(drawing, at == SIZE_MAX ? 0 : at, out);
        bl_buffer_append(out, BL_TEXT("\x1B[?7h"));
        if (!hidden)
            bl_buffer_append(out, BL_TEXT("\x1B[?25h"));
        bl_buffer_append(out, BL_TEXT("\x1B[?2026l"));
    }
    screen->height = drawing->count;
    screen->cursor_row = drawing->cursor_row;
    screen->cursor_column = drawing->cursor_column;
    screen->cursor_hidden = hidden;
    bl_arena_done(&drawing->arena);
    bl_free(drawing);
}

void edit_screen_clear(struct edit_screen *screen, struct bl_buffer *out)
{
    go_home(screen, out);
    erase_below(out);
    bl_buffer_append(out, BL_TEXT("\x1B[?25h"));
    screen->height = 0;
    screen->cursor_row = 0;
    screen->cursor_column = 0;
    screen->cursor_hidden = false;
}

/* Returns the number of screen lines taken by a line that was written when the screen was wider. */
static size_t reflowed(size_t width, size_t columns)
{
    return width <= columns ? 1 : (width + columns - 1) / columns;
}

void edit_screen_resize(struct edit_screen *screen, size_t columns, size_t rows,
                        struct bl_buffer *out)
{
    if (screen->reflows && columns > 0 && columns < screen->columns) {
        size_t above = screen->cursor_column / columns;
        for (size_t i = 0; i < screen->cursor_row; i++)
            above += reflowed(screen->widths[i], columns);
        screen->cursor_row = above;
    }
    edit_screen_clear(screen, out);
    screen->columns = columns;
    screen->rows = rows;
}
