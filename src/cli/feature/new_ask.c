/* Lets a model plan: it may read the repository, and answers with JSON in the form of an outline.
 * An invalid plan goes back to it with the errors. */
#include "new.h"

#include "cli/signals.h"

#define OPERATION  "plan the feature"
#define TRIES_MAX  3u
#define STEPS_MAX  100u
#define PROMPT_MAX ((size_t)1024 * 1024)

static const char new_instructions[] =
    "Plan the work below as a list of tasks for this repository. Read the repository first; you "
    "cannot change it.\n\n"
    "- Each task is done in its own git worktree, by an agent that sees only that task: its "
    "description contains everything needed.\n"
    "- Tasks run in parallel unless `after` orders them. A task comes after the tasks whose "
    "results it needs, and after tasks that change the same files.\n"
    "- A task fits in one working session.\n"
    "- Criteria are statements that can be checked.\n\n"
    "The work:\n\n";

/* On the heap: a fiber's stack is small. */
struct new_planner {
    struct feature_new *new;
    struct bl_workspace *workspace;
    struct bl_scope scope; /* the runs' scope, which a signal stops */
    struct cli_signals signals;
    struct bl_text schema_text;
    struct bl_json_schema *schema;
    struct bl_agent_result result;
    char session[72]; /* empty: none yet */
};

/* ---- The model ------------------------------------------------------------------------------- */

static int new_open_workspace(struct new_planner *planner)
{
    struct feature_new *new = planner->new;
    const struct feature_options *options = new->options;
    struct bl_workspace_options open;

    bl_workspace_options_init(&open, options->directory);
    open.mode_chosen = true;
    open.mode = BL_PERMISSION_READ_ONLY;
    open.without_mcp = true;
    open.limits.max_steps = STEPS_MAX;
    open.store_path = options->store;
    int code = bl_workspace_open(&open, &planner->workspace, &new->error);
    if (code != 0)
        return code;
    if (planner->workspace->found.chosen)
        return 0;
    bl_error_set(&new->error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "--prompt",
                 "no model is configured for planning");
    bl_error_hint(&new->error, "set BELAY_PROVIDER and BELAY_MODEL, or list the tasks yourself");
    return BL_EINVAL;
}

static int new_make_schema(struct new_planner *planner)
{
    struct bl_arena *arena = &planner->new->arena;
    const struct bl_json *value = NULL;

    planner->schema_text = bl_record_input_schema(arena, &bl_outline_record);
    int code = bl_json_read(arena, planner->schema_text, NULL, &value, NULL);
    return code == 0 ? bl_json_schema_new(value, &planner->schema, &planner->new->error) : code;
}

/* Sets the error of a turn that failed or was stopped. */
static int new_refuse_end(struct new_planner *planner)
{
    struct feature_new *new = planner->new;
    const struct bl_run_result *run = &planner->result.run;

    if (run->error != NULL && run->error->code != 0)
        new->error = *run->error;
    bl_error_set(&new->error, BL_ECANCELED, BL_KIND_FEATURE, OPERATION, "--prompt",
                 "the model did not finish the plan");
    bl_error_hint(&new->error, "nothing was written");
    new->exit_code = bl_run_exit_code(run);
    if (run->receipt_line.size > 0)
        cli_remark(
            bl_arena_printf(&new->arena, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(run->receipt_line)));
    return new->error.code;
}

static int new_run(struct new_planner *planner, struct bl_text prompt, struct bl_text *ret_output)
{
    struct feature_new *new = planner->new;
    struct bl_agent_options agent = bl_workspace_agent(planner->workspace);
    struct bl_run_options loop = bl_workspace_run(planner->workspace, prompt);
    struct bl_run_result *run = &planner->result.run;
    char run_id[BL_ID_SIZE];

    bl_id_make(run_id, "run_");
    loop.run_id = run_id;
    agent.schema_text = planner->schema_text;
    agent.schema = planner->schema;
    agent.session.id = planner->session[0] != '\0' ? planner->session : NULL;
    agent.session.must_exist = planner->session[0] != '\0';
    agent.session.run_id = run_id;
    agent.session.prompt = prompt;
    int code =
        bl_agent_run(&agent, &loop, &planner->scope, &new->arena, &planner->result, &new->error);
    if (code != 0)
        return code;
    bl_text_into(planner->session, sizeof planner->session, planner->result.session_id);
    if (run->end != BL_TURN_COMPLETED || bl_list_empty(&run->turns))
        return new_refuse_end(planner);
    *ret_output = BL_CONTAINER(run->turns.previous, struct bl_turn_result, link)->output;
    return 0;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* Takes the model's answer. BL_EINVAL or BL_EPARSE if it is invalid; the error or the problems say
 * why. */
static int new_take(struct feature_new *new, struct bl_text output)
{
    const struct bl_json *value = NULL;
    struct bl_json_fault fault;

    if (bl_json_read(&new->arena, output, NULL, &value, &fault) != 0)
        return bl_error_set(&new->error, BL_EPARSE, BL_KIND_FEATURE, OPERATION, "--prompt",
                            "the model's plan is not JSON: expected %s, found %s", fault.expected,
                            fault.found);
    int code = bl_outline_take(&new->arena, value, &new->outline, &new->error);
    return code == 0 ? feature_new_check(new) : code;
}

static struct bl_text new_complaint(struct feature_new *new)
{
    BL_AUTO_BUFFER(text, PROMPT_MAX);

    bl_buffer_append(&text, BL_TEXT("The plan is invalid:\n\n"));
    BL_LIST_EACH (link, &new->problems) {
        bl_plan_problem_text(BL_CONTAINER(link, struct bl_plan_problem, link), &text);
        bl_buffer_append_byte(&text, '\n');
    }
    if (bl_list_empty(&new->problems))
        bl_buffer_printf(&text, "%s\n", new->error.message);
    bl_buffer_append(&text, BL_TEXT("\nReturn the complete, corrected plan.\n"));
    return bl_arena_text(&new->arena, bl_buffer_text(&text));
}

static int new_plan(struct new_planner *planner)
{
    struct feature_new *new = planner->new;
    struct bl_text output = {0};
    struct bl_text prompt =
        bl_arena_printf(&new->arena, "%s%s\n", new_instructions, new->options->prompt);
    int code = 0;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        code = new_run(planner, prompt, &output);
        if (code != 0)
            return code;
        code = new_take(new, output);
        if (code != BL_EINVAL && code != BL_EPARSE)
            return code;
        prompt = new_complaint(new);
        if (i + 1 < TRIES_MAX)
            new->error = (struct bl_error){0};
    }
    bl_error_hint(&new->error, "three plans of the model were invalid; nothing was written");
    return code;
}

/* On a second signal, ends the grace periods of processes that the model's tools started. */
static void new_hurry(void *context)
{
    struct new_planner *planner = context;

    if (planner->workspace->toolbox != NULL)
        bl_toolbox_hurry(planner->workspace->toolbox);
}

static int new_plan_in_scope(struct new_planner *planner)
{
    struct feature_new *new = planner->new;

    cli_signals_block(&planner->signals);
    int code = cli_signals_start(&planner->signals, &planner->scope, new_hurry, planner);
    if (code == 0)
        code = new_plan(planner);
    else
        bl_error_set(&new->error, code, BL_KIND_RUNTIME, "listen for signals", NULL,
                     "cannot listen for signals: %s", bl_error_text(code));
    cli_signals_end(&planner->signals);
    return code;
}

int feature_new_ask(struct feature_new *new)
{
    struct new_planner *planner = bl_zalloc(sizeof *planner);

    planner->new = new;
    bl_scope_init(&planner->scope, bl_scope_current());
    int code = new_make_schema(planner);
    if (code == 0)
        code = new_open_workspace(planner);
    if (code == 0)
        code = new_plan_in_scope(planner);
    bl_workspace_close(planner->workspace);
    bl_json_schema_free(planner->schema);
    bl_scope_done(&planner->scope);
    bl_free(planner);
    return code;
}
