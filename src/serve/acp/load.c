/* Sends the history of a session again. */
#include <stdio.h>

#include "acp.h"

/* Returns the result of a call in the later messages, or NULL. */
static const struct bl_block *find_result(const struct bl_list *messages,
                                          const struct bl_message *from, struct bl_text id)
{
    for (const struct bl_list *link = from->link.next; link != messages; link = link->next) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        BL_LIST_EACH (inner, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(inner, struct bl_block, link);
            if (block->type == BL_BLOCK_RESULT && bl_text_equal(block->id, id))
                return block;
        }
    }
    return NULL;
}

static void tell_call(struct acp_session *session, const struct bl_block *call,
                      const struct bl_block *result)
{
    struct acp_update update;
    char id[160];

    acp_call_id(session, NULL, call->id, id, sizeof id);
    acp_update_begin(&update, session, "tool_call");
    bl_json_put_string(&update.writer, "toolCallId", id);
    bl_json_put_string(&update.writer, "status",
                       result != NULL && !result->is_error ? "completed" : "failed");
    acp_call_write(&update.writer, session, call->name, call->input);
    if (result != NULL) {
        bl_json_put_text(&update.writer, "rawOutput", result->text);
        /* An edit has its diff as content. */
        if (strcmp(acp_tool_kind(call->name), "edit") != 0)
            acp_write_text_content(&update.writer, result->text);
    }
    acp_update_send(&update, session);
}

static void tell_image(struct acp_session *session, const char *message_id,
                       const struct bl_block *image)
{
    struct acp_update update;

    acp_update_begin(&update, session, "user_message_chunk");
    bl_json_put_string(&update.writer, "messageId", message_id);
    bl_json_write_key(&update.writer, BL_TEXT("content"));
    bl_json_write_object(&update.writer);
    bl_json_put_string(&update.writer, "type", "image");
    bl_json_put_text(&update.writer, "mimeType", image->name);
    bl_json_put_text(&update.writer, "data", image->text);
    bl_json_write_end(&update.writer);
    acp_update_send(&update, session);
}

static void tell_message(struct acp_session *session, const struct bl_list *messages,
                         const struct bl_message *message)
{
    char id[BL_ID_SIZE];

    snprintf(id, sizeof id, "msg_%llu", (unsigned long long)++session->messages);
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        switch (block->type) {
        case BL_BLOCK_TEXT:
            acp_tell_text(session, message->role == BL_ROLE_USER ? ACP_USER : ACP_AGENT, id,
                          block->text);
            break;
        case BL_BLOCK_THINKING: acp_tell_text(session, ACP_THOUGHT, id, block->text); break;
        case BL_BLOCK_CALL:
            tell_call(session, block, find_result(messages, message, block->id));
            break;
        case BL_BLOCK_IMAGE:
            /* Images of a call's result belong to the call. */
            if (block->id.size == 0)
                tell_image(session, id, block);
            break;
        case BL_BLOCK_RESULT: break;
        }
    }
}

int acp_replay(struct acp_session *session, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct bl_list turns;

    bl_list_init(&turns);
    int code =
        bl_store_turns(session->acp->options->runtime->store, &arena, session->id, &turns, error);
    if (code == 0) {
        BL_LIST_EACH (link, &turns) {
            const struct bl_store_turn *turn = BL_CONTAINER(link, struct bl_store_turn, link);
            struct bl_list messages;
            bl_list_init(&messages);
            bl_messages_read(&arena, turn->messages, &messages);
            BL_LIST_EACH (inner, &messages)
                tell_message(session, &messages, BL_CONTAINER(inner, struct bl_message, link));
            if (code == 0)
                code = bl_check();
        }
    }
    return code;
}
