/* An MCP server over HTTP in the test's own loop, with tools that the test controls, and clients
 * that send bytes. */
#ifndef BELAY_TESTS_SERVE_BOOTH_H
#define BELAY_TESTS_SERVE_BOOTH_H

#include "../wire/guest.h"
#include "serve/mcp/core.h"
#include "serve/mcp/http.h"

#define BOOTH_TOKEN  "3f1c0f6a7be5d1f7c36a0c2b9a4be1de51e0b6a3f2a79c8d7a6c1b0e2f3d4c5b"
#define BOOTH_BEARER "Authorization: Bearer " BOOTH_TOKEN "\r\n"
#define BOOTH_ACCEPT "Accept: application/json, text/event-stream\r\n"
#define BOOTH_TYPE   "Content-Type: application/json\r\n"
#define BOOTH_HEAD   "Host: 127.0.0.1\r\n" BOOTH_BEARER BOOTH_ACCEPT BOOTH_TYPE
/* For a request that needs no session. */
#define BOOTH_META                                                                                 \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define BOOTH_NOW  "MCP-Protocol-Version: 2026-07-28\r\n"
#define BOOTH_CALL BOOTH_NOW "Mcp-Method: tools/call\r\n"

/* The tools: `quick` and `near` answer, `hold` waits until it is released or stopped. */
struct booth {
    struct bl_nursery nursery;
    struct bl_scope scope; /* stopping it ends the server */
    struct bl_fiber *fiber;
    struct bl_mcp_server_options options;
    struct bl_activities activities;
    struct bl_error error;
    int code;
    int exit_code;
    uint16_t port;
    struct bl_semaphore listening;
    struct bl_semaphore begun;
    struct bl_semaphore release;
    struct bl_semaphore stopped;
    uint32_t holding;
    struct bl_stop stop; /* of the last that was stopped */
    uint64_t stopped_ns;
};

/* The main function of a call of `hold`. */
static void booth_hold_main(struct mcp_work *work)
{
    struct booth *booth = work->server->options.context;

    booth->holding++;
    bl_semaphore_give(&booth->begun);
    int code = bl_semaphore_take(&booth->release);
    booth->holding--;
    if (code != 0) {
        booth->stopped_ns = bl_now_ns();
        bl_scope_stop_read(&work->scope, &booth->stop);
        bl_semaphore_give(&booth->stopped);
    }
    work->outcome.text = BL_TEXT("all is done");
}

static void booth_hold(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                       struct mcp_reply *ret_reply)
{
    struct mcp_work *work =
        mcp_work_new(request->peer->server, "hold", sizeof(struct mcp_work), booth_hold_main);

    mcp_id_make(work->id, "call_");
    mcp_work_serve(request, work, ret_reply);
}

static void booth_quick(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                        struct mcp_reply *ret_reply)
{
    struct mcp_outcome outcome = {.text = BL_TEXT("all is done")};

    mcp_answer_outcome(request, &outcome, ret_reply);
}

static void booth_listening(void *context, uint16_t port)
{
    struct booth *booth = context;

    booth->port = port;
    bl_semaphore_give(&booth->listening);
}

static const struct mcp_tool booth_tools[] = {
    {.name = "quick",
     .description = "answers",
     .schema = "{\"type\":\"object\"}",
     .serve = booth_quick},
    {.name = "near",
     .description = "wants headers",
     .schema = "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\","
               "\"x-mcp-header\":\"Region\"},\"size\":{\"type\":\"object\",\"properties\":{"
               "\"n\":{\"type\":\"integer\",\"x-mcp-header\":\"N\"}}}}}",
     .serve = booth_quick},
    {.name = "hold",
     .description = "waits",
     .schema = "{\"type\":\"object\"}",
     .serve = booth_hold},
};

static int booth_main(void *argument)
{
    struct booth *booth = argument;
    struct bl_scope *before = bl_scope_enter(&booth->scope);

    booth->code = mcp_serve(&booth->options, booth_tools, BL_COUNT(booth_tools), &booth->exit_code,
                            &booth->error);
    bl_scope_enter(before);
    bl_semaphore_give(&booth->listening);
    return 0;
}

BL_UNUSED static void booth_open(struct booth *booth)
{
    static const char *const origins[] = {"https://page.test", "name.test", NULL};

    memset(booth, 0, sizeof *booth);
    bl_activities_init(&booth->activities);
    bl_semaphore_init(&booth->listening, 0);
    bl_semaphore_init(&booth->begun, 0);
    bl_semaphore_init(&booth->release, 0);
    bl_semaphore_init(&booth->stopped, 0);
    booth->options = (struct bl_mcp_server_options){.activities = &booth->activities,
                                                    .version = "0",
                                                    .http = true,
                                                    .address = "127.0.0.1",
                                                    .token = BOOTH_TOKEN,
                                                    .origins = origins,
                                                    .listening = booth_listening,
                                                    .context = booth};
    bl_nursery_init(&booth->nursery, bl_scope_current());
    bl_scope_init(&booth->scope, &booth->nursery.scope);
    CHECK_EQUAL(bl_nursery_spawn(&booth->nursery, NULL, "booth", booth_main, booth, &booth->fiber),
                0);
    CHECK_EQUAL(bl_semaphore_take(&booth->listening), 0);
    CHECK(booth->port != 0);
}

BL_UNUSED static void booth_close(struct booth *booth)
{
    bl_scope_stop(&booth->scope, BL_STOP_SIGNAL, "SIGINT");
    CHECK_EQUAL(bl_fiber_join(booth->fiber, NULL), 0);
    CHECK_EQUAL(booth->code, 0);
    CHECK_EQUAL(booth->exit_code, 130);
    CHECK_EQUAL(booth->holding, 0);
    bl_scope_done(&booth->scope);
    bl_nursery_done(&booth->nursery);
}

/* ---- Clients --------------------------------------------------------------------------------- */

/* Builds a whole request in a static buffer; `head` has lines with their line ends. */
BL_UNUSED static struct bl_text booth_request(const char *method, const char *head,
                                              const char *body)
{
    static char text[8192];
    int size = snprintf(text, sizeof text, "%s /mcp HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s",
                        method, head, strlen(body), body);

    CHECK(size > 0 && (size_t)size < sizeof text);
    return (struct bl_text){text, (size_t)size};
}

/* Sends the request on a connection of its own. */
BL_UNUSED static void booth_send(struct booth *booth, struct guest *guest, const char *method,
                                 const char *head, const char *body)
{
    if (CHECK(guest_connect(guest, booth->port)))
        CHECK_EQUAL(guest_send(guest, booth_request(method, head, body)), 0);
}

/* Sends the request, reads the whole answer into a static buffer, and returns the status. */
static char booth_answer[65536];

BL_UNUSED static int booth_ask(struct booth *booth, const char *method, const char *head,
                               const char *body)
{
    struct guest guest;
    char closing[4096];

    snprintf(closing, sizeof closing, "%sConnection: close\r\n", head);
    int status = guest_ask(&guest, booth->port, booth_request(method, closing, body));
    size_t size = guest.got.size < sizeof booth_answer ? guest.got.size : sizeof booth_answer - 1;
    if (size > 0)
        memcpy(booth_answer, guest.got.data, size);
    booth_answer[size] = '\0';
    guest_close(&guest);
    return status;
}

/* Opens a session. Returns the header lines that its requests need, in a static buffer. */
BL_UNUSED static const char *booth_initialize(struct booth *booth, const char *version)
{
    static char head[1024];
    char body[512];

    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"%s\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\","
             "\"version\":\"1\"}}}",
             version);
    CHECK_EQUAL(booth_ask(booth, "POST", BOOTH_HEAD, body), 200);
    const char *id = strcasestr(booth_answer, "Mcp-Session-Id: ");
    if (!CHECK(id != NULL))
        return BOOTH_HEAD;
    snprintf(head, sizeof head, BOOTH_HEAD "%.48s\r\nMCP-Protocol-Version: %s\r\n", id, version);
    CHECK_EQUAL(booth_ask(booth, "POST", head,
                          "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                202);
    return head;
}

/* Builds the body of a tool call in a static buffer. */
BL_UNUSED static const char *booth_tool(const char *id, const char *name, const char *more)
{
    static char body[1024];

    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":"
             "\"%s\",\"arguments\":{}%s%s}}",
             id, name, more[0] != '\0' ? "," : "", more);
    return body;
}

#endif
