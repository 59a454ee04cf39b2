/* wire: JSON-RPC 2.0 between two programs, one message a line.
 *
 * One implementation for all that speak it: ACP, MCP on both sides, the control socket. Either side
 * may ask; each request is a fiber in a scope of its own.
 *
 * Promises: a request is answered exactly once, or dropped by whoever serves it, or its peer has
 * gone; whatever a peer sends is answered with an error or ignored, and never ends the connection;
 * writing never blocks the loop, and what a peer does not read is bounded.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_RPC_H
#define BELAY_RPC_H

#include <belay/fiber.h>
#include <belay/json.h>

BL_PUBLIC_BEGIN

#define BL_RPC_LINE_MAX  ((size_t)16 * 1024 * 1024)
#define BL_RPC_DEPTH_MAX 128u
/* What waits to be read by the peer, before those who write wait for it. */
#define BL_RPC_QUEUE_MAX ((size_t)4 * 1024 * 1024)
/* A peer that takes nothing of what waits for it for so long is gone. */
#define BL_RPC_TAKE_NS_MAX (30 * BL_NS_PER_S)
#define BL_RPC_CALLS_MAX   256u

/* Of JSON-RPC; of LSP and ACP; and our own. */
enum {
    BL_RPC_PARSE = -32700,
    BL_RPC_INVALID_REQUEST = -32600,
    BL_RPC_NO_METHOD = -32601,
    BL_RPC_INVALID_PARAMS = -32602,
    BL_RPC_INTERNAL = -32603,
    BL_RPC_CANCELLED = -32800,
    BL_RPC_AUTH_REQUIRED = -32000, /* of ACP */
    BL_RPC_NO_RESOURCE = -32002,   /* of ACP */
    BL_RPC_NOT_FOUND = -32004,     /* of the control socket, as the next */
    BL_RPC_BUSY = -32000,          /* too many clients */
};

/* ---- Messages -------------------------------------------------------------------------------- */

/* One message that came. In the arena that it was read into. */
struct bl_rpc_message {
    enum {
        BL_RPC_REQUEST,      /* id, method, params */
        BL_RPC_NOTIFICATION, /* method, params */
        BL_RPC_RESULT,       /* id, result */
        BL_RPC_ERROR,        /* id (may be null), code, message, data */
    } type;
    const struct bl_json *id; /* a text, a number or null */
    struct bl_text method;
    const struct bl_json *params; /* an object or an array; NULL: none */
    const struct bl_json *result; /* never NULL in a result */
    int64_t code;
    struct bl_text message;
    const struct bl_json *data; /* NULL: none */
};

/* What is wrong with one: to be answered with this. */
struct bl_rpc_fault {
    int code;                 /* parse, or invalid request */
    const struct bl_json *id; /* that can be answered; NULL: null */
    char message[240];
};

/* BL_EPARSE: it is no message, and `ret_fault` says why. `line` has no line end. */
int bl_rpc_message_read(struct bl_arena *arena, struct bl_text line,
                        struct bl_rpc_message *ret_message, struct bl_rpc_fault *ret_fault);
/* Two ids are the same: of the same type, and equal. */
bool bl_rpc_id_equal(const struct bl_json *a, const struct bl_json *b);

/* Whole messages, appended on one line without its LF; `id` NULL: null; params, result and data are
 * one JSON value each, written on one line (an LF in it becomes a space), params and data may be
 * empty: left out. */
void bl_rpc_write_request(struct bl_buffer *out, const struct bl_json *id, const char *method,
                          struct bl_text params);
void bl_rpc_write_notification(struct bl_buffer *out, const char *method, struct bl_text params);
void bl_rpc_write_result(struct bl_buffer *out, const struct bl_json *id, struct bl_text result);
void bl_rpc_write_error(struct bl_buffer *out, const struct bl_json *id, int code,
                        const char *message, struct bl_text data);

/* ---- A connection ---------------------------------------------------------------------------- */

struct bl_rpc;
struct bl_rpc_call; /* a request of the peer's */

struct bl_rpc_options {
    int in;             /* a pipe, socket, terminal, or (to read from) a regular file; */
    int out;            /* may be the same; both stay the caller's, open until the close */
    size_t line_max;    /* 0: BL_RPC_LINE_MAX */
    uint32_t calls_max; /* of the peer's at once; more wait unread; 0: BL_RPC_CALLS_MAX */
    uint64_t take_ns;   /* 0: BL_RPC_TAKE_NS_MAX */
    /* A peer that has sent its last byte may still wait for answers: it has gone when it hangs up,
     * or when no call runs and all is written. Else the end of input is the end of it. */
    bool half_open;
    /* What tells the peer that an answer is not wanted any more, with {"requestId": ID}: NULL:
     * there is nothing of that kind. */
    const char *cancel_method;
    /* The three below run in the fiber that reads, in the order of the lines: they must not wait.
     *
     * A request: to be started (bl_rpc_call_start), or answered at once. One that is neither is
     * answered with "no such method". NULL: all are. */
    void (*request)(void *context, struct bl_rpc_call *call);
    /* NULL: ignored. */
    void (*notification)(void *context, struct bl_text method, const struct bl_json *params);
    /* A line that is no message; it is answered already where it can be. NULL: nobody is told. */
    void (*fault)(void *context, const struct bl_rpc_fault *fault, struct bl_text line);
    /* Once: the peer has closed its side ("end of input"), cannot be written to ("broken output"),
     * or takes nothing ("takes nothing"). Scopes of its calls are stopped (client_gone, `origin`)
     * after this. In any fiber; must not wait. NULL: nobody is told. */
    void (*gone)(void *context, const char *why);
    void *context;
    const char *origin; /* of stops: "acp"; NULL: "rpc" */
};

/* Reads and writes in fibers of `nursery`, which must be live and outlive it. BL_ENOTSUP: a kind of
 * file that cannot be used. */
int bl_rpc_open(struct bl_nursery *nursery, const struct bl_rpc_options *options,
                struct bl_rpc **ret_rpc, struct bl_error *error);
/* No more is read; calls that run are stopped (shutdown) and waited for, their answers and what is
 * queued have `linger_ns` to get out. Whatever stops the caller. NULL is fine. */
void bl_rpc_close(struct bl_rpc *rpc, uint64_t linger_ns);
bool bl_rpc_gone(const struct bl_rpc *rpc);
/* Waits until the peer has gone; 0 then. */
int bl_rpc_wait_gone(struct bl_rpc *rpc);

/* ---- What the peer asks ---------------------------------------------------------------------- */

/* All of a call lives until its fiber has ended, or it is answered where it has none. */
struct bl_text bl_rpc_call_method(const struct bl_rpc_call *call);
const struct bl_json *bl_rpc_call_params(const struct bl_rpc_call *call); /* NULL: none */
const struct bl_json *bl_rpc_call_id(const struct bl_rpc_call *call);
struct bl_arena *bl_rpc_call_arena(struct bl_rpc_call *call);
struct bl_scope *bl_rpc_call_scope(struct bl_rpc_call *call); /* its fiber runs in it */
struct bl_rpc *bl_rpc_call_rpc(struct bl_rpc_call *call);

/* Has `main` serve it in a fiber of its own. One that comes back without an answer is answered with
 * an internal error. Without a stack to be had: the same, at once. */
void bl_rpc_call_start(struct bl_rpc_call *call,
                       void (*main)(void *context, struct bl_rpc_call *call), void *context);
/* Each once for a call; must not wait for the peer. `result` is one JSON value; `data` may be
 * empty. */
void bl_rpc_answer(struct bl_rpc_call *call, struct bl_text result);
void bl_rpc_fail(struct bl_rpc_call *call, int code, const char *message, struct bl_text data);
/* It gets no answer at all. */
void bl_rpc_drop(struct bl_rpc_call *call);
bool bl_rpc_answered(const struct bl_rpc_call *call);
/* The one with that id that is not answered yet; NULL: none. To stop it is bl_scope_stop of its
 * scope. */
struct bl_rpc_call *bl_rpc_call_find(const struct bl_rpc *rpc, const struct bl_json *id);

/* ---- What the peer is told and asked --------------------------------------------------------- */

/* Puts a notification into the queue; waits while that is full, unless the caller's scope is
 * stopped: then it goes in all the same, and a peer that lets twice the maximum pile up is gone.
 * BL_EPIPE: the peer has gone. */
int bl_rpc_notify(struct bl_rpc *rpc, const char *method, struct bl_text params);

/* A notification that holds a piece of a text: as long as the one before it waits as the last of
 * the queue and has the same key, this piece becomes part of it. `head` and `tail` are the params
 * around the JSON string that holds the text, its quotes included in neither; all of one key have
 * the same. */
struct bl_rpc_piece {
    const char *method;
    struct bl_text key; /* not empty */
    struct bl_text head;
    struct bl_text text;
    struct bl_text tail;
};
int bl_rpc_notify_piece(struct bl_rpc *rpc, const struct bl_rpc_piece *piece);

/* Asks, and waits for the answer, in the running fiber. 0 with the result, in the arena.
 * BL_EREFUSED (kind delivery): the peer answered with an error: its code and message are in
 * `*ret_failure` (may be NULL) and in `error`. BL_EPIPE: it has gone. BL_ECANCELED, BL_ETIMEDOUT:
 * the caller's scope was stopped; the peer is told (cancel_method), and what it answers later is
 * dropped. */
struct bl_rpc_failure {
    int64_t code;
    struct bl_text message;
    const struct bl_json *data;
};
int bl_rpc_ask(struct bl_rpc *rpc, const char *method, struct bl_text params,
               struct bl_arena *arena, const struct bl_json **ret_result,
               struct bl_rpc_failure *ret_failure, struct bl_error *error);
/* Bytes that wait to be written. */
size_t bl_rpc_queued(const struct bl_rpc *rpc);

BL_PUBLIC_END

#endif
