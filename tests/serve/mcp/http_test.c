#include "booth.h"

/* ---- Allowed clients ------------------------------------------------------------------------- */

#define DISCOVER                                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"server/discover\",\"params\":{" BOOTH_META "}}"
#define DISCOVER_HEAD BOOTH_NOW "Mcp-Method: server/discover\r\n"
#define LOCAL         "Host: localhost:1\r\n"
#define REST          BOOTH_ACCEPT BOOTH_TYPE DISCOVER_HEAD

static const struct {
    const char *method;
    const char *head;
    int status;
    const char *part; /* part of the answer */
} askers[] = {
    {"POST", LOCAL BOOTH_BEARER REST, 200, "\"supportedVersions\""},
    {"POST", LOCAL "authorization: bearer " BOOTH_TOKEN "\r\n" REST, 200, "resultType"},
    {"POST", "Host: [::1]:80\r\nOrigin: http://127.0.0.1:99\r\n" BOOTH_BEARER REST, 200, ""},
    {"POST", LOCAL "Origin: https://localhost\r\n" BOOTH_BEARER REST, 200, ""},
    {"POST", LOCAL "Origin: https://page.test\r\n" BOOTH_BEARER REST, 200, ""},
    {"POST", "Host: page.test\r\nOrigin: http://name.test:5\r\n" BOOTH_BEARER REST, 200, ""},
    {"POST", "Host: name.test:8080\r\n" BOOTH_BEARER REST, 200, ""},
    /* Clients that are not allowed. */
    {"POST", LOCAL REST, 401, "WWW-Authenticate: Bearer"},
    {"POST", LOCAL "Authorization: Bearer wrong\r\n" REST, 401, "Authorization: Bearer TOKEN"},
    {"POST", LOCAL "Authorization: Bearer \r\n" REST, 401, ""},
    {"POST", LOCAL "Authorization: Bearer " BOOTH_TOKEN "0\r\n" REST, 401, ""},
    {"POST", LOCAL "Authorization: Basic " BOOTH_TOKEN "\r\n" REST, 401, ""},
    {"POST", LOCAL "Origin: http://page.test\r\n" BOOTH_BEARER REST, 403, "Origin"},
    {"POST", LOCAL "Origin: https://evil.test\r\n" BOOTH_BEARER REST, 403, ""},
    {"POST", LOCAL "Origin: http://localhost.evil.test\r\n" BOOTH_BEARER REST, 403, ""},
    {"POST", LOCAL "Origin: null\r\n" BOOTH_BEARER REST, 403, ""},
    {"POST", LOCAL "Origin: file://localhost\r\n" BOOTH_BEARER REST, 403, ""},
    {"POST", "Host: evil.test\r\n" BOOTH_BEARER REST, 403, ""},
    {"POST", "Host: evil.test:80\r\nOrigin: http://127.0.0.1\r\n" REST, 403, ""},
    {"GET", LOCAL, 401, ""},
    {"DELETE", LOCAL, 401, ""},
    {"PUT", LOCAL, 401, ""},
    /* Requests that are not of this protocol. */
    {"PUT", LOCAL BOOTH_BEARER REST, 405, "Allow: POST, GET, DELETE"},
    {"OPTIONS", LOCAL BOOTH_BEARER REST, 405, ""},
    {"POST", LOCAL BOOTH_BEARER BOOTH_ACCEPT DISCOVER_HEAD, 415, "application/json"},
    {"POST", LOCAL BOOTH_BEARER BOOTH_ACCEPT DISCOVER_HEAD "Content-Type: text/plain\r\n", 415, ""},
    {"POST", LOCAL BOOTH_BEARER "Accept: text/html\r\n" BOOTH_TYPE DISCOVER_HEAD, 406, "Accept"},
    {"POST", LOCAL BOOTH_BEARER "Accept: application/json\r\n" BOOTH_TYPE DISCOVER_HEAD, 406, ""},
    {"POST", LOCAL BOOTH_BEARER "Accept: */*\r\n" BOOTH_TYPE DISCOVER_HEAD, 200, ""},
    {"POST", LOCAL BOOTH_BEARER BOOTH_TYPE DISCOVER_HEAD, 200, ""},
    {"GET", LOCAL BOOTH_BEARER "Accept: application/json\r\n", 406, ""},
    {"GET", LOCAL BOOTH_BEARER BOOTH_ACCEPT BOOTH_NOW, 405, "Allow: POST\r\n"},
    {"DELETE", LOCAL BOOTH_BEARER BOOTH_NOW, 405, ""},
    {"GET", LOCAL BOOTH_BEARER BOOTH_ACCEPT, 400, "Mcp-Session-Id is missing"},
    {"GET", LOCAL BOOTH_BEARER BOOTH_ACCEPT "Mcp-Session-Id: none\r\n", 404, "no such session"},
    {"GET", LOCAL BOOTH_BEARER BOOTH_ACCEPT "MCP-Protocol-Version: 1\r\n", 400, "\"supported\""},
};

static int ask_as_each(void *argument)
{
    (void)argument;
    struct booth booth;

    booth_open(&booth);
    for (size_t i = 0; i < BL_COUNT(askers); i++) {
        bool posts = strcmp(askers[i].method, "POST") == 0;
        int status = booth_ask(&booth, askers[i].method, askers[i].head, posts ? DISCOVER : "");
        if (status != askers[i].status || strstr(booth_answer, askers[i].part) == NULL)
            print_message("row %zu: %d %s\n", i, status, booth_answer);
        CHECK_EQUAL(status, askers[i].status);
        CHECK(strstr(booth_answer, askers[i].part) != NULL);
    }
    booth_close(&booth);
    return 0;
}

static void M12_clients_that_are_not_allowed_get_the_reason(void **state)
{
    (void)state;
    run_in_loop(ask_as_each, NULL);
}

/* Only the path counts, and without the token no body is read. */
static int ask_for_too_much(void *argument)
{
    (void)argument;
    static const struct {
        const char *bytes;
        int status;
    } rows[] = {
        {"POST / HTTP/1.1\r\n" BOOTH_HEAD "\r\n", 404},
        {"POST /mcp/ HTTP/1.1\r\n" BOOTH_HEAD "\r\n", 404},
        {"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
        {"POST /mcp?x HTTP/1.1\r\n" BOOTH_HEAD "Connection: close\r\nContent-Length: 1\r\n\r\n[",
         400},
        {"POST /mcp HTTP/1.1\r\n" LOCAL BOOTH_ACCEPT BOOTH_TYPE "Content-Length: 8388609\r\n\r\n",
         401},
        {"POST /mcp HTTP/1.1\r\n" LOCAL BOOTH_TYPE "Transfer-Encoding: chunked\r\n\r\n800001\r\n",
         401},
        {"POST /mcp HTTP/1.1\r\n" BOOTH_HEAD "Content-Length: 8388609\r\n\r\n", 413},
        {"POST /mcp HTTP/1.1\r\n" BOOTH_HEAD "Transfer-Encoding: chunked\r\n\r\n800001\r\n", 413},
        {"POST /mcp HTTP/1.1\r\n" BOOTH_HEAD "Expect: 100-continue\r\nContent-Length: 8388609\r\n"
         "\r\n",
         413},
    };
    struct booth booth;
    struct guest guest;

    booth_open(&booth);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        CHECK(guest_connect(&guest, booth.port));
        guest_say(&guest, rows[i].bytes);
        CHECK_EQUAL(guest_await(&guest, "\r\n\r\n"), 0);
        CHECK_EQUAL(guest_status(&guest), rows[i].status);
        guest_close(&guest);
    }
    booth_close(&booth);
    return 0;
}

static void a_body_is_read_only_for_allowed_clients(void **state)
{
    (void)state;
    run_in_loop(ask_for_too_much, NULL);
}

/* ---- Headers and body ------------------------------------------------------------------------ */

#define QUICK(version_and_more)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"tools/call\",\"params\":{\"name\":\"quick\","  \
    "\"arguments\":{}," version_and_more "}}"
#define META_OF(version)                                                                           \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version                            \
    "\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define OF_METHOD(method) "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"" method "\",\"params\":{"
#define NAMED             "Mcp-Name: quick\r\n"
#define NEAR_HEAD         BOOTH_CALL "Mcp-Name: near\r\n"
#define NEAR(arguments)                                                                            \
    "{\"jsonrpc\":\"2.0\",\"id\":\"n\",\"method\":\"tools/call\",\"params\":{\"name\":\"near\","   \
    "\"arguments\":{" arguments "}," BOOTH_META "}}"

static const struct {
    const char *head;
    const char *body;
    int status;
    const char *part;
} bodies[] = {
    {BOOTH_CALL NAMED, QUICK(BOOTH_META), 200, "all is done"},
    {BOOTH_NOW "MCP-METHOD: tools/call\r\nmcp-name:   quick  \r\n", QUICK(BOOTH_META), 200, ""},
    {BOOTH_CALL "Mcp-Name: =?base64?cXVpY2s=?=\r\n", QUICK(BOOTH_META), 200, "all is done"},
    {BOOTH_CALL NAMED "Mcp-Session-Id: what\r\nLast-Event-ID: 1-1\r\n", QUICK(BOOTH_META), 200, ""},
    /* Headers and body disagree. */
    {"", QUICK(BOOTH_META), 400, "\"id\":\"q\",\"error\":{\"code\":-32020"},
    {"Mcp-Method: tools/call\r\n" NAMED, QUICK(BOOTH_META), 400, "MCP-Protocol-Version is missing"},
    {BOOTH_CALL NAMED, QUICK(META_OF("2027-01-01")), 400, "-32020"},
    {"MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/call\r\n" NAMED, QUICK(BOOTH_META), 400,
     "-32020"},
    {BOOTH_NOW NAMED, QUICK(BOOTH_META), 400, "Mcp-Method is missing"},
    {BOOTH_NOW "Mcp-Method: tools/list\r\n" NAMED, QUICK(BOOTH_META), 400, "-32020"},
    {BOOTH_NOW "Mcp-Method: TOOLS/CALL\r\n" NAMED, QUICK(BOOTH_META), 400, "-32020"},
    {BOOTH_CALL, QUICK(BOOTH_META), 400, "Mcp-Name does not agree"},
    {BOOTH_CALL "Mcp-Name: hold\r\n", QUICK(BOOTH_META), 400, "-32020"},
    {BOOTH_CALL "Mcp-Name: =?base64?cXVpY2s?=\r\n", QUICK(BOOTH_META), 400, "-32020"},
    {BOOTH_CALL "Mcp-Name: =?base64?aG9sZA==?=\r\n", QUICK(BOOTH_META), 400, "-32020"},
    {BOOTH_NOW "Mcp-Method: tasks/get\r\nMcp-Name: a\r\n",
     OF_METHOD("tasks/get") "\"taskId\":\"b\"," BOOTH_META "}}", 400, "-32020"},
    {NEAR_HEAD "Mcp-Param-Region: us\r\nmcp-param-n: 42.0\r\n",
     NEAR("\"region\":\"us\",\"size\":"
          "{\"n\":42}"),
     200, "all is done"},
    {NEAR_HEAD "Mcp-Param-Region: =?base64?dXM=?=\r\n", NEAR("\"region\":\"us\""), 200, ""},
    {NEAR_HEAD, NEAR("\"region\":null"), 200, ""},
    {NEAR_HEAD, NEAR("\"region\":\"us\""), 400, "-32020"},
    {NEAR_HEAD "Mcp-Param-Region: us\r\n", NEAR(""), 400, "Mcp-Param-"},
    {NEAR_HEAD "Mcp-Param-Region: \xc3\xa4\r\n", NEAR("\"region\":\"\xc3\xa4\""), 400, "-32020"},
    {NEAR_HEAD "Mcp-Param-Region: =?base64?dXM?=\r\n", NEAR("\"region\":\"us\""), 400, "-32020"},
    {NEAR_HEAD "Mcp-Param-N: 41\r\n", NEAR("\"size\":{\"n\":42}"), 400, "-32020"},
    /* Versions and methods. */
    {"MCP-Protocol-Version: 1999-01-01\r\nMcp-Method: tools/call\r\n" NAMED,
     QUICK(META_OF("1999-01-01")), 400,
     "-32022,\"message\":\"Unsupported protocol version\",\"data\":{\"supported\":[\"2026-07-28\","
     "\"2025-11-25\",\"2025-06-18\"],\"requested\":\"1999-01-01\"}"},
    {"MCP-Protocol-Version: 1999-01-01\r\n", OF_METHOD("initialize") "}}", 400, "-32022"},
    {BOOTH_NOW "Mcp-Method: no/such\r\n", OF_METHOD("no/such") BOOTH_META "}}", 404, "-32601"},
    {BOOTH_NOW "Mcp-Method: ping\r\n", OF_METHOD("ping") BOOTH_META "}}", 404, "-32601"},
    {BOOTH_NOW "Mcp-Method: initialize\r\n", OF_METHOD("initialize") BOOTH_META "}}", 404,
     "-32601"},
    {BOOTH_NOW "Mcp-Method: tools/list\r\n", OF_METHOD("tools/list") "}}", 400, "-32602"},
    {BOOTH_NOW "Mcp-Method: initialize\r\n", OF_METHOD("initialize") "}}", 400, "-32602"},
    {BOOTH_NOW "Mcp-Method: tools/list\r\n",
     OF_METHOD("tools/list") "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
                             "\"2026-07-28\"}}}",
     400, "-32602"},
    {BOOTH_NOW, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}", 202,
     "Content-Length: 0"},
    /* Invalid messages, or messages without a session. */
    {BOOTH_NOW, "", 400, "-32700"},
    {BOOTH_NOW, "{\"jsonrpc\":\"2.0\",", 400, "-32700"},
    {BOOTH_NOW, "\xff\xfe", 400, "-32700"},
    {BOOTH_NOW, "[]", 400, "-32600"},
    {BOOTH_NOW, "[" DISCOVER "]", 400, "-32600"},
    {BOOTH_NOW, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 400, "Mcp-Session-Id"},
    {"", OF_METHOD("tools/list") "}}", 400, "Mcp-Session-Id is missing"},
    {"", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 400, "Mcp-Session-Id"},
    {"Mcp-Session-Id: 0123\r\n", OF_METHOD("tools/list") "}}", 404, "-32001"},
    {"", OF_METHOD("initialize") "\"protocolVersion\":5}}", 400, "-32602"},
    {"", "\r\n{\r\n\"jsonrpc\":\"2.0\",\n\"id\":3,\"method\":\"no/such\"}\n", 400, "\"id\":3"},
};

static int send_each_body(void *argument)
{
    (void)argument;
    struct booth booth;
    char head[1024];

    booth_open(&booth);
    for (size_t i = 0; i < BL_COUNT(bodies); i++) {
        snprintf(head, sizeof head, BOOTH_HEAD "%s", bodies[i].head);
        int status = booth_ask(&booth, "POST", head, bodies[i].body);
        if (status != bodies[i].status || strstr(booth_answer, bodies[i].part) == NULL)
            print_message("row %zu: %d %s\n", i, status, booth_answer);
        CHECK_EQUAL(status, bodies[i].status);
        CHECK(strstr(booth_answer, bodies[i].part) != NULL);
    }
    booth_close(&booth);
    return 0;
}

static void M12_headers_and_body_agree(void **state)
{
    (void)state;
    run_in_loop(send_each_body, NULL);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static int listen_elsewhere(void *argument)
{
    (void)argument;
    static const char *const addresses[] = {"0.0.0.0", "192.0.2.1", "::", "name.test", ""};
    struct bl_activities activities;
    struct bl_error error;
    int exit_code = 0;

    bl_activities_init(&activities);
    struct bl_mcp_server_options options = {
        .activities = &activities, .version = "0", .http = true, .token = BOOTH_TOKEN};
    for (size_t i = 0; i < BL_COUNT(addresses); i++) {
        memset(&error, 0, sizeof error);
        options.address = addresses[i];
        CHECK_EQUAL(bl_mcp_serve(&options, &exit_code, &error), BL_EINVAL);
        CHECK_EQUAL(error.kind, BL_KIND_USAGE);
    }
    options.address = "127.0.0.1";
    options.token = NULL;
    memset(&error, 0, sizeof error);
    CHECK_EQUAL(bl_mcp_serve(&options, &exit_code, &error), BL_EINVAL);
    CHECK_EQUAL(error.kind, BL_KIND_USAGE);
    return 0;
}

static void M12_only_loopback_is_served_and_only_with_a_token(void **state)
{
    (void)state;
    run_in_loop(listen_elsewhere, NULL);
}

static int stop_while_busy(void *argument)
{
    (void)argument;
    struct booth booth;
    struct guest now, later, listener;
    char head[1024];

    booth_open(&booth);
    snprintf(head, sizeof head, "%s", booth_initialize(&booth, "2025-11-25"));
    booth_send(&booth, &now, "POST", BOOTH_HEAD BOOTH_CALL "Mcp-Name: hold\r\n",
               booth_tool("1", "hold", BOOTH_META));
    booth_send(&booth, &later, "POST", head, booth_tool("1", "hold", ""));
    booth_send(&booth, &listener, "GET", head, "");
    CHECK_EQUAL(guest_await(&listener, "text/event-stream"), 0);
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    CHECK_EQUAL(bl_semaphore_take(&booth.begun), 0);
    booth_close(&booth);
    CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
    CHECK_EQUAL(bl_semaphore_take(&booth.stopped), 0);
    CHECK_EQUAL(booth.stop.reason, BL_STOP_SIGNAL);
    CHECK(strcmp(booth.stop.origin, "SIGINT") == 0);
    guest_read_all(&now);
    CHECK(!guest_has(&now, "all is done"));
    guest_read_all(&listener);
    CHECK(guest_has(&listener, "\r\n0\r\n\r\n"));
    guest_close(&now);
    guest_close(&later);
    guest_close(&listener);
    return 0;
}

static void a_stop_of_the_server_ends_all_work_with_its_reason(void **state)
{
    (void)state;
    run_in_loop(stop_while_busy, NULL);
}

/* ---- Hostile clients ------------------------------------------------------------------------- */

/* A valid request with some bytes changed, left out or doubled. */
static struct bl_text spoil(struct bl_random *random, char *bytes, size_t size)
{
    unsigned changes = 1 + (unsigned)bl_random_below(random, 8);

    for (unsigned i = 0; i < changes && size > 2; i++) {
        size_t at = bl_random_below(random, size);
        switch (bl_random_below(random, 4)) {
        case 0: bytes[at] = (char)bl_random_next(random); break;
        case 1:
            memmove(bytes + at, bytes + at + 1, size - at - 1);
            size--;
            break;
        case 2:
            memmove(bytes + at + 1, bytes + at, size - at);
            size++;
            break;
        default: size = at + 1; break;
        }
    }
    return (struct bl_text){bytes, size};
}

static int be_hostile(void *argument)
{
    (void)argument;
    static char bytes[16384];
    struct bl_random random;
    struct booth booth;
    struct guest guest;
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 150 : 400, 100000);

    bl_random_seed(&random, 9);
    booth_open(&booth);
    for (unsigned long i = 0; i < rounds; i++) {
        struct bl_text good = booth_request(
            "POST", i % 2 == 0 ? BOOTH_HEAD DISCOVER_HEAD : BOOTH_HEAD BOOTH_CALL NAMED,
            i % 2 == 0 ? DISCOVER : QUICK(BOOTH_META));
        memcpy(bytes, good.data, good.size);
        CHECK(guest_connect(&guest, booth.port));
        guest_send(&guest, spoil(&random, bytes, good.size));
        /* Half of them disconnect at once, the others after their answer. */
        shutdown(guest.fd, SHUT_WR);
        if (bl_random_below(&random, 2) == 0)
            guest_read_all(&guest);
        guest_close(&guest);
        if (i % 100 == 99)
            CHECK_EQUAL(booth_ask(&booth, "POST", BOOTH_HEAD DISCOVER_HEAD, DISCOVER), 200);
    }
    CHECK_EQUAL(booth_ask(&booth, "POST", BOOTH_HEAD DISCOVER_HEAD, DISCOVER), 200);
    booth_close(&booth);
    return 0;
}

static void random_bytes_do_not_end_the_server(void **state)
{
    (void)state;
    run_in_loop(be_hostile, NULL);
}

SUITE(mcp_http, cmocka_unit_test(M12_clients_that_are_not_allowed_get_the_reason),
      cmocka_unit_test(a_body_is_read_only_for_allowed_clients),
      cmocka_unit_test(M12_headers_and_body_agree),
      cmocka_unit_test(M12_only_loopback_is_served_and_only_with_a_token),
      cmocka_unit_test(a_stop_of_the_server_ends_all_work_with_its_reason),
      cmocka_unit_test(random_bytes_do_not_end_the_server));
