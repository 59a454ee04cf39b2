/* Design notes. The parser's extension for bare addresses is not used: the version in Debian 12
 * recurses for each "@" (180 KB of stack, where a fiber has 64). Only an underline is needed, for
 * which markdown_find_address is enough. */
#include "markdown_parse.h"

#include <cmark-gfm-core-extensions.h>
#include <pthread.h>

/* ---- Before the parser ----------------------------------------------------------------------- */

static bool parse_is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool parse_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool parse_is_blank(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* `rest` begins with "<". Returns whether it may be a tag, a comment or the like instead of an
 * address. */
static bool parse_may_be_tag(struct bl_text rest)
{
    size_t at = 1;

    if (rest.size < 2)
        return false;
    if (rest.data[1] == '/' || rest.data[1] == '!' || rest.data[1] == '?')
        return true;
    if (!parse_is_letter(rest.data[1]))
        return false;
    while (at < rest.size && (parse_is_letter(rest.data[at]) || parse_is_digit(rest.data[at]) ||
                              rest.data[at] == '-'))
        at++;
    return at == rest.size || rest.data[at] == '>' || rest.data[at] == '/' ||
           parse_is_blank(rest.data[at]);
}

/* Returns whether only blanks and possible marks of containers precede it on its line. */
static bool parse_begins_line(struct bl_text text, size_t at)
{
    static const char marks[] = {'>', '*', '+', '-', '.', ')'};

    while (at > 0 && text.data[at - 1] != '\n') {
        char byte = text.data[--at];
        if (!parse_is_blank(byte) && !parse_is_digit(byte) &&
            memchr(marks, byte, sizeof marks) == NULL)
            return false;
    }
    return true;
}

static void parse_hide_tags(struct bl_text text, struct bl_buffer *out)
{
    bl_buffer_append(out, text);
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] == '<' &&
            parse_may_be_tag((struct bl_text){text.data + at, text.size - at}) &&
            parse_begins_line(text, at))
            out->data[at] = MARKDOWN_LESS;
        else if (text.data[at] == MARKDOWN_LESS)
            out->data[at] = '\x02'; /* shown as any other control character */
    }
}

/* The parser creates as many cells for each row as the head has. That number can be seen in the
 * line of dashes below the head, which has no letters. */
static bool parse_tables_fit(struct bl_text text)
{
    size_t lines = 0, bars_max = 0;
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        size_t bars = 0, letters = 0;
        for (size_t i = 0; i < line.size; i++) {
            bars += line.data[i] == '|';
            letters += parse_is_letter(line.data[i]);
        }
        lines++;
        if (letters == 0 && bars > bars_max)
            bars_max = bars;
    }
    return bars_max <= MARKDOWN_TABLE_COLUMNS_MAX + 1 &&
           bars_max * lines <= MARKDOWN_TABLE_CELLS_MAX;
}

/* ---- The parser ------------------------------------------------------------------------------ */

static void parse_register(void)
{
    cmark_gfm_core_extensions_ensure_registered();
}

static void parse_attach(cmark_parser *parser, const char *name)
{
    cmark_parser_attach_syntax_extension(parser, cmark_find_syntax_extension(name));
}

cmark_node *markdown_parse(struct bl_text text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct bl_buffer hidden;

    pthread_once(&once, parse_register);
    bl_buffer_init(&hidden, SIZE_MAX / 2);
    parse_hide_tags(text, &hidden);
    cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8);
    if (parse_tables_fit(text))
        parse_attach(parser, "table");
    parse_attach(parser, "strikethrough");
    parse_attach(parser, "tasklist");
    cmark_parser_feed(parser, hidden.size > 0 ? hidden.data : "", hidden.size);
    cmark_node *root = cmark_parser_finish(parser);
    cmark_parser_free(parser);
    bl_buffer_done(&hidden);
    cmark_consolidate_text_nodes(root);
    return root;
}

bool markdown_is_node(cmark_node *node, const char *name)
{
    return strcmp(cmark_node_get_type_string(node), name) == 0;
}

bool markdown_ends_in_code(struct bl_text text)
{
    BL_AUTO_BUFFER(probed, SIZE_MAX / 2);

    bl_buffer_append(&probed, text);
    bl_buffer_append(&probed, BL_TEXT("\nx\n"));
    cmark_node *root = markdown_parse(bl_buffer_text(&probed));
    cmark_node *last = cmark_node_last_child(root);
    bool code = last != NULL && cmark_node_get_type(last) == CMARK_NODE_CODE_BLOCK;
    cmark_node_free(root);
    return code;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Returns the size of the address without trailing punctuation, or an unmatched closing
 * parenthesis. */
static size_t parse_address_size(struct bl_text text)
{
    size_t size = 0, opened = 0, closed = 0;

    while (size < text.size && !parse_is_blank(text.data[size]) && text.data[size] != '<' &&
           text.data[size] != MARKDOWN_LESS) {
        opened += text.data[size] == '(';
        closed += text.data[size] == ')';
        size++;
    }
    while (size > 0 && (strchr("?!.,:;*_~'\"", text.data[size - 1]) != NULL ||
                        (text.data[size - 1] == ')' && closed > opened))) {
        closed -= text.data[size - 1] == ')';
        size--;
    }
    return size;
}

struct bl_text markdown_find_address(struct bl_text text)
{
    static const char *const starts[] = {"https://", "http://", "www."};
    bool inside = false; /* inside a word */

    for (size_t at = 0; at < text.size; at++) {
        struct bl_text rest = {text.data + at, text.size - at};
        for (size_t i = 0; !inside && i < BL_COUNT(starts); i++) {
            struct bl_text start = bl_text_from(starts[i]);
            rest.size = bl_text_starts_with(rest, start) ? parse_address_size(rest) : rest.size;
            if (bl_text_starts_with(rest, start) && rest.size > start.size)
                return rest;
        }
        inside = parse_is_letter(text.data[at]) || parse_is_digit(text.data[at]) ||
                 (unsigned char)text.data[at] >= 0x80;
    }
    return (struct bl_text){text.data + text.size, 0};
}
