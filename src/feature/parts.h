/* What the files of this room share: the run, its tasks, and what is on record of them.
 *
 * Records of the store, by name (TASK, N as they are):
 *   feature            one row: the feature (feature_row_record)
 *   plan               as bl_plan_json writes it
 *   task/TASK          one row a task (task_row_record)
 *   wave/N             one row a wave (wave_row_record)
 *   turn/TASK/A/N      a turn N of attempt A (task_turn_record)
 *   attempt/TASK/A     the task's row as it was when that attempt had ended
 *   output/TASK/A/N/P  {task, attempt, turn, phase, text}: what phase P (player, verify, coach-1,
 *                      …) printed or said, bounded
 *   receipt/ID         a receipt
 *   merge              the intent of a merge: {wave, old, new, tasks: [id, …]}
 *   fresh              the intent of a fresh start or a retry
 *
 * Times are as bl_time_format has them. */
#ifndef BELAY_FEATURE_PARTS_H
#define BELAY_FEATURE_PARTS_H

#include "feature/seat/seat.h"
#include "feature/verdict/verdict.h"
#include "feature/verdict/verify.h"
#include "git/git.h"

#define FEATURE_REF_SIZE    256                /* of a branch with "refs/heads/" before it */
#define FEATURE_SHIELD_NS   (30 * BL_NS_PER_S) /* for what must be written after a stop */
#define FEATURE_BEAT_NS     (1 * BL_NS_PER_S) /* the lease and signs of life are written so often */
#define FEATURE_TRIES_MAX   3 /* verdicts, Player errors and absent verifications in a row */
#define FEATURE_OUTPUT_KEPT ((size_t)128 * 1024) /* of what a phase printed, in the store */
#define FEATURE_DIFF_MAX    ((size_t)256 * 1024) /* that a Coach is shown */

/* ---- Waiting for others ---------------------------------------------------------------------- */

/* Whoever waits is woken by the next ring. Embedded by its owner; on the loop alone. */
struct feature_bell {
    struct bl_list waiters;
};

void feature_bell_init(struct feature_bell *bell);
int feature_bell_wait(struct feature_bell *bell); /* 0, BL_ECANCELED, BL_ETIMEDOUT */
void feature_bell_ring(struct feature_bell *bell);

/* ---- Rows ------------------------------------------------------------------------------------ */

#define FEATURE_SECONDS_MAX 1000000000 /* seconds and milliseconds above are a mistake */

/* The one way to change a task's state. */
void task_row_move(struct bl_task_row *row, enum bl_task_state to);

/* Of a row: what a resume needs. */
struct bl_task_memory {
    struct stall stall;
    char session[72]; /* of an agent that plays */
    struct bl_text feedback;
    uint32_t feedback_turn;
    struct bl_text last_verdict; /* JSON */
    struct bl_text cut_off;      /* what a stop has cut, for the next Player */
    uint32_t merge_turns;
    char approved_commit[GIT_ID_SIZE]; /* what the Coach approved, and is merged */
};

extern const struct bl_names feature_states;
extern const struct bl_names wave_states;
extern const struct bl_form feature_commit_form;
extern const struct bl_form feature_receipt_form;
/* A struct bl_task_row with its memory; and a struct bl_task_view, from such a row. */
extern const struct bl_record task_row_record;
extern const struct bl_record task_view_read_record;

/* Rows of a runner: texts and memory are on the heap, the row's own. */
void task_row_init(struct bl_task_row *row);
void task_row_done(struct bl_task_row *row);
/* A copy on the heap takes the place of what is there. */
void row_text_set(struct bl_text *slot, struct bl_text text);
/* A record as JSON, in the arena; empty: it is too large. */
struct bl_text record_json(struct bl_arena *arena, const struct bl_record *record,
                           const void *from);
/* NULL where it is empty. */
const char *row_word(const char *word);
/* Takes the place of what is there; what is missing is as task_row_init leaves it. */
void task_row_read(const struct bl_json *value, struct bl_task_row *row);

/* The feature as it is on record. */
struct feature_row {
    char state[16];
    char run_id[BL_ID_SIZE];
    char base_commit[GIT_ID_SIZE];
    char result_commit[GIT_ID_SIZE]; /* empty: none yet */
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    char reason[24];
    char origin[80];
    int exit_code; /* -1: it runs */
    char receipt[BL_ID_SIZE];
};

/* The same with what it takes from the plan and the tasks: the record of the store. */
struct feature_record {
    struct bl_feature_view view;
    /* For lists, which read this record alone. */
    uint64_t tasks_done;
    uint64_t tasks_total;
    struct bl_spent spent;
    bool spent_known;
    struct bl_text *warnings;
    size_t warning_count;
};

extern const struct bl_record feature_row_record;

#define WAVE_STATE_TABLE(X)                                                                        \
    X(WAVE_PENDING, "pending")                                                                     \
    X(WAVE_RUNNING, "running")                                                                     \
    X(WAVE_MERGING, "merging")                                                                     \
    X(WAVE_COMPLETED, "completed")                                                                 \
    X(WAVE_UNVERIFIED, "unverified") /* its gate is absent */                                      \
    X(WAVE_FAILED, "failed")                                                                       \
    X(WAVE_STOPPED, "stopped")

enum wave_state {
#define WAVE_STATE(name, text) name,
    WAVE_STATE_TABLE(WAVE_STATE)
#undef WAVE_STATE
};

struct feature_wave {
    uint32_t n;
    enum wave_state state;
    enum bl_verified gate; /* BL_VERIFIED_UNKNOWN: not run yet */
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
};

/* The same with its tasks: the record of the store. */
struct wave_record {
    struct feature_wave wave;
    const char *const *tasks; /* their ids */
    size_t task_count;
    const char *message; /* why it failed, or is not verified; NULL: nothing to say */
};

extern const struct bl_record wave_row_record;

/* ---- Turns ----------------------------------------------------------------------------------- */

enum turn_phase_state {
    TURN_PHASE_NONE,
    TURN_PHASE_RUNNING,
    TURN_PHASE_ENDED,
    TURN_PHASE_STOPPED,
    TURN_PHASE_FAILED,
    TURN_PHASE_CARRIED, /* it ended in a turn before, and is taken over */
};

extern const struct bl_names turn_phase_states;
extern const struct bl_names turn_decisions;

struct turn_phase {
    enum bl_task_phase phase;
    enum turn_phase_state state;
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    int64_t ms; /* -1: it has not ended */
};

/* A turn of a task while it runs, and what is on record of it. In its arena. */
struct task_turn {
    struct bl_arena arena;
    const char *task; /* its id */
    uint32_t number;
    uint32_t attempt;
    bool merge;
    bool counted;
    const char
        *decision; /* approve, feedback, player_error, coach_error, cancelled, timeout; NULL */
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    struct turn_phase phases[3]; /* Player, verification and Coach, as far as they have begun */
    size_t phase_count;
    /* Of the Player, once it has ended. */
    bool played;
    struct bl_text player_text;
    struct player_result result;
    int player_exit;
    bool changed; /* the tree, in this turn */
    char head[GIT_ID_SIZE];
    struct bl_list issues; /* struct issue: belay's own, then the Coach's */
    bool verified;         /* it has ended */
    struct verify_outcome verify;
    bool verdict_valid;
    struct verdict verdict;
    bool judged_late; /* the verdict came after the stop */
    struct bl_text feedback;
    struct bl_spent spent;
};

/* Of a task, whose id it keeps. */
void task_turn_init(struct task_turn *turn, const char *task);
void task_turn_done(struct task_turn *turn);
/* The phase of that name, made if it has not begun. */
struct turn_phase *task_turn_phase(struct task_turn *turn, enum bl_task_phase phase);
/* It has ended, in this turn or in one before. */
bool task_turn_has(const struct task_turn *turn, enum bl_task_phase phase);
/* From a record, as far as it fits; in the arena. False: it is not JSON. */
bool task_turn_read(struct bl_arena *arena, struct bl_text json, struct task_turn *ret_turn);
/* Takes over the phases that had ended, if `json`, a record, is of a turn that was cut off. */
void task_turn_carry(struct task_turn *turn, struct bl_text json);
extern const struct bl_record task_turn_record;

/* ---- A run ----------------------------------------------------------------------------------- */

struct feature_task;

/* What the loop of a task needs of the world. Filled by means.c with git, seats and the store; by
 * tests with others, so that a whole run can be played on virtual time. All run in the calling
 * fiber and its scope. */
struct feature_means {
    int (*prepare)(struct feature_task *task, struct bl_error *error); /* the worktree is there */
    void (*play)(struct feature_task *task, const struct seat_order *order, struct bl_arena *arena,
                 struct seat_outcome *ret_outcome);
    int (*commit)(struct feature_task *task, struct bl_arena *arena, const char *message,
                  struct git_commit_result *ret_result, struct bl_error *error);
    int (*state)(struct feature_task *task, struct bl_arena *arena, struct git_state *ret_state,
                 struct bl_error *error);
    int (*changed)(struct feature_task *task, struct bl_arena *arena, const char *const **ret_paths,
                   struct bl_error *error); /* since its base */
    int (*diff)(struct feature_task *task, struct bl_arena *arena, struct bl_text *ret_text,
                struct bl_error *error);
    int (*verify)(struct feature_task *task, const struct verify_order *order,
                  struct bl_arena *arena, struct verify_outcome *ret_outcome);
    /* A clean copy for the Coach, and its end. */
    int (*copy_make)(struct feature_task *task, const char *path, struct bl_error *error);
    void (*copy_remove)(struct feature_task *task, const char *path);
    int (*merge)(struct bl_feature *feature, struct feature_wave *wave); /* wave_merge */
    int (*write)(struct bl_feature *feature, const struct bl_store_feature_write *write,
                 struct bl_error *error);
};

extern const struct feature_means feature_means_real;

/* A scope with a receipt of its own, for an attempt, its grace, or a merge turn. */
struct task_stage {
    bool open;
    struct bl_scope scope;
    struct bl_receipt receipt;
    uint64_t deadline_ns; /* of the loop's clock, as it is armed; BL_NEVER: it is not */
};

void task_stage_open(struct task_stage *stage, struct bl_scope *parent, const char *id);
void task_stage_close(struct task_stage *stage);

struct feature_task {
    struct bl_feature *feature;
    const struct bl_plan_task *plan;
    struct bl_task_row row;
    bool ready;              /* `main` is open: it waits for its turn, or runs */
    bool wanted;             /* this run is to take it to its end */
    bool retried;            /* its attempt starts from nothing */
    struct task_stage main;  /* of the attempt */
    struct task_stage grace; /* Verify and Coach, where there is a grace: child of the feature's */
    struct task_stage merge; /* of a merge turn */
    struct bl_stop_hook main_stopped;
    bool in_grace; /* the timer has fired, and the grace goes on */
    uint64_t fired_ns;
    uint64_t started_ns; /* when it took its slot */
    uint64_t held_ns;    /* since when it is held by a pause; 0: it is not */
    uint32_t turns_here; /* begun in this attempt */
    struct bl_budget budget;
    struct bl_ledger ledger;
    bool budgeted_usd; /* it has a limit of its own */
    struct bl_unit unit;
    struct bl_activity activity;
    bool active_changed;
    bool unsaved; /* its newest row is not in the store */
    uint32_t survivors;
    struct bl_text late_verdict;   /* JSON; valid, and after the stop */
    struct bl_text partial_text;   /* of the Player that was cut off */
    struct bl_text partial_result; /* JSON of it */
    struct bl_text carry;          /* JSON of the turn that was cut off last; empty: none */
    struct bl_buffer receipt_json; /* of the stop of this attempt */
    struct bl_capture *capture;    /* of the phase under way; NULL: none */
    struct feature_bell ended;
    char compare_base[GIT_ID_SIZE]; /* what diffs start from: its base, or in a merge turn the
                                       candidate */
    char scratch[512];              /* a folder of its own, outside of the worktree */
};

struct bl_feature {
    struct bl_feature_options options;
    const struct bl_plan *plan;
    const struct feature_means *means;
    const struct bl_clock *clock;
    struct git_repository *git;
    struct seat_house house;
    struct bl_store_feature *held;
    struct feature_row row;
    struct feature_task *tasks;
    struct feature_wave *waves;
    bool checked; /* the repository is fit for it */
    bool resumed;
    bool owner_died;                  /* the one before */
    struct bl_wardens_end owner_left; /* what became of its processes */
    bool plan_changed;
    size_t dirty_files;      /* of the user's checkout: not in the base */
    struct bl_buffer warned; /* what this run has warned of, a NUL behind each */
    /* While it runs. */
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_nursery nursery;  /* of tasks */
    struct bl_nursery services; /* the ledger's beat, the drain: a stop does not end them */
    struct bl_semaphore slots;
    struct bl_budget budget;
    struct bl_ledger ledger;
    struct bl_activity activity;
    bool running;
    bool paused;
    bool draining;
    bool hurried;
    struct bl_scope *outer; /* the caller's, above ours */
    struct bl_stop_hook stopped;
    enum bl_stop_reason drain_reason;
    char drain_origin[80];
    uint32_t phases_running;
    uint32_t wave;                /* under way, from 1 */
    struct feature_bell changed;  /* pause, drain, the end of a phase */
    struct feature_bell finished; /* the whole of it */
    bool failed;                  /* a task is failed, timed out or blocked */
    bool person_cancelled;        /* a person stopped a task */
    bool unverified;
    struct bl_buffer receipt_json;
    /* The ledger. */
    struct bl_list pending_records; /* struct pending_record, on the heap */
    struct bl_list pending_events;  /* struct pending_event, the same */
    struct bl_list untold;          /* struct untold_event: for the listener, in their order */
    struct feature_bell to_write;
    struct bl_lock writing;
    uint64_t asked;   /* number of the newest write that was asked for */
    uint64_t written; /* of the newest that is in the store */
    int write_code;   /* of that */
    bool pending_durable;
    uint64_t events; /* told so far */
    uint64_t unsaved_events;
    uint64_t epoch;
    bool stale;            /* the lease is another's */
    struct bl_error error; /* the first; code 0: none */
    char result_ref[FEATURE_REF_SIZE];
    char scratch[400]; /* .belay/run/FEAT in the repository */
};

/* ---- event.c --------------------------------------------------------------------------------- */

/* Types of events: the name here, and in JSON. */
#define EVENT_TABLE(X)                                                                             \
    X(FEATURE_STARTED, feature_started)                                                            \
    X(PLAN_CHANGED, plan_changed)                                                                  \
    X(WAVE_STARTED, wave_started)                                                                  \
    X(TASK_QUEUED, task_queued)                                                                    \
    X(DEADLINE_ARMED, deadline_armed)                                                              \
    X(DEADLINE_MOVED, deadline_moved)                                                              \
    X(TASK_TURN_STARTED, task_turn_started)                                                        \
    X(PHASE_STARTED, phase_started)                                                                \
    X(PHASE_ENDED, phase_ended)                                                                    \
    X(COMMIT_MADE, commit_made)                                                                    \
    X(VERIFY_ENDED, verify_ended)                                                                  \
    X(VERDICT, verdict)                                                                            \
    X(TASK_TURN_ENDED, task_turn_ended)                                                            \
    X(GRACE_STARTED, grace_started)                                                                \
    X(CHECKPOINT_SAVED, checkpoint_saved)                                                          \
    X(TASK_ENDED, task_ended)                                                                      \
    X(MERGE_ENDED, merge_ended)                                                                    \
    X(MERGE_CONFLICT, merge_conflict)                                                              \
    X(GATE_ENDED, gate_ended)                                                                      \
    X(WAVE_ENDED, wave_ended)                                                                      \
    X(FEATURE_DRAINING, feature_draining)                                                          \
    X(FEATURE_PAUSED, feature_paused)                                                              \
    X(FEATURE_RESUMED, feature_resumed)                                                            \
    X(STALE_WRITE_REFUSED, stale_write_refused)                                                    \
    X(RESCUE_MADE, rescue_made)                                                                    \
    X(FEATURE_ENDED, feature_ended)                                                                \
    X(CANCEL_REQUESTED, cancel_requested)                                                          \
    X(RECEIPT, receipt)                                                                            \
    X(WARNING, warning)

enum feature_event_type {
#define EVENT_TYPE(name, text) EVENT_##name,
    EVENT_TABLE(EVENT_TYPE)
#undef EVENT_TYPE
};

/* What an event says besides what is known of its feature and task. */
struct feature_event {
    enum feature_event_type type;
    const struct feature_task *task; /* NULL: of the feature */
    enum bl_task_phase phase;        /* BL_PHASE_NONE: it is not told */
    /* Of some types; the table in event.c says which. */
    const struct feature_wave *wave;
    const struct verify_outcome *verify;
    struct bl_text text;      /* a message, or why */
    struct bl_text json;      /* a verdict, or a receipt */
    const char *const *names; /* tasks, or files */
    size_t name_count;
    uint64_t count; /* of tasks, or of tries */
    uint64_t ms;
    enum turn_phase_state outcome;
    const char *decision;
    bool counted;
    bool valid;
    enum bl_stop_reason reason;
    const char *origin;
    const char *ref;
    const char *branch;
    const char *commit;
    const char *worktree;
};

/* Tells the listener; the journal gets it soon. What says that something is decided or saved is
 * told when it is on record, and what comes after it waits for that. */
void event_tell(struct bl_feature *feature, const struct feature_event *event);
/* EVENT_TELL(feature, COMMIT_MADE, task, .commit = id) */
#define EVENT_TELL(feature, name, of_task, ...)                                                    \
    event_tell((feature),                                                                          \
               &(struct feature_event){.type = EVENT_##name, .task = (of_task), __VA_ARGS__})
/* Tells what waited for the newest write; `all`: or for one that will not come. */
void events_tell(struct bl_feature *feature, bool all);
/* Forgets what was to be told once it is on record, up to that write: it was refused. */
void events_drop(struct bl_feature *feature, uint64_t write);
void event_warn(struct bl_feature *feature, const struct feature_task *task, const char *format,
                ...) BL_PRINTF(3, 4);

/* ---- ledger.c: the only writer --------------------------------------------------------------- */

void ledger_init(struct bl_feature *feature);
void ledger_done(struct bl_feature *feature);
/* Puts a record into the next write; `json` is copied. */
void ledger_put(struct bl_feature *feature, const char *name, struct bl_text json);
void ledger_put_record(struct bl_feature *feature, const char *name, const struct bl_record *record,
                       const void *from);
void ledger_put_task(struct feature_task *task);
void ledger_put_attempt(struct feature_task *task); /* the row, as that of its attempt */
void ledger_put_feature(struct bl_feature *feature);
void ledger_put_wave(struct bl_feature *feature, const struct feature_wave *wave);
void ledger_put_turn(struct feature_task *task, const struct task_turn *turn);
/* The records themselves; what they point to is the feature's, or in the arena. */
void ledger_feature_record(const struct bl_feature *feature, struct bl_arena *arena,
                           struct feature_record *ret_record);
void ledger_wave_record(const struct bl_feature *feature, struct bl_arena *arena,
                        const struct feature_wave *wave, struct wave_record *ret_record);
void ledger_put_event(struct bl_feature *feature, struct bl_text json);
/* Writes all that was put so far, with the events, in one transaction; in a shield, so that a stop
 * does not keep it from being written. One that fails stops the feature. */
int ledger_write(struct bl_feature *feature, bool durable);
/* The fiber that writes events and the lease while nobody else does. */
int ledger_beat(void *feature);

/* ---- task.c, task_turn.c, task_end.c --------------------------------------------------------- */

/* A new attempt, of which nothing is known yet. */
void task_attempt_begin(struct feature_task *task);
/* Opens the scope of a new attempt: it waits for a slot from here on. */
void task_ready(struct feature_task *task);
/* A fiber for each task of a wave, in the feature's nursery and the scope of its attempt. */
int task_main(void *task);
/* Waits at the beginning of a phase while the feature is paused or drains. 0, or the scope was
 * stopped. */
int task_gate(struct feature_task *task);
/* Moves the deadline of a stage that is armed, with its record. */
void task_deadline_move(struct feature_task *task, struct task_stage *stage, uint64_t by_ns,
                        const char *why);
/* Where the attempt was stopped: gives the grace its deadline, or stops it too. */
void task_grace_follow(struct feature_task *task);
/* The scope of what a task does now: its attempt's, its grace's, or that of a merge turn. */
struct task_stage *task_stage_now(struct feature_task *task);

enum turn_end {
    TURN_APPROVED, /* a valid approval, not claimed yet */
    TURN_FEEDBACK,
    TURN_PLAYER_ERROR,
    TURN_COACH_FAILED,
    TURN_BLOCKED,
    TURN_STOPPED,
    TURN_BUDGET,
    TURN_ERROR, /* `error` says what */
};

/* One turn: Player, verification, Coach, each unless it was carried. `merge` is what a merge turn
 * is about; empty: it is none. */
enum turn_end task_turn_run(struct feature_task *task, struct task_turn *turn, struct bl_text merge,
                            struct bl_error *error);
/* After a turn that ended in feedback: issues sorted, text made, row and turn on record. True: it
 * is stalled, and the row's message says how. */
bool task_turn_feedback(struct feature_task *task, struct task_turn *turn);

/* The turn has come to its end: told, and put on record. */
void task_turn_ended(struct feature_task *task, const struct task_turn *turn);
/* What a checkpoint says beside its row. */
struct checkpoint {
    const char *feature;
    uint64_t epoch;
    enum bl_task_phase phase;
    enum bl_stop_reason reason;
    const char *triggered_by;
    int64_t requested_wall_ns; /* 0: not known */
    int64_t observed_wall_ns;
    const struct git_state *state;   /* NULL: not known */
    const struct feature_task *task; /* NULL: of one that nobody runs */
    const struct task_turn *turn;    /* NULL: none is under way */
};

void checkpoint_set(struct bl_task_row *row, const struct checkpoint *from);
/* The verdict that came too late, JSON in the arena, and of which turn; empty: there is none, or the
 * row has another commit. */
struct bl_text checkpoint_late_verdict(struct bl_arena *arena, const struct bl_task_row *row,
                                       uint32_t *ret_turn);
/* The end of an attempt: one transaction with decision, checkpoint, receipt and event. `turn` NULL:
 * none is under way. */
void task_decide(struct feature_task *task, enum bl_task_decision decision, struct task_turn *turn,
                 const char *message);
/* Writes a receipt into the buffer, and puts it on record; false: it is too large. */
bool feature_receipt_record(struct bl_feature *feature, const struct bl_receipt *receipt,
                            struct bl_buffer *json);
/* The same, and tells the event. */
void feature_receipt_put(struct bl_feature *feature, const struct feature_task *task,
                         const struct bl_receipt *receipt, struct bl_buffer *json);
/* The same for one that was stopped: the decision is the stop's. */
void task_decide_stopped(struct feature_task *task, struct task_stage *stage,
                         enum bl_task_phase phase, struct task_turn *turn);
/* Adds the task to the list of running work, so that its id stops this stage; and removes it, with
 * the receipt if the stage was stopped. */
void task_enlist(struct feature_task *task, struct task_stage *stage, const char *phase);
void task_delist(struct feature_task *task, const struct task_stage *stage);
/* The task's scope and receipt are gone, and whoever waits for it is told. */
void task_finish(struct feature_task *task);
/* What the feature's policy says of a task that has just ended. */
void task_policy(struct feature_task *task);

/* ---- waves.c, merge.c ------------------------------------------------------------------------ */

/* All waves, one after another; 0, or the feature's scope was stopped. */
int waves_run(struct bl_feature *feature);
/* Merges what is approved in a wave. 0; BL_ECANCELED, BL_ETIMEDOUT; else the feature has failed. */
int wave_merge(struct bl_feature *feature, struct feature_wave *wave);
/* Finishes or forgets a merge that a dead runner had begun; `intent` is the record. */
int merge_recover(struct bl_feature *feature, const struct bl_json *intent, struct bl_error *error);

/* ---- feature.c, settle.c, rescue.c, control.c ------------------------------------------------ */

/* The whole fails: the first error stays, and the scope stops, reason feature_failure. */
void feature_fail(struct bl_feature *feature, const struct bl_error *error);
/* While it drains nothing new begins: waits until its scope stops. */
int feature_wait_for_stop(struct bl_feature *feature);
/* Stops the feature when its budget of tokens or cost is used up. */
void feature_budget_check(struct bl_feature *feature);
struct feature_task *feature_task_find(struct bl_feature *feature, struct bl_text id);
/* A feature without git and store, for options and means; rows as of a first run. */
struct bl_feature *feature_new(const struct bl_feature_options *options,
                               const struct feature_means *means);
void feature_free(struct bl_feature *feature);
/* Makes rows of what is on record, and settles what a dead runner left. */
void feature_take_records(struct bl_feature *feature, const struct bl_list *records);
/* A row that was running when its runner died: interrupted, with a checkpoint from what is on
 * record. True: it was. */
bool task_row_settle(struct bl_task_row *row, const char *feature, uint64_t epoch,
                     const struct git_state *state);
void task_receipt_settle(struct feature_task *task);
/* The turn that such a row had under way, a record's JSON: cancelled, its running phase stopped. In
 * the arena. */
struct bl_text turn_settle(struct bl_arena *arena, struct bl_text json,
                           const struct bl_task_row *row);
/* Every branch of the feature (or of one task) becomes a rescue ref, its worktree moves aside.
 * `task` NULL: all, and the store begins a new generation. */
int rescue_run(struct bl_feature *feature, struct feature_task *task, struct bl_error *error);
int rescue_recover(struct bl_feature *feature, const struct bl_json *intent,
                   struct bl_error *error);
/* "belay/FEAT/TASK", as a full ref; and that of a branch. */
void feature_branch(const struct bl_feature *feature, const char *task, char out[FEATURE_REF_SIZE]);
void task_ref(const struct bl_task_row *row, char out[FEATURE_REF_SIZE]);
/* With those above it. */
int feature_folder_make(const char *path, struct bl_error *error);

#endif
