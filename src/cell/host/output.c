/* What a worker says, frame by frame. It is checked like anything from outside: a worker that says
 * something else is lost. */
#include <stdio.h>

#include "cell/worker/protocol.h"
#include "host.h"

/* Nothing that a worker sends is deeper than what it may be asked to carry. */
static const struct bl_json_limits frame_limits = {
    .size_max = WORKER_FRAME_MAX,
    .string_max = WORKER_FRAME_MAX,
    .depth_max = 512,
};

static struct bl_text host_output_member(const struct bl_json *frame, const char *key)
{
    return bl_json_text(bl_json_get(frame, bl_text_from(key)));
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void host_output_append(struct cell *cell, struct bl_text item)
{
    struct bl_cell_host *host = cell->session->host;
    size_t before = cell->output.size;

    if (cell->output.size > 0)
        bl_buffer_append_byte(&cell->output, ',');
    bl_buffer_append(&cell->output, item);
    host->undelivered += cell->output.size - before;
    cell->output_total += item.size + 1;
}

static void write_text_item(struct bl_buffer *out, struct bl_text text)
{
    struct bl_json_writer writer;

    bl_buffer_clear(out);
    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "text");
    bl_json_put_text(&writer, "text", text);
    bl_json_write_end(&writer);
    bl_json_writer_done(&writer);
}

/* As much of the last text as there is room for, at a character. */
static void append_cut(struct cell *cell, const struct bl_json *item, struct bl_buffer *encoded,
                       uint64_t room)
{
    struct bl_text text = host_output_member(item, "text");
    size_t low = 0, high = text.size;

    if (!bl_text_equal(host_output_member(item, "type"), BL_TEXT("text")) || room < 32)
        return;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        write_text_item(encoded, bl_utf8_cut(text, middle));
        if (encoded->size + 1 <= room)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == 0)
        return;
    write_text_item(encoded, bl_utf8_cut(text, low));
    host_output_append(cell, bl_buffer_text(encoded));
}

static int take_item(struct cell *cell, const struct bl_json *frame)
{
    const struct bl_json *item = bl_json_get(frame, BL_TEXT("item"));
    uint64_t room = cell->output_bytes - cell->output_total;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(encoded, SIZE_MAX);

    bl_json_writer_init(&writer, &encoded);
    int code = cell_item_write(&writer, item);
    if (code == 0)
        code = bl_json_writer_done(&writer);
    if (code == 0 && encoded.size + 1 > room) {
        append_cut(cell, item, &encoded, room);
        cell->ending = CELL_OVER_OUTPUT;
        code = BL_ECLOSED;
    } else if (code == 0) {
        host_output_append(cell, bl_buffer_text(&encoded));
    }
    return code;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void keep_value(struct cell *cell, struct bl_text key, const struct bl_json *value)
{
    struct bl_store_value *stored = bl_arena_zalloc(&cell->arena, sizeof *stored);
    struct bl_json_writer writer;
    struct bl_buffer json;

    stored->key = bl_arena_text(&cell->arena, key);
    if (value != NULL) {
        bl_buffer_init(&json, SIZE_MAX);
        bl_json_writer_init(&writer, &json);
        bl_json_write_value(&writer, value);
        stored->json = bl_arena_text(&cell->arena, bl_buffer_text(&json));
        bl_buffer_done(&json);
    }
    bl_list_push_back(&cell->stored, &stored->link);
}

static bool key_valid(struct bl_text key)
{
    return key.size > 0 && key.size <= BL_CELL_KEY_MAX;
}

static int take_values(struct cell *cell, const struct bl_json *frame)
{
    const struct bl_json *values = bl_json_get(frame, BL_TEXT("values"));
    const struct bl_json *deleted = bl_json_get(frame, BL_TEXT("deleted"));

    if (!bl_json_is(values, BL_JSON_OBJECT) || !bl_json_is(deleted, BL_JSON_ARRAY))
        return BL_EPARSE;
    BL_JSON_MEMBERS (key, values) {
        if (!key_valid(bl_json_text(key)))
            return BL_EPARSE;
        keep_value(cell, bl_json_text(key), key + 1);
    }
    BL_JSON_EACH (key, deleted) {
        if (!key_valid(bl_json_text(key)))
            return BL_EPARSE;
        keep_value(cell, bl_json_text(key), NULL);
    }
    return 0;
}

static int take_settled(struct cell *cell, const struct bl_json *frame)
{
    const struct bl_json *error = bl_json_get(frame, BL_TEXT("error"));
    int code = take_values(cell, frame);

    if (code != 0 || error == NULL)
        return BL_EPARSE;
    cell->has_error = !bl_json_is(error, BL_JSON_NULL);
    if (cell->has_error)
        code = cell_error_read(&cell->arena, error, &cell->error);
    /* An engine that has run out of memory has not run to its end. */
    bool whole = !cell->has_error || cell->error.kind == BL_CELL_ERROR_EXCEPTION ||
                 cell->error.kind == BL_CELL_ERROR_SYNTAX ||
                 cell->error.kind == BL_CELL_ERROR_IMPORT;
    if (!whole)
        bl_list_init(&cell->stored);
    cell->ending = CELL_SETTLED;
    return code == 0 ? BL_ECLOSED : BL_EPARSE;
}

void cell_explain_loss(struct cell *cell)
{
    char text[160];
    const struct bl_warden_end *end = &cell->end;

    if (end->how == BL_END_EXITED && end->status == WORKER_EXIT_MEMORY) {
        cell->error.kind = BL_CELL_ERROR_MEMORY_LIMIT;
        cell->error.name = BL_TEXT("RangeError");
        snprintf(text, sizeof text, "the cell's memory limit of %llu bytes was reached",
                 (unsigned long long)cell->memory_bytes);
    } else if (end->how == BL_END_EXITED) {
        snprintf(text, sizeof text, "the worker has gone: exit code %d", end->status);
    } else if (end->how == BL_END_SIGNALED) {
        snprintf(text, sizeof text, "the worker has gone: signal %d", end->status);
    } else {
        return;
    }
    cell->error.message = bl_arena_text(&cell->arena, bl_text_from(text));
}

void cell_explain_output(struct cell *cell)
{
    cell->has_error = true;
    cell->error = (struct bl_cell_error){
        .kind = BL_CELL_ERROR_OUTPUT_LIMIT,
        .name = BL_TEXT("RangeError"),
        .message =
            bl_arena_printf(&cell->arena, "the cell's output limit of %llu bytes was reached",
                            (unsigned long long)cell->output_bytes),
    };
}

/* ---- The rest -------------------------------------------------------------------------------- */

static int take_notify(struct cell *cell, const struct bl_json *frame)
{
    const struct bl_cell_port *port = &cell->session->port;
    const struct bl_json *text = bl_json_get(frame, BL_TEXT("text"));
    int64_t seq;

    if (!bl_json_is(text, BL_JSON_STRING) || bl_json_size(text) > BL_CELL_NOTIFY_MAX ||
        !bl_json_int64(bl_json_get(frame, BL_TEXT("seq")), &seq) ||
        (uint64_t)seq != cell->notify_seq + 1 || port->notify == NULL)
        return BL_EPARSE;
    cell->notify_seq = (uint64_t)seq;
    port->notify(port->context, cell->id, (uint64_t)seq, bl_json_text(text));
    return 0;
}

static int take_idle(struct cell *cell, const struct bl_json *frame)
{
    int64_t timers;

    if (!bl_json_int64(bl_json_get(frame, BL_TEXT("timers")), &timers) || timers < 0 ||
        timers > BL_CELL_TIMERS_MAX)
        return BL_EPARSE;
    cell->timers = (uint32_t)timers;
    if (bl_json_boolean(bl_json_get(frame, BL_TEXT("stalled")), false))
        cell_on_stall(cell);
    return 0;
}

static int take_value(struct cell *cell, const struct bl_json *frame)
{
    struct bl_text type = host_output_member(frame, "type");

    if (bl_text_equal(type, BL_TEXT("item")))
        return take_item(cell, frame);
    if (bl_text_equal(type, BL_TEXT("call")))
        return cell_call_begin(cell, frame);
    if (bl_text_equal(type, BL_TEXT("idle")))
        return take_idle(cell, frame);
    if (bl_text_equal(type, BL_TEXT("notify")))
        return take_notify(cell, frame);
    if (bl_text_equal(type, BL_TEXT("settled")))
        return take_settled(cell, frame);
    if (!bl_text_equal(type, BL_TEXT("yield")))
        return BL_EPARSE;
    cell_on_yield(cell);
    return 0;
}

static int host_output_read_frame(struct cell *cell, struct bl_text frame,
                                  int (*take)(struct cell *cell, const struct bl_json *frame))
{
    const struct bl_json *value;
    BL_AUTO_ARENA(arena);

    int code = bl_json_read(&arena, frame, &frame_limits, &value, NULL);
    code = code == 0 ? take(cell, value) : BL_EPARSE;
    return code;
}

int cell_take_frame(void *cell, struct bl_text frame)
{
    return host_output_read_frame(cell, frame, take_value);
}

static int take_last_value(struct cell *cell, const struct bl_json *frame)
{
    struct bl_text type = host_output_member(frame, "type");

    if (bl_text_equal(type, BL_TEXT("item")))
        return take_item(cell, frame);
    if (bl_text_equal(type, BL_TEXT("yield")) && !cell->observed && cell->first_yield == SIZE_MAX)
        cell->first_yield = cell->output.size;
    return 0;
}

int cell_take_last_frame(void *cell, struct bl_text frame)
{
    return host_output_read_frame(cell, frame, take_last_value);
}

void cell_write_start(const struct cell *cell, struct bl_buffer *out)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "start");
    bl_json_put_text(&writer, "source", cell->source);
    bl_json_write_key(&writer, BL_TEXT("tools"));
    bl_json_write_array(&writer);
    for (size_t i = 0; i < cell->tool_count; i++) {
        bl_json_write_object(&writer);
        bl_json_put_text(&writer, "name", cell->tools[i].name);
        bl_json_put_text(&writer, "description", cell->tools[i].description);
        bl_json_put_string(&writer, "input", cell->tools[i].takes_text ? "text" : "object");
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    bl_json_put_json(&writer, "values", cell->values->json);
    bl_json_put_uint64(&writer, "memory_bytes", cell->memory_bytes);
    bl_json_put_uint64(&writer, "output_bytes", cell->output_bytes);
    bl_json_put_boolean(&writer, "notify", cell->session->port.notify != NULL);
    bl_json_write_end(&writer);
    bl_json_writer_done(&writer);
}
