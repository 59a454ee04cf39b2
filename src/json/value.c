#include <belay/value.h>

/* ---- Errors ---- */

int bl_value_fail_at(struct bl_value_reader *reader, const struct bl_json *node, const char *format,
                     ...)
{
    struct bl_document_place place = bl_document_place(&reader->document, node);
    struct bl_buffer text;
    va_list arguments;

    bl_buffer_init(&text, 16384);
    if (reader->guarded)
        bl_buffer_printf(&text, "%s:%u:%u: ", reader->file, place.line, place.column);
    else
        bl_buffer_printf(&text, "line %u, column %u: ", place.line, place.column);
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    int result = bl_error_set(reader->error, BL_EPARSE, BL_KIND_PARSE, reader->operation,
                              reader->file, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return result;
}

const char *bl_value_show(struct bl_text text, char out[BL_VALUE_SHOWN_SIZE])
{
    struct bl_text start = bl_utf8_cut(text, BL_VALUE_SHOWN_SIZE - 1);

    for (size_t i = 0; i < start.size; i++) {
        unsigned char byte = (unsigned char)start.data[i];
        out[i] = byte < 0x20 || byte == 0x7f ? '?' : start.data[i];
    }
    out[start.size] = '\0';
    return out;
}

/* Adds what may stand here: the nearest word, or all of them. */
static void hint_words(struct bl_value_reader *reader, struct bl_text word,
                       const char *const *words)
{
    struct bl_suggestion suggestion;
    struct bl_buffer all;

    bl_suggestion_init(&suggestion, word.data != NULL ? word.data : "");
    for (size_t i = 0; words[i] != NULL; i++)
        bl_suggestion_offer(&suggestion, words[i]);
    if (suggestion.best != NULL) {
        bl_error_hint(reader->error, "did you mean '%s'?", suggestion.best);
        return;
    }
    bl_buffer_init(&all, 1024);
    for (size_t i = 0; words[i] != NULL; i++)
        bl_buffer_printf(&all, "%s%s", i > 0 ? ", " : "", words[i]);
    bl_error_hint(reader->error, "what it may be: " BL_TEXT_FORMAT,
                  BL_TEXT_ARG(bl_buffer_text(&all)));
    bl_buffer_done(&all);
}

int bl_value_read_document(struct bl_value_reader *reader, struct bl_arena *arena,
                           struct bl_text source, size_t size_max)
{
    struct bl_json_limits limits = {.size_max = size_max, .refuse_duplicates = true};
    struct bl_json_fault fault = {0};
    char where[256];
    int result = bl_document_read(arena, source, &limits, &reader->document, &fault);

    if (result == 0)
        return 0;
    if (reader->guarded)
        return bl_error_set(reader->error, result, BL_KIND_PARSE, reader->operation, reader->file,
                            "%s:%u:%u: expected %s", reader->file, fault.line, fault.column,
                            fault.expected != NULL ? fault.expected : "a document");
    bl_json_fault_text(&fault, where, sizeof where);
    return bl_error_set(reader->error, result, BL_KIND_PARSE, reader->operation, reader->file, "%s",
                        where);
}

/* ---- Values ---- */

const char *bl_value_type(const struct bl_json *value)
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

static int json_value_read_string(struct bl_value_reader *reader, const struct bl_json *value,
                                  const char *name, struct bl_text *ret_text)
{
    *ret_text = bl_json_text(value);
    if (bl_json_is(value, BL_JSON_STRING))
        return 0;
    int result =
        bl_value_fail_at(reader, value, "%s must be text, is %s", name, bl_value_type(value));
    if (!bl_json_is(value, BL_JSON_ARRAY) && !bl_json_is(value, BL_JSON_OBJECT))
        bl_error_hint(reader->error, "put quotes around it");
    return result;
}

int bl_value_read_text(struct bl_value_reader *reader, const struct bl_json *key,
                       struct bl_text *ret_text)
{
    return json_value_read_string(reader, key + 1, key->string, ret_text);
}

int bl_value_read_line(struct bl_value_reader *reader, const struct bl_json *value,
                       const char *name, const char **ret_text)
{
    struct bl_text text;
    int result = json_value_read_string(reader, value, name, &text);

    if (result == 0 && text.size == 0)
        result = bl_value_fail_at(reader, value, "%s must not be empty", name);
    for (size_t i = 0; result == 0 && i < text.size; i++) {
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
            result = bl_value_fail_at(reader, value, "%s holds a control character", name);
    }
    if (result == 0)
        *ret_text = text.data;
    return result;
}

int bl_value_read_boolean(struct bl_value_reader *reader, const struct bl_json *key,
                          bool *ret_value)
{
    const struct bl_json *value = key + 1;

    if (!bl_json_is(value, BL_JSON_BOOLEAN))
        return bl_value_fail_at(reader, value, "%s must be true or false, is %s", key->string,
                                bl_value_type(value));
    *ret_value = value->boolean;
    return 0;
}

int bl_value_read_duration(struct bl_value_reader *reader, const struct bl_json *key,
                           int64_t least_ns, uint64_t *ret_ns)
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
    if (result == 0 && ns >= least_ns) {
        *ret_ns = (uint64_t)ns;
        return 0;
    }
    bool told = detail.message[0] != '\0' && !reader->guarded;
    bl_value_fail_at(reader, value, "%s must be a duration%s%s%s", key->string,
                     least_ns > 0 ? " above zero" : ", zero or more", told ? ": " : "",
                     told ? detail.message : "");
    bl_error_hint(reader->error, "like %s; a number alone is seconds",
                  least_ns > 0 ? "500ms, 90s or 15m" : "20ms, 1.5s or 2m");
    return BL_EPARSE;
}

int bl_value_read_choice(struct bl_value_reader *reader, const struct bl_json *key,
                         const char *const *words, size_t *ret_index)
{
    struct bl_text text;
    char shown[BL_VALUE_SHOWN_SIZE];
    int result = bl_value_read_text(reader, key, &text);

    if (result != 0)
        return result;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (bl_text_equal(text, bl_text_from(words[i]))) {
            *ret_index = i;
            return 0;
        }
    }
    if (reader->guarded)
        result = bl_value_fail_at(reader, key + 1, "%s is none of those there are", key->string);
    else
        result = bl_value_fail_at(reader, key + 1, "%s is not known: '%s'", key->string,
                                  bl_value_show(text, shown));
    hint_words(reader, text, words);
    return result;
}

/* ---- Mappings ---- */

int bl_value_read_members(struct bl_value_reader *reader, const struct bl_json *mapping,
                          const char *what, const char *const *names, bl_value_member *read,
                          void *out)
{
    char shown[BL_VALUE_SHOWN_SIZE];

    if (!bl_json_is(mapping, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, mapping, "%s must be a mapping, is %s", what,
                                bl_value_type(mapping));
    BL_JSON_MEMBERS (key, mapping) {
        size_t which = 0;
        while (names[which] != NULL &&
               !bl_text_equal(bl_json_text(key), bl_text_from(names[which])))
            which++;
        if (names[which] == NULL) {
            int result = bl_value_fail_at(reader, key, "%s has no key '%s'", what,
                                          bl_value_show(bl_json_text(key), shown));
            hint_words(reader, bl_json_text(key), names);
            return result;
        }
        int result = read(reader, which, key, out);
        if (result != 0)
            return result;
    }
    return 0;
}
