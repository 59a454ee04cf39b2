#include <belay/proc.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* The first bytes fill the head. Later bytes go to the tail, a ring in which new bytes replace the
 * oldest. If the limit is odd, the head is one byte larger. */
void bl_capture_init(struct bl_capture *capture, size_t limit)
{
    *capture = (struct bl_capture){.limit = limit};
    bl_buffer_init(&capture->head, limit - limit / 2);
    bl_buffer_init(&capture->tail, limit / 2);
}

void bl_capture_done(struct bl_capture *capture)
{
    bl_buffer_done(&capture->head);
    bl_buffer_done(&capture->tail);
    capture->tail_start = 0;
    capture->total = 0;
}

/* Moves up to `size` bytes from the front of `*bytes` to the end of `buffer`, which has room for
 * them. */
static void move_bytes(struct bl_buffer *buffer, struct bl_text *bytes, size_t size)
{
    if (size > bytes->size)
        size = bytes->size;
    if (size == 0)
        return;
    int result = bl_buffer_append(buffer, (struct bl_text){bytes->data, size});
    assert(result == 0);
    (void)result;
    bytes->data += size;
    bytes->size -= size;
}

/* Replaces the oldest bytes of the ring. There are at most as many bytes as the ring holds. */
static void overwrite(struct bl_capture *capture, struct bl_text bytes)
{
    struct bl_buffer *ring = &capture->tail;
    size_t to_end = ring->size - capture->tail_start;
    size_t first = bytes.size < to_end ? bytes.size : to_end;

    memcpy(ring->data + capture->tail_start, bytes.data, first);
    memcpy(ring->data, bytes.data + first, bytes.size - first);
    capture->tail_start = (capture->tail_start + bytes.size) % ring->size;
}

/* Copies each byte at most once: if a piece is longer than the tail, only its end is read. */
void bl_capture_add(struct bl_capture *capture, struct bl_text bytes)
{
    struct bl_buffer *tail = &capture->tail;

    capture->total += bytes.size;
    move_bytes(&capture->head, &bytes, capture->head.maximum - capture->head.size);
    move_bytes(tail, &bytes, tail->maximum - tail->size);
    if (bytes.size == 0 || tail->maximum == 0)
        return;
    if (bytes.size > tail->maximum) {
        bytes.data += bytes.size - tail->maximum;
        bytes.size = tail->maximum;
    }
    overwrite(capture, bytes);
}

uint64_t bl_capture_left_out(const struct bl_capture *capture)
{
    return capture->total - capture->head.size - capture->tail.size;
}

/* BL_ELIMIT: `out` has no room; nothing was added. */
int bl_capture_text(const struct bl_capture *capture, struct bl_buffer *out)
{
    const struct bl_buffer *tail = &capture->tail;
    uint64_t left_out = bl_capture_left_out(capture);
    char mark[64];
    size_t mark_size = 0;

    if (left_out > 0)
        mark_size =
            (size_t)snprintf(mark, sizeof mark, "\n…%" PRIu64 " bytes left out…\n", left_out);
    int code = bl_buffer_reserve(out, capture->head.size + mark_size + tail->size);
    if (code != 0)
        return code;
    bl_buffer_append(out, bl_buffer_text(&capture->head));
    bl_buffer_append(out, (struct bl_text){mark, mark_size});
    if (tail->size == 0)
        return 0;
    bl_buffer_append(
        out, (struct bl_text){tail->data + capture->tail_start, tail->size - capture->tail_start});
    bl_buffer_append(out, (struct bl_text){tail->data, capture->tail_start});
    return 0;
}
