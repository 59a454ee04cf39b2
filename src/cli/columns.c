#include "columns.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "term/term.h"

#define GAP         2u
#define COLUMNS_MAX 16u
#define CELL_MAX    ((size_t)4096)

struct columns_layout {
    const struct cli_column *columns;
    size_t count;
    const struct bl_text *cells;
    size_t rows;
    size_t natural[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX]; /* 0 if left out */
};

size_t cli_columns_width(void)
{
    struct winsize size = {0};

    if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0)
        return SIZE_MAX;
    return size.ws_col;
}

struct bl_text cli_columns_cell(struct bl_arena *arena, struct bl_text text)
{
    BL_AUTO_BUFFER(shown, SIZE_MAX / 2);

    bl_text_show(&shown, bl_utf8_cut(text, CELL_MAX), BL_SHOW_LINE);
    return bl_arena_text(arena, bl_buffer_text(&shown));
}

/* Measures the columns. A column that is empty in every row is left out. */
static void columns_measure(struct columns_layout *layout)
{
    for (size_t i = 0; i < layout->rows * layout->count; i++) {
        size_t width = text_width(layout->cells[i]), *natural = &layout->natural[i % layout->count];
        *natural = width > *natural ? width : *natural;
    }
    for (size_t i = 0; i < layout->count; i++) {
        size_t head = text_width(bl_text_from(layout->columns[i].head));
        if (layout->natural[i] > 0 && layout->natural[i] < head)
            layout->natural[i] = head;
    }
}

static size_t columns_total(const struct columns_layout *layout)
{
    size_t total = 0;

    for (size_t i = 0; i < layout->count; i++)
        total += layout->widths[i] > 0 ? layout->widths[i] + (total > 0 ? GAP : 0) : 0;
    return total;
}

/* Returns the column to leave out next, or `count` if there is none. */
static size_t columns_lightest(const struct columns_layout *layout)
{
    size_t found = layout->count;

    for (size_t i = 0; i < layout->count; i++)
        if (layout->widths[i] > 0 && layout->columns[i].weight > 0 &&
            (found == layout->count || layout->columns[i].weight < layout->columns[found].weight))
            found = i;
    return found;
}

/* Widens a column to its natural width, as far as there is room. */
static void columns_widen(struct columns_layout *layout, size_t i, size_t width)
{
    size_t total = columns_total(layout);

    if (layout->widths[i] == 0 || total >= width)
        return;
    size_t more = layout->natural[i] - layout->widths[i];
    layout->widths[i] += more < width - total ? more : width - total;
}

/* Cuts columns to their minimum, or to their head, and leaves columns out until the others fit. Then
 * distributes the remaining room: to the columns that are never left out, then from the last to the
 * first. */
static void columns_fit(struct columns_layout *layout, size_t width)
{
    size_t goes;

    for (size_t i = 0; i < layout->count; i++) {
        size_t least = layout->columns[i].least;
        size_t head = text_width(bl_text_from(layout->columns[i].head));
        least = least > 0 && least < head ? head : least;
        layout->widths[i] = least > 0 && least < layout->natural[i] ? least : layout->natural[i];
    }
    while (columns_total(layout) > width && (goes = columns_lightest(layout)) < layout->count)
        layout->widths[goes] = 0;
    for (size_t i = 0; i < layout->count; i++)
        if (layout->columns[i].weight == 0)
            columns_widen(layout, i, width);
    for (size_t i = layout->count; i-- > 0;)
        columns_widen(layout, i, width);
}

/* Returns the end of a text, at most `width` columns wide. */
static struct bl_text columns_end_of(struct bl_text text, size_t width)
{
    while (text.size > 0 && text_width(text) > width) {
        size_t step = edit_text_next(text, 0);
        text = (struct bl_text){text.data + step, text.size - step};
    }
    return text;
}

static void columns_write_cell(struct bl_buffer *out, const struct cli_column *column,
                               struct bl_text cell, size_t width, bool last)
{
    size_t own = text_width(cell);
    bool cut = own > width;

    if (cut && column->keeps_end) {
        bl_buffer_append(out, BL_TEXT("…"));
        cell = columns_end_of(cell, width - 1);
        own = text_width(cell) + 1;
    } else if (cut) {
        cell = text_cut_width(cell, width - 1);
        own = text_width(cell) + 1;
    }
    for (size_t i = own; column->right && i < width; i++)
        bl_buffer_append_byte(out, ' ');
    bl_buffer_append(out, cell);
    if (cut && !column->keeps_end)
        bl_buffer_append(out, BL_TEXT("…"));
    for (size_t i = own; !column->right && !last && i < width; i++)
        bl_buffer_append_byte(out, ' ');
}

/* Writes the heads if `cells` is NULL. */
static void columns_write_row(struct bl_buffer *out, const struct columns_layout *layout,
                              const struct bl_text *cells)
{
    size_t last = 0, before = 0;

    for (size_t i = 0; i < layout->count; i++)
        last = layout->widths[i] > 0 ? i : last;
    for (size_t i = 0; i < layout->count; i++) {
        const struct cli_column *column = &layout->columns[i];
        if (layout->widths[i] == 0)
            continue;
        for (size_t gap = 0; before > 0 && gap < GAP; gap++)
            bl_buffer_append_byte(out, ' ');
        before++;
        columns_write_cell(out, column, cells != NULL ? cells[i] : bl_text_from(column->head),
                           layout->widths[i], i == last);
    }
    bl_buffer_append_byte(out, '\n');
}

void cli_columns_write(struct bl_buffer *out, const struct cli_column *columns, size_t count,
                       const struct bl_text *cells, size_t rows, size_t width)
{
    struct columns_layout layout = {
        .columns = columns, .count = count, .cells = cells, .rows = rows};

    columns_measure(&layout);
    columns_fit(&layout, width);
    columns_write_row(out, &layout, NULL);
    for (size_t i = 0; i < rows; i++)
        columns_write_row(out, &layout, cells + i * count);
}
