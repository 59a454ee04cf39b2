/* Assertions of a schema about one value, without its children. */
#include "schema.h"

#include <math.h>
#include <stdlib.h>

uint8_t schema_types_of(const struct bl_json *value)
{
    switch (bl_json_type(value)) {
    case BL_JSON_NULL: return SCHEMA_NULL;
    case BL_JSON_BOOLEAN: return SCHEMA_BOOLEAN;
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED: return SCHEMA_INTEGER | SCHEMA_NUMBER;
    case BL_JSON_DOUBLE:
        return value->number == trunc(value->number) ? SCHEMA_INTEGER | SCHEMA_NUMBER
                                                     : SCHEMA_NUMBER;
    case BL_JSON_STRING: return SCHEMA_STRING;
    case BL_JSON_ARRAY: return SCHEMA_ARRAY;
    case BL_JSON_OBJECT: return SCHEMA_OBJECT;
    case BL_JSON_END: break;
    }
    return 0;
}

/* A 128-bit integer holds both kinds of 64-bit ones. */
static __int128 integer_of(const struct bl_json *value)
{
    return value->type == BL_JSON_UNSIGNED ? (__int128)value->unsigned_integer : value->integer;
}

static int compare_integer_to_double(__int128 integer, double number)
{
    if (number >= 0x1p64)
        return -1;
    if (number < -0x1p63)
        return 1;
    double whole = trunc(number);
    if (integer != (__int128)whole)
        return integer < (__int128)whole ? -1 : 1;
    return number > whole ? -1 : number < whole;
}

/* Returns a negative number, 0 or a positive number if `a` is less than, equal to or greater than
 * `b`; exact. */
static int assert_compare_numbers(const struct bl_json *a, const struct bl_json *b)
{
    bool a_double = a->type == BL_JSON_DOUBLE, b_double = b->type == BL_JSON_DOUBLE;
    if (a_double && b_double)
        return a->number < b->number ? -1 : a->number > b->number;
    if (b_double)
        return compare_integer_to_double(integer_of(a), b->number);
    if (a_double)
        return -compare_integer_to_double(integer_of(b), a->number);
    return integer_of(a) < integer_of(b) ? -1 : integer_of(a) > integer_of(b);
}

/* The absolute value of a number, as digits times a power of ten. */
struct decimal {
    uint64_t digits;
    int exponent;
};

/* A double counts as the shortest decimal that reads back as it, which is the decimal that was
 * written if that had up to 15 digits. So 0.0075 is exactly 75 times 0.0001. */
static struct decimal decimal_of(const struct bl_json *value)
{
    if (value->type == BL_JSON_UNSIGNED)
        return (struct decimal){value->unsigned_integer, 0};
    if (value->type == BL_JSON_INTEGER)
        return (struct decimal){
            value->integer < 0 ? -(uint64_t)value->integer : (uint64_t)value->integer, 0};
    char text[32];
    size_t size = bl_json_format_double(fabs(value->number), text);
    struct decimal decimal = {0, 0};
    int zeros = 0; /* read so far, possibly trailing */
    bool fraction = false;
    size_t i = 0;
    for (; i < size && text[i] != 'e'; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        zeros++;
        decimal.exponent -= fraction;
        if (text[i] == '0')
            continue;
        for (; zeros > 0; zeros--)
            decimal.digits *= 10;
        decimal.digits += (uint64_t)(text[i] - '0');
    }
    decimal.exponent += zeros;
    int exponent = 0;
    bool negative = i + 1 < size && text[i + 1] == '-';
    for (i += 1; i < size; i++) {
        if (text[i] >= '0' && text[i] <= '9')
            exponent = exponent * 10 + (text[i] - '0');
    }
    decimal.exponent += negative ? -exponent : exponent;
    return decimal;
}

static bool is_multiple(const struct bl_json *value, const struct bl_json *of)
{
    if ((value->type == BL_JSON_DOUBLE && !isfinite(value->number)) ||
        (of->type == BL_JSON_DOUBLE && !isfinite(of->number)))
        return false;
    struct decimal a = decimal_of(value), b = decimal_of(of);
    if (a.digits == 0)
        return true;
    int shift = a.exponent - b.exponent;
    if (shift >= 0) {
        /* digits * 10^shift modulo b.digits, one power at a time. */
        unsigned __int128 rest = a.digits % b.digits;
        for (; shift > 0 && rest > 0; shift--)
            rest = rest * 10 % b.digits;
        return rest == 0;
    }
    if (shift < -19)
        return false; /* more zeros than a 64-bit number has digits */
    unsigned __int128 divisor = b.digits;
    for (; shift < 0; shift++) {
        divisor *= 10;
        if (divisor > a.digits)
            return false;
    }
    return a.digits % divisor == 0;
}

static void assert_type(struct schema_check *check, const struct schema_frame *frame)
{
    static const char *const names[] = {"null",     "a boolean", "an integer", "a number",
                                        "a string", "an array",  "an object"};
    uint8_t types = frame->node->types;
    if (types == 0 || types & schema_types_of(frame->value))
        return;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL) {
        bl_buffer_append(out, BL_TEXT("must be "));
        for (uint8_t left = types, i = 0; left != 0; i++, left >>= 1) {
            if (!(left & 1))
                continue;
            bl_buffer_append(out, bl_text_from(names[i]));
            if (left >> 1 != 0)
                bl_buffer_append(out, BL_TEXT(" or "));
        }
        bl_buffer_append(out, BL_TEXT(", is "));
        json_value_show(out, frame->value);
    }
    schema_problem(check, frame, "type", NULL);
}

static void assert_enumeration(struct schema_check *check, const struct schema_frame *frame)
{
    const struct bl_json *values = frame->node->enumeration;
    BL_JSON_EACH (element, values) {
        if (!schema_spend(check, (uint64_t)(bl_json_next(element) - element)) ||
            bl_json_equal(element, frame->value))
            return;
    }
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL) {
        const char *separator = "must be one of ";
        BL_JSON_EACH (element, values) {
            bl_buffer_append(out, bl_text_from(separator));
            if (out->size > 400) {
                bl_buffer_append(out, BL_TEXT("…"));
                break;
            }
            json_value_show(out, element);
            separator = ", ";
        }
        bl_buffer_append(out, BL_TEXT("; is "));
        json_value_show(out, frame->value);
    }
    schema_problem(check, frame, "enum", NULL);
}

static void assert_constant(struct schema_check *check, const struct schema_frame *frame)
{
    const struct bl_json *constant = frame->node->constant;
    if (!schema_spend(check, (uint64_t)(bl_json_next(constant) - constant)) ||
        bl_json_equal(constant, frame->value))
        return;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL) {
        bl_buffer_append(out, BL_TEXT("must be "));
        json_value_show(out, constant);
        bl_buffer_append(out, BL_TEXT("; is "));
        json_value_show(out, frame->value);
    }
    schema_problem(check, frame, "const", NULL);
}

/* Reports "must be at least 3, is 2", unless `fits`. */
static void assert_expect_number(struct schema_check *check, const struct schema_frame *frame,
                                 bool fits, const char *keyword, const char *expected,
                                 const struct bl_json *limit)
{
    if (fits)
        return;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL) {
        bl_buffer_printf(out, "must be %s ", expected);
        json_value_show(out, limit);
        bl_buffer_append(out, BL_TEXT(", is "));
        json_value_show(out, frame->value);
    }
    schema_problem(check, frame, keyword, NULL);
}

static void assert_number(struct schema_check *check, const struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    const struct bl_json *value = frame->value;
    if (node->minimum != NULL)
        assert_expect_number(check, frame, assert_compare_numbers(value, node->minimum) >= 0,
                             "minimum", "at least", node->minimum);
    if (node->maximum != NULL)
        assert_expect_number(check, frame, assert_compare_numbers(value, node->maximum) <= 0,
                             "maximum", "at most", node->maximum);
    if (node->exclusive_minimum != NULL)
        assert_expect_number(check, frame,
                             assert_compare_numbers(value, node->exclusive_minimum) > 0,
                             "exclusiveMinimum", "greater than", node->exclusive_minimum);
    if (node->exclusive_maximum != NULL)
        assert_expect_number(check, frame,
                             assert_compare_numbers(value, node->exclusive_maximum) < 0,
                             "exclusiveMaximum", "less than", node->exclusive_maximum);
    if (node->multiple_of != NULL)
        assert_expect_number(check, frame, is_multiple(value, node->multiple_of), "multipleOf",
                             "a multiple of", node->multiple_of);
}

/* Reports "must have at least 3 characters, has 2", unless `count` is within the limits. */
static void assert_expect_count(struct schema_check *check, const struct schema_frame *frame,
                                uint64_t count, uint64_t minimum, uint64_t maximum,
                                const char *what)
{
    if (count >= minimum && count <= maximum)
        return;
    bool low = count < minimum;
    uint64_t limit = low ? minimum : maximum;
    const char *noun = what[0] == 'L' ? "character" : what[0] == 'I' ? "item" : "propert";
    const char *plural = what[0] == 'P' ? (limit == 1 ? "y" : "ies") : (limit == 1 ? "" : "s");
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL)
        bl_buffer_printf(out, "must have at %s %llu %s%s, has %llu", low ? "least" : "most",
                         (unsigned long long)limit, noun, plural, (unsigned long long)count);
    char keyword[16] = "";
    memcpy(keyword, low ? "min" : "max", 3);
    memcpy(keyword + 3, what, strlen(what));
    schema_problem(check, frame, keyword, NULL);
}

static void assert_string(struct schema_check *check, const struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    struct bl_text text = bl_json_text(frame->value);
    if (!schema_spend(check, text.size / 64))
        return;
    if (node->min_length > 0 || node->max_length != UINT64_MAX)
        assert_expect_count(check, frame, bl_utf8_count(text), node->min_length, node->max_length,
                            "Length");
    if (node->pattern == NULL || schema_search(check, node->pattern, text))
        return;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL) {
        bl_buffer_append(out, BL_TEXT("must match the pattern "));
        json_value_show(out, node->pattern_source);
        bl_buffer_append(out, BL_TEXT(", is "));
        json_value_show(out, frame->value);
    }
    schema_problem(check, frame, "pattern", NULL);
}

struct hashed {
    uint64_t hash;
    const struct bl_json *value;
    size_t index;
};

static int compare_hashed(const void *left, const void *right)
{
    const struct hashed *a = left, *b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Spreads the bits (the finisher of MurmurHash3). */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCDull;
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53ull;
    return value ^ value >> 33;
}

static uint64_t hash_node(const struct bl_json *node)
{
    static const uint64_t key[2] = {0x62656C6179ull, 0x736368656D61ull};
    double number;
    uint64_t bits;
    if (bl_json_double(node, &number)) {
        number += 0.0; /* -0 is 0 */
        memcpy(&bits, &number, sizeof bits);
        return mix(bits + 1);
    }
    if (bl_json_is(node, BL_JSON_STRING))
        return bl_hash(key, bl_json_text(node));
    if (bl_json_is(node, BL_JSON_BOOLEAN))
        return bl_json_boolean(node, false) ? 2 : 3;
    return mix(node->type + 16u);
}

/* Returns the same hash for equal values. Members may be in any order, so if there are objects, the
 * order of all nodes is ignored. */
static uint64_t hash_value(const struct bl_json *value)
{
    const struct bl_json *end = bl_json_next(value);
    uint64_t sum = 0, sequence = 0;
    bool ordered = true;
    for (const struct bl_json *node = value; node < end; node++) {
        uint64_t hash = hash_node(node);
        ordered = ordered && node->type != BL_JSON_OBJECT;
        sum += mix(hash);
        sequence = mix(sequence ^ hash) + 1;
    }
    return ordered ? sequence : sum;
}

/* Finds two equal elements among those with equal hashes. */
static bool find_twins(struct schema_check *check, const struct hashed *items, size_t count,
                       size_t ret_twins[2])
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count && items[j].hash == items[i].hash; j++) {
            const struct bl_json *value = items[i].value;
            if (!schema_spend(check, (uint64_t)(bl_json_next(value) - value)))
                return false;
            if (bl_json_equal(value, items[j].value)) {
                ret_twins[0] = items[i].index;
                ret_twins[1] = items[j].index;
                return true;
            }
        }
    }
    return false;
}

static void assert_unique(struct schema_check *check, const struct schema_frame *frame)
{
    const struct bl_json *array = frame->value;
    size_t count = 0, twins[2];
    if (bl_json_size(array) < 2 || !schema_spend(check, array->span))
        return;
    struct hashed *items = bl_alloc(bl_json_size(array) * sizeof *items);
    BL_JSON_EACH (element, array) {
        items[count] = (struct hashed){hash_value(element), element, count};
        count++;
    }
    qsort(items, count, sizeof *items, compare_hashed);
    bool found = find_twins(check, items, count, twins);
    bl_free(items);
    if (!found)
        return;
    struct bl_buffer *out = schema_message(check, frame);
    if (out != NULL)
        bl_buffer_printf(out, "must have unique items, but items %zu and %zu are equal", twins[0],
                         twins[1]);
    schema_problem(check, frame, "uniqueItems", NULL);
}

static void assert_object(struct schema_check *check, const struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    assert_expect_count(check, frame, bl_json_size(frame->value), node->min_properties,
                        node->max_properties, "Properties");
    BL_JSON_EACH (name, node->required) {
        if (!schema_spend(check, bl_json_size(frame->value) / 8 + 1))
            return;
        if (bl_json_get(frame->value, bl_json_text(name)) != NULL)
            continue;
        struct bl_buffer *out = schema_message(check, frame);
        if (out != NULL) {
            bl_buffer_append(out, BL_TEXT("missing required property "));
            json_text_show(out, bl_json_text(name));
        }
        schema_problem(check, frame, "required", NULL);
    }
}

void schema_assert(struct schema_check *check, const struct schema_frame *frame)
{
    const struct schema_node *node = frame->node;
    uint8_t types = schema_types_of(frame->value);
    if (node->refuses) {
        struct bl_buffer *out = schema_message(check, frame);
        if (out != NULL)
            bl_buffer_append(out, BL_TEXT("is not allowed here"));
        schema_problem(check, frame, "", NULL);
        return;
    }
    assert_type(check, frame);
    if (node->enumeration != NULL)
        assert_enumeration(check, frame);
    if (node->constant != NULL)
        assert_constant(check, frame);
    if (types & SCHEMA_NUMBER)
        assert_number(check, frame);
    if (types & SCHEMA_STRING)
        assert_string(check, frame);
    if (types & SCHEMA_ARRAY) {
        assert_expect_count(check, frame, bl_json_size(frame->value), node->min_items,
                            node->max_items, "Items");
        if (node->unique)
            assert_unique(check, frame);
    }
    if (types & SCHEMA_OBJECT)
        assert_object(check, frame);
}
