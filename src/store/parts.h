/* What the files of this room share: jobs, lanes, and the form that keeps the bytes. */
#ifndef BELAY_STORE_PARTS_H
#define BELAY_STORE_PARTS_H

#include <belay/store.h>

#define STORE_SESSION_ID_SIZE 72
#define STORE_LEASE_NS        (30 * BL_NS_PER_S)

/* ---- Who holds a session or a feature -------------------------------------------------------- */

/* A process, named so that another one can tell whether it still lives. */
struct store_identity {
    char host[72];      /* BELAY_HOST, or the machine's name */
    char boot[40];      /* changes with each start of the machine */
    char pid_space[40]; /* the PID namespace in which `pid` means something */
    int64_t pid;
    int64_t started; /* in ticks since boot: a pid that was given away again has another */
};

enum store_life {
    STORE_ALIVE,
    STORE_DEAD,
    STORE_OUT_OF_SIGHT, /* another host or PID namespace: only its lease tells */
};

void store_identity_read(struct store_identity *ret_self);
/* From any thread. */
enum store_life store_identity_life(const struct store_identity *self,
                                    const struct store_identity *other);
/* "pid 4711 on host", and with `since_wall_ns` not 0 ", since …". */
void store_identity_text(const struct store_identity *identity, int64_t since_wall_ns, char *out,
                         size_t out_size);

/* What became of the processes of a holder that is gone: only what is proved. May wait for them to
 * end. From any thread. */
void store_identity_settle(const struct store_identity *self, const struct store_identity *gone,
                           struct bl_wardens_end *ret_end);

/* Whoever asks for a lease, or after it. */
struct store_claimant {
    struct store_identity self;
    char owner[32];          /* which struct bl_store of the process */
    uint64_t handle;         /* 0: it asks for none */
    const uint64_t *handles; /* of this owner that are open or being opened; ours too */
    size_t handle_count;
    int64_t wall_ns;
};

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* One thing to be done in the store. All that a form has to know is in the job: it is a copy, on
 * the heap, so that whoever asked may leave while a thread works on it. */
enum store_operation {
    STORE_HOLD,
    STORE_RELEASE,
    STORE_RENEW,
    STORE_BEGIN,
    STORE_COMMIT,
    STORE_REJECT,
    STORE_NOTE,
    STORE_COMPACT,
    STORE_CHECKPOINT_PUT,
    STORE_CELL_ADMIT,
    STORE_CELL_STARTED,
    STORE_CELL_YIELD,
    STORE_CELL_END,
    STORE_CELL_BURY,
    STORE_CELL_WITHDRAW,
    STORE_CELLS_FORGET,
    STORE_FEATURE_HOLD,
    STORE_FEATURE_WRITE,
    STORE_FEATURE_RELEASE,
    STORE_TASK_BEGIN,
    STORE_TASK_END,
    STORE_TASK_SETTLE,
    STORE_IMPORT,
    STORE_FORK,
    STORE_DELETE,
    STORE_CHECKPOINT_GET, /* from here on they only read */
    STORE_LIST,
    STORE_SHOW,
    STORE_CELLS_LOAD,
    STORE_CELL_BURIED,
    STORE_FEATURE_LOAD,
    STORE_FEATURE_EVENTS,
    STORE_FEATURE_LIST,
    STORE_TASK_GET,
    STORE_FIND,
    STORE_TURNS,
};

/*   queued   --taken into a batch-->         running
 *   running  --the batch has been run-->     done
 *   running  --no thread to be had-->        queued     */
enum store_job_state {
    STORE_JOB_QUEUED,
    STORE_JOB_RUNNING,
    STORE_JOB_DONE,
};

struct store_job {
    /* The loop's. `link` is the thread's while the job runs. */
    struct bl_list link;
    enum store_job_state state;
    bool left; /* nobody waits for it any more */
    struct bl_semaphore woken;
    size_t weight;      /* bytes that it writes, roughly */
    uint64_t linger_ns; /* so long a caller that is stopped still waits for the answer */
    /* Set before it is queued, then only read. */
    enum store_operation operation;
    bool durable; /* against power loss too */
    bool urgent;  /* not durable, and not to wait for the sync of others that are */
    struct bl_arena input;
    /* The thread's while it runs. A job may be run more than once; the last time counts. */
    bool settled; /* code and error stand, and it is not to be run again */
    int code;
    struct bl_error error;
    struct bl_arena output;
};

/* A zeroed job of `size` bytes, which begins with a struct store_job. */
void *store_job_new(enum store_operation operation, size_t size);
/* Frees it now, or, when it is running, as soon as the thread is done with it. */
void store_job_leave(struct store_job *job);
/* A copy in its input; counts as weight. */
struct bl_text store_job_text(struct store_job *job, struct bl_text text);
const char *store_job_string(struct store_job *job, const char *string); /* NULL stays NULL */

/* What a session is written under: the key is never used for another session, also when one of the
 * same id is made after this one was deleted. */
struct store_grip {
    int64_t session;
    uint64_t epoch;
};

struct store_hold {
    struct store_job job;
    struct bl_store_hold_options options;
    const char *title;
    struct store_claimant claimant;
    /* The answer. */
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    uint64_t turns_total;
    struct bl_usage usage;
    struct bl_list records; /* struct bl_turn_record */
    struct bl_turn_record *summary;
    struct bl_store_recovery recovery;
    struct store_identity before; /* the last holder */
    struct bl_text *recorded;     /* in the output, as what it points to */
    size_t recorded_count;
};

/* Release, renew, begin, commit, reject, note, compact, put a checkpoint; and what is written of
 * cells. */
struct store_write {
    struct store_job job;
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    char run[STORE_SESSION_ID_SIZE];
    int64_t wall_ns;
    struct bl_text title; /* of a commit: for a session that has none; may be empty */
    union {
        struct bl_attempt attempt;
        struct bl_settlement settlement; /* of a note: receipt, its id, events */
        struct {
            const char *name;
            struct bl_text json;
        } checkpoint;
        struct {
            struct bl_store_cell record;
            struct bl_list values; /* struct bl_store_value */
            const char *receipt_id;
            struct bl_text receipt; /* empty: none */
            uint64_t tombstones_max;
            uint64_t tombstone_ns_max;
        } cell;
    };
};

/* Import, fork, delete, and what only looks. */
struct store_look {
    struct store_job job;
    struct store_identity self;
    const char *id;        /* of the session; import: NULL, or the one to give */
    const char *new_id;    /* fork */
    const char *name;      /* of a checkpoint */
    const char *directory; /* list; NULL: all */
    uint64_t limit;        /* list; 0: all */
    bool agents;           /* list; those of sub-agents, too */
    bool brief;            /* show; the summary alone */
    const char *after_id;  /* list; NULL: from the first */
    int64_t after_updated_wall_ns;
    struct bl_text lines; /* import */
    int64_t session;      /* of cells: its key */
    struct bl_text cell_id;
    int64_t wall_ns;
    /* The answer; all of it in the output. */
    const char *made_id;
    struct bl_text json;
    struct bl_list summaries;
    struct bl_store_session_view view;
    struct bl_list cells;  /* struct bl_store_cell */
    struct bl_list values; /* struct bl_store_value */
    struct bl_list turns;  /* struct bl_store_turn */
    bool buried;
};

/* What is known of an id. */
struct store_find {
    struct store_job job;
    struct store_identity self;
    int64_t wall_ns;
    const char *id;
    const char *holder;        /* what stands before its last slash; NULL: there is none */
    const char *last;          /* and after it */
    struct bl_store_work work; /* the answer; all of it in the output */
};

/* So long the end of a task is kept, if nobody says how long. */
#define STORE_TASK_KEPT_NS ((int64_t)3600 * (int64_t)BL_NS_PER_S)
/* A task has no lease: one whose owner cannot be seen from here is taken to work so long. */
#define STORE_TASK_OUT_OF_SIGHT_NS ((int64_t)7 * 24 * 3600 * (int64_t)BL_NS_PER_S)

/* Begin, end, settle, get. */
struct store_task {
    struct store_job job;
    struct store_identity self;
    int64_t wall_ns;
    struct bl_store_task task; /* what is asked for, and the answer: that is in the output */
    bool found;                /* the answer of get and settle, as the next */
    bool unsettled;            /* there is something to be written first */
};

/* What a feature is written under, as a session. */
struct store_feature_grip {
    int64_t feature;
    uint64_t epoch;
};

struct store_feature_hold {
    struct store_job job;
    struct bl_store_feature_options options;
    struct store_claimant claimant;
    /* The answer. */
    struct store_feature_grip grip;
    uint64_t generation;
    struct bl_store_owner owner; /* also when it is refused because of it */
};

/* Write and release. */
struct store_feature_write {
    struct store_job job;
    struct store_feature_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    int64_t wall_ns;
    struct bl_list records; /* struct bl_row */
    const struct bl_text *events;
    size_t event_count;
    bool new_generation;
    uint64_t generation; /* the answer */
};

/* Load, events, list. */
struct store_feature_look {
    struct store_job job;
    struct store_claimant claimant;
    const char *repository;
    const char *id;
    const char *prefix; /* load; empty: all */
    uint64_t after;     /* events, as the next */
    uint64_t limit;
    /* The answer; all of it in the output. */
    struct bl_list records; /* struct bl_row */
    struct bl_store_owner owner;
    uint64_t generation;
    struct bl_list summaries; /* struct bl_store_feature_summary */
};

/* ---- Lanes ----------------------------------------------------------------------------------- */

#define STORE_BATCH_JOBS_MIN  8 /* that it may hold, however few sessions there are */
#define STORE_BATCH_JOBS_MAX  512
#define STORE_BATCH_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct store_batch;

/* A queue of jobs that one thread at a time works off, in batches. Belongs to the loop. The first
 * that waits leads: it takes what is queued, has it run on a worker thread, and wakes the others;
 * then the first of those who came meanwhile leads. What is urgent goes ahead of the rest, every
 * second time at most. */
struct store_lane {
    void (*run)(void *context, struct bl_list *jobs); /* on a worker thread; fills code and error */
    void *context;
    const char *where; /* for messages */
    size_t jobs_max;
    uint64_t stuck_after_ns;
    struct bl_list queue;
    struct store_batch *running; /* NULL: nothing is */
    struct store_job *leader;    /* chosen and not begun yet; NULL: nobody */
    bool prompt;                 /* it was chosen when a batch ended: it begins at once */
    bool ahead;                  /* it is urgent, and takes only others that are */
    bool was_ahead;              /* so was the last batch: now all have their turn */
    struct bl_semaphore idle;    /* given when a batch ends and somebody closes */
    bool closing;
};

enum store_lane_end {
    STORE_ANSWERED,  /* code and error are in the job */
    STORE_NOT_RUN,   /* and never will be; so too */
    STORE_NO_ANSWER, /* it is running, and the caller's scope stopped; the job is not ours */
};

void store_lane_init(struct store_lane *lane, const char *where, size_t jobs_max,
                     void (*run)(void *context, struct bl_list *jobs), void *context);
/* What makes or takes something is waited for a little after a stop, so that its caller knows. */
#define STORE_LINGER_NS (250 * BL_NS_PER_MS)

/* Has a job run, and waits for it. The caller then reads the answer and leaves the job. When it was
 * not answered, `error` says so. */
enum store_lane_end store_lane_call(struct store_lane *lane, struct store_job *job, int *ret_code,
                                    struct bl_error *error);
/* Waits for the batch under way. False: it hangs. */
bool store_lane_close(struct store_lane *lane);

/* ---- Forms ----------------------------------------------------------------------------------- */

struct store_cursor;

/* Where the bytes are kept. On worker threads, unless said otherwise; `state` is the form's own. */
struct store_form {
    int (*open)(const char *where, bool reading, void **ret_state, struct bl_error *error);
    void (*close)(void *state);
    void (*write)(void *state, struct bl_list *jobs);
    void (*read)(void *state, struct bl_list *jobs);
    /* A walk over one session as it is at the first step, whatever is written meanwhile: lines of
     * JSON. Making one does not wait, and is done on the loop's thread: the walk may outlive the
     * store. */
    struct store_cursor *(*export_new)(const void *state, const char *id);
    /* Appends some lines; none: that was all. */
    int (*export_next)(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error);
    void (*export_free)(struct store_cursor *cursor); /* NULL is fine */
    /* BL_EPARSE: these lines are no session; nothing is touched. */
    int (*import_check)(struct bl_text lines, struct bl_error *error);
};

extern const struct store_form store_sqlite;

/* One hold of a session or a feature; embedded by it. */
struct store_handle {
    struct bl_list link; /* in the handles of its store */
    uint64_t number;
};

struct bl_store {
    struct bl_store *left_next; /* among those that were left as they are */
    const struct store_form *form;
    void *state;
    char *where;
    bool reading;
    struct store_identity self;
    char owner[32];
    uint64_t handle_last;
    struct bl_list handles; /* struct store_handle, open or being opened */
    uint32_t handle_count;
    uint32_t cell_writes;    /* under way; a session may have many at once */
    uint32_t feature_writes; /* so too */
    struct store_lane writer;
    struct store_lane reader;
};

struct bl_store_session {
    struct store_handle handle;
    struct bl_store *store;
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    char run[STORE_SESSION_ID_SIZE];
    bool unknown;         /* nobody knows whether a commit took place */
    bool untitled;        /* it was made without a prompt: that of its first turn is its title */
    struct bl_text title; /* of the turn under way */
    struct bl_turn_store table;
    struct bl_store_recovery recovery;
    struct bl_arena arena; /* of recorded */
    struct bl_text *recorded;
    size_t recorded_count;
    struct bl_list doubts; /* struct store_doubt */
};

struct bl_store_feature {
    struct store_handle handle;
    struct bl_store *store;
    struct store_feature_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    uint64_t generation;
    bool failed; /* something that was to be written is not, or nobody knows */
};

/* From now on the handle counts as open: another hold may be in the same batch. */
void store_handle_open(struct store_handle *handle, struct bl_store *store);
void store_handle_close(struct store_handle *handle, struct bl_store *store);
/* The store as it asks for leases; `handle` NULL: it only asks who has them. What is not embedded
 * is in the arena. */
void store_claimant_fill(struct store_claimant *claimant, struct bl_store *store,
                         const struct store_handle *handle, struct bl_arena *arena);

struct store_write *store_write_new(struct bl_store_session *held, enum store_operation operation);
/* Runs the job and leaves it. */
enum store_lane_end store_write_run(struct bl_store_session *held, struct store_write *write,
                                    int *ret_code, struct bl_error *error);
/* How many jobs share a commit, after the work that may be under way at once has changed. */
void store_share_batches(struct bl_store *store);

/* The admission of a cell whose caller left without an answer, and was told that it failed. */
struct store_doubt {
    struct bl_list link;
    size_t size;
    char id[];
};

/* Takes such admissions back. */
int store_doubts_settle(struct bl_store_session *held, struct bl_error *error);
void store_doubts_free(struct bl_store_session *held);

/* Runs a job in its lane, and copies what is wrong into `error`. As store_lane_call. */
enum store_lane_end store_run(struct bl_store *store, struct store_job *job, int *ret_code,
                              struct bl_error *error);
/* Runs blocking work on a thread, outside of the lanes. `payload` is given to `drop` when the
 * caller leaves before it is done: `*ret_dropped` says whether the payload is gone. 0, or a code
 * with `error`. */
int store_work(void (*run)(void *payload), void (*drop)(void *payload), void *payload,
               const char *where, bool *ret_dropped, struct bl_error *error);
int64_t store_wall_ns(void);
const char *store_path_aside(struct bl_arena *arena, const char *where, int64_t wall_ns);

#endif
