/* cell: pieces of JavaScript, each in a process of its own, that can be created, observed,
 * terminated and asked about again.
 *
 * A host admits cells and keeps their records; it never runs cell code. Everything that can be
 * asked can be asked again, and is answered the same: no reply that gets lost loses a result.
 *
 * Promises: a cell ends once, by one compare-and-swap on its scope, and everybody is told the same
 * of it, byte for byte; what a cell has written is delivered once, in order; a stopped cell and all
 * that it had called are quiet when its receipt is given; nothing that a worker or a client sends
 * stops, blocks or bloats the host.
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
#define BL_CELL_NOTIFIES_MAX      64u /* not acknowledged */
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
/* Between the signal and SIGKILL; and for what others are to answer at the end of a cell. */
#define BL_CELL_GRACE_MS      20u
#define BL_CELL_CALL_GRACE_NS (500 * BL_NS_PER_MS)

/* ---- Refusals -------------------------------------------------------------------------------- */

/* The closed set of error codes: name, text, and whether it may be asked again. */
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

/* Why an operation was refused: nothing has changed. Fields besides code and message belong to some
 * codes alone. */
struct bl_cell_fault {
    enum bl_cell_code code;
    char message[256];
    char path[160];           /* bad_request: a JSON pointer into args */
    char op[64];              /* unsupported */
    char id[BL_CELL_ID_SIZE]; /* session_not_open, session_busy: of the session; conflict, gone,
                                 not_terminal: of the cell */
    uint64_t expected;        /* wrong_generation */
    uint64_t retained[2];
    size_t retained_count;
    char limit[40]; /* limit_reached: its name, and how much it is */
    uint64_t value;
    char detail[200]; /* worker_unavailable, store_failed, internal */
};

const char *bl_cell_code_name(enum bl_cell_code code);
bool bl_cell_code_retryable(enum bl_cell_code code);

/* ---- Outcomes -------------------------------------------------------------------------------- */

struct bl_cell_item {
    struct bl_list link;
    bool image;
    struct bl_text text;   /* of a text */
    struct bl_text url;    /* of an image: "data:…" */
    struct bl_text detail; /* of an image: auto, low, high, original */
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

/* One item, and one error, as they are on the wire and in the output of `belay cell`. */
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
    const struct bl_cell_error *error; /* NULL: none */
    uint64_t stopped_calls;
};

struct bl_cell_terminated {
    struct bl_text cell_id;
    uint64_t generation;
    struct bl_list items;
    const struct bl_json *receipt; /* docs/schemas/receipt.json */
};

/* What `observe` can answer. */
struct bl_cell_observe_outcome {
    enum {
        BL_CELL_OBSERVE_YIELDED,
        BL_CELL_OBSERVE_COMPLETED,
        BL_CELL_OBSERVE_TERMINATED,
        BL_CELL_OBSERVE_MISSING,
    } type;
    struct bl_text json; /* the very bytes: the same each time it is asked for */
    union {
        struct bl_cell_yielded yielded;
        struct bl_cell_completed completed;
        struct bl_cell_terminated terminated;
        struct {
            struct bl_text cell_id;
        } missing;
    };
};

/* What `terminate` can answer: never that the cell has yielded. */
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

/* The `ok` of a reply, as text, decoded; all in the arena. BL_EPARSE: it is nothing that this
 * operation can answer; `error` (may be NULL) says what and where. */
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
                            or where it was installed */
    uint32_t spares;     /* workers that are kept ready; 0: 4 */
    bool eager;          /* they are started at once, not with the first cell */
    uint32_t live_max;   /* 0: BL_CELL_LIVE_MAX */
    uint64_t memory_max; /* sum of the cells' limits; 0: 75 % of the machine's */
    uint32_t records_max; /* 0: BL_CELL_RECORDS_MAX; as the next two */
    uint64_t records_bytes_max;
    uint64_t record_ns_max;
};

/* Its fibers run in `nursery`, which must outlive it; bl_cell_host_stop comes before its end. */
int bl_cell_host_start(struct bl_nursery *nursery, const struct bl_cell_host_options *options,
                       struct bl_cell_host **ret_host, struct bl_error *error);
/* Ends every session, their cells with that reason, and the spares; returns when nothing of them
 * runs. NULL is fine. */
void bl_cell_host_stop(struct bl_cell_host *host, enum bl_stop_reason reason, const char *origin);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A call by cell code, `tools.NAME(input)`. */
struct bl_cell_call {
    const char *session_id;
    const char *cell_id;
    const char *id; /* "call-1": unique in the cell */
    const char *tool;
    struct bl_text
        input_text; /* one JSON value: an object, or a string where the tool takes text */
    const struct bl_json *input;
    struct bl_scope *scope; /* the running fiber's; stops with its cell */
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

/* In the call's arena. */
struct bl_cell_call_result {
    bool ok;
    struct bl_text json; /* ok: one JSON value */
    enum bl_cell_call_refusal refusal;
    struct bl_text message;
};

/* What happens to a cell; lives as long as the call. */
struct bl_cell_event {
    enum {
        BL_CELL_EVENT_CREATED,
        BL_CELL_EVENT_YIELDED, /* `outcome` is decided and in the store */
        BL_CELL_EVENT_ENDED,   /* the same */
    } type;
    const char *cell_id;
    uint64_t generation;
    struct bl_text outcome; /* JSON, as observe answers it */
    struct bl_text receipt; /* JSON; empty: none */
    bool completed;         /* ended from inside; */
    bool failed;            /* and with an error */
};

/* Whoever owns a session. Any member may be NULL: nobody is there for it. */
struct bl_cell_port {
    void *context;
    /* Runs one nested call, in a fiber of its own. When its scope stops it ends what it does,
     * within BL_CELL_CALL_GRACE_NS, and answers `cancelled`. It registers its own unit for the
     * receipt. */
    void (*call)(void *context, const struct bl_cell_call *call,
                 struct bl_cell_call_result *ret_result);
    /* Text from `notify`; numbers count from 1 in each cell. To be acknowledged by
     * bl_cell_notify_ack. Must not wait. NULL: that function throws. */
    void (*notify)(void *context, const char *cell_id, uint64_t seq, struct bl_text text);
    /* Must not wait. */
    void (*event)(void *context, const struct bl_cell_event *event);
};

struct bl_cell_session_options {
    const char *id;
    struct bl_store_session
        *held;             /* that the caller holds, and keeps longer; NULL: it is taken here */
    const char *directory; /* of a session that is made here; absolute */
    struct bl_cell_port port;
    struct bl_activities *activities; /* cells are listed there; NULL: nowhere */
};

struct bl_cell_session;

/* Opens it, with the records and values that are in the store; what a dead host left without an end
 * is closed now: `terminated`, reason owner_died. One at a time for each id of a host. */
int bl_cell_session_open(struct bl_cell_host *host, const struct bl_cell_session_options *options,
                         struct bl_cell_session **ret_session, struct bl_cell_fault *fault);
/* Ends its cells with that reason, waits until all is quiet, and frees it; whatever stops the
 * caller. `forget` drops records and values, too. `ret_receipt` (may be NULL) gets the receipt, if
 * anything was stopped. NULL is fine. */
void bl_cell_session_close(struct bl_cell_session *session, bool forget, enum bl_stop_reason reason,
                           const char *origin, struct bl_buffer *ret_receipt);

/* ---- Operations ------------------------------------------------------------------------------ */

/* All wait in the running fiber and its scope: 0 with an answer, or not 0 with `fault` filled
 * (BL_ECANCELED, BL_ETIMEDOUT: `cancelled`). */

struct bl_cell_tool {
    struct bl_text name;
    struct bl_text description;
    bool takes_text;       /* input is a string; else an object */
    struct bl_text schema; /* JSON object; empty: null */
};

struct bl_cell_create {
    const char *cell_id;
    struct bl_text source;
    const struct bl_cell_tool *tools;
    size_t tool_count;
    uint64_t deadline_ms; /* 0: the default, as the next two */
    uint64_t memory_bytes;
    uint64_t output_bytes;
    struct bl_scope *scope; /* it ends with this one, which outlives it; NULL: with its session */
};

/* Admitted: durable and routable. The same asked again gets the same answer. */
int bl_cell_create(struct bl_cell_session *session, const struct bl_cell_create *create,
                   struct bl_cell_fault *fault);

struct bl_cell_observe {
    const char *cell_id;
    uint64_t generation;
    uint64_t yield_ms;
    uint64_t from_ns; /* since when the yield time counts; 0: now */
};

int bl_cell_observe(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                    struct bl_arena *arena, struct bl_cell_observe_outcome *ret_outcome,
                    struct bl_cell_fault *fault);

struct bl_cell_terminate {
    const char *cell_id;
    const char *terminate_id;
    enum bl_stop_reason reason;
    const char *origin; /* NULL: "terminate:" and the id */
};

int bl_cell_terminate(struct bl_cell_session *session, const struct bl_cell_terminate *terminate,
                      struct bl_arena *arena, struct bl_cell_terminate_outcome *ret_outcome,
                      struct bl_cell_fault *fault);

int bl_cell_release(struct bl_cell_session *session, const char *cell_id, uint64_t generation,
                    enum bl_cell_release_outcome *ret_outcome, struct bl_cell_fault *fault);

/* The `ok` of `list`, as JSON, is appended to `ret_ok`. `after` NULL: from the first. */
int bl_cell_list(struct bl_cell_session *session, const char *after, uint64_t max,
                 struct bl_buffer *ret_ok, struct bl_cell_fault *fault);

/* Waits until every cell that was created with this scope has ended; whatever stops the caller. */
void bl_cell_join(struct bl_cell_session *session, const struct bl_scope *scope);
/* How many run with their session: elements for a receipt's `background`,
 * {"id","cell","processes","age_ms"}. `session` is a struct bl_cell_session. */
void bl_cell_write_background(void *session, struct bl_json_writer *writer);
/* What `notify` of that number has said has arrived. Unknown ones are ignored. */
void bl_cell_notify_ack(struct bl_cell_session *session, const char *cell_id, uint64_t seq);

/* ---- The wire -------------------------------------------------------------------------------- */

#define BL_CELL_FRAME_MAX        ((size_t)32 * 1024 * 1024)
#define BL_CELL_FRAME_FIRST_MAX  ((size_t)64 * 1024)
#define BL_CELL_CONNECTIONS_MAX  64u
#define BL_CELL_SESSIONS_MAX     64u /* of a connection */
#define BL_CELL_REQUESTS_MAX     256u
#define BL_CELL_CONTROL_MAX      64u
#define BL_CELL_QUEUE_FRAMES_MAX 256u
#define BL_CELL_QUEUE_BYTES_MAX  ((size_t)64 * 1024 * 1024)

struct bl_cell_server;

struct bl_cell_server_options {
    struct bl_cell_host *host;
    const char *socket; /* path; NULL: $XDG_RUNTIME_DIR/belay/cell.sock; unless `input` is given */
    int input, output;  /* standard streams; -1: a socket */
    const char *directory; /* of sessions that are made */
    struct bl_activities *activities;
    void (*log)(void *context, struct bl_text line); /* NULL: nowhere */
    void *context;
};

/* BL_EBUSY: a live host is there already; BL_EEXIST: the path is no socket, and stays as it is. */
int bl_cell_server_start(struct bl_nursery *nursery, const struct bl_cell_server_options *options,
                         struct bl_cell_server **ret_server, struct bl_error *error);
const char *bl_cell_server_path(const struct bl_cell_server *server); /* of its socket; or NULL */
/* Waits for the end of the only connection, where it serves standard streams; else until the
 * running fiber's scope stops. */
int bl_cell_server_wait(struct bl_cell_server *server);
/* Says bye, lets go of all clients, removes the socket, closes the sessions with that reason.
 * Whatever stops the caller. NULL is fine. */
void bl_cell_server_stop(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin);

/* A client of it. One request at a time. */
struct bl_cell_client;

struct bl_cell_client_options {
    const char *socket; /* NULL: the usual place */
    const char *name;   /* of the client, for `hello`; one of a name supersedes the one before */
};

/* BL_ENOENT: no host is there, and the hint says how to start one. */
int bl_cell_client_open(const struct bl_cell_client_options *options,
                        struct bl_cell_client **ret_client, struct bl_error *error);
void bl_cell_client_close(struct bl_cell_client *client); /* NULL is fine */
/* One request, its `args` as a JSON object; `*ret_ok` is the JSON of its answer, in the arena. 0;
 * BL_EREFUSED with `fault`: an `err` came; other codes with `error`. */
int bl_cell_client_call(struct bl_cell_client *client, const char *op, struct bl_text args,
                        struct bl_arena *arena, struct bl_text *ret_ok, struct bl_cell_fault *fault,
                        struct bl_error *error);

BL_PUBLIC_END

#endif
