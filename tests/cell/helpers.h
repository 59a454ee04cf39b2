/* A host with a store and a session in a folder of its own, and operations asked as a program in C
 * asks them. */
#ifndef BELAY_TESTS_CELL_HELPERS_H
#define BELAY_TESTS_CELL_HELPERS_H

#include "cell/host/host.h"
#include "fibers.h"
#include "figure.h"

struct house {
    char folder[64];
    char path[80]; /* of the store */
    bool kept;     /* the folder is another's: it is not removed */
    struct bl_store *store;
    struct bl_nursery nursery;
    struct bl_activities activities;
    struct bl_cell_host_options options; /* to be changed before house_open */
    struct bl_cell_host *host;
    struct bl_cell_session *session;
    struct bl_arena arena;
    struct bl_cell_fault fault; /* of the last that was refused */
    struct bl_cell_observe_outcome seen;
    struct bl_cell_terminate_outcome ended;
    struct bl_semaphore gate; /* given once for each call of `gate` that is to go on */
    /* What the port has seen. */
    uint64_t calls_begun, calls_ended;
    uint64_t notified;
    uint64_t events[3]; /* by type */
    char last_tool[64];
    char last_notify[256];
};

typedef int house_body(struct house *house);

/* A fiber of its own, with nursery, store, host and session "s-1". */
#define HOUSE_TEST(name, body)                                                                     \
    static void name(void **state)                                                                 \
    {                                                                                              \
        house_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(house_run, (void *)&run);                                                      \
    }
/* The same, where the body opens the house by itself. */
#define EMPTY_HOUSE_TEST(name, body)                                                               \
    static void name(void **state)                                                                 \
    {                                                                                              \
        house_body *const run = body;                                                              \
        (void)state;                                                                               \
        run_in_loop(house_run_empty, (void *)&run);                                                \
    }
bl_fiber_main house_run, house_run_empty;

/* In a fiber. `folder` NULL: one is made. */
void house_init(struct house *house, const char *folder);
void house_open(struct house *house); /* store, host, session "s-1" */
/* Session and host end, and the store is closed; it can be opened again. */
void house_close(struct house *house);
void house_done(struct house *house); /* removes the folder; no worker may be left */

/* Before it is opened: its workers are a shell script of these lines, in which `ready` says so. */
void house_use_script(struct house *house, const char *lines);

/* One more session of the host; the house goes on with the first. */
struct bl_cell_session *house_session(struct house *house, const char *id);
/* What goes wrong from now on, and nothing else: as BELAY_FAULT. */
void house_fault(struct house *house, const char *text);
/* What was answered so far is let go. */
void house_forget(struct house *house);

/* Tools offered to every cell: `echo` answers with its input, `sleep` waits until it is stopped,
 * `fail` fails, `count` counts and answers with the number of calls so far; `mark` adds a byte to a
 * file of the house, which outlives its process; `gate` waits for the house's, and `left` too,
 * although stopped, and leaves two processes running; `big` answers with more than it may; `say`
 * takes text. */
int house_create(struct house *house, const char *id, const char *source);
int house_create_limited(struct house *house, const char *id, const char *source,
                         uint64_t deadline_ms, uint64_t memory_bytes, uint64_t output_bytes);
int house_create_below(struct house *house, struct bl_scope *scope, const char *id,
                       const char *source);
/* 0 with `seen`, or the refusal's code with `fault`. */
int house_observe(struct house *house, const char *id, uint64_t generation, uint64_t yield_ms);
/* 0 with `ended`. */
int house_terminate(struct house *house, const char *id, const char *terminate_id);
/* 0, or the refusal's code; the record must be there. */
int house_release(struct house *house, const char *id, uint64_t generation);
/* How often `mark` was called, by whichever process had the house. */
unsigned house_marks(const struct house *house);
/* Observes until it has ended; `seen` is the end. All text on the way is joined in the arena. */
const char *house_finish(struct house *house, const char *id);
/* Text of all items of an outcome, joined; in the house's arena. */
const char *house_text(struct house *house, const struct bl_list *items);
const char *house_seen_text(struct house *house);
const char *house_ended_text(struct house *house);
/* The same bytes, `seen` and `ended`? */
bool house_same(const struct house *house);
/* Of the receipt of `ended`, or of `seen`: a number at the top, a text at the top. */
int64_t house_receipt_number(const struct bl_json *receipt, const char *key);
bool house_receipt_says(const struct bl_json *receipt, const char *key, const char *text);
/* Its unit of that kind, the first; NULL: none. */
const struct bl_json *house_receipt_unit(const struct bl_json *receipt, const char *kind);
/* The state of one cell as `list` says it; "" when it is not listed. */
const char *house_state(struct house *house, const char *id);
/* Number of worker processes below this one, spares too. */
unsigned house_workers(void);
/* The pid of a live cell's worker; 0: none yet. */
int64_t house_worker_pid(struct house *house, const char *id);
/* That process is there, and is no zombie. */
bool house_process_lives(int64_t pid);
/* Lets the loop run until it holds, at most 10 s. */
bool house_until(bool (*holds)(void *argument), void *argument);
/* Waits until so many spares are ready. */
void house_warm(struct house *house, uint32_t spares);
/* Waits until a cell has that much output that no outcome has. */
void house_await_output(struct house *house, const char *id, uint64_t bytes);
/* Waits until it has ended, without asking it. */
void house_await_end(struct house *house, const char *id);

/* ---- Callers beside the test's own ----------------------------------------------------------- */

struct asker {
    struct house *house;
    char cell_id[BL_CELL_ID_SIZE];
    char terminate_id[BL_CELL_ID_SIZE]; /* empty: it observes */
    uint64_t generation, yield_ms;
    struct bl_scope scope;
    struct bl_fiber *fiber;
    struct bl_arena arena;
    int code;
    struct bl_text json; /* its answer; in its arena */
    struct bl_cell_fault fault;
    uint64_t began_ns, ended_ns;
};

void asker_observe(struct asker *asker, struct house *house, const char *cell_id,
                   uint64_t generation, uint64_t yield_ms);
void asker_terminate(struct asker *asker, struct house *house, const char *cell_id,
                     const char *terminate_id);
bool asker_answered(const struct asker *asker);
void asker_stop(struct asker *asker); /* it leaves; does not wait */
int asker_join(struct asker *asker);  /* its code */
void asker_done(struct asker *asker); /* after join */

/* What this program does when its first argument is "--role"; actor.c. Returns its exit
 * code. */
int role_main(int argument_count, char **arguments);

#endif
