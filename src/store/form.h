/* Code shared by the forms of storage. A form has its statements and its control flow. What rows
 * mean, the lines of an exported session and all refusals are here, once. No function of this
 * header asks a database or blocks, unless it says so. */
#ifndef BELAY_STORE_FORM_H
#define BELAY_STORE_FORM_H

#include "store/parts.h"

/* ---- row.c: the columns of a row ------------------------------------------------------------- */

struct store_row;

/* Reads a column of a row. Columns are numbered from 0. */
struct store_columns {
    /* A text, or bytes, followed by a NUL; empty for null. Valid until the form leaves the row. */
    struct bl_text (*text)(const struct store_row *row, int column);
    int64_t (*integer)(const struct store_row *row, int column); /* 0 for null, as the next two */
    int64_t (*time)(const struct store_row *row, int column);    /* wall-clock, in nanoseconds */
    double (*real)(const struct store_row *row, int column);
    bool (*null)(const struct store_row *row, int column);
};

struct store_row {
    const struct store_columns *columns;
    void *source; /* belongs to the form, as does the next */
    int number;
};

struct bl_text store_row_text(const struct store_row *row, int column);
/* Copies a text or bytes into the arena. */
struct bl_text store_row_copy(struct bl_arena *arena, const struct store_row *row, int column);
/* Copies a text into the arena; NULL for null. */
const char *store_row_string(struct bl_arena *arena, const struct store_row *row, int column);
/* Copies a text as bl_text_into does; null as an empty one. */
void store_row_into(char *out, size_t size, const struct store_row *row, int column);
int64_t store_row_integer(const struct store_row *row, int column);
int64_t store_row_time(const struct store_row *row, int column);
uint64_t store_row_count(const struct store_row *row, int column); /* 0 for a negative number */
double store_row_real(const struct store_row *row, int column);
bool store_row_flag(const struct store_row *row, int column);
bool store_row_null(const struct store_row *row, int column);
/* Reads two columns starting at `column`: input, output. */
struct bl_usage store_row_usage(const struct store_row *row, int column);
/* Reads five columns starting at `column`: input, output, cost, cost_max, cost_unknown. */
struct bl_spent store_row_spent(const struct store_row *row, int column);

/* ---- line.c: lines of an exported session ---------------------------------------------------- */

#define STORE_DIGEST_SIZE 32 /* bytes */
#define STORE_LINE_SCHEMA 1

enum store_line_type {
    STORE_LINE_SESSION,
    STORE_LINE_TURN,
    STORE_LINE_ATTEMPT,
    STORE_LINE_EVENT,
    STORE_LINE_RECEIPT,
    STORE_LINE_CHECKPOINT,
    STORE_LINE_CELL,
    STORE_LINE_CELL_VALUE,
    STORE_LINE_TOMBSTONE,
    STORE_LINE_END,
};

/* A line of any type; bl_store_line_record says which members each type has. */
struct store_line {
    enum store_line_type type;
    uint64_t schema;
    const char *id; /* of a checkpoint: its name */
    const char *run;
    const char *directory;
    const char *title;
    const char *parent; /* may be NULL; so may the next three, state and receipt */
    const char *agent_of;
    const char *agent_turn;
    const char *persona;
    const char *state;
    const char *receipt;
    const char *digest;
    int64_t created_wall_ns;
    int64_t updated_wall_ns;
    int64_t started_wall_ns;
    int64_t ended_wall_ns;
    uint64_t number; /* of a turn; of lines */
    uint64_t turns;
    uint64_t context_from;
    uint64_t deadline_ms;
    uint64_t generation;
    uint64_t yielded_generation;
    bool interrupted;
    bool completed;
    struct bl_text text; /* a prompt, a key */
    const struct bl_usage *usage;
    const struct bl_spent *spent;
    const struct bl_json *json; /* the content of the line: a result, a receipt, a value, … */
    const struct bl_json *messages;
    const struct bl_json *yielded;
    const struct bl_json *const *events;
    size_t event_count;
};

/* ---- export.c: rows as lines of an exported session ------------------------------------------ */

/* An export in progress, embedded in the cursor of a form. */
struct store_export {
    char id[STORE_SESSION_ID_SIZE];
    uint64_t lines; /* so far */
    struct bl_buffer *out;
    struct bl_error *error;
    int code;
    const struct store_row *row;
    struct bl_arena arena; /* for one line, as are the next three */
    struct store_line line;
    struct bl_usage usage;
    struct bl_spent spent;
};

void store_export_init(struct store_export *export, const char *id);
void store_export_done(struct store_export *export);
/* Begins a step, whose lines are appended to `out`. */
void store_export_step(struct store_export *export, struct bl_buffer *out, struct bl_error *error);
/* True if the step has enough lines. */
bool store_export_full(const struct store_export *export);
/* Appends the lines of a row. A form passes on the session's row, then all rows of the next type
 * in the order of their creation (checkpoints: by name), and at last STORE_LINE_END without a row.
 * Cells that have not ended are left out. The columns of each type are in export.c. */
int store_export_put(struct store_export *export, enum store_line_type type,
                     const struct store_row *row);

/* ---- import.c: lines of an exported session to a form ---------------------------------------- */

/* Where an import writes. Each function is part of the import's transaction, and may defer its
 * work, because no later call depends on it. Arguments are valid during the call. The functions
 * return 0 or more, or a code with `error`. */
struct store_sink {
    /* Creates the session, whose totals are not known yet: the first call. BL_EEXIST: the id
     * exists. `summary` may be empty. */
    int (*session)(void *context, const char *id, const struct store_line *line,
                   struct bl_text summary, struct bl_error *error);
    int (*turn)(void *context, const struct store_line *line, struct bl_text result,
                struct bl_text messages, struct bl_text events, struct bl_error *error);
    /* `result` may be empty. */
    int (*attempt)(void *context, const struct store_line *line, struct bl_text result,
                   struct bl_error *error);
    /* Adds events to the journal, or a receipt; the other is empty. */
    int (*beside)(void *context, const char *run, struct bl_text events, const char *receipt_id,
                  struct bl_text receipt, struct bl_error *error);
    int (*checkpoint)(void *context, const char *name, struct bl_text json, struct bl_error *error);
    int (*cell)(void *context, const struct bl_store_cell *cell, struct bl_error *error);
    int (*value)(void *context, const struct bl_store_value *value, struct bl_error *error);
    /* Takes id and digest of the cell. */
    int (*tombstone)(void *context, const struct bl_store_cell *cell, int64_t buried_wall_ns,
                     struct bl_error *error);
    /* Sets the totals of the session: the last call. */
    int (*totals)(void *context, const struct bl_usage *usage, const struct bl_spent *spent,
                  struct bl_error *error);
};

/* Checks lines without a store. BL_EPARSE: they are not a session. */
int store_import_check(struct bl_text lines, struct bl_error *error);
/* Passes on `look->lines`, under `look->id` or their own id, and sets `look->made_id`. Stops at the
 * first failure. */
int store_import(struct store_look *look, const struct store_sink *sink, void *context,
                 struct bl_error *error);

/* ---- lease.c: leases ------------------------------------------------------------------------- */

struct store_lease {
    uint64_t epoch;
    bool held;
    char owner[32];
    uint64_t handle;
    struct store_identity holder; /* the last one, if it is not held */
    int64_t since_wall_ns;
    int64_t until_wall_ns;
};

/* Reads ten columns starting at `column`: epoch, owner, handle, pid, started, since, until, host,
 * boot, pid_space. If all are null there is no lease: one that is not held, with the epoch 0. */
void store_lease_read(const struct store_row *row, int column, struct store_lease *ret_lease);
/* True if the holder may still write: it is alive here, or not visible and its lease has not
 * expired. */
bool store_lease_binds(const struct store_lease *lease, const struct store_identity *self,
                       int64_t wall_ns);
/* Fills in the owner as the claimant sees it. */
void store_lease_owner(const struct store_lease *lease, const struct store_claimant *claimant,
                       struct bl_store_owner *ret_owner);
/* Claims the lease for the claimant: sets the epoch of the grip that the form now writes, and what
 * is known about the holder before. BL_EBUSY: it has another holder. If that died (owner_died of the
 * recovery; BL_OWNER_DEAD of the owner), the form settles it then with store_identity_settle. */
int store_hold_claim(struct store_hold *hold, const struct store_lease *before,
                     struct bl_error *error);
int store_feature_claim(struct store_feature_hold *hold, const struct store_lease *before,
                        struct bl_error *error);

/* ---- refuse.c: errors of operations ---------------------------------------------------------- */

/* The id that is closest to a word. */
struct store_suggestion {
    struct bl_suggestion suggestion;
    char best[STORE_SESSION_ID_SIZE]; /* empty: none is close */
};

/* Limit for the ids that are offered, the newest first. */
#define STORE_SUGGEST_IDS_MAX 1000

/* `word` must outlive the suggestion. */
void store_suggestion_init(struct store_suggestion *self, const char *word);
void store_suggestion_offer(struct store_suggestion *self, const char *id);

/* These set the error and return its code. `where` is the store. */
int store_refuse_missing_session(const char *id, const char *where,
                                 const struct store_suggestion *suggestion, struct bl_error *error);
int store_refuse_missing_feature(const char *id, const char *repository, const char *where,
                                 const struct store_suggestion *suggestion, struct bl_error *error);
int store_refuse_missing_checkpoint(const char *session, const char *name, struct bl_error *error);
/* There is no session to continue in that directory. */
int store_refuse_no_newest(const char *directory, struct bl_error *error);
/* Compares a repeated request, whose session is in `hold->id`, with the one that was made with
 * `prompt`. Returns 0 if it is the same. */
int store_request_check(const struct store_hold *hold, struct bl_text prompt,
                        struct bl_error *error);
/* The request in `hold->id` was made for another session, or with another prompt. */
int store_refuse_request(const struct store_hold *hold, struct bl_error *error);
int store_refuse_held_session(const struct store_hold *hold, const struct store_lease *lease,
                              struct bl_error *error);
int store_refuse_held_feature(const struct store_feature_hold *hold, struct bl_error *error);
/* `what` of the session cannot be read: "the summary", "turn 3". */
int store_refuse_damaged(const struct store_hold *hold, struct bl_text what,
                         struct bl_error *error);
/* The lease has another epoch than the grip. `lease` NULL: there is none any more. */
int store_refuse_stale_session(const struct store_write *write, const struct store_lease *lease,
                               struct bl_error *error);
int store_refuse_stale_feature(const struct store_feature_write *write,
                               const struct store_lease *lease, struct bl_error *error);
int store_refuse_gone_feature(const struct store_feature_write *write, struct bl_error *error);
/* The turn of a commit is not running. */
int store_refuse_ended_turn(const struct store_write *write, struct bl_error *error);
/* STORE_IMPORT or STORE_FORK: a session has that id. */
int store_refuse_used_id(enum store_operation operation, const char *id, struct bl_error *error);
/* `held_id` is the session itself or one of its sub-agents. */
int store_refuse_delete(const char *id, const char *held_id, const struct store_lease *lease,
                        struct bl_error *error);
/* A cell was not admitted: a cell or tombstone with that digest has its id. */
int store_refuse_used_cell(const struct store_write *write, struct bl_text digest,
                           struct bl_error *error);
int store_refuse_missing_cell(const struct store_write *write, struct bl_error *error);
/* A cell with that end (empty: none) was not changed. Returns 0 if the write is this same end. */
int store_refuse_ended_cell(const struct store_write *write, struct bl_text terminal,
                            struct bl_error *error);
int store_refuse_existing_task(const char *id, struct bl_error *error);
/* `found` false: there is no such task. */
int store_refuse_ended_task(const char *id, bool found, struct bl_error *error);

/* ---- view.c: rows for readers ---------------------------------------------------------------- */

/* Copies are in the output of the job. The columns are listed first to last. */

/* id, directory, title, parent, created, updated, turns_total, input, output, spent (5 columns),
 * agent_of, agent_turn, persona; without attempts and holder. */
void store_summary_read(const struct store_row *row, struct bl_arena *arena,
                        struct bl_store_summary *ret_summary);
/* Adds an ended attempt: spent (5 columns). */
void store_summary_add_attempt(struct bl_store_summary *summary, const struct store_row *row);
/* Adds all of the ended attempts: six columns starting at `column`, their number and their spent. */
void store_summary_add_attempts(struct bl_store_summary *summary, const struct store_row *row,
                                int column);
/* Names the holder of the lease if it binds. */
void store_summary_add_holder(struct bl_store_summary *summary, struct store_look *look,
                              const struct store_lease *lease);

/* Returns bl_store_attempt_record: id, state, prompt, started, ended (null: running), result,
 * receipt's body. */
struct bl_text store_attempt_json(struct bl_arena *arena, const struct store_row *row);
/* Sets the texts of a shown session. */
void store_look_take_texts(struct store_look *look, const struct store_texts *turns,
                           const struct store_texts *attempts, const struct store_texts *receipts);
/* id, interrupted, messages. */
void store_look_add_turn(struct store_look *look, const struct store_row *row);
/* id, digest, created, deadline_ms, pid, pid_started, yielded_generation, generation, completed,
 * ended, yielded, terminal. */
void store_look_add_cell(struct store_look *look, const struct store_row *row);
/* name, body. */
void store_look_add_value(struct store_look *look, const struct store_row *row);
/* name, json. */
void store_feature_add_record(struct store_feature_look *look, const struct store_row *row);
/* number, json. */
void store_feature_add_event(struct store_feature_look *look, const struct store_row *row);
/* repository, id, name, created, updated, json of the record "feature". Returns the summary, whose
 * owner is not set yet. */
struct bl_store_feature_summary *store_feature_add_summary(struct store_feature_look *look,
                                                           const struct store_row *row);
/* Fills in a task that was found: kind, session, created, ended, expires, status, pid, started,
 * host, boot, pid_space, receipt, result, whether the owner's worker is at work (null: there are no
 * workers). Checks whether the owner of a working task is alive. */
void store_task_read(struct store_task *task, const struct store_row *row);
/* True if the task was found working, and no process will record its end any more. */
bool store_task_is_lost(const struct store_task *task);

/* ---- hold.c: the answer of a hold ------------------------------------------------------------ */

/* Forgets the answer of an earlier run of the job. */
void store_hold_begin(struct store_hold *hold);
/* Sets the id of a new session: the requested one, or one that is made. */
void store_hold_name(struct store_hold *hold);
/* Takes the session that was found: key, id. */
void store_hold_take_session(struct store_hold *hold, const struct store_row *row);
/* Adds a committed result of the request: result. */
void store_hold_add_recorded(struct store_hold *hold, const struct store_row *row);
/* Returns context_from. Columns starting at `column`: turns_total, context_from, input, output, id of
 * the newest turn. */
int64_t store_hold_take_counters(struct store_hold *hold, const struct store_row *row, int column);
/* Takes the summary of the turns before the context: messages. BL_EPARSE: they are damaged. */
int store_hold_take_summary(struct store_hold *hold, const struct store_row *row,
                            struct bl_error *error);
/* Adds a turn of the context: messages, number. BL_EPARSE: they are damaged. */
int store_hold_add_turn(struct store_hold *hold, const struct store_row *row,
                        struct bl_error *error);

/* ---- left.c: what a dead holder left --------------------------------------------------------- */

/* Returns the number of the last of these events: lines. 0: it has none. */
uint64_t store_left_seq(struct store_hold *hold, const struct store_row *row);
/* Names the turn that was cut off, and makes the id of its receipt. */
void store_left_cut_off(struct store_hold *hold, const char *turn);
/* True if the dead owner's wardens stopped processes: a receipt of them is due, also without a
 * turn. */
bool store_left_processes(const struct store_hold *hold);
/* Writes the receipt of a stop that its owner could not write because it had died, and the event
 * with it, which follows the event with number `last`. It contains what the owner's wardens
 * recorded, and what is found now. `turn` NULL: only background commands were left. */
void store_left_write(const struct store_hold *hold, const char *run, const char *turn,
                      uint64_t last, struct bl_buffer *receipt, struct bl_buffer *events);

/* ---- work.c: the answer of a look-up --------------------------------------------------------- */

/* Takes the result, and returns the id of the receipt (NULL: none), from two columns starting at
 * `column`. */
const char *store_work_take_end(struct store_find *find, const struct store_row *row, int column);
/* Takes the record of a task or a feature: json, whether it has ended, json of its receipt. */
void store_work_take_record(struct store_find *find, const struct store_row *row);
/* Takes a cell, and returns the id of its receipt: terminal, id of the receipt, whether it has
 * ended, yielded. `row` NULL: it is buried. */
const char *store_work_take_cell(struct store_find *find, const struct store_row *row);

/* One of several things with the same id. */
struct store_candidate {
    const char *kind; /* cell, task, feature */
    const char *name; /* full id */
    int64_t holder;   /* key of the session or feature */
    int64_t generation;
};

#define STORE_CANDIDATES_NAMED 4

struct store_candidates {
    struct store_candidate first;
    size_t count;
    const char *names[STORE_CANDIDATES_NAMED];
};

/* full id, key of the holder, generation. */
void store_candidates_add(struct store_candidates *found, struct store_find *find, const char *kind,
                          const struct store_row *row);
/* Begins the answer with the only candidate. Returns the name of its record in the feature, or NULL
 * for a cell. */
const char *store_work_take_candidate(struct store_find *find, const struct store_candidate *only);
int store_refuse_ambiguous(const struct store_find *find, const struct store_candidates *found,
                           struct bl_error *error);
/* Nothing has that id in the store `where`. */
int store_refuse_unknown_work(const struct store_find *find, const char *where,
                              struct bl_error *error);

#endif
