/* Design notes.
 *
 * Work runs in fibers of the carrier, not of its connection, each in a scope of its own that is
 * stopped with its own reason, for the receipt. A session has a fiber that waits for its end: the
 * client's DELETE, a minute without a connection, or the end of the carrier. It then stops all the
 * session's work, waits until that is quiet, and only then reports the end. */
#include <stdio.h>

#include "http.h"

#define REPLY_MAX ((size_t)256 << 20)

uint64_t mcp_http_alone_ns = 60 * BL_NS_PER_S;

/* ---- Work ------------------------------------------------------------------------------------ */

static void http_session_notify(struct mcp_request *request, const char *method,
                                struct bl_text params)
{
    struct http_work *work = request->carrier;
    BL_AUTO_BUFFER(out, REPLY_MAX);

    if (work->stream == NULL)
        return;
    bl_rpc_write_notification(&out, method, params);
    http_stream_put(work->stream, bl_buffer_text(&out));
}

struct http_work *http_work_new(struct http_carrier *carrier)
{
    struct http_work *work = bl_zalloc(sizeof *work);

    bl_list_init(&work->link);
    work->carrier = carrier;
    bl_arena_init(&work->arena);
    mcp_peer_init(&work->peer, carrier->server);
    work->request.peer = &work->peer;
    work->request.arena = &work->arena;
    work->request.version = MCP_UNKNOWN_VERSION;
    work->request.notify = http_session_notify;
    work->request.carrier = work;
    return work;
}

void http_work_join(struct http_work *work, struct http_session *session)
{
    work->session = session;
    work->request.peer = &session->peer;
}

void http_work_free(struct http_work *work)
{
    if (work == NULL)
        return;
    bl_arena_done(&work->arena);
    bl_free(work);
}

void http_reply_write(struct bl_buffer *out, const struct bl_json *id,
                      const struct mcp_reply *reply)
{
    if (reply->code == 0) {
        bl_rpc_write_result(out, id, reply->result);
        return;
    }
    char message[512];
    snprintf(message, sizeof message, BL_TEXT_FORMAT,
             BL_TEXT_ARG(bl_utf8_cut(reply->message, sizeof message - 1)));
    bl_rpc_write_error(out, id, reply->code, message, reply->data);
}

/* In the version without sessions, the status depends on the answer. In the others, 404 would mean
 * that the session has ended. */
int http_reply_status(const struct http_work *work, const struct mcp_reply *reply)
{
    if (work->session != NULL)
        return 200;
    if (reply->code == BL_RPC_NO_METHOD)
        return 404;
    return reply->code <= MCP_HEADER_MISMATCH && reply->code >= MCP_UNSUPPORTED_VERSION ? 400 : 200;
}

static void put_reply(struct http_work *work, const struct mcp_reply *reply)
{
    struct bl_buffer out;

    if (reply->dropped) {
        http_stream_end(work->stream, false, 200);
        return;
    }
    bl_buffer_init(&out, REPLY_MAX);
    http_reply_write(&out, work->request.message.id, reply);
    http_stream_put(work->stream, bl_buffer_text(&out));
    bl_buffer_done(&out);
    http_stream_end(work->stream, true, http_reply_status(work, reply));
}

static bool http_session_has_gone(const struct http_stream *stream)
{
    return stream->ended && stream->reader == NULL;
}

/* A client may read finished streams again; only a limited number is kept for that. */
static void forget_streams(struct http_session *session)
{
    unsigned count = 0;

    BL_LIST_EACH (link, &session->streams)
        count += http_session_has_gone(BL_CONTAINER(link, struct http_stream, link));
    BL_LIST_EACH_SAFE (link, &session->streams) {
        struct http_stream *stream = BL_CONTAINER(link, struct http_stream, link);
        if (count <= HTTP_STREAMS_KEPT_MAX)
            return;
        if (!http_session_has_gone(stream))
            continue;
        count--;
        bl_list_remove(link);
        http_stream_drop(stream);
    }
}

static void http_session_end_work(struct http_work *work)
{
    struct http_carrier *carrier = work->carrier;
    struct http_session *session = work->session;

    bl_scope_done(&work->scope);
    bl_list_remove(&work->link);
    work->stream->work = NULL;
    http_stream_drop(work->stream);
    http_work_free(work);
    if (session != NULL) {
        session->work_count--;
        forget_streams(session);
        bl_semaphore_give(&session->changed);
    }
    http_carrier_changed(carrier);
}

static int http_session_work_main(void *argument)
{
    struct http_work *work = argument;
    struct mcp_reply reply = {.code = 0};
    struct bl_scope *before = bl_scope_enter(&work->scope);

    mcp_request_serve(&work->request, &reply);
    bl_scope_enter(before);
    if (work->session == NULL)
        mcp_peer_end(&work->peer, BL_STOP_CLIENT_GONE, "mcp: the request has ended");
    put_reply(work, &reply);
    http_session_end_work(work);
    return 0;
}

int http_work_start(struct http_work *work, struct http_stream **ret_stream)
{
    struct http_carrier *carrier = work->carrier;
    struct http_session *session = work->session;
    struct http_stream *stream = http_stream_new();

    bl_scope_init(&work->scope, &carrier->nursery.scope);
    work->request.scope = &work->scope;
    work->stream = stream;
    int code = bl_nursery_spawn(&carrier->nursery, NULL, "mcp request", http_session_work_main,
                                work, NULL);
    if (code != 0) {
        bl_scope_done(&work->scope);
        work->stream = NULL;
        http_stream_drop(stream);
        return code;
    }
    stream->work = work;
    stream->users++;
    bl_list_push_back(session != NULL ? &session->works : &carrier->works, &work->link);
    if (session != NULL) {
        session->work_count++;
        stream->number = ++session->next_stream;
        stream->has_ids = true;
        stream->primes = session->peer.version == MCP_2025_11_25;
        stream->users++;
        bl_list_push_back(&session->streams, &stream->link);
    }
    *ret_stream = stream;
    return 0;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void free_unused(struct http_session *session)
{
    if (--session->users > 0)
        return;
    http_stream_drop(session->listening);
    bl_free(session);
}

static void stop_works(struct http_session *session)
{
    BL_LIST_EACH (link, &session->works)
        bl_scope_stop(&BL_CONTAINER(link, struct http_work, link)->scope, session->reason,
                      session->origin);
}

static void http_close_session(struct http_session *session)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_NEVER);
    stop_works(session);
    mcp_peer_end(&session->peer, session->reason, session->origin);
    while (session->work_count > 0)
        bl_semaphore_take(&session->changed);
    http_stream_end(session->listening, false, 200);
    while (!bl_list_empty(&session->streams))
        http_stream_drop(
            BL_CONTAINER(bl_list_pop_front(&session->streams), struct http_stream, link));
    bl_shield_end(&shield);
}

static int session_main(void *argument)
{
    struct http_session *session = argument;
    struct http_carrier *carrier = session->carrier;

    while (session->reason == BL_STOP_NONE) {
        bool alone = session->connections == 0;
        uint64_t until_ns =
            alone ? bl_time_add(session->alone_since_ns, mcp_http_alone_ns) : BL_NEVER;
        int code = http_wait(&session->changed, until_ns);
        if (code == BL_EAGAIN && session->connections == 0)
            http_session_end(session, BL_STOP_CLIENT_GONE, "mcp: no connection");
        else if (code != 0 && code != BL_EAGAIN)
            http_session_end(session, BL_STOP_SHUTDOWN, "mcp");
    }
    http_close_session(session);
    session->ended = true;
    carrier->session_count--;
    bl_semaphore_give(&session->end);
    http_carrier_changed(carrier);
    free_unused(session);
    return 0;
}

static void http_session_make_id(char out[HTTP_SESSION_ID_SIZE])
{
    uint8_t bytes[(HTTP_SESSION_ID_SIZE - 1) / 2];

    bl_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

int http_session_open(struct http_carrier *carrier, struct http_session **ret_session)
{
    if (carrier->session_count >= HTTP_SESSIONS_MAX)
        return BL_ELIMIT;
    struct http_session *session = bl_zalloc(sizeof *session);
    session->carrier = carrier;
    http_session_make_id(session->id);
    mcp_peer_init(&session->peer, carrier->server);
    bl_list_init(&session->works);
    bl_list_init(&session->streams);
    bl_semaphore_init(&session->changed, 0);
    bl_semaphore_init(&session->end, 0);
    session->listening = http_stream_new();
    session->connections = 1;
    session->users = 2;
    int code =
        bl_nursery_spawn(&carrier->nursery, NULL, "mcp session", session_main, session, NULL);
    if (code != 0) {
        http_stream_drop(session->listening);
        bl_free(session);
        return code;
    }
    carrier->session_count++;
    bl_map_set(&carrier->sessions, bl_text_from(session->id), session, NULL);
    *ret_session = session;
    return 0;
}

struct http_session *http_session_hold(struct http_carrier *carrier, struct bl_text id)
{
    struct http_session *session = bl_map_get(&carrier->sessions, id);

    if (session == NULL)
        return NULL;
    session->connections++;
    session->users++;
    return session;
}

void http_session_release(struct http_session *session)
{
    if (--session->connections == 0) {
        session->alone_since_ns = bl_now_ns();
        bl_semaphore_give(&session->changed);
    }
    free_unused(session);
}

void http_session_end(struct http_session *session, enum bl_stop_reason reason, const char *origin)
{
    if (session->reason != BL_STOP_NONE)
        return;
    session->reason = reason;
    bl_text_into(session->origin, sizeof session->origin, origin);
    /* From here on it cannot be found. */
    bl_map_remove(&session->carrier->sessions, bl_text_from(session->id));
    bl_semaphore_give(&session->changed);
}

int http_session_await_end(struct http_session *session)
{
    int code = 0;

    while (code == 0 && !session->ended)
        code = bl_semaphore_take(&session->end);
    /* For the next waiter. */
    if (code == 0)
        bl_semaphore_give(&session->end);
    return code;
}

struct http_work *http_session_find(const struct http_session *session, const struct bl_json *id)
{
    BL_LIST_EACH (link, &session->works) {
        struct http_work *work = BL_CONTAINER(link, struct http_work, link);
        if (id != NULL && bl_rpc_id_equal(work->request.message.id, id))
            return work;
    }
    return NULL;
}

struct http_stream *http_session_stream(const struct http_session *session, uint32_t number)
{
    BL_LIST_EACH (link, &session->streams) {
        struct http_stream *stream = BL_CONTAINER(link, struct http_stream, link);
        if (stream->number == number)
            return stream;
    }
    return NULL;
}
