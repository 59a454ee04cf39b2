/* Sends nested calls, texts of `notify` and hints from the cells of a session to its clients.
 *
 * A call or a text belongs to the connection where it was sent, as long as that exists. Then it
 * goes to the next connection that opens the session and can take it. */
#include "server.h"

/* Limit for unacknowledged texts of cells that have ended. */
#define ORPHAN_BYTES_MAX ((size_t)8 * 1024 * 1024)

/* A nested call, on the stack of the fiber that waits for its result. */
struct server_call {
    struct bl_list link;
    const struct bl_cell_call *call;
    struct server_connection *connection; /* where it was sent last; NULL once that has closed */
    struct server_out *out;               /* its frame, while it is queued */
    bool seen;                            /* the client may have seen it */
    bool answered;
    struct bl_cell_call_result result; /* in the call's arena */
    struct bl_semaphore woken;
};

/* An unacknowledged text of `notify`. */
struct server_notify {
    struct bl_list link;
    struct server_connection *connection; /* where it was sent last; NULL once that has closed */
    char cell_id[BL_CELL_ID_SIZE];
    uint64_t seq;
    bool orphan; /* its cell has ended */
    size_t size;
    char text[];
};

/* Returns the newest connection with that capability. For tools, it must also have declared that it
 * serves them. */
static struct server_connection *find_able(const struct server_session *session,
                                           unsigned capability)
{
    struct server_connection *found = NULL;
    BL_LIST_EACH (link, &session->openings) {
        const struct server_opening *opening =
            BL_CONTAINER(link, struct server_opening, of_session);
        if ((opening->connection->capabilities & capability) != 0 && !opening->connection->dead &&
            (capability != CELL_CAPABILITY_TOOLS || opening->serves_tools))
            found = opening->connection;
    }
    return found;
}

/* ---- Nested calls ---------------------------------------------------------------------------- */

void server_call_queued(struct server_call *call, struct server_out *out)
{
    call->out = out;
}

void server_call_sent(struct server_call *call)
{
    call->out = NULL;
    call->seen = true;
}

void server_call_unqueued(struct server_call *call)
{
    call->out = NULL;
}

static void send_call(struct server_call *call, struct server_connection *connection)
{
    struct server_message message;
    call->connection = connection;
    server_message_begin(&message);
    cell_frame_write(&message.writer,
                     &(struct cell_frame){.type = CELL_FRAME_TOOL_CALL,
                                          .session_id = call->call->session_id,
                                          .cell_id = call->call->cell_id,
                                          .call_id = call->call->id,
                                          .call = {.tool = bl_text_from(call->call->tool),
                                                   .input = call->call->input,
                                                   .input_json = call->call->input_text,
                                                   .redelivered = call->seen}});
    if (server_message_end(&message, connection, false, call) == 0)
        return;
    call->answered = true;
    call->result = (struct bl_cell_call_result){
        .refusal = BL_CELL_CALL_TOO_LARGE, .message = BL_TEXT("the input is larger than 8 MiB")};
    bl_semaphore_give(&call->woken);
}

/* The cell has ended: tells the client, and still accepts its answer, for a while. */
static void cancel_call(struct server_session *session, struct server_call *call)
{
    struct server_message message;
    struct bl_scope shield;
    if (call->out != NULL)
        server_out_drop(call->connection, call->out);
    /* Without a client that could answer, there is nothing to wait for. */
    if (!call->seen || (call->connection == NULL && bl_list_empty(&session->openings)))
        return;
    if (call->connection != NULL) {
        server_message_begin(&message);
        cell_frame_write(&message.writer, &(struct cell_frame){.type = CELL_FRAME_TOOL_CANCEL,
                                                               .session_id = call->call->session_id,
                                                               .cell_id = call->call->cell_id,
                                                               .call_id = call->call->id});
        server_message_end(&message, call->connection, true, NULL);
    }
    bl_shield_begin(&shield, BL_CELL_CALL_GRACE_NS);
    bl_semaphore_take(&call->woken);
    bl_shield_end(&shield);
}

static enum bl_fate server_call_fate_of(const struct server_call *call)
{
    if (call->answered)
        return !call->result.ok && call->result.refusal == BL_CELL_CALL_CANCELLED
                   ? BL_FATE_ABORTED
                   : BL_FATE_FINISHED;
    return call->seen ? BL_FATE_UNKNOWN : BL_FATE_NEVER_STARTED;
}

void server_port_call(void *context, const struct bl_cell_call *call,
                      struct bl_cell_call_result *ret_result)
{
    struct server_session *session = context;
    struct server_connection *connection = find_able(session, CELL_CAPABILITY_TOOLS);
    struct server_call waiting = {.call = call};
    struct bl_unit unit;
    if (!session->has_tools) {
        *ret_result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_UNAVAILABLE,
                                                   .message = BL_TEXT("no client serves tools")};
        return;
    }
    bl_semaphore_init(&waiting.woken, 0);
    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->tool);
    bl_list_push_back(&session->calls, &waiting.link);
    if (connection != NULL)
        send_call(&waiting, connection);
    if (bl_semaphore_take(&waiting.woken) != 0)
        cancel_call(session, &waiting);
    if (waiting.out != NULL) /* it was queued to be sent again */
        server_out_drop(waiting.connection, waiting.out);
    bl_list_remove(&waiting.link);
    if (waiting.answered)
        *ret_result = waiting.result;
    else
        *ret_result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_CANCELLED,
                                                   .message = BL_TEXT("the cell has ended")};
    bl_unit_end(&unit, server_call_fate_of(&waiting));
}

static void server_call_take_result(struct server_call *call,
                                    const struct bl_cell_call_result *result)
{
    struct bl_arena *arena = call->call->arena;
    call->answered = true;
    if (result->ok && result->json.size > BL_CELL_CALL_BYTES_MAX)
        call->result =
            (struct bl_cell_call_result){.refusal = BL_CELL_CALL_TOO_LARGE,
                                         .message = BL_TEXT("the result is larger than 8 MiB")};
    else
        call->result = (struct bl_cell_call_result){
            .ok = result->ok,
            .json = bl_arena_text(arena, result->json),
            .refusal = result->refusal,
            .message = bl_arena_text(arena, result->message),
        };
    bl_semaphore_give(&call->woken);
}

/* Results of calls that are unknown or already answered are ignored. */
void server_tool_result(struct server_connection *connection, const struct cell_frame *frame)
{
    struct server_opening *opening = server_opening_find(connection, frame->session_id);
    if (opening == NULL)
        return;
    BL_LIST_EACH (link, &opening->session->calls) {
        struct server_call *call = BL_CONTAINER(link, struct server_call, link);
        if (!call->answered && call->seen && strcmp(call->call->cell_id, frame->cell_id) == 0 &&
            strcmp(call->call->id, frame->call_id) == 0) {
            server_call_take_result(call, &frame->tool_result.result);
            return;
        }
    }
}

/* ---- Notify, and hints ----------------------------------------------------------------------- */

static void send_notify(const struct server_session *session, struct server_notify *notify,
                        struct server_connection *connection)
{
    struct server_message message;
    notify->connection = connection;
    server_message_begin(&message);
    cell_frame_write(&message.writer, &(struct cell_frame){.type = CELL_FRAME_NOTIFY,
                                                           .session_id = session->id,
                                                           .cell_id = notify->cell_id,
                                                           .seq = notify->seq,
                                                           .text = {notify->text, notify->size}});
    server_message_end(&message, connection, false, NULL);
}

static void notify_free(struct server_session *session, struct server_notify *notify)
{
    if (notify->orphan)
        session->orphan_bytes -= notify->size + sizeof *notify;
    bl_list_remove(&notify->link);
    bl_free(notify);
}

void server_port_notify(void *context, const char *cell_id, uint64_t seq, struct bl_text text)
{
    struct server_session *session = context;
    struct server_connection *connection = find_able(session, CELL_CAPABILITY_NOTIFY);
    struct server_notify *notify = bl_zalloc(sizeof *notify + text.size + 1);
    bl_text_into(notify->cell_id, sizeof notify->cell_id, cell_id);
    notify->seq = seq;
    notify->size = text.size;
    memcpy(notify->text, text.size > 0 ? text.data : "", text.size);
    bl_list_push_back(&session->notifies, &notify->link);
    if (connection != NULL)
        send_notify(session, notify, connection);
}

void server_notify_ack(struct server_connection *connection, const struct cell_frame *frame)
{
    struct server_opening *opening = server_opening_find(connection, frame->session_id);
    if (opening == NULL || opening->session->session == NULL)
        return;
    BL_LIST_EACH_SAFE (link, &opening->session->notifies) {
        struct server_notify *notify = BL_CONTAINER(link, struct server_notify, link);
        if (notify->seq != frame->seq || strcmp(notify->cell_id, frame->cell_id) != 0)
            continue;
        bl_cell_notify_ack(opening->session->session, notify->cell_id, notify->seq);
        notify_free(opening->session, notify);
        return;
    }
}

/* A cell that has ended sends no more texts. Those it has sent are kept, up to a limit. */
static void orphan_notifies(struct server_session *session, const char *cell_id)
{
    BL_LIST_EACH (link, &session->notifies) {
        struct server_notify *notify = BL_CONTAINER(link, struct server_notify, link);
        if (notify->orphan || strcmp(notify->cell_id, cell_id) != 0)
            continue;
        notify->orphan = true;
        session->orphan_bytes += notify->size + sizeof *notify;
    }
    BL_LIST_EACH_SAFE (link, &session->notifies) {
        struct server_notify *notify = BL_CONTAINER(link, struct server_notify, link);
        if (session->orphan_bytes <= ORPHAN_BYTES_MAX)
            break;
        if (notify->orphan)
            notify_free(session, notify);
    }
}

void server_port_event(void *context, const struct bl_cell_event *event)
{
    struct server_session *session = context;
    struct server_message message;
    if (event->type != BL_CELL_EVENT_ENDED)
        return;
    orphan_notifies(session, event->cell_id);
    BL_LIST_EACH (link, &session->openings) {
        struct server_connection *connection =
            BL_CONTAINER(link, struct server_opening, of_session)->connection;
        if (!server_connection_idle(connection))
            continue;
        server_message_begin(&message);
        cell_frame_write(&message.writer, &(struct cell_frame){.type = CELL_FRAME_ENDED,
                                                               .session_id = session->id,
                                                               .cell_id = event->cell_id});
        server_message_end(&message, connection, false, NULL);
    }
}

/* ---- Connections that open and close --------------------------------------------------------- */

static void resend(struct server_session *session, struct server_connection *connection)
{
    if (find_able(session, CELL_CAPABILITY_TOOLS) == connection)
        BL_LIST_EACH (link, &session->calls) {
            struct server_call *call = BL_CONTAINER(link, struct server_call, link);
            if (call->connection == NULL && !call->answered)
                send_call(call, connection);
        }
    if (find_able(session, CELL_CAPABILITY_NOTIFY) == connection)
        BL_LIST_EACH (link, &session->notifies) {
            struct server_notify *notify = BL_CONTAINER(link, struct server_notify, link);
            if (notify->connection == NULL)
                send_notify(session, notify, connection);
        }
}

void server_session_opened(struct server_connection *connection, const char *session_id)
{
    struct server_opening *opening = server_opening_find(connection, session_id);
    if (opening != NULL && !opening->session->closing)
        resend(opening->session, connection);
}

void server_calls_leave(struct server_session *session, struct server_connection *connection)
{
    BL_LIST_EACH (link, &session->calls) {
        struct server_call *call = BL_CONTAINER(link, struct server_call, link);
        if (call->connection != connection)
            continue;
        if (call->out != NULL)
            server_out_drop(connection, call->out);
        call->connection = NULL;
    }
    BL_LIST_EACH (link, &session->notifies) {
        struct server_notify *notify = BL_CONTAINER(link, struct server_notify, link);
        if (notify->connection == connection)
            notify->connection = NULL;
    }
}

void server_notifies_drop(struct server_session *session)
{
    while (!bl_list_empty(&session->notifies))
        notify_free(session, BL_CONTAINER(session->notifies.next, struct server_notify, link));
}
