/* Documents that people write: their values may have units, and their faults have a place. */
#include "record.h"

#include <strings.h>

#include "json/document/document.h"

/* ---- Documents ------------------------------------------------------------------------------- */

/* Truncates a long path to leave room for the message. */
static struct bl_text source_shown_file(const struct bl_source *source)
{
    return bl_utf8_cut(bl_text_from(source->file), 160);
}

int bl_source_open(struct bl_source *source, struct bl_arena *arena, struct bl_text text,
                   size_t size_max)
{
    struct bl_json_limits limits = {.size_max = size_max, .refuse_duplicates = true};
    struct bl_json_fault fault = {0};
    int code = bl_document_read(arena, text, &limits, &source->document, &fault);

    if (code == 0)
        return 0;
    bool shown = !source->guarded;
    return bl_error_set(source->error, code, BL_KIND_PARSE, source->operation, source->file,
                        BL_TEXT_FORMAT ":%u:%u: expected %s%s%s%s%s%s",
                        BL_TEXT_ARG(source_shown_file(source)), fault.line, fault.column,
                        fault.expected, shown ? ", found " : "", shown ? fault.found : "",
                        shown ? " near `" : "", shown ? fault.excerpt : "", shown ? "`" : "");
}

int bl_source_fail(struct bl_source *source, const struct bl_json *node, const char *format, ...)
{
    struct bl_document_place place = bl_document_place(&source->document, node);
    BL_AUTO_BUFFER(text, 16384);
    va_list arguments;

    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    bl_error_set(source->error, BL_EPARSE, BL_KIND_PARSE, source->operation, source->file,
                 BL_TEXT_FORMAT ":%u:%u: " BL_TEXT_FORMAT, BL_TEXT_ARG(source_shown_file(source)),
                 place.line, place.column, BL_TEXT_ARG(bl_buffer_text(&text)));
    return BL_EPARSE;
}

int record_source_fault(struct bl_source *source, const struct bl_record_fault *fault)
{
    struct bl_record_fault unhinted = *fault;
    char text[512];

    unhinted.hint[0] = '\0';
    bl_record_fault_text(&unhinted, text, sizeof text);
    bl_source_fail(source, fault->node, "%s", text);
    if (fault->hint[0] != '\0')
        bl_error_hint(source->error, "%s", fault->hint);
    return BL_EPARSE;
}

int bl_source_read(struct bl_source *source, struct bl_arena *arena, const struct bl_record *record,
                   const struct bl_json *value, void *into)
{
    struct bl_record_fault fault = {0};
    struct reading reading = {
        .arena = arena, .fault = &fault, .shared = true, .source = source, .merge = true};

    if (record_read_record(&reading, record, value, into) || record_continues(&reading))
        return reading.failed ? BL_EPARSE : 0;
    return record_source_fault(source, &fault);
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

const char *bl_value_type(const struct bl_json *value)
{
    switch (bl_json_type(value)) {
    case BL_JSON_NULL: return "null";
    case BL_JSON_BOOLEAN: return "a boolean";
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED: return "a whole number";
    case BL_JSON_DOUBLE: return "a number";
    case BL_JSON_STRING: return value->size > 0 ? "a string" : "an empty string";
    case BL_JSON_ARRAY: return value->size > 0 ? "a list" : "an empty list";
    case BL_JSON_OBJECT: return "a mapping";
    case BL_JSON_END: break;
    }
    return "nothing";
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool source_is_line(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
            return false;
    }
    return text.size > 0;
}

const struct bl_form bl_form_line = {
    .expected = "one line of text without control characters",
    .fits = source_is_line,
};

bool record_read_duration(struct reading *reading, const struct bl_member *member,
                          const struct bl_json *value, uint64_t *slot)
{
    int64_t ns = 0;
    int code = BL_EPARSE;
    double seconds;

    if (bl_json_double(value, &seconds))
        code = bl_duration_from_seconds(seconds, &ns, NULL);
    else if ((reading->source != NULL || member->or_string) && bl_json_is(value, BL_JSON_STRING))
        code = bl_duration_parse(bl_text_trim(bl_json_text(value)), &ns, NULL);
    if (code != 0 || ns < member->least || (member->most > 0 && (uint64_t)ns > member->most))
        return record_fail_value(reading, member, value);
    if (slot != NULL)
        *slot = (uint64_t)ns;
    return true;
}

bool record_read_strings(struct reading *reading, const struct bl_member *member,
                         const struct bl_json *value, const char *const **slot)
{
    const struct bl_member *element =
        member->element != NULL ? member->element : &bl_element_string;
    bool list = bl_json_is(value, BL_JSON_ARRAY);
    size_t size = list ? bl_json_size(value) : 1, index = 0;
    struct bl_json made;

    if (list ? (int64_t)size < member->least || (member->most > 0 && size > member->most)
             : !member->or_string ||
                   record_loosen(reading, element, value, &made)->type != BL_JSON_STRING)
        return record_fail_value(reading, member, value);
    const char **strings =
        slot != NULL ? bl_arena_zalloc(reading->arena, (size + 1) * sizeof *strings) : NULL;
    for (const struct bl_json *node = list ? value + 1 : value; index < size; index++) {
        if (!record_read_value(reading, element, node, strings != NULL ? &strings[index] : NULL))
            return list ? record_fail_below(reading, NULL, index) : false;
        node = bl_json_next(node);
    }
    if (slot != NULL)
        *slot = strings;
    return true;
}

/* ---- Loose scalars --------------------------------------------------------------------------- */

static const struct bl_json *source_make_text(struct reading *reading, const struct bl_json *value,
                                              struct bl_json *made)
{
    struct bl_text text;
    double number;
    char digits[32];

    if (bl_json_is(value, BL_JSON_BOOLEAN)) {
        text = bl_text_from(value->boolean ? "true" : "false");
    } else if (bl_json_is(value, BL_JSON_INTEGER)) {
        text = bl_arena_printf(reading->arena, "%lld", (long long)value->integer);
    } else if (bl_json_double(value, &number)) {
        bl_json_format_double(number, digits);
        text = bl_arena_text(reading->arena, bl_text_from(digits));
    } else {
        return value;
    }
    *made =
        (struct bl_json){.type = BL_JSON_STRING, .size = (uint32_t)text.size, .string = text.data};
    return made;
}

/* Accepts the words of YAML 1.1 too, since people use both versions. */
static const struct bl_json *source_make_boolean(const struct bl_json *value, struct bl_json *made)
{
    static const char *const words[] = {"false", "no", "off", "true", "yes", "on"};

    for (size_t i = 0; i < BL_COUNT(words); i++) {
        if (bl_json_size(value) != strlen(words[i]) || strcasecmp(value->string, words[i]) != 0)
            continue;
        *made = (struct bl_json){.type = BL_JSON_BOOLEAN, .boolean = i >= BL_COUNT(words) / 2};
        return made;
    }
    return value;
}

/* True if the value is false and the member has the name "off": JSON writes off as false. */
static bool source_is_off(const struct bl_member *member, const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_BOOLEAN) && !value->boolean && member->names != NULL &&
           bl_names_find(member->names, BL_TEXT("off"), &(size_t){0});
}

const struct bl_json *record_loosen(struct reading *reading, const struct bl_member *member,
                                    const struct bl_json *value, struct bl_json *made)
{
    enum bl_member_type type = member->type;

    if (reading->source == NULL || !reading->source->loose)
        return value;
    if (source_is_off(member, value)) {
        *made = (struct bl_json){.type = BL_JSON_STRING, .size = 3, .string = "off"};
        return made;
    }
    if (type == BL_TYPE_TEXT || type == BL_TYPE_STRING || type == BL_TYPE_WORD ||
        type == BL_TYPE_ENUM)
        return source_make_text(reading, value, made);
    if (!bl_json_is(value, BL_JSON_STRING))
        return value;
    if (type == BL_TYPE_BOOLEAN)
        return source_make_boolean(value, made);
    bool number = type == BL_TYPE_INTEGER || type == BL_TYPE_NUMBER || type == BL_TYPE_DURATION;
    if (number && document_scalar_read(reading->arena, bl_text_trim(bl_json_text(value)),
                                       DOCUMENT_PLAIN, made) == NULL)
        return made;
    return value;
}
