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

const char *bl_task_state_name(enum bl_task_state state)
{
    return bl_names_get(&bl_task_states, state);
}

bool bl_task_state_final(enum bl_task_state state)
{
    return state >= BL_TASK_COMPLETED;
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

const char *bl_on_failure_name(enum bl_on_failure policy)
{
    static const char *const names[] = {
        [BL_ON_FAILURE_WAVE_END] = "wave_end",
        [BL_ON_FAILURE_CANCEL_SIBLINGS] = "cancel_siblings",
        [BL_ON_FAILURE_CONTINUE] = "continue",
    };
    return names[policy];
}
