/* Inputs of the agent's own tools, for the rooms that display their calls; as in tool/tool.h. */
#ifndef BELAY_AGENT_AGENT_H
#define BELAY_AGENT_AGENT_H

#include <belay/record.h>

struct agent_exec_input {
    struct bl_text source;
    uint64_t yield_ms;
    uint64_t output_tokens_max;
    uint64_t timeout_ms; /* 0 if unset */
    bool background;
};

struct agent_wait_input {
    struct bl_text cell_id;
    uint64_t yield_ms;
    uint64_t output_tokens_max;
    bool terminate;
};

struct agent_task_input {
    struct bl_text agent;
    struct bl_text prompt;
};

struct agent_plan_input {
    struct bl_text plan; /* Markdown */
};

extern const struct bl_record agent_exec_input, agent_wait_input, agent_task_input,
    agent_plan_input;

#endif
