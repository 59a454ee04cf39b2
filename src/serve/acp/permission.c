/* Asks the client whether a call may run. */
#include "acp.h"

static const struct {
    const char *id;
    const char *name;
    bool always;
} choices[] = {
    {"allow_once", "Allow once", false},
    {"allow_always", "Allow always", true},
    {"reject_once", "Reject once", false},
    {"reject_always", "Reject always", true},
};

static void acp_permission_write_question(struct bl_json_writer *writer,
                                          struct acp_session *session,
                                          const struct bl_question *question)
{
    struct acp_call *call = NULL;

    BL_LIST_EACH (link, &session->calls) {
        struct acp_call *known = BL_CONTAINER(link, struct acp_call, link);
        if (strcmp(known->call, question->id) == 0 &&
            strcmp(known->agent, question->agent != NULL ? question->agent : "") == 0)
            call = known;
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "sessionId", session->id);
    bl_json_write_key(writer, BL_TEXT("toolCall"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "toolCallId", call != NULL ? call->id : question->id);
    bl_json_put_text(writer, "title", question->text);
    bl_json_put_string(writer, "kind", acp_tool_kind(bl_text_from(question->tool)));
    bl_json_put_string(writer, "status", "pending");
    if (strcmp(question->tool, BL_TOOL_PLAN) == 0)
        acp_write_text_content(writer, bl_json_text(bl_json_get(question->input, BL_TEXT("plan"))));
    bl_json_write_key(writer, BL_TEXT("rawInput"));
    bl_json_write_value(writer, question->input);
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("options"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < BL_COUNT(choices); i++) {
        /* Without a rule, the choice cannot be remembered. */
        if (choices[i].always && question->rule.size == 0)
            continue;
        bl_json_write_object(writer);
        bl_json_put_string(writer, "optionId", choices[i].id);
        bl_json_put_string(writer, "name", choices[i].name);
        bl_json_put_string(writer, "kind", choices[i].id);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

/* Anything but an explicit permission is a refusal. */
static enum bl_reply acp_permission_read_reply(struct acp_session *session,
                                               const struct bl_question *question,
                                               const struct bl_json *result)
{
    struct bl_text outcome = bl_json_text(bl_json_pointer(result, BL_TEXT("/outcome/outcome")));
    struct bl_text choice = bl_json_text(bl_json_pointer(result, BL_TEXT("/outcome/optionId")));
    bool remembered = question->rule.size > 0;

    if (!bl_text_equal(outcome, BL_TEXT("selected")))
        return BL_REPLY_NO;
    if (bl_text_equal(choice, BL_TEXT("allow_once")))
        return BL_REPLY_YES;
    if (bl_text_equal(choice, BL_TEXT("allow_always")) && remembered)
        return BL_REPLY_ALWAYS;
    if (bl_text_equal(choice, BL_TEXT("reject_always")) && remembered)
        bl_permissions_add(session->workspace->permissions, false, question->rule.data, NULL);
    return BL_REPLY_NO;
}

int acp_ask(void *context, const struct bl_question *question, struct bl_answer *ret_answer)
{
    struct acp_session *session = context;
    const struct bl_json *result = NULL;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(params, SIZE_MAX);
    BL_AUTO_ARENA(arena);

    bl_json_writer_init(&writer, &params);
    acp_permission_write_question(&writer, session, question);
    int code = bl_rpc_ask(session->acp->rpc, "session/request_permission", bl_buffer_text(&params),
                          &arena, &result, NULL, NULL);
    ret_answer->reply =
        code == 0 ? acp_permission_read_reply(session, question, result) : BL_REPLY_NO;
    /* An approved plan ends the plan mode; later calls are asked about. */
    if (ret_answer->reply != BL_REPLY_NO && strcmp(question->tool, BL_TOOL_PLAN) == 0)
        acp_config_change_mode(session, BL_PERMISSION_ASK);
    return code == BL_ECANCELED || code == BL_ETIMEDOUT ? code : 0;
}
