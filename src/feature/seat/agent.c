/* A seat that is an agent of Belay.
 *
 * Design notes.
 *
 * What a Player writes into its worktree must reach its Coach only as data. So a Coach gets
 * instructions and skills from the user's repository, a Player from its worktree. The agent runs on
 * its own stack, because part of the stack of the task's fiber is in use. */
#include <stdio.h>

#include "feature/parts.h"

#define OPERATION       "start an agent"
#define TOOL_INPUT_SHOW ((size_t)400)

/* On the heap: a fiber's stack is small. */
struct agent_run {
    struct seat_house *house;
    const struct seat_order *order;
    struct bl_arena *arena;
    struct seat_outcome *outcome;
    const struct bl_persona *persona;
    struct bl_config_found found;
    struct bl_workspace *workspace;
    struct seat_run_handle handle;
    struct bl_budget budget; /* the persona's, below the order's */
    struct bl_listener listener;
    struct bl_capture said;
    struct bl_scope scope;
    struct bl_unit unit;
    char run_id[BL_ID_SIZE];
    char doing[48];      /* argument of `active` */
    uint64_t tokens;     /* tokens so far */
    uint64_t settled;    /* tokens of ended calls */
    const char *session; /* session to continue; NULL: a new one */
    int code;            /* result of starting the run */
    struct bl_agent_result result;
};

/* ---- Persona and model ----------------------------------------------------------------------- */

static int find_persona(struct agent_run *run)
{
    const char *name = run->order->seat->persona;

    run->persona = bl_persona_named(&run->house->project->personas, bl_text_from(name));
    if (run->persona != NULL)
        return 0;
    bl_error_set(&run->outcome->error, BL_ENOENT, BL_KIND_USAGE, OPERATION, name,
                 "unknown persona '%.100s'", name);
    bl_error_hint(&run->outcome->error, "use explore, worker, review, or a file in .belay/agents");
    return BL_ENOENT;
}

static int find_model(struct agent_run *run)
{
    const struct bl_seat *seat = run->order->seat;
    struct bl_error *error = &run->outcome->error;
    struct bl_config_choice choice = {.provider = seat->provider, .model = seat->model};
    struct bl_config_found *found = &run->found;

    if (choice.provider == NULL && choice.model == NULL)
        choice.model = run->persona->model;
    int code = bl_config_find(run->house->project->config, &choice, found, error);
    if (code != 0)
        return code;
    if (found->chosen && !found->replay)
        return 0;
    const char *who = run->order->coach ? "coach" : "player";
    if (found->replay)
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, who,
                     "a cassette cannot be used as the %s", who);
    else
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, who,
                     "no model is configured for the %s", who);
    bl_error_hint(error, "set provider and model in the plan or in the configuration");
    return BL_EINVAL;
}

/* ---- Workspace ------------------------------------------------------------------------------- */

static int seat_open_workspace(struct agent_run *run)
{
    const struct seat_order *order = run->order;
    const struct bl_seat *seat = order->seat;
    const char *const readable[] = {run->house->git_folder, NULL};
    struct bl_workspace_options options;

    bl_workspace_options_init(&options, order->directory);
    options.told_from = order->coach ? run->house->repository : order->directory;
    options.readable = readable;
    options.mode_chosen = true;
    options.mode = seat->permission;
    options.sandbox_chosen = seat->sandbox_chosen;
    options.sandbox = seat->sandbox;
    options.without_mcp = true;
    options.limits.max_steps = seat->max_steps;
    options.limits.synthesize = run->persona->synthesize;
    options.timed = run->persona->timeout_ns > 0;
    options.timeout_ns = (int64_t)run->persona->timeout_ns;
    options.store = run->house->store;
    options.ledger = order->ledger;
    options.project = run->house->project;
    options.found = &run->found;
    int code = bl_workspace_open(&options, &run->workspace, &run->outcome->error);
    if (code != 0)
        return code;
    run->handle.toolbox = run->workspace->toolbox;
    if (run->house->hurried)
        bl_toolbox_hurry(run->handle.toolbox);
    return 0;
}

/* ---- Output and activity --------------------------------------------------------------------- */

static void tell_activity(const struct agent_run *run, const char *doing)
{
    if (run->order->active != NULL)
        run->order->active(run->order->context, doing, run->tokens);
}

static void seat_agent_tell_output(const struct agent_run *run, struct bl_text text)
{
    if (run->order->output != NULL && text.size > 0)
        run->order->output(run->order->context, text);
}

static void seat_agent_take_call(struct agent_run *run, const struct bl_event *event)
{
    struct bl_text input = bl_utf8_cut(event->call->input_text, TOOL_INPUT_SHOW);
    bool cut = input.size < event->call->input_text.size;
    char line[TOOL_INPUT_SHOW + 128];

    snprintf(run->doing, sizeof run->doing, "tool %.40s", event->call->name);
    if (!event->nested)
        run->settled = run->tokens;
    int size = snprintf(line, sizeof line, "\n> %.64s " BL_TEXT_FORMAT "%s\n", event->call->name,
                        BL_TEXT_ARG(input), cut ? "…" : "");
    seat_agent_tell_output(run, (struct bl_text){line, (size_t)size});
}

/* Follows the events of the agent itself. Its sub-agents only count as activity, with their
 * usage. */
static void seat_agent_follow(struct agent_run *run, const struct bl_event *event)
{
    switch ((int)event->type) {
    case BL_EVENT_TURN_STARTED: bl_text_into(run->doing, sizeof run->doing, "model"); break;
    case BL_EVENT_TEXT_DELTA:
        bl_text_into(run->doing, sizeof run->doing, "model");
        bl_capture_add(&run->said, event->text);
        seat_agent_tell_output(run, event->text);
        break;
    case BL_EVENT_THINKING_DELTA: bl_text_into(run->doing, sizeof run->doing, "model"); break;
    case BL_EVENT_USAGE: run->tokens = run->settled + bl_usage_total(event->usage); break;
    case BL_EVENT_TOOL_STARTED: seat_agent_take_call(run, event); break;
    case BL_EVENT_TOOL_OUTPUT: seat_agent_tell_output(run, event->text); break;
    case BL_EVENT_SUBAGENT_ENDED:
        if (event->usage != NULL)
            run->settled += bl_usage_total(event->usage);
        run->tokens = run->settled > run->tokens ? run->settled : run->tokens;
        break;
    default: break;
    }
}

static void seat_agent_on_event(void *context, const struct bl_event *event)
{
    struct agent_run *run = context;

    if (event->agent == NULL)
        seat_agent_follow(run, event);
    tell_activity(run, run->doing);
}

/* ---- The run --------------------------------------------------------------------------------- */

static int seat_agent_run_session(struct agent_run *run)
{
    const struct seat_order *order = run->order;
    struct bl_agent_options options = bl_workspace_agent(run->workspace);
    struct bl_run_options loop =
        bl_workspace_run(run->workspace, seat_valid_text(run->arena, order->prompt));

    loop.run_id = run->run_id;
    options.session.id = run->session;
    options.session.must_exist = run->session != NULL;
    options.session.run_id = run->run_id;
    options.session.prompt = order->prompt;
    options.persona = run->persona;
    options.budget = &run->budget;
    options.unit = &run->unit;
    options.listener = &run->listener;
    options.activities = run->house->activities;
    return bl_agent_run(&options, &loop, &run->scope, run->arena, &run->result,
                        &run->outcome->error);
}

static int agent_main(void *argument)
{
    struct agent_run *run = argument;
    struct bl_scope *outer = bl_scope_enter(&run->scope);

    run->code = seat_agent_run_session(run);
    /* The session is lost, but the prompt has everything the agent needs. */
    if (run->code == BL_ENOENT && run->session != NULL) {
        run->session = NULL;
        run->outcome->error = (struct bl_error){0};
        run->code = seat_agent_run_session(run);
    }
    bl_scope_enter(outer);
    return 0;
}

static int seat_run_agent(struct agent_run *run)
{
    struct bl_nursery nursery;
    const struct seat_order *order = run->order;

    bl_scope_init(&run->scope, bl_scope_current());
    bl_unit_begin(&run->unit, BL_UNIT_AGENT, order->task, order->coach ? "coach" : "player");
    bl_nursery_init(&nursery, bl_scope_current());
    if (bl_nursery_spawn(&nursery, NULL, order->task, agent_main, run, NULL) != 0)
        agent_main(run);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    bl_unit_end(&run->unit, run->code != 0                             ? BL_FATE_NEVER_STARTED
                            : run->result.run.end == BL_TURN_COMPLETED ? BL_FATE_FINISHED
                                                                       : BL_FATE_ABORTED);
    bl_scope_done(&run->scope);
    return run->code;
}

/* ---- Result ---------------------------------------------------------------------------------- */

static struct bl_text seat_agent_said_text(const struct agent_run *run)
{
    const struct bl_run_result *result = &run->result.run;
    struct bl_text text = {0};
    struct bl_buffer said;

    if (!bl_list_empty(&result->turns))
        text = BL_CONTAINER(result->turns.previous, struct bl_turn_result, link)->output;
    if (text.size == 0) {
        bl_buffer_init(&said, SIZE_MAX);
        bl_capture_text(&run->said, &said);
        text = bl_arena_text(run->arena, bl_buffer_text(&said));
        bl_buffer_done(&said);
    }
    return bl_utf8_cut(seat_valid_text(run->arena, text), SEAT_OUTPUT_MAX);
}

static void seat_agent_fail(struct agent_run *run, const char *message)
{
    const struct bl_error *error = run->result.run.error;

    run->outcome->end = SEAT_FAILED;
    run->outcome->exit_code = 1;
    if (error != NULL && error->code != 0)
        run->outcome->error = *error;
    else
        bl_error_set(&run->outcome->error, BL_EREFUSED, BL_KIND_FEATURE, "run an agent",
                     run->run_id, "%s", message);
}

/* The agent's own scope can be stopped without the task's: by its id, or by its persona's limit. */
static void seat_agent_settle_end(struct agent_run *run)
{
    struct seat_outcome *outcome = run->outcome;
    bool timed = run->result.run.end == BL_TURN_TIMEOUT;

    switch (run->result.run.end) {
    case BL_TURN_COMPLETED: outcome->end = SEAT_ENDED; return;
    case BL_TURN_MAX_STEPS:
        outcome->end = SEAT_ENDED;
        outcome->exit_code = 1;
        return;
    case BL_TURN_MAX_BUDGET:
        outcome->over_budget = true;
        seat_agent_fail(run, "its budget is used up");
        return;
    case BL_TURN_CANCELLED:
    case BL_TURN_TIMEOUT:
        outcome->exit_code = 1;
        outcome->end = SEAT_STOPPED;
        if (bl_check() != 0)
            return;
        seat_agent_fail(run,
                        timed ? "its persona's timeout was reached" : "it was cancelled by its id");
        return;
    case BL_TURN_MAX_TURNS: seat_agent_fail(run, "its session reached its turn limit"); return;
    case BL_TURN_ERROR: seat_agent_fail(run, "it failed"); return;
    }
}

static void seat_agent_settle(struct agent_run *run)
{
    struct seat_outcome *outcome = run->outcome;

    bl_text_into(outcome->session, sizeof outcome->session, run->result.session_id);
    outcome->usage_known = true;
    outcome->spent = run->result.run.spent;
    outcome->text = seat_agent_said_text(run);
    seat_agent_settle_end(run);
    if (outcome->end != SEAT_STOPPED)
        outcome->result = bl_arena_text(run->arena, result_find(outcome->text));
}

static int seat_agent_prepare(struct agent_run *run)
{
    int code = find_persona(run);

    if (code == 0)
        code = find_model(run);
    if (code == 0)
        code = seat_open_workspace(run);
    return code;
}

static void settle_unstarted(struct agent_run *run, int code)
{
    struct seat_outcome *outcome = run->outcome;

    if (bl_check() != 0) {
        outcome->end = SEAT_STOPPED;
        outcome->exit_code = 1;
        outcome->error = (struct bl_error){0};
        return;
    }
    outcome->end = SEAT_UNSTARTED;
    bl_error_set(&outcome->error, code, BL_KIND_FEATURE, OPERATION,
                 run->order->coach ? "coach" : "player", "cannot start the agent: %s",
                 bl_error_text(code));
}

void seat_agent_run(struct seat_house *house, const struct seat_order *order,
                    struct bl_arena *arena, struct seat_outcome *outcome)
{
    struct agent_run *run = bl_zalloc(sizeof *run);

    run->house = house;
    run->order = order;
    run->arena = arena;
    run->outcome = outcome;
    run->session = order->session;
    run->listener = (struct bl_listener){seat_agent_on_event, run};
    bl_list_init(&run->result.run.turns);
    bl_text_into(run->doing, sizeof run->doing, "model");
    bl_id_make(run->run_id, "run_");
    bl_capture_init(&run->said, SEAT_OUTPUT_MAX - 64);
    bl_list_push_back(&house->running, &run->handle.link);
    int code = seat_agent_prepare(run);
    if (run->persona != NULL)
        run->budget =
            (struct bl_budget){.limit = run->persona->max_budget_tokens, .above = order->budget};
    if (code == 0)
        code = seat_run_agent(run);
    bl_list_remove(&run->handle.link);
    if (code == 0)
        seat_agent_settle(run);
    else
        settle_unstarted(run, code);
    bl_workspace_close(run->workspace);
    bl_capture_done(&run->said);
    bl_free(run);
}
