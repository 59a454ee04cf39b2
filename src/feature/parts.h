/* Shared by the files of this room: the run, its tasks, and their records.
 *
 * Records of the store, by name:
 *   feature            the feature (feature_row_record)
 *   plan               as bl_plan_json writes it
 *   task/TASK          a task (task_row_record)
 *   wave/N             a wave (wave_row_record)
 *   turn/TASK/A/N      turn N of attempt A (task_turn_record)
 *   attempt/TASK/A     the task's row at the end of that attempt
 *   output/TASK/A/N/P  {task, attempt, turn, phase, text}: output of phase P (player, verify,
 *                      coach-1, …), bounded
 *   receipt/ID         a receipt
 *   merge              intent of a merge: {wave, old, new, tasks: [id, …]}
 *   fresh              intent of a fresh start or a retry
 *
 * Times have the format of bl_time_format. */
#ifndef BELAY_FEATURE_PARTS_H
#define BELAY_FEATURE_PARTS_H

#include "feature/seat/seat.h"
#include "feature/verdict/verdict.h"
#include "feature/verdict/verify.h"
#include "git/git.h"

#define FEATURE_REF_SIZE    256                /* a branch with "refs/heads/" before it */
#define FEATURE_SHIELD_NS   (30 * BL_NS_PER_S) /* for writes after a stop */
#define FEATURE_BEAT_NS     (1 * BL_NS_PER_S)  /* period of writes of the lease and of activity */
#define FEATURE_TRIES_MAX   3 /* invalid verdicts, Player errors or absent verifications in a row */
#define FEATURE_OUTPUT_KEPT ((size_t)128 * 1024) /* output of a phase that the store keeps */
#define FEATURE_DIFF_MAX    ((size_t)256 * 1024) /* size of the diff that a Coach gets */

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Wakes all waiting fibers at the next ring. Embedded by its owner; used only on the loop. */
struct feature_bell {
    struct bl_list waiters;
};

void feature_bell_init(struct feature_bell *bell);
int feature_bell_wait(struct feature_bell *bell); /* 0, BL_ECANCELED, BL_ETIMEDOUT */
void feature_bell_ring(struct feature_bell *bell);

/* ---- Rows ------------------------------------------------------------------------------------ */

#define FEATURE_SECONDS_MAX 1000000000 /* larger values, in seconds or milliseconds, are invalid */

/* The only way to change a task's state. */
void task_row_move(struct bl_task_row *row, enum bl_task_state to);

/* The part of a row that a resume needs. */
struct bl_task_memory {
    struct stall stall;
    char session[72]; /* of an agent as the Player */
    struct bl_text feedback;
    uint32_t feedback_turn;
    struct bl_text last_verdict; /* JSON */
    struct bl_text cut_off;      /* what a stop cut off, for the next Player */
    uint32_t merge_turns;
    char approved_commit[GIT_ID_SIZE]; /* the commit that the Coach approved, and that is merged */
};

extern const struct bl_names feature_states;
extern const struct bl_names wave_states;
extern const struct bl_form feature_commit_form;
extern const struct bl_form feature_receipt_form;
/* Describe a struct bl_task_row with its memory, and a struct bl_task_view read from such a row. */
extern const struct bl_record task_row_record;
extern const struct bl_record task_view_read_record;

/* Rows of a runner own their texts and memory, on the heap. */
void task_row_init(struct bl_task_row *row);
void task_row_done(struct bl_task_row *row);
/* Replaces a text with a copy on the heap. */
void row_text_set(struct bl_text *slot, struct bl_text text);
/* Returns a record as JSON in the arena, or an empty text if it is too large. */
struct bl_text record_json(struct bl_arena *arena, const struct bl_record *record,
                           const void *from);
/* Returns NULL for an empty word. */
const char *row_word(const char *word);
/* Replaces the row with the values of `value`; missing values get the defaults of task_row_init. */
void task_row_read(const struct bl_json *value, struct bl_task_row *row);

/* The state of the feature in the store. */
struct feature_row {
    char state[16];
    char run_id[BL_ID_SIZE];
    char base_commit[GIT_ID_SIZE];
    char result_commit[GIT_ID_SIZE]; /* empty: none yet */
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    int64_t deadline_wall_ns; /* 0: none, or not running */
    char reason[24];
    char origin[80];
    int exit_code; /* -1: running */
    char receipt[BL_ID_SIZE];
};

/* The stored record: the row with values from the plan and the tasks. */
struct feature_record {
    struct bl_feature_view view;
    /* For lists, which read only this record. */
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

/* The stored record: the wave with its tasks. */
struct wave_record {
    struct feature_wave wave;
    const char *const *tasks; /* task ids */
    size_t task_count;
    const char *message; /* why the wave failed or is unverified; NULL: no message */
};

extern const struct bl_record wave_row_record;

/* ---- Turns ----------------------------------------------------------------------------------- */

enum turn_phase_state {
    TURN_PHASE_NONE,
    TURN_PHASE_RUNNING,
    TURN_PHASE_ENDED,
    TURN_PHASE_STOPPED,
    TURN_PHASE_FAILED,
    TURN_PHASE_CARRIED, /* ended in an earlier turn, and is not repeated */
};

extern const struct bl_names turn_phase_states;
extern const struct bl_names turn_decisions;

struct turn_phase {
    enum bl_task_phase phase;
    enum turn_phase_state state;
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    int64_t ms; /* -1: not ended */
};

/* A turn of a task, while it runs and as a record. Lives in its arena. */
struct task_turn {
    struct bl_arena arena;
    const char *task; /* task id */
    uint32_t number;
    uint32_t attempt;
    bool merge;
    bool counted;
    const char
        *decision; /* approve, feedback, player_error, coach_error, cancelled, timeout; NULL */
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    struct turn_phase phases[3]; /* Player, verification and Coach; only those that have started */
    size_t phase_count;
    /* Of the Player, once its phase has ended. */
    bool played;
    struct bl_text player_text;
    struct player_result result;
    int player_exit;
    bool changed; /* this turn changed the tree */
    char head[GIT_ID_SIZE];
    struct bl_list issues; /* struct issue: Belay's own, then the Coach's */
    bool verified;         /* verification has ended */
    struct verify_outcome verify;
    bool verdict_valid;
    struct verdict verdict;
    bool judged_late; /* the verdict came after the stop */
    struct bl_text feedback;
    struct bl_spent spent;
};

/* Starts a turn of a task. Keeps the pointer to the id. */
void task_turn_init(struct task_turn *turn, const char *task);
void task_turn_done(struct task_turn *turn);
/* Returns that phase of the turn, and adds it if it has not started. */
struct turn_phase *task_turn_phase(struct task_turn *turn, enum bl_task_phase phase);
/* Returns whether the phase has ended, in this turn or an earlier one. */
bool task_turn_has(const struct task_turn *turn, enum bl_task_phase phase);
/* Reads a record, as far as it fits, into the arena. Returns false if it is not JSON. */
bool task_turn_read(struct bl_arena *arena, struct bl_text json, struct task_turn *ret_turn);
/* Takes over the phases that ended if `json` is the record of a turn that was cut off. */
void task_turn_carry(struct task_turn *turn, struct bl_text json);
extern const struct bl_record task_turn_record;

/* ---- A run ----------------------------------------------------------------------------------- */

struct feature_task;

/* The operations that the loop of a task needs. means.c implements them with git, seats and the
 * store; tests replace them to run a whole feature in virtual time. All run in the calling fiber
 * and its scope. */
struct feature_means {
    int (*prepare)(struct feature_task *task, struct bl_error *error); /* makes sure the worktree
                                                                          exists */
    void (*play)(struct feature_task *task, const struct seat_order *order, struct bl_arena *arena,
                 struct seat_outcome *ret_outcome);
    int (*commit)(struct feature_task *task, struct bl_arena *arena, const char *message,
                  struct git_commit_result *ret_result, struct bl_error *error);
    int (*state)(struct feature_task *task, struct bl_arena *arena, struct git_state *ret_state,
                 struct bl_error *error);
    int (*changed)(struct feature_task *task, struct bl_arena *arena, const char *const **ret_paths,
                   struct bl_error *error); /* paths changed since the base */
    int (*diff)(struct feature_task *task, struct bl_arena *arena, struct bl_text *ret_text,
                struct bl_error *error);
    int (*verify)(struct feature_task *task, const struct verify_order *order,
                  struct bl_arena *arena, struct verify_outcome *ret_outcome);
    /* Makes and removes a clean copy for the Coach. */
    int (*copy_make)(struct feature_task *task, const char *path, struct bl_error *error);
    void (*copy_remove)(struct feature_task *task, const char *path);
    int (*merge)(struct bl_feature *feature, struct feature_wave *wave); /* wave_merge */
    int (*write)(struct bl_feature *feature, const struct bl_store_feature_write *write,
                 struct bl_error *error);
};

extern const struct feature_means feature_means_real;

/* A scope with its own receipt, for an attempt, its grace or a merge turn. */
struct task_stage {
    bool open;
    struct bl_scope scope;
    struct bl_receipt receipt;
    uint64_t deadline_ns; /* the armed deadline, on the loop's clock; BL_NEVER: not armed */
};

void task_stage_open(struct task_stage *stage, struct bl_scope *parent, const char *id);
void task_stage_close(struct task_stage *stage);
/* Sets the stage's timer to `deadline_ns`, and the task's row to match; the row is stored with its
 * next put. */
void task_stage_arm(struct feature_task *task, struct task_stage *stage, uint64_t deadline_ns);

struct feature_task {
    struct bl_feature *feature;
    const struct bl_plan_task *plan;
    struct bl_task_row row;
    bool ready;              /* `main` is open: the task waits for a slot, or runs */
    bool wanted;             /* this run must complete the task */
    bool retried;            /* the attempt starts without earlier work */
    struct task_stage main;  /* the attempt */
    struct task_stage grace; /* verification and Coach in the grace: child of the feature's scope */
    struct task_stage merge; /* a merge turn */
    struct bl_stop_hook main_stopped;
    bool in_grace; /* the timer has fired, and the grace continues */
    uint64_t fired_ns;
    uint64_t started_ns; /* when the task took its slot */
    uint64_t held_ns;    /* when a pause held the timer; 0: not held */
    uint32_t turns_here; /* started in this attempt */
    struct bl_budget budget;
    struct bl_ledger ledger;
    bool budgeted_usd; /* the task has its own cost limit */
    struct bl_unit unit;
    struct bl_activity activity;
    bool active_changed;
    bool unsaved; /* the newest row is not in the store */
    uint32_t survivors;
    struct bl_text late_verdict;   /* JSON of a valid verdict after the stop */
    struct bl_text partial_text;   /* text of a Player that was cut off */
    struct bl_text partial_result; /* JSON of its result */
    struct bl_text carry;          /* JSON of the last turn that was cut off; empty: none */
    struct bl_buffer receipt_json; /* receipt of this attempt's stop */
    struct bl_capture *capture;    /* capture of the running phase; NULL: none */
    uint32_t tries;                /* tries of that phase, including this one */
    struct feature_bell ended;
    char compare_base[GIT_ID_SIZE]; /* start of diffs: the task's base, or in a merge turn the
                                       candidate */
    char scratch[512];              /* the task's scratch folder, outside the worktree */
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
    bool checked; /* the repository passed its checks */
    bool resumed;
    bool owner_died;                  /* the previous owner */
    int64_t owner_seen_ns;            /* time of its newest write */
    struct bl_wardens_end owner_left; /* the fate of its processes */
    bool plan_changed;
    size_t dirty_files;      /* uncommitted files of the user's checkout, which are not in the
                                base */
    struct bl_buffer warned; /* warnings of this run, each followed by a NUL */
    /* During a run. */
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_nursery nursery;  /* the tasks */
    struct bl_nursery services; /* ledger_beat and the drain, which a stop does not end */
    struct bl_semaphore slots;
    struct bl_budget budget;
    struct bl_ledger ledger;
    struct bl_activity activity;
    bool running;
    bool paused;
    bool draining;
    bool hurried;
    struct bl_scope *outer; /* the caller's scope, parent of `scope` */
    struct bl_stop_hook stopped;
    enum bl_stop_reason drain_reason;
    char drain_origin[80];
    uint32_t phases_running;
    uint32_t wave;                /* the current wave, from 1 */
    struct feature_bell changed;  /* rung on pause, drain, and the end of a phase */
    struct feature_bell finished; /* rung at the end of the run */
    bool failed;                  /* a task is failed, timed out or blocked */
    bool person_cancelled;        /* a person stopped a task */
    bool unverified;
    struct bl_buffer receipt_json;
    /* The ledger. */
    struct bl_list pending_records; /* struct pending_record, on the heap */
    struct bl_list pending_events;  /* struct pending_event, the same */
    struct bl_list untold;          /* struct untold_event: events held back from the listener, in
                                       order */
    struct feature_bell to_write;
    struct bl_lock writing;
    uint64_t asked;   /* number of the newest requested write */
    uint64_t written; /* number of the newest write in the store */
    int write_code;   /* result of that write */
    bool pending_durable;
    uint64_t events; /* events told so far */
    uint64_t unsaved_events;
    uint64_t epoch;
    bool stale;            /* the lease belongs to another process */
    struct bl_error error; /* the first error; code 0: none */
    char result_ref[FEATURE_REF_SIZE];
    char scratch[400]; /* .belay/run/FEAT in the repository */
};

/* ---- event.c --------------------------------------------------------------------------------- */

/* Event types: the name here and the name in JSON. */
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

/* The fields of an event apart from its feature and task. */
struct feature_event {
    enum feature_event_type type;
    const struct feature_task *task; /* NULL: about the feature */
    enum bl_task_phase phase;        /* BL_PHASE_NONE: omitted */
    /* For some types only; see the table in event.c. */
    const struct feature_wave *wave;
    const struct verify_outcome *verify;
    struct bl_text text;      /* a message or a reason */
    struct bl_text json;      /* a verdict or a receipt */
    const char *const *names; /* tasks or files */
    size_t name_count;
    uint64_t count; /* number of tasks or of tries */
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

/* Tells the listener, and queues the event for the journal. An event that reports a decision or a
 * saved record is held back until that record is stored, and later events wait behind it. */
void event_tell(struct bl_feature *feature, const struct feature_event *event);
/* EVENT_TELL(feature, COMMIT_MADE, task, .commit = id) */
#define EVENT_TELL(feature, name, of_task, ...)                                                    \
    event_tell((feature),                                                                          \
               &(struct feature_event){.type = EVENT_##name, .task = (of_task), __VA_ARGS__})
/* Tells the events that the newest write released; with `all`, also those whose write will not
 * come. */
void events_tell(struct bl_feature *feature, bool all);
/* Drops the events held back for writes up to `write`, which the store refused. */
void events_drop(struct bl_feature *feature, uint64_t write);
void event_warn(struct bl_feature *feature, const struct feature_task *task, const char *format,
                ...) BL_PRINTF(3, 4);

/* ---- ledger.c: the only writer --------------------------------------------------------------- */

void ledger_init(struct bl_feature *feature);
void ledger_done(struct bl_feature *feature);
/* Adds a record to the next write; copies `json`. */
void ledger_put(struct bl_feature *feature, const char *name, struct bl_text json);
void ledger_put_record(struct bl_feature *feature, const char *name, const struct bl_record *record,
                       const void *from);
void ledger_put_task(struct feature_task *task);
void ledger_put_attempt(struct feature_task *task); /* the row as the record of its attempt */
void ledger_put_feature(struct bl_feature *feature);
void ledger_put_wave(struct bl_feature *feature, const struct feature_wave *wave);
void ledger_put_turn(struct feature_task *task, const struct task_turn *turn);
/* Fill the records; their pointers belong to the feature or to the arena. */
void ledger_feature_record(const struct bl_feature *feature, struct bl_arena *arena,
                           struct feature_record *ret_record);
void ledger_wave_record(const struct bl_feature *feature, struct bl_arena *arena,
                        const struct feature_wave *wave, struct wave_record *ret_record);
void ledger_put_event(struct bl_feature *feature, struct bl_text json);
/* Writes all pending records and events in one transaction. It runs in a shield, so that a stop
 * does not prevent it. A failed write stops the feature. */
int ledger_write(struct bl_feature *feature, bool durable);
/* The fiber that writes events and renews the lease when no other write does. */
int ledger_beat(void *feature);

/* ---- task.c, task_turn.c, task_end.c --------------------------------------------------------- */

/* Resets a task for a new attempt. */
void task_attempt_begin(struct feature_task *task);
/* Opens the scope of a new attempt, which from then on waits for a slot. */
void task_ready(struct feature_task *task);
/* The fiber of a task of a wave, in the feature's nursery and the scope of its attempt. */
int task_main(void *task);
/* Waits at the start of a phase while the feature is paused or draining. Returns 0, or an error
 * code if the scope was stopped. */
int task_gate(struct feature_task *task);
/* Moves the deadline of an armed stage, and records it. */
void task_deadline_move(struct feature_task *task, struct task_stage *stage, uint64_t by_ns,
                        const char *why);
/* Follows a stop of the attempt: starts the deadline of the grace, or stops the grace too. */
void task_grace_follow(struct feature_task *task);
/* Returns the task's current stage: its attempt, its grace or a merge turn. */
struct task_stage *task_stage_now(struct feature_task *task);

enum turn_end {
    TURN_APPROVED, /* a valid approval, not yet claimed */
    TURN_FEEDBACK,
    TURN_PLAYER_ERROR,
    TURN_COACH_FAILED,
    TURN_BLOCKED,
    TURN_STOPPED,
    TURN_BUDGET,
    TURN_ERROR, /* see `error` */
};

/* Runs one turn: Player, verification and Coach, except for phases taken over from an earlier turn.
 * `merge` describes the conflict or gate failure of a merge turn; empty for a normal turn. */
enum turn_end task_turn_run(struct feature_task *task, struct task_turn *turn, struct bl_text merge,
                            struct bl_error *error);
/* Processes a turn that ended in feedback: sorts the issues, makes the text, and records row and
 * turn. Returns true if the task is stalled; the row's message then says how. */
bool task_turn_feedback(struct feature_task *task, struct task_turn *turn);

/* Records the end of a turn and tells it. */
void task_turn_ended(struct feature_task *task, const struct task_turn *turn);
/* The parts of a checkpoint that are not in its row. */
struct checkpoint {
    const char *feature;
    uint64_t epoch;
    enum bl_task_phase phase;
    enum bl_stop_reason reason;
    const char *triggered_by;
    int64_t requested_wall_ns; /* 0: unknown */
    int64_t observed_wall_ns;
    const struct git_state *state;   /* NULL: unknown */
    const struct feature_task *task; /* NULL: no runner has the task */
    const struct task_turn *turn;    /* NULL: no turn is in progress */
};

void checkpoint_set(struct bl_task_row *row, const struct checkpoint *from);
/* Returns the verdict that came too late, as JSON in the arena, and its turn. Empty if there is
 * none or the row has another commit. */
struct bl_text checkpoint_late_verdict(struct bl_arena *arena, const struct bl_task_row *row,
                                       uint32_t *ret_turn);
/* Ends an attempt: one transaction with decision, checkpoint, receipt and event. `turn` is NULL if
 * no turn is in progress. */
void task_decide(struct feature_task *task, enum bl_task_decision decision, struct task_turn *turn,
                 const char *message);
/* Writes a receipt to the buffer and records it. Returns false if it is too large. */
bool feature_receipt_record(struct bl_feature *feature, const struct bl_receipt *receipt,
                            struct bl_buffer *json);
/* Like feature_receipt_record, and tells the event. */
void feature_receipt_put(struct bl_feature *feature, const struct feature_task *task,
                         const struct bl_receipt *receipt, struct bl_buffer *json);
/* Like task_decide for a stopped attempt: the stop determines the decision. */
void task_decide_stopped(struct feature_task *task, struct task_stage *stage,
                         enum bl_task_phase phase, struct task_turn *turn);
/* Add the task to the list of running work, so that its id stops this stage; and remove it, with
 * the receipt if the stage was stopped. */
void task_enlist(struct feature_task *task, struct task_stage *stage, const char *phase);
void task_delist(struct feature_task *task, const struct task_stage *stage);
/* Closes the task's scope and receipt, and wakes the fibers that wait for the task. */
void task_finish(struct feature_task *task);
/* Applies the feature's on_failure policy to a task that has just ended. */
void task_policy(struct feature_task *task);

/* ---- waves.c, merge.c ------------------------------------------------------------------------ */

/* Runs all waves in order. Returns 0, or an error code if the feature's scope was stopped. */
int waves_run(struct bl_feature *feature);
/* Merges the approved tasks of a wave. Returns 0, BL_ECANCELED or BL_ETIMEDOUT; any other code
 * means that the feature has failed. */
int wave_merge(struct bl_feature *feature, struct feature_wave *wave);
/* Finishes or drops a merge that a dead runner had started; `intent` is its record. */
int merge_recover(struct bl_feature *feature, const struct bl_json *intent, struct bl_error *error);

/* ---- feature.c, settle.c, rescue.c, control.c ------------------------------------------------ */

/* Fails the feature: keeps the first error, and stops the scope with reason feature_failure. */
void feature_fail(struct bl_feature *feature, const struct bl_error *error);
/* Waits until the scope of a draining feature stops; no new work starts. */
int feature_wait_for_stop(struct bl_feature *feature);
/* Stops the feature when its token or cost budget is used up. */
void feature_budget_check(struct bl_feature *feature);
struct feature_task *feature_task_find(struct bl_feature *feature, struct bl_text id);
/* Makes a feature without git and store, for the given options and means; rows are those of a first
 * run. */
struct bl_feature *feature_new(const struct bl_feature_options *options,
                               const struct feature_means *means);
void feature_free(struct bl_feature *feature);
/* Fills the rows from the records of the store, and settles what a dead runner left. */
void feature_take_records(struct bl_feature *feature, const struct bl_list *records);
/* A dead runner, for the functions that settle its records. */
struct dead_runner {
    const char *feature;
    uint64_t epoch;       /* of the lease that covers this write */
    int64_t seen_wall_ns; /* its newest write; 0: unknown */
};
/* Settles a row that was running when its runner died: interrupted, with a checkpoint from the
 * records. Returns true if the row was running. */
bool task_row_settle(struct bl_task_row *row, const struct dead_runner *runner,
                     const struct git_state *state);
void task_receipt_settle(struct feature_task *task);
/* Settles the interrupted turn of such a row, given and returned as a record's JSON: the turn is
 * cancelled, its running phase stopped. In the arena. */
struct bl_text turn_settle(struct bl_arena *arena, struct bl_text json,
                           const struct bl_task_row *row);
/* Turns every branch of the feature (or of one task) into a rescue ref and moves its worktree
 * aside. `task` NULL: all tasks, and the store starts a new generation. */
int rescue_run(struct bl_feature *feature, struct feature_task *task, struct bl_error *error);
int rescue_recover(struct bl_feature *feature, const struct bl_json *intent,
                   struct bl_error *error);
/* The full ref of branch "belay/FEAT/TASK", and that of the branch in a row. */
void feature_branch(const struct bl_feature *feature, const char *task, char out[FEATURE_REF_SIZE]);
void task_ref(const struct bl_task_row *row, char out[FEATURE_REF_SIZE]);
/* Makes a folder and its parents. */
int feature_folder_make(const char *path, struct bl_error *error);

#endif
