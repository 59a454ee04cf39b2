#include "document.h"

/* The type of a scalar without tag and quotes, by the core schema of YAML 1.2 (10.3.2). */
enum number_form {
    NO_NUMBER,
    DECIMAL_INTEGER,
    OCTAL_INTEGER,
    HEXADECIMAL_INTEGER,
    DECIMAL_FLOAT,
    NOT_FINITE,
};

static bool scalar_is_one_of(struct bl_text text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (bl_text_equal(text, bl_text_from(*words)))
            return true;
    }
    return false;
}

bool document_scalar_is_null(struct bl_text text)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};

    return scalar_is_one_of(text, words);
}

static bool is_boolean(struct bl_text text, bool *ret_value)
{
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};

    *ret_value = scalar_is_one_of(text, yes);
    return *ret_value || scalar_is_one_of(text, no);
}

static bool scalar_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Value of a digit, or 16. */
static unsigned digit_value(char byte)
{
    char letter = (char)(byte | 0x20);

    if (scalar_is_digit(byte))
        return (unsigned)(byte - '0');
    return letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10 : 16;
}

/* True if `text` from `at` on is one or more digits of that base. */
static bool all_digits(struct bl_text text, size_t at, unsigned base)
{
    if (at == text.size)
        return false;
    for (; at < text.size; at++) {
        if (digit_value(text.data[at]) >= base)
            return false;
    }
    return true;
}

static size_t skip_digits(struct bl_text text, size_t at)
{
    while (at < text.size && scalar_is_digit(text.data[at]))
        at++;
    return at;
}

static bool has_byte(struct bl_text text, size_t at, const char *set)
{
    return at < text.size && text.data[at] != '\0' && strchr(set, text.data[at]) != NULL;
}

static enum number_form classify_decimal(struct bl_text text, size_t at)
{
    size_t digits = skip_digits(text, at), whole = digits - at;
    enum number_form form = DECIMAL_INTEGER;
    size_t fraction = 0;

    at = digits;
    if (has_byte(text, at, ".")) {
        form = DECIMAL_FLOAT;
        digits = skip_digits(text, at + 1);
        fraction = digits - at - 1;
        at = digits;
    }
    if (whole + fraction == 0)
        return NO_NUMBER;
    if (has_byte(text, at, "eE")) {
        form = DECIMAL_FLOAT;
        at += has_byte(text, at + 1, "+-") ? 2 : 1;
        digits = skip_digits(text, at);
        if (digits == at)
            return NO_NUMBER;
        at = digits;
    }
    return at == text.size ? form : NO_NUMBER;
}

static enum number_form classify(struct bl_text text)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const no_numbers[] = {".nan", ".NaN", ".NAN", NULL};

    if (bl_text_starts_with(text, BL_TEXT("0o")) && all_digits(text, 2, 8))
        return OCTAL_INTEGER;
    if (bl_text_starts_with(text, BL_TEXT("0x")) && all_digits(text, 2, 16))
        return HEXADECIMAL_INTEGER;
    size_t sign = has_byte(text, 0, "+-") ? 1 : 0;
    struct bl_text unsigned_text = {text.data + sign, text.size - sign};
    if (scalar_is_one_of(unsigned_text, infinities) || scalar_is_one_of(text, no_numbers))
        return NOT_FINITE;
    return classify_decimal(text, sign);
}

/* Writes the decimal in JSON syntax: no plus, no leading zeros, digits on both sides of a point.
 * `out` has room for three bytes more than the text. */
static void spell_as_json(struct bl_text text, char *out)
{
    size_t at = has_byte(text, 0, "+-") ? 1 : 0;

    if (text.data[0] == '-')
        *out++ = '-';
    while (has_byte(text, at, "0") && at + 1 < text.size && scalar_is_digit(text.data[at + 1]))
        at++;
    if (!scalar_is_digit(text.data[at]))
        *out++ = '0';
    while (at < text.size && scalar_is_digit(text.data[at]))
        *out++ = text.data[at++];
    if (has_byte(text, at, ".")) {
        size_t digits = skip_digits(text, at + 1);
        if (digits > at + 1) {
            memcpy(out, text.data + at, digits - at);
            out += digits - at;
        }
        at = digits;
    }
    memcpy(out, text.data + at, text.size - at);
    out[text.size - at] = '\0';
}

static const char *scalar_read_decimal(struct bl_arena *arena, struct bl_text text,
                                       struct bl_json *node)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    char *spelled = bl_arena_alloc(arena, text.size + 3), *fault;
    const char *expected;

    spell_as_json(text, spelled);
    bool fits = json_number_read(spelled, node, &fault, &expected) != NULL;
    bl_arena_rewind(arena, mark);
    return fits ? NULL : "a number that fits a double (quote it to make it text)";
}

/* "1." and scalars tagged as floats are not integers. */
static void make_double(struct bl_json *node)
{
    double number;

    if (bl_json_double(node, &number))
        *node = (struct bl_json){.type = BL_JSON_DOUBLE, .number = number};
}

static const char *scalar_read_digits(struct bl_text text, unsigned base, struct bl_json *node)
{
    uint64_t value = 0;

    for (size_t i = 2; i < text.size; i++) {
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit_value(text.data[i]), &value))
            return "an integer of at most 64 bits (quote it to make it text)";
    }
    node->type = value > INT64_MAX ? BL_JSON_UNSIGNED : BL_JSON_INTEGER;
    node->unsigned_integer = value;
    return NULL;
}

static const char *scalar_read_number(struct bl_arena *arena, struct bl_text text,
                                      enum number_form form, struct bl_json *node)
{
    const char *expected = NULL;

    switch (form) {
    case OCTAL_INTEGER: return scalar_read_digits(text, 8, node);
    case HEXADECIMAL_INTEGER: return scalar_read_digits(text, 16, node);
    case NOT_FINITE: return "a finite number (quote it to make it text)";
    case NO_NUMBER:
    case DECIMAL_INTEGER:
    case DECIMAL_FLOAT: expected = scalar_read_decimal(arena, text, node);
    }
    if (expected == NULL && form == DECIMAL_FLOAT)
        make_double(node);
    return expected;
}

static void scalar_make_string(struct bl_arena *arena, struct bl_text text, struct bl_json *node)
{
    struct bl_text copy = bl_arena_text(arena, text);

    *node = (struct bl_json){.type = BL_JSON_STRING,
                             .flags = JSON_VALID,
                             .size = (uint32_t)copy.size,
                             .string = copy.data};
}

static const char *read_plain(struct bl_arena *arena, struct bl_text text, struct bl_json *node)
{
    bool truth;

    if (document_scalar_is_null(text)) {
        node->type = BL_JSON_NULL;
        return NULL;
    }
    if (is_boolean(text, &truth)) {
        node->type = BL_JSON_BOOLEAN;
        node->boolean = truth;
        return NULL;
    }
    enum number_form form = classify(text);
    if (form != NO_NUMBER)
        return scalar_read_number(arena, text, form, node);
    scalar_make_string(arena, text, node);
    return NULL;
}

const char *document_scalar_read(struct bl_arena *arena, struct bl_text text, enum document_tag tag,
                                 struct bl_json *ret_node)
{
    enum number_form form = NO_NUMBER;
    const char *expected;
    bool truth;

    *ret_node = (struct bl_json){.type = BL_JSON_NULL};
    switch (tag) {
    case DOCUMENT_PLAIN: return read_plain(arena, text, ret_node);
    case DOCUMENT_STRING: scalar_make_string(arena, text, ret_node); return NULL;
    case DOCUMENT_NULL:
        return document_scalar_is_null(text) ? NULL : "null, as required by its tag";
    case DOCUMENT_BOOLEAN:
        if (!is_boolean(text, &truth))
            return "true or false, as required by its tag";
        *ret_node = (struct bl_json){.type = BL_JSON_BOOLEAN, .boolean = truth};
        return NULL;
    case DOCUMENT_INTEGER:
    case DOCUMENT_FLOAT: form = classify(text); break;
    case DOCUMENT_ARRAY: return "a sequence, as required by its tag";
    case DOCUMENT_OBJECT: return "a mapping, as required by its tag";
    }
    if (form == NO_NUMBER || (tag == DOCUMENT_INTEGER && form == DECIMAL_FLOAT))
        return tag == DOCUMENT_INTEGER ? "an integer, as required by its tag"
                                       : "a number, as required by its tag";
    expected = scalar_read_number(arena, text, form, ret_node);
    if (expected == NULL && tag == DOCUMENT_FLOAT)
        make_double(ret_node);
    return expected;
}
