/* Declarations shared by the files of this room: jobs, lanes and forms of storage. */
#ifndef BELAY_STORE_PARTS_H
#define BELAY_STORE_PARTS_H

#include <belay/store.h>

#define STORE_SESSION_ID_SIZE 72
#define STORE_LEASE_NS        (30 * BL_NS_PER_S)

/* ---- Owners of sessions and features --------------------------------------------------------- */

/* Identifies a process, so that another one can tell whether it is alive. */
struct store_identity {
    char host[72];      /* BELAY_HOST, or the name of the machine */
    char boot[40];      /* changes with each boot */
    char pid_space[40]; /* the PID namespace of `pid` */
    int64_t pid;
    int64_t started; /* in ticks since boot; differs if the pid was reused */
};

enum store_life {
    STORE_ALIVE,
    STORE_DEAD,
    STORE_OUT_OF_SIGHT, /* on another host or in another PID namespace: only the lease tells */
};

void store_identity_read(struct store_identity *ret_self);
/* May be called from any thread. */
enum store_life store_identity_life(const struct store_identity *self,
                                    const struct store_identity *other);
/* Writes "pid 4711 on host", followed by ", since …" if `since_wall_ns` is not 0. */
void store_identity_text(const struct store_identity *identity, int64_t since_wall_ns, char *out,
                         size_t out_size);

/* Writes the same for a live holder, with its command and folder if they can be read here: "belay
 * chat, pid 4711 on host, since …, in /work". */
void store_identity_holder(const struct store_identity *self, const struct store_identity *holder,
                           int64_t since_wall_ns, char *out, size_t out_size);

/* Determines the end of a dead holder's processes, as far as it is proved. May wait for them. May
 * be called from any thread. */
void store_identity_settle(const struct store_identity *self, const struct store_identity *gone,
                           struct bl_wardens_end *ret_end);

/* A store that takes or checks a lease. */
struct store_claimant {
    struct store_identity self;
    char owner[32];          /* the struct bl_store within the process */
    uint64_t handle;         /* 0: no lease is requested */
    const uint64_t *handles; /* open or opening handles of this owner, including this one */
    size_t handle_count;
    int64_t wall_ns;
};

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* An operation of the store. A job on the heap contains a copy of all data that a form needs, so
 * that the caller may leave while a thread works on it. */
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
    STORE_CHECKPOINT_GET, /* from here on, operations only read */
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
    STORE_EXPORT_PAGE, /* of a form on the loop; its job belongs to the form */
};

bool store_only_reads(enum store_operation operation);

/* The state of a job:
 *
 *   queued   --taken into a batch-->         running
 *   running  --the batch has been run-->     done
 *   running  --no thread available-->        queued */
enum store_job_state {
    STORE_JOB_QUEUED,
    STORE_JOB_RUNNING,
    STORE_JOB_DONE,
};

struct store_job {
    /* Owned by the loop. `link` is the thread's while the job runs. */
    struct bl_list link;
    enum store_job_state state;
    bool left; /* its caller has left */
    struct bl_semaphore woken;
    size_t weight;      /* bytes that it writes, approximately */
    uint64_t linger_ns; /* how long a stopped caller still waits for the answer */
    /* Set before it is queued; read-only afterwards. */
    uint64_t queued_ns;
    enum store_operation operation;
    bool durable; /* survives power loss */
    bool urgent;  /* not durable, and must not wait for the sync of durable jobs */
    struct bl_arena input;
    /* Owned by the form that runs it. */
    bool sent;      /* and not answered: it may have taken place */
    unsigned tries; /* that failed because of conflicts with other transactions */
    /* Owned by the thread while it runs. A job may run more than once; the last run counts. */
    bool settled; /* code and error are final, and it is not run again */
    int code;
    struct bl_error error;
    struct bl_arena output;
};

/* A growing array of texts in an arena. */
struct store_texts {
    struct bl_text *items;
    size_t count;
    size_t capacity;
};

void store_texts_add(struct store_texts *texts, struct bl_arena *arena, struct bl_text text);

/* Returns a zeroed job of `size` bytes, which begins with a struct store_job. */
void *store_job_new(enum store_operation operation, size_t size);
/* Frees a job now, or when the thread has finished with it. */
void store_job_leave(struct store_job *job);
/* Copies a text into the job's input; counts as weight. */
struct bl_text store_job_text(struct store_job *job, struct bl_text text);
const char *store_job_string(struct store_job *job, const char *string); /* NULL stays NULL */

/* The key and epoch under which a session is written. A key is never reused, even if a session with
 * the same id is created after a deletion. */
struct store_grip {
    int64_t session;
    uint64_t epoch;
};

struct store_hold {
    struct store_job job;
    struct bl_store_hold_options options;
    const char *title;
    struct store_claimant claimant;
    char made[STORE_SESSION_ID_SIZE]; /* id for a new session; the same if the job is repeated */
    /* The answer. */
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    uint64_t turns_total;
    struct bl_usage usage;
    struct bl_list records; /* struct bl_turn_record */
    struct bl_turn_record *summary;
    struct bl_store_recovery recovery;
    struct store_identity before; /* the last holder */
    struct store_texts recorded;  /* in the output */
};

/* Release, renew, begin, commit, reject, note, compact, put a checkpoint, and writes for cells. */
struct store_write {
    struct store_job job;
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    char run[STORE_SESSION_ID_SIZE];
    uint64_t handle;      /* the hold that makes it */
    uint64_t number;      /* among the writes under this grip: the same when it is repeated */
    uint64_t epoch_made;  /* of the grip when it was made: a form may raise that */
    uint64_t turns_known; /* of the session, before this write */
    bool begun;           /* the turn of a commit has begun under this grip */
    int64_t wall_ns;
    struct bl_text title; /* of a commit, for a session without a title; may be empty */
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
            struct bl_text receipt; /* may be empty */
            uint64_t tombstones_max;
            uint64_t tombstone_ns_max;
        } cell;
    };
};

/* Import, fork, delete, and operations that only read. */
struct store_look {
    struct store_job job;
    struct store_identity self;
    const char *id;        /* of the session; import: the new id, or NULL */
    const char *new_id;    /* fork */
    const char *name;      /* of a checkpoint */
    const char *directory; /* list; NULL: all */
    uint64_t limit;        /* list; 0: all */
    bool agents;           /* list: include those of sub-agents */
    bool brief;            /* show: only the summary */
    const char *after_id;  /* list; NULL: from the first */
    int64_t after_updated_wall_ns;
    struct bl_text lines; /* import */
    int64_t session;      /* key, for cells */
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

/* Look up an id. */
struct store_find {
    struct store_job job;
    struct store_identity self;
    int64_t wall_ns;
    const char *id;
    const char *holder;        /* part before the last slash of the id; NULL: there is no slash */
    const char *last;          /* part after it */
    struct bl_store_work work; /* the answer; all of it in the output */
};

/* How long an ended task is kept by default. */
#define STORE_TASK_KEPT_NS ((int64_t)3600 * (int64_t)BL_NS_PER_S)
/* A task has no lease: if its owner is not visible from here, and the store has no workers, it is
 * assumed to work for this time. */
#define STORE_TASK_OUT_OF_SIGHT_NS ((int64_t)7 * 24 * 3600 * (int64_t)BL_NS_PER_S)

/* Begin, end, settle, get. */
struct store_task {
    struct store_job job;
    struct store_identity self;
    int64_t wall_ns;
    struct bl_store_task task; /* the request and the answer, which is in the output */
    bool found;                /* answer of get and settle; so is the next */
    bool unsettled;            /* something must be written first */
};

/* The key and epoch under which a feature is written. */
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
    struct bl_store_owner owner; /* also set if the hold is refused because of it */
};

/* Write and release. */
struct store_feature_write {
    struct store_job job;
    struct store_feature_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    uint64_t number; /* among the writes under this grip: the same when it is repeated */
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
    uint64_t after;     /* events; so is the next */
    uint64_t limit;
    /* The answer; all of it in the output. */
    struct bl_list records; /* struct bl_row */
    struct bl_store_owner owner;
    uint64_t generation;
    struct bl_list summaries; /* struct bl_store_feature_summary */
};

/* ---- Lanes ----------------------------------------------------------------------------------- */

#define STORE_BATCH_JOBS_MIN  8 /* minimum limit, for few sessions */
#define STORE_BATCH_JOBS_MAX  512
#define STORE_BATCH_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct store_batch;

/* A queue of jobs that are run in batches, one batch at a time. Belongs to the loop. Urgent jobs go
 * ahead of others, but at most every second time.
 *
 * Either a fiber serves the lane (store_lane_serve) and runs the batches itself, or its callers do,
 * on a worker thread: the first waiting caller leads. It takes the queued jobs, runs them, and wakes
 * the other callers; then the first job queued meanwhile leads. */
struct store_lane {
    void (*run)(void *context, struct bl_list *jobs); /* sets code and error of each job */
    void *context;
    const char *where; /* for messages */
    size_t jobs_max;
    uint64_t stuck_after_ns;
    struct bl_list queue;
    struct store_batch *running; /* NULL: none */
    struct store_job *leader;    /* chosen and not started yet; may be NULL */
    bool prompt;                 /* the leader was chosen when a batch ended: it starts at once */
    bool ahead;                  /* the leader is urgent, and takes only urgent jobs */
    bool was_ahead;              /* the last batch took only urgent jobs: now all take part */
    struct bl_semaphore idle;    /* given when a batch ends while the lane is closing */
    bool closing;
    bool served;                /* set before the first job */
    struct bl_semaphore queued; /* given for each job, if the lane is served */
};

enum store_lane_end {
    STORE_ANSWERED,  /* code and error are in the job */
    STORE_NOT_RUN,   /* and never will be; code and error are set */
    STORE_NO_ANSWER, /* it is running, and the caller was stopped; the job belongs to the lane */
};

void store_lane_init(struct store_lane *lane, const char *where, size_t jobs_max,
                     void (*run)(void *context, struct bl_list *jobs), void *context);
/* After a stop, the caller of an operation that creates or takes something waits this long, so that
 * it knows the result. */
#define STORE_LINGER_NS (250 * BL_NS_PER_MS)

/* Runs a job and waits for it. The caller then reads the answer and leaves the job. If there is no
 * answer, `error` says so. */
enum store_lane_end store_lane_call(struct store_lane *lane, struct store_job *job, int *ret_code,
                                    struct bl_error *error);
/* Serves the lane from the running fiber until that is stopped; returns the code of the stop. A
 * batch that has begun is run to its end. */
int store_lane_serve(struct store_lane *lane);
/* Waits for the running batch. Returns false if it is blocked. */
bool store_lane_close(struct store_lane *lane);

/* ---- Forms of storage ------------------------------------------------------------------------ */

struct store_cursor;

/* A store that is being opened. */
struct store_opening {
    const struct store_form *form;
    char *where;
    bool reading;
    struct store_identity self;
    char owner[32];
    void *state; /* the answer */
    int code;
    struct bl_error error;
};

/* A form of storage. Called on worker threads unless noted; `state` belongs to the form. */
struct store_form {
    bool on_loop; /* called in fibers instead, which it does not block */
    /* Sets the state of the opening; may replace its `where` by one without a password. */
    int (*open)(struct store_opening *opening, struct bl_error *error);
    /* Starts the fibers that serve the lanes; NULL: their callers run the batches. */
    int (*serve)(void *state, struct store_lane *writer, struct store_lane *reader);
    /* Returns 0 if all of the data can be used. */
    int (*check)(struct store_opening *opening, struct bl_error *error);
    void (*close)(void *state);
    void (*write)(void *state, struct bl_list *jobs);
    void (*read)(void *state, struct bl_list *jobs);
    /* How long a commit may wait for its answer from now on; NULL: BL_STORE_NS_MAX. In a fiber. */
    uint64_t (*answer_ns)(void *state);
    /* NULL: there is no fleet. */
    const struct bl_fleet_store *(*fleet)(void *state);
    /* A walk over one session as it is at the first step, regardless of later writes, as lines of
     * JSON. export_new does not wait, and runs on the loop's thread. The walk of a form on a thread
     * may outlive the store. */
    struct store_cursor *(*export_new)(const void *state, const char *id);
    /* Appends some lines; none at the end. */
    int (*export_next)(struct store_cursor *cursor, struct bl_buffer *out, struct bl_error *error);
    void (*export_free)(struct store_cursor *cursor); /* NULL is allowed */
};

extern const struct store_form store_sqlite, store_postgres;

/* One hold of a session or a feature, embedded in it. */
struct store_handle {
    struct bl_list link; /* in the handles of its store */
    uint64_t number;
};

struct bl_store {
    struct bl_store *left_next; /* in the list of stores left open */
    const struct store_form *form;
    void *state;
    char *where;
    bool reading;
    struct store_identity self;
    char owner[32];
    uint64_t handle_last;
    struct bl_list handles; /* struct store_handle, open or opening */
    uint32_t handle_count;
    uint32_t cell_writes;    /* running; a session may have several at a time */
    uint32_t feature_writes; /* running */
    struct store_lane writer;
    struct store_lane reader;
};

struct bl_store_session {
    struct store_handle handle;
    struct bl_store *store;
    struct store_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    char run[STORE_SESSION_ID_SIZE];
    uint64_t writes;        /* made under the grip */
    uint64_t turns;         /* committed, as far as is known */
    char begun[BL_ID_SIZE]; /* the turn that has begun and not ended; may be empty */
    bool unknown;           /* it is unknown whether a commit took place */
    bool untitled;          /* created without a prompt: the prompt of its first turn becomes its
                             title */
    struct bl_text title;   /* of the running turn */
    struct bl_turn_store table;
    struct bl_store_recovery recovery;
    struct bl_arena arena; /* of `recorded` */
    struct bl_text *recorded;
    size_t recorded_count;
    struct bl_list doubts; /* struct store_doubt */
};

struct bl_store_feature {
    struct store_handle handle;
    struct bl_store *store;
    struct store_feature_grip grip;
    char id[STORE_SESSION_ID_SIZE];
    uint64_t writes; /* made under the grip */
    uint64_t generation;
    bool failed; /* a write has failed, or its result is unknown */
};

/* Counts the handle as open from now on: another hold may be in the same batch. */
void store_handle_open(struct store_handle *handle, struct bl_store *store);
void store_handle_close(struct store_handle *handle, struct bl_store *store);
/* Fills in the store as a claimant; `handle` NULL: it only asks for owners. Data that is not
 * embedded is in the arena. */
void store_claimant_fill(struct store_claimant *claimant, struct bl_store *store,
                         const struct store_handle *handle, struct bl_arena *arena);

struct store_write *store_write_new(struct bl_store_session *held, enum store_operation operation);
/* Runs the job and leaves it. */
enum store_lane_end store_write_run(struct bl_store_session *held, struct store_write *write,
                                    int *ret_code, struct bl_error *error);
/* Updates how many jobs share a commit, after the amount of concurrent work has changed. */
void store_share_batches(struct bl_store *store);

/* The admission of a cell whose caller left without an answer, and was told that it failed. */
struct store_doubt {
    struct bl_list link;
    size_t size;
    char id[];
};

/* Withdraws such admissions. */
int store_doubts_settle(struct bl_store_session *held, struct bl_error *error);
void store_doubts_free(struct bl_store_session *held);

/* Runs a job in its lane, and copies its error into `error`. Returns as store_lane_call does. */
enum store_lane_end store_run(struct bl_store *store, struct store_job *job, int *ret_code,
                              struct bl_error *error);
/* Runs blocking work on a thread, outside the lanes. If the caller leaves before it is done,
 * `payload` is passed to `drop`, and `*ret_dropped` is true. Returns 0, or a code with `error`. */
int store_work(void (*run)(void *payload), void (*drop)(void *payload), void *payload,
               const char *where, bool *ret_dropped, struct bl_error *error);
/* Runs a call of a form: in this fiber, or as store_work does. */
int store_form_call(const struct store_form *form, void (*run)(void *payload),
                    void (*drop)(void *payload), void *payload, const char *where,
                    bool *ret_dropped, struct bl_error *error);
int64_t store_wall_ns(void);
const char *store_path_aside(struct bl_arena *arena, const char *where, int64_t wall_ns);

#endif
