/* The table of all frames, and those of a host, read. */
#include <stdio.h>

#include "check.h"

#define INTEGER_MAX CELL_REQUEST_MAX
#define CLIENT_MAX  256u /* bytes of a client's name */

/* ---- What frames hold ------------------------------------------------------------------------ */

static bool is_short_array(struct codec_problem *problem, const struct bl_json *value, size_t least,
                           const char *what)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return codec_fail_value(problem, value, "an array of %s", what);
    if (bl_json_size(value) < least)
        return codec_fail(problem, "must not be empty");
    return bl_json_size(value) <= CELL_NAME_MAX ||
           codec_fail(problem, "must have at most %u elements, has %zu", CELL_NAME_MAX,
                      bl_json_size(value));
}

/* Every element fits, and none is there twice. */
static bool are_distinct(struct codec_problem *problem, const struct bl_json *value,
                         const struct codec_field *element_field)
{
    size_t index = 0;

    BL_JSON_EACH (element, value) {
        size_t back = codec_enter(problem, NULL, index++);
        if (!element_field->check(problem, element_field, element))
            return false;
        BL_JSON_EACH (earlier, value) {
            if (earlier == element)
                break;
            if (bl_json_equal(earlier, element))
                return codec_fail(problem, "is there twice");
        }
        codec_leave(problem, back);
    }
    return true;
}

static bool is_versions(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                        const struct bl_json *value)
{
    static const struct codec_field version = {
        .check = codec_is_number, .least = 1, .most = INTEGER_MAX};

    return is_short_array(problem, value, 1, "versions") && are_distinct(problem, value, &version);
}

static bool is_capabilities(struct codec_problem *problem,
                            const struct codec_field *field BL_UNUSED, const struct bl_json *value)
{
    static const struct codec_field capability = {.check = codec_is_label, .least = 1};

    return is_short_array(problem, value, 0, "capabilities") &&
           are_distinct(problem, value, &capability);
}

static bool is_limits(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                      const struct bl_json *value)
{
#define LIMIT(text)                                                                                \
    {                                                                                              \
        .name = text, .check = codec_is_number, .least = 1, .most = INTEGER_MAX                    \
    }
    static const struct codec_field limits[] = {LIMIT("frame_bytes"),
                                                LIMIT("live_cells"),
                                                LIMIT("requests"),
                                                LIMIT("control_requests"),
                                                {0}};
#undef LIMIT

    return codec_check_fields(problem, limits, value);
}

static const struct codec_field no_version_fields[] = {{.name = "versions", .check = is_versions},
                                                       {0}};
static const struct codec_field no_capability_fields[] = {
    {.name = "capability", .check = codec_is_text, .least = 1}, {0}};
static const struct codec_field bad_hello_fields[] = {
    {.name = "message", .check = codec_is_text, .least = 1}, {0}};
static const struct codec_variant rejections[] = {
    [CELL_REJECTED_VERSION] = {"no_common_version", no_version_fields},
    [CELL_REJECTED_CAPABILITY] = {"missing_capability", no_capability_fields},
    [CELL_REJECTED_HELLO] = {"bad_hello", bad_hello_fields},
    {0},
};

static bool is_rejection(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                         const struct bl_json *value)
{
    const struct codec_variant *variant;

    return codec_check_union(problem, "type", rejections, value, &variant);
}

static bool is_call_error(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                          const struct bl_json *value)
{
    static const struct codec_field fields[] = {
        {.name = "kind", .check = codec_is_name, .names = codec_refusals},
        {.name = "message", .check = codec_is_text},
        {0},
    };

    return codec_check_fields(problem, fields, value);
}

static bool is_input(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                     const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_OBJECT) || bl_json_is(value, BL_JSON_STRING) ||
           codec_fail_value(problem, value, "an object or a string");
}

/* ---- All frames ------------------------------------------------------------------------------ */

static const char *const bye_reasons[] = {"superseded", "protocol", "too_slow", "shutting_down",
                                          NULL};

#define REQUEST_ID                                                                                 \
    {                                                                                              \
        .name = "id", .check = codec_is_number, .most = CELL_REQUEST_MAX                           \
    }
#define CALL_ID                                                                                    \
    {                                                                                              \
        .name = "call_id", .check = codec_is_id                                                    \
    }
#define SEQUENCE                                                                                   \
    {                                                                                              \
        .name = "seq", .check = codec_is_number, .least = 1, .most = INTEGER_MAX                   \
    }
#define ANY(text)                                                                                  \
    {                                                                                              \
        .name = text, .check = codec_is_any, .optional = true                                      \
    }

static const struct codec_field hello_fields[] = {
    {.name = "client", .check = codec_is_label, .least = 1, .most = CLIENT_MAX},
    {.name = "versions", .check = is_versions},
    {.name = "requires", .check = is_capabilities},
    {.name = "wants", .check = is_capabilities},
    {0},
};
/* Whatever else is wrong with a request can be answered, once its id is known. */
static const struct codec_field request_fields[] = {REQUEST_ID, ANY("op"), ANY("args"), {0}};
static const struct codec_field cancel_fields[] = {REQUEST_ID, {0}};
static const struct codec_field tool_result_fields[] = {
    CODEC_SESSION_ID,
    CODEC_CELL_ID,
    CALL_ID,
    ANY("ok"),
    {.name = "err", .check = is_call_error, .optional = true},
    {0},
};
static const struct codec_field notify_ack_fields[] = {
    CODEC_SESSION_ID, CODEC_CELL_ID, SEQUENCE, {0}};
static const struct codec_field ready_fields[] = {
    {.name = "version", .check = codec_is_number, .least = 1, .most = CELL_VERSION},
    {.name = "capabilities", .check = is_capabilities},
    {.name = "instance", .check = codec_is_label, .least = 1, .most = CLIENT_MAX},
    {.name = "limits", .check = is_limits},
    {0},
};
static const struct codec_field rejected_fields[] = {{.name = "reason", .check = is_rejection},
                                                     {0}};
static const struct codec_field reply_fields[] = {
    REQUEST_ID, {.name = "op", .check = codec_is_text}, ANY("ok"), ANY("err"), {0}};
static const struct codec_field tool_call_fields[] = {
    CODEC_SESSION_ID,
    CODEC_CELL_ID,
    CALL_ID,
    {.name = "tool", .check = codec_is_label, .least = 1, .most = CELL_TOOL_NAME_MAX},
    {.name = "input", .check = is_input},
    {.name = "redelivered", .check = codec_is_boolean},
    {0},
};
static const struct codec_field tool_cancel_fields[] = {
    CODEC_SESSION_ID, CODEC_CELL_ID, CALL_ID, {0}};
static const struct codec_field notify_fields[] = {
    CODEC_SESSION_ID, CODEC_CELL_ID, SEQUENCE, {.name = "text", .check = codec_is_text}, {0}};
static const struct codec_field ended_fields[] = {CODEC_SESSION_ID, CODEC_CELL_ID, {0}};
static const struct codec_field bye_fields[] = {
    {.name = "reason", .check = codec_is_name, .names = bye_reasons},
    {.name = "message", .check = codec_is_text},
    {0},
};

const struct codec_variant codec_frames[] = {
    [CODEC_HELLO] = {"hello", hello_fields},
    [CODEC_REQUEST] = {"request", request_fields},
    [CODEC_CANCEL] = {"cancel", cancel_fields},
    [CODEC_TOOL_RESULT] = {"tool_result", tool_result_fields},
    [CODEC_NOTIFY_ACK] = {"notify_ack", notify_ack_fields},
    [CODEC_READY] = {"ready", ready_fields},
    [CODEC_REJECTED] = {"rejected", rejected_fields},
    [CODEC_REPLY] = {"reply", reply_fields},
    [CODEC_TOOL_CALL] = {"tool_call", tool_call_fields},
    [CODEC_TOOL_CANCEL] = {"tool_cancel", tool_cancel_fields},
    [CODEC_NOTIFY] = {"notify", notify_fields},
    [CODEC_ENDED] = {"ended", ended_fields},
    [CODEC_BYE] = {"bye", bye_fields},
    {0},
};

/* ---- `err` ----------------------------------------------------------------------------------- */

static bool is_retained(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                        const struct bl_json *value)
{
    static const struct codec_field generation = {
        .check = codec_is_number, .least = 1, .most = INTEGER_MAX};

    if (!bl_json_is(value, BL_JSON_ARRAY) ||
        bl_json_size(value) > BL_COUNT(((struct bl_cell_fault *)0)->retained))
        return codec_fail_value(problem, value, "an array of at most 2 generations");
    return are_distinct(problem, value, &generation);
}

#define COMMON                                                                                     \
    {.name = "message", .check = codec_is_text},                                                   \
    {                                                                                              \
        .name = "retryable", .check = codec_is_boolean                                             \
    }

static const struct codec_field path_fields[] = {
    COMMON, {.name = "path", .check = codec_is_text}, {0}};
static const struct codec_field op_fields[] = {COMMON, {.name = "op", .check = codec_is_text}, {0}};
static const struct codec_field session_fields[] = {COMMON, CODEC_SESSION_ID, {0}};
static const struct codec_field cell_fields[] = {COMMON, CODEC_CELL_ID, {0}};
static const struct codec_field generation_fields[] = {
    COMMON,
    {.name = "expected", .check = codec_is_number, .least = 1, .most = INTEGER_MAX},
    {.name = "retained", .check = is_retained},
    {0},
};
static const struct codec_field limit_fields[] = {
    COMMON,
    {.name = "limit", .check = codec_is_label, .least = 1},
    {.name = "value", .check = codec_is_number, .most = INTEGER_MAX},
    {0},
};
static const struct codec_field detail_fields[] = {
    COMMON, {.name = "detail", .check = codec_is_text}, {0}};
static const struct codec_field common_fields[] = {COMMON, {0}};

static const struct codec_variant faults[] = {
    [BL_CELL_BAD_REQUEST] = {"bad_request", path_fields},
    [BL_CELL_UNSUPPORTED] = {"unsupported", op_fields},
    [BL_CELL_SESSION_NOT_OPEN] = {"session_not_open", session_fields},
    [BL_CELL_CONFLICT] = {"conflict", cell_fields},
    [BL_CELL_GONE] = {"gone", cell_fields},
    [BL_CELL_WRONG_GENERATION] = {"wrong_generation", generation_fields},
    [BL_CELL_NOT_TERMINAL] = {"not_terminal", cell_fields},
    [BL_CELL_SESSION_BUSY] = {"session_busy", session_fields},
    [BL_CELL_LIMIT_REACHED] = {"limit_reached", limit_fields},
    [BL_CELL_CANCELLED] = {"cancelled", common_fields},
    [BL_CELL_WORKER_UNAVAILABLE] = {"worker_unavailable", detail_fields},
    [BL_CELL_STORE_FAILED] = {"store_failed", detail_fields},
    [BL_CELL_SHUTTING_DOWN] = {"shutting_down", common_fields},
    [BL_CELL_INTERNAL] = {"internal", detail_fields},
    {0},
};

static struct bl_text member_text(const struct bl_json *object, const char *key)
{
    return bl_json_text(codec_get(object, key));
}

bool codec_read_fault(struct codec_problem *problem, const struct bl_json *value,
                      struct bl_cell_fault *ret_fault)
{
    const struct codec_variant *variant;

    if (!codec_check_union(problem, "code", faults, value, &variant))
        return false;
    *ret_fault = (struct bl_cell_fault){.code = (enum bl_cell_code)(variant - faults)};
    if (bl_json_boolean(codec_get(value, "retryable"), false) !=
        bl_cell_code_retryable(ret_fault->code)) {
        codec_enter(problem, "retryable", 0);
        return codec_fail(problem, "of %s must be %s", variant->name,
                          bl_cell_code_retryable(ret_fault->code) ? "true" : "false");
    }
    codec_copy(ret_fault->message, sizeof ret_fault->message, member_text(value, "message"));
    codec_copy(ret_fault->path, sizeof ret_fault->path, member_text(value, "path"));
    codec_copy(ret_fault->op, sizeof ret_fault->op, member_text(value, "op"));
    codec_copy(ret_fault->id, sizeof ret_fault->id,
               variant->fields == session_fields ? member_text(value, "session_id")
                                                 : member_text(value, "cell_id"));
    ret_fault->expected = codec_number(value, "expected");
    BL_JSON_EACH (generation, codec_get(value, "retained")) {
        int64_t number = 0;
        bl_json_int64(generation, &number);
        ret_fault->retained[ret_fault->retained_count++] = (uint64_t)number;
    }
    codec_copy(ret_fault->limit, sizeof ret_fault->limit, member_text(value, "limit"));
    ret_fault->value = codec_number(value, "value");
    codec_copy(ret_fault->detail, sizeof ret_fault->detail, member_text(value, "detail"));
    return true;
}

/* ---- Frames of a host ------------------------------------------------------------------------ */

static void read_ready(const struct bl_json *root, struct cell_host_frame *out)
{
    BL_JSON_EACH (element, codec_get(root, "capabilities")) {
        if (bl_text_equal(bl_json_text(element), BL_TEXT("tools")))
            out->capabilities |= CELL_CAPABILITY_TOOLS;
        else if (bl_text_equal(bl_json_text(element), BL_TEXT("notify")))
            out->capabilities |= CELL_CAPABILITY_NOTIFY;
    }
    out->instance = member_text(root, "instance");
    out->live_cells = codec_number(codec_get(root, "limits"), "live_cells");
}

static void read_rejected(const struct bl_json *root, struct cell_host_frame *out)
{
    const struct bl_json *reason = codec_get(root, "reason");

    out->reason = member_text(reason, "type");
    out->text =
        member_text(reason, codec_get(reason, "capability") != NULL ? "capability" : "message");
}

static bool read_reply(struct codec_problem *problem, struct bl_arena *arena, struct bl_text bytes,
                       const struct bl_json *root, struct cell_host_frame *out)
{
    const struct bl_json *ok = codec_get(root, "ok"), *err = codec_get(root, "err");

    out->id = codec_number(root, "id");
    out->op_text = member_text(root, "op");
    out->ok = ok != NULL;
    if ((ok != NULL) == (err != NULL))
        return codec_fail(problem, "a reply has either ok or err");
    bool known = cell_operation_parse(out->op_text, &out->op);
    if (ok == NULL) {
        codec_enter(problem, "err", 0);
        return codec_read_fault(problem, err, &out->fault);
    }
    if (!known) {
        codec_enter(problem, "op", 0);
        return codec_fail_value(problem, codec_get(root, "op"), "an operation");
    }
    size_t back = codec_enter(problem, "ok", 0);
    if (!codec_is_ok(problem, out->op, ok))
        return false;
    codec_leave(problem, back);
    out->ok_json = bl_arena_text(arena, codec_slice(bytes, root, "ok"));
    return true;
}

static void read_cell(struct bl_arena *arena, struct bl_text bytes, const struct bl_json *root,
                      struct cell_host_frame *out)
{
    out->session_id = codec_string(root, "session_id");
    out->cell_id = codec_string(root, "cell_id");
    out->call_id = codec_string(root, "call_id");
    out->tool = member_text(root, "tool");
    out->input = codec_get(root, "input");
    if (out->input != NULL)
        out->input_json = bl_arena_text(arena, codec_slice(bytes, root, "input"));
    out->redelivered = bl_json_boolean(codec_get(root, "redelivered"), false);
    out->seq = codec_number(root, "seq");
    out->text = member_text(root, "text");
}

/* What its type says of a frame that has passed the check. */
static bool read_host_frame(struct codec_problem *problem, struct bl_arena *arena,
                            struct bl_text bytes, const struct bl_json *root,
                            struct cell_host_frame *out)
{
    switch (out->type) {
    case CELL_HOST_READY: read_ready(root, out); break;
    case CELL_HOST_REJECTED: read_rejected(root, out); break;
    case CELL_HOST_REPLY: return read_reply(problem, arena, bytes, root, out);
    case CELL_HOST_TOOL_CALL:
    case CELL_HOST_TOOL_CANCEL:
    case CELL_HOST_NOTIFY:
    case CELL_HOST_ENDED: read_cell(arena, bytes, root, out); break;
    case CELL_HOST_BYE:
        out->reason = member_text(root, "reason");
        out->text = member_text(root, "message");
        break;
    }
    return true;
}

static int refuse(struct bl_error *error, const char *what, const char *target, const char *message)
{
    return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, what, target, "%s", message);
}

int cell_host_frame_read(struct bl_arena *arena, struct bl_text bytes,
                         struct cell_host_frame *ret_frame, struct bl_error *error)
{
    const char *const what = "read a frame of the host";
    const struct codec_variant *variant;
    const struct bl_json *root;
    struct codec_problem problem;
    char message[320];

    int code = codec_frame_parse(arena, bytes, &root, message, sizeof message);
    if (code != 0)
        return refuse(error, what, NULL, message);
    codec_problem_init(&problem);
    bool fits = codec_check_union(&problem, "type", codec_frames, root, &variant);
    if (fits && variant < &codec_frames[CODEC_READY])
        fits = codec_fail(&problem, "%s is a frame of clients", variant->name);
    *ret_frame = (struct cell_host_frame){.type = CELL_HOST_READY};
    if (fits) {
        ret_frame->type =
            (enum cell_host_frame_type)(variant - &codec_frames[CODEC_READY] + CELL_HOST_READY);
        fits = read_host_frame(&problem, arena, bytes, root, ret_frame);
    }
    if (fits)
        return 0;
    codec_problem_text(&problem, message, sizeof message);
    return refuse(error, what, codec_string(root, "type"), message);
}

int cell_ok_check(enum cell_operation operation, const struct bl_json *ok, struct bl_error *error)
{
    struct codec_problem problem;
    char message[320];

    codec_problem_init(&problem);
    if (codec_is_ok(&problem, operation, ok))
        return 0;
    codec_problem_text(&problem, message, sizeof message);
    return refuse(error, "read an answer", cell_operation_name(operation), message);
}
