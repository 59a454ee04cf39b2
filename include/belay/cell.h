/* cell: pieces of JavaScript, each in a process of its own, that can be created, observed and
 * terminated.
 *
 * A host admits cells and keeps their records; it never runs cell code. A client can repeat every
 * request and gets the same answer, so a lost reply loses no result.
 *
 * Promises: a cell ends once, by one compare-and-swap on its scope, and every client gets the same
 * outcome, byte for byte; a cell's output is delivered once, in order; a stopped cell and its
 * nested calls are quiet when its receipt is given; no input from a worker or a client stops,
 * blocks or bloats the host.
 *
 * All of it belongs to fibers of one loop. */
#ifndef BELAY_CELL_H
#define BELAY_CELL_H

#include <belay/record.h>
#include <belay/store.h>
#include <belay/tool.h>

BL_PUBLIC_BEGIN

/* ---- Limits ---------------------------------------------------------------------------------- */

#define BL_CELL_ID_SIZE           72 /* [a-z0-9-]{1,64}, for cells, sessions and terminate ids */
#define BL_CELL_SOURCE_MAX        ((size_t)1024 * 1024)
#define BL_CELL_TOOLS_MAX         512u
#define BL_CELL_TOOLS_BYTES_MAX   ((size_t)4 * 1024 * 1024)
#define BL_CELL_DEADLINE_MS       (30 * 60 * 1000ull)
#define BL_CELL_DEADLINE_MS_MAX   (24 * 60 * 60 * 1000ull)
#define BL_CELL_MEMORY            ((uint64_t)64 * 1024 * 1024)
#define BL_CELL_MEMORY_MAX        ((uint64_t)1024 * 1024 * 1024)
#define BL_CELL_OUTPUT            ((uint64_t)4 * 1024 * 1024)
#define BL_CELL_OUTPUT_MAX        ((uint64_t)16 * 1024 * 1024)
#define BL_CELL_UNDELIVERED_MAX   ((uint64_t)256 * 1024 * 1024)
#define BL_CELL_YIELD_MS          10000ull
#define BL_CELL_YIELD_MS_MAX      300000ull
#define BL_CELL_LINGER_MS         30000ull
#define BL_CELL_LINGER_MS_MAX     3600000ull
#define BL_CELL_LIVE_MAX          128u
#define BL_CELL_WAITERS_MAX       8u
#define BL_CELL_CALLS_MAX         64u   /* at once */
#define BL_CELL_CALLS_TOTAL_MAX   4096u /* over its life */
#define BL_CELL_CALL_BYTES_MAX    ((size_t)8 * 1024 * 1024)
#define BL_CELL_TIMERS_MAX        1024u
#define BL_CELL_NOTIFIES_MAX      64u /* unacknowledged */
#define BL_CELL_NOTIFY_MAX        ((size_t)16 * 1024)
#define BL_CELL_VALUES_MAX        1024u
#define BL_CELL_KEY_MAX           ((size_t)256)
#define BL_CELL_VALUE_MAX         ((size_t)1024 * 1024)
#define BL_CELL_VALUES_BYTES_MAX  ((size_t)16 * 1024 * 1024)
#define BL_CELL_RECORDS_MAX       1024u
#define BL_CELL_RECORDS_BYTES_MAX ((uint64_t)64 * 1024 * 1024)
#define BL_CELL_RECORD_NS_MAX     (3600 * BL_NS_PER_S)
#define BL_CELL_TOMBSTONES_MAX    65536u
#define BL_CELL_TOMBSTONE_NS_MAX  (24 * 3600 * BL_NS_PER_S)
/* Grace period between the signal and SIGKILL, and between the end of a cell and the answers of its
 * nested calls. */
#define BL_CELL_GRACE_MS      20u
#define BL_CELL_CALL_GRACE_NS (500 * BL_NS_PER_MS)

/* ---- Refusals -------------------------------------------------------------------------------- */

/* The closed set of error codes: name, text, and whether the request may be retried. */
#define BL_CELL_CODE_TABLE(X)                                                                      \
    X(BL_CELL_BAD_REQUEST, "bad_request", false)                                                   \
    X(BL_CELL_UNSUPPORTED, "unsupported", false)                                                   \
    X(BL_CELL_SESSION_NOT_OPEN, "session_not_open", false)                                         \
    X(BL_CELL_CONFLICT, "conflict", false)                                                         \
    X(BL_CELL_GONE, "gone", false)                                                                 \
    X(BL_CELL_WRONG_GENERATION, "wrong_generation", false)                                         \
    X(BL_CELL_NOT_TERMINAL, "not_terminal", false)                                                 \
    X(BL_CELL_SESSION_BUSY, "session_busy", true)                                                  \
    X(BL_CELL_LIMIT_REACHED, "limit_reached", true)                                                \
    X(BL_CELL_CANCELLED, "cancelled", true)                                                        \
    X(BL_CELL_WORKER_UNAVAILABLE, "worker_unavailable", true)                                      \
    X(BL_CELL_STORE_FAILED, "store_failed", true)                                                  \
    X(BL_CELL_SHUTTING_DOWN, "shutting_down", true)                                                \
    X(BL_CELL_INTERNAL, "internal", true)

enum bl_cell_code {
#define BL_CELL_CODE(name, text, retryable) name,
    BL_CELL_CODE_TABLE(BL_CELL_CODE)
#undef BL_CELL_CODE
};

/* Why an operation was refused. Nothing has changed. The fields after `message` belong to the codes
 * that their comments name. */
struct bl_cell_fault {
    enum bl_cell_code code;
    char message[256];
    char path[160];           /* bad_request: a JSON pointer into args */
    char op[64];              /* unsupported */
    char id[BL_CELL_ID_SIZE]; /* the session: session_not_open, session_busy; the cell: conflict,
                                 gone, not_terminal */
    uint64_t expected;        /* wrong_generation */
    uint64_t retained[2];
    size_t retained_count;
    char limit[40]; /* limit_reached: the name of the limit; `value` is the limit */
    uint64_t value;
    char detail[200]; /* worker_unavailable, store_failed, internal */
};

const char *bl_cell_code_name(enum bl_cell_code code);
bool bl_cell_code_retryable(enum bl_cell_code code);

/* ---- Outcomes -------------------------------------------------------------------------------- */

struct bl_cell_item {
    struct bl_list link;
    bool image;
    struct bl_text text;   /* text only */
    struct bl_text url;    /* image only: "data:…" */
    struct bl_text detail; /* image only: auto, low, high, original */
};

#define BL_CELL_ERROR_TABLE(X)                                                                     \
    X(BL_CELL_ERROR_EXCEPTION, "exception")                                                        \
    X(BL_CELL_ERROR_SYNTAX, "syntax")                                                              \
    X(BL_CELL_ERROR_IMPORT, "import")                                                              \
    X(BL_CELL_ERROR_MEMORY_LIMIT, "memory_limit")                                                  \
    X(BL_CELL_ERROR_OUTPUT_LIMIT, "output_limit")                                                  \
    X(BL_CELL_ERROR_WORKER_LOST, "worker_lost")                                                    \
    X(BL_CELL_ERROR_STORE_FULL, "store_full")                                                      \
    X(BL_CELL_ERROR_STORE_FAILED, "store_failed")

enum bl_cell_error_kind {
#define BL_CELL_ERROR_KIND(name, text) name,
    BL_CELL_ERROR_TABLE(BL_CELL_ERROR_KIND)
#undef BL_CELL_ERROR_KIND
};

const char *bl_cell_error_kind_name(enum bl_cell_error_kind kind);

/* The records of one item and of one error, on the wire and in the output of `belay cell`. */
extern const struct bl_record bl_cell_item_record; /* struct bl_cell_item */
extern const struct bl_record bl_cell_error_record;

struct bl_cell_error {
    enum bl_cell_error_kind kind;
    struct bl_text name;
    struct bl_text message;
    struct bl_text stack;
};

struct bl_cell_yielded {
    struct bl_text cell_id;
    uint64_t generation;
    struct bl_list items; /* struct bl_cell_item */
    bool stalled;
};

struct bl_cell_completed {
    struct bl_text cell_id;
    uint64_t generation;
    struct bl_list items;
    const struct bl_cell_error *error; /* NULL if it succeeded */
    uint64_t stopped_calls;
};

struct bl_cell_terminated {
    struct bl_text cell_id;
    uint64_t generation;
    struct bl_list items;
    const struct bl_json *receipt; /* docs/schemas/receipt.json */
};

/* An outcome of `observe`. */
struct bl_cell_observe_outcome {
    enum {
        BL_CELL_OBSERVE_YIELDED,
        BL_CELL_OBSERVE_COMPLETED,
        BL_CELL_OBSERVE_TERMINATED,
        BL_CELL_OBSERVE_MISSING,
    } type;
    struct bl_text json; /* the exact bytes: the same for every repeated request */
    union {
        struct bl_cell_yielded yielded;
        struct bl_cell_completed completed;
        struct bl_cell_terminated terminated;
        struct {
            struct bl_text cell_id;
        } missing;
    };
};

/* An outcome of `terminate`, which never answers that the cell has yielded. */
struct bl_cell_terminate_outcome {
    enum {
        BL_CELL_TERMINATE_COMPLETED,
        BL_CELL_TERMINATE_TERMINATED,
        BL_CELL_TERMINATE_MISSING,
    } type;
    struct bl_text json;
    union {
        struct bl_cell_completed completed;
        struct bl_cell_terminated terminated;
        struct {
            struct bl_text cell_id;
        } missing;
    };
};

enum bl_cell_release_outcome {
    BL_CELL_RELEASE_RELEASED,
    BL_CELL_RELEASE_MISSING,
};

/* Decodes the text of a reply's `ok` into the arena. BL_EPARSE if it is not an outcome of this
 * operation; `error` (may be NULL) says what is wrong, and where. */
int bl_cell_observe_outcome_read(struct bl_arena *arena, struct bl_text json,
                                 struct bl_cell_observe_outcome *ret_outcome,
                                 struct bl_error *error);
int bl_cell_terminate_outcome_read(struct bl_arena *arena, struct bl_text json,
                                   struct bl_cell_terminate_outcome *ret_outcome,
                                   struct bl_error *error);

/* ---- The host -------------------------------------------------------------------------------- */

struct bl_cell_host;

struct bl_cell_host_options {
    struct bl_store *store;
    const char *worker;  /* path of belay-cell-worker; NULL: BELAY_CELL_WORKER, beside this program,
                            or the installed one */
    uint32_t spares;     /* number of workers kept ready; 0: 4 */
    bool eager;          /* start the spares now, not with the first cell */
    uint32_t live_max;   /* 0: BL_CELL_LIVE_MAX */
    uint64_t memory_max; /* sum of the cells' limits; 0: 75 % of the machine's memory */
    uint32_t records_max; /* 0: BL_CELL_RECORDS_MAX; the next two likewise */
    uint64_t records_bytes_max;
    uint64_t record_ns_max;
};

/* Its fibers run in `nursery`, which must outlive it. Call bl_cell_host_stop before the nursery
 * ends. */
int bl_cell_host_start(struct bl_nursery *nursery, const struct bl_cell_host_options *options,
                       struct bl_cell_host **ret_host, struct bl_error *error);
/* Closes every session, ends its cells with that reason, and ends the spares. Returns when none of
 * their processes runs. NULL is fine. */
void bl_cell_host_stop(struct bl_cell_host *host, enum bl_stop_reason reason, const char *origin);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A nested call by cell code: `tools.NAME(input)`. */
struct bl_cell_call {
    const char *session_id;
    const char *cell_id;
    const char *id; /* "call-1": unique in the cell */
    const char *tool;
    struct bl_text input_text; /* one JSON value: an object, or a string if the tool takes text */
    const struct bl_json *input;
    struct bl_scope *scope; /* the scope of the running fiber; stops with its cell */
    struct bl_arena *arena; /* for the result */
};

#define BL_CELL_REFUSAL_TABLE(X)                                                                   \
    X(BL_CELL_CALL_DENIED, "denied")                                                               \
    X(BL_CELL_CALL_FAILED, "failed")                                                               \
    X(BL_CELL_CALL_TIMEOUT, "timeout")                                                             \
    X(BL_CELL_CALL_CANCELLED, "cancelled")                                                         \
    X(BL_CELL_CALL_INDETERMINATE, "indeterminate")                                                 \
    X(BL_CELL_CALL_STEP_LIMIT, "step_limit")                                                       \
    X(BL_CELL_CALL_UNAVAILABLE, "unavailable")                                                     \
    X(BL_CELL_CALL_TOO_LARGE, "too_large")

enum bl_cell_call_refusal {
#define BL_CELL_REFUSAL(name, text) name,
    BL_CELL_REFUSAL_TABLE(BL_CELL_REFUSAL)
#undef BL_CELL_REFUSAL
};

const char *bl_cell_call_refusal_name(enum bl_cell_call_refusal refusal);

/* All in the call's arena. */
struct bl_cell_call_result {
    bool ok;
    struct bl_text json; /* ok: one JSON value */
    enum bl_cell_call_refusal refusal;
    struct bl_text message;
};

/* Something that happened to a cell. Valid during the callback. */
struct bl_cell_event {
    enum {
        BL_CELL_EVENT_CREATED,
        BL_CELL_EVENT_YIELDED, /* `outcome` is decided and stored */
        BL_CELL_EVENT_ENDED,   /* likewise */
    } type;
    const char *cell_id;
    uint64_t generation;
    struct bl_text outcome; /* JSON, as in the answer of observe */
    struct bl_text receipt; /* JSON, or empty if there is no receipt */
    bool completed;         /* the cell ended by itself */
    bool failed;            /* completed, with an error */
};

/* The owner of a session. Any member may be NULL if the owner does not serve it. */
struct bl_cell_port {
    void *context;
    /* Runs one nested call in a fiber of its own. When the call's scope stops, it must stop its
     * work within BL_CELL_CALL_GRACE_NS and answer `cancelled`. It registers its own unit for the
     * receipt. */
    void (*call)(void *context, const struct bl_cell_call *call,
                 struct bl_cell_call_result *ret_result);
    /* Receives text from `notify`, numbered from 1 in each cell, to be acknowledged with
     * bl_cell_notify_ack. Must not wait. If NULL, `notify` throws. */
    void (*notify)(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
    /* Must not wait. */
    void (*event)(void *context, const struct bl_cell_event *event);
};

struct bl_cell_session_options {
    const char *id;
    struct bl_store_session
        *held;             /* held by the caller for longer than this session; NULL: take it here */
    const char *directory; /* absolute; for a session that is created here */
    struct bl_cell_port port;
    struct bl_activities *activities; /* lists the session's cells; may be NULL */
};

struct bl_cell_session;

/* Opens the session with the records and values in the store. Cells that a dead host left
 * unfinished are closed now: `terminated`, reason owner_died. A host opens each id once at a
 * time. */
int bl_cell_session_open(struct bl_cell_host *host, const struct bl_cell_session_options *options,
                         struct bl_cell_session **ret_session, struct bl_cell_fault *fault);
/* Ends the session's cells with that reason, waits until all is quiet, and frees it, even if the
 * caller's scope is stopped. `forget` also deletes records and values. `ret_receipt` (may be NULL)
 * gets the receipt if anything was stopped. NULL is fine. */
void bl_cell_session_close(struct bl_cell_session *session, bool forget, enum bl_stop_reason reason,
                           const char *origin, struct bl_buffer *ret_receipt);

/* ---- Operations ------------------------------------------------------------------------------ */

/* All of these wait in the running fiber, under its scope. They return 0 with an answer, or an
 * error with `fault` filled (BL_ECANCELED, BL_ETIMEDOUT: `cancelled`). */

struct bl_cell_tool {
    struct bl_text name;
    struct bl_text description;
    bool takes_text;       /* input is a string, not an object */
    struct bl_text schema; /* JSON object; empty: null */
};

struct bl_cell_create {
    const char *cell_id;
    struct bl_text source;
    const struct bl_cell_tool *tools;
    size_t tool_count;
    uint64_t deadline_ms; /* 0: the default; the next two likewise */
    uint64_t memory_bytes;
    uint64_t output_bytes;
    struct bl_scope *scope; /* the cell ends with it; it must outlive the cell; NULL: the
                               session's */
};

/* Returns when the cell is admitted: durable and routable. Idempotent. */
int bl_cell_create(struct bl_cell_session *session, const struct bl_cell_create *create,
                   struct bl_cell_fault *fault);

struct bl_cell_observe {
    const char *cell_id;
    uint64_t generation;
    uint64_t yield_ms;
    uint64_t from_ns; /* start of the yield time; 0: now */
};

int bl_cell_observe(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                    struct bl_arena *arena, struct bl_cell_observe_outcome *ret_outcome,
                    struct bl_cell_fault *fault);

struct bl_cell_terminate {
    const char *cell_id;
    const char *terminate_id;
    enum bl_stop_reason reason;
    const char *origin; /* NULL: "terminate:" followed by the id */
};

int bl_cell_terminate(struct bl_cell_session *session, const struct bl_cell_terminate *terminate,
                      struct bl_arena *arena, struct bl_cell_terminate_outcome *ret_outcome,
                      struct bl_cell_fault *fault);

int bl_cell_release(struct bl_cell_session *session, const char *cell_id, uint64_t generation,
                    enum bl_cell_release_outcome *ret_outcome, struct bl_cell_fault *fault);

/* Appends the `ok` of `list`, as JSON, to `ret_ok`. Lists the cells after `after`, or all if
 * NULL. */
int bl_cell_list(struct bl_cell_session *session, const char *after, uint64_t max,
                 struct bl_buffer *ret_ok, struct bl_cell_fault *fault);

/* Waits until every cell created with this scope has ended, even if the caller's scope is
 * stopped. */
void bl_cell_join(struct bl_cell_session *session, const struct bl_scope *scope);
/* Writes the live cells whose scope is the session's, as elements of a receipt's `background`:
 * {"id","cell","processes","age_ms"}. `session` is a struct bl_cell_session. */
void bl_cell_write_background(void *session, struct bl_json_writer *writer);
/* Acknowledges the text of `notify` with that number. Unknown numbers are ignored. */
void bl_cell_notify_ack(struct bl_cell_session *session, const char *cell_id, uint64_t seq);

/* ---- The wire -------------------------------------------------------------------------------- */

#define BL_CELL_FRAME_MAX        ((size_t)32 * 1024 * 1024)
#define BL_CELL_FRAME_FIRST_MAX  ((size_t)64 * 1024)
#define BL_CELL_CONNECTIONS_MAX  64u
#define BL_CELL_SESSIONS_MAX     64u /* per connection */
#define BL_CELL_REQUESTS_MAX     256u
#define BL_CELL_CONTROL_MAX      64u
#define BL_CELL_QUEUE_FRAMES_MAX 256u
#define BL_CELL_QUEUE_BYTES_MAX  ((size_t)64 * 1024 * 1024)

struct bl_cell_server;

struct bl_cell_server_options {
    struct bl_cell_host *host;
    const char *socket;    /* path; NULL: $XDG_RUNTIME_DIR/belay/cell.sock; unused with `input` */
    int input, output;     /* standard streams; -1: use a socket */
    const char *directory; /* of sessions that are created */
    struct bl_activities *activities;
    void (*log)(void *context, struct bl_text line); /* may be NULL */
    void *context;
};

/* BL_EBUSY: a live host already listens there. BL_EEXIST: the path is not a socket; it is left
 * alone. */
int bl_cell_server_start(struct bl_nursery *nursery, const struct bl_cell_server_options *options,
                         struct bl_cell_server **ret_server, struct bl_error *error);
const char *bl_cell_server_path(const struct bl_cell_server *server); /* of its socket, or NULL */
/* On standard streams, waits for the end of the only connection; on a socket, until the running
 * fiber's scope stops. */
int bl_cell_server_wait(struct bl_cell_server *server);
/* Sends bye, disconnects all clients, removes the socket, and closes the sessions with that reason,
 * even if the caller's scope is stopped. NULL is fine. */
void bl_cell_server_stop(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin);

/* A client of the server. One request at a time. */
struct bl_cell_client;

struct bl_cell_client_options {
    const char *socket; /* NULL: the default path */
    const char *name;   /* for `hello`; a new client supersedes an older one with the same name */
};

/* BL_ENOENT: no host runs; the hint says how to start one. */
int bl_cell_client_open(const struct bl_cell_client_options *options,
                        struct bl_cell_client **ret_client, struct bl_error *error);
void bl_cell_client_close(struct bl_cell_client *client); /* NULL is fine */
/* Sends one request, with `args` as a JSON object. `*ret_ok` is the JSON of the answer, in the
 * arena. Returns 0; BL_EREFUSED with `fault` if the answer is an `err`; other codes with
 * `error`. */
int bl_cell_client_call(struct bl_cell_client *client, const char *op, struct bl_text args,
                        struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault,
                        struct bl_error *error);

BL_PUBLIC_END

#endif
