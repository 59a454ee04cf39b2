/* Design notes.
 *
 * Every message is a table of fields, and one walk checks it: the fields that must be there, each
 * by its check, and none that belongs to another variant of the same union alone. What reads the
 * values afterwards need not look again.
 *
 * A tree of JSON has no offsets. Where the very bytes of a member are wanted its number is counted
 * in the tree, and so many members are skipped in the bytes, which are known to be JSON by then: a
 * key that is written with escapes is found like any other. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "check.h"

#define SHOWN_MAX 40u /* bytes of a text that a message quotes */

/* ---- What is wrong, and where ---------------------------------------------------------------- */

void codec_problem_init(struct codec_problem *problem)
{
    problem->path[0] = '\0';
    problem->message[0] = '\0';
    problem->path_size = 0;
}

void codec_problem_text(const struct codec_problem *problem, char *out, size_t out_size)
{
    char text[sizeof problem->path + sizeof problem->message + 2];

    snprintf(text, sizeof text, "%s%s%s", problem->path, problem->path[0] != '\0' ? ": " : "",
             problem->message);
    codec_copy(out, out_size, bl_text_from(text));
}

bool codec_fail(struct codec_problem *problem, const char *format, ...)
{
    char message[2 * sizeof problem->message];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    codec_copy(problem->message, sizeof problem->message, bl_text_from(message));
    return false;
}

static void describe_text(struct bl_text text, char out[SHOWN_MAX + 8])
{
    struct bl_text shown = bl_utf8_cut(text, SHOWN_MAX);
    size_t size = 0;

    out[size++] = '"';
    for (size_t i = 0; i < shown.size; i++) {
        unsigned char byte = (unsigned char)shown.data[i];
        out[size++] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    snprintf(out + size, 6, "%s\"", shown.size < text.size ? "\u2026" : "");
}

static void describe(const struct bl_json *value, char out[SHOWN_MAX + 8])
{
    const size_t size = SHOWN_MAX + 8;

    if (value == NULL) {
        snprintf(out, size, "missing");
        return;
    }
    switch (bl_json_type(value)) {
    case BL_JSON_BOOLEAN: snprintf(out, size, "%s", value->boolean ? "true" : "false"); return;
    case BL_JSON_INTEGER: snprintf(out, size, "%" PRId64, value->integer); return;
    case BL_JSON_UNSIGNED: snprintf(out, size, "%" PRIu64, value->unsigned_integer); return;
    case BL_JSON_DOUBLE: out[bl_json_format_double(value->number, out)] = '\0'; return;
    case BL_JSON_STRING: describe_text(bl_json_text(value), out); return;
    case BL_JSON_ARRAY: snprintf(out, size, "an array"); return;
    case BL_JSON_OBJECT: snprintf(out, size, "an object"); return;
    case BL_JSON_NULL:
    case BL_JSON_END: break;
    }
    snprintf(out, size, "null");
}

bool codec_fail_value(struct codec_problem *problem, const struct bl_json *value,
                      const char *expected_format, ...)
{
    char expected[160], found[SHOWN_MAX + 8];
    va_list arguments;

    va_start(arguments, expected_format);
    vsnprintf(expected, sizeof expected, expected_format, arguments);
    va_end(arguments);
    describe(value, found);
    return codec_fail(problem, "must be %s, is %s", expected, found);
}

size_t codec_enter(struct codec_problem *problem, const char *name, size_t index)
{
    size_t before = problem->path_size;
    char digits[24];
    size_t at = sizeof digits;

    if (name == NULL) {
        digits[--at] = '\0';
        do
            digits[--at] = (char)('0' + index % 10);
        while ((index /= 10) > 0);
        name = digits + at;
    }
    size_t size = strlen(name);
    if (before + 1 + size < sizeof problem->path) {
        problem->path[before] = '/';
        memcpy(problem->path + before + 1, name, size + 1);
        problem->path_size = before + 1 + size;
    }
    return before;
}

void codec_leave(struct codec_problem *problem, size_t path_size)
{
    problem->path[path_size] = '\0';
    problem->path_size = path_size;
}

/* ---- Fields and variants --------------------------------------------------------------------- */

bool codec_check_fields(struct codec_problem *problem, const struct codec_field *fields,
                        const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return codec_fail_value(problem, value, "an object");
    for (const struct codec_field *field = fields; field->name != NULL; field++) {
        const struct bl_json *member = codec_get(value, field->name);
        if (member == NULL && field->optional)
            continue;
        size_t back = codec_enter(problem, field->name, 0);
        if (member == NULL)
            return codec_fail(problem, "is missing");
        if (!field->check(problem, field, member))
            return false;
        codec_leave(problem, back);
    }
    return true;
}

static bool has_field(const struct codec_variant *variant, struct bl_text name)
{
    for (const struct codec_field *field = variant->fields; field->name != NULL; field++) {
        if (bl_text_equal(bl_text_from(field->name), name))
            return true;
    }
    return false;
}

bool codec_check_foreign(struct codec_problem *problem, const struct codec_variant *variants,
                         const struct codec_variant *own, const struct bl_json *object)
{
    BL_JSON_MEMBERS (key, object) {
        struct bl_text name = bl_json_text(key);
        if (has_field(own, name))
            continue;
        for (const struct codec_variant *other = variants; other->name != NULL; other++) {
            if (!has_field(other, name))
                continue;
            return codec_fail(problem, "%s has no field " BL_TEXT_FORMAT ": that is one of %s",
                              own->name, BL_TEXT_ARG(name), other->name);
        }
    }
    return true;
}

static bool fail_variant(struct codec_problem *problem, const struct codec_variant *variants,
                         const struct bl_json *value)
{
    char expected[160] = "";
    size_t size = 0;

    for (const struct codec_variant *variant = variants; variant->name != NULL; variant++) {
        int more = snprintf(expected + size, sizeof expected - size, "%s%s",
                            variant == variants ? "" : ", ", variant->name);
        if (more < 0 || size + (size_t)more >= sizeof expected - 1)
            break;
        size += (size_t)more;
    }
    expected[size] = '\0';
    return codec_fail_value(problem, value, "one of %s", expected);
}

bool codec_check_union(struct codec_problem *problem, const char *tag,
                       const struct codec_variant *variants, const struct bl_json *value,
                       const struct codec_variant **ret_variant)
{
    const struct codec_variant *variant = variants;

    if (!bl_json_is(value, BL_JSON_OBJECT))
        return codec_fail_value(problem, value, "an object");
    const struct bl_json *name = codec_get(value, tag);
    while (variant->name != NULL &&
           !(bl_json_is(name, BL_JSON_STRING) &&
             bl_text_equal(bl_json_text(name), bl_text_from(variant->name))))
        variant++;
    if (variant->name == NULL) {
        codec_enter(problem, tag, 0);
        return fail_variant(problem, variants, name);
    }
    *ret_variant = variant;
    return codec_check_foreign(problem, variants, variant, value) &&
           codec_check_fields(problem, variant->fields, value);
}

/* ---- Single values --------------------------------------------------------------------------- */

bool codec_is_any(struct codec_problem *problem BL_UNUSED,
                  const struct codec_field *field BL_UNUSED, const struct bl_json *value BL_UNUSED)
{
    return true;
}

bool codec_is_boolean(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                      const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_BOOLEAN) || codec_fail_value(problem, value, "true or false");
}

bool codec_is_number(struct codec_problem *problem, const struct codec_field *field,
                     const struct bl_json *value)
{
    int64_t number;

    if (bl_json_int64(value, &number) && number >= 0 && (uint64_t)number >= field->least &&
        (uint64_t)number <= field->most)
        return true;
    return codec_fail_value(problem, value, "an integer from %" PRIu64 " to %" PRIu64, field->least,
                            field->most);
}

bool codec_is_measure(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                      const struct bl_json *value)
{
    double number;

    return (bl_json_double(value, &number) && number >= 0) ||
           codec_fail_value(problem, value, "a number from 0 on");
}

bool codec_is_text(struct codec_problem *problem, const struct codec_field *field,
                   const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_STRING))
        return codec_fail_value(problem, value, "a string");
    size_t size = bl_json_size(value);
    if (size < field->least)
        return codec_fail(problem, "must not be empty");
    if (field->most > 0 && size > field->most)
        return codec_fail(problem, "must have at most %" PRIu64 " bytes, has %zu", field->most,
                          size);
    return true;
}

bool codec_is_label(struct codec_problem *problem, const struct codec_field *field,
                    const struct bl_json *value)
{
    if (!codec_is_text(problem, field, value))
        return false;
    struct bl_text text = bl_json_text(value);
    if (bl_text_trim(text).size == 0)
        return codec_fail(problem, "must not be blank");
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20 || byte == 0x7f)
            return codec_fail(problem, "must have no control characters, has U+%04X at byte %zu",
                              byte, i);
    }
    return true;
}

bool codec_is_name(struct codec_problem *problem, const struct codec_field *field,
                   const struct bl_json *value)
{
    char expected[160] = "";
    size_t size = 0;

    for (const char *const *name = field->names; *name != NULL; name++) {
        if (bl_json_is(value, BL_JSON_STRING) &&
            bl_text_equal(bl_json_text(value), bl_text_from(*name)))
            return true;
        int more = snprintf(expected + size, sizeof expected - size, "%s%s",
                            name == field->names ? "" : ", ", *name);
        size = more < 0 || size + (size_t)more >= sizeof expected ? sizeof expected - 1
                                                                  : size + (size_t)more;
    }
    return codec_fail_value(problem, value, "one of %s", expected);
}

bool codec_is_id(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                 const struct bl_json *value)
{
    return (bl_json_is(value, BL_JSON_STRING) && cell_id_valid(bl_json_text(value))) ||
           codec_fail_value(problem, value, "an id, 1 to 64 of a-z, 0-9 and -");
}

bool codec_is_id_or_null(struct codec_problem *problem, const struct codec_field *field,
                         const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_NULL) || codec_is_id(problem, field, value);
}

/* ---- Values that have passed ----------------------------------------------------------------- */

const struct bl_json *codec_get(const struct bl_json *object, const char *key)
{
    return bl_json_get(object, bl_text_from(key));
}

uint64_t codec_number(const struct bl_json *object, const char *key)
{
    int64_t number = 0;

    bl_json_int64(codec_get(object, key), &number);
    return (uint64_t)number;
}

const char *codec_string(const struct bl_json *object, const char *key)
{
    const struct bl_json *value = codec_get(object, key);

    return bl_json_is(value, BL_JSON_STRING) ? bl_json_text(value).data : NULL;
}

void codec_copy(char *out, size_t out_size, struct bl_text text)
{
    struct bl_text kept = bl_utf8_cut(text, out_size - 1);

    if (kept.size > 0)
        memcpy(out, kept.data, kept.size);
    out[kept.size] = '\0';
}

size_t codec_name_index(const char *const *names, struct bl_text text)
{
    size_t index = 0;

    while (names[index] != NULL && !bl_text_equal(bl_text_from(names[index]), text))
        index++;
    return index;
}

/* ---- Frames as JSON, and slices of them ------------------------------------------------------ */

int codec_frame_parse(struct bl_arena *arena, struct bl_text bytes, const struct bl_json **ret_root,
                      char *message, size_t message_size)
{
    const struct bl_json_limits limits = {
        .size_max = BL_CELL_FRAME_MAX,
        .string_max = BL_CELL_FRAME_MAX,
        .depth_max = CELL_DEPTH_MAX,
        .refuse_duplicates = true,
    };
    struct bl_json_fault fault;
    const struct bl_json *root;
    char text[256], whole[320];

    if (bl_json_read(arena, bytes, &limits, &root, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        snprintf(whole, sizeof whole, "not a frame: %s", text);
        codec_copy(message, message_size, bl_text_from(whole));
        return BL_EPARSE;
    }
    if (!bl_json_is(root, BL_JSON_OBJECT)) {
        snprintf(message, message_size, "a frame is a JSON object, not %s",
                 bl_json_type_name(bl_json_type(root)));
        return BL_EPARSE;
    }
    *ret_root = root;
    return 0;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static size_t skip_space(struct bl_text json, size_t at)
{
    while (at < json.size && is_space(json.data[at]))
        at++;
    return at;
}

/* Just after the string whose opening quote is at `at`. */
static size_t skip_string(struct bl_text json, size_t at)
{
    size_t start = ++at;

    while (at < json.size) {
        const char *quote = memchr(json.data + at, '"', json.size - at);
        if (quote == NULL)
            return json.size;
        at = (size_t)(quote - json.data);
        size_t from = at;
        while (from > start && json.data[from - 1] == '\\')
            from--;
        if ((at - from) % 2 == 0)
            return at + 1;
        at++;
    }
    return json.size;
}

/* Just after the value that begins at `at`. */
static size_t skip_value(struct bl_text json, size_t at)
{
    size_t depth = 0;

    while (at < json.size) {
        char byte = json.data[at];
        if (byte == '"') {
            at = skip_string(json, at);
        } else if (byte == '{' || byte == '[') {
            depth++;
            at++;
            continue;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0)
                return at; /* the end of what is around a scalar */
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < json.size && !is_space(json.data[at]) && json.data[at] != ',' &&
                   json.data[at] != '}' && json.data[at] != ']')
                at++;
        }
        if (depth == 0)
            return at;
    }
    return json.size;
}

struct bl_text codec_slice(struct bl_text bytes, const struct bl_json *root, const char *key)
{
    size_t at = skip_space(bytes, 0) + 1; /* after the bracket */

    BL_JSON_MEMBERS (member, root) {
        at = skip_string(bytes, skip_space(bytes, at));
        at = skip_space(bytes, skip_space(bytes, at) + 1); /* the colon */
        size_t end = skip_value(bytes, at);
        if (bl_text_equal(bl_json_text(member), bl_text_from(key)))
            return (struct bl_text){bytes.data + at, end - at};
        at = skip_space(bytes, end) + 1; /* the comma */
    }
    return (struct bl_text){0};
}
