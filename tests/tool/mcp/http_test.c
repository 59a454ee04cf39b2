#include "mcp_house.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

static enum bl_mechanism container = BL_MECHANISM_NONE;

#define PLAIN(name, body)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_loop(body, &container);                                                             \
    }

/* ---- A server ---- */

static struct remote {
    struct bl_http_server *server;
    bool modern;
    bool sessions;    /* assigns session ids, and knows only the newest */
    bool streams;     /* answers calls with events */
    bool cuts;        /* ends the stream before the answer, once for each call */
    bool mute;        /* resumed streams end at once, the first with an event */
    bool listless;    /* its list of tools is invalid */
    bool silent;      /* calls are never answered */
    bool changes;     /* announces changes, as soon as a client listens */
    int refuses;      /* status of every answer; 0 for none */
    int accepts;      /* status of the answer to a notification; 0: 202 */
    int closed;       /* status of an answer to `initialize`; 0: a session */
    unsigned session; /* the newest */
    unsigned gets;    /* GET requests for streams */
    unsigned calls;
    unsigned cancels;
    unsigned deletes;
    unsigned answers; /* of the client, to requests in a stream */
    char last[8192];  /* the relevant headers of the newest call */
    char resumed[64]; /* Last-Event-ID of the newest GET */
    double cut_ms;    /* when the newest stream was cut, and when the GET resumed it */
    double resumed_ms;
    double gone_ms; /* when the client of a silent call disconnected */
} remote;

static const struct bl_http_header json_type = {BL_TEXT("Content-Type"),
                                                BL_TEXT("application/json")};
static const struct bl_http_header event_type = {BL_TEXT("Content-Type"),
                                                 BL_TEXT("text/event-stream")};

static void answer(struct bl_http_call *call, int status, const char *body)
{
    bl_http_call_answer(call, status, &json_type, 1, bl_text_from(body));
}

static void answer_result(struct bl_http_call *call, const char *id, const char *result)
{
    struct bl_text body = bl_arena_printf(
        bl_http_call_arena(call), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result);
    struct bl_text session =
        bl_arena_printf(bl_http_call_arena(call), "session-%u", remote.session);
    struct bl_http_header headers[] = {json_type, {BL_TEXT("Mcp-Session-Id"), session}};
    bl_http_call_answer(call, 200, headers, remote.sessions ? 2 : 1, body);
}

static void note_header(struct bl_http_call *call, const char *name)
{
    size_t used = strlen(remote.last);
    struct bl_text value = bl_http_call_header(call, name);
    snprintf(remote.last + used, sizeof remote.last - used, "%s=" BL_TEXT_FORMAT ";", name,
             BL_TEXT_ARG(value));
}

static void note_headers(struct bl_http_call *call)
{
    static const char *const names[] = {"MCP-Protocol-Version",
                                        "Mcp-Method",
                                        "Mcp-Name",
                                        "Mcp-Session-Id",
                                        "Mcp-Param-Region",
                                        "Mcp-Param-Flag",
                                        "Mcp-Param-Deep",
                                        "Authorization",
                                        "Accept",
                                        "X-Last"};
    remote.last[0] = '\0';
    for (size_t i = 0; i < BL_COUNT(names); i++)
        note_header(call, names[i]);
}

#define TOOLS                                                                                      \
    "{\"tools\":[{\"name\":\"a tool\",\"inputSchema\":{\"type\":\"object\",\"properties\":{"       \
    "\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},\"flag\":{\"type\":\"boolean\"," \
    "\"x-mcp-header\":\"Flag\"},\"in\":{\"type\":\"object\",\"properties\":{\"deep\":{\"type\":"   \
    "\"integer\",\"x-mcp-header\":\"Deep\"}}}}}}]}"
#define RESULT "{\"content\":[{\"type\":\"text\",\"text\":\"from afar\"}]}"

static void send_answer_event(struct bl_http_call *call, const char *id, const char *event_id)
{
    struct bl_text event = bl_arena_printf(bl_http_call_arena(call),
                                           "id: %s\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,"
                                           "\"result\":" RESULT "}\n\n",
                                           event_id, id);
    bl_http_call_write(call, event);
}

/* Answers with events: first another message, and a request to the client. */
static void stream_call(struct bl_http_call *call, const char *id)
{
    bl_http_call_begin(call, 200, &event_type, 1);
    bl_http_call_write(call, BL_TEXT("id: e1\nretry: 50\ndata:\n\n: comment\n\n"
                                     "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                                     "message\",\"params\":{}}\n\n"));
    if (!remote.modern)
        bl_http_call_write(call, BL_TEXT("data: {\"jsonrpc\":\"2.0\",\"id\":77,\"method\":"
                                         "\"ping\"}\n\n"));
    if (remote.cuts) {
        remote.cut_ms = now_ms();
        bl_http_call_end(call);
        return;
    }
    send_answer_event(call, id, "e2");
    bl_http_call_end(call);
}

static void serve_call(struct bl_http_call *call, const char *id)
{
    remote.calls++;
    note_headers(call);
    if (remote.silent) {
        while (bl_sleep(BL_NS_PER_S) == 0)
            continue;
        remote.gone_ms = now_ms();
    } else if (remote.streams) {
        stream_call(call, id);
    } else {
        answer_result(call, id, RESULT);
    }
}

static void serve_get(struct bl_http_call *call)
{
    struct bl_text from = bl_http_call_header(call, "Last-Event-ID");
    remote.gets++;
    if (from.size == 0 && !remote.changes) {
        answer(call, 405, "{}");
        return;
    }
    bl_http_call_begin(call, 200, &event_type, 1);
    if (from.size > 0) {
        char id[32];
        remote.resumed_ms = now_ms();
        snprintf(remote.resumed, sizeof remote.resumed, BL_TEXT_FORMAT, BL_TEXT_ARG(from));
        /* Calls have consecutive ids from the client. */
        snprintf(id, sizeof id, "%u", remote.calls + 3);
        if (!remote.mute)
            send_answer_event(call, id, "e3");
        else if (remote.gets == 1)
            bl_http_call_write(call, BL_TEXT("id: e4\ndata:\n\n"));
    } else {
        bl_http_call_write(call, BL_TEXT("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                                         "tools/list_changed\"}\n\n"));
        while (bl_sleep(BL_NS_PER_S) == 0)
            continue;
    }
    bl_http_call_end(call);
}

static void serve_listen(struct bl_http_call *call)
{
    bl_http_call_begin(call, 200, &event_type, 1);
    bl_http_call_write(call, BL_TEXT("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/"
                                     "list_changed\"}\n\n"));
    while (bl_sleep(BL_NS_PER_S) == 0)
        continue;
}

static void serve_message(struct bl_http_call *call, const struct bl_rpc_message *message)
{
    char id[32] = "null";
    int64_t number;
    if (message->id != NULL && bl_json_int64(message->id, &number))
        snprintf(id, sizeof id, "%lld", (long long)number);
    if (bl_text_equal(message->method, BL_TEXT("tools/list"))) {
        answer_result(call, id, remote.listless ? "{\"tools\":{}}" : TOOLS);
    } else if (bl_text_equal(message->method, BL_TEXT("tools/call"))) {
        serve_call(call, id);
    } else if (bl_text_equal(message->method, BL_TEXT("subscriptions/listen"))) {
        serve_listen(call);
    } else if (remote.modern && bl_text_equal(message->method, BL_TEXT("server/discover"))) {
        answer_result(call, id,
                      remote.changes
                          ? "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{"
                            "\"listChanged\":true}}}"
                          : "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}");
    } else if (remote.closed != 0 && bl_text_equal(message->method, BL_TEXT("initialize"))) {
        answer(call, remote.closed, "{}");
    } else if (!remote.modern && bl_text_equal(message->method, BL_TEXT("initialize"))) {
        remote.session++;
        answer_result(call, id,
                      remote.changes ? "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{"
                                       "\"tools\":{\"listChanged\":true}}}"
                                     : "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}");
    } else {
        answer(call, 400, "no such method");
    }
}

/* Older servers must get the id of the newest session. */
static bool knows_session(struct bl_http_call *call)
{
    char expected[32];
    struct bl_text named = bl_http_call_header(call, "Mcp-Session-Id");
    snprintf(expected, sizeof expected, "session-%u", remote.session);
    return !remote.sessions || named.size == 0 || bl_text_equal(named, bl_text_from(expected));
}

static void serve(void *context, struct bl_http_call *call)
{
    struct bl_text method = bl_http_call_method(call);
    struct bl_rpc_message message;
    struct bl_rpc_fault fault;
    (void)context;
    if (remote.refuses != 0) {
        answer(call, remote.refuses, "go away");
    } else if (bl_text_equal(method, BL_TEXT("DELETE"))) {
        remote.deletes++;
        answer(call, 200, "{}");
    } else if (!knows_session(call)) {
        answer(call, 404,
               "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":"
               "\"Session not found\"}}");
    } else if (bl_text_equal(method, BL_TEXT("GET"))) {
        serve_get(call);
    } else if (bl_rpc_message_read(bl_http_call_arena(call), bl_http_call_body(call), &message,
                                   &fault) != 0) {
        answer(call, 400, "no message");
    } else if (message.type == BL_RPC_REQUEST) {
        serve_message(call, &message);
    } else {
        remote.cancels += message.type == BL_RPC_NOTIFICATION &&
                          bl_text_equal(message.method, BL_TEXT("notifications/cancelled"));
        remote.answers += message.type == BL_RPC_RESULT;
        bl_http_call_answer(call, remote.accepts != 0 ? remote.accepts : 202, NULL, 0,
                            (struct bl_text){0});
    }
}

/* ---- A house with it ---- */

static struct bl_nursery nursery;

static struct house *open_remote(bool ready)
{
    struct bl_http_server_options options = {.address = "127.0.0.1", .serve = serve};
    static const char *const headers[] = {"Authorization: Bearer test",
                                          "X-1: 1",
                                          "X-2: 2",
                                          "X-3: 3",
                                          "X-4: 4",
                                          "X-5: 5",
                                          "X-6: 6",
                                          "X-7: 7",
                                          "X-8: 8",
                                          "X-9: 9",
                                          "X-Last: last",
                                          NULL};
    struct bl_error error = {0};
    char url[64];
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &remote.server, &error), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/mcp", bl_http_server_port(remote.server));
    struct house *house = house_new(container);
    house_add_address(house, "far", url)->headers = headers;
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), ready ? "ready" : "failed") == 0);
    return house;
}

static void close_remote(struct house *house)
{
    house_done(house);
    bl_http_server_stop(remote.server);
    bl_nursery_done(&nursery);
}

static bool has_header(const char *text)
{
    bool found = strstr(remote.last, text) != NULL;
    if (!found)
        fprintf(stderr, "not '%s' in: %s\n", text, remote.last);
    return found;
}

static int speaks_modern(void *argument)
{
    (void)argument;
    remote = (struct remote){.modern = true};
    struct house *house = open_remote(true);
    CHECK(strcmp(house_server(house, 0)->protocol, "2026-07-28") == 0);
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool",
                           "{\"region\":\"\xC3\xA4\",\"flag\":true,\"in\":{\"deep\":-7}}"),
                0);
    CHECK(house_says(house, "from afar"));
    CHECK(has_header("MCP-Protocol-Version=2026-07-28;"));
    CHECK(has_header("Mcp-Method=tools/call;") && has_header("Mcp-Name=a tool;"));
    CHECK(has_header("Mcp-Session-Id=;") && has_header("Authorization=Bearer test;"));
    CHECK(has_header("X-Last=last;"));
    CHECK(has_header("Mcp-Param-Region==?base64?w6Q=?=;"));
    CHECK(has_header("Mcp-Param-Flag=true;") && has_header("Mcp-Param-Deep=-7;"));
    CHECK(has_header("Accept=application/json, text/event-stream;"));
    /* A missing argument, or null, has no header. */
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{\"region\":\"us-west1\"}"), 0);
    CHECK(has_header("Mcp-Param-Region=us-west1;") && has_header("Mcp-Param-Flag=;"));
    CHECK_EQUAL(remote.deletes, 0);
    close_remote(house);
    CHECK_EQUAL(remote.deletes, 0);
    return 0;
}

PLAIN(M2_a_server_of_2026_gets_the_headers_of_its_era, speaks_modern)

static int speaks_legacy(void *argument)
{
    (void)argument;
    remote = (struct remote){.sessions = true, .streams = true};
    struct house *house = open_remote(true);
    CHECK(strcmp(house_server(house, 0)->protocol, "2025-06-18") == 0);
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{\"region\":\"x\"}"), 0);
    CHECK(house_says(house, "from afar"));
    CHECK(has_header("MCP-Protocol-Version=2025-06-18;") && has_header("Mcp-Method=;"));
    CHECK(has_header("Mcp-Session-Id=session-1;") && has_header("Mcp-Param-Region=;"));
    CHECK_EQUAL(remote.answers, 1);
    /* The server forgot our session: the call is made in a new one. */
    remote.session++;
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house_says(house, "from afar"));
    CHECK(has_header("Mcp-Session-Id=session-3;"));
    CHECK_EQUAL(remote.calls, 2);
    close_remote(house);
    CHECK_EQUAL(remote.deletes, 1);
    /* The server gives no new session. */
    remote = (struct remote){.sessions = true};
    house = open_remote(true);
    remote.session++;
    remote.closed = 503;
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house->box.result.is_error && house_says(house, "it returned status 503"));
    CHECK_EQUAL(remote.calls, 0);
    close_remote(house);
    return 0;
}

PLAIN(legacy_server_that_forgot_its_session_gets_a_new_one, speaks_legacy)

static int resumes(void *argument)
{
    (void)argument;
    remote = (struct remote){.streams = true, .cuts = true, .accepts = 200};
    struct house *house = open_remote(true);
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house_says(house, "from afar"));
    CHECK(strcmp(remote.resumed, "e1") == 0);
    CHECK(remote.resumed_ms - remote.cut_ms >= 45);
    CHECK_EQUAL(remote.calls, 1);
    /* Resuming does not go on forever. */
    remote.mute = true;
    remote.gets = 0;
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house->box.result.is_error && house_says(house, "its stream ended without a response"));
    CHECK_EQUAL(remote.gets, 1 + 5);
    CHECK(strcmp(remote.resumed, "e4") == 0);
    close_remote(house);
    /* There was no session to end. */
    CHECK_EQUAL(remote.deletes, 0);
    return 0;
}

PLAIN(M2_cut_stream_is_resumed_after_its_retry_time, resumes)

static int loses(void *argument)
{
    (void)argument;
    remote = (struct remote){.modern = true, .streams = true, .cuts = true};
    struct house *house = open_remote(true);
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house->box.result.is_error);
    CHECK(house_says(house, "outcome unknown: the connection to MCP server far was lost"));
    CHECK_EQUAL(remote.gets, 0);
    CHECK_EQUAL(remote.calls, 1);
    close_remote(house);
    return 0;
}

PLAIN(a_stream_of_2026_that_was_cut_is_an_unknown_outcome, loses)

/* The same in the middle of an event, and without a response. */
static int breaks(void *argument)
{
    struct bl_arena arena = {0};
    (void)argument;
    struct bl_text discovered = BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"
                                        "\"supportedVersions\":[\"2026-07-28\"]}}");
    struct bl_text listed = BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":" TOOLS "}");
    struct bl_text event = peer_chunk(&arena, BL_TEXT("data: {\"jsonrpc\":"));
    const struct peer_act discover[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND,
         .bytes = peer_answer(&arena, 200, "application/json", NULL, discovered)},
        {.type = PEER_END}};
    const struct peer_act list[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = peer_answer(&arena, 200, "application/json", NULL, listed)},
        {.type = PEER_END}};
    const struct peer_act call[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = peer_head(&arena, 200, "text/event-stream", NULL)},
        {.type = PEER_SEND, .bytes = event},
        {.type = PEER_END}};
    const struct peer_script scripts[] = {{discover}, {list}, {call}};
    bl_nursery_init(&nursery, bl_scope_current());
    struct peer *peer = peer_start(&nursery, scripts, BL_COUNT(scripts));
    struct house *house = house_new(container);
    house_add_address(house, "far", peer_url(peer, "/mcp"));
    house_open(house);
    house_refresh(house);
    CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
    CHECK(house->box.result.is_error);
    CHECK(house_says(
        house, "outcome unknown: the connection to MCP server far was lost (transfer closed"));
    CHECK_EQUAL(peer_requests(peer), 3);
    house_done(house);
    peer_stop(peer);
    bl_nursery_done(&nursery);
    bl_arena_done(&arena);
    return 0;
}

PLAIN(connection_lost_in_an_event_is_an_unknown_outcome, breaks)

static int cancels(void *argument)
{
    static struct visitor visitor;
    (void)argument;
    for (int modern = 0; modern < 2; modern++) {
        remote = (struct remote){.modern = modern == 1, .silent = true};
        struct house *house = open_remote(true);
        visitor_start(&visitor, house, &nursery, "call_1", "mcp__far__a_tool", "{}");
        while (remote.calls == 0)
            bl_sleep(MS);
        double from_ms = now_ms();
        CHECK(bl_scope_stop(&visitor.scope, BL_STOP_USER, "test"));
        visitor_await(&visitor);
        CHECK(visitor.ended_ms - from_ms < SOON_MS);
        CHECK_EQUAL(visitor.code, BL_ECANCELED);
        CHECK(strstr(visitor_receipt(&visitor), "\"fate\":\"unknown\"") != NULL);
        while (remote.gone_ms == 0 && now_ms() - from_ms < SOON_MS)
            bl_sleep(MS);
        CHECK(remote.gone_ms != 0);
        CHECK_EQUAL(remote.cancels, modern == 1 ? 0 : 1);
        visitor_done(&visitor);
        close_remote(house);
    }
    return 0;
}

PLAIN(a_stopped_call_closes_its_stream_and_the_receipt_says_unknown, cancels)

static int refused(void *argument)
{
    (void)argument;
    remote = (struct remote){.refuses = 401};
    struct house *house = open_remote(false);
    CHECK(house_noticed(house, "MCP server far cannot be used: it returned status 401"));
    close_remote(house);
    /* Errors about authentication say what to do. */
    static const char hint[] = "add the required credentials to 'headers' of its entry";
    static const struct {
        int status;
        bool hinted;
    } cases[] = {{401, true}, {403, true}, {402, false}, {404, false}, {500, false}};
    remote = (struct remote){.modern = true};
    house = open_remote(true);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char text[64];
        remote.refuses = cases[i].status;
        snprintf(text, sizeof text, "it returned status %d", cases[i].status);
        CHECK_EQUAL(house_call(house, "mcp__far__a_tool", "{}"), 0);
        CHECK(house->box.result.is_error && house_says(house, text));
        CHECK_EQUAL(strstr(box_text(&house->box), hint) != NULL, cases[i].hinted);
    }
    close_remote(house);
    remote = (struct remote){.modern = true, .listless = true};
    house = open_remote(false);
    CHECK(house_noticed(house, "its response to tools/list contains no list of tools"));
    close_remote(house);
    remote = (struct remote){.accepts = 299};
    close_remote(open_remote(true));
    /* A server that does not accept a notification cannot be used. */
    for (int i = 0; i < 2; i++) {
        remote = (struct remote){.accepts = i == 0 ? 300 : 400};
        house = open_remote(false);
        CHECK(house_noticed(house, i == 0 ? "it returned status 300" : "it returned status 400"));
        close_remote(house);
    }
    /* No server is listening. */
    struct bl_nursery idle;
    bl_nursery_init(&idle, bl_scope_current());
    house = house_new(container);
    house_add_address(house, "far", "http://127.0.0.1:1/mcp");
    house_open(house);
    house_refresh(house);
    CHECK(strcmp(house_state(house, 0), "failed") == 0);
    house_done(house);
    bl_nursery_done(&idle);
    return 0;
}

PLAIN(refusing_or_missing_server_is_reported, refused)

/* The host is known only to the proxy. */
static int asks_proxy(void *argument)
{
    struct bl_http_server_options options = {.address = "127.0.0.1", .serve = serve};
    struct bl_error error = {0};
    char proxy[64];
    (void)argument;
    remote = (struct remote){.modern = true};
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_http_server_start(&nursery, &options, &remote.server, &error), 0);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", bl_http_server_port(remote.server));
    setenv("http_proxy", proxy, 1);
    struct house *house = house_new(container);
    house_add_address(house, "far", "http://host.invalid/mcp");
    house_open(house);
    house_refresh(house);
    unsetenv("http_proxy");
    /* Our server accepts only its own host name; it did get the request. */
    CHECK(house_noticed(house, "it returned status 403"));
    close_remote(house);
    return 0;
}

PLAIN(server_is_reached_through_the_proxy_of_the_environment, asks_proxy)

static int hears_changes(void *argument)
{
    (void)argument;
    for (int modern = 0; modern < 2; modern++) {
        remote = (struct remote){.modern = modern == 1, .changes = true};
        struct house *house = open_remote(true);
        double from_ms = now_ms();
        while (!house_server(house, 0)->stale && now_ms() - from_ms < 5 * SOON_MS)
            bl_sleep(MS);
        CHECK(house_server(house, 0)->stale);
        house_refresh(house);
        CHECK(!house_server(house, 0)->stale);
        CHECK_EQUAL(house_offers(house), 1);
        close_remote(house);
    }
    return 0;
}

PLAIN(changes_of_a_remote_list_are_received, hears_changes)

SUITE(mcp_http, cmocka_unit_test(server_is_reached_through_the_proxy_of_the_environment),
      cmocka_unit_test(M2_a_server_of_2026_gets_the_headers_of_its_era),
      cmocka_unit_test(legacy_server_that_forgot_its_session_gets_a_new_one),
      cmocka_unit_test(M2_cut_stream_is_resumed_after_its_retry_time),
      cmocka_unit_test(a_stream_of_2026_that_was_cut_is_an_unknown_outcome),
      cmocka_unit_test(connection_lost_in_an_event_is_an_unknown_outcome),
      cmocka_unit_test(a_stopped_call_closes_its_stream_and_the_receipt_says_unknown),
      cmocka_unit_test(refusing_or_missing_server_is_reported),
      cmocka_unit_test(changes_of_a_remote_list_are_received));
