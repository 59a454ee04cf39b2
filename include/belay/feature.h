/* feature: runs a plan of tasks, merges the results, and can stop any part of it.
 *
 * Waves run in order. The tasks of a wave run in parallel, each as a loop of Player, verification
 * and Coach in a git worktree of its own. Approved work is merged at the end of its wave.
 *
 * Promises: a stop of one task does not affect its siblings; an attempt ends in one place, by one
 * decision, and every reader uses the record of that decision; wave N+1 does not start while
 * anything of wave N runs; the user's checkout, index, branch and stash are not touched, plan files
 * are not written, and unmerged work is not deleted. */
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

/* The configuration of a Player or a Coach. The plan owns the strings. */
struct bl_seat {
    enum bl_seat_kind kind;
    /* Agents only. */
    const char *provider; /* NULL: the configured provider */
    const char *model;    /* NULL: the configured model; for provider "script" the absolute path of
                             the script */
    const char *persona;
    enum bl_permission_mode permission;
    uint64_t max_steps; /* BL_UNLIMITED: no limit */
    /* Commands only. */
    const char *const *command; /* NULL-terminated */
    uint64_t grace_ns;
    enum bl_sandbox sandbox; /* both kinds; an agent's counts only if sandbox_chosen */
    bool sandbox_chosen;
};

struct bl_verify_plan {
    const char *setup;           /* a shell command; NULL: none */
    bool setup_network;          /* setup may use the network */
    const char *const *commands; /* shell commands, NULL-terminated; behavioural_oracle is the
                                    last */
    uint64_t timeout_ns;         /* of each command */
    const char *const *carry;    /* paths, NULL-terminated */
    const char *const *protect;  /* patterns, NULL-terminated */
    bool required;
};

/* Resolved limits: command line over task over feature over default. */
struct bl_feature_limits {
    uint64_t task_timeout_ns;
    double timeout_multiplier;
    uint64_t feature_timeout_ns; /* 0: none */
    uint32_t parallel;           /* recommended_parallel is taken into account */
    uint32_t turns;
    uint64_t min_turn_budget_ns;
    uint64_t coach_grace_ns;
    uint64_t drain_ns;
    uint32_t merge_turns;
    uint64_t merge_timeout_ns;
    uint32_t feedback_issues;
    uint64_t max_budget_tokens; /* BL_UNLIMITED: no limit. In a task, the limit of its own file; in
                                   the plan, the feature's */
    double max_budget_usd;      /* negative: no limit; set like max_budget_tokens */
};

struct bl_criterion {
    const char *id;
    struct bl_text text;
};

struct bl_plan_task {
    const char *id;
    const char *name;
    const char *file;    /* as in the plan, relative to the repository */
    struct bl_text body; /* the task file below its front matter */
    struct bl_criterion *criteria;
    size_t criterion_count;
    size_t number;        /* in plan order, from 0 */
    size_t wave;          /* from 0 */
    size_t *dependencies; /* task numbers */
    size_t dependency_count;
    const char *status;        /* from the plan: pending, completed, deferred, … */
    bool manual;               /* implementation_mode: manual, or task_type: operator_handoff */
    const char *mode;          /* NULL: not set */
    int64_t complexity;        /* 0: not set */
    int64_t estimated_minutes; /* 0: not set */
    struct bl_seat player;
    struct bl_seat coach;
    struct bl_verify_plan verify;
    struct bl_feature_limits limits;
    uint64_t deadline_ns;        /* the enforced deadline, set by the one function that resolves
                                    it */
    const char *deadline_source; /* "command line", "task", "autobuild", "feature", "default" */
};

struct bl_plan_wave {
    size_t *tasks; /* task numbers, in plan order */
    size_t count;
    bool gated; /* the smoke gate runs after it */
};

struct bl_smoke_gate {
    const char *command; /* a shell command; NULL: no gate */
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

/* Immutable after loading. Lives in its own arena. */
struct bl_plan {
    struct bl_arena arena;
    const char *path;       /* path of the plan file, as it was found */
    const char *repository; /* absolute: the top of the work tree that contains the plan */
    const char *id;
    const char *name;
    const char *description;
    struct bl_plan_task *tasks;
    size_t task_count;
    struct bl_plan_wave *waves; /* without empty waves */
    size_t wave_count;
    struct bl_smoke_gate gate;
    struct bl_feature_limits limits;
    int64_t recommended_parallel; /* 0: not set */
    bool required;                /* verify.required of the feature */
    enum bl_on_failure on_failure;
    char digest[72];         /* "sha256:…" over the plan and its task files */
    struct bl_list warnings; /* struct bl_plan_problem */
};

/* An error or a warning in a plan. In an arena. */
struct bl_plan_problem {
    struct bl_list link;
    const char *file;
    uint32_t line;       /* 0: the file as a whole */
    const char *code;    /* "E06"; "W" for a warning */
    const char *message; /* with suggestions */
};

/* Limits from the command line. A value counts if its `…_set` is true or, without one, if it is not
 * 0. */
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
    uint64_t max_budget_tokens; /* 0: not set */
    bool max_budget_usd_set;
    double max_budget_usd;
};

/* A file that is not on disk yet. */
struct bl_plan_source {
    const char *path; /* absolute */
    struct bl_text text;
};

struct bl_plan_options {
    const char *name;                          /* a path or an id */
    const char *directory;                     /* the working directory; absolute */
    const struct bl_plan_overrides *overrides; /* NULL: none */
    struct bl_config *config;                  /* for providers; NULL: providers are not checked */
    const struct bl_list *personas;            /* struct bl_persona; NULL: personas are not
                                                  checked */
    const struct bl_plan_source *sources;      /* used instead of files on disk; NULL: none */
    size_t source_count;
    bool seats_later; /* a missing model or key is only a warning: it may still be configured */
};

/* Loads, checks and resolves a plan. Blocks on files. Returns BL_EINVAL for an invalid plan:
 * `problems` (struct bl_plan_problem, appended, in `arena`) lists all errors, and `error` is the
 * first, kind usage. Any other error code means that there is no repository (`error` has kind
 * feature). */
int bl_plan_load(struct bl_arena *arena, const struct bl_plan_options *options,
                 struct bl_plan **ret_plan, struct bl_list *problems, struct bl_error *error);
/* Checks that a run can work on the plan's repository, with the errors a run would report at its
 * start: no usable git, no commit, a branch in Belay's place. In a fiber; kinds feature and git. */
int bl_plan_repository_check(const struct bl_plan *plan, struct bl_error *error);
/* Returns the ids of a repository's plans, sorted, NULL-terminated, in the arena. Blocks. */
const char *const *bl_plan_ids(struct bl_arena *arena, const char *repository);
void bl_plan_free(struct bl_plan *plan); /* accepts NULL */
/* Appends "FILE:LINE: CODE message", with control characters escaped. */
int bl_plan_problem_text(const struct bl_plan_problem *problem, struct bl_buffer *out);
/* The output of `validate`: waves, seats and every deadline; and the same as JSON, in the arena. */
int bl_plan_text(const struct bl_plan *plan, struct bl_buffer *out);
struct bl_text bl_plan_json(struct bl_arena *arena, const struct bl_plan *plan);
/* Describes the output of bl_plan_json; the struct is private to the room. */
extern const struct bl_record bl_plan_record;
/* Describes a struct bl_plan_problem. */
extern const struct bl_record bl_plan_problem_record;
/* "40 m", "40 m + 2 m coach grace". */
void bl_plan_deadline_text(const struct bl_plan_task *task, char out[96]);
/* Finds the top of the work tree that contains `directory`, with links resolved, in the arena.
 * BL_ENOENT if there is none. */
int bl_plan_repository(struct bl_arena *arena, const char *directory, const char **ret_repository,
                       struct bl_error *error);
/* Returns the plan id for NAME, in the arena: for a path the id in the file, else NAME itself. For
 * commands that read only the store. */
const char *bl_plan_name_id(struct bl_arena *arena, const char *directory, const char *name);

/* ---- Writing a plan -------------------------------------------------------------------------- */

struct bl_outline_task {
    const char *id; /* NULL: one is assigned */
    struct bl_text title;
    struct bl_text body;
    struct bl_text *criteria;
    size_t criterion_count;
    const char *const *after; /* ids, or numbers from 1, of tasks; NULL-terminated; NULL: none */
    bool done;
};

/* A list of tasks as a user or a model gives it. In an arena. */
struct bl_outline {
    struct bl_text name; /* of the feature; empty: not set */
    struct bl_text description;
    struct bl_outline_task *tasks;
    size_t count;
};

/* Reads one task per line, a checklist, or Markdown with a heading for each task. Fails with kind
 * usage if the input is not text or exceeds the limits of a plan. */
int bl_outline_read(struct bl_arena *arena, struct bl_text text, struct bl_outline *ret_outline,
                    struct bl_error *error);
/* Adds a task, "ID: title (after A, 2)". Empty words are ignored. */
int bl_outline_add(struct bl_arena *arena, struct bl_outline *outline, struct bl_text words,
                   struct bl_error *error);
/* Reads the outline that a model returned; its schema is that of bl_outline_record. */
int bl_outline_take(struct bl_arena *arena, const struct bl_json *value,
                    struct bl_outline *ret_outline, struct bl_error *error);
extern const struct bl_record bl_outline_record;

struct bl_plan_draft {
    const char *repository; /* absolute */
    const char *id;
    const char *name;          /* NULL: the name in the outline */
    const char *const *verify; /* commands, NULL-terminated; NULL: none */
    bool in_order;             /* a task without `after` depends on the one before it */
};

/* Makes the files of a plan in .belay/features, in the arena: the plan first, then one file for
 * each task. Writes nothing. Checks only that tasks depend on existing tasks (kind usage);
 * bl_plan_load checks the rest. */
int bl_plan_draft(struct bl_arena *arena, const struct bl_outline *outline,
                  const struct bl_plan_draft *options, struct bl_plan_source **ret_sources,
                  struct bl_error *error);

/* ---- Records --------------------------------------------------------------------------------- */

#define BL_TASK_STATE_TABLE(X)                                                                     \
    X(BL_TASK_PENDING, "pending")                                                                  \
    X(BL_TASK_QUEUED, "queued")                                                                    \
    X(BL_TASK_RUNNING, "running")                                                                  \
    X(BL_TASK_STOPPING, "stopping")                                                                \
    X(BL_TASK_APPROVED, "approved")                                                                \
    X(BL_TASK_COMPLETED, "completed") /* final, like all states below */                           \
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

/* The position of a task in its loop, now or when it was stopped. */
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

/* The result of the declared commands on a commit. */
#define BL_VERIFIED_TABLE(X)                                                                       \
    X(BL_VERIFIED_UNKNOWN, NULL) /* not run yet */                                                 \
    X(BL_VERIFIED_NONE, "none")  /* no commands are declared */                                    \
    X(BL_VERIFIED_PASSED, "passed")                                                                \
    X(BL_VERIFIED_FAILED, "failed") /* a command ran and exited with another code */               \
    X(BL_VERIFIED_ABSENT, "absent") /* setup failed, 126, 127, killed, timed out, or no copy */

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
const char *bl_task_decision_name(enum bl_task_decision decision); /* NULL for BL_DECISION_NONE */
/* Returns the state of an attempt that ended with this decision. */
enum bl_task_state bl_task_decision_state(enum bl_task_decision decision);
const char *bl_task_phase_name(enum bl_task_phase phase); /* NULL for BL_PHASE_NONE */
const char *bl_verified_name(enum bl_verified verified);  /* NULL for BL_VERIFIED_UNKNOWN */

#define BL_COMMIT_SIZE 72 /* a commit id with its NUL */
#define BL_BRANCH_SIZE 245

struct bl_task_memory;

/* The record of a task: one row of the store. */
struct bl_task_row {
    char id[BL_PLAN_ID_SIZE];
    struct bl_text name;
    uint32_t wave; /* from 1 */
    enum bl_task_state state;
    enum bl_task_decision decision;
    uint32_t attempt; /* from 1; 0: not started yet */
    uint32_t turn;    /* the newest, from 1; 0: none */
    uint32_t turns_counted;
    uint32_t turns_max; /* 0: unknown */
    enum bl_task_phase phase;
    enum bl_verified verified;
    int64_t started_wall_ns; /* of the attempt; 0 here and below: unknown */
    int64_t ended_wall_ns;
    double elapsed_s;  /* of an attempt that has ended, else -1 */
    double deadline_s; /* -1: not decided yet */
    char deadline_source[24];
    double grace_s;           /* 0: none */
    int64_t deadline_wall_ns; /* when the task's timer fires; 0: not armed, or held by a pause */
    double held_left_s;       /* time left when a pause held the timer; -1: not held */
    int64_t active_wall_ns;
    char activity[40]; /* the last activity: "model", "output", "tool bash", … */
    char branch[BL_BRANCH_SIZE];
    char base_commit[BL_COMMIT_SIZE];
    char head_commit[BL_COMMIT_SIZE];
    bool merged;
    int64_t merged_wall_ns;
    struct bl_text worktree;
    int dirty;                  /* -1: unknown */
    enum bl_stop_reason reason; /* BL_STOP_NONE: not stopped */
    char triggered_by[80];
    bool spent_known;
    struct bl_spent spent;     /* over all attempts */
    struct bl_text checkpoint; /* JSON; empty: none */
    char receipt[BL_ID_SIZE];  /* receipt id */
    struct bl_text message;
    double late_ms;                /* for approved_late, else -1 */
    struct bl_task_memory *memory; /* state for a resume; NULL in a view */
};

/* A task with derived values. The arena of the view holds the texts. */
struct bl_task_view {
    struct bl_task_row row;
    const struct bl_json *json;       /* the row in the store; NULL: none */
    const struct bl_json *checkpoint; /* the checkpoint in that row; NULL: none */
    double deadline_s;                /* the enforced deadline, or the one that will be; -1:
                                         unknown */
    char deadline_source[24];
    double deadline_left_s; /* time until the first deadline that stops the task; -1: not running */
    bool ends_with_feature; /* the feature's deadline comes first */
};

/* Describes the public part of a row: a struct bl_task_row without its memory. */
extern const struct bl_record bl_task_row_record;
/* Describes a task in the envelope: a struct bl_task_view. */
extern const struct bl_record bl_task_view_record;

/* The record that a stopped task leaves for its next attempt. Missing texts are NULL. phase, marker
 * and reason are names, so that a newer belay can add values. */
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
    int64_t requested_wall_ns; /* 0 here and below: unknown */
    int64_t observed_wall_ns;
    double elapsed_s; /* -1 here and below: unknown */
    double deadline_s;
    const char *base_commit;
    const char *head_commit;
    int dirty;
    const char *const *dirty_files;
    size_t dirty_count;
    const struct bl_checkpoint_partial *partial; /* private to the runner */
    uint32_t feedback_turn;                      /* 0: none */
    struct bl_text late_verdict;                 /* JSON; empty: none */
    bool spent_known;
    struct bl_spent spent;
    const char *receipt; /* receipt id */
};

extern const struct bl_record bl_checkpoint_record;
/* The recorded output of a phase. */
struct bl_phase_output {
    const char *task;
    uint32_t attempt;
    uint32_t turn;
    const char *phase; /* as in the record's name: "coach-2" for the Coach's second try */
    struct bl_text text;
};

extern const struct bl_record bl_phase_output_record;
/* Describes a feature in the envelope: a struct bl_feature_view. */
extern const struct bl_record bl_feature_view_record;
/* Describes one event for a listener; the struct is private to the runner. */
extern const struct bl_record bl_feature_event_record;

struct bl_wave_view {
    uint32_t n;        /* from 1 */
    const char *state; /* pending, running, merging, completed, unverified (its gate is absent),
                          failed, stopped */
    const char *gate;  /* none, passed, failed, absent; NULL: not run yet */
    int64_t started_wall_ns; /* 0 here and below: not known */
    int64_t ended_wall_ns;
    const char *message; /* why the wave failed or is unverified; NULL: no message */
    struct bl_task_view **tasks;
    size_t task_count;
};

struct bl_feature_warning {
    struct bl_text message;
};

/* A feature as the store has it. */
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
    int64_t started_wall_ns;   /* 0: unknown */
    int64_t ended_wall_ns;     /* 0: not ended */
    const char *reason;        /* stop reason of the feature; NULL: not stopped */
    const char *origin;
    int exit_code; /* of a run that has ended, else -1 */
    uint32_t parallel;
    double feature_deadline_s; /* negative: no deadline */
    int64_t deadline_wall_ns;  /* when the deadline of a live run is reached; 0: none */
    double deadline_left_s;    /* negative: no deadline */
    const char *receipt;       /* receipt id of the newest run's stop; NULL: none */
    uint64_t generation;
    int64_t owner_pid;          /* of a live runner on this host, else 0 */
    const char *owner;          /* "pid 4711 on host"; NULL: none */
    bool unverified;            /* a wave is unverified */
    struct bl_task_view *tasks; /* in plan order */
    size_t task_count;
    struct bl_wave_view *waves;
    size_t wave_count;
    size_t counts[BL_TASK_DEFERRED + 1]; /* by state */
    struct bl_spent spent;
    bool spent_known;
    struct bl_usage usage; /* of the approved tasks */
    bool usage_known;
    const struct bl_error *error;  /* NULL: none */
    struct bl_list receipts;       /* struct bl_row: of the newest run and of the tasks */
    struct bl_text *receipt_texts; /* as JSON */
    size_t receipt_count;
    struct bl_list turns;            /* struct bl_row: the rows of all turns, oldest first */
    struct bl_list attempts;         /* struct bl_row: the rows of ended attempts, oldest first */
    struct bl_list earlier_receipts; /* struct bl_row: of earlier runs and attempts */
    struct bl_feature_warning *warnings;
    size_t warning_count;
};

/* Reads a feature. If its runner died, first settles it: running tasks become `interrupted`, with a
 * checkpoint. BL_ENOENT (kind feature, with a suggestion) if the store does not have the
 * feature. */
int bl_feature_look(struct bl_store *store, struct bl_arena *arena, const char *repository,
                    const char *id, struct bl_feature_view **ret_view, struct bl_error *error);
/* Makes a view from rows (struct bl_row). */
int bl_feature_view_make(struct bl_arena *arena, const struct bl_list *records,
                         struct bl_feature_view **ret_view, struct bl_error *error);
/* Returns the task with that id, or NULL. */
struct bl_task_view *bl_feature_view_task(const struct bl_feature_view *view, struct bl_text id);
/* Returns a task's state in words, in the arena: "approved, not verified", "timed out: …". */
struct bl_text bl_task_view_text(struct bl_arena *arena, const struct bl_task_view *task);
/* Appends the report as text, or as one HTML file without external references. */
int bl_feature_report_text(const struct bl_feature_view *view, struct bl_buffer *out);
int bl_feature_report_html(const struct bl_feature_view *view, struct bl_buffer *out);

/* ---- A run ----------------------------------------------------------------------------------- */

struct bl_feature;

struct bl_feature_listener {
    /* Receives one event, a JSON object on one line. Must not wait. */
    void (*event)(void *context, struct bl_text type, struct bl_text json);
    void *context;
};

struct bl_feature_options {
    const struct bl_plan *plan; /* like all pointers here, must outlive the feature */
    struct bl_store *store;
    struct bl_project *project;
    struct bl_activities *activities;           /* NULL: not listed */
    const struct bl_feature_listener *listener; /* NULL: none */
    const char *run_id;
    const char *base;         /* a commit; NULL: HEAD */
    const char *const *tasks; /* --task: run only these; NULL-terminated; NULL: all */
    const char *retry;        /* a task that gets a new attempt; NULL: none */
    uint32_t more_turns;
    bool resumes; /* BL_ENOENT if the store has no state of the feature */
    bool require_clean;
    bool take_over;
    bool fresh;
};

/* Checks the repository, takes the lease, settles what a dead runner left, and stores the plan. In
 * a fiber. After an error (kinds feature, git, session, filesystem) nothing was started. */
int bl_feature_open(const struct bl_feature_options *options, struct bl_feature **ret_feature,
                    struct bl_error *error);
/* Runs the feature to its end in `scope`, which the caller may stop. Returns the exit code: 0, 1,
 * 3, 124, 130 or 143. */
int bl_feature_run(struct bl_feature *feature, struct bl_scope *scope);
/* Releases the lease and frees the feature. In a fiber. Accepts NULL. */
void bl_feature_close(struct bl_feature *feature);
/* Returns the current state as the store would show it, plus what only the runner knows. */
int bl_feature_live(struct bl_feature *feature, struct bl_arena *arena,
                    struct bl_feature_view **ret_view, struct bl_error *error);
/* Returns the error of the feature as a whole, or NULL. */
const struct bl_error *bl_feature_error(const struct bl_feature *feature);
/* Appends one line about records that the store refused, or nothing if it has all of them. */
void bl_feature_unsaved_text(const struct bl_feature *feature, struct bl_buffer *out);

/* Controls, called from other fibers. Each returns when its operation is done.
 *
 * Stops a task (NULL: the feature) with reason user. When all of its work has stopped, writes the
 * receipt, one JSON object, to the buffer; writes nothing if the work had already ended. BL_ENOENT
 * (with a suggestion) if there is no such task. */
int bl_feature_cancel(struct bl_feature *feature, const char *task, const char *origin,
                      struct bl_buffer *ret_receipt, struct bl_error *error);
/* False if the feature was already in that state. */
bool bl_feature_pause(struct bl_feature *feature);
bool bl_feature_resume(struct bl_feature *feature);
/* Moves the deadline of a running task. BL_EEXIST, name `too_late`: the timer has fired or the task
 * has ended. BL_ENOENT: no such task. BL_ERANGE: beyond the feature's deadline. */
int bl_feature_extend(struct bl_feature *feature, const char *task, uint64_t by_ns,
                      double *ret_deadline_s, struct bl_error *error);
/* Handles the first signal: starts no new phase, lets running phases end within the plan's drain,
 * then stops the scope for `reason`. Does not wait. */
void bl_feature_drain(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin);
/* Handles the second signal: stops at once, without grace periods. Does not wait. */
void bl_feature_hurry(struct bl_feature *feature, enum bl_stop_reason reason, const char *origin);

/* ---- Cleaning up ----------------------------------------------------------------------------- */

/* A worktree or branch that `clean` considered. In an arena. */
struct bl_clean_item {
    struct bl_list link;
    const char *task; /* NULL: the result branch */
    const char *branch;
    const char *worktree; /* NULL: there is none */
    bool removed;         /* in a dry run: would be removed */
    const char *reason;   /* why it is kept: "uncommitted changes", "untracked files", "not merged",
                           "in use by pid 4711", … */
    uint64_t bytes;       /* of the worktree */
};

int bl_feature_clean(struct bl_store *store, struct bl_arena *arena, const char *repository,
                     const char *id, bool dry_run, struct bl_list *ret_items,
                     struct bl_error *error);

BL_PUBLIC_END

#endif
