/* The files of tests/cell/wire: the codec must read and write them byte for byte, and the schemas
 * must accept them. */
#include "golden.h"

/* ---- Decoding and encoding ------------------------------------------------------------------- */

static void encode_items(struct bl_buffer *out, const struct bl_list *items)
{
    BL_LIST_EACH (link, items) {
        struct bl_json_writer writer;
        if (out->size > 0)
            bl_buffer_append_byte(out, ',');
        bl_json_writer_init(&writer, out);
        bl_record_write(&writer, &bl_cell_item_record,
                        BL_CONTAINER(link, struct bl_cell_item, link));
        assert_int_equal(bl_json_writer_done(&writer), 0);
    }
}

static struct cell_ok ok_of_completed(const struct bl_cell_completed *outcome,
                                      struct bl_buffer *items)
{
    encode_items(items, &outcome->items);
    return (struct cell_ok){.type = CELL_OK_COMPLETED,
                            .cell_id = outcome->cell_id.data,
                            .generation = outcome->generation,
                            .error = outcome->error,
                            .stopped_calls = outcome->stopped_calls};
}

static struct cell_ok ok_of_terminated(const struct bl_cell_terminated *outcome,
                                       struct bl_buffer *items)
{
    encode_items(items, &outcome->items);
    return (struct cell_ok){.type = CELL_OK_TERMINATED,
                            .cell_id = outcome->cell_id.data,
                            .generation = outcome->generation,
                            .receipt = outcome->receipt};
}

static struct cell_ok ok_of_observed(struct bl_arena *arena, struct bl_text json,
                                     struct bl_buffer *items)
{
    struct bl_cell_observe_outcome outcome;

    assert_int_equal(bl_cell_observe_outcome_read(arena, json, &outcome, NULL), 0);
    assert_true(bl_text_equal(outcome.json, json));
    switch (outcome.type) {
    case BL_CELL_OBSERVE_YIELDED:
        encode_items(items, &outcome.yielded.items);
        return (struct cell_ok){.type = CELL_OK_YIELDED,
                                .cell_id = outcome.yielded.cell_id.data,
                                .generation = outcome.yielded.generation,
                                .stalled = outcome.yielded.stalled};
    case BL_CELL_OBSERVE_COMPLETED: return ok_of_completed(&outcome.completed, items);
    case BL_CELL_OBSERVE_TERMINATED: return ok_of_terminated(&outcome.terminated, items);
    case BL_CELL_OBSERVE_MISSING: break;
    }
    return (struct cell_ok){.type = CELL_OK_MISSING, .cell_id = outcome.missing.cell_id.data};
}

static struct cell_ok ok_of_terminate(struct bl_arena *arena, struct bl_text json,
                                      struct bl_buffer *items)
{
    struct bl_cell_terminate_outcome outcome;

    assert_int_equal(bl_cell_terminate_outcome_read(arena, json, &outcome, NULL), 0);
    assert_true(bl_text_equal(outcome.json, json));
    switch (outcome.type) {
    case BL_CELL_TERMINATE_COMPLETED: return ok_of_completed(&outcome.completed, items);
    case BL_CELL_TERMINATE_TERMINATED: return ok_of_terminated(&outcome.terminated, items);
    case BL_CELL_TERMINATE_MISSING: break;
    }
    return (struct cell_ok){.type = CELL_OK_MISSING, .cell_id = outcome.missing.cell_id.data};
}

static void assert_written(const struct cell_ok *ok, struct bl_text expected)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, GOLDEN_TEXT_MAX);
    bl_json_writer_init(&writer, &out);
    cell_ok_write(&writer, ok);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    if (!bl_text_equal(bl_buffer_text(&out), expected))
        fail_msg(BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&out)));
    bl_buffer_done(&out);
}

/* By its record, and by the functions that use it. */
static void check_ok(struct bl_arena *arena, const struct cell_reply *reply)
{
    enum cell_operation operation;
    struct bl_buffer items;
    struct cell_ok ok;

    assert_true(cell_operation_parse(reply->op, &operation));
    assert_int_equal(bl_record_view(arena, cell_ok_records[operation], reply->ok, &ok, NULL), 0);
    assert_written(&ok, reply->ok_json);
    if (operation != CELL_OBSERVE && operation != CELL_TERMINATE)
        return;
    bl_buffer_init(&items, GOLDEN_TEXT_MAX);
    ok = operation == CELL_OBSERVE ? ok_of_observed(arena, reply->ok_json, &items)
                                   : ok_of_terminate(arena, reply->ok_json, &items);
    ok.items_json = bl_buffer_text(&items);
    assert_written(&ok, reply->ok_json);
    bl_buffer_done(&items);
}

/* A frame read from bytes is also written from its tree. */
static void encode_frame(struct bl_json_writer *writer, struct bl_arena *arena,
                         const struct golden_file *file)
{
    struct bl_error error = {0};
    struct cell_frame frame;
    char message[160];

    if (!golden_is_of_client(file->root)) {
        if (cell_host_frame_read(arena, file->bytes, &frame, &error) != 0)
            fail_msg("%s: %s", file->name, error.message);
    } else if (cell_frame_read(arena, file->bytes, strncmp(file->name, "hello", 5) == 0, &frame,
                               message, sizeof message) != 0) {
        fail_msg("%s: %s", file->name, message);
    } else if (frame.refusal != NULL) {
        fail_msg("%s: %s", file->name, frame.refusal->message);
    }
    if (frame.type == CELL_FRAME_REPLY && frame.reply.ok != NULL)
        check_ok(arena, &frame.reply);
    if (frame.type == CELL_FRAME_TOOL_CALL) {
        assert_true(bl_json_equal(golden_parse(arena, frame.call.input_json), frame.call.input));
        frame.call.input_json = (struct bl_text){0};
    }
    cell_frame_write(writer, &frame);
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
        encode_frame(&writer, &golden->arena, file);
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
