/* Streamable HTTP of both generations of the protocol: one exchange for each request, answered by
 * one JSON object or by a stream of events. Before 2026-07-28 there are sessions, and a lost stream
 * is resumed where it stopped; since then each request is independent. */
#include <ctype.h>
#include <stdio.h>

#include "mcp.h"

#define OPERATION    "ask an MCP server"
#define CONNECT_NS   (10 * BL_NS_PER_S)
#define SIDE_NS      (200 * BL_NS_PER_MS) /* for courtesy messages */
#define DRAIN_NS     (10 * BL_NS_PER_MS)
#define RETRY_MS     1000
#define RETRY_MS_MAX 60000
/* Consecutive resumptions of a stream without anything new. */
#define RESUMES_MAX     5u
#define FAILED_BODY_MAX ((size_t)64 * 1024)
#define SESSION_MAX     ((size_t)1024)
#define HEADER_NAME_MAX ((size_t)128)
#define OWN_HEADERS     8u

struct mcp_http {
    struct bl_client *client;
    struct bl_nursery listening;
    struct bl_buffer session; /* empty if there is none */
    int64_t asked;
};

/* A request, with its headers and everything read for it. */
struct talk {
    struct mcp_server *server;
    const struct mcp_request *request;
    struct bl_arena *arena;  /* of the result */
    struct bl_arena scratch; /* headers, and other messages */
    struct bl_json id;
    struct bl_buffer last_id; /* of the stream's events; empty if there is none */
    int64_t retry_ms;
    bool heard; /* something new came since the stream was resumed */
    bool sent;
    const struct bl_json *result; /* NULL if there is none yet */
    bool failed;
    struct bl_rpc_failure failure;
    struct bl_error *error;
};

/* ---- Headers ------------------------------------------------------------------------------- */

bool mcp_header_name_fits(struct bl_text name)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) &&
            memchr(marks, name.data[i], sizeof marks - 1) == NULL)
            return false;
    return name.size > 0 && name.size <= HEADER_NAME_MAX;
}

static bool is_plain_value(struct bl_text value)
{
    bool marked =
        bl_text_starts_with(value, BL_TEXT("=?base64?")) && bl_text_ends_with(value, BL_TEXT("?="));
    for (size_t i = 0; i < value.size; i++)
        if ((unsigned char)value.data[i] < 0x20 || (unsigned char)value.data[i] > 0x7e)
            return false;
    return !marked && bl_text_trim(value).size == value.size;
}

struct bl_text mcp_header_value(struct bl_arena *arena, struct bl_text value)
{
    BL_AUTO_BUFFER(out, SIZE_MAX);
    if (is_plain_value(value))
        return bl_arena_text(arena, value);
    bl_buffer_append(&out, BL_TEXT("=?base64?"));
    bl_base64_encode(&out, value);
    bl_buffer_append(&out, BL_TEXT("?="));
    return bl_arena_text(arena, bl_buffer_text(&out));
}

bool mcp_header_find(struct bl_arena *arena, const struct mcp_header *header,
                     const struct bl_json *arguments, struct bl_text *ret_value)
{
    const struct bl_json *value = arguments;
    int64_t number;
    for (size_t i = 0; i < header->depth; i++)
        value = bl_json_get(value, header->path[i]);
    if (bl_json_is(value, BL_JSON_STRING))
        *ret_value = mcp_header_value(arena, bl_json_text(value));
    else if (bl_json_is(value, BL_JSON_BOOLEAN))
        *ret_value = value->boolean ? BL_TEXT("true") : BL_TEXT("false");
    else if (bl_json_int64(value, &number))
        *ret_value = bl_arena_printf(arena, "%lld", (long long)number);
    else
        return false;
    return true;
}

/* ---- Sending --------------------------------------------------------------------------------- */

struct header_list {
    struct bl_http_header *items;
    size_t count;
};

static void mcp_http_add(struct header_list *list, struct bl_text name, struct bl_text value)
{
    list->items[list->count++] = (struct bl_http_header){name, value};
}

static void add_entry_headers(struct header_list *list, const struct bl_mcp_entry *entry)
{
    for (size_t i = 0; entry->headers[i] != NULL; i++) {
        struct bl_text rest = bl_text_from(entry->headers[i]), name;
        bl_text_split(&rest, ':', &name);
        mcp_http_add(list, name, bl_text_trim(rest));
    }
}

/* Adds the headers that the protocol version requires for each request. */
static void add_request_headers(struct header_list *list, struct talk *talk)
{
    const struct mcp_request *request = talk->request;
    struct bl_text value;
    mcp_http_add(list, BL_TEXT("Mcp-Method"), bl_text_from(request->method));
    if (request->name.size > 0)
        mcp_http_add(list, BL_TEXT("Mcp-Name"), mcp_header_value(&talk->scratch, request->name));
    for (size_t i = 0; request->tool != NULL && i < request->tool->header_count; i++)
        if (mcp_header_find(&talk->scratch, &request->tool->headers[i], request->arguments, &value))
            mcp_http_add(list, bl_text_from(request->tool->headers[i].name), value);
}

/* An empty `body` means a GET of the stream, or a DELETE. */
static int open_exchange(struct talk *talk, const char *method, struct bl_text body,
                         struct bl_exchange **ret_exchange)
{
    struct mcp_server *server = talk->server;
    struct bl_text session = bl_buffer_text(&server->http->session);
    const struct mcp_tool *tool = talk->request != NULL ? talk->request->tool : NULL;
    /* A new session is requested without the id of the old one. */
    bool opening = talk->request != NULL && strcmp(talk->request->method, "initialize") == 0;
    struct header_list list = {0};
    size_t count = OWN_HEADERS + (tool != NULL ? tool->header_count : 0);
    for (size_t i = 0; server->entry->headers[i] != NULL; i++)
        count++;
    list.items = bl_arena_alloc(&talk->scratch, count * sizeof *list.items);
    if (body.size > 0)
        mcp_http_add(&list, BL_TEXT("Content-Type"), BL_TEXT("application/json"));
    mcp_http_add(&list, BL_TEXT("Accept"),
                 body.size > 0 ? BL_TEXT("application/json, text/event-stream")
                               : BL_TEXT("text/event-stream"));
    if (server->modern)
        mcp_http_add(&list, BL_TEXT("MCP-Protocol-Version"), BL_TEXT(MCP_MODERN));
    else if (server->protocol != NULL)
        mcp_http_add(&list, BL_TEXT("MCP-Protocol-Version"), bl_text_from(server->protocol));
    if (!server->modern && session.size > 0 && !opening)
        mcp_http_add(&list, BL_TEXT("Mcp-Session-Id"), bl_arena_text(&talk->scratch, session));
    if (talk->last_id.size > 0)
        mcp_http_add(&list, BL_TEXT("Last-Event-ID"), bl_buffer_text(&talk->last_id));
    if (server->modern && talk->request != NULL)
        add_request_headers(&list, talk);
    add_entry_headers(&list, server->entry);
    struct bl_http_request *request = bl_arena_zalloc(&talk->scratch, sizeof *request);
    *request = (struct bl_http_request){
        .method = method,
        .url = server->entry->url,
        .headers = list.items,
        .header_count = list.count,
        .body = body,
        .connect_ns = CONNECT_NS,
    };
    return bl_exchange_new(server->http->client, request, ret_exchange, talk->error);
}

static int mcp_http_lost(struct talk *talk, const struct bl_exchange *exchange)
{
    const struct bl_wire_failure *failure = bl_exchange_failure(exchange);
    const char *why = failure->message[0] != '\0' ? failure->message : "the connection was lost";
    bl_error_set(talk->error, BL_EIO, BL_KIND_MCP, OPERATION, talk->server->entry->name, "%s", why);
    talk->sent = talk->sent || !bl_exchange_unsent(exchange);
    if (!talk->sent)
        bl_error_name_set(talk->error, "unsent");
    return BL_EIO;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void talk_init(struct talk *talk, struct mcp_server *server, struct bl_arena *arena,
                      struct bl_error *error)
{
    *talk = (struct talk){.server = server, .arena = arena, .retry_ms = RETRY_MS, .error = error};
    bl_arena_init(&talk->scratch);
    bl_buffer_init(&talk->last_id, BL_WIRE_HEADER_LINE_MAX / 2);
}

static void talk_done(struct talk *talk)
{
    bl_buffer_done(&talk->last_id);
    bl_arena_done(&talk->scratch);
}

/* Sends a message that has no answer. */
static int mcp_http_post(struct talk *talk, struct bl_text body)
{
    struct bl_exchange *exchange = NULL;
    int code = open_exchange(talk, "POST", body, &exchange);
    if (code == 0)
        code = bl_exchange_headers(exchange);
    if (code == BL_EIO)
        code = mcp_http_lost(talk, exchange);
    if (code == 0) {
        int status = bl_exchange_status(exchange);
        bl_exchange_drain(exchange, DRAIN_NS);
        if (status < 200 || status > 299)
            code = bl_error_set(talk->error, BL_ENOTSUP, BL_KIND_MCP, OPERATION,
                                talk->server->entry->name, "it returned status %d", status);
    }
    bl_exchange_free(exchange);
    return code;
}

/* Older servers may send requests in the middle of an answer. */
static void answer_request(struct talk *talk, const struct bl_rpc_message *message)
{
    struct talk *side = bl_alloc(sizeof *side);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_buffer body;
    talk_init(side, talk->server, NULL, error);
    bl_buffer_init(&body, SIZE_MAX);
    struct bl_text answer = mcp_server_answer(talk->server, &side->scratch, message->method);
    if (answer.size > 0)
        bl_rpc_write_result(&body, message->id, answer);
    else
        bl_rpc_write_error(&body, message->id, BL_RPC_NO_METHOD, "method not found",
                           (struct bl_text){0});
    mcp_http_post(side, bl_buffer_text(&body));
    bl_buffer_done(&body);
    talk_done(side);
    bl_free(error);
    bl_free(side);
}

/* Handles one message of the server. Without `talk->request` no answer is expected. */
static void mcp_http_take_message(struct talk *talk, struct bl_text text, bool whole)
{
    struct bl_arena *arena = talk->arena != NULL ? talk->arena : &talk->scratch;
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct bl_rpc_message message;
    struct bl_rpc_fault fault;
    if (bl_rpc_message_read(arena, text, &message, &fault) != 0)
        return;
    bool wanted = talk->request != NULL;
    switch (message.type) {
    case BL_RPC_RESULT:
        if (wanted && bl_rpc_id_equal(message.id, &talk->id)) {
            talk->result = message.result;
            return;
        }
        break;
    case BL_RPC_ERROR:
        /* An error without our id is the only message of its answer: the server could not read the
         * id. */
        if (wanted && (whole || bl_rpc_id_equal(message.id, &talk->id))) {
            talk->failed = true;
            talk->failure = (struct bl_rpc_failure){message.code, message.message, message.data};
            return;
        }
        break;
    case BL_RPC_NOTIFICATION: mcp_server_told(talk->server, message.method, message.params); break;
    case BL_RPC_REQUEST: answer_request(talk, &message); break;
    }
    bl_arena_rewind(arena, mark);
}

static bool is_answered(const struct talk *talk)
{
    return talk->result != NULL || talk->failed;
}

static int mcp_http_take_event(void *context, const struct bl_sse_event *event)
{
    struct talk *talk = context;
    talk->heard = true;
    if (event->data.size > 0)
        mcp_http_take_message(talk, event->data, false);
    return is_answered(talk) ? BL_ECLOSED : bl_check();
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int read_stream(struct talk *talk, struct bl_exchange *exchange)
{
    struct bl_sse sse;
    struct bl_text bytes;
    int code;
    bl_sse_init(&sse, BL_RPC_LINE_MAX, BL_RPC_LINE_MAX);
    while ((code = bl_exchange_read(exchange, &bytes)) == 0 && bytes.size > 0) {
        code = bl_sse_feed(&sse, bytes, mcp_http_take_event, talk);
        if (code != 0)
            break;
    }
    if (code == 0)
        code = bl_sse_end(&sse, mcp_http_take_event, talk);
    if (sse.id.size > 0 && !talk->server->modern) {
        bl_buffer_clear(&talk->last_id);
        bl_buffer_append(&talk->last_id, bl_buffer_text(&sse.id));
    }
    if (sse.retry_ms >= 0)
        talk->retry_ms = sse.retry_ms < RETRY_MS_MAX ? sse.retry_ms : RETRY_MS_MAX;
    bl_sse_done(&sse);
    if (code == BL_ECLOSED) {
        bl_exchange_drain(exchange, DRAIN_NS);
        return 0;
    }
    if (code == BL_EIO)
        mcp_http_lost(talk, exchange);
    if (code == BL_ELIMIT)
        bl_error_set(talk->error, code, BL_KIND_MCP, OPERATION, talk->server->entry->name,
                     "it sent more than 16 MiB in one message");
    return code;
}

static int mcp_http_read_body(struct talk *talk, struct bl_exchange *exchange, size_t maximum,
                              struct bl_buffer *out)
{
    struct bl_text bytes;
    int code;
    bl_buffer_init(out, maximum);
    while ((code = bl_exchange_read(exchange, &bytes)) == 0 && bytes.size > 0) {
        code = bl_buffer_append(out, bytes);
        if (code != 0)
            return bl_error_set(talk->error, code, BL_KIND_MCP, OPERATION,
                                talk->server->entry->name, "its response is too large");
    }
    return code == BL_EIO ? mcp_http_lost(talk, exchange) : code;
}

static int mcp_http_take_status(struct talk *talk, int status)
{
    const char *name = talk->server->entry->name;
    bool session = talk->server->http->session.size > 0 && !talk->server->modern;
    if (status == 404 && session)
        return bl_error_set(talk->error, BL_ECLOSED, BL_KIND_MCP, OPERATION, name,
                            "it no longer knows our session");
    bl_error_set(talk->error, BL_ENOTSUP, BL_KIND_MCP, OPERATION, name, "it returned status %d",
                 status);
    if (status == 401 || status == 403)
        bl_error_hint(talk->error, "add the required credentials to 'headers' of its entry");
    return BL_ENOTSUP;
}

/* Reads the answer in either form. Also returns 0 if a stream ended without one. */
static int mcp_http_read_answer(struct talk *talk, struct bl_exchange *exchange)
{
    int status = bl_exchange_status(exchange);
    bool good = status >= 200 && status <= 299;
    struct bl_text type = bl_exchange_header(exchange, "content-type");
    struct bl_buffer body;
    if (good && bl_text_starts_with(type, BL_TEXT("text/event-stream")))
        return read_stream(talk, exchange);
    if (status == 404 && talk->server->http->session.size > 0 && !talk->server->modern)
        return mcp_http_take_status(talk, status);
    int code = mcp_http_read_body(talk, exchange, good ? BL_RPC_LINE_MAX : FAILED_BODY_MAX, &body);
    if (code == 0)
        mcp_http_take_message(talk, bl_buffer_text(&body), true);
    bl_buffer_done(&body);
    if (is_answered(talk) || (code != 0 && good))
        return code;
    if (!good)
        return bl_scope_check(bl_scope_current()) != 0 ? code : mcp_http_take_status(talk, status);
    return bl_error_set(talk->error, BL_EPARSE, BL_KIND_MCP, OPERATION, talk->server->entry->name,
                        "its response is not a valid protocol message");
}

static void mcp_http_take_session(struct talk *talk, const struct bl_exchange *exchange)
{
    struct bl_buffer *session = &talk->server->http->session;
    if (talk->request == NULL || strcmp(talk->request->method, "initialize") != 0)
        return;
    bl_buffer_clear(session);
    bl_buffer_append(session, bl_exchange_header(exchange, "mcp-session-id"));
}

static int exchange_once(struct talk *talk, const char *method, struct bl_text body)
{
    struct bl_exchange *exchange = NULL;
    int code = open_exchange(talk, method, body, &exchange);
    if (code == 0)
        code = bl_exchange_headers(exchange);
    if (code == BL_EIO)
        code = mcp_http_lost(talk, exchange);
    else if (exchange != NULL)
        talk->sent = talk->sent || !bl_exchange_unsent(exchange);
    if (code == 0) {
        mcp_http_take_session(talk, exchange);
        code = mcp_http_read_answer(talk, exchange);
    }
    bl_exchange_free(exchange);
    return code;
}

/* Resumes a stream that ended without the answer, if its events have ids. */
static int mcp_http_resume(struct talk *talk, int code)
{
    unsigned silent = 0;
    while (!is_answered(talk) && (code == 0 || code == BL_EIO) && talk->last_id.size > 0 &&
           silent < RESUMES_MAX) {
        *talk->error = (struct bl_error){0};
        talk->heard = false;
        code = bl_sleep((uint64_t)talk->retry_ms * BL_NS_PER_MS);
        if (code == 0)
            code = exchange_once(talk, "GET", (struct bl_text){0});
        silent = talk->heard ? 0 : silent + 1;
    }
    if (is_answered(talk))
        return 0;
    return code != 0
               ? code
               : bl_error_set(talk->error, BL_EIO, BL_KIND_MCP, OPERATION,
                              talk->server->entry->name, "its stream ended without a response");
}

/* ---- For other files ------------------------------------------------------------------------- */

int mcp_http_open(struct mcp_server *server, struct bl_error *error)
{
    struct bl_client_options options = {0};
    struct mcp_http *http = bl_zalloc(sizeof *http);
    (void)error;
    bl_proxies_read(&options.proxies);
    http->client = bl_client_new(&options);
    bl_buffer_init(&http->session, SESSION_MAX);
    bl_nursery_init(&http->listening, &server->toolbox->mcp_nursery->scope);
    server->http = http;
    return 0;
}

struct bl_nursery *mcp_http_nursery(const struct mcp_server *server)
{
    return &server->http->listening;
}

int mcp_http_notify(struct mcp_server *server, const char *method, struct bl_text params,
                    struct bl_error *error)
{
    struct talk *talk = bl_alloc(sizeof *talk);
    struct bl_buffer body;
    talk_init(talk, server, NULL, error);
    bl_buffer_init(&body, SIZE_MAX);
    bl_rpc_write_notification(&body, method, params);
    int code = mcp_http_post(talk, bl_buffer_text(&body));
    bl_buffer_done(&body);
    talk_done(talk);
    bl_free(talk);
    return code;
}

static void tell_cancelled(struct mcp_server *server, int64_t id)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope shield;
    char params[96];
    int size = snprintf(params, sizeof params, "{\"requestId\":%lld,\"reason\":\"stopped\"}",
                        (long long)id);
    bl_shield_begin(&shield, SIDE_NS);
    mcp_http_notify(server, "notifications/cancelled", (struct bl_text){params, (size_t)size},
                    error);
    bl_shield_end(&shield);
    bl_free(error);
}

int mcp_http_ask(struct mcp_server *server, const struct mcp_request *request,
                 struct bl_arena *arena, const struct bl_json **ret_result,
                 struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    struct talk *talk = bl_alloc(sizeof *talk);
    struct bl_buffer body;
    talk_init(talk, server, arena, error);
    talk->request = request;
    talk->id = (struct bl_json){.type = BL_JSON_INTEGER, .integer = ++server->http->asked};
    bl_buffer_init(&body, SIZE_MAX);
    bl_rpc_write_request(&body, &talk->id, request->method, request->params);
    int code = exchange_once(talk, "POST", bl_buffer_text(&body));
    if (!is_answered(talk) && (code == 0 || code == BL_EIO))
        code = mcp_http_resume(talk, code);
    if (is_answered(talk))
        code = 0;
    if (code == 0 && talk->failed) {
        if (ret_failure != NULL)
            *ret_failure = talk->failure;
        code = bl_error_set(error, BL_EREFUSED, BL_KIND_DELIVERY, request->method,
                            server->entry->name, BL_TEXT_FORMAT " (%lld)",
                            BL_TEXT_ARG(bl_utf8_cut(talk->failure.message, 300)),
                            (long long)talk->failure.code);
    } else if (code == 0) {
        *ret_result = talk->result;
    }
    bool stopped = code == BL_ECANCELED || code == BL_ETIMEDOUT;
    if (stopped && talk->sent && !server->modern && strcmp(request->method, "initialize") != 0)
        tell_cancelled(server, talk->id.integer);
    bl_buffer_done(&body);
    talk_done(talk);
    bl_free(talk);
    return code;
}

int mcp_http_listen(struct mcp_server *server)
{
    struct talk *talk = bl_alloc(sizeof *talk);
    struct bl_error *error = bl_zalloc(sizeof *error);
    talk_init(talk, server, NULL, error);
    int code = exchange_once(talk, "GET", (struct bl_text){0});
    talk_done(talk);
    bl_free(error);
    bl_free(talk);
    return code == 0 ? BL_EPIPE : code;
}

/* Ends its session with ours; a server that ignores this lets the session expire. */
static void end_session(struct mcp_server *server)
{
    struct talk *talk = bl_alloc(sizeof *talk);
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_exchange *exchange = NULL;
    struct bl_scope shield;
    talk_init(talk, server, NULL, error);
    bl_shield_begin(&shield, SIDE_NS);
    if (open_exchange(talk, "DELETE", (struct bl_text){0}, &exchange) == 0)
        bl_exchange_headers(exchange);
    bl_exchange_free(exchange);
    bl_shield_end(&shield);
    talk_done(talk);
    bl_free(error);
    bl_free(talk);
}

void mcp_http_close(struct mcp_server *server)
{
    struct mcp_http *http = server->http;
    if (http == NULL)
        return;
    bl_nursery_done(&http->listening);
    if (!server->modern && http->session.size > 0)
        end_session(server);
    server->http = NULL;
    bl_client_free(http->client);
    bl_buffer_done(&http->session);
    bl_free(http);
}
