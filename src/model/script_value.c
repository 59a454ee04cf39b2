#include "script.h"

#define SHOWN_SIZE 64u

/* ---- Errors ---- */

/* Fails at `node`; `format` goes on after "line 3, column 5: ". */
int script_fail_at(struct script_parser *parser, const struct bl_json *node, const char *format,
                   ...)
{
    struct bl_document_place place = bl_document_place(&parser->document, node);
    struct bl_buffer text;
    va_list arguments;

    bl_buffer_init(&text, 4096);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    int result = bl_error_set(parser->error, BL_EPARSE, BL_KIND_PARSE, SCRIPT_OPERATION,
                              parser->name, "line %u, column %u: " BL_TEXT_FORMAT, place.line,
                              place.column, BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return result;
}

/* The beginning of what stands in the script, without what terminals obey. */
static const char *show(struct bl_text text, char out[SHOWN_SIZE])
{
    struct bl_text start = bl_utf8_cut(text, SHOWN_SIZE - 1);

    for (size_t i = 0; i < start.size; i++) {
        unsigned char byte = (unsigned char)start.data[i];
        out[i] = byte < 0x20 || byte == 0x7f ? '?' : start.data[i];
    }
    out[start.size] = '\0';
    return out;
}

/* Adds what may stand here: the nearest word, or all of them. */
static void hint_words(struct script_parser *parser, struct bl_text word, const char *const *words)
{
    struct bl_suggestion suggestion;
    struct bl_buffer all;

    bl_suggestion_init(&suggestion, word.data != NULL ? word.data : "");
    for (size_t i = 0; words[i] != NULL; i++)
        bl_suggestion_offer(&suggestion, words[i]);
    if (suggestion.best != NULL) {
        bl_error_hint(parser->error, "did you mean '%s'?", suggestion.best);
        return;
    }
    bl_buffer_init(&all, 1024);
    for (size_t i = 0; words[i] != NULL; i++)
        bl_buffer_printf(&all, "%s%s", i > 0 ? ", " : "", words[i]);
    bl_error_hint(parser->error, "what it may be: " BL_TEXT_FORMAT,
                  BL_TEXT_ARG(bl_buffer_text(&all)));
    bl_buffer_done(&all);
}

/* ---- Values ---- */

const char *script_type(const struct bl_json *value)
{
    switch (bl_json_type(value)) {
    case BL_JSON_NULL: return "empty";
    case BL_JSON_BOOLEAN: return "a boolean";
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED: return "an integer";
    case BL_JSON_DOUBLE: return "a number";
    case BL_JSON_STRING: return "text";
    case BL_JSON_ARRAY: return "a list";
    case BL_JSON_OBJECT: return "a mapping";
    case BL_JSON_END: break;
    }
    return "nothing";
}

static bool is_scalar(const struct bl_json *value)
{
    return !bl_json_is(value, BL_JSON_ARRAY) && !bl_json_is(value, BL_JSON_OBJECT);
}

int script_read_text(struct script_parser *parser, const struct bl_json *key,
                     struct bl_text *ret_text)
{
    const struct bl_json *value = key + 1;

    if (!bl_json_is(value, BL_JSON_STRING)) {
        int result = script_fail_at(parser, value, "%s must be text, is %s", key->string,
                                    script_type(value));
        if (is_scalar(value))
            bl_error_hint(parser->error, "put quotes around it");
        return result;
    }
    *ret_text = bl_json_text(value);
    return 0;
}

int script_read_count(struct script_parser *parser, const struct bl_json *key, int64_t least,
                      int64_t most, uint64_t *ret_count)
{
    const struct bl_json *value = key + 1;
    int64_t count;

    if (!bl_json_int64(value, &count) || count < least || count > most)
        return script_fail_at(parser, value, "%s must be an integer from %lld to %lld", key->string,
                              (long long)least, (long long)most);
    *ret_count = (uint64_t)count;
    return 0;
}

int script_read_boolean(struct script_parser *parser, const struct bl_json *key, bool *ret_value)
{
    const struct bl_json *value = key + 1;

    if (!bl_json_is(value, BL_JSON_BOOLEAN))
        return script_fail_at(parser, value, "%s must be true or false, is %s", key->string,
                              script_type(value));
    *ret_value = value->boolean;
    return 0;
}

/* Text as "20ms", or a number of seconds. */
int script_read_duration(struct script_parser *parser, const struct bl_json *key, uint64_t *ret_ns)
{
    const struct bl_json *value = key + 1;
    struct bl_error detail = {0};
    double seconds;
    int64_t ns;
    int result = BL_EPARSE;

    if (bl_json_is(value, BL_JSON_STRING))
        result = bl_duration_parse(bl_json_text(value), &ns, &detail);
    else if (bl_json_double(value, &seconds))
        result = bl_duration_from_seconds(seconds, &ns, &detail);
    if (result == 0 && ns >= 0) {
        *ret_ns = (uint64_t)ns;
        return 0;
    }
    script_fail_at(parser, value, "%s must be a duration, zero or more%s%s", key->string,
                   detail.message[0] != '\0' ? ": " : "", detail.message);
    bl_error_hint(parser->error, "like 20ms, 1.5s or 2m; a number alone is seconds");
    return BL_EPARSE;
}

/* The index of the text's word in a list that ends in NULL. */
int script_read_choice(struct script_parser *parser, const struct bl_json *key,
                       const char *const *words, size_t *ret_index)
{
    struct bl_text text;
    char shown[SHOWN_SIZE];
    int result = script_read_text(parser, key, &text);

    if (result != 0)
        return result;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (bl_text_equal(text, bl_text_from(words[i]))) {
            *ret_index = i;
            return 0;
        }
    }
    result =
        script_fail_at(parser, key + 1, "%s is not known: '%s'", key->string, show(text, shown));
    hint_words(parser, text, words);
    return result;
}

/* ---- Mappings ---- */

/* Reads the members of a mapping: `names` (ends in NULL) has the keys in the order of the cases
 * that `read` knows. */
int script_read_members(struct script_parser *parser, const struct bl_json *mapping,
                        const char *what, const char *const *names,
                        int (*read)(struct script_parser *parser, size_t which,
                                    const struct bl_json *key, void *out),
                        void *out)
{
    if (!bl_json_is(mapping, BL_JSON_OBJECT))
        return script_fail_at(parser, mapping, "%s must be a mapping, is %s", what,
                              script_type(mapping));
    BL_JSON_MEMBERS (key, mapping) {
        size_t which = 0;
        while (names[which] != NULL &&
               !bl_text_equal(bl_json_text(key), bl_text_from(names[which])))
            which++;
        if (names[which] == NULL) {
            char shown[SHOWN_SIZE];
            int result = script_fail_at(parser, key, "%s has no key '%s'", what,
                                        show(bl_json_text(key), shown));
            hint_words(parser, bl_json_text(key), names);
            return result;
        }
        int result = read(parser, which, key, out);
        if (result != 0)
            return result;
    }
    return 0;
}
