/* Tokenizes a document by the rules of the HTML standard, as far as text needs them. Each byte is
 * examined a few times at most. */
#include <ctype.h>
#include <strings.h>

#include "web.h"

static bool html_is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r' || byte == '\f';
}

static void html_skip(struct bl_text *text, size_t size)
{
    text->data += size;
    text->size -= size;
}

/* Returns the size of the tag's name at the start of `text`, and stores the name in `out` in lower
 * case. */
static size_t html_read_name(struct bl_text text, char *out, size_t out_size)
{
    size_t size = 0;
    while (size < text.size && !html_is_space(text.data[size]) && text.data[size] != '/' &&
           text.data[size] != '>') {
        if (size < out_size - 1)
            out[size] = (char)tolower((unsigned char)text.data[size]);
        size++;
    }
    out[size < out_size - 1 ? size : out_size - 1] = '\0';
    return size;
}

/* Returns the size up to and including the '>' that ends a tag; a '>' in quotes does not. */
static size_t html_tag_size(struct bl_text text)
{
    char quote = '\0', before = '\0';
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (quote != '\0') {
            if (byte == quote)
                quote = '\0';
        } else if ((byte == '"' || byte == '\'') && before == '=') {
            quote = byte;
        } else if (byte == '>') {
            return i + 1;
        }
        if (!html_is_space(byte))
            before = byte;
    }
    return text.size;
}

/* Returns the size of a comment, a declaration or a processing instruction, from its '<' on. */
static size_t html_comment_size(struct bl_text text)
{
    if (bl_text_starts_with(text, BL_TEXT("<!--"))) {
        struct bl_text inside = {text.data + 4, text.size - 4};
        if (bl_text_starts_with(inside, BL_TEXT(">")))
            return 5;
        ptrdiff_t end = bl_text_find(inside, BL_TEXT("-->"));
        return end < 0 ? text.size : (size_t)end + 7;
    }
    const char *end = memchr(text.data, '>', text.size);
    return end == NULL ? text.size : (size_t)(end - text.data) + 1;
}

/* Returns the offset of "</name", or the size of the text if it is missing. */
static size_t html_raw_size(struct bl_text text, const char *name)
{
    size_t name_size = strlen(name);
    const char *from = text.data, *end = text.data + text.size;
    while ((from = memchr(from, '<', (size_t)(end - from))) != NULL) {
        size_t left = (size_t)(end - from);
        if (left >= name_size + 2 && from[1] == '/' &&
            strncasecmp(from + 2, name, name_size) == 0 &&
            (left == name_size + 2 || !isalnum((unsigned char)from[name_size + 2])))
            return (size_t)(from - text.data);
        from++;
    }
    return text.size;
}

static bool html_is_raw(const char *name)
{
    static const char *const names[] = {"script", "style",   "title",    "textarea",
                                        "iframe", "noembed", "noframes", "xmp"};
    for (size_t i = 0; i < BL_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* At a '<' that begins a tag. */
static void html_take_tag(struct html_reader *reader, bool closes, struct html_token *token)
{
    html_skip(&reader->rest, closes ? 2 : 1);
    html_skip(&reader->rest, html_read_name(reader->rest, token->name, sizeof token->name));
    size_t size = html_tag_size(reader->rest);
    bool ended = size > 0 && reader->rest.data[size - 1] == '>';
    token->type = closes ? HTML_CLOSE : HTML_OPEN;
    token->text = (struct bl_text){reader->rest.data, size - ended};
    html_skip(&reader->rest, size);
    if (!closes && html_is_raw(token->name))
        bl_text_into(reader->raw, sizeof reader->raw, token->name);
}

/* Takes the text up to the next '<' that may begin a tag or a comment. */
static void html_take_text(struct html_reader *reader, struct html_token *token)
{
    const char *from = reader->rest.size > 0 ? reader->rest.data + 1 : NULL;
    size_t left = reader->rest.size - 1;
    const char *next = left > 0 ? memchr(from, '<', left) : NULL;
    size_t size = next != NULL ? (size_t)(next - reader->rest.data) : reader->rest.size;
    token->type = HTML_TEXT;
    token->name[0] = '\0';
    token->text = (struct bl_text){reader->rest.data, size};
    html_skip(&reader->rest, size);
}

bool html_next(struct html_reader *reader, struct html_token *ret_token)
{
    while (reader->rest.size > 0) {
        struct bl_text rest = reader->rest;
        char after = rest.size > 1 ? rest.data[1] : '\0';
        if (reader->raw[0] != '\0') {
            size_t size = html_raw_size(rest, reader->raw);
            *ret_token = (struct html_token){.type = HTML_RAW, .text = {rest.data, size}};
            bl_text_into(ret_token->name, sizeof ret_token->name, reader->raw);
            reader->raw[0] = '\0';
            html_skip(&reader->rest, size);
            return true;
        }
        bool closes = after == '/' && rest.size > 2 && isalpha((unsigned char)rest.data[2]);
        if (rest.data[0] != '<' || (!closes && !isalpha((unsigned char)after) && after != '!' &&
                                    after != '?' && after != '/')) {
            html_take_text(reader, ret_token);
            return true;
        }
        if (closes || isalpha((unsigned char)after)) {
            html_take_tag(reader, closes, ret_token);
            return true;
        }
        html_skip(&reader->rest, html_comment_size(rest));
    }
    return false;
}

/* Takes the value at the start of `*rest`, which is just after the '='. */
static struct bl_text html_take_value(struct bl_text *rest)
{
    while (rest->size > 0 && html_is_space(rest->data[0]))
        html_skip(rest, 1);
    char quote = rest->size > 0 ? rest->data[0] : '\0';
    size_t size = 0;
    if (quote == '"' || quote == '\'') {
        html_skip(rest, 1);
        const char *end = rest->size > 0 ? memchr(rest->data, quote, rest->size) : NULL;
        size = end != NULL ? (size_t)(end - rest->data) : rest->size;
        struct bl_text value = {rest->data, size};
        html_skip(rest, size + (end != NULL));
        return value;
    }
    while (size < rest->size && !html_is_space(rest->data[size]))
        size++;
    struct bl_text value = {rest->data, size};
    html_skip(rest, size);
    return value;
}

bool html_attribute(const struct html_token *tag, const char *name, struct bl_text *ret_value)
{
    struct bl_text rest = tag->text;
    while (rest.size > 0) {
        size_t size = 0;
        if (html_is_space(rest.data[0]) || rest.data[0] == '/') {
            html_skip(&rest, 1);
            continue;
        }
        while (size < rest.size && !html_is_space(rest.data[size]) && rest.data[size] != '/' &&
               (rest.data[size] != '=' || size == 0))
            size++;
        struct bl_text found = {rest.data, size}, value = {0};
        html_skip(&rest, size);
        while (rest.size > 0 && html_is_space(rest.data[0]))
            html_skip(&rest, 1);
        if (rest.size > 0 && rest.data[0] == '=') {
            html_skip(&rest, 1);
            value = html_take_value(&rest);
        }
        if (found.size == strlen(name) && strncasecmp(found.data, name, found.size) == 0) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}
