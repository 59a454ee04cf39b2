/* The tool `run`: an agent in a workspace of its own. */
#include "core.h"

struct run_input {
    struct bl_text prompt;
    const char *session; /* NULL: a new one */
    const char *model;
    bool timed;
    uint64_t timeout_ns;
    uint64_t max_turns;    /* 0: the workspace's */
    uint64_t max_steps;    /* BL_UNLIMITED: no limit */
    double max_budget_usd; /* negative: no limit */
    bool mode_chosen;
    enum bl_permission_mode mode;
    const char *request_id;
};

struct mcp_run {
    struct mcp_work work;
    struct run_input input; /* restricted to what the workspace allows */
    int64_t timeout_ns;     /* likewise; zero or less: already expired */
    uint64_t from_ns;
    struct bl_workspace *workspace; /* while it is open */
    struct bl_agent_result result;
    struct bl_error error;
};

/* ---- Arguments ------------------------------------------------------------------------------- */

static const struct bl_form request_id_form = {"1 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'",
                                               "^[A-Za-z0-9._:-]{1,128}$", NULL};

#define BL_RECORD_STRUCT struct run_input
static const struct bl_member run_members[] = {
    BL_MEMBER_TEXT("prompt", prompt, .least = 1, .about = "The task for the agent."),
    BL_MEMBER_STRING("session", session, .optional = true, .form = &bl_session_id_form,
                     .about = "Session to continue or to create; default: a new one."),
    BL_MEMBER_STRING("model", model, .optional = true, .least = 1),
    BL_MEMBER_DURATION("timeout", timeout_ns, .optional = true, BL_KNOWN(timed), .or_string = true,
                       .least = INT64_MIN,
                       .about = "Seconds, or a duration such as 90s, 2.5m, 1h."),
    BL_MEMBER_INTEGER("max_turns", max_turns, .optional = true, .least = 1),
    BL_MEMBER_INTEGER("max_steps", max_steps, .optional = true, .none = (int64_t)BL_UNLIMITED,
                      .about = "Limit of tool calls in one turn."),
    BL_MEMBER_NUMBER("max_budget_usd", max_budget_usd, .optional = true, .none = -1),
    BL_MEMBER_ENUM("permission_mode", mode, &bl_permission_mode_names, .optional = true,
                   BL_KNOWN(mode_chosen),
                   .about = "What the agent may do without asking; never more than the server's "
                            "own mode allows."),
    BL_MEMBER_STRING("request_id", request_id, .optional = true, .form = &request_id_form,
                     .about = "A repeated request is not run again: it gets the recorded "
                              "answer."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record mcp_run_input =
    BL_RECORD("input of run", struct run_input, run_members, .closed = true);

static bool check_mode(struct mcp_request *request, const struct run_input *input,
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

static int open_workspace(struct mcp_run *run)
{
    struct bl_runtime *runtime = run->work.server->options.runtime;
    struct bl_workspace_request request = {
        .directory = runtime->options->directory,
        .model = run->input.model,
        .mode_chosen = run->input.mode_chosen,
        .mode = run->input.mode,
        .max_budget_usd = run->input.max_budget_usd,
    };
    struct bl_scope *outer = bl_scope_enter(&run->work.scope);

    if (run->input.timed && run->timeout_ns > 0)
        bl_scope_set_deadline(&run->work.scope,
                              bl_time_add(run->from_ns, (uint64_t)run->timeout_ns));
    int code = bl_check();
    if (code == 0 || (run->input.timed && run->timeout_ns <= 0))
        code = bl_runtime_open(runtime, &request, &run->workspace, &run->error);
    bl_scope_enter(outer);
    return code;
}

static void narrow_limits(struct mcp_run *run)
{
    const struct bl_workspace_options *options = &run->workspace->options;

    if (options->timed && (!run->input.timed || options->timeout_ns < run->timeout_ns)) {
        run->input.timed = true;
        run->timeout_ns = options->timeout_ns;
    }
    if (run->input.max_turns == 0)
        run->input.max_turns = options->max_turns > 0 ? options->max_turns : 1;
}

static struct bl_run_options mcp_run_loop_options(const struct mcp_run *run)
{
    return (struct bl_run_options){
        .run_id = run->work.id,
        .prompt = run->input.prompt,
        .max_turns = run->input.max_turns,
        .timed = run->input.timed,
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

    agent.session.id = run->input.session;
    agent.session.run_id = run->work.id;
    agent.session.request_id = run->input.request_id;
    agent.session.prompt = run->input.prompt;
    agent.activities = run->work.server->options.activities;
    if (run->input.max_steps < agent.limits.max_steps)
        agent.limits.max_steps = run->input.max_steps;
    return bl_agent_run(&agent, &loop, &run->work.scope, &run->work.arena, &run->result,
                        &run->error);
}

/* For a run that was stopped before it had a session: the engine makes the result, as for any run
 * stopped at its start. It is not in the store. */
static void mcp_run_stopped(struct mcp_run *run)
{
    static const struct bl_model no_model = {.provider = "none", .name = "none"};
    struct bl_engine engine = {.model = &no_model, .clock = bl_loop_clock(bl_loop_current())};
    struct bl_run_options loop = mcp_run_loop_options(run);
    struct bl_session session;
    struct bl_receipt receipt;

    bl_turn_limits_init(&engine.limits);
    loop.max_turns = 1;
    bl_session_init(&session, run->input.session != NULL ? run->input.session : "");
    bl_receipt_open(&receipt, &run->work.scope, run->work.id);
    bl_list_init(&run->result.undelivered);
    bl_run(&engine, &session, &receipt, &loop, &run->work.arena, &run->result.run);
    bl_receipt_close(&receipt);
    bl_session_done(&session);
    mcp_remember(run->work.server, run->work.id, run->result.run.receipt);
}

/* ---- The outcome ----------------------------------------------------------------------------- */

/* Returns the answer of `belay run`, without the envelope. */
static struct bl_text payload_of(struct mcp_run *run)
{
    const struct bl_model *model = run->workspace != NULL ? &run->workspace->model : NULL;
    struct bl_run_answer answer;
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_run_answer_init(&answer, &run->work.arena, &run->result, model);
    answer.prompt = run->input.prompt;
    answer.max_turns = run->input.max_turns;
    answer.timed = run->input.timed;
    answer.timeout_ns = (uint64_t)run->timeout_ns;
    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, &bl_run_answer_record, &answer);
    return mcp_take(&run->work.arena, &out);
}

static void run_main(struct mcp_work *work)
{
    struct mcp_run *run = BL_CONTAINER(work, struct mcp_run, work);
    /* Outside the work's scope: after a stop, the result is still to be made. */
    struct bl_scope *own = bl_scope_enter(&work->server->nursery.scope);
    int code = open_workspace(run);

    if (code == 0) {
        narrow_limits(run);
        bl_workspace_charge(run->workspace, &work->scope);
        code = mcp_run_agent(run);
    }
    if (code != 0 && run->workspace == NULL && bl_scope_check(&work->scope) != 0) {
        run->input.max_turns = run->input.max_turns > 0 ? run->input.max_turns : 1;
        mcp_run_stopped(run);
        code = 0;
    }
    if (code != 0) {
        bl_error_set(&run->error, code, BL_KIND_RUNTIME, "run", NULL, "cannot start the run: %s",
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

/* Answers at once, while the work continues. */
static void serve_task(struct mcp_request *request, struct mcp_run *run,
                       struct mcp_reply *ret_reply)
{
    struct mcp_work *work = &run->work;

    /* Over HTTP there is no client whose disconnection could end the task, so it needs a
     * deadline. */
    if (request->peer->server->options.http && !run->input.timed) {
        run->input.timed = true;
        run->timeout_ns = (int64_t)MCP_TASK_NS_MAX;
    }
    int code = mcp_task_begin(work, run->input.session, &run->error);
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
    if (!mcp_arguments_read(request, &work->arena, &mcp_run_input, arguments, &run->input,
                            ret_reply) ||
        !check_mode(request, &run->input, ret_reply)) {
        mcp_work_unref(work);
        return;
    }
    run->timeout_ns = (int64_t)run->input.timeout_ns;
    if (mcp_request_takes_tasks(request))
        serve_task(request, run, ret_reply);
    else
        mcp_work_serve(request, work, ret_reply);
}
