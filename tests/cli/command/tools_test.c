#include "stage.h"

static struct run run;

static void every_tool_has_a_description_and_a_schema(void **state)
{
    (void)state;
    RUN(&run, "tools", "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_true(stage_size_at(answer, "/tools") >= 1);
    BL_JSON_EACH (tool, bl_json_get(answer, BL_TEXT("tools"))) {
        assert_true(strlen(stage_text_at(tool, "/name")) > 0);
        assert_true(strlen(stage_text_at(tool, "/description")) > 0);
        assert_string_equal(stage_text_at(tool, "/input_schema/type"), "object");
    }
    RUN(&run, "tools");
    assert_int_equal(run.exit_code, 0);
    assert_memory_equal(run.out, "bash ", 5);
    struct bl_text rest = bl_text_from(run.out), line;
    while (bl_text_split(&rest, '\n', &line))
        assert_in_range(bl_utf8_count(line), 1, 80);
    RUN(&run, "tools", "bash", "--json");
    stage_answer(&run, "tools", 2);
}

static void one_tool_is_shown_with_its_schema(void **state)
{
    (void)state;
    RUN(&run, "tool", "bash", "--json");
    const struct bl_json *answer = stage_answer(&run, "tool", 0);
    assert_string_equal(stage_text_at(answer, "/name"), "bash");
    assert_string_equal(stage_text_at(answer, "/input_schema/properties/command/type"), "string");
    RUN(&run, "tool", "bash");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "\n  \"type\": \"object\""));
}

static void an_unknown_tool_gets_a_suggestion(void **state)
{
    (void)state;
    RUN(&run, "tool", "bahs");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err, "belay tool: no tool 'bahs'\nhint: did you mean 'bash'?\n");
    RUN(&run, "tool", "frobnicate", "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "tool", 1), "/error/kind"), "tool");
    RUN(&run, "tool", "--json");
    stage_answer(&run, "tool", 2);
    RUN(&run, "tool", "bash", "bash", "--json");
    stage_answer(&run, "tool", 2);
}

/* ---- MCP servers ----------------------------------------------------------------------------- */

/* A minimal server: its only tool returns its arguments. */
static const char server_script[] =
    "say() { printf '{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\\n' \"$id\" \"$1\"; }\n"
    "while read -r line; do\n"
    "    id=$(printf '%s' \"$line\" | sed -n 's/.*\"id\":\\(\"[^\"]*\"\\|[0-9]*\\).*/\\1/p')\n"
    "    case $line in\n"
    "    *'\"server/discover\"'*) say '\"error\":{\"code\":-32601,\"message\":\"unknown\"}' ;;\n"
    "    *'\"initialize\"'*) say '\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":"
    "{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}' ;;\n"
    "    *'\"tools/list\"'*) say '\"result\":{\"tools\":[{\"name\":\"shout\",\"description\":"
    "\"Says it loudly.\",\"inputSchema\":{\"type\":\"object\"}}]}' ;;\n"
    "    *'\"tools/call\"'*) say '\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
    "\"HELLO FROM THE SERVER\"}]}' ;;\n"
    "    esac\n"
    "done\n";

static const char *servers_file(void)
{
    return stage_file(
        "servers.json",
        stage_printf("{\"mcpServers\":{\"loud\":{\"command\":\"sh\",\"args\":[\"%s\"]}}}",
                     stage_file("server.sh", server_script)));
}

static void servers_are_started_and_their_tools_listed(void **state)
{
    const char *file = servers_file();

    (void)state;
    RUN(&run, "tools", "--mcp-config", file, "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/server"), "loud");
    assert_string_equal(stage_text_at(answer, "/servers/0/source"), "option");
    assert_string_equal(stage_text_at(answer, "/servers/0/path"), file);
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "ready");
    assert_string_equal(stage_text_at(answer, "/servers/0/protocol"), "2025-11-25");
    assert_int_equal(stage_number_at(answer, "/servers/0/tools"), 1);
    assert_true(stage_null_at(answer, "/servers/0/why"));
    RUN(&run, "tools", "--mcp-config", file);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "\nmcp__loud__shout\n          Says it loudly.\n"));
    assert_non_null(strstr(run.out, "\nMCP servers:\nloud      ready, 1 tool, 2025-11-25\n"));
    RUN(&run, "tool", "mcp__loud__shout", "--mcp-config", file, "--json");
    assert_string_equal(stage_text_at(stage_answer(&run, "tool", 0), "/description"),
                        "Says it loudly.");
    RUN(&run, "tool", "mcp__loud__shuot", "--mcp-config", file);
    assert_string_equal(
        run.err,
        "belay tool: no tool 'mcp__loud__shuot'\nhint: did you mean 'mcp__loud__shout'?\n");
}

static void unavailable_server_is_reported_once(void **state)
{
    (void)state;
    stage_file(".mcp.json", "{\"mcpServers\":{\"loud\":{\"command\":\"sh\",\"args\":[\"-c\","
                            "\"exit 3\"]},\"odd\":{\"command\":7}}}");
    RUN(&run, "tools");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "\nMCP servers:\nloud      untrusted: from the workspace, not "
                                    "approved yet (use --trust-mcp)\n"));
    /* Only notices that no line of the list shows are printed. */
    assert_null(strstr(run.err, "loud"));
    assert_int_equal(stage_lines_with(run.err, "odd"), 1);
    RUN(&run, "tools", "--trust-mcp");
    assert_non_null(strstr(run.out, "\nloud      failed: it exited unexpectedly (exit code 3)\n"));
    assert_null(strstr(run.err, "loud"));
    RUN(&run, "tools", "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "untrusted");
    assert_int_equal(stage_size_at(answer, "/notices"), 2);
}

static void a_run_calls_the_tool_of_a_server_when_a_rule_allows_it(void **state)
{
    const char *file = servers_file();
    const char *provider = stage_script("replies:\n"
                                        "  - tools: [{name: mcp__loud__shout, input: {}}]\n"
                                        "  - {say: Well.}\n");
    const struct bl_json *answer;

    (void)state;
    RUN(&run, "run", "--mcp-config", file, "--provider", provider, "--allow", "mcp__loud__*",
        "--session", "heard", "--json", "shout");
    answer = stage_answer(&run, "run", 0);
    assert_int_equal(stage_size_at(answer, "/turns/0/permission_denials"), 0);
    RUN(&run, "session", "export", "heard");
    assert_non_null(strstr(run.out, "HELLO FROM THE SERVER"));
    RUN(&run, "run", "--mcp-config", file, "--provider", provider, "--deny", "mcp__*", "--session",
        "silent", "--json", "shout");
    answer = stage_answer(&run, "run", 0);
    assert_int_equal(stage_size_at(answer, "/turns/0/permission_denials"), 1);
    RUN(&run, "session", "export", "silent");
    assert_null(strstr(run.out, "HELLO FROM THE SERVER"));
}

static void a_file_of_servers_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    RUN(&run, "tools", "--mcp-config", "missing.json", "--json");
    assert_non_null(strstr(run.out, "missing.json"));
    assert_int_equal(run.exit_code, 1);
    stage_file("broken.json", "{\n  \"mcpServers\": [}\n");
    RUN(&run, "run", "--mcp-config", "broken.json", "--provider", "script", "--json", "hello");
    assert_in_range(run.exit_code, 1, 2);
    assert_non_null(strstr(run.out, "broken.json"));
    assert_non_null(strstr(run.out, "2"));
}

SUITE(tools, STAGED(every_tool_has_a_description_and_a_schema),
      STAGED(one_tool_is_shown_with_its_schema), STAGED(an_unknown_tool_gets_a_suggestion),
      STAGED(servers_are_started_and_their_tools_listed),
      STAGED(unavailable_server_is_reported_once),
      STAGED(a_run_calls_the_tool_of_a_server_when_a_rule_allows_it),
      STAGED(a_file_of_servers_that_cannot_be_read_is_an_error));
