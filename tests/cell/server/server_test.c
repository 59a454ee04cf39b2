/* The operations of clients, over a socket and over standard streams. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helpers.h"
#include "wire_client.h"

#define OBSERVE "{'session_id':'s-1','cell_id':'%s','generation':%u,'yield_time_ms':%u}"

static const char *observe(struct wire_client *client, const char *cell, unsigned generation,
                           unsigned yield_ms)
{
    return wire_call(client, "observe", OBSERVE, cell, generation, yield_ms);
}

static const char *terminate(struct wire_client *client, const char *cell, const char *id)
{
    return wire_call(client, "terminate",
                     "{'session_id':'s-1','cell_id':'%s','terminate_id':'%s','reason':'user'}",
                     cell, id);
}

/* ---- Hello ---- */

static void greet(struct wire_stage *stage)
{
    struct wire_client a, b;
    char instance[64];
    wire_connect(&a, stage);
    wire_send(&a, "{'type':'hello','client':'my-ide','versions':[2,1],'requires':['tools'],"
                  "'wants':['other','notify'],'more':1}");
    const char *ready = wire_next(&a);
    CHECK_HAS(ready, "{'type':'ready','version':1,'capabilities':['tools','notify'],"
                     "'instance':'h-");
    CHECK_HAS(ready, "'limits':{'frame_bytes':33554432,'live_cells':128,'requests':256,"
                     "'control_requests':64}}");
    snprintf(instance, sizeof instance, "%s", wire_field(ready, "instance"));
    wire_connect(&b, stage);
    wire_send(&b, "{'type':'hello','client':'b','versions':[1],'requires':[],'wants':[]}");
    ready = wire_next(&b);
    CHECK_HAS(ready, "'capabilities':[]");
    CHECK_HAS(ready, instance);
    CHECK_EQUAL(wire_connections(stage), 2);
    wire_leave(&a);
    wire_leave(&b);
}

WIRE_TEST(a_hello_gets_ready_with_the_requested_capabilities, greet)

/* ---- Operations ---- */

static void whole_life(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_create(&client, "s-1", "c-1", "text(`a`); yield_control(); text(`b`)"),
              "'op':'create_cell','ok':{'type':'created','cell_id':'c-1'}}");
    const char *first = observe(&client, "c-1", 1, 20000);
    CHECK_HAS(first, "'ok':{'type':'yielded','cell_id':'c-1','generation':1,'content_items':"
                     "[{'type':'text','text':'a'}],'stalled':false}}");
    const char *second = observe(&client, "c-1", 2, 20000);
    CHECK_HAS(second, "'ok':{'type':'completed','cell_id':'c-1','generation':2,'content_items':"
                      "[{'type':'text','text':'b'}],'error':null,'stopped_calls':0}}");
    const char *again = wire_ok(&client, terminate(&client, "c-1", "t-1"));
    CHECK(strcmp(again, wire_ok(&client, second)) == 0);
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':10}"),
              "'cells':[{'cell_id':'c-1','state':'completed','generation':2,");
    CHECK_HAS(wire_call(&client, "release", "{'session_id':'s-1','cell_id':'c-1','generation':2}"),
              "'ok':{'type':'released','cell_id':'c-1'}}");
    CHECK_HAS(wire_call(&client, "release", "{'session_id':'s-1','cell_id':'c-9','generation':2}"),
              "'ok':{'type':'missing','cell_id':'c-9'}}");
    CHECK_HAS(observe(&client, "c-1", 2, 0), "'ok':{'type':'missing','cell_id':'c-1'}}");
    CHECK_HAS(wire_create(&client, "s-1", "c-1", "text(`a`); yield_control(); text(`b`)"),
              "'err':{'code':'gone',");
    CHECK_HAS(wire_call(&client, "close_session", "{'session_id':'s-1','forget':false}"),
              "'ok':{'type':'closed','session_id':'s-1','receipt':null}}");
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':10}"),
              "'code':'session_not_open'");
    wire_leave(&client);
}

WIRE_TEST(a_cell_is_created_observed_terminated_and_released, whole_life)

/* All requests in one write: each runs after the requests that it depends on. */
static void pipelined(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join(&client, stage, "a", "");
    uint64_t opened = wire_ask(&client, "open_session",
                               "{'session_id':'s-1','serves_tools':false,'linger_ms':0}");
    uint64_t created = wire_ask_create(&client, "s-1", "c-1", "text(1); for(;;) await null");
    uint64_t observed = wire_ask(&client, "observe", OBSERVE, "c-1", 1, 60000);
    uint64_t terminated =
        wire_ask(&client, "terminate",
                 "{'session_id':'s-1','cell_id':'c-1','terminate_id':'t-1','reason':'user'}");
    uint64_t closed = wire_ask(&client, "close_session", "{'session_id':'s-1','forget':true}");
    uint64_t late = wire_ask_create(&client, "s-1", "c-2", "text(1)");
    CHECK_HAS(wire_reply(&client, opened), "'type':'opened'");
    CHECK_HAS(wire_reply(&client, created), "'type':'created'");
    const char *end = wire_reply(&client, terminated);
    CHECK_HAS(end, "'type':'terminated'");
    CHECK_HAS(end, "'origin':'terminate:t-1'");
    CHECK(strcmp(wire_ok(&client, end), wire_ok(&client, wire_reply(&client, observed))) == 0);
    CHECK_HAS(wire_reply(&client, closed), "'type':'closed'");
    CHECK_HAS(wire_reply(&client, late), "'code':'session_not_open'");
    wire_leave(&client);
}

WIRE_TEST(requests_for_one_cell_keep_their_order, pipelined)

static void ordered_often(struct wire_stage *stage)
{
    struct wire_client client;
    unsigned rounds = (unsigned)suite_rounds(10, 2000);
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (unsigned i = 0; i < rounds; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, "c-%u", i);
        wire_ask_create(&client, "s-1", cell, "await new Promise(() => 0)");
        CHECK_HAS(terminate(&client, cell, "t"), "'type':'terminated'");
    }
    wire_leave(&client);
}

WIRE_TEST(no_terminate_overtakes_its_create, ordered_often)

static void not_open(struct wire_stage *stage)
{
    static const char *const asked[][2] = {
        {"create_cell", "{'session_id':'s-1','cell_id':'c','source':'1','tools':[],'limits':{}}"},
        {"observe", "{'session_id':'s-1','cell_id':'c','generation':1,'yield_time_ms':0}"},
        {"terminate", "{'session_id':'s-1','cell_id':'c','terminate_id':'t','reason':'user'}"},
        {"release", "{'session_id':'s-1','cell_id':'c','generation':1}"},
        {"list", "{'session_id':'s-1','after':null,'max':10}"},
        {"close_session", "{'session_id':'s-1','forget':false}"}};
    struct wire_client a, b;
    wire_join_session(&a, stage, "a", "s-1", 1000);
    wire_join(&b, stage, "b", "");
    for (size_t i = 0; i < BL_COUNT(asked); i++) {
        const char *reply = wire_call(&b, asked[i][0], "%s", asked[i][1]);
        CHECK_HAS(reply, "'err':{'code':'session_not_open'");
        CHECK_HAS(reply, "'retryable':false,'session_id':'s-1'}");
    }
    CHECK_HAS(
        wire_call(&b, "open_session", "{'session_id':'s-1','serves_tools':false,'linger_ms':0}"),
        "'type':'opened'");
    CHECK_HAS(wire_call(&b, asked[4][0], "%s", asked[4][1]), "'type':'listed'");
    /* A session closed by one client is closed for all. */
    CHECK_HAS(wire_call(&b, asked[5][0], "%s", asked[5][1]), "'type':'closed'");
    CHECK_HAS(wire_call(&a, asked[4][0], "%s", asked[4][1]), "'code':'session_not_open'");
    wire_leave(&a);
    wire_leave(&b);
}

WIRE_TEST(operations_need_a_session_that_this_connection_has_opened, not_open)

static void cancelling(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_create(&client, "s-1", "c-1",
                          "setTimeout(() => 0, 60000);"
                          "await new Promise(() => 0)"),
              "created");
    uint64_t id = wire_ask(&client, "observe", OBSERVE, "c-1", 1, 60000);
    wire_send(&client, "{'type':'cancel','id':%llu}", (unsigned long long)id);
    const char *reply = wire_reply(&client, id);
    CHECK_HAS(reply, "'err':{'code':'cancelled'");
    CHECK_HAS(reply, "'retryable':true}");
    /* Nothing was consumed; a cancel of an unknown request has no effect. */
    wire_send(&client, "{'type':'cancel','id':%llu}", (unsigned long long)id);
    wire_send(&client, "{'type':'cancel','id':4711}");
    CHECK_HAS(observe(&client, "c-1", 1, 0), "'type':'yielded','cell_id':'c-1','generation':1");
    CHECK_HAS(terminate(&client, "c-1", "t"), "'type':'terminated'");
    wire_leave(&client);
}

WIRE_TEST(a_cancelled_request_is_still_answered, cancelling)

/* ---- Nested calls ---- */

static void send_result(struct wire_client *client, const char *cell, const char *call,
                        const char *result)
{
    wire_send(client, "{'type':'tool_result','session_id':'s-1','cell_id':'%s','call_id':'%s',%s}",
              cell, call, result);
}

static void nested(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1",
                "text(await tools.count({n: 1}));"
                "try { await tools.say(`x`) } catch (e) { text(e.name + ` ` + e.kind + ` ` + "
                "e.tool + ` ` + e.message) }");
    const char *call = wire_await(&client, "tool_call");
    CHECK_HAS(call, "{'type':'tool_call','session_id':'s-1','cell_id':'c-1','call_id':'call-1',"
                    "'tool':'count','input':{'n':1},'redelivered':false}");
    send_result(&client, "c-1", "call-9", "'ok':1");
    send_result(&client, "c-9", "call-1", "'ok':1");
    send_result(&client, "c-1", "call-1", "'ok':{'a':[1]}");
    send_result(&client, "c-1", "call-1", "'ok':2");
    CHECK_HAS(wire_await(&client, "tool_call"), "'tool':'say','input':'x'");
    send_result(&client, "c-1", "call-2", "'err':{'kind':'denied','message':'no'}");
    const char *end = observe(&client, "c-1", 1, 20000);
    CHECK_HAS(end, "{'type':'text','text':'{\\'a\\':[1]}'}");
    CHECK_HAS(end, "ToolError denied say no");
    wire_leave(&client);
}

WIRE_TEST(a_nested_call_goes_to_the_client_and_back, nested)

static void unavailable(struct wire_stage *stage)
{
    static const char source[] = "try { await tools.count({}) } catch (e) { text(e.kind) }";
    struct wire_client a, b;
    wire_join(&a, stage, "a", ""); /* without the capability */
    wire_call(&a, "open_session", "{'session_id':'s-1','serves_tools':true,'linger_ms':0}");
    wire_create(&a, "s-1", "c-1", source);
    CHECK_HAS(observe(&a, "c-1", 1, 20000), "'text':'unavailable'");
    wire_join(&b, stage, "b", "'tools'"); /* has the capability, but does not serve tools */
    wire_call(&b, "open_session", "{'session_id':'s-1','serves_tools':false,'linger_ms':0}");
    wire_create(&b, "s-1", "c-2", source);
    CHECK_HAS(observe(&b, "c-2", 1, 20000), "'text':'unavailable'");
    wire_leave(&a);
    wire_leave(&b);
}

WIRE_TEST(without_a_client_that_serves_tools_they_are_unavailable, unavailable)

static void newest(struct wire_stage *stage)
{
    struct wire_client a, b;
    wire_join_session(&a, stage, "a", "s-1", 1000);
    wire_join_session(&b, stage, "b", "s-1", 1000);
    wire_create(&a, "s-1", "c-1", "text(await tools.count({}))");
    CHECK_HAS(wire_await(&b, "tool_call"), "'call_id':'call-1'");
    /* Any client that has the session open may answer. */
    send_result(&a, "c-1", "call-1", "'ok':5");
    CHECK_HAS(observe(&a, "c-1", 1, 20000), "'text':'5'");
    /* Both receive the end. */
    CHECK_HAS(wire_await(&a, "ended"), "'session_id':'s-1','cell_id':'c-1'}");
    CHECK_HAS(wire_await(&b, "ended"), "'session_id':'s-1','cell_id':'c-1'}");
    wire_leave(&a);
    wire_leave(&b);
}

WIRE_TEST(nested_calls_go_to_the_newest_connection, newest)

static void too_large(struct wire_stage *stage)
{
    struct wire_client client;
    size_t size = BL_CELL_CALL_BYTES_MAX;
    char *result = bl_alloc(size + 1);
    memset(result, 'x', size);
    result[size] = '\0';
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1", "try { await tools.count({}) } catch (e) { text(e.kind) }");
    wire_await(&client, "tool_call");
    wire_send(&client,
              "{'type':'tool_result','session_id':'s-1','cell_id':'c-1','call_id':'call-1',"
              "'ok':'%s'}",
              result);
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'text':'too_large'");
    bl_free(result);
    wire_leave(&client);
}

WIRE_TEST(a_result_that_is_too_large_is_refused_in_the_cell, too_large)

static void ignored_cancel(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1", "await tools.count({})");
    wire_await(&client, "tool_call");
    int64_t worker = wire_worker_pid(stage, "s-1", "c-1");
    CHECK(house_process_lives(worker));
    uint64_t from_ns = bl_now_ns();
    const char *end = terminate(&client, "c-1", "t-1");
    CHECK(figure_between("C38 terminate of a cell whose client ignores tool_cancel",
                         (double)(bl_now_ns() - from_ns) / MS, 500, 600));
    CHECK(!house_process_lives(worker));
    CHECK_HAS(end, "'type':'terminated'");
    CHECK_HAS(end, "'kind':'tool','id':'call-1','name':'count','fate':'unknown'");
    CHECK_HAS(end, "'survivors':0");
    CHECK_HAS(wire_await(&client, "tool_cancel"), "'call_id':'call-1'}");
    wire_leave(&client);
}

WIRE_TEST(C38_a_client_that_ignores_tool_cancel_delays_nothing, ignored_cancel)

static void answered_cancel(struct wire_stage *stage)
{
    static const struct {
        const char *result, *fate;
    } cases[] = {{"'ok':1", "'fate':'finished'"},
                 {"'err':{'kind':'cancelled','message':''}", "'fate':'aborted'"}};
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char cell[16];
        snprintf(cell, sizeof cell, "c-%zu", i);
        wire_create(&client, "s-1", cell, "await tools.count({})");
        wire_await(&client, "tool_call");
        uint64_t id = wire_ask(
            &client, "terminate",
            "{'session_id':'s-1','cell_id':'%s','terminate_id':'t','reason':'user'}", cell);
        CHECK_HAS(wire_await(&client, "tool_cancel"), "'call_id':'call-1'");
        send_result(&client, cell, "call-1", cases[i].result);
        CHECK_HAS(wire_reply(&client, id), cases[i].fate);
    }
    wire_leave(&client);
}

WIRE_TEST(an_answer_to_tool_cancel_is_in_the_receipt, answered_cancel)

/* ---- Notify ---- */

static void notified(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1", "notify(`one`); notify(`two`); text(`done`)");
    CHECK_HAS(wire_await(&client, "notify"),
              "{'type':'notify','session_id':'s-1','cell_id':'c-1','seq':1,'text':'one'}");
    CHECK_HAS(wire_await(&client, "notify"), "'seq':2,'text':'two'}");
    wire_send(&client, "{'type':'notify_ack','session_id':'s-1','cell_id':'c-1','seq':1}");
    wire_send(&client, "{'type':'notify_ack','session_id':'s-1','cell_id':'c-1','seq':9}");
    wire_send(&client, "{'type':'notify_ack','session_id':'s-9','cell_id':'c-1','seq':2}");
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'text':'done'");
    wire_leave(&client);
    /* The other one is sent again. */
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_await(&client, "notify"), "'seq':2,'text':'two'}");
    wire_send(&client, "{'type':'notify_ack','session_id':'s-1','cell_id':'c-1','seq':2}");
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}"), "c-1");
    wire_leave(&client);
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':1}"), "c-1");
    CHECK(strcmp(wire_await_within(&client, "notify", 10 * MS), "") == 0);
    wire_leave(&client);
}

WIRE_TEST(a_notification_is_sent_again_until_it_is_acknowledged, notified)

static void unnotified(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join(&client, stage, "a", "'tools'");
    wire_call(&client, "open_session", "{'session_id':'s-1','serves_tools':true,'linger_ms':0}");
    wire_create(&client, "s-1", "c-1", "try { notify(`x`) } catch { text(`throws`) }");
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'text':'throws'");
    wire_leave(&client);
}

WIRE_TEST(without_the_capability_notify_throws, unnotified)

/* ---- Standard streams ---- */

static void streams(struct wire_stage *stage)
{
    struct wire_client client;
    int ends[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    stage->input = stage->output = ends[1];
    wire_open(stage);
    CHECK(bl_cell_server_path(stage->server) == NULL);
    wire_adopt(&client, ends[0]);
    wire_send(&client, "{'type':'hello','client':'a','versions':[1],'requires':[],'wants':[]}");
    CHECK_HAS(wire_await(&client, "ready"), "'version':1");
    wire_call(&client, "open_session", "{'session_id':'s-1','serves_tools':false,'linger_ms':0}");
    wire_create(&client, "s-1", "c-1", "text(`x`); await new Promise(() => 0)");
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'text':'x'");
    CHECK_EQUAL(shutdown(client.fd, SHUT_WR), 0);
    CHECK_EQUAL(bl_cell_server_wait(stage->server), 0);
    wire_close(stage);
    CHECK_EQUAL(fcntl(ends[1], F_GETFD) >= 0, 1); /* it is still open here */
    close(ends[1]);
    CHECK(wire_await_closed(&client, 10 * BL_NS_PER_S));
    wire_leave(&client);
}

WIRE_TEST_UNOPENED(standard_streams_are_served_until_the_input_ends, streams)

/* Pipes without a reader, and regular files, which cannot be waited for. */
static void other_streams(struct wire_stage *stage)
{
    char path[128];
    int in[2], out[2];
    uint8_t head[4];
    static const char hello[] =
        "{\"type\":\"hello\",\"client\":\"a\",\"versions\":[1],\"requires\":[],\"wants\":[]}";
    bl_frame_head(head, sizeof hello - 1);
    CHECK_EQUAL(pipe2(in, O_CLOEXEC), 0);
    CHECK_EQUAL(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQUAL(write(in[1], head, 4), 4);
    CHECK_EQUAL(write(in[1], hello, sizeof hello - 1), (ssize_t)sizeof hello - 1);
    close(out[0]);
    stage->input = in[0];
    stage->output = out[1];
    wire_open(stage);
    CHECK_EQUAL(bl_cell_server_wait(stage->server), 0);
    wire_close(stage);
    close(in[0]), close(in[1]), close(out[1]);

    snprintf(path, sizeof path, "%s/in", stage->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQUAL(write(fd, head, 4), 4);
    CHECK_EQUAL(write(fd, hello, sizeof hello - 1), (ssize_t)sizeof hello - 1);
    CHECK_EQUAL(lseek(fd, 0, SEEK_SET), 0);
    snprintf(path, sizeof path, "%s/out", stage->folder);
    int to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    stage->input = fd;
    stage->output = to;
    wire_open(stage);
    CHECK_EQUAL(bl_cell_server_wait(stage->server), 0);
    wire_close(stage);
    char text[256] = "";
    CHECK(pread(to, text, sizeof text - 1, 4) > 0);
    CHECK_HAS(text, "{'type':'ready'");
    close(fd), close(to);
}

WIRE_TEST_UNOPENED(standard_streams_may_be_pipes_and_files, other_streams)

static void stop_above(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 1000);
    wire_create(&client, "s-1", "c-1", "text(`x`); await new Promise(() => 0)");
    wire_ask(&client, "observe", OBSERVE, "c-1", 1, 60000);
    bl_scope_stop(&stage->nursery.scope, BL_STOP_SIGNAL, "SIGTERM");
    CHECK_HAS(wire_await(&client, "bye"), "{'type':'bye','reason':'shutting_down'");
    CHECK(wire_await_closed(&client, 10 * BL_NS_PER_S));
    wire_leave(&client);
}

WIRE_TEST(a_stop_of_the_server_says_bye, stop_above)

/* ---- The simple client ---- */

static void simple_client(struct wire_stage *stage)
{
    struct bl_cell_client_options options = {.socket = stage->socket, .name = "simple"};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_cell_fault *fault = bl_zalloc(sizeof *fault);
    struct bl_cell_client *client = NULL;
    struct bl_arena arena = {0};
    struct bl_text ok = {0};
    CHECK_EQUAL(bl_cell_client_open(&options, &client, error), 0);
    CHECK_EQUAL(bl_cell_client_call(
                    client, "open_session",
                    BL_TEXT("{\"session_id\":\"s-1\",\"serves_tools\":false,\"linger_ms\":0}"),
                    &arena, &ok, fault, error),
                0);
    CHECK_EQUAL(bl_cell_client_call(
                    client, "create_cell",
                    BL_TEXT("{\"session_id\":\"s-1\",\"cell_id\":\"c-1\",\"source\":\"text(1+1)\","
                            "\"tools\":[],\"limits\":{}}"),
                    &arena, &ok, fault, error),
                0);
    CHECK_HAS(ok.data, "{'type':'created','cell_id':'c-1'}");
    CHECK_EQUAL(bl_cell_client_call(client, "observe",
                                    BL_TEXT("{\"session_id\":\"s-1\",\"cell_id\":\"c-1\","
                                            "\"generation\":1,\"yield_time_ms\":20000}"),
                                    &arena, &ok, fault, error),
                0);
    CHECK_HAS(ok.data, "'type':'completed'");
    CHECK_EQUAL(bl_cell_client_call(client, "list", BL_TEXT("{}"), &arena, &ok, fault, error),
                BL_EREFUSED);
    CHECK_EQUAL(fault->code, BL_CELL_BAD_REQUEST);
    CHECK_EQUAL(bl_cell_client_call(client, "list", BL_TEXT("{"), &arena, &ok, fault, error),
                BL_EUNKNOWN);
    CHECK_HAS(error->message, "protocol");
    bl_cell_client_close(client);
    wire_close(stage);
    *error = (struct bl_error){0};
    CHECK_EQUAL(bl_cell_client_open(&options, &client, error), BL_ENOENT);
    CHECK_HAS(error->hint, "belay cell serve");
    bl_cell_client_close(NULL);
    bl_arena_done(&arena);
    bl_free(error);
    bl_free(fault);
}

WIRE_TEST(the_simple_client_sends_requests_and_gets_answers, simple_client)

SUITE(server, cmocka_unit_test(a_hello_gets_ready_with_the_requested_capabilities),
      cmocka_unit_test(a_cell_is_created_observed_terminated_and_released),
      cmocka_unit_test(requests_for_one_cell_keep_their_order),
      cmocka_unit_test(no_terminate_overtakes_its_create),
      cmocka_unit_test(operations_need_a_session_that_this_connection_has_opened),
      cmocka_unit_test(a_cancelled_request_is_still_answered),
      cmocka_unit_test(a_nested_call_goes_to_the_client_and_back),
      cmocka_unit_test(without_a_client_that_serves_tools_they_are_unavailable),
      cmocka_unit_test(nested_calls_go_to_the_newest_connection),
      cmocka_unit_test(a_result_that_is_too_large_is_refused_in_the_cell),
      cmocka_unit_test(C38_a_client_that_ignores_tool_cancel_delays_nothing),
      cmocka_unit_test(an_answer_to_tool_cancel_is_in_the_receipt),
      cmocka_unit_test(a_notification_is_sent_again_until_it_is_acknowledged),
      cmocka_unit_test(without_the_capability_notify_throws),
      cmocka_unit_test(standard_streams_are_served_until_the_input_ends),
      cmocka_unit_test(standard_streams_may_be_pipes_and_files),
      cmocka_unit_test(a_stop_of_the_server_says_bye),
      cmocka_unit_test(the_simple_client_sends_requests_and_gets_answers));
