/* The five tools, without a carrier; and on standard streams, over a pair of sockets. */
#include "mcp_rig.h"

#define SAYS "replies: [{say: ok}]\nrepeat: true\n"
#define SETSID                                                                                     \
    "replies:\n  - {tools: [{name: bash, input: {command: \"trap '' TERM; setsid sh -c 'touch "    \
    "at-work; sleep 600' & sleep 600\"}}]}\n  - say: after it\n"
#define SILENT "replies: [{wedge: before_first_token}]\nrepeat: true\n"

static const struct bl_json *structured(const struct asked *asked)
{
    const struct bl_json *value = bl_json_get(asked->result, BL_TEXT("structuredContent"));
    const struct bl_json *text = rig_json(&asked->rig->arena, asked_text(asked, "/content/0/text"));

    CHECK(value != NULL && bl_json_equal(value, text));
    return value;
}

static bool is_error(const struct asked *asked)
{
    return bl_json_boolean(bl_json_get(asked->result, BL_TEXT("isError")), false);
}

/* Returns whether two answers have the same bytes. */
static bool is_same(const struct asked *a, const struct asked *b)
{
    bool same = bl_text_equal(a->reply.result, b->reply.result);

    if (!same)
        print_error(BL_TEXT_FORMAT "\n" BL_TEXT_FORMAT "\n", BL_TEXT_ARG(a->reply.result),
                    BL_TEXT_ARG(b->reply.result));
    return same;
}

static void expect(struct mcp_rig *rig, const char *params, const char *path)
{
    struct asked *asked = answer_to(rig, "tools/call", params);

    CHECK(asked_failed(asked, BL_RPC_INVALID_PARAMS, path));
    asked_done(asked);
}

MCP_RIG(bad_arguments_are_refused_with_their_path, SAYS)
{
    expect(rig, "{" NOW_META "}", "/name");
    expect(rig, "{" NOW_META ",'name':7}", "/name");
    expect(rig, CALL(NOW_META, "nothing", "{}"), "/name");
    expect(rig, CALL(NOW_META, "run", "[]"), "/arguments");
    expect(rig, "{" NOW_META ",'name':'run'}", "/arguments");
    expect(rig, CALL(NOW_META, "run", "{'prompt':7}"), "/arguments/prompt");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','session':'../x'}"), "/arguments/session");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','timeout':'soon'}"), "/arguments/timeout");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','timeout':1e300}"), "/arguments/timeout");
    /* A schema accepts it as a whole number. */
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','max_turns':1e30}"), "/arguments/max_turns");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','max_turns':0}"), "/arguments/max_turns");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'all'}"),
           "/arguments/permission_mode");
    expect(rig, CALL(NOW_META, "exec", "{'source':''}"), "/arguments/source");
    expect(rig, CALL(NOW_META, "exec", "{'source':'1','cell_id':'A'}"), "/arguments/cell_id");
    expect(rig, CALL(NOW_META, "exec", "{'source':'1','yield_time_ms':-1}"),
           "/arguments/yield_time_ms");
    expect(rig, CALL(NOW_META, "wait", "{'cell_id':'c','generation':0}"), "/arguments/generation");
    expect(rig, CALL(NOW_META, "cancel", "{'id':''}"), "/arguments/id");
    CHECK_EQUAL((int)!bl_list_empty(&rig->runtime.open), 0);
}

/* ---- run ------------------------------------------------------------------------------------- */

/* With the members of the envelope, it must match docs/schemas/run.json. */
static void check_payload(struct mcp_rig *rig, struct bl_text payload, int exit_code)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    struct bl_json_schema *schema = NULL;
    struct bl_list problems;
    char path[512];

    snprintf(path, sizeof path, "%s/docs/schemas/run.json", root != NULL ? root : ".");
    struct bl_text file = suite_read_file(path);
    CHECK_EQUAL(bl_json_schema_new(rig_json(&rig->arena, file), &schema, &rig->error), 0);
    struct bl_text envelope = bl_arena_printf(
        &rig->arena,
        "{\"timestamp\":\"2026-11-16T00:00:00.000Z\",\"command\":\"run\",\"exit_code\":%d,"
        "\"output_format\":\"json\",\"schema_version\":1,%.*s",
        exit_code, (int)payload.size - 1, payload.data + 1);
    if (!CHECK_EQUAL(
            bl_json_schema_check(schema, rig_json(&rig->arena, envelope), &rig->arena, &problems),
            0))
        print_error(BL_TEXT_FORMAT "\n", BL_TEXT_ARG(payload));
    bl_json_schema_free(schema);
    bl_free((void *)(uintptr_t)file.data);
}

MCP_RIG(run_answers_with_the_payload_of_run, SAYS)
{
    struct asked *asked = answer_to(
        rig, "tools/call",
        CALL(NOW_META, "run", "{'prompt':'hello','session':'s-1','timeout':'1h','max_turns':1}"));

    structured(asked);
    check_payload(rig, asked_text(asked, "/content/0/text"), 0);
    CHECK(asked_is(asked, "/structuredContent/session_id", "s-1"));
    CHECK(asked_is(asked, "/structuredContent/provider", "script"));
    CHECK(asked_is(asked, "/structuredContent/final_stop_reason", "completed"));
    CHECK(asked_is(asked, "/structuredContent/turns/0/output", "ok"));
    CHECK(asked_is(asked, "/structuredContent/turns/0/prompt", "hello"));
    CHECK(!is_error(asked));
    asked_done(asked);
    /* A second run continues the session. */
    asked =
        answer_to(rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'again','session':'s-1'}"));
    CHECK(asked_is(asked, "/structuredContent/turns/0/output", "ok"));
    asked_done(asked);
    struct bl_store_session_view view;
    CHECK_EQUAL(bl_store_show(rig->store, &rig->arena, "s-1", &view, &rig->error), 0);
    CHECK_EQUAL(view.turn_count, 2);
}

MCP_RIG(run_with_a_request_id_is_run_once, "replies: [{say: one}, {say: two}]\n")
{
    const char *params = CALL(NOW_META, "run", "{'prompt':'p','request_id':'r-1'}");
    struct asked *first = answer_to(rig, "tools/call", params);
    struct asked *second = answer_to(rig, "tools/call", params);

    CHECK(asked_is(first, "/structuredContent/turns/0/output", "one"));
    CHECK(asked_is(second, "/structuredContent/turns/0/output", "one"));
    CHECK(bl_json_equal(bl_json_pointer(first->result, BL_TEXT("/structuredContent/turns")),
                        bl_json_pointer(second->result, BL_TEXT("/structuredContent/turns"))));
    asked_done(second);
    second = answer_to(rig, "tools/call",
                       CALL(NOW_META, "run", "{'prompt':'other','request_id':'r-1'}"));
    CHECK(is_error(second));
    CHECK(asked_is(second, "/_meta/belay~1error/kind", "usage"));
    CHECK(bl_json_get(second->result, BL_TEXT("structuredContent")) == NULL);
    asked_done(second);
    asked_done(first);
}

MCP_RIG(M13_wider_mode_is_refused, SAYS)
{
    rig->runtime.mode = BL_PERMISSION_READ_ONLY;
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'yolo'}"),
           "/arguments/permission_mode");
    expect(rig, CALL(TASK_META, "run", "{'prompt':'x','permission_mode':'auto'}"),
           "/arguments/permission_mode");
    expect(rig, CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'ask'}"),
           "/arguments/permission_mode");
    struct asked *asked = answer_to(
        rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'read-only'}"));
    CHECK(!is_error(asked));
    asked_done(asked);
    rig->runtime.mode = BL_PERMISSION_AUTO;
    asked = answer_to(rig, "tools/call",
                      CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'read-only'}"));
    CHECK(!is_error(asked));
    asked_done(asked);
}

MCP_RIG(narrower_mode_is_in_force,
        "replies: [{tools: [{name: bash, input: {command: touch made}}]}, {say: done}]\n")
{
    struct asked *asked = answer_to(
        rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x','permission_mode':'read-only'}"));

    CHECK(asked_is(asked, "/structuredContent/turns/0/permission_denials/0/tool_name", "bash"));
    CHECK(!rig_has_file(rig, "made"));
    asked_done(asked);
}

MCP_RIG(run_over_its_timeout_is_an_error_with_its_result, SILENT)
{
    struct asked *asked =
        answer_to(rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x','timeout':0.2}"));

    CHECK(is_error(asked));
    CHECK(asked_is(asked, "/structuredContent/final_stop_reason", "timeout"));
    CHECK(asked_is(asked, "/structuredContent/receipt/reason", "timeout"));
    asked_done(asked);
    asked = answer_to(rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x','timeout':0}"));
    CHECK(asked_is(asked, "/structuredContent/final_stop_reason", "timeout"));
    asked_done(asked);
    /* During the opening of its workspace. */
    rig_block_opening(rig);
    asked = answer_to(rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x','timeout':0.1}"));
    CHECK(asked_is(asked, "/structuredContent/final_stop_reason", "timeout"));
    structured(asked);
    check_payload(rig, asked_text(asked, "/content/0/text"), 124);
    asked_done(asked);
    rig_unblock_opening(rig);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

#define TOKEN_META                                                                                 \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{},'progressToken':'t'}"

static struct asked *cancel(struct mcp_rig *rig, const char *id)
{
    char params[512];

    snprintf(params, sizeof params, CALL(NOW_META, "cancel", "{'id':'%s','reason':'enough'}"), id);
    return answer_to(rig, "tools/call", params);
}

MCP_RIG(M5_cancelled_run_has_stopped_and_cancel_returns_its_receipt, SETSID)
{
    struct asked *asked = ask(rig, "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}"));

    CHECK_EQUAL(bl_semaphore_take(&asked->told), 0);
    rig_await_file(rig, "at-work");
    CHECK(rig_processes(rig) >= 2);
    bl_scope_stop(&asked->scope, BL_STOP_USER, "mcp");
    asked_await(asked);
    CHECK(asked->reply.dropped);
    CHECK_EQUAL(rig_processes(rig), 0);
    struct asked *first = cancel(rig, asked->progress_id), *again = cancel(rig, asked->progress_id);
    CHECK(asked_is(first, "/structuredContent/scope", asked->progress_id));
    CHECK(asked_is(first, "/structuredContent/reason", "user"));
    CHECK(asked_is(first, "/structuredContent/origin", "mcp"));
    CHECK(!is_error(first));
    CHECK(is_same(first, again));
    asked_done(first);
    asked_done(again);
    asked_done(asked);
}

MCP_RIG(M11_cancel_of_running_or_ended_work_has_the_same_answer_each_time, SILENT)
{
    struct asked *asked = ask(rig, "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}"));

    CHECK_EQUAL(bl_semaphore_take(&asked->told), 0);
    struct asked *first = cancel(rig, asked->progress_id);
    CHECK(asked_is(first, "/structuredContent/origin", "mcp cancel: enough"));
    asked_await(asked);
    CHECK(!asked->reply.dropped && is_error(asked));
    CHECK(asked_is(asked, "/structuredContent/final_stop_reason", "cancelled"));
    CHECK(bl_json_equal(bl_json_pointer(asked->result, BL_TEXT("/structuredContent/receipt")),
                        structured(first)));
    for (int i = 0; i < 5; i++) {
        struct asked *again = cancel(rig, asked->progress_id);
        CHECK(is_same(first, again));
        asked_done(again);
    }
    asked_done(first);
    asked_done(asked);
}

MCP_RIG(run_stopped_before_it_has_a_session_has_a_receipt, SAYS)
{
    rig_block_opening(rig);
    struct asked *asked = ask(rig, "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}"));
    CHECK_EQUAL(bl_semaphore_take(&asked->told), 0);
    bl_scope_stop(&asked->scope, BL_STOP_USER, "mcp");
    asked_await(asked);
    CHECK(asked->reply.dropped);
    struct asked *first = cancel(rig, asked->progress_id), *again = cancel(rig, asked->progress_id);
    CHECK(asked_is(first, "/structuredContent/scope", asked->progress_id));
    CHECK(asked_is(first, "/structuredContent/origin", "mcp"));
    CHECK(is_same(first, again));
    asked_done(first);
    asked_done(again);
    asked_done(asked);
    rig_unblock_opening(rig);
}

MCP_RIG(cancel_of_a_completed_run_returns_its_result_and_of_an_unknown_id_an_error, SAYS)
{
    struct asked *asked = answer_to(rig, "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}"));
    struct asked *first = cancel(rig, asked->progress_id), *again = cancel(rig, asked->progress_id);

    CHECK(asked_is(first, "/structuredContent/stop_reason", "completed"));
    CHECK(is_same(first, again));
    asked_done(first);
    asked_done(again);
    asked_done(asked);
    first = cancel(rig, "run_nothing");
    CHECK(is_error(first));
    CHECK(asked_is(first, "/_meta/belay~1error/kind", "usage"));
    asked_done(first);
}

MCP_RIG(request_cancelled_before_it_is_served_starts_nothing, SAYS)
{
    struct asked *asked = ask(rig, "tools/call", CALL(NOW_META, "run", "{'prompt':'x'}"));

    bl_scope_stop(&asked->scope, BL_STOP_USER, "mcp");
    asked_await(asked);
    CHECK(asked->reply.dropped);
    CHECK(bl_list_empty(&rig->server->works));
    asked_done(asked);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

MCP_RIG(exec_is_an_error_if_the_host_does_not_start, SAYS)
{
    setenv("BELAY_FAULT", "nonsense", true);
    struct asked *asked = answer_to(rig, "tools/call", CALL(NOW_META, "exec", "{'source':'1'}"));
    unsetenv("BELAY_FAULT");
    CHECK(is_error(asked));
    asked_done(asked);
    asked = answer_to(rig, "tools/call", CALL(NOW_META, "exec", "{'source':'1'}"));
    CHECK(!is_error(asked));
    asked_done(asked);
}

MCP_RIG(cells_answer_with_their_outcomes_unchanged, SAYS)
{
    struct asked *asked = answer_to(
        rig, "tools/call", CALL(NOW_META, "exec", "{'source':'text(1+1)','cell_id':'c-1'}"));

    structured(asked);
    CHECK(asked_is(asked, "/structuredContent/type", "completed"));
    CHECK(asked_is(asked, "/structuredContent/cell_id", "c-1"));
    CHECK(asked_is(asked, "/structuredContent/content_items/0/text", "2"));
    CHECK(!is_error(asked));
    struct asked *again = answer_to(
        rig, "tools/call", CALL(NOW_META, "exec", "{'source':'text(1+1)','cell_id':'c-1'}"));
    CHECK(is_same(asked, again));
    asked_done(again);
    again =
        answer_to(rig, "tools/call", CALL(NOW_META, "wait", "{'cell_id':'c-1','generation':1}"));
    CHECK(is_same(asked, again));
    asked_done(again);
    again = answer_to(rig, "tools/call",
                      CALL(NOW_META, "exec", "{'source':'text(3)','cell_id':'c-1'}"));
    CHECK(is_error(again));
    CHECK(asked_is(again, "/_meta/belay~1error/code", "conflict"));
    asked_done(again);
    asked_done(asked);
    asked = answer_to(rig, "tools/call", CALL(NOW_META, "exec", "{'source':'throw Error(`no`)'}"));
    CHECK(is_error(asked));
    CHECK(asked_is(asked, "/structuredContent/error/message", "no"));
    asked_done(asked);
    asked =
        answer_to(rig, "tools/call", CALL(NOW_META, "wait", "{'cell_id':'c-none','generation':1}"));
    CHECK(is_error(asked) && asked_is(asked, "/structuredContent/type", "missing"));
    asked_done(asked);
}

MCP_RIG(cell_that_yields_is_waited_for_and_terminated, SAYS)
{
    struct asked *asked = answer_to(
        rig, "tools/call",
        CALL(NOW_META, "exec",
             "{'source':'text(`a`); yield_control(); for(;;) await null','cell_id':'c-2'}"));

    CHECK(asked_is(asked, "/structuredContent/type", "yielded"));
    CHECK(asked_is(asked, "/structuredContent/content_items/0/text", "a"));
    CHECK(!is_error(asked));
    asked_done(asked);
    asked = answer_to(rig, "tools/call",
                      CALL(NOW_META, "wait", "{'cell_id':'c-2','generation':2,'yield_time_ms':1}"));
    CHECK(asked_is(asked, "/structuredContent/type", "yielded"));
    asked_done(asked);
    struct asked *first =
        answer_to(rig, "tools/call", CALL(NOW_META, "terminate", "{'cell_id':'c-2'}"));
    struct asked *again = answer_to(
        rig, "tools/call", CALL(NOW_META, "terminate", "{'cell_id':'c-2','terminate_id':'t-2'}"));
    CHECK(asked_is(first, "/structuredContent/type", "terminated"));
    CHECK(asked_is(first, "/structuredContent/receipt/origin", "terminate:mcp"));
    CHECK(is_same(first, again));
    CHECK(!is_error(first));
    asked_done(again);
    asked_done(first);
    first = cancel(rig, "c-2");
    CHECK(asked_is(first, "/structuredContent/origin", "terminate:mcp"));
    asked_done(first);
}

MCP_RIG(cancelled_exec_ends_its_cell_and_cancelled_wait_does_not, SAYS)
{
    struct asked *exec =
        ask(rig, "tools/call", CALL(TOKEN_META, "exec", "{'source':'for(;;);','cell_id':'c-3'}"));

    CHECK_EQUAL(bl_semaphore_take(&exec->told), 0);
    CHECK(strcmp(exec->progress_id, "c-3") == 0);
    while (bl_list_empty(&rig->activities.list) && bl_sleep(MS) == 0)
        continue;
    struct asked *wait =
        ask(rig, "tools/call", CALL(TOKEN_META, "wait", "{'cell_id':'c-3','generation':1}"));
    CHECK_EQUAL(bl_semaphore_take(&wait->told), 0);
    bl_scope_stop(&wait->scope, BL_STOP_USER, "mcp");
    asked_await(wait);
    CHECK(wait->reply.dropped);
    CHECK(!bl_list_empty(&rig->activities.list));
    bl_scope_stop(&exec->scope, BL_STOP_USER, "mcp");
    asked_await(exec);
    CHECK(exec->reply.dropped);
    struct asked *receipt = cancel(rig, "c-3");
    CHECK(asked_is(receipt, "/structuredContent/reason", "user"));
    CHECK(asked_is(receipt, "/structuredContent/origin", "mcp"));
    asked_done(receipt);
    asked_done(wait);
    asked_done(exec);
}

/* Two cells with the same id, each in a session of its own. */
MCP_RIG(ambiguous_id_stops_no_cell, SAYS)
{
    struct bl_activity activities[2] = {{.kind = "cell", .id = "c-x", .session = "s-1"},
                                        {.kind = "cell", .id = "c-x", .session = "s-2"}};
    struct bl_scope scopes[2];

    for (int i = 0; i < 2; i++) {
        bl_scope_init(&scopes[i], bl_scope_current());
        activities[i].scope = &scopes[i];
        bl_activity_begin(&rig->activities, &activities[i]);
    }
    struct asked *asked = cancel(rig, "c-x");
    CHECK(is_error(asked));
    CHECK(bl_text_find(asked_text(asked, "/content/0/text"), BL_TEXT("s-1/c-x, s-2/c-x")) > 0);
    for (int i = 0; i < 2; i++) {
        CHECK(!bl_scope_stopped(&scopes[i]));
        bl_activity_end(&activities[i], (struct bl_text){0});
        bl_scope_done(&scopes[i]);
    }
    asked_done(asked);
}

MCP_RIG(cell_ends_with_the_session_of_its_client, SAYS)
{
    struct mcp_peer peer;

    mcp_peer_init(&peer, rig->server);
    peer.version = MCP_2025_11_25;
    struct asked *asked = asked_await(
        ask_by(rig, &peer, "tools/call",
               "{'name':'exec','arguments':{'source':'for(;;) await null','cell_id':'c-4',"
               "'yield_time_ms':0}}"));
    CHECK(asked_is(asked, "/structuredContent/type", "yielded"));
    asked_done(asked);
    CHECK(!bl_list_empty(&peer.works));
    mcp_peer_end(&peer, BL_STOP_CLIENT_GONE, "gone");
    CHECK(!mcp_server_was_busy(rig->server));
    asked = answer_to(rig, "tools/call", CALL(NOW_META, "terminate", "{'cell_id':'c-4'}"));
    CHECK(asked_is(asked, "/structuredContent/receipt/reason", "client_gone"));
    asked_done(asked);
}

MCP_RIG(cells_call_the_tools_of_the_workspace, SAYS)
{
    struct asked *asked = answer_to(
        rig, "tools/call",
        CALL(NOW_META, "exec", "{'source':'text(await tools.bash({command: `echo from bash`}))'}"));

    CHECK(asked_is(asked, "/structuredContent/type", "completed"));
    CHECK(asked_is(asked, "/structuredContent/content_items/0/text", "from bash\n"));
    asked_done(asked);
}

/* ---- Standard streams ------------------------------------------------------------------------ */

MCP_RIG(M4_streams_serve_both_eras_on_one_connection, SAYS)
{
    struct streams streams;

    streams_open(&streams, rig);
    streams_say(&streams, REQUEST("1", "initialize", OPENING));
    CHECK(is_text(streams_hear(&streams), "/result/protocolVersion", "2025-11-25"));
    streams_say(&streams, NOTIFY("notifications/initialized", "{}"));
    streams_say(&streams, REQUEST("2", "tools/call", "{'name':'run','arguments':{'prompt':'x'}}"));
    CHECK(is_text(streams_hear(&streams), "/result/structuredContent/turns/0/output", "ok"));
    streams_say(&streams, REQUEST("'d'", "server/discover", "{" NOW_META "}"));
    const struct bl_json *message = streams_hear(&streams);
    CHECK(is_text(message, "/id", "d") && is_text(message, "/result/resultType", "complete"));
    streams_say(&streams, REQUEST("3", "tools/call", "{'name':'run','arguments':{}}"));
    message = streams_hear(&streams);
    int64_t code = 0;
    CHECK(bl_json_int64(bl_json_pointer(message, BL_TEXT("/error/code")), &code));
    CHECK_EQUAL(code, BL_RPC_INVALID_PARAMS);
    CHECK(is_text(message, "/error/data/path", "/arguments"));
    streams_close(&streams);
    CHECK_EQUAL(streams.code, 0);
    CHECK_EQUAL(streams.exit_code, 0);
}

MCP_RIG(M5_work_cancelled_on_streams_leaves_nothing_and_gets_no_answer, SETSID)
{
    struct streams streams;
    char line[512];

    streams_open(&streams, rig);
    streams_say(&streams, REQUEST("1", "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}")));
    struct bl_text message =
        bl_json_text(bl_json_pointer(streams_hear(&streams), BL_TEXT("/params/message")));
    struct bl_text id;
    CHECK(bl_text_split(&message, ':', &id));
    rig_await_file(rig, "at-work");
    /* Cancels of unknown or answered requests, and invalid ones, are ignored. */
    streams_say(&streams, NOTIFY("notifications/cancelled", "{'requestId':99}"));
    streams_say(&streams, NOTIFY("notifications/cancelled", "{'requestId':'1'}"));
    streams_say(&streams, NOTIFY("notifications/cancelled", "{}"));
    streams_say(&streams, NOTIFY("notifications/cancelled", "{'requestId':1,'reason':'enough'}"));
    snprintf(line, sizeof line,
             REQUEST("2", "tools/call", CALL(NOW_META, "cancel", "{'id':'%.*s'}")), (int)id.size,
             id.data);
    streams_say(&streams, line);
    /* Apart from progress, the next message is the answer to the second request. */
    const struct bl_json *heard = streams_hear(&streams);
    while (bl_json_get(heard, BL_TEXT("method")) != NULL)
        heard = streams_hear(&streams);
    CHECK_EQUAL(rig_processes(rig), 0);
    int64_t number = 0;
    CHECK(bl_json_int64(bl_json_get(heard, BL_TEXT("id")), &number) && number == 2);
    CHECK(is_text(heard, "/result/structuredContent/reason", "user"));
    streams_say(&streams, REQUEST("3", "server/discover", "{" NOW_META "}"));
    heard = streams_hear(&streams);
    CHECK(bl_json_int64(bl_json_get(heard, BL_TEXT("id")), &number) && number == 3);
    streams_close(&streams);
    CHECK_EQUAL(streams.exit_code, 0);
}

MCP_RIG(end_of_input_stops_all_with_receipts_of_client_gone, SETSID)
{
    struct streams streams;

    streams_open(&streams, rig);
    streams_say(&streams, REQUEST("1", "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}")));
    struct bl_text message =
        bl_json_text(bl_json_pointer(streams_hear(&streams), BL_TEXT("/params/message")));
    struct bl_text id;
    CHECK(bl_text_split(&message, ':', &id));
    rig_await_file(rig, "at-work");
    streams_close(&streams);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK_EQUAL(streams.exit_code, 130);
    struct bl_store_work work;
    CHECK_EQUAL(bl_store_find(rig->store, &rig->arena, bl_arena_text(&rig->arena, id).data, &work,
                              &rig->error),
                0);
    CHECK(bl_text_find(work.receipt, BL_TEXT("\"reason\":\"client_gone\"")) > 0);
    CHECK(bl_text_find(work.receipt, BL_TEXT("\"survivors\":0")) > 0);
}

MCP_RIG(signal_stops_all_with_its_own_reason, SILENT)
{
    struct streams streams;

    streams_open(&streams, rig);
    streams_say(&streams, REQUEST("1", "tools/call", CALL(TOKEN_META, "run", "{'prompt':'x'}")));
    struct bl_text message =
        bl_json_text(bl_json_pointer(streams_hear(&streams), BL_TEXT("/params/message")));
    struct bl_text id;
    CHECK(bl_text_split(&message, ':', &id));
    /* Once it has a session, which keeps the receipt. */
    while (bl_list_empty(&rig->activities.list))
        bl_sleep(MS);
    bl_scope_stop(&streams.scope, BL_STOP_SIGNAL, "SIGTERM");
    bl_fiber_join(streams.fiber, NULL);
    CHECK_EQUAL(streams.exit_code, 143);
    streams_close(&streams);
    struct asked *receipt = cancel(rig, bl_arena_text(&rig->arena, id).data);
    CHECK(asked_is(receipt, "/structuredContent/reason", "signal"));
    CHECK(asked_is(receipt, "/structuredContent/origin", "SIGTERM"));
    asked_done(receipt);
}

SUITE(mcp_tools, cmocka_unit_test(bad_arguments_are_refused_with_their_path),
      cmocka_unit_test(run_answers_with_the_payload_of_run),
      cmocka_unit_test(run_with_a_request_id_is_run_once),
      cmocka_unit_test(M13_wider_mode_is_refused), cmocka_unit_test(narrower_mode_is_in_force),
      cmocka_unit_test(run_over_its_timeout_is_an_error_with_its_result),
      cmocka_unit_test(M5_cancelled_run_has_stopped_and_cancel_returns_its_receipt),
      cmocka_unit_test(M11_cancel_of_running_or_ended_work_has_the_same_answer_each_time),
      cmocka_unit_test(run_stopped_before_it_has_a_session_has_a_receipt),
      cmocka_unit_test(cancel_of_a_completed_run_returns_its_result_and_of_an_unknown_id_an_error),
      cmocka_unit_test(request_cancelled_before_it_is_served_starts_nothing),
      cmocka_unit_test(exec_is_an_error_if_the_host_does_not_start),
      cmocka_unit_test(cells_answer_with_their_outcomes_unchanged),
      cmocka_unit_test(cell_that_yields_is_waited_for_and_terminated),
      cmocka_unit_test(cancelled_exec_ends_its_cell_and_cancelled_wait_does_not),
      cmocka_unit_test(ambiguous_id_stops_no_cell),
      cmocka_unit_test(cell_ends_with_the_session_of_its_client),
      cmocka_unit_test(cells_call_the_tools_of_the_workspace),
      cmocka_unit_test(M4_streams_serve_both_eras_on_one_connection),
      cmocka_unit_test(M5_work_cancelled_on_streams_leaves_nothing_and_gets_no_answer),
      cmocka_unit_test(end_of_input_stops_all_with_receipts_of_client_gone),
      cmocka_unit_test(signal_stops_all_with_its_own_reason));
