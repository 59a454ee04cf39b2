/* What is on record of a turn, and what a later one takes over from it. */
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

void task_turn_init(struct task_turn *turn)
{
    *turn = (struct task_turn){0};
    bl_arena_init(&turn->arena);
    bl_list_init(&turn->issues);
    bl_list_init(&turn->verify.issues);
    bl_list_init(&turn->verdict.issues);
    turn->verify.value = BL_VERIFIED_NONE;
}

void task_turn_done(struct task_turn *turn)
{
    bl_arena_done(&turn->arena);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_phase(struct bl_json_writer *writer, const char *name,
                        const struct turn_phase *phase)
{
    if (phase->state == TURN_PHASE_NONE)
        return;
    bl_json_write_object(writer);
    bl_json_put_string(writer, "phase", name);
    row_put_time(writer, "started_at", phase->started_wall_ns);
    row_put_time(writer, "ended_at", phase->ended_wall_ns);
    bl_json_write_key(writer, BL_TEXT("ms"));
    if (phase->ended_wall_ns != 0 && phase->started_wall_ns != 0)
        bl_json_write_int64(writer, (phase->ended_wall_ns - phase->started_wall_ns) /
                                        (int64_t)BL_NS_PER_MS);
    else
        bl_json_write_null(writer);
    bl_json_put_string(writer, "outcome", bl_names_get(&turn_phase_states, phase->state));
    bl_json_write_end(writer);
}

static void write_player(struct bl_json_writer *writer, const struct task_turn *turn)
{
    bl_json_write_key(writer, BL_TEXT("player"));
    if (turn->player_phase.state != TURN_PHASE_ENDED &&
        turn->player_phase.state != TURN_PHASE_CARRIED) {
        bl_json_write_null(writer);
        return;
    }
    bl_json_write_object(writer);
    bl_json_put_text(writer, "text", turn->player_text);
    bl_json_put_json(writer, "result",
                     turn->result.given ? turn->result.json : (struct bl_text){0});
    bl_json_write_key(writer, BL_TEXT("exit_code"));
    bl_json_write_int64(writer, turn->player_exit);
    bl_json_put_boolean(writer, "changed", turn->changed);
    bl_json_put_string(writer, "head_commit", turn->head);
    bl_json_write_end(writer);
}

void task_turn_write(struct bl_json_writer *writer, const char *task, const struct task_turn *turn)
{
    bool verified = turn->verify_phase.state == TURN_PHASE_ENDED ||
                    turn->verify_phase.state == TURN_PHASE_CARRIED;
    bl_json_write_object(writer);
    bl_json_put_string(writer, "task", task);
    bl_json_put_uint64(writer, "attempt", turn->attempt);
    bl_json_put_uint64(writer, "turn", turn->number);
    bl_json_put_boolean(writer, "merge", turn->merge);
    row_put_time(writer, "started_at", turn->started_wall_ns);
    row_put_time(writer, "ended_at", turn->ended_wall_ns);
    bl_json_put_boolean(writer, "counted", turn->counted);
    bl_json_put_string(writer, "decision", turn->decision);
    bl_json_write_key(writer, BL_TEXT("phases"));
    bl_json_write_array(writer);
    write_phase(writer, "player", &turn->player_phase);
    write_phase(writer, "verify", &turn->verify_phase);
    write_phase(writer, "coach", &turn->coach_phase);
    bl_json_write_end(writer);
    write_player(writer, turn);
    bl_json_write_key(writer, BL_TEXT("verify"));
    if (verified)
        verify_write(writer, &turn->verify);
    else
        bl_json_write_null(writer);
    bl_json_put_json(writer, "verdict",
                     turn->verdict_valid ? turn->verdict.json : (struct bl_text){0});
    bl_json_write_key(writer, BL_TEXT("issues"));
    issues_write(writer, &turn->issues);
    row_put_text(writer, "feedback", turn->feedback);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_record_write(writer, &bl_spent_record, &turn->spent);
    bl_json_write_end(writer);
}

/* ---- Taking over ----------------------------------------------------------------------------- */

static bool phase_ended(const struct bl_json *value, const char *name)
{
    const struct bl_json *phases = bl_json_get(value, BL_TEXT("phases"));
    for (size_t i = 0; i < bl_json_size(phases); i++) {
        const struct bl_json *phase = bl_json_at(phases, i);
        struct bl_text outcome = bl_json_text(bl_json_get(phase, BL_TEXT("outcome")));
        if (bl_text_equal(bl_json_text(bl_json_get(phase, BL_TEXT("phase"))), bl_text_from(name)))
            return bl_text_equal(outcome, BL_TEXT("ended")) ||
                   bl_text_equal(outcome, BL_TEXT("carried"));
    }
    return false;
}

/* Only a turn that did not come to its end leaves something: of one that did, the feedback counts.
 */
static bool run_turn_cut_off(const struct bl_json *value)
{
    struct bl_text decision = bl_json_text(bl_json_get(value, BL_TEXT("decision")));
    return decision.size == 0 || bl_text_equal(decision, BL_TEXT("cancelled")) ||
           bl_text_equal(decision, BL_TEXT("timeout")) ||
           bl_text_equal(decision, BL_TEXT("coach_error"));
}

void task_turn_carry(struct task_turn *turn, const struct bl_json *value)
{
    struct bl_arena *arena = &turn->arena;
    const struct bl_json *player = bl_json_get(value, BL_TEXT("player"));
    int64_t exit_code = 0;
    if (!run_turn_cut_off(value) || !phase_ended(value, "player") ||
        !bl_json_is(player, BL_JSON_OBJECT))
        return;
    turn->player_phase.state = TURN_PHASE_CARRIED;
    turn->player_text = bl_arena_text(arena, bl_json_text(bl_json_get(player, BL_TEXT("text"))));
    const struct bl_json *result = bl_json_get(player, BL_TEXT("result"));
    struct bl_text problem;
    if (bl_json_is(result, BL_JSON_OBJECT))
        player_result_parse(arena, bl_json_value_text(arena, result), &turn->result, &problem);
    bl_json_int64(bl_json_get(player, BL_TEXT("exit_code")), &exit_code);
    turn->player_exit = (int)exit_code;
    turn->changed = bl_json_boolean(bl_json_get(player, BL_TEXT("changed")), false);
    struct bl_text head = bl_json_text(bl_json_get(player, BL_TEXT("head_commit")));
    if (head.size < sizeof turn->head)
        memcpy(turn->head, head.data, head.size);
    issues_read(arena, bl_json_get(value, BL_TEXT("issues")), &turn->issues);
    if (!phase_ended(value, "verify"))
        return;
    turn->verify_phase.state = TURN_PHASE_CARRIED;
    verify_read(arena, bl_json_get(value, BL_TEXT("verify")), &turn->verify);
}
