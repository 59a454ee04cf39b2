/* Handles a worker's frames. They are validated like all external input: a worker that sends
 * anything else is lost. */
#include <stdio.h>

#include "cell/worker/protocol.h"
#include "host.h"

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

static void write_item(struct bl_buffer *out, const struct bl_cell_item *item)
{
    struct bl_json_writer writer;

    bl_buffer_clear(out);
    bl_json_writer_init(&writer, out);
    bl_record_write(&writer, &bl_cell_item_record, item);
}

/* Appends as much of the last text as fits, cut at a character. */
static void append_cut(struct cell *cell, const struct bl_cell_item *item,
                       struct bl_buffer *encoded, uint64_t room)
{
    struct bl_cell_item part = *item;
    size_t low = 0, high = item->text.size;

    if (item->image || room < 32)
        return;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        part.text = bl_utf8_cut(item->text, middle);
        write_item(encoded, &part);
        if (encoded->size + 1 <= room)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == 0)
        return;
    part.text = bl_utf8_cut(item->text, low);
    write_item(encoded, &part);
    host_output_append(cell, bl_buffer_text(encoded));
}

static int take_item(struct cell *cell, const struct bl_cell_item *item)
{
    uint64_t room = cell->output_bytes - cell->output_total;
    BL_AUTO_BUFFER(encoded, SIZE_MAX);

    write_item(&encoded, item);
    if (encoded.size + 1 > room) {
        append_cut(cell, item, &encoded, room);
        cell->ending = CELL_OVER_OUTPUT;
        return BL_ECLOSED;
    }
    host_output_append(cell, bl_buffer_text(&encoded));
    return 0;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void keep_value(struct cell *cell, struct bl_text key, const struct bl_json *value)
{
    struct bl_store_value *stored = bl_arena_zalloc(&cell->arena, sizeof *stored);

    stored->key = bl_arena_text(&cell->arena, key);
    if (value != NULL)
        stored->json = bl_json_value_text(&cell->arena, value);
    bl_list_push_back(&cell->stored, &stored->link);
}

/* Copies the error: the frame is freed before the end is reported. */
static void keep_error(struct cell *cell, const struct bl_cell_error *error)
{
    cell->has_error = error != NULL;
    if (error == NULL)
        return;
    cell->error = (struct bl_cell_error){.kind = error->kind,
                                         .name = bl_arena_text(&cell->arena, error->name),
                                         .message = bl_arena_text(&cell->arena, error->message),
                                         .stack = bl_arena_text(&cell->arena, error->stack)};
}

static int take_settled(struct cell *cell, const struct cell_worker_frame *frame)
{
    BL_JSON_MEMBERS (key, frame->settled.values) {
        struct bl_text name = bl_json_text(key);
        if (name.size == 0 || name.size > BL_CELL_KEY_MAX)
            return BL_EPARSE;
        keep_value(cell, name, key + 1);
    }
    for (size_t i = 0; i < frame->settled.deleted_count; i++)
        keep_value(cell, frame->settled.deleted[i], NULL);
    keep_error(cell, frame->settled.error);
    /* An engine that has run out of memory has not run to its end, so its values do not count. */
    bool whole = !cell->has_error || cell->error.kind == BL_CELL_ERROR_EXCEPTION ||
                 cell->error.kind == BL_CELL_ERROR_SYNTAX ||
                 cell->error.kind == BL_CELL_ERROR_IMPORT;
    if (!whole)
        bl_list_init(&cell->stored);
    cell->ending = CELL_SETTLED;
    return BL_ECLOSED;
}

void cell_explain_loss(struct cell *cell)
{
    char text[160];
    const struct bl_warden_end *end = &cell->end;

    if (cell_worker_exited(end, WORKER_EXIT_MEMORY)) {
        cell->error.kind = BL_CELL_ERROR_MEMORY_LIMIT;
        cell->error.name = BL_TEXT("RangeError");
        snprintf(text, sizeof text, "the cell's memory limit of %llu bytes was reached",
                 (unsigned long long)cell->memory_bytes);
    } else if (end->how == BL_END_EXITED) {
        snprintf(text, sizeof text, "the worker exited with code %d", end->status);
    } else if (end->how == BL_END_SIGNALED) {
        snprintf(text, sizeof text, "the worker was killed by signal %d", end->status);
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

/* ---- Other frames ---------------------------------------------------------------------------- */

static int take_notify(struct cell *cell, const struct cell_worker_frame *frame)
{
    const struct bl_cell_port *port = &cell->session->port;

    if (frame->number != cell->notify_seq + 1 || port->notify == NULL)
        return BL_EPARSE;
    cell->notify_seq = frame->number;
    port->notify(port->context, cell->id, frame->number, frame->text);
    return 0;
}

int cell_take_frame(void *context, struct bl_text bytes)
{
    struct cell_worker_frame frame;
    struct cell *cell = context;
    BL_AUTO_ARENA(arena);

    int code = cell_worker_frame_read(&arena, bytes, &frame);
    if (code != 0)
        return code;
    switch (frame.type) {
    case CELL_WORKER_ITEM: return take_item(cell, &frame.item);
    case CELL_WORKER_CALL: return cell_call_begin(cell, &frame);
    case CELL_WORKER_NOTIFY: return take_notify(cell, &frame);
    case CELL_WORKER_SETTLED: return take_settled(cell, &frame);
    case CELL_WORKER_YIELD: cell_on_yield(cell); return 0;
    case CELL_WORKER_IDLE:
        cell->timers = frame.idle.timers;
        if (frame.idle.stalled)
            cell_on_stall(cell);
        return 0;
    case CELL_WORKER_READY: /* only once, before `start` */
    case CELL_WORKER_START:
    case CELL_WORKER_RESULT:
    case CELL_WORKER_NOTIFIED: break;
    }
    return BL_EPARSE;
}

int cell_take_last_frame(void *context, struct bl_text bytes)
{
    struct cell_worker_frame frame;
    struct cell *cell = context;
    BL_AUTO_ARENA(arena);

    int code = cell_worker_frame_read(&arena, bytes, &frame);
    if (code == 0 && frame.type == CELL_WORKER_ITEM)
        return take_item(cell, &frame.item);
    if (code == 0 && frame.type == CELL_WORKER_YIELD && !cell->observed &&
        cell->first_yield == SIZE_MAX)
        cell->first_yield = cell->output.size;
    return code;
}
