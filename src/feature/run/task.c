/* The loop of a task: a slot, a deadline, turns, one decision.
 *
 *   queued  --slot-->  running  --turns-->  approved | failed | timed_out | blocked | cancelled
 *                         ^---- feedback ----'                                                   */
#include <stdio.h>

#include "feature/parts.h"

void task_stage_open(struct task_stage *stage, struct bl_scope *parent, const char *id)
{
    bl_scope_init(&stage->scope, parent);
    bl_receipt_open(&stage->receipt, &stage->scope, id);
    stage->deadline_ns = BL_NEVER;
    stage->open = true;
}

void task_stage_close(struct task_stage *stage)
{
    if (!stage->open)
        return;
    bl_receipt_close(&stage->receipt);
    bl_scope_done(&stage->scope);
    stage->open = false;
}

struct task_stage *task_stage_now(struct feature_task *task)
{
    if (task->merge.open)
        return &task->merge;
    return task->grace.open ? &task->grace : &task->main;
}

/* Sets timer and row together, so that the displayed deadline is the one that fires. */
void task_stage_arm(struct feature_task *task, struct task_stage *stage, uint64_t deadline_ns)
{
    uint64_t now_ns = bl_now_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    stage->deadline_ns = deadline_ns;
    bl_scope_set_deadline(&stage->scope, deadline_ns);
    task->row.held_left_s = -1;
    task->row.deadline_wall_ns = bl_clock_wall_ns(task->feature->clock) + (int64_t)left_ns;
}

/* ---- Pauses and drains ----------------------------------------------------------------------- */

/* Holds the task's timer while the feature is paused. */
static void run_task_hold(struct feature_task *task, struct task_stage *stage)
{
    if (task->held_ns != 0 || !task->feature->paused || stage->deadline_ns == BL_NEVER)
        return;
    task->held_ns = bl_now_ns();
    bl_scope_set_deadline(&stage->scope, BL_NEVER);
    uint64_t left_ns = stage->deadline_ns > task->held_ns ? stage->deadline_ns - task->held_ns : 0;
    task->row.held_left_s = (double)left_ns / 1e9;
    task->row.deadline_wall_ns = 0;
    ledger_put_task(task);
    ledger_write(task->feature, false);
}

static void run_task_release(struct feature_task *task, struct task_stage *stage)
{
    if (task->held_ns == 0)
        return;
    uint64_t held = bl_now_ns() - task->held_ns;
    task->held_ns = 0;
    task_deadline_move(task, stage, held, "paused");
}

void task_deadline_move(struct feature_task *task, struct task_stage *stage, uint64_t by_ns,
                        const char *why)
{
    task_stage_arm(task, stage, bl_time_add(stage->deadline_ns, by_ns));
    if (stage == &task->main)
        task->row.deadline_s += (double)by_ns / 1e9;
    EVENT_TELL(task->feature, DEADLINE_MOVED, task, .text = bl_text_from(why));
    ledger_put_task(task);
}

int task_gate(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    struct task_stage *stage = task->merge.open ? &task->merge : &task->main;
    int code = bl_check();
    while (code == 0 && (feature->paused || feature->draining)) {
        run_task_hold(task, stage);
        code = feature_bell_wait(&feature->changed);
    }
    run_task_release(task, stage);
    return code != 0 ? code : bl_check();
}

/* ---- The stop of an attempt ------------------------------------------------------------------ */

/* With a grace, verification and Coach continue after the timer fires. */
void task_grace_follow(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    struct bl_stop stop;
    if (!task->grace.open || task->in_grace || !bl_scope_stopped(&task->main.scope))
        return;
    bl_scope_stop_read(&task->main.scope, &stop);
    if (stop.reason != BL_STOP_TIMEOUT || bl_scope_stopped(&feature->scope)) {
        bl_scope_stop(&task->grace.scope, stop.reason, stop.origin);
        return;
    }
    task->in_grace = true;
    task->fired_ns = stop.time_ns;
    task_stage_arm(task, &task->grace,
                   bl_time_add(stop.time_ns, task->plan->limits.coach_grace_ns));
    EVENT_TELL(feature, GRACE_STARTED, task, .phase = task->row.phase);
}

static void main_stopped(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct feature_task *task = BL_CONTAINER(hook, struct feature_task, main_stopped);
    struct bl_stop stop;
    bl_scope_stop_read(scope, &stop);
    EVENT_TELL(task->feature, CANCEL_REQUESTED, task, .phase = task->row.phase,
               .reason = stop.reason, .origin = stop.origin);
    if (task->row.state == BL_TASK_RUNNING) {
        task_row_move(&task->row, BL_TASK_STOPPING);
        ledger_put_task(task);
    }
    task_grace_follow(task);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

void task_attempt_begin(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    row->attempt++;
    row->decision = BL_DECISION_NONE;
    row->phase = BL_PHASE_NONE;
    row->reason = BL_STOP_NONE;
    row->triggered_by[0] = row->receipt[0] = '\0';
    row->elapsed_s = row->deadline_s = row->held_left_s = row->late_ms = -1;
    row->started_wall_ns = row->ended_wall_ns = row->deadline_wall_ns = 0;
    /* Work that an earlier attempt had approved was not merged. */
    row->memory->approved_commit[0] = '\0';
    row->memory->merge_turns = 0;
    row_text_set(&row->message, (struct bl_text){0});
}

void task_enlist(struct feature_task *task, struct task_stage *stage, const char *phase)
{
    struct bl_feature *feature = task->feature;
    char id[160];
    if (feature->options.activities == NULL)
        return;
    snprintf(id, sizeof id, "%s/%s", feature->plan->id, task->row.id);
    task->activity = (struct bl_activity){.kind = "task", .scope = &stage->scope};
    bl_text_into(task->activity.id, sizeof task->activity.id, id);
    bl_text_into(task->activity.session, sizeof task->activity.session, feature->plan->id);
    bl_text_into(task->activity.phase, sizeof task->activity.phase, phase);
    bl_activity_begin(feature->options.activities, &task->activity);
}

void task_delist(struct feature_task *task, const struct task_stage *stage)
{
    struct bl_text receipt = {0};
    if (task->feature->options.activities == NULL)
        return;
    if (bl_scope_stopped(&stage->scope))
        receipt = bl_buffer_text(&task->receipt_json);
    bl_activity_end(&task->activity, receipt);
}

void task_ready(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    struct bl_task_row *row = &task->row;
    char id[160];
    snprintf(id, sizeof id, "%s/%s", feature->plan->id, row->id);
    task_stage_open(&task->main, &feature->scope, id);
    bl_stop_hook_add(&task->main_stopped, &task->main.scope, main_stopped);
    task->ready = true;
    task->in_grace = false;
    task->turns_here = 0;
    task->survivors = 0;
    task_attempt_begin(task);
    task_row_move(row, BL_TASK_QUEUED);
    ledger_put_task(task);
    EVENT_TELL(feature, TASK_QUEUED, task);
    bl_unit_begin(&task->unit, BL_UNIT_TASK, row->id, task->plan->name);
    task_enlist(task, &task->main, "queued");
}

void task_finish(struct feature_task *task)
{
    bool approved = task->row.state == BL_TASK_APPROVED;
    enum bl_fate fate = task->row.started_wall_ns == 0 ? BL_FATE_NEVER_STARTED : BL_FATE_ABORTED;
    bl_receipt_fold(&task->main.receipt, &task->unit);
    bl_unit_end(&task->unit, approved ? BL_FATE_FINISHED : fate);
    task_delist(task, &task->main);
    bl_stop_hook_remove(&task->main_stopped);
    task_stage_close(&task->main);
    task->ready = false;
    feature_bell_ring(&task->ended);
}

/* ---- The slot and the timer ------------------------------------------------------------------ */

/* Each attempt gets the full deadline of the plan. */
static void arm(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    const struct bl_plan_task *plan = task->plan;
    task->started_ns = bl_now_ns();
    task_row_move(row, BL_TASK_RUNNING);
    row->phase = BL_PHASE_LOOP_TOP;
    row->started_wall_ns = bl_clock_wall_ns(task->feature->clock);
    row->deadline_s = (double)plan->deadline_ns / 1e9;
    row->grace_s = (double)plan->limits.coach_grace_ns / 1e9;
    bl_text_into(row->deadline_source, sizeof row->deadline_source, plan->deadline_source);
    task_stage_arm(task, &task->main, bl_time_add(task->started_ns, plan->deadline_ns));
    ledger_put_task(task);
    EVENT_TELL(task->feature, DEADLINE_ARMED, task);
}

static int run_task_take_slot(struct feature_task *task)
{
    struct bl_feature *feature = task->feature;
    int code = task_gate(task);
    if (code == 0)
        code = bl_semaphore_take(&feature->slots);
    /* The feature may have been paused in the meantime. */
    while (code == 0 && (feature->paused || feature->draining)) {
        bl_semaphore_give(&feature->slots);
        code = task_gate(task);
        if (code == 0)
            code = bl_semaphore_take(&feature->slots);
    }
    if (code == 0) {
        code = bl_check();
        if (code != 0)
            bl_semaphore_give(&feature->slots);
    }
    return code;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Checks the limits before a turn. Returns false after a decision. */
static bool loop_top(struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    const struct bl_feature_limits *limits = &task->plan->limits;
    char message[160];
    row->phase = BL_PHASE_LOOP_TOP;
    if (task_gate(task) != 0) {
        task_decide_stopped(task, &task->main, BL_PHASE_LOOP_TOP, NULL);
        return false;
    }
    if (row->turns_counted >= row->turns_max) {
        snprintf(message, sizeof message, "%u of %u turns are used up", row->turns_counted,
                 row->turns_max);
        task_decide(task, BL_DECISION_MAX_TURNS, NULL, message);
        return false;
    }
    if (bl_budget_passed(&task->budget) || task->ledger.overrun) {
        task_decide(task, BL_DECISION_MAX_BUDGET, NULL, "the task's budget is used up");
        return false;
    }
    uint64_t now = bl_now_ns();
    uint64_t left = task->main.deadline_ns > now ? task->main.deadline_ns - now : 0;
    if (task->turns_here > 0 && left < limits->min_turn_budget_ns) {
        char rest[32], least[32];
        bl_duration_format((int64_t)left, rest);
        bl_duration_format((int64_t)limits->min_turn_budget_ns, least);
        snprintf(message, sizeof message, "%s left, but a turn needs at least %s (min_turn_budget)",
                 rest, least);
        task_decide(task, BL_DECISION_TIMEOUT_BUDGET, NULL, message);
        return false;
    }
    return true;
}

/* Claims the scope for an approval. An earlier stop wins. */
static void claim(struct feature_task *task, struct task_turn *turn)
{
    int code = bl_scope_claim(&task->main.scope);
    bool late = false;
    if (code != 0 && task->grace.open) {
        task_grace_follow(task);
        late = bl_scope_claim(&task->grace.scope) == 0;
    }
    if (code != 0 && !late) {
        turn->judged_late = true;
        row_text_set(&task->late_verdict, turn->verdict.json);
        task_decide_stopped(task, task_stage_now(task), BL_PHASE_AFTER_TURN, turn);
        return;
    }
    turn->decision = "approve";
    turn->counted = true;
    task->row.turns_counted++;
    if (late)
        task->row.late_ms = (double)(bl_now_ns() - task->fired_ns) / 1e6;
    task_decide(task, late ? BL_DECISION_APPROVED_LATE : BL_DECISION_APPROVED, turn, NULL);
}

/* Records feedback, also if a stop came after it. Returns false if the attempt has ended. */
static bool after_feedback(struct feature_task *task, struct task_turn *turn)
{
    bool stalled = task_turn_feedback(task, turn);
    struct task_stage *stage = task_stage_now(task);
    bool stopped = bl_scope_check(&task->main.scope) != 0;
    task->row.phase = BL_PHASE_AFTER_TURN;
    if (stopped && task->in_grace && !bl_scope_stopped(&task->grace.scope))
        stage = &task->main; /* the grace is only for approvals */
    if (stopped)
        task_decide_stopped(task, stage, BL_PHASE_AFTER_TURN, turn);
    else if (stalled)
        task_decide(task, BL_DECISION_STALLED, turn, NULL);
    else if (task->row.memory->stall.absent >= FEATURE_TRIES_MAX)
        task_decide(task, BL_DECISION_BLOCKED, turn,
                    "verification could not run three times in a row");
    else
        return true;
    return false;
}

static bool after_player_error(struct feature_task *task, struct task_turn *turn)
{
    struct bl_task_row *row = &task->row;
    turn->decision = "player_error";
    turn->counted = true;
    turn->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
    row->turns_counted++;
    row->memory->stall.player_errors++;
    row->phase = BL_PHASE_AFTER_TURN;
    task_turn_ended(task, turn);
    if (bl_check() != 0)
        task_decide_stopped(task, &task->main, BL_PHASE_AFTER_TURN, turn);
    else if (row->memory->stall.player_errors >= FEATURE_TRIES_MAX)
        task_decide(task, BL_DECISION_PLAYER_FAILED, turn,
                    "the Player changed nothing and returned no result three times in a row");
    else
        return true;
    return false;
}

/* Returns false if the attempt has ended. */
static bool after_turn(struct feature_task *task, struct task_turn *turn, enum turn_end end,
                       const struct bl_error *error)
{
    char message[800];
    switch (end) {
    case TURN_APPROVED: claim(task, turn); return false;
    case TURN_FEEDBACK: return after_feedback(task, turn);
    case TURN_PLAYER_ERROR: return after_player_error(task, turn);
    case TURN_COACH_FAILED:
        turn->decision = "coach_error";
        task_decide(task, BL_DECISION_COACH_FAILED, turn, error->message);
        return false;
    case TURN_BLOCKED:
        snprintf(message, sizeof message, "%.*s%s%.*s",
                 (int)bl_utf8_cut(turn->result.blocked_reason, 300).size,
                 turn->result.blocked_reason.data,
                 turn->result.blocked_needs.size > 0 ? "; needs: " : "",
                 (int)bl_utf8_cut(turn->result.blocked_needs, 300).size,
                 turn->result.blocked_needs.data != NULL ? turn->result.blocked_needs.data : "");
        turn->decision = "feedback";
        turn->counted = true;
        task->row.turns_counted++;
        task_decide(task, BL_DECISION_BLOCKED, turn, message);
        return false;
    case TURN_STOPPED:
        task_decide_stopped(task, task_stage_now(task), task->row.phase, turn);
        return false;
    case TURN_BUDGET: task_decide(task, BL_DECISION_MAX_BUDGET, turn, error->message); return false;
    case TURN_ERROR: break;
    }
    snprintf(message, sizeof message, "%s%s%s", error->message, error->hint[0] != '\0' ? "; " : "",
             error->hint);
    task_decide(task, BL_DECISION_ERROR, turn, message);
    return false;
}

static void run_task_begin_turn(struct feature_task *task, struct task_turn *turn)
{
    task_turn_init(turn, task->row.id);
    turn->number = ++task->row.turn;
    turn->attempt = task->row.attempt;
    turn->started_wall_ns = bl_clock_wall_ns(task->feature->clock);
    bl_text_into(turn->head, sizeof turn->head, task->row.head_commit);
    if (task->turns_here++ == 0 && task->carry.size > 0)
        task_turn_carry(turn, task->carry);
    /* Recorded first, with the phases taken over: a row must not name a turn without a record. */
    ledger_put_turn(task, turn);
    EVENT_TELL(task->feature, TASK_TURN_STARTED, task);
}

/* ---- Late verdicts --------------------------------------------------------------------------- */

static bool is_late_approval(struct feature_task *task, struct bl_arena *arena,
                             struct verdict *ret_verdict)
{
    struct task_turn turn;
    struct bl_text reason;
    uint32_t number;
    struct bl_text late = checkpoint_late_verdict(arena, &task->row, &number);
    if (late.size == 0 || task->carry.size == 0 || !task_turn_read(arena, task->carry, &turn))
        return false;
    return verdict_parse(arena, late, task->plan, number, ret_verdict, &reason) == 0 &&
           ret_verdict->approve &&
           (!turn.verified || turn.verify.value == BL_VERIFIED_PASSED ||
            turn.verify.value == BL_VERIFIED_NONE);
}

/* Adopts an approval that came too late in the previous attempt. Returns true if that ended this
 * attempt. */
static bool adopt_late_verdict(struct feature_task *task)
{
    struct bl_arena arena;
    struct verdict verdict;
    struct git_state state;
    struct bl_error *error = bl_zalloc(sizeof *error);
    bl_arena_init(&arena);
    bool adopted = is_late_approval(task, &arena, &verdict) &&
                   task->feature->means->state(task, &arena, &state, error) == 0 &&
                   state.file_count == 0 && strcmp(state.head, task->row.head_commit) == 0;
    if (adopted && bl_scope_claim(&task->main.scope) != 0)
        task_decide_stopped(task, &task->main, BL_PHASE_LOOP_TOP, NULL);
    else if (adopted)
        task_decide(task, BL_DECISION_APPROVED, NULL,
                    "approved by the late verdict of the previous attempt");
    bl_arena_done(&arena);
    bl_free(error);
    return adopted;
}

/* ---- The attempt ----------------------------------------------------------------------------- */

static void run_turns(struct feature_task *task, struct bl_error *error)
{
    bool more = true;
    while (more && loop_top(task)) {
        struct task_turn *turn = bl_zalloc(sizeof *turn);
        run_task_begin_turn(task, turn);
        *error = (struct bl_error){0};
        enum turn_end end = task_turn_run(task, turn, (struct bl_text){0}, error);
        more = after_turn(task, turn, end, error);
        if (task->grace.open)
            bl_receipt_fold(&task->grace.receipt, &task->unit);
        task_stage_close(&task->grace);
        task_turn_done(turn);
        bl_free(turn);
    }
}

static void run_attempt(struct feature_task *task)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    int code = task->feature->means->prepare(task, error);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        task_decide_stopped(task, &task->main, BL_PHASE_LOOP_TOP, NULL);
    else if (code != 0)
        task_decide(task, BL_DECISION_ERROR, NULL, error->message);
    else if (!adopt_late_verdict(task))
        run_turns(task, error);
    bl_free(error);
}

int task_main(void *argument)
{
    struct feature_task *task = argument;
    if (run_task_take_slot(task) != 0) {
        task_decide_stopped(task, &task->main, BL_PHASE_LOOP_TOP, NULL);
    } else {
        arm(task);
        run_attempt(task);
        bl_semaphore_give(&task->feature->slots);
    }
    task_policy(task);
    task_finish(task);
    return 0;
}
