/* MCP servers of an agent: their offers, and notices about them. */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

static char guest[512];
static const char *const none[] = {NULL};
static struct bl_mcp_entry entry;
static struct bl_list entries;

/* Adds one server to the rig's toolbox: mcp-guest, with these arguments. */
static void add_server(struct rig *rig, const char *const *words, enum bl_mcp_source source)
{
    const char *root = getenv("BELAY_BUILD_ROOT");
    snprintf(guest, sizeof guest, "%s/tests/tool/mcp-guest", root != NULL ? root : ".");
    entry = (struct bl_mcp_entry){.name = "g",
                                  .source = source,
                                  .command = guest,
                                  .arguments = words,
                                  .variables = none,
                                  .headers = none};
    bl_list_init(&entries);
    bl_list_push_back(&entries, &entry.link);
    bl_toolbox_free(rig->toolbox);
    struct bl_toolbox_options tools = {.workspace = rig->folder,
                                       .permissions = rig->permissions,
                                       .sandbox_chosen = true,
                                       .mcp = &entries};
    CHECK_EQUAL(bl_toolbox_new(&tools, &rig->toolbox, &rig->error), 0);
    rig->options.toolbox = rig->toolbox;
}

static bool has(struct bl_text all, const char *text)
{
    bool found = bl_text_find(all, bl_text_from(text)) >= 0;
    if (!found)
        fprintf(stderr, "not '%s' in: " BL_TEXT_FORMAT "\n", text, BL_TEXT_ARG(all));
    return found;
}

/* Checks the event stream, or the messages. */
static bool told(struct rig *rig, const char *text)
{
    return has(bl_buffer_text(&rig->events), text);
}

static bool said(struct rig *rig, const char *text)
{
    return has(rig_export(rig, "rig"), text);
}

#define CALL(name, input) "  - {tools: [{name: " name ", input: {" input "}}]}\n"

RIG(tools_of_a_server_are_called_and_changes_act_within_the_turn,
    "replies:\n" CALL("mcp__g__echo", "text: hello") CALL("mcp__g__grow", "")
        CALL("mcp__g__extra", "text: newer") "  - say: done\n")
{
    add_server(rig, none, BL_MCP_OF_USER);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_TOOL_ENDED), 3);
    CHECK_EQUAL(rig_told_of(rig, "\"tool_ended\"", "\"status\":\"ok\""), 3);
    CHECK(said(rig, "hello") && said(rig, "newer"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
    CHECK_EQUAL(rig_processes(rig), 0);
}

RIG(persona_has_the_tools_of_servers_that_its_patterns_name,
    "replies:\n" CALL("mcp__g__echo", "text: hello") CALL("mcp__g__pid", "") "  - say: done\n")
{
    static const char *const patterns[] = {"mcp__g__e*", NULL};
    struct bl_persona *persona = rig_persona(rig, "narrow", NULL);
    persona->tools = patterns;
    rig->options.persona = persona;
    add_server(rig, none, BL_MCP_OF_USER);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(said(rig, "hello"));
    CHECK(said(rig, "there is no tool 'mcp__g__pid'"));
}

RIG(fate_of_servers_is_reported_as_warnings, "replies:\n" CALL("mcp__g__die", "") "  - say: done\n")
{
    add_server(rig, none, BL_MCP_OF_USER);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 1);
    CHECK(said(rig, "outcome unknown: MCP server g exited"));
    CHECK(told(rig, "it will be restarted on next use"));
}

RIG(M20_untrusted_server_is_not_started_and_an_event_says_so, "replies:\n  - say: done\n")
{
    add_server(rig, none, BL_MCP_OF_WORKSPACE);
    bl_text_into(entry.digest, sizeof entry.digest, "0");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 1);
    CHECK(told(rig, "MCP server g: not started"));
}

static void stop_soon(struct rig *rig, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TURN_STARTED)
        bl_scope_set_deadline(&rig->scope, bl_now_ns() + 150 * MS);
}

RIG(M19_stop_while_a_server_starts_ends_the_turn_with_a_receipt, "replies:\n  - say: done\n")
{
    static const char *const words[] = {"--hang", "start", NULL};
    add_server(rig, words, BL_MCP_OF_USER);
    rig->on_event = stop_soon;
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(bl_now_ns() - from_ns < 5 * BL_NS_PER_S);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_TIMEOUT);
    CHECK(bl_text_find(rig->result.run.receipt, BL_TEXT("\"id\":\"mcp g\"")) >= 0);
    CHECK(bl_text_find(rig->result.run.receipt, BL_TEXT("\"survivors\":0")) >= 0);
    CHECK_EQUAL(rig_processes(rig), 0);
}

SUITE(mcp, cmocka_unit_test(tools_of_a_server_are_called_and_changes_act_within_the_turn),
      cmocka_unit_test(persona_has_the_tools_of_servers_that_its_patterns_name),
      cmocka_unit_test(fate_of_servers_is_reported_as_warnings),
      cmocka_unit_test(M20_untrusted_server_is_not_started_and_an_event_says_so),
      cmocka_unit_test(M19_stop_while_a_server_starts_ends_the_turn_with_a_receipt));
