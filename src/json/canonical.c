#include "parts.h"

#include <stdlib.h>

/* An open container. Frames are in a scratch arena, so that depth costs no stack. */
struct frame {
    struct frame *parent;
    struct bl_arena_mark mark;
    const struct bl_json **keys; /* of an object, sorted; NULL for an array */
    size_t count;
    size_t index;
    const struct bl_json *element; /* of an array: the next */
};

/* UTF-16 units sort like UTF-8 bytes, except that U+E000..U+FFFF (lead bytes EE and EF) come after
 * all code points that need surrogates (lead bytes F0 and above). */
static inline int utf16_rank(unsigned char byte)
{
    return byte == 0xee || byte == 0xef ? byte + 0x10 : byte;
}

static int compare_utf16(const struct bl_json *a, const struct bl_json *b)
{
    size_t size = a->size < b->size ? a->size : b->size;

    for (size_t i = 0; i < size; i++) {
        if (a->string[i] != b->string[i])
            return utf16_rank((unsigned char)a->string[i]) -
                   utf16_rank((unsigned char)b->string[i]);
    }
    return (a->size > b->size) - (a->size < b->size);
}

/* Keeps equal keys in document order, so that the last of them is known. */
static int compare_members(const void *left, const void *right)
{
    const struct bl_json *a = *(const struct bl_json *const *)left;
    const struct bl_json *b = *(const struct bl_json *const *)right;
    int result = compare_utf16(a, b);

    return result != 0 ? result : (a > b) - (a < b);
}

const struct bl_json **json_members_sort(struct bl_arena *arena, const struct bl_json *object,
                                         size_t *ret_count)
{
    const struct bl_json **keys = bl_arena_alloc(arena, object->size * sizeof(*keys));
    size_t size = 0, count = 0;

    BL_JSON_MEMBERS (key, object)
        keys[size++] = key;
    qsort(keys, size, sizeof(*keys), compare_members);
    for (size_t i = 0; i < size; i++) {
        if (i + 1 == size || compare_utf16(keys[i], keys[i + 1]) != 0)
            keys[count++] = keys[i];
    }
    *ret_count = count;
    return keys;
}

static struct frame *push_frame(struct bl_arena *arena, struct frame *parent,
                                const struct bl_json *container)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct frame *frame = bl_arena_zalloc(arena, sizeof(*frame));

    frame->parent = parent;
    frame->mark = mark;
    if (container->type == BL_JSON_OBJECT) {
        frame->keys = json_members_sort(arena, container, &frame->count);
    } else {
        frame->count = container->size;
        frame->element = container + 1;
    }
    return frame;
}

static int append_scalar(struct bl_buffer *out, const struct bl_json *value)
{
    char digits[32];
    size_t size = 0;

    switch (bl_json_type(value)) {
    case BL_JSON_BOOLEAN:
        return bl_buffer_append(out, value->boolean ? BL_TEXT("true") : BL_TEXT("false"));
    case BL_JSON_INTEGER: size = json_integer_format(value->integer, digits); break;
    case BL_JSON_UNSIGNED: size = json_unsigned_format(value->unsigned_integer, digits); break;
    case BL_JSON_DOUBLE: size = bl_json_format_double(value->number, digits); break;
    case BL_JSON_STRING:
        return json_string_append(out, bl_json_text(value), (value->flags & JSON_VALID) != 0);
    case BL_JSON_NULL:
    case BL_JSON_ARRAY:
    case BL_JSON_OBJECT:
    case BL_JSON_END: return bl_buffer_append(out, BL_TEXT("null"));
    }
    return bl_buffer_append(out, (struct bl_text){digits, size});
}

/* Writes the text before the next child of `frame`, and returns the child. */
static const struct bl_json *next_child(struct bl_buffer *out, struct frame *frame, int *result)
{
    const struct bl_json *child;

    *result = frame->index > 0 ? bl_buffer_append_byte(out, ',') : 0;
    if (frame->keys == NULL) {
        child = frame->element;
        frame->element = bl_json_next(child);
    } else {
        const struct bl_json *key = frame->keys[frame->index];
        child = key + 1;
        if (*result == 0)
            *result = append_scalar(out, key);
        if (*result == 0)
            *result = bl_buffer_append_byte(out, ':');
    }
    frame->index++;
    return child;
}

static int write_canonical(struct bl_buffer *out, const struct bl_json *value,
                           struct bl_arena *arena)
{
    struct frame *frame = NULL;

    for (;;) {
        int result;
        if (value->type == BL_JSON_ARRAY || value->type == BL_JSON_OBJECT) {
            frame = push_frame(arena, frame, value);
            result = bl_buffer_append_byte(out, frame->keys != NULL ? '{' : '[');
        } else {
            result = append_scalar(out, value);
        }
        while (result == 0 && frame != NULL && frame->index == frame->count) {
            result = bl_buffer_append_byte(out, frame->keys != NULL ? '}' : ']');
            struct frame *parent = frame->parent;
            bl_arena_rewind(arena, frame->mark);
            frame = parent;
        }
        if (result != 0 || frame == NULL)
            return result;
        value = next_child(out, frame, &result);
        if (result != 0)
            return result;
    }
}

int bl_json_write_canonical(struct bl_buffer *out, const struct bl_json *value)
{
    static const struct bl_json null = {.type = BL_JSON_NULL};
    size_t size_before = out->size;
    struct bl_arena arena;

    bl_arena_init(&arena);
    int result = write_canonical(out, value != NULL ? value : &null, &arena);
    bl_arena_done(&arena);
    if (result != 0)
        out->size = size_before;
    return result;
}
