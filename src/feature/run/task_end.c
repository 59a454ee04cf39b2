/* The end of an attempt, in one place: decision, checkpoint, receipt and event go into the store in
 * one transaction, and every reader uses that record. */
#include <stdio.h>

#include "feature/parts.h"

#define CHECKPOINT_MAX ((size_t)2 * 1024 * 1024)
#define RECEIPT_MAX    ((size_t)4 * 1024 * 1024)
#define CUT_TEXT_MAX   4000

/* ---- The stop -------------------------------------------------------------------------------- */

struct stop_facts {
    struct bl_stop stop;
    enum bl_task_decision decision;
    enum bl_stop_reason reason; /* reason of the scope where the stop began */
    const char *triggered_by;   /* timer, user, SIGINT, feature, or a task */
};

/* Returns whether the task's own deadline came before the feature's, whichever fiber noticed. */
static bool own_timer(const struct feature_task *task, const struct task_stage *stage)
{
    return stage->deadline_ns != BL_NEVER &&
           stage->deadline_ns <= bl_scope_deadline_ns(&task->feature->scope);
}

static void task_end_read_stop(const struct feature_task *task, const struct task_stage *stage,
                               struct stop_facts *facts)
{
    const struct bl_feature *feature = task->feature;
    struct bl_stop *stop = &facts->stop;
    bool above = bl_scope_stopped(&feature->scope);
    enum bl_stop_reason reason;
    bl_scope_stop_read(&stage->scope, stop);
    reason = stop->reason;
    /* Stopped with the feature: the feature's reason applies. */
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
                          : reason == BL_STOP_USER                              ? "user"
                          : reason == BL_STOP_TIMEOUT && own_timer(task, stage) ? "timer"
                                                                                : "feature";
    facts->decision = reason == BL_STOP_TIMEOUT  ? BL_DECISION_TIMEOUT
                      : reason == BL_STOP_BUDGET ? BL_DECISION_MAX_BUDGET
                                                 : BL_DECISION_CANCELLED;
}

/* ---- The checkpoint -------------------------------------------------------------------------- */

static const char *const marker_names[] = {"cancelled", "cancelled_mid_turn"};
static const struct bl_names markers = BL_NAMES(marker_names);

struct bl_checkpoint_partial {
    struct bl_text player_text;
    struct bl_text player_result;
    const struct verify_outcome *verify;
    struct bl_text verdict;
};

#define BL_RECORD_STRUCT struct bl_checkpoint_partial
static const struct bl_member partial_members[] = {
    BL_MEMBER_TEXT("player_text", player_text, .nullable = true),
    BL_MEMBER_RAW("player_result", player_result, .nullable = true, .object = true),
    BL_MEMBER_POINTER("verify", verify, &verify_record, .nullable = true),
    BL_MEMBER_RAW("verdict", verdict, .nullable = true, .object = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record partial_record =
    BL_RECORD("checkpoint_partial", struct bl_checkpoint_partial, partial_members, .closed = true,
              .about = "Partial results of the turn that was cut off.");

#define BL_RECORD_STRUCT struct bl_checkpoint
static const struct bl_member saved_members[] = {
    BL_MEMBER_INTEGER("schema", schema, .least = 1, .most = 1, .about = "Version of this record."),
    BL_MEMBER_STRING("feature", feature, .least = 1),
    BL_MEMBER_STRING("task", task, .least = 1),
    BL_MEMBER_INTEGER("attempt", attempt, .about = "From 1; 0: stopped before it started."),
    BL_MEMBER_INTEGER("epoch", epoch, .about = "Epoch of the lease."),
    BL_MEMBER_INTEGER("turn", turn, .about = "0: no turn had started."),
    BL_MEMBER_STRING("phase", phase, .names = &bl_task_phases),
    BL_MEMBER_STRING("marker", marker, .names = &markers,
                     .about = "cancelled: stopped between turns, nothing was cut off."),
    BL_MEMBER_STRING("reason", reason, .names = &bl_stop_reasons),
    BL_MEMBER_STRING("triggered_by", triggered_by, .least = 1,
                     .about = "timer, user, a signal, feature, or the task that failed."),
    BL_MEMBER_TIME("requested_at", requested_wall_ns, .nullable = true,
                   .about = "null: not observed."),
    BL_MEMBER_TIME("observed_at", observed_wall_ns, .nullable = true),
    BL_MEMBER_NUMBER("elapsed_s", elapsed_s, .nullable = true, .none = -1),
    BL_MEMBER_NUMBER("deadline_s", deadline_s, .nullable = true, .none = -1),
    BL_MEMBER_STRING("base_commit", base_commit, .nullable = true, .form = &feature_commit_form,
                     .about = "null: none yet."),
    BL_MEMBER_STRING("head_commit", head_commit, .nullable = true, .form = &feature_commit_form,
                     .about = "null: none yet."),
    BL_MEMBER_BOOLEAN("dirty", dirty, .nullable = true, .none = -1, .about = "null: not known."),
    BL_MEMBER_ARRAY("dirty_files", dirty_files, dirty_count, &bl_element_string),
    BL_MEMBER_POINTER("partial", partial, &partial_record,
                      .about = "Partial results of the turn that was cut off."),
    BL_MEMBER_INTEGER("feedback_turn", feedback_turn, .nullable = true,
                      .about = "Turn whose feedback the next Player gets; null: none."),
    BL_MEMBER_RAW("late_verdict", late_verdict, .nullable = true, .object = true,
                  .about = "A complete, valid verdict that came after the stop; it changed "
                           "nothing."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record, .nullable = true, BL_KNOWN(spent_known),
                     .about = "Over all attempts; null: not known."),
    BL_MEMBER_STRING("receipt", receipt, .nullable = true, .form = &feature_receipt_form,
                     .about = "null: the owner died."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_checkpoint_record =
    BL_RECORD("checkpoint", struct bl_checkpoint, saved_members, .closed = true);

static struct bl_checkpoint_partial partial_of(const struct feature_task *task,
                                               const struct task_turn *turn)
{
    struct bl_checkpoint_partial partial = {0};
    if (task != NULL) {
        partial.player_text = task->partial_text;
        partial.player_result = task->partial_result;
    }
    if (turn == NULL)
        return partial;
    if (partial.player_text.size == 0)
        partial.player_text = bl_utf8_cut(turn->player_text, CHECKPOINT_MAX / 8);
    if (turn->verified)
        partial.verify = &turn->verify;
    if (turn->result.given)
        partial.player_result = turn->result.json;
    if (turn->verdict_valid && !turn->judged_late)
        partial.verdict = turn->verdict.json;
    return partial;
}

static void checkpoint_read(struct bl_arena *arena, const struct bl_task_row *row,
                            struct bl_checkpoint *saved)
{
    const struct bl_json *value = NULL;
    if (row->checkpoint.size > 0 && bl_json_read(arena, row->checkpoint, NULL, &value, NULL) != 0)
        value = NULL;
    bl_record_take(arena, &bl_checkpoint_record, value, saved);
}

struct bl_text checkpoint_late_verdict(struct bl_arena *arena, const struct bl_task_row *row,
                                       uint32_t *ret_turn)
{
    struct bl_checkpoint saved;
    checkpoint_read(arena, row, &saved);
    bool same = saved.head_commit != NULL && strcmp(saved.head_commit, row->head_commit) == 0;
    *ret_turn = saved.turn;
    return same ? saved.late_verdict : (struct bl_text){0};
}

/* Returns the late verdict of this attempt, or that of the previous one if no turn came after
 * it. */
static struct bl_text late_verdict_of(struct bl_arena *arena, const struct bl_task_row *row,
                                      const struct feature_task *task)
{
    struct bl_checkpoint saved;
    if (task != NULL && task->late_verdict.size > 0)
        return task->late_verdict;
    checkpoint_read(arena, row, &saved);
    return saved.turn == row->turn ? saved.late_verdict : (struct bl_text){0};
}

void checkpoint_set(struct bl_task_row *row, const struct checkpoint *from)
{
    enum bl_task_phase phase = from->phase != BL_PHASE_NONE ? from->phase : BL_PHASE_LOOP_TOP;
    bool whole = phase == BL_PHASE_LOOP_TOP || phase == BL_PHASE_AFTER_TURN;
    const struct git_state *state = from->state;
    struct bl_checkpoint_partial partial = partial_of(from->task, from->turn);
    struct bl_arena arena = {0};
    BL_AUTO_BUFFER(json, CHECKPOINT_MAX);
    struct bl_json_writer writer;
    struct bl_checkpoint saved = {
        .schema = 1,
        .feature = from->feature,
        .task = row->id,
        .attempt = row->attempt,
        .epoch = from->epoch,
        .turn = row->turn,
        .phase = bl_names_get(&bl_task_phases, phase),
        .marker = bl_names_get(&markers, !whole),
        .reason = bl_names_get(&bl_stop_reasons, from->reason),
        .triggered_by = from->triggered_by,
        .requested_wall_ns = from->requested_wall_ns,
        .observed_wall_ns = from->observed_wall_ns,
        .elapsed_s = row->elapsed_s,
        .deadline_s = row->deadline_s,
        .base_commit = row_word(row->base_commit),
        .head_commit = row_word(state != NULL ? state->head : row->head_commit),
        .dirty = state != NULL ? state->file_count > 0 : -1,
        .dirty_files = state != NULL ? state->files : NULL,
        .partial = &partial,
        .feedback_turn = row->memory->feedback_turn,
        .late_verdict = late_verdict_of(&arena, row, from->task),
        .spent_known = row->spent_known,
        .spent = row->spent,
        .receipt = row_word(row->receipt),
    };
    while (saved.dirty_files != NULL && saved.dirty_files[saved.dirty_count] != NULL)
        saved.dirty_count++;
    bl_json_writer_init(&writer, &json);
    bl_record_write(&writer, &bl_checkpoint_record, &saved);
    if (bl_json_writer_done(&writer) == 0)
        row_text_set(&row->checkpoint, bl_buffer_text(&json));
    bl_arena_done(&arena);
}

/* Saves for the next Player what was cut off. */
static void remember_cut(struct feature_task *task, const struct stop_facts *facts,
                         enum bl_task_phase phase)
{
    BL_AUTO_BUFFER(text, CUT_TEXT_MAX + 1024);
    struct bl_text said = bl_utf8_cut(task->partial_text, CUT_TEXT_MAX);
    if (phase != BL_PHASE_PLAYER || task->row.turn == 0)
        return;
    bl_buffer_printf(&text, "Turn %u was stopped (%s) while the Player was working.",
                     task->row.turn, bl_stop_reason_name(facts->reason));
    if (said.size > 0) {
        bl_buffer_append(&text, BL_TEXT(" Its output so far:\n\n"));
        bl_buffer_append(&text, said);
    }
    row_text_set(&task->row.memory->cut_off, bl_buffer_text(&text));
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
    if (feature_receipt_record(feature, receipt, json))
        EVENT_TELL(feature, RECEIPT, task, .json = bl_buffer_text(json));
}

/* ---- The decision ---------------------------------------------------------------------------- */

static void end_times(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    row->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
    row->elapsed_s = row->started_wall_ns != 0 ? (double)(bl_now_ns() - task->started_ns) / 1e9 : 0;
}

/* Stores row, attempt, turn and event in one transaction. */
static void put_on_record(struct feature_task *task, enum bl_task_decision decision,
                          struct task_turn *turn, const char *message)
{
    struct bl_task_row *row = &task->row;
    row->decision = decision;
    task_row_move(row, bl_task_decision_state(decision));
    if (message != NULL)
        row_text_set(&row->message, bl_text_from(message));
    if (turn != NULL && turn->ended_wall_ns == 0) {
        turn->ended_wall_ns = row->ended_wall_ns;
        task_turn_ended(task, turn);
    }
    ledger_put_task(task);
    ledger_put_attempt(task);
    EVENT_TELL(task->feature, TASK_ENDED, task);
    ledger_write(task->feature, true);
}

/* Saves a checkpoint for a task that ran out of time between two turns, or was cancelled before its
 * first. Nothing was running, but a resume starts from here. */
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
    EVENT_TELL(task->feature, CHECKPOINT_SAVED, task, .phase = BL_PHASE_LOOP_TOP);
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
    if (decision != BL_DECISION_SKIPPED) /* here it names the task that caused the skip */
        row->triggered_by[0] = '\0';
    row_text_set(&row->checkpoint, (struct bl_text){0});
    if (bl_task_decision_state(decision) == BL_TASK_APPROVED)
        bl_text_into(row->memory->approved_commit, sizeof row->memory->approved_commit,
                     row->head_commit);
    if (decision == BL_DECISION_TIMEOUT_BUDGET || decision == BL_DECISION_CANCELLED)
        save_before_turn(task, decision == BL_DECISION_CANCELLED);
    /* A late approval follows a stop, which has a receipt. */
    if (task->main.open && decision == BL_DECISION_APPROVED_LATE) {
        bl_text_into(row->receipt, sizeof row->receipt, task->main.receipt.id);
        feature_receipt_put(task->feature, task, &task->main.receipt, &task->receipt_json);
    }
    put_on_record(task, decision, turn, message);
    bl_shield_end(&shield);
}

/* Returns the message of a stop by the feature's deadline, else NULL. The task's own deadline is in
 * its row; the feature's belongs to this run only. */
static const char *message_of_stop(const struct feature_task *task, const struct stop_facts *facts,
                                   char out[96])
{
    char limit[32];
    uint64_t limit_ns = task->feature->plan->limits.feature_timeout_ns;
    bool whole = strcmp(facts->triggered_by, "feature") == 0;
    if (!whole || facts->reason != BL_STOP_TIMEOUT || limit_ns == 0)
        return NULL;
    bl_duration_format((int64_t)limit_ns, limit);
    snprintf(out, 96, "the feature's deadline of %s was reached", limit);
    return out;
}

void task_decide_stopped(struct feature_task *task, struct task_stage *stage,
                         enum bl_task_phase phase, struct task_turn *turn)
{
    struct bl_scope shield;
    struct stop_facts facts;
    char message[96];
    struct bl_task_row *row = &task->row;
    bl_shield_begin(&shield, FEATURE_SHIELD_NS);
    task_end_read_stop(task, stage, &facts);
    /* The task's timer fired first, so it is the trigger, whatever cut the grace short. */
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
    EVENT_TELL(task->feature, CHECKPOINT_SAVED, task, .phase = row->phase);
    if (turn != NULL && turn->decision == NULL)
        turn->decision = facts.decision == BL_DECISION_TIMEOUT ? "timeout" : "cancelled";
    put_on_record(task, facts.decision, turn, message_of_stop(task, &facts, message));
    bl_shield_end(&shield);
}

/* ---- Failure policy -------------------------------------------------------------------------- */

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

/* Fails the feature after a git error if git does not work at all: then no task can run. */
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
                         "%u process%s of '%s' could not be stopped", task->survivors,
                         task->survivors == 1 ? "" : "es", task->row.id);
        bl_error_hint(error, "see its receipt for the container, and ps for the processes");
        feature_fail(feature, error);
        bl_free(error);
    }
}
