/* A host with a store and a session in a folder of its own, and operations called as a C program
 * would. */
#ifndef BELAY_TESTS_CELL_HELPERS_H
#define BELAY_TESTS_CELL_HELPERS_H

#include "cell/host/host.h"
#include "fibers.h"
#include "figure.h"

struct house {
    char folder[64];
    char path[80]; /* of the store */
    bool kept;     /* the folder belongs to another house, and is not removed */
    struct bl_store *store;
    struct bl_nursery nursery;
    struct bl_activities activities;
    struct bl_cell_host_options options; /* may be changed before house_open */
    struct bl_cell_host *host;
    struct bl_cell_session *session;
    struct bl_arena arena;
    struct bl_cell_fault fault; /* of the last refusal */
    struct bl_cell_observe_outcome seen;
    struct bl_cell_terminate_outcome ended;
    struct bl_semaphore gate; /* given once for each call of `gate` that may continue */
    /* Observed by the port. */
    uint64_t calls_begun, calls_ended;
    uint64_t notified;
    uint64_t events[3]; /* by type */
    char last_tool[64];
    char last_notify[256];
};

typedef int house_body(struct house *house);

/* A test in a fiber of its own, with nursery, store, host and session "s-1". */
#define HOUSE_TEST(name, body)                                                                     \
    static void name(void **state)                                                                 \
    {                                                                                              \
        house_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(house_run, (void *)&run);                                                      \
    }
/* The same, but the body opens the house itself. */
#define EMPTY_HOUSE_TEST(name, body)                                                               \
    static void name(void **state)                                                                 \
    {                                                                                              \
        house_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(house_run_empty, (void *)&run);                                                \
    }
bl_fiber_main house_run, house_run_empty;

/* In a fiber. A folder is created if `folder` is NULL. */
void house_init(struct house *house, const char *folder);
void house_open(struct house *house); /* store, host, session "s-1" */
/* Ends session and host, and closes the store. The house can be opened again. */
void house_close(struct house *house);
void house_done(struct house *house); /* removes the folder; no worker may be left */

/* Before house_open: the workers are a shell script with these lines, in which `ready` reports
 * readiness. */
void house_use_script(struct house *house, const char *lines);

/* Opens another session of the host; the house continues with the first. */
struct bl_cell_session *house_session(struct house *house, const char *id);
/* Sets the faults from now on, as in BELAY_FAULT, and removes earlier ones. */
void house_fault(struct house *house, const char *text);
/* Frees all earlier answers. */
void house_forget(struct house *house);

/* Tools offered to every cell: `echo` answers with its input; `sleep` waits until it is stopped;
 * `fail` fails; `count` answers with the number of calls so far; `mark` adds a byte to a file of
 * the house, which outlives its process; `gate` waits for the house's gate; `left` does so even
 * when stopped, and leaves two processes running; `big` answers with more than is allowed; `say`
 * takes text. */
int house_create(struct house *house, const char *id, const char *source);
int house_create_limited(struct house *house, const char *id, const char *source,
                         uint64_t deadline_ms, uint64_t memory_bytes, uint64_t output_bytes);
int house_create_below(struct house *house, struct bl_scope *scope, const char *id,
                       const char *source);
/* Returns 0 with `seen`, or the refusal's code with `fault`. */
int house_observe(struct house *house, const char *id, uint64_t generation, uint64_t yield_ms);
/* Returns 0 with `ended`. */
int house_terminate(struct house *house, const char *id, const char *terminate_id);
/* Returns 0 or the refusal's code; the record must exist. */
int house_release(struct house *house, const char *id, uint64_t generation);
/* Returns how often `mark` was called, in all processes that had the house. */
unsigned house_marks(const struct house *house);
/* Observes until the cell has ended; `seen` is the end. Returns all text, joined, in the arena. */
const char *house_finish(struct house *house, const char *id);
/* Joins the text of all items of an outcome, in the house's arena. */
const char *house_text(struct house *house, const struct bl_list *items);
const char *house_seen_text(struct house *house);
const char *house_ended_text(struct house *house);
/* Returns whether `seen` and `ended` have the same bytes. */
bool house_same(const struct house *house);
/* Return a top-level number or text of a receipt. */
int64_t house_receipt_number(const struct bl_json *receipt, const char *key);
bool house_receipt_says(const struct bl_json *receipt, const char *key, const char *text);
/* Returns the receipt's first unit of that kind, or NULL. */
const struct bl_json *house_receipt_unit(const struct bl_json *receipt, const char *kind);
/* Returns the state of a cell as `list` reports it, or "" if it is not listed. */
const char *house_state(struct house *house, const char *id);
/* Returns the number of worker processes below this one, with the spares. */
unsigned house_workers(void);
/* Returns the pid of a live cell's worker, or 0 if it has none yet. */
int64_t house_worker_pid(struct house *house, const char *id);
/* Returns whether the process exists and is not a zombie. */
bool house_process_lives(int64_t pid);
/* Runs the loop until it holds, for at most one minute. */
bool house_until(bool (*holds)(void *argument), void *argument);
/* Waits until that many spares are ready. */
void house_warm(struct house *house, uint32_t spares);
/* Waits until the cell has that much output that is in no outcome yet. */
void house_await_output(struct house *house, const char *id, uint64_t bytes);
/* Waits until the cell has ended, without observing it. */
void house_await_end(struct house *house, const char *id);

/* ---- Callers beside the test's own ----------------------------------------------------------- */

struct asker {
    struct house *house;
    char cell_id[BL_CELL_ID_SIZE];
    char terminate_id[BL_CELL_ID_SIZE]; /* empty: observe */
    uint64_t generation, yield_ms;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    struct bl_arena arena;
    int code;
    struct bl_text json; /* the answer, in its arena */
    struct bl_cell_fault fault;
    uint64_t began_ns, ended_ns;
};

void asker_observe(struct asker *asker, struct house *house, const char *cell_id,
                   uint64_t generation, uint64_t yield_ms);
void asker_terminate(struct asker *asker, struct house *house, const char *cell_id,
                     const char *terminate_id);
bool asker_answered(const struct asker *asker);
void asker_stop(struct asker *asker); /* stops the caller; does not wait */
int asker_join(struct asker *asker);  /* returns its code */
void asker_done(struct asker *asker); /* after join */

/* Runs when this program's first argument is "--role" (actor.c). Returns its exit code. */
int role_main(int argument_count, char **arguments);

#endif
