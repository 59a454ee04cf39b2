/* Renders the tree of a text as lines.
 *
 * Line breaks are kept: in a terminal they are intentional. Raw HTML is text. Without colours, the
 * marks of emphasis, code and headings are kept. */
#include <cmark-gfm-core-extensions.h>

#include "markdown_render.h"

#define LABEL_INDENT "  "
#define CODE_INDENT  "    "
#define URL_MAX      ((size_t)4096)

/* ---- Text ------------------------------------------------------------------------------------ */

static struct text_style block_current_style(const struct markdown_renderer *renderer)
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

static void block_put_styled(struct markdown_renderer *renderer, struct bl_text text,
                             const struct text_style *style)
{
    if (renderer->cell_open) {
        markdown_table_add_text(&renderer->table, text, style);
        return;
    }
    markdown_open_leaf(renderer, "");
    text_wrap_add(&renderer->wrap, text, style);
}

static void block_put(struct markdown_renderer *renderer, struct bl_text text)
{
    struct text_style style = block_current_style(renderer);

    if (renderer->link > 0 && renderer->link_text.size < URL_MAX)
        bl_buffer_append(&renderer->link_text, text);
    block_put_styled(renderer, text, &style);
}

/* Puts a mark that replaces a style if there are no colours. */
static void block_put_mark(struct markdown_renderer *renderer, const char *mark)
{
    struct text_style style = block_current_style(renderer);

    if (!renderer->colours)
        block_put_styled(renderer, bl_text_from(mark), &style);
}

/* Returns a literal of the tree as it was written. */
static struct bl_text block_read_literal(const char *literal, struct bl_buffer *out)
{
    bl_buffer_clear(out);
    bl_buffer_append(out, bl_text_from(literal != NULL ? literal : ""));
    for (size_t i = 0; i < out->size; i++) {
        if (out->data[i] == MARKDOWN_LESS)
            out->data[i] = '<';
    }
    return bl_buffer_text(out);
}

static void block_read_address(const char *literal, struct bl_buffer *out)
{
    if (block_read_literal(literal, out).size > URL_MAX)
        bl_buffer_clear(out);
}

/* Returns the size of a line break tag at the start, or 0. */
static size_t block_break_size(struct bl_text html)
{
    static const char *const breaks[] = {"<br>", "<br/>", "<br />"};

    for (size_t i = 0; i < BL_COUNT(breaks); i++) {
        if (bl_text_starts_with(html, bl_text_from(breaks[i])))
            return strlen(breaks[i]);
    }
    return 0;
}

/* Puts text without markup; addresses in it look like links. */
static void block_put_prose(struct markdown_renderer *renderer, struct bl_text text)
{
    while (text.size > 0) {
        struct bl_text address = markdown_find_address(text);
        block_put(renderer, (struct bl_text){text.data, (size_t)(address.data - text.data)});
        renderer->link += address.size > 0 ? 1 : 0;
        block_put(renderer, address);
        renderer->link -= address.size > 0 ? 1 : 0;
        text.size -= (size_t)(address.data + address.size - text.data);
        text.data = address.data + address.size;
    }
}

/* The same, with line break tags that were hidden from the parser. */
static void block_put_text(struct markdown_renderer *renderer, const char *literal)
{
    struct bl_text text = block_read_literal(literal, &renderer->literal);

    for (size_t at = 0; at < text.size; at++) {
        size_t size = literal[at] == MARKDOWN_LESS
                          ? block_break_size((struct bl_text){text.data + at, text.size - at})
                          : 0;
        if (size == 0)
            continue;
        block_put_prose(renderer, (struct bl_text){text.data, at});
        block_put(renderer, BL_TEXT("\n"));
        text.data += at + size;
        text.size -= at + size;
        literal += at + size;
        at = (size_t)-1;
    }
    block_put_prose(renderer, text);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static void block_put_code_span(struct markdown_renderer *renderer, const char *literal)
{
    block_put_mark(renderer, "`");
    renderer->code_span++;
    block_put(renderer, block_read_literal(literal, &renderer->literal));
    renderer->code_span--;
    block_put_mark(renderer, "`");
}

static void block_put_html(struct markdown_renderer *renderer, const char *literal)
{
    struct bl_text html = block_read_literal(literal, &renderer->literal);
    size_t size = block_break_size(html);

    block_put(renderer, size > 0 && size == html.size ? BL_TEXT("\n") : html);
}

static void block_enter_emphasis(struct markdown_renderer *renderer, const char *mark,
                                 unsigned *depth)
{
    block_put_mark(renderer, mark);
    (*depth)++;
}

static void block_leave_emphasis(struct markdown_renderer *renderer, const char *mark,
                                 unsigned *depth)
{
    (*depth)--;
    block_put_mark(renderer, mark);
}

static void block_enter_link(struct markdown_renderer *renderer, cmark_node *node)
{
    bl_buffer_clear(&renderer->link_text);
    block_read_address(cmark_node_get_url(node), &renderer->link_url);
    renderer->link++;
}

static void block_enter_image(struct markdown_renderer *renderer, cmark_node *node)
{
    if (renderer->image++ > 0)
        return;
    block_read_address(cmark_node_get_url(node), &renderer->image_url);
    block_put(renderer, BL_TEXT("[image: "));
}

/* Puts " (address)", unless the text is the address already. */
static void block_put_address(struct markdown_renderer *renderer, struct bl_text text,
                              struct bl_text url)
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
    block_put_styled(renderer, BL_TEXT(" ("), &style);
    block_put_styled(renderer, url, &style);
    block_put_styled(renderer, BL_TEXT(")"), &style);
}

static void block_leave_link(struct markdown_renderer *renderer)
{
    if (--renderer->link == 0)
        block_put_address(renderer, bl_buffer_text(&renderer->link_text),
                          bl_buffer_text(&renderer->link_url));
}

static void block_leave_image(struct markdown_renderer *renderer)
{
    if (--renderer->image > 0)
        return;
    block_put(renderer, BL_TEXT("]"));
    block_put_address(renderer, (struct bl_text){0}, bl_buffer_text(&renderer->image_url));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void block_enter_heading(struct markdown_renderer *renderer, unsigned level)
{
    static const char marks[] = "###### ";

    markdown_begin_block(renderer);
    renderer->heading = level;
    block_put_mark(renderer, marks + 6 - (level < 6 ? level : 6));
}

/* Its first word names the language. */
static void block_add_label(struct markdown_renderer *renderer, const char *info)
{
    static const struct text_style style = {.dim = true};
    struct bl_text label = block_read_literal(info, &renderer->literal), language = {0};

    bl_text_split(&label, ' ', &language);
    if (language.size == 0)
        return;
    markdown_open_leaf(renderer, LABEL_INDENT);
    text_wrap_add(&renderer->wrap, language, &style);
    markdown_close_leaf(renderer);
}

/* Adds code to the lines, piece by piece. */
static void block_put_code(void *context, struct bl_text piece, const struct text_style *style)
{
    text_wrap_add_literal(context, piece, style);
}

static void block_put_code_line(struct text_wrap *wrap, struct highlight *code, struct bl_text line)
{
    static const struct text_style plain = {0};

    highlight_line(code, line, block_put_code, wrap);
    text_wrap_add_literal(wrap, BL_TEXT("\n"), &plain);
}

static void block_add_code(struct markdown_renderer *renderer, cmark_node *node)
{
    const char *info = cmark_node_get_fence_info(node);
    struct highlight highlight;
    struct bl_text line;

    markdown_begin_block(renderer);
    block_add_label(renderer, info);
    highlight_begin(&highlight, bl_text_from(info != NULL ? info : ""));
    struct bl_text code = block_read_literal(cmark_node_get_literal(node), &renderer->literal);
    if (code.size == 0)
        return;
    markdown_open_leaf(renderer, CODE_INDENT);
    while (bl_text_split(&code, '\n', &line))
        block_put_code_line(&renderer->wrap, &highlight, line);
    markdown_close_leaf(renderer);
}

static void block_add_rule(struct markdown_renderer *renderer)
{
    static const struct text_style style = {.colour = TEXT_GREY};

    markdown_begin_block(renderer);
    markdown_open_leaf(renderer, "");
    for (size_t i = renderer->wrap.indent_width; i < renderer->wrap.columns; i++)
        text_wrap_add_literal(&renderer->wrap, BL_TEXT("─"), &style);
    markdown_close_leaf(renderer);
}

static bool block_enter_table(struct markdown_renderer *renderer, cmark_node *node)
{
    size_t columns = cmark_gfm_extensions_get_table_columns(node);

    if (columns > MARKDOWN_TABLE_COLUMNS_MAX)
        return false;
    markdown_begin_block(renderer);
    markdown_table_init(&renderer->table, columns);
    renderer->table_open = true;
    return true;
}

static void block_leave_table(struct markdown_renderer *renderer)
{
    markdown_open_leaf(renderer, "");
    markdown_table_render(&renderer->table, &renderer->wrap);
    renderer->leaf = false;
    markdown_table_done(&renderer->table);
    renderer->table_open = false;
}

static bool block_enter_cell(struct markdown_renderer *renderer, cmark_node *node)
{
    cmark_node *row = cmark_node_parent(node);
    const uint8_t *aligns = cmark_gfm_extensions_get_table_alignments(cmark_node_parent(row));
    size_t column = renderer->table.cell_count % renderer->table.column_count;
    enum markdown_align align = aligns[column] == 'r'   ? MARKDOWN_RIGHT
                                : aligns[column] == 'c' ? MARKDOWN_CENTRE
                                                        : MARKDOWN_LEFT;

    renderer->cell_open = true;
    renderer->strong += cmark_gfm_extensions_get_table_row_is_header(row) ? 1 : 0;
    return markdown_table_add_cell(&renderer->table, align);
}

static void block_leave_cell(struct markdown_renderer *renderer, cmark_node *node)
{
    renderer->strong -=
        cmark_gfm_extensions_get_table_row_is_header(cmark_node_parent(node)) ? 1 : 0;
    renderer->cell_open = false;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* Returns false if it would take too much work. */
static bool block_enter_extension(struct markdown_renderer *renderer, cmark_node *node)
{
    if (markdown_is_node(node, "strikethrough"))
        block_enter_emphasis(renderer, "~~", &renderer->strike);
    else if (markdown_is_node(node, "table"))
        return block_enter_table(renderer, node);
    else if (markdown_is_node(node, "table_cell"))
        return block_enter_cell(renderer, node);
    return true;
}

static bool block_enter_node(struct markdown_renderer *renderer, cmark_node *node)
{
    switch ((int)cmark_node_get_type(node)) {
    case CMARK_NODE_DOCUMENT: break;
    case CMARK_NODE_BLOCK_QUOTE: markdown_enter_quote(renderer); break;
    case CMARK_NODE_LIST: markdown_enter_list(renderer, node); break;
    case CMARK_NODE_ITEM: markdown_enter_item(renderer, node); break;
    case CMARK_NODE_THEMATIC_BREAK: block_add_rule(renderer); break;
    case CMARK_NODE_HEADING:
        block_enter_heading(renderer, (unsigned)cmark_node_get_heading_level(node));
        break;
    case CMARK_NODE_CODE_BLOCK: block_add_code(renderer, node); break;
    case CMARK_NODE_HTML_BLOCK:
        markdown_begin_block(renderer);
        block_put_html(renderer, cmark_node_get_literal(node));
        markdown_close_leaf(renderer);
        break;
    case CMARK_NODE_PARAGRAPH: markdown_begin_block(renderer); break;
    case CMARK_NODE_TEXT: block_put_text(renderer, cmark_node_get_literal(node)); break;
    case CMARK_NODE_SOFTBREAK:
    case CMARK_NODE_LINEBREAK: block_put(renderer, BL_TEXT("\n")); break;
    case CMARK_NODE_CODE: block_put_code_span(renderer, cmark_node_get_literal(node)); break;
    case CMARK_NODE_HTML_INLINE: block_put_html(renderer, cmark_node_get_literal(node)); break;
    case CMARK_NODE_EMPH: block_enter_emphasis(renderer, "*", &renderer->emphasis); break;
    case CMARK_NODE_STRONG: block_enter_emphasis(renderer, "**", &renderer->strong); break;
    case CMARK_NODE_LINK: block_enter_link(renderer, node); break;
    case CMARK_NODE_IMAGE: block_enter_image(renderer, node); break;
    default: return block_enter_extension(renderer, node);
    }
    return true;
}

/* Called for nodes with children. */
static void block_leave_node(struct markdown_renderer *renderer, cmark_node *node)
{
    switch ((int)cmark_node_get_type(node)) {
    case CMARK_NODE_BLOCK_QUOTE:
    case CMARK_NODE_LIST:
    case CMARK_NODE_ITEM: markdown_leave_level(renderer); break;
    case CMARK_NODE_HEADING:
    case CMARK_NODE_PARAGRAPH:
        markdown_close_leaf(renderer);
        renderer->heading = 0;
        break;
    case CMARK_NODE_EMPH: block_leave_emphasis(renderer, "*", &renderer->emphasis); break;
    case CMARK_NODE_STRONG: block_leave_emphasis(renderer, "**", &renderer->strong); break;
    case CMARK_NODE_LINK: block_leave_link(renderer); break;
    case CMARK_NODE_IMAGE: block_leave_image(renderer); break;
    default:
        if (markdown_is_node(node, "strikethrough"))
            block_leave_emphasis(renderer, "~~", &renderer->strike);
        else if (markdown_is_node(node, "table"))
            block_leave_table(renderer);
        else if (markdown_is_node(node, "table_cell"))
            block_leave_cell(renderer, node);
    }
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static void block_init(struct markdown_renderer *renderer, size_t columns, bool colours,
                       struct bl_buffer *out)
{
    *renderer = (struct markdown_renderer){
        .out = out, .start = out->size, .columns = columns, .colours = colours};
    text_wrap_init(&renderer->wrap, out, columns, colours);
    bl_buffer_init(&renderer->first_indent, SIZE_MAX / 2);
    bl_buffer_init(&renderer->indent, SIZE_MAX / 2);
    bl_buffer_init(&renderer->link_text, SIZE_MAX / 2);
    bl_buffer_init(&renderer->link_url, SIZE_MAX / 2);
    bl_buffer_init(&renderer->image_url, SIZE_MAX / 2);
    bl_buffer_init(&renderer->literal, SIZE_MAX / 2);
}

static void block_done(struct markdown_renderer *renderer)
{
    text_wrap_done(&renderer->wrap);
    bl_buffer_done(&renderer->first_indent);
    bl_buffer_done(&renderer->indent);
    bl_buffer_done(&renderer->link_text);
    bl_buffer_done(&renderer->link_url);
    bl_buffer_done(&renderer->image_url);
    bl_buffer_done(&renderer->literal);
    if (renderer->table_open)
        markdown_table_done(&renderer->table);
    bl_free(renderer->levels);
}

/* Returns false if it would take too much work. */
static bool block_render_tree(struct markdown_renderer *renderer, cmark_node *root)
{
    cmark_iter *nodes = cmark_iter_new(root);
    cmark_event_type event;
    bool rendered = true;

    while (rendered && (event = cmark_iter_next(nodes)) != CMARK_EVENT_DONE) {
        if (event == CMARK_EVENT_ENTER)
            rendered = block_enter_node(renderer, cmark_iter_get_node(nodes));
        else
            block_leave_node(renderer, cmark_iter_get_node(nodes));
    }
    cmark_iter_free(nodes);
    return rendered;
}

void markdown_render(struct bl_text text, size_t columns, bool colours, struct bl_buffer *out)
{
    size_t start = out->size;
    struct markdown_renderer *renderer = bl_alloc(sizeof *renderer);

    block_init(renderer, columns, colours, out);
    cmark_node *root = markdown_parse(text);
    bool rendered = block_render_tree(renderer, root);
    cmark_node_free(root);
    block_done(renderer);
    bl_free(renderer);
    if (rendered)
        return;
    out->size = start;
    text_wrap_all(text, &(struct text_style){0}, columns, colours, out);
}

void markdown_render_code(struct bl_text line, struct highlight *code, size_t columns, bool colours,
                          struct bl_buffer *out)
{
    struct text_wrap wrap;

    text_wrap_init(&wrap, out, columns, colours);
    wrap.first_indent = wrap.indent = BL_TEXT(CODE_INDENT);
    wrap.indent_width = sizeof CODE_INDENT - 1;
    block_put_code_line(&wrap, code, line);
    text_wrap_done(&wrap);
}
