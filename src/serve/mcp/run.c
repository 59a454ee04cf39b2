/* The tool `run`: an agent in a workspace of its own. */
#include "core.h"

struct mcp_run {
    struct mcp_work work;
    struct bl_text prompt;
    const char *session; /* NULL: a new one */
    const char *request_id;
    const char *model;
    bool mode_chosen;
    enum bl_permission_mode mode;
    double max_budget_usd; /* negative: none */
    bool timed;
    int64_t timeout_ns;
    uint64_t max_turns; /* 0: as the workspace has it */
    uint64_t max_steps; /* BL_UNLIMITED: none */
    uint64_t from_ns;
    struct bl_workspace *workspace; /* while it is open */
    struct bl_agent_result result;
    struct bl_error error;
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static const char *text_argument(struct mcp_run *run, const struct bl_json *arguments,
                                 const char *name)
{
    const struct bl_json *value = bl_json_get(arguments, bl_text_from(name));

    return value != NULL ? bl_arena_text(&run->work.arena, bl_json_text(value)).data : NULL;
}

static bool read_timeout(struct mcp_request *request, struct mcp_run *run,
                         const struct bl_json *value, struct mcp_reply *ret_reply)
{
    struct bl_error *error = &run->error;
    double seconds;
    int code;

    run->timed = value != NULL;
    if (value == NULL)
        return true;
    if (bl_json_double(value, &seconds))
        code = bl_duration_from_seconds(seconds, &run->timeout_ns, error);
    else
        code = bl_duration_parse(bl_json_text(value), &run->timeout_ns, error);
    if (code != 0)
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments/timeout", "%s; %s",
                 error->message, error->hint);
    return code == 0;
}

static bool read_mode(struct mcp_request *request, struct mcp_run *run, const char *name,
                      struct mcp_reply *ret_reply)
{
    enum bl_permission_mode widest = request->peer->server->options.runtime->mode;

    if (name == NULL)
        return true;
    run->mode_chosen = true;
    if (bl_permission_mode_parse(name, &run->mode, &run->error) != 0) {
        mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments/permission_mode", "%s",
                 run->error.message);
        return false;
    }
    if (!bl_permission_mode_wider(run->mode, widest))
        return true;
    mcp_fail(request, ret_reply, BL_RPC_INVALID_PARAMS, "/arguments/permission_mode",
             "'%s' is refused: this server was started with '%s', and a call may ask for a "
             "narrower mode alone",
             name, bl_permission_mode_name(widest));
    return false;
}

/* All of it is copied: the work may outlive its request. */
static bool mcp_run_read_arguments(struct mcp_request *request, struct mcp_run *run,
                                   const struct bl_json *arguments, struct mcp_reply *ret_reply)
{
    const struct bl_json *budget = bl_json_get(arguments, BL_TEXT("max_budget_usd"));

    run->prompt =
        bl_arena_text(&run->work.arena, bl_json_text(bl_json_get(arguments, BL_TEXT("prompt"))));
    run->session = text_argument(run, arguments, "session");
    run->request_id = text_argument(run, arguments, "request_id");
    run->model = text_argument(run, arguments, "model");
    run->max_turns = mcp_count_argument(arguments, "max_turns", 0);
    run->max_steps = mcp_count_argument(arguments, "max_steps", BL_UNLIMITED);
    if (!bl_json_double(budget, &run->max_budget_usd))
        run->max_budget_usd = -1;
    return read_mode(request, run, text_argument(run, arguments, "permission_mode"), ret_reply) &&
           read_timeout(request, run, bl_json_get(arguments, BL_TEXT("timeout")), ret_reply);
}

/* ---- The run --------------------------------------------------------------------------------- */

static int open_workspace(struct mcp_run *run)
{
    struct bl_runtime *runtime = run->work.server->options.runtime;
    struct bl_workspace_request request = {
        .directory = runtime->options->directory,
        .model = run->model,
        .mode_chosen = run->mode_chosen,
        .mode = run->mode,
        .max_budget_usd = run->max_budget_usd,
    };
    struct bl_scope *outer = bl_scope_enter(&run->work.scope);

    if (run->timed && run->timeout_ns > 0)
        bl_scope_set_deadline(&run->work.scope,
                              bl_time_add(run->from_ns, (uint64_t)run->timeout_ns));
    int code = bl_check();
    if (code == 0 || (run->timed && run->timeout_ns <= 0))
        code = bl_runtime_open(runtime, &request, &run->workspace, &run->error);
    bl_scope_enter(outer);
    return code;
}

static void narrow_limits(struct mcp_run *run)
{
    const struct bl_workspace_options *options = &run->workspace->options;

    if (options->timed && (!run->timed || options->timeout_ns < run->timeout_ns)) {
        run->timed = true;
        run->timeout_ns = options->timeout_ns;
    }
    if (run->max_turns == 0)
        run->max_turns = options->max_turns > 0 ? options->max_turns : 1;
}

static struct bl_run_options mcp_run_loop_options(const struct mcp_run *run)
{
    return (struct bl_run_options){
        .run_id = run->work.id,
        .prompt = run->prompt,
        .max_turns = run->max_turns,
        .timed = run->timed,
        .timeout_ns = run->timeout_ns,
        .from_ns = run->from_ns,
        .warnings = run->workspace != NULL ? run->workspace->warnings : NULL,
        .warning_count = run->workspace != NULL ? run->workspace->warning_count : 0,
    };
}

static int mcp_run_agent(struct mcp_run *run)
{
    struct bl_agent_options agent = bl_workspace_agent(run->workspace);
    struct bl_run_options loop = mcp_run_loop_options(run);

    agent.session.id = run->session;
    agent.session.run_id = run->work.id;
    agent.session.request_id = run->request_id;
    agent.session.prompt = run->prompt;
    agent.activities = run->work.server->options.activities;
    if (run->max_steps < agent.limits.max_steps)
        agent.limits.max_steps = run->max_steps;
    return bl_agent_run(&agent, &loop, &run->work.scope, &run->work.arena, &run->result,
                        &run->error);
}

/* Stopped before it had a session: the engine makes the result of it, as of any other that is
 * stopped at its entry. No store has it. */
static void mcp_run_stopped(struct mcp_run *run)
{
    static const struct bl_model nobody = {.provider = "none", .name = "none"};
    struct bl_engine engine = {.model = &nobody, .clock = bl_loop_clock(bl_loop_current())};
    struct bl_run_options loop = mcp_run_loop_options(run);
    struct bl_session session;
    struct bl_receipt receipt;

    bl_turn_limits_init(&engine.limits);
    loop.max_turns = 1;
    bl_session_init(&session, run->session != NULL ? run->session : "");
    bl_receipt_open(&receipt, &run->work.scope, run->work.id);
    bl_run(&engine, &session, &receipt, &loop, &run->work.arena, &run->result.run);
    bl_receipt_close(&receipt);
    bl_session_done(&session);
    mcp_remember(run->work.server, run->work.id, run->result.run.receipt);
}

/* ---- What came of it ------------------------------------------------------------------------- */

/* The answer of `belay run`, without the envelope around it. */
static struct bl_text payload_of(struct mcp_run *run)
{
    const struct bl_model *model = run->workspace != NULL ? &run->workspace->model : NULL;
    struct bl_run_answer answer;
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_run_answer_init(&answer, &run->work.arena, &run->result, model);
    answer.prompt = run->prompt;
    answer.max_turns = run->max_turns;
    answer.timed = run->timed;
    answer.timeout_ns = (uint64_t)run->timeout_ns;
    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_run_answer_record, &answer);
    return mcp_take(&run->work.arena, &out);
}

static void run_main(struct mcp_work *work)
{
    struct mcp_run *run = BL_CONTAINER(work, struct mcp_run, work);
    /* Outside of its scope, because after a stop there is a result to be made. */
    struct bl_scope *own = bl_scope_enter(&work->server->nursery.scope);
    int code = open_workspace(run);

    if (code == 0) {
        narrow_limits(run);
        bl_workspace_charge(run->workspace, &work->scope);
        code = mcp_run_agent(run);
    }
    if (code != 0 && run->workspace == NULL && bl_scope_check(&work->scope) != 0) {
        run->max_turns = run->max_turns > 0 ? run->max_turns : 1;
        mcp_run_stopped(run);
        code = 0;
    }
    if (code != 0) {
        bl_error_set(&run->error, code, BL_KIND_RUNTIME, "run", NULL, "the run cannot begin: %s",
                     bl_error_text(code));
        mcp_outcome_error(&work->arena, &run->error, &work->outcome);
    } else {
        const struct bl_run_result *result = &run->result.run;
        work->outcome = (struct mcp_outcome){
            .json = payload_of(run),
            .receipt = result->receipt,
            .cancelled = result->end == BL_TURN_CANCELLED,
            .is_error = result->end != BL_TURN_COMPLETED,
        };
    }
    bl_workspace_close(run->workspace);
    bl_scope_enter(own);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Answers at once; the work goes on. */
static void serve_task(struct mcp_request *request, struct mcp_run *run,
                       struct mcp_reply *ret_reply)
{
    struct mcp_work *work = &run->work;

    /* Without a client that could be seen to go, something must end it. */
    if (request->peer->server->options.http && !run->timed) {
        run->timed = true;
        run->timeout_ns = (int64_t)MCP_TASK_NS_MAX;
    }
    int code = mcp_task_begin(work, run->session, &run->error);
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
        /* Nobody will know of it. */
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
    if (!mcp_run_read_arguments(request, run, arguments, ret_reply)) {
        mcp_work_unref(work);
        return;
    }
    if (mcp_request_takes_tasks(request))
        serve_task(request, run, ret_reply);
    else
        mcp_work_serve(request, work, ret_reply);
}
