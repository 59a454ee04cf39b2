/* The messages of the protocol: one struct for all frames, and the tables that describe frames,
 * requests and outcomes. The tables read, write and check each message, and docs/schemas/cell is
 * generated from them. Texts of a frame that was read are in the given arena; texts of a frame to
 * be written belong to the caller. */
#ifndef BELAY_CELL_CODEC_H
#define BELAY_CELL_CODEC_H

#include "cell/cell.h"

#define CELL_VERSION       1
#define CELL_DEPTH_MAX     64u
#define CELL_REQUEST_MAX   ((uint64_t)9007199254740991) /* 2^53 - 1: the largest request id */
#define CELL_NAME_MAX      64u /* capabilities, or versions, in one hello */
#define CELL_ID_MAX        64u
#define CELL_LIST_MAX      10000u
#define CELL_TOOL_NAME_MAX 256u /* bytes */

extern const struct bl_names cell_operations, cell_rejections;
const char *cell_operation_name(enum cell_operation operation);
bool cell_operation_parse(struct bl_text name, enum cell_operation *ret_operation);
/* [a-z0-9-]{1,64} */
bool cell_id_valid(struct bl_text id);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Known capabilities, as bits. */
enum {
    CELL_CAPABILITY_TOOLS = 1,
    CELL_CAPABILITY_NOTIFY = 2,
    CELL_CAPABILITIES = 2, /* their number */
};

struct cell_hello {
    struct bl_text client;
    const uint64_t *versions;
    size_t version_count;
    const struct bl_text *requires, *wants;
    size_t require_count, want_count;
};

/* The answer to a nested call. */
struct cell_call_answer {
    struct bl_cell_call_result result;
    const struct bl_json *ok; /* as it was read */
};

struct cell_ready {
    uint64_t version;
    const struct bl_text *capabilities;
    size_t capability_count;
    struct bl_text instance;
    uint64_t frame_bytes, live_cells, requests, control_requests; /* limits */
};

struct cell_rejected {
    enum cell_rejection {
        CELL_REJECTED_VERSION,
        CELL_REJECTED_CAPABILITY,
        CELL_REJECTED_HELLO,
    } type;
    const uint64_t *versions; /* version: those that the host knows */
    size_t version_count;
    struct bl_text text; /* capability: its name; hello: what is wrong with it */
};

/* Either ok or err. */
struct cell_reply {
    uint64_t id;
    struct bl_text op; /* as in the request; with err it may be unknown */
    const struct bl_json *ok;
    struct bl_text ok_json; /* its bytes, as received or to be written */
    const struct bl_cell_fault *err;
};

struct cell_frame {
    enum cell_frame_type {
        /* Of clients. */
        CELL_FRAME_HELLO,
        CELL_FRAME_REQUEST,
        CELL_FRAME_CANCEL,
        CELL_FRAME_TOOL_RESULT,
        CELL_FRAME_NOTIFY_ACK,
        /* Of the host. */
        CELL_FRAME_READY,
        CELL_FRAME_REJECTED,
        CELL_FRAME_REPLY,
        CELL_FRAME_TOOL_CALL,
        CELL_FRAME_TOOL_CANCEL,
        CELL_FRAME_NOTIFY,
        CELL_FRAME_ENDED,
        CELL_FRAME_BYE,
    } type;
    const char *session_id, *cell_id, *call_id; /* tool_…, notify, notify_ack, ended */
    uint64_t seq;                               /* notify, notify_ack */
    struct bl_text text;                        /* notify; bye: the message */
    union {
        struct cell_hello hello;
        struct cell_request request;
        struct {
            uint64_t id;
        } cancel;
        struct cell_call_answer tool_result;
        struct cell_ready ready;
        struct cell_rejected rejected;
        struct cell_reply reply;
        struct {
            struct bl_text tool;
            const struct bl_json *input;
            struct bl_text input_json; /* its bytes, as received or to be written */
            bool redelivered;
        } call;
        struct {
            const char *reason; /* superseded, protocol, too_slow, shutting_down */
        } bye;
    };
    struct bl_text op_text; /* of a request: its `op` as received, for the reply */
    /* Set for a bad request whose id is known, which is answered with `err` (bad_request,
     * unsupported). NULL if the frame is valid. */
    const struct bl_cell_fault *refusal;
};

/* Reads one complete frame of a client, which must be a hello if `first`, and must not be one
 * otherwise. Returns 0, also with a `refusal`; BL_EPARSE for a breach of the protocol or a bad
 * hello, which `message` (at least 160 bytes) describes. */
int cell_frame_read(struct bl_arena *arena, struct bl_text bytes, bool first,
                    struct cell_frame *ret_frame, char *message, size_t message_size);
/* Reads one complete frame of a host; its `ok` must be an outcome of its operation. BL_EPARSE with
 * `error`. */
int cell_host_frame_read(struct bl_arena *arena, struct bl_text bytes, struct cell_frame *ret_frame,
                         struct bl_error *error);
/* Appends one JSON object. */
void cell_frame_write(struct bl_json_writer *writer, const struct cell_frame *frame);
void cell_reply_ok_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                         struct bl_text ok);
void cell_reply_err_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                          const struct bl_cell_fault *fault);
void cell_hello_write(struct bl_json_writer *writer, const char *client, unsigned wants);
void cell_ready_write(struct bl_json_writer *writer, unsigned capabilities, const char *instance,
                      uint32_t live_cells);
/* `text` belongs to the rejection; CELL_REJECTED_VERSION has none. */
void cell_rejected_write(struct bl_json_writer *writer, enum cell_rejection rejection,
                         struct bl_text text);

bool cell_hello_has_version(const struct cell_hello *hello);
/* Returns the known capabilities, required or wanted, as bits. */
unsigned cell_hello_capabilities(const struct cell_hello *hello);
/* Returns the first required capability that is unknown, or an empty text. */
struct bl_text cell_hello_lacking(const struct cell_hello *hello);

/* ---- Outcomes: the `ok` objects -------------------------------------------------------------- */

void cell_ok_write(struct bl_json_writer *writer, const struct cell_ok *ok);
/* Reads the `ok` of that operation; its texts are those of `value`. BL_EPARSE if it is not one. */
int cell_ok_read(struct bl_arena *arena, enum cell_operation operation, const struct bl_json *value,
                 struct cell_ok *ret_ok, struct bl_error *error);

/* Digests a create: source, tools by name, memory limit and output limit, but not the deadline. */
void cell_digest(const struct bl_cell_create *create, uint8_t out[32]);

/* ---- Frames between a host and a worker ------------------------------------------------------ */

/* cell/worker/protocol.h says when each is sent. */
struct cell_worker_frame {
    enum cell_worker_frame_type {
        /* To the worker. */
        CELL_WORKER_START,
        CELL_WORKER_RESULT,
        CELL_WORKER_NOTIFIED,
        /* From the worker. */
        CELL_WORKER_READY,
        CELL_WORKER_ITEM,
        CELL_WORKER_YIELD,
        CELL_WORKER_CALL,
        CELL_WORKER_NOTIFY,
        CELL_WORKER_IDLE,
        CELL_WORKER_SETTLED,
    } type;
    uint64_t number;     /* of a nested call: call, result; of a text: notify, notified */
    struct bl_text text; /* notify */
    union {
        struct {
            struct bl_text source;
            const struct bl_cell_tool *tools;
            size_t tool_count;
            struct bl_text values; /* a JSON object */
            uint64_t memory_bytes, output_bytes;
            bool notify;
        } start;
        struct cell_call_answer result;
        struct bl_cell_item item;
        struct {
            struct bl_text tool;
            const struct bl_json *input;
        } call;
        struct {
            uint32_t timers;
            bool stalled;
        } idle;
        struct {
            const struct bl_cell_error *error; /* NULL if it succeeded; its texts are cut */
            const struct bl_json *values;      /* an object; its keys are not checked */
            const struct bl_text *deleted;
            size_t deleted_count;
        } settled;
    };
};

/* Reads one frame of a worker into the arena. BL_EPARSE if a worker does not send such a frame. */
int cell_worker_frame_read(struct bl_arena *arena, struct bl_text bytes,
                           struct cell_worker_frame *ret_frame);

/* ---- Tables ---------------------------------------------------------------------------------- */

extern const struct bl_record cell_frame_record, cell_cancel_record, cell_fault_record,
    cell_worker_frame_record;
/* The records besides cell_ok_records that have a schema in docs/schemas/cell; ends in NULL. */
extern const struct bl_record *const cell_schemas[];

/* Parts of several tables. */
extern const struct bl_form cell_label_form;
extern const struct bl_record cell_tool_head_record;    /* a tool without its schema */
extern const struct bl_record cell_call_error_record;   /* part of a struct bl_cell_call_result */
extern const struct bl_record cell_worker_error_record; /* an error of any length, cut to the
                                                           limits */

#define CELL_MEMBER_SESSION_ID(field)                                                              \
    BL_MEMBER_STRING("session_id", field, .form = &cell_id_form, .about = "Id of the session.")
#define CELL_MEMBER_CELL_ID(field)                                                                 \
    BL_MEMBER_STRING("cell_id", field, .form = &cell_id_form,                                      \
                     .about = "Id of the cell, unique in its session.")
#define CELL_MEMBER_GENERATION(field)                                                              \
    BL_MEMBER_INTEGER("generation", field, .least = 1, .most = CELL_REQUEST_MAX,                   \
                      .about = "Generation of the outcome, from 1 in each cell.")
/* Exactly one of the two is present in a struct cell_call_answer. */
#define CELL_MEMBER_CALL_OK(field)                                                                 \
    BL_MEMBER_JSON("ok", field.ok, .either = true, BL_KNOWN(field.result.ok),                      \
                   BL_ENCODED(field.result.json), .about = "Any JSON value.")
#define CELL_MEMBER_CALL_ERR(field)                                                                \
    BL_MEMBER_OBJECT("err", field.result, &cell_call_error_record, .either = true,                 \
                     BL_UNLESS(field.result.ok))
/* A whole number that JavaScript can represent exactly; 0 is allowed. */
#define CELL_MEMBER_COUNT(key, field, ...)                                                         \
    BL_MEMBER_INTEGER(key, field, .most = CELL_REQUEST_MAX, __VA_ARGS__)

/* Parses the bytes of one frame. BL_EPARSE: malformed, too deep, a duplicate key, or not an
 * object. */
int cell_json_read(struct bl_arena *arena, struct bl_text bytes, const struct bl_json **ret_root,
                   char *message, size_t message_size);

#endif
