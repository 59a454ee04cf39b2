/* Design notes.
 *
 * Each request is checked in a fixed order: its origin, its authorization, and whether it is a
 * valid request at all (before its body is read); then its body, and whether the body and the
 * headers agree. The request itself selects the version: with a version in its `_meta` it needs no
 * session, and ends with its connection; without one, it belongs to a session. */
#include <stdio.h>

#include "core.h"
#include "http.h"

#define VERSION_KEY       BL_TEXT("io.modelcontextprotocol/protocolVersion")
#define VERSION_PATH      BL_TEXT("{\"path\":\"/_meta/io.modelcontextprotocol~1protocolVersion\"}")
#define FAILURE_MAX       ((size_t)64 * 1024)
#define NO_SESSION        (-32001)
#define TOO_MUCH          (-32000)
#define LINGER_NS         (1 * BL_NS_PER_S)
#define SESSION_HEADER    "Mcp-Session-Id"
#define VERSION_HEADER    "MCP-Protocol-Version"
#define ANSWER_MAX        ((size_t)256 << 20)
#define NOTHING           ((struct bl_text){NULL, 0})
#define ORIGIN_OF_CANCEL  "notifications/cancelled"
#define ORIGIN_OF_CLOSING "mcp: response stream closed"

static const struct bl_http_header json_header = {BL_TEXT("Content-Type"),
                                                  BL_TEXT("application/json")};

/* `id` may be NULL, which is written as null. */
static void mcp_http_fail(struct bl_http_call *call, int status, const struct bl_json *id, int code,
                          const char *message, struct bl_text data)
{
    BL_AUTO_BUFFER(out, FAILURE_MAX);

    bl_rpc_write_error(&out, id, code, message, data);
    bl_http_call_answer(call, status, &json_header, 1, bl_buffer_text(&out));
}

/* ---- Before the body ------------------------------------------------------------------------- */

static bool knows_host(void *context, struct bl_text host)
{
    const struct http_carrier *carrier = context;

    return http_host_listed(carrier->options->origins, host);
}

static bool mcp_http_refuse(struct bl_http_call *call, int status, const char *header,
                            const char *value, const char *message)
{
    struct bl_http_header headers[] = {json_header, {bl_text_from(header), bl_text_from(value)}};
    BL_AUTO_BUFFER(out, FAILURE_MAX);

    bl_rpc_write_error(&out, NULL, BL_RPC_INVALID_REQUEST, message, NOTHING);
    bl_http_call_answer(call, status, headers, header != NULL ? 2 : 1, bl_buffer_text(&out));
    return false;
}

static bool is_method(const struct bl_http_call *call, const char *method)
{
    return bl_text_equal(bl_http_call_method(call), bl_text_from(method));
}

static bool is_our_path(struct bl_text path)
{
    struct bl_text part = {NULL, 0};

    bl_text_split(&path, '?', &part);
    return bl_text_equal(part, BL_TEXT("/mcp"));
}

static bool admit_content(struct bl_http_call *call)
{
    struct bl_text accept = bl_http_call_header(call, "accept");

    if (is_method(call, "DELETE"))
        return true;
    if (is_method(call, "POST") && !http_is_json(bl_http_call_header(call, "content-type")))
        return mcp_http_refuse(call, 415, NULL, NULL, "Content-Type must be application/json");
    if (!http_accepts(accept, "text/event-stream") ||
        (is_method(call, "POST") && !http_accepts(accept, "application/json")))
        return mcp_http_refuse(
            call, 406, NULL, NULL,
            "Accept must include text/event-stream, and application/json for POST");
    return true;
}

static bool mcp_http_admit(void *context, struct bl_http_call *call)
{
    const struct http_carrier *carrier = context;
    const struct bl_mcp_server_options *options = carrier->options;
    struct bl_text origin = bl_http_call_header(call, "origin");

    if (origin.size > 0 && !http_origin_known(options->origins, origin))
        return mcp_http_refuse(call, 403, NULL, NULL,
                               "Origin not allowed; belay mcp --origin HOST allows it");
    if (!is_our_path(bl_http_call_path(call)))
        return mcp_http_refuse(call, 404, NULL, NULL, "only /mcp is served");
    if (options->token != NULL &&
        !http_token_right(bl_http_call_header(call, "authorization"), options->token))
        return mcp_http_refuse(call, 401, "WWW-Authenticate", "Bearer realm=\"belay\"",
                               "send the token as Authorization: Bearer TOKEN");
    if (!is_method(call, "POST") && !is_method(call, "GET") && !is_method(call, "DELETE"))
        return mcp_http_refuse(call, 405, "Allow", "POST, GET, DELETE", "use POST, GET or DELETE");
    return admit_content(call);
}

/* ---- Headers and body ------------------------------------------------------------------------ */

/* Refuses an unsupported version, and lists the supported ones. */
static void fail_version(struct bl_http_call *call, const struct bl_json *id,
                         struct bl_text requested)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(data, FAILURE_MAX);

    bl_json_writer_init(&writer, &data);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("supported"));
    bl_json_write_array(&writer);
    for (int version = MCP_2026_07_28; version < MCP_UNKNOWN_VERSION; version++)
        bl_json_write_string(&writer, mcp_version_name((enum mcp_version)version));
    bl_json_write_end(&writer);
    bl_json_put_text(&writer, "requested", requested);
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0)
        bl_buffer_clear(&data);
    mcp_http_fail(call, 400, id, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version",
                  bl_buffer_text(&data));
}

static const struct bl_json *version_of(const struct bl_rpc_message *message)
{
    const struct bl_json *meta = bl_json_get(message->params, BL_TEXT("_meta"));

    return bl_json_get(meta, VERSION_KEY);
}

/* Returns the field that Mcp-Name repeats. */
static const struct bl_json *mcp_http_name_of(const struct bl_rpc_message *message)
{
    static const struct {
        const char *method;
        const char *field;
    } names[] = {
        {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
        {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
    };

    for (size_t i = 0; i < BL_COUNT(names); i++) {
        if (bl_text_equal(message->method, bl_text_from(names[i].method)))
            return bl_json_get(message->params, bl_text_from(names[i].field));
    }
    return NULL;
}

/* Returns whether a header agrees with the field that it repeats. If `needed`, it must be present
 * if the field is. */
static bool agrees(struct bl_arena *arena, struct bl_text header, const struct bl_json *field,
                   bool needed)
{
    struct bl_text value = {NULL, 0};

    if (header.size == 0)
        return !needed || !bl_json_is(field, BL_JSON_STRING);
    if (!http_header_value(arena, header, &value))
        return false;
    return field == NULL || bl_text_equal(value, bl_json_text(field));
}

static bool arguments_agree(const struct http_carrier *carrier, struct bl_http_call *call,
                            const struct bl_rpc_message *message)
{
    if (!bl_text_equal(message->method, BL_TEXT("tools/call")))
        return true;
    return http_arguments_agree(call,
                                mcp_tool_schema(carrier->server, bl_http_call_arena(call),
                                                bl_json_text(mcp_http_name_of(message))),
                                bl_json_get(message->params, BL_TEXT("arguments")));
}

/* Returns which header does not agree with the body, or NULL if all do. */
static const char *find_mismatch(const struct http_carrier *carrier, struct bl_http_call *call,
                                 const struct bl_rpc_message *message)
{
    const struct bl_json *version = version_of(message);
    struct bl_text header = bl_http_call_header(call, VERSION_HEADER);
    struct bl_text method = bl_http_call_header(call, "mcp-method");
    bool is_request = message->type == BL_RPC_REQUEST;
    bool needed = is_request && bl_json_is(version, BL_JSON_STRING);

    if (needed && header.size == 0)
        return VERSION_HEADER " is missing, but the body has a version";
    if (needed && !bl_text_equal(header, bl_json_text(version)))
        return VERSION_HEADER " and the version in the body's _meta differ";
    needed = needed ||
             (is_request && bl_text_equal(header, bl_text_from(mcp_version_name(MCP_2026_07_28))));
    if (needed && method.size == 0)
        return "Mcp-Method is missing";
    if (method.size > 0 && !bl_text_equal(method, message->method))
        return "Mcp-Method and the body's method differ";
    if (!agrees(bl_http_call_arena(call), bl_http_call_header(call, "mcp-name"),
                mcp_http_name_of(message), needed))
        return "Mcp-Name does not agree with the body";
    if (needed && !arguments_agree(carrier, call, message))
        return "a header Mcp-Param-… does not agree with the arguments";
    return NULL;
}

/* Returns true if the call was answered. */
static bool fail_headers(const struct http_carrier *carrier, struct bl_http_call *call,
                         const struct bl_rpc_message *message)
{
    struct bl_text version = bl_http_call_header(call, VERSION_HEADER);
    const struct bl_json *id = message->type == BL_RPC_REQUEST ? message->id : NULL;
    const char *mismatch = find_mismatch(carrier, call, message);

    if (mismatch != NULL) {
        mcp_http_fail(call, 400, id, MCP_HEADER_MISMATCH, mismatch, NOTHING);
        return true;
    }
    if (version.size > 0 && mcp_version_parse(version) == MCP_UNKNOWN_VERSION) {
        fail_version(call, id, version);
        return true;
    }
    return false;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static struct bl_text session_of(const struct bl_http_call *call)
{
    return bl_http_call_header(call, SESSION_HEADER);
}

/* Holds the session that the call names. NULL if the call was answered instead. */
static struct http_session *mcp_http_hold_session(struct http_carrier *carrier,
                                                  struct bl_http_call *call,
                                                  const struct bl_json *id)
{
    if (session_of(call).size == 0) {
        mcp_http_fail(call, 400, id, BL_RPC_INVALID_REQUEST,
                      SESSION_HEADER
                      " is missing: start with initialize, or use 2026-07-28 with _meta",
                      NOTHING);
        return NULL;
    }
    struct http_session *session = http_session_hold(carrier, session_of(call));
    if (session == NULL)
        mcp_http_fail(call, 404, id, NO_SESSION, "no such session: start with initialize", NOTHING);
    return session;
}

static void fail_with_reply(struct bl_http_call *call, int status, const struct bl_json *id,
                            const struct mcp_reply *reply)
{
    BL_AUTO_BUFFER(out, ANSWER_MAX);

    http_reply_write(&out, id, reply);
    bl_http_call_answer(call, status, &json_header, 1, bl_buffer_text(&out));
}

/* Serves the work in a fiber of its own, while this connection reads its stream. If `ends_with_us`,
 * the work is stopped when the connection is lost. Takes ownership of the work. */
static void serve_work(struct http_work *work, struct bl_http_call *call, bool ends_with_us)
{
    const struct bl_json *id = work->request.message.id;
    struct http_stream *stream;
    struct mcp_reply reply = {.code = 0};

    if (!mcp_request_check(&work->request, &reply)) {
        fail_with_reply(call, reply.code == BL_RPC_NO_METHOD && ends_with_us ? 404 : 400, id,
                        &reply);
        http_work_free(work);
        return;
    }
    if (http_work_start(work, &stream) != 0) {
        mcp_http_fail(call, 503, id, BL_RPC_INTERNAL,
                      "too many requests are in progress: try again later", NOTHING);
        http_work_free(work);
        return;
    }
    int code = http_stream_read(stream, call, 0, false);
    if (code != 0 && ends_with_us && stream->work != NULL)
        bl_scope_stop(&stream->work->scope, BL_STOP_CLIENT_GONE, ORIGIN_OF_CLOSING);
    http_stream_drop(stream);
}

static void serve_of_session(struct http_session *session, struct http_work *work,
                             struct bl_http_call *call)
{
    const struct bl_json *id = work->request.message.id;

    if (http_session_find(session, id) != NULL) {
        mcp_http_fail(call, 400, id, BL_RPC_INVALID_REQUEST,
                      "a request with this id is in progress", NOTHING);
        http_work_free(work);
    } else if (session->work_count >= HTTP_WORKS_MAX) {
        mcp_http_fail(call, 429, id, TOO_MUCH, "too many requests of this session are in progress",
                      NOTHING);
        http_work_free(work);
    } else {
        http_work_join(work, session);
        serve_work(work, call, false);
    }
}

/* Served in this fiber: the answer has the session's id in a header. */
static void serve_initialize(struct http_carrier *carrier, struct http_work *work,
                             struct bl_http_call *call)
{
    struct http_session *session;
    struct mcp_reply reply = {.code = 0};
    struct bl_buffer out;

    if (http_session_open(carrier, &session) != 0) {
        mcp_http_fail(call, 503, work->request.message.id, TOO_MUCH,
                      "too many sessions: end one, or try again in a minute", NOTHING);
        return;
    }
    http_work_join(work, session);
    work->request.scope = bl_scope_current();
    if (mcp_request_check(&work->request, &reply))
        mcp_request_serve(&work->request, &reply);
    struct bl_http_header headers[] = {json_header,
                                       {BL_TEXT(SESSION_HEADER), bl_text_from(session->id)}};
    bool opened = reply.code == 0 && !reply.dropped;
    if (!reply.dropped) { /* otherwise the client has disconnected */
        bl_buffer_init(&out, ANSWER_MAX);
        http_reply_write(&out, work->request.message.id, &reply);
        bl_http_call_answer(call, opened ? 200 : 400, headers, opened ? 2 : 1,
                            bl_buffer_text(&out));
        bl_buffer_done(&out);
    }
    if (!opened)
        http_session_end(session, BL_STOP_CLIENT_GONE, "mcp: session not opened");
    http_session_release(session);
}

/* Takes ownership of the work. */
static void mcp_http_serve_request(struct http_carrier *carrier, struct http_work *work,
                                   struct bl_http_call *call)
{
    const struct bl_rpc_message *message = &work->request.message;
    bool has_version = bl_json_is(version_of(message), BL_JSON_STRING);
    struct bl_text header = bl_http_call_header(call, VERSION_HEADER);

    bool opens = bl_text_equal(message->method, BL_TEXT("initialize"));

    if (has_version && !opens) {
        serve_work(work, call, true);
        return;
    }
    if (has_version) {
        mcp_http_fail(call, 404, message->id, BL_RPC_NO_METHOD,
                      "a version with _meta has no initialize: start with any request", NOTHING);
    } else if (mcp_version_parse(header) == MCP_2026_07_28) {
        mcp_http_fail(call, 400, message->id, BL_RPC_INVALID_PARAMS,
                      "params._meta must have the protocol version", VERSION_PATH);
    } else if (opens) {
        serve_initialize(carrier, work, call);
    } else {
        struct http_session *session = mcp_http_hold_session(carrier, call, message->id);
        if (session != NULL) {
            serve_of_session(session, work, call);
            http_session_release(session);
            return;
        }
    }
    http_work_free(work);
}

static void mcp_http_take_notification(struct http_session *session,
                                       const struct bl_rpc_message *message)
{
    if (!bl_text_equal(message->method, BL_TEXT("notifications/cancelled"))) {
        mcp_notification(&session->peer, message->method, message->params);
        return;
    }
    struct http_work *work =
        http_session_find(session, bl_json_get(message->params, BL_TEXT("requestId")));
    if (work != NULL)
        bl_scope_stop(&work->scope, BL_STOP_USER, ORIGIN_OF_CANCEL);
}

/* Messages without an answer: notifications, and unrequested responses. */
static void serve_unanswered(struct http_carrier *carrier, const struct bl_rpc_message *message,
                             struct bl_http_call *call)
{
    bool notification = message->type == BL_RPC_NOTIFICATION;
    struct bl_text header = bl_http_call_header(call, VERSION_HEADER);

    /* The newest version has no notifications that this server must handle. */
    if (notification && mcp_version_parse(header) == MCP_2026_07_28) {
        bl_http_call_answer(call, 202, NULL, 0, NOTHING);
        return;
    }
    struct http_session *session = mcp_http_hold_session(carrier, call, NULL);
    if (session == NULL)
        return;
    if (notification)
        mcp_http_take_notification(session, message);
    bl_http_call_answer(call, 202, NULL, 0, NOTHING);
    http_session_release(session);
}

static void serve_post(struct http_carrier *carrier, struct bl_http_call *call)
{
    struct http_work *work = http_work_new(carrier);
    struct bl_rpc_message *message = &work->request.message;
    struct bl_rpc_fault fault;

    if (bl_rpc_message_read(&work->arena, bl_http_call_body(call), message, &fault) != 0) {
        mcp_http_fail(call, 400, fault.id, fault.code, fault.message, NOTHING);
    } else if (!fail_headers(carrier, call, message)) {
        if (message->type == BL_RPC_REQUEST) {
            mcp_http_serve_request(carrier, work, call);
            return;
        }
        serve_unanswered(carrier, message, call);
    }
    http_work_free(work);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void serve_stream(struct http_session *session, struct bl_http_call *call)
{
    struct bl_text last = bl_http_call_header(call, "last-event-id");
    struct http_stream *stream = session->listening;
    uint32_t number = 0;
    uint64_t after = 0;

    if (last.size == 0) {
        if (stream->reader != NULL)
            mcp_http_fail(call, 409, NULL, BL_RPC_INVALID_REQUEST,
                          "another connection is already listening", NOTHING);
        else
            http_stream_read(stream, call, 0, true);
        return;
    }
    stream =
        http_event_id_parse(last, &number, &after) ? http_session_stream(session, number) : NULL;
    if (stream == NULL)
        mcp_http_fail(call, 400, NULL, BL_RPC_INVALID_REQUEST,
                      "Last-Event-ID: no such stream is kept", NOTHING);
    else if (stream->ended && !http_stream_has_after(stream, after))
        bl_http_call_answer(call, 204, NULL, 0, NOTHING); /* tells the client not to reconnect */
    else
        http_stream_read(stream, call, after, true);
}

/* GET and DELETE, which exist only in the versions with sessions. */
static void serve_session(struct http_carrier *carrier, struct bl_http_call *call)
{
    static const struct bl_http_header allow = {BL_TEXT("Allow"), BL_TEXT("POST")};
    struct bl_text version = bl_http_call_header(call, VERSION_HEADER);
    enum mcp_version spoken = mcp_version_parse(version);

    if (version.size > 0 && spoken == MCP_UNKNOWN_VERSION) {
        fail_version(call, NULL, version);
        return;
    }
    if (spoken == MCP_2026_07_28) {
        bl_http_call_answer(call, 405, &allow, 1, NOTHING);
        return;
    }
    struct http_session *session = mcp_http_hold_session(carrier, call, NULL);
    if (session == NULL)
        return;
    if (is_method(call, "GET")) {
        serve_stream(session, call);
    } else {
        http_session_end(session, BL_STOP_USER, "DELETE");
        /* Even if the client disconnects, the work becomes quiet. */
        if (http_session_await_end(session) == 0)
            bl_http_call_answer(call, 204, NULL, 0, NOTHING);
    }
    http_session_release(session);
}

static void http_serve(void *context, struct bl_http_call *call)
{
    struct http_carrier *carrier = context;

    carrier->readers++;
    if (carrier->closing)
        mcp_http_fail(call, 503, NULL, BL_RPC_INTERNAL, "the server is shutting down", NOTHING);
    else if (is_method(call, "POST"))
        serve_post(carrier, call);
    else
        serve_session(carrier, call);
    carrier->readers--;
    http_carrier_changed(carrier);
}

/* ---- The carrier ----------------------------------------------------------------------------- */

struct stop_watch {
    struct bl_stop_hook hook;
    struct bl_semaphore stopped;
};

static void on_stop_requested(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    struct stop_watch *watch = BL_CONTAINER(hook, struct stop_watch, hook);

    (void)scope;
    bl_semaphore_give(&watch->stopped);
}

/* Stops all work for its reason, waits for it, and lets the last answers be sent. */
static void close_carrier(struct http_carrier *carrier, const struct bl_stop *stop)
{
    uint64_t until_ns;

    carrier->closing = true;
    BL_MAP_EACH (entry, &carrier->sessions)
        http_session_end(entry->value, stop->reason, stop->origin);
    BL_LIST_EACH (link, &carrier->works)
        bl_scope_stop(&BL_CONTAINER(link, struct http_work, link)->scope, stop->reason,
                      stop->origin);
    while (carrier->session_count > 0 || !bl_list_empty(&carrier->works))
        bl_semaphore_take(&carrier->changed);
    until_ns = bl_time_add(bl_now_ns(), LINGER_NS);
    while (carrier->readers > 0 && http_wait(&carrier->changed, until_ns) == 0)
        continue;
}

static int mcp_http_check_options(const struct mcp_server *server,
                                  const struct bl_mcp_server_options *options,
                                  struct bl_error *error)
{
    /* Only a test's tools may be served to every client. */
    if (!server->own || (options->token != NULL && options->token[0] != '\0'))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "mcp", NULL, "HTTP requires a token");
    bl_error_hint(error, "set a token that each request must send");
    return BL_EINVAL;
}

static int mcp_http_serve_until_stopped(struct http_carrier *carrier, struct bl_scope *outer,
                                        struct bl_error *error)
{
    const struct bl_mcp_server_options *options = carrier->options;
    struct bl_http_server_options http = {
        .address = options->address != NULL ? options->address : "127.0.0.1",
        .port = options->port,
        .body_max = HTTP_BODY_MAX,
        .knows_host = knows_host,
        .admit = mcp_http_admit,
        .serve = http_serve,
        .context = carrier,
    };
    struct bl_http_server *server;
    struct stop_watch watch;
    struct bl_stop stop;
    int code = bl_http_server_start(&carrier->nursery, &http, &server, error);

    if (code != 0)
        return code;
    bl_semaphore_init(&watch.stopped, 0);
    bl_stop_hook_add(&watch.hook, outer, on_stop_requested);
    if (options->listening != NULL)
        options->listening(options->context, bl_http_server_port(server));
    bl_semaphore_take(&watch.stopped);
    bl_stop_hook_remove(&watch.hook);
    bl_scope_stop_read(outer, &stop);
    close_carrier(carrier, &stop);
    bl_http_server_stop(server);
    return 0;
}

int mcp_http_serve(struct mcp_server *server, const struct bl_mcp_server_options *options,
                   struct bl_error *error)
{
    struct http_carrier carrier = {.server = server, .options = options};
    struct bl_scope *outer = bl_scope_current();
    struct bl_scope shield;
    int code = mcp_http_check_options(server, options, error);

    if (code != 0)
        return code;
    bl_map_init(&carrier.sessions);
    bl_list_init(&carrier.works);
    bl_semaphore_init(&carrier.changed, 0);
    /* A stop is passed on explicitly, with its reason. */
    bl_shield_begin(&shield, BL_NEVER);
    bl_nursery_init(&carrier.nursery, bl_scope_current());
    code = mcp_http_serve_until_stopped(&carrier, outer, error);
    bl_nursery_done(&carrier.nursery);
    bl_shield_end(&shield);
    bl_map_done(&carrier.sessions);
    return code;
}
