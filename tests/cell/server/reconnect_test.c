/* Connections that close and reopen: requests in progress, frames sent again, sessions that end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cell/host/host.h"
#include "figure.h"
#include "wire_client.h"

#define OBSERVE   "{'session_id':'s-1','cell_id':'%s','generation':%u,'yield_time_ms':%u}"
#define TERMINATE "{'session_id':'s-1','cell_id':'%s','terminate_id':'t','reason':'user'}"
#define LIST      "{'session_id':'s-1','after':null,'max':100}"
#define FOREVER   "setTimeout(() => 0, 600000); await new Promise(() => 0)"

static void send_result(struct wire_client *client, const char *cell, const char *call,
                        const char *result)
{
    wire_send(client, "{'type':'tool_result','session_id':'s-1','cell_id':'%s','call_id':'%s',%s}",
              cell, call, result);
}

static const char *observe(struct wire_client *client, const char *cell, unsigned generation,
                           unsigned yield_ms)
{
    return wire_call(client, "observe", OBSERVE, cell, generation, yield_ms);
}

static const char *terminate(struct wire_client *client, const char *cell)
{
    return wire_call(client, "terminate", TERMINATE, cell);
}

/* ---- Nested calls ---- */

static void back_in_time(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 60000);
    wire_create(&client, "s-1", "c-1", "text(await tools.count({})); text(await tools.count({}))");
    CHECK_HAS(wire_await(&client, "tool_call"), "'redelivered':false");
    wire_leave(&client);
    bl_sleep(20 * MS);
    wire_join_session(&client, stage, "a", "s-1", 60000);
    CHECK_HAS(wire_await(&client, "tool_call"), "'call_id':'call-1','tool':'count','input':{},"
                                                "'redelivered':true}");
    CHECK(strcmp(wire_await_within(&client, "tool_call", 10 * MS), "") == 0);
    send_result(&client, "c-1", "call-1", "'ok':1");
    /* The next call has not been sent to any client. */
    CHECK_HAS(wire_await(&client, "tool_call"), "'call_id':'call-2'");
    send_result(&client, "c-1", "call-2", "'ok':2");
    CHECK_HAS(observe(&client, "c-1", 1, 20000),
              "'content_items':[{'type':'text','text':'1'},{'type':'text','text':'2'}],"
              "'error':null");
    wire_leave(&client);
}

WIRE_TEST(C41_a_call_is_redelivered_once_and_the_cell_completes, back_in_time)

/* Returns how long the session s-1 existed without the client, in ms. */
static double leave_and_await_end(struct wire_stage *stage, struct wire_client *client)
{
    uint64_t from_ns = bl_now_ns();
    wire_leave(client);
    while (bl_map_has(&stage->server->sessions, BL_TEXT("s-1")) &&
           bl_now_ns() < from_ns + 20 * BL_NS_PER_S)
        bl_sleep(2 * MS);
    return (double)(bl_now_ns() - from_ns) / MS;
}

static void not_back(struct wire_stage *stage)
{
    struct wire_client gone, other;
    wire_join(&other, stage, "b", "'tools'");
    CHECK_HAS(
        wire_call(&other, "open_session", "{'session_id':'s-2','serves_tools':true,'linger_ms':0}"),
        "opened");
    wire_create(&other, "s-2", "c-1", "store(`k`, 5); await tools.count({}); text(load(`k`))");
    wire_await(&other, "tool_call");
    wire_join_session(&gone, stage, "a", "s-1", 200);
    wire_create(&gone, "s-1", "c-1", "text(`x`); await tools.count({})");
    wire_await(&gone, "tool_call");
    CHECK(figure_between("C41 end of a session whose client disconnected",
                         leave_and_await_end(stage, &gone), 200, 300));
    /* Its record has that end; the other client's cell continued. */
    wire_join_session(&gone, stage, "a", "s-1", 200);
    const char *end = observe(&gone, "c-1", 1, 0);
    CHECK_HAS(end, "'type':'terminated'");
    CHECK_HAS(end, "'text':'x'");
    CHECK_HAS(end, "'reason':'client_gone','origin':'linger'");
    CHECK_HAS(end, "'survivors':0");
    wire_send(&other, "{'type':'tool_result','session_id':'s-2','cell_id':'c-1',"
                      "'call_id':'call-1','ok':1}");
    CHECK_HAS(wire_call(&other, "observe",
                        "{'session_id':'s-2','cell_id':'c-1','generation':1,"
                        "'yield_time_ms':20000}"),
              "'text':'5'}],'error':null");
    wire_leave(&gone);
    wire_leave(&other);
}

WIRE_TEST(C41_after_the_linger_time_its_cells_end_and_no_others, not_back)

/* A call made without a client waits, and is not marked as redelivered. */
static void called_meanwhile(struct wire_stage *stage)
{
    struct wire_client client, other;
    wire_join(&other, stage, "b", "");
    CHECK_HAS(wire_call(&other, "open_session",
                        "{'session_id':'s-1','serves_tools':false,'linger_ms':0}"),
              "opened");
    wire_join_session(&client, stage, "a", "s-1", 60000);
    wire_leave(&client);
    while (wire_connections(stage) > 1 && bl_yield() == 0)
        continue;
    wire_create(&other, "s-1", "c-1", "text(await tools.count({}))");
    wire_create(&other, "s-1", "c-2", "await tools.count({})");
    while (strstr(wire_call(&other, "list", LIST), "\"cell_id\":\"c-2\"") == NULL ||
           !wire_has(strstr(wire_call(&other, "list", LIST), "\"cell_id\":\"c-2\""), "'calls':1"))
        bl_sleep(2 * MS);
    CHECK_HAS(terminate(&other, "c-2"), "'fate':'never_started'");
    wire_join_session(&client, stage, "a", "s-1", 1000);
    CHECK_HAS(wire_await(&client, "tool_call"), "'cell_id':'c-1','call_id':'call-1',"
                                                "'tool':'count','input':{},'redelivered':false");
    send_result(&client, "c-1", "call-1", "'ok':7");
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'text':'7'");
    wire_leave(&client);
    wire_leave(&other);
}

WIRE_TEST(a_call_made_without_a_client_waits, called_meanwhile)

/* A client that stays connected keeps its calls, even if a newer one connects. */
static void not_taken_away(struct wire_stage *stage)
{
    struct wire_client older, newer;
    wire_join_session(&older, stage, "a", "s-1", 1000);
    wire_create(&older, "s-1", "c-1", "text(await tools.count({})); text(await tools.count({}))");
    CHECK_HAS(wire_await(&older, "tool_call"), "'call_id':'call-1'");
    wire_join_session(&newer, stage, "b", "s-1", 1000);
    CHECK(strcmp(wire_await_within(&newer, "tool_call", 20 * MS), "") == 0);
    send_result(&older, "c-1", "call-1", "'ok':1");
    CHECK_HAS(wire_await(&newer, "tool_call"), "'call_id':'call-2'");
    send_result(&newer, "c-1", "call-2", "'ok':2");
    CHECK_HAS(observe(&older, "c-1", 1, 20000), "'text':'2'");
    wire_leave(&older);
    wire_leave(&newer);
}

WIRE_TEST(a_call_stays_with_the_connection_that_has_it, not_taken_away)

/* ---- Linger ---- */

static uint64_t linger_until(const struct wire_stage *stage)
{
    const struct server_session *session = bl_map_get(&stage->server->sessions, BL_TEXT("s-1"));
    return session != NULL ? session->linger_until_ns : 0;
}

static void lingers(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 50000);
    wire_create(&client, "s-1", "c-1", FOREVER);
    CHECK(linger_until(stage) == BL_NEVER);
    uint64_t left_ns = bl_now_ns();
    wire_leave(&client);
    while (wire_connections(stage) > 0 && bl_yield() == 0)
        continue;
    CHECK(linger_until(stage) >= left_ns + 50000 * MS);
    CHECK(linger_until(stage) <= bl_now_ns() + 50000 * MS);
    wire_join_session(&client, stage, "a", "s-1", 50000);
    CHECK(linger_until(stage) == BL_NEVER);
    CHECK_HAS(wire_call(&client, "list", LIST), "'cell_id':'c-1','state':'running'");
    /* The newest open sets no linger time. */
    CHECK_HAS(wire_call(&client, "open_session",
                        "{'session_id':'s-1','serves_tools':true,'linger_ms':0}"),
              "opened");
    wire_leave(&client);
    while (linger_until(stage) != 0)
        bl_sleep(MS);
    wire_join_session(&client, stage, "a", "s-1", 0);
    CHECK_HAS(wire_call(&client, "list", LIST), "'cell_id':'c-1','state':'terminated'");
    wire_leave(&client);
}

WIRE_TEST(a_session_lingers_as_long_as_its_newest_open_says, lingers)

/* ---- A newer connection ---- */

static void superseded(struct wire_stage *stage)
{
    struct wire_client older, newer, other;
    wire_join_session(&other, stage, "b", "s-1", 1000);
    wire_join_session(&older, stage, "a", "s-1", 60000);
    wire_create(&older, "s-1", "c-1", FOREVER);
    uint64_t waits = wire_ask(&other, "observe", OBSERVE, "c-1", 1, 60000);
    wire_ask(&older, "observe", OBSERVE, "c-1", 1, 60000);
    wire_join_session(&newer, stage, "a", "s-1", 60000);
    CHECK_HAS(wire_await(&older, "bye"), "{'type':'bye','reason':'superseded','message':'");
    CHECK(wire_await_closed(&older, 10 * BL_NS_PER_S));
    CHECK_HAS(wire_call(&newer, "list", LIST), "'state':'running','generation':0");
    CHECK_HAS(terminate(&newer, "c-1"), "'type':'terminated'");
    CHECK_HAS(wire_reply(&other, waits), "'type':'terminated'");
    wire_leave(&older);
    wire_leave(&newer);
    wire_leave(&other);
}

WIRE_TEST(a_newer_connection_of_a_client_supersedes_the_older_one, superseded)

/* Fills the older connection's queue before the create: the more there is, the later the create is
 * read. */
static void send_padding(struct wire_client *client, uint64_t count)
{
    struct bl_buffer padding;
    uint8_t head[4];
    static const char cancel[] = "{\"type\":\"cancel\",\"id\":1}";
    bl_buffer_init(&padding, SIZE_MAX);
    bl_frame_head(head, sizeof cancel - 1);
    for (uint64_t i = 0; i < count; i++) {
        bl_buffer_append(&padding, (struct bl_text){(const char *)head, 4});
        bl_buffer_append(&padding, (struct bl_text){cancel, sizeof cancel - 1});
    }
    wire_send_bytes(client, bl_buffer_text(&padding));
    bl_buffer_done(&padding);
}

/* Returns whether that cell has sent a notification. */
static bool is_notified(struct wire_client *client, const char *cell)
{
    char part[64];
    const char *notify;
    snprintf(part, sizeof part, "'cell_id':'%s'", cell);
    while ((notify = wire_await_within(client, "notify", 2 * MS))[0] != '\0') {
        if (wire_has(notify, part))
            return true;
        wire_send(client, "{'type':'notify_ack','session_id':'s-1','cell_id':'%s','seq':1}",
                  wire_field(notify, "cell_id"));
    }
    return false;
}

static void old_creates(struct wire_stage *stage)
{
    unsigned long rounds = suite_rounds(25, 1000), ran = 0, missing = 0;
    struct wire_client older, newer;
    struct bl_random random;
    bl_random_seed(&random, 43);
    wire_join_session(&older, stage, "a", "s-1", 60000);
    for (unsigned long i = 0; i < rounds; i++) {
        char cell[24];
        snprintf(cell, sizeof cell, "c-%lu", i);
        send_padding(&older, bl_random_below(&random, 3) == 0 ? 0 : bl_random_below(&random, 4000));
        wire_ask_create(&older, "s-1", cell, "notify(`it runs`); await new Promise(() => 0)");
        for (uint64_t turns = bl_random_below(&random, 4); turns > 0; turns--)
            bl_yield();
        wire_join_session(&newer, stage, "a", "s-1", 60000);
        const char *end = terminate(&newer, cell);
        if (wire_has(end, "'ok':{'type':'missing'")) {
            missing++;
            CHECK(!is_notified(&newer, cell));
            CHECK_HAS(observe(&newer, cell, 1, 0), "'type':'missing'");
        } else {
            ran++;
            CHECK_HAS(end, "'ok':{'type':'terminated'");
        }
        wire_leave(&older);
        older = newer;
        /* Its list head has moved. */
        bl_list_init(&older.incoming);
    }
    printf("%lu ran and were terminated, %lu were missing and never ran\n", ran, missing);
    CHECK(ran > 0 && missing > 0);
    wire_leave(&older);
}

WIRE_TEST(C43_no_old_create_takes_effect_after_a_new_terminate, old_creates)

static bool is_creating(const struct wire_stage *stage)
{
    BL_LIST_EACH (link, &stage->server->connections)
        if (server_requests_creating(BL_CONTAINER(link, struct server_connection, link)))
            return true;
    return false;
}

/* The same with a create in progress: the newer connection waits for it. */
static void create_under_way(struct wire_stage *stage)
{
    struct wire_client older, newer;
    stage->faults = "cell.create.admitted=delay:150";
    wire_open(stage);
    wire_join_session(&older, stage, "a", "s-1", 60000);
    wire_ask_create(&older, "s-1", "c-1", FOREVER);
    while (!is_creating(stage) && bl_yield() == 0)
        continue;
    wire_join(&newer, stage, "a", "");
    CHECK(!is_creating(stage));
    wire_call(&newer, "open_session", "{'session_id':'s-1','serves_tools':true,'linger_ms':0}");
    CHECK_HAS(terminate(&newer, "c-1"), "'type':'terminated'");
    wire_leave(&older);
    wire_leave(&newer);
}

WIRE_TEST_UNOPENED(a_create_that_has_begun_ends_before_the_newer_connection_is_ready,
                   create_under_way)

/* ---- Duplicates and lost replies ---- */

static void duplicates(struct wire_stage *stage)
{
    struct wire_client clients[4];
    uint64_t ids[4][25];
    for (size_t i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "n-%zu", i);
        wire_join_session(&clients[i], stage, name, "s-1", 1000);
    }
    for (size_t j = 0; j < 25; j++)
        for (size_t i = 0; i < 4; i++)
            ids[i][j] = wire_ask_create(&clients[i], "s-1", "c-1", "text(await tools.count({}))");
    for (size_t j = 0; j < 25; j++)
        for (size_t i = 0; i < 4; i++)
            CHECK_HAS(wire_reply(&clients[i], ids[i][j]),
                      "'ok':{'type':'created','cell_id':'c-1'}}");
    wire_await(&clients[3], "tool_call");
    send_result(&clients[3], "c-1", "call-1", "'ok':1");
    CHECK_HAS(observe(&clients[0], "c-1", 1, 20000), "'text':'1'");
    CHECK_HAS(wire_create(&clients[1], "s-1", "c-1", "text(2)"), "'err':{'code':'conflict',");
    CHECK_HAS(wire_call(&clients[2], "create_cell",
                        "{'session_id':'s-1','cell_id':'c-1','source':'text(await "
                        "tools.count({}))','tools':[{'name':'say','description':'','input':'text',"
                        "'input_schema':null},{'name':'count','description':'','input':'object',"
                        "'input_schema':null}],'limits':{'deadline_ms':5}}"),
              "'type':'created'");
    for (size_t i = 0; i < 4; i++) {
        CHECK(strcmp(wire_await_within(&clients[i], "tool_call", MS), "") == 0);
        wire_leave(&clients[i]);
    }
}

WIRE_TEST(C12_one_create_100_times_at_once_over_4_connections_runs_once, duplicates)

/* Sends a request whose reply is dropped, on a connection of its own, and repeats it on new
 * ones. */
static const char *ask_thrice(struct wire_stage *stage, struct bl_arena *arena, const char *op,
                              const char *args, const char *expected)
{
    struct wire_client client;
    const char *answers[2];
    wire_join_session(&client, stage, "a", "s-1", 60000);
    stage->host->faults.rules[CELL_AT_REPLY_SEND] =
        (struct cell_fault_rule){CELL_RULE_DROP, 0, 1, 0};
    wire_ask(&client, op, "%s", args);
    while (stage->host->faults.rules[CELL_AT_REPLY_SEND].seen == 0 && bl_yield() == 0)
        continue;
    stage->host->faults.rules[CELL_AT_REPLY_SEND].what = CELL_RULE_NONE;
    wire_leave(&client);
    for (size_t i = 0; i < 2; i++) {
        wire_join_session(&client, stage, "a", "s-1", 60000);
        const char *reply = wire_call(&client, op, "%s", args);
        CHECK_HAS(reply, expected);
        answers[i] = bl_arena_text(arena, bl_text_from(wire_ok(&client, reply))).data;
        wire_leave(&client);
    }
    CHECK(strcmp(op, "list") == 0 || strcmp(answers[0], answers[1]) == 0);
    return answers[0];
}

/* Counts the cell's notifications since the last call: one for each time that it ran. */
static unsigned count_runs(struct wire_stage *stage)
{
    struct wire_client client;
    unsigned runs = 0;
    const char *notify;
    wire_join_session(&client, stage, "a", "s-1", 60000);
    while ((notify = wire_await_within(&client, "notify", runs == 0 ? 20 * MS : MS))[0] != '\0') {
        runs++;
        wire_send(&client, "{'type':'notify_ack','session_id':'s-1','cell_id':'%s','seq':1}",
                  wire_field(notify, "cell_id"));
    }
    wire_call(&client, "list", LIST); /* its answer follows the acknowledgements */
    wire_leave(&client);
    return runs;
}

static void lost_replies(struct wire_stage *stage)
{
    unsigned rounds = (unsigned)suite_rounds(3, 167); /* of 6 operations */
    char args[512];
    for (unsigned i = 0; i < rounds; i++) {
        struct bl_arena arena = {0};
        ask_thrice(stage, &arena, "open_session",
                   "{'session_id':'s-1','serves_tools':true,'linger_ms':60000}", "opened");
        snprintf(args, sizeof args,
                 "{'session_id':'s-1','cell_id':'c-%u','source':'notify(`it runs`); text(`x`); "
                 "await new Promise(() => 0)','tools':[],'limits':{}}",
                 i);
        ask_thrice(stage, &arena, "create_cell", args, "'type':'created'");
        char cell[16];
        snprintf(cell, sizeof cell, "c-%u", i);
        snprintf(args, sizeof args, OBSERVE, cell, 1, 20000);
        ask_thrice(stage, &arena, "observe", args, "'type':'yielded'");
        ask_thrice(stage, &arena, "list", "{'session_id':'s-1','after':null,'max':1000}", cell);
        snprintf(args, sizeof args,
                 "{'session_id':'s-1','cell_id':'%s','terminate_id':'t','reason':'user'}", cell);
        ask_thrice(stage, &arena, "terminate", args, "'type':'terminated'");
        snprintf(args, sizeof args, "{'session_id':'s-1','cell_id':'%s','generation':2}", cell);
        CHECK_EQUAL(count_runs(stage), 1);
        ask_thrice(stage, &arena, "release", args, "'type':'released'");
        bl_arena_done(&arena);
    }
    /* After the close, the retry opens the session again. */
    struct bl_arena arena = {0};
    ask_thrice(stage, &arena, "close_session", "{'session_id':'s-1','forget':false}",
               "'type':'closed'");
    bl_arena_done(&arena);
}

WIRE_TEST(C24_retries_of_a_lost_reply_get_the_same_answer, lost_replies)

static void lost_before(struct wire_stage *stage)
{
    struct wire_client client;
    wire_join_session(&client, stage, "a", "s-1", 60000);
    stage->host->faults.rules[CELL_AT_CREATE_ADMIT] =
        (struct cell_fault_rule){CELL_RULE_DROP, 0, 1, 0};
    wire_ask_create(&client, "s-1", "c-1", "await tools.count({}); await new Promise(() => 0)");
    CHECK_HAS(wire_call(&client, "list", "{'session_id':'s-1','after':null,'max':10}"),
              "'cells':[]");
    /* Only a part of a terminate. */
    wire_send_bytes(&client, BL_TEXT("\0\0\0\200{\"type\":\"request\",\"id\":99,\"op\":\"termin"));
    wire_leave(&client);
    wire_join_session(&client, stage, "a", "s-1", 60000);
    CHECK_HAS(
        wire_create(&client, "s-1", "c-1", "await tools.count({}); await new Promise(() => 0)"),
        "'type':'created'");
    CHECK_HAS(wire_await(&client, "tool_call"), "'call_id':'call-1'");
    send_result(&client, "c-1", "call-1", "'ok':null");
    CHECK_HAS(observe(&client, "c-1", 1, 20000), "'stalled':true");
    const char *end = terminate(&client, "c-1");
    CHECK_HAS(end, "'type':'terminated'");
    CHECK(strcmp(wire_ok(&client, end), wire_ok(&client, terminate(&client, "c-1"))) == 0);
    CHECK(strcmp(wire_await_within(&client, "tool_call", MS), "") == 0);
    wire_leave(&client);
}

WIRE_TEST(C25_a_lost_request_has_no_effect, lost_before)

/* ---- A new host ---- */

static void restarted(struct wire_stage *stage)
{
    struct wire_client client;
    char instance[64];
    wire_connect(&client, stage);
    wire_send(&client, "{'type':'hello','client':'a','versions':[1],'requires':[],'wants':[]}");
    snprintf(instance, sizeof instance, "%s", wire_field(wire_await(&client, "ready"), "instance"));
    wire_call(&client, "open_session", "{'session_id':'s-1','serves_tools':false,'linger_ms':0}");
    wire_create(&client, "s-1", "c-1", "text(`x`)");
    const char *end = wire_ok(&client, observe(&client, "c-1", 1, 20000));
    wire_create(&client, "s-1", "c-2", FOREVER);
    wire_close(stage);
    CHECK_HAS(wire_await(&client, "bye"), "{'type':'bye','reason':'shutting_down'");
    wire_open(stage);
    struct wire_client again;
    wire_connect(&again, stage);
    wire_send(&again, "{'type':'hello','client':'a','versions':[1],'requires':[],'wants':[]}");
    const char *ready = wire_await(&again, "ready");
    CHECK(strcmp(wire_field(ready, "instance"), instance) != 0);
    wire_call(&again, "open_session", "{'session_id':'s-1','serves_tools':false,'linger_ms':0}");
    CHECK(strcmp(wire_ok(&again, observe(&again, "c-1", 1, 0)), end) == 0);
    const char *stopped = observe(&again, "c-2", 1, 0);
    CHECK_HAS(stopped, "'type':'terminated'");
    CHECK_HAS(stopped, "'reason':'shutdown','origin':'test'");
    wire_leave(&client);
    wire_leave(&again);
}

WIRE_TEST(a_host_that_ends_says_bye_and_the_next_one_has_its_records, restarted)

SUITE(reconnect, cmocka_unit_test(C41_a_call_is_redelivered_once_and_the_cell_completes),
      cmocka_unit_test(C41_after_the_linger_time_its_cells_end_and_no_others),
      cmocka_unit_test(a_call_made_without_a_client_waits),
      cmocka_unit_test(a_call_stays_with_the_connection_that_has_it),
      cmocka_unit_test(a_session_lingers_as_long_as_its_newest_open_says),
      cmocka_unit_test(a_newer_connection_of_a_client_supersedes_the_older_one),
      cmocka_unit_test(C43_no_old_create_takes_effect_after_a_new_terminate),
      cmocka_unit_test(a_create_that_has_begun_ends_before_the_newer_connection_is_ready),
      cmocka_unit_test(C12_one_create_100_times_at_once_over_4_connections_runs_once),
      cmocka_unit_test(C24_retries_of_a_lost_reply_get_the_same_answer),
      cmocka_unit_test(C25_a_lost_request_has_no_effect),
      cmocka_unit_test(a_host_that_ends_says_bye_and_the_next_one_has_its_records));
