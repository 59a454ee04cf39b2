/* Cells of `belay mcp` have the tools of MCP servers, like those of `belay run`. */
#include "client.h"
#include "figure.h"

#include <poll.h>
#include <stdlib.h>

#define FREE "--yolo", "--sandbox", "off"

static struct desk desk;

static int end_desk(void **state)
{
    desk_close(&desk);
    return stage_end(state);
}

static const char *guest(void)
{
    const char *root = getenv("BELAY_BUILD_ROOT");

    return stage_printf("%s/tests/tool/mcp-guest", root != NULL ? root : ".");
}

/* Configures a server with these words, in the workspace. */
static void write_servers(const char *words)
{
    stage_file(".mcp.json",
               stage_printf("{\"mcpServers\":{\"g\":{\"command\":\"%s\",\"args\":[%s]}}}", guest(),
                            words));
}

static const char *exec(const char *id, const char *source)
{
    desk_say(&desk, word_call(id, "exec", stage_printf("\"source\":\"%s\"", source), ""));
    return desk_await(&desk, stage_printf("\"id\":%s", id));
}

/* Waits until the server has received such a message. */
static void await_trace(const char *text)
{
    const char *path = stage_path("work/trace");

    for (bool found = false; !found; poll(NULL, 0, 1)) {
        if (!stage_exists(path))
            continue;
        struct bl_text trace = suite_read_file(path);
        found = bl_text_find(trace, bl_text_from(text)) >= 0;
        bl_free((void *)(uintptr_t)trace.data);
    }
}

static void a_cell_calls_the_tool_of_a_server(void **state)
{
    (void)state;
    write_servers("");
    DESK_OPEN(&desk, FREE, "--trust-mcp");
    desk_greet(&desk);
    const char *answer = exec("1", "text(await tools.mcp__g__echo({text: 'from afar'}))");
    assert_non_null(strstr(answer, "from afar"));
    /* One server for all cells. */
    answer = exec("2", "const p = await tools.mcp__g__pid({}); store('p', p); text(p)");
    assert_null(strstr(answer, "\"isError\":true"));
    answer = exec("3", "text(String(load('p') === await tools.mcp__g__pid({})))");
    assert_non_null(strstr(answer, "\"true\""));
}

static void a_stop_of_the_cell_stops_the_call(void **state)
{
    (void)state;
    write_servers("\"--stubborn\",\"yes\",\"--child\",\"yes\",\"--trace\",\"trace\"");
    DESK_OPEN(&desk, FREE, "--trust-mcp");
    desk_greet(&desk);
    desk_say(&desk, word_call("1", "exec",
                              "\"cell_id\":\"far\",\"source\":"
                              "\"await tools.mcp__g__hang({})\",\"yield_time_ms\":60000",
                              ""));
    await_trace("tools/call");
    double from_ms = word_now_ms();
    desk_say(&desk, word_call("2", "cancel", "\"id\":\"far\"", ""));
    const char *answer = desk_await(&desk, "\"id\":2");
    double took_ms = word_now_ms() - from_ms;
    word_check_receipt(answer, "user");
    assert_non_null(strstr(answer, "mcp__g__hang"));
    /* The server's whole process tree has ended; a process for the next cell may be starting. */
    held_await_count(&desk.held, 1);
    assert_true(figure_between("M17 cancel of a cell in a call of a server", took_ms, 200, 250));
    /* The next cell starts the server again. */
    assert_non_null(strstr(exec("3", "text(await tools.mcp__g__echo({text: 'again'}))"), "again"));
}

static void stop_during_the_start_of_a_server_is_immediate(void **state)
{
    (void)state;
    write_servers("\"--hang\",\"start\",\"--trace\",\"trace\"");
    DESK_OPEN(&desk, FREE, "--trust-mcp");
    desk_greet(&desk);
    desk_say(&desk, word_call("1", "exec", "\"cell_id\":\"early\",\"source\":\"text('hi')\"", ""));
    await_trace("server/discover");
    double from_ms = word_now_ms();
    desk_say(&desk, word_call("2", "cancel", "\"id\":\"early\"", ""));
    desk_await(&desk, "\"id\":2");
    double took_ms = word_now_ms() - from_ms;
    assert_true(figure_at_most("M19 cancel in the start of a server", took_ms, 250));
    held_await_count(&desk.held, 1);
}

static void M20_without_trust_no_server_is_started(void **state)
{
    (void)state;
    write_servers("\"--trace\",\"trace\"");
    DESK_OPEN(&desk, FREE);
    desk_greet(&desk);
    const char *answer = exec("1", "text(String('mcp__g__echo' in tools))");
    assert_non_null(strstr(answer, "\"false\""));
    assert_false(stage_exists(stage_path("work/trace")));
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_desk)
SUITE(mcp_cell, AT_DESK(a_cell_calls_the_tool_of_a_server),
      AT_DESK(a_stop_of_the_cell_stops_the_call),
      AT_DESK(stop_during_the_start_of_a_server_is_immediate),
      AT_DESK(M20_without_trust_no_server_is_started));
