/* fiber: the loop, fibers, scopes and waits.
 *
 * One thread runs a loop; on it run fibers, pieces of work that read top to bottom. Each fiber runs
 * in a scope, which may stop it: a deadline, a reason, a parent. Every wait goes through one
 * function that also watches the fiber's scope, and returns 0, BL_ECANCELED or BL_ETIMEDOUT.
 *
 * Promises, the seven rules:
 *   1. Level-triggered: after a scope has stopped, every wait in it returns at once, each time.
 *   2. First reason wins: set once, by compare-and-swap, with reason, origin and time. Stopping is
 *      safe from any thread and from a signal handler, allocates nothing, and may be repeated.
 *   3. Down, never up: a scope stops with its parent and leaves its parent and siblings alone. A
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
 * Unless said otherwise, functions belong to the loop's thread. */
#ifndef BELAY_FIBER_H
#define BELAY_FIBER_H

#include <belay/base.h>

BL_PUBLIC_BEGIN

struct bl_loop;
struct bl_fiber;
struct bl_scope;
struct uv_loop_s;

/* A fiber's work. What it returns is its result: 0 or a negative BL_E code, by custom. */
typedef int bl_fiber_main(void *argument);

/* ---- Loop ------------------------------------------------------------------------------------ */

struct bl_loop_options {
    /* Virtual time, for tests: it stands still while anything can run, and then jumps to the next
     * timer. `seed` (not 0) plays the order of ready fibers from that seed. */
    bool virtual_time;
    uint64_t seed;
    uint32_t fibers_max;  /* 0: as many as the machine gives stacks for */
    uint32_t threads_max; /* worker threads that are not stuck; 0: 4 */
};

/* `options` NULL: defaults. BL_EMFILE and the like when the system refuses; `error` may be NULL. */
int bl_loop_new(const struct bl_loop_options *options, struct bl_loop **ret_loop,
                struct bl_error *error);
/* Frees a loop that does not run (NULL is fine). BL_EBUSY: a worker thread is stuck in a call that
 * was abandoned; the loop is left as it is, for the thread's sake, and may be freed later. */
int bl_loop_free(struct bl_loop *loop);
/* Runs `main` as a fiber in the loop's scope until it, and every fiber below it, has ended. Returns
 * its result, or BL_ESTACKS. May be called again. */
int bl_loop_run(struct bl_loop *loop, const char *name, bl_fiber_main *main, void *argument);

/* Makes a loop, runs `main` in it as bl_loop_run does, and frees it. A worker thread that is stuck
 * keeps it, until the process ends. `error` may be NULL. */
int bl_loop_once(const char *name, bl_fiber_main *main, void *argument, struct bl_error *error);

struct bl_scope *bl_loop_scope(struct bl_loop *loop); /* the root: what stops it stops all */
const struct bl_clock *bl_loop_clock(struct bl_loop *loop);
struct uv_loop_s *bl_loop_uv(struct bl_loop *loop); /* for the rooms that meet the loop */
/* Loop of the running fiber; NULL outside of one. */
struct bl_loop *bl_loop_current(void);
/* Every fiber: name, state, what it waits for and since when, the ids of the scopes around it,
 * their state and deadline, and the frames of the parked ones. BL_ELIMIT when `out` is full: what
 * fits is there. */
int bl_loop_describe(struct bl_loop *loop, struct bl_buffer *out);
/* Process-wide, so the program switches it on: a fiber that overflows its stack ends the process by
 * SIGSEGV, after a line on standard error that names the fiber. For the calling (loop) thread. */
int bl_loop_catch_overflow(void);
/* What fibers stand on, here: how large a stack is, how it is guarded ("guard regions" or
 * "protected pages"), and how many there can be (0: no limit of our own). */
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
    X(BL_STOP_BUDGET, "budget")

enum bl_stop_reason {
#define BL_STOP_REASON(name, text) name,
    BL_STOP_REASON_TABLE(BL_STOP_REASON)
#undef BL_STOP_REASON
};

extern const struct bl_names bl_stop_reasons;                /* BL_STOP_NONE is without a name */
const char *bl_stop_reason_name(enum bl_stop_reason reason); /* "none" for it */

/* The one stop that a scope ever sees. */
struct bl_stop {
    enum bl_stop_reason reason; /* BL_STOP_NONE: not stopped */
    uint64_t time_ns;           /* of the loop's clock, when it was asked for */
    char origin[80];            /* "SIGINT", "deadline", …: cut if longer */
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

/* Embedded by its owner, on a stack or in an object; must outlive its child scopes, the fibers that
 * run in it, and every foreign thread that may stop it. The fields are the room's own. */
struct bl_scope {
    BL_ATOMIC(uint32_t) state;
    BL_ATOMIC(uint32_t) stop_written; /* `stop` may be read */
    bool shield;
    bool delivered; /* the loop has woken and told all below */
    struct bl_loop *loop;
    BL_ATOMIC(struct bl_scope *) *pending; /* the loop's stops that are not delivered yet */
    struct bl_scope *next_pending;
    struct bl_scope *parent;
    struct bl_list children;
    struct bl_list sibling;
    struct bl_list waiters;
    struct bl_list hooks;
    uint64_t deadline_ns; /* its own; BL_NEVER: none */
    uint64_t timer;
    struct bl_receipt *receipt; /* opened on it; NULL: none */
    const char *id;             /* of the work in it; NULL: as the scope above */
    struct bl_stop stop;
};

/* A live scope below `parent`; below a stopped one it is stopped from the start. */
void bl_scope_init(struct bl_scope *scope, struct bl_scope *parent);
/* No child scope, fiber or hook may be left in it. */
void bl_scope_done(struct bl_scope *scope);

/* Says what runs in it ("turn_…"), for the log and for bl_loop_describe. A receipt opened on a
 * scope without an id gives it its own. `id` outlives the scope, or is taken back with NULL. */
void bl_scope_set_id(struct bl_scope *scope, const char *id);

/* Makes the running fiber run in `scope`, and returns the scope that it ran in, to go back to with
 * another enter. */
struct bl_scope *bl_scope_enter(struct bl_scope *scope);
struct bl_scope *bl_scope_current(void); /* of the running fiber */

/* Limits the running fiber: makes `scope` a child of the current one that ends `limit_ns` from now
 * (BL_NEVER: no deadline of its own), and enters it. */
void bl_limit_begin(struct bl_scope *scope, uint64_t limit_ns);
void bl_limit_begin_until(struct bl_scope *scope, uint64_t deadline_ns);
/* Leaves it and ends it. Fibers may not be left in it. */
void bl_limit_end(struct bl_scope *scope);

/* Shields the running fiber: makes `scope` a shield below the current one, that ends `limit_ns`
 * from now, and enters it. A stop above does not reach it, also when it came before. BL_NEVER: an
 * unbounded shield, only around waits that something else ends. */
void bl_shield_begin(struct bl_scope *scope, uint64_t limit_ns);
/* Leaves it and ends it. Fibers may not be left in it. */
void bl_shield_end(struct bl_scope *scope);

/* Stops a live scope, and with it all below that is neither claimed nor shielded. From any thread,
 * from a signal handler; keeps errno; never waits, never allocates. True: this call's reason is the
 * one; false: it was stopped before, or is claimed. When it returns, every check and claim below
 * says stopped; waits wake as soon as the loop turns. */
bool bl_scope_stop(struct bl_scope *scope, enum bl_stop_reason reason, const char *origin);

bool bl_scope_stopped_above(const struct bl_scope *scope);
/* Rule 7. From any thread that may touch the scope. */
static inline bool bl_scope_stopped(const struct bl_scope *scope)
{
    uint32_t state = BL_ATOMIC_LOAD(&scope->state);
    if (state != BL_SCOPE_LIVE)
        return state >= BL_SCOPE_STOPPED;
    /* A stop above that the loop has not handed down yet counts as well. */
    if (BL_ATOMIC_LOAD(scope->pending) == NULL)
        return false;
    return bl_scope_stopped_above(scope);
}

/* 0, BL_ECANCELED, or BL_ETIMEDOUT when the reason is a deadline; looks at the clock besides, so
 * that a fiber which computes sees a deadline that the loop had no turn to fire. */
int bl_scope_check(struct bl_scope *scope);
static inline int bl_check(void) /* of the running fiber's scope */
{
    return bl_scope_check(bl_scope_current());
}
/* Rule 6. 0: claimed. BL_ECANCELED or BL_ETIMEDOUT: the stop won, and the scope is stopped.
 * Claiming twice is BL_EBUSY. */
int bl_scope_claim(struct bl_scope *scope);
/* What stopped it; reason BL_STOP_NONE when nothing did. From the loop's thread. A scope that
 * stopped with the one above has reason parent (a deadline stays timeout) and the origin and time
 * of that. */
void bl_scope_stop_read(const struct bl_scope *scope, struct bl_stop *ret_stop);

/* Sets or moves its deadline, either way (BL_NEVER: none). One that has passed stops it at once. 0;
 * BL_ECANCELED or BL_ETIMEDOUT when it is stopped already; BL_EBUSY when it is claimed. */
int bl_scope_set_deadline(struct bl_scope *scope, uint64_t deadline_ns);
/* From now on. Zero and less: at once. BL_ERANGE: not a finite number, negative zero, too large. */
int bl_scope_set_timeout(struct bl_scope *scope, double seconds, struct bl_error *error);
/* The earliest of its own and those above that reach it; BL_NEVER: none. */
uint64_t bl_scope_deadline_ns(const struct bl_scope *scope);
/* The same with those of all live scopes below it, shields apart: when the next thing in it is due.
 */
uint64_t bl_scope_next_deadline_ns(const struct bl_scope *scope);

/* Told once when its scope stops: on the loop's stack, before any fiber of the scope runs again.
 * Must not wait. Embedded by its owner. */
struct bl_stop_hook {
    struct bl_list link;
    void (*run)(struct bl_stop_hook *hook, struct bl_scope *scope);
    struct bl_scope *scope;
};

/* On a scope that is stopped already it runs at the next turn of the loop. */
void bl_stop_hook_add(struct bl_stop_hook *hook, struct bl_scope *scope,
                      void (*run)(struct bl_stop_hook *hook, struct bl_scope *scope));
void bl_stop_hook_remove(struct bl_stop_hook *hook); /* also when it has run */

/* ---- Fibers and nurseries -------------------------------------------------------------------- */

/* What fibers are started in: a scope of its own, and the duty to wait for them. Embedded by its
 * owner, who calls bl_nursery_done on every way out. */
struct bl_nursery {
    struct bl_scope scope;
    struct bl_list fibers;
    struct bl_list joining;
    uint32_t running;
};

void bl_nursery_init(struct bl_nursery *nursery, struct bl_scope *parent);
/* Starts a fiber in `scope` (NULL: the nursery's own; else one below it, which must outlive the
 * fiber). It runs at the next turn. The name is copied, cut at 31 bytes. With `ret_fiber` the fiber
 * can be joined, and its memory stays until the nursery is done; without, it goes when the fiber
 * ends. BL_ESTACKS: no stack to be had. A fiber starts also in a stopped scope: its first wait says
 * so. */
int bl_nursery_spawn(struct bl_nursery *nursery, struct bl_scope *scope, const char *name,
                     bl_fiber_main *main, void *argument, struct bl_fiber **ret_fiber);
/* Waits until no fiber of it runs. */
int bl_nursery_join(struct bl_nursery *nursery);
/* The end: stops its scope if a fiber still runs (reason parent, origin "nursery"), waits for all
 * of them, whatever stops the caller, and frees them. */
void bl_nursery_done(struct bl_nursery *nursery);

/* Waits for one fiber; `*ret_result` (may be NULL) is what it returned. */
int bl_fiber_join(struct bl_fiber *fiber, int *ret_result);
bool bl_fiber_ended(const struct bl_fiber *fiber);
const char *bl_fiber_name(const struct bl_fiber *fiber);
struct bl_fiber *bl_fiber_current(void); /* NULL outside of fibers */

/* ---- Waits: 0, BL_ECANCELED, BL_ETIMEDOUT, or as said ---------------------------------------- */

uint64_t bl_now_ns(void); /* of the running fiber's loop */
int bl_sleep(uint64_t duration_ns);
int bl_sleep_until(uint64_t deadline_ns);
int bl_yield(void); /* lets the others run */

/* One at a time; the next in line gets it. */
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

/* A file descriptor that can be waited for; a socket, pipe, terminal, pidfd, eventfd. It is set
 * non-blocking while it is watched, and stays the caller's. */
struct bl_descriptor;

enum {
    BL_READABLE = 1,
    BL_WRITABLE = 2,
    BL_HANGUP = 4, /* the peer sends no more */
};

/* BL_ENOTSUP: a kind of file that cannot be waited for (a regular file); BL_EEXIST: watched
 * already. */
int bl_descriptor_new(int fd, struct bl_descriptor **ret_descriptor);
/* Before the descriptor is closed. Nobody may wait on it. NULL is fine. */
void bl_descriptor_free(struct bl_descriptor *descriptor);
int bl_descriptor_wait(struct bl_descriptor *descriptor, unsigned events, unsigned *ret_events);
/* Some bytes, as soon as there are any; 0 bytes is the end of file. */
int bl_descriptor_read(struct bl_descriptor *descriptor, void *data, size_t size, size_t *ret_size);
/* All bytes. On error `*ret_size` (may be NULL) says how many went. */
int bl_descriptor_write(struct bl_descriptor *descriptor, const void *data, size_t size,
                        size_t *ret_size);

/* How a child process ended. */
struct bl_child_end {
    bool by_signal;
    bool core_dumped;
    int status; /* exit code, or number of the signal */
};

/* Waits for the end of the child behind a pidfd, and reaps it. Stopped: it is as before, and can be
 * waited for again (in a shield). BL_ECHILD: not a child of ours, or reaped already. */
int bl_child_wait(int pidfd, struct bl_child_end *ret_end);

/* A signal that can be waited for, from now on. Process-wide by nature: the program decides. */
struct bl_signal;

int bl_signal_new(int number, struct bl_signal **ret_signal);
void bl_signal_free(struct bl_signal *signal); /* NULL is fine */
/* Waits until it came at least once since the last wait; `*ret_count` (may be NULL) is how often.
 */
int bl_signal_wait(struct bl_signal *signal, uint64_t *ret_count);

/* Blocking work on a thread. `payload` belongs to the call until it returns 0, and then to the
 * caller again. A scope that has stopped before it starts nothing: BL_ECANCELED or BL_ETIMEDOUT,
 * and `*ret_abandoned` is false: the payload is the caller's. Once begun, a stop does not wake the
 * caller; only the limit of a shield around it does (or with `abandon_on_stop` any stop): then
 * `*ret_abandoned` is true, and `drop` gets the payload when the thread is done with it, on the
 * loop's thread. BL_ETHREADS: no thread to be had; the payload is the caller's. */
struct bl_work {
    void (*run)(void *payload); /* on a worker thread */
    void (*drop)(void *payload);
    void *payload;
    bool abandon_on_stop;
};

int bl_work_call(const struct bl_work *work, bool *ret_abandoned);

/* ---- Units and receipts ---------------------------------------------------------------------- */

/* A receipt is the proof of one stop. Nobody assembles one: a receipt is opened on a scope before
 * the work begins, every unit of work below it registers what it is and how it ended, and those
 * that the stop found at work are in the receipt. */

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
    X(BL_FATE_KILLED, "killed")     /* a process had to be */                                      \
    X(BL_FATE_NEVER_STARTED, "never_started")                                                      \
    X(BL_FATE_UNKNOWN, "unknown") /* said only where it is true */

enum bl_fate {
#define BL_FATE(name, text) name,
    BL_FATE_TABLE(BL_FATE)
#undef BL_FATE
};

/* What holds a unit's processes, weakest first. */
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

/* A number of survivors that could not be established: JSON's null. Only a proof makes a number. */
#define BL_SURVIVORS_UNKNOWN UINT32_MAX
#define BL_UNVERIFIED_SIZE   120

/* The sum of two such numbers; unknown with anything is unknown. */
uint32_t bl_survivors_add(uint32_t left, uint32_t right);

/* One unit of work. Embedded by whoever does it. What is known of its end is filled in before
 * bl_unit_end; texts are cut at a character. */
struct bl_unit {
    struct bl_list link;
    struct bl_receipt *receipt; /* NULL: none is open above it */
    enum bl_unit_kind kind;
    enum bl_fate fate;
    enum bl_mechanism mechanism;
    uint32_t processes;                  /* of its tree, when it was stopped */
    uint32_t survivors;                  /* counted, or BL_SURVIVORS_UNKNOWN */
    char unverified[BL_UNVERIFIED_SIZE]; /* why it is unknown; else empty */
    int signal;                          /* the strongest that was needed; 0: none */
    double ms;                           /* from the stop to its end */
    char id[72];
    char name[72];        /* may be empty */
    char detail[120];     /* may be empty */
    struct bl_list units; /* of an agent: copies of those that it had at work */
};

/* Registers with the nearest receipt above the running fiber's scope. */
void bl_unit_begin(struct bl_unit *unit, enum bl_unit_kind kind, const char *id, const char *name);
void bl_unit_end(struct bl_unit *unit, enum bl_fate fate);
/* The same, and no receipt names it: another unit stands for it. */
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
    bool observed;        /* the loop has handed the stop down */
    uint64_t observed_ns; /* when */
    uint64_t quiet_ns;    /* when the last unit had ended; at first as observed_ns */
    /* Writes what was left running on purpose, as elements of the receipt's `background`; set by
     * the owner after opening; NULL: nothing. */
    void (*background)(void *context, struct bl_json_writer *writer);
    void *background_context;
};

/* Collects for `scope`, which must outlive it; `scope_id` ("run_…") is what the receipt names. */
void bl_receipt_open(struct bl_receipt *receipt, struct bl_scope *scope, const char *scope_id);
/* Units of a receipt whose scope stopped with one above go to the receipt of that one. Of a scope
 * with a stop of its own, units that have survivors go to a receipt above that is of a stop too. */
void bl_receipt_close(struct bl_receipt *receipt);
/* The stop was asked above, where another receipt is open: that one is the receipt of it. */
bool bl_receipt_elsewhere(const struct bl_receipt *receipt);
/* Before its end, once it is written: what the receipt holds of such a stop becomes a part of
 * `unit`, which is still at work and stands for it in the receipt above. Of a stop of its own
 * `unit` gets the number of survivors. */
void bl_receipt_fold(struct bl_receipt *receipt, struct bl_unit *unit);
/* True when its scope was stopped and no unit is at work any more. */
bool bl_receipt_ready(const struct bl_receipt *receipt);
bool bl_receipt_cancel_observed(const struct bl_receipt *receipt);
/* Of all its units: counted, or BL_SURVIVORS_UNKNOWN. */
uint32_t bl_receipt_survivors(const struct bl_receipt *receipt);
void bl_receipt_write(const struct bl_receipt *receipt, struct bl_json_writer *writer);
/* One line for people: "Stopped in 206 ms: 1 model call, 4 processes. Nothing left running." */
int bl_receipt_line(const struct bl_receipt *receipt, struct bl_buffer *out);

/* A unit of a receipt in JSON. A text is NULL if there is none; kind and fate are names, which a
 * newer belay may have more of. */
struct bl_unit_row {
    struct bl_list link;
    const char *kind;
    const char *id;
    const char *name;
    const char *fate;
    double ms; /* from the stop to its end; -1: not known */
    bool has_processes;
    uint32_t processes;
    bool has_survivors; /* false: none is written */
    uint32_t survivors; /* BL_SURVIVORS_UNKNOWN: null, or none was read */
    const char *unverified;
    char signal[24];
    const char *detail;
    bool has_units;
    struct bl_list units; /* struct bl_unit_row */
};

/* What runs on by agreement, in JSON. */
struct bl_background_row {
    const char *id;
    struct bl_text command; /* of a job; empty: none */
    const char *cell;       /* of a cell, its id; NULL: none */
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

/* Of a struct bl_receipt_row: docs/schemas/receipt.json. */
extern const struct bl_record bl_receipt_record;
/* The same line of one that was read. A time that is not known is not told. */
int bl_receipt_row_line(const struct bl_receipt_row *row, struct bl_buffer *out);
/* A number of milliseconds in it: "206 ms"; empty: it is not known. */
void bl_receipt_ms_text(double ms, char out[32]);

/* What a receipt says in `unverified`: NULL where the number is known, and never empty where it is
 * not. */
const char *bl_survivors_unverified(uint32_t survivors, const char *unverified);
/* The sentence for people: "Nothing left running.", "Still running: 2 processes." or "Could not
 * verify: REASON." */
int bl_survivors_text(uint32_t survivors, struct bl_text unverified, struct bl_buffer *out);

BL_PUBLIC_END

#endif
