/* store: durable sessions. It implements the engine's store interface (turn.h).
 *
 * The interface does not depend on how data is kept: in one SQLite file, or in a PostgreSQL database
 * for several machines. A session is a list of committed turns. Rejected attempts, the journal of
 * events, receipts and checkpoints are kept with it. A session has one writer: a lease with an
 * epoch, which every write checks in its own transaction.
 *
 * Promises: a turn is in the store completely or not at all, at every instruction. A commit that
 * was confirmed is durable; one that was refused never reappears. A file that is not a store, is
 * damaged, or was made by a newer Belay is never written to. Writers of several sessions share
 * commits.
 *
 * All functions that reach a store are called in fibers and wait there; the work is done on a worker
 * thread, or on the loop over a connection. */
#ifndef BELAY_STORE_H
#define BELAY_STORE_H

#include <belay/proc.h>
#include <belay/turn.h>

BL_PUBLIC_BEGIN

struct bl_store;

/* Returns $XDG_DATA_HOME/belay/sessions.db or ~/.local/share/belay/sessions.db, in the arena.
 * BL_ENOENT: neither variable is set. */
int bl_store_default_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error);

/* Returns whether a store is named by the address of a database, postgres:// or postgresql://; any
 * other name is the path of a file. */
bool bl_store_is_database(const char *where);
/* Returns the name of a store for people and logs: the path, or the address without passwords, in the
 * arena. */
const char *bl_store_shown(struct bl_arena *arena, const char *where);
/* Returns whether an address has a password, and the first one, unescaped, in the arena. */
bool bl_store_password(struct bl_arena *arena, const char *where, struct bl_text *ret_password);

/* Opens a store: a file, or a database by its postgres:// address. Creates a missing file (0600) and
 * its folders (0700), and upgrades an older schema. Errors of kind filesystem (not accessible, not a
 * store, damaged, newer, disk full, read-only), session (a database that cannot be used) and usage
 * (an invalid address) name the file or the database, never a password, and say what to do. */
int bl_store_open(const char *where, struct bl_store **ret_store, struct bl_error *error);
/* Opens a store for reading. BL_ENOENT: there is no file. Every write is refused. An older schema
 * is upgraded; if that fails, so does the call. */
int bl_store_open_reading(const char *where, struct bl_store **ret_store, struct bl_error *error);
/* Closes a store whose sessions are all closed. A store whose thread is blocked stays open until
 * the process exits. NULL is allowed. */
void bl_store_close(struct bl_store *store);
const char *bl_store_where(const struct bl_store *store);
/* Reads every page of a store, which takes time in proportion to its size. Returns 0 if it can be
 * used, otherwise the errors of bl_store_open_reading. */
int bl_store_check(const char *where, struct bl_error *error);
/* Renames a file that cannot be used, and the files that belong to it, to WHERE.aside-TIME; the
 * path is in the arena. No process may have the file open. BL_EINVAL, kind usage: a database. */
int bl_store_move_aside(struct bl_arena *arena, const char *where, const char **ret_path,
                        struct bl_error *error);

/* ---- A database as a store ------------------------------------------------------------------- */

/* Creates the schema `belay` in the database at a postgres:// address, in one transaction. BL_EEXIST:
 * it is there already. */
int bl_store_create(const char *where, struct bl_error *error);
/* Returns the SQL that bl_store_create runs. */
const char *bl_store_schema(void);

/* A worker without a heartbeat for longer than it should be. */
struct bl_fleet_silent {
    struct bl_list link;
    const char *worker;
    uint64_t beat; /* number of its last heartbeat */
};

/* Where an item of the queue is: it waits, runs, or has ended. */
enum bl_fleet_state {
    BL_FLEET_DELAYED, /* waits for its time */
    BL_FLEET_PARKED,  /* waits for a permit of its limit key */
    BL_FLEET_QUEUED,  /* waits for a worker */
    BL_FLEET_RUNNING,
    BL_FLEET_STOPPING, /* runs, and is asked to stop */
    BL_FLEET_COMPLETED,
    BL_FLEET_FAILED,
    BL_FLEET_CANCELLED,
    BL_FLEET_INTERRUPTED, /* its worker was lost, and it is not repeated */
};
#define BL_FLEET_ENDED(state) ((state) >= BL_FLEET_COMPLETED)
extern const struct bl_names bl_fleet_states;

/* An item that this worker owns. */
struct bl_fleet_owned {
    struct bl_list link;
    const char *id;
    uint64_t epoch;
};

/* A stop that this worker has to carry out, and has not answered. */
struct bl_fleet_order {
    struct bl_list link;
    const char *stop; /* its id */
    const char *item; /* that it is for; or the session, if there is no item */
    const char *part; /* of the item, such as a call; NULL: all of it */
    const char *origin;
    bool now; /* without grace periods */
};

/* The answer to a heartbeat. The lists are initialised by the caller, their members in the arena. */
struct bl_fleet_beat {
    bool live; /* false: another worker has taken over, and this one holds nothing any more */
    uint64_t lease_ns;
    uint64_t renew_ns;     /* between heartbeats */
    uint64_t connection;   /* changes with each connection and each start of the server */
    struct bl_list silent; /* struct bl_fleet_silent */
    bool draining;         /* this worker is to claim nothing more, and to end */
    bool waiting;          /* items are queued in its pool */
    uint32_t workers_live; /* that claim from its pool; 0: not known */
    struct bl_list owned;  /* struct bl_fleet_owned */
    struct bl_list orders; /* struct bl_fleet_order */
};

/* What a worker that claims items is: what it is listed as, and what it may claim. */
struct bl_fleet_place {
    const char *pool;
    const char *const
        *labels; /* KEY=VALUE, NULL-terminated; an item needs all of its labels here */
    uint32_t slots;
};

/* A claimed item. */
struct bl_fleet_item {
    struct bl_list link;
    const char *id;      /* run_… */
    struct bl_text spec; /* JSON, as it was offered */
    const char *session; /* that an earlier try used; NULL: none */
    uint64_t epoch;
    uint32_t tries;  /* that ended and were retried */
    uint32_t deaths; /* of workers under it */
    bool timed;
    uint64_t left_ns; /* until its deadline, counted from the moment before the claim was sent */
};

/* The end of a try. */
struct bl_fleet_end {
    const char *id;
    uint64_t epoch;
    /* One that has ended; BL_FLEET_DELAYED: it is retried; BL_FLEET_QUEUED: it is given back, and
     * another worker may claim it at once. */
    enum bl_fleet_state state;
    uint64_t retry_ns; /* BL_FLEET_DELAYED: from now */
    int exit_code;
    const char *session;     /* NULL: it had none */
    const char *fate;        /* of the work, for the receipt of a stop */
    struct bl_text envelope; /* what `belay run` would have printed; empty: none */
    struct bl_text receipt;  /* of its stop; empty: it was not stopped */
};

/* An item, as everyone may see it. */
struct bl_fleet_view {
    struct bl_list link;
    const char *id;
    const char *kind;
    enum bl_fleet_state state;
    const char *pool;
    const char *session;   /* NULL: none yet */
    const char *worker;    /* NULL: none yet */
    const char *host;      /* of the worker */
    const char *submitter; /* user of the database */
    uint32_t tries, deaths;
    int64_t age_ms;          /* since it was offered, by the server's clock */
    int exit_code;           /* of an ended item; likewise the next */
    struct bl_text envelope; /* only of bl_fleet_store.look; likewise the next */
    struct bl_text receipt;
    struct bl_text spec;
};

struct bl_fleet_list {
    const char *pool; /* NULL: all; likewise the next */
    const char *key;  /* fairness key */
    bool chosen;      /* only items in `state` */
    enum bl_fleet_state state;
    bool ended;        /* also those that have ended, unless `chosen` */
    const char *after; /* id of the last item of the page before; NULL: the first page */
    uint32_t most;
};

/* One item that a stop is for. */
struct bl_fleet_stopped {
    struct bl_list link;
    const char *item;
    const char *worker; /* NULL: it was not running */
    const char *host;
    int64_t silent_ms;      /* since the last heartbeat of the worker, by the server's clock */
    const char *fate;       /* NULL: not answered yet */
    bool fenced;            /* nothing that its worker writes from now on can enter the store */
    struct bl_text receipt; /* of its worker; empty: none */
};

/* What the workers of a fleet (fleet.h) do in their store. Each function waits in the running fiber,
 * and may be stopped there: then its outcome is unknown. */
struct bl_fleet_store {
    void *context;
    /* Registers this worker if necessary, and renews its lease. */
    int (*beat)(void *context, struct bl_arena *arena, struct bl_fleet_beat *ret_beat,
                struct bl_error *error);
    /* Takes away what a worker holds, unless it has sent another heartbeat. */
    int (*take_over)(void *context, const char *worker, uint64_t beat, bool *ret_taken,
                     struct bl_error *error);

    /* ---- For workers that claim items ---- */

    /* Lists this worker with a place, from the next heartbeat on; it is copied. */
    void (*enlist)(void *context, const struct bl_fleet_place *place);
    /* Claims at most `most` items for its place; `ret_items` (struct bl_fleet_item) is empty if none
     * fits. Counts as a heartbeat of the lease for nobody: only `beat` renews it. */
    int (*claim)(void *context, struct bl_arena *arena, uint32_t most, struct bl_list *ret_items,
                 struct bl_error *error);
    /* Takes up an item that this worker owns, but does not run, under a new epoch. BL_ENOENT: it does
     * not own it any more. */
    int (*resume)(void *context, struct bl_arena *arena, const char *id, uint64_t epoch,
                  struct bl_fleet_item *ret_item, struct bl_error *error);
    /* Records the end of a try. `*ret_taken` false: the worker does not own the item any more, and
     * nothing was changed. May be repeated. */
    int (*finish)(void *context, const struct bl_fleet_end *end, bool *ret_taken,
                  struct bl_error *error);
    /* Answers an order with the fate of what it was for, and the receipt. May be repeated. */
    int (*answer)(void *context, const char *stop, const char *item, const char *fate,
                  struct bl_text receipt, struct bl_error *error);
    /* Waits until something may have changed that concerns this worker, at most `limit_ns`. */
    int (*listen)(void *context, uint64_t limit_ns);

    /* ---- For everyone ---- */

    /* Offers an item, described by JSON as in docs/schemas/item.json. `*ret_id` is in the arena: that
     * of an earlier item, if its request_id was used before. BL_EINVAL, kind usage: it is refused. */
    int (*offer)(void *context, struct bl_arena *arena, struct bl_text spec, const char **ret_id,
                 struct bl_error *error);
    /* BL_ENOENT: there is no such item. */
    int (*look)(void *context, struct bl_arena *arena, const char *id,
                struct bl_fleet_view *ret_view, struct bl_error *error);
    /* Lists items (struct bl_fleet_view), the oldest first. */
    int (*list)(void *context, struct bl_arena *arena, const struct bl_fleet_list *list,
                struct bl_list *ret_views, struct bl_error *error);
    /* Stops what has the id `target`: an item, or what holds that session. Waiting items end at once;
     * the work of running ones cannot enter the store from here on. A repeated stop has the id of the
     * first. BL_ENOENT: nothing with that id runs or waits. */
    int (*stop)(void *context, struct bl_arena *arena, const char *target, const char *part,
                const char *origin, bool now, const char **ret_stop, struct bl_error *error);
    /* Reads what has become of a stop, as struct bl_fleet_stopped. */
    int (*stopped)(void *context, struct bl_arena *arena, const char *stop,
                   struct bl_list *ret_items, struct bl_error *error);
};

/* Returns the table of a store that several machines share; NULL: it is a file. */
const struct bl_fleet_store *bl_store_fleet_table(struct bl_store *store);

/* A process that holds sessions of a database, or held some. */
struct bl_store_worker {
    struct bl_list link;
    const char *id;
    const char *host;
    int64_t pid;
    const char *state;         /* live, draining, lost, gone */
    uint64_t heartbeat_age_ms; /* by the server's clock */
    uint64_t sessions;         /* that it holds */
};

struct bl_store_fleet {
    const char *store;      /* the address, without passwords */
    const char *server;     /* version of PostgreSQL, such as 15.4 */
    double round_trip_ms;   /* of a statement that does nothing */
    int64_t schema;         /* version */
    uint64_t lease_ms;      /* of a worker */
    uint64_t renew_ms;      /* between its heartbeats */
    uint64_t workers_total; /* also those that are not in the list */
    struct bl_list workers; /* struct bl_store_worker, newest heartbeat first; at most 1,000 */
};

/* Reads the state of a database, over a connection of its own, into the arena. Workers that have
 * ended are listed only with `ended`. Errors as of bl_store_open_reading; BL_EINVAL, kind usage: not
 * the address of a database. */
int bl_store_fleet_read(const char *where, bool ended, struct bl_arena *arena,
                        struct bl_store_fleet *ret_fleet, struct bl_error *error);

/* ---- Holding a session ----------------------------------------------------------------------- */

struct bl_store_session;

struct bl_store_hold_options {
    const char *id;        /* NULL: the session of request_id, or a new one */
    bool newest;           /* id NULL: the newest session of this directory, which must exist; never
                              one of a sub-agent */
    bool must_exist;       /* the session `id` must exist */
    bool fork;             /* continue in a copy of the named session, which must exist and may be
                              held; copied as by bl_store_fork */
    const char *directory; /* of a new session; absolute */
    const char *run_id;
    const char *request_id; /* may be NULL; [A-Za-z0-9._:-]{1,128} */
    struct bl_text prompt;  /* of the run: the title of a new session, and compared when a request
                               is repeated */
    const char *agent_of;   /* of a new session of a sub-agent: the session of its parent agent;
                               NULL: not a sub-agent */
    const char *agent_turn; /* the parent's turn that started it */
    const char *persona;
};

/* The state in which the last holder left the session. */
struct bl_store_recovery {
    bool owner_died;
    char owner[160];             /* "pid 4711 on host, since …" */
    char cut_off[BL_ID_SIZE];    /* the attempt that was running and is not in the session */
    char receipt_id[BL_ID_SIZE]; /* of that attempt or of background processes, written now with
                                    reason owner_died; empty: there was nothing to stop */
    struct bl_wardens_end left;  /* with either of these: the end of the owner's processes */
    char last_turn[BL_ID_SIZE];  /* newest committed turn; may be empty */
    uint64_t turns_total;
};

/* Returns a text for users, in the arena: "The last owner of session x (pid …) died; its turn … was
 * cut off and is not in the session. Nothing left running." */
struct bl_text bl_store_recovery_text(struct bl_arena *arena, const char *session,
                                      const struct bl_store_recovery *recovery);

/* Holds a session, in one transaction: creates it if necessary, takes its lease with a new epoch,
 * settles what a dead holder left, and registers the run. Fills `*session` (initialised by the
 * caller) with counters and context. Errors of kind session: not found (BL_ENOENT, with a
 * suggestion in the hint), held (BL_EBUSY, with the holder); kind usage: request_id was used with
 * another prompt or session. */
int bl_store_hold(struct bl_store *store, const struct bl_store_hold_options *options,
                  struct bl_session *session, struct bl_store_session **ret_held,
                  struct bl_error *error);
/* Releases the lease, unless it is unknown whether a commit took place: the next open finds out.
 * NULL is allowed. */
void bl_store_release(struct bl_store_session *held);
const struct bl_turn_store *bl_store_session_table(const struct bl_store_session *held);
const struct bl_store_recovery *bl_store_session_recovery(const struct bl_store_session *held);
/* Returns the committed results of this request's run, as JSON; empty after the last. */
struct bl_text bl_store_session_recorded(const struct bl_store_session *held, size_t index);
/* Renews the lease; call it every 5 s while the session is held. BL_EBUSY, kind session: another
 * process holds it. */
#define BL_STORE_RENEW_NS (5 * BL_NS_PER_S)
int bl_store_renew(struct bl_store_session *held, struct bl_error *error);

/* Writes a checkpoint under the session's epoch; replaces one with the same name. */
int bl_store_checkpoint_put(struct bl_store_session *held, const char *name, struct bl_text json,
                            struct bl_error *error);
/* Reads a checkpoint. BL_ENOENT: there is none with that name. */
int bl_store_checkpoint_get(struct bl_store *store, struct bl_arena *arena, const char *session,
                            const char *name, struct bl_text *ret_json, struct bl_error *error);

/* ---- Cells of a session ---------------------------------------------------------------------- */

/* A cell as the store keeps it (explained in cell.h). Every write is under the session's epoch.
 * Members of type bl_text are stored unchanged. */
struct bl_store_cell {
    struct bl_list link;
    struct bl_text id;
    struct bl_text digest; /* 32 bytes */
    int64_t created_wall_ns;
    int64_t deadline_ms;
    int64_t pid;                 /* of its worker; 0: unknown */
    int64_t pid_started;         /* in ticks since boot, from /proc */
    uint64_t yielded_generation; /* 0: none is retained */
    struct bl_text yielded;      /* its outcome, JSON */
    uint64_t generation;         /* latest decided one; of an ended cell that of its end */
    struct bl_text terminal;     /* JSON; empty: not ended */
    bool completed;
    int64_t ended_wall_ns;
};

struct bl_store_value {
    struct bl_list link;
    struct bl_text key;
    struct bl_text json; /* empty: deleted */
};

/* Returns all cells and values, oldest first, in the arena: `ret_cells` of struct bl_store_cell,
 * `ret_values` of struct bl_store_value. */
int bl_store_cells_load(struct bl_store_session *held, struct bl_arena *arena,
                        struct bl_list *ret_cells, struct bl_list *ret_values,
                        struct bl_error *error);
/* Admits a new cell with id, digest, created_wall_ns, deadline_ms, pid and pid_started. Survives
 * the end of the process. BL_EEXIST: a cell or tombstone has this id and digest; BL_EBUSY: one has
 * this id and another digest. A failed admission leaves nothing, even if the caller was stopped
 * before the store answered: it is withdrawn before the next admission, or when the session is
 * released. */
int bl_store_cell_admit(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error);
/* Records the worker of an admitted cell. Here and below, BL_ENOENT: there is no such cell. */
int bl_store_cell_started(struct bl_store_session *held, struct bl_text id, int64_t pid,
                          int64_t pid_started, struct bl_error *error);
/* Writes generation and yielded, replacing the previous ones; survives the end of the process.
 * BL_EEXIST: the cell has ended. */
int bl_store_cell_yield(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error);
/* Ends a cell in one synced transaction: writes yielded_generation, yielded, generation, terminal,
 * completed and ended_wall_ns, its values (struct bl_store_value; may be NULL) and its receipt (may
 * be empty). A cell ends once: the same end again returns 0, a different one BL_EEXIST.
 * BL_EUNKNOWN: it is unknown whether the end is in the store; a later call that returns 0 or
 * BL_EEXIST settles that. */
int bl_store_cell_end(struct bl_store_session *held, const struct bl_store_cell *cell,
                      const struct bl_list *values, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error);
/* Turns an ended cell into a tombstone. Removes the oldest tombstones of the store beyond
 * `tombstones_max` and `tombstone_ns_max`, at most 1,024 per call. BL_EBUSY: the cell has not
 * ended. */
int bl_store_cell_bury(struct bl_store_session *held, struct bl_text id, int64_t wall_ns,
                       uint64_t tombstones_max, uint64_t tombstone_ns_max, struct bl_error *error);
/* Returns whether a tombstone has this id. */
int bl_store_cell_buried(struct bl_store_session *held, struct bl_text id, bool *ret_buried,
                         struct bl_error *error);
/* Deletes the cells, tombstones and values of the session; synced. */
int bl_store_cells_forget(struct bl_store_session *held, struct bl_error *error);
/* Returns the number of processes on this machine with that pid and start time: 0 or 1. */
uint32_t bl_store_process_alive(int64_t pid, int64_t pid_started);
/* Returns the start time of that process in ticks, or 0 if it does not exist. */
int64_t bl_store_process_started(int64_t pid);

/* ---- Features -------------------------------------------------------------------------------- */

/* A feature as the store keeps it (explained in feature.h), identified by repository and id, in a
 * database also by the host of the process that holds it: named records, each a JSON object, a
 * journal of events, and a lease with an epoch. A generation is a new set of records; older
 * generations are kept. */
struct bl_row {
    struct bl_list link;
    const char *name;
    struct bl_text json;
};

struct bl_store_feature;

/* The owner of a feature's lease. */
struct bl_store_owner {
    enum {
        BL_OWNER_NONE,
        BL_OWNER_ALIVE,        /* on this host */
        BL_OWNER_DEAD,         /* it never released the lease */
        BL_OWNER_OUT_OF_SIGHT, /* on another host or in a PID namespace that is not visible from
                                  here, with a lease that has not expired */
    } life;
    int64_t pid;
    int64_t pid_started;
    int64_t seen_wall_ns;       /* time of its last write */
    char text[160];             /* "pid 4711 on host, since …" */
    struct bl_wardens_end left; /* with BL_OWNER_DEAD when its lease was taken: the end of its
                                   processes */
};

struct bl_store_feature_options {
    const char *repository; /* absolute, symbolic links resolved */
    const char *id;
    const char *name;
    const char *run_id;
    bool must_exist;
};

/* Holds a feature with a new epoch; creates it if necessary. `*ret_owner` is the previous owner; if
 * it is BL_OWNER_DEAD there may be work to settle. BL_EBUSY, kind session: held by a live owner,
 * which is in `*ret_owner`; BL_ENOENT, kind feature, with a suggestion. */
int bl_store_feature_hold(struct bl_store *store, const struct bl_store_feature_options *options,
                          struct bl_store_feature **ret_held, struct bl_store_owner *ret_owner,
                          struct bl_error *error);
/* Releases the lease, unless a write has failed: then the next holder finds a dead owner and
 * settles its work. NULL is allowed. */
void bl_store_feature_release(struct bl_store_feature *held);
uint64_t bl_store_feature_epoch(const struct bl_store_feature *held);
uint64_t bl_store_feature_generation(const struct bl_store_feature *held);

struct bl_store_feature_write {
    const struct bl_list *records; /* struct bl_row: each replaces the record with its name, or
                                      deletes it if the JSON is empty; may be NULL */
    const struct bl_text *events;  /* JSON objects that are appended to the journal */
    size_t event_count;
    bool new_generation; /* first start a new generation, without records */
    bool durable;        /* survives power loss; otherwise only the end of the process */
};

/* Writes in one transaction under the epoch, and renews the lease; with nothing to write it only
 * renews it. BL_EBUSY, kind session, name `stale_write`: another process holds the feature, and
 * nothing was changed; in a database, a renewal may be answered without asking it. Errors of kind
 * filesystem, or session in a database: nothing was written, or (BL_EUNKNOWN) that is unknown. */
int bl_store_feature_write(struct bl_store_feature *held,
                           const struct bl_store_feature_write *write, struct bl_error *error);

/* Returns the records of the newest generation whose names begin with `prefix` (NULL: all), sorted
 * by name, in the arena. Needs no lease. BL_ENOENT, kind feature, with a suggestion. `ret_owner`
 * and `ret_generation` may be NULL. */
int bl_store_feature_load(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          const char *id, const char *prefix, struct bl_list *ret_records,
                          struct bl_store_owner *ret_owner, uint64_t *ret_generation,
                          struct bl_error *error);
/* Returns the events after number `after` (0: from the start of the newest generation), at most
 * `limit` (0: all). The name of each record is its number. Numbers increase by one across all
 * generations. */
int bl_store_feature_events(struct bl_store *store, struct bl_arena *arena, const char *repository,
                            const char *id, uint64_t after, uint64_t limit,
                            struct bl_list *ret_events, struct bl_error *error);

struct bl_store_feature_summary {
    struct bl_list link;
    const char *repository;
    const char *id;
    const char *name;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    struct bl_store_owner owner;
    struct bl_text record; /* the record named "feature"; may be empty */
};

/* Lists features, newest first. `repository` NULL: of all repositories. */
int bl_store_feature_list(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          struct bl_list *ret_summaries, struct bl_error *error);

/* ---- Reading and moving sessions ------------------------------------------------------------- */

struct bl_store_summary {
    struct bl_list link;
    const char *id;
    const char *directory;
    const char *title;
    const char *parent;     /* forked from; NULL: not a fork */
    const char *agent_of;   /* parent session of a sub-agent's session; NULL: not a sub-agent */
    const char *agent_turn; /* the turn that started it */
    const char *persona;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    uint64_t turns;
    uint64_t attempts; /* rejected or cut off */
    struct bl_usage usage;
    struct bl_spent spent;
    const char *held_by; /* "pid 4711 on host"; NULL: no live holder */
};

/* Lists sessions, newest first. `directory` NULL: of all directories; `limit` 0: all; `agents`:
 * include those of sub-agents. */
int bl_store_list(struct bl_store *store, struct bl_arena *arena, const char *directory,
                  uint64_t limit, bool agents, struct bl_list *ret_summaries,
                  struct bl_error *error);

/* Selects a page of the list: the sessions after the one with that time and id, in the same order.
 */
struct bl_store_list_options {
    const char *directory; /* NULL: of all directories */
    uint64_t limit;        /* 0: all */
    bool agents;           /* include those of sub-agents */
    const char *after_id;  /* NULL: from the first */
    int64_t after_updated_wall_ns;
};
int bl_store_list_page(struct bl_store *store, struct bl_arena *arena,
                       const struct bl_store_list_options *options, struct bl_list *ret_summaries,
                       struct bl_error *error);
/* Returns one session. BL_ENOENT: there is no such session. */
int bl_store_summary(struct bl_store *store, struct bl_arena *arena, const char *id,
                     struct bl_store_summary *ret_summary, struct bl_error *error);

/* A piece of work, found by its id: a run (also of a feature), a session, a turn, a receipt, a cell
 * (SESSION/CELL, or only its id if that is unique), a feature, or a task of a feature (FEAT/TASK,
 * or only its id; with the path of the repository and a slash in front if several repositories have
 * it). */
struct bl_store_work {
    const char *kind;       /* run, session, turn, receipt, cell, feature, task */
    const char *id;         /* full id */
    const char *session;    /* may be NULL */
    bool ended;             /* false: it has begun, and its end is not known */
    struct bl_text result;  /* JSON: of a run or a session that of its newest turn, of a cell its
                               newest outcome, of a feature or task its record; may be empty */
    struct bl_text receipt; /* JSON of its stop; empty: it was not stopped */
};
/* Finds a piece of work by its id; in the arena. BL_ENOENT: not found; BL_EEXIST: ambiguous, and
 * the hint lists the full ids. */
int bl_store_find(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_work *ret_work, struct bl_error *error);

/* A committed turn of a session. Listed oldest first, including turns that were compacted; members
 * that are lost are left out. */
struct bl_store_turn {
    struct bl_list link;
    struct bl_text id;
    bool interrupted;
    struct bl_text messages; /* JSON, the input of bl_messages_read */
};
int bl_store_turns(struct bl_store *store, struct bl_arena *arena, const char *session,
                   struct bl_list *ret_turns, struct bl_error *error);

struct bl_store_session_view {
    struct bl_store_summary summary;
    const struct bl_text *turns; /* results as JSON, oldest first */
    size_t turn_count;
    const struct bl_text *attempts; /* JSON */
    size_t attempt_count;
    const struct bl_text *receipts; /* JSON, oldest first, of stops other than those of turns and
                                       attempts: background commands, cells, and what a dead owner
                                       left */
    size_t receipt_count;
};

/* An attempt of the view. */
extern const struct bl_record bl_store_attempt_record;

/* Returns a session with its turns, attempts and receipts. BL_ENOENT, kind session, with a
 * suggestion. Needs no lease. */
int bl_store_show(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_session_view *ret_view, struct bl_error *error);

/* Writes a session as JSON Lines: a header, turns with messages, attempts, events, receipts,
 * checkpoints, ended cells, values, tombstones, and an end with the number of lines. `write` runs
 * in the calling fiber; a result other than 0 ends the export. */
extern const struct bl_record bl_store_line_record;
/* Returns the messages of a turn, or an event, from such a line as far as it can be read; NULL if
 * it has none. */
void bl_store_line_take(struct bl_arena *arena, const struct bl_json *line,
                        const struct bl_json **ret_messages, const struct bl_json **ret_event);
int bl_store_export(struct bl_store *store, const char *id,
                    int (*write)(void *context, struct bl_text line), void *context,
                    struct bl_error *error);
/* Imports a session completely or not at all. `id` NULL: the id in the file. BL_EPARSE: the error
 * names the line; BL_EEXIST: the id exists. */
int bl_store_import(struct bl_store *store, struct bl_text lines, const char *id,
                    struct bl_arena *arena, const char **ret_id, struct bl_error *error);
/* Deletes a session and all sessions of its sub-agents, or none. BL_EBUSY: one of them has a live
 * holder. */
int bl_store_delete(struct bl_store *store, const char *id, struct bl_error *error);
/* Creates a session with the same committed turns, their summary and stored values, but without
 * cells and sub-agent sessions. It is not a sub-agent's session. `new_id` NULL: a new id. */
int bl_store_fork(struct bl_store *store, const char *id, const char *new_id,
                  struct bl_arena *arena, const char **ret_id, struct bl_error *error);

/* ---- Tasks of other protocols ---------------------------------------------------------------- */

/* Work that a client starts and asks about later by its id, possibly from a later process. */
struct bl_store_task {
    const char *id;
    const char *kind;    /* run, exec */
    const char *session; /* may be NULL */
    int64_t created_wall_ns;
    int64_t ended_wall_ns;   /* 0: working */
    int64_t expires_wall_ns; /* 0: not set yet; it is deleted some time after */
    const char *status;      /* working, completed, failed, cancelled */
    struct bl_text result;   /* result as JSON; may be empty */
    struct bl_text receipt;  /* JSON; may be empty */
    bool owner_alive;        /* of a working task: the process that created it is alive */
};
/* Creates a task that this process owns; synced before it returns. BL_EEXIST: the id exists. */
int bl_store_task_begin(struct bl_store *store, const struct bl_store_task *task,
                        struct bl_error *error);
/* Ends a working task with status, result, receipt, ended (0: now) and expires (0: an hour later).
 * BL_EEXIST: it has ended before; BL_ENOENT: there is no such task. Here and above, BL_EUNKNOWN:
 * the caller was stopped before the store answered, and it is unknown whether the write took place.
 */
int bl_store_task_end(struct bl_store *store, const struct bl_store_task *task,
                      struct bl_error *error);
/* Returns a task, in the arena. BL_ENOENT: there is none, or it has expired. If the owner of a
 * working task has ended, the task is ended as `failed` now (in a store opened for reading it is
 * unchanged, with `owner_alive` false). Expired tasks are deleted meanwhile. */
int bl_store_task_get(struct bl_store *store, struct bl_arena *arena, const char *id,
                      struct bl_store_task *ret_task, struct bl_error *error);

BL_PUBLIC_END

#endif
