/* Messages as bytes: fields in the order of the contract, all of them always there. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static void put_key(struct bl_json_writer *writer, const char *key)
{
    bl_json_write_key(writer, bl_text_from(key));
}

static void begin(struct bl_json_writer *writer, const char *type)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", type);
}

static void put_capabilities(struct bl_json_writer *writer, const char *key, unsigned capabilities)
{
    put_key(writer, key);
    bl_json_write_array(writer);
    if ((capabilities & CELL_CAPABILITY_TOOLS) != 0)
        bl_json_write_string(writer, "tools");
    if ((capabilities & CELL_CAPABILITY_NOTIFY) != 0)
        bl_json_write_string(writer, "notify");
    bl_json_write_end(writer);
}

/* ---- From a client --------------------------------------------------------------------------- */

void cell_hello_write(struct bl_json_writer *writer, const char *client, unsigned wants)
{
    begin(writer, "hello");
    bl_json_put_string(writer, "client", client);
    put_key(writer, "versions");
    bl_json_write_array(writer);
    bl_json_write_uint64(writer, CELL_VERSION);
    bl_json_write_end(writer);
    put_capabilities(writer, "requires", 0);
    put_capabilities(writer, "wants", wants);
    bl_json_write_end(writer);
}

static void write_tool(struct bl_json_writer *writer, const struct bl_cell_tool *tool)
{
    bl_json_write_object(writer);
    bl_json_put_text(writer, "name", tool->name);
    bl_json_put_text(writer, "description", tool->description);
    bl_json_put_string(writer, "input", tool->takes_text ? "text" : "object");
    bl_json_put_json(writer, "input_schema", tool->schema);
    bl_json_write_end(writer);
}

static void put_create(struct bl_json_writer *writer, const struct bl_cell_create *create)
{
    bl_json_put_string(writer, "cell_id", create->cell_id);
    bl_json_put_text(writer, "source", create->source);
    put_key(writer, "tools");
    bl_json_write_array(writer);
    for (size_t i = 0; i < create->tool_count; i++)
        write_tool(writer, &create->tools[i]);
    bl_json_write_end(writer);
    put_key(writer, "limits");
    bl_json_write_object(writer);
    if (create->deadline_ms > 0)
        bl_json_put_uint64(writer, "deadline_ms", create->deadline_ms);
    if (create->memory_bytes > 0)
        bl_json_put_uint64(writer, "memory_bytes", create->memory_bytes);
    if (create->output_bytes > 0)
        bl_json_put_uint64(writer, "output_bytes", create->output_bytes);
    bl_json_write_end(writer);
}

static void put_arguments(struct bl_json_writer *writer, const struct cell_request *request)
{
    switch (request->op) {
    case CELL_OPEN_SESSION:
        bl_json_put_boolean(writer, "serves_tools", request->open.serves_tools);
        bl_json_put_uint64(writer, "linger_ms", request->open.linger_ms);
        break;
    case CELL_CREATE_CELL: put_create(writer, &request->create); break;
    case CELL_OBSERVE:
        bl_json_put_string(writer, "cell_id", request->observe.cell_id);
        bl_json_put_uint64(writer, "generation", request->observe.generation);
        bl_json_put_uint64(writer, "yield_time_ms", request->observe.yield_ms);
        break;
    case CELL_TERMINATE:
        bl_json_put_string(writer, "cell_id", request->terminate.cell_id);
        bl_json_put_string(writer, "terminate_id", request->terminate.terminate_id);
        bl_json_put_string(writer, "reason", bl_stop_reason_name(request->terminate.reason));
        break;
    case CELL_RELEASE:
        bl_json_put_string(writer, "cell_id", request->release.cell_id);
        bl_json_put_uint64(writer, "generation", request->release.generation);
        break;
    case CELL_LIST:
        bl_json_put_string(writer, "after", request->list.after);
        bl_json_put_uint64(writer, "max", request->list.max);
        break;
    case CELL_CLOSE_SESSION: bl_json_put_boolean(writer, "forget", request->close.forget); break;
    }
}

void cell_request_write(struct bl_json_writer *writer, const struct cell_request *request)
{
    begin(writer, "request");
    bl_json_put_uint64(writer, "id", request->id);
    bl_json_put_string(writer, "op", cell_operation_name(request->op));
    put_key(writer, "args");
    bl_json_write_object(writer);
    bl_json_put_string(writer, "session_id", request->session_id);
    put_arguments(writer, request);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

void cell_cancel_write(struct bl_json_writer *writer, uint64_t id)
{
    begin(writer, "cancel");
    bl_json_put_uint64(writer, "id", id);
    bl_json_write_end(writer);
}

/* The beginning of what is said of one cell. */
static void begin_cell(struct bl_json_writer *writer, const char *type, const char *session_id,
                       const char *cell_id)
{
    begin(writer, type);
    bl_json_put_string(writer, "session_id", session_id);
    bl_json_put_string(writer, "cell_id", cell_id);
}

void cell_tool_result_write(struct bl_json_writer *writer, const char *session_id,
                            const char *cell_id, const char *call_id,
                            const struct bl_cell_call_result *result)
{
    begin_cell(writer, "tool_result", session_id, cell_id);
    bl_json_put_string(writer, "call_id", call_id);
    if (result->ok) {
        bl_json_put_json(writer, "ok", result->json);
    } else {
        put_key(writer, "err");
        bl_json_write_object(writer);
        bl_json_put_string(writer, "kind", bl_cell_call_refusal_name(result->refusal));
        bl_json_put_text(writer, "message", result->message);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

void cell_notify_ack_write(struct bl_json_writer *writer, const char *session_id,
                           const char *cell_id, uint64_t seq)
{
    begin_cell(writer, "notify_ack", session_id, cell_id);
    bl_json_put_uint64(writer, "seq", seq);
    bl_json_write_end(writer);
}

/* ---- From the host --------------------------------------------------------------------------- */

static void begin_reply(struct bl_json_writer *writer, uint64_t id, struct bl_text op)
{
    begin(writer, "reply");
    bl_json_put_uint64(writer, "id", id);
    bl_json_put_text(writer, "op", op);
}

void cell_reply_ok_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                         struct bl_text ok)
{
    begin_reply(writer, id, op);
    bl_json_put_json(writer, "ok", ok);
    bl_json_write_end(writer);
}

void cell_reply_err_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                          const struct bl_cell_fault *fault)
{
    begin_reply(writer, id, op);
    put_key(writer, "err");
    cell_fault_write(writer, fault);
    bl_json_write_end(writer);
}

static void put_retained(struct bl_json_writer *writer, const struct bl_cell_fault *fault)
{
    bl_json_put_uint64(writer, "expected", fault->expected);
    put_key(writer, "retained");
    bl_json_write_array(writer);
    for (unsigned i = 0; i < fault->retained_count; i++)
        bl_json_write_uint64(writer, fault->retained[i]);
    bl_json_write_end(writer);
}

void cell_fault_write(struct bl_json_writer *writer, const struct bl_cell_fault *fault)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "code", bl_cell_code_name(fault->code));
    bl_json_put_string(writer, "message", fault->message);
    bl_json_put_boolean(writer, "retryable", bl_cell_code_retryable(fault->code));
    switch (fault->code) {
    case BL_CELL_BAD_REQUEST: bl_json_put_string(writer, "path", fault->path); break;
    case BL_CELL_UNSUPPORTED: bl_json_put_string(writer, "op", fault->op); break;
    case BL_CELL_SESSION_NOT_OPEN:
    case BL_CELL_SESSION_BUSY: bl_json_put_string(writer, "session_id", fault->id); break;
    case BL_CELL_CONFLICT:
    case BL_CELL_GONE:
    case BL_CELL_NOT_TERMINAL: bl_json_put_string(writer, "cell_id", fault->id); break;
    case BL_CELL_WRONG_GENERATION: put_retained(writer, fault); break;
    case BL_CELL_LIMIT_REACHED:
        bl_json_put_string(writer, "limit", fault->limit);
        bl_json_put_uint64(writer, "value", fault->value);
        break;
    case BL_CELL_WORKER_UNAVAILABLE:
    case BL_CELL_STORE_FAILED:
    case BL_CELL_INTERNAL: bl_json_put_string(writer, "detail", fault->detail); break;
    case BL_CELL_CANCELLED:
    case BL_CELL_SHUTTING_DOWN: break;
    }
    bl_json_write_end(writer);
}

void cell_ready_write(struct bl_json_writer *writer, unsigned capabilities, const char *instance,
                      uint32_t live_cells)
{
    begin(writer, "ready");
    bl_json_put_uint64(writer, "version", CELL_VERSION);
    put_capabilities(writer, "capabilities", capabilities);
    bl_json_put_string(writer, "instance", instance);
    put_key(writer, "limits");
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "frame_bytes", BL_CELL_FRAME_MAX);
    bl_json_put_uint64(writer, "live_cells", live_cells);
    bl_json_put_uint64(writer, "requests", BL_CELL_REQUESTS_MAX);
    bl_json_put_uint64(writer, "control_requests", BL_CELL_CONTROL_MAX);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

void cell_rejected_write(struct bl_json_writer *writer, enum cell_rejection rejection,
                         struct bl_text text)
{
    begin(writer, "rejected");
    put_key(writer, "reason");
    switch (rejection) {
    case CELL_REJECTED_VERSION:
        begin(writer, "no_common_version");
        put_key(writer, "versions");
        bl_json_write_array(writer);
        bl_json_write_uint64(writer, CELL_VERSION);
        bl_json_write_end(writer);
        break;
    case CELL_REJECTED_CAPABILITY:
        begin(writer, "missing_capability");
        bl_json_put_text(writer, "capability", text);
        break;
    case CELL_REJECTED_HELLO:
        begin(writer, "bad_hello");
        bl_json_put_text(writer, "message", text);
        break;
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

void cell_tool_call_write(struct bl_json_writer *writer, const struct bl_cell_call *call,
                          bool redelivered)
{
    begin_cell(writer, "tool_call", call->session_id, call->cell_id);
    bl_json_put_string(writer, "call_id", call->id);
    bl_json_put_string(writer, "tool", call->tool);
    put_key(writer, "input");
    if (call->input_text.size > 0)
        bl_json_write_raw(writer, call->input_text);
    else
        bl_json_write_value(writer, call->input);
    bl_json_put_boolean(writer, "redelivered", redelivered);
    bl_json_write_end(writer);
}

void cell_tool_cancel_write(struct bl_json_writer *writer, const char *session_id,
                            const char *cell_id, const char *call_id)
{
    begin_cell(writer, "tool_cancel", session_id, cell_id);
    bl_json_put_string(writer, "call_id", call_id);
    bl_json_write_end(writer);
}

void cell_notify_write(struct bl_json_writer *writer, const char *session_id, const char *cell_id,
                       uint64_t seq, struct bl_text text)
{
    begin_cell(writer, "notify", session_id, cell_id);
    bl_json_put_uint64(writer, "seq", seq);
    bl_json_put_text(writer, "text", text);
    bl_json_write_end(writer);
}

void cell_ended_write(struct bl_json_writer *writer, const char *session_id, const char *cell_id)
{
    begin_cell(writer, "ended", session_id, cell_id);
    bl_json_write_end(writer);
}

void cell_bye_write(struct bl_json_writer *writer, const char *reason, const char *message)
{
    begin(writer, "bye");
    bl_json_put_string(writer, "reason", reason);
    bl_json_put_string(writer, "message", message);
    bl_json_write_end(writer);
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

/* What outcomes with output begin with. The items are JSON already, with their commas. */
static void begin_outcome(struct bl_json_writer *writer, const char *type, const char *cell_id,
                          uint64_t generation, struct bl_text items)
{
    begin(writer, type);
    bl_json_put_string(writer, "cell_id", cell_id);
    bl_json_put_uint64(writer, "generation", generation);
    put_key(writer, "content_items");
    bl_json_write_array(writer);
    if (items.size > 0)
        bl_json_write_raw(writer, items);
    bl_json_write_end(writer);
}

void cell_yielded_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                        struct bl_text items, bool stalled)
{
    begin_outcome(writer, "yielded", cell_id, generation, items);
    bl_json_put_boolean(writer, "stalled", stalled);
    bl_json_write_end(writer);
}

void cell_completed_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                          struct bl_text items, const struct bl_cell_error *error,
                          uint64_t stopped_calls)
{
    begin_outcome(writer, "completed", cell_id, generation, items);
    put_key(writer, "error");
    if (error != NULL)
        cell_error_write(writer, error);
    else
        bl_json_write_null(writer);
    bl_json_put_uint64(writer, "stopped_calls", stopped_calls);
    bl_json_write_end(writer);
}

void cell_terminated_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                           struct bl_text items, struct bl_text receipt)
{
    begin_outcome(writer, "terminated", cell_id, generation, items);
    bl_json_put_json(writer, "receipt", receipt);
    bl_json_write_end(writer);
}

/* An answer that says no more than its type, and of what. */
static void write_short(struct bl_json_writer *writer, const char *type, const char *key,
                        const char *id)
{
    begin(writer, type);
    bl_json_put_string(writer, key, id);
    bl_json_write_end(writer);
}

void cell_missing_write(struct bl_json_writer *writer, const char *cell_id)
{
    write_short(writer, "missing", "cell_id", cell_id);
}

void cell_created_write(struct bl_json_writer *writer, const char *cell_id)
{
    write_short(writer, "created", "cell_id", cell_id);
}

void cell_released_write(struct bl_json_writer *writer, const char *cell_id)
{
    write_short(writer, "released", "cell_id", cell_id);
}

void cell_opened_write(struct bl_json_writer *writer, const char *session_id)
{
    write_short(writer, "opened", "session_id", session_id);
}

void cell_closed_write(struct bl_json_writer *writer, const char *session_id,
                       struct bl_text receipt)
{
    begin(writer, "closed");
    bl_json_put_string(writer, "session_id", session_id);
    bl_json_put_json(writer, "receipt", receipt);
    bl_json_write_end(writer);
}

void cell_listed_write(struct bl_json_writer *writer, const char *session_id,
                       const struct cell_listed *cells, size_t count, bool more)
{
    begin(writer, "listed");
    bl_json_put_string(writer, "session_id", session_id);
    put_key(writer, "cells");
    bl_json_write_array(writer);
    for (size_t i = 0; i < count; i++) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "cell_id", cells[i].cell_id);
        bl_json_put_string(writer, "state", cells[i].state);
        bl_json_put_uint64(writer, "generation", cells[i].generation);
        bl_json_put_uint64(writer, "age_ms", cells[i].age_ms);
        bl_json_put_uint64(writer, "deadline_left_ms", cells[i].deadline_left_ms);
        bl_json_put_uint64(writer, "undelivered_bytes", cells[i].undelivered_bytes);
        bl_json_put_uint64(writer, "calls", cells[i].calls);
        bl_json_put_uint64(writer, "timers", cells[i].timers);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_put_boolean(writer, "more", more);
    bl_json_write_end(writer);
}

/* ---- The digest of a create ------------------------------------------------------------------ */

static void digest_number(struct bl_sha256 *hash, uint64_t number)
{
    char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(number >> (56 - 8 * i));
    bl_sha256_add(hash, (struct bl_text){bytes, sizeof bytes});
}

/* With its length before it, so that no two lists of texts look alike. */
static void digest_text(struct bl_sha256 *hash, struct bl_text text)
{
    digest_number(hash, text.size);
    bl_sha256_add(hash, text);
}

static int compare_tools(const void *left, const void *right)
{
    const struct bl_cell_tool *const *a = left, *const *b = right;

    return bl_text_compare((*a)->name, (*b)->name);
}

void cell_digest(const struct bl_cell_create *create, uint8_t out[32])
{
    const struct bl_cell_tool **tools = bl_alloc(create->tool_count * sizeof(*tools));
    struct bl_sha256 hash;

    for (size_t i = 0; i < create->tool_count; i++)
        tools[i] = &create->tools[i];
    if (create->tool_count > 1)
        qsort(tools, create->tool_count, sizeof(*tools), compare_tools);
    bl_sha256_init(&hash);
    digest_text(&hash, create->source);
    digest_number(&hash, create->memory_bytes > 0 ? create->memory_bytes : BL_CELL_MEMORY);
    digest_number(&hash, create->output_bytes > 0 ? create->output_bytes : BL_CELL_OUTPUT);
    digest_number(&hash, create->tool_count);
    for (size_t i = 0; i < create->tool_count; i++) {
        digest_text(&hash, tools[i]->name);
        digest_text(&hash, tools[i]->description);
        digest_number(&hash, tools[i]->takes_text);
        digest_text(&hash, tools[i]->schema);
    }
    bl_sha256_end(&hash, out);
    bl_free(tools);
}
