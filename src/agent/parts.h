/* What the files of this room share. */
#ifndef BELAY_AGENT_PARTS_H
#define BELAY_AGENT_PARTS_H

#include <belay/agent.h>

/* Agents below agents: the root is at 0. */
#define AGENT_DEPTH_MAX 4u

/* A tool call that others can see and stop. */
struct agent_call {
    struct bl_list link;
    struct bl_activity activity;
    struct bl_buffer receipt; /* of a stop that was for this call alone */
};

struct bl_agent {
    struct bl_agent_options options;
    struct bl_agent *root;
    struct bl_agent *above; /* NULL: this is the root */
    unsigned depth;
    const struct bl_persona *persona; /* NULL: the root */
    char id[BL_ID_SIZE];              /* of a sub-agent; the root's run */
    struct bl_arena arena;
    struct bl_model model;
    void *model_handle; /* of the model source; NULL: the caller's model */
    bool model_opened;
    struct bl_engine engine;
    struct bl_listener listener; /* ours, before the caller's */
    struct bl_session session;
    struct bl_store_session *held;
    struct bl_journal journal;
    struct bl_inbox inbox;
    struct bl_budget *budget_above;
    struct bl_scope shield;      /* as long as the session is held, whatever stops a prompt */
    struct bl_nursery nursery;   /* in it: who renews the lease, jobs in the background */
    struct bl_lock asking;       /* of the root: one question at a time */
    struct bl_buffer stop_event; /* of the root: for its hooks, once the turn has ended */
    bool prompted;
    struct bl_scope *prompt;  /* of the prompt under way; NULL: none is */
    uint64_t turns_completed; /* by all prompts so far, as the next two */
    struct bl_usage usage;
    struct bl_spent spent;
    struct bl_activity activity;
    struct bl_list calls; /* struct agent_call, at work */
    uint64_t tokens;      /* of the model's calls before this one */
    /* What the model is offered. */
    struct bl_tools tools;
    struct bl_tool_offer *offers;
    struct bl_json_schema *task_schema;
};

/* ---- agent.c --------------------------------------------------------------------------------- */

/* What bl_agent_open and bl_agent_prompt do, for every agent. `unit` (NULL: none) stands for the
 * agent in the receipt above. */
int agent_open(struct bl_agent *agent, struct bl_error *error);
void agent_prompt(struct bl_agent *agent, const struct bl_run_options *run, struct bl_scope *scope,
                  struct bl_unit *unit, struct bl_arena *arena, struct bl_run_result *ret_result);
void agent_close(struct bl_agent *agent);

/* ---- tools.c --------------------------------------------------------------------------------- */

/* Makes the table of tools of an agent, and takes it apart. */
int agent_tools_open(struct bl_agent *agent, struct bl_error *error);
void agent_tools_close(struct bl_agent *agent);
/* Hooks that are not about a tool, told by the events of a turn. */
void agent_hooks_follow(struct bl_agent *agent, const struct bl_event *event);

/* ---- task.c ---------------------------------------------------------------------------------- */

/* The schema of `task`, and its description with the personas; in the arena. */
struct bl_text task_schema_text(struct bl_arena *arena, const struct bl_list *personas);
struct bl_text task_description(struct bl_arena *arena, const struct bl_list *personas);
/* The tool `task`: a sub-agent from its start to its end, in the running fiber. */
int agent_task(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error);

#endif
