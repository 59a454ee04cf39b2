/* The tools with the schemas of their arguments and answers, and the check of each call before it
 * starts. */
#include <stdio.h>

#include "core.h"

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

static const struct mcp_tool own_tools[] = {
    {"run", "Run an agent",
     "Gives a task to an agent, which works on it with its own tools, and answers with the "
     "result.",
     &bl_run_request_record, run_output, ANNOTATIONS("false", "true", "false", "true"),
     mcp_tool_run, NULL},
    {"exec", "Run JavaScript",
     "Runs JavaScript in a process of its own, and answers with its outcome or, after the yield "
     "time, with its output so far.",
     &mcp_exec_input, CELL_OUTPUT, ANNOTATIONS("false", "true", "false", "true"), mcp_tool_exec,
     NULL},
    {"wait", "Wait for a cell", "Continues to observe a cell that has yielded.", &mcp_wait_input,
     CELL_OUTPUT, ANNOTATIONS("true", "false", "true", "false"), mcp_tool_wait, NULL},
    {"terminate", "End a cell", "Ends a cell, and answers when none of its work runs any more.",
     &mcp_terminate_input, CELL_OUTPUT, ANNOTATIONS("false", "true", "true", "false"),
     mcp_tool_terminate, NULL},
    {"cancel", "Stop work by its id",
     "Stops the work with that id, and answers with the receipt when none of it runs any "
     "more; for work that has ended, with its result.",
     &mcp_cancel_input, "{\"type\":\"object\"}", ANNOTATIONS("false", "true", "true", "false"),
     mcp_tool_cancel, NULL},
};

/* ---- The tools ------------------------------------------------------------------------------- */

int mcp_schemas_open(struct mcp_server *server, struct bl_error *error)
{
    int code = 0;

    if (server->own) {
        server->tools = own_tools;
        server->tool_count = BL_COUNT(own_tools);
    }
    server->inputs = bl_zalloc(server->tool_count * sizeof *server->inputs);
    bl_arena_init(&server->arena);
    for (size_t i = 0; i < server->tool_count && code == 0; i++) {
        const struct mcp_tool *tool = &server->tools[i];
        struct mcp_input *input = &server->inputs[i];
        const struct bl_json *source;
        input->text = tool->input != NULL ? bl_record_input_schema(&server->arena, tool->input)
                                          : bl_text_from(tool->schema);
        code = bl_json_read(&server->arena, input->text, NULL, &source, NULL);
        if (code == 0)
            code = bl_json_schema_new(source, &input->schema, error);
    }
    if (code != 0)
        mcp_schemas_close(server);
    return code;
}

void mcp_schemas_close(struct mcp_server *server)
{
    for (size_t i = 0; i < server->tool_count; i++)
        bl_json_schema_free(server->inputs[i].schema);
    bl_free(server->inputs);
    bl_arena_done(&server->arena);
}

/* Returns SIZE_MAX if there is no such tool. */
static size_t mcp_schema_find_tool(const struct mcp_server *server, struct bl_text name)
{
    for (size_t i = 0; i < server->tool_count; i++)
        if (bl_text_equal(name, bl_text_from(server->tools[i].name)))
            return i;
    return SIZE_MAX;
}

const struct bl_json *mcp_tool_schema(const struct mcp_server *server, struct bl_arena *arena,
                                      struct bl_text name)
{
    size_t index = mcp_schema_find_tool(server, name);
    const struct bl_json *schema;

    if (index == SIZE_MAX ||
        bl_json_read(arena, server->inputs[index].text, NULL, &schema, NULL) != 0)
        return NULL;
    return schema;
}

/* ---- Listing --------------------------------------------------------------------------------- */

static void mcp_schema_write_tool(struct bl_json_writer *writer, const struct mcp_tool *tool,
                                  const struct mcp_input *input)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", tool->name);
    if (tool->title != NULL)
        bl_json_put_string(writer, "title", tool->title);
    bl_json_put_string(writer, "description", tool->description);
    bl_json_put_json(writer, "inputSchema", input->text);
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
        mcp_schema_write_tool(&writer, &server->tools[i], &server->inputs[i]);
    bl_json_write_end(&writer);
    if (request->version == MCP_2026_07_28) {
        bl_json_put_uint64(&writer, "ttlMs", MCP_CACHE_MS);
        bl_json_put_string(&writer, "cacheScope", "public");
    }
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

/* ---- Calling --------------------------------------------------------------------------------- */

/* `path` is relative to the arguments. */
static bool refuse_arguments(struct mcp_request *request, struct bl_text path,
                             const char *separator, struct bl_text why, struct mcp_reply *ret_reply)
{
    path = bl_arena_printf(request->arena, "/arguments" BL_TEXT_FORMAT, BL_TEXT_ARG(path));
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, path.data,
             "invalid arguments: " BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(path), separator,
             BL_TEXT_ARG(why));
    return false;
}

/* Reports the first error in the arguments, with its path. */
static bool check_arguments(struct mcp_request *request, const struct bl_json_schema *schema,
                            const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    struct bl_list problems;

    if (bl_json_schema_check(schema, arguments, request->arena, &problems) == 0)
        return true;
    const struct bl_json_problem *first = BL_CONTAINER(problems.next, struct bl_json_problem, link);
    return refuse_arguments(request, first->path, " ", first->message, ret_reply);
}

bool mcp_arguments_read(struct mcp_request *request, struct bl_arena *arena,
                        const struct bl_record *record, const struct bl_json *arguments, void *into,
                        struct mcp_reply *ret_reply)
{
    struct bl_record_fault fault;

    return bl_record_read(arena, record, arguments, into, &fault) == 0 ||
           refuse_arguments(request, bl_text_from(fault.path), ": ", bl_text_from(fault.message),
                            ret_reply);
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
    size_t index = mcp_schema_find_tool(server, bl_json_text(name));
    if (index == SIZE_MAX) {
        struct bl_text cut = bl_utf8_cut(bl_json_text(name), 100);
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/name",
                 "unknown tool '" BL_TEXT_FORMAT "'; tools/list lists the tools", BL_TEXT_ARG(cut));
    } else if (check_arguments(request, server->inputs[index].schema, arguments, ret_reply)) {
        server->tools[index].serve(request, arguments, ret_reply);
    }
}
