#include "serve/parts.h"

#define BL_RECORD_STRUCT struct control_state
static const struct bl_member state_members[] = {
    BL_MEMBER_INTEGER("pid", pid, .least = 1),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_LIST("activities", activities, &bl_activity_record, struct bl_activity_view, link),
    BL_MEMBER_LIST("sessions", sessions, &bl_open_session_record, struct bl_open_session_view,
                   link),
    BL_MEMBER_END,
};
const struct bl_record control_state_record =
    BL_RECORD("state", struct control_state, state_members);

static const struct bl_member found_members[] = {
    BL_MEMBER_LIST("activities", activities, &bl_activity_record, struct bl_activity_view, link),
    BL_MEMBER_END,
};
const struct bl_record control_found_record =
    BL_RECORD("found", struct control_state, found_members);
#undef BL_RECORD_STRUCT

#define BL_RECORD_STRUCT struct bl_activity_view
static const struct bl_member left_members[] = {
    BL_MEMBER_TEXT("id", id),
    BL_MEMBER_TEXT("kind", kind),
    BL_MEMBER_TEXT("session", session),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record left_record =
    BL_RECORD("left", struct bl_activity_view, left_members);

#define BL_RECORD_STRUCT struct control_state
static const struct bl_member trace_members[] = {
    BL_MEMBER_INTEGER("pid", pid),
    BL_MEMBER_TIME("started_at", started_wall_ns),
    BL_MEMBER_LIST("activities", activities, &left_record, struct bl_activity_view, link),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_trace_record =
    BL_RECORD("trace", struct control_state, trace_members);

#define BL_RECORD_STRUCT struct control_id
static const struct bl_member id_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_END,
};
const struct bl_record control_id_record = BL_RECORD("id", struct control_id, id_members);

static const struct bl_member any_members[] = {
    BL_MEMBER_STRING("id", id, .optional = true),
    BL_MEMBER_END,
};
const struct bl_record control_any_record = BL_RECORD("any", struct control_id, any_members);
#undef BL_RECORD_STRUCT

#define BL_RECORD_STRUCT struct control_cancel
static const struct bl_member cancel_members[] = {
    BL_MEMBER_STRING("id", id, .least = 1),
    BL_MEMBER_STRING("origin", origin, .optional = true),
    BL_MEMBER_STRING("reason", reason, .optional = true),
    BL_MEMBER_BOOLEAN("now", now, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_cancel_record =
    BL_RECORD("cancel", struct control_cancel, cancel_members);

#define BL_RECORD_STRUCT struct control_receipt
static const struct bl_member receipt_members[] = {
    BL_MEMBER_RAW("receipt", receipt, .nullable = true, .object = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_receipt_record =
    BL_RECORD("receipt", struct control_receipt, receipt_members);

#define BL_RECORD_STRUCT struct control_inject
static const struct bl_member inject_members[] = {
    BL_MEMBER_STRING("session", session, .least = 1),
    BL_MEMBER_TEXT("text", text, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_inject_record =
    BL_RECORD("inject", struct control_inject, inject_members);

#define BL_RECORD_STRUCT struct control_watched
static const struct bl_member watched_members[] = {
    BL_MEMBER_BOOLEAN("running", running, .none = -1),
    BL_MEMBER_END,
};
const struct bl_record control_watched_record =
    BL_RECORD("watched", struct control_watched, watched_members);

static const struct bl_member missed_members[] = {
    BL_MEMBER_INTEGER("count", missed),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_missed_record =
    BL_RECORD("missed", struct control_watched, missed_members);

#define BL_RECORD_STRUCT struct bl_control_description
static const struct bl_member description_members[] = {
    BL_MEMBER_INTEGER("pid", pid),
    BL_MEMBER_TEXT("fibers", fibers),
    BL_MEMBER_BOOLEAN("whole", whole),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record control_description_record =
    BL_RECORD("description", struct bl_control_description, description_members);
