/* Design notes.
 *
 * A nested call runs in a fiber that does not belong to the turn: many at once, and the calling
 * cell may outlive the turn. So its only tie to the turn is an entry in the turn's list. When the
 * result of the turn is made, the turn detaches the calls in its list: from then on they are not
 * counted, their events belong to no turn, and their model usage is drawn from the budget above. */
#include "parts.h"

struct nested_step {
    struct step step;
    struct bl_list link; /* in its turn */
    struct turn *turn;   /* NULL: of none, or detached */
    char turn_id[BL_ID_SIZE];
    struct bl_budget budget; /* its own, below the turn's, which may end earlier */
};

void turn_detach_nested(struct turn *turn)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&turn->nested)) != NULL) {
        struct nested_step *own = BL_CONTAINER(link, struct nested_step, link);
        bl_list_init(&own->link);
        own->turn = NULL;
        own->step.call.turn = NULL;
        own->budget.above = turn->engine->budget_above;
    }
    turn->engine->turn = NULL;
}

static void turn_nested_begin(struct nested_step *own, struct bl_engine *engine,
                              const struct bl_nested_call *nested)
{
    struct turn *turn = engine->turn;

    *own = (struct nested_step){.turn = turn};
    own->step.from_ns = bl_clock_now_ns(engine->clock);
    own->budget = (struct bl_budget){.limit = BL_UNLIMITED, .above = engine->budget_above};
    own->step.engine = engine;
    own->step.id = bl_text_from(nested->id);
    own->step.name = bl_text_from(nested->name);
    own->step.nested = true;
    own->step.call = (struct bl_tool_call){.id = nested->id,
                                           .name = nested->name,
                                           .input_text = nested->input_text,
                                           .scope = &own->step.scope,
                                           .arena = nested->arena,
                                           .budget = &own->budget,
                                           .output = step_output,
                                           .tell = step_tell};
    bl_list_init(&own->link);
    if (turn == NULL)
        return;
    memcpy(own->turn_id, turn->result->turn_id, sizeof own->turn_id);
    own->step.call.turn = own->turn_id;
    own->budget.above = &turn->budget;
    bl_list_push_back(&turn->nested, &own->link);
}

/* Events outside of a turn are in no later transaction. */
static void turn_nested_end(struct nested_step *own)
{
    struct bl_journal *journal = engine_journal(own->step.engine);

    bl_list_remove(&own->link);
    if (own->step.engine->turn == NULL && journal != NULL)
        bl_journal_note(journal, NULL);
}

static enum bl_nested_end end_as(struct nested_step *own, enum bl_nested_end how,
                                 const char *status, struct bl_text text)
{
    own->step.result.text = text;
    own->step.result.is_error = how != BL_NESTED_OK || own->step.result.is_error;
    step_end(how == BL_NESTED_STEP_LIMIT ? NULL : own->turn, &own->step, status,
             step_ms(&own->step), text);
    return how;
}

static enum bl_nested_end turn_nested_deny(struct nested_step *own, const char *reason)
{
    if (own->turn != NULL)
        step_deny(own->turn, &own->step, reason);
    return end_as(own, BL_NESTED_DENIED, "denied",
                  bl_arena_text(own->step.call.arena, bl_text_from(reason)));
}

static enum bl_nested_end turn_nested_run_permitted(struct nested_step *own)
{
    struct bl_tool_result *result = &own->step.result;
    struct bl_error error = {0};
    int code = step_run(&own->step, &error);

    if (own->turn != NULL)
        step_count_spent(own->turn, &own->step);
    result->text = turn_note_images(own->step.call.arena, result->images,
                                    "left out, cells get only text", result->text);
    result->images = NULL;
    if (code == 0)
        return end_as(own, BL_NESTED_OK, result->is_error ? "error" : "ok", result->text);
    if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return end_as(own, BL_NESTED_STOPPED, "stopped", result->text);
    return end_as(own, BL_NESTED_FAILED, "error",
                  bl_arena_printf(own->step.call.arena, "the tool '%s' failed: %s",
                                  own->step.call.name,
                                  error.message[0] != '\0' ? error.message : bl_error_text(code)));
}

/* Runs in its own scope, below the running fiber's. */
static enum bl_nested_end turn_nested_run(struct nested_step *own)
{
    struct step *step = &own->step;
    enum bl_nested_end how;
    char *reason = bl_zalloc(TURN_REASON_SIZE);

    bl_scope_init(&step->scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&step->scope);
    bool may = step_permitted(step, reason, TURN_REASON_SIZE);
    if (bl_scope_check(&step->scope) != 0)
        how = end_as(own, BL_NESTED_STOPPED, "stopped", BL_TEXT("Stopped before it was run."));
    else if (!may)
        how = turn_nested_deny(own, reason);
    else
        how = turn_nested_run_permitted(own);
    bl_free(reason);
    bl_scope_enter(outer);
    bl_scope_done(&step->scope);
    return how;
}

/* Counts a step if the call belongs to a turn. */
static bool turn_nested_take_step(struct nested_step *own)
{
    if (own->turn == NULL)
        return true;
    if (own->turn->steps >= own->step.engine->limits.max_steps)
        return false;
    own->turn->steps++;
    return true;
}

enum bl_nested_end bl_nested_run(struct bl_engine *engine, const struct bl_nested_call *nested,
                                 struct bl_tool_result *ret_result)
{
    struct nested_step own;
    enum bl_nested_end how;

    *ret_result = (struct bl_tool_result){.is_error = true};
    if (bl_check() != 0) {
        ret_result->text = BL_TEXT("Stopped before it was run.");
        return BL_NESTED_STOPPED;
    }
    turn_nested_begin(&own, engine, nested);
    struct bl_text misfit = step_misfit(engine->tools, nested->arena, own.step.name,
                                        nested->input_text, &own.step.call.input);
    bool is_object = bl_json_is(own.step.call.input, BL_JSON_OBJECT);
    step_emit(&own.step,
              (struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                                .id = own.step.id,
                                .name = own.step.name,
                                .json = is_object ? nested->input_text : (struct bl_text){0}});
    if (misfit.size > 0)
        how = end_as(&own, BL_NESTED_INVALID, "invalid", misfit);
    else if (!turn_nested_take_step(&own))
        how = end_as(&own, BL_NESTED_STEP_LIMIT, "denied",
                     BL_TEXT("Not run: the limit of tool calls is reached."));
    else
        how = turn_nested_run(&own);
    turn_nested_end(&own);
    *ret_result = own.step.result;
    return how;
}
