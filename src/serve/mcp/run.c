/* The tool `run`: an agent in a workspace of its own. */
#include "core.h"

struct mcp_run {
    struct mcp_work work;
    struct bl_run_request request;
    uint64_t from_ns;
    struct bl_error error;
};

static bool check_mode(struct mcp_request *request, const struct bl_run_request *input,
                       struct mcp_reply *ret_reply)
{
    enum bl_permission_mode widest = request->peer->server->options.runtime->mode;

    if (!input->mode_chosen || !bl_permission_mode_wider(input->mode, widest))
        return true;
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments/permission_mode",
             "'%s' is not allowed: this server was started with '%s', and a call can only "
             "narrow the mode",
             bl_permission_mode_name(input->mode), bl_permission_mode_name(widest));
    return false;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Returns the answer of `belay run`, without the envelope. */
static struct bl_text mcp_run_payload(struct mcp_run *run, const struct bl_run_answer *answer)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_run_answer_record, answer);
    return mcp_take(&run->work.arena, &out);
}

static void run_main(struct mcp_work *work)
{
    struct mcp_run *run = BL_CONTAINER(work, struct mcp_run, work);
    struct bl_run_order order = {
        .request = run->request,
        .directory = work->server->options.runtime->options->directory,
        .run_id = work->id,
        .from_ns = run->from_ns,
        .activities = work->server->options.activities,
    };
    struct bl_run_answer answer;
    struct bl_scope *own = bl_scope_enter(&work->server->nursery.scope);
    int code = bl_runtime_run(work->server->options.runtime, &order, &work->scope, &work->arena,
                              &answer, &run->error);

    if (code != 0) {
        mcp_outcome_error(&work->arena, &run->error, &work->outcome);
    } else {
        if (answer.session_id == NULL)
            mcp_remember(work->server, work->id, answer.run.receipt);
        work->outcome = (struct mcp_outcome){
            .json = mcp_run_payload(run, &answer),
            .receipt = answer.run.receipt,
            .cancelled = answer.run.end == BL_TURN_CANCELLED,
            .is_error = answer.run.end != BL_TURN_COMPLETED,
        };
    }
    bl_scope_enter(own);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Answers at once, while the work continues. */
static void serve_task(struct mcp_request *request, struct mcp_run *run,
                       struct mcp_reply *ret_reply)
{
    struct mcp_work *work = &run->work;

    /* Over HTTP there is no client whose disconnection could end the task, so it needs a
     * deadline. */
    if (request->peer->server->options.http && !run->request.timed) {
        run->request.timed = true;
        run->request.timeout_ns = MCP_TASK_NS_MAX;
    }
    int code = mcp_task_begin(work, run->request.session, &run->error);
    if (code != 0) {
        mcp_fail_error(request, ret_reply, BL_RPC_INTERNAL, &run->error);
        mcp_work_unref(work);
        return;
    }
    code = mcp_work_start(work, NULL);
    if (code != 0) {
        work->outcome = (struct mcp_outcome){.text = bl_text_from(bl_error_text(code))};
        mcp_task_end(work);
    } else if (bl_scope_stopped(request->scope)) {
        /* The client will not learn of the task, so it is stopped. */
        mcp_work_attend(request, work, BL_NEVER);
        ret_reply->dropped = true;
    }
    if (!ret_reply->dropped)
        mcp_task_answer(request, work, ret_reply);
    mcp_work_unref(work);
}

void mcp_tool_run(struct mcp_request *request, const struct bl_json *arguments,
                  struct mcp_reply *ret_reply)
{
    struct mcp_work *work =
        mcp_work_new(request->peer->server, "run", sizeof(struct mcp_run), run_main);
    struct mcp_run *run = BL_CONTAINER(work, struct mcp_run, work);

    run->from_ns = bl_now_ns();
    mcp_id_make(work->id, "run_");
    if (!mcp_arguments_read(request, &work->arena, &bl_run_request_record, arguments, &run->request,
                            ret_reply) ||
        !check_mode(request, &run->request, ret_reply)) {
        mcp_work_unref(work);
        return;
    }
    if (mcp_request_takes_tasks(request))
        serve_task(request, run, ret_reply);
    else
        mcp_work_serve(request, work, ret_reply);
}
