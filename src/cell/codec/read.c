/* Reads frames.
 *
 * Design notes.
 *
 * A JSON tree has no offsets. To get the exact bytes of a member, its position is counted in the
 * tree, and that number of members is skipped in the bytes, which are known to be valid JSON by
 * then. This also finds a key that is written with escapes. */
#include <stdio.h>

#include "codec.h"

/* ---- Frames as JSON, and slices of them ------------------------------------------------------ */

static void frame_copy(char *out, size_t out_size, struct bl_text text)
{
    struct bl_text kept = bl_utf8_cut(text, out_size - 1);

    if (kept.size > 0)
        memcpy(out, kept.data, kept.size);
    out[kept.size] = '\0';
}

int cell_json_read(struct bl_arena *arena, struct bl_text bytes, const struct bl_json **ret_root,
                   char *message, size_t message_size)
{
    const struct bl_json_limits limits = {
        .size_max = BL_CELL_FRAME_MAX,
        .string_max = BL_CELL_FRAME_MAX,
        .depth_max = CELL_DEPTH_MAX,
        .refuse_duplicates = true,
    };
    struct bl_json_fault fault;
    char text[256], whole[320];

    if (bl_json_read(arena, bytes, &limits, ret_root, &fault) != 0) {
        bl_json_fault_text(&fault, text, sizeof text);
        snprintf(whole, sizeof whole, "invalid frame: %s", text);
        frame_copy(message, message_size, bl_text_from(whole));
        return BL_EPARSE;
    }
    if (!bl_json_is(*ret_root, BL_JSON_OBJECT)) {
        snprintf(message, message_size, "a frame must be a JSON object, not %s",
                 bl_json_type_name(bl_json_type(*ret_root)));
        return BL_EPARSE;
    }
    return 0;
}

static bool slice_is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static size_t slice_skip_space(struct bl_text json, size_t at)
{
    while (at < json.size && slice_is_space(json.data[at]))
        at++;
    return at;
}

/* Returns the position just after the string whose opening quote is at `at`. */
static size_t slice_skip_string(struct bl_text json, size_t at)
{
    size_t start = ++at;

    while (at < json.size) {
        const char *quote = memchr(json.data + at, '"', json.size - at);
        if (quote == NULL)
            return json.size;
        at = (size_t)(quote - json.data);
        size_t from = at;
        while (from > start && json.data[from - 1] == '\\')
            from--;
        if ((at - from) % 2 == 0)
            return at + 1;
        at++;
    }
    return json.size;
}

/* Returns the position just after the value that starts at `at`. */
static size_t slice_skip_value(struct bl_text json, size_t at)
{
    size_t depth = 0;

    while (at < json.size) {
        char byte = json.data[at];
        if (byte == '"') {
            at = slice_skip_string(json, at);
        } else if (byte == '{' || byte == '[') {
            depth++;
            at++;
            continue;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0)
                return at; /* the end of the container around a scalar */
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < json.size && !slice_is_space(json.data[at]) && json.data[at] != ',' &&
                   json.data[at] != '}' && json.data[at] != ']')
                at++;
        }
        if (depth == 0)
            return at;
    }
    return json.size;
}

/* Returns the bytes of a member's value in `bytes`, from which `root` was read. */
static struct bl_text slice_member(struct bl_text bytes, const struct bl_json *root,
                                   const char *key)
{
    size_t at = slice_skip_space(bytes, 0) + 1; /* after the bracket */

    BL_JSON_MEMBERS (member, root) {
        at = slice_skip_string(bytes, slice_skip_space(bytes, at));
        at = slice_skip_space(bytes, slice_skip_space(bytes, at) + 1); /* the colon */
        size_t end = slice_skip_value(bytes, at);
        if (bl_text_equal(bl_json_text(member), bl_text_from(key)))
            return (struct bl_text){bytes.data + at, end - at};
        at = slice_skip_space(bytes, end) + 1; /* the comma */
    }
    return (struct bl_text){0};
}

/* ---- Frames of either side ------------------------------------------------------------------- */

/* Keeps the exact bytes of values that are forwarded. */
static void frame_take_bytes(struct bl_arena *arena, struct bl_text bytes,
                             const struct bl_json *root, struct cell_frame *frame)
{
    struct bl_text *json = NULL;
    const char *key = "ok";

    if (frame->type == CELL_FRAME_TOOL_RESULT && frame->tool_result.result.ok) {
        json = &frame->tool_result.result.json;
    } else if (frame->type == CELL_FRAME_REPLY && frame->reply.ok != NULL) {
        json = &frame->reply.ok_json;
    } else if (frame->type == CELL_FRAME_TOOL_CALL) {
        json = &frame->call.input_json;
        key = "input";
    }
    if (json != NULL)
        *json = bl_arena_text(arena, slice_member(bytes, root, key));
}

static int frame_read(struct bl_arena *arena, struct bl_text bytes, const struct bl_json *root,
                      struct cell_frame *ret_frame, struct bl_record_fault *fault)
{
    int code = bl_record_view(arena, &cell_frame_record, root, ret_frame, fault);

    if (code == 0)
        frame_take_bytes(arena, bytes, root, ret_frame);
    return code;
}

static struct bl_text frame_type(const struct bl_json *root)
{
    return bl_json_text(bl_json_get(root, BL_TEXT("type")));
}

/* ---- Requests that do not fit ---------------------------------------------------------------- */

static void frame_refuse_operation(struct bl_cell_fault *out, struct bl_text operation)
{
    *out = (struct bl_cell_fault){.code = BL_CELL_UNSUPPORTED};
    frame_copy(out->op, sizeof out->op, operation);
    snprintf(out->message, sizeof out->message,
             "unknown operation \"%s\"; expected open_session, create_cell, observe, terminate, "
             "release, list or close_session",
             out->op);
}

/* The path goes into its own member, relative to args; the message keeps it, too, because people
 * read the message alone. */
static void frame_refuse_arguments(struct bl_cell_fault *out, struct bl_record_fault *fault)
{
    const struct bl_text args = BL_TEXT("/args");
    char *below = fault->path + args.size;

    *out = (struct bl_cell_fault){.code = BL_CELL_BAD_REQUEST};
    if (bl_text_starts_with(bl_text_from(fault->path), args) && *below == '/') {
        bl_text_into(out->path, sizeof out->path, below);
        memmove(fault->path, below, strlen(below) + 1);
    }
    bl_record_fault_text(fault, out->message, sizeof out->message);
}

/* Turns an error in a request's operation or arguments into a refusal, which can be answered if the
 * request's id is known. */
static bool frame_refuse(struct bl_arena *arena, const struct bl_json *root,
                         struct cell_frame *frame, struct bl_record_fault *fault)
{
    const struct bl_json *op = bl_json_get(root, BL_TEXT("op"));
    struct bl_text path = bl_text_from(fault->path), step;
    struct bl_record_fault of_id;
    struct cell_frame known;

    bl_text_split(&path, '/', &step);
    bl_text_split(&path, '/', &step);
    if (!bl_text_equal(frame_type(root), BL_TEXT("request")) ||
        !(bl_text_equal(step, BL_TEXT("op")) || bl_text_equal(step, BL_TEXT("args"))))
        return false;
    if (bl_record_view(arena, &cell_cancel_record, root, &known, &of_id) != 0) {
        *fault = of_id;
        return false;
    }
    struct bl_cell_fault *refusal = bl_arena_alloc(arena, sizeof *refusal);
    *frame = (struct cell_frame){.type = CELL_FRAME_REQUEST,
                                 .request.id = known.cancel.id,
                                 .refusal = refusal,
                                 .op_text = bl_json_text(op)};
    if (bl_json_is(op, BL_JSON_STRING) &&
        !bl_names_find(&cell_operations, frame->op_text, &(size_t){0}))
        frame_refuse_operation(refusal, frame->op_text);
    else
        frame_refuse_arguments(refusal, fault);
    return true;
}

/* ---- Frames of one side ---------------------------------------------------------------------- */

/* Checks that the first frame is a hello, that there is only one, and that a client sent it.
 * Returns NULL, or what is wrong. */
static const char *frame_undue(const struct cell_frame *frame, bool first)
{
    if (frame->type >= CELL_FRAME_READY)
        return "is a frame that only hosts send";
    if (first && frame->type != CELL_FRAME_HELLO)
        return "is not allowed as the first frame: hello is required";
    return !first && frame->type == CELL_FRAME_HELLO ? "is allowed only once per connection" : NULL;
}

int cell_frame_read(struct bl_arena *arena, struct bl_text bytes, bool first,
                    struct cell_frame *ret_frame, char *message, size_t message_size)
{
    struct bl_record_fault fault;
    const struct bl_json *root;

    int code = cell_json_read(arena, bytes, &root, message, message_size);
    if (code != 0)
        return code;
    if (frame_read(arena, bytes, root, ret_frame, &fault) != 0) {
        if (!first && frame_refuse(arena, root, ret_frame, &fault))
            return 0;
        bl_record_fault_text(&fault, message, message_size);
        return BL_EPARSE;
    }
    const char *undue = frame_undue(ret_frame, first);
    if (undue != NULL) {
        snprintf(message, message_size, BL_TEXT_FORMAT " %s", BL_TEXT_ARG(frame_type(root)), undue);
        return BL_EPARSE;
    }
    if (ret_frame->type == CELL_FRAME_REQUEST)
        ret_frame->op_text = bl_text_from(cell_operation_name(ret_frame->request.op));
    return 0;
}

int cell_host_frame_read(struct bl_arena *arena, struct bl_text bytes, struct cell_frame *ret_frame,
                         struct bl_error *error)
{
    const char *const what = "read a host frame";
    struct bl_record_fault fault;
    const struct bl_json *root;
    char message[320];

    int code = cell_json_read(arena, bytes, &root, message, sizeof message);
    if (code != 0)
        return bl_error_set(error, code, BL_KIND_PARSE, what, NULL, "%s", message);
    struct bl_text type = frame_type(root);
    if (frame_read(arena, bytes, root, ret_frame, &fault) != 0)
        bl_record_fault_text(&fault, message, sizeof message);
    else if (ret_frame->type < CELL_FRAME_READY)
        snprintf(message, sizeof message, BL_TEXT_FORMAT " is a frame that only clients send",
                 BL_TEXT_ARG(type));
    else
        return 0;
    return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, what, type.data, "%s", message);
}
