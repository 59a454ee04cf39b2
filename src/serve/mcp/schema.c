/* What is offered: tools with the schemas of their arguments and answers, and how a call is held to
 * them before anything of it is begun. */
#include <stdio.h>

#include "core.h"

#define CELL_ID "{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,64}$\"}"
#define YIELD_TIME                                                                                 \
    "\"yield_time_ms\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":300000,"                    \
    "\"description\":\"How long to wait for its end before answering with what there is; 10000 "   \
    "where it is not given.\"}"
#define CELL_OUTPUT                                                                                \
    "{\"type\":\"object\",\"properties\":{"                                                        \
    "\"type\":{\"enum\":[\"yielded\",\"completed\",\"terminated\",\"missing\"]},"                  \
    "\"cell_id\":{\"type\":\"string\"},\"generation\":{\"type\":\"integer\"},"                     \
    "\"content_items\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"                      \
    "\"stalled\":{\"type\":\"boolean\"},\"error\":{\"type\":[\"object\",\"null\"]},"               \
    "\"stopped_calls\":{\"type\":\"integer\"},\"receipt\":{\"type\":\"object\"}},"                 \
    "\"required\":[\"type\",\"cell_id\"]}"
#define ANNOTATIONS(read_only, destructive, idempotent, open)                                      \
    "{\"readOnlyHint\":" read_only ",\"destructiveHint\":" destructive                             \
    ",\"idempotentHint\":" idempotent ",\"openWorldHint\":" open "}"

static const char run_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"prompt\":{\"type\":\"string\",\"minLength\":1,\"description\":\"What the agent is to "
    "do.\"},"
    "\"session\":{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,64}$\",\"description\":\"A "
    "conversation to go on with, or to make; without it, a new one.\"},"
    "\"model\":{\"type\":\"string\",\"minLength\":1},"
    "\"timeout\":{\"type\":[\"number\",\"string\"],\"description\":\"Seconds, or a duration such "
    "as 90s, 2.5m, 1h.\"},"
    "\"max_turns\":{\"type\":\"integer\",\"minimum\":1},"
    "\"max_steps\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"Calls of tools in one "
    "turn.\"},"
    "\"max_budget_usd\":{\"type\":\"number\",\"minimum\":0},"
    "\"permission_mode\":{\"enum\":[\"ask\",\"auto\",\"read-only\",\"yolo\"],\"description\":"
    "\"What its tools may do without being asked about; never more than the server was started "
    "with.\"},"
    "\"request_id\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._:-]{1,128}$\",\"description\":"
    "\"The same asked again is not run again: what is recorded is answered.\"}},"
    "\"required\":[\"prompt\"],\"additionalProperties\":false}";

static const char run_output[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"session_id\":{\"type\":[\"string\",\"null\"]},\"provider\":{\"type\":\"string\"},"
    "\"model\":{\"type\":\"string\"},\"prompt\":{\"type\":\"string\"},"
    "\"max_turns\":{\"type\":\"integer\"},\"timeout_seconds\":{\"type\":[\"number\",\"null\"]},"
    "\"turns_completed\":{\"type\":\"integer\"},"
    "\"turns\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
    "\"final_stop_reason\":{\"type\":\"string\"},\"final_cancel_observed\":{\"type\":\"boolean\"},"
    "\"usage\":{\"type\":\"object\"},\"spent\":{\"type\":\"object\"},"
    "\"receipt\":{\"type\":[\"object\",\"null\"]}},"
    "\"required\":[\"session_id\",\"turns\",\"final_stop_reason\",\"receipt\"]}";

static const char exec_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"source\":{\"type\":\"string\",\"minLength\":1,\"description\":\"A module of JavaScript; "
    "text(v) writes output.\"},"
    "\"cell_id\":" CELL_ID "," YIELD_TIME ","
    "\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400000}},"
    "\"required\":[\"source\"],\"additionalProperties\":false}";

static const char wait_input[] =
    "{\"type\":\"object\",\"properties\":{\"cell_id\":" CELL_ID ","
    "\"generation\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"Of the outcome that is "
    "wanted: one more than the latest that was seen.\"}," YIELD_TIME "},"
    "\"required\":[\"cell_id\",\"generation\"],\"additionalProperties\":false}";

static const char terminate_input[] =
    "{\"type\":\"object\",\"properties\":{\"cell_id\":" CELL_ID ",\"terminate_id\":" CELL_ID "},"
    "\"required\":[\"cell_id\"],\"additionalProperties\":false}";

static const char cancel_input[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200,\"description\":\"Of a run, a "
    "cell, a session, a call.\"},"
    "\"reason\":{\"type\":\"string\"}},"
    "\"required\":[\"id\"],\"additionalProperties\":false}";

static const struct mcp_tool own_tools[] = {
    {"run", "Run an agent",
     "Gives a task to an agent, which works on it with its own tools, and answers with what came "
     "of it.",
     run_input, run_output, ANNOTATIONS("false", "true", "false", "true"), mcp_tool_run},
    {"exec", "Run JavaScript",
     "Runs a piece of JavaScript in a process of its own, and answers with its outcome, or, after "
     "the yield time, with what it has written so far.",
     exec_input, CELL_OUTPUT, ANNOTATIONS("false", "true", "false", "true"), mcp_tool_exec},
    {"wait", "Wait for a cell", "Goes on observing a cell that has yielded.", wait_input,
     CELL_OUTPUT, ANNOTATIONS("true", "false", "true", "false"), mcp_tool_wait},
    {"terminate", "End a cell", "Ends a cell, and answers when nothing of it runs any more.",
     terminate_input, CELL_OUTPUT, ANNOTATIONS("false", "true", "true", "false"),
     mcp_tool_terminate},
    {"cancel", "Stop something by its id",
     "Stops what has that id, and answers with the receipt when nothing of it runs any more; of "
     "what has ended, with its result.",
     cancel_input, "{\"type\":\"object\"}", ANNOTATIONS("false", "true", "true", "false"),
     mcp_tool_cancel},
};

/* ---- Which tools there are ------------------------------------------------------------------- */

int mcp_schemas_open(struct mcp_server *server, struct bl_error *error)
{
    struct bl_arena arena;
    int code = 0;

    if (server->own) {
        server->tools = own_tools;
        server->tool_count = BL_COUNT(own_tools);
    }
    server->inputs = bl_zalloc(server->tool_count * sizeof *server->inputs);
    bl_arena_init(&arena);
    for (size_t i = 0; i < server->tool_count && code == 0; i++) {
        const struct bl_json *source;
        code = bl_json_read(&arena, bl_text_from(server->tools[i].input), NULL, &source, NULL);
        if (code == 0)
            code = bl_json_schema_new(source, &server->inputs[i], error);
    }
    bl_arena_done(&arena);
    if (code != 0)
        mcp_schemas_close(server);
    return code;
}

void mcp_schemas_close(struct mcp_server *server)
{
    for (size_t i = 0; i < server->tool_count; i++)
        bl_json_schema_free(server->inputs[i]);
    bl_free(server->inputs);
}

static const struct mcp_tool *mcp_schema_find_tool(const struct mcp_server *server,
                                                   struct bl_text name)
{
    for (size_t i = 0; i < server->tool_count; i++)
        if (bl_text_equal(name, bl_text_from(server->tools[i].name)))
            return &server->tools[i];
    return NULL;
}

const struct bl_json *mcp_tool_schema(const struct mcp_server *server, struct bl_arena *arena,
                                      struct bl_text name)
{
    const struct mcp_tool *tool = mcp_schema_find_tool(server, name);
    const struct bl_json *schema;

    if (tool == NULL || bl_json_read(arena, bl_text_from(tool->input), NULL, &schema, NULL) != 0)
        return NULL;
    return schema;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static void mcp_schema_write_tool(struct bl_json_writer *writer, const struct mcp_tool *tool)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", tool->name);
    if (tool->title != NULL)
        bl_json_put_string(writer, "title", tool->title);
    bl_json_put_string(writer, "description", tool->description);
    bl_json_put_json(writer, "inputSchema", bl_text_from(tool->input));
    if (tool->output != NULL)
        bl_json_put_json(writer, "outputSchema", bl_text_from(tool->output));
    if (tool->annotations != NULL)
        bl_json_put_json(writer, "annotations", bl_text_from(tool->annotations));
    bl_json_write_end(writer);
}

void mcp_list_tools(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct mcp_server *server = request->peer->server;
    struct bl_json_writer writer;
    struct bl_buffer out;

    if (bl_json_get(request->message.params, BL_TEXT("cursor")) != NULL) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/cursor",
                 "no such cursor: the list of tools has one page");
        return;
    }
    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin(&writer, server, request->version, "complete");
    bl_json_write_key(&writer, BL_TEXT("tools"));
    bl_json_write_array(&writer);
    for (size_t i = 0; i < server->tool_count; i++)
        mcp_schema_write_tool(&writer, &server->tools[i]);
    bl_json_write_end(&writer);
    if (request->version == MCP_2026_07_28) {
        bl_json_put_uint64(&writer, "ttlMs", MCP_CACHE_MS);
        bl_json_put_string(&writer, "cacheScope", "public");
    }
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

/* ---- Calling --------------------------------------------------------------------------------- */

/* The first thing that is wrong with the arguments is said, with its path. */
static bool check_arguments(struct mcp_request *request, const struct bl_json_schema *schema,
                            const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    struct bl_list problems;

    if (bl_json_schema_check(schema, arguments, request->arena, &problems) == 0)
        return true;
    const struct bl_json_problem *first = BL_CONTAINER(problems.next, struct bl_json_problem, link);
    struct bl_text path =
        bl_arena_printf(request->arena, "/arguments" BL_TEXT_FORMAT, BL_TEXT_ARG(first->path));
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, path.data,
             "the arguments do not fit: " BL_TEXT_FORMAT " " BL_TEXT_FORMAT, BL_TEXT_ARG(path),
             BL_TEXT_ARG(first->message));
    return false;
}

void mcp_call_tool(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct mcp_server *server = request->peer->server;
    const struct bl_json *name = bl_json_get(request->message.params, BL_TEXT("name"));
    const struct bl_json *arguments = bl_json_get(request->message.params, BL_TEXT("arguments"));

    if (!bl_json_is(name, BL_JSON_STRING)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/name",
                 "'name' must be a string, the name of a tool");
        return;
    }
    if (arguments != NULL && !bl_json_is(arguments, BL_JSON_OBJECT)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments",
                 "'arguments' must be an object");
        return;
    }
    if (arguments == NULL)
        bl_json_read(request->arena, BL_TEXT("{}"), NULL, &arguments, NULL);
    const struct mcp_tool *tool = mcp_schema_find_tool(server, bl_json_text(name));
    if (tool == NULL) {
        struct bl_text cut = bl_utf8_cut(bl_json_text(name), 100);
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/name",
                 "there is no tool '" BL_TEXT_FORMAT "'; tools/list has those that are there",
                 BL_TEXT_ARG(cut));
    } else if (check_arguments(request, server->inputs[tool - server->tools], arguments,
                               ret_reply)) {
        tool->serve(request, arguments, ret_reply);
    }
}
