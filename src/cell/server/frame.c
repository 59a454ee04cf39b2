/* Requests of a connection: each is a fiber.
 *
 * Requests of one connection for the same cell begin in the order in which they arrived. A request
 * also waits for the end of an earlier create of its cell, and of an earlier open or close of its
 * session. So no terminate overtakes its create. */
#include <inttypes.h>

#include "server.h"

static void request_free(struct server_request *request)
{
    bl_list_remove(&request->link);
    bl_arena_done(&request->arena);
    bl_free(request);
}

static bool server_frame_is_control(const struct cell_frame *frame)
{
    return frame->refusal == NULL &&
           (frame->request.op == CELL_TERMINATE || frame->request.op == CELL_RELEASE);
}

static bool is_of_session(const struct cell_frame *frame)
{
    return frame->request.op == CELL_OPEN_SESSION || frame->request.op == CELL_CLOSE_SESSION;
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void reply_err(struct server_connection *connection, const struct cell_frame *frame,
                      const struct bl_cell_fault *fault)
{
    struct server_message message;
    server_message_begin(&message);
    cell_reply_err_write(&message.writer, frame->request.id, frame->op_text, fault);
    server_message_end(&message, connection,
                       server_frame_is_control(frame) || fault->code == BL_CELL_CANCELLED, NULL);
}

static void reply_ok(struct server_connection *connection, const struct cell_frame *frame,
                     struct bl_text ok, struct bl_cell_fault *fault)
{
    struct server_message message;
    server_message_begin(&message);
    cell_reply_ok_write(&message.writer, frame->request.id, frame->op_text, ok);
    if (server_message_end(&message, connection, server_frame_is_control(frame), NULL) == 0)
        return;
    cell_refuse(fault, BL_CELL_INTERNAL, "the answer is larger than a frame");
    bl_text_into(fault->detail, sizeof fault->detail, "more than 32 MiB");
    reply_err(connection, frame, fault);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static int server_frame_release(struct server_request *request, struct bl_cell_session *session,
                                struct bl_json_writer *writer, struct bl_cell_fault *fault)
{
    const struct cell_request *asked = &request->frame->request;
    enum bl_cell_release_outcome outcome = BL_CELL_RELEASE_MISSING;
    int code = bl_cell_release(session, asked->release.cell_id, asked->release.generation, &outcome,
                               fault);
    bool released = outcome == BL_CELL_RELEASE_RELEASED;
    if (code == 0)
        cell_ok_write(writer,
                      &(struct cell_ok){.type = released ? CELL_OK_RELEASED : CELL_OK_MISSING,
                                        .cell_id = asked->release.cell_id});
    return code;
}

/* Runs an operation on a cell, or `list`. The answer is in `out` or in the request's arena. */
static int operate(struct server_request *request, struct bl_cell_session *session,
                   struct bl_buffer *out, struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    const struct cell_request *asked = &request->frame->request;
    struct bl_json_writer writer;
    int code = BL_EINVAL;
    bl_json_writer_init(&writer, out);
    switch (asked->op) {
    case CELL_CREATE_CELL:
        code = bl_cell_create(session, &asked->create, fault);
        if (code == 0)
            cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_CREATED,
                                                     .cell_id = asked->create.cell_id});
        break;
    case CELL_OBSERVE:
        return cell_observe(session, &asked->observe, &request->arena, ret_ok, fault);
    case CELL_TERMINATE:
        return cell_terminate(session, &asked->terminate, &request->arena, ret_ok, fault);
    case CELL_RELEASE: code = server_frame_release(request, session, &writer, fault); break;
    case CELL_LIST:
        code = bl_cell_list(session, asked->list.after, asked->list.max, out, fault);
        break;
    case CELL_OPEN_SESSION:
    case CELL_CLOSE_SESSION: break;
    }
    *ret_ok = bl_buffer_text(out);
    return code;
}

static int server_frame_close_session(struct server_request *request, struct bl_buffer *out,
                                      struct bl_cell_fault *fault)
{
    const struct cell_request *asked = &request->frame->request;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(receipt, BL_CELL_FRAME_MAX / 2);
    int code = server_session_close(request->connection, asked, &receipt, fault);
    if (code == 0) {
        bl_json_writer_init(&writer, out);
        cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_CLOSED,
                                                 .session_id = asked->session_id,
                                                 .receipt_json = bl_buffer_text(&receipt)});
    }
    return code;
}

static int server_frame_open_session(struct server_request *request, struct bl_buffer *out,
                                     struct bl_cell_fault *fault)
{
    const struct cell_request *asked = &request->frame->request;
    struct bl_json_writer writer;
    int code = server_session_open(request->connection, asked, fault);
    if (code == 0) {
        bl_json_writer_init(&writer, out);
        cell_ok_write(&writer,
                      &(struct cell_ok){.type = CELL_OK_OPENED, .session_id = asked->session_id});
    }
    return code;
}

static int server_frame_perform(struct server_request *request, struct bl_buffer *out,
                                struct bl_text *ret_ok, struct bl_cell_fault *fault)
{
    const struct cell_frame *frame = request->frame;
    struct server_session *session;
    int code;
    if (frame->refusal != NULL) {
        *fault = *frame->refusal;
        return BL_EREFUSED;
    }
    if (frame->request.op == CELL_OPEN_SESSION) {
        code = server_frame_open_session(request, out, fault);
    } else if (frame->request.op == CELL_CLOSE_SESSION) {
        code = server_frame_close_session(request, out, fault);
    } else {
        code = server_session_use(request->connection, &frame->request, &session, fault);
        if (code != 0)
            return code;
        code = operate(request, session->session, out, ret_ok, fault);
        server_session_unuse(session);
        return code;
    }
    *ret_ok = bl_buffer_text(out);
    return code;
}

static void server_frame_serve(struct server_request *request)
{
    struct server_connection *connection = request->connection;
    struct bl_cell_fault *fault = bl_arena_zalloc(&request->arena, sizeof *fault);
    struct bl_text ok = {0};
    BL_AUTO_BUFFER(out, BL_CELL_FRAME_MAX);
    int code = server_frame_perform(request, &out, &ok, fault);
    bool dropped = code == CELL_DROPPED;
    if (!dropped)
        dropped = cell_fault_hit(connection->server->options.host, CELL_AT_REPLY_SEND) == CELL_DROP;
    if (!dropped && code == 0)
        reply_ok(connection, request->frame, ok, fault);
    else if (!dropped)
        reply_err(connection, request->frame, fault);
    if (code == 0 && request->frame->request.op == CELL_OPEN_SESSION)
        server_session_opened(connection, request->frame->request.session_id);
}

/* ---- The order of requests ------------------------------------------------------------------- */

/* Returns whether `later` must wait for `earlier`. */
static bool holds_up(const struct server_request *earlier, const struct server_request *later)
{
    const struct cell_request *before = &earlier->frame->request, *after = &later->frame->request;
    if (earlier->frame->refusal != NULL || later->frame->refusal != NULL ||
        strcmp(before->session_id, after->session_id) != 0)
        return false;
    if (is_of_session(earlier->frame))
        return true;
    if (after->op == CELL_CLOSE_SESSION)
        return !earlier->begun;
    if (earlier->cell_id == NULL || later->cell_id == NULL ||
        strcmp(earlier->cell_id, later->cell_id) != 0)
        return false;
    return !earlier->begun || before->op == CELL_CREATE_CELL;
}

static bool may_start(const struct server_request *request)
{
    BL_LIST_EACH (link, &request->connection->requests) {
        const struct server_request *earlier = BL_CONTAINER(link, struct server_request, link);
        if (earlier == request)
            break;
        if (holds_up(earlier, request))
            return false;
    }
    return true;
}

static int request_main(void *argument);

static void server_frame_start(struct server_request *request)
{
    struct server_connection *connection = request->connection;
    struct bl_cell_fault *fault;
    request->started = true;
    bl_scope_init(&request->scope, &connection->nursery.scope);
    if (bl_nursery_spawn(&connection->nursery, NULL, "cell request", request_main, request, NULL) ==
        0)
        return;
    bl_scope_done(&request->scope);
    fault = bl_arena_zalloc(&request->arena, sizeof *fault);
    cell_refuse(fault, BL_CELL_INTERNAL, "cannot start a fiber for the request");
    bl_text_into(fault->detail, sizeof fault->detail, "out of fiber stacks");
    connection->request_count--;
    reply_err(connection, request->frame, fault);
    request_free(request);
}

static void start_ready_requests(struct server_connection *connection)
{
    BL_LIST_EACH_SAFE (link, &connection->requests) {
        struct server_request *request = BL_CONTAINER(link, struct server_request, link);
        if (!request->started && !connection->dead && may_start(request))
            server_frame_start(request);
    }
}

static int request_main(void *argument)
{
    struct server_request *request = argument;
    struct server_connection *connection = request->connection;
    struct bl_scope *outer = bl_scope_enter(&request->scope);
    if (!connection->dead) {
        request->begun = true;
        start_ready_requests(connection);
        server_frame_serve(request);
    }
    bl_scope_enter(outer);
    bl_scope_done(&request->scope);
    connection->request_count--;
    request_free(request);
    start_ready_requests(connection);
    if (connection->dead)
        server_signal_tell(&connection->server->changed);
    return 0;
}

void server_requests_stop(struct server_connection *connection)
{
    BL_LIST_EACH_SAFE (link, &connection->requests) {
        struct server_request *request = BL_CONTAINER(link, struct server_request, link);
        if (!request->started) {
            connection->request_count--;
            request_free(request);
        }
    }
}

bool server_requests_creating(const struct server_connection *connection)
{
    BL_LIST_EACH (link, &connection->requests) {
        const struct server_request *request = BL_CONTAINER(link, struct server_request, link);
        if (request->begun && request->frame->refusal == NULL &&
            request->frame->request.op == CELL_CREATE_CELL)
            return true;
    }
    return false;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static struct server_request *find_request(const struct server_connection *connection, uint64_t id)
{
    BL_LIST_EACH (link, &connection->requests) {
        struct server_request *request = BL_CONTAINER(link, struct server_request, link);
        if (request->frame->request.id == id)
            return request;
    }
    return NULL;
}

static const char *server_frame_cell_of(const struct cell_frame *frame)
{
    const struct cell_request *request = &frame->request;
    if (frame->refusal != NULL)
        return NULL;
    switch (request->op) {
    case CELL_CREATE_CELL: return request->create.cell_id;
    case CELL_OBSERVE: return request->observe.cell_id;
    case CELL_TERMINATE: return request->terminate.cell_id;
    case CELL_RELEASE: return request->release.cell_id;
    case CELL_OPEN_SESSION:
    case CELL_LIST:
    case CELL_CLOSE_SESSION: break;
    }
    return NULL;
}

static void server_frame_refuse_limit(struct server_connection *connection,
                                      const struct cell_frame *frame)
{
    struct bl_cell_fault fault;
    bool control = server_frame_is_control(frame);
    cell_refuse(&fault, BL_CELL_LIMIT_REACHED, "%u requests of this connection are in progress",
                connection->request_count);
    bl_text_into(fault.limit, sizeof fault.limit, control ? "control_requests" : "requests");
    fault.value = control ? BL_CELL_CONTROL_MAX : BL_CELL_REQUESTS_MAX;
    reply_err(connection, frame, &fault);
}

/* Returns whether it keeps the request. */
static bool server_frame_take_request(struct server_connection *connection,
                                      struct server_request *request)
{
    struct cell_frame *frame = request->frame;
    unsigned most =
        BL_CELL_REQUESTS_MAX + (server_frame_is_control(frame) ? BL_CELL_CONTROL_MAX : 0);
    if (find_request(connection, frame->request.id) != NULL) {
        server_connection_bye(connection, "protocol", true,
                              "another request with the same id is in progress");
        return false;
    }
    if (connection->request_count >= most) {
        server_frame_refuse_limit(connection, frame);
        return false;
    }
    request->connection = connection;
    request->cell_id = server_frame_cell_of(frame);
    /* The yield time counts from the arrival of the request, not from its begin. */
    if (frame->refusal == NULL && frame->request.op == CELL_OBSERVE)
        frame->request.observe.from_ns = bl_now_ns();
    bl_list_push_back(&connection->requests, &request->link);
    connection->request_count++;
    if (may_start(request))
        server_frame_start(request);
    return true;
}

static void server_frame_cancel(struct server_connection *connection, uint64_t id)
{
    struct server_request *request = find_request(connection, id);
    struct bl_cell_fault fault;
    if (request == NULL)
        return;
    if (request->started) {
        bl_scope_stop(&request->scope, BL_STOP_USER, "cancel");
        return;
    }
    cell_refuse(&fault, BL_CELL_CANCELLED, "cancelled before it started");
    connection->request_count--;
    reply_err(connection, request->frame, &fault);
    request_free(request);
    start_ready_requests(connection);
}

int server_take_frame(void *context, struct bl_text bytes)
{
    struct server_connection *connection = context;
    char message[240] = "";
    bool kept = false;
    if (connection->dead)
        return BL_ECLOSED;
    struct server_request *request = bl_zalloc(sizeof *request);
    bl_list_init(&request->link);
    bl_arena_init(&request->arena);
    request->frame = bl_arena_zalloc(&request->arena, sizeof *request->frame);
    struct cell_frame *frame = request->frame;
    int code = cell_frame_read(&request->arena, bytes, false, frame, message, sizeof message);
    if (code != 0) {
        server_connection_bye(connection, "protocol", true, message);
    } else {
        switch (frame->type) {
        case CELL_FRAME_REQUEST: kept = server_frame_take_request(connection, request); break;
        case CELL_FRAME_CANCEL: server_frame_cancel(connection, frame->cancel.id); break;
        case CELL_FRAME_TOOL_RESULT: server_tool_result(connection, frame); break;
        case CELL_FRAME_NOTIFY_ACK: server_notify_ack(connection, frame); break;
        case CELL_FRAME_HELLO:
        case CELL_FRAME_READY:
        case CELL_FRAME_REJECTED:
        case CELL_FRAME_REPLY:
        case CELL_FRAME_TOOL_CALL:
        case CELL_FRAME_TOOL_CANCEL:
        case CELL_FRAME_NOTIFY:
        case CELL_FRAME_ENDED:
        case CELL_FRAME_BYE: break; /* cell_frame_read does not accept these from a client here */
        }
    }
    if (!kept)
        request_free(request);
    return connection->dead ? BL_ECLOSED : 0;
}
