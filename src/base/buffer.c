/* The memory is always one byte longer than the capacity, so that printf, which adds a NUL, can
 * fill a buffer to its maximum. The capacity never exceeds the maximum, so that data which fits the
 * capacity needs no other check. */
#include <belay/base.h>

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#define CAPACITY_MIN ((size_t)64)

void bl_buffer_init(struct bl_buffer *buffer, size_t maximum)
{
    *buffer = (struct bl_buffer){.maximum = maximum};
}

void bl_buffer_done(struct bl_buffer *buffer)
{
    bl_free(buffer->data);
    *buffer = (struct bl_buffer){.maximum = buffer->maximum};
}

void bl_buffer_clear(struct bl_buffer *buffer)
{
    buffer->size = 0;
}

/* Grows the capacity to at least size + `more`: doubles it, up to the maximum. BL_ELIMIT: the
 * maximum would be exceeded, and nothing changed. */
static __attribute__((noinline)) int grow(struct bl_buffer *buffer, size_t more)
{
    if (more > buffer->maximum - buffer->size)
        return BL_ELIMIT;

    size_t needed = buffer->size + more;
    size_t capacity = buffer->capacity <= SIZE_MAX / 2 ? buffer->capacity * 2 : SIZE_MAX;
    if (capacity < CAPACITY_MIN)
        capacity = CAPACITY_MIN;
    if (capacity > buffer->maximum)
        capacity = buffer->maximum;
    if (capacity < needed)
        capacity = needed;
    if (capacity >= PTRDIFF_MAX)
        bl_out_of_memory(capacity);
    buffer->data = bl_realloc(buffer->data, capacity + 1);
    buffer->capacity = capacity;
    return 0;
}

int bl_buffer_reserve(struct bl_buffer *buffer, size_t size)
{
    if (size <= buffer->capacity - buffer->size && buffer->data != NULL)
        return 0;
    return grow(buffer, size);
}

/* The rare case of bl_buffer_append: no room. The text may be a part of the buffer itself, which
 * moves when it grows. */
static __attribute__((noinline)) int append_slowly(struct bl_buffer *buffer, struct bl_text text)
{
    uintptr_t offset = (uintptr_t)text.data - (uintptr_t)buffer->data;
    bool inside = buffer->data != NULL && offset < buffer->size;
    int result = grow(buffer, text.size);
    if (result < 0)
        return result;
    memcpy(buffer->data + buffer->size, inside ? buffer->data + offset : text.data, text.size);
    buffer->size += text.size;
    return 0;
}

int bl_buffer_append(struct bl_buffer *buffer, struct bl_text text)
{
    if (text.size == 0)
        return 0;
    if (__builtin_expect(text.size > buffer->capacity - buffer->size, 0))
        return append_slowly(buffer, text);
    memcpy(buffer->data + buffer->size, text.data, text.size);
    buffer->size += text.size;
    return 0;
}

int bl_buffer_append_byte(struct bl_buffer *buffer, char byte)
{
    if (__builtin_expect(buffer->size == buffer->capacity, 0)) {
        int result = grow(buffer, 1);
        if (result < 0)
            return result;
    }
    buffer->data[buffer->size++] = byte;
    return 0;
}

int bl_buffer_printf(struct bl_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = bl_buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
    return result;
}

/* Formats into the free room, and once more after growing if that was too little. BL_ELIMIT: more
 * than the maximum or INT_MAX bytes; BL_EINVAL: the format cannot be printed. */
int bl_buffer_vprintf(struct bl_buffer *buffer, const char *format, va_list arguments)
{
    assert(format != NULL);
    size_t length = 0;
    do {
        int result = bl_buffer_reserve(buffer, length);
        if (result < 0)
            return result;
        va_list copy;
        va_copy(copy, arguments);
        result = vsnprintf(buffer->data + buffer->size, buffer->capacity - buffer->size + 1, format,
                           copy);
        va_end(copy);
        if (result < 0)
            return errno == EOVERFLOW ? BL_ELIMIT : BL_EINVAL;
        length = (size_t)result;
    } while (length > buffer->capacity - buffer->size);
    buffer->size += length;
    return 0;
}

void bl_buffer_consume(struct bl_buffer *buffer, size_t size)
{
    if (size >= buffer->size) {
        buffer->size = 0;
        return;
    }
    if (size == 0)
        return;
    memmove(buffer->data, buffer->data + size, buffer->size - size);
    buffer->size -= size;
}

struct bl_text bl_buffer_text(const struct bl_buffer *buffer)
{
    return (struct bl_text){buffer->data, buffer->size};
}
