/* The files of tests/cell/wire: what the codec reads and writes, to the byte, and what the schemas
 * say of it. */
#include "golden.h"

/* ---- There and back -------------------------------------------------------------------------- */

static void encode_items(struct bl_buffer *out, const struct bl_list *items)
{
    BL_LIST_EACH (link, items) {
        const struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
        struct bl_json_writer writer;
        if (out->size > 0)
            bl_buffer_append_byte(out, ',');
        bl_json_writer_init(&writer, out);
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "type", item->image ? "image" : "text");
        bl_json_put_text(&writer, item->image ? "image_url" : "text",
                         item->image ? item->url : item->text);
        if (item->image)
            bl_json_put_text(&writer, "detail", item->detail);
        bl_json_write_end(&writer);
        assert_int_equal(bl_json_writer_done(&writer), 0);
    }
}

static void encode_completed(struct bl_json_writer *writer, const struct bl_cell_completed *outcome)
{
    struct bl_buffer items;
    bl_buffer_init(&items, GOLDEN_TEXT_MAX);
    encode_items(&items, &outcome->items);
    cell_completed_write(writer, outcome->cell_id.data, outcome->generation, bl_buffer_text(&items),
                         outcome->error, outcome->stopped_calls);
    bl_buffer_done(&items);
}

static void encode_terminated(struct bl_json_writer *writer,
                              const struct bl_cell_terminated *outcome)
{
    struct bl_buffer items, receipt;
    struct bl_json_writer inner;
    bl_buffer_init(&items, GOLDEN_TEXT_MAX);
    bl_buffer_init(&receipt, GOLDEN_TEXT_MAX);
    encode_items(&items, &outcome->items);
    bl_json_writer_init(&inner, &receipt);
    bl_json_write_value(&inner, outcome->receipt);
    cell_terminated_write(writer, outcome->cell_id.data, outcome->generation,
                          bl_buffer_text(&items), bl_buffer_text(&receipt));
    bl_buffer_done(&items);
    bl_buffer_done(&receipt);
}

static void encode_observed(struct bl_json_writer *writer, struct bl_arena *arena,
                            struct bl_text json)
{
    struct bl_cell_observe_outcome outcome;
    struct bl_buffer items;

    assert_int_equal(bl_cell_observe_outcome_read(arena, json, &outcome, NULL), 0);
    assert_true(bl_text_equal(outcome.json, json));
    switch (outcome.type) {
    case BL_CELL_OBSERVE_YIELDED:
        bl_buffer_init(&items, GOLDEN_TEXT_MAX);
        encode_items(&items, &outcome.yielded.items);
        cell_yielded_write(writer, outcome.yielded.cell_id.data, outcome.yielded.generation,
                           bl_buffer_text(&items), outcome.yielded.stalled);
        bl_buffer_done(&items);
        break;
    case BL_CELL_OBSERVE_COMPLETED: encode_completed(writer, &outcome.completed); break;
    case BL_CELL_OBSERVE_TERMINATED: encode_terminated(writer, &outcome.terminated); break;
    case BL_CELL_OBSERVE_MISSING: cell_missing_write(writer, outcome.missing.cell_id.data); break;
    }
}

static void encode_terminate(struct bl_json_writer *writer, struct bl_arena *arena,
                             struct bl_text json)
{
    struct bl_cell_terminate_outcome outcome;

    assert_int_equal(bl_cell_terminate_outcome_read(arena, json, &outcome, NULL), 0);
    assert_true(bl_text_equal(outcome.json, json));
    switch (outcome.type) {
    case BL_CELL_TERMINATE_COMPLETED: encode_completed(writer, &outcome.completed); break;
    case BL_CELL_TERMINATE_TERMINATED: encode_terminated(writer, &outcome.terminated); break;
    case BL_CELL_TERMINATE_MISSING: cell_missing_write(writer, outcome.missing.cell_id.data); break;
    }
}

static uint64_t number(const struct bl_json *object, const char *key)
{
    int64_t value = -1;
    assert_true(bl_json_int64(golden_get(object, key), &value));
    return (uint64_t)value;
}

static void encode_listed(struct bl_json_writer *writer, const struct bl_json *ok)
{
    struct cell_listed cells[8];
    size_t count = 0;

    BL_JSON_EACH (cell, golden_get(ok, "cells")) {
        cells[count++] = (struct cell_listed){
            .cell_id = bl_json_text(golden_get(cell, "cell_id")).data,
            .state = bl_json_text(golden_get(cell, "state")).data,
            .generation = number(cell, "generation"),
            .age_ms = number(cell, "age_ms"),
            .deadline_left_ms = number(cell, "deadline_left_ms"),
            .undelivered_bytes = number(cell, "undelivered_bytes"),
            .calls = number(cell, "calls"),
            .timers = number(cell, "timers"),
        };
    }
    cell_listed_write(writer, bl_json_text(golden_get(ok, "session_id")).data, cells, count,
                      bl_json_boolean(golden_get(ok, "more"), false));
}

static void encode_closed(struct bl_json_writer *writer, const struct bl_json *ok)
{
    const struct bl_json *receipt = golden_get(ok, "receipt");
    struct bl_json_writer inner;
    struct bl_buffer text;

    bl_buffer_init(&text, GOLDEN_TEXT_MAX);
    bl_json_writer_init(&inner, &text);
    if (bl_json_is(receipt, BL_JSON_OBJECT))
        bl_json_write_value(&inner, receipt);
    cell_closed_write(writer, bl_json_text(golden_get(ok, "session_id")).data,
                      bl_buffer_text(&text));
    bl_buffer_done(&text);
}

static void encode_ok(struct bl_json_writer *writer, struct bl_arena *arena,
                      enum cell_operation operation, struct bl_text json)
{
    const struct bl_json *ok = golden_parse(arena, json);
    const char *cell_id = bl_json_text(golden_get(ok, "cell_id")).data;

    switch (operation) {
    case CELL_OPEN_SESSION:
        cell_opened_write(writer, bl_json_text(golden_get(ok, "session_id")).data);
        break;
    case CELL_CREATE_CELL: cell_created_write(writer, cell_id); break;
    case CELL_OBSERVE: encode_observed(writer, arena, json); break;
    case CELL_TERMINATE: encode_terminate(writer, arena, json); break;
    case CELL_RELEASE:
        if (bl_text_equal(bl_json_text(golden_get(ok, "type")), BL_TEXT("missing")))
            cell_missing_write(writer, cell_id);
        else
            cell_released_write(writer, cell_id);
        break;
    case CELL_LIST: encode_listed(writer, ok); break;
    case CELL_CLOSE_SESSION: encode_closed(writer, ok); break;
    }
}

static void encode_rejected(struct bl_json_writer *writer, const struct cell_host_frame *frame)
{
    enum cell_rejection rejection = CELL_REJECTED_HELLO;
    if (bl_text_equal(frame->reason, BL_TEXT("no_common_version")))
        rejection = CELL_REJECTED_VERSION;
    else if (bl_text_equal(frame->reason, BL_TEXT("missing_capability")))
        rejection = CELL_REJECTED_CAPABILITY;
    cell_rejected_write(writer, rejection, frame->text);
}

static void encode_reply(struct bl_json_writer *writer, struct bl_arena *arena,
                         const struct cell_host_frame *frame)
{
    struct bl_json_writer inner;
    struct bl_buffer ok;

    if (!frame->ok) {
        cell_reply_err_write(writer, frame->id, frame->op_text, &frame->fault);
        return;
    }
    bl_buffer_init(&ok, GOLDEN_TEXT_MAX);
    bl_json_writer_init(&inner, &ok);
    encode_ok(&inner, arena, frame->op, frame->ok_json);
    assert_int_equal(bl_json_writer_done(&inner), 0);
    assert_true(bl_text_equal(bl_buffer_text(&ok), frame->ok_json));
    cell_reply_ok_write(writer, frame->id, bl_text_from(cell_operation_name(frame->op)),
                        bl_buffer_text(&ok));
    bl_buffer_done(&ok);
}

static void encode_host(struct bl_json_writer *writer, struct bl_arena *arena, struct bl_text bytes)
{
    struct bl_error error = {0};
    struct cell_host_frame frame;

    if (cell_host_frame_read(arena, bytes, &frame, &error) != 0)
        fail_msg("%s", error.message);
    switch (frame.type) {
    case CELL_HOST_READY:
        cell_ready_write(writer, frame.capabilities, frame.instance.data,
                         (uint32_t)frame.live_cells);
        break;
    case CELL_HOST_REJECTED: encode_rejected(writer, &frame); break;
    case CELL_HOST_REPLY: encode_reply(writer, arena, &frame); break;
    case CELL_HOST_TOOL_CALL: {
        struct bl_cell_call call = {.session_id = frame.session_id,
                                    .cell_id = frame.cell_id,
                                    .id = frame.call_id,
                                    .tool = frame.tool.data,
                                    .input_text = frame.input_json,
                                    .input = frame.input};
        assert_true(bl_json_equal(golden_parse(arena, frame.input_json), frame.input));
        cell_tool_call_write(writer, &call, frame.redelivered);
        break;
    }
    case CELL_HOST_TOOL_CANCEL:
        cell_tool_cancel_write(writer, frame.session_id, frame.cell_id, frame.call_id);
        break;
    case CELL_HOST_NOTIFY:
        cell_notify_write(writer, frame.session_id, frame.cell_id, frame.seq, frame.text);
        break;
    case CELL_HOST_ENDED: cell_ended_write(writer, frame.session_id, frame.cell_id); break;
    case CELL_HOST_BYE: cell_bye_write(writer, frame.reason.data, frame.text.data); break;
    }
}

static void encode_client(struct bl_json_writer *writer, struct bl_arena *arena, bool first,
                          struct bl_text bytes)
{
    struct cell_frame frame;
    char message[160];

    if (cell_frame_read(arena, bytes, first, &frame, message, sizeof message) != 0)
        fail_msg("%s", message);
    if (frame.refused)
        fail_msg("%s", frame.fault.message);
    switch (frame.type) {
    case CELL_FRAME_HELLO:
        assert_true(frame.hello.version_1);
        cell_hello_write(writer, frame.hello.client.data, frame.hello.wants);
        break;
    case CELL_FRAME_REQUEST: cell_request_write(writer, &frame.request); break;
    case CELL_FRAME_CANCEL: cell_cancel_write(writer, frame.cancel.id); break;
    case CELL_FRAME_TOOL_RESULT:
        cell_tool_result_write(writer, frame.tool_result.session_id, frame.tool_result.cell_id,
                               frame.tool_result.call_id, &frame.tool_result.result);
        break;
    case CELL_FRAME_NOTIFY_ACK:
        cell_notify_ack_write(writer, frame.notify_ack.session_id, frame.notify_ack.cell_id,
                              frame.notify_ack.seq);
        break;
    }
}

static void C47_every_golden_frame_decodes_and_encodes_to_the_same_bytes(void **state)
{
    struct golden *golden = *state;

    assert_true(golden->count >= 80);
    for (size_t i = 0; i < golden->count; i++) {
        struct golden_file *file = &golden->files[i];
        struct bl_json_writer writer;
        struct bl_buffer out;
        bl_buffer_init(&out, GOLDEN_TEXT_MAX);
        bl_json_writer_init(&writer, &out);
        if (golden_is_of_client(file->root))
            encode_client(&writer, &golden->arena, strncmp(file->name, "hello", 5) == 0,
                          file->bytes);
        else
            encode_host(&writer, &golden->arena, file->bytes);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        if (!bl_text_equal(bl_buffer_text(&out), file->bytes))
            fail_msg("%s: " BL_TEXT_FORMAT, file->name, BL_TEXT_ARG(bl_buffer_text(&out)));
        bl_buffer_done(&out);
    }
}

static void there_is_a_golden_frame_of_every_variant(void **state)
{
    static const char *const plain[] = {"hello",     "cancel",         "notify_ack",     "ready",
                                        "tool_call", "tool_call-text", "tool_cancel",    "notify",
                                        "ended",     "request-list",   "request-observe"};
    static const char *const byes[] = {"superseded", "protocol", "too_slow", "shutting_down"};
    static const char *const rejections[] = {"no_common_version", "missing_capability",
                                             "bad_hello"};
    static const char *const answers[] = {
        "open_session",       "create_cell",        "observe-yielded",     "observe-completed",
        "observe-terminated", "observe-missing",    "terminate-completed", "terminate-terminated",
        "terminate-missing",  "release-released",   "release-missing",     "list",
        "close_session",      "close_session-quiet"};
    struct golden *golden = *state;

    for (size_t i = 0; i < BL_COUNT(plain); i++)
        golden_find(golden, "", plain[i]);
    for (size_t i = 0; i < BL_COUNT(byes); i++)
        golden_find(golden, "bye-", byes[i]);
    for (size_t i = 0; i < BL_COUNT(rejections); i++)
        golden_find(golden, "rejected-", rejections[i]);
    for (size_t i = 0; i < BL_COUNT(answers); i++)
        golden_find(golden, "reply-", answers[i]);
#define FIND_CODE(name, text, retryable) golden_find(golden, "reply-err-", text);
#define FIND_KIND(name, text)            golden_find(golden, "reply-observe-completed-", text);
#define FIND_REFUSAL(name, text)         golden_find(golden, "tool_result-err-", text);
    BL_CELL_CODE_TABLE(FIND_CODE)
    BL_CELL_ERROR_TABLE(FIND_KIND)
    BL_CELL_REFUSAL_TABLE(FIND_REFUSAL)
}

static void every_golden_frame_fits_its_schema(void **state)
{
    struct golden *golden = *state;
    struct bl_json_schema *any = golden_schema("frame");

    for (size_t name = 0; name < GOLDEN_SCHEMAS; name++) {
        struct bl_json_schema *own = golden_schema(golden_schema_names[name]);
        for (size_t i = 0; i < golden->count; i++) {
            struct golden_file *file = &golden->files[i];
            if (!bl_text_equal(bl_json_text(golden_get(file->root, "type")),
                               bl_text_from(golden_schema_names[name])))
                continue;
            if (!golden_fits(own, file->root, true) || !golden_fits(any, file->root, true))
                fail_msg("%s", file->name);
        }
        bl_json_schema_free(own);
    }
    bl_json_schema_free(any);
}

SUITE(golden, GOLDEN(C47_every_golden_frame_decodes_and_encodes_to_the_same_bytes),
      GOLDEN(there_is_a_golden_frame_of_every_variant), GOLDEN(every_golden_frame_fits_its_schema));
