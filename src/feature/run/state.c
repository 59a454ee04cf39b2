#include "feature/parts.h"

static const char *const state_names[] = {
#define STATE_NAME(name, text) [name] = (text),
    BL_TASK_STATE_TABLE(STATE_NAME)
#undef STATE_NAME
};

static const struct {
    const char *name;
    enum bl_task_state state;
} decisions[] = {
#define DECISION(name, text, state) [name] = {text, state},
    BL_TASK_DECISION_TABLE(DECISION)
#undef DECISION
};

const char *bl_task_state_name(enum bl_task_state state)
{
    return state_names[state];
}

bool bl_task_state_parse(struct bl_text name, enum bl_task_state *ret_state)
{
    for (size_t i = 0; i < BL_COUNT(state_names); i++) {
        if (!bl_text_equal(name, bl_text_from(state_names[i])))
            continue;
        *ret_state = (enum bl_task_state)i;
        return true;
    }
    return false;
}

bool bl_task_state_final(enum bl_task_state state)
{
    return state >= BL_TASK_COMPLETED;
}

const char *bl_task_decision_name(enum bl_task_decision decision)
{
    return decision == BL_DECISION_NONE ? NULL : decisions[decision].name;
}

bool bl_task_decision_parse(struct bl_text name, enum bl_task_decision *ret_decision)
{
    for (size_t i = BL_DECISION_NONE + 1; i < BL_COUNT(decisions); i++) {
        if (!bl_text_equal(name, bl_text_from(decisions[i].name)))
            continue;
        *ret_decision = (enum bl_task_decision)i;
        return true;
    }
    return false;
}

enum bl_task_state bl_task_decision_state(enum bl_task_decision decision)
{
    return decisions[decision].state;
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
