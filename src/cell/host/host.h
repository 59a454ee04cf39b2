/* The host's internals: hosts, sessions, cells and workers.
 *
 * Design notes.
 *
 * A cell is a fiber that reads its worker's frames and ends the worker. Callers (observers,
 * terminators) wait beside it. They affect the worker only through the cell's scope, which alone
 * decides the end:
 *
 *   admitting    --in the store-->                      running
 *   admitting    --refused-->                           freed, without a record
 *   running      --claim: settled, lost, a limit-->     completing
 *   running      --stop, for any reason-->              terminating
 *   completing   --in the store-->                      completed
 *   terminating  --quiet, and in the store-->           terminated
 *
 * A decided outcome is bytes, built once and reference-counted. Every caller gets the same
 * bytes. */
#ifndef BELAY_CELL_HOST_H
#define BELAY_CELL_HOST_H

#include "cell/parts.h"

#define CELL_READ_SIZE ((size_t)64 * 1024)

/* ---- outcome.c: decided bytes ---------------------------------------------------------------- */

struct cell_outcome {
    unsigned references;
    uint64_t generation;
    struct bl_text json; /* stored behind the struct */
};

/* Takes the contents of the buffer, which is empty afterwards. */
struct cell_outcome *cell_outcome_new(uint64_t generation, struct bl_buffer *json);
struct cell_outcome *cell_outcome_copy(uint64_t generation, struct bl_text json);
struct cell_outcome *cell_outcome_ref(struct cell_outcome *outcome);
void cell_outcome_unref(struct cell_outcome *outcome); /* NULL is fine */

/* ---- worker_link.c, pool.c: workers ---------------------------------------------------------- */

struct cell_worker {
    struct bl_list link; /* in the list of spares */
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
    uint32_t wanted;              /* number of spares to keep */
    uint32_t waiting;             /* cells that start a worker themselves; they precede spares */
    bool asleep;                  /* until the first cell is created */
    struct bl_semaphore starting; /* limits how many start at once */
    struct bl_semaphore refill;   /* given when there may be too few spares */
    struct bl_fiber *fiber;
    struct bl_scope scope; /* of the fiber that refills the spares */
    char unavailable[200]; /* why no worker can start on this machine; empty if that is not known */
    char path[1024];
};

int cell_pool_start(struct cell_pool *pool, struct bl_cell_host *host, const char *path,
                    uint32_t spares, bool eager, struct bl_error *error);
void cell_pool_stop(struct cell_pool *pool);
/* Returns false if no worker can start on this machine; `ret_why` has the reason. */
bool cell_pool_available(const struct cell_pool *pool, char *ret_why, size_t size);
/* Returns a live spare, or NULL. Waits only to reap spares that have died. */
struct cell_worker *cell_pool_take(struct cell_pool *pool);
/* Returns a worker that was taken and not used. */
void cell_pool_give_back(struct cell_pool *pool, struct cell_worker *worker);
/* Starts a worker in the running fiber, under its scope, in at most three tries. BL_ECANCELED,
 * BL_ETIMEDOUT if stopped; other codes with the reason in `error`. */
int cell_pool_start_one(struct cell_pool *pool, struct cell_worker **ret_worker,
                        struct bl_error *error);

/* Starts a worker and waits until it is ready. */
int cell_worker_start(const char *path, struct cell_worker **ret_worker, struct bl_error *error);
/* Sends SIGTERM, and SIGKILL after `grace_ms`, even if the caller's scope is stopped. Its remaining
 * output can still be read. */
void cell_worker_stop(struct cell_worker *worker, uint32_t grace_ms, struct bl_warden_end *ret_end);
/* Ends a worker that failed. A process closes its descriptors before it has an exit code, so a
 * worker that has closed its link gets a moment to exit, and the code tells why. Others are stopped
 * without a grace period. */
void cell_worker_reap(struct cell_worker *worker, struct bl_warden_end *ret_end);
/* Returns whether it exited with that code, which is not 0. That also holds if a stop began before
 * its warden, on a busy machine, reported the exit: a process that exits keeps its code, whatever
 * signal follows. */
bool cell_worker_exited(const struct bl_warden_end *end, int status);
void cell_worker_free(struct cell_worker *worker); /* NULL is fine */
bool cell_worker_alive(const struct cell_worker *worker);
/* Sends one frame in the running fiber, under its scope. */
int cell_worker_send(struct cell_worker *worker, const struct cell_worker_frame *frame);

/* ---- cell.c ---------------------------------------------------------------------------------- */

/*   admitting    --cell_begin-->              running
 *   running      --its scope is claimed-->    completing
 *   running      --its scope is stopped-->    terminating
 *   completing   --in the store-->            completed
 *   terminating  --in the store-->            terminated
 *   admitting    --read from the store-->     completed, terminated
 *
 * Only cell_move changes the state. */
/* A snapshot of a session's values as one JSON object: immutable, reference-counted. */
struct cell_values {
    unsigned references;
    struct bl_text json;
};

/* How the worker has reported, or shown, that the cell is over. */
enum cell_ending {
    CELL_NOT_ENDED,
    CELL_SETTLED,
    CELL_OVER_OUTPUT,
    CELL_LOST, /* the worker exited or violated the protocol */
};

struct cell {
    struct bl_list link;       /* in its session, oldest first */
    struct bl_list ended_link; /* in the host, oldest end first; once it has ended */
    struct bl_cell_session *session;
    char id[BL_CELL_ID_SIZE];
    uint8_t digest[32];
    enum cell_state state;
    int64_t created_wall_ns;
    uint64_t created_ns;
    uint64_t ended_ns;
    uint64_t deadline_ms, memory_bytes, output_bytes;
    struct bl_list admission; /* struct cell_waiter: callers that found it before it was admitted */

    /* Generations: see observe.c. */
    uint64_t generation;           /* latest decided; 0 if none */
    struct cell_outcome *yielded;  /* latest, until it is acknowledged */
    bool unrecorded;               /* `yielded` was decided by the end, and is not in the store
                                      yet */
    struct cell_outcome *terminal; /* once it has ended */
    struct cell_outcome *unstored; /* the receipt of an end that the store refused */
    struct bl_list waiters;        /* struct cell_waiter: callers of generation + 1 */
    unsigned waiter_count;
    struct bl_list terminators; /* struct cell_waiter: callers of terminate */
    bool observed;              /* an observe request has arrived */
    bool stall_pending;
    bool deciding;
    struct bl_list settled; /* struct cell_waiter: wait until `deciding` is false */

    /* Output that is in no outcome yet: encoded items, separated by commas. */
    struct bl_buffer output;
    uint64_t output_total;
    size_t first_yield; /* position in `output`; SIZE_MAX if no yield is remembered */

    /* Used while it is live. The scope is below `parent`: the session's scope, or a turn's. */
    struct bl_scope scope;
    struct bl_scope *parent;
    struct bl_receipt receipt;
    struct bl_unit unit;       /* in its own receipt */
    struct bl_unit outer_unit; /* in the parent's receipt */
    struct bl_activity activity;
    bool live; /* the members of this block are in use */
    struct cell_worker *worker;
    struct bl_warden_end end;
    struct bl_arena arena; /* source, tools; error and values at the end */
    struct bl_text source;
    const struct bl_cell_tool *tools;
    size_t tool_count;
    struct cell_values *values; /* as of its creation */
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
    uint64_t generation; /* the generation that it waits for; 0: the end */
    struct bl_semaphore woken;
    struct cell_outcome *outcome; /* the answer; holds a reference */
    bool store_failed;
    char detail[160];
};

void cell_waiter_init(struct cell_waiter *waiter);
/* Wakes all waiters of a list and removes them from it. */
void cell_wake_all(struct bl_list *waiters);
void cell_move(struct cell *cell, enum cell_state to);
bool cell_has_ended(const struct cell *cell);
/* Returns the session's cell with that id, or NULL. */
struct cell *cell_find(const struct bl_cell_session *session, const char *id);
struct cell *cell_new(struct bl_cell_session *session, const char *id);
/* Removes a cell that is not live from its session, and frees it. */
void cell_free(struct cell *cell);
/* Starts an admitted cell. BL_ESTACKS: it is not started, and nothing has changed. */
int cell_begin(struct cell *cell, struct bl_scope *parent);

/* ---- output.c: frames of a worker ------------------------------------------------------------ */

/* Handles one frame of a running cell. BL_EPARSE if a worker may not send it; BL_ECLOSED if the
 * cell is over, with the way in `ending`. */
int cell_take_frame(void *cell, struct bl_text frame);
/* Handles one frame after a stop: only output counts. */
int cell_take_last_frame(void *cell, struct bl_text frame);
/* Set the cell's error: the worker ended without `settled`; the output limit was reached. */
void cell_explain_loss(struct cell *cell);
void cell_explain_output(struct cell *cell);

/* ---- observe.c ------------------------------------------------------------------------------- */

/* The worker called yield_control(), or stalled. */
void cell_on_yield(struct cell *cell);
void cell_on_stall(struct cell *cell);
/* Waits until no decision is being written. */
void cell_await_decision(struct cell *cell);
/* The end is in `terminal`: gives it to all waiting callers, or refuses them with store_failed. */
void cell_give_end(struct cell *cell);
void cell_refuse_end(struct cell *cell, const char *why);

/* ---- record.c -------------------------------------------------------------------------------- */

/* Writes the terminal record, with `values` if the cell completed, with a receipt if not. 0: it is
 * on disk. */
int cell_record_end(struct cell *cell, struct cell_outcome *terminal, const struct bl_list *values,
                    struct bl_text receipt, struct bl_error *error);
/* After the record was written: answers the waiting callers, then notifies the session's owner. */
void cell_tell_end(struct cell *cell, enum cell_state state, struct bl_text receipt);
/* After the record could not be written: refuses the waiting callers. The next request for the cell
 * writes the record again. */
void cell_keep_unstored(struct cell *cell, struct bl_text receipt, const struct bl_error *error);
/* Writes that record again. Waits for the store, so callers must look up the cell again. */
int cell_store_again(struct cell *cell, struct bl_error *error);

/* ---- operations.c ---------------------------------------------------------------------------- */

/* Finds the cell with that id, once it is admitted; NULL if there is none. Not 0 if the caller was
 * stopped. */
int cell_find_admitted(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault);
/* The same, and makes sure that its end, if any, is in the store. Not 0 also if that failed. */
int cell_find_recorded(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault);
/* Turns the cell's record in the store into a tombstone. Does nothing if there is no record. */
int cell_bury(struct bl_cell_session *session, const char *id, struct bl_error *error);
/* Applies the fault that a test has set at that point: 0, a refusal, or CELL_DROPPED if the request
 * gets no answer. */
int cell_refuse_by_fault(struct bl_cell_host *host, enum cell_fault_point point,
                         struct bl_cell_fault *fault);

/* ---- nested.c -------------------------------------------------------------------------------- */

/* Handles a frame `call` of the worker. BL_EPARSE if the call is not allowed. */
int cell_call_begin(struct cell *cell, const struct cell_worker_frame *frame);

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
    struct bl_list joining;    /* struct cell_waiter: callers that wait for any change */
    struct bl_map by_key;      /* stored values: struct bl_buffer of JSON */
    uint64_t values_bytes;
    struct bl_lock storing; /* held from the check whether values fit until they are stored */
    struct cell_values *values;
    uint32_t ended_count;
    uint64_t ended_bytes;
    uint32_t users; /* operations in progress: it is not closed before they end */
    bool closing;
};

/* Mark the start and the end of an operation. */
void cell_session_enter(struct bl_cell_session *session);
void cell_session_leave(struct bl_cell_session *session);

struct cell_values *cell_values_ref(struct cell_values *values);
void cell_values_unref(struct cell_values *values); /* NULL is fine */
/* Returns whether the session's limits allow these values. */
bool cell_values_fit(const struct bl_cell_session *session, const struct bl_list *stored);
/* Applies values that are in the store to the copy in memory. */
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
    struct bl_list ended; /* struct cell, oldest end first */
    uint32_t ended_count;
    uint64_t ended_bytes;
    bool evicting;
    bool stopping;
    struct bl_scope scope; /* of the fiber that looks for expired records */
    struct bl_fiber *sweeper;
    char *read_buffer; /* CELL_READ_SIZE; shared by all readers, not kept across a wait */
};

/* ---- retain.c -------------------------------------------------------------------------------- */

void cell_retain(struct cell *cell); /* counts the record of a cell that has ended */
void cell_drop(struct cell *cell);   /* drops the record and frees the cell */
/* Drops records over the limits or too old. Runs in a fiber. */
void cell_evict(struct bl_cell_host *host);

/* ---- store writes, with the fault that tests may inject -------------------------------------- */

/* Calls `write` in a shield, so that a stop does not interrupt it. Returns 0, or a code with
 * `error`. */
int cell_store_write(struct bl_cell_host *host, struct bl_error *error,
                     int (*write)(void *context, struct bl_error *error), void *context);

#endif
