/* The record of a turn, and the phases that a later turn takes over from it. */
#include <assert.h>

#include "feature/parts.h"

static const char *const phase_states[] = {
    [TURN_PHASE_NONE] = NULL,       [TURN_PHASE_RUNNING] = "running",
    [TURN_PHASE_ENDED] = "ended",   [TURN_PHASE_STOPPED] = "stopped",
    [TURN_PHASE_FAILED] = "failed", [TURN_PHASE_CARRIED] = "carried",
};
const struct bl_names turn_phase_states = BL_NAMES(phase_states);

static const char *const decisions[] = {"approve",     "feedback",  "player_error",
                                        "coach_error", "cancelled", "timeout"};
const struct bl_names turn_decisions = BL_NAMES(decisions);

#define BL_RECORD_STRUCT struct turn_phase
static const struct bl_member phase_members[] = {
    BL_MEMBER_ENUM("phase", phase, &bl_task_phases),
    BL_MEMBER_TIME("started_at", started_wall_ns, .nullable = true),
    BL_MEMBER_TIME("ended_at", ended_wall_ns, .nullable = true),
    BL_MEMBER_INTEGER("ms", ms, .nullable = true, .none = -1, .about = "null: it has not ended."),
    BL_MEMBER_ENUM("outcome", state, &turn_phase_states,
                   .about = "carried: ended in an earlier turn, and is not repeated."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record phase_record =
    BL_RECORD("turn_phase", struct turn_phase, phase_members);
static const struct bl_member phase_element = BL_ELEMENT(struct turn_phase, &phase_record);

#define BL_RECORD_STRUCT struct task_turn
static const struct bl_member player_members[] = {
    BL_MEMBER_TEXT("text", player_text, .about = "Text of its answer."),
    BL_MEMBER_RAW("result", result.json, .nullable = true, .object = true, BL_KNOWN(result.given),
                  .about = "null: none, or malformed."),
    BL_MEMBER_INTEGER("exit_code", player_exit, .least = INT32_MIN),
    BL_MEMBER_BOOLEAN("changed", changed, .about = "This turn changed the tree."),
    BL_MEMBER_WORD("head_commit", head, .cut = true),
    BL_MEMBER_END,
};
static const struct bl_record player_record = BL_RECORD_GROUP("turn_player", player_members);

static const struct bl_member turn_members[] = {
    BL_MEMBER_STRING("task", task, .about = "Task id."),
    BL_MEMBER_INTEGER("attempt", attempt, .least = 1),
    BL_MEMBER_INTEGER("turn", number, .least = 1),
    BL_MEMBER_BOOLEAN("merge", merge, .about = "It resolves a conflict or a failed gate."),
    BL_MEMBER_TIME("started_at", started_wall_ns, .nullable = true),
    BL_MEMBER_TIME("ended_at", ended_wall_ns, .nullable = true),
    BL_MEMBER_BOOLEAN("counted", counted, .about = "It counts against the task's turn limit."),
    /* Not checked against its names: a turn with an unknown decision was not cut off. */
    BL_MEMBER_STRING("decision", decision, .nullable = true, .about = "null: it has not ended."),
    BL_MEMBER_SLOTS("phases", phases, phase_count, &phase_element),
    BL_MEMBER_GROUP("player", &player_record, .nullable = true, BL_KNOWN(played),
                    .about = "null: it has not ended."),
    BL_MEMBER_OBJECT("verify", verify, &verify_record, .nullable = true, BL_KNOWN(verified),
                     .about = "null: it has not ended."),
    BL_MEMBER_RAW("verdict", verdict.json, .nullable = true, .object = true,
                  BL_KNOWN(verdict_valid), .about = "null: no valid verdict."),
    BL_MEMBER_LIST("issues", issues, &issue_record, struct issue, link),
    BL_MEMBER_TEXT("feedback", feedback, .nullable = true, .about = "Feedback for the Player."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record task_turn_record = BL_RECORD("turn", struct task_turn, turn_members);

void task_turn_init(struct task_turn *turn, const char *task)
{
    *turn = (struct task_turn){.task = task, .verify.value = BL_VERIFIED_NONE};
    bl_arena_init(&turn->arena);
    bl_list_init(&turn->issues);
    bl_list_init(&turn->verify.issues);
    bl_list_init(&turn->verdict.issues);
}

void task_turn_done(struct task_turn *turn)
{
    bl_arena_done(&turn->arena);
}

struct turn_phase *task_turn_phase(struct task_turn *turn, enum bl_task_phase phase)
{
    size_t at = 0;
    while (at < turn->phase_count && turn->phases[at].phase != phase)
        at++;
    if (at == turn->phase_count) {
        assert(at < BL_COUNT(turn->phases));
        turn->phases[turn->phase_count++] = (struct turn_phase){.phase = phase, .ms = -1};
    }
    return &turn->phases[at];
}

bool task_turn_has(const struct task_turn *turn, enum bl_task_phase phase)
{
    for (size_t i = 0; i < turn->phase_count; i++) {
        const struct turn_phase *one = &turn->phases[i];
        if (one->phase == phase)
            return one->state == TURN_PHASE_ENDED || one->state == TURN_PHASE_CARRIED;
    }
    return false;
}

/* ---- Taking over ----------------------------------------------------------------------------- */

bool task_turn_read(struct bl_arena *arena, struct bl_text json, struct task_turn *ret_turn)
{
    const struct bl_json *value;
    if (bl_json_read(arena, json, NULL, &value, NULL) != 0)
        return false;
    bl_record_take(arena, &task_turn_record, value, ret_turn);
    return true;
}

/* Only a turn that was cut off leaves phases to take over. Of a complete turn, only the feedback
 * counts. */
static bool run_turn_cut_off(const char *decision)
{
    return decision == NULL || strcmp(decision, "cancelled") == 0 ||
           strcmp(decision, "timeout") == 0 || strcmp(decision, "coach_error") == 0;
}

void task_turn_carry(struct task_turn *turn, struct bl_text json)
{
    struct bl_arena *arena = &turn->arena;
    struct task_turn *before = bl_arena_alloc(arena, sizeof *before);
    struct bl_text problem;
    if (!task_turn_read(arena, json, before) || !run_turn_cut_off(before->decision) ||
        !task_turn_has(before, BL_PHASE_PLAYER) || !before->played)
        return;
    task_turn_phase(turn, BL_PHASE_PLAYER)->state = TURN_PHASE_CARRIED;
    turn->played = true;
    turn->player_text = before->player_text;
    player_result_parse(arena, before->result.json, &turn->result, &problem);
    turn->player_exit = before->player_exit;
    turn->changed = before->changed;
    memcpy(turn->head, before->head, sizeof turn->head);
    issues_move(&before->issues, &turn->issues);
    if (!task_turn_has(before, BL_PHASE_VERIFY) || !before->verified)
        return;
    task_turn_phase(turn, BL_PHASE_VERIFY)->state = TURN_PHASE_CARRIED;
    turn->verified = true;
    turn->verify = before->verify;
    bl_list_init(&turn->verify.issues);
    issues_move(&before->verify.issues, &turn->verify.issues);
}
