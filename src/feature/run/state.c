#include <assert.h>

#include "feature/parts.h"

static const char *const state_names[] = {
#define STATE_NAME(name, text) [name] = (text),
    BL_TASK_STATE_TABLE(STATE_NAME)
#undef STATE_NAME
};
const struct bl_names bl_task_states = BL_NAMES(state_names);

static const char *const decision_names[] = {
#define DECISION_NAME(name, text, state) [name] = (text),
    BL_TASK_DECISION_TABLE(DECISION_NAME)
#undef DECISION_NAME
};
const struct bl_names bl_task_decisions = BL_NAMES(decision_names);

static const char *const phase_names[] = {
#define PHASE_NAME(name, text) [name] = (text),
    BL_TASK_PHASE_TABLE(PHASE_NAME)
#undef PHASE_NAME
};
const struct bl_names bl_task_phases = BL_NAMES(phase_names);

static const char *const verified_names[] = {
#define VERIFIED_NAME(name, text) [name] = (text),
    BL_VERIFIED_TABLE(VERIFIED_NAME)
#undef VERIFIED_NAME
};
const struct bl_names bl_verified_values = BL_NAMES(verified_names);

static const char *const feature_state_names[] = {
    "pending", "running",   "draining",  "paused",      "completed",
    "failed",  "cancelled", "timed_out", "interrupted",
};
const struct bl_names feature_states = BL_NAMES(feature_state_names);

static const char *const wave_state_names[] = {
#define WAVE_NAME(name, text) [name] = (text),
    WAVE_STATE_TABLE(WAVE_NAME)
#undef WAVE_NAME
};
const struct bl_names wave_states = BL_NAMES(wave_state_names);

const char *bl_task_state_name(enum bl_task_state state)
{
    return bl_names_get(&bl_task_states, state);
}

bool bl_task_state_final(enum bl_task_state state)
{
    return state >= BL_TASK_COMPLETED;
}

/* Changes the state, and asserts that the transition is allowed. A task that has ended can only
 * become pending again; one that is stopping cannot run again before that. */
void task_row_move(struct bl_task_row *row, enum bl_task_state to)
{
    enum {
        ENDED = BL_TO(BL_TASK_COMPLETED) | BL_TO(BL_TASK_FAILED) | BL_TO(BL_TASK_TIMED_OUT) |
                BL_TO(BL_TASK_CANCELLED) | BL_TO(BL_TASK_BLOCKED) | BL_TO(BL_TASK_INTERRUPTED) |
                BL_TO(BL_TASK_SKIPPED) | BL_TO(BL_TASK_DEFERRED)
    };
    static const unsigned moves[] = {
        [BL_TASK_PENDING] = BL_TO(BL_TASK_QUEUED) | ENDED,
        [BL_TASK_QUEUED] =
            BL_TO(BL_TASK_PENDING) | BL_TO(BL_TASK_RUNNING) | BL_TO(BL_TASK_APPROVED) | ENDED,
        [BL_TASK_RUNNING] = BL_TO(BL_TASK_STOPPING) | BL_TO(BL_TASK_APPROVED) | ENDED,
        [BL_TASK_STOPPING] = BL_TO(BL_TASK_APPROVED) | ENDED,
        [BL_TASK_APPROVED] = BL_TO(BL_TASK_RUNNING) | ENDED,
    };
    assert(bl_task_state_final(row->state) ? to == BL_TASK_PENDING
                                           : BL_MAY_MOVE(moves, row->state, to));
    BL_LOG(BL_ROOM_FEATURE, BL_LOG_DEBUG, "task", BL_LOG_STRING("task", row->id),
           BL_LOG_STRING("from", bl_task_state_name(row->state)),
           BL_LOG_STRING("to", bl_task_state_name(to)), BL_LOG_INTEGER("attempt", row->attempt),
           BL_LOG_INTEGER("turn", row->turn));
    row->state = to;
}

const char *bl_task_decision_name(enum bl_task_decision decision)
{
    return bl_names_get(&bl_task_decisions, decision);
}

enum bl_task_state bl_task_decision_state(enum bl_task_decision decision)
{
    static const enum bl_task_state states[] = {
#define DECISION_STATE(name, text, state) [name] = (state),
        BL_TASK_DECISION_TABLE(DECISION_STATE)
#undef DECISION_STATE
    };
    return states[decision];
}

const char *bl_task_phase_name(enum bl_task_phase phase)
{
    return bl_names_get(&bl_task_phases, phase);
}

const char *bl_verified_name(enum bl_verified verified)
{
    return bl_names_get(&bl_verified_values, verified);
}
