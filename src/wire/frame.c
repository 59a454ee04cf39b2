#include <belay/wire.h>

/* Largest buffer that is kept after a frame: a large frame must not hold its memory for the rest of
 * the connection. */
#define KEPT_MAX ((size_t)256 * 1024)

void bl_frames_init(struct bl_frames *frames, size_t frame_max)
{
    bl_buffer_init(&frames->pending, 0);
    frames->frame_max = frame_max;
}

void bl_frames_done(struct bl_frames *frames)
{
    bl_buffer_done(&frames->pending);
}

bool bl_frames_partial(const struct bl_frames *frames)
{
    return frames->pending.size > 0;
}

void bl_frame_head(uint8_t out[BL_FRAME_HEAD_SIZE], uint32_t size)
{
    out[0] = (uint8_t)(size >> 24);
    out[1] = (uint8_t)(size >> 16);
    out[2] = (uint8_t)(size >> 8);
    out[3] = (uint8_t)size;
}

/* BL_ELIMIT: invalid length. */
static int wire_frame_read_head(const struct bl_frames *frames, const char *bytes, size_t *ret_size)
{
    const uint8_t *head = (const uint8_t *)bytes;
    size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (size == 0 || size > frames->frame_max)
        return BL_ELIMIT;
    *ret_size = size;
    return 0;
}

/* Moves bytes from the front until `size` bytes are pending. Returns false if there were not
 * enough. */
static bool wire_frame_fill(struct bl_buffer *pending, struct bl_text *bytes, size_t size)
{
    size_t wanted = size - pending->size;
    struct bl_text part = {bytes->data, wanted < bytes->size ? wanted : bytes->size};
    pending->maximum = size > pending->capacity ? size : pending->capacity;
    bl_buffer_append(pending, part); /* never more than the maximum */
    bytes->data += part.size;
    bytes->size -= part.size;
    return part.size == wanted;
}

/* Continues a pending frame, or starts one that is incomplete. */
static int feed_pending(struct bl_frames *frames, struct bl_text *bytes, bl_line_take *take,
                        void *context)
{
    struct bl_buffer *pending = &frames->pending;
    size_t size;
    if (pending->size < BL_FRAME_HEAD_SIZE && !wire_frame_fill(pending, bytes, BL_FRAME_HEAD_SIZE))
        return 0;
    int code = wire_frame_read_head(frames, pending->data, &size);
    if (code != 0)
        return code;
    if (!wire_frame_fill(pending, bytes, BL_FRAME_HEAD_SIZE + size))
        return 0;
    code = take(context, (struct bl_text){pending->data + BL_FRAME_HEAD_SIZE, size});
    if (pending->capacity > KEPT_MAX)
        bl_buffer_done(pending);
    else
        bl_buffer_clear(pending);
    return code;
}

int bl_frames_feed(struct bl_frames *frames, struct bl_text bytes, bl_line_take *take,
                   void *context)
{
    int code = 0;
    while (code == 0 && bytes.size > 0) {
        size_t size;
        if (frames->pending.size > 0 || bytes.size < BL_FRAME_HEAD_SIZE) {
            code = feed_pending(frames, &bytes, take, context);
            continue;
        }
        code = wire_frame_read_head(frames, bytes.data, &size);
        if (code != 0)
            return code;
        if (bytes.size - BL_FRAME_HEAD_SIZE < size) {
            code = feed_pending(frames, &bytes, take, context);
            continue;
        }
        /* A complete frame is delivered without a copy. */
        code = take(context, (struct bl_text){bytes.data + BL_FRAME_HEAD_SIZE, size});
        bytes.data += BL_FRAME_HEAD_SIZE + size;
        bytes.size -= BL_FRAME_HEAD_SIZE + size;
    }
    return code;
}
