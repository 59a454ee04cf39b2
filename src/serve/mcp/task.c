/* Tasks: work that outlives its request. A task is in the store before a client learns of it, and
 * clients get what the store has, so that a later process gives the same answer. */
#include <stdio.h>

#include "core.h"

#define TASK_ORIGIN "tasks/cancel"
#define TRIES_MAX   5u
#define TRY_NS      (100 * BL_NS_PER_MS)
/* Another process lists its work a moment after the store has the task, and unlists it a moment
 * before the store has the end. */
#define ELSEWHERE_NS_MAX (2 * BL_NS_PER_S)
#define LOOK_NS          (10 * BL_NS_PER_MS)

static struct bl_store *store_of(const struct mcp_server *server)
{
    return server->options.runtime->store;
}

static int64_t mcp_task_wall_ns(void)
{
    return bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
}

/* ---- Start and end --------------------------------------------------------------------------- */

int mcp_task_begin(struct mcp_work *work, const char *session, struct bl_error *error)
{
    struct bl_store_task task = {
        .id = work->id,
        .kind = work->kind,
        .session = session,
        .created_wall_ns = work->created_wall_ns,
        .status = "working",
    };
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_task_begin(store_of(work->server), &task, error);
    bl_shield_end(&shield);
    work->task = code == 0;
    return code;
}

/* Returns a JSON-RPC error, the same as for a plain call. */
static struct bl_text mcp_task_failure_of(struct mcp_work *work)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("code"));
    bl_json_write_int64(&writer, BL_RPC_INTERNAL);
    bl_json_put_text(&writer, "message", work->outcome.text);
    bl_json_write_end(&writer);
    return mcp_take(&work->arena, &out);
}

void mcp_task_end(struct mcp_work *work)
{
    const struct mcp_outcome *outcome = &work->outcome;
    bool failed = outcome->json.size == 0 && !outcome->is_error;
    struct bl_error *error = bl_arena_zalloc(&work->arena, sizeof *error);
    struct bl_store_task task = {
        .id = work->id,
        .status = outcome->cancelled ? "cancelled"
                  : failed           ? "failed"
                                     : "completed",
        .receipt = outcome->receipt,
        .ended_wall_ns = mcp_task_wall_ns(),
    };
    int code = BL_EAGAIN;

    task.expires_wall_ns = task.ended_wall_ns + (int64_t)MCP_TASK_KEPT_NS;
    if (failed)
        task.result = mcp_task_failure_of(work);
    else if (!outcome->cancelled)
        task.result = mcp_call_result(&work->arena, work->server, MCP_2026_07_28, outcome);
    /* If the store never takes the end, the task counts as failed once this process has exited. */
    for (unsigned i = 0; i < TRIES_MAX && code != 0 && code != BL_EEXIST; i++) {
        struct bl_scope shield;
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        if (i > 0)
            bl_sleep(TRY_NS);
        *error = (struct bl_error){0};
        code = bl_store_task_end(store_of(work->server), &task, error);
        bl_shield_end(&shield);
    }
}

/* ---- Reporting ------------------------------------------------------------------------------- */

static void mcp_task_put_time(struct bl_json_writer *writer, const char *key, int64_t time_ns)
{
    char text[32];

    bl_time_format(time_ns, text);
    bl_json_put_string(writer, key, text);
}

/* How long it can be read, from its creation; unknown while it is working. */
static void put_ttl(struct bl_json_writer *writer, const struct bl_store_task *task)
{
    bl_json_write_key(writer, BL_TEXT("ttlMs"));
    if (task->expires_wall_ns > task->created_wall_ns)
        bl_json_write_int64(writer, (task->expires_wall_ns - task->created_wall_ns) /
                                        (int64_t)BL_NS_PER_MS);
    else
        bl_json_write_null(writer);
}

static struct bl_text mcp_write_task(struct mcp_request *request, const struct bl_store_task *task,
                                     const char *type)
{
    bool ended = strcmp(task->status, "working") != 0;
    bool cancelled = strcmp(task->status, "cancelled") == 0;
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin_with(&writer, request->peer->server, request->version, type, "belay/receipt",
                          cancelled ? task->receipt : (struct bl_text){0});
    bl_json_put_string(&writer, "taskId", task->id);
    bl_json_put_string(&writer, "status", task->status);
    mcp_task_put_time(&writer, "createdAt", task->created_wall_ns);
    mcp_task_put_time(&writer, "lastUpdatedAt",
                      ended && task->ended_wall_ns != 0 ? task->ended_wall_ns
                                                        : task->created_wall_ns);
    put_ttl(&writer, task);
    bl_json_put_uint64(&writer, "pollIntervalMs", MCP_TASK_POLL_MS);
    if (strcmp(task->status, "completed") == 0)
        bl_json_put_json(&writer, "result", task->result);
    if (strcmp(task->status, "failed") == 0)
        bl_json_put_json(&writer, "error",
                         task->result.size > 0
                             ? task->result
                             : BL_TEXT("{\"code\":-32603,\"message\":\"the task's process exited "
                                       "before the task ended\"}"));
    bl_json_write_end(&writer);
    return mcp_take(request->arena, &out);
}

void mcp_task_answer(struct mcp_request *request, const struct mcp_work *work,
                     struct mcp_reply *ret_reply)
{
    struct bl_store_task task = {
        .id = work->id, .status = "working", .created_wall_ns = work->created_wall_ns};

    *ret_reply = (struct mcp_reply){.result = mcp_write_task(request, &task, "task")};
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Finds the task of the request. Returns false if the request was answered. */
static bool mcp_find_task(struct mcp_request *request, struct bl_store_task *ret_task,
                          struct mcp_reply *ret_reply)
{
    const struct bl_json *id = bl_json_get(request->message.params, BL_TEXT("taskId"));
    struct bl_error *error = bl_arena_zalloc(request->arena, sizeof *error);
    struct bl_scope shield;

    if (!mcp_request_takes_tasks(request)) {
        mcp_fail(request, ret_reply, MCP_MISSING_CAPABILITY, NULL,
                 "a request about tasks must declare the extension " MCP_TASKS);
        ret_reply->data =
            BL_TEXT("{\"requiredCapabilities\":{\"extensions\":{\"" MCP_TASKS "\":{}}}}");
        return false;
    }
    if (!bl_json_is(id, BL_JSON_STRING)) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/taskId", "'taskId' must be a string");
        return false;
    }
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_task_get(store_of(request->peer->server), request->arena,
                                 bl_json_text(id).data, ret_task, error);
    bl_shield_end(&shield);
    if (code == BL_ENOENT)
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/taskId",
                 "no such task, or it has expired");
    else if (code != 0)
        mcp_fail_error(request, ret_reply, BL_RPC_INTERNAL, error);
    return code == 0;
}

void mcp_task_get(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    struct bl_store_task task;

    if (mcp_find_task(request, &task, ret_reply))
        ret_reply->result = mcp_write_task(request, &task, "complete");
}

/* Our tasks never need input. */
void mcp_task_update(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    struct bl_store_task task;

    if (mcp_find_task(request, &task, ret_reply))
        mcp_answer_empty(request, ret_reply);
}

static bool is_working(const struct bl_store_task *task)
{
    return strcmp(task->status, "working") == 0;
}

/* Cancels a task of another process of this user, which stores the outcome when all is quiet.
 * Returns false if the request was answered. */
static bool mcp_task_cancel_elsewhere(struct mcp_request *request, struct bl_store_task *task,
                                      struct mcp_reply *ret_reply)
{
    bool cell = strcmp(task->kind, "exec") == 0 && task->session != NULL;
    struct bl_text name = cell ? bl_arena_printf(request->arena, "%s/%s", task->session, task->id)
                               : bl_arena_text(request->arena, bl_text_from(task->id));
    uint64_t until_ns = bl_time_add(bl_now_ns(), ELSEWHERE_NS_MAX);
    struct bl_error *error = bl_arena_alloc(request->arena, sizeof *error);
    struct bl_text receipt;
    int code = BL_ENOENT;

    while (is_working(task) && code != BL_EEXIST && bl_now_ns() < until_ns) {
        if (code != 0) {
            *error = (struct bl_error){0};
            code =
                bl_control_cancel(request->arena, name.data, TASK_ORIGIN, false, &receipt, error);
            if (code == 0)
                until_ns = bl_time_add(bl_now_ns(), ELSEWHERE_NS_MAX);
        }
        if (bl_sleep(LOOK_NS) != 0) {
            ret_reply->dropped = true;
            return false;
        }
        if (!mcp_find_task(request, task, ret_reply))
            return false;
    }
    if (!is_working(task))
        return true;
    mcp_fail(request, ret_reply, BL_RPC_INTERNAL, NULL,
             "cannot stop the task in another process: %s; %s",
             code == 0 ? "it is quiet there, but the store does not have its end" : error->message,
             error->hint[0] != '\0' ? error->hint : "'belay ps' lists running work");
    return false;
}

void mcp_task_cancel(struct mcp_request *request, struct mcp_reply *ret_reply)
{
    static const struct bl_stop stop = {.reason = BL_STOP_USER, .origin = TASK_ORIGIN};
    struct bl_store_task task;

    if (!mcp_find_task(request, &task, ret_reply))
        return;
    /* Reads a task again that may just have ended. */
    bool stopped = mcp_work_stop_all(request->peer->server, bl_text_from(task.id), &stop);
    bool working = !stopped && is_working(&task);
    if (working && !mcp_find_task(request, &task, ret_reply))
        return;
    if (!working || mcp_task_cancel_elsewhere(request, &task, ret_reply))
        mcp_answer_empty(request, ret_reply);
}
