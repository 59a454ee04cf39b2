/* Frames of a client, read. */
#include <inttypes.h>
#include <stdio.h>

#include "check.h"

/* ---- Names ----------------------------------------------------------------------------------- */

#define OPERATION_NAME(name, text) text,
static const char *const operations[] = {CELL_OPERATION_TABLE(OPERATION_NAME) NULL};
#undef OPERATION_NAME

const char *cell_operation_name(enum cell_operation operation)
{
    return operations[operation];
}

bool cell_operation_parse(struct bl_text name, enum cell_operation *ret_operation)
{
    size_t index = codec_name_index(operations, name);

    if (operations[index] == NULL)
        return false;
    *ret_operation = (enum cell_operation)index;
    return true;
}

bool cell_id_valid(struct bl_text id)
{
    for (size_t i = 0; i < id.size; i++) {
        char byte = id.data[i];
        if (!((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-'))
            return false;
    }
    return id.size >= 1 && id.size <= CELL_ID_MAX;
}

/* ---- What operations are asked with ---------------------------------------------------------- */

static bool is_source(struct codec_problem *problem, const struct codec_field *field,
                      const struct bl_json *value)
{
    if (!codec_is_text(problem, field, value))
        return false;
    return bl_text_trim(bl_json_text(value)).size > 0 || codec_fail(problem, "must not be blank");
}

static bool is_schema(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                      const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_OBJECT) || bl_json_is(value, BL_JSON_NULL) ||
           codec_fail_value(problem, value, "an object or null");
}

static const char *const inputs[] = {"object", "text", NULL};

static const struct codec_field tool_fields[] = {
    {.name = "name", .check = codec_is_label, .least = 1, .most = CELL_TOOL_NAME_MAX},
    {.name = "description", .check = codec_is_text},
    {.name = "input", .check = codec_is_name, .names = inputs},
    {.name = "input_schema", .check = is_schema},
    {0},
};

static bool is_new_name(struct codec_problem *problem, struct bl_map *names,
                        const struct bl_json *tool)
{
    void *other;

    bl_map_set(names, bl_json_text(codec_get(tool, "name")), names, &other);
    if (other == NULL)
        return true;
    codec_enter(problem, "name", 0);
    return codec_fail_value(problem, codec_get(tool, "name"), "a name that no other tool has");
}

static bool is_tools(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                     const struct bl_json *value)
{
    struct bl_map names;
    size_t index = 0;
    bool fits = true;

    if (!bl_json_is(value, BL_JSON_ARRAY))
        return codec_fail_value(problem, value, "an array of tools");
    if (bl_json_size(value) > BL_CELL_TOOLS_MAX)
        return codec_fail(problem, "must have at most %u tools, has %zu", BL_CELL_TOOLS_MAX,
                          bl_json_size(value));
    bl_map_init(&names);
    BL_JSON_EACH (tool, value) {
        size_t back = codec_enter(problem, NULL, index++);
        fits = codec_check_fields(problem, tool_fields, tool) && is_new_name(problem, &names, tool);
        if (!fits)
            break;
        codec_leave(problem, back);
    }
    bl_map_done(&names);
    return fits;
}

static bool are_limits(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                       const struct bl_json *value)
{
#define LIMIT(text, maximum)                                                                       \
    {                                                                                              \
        .name = text, .check = codec_is_number, .least = 1, .most = maximum, .optional = true      \
    }
    static const struct codec_field limits[] = {
        LIMIT("deadline_ms", BL_CELL_DEADLINE_MS_MAX),
        LIMIT("memory_bytes", BL_CELL_MEMORY_MAX),
        LIMIT("output_bytes", BL_CELL_OUTPUT_MAX),
        {0},
    };
#undef LIMIT

    return codec_check_fields(problem, limits, value);
}

#define GENERATION                                                                                 \
    {                                                                                              \
        .name = "generation", .check = codec_is_number, .least = 1, .most = CELL_REQUEST_MAX       \
    }

static const struct codec_field open_fields[] = {
    CODEC_SESSION_ID,
    {.name = "serves_tools", .check = codec_is_boolean},
    {.name = "linger_ms", .check = codec_is_number, .most = BL_CELL_LINGER_MS_MAX},
    {0},
};
static const struct codec_field create_fields[] = {
    CODEC_SESSION_ID,
    CODEC_CELL_ID,
    {.name = "source", .check = is_source, .least = 1, .most = BL_CELL_SOURCE_MAX},
    {.name = "tools", .check = is_tools},
    {.name = "limits", .check = are_limits},
    {0},
};
static const struct codec_field observe_fields[] = {
    CODEC_SESSION_ID,
    CODEC_CELL_ID,
    GENERATION,
    {.name = "yield_time_ms", .check = codec_is_number, .most = BL_CELL_YIELD_MS_MAX},
    {0},
};
static const struct codec_field terminate_fields[] = {
    CODEC_SESSION_ID,
    CODEC_CELL_ID,
    {.name = "terminate_id", .check = codec_is_id},
    {.name = "reason", .check = codec_is_name, .names = codec_stop_reasons + 1},
    {0},
};
static const struct codec_field release_fields[] = {
    CODEC_SESSION_ID, CODEC_CELL_ID, GENERATION, {0}};
static const struct codec_field list_fields[] = {
    CODEC_SESSION_ID,
    {.name = "after", .check = codec_is_id_or_null},
    {.name = "max", .check = codec_is_number, .least = 1, .most = CELL_LIST_MAX},
    {0},
};
static const struct codec_field close_fields[] = {
    CODEC_SESSION_ID, {.name = "forget", .check = codec_is_boolean}, {0}};

static const struct codec_field *const arguments[] = {
    [CELL_OPEN_SESSION] = open_fields,   [CELL_CREATE_CELL] = create_fields,
    [CELL_OBSERVE] = observe_fields,     [CELL_TERMINATE] = terminate_fields,
    [CELL_RELEASE] = release_fields,     [CELL_LIST] = list_fields,
    [CELL_CLOSE_SESSION] = close_fields,
};

/* ---- Requests -------------------------------------------------------------------------------- */

/* A schema in its canonical form: the same one is the same text however it was written, so that a
 * create which is sent again, by a client that orders keys by chance, is the same create. */
static struct bl_text read_schema(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_buffer text;
    struct bl_text schema = {0};

    if (!bl_json_is(value, BL_JSON_OBJECT))
        return schema;
    bl_buffer_init(&text, 2 * BL_CELL_FRAME_MAX);
    if (bl_json_write_canonical(&text, value) == 0)
        schema = bl_arena_text(arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return schema;
}

static bool read_create(struct codec_problem *problem, struct bl_arena *arena,
                        const struct bl_json *args, struct bl_cell_create *out)
{
    const struct bl_json *list = codec_get(args, "tools"), *limits = codec_get(args, "limits");
    struct bl_cell_tool *tool = bl_arena_alloc(arena, bl_json_size(list) * sizeof *tool);
    size_t size = 0;

    *out = (struct bl_cell_create){
        .cell_id = codec_string(args, "cell_id"),
        .source = bl_json_text(codec_get(args, "source")),
        .tools = tool,
        .tool_count = bl_json_size(list),
        .deadline_ms = codec_number(limits, "deadline_ms"),
        .memory_bytes = codec_number(limits, "memory_bytes"),
        .output_bytes = codec_number(limits, "output_bytes"),
    };
    BL_JSON_EACH (element, list) {
        *tool = (struct bl_cell_tool){
            .name = bl_json_text(codec_get(element, "name")),
            .description = bl_json_text(codec_get(element, "description")),
            .takes_text = bl_text_equal(bl_json_text(codec_get(element, "input")), BL_TEXT("text")),
            .schema = read_schema(arena, codec_get(element, "input_schema")),
        };
        size += tool->name.size + tool->description.size + tool->schema.size;
        tool++;
    }
    if (size <= BL_CELL_TOOLS_BYTES_MAX)
        return true;
    codec_enter(problem, "tools", 0);
    return codec_fail(problem,
                      "must have at most %zu bytes of names, descriptions and schemas, has %zu",
                      BL_CELL_TOOLS_BYTES_MAX, size);
}

static bool read_arguments(struct codec_problem *problem, struct bl_arena *arena,
                           const struct bl_json *args, struct cell_request *out)
{
    out->session_id = codec_string(args, "session_id");
    switch (out->op) {
    case CELL_OPEN_SESSION:
        out->open.serves_tools = bl_json_boolean(codec_get(args, "serves_tools"), false);
        out->open.linger_ms = codec_number(args, "linger_ms");
        break;
    case CELL_CREATE_CELL: return read_create(problem, arena, args, &out->create);
    case CELL_OBSERVE:
        out->observe = (struct bl_cell_observe){
            .cell_id = codec_string(args, "cell_id"),
            .generation = codec_number(args, "generation"),
            .yield_ms = codec_number(args, "yield_time_ms"),
        };
        break;
    case CELL_TERMINATE: {
        struct bl_text reason = bl_json_text(codec_get(args, "reason"));
        out->terminate = (struct bl_cell_terminate){
            .cell_id = codec_string(args, "cell_id"),
            .terminate_id = codec_string(args, "terminate_id"),
            .reason = (enum bl_stop_reason)codec_name_index(codec_stop_reasons, reason),
        };
        break;
    }
    case CELL_RELEASE:
        out->release.cell_id = codec_string(args, "cell_id");
        out->release.generation = codec_number(args, "generation");
        break;
    case CELL_LIST:
        out->list.after = codec_string(args, "after");
        out->list.max = codec_number(args, "max");
        break;
    case CELL_CLOSE_SESSION:
        out->close.forget = bl_json_boolean(codec_get(args, "forget"), false);
        break;
    }
    return true;
}

static void refuse(struct cell_frame *frame, const struct codec_problem *problem)
{
    frame->refused = true;
    frame->fault = (struct bl_cell_fault){.code = BL_CELL_BAD_REQUEST};
    snprintf(frame->fault.path, sizeof frame->fault.path, "%s", problem->path);
    /* The path has a field of its own, and people read the message alone. */
    codec_problem_text(problem, frame->fault.message, sizeof frame->fault.message);
}

static void refuse_operation(struct cell_frame *frame)
{
    frame->refused = true;
    frame->fault = (struct bl_cell_fault){.code = BL_CELL_UNSUPPORTED};
    codec_copy(frame->fault.op, sizeof frame->fault.op, frame->op_text);
    snprintf(frame->fault.message, sizeof frame->fault.message,
             "no operation is called \"%s\"; there are open_session, create_cell, observe, "
             "terminate, release, list and close_session",
             frame->fault.op);
}

static void read_request(struct bl_arena *arena, const struct bl_json *root,
                         struct cell_frame *frame)
{
    const struct bl_json *op = codec_get(root, "op"), *args = codec_get(root, "args");
    struct codec_problem problem;

    codec_problem_init(&problem);
    frame->request.id = codec_number(root, "id");
    frame->op_text = bl_json_text(op);
    if (!bl_json_is(op, BL_JSON_STRING)) {
        codec_fail(&problem, "a request has a member op, the name of an operation");
        refuse(frame, &problem);
    } else if (!cell_operation_parse(frame->op_text, &frame->request.op)) {
        refuse_operation(frame);
    } else if (args == NULL) {
        codec_fail(&problem, "a request has a member args, an object");
        refuse(frame, &problem);
    } else if (!codec_check_fields(&problem, arguments[frame->request.op], args) ||
               !read_arguments(&problem, arena, args, &frame->request)) {
        refuse(frame, &problem);
    }
}

/* ---- Hello ----------------------------------------------------------------------------------- */

static unsigned capability_of(struct bl_text name)
{
    if (bl_text_equal(name, BL_TEXT("tools")))
        return CELL_CAPABILITY_TOOLS;
    return bl_text_equal(name, BL_TEXT("notify")) ? CELL_CAPABILITY_NOTIFY : 0;
}

static bool read_hello(struct codec_problem *problem, const struct bl_json *root,
                       struct cell_hello *out)
{
    const struct bl_json *requires = codec_get(root, "requires"), *wants = codec_get(root, "wants");

    *out = (struct cell_hello){.client = bl_json_text(codec_get(root, "client"))};
    BL_JSON_EACH (version, codec_get(root, "versions")) {
        int64_t number = 0;
        out->version_1 |= bl_json_int64(version, &number) && number == CELL_VERSION;
    }
    BL_JSON_EACH (capability, requires) {
        unsigned bit = capability_of(bl_json_text(capability));
        out->wants |= bit;
        if (bit == 0 && out->lacking.size == 0)
            out->lacking = bl_json_text(capability);
    }
    BL_JSON_EACH (capability, wants) {
        out->wants |= capability_of(bl_json_text(capability));
        BL_JSON_EACH (required, requires) {
            if (!bl_json_equal(capability, required))
                continue;
            codec_enter(problem, "wants", 0);
            return codec_fail_value(problem, capability, "what requires has not got");
        }
    }
    return true;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static bool read_tool_result(struct codec_problem *problem, struct bl_arena *arena,
                             struct bl_text bytes, const struct bl_json *root,
                             struct cell_frame *frame)
{
    const struct bl_json *ok = codec_get(root, "ok"), *err = codec_get(root, "err");

    if ((ok != NULL) == (err != NULL))
        return codec_fail(problem, "a tool_result has either ok or err");
    frame->tool_result.session_id = codec_string(root, "session_id");
    frame->tool_result.cell_id = codec_string(root, "cell_id");
    frame->tool_result.call_id = codec_string(root, "call_id");
    struct bl_cell_call_result *result = &frame->tool_result.result;
    *result = (struct bl_cell_call_result){.ok = ok != NULL};
    if (ok != NULL) {
        result->json = bl_arena_text(arena, codec_slice(bytes, root, "ok"));
    } else {
        struct bl_text kind = bl_json_text(codec_get(err, "kind"));
        result->refusal = (enum bl_cell_call_refusal)codec_name_index(codec_refusals, kind);
        result->message = bl_json_text(codec_get(err, "message"));
    }
    return true;
}

/* What its type says of a frame that has passed the check. */
static bool read_frame(struct codec_problem *problem, struct bl_arena *arena, struct bl_text bytes,
                       const struct bl_json *root, struct cell_frame *frame)
{
    switch (frame->type) {
    case CELL_FRAME_HELLO: return read_hello(problem, root, &frame->hello);
    case CELL_FRAME_REQUEST: read_request(arena, root, frame); break;
    case CELL_FRAME_CANCEL: frame->cancel.id = codec_number(root, "id"); break;
    case CELL_FRAME_TOOL_RESULT: return read_tool_result(problem, arena, bytes, root, frame);
    case CELL_FRAME_NOTIFY_ACK:
        frame->notify_ack.session_id = codec_string(root, "session_id");
        frame->notify_ack.cell_id = codec_string(root, "cell_id");
        frame->notify_ack.seq = codec_number(root, "seq");
        break;
    }
    return true;
}

/* A frame of clients, the first of which is a hello, and no other. */
static bool is_due(struct codec_problem *problem, const struct codec_variant *variant, bool first)
{
    bool hello = variant == &codec_frames[CODEC_HELLO];

    if (variant >= &codec_frames[CODEC_READY])
        return codec_fail(problem, "%s is a frame of the host", variant->name);
    if (first && !hello)
        return codec_fail(problem, "the first frame must be hello, is %s", variant->name);
    return first || !hello || codec_fail(problem, "a second hello");
}

int cell_frame_read(struct bl_arena *arena, struct bl_text bytes, bool first,
                    struct cell_frame *ret_frame, char *message, size_t message_size)
{
    const struct codec_variant *variant;
    const struct bl_json *root;
    struct codec_problem problem;

    int code = codec_frame_parse(arena, bytes, &root, message, message_size);
    if (code != 0)
        return code;
    codec_problem_init(&problem);
    *ret_frame = (struct cell_frame){.type = CELL_FRAME_HELLO};
    bool fits = codec_check_union(&problem, "type", codec_frames, root, &variant) &&
                is_due(&problem, variant, first);
    if (fits) {
        ret_frame->type = (enum cell_frame_type)(variant - codec_frames);
        fits = read_frame(&problem, arena, bytes, root, ret_frame);
    }
    if (fits)
        return 0;
    codec_problem_text(&problem, message, message_size);
    return BL_EPARSE;
}
