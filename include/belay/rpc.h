/* wire: JSON-RPC 2.0 between two programs, one message per line.
 *
 * The only implementation for all protocols based on it: ACP, both sides of MCP, and the control
 * socket. Either side may send requests; each request is served by a fiber in its own scope.
 *
 * Promises: a request is answered exactly once, unless its handler drops it or the peer
 * disconnects. Any input is answered with an error or ignored, and never ends the connection.
 * Writing never blocks the loop, and the unread output of a peer is limited.
 *
 * All objects belong to fibers of one loop. */
#ifndef BELAY_RPC_H
#define BELAY_RPC_H

#include <belay/fiber.h>
#include <belay/json.h>

BL_PUBLIC_BEGIN

#define BL_RPC_LINE_MAX  ((size_t)16 * 1024 * 1024)
#define BL_RPC_DEPTH_MAX 128u
/* Bytes queued for a peer before writers must wait. */
#define BL_RPC_QUEUE_MAX ((size_t)4 * 1024 * 1024)
/* A peer that reads nothing of its queue for this time is disconnected. */
#define BL_RPC_TAKE_NS_MAX (30 * BL_NS_PER_S)
#define BL_RPC_CALLS_MAX   256u

/* Error codes of JSON-RPC, of LSP and ACP, and our own. */
enum {
    BL_RPC_PARSE = -32700,
    BL_RPC_INVALID_REQUEST = -32600,
    BL_RPC_NO_METHOD = -32601,
    BL_RPC_INVALID_PARAMS = -32602,
    BL_RPC_INTERNAL = -32603,
    BL_RPC_CANCELLED = -32800,
    BL_RPC_AUTH_REQUIRED = -32000, /* ACP */
    BL_RPC_NO_RESOURCE = -32002,   /* ACP */
    BL_RPC_NOT_FOUND = -32004,     /* control socket; so is the next */
    BL_RPC_BUSY = -32000,          /* too many clients */
};

/* ---- Messages -------------------------------------------------------------------------------- */

/* A received message, in the arena that it was read into. */
struct bl_rpc_message {
    enum {
        BL_RPC_REQUEST,      /* id, method, params */
        BL_RPC_NOTIFICATION, /* method, params */
        BL_RPC_RESULT,       /* id, result */
        BL_RPC_ERROR,        /* id (may be null), code, message, data */
    } type;
    const struct bl_json *id; /* a string, a number or null */
    struct bl_text method;
    const struct bl_json *params; /* an object or an array; may be NULL */
    const struct bl_json *result; /* never NULL in a result */
    int64_t code;
    struct bl_text message;
    const struct bl_json *data; /* may be NULL */
};

/* Why a line is not a valid message, and the error to answer with. */
struct bl_rpc_fault {
    int code;                 /* parse error or invalid request */
    const struct bl_json *id; /* id for the answer; NULL: null */
    char message[240];
};

/* Returns BL_EPARSE with `ret_fault` if the line is not a valid message. `line` has no line ending.
 */
int bl_rpc_message_read(struct bl_arena *arena, struct bl_text line,
                        struct bl_rpc_message *ret_message, struct bl_rpc_fault *ret_fault);
/* True if both ids have the same type and are equal. */
bool bl_rpc_id_equal(const struct bl_json *a, const struct bl_json *b);

/* Append a complete message on one line, without LF. `id` NULL writes null. Params, result and data
 * are one JSON value each, written on one line (an LF in it becomes a space). Empty params and data
 * are left out. */
void bl_rpc_write_request(struct bl_buffer *out, const struct bl_json *id, const char *method,
                          struct bl_text params);
void bl_rpc_write_notification(struct bl_buffer *out, const char *method, struct bl_text params);
void bl_rpc_write_result(struct bl_buffer *out, const struct bl_json *id, struct bl_text result);
void bl_rpc_write_error(struct bl_buffer *out, const struct bl_json *id, int code,
                        const char *message, struct bl_text data);

/* ---- A connection ---------------------------------------------------------------------------- */

struct bl_rpc;
struct bl_rpc_call; /* a request from the peer */

struct bl_rpc_options {
    int in;             /* a pipe, socket, terminal, or (for reading) a regular file */
    int out;            /* may be the same; both belong to the caller and stay open until close */
    size_t line_max;    /* 0: BL_RPC_LINE_MAX */
    uint32_t calls_max; /* of the peer at a time; further ones are not read; 0: BL_RPC_CALLS_MAX */
    uint64_t take_ns;   /* 0: BL_RPC_TAKE_NS_MAX */
    /* A peer that has ended its output may still wait for answers: it is disconnected when it hangs
     * up, or when no call is running and everything is written. If false, the end of input
     * disconnects it. */
    bool half_open;
    /* Notification that cancels a request to the peer, with {"requestId": ID}; NULL: none. */
    const char *cancel_method;
    /* The three callbacks below run in the reading fiber, in the order of the lines, and must not
     * wait.
     *
     * Handles a request: starts it (bl_rpc_call_start) or answers it at once. Otherwise it is
     * answered with "no such method", as are all requests if this is NULL. */
    void (*request)(void *context, struct bl_rpc_call *call);
    /* NULL: notifications are ignored. */
    void (*notification)(void *context, struct bl_text method, const struct bl_json *params);
    /* A line is not a valid message; it has been answered if that is possible. May be NULL. */
    void (*fault)(void *context, const struct bl_rpc_fault *fault, struct bl_text line);
    /* Called once: the peer has closed its side ("end of input"), cannot be written to ("broken
     * output"), or reads nothing ("takes nothing"). Afterwards the scopes of its calls are stopped
     * (client_gone, `origin`). Runs in any fiber, and must not wait. May be NULL. */
    void (*gone)(void *context, const char *why);
    void *context;
    const char *origin; /* origin of stops, such as "acp"; NULL: "rpc" */
};

/* Reads and writes in fibers of `nursery`, which must be live and outlive the connection.
 * BL_ENOTSUP: the type of file is not supported. */
int bl_rpc_open(struct bl_nursery *nursery, const struct bl_rpc_options *options,
                struct bl_rpc **ret_rpc, struct bl_error *error);
/* Ends reading, stops running calls (shutdown) and waits for them. Their answers and queued
 * messages are written for up to `linger_ns`. Not interrupted by stops. NULL is allowed. */
void bl_rpc_close(struct bl_rpc *rpc, uint64_t linger_ns);
bool bl_rpc_gone(const struct bl_rpc *rpc);
/* Waits until the peer is disconnected; then returns 0. */
int bl_rpc_wait_gone(struct bl_rpc *rpc);

/* ---- Requests from the peer ------------------------------------------------------------------ */

/* A call and its data are valid until its fiber has ended, or until it is answered if it has none.
 */
struct bl_text bl_rpc_call_method(const struct bl_rpc_call *call);
const struct bl_json *bl_rpc_call_params(const struct bl_rpc_call *call); /* may be NULL */
const struct bl_json *bl_rpc_call_id(const struct bl_rpc_call *call);
struct bl_arena *bl_rpc_call_arena(struct bl_rpc_call *call);
struct bl_scope *bl_rpc_call_scope(struct bl_rpc_call *call); /* the scope of its fiber */
struct bl_rpc *bl_rpc_call_rpc(struct bl_rpc_call *call);

/* Serves a call in its own fiber, which runs `main`. If `main` returns without an answer, or no
 * stack is available, the call is answered with an internal error. */
void bl_rpc_call_start(struct bl_rpc_call *call,
                       void (*main)(void *context, struct bl_rpc_call *call), void *context);
/* Answer a call, once. Must not wait for the peer. `result` is one JSON value; `data` may be empty.
 */
void bl_rpc_answer(struct bl_rpc_call *call, struct bl_text result);
void bl_rpc_fail(struct bl_rpc_call *call, int code, const char *message, struct bl_text data);
/* Ends a call without an answer. */
void bl_rpc_drop(struct bl_rpc_call *call);
bool bl_rpc_answered(const struct bl_rpc_call *call);
/* Returns the unanswered call with that id, or NULL. To stop it, call bl_scope_stop on its scope.
 */
struct bl_rpc_call *bl_rpc_call_find(const struct bl_rpc *rpc, const struct bl_json *id);

/* ---- Notifications and requests to the peer -------------------------------------------------- */

/* Queues a notification. Waits while the queue is full, unless the caller's scope is stopped: then
 * it is queued anyway, and a peer whose queue reaches twice the maximum is disconnected. BL_EPIPE:
 * the peer is disconnected. */
int bl_rpc_notify(struct bl_rpc *rpc, const char *method, struct bl_text params);

/* A notification with a piece of a text. If the last queued notification has the same key and is
 * still unsent, the piece is appended to it. `head` and `tail` are the params around the JSON
 * string with the text, without its quotes; they are the same for all pieces with one key. */
struct bl_rpc_piece {
    const char *method;
    struct bl_text key; /* not empty */
    struct bl_text head;
    struct bl_text text;
    struct bl_text tail;
};
int bl_rpc_notify_piece(struct bl_rpc *rpc, const struct bl_rpc_piece *piece);

/* Sends a request and waits for the answer in the running fiber. Returns 0 with the result, in the
 * arena. BL_EREFUSED (kind delivery): the peer answered with an error, which is in `*ret_failure`
 * (may be NULL) and in `error`. BL_EPIPE: the peer is disconnected. BL_ECANCELED, BL_ETIMEDOUT: the
 * caller's scope was stopped; the request is cancelled (cancel_method), and a late answer is
 * dropped. */
struct bl_rpc_failure {
    int64_t code;
    struct bl_text message;
    const struct bl_json *data;
};
int bl_rpc_ask(struct bl_rpc *rpc, const char *method, struct bl_text params,
               struct bl_arena *arena, const struct bl_json **ret_result,
               struct bl_rpc_failure *ret_failure, struct bl_error *error);
/* Returns the number of bytes that wait to be written. */
size_t bl_rpc_queued(const struct bl_rpc *rpc);

BL_PUBLIC_END

#endif
