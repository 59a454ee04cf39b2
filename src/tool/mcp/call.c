/* One call of a server's tool, from the model's input to a result. */
#include <stdio.h>

#include "mcp.h"

/* The time for the keeper to report how a server ended. */
#define ENDING_NS (2 * BL_NS_PER_S)

/* ---- Progress -------------------------------------------------------------------------------- */

/* Reports only the newest progress, because the receiver may be slow. */
static int mcp_call_tell_main(void *argument)
{
    struct mcp_call *own = argument;
    char text[sizeof own->progress];
    int code;
    while ((code = bl_semaphore_take(&own->progressed)) == 0) {
        bl_text_into(text, sizeof text, own->progress);
        own->progress[0] = '\0';
        if (text[0] != '\0')
            own->call->output(own->call, bl_text_from(text));
    }
    return code;
}

void mcp_call_alive(struct mcp_call *own, struct bl_text message)
{
    size_t size = 0;
    bl_scope_set_deadline(&own->timed, bl_time_add(bl_now_ns(), own->limit_ns));
    message = bl_utf8_cut(message, sizeof own->progress - 2);
    if (message.size == 0)
        return;
    for (; size < message.size; size++)
        own->progress[size] = (unsigned char)message.data[size] < 0x20 ? ' ' : message.data[size];
    own->progress[size++] = '\n';
    own->progress[size] = '\0';
    if (!own->tells)
        own->tells = bl_nursery_spawn(&own->telling, NULL, "mcp progress", mcp_call_tell_main, own,
                                      NULL) == 0;
    bl_semaphore_give(&own->progressed);
}

void mcp_call_progressed(struct mcp_server *server, const struct bl_json *params)
{
    const struct bl_json *message = bl_json_get(params, BL_TEXT("message"));
    double progress = 0, total = 0;
    int64_t token = 0;
    char text[240], amount[64] = "";
    if (!bl_json_int64(bl_json_get(params, BL_TEXT("progressToken")), &token))
        return;
    bool counted = bl_json_double(bl_json_get(params, BL_TEXT("progress")), &progress);
    bool whole = bl_json_double(bl_json_get(params, BL_TEXT("total")), &total);
    if (counted && whole)
        snprintf(amount, sizeof amount, "%.6g of %.6g", progress, total);
    else if (counted)
        snprintf(amount, sizeof amount, "%.6g", progress);
    struct bl_text said = bl_utf8_cut(bl_json_text(message), 160);
    snprintf(text, sizeof text, "%s%s" BL_TEXT_FORMAT, amount, said.size > 0 ? ": " : "",
             BL_TEXT_ARG(said));
    BL_LIST_EACH (link, &server->calls) {
        struct mcp_call *own = BL_CONTAINER(link, struct mcp_call, link);
        if (own->token == (uint64_t)token)
            mcp_call_alive(own, bl_text_from(text));
    }
}

/* ---- The request ----------------------------------------------------------------------------- */

static int ask_tool(struct mcp_call *own, const struct bl_json **ret_result)
{
    const struct bl_tool_call *call = own->call;
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(params, SIZE_MAX);
    bl_json_writer_init(&writer, &params);
    mcp_server_params(own->server, &writer, own->token);
    bl_json_put_text(&writer, "name", own->tool->own_name);
    bl_json_put_json(&writer, "arguments", call->input_text);
    bl_json_write_end(&writer);
    struct mcp_request request = {
        .method = "tools/call",
        .params = bl_buffer_text(&params),
        .name = own->tool->own_name,
        .tool = own->tool,
        .arguments = call->input,
    };
    int code =
        mcp_server_ask(own->server, &request, &own->arena, ret_result, &own->failure, &own->error);
    return code;
}

static void say_input_required(const struct mcp_call *own, const struct bl_json *result,
                               struct bl_tool_result *ret_result)
{
    struct bl_arena *arena = own->call->arena;
    struct bl_text wanted = {0};
    BL_JSON_MEMBERS (key, bl_json_get(result, BL_TEXT("inputRequests"))) {
        struct bl_text method = bl_json_text(bl_json_get(key + 1, BL_TEXT("method")));
        if (wanted.size < 200)
            wanted =
                bl_arena_printf(arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(wanted),
                                wanted.size > 0 ? ", " : "", BL_TEXT_ARG(bl_utf8_cut(method, 60)));
    }
    ret_result->text =
        bl_arena_printf(arena,
                        "The tool requires more input (input_required%s" BL_TEXT_FORMAT
                        "), which is not supported. It did not complete.",
                        wanted.size > 0 ? ": " : "", BL_TEXT_ARG(wanted));
}

/* ---- Results --------------------------------------------------------------------------------- */

static void fill_answer(struct mcp_call *own, const struct bl_json *result,
                        struct bl_tool_result *ret_result)
{
    struct bl_text type = bl_json_text(bl_json_get(result, BL_TEXT("resultType")));
    if (bl_text_equal(type, BL_TEXT("input_required")))
        say_input_required(own, result, ret_result);
    else if (type.size == 0 || bl_text_equal(type, BL_TEXT("complete")))
        mcp_result_fill(own->call->arena, result, own->server->toolbox->output_max, ret_result);
    else
        ret_result->text = bl_arena_printf(
            own->call->arena, "The server returned a result of unknown type '" BL_TEXT_FORMAT "'.",
            BL_TEXT_ARG(bl_utf8_cut(type, 60)));
}

/* Describes how its server ended, as soon as that is known. */
static struct bl_text mcp_call_describe_death(struct mcp_call *own)
{
    struct bl_arena *arena = own->call->arena;
    struct bl_scope limited;
    bl_limit_begin(&limited, ENDING_NS);
    mcp_process_await(own->process);
    bl_limit_end(&limited);
    struct bl_text words = mcp_server_last_words(own->server, arena);
    return bl_arena_printf(
        arena,
        "outcome unknown: MCP server %s exited during this call (%s). The call may have had all, "
        "some or none of its effects, and it was not repeated.%s" BL_TEXT_FORMAT,
        own->server->entry->name,
        own->process->ended ? mcp_process_ending(own->process, arena).data : "it closed its output",
        words.size > 0 ? "\nEnd of its standard error:\n" : "", BL_TEXT_ARG(words));
}

static void fill_failure(struct mcp_call *own, int code, struct bl_tool_result *ret_result)
{
    struct bl_arena *arena = own->call->arena;
    const char *name = own->server->entry->name;
    const char *said = own->error.code != 0 ? own->error.message : bl_error_text(code);
    if (code == BL_EREFUSED && own->failure.message.size + (size_t)(own->failure.code != 0) > 0)
        ret_result->text = bl_arena_printf(
            arena, "MCP server %s returned an error: " BL_TEXT_FORMAT " (%lld)", name,
            BL_TEXT_ARG(bl_utf8_cut(own->failure.message, 4000)), (long long)own->failure.code);
    else if (code == BL_EPIPE && own->process != NULL)
        ret_result->text = mcp_call_describe_death(own);
    else if (code == BL_EIO && strcmp(own->error.name, "unsent") != 0)
        ret_result->text = bl_arena_printf(
            arena,
            "outcome unknown: the connection to MCP server %s was lost (%s). The call may have had "
            "all, some or none of its effects, and it was not repeated.",
            name, said);
    else
        ret_result->text =
            bl_arena_printf(arena, "MCP server %s cannot be used: %s%s%s", name, said,
                            own->error.hint[0] != '\0' ? "; " : "", own->error.hint);
}

/* After a stop of the call, or its own timeout: climbs the ladder. */
static int end_stopped(struct mcp_call *own, struct bl_tool_result *ret_result)
{
    struct bl_arena *arena = own->call->arena;
    int code = bl_scope_check(own->call->scope);
    struct bl_text words = {0};
    char note[200], duration[32];
    size_t size = 0;
    enum bl_fate fate = mcp_call_climb(own, &words);
    if (code != 0)
        size = tool_stop_note(own->call->scope, own->started_ns, note, sizeof note);
    bl_duration_format((int64_t)own->limit_ns, duration);
    ret_result->text =
        code != 0
            ? bl_arena_printf(arena, BL_TEXT_FORMAT "; " BL_TEXT_FORMAT,
                              BL_TEXT_ARG(bl_text_trim((struct bl_text){note, size})),
                              BL_TEXT_ARG(words))
            : bl_arena_printf(
                  arena,
                  "timed out: no response or progress for %s; outcome unknown; " BL_TEXT_FORMAT,
                  duration, BL_TEXT_ARG(words));
    bl_unit_end(&own->unit, fate);
    return code;
}

/* ---- The call -------------------------------------------------------------------------------- */

static bool mcp_call_is_stop(int code)
{
    return code == BL_ECANCELED || code == BL_ETIMEDOUT;
}

/* From now on the call counts as one of the server's. */
static void enter_server(struct mcp_call *own)
{
    /* Its timeout begins now: the start has its own. */
    bl_scope_set_deadline(&own->timed, bl_time_add(bl_now_ns(), own->limit_ns));
    own->token = ++own->server->tokens;
    own->process = own->server->process;
    if (own->process != NULL)
        own->process->users++;
    bl_list_push_back(&own->server->calls, &own->link);
}

static int tool_call_run(struct mcp_call *own, const struct bl_json **ret_result)
{
    int code = mcp_server_ensure(own->server);
    if (code == BL_EREFUSED)
        bl_error_set(&own->error, code, BL_KIND_MCP, "call a tool", own->server->entry->name,
                     "%s. The tool was not run.",
                     own->server->why[0] != '\0' ? own->server->why : "it is unavailable");
    if (code != 0)
        return code;
    enter_server(own);
    code = ask_tool(own, ret_result);
    if (code == 0 && bl_text_equal(bl_json_text(bl_json_get(*ret_result, BL_TEXT("resultType"))),
                                   BL_TEXT("task")))
        code = mcp_call_follow(own, *ret_result, ret_result);
    return code;
}

int mcp_call_run(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error)
{
    struct mcp_call *own = bl_zalloc(sizeof *own);
    const struct bl_mcp_entry *entry = tool->server->entry;
    const struct bl_json *result = NULL;
    (void)error;
    own->call = call;
    own->tool = tool;
    own->server = tool->server;
    own->limit_ns = entry->call_ns != 0 ? entry->call_ns : BL_MCP_CALL_NS;
    own->started_ns = bl_now_ns();
    own->ends = own->server->ends;
    bl_list_init(&own->link);
    bl_semaphore_init(&own->progressed, 0);
    bl_unit_begin(&own->unit, BL_UNIT_TOOL, call->id, call->name);
    bl_scope_init(&own->timed, call->scope);
    uint64_t start_ns = entry->start_ns != 0 ? entry->start_ns : BL_MCP_START_NS;
    bl_scope_set_deadline(&own->timed,
                          bl_time_add(bl_time_add(own->started_ns, own->limit_ns), start_ns));
    bl_nursery_init(&own->telling, call->scope);
    *ret_result = (struct bl_tool_result){.is_error = true};
    struct bl_scope *outer = bl_scope_enter(&own->timed);
    int code = tool_call_run(own, &result);
    bl_scope_enter(outer);
    if (mcp_call_is_stop(code)) {
        code = end_stopped(own, ret_result);
    } else {
        if (code == 0)
            fill_answer(own, result, ret_result);
        else
            fill_failure(own, code, ret_result);
        bl_unit_end(&own->unit, BL_FATE_FINISHED);
        code = 0;
    }
    mcp_call_leave(own);
    bl_nursery_done(&own->telling);
    bl_scope_done(&own->timed);
    mcp_notices_tell(toolbox);
    bl_arena_done(&own->arena);
    bl_free(own);
    return code;
}
