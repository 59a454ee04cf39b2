/* Design notes. One pass over the tokens, without a tree. Output due before the next text (line
 * ends, a space, the marks of lists and quotes) is owed, and written when text comes: so empty
 * elements leave nothing behind. Unclosed elements do no harm: depths are counted, bounded, and
 * never trusted. */
#include <stdio.h>

#include "web.h"

#define LISTS_MAX  8u
#define QUOTES_MAX 6u
/* Longer addresses are not meant for readers. */
#define LINK_MAX ((size_t)2000)
/* Tokens between two checks for a stop. */
#define LOOK_EVERY 512u

struct html_list {
    bool numbered;
    unsigned item;
};

struct html_page {
    struct html_reader reader;
    struct bl_buffer *out;
    struct bl_buffer decoded; /* the current text */
    struct bl_arena arena;    /* of one address */
    const char *base;
    unsigned owed_ends; /* line ends before the next text: 0, 1 or 2 */
    bool owed_space;    /* a space before it */
    bool line_open;     /* the current line has text */
    unsigned lists;     /* depth; levels above LISTS_MAX count as the last one */
    unsigned quotes;    /* of <blockquote>, at most QUOTES_MAX */
    struct html_list list[LISTS_MAX];
    char mark[16];    /* of a list item or a heading, owed to the first text */
    unsigned pre;     /* depth of <pre> */
    bool pre_begun;   /* it has text */
    bool row_begun;   /* the row of a table has a cell */
    size_t link_from; /* where the text of a link begins; SIZE_MAX if no link is open */
    char link[LINK_MAX + 1];
    unsigned dropped;  /* depth of the skipped element */
    char dropping[12]; /* its name; empty if none is skipped */
};

/* ---- Writing --------------------------------------------------------------------------------- */

static void html_put(struct html_page *page, const char *text)
{
    bl_buffer_append(page->out, bl_text_from(text));
}

/* Begins a line: quote marks, the indent of lists, an owed mark. */
static void html_begin_line(struct html_page *page)
{
    for (unsigned i = 0; i < page->quotes; i++)
        html_put(page, "> ");
    unsigned depth = page->lists < LISTS_MAX ? page->lists : LISTS_MAX;
    bool marked = page->mark[0] != '\0' && page->mark[0] != '#';
    for (unsigned i = marked ? 1 : 0; i < depth; i++)
        html_put(page, "  ");
    html_put(page, page->mark);
    page->mark[0] = '\0';
    page->line_open = true;
}

static void html_owe_ends(struct html_page *page, unsigned ends)
{
    page->owed_space = false;
    if (page->out->size > 0 && ends > page->owed_ends)
        page->owed_ends = ends;
}

/* Writes everything owed before a text. */
static void html_pay(struct html_page *page)
{
    bool in_link = page->link_from == page->out->size;
    unsigned ends = page->owed_ends;
    if (ends > 0) {
        for (; ends > 0; ends--)
            bl_buffer_append_byte(page->out, '\n');
        page->line_open = false;
    }
    if (!page->line_open)
        html_begin_line(page);
    else if (page->owed_space)
        bl_buffer_append_byte(page->out, ' ');
    page->owed_ends = 0;
    page->owed_space = false;
    /* The bracket goes after the owed output. */
    if (in_link) {
        page->link_from = page->out->size;
        bl_buffer_append_byte(page->out, '[');
    }
}

static bool html_is_invisible(uint32_t code_point)
{
    return bl_utf8_unsafe(code_point) || code_point == 0xAD || code_point == 0x200B ||
           (code_point >= 0xE0000 && code_point < 0xE0080);
}

static bool html_is_blank(uint32_t code_point)
{
    return code_point == ' ' || (code_point >= '\t' && code_point <= '\r') || code_point == 0xA0;
}

/* Writes text in which white space is significant. */
static void html_write_pre(struct html_page *page, struct bl_text text)
{
    uint32_t code_point;
    size_t size;
    for (; text.size > 0; text = (struct bl_text){text.data + size, text.size - size}) {
        size = bl_utf8_decode(text, &code_point);
        if (size == 0)
            size = 1;
        /* The first line end belongs to the tag. */
        if (code_point == '\n' && !page->pre_begun) {
            page->pre_begun = true;
            continue;
        }
        page->pre_begun = true;
        if (code_point == '\n')
            bl_buffer_append_byte(page->out, '\n');
        else if (code_point == '\t' || !html_is_invisible(code_point))
            bl_buffer_append(page->out, (struct bl_text){text.data, size});
    }
}

static void html_write_words(struct html_page *page, struct bl_text text)
{
    uint32_t code_point;
    size_t size;
    for (; text.size > 0; text = (struct bl_text){text.data + size, text.size - size}) {
        size = bl_utf8_decode(text, &code_point);
        if (size == 0)
            size = 1;
        if (html_is_blank(code_point)) {
            page->owed_space = page->line_open && page->owed_ends == 0;
            continue;
        }
        if (html_is_invisible(code_point))
            continue;
        if (page->owed_space || page->owed_ends > 0 || !page->line_open ||
            page->link_from == page->out->size)
            html_pay(page);
        bl_buffer_append(page->out, (struct bl_text){text.data, size});
    }
}

static void html_write_text(struct html_page *page, struct bl_text text)
{
    bl_buffer_clear(&page->decoded);
    entity_decode(text, false, &page->decoded);
    if (page->pre > 0)
        html_write_pre(page, bl_buffer_text(&page->decoded));
    else
        html_write_words(page, bl_buffer_text(&page->decoded));
}

/* ---- Links ----------------------------------------------------------------------------------- */

static void html_close_link(struct html_page *page)
{
    size_t from = page->link_from;
    page->link_from = SIZE_MAX;
    /* A link without text is dropped. */
    if (from == SIZE_MAX || from >= page->out->size)
        return;
    bl_buffer_printf(page->out, "](%s)", page->link);
}

static void html_open_link(struct html_page *page, const struct html_token *tag)
{
    struct bl_text written;
    html_close_link(page);
    if (page->pre > 0 || !html_attribute(tag, "href", &written) || written.size > LINK_MAX)
        return;
    bl_buffer_clear(&page->decoded);
    entity_decode(written, true, &page->decoded);
    written = bl_text_trim(bl_buffer_text(&page->decoded));
    if (written.size == 0 || written.data[0] == '#')
        return;
    struct bl_text address = web_address(&page->arena, page->base, written);
    if (address.size > 0 && address.size <= LINK_MAX) {
        bl_text_into(page->link, sizeof page->link, address.data);
        page->link_from = page->out->size;
    }
    bl_arena_reset(&page->arena);
}

static void html_show_image(struct html_page *page, const struct html_token *tag)
{
    struct bl_text alternative;
    if (!html_attribute(tag, "alt", &alternative) || bl_text_trim(alternative).size == 0)
        return;
    html_write_words(page, BL_TEXT("[image: "));
    bl_buffer_clear(&page->decoded);
    entity_decode(bl_text_trim(alternative), true, &page->decoded);
    html_write_words(page, bl_buffer_text(&page->decoded));
    html_write_words(page, BL_TEXT("]"));
}

/* ---- Elements -------------------------------------------------------------------------------- */

static void html_heading(struct html_page *page, const struct html_token *tag, bool opens)
{
    size_t level = (size_t)(tag->name[1] - '0');
    html_owe_ends(page, 2);
    page->mark[0] = '\0';
    if (opens) {
        memset(page->mark, '#', level);
        bl_text_into(page->mark + level, sizeof page->mark - level, " ");
    }
}

static void html_paragraph(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    (void)opens;
    html_owe_ends(page, page->lists > 0 || page->row_begun ? 1 : 2);
}

static void html_block(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    (void)opens;
    html_owe_ends(page, 1);
}

static void html_break(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    if (!opens)
        return;
    if (page->pre > 0)
        html_write_pre(page, BL_TEXT("\n"));
    else if (page->owed_ends < 2)
        html_owe_ends(page, page->owed_ends + 1);
}

static void html_rule(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    if (!opens)
        return;
    html_owe_ends(page, 2);
    html_write_words(page, BL_TEXT("---"));
    html_owe_ends(page, 2);
}

static void html_list(struct html_page *page, const struct html_token *tag, bool opens)
{
    if (opens) {
        if (page->lists < LISTS_MAX)
            page->list[page->lists] = (struct html_list){.numbered = tag->name[0] == 'o'};
        page->lists++;
        html_owe_ends(page, page->lists > 1 ? 1 : 2);
        return;
    }
    if (page->lists > 0)
        page->lists--;
    page->mark[0] = '\0';
    html_owe_ends(page, page->lists > 0 ? 1 : 2);
}

static void html_item(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    html_owe_ends(page, 1);
    page->mark[0] = '\0';
    if (!opens)
        return;
    struct html_list *list =
        page->lists > 0 && page->lists <= LISTS_MAX ? &page->list[page->lists - 1] : NULL;
    if (list != NULL && list->numbered)
        snprintf(page->mark, sizeof page->mark, "%u. ", ++list->item % 1000000);
    else
        bl_text_into(page->mark, sizeof page->mark, "- ");
}

static void html_quote(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    html_owe_ends(page, 2);
    if (opens && page->quotes < QUOTES_MAX)
        page->quotes++;
    else if (!opens && page->quotes > 0)
        page->quotes--;
}

static void html_pre(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    if (opens && page->pre++ > 0)
        return;
    if (!opens && (page->pre == 0 || --page->pre > 0))
        return;
    if (opens) {
        html_close_link(page);
        html_owe_ends(page, 2);
        html_pay(page);
        html_put(page, "```\n");
        page->pre_begun = false;
        return;
    }
    if (page->out->size > 0 && page->out->data[page->out->size - 1] != '\n')
        bl_buffer_append_byte(page->out, '\n');
    html_put(page, "```");
    html_owe_ends(page, 2);
}

static void html_code(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    if (page->pre > 0)
        return;
    if (opens)
        html_write_words(page, BL_TEXT("`"));
    else
        bl_buffer_append_byte(page->out, '`');
}

static void html_row(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    (void)opens;
    html_owe_ends(page, 1);
    page->row_begun = false;
}

static void html_cell(struct html_page *page, const struct html_token *tag, bool opens)
{
    (void)tag;
    if (!opens)
        return;
    if (page->row_begun && page->line_open) {
        page->owed_ends = 0;
        page->owed_space = true;
        html_write_words(page, BL_TEXT("|"));
        page->owed_space = true;
    }
    page->row_begun = true;
}

static void html_table(struct html_page *page, const struct html_token *tag, bool opens)
{
    page->row_begun = false;
    html_paragraph(page, tag, opens);
}

static void html_link(struct html_page *page, const struct html_token *tag, bool opens)
{
    if (opens)
        html_open_link(page, tag);
    else
        html_close_link(page);
}

static void html_image(struct html_page *page, const struct html_token *tag, bool opens)
{
    if (opens && page->pre == 0)
        html_show_image(page, tag);
}

static const struct html_element {
    const char *name;
    void (*handle)(struct html_page *page, const struct html_token *tag, bool opens);
} html_elements[] = {
    {"a", html_link},           {"address", html_block},     {"article", html_paragraph},
    {"aside", html_paragraph},  {"blockquote", html_quote},  {"br", html_break},
    {"caption", html_block},    {"code", html_code},         {"dd", html_block},
    {"div", html_block},        {"dl", html_paragraph},      {"dt", html_block},
    {"fieldset", html_block},   {"figcaption", html_block},  {"figure", html_paragraph},
    {"footer", html_paragraph}, {"form", html_block},        {"h1", html_heading},
    {"h2", html_heading},       {"h3", html_heading},        {"h4", html_heading},
    {"h5", html_heading},       {"h6", html_heading},        {"header", html_paragraph},
    {"hr", html_rule},          {"img", html_image},         {"legend", html_block},
    {"li", html_item},          {"main", html_paragraph},    {"nav", html_paragraph},
    {"ol", html_list},          {"option", html_block},      {"p", html_paragraph},
    {"pre", html_pre},          {"section", html_paragraph}, {"summary", html_block},
    {"table", html_table},      {"td", html_cell},           {"th", html_cell},
    {"tr", html_row},           {"ul", html_list},
};

/* ---- Skipped elements ------------------------------------------------------------------------ */

static bool html_is_hidden(const struct html_token *tag)
{
    struct bl_text value;
    if (html_attribute(tag, "hidden", &value))
        return true;
    if (!html_attribute(tag, "style", &value))
        return false;
    ptrdiff_t at = bl_text_find(value, BL_TEXT("display"));
    if (at < 0)
        return false;
    value = bl_text_trim((struct bl_text){value.data + at + 7, value.size - (size_t)at - 7});
    if (!bl_text_starts_with(value, BL_TEXT(":")))
        return false;
    value = bl_text_trim((struct bl_text){value.data + 1, value.size - 1});
    return bl_text_starts_with(value, BL_TEXT("none"));
}

static bool html_is_one_of(const char *name, const char *const *list)
{
    while (*list != NULL && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static bool html_is_dropped(const struct html_token *tag)
{
    static const char *const names[] = {"svg",   "template", "object",   "canvas", "audio",
                                        "video", "math",     "datalist", NULL};
    static const char *const shown[] = {"br",    "hr",    "img",  "input", "meta",   "wbr",
                                        "link",  "col",   "base", "area",  "source", "track",
                                        "embed", "param", "html", "body",  NULL};
    return html_is_one_of(tag->name, names) ||
           (!html_is_one_of(tag->name, shown) && html_is_hidden(tag));
}

static bool html_closes_itself(const struct html_token *tag)
{
    return bl_text_ends_with(tag->text, BL_TEXT("/"));
}

/* Returns true inside a skipped element, until its end. Some elements end where the next of their
 * kind begins. */
static bool html_drop(struct html_page *page, const struct html_token *token)
{
    static const char *const open_ended[] = {"p",  "li", "dt", "dd", "option",
                                             "tr", "td", "th", NULL};
    if (page->dropping[0] == '\0')
        return false;
    if (strcmp(token->name, page->dropping) == 0) {
        if (token->type == HTML_OPEN && html_is_one_of(token->name, open_ended)) {
            page->dropping[0] = '\0';
            return false;
        }
        if (token->type == HTML_OPEN && !html_closes_itself(token))
            page->dropped++;
        else if (token->type == HTML_CLOSE && --page->dropped == 0)
            page->dropping[0] = '\0';
    }
    return true;
}

/* ---- The document ---------------------------------------------------------------------------- */

static void html_take_raw(struct html_page *page, const struct html_token *token)
{
    bool title = strcmp(token->name, "title") == 0;
    if (title && page->out->size == 0) {
        html_write_words(page, BL_TEXT("Title: "));
        html_write_text(page, token->text);
        html_owe_ends(page, 2);
    } else if (strcmp(token->name, "textarea") == 0 || strcmp(token->name, "xmp") == 0) {
        html_write_text(page, token->text);
    }
}

static void html_take_base(struct html_page *page, const struct html_token *tag,
                           struct bl_arena *arena)
{
    struct bl_text written;
    if (!html_attribute(tag, "href", &written) || written.size > LINK_MAX)
        return;
    struct bl_text address = web_address(arena, page->base, written);
    if (address.size > 0)
        page->base = address.data;
}

static void html_handle_tag(struct html_page *page, const struct html_token *token)
{
    bool opens = token->type == HTML_OPEN;
    if (opens && html_is_dropped(token)) {
        if (html_closes_itself(token))
            return;
        bl_text_into(page->dropping, sizeof page->dropping, token->name);
        page->dropped = 1;
        return;
    }
    for (size_t i = 0; i < BL_COUNT(html_elements); i++) {
        if (strcmp(html_elements[i].name, token->name) != 0)
            continue;
        html_elements[i].handle(page, token, opens);
        return;
    }
}

bool html_render(struct bl_text html, const char *base, const atomic_bool *stopped,
                 struct bl_buffer *out)
{
    struct html_page *page = bl_zalloc(sizeof *page);
    struct html_token token;
    unsigned count = 0;
    bool based = false, whole = true;
    BL_AUTO_ARENA(arena);
    page->reader.rest = html;
    page->out = out;
    page->base = base;
    page->link_from = SIZE_MAX;
    bl_buffer_init(&page->decoded, SIZE_MAX);
    while (whole && html_next(&page->reader, &token)) {
        whole = out->size < out->maximum - LINK_MAX * 2 &&
                (++count % LOOK_EVERY != 0 || !atomic_load(stopped));
        if (html_drop(page, &token))
            continue;
        if (token.type == HTML_TEXT)
            html_write_text(page, token.text);
        else if (token.type == HTML_RAW)
            html_take_raw(page, &token);
        else if (strcmp(token.name, "base") == 0 && !based)
            html_take_base(page, &token, &arena), based = true;
        else
            html_handle_tag(page, &token);
    }
    html_close_link(page);
    while (page->pre > 0)
        html_pre(page, &token, false);
    if (page->line_open)
        bl_buffer_append_byte(out, '\n');
    bl_buffer_done(&page->decoded);
    bl_arena_done(&page->arena);
    bl_free(page);
    return whole;
}
