/* The end of an attempt, in one place: what was decided, the checkpoint, the receipt and the event
 * go into the store in one transaction, and everybody else reads that. */
#include <stdio.h>

#include "feature/parts.h"

#define CHECKPOINT_MAX ((size_t)2 * 1024 * 1024)
#define RECEIPT_MAX    ((size_t)4 * 1024 * 1024)
#define CUT_TEXT_MAX   4000

/* ---- The stop -------------------------------------------------------------------------------- */

struct stop_facts {
    struct bl_stop stop;
    enum bl_task_decision decision;
    enum bl_stop_reason reason; /* of the stop, where it was asked */
    const char *triggered_by;   /* timer, user, SIGINT, feature, or a task */
};

static void read_stop(const struct feature_task *task, const struct task_stage *stage,
                      struct stop_facts *facts)
{
    const struct bl_feature *feature = task->feature;
    struct bl_stop *stop = &facts->stop;
    bool above = bl_scope_stopped(&feature->scope);
    enum bl_stop_reason reason;
    bl_scope_stop_read(&stage->scope, stop);
    reason = stop->reason;
    /* With the feature: for the reason that stopped that. */
    if (reason == BL_STOP_PARENT && above) {
        struct bl_stop root;
        bl_scope_stop_read(&feature->scope, &root);
        if (root.reason == BL_STOP_PARENT)
            bl_scope_stop_read(feature->outer, &root);
        reason = root.reason;
    }
    facts->reason = reason;
    facts->triggered_by = reason == BL_STOP_SIGNAL || reason == BL_STOP_SIBLING_FAILURE
                              ? stop->origin
                          : reason == BL_STOP_USER              ? "user"
                          : reason == BL_STOP_TIMEOUT && !above ? "timer"
                                                                : "feature";
    facts->decision = reason == BL_STOP_TIMEOUT  ? BL_DECISION_TIMEOUT
                      : reason == BL_STOP_BUDGET ? BL_DECISION_MAX_BUDGET
                                                 : BL_DECISION_CANCELLED;
}

/* ---- The checkpoint -------------------------------------------------------------------------- */

static void write_partial(struct bl_json_writer *writer, const struct feature_task *task,
                          const struct task_turn *turn)
{
    bool given = turn != NULL && turn->result.given;
    bool judged = turn != NULL && turn->verdict_valid && !turn->judged_late;
    struct bl_text said = task != NULL ? task->partial_text : (struct bl_text){0};
    struct bl_text result = task != NULL ? task->partial_result : (struct bl_text){0};
    if (said.size == 0 && turn != NULL)
        said = bl_utf8_cut(turn->player_text, CHECKPOINT_MAX / 8);
    bl_json_write_key(writer, BL_TEXT("partial"));
    bl_json_write_object(writer);
    row_put_text(writer, "player_text", said);
    bl_json_put_json(writer, "player_result", given ? turn->result.json : result);
    bl_json_write_key(writer, BL_TEXT("verify"));
    if (turn != NULL && (turn->verify_phase.state == TURN_PHASE_ENDED ||
                         turn->verify_phase.state == TURN_PHASE_CARRIED))
        verify_write(writer, &turn->verify);
    else
        bl_json_write_null(writer);
    bl_json_put_json(writer, "verdict", judged ? turn->verdict.json : (struct bl_text){0});
    bl_json_write_end(writer);
}

static void write_tree(struct bl_json_writer *writer, const struct bl_task_row *row,
                       const struct git_state *state)
{
    row_put_word(writer, "base_commit", row->base_commit);
    row_put_word(writer, "head_commit", state != NULL ? state->head : row->head_commit);
    bl_json_write_key(writer, BL_TEXT("dirty"));
    if (state != NULL)
        bl_json_write_boolean(writer, state->file_count > 0);
    else
        bl_json_write_null(writer);
    bl_json_write_key(writer, BL_TEXT("dirty_files"));
    bl_json_write_array(writer);
    for (size_t i = 0; state != NULL && state->files != NULL && state->files[i] != NULL; i++)
        bl_json_write_string(writer, state->files[i]);
    bl_json_write_end(writer);
}

/* One that the attempt before had left, and that no turn has come after, stands. */
static void write_late_verdict(struct bl_json_writer *writer, const struct bl_task_row *row,
                               const struct feature_task *task)
{
    const struct bl_json *before = NULL;
    struct bl_arena arena;
    int64_t turn = 0;
    if (task != NULL && task->late_verdict.size > 0) {
        bl_json_write_raw(writer, task->late_verdict);
        return;
    }
    bl_arena_init(&arena);
    if (row->checkpoint.size > 0 && bl_json_read(&arena, row->checkpoint, NULL, &before, NULL) != 0)
        before = NULL;
    const struct bl_json *late = bl_json_get(before, BL_TEXT("late_verdict"));
    bl_json_int64(bl_json_get(before, BL_TEXT("turn")), &turn);
    if (bl_json_is(late, BL_JSON_OBJECT) && turn == row->turn)
        bl_json_write_value(writer, late);
    else
        bl_json_write_null(writer);
    bl_arena_done(&arena);
}

void checkpoint_set(struct bl_task_row *row, const struct checkpoint *from)
{
    enum bl_task_phase phase = from->phase != BL_PHASE_NONE ? from->phase : BL_PHASE_LOOP_TOP;
    bool whole = phase == BL_PHASE_LOOP_TOP || phase == BL_PHASE_AFTER_TURN;
    struct bl_buffer json;
    struct bl_json_writer writer_, *writer = &writer_;
    bl_buffer_init(&json, CHECKPOINT_MAX);
    bl_json_writer_init(writer, &json);
    bl_json_write_object(writer);
    bl_json_put_uint64(writer, "schema", 1);
    bl_json_put_string(writer, "feature", from->feature);
    bl_json_put_string(writer, "task", row->id);
    bl_json_put_uint64(writer, "attempt", row->attempt);
    bl_json_put_uint64(writer, "epoch", from->epoch);
    bl_json_put_uint64(writer, "turn", row->turn);
    bl_json_put_string(writer, "phase", bl_task_phase_name(phase));
    bl_json_put_string(writer, "marker", whole ? "cancelled" : "cancelled_mid_turn");
    bl_json_put_string(writer, "reason", bl_stop_reason_name(from->reason));
    bl_json_put_string(writer, "triggered_by", from->triggered_by);
    row_put_time(writer, "requested_at", from->requested_wall_ns);
    row_put_time(writer, "observed_at", from->observed_wall_ns);
    row_put_number(writer, "elapsed_s", row->elapsed_s);
    row_put_number(writer, "deadline_s", row->deadline_s);
    write_tree(writer, row, from->state);
    write_partial(writer, from->task, from->turn);
    row_put_number(writer, "feedback_turn",
                   row->memory->feedback_turn > 0 ? (double)row->memory->feedback_turn : -1);
    bl_json_write_key(writer, BL_TEXT("late_verdict"));
    write_late_verdict(writer, row, from->task);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_record_write(writer, &bl_spent_record, &row->spent);
    row_put_word(writer, "receipt", row->receipt);
    bl_json_write_end(writer);
    if (bl_json_writer_done(writer) == 0)
        row_text_set(&row->checkpoint, bl_buffer_text(&json));
    bl_buffer_done(&json);
}

/* What the next Player is told was cut off. */
static void remember_cut(struct feature_task *task, const struct stop_facts *facts,
                         enum bl_task_phase phase)
{
    struct bl_buffer text;
    struct bl_text said = bl_utf8_cut(task->partial_text, CUT_TEXT_MAX);
    if (phase != BL_PHASE_PLAYER || task->row.turn == 0)
        return;
    bl_buffer_init(&text, CUT_TEXT_MAX + 1024);
    bl_buffer_printf(&text, "Turn %u was stopped (%s) while the Player was at work.",
                     task->row.turn, bl_stop_reason_name(facts->reason));
    if (said.size > 0) {
        bl_buffer_append(&text, BL_TEXT(" What it had said by then:\n\n"));
        bl_buffer_append(&text, said);
    }
    row_text_set(&task->row.memory->cut_off, bl_buffer_text(&text));
    bl_buffer_done(&text);
}

static void make_checkpoint(struct feature_task *task, const struct stop_facts *facts,
                            enum bl_task_phase phase, const struct task_turn *turn)
{
    struct bl_task_row *row = &task->row;
    struct bl_arena arena;
    struct git_state state;
    struct bl_error *error = bl_zalloc(sizeof *error);
    int64_t now = bl_clock_wall_ns(task->feature->clock);
    bl_arena_init(&arena);
    bool known = row->worktree.size > 0 && row->head_commit[0] != '\0' &&
                 task->feature->means->state(task, &arena, &state, error) == 0;
    if (known) {
        row->dirty = state.file_count > 0;
        bl_text_into(row->head_commit, sizeof row->head_commit, state.head);
    }
    struct checkpoint checkpoint = {
        .feature = task->feature->plan->id,
        .epoch = task->feature->epoch,
        .phase = phase,
        .reason = facts->reason,
        .triggered_by = facts->triggered_by,
        .requested_wall_ns = now - (int64_t)(bl_now_ns() - facts->stop.time_ns),
        .observed_wall_ns = now,
        .state = known ? &state : NULL,
        .task = task,
        .turn = turn,
    };
    checkpoint_set(row, &checkpoint);
    bl_arena_done(&arena);
    bl_free(error);
}

/* ---- The receipt ----------------------------------------------------------------------------- */

bool feature_receipt_record(struct bl_feature *feature, const struct bl_receipt *receipt,
                            struct bl_buffer *json)
{
    struct bl_json_writer writer;
    char name[64];
    bl_buffer_clear(json);
    bl_json_writer_init(&writer, json);
    bl_receipt_write(receipt, &writer);
    if (bl_json_writer_done(&writer) != 0)
        return false;
    snprintf(name, sizeof name, "receipt/%s", receipt->id);
    ledger_put(feature, name, bl_buffer_text(json));
    return true;
}

void feature_receipt_put(struct bl_feature *feature, const struct feature_task *task,
                         const struct bl_receipt *receipt, struct bl_buffer *json)
{
    struct event_draft draft;
    if (!feature_receipt_record(feature, receipt, json))
        return;
    struct bl_json_writer *event = event_begin(&draft, feature, "receipt", task, NULL);
    bl_json_put_json(event, "receipt", bl_buffer_text(json));
    event_end(&draft);
}

/* ---- The decision ---------------------------------------------------------------------------- */

static void end_times(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    row->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
    row->elapsed_s = row->started_wall_ns != 0 ? (double)(bl_now_ns() - task->started_ns) / 1e9 : 0;
}

static void tell_end(struct feature_task *task)
{
    const struct bl_task_row *row = &task->row;
    struct event_draft draft;
    struct bl_json_writer *writer = event_begin(&draft, task->feature, "task_ended", task, NULL);
    bl_json_put_string(writer, "state", bl_task_state_name(row->state));
    bl_json_put_string(writer, "decision", bl_task_decision_name(row->decision));
    bl_json_put_string(writer, "verified", bl_verified_name(row->verified));
    bl_json_put_string(writer, "reason", bl_names_get(&bl_stop_reasons, row->reason));
    row_put_word(writer, "triggered_by", row->triggered_by);
    bl_json_write_key(writer, BL_TEXT("elapsed_s"));
    bl_json_write_double(writer, row->elapsed_s);
    bl_json_put_uint64(writer, "turns_counted", row->turns_counted);
    if (row->late_ms >= 0) {
        bl_json_write_key(writer, BL_TEXT("late_ms"));
        bl_json_write_double(writer, row->late_ms);
    }
    row_put_word(writer, "receipt", row->receipt);
    row_put_text(writer, "message", row->message);
    event_end(&draft);
}

/* Row, attempt, turn and event in one transaction. */
static void put_on_record(struct feature_task *task, enum bl_task_decision decision,
                          struct task_turn *turn, const char *message)
{
    struct bl_task_row *row = &task->row;
    row->decision = decision;
    row->state = bl_task_decision_state(decision);
    if (message != NULL)
        row_text_set(&row->message, bl_text_from(message));
    if (turn != NULL && turn->ended_wall_ns == 0) {
        turn->ended_wall_ns = row->ended_wall_ns;
        task_turn_ended(task, turn);
    }
    ledger_put_task(task);
    ledger_put_attempt(task);
    tell_end(task);
    ledger_write(task->feature, true);
}

/* Out of time between two turns, or cancelled before the first: there was nothing to stop, but
 * whoever goes on starts from here. */
static void save_before_turn(struct feature_task *task, bool cancelled)
{
    struct bl_task_row *row = &task->row;
    struct stop_facts facts = {
        .stop = {.time_ns = bl_now_ns()},
        .reason = cancelled ? BL_STOP_USER : BL_STOP_TIMEOUT,
        .triggered_by = cancelled ? "user" : "timer",
    };
    row->reason = facts.reason;
    bl_text_into(row->triggered_by, sizeof row->triggered_by, facts.triggered_by);
    make_checkpoint(task, &facts, BL_PHASE_LOOP_TOP, NULL);
    event_tell(task->feature, "checkpoint_saved", task, bl_task_phase_name(BL_PHASE_LOOP_TOP));
}

void task_decide(struct feature_task *task, enum bl_task_decision decision, struct task_turn *turn,
                 const char *message)
{
    struct bl_scope shield;
    struct bl_task_row *row = &task->row;
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    if (task->main.open)
        bl_scope_set_deadline(&task->main.scope, BL_NEVER);
    end_times(task);
    row->phase = BL_PHASE_NONE;
    row->reason = BL_STOP_NONE;
    if (decision != BL_DECISION_SKIPPED) /* that names whoever it was skipped for */
        row->triggered_by[0] = '\0';
    row_text_set(&row->checkpoint, (struct bl_text){0});
    if (bl_task_decision_state(decision) == BL_TASK_APPROVED)
        bl_text_into(row->memory->approved_commit, sizeof row->memory->approved_commit,
                     row->head_commit);
    if (decision == BL_DECISION_TIMEOUT_BUDGET || decision == BL_DECISION_CANCELLED)
        save_before_turn(task, decision == BL_DECISION_CANCELLED);
    /* A late approval came after a stop, which has its receipt. */
    if (task->main.open && decision == BL_DECISION_APPROVED_LATE) {
        bl_text_into(row->receipt, sizeof row->receipt, task->main.receipt.id);
        feature_receipt_put(task->feature, task, &task->main.receipt, &task->receipt_json);
    }
    put_on_record(task, decision, turn, message);
    bl_shield_end(&shield);
}

void task_decide_stopped(struct feature_task *task, struct task_stage *stage,
                         enum bl_task_phase phase, struct task_turn *turn)
{
    struct bl_scope shield;
    struct stop_facts facts;
    struct bl_task_row *row = &task->row;
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    read_stop(task, stage, &facts);
    /* The timer had fired first: what cut the grace short is why it ended. */
    if (stage == &task->grace && facts.decision == BL_DECISION_TIMEOUT)
        facts.triggered_by = "timer";
    end_times(task);
    task->survivors = bl_survivors_add(task->survivors, bl_receipt_survivors(&stage->receipt));
    row->phase = stage == &task->merge ? BL_PHASE_MERGE : phase;
    row->reason = facts.reason;
    bl_text_into(row->triggered_by, sizeof row->triggered_by, facts.triggered_by);
    bl_text_into(row->receipt, sizeof row->receipt, stage->receipt.id);
    remember_cut(task, &facts, phase);
    make_checkpoint(task, &facts, row->phase, turn);
    feature_receipt_put(task->feature, task, &stage->receipt, &task->receipt_json);
    event_tell(task->feature, "checkpoint_saved", task, bl_task_phase_name(row->phase));
    if (turn != NULL && turn->decision == NULL)
        turn->decision = facts.decision == BL_DECISION_TIMEOUT ? "timeout" : "cancelled";
    put_on_record(task, facts.decision, turn, NULL);
    bl_shield_end(&shield);
}

/* ---- What it means for the others ------------------------------------------------------------ */

static void stop_siblings(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    for (size_t i = 0; i < feature->plan->task_count; i++) {
        struct feature_task *other = &feature->tasks[i];
        if (other == task || !other->ready || other->plan->wave != task->plan->wave)
            continue;
        bl_scope_stop(&other->main.scope, BL_STOP_SIBLING_FAILURE, task->row.id);
        if (other->grace.open)
            bl_scope_stop(&other->grace.scope, BL_STOP_SIBLING_FAILURE, task->row.id);
    }
}

/* A task whose git failed may be the first of many: where git does not work at all, nothing can. */
static void check_git(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    struct bl_scope shield;
    char id[GIT_ID_SIZE];
    if (task->row.decision != BL_DECISION_ERROR || feature->git == NULL)
        return;
    struct bl_error *error = bl_zalloc(sizeof *error);
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    if (git_commit_find(feature->git, feature->row.base_commit, id, error) != 0)
        feature_fail(feature, error);
    bl_shield_end(&shield);
    bl_free(error);
}

void task_policy(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    enum bl_task_state state = task->row.state;
    bool failed = state == BL_TASK_FAILED || state == BL_TASK_TIMED_OUT || state == BL_TASK_BLOCKED;
    if (failed)
        feature->failed = true;
    check_git(task);
    if (failed && feature->plan->on_failure == BL_ON_FAILURE_CANCEL_SIBLINGS)
        stop_siblings(task);
    if (state == BL_TASK_CANCELLED && !bl_scope_stopped(&feature->scope) &&
        strcmp(task->row.triggered_by, "user") == 0)
        feature->person_cancelled = true;
    if (task->survivors > 0) {
        struct bl_error *error = bl_zalloc(sizeof *error);
        if (task->survivors == BL_SURVIVORS_UNKNOWN)
            bl_error_set(error, BL_EBUSY, BL_KIND_FEATURE, "stop a task", task->row.id,
                         "could not verify that the processes of '%s' have ended", task->row.id);
        else
            bl_error_set(error, BL_EBUSY, BL_KIND_FEATURE, "stop a task", task->row.id,
                         "%u processes of '%s' could not be stopped", task->survivors,
                         task->row.id);
        bl_error_hint(error, "its receipt says which container held them; look with ps");
        feature_fail(feature, error);
        bl_free(error);
    }
}
