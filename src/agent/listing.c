/* What lists show of an agent, also between its prompts; and its background commands. */
#include <stdio.h>

#include "parts.h"

/* Starts a new call of the model: it adds to the usage of the calls so far. */
void agent_usage_base(struct bl_agent *agent)
{
    agent->tokens = agent->activity.tokens;
    agent->cost_usd = agent->activity.cost_usd;
}

/* Follows a usage event, which is a snapshot of one call. */
void agent_usage_follow(struct bl_agent *agent, const struct bl_event *event)
{
    struct bl_activity *activity = &agent->activity;
    const struct bl_piece *piece = event->piece;
    double cost = -1;

    if (piece != NULL && piece->cost_known)
        cost = piece->cost_usd;
    else if (agent->model.cost_usd != NULL)
        cost = agent->model.cost_usd(agent->model.context, event->usage);
    activity->tokens = agent->tokens + bl_usage_total(event->usage);
    activity->priced = cost >= 0;
    if (activity->priced)
        activity->cost_usd = agent->cost_usd + cost;
}

void agent_note_prompt(struct bl_agent *agent, struct bl_text prompt)
{
    struct bl_text line = bl_utf8_title(prompt, AGENT_PROMPT_CHARACTERS);

    snprintf(agent->prompt_line, sizeof agent->prompt_line, BL_TEXT_FORMAT, BL_TEXT_ARG(line));
}

/* Returns the newest prompt of a resumed session. */
static struct bl_text listing_last_prompt(const struct bl_session *session)
{
    if (bl_list_empty(&session->turns))
        return (struct bl_text){0};
    const struct bl_turn_record *record =
        BL_CONTAINER(session->turns.previous, struct bl_turn_record, link);
    BL_LIST_EACH (link, &record->messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        BL_LIST_EACH (at, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(at, struct bl_block, link);
            if (message->role == BL_ROLE_USER && block->type == BL_BLOCK_TEXT)
                return block->text;
        }
    }
    return (struct bl_text){0};
}

/* Lists the session as long as the agent holds it, also between prompts. */
void agent_list_session(struct bl_agent *agent)
{
    if (agent->above != NULL || agent->options.activities == NULL)
        return;
    agent_note_prompt(agent, listing_last_prompt(&agent->session));
    agent->open = (struct bl_open_session){
        .id = agent->session.id,
        .directory = agent->options.session.directory,
        .prompt = agent->prompt_line,
        .opened_ns = bl_now_ns(),
        .active_ns = bl_now_ns(),
        .turns = &agent->session.turns_total,
        .spent = &agent->spent,
    };
    bl_list_push_back(&agent->options.activities->sessions, &agent->open.link);
}

/* ---- Commands in the background -------------------------------------------------------------- */

/* Stores the receipt, whatever stopped the job, before it returns. */
static void listing_job_stopped(void *context, const char *job, struct bl_text receipt, bool told)
{
    struct bl_agent *agent = context;
    const struct bl_turn_store *store = agent->engine.store;
    const struct bl_json *value;
    struct bl_receipt_row row;
    struct bl_scope shield;
    BL_AUTO_ARENA(arena);

    if (!told)
        bl_engine_tell(
            &agent->engine,
            &(struct bl_event){.type = BL_EVENT_RECEIPT, .id = bl_text_from(job), .json = receipt});
    if (bl_json_read(&arena, receipt, NULL, &value, NULL) != 0)
        return;
    bl_record_take(&arena, &bl_receipt_record, value, &row);
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    store->note(store->context, (struct bl_text){0}, row.id, receipt, NULL);
    bl_shield_end(&shield);
}

/* Ends work that outlives turns but not the session, before the end is reported. */
void agent_end_background(void *context)
{
    struct bl_agent *agent = context;

    agent_cells_end(agent);
    if (agent->above == NULL && agent->options.toolbox != NULL)
        bl_toolbox_end(agent->options.toolbox);
}

void agent_begin_background(struct bl_agent *agent)
{
    if (agent->above != NULL || agent->options.toolbox == NULL)
        return;
    bl_toolbox_begin(agent->options.toolbox, &agent->nursery, agent->options.activities,
                     agent->session.id);
    bl_toolbox_on_stopped(agent->options.toolbox, listing_job_stopped, agent);
}
