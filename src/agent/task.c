/* Sub-agents: the tool `task`. */
#include <inttypes.h>
#include <stdio.h>

#include "parts.h"

/* Limit of a sub-agent's answer: the beginning and the end of a longer one are kept. */
#define ANSWER_MAX ((size_t)32 * 1024)

/* ---- Description for the model --------------------------------------------------------------- */

#define BL_RECORD_STRUCT struct agent_task_input
static const struct bl_member task_members[] = {
    BL_MEMBER_TEXT("agent", agent, .about = "The kind of sub-agent."),
    BL_MEMBER_TEXT("prompt", prompt, .least = 1,
                   .about = "What it must do, with everything it needs to know: it sees nothing of "
                            "this conversation."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record agent_task_input =
    BL_RECORD("input of task", struct agent_task_input, task_members, .closed = true);

/* Includes the names of the available kinds. */
struct bl_text task_schema_text(struct bl_arena *arena, const struct bl_list *personas)
{
    struct bl_member members[BL_COUNT(task_members)];
    struct bl_record record = agent_task_input;
    struct bl_names kinds = {0};

    BL_LIST_EACH (link, personas)
        kinds.count++;
    const char **names = bl_arena_alloc(arena, kinds.count * sizeof *names);
    kinds = (struct bl_names){.names = names};
    BL_LIST_EACH (link, personas)
        names[kinds.count++] = BL_CONTAINER(link, struct bl_persona, link)->name;
    memcpy(members, task_members, sizeof members);
    members[0].names = &kinds;
    record.members = members;
    return bl_record_input_schema(arena, &record);
}

struct bl_text task_description(struct bl_arena *arena, const struct bl_list *personas)
{
    struct bl_text text = BL_TEXT(
        "Delegates part of the work to a sub-agent, which has its own conversation, and returns "
        "its final answer. Several calls in one answer run in parallel. Use it for searches that "
        "would fill this conversation, and for parts that do not depend on each other. Kinds:");

    BL_LIST_EACH (link, personas) {
        const struct bl_persona *persona = BL_CONTAINER(link, struct bl_persona, link);
        text = bl_arena_printf(arena, BL_TEXT_FORMAT "\n- %s: %s", BL_TEXT_ARG(text), persona->name,
                               persona->description);
    }
    return text;
}

/* ---- The child ------------------------------------------------------------------------------- */

struct task {
    struct bl_agent child;
    const struct bl_tool_call *call;
    struct bl_scope scope; /* a stop of the child stops nothing else */
    struct bl_unit unit;
    struct bl_run_result run;
    struct bl_text prompt;
    uint64_t started_ns;
};

/* Opens the model of its persona, or uses that of the agent above. */
static int agent_task_open_model(struct task *task, struct bl_error *error)
{
    struct bl_agent *child = &task->child;
    const struct bl_model_source *models = child->options.models;

    child->model = child->above->model;
    if (models == NULL)
        return 0;
    int code = models->open(models->context, child->persona->model, &child->model,
                            &child->model_handle, error);
    child->model_opened = code == 0;
    return code;
}

static void agent_task_prepare(struct task *task, struct bl_agent *above,
                               const struct bl_persona *persona, const struct bl_tool_call *call)
{
    struct bl_agent *child = &task->child;
    struct bl_agent_options *options = &child->options;

    child->above = above;
    child->root = above->root;
    child->depth = above->depth + 1;
    child->persona = persona;
    child->budget_above = call->budget;
    bl_id_make(child->id, "agt_");
    *options = above->options;
    options->session = (struct bl_store_hold_options){
        .directory = above->root->options.session.directory,
        .run_id = child->id,
        .prompt = task->prompt,
        .agent_of = above->session.id,
        .agent_turn = call->turn,
        .persona = persona->name,
    };
    options->schema = NULL;
    options->schema_text = (struct bl_text){0};
    options->system = agent_system(call->arena, above->root->options.system, persona);
    bl_turn_limits_init(&options->limits);
    options->limits.max_steps = persona->max_steps;
    options->limits.max_budget_tokens = persona->max_budget_tokens;
    options->limits.synthesize = persona->synthesize;
}

static void agent_task_tell_started(const struct task *task)
{
    struct bl_event event = {
        .type = BL_EVENT_SUBAGENT_STARTED,
        .name = bl_text_from(task->child.persona->name),
        .child = task->child.id,
        .child_session = task->child.session.id,
        .text = task->prompt,
    };
    task->call->tell(task->call, &event);
}

static void agent_task_tell_ended(const struct task *task)
{
    struct bl_event event = {
        .type = BL_EVENT_SUBAGENT_ENDED,
        .name = bl_text_from(task->child.persona->name),
        .child = task->child.id,
        .child_session = task->child.session.id,
        .status = bl_turn_end_name(task->run.end),
        .ms = (bl_now_ns() - task->started_ns) / BL_NS_PER_MS,
        .usage = &task->run.usage,
        .spent = &task->run.spent,
    };
    task->call->tell(task->call, &event);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* Returns the beginning and the end of a long text. */
static struct bl_text agent_task_bounded(struct bl_arena *arena, struct bl_text text)
{
    if (text.size <= ANSWER_MAX)
        return text;
    struct bl_text head = bl_utf8_cut(text, ANSWER_MAX / 2);
    size_t from = text.size - ANSWER_MAX / 2;
    while (from < text.size && ((unsigned char)text.data[from] & 0xC0) == 0x80)
        from++;
    struct bl_text tail = {text.data + from, text.size - from};
    return bl_arena_printf(arena, BL_TEXT_FORMAT "\n…%zu bytes left out…\n" BL_TEXT_FORMAT,
                           BL_TEXT_ARG(head), text.size - head.size - tail.size, BL_TEXT_ARG(tail));
}

static struct bl_text why(const struct task *task)
{
    const struct bl_run_result *run = &task->run;
    struct bl_arena *arena = task->call->arena;
    struct bl_stop stop;

    switch (run->end) {
    case BL_TURN_COMPLETED: break;
    case BL_TURN_CANCELLED:
        bl_scope_stop_read(&task->scope, &stop);
        return bl_arena_printf(arena, "it was stopped (%s%s%s)", bl_stop_reason_name(stop.reason),
                               stop.origin[0] != '\0' ? ", " : "", stop.origin);
    case BL_TURN_TIMEOUT: return BL_TEXT("its deadline was reached");
    case BL_TURN_MAX_BUDGET: return BL_TEXT("max_budget_reached: the token budget is used up");
    case BL_TURN_MAX_STEPS: return BL_TEXT("max_steps_reached: it reached its limit of tool calls");
    case BL_TURN_MAX_TURNS: return BL_TEXT("max_turns_reached");
    case BL_TURN_ERROR:
        return bl_arena_printf(arena, "it failed: %s",
                               run->error != NULL ? run->error->message : "error");
    }
    return (struct bl_text){0};
}

static void agent_task_fill_result(struct task *task, struct bl_tool_result *ret_result)
{
    struct bl_arena *arena = task->call->arena;
    struct bl_text said = {0};

    if (!bl_list_empty(&task->run.turns))
        said = BL_CONTAINER(task->run.turns.previous, struct bl_turn_result, link)->output;
    said = agent_task_bounded(arena, bl_text_trim(said));
    ret_result->spent = task->run.spent;
    if (task->run.end == BL_TURN_COMPLETED) {
        ret_result->text = said.size > 0 ? said : BL_TEXT("(no answer)");
        return;
    }
    ret_result->is_error = true;
    ret_result->text = bl_arena_printf(
        arena, "The sub-agent %s (%s) did not complete: " BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT,
        task->child.persona->name, task->child.id, BL_TEXT_ARG(why(task)),
        said.size > 0 ? "\nIts answer so far:\n" : "", BL_TEXT_ARG(said));
}

static int agent_task_prompt_main(void *argument)
{
    struct task *task = argument;
    struct bl_run_options run = {
        .prompt = task->prompt,
        .max_turns = 1,
        .timed = task->child.persona->timeout_ns > 0,
        .timeout_ns = (int64_t)task->child.persona->timeout_ns,
        .closing = agent_cells_end,
        .closing_context = &task->child,
    };
    struct bl_scope *outer = bl_scope_enter(&task->scope);

    agent_prompt(&task->child, &run, &task->scope, &task->unit, task->call->arena, &task->run);
    bl_scope_enter(outer);
    return 0;
}

/* Runs on a stack of its own: nested agents would exceed one. */
static void run_child(struct task *task)
{
    struct bl_nursery nursery;

    agent_task_tell_started(task);
    bl_nursery_init(&nursery, bl_scope_current());
    if (bl_nursery_spawn(&nursery, NULL, task->child.id, agent_task_prompt_main, task, NULL) != 0)
        agent_task_prompt_main(task);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    agent_close(&task->child);
    agent_task_tell_ended(task);
}

static struct bl_text unknown_persona(const struct bl_tool_call *call, struct bl_text name,
                                      const struct bl_list *personas)
{
    struct bl_text text = bl_arena_printf(
        call->arena,
        "Unknown sub-agent '" BL_TEXT_FORMAT "'. Available:", BL_TEXT_ARG(bl_utf8_cut(name, 64)));
    BL_LIST_EACH (link, personas)
        text = bl_arena_printf(call->arena, BL_TEXT_FORMAT " %s", BL_TEXT_ARG(text),
                               BL_CONTAINER(link, struct bl_persona, link)->name);
    return text;
}

int agent_task(struct bl_agent *agent, const struct bl_tool_call *call,
               struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct agent_task_input input;

    bl_record_take(call->arena, &agent_task_input, call->input, &input);
    const struct bl_persona *persona = bl_persona_named(agent->options.personas, input.agent);
    *ret_result = (struct bl_tool_result){0};
    if (persona == NULL) {
        *ret_result = (struct bl_tool_result){
            .text = unknown_persona(call, input.agent, agent->options.personas), .is_error = true};
        return 0;
    }
    struct task *task = bl_zalloc(sizeof *task);
    task->call = call;
    task->prompt = input.prompt;
    task->started_ns = bl_now_ns();
    agent_task_prepare(task, agent, persona, call);
    bl_scope_init(&task->scope, call->scope);
    bl_unit_begin(&task->unit, BL_UNIT_AGENT, task->child.id, persona->name);
    int code = agent_task_open_model(task, error);
    if (code == 0)
        code = agent_open(&task->child, error);
    if (code == 0) {
        run_child(task);
        agent_task_fill_result(task, ret_result);
    } else {
        /* The model above may continue without it. */
        ret_result->text =
            bl_arena_printf(call->arena, "The sub-agent %s could not start: %s", persona->name,
                            error->code != 0 ? error->message : bl_error_text(code));
        ret_result->is_error = true;
        *error = (struct bl_error){0};
    }
    bl_unit_end(&task->unit, code != 0                            ? BL_FATE_NEVER_STARTED
                             : task->run.end == BL_TURN_COMPLETED ? BL_FATE_FINISHED
                                                                  : BL_FATE_ABORTED);
    bl_scope_done(&task->scope);
    bl_free(task);
    return bl_scope_check(call->scope);
}
