/* The table of the frames between a host and a worker. The worker does not use it: it reads and
 * writes JSON with its engine. Its tests check the frames in both directions against this table. */
#include "cell/worker/protocol.h"
#include "codec.h"

/* A worker never sends a value deeper than one that it may be given to carry. */
static const struct bl_json_limits worker_limits = {
    .size_max = WORKER_FRAME_MAX,
    .string_max = WORKER_FRAME_MAX,
    .depth_max = 512,
};

static const struct bl_member worker_tool_element =
    BL_ELEMENT(struct bl_cell_tool, &cell_tool_head_record);
static const struct bl_member key_element = {
    .type = BL_TYPE_TEXT, .size = sizeof(struct bl_text), .least = 1, .most = BL_CELL_KEY_MAX};

#define BL_RECORD_STRUCT struct cell_worker_frame
#define NUMBER(key)      BL_MEMBER_INTEGER(key, number, .least = 1, .most = CELL_REQUEST_MAX)
static const struct bl_member start_members[] = {
    BL_MEMBER_TEXT("source", start.source),
    BL_MEMBER_ARRAY("tools", start.tools, start.tool_count, &worker_tool_element),
    BL_MEMBER_RAW("values", start.values, .object = true),
    BL_MEMBER_INTEGER("memory_bytes", start.memory_bytes, .least = 1),
    BL_MEMBER_INTEGER("output_bytes", start.output_bytes, .least = 1),
    BL_MEMBER_BOOLEAN("notify", start.notify),
    BL_MEMBER_END,
};
static const struct bl_member result_members[] = {NUMBER("call"), CELL_MEMBER_CALL_OK(result),
                                                  CELL_MEMBER_CALL_ERR(result), BL_MEMBER_END};
static const struct bl_member notified_members[] = {NUMBER("seq"), BL_MEMBER_END};
static const struct bl_member item_members[] = {
    BL_MEMBER_OBJECT("item", item, &bl_cell_item_record), BL_MEMBER_END};
static const struct bl_member call_members[] = {
    NUMBER("call"), BL_MEMBER_TEXT("tool", call.tool),
    BL_MEMBER_JSON("input", call.input, .or_string = true), BL_MEMBER_END};
static const struct bl_member notify_members[] = {
    NUMBER("seq"), BL_MEMBER_TEXT("text", text, .most = BL_CELL_NOTIFY_MAX), BL_MEMBER_END};
static const struct bl_member idle_members[] = {
    BL_MEMBER_INTEGER("timers", idle.timers, .most = BL_CELL_TIMERS_MAX),
    BL_MEMBER_BOOLEAN("stalled", idle.stalled), BL_MEMBER_END};
static const struct bl_member settled_members[] = {
    BL_MEMBER_POINTER("error", settled.error, &cell_worker_error_record, .nullable = true),
    BL_MEMBER_JSON("values", settled.values, .object = true),
    BL_MEMBER_ARRAY("deleted", settled.deleted, settled.deleted_count, &key_element),
    BL_MEMBER_END,
};

#define FRAME(type)                                                                                \
    static const struct bl_record type##_record =                                                  \
        BL_RECORD(#type, struct cell_worker_frame, type##_members)
FRAME(start);
FRAME(result);
FRAME(notified);
FRAME(item);
FRAME(call);
FRAME(notify);
FRAME(idle);
FRAME(settled);
#undef FRAME
static const struct bl_record *const worker_kinds[] = {
    [CELL_WORKER_START] = &start_record,       [CELL_WORKER_RESULT] = &result_record,
    [CELL_WORKER_NOTIFIED] = &notified_record, [CELL_WORKER_READY] = NULL,
    [CELL_WORKER_ITEM] = &item_record,         [CELL_WORKER_YIELD] = NULL,
    [CELL_WORKER_CALL] = &call_record,         [CELL_WORKER_NOTIFY] = &notify_record,
    [CELL_WORKER_IDLE] = &idle_record,         [CELL_WORKER_SETTLED] = &settled_record,
};
static const char *const worker_names[] = {
    [CELL_WORKER_START] = "start",       [CELL_WORKER_RESULT] = "result",
    [CELL_WORKER_NOTIFIED] = "notified", [CELL_WORKER_READY] = "ready",
    [CELL_WORKER_ITEM] = "item",         [CELL_WORKER_YIELD] = "yield",
    [CELL_WORKER_CALL] = "call",         [CELL_WORKER_NOTIFY] = "notify",
    [CELL_WORKER_IDLE] = "idle",         [CELL_WORKER_SETTLED] = "settled",
};
static const struct bl_names worker_frames = BL_NAMES(worker_names);
static const struct bl_member worker_members[] = {BL_MEMBER_ENUM("type", type, &worker_frames),
                                                  BL_MEMBER_END};
#undef BL_RECORD_STRUCT
const struct bl_record cell_worker_frame_record =
    BL_RECORD("worker_frame", struct cell_worker_frame, worker_members, .kinds = worker_kinds);

int cell_worker_frame_read(struct bl_arena *arena, struct bl_text bytes,
                           struct cell_worker_frame *ret_frame)
{
    const struct bl_json *value;

    if (bl_json_read(arena, bytes, &worker_limits, &value, NULL) != 0 ||
        bl_record_view(arena, &cell_worker_frame_record, value, ret_frame, NULL) != 0)
        return BL_EPARSE;
    return ret_frame->type >= CELL_WORKER_READY ? 0 : BL_EPARSE;
}
