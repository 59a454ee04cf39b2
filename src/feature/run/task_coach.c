/* The Coach's phase: a clean copy, up to three tries, and a verdict that satisfies the rules. */
#include <stdio.h>

#include "task_turn.h"

static void tell_verdict(struct feature_task *task, const struct task_turn *turn, uint32_t attempt,
                         struct bl_text refused)
{
    bool valid = refused.size == 0;
    EVENT_TELL(task->feature, VERDICT, task, .phase = BL_PHASE_COACH, .count = attempt,
               .valid = valid, .text = refused,
               .json = valid ? turn->verdict.json : (struct bl_text){0});
}

static struct bl_text make_coach_prompt(struct feature_task *task, struct task_turn *turn,
                                        struct bl_text diff, struct bl_text refused)
{
    struct coach_brief brief = {
        .plan = task->feature->plan,
        .task = task->plan,
        .turn = turn->number,
        .turns_max = task->row.turns_max,
        .diff = diff,
        .base_commit = task->compare_base,
        .head_commit = task->row.head_commit,
        .verify = &turn->verify,
        .issues = &turn->issues,
        .result = &turn->result,
        .player_text = bl_utf8_cut(turn->player_text, PROMPT_TEXT_MAX),
        .player_exit = turn->player_exit,
        .last_verdict = task->row.memory->last_verdict,
        .refused = refused,
        .left_ns = task_time_left(task),
        .command = task->plan->coach.kind == BL_SEAT_COMMAND,
    };
    return coach_prompt(&turn->arena, &brief);
}

/* Checks that worktree and branch are unchanged: the Coach must not touch them. */
static enum turn_end compare_worktree(struct feature_task *task, struct task_turn *turn,
                                      struct bl_error *error)
{
    struct git_state state;
    char ref[FEATURE_REF_SIZE];
    int code = task->feature->means->state(task, &turn->arena, &state, error);
    task_ref(&task->row, ref);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return TURN_STOPPED;
    if (code != 0)
        return TURN_ERROR;
    if (strcmp(state.head, task->row.head_commit) == 0 && state.branch != NULL &&
        strcmp(state.branch, ref) == 0 && state.file_count == 0)
        return TURN_APPROVED;
    bl_error_set(error, BL_EINVAL, BL_KIND_FEATURE, "judge a task", task->row.id,
                 "the worktree or branch of '%s' changed while its Coach ran", task->row.id);
    bl_error_hint(error, "check %s", task->row.worktree.data);
    return TURN_ERROR;
}

/* Keeps a verdict that arrived during the stop, if it is complete and valid. */
static void keep_late(struct feature_task *task, struct task_turn *turn,
                      const struct seat_outcome *outcome)
{
    struct verdict verdict;
    struct bl_text reason;
    if (outcome->result.size > 0 && verdict_parse(&turn->arena, outcome->result, task->plan,
                                                  turn->number, &verdict, &reason) == 0)
        row_text_set(&task->late_verdict, verdict.json);
}

static enum turn_end try_coach(struct feature_task *task, struct task_turn *turn,
                               struct bl_text diff, const char *folder, uint32_t number,
                               struct bl_text *refused, struct bl_error *error)
{
    struct bl_arena *arena = &turn->arena;
    struct seat_outcome *outcome = bl_arena_zalloc(arena, sizeof *outcome);
    struct bl_text prompt = make_coach_prompt(task, turn, diff, *refused);
    task_seat_run(task, turn, &task->plan->coach, prompt, folder, "verdict.json", outcome);
    if (outcome->end == SEAT_STOPPED) {
        keep_late(task, turn, outcome);
        return TURN_STOPPED;
    }
    if (outcome->end == SEAT_UNSTARTED) {
        *error = outcome->error;
        return TURN_ERROR;
    }
    if (outcome->end == SEAT_FAILED && outcome->over_budget) {
        task_over_budget(error);
        return TURN_BUDGET;
    }
    struct bl_text reason = {0};
    if (outcome->result.size == 0)
        reason =
            bl_arena_printf(arena, "no verdict%s%s", outcome->error.message[0] != '\0' ? ": " : "",
                            outcome->error.message);
    else if (verdict_parse(arena, outcome->result, task->plan, turn->number, &turn->verdict,
                           &reason) == 0)
        turn->verdict_valid = true;
    *refused = turn->verdict_valid ? (struct bl_text){0} : reason;
    tell_verdict(task, turn, number, *refused);
    return turn->verdict_valid ? TURN_APPROVED : TURN_COACH_FAILED;
}

static enum turn_end ask_coach(struct feature_task *task, struct task_turn *turn,
                               struct bl_text diff, const char *folder, struct bl_error *error)
{
    struct bl_text refused = {0};
    enum turn_end end = TURN_COACH_FAILED;
    for (uint32_t i = 1; i <= FEATURE_TRIES_MAX && end == TURN_COACH_FAILED; i++) {
        if (i > 1)
            task_phase_again(task, turn, BL_PHASE_COACH);
        int code = task->feature->means->copy_make(task, folder, error);
        if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
            end = TURN_STOPPED;
        else if (code != 0)
            end = TURN_ERROR;
        else
            end = try_coach(task, turn, diff, folder, i, &refused, error);
        task->feature->means->copy_remove(task, folder);
    }
    if (end == TURN_COACH_FAILED)
        bl_error_set(error, BL_EPARSE, BL_KIND_FEATURE, "judge a task", task->row.id,
                     "%d verdicts were invalid; the last one: %.*s", FEATURE_TRIES_MAX,
                     (int)bl_utf8_cut(refused, 300).size, refused.data);
    return end;
}

enum turn_end task_coach_run(struct feature_task *task, struct task_turn *turn,
                             struct bl_error *error)
{
    char folder[640];
    struct bl_text diff = {0};
    if (task_phase_begin(task, turn, BL_PHASE_COACH) != 0)
        return TURN_STOPPED;
    snprintf(folder, sizeof folder, "%s/coach-%u-%u", task->scratch, turn->attempt, turn->number);
    int code = task->feature->means->diff(task, &turn->arena, &diff, error);
    enum turn_end end = code == 0                                      ? TURN_APPROVED
                        : code == BL_ECANCELED || code == BL_ETIMEDOUT ? TURN_STOPPED
                                                                       : TURN_ERROR;
    if (end == TURN_APPROVED)
        end = ask_coach(task, turn, diff, folder, error);
    if (end == TURN_APPROVED || end == TURN_COACH_FAILED) {
        enum turn_end compared = compare_worktree(task, turn, error);
        end = compared == TURN_APPROVED ? end : compared;
    }
    /* A verdict from before the stop does not count for this turn. */
    if (end == TURN_STOPPED && turn->verdict_valid) {
        row_text_set(&task->late_verdict, turn->verdict.json);
        turn->verdict_valid = false;
    }
    task_phase_end(task, turn, BL_PHASE_COACH,
                   end == TURN_STOPPED    ? TURN_PHASE_STOPPED
                   : end == TURN_APPROVED ? TURN_PHASE_ENDED
                                          : TURN_PHASE_FAILED);
    return end;
}
