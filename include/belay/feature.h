/* feature: a plan of tasks becomes merged work, and any part of it can be stopped.
 *
 * Waves run in order; the tasks of a wave run side by side, each a loop of Player, verification and
 * Coach in a git worktree of its own. What was approved is merged at the end of its wave.
 *
 * Promises: a stop of one task leaves its siblings alone; an attempt ends in one place, by one
 * decision, and everybody reads that; wave N+1 never runs beside anything of wave N; the user's
 * checkout, index, branch and stash are not touched, plan files are not written, and work that is
 * not merged is not deleted. */
#ifndef BELAY_FEATURE_H
#define BELAY_FEATURE_H

#include <belay/runtime.h>

BL_PUBLIC_BEGIN

/* ---- Plans ----------------------------------------------------------------------------------- */

#define BL_PLAN_ID_SIZE 65

enum bl_seat_kind {
    BL_SEAT_AGENT,
    BL_SEAT_COMMAND,
};

/* Who plays or coaches. Strings are the plan's. */
struct bl_seat {
    enum bl_seat_kind kind;
    /* Of an agent. */
    const char *provider; /* NULL: as configured */
    const char *model;    /* NULL: as configured; of provider "script" the file, absolute */
    const char *persona;
    enum bl_permission_mode permission;
    uint64_t max_steps; /* BL_UNLIMITED: none */
    /* Of a command. */
    const char *const *command; /* ends in NULL */
    uint64_t grace_ns;
    enum bl_sandbox sandbox; /* of both; of an agent only if sandbox_chosen */
    bool sandbox_chosen;
};

struct bl_verify_plan {
    const char *setup;           /* for a shell; NULL: none */
    bool setup_network;          /* it may use the network */
    const char *const *commands; /* the same; end in NULL; behavioural_oracle is the last */
    uint64_t timeout_ns;         /* of each */
    const char *const *carry;    /* paths, end in NULL */
    const char *const *protect;  /* patterns, end in NULL */
    bool required;
};

/* All of them decided: command line, task, feature, default. */
struct bl_feature_limits {
    uint64_t task_timeout_ns;
    double timeout_multiplier;
    uint64_t feature_timeout_ns; /* 0: none */
    uint32_t parallel;           /* recommended_parallel has been seen to */
    uint32_t turns;
    uint64_t min_turn_budget_ns;
    uint64_t coach_grace_ns;
    uint64_t drain_ns;
    uint32_t merge_turns;
    uint64_t merge_timeout_ns;
    uint32_t feedback_issues;
    uint64_t max_budget_tokens; /* BL_UNLIMITED: none. Of a task: its own file's; of the plan: the
                                   feature's */
    double max_budget_usd;      /* negative: none; the same */
};

struct bl_criterion {
    const char *id;
    struct bl_text text;
};

struct bl_plan_task {
    const char *id;
    const char *name;
    const char *file;    /* as the plan names it, relative to the repository */
    struct bl_text body; /* of the task file, below its front matter */
    struct bl_criterion *criteria;
    size_t criterion_count;
    size_t number;        /* in plan order, from 0 */
    size_t wave;          /* from 0 */
    size_t *dependencies; /* numbers of tasks */
    size_t dependency_count;
    const char *status;        /* in the plan: pending, completed, deferred, … */
    bool manual;               /* implementation_mode: manual, or an operator's handoff */
    const char *mode;          /* NULL: not said */
    int64_t complexity;        /* 0: not said */
    int64_t estimated_minutes; /* the same */
    struct bl_seat player;
    struct bl_seat coach;
    struct bl_verify_plan verify;
    struct bl_feature_limits limits;
    uint64_t deadline_ns;        /* what is enforced: the one function that resolves it has */
    const char *deadline_source; /* "command line", "task", "autobuild", "feature", "default" */
};

struct bl_plan_wave {
    size_t *tasks; /* numbers, in plan order */
    size_t count;
    bool gated; /* the smoke gate runs after it */
};

struct bl_smoke_gate {
    const char *command; /* for a shell; NULL: there is none */
    int expected_exit;
    uint64_t timeout_ns;
    bool exit5_is_hard_fail;
};

enum bl_on_failure {
    BL_ON_FAILURE_WAVE_END,
    BL_ON_FAILURE_CANCEL_SIBLINGS,
    BL_ON_FAILURE_CONTINUE,
};

const char *bl_on_failure_name(enum bl_on_failure policy);
extern const struct bl_names bl_on_failure_names;

/* Immutable once it is loaded; lives in its own arena. */
struct bl_plan {
    struct bl_arena arena;
    const char *path;       /* of the file, as it was found */
    const char *repository; /* absolute: the top of the work tree that holds it */
    const char *id;
    const char *name;
    const char *description;
    struct bl_plan_task *tasks;
    size_t task_count;
    struct bl_plan_wave *waves; /* empty ones are dropped */
    size_t wave_count;
    struct bl_smoke_gate gate;
    struct bl_feature_limits limits;
    int64_t recommended_parallel; /* 0: not said */
    bool required;                /* verify.required of the feature */
    enum bl_on_failure on_failure;
    char digest[72];         /* "sha256:…" of plan and task files */
    struct bl_list warnings; /* struct bl_plan_problem */
};

/* One thing wrong; in an arena. */
struct bl_plan_problem {
    struct bl_list link;
    const char *file;
    uint32_t line;       /* 0: of the file as a whole */
    const char *code;    /* "E06"; of a warning "W" */
    const char *message; /* with its suggestions */
};

/* What the command line says; `…_set` or not 0: it does. */
struct bl_plan_overrides {
    uint32_t parallel;
    uint32_t turns;
    bool feature_timeout_set;
    uint64_t feature_timeout_ns;
    uint64_t task_timeout_ns;
    double timeout_multiplier;
    bool on_failure_set;
    enum bl_on_failure on_failure;
    bool coach_grace_set;
    uint64_t coach_grace_ns;
    bool drain_set;
    uint64_t drain_ns;
    uint64_t max_budget_tokens; /* 0: not said */
    bool max_budget_usd_set;
    double max_budget_usd;
};

struct bl_plan_options {
    const char *name;                          /* a path, or an id */
    const char *directory;                     /* where one stands; absolute */
    const struct bl_plan_overrides *overrides; /* NULL: none */
    struct bl_config *config;                  /* for providers; NULL: they are not looked up */
    const struct bl_list *personas;            /* struct bl_persona; NULL: they are not looked up */
};

/* Loads, checks and resolves; blocks as files do. BL_EINVAL: `problems` (struct bl_plan_problem,
 * appended, in `arena`) has all that is wrong, and `error` the first, kind usage. Other codes, with
 * `error`: there is no repository (kind feature). */
int bl_plan_load(struct bl_arena *arena, const struct bl_plan_options *options,
                 struct bl_plan **ret_plan, struct bl_list *problems, struct bl_error *error);
void bl_plan_free(struct bl_plan *plan); /* NULL is fine */
/* "FILE:LINE: CODE message", control characters escaped. */
int bl_plan_problem_text(const struct bl_plan_problem *problem, struct bl_buffer *out);
/* What `validate` says: waves, seats, every deadline; and the same as JSON, in the arena. */
int bl_plan_text(const struct bl_plan *plan, struct bl_buffer *out);
struct bl_text bl_plan_json(struct bl_arena *arena, const struct bl_plan *plan);
/* What bl_plan_json writes; the struct is the room's. */
extern const struct bl_record bl_plan_record;
/* A struct bl_plan_problem. */
extern const struct bl_record bl_plan_problem_record;
/* "2400 s", "2400 s + 120 s coach grace". */
void bl_plan_deadline_text(const struct bl_plan_task *task, char out[96]);
/* The top of the work tree above `directory`, links resolved, in the arena; BL_ENOENT: none. */
int bl_plan_repository(struct bl_arena *arena, const char *directory, const char **ret_repository,
                       struct bl_error *error);
/* The id that NAME stands for: of a path what the file says, of an id itself; in the arena. For
 * commands that look into the store alone. */
const char *bl_plan_name_id(struct bl_arena *arena, const char *directory, const char *name);

/* ---- What is on record ----------------------------------------------------------------------- */

#define BL_TASK_STATE_TABLE(X)                                                                     \
    X(BL_TASK_PENDING, "pending")                                                                  \
    X(BL_TASK_QUEUED, "queued")                                                                    \
    X(BL_TASK_RUNNING, "running")                                                                  \
    X(BL_TASK_STOPPING, "stopping")                                                                \
    X(BL_TASK_APPROVED, "approved")                                                                \
    X(BL_TASK_COMPLETED, "completed") /* from here on nothing changes any more */                  \
    X(BL_TASK_FAILED, "failed")                                                                    \
    X(BL_TASK_TIMED_OUT, "timed_out")                                                              \
    X(BL_TASK_CANCELLED, "cancelled")                                                              \
    X(BL_TASK_BLOCKED, "blocked")                                                                  \
    X(BL_TASK_INTERRUPTED, "interrupted")                                                          \
    X(BL_TASK_SKIPPED, "skipped")                                                                  \
    X(BL_TASK_DEFERRED, "deferred")

enum bl_task_state {
#define BL_TASK_STATE(name, text) name,
    BL_TASK_STATE_TABLE(BL_TASK_STATE)
#undef BL_TASK_STATE
};

#define BL_TASK_DECISION_TABLE(X)                                                                  \
    X(BL_DECISION_NONE, NULL, BL_TASK_PENDING)                                                     \
    X(BL_DECISION_APPROVED, "approved", BL_TASK_APPROVED)                                          \
    X(BL_DECISION_APPROVED_LATE, "approved_late", BL_TASK_APPROVED)                                \
    X(BL_DECISION_ALREADY_COMPLETED, "already_completed", BL_TASK_COMPLETED)                       \
    X(BL_DECISION_MAX_TURNS, "max_turns_reached", BL_TASK_FAILED)                                  \
    X(BL_DECISION_STALLED, "stalled", BL_TASK_FAILED)                                              \
    X(BL_DECISION_PLAYER_FAILED, "player_failed", BL_TASK_FAILED)                                  \
    X(BL_DECISION_COACH_FAILED, "coach_failed", BL_TASK_FAILED)                                    \
    X(BL_DECISION_MERGE_CONFLICT, "merge_conflict", BL_TASK_FAILED)                                \
    X(BL_DECISION_GATE_FAILED, "gate_failed", BL_TASK_FAILED)                                      \
    X(BL_DECISION_MAX_BUDGET, "max_budget_reached", BL_TASK_FAILED)                                \
    X(BL_DECISION_ERROR, "error", BL_TASK_FAILED)                                                  \
    X(BL_DECISION_TIMEOUT, "timeout", BL_TASK_TIMED_OUT)                                           \
    X(BL_DECISION_TIMEOUT_BUDGET, "timeout_budget_exhausted", BL_TASK_TIMED_OUT)                   \
    X(BL_DECISION_CANCELLED, "cancelled", BL_TASK_CANCELLED)                                       \
    X(BL_DECISION_BLOCKED, "blocked", BL_TASK_BLOCKED)                                             \
    X(BL_DECISION_INTERRUPTED, "interrupted", BL_TASK_INTERRUPTED)                                 \
    X(BL_DECISION_SKIPPED, "skipped", BL_TASK_SKIPPED)                                             \
    X(BL_DECISION_DEFERRED, "deferred", BL_TASK_DEFERRED)

enum bl_task_decision {
#define BL_TASK_DECISION(name, text, state) name,
    BL_TASK_DECISION_TABLE(BL_TASK_DECISION)
#undef BL_TASK_DECISION
};

/* Where in its loop a task stands, or stood when it was stopped. */
#define BL_TASK_PHASE_TABLE(X)                                                                     \
    X(BL_PHASE_NONE, NULL)                                                                         \
    X(BL_PHASE_LOOP_TOP, "loop_top")                                                               \
    X(BL_PHASE_PLAYER, "player")                                                                   \
    X(BL_PHASE_BETWEEN, "between")                                                                 \
    X(BL_PHASE_VERIFY, "verify")                                                                   \
    X(BL_PHASE_COACH, "coach")                                                                     \
    X(BL_PHASE_AFTER_TURN, "after_turn")                                                           \
    X(BL_PHASE_MERGE, "merge")

enum bl_task_phase {
#define BL_TASK_PHASE(name, text) name,
    BL_TASK_PHASE_TABLE(BL_TASK_PHASE)
#undef BL_TASK_PHASE
};

/* What the declared commands say of a commit. */
#define BL_VERIFIED_TABLE(X)                                                                       \
    X(BL_VERIFIED_UNKNOWN, NULL) /* not run yet */                                                 \
    X(BL_VERIFIED_NONE, "none")  /* no commands are declared */                                    \
    X(BL_VERIFIED_PASSED, "passed")                                                                \
    X(BL_VERIFIED_FAILED, "failed") /* one ran and said no */                                      \
    X(BL_VERIFIED_ABSENT, "absent") /* setup failed, 126, 127, killed, timed out, no copy */

enum bl_verified {
#define BL_VERIFIED(name, text) name,
    BL_VERIFIED_TABLE(BL_VERIFIED)
#undef BL_VERIFIED
};

extern const struct bl_names bl_task_states;
extern const struct bl_names bl_task_decisions;
extern const struct bl_names bl_task_phases;
extern const struct bl_names bl_verified_values;

const char *bl_task_state_name(enum bl_task_state state);
bool bl_task_state_final(enum bl_task_state state);
const char *bl_task_decision_name(enum bl_task_decision decision); /* NULL for none */
/* The state that an attempt has when that is its decision. */
enum bl_task_state bl_task_decision_state(enum bl_task_decision decision);
const char *bl_task_phase_name(enum bl_task_phase phase); /* NULL for none */
const char *bl_verified_name(enum bl_verified verified);  /* NULL: not known */

#define BL_COMMIT_SIZE 72 /* of a commit's id, with its NUL */
#define BL_BRANCH_SIZE 245

struct bl_task_memory;

/* A task as it is on record: one row of the store. */
struct bl_task_row {
    char id[BL_PLAN_ID_SIZE];
    struct bl_text name;
    uint32_t wave; /* from 1 */
    enum bl_task_state state;
    enum bl_task_decision decision;
    uint32_t attempt; /* from 1; 0: it was never begun */
    uint32_t turn;    /* newest, from 1; 0: none */
    uint32_t turns_counted;
    uint32_t turns_max; /* 0: not known */
    enum bl_task_phase phase;
    enum bl_verified verified;
    int64_t started_wall_ns; /* of the attempt; 0 here and below: not known */
    int64_t ended_wall_ns;
    double elapsed_s;  /* of an attempt that has ended; -1: it has not */
    double deadline_s; /* -1: not decided yet */
    char deadline_source[24];
    double grace_s; /* 0: none */
    int64_t active_wall_ns;
    char activity[40]; /* the last: "model", "output", "tool bash", … */
    char branch[BL_BRANCH_SIZE];
    char base_commit[BL_COMMIT_SIZE];
    char head_commit[BL_COMMIT_SIZE];
    bool merged;
    int64_t merged_wall_ns;
    struct bl_text worktree;
    int dirty;                  /* -1: not known */
    enum bl_stop_reason reason; /* BL_STOP_NONE: it was not stopped */
    char triggered_by[80];
    bool spent_known;
    struct bl_spent spent;     /* over all attempts */
    struct bl_text checkpoint; /* JSON; empty: none */
    char receipt[BL_ID_SIZE];  /* its id */
    struct bl_text message;
    double late_ms;                /* of approved_late; else -1 */
    struct bl_task_memory *memory; /* what a resume needs; NULL in a view */
};

/* What is known of a task. Texts are in the arena of the view. */
struct bl_task_view {
    struct bl_task_row row;
    const struct bl_json *json;       /* the row as it is in the store; NULL: there is none */
    const struct bl_json *checkpoint; /* of that; NULL: none */
    double deadline_s;                /* as it is, or will be, enforced; -1: not known */
    char deadline_source[24];
    double deadline_left_s; /* -1: it does not run */
};

/* A row as it is shown: a struct bl_task_row without its memory. */
extern const struct bl_record bl_task_row_record;
/* What the envelope says of a task: a struct bl_task_view. */
extern const struct bl_record bl_task_view_record;

/* What a stop leaves for the next attempt. A text is NULL if there is none; phase, marker and
 * reason are names, which a newer belay may have more of. */
struct bl_checkpoint {
    uint32_t schema;
    const char *feature;
    const char *task;
    uint32_t attempt;
    uint64_t epoch;
    uint32_t turn;
    const char *phase;
    const char *marker;
    const char *reason;
    const char *triggered_by;
    int64_t requested_wall_ns; /* 0 here and below: not known */
    int64_t observed_wall_ns;
    double elapsed_s; /* -1 here and below: not known */
    double deadline_s;
    const char *base_commit;
    const char *head_commit;
    int dirty;
    const char *const *dirty_files;
    size_t dirty_count;
    const struct bl_checkpoint_partial *partial; /* the runner's */
    uint32_t feedback_turn;                      /* 0: none */
    struct bl_text late_verdict;                 /* JSON; empty: none */
    struct bl_spent spent;
    const char *receipt; /* its id */
};

extern const struct bl_record bl_checkpoint_record;
/* What the envelope says of a feature: a struct bl_feature_view. */
extern const struct bl_record bl_feature_view_record;
/* What a listener is told, a line each; the struct is the runner's. */
extern const struct bl_record bl_feature_event_record;

struct bl_wave_view {
    uint32_t n;        /* from 1 */
    const char *state; /* pending, running, merging, completed, unverified (its gate is absent),
                          failed, stopped */
    const char *gate;  /* none, passed, failed, absent; NULL: not run yet */
    int64_t started_wall_ns; /* 0 here and below: not known */
    int64_t ended_wall_ns;
    const char *message; /* why it failed, or is not verified; NULL: nothing to say */
    struct bl_task_view **tasks;
    size_t task_count;
};

struct bl_feature_warning {
    struct bl_text message;
};

/* A feature, as it is on record. */
struct bl_feature_view {
    const char *feature;
    const char *name;
    const char *repository;
    const char *run_id;
    const char *state; /* pending, running, draining, paused, completed, failed, cancelled,
                          timed_out, interrupted */
    const char *plan_digest;
    const char *base_commit;
    const char *result_branch;
    const char *result_commit; /* NULL: none yet */
    int64_t started_wall_ns;   /* 0: not known */
    int64_t ended_wall_ns;     /* 0: it has not */
    const char *reason;        /* of the feature's stop; NULL: none */
    const char *origin;
    int exit_code; /* of a run that ended; -1: it has not */
    uint32_t parallel;
    double feature_deadline_s; /* negative: none */
    const char *receipt;       /* of the newest run's stop, its id; NULL: none */
    uint64_t generation;
    int64_t owner_pid;          /* of a live runner on this host; 0: none */
    const char *owner;          /* "pid 4711 on host"; NULL: none */
    bool unverified;            /* some wave is */
    struct bl_task_view *tasks; /* in plan order */
    size_t task_count;
    struct bl_wave_view *waves;
    size_t wave_count;
    size_t counts[BL_TASK_DEFERRED + 1]; /* by state */
    struct bl_spent spent;
    bool spent_known;
    struct bl_usage usage; /* of the tasks that are approved */
    bool usage_known;
    const struct bl_error *error;  /* NULL: none */
    struct bl_list receipts;       /* struct bl_row, of the newest run and of the tasks */
    struct bl_text *receipt_texts; /* their JSON */
    size_t receipt_count;
    struct bl_list turns;            /* struct bl_row: the rows of all turns, oldest first */
    struct bl_list attempts;         /* struct bl_row: rows of attempts that ended, oldest first */
    struct bl_list earlier_receipts; /* struct bl_row: of runs and attempts before these */
    struct bl_feature_warning *warnings;
    size_t warning_count;
};

/* Reads a feature; one whose runner died is settled first: its running tasks are `interrupted`,
 * with a checkpoint. BL_ENOENT, kind feature, with a suggestion: the store does not know it. */
int bl_feature_look(struct bl_store *store, struct bl_arena *arena, const char *repository,
                    const char *id, struct bl_feature_view **ret_view, struct bl_error *error);
/* Makes a view from rows (struct bl_row). */
int bl_feature_view_make(struct bl_arena *arena, const struct bl_list *records,
                         struct bl_feature_view **ret_view, struct bl_error *error);
/* The task of that id; NULL: none. */
struct bl_task_view *bl_feature_view_task(const struct bl_feature_view *view, struct bl_text id);
/* "approved, not verified", "timed out: …": what people are told of a task. In the arena. */
struct bl_text bl_task_view_text(struct bl_arena *arena, const struct bl_task_view *task);
/* The report, as text and as one HTML file that refers to nothing outside. */
int bl_feature_report_text(const struct bl_feature_view *view, struct bl_buffer *out);
int bl_feature_report_html(const struct bl_feature_view *view, struct bl_buffer *out);

/* ---- A run ----------------------------------------------------------------------------------- */

struct bl_feature;

struct bl_feature_listener {
    /* One event, a JSON object on one line. Only consumes; must not wait. */
    void (*event)(void *context, struct bl_text type, struct bl_text json);
    void *context;
};

struct bl_feature_options {
    const struct bl_plan *plan; /* outlives it, as all that is here */
    struct bl_store *store;
    struct bl_project *project;
    struct bl_activities *activities;           /* NULL: not listed */
    const struct bl_feature_listener *listener; /* NULL: nobody */
    const char *run_id;
    const char *base;         /* a commit; NULL: HEAD */
    const char *const *tasks; /* --task: these alone; end in NULL; NULL: all */
    const char *retry;        /* a task that gets a fresh attempt; NULL: none */
    uint32_t more_turns;
    bool resumes; /* BL_ENOENT when there is no state */
    bool require_clean;
    bool take_over;
    bool fresh;
};

/* Checks the repository, takes the lease, settles what a dead runner left, and writes the plan into
 * the store. In a fiber. Errors of kind feature, git, session, filesystem: nothing was started. */
int bl_feature_open(const struct bl_feature_options *options, struct bl_feature **ret_feature,
                    struct bl_error *error);
/* Runs it to its end in `scope`, which the caller may stop. Returns the exit code that it comes to:
 * 0, 1, 3, 124, 130 or 143. */
int bl_feature_run(struct bl_feature *feature, struct bl_scope *scope);
/* Gives the lease back and frees. In a fiber. NULL is fine. */
void bl_feature_close(struct bl_feature *feature);
/* What stands now, as it would be read from the store, with what only a runner knows. */
int bl_feature_live(struct bl_feature *feature, struct bl_arena *arena,
                    struct bl_feature_view **ret_view, struct bl_error *error);
/* What went wrong with the feature as a whole; NULL: nothing. */
const struct bl_error *bl_feature_error(const struct bl_feature *feature);
/* What the store refused to take, in a line for people; nothing is appended when it has all. */
void bl_feature_unsaved_text(const struct bl_feature *feature, struct bl_buffer *out);

/* Controls, from other fibers. All return when the thing is done.
 *
 * Stops a task (NULL: the feature), reason user; the receipt, one JSON object, goes to the buffer
 * when all of it is quiet; nothing: it had ended before. BL_ENOENT: no such task, with a
 * suggestion. */
int bl_feature_cancel(struct bl_feature *feature, const char *task, const char *origin,
                      struct bl_buffer *ret_receipt, struct bl_error *error);
/* False: it was so already. */
bool bl_feature_pause(struct bl_feature *feature);
bool bl_feature_resume(struct bl_feature *feature);
/* Moves the deadline of a live task. BL_EEXIST, name `too_late`: it has fired or the task has
 * ended; BL_ENOENT; BL_ERANGE: past the feature's deadline. */
int bl_feature_extend(struct bl_feature *feature, const char *task, uint64_t by_ns,
                      double *ret_deadline_s, struct bl_error *error);
/* The first signal: no new phase; what runs may end within the plan's drain; then the scope stops
 * for that reason. Does not wait. */
void bl_feature_drain(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin);
/* The second: that stop at once, without graces. Does not wait. */
void bl_feature_hurry(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin);

/* ---- Cleaning up ----------------------------------------------------------------------------- */

/* One worktree or branch that `clean` looked at; in an arena. */
struct bl_clean_item {
    struct bl_list link;
    const char *task; /* NULL: the result branch */
    const char *branch;
    const char *worktree; /* NULL: there is none */
    bool removed;         /* or would be, in a dry run */
    const char *reason; /* why it was kept: "uncommitted changes", "untracked files", "not merged",
                           "in use by pid 4711", … */
    uint64_t bytes;     /* of the worktree */
};

int bl_feature_clean(struct bl_store *store, struct bl_arena *arena, const char *repository,
                     const char *id, bool dry_run, struct bl_list *ret_items,
                     struct bl_error *error);

BL_PUBLIC_END

#endif
