/* Notifications of cells by `notify`: messages for the model. During a turn they wait with the
 * injected messages; but they are not a prompt, so between turns they wait here, and are added to
 * the next prompt. */
#include "parts.h"

struct agent_notice {
    struct bl_list link;
    enum {
        NOTICE_WAITS,
        NOTICE_POSTED,   /* with the injected messages, or taken from there by the turn */
        NOTICE_PROMPTED, /* in the prompt of the turn */
    } where;
    char id[BL_ID_SIZE]; /* of its message */
    char cell_id[BL_CELL_ID_SIZE];
    uint64_t seq;
    struct bl_text text; /* behind the struct */
};

static struct agent_notice *notice_of(struct bl_list *link)
{
    return BL_CONTAINER(link, struct agent_notice, link);
}

static void notices_forget(struct agent_notice *notice)
{
    bl_list_remove(&notice->link);
    bl_free(notice);
}

static void notices_post(struct bl_agent *agent, struct agent_notice *notice)
{
    if (bl_inbox_put(&agent->inbox, notice->text, notice->id) == 0)
        notice->where = NOTICE_POSTED;
}

void agent_notice_take(void *context, const char *cell_id, uint64_t seq, struct bl_text text)
{
    struct bl_agent *agent = context;
    struct bl_buffer whole;

    /* The model must know that this is not from the user. */
    bl_buffer_init(&whole, SIZE_MAX);
    bl_buffer_printf(&whole, "[cell %s] ", cell_id);
    bl_buffer_append(&whole, text);
    struct agent_notice *notice = bl_zalloc(sizeof *notice + whole.size);
    char *bytes = (char *)(notice + 1);
    memcpy(bytes, whole.data, whole.size);
    notice->text = (struct bl_text){bytes, whole.size};
    bl_buffer_done(&whole);
    bl_text_into(notice->cell_id, sizeof notice->cell_id, cell_id);
    notice->seq = seq;
    bl_list_push_back(&agent->cells.notices, &notice->link);
    if (agent->cells.in_turn)
        notices_post(agent, notice);
}

/* The model has the notice: its cell may send more. */
static void notices_acknowledge(struct bl_agent *agent, const struct agent_notice *notice)
{
    if (agent->cells.session != NULL)
        bl_cell_notify_ack(agent->cells.session, notice->cell_id, notice->seq);
}

struct bl_text agent_notices_prompt(struct bl_agent *agent, struct bl_arena *arena,
                                    struct bl_text prompt)
{
    BL_AUTO_BUFFER(whole, SIZE_MAX);

    if (bl_list_empty(&agent->cells.notices))
        return prompt;
    bl_buffer_append(&whole, prompt);
    BL_LIST_EACH (link, &agent->cells.notices) {
        struct agent_notice *notice = notice_of(link);
        notice->where = NOTICE_PROMPTED;
        bl_id_make(notice->id, "msg_");
        bl_buffer_append(&whole, BL_TEXT("\n\n"));
        bl_buffer_append(&whole, notice->text);
    }
    if (whole.size > prompt.size)
        prompt = bl_arena_text(arena, bl_buffer_text(&whole));
    return prompt;
}

/* The first turn of the prompt has begun: the notices are in it. Later turns take waiting ones as
 * they come. */
static void notices_begin_turn(struct bl_agent *agent)
{
    BL_LIST_EACH_SAFE (link, &agent->cells.notices) {
        struct agent_notice *notice = notice_of(link);
        if (notice->where == NOTICE_WAITS)
            notices_post(agent, notice);
        if (notice->where != NOTICE_PROMPTED)
            continue;
        struct bl_event event = {.type = BL_EVENT_MESSAGE_INJECTED,
                                 .id = bl_text_from(notice->id),
                                 .text = notice->text,
                                 .status = "prompt"};
        notices_acknowledge(agent, notice);
        bl_engine_tell(&agent->engine, &event);
    }
}

/* Removes the notice from the messages that no turn has taken. */
static bool take_out(struct bl_agent *agent, const struct agent_notice *notice)
{
    BL_LIST_EACH (link, &agent->inbox.waiting) {
        struct bl_inbox_message *message = BL_CONTAINER(link, struct bl_inbox_message, link);
        if (strcmp(message->id, notice->id) != 0)
            continue;
        bl_list_remove(&message->link);
        bl_free(message);
        return true;
    }
    return false;
}

/* After a committed turn, the notices that it took are delivered; the others wait, so that they do
 * not become a prompt of their own. */
static void notices_end_turn(struct bl_agent *agent, bool committed)
{
    BL_LIST_EACH_SAFE (link, &agent->cells.notices) {
        struct agent_notice *notice = notice_of(link);
        if (notice->where == NOTICE_PROMPTED && !committed)
            notice->where = NOTICE_WAITS;
        else if (notice->where == NOTICE_PROMPTED)
            notices_forget(notice);
        else if (notice->where == NOTICE_POSTED && take_out(agent, notice))
            notice->where = NOTICE_WAITS;
        else if (notice->where == NOTICE_POSTED && committed)
            notices_forget(notice);
    }
}

void agent_notices_follow(struct bl_agent *agent, const struct bl_event *event, bool committed)
{
    if (event->type == BL_EVENT_TURN_STARTED)
        notices_begin_turn(agent);
    if (event->type == BL_EVENT_TURN_ENDED)
        notices_end_turn(agent, committed);
    if (event->type != BL_EVENT_MESSAGE_INJECTED)
        return;
    BL_LIST_EACH (link, &agent->cells.notices) {
        const struct agent_notice *notice = notice_of(link);
        if (notice->where == NOTICE_POSTED && bl_text_equal(bl_text_from(notice->id), event->id))
            notices_acknowledge(agent, notice);
    }
}

void agent_notices_sweep(struct bl_agent *agent)
{
    BL_LIST_EACH (link, &agent->cells.notices) {
        struct agent_notice *notice = notice_of(link);
        /* A turn that left no trace has put back what it took. */
        if (notice->where == NOTICE_POSTED)
            take_out(agent, notice);
        notice->where = NOTICE_WAITS;
    }
}

void agent_notices_done(struct bl_agent *agent)
{
    while (!bl_list_empty(&agent->cells.notices))
        notices_forget(notice_of(agent->cells.notices.next));
}
