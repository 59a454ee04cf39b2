/* The character sets of the web, by the labels of its Encoding Standard that are in use. Text in a
 * set that the system's iconv does not support is read as UTF-8. */
#include <ctype.h>
#include <errno.h>
#include <iconv.h>

#include "web.h"

/* size of the part of a document that is searched for its character set */
#define META_MAX  ((size_t)1024)
#define LABEL_MAX ((size_t)40)
#define PIECE     ((size_t)16 * 1024)

/* Labels are in lower case; `name` is iconv's name. */
static const struct charset {
    const char *label;
    const char *name;
} charsets[] = {
    {"utf-8", "UTF-8"},
    {"utf8", "UTF-8"},
    {"us-ascii", "WINDOWS-1252"},
    {"ascii", "WINDOWS-1252"},
    {"iso-8859-1", "WINDOWS-1252"},
    {"iso8859-1", "WINDOWS-1252"},
    {"latin1", "WINDOWS-1252"},
    {"windows-1252", "WINDOWS-1252"},
    {"cp1252", "WINDOWS-1252"},
    {"iso-8859-2", "ISO-8859-2"},
    {"iso-8859-5", "ISO-8859-5"},
    {"iso-8859-7", "ISO-8859-7"},
    {"iso-8859-8", "ISO-8859-8"},
    {"iso-8859-9", "WINDOWS-1254"},
    {"iso-8859-15", "ISO-8859-15"},
    {"windows-1250", "WINDOWS-1250"},
    {"windows-1251", "WINDOWS-1251"},
    {"windows-1253", "WINDOWS-1253"},
    {"windows-1254", "WINDOWS-1254"},
    {"windows-1255", "WINDOWS-1255"},
    {"windows-1256", "WINDOWS-1256"},
    {"koi8-r", "KOI8-R"},
    {"koi8-u", "KOI8-U"},
    {"shift_jis", "SHIFT_JIS"},
    {"shift-jis", "SHIFT_JIS"},
    {"euc-jp", "EUC-JP"},
    {"gb2312", "GB18030"},
    {"gbk", "GB18030"},
    {"gb18030", "GB18030"},
    {"big5", "BIG5"},
    {"euc-kr", "EUC-KR"},
    {"utf-16", "UTF-16LE"},
    {"utf-16le", "UTF-16LE"},
    {"utf-16be", "UTF-16BE"},
};

/* Returns NULL if the label is unknown. */
static const char *charset_find(struct bl_text label)
{
    char word[LABEL_MAX + 1] = "";
    if (label.size > LABEL_MAX)
        return NULL;
    for (size_t i = 0; i < label.size; i++)
        word[i] = (char)tolower((unsigned char)label.data[i]);
    for (size_t i = 0; i < BL_COUNT(charsets); i++)
        if (strcmp(charsets[i].label, word) == 0)
            return charsets[i].name;
    return NULL;
}

/* Removes a byte order mark and returns its character set, or NULL if there is none. */
static const char *charset_mark(struct bl_text *bytes)
{
    static const struct {
        struct bl_text mark;
        const char *name;
    } marks[] = {{BL_TEXT("\xEF\xBB\xBF"), "UTF-8"},
                 {BL_TEXT("\xFF\xFE"), "UTF-16LE"},
                 {BL_TEXT("\xFE\xFF"), "UTF-16BE"}};
    for (size_t i = 0; i < BL_COUNT(marks); i++) {
        if (!bl_text_starts_with(*bytes, marks[i].mark))
            continue;
        *bytes =
            (struct bl_text){bytes->data + marks[i].mark.size, bytes->size - marks[i].mark.size};
        return marks[i].name;
    }
    return NULL;
}

/* Returns "utf-8" for "text/html; charset=utf-8", also in quotes; empty if no character set is
 * named. */
static struct bl_text charset_value(struct bl_text text)
{
    static const char name[] = "charset";
    for (size_t at = 0; at + sizeof name < text.size; at++) {
        size_t i = 0;
        while (i < sizeof name - 1 && tolower((unsigned char)text.data[at + i]) == name[i])
            i++;
        if (i < sizeof name - 1)
            continue;
        struct bl_text rest =
            bl_text_trim((struct bl_text){text.data + at + i, text.size - at - i});
        if (rest.size == 0 || rest.data[0] != '=')
            continue;
        rest = bl_text_trim((struct bl_text){rest.data + 1, rest.size - 1});
        while (rest.size > 0 && (rest.data[0] == '"' || rest.data[0] == '\''))
            rest = (struct bl_text){rest.data + 1, rest.size - 1};
        size_t size = 0;
        while (size < rest.size && (isalnum((unsigned char)rest.data[size]) ||
                                    memchr("-_:.", rest.data[size], 4) != NULL))
            size++;
        return (struct bl_text){rest.data, size};
    }
    return (struct bl_text){0};
}

static struct bl_text charset_meta(struct bl_text bytes)
{
    struct html_reader reader = {
        .rest = {bytes.data, bytes.size < META_MAX ? bytes.size : META_MAX}};
    struct html_token token;
    while (html_next(&reader, &token)) {
        struct bl_text label = {0};
        if (token.type != HTML_OPEN || strcmp(token.name, "meta") != 0)
            continue;
        if (!html_attribute(&token, "charset", &label)) {
            struct bl_text content = {0};
            if (html_attribute(&token, "content", &content))
                label = charset_value(content);
        }
        if (label.size > 0)
            return bl_text_trim(label);
    }
    return (struct bl_text){0};
}

/* ---- Decoding -------------------------------------------------------------------------------- */

static void charset_append_valid(struct bl_text text, struct bl_buffer *out, bool *broken)
{
    while (text.size > 0) {
        size_t good = bl_utf8_valid_prefix(text, NULL);
        bl_buffer_append(out, (struct bl_text){text.data, good});
        if (good == text.size)
            return;
        bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        *broken = true;
        text = (struct bl_text){text.data + good + 1, text.size - good - 1};
    }
}

/* NUL is not a valid character of a text. */
static void charset_append(struct bl_text text, struct bl_buffer *out, bool *broken)
{
    while (text.size > 0) {
        const char *nul = memchr(text.data, '\0', text.size);
        size_t size = nul != NULL ? (size_t)(nul - text.data) : text.size;
        charset_append_valid((struct bl_text){text.data, size}, out, broken);
        if (nul != NULL) {
            bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
            *broken = true;
            size++;
        }
        text = (struct bl_text){text.data + size, text.size - size};
    }
}

static void charset_convert(iconv_t converter, struct bl_text bytes, struct bl_buffer *out,
                            bool *broken)
{
    char *piece = bl_alloc(PIECE);
    char *in = (char *)(uintptr_t)bytes.data;
    size_t in_left = bytes.size;
    while (in_left > 0) {
        char *to = piece;
        size_t to_left = PIECE;
        size_t before = in_left;
        size_t result = iconv(converter, &in, &in_left, &to, &to_left);
        int code = errno;
        charset_append((struct bl_text){piece, PIECE - to_left}, out, broken);
        if (result != (size_t)-1 || (code == E2BIG && in_left < before))
            continue;
        /* An invalid byte, or an incomplete character at the end. */
        bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        *broken = true;
        in++;
        in_left--;
        iconv(converter, NULL, NULL, NULL, NULL);
    }
    bl_free(piece);
}

void charset_decode(struct bl_text bytes, struct bl_text label, bool html, struct bl_buffer *out,
                    struct charset_reading *ret_reading)
{
    *ret_reading = (struct charset_reading){.name = charset_mark(&bytes)};
    struct bl_text said = charset_value(label);
    bool metal = said.size == 0 && html && ret_reading->name == NULL;
    if (metal)
        said = charset_meta(bytes);
    if (ret_reading->name == NULL && said.size > 0) {
        ret_reading->name = charset_find(said);
        /* A <meta> that could be read was not in UTF-16. */
        if (metal && ret_reading->name != NULL && memcmp(ret_reading->name, "UTF-16", 6) == 0)
            ret_reading->name = "UTF-8";
        if (ret_reading->name == NULL)
            ret_reading->unknown = bl_utf8_cut(said, LABEL_MAX);
    }
    if (ret_reading->name == NULL)
        ret_reading->name = "UTF-8";
    iconv_t converter = (iconv_t)-1;
    if (strcmp(ret_reading->name, "UTF-8") != 0) {
        converter = iconv_open("UTF-8", ret_reading->name);
        if (converter == (iconv_t)-1) {
            ret_reading->unknown = bl_text_from(ret_reading->name);
            ret_reading->name = "UTF-8";
        }
    }
    if (converter == (iconv_t)-1) {
        charset_append(bytes, out, &ret_reading->broken);
        return;
    }
    charset_convert(converter, bytes, out, &ret_reading->broken);
    iconv_close(converter);
}
