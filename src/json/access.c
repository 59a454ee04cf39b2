#include "parts.h"

#include <math.h>

const char *bl_json_type_name(enum bl_json_type type)
{
    switch (type) {
    case BL_JSON_NULL: return "null";
    case BL_JSON_BOOLEAN: return "boolean";
    case BL_JSON_INTEGER:
    case BL_JSON_UNSIGNED: return "integer";
    case BL_JSON_DOUBLE: return "number";
    case BL_JSON_STRING: return "string";
    case BL_JSON_ARRAY: return "array";
    case BL_JSON_OBJECT: return "object";
    case BL_JSON_END: return "end";
    }
    return "unknown";
}

bool bl_json_is(const struct bl_json *value, enum bl_json_type type)
{
    return value != NULL && bl_json_type(value) == type;
}

const struct bl_json *bl_json_first(const struct bl_json *value, enum bl_json_type type)
{
    static const struct bl_json end = {.type = BL_JSON_END};

    return bl_json_is(value, type) ? value + 1 : &end;
}

const struct bl_json *bl_json_get(const struct bl_json *object, struct bl_text key)
{
    const struct bl_json *found = NULL;

    BL_JSON_MEMBERS (member, object) {
        if (member->size == key.size &&
            (key.size == 0 || memcmp(member->string, key.data, key.size) == 0))
            found = member + 1;
    }
    return found;
}

const struct bl_json *bl_json_at(const struct bl_json *array, size_t index)
{
    if (!bl_json_is(array, BL_JSON_ARRAY) || index >= array->size)
        return NULL;
    const struct bl_json *element = array + 1;
    for (; index > 0; index--)
        element = bl_json_next(element);
    return element;
}

/* True if `token`, with ~0 and ~1 decoded, is `key`. */
static bool token_matches(struct bl_text token, const struct bl_json *key)
{
    size_t j = 0;

    for (size_t i = 0; i < token.size; i++, j++) {
        char byte = token.data[i];
        if (byte == '~')
            byte = token.data[++i] == '0' ? '~' : '/';
        if (j >= key->size || key->string[j] != byte)
            return false;
    }
    return j == key->size;
}

static bool token_valid(struct bl_text token)
{
    for (size_t i = 0; i < token.size; i++) {
        if (token.data[i] != '~')
            continue;
        if (++i == token.size || (token.data[i] != '0' && token.data[i] != '1'))
            return false;
    }
    return true;
}

/* Returns the element that `token` names: digits without a leading zero. */
static const struct bl_json *element_by_token(const struct bl_json *array, struct bl_text token)
{
    size_t index = 0;

    if (token.size == 0 || token.size > 10 || (token.size > 1 && token.data[0] == '0'))
        return NULL;
    for (size_t i = 0; i < token.size; i++) {
        if (token.data[i] < '0' || token.data[i] > '9')
            return NULL;
        index = index * 10 + (size_t)(token.data[i] - '0');
    }
    return bl_json_at(array, index);
}

const struct bl_json *bl_json_pointer(const struct bl_json *value, struct bl_text pointer)
{
    if (pointer.size == 0)
        return value;
    if (pointer.data[0] != '/')
        return NULL;
    size_t at = 0;
    while (at < pointer.size && value != NULL) {
        struct bl_text token = {pointer.data + ++at, 0};
        while (at < pointer.size && pointer.data[at] != '/')
            at++;
        token.size = (size_t)(pointer.data + at - token.data);
        if (!token_valid(token))
            return NULL;
        if (bl_json_is(value, BL_JSON_ARRAY)) {
            value = element_by_token(value, token);
            continue;
        }
        const struct bl_json *found = NULL;
        BL_JSON_MEMBERS (key, value) {
            if (token_matches(token, key))
                found = key + 1;
        }
        value = found;
    }
    return value;
}

struct bl_text bl_json_text(const struct bl_json *value)
{
    if (!bl_json_is(value, BL_JSON_STRING))
        return (struct bl_text){"", 0};
    return (struct bl_text){value->string, value->size};
}

bool bl_json_boolean(const struct bl_json *value, bool fallback)
{
    return bl_json_is(value, BL_JSON_BOOLEAN) ? value->boolean : fallback;
}

bool bl_json_int64(const struct bl_json *value, int64_t *ret_value)
{
    if (bl_json_is(value, BL_JSON_INTEGER)) {
        *ret_value = value->integer;
        return true;
    }
    /* 2^63 is a double; INT64_MAX is not. */
    if (!bl_json_is(value, BL_JSON_DOUBLE) || value->number < -0x1p63 || value->number >= 0x1p63 ||
        value->number != trunc(value->number))
        return false;
    *ret_value = (int64_t)value->number;
    return true;
}

bool bl_json_double(const struct bl_json *value, double *ret_value)
{
    if (bl_json_is(value, BL_JSON_INTEGER))
        *ret_value = (double)value->integer;
    else if (bl_json_is(value, BL_JSON_UNSIGNED))
        *ret_value = (double)value->unsigned_integer;
    else if (bl_json_is(value, BL_JSON_DOUBLE))
        *ret_value = value->number;
    else
        return false;
    return true;
}

size_t bl_json_size(const struct bl_json *value)
{
    bool sized = bl_json_is(value, BL_JSON_STRING) || bl_json_is(value, BL_JSON_ARRAY) ||
                 bl_json_is(value, BL_JSON_OBJECT);

    return sized ? value->size : 0;
}

static bool is_container(const struct bl_json *value)
{
    return value->type == BL_JSON_ARRAY || value->type == BL_JSON_OBJECT;
}

/* Compares an integer with a double exactly, without rounding the integer. */
static bool integer_equals_double(const struct bl_json *integer, double number)
{
    if (number != trunc(number))
        return false;
    if (integer->type == BL_JSON_INTEGER)
        return number >= -0x1p63 && number < 0x1p63 && (int64_t)number == integer->integer;
    return number >= 0 && number < 0x1p64 && (uint64_t)number == integer->unsigned_integer;
}

/* Compares two nodes without their children; containers only by type. */
static bool same_node(const struct bl_json *a, const struct bl_json *b)
{
    if (a->type != b->type) {
        if (a->type == BL_JSON_DOUBLE &&
            (b->type == BL_JSON_INTEGER || b->type == BL_JSON_UNSIGNED))
            return integer_equals_double(b, a->number);
        if (b->type == BL_JSON_DOUBLE &&
            (a->type == BL_JSON_INTEGER || a->type == BL_JSON_UNSIGNED))
            return integer_equals_double(a, b->number);
        return false;
    }
    switch (bl_json_type(a)) {
    case BL_JSON_BOOLEAN: return a->boolean == b->boolean;
    case BL_JSON_INTEGER: return a->integer == b->integer;
    case BL_JSON_UNSIGNED: return a->unsigned_integer == b->unsigned_integer;
    case BL_JSON_DOUBLE: return a->number == b->number;
    case BL_JSON_STRING: return a->size == b->size && memcmp(a->string, b->string, a->size) == 0;
    case BL_JSON_NULL:
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
    case BL_JSON_END: return true;
    }
    return false;
}

/* True if both trees are equal with their members in the same order: the common case, and cheap. */
static bool same_tree(const struct bl_json *a, const struct bl_json *b)
{
    for (const struct bl_json *stop = bl_json_next(a); a != stop; a++, b++) {
        /* Equal spans keep `b` within its own tree. */
        if (!same_node(a, b) || (is_container(a) && (a->size != b->size || a->span != b->span)))
            return false;
    }
    return true;
}

/* A pair of open containers, in a scratch arena. */
struct pair {
    struct pair *parent;
    struct bl_arena_mark mark;
    const struct bl_json **a_keys; /* of objects, sorted; NULL for arrays */
    const struct bl_json **b_keys;
    const struct bl_json *a_element;
    const struct bl_json *b_element;
    size_t count;
    size_t index;
};

/* Opens two containers of the same type. Returns NULL if they differ in size or keys. */
static struct pair *push_pair(struct bl_arena *arena, struct pair *parent, const struct bl_json *a,
                              const struct bl_json *b)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct pair *pair = bl_arena_zalloc(arena, sizeof(*pair));
    size_t b_count = b->size;

    pair->parent = parent;
    pair->mark = mark;
    pair->count = a->size;
    if (a->type == BL_JSON_ARRAY) {
        pair->a_element = a + 1;
        pair->b_element = b + 1;
        return pair->count == b_count ? pair : NULL;
    }
    pair->a_keys = json_members_sort(arena, a, &pair->count);
    pair->b_keys = json_members_sort(arena, b, &b_count);
    if (pair->count != b_count)
        return NULL;
    for (size_t i = 0; i < pair->count; i++) {
        if (!same_node(pair->a_keys[i], pair->b_keys[i]))
            return NULL;
    }
    return pair;
}

static void next_children(struct pair *pair, const struct bl_json **a, const struct bl_json **b)
{
    if (pair->a_keys != NULL) {
        *a = pair->a_keys[pair->index] + 1;
        *b = pair->b_keys[pair->index] + 1;
    } else {
        *a = pair->a_element;
        *b = pair->b_element;
        pair->a_element = bl_json_next(*a);
        pair->b_element = bl_json_next(*b);
    }
    pair->index++;
}

/* Equality for members in any order. Of duplicate keys, the last one counts. */
static bool equal_unordered(struct bl_arena *arena, const struct bl_json *a,
                            const struct bl_json *b)
{
    struct pair *pair = NULL;

    for (;;) {
        if (!same_node(a, b))
            return false;
        if (is_container(a)) {
            pair = push_pair(arena, pair, a, b);
            if (pair == NULL)
                return false;
        }
        while (pair != NULL && pair->index == pair->count) {
            struct pair *parent = pair->parent;
            bl_arena_rewind(arena, pair->mark);
            pair = parent;
        }
        if (pair == NULL)
            return true;
        next_children(pair, &a, &b);
    }
}

bool bl_json_equal(const struct bl_json *a, const struct bl_json *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (same_tree(a, b))
        return true;
    if (!is_container(a) || a->type != b->type)
        return false;
    BL_AUTO_ARENA(arena);
    return equal_unordered(&arena, a, b);
}
