/* The table of tools that an agent's engine calls: those of the toolbox that its persona may use,
 * and the agent's own, `task`, `exec` and `wait`; with hooks around each call, and questions to the
 * user. */
#include <stdio.h>

#include "parts.h"

/* More than the sum of the deadlines of all hooks of one event. */
#define HOOKS_NS_MAX (3600 * BL_NS_PER_S)

/* ---- Hooks ----------------------------------------------------------------------------------- */

/* Emits the warnings of hooks in the stream of the turn. */
struct hook_context {
    struct bl_agent *agent;
    const struct bl_tool_call *call; /* NULL: of the turn itself */
};

static void agent_tools_warn(void *context, struct bl_text message)
{
    const struct hook_context *hook = context;
    struct bl_event event = {.type = BL_EVENT_WARNING, .text = message};

    if (hook->call != NULL)
        hook->call->tell(hook->call, &event);
    else if (hook->agent->engine.journal != NULL)
        bl_journal_emit(hook->agent->engine.journal, &event);
}

/* Returns the event as its hook gets it. */
static struct bl_text event_text(struct bl_arena *arena, const struct bl_event *event)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX / 2);

    bl_json_writer_init(&writer, &out);
    bl_event_write(&writer, event);
    bl_buffer_append_byte(&out, '\n');
    return bl_arena_text(arena, bl_buffer_text(&out));
}

static int run_hooks(struct bl_agent *agent, enum bl_hook_when when,
                     const struct bl_tool_call *call, struct bl_text event, struct bl_arena *arena,
                     struct bl_text *ret_reason)
{
    struct hook_context context = {agent, call};
    struct bl_hook_run run = {
        .hooks = agent->options.hooks,
        .when = when,
        .tool = call != NULL ? call->name : NULL,
        .id = call != NULL ? call->id : agent->id,
        .event = event,
        .directory = agent->options.directory,
        .hidden = agent->options.hidden,
        .allowed = agent->options.env_allow,
        .arena = arena,
        .warn = agent_tools_warn,
        .context = &context,
    };

    return bl_hooks_run(&run, ret_reason);
}

/* Makes the event about a call for a hook: as the event of that name, without its number. */
static struct bl_event call_event(const struct bl_agent *agent, enum bl_event_type type,
                                  const struct bl_tool_call *call)
{
    return (struct bl_event){
        .type = type,
        .wall_ns = bl_clock_wall_ns(agent->engine.clock),
        .run = agent->root->id,
        .session = agent->session.id,
        .agent = agent->above != NULL ? agent->id : NULL,
        .turn = call->turn,
        .id = bl_text_from(call->id),
        .name = bl_text_from(call->name),
        .json = call->input_text,
    };
}

/* Returns false if a hook refuses the call, or a stop came. */
static bool hooks_agree(struct bl_agent *agent, const struct bl_tool_call *call, char *reason,
                        size_t reason_size)
{
    struct bl_text said = {0};

    if (!bl_hooks_any(agent->options.hooks, BL_HOOK_BEFORE_TOOL))
        return true;
    struct bl_event event = call_event(agent, BL_EVENT_TOOL_REQUESTED, call);
    int code = run_hooks(agent, BL_HOOK_BEFORE_TOOL, call, event_text(call->arena, &event),
                         call->arena, &said);
    if (code == 0)
        return true;
    said = bl_utf8_cut(bl_text_trim(said), 400);
    snprintf(reason, reason_size, "refused by a hook%s" BL_TEXT_FORMAT, said.size > 0 ? ": " : "",
             BL_TEXT_ARG(said));
    return false;
}

static void run_after_hooks(struct bl_agent *agent, const struct bl_tool_call *call,
                            const struct bl_tool_result *result, uint64_t from_ns)
{
    struct bl_text said;

    if (!bl_hooks_any(agent->options.hooks, BL_HOOK_AFTER_TOOL))
        return;
    struct bl_event event = call_event(agent, BL_EVENT_TOOL_ENDED, call);
    event.status = result->is_error ? "error" : "ok";
    event.ms = (bl_now_ns() - from_ns) / BL_NS_PER_MS;
    run_hooks(agent, BL_HOOK_AFTER_TOOL, call, event_text(call->arena, &event), call->arena, &said);
}

/* Before a stop, these hooks run below the prompt's scope, so that a stop ends them and its receipt
 * lists them: the turn's own scope is claimed at its end. After a stop, every wait there would end
 * at once, so they run in a shield, with a receipt of their own, because the stop's receipt is
 * complete. */
static void run_turn_hooks(struct bl_agent *agent, enum bl_hook_when when, struct bl_text event)
{
    bool stopped = bl_scope_stopped(agent->prompt);
    struct bl_scope scope, *outer = bl_scope_current();
    struct bl_receipt receipt;
    BL_AUTO_ARENA(arena);
    struct bl_text said;

    if (!bl_hooks_any(agent->options.hooks, when))
        return;
    if (stopped) {
        /* Each hook has its own deadline. */
        bl_shield_begin(&scope, HOOKS_NS_MAX);
        bl_receipt_open(&receipt, &scope, agent->id);
    } else {
        bl_scope_init(&scope, agent->prompt);
        bl_scope_enter(&scope);
    }
    run_hooks(agent, when, NULL, event, &arena, &said);
    if (stopped) {
        bl_receipt_close(&receipt);
        bl_shield_end(&scope);
    } else {
        bl_scope_enter(outer);
        bl_scope_done(&scope);
    }
}

/* The hooks of a stop wait for the end of its turn, which must be durable first. */
static void follow_stop(struct bl_agent *agent, const struct bl_event *event)
{
    BL_AUTO_ARENA(arena);

    if (event->id.size > 0 || !bl_hooks_any(agent->options.hooks, BL_HOOK_STOP))
        return;
    struct bl_text text = event_text(&arena, event);
    if (event->turn != NULL)
        bl_buffer_append(&agent->stop_event, text);
    else
        run_turn_hooks(agent, BL_HOOK_STOP, text);
}

void agent_hooks_follow(struct bl_agent *agent, const struct bl_event *event)
{
    BL_AUTO_ARENA(arena);

    if (agent->above != NULL || agent->options.hooks == NULL)
        return;
    if (event->type == BL_EVENT_RECEIPT)
        follow_stop(agent, event);
    if (event->type != BL_EVENT_TURN_STARTED && event->type != BL_EVENT_TURN_ENDED)
        return;
    bool started = event->type == BL_EVENT_TURN_STARTED;
    run_turn_hooks(agent, started ? BL_HOOK_TURN_START : BL_HOOK_TURN_END,
                   event_text(&arena, event));
    if (!started && agent->stop_event.size > 0)
        run_turn_hooks(agent, BL_HOOK_STOP, bl_buffer_text(&agent->stop_event));
    bl_buffer_clear(&agent->stop_event);
}

/* ---- The engine's table ---------------------------------------------------------------------- */

/* The agent's own tools; OWN_COUNT for any other tool. */
enum own_tool {
    OWN_TASK,
    OWN_EXEC,
    OWN_WAIT,
    OWN_PLAN,
    OWN_COUNT,
};

static enum own_tool own_tool(const char *name)
{
    static const char *const names[] = {
        [OWN_TASK] = BL_TOOL_TASK,
        [OWN_EXEC] = BL_TOOL_EXEC,
        [OWN_WAIT] = BL_TOOL_WAIT,
        [OWN_PLAN] = BL_TOOL_PLAN,
    };
    size_t which = 0;

    while (which < OWN_COUNT && strcmp(names[which], name) != 0)
        which++;
    return (enum own_tool)which;
}

bool agent_tool_is_nested(const char *name)
{
    return own_tool(name) == OWN_COUNT;
}

/* Returns the subject of rules about one of the agent's own tools: cells have none. */
static struct bl_text own_subject(const struct bl_tool_call *call)
{
    struct agent_task_input input = {0};

    if (own_tool(call->name) == OWN_TASK)
        bl_record_take(call->arena, &agent_task_input, call->input, &input);
    return input.agent;
}

/* Decides by the rules alone. The rules check everything that a sub-agent does again, and also a
 * cell, which can only call tools. */
static enum bl_permit agent_tools_decide(const struct bl_agent *agent,
                                         const struct bl_tool_call *call, char *ret_reason,
                                         size_t reason_size)
{
    const struct bl_permissions *permissions = agent->options.permissions;

    if (own_tool(call->name) == OWN_PLAN)
        return agent_plan_permit(agent, ret_reason, reason_size);
    if (own_tool(call->name) != OWN_COUNT)
        return permissions == NULL
                   ? BL_PERMIT_ALLOWED
                   : bl_permissions_decide(permissions, call->name, own_subject(call), ret_reason,
                                           reason_size);
    const struct bl_tools *box = bl_toolbox_tools(agent->options.toolbox);
    return box->permit(box->context, call, ret_reason, reason_size);
}

static enum bl_permit agent_permit(void *context, const struct bl_tool_call *call, char *ret_reason,
                                   size_t reason_size)
{
    struct bl_agent *agent = context;
    enum bl_permit permit = agent_tools_decide(agent, call, ret_reason, reason_size);

    if (permit != BL_PERMIT_DENIED && !hooks_agree(agent, call, ret_reason, reason_size))
        return BL_PERMIT_DENIED;
    return permit;
}

/* Asks the question in the running fiber. */
static int agent_tools_ask(struct bl_agent *agent, const struct bl_tool_call *call,
                           const char *question, struct bl_answer *ret_answer)
{
    const struct bl_asker *asker = agent->options.asker;
    struct bl_question asked = {
        .agent = agent->above != NULL ? agent->id : NULL,
        .id = call->id,
        .tool = call->name,
        .text = bl_text_from(question),
        .input = call->input,
        .rule = own_tool(call->name) == OWN_PLAN    ? (struct bl_text){0}
                : own_tool(call->name) != OWN_COUNT ? bl_text_from(call->name)
                                                    : bl_toolbox_rule(agent->options.toolbox, call),
        .arena = call->arena,
    };
    struct bl_scope limited;

    bl_limit_begin(&limited, asker->limit_ns > 0 ? asker->limit_ns : BL_NEVER);
    int code = asker->ask(asker->context, &asked, ret_answer);
    bl_limit_end(&limited);
    if (code == 0 && ret_answer->reply == BL_REPLY_ALWAYS && asked.rule.size > 0 &&
        agent->options.permissions != NULL)
        bl_permissions_add(agent->options.permissions, true, asked.rule.data, NULL);
    return code;
}

static void agent_tools_count_asked(struct agent_asked *asked, bool begins)
{
    if (begins && asked->open++ == 0)
        asked->since_ns = bl_now_ns();
    if (!begins && --asked->open == 0)
        asked->total_ns += bl_now_ns() - asked->since_ns;
}

/* The time until the answer does not count as time of the waiting calls. */
static void agent_tools_note_asked(struct bl_agent *agent, bool begins)
{
    agent_tools_count_asked(&agent->asked, begins);
    for (struct bl_agent *above = agent->above; above != NULL; above = above->above)
        agent_tools_count_asked(&above->asked_below, begins);
}

/* Writes the user's words of a no: the model continues with them. */
static void agent_tools_tell_reason(struct bl_text said, bool plan, char *reason,
                                    size_t reason_size)
{
    struct bl_buffer text;

    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_append(&text, plan ? BL_TEXT("the user asks for changes to the plan: ")
                                 : BL_TEXT("the user said no, and asks for this instead: "));
    bl_buffer_append(&text, bl_utf8_cut(said, BL_REASON_MAX));
    bl_buffer_append_byte(&text, '\0');
    bl_text_into(reason, reason_size, text.data);
    bl_buffer_done(&text);
}

static enum bl_permit agent_ask(void *context, const struct bl_tool_call *call,
                                const char *question, char *ret_reason, size_t reason_size)
{
    struct bl_agent *agent = context;
    struct bl_answer answer = {.reply = BL_REPLY_NO};
    bool plan = own_tool(call->name) == OWN_PLAN;

    agent_tools_note_asked(agent, true);
    /* The answer to an earlier question may have decided this one: "always". */
    int code = bl_lock_take(&agent->root->asking);
    enum bl_permit permit = BL_PERMIT_ASK;
    if (code == 0) {
        permit = agent_tools_decide(agent, call, ret_reason, reason_size);
        if (permit == BL_PERMIT_ASK)
            code = agent_tools_ask(agent, call, question, &answer);
        bl_lock_give(&agent->root->asking);
    }
    agent_tools_note_asked(agent, false);
    if (permit != BL_PERMIT_ASK)
        return permit;
    if (code == 0 && answer.reply != BL_REPLY_NO) {
        if (plan)
            bl_permissions_set_mode(agent->options.permissions, answer.mode);
        return BL_PERMIT_ALLOWED;
    }
    if (code == 0 && answer.reason.size > 0) {
        agent_tools_tell_reason(bl_text_trim(answer.reason), plan, ret_reason, reason_size);
        return BL_PERMIT_DENIED;
    }
    snprintf(ret_reason, reason_size, "%s",
             code == 0 && plan               ? "the user has not approved the plan"
             : code == 0                     ? "the user said no"
             : bl_scope_stopped(call->scope) ? "it was stopped before the question was answered"
             : code == BL_ETIMEDOUT          ? "the question was not answered in time"
                                             : "no user could be asked");
    return BL_PERMIT_DENIED;
}

/* The agent's own tools are refused only by rules that no other rule overrides. */
static const char *const *agent_rules(void *context, const struct bl_tool_call *call)
{
    const struct bl_agent *agent = context;

    return own_tool(call->name) != OWN_COUNT
               ? NULL
               : bl_toolbox_rules_allowing(agent->options.toolbox, call);
}

static int agent_call(void *context, const struct bl_tool_call *call,
                      struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct bl_agent *agent = context;
    const struct bl_tools *box;
    const struct agent_asked *asked =
        own_tool(call->name) == OWN_TASK ? &agent->asked_below : &agent->asked;
    uint64_t from_ns = bl_now_ns(), asked_ns = asked->total_ns;
    int code = 0;

    switch (own_tool(call->name)) {
    case OWN_TASK: code = agent_task(agent, call, ret_result, error); break;
    case OWN_EXEC: code = agent_exec(agent, call, ret_result, error); break;
    case OWN_WAIT: code = agent_wait(agent, call, ret_result, error); break;
    case OWN_PLAN: agent_plan(agent, call, ret_result); break;
    case OWN_COUNT:
    default:
        box = bl_toolbox_tools(agent->options.toolbox);
        code = box->call(box->context, call, ret_result, error);
        break;
    }
    if (own_tool(call->name) != OWN_COUNT)
        ret_result->asked_ns = asked->total_ns - asked_ns;
    if (code == 0)
        run_after_hooks(agent, call, ret_result, from_ns);
    return code;
}

/* ---- Offers ---------------------------------------------------------------------------------- */

/* A persona's names may have wildcards. */
static bool may_use(const struct bl_persona *persona, const char *tool)
{
    if (persona == NULL || persona->tools == NULL)
        return true;
    for (size_t i = 0; persona->tools[i] != NULL; i++)
        if (bl_tool_name_fits(persona->tools[i], tool))
            return true;
    return false;
}

struct bl_tools bl_agent_offers(struct bl_arena *arena, const struct bl_toolbox *toolbox,
                                const struct bl_list *personas)
{
    const struct bl_tools *box = toolbox != NULL ? bl_toolbox_tools(toolbox) : NULL;
    size_t count = box != NULL ? box->offer_count : 0;
    struct bl_tool_offer *offers = bl_arena_alloc(arena, (count + OWN_COUNT) * sizeof *offers);
    bool any = count > 0;

    if (any)
        memcpy(offers, box->offers, count * sizeof *offers);
    if (any && personas != NULL && !bl_list_empty(personas))
        offers[count++] = (struct bl_tool_offer){
            .name = BL_TOOL_TASK,
            .description = task_description(arena, personas).data,
            .schema = task_schema_text(arena, personas),
            .parallel = true,
        };
    if (any) {
        offers[count++] = exec_offer(arena);
        offers[count++] = wait_offer(arena);
    }
    return (struct bl_tools){.offers = offers, .offer_count = count};
}

/* The agent's own tools are compiled once: they do not change. */
static int agent_tools_compile(struct bl_agent *agent, struct bl_tool_offer *offer,
                               struct bl_error *error)
{
    struct bl_json_schema **schema = &agent->schemas[own_tool(offer->name)];
    const struct bl_json *value;
    int code = 0;

    if (*schema == NULL)
        code = bl_json_read(&agent->arena, offer->schema, NULL, &value, NULL);
    if (*schema == NULL && code == 0)
        code = bl_json_schema_new(value, schema, error);
    offer->compiled = *schema;
    return code;
}

/* Makes the offers from the toolbox's current ones. */
static int take_offers(struct bl_agent *agent, struct bl_error *error)
{
    const struct bl_list *personas =
        agent->depth < AGENT_DEPTH_MAX ? agent->options.personas : NULL;
    struct bl_toolbox *toolbox = agent->options.toolbox;
    struct bl_arena arena;
    size_t count = 0;
    int code = 0;

    bl_arena_init(&arena);
    struct bl_tools all = bl_agent_offers(&arena, toolbox, personas);
    struct bl_tool_offer *offers = bl_arena_alloc(&arena, (all.offer_count + 2) * sizeof *offers);
    for (size_t i = 0; i < all.offer_count && code == 0; i++) {
        if (!may_use(agent->persona, all.offers[i].name))
            continue;
        offers[count] = all.offers[i];
        if (own_tool(all.offers[i].name) != OWN_COUNT)
            code = agent_tools_compile(agent, &offers[count], error);
        count++;
    }
    agent->planning = agent_plan_mode(agent);
    agent->engine.system = agent_plan_system(agent);
    if (code == 0 && agent->planning && agent_plan_can_be_approved(agent)) {
        offers[count] = plan_offer(&arena);
        code = agent_tools_compile(agent, &offers[count++], error);
    }
    bl_toolbox_let_go(agent->offers_held);
    agent->offers_held = toolbox != NULL ? bl_toolbox_hold(toolbox) : NULL;
    agent->offers_taken = toolbox != NULL ? bl_toolbox_tools(toolbox)->offers : NULL;
    bl_arena_done(&agent->offers_arena);
    agent->offers_arena = arena;
    agent->tools.offers = offers;
    agent->tools.offer_count = count;
    return code;
}

/* Between calls of the model, our offers follow those of the servers, which come and go. The
 * permission mode may have changed, too. */
static void agent_refresh(void *context)
{
    struct bl_agent *agent = context;
    struct bl_toolbox *toolbox = agent->options.toolbox;
    struct bl_error error = {0};
    bool other = agent_plan_mode(agent) != agent->planning;

    if (toolbox != NULL && bl_toolbox_tools(toolbox)->refresh != NULL)
        bl_toolbox_refresh(toolbox);
    if (other || (toolbox != NULL && bl_toolbox_tools(toolbox)->offers != agent->offers_taken))
        take_offers(agent, &error);
}

/* Notices about servers are emitted in the stream of the root. */
static void agent_tools_tell_notice(void *context, struct bl_text text)
{
    struct bl_agent *agent = context;

    bl_engine_tell(&agent->engine, &(struct bl_event){.type = BL_EVENT_WARNING, .text = text});
}

int agent_tools_open(struct bl_agent *agent, struct bl_error *error)
{
    struct bl_toolbox *toolbox = agent->options.toolbox;
    bool changes = toolbox != NULL && bl_toolbox_tools(toolbox)->refresh != NULL;

    agent->tools = (struct bl_tools){
        .context = agent,
        .refresh = changes || (toolbox != NULL && agent->options.permissions != NULL)
                       ? agent_refresh
                       : NULL,
        .permit = agent_permit,
        .ask = agent->options.asker != NULL ? agent_ask : NULL,
        .rules = agent_rules,
        .call = agent_call,
        .settle = agent_cells_settle,
    };
    if (changes && agent->above == NULL)
        bl_toolbox_set_notice(toolbox, agent_tools_tell_notice, agent);
    return take_offers(agent, error);
}

void agent_tools_close(struct bl_agent *agent)
{
    struct bl_toolbox *toolbox = agent->options.toolbox;

    if (toolbox != NULL && agent->above == NULL)
        bl_toolbox_set_notice(toolbox, NULL, NULL);
    bl_toolbox_let_go(agent->offers_held);
    bl_arena_done(&agent->offers_arena);
    for (size_t i = 0; i < BL_COUNT(agent->schemas); i++)
        bl_json_schema_free(agent->schemas[i]);
}
