#include "reading.h"

void read_bytes(struct reading *reading, struct bl_text bytes, bool first)
{
    bl_arena_init(&reading->arena);
    reading->message[0] = '\0';
    /* A copy in memory of its own, so that a view that outlives the bytes is detected. */
    char *copy = bl_alloc(bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    reading->code = cell_frame_read(&reading->arena, (struct bl_text){copy, bytes.size}, first,
                                    &reading->frame, reading->message, sizeof reading->message);
    bl_free(copy);
}

void read_request(struct reading *reading, const char *op, const char *args)
{
    struct bl_buffer out;

    bl_buffer_init(&out, (size_t)64 << 20);
    bl_buffer_printf(&out, "{\"type\":\"request\",\"id\":7,\"op\":\"%s\",\"args\":", op);
    bl_buffer_append(&out, bl_text_from(args));
    bl_buffer_append(&out, BL_TEXT("}"));
    read_bytes(reading, bl_buffer_text(&out), false);
    bl_buffer_done(&out);
}
