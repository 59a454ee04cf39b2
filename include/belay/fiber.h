/* fiber: the loop, fibers, scopes and waits.
 *
 * One thread runs a loop, and the loop runs fibers: functions with stacks of their own, written as
 * sequential code. Each fiber runs in a scope, which may stop it: by a deadline, a reason or a
 * parent. Every wait goes through one function that also watches the fiber's scope, and returns 0,
 * BL_ECANCELED or BL_ETIMEDOUT.
 *
 * Promises, the seven rules:
 *   1. Level-triggered: after a scope has stopped, every wait in it returns at once, each time.
 *   2. First reason wins: set once, by compare-and-swap, with reason, origin and time. Stopping is
 *      safe from any thread and from a signal handler, allocates nothing, and may be repeated.
 *   3. Down, never up: a scope stops with its parent and does not affect its parent and siblings. A
 *      child's deadline is never later than its parent's; a deadline may be moved until it has
 *      fired.
 *   4. Join: a nursery does not end before its fibers have.
 *   5. Shield: clean-up runs in a scope that a stop above does not reach, with a deadline of its
 *      own.
 *   6. Claim: a scope goes live -> stopped or live -> claimed, once, by one compare-and-swap. A
 *      claim first looks at the scopes above and at the clock, so that neither a stop that has
 *      returned nor a deadline that has passed is overtaken. A claimed scope cannot be stopped, and
 *      its waits do not wake.
 *   7. A check is a load: bl_scope_stopped costs about a nanosecond.
 *
 * Unless stated otherwise, functions may be called only from the loop's thread. */
#ifndef BELAY_FIBER_H
#define BELAY_FIBER_H

#include <belay/base.h>

BL_PUBLIC_BEGIN

struct bl_loop;
struct bl_fiber;
struct bl_scope;
struct uv_loop_s;

/* The main function of a fiber. Its return value is the fiber's result: by convention 0 or a
 * negative BL_E code. */
typedef int bl_fiber_main(void *argument);

/* ---- Loop ------------------------------------------------------------------------------------ */

struct bl_loop_options {
    /* Virtual time, for tests: it does not advance while any fiber can run, and then jumps to the
     * next timer. With a `seed` other than 0, the order of ready fibers follows from the seed. */
    bool virtual_time;
    uint64_t seed;
    uint32_t fibers_max;  /* 0: as many as the machine has stacks for */
    uint32_t threads_max; /* worker threads that are not stuck; 0: 4 */
};

/* `options` NULL: defaults. Returns BL_EMFILE or another code if the system refuses; `error` may be
 * NULL. */
int bl_loop_new(const struct bl_loop_options *options, struct bl_loop **ret_loop,
                struct bl_error *error);
/* Frees a loop that does not run (NULL is fine). BL_EBUSY: a worker thread is stuck in an abandoned
 * call and still uses the loop. The loop is left unchanged and may be freed later. */
int bl_loop_free(struct bl_loop *loop);
/* Runs `main` as a fiber in the loop's scope until it and every fiber below it have ended. Returns
 * its result, or BL_ESTACKS. May be called again. */
int bl_loop_run(struct bl_loop *loop, const char *name, bl_fiber_main *main, void *argument);

/* Makes a loop, runs `main` in it as bl_loop_run does, and frees it. A stuck worker thread keeps
 * the loop until the process ends. `error` may be NULL. */
int bl_loop_once(const char *name, bl_fiber_main *main, void *argument, struct bl_error *error);

struct bl_scope *bl_loop_scope(struct bl_loop *loop); /* the root: its stop stops everything */
const struct bl_clock *bl_loop_clock(struct bl_loop *loop);
struct uv_loop_s *bl_loop_uv(struct bl_loop *loop); /* for rooms that use libuv directly */
/* Runs a function on the loop's own stack, at once, and returns when it has. For libraries that use
 * more stack than a fiber has. The function must not wait; what it wakes runs after the caller. */
void bl_loop_call(void (*run)(void *argument), void *argument);
/* Loop of the running fiber; NULL outside of one. */
struct bl_loop *bl_loop_current(void);
/* Describes every fiber: its name and state, what it waits for and since when, the ids, state and
 * deadline of its enclosing scopes, and the frames of parked fibers. BL_ELIMIT: `out` is full, and
 * holds as much as fits. */
int bl_loop_describe(struct bl_loop *loop, struct bl_buffer *out);
/* Enables reports of stack overflows: a fiber that overflows its stack ends the process by SIGSEGV,
 * after a line on standard error that names the fiber. The program enables this itself, because the
 * handler is process-wide. Covers the calling thread, which must be the loop's. */
int bl_loop_catch_overflow(void);
/* Facts about fiber stacks on this machine: the size of a stack, its guard ("guard regions" or
 * "protected pages"), and the largest number of fibers (0: not limited by Belay). */
struct bl_stack_facts {
    size_t size;
    const char *guard;
    uint32_t fibers_max;
};
void bl_loop_stack_facts(struct bl_stack_facts *ret_facts);

/* ---- Scope ----------------------------------------------------------------------------------- */

#define BL_STOP_REASON_TABLE(X)                                                                    \
    X(BL_STOP_NONE, "none")                                                                        \
    X(BL_STOP_TIMEOUT, "timeout")                                                                  \
    X(BL_STOP_USER, "user")                                                                        \
    X(BL_STOP_SIGNAL, "signal")                                                                    \
    X(BL_STOP_PARENT, "parent")                                                                    \
    X(BL_STOP_SIBLING_FAILURE, "sibling_failure")                                                  \
    X(BL_STOP_FEATURE_FAILURE, "feature_failure")                                                  \
    X(BL_STOP_SHUTDOWN, "shutdown")                                                                \
    X(BL_STOP_CLIENT_GONE, "client_gone")                                                          \
    X(BL_STOP_OWNER_DIED, "owner_died")                                                            \
    X(BL_STOP_BUDGET, "budget")                                                                    \
    X(BL_STOP_LEASE_LOST, "lease_lost")

enum bl_stop_reason {
#define BL_STOP_REASON(name, text) name,
    BL_STOP_REASON_TABLE(BL_STOP_REASON)
#undef BL_STOP_REASON
};

extern const struct bl_names bl_stop_reasons;                /* BL_STOP_NONE has no name here */
const char *bl_stop_reason_name(enum bl_stop_reason reason); /* "none" for BL_STOP_NONE */

/* The stop of a scope. There is never more than one. */
struct bl_stop {
    enum bl_stop_reason reason; /* BL_STOP_NONE: not stopped */
    uint64_t time_ns;           /* of the request, by the loop's clock */
    char origin[80];            /* "SIGINT", "deadline", …; truncated if longer */
};

/* A scope's state word: live -> claimed, or live -> stopped (BL_SCOPE_STOPPED + reason); once.
 *
 *   live     --bl_scope_stop, deadline, stop above-->  stopped
 *   live     --bl_scope_claim-->                       claimed
 */
enum {
    BL_SCOPE_LIVE = 0,
    BL_SCOPE_CLAIMED = 1,
    BL_SCOPE_STOPPED = 2,
};

/* Embedded by its owner, on a stack or in an object. It must outlive its child scopes, the fibers
 * that run in it, and every thread that may stop it. The fields are private to this room. */
struct bl_scope {
    BL_ATOMIC(uint32_t) state;
    BL_ATOMIC(uint32_t) stop_written; /* `stop` may be read */
    bool shield;
    bool delivered; /* the loop has delivered the stop to all scopes below */
    struct bl_loop *loop;
    BL_ATOMIC(struct bl_scope *) *pending; /* the loop's stops that are not delivered yet */
    struct bl_scope *next_pending;
    struct bl_scope *parent;
    struct bl_list children;
    struct bl_list sibling;
    struct bl_list waiters;
    struct bl_list hooks;
    uint64_t deadline_ns; /* its own deadline; BL_NEVER: none */
    uint64_t timer;
    struct bl_receipt *receipt; /* the receipt opened on it, or NULL */
    const char *id;             /* of the work in it; NULL: inherited */
    struct bl_stop stop;
};

/* Initialises a live scope below `parent`. Below a stopped parent it is stopped from the start. */
void bl_scope_init(struct bl_scope *scope, struct bl_scope *parent);
/* Ends a scope, which must not contain child scopes, fibers or hooks. */
void bl_scope_done(struct bl_scope *scope);

/* Sets the id of the work in a scope ("turn_…"), for the log and for bl_loop_describe. A receipt
 * opened on a scope without an id sets the receipt's. `id` must outlive the scope or be reset with
 * NULL. */
void bl_scope_set_id(struct bl_scope *scope, const char *id);

/* Moves the running fiber into `scope`. Returns its previous scope, to which another call returns.
 */
struct bl_scope *bl_scope_enter(struct bl_scope *scope);
struct bl_scope *bl_scope_current(void); /* of the running fiber */

/* Limits the running fiber: makes `scope` a child of the current one that ends `limit_ns` from now
 * (BL_NEVER: no deadline of its own), and enters it. */
void bl_limit_begin(struct bl_scope *scope, uint64_t limit_ns);
void bl_limit_begin_until(struct bl_scope *scope, uint64_t deadline_ns);
/* Leaves the scope and ends it. It must not contain fibers. */
void bl_limit_end(struct bl_scope *scope);

/* Shields the running fiber: makes `scope` a shield below the current one that ends `limit_ns` from
 * now, and enters it. A stop above does not reach it, even if it came earlier. BL_NEVER makes an
 * unbounded shield; use it only around waits that are certain to end. */
void bl_shield_begin(struct bl_scope *scope, uint64_t limit_ns);
/* Leaves the scope and ends it. It must not contain fibers. */
void bl_shield_end(struct bl_scope *scope);
/* Makes an unbounded shield below `parent` without entering it: the parent of a nursery whose fibers
 * serve work in several scopes, and which its owner ends. Ended by bl_scope_done. */
void bl_shield_init(struct bl_scope *scope, struct bl_scope *parent);

/* Stops a live scope and every scope below it that is neither claimed nor shielded. May be called
 * from any thread and from a signal handler; preserves errno; never waits or allocates. Returns
 * true if this call stopped the scope, and false if it was already stopped or is claimed. When it
 * returns, every check and claim below reports the stop; waits wake in the next turn of the loop.
 */
bool bl_scope_stop(struct bl_scope *scope, enum bl_stop_reason reason, const char *origin);

bool bl_scope_stopped_above(const struct bl_scope *scope);
/* Rule 7. May be called from any thread that has access to the scope. */
static inline bool bl_scope_stopped(const struct bl_scope *scope)
{
    uint32_t state = BL_ATOMIC_LOAD(&scope->state);
    if (state != BL_SCOPE_LIVE)
        return state >= BL_SCOPE_STOPPED;
    /* A stop above that the loop has not delivered yet counts too. */
    if (BL_ATOMIC_LOAD(scope->pending) == NULL)
        return false;
    return bl_scope_stopped_above(scope);
}

/* Returns 0, BL_ECANCELED, or BL_ETIMEDOUT if the reason is a deadline. Also reads the clock, so
 * that a fiber which computes notices a deadline before the loop can fire it. */
int bl_scope_check(struct bl_scope *scope);
static inline int bl_check(void) /* of the running fiber's scope */
{
    return bl_scope_check(bl_scope_current());
}
/* Rule 6. 0: claimed. BL_ECANCELED or BL_ETIMEDOUT: the stop won, and the scope is stopped.
 * BL_EBUSY: already claimed. */
int bl_scope_claim(struct bl_scope *scope);
/* Reads the stop; its reason is BL_STOP_NONE if there is none. A scope that stopped with the one
 * above has the reason "parent" (or "timeout" for a deadline) and the origin and time of that stop.
 * From the loop's thread. */
void bl_scope_stop_read(const struct bl_scope *scope, struct bl_stop *ret_stop);

/* Sets or moves the deadline, earlier or later (BL_NEVER: none). A deadline in the past stops the
 * scope at once. Returns 0; BL_ECANCELED or BL_ETIMEDOUT if the scope is already stopped; BL_EBUSY
 * if it is claimed. */
int bl_scope_set_deadline(struct bl_scope *scope, uint64_t deadline_ns);
/* Sets the deadline relative to now; zero and negative numbers stop the scope at once. BL_ERANGE:
 * not a finite number, negative zero, or too large. */
int bl_scope_set_timeout(struct bl_scope *scope, double seconds, struct bl_error *error);
/* The earliest of its own deadline and those of the scopes above that apply to it; BL_NEVER: none.
 */
uint64_t bl_scope_deadline_ns(const struct bl_scope *scope);
/* The same, including the deadlines of all live scopes below except shields: the time at which the
 * next deadline in the scope is due. */
uint64_t bl_scope_next_deadline_ns(const struct bl_scope *scope);

/* Called once when its scope stops: on the loop's stack, before any fiber of the scope runs again.
 * It must not wait. Embedded by its owner. */
struct bl_stop_hook {
    struct bl_list link;
    void (*run)(struct bl_stop_hook *hook, struct bl_scope *scope);
    struct bl_scope *scope;
};

/* If the scope is already stopped, the hook runs in the next turn of the loop. */
void bl_stop_hook_add(struct bl_stop_hook *hook, struct bl_scope *scope,
                      void (*run)(struct bl_stop_hook *hook, struct bl_scope *scope));
void bl_stop_hook_remove(struct bl_stop_hook *hook); /* also after it has run */

/* ---- Fibers and nurseries -------------------------------------------------------------------- */

/* A group of fibers with its own scope, which does not end before its fibers have. Embedded by its
 * owner, which must call bl_nursery_done on every path. */
struct bl_nursery {
    struct bl_scope scope;
    struct bl_list fibers;
    struct bl_list joining;
    uint32_t running;
};

void bl_nursery_init(struct bl_nursery *nursery, struct bl_scope *parent);
/* Starts a fiber in `scope` (NULL: the nursery's scope; otherwise a scope below it that outlives
 * the fiber). It runs in the next turn. The name is copied and truncated to 31 bytes. With
 * `ret_fiber`, the fiber can be joined, and its memory is kept until the nursery is done; without
 * it, the memory is freed when the fiber ends. BL_ESTACKS: no stack available. A fiber starts also
 * in a stopped scope; its first wait then reports the stop. */
int bl_nursery_spawn(struct bl_nursery *nursery, struct bl_scope *scope, const char *name,
                     bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber);
/* Waits until all fibers of the nursery have ended. */
int bl_nursery_join(struct bl_nursery *nursery);
/* Ends the nursery: stops its scope if a fiber still runs (reason parent, origin "nursery"), waits
 * for all fibers even if the caller is stopped, and frees them. */
void bl_nursery_done(struct bl_nursery *nursery);

/* Waits for one fiber. `*ret_result` (may be NULL) is its result. */
int bl_fiber_join(struct bl_fiber *fiber, int *ret_result);
bool bl_fiber_ended(const struct bl_fiber *fiber);
const char *bl_fiber_name(const struct bl_fiber *fiber);
struct bl_fiber *bl_fiber_current(void); /* NULL outside of fibers */

/* ---- Waits: 0, BL_ECANCELED, BL_ETIMEDOUT, or as stated -------------------------------------- */

uint64_t bl_now_ns(void); /* of the running fiber's loop */
int bl_sleep(uint64_t duration_ns);
int bl_sleep_until(uint64_t deadline_ns);
int bl_yield(void); /* lets other ready fibers run */

/* A counting semaphore. A unit goes to the fiber that has waited longest. */
struct bl_semaphore {
    uint64_t count;
    struct bl_list queue;
};

void bl_semaphore_init(struct bl_semaphore *semaphore, uint64_t count);
int bl_semaphore_take(struct bl_semaphore *semaphore);
int bl_semaphore_try_take(struct bl_semaphore *semaphore); /* BL_EAGAIN */
void bl_semaphore_give(struct bl_semaphore *semaphore);

struct bl_lock {
    struct bl_semaphore semaphore;
    struct bl_fiber *owner;
};

void bl_lock_init(struct bl_lock *lock);
int bl_lock_take(struct bl_lock *lock); /* not twice by one fiber */
void bl_lock_give(struct bl_lock *lock);

/* A file descriptor to wait on: a socket, pipe, terminal, pidfd or eventfd. It is non-blocking
 * while it is watched. The caller keeps ownership. */
struct bl_descriptor;

enum {
    BL_READABLE = 1,
    BL_WRITABLE = 2,
    BL_HANGUP = 4, /* the peer sends no more */
};

/* BL_ENOTSUP: a type of file that cannot be waited for (a regular file); BL_EEXIST: already
 * watched.
 *
 *  */
int bl_descriptor_new(int fd, struct bl_descriptor **ret_descriptor);
/* Call it before the descriptor is closed. No fiber may be waiting on it. NULL is fine. */
void bl_descriptor_free(struct bl_descriptor *descriptor);
int bl_descriptor_wait(struct bl_descriptor *descriptor, unsigned events, unsigned *ret_events);
/* Reads some bytes, as soon as there are any; 0 bytes mean the end of the file. */
int bl_descriptor_read(struct bl_descriptor *descriptor, void *data, size_t size, size_t *ret_size);
/* Writes all bytes. On error, `*ret_size` (may be NULL) is the number of bytes written. */
int bl_descriptor_write(struct bl_descriptor *descriptor, const void *data, size_t size,
                        size_t *ret_size);

/* How a child process ended. */
struct bl_child_end {
    bool by_signal;
    bool core_dumped;
    int status; /* exit code or signal number */
};

/* Waits until the child of a pidfd exits, and reaps it. If the wait is stopped, the child is
 * unaffected and can be waited for again (in a shield). BL_ECHILD: not a child of this process, or
 * already reaped. */
int bl_child_wait(int pidfd, struct bl_child_end *ret_end);

/* A signal to wait for. Signals are process-wide, so only the program should use this. */
struct bl_signal;

int bl_signal_new(int number, struct bl_signal **ret_signal);
void bl_signal_free(struct bl_signal *signal); /* NULL is fine */
/* Waits until the signal has arrived at least once since the last wait. `*ret_count` (may be NULL)
 * is the number of arrivals. */
int bl_signal_wait(struct bl_signal *signal, uint64_t *ret_count);

/* Runs blocking work on a worker thread. The call owns `payload` until it returns 0; then the
 * caller owns it again. In a scope that is already stopped, the work does not start: the call
 * returns BL_ECANCELED or BL_ETIMEDOUT, `*ret_abandoned` is false, and the caller keeps the
 * payload. Once the work has started, a stop does not wake the caller. Only the limit of an
 * enclosing shield does (with `abandon_on_stop`, any stop): then `*ret_abandoned` is true, and
 * `drop` receives the payload, on the loop's thread, when the worker thread has finished with it.
 * BL_ETHREADS: no thread available; the caller keeps the payload. */
struct bl_work {
    void (*run)(void *payload); /* on a worker thread */
    void (*drop)(void *payload);
    void *payload;
    bool abandon_on_stop;
};

int bl_work_call(const struct bl_work *work, bool *ret_abandoned);

/* ---- Units and receipts ---------------------------------------------------------------------- */

/* A receipt is the proof of one stop. It collects its contents itself: a receipt is opened on a
 * scope before the work begins, every unit of work below registers its kind and how it ended, and
 * the receipt contains the units that were at work when the stop came. */

#define BL_UNIT_KIND_TABLE(X)                                                                      \
    X(BL_UNIT_MODEL, "model")                                                                      \
    X(BL_UNIT_TOOL, "tool")                                                                        \
    X(BL_UNIT_CELL, "cell")                                                                        \
    X(BL_UNIT_AGENT, "agent")                                                                      \
    X(BL_UNIT_COMMAND, "command")                                                                  \
    X(BL_UNIT_TURN, "turn")                                                                        \
    X(BL_UNIT_TASK, "task")

enum bl_unit_kind {
#define BL_UNIT_KIND(name, text) name,
    BL_UNIT_KIND_TABLE(BL_UNIT_KIND)
#undef BL_UNIT_KIND
};

#define BL_FATE_TABLE(X)                                                                           \
    X(BL_FATE_FINISHED, "finished") /* it won the race; its result is kept */                      \
    X(BL_FATE_ABORTED, "aborted")   /* it saw the stop and unwound */                              \
    X(BL_FATE_KILLED, "killed")     /* a process had to be killed */                               \
    X(BL_FATE_NEVER_STARTED, "never_started")                                                      \
    X(BL_FATE_UNKNOWN, "unknown") /* the end could not be established */

enum bl_fate {
#define BL_FATE(name, text) name,
    BL_FATE_TABLE(BL_FATE)
#undef BL_FATE
};

/* The container of a unit's processes, weakest first. */
#define BL_MECHANISM_TABLE(X)                                                                      \
    X(BL_MECHANISM_NONE, "none")                                                                   \
    X(BL_MECHANISM_SUBREAPER, "subreaper")                                                         \
    X(BL_MECHANISM_CGROUP2, "cgroup2")                                                             \
    X(BL_MECHANISM_PIDNS, "pidns")

enum bl_mechanism {
#define BL_MECHANISM(name, text) name,
    BL_MECHANISM_TABLE(BL_MECHANISM)
#undef BL_MECHANISM
};

const char *bl_unit_kind_name(enum bl_unit_kind kind);
/* For people: "model call", "model calls". */
const char *bl_unit_kind_noun(enum bl_unit_kind kind, bool several);
const char *bl_fate_name(enum bl_fate fate);
const char *bl_mechanism_name(enum bl_mechanism mechanism);

/* The number of survivors could not be established: null in JSON. Any other number is proved. */
#define BL_SURVIVORS_UNKNOWN UINT32_MAX
#define BL_UNVERIFIED_SIZE   120

/* Adds two numbers of survivors; the sum is unknown if either is. */
uint32_t bl_survivors_add(uint32_t left, uint32_t right);

/* One unit of work. Embedded by the code that does the work, which fills in the known facts about
 * the end before bl_unit_end. Texts are truncated at a character boundary. */
struct bl_unit {
    struct bl_list link;
    struct bl_receipt *receipt; /* NULL if no receipt is open above it */
    enum bl_unit_kind kind;
    enum bl_fate fate;
    enum bl_mechanism mechanism;
    uint32_t processes;                  /* of its tree, when it was stopped */
    uint32_t survivors;                  /* counted, or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE]; /* why `survivors` is unknown; else empty */
    int signal;                          /* the strongest signal that was needed; 0: none */
    double ms;                           /* from the stop to its end */
    char id[72];
    char name[72];        /* may be empty */
    char detail[120];     /* may be empty */
    struct bl_list units; /* of an agent: copies of the units that it had at work */
};

/* Registers with the nearest receipt above the running fiber's scope. */
void bl_unit_begin(struct bl_unit *unit, enum bl_unit_kind kind, const char *id, const char *name);
void bl_unit_end(struct bl_unit *unit, enum bl_fate fate);
/* Ends a unit without recording it in a receipt, because another unit represents it. */
void bl_unit_drop(struct bl_unit *unit);

struct bl_json;
struct bl_json_writer;
struct bl_record;

/* Embedded by the owner of a scope. */
struct bl_receipt {
    char id[BL_ID_SIZE]; /* "rcp_…" */
    char scope_id[72];
    struct bl_scope *scope;
    struct bl_stop_hook hook;
    struct bl_list live;    /* units at work */
    struct bl_list stopped; /* copies of those that ended after the stop */
    int64_t requested_wall_ns;
    bool observed;        /* the loop has delivered the stop */
    uint64_t observed_ns; /* when */
    uint64_t quiet_ns;    /* when the last unit had ended; initially observed_ns */
    /* Writes the work that keeps running on purpose, as elements of the receipt's `background`. Set
     * by the owner after opening; NULL: none. */
    void (*background)(void *context, struct bl_json_writer *writer);
    void *background_context;
};

/* Opens a receipt on `scope`, which must outlive it. `scope_id` ("run_…") names the stopped work in
 * the receipt. */
void bl_receipt_open(struct bl_receipt *receipt, struct bl_scope *scope, const char *scope_id);
/* Closes a receipt. If its scope stopped with a scope above, its units move to the receipt of that
 * scope. If its scope had its own stop, only units with survivors move, to a receipt above whose
 * scope is stopped too. */
void bl_receipt_close(struct bl_receipt *receipt);
/* True if the stop was requested on a scope above with an open receipt, which is then the receipt
 * of this stop. */
bool bl_receipt_elsewhere(const struct bl_receipt *receipt);
/* Call it before bl_receipt_close, after writing the receipt. If the stop was requested above, the
 * contents of the receipt become part of `unit`, which is still at work and represents them in the
 * receipt above. For a stop of its own, `unit` gets only the number of survivors. */
void bl_receipt_fold(struct bl_receipt *receipt, struct bl_unit *unit);
/* True if its scope was stopped and no unit is at work any more. */
bool bl_receipt_ready(const struct bl_receipt *receipt);
bool bl_receipt_cancel_observed(const struct bl_receipt *receipt);
/* The survivors of all units: counted, or BL_SURVIVORS_UNKNOWN. */
uint32_t bl_receipt_survivors(const struct bl_receipt *receipt);
void bl_receipt_write(const struct bl_receipt *receipt, struct bl_json_writer *writer);
/* One line for people: "Stopped in 206 ms: 1 model call, 4 processes. Nothing left running." */
int bl_receipt_line(const struct bl_receipt *receipt, struct bl_buffer *out);

/* A unit of a receipt in JSON. A missing text is NULL. Kind and fate are names, because a newer
 * belay may have more of them. */
struct bl_unit_row {
    struct bl_list link;
    const char *kind;
    const char *id;
    const char *name;
    const char *fate;
    double ms; /* from the stop to its end; -1: not known */
    bool has_processes;
    uint32_t processes;
    bool has_survivors; /* false: the member is not written */
    uint32_t survivors; /* BL_SURVIVORS_UNKNOWN: null, or missing when it was read */
    const char *unverified;
    char signal[24];
    const char *detail;
    bool has_units;
    struct bl_list units; /* struct bl_unit_row */
};

/* A job or a cell that keeps running after the stop, by design; in JSON. */
struct bl_background_row {
    const char *id;
    struct bl_text command; /* of a job; empty for a cell */
    const char *cell;       /* id of a cell; NULL for a job */
    uint64_t processes;
    uint64_t age_ms;
};

extern const struct bl_record bl_background_record;

/* A receipt in JSON, to write one or to read one of any origin with bl_record_take: an absent or
 * malformed `survivors` is then BL_SURVIVORS_UNKNOWN. */
struct bl_receipt_row {
    const char *id;
    const char *scope;
    const char *reason;
    const char *origin;
    int64_t requested_wall_ns; /* 0: not known */
    double observed_ms;        /* -1 here and below: not known */
    double quiet_ms;
    const char *mechanism;
    bool cancel_observed;
    uint32_t survivors;
    const char *unverified;
    struct bl_text background; /* JSON: an array of struct bl_background_row */
    struct bl_list units;      /* struct bl_unit_row */
};

/* Record of a struct bl_receipt_row: docs/schemas/receipt.json. */
extern const struct bl_record bl_receipt_record;
/* Like bl_receipt_line, for a receipt that was read. An unknown time is left out. */
int bl_receipt_row_line(const struct bl_receipt_row *row, struct bl_buffer *out);
/* Formats its milliseconds: "206 ms"; empty if unknown. */
void bl_receipt_ms_text(double ms, char out[32]);

/* Returns the value of a receipt's `unverified`: NULL if the number is known, and never empty if it
 * is not. */
const char *bl_survivors_unverified(uint32_t survivors, const char *unverified);
/* Appends the sentence for people: "Nothing left running.", "Still running: 2 processes." or "Could
 * not verify: REASON." */
int bl_survivors_text(uint32_t survivors, struct bl_text unverified, struct bl_buffer *out);

BL_PUBLIC_END

#endif
