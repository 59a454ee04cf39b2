/* Messages to a running agent, and the request to stop after this step. */
#include "parts.h"

int bl_agent_inject(struct bl_agent *agent, struct bl_text text, char *ret_id)
{
    return bl_inbox_put(&agent->inbox, text, ret_id);
}

static int agent_tell_finish(void *argument)
{
    struct bl_agent *agent = argument;

    bl_engine_tell(&agent->engine, &(struct bl_event){.type = BL_EVENT_FINISH_REQUESTED,
                                                      .text = bl_text_from(agent->finish.origin)});
    return 0;
}

int bl_agent_finish(struct bl_agent *agent, const char *origin)
{
    if (agent->prompt == NULL)
        return BL_ENOENT;
    if (agent->finish.asked)
        return 0;
    bl_text_into(agent->finish.origin, sizeof agent->finish.origin, origin);
    agent->finish.asked = true;
    agent->activity.finishing = true;
    /* Emitting may wait, and the caller must not. Without memory for a stack, no event is
     * emitted. */
    bl_nursery_spawn(&agent->nursery, NULL, "finish", agent_tell_finish, agent, NULL);
    return 0;
}

struct bl_text bl_agent_take_back(struct bl_agent *agent, struct bl_arena *arena)
{
    return bl_inbox_take_all(&agent->inbox, arena);
}

const struct bl_list *bl_agent_waiting(const struct bl_agent *agent)
{
    return &agent->inbox.waiting;
}

void agent_list_undelivered(const struct bl_agent *agent, struct bl_arena *arena,
                            struct bl_list *ret_list)
{
    BL_LIST_EACH (link, &agent->inbox.waiting) {
        const struct bl_inbox_message *message = BL_CONTAINER(link, struct bl_inbox_message, link);
        struct bl_undelivered *listed = bl_arena_alloc(arena, sizeof *listed);
        listed->id = bl_arena_text(arena, bl_text_from(message->id)).data;
        listed->text = bl_arena_text(arena, message->text);
        bl_list_push_back(ret_list, &listed->link);
    }
}
