/* Nested calls: each is a fiber below the cell's scope and ends with it. */
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

static void send_result(struct nested *nested, const struct bl_cell_call_result *result)
{
    struct cell_worker_frame frame = {
        .type = CELL_WORKER_RESULT, .number = nested->number, .result.result = *result};

    if (result->ok && result->json.size > BL_CELL_CALL_BYTES_MAX)
        frame.result.result =
            (struct bl_cell_call_result){.refusal = BL_CELL_CALL_TOO_LARGE,
                                         .message = BL_TEXT("the result is larger than 8 MiB")};
    cell_worker_send(nested->cell->worker, &frame);
}

static int nested_main(void *argument)
{
    struct nested *nested = argument;
    struct cell *cell = nested->cell;
    const struct bl_cell_port *port = &cell->session->port;
    struct bl_cell_call_result result = {.refusal = BL_CELL_CALL_UNAVAILABLE,
                                         .message = BL_TEXT("no client serves tools")};

    bl_scope_init(&nested->scope, &cell->calls.scope);
    struct bl_scope *outer = bl_scope_enter(&nested->scope);
    nested->call.scope = &nested->scope;
    if (cell->calls_total > BL_CELL_CALLS_TOTAL_MAX)
        result =
            (struct bl_cell_call_result){.refusal = BL_CELL_CALL_STEP_LIMIT,
                                         .message = BL_TEXT("a cell can make at most 4096 calls")};
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

/* Copies the input, which outlives the frame. */
static void copy_input(struct nested *nested, const struct bl_json *input)
{
    static const struct bl_json_limits limits = {
        .size_max = SIZE_MAX / 2, .string_max = SIZE_MAX / 2, .depth_max = 1024};

    nested->call.input_text = bl_json_value_text(&nested->arena, input);
    bl_json_read(&nested->arena, nested->call.input_text, &limits, &nested->call.input, NULL);
}

int cell_call_begin(struct cell *cell, const struct cell_worker_frame *frame)
{
    const struct bl_json *input = frame->call.input;
    const struct bl_cell_tool *tool = host_nested_find_tool(cell, frame->call.tool);

    if (tool == NULL || frame->number != (uint64_t)cell->calls_total + 1 ||
        cell->calls_running >= BL_CELL_CALLS_MAX ||
        !bl_json_is(input, tool->takes_text ? BL_JSON_STRING : BL_JSON_OBJECT))
        return BL_EPARSE;
    struct nested *nested = bl_zalloc(sizeof *nested);
    nested->cell = cell;
    nested->number = frame->number;
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
    uint64_t seq;
};

static int notified_main(void *argument)
{
    struct notified *notified = argument;

    cell_worker_send(notified->worker, &(struct cell_worker_frame){.type = CELL_WORKER_NOTIFIED,
                                                                   .number = notified->seq});
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
    notified->seq = seq;
    if (bl_nursery_spawn(&cell->calls, NULL, "notified", notified_main, notified, NULL) != 0)
        bl_free(notified);
}
