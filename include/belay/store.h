/* store: sessions that survive. Fills the engine's table of a store (turn.h).
 *
 * One interface over whatever keeps the bytes; here one SQLite file. A session is a list of
 * committed turns; beside it stand attempts that were rejected, the journal of events, receipts and
 * checkpoints. One writer a session: a lease with an epoch, which every write checks in its own
 * transaction.
 *
 * Promises: a turn is in the store whole or not at all, at every instruction; what was answered as
 * committed is durable; what was answered as refused never comes back; a file that is not ours, is
 * damaged, or was made by a newer belay is never written to. Writers of many sessions share
 * commits.
 *
 * All functions are called in fibers, and wait there; the work is done on a worker thread. */
#ifndef BELAY_STORE_H
#define BELAY_STORE_H

#include <belay/proc.h>
#include <belay/turn.h>

BL_PUBLIC_BEGIN

struct bl_store;

/* $XDG_DATA_HOME/belay/sessions.db, or ~/.local/share/belay/sessions.db; in the arena. BL_ENOENT:
 * neither variable is set. */
int bl_store_default_path(struct bl_arena *arena, const char **ret_path, struct bl_error *error);

/* Opens a store, making file (0600) and folders (0700) that are not there, and brings an older
 * schema up to date. Errors of kind filesystem (cannot, not ours, damaged, newer, disk full,
 * read-only) and usage (a postgres:// address: not in this build) say which file and what to do. */
int bl_store_open(const char *where, struct bl_store **ret_store, struct bl_error *error);
/* The same for reading alone: BL_ENOENT when there is no file. Every write is refused; an older
 * schema is brought up to date all the same, or it is an error that it cannot be. */
int bl_store_open_reading(const char *where, struct bl_store **ret_store, struct bl_error *error);
/* All sessions of it must be closed. A store whose thread hangs is left as it is, for the process
 * to end with. NULL is fine. */
void bl_store_close(struct bl_store *store);
const char *bl_store_where(const struct bl_store *store);
/* Renames a file that cannot be used, with what belongs to it, to WHERE.aside-TIME; in the arena.
 * Nobody may have it open. */
int bl_store_move_aside(struct bl_arena *arena, const char *where, const char **ret_path,
                        struct bl_error *error);

/* ---- A session held for work ----------------------------------------------------------------- */

struct bl_store_session;

struct bl_store_hold_options {
    const char *id;        /* NULL: by request_id, or a new one */
    bool newest;           /* id NULL: the newest of this directory, which must exist; never one of
                              a sub-agent */
    bool must_exist;       /* of id */
    const char *directory; /* of a new one; absolute */
    const char *run_id;
    const char *request_id; /* NULL: none; [A-Za-z0-9._:-]{1,128} */
    struct bl_text prompt;  /* of the run: title of a new session, and what a request is held to */
    const char *agent_of;   /* of a new one that belongs to a sub-agent: the session of the agent
                               above; NULL: of its own */
    const char *agent_turn; /* the turn of it that started this one */
    const char *persona;
};

/* What the last holder left. */
struct bl_store_recovery {
    bool owner_died;
    char owner[160];             /* "pid 4711 on host, since …" */
    char cut_off[BL_ID_SIZE];    /* the attempt that was under way and is not in the session */
    char receipt_id[BL_ID_SIZE]; /* of that, written now: reason owner_died */
    struct bl_wardens_end left;  /* with either: what became of the owner's processes */
    char last_turn[BL_ID_SIZE];  /* newest committed turn; empty: none */
    uint64_t turns_total;
};

/* For people, in the arena: "The last owner of session x (pid …) died; its turn … was cut off and
 * is not in the session. Nothing left running." */
struct bl_text bl_store_recovery_text(struct bl_arena *arena, const char *session,
                                      const struct bl_store_recovery *recovery);

/* Opens a session for work, in one transaction: makes it if need be, takes its lease with a new
 * epoch, settles what a dead holder left, registers the run. Fills `*session` (initialised by the
 * caller) with counters and context. Errors of kind session: not found (BL_ENOENT, with a
 * suggestion in the hint), held (BL_EBUSY: by whom); kind usage: a request_id with another prompt
 * or session. */
int bl_store_hold(struct bl_store *store, const struct bl_store_hold_options *options,
                  struct bl_session *session, struct bl_store_session **ret_held,
                  struct bl_error *error);
/* Gives the lease back, unless the session is in an unknown state: then the next open finds out.
 * NULL is fine. */
void bl_store_release(struct bl_store_session *held);
const struct bl_turn_store *bl_store_session_table(const struct bl_store_session *held);
const struct bl_store_recovery *bl_store_session_recovery(const struct bl_store_session *held);
/* Results of this request's run that were committed before, JSON each; empty past the last. */
struct bl_text bl_store_session_recorded(const struct bl_store_session *held, size_t index);
/* Renews the lease; to be called every 5 s while the session is held. BL_EBUSY, kind session: it is
 * another's now. */
#define BL_STORE_RENEW_NS (5 * BL_NS_PER_S)
int bl_store_renew(struct bl_store_session *held, struct bl_error *error);

/* Under the session's epoch, by name; replaces. */
int bl_store_checkpoint_put(struct bl_store_session *held, const char *name, struct bl_text json,
                            struct bl_error *error);
/* BL_ENOENT: none of that name. */
int bl_store_checkpoint_get(struct bl_store *store, struct bl_arena *arena, const char *session,
                            const char *name, struct bl_text *ret_json, struct bl_error *error);

/* ---- Cells of a session ---------------------------------------------------------------------- */

/* What a store keeps of a cell (cell.h says what it means). Every write is under the session's
 * epoch. `text` members are kept as they are. */
struct bl_store_cell {
    struct bl_list link;
    struct bl_text id;
    struct bl_text digest; /* 32 bytes */
    int64_t created_wall_ns;
    int64_t deadline_ms;
    int64_t pid;                 /* of its worker; 0: not known */
    int64_t pid_started;         /* in ticks since boot, as /proc says */
    uint64_t yielded_generation; /* 0: none is retained */
    struct bl_text yielded;      /* its outcome, JSON */
    uint64_t generation;         /* latest that is decided; of an ended one: of its end */
    struct bl_text terminal;     /* JSON; empty: it has not ended */
    bool completed;
    int64_t ended_wall_ns;
};

struct bl_store_value {
    struct bl_list link;
    struct bl_text key;
    struct bl_text json; /* empty: deleted */
};

/* All that is there, oldest first, in the arena: `ret_cells` of struct bl_store_cell, `ret_values`
 * of struct bl_store_value. */
int bl_store_cells_load(struct bl_store_session *held, struct bl_arena *arena,
                        struct bl_list *ret_cells, struct bl_list *ret_values,
                        struct bl_error *error);
/* id, digest, created_wall_ns, deadline_ms, pid and pid_started of a new one. Durable against the
 * end of the process. BL_EEXIST: a cell or a tombstone has that id and digest; BL_EBUSY: one with
 * another digest. One that failed leaves nothing, also when it was stopped before the store had
 * answered: it is taken back with the next, or when the session is released. */
int bl_store_cell_admit(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error);
/* The worker of an admitted one. Here, and below: BL_ENOENT: there is no such cell. */
int bl_store_cell_started(struct bl_store_session *held, struct bl_text id, int64_t pid,
                          int64_t pid_started, struct bl_error *error);
/* generation and yielded; durable against the end of the process. Takes the place of the one
 * before. BL_EEXIST: the cell has ended. */
int bl_store_cell_yield(struct bl_store_session *held, const struct bl_store_cell *cell,
                        struct bl_error *error);
/* Its end: yielded_generation, yielded, generation, terminal, completed, ended_wall_ns; what it has
 * stored (struct bl_store_value; NULL: nothing); and its receipt (empty: none), in one transaction,
 * synced. A cell ends once: the same end again is 0, another BL_EEXIST. BL_EUNKNOWN: it is in the
 * store, or not; any end that is answered as 0 or BL_EEXIST later settles that. */
int bl_store_cell_end(struct bl_store_session *held, const struct bl_store_cell *cell,
                      const struct bl_list *values, const char *receipt_id, struct bl_text receipt,
                      struct bl_error *error);
/* An ended one becomes a tombstone; the oldest tombstones of the store go beyond `tombstones_max`
 * and `tombstone_ns_max`, at most 1,024 with each call. BL_EBUSY: it has not ended. */
int bl_store_cell_bury(struct bl_store_session *held, struct bl_text id, int64_t wall_ns,
                       uint64_t tombstones_max, uint64_t tombstone_ns_max, struct bl_error *error);
/* Is there a tombstone of that id? */
int bl_store_cell_buried(struct bl_store_session *held, struct bl_text id, bool *ret_buried,
                         struct bl_error *error);
/* Cells, tombstones and values of the session are gone; synced. */
int bl_store_cells_forget(struct bl_store_session *held, struct bl_error *error);
/* Processes with that number and start that are alive here: 0 or 1. */
uint32_t bl_store_process_alive(int64_t pid, int64_t pid_started);
/* The ticks at which that process started; 0: it is not there. */
int64_t bl_store_process_started(int64_t pid);

/* ---- Features -------------------------------------------------------------------------------- */

/* What the store keeps of a feature (feature.h says what it means): records by name, each one JSON
 * object, a journal of events, and a lease with an epoch, for each repository and id. A generation
 * is a whole new set of records; older ones stay. */
struct bl_row {
    struct bl_list link;
    const char *name;
    struct bl_text json;
};

struct bl_store_feature;

/* Who holds a feature. */
struct bl_store_owner {
    enum {
        BL_OWNER_NONE,
        BL_OWNER_ALIVE,        /* on this host */
        BL_OWNER_DEAD,         /* it never gave it back */
        BL_OWNER_OUT_OF_SIGHT, /* on another host, or in a PID namespace that we cannot see into;
                                  its lease still holds */
    } life;
    int64_t pid;
    int64_t pid_started;
    char text[160];             /* "pid 4711 on host, since …" */
    struct bl_wardens_end left; /* BL_OWNER_DEAD, and its lease was taken: what became of its
                                   processes */
};

struct bl_store_feature_options {
    const char *repository; /* absolute, links resolved */
    const char *id;
    const char *name;
    const char *run_id;
    bool must_exist;
};

/* Takes its lease with a new epoch, making the feature if need be. `*ret_owner` is who held it
 * before: with BL_OWNER_DEAD there may be work to settle. BL_EBUSY, kind session: somebody alive
 * holds it (the owner says who); BL_ENOENT, kind feature, with a suggestion. */
int bl_store_feature_hold(struct bl_store *store, const struct bl_store_feature_options *options,
                          struct bl_store_feature **ret_held, struct bl_store_owner *ret_owner,
                          struct bl_error *error);
/* Gives the lease back, unless a write has failed: then whoever holds it next finds a dead owner,
 * and what it left to settle. NULL is fine. */
void bl_store_feature_release(struct bl_store_feature *held);
uint64_t bl_store_feature_epoch(const struct bl_store_feature *held);
uint64_t bl_store_feature_generation(const struct bl_store_feature *held);

struct bl_store_feature_write {
    const struct bl_list *records; /* struct bl_row: each replaces the one of its name; empty
                                      JSON: it goes; may be NULL */
    const struct bl_text *events;  /* JSON, one object each: appended to the journal */
    size_t event_count;
    bool new_generation; /* first begins a new one, without records */
    bool durable;        /* against power loss too; else against the end of the process */
};

/* One transaction under the epoch, which also renews the lease; with nothing to write it does that
 * alone. BL_EBUSY, kind session, name `stale_write`: it is another's now, and not a row was
 * changed. Errors of kind filesystem: nothing was written, or (BL_EUNKNOWN) nobody knows. */
int bl_store_feature_write(struct bl_store_feature *held,
                           const struct bl_store_feature_write *write, struct bl_error *error);

/* Records of the newest generation whose names begin with `prefix` (NULL: all), by name; in the
 * arena. Needs no lease. BL_ENOENT, kind feature, with a suggestion. `ret_owner` and
 * `ret_generation` may be NULL. */
int bl_store_feature_load(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          const char *id, const char *prefix, struct bl_list *ret_records,
                          struct bl_store_owner *ret_owner, uint64_t *ret_generation,
                          struct bl_error *error);
/* Events after number `after` (0: from the first of the newest generation), at most `limit` (0: all
 * of them): each a record whose name is its number. Numbers grow by one, over all generations. */
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
    struct bl_text record; /* the one named "feature"; empty: none */
};

/* Newest first. `repository` NULL: of all. */
int bl_store_feature_list(struct bl_store *store, struct bl_arena *arena, const char *repository,
                          struct bl_list *ret_summaries, struct bl_error *error);

/* ---- Looking, moving ------------------------------------------------------------------------- */

struct bl_store_summary {
    struct bl_list link;
    const char *id;
    const char *directory;
    const char *title;
    const char *parent;     /* forked from; NULL: none */
    const char *agent_of;   /* belongs to a sub-agent of that session; NULL: to none */
    const char *agent_turn; /* started by that turn */
    const char *persona;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    uint64_t turns;
    uint64_t attempts; /* that were rejected or cut off */
    struct bl_usage usage;
    struct bl_spent spent;
    const char *held_by; /* "pid 4711 on host"; NULL: nobody alive */
};

/* Newest first. `directory` NULL: of all; `limit` 0: all of them; `agents`: those of sub-agents,
 * too. */
int bl_store_list(struct bl_store *store, struct bl_arena *arena, const char *directory,
                  uint64_t limit, bool agents, struct bl_list *ret_summaries,
                  struct bl_error *error);

/* A page of them: those after the one with that time and id, in the same order. */
struct bl_store_list_options {
    const char *directory; /* NULL: of all */
    uint64_t limit;        /* 0: all of them */
    bool agents;           /* those of sub-agents, too */
    const char *after_id;  /* NULL: from the first */
    int64_t after_updated_wall_ns;
};
int bl_store_list_page(struct bl_store *store, struct bl_arena *arena,
                       const struct bl_store_list_options *options, struct bl_list *ret_summaries,
                       struct bl_error *error);
/* One of them. BL_ENOENT: there is no such session. */
int bl_store_summary(struct bl_store *store, struct bl_arena *arena, const char *id,
                     struct bl_store_summary *ret_summary, struct bl_error *error);

/* What the store knows of a piece of work by its id: a run (of a feature, too), a session, a turn,
 * a receipt, a cell (SESSION/CELL, or its id alone where there is one of it), a feature, a task of
 * one (FEAT/TASK, or its id alone; the repository's path and a slash before, where several have
 * it). */
struct bl_store_work {
    const char *kind;       /* run, session, turn, receipt, cell, feature, task */
    const char *id;         /* in full */
    const char *session;    /* NULL: none */
    bool ended;             /* else: nobody knows better than that it has begun */
    struct bl_text result;  /* JSON: of a run or a session its newest turn's; of a cell its newest
                               outcome; of a feature or a task its record; empty: none */
    struct bl_text receipt; /* JSON: of its stop; empty: it was not stopped */
};
/* In the arena. BL_ENOENT; BL_EEXIST: several have it, and the error's hint names them in full. */
int bl_store_find(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_work *ret_work, struct bl_error *error);

/* Committed turns of a session, oldest first, those that were compacted away too; what cannot be
 * found any more of one is left out. */
struct bl_store_turn {
    struct bl_list link;
    struct bl_text id;
    bool interrupted;
    struct bl_text messages; /* JSON, as bl_messages_read takes it */
};
int bl_store_turns(struct bl_store *store, struct bl_arena *arena, const char *session,
                   struct bl_list *ret_turns, struct bl_error *error);

struct bl_store_session_view {
    struct bl_store_summary summary;
    const struct bl_text *turns; /* results, JSON each, oldest first */
    size_t turn_count;
    const struct bl_text *attempts; /* JSON each */
    size_t attempt_count;
};

/* An attempt of it. */
extern const struct bl_record bl_store_attempt_record;

/* BL_ENOENT, kind session, with a suggestion. Needs no lease. */
int bl_store_show(struct bl_store *store, struct bl_arena *arena, const char *id,
                  struct bl_store_session_view *ret_view, struct bl_error *error);

/* Writes a session as JSON Lines, line by line: a header, turns with messages, attempts, events,
 * receipts, checkpoints, cells that have ended, values, tombstones, an end with their number.
 * `write` runs in the calling fiber; what it returns other than 0 ends the export. */
extern const struct bl_record bl_store_line_record;
int bl_store_export(struct bl_store *store, const char *id,
                    int (*write)(void *context, struct bl_text line), void *context,
                    struct bl_error *error);
/* All of it, or nothing. `id` NULL: the one in the file. BL_EPARSE names the line; BL_EEXIST. */
int bl_store_import(struct bl_store *store, struct bl_text lines, const char *id,
                    struct bl_arena *arena, const char **ret_id, struct bl_error *error);
/* With the sessions of its sub-agents, and of theirs: all of them, or none. BL_EBUSY when one of
 * them is held by somebody alive. */
int bl_store_delete(struct bl_store *store, const char *id, struct bl_error *error);
/* A new session with the same committed turns, their summary and what cells have stored; of its
 * own, without cells, and without the sessions of sub-agents; `new_id` NULL: made up. */
int bl_store_fork(struct bl_store *store, const char *id, const char *new_id,
                  struct bl_arena *arena, const char **ret_id, struct bl_error *error);

/* ---- Tasks of other protocols ---------------------------------------------------------------- */

/* Work that somebody asked for and comes back for later, by its id, from a later process too. */
struct bl_store_task {
    const char *id;
    const char *kind;    /* run, exec */
    const char *session; /* NULL: none */
    int64_t created_wall_ns;
    int64_t ended_wall_ns;   /* 0: it works */
    int64_t expires_wall_ns; /* 0: not yet set; it goes some time after */
    const char *status;      /* working, completed, failed, cancelled */
    struct bl_text result;   /* JSON of the end; empty: none */
    struct bl_text receipt;  /* JSON; empty: none */
    bool owner_alive;        /* of one that works: who made it is there */
};
/* Synced before it returns. BL_EEXIST: there is one of that id. Its owner is this process. */
int bl_store_task_begin(struct bl_store *store, const struct bl_store_task *task,
                        struct bl_error *error);
/* status, result, receipt, ended (0: now) and expires (0: an hour after) of one that works; once:
 * BL_EEXIST: it has ended. BL_ENOENT: there is none. Here, and above: BL_EUNKNOWN: the caller was
 * stopped before the store had answered, and it is in it, or not. */
int bl_store_task_end(struct bl_store *store, const struct bl_store_task *task,
                      struct bl_error *error);
/* In the arena. BL_ENOENT: there is none, or it has expired. One whose owner is gone and that has
 * not ended is ended now, as `failed` (in a store opened for reading it stays as it is, with
 * `owner_alive` false); expired ones are removed on the way. */
int bl_store_task_get(struct bl_store *store, struct bl_arena *arena, const char *id,
                      struct bl_store_task *ret_task, struct bl_error *error);

BL_PUBLIC_END

#endif
