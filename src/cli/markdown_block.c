/* What md4c tells of a text becomes lines.
 *
 * Design notes. Containers (quotes, lists, items) are levels; each has a mark for its first line
 * and blanks or a bar for the others. What stands in them is a leaf: laid out by text_wrap behind
 * the marks of all levels. Where blocks are set off by an empty line it is only noted at first, and
 * written before the next line, if there is one.
 *
 * Line breaks stay where they are: who writes to a terminal means them. Raw HTML is text. Without
 * colours the marks of emphasis, code and headings stay. */
#include <md4c.h>
#include <stdio.h>

#include "chat.h"

#define LABEL_INDENT "  "
#define CODE_INDENT  "    "
#define URL_MAX      ((size_t)4096)

struct level {
    enum {
        LEVEL_QUOTE,
        LEVEL_LIST,
        LEVEL_ITEM,
    } type;
    bool filled; /* something stands in it: what comes next is set off */
    bool tight;  /* of a list and its items: that is not set off */
    bool begun;  /* its first line was written */
    bool ordered;
    char delimiter;
    unsigned number;
    char mark[32]; /* before the first line */
    char rest[32]; /* before the others; as wide */
    size_t width;
};

struct renderer {
    struct bl_buffer *out;
    size_t start; /* of `out`, when it began */
    size_t columns;
    bool colours;
    struct level *levels;
    size_t level_count, level_capacity;
    bool gap; /* an empty line is due */
    size_t gap_levels;
    struct text_wrap wrap;
    bool leaf; /* `wrap` is in use */
    struct bl_buffer first_indent, indent;
    unsigned strong, emphasis, strike, code_span, link, image, heading;
    bool code_block;
    struct bl_buffer link_text, link_url, image_url;
    bool table_open, cell_open;
    struct markdown_table table;
};

/* ---- Levels and lines ------------------------------------------------------------------------ */

static struct level *top_level(struct renderer *renderer)
{
    return renderer->level_count == 0 ? NULL : &renderer->levels[renderer->level_count - 1];
}

static void push_level(struct renderer *renderer, struct level level)
{
    if (renderer->level_count == renderer->level_capacity) {
        renderer->level_capacity = renderer->level_capacity * 2 + 8;
        renderer->levels =
            bl_realloc(renderer->levels, renderer->level_capacity * sizeof *renderer->levels);
    }
    renderer->levels[renderer->level_count++] = level;
}

/* The marks of the first `count` levels; of those that leave too little room, none. */
static size_t add_marks(struct renderer *renderer, size_t count, bool rest, struct bl_buffer *out)
{
    size_t width = 0;

    for (size_t i = 0; i < count; i++) {
        const struct level *level = &renderer->levels[i];
        if (width + level->width > renderer->columns / 2)
            break;
        bl_buffer_append(out, bl_text_from(rest || level->begun ? level->rest : level->mark));
        width += level->width;
    }
    return width;
}

static void write_gap(struct renderer *renderer)
{
    struct bl_buffer *out = renderer->out;

    if (!renderer->gap)
        return;
    renderer->gap = false;
    if (out->size == renderer->start)
        return;
    size_t levels = renderer->gap_levels;
    add_marks(renderer, levels < renderer->level_count ? levels : renderer->level_count, true, out);
    while (out->size > renderer->start && out->data[out->size - 1] == ' ')
        out->size--;
    bl_buffer_append_byte(out, '\n');
}

static void open_leaf(struct renderer *renderer, const char *more)
{
    if (renderer->leaf)
        return;
    write_gap(renderer);
    bl_buffer_clear(&renderer->first_indent);
    bl_buffer_clear(&renderer->indent);
    size_t count = renderer->level_count;
    size_t width = add_marks(renderer, count, false, &renderer->first_indent);
    add_marks(renderer, count, true, &renderer->indent);
    bl_buffer_append(&renderer->first_indent, bl_text_from(more));
    bl_buffer_append(&renderer->indent, bl_text_from(more));
    renderer->wrap.first_indent = bl_buffer_text(&renderer->first_indent);
    renderer->wrap.indent = bl_buffer_text(&renderer->indent);
    renderer->wrap.indent_width = width + strlen(more);
    renderer->wrap.first_done = false;
    renderer->leaf = true;
    for (size_t i = 0; i < count; i++)
        renderer->levels[i].begun = true;
}

static void close_leaf(struct renderer *renderer)
{
    if (renderer->leaf)
        text_wrap_end_line(&renderer->wrap);
    renderer->leaf = false;
}

/* Something begins within the innermost level: is it set off from what is there? */
static void begin_block(struct renderer *renderer)
{
    struct level *parent = top_level(renderer);

    close_leaf(renderer);
    /* At the outermost level all blocks are; write_gap knows the first. */
    if (!renderer->gap && (parent == NULL || (parent->filled && !parent->tight))) {
        renderer->gap = true;
        renderer->gap_levels = renderer->level_count;
    }
    if (parent != NULL)
        parent->filled = true;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static struct text_style current_style(const struct renderer *renderer)
{
    struct text_style style = {.bold = renderer->strong > 0 || renderer->heading > 0,
                               .italic = renderer->emphasis > 0,
                               .strike = renderer->strike > 0,
                               .underline = renderer->link > 0 || renderer->heading == 1};
    if (renderer->code_span > 0)
        style.colour = TEXT_CYAN;
    else if (renderer->link > 0)
        style.colour = TEXT_BLUE;
    return style;
}

static void put_styled(struct renderer *renderer, struct bl_text text,
                       const struct text_style *style)
{
    if (renderer->cell_open) {
        markdown_table_add_text(&renderer->table, text, style);
        return;
    }
    if (!renderer->leaf) {
        struct level *parent = top_level(renderer);
        /* In a tight list the text stands in its item, without a paragraph around it. */
        if (parent != NULL)
            parent->filled = true;
    }
    open_leaf(renderer, "");
    text_wrap_add(&renderer->wrap, text, style);
}

static void put(struct renderer *renderer, struct bl_text text)
{
    struct text_style style = current_style(renderer);

    if (renderer->link > 0 && renderer->link_text.size < URL_MAX)
        bl_buffer_append(&renderer->link_text, text);
    put_styled(renderer, text, &style);
}

/* A mark that stands for a style where there are none. */
static void put_mark(struct renderer *renderer, const char *mark)
{
    struct text_style style = current_style(renderer);

    if (!renderer->colours)
        put_styled(renderer, bl_text_from(mark), &style);
}

static void read_attribute(const MD_ATTRIBUTE *attribute, struct bl_buffer *out)
{
    char character[4];

    bl_buffer_clear(out);
    for (size_t i = 0; attribute->size > 0 && attribute->substr_offsets[i] < attribute->size; i++) {
        struct bl_text part = {attribute->text + attribute->substr_offsets[i],
                               attribute->substr_offsets[i + 1] - attribute->substr_offsets[i]};
        if (attribute->substr_types[i] == MD_TEXT_ENTITY)
            part = markdown_entity(part, character);
        if (out->size + part.size <= URL_MAX)
            bl_buffer_append(out, part);
    }
}

/* Line breaks and what looks like them. */
static bool is_break(struct bl_text html)
{
    return bl_text_equal(html, BL_TEXT("<br>")) || bl_text_equal(html, BL_TEXT("<br/>")) ||
           bl_text_equal(html, BL_TEXT("<br />"));
}

static int take_text(MD_TEXTTYPE type, const MD_CHAR *data, MD_SIZE size, void *context)
{
    static const struct text_style plain = {0};
    struct renderer *renderer = context;
    struct bl_text text = {data, size};
    char character[4];

    if (renderer->code_block) {
        open_leaf(renderer, CODE_INDENT);
        text_wrap_add_literal(&renderer->wrap, type == MD_TEXT_NULLCHAR ? BL_TEXT("\0") : text,
                              &plain);
        return 0;
    }
    switch (type) {
    case MD_TEXT_NORMAL: put(renderer, text); break;
    case MD_TEXT_NULLCHAR: put(renderer, BL_TEXT("\0")); break;
    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR: put(renderer, BL_TEXT("\n")); break;
    case MD_TEXT_ENTITY: put(renderer, markdown_entity(text, character)); break;
    case MD_TEXT_HTML: put(renderer, is_break(text) ? BL_TEXT("\n") : text); break;
    case MD_TEXT_CODE:
    case MD_TEXT_LATEXMATH: put(renderer, text); break;
    }
    return 0;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static int enter_span(MD_SPANTYPE type, void *detail, void *context)
{
    struct renderer *renderer = context;

    switch (type) {
    case MD_SPAN_EM:
        put_mark(renderer, "*");
        renderer->emphasis++;
        break;
    case MD_SPAN_STRONG:
        put_mark(renderer, "**");
        renderer->strong++;
        break;
    case MD_SPAN_DEL:
        put_mark(renderer, "~~");
        renderer->strike++;
        break;
    case MD_SPAN_CODE:
        put_mark(renderer, "`");
        renderer->code_span++;
        break;
    case MD_SPAN_A:
        bl_buffer_clear(&renderer->link_text);
        read_attribute(&((const MD_SPAN_A_DETAIL *)detail)->href, &renderer->link_url);
        renderer->link++;
        break;
    case MD_SPAN_IMG:
        if (renderer->image++ > 0)
            break;
        read_attribute(&((const MD_SPAN_IMG_DETAIL *)detail)->src, &renderer->image_url);
        put(renderer, BL_TEXT("[image: "));
        break;
    case MD_SPAN_LATEXMATH:
    case MD_SPAN_LATEXMATH_DISPLAY:
    case MD_SPAN_WIKILINK:
    case MD_SPAN_U: break;
    }
    return 0;
}

/* " (address)", unless the text says it already. */
static void put_address(struct renderer *renderer, struct bl_text text, struct bl_text url)
{
    static const struct text_style style = {.dim = true};
    static const char *const schemes[] = {"", "mailto:", "http://", "https://"};

    for (size_t i = 0; i < BL_COUNT(schemes); i++) {
        struct bl_text scheme = bl_text_from(schemes[i]), rest = url;
        if (!bl_text_starts_with(url, scheme))
            continue;
        rest.data += scheme.size;
        rest.size -= scheme.size;
        if (rest.size == 0 || bl_text_equal(rest, text))
            return;
    }
    put_styled(renderer, BL_TEXT(" ("), &style);
    put_styled(renderer, url, &style);
    put_styled(renderer, BL_TEXT(")"), &style);
}

static int leave_span(MD_SPANTYPE type, void *detail, void *context)
{
    struct renderer *renderer = context;

    (void)detail;
    switch (type) {
    case MD_SPAN_EM:
        renderer->emphasis--;
        put_mark(renderer, "*");
        break;
    case MD_SPAN_STRONG:
        renderer->strong--;
        put_mark(renderer, "**");
        break;
    case MD_SPAN_DEL:
        renderer->strike--;
        put_mark(renderer, "~~");
        break;
    case MD_SPAN_CODE:
        renderer->code_span--;
        put_mark(renderer, "`");
        break;
    case MD_SPAN_A:
        if (--renderer->link == 0)
            put_address(renderer, bl_buffer_text(&renderer->link_text),
                        bl_buffer_text(&renderer->link_url));
        break;
    case MD_SPAN_IMG:
        if (--renderer->image > 0)
            break;
        put(renderer, BL_TEXT("]"));
        put_address(renderer, (struct bl_text){0}, bl_buffer_text(&renderer->image_url));
        break;
    case MD_SPAN_LATEXMATH:
    case MD_SPAN_LATEXMATH_DISPLAY:
    case MD_SPAN_WIKILINK:
    case MD_SPAN_U: break;
    }
    return 0;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void enter_quote(struct renderer *renderer)
{
    struct level level = {.type = LEVEL_QUOTE, .width = 2};

    begin_block(renderer);
    bl_text_into(level.mark, sizeof level.mark, renderer->colours ? "\x1b[90m│\x1b[0m " : "│ ");
    memcpy(level.rest, level.mark, sizeof level.rest);
    push_level(renderer, level);
}

static void enter_list(struct renderer *renderer, const MD_BLOCK_OL_DETAIL *ordered, bool tight)
{
    struct level level = {.type = LEVEL_LIST, .tight = tight, .ordered = ordered != NULL};

    begin_block(renderer);
    if (ordered != NULL) {
        level.number = ordered->start;
        level.delimiter = ordered->mark_delimiter;
    }
    push_level(renderer, level);
}

static void enter_item(struct renderer *renderer, const MD_BLOCK_LI_DETAIL *detail)
{
    struct level item = {.type = LEVEL_ITEM, .tight = top_level(renderer)->tight};
    unsigned depth = 0;

    begin_block(renderer);
    struct level *list = top_level(renderer);
    for (size_t i = 0; i < renderer->level_count; i++)
        depth += renderer->levels[i].type == LEVEL_LIST && !renderer->levels[i].ordered;
    if (list->ordered)
        snprintf(item.mark, sizeof item.mark, "%u%c ", list->number++, list->delimiter);
    else
        bl_text_into(item.mark, sizeof item.mark, depth % 2 == 1 ? "• " : "◦ ");
    if (detail->is_task)
        bl_text_into(item.mark, sizeof item.mark, detail->task_mark == ' ' ? "[ ] " : "[x] ");
    item.width = text_width(bl_text_from(item.mark));
    memset(item.rest, ' ', item.width);
    push_level(renderer, item);
}

static void leave_level(struct renderer *renderer)
{
    struct level *level = top_level(renderer);

    close_leaf(renderer);
    /* An item without anything in it is an item all the same. */
    if (level->type == LEVEL_ITEM && !level->begun) {
        open_leaf(renderer, "");
        text_wrap_add(&renderer->wrap, BL_TEXT("\n"), &(struct text_style){0});
        close_leaf(renderer);
    }
    renderer->level_count--;
}

static void enter_heading(struct renderer *renderer, unsigned level)
{
    static const char marks[] = "###### ";

    begin_block(renderer);
    renderer->heading = level;
    put_mark(renderer, marks + 6 - (level < 6 ? level : 6));
}

static void enter_code(struct renderer *renderer, const MD_BLOCK_CODE_DETAIL *detail)
{
    static const struct text_style style = {.dim = true};
    struct bl_buffer language;

    begin_block(renderer);
    bl_buffer_init(&language, SIZE_MAX / 2);
    read_attribute(&detail->lang, &language);
    if (language.size > 0) {
        open_leaf(renderer, LABEL_INDENT);
        text_wrap_add(&renderer->wrap, bl_buffer_text(&language), &style);
        close_leaf(renderer);
    }
    bl_buffer_done(&language);
    renderer->code_block = true;
}

static void add_rule(struct renderer *renderer)
{
    static const struct text_style style = {.colour = TEXT_GREY};

    begin_block(renderer);
    open_leaf(renderer, "");
    for (size_t i = renderer->wrap.indent_width; i < renderer->wrap.columns; i++)
        text_wrap_add_literal(&renderer->wrap, BL_TEXT("─"), &style);
    close_leaf(renderer);
}

static int enter_table(struct renderer *renderer, const MD_BLOCK_TABLE_DETAIL *detail)
{
    if (detail->col_count > MARKDOWN_TABLE_COLUMNS_MAX)
        return BL_ELIMIT;
    begin_block(renderer);
    markdown_table_init(&renderer->table, detail->col_count);
    renderer->table_open = true;
    return 0;
}

static void leave_table(struct renderer *renderer)
{
    open_leaf(renderer, "");
    markdown_table_render(&renderer->table, &renderer->wrap);
    renderer->leaf = false;
    markdown_table_done(&renderer->table);
    renderer->table_open = false;
}

static int enter_cell(struct renderer *renderer, const MD_BLOCK_TD_DETAIL *detail, bool head)
{
    enum markdown_align align = detail->align == MD_ALIGN_RIGHT    ? MARKDOWN_RIGHT
                                : detail->align == MD_ALIGN_CENTER ? MARKDOWN_CENTRE
                                                                   : MARKDOWN_LEFT;
    renderer->cell_open = true;
    renderer->strong += head ? 1 : 0;
    return markdown_table_add_cell(&renderer->table, align) ? 0 : BL_ELIMIT;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *context)
{
    struct renderer *renderer = context;

    switch (type) {
    case MD_BLOCK_QUOTE: enter_quote(renderer); break;
    case MD_BLOCK_UL:
        enter_list(renderer, NULL, ((const MD_BLOCK_UL_DETAIL *)detail)->is_tight != 0);
        break;
    case MD_BLOCK_OL:
        enter_list(renderer, detail, ((const MD_BLOCK_OL_DETAIL *)detail)->is_tight != 0);
        break;
    case MD_BLOCK_LI: enter_item(renderer, detail); break;
    case MD_BLOCK_HR: add_rule(renderer); break;
    case MD_BLOCK_H: enter_heading(renderer, ((const MD_BLOCK_H_DETAIL *)detail)->level); break;
    case MD_BLOCK_CODE: enter_code(renderer, detail); break;
    case MD_BLOCK_HTML:
    case MD_BLOCK_P: begin_block(renderer); break;
    case MD_BLOCK_TABLE: return enter_table(renderer, detail);
    case MD_BLOCK_TH: return enter_cell(renderer, detail, true);
    case MD_BLOCK_TD: return enter_cell(renderer, detail, false);
    case MD_BLOCK_DOC:
    case MD_BLOCK_THEAD:
    case MD_BLOCK_TBODY:
    case MD_BLOCK_TR: break;
    }
    return 0;
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *context)
{
    struct renderer *renderer = context;

    (void)detail;
    switch (type) {
    case MD_BLOCK_QUOTE:
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
    case MD_BLOCK_LI: leave_level(renderer); break;
    case MD_BLOCK_H:
    case MD_BLOCK_CODE:
    case MD_BLOCK_HTML:
    case MD_BLOCK_P:
        close_leaf(renderer);
        renderer->code_block = false;
        renderer->heading = 0;
        break;
    case MD_BLOCK_TABLE: leave_table(renderer); break;
    case MD_BLOCK_TH:
        renderer->strong--;
        renderer->cell_open = false;
        break;
    case MD_BLOCK_TD: renderer->cell_open = false; break;
    case MD_BLOCK_HR:
    case MD_BLOCK_DOC:
    case MD_BLOCK_THEAD:
    case MD_BLOCK_TBODY:
    case MD_BLOCK_TR: break;
    }
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void renderer_init(struct renderer *renderer, size_t columns, bool colours,
                          struct bl_buffer *out)
{
    *renderer =
        (struct renderer){.out = out, .start = out->size, .columns = columns, .colours = colours};
    text_wrap_init(&renderer->wrap, out, columns, colours);
    bl_buffer_init(&renderer->first_indent, SIZE_MAX / 2);
    bl_buffer_init(&renderer->indent, SIZE_MAX / 2);
    bl_buffer_init(&renderer->link_text, SIZE_MAX / 2);
    bl_buffer_init(&renderer->link_url, SIZE_MAX / 2);
    bl_buffer_init(&renderer->image_url, SIZE_MAX / 2);
}

static void renderer_done(struct renderer *renderer)
{
    text_wrap_done(&renderer->wrap);
    bl_buffer_done(&renderer->first_indent);
    bl_buffer_done(&renderer->indent);
    bl_buffer_done(&renderer->link_text);
    bl_buffer_done(&renderer->link_url);
    bl_buffer_done(&renderer->image_url);
    if (renderer->table_open)
        markdown_table_done(&renderer->table);
    bl_free(renderer->levels);
}

void markdown_render(struct bl_text text, size_t columns, bool colours, struct bl_buffer *out)
{
    static const MD_PARSER parser = {.flags = MARKDOWN_FLAGS,
                                     .enter_block = enter_block,
                                     .leave_block = leave_block,
                                     .enter_span = enter_span,
                                     .leave_span = leave_span,
                                     .text = take_text};
    size_t start = out->size;
    struct renderer *renderer = bl_alloc(sizeof *renderer);

    renderer_init(renderer, columns, colours, out);
    bool rendered =
        text.size <= UINT32_MAX / 2 &&
        md_parse(text.size > 0 ? text.data : "", (MD_SIZE)text.size, &parser, renderer) == 0;
    renderer_done(renderer);
    bl_free(renderer);
    if (rendered)
        return;
    out->size = start;
    text_wrap_all(text, &(struct text_style){0}, columns, colours, out);
}

void markdown_render_code(struct bl_text line, size_t columns, bool colours, struct bl_buffer *out)
{
    static const struct text_style plain = {0};
    struct text_wrap wrap;

    text_wrap_init(&wrap, out, columns, colours);
    wrap.first_indent = wrap.indent = BL_TEXT(CODE_INDENT);
    wrap.indent_width = sizeof CODE_INDENT - 1;
    text_wrap_add_literal(&wrap, line, &plain);
    text_wrap_add_literal(&wrap, BL_TEXT("\n"), &plain);
    text_wrap_done(&wrap);
}
