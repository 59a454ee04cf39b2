/* What is offered: tools with the schemas of their arguments and answers, and how a call is held to
 * them before anything of it is begun. */
#include <stdio.h>

#include "mcp_core.h"

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

const struct mcp_tool mcp_tools[MCP_TOOLS_MAX] = {
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

/* ---- Compiled -------------------------------------------------------------------------------- */

int mcp_schemas_open(struct mcp_server *server, struct bl_error *error)
{
    struct bl_arena arena;
    int code = 0;

    bl_arena_init(&arena);
    for (size_t i = 0; i < MCP_TOOLS_MAX && code == 0; i++) {
        const struct bl_json *source;
        code = bl_json_read(&arena, bl_text_from(mcp_tools[i].input), NULL, &source, NULL);
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
    for (size_t i = 0; i < MCP_TOOLS_MAX; i++)
        bl_json_schema_free(server->inputs[i]);
}

/* ---- Listing --------------------------------------------------------------------------------- */

static void write_tool(struct bl_json_writer *writer, const struct mcp_tool *tool)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", tool->name);
    bl_json_put_string(writer, "title", tool->title);
    bl_json_put_string(writer, "description", tool->description);
    bl_json_put_json(writer, "inputSchema", bl_text_from(tool->input));
    bl_json_put_json(writer, "outputSchema", bl_text_from(tool->output));
    bl_json_put_json(writer, "annotations", bl_text_from(tool->annotations));
    bl_json_write_end(writer);
}

static void write_fixture(struct bl_json_writer *writer, const struct bl_tool_offer *offer)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "name", offer->name);
    bl_json_put_string(writer, "description", offer->description);
    bl_json_put_json(writer, "inputSchema", offer->schema);
    bl_json_write_end(writer);
}

void mcp_list_tools(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct mcp_server *server = request->peer->server;
    const struct bl_tools *fixtures = server->options.fixtures;
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
    for (size_t i = 0; fixtures == NULL && i < MCP_TOOLS_MAX; i++)
        write_tool(&writer, &mcp_tools[i]);
    for (size_t i = 0; fixtures != NULL && i < fixtures->offer_count; i++)
        write_fixture(&writer, &fixtures->offers[i]);
    bl_json_write_end(&writer);
    if (request->version == MCP_2026_07_28) {
        bl_json_put_uint64(&writer, "ttlMs", MCP_CACHE_MS);
        bl_json_put_string(&writer, "cacheScope", "public");
    }
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

/* ---- Fixtures -------------------------------------------------------------------------------- */

static void ignore_output(const struct bl_tool_call *call BL_UNUSED, struct bl_text bytes BL_UNUSED)
{
}

static void ignore_event(const struct bl_tool_call *call BL_UNUSED,
                         struct bl_event *event BL_UNUSED)
{
}

/* A call of one, which its request outlives. */
struct fixture {
    struct mcp_work work;
    const struct bl_tool_offer *offer;
    const struct bl_json *arguments;
    struct bl_tool_result result;
    struct bl_error error;
};

static struct bl_text fixture_content(struct bl_arena *arena, const struct bl_tool_result *result)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_array(&writer);
    if (result->text.size > 0 || result->images == NULL) {
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "type", "text");
        bl_json_put_text(&writer, "text", result->text);
        bl_json_write_end(&writer);
    }
    for (const struct bl_list *link = result->images != NULL ? result->images->next : NULL;
         link != NULL && link != result->images; link = link->next) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        bl_json_write_object(&writer);
        bl_json_put_string(&writer, "type", "image");
        bl_json_put_text(&writer, "data", block->text);
        bl_json_put_text(&writer, "mimeType", block->name);
        bl_json_write_end(&writer);
    }
    bl_json_write_end(&writer);
    return mcp_take(arena, &out);
}

static void fixture_main(struct mcp_work *work)
{
    struct fixture *fixture = BL_CONTAINER(work, struct fixture, work);
    const struct bl_tools *fixtures = work->server->options.fixtures;
    struct bl_tool_call call = {
        .id = work->id,
        .name = fixture->offer->name,
        .input_text = bl_json_value_text(&work->arena, fixture->arguments),
        .input = fixture->arguments,
        .scope = &work->scope,
        .arena = &work->arena,
        .output = ignore_output,
        .tell = ignore_event,
    };

    int code = fixtures->call(fixtures->context, &call, &fixture->result, &fixture->error);
    if (code != 0) {
        bl_error_set(&fixture->error, code, BL_KIND_TOOL, "call", fixture->offer->name, "%s",
                     bl_error_text(code));
        mcp_outcome_error(&work->arena, &fixture->error, &work->outcome);
        return;
    }
    work->outcome.content = fixture_content(&work->arena, &fixture->result);
    work->outcome.is_error = fixture->result.is_error;
}

static void call_fixture(struct mcp_request *request, const struct bl_tool_offer *offer,
                         const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    struct mcp_work *work =
        mcp_work_new(request->peer->server, "fixture", sizeof(struct fixture), fixture_main);
    struct fixture *fixture = BL_CONTAINER(work, struct fixture, work);

    mcp_id_make(work->id, "call_");
    fixture->offer = offer;
    fixture->arguments = arguments;
    mcp_work_serve(request, work, ret_reply);
}

/* ---- Calling --------------------------------------------------------------------------------- */

/* The first thing that is wrong with the arguments is said, with its path. */
static bool check_arguments(struct mcp_request *request, const struct bl_json_schema *schema,
                            const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    struct bl_list problems;

    if (schema == NULL || bl_json_schema_check(schema, arguments, request->arena, &problems) == 0)
        return true;
    const struct bl_json_problem *first = BL_CONTAINER(problems.next, struct bl_json_problem, link);
    struct bl_text path =
        bl_arena_printf(request->arena, "/arguments" BL_TEXT_FORMAT, BL_TEXT_ARG(first->path));
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, path.data,
             "the arguments do not fit: " BL_TEXT_FORMAT " " BL_TEXT_FORMAT, BL_TEXT_ARG(path),
             BL_TEXT_ARG(first->message));
    return false;
}

static bool call_named_fixture(struct mcp_request *request, struct bl_text name,
                               const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    const struct bl_tools *fixtures = request->peer->server->options.fixtures;

    for (size_t i = 0; i < fixtures->offer_count; i++) {
        const struct bl_tool_offer *offer = &fixtures->offers[i];
        if (!bl_text_equal(name, bl_text_from(offer->name)))
            continue;
        if (check_arguments(request, offer->compiled, arguments, ret_reply))
            call_fixture(request, offer, arguments, ret_reply);
        return true;
    }
    return false;
}

static bool call_named(struct mcp_request *request, struct bl_text name,
                       const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    const struct mcp_server *server = request->peer->server;

    if (server->options.fixtures != NULL)
        return call_named_fixture(request, name, arguments, ret_reply);
    for (size_t i = 0; i < MCP_TOOLS_MAX; i++) {
        if (!bl_text_equal(name, bl_text_from(mcp_tools[i].name)))
            continue;
        if (check_arguments(request, server->inputs[i], arguments, ret_reply))
            mcp_tools[i].serve(request, arguments, ret_reply);
        return true;
    }
    return false;
}

void mcp_call_tool(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    const struct bl_json *name = bl_json_get(request->message.params, BL_TEXT("name"));
    const struct bl_json *arguments = bl_json_get(request->message.params, BL_TEXT("arguments"));

    if (!bl_json_is(name, BL_JSON_STRING)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/name", "'name' is a string");
        return;
    }
    if (arguments != NULL && !bl_json_is(arguments, BL_JSON_OBJECT)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments",
                 "'arguments' is an object");
        return;
    }
    if (arguments == NULL)
        bl_json_read(request->arena, BL_TEXT("{}"), NULL, &arguments, NULL);
    struct bl_text text = bl_json_text(name);
    if (!call_named(request, text, arguments, ret_reply))
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/name", "there is no tool '%.*s'",
                 (int)(text.size < 100 ? text.size : 100), text.data);
}
