/* Calls by cell code: each is a fiber below the cell's scope, and ends with it. */
#include <inttypes.h>
#include <stdio.h>

#include "host.h"

struct nested {
    struct cell *cell;
    struct bl_cell_call call;
    struct bl_arena arena;
    struct bl_scope scope;
    char id[32];
    uint64_t number;
};

static void host_nested_write_result(struct bl_buffer *out, uint64_t number,
                                     const struct bl_cell_call_result *result)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "type", "result");
    bl_json_put_uint64(&writer, "call", number);
    if (result->ok) {
        bl_json_put_json(&writer, "ok", result->json);
    } else {
        bl_json_write_key(&writer, BL_TEXT("err"));
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "kind", bl_cell_call_refusal_name(result->refusal));
        bl_json_put_text(&writer, "message", result->message);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    bl_json_writer_done(&writer);
}

static void send_result(struct nested *nested, struct bl_cell_call_result *result)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);

    if (result->ok && result->json.size > BL_CELL_CALL_BYTES_MAX)
        *result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_TOO_LARGE,
                                               .message = BL_TEXT("its result is over 8 MiB")};
    host_nested_write_result(&out, nested->number, result);
    cell_worker_send(nested->cell->worker, bl_buffer_text(&out));
}

static int nested_main(void *argument)
{
    struct nested *nested = argument;
    struct cell *cell = nested->cell;
    const struct bl_cell_port *port = &cell->session->port;
    struct bl_cell_call_result result = {.refusal = BL_CELL_CALL_UNAVAILABLE,
                                         .message = BL_TEXT("nobody serves tools here")};

    bl_scope_init(&nested->scope, &cell->calls.scope);
    struct bl_scope *outer = bl_scope_enter(&nested->scope);
    nested->call.scope = &nested->scope;
    if (cell->calls_total > BL_CELL_CALLS_TOTAL_MAX)
        result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_STEP_LIMIT,
                                              .message = BL_TEXT("a cell has 4096 calls in all")};
    else if (port->call != NULL)
        port->call(port->context, &nested->call, &result);
    bool stopped = bl_scope_stopped(&nested->scope);
    cell->calls_running--;
    if (!stopped)
        send_result(nested, &result);
    bl_scope_enter(outer);
    bl_scope_done(&nested->scope);
    bl_arena_done(&nested->arena);
    bl_free(nested);
    return 0;
}

static const struct bl_cell_tool *host_nested_find_tool(const struct cell *cell,
                                                        struct bl_text name)
{
    for (size_t i = 0; i < cell->tool_count; i++)
        if (bl_text_equal(cell->tools[i].name, name))
            return &cell->tools[i];
    return NULL;
}

/* Copied: it outlives the frame. */
static void copy_input(struct nested *nested, const struct bl_json *input)
{
    static const struct bl_json_limits limits = {
        .size_max = SIZE_MAX / 2, .string_max = SIZE_MAX / 2, .depth_max = 1024};
    struct bl_json_writer writer;
    struct bl_buffer text;

    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, input);
    nested->call.input_text = bl_arena_text(&nested->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    bl_json_read(&nested->arena, nested->call.input_text, &limits, &nested->call.input, NULL);
}

int cell_call_begin(struct cell *cell, const struct bl_json *frame)
{
    const struct bl_json *input = bl_json_get(frame, BL_TEXT("input"));
    const struct bl_cell_tool *tool =
        host_nested_find_tool(cell, bl_json_text(bl_json_get(frame, BL_TEXT("tool"))));
    int64_t number;

    if (tool == NULL || !bl_json_int64(bl_json_get(frame, BL_TEXT("call")), &number) ||
        (uint64_t)number != (uint64_t)cell->calls_total + 1 ||
        cell->calls_running >= BL_CELL_CALLS_MAX ||
        !bl_json_is(input, tool->takes_text ? BL_JSON_STRING : BL_JSON_OBJECT))
        return BL_EPARSE;
    struct nested *nested = bl_zalloc(sizeof *nested);
    nested->cell = cell;
    nested->number = (uint64_t)number;
    snprintf(nested->id, sizeof nested->id, "call-%" PRIu64, nested->number);
    bl_arena_init(&nested->arena);
    copy_input(nested, input);
    nested->call.session_id = cell->session->id;
    nested->call.cell_id = cell->id;
    nested->call.id = nested->id;
    nested->call.tool = bl_arena_text(&nested->arena, tool->name).data;
    nested->call.arena = &nested->arena;
    cell->calls_running++;
    cell->calls_total++;
    if (bl_nursery_spawn(&cell->calls, NULL, "nested call", nested_main, nested, NULL) == 0)
        return 0;
    cell->calls_running--;
    bl_arena_done(&nested->arena);
    bl_free(nested);
    return BL_ESTACKS;
}

struct notified {
    struct cell_worker *worker;
    struct bl_text json;
    char bytes[64];
};

static int notified_main(void *argument)
{
    struct notified *notified = argument;

    cell_worker_send(notified->worker, notified->json);
    bl_free(notified);
    return 0;
}

void bl_cell_notify_ack(struct bl_cell_session *session, const char *cell_id, uint64_t seq)
{
    struct cell *cell = cell_find(session, cell_id);

    if (cell == NULL || cell->state != CELL_RUNNING || cell->worker == NULL ||
        seq > cell->notify_seq)
        return;
    struct notified *notified = bl_zalloc(sizeof *notified);
    notified->worker = cell->worker;
    int size = snprintf(notified->bytes, sizeof notified->bytes,
                        "{\"type\":\"notified\",\"seq\":%" PRIu64 "}", seq);
    notified->json = (struct bl_text){notified->bytes, (size_t)size};
    if (bl_nursery_spawn(&cell->calls, NULL, "notified", notified_main, notified, NULL) != 0)
        bl_free(notified);
}
