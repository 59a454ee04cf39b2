/* Permission mode plan: nothing is changed before the user has approved a plan. The permissions
 * refuse changes; this file informs the model of the mode, and lets it submit its plan. */
#include <stdio.h>

#include "parts.h"

#define PLAN_SIZE_MAX (64 * 1024)

#define BL_RECORD_STRUCT struct agent_plan_input
static const struct bl_member plan_members[] = {
    BL_MEMBER_TEXT("plan", plan, .least = 1, .most = PLAN_SIZE_MAX,
                   .about = "The plan, in Markdown: what to change and where (path:line), in which "
                            "order, and how to verify it."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record agent_plan_input =
    BL_RECORD("input of plan", struct agent_plan_input, plan_members, .closed = true);

static const char plan_alone[] =
    "# Plan mode\n"
    "\n"
    "The user wants a plan; do not change anything yet. Read-only tools work as usual; calls that "
    "change files or run commands are refused, and there is no way around that. Find out what you "
    "need to know, and write the plan as your answer.\n";

static const char plan_with_tool[] =
    "# Plan mode\n"
    "\n"
    "The user wants to approve a plan before anything is changed. Read-only tools work as usual; "
    "calls that change files or run commands are refused until then, and there is no way around "
    "that. Find out what you need to know, then submit the plan by calling `plan`: the user sees "
    "it and approves it, or asks for changes. Do not ask in text whether the plan is good. If a "
    "question needs no changes, simply answer it.\n";

bool agent_plan_mode(const struct bl_agent *agent)
{
    const struct bl_permissions *permissions = agent->options.permissions;

    return permissions != NULL && bl_permissions_mode(permissions) == BL_PERMISSION_PLAN;
}

bool agent_plan_can_be_approved(const struct bl_agent *agent)
{
    return agent->above == NULL && agent->options.asker != NULL;
}

struct bl_text agent_plan_system(struct bl_agent *agent)
{
    const char *text = agent_plan_can_be_approved(agent) ? plan_with_tool : plan_alone;

    if (!agent_plan_mode(agent))
        return agent->system;
    if (agent->system_planning.size == 0)
        agent->system_planning =
            bl_arena_printf(&agent->arena, BL_TEXT_FORMAT "%s%s", BL_TEXT_ARG(agent->system),
                            agent->system.size > 0 ? "\n\n" : "", text);
    return agent->system_planning;
}

struct bl_tool_offer plan_offer(struct bl_arena *arena)
{
    return (struct bl_tool_offer){
        .name = BL_TOOL_PLAN,
        .description =
            "Submits a plan to the user, in plan mode, before anything is changed. The user "
            "approves it, and you continue with the work; or asks for changes, and you submit "
            "another one.",
        .schema = bl_record_input_schema(arena, &agent_plan_input),
    };
}

enum bl_permit agent_plan_permit(const struct bl_agent *agent, char *ret_reason, size_t reason_size)
{
    if (!agent_plan_mode(agent))
        return BL_PERMIT_ALLOWED;
    snprintf(ret_reason, reason_size, "proceed with this plan?");
    return BL_PERMIT_ASK;
}

void agent_plan(const struct bl_agent *agent, const struct bl_tool_call *call,
                struct bl_tool_result *ret_result)
{
    const char *mode = bl_permission_mode_name(bl_permissions_mode(agent->options.permissions));

    *ret_result = (struct bl_tool_result){
        .text = bl_arena_printf(call->arena,
                                "The user approved the plan. The permission mode is now %s: "
                                "continue with the work.",
                                mode),
    };
}
