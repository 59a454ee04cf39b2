#include "term.h"

/* The minimum width of a shrunk column, so that words stay readable. */
#define SHRUNK_MIN      8u
#define SEPARATOR_WIDTH 3u
#define CELL_COLUMNS    ((size_t)1 << 30)

/* ---- Cells ----------------------------------------------------------------------------------- */

void markdown_table_init(struct markdown_table *table, size_t column_count)
{
    *table = (struct markdown_table){.column_count = column_count};
    bl_buffer_init(&table->text, SIZE_MAX / 2);
}

void markdown_table_done(struct markdown_table *table)
{
    bl_buffer_done(&table->text);
    bl_free(table->runs);
    bl_free(table->cells);
}

/* Makes room for one more item. */
static void *grown(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? 32 : *capacity * 2;
    return bl_realloc(items, *capacity * size);
}

bool markdown_table_add_cell(struct markdown_table *table, enum markdown_align align)
{
    if (table->cell_count >= MARKDOWN_TABLE_CELLS_MAX)
        return false;
    table->cells =
        grown(table->cells, table->cell_count, &table->cell_capacity, sizeof *table->cells);
    table->cells[table->cell_count++] =
        (struct markdown_cell){.run = table->run_count, .align = align};
    return true;
}

void markdown_table_add_text(struct markdown_table *table, struct bl_text text,
                             const struct text_style *style)
{
    if (table->cell_count == 0)
        return;
    table->runs = grown(table->runs, table->run_count, &table->run_capacity, sizeof *table->runs);
    table->runs[table->run_count++] =
        (struct markdown_run){.offset = table->text.size, .size = text.size, .style = *style};
    table->cells[table->cell_count - 1].run_count++;
    bl_buffer_append(&table->text, text);
}

static void add_runs(const struct markdown_table *table, const struct markdown_cell *cell,
                     struct text_wrap *wrap)
{
    for (size_t i = 0; i < cell->run_count; i++) {
        const struct markdown_run *run = &table->runs[cell->run + i];
        text_wrap_add(wrap, (struct bl_text){table->text.data + run->offset, run->size},
                      &run->style);
    }
}

/* Lays out a cell in lines of at most `columns`. */
static void lay_out_cell(const struct markdown_table *table, const struct markdown_cell *cell,
                         size_t columns, bool colours, struct bl_buffer *out)
{
    struct text_wrap wrap;

    text_wrap_init(&wrap, out, columns, colours);
    add_runs(table, cell, &wrap);
    text_wrap_end_line(&wrap);
    text_wrap_done(&wrap);
}

/* ---- Widths ---------------------------------------------------------------------------------- */

/* Computes the width that each column would take with enough room. */
static void markdown_table_measure(const struct markdown_table *table, size_t *ret_widths)
{
    BL_AUTO_BUFFER(lines, SIZE_MAX / 2);

    for (size_t i = 0; i < table->column_count; i++)
        ret_widths[i] = 1;
    for (size_t i = 0; i < table->cell_count; i++) {
        bl_buffer_clear(&lines);
        lay_out_cell(table, &table->cells[i], CELL_COLUMNS, false, &lines);
        struct bl_text rest = bl_buffer_text(&lines), line;
        while (bl_text_split(&rest, '\n', &line)) {
            size_t width = text_width(line), *most = &ret_widths[i % table->column_count];
            *most = width > *most ? width : *most;
        }
    }
}

/* Shrinks the widest columns to a common width, so that all fit into `room`. Returns false if they
 * cannot. */
static bool markdown_table_fit(size_t *widths, size_t count, size_t room)
{
    size_t total = 0, least = 0, widest = 0;

    for (size_t i = 0; i < count; i++) {
        total += widths[i];
        least += widths[i] < SHRUNK_MIN ? widths[i] : SHRUNK_MIN;
        widest = widths[i] > widest ? widths[i] : widest;
    }
    if (least > room)
        return false;
    /* Find the largest width that all columns may have. */
    size_t low = SHRUNK_MIN, high = widest;
    while (total > room && low < high) {
        size_t limit = low + (high - low + 1) / 2, sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += widths[i] < limit ? widths[i] : limit;
        if (sum <= room)
            low = limit;
        else
            high = limit - 1;
    }
    size_t left = room;
    for (size_t i = 0; total > room && i < count; i++) {
        widths[i] = widths[i] < low ? widths[i] : low;
        left -= widths[i];
    }
    /* The remainder goes to the first columns that were shrunk. */
    for (size_t i = 0; total > room && i < count && left > 0; i++) {
        if (widths[i] == low) {
            widths[i]++;
            left--;
        }
    }
    return true;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void add_blanks(struct bl_buffer *out, size_t count)
{
    for (; count > 0; count--)
        bl_buffer_append_byte(out, ' ');
}

static void add_bar(const struct text_wrap *frame, struct bl_text bar)
{
    bl_buffer_append(frame->out, frame->colours ? BL_TEXT("\x1b[90m") : BL_TEXT(""));
    bl_buffer_append(frame->out, bar);
    bl_buffer_append(frame->out, frame->colours ? BL_TEXT("\x1b[0m") : BL_TEXT(""));
}

static void add_aligned(struct bl_buffer *out, struct bl_text line, size_t width,
                        enum markdown_align align)
{
    size_t taken = text_line_width(line), spare = taken < width ? width - taken : 0;
    size_t before = align == MARKDOWN_RIGHT ? spare : align == MARKDOWN_CENTRE ? spare / 2 : 0;

    add_blanks(out, before);
    bl_buffer_append(out, line);
    add_blanks(out, spare - before);
}

static void end_table_line(const struct text_wrap *frame)
{
    while (frame->out->size > 0 && frame->out->data[frame->out->size - 1] == ' ')
        frame->out->size--;
    bl_buffer_append_byte(frame->out, '\n');
}

/* Writes the lines of the cells side by side. */
static void join_row(const struct markdown_table *table, const struct markdown_cell *cells,
                     size_t count, const struct bl_buffer *texts, const size_t *widths,
                     const struct text_wrap *frame, bool first)
{
    struct bl_text rests[MARKDOWN_TABLE_COLUMNS_MAX];
    bool more = true;

    for (size_t i = 0; i < count; i++)
        rests[i] = bl_buffer_text(&texts[i]);
    for (size_t row = 0; more; row++) {
        bl_buffer_append(frame->out, first && row == 0 ? frame->first_indent : frame->indent);
        more = false;
        for (size_t i = 0; i < table->column_count; i++) {
            struct bl_text line = {0};
            if (i > 0) {
                bl_buffer_append_byte(frame->out, ' ');
                add_bar(frame, BL_TEXT("│"));
                bl_buffer_append_byte(frame->out, ' ');
            }
            if (i < count)
                bl_text_split(&rests[i], '\n', &line);
            add_aligned(frame->out, line, widths[i], i < count ? cells[i].align : MARKDOWN_LEFT);
            more = more || (i < count && rests[i].size > 0);
        }
        end_table_line(frame);
    }
}

static void markdown_table_add_rule(const struct markdown_table *table, const size_t *widths,
                                    const struct text_wrap *frame)
{
    bl_buffer_append(frame->out, frame->indent);
    bl_buffer_append(frame->out, frame->colours ? BL_TEXT("\x1b[90m") : BL_TEXT(""));
    for (size_t i = 0; i < table->column_count; i++) {
        bl_buffer_append(frame->out, i > 0 ? BL_TEXT("─┼─") : BL_TEXT(""));
        for (size_t column = 0; column < widths[i]; column++)
            bl_buffer_append(frame->out, BL_TEXT("─"));
    }
    bl_buffer_append(frame->out, frame->colours ? BL_TEXT("\x1b[0m") : BL_TEXT(""));
    bl_buffer_append_byte(frame->out, '\n');
}

static void render_columns(const struct markdown_table *table, const size_t *widths,
                           const struct text_wrap *frame)
{
    struct bl_buffer texts[MARKDOWN_TABLE_COLUMNS_MAX];

    for (size_t i = 0; i < table->column_count; i++)
        bl_buffer_init(&texts[i], SIZE_MAX / 2);
    for (size_t from = 0; from < table->cell_count; from += table->column_count) {
        size_t count = table->cell_count - from;
        count = count < table->column_count ? count : table->column_count;
        for (size_t i = 0; i < count; i++) {
            bl_buffer_clear(&texts[i]);
            lay_out_cell(table, &table->cells[from + i], widths[i], frame->colours, &texts[i]);
        }
        join_row(table, &table->cells[from], count, texts, widths, frame, from == 0);
        if (from == 0)
            markdown_table_add_rule(table, widths, frame);
    }
    for (size_t i = 0; i < table->column_count; i++)
        bl_buffer_done(&texts[i]);
}

/* ---- Layout without room for columns --------------------------------------------------------- */

static void render_pairs(const struct markdown_table *table, const struct text_wrap *frame)
{
    static const struct text_style plain = {0};
    size_t columns = table->column_count;
    struct text_wrap wrap;

    text_wrap_init(&wrap, frame->out, frame->columns, frame->colours);
    wrap.first_indent = frame->first_indent;
    wrap.indent = frame->indent;
    wrap.indent_width = frame->indent_width;
    size_t from = table->cell_count > columns ? columns : 0;
    for (size_t i = from; i < table->cell_count; i++) {
        const struct markdown_cell *head = &table->cells[i % columns];
        if (i > from && i % columns == 0)
            text_wrap_add(&wrap, BL_TEXT("\n"), &plain);
        if (table->cells[i].run_count == 0)
            continue;
        if (i >= columns && head->run_count > 0) {
            add_runs(table, head, &wrap);
            text_wrap_add(&wrap, BL_TEXT(": "), &plain);
        }
        add_runs(table, &table->cells[i], &wrap);
        text_wrap_end_line(&wrap);
    }
    text_wrap_done(&wrap);
}

void markdown_table_render(const struct markdown_table *table, const struct text_wrap *frame)
{
    size_t widths[MARKDOWN_TABLE_COLUMNS_MAX];
    size_t separators = SEPARATOR_WIDTH * (table->column_count - 1);

    if (table->column_count == 0 || table->cell_count == 0)
        return;
    markdown_table_measure(table, widths);
    size_t taken = separators + frame->indent_width;
    if (taken < frame->columns &&
        markdown_table_fit(widths, table->column_count, frame->columns - taken))
        render_columns(table, widths, frame);
    else
        render_pairs(table, frame);
}
