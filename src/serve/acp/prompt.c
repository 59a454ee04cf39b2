/* Prompts, from the request to the answer, and everything that stops them.
 *
 * A prompt is in its session's list from the moment it is read until its answer is queued. It has a
 * scope of its own, which is stopped by a cancel, by the end of its session or by the client's
 * disconnection, each with its own origin, so that the receipt says which. */
#include <stdio.h>

#include "acp.h"

#define FLUSH_NS    (100 * BL_NS_PER_MS)
#define TURN_NS_MAX (3600 * BL_NS_PER_S)

/* ---- Stops ----------------------------------------------------------------------------------- */

/* Returns whether it is the client's first cancel. A cancel after the claim is late, and stops
 * nothing. */
static bool cancel_prompt(struct acp_prompt *prompt)
{
    if (prompt->cancelled)
        return false;
    prompt->cancelled = true;
    bl_scope_stop(&prompt->scope, BL_STOP_USER, ACP_ORIGIN);
    return true;
}

void acp_cancel_session(struct acp_session *session)
{
    bool first = false;

    BL_LIST_EACH (link, &session->prompts)
        first = cancel_prompt(BL_CONTAINER(link, struct acp_prompt, link)) || first;
    if (!first && !bl_list_empty(&session->prompts))
        bl_toolbox_hurry(session->workspace->toolbox);
}

void acp_cancel_call(struct acp *acp, struct bl_rpc_call *call)
{
    BL_LIST_EACH (outer, &acp->sessions) {
        struct acp_session *session = BL_CONTAINER(outer, struct acp_session, link);
        BL_LIST_EACH (link, &session->prompts) {
            struct acp_prompt *prompt = BL_CONTAINER(link, struct acp_prompt, link);
            if (prompt->call != call)
                continue;
            if (!cancel_prompt(prompt))
                bl_toolbox_hurry(session->workspace->toolbox);
            return;
        }
    }
    bl_scope_stop(bl_rpc_call_scope(call), BL_STOP_USER, ACP_ORIGIN);
}

void acp_stop_session(struct acp_session *session, enum bl_stop_reason reason, const char *origin)
{
    BL_LIST_EACH (link, &session->prompts)
        bl_scope_stop(&BL_CONTAINER(link, struct acp_prompt, link)->scope, reason, origin);
    bl_toolbox_retire(session->workspace->toolbox);
}

/* Turns the client's id of a running call into its full name, which is unique. */
static void name_work(struct acp *acp, struct bl_text id, char *out, size_t size)
{
    BL_LIST_EACH (link, &acp->sessions) {
        struct acp_session *session = BL_CONTAINER(link, struct acp_session, link);
        const struct acp_call *call = acp_call_find(session, id);
        if (call == NULL)
            continue;
        snprintf(out, size, "%s/%s", call->agent[0] != '\0' ? call->agent : session->run_id,
                 call->call);
        return;
    }
    bl_text_into(out, size, id.data);
}

void acp_cancel_work(void *context, struct bl_rpc_call *call)
{
    struct acp *acp = context;
    struct bl_json_writer writer;
    struct bl_buffer receipt, out;
    struct bl_text id;
    char name[160];

    if (!acp_param_text(call, "id", &id))
        return;
    name_work(acp, id, name, sizeof name);
    bl_buffer_init(&receipt, SIZE_MAX);
    bl_buffer_init(&out, SIZE_MAX);
    int code = bl_activities_cancel(acp->options->activities, name, ACP_ORIGIN, &receipt);
    if (code == 0) {
        bl_json_writer_init(&writer, &out);
        bl_json_write_object(&writer);
        bl_json_put_json(&writer, "receipt", bl_buffer_text(&receipt));
        bl_json_write_end(&writer);
        bl_rpc_answer(call, bl_buffer_text(&out));
    } else if (code == BL_ENOENT) {
        bl_rpc_fail(call, BL_RPC_NO_RESOURCE, "no running work with that id", (struct bl_text){0});
    } else {
        bl_rpc_fail(call, BL_RPC_CANCELLED, bl_error_text(code), (struct bl_text){0});
    }
    bl_buffer_done(&out);
    bl_buffer_done(&receipt);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static const struct bl_turn_result *acp_prompt_last_turn(const struct bl_run_result *result)
{
    if (bl_list_empty(&result->turns))
        return NULL;
    return BL_CONTAINER(result->turns.previous, struct bl_turn_result, link);
}

/* Returns the protocol's word for the outcome, or NULL if it is an error. */
static const char *stop_reason(const struct acp_prompt *prompt, const struct bl_run_result *result)
{
    const struct bl_turn_result *turn = acp_prompt_last_turn(result);

    switch (result->end) {
    case BL_TURN_COMPLETED: return turn != NULL && turn->truncated ? "max_tokens" : "end_turn";
    case BL_TURN_MAX_TURNS:
    case BL_TURN_MAX_STEPS: return "max_turn_requests";
    case BL_TURN_MAX_BUDGET: return "max_tokens";
    case BL_TURN_CANCELLED: return "cancelled";
    case BL_TURN_TIMEOUT: return prompt->cancelled ? "cancelled" : NULL;
    case BL_TURN_ERROR: break;
    }
    if (prompt->cancelled && bl_scope_stopped(&prompt->scope))
        return "cancelled";
    return result->error != NULL && strcmp(result->error->name, "refusal") == 0 ? "refusal" : NULL;
}

/* Work that continues on purpose. */
static void acp_prompt_write_background(struct bl_json_writer *writer,
                                        const struct acp_session *session)
{
    bl_json_write_key(writer, BL_TEXT("belay/background"));
    bl_json_write_array(writer);
    bl_agent_write_background(session->agent, writer);
    bl_json_write_end(writer);
}

static void write_meta(struct bl_json_writer *writer, const struct acp_prompt *prompt,
                       const struct bl_run_result *result)
{
    const struct bl_turn_result *turn = acp_prompt_last_turn(result);

    bl_json_write_key(writer, BL_TEXT("_meta"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "belay/stop_reason", bl_turn_end_name(result->end));
    bl_json_put_string(writer, "belay/turn", turn != NULL ? turn->turn_id : NULL);
    bl_json_write_key(writer, BL_TEXT("belay/usage"));
    bl_record_write(writer, &bl_usage_record, &result->usage);
    acp_prompt_write_background(writer, prompt->session);
    if (result->receipt.size > 0)
        bl_json_put_json(writer, "belay/receipt", result->receipt);
    if (prompt->cancelled && result->end == BL_TURN_COMPLETED)
        bl_json_put_boolean(writer, "belay/late_cancel", true);
    bl_json_write_end(writer);
}

static void answer_stopped(struct acp_prompt *prompt, const char *reason,
                           const struct bl_run_result *result)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);

    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "stopReason", reason);
    write_meta(&writer, prompt, result);
    bl_json_write_end(&writer);
    bl_rpc_answer(prompt->call, bl_buffer_text(&out));
}

static void answer_timeout(struct acp_prompt *prompt, const struct bl_run_result *result)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(data, SIZE_MAX);

    bl_json_writer_init(&writer, &data);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "stop_reason", "timeout");
    bl_json_put_json(&writer, "receipt", result->receipt);
    bl_json_write_end(&writer);
    bl_rpc_fail(prompt->call, BL_RPC_CANCELLED, "the deadline was reached", bl_buffer_text(&data));
}

static void acp_prompt_answer(struct acp_prompt *prompt, const struct bl_run_result *result)
{
    static const struct bl_error nothing = {.code = BL_EUNKNOWN,
                                            .message = "the turn failed without an error"};
    const char *reason = stop_reason(prompt, result);

    if (reason != NULL)
        answer_stopped(prompt, reason, result);
    else if (result->end == BL_TURN_TIMEOUT)
        answer_timeout(prompt, result);
    else
        acp_fail(prompt->call,
                 result->error != NULL && result->error->kind == BL_KIND_AUTH ? BL_RPC_AUTH_REQUIRED
                                                                              : BL_RPC_INTERNAL,
                 result->error != NULL ? result->error : &nothing);
}

/* ---- The turn -------------------------------------------------------------------------------- */

/* Runs beside a turn: sends pending output even if a tool prints nothing more. */
static int flush_main(void *argument)
{
    struct acp_session *session = argument;
    int code;

    while ((code = bl_sleep(FLUSH_NS)) == 0)
        acp_flush_output(session);
    return code;
}

static void tell_title(struct acp_session *session, struct bl_text prompt)
{
    struct acp_update update;
    struct bl_text line = {0};

    if (session->titled || session->acp->options->minimal)
        return;
    session->titled = true;
    while (line.size == 0 && bl_text_split(&prompt, '\n', &line))
        line = bl_text_trim(line);
    acp_update_begin(&update, session, "session_info_update");
    bl_json_put_text(&update.writer, "title", bl_utf8_cut(line, 80));
    acp_update_send(&update, session);
}

static void acp_prompt_run_turn(struct acp_prompt *prompt, const struct acp_content *content,
                                struct bl_arena *arena, struct bl_run_result *ret_result)
{
    struct acp_session *session = prompt->session;
    struct bl_workspace *workspace = session->workspace;
    struct bl_run_options run = bl_workspace_run(workspace, content->text);
    struct bl_nursery beside;

    run.images = &content->images;
    run.timed = session->timed;
    run.timeout_ns = session->timeout_ns;
    if (session->warned)
        run.warning_count = 0;
    session->warned = true;
    bl_workspace_charge(workspace, &prompt->scope);
    bl_toolbox_calm(workspace->toolbox);
    bl_nursery_init(&beside, bl_scope_current());
    bl_nursery_spawn(&beside, NULL, "acp output", flush_main, session, NULL);
    bl_agent_prompt(session->agent, &run, &prompt->scope, arena, ret_result);
    bl_nursery_done(&beside);
    if (workspace->ledger != NULL)
        workspace->ledger->scope = NULL;
    /* In the prompt's scope: after a stop, it does not wait for a client that does not read. */
    struct bl_scope *outer = bl_scope_enter(&prompt->scope);
    acp_end_calls(session);
    if (ret_result->turns_completed > 0)
        tell_title(session, content->text);
    bl_scope_enter(outer);
    bl_buffer_clear(&session->receipt);
    bl_buffer_append(&session->receipt, ret_result->receipt);
}

/* Runs prompts one after the other, and only as many at once as there are slots. A stop does not
 * end the wait for the previous turn, which is being stopped itself. */
static void acp_prompt_take_turn(struct acp_prompt *prompt, const struct acp_content *content)
{
    struct acp_session *session = prompt->session;
    struct bl_arena *arena = bl_rpc_call_arena(prompt->call);
    struct bl_run_result *result = bl_arena_zalloc(arena, sizeof *result);
    struct bl_scope shield, *outer = bl_scope_current();

    bl_shield_begin(&shield, TURN_NS_MAX);
    int code = bl_lock_take(&session->turn);
    bl_shield_end(&shield);
    if (code != 0) {
        bl_rpc_fail(prompt->call, BL_RPC_INTERNAL, "the previous turn does not end",
                    (struct bl_text){0});
        return;
    }
    bl_scope_enter(&prompt->scope);
    bool placed = bl_semaphore_take(&session->acp->slots) == 0;
    bl_scope_enter(outer);
    acp_prompt_run_turn(prompt, content, arena, result);
    if (placed)
        bl_semaphore_give(&session->acp->slots);
    /* The client may send the next prompt as soon as it has the answer, so the turn must be over by
     * then. */
    bl_list_remove(&prompt->link);
    bl_list_init(&prompt->link);
    acp_prompt_answer(prompt, result);
    bl_lock_give(&session->turn);
}

static void acp_prompt_main(void *context, struct bl_rpc_call *call)
{
    struct acp_prompt *prompt = context;
    struct acp_session *session = prompt->session;
    const struct bl_json *blocks = bl_json_get(bl_rpc_call_params(call), BL_TEXT("prompt"));
    struct acp_content *content = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *content);
    const char *why;
    char path[80];

    if (acp_content_read(bl_rpc_call_arena(call), blocks,
                         bl_agent_model(session->agent)->takes_images, content, path, sizeof path,
                         &why))
        acp_prompt_take_turn(prompt, content);
    else
        acp_refuse_params(call, path, "%s", why);
    bl_list_remove(&prompt->link);
    bl_scope_done(&prompt->scope);
    bl_free(prompt);
    bl_semaphore_give(&session->left);
}

/* Returns whether a turn is running that has not been stopped. */
static bool is_busy(const struct acp_session *session)
{
    BL_LIST_EACH (link, &session->prompts) {
        if (!bl_scope_stopped(&BL_CONTAINER(link, struct acp_prompt, link)->scope))
            return true;
    }
    return false;
}

void acp_prompt_take(struct acp *acp, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_session_of(acp, call);

    if (session == NULL)
        return;
    if (is_busy(session)) {
        bl_rpc_fail(call, BL_RPC_INVALID_REQUEST,
                    "a turn is running in this session: wait for its answer, or cancel it",
                    BL_TEXT("{\"reason\":\"turn_running\"}"));
        return;
    }
    struct acp_prompt *prompt = bl_zalloc(sizeof *prompt);
    prompt->session = session;
    prompt->call = call;
    bl_scope_init(&prompt->scope, bl_rpc_call_scope(call));
    bl_list_push_back(&session->prompts, &prompt->link);
    bl_rpc_call_start(call, acp_prompt_main, prompt);
}

void acp_inject(struct acp *acp, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_session_of(acp, call);
    const struct bl_json *blocks = bl_json_get(bl_rpc_call_params(call), BL_TEXT("prompt"));
    struct acp_content content;
    char id[BL_ID_SIZE], path[80], result[80];
    const char *why;

    if (session == NULL)
        return;
    if (!acp_content_read(bl_rpc_call_arena(call), blocks, false, &content, path, sizeof path,
                          &why)) {
        acp_refuse_params(call, path, "%s", why);
        return;
    }
    if (!is_busy(session) || bl_agent_inject(session->agent, content.text, id) != 0) {
        bl_rpc_fail(call, BL_RPC_INVALID_REQUEST,
                    "no turn is running that could receive the message",
                    BL_TEXT("{\"reason\":\"no_turn\"}"));
        return;
    }
    snprintf(result, sizeof result, "{\"messageId\":\"%s\"}", id);
    bl_rpc_answer(call, bl_text_from(result));
}
