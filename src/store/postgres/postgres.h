/* A PostgreSQL database as a store. Every decision is a function of the schema `belay` (schema/):
 * one call, one round trip, one transaction, which no client can leave open. All functions run in
 * fibers and wait there; libpq is called on the loop's stack. */
#ifndef BELAY_STORE_POSTGRES_H
#define BELAY_STORE_POSTGRES_H

#include <belay/wire.h>

#include "library.h"
#include "store/form.h"

/* ---- address.c ---- */

struct pg_address {
    char **keywords; /* for libpq, NULL-terminated; so are the values */
    char **values;
    size_t count;
    char shown[256]; /* for messages: without passwords */
    char hosts[256]; /* names to be resolved, separated by commas; empty: nothing to resolve */
};

/* Parses an address of a database. BL_EINVAL, kind usage: not an address, or the connection would
 * not be encrypted. Called on the loop's stack by pg_address_make. */
int pg_address_make(const char *where, bool reading, const char *application,
                    struct pg_address *ret_address, struct bl_error *error);
void pg_address_done(struct pg_address *address);
void pg_address_set(struct pg_address *address, const char *keyword, const char *value);
const char *pg_address_get(const struct pg_address *address, const char *keyword);
/* True if a host of an address is a Unix socket; an empty one is the default socket. */
bool pg_host_is_socket(struct bl_text host);

/* ---- call.c: statements, their parameters and rows ---- */

#define PG_PARAMETERS_MAX 26

/* A statement to run. Its parameters and results are binary. */
struct pg_call {
    struct bl_list link;
    const char *sql;
    bool joined; /* in one transaction with the next call */
    int count;
    Oid types[PG_PARAMETERS_MAX];
    const char *values[PG_PARAMETERS_MAX];
    int sizes[PG_PARAMETERS_MAX];
    PGresult *result; /* NULL: none arrived */
    bool answered;    /* its transaction has ended: rows alone do not answer it */
};

/* Makes a call. Its parameters are in the arena, or stay where they are: i int64_t, u uint64_t
 * (limited to INT64_MAX), d double, o bool (int), w int64_t nanoseconds since 1970 as a time, v the
 * same, null if 0, s const char * (NULL: null), t struct bl_text as text, b struct bl_text as bytes,
 * j the same, null if empty. A capital letter is an array: a pointer to its struct pg_array. */
struct pg_call *pg_call_new(struct bl_arena *arena, const char *sql, const char *types, ...);
/* The parameters "uuddo" of a struct bl_spent. */
#define PG_SPENT(s)                                                                                \
    (s)->usage.input_tokens, (s)->usage.output_tokens, (s)->cost_usd, (s)->cost_usd_max,           \
        (int)(s)->cost_unknown
/* Copies the parameters into the arena. */
void pg_call_keep(struct pg_call *call, struct bl_arena *arena);
void pg_call_done(struct pg_call *call); /* clears the result */

/* An array parameter under construction. */
struct pg_array {
    char type; /* the letter of its elements */
    uint32_t count;
    struct bl_buffer bytes;
};

void pg_array_init(struct pg_array *array, char type);
void pg_array_done(struct pg_array *array);
void pg_array_add_integer(struct pg_array *array, int64_t value); /* i, u, o, w */
void pg_array_add_real(struct pg_array *array, double value);
void pg_array_add_text(struct pg_array *array, struct bl_text text);     /* t, b */
void pg_array_add_optional(struct pg_array *array, struct bl_text text); /* t, b; empty: null */

/* Rows of a result. */
int pg_rows(const struct pg_call *call);
struct store_row pg_row(struct pg_call *call, int number);

/* Rows without their call, in an arena. Any thread may read them. */
struct pg_kept {
    int rows;
    int columns;
    struct bl_text *values; /* row by row; NULL is null */
};

void pg_keep_rows(const struct pg_call *call, struct bl_arena *arena, struct pg_kept *ret_kept);
void pg_kept_copy(const struct pg_kept *kept, struct bl_arena *arena, struct pg_kept *ret_copy);
struct store_row pg_kept_row(struct pg_kept *kept, int number);

/* ---- link.c: a connection ---- */

struct pg_store;

struct pg_link {
    struct pg_store *store;
    PGconn *conn; /* NULL: not connected */
    struct bl_descriptor *descriptor;
    uint64_t connection; /* counts them */
    uint64_t silence_ns; /* an answer that takes longer is not waited for */
};

/* Connects, or returns at once if the link is open. */
int pg_link_open(struct pg_link *link, struct bl_error *error);
void pg_link_close(struct pg_link *link);
/* Runs calls (struct pg_call) as one pipeline. 0: all have been answered, if only with an error,
 * which pg_failed reports. BL_EPIPE: the connection is lost; calls without an answer may have taken
 * place or not. BL_ECANCELED: the running fiber was stopped; as before. */
int pg_link_run(struct pg_link *link, struct bl_list *calls, struct bl_error *error);
/* Runs the calls of one transaction, on an open link. As pg_link_run; also returns the first error of
 * a call. After a conflict with another transaction it is run again, at most PG_TRIES_MAX times. */
int pg_link_ask_all(struct pg_link *link, struct bl_list *calls, const char *operation,
                    struct bl_error *error);
/* The same for one call. */
int pg_link_ask(struct pg_link *link, struct pg_call *call, const char *operation,
                struct bl_error *error);
/* Returns 0, or the code of the error of an answered call, with `error` set. */
int pg_failed(const struct pg_link *link, const struct pg_call *call, const char *operation,
              struct bl_error *error);
/* Returns the SQLSTATE of a call; empty if it has none. */
const char *pg_state(const struct pg_call *call);
/* True if the call failed because of a conflict with another transaction: run it again. */
bool pg_transient(const struct pg_call *call);
#define PG_TRIES_MAX 20

/* Calls of commits and holds are short. Others may read or write whole sessions. */
#define PG_SILENCE_NS      (2 * BL_NS_PER_S)
#define PG_SILENCE_LONG_NS (60 * BL_NS_PER_S)

/* ---- postgres.c ---- */

#define PG_SCHEMA_VERSION 1

struct pg_store {
    struct pg_address address;
    struct bl_client *resolver;
    bool reading;
    struct store_identity self;
    char owner[32];   /* the worker's id */
    uint64_t gone_ns; /* since when there has been no connection; 0: there is one */
    bool registered;
    uint64_t beat_ns; /* when the last answered heartbeat was sent */
    int64_t schema;   /* version */
    int64_t lease_ms;
    int64_t renew_ms;
    struct bl_list raised; /* struct pg_raised: epochs that writes on their way do not know */
    struct pg_link work;
    struct pg_link read;
    struct pg_link control;     /* heartbeats, notifications */
    struct bl_lock controls;    /* held by the fiber that uses it */
    uint64_t connection;        /* of `control` */
    int64_t server_started;     /* as it said over `control` */
    struct bl_scope *listening; /* of the fiber that has `controls` and waits; NULL: none */
    unsigned wanted;            /* other fibers that wait for `controls` */
    uint64_t heard;             /* connection of `control` that listens */
    bool deaf;                  /* it cannot */
    struct pg_link queue;
    struct bl_lock queues; /* held by the fiber that uses it */
    struct bl_arena place; /* the next members */
    const char *pool;      /* NULL: this worker claims nothing */
    struct bl_text *labels;
    size_t label_count;
    uint32_t slots;
    double mark; /* rank of the item that was claimed last: claims continue from there */
    struct bl_fleet_store fleet;
    struct store_lane *reader; /* its jobs run over `read` */
    struct bl_scope shield;
    struct bl_nursery service; /* a fiber for each link */
};

/* Jobs on their way over a link. */
struct pg_work {
    struct pg_store *store;
    struct pg_link *link;
    struct bl_arena arena;
};

/* An operation: one call, or several steps. */
struct pg_operation {
    /* Makes the job's call, in the arena of the work. */
    struct pg_call *(*call)(struct pg_work *work, struct store_job *job);
    /* Reads its answer, if that is not a failure. Returns the job's code, or BL_EPIPE as below. */
    int (*take)(struct pg_work *work, struct store_job *job, struct pg_call *call,
                struct bl_error *error);
    /* Instead of these: runs the job. BL_EPIPE: the connection is lost, and the job is run again;
     * BL_ECANCELED: the store is being closed. */
    int (*run)(struct pg_work *work, struct store_job *job, struct bl_error *error);
    /* It must not be repeated: without an answer, its outcome is unknown. */
    bool once;
};

/* Ends a job. Sets its error from the code if it has none. */
void pg_settle(struct store_job *job, int code);
/* Runs one call of a job; as pg_link_ask. Clear its result afterwards. */
int pg_ask(struct pg_work *work, struct pg_call *call, struct bl_error *error);

/* Checks that server and schema can be used, and reads the schema's version and settings into the
 * store of an open link. */
int pg_check_server(struct pg_link *link, struct bl_error *error);

/* ---- worker.c ---- */

/* Registers this process as a worker, if it is not one yet. */
int pg_register(struct pg_work *work, struct bl_error *error);
/* Columns of a lease for store_lease_read, of `s` (a session or feature) with its last holder `w`:
 * a lease whose worker is not at work is not held. It has no end by any clock. */
#define PG_LEASE_COLUMNS                                                                           \
    "s.epoch, case when w.state in ('live', 'draining') then s.owner end, s.handle, w.pid,"        \
    " w.started, s.since, timestamptz '2262-01-01', w.host, w.boot, w.pid_space"
#define PG_LEASE_WORKER "left join belay.worker w on w.id = coalesce(s.owner, s.holder)"
extern const struct pg_operation pg_renew;
/* Runs calls over the control link, which it opens; the caller has the lock. */
int pg_control_run(struct pg_store *store, struct pg_call *const *calls, size_t count,
                   struct bl_error *error);
/* Functions of the table bl_fleet_store. */
int pg_fleet_beat(void *context, struct bl_arena *arena, struct bl_fleet_beat *ret_beat,
                  struct bl_error *error);
int pg_fleet_take_over(void *context, const char *worker, uint64_t beat, bool *ret_taken,
                       struct bl_error *error);
/* Sends a heartbeat, unless the last one is recent. `*ret_live` false: the worker is lost, and must
 * register again. */
int pg_beat(struct pg_work *work, bool *ret_live, struct bl_error *error);

/* ---- queue.c ---- */

enum {
    PG_ONCE = 1, /* not to be repeated after the loss of a connection */
    PG_SLOW = 2, /* may be large */
};

/* Runs a call over the link of the queue, again if others are in the way or the connection is lost,
 * for at most BL_STORE_NS_MAX. */
int pg_queue_ask(struct pg_store *store, struct pg_call *call, unsigned how, const char *operation,
                 struct bl_error *error);
const struct bl_fleet_store *pg_fleet(void *state);

/* ---- stop.c: functions of the same table ---- */

int pg_answer(void *context, const char *stop, const char *item, const char *fate,
              struct bl_text receipt, struct bl_error *error);
int pg_stop(void *context, struct bl_arena *arena, const char *target, const char *part,
            const char *origin, bool now, const char **ret_stop, struct bl_error *error);
int pg_stopped(void *context, struct bl_arena *arena, const char *stop, struct bl_list *ret_items,
               struct bl_error *error);

/* ---- listen.c ---- */

/* Take and give the lock of the control link. */
int pg_control_take(struct pg_store *store);
void pg_control_give(struct pg_store *store);
int pg_listen(void *context, uint64_t limit_ns);

/* ---- hold.c ---- */

extern const struct pg_operation pg_hold, pg_release;
/* Makes the arrays of a claim: the open handles of the claimant, and a worker that was seen dead on
 * this host (`dead`; empty: none). */
void pg_claim_init(struct pg_array *handles, struct pg_array *workers,
                   const struct store_claimant *claimant, const char *dead);
/* Calls store_identity_settle on a worker thread, which a stop of the store abandons. */
int pg_settle_processes(const struct store_identity *self, const struct store_identity *gone,
                        struct bl_wardens_end *ret_end);

/* ---- turn.c ---- */

extern const struct pg_operation pg_begin, pg_commit, pg_reject, pg_note, pg_compact,
    pg_checkpoint_put;
/* Run all turns that begin, or commit, as one call; BL_EPIPE and BL_ECANCELED as above. */
int pg_run_begins(struct pg_work *work, struct bl_list *jobs);
int pg_run_commits(struct pg_work *work, struct bl_list *jobs);
/* Sets the error of a write whose fence was refused or whose session was deleted. */
int pg_refuse_stale(struct pg_work *work, const struct store_write *write, struct bl_error *error);
/* Reads a body; NULL if it is empty or damaged. */
const struct bl_json *pg_body(struct bl_arena *arena, struct bl_text body);
/* Returns NULL if it is not a string that a column can hold; `value` may be NULL. */
const char *pg_string(struct bl_arena *arena, const struct bl_json *value);
/* Returns the id of the receipt in a result, or the run that a receipt is about; NULL: none. */
const char *pg_receipt_id(struct bl_arena *arena, struct bl_text result);
const char *pg_receipt_scope(struct bl_arena *arena, struct bl_text receipt);

/* ---- doubt.c ---- */

/* Makes sure that writes without an answer can no longer take place, settles the commits among them,
 * and gives all jobs the present epochs. Call it first. If it fails, some jobs are still in doubt, and
 * none may be run. */
int pg_settle_doubts(struct pg_work *work, struct bl_list *jobs);
/* Forgets the epoch of a hold that has ended. */
void pg_doubt_forget(struct pg_store *store, uint64_t handle);
void pg_doubts_free(struct pg_store *store);

/* ---- cell.c ---- */

extern const struct pg_operation pg_cell_admit, pg_cell_started, pg_cell_yield, pg_cell_end,
    pg_cell_bury, pg_cell_withdraw, pg_cells_forget, pg_cells_load, pg_cell_buried;

/* ---- task.c ---- */

extern const struct pg_operation pg_task_begin, pg_task_end, pg_task_settle, pg_task_get;

/* ---- feature.c ---- */

extern const struct pg_operation pg_feature_hold, pg_feature_write, pg_feature_release,
    pg_feature_load, pg_feature_events, pg_feature_list;
/* A write with nothing to write. */
extern const struct pg_operation pg_feature_renew;
bool pg_feature_only_renews(struct store_job *job);

/* ---- status.c ---- */

/* Connects to a database for one command; end it with pg_visit_end, also after a failure. */
int pg_visit(struct pg_store *store, const char *where, bool reading, const char *application,
             struct bl_error *error);
void pg_visit_end(struct pg_store *store);

/* ---- look.c ---- */

extern const struct pg_operation pg_checkpoint_get, pg_list, pg_show, pg_turns;
/* Asks for ids, and finds the one that is closest to the word. Clears the call. */
int pg_suggest(struct pg_work *work, struct pg_call *ids, const char *word,
               struct store_suggestion *ret_suggestion, struct bl_error *error);
/* There is no session with that id: suggests a similar one. */
int pg_refuse_missing(struct pg_work *work, const char *id, struct bl_error *error);
/* Runs calls that only read as one pipeline, in which all of them see the same moment. As
 * pg_link_ask_all. Clear the results afterwards. */
int pg_ask_all(struct pg_work *work, struct pg_call *const *calls, size_t count,
               struct bl_error *error);
void pg_calls_done(struct pg_call *const *calls, size_t count);
/* Lets other fibers run after some rows, `row` being the number of the last one. */
void pg_breathe(int row);

/* ---- find.c ---- */

extern const struct pg_operation pg_find;

/* ---- import.c, move.c ---- */

extern const struct pg_operation pg_import, pg_fork, pg_delete;

/* ---- export.c ---- */

extern const struct pg_operation pg_export_page;

struct store_cursor *pg_export_new(const void *state, const char *id);
int pg_export_next(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error);
void pg_export_free(struct store_cursor *cursor);

#endif
