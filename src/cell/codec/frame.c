/* The table of all frames of clients and of the host. They form one union: each type has its own
 * members and no others. */
#include <stdio.h>

#include "codec.h"

#define CLIENT_MAX 256u /* bytes of a client's name */

/* ---- Names and forms ------------------------------------------------------------------------- */

#define NAME(name, text)                 [name] = (text),
#define CODE_NAME(name, text, retryable) [name] = (text),
static const char *const operation_names[] = {CELL_OPERATION_TABLE(NAME)};
static const char *const refusal_names[] = {BL_CELL_REFUSAL_TABLE(NAME)};
static const char *const code_names[] = {BL_CELL_CODE_TABLE(CODE_NAME)};
static const char *const input_names[] = {"object", "text"};
static const char *const bye_names[] = {"superseded", "protocol", "too_slow", "shutting_down"};
#undef NAME
#undef CODE_NAME

const struct bl_names cell_operations = BL_NAMES(operation_names);
static const struct bl_names refusals = BL_NAMES(refusal_names), codes = BL_NAMES(code_names),
                             inputs = BL_NAMES(input_names), bye_reasons = BL_NAMES(bye_names);

const char *cell_operation_name(enum cell_operation operation)
{
    return operation_names[operation];
}

bool cell_operation_parse(struct bl_text name, enum cell_operation *ret_operation)
{
    size_t index;

    if (!bl_names_find(&cell_operations, name, &index))
        return false;
    *ret_operation = (enum cell_operation)index;
    return true;
}

const char *bl_cell_code_name(enum bl_cell_code code)
{
    const char *name = bl_names_get(&codes, code);
    return name != NULL ? name : "internal";
}

bool bl_cell_code_retryable(enum bl_cell_code code)
{
#define CODE_RETRYABLE(name, text, retryable) retryable,
    static const bool table[] = {BL_CELL_CODE_TABLE(CODE_RETRYABLE)};
#undef CODE_RETRYABLE
    return (size_t)code >= BL_COUNT(table) || table[code];
}

const char *bl_cell_call_refusal_name(enum bl_cell_call_refusal refusal)
{
    const char *name = bl_names_get(&refusals, refusal);
    return name != NULL ? name : "failed";
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

static bool is_label(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20 || byte == 0x7f)
            return false;
    }
    return bl_text_trim(text).size > 0;
}

static bool is_source(struct bl_text text)
{
    return bl_text_trim(text).size > 0;
}

const struct bl_form cell_id_form = {"an id of 1 to 64 characters from a-z, 0-9 and -",
                                     "^[a-z0-9-]{1,64}$", cell_id_valid};
const struct bl_form cell_label_form = {
    "a name that is not blank, without control characters,",
    "^[^\\u0000-\\u001f\\u007f]*[^ \\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$", is_label};
static const struct bl_form source_form = {"a source that is not blank", "[^ \\t\\r\\n\\v\\f]",
                                           is_source};

static const struct bl_member version_element = {
    .type = BL_TYPE_INTEGER, .size = sizeof(uint64_t), .least = 1, .most = CELL_REQUEST_MAX};
static const struct bl_member label_element = {
    .type = BL_TYPE_TEXT, .size = sizeof(struct bl_text), .form = &cell_label_form};

/* ---- Arguments of operations ----------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct bl_cell_tool
static const struct bl_member tool_head_members[] = {
    BL_MEMBER_TEXT("name", name, .least = 1, .most = CELL_TOOL_NAME_MAX, .form = &cell_label_form,
                   .about = "Name of the tool, unique in its cell."),
    BL_MEMBER_TEXT("description", description),
    BL_MEMBER_ENUM("input", takes_text, &inputs,
                   .about = "Type of the tool's input: an object, or a string."),
    BL_MEMBER_END,
};
const struct bl_record cell_tool_head_record =
    BL_RECORD("tool_head", struct bl_cell_tool, tool_head_members);
static const struct bl_member tool_members[] = {
    BL_MEMBER_INCLUDE(&cell_tool_head_record),
    /* In canonical form, so that a repeated create stays the same create even if the client's JSON
     * library orders keys at random. */
    BL_MEMBER_RAW("input_schema", schema, .object = true, .nullable = true, .canonical = true,
                  .about = "JSON Schema of the input."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record tool_record = BL_RECORD("tool", struct bl_cell_tool, tool_members);
static const struct bl_member tool_element = BL_ELEMENT(struct bl_cell_tool, &tool_record);

/* Names of tools must be unique, and their texts must fit into the limit. */
static bool create_rule(const void *object, struct bl_record_fault *fault)
{
    const struct bl_cell_create *create = &((const struct cell_frame *)object)->request.create;
    struct bl_map names;
    void *other = NULL;
    size_t size = 0, i = 0;

    bl_map_init(&names);
    for (; i < create->tool_count && other == NULL; i++) {
        const struct bl_cell_tool *tool = &create->tools[i];
        bl_map_set(&names, tool->name, &names, &other);
        size += tool->name.size + tool->description.size + tool->schema.size;
    }
    bl_map_done(&names);
    if (other == NULL && size <= BL_CELL_TOOLS_BYTES_MAX)
        return true;
    if (fault == NULL)
        return false;
    *fault = (struct bl_record_fault){.path = "/tools"};
    if (other != NULL) {
        snprintf(fault->path, sizeof fault->path, "/tools/%zu/name", i - 1);
        snprintf(fault->message, sizeof fault->message, "another tool has the same name");
    } else {
        snprintf(fault->message, sizeof fault->message,
                 "expected at most %zu bytes of names, descriptions and schemas, found %zu",
                 BL_CELL_TOOLS_BYTES_MAX, size);
    }
    return false;
}

#define BL_RECORD_STRUCT struct cell_frame
static const struct bl_member limit_members[] = {
    BL_MEMBER_INTEGER("deadline_ms", request.create.deadline_ms, .optional = true, .least = 1,
                      .most = BL_CELL_DEADLINE_MS_MAX,
                      .about = "Wall time from the creation of the cell; default: 30 minutes. A "
                               "retry may have a different one."),
    BL_MEMBER_INTEGER("memory_bytes", request.create.memory_bytes, .optional = true, .least = 1,
                      .most = BL_CELL_MEMORY_MAX,
                      .about = "Growth over an idle worker; default: 64 MiB."),
    BL_MEMBER_INTEGER("output_bytes", request.create.output_bytes, .optional = true, .least = 1,
                      .most = BL_CELL_OUTPUT_MAX,
                      .about =
                          "Bytes of items as JSON, over the life of the cell; default: 4 MiB."),
    BL_MEMBER_END,
};
static const struct bl_record limits_record = BL_RECORD_GROUP("limits", limit_members);

#define SESSION_ID CELL_MEMBER_SESSION_ID(request.session_id)
static const struct bl_member open_members[] = {
    SESSION_ID,
    BL_MEMBER_BOOLEAN("serves_tools", request.open.serves_tools,
                      .about = "The client answers tool_call for this session."),
    BL_MEMBER_INTEGER("linger_ms", request.open.linger_ms, .most = BL_CELL_LINGER_MS_MAX,
                      .about = "How long its cells continue without a connection."),
    BL_MEMBER_END,
};
static const struct bl_member create_members[] = {
    SESSION_ID,
    CELL_MEMBER_CELL_ID(request.create.cell_id),
    BL_MEMBER_TEXT("source", request.create.source, .least = 1, .most = BL_CELL_SOURCE_MAX,
                   .form = &source_form,
                   .about = "JavaScript, at most 1 MiB of UTF-8, and not blank."),
    BL_MEMBER_ARRAY("tools", request.create.tools, request.create.tool_count, &tool_element,
                    .most = BL_CELL_TOOLS_MAX,
                    .about = "At most 4 MiB of names, descriptions and schemas."),
    BL_MEMBER_GROUP("limits", &limits_record),
    BL_MEMBER_END,
};
static const struct bl_member observe_members[] = {
    SESSION_ID,
    CELL_MEMBER_CELL_ID(request.observe.cell_id),
    CELL_MEMBER_GENERATION(request.observe.generation),
    BL_MEMBER_INTEGER("yield_time_ms", request.observe.yield_ms, .most = BL_CELL_YIELD_MS_MAX,
                      .about = "How long to wait for the cell to yield or end; 0 answers at once."),
    BL_MEMBER_END,
};
static const struct bl_member terminate_members[] = {
    SESSION_ID,
    CELL_MEMBER_CELL_ID(request.terminate.cell_id),
    BL_MEMBER_STRING("terminate_id", request.terminate.terminate_id, .form = &cell_id_form,
                     .about = "A request with the same id repeats the same terminate."),
    BL_MEMBER_ENUM("reason", request.terminate.reason, &bl_stop_reasons),
    BL_MEMBER_END,
};
static const struct bl_member release_members[] = {
    SESSION_ID, CELL_MEMBER_CELL_ID(request.release.cell_id),
    CELL_MEMBER_GENERATION(request.release.generation), BL_MEMBER_END};
static const struct bl_member list_members[] = {
    SESSION_ID,
    BL_MEMBER_STRING("after", request.list.after, .nullable = true, .form = &cell_id_form,
                     .about = "Last cell of the previous list; null starts at the first."),
    BL_MEMBER_INTEGER("max", request.list.max, .least = 1, .most = CELL_LIST_MAX),
    BL_MEMBER_END,
};
static const struct bl_member close_members[] = {
    SESSION_ID,
    BL_MEMBER_BOOLEAN("forget", request.close.forget,
                      .about = "Also delete the session's records and values."),
    BL_MEMBER_END,
};
#undef SESSION_ID

#define ARGUMENTS(operation, table, ...)                                                           \
    BL_RECORD_GROUP("cell:" operation ".request", table, .document = true,                         \
                    .about = "Arguments of " operation ".", __VA_ARGS__)
static const struct bl_record open_record = ARGUMENTS("open_session", open_members);
static const struct bl_record create_record =
    ARGUMENTS("create_cell", create_members, .rule = create_rule);
static const struct bl_record observe_record = ARGUMENTS("observe", observe_members);
static const struct bl_record terminate_record = ARGUMENTS("terminate", terminate_members);
static const struct bl_record release_record = ARGUMENTS("release", release_members);
static const struct bl_record list_record = ARGUMENTS("list", list_members);
static const struct bl_record close_record = ARGUMENTS("close_session", close_members);

static const struct bl_record *const argument_records[] = {
    [CELL_OPEN_SESSION] = &open_record,   [CELL_CREATE_CELL] = &create_record,
    [CELL_OBSERVE] = &observe_record,     [CELL_TERMINATE] = &terminate_record,
    [CELL_RELEASE] = &release_record,     [CELL_LIST] = &list_record,
    [CELL_CLOSE_SESSION] = &close_record,
};

#undef BL_RECORD_STRUCT
#define BL_RECORD_STRUCT struct bl_cell_call_result
static const struct bl_member call_error_members[] = {
    BL_MEMBER_ENUM("kind", refusal, &refusals), BL_MEMBER_TEXT("message", message), BL_MEMBER_END};
#undef BL_RECORD_STRUCT
const struct bl_record cell_call_error_record =
    BL_RECORD("call_error", struct bl_cell_call_result, call_error_members,
              .about = "Why a nested call has no result.");

/* ---- Frames of clients ----------------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct cell_frame
#define REQUEST_ID(field)                                                                          \
    CELL_MEMBER_COUNT("id", field,                                                                 \
                      .about =                                                                     \
                          "Id of the request, unique among those in progress on its connection.")
#define CALL_ID                                                                                    \
    BL_MEMBER_STRING("call_id", call_id, .form = &cell_id_form,                                    \
                     .about = "Id of the nested call, unique in its cell.")
#define SEQUENCE                                                                                   \
    BL_MEMBER_INTEGER("seq", seq, .least = 1, .most = CELL_REQUEST_MAX,                            \
                      .about = "Number of the notification, from 1 in each cell.")
#define NAMES(key, field, count, ...)                                                              \
    BL_MEMBER_ARRAY(key, field, count, &label_element, .distinct = true, .most = CELL_NAME_MAX,    \
                    __VA_ARGS__)

static const struct bl_choice request_choice = {"op", &cell_operations, argument_records};
static const struct bl_choice reply_choice = {"op", &cell_operations, cell_ok_records};

static const struct bl_member hello_members[] = {
    BL_MEMBER_TEXT("client", hello.client, .least = 1, .most = CLIENT_MAX, .form = &cell_label_form,
                   .about = "A newer hello with the same name supersedes this connection."),
    BL_MEMBER_ARRAY("versions", hello.versions, hello.version_count, &version_element,
                    .distinct = true, .least = 1, .most = CELL_NAME_MAX,
                    .about = "Versions of the protocol that the client knows."),
    NAMES("requires", hello.requires, hello.require_count,
          .about = "Required capabilities: a host that lacks one rejects the client."),
    NAMES("wants", hello.wants, hello.want_count,
          .about = "Optional capabilities; none may be in requires, too."),
    BL_MEMBER_END,
};
static const struct bl_member request_members[] = {
    REQUEST_ID(request.id),
    BL_MEMBER_ENUM("op", request.op, &cell_operations, .about = "What to do."),
    {.name = "args",
     .type = BL_TYPE_OBJECT,
     .choice = &request_choice,
     BL_CHOSEN(request.op),
     BL_ENCODED(request.args_json)},
    BL_MEMBER_END,
};
static const struct bl_member cancel_members[] = {REQUEST_ID(cancel.id), BL_MEMBER_END};
static const struct bl_member tool_result_members[] = {
    CELL_MEMBER_SESSION_ID(session_id), CELL_MEMBER_CELL_ID(cell_id),      CALL_ID,
    CELL_MEMBER_CALL_OK(tool_result),   CELL_MEMBER_CALL_ERR(tool_result), BL_MEMBER_END,
};
static const struct bl_member notify_ack_members[] = {
    CELL_MEMBER_SESSION_ID(session_id), CELL_MEMBER_CELL_ID(cell_id), SEQUENCE, BL_MEMBER_END};

/* ---- Frames of the host ---------------------------------------------------------------------- */

#define LIMIT(key, field) BL_MEMBER_INTEGER(key, ready.field, .least = 1, .most = CELL_REQUEST_MAX)
static const struct bl_member ready_limit_members[] = {
    LIMIT("frame_bytes", frame_bytes), LIMIT("live_cells", live_cells), LIMIT("requests", requests),
    LIMIT("control_requests", control_requests), BL_MEMBER_END};
static const struct bl_record ready_limits_record =
    BL_RECORD_GROUP("host_limits", ready_limit_members);
static const struct bl_member ready_members[] = {
    BL_MEMBER_INTEGER("version", ready.version, .least = CELL_VERSION, .most = CELL_VERSION,
                      .about = "Version of the protocol on this connection."),
    NAMES("capabilities", ready.capabilities, ready.capability_count,
          .about = "Requested capabilities that the host has."),
    BL_MEMBER_TEXT("instance", ready.instance, .least = 1, .most = CLIENT_MAX,
                   .form = &cell_label_form,
                   .about = "Id of the host, different after each start."),
    BL_MEMBER_GROUP("limits", &ready_limits_record),
    BL_MEMBER_END,
};
static const struct bl_member reply_members[] = {
    REQUEST_ID(reply.id),
    BL_MEMBER_TEXT("op", reply.op, .about = "As in the request."),
    BL_MEMBER_JSON("ok", reply.ok, .either = true, .choice = &reply_choice,
                   BL_ENCODED(reply.ok_json)),
    BL_MEMBER_POINTER("err", reply.err, &cell_fault_record, .either = true),
    BL_MEMBER_END,
};
static const struct bl_member tool_call_members[] = {
    CELL_MEMBER_SESSION_ID(session_id),
    CELL_MEMBER_CELL_ID(cell_id),
    CALL_ID,
    BL_MEMBER_TEXT("tool", call.tool, .least = 1, .most = CELL_TOOL_NAME_MAX,
                   .form = &cell_label_form, .about = "As named in create_cell."),
    BL_MEMBER_JSON("input", call.input, .or_string = true, BL_ENCODED(call.input_json)),
    BL_MEMBER_BOOLEAN("redelivered", call.redelivered,
                      .about = "The call may have been sent before: do not run it twice."),
    BL_MEMBER_END,
};
static const struct bl_member tool_cancel_members[] = {
    CELL_MEMBER_SESSION_ID(session_id), CELL_MEMBER_CELL_ID(cell_id), CALL_ID, BL_MEMBER_END};
static const struct bl_member notify_members[] = {CELL_MEMBER_SESSION_ID(session_id),
                                                  CELL_MEMBER_CELL_ID(cell_id), SEQUENCE,
                                                  BL_MEMBER_TEXT("text", text), BL_MEMBER_END};
static const struct bl_member ended_members[] = {CELL_MEMBER_SESSION_ID(session_id),
                                                 CELL_MEMBER_CELL_ID(cell_id), BL_MEMBER_END};
static const struct bl_member bye_members[] = {
    BL_MEMBER_STRING("reason", bye.reason, .names = &bye_reasons), BL_MEMBER_TEXT("message", text),
    BL_MEMBER_END};
#undef BL_RECORD_STRUCT

/* ---- Why a hello is rejected ----------------------------------------------------------------- */

static const char *const rejection_names[] = {"no_common_version", "missing_capability",
                                              "bad_hello"};
const struct bl_names cell_rejections = BL_NAMES(rejection_names);

#define BL_RECORD_STRUCT struct cell_rejected
static const struct bl_member no_version_members[] = {
    BL_MEMBER_ARRAY("versions", versions, version_count, &version_element, .distinct = true,
                    .least = 1, .most = CELL_NAME_MAX, .about = "Versions that the host knows."),
    BL_MEMBER_END};
static const struct bl_member no_capability_members[] = {
    BL_MEMBER_TEXT("capability", text, .least = 1), BL_MEMBER_END};
static const struct bl_member bad_hello_members[] = {BL_MEMBER_TEXT("message", text, .least = 1),
                                                     BL_MEMBER_END};
static const struct bl_member rejection_members[] = {BL_MEMBER_ENUM("type", type, &cell_rejections),
                                                     BL_MEMBER_END};
#undef BL_RECORD_STRUCT
static const struct bl_record no_version_record =
    BL_RECORD("no_common_version", struct cell_rejected, no_version_members);
static const struct bl_record no_capability_record =
    BL_RECORD("missing_capability", struct cell_rejected, no_capability_members);
static const struct bl_record bad_hello_record =
    BL_RECORD("bad_hello", struct cell_rejected, bad_hello_members);
static const struct bl_record *const rejection_kinds[] = {
    [CELL_REJECTED_VERSION] = &no_version_record,
    [CELL_REJECTED_CAPABILITY] = &no_capability_record,
    [CELL_REJECTED_HELLO] = &bad_hello_record,
};
static const struct bl_record rejection_record =
    BL_RECORD("rejection", struct cell_rejected, rejection_members, .kinds = rejection_kinds);

#define BL_RECORD_STRUCT struct cell_frame
static const struct bl_member rejected_members[] = {
    BL_MEMBER_OBJECT("reason", rejected, &rejection_record), BL_MEMBER_END};
#undef BL_RECORD_STRUCT

/* ---- All frames ------------------------------------------------------------------------------ */

static bool hello_rule(const void *object, struct bl_record_fault *fault)
{
    const struct cell_hello *hello = &((const struct cell_frame *)object)->hello;

    for (size_t i = 0; i < hello->want_count; i++) {
        for (size_t j = 0; j < hello->require_count; j++) {
            if (!bl_text_equal(hello->wants[i], hello->requires[j]))
                continue;
            if (fault != NULL) {
                *fault = (struct bl_record_fault){0};
                snprintf(fault->path, sizeof fault->path, "/wants/%zu", i);
                snprintf(fault->message, sizeof fault->message, "also in requires");
            }
            return false;
        }
    }
    return true;
}

#define FRAME(type, text, ...)                                                                     \
    static const struct bl_record type##_record =                                                  \
        BL_RECORD("cell:" #type, struct cell_frame, type##_members, .document = true,              \
                  .of = &cell_frame_record, .about = (text), __VA_ARGS__)
FRAME(hello, "The first frame of a client.", .rule = hello_rule);
FRAME(request, "A request of a client; its answer is a reply with the same id.");
FRAME(tool_result, "A client's answer to a tool_call: either ok or err.");
FRAME(notify_ack, "A client has received a notification.");
FRAME(ready, "The host has accepted a hello.");
FRAME(rejected, "The host rejects a hello, and closes the connection.");
FRAME(reply, "The answer to a request: either ok or err.");
FRAME(tool_call, "The host asks the client to run a nested call.");
FRAME(tool_cancel, "The host no longer needs the result of a nested call.");
FRAME(notify, "Text that a cell passed to notify; sent again until it is acknowledged.");
FRAME(ended, "A hint that a cell has ended; observe gets its outcome.");
FRAME(bye, "The host closes this connection, and nothing else.");
#undef FRAME
const struct bl_record cell_cancel_record = BL_RECORD(
    "cell:cancel", struct cell_frame, cancel_members, .document = true, .of = &cell_frame_record,
    .about = "The client no longer waits for the request, which is still answered.");

static const char *const frame_names[] = {
    [CELL_FRAME_HELLO] = "hello",
    [CELL_FRAME_REQUEST] = "request",
    [CELL_FRAME_CANCEL] = "cancel",
    [CELL_FRAME_TOOL_RESULT] = "tool_result",
    [CELL_FRAME_NOTIFY_ACK] = "notify_ack",
    [CELL_FRAME_READY] = "ready",
    [CELL_FRAME_REJECTED] = "rejected",
    [CELL_FRAME_REPLY] = "reply",
    [CELL_FRAME_TOOL_CALL] = "tool_call",
    [CELL_FRAME_TOOL_CANCEL] = "tool_cancel",
    [CELL_FRAME_NOTIFY] = "notify",
    [CELL_FRAME_ENDED] = "ended",
    [CELL_FRAME_BYE] = "bye",
};
static const struct bl_names frames = BL_NAMES(frame_names);
static const struct bl_record *const frame_kinds[] = {
    [CELL_FRAME_HELLO] = &hello_record,
    [CELL_FRAME_REQUEST] = &request_record,
    [CELL_FRAME_CANCEL] = &cell_cancel_record,
    [CELL_FRAME_TOOL_RESULT] = &tool_result_record,
    [CELL_FRAME_NOTIFY_ACK] = &notify_ack_record,
    [CELL_FRAME_READY] = &ready_record,
    [CELL_FRAME_REJECTED] = &rejected_record,
    [CELL_FRAME_REPLY] = &reply_record,
    [CELL_FRAME_TOOL_CALL] = &tool_call_record,
    [CELL_FRAME_TOOL_CANCEL] = &tool_cancel_record,
    [CELL_FRAME_NOTIFY] = &notify_record,
    [CELL_FRAME_ENDED] = &ended_record,
    [CELL_FRAME_BYE] = &bye_record,
};

#define BL_RECORD_STRUCT struct cell_frame
static const struct bl_member frame_members[] = {BL_MEMBER_ENUM("type", type, &frames),
                                                 BL_MEMBER_END};
#undef BL_RECORD_STRUCT
const struct bl_record cell_frame_record = BL_RECORD(
    "cell:frame", struct cell_frame, frame_members, .kinds = frame_kinds, .document = true,
    .about = "One frame of either side: 4 bytes of length, unsigned and big-endian, "
             "followed by that many bytes of this JSON in UTF-8.");

/* ---- Why an operation is refused ------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct bl_cell_fault
#define FAULT_SESSION                                                                              \
    BL_MEMBER_WORD("session_id", id, .most = CELL_ID_MAX, .form = &cell_id_form,                   \
                   .about = "Id of the session."),
#define FAULT_CELL                                                                                 \
    BL_MEMBER_WORD("cell_id", id, .most = CELL_ID_MAX, .form = &cell_id_form,                      \
                   .about = "Id of the cell, unique in its session."),
#define FAULT_DETAIL                                                                               \
    BL_MEMBER_WORD("detail", detail, .cut = true, .about = "Error of the system or of the store."),
static const struct bl_member generation_element = {
    .type = BL_TYPE_INTEGER, .size = sizeof(uint64_t), .least = 1, .most = CELL_REQUEST_MAX};

/* For each code: the members besides code, message and retryable, and when the code is used. */
#define MORE_BL_CELL_BAD_REQUEST                                                                   \
    BL_MEMBER_WORD("path", path, .cut = true, .about = "JSON pointer into args."),
#define MORE_BL_CELL_UNSUPPORTED      BL_MEMBER_WORD("op", op, .cut = true),
#define MORE_BL_CELL_SESSION_NOT_OPEN FAULT_SESSION
#define MORE_BL_CELL_CONFLICT         FAULT_CELL
#define MORE_BL_CELL_GONE             FAULT_CELL
#define MORE_BL_CELL_WRONG_GENERATION                                                              \
    BL_MEMBER_INTEGER("expected", expected, .least = 1, .most = CELL_REQUEST_MAX,                  \
                      .about = "The generation to ask for."),                                      \
        BL_MEMBER_SLOTS("retained", retained, retained_count, &generation_element,                 \
                        .distinct = true, .about = "Generations that are answered again."),
#define MORE_BL_CELL_NOT_TERMINAL FAULT_CELL
#define MORE_BL_CELL_SESSION_BUSY FAULT_SESSION
#define MORE_BL_CELL_LIMIT_REACHED                                                                 \
    BL_MEMBER_WORD("limit", limit, .least = 1, .most = 256, .cut = true, .form = &cell_label_form, \
                   .about = "Name of the limit."),                                                 \
        CELL_MEMBER_COUNT("value", value, .about = "The limit."),
#define MORE_BL_CELL_CANCELLED
#define MORE_BL_CELL_WORKER_UNAVAILABLE FAULT_DETAIL
#define MORE_BL_CELL_STORE_FAILED       FAULT_DETAIL
#define MORE_BL_CELL_SHUTTING_DOWN
#define MORE_BL_CELL_INTERNAL           FAULT_DETAIL
#define WHEN_BL_CELL_BAD_REQUEST        "A value in args is invalid."
#define WHEN_BL_CELL_UNSUPPORTED        "The operation is unknown."
#define WHEN_BL_CELL_SESSION_NOT_OPEN   "This connection has not opened the session."
#define WHEN_BL_CELL_CONFLICT           "The id was admitted with different content."
#define WHEN_BL_CELL_GONE               "The id was used before, and does not run again."
#define WHEN_BL_CELL_WRONG_GENERATION   "The generation is neither retained nor the next one."
#define WHEN_BL_CELL_NOT_TERMINAL       "The cell has not ended."
#define WHEN_BL_CELL_SESSION_BUSY       "Another live host holds the session."
#define WHEN_BL_CELL_LIMIT_REACHED      "A limit was reached."
#define WHEN_BL_CELL_CANCELLED          "The caller cancelled the request."
#define WHEN_BL_CELL_WORKER_UNAVAILABLE "No worker can start on this machine."
#define WHEN_BL_CELL_STORE_FAILED       "The store failed; nothing was written."
#define WHEN_BL_CELL_SHUTTING_DOWN      "The host is shutting down."
#define WHEN_BL_CELL_INTERNAL           "An error of the host itself."

#define FAULT_KIND(code, text, retried)                                                            \
    static const struct bl_member code##_members[] = {                                             \
        BL_MEMBER_WORD("message", message, .cut = true, .about = "For people."),                   \
        BL_MEMBER_CONSTANT("retryable", retried), MORE_##code BL_MEMBER_END};                      \
    static const struct bl_record code##_record =                                                  \
        BL_RECORD(text, struct bl_cell_fault, code##_members, .about = WHEN_##code);
BL_CELL_CODE_TABLE(FAULT_KIND)
#define FAULT_ROW(code, text, retried) [code] = &code##_record,
static const struct bl_record *const fault_kinds[] = {BL_CELL_CODE_TABLE(FAULT_ROW)};
static const struct bl_member fault_members[] = {BL_MEMBER_ENUM("code", code, &codes),
                                                 BL_MEMBER_END};
#undef BL_RECORD_STRUCT
const struct bl_record cell_fault_record =
    BL_RECORD("cell:error", struct bl_cell_fault, fault_members, .kinds = fault_kinds,
              .document = true, .about = "The err of a reply: nothing has changed.");

const struct bl_record *const cell_schemas[] = {
    &bl_cell_item_record,
    &bl_cell_error_record,
    &cell_fault_record,
    &cell_frame_record,
    &hello_record,
    &request_record,
    &cell_cancel_record,
    &tool_result_record,
    &notify_ack_record,
    &ready_record,
    &rejected_record,
    &reply_record,
    &tool_call_record,
    &tool_cancel_record,
    &notify_record,
    &ended_record,
    &bye_record,
    &open_record,
    &create_record,
    &observe_record,
    &terminate_record,
    &release_record,
    &list_record,
    &close_record,
    NULL,
};
