/* Bytes of an event stream, whole and in pieces: the same events, valid text, bounded memory. The
 * first byte chooses the pieces, and small limits for half of the runs. */
#include <stdio.h>
#include <stdlib.h>

#include <belay/wire.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "sse_fuzz: %s\n", what);
    abort();
}

static int take(void *context, const struct bl_sse_event *event)
{
    struct bl_buffer *events = context;

    check(bl_utf8_valid(event->name) && bl_utf8_valid(event->data), "text that is not UTF-8");
    bl_buffer_append(events, event->name);
    bl_buffer_append_byte(events, '\xFE');
    bl_buffer_append(events, event->data);
    bl_buffer_append_byte(events, '\xFF');
    return 0;
}

static int read_in_pieces(struct bl_text bytes, size_t piece_max, size_t limit,
                          struct bl_buffer *events)
{
    struct bl_sse sse;
    int code = 0;
    uint32_t turn = 1;

    bl_sse_init(&sse, limit, limit);
    for (size_t at = 0; code == 0 && at < bytes.size;) {
        turn = turn * 1103515245u + 12345u;
        size_t size = piece_max == 0 ? bytes.size : turn / 65536u % piece_max + 1;
        if (size > bytes.size - at)
            size = bytes.size - at;
        /* In memory of its own: a view that outlives its piece is found out. */
        char *piece = bl_alloc(size);
        memcpy(piece, bytes.data + at, size);
        code = bl_sse_feed(&sse, (struct bl_text){piece, size}, take, events);
        bl_free(piece);
        at += size;
    }
    if (code == 0)
        code = bl_sse_end(&sse, take, events);
    check(code == 0 || code == BL_ELIMIT, "a code that is not promised");
    check(sse.data.size + sse.name.size + sse.id.size <= limit, "an event over its limit");
    check(sse.lines.pending.size <= limit, "a line over its limit");
    bl_sse_done(&sse);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bl_text bytes = {(const char *)data + 1, size - 1};
    size_t limit = (data[0] & 1) != 0 ? 24 : (size_t)1 << 20;
    struct bl_buffer whole, pieces;

    bl_buffer_init(&whole, (size_t)64 << 20);
    bl_buffer_init(&pieces, (size_t)64 << 20);
    int whole_code = read_in_pieces(bytes, 0, limit, &whole);
    int pieces_code = read_in_pieces(bytes, (size_t)data[0] / 2 + 1, limit, &pieces);
    check(whole_code == pieces_code, "the pieces decide whether it is over the limit");
    check(bl_text_equal(bl_buffer_text(&whole), bl_buffer_text(&pieces)),
          "the pieces decide what the events are");
    bl_buffer_done(&whole);
    bl_buffer_done(&pieces);
    return 0;
}
