/* The host's own: what a host, a session, a cell and a worker are.
 *
 * Design notes.
 *
 * A cell is a fiber that reads what its worker says, and ends it. Those who ask (observers, who
 * terminates) wait beside it; nothing that they do, or leave off doing, reaches the worker but by
 * the cell's scope. The scope is the one place where an end is decided:
 *
 *   admitting    --in the store-->                      running
 *   admitting    --refused-->                           gone without a trace
 *   running      --claim: settled, lost, a limit-->     completing
 *   running      --stop: whoever asks for it-->         terminating
 *   completing   --in the store-->                      completed
 *   terminating  --quiet, and in the store-->           terminated
 *
 * What was decided is bytes, made once and counted, and everybody gets the same. */
#ifndef BELAY_CELL_HOST_H
#define BELAY_CELL_HOST_H

#include "cell/parts.h"

#define CELL_READ_SIZE ((size_t)64 * 1024)

/* ---- outcome.c: decided bytes ---------------------------------------------------------------- */

struct cell_outcome {
    unsigned references;
    uint64_t generation;
    struct bl_text json; /* behind it, in the same memory */
};

/* What the buffer holds; it is empty then. */
struct cell_outcome *cell_outcome_new(uint64_t generation, struct bl_buffer *json);
struct cell_outcome *cell_outcome_copy(uint64_t generation, struct bl_text json);
struct cell_outcome *cell_outcome_ref(struct cell_outcome *outcome);
void cell_outcome_unref(struct cell_outcome *outcome); /* NULL is fine */

/* ---- worker_link.c, pool.c: workers ---------------------------------------------------------- */

struct cell_worker {
    struct bl_list link; /* among the spares */
    struct bl_warden *warden;
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_lock writing;
    struct bl_frames frames;
    int64_t pid;
    int64_t pid_started;
};

struct cell_pool {
    struct bl_cell_host *host;
    struct bl_list spares;
    uint32_t spare_count;
    uint32_t wanted;              /* spares */
    uint32_t waiting;             /* cells that start one themselves: the spares come after them */
    bool asleep;                  /* until the first cell comes */
    struct bl_semaphore starting; /* how many may be started at once */
    struct bl_semaphore refill;   /* given when there may be too few */
    struct bl_fiber *fiber;
    struct bl_scope scope; /* of the fiber that keeps the spares */
    char unavailable[200]; /* why none can start on this machine; empty: nothing is known of that */
    char path[1024];
};

int cell_pool_start(struct cell_pool *pool, struct bl_cell_host *host, const char *path,
                    uint32_t spares, bool eager, struct bl_error *error);
void cell_pool_stop(struct cell_pool *pool);
/* False: none can start on this machine, and `ret_why` says why not. */
bool cell_pool_available(const struct cell_pool *pool, char *ret_why, size_t size);
/* One that is ready, or NULL. Waits only to bury those that have died. */
struct cell_worker *cell_pool_take(struct cell_pool *pool);
/* One that was taken and has been told nothing. */
void cell_pool_give_back(struct cell_pool *pool, struct cell_worker *worker);
/* Starts one, in the running fiber and its scope, in at most three tries. Stopped: BL_ECANCELED,
 * BL_ETIMEDOUT. Other codes: `error` says why. */
int cell_pool_start_one(struct cell_pool *pool, struct cell_worker **ret_worker,
                        struct bl_error *error);

/* Starts it and waits until it is ready. */
int cell_worker_start(const char *path, struct cell_worker **ret_worker, struct bl_error *error);
/* Climbs the ladder, whatever stops the caller. What it had written can still be read. */
void cell_worker_stop(struct cell_worker *worker, uint32_t grace_ms, struct bl_warden_end *ret_end);
/* The end of one that failed. A process closes its descriptors before it has an exit code: one that
 * has closed its link gets a moment to end by itself, so that the code says why. Others are stopped
 * without grace. */
void cell_worker_reap(struct cell_worker *worker, struct bl_warden_end *ret_end);
void cell_worker_free(struct cell_worker *worker); /* NULL is fine */
bool cell_worker_alive(const struct cell_worker *worker);
/* One frame; in the running fiber and its scope. */
int cell_worker_send(struct cell_worker *worker, struct bl_text json);

/* ---- cell.c ---------------------------------------------------------------------------------- */

/*   admitting    --cell_begin-->              running
 *   running      --its scope is claimed-->    completing
 *   running      --its scope is stopped-->    terminating
 *   completing   --in the store-->            completed
 *   terminating  --in the store-->            terminated
 *   admitting    --read from the store-->     completed, terminated
 *
 * cell_move alone moves it. */
enum cell_state {
    CELL_ADMITTING,
    CELL_RUNNING,
    CELL_COMPLETING,
    CELL_TERMINATING,
    CELL_COMPLETED,
    CELL_TERMINATED,
};

/* A snapshot of a session's values, as one JSON object; never changed, counted. */
struct cell_values {
    unsigned references;
    struct bl_text json;
};

/* How a worker has said, or shown, that the cell is over. */
enum cell_ending {
    CELL_NOT_ENDED,
    CELL_SETTLED,
    CELL_OVER_OUTPUT,
    CELL_LOST, /* the worker has gone, or has broken the protocol */
};

struct cell {
    struct bl_list link;       /* of its session, oldest first */
    struct bl_list ended_link; /* of the host, oldest end first; once it has ended */
    struct bl_cell_session *session;
    char id[BL_CELL_ID_SIZE];
    uint8_t digest[32];
    enum cell_state state;
    int64_t created_wall_ns;
    uint64_t created_ns;
    uint64_t ended_ns;
    uint64_t deadline_ms, memory_bytes, output_bytes;
    struct bl_list admission; /* struct cell_waiter: who met it before it was admitted */

    /* Generations: see observe.c. */
    uint64_t generation;           /* latest decided; 0: none */
    struct cell_outcome *yielded;  /* latest, until it is acknowledged */
    bool unrecorded;               /* `yielded` is the end's, which is not in the store yet */
    struct cell_outcome *terminal; /* once it has ended */
    struct cell_outcome *unstored; /* the receipt of an end that the store has refused */
    struct bl_list waiters;        /* struct cell_waiter: of generation + 1 */
    unsigned waiter_count;
    struct bl_list terminators; /* struct cell_waiter: for its end */
    bool observed;              /* the first observation was asked for */
    bool stall_pending;
    bool deciding;
    struct bl_list settled; /* struct cell_waiter: for the end of `deciding` */

    /* Output that no outcome has yet: encoded items, commas between them. */
    struct bl_buffer output;
    uint64_t output_total;
    size_t first_yield; /* place in it; SIZE_MAX: none is remembered */

    /* While it lives; below its parent, which is the session's or that of a turn. */
    struct bl_scope scope;
    struct bl_scope *parent;
    struct bl_receipt receipt;
    struct bl_unit unit;       /* in its own receipt */
    struct bl_unit outer_unit; /* in that above */
    struct bl_activity activity;
    bool live; /* these are in use */
    struct cell_worker *worker;
    struct bl_warden_end end;
    struct bl_arena arena; /* source, tools; error and values of the end */
    struct bl_text source;
    const struct bl_cell_tool *tools;
    size_t tool_count;
    struct cell_values *values; /* as of create */
    struct bl_nursery calls;
    uint32_t calls_running;
    uint32_t calls_total;
    uint32_t timers;
    enum cell_ending ending;
    bool has_error;
    struct bl_cell_error error;
    struct bl_list stored; /* struct bl_store_value, in the arena */
    uint64_t stopped_calls;
    uint64_t notify_seq;
    uint64_t record_bytes; /* once it has ended */
    bool evicting;
};

struct cell_waiter {
    struct bl_list link;
    uint64_t generation; /* that it waits for; 0: the end */
    struct bl_semaphore woken;
    struct cell_outcome *outcome; /* what it waited for; counted */
    bool store_failed;
    char detail[160];
};

void cell_waiter_init(struct cell_waiter *waiter);
/* Wakes all of a list; each is out of it then. */
void cell_wake_all(struct bl_list *waiters);
const char *cell_state_name(enum cell_state state);
void cell_move(struct cell *cell, enum cell_state to);
bool cell_has_ended(const struct cell *cell);
/* The session's; NULL: none. */
struct cell *cell_find(const struct bl_cell_session *session, const char *id);
struct cell *cell_new(struct bl_cell_session *session, const char *id);
/* Out of its session, and freed; it does not live. */
void cell_free(struct cell *cell);
/* An admitted one begins to live. BL_ESTACKS: it does not, and is as before. */
int cell_begin(struct cell *cell, struct bl_scope *parent);

/* ---- output.c: what a worker says ------------------------------------------------------------ */

/* One frame of a running one. BL_EPARSE: it is none that a worker may send; BL_ECLOSED: it has
 * ended, and `ending` says how. */
int cell_take_frame(void *cell, struct bl_text frame);
/* The same after a stop: only output counts. */
int cell_take_last_frame(void *cell, struct bl_text frame);
/* Its error says how a worker went that did not settle; that it has written too much. */
void cell_explain_loss(struct cell *cell);
void cell_explain_output(struct cell *cell);
/* The message that starts it. */
void cell_write_start(const struct cell *cell, struct bl_buffer *out);

/* ---- observe.c ------------------------------------------------------------------------------- */

/* The worker has called yield_control(), or has stalled. */
void cell_on_yield(struct cell *cell);
void cell_on_stall(struct cell *cell);
/* Waits until no decision is being written. */
void cell_await_decision(struct cell *cell);
/* Its end is in `terminal`: all callers that wait get it, or are refused with store_failed. */
void cell_give_end(struct cell *cell);
void cell_refuse_end(struct cell *cell, const char *why);

/* ---- record.c -------------------------------------------------------------------------------- */

/* Writes its terminal record, with `values` where it has completed and a receipt where not. 0: it
 * is on the disk. */
int cell_record_end(struct cell *cell, struct cell_outcome *terminal, const struct bl_list *values,
                    struct bl_text receipt, struct bl_error *error);
/* Its record is there: tells the callers that wait, and then the owner of the session. */
void cell_tell_end(struct cell *cell, enum cell_state state, struct bl_text receipt);
/* Its record could not be written: callers are refused, and what asks again has it written again.
 */
void cell_keep_unstored(struct cell *cell, struct bl_text receipt, const struct bl_error *error);
/* That. Waits for the store: the cell is to be looked for again. */
int cell_store_again(struct cell *cell, struct bl_error *error);

/* ---- operations.c ---------------------------------------------------------------------------- */

/* The cell of that id, once it is admitted; NULL: there is none. Not 0: the caller was stopped. */
int cell_find_admitted(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault);
/* The same, and its end, if it has one, is in the store. Not 0: that failed, too. */
int cell_find_recorded(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault);
/* Its record becomes a tombstone in the store; one that has no record stays as it is. */
int cell_bury(struct bl_cell_session *session, const char *id, struct bl_error *error);
/* What tests have set there, as a refusal; CELL_DROPPED: it gets no answer. */
int cell_refuse_by_fault(struct bl_cell_host *host, enum cell_fault_point point,
                         struct bl_cell_fault *fault);

/* ---- nested.c -------------------------------------------------------------------------------- */

/* A frame `call` of the worker. BL_EPARSE: it is none. */
int cell_call_begin(struct cell *cell, const struct bl_json *frame);

/* ---- session.c ------------------------------------------------------------------------------- */

struct bl_cell_session {
    struct bl_list link;
    struct bl_cell_host *host;
    char id[BL_CELL_ID_SIZE];
    struct bl_cell_port port;
    struct bl_activities *activities;
    struct bl_store_session *held;
    bool held_here;
    struct bl_session *context; /* of a session that is held here */
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_nursery nursery; /* of its cells' fibers */
    struct bl_map cells;       /* by id: struct cell */
    struct bl_list list;       /* the same, oldest first */
    struct bl_list joining;    /* struct cell_waiter: for the end of some cell */
    struct bl_map by_key;      /* stored values: struct bl_buffer of JSON */
    uint64_t values_bytes;
    struct bl_lock storing; /* held from the look whether values fit until they are there */
    struct cell_values *values;
    uint32_t ended_count;
    uint64_t ended_bytes;
    uint32_t users; /* operations under way: it is not closed before they have ended */
    bool closing;
};

/* An operation begins and ends. */
void cell_session_enter(struct bl_cell_session *session);
void cell_session_leave(struct bl_cell_session *session);

struct cell_values *cell_values_ref(struct cell_values *values);
void cell_values_unref(struct cell_values *values); /* NULL is fine */
/* Would these fit? */
bool cell_values_fit(const struct bl_cell_session *session, const struct bl_list *stored);
/* They are in the store: in memory, too. */
void cell_values_apply(struct bl_cell_session *session, const struct bl_list *stored);

/* ---- host.c ---------------------------------------------------------------------------------- */

struct bl_cell_host {
    struct bl_nursery *nursery;
    struct bl_store *store;
    struct cell_faults faults;
    struct cell_pool pool;
    struct bl_list sessions;
    uint32_t live_max, live;
    uint64_t memory_max, memory;
    uint64_t undelivered;
    uint32_t records_max;
    uint64_t records_bytes_max, record_ns_max;
    struct bl_list ended; /* struct cell, oldest first */
    uint32_t ended_count;
    uint64_t ended_bytes;
    bool evicting;
    bool stopping;
    struct bl_scope scope; /* of the fiber that looks for old records */
    struct bl_fiber *sweeper;
    char *read_buffer; /* CELL_READ_SIZE; used by whoever reads, and not across a wait */
};

/* ---- retain.c -------------------------------------------------------------------------------- */

void cell_retain(struct cell *cell); /* it has ended, and its record counts */
void cell_let_go(struct cell *cell); /* its record is dropped, and it is freed */
/* Drops what is too much or too old; in a fiber. */
void cell_evict(struct bl_cell_host *host);

/* ---- store writes, with the fault that tests may set ----------------------------------------- */

/* In a shield: whoever writes is not stopped in it. 0, or a code with `error`. */
int cell_store_write(struct bl_cell_host *host, struct bl_error *error,
                     int (*write)(void *context, struct bl_error *error), void *context);

#endif
