/* Calls that a server has turned into a task: polled at the interval that the server names. */
#include "mcp.h"

#define POLL_MS_DEFAULT 1000
#define POLL_MS_MIN     50
#define POLL_MS_MAX     60000
/* Consecutive lost requests before the task is given up. */
#define LOST_MAX 5u

static uint64_t poll_ns(const struct bl_json *task)
{
    int64_t ms = POLL_MS_DEFAULT;
    bl_json_int64(bl_json_get(task, BL_TEXT("pollIntervalMs")), &ms);
    ms = ms < POLL_MS_MIN ? POLL_MS_MIN : ms > POLL_MS_MAX ? POLL_MS_MAX : ms;
    return (uint64_t)ms * BL_NS_PER_MS;
}

/* Sends the server a request about the call's task. */
static int mcp_task_ask(struct mcp_call *own, const char *method, const struct bl_json **ret_result,
                        struct bl_rpc_failure *ret_failure, struct bl_error *error)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(params, SIZE_MAX);
    bl_json_writer_init(&writer, &params);
    mcp_server_params(own->server, &writer, 0);
    bl_json_put_text(&writer, "taskId", own->task);
    bl_json_write_end(&writer);
    struct mcp_request request = {
        .method = method, .params = bl_buffer_text(&params), .name = own->task};
    return mcp_server_ask(own->server, &request, &own->arena, ret_result, ret_failure, error);
}

static int poll(struct mcp_call *own, const struct bl_json **ret_task)
{
    bl_arena_reset(&own->arena);
    own->error = (struct bl_error){0};
    return mcp_task_ask(own, "tasks/get", ret_task, &own->failure, &own->error);
}

void mcp_call_cancel_task(struct mcp_call *own)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    const struct bl_json *result;
    struct bl_scope shield;
    bl_shield_begin(&shield, own->server->toolbox->mcp_grace_ms * BL_NS_PER_MS);
    own->task_stopped = mcp_task_ask(own, "tasks/cancel", &result, NULL, error) == 0;
    bl_shield_end(&shield);
    bl_free(error);
}

static int mcp_task_fail(struct mcp_call *own, const char *what)
{
    return bl_error_set(&own->error, BL_EPARSE, BL_KIND_MCP, "follow a task",
                        own->server->entry->name, "%s", what);
}

/* Handles a status that ends the task. */
static int mcp_task_take_end(struct mcp_call *own, const struct bl_json *task,
                             struct bl_text status, const struct bl_json **ret_result)
{
    const struct bl_json *error = bl_json_get(task, BL_TEXT("error"));
    *ret_result = bl_json_get(task, BL_TEXT("result"));
    if (bl_text_equal(status, BL_TEXT("completed")))
        return bl_json_is(*ret_result, BL_JSON_OBJECT)
                   ? 0
                   : mcp_task_fail(own, "its task completed without a result");
    if (bl_text_equal(status, BL_TEXT("failed"))) {
        bl_json_int64(bl_json_get(error, BL_TEXT("code")), &own->failure.code);
        own->failure.message = bl_json_text(bl_json_get(error, BL_TEXT("message")));
        return bl_error_set(&own->error, BL_EREFUSED, BL_KIND_MCP, "follow a task",
                            own->server->entry->name, "its task failed");
    }
    if (bl_text_equal(status, BL_TEXT("cancelled")))
        return mcp_task_fail(own, "its task was cancelled by the server");
    mcp_call_cancel_task(own);
    if (bl_text_equal(status, BL_TEXT("input_required")))
        return mcp_task_fail(
            own, "its task requires more input (input_required), which is not supported");
    return mcp_task_fail(own, "its task has an unknown status");
}

int mcp_call_follow(struct mcp_call *own, const struct bl_json *created,
                    const struct bl_json **ret_result)
{
    struct bl_text seen = {0};
    uint64_t pause_ns = poll_ns(created);
    unsigned lost = 0;
    own->task =
        bl_arena_text(own->call->arena, bl_json_text(bl_json_get(created, BL_TEXT("taskId"))));
    if (own->task.size == 0)
        return mcp_task_fail(own, "it created a task without an id");
    for (;;) {
        const struct bl_json *task = NULL;
        int code = bl_sleep(pause_ns);
        if (code == 0)
            code = poll(own, &task);
        if (code == BL_EIO && ++lost < LOST_MAX)
            continue;
        if (code != 0)
            return code;
        lost = 0;
        struct bl_text status = bl_json_text(bl_json_get(task, BL_TEXT("status")));
        if (!bl_text_equal(status, BL_TEXT("working")))
            return mcp_task_take_end(own, task, status, ret_result);
        struct bl_text updated = bl_json_text(bl_json_get(task, BL_TEXT("lastUpdatedAt")));
        if (!bl_text_equal(updated, seen)) {
            mcp_call_alive(own, bl_json_text(bl_json_get(task, BL_TEXT("statusMessage"))));
            seen = bl_arena_text(own->call->arena, updated);
        }
        pause_ns = poll_ns(task);
    }
}
