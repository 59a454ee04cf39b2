/* The end of a wave: merges the approved tasks one by one into a candidate, without a checkout;
 * runs the gate on it; then moves the result branch by one compare-and-swap.
 *
 * The intent is stored before the swap. From it, recovery knows the old and the new tip, and
 * finishes the rows or repeats the step. */
#include <stdio.h>

#include "feature/parts.h"

struct merge_step {
    struct feature_task *task;
    char before[GIT_ID_SIZE]; /* candidate before this task */
    char after[GIT_ID_SIZE];  /* candidate with this task */
};

struct merge_run {
    struct bl_feature *feature;
    struct feature_wave *wave;
    struct bl_arena arena;
    bool has_tip; /* the result branch exists */
    char tip[GIT_ID_SIZE];
    char candidate[GIT_ID_SIZE];
    struct merge_step *steps;
    size_t count;
    struct bl_error error;
};

/* ---- Merge turns ----------------------------------------------------------------------------- */

static bool stopped(int code)
{
    return code == BL_ECANCELED || code == BL_ETIMEDOUT;
}

static void back_to_approved(struct feature_task *task, struct task_turn *turn,
                             const char *decision)
{
    task_row_move(&task->row, BL_TASK_APPROVED);
    task->row.phase = BL_PHASE_NONE;
    if (turn->ended_wall_ns == 0) {
        turn->decision = decision;
        turn->ended_wall_ns = bl_clock_wall_ns(task->feature->clock);
        task_turn_ended(task, turn);
    }
    ledger_put_task(task);
    ledger_write(task->feature, false);
}

/* Handles the stop of a merge turn: by its own timeout, with the feature, or by a user. */
static int after_stop(struct feature_task *task, struct task_turn *turn)
{
    struct bl_feature *feature = task->feature;
    struct bl_stop stop;
    int code = bl_scope_check(&feature->scope);
    bl_scope_stop_read(&task->merge.scope, &stop);
    if (code == 0 && stop.reason != BL_STOP_TIMEOUT) {
        task_decide_stopped(task, &task->merge, BL_PHASE_MERGE, turn);
        task_policy(task);
        return 0;
    }
    task->survivors = bl_survivors_add(task->survivors, bl_receipt_survivors(&task->merge.receipt));
    feature_receipt_put(feature, task, &task->merge.receipt, &task->receipt_json);
    back_to_approved(task, turn, code == 0 ? "timeout" : "cancelled");
    return code;
}

static int after_merge_turn(struct feature_task *task, struct task_turn *turn, enum turn_end end,
                            const struct bl_error *error)
{
    switch (end) {
    case TURN_APPROVED:
        if (bl_scope_claim(&task->merge.scope) != 0)
            return after_stop(task, turn);
        bl_text_into(task->row.memory->approved_commit, sizeof task->row.memory->approved_commit,
                     task->row.head_commit);
        back_to_approved(task, turn, "approve");
        return 0;
    case TURN_FEEDBACK:
        task_turn_feedback(task, turn);
        back_to_approved(task, turn, "feedback");
        return 0;
    case TURN_STOPPED: return after_stop(task, turn);
    case TURN_PLAYER_ERROR:
    case TURN_BLOCKED: back_to_approved(task, turn, "player_error"); return 0;
    case TURN_COACH_FAILED: back_to_approved(task, turn, "coach_error"); return 0;
    case TURN_BUDGET:
    case TURN_ERROR: break;
    }
    task_decide(task, end == TURN_BUDGET ? BL_DECISION_MAX_BUDGET : BL_DECISION_ERROR, turn,
                error->message);
    task_policy(task);
    return 0;
}

static enum turn_end play_merge_turn(struct feature_task *task, struct task_turn *turn,
                                     const char *candidate, struct bl_text about,
                                     struct bl_error *error)
{
    int code = git_merge_into(task->feature->git, task->row.worktree.data, candidate, error);
    if (stopped(code))
        return TURN_STOPPED;
    if (code != 0)
        return TURN_ERROR;
    EVENT_TELL(task->feature, TASK_TURN_STARTED, task);
    return task_turn_run(task, turn, about, error);
}

/* Runs a merge turn in its own scope. Returns 0 even if the turn failed (see the row), or an error
 * code if the feature's scope was stopped. */
static int merge_turn(struct feature_task *task, const char *candidate, struct bl_text about)
{
    struct bl_feature *feature = task->feature;
    struct bl_task_row *row = &task->row;
    struct task_turn *turn = bl_zalloc(sizeof *turn);
    struct bl_error *error = bl_zalloc(sizeof *error);
    char id[160];
    snprintf(id, sizeof id, "%s/%s merge", feature->plan->id, row->id);
    task_stage_open(&task->merge, &feature->scope, id);
    task_enlist(task, &task->merge, "merging");
    task_stage_arm(task, &task->merge,
                   bl_time_add(bl_now_ns(), task->plan->limits.merge_timeout_ns));
    struct bl_scope *outer = bl_scope_enter(&task->merge.scope);
    task_turn_init(turn, row->id);
    turn->number = ++row->turn;
    turn->attempt = row->attempt;
    turn->merge = true;
    turn->started_wall_ns = bl_clock_wall_ns(feature->clock);
    row->memory->merge_turns++;
    task_row_move(row, BL_TASK_RUNNING);
    bl_text_into(task->compare_base, sizeof task->compare_base, candidate);
    enum turn_end end = play_merge_turn(task, turn, candidate, about, error);
    bl_scope_enter(outer);
    int code = after_merge_turn(task, turn, end, error);
    bl_text_into(task->compare_base, sizeof task->compare_base, row->base_commit);
    task_delist(task, &task->merge);
    task_stage_close(&task->merge);
    feature_bell_ring(&task->ended);
    task_turn_done(turn);
    bl_free(turn);
    bl_free(error);
    return code;
}

/* ---- Merging --------------------------------------------------------------------------------- */

static void run_merge_take_step(struct merge_run *run, struct feature_task *task, const char *after)
{
    struct merge_step *step = &run->steps[run->count++];
    step->task = task;
    bl_text_into(step->before, sizeof step->before, run->candidate);
    bl_text_into(step->after, sizeof step->after, after);
    bl_text_into(run->candidate, sizeof run->candidate, after);
}

static struct bl_text describe_conflict(struct merge_run *run, const char *const *paths)
{
    BL_AUTO_BUFFER(text, (size_t)64 * 1024);
    bl_buffer_append(&text, BL_TEXT("The work of other tasks was merged into this worktree, "
                                    "with conflicts in:\n"));
    for (size_t i = 0; paths[i] != NULL; i++)
        bl_buffer_printf(&text, "- %s\n", paths[i]);
    bl_buffer_append(&text, BL_TEXT("Resolve them so that the intent of both sides is kept, and "
                                    "remove all conflict markers. Belay commits the merge.\n"));
    return bl_arena_text(&run->arena, bl_buffer_text(&text));
}

static void tell_conflict(struct feature_task *task, const char *const *paths)
{
    struct feature_event event = {
        .type = EVENT_MERGE_CONFLICT, .task = task, .phase = BL_PHASE_MERGE, .names = paths};
    while (paths[event.name_count] != NULL)
        event.name_count++;
    event_tell(task->feature, &event);
}

static void write_merge_message(const struct feature_task *task, char *out, size_t size)
{
    snprintf(out, size, "belay: merge %s/%s\n\nBelay-Task: %s\nBelay-Attempt: %u\n",
             task->feature->plan->id, task->row.id, task->row.id, task->row.attempt);
}

static void fail_merge(struct feature_task *task, enum bl_task_decision decision, const char *what)
{
    char message[400];
    snprintf(message, sizeof message, "%s; not resolved in %u merge turn%s; its work is on %s",
             what, task->row.memory->merge_turns, task->row.memory->merge_turns == 1 ? "" : "s",
             task->row.branch);
    task_decide(task, decision, NULL, message);
    task_policy(task);
}

/* Merges a task. Returns 0 if the task was merged or has failed; any other code means that the run
 * was stopped or the feature has failed. */
static int merge_task(struct merge_run *run, struct feature_task *task)
{
    struct bl_task_row *row = &task->row;
    struct git_merge_result result;
    char message[400];
    int code = 0;
    write_merge_message(task, message, sizeof message);
    while (code == 0 && row->state == BL_TASK_APPROVED) {
        const char *head = row->memory->approved_commit;
        if (strcmp(head, row->base_commit) == 0) {
            run_merge_take_step(run, task, run->candidate); /* no changes */
            return 0;
        }
        code = git_merge_commits(run->feature->git, &run->arena, run->candidate, head, message,
                                 &result, &run->error);
        if (code != 0)
            return code;
        if (result.clean) {
            run_merge_take_step(run, task, result.commit);
            return 0;
        }
        tell_conflict(task, result.conflicts);
        if (row->memory->merge_turns >= task->plan->limits.merge_turns)
            fail_merge(task, BL_DECISION_MERGE_CONFLICT, "it conflicts with work merged before it");
        else
            code = merge_turn(task, run->candidate, describe_conflict(run, result.conflicts));
    }
    return code;
}

/* Merges all approved tasks, in plan order, onto the tip. */
static int merge_all(struct merge_run *run)
{
    const struct bl_plan_wave *planned = &run->feature->plan->waves[run->wave->n - 1];
    int code = 0;
    run->count = 0;
    bl_text_into(run->candidate, sizeof run->candidate, run->tip);
    for (size_t i = 0; i < planned->count && code == 0; i++) {
        struct feature_task *task = &run->feature->tasks[planned->tasks[i]];
        if (task->row.state == BL_TASK_APPROVED)
            code = merge_task(run, task);
    }
    return code;
}

/* ---- The gate -------------------------------------------------------------------------------- */

static int run_gate(struct merge_run *run, const char *commit, struct verify_outcome *outcome)
{
    struct bl_feature *feature = run->feature;
    char folder[640];
    snprintf(folder, sizeof folder, "%s/gate-%u", feature->scratch, run->wave->n);
    struct bl_verify_plan nothing = {.commands = (const char *const[]){NULL},
                                     .carry = (const char *const[]){NULL},
                                     .protect = (const char *const[]){NULL}};
    struct verify_order order = {
        .plan = &nothing,
        .gate = &feature->plan->gate,
        .feature = feature->plan->id,
        .commit = commit,
        .base_commit = commit,
        .folder = folder,
    };
    feature->phases_running++;
    int code = verify_run(&feature->house, feature->git, &order, &run->arena, outcome);
    feature->phases_running--;
    feature_bell_ring(&feature->changed);
    return code;
}

static void tell_gate(struct merge_run *run, const struct verify_outcome *outcome,
                      const struct feature_task *blamed)
{
    EVENT_TELL(run->feature, GATE_ENDED, blamed, .phase = BL_PHASE_MERGE, .wave = run->wave,
               .verify = outcome);
}

static int fail_gate(struct merge_run *run, const char *what, const struct verify_outcome *outcome)
{
    bl_error_set(&run->error, BL_EREFUSED, BL_KIND_FEATURE, "run the gate",
                 run->feature->plan->gate.command, "%s: %.*s", what,
                 (int)bl_utf8_cut(outcome->why, 300).size, outcome->why.data);
    return BL_EREFUSED;
}

/* Finds the first merge that makes the gate fail. `*ret_step` is NULL if the gate fails on the tip
 * already. */
static int find_failing_merge(struct merge_run *run, struct merge_step **ret_step,
                              struct verify_outcome *outcome)
{
    *ret_step = NULL;
    int code = run_gate(run, run->tip, outcome);
    if (code != 0 || outcome->value == BL_VERIFIED_FAILED)
        return code;
    for (size_t i = 0; i < run->count && code == 0 && *ret_step == NULL; i++) {
        code = run_gate(run, run->steps[i].after, outcome);
        /* If the gate fails on no single merge, the last task is blamed. */
        if (outcome->value == BL_VERIFIED_FAILED || i + 1 == run->count)
            *ret_step = &run->steps[i];
    }
    return code;
}

static struct bl_text describe_gate(struct merge_run *run, const struct verify_outcome *outcome)
{
    return bl_arena_printf(
        &run->arena,
        "Merged with the work of the other tasks, this task makes the gate fail.\n"
        "Gate: %s\n%.*s\n\nThe end of its output:\n\n%.*s\n\n"
        "The work of the other tasks is merged into this worktree: fix the failure here.\n",
        run->feature->plan->gate.command, (int)outcome->why.size, outcome->why.data,
        (int)outcome->tail.size, outcome->tail.data);
}

/* Blames a task for a failed gate. It gets a merge turn or fails. */
static int blame(struct merge_run *run, const struct verify_outcome *whole)
{
    struct verify_outcome outcome = *whole;
    struct merge_step *step;
    int code = find_failing_merge(run, &step, &outcome);
    if (code != 0)
        return code;
    if (step == NULL)
        return fail_gate(run, "the gate failed before this wave", &outcome);
    struct feature_task *task = step->task;
    tell_gate(run, &outcome, task);
    if (task->row.memory->merge_turns >= task->plan->limits.merge_turns) {
        fail_merge(task, BL_DECISION_GATE_FAILED, "its merge makes the gate fail");
        return 0;
    }
    return merge_turn(task, step->before, describe_gate(run, &outcome));
}

/* Runs the gate. Returns 0 if the candidate may become the result, or BL_EAGAIN if the merge must
 * be repeated after a change. */
static int pass_gate(struct merge_run *run)
{
    struct bl_feature *feature = run->feature;
    struct verify_outcome outcome = {0};
    if (!feature->plan->waves[run->wave->n - 1].gated || run->count == 0)
        return 0;
    int code = run_gate(run, run->candidate, &outcome);
    if (code != 0)
        return code;
    tell_gate(run, &outcome, NULL);
    run->wave->gate = outcome.value;
    if (outcome.value == BL_VERIFIED_FAILED) {
        code = blame(run, &outcome);
        return code != 0 ? code : BL_EAGAIN;
    }
    if (outcome.value == BL_VERIFIED_ABSENT) {
        feature->unverified = true;
        event_warn(feature, NULL, "wave %u is unverified: %.*s", run->wave->n,
                   (int)bl_utf8_cut(outcome.why, 300).size, outcome.why.data);
        if (feature->plan->required)
            return fail_gate(run, "the gate is absent, but verification is required", &outcome);
    }
    return 0;
}

/* ---- The swap -------------------------------------------------------------------------------- */

/* The stored intent of a swap. */
struct merge_intent {
    uint32_t wave;
    const char *before;
    const char *after;
    const char **tasks;
    size_t task_count;
};

#define BL_RECORD_STRUCT struct merge_intent
static const struct bl_member intent_members[] = {
    BL_MEMBER_INTEGER("wave", wave, .least = 1),
    BL_MEMBER_STRING("old", before, .nullable = true, .form = &feature_commit_form,
                     .about = "Tip of the result branch; null: none."),
    BL_MEMBER_STRING("new", after, .form = &feature_commit_form),
    BL_MEMBER_ARRAY("tasks", tasks, task_count, &bl_element_string),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record intent_record =
    BL_RECORD("merge_intent", struct merge_intent, intent_members);

static void run_merge_put_intent(struct merge_run *run)
{
    struct merge_intent intent = {
        .wave = run->wave->n,
        .before = run->has_tip ? run->tip : NULL,
        .after = run->candidate,
        .tasks = bl_arena_alloc(&run->arena, run->count * sizeof *intent.tasks),
    };
    while (intent.task_count < run->count) {
        intent.tasks[intent.task_count] = run->steps[intent.task_count].task->row.id;
        intent.task_count++;
    }
    ledger_put_record(run->feature, "merge", &intent_record, &intent);
}

static void run_merge_complete(struct feature_task *task, const char *commit)
{
    task_row_move(&task->row, BL_TASK_COMPLETED);
    task->row.merged = true;
    task->row.merged_wall_ns = bl_clock_wall_ns(task->feature->clock);
    ledger_put_task(task);
    EVENT_TELL(task->feature, MERGE_ENDED, task, .phase = BL_PHASE_MERGE, .commit = commit);
}

/* Stores the intent, swaps the ref, stores the rows. Runs to the end once started. */
static int run_merge_swap(struct merge_run *run)
{
    struct bl_feature *feature = run->feature;
    run_merge_put_intent(run);
    ledger_put_wave(feature, run->wave); /* the gate's result counts even if a later run finishes
                                            this */
    int code = ledger_write(feature, true);
    if (code != 0)
        return code;
    if (!run->has_tip || strcmp(run->tip, run->candidate) != 0)
        code = git_ref_swap(feature->git, feature->result_ref, run->has_tip ? run->tip : NULL,
                            run->candidate, "belay: wave merged", &run->error);
    ledger_put(feature, "merge", (struct bl_text){0});
    BL_LOG(BL_ROOM_FEATURE, BL_LOG_INFO, "merge", BL_LOG_INTEGER("wave", run->wave->n),
           BL_LOG_INTEGER("tasks", (int64_t)run->count), BL_LOG_STRING("commit", run->candidate),
           BL_LOG_STRING("result", bl_error_text(code)));
    if (code != 0) {
        ledger_write(feature, true);
        return code;
    }
    bl_text_into(feature->row.result_commit, sizeof feature->row.result_commit, run->candidate);
    for (size_t i = 0; i < run->count; i++)
        run_merge_complete(run->steps[i].task, run->steps[i].after);
    ledger_put_feature(feature);
    return ledger_write(feature, true);
}

static int find_tip(struct merge_run *run)
{
    struct bl_feature *feature = run->feature;
    int code = git_ref_find(feature->git, feature->result_ref, run->tip, &run->error);
    run->has_tip = code == 0;
    if (code != BL_ENOENT)
        return code;
    bl_text_into(run->tip, sizeof run->tip, feature->row.base_commit);
    return 0;
}

int wave_merge(struct bl_feature *feature, struct feature_wave *wave)
{
    struct merge_run *run = bl_zalloc(sizeof *run);
    struct bl_scope shield;
    run->feature = feature;
    run->wave = wave;
    bl_arena_init(&run->arena);
    run->steps = bl_arena_zalloc(&run->arena, (feature->plan->task_count + 1) * sizeof *run->steps);
    int code = find_tip(run);
    int again = BL_EAGAIN;
    while (code == 0 && again == BL_EAGAIN) {
        code = merge_all(run);
        again = code == 0 ? pass_gate(run) : 0;
        if (again != 0 && again != BL_EAGAIN)
            code = again;
    }
    if (code == 0)
        code = bl_scope_check(&feature->scope);
    if (code == 0 && run->count > 0) {
        bl_shield_begin(&shield, FEATURE_SHIELD_NS);
        code = run_merge_swap(run);
        bl_shield_end(&shield);
    }
    if (code != 0 && !stopped(code))
        feature_fail(feature, &run->error);
    bl_arena_done(&run->arena);
    bl_free(run);
    return code;
}

int merge_recover(struct bl_feature *feature, const struct bl_json *value, struct bl_error *error)
{
    char now[GIT_ID_SIZE] = "";
    struct merge_intent intent;
    struct bl_arena arena = {0};
    int code = git_ref_find(feature->git, feature->result_ref, now, error);
    if (code != 0 && code != BL_ENOENT)
        return code;
    ledger_put(feature, "merge", (struct bl_text){0});
    bl_record_take(&arena, &intent_record, value, &intent);
    /* Otherwise the swap did not take place, and the merge is repeated. */
    if (code == 0 && intent.after != NULL && strcmp(intent.after, now) == 0) {
        bl_text_into(feature->row.result_commit, sizeof feature->row.result_commit, now);
        for (size_t i = 0; i < intent.task_count; i++) {
            struct feature_task *task = feature_task_find(feature, bl_text_from(intent.tasks[i]));
            if (task != NULL && task->row.state == BL_TASK_APPROVED)
                run_merge_complete(task, now);
        }
    }
    bl_arena_done(&arena);
    return 0;
}
