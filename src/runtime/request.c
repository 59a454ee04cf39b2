/* Runs on request: for clients of a server, and for items of a queue. */
#include "parts.h"

static const struct bl_form request_id_form = {"1 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'",
                                               "^[A-Za-z0-9._:-]{1,128}$", NULL};

#define BL_RECORD_STRUCT struct bl_run_request
static const struct bl_member request_members[] = {
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
const struct bl_record bl_run_request_record =
    BL_RECORD("input of run", struct bl_run_request, request_members, .closed = true);

/* ---- The run --------------------------------------------------------------------------------- */

/* A run while it is under way. */
struct request_run {
    struct bl_runtime *runtime;
    const struct bl_run_order *order;
    struct bl_run_request request; /* restricted to what the workspace allows */
    struct bl_scope *scope;
    struct bl_arena *arena;
    struct bl_workspace *workspace; /* while it is open */
    struct bl_agent_result *result; /* in the arena: the answer points into it */
    struct bl_error *error;
};

/* Zero or less: it has already expired. */
static int64_t request_timeout_ns(const struct request_run *run)
{
    return (int64_t)run->request.timeout_ns;
}

static int request_open(struct request_run *run)
{
    const struct bl_run_request *asked = &run->request;
    struct bl_workspace_request request = {
        .directory = run->order->directory,
        .model = asked->model,
        .mode_chosen = asked->mode_chosen,
        .mode = asked->mode,
        .max_budget_usd = asked->max_budget_usd,
        .variables = run->order->variables,
    };
    bool expired = asked->timed && request_timeout_ns(run) <= 0;
    struct bl_scope *outer = bl_scope_enter(run->scope);

    if (asked->timed && !expired)
        bl_scope_set_deadline(run->scope, bl_time_add(run->order->from_ns, asked->timeout_ns));
    int code = bl_check();
    if (code == 0 || expired)
        code = bl_runtime_open(run->runtime, &request, &run->workspace, run->error);
    bl_scope_enter(outer);
    return code;
}

static void request_narrow_limits(struct request_run *run)
{
    const struct bl_workspace_options *options = &run->workspace->options;

    if (options->timed && (!run->request.timed || options->timeout_ns < request_timeout_ns(run))) {
        run->request.timed = true;
        run->request.timeout_ns = (uint64_t)options->timeout_ns;
    }
    if (run->request.max_turns == 0)
        run->request.max_turns = options->max_turns > 0 ? options->max_turns : 1;
}

static struct bl_run_options request_loop_options(const struct request_run *run)
{
    const struct bl_workspace *workspace = run->workspace;

    return (struct bl_run_options){
        .run_id = run->order->run_id,
        .prompt = run->request.prompt,
        .max_turns = run->request.max_turns,
        .timed = run->request.timed,
        .timeout_ns = request_timeout_ns(run),
        .from_ns = run->order->from_ns,
        .warnings = workspace != NULL ? workspace->warnings : NULL,
        .warning_count = workspace != NULL ? workspace->warning_count : 0,
    };
}

static int request_run_agent(struct request_run *run)
{
    struct bl_agent_options agent = bl_workspace_agent(run->workspace);
    struct bl_run_options loop = request_loop_options(run);

    agent.session.id = run->request.session;
    agent.session.run_id = run->order->run_id;
    agent.session.request_id = run->request.request_id;
    agent.session.prompt = run->request.prompt;
    agent.activities = run->order->activities;
    if (run->request.max_steps < agent.limits.max_steps)
        agent.limits.max_steps = run->request.max_steps;
    return bl_agent_run(&agent, &loop, run->scope, run->arena, run->result, run->error);
}

/* For a run that was stopped before it had a session: the engine makes the result, as for any run
 * stopped at its start. It is not in the store. */
static void request_run_stopped(struct request_run *run)
{
    static const struct bl_model no_model = {.provider = "none", .name = "none"};
    struct bl_engine engine = {.model = &no_model, .clock = bl_loop_clock(bl_loop_current())};
    struct bl_run_options loop = request_loop_options(run);
    struct bl_session session;
    struct bl_receipt receipt;

    bl_turn_limits_init(&engine.limits);
    loop.max_turns = 1;
    bl_session_init(&session, run->request.session != NULL ? run->request.session : "");
    bl_receipt_open(&receipt, run->scope, run->order->run_id);
    bl_list_init(&run->result->undelivered);
    bl_run(&engine, &session, &receipt, &loop, run->arena, &run->result->run);
    bl_receipt_close(&receipt);
    bl_session_done(&session);
}

static void request_fill_answer(const struct request_run *run, struct bl_run_answer *ret_answer)
{
    const struct bl_workspace *workspace = run->workspace;

    bl_run_answer_init(ret_answer, run->arena, run->result,
                       workspace != NULL ? &workspace->model : NULL);
    /* The answer outlives the workspace. */
    ret_answer->provider = bl_arena_text(run->arena, bl_text_from(ret_answer->provider)).data;
    ret_answer->model = bl_arena_text(run->arena, bl_text_from(ret_answer->model)).data;
    ret_answer->prompt = run->request.prompt;
    ret_answer->max_turns = run->request.max_turns;
    ret_answer->timed = run->request.timed;
    ret_answer->timeout_ns = run->request.timeout_ns;
}

int bl_runtime_run(struct bl_runtime *runtime, const struct bl_run_order *order,
                   struct bl_scope *scope, struct bl_arena *arena, struct bl_run_answer *ret_answer,
                   struct bl_error *error)
{
    struct request_run run = {
        .runtime = runtime,
        .order = order,
        .request = order->request,
        .scope = scope,
        .arena = arena,
        .result = bl_arena_zalloc(arena, sizeof *run.result),
        .error = error,
    };
    int code = request_open(&run);

    if (code == 0) {
        request_narrow_limits(&run);
        bl_workspace_charge(run.workspace, scope);
        code = request_run_agent(&run);
    }
    if (code != 0 && run.workspace == NULL && bl_scope_check(scope) != 0) {
        run.request.max_turns = run.request.max_turns > 0 ? run.request.max_turns : 1;
        request_run_stopped(&run);
        code = 0;
    }
    if (code == 0)
        request_fill_answer(&run, ret_answer);
    else
        bl_error_set(error, code, BL_KIND_RUNTIME, "run", NULL, "cannot start the run: %s",
                     bl_error_text(code));
    bl_workspace_close(run.workspace);
    return code;
}
