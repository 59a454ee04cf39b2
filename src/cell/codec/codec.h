/* The messages of the protocol: one struct for all frames and one for all outcomes, and the tables
 * that describe them. The tables read, write and check each message, and docs/schemas/cell is
 * generated from them. Texts that were read are in the arena given; those to be written are the
 * caller's. */
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

extern const struct bl_names cell_operations, cell_rejections;
const char *cell_operation_name(enum cell_operation operation);
bool cell_operation_parse(struct bl_text name, enum cell_operation *ret_operation);
/* [a-z0-9-]{1,64} */
bool cell_id_valid(struct bl_text id);

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Capabilities that we know, as bits. */
enum {
    CELL_CAPABILITY_TOOLS = 1,
    CELL_CAPABILITY_NOTIFY = 2,
    CELL_CAPABILITIES = 2, /* how many there are */
};

struct cell_hello {
    struct bl_text client;
    const uint64_t *versions;
    size_t version_count;
    const struct bl_text *requires, *wants;
    size_t require_count, want_count;
};

/* Ids are NUL-terminated texts in the arena. */
struct cell_request {
    uint64_t id;
    enum cell_operation op;
    struct bl_text args_json; /* to be written in place of what follows; empty: none */
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
    const uint64_t *versions; /* version: those of the host */
    size_t version_count;
    struct bl_text text; /* capability: its name; hello: what is wrong */
};

/* Either ok or err. */
struct cell_reply {
    uint64_t id;
    struct bl_text op; /* as in the request; of an err maybe none that we know */
    const struct bl_json *ok;
    struct bl_text ok_json; /* the bytes of it, as they came or are to be written */
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
        struct {
            struct bl_cell_call_result result;
            const struct bl_json *ok;
        } tool_result;
        struct cell_ready ready;
        struct cell_rejected rejected;
        struct cell_reply reply;
        struct {
            struct bl_text tool;
            const struct bl_json *input;
            struct bl_text input_json; /* the bytes of it, as they came or are to be written */
            bool redelivered;
        } call;
        struct {
            const char *reason; /* superseded, protocol, too_slow, shutting_down */
        } bye;
    };
    struct bl_text op_text; /* of a request: its `op`, as it came, for the reply */
    /* Of a request that can be answered with `err` (bad_request, unsupported): its id is known.
     * NULL: it fits. */
    const struct bl_cell_fault *refusal;
};

/* One frame of a client, once its bytes are there. 0, also with a `refusal`; BL_EPARSE: a breach of
 * the protocol (or, of a hello, what is wrong with it), which `message` (at least 160 bytes) says.
 * `first`: it must be a hello; else it must not be. */
int cell_frame_read(struct bl_arena *arena, struct bl_text bytes, bool first,
                    struct cell_frame *ret_frame, char *message, size_t message_size);
/* One frame of a host, the same way: `ok` is what that operation can answer. BL_EPARSE with
 * `error`.
 */
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
/* `text` is of that rejection; none of CELL_REJECTED_VERSION. */
void cell_rejected_write(struct bl_json_writer *writer, enum cell_rejection rejection,
                         struct bl_text text);

bool cell_hello_has_version(const struct cell_hello *hello);
/* Those that we know, required or wanted, as bits. */
unsigned cell_hello_capabilities(const struct cell_hello *hello);
/* The first that is required and that we do not know; empty: none. */
struct bl_text cell_hello_lacking(const struct cell_hello *hello);

/* ---- Outcomes: the `ok` objects -------------------------------------------------------------- */

struct cell_listed {
    const char *cell_id;
    const char *state;
    uint64_t generation, age_ms, deadline_left_ms, undelivered_bytes, calls, timers;
};

struct cell_ok {
    enum cell_ok_type {
        CELL_OK_OPENED,
        CELL_OK_CREATED,
        CELL_OK_YIELDED,
        CELL_OK_COMPLETED,
        CELL_OK_TERMINATED,
        CELL_OK_MISSING,
        CELL_OK_RELEASED,
        CELL_OK_LISTED,
        CELL_OK_CLOSED,
    } type;
    const char *session_id;    /* opened, listed, closed */
    const char *cell_id;       /* all others */
    uint64_t generation;       /* yielded, completed, terminated; as the next two */
    struct bl_list items;      /* struct bl_cell_item */
    struct bl_text items_json; /* to be written in place of them: with commas, without brackets */
    bool stalled;              /* yielded */
    const struct bl_cell_error *error; /* completed; NULL: none */
    uint64_t stopped_calls;
    const struct bl_json *receipt; /* terminated; closed, where NULL is null */
    struct bl_text receipt_json;   /* to be written in place of it */
    const struct cell_listed *cells;
    size_t cell_count;
    bool more;
};

void cell_ok_write(struct bl_json_writer *writer, const struct cell_ok *ok);
/* The outcomes that each operation can have, and no other. */
extern const struct bl_record *const cell_ok_records[];
/* Is it an `ok` of that operation? */
int cell_ok_check(enum cell_operation operation, const struct bl_json *ok, struct bl_error *error);
/* One item, from a worker's JSON: checked (text: a string; image: a data URL of png, jpeg, gif or
 * webp in base64, and a known detail), and written in the one form that all items have. BL_EPARSE:
 * it is none. */
int cell_item_write(struct bl_json_writer *writer, const struct bl_json *item);
/* CELL_ERROR, from a worker's JSON; texts in the arena, cut as the contract says (message and stack
 * at most 4 KiB each, at a character). BL_EPARSE: it is none. */
int cell_error_read(struct bl_arena *arena, const struct bl_json *value,
                    struct bl_cell_error *ret_error);

/* The digest of a create: source, tools by name, memory and output limit; not the deadline. */
void cell_digest(const struct bl_cell_create *create, uint8_t out[32]);

/* ---- Tables ---------------------------------------------------------------------------------- */

extern const struct bl_record cell_frame_record, cell_cancel_record, cell_fault_record;
/* What has a schema in docs/schemas/cell besides cell_ok_records, up to NULL. */
extern const struct bl_record *const cell_schemas[];

/* Parts of several tables. */
extern const struct bl_form cell_id_form, cell_label_form;
extern const struct bl_names cell_stop_reasons; /* all but "none" */

#define CELL_MEMBER_SESSION_ID(field)                                                              \
    BL_MEMBER_STRING("session_id", field, .form = &cell_id_form, .about = "Id of the session.")
#define CELL_MEMBER_CELL_ID(field)                                                                 \
    BL_MEMBER_STRING("cell_id", field, .form = &cell_id_form,                                      \
                     .about = "Id of the cell, unique in its session.")
#define CELL_MEMBER_GENERATION(field)                                                              \
    BL_MEMBER_INTEGER("generation", field, .least = 1, .most = CELL_REQUEST_MAX,                   \
                      .about = "Generations of a cell count from 1.")
/* Any whole number that JavaScript has, too. */
#define CELL_MEMBER_COUNT(key, field, ...)                                                         \
    BL_MEMBER_INTEGER(key, field, .most = CELL_REQUEST_MAX, __VA_ARGS__)

/* One frame's bytes as JSON. BL_EPARSE: broken, too deep, a key twice, or no object. */
int cell_json_read(struct bl_arena *arena, struct bl_text bytes, const struct bl_json **ret_root,
                   char *message, size_t message_size);

#endif
