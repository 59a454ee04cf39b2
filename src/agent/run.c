/* A run: the session is held, the loop runs on it, and it is given back, on every way out. */
#include <stdio.h>

#include <belay/agent.h>

#define MATCHES_MAX 32u
/* Longer than any run: ten years. */
#define HELD_NS_MAX (10ull * 365 * 86400 * BL_NS_PER_S)

struct agent_run {
    const struct bl_agent_options *options;
    struct bl_arena *arena;
    struct bl_engine engine;
    struct bl_listener listener; /* ours, before the caller's */
    struct bl_session session;
    struct bl_store_session *held;
    struct bl_receipt receipt;
    struct bl_nursery nursery; /* of the fiber that renews the lease */
    struct bl_activity activity;
    struct bl_activity call; /* of the tool call under way */
    bool call_listed;
    struct bl_text call_receipt;
    uint64_t tokens; /* of the model's calls before this one */
};

/* ---- What others see of it --------------------------------------------------------------------
 */

static void set_phase(struct bl_activity *activity, const char *phase, struct bl_text name)
{
    snprintf(activity->phase, sizeof activity->phase, "%s%s%.*s", phase, name.size > 0 ? " " : "",
             (int)(name.size < 20 ? name.size : 20), name.data != NULL ? name.data : "");
}

static void begin_call(struct agent_run *run, const struct bl_event *event)
{
    set_phase(&run->activity, "tool", event->name);
    run->tokens = run->activity.tokens;
    run->call = (struct bl_activity){.kind = "call", .scope = event->call->scope};
    bl_text_into(run->call.id, sizeof run->call.id, event->call->id);
    bl_text_into(run->call.session, sizeof run->call.session, run->session.id);
    set_phase(&run->call, "tool", event->name);
    bl_activity_begin(run->options->activities, &run->call);
    run->call_listed = true;
    run->call_receipt = (struct bl_text){0};
}

static void end_call(struct agent_run *run)
{
    set_phase(&run->activity, "model", (struct bl_text){0});
    if (!run->call_listed)
        return;
    run->call_listed = false;
    bl_activity_end(&run->call, run->call_receipt);
}

static void follow(struct agent_run *run, const struct bl_event *event)
{
    run->activity.active_ns = run->call.active_ns = bl_now_ns();
    switch ((int)event->type) {
    case BL_EVENT_TURN_STARTED:
        set_phase(&run->activity, "model", (struct bl_text){0});
        run->tokens = run->activity.tokens;
        break;
    case BL_EVENT_USAGE: run->activity.tokens = run->tokens + bl_usage_total(event->usage); break;
    case BL_EVENT_TOOL_STARTED: begin_call(run, event); break;
    case BL_EVENT_RECEIPT: run->call_receipt = event->json; break;
    case BL_EVENT_TOOL_ENDED: end_call(run); break;
    default: break;
    }
}

static void on_event(void *context, const struct bl_event *event)
{
    struct agent_run *run = context;
    const struct bl_listener *next = run->options->listener;

    if (run->options->activities != NULL)
        follow(run, event);
    if (next != NULL)
        next->event(next->context, event);
}

/* ---- The parts --------------------------------------------------------------------------------
 */

/* While the session is held, so that other machines see that somebody is there. What is wrong with
 * the lease the next commit says. */
static int renew_main(void *argument)
{
    struct agent_run *run = argument;
    struct bl_error error;
    int code;

    while ((code = bl_sleep(BL_STORE_RENEW_NS)) == 0) {
        error = (struct bl_error){0};
        bl_store_renew(run->held, &error);
    }
    return code;
}

static const char *const *names_of(struct bl_arena *arena, const struct bl_list *matches,
                                   const char *kind)
{
    const char **names = bl_arena_alloc(arena, (MATCHES_MAX + 1) * sizeof *names);
    size_t count = 0;

    BL_LIST_EACH (link, matches) {
        const struct bl_route_match *match = BL_CONTAINER(link, struct bl_route_match, link);
        if (strcmp(match->kind, kind) == 0 && count < MATCHES_MAX)
            names[count++] = match->name;
    }
    names[count] = NULL;
    return names;
}

static void prepare_engine(struct agent_run *run)
{
    const struct bl_agent_options *options = run->options;
    const struct bl_tools *tools =
        options->toolbox != NULL ? bl_toolbox_tools(options->toolbox) : NULL;
    struct bl_list matches;

    run->listener = (struct bl_listener){on_event, run};
    bl_route(run->arena, options->run.prompt, tools, &matches);
    run->engine = (struct bl_engine){
        .model = options->model,
        .tools = tools,
        .store = bl_store_session_table(run->held),
        .listener = &run->listener,
        .clock = bl_loop_clock(bl_loop_current()),
        .system = options->system,
        .schema_text = options->schema_text,
        .schema = options->schema,
        .limits = options->limits,
        .matched_commands = names_of(run->arena, &matches, "command"),
        .matched_tools = names_of(run->arena, &matches, "tool"),
    };
}

static void take_recorded(struct agent_run *run, struct bl_run_options *options)
{
    size_t count = 0;

    while (bl_store_session_recorded(run->held, count).size > 0)
        count++;
    struct bl_text *recorded = bl_arena_alloc(run->arena, (count + 1) * sizeof *recorded);
    for (size_t i = 0; i < count; i++)
        recorded[i] = bl_arena_text(run->arena, bl_store_session_recorded(run->held, i));
    options->recorded = recorded;
    options->recorded_count = count;
}

/* What the open found, besides what the caller has to say. */
static void add_warnings(struct agent_run *run, struct bl_run_options *options)
{
    const struct bl_store_recovery *recovery = bl_store_session_recovery(run->held);
    size_t count = options->warning_count;

    if (!recovery->owner_died)
        return;
    struct bl_text *warnings = bl_arena_alloc(run->arena, (count + 1) * sizeof *warnings);
    if (count > 0)
        memcpy(warnings, options->warnings, count * sizeof *warnings);
    warnings[count] = bl_store_recovery_text(run->arena, run->session.id, recovery);
    options->warnings = warnings;
    options->warning_count = count + 1;
}

static void list_run(struct agent_run *run)
{
    struct bl_activity *activity = &run->activity;

    if (run->options->activities == NULL)
        return;
    *activity =
        (struct bl_activity){.kind = "run", .scope = run->options->scope, .phase = "starting"};
    bl_text_into(activity->id, sizeof activity->id, run->options->run.run_id);
    bl_text_into(activity->session, sizeof activity->session, run->session.id);
    bl_activity_begin(run->options->activities, activity);
}

/* With the session held. */
static void run_held(struct agent_run *run, uint64_t from_ns, struct bl_agent_result *result)
{
    const struct bl_agent_options *options = run->options;
    struct bl_run_options loop = options->run;
    struct bl_scope shield, *outer = bl_scope_current();

    loop.from_ns = from_ns;
    take_recorded(run, &loop);
    add_warnings(run, &loop);
    prepare_engine(run);
    bl_receipt_open(&run->receipt, options->scope, options->run.run_id);
    list_run(run);
    /* The lease is renewed as long as the session is held, whatever stops the run. */
    bl_shield_begin(&shield, HELD_NS_MAX);
    bl_nursery_init(&run->nursery, &shield);
    bl_nursery_spawn(&run->nursery, NULL, "lease", renew_main, run, NULL);
    bl_scope_enter(outer);
    bl_run(&run->engine, &run->session, &run->receipt, &loop, run->arena, &result->run);
    bl_scope_enter(&shield);
    bl_nursery_done(&run->nursery);
    bl_shield_end(&shield);
    if (options->activities != NULL)
        bl_activity_end(&run->activity, result->run.receipt);
    bl_receipt_close(&run->receipt);
}

int bl_agent_run(const struct bl_agent_options *options, struct bl_arena *arena,
                 struct bl_agent_result *ret_result, struct bl_error *error)
{
    struct agent_run run = {.options = options, .arena = arena};
    uint64_t from_ns = options->run.from_ns != 0 ? options->run.from_ns : bl_now_ns();
    struct bl_scope shield;

    bl_session_init(&run.session, "");
    /* Once begun it is finished: a stop that comes meanwhile is seen by the first turn, at entry.
     */
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_hold(options->store, &options->session, &run.session, &run.held, error);
    bl_shield_end(&shield);
    if (code == 0) {
        *ret_result = (struct bl_agent_result){0};
        bl_text_into(ret_result->session_id, sizeof ret_result->session_id, run.session.id);
        ret_result->recovery = *bl_store_session_recovery(run.held);
        run_held(&run, from_ns, ret_result);
        bl_shield_begin(&shield, BL_STORE_NS_MAX);
        bl_store_release(run.held);
        bl_shield_end(&shield);
    }
    bl_session_done(&run.session);
    return code;
}
