/* Design notes.
 *
 * An agent holds its session from its opening to its closing; in between it runs prompts, each in a
 * scope of the caller. Work that outlives a prompt (the lease, background jobs) runs in a shield
 * that no stop of a prompt reaches. A sub-agent is an agent like any other, opened and closed by a
 * call of `task`: its scope is below that call's, its budget below that turn's, and its events go
 * to the same listener. */
#include <assert.h>
#include <stdio.h>

#include "parts.h"

#define MATCHES_MAX 32u

/* ---- The listed activity --------------------------------------------------------------------- */

static void agent_set_phase(struct bl_activity *activity, const char *phase, struct bl_text name)
{
    snprintf(activity->phase, sizeof activity->phase, "%s%s%.*s", phase, name.size > 0 ? " " : "",
             (int)(name.size < 20 ? name.size : 20), name.data != NULL ? name.data : "");
}

static struct agent_call *agent_find_call(const struct bl_agent *agent, struct bl_text id)
{
    BL_LIST_EACH (link, &agent->calls) {
        struct agent_call *call = BL_CONTAINER(link, struct agent_call, link);
        if (bl_text_equal(bl_text_from(call->activity.id), id))
            return call;
    }
    return NULL;
}

static void agent_hurry(struct bl_activity *activity)
{
    bl_toolbox_hurry(((const struct bl_agent *)activity->owner)->options.toolbox);
}

/* The tools are shared: hurrying one agent's stop must not cost the others their grace period. */
static void calm(const struct bl_activity *activity)
{
    if (activity->hurried)
        bl_toolbox_calm(((const struct bl_agent *)activity->owner)->options.toolbox);
}

static int inject(struct bl_activity *activity, struct bl_text text, char ret_id[BL_ID_SIZE])
{
    return bl_agent_inject(activity->owner, text, ret_id);
}

static int agent_finish(struct bl_activity *activity, const char *origin)
{
    return bl_agent_finish(activity->owner, origin);
}

static void agent_begin_call(struct bl_agent *agent, const struct bl_event *event)
{
    struct agent_call *call = bl_zalloc(sizeof *call);

    agent_set_phase(&agent->activity, "tool", event->name);
    if (!event->nested) /* the model is not running */
        agent_usage_base(agent);
    call->activity = (struct bl_activity){.kind = "call",
                                          .scope = event->call->scope,
                                          .owner = agent,
                                          .directory = agent->activity.directory,
                                          .hurry = agent->activity.hurry};
    bl_text_into(call->activity.run, sizeof call->activity.run, agent->root->id);
    bl_text_into(call->activity.id, sizeof call->activity.id, event->call->id);
    bl_text_into(call->activity.session, sizeof call->activity.session, agent->session.id);
    agent_set_phase(&call->activity, "tool", event->name);
    bl_buffer_init(&call->receipt, SIZE_MAX);
    bl_list_push_back(&agent->calls, &call->link);
    bl_activity_begin(agent->options.activities, &call->activity);
}

static void agent_end_call(struct bl_agent *agent, const struct bl_event *event)
{
    struct agent_call *call = agent_find_call(agent, event->id);

    if (call == NULL)
        return;
    bl_list_remove(&call->link);
    calm(&call->activity);
    bl_activity_end(&call->activity, bl_buffer_text(&call->receipt));
    bl_buffer_done(&call->receipt);
    bl_free(call);
    if (bl_list_empty(&agent->calls))
        agent_set_phase(&agent->activity, "model", (struct bl_text){0});
}

static void agent_follow(struct bl_agent *agent, const struct bl_event *event)
{
    struct agent_call *call = event->id.size > 0 ? agent_find_call(agent, event->id) : NULL;

    agent->activity.active_ns = agent->root->open.active_ns = bl_now_ns();
    if (call != NULL)
        call->activity.active_ns = agent->activity.active_ns;
    switch ((int)event->type) {
    case BL_EVENT_TURN_STARTED:
        agent_set_phase(&agent->activity, "model", (struct bl_text){0});
        agent_usage_base(agent);
        break;
    case BL_EVENT_USAGE: agent_usage_follow(agent, event); break;
    case BL_EVENT_PERMISSION_ASKED:
        agent_set_phase(&agent->activity, "asks about", event->name);
        break;
    case BL_EVENT_TOOL_STARTED: agent_begin_call(agent, event); break;
    case BL_EVENT_RECEIPT:
        if (call != NULL)
            bl_buffer_append(&call->receipt, event->json);
        break;
    case BL_EVENT_TOOL_ENDED: agent_end_call(agent, event); break;
    default: break;
    }
    bl_activities_tell(agent->options.activities, event);
}

static void agent_on_event(void *context, const struct bl_event *event)
{
    struct bl_agent *agent = context;
    const struct bl_listener *next = agent->options.listener;

    if (agent->options.activities != NULL)
        agent_follow(agent, event);
    if (next != NULL)
        next->event(next->context, event);
    agent_cells_follow(agent, event);
    agent_hooks_follow(agent, event);
}

static void list_prompt(struct bl_agent *agent, struct bl_scope *scope)
{
    struct bl_activity *activity = &agent->activity;

    if (agent->options.activities == NULL)
        return;
    *activity = (struct bl_activity){
        .kind = agent->above == NULL ? "run" : "agent",
        .scope = scope,
        .phase = "starting",
        .owner = agent,
        .directory = agent->root->options.session.directory,
        .prompt = agent->prompt_line,
        .hurry = agent->options.toolbox != NULL ? agent_hurry : NULL,
        .inject = inject,
        .finish = agent_finish,
    };
    if (agent->above != NULL)
        bl_text_into(activity->run, sizeof activity->run, agent->root->id);
    bl_text_into(activity->id, sizeof activity->id, agent->id);
    bl_text_into(activity->session, sizeof activity->session, agent->session.id);
    bl_activity_begin(agent->options.activities, activity);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Renews the lease while the session is held, so that other machines see that it has an owner. The
 * next commit reports problems with the lease. */
static int agent_renew_main(void *argument)
{
    struct bl_agent *agent = argument;
    struct bl_error *error = bl_alloc(sizeof *error);
    int code;

    while ((code = bl_sleep(BL_STORE_RENEW_NS)) == 0) {
        *error = (struct bl_error){0};
        bl_store_renew(agent->held, error);
    }
    bl_free(error);
    return code;
}

struct bl_text agent_system(struct bl_arena *arena, struct bl_text system,
                            const struct bl_persona *persona)
{
    return bl_arena_printf(arena, BL_TEXT_FORMAT "%s# Your role\n\n" BL_TEXT_FORMAT,
                           BL_TEXT_ARG(system), system.size > 0 ? "\n\n" : "",
                           BL_TEXT_ARG(persona->instructions));
}

static void prepare_engine(struct bl_agent *agent)
{
    const struct bl_agent_options *options = &agent->options;

    agent->listener = (struct bl_listener){agent_on_event, agent};
    agent->engine = (struct bl_engine){
        .model = &agent->model,
        .tools =
            agent->tools.offer_count > 0 || agent->tools.refresh != NULL ? &agent->tools : NULL,
        .store = bl_store_session_table(agent->held),
        .listener = &agent->listener,
        .clock = bl_loop_clock(bl_loop_current()),
        .system = agent_plan_system(agent),
        .schema_text = options->schema_text,
        .schema = options->schema,
        .limits = options->limits,
        .inbox = &agent->inbox,
        .finish = &agent->finish,
        .budget_above = agent->budget_above,
        .standing = &agent->journal,
    };
}

static int agent_hold_session(struct bl_agent *agent, struct bl_error *error)
{
    struct bl_scope shield;

    bl_session_init(&agent->session, "");
    /* Once begun, the hold completes: the first turn detects a stop at its entry. */
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    int code = bl_store_hold(agent->options.store, &agent->options.session, &agent->session,
                             &agent->held, error);
    bl_shield_end(&shield);
    if (code != 0)
        bl_session_done(&agent->session);
    return code;
}

static void release_session(struct bl_agent *agent)
{
    struct bl_scope shield;

    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    bl_store_release(agent->held);
    bl_shield_end(&shield);
    bl_session_done(&agent->session);
}

int agent_open(struct bl_agent *agent, struct bl_error *error)
{
    bool own_part = agent->above == NULL && agent->persona != NULL;

    bl_arena_init(&agent->arena);
    agent->system = agent->options.system;
    if (own_part)
        agent->system = agent_system(&agent->arena, agent->options.system, agent->persona);
    bl_list_init(&agent->calls);
    bl_list_init(&agent->open.link);
    bl_list_init(&agent->retired);
    bl_inbox_init(&agent->inbox);
    bl_lock_init(&agent->asking);
    bl_buffer_init(&agent->stop_event, SIZE_MAX);
    agent_cells_init(agent);
    int code = agent_tools_open(agent, error);
    if (code == 0)
        code = agent_hold_session(agent, error);
    if (code != 0) {
        agent_model_close(agent);
        agent_tools_close(agent);
        bl_arena_done(&agent->arena);
        return code;
    }
    prepare_engine(agent);
    bl_journal_init(&agent->journal, &agent->engine, agent->root->id, agent->session.id);
    struct bl_scope *outer = bl_scope_current();
    bl_shield_begin(&agent->shield, BL_NEVER);
    bl_nursery_init(&agent->nursery, &agent->shield);
    bl_nursery_spawn(&agent->nursery, NULL, "lease", agent_renew_main, agent, NULL);
    agent_begin_background(agent);
    agent_list_session(agent);
    bl_scope_enter(outer);
    return 0;
}

void agent_close(struct bl_agent *agent)
{
    struct bl_scope *outer = bl_scope_enter(&agent->shield);

    if (agent->above == NULL && agent->options.toolbox != NULL)
        bl_toolbox_end(agent->options.toolbox);
    agent_cells_close(agent);
    bl_nursery_done(&agent->nursery);
    bl_shield_end(&agent->shield);
    bl_scope_enter(outer);
    bl_list_remove(&agent->open.link);
    release_session(agent);
    agent_model_close(agent);
    bl_journal_done(&agent->journal);
    bl_inbox_done(&agent->inbox);
    bl_buffer_done(&agent->stop_event);
    agent_tools_close(agent);
    bl_arena_done(&agent->arena);
}

/* ---- A prompt -------------------------------------------------------------------------------- */

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

static void agent_route(struct bl_agent *agent, struct bl_arena *arena, struct bl_text prompt)
{
    struct bl_list matches;

    bl_route(arena, prompt, agent->engine.tools, &matches);
    agent->engine.matched_commands = names_of(arena, &matches, "command");
    agent->engine.matched_tools = names_of(arena, &matches, "tool");
}

static void take_recorded(struct bl_agent *agent, struct bl_arena *arena,
                          struct bl_run_options *options)
{
    size_t count = 0;

    while (bl_store_session_recorded(agent->held, count).size > 0)
        count++;
    struct bl_text *recorded = bl_arena_alloc(arena, (count + 1) * sizeof *recorded);
    for (size_t i = 0; i < count; i++)
        recorded[i] = bl_arena_text(arena, bl_store_session_recorded(agent->held, i));
    options->recorded = recorded;
    options->recorded_count = count;
}

/* Adds the warnings of the open to those of the caller. */
static void add_warnings(struct bl_agent *agent, struct bl_arena *arena,
                         struct bl_run_options *options)
{
    const struct bl_store_recovery *recovery = bl_store_session_recovery(agent->held);
    size_t count = options->warning_count;

    if (!recovery->owner_died)
        return;
    struct bl_text *warnings = bl_arena_alloc(arena, (count + 1) * sizeof *warnings);
    if (count > 0)
        memcpy(warnings, options->warnings, count * sizeof *warnings);
    warnings[count] = bl_store_recovery_text(arena, agent->session.id, recovery);
    options->warnings = warnings;
    options->warning_count = count + 1;
}

/* From here on a stop has a receipt, and the prompt is listed. */
static void begin_prompt(struct bl_agent *agent, struct bl_scope *scope, struct bl_receipt *receipt)
{
    assert(agent->prompt == NULL);
    agent->prompt = scope;
    agent->finish =
        (struct bl_finish){.above = agent->above != NULL ? &agent->above->finish : NULL};
    BL_LOG(BL_ROOM_AGENT, BL_LOG_INFO, "prompt begins", BL_LOG_STRING("agent", agent->id),
           BL_LOG_STRING("session", agent->session.id),
           BL_LOG_BOOLEAN("sub_agent", agent->above != NULL));
    bl_receipt_open(receipt, scope, agent->id);
    receipt->background = agent_background_write;
    receipt->background_context = agent;
    list_prompt(agent, scope);
}

/* Notices of cells are not the user's messages: they must be removed before waiting messages are
 * reported. */
static void agent_settle(void *context)
{
    struct bl_agent *agent = context;

    if (agent->closing != NULL)
        agent->closing(agent->closing_context);
    agent_notices_sweep(agent);
}

void agent_prompt(struct bl_agent *agent, const struct bl_run_options *run, struct bl_scope *scope,
                  struct bl_unit *unit, struct bl_arena *arena, struct bl_run_result *ret_result)
{
    struct bl_run_options loop = *run;
    struct bl_receipt receipt;

    loop.run_id = agent->root->id;
    loop.agent = agent->above != NULL ? agent->id : NULL;
    agent_route(agent, arena, run->prompt);
    if (!agent->prompted) {
        take_recorded(agent, arena, &loop);
        add_warnings(agent, arena, &loop);
    }
    agent->prompted = true;
    agent_note_prompt(agent, run->prompt);
    begin_prompt(agent, scope, &receipt);
    loop.prompt = agent_notices_prompt(agent, arena, run->prompt);
    agent->closing = loop.closing;
    agent->closing_context = loop.closing_context;
    loop.closing = agent_settle;
    loop.closing_context = agent;
    bl_run(&agent->engine, &agent->session, &receipt, &loop, arena, ret_result);
    ret_result->undelivered = !bl_list_empty(&agent->inbox.waiting);
    calm(&agent->activity);
    if (agent->options.activities != NULL)
        bl_activity_end(&agent->activity, ret_result->receipt);
    if (unit != NULL)
        bl_receipt_fold(&receipt, unit);
    bl_receipt_close(&receipt);
    bl_usage_add(&agent->usage, &ret_result->usage);
    bl_spent_add(&agent->spent, &ret_result->spent);
    agent->turns_completed += ret_result->turns_completed;
    BL_LOG(BL_ROOM_AGENT, BL_LOG_INFO, "prompt ended", BL_LOG_STRING("agent", agent->id),
           BL_LOG_STRING("end", bl_turn_end_name(ret_result->end)),
           BL_LOG_INTEGER("turns", (int64_t)ret_result->turns_completed));
    agent->prompt = NULL;
    agent_models_settle(agent);
}

/* ---- The root -------------------------------------------------------------------------------- */

int bl_agent_open(const struct bl_agent_options *options, struct bl_agent **ret_agent,
                  struct bl_error *error)
{
    struct bl_agent *agent = bl_zalloc(sizeof *agent);

    agent->options = *options;
    agent->root = agent;
    agent->persona = options->persona;
    agent->budget_above = options->budget;
    agent->model = *options->model;
    if (options->session.run_id != NULL)
        bl_text_into(agent->id, sizeof agent->id, options->session.run_id);
    else
        bl_id_make(agent->id, "run_");
    agent->options.session.run_id = agent->id;
    int code = agent_open(agent, error);
    if (code != 0)
        bl_free(agent);
    else
        *ret_agent = agent;
    return code;
}

/* Report the start and end of a conversation; for a single loop, the loop itself reports them. */
static void agent_tell_start(struct bl_agent *agent, struct bl_text prompt)
{
    if (!agent->conversing)
        bl_journal_emit(&agent->journal, &(struct bl_event){.type = BL_EVENT_RUN_STARTED,
                                                            .text = prompt,
                                                            .model = &agent->model});
    agent->conversing = true;
}

static void agent_tell_end(struct bl_agent *agent)
{
    struct bl_error error = {0};

    if (!agent->conversing)
        return;
    bl_journal_emit(&agent->journal, &(struct bl_event){.type = BL_EVENT_RUN_ENDED,
                                                        .name = BL_TEXT("completed"),
                                                        .count = agent->turns_completed,
                                                        .usage = &agent->usage,
                                                        .spent = &agent->spent});
    bl_journal_note(&agent->journal, &error);
}

void bl_agent_close(struct bl_agent *agent)
{
    if (agent == NULL)
        return;
    agent->inbox.closed = true;
    struct bl_scope *outer = bl_scope_enter(&agent->shield);
    agent_end_background(agent);
    bl_scope_enter(outer);
    agent_tell_end(agent);
    agent_close(agent);
    bl_free(agent);
}

void bl_agent_prompt(struct bl_agent *agent, const struct bl_run_options *run,
                     struct bl_scope *scope, struct bl_arena *arena,
                     struct bl_run_result *ret_result)
{
    struct bl_run_options loop = *run;

    loop.journal = &agent->journal;
    agent_tell_start(agent, run->prompt);
    agent_prompt(agent, &loop, scope, agent->options.unit, arena, ret_result);
}

/* Stores the receipt of a stop for callers that requested it by id. */
static void unlist_compaction(struct bl_agent *agent, const struct bl_receipt *receipt)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(text, SIZE_MAX);

    if (agent->options.activities == NULL)
        return;
    bl_json_writer_init(&writer, &text);
    if (bl_scope_stopped(receipt->scope))
        bl_receipt_write(receipt, &writer);
    bl_activity_end(&agent->activity, bl_buffer_text(&text));
}

int bl_agent_compact(struct bl_agent *agent, struct bl_scope *scope, uint64_t *ret_dropped,
                     struct bl_error *error)
{
    struct bl_receipt receipt;
    struct bl_spent spent;

    agent_tell_start(agent, (struct bl_text){0});
    begin_prompt(agent, scope, &receipt);
    agent_set_phase(&agent->activity, "summary", (struct bl_text){0});
    int code = bl_session_compact(&agent->engine, &agent->session, &receipt, &agent->journal, 1,
                                  ret_dropped, &spent, error);
    unlist_compaction(agent, &receipt);
    bl_receipt_close(&receipt);
    if (code == 0)
        bl_usage_add(&agent->usage, &spent.usage);
    bl_spent_add(&agent->spent, &spent);
    agent->prompt = NULL;
    agent_models_settle(agent);
    return code;
}

const struct bl_model *bl_agent_model(const struct bl_agent *agent)
{
    return &agent->model;
}

const struct bl_session *bl_agent_session(const struct bl_agent *agent)
{
    return &agent->session;
}

const struct bl_store_recovery *bl_agent_recovery(const struct bl_agent *agent)
{
    return bl_store_session_recovery(agent->held);
}

const struct bl_spent *bl_agent_spent(const struct bl_agent *agent)
{
    return &agent->spent;
}

void bl_agent_write_background(struct bl_agent *agent, struct bl_json_writer *writer)
{
    agent_background_write(agent, writer);
}

const struct bl_tools *bl_agent_tools(const struct bl_agent *agent)
{
    return &agent->tools;
}

/* A stop of the run ends its session: everything else in the session gets the same grace period. */
static void retire(struct bl_stop_hook *hook, struct bl_scope *scope)
{
    const struct bl_agent *agent = BL_CONTAINER(hook, struct bl_agent, stopped);

    (void)scope;
    if (agent->options.toolbox != NULL)
        bl_toolbox_retire(agent->options.toolbox);
}

int bl_agent_run(const struct bl_agent_options *options, const struct bl_run_options *run,
                 struct bl_scope *scope, struct bl_arena *arena, struct bl_agent_result *ret_result,
                 struct bl_error *error)
{
    struct bl_run_options loop = *run;
    struct bl_agent *agent;

    if (loop.from_ns == 0)
        loop.from_ns = bl_now_ns();
    int code = bl_agent_open(options, &agent, error);
    if (code != 0)
        return code;
    loop.closing = agent_end_background;
    loop.closing_context = agent;
    *ret_result = (struct bl_agent_result){.recovery = *bl_agent_recovery(agent)};
    bl_list_init(&ret_result->undelivered);
    bl_text_into(ret_result->session_id, sizeof ret_result->session_id, agent->session.id);
    bl_stop_hook_add(&agent->stopped, scope, retire);
    agent_prompt(agent, &loop, scope, options->unit, arena, &ret_result->run);
    bl_stop_hook_remove(&agent->stopped);
    agent_list_undelivered(agent, arena, &ret_result->undelivered);
    bl_agent_close(agent);
    return 0;
}
