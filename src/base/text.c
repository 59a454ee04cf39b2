#include <belay/base.h>

struct bl_text bl_text_from(const char *string)
{
    return (struct bl_text){string, string == NULL ? 0 : strlen(string)};
}

bool bl_text_equal(struct bl_text a, struct bl_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int bl_text_compare(struct bl_text a, struct bl_text b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool bl_text_starts_with(struct bl_text text, struct bl_text prefix)
{
    return prefix.size <= text.size &&
           (prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0);
}

bool bl_text_ends_with(struct bl_text text, struct bl_text suffix)
{
    return suffix.size <= text.size &&
           (suffix.size == 0 ||
            memcmp(text.data + text.size - suffix.size, suffix.data, suffix.size) == 0);
}

ptrdiff_t bl_text_find(struct bl_text text, struct bl_text needle)
{
    if (needle.size == 0)
        return 0;
    if (needle.size > text.size)
        return -1;
    const char *found = memmem(text.data, text.size, needle.data, needle.size);
    return found == NULL ? -1 : found - text.data;
}

static bool base_text_is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

struct bl_text bl_text_trim(struct bl_text text)
{
    while (text.size > 0 && base_text_is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && base_text_is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* An empty text has no parts, wherever its data points. So a separator at the very end closes the
 * last part instead of starting an empty one. */
bool bl_text_split(struct bl_text *rest, char separator, struct bl_text *ret_part)
{
    *ret_part = (struct bl_text){0};
    if (rest->size == 0)
        return false;

    const char *end = memchr(rest->data, separator, rest->size);
    size_t size = end == NULL ? rest->size : (size_t)(end - rest->data);
    size_t taken = end == NULL ? size : size + 1;
    *ret_part = (struct bl_text){rest->data, size};
    *rest = (struct bl_text){rest->data + taken, rest->size - taken};
    return true;
}

/* Accepts digits with an optional leading minus; a plus, spaces and an empty text are not numbers.
 * All digits are read before the size is checked, so that "99999999999999999999x" is malformed and
 * not too large. */
int bl_text_to_int64(struct bl_text text, int64_t *ret_value)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == text.size)
        return BL_EPARSE;

    /* Accumulates negative values, because the negative range is the larger one. */
    int64_t value = 0;
    bool fits = true;
    for (; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return BL_EPARSE;
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_sub_overflow(value, (int64_t)(text.data[i] - '0'), &value))
            fits = false;
    }
    if (!fits || (!negative && value == INT64_MIN))
        return BL_ERANGE;
    *ret_value = negative ? value : -value;
    return 0;
}

void bl_text_into(char *out, size_t size, const char *string)
{
    struct bl_text text = bl_text_from(string);
    if (text.size >= size)
        text = bl_utf8_cut(text, size - 1);
    if (text.size > 0)
        memcpy(out, text.data, text.size);
    out[text.size] = '\0';
}

const char *bl_names_get(const struct bl_names *names, size_t value)
{
    return value < names->count ? names->names[value] : NULL;
}

bool bl_names_find(const struct bl_names *names, struct bl_text name, size_t *ret_value)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->names[i] == NULL || !bl_text_is(name, names->names[i]))
            continue;
        *ret_value = i;
        return true;
    }
    return false;
}
