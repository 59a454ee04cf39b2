/* Sessions: opening, listing, loading, options, closing. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define YOLO "--permission-mode", "yolo"
#define DONE "replies: [{say: done}]\nrepeat: true"

static int64_t ask_load(struct client *client, const char *method, const char *session,
                        const char *directory)
{
    return client_ask(client, method, "{\"sessionId\":\"%s\",\"cwd\":\"%s\",\"mcpServers\":[]}",
                      session, directory);
}

static void A3_every_version_is_answered_with_1(void **state BL_UNUSED)
{
    static const int versions[] = {0, 1, 2, 65535};
    const char *const words[] = {runner_program(), "acp", "--provider", stage_script(DONE), NULL};
    struct client client;

    client_start(&client, words, false);
    assert_int_equal(client_refusal(&client, client_ask(&client, "session/new", "{}")), -32600);
    assert_int_equal(client_refusal(&client, client_ask(&client, "no/such", "{}")), -32600);
    for (size_t i = 0; i < BL_COUNT(versions); i++) {
        const struct bl_json *result = client_result(
            &client, client_ask(&client, "initialize", "{\"protocolVersion\":%d}", versions[i]));
        assert_int_equal(stage_number_at(result, "/protocolVersion"), 1);
        assert_string_equal(stage_text_at(result, "/agentInfo/name"), "belay");
        assert_true(stage_true_at(result, "/agentCapabilities/loadSession"));
        assert_int_equal(stage_size_at(result, "/authMethods"), 0);
    }
    assert_int_equal(client_refusal(&client, client_ask(&client, "no/such", "{}")), -32601);
    client_end(&client);
}

static void without_a_key_there_is_no_prompt(void **state BL_UNUSED)
{
    const char *const words[] = {runner_program(), "acp", NULL};
    struct client client;

    client_start(&client, words, false);
    const struct bl_json *result =
        client_result(&client, client_ask(&client, "initialize", "{\"protocolVersion\":1}"));
    assert_true(stage_size_at(result, "/authMethods") > 0);
    int64_t id = client_ask(&client, "session/new", "{\"cwd\":\"%s\",\"mcpServers\":[]}",
                            stage_path("work"));
    const struct bl_json *answer = client_answer(&client, id);
    if (bl_json_get(answer, BL_TEXT("result")) != NULL) {
        client.session = stage_text_at(answer, "/result/sessionId");
        assert_int_equal(client_refusal(&client, client_prompt(&client, "hello")), -32000);
    } else {
        assert_int_equal(client_refusal(&client, id), -32000);
    }
    client_end(&client);
}

static void what_is_wrong_in_a_request_is_named(void **state BL_UNUSED)
{
    static const struct {
        const char *method, *params;
        int64_t code;
    } cases[] = {
        {"session/new", "{}", -32602},
        {"session/new", "{\"cwd\":\"relative\",\"mcpServers\":[]}", -32602},
        {"session/new", "{\"cwd\":\"/no/such/folder\",\"mcpServers\":[]}", -32602},
        {"session/new", "{\"cwd\":\"/\",\"mcpServers\":7}", -32602},
        {"session/new", "{\"cwd\":\"/\",\"additionalDirectories\":{}}", -32602},
        {"session/new", "{\"cwd\":\"/\",\"additionalDirectories\":[\"/\",\"relative\"]}", -32602},
        {"session/prompt", "{\"sessionId\":\"nobody\",\"prompt\":[]}", -32002},
        {"session/prompt", "{\"prompt\":[]}", -32602},
        {"session/load", "{\"sessionId\":\"nobody\",\"cwd\":\"/\",\"mcpServers\":[]}", -32002},
        {"session/load", "{\"sessionId\":\"NOBODY!\",\"cwd\":\"/\",\"mcpServers\":[]}", -32002},
        {"session/resume", "{\"sessionId\":\"nobody\",\"cwd\":\"/\",\"mcpServers\":[]}", -32002},
        {"session/close", "{\"sessionId\":\"nobody\"}", -32002},
        {"session/delete", "{\"sessionId\":\"nobody\"}", -32002},
        {"session/list", "{\"cursor\":\"what\"}", -32602},
        {"session/list", "{\"cursor\":7}", -32602},
        {"session/list", "{\"cwd\":\"relative\"}", -32602},
        {"session/set_mode", "{\"sessionId\":\"nobody\",\"modeId\":\"ask\"}", -32002},
        {"_belay/cancel", "{\"id\":\"nobody\"}", -32002},
    };
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        int64_t code =
            client_refusal(&client, client_ask(&client, cases[i].method, "%s", cases[i].params));
        if (code != cases[i].code)
            fail_msg("%s %s: %lld", cases[i].method, cases[i].params, (long long)code);
    }
    /* No session was opened before the refusal. */
    int64_t list = client_ask(&client, "session/list", "{}");
    assert_int_equal(stage_size_at(client_result(&client, list), "/sessions"), 0);
    assert_int_equal(client_count(&client, 0, "session/update"), 0);
    client_new(&client);
    int64_t bad =
        client_ask(&client, "session/prompt",
                   "{\"sessionId\":\"%s\",\"prompt\":[{\"type\":\"dance\"}]}", client.session);
    assert_int_equal(client_refusal(&client, bad), -32602);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_end(&client);
}

static void A1_what_a_tool_prints_stays_off_standard_output(void **state BL_UNUSED)
{
    struct client client;
    const char *script = stage_script(
        "replies:\n"
        "  - tools: [{name: bash, input: {command: \"echo "
        "'{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":3,\\\"result\\\":{}}' >&2; echo out\"}}]\n"
        "  - say: done\n");

    CLIENT_START(&client, YOLO, "--provider", script);
    client_new(&client);
    size_t from = client.count;
    assert_string_equal(client_talk(&client, "go"), "end_turn");
    /* It is sent as text in an update. */
    assert_true(client_count(&client, from, "\\\"jsonrpc\\\"") > 0);
    client_end(&client);
}

static void a_busy_session_takes_no_other_prompt(void **state BL_UNUSED)
{
    struct client client;
    const char *script =
        stage_script("replies:\n  - {when: wait, wedge: before_first_token}\n  - say: done\n");

    CLIENT_START(&client, YOLO, "--provider", script);
    client_new(&client);
    int64_t first = client_prompt(&client, "wait");
    int64_t second = client_prompt(&client, "more");
    assert_int_equal(client_refusal(&client, second), -32600);
    assert_string_equal(stage_text_at(client_answer(&client, second), "/error/data/reason"),
                        "turn_running");
    /* The next prompt waits while a cancelled one is stopping. */
    client_cancel(&client);
    int64_t third = client_prompt(&client, "more");
    assert_string_equal(client_stop_reason(&client, first), "cancelled");
    assert_string_equal(client_stop_reason(&client, third), "end_turn");
    client_end(&client);
}

/* ---- Loading a session ----------------------------------------------------------------------- */

static const char talk_script[] =
    "replies:\n"
    "  - {when: go, thinking: hm, say: I look., tools: [{name: bash, id: call_a, input: {command: "
    "echo found}}, {name: read, id: call_b, input: {path: not-there}}]}\n"
    "  - {when: go, say: That is all.}\n"
    "  - say: done\n";

static void A23_load_tells_all_and_resume_nothing(void **state BL_UNUSED)
{
    static const char *const expected[] = {
        "user_message_chunk", "agent_thought_chunk", "I look.", "call_a", "call_b",
        "That is all.",       "second of it",        "done"};
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script(talk_script));
    const char *session = client_new(&client);
    assert_string_equal(client_talk(&client, "go"), "end_turn");
    assert_string_equal(client_talk(&client, "second of it"), "end_turn");
    int64_t close = client_ask(&client, "session/close", "{\"sessionId\":\"%s\"}", session);
    client_result(&client, close);
    size_t from = client.count;
    int64_t load = ask_load(&client, "session/load", session, stage_path("work"));
    const struct bl_json *result = client_result(&client, load);
    assert_true(stage_size_at(result, "/configOptions") > 0);
    size_t answer = client_answer_line(&client, load), at = from;
    for (size_t i = 0; i < BL_COUNT(expected); i++)
        at = client_await(&client, at, expected[i]) + 1;
    assert_true(at <= answer);
    assert_int_equal(client_count(&client, from, "user_message_chunk"), 2);
    assert_int_equal(client_count(&client, from, "\"status\":\"completed\""), 1);
    assert_int_equal(client_count(&client, from, "\"status\":\"failed\""), 1);
    assert_non_null(strstr(
        client.lines[client_await(&client, from, "\"status\":\"completed\"")].text, "call_a"));
    assert_non_null(
        strstr(client.lines[client_await(&client, from, "\"status\":\"failed\"")].text, "call_b"));
    close = client_ask(&client, "session/close", "{\"sessionId\":\"%s\"}", session);
    client_result(&client, close);
    from = client.count;
    int64_t resume = ask_load(&client, "session/resume", session, stage_path("work"));
    client_result(&client, resume);
    client_listen(&client, 50);
    assert_int_equal(client_count(&client, from, "_chunk"), 0);
    assert_int_equal(client_count(&client, from, "tool_call"), 0);
    client_end(&client);
}

static void the_first_line_of_the_first_prompt_is_the_title(void **state BL_UNUSED)
{
    struct client client;
    char long_line[101], expected[128];

    memset(long_line, 'x', 100);
    long_line[100] = '\0';
    snprintf(expected, sizeof expected, "\"title\":\"%.80s\"", long_line);
    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    client_new(&client);
    size_t from = client.count;
    assert_string_equal(client_talk(&client, stage_printf("\\n  %s  \\nmore", long_line)),
                        "end_turn");
    assert_string_equal(client_talk(&client, "another"), "end_turn");
    assert_int_equal(client_count(&client, from, "session_info_update"), 1);
    assert_int_equal(client_count(&client, from, expected), 1);
    client_end(&client);
}

static void an_interrupted_turn_is_kept(void **state BL_UNUSED)
{
    struct client client;
    const char *script = stage_script("replies:\n"
                                      "  - {when: go, say: part, wedge: after_first_token}\n"
                                      "  - say: done\n");

    CLIENT_START(&client, YOLO, "--provider", script);
    const char *session = client_new(&client);
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "go");
    client_await(&client, from, "agent_message_chunk");
    client_cancel(&client);
    assert_string_equal(client_stop_reason(&client, prompt), "cancelled");
    client_result(&client, client_ask(&client, "session/close", "{\"sessionId\":\"%s\"}", session));
    from = client.count;
    client_result(&client, ask_load(&client, "session/load", session, stage_path("work")));
    assert_int_equal(client_count(&client, from, "user_message_chunk"), 1);
    assert_true(client_count(&client, from, "agent_message_chunk") >= 1);
    assert_string_equal(client_talk(&client, "next"), "end_turn");
    client_end(&client);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void A25_a_thousand_sessions_by_the_page(void **state BL_UNUSED)
{
    static const char sql[] =
        "WITH RECURSIVE count (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM count WHERE n < 998)"
        " INSERT INTO session (id, created, updated, directory, title)"
        " SELECT 'many-' || n, n, 1000000 + n / 3, CASE n % 2 WHEN 0 THEN ? ELSE '/elsewhere' END,"
        " 'No. ' || n FROM count";
    struct client client;
    sqlite3_stmt *statement;
    sqlite3 *db;

    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    client_new(&client);
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    assert_int_equal(sqlite3_open(stage_path("data/belay/sessions.db"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    sqlite3_bind_text(statement, 1, stage_path("work"), -1, SQLITE_TRANSIENT);
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    for (int filtered = 0; filtered < 2; filtered++) {
        const char *where =
            filtered ? stage_printf("\"cwd\":\"%s\"", stage_path("work")) : "\"cwd\":null";
        const char *cursor = NULL;
        struct bl_map seen;
        size_t count = 0, pages = 0;
        bl_map_init(&seen);
        do {
            int64_t id =
                client_ask(&client, "session/list",
                           cursor == NULL ? "{%s}" : "{%s,\"cursor\":\"%s\"}", where, cursor);
            const struct bl_json *result = client_result(&client, id);
            size_t on_page = 0;
            BL_JSON_EACH (session, bl_json_get(result, BL_TEXT("sessions"))) {
                const char *name = stage_text_at(session, "/sessionId");
                assert_null(bl_map_get(&seen, bl_text_from(name)));
                bl_map_set(&seen, bl_text_from(name), &seen, NULL);
                stage_text_at(session, "/updatedAt");
                if (filtered)
                    assert_string_equal(stage_text_at(session, "/cwd"), stage_path("work"));
                on_page++;
            }
            count += on_page;
            pages++;
            const struct bl_json *next = bl_json_get(result, BL_TEXT("nextCursor"));
            cursor = next != NULL ? bl_json_text(next).data : NULL;
            assert_true(cursor == NULL || on_page == 50);
        } while (cursor != NULL);
        assert_int_equal(count, filtered ? 501 : 1000);
        assert_int_equal(pages, filtered ? 11 : 20);
        bl_map_done(&seen);
    }
    client_end(&client);
}

/* ---- Held sessions --------------------------------------------------------------------------- */

static void A27_a_session_open_elsewhere_is_refused_until_that_dies(void **state BL_UNUSED)
{
    struct client first, second;

    CLIENT_START(&first, YOLO, "--provider", stage_script(DONE));
    CLIENT_START(&second, YOLO, "--provider", stage_script(DONE));
    const char *session = client_new(&first);
    assert_string_equal(client_talk(&first, "hello"), "end_turn");
    int64_t load = ask_load(&second, "session/load", session, stage_path("work"));
    assert_int_equal(client_refusal(&second, load), -32602);
    const char *reason = stage_text_at(client_answer(&second, load), "/error/data/reason");
    assert_non_null(strstr(reason, stage_printf("pid %d", (int)first.held.pid)));
    load = ask_load(&first, "session/load", session, stage_path("home"));
    assert_int_equal(client_refusal(&first, load), -32602);
    int64_t delete = client_ask(&second, "session/delete", "{\"sessionId\":\"%s\"}", session);
    assert_int_equal(client_refusal(&second, delete), -32602);
    kill(first.held.pid, SIGKILL);
    client_exit(&first);
    load = ask_load(&second, "session/load", session, stage_path("work"));
    client_result(&second, load);
    second.session = session;
    assert_string_equal(client_talk(&second, "hello"), "end_turn");
    client_result(&second, client_ask(&second, "session/close", "{\"sessionId\":\"%s\"}", session));
    delete = client_ask(&second, "session/delete", "{\"sessionId\":\"%s\"}", session);
    client_result(&second, delete);
    load = ask_load(&second, "session/load", session, stage_path("work"));
    assert_int_equal(client_refusal(&second, load), -32002);
    client_end(&second);
    client_end(&first);
}

static void A26_a_close_in_mid_turn_leaves_nothing(void **state BL_UNUSED)
{
    struct client client;
    const char *trap = client_trap();
    const char *script = stage_script(
        stage_printf("replies:\n"
                     "  - {when: job, tools: [{name: bash, input: {command: \"%s\", background: "
                     "true}}]}\n"
                     "  - {when: job, say: started}\n"
                     "  - {when: go, tools: [{name: bash, input: {command: sleep 60}}]}\n"
                     "  - say: done\n",
                     trap));

    CLIENT_START(&client, YOLO, "--provider", script);
    const char *session = client_new(&client);
    int64_t job = client_prompt(&client, "job");
    assert_string_equal(client_stop_reason(&client, job), "end_turn");
    assert_int_equal(stage_size_at(client_result(&client, job), "/_meta/belay~1background"), 1);
    client_await_trap();
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "go");
    client_await(&client, from, "in_progress");
    int64_t close = client_ask(&client, "session/close", "{\"sessionId\":\"%s\"}", session);
    const struct bl_json *result = client_result(&client, close);
    assert_int_equal(held_count(&client.held), 1); /* belay */
    assert_int_equal(client_trapped(), 0);
    assert_int_equal(stage_number_at(result, "/_meta/belay~1receipt/survivors"), 0);
    assert_string_equal(client_stop_reason(&client, prompt), "cancelled");
    assert_true(client_answer_line(&client, prompt) < client_answer_line(&client, close));
    assert_int_equal(client_refusal(&client, client_prompt(&client, "go")), -32002);
    client_result(&client, ask_load(&client, "session/load", session, stage_path("work")));
    assert_string_equal(client_talk(&client, "hello"), "end_turn");
    client_end(&client);
}

/* ---- Modes and options ----------------------------------------------------------------------- */

/* Returns the current value of an option from an answer that lists all options. */
static const char *option_of(const struct bl_json *answer, const char *id)
{
    BL_JSON_EACH (option, bl_json_get(answer, BL_TEXT("configOptions"))) {
        if (bl_text_equal(bl_json_text(bl_json_get(option, BL_TEXT("id"))), bl_text_from(id)))
            return stage_text_at(option, "/currentValue");
    }
    fail_msg("no option %s", id);
    return NULL;
}

static void A28_both_views_of_the_mode_stay_equal(void **state BL_UNUSED)
{
    static const char *const modes[] = {"ask", "auto", "read-only", "plan", "yolo"};
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", stage_script(DONE));
    int64_t id = client_ask(&client, "session/new", "{\"cwd\":\"%s\",\"mcpServers\":[]}",
                            stage_path("work"));
    const struct bl_json *made = client_result(&client, id);
    client.session = stage_text_at(made, "/sessionId");
    assert_string_equal(stage_text_at(made, "/modes/currentModeId"), "yolo");
    assert_string_equal(option_of(made, "mode"), "yolo");
    assert_int_equal(stage_size_at(made, "/modes/availableModes"), 5);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        size_t from = client.count;
        id = client_ask(&client, "session/set_mode", "{\"sessionId\":\"%s\",\"modeId\":\"%s\"}",
                        client.session, modes[i]);
        client_result(&client, id);
        const struct bl_json *told =
            client.lines[client_await(&client, from, "config_option_update")].json;
        assert_string_equal(option_of(bl_json_pointer(told, BL_TEXT("/params/update")), "mode"),
                            modes[i]);
        from = client.count;
        const char *other = modes[(i + 1) % BL_COUNT(modes)];
        id = client_ask(&client, "session/set_config_option",
                        "{\"sessionId\":\"%s\",\"configId\":\"mode\",\"value\":\"%s\"}",
                        client.session, other);
        assert_string_equal(option_of(client_result(&client, id), "mode"), other);
        client_await(&client, from, "current_mode_update");
        client_await(&client, from, stage_printf("\"currentModeId\":\"%s\"", other));
    }
    id = client_ask(&client, "session/set_mode", "{\"sessionId\":\"%s\",\"modeId\":\"king\"}",
                    client.session);
    assert_int_equal(client_refusal(&client, id), -32602);
    static const char *const wrong[][2] = {
        {"mode", "king"}, {"_belay_timeout", "0s"}, {"_belay_timeout", "soon"}, {"other", "x"}};
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        id = client_ask(&client, "session/set_config_option",
                        "{\"sessionId\":\"%s\",\"configId\":\"%s\",\"value\":\"%s\"}",
                        client.session, wrong[i][0], wrong[i][1]);
        assert_int_equal(client_refusal(&client, id), -32602);
    }
    client_end(&client);
}

/* A model of a provider that gets no request. */
static void choice_is_reported_as_the_value_of_its_option(void **state BL_UNUSED)
{
    static const char *const values[][2] = {
        {"thought_level", "none"}, {"thought_level", "low"},      {"thought_level", "medium"},
        {"thought_level", "high"}, {"thought_level", "adaptive"}, {"thought_level", "default"},
        {"_belay_timeout", "1m"},  {"_belay_timeout", "7000ms"},  {"_belay_timeout", "none"},
    };
    struct client client;

    assert_int_equal(mkdir(stage_path("config/belay"), 0700), 0);
    stage_file("../config/belay/config.yaml",
               "providers: {near: {api: anthropic, base_url: 'http://127.0.0.1:1', key_env: "
               "NEAR_PLACE}}\n"
               "models: {free: {provider: near, model: m-free, free: true}}\n");
    setenv("NEAR_PLACE", "a-key", true);
    CLIENT_START(&client, YOLO, "--model", "free");
    unsetenv("NEAR_PLACE");
    client_new(&client);
    for (size_t i = 0; i < BL_COUNT(values); i++) {
        int64_t id = client_ask(&client, "session/set_config_option",
                                "{\"sessionId\":\"%s\",\"configId\":\"%s\",\"value\":\"%s\"}",
                                client.session, values[i][0], values[i][1]);
        assert_string_equal(option_of(client_result(&client, id), values[i][0]), values[i][1]);
    }
    int64_t id = client_ask(
        &client, "session/set_config_option",
        "{\"sessionId\":\"%s\",\"configId\":\"thought_level\",\"value\":\"deep\"}", client.session);
    assert_int_equal(client_refusal(&client, id), -32602);
    client_end(&client);
}

static void A28_a_mode_acts_at_the_next_check_in_mid_turn(void **state BL_UNUSED)
{
    struct client client;
    const char *script =
        stage_script("replies:\n"
                     "  - {tools: [{name: bash, input: {command: \"until [ -e go ]; do sleep "
                     "0.02; done\"}}]}\n"
                     "  - {tools: [{name: bash, input: {command: touch ran}}]}\n"
                     "  - say: done\n");

    CLIENT_START(&client, YOLO, "--provider", script);
    client_new(&client);
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "work");
    client_await(&client, from, "in_progress");
    client_result(&client,
                  client_ask(&client, "session/set_mode",
                             "{\"sessionId\":\"%s\",\"modeId\":\"read-only\"}", client.session));
    stage_file("go", "");
    assert_string_equal(client_stop_reason(&client, prompt), "end_turn");
    assert_false(stage_exists(stage_path("work/ran")));
    client_end(&client);
}

static void A29_one_of_three_calls_is_stopped(void **state BL_UNUSED)
{
    static const char *const names[] = {"one", "two", "three"};
    struct client client;
    const char *script = stage_script(
        "replies:\n"
        "  - when: start\n"
        "    tools:\n"
        "    - {name: task, id: one, input: {agent: worker, prompt: child}}\n"
        "    - {name: task, id: two, input: {agent: worker, prompt: wedged}}\n"
        "    - {name: task, id: three, input: {agent: worker, prompt: child}}\n"
        "  - {when: wedged, wedge: before_first_token}\n"
        "  - {when: child, tools: [{name: bash, input: {command: &wait \"until [ -e go ]; do sleep "
        "0.02; done\"}}]}\n"
        "  - {when: child, tools: [{name: bash, input: {command: *wait}}]}\n"
        "  - {when: child, say: fine}\n"
        "  - {when: child, say: fine}\n"
        "  - {when: start, say: done}\n");

    CLIENT_START(&client, YOLO, "--provider", script);
    client_new(&client);
    size_t from = client.count;
    int64_t prompt = client_prompt(&client, "start");
    for (size_t i = 0; i < BL_COUNT(names); i++)
        client_await(&client, from,
                     stage_printf("\"toolCallId\":\"%s\",\"status\":\"in_progress\"", names[i]));
    client_listen(&client, 50);
    const struct bl_json *result =
        client_result(&client, client_ask(&client, "_belay/cancel", "{\"id\":\"two\"}"));
    assert_int_equal(stage_number_at(result, "/receipt/survivors"), 0);
    assert_int_equal(client_count(&client, from, "\"stopReason\""), 0);
    stage_file("go", "");
    assert_string_equal(client_stop_reason(&client, prompt), "end_turn");
    for (size_t i = 0; i < BL_COUNT(names); i++)
        assert_int_equal(client_count(&client, from,
                                      stage_printf("\"toolCallId\":\"%s\",\"status\":\"%s\"",
                                                   names[i], i == 1 ? "failed" : "completed")),
                         1);
    client_end(&client);
}

SUITE(session, STAGED(A3_every_version_is_answered_with_1),
      STAGED(without_a_key_there_is_no_prompt), STAGED(what_is_wrong_in_a_request_is_named),
      STAGED(A1_what_a_tool_prints_stays_off_standard_output),
      STAGED(a_busy_session_takes_no_other_prompt), STAGED(A23_load_tells_all_and_resume_nothing),
      STAGED(the_first_line_of_the_first_prompt_is_the_title), STAGED(an_interrupted_turn_is_kept),
      STAGED(A25_a_thousand_sessions_by_the_page), STAGED(A26_a_close_in_mid_turn_leaves_nothing),
      STAGED(A27_a_session_open_elsewhere_is_refused_until_that_dies),
      STAGED(A28_both_views_of_the_mode_stay_equal),
      STAGED(choice_is_reported_as_the_value_of_its_option),
      STAGED(A28_a_mode_acts_at_the_next_check_in_mid_turn),
      STAGED(A29_one_of_three_calls_is_stopped));
