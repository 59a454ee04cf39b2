/* The wire's messages, in C, and their bytes: each is written and read here and nowhere else. The
 * schemas of docs/schemas/cell say the same. Texts that were read are in the arena given; those to
 * be written are the caller's. */
#ifndef BELAY_CELL_CODEC_H
#define BELAY_CELL_CODEC_H

#include <belay/cell.h>

#define CELL_VERSION       1
#define CELL_DEPTH_MAX     64u
#define CELL_REQUEST_MAX   ((uint64_t)9007199254740991) /* 2^53 - 1: the largest request id */
#define CELL_NAME_MAX      64u /* capabilities of one hello; versions, too */
#define CELL_ID_MAX        64u
#define CELL_LIST_MAX      10000u
#define CELL_TOOL_NAME_MAX 256u /* bytes */

#define CELL_OPERATION_TABLE(X)                                                                    \
    X(CELL_OPEN_SESSION, "open_session")                                                           \
    X(CELL_CREATE_CELL, "create_cell")                                                             \
    X(CELL_OBSERVE, "observe")                                                                     \
    X(CELL_TERMINATE, "terminate")                                                                 \
    X(CELL_RELEASE, "release")                                                                     \
    X(CELL_LIST, "list")                                                                           \
    X(CELL_CLOSE_SESSION, "close_session")

enum cell_operation {
#define CELL_OPERATION(name, text) name,
    CELL_OPERATION_TABLE(CELL_OPERATION)
#undef CELL_OPERATION
};

const char *cell_operation_name(enum cell_operation operation);
bool cell_operation_parse(struct bl_text name, enum cell_operation *ret_operation);
/* [a-z0-9-]{1,64} */
bool cell_id_valid(struct bl_text id);

/* ---- From a client --------------------------------------------------------------------------- */

/* Capabilities that we know, as bits. */
enum {
    CELL_CAPABILITY_TOOLS = 1,
    CELL_CAPABILITY_NOTIFY = 2,
};

struct cell_hello {
    struct bl_text client;
    bool version_1;         /* among `versions` */
    unsigned wants;         /* those that we know, of `requires` and `wants` */
    struct bl_text lacking; /* the first of `requires` that we do not know; empty: none */
};

/* Ids are NUL-terminated texts in the arena. */
struct cell_request {
    uint64_t id;
    enum cell_operation op;
    const char *session_id;
    union {
        struct {
            bool serves_tools;
            uint64_t linger_ms;
        } open;
        struct bl_cell_create create; /* limits that are not given are 0; scope NULL */
        struct bl_cell_observe observe;
        struct bl_cell_terminate terminate;
        struct {
            const char *cell_id;
            uint64_t generation;
        } release;
        struct {
            const char *after; /* NULL: null */
            uint64_t max;
        } list;
        struct {
            bool forget;
        } close;
    };
};

struct cell_frame {
    enum cell_frame_type {
        CELL_FRAME_HELLO,
        CELL_FRAME_REQUEST,
        CELL_FRAME_CANCEL,
        CELL_FRAME_TOOL_RESULT,
        CELL_FRAME_NOTIFY_ACK,
    } type;
    union {
        struct cell_hello hello;
        struct cell_request request;
        struct {
            uint64_t id;
        } cancel;
        struct {
            const char *session_id, *cell_id, *call_id;
            struct bl_cell_call_result result;
        } tool_result;
        struct {
            const char *session_id, *cell_id;
            uint64_t seq;
        } notify_ack;
    };
    /* Of a request that can be answered with `err` (bad_request, unsupported): its id is known. */
    bool refused;
    struct bl_text op_text; /* of a request: its `op`, as it came, for the reply */
    struct bl_cell_fault fault;
};

/* One frame of a client, once its bytes are there. 0, also with `refused`; BL_EPARSE: a breach of
 * the protocol (or, of a hello, what is wrong with it), which `message` (at least 160 bytes) says.
 * `first`: it must be a hello; else it must not be. */
int cell_frame_read(struct bl_arena *arena, struct bl_text bytes, bool first,
                    struct cell_frame *ret_frame, char *message, size_t message_size);

/* The same messages, written: for clients of ours. Appends one JSON object. */
void cell_hello_write(struct bl_json_writer *writer, const char *client, unsigned wants);
void cell_request_write(struct bl_json_writer *writer, const struct cell_request *request);
void cell_cancel_write(struct bl_json_writer *writer, uint64_t id);
void cell_tool_result_write(struct bl_json_writer *writer, const char *session_id,
                            const char *cell_id, const char *call_id,
                            const struct bl_cell_call_result *result);
void cell_notify_ack_write(struct bl_json_writer *writer, const char *session_id,
                           const char *cell_id, uint64_t seq);

/* ---- From the host --------------------------------------------------------------------------- */

/* `ok` is one JSON object, as it is. */
void cell_reply_ok_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                         struct bl_text ok);
void cell_reply_err_write(struct bl_json_writer *writer, uint64_t id, struct bl_text op,
                          const struct bl_cell_fault *fault);
void cell_fault_write(struct bl_json_writer *writer, const struct bl_cell_fault *fault);
void cell_ready_write(struct bl_json_writer *writer, unsigned capabilities, const char *instance,
                      uint32_t live_cells);

enum cell_rejection {
    CELL_REJECTED_VERSION,
    CELL_REJECTED_CAPABILITY, /* `text` is its name */
    CELL_REJECTED_HELLO,      /* `text` says what is wrong */
};

void cell_rejected_write(struct bl_json_writer *writer, enum cell_rejection rejection,
                         struct bl_text text);
void cell_tool_call_write(struct bl_json_writer *writer, const struct bl_cell_call *call,
                          bool redelivered);
void cell_tool_cancel_write(struct bl_json_writer *writer, const char *session_id,
                            const char *cell_id, const char *call_id);
void cell_notify_write(struct bl_json_writer *writer, const char *session_id, const char *cell_id,
                       uint64_t seq, struct bl_text text);
void cell_ended_write(struct bl_json_writer *writer, const char *session_id, const char *cell_id);
/* reason: superseded, protocol, too_slow, shutting_down. */
void cell_bye_write(struct bl_json_writer *writer, const char *reason, const char *message);

/* A frame of a host, read: for clients of ours. */
struct cell_host_frame {
    enum cell_host_frame_type {
        CELL_HOST_READY,
        CELL_HOST_REJECTED,
        CELL_HOST_REPLY,
        CELL_HOST_TOOL_CALL,
        CELL_HOST_TOOL_CANCEL,
        CELL_HOST_NOTIFY,
        CELL_HOST_ENDED,
        CELL_HOST_BYE,
    } type;
    uint64_t id;                                /* reply */
    enum cell_operation op;                     /* reply; of an err maybe none that we know: */
    struct bl_text op_text;                     /* as it came */
    bool ok;                                    /* reply */
    struct bl_text ok_json;                     /* the bytes of `ok`, as they came */
    struct bl_cell_fault fault;                 /* reply, not ok */
    const char *session_id, *cell_id, *call_id; /* tool_call, tool_cancel, notify, ended */
    struct bl_text tool;                        /* tool_call */
    const struct bl_json *input;
    struct bl_text input_json; /* the bytes of it, as they came */
    bool redelivered;
    uint64_t seq;          /* notify */
    struct bl_text text;   /* notify; bye, rejected: the message */
    struct bl_text reason; /* bye; rejected: the type of the reason */
    unsigned capabilities; /* ready: those that we know; as the next two */
    struct bl_text instance;
    uint64_t live_cells;
};

/* Every field of its type must be there, `ok` must be what that operation can answer; unknown
 * fields are ignored, those of another variant are not. BL_EPARSE with `error`. */
int cell_host_frame_read(struct bl_arena *arena, struct bl_text bytes,
                         struct cell_host_frame *ret_frame, struct bl_error *error);
/* Is it an `ok` of that operation? */
int cell_ok_check(enum cell_operation operation, const struct bl_json *ok, struct bl_error *error);

/* ---- Outcomes: the `ok` objects -------------------------------------------------------------- */

/* `items` holds encoded items with commas between them, without brackets; `receipt` is JSON. */
void cell_yielded_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                        struct bl_text items, bool stalled);
void cell_completed_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                          struct bl_text items, const struct bl_cell_error *error,
                          uint64_t stopped_calls);
void cell_terminated_write(struct bl_json_writer *writer, const char *cell_id, uint64_t generation,
                           struct bl_text items, struct bl_text receipt);
void cell_missing_write(struct bl_json_writer *writer, const char *cell_id);
/* {"type":TYPE,"cell_id":…} of created, released; {"type":"opened","session_id":…}. */
void cell_created_write(struct bl_json_writer *writer, const char *cell_id);
void cell_released_write(struct bl_json_writer *writer, const char *cell_id);
void cell_opened_write(struct bl_json_writer *writer, const char *session_id);
/* `receipt` empty: null. */
void cell_closed_write(struct bl_json_writer *writer, const char *session_id,
                       struct bl_text receipt);

struct cell_listed {
    const char *cell_id;
    const char *state;
    uint64_t generation, age_ms, deadline_left_ms, undelivered_bytes, calls, timers;
};

void cell_listed_write(struct bl_json_writer *writer, const char *session_id,
                       const struct cell_listed *cells, size_t count, bool more);
/* One item, from a worker's JSON: checked (text: a string; image: a data URL of png, jpeg, gif or
 * webp in base64, and a known detail), and written in the one form that all items have. BL_EPARSE:
 * it is none. */
int cell_item_write(struct bl_json_writer *writer, const struct bl_json *item);
/* CELL_ERROR, from a worker's JSON; texts in the arena, cut as the contract says (message and stack
 * at most 4 KiB each, at a character). BL_EPARSE: it is none. */
int cell_error_read(struct bl_arena *arena, const struct bl_json *value,
                    struct bl_cell_error *ret_error);
void cell_error_write(struct bl_json_writer *writer, const struct bl_cell_error *error);

/* The digest of a create: source, tools by name, memory and output limit; not the deadline. */
void cell_digest(const struct bl_cell_create *create, uint8_t out[32]);

#endif
